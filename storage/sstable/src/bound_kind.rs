//! The kinds of bounds that range tombstone markers, row indexes and Statistics.db name by number.

use model::comparable::BoundSide;

/// The kind of a bound of a range tombstone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BoundKind {
    /// Ends a range before its prefix.
    ExclusiveEnd,
    /// Starts a range with its prefix.
    InclusiveStart,
    /// Ends one range before its prefix and starts another with it.
    ExclusiveEndInclusiveStart,
    /// Ends one range with its prefix and starts another after it.
    InclusiveEndExclusiveStart,
    /// Ends a range with its prefix.
    InclusiveEnd,
    /// Starts a range after its prefix.
    ExclusiveStart,
}

impl BoundKind {
    /// Returns the kind that a number stands for in files.
    pub fn from_number(number: u8) -> Option<BoundKind> {
        Some(match number {
            0 => BoundKind::ExclusiveEnd,
            1 => BoundKind::InclusiveStart,
            2 => BoundKind::ExclusiveEndInclusiveStart,
            5 => BoundKind::InclusiveEndExclusiveStart,
            6 => BoundKind::InclusiveEnd,
            7 => BoundKind::ExclusiveStart,
            _ => return None,
        })
    }

    /// Returns the number that stands for the kind in files.
    pub fn number(self) -> u8 {
        match self {
            BoundKind::ExclusiveEnd => 0,
            BoundKind::InclusiveStart => 1,
            BoundKind::ExclusiveEndInclusiveStart => 2,
            BoundKind::InclusiveEndExclusiveStart => 5,
            BoundKind::InclusiveEnd => 6,
            BoundKind::ExclusiveStart => 7,
        }
    }

    /// Returns whether the bound lies before or after the rows of its prefix.
    pub fn side(self) -> BoundSide {
        match self {
            BoundKind::ExclusiveEnd | BoundKind::InclusiveStart | BoundKind::ExclusiveEndInclusiveStart => {
                BoundSide::Before
            }
            _ => BoundSide::After,
        }
    }

    /// Returns whether one range ends and another starts.
    pub fn is_boundary(self) -> bool {
        matches!(self, BoundKind::ExclusiveEndInclusiveStart | BoundKind::InclusiveEndExclusiveStart)
    }

    /// Returns whether a range starts and none ends.
    pub fn is_start(self) -> bool {
        matches!(self, BoundKind::InclusiveStart | BoundKind::ExclusiveStart)
    }

    /// Returns the kind of a marker on one side of its prefix at which a range ends, starts or both; `None` if neither.
    pub fn of(side: BoundSide, ends: bool, starts: bool) -> Option<BoundKind> {
        Some(match (side, ends, starts) {
            (_, false, false) => return None,
            (BoundSide::Before, true, true) => BoundKind::ExclusiveEndInclusiveStart,
            (BoundSide::Before, true, false) => BoundKind::ExclusiveEnd,
            (BoundSide::Before, false, true) => BoundKind::InclusiveStart,
            (BoundSide::After, true, true) => BoundKind::InclusiveEndExclusiveStart,
            (BoundSide::After, true, false) => BoundKind::InclusiveEnd,
            (BoundSide::After, false, true) => BoundKind::ExclusiveStart,
        })
    }
}

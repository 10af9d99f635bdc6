//! Checks that what a read showed agrees with the history.
//!
//! 1. The history must allow the value of every cell that a read shows, and the absence of every cell that it does not.
//! 2. A row shows if and only if its marker or one of its cells does.
//! 3. A read of one partition may not show part of a write, whatever the write's fate.
//! 4. A count, a filter or an aggregate must agree with some allowed state.

use crate::judges::history::{CellKey, History, MARKER, STATIC, Span, Violation, WHOLE, WriteId};
use std::collections::{BTreeMap, BTreeSet};

/// What a read shows of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// The value.
    Value(Option<WriteId>),
    /// An element of a set: only whether it is there.
    Present(bool),
}

impl Shown {
    fn agrees(self, value: Option<WriteId>) -> bool {
        match self {
            Shown::Value(shown) => shown == value,
            Shown::Present(shown) => shown == value.is_some(),
        }
    }
}

/// The cells and rows that a read of a partition showed.
#[derive(Clone, Debug, Default)]
pub struct ReadResult {
    /// Every cell that was asked for.
    pub cells: BTreeMap<CellKey, Shown>,
    /// The clusterings of the rows that were returned.
    pub rows: BTreeSet<i64>,
}

/// A partition, or a part of it, that was read.
#[derive(Clone, Debug)]
pub struct ReadTarget {
    /// Index of the table.
    pub table: u8,
    /// Partition key.
    pub pk: i64,
    /// The clusterings that were asked for.
    pub cks: Vec<i64>,
    /// Returns the cells that make a row exist, among them the marker, for a history, the index of a table, a partition
    /// key and a clustering.
    pub row_cells: fn(&History, u8, i64, i64) -> Vec<CellKey>,
}

/// How a read was made.
#[derive(Clone, Copy, Debug)]
pub struct ReadContext {
    /// When it began and ended.
    pub span: Span,
    /// Whether it was one request without pages, so that no write may show in part.
    pub is_one_request: bool,
    /// Whether everything that a read shows is durable, so that the history may learn the fate of writes from it.
    pub is_durable: bool,
}

/// Checks a read of a partition. If what it shows is durable, the history learns from it.
pub fn check_read(
    history: &mut History,
    target: &ReadTarget,
    seen: &ReadResult,
    context: ReadContext,
) -> Result<(), Violation> {
    let span = context.span;
    let fail = |text: String| Err(Violation(format!("table {} pk {}: {text}; {seen:?}", target.table, target.pk)));
    if let Some(stranger) = seen.rows.iter().find(|ck| !target.cks.contains(ck)) {
        return fail(format!("row {stranger} was not asked for or never written"));
    }
    for (cell, shown) in &seen.cells {
        let allowed = match shown {
            Shown::Value(value) => history.is_allowed(*cell, *value, span),
            Shown::Present(there) if history.allows(*cell, span, |value| value.is_some() == *there) => Ok(()),
            Shown::Present(there) => Err(format!("{cell:?} is there: {there}")),
        };
        if let Err(text) = allowed {
            return fail(text);
        }
    }
    for &ck in &target.cks {
        let cells = (target.row_cells)(history, target.table, target.pk, ck);
        if seen.rows.contains(&ck) {
            if !history.may_exist(&cells, span) {
                return fail(format!("row {ck} shows without marker and values"));
            }
        } else if history.must_exist(&cells, span) {
            return fail(format!("row {ck} is missing"));
        }
    }
    if context.is_one_request
        && let Err(text) = check_whole(history, seen, span)
    {
        return fail(text);
    }
    if context.is_durable {
        for (cell, shown) in &seen.cells {
            if let Shown::Value(value) = shown {
                history.learn(*cell, *value, span);
            }
        }
    }
    Ok(())
}

/// Checks that every write that shows in one cell shows in all other cells that the read covers, unless something hides
/// it there.
fn check_whole(history: &History, seen: &ReadResult, span: Span) -> Result<(), String> {
    let mut ids: Vec<WriteId> = Vec::new();
    for shown in seen.cells.values() {
        if let Shown::Value(Some(id)) = shown {
            ids.push(*id);
        }
    }
    ids.sort_unstable();
    ids.dedup();
    for id in ids.into_iter().filter(|id| history.is_whole(*id, span)) {
        for (cell, written) in &history.write(id).effects {
            if cell.column == MARKER {
                continue;
            }
            if cell.element == WHOLE {
                check_cover(seen, *cell, id)?;
                continue;
            }
            let Some(shown) = seen.cells.get(cell) else { continue };
            if !shown.agrees(*written) && !history.may_hide(*cell, id, |value| shown.agrees(value), span) {
                return Err(format!("write {id} shows, but {cell:?} shows {shown:?} instead of {written:?}"));
            }
        }
    }
    Ok(())
}

/// Checks that a list shows no element older than a write that covered the whole list.
fn check_cover(seen: &ReadResult, cover: CellKey, id: WriteId) -> Result<(), String> {
    let from = CellKey { element: WHOLE + 1, ..cover };
    let to = CellKey { element: i64::MAX, ..cover };
    for (cell, shown) in seen.cells.range(from..=to) {
        if let Shown::Value(Some(older)) = shown
            && *older < id
        {
            return Err(format!("write {id} covers the list, but {cell:?} still shows {older}"));
        }
    }
    Ok(())
}

/// Checks which rows a filter on one column returned. `cells` are the clusterings with the cells that it looked at, and
/// `wanted` says whether a value passes.
pub fn check_filter(
    history: &History,
    cells: &[(i64, CellKey)],
    rows: &BTreeSet<i64>,
    wanted: impl Fn(Option<WriteId>) -> bool,
    span: Span,
) -> Result<(), Violation> {
    for (ck, cell) in cells {
        let came = rows.contains(ck);
        if !history.allows(*cell, span, |value| wanted(value) == came) {
            return Err(Violation(format!("a filter gave row {ck}: {came}, which no state of {cell:?} allows")));
        }
    }
    Ok(())
}

/// Checks how many rows a read counted.
pub fn check_count(history: &History, target: &ReadTarget, counted: i64, span: Span) -> Result<(), Violation> {
    let (mut least, mut most) = (0, 0);
    for &ck in &target.cks {
        let cells = (target.row_cells)(history, target.table, target.pk, ck);
        least += i64::from(history.must_exist(&cells, span));
        most += i64::from(history.may_exist(&cells, span));
    }
    if counted < least || counted > most {
        let (table, pk) = (target.table, target.pk);
        return Err(Violation(format!("table {table} pk {pk}: {counted} rows counted, {least}..={most} allowed")));
    }
    Ok(())
}

/// Checks the largest or the smallest value of a column.
pub fn check_extreme(
    history: &History,
    cells: &[CellKey],
    extreme: Option<WriteId>,
    largest: bool,
    span: Span,
) -> Result<(), Violation> {
    let beyond = |value: WriteId| extreme.is_none_or(|extreme| if largest { value > extreme } else { value < extreme });
    let comes = extreme.is_none() || cells.iter().any(|cell| history.allows(*cell, span, |value| value == extreme));
    // Every cell may be empty, or have a value that does not exceed the extreme.
    let holds = cells.iter().all(|cell| history.allows(*cell, span, |value| value.is_none_or(|value| !beyond(value))));
    if comes && holds {
        return Ok(());
    }
    Err(Violation(format!("max or min {extreme:?} of {cells:?}, which no state allows")))
}

/// Whether a cell is static.
pub fn is_static(cell: &CellKey) -> bool {
    cell.ck == STATIC
}

#[cfg(test)]
#[path = "read_checks_tests.rs"]
mod tests;

//! Plans of SELECT, and the restrictions that UPDATE and DELETE share with it.

use super::{Projection, Term};
use model::{ColumnId, IndexedPart, Table};
use std::sync::Arc;

/// The values that a column, or several together, may have.
#[derive(Clone, PartialEq, Debug)]
pub enum Choice {
    /// `=`.
    One(Term),
    /// `IN (...)`, as written.
    Many(Vec<Term>),
    /// `IN ?`: a list of the column's type.
    Marker(u16),
    /// `(a, b) = (x, y)` and `(a, b) IN ((x, y), (z, w))`.
    Tuples {
        /// How many columns.
        columns: usize,
        /// Their values, as written.
        tuples: Vec<Tuple>,
    },
    /// `(a, b) IN ?`: a list of tuples of the columns' types.
    TuplesMarker {
        /// How many columns.
        columns: usize,
        /// The marker.
        marker: u16,
    },
}

impl Choice {
    /// How many columns this is a choice for.
    pub fn columns(&self) -> usize {
        match self {
            Choice::One(_) | Choice::Many(_) | Choice::Marker(_) => 1,
            Choice::Tuples { columns, .. } | Choice::TuplesMarker { columns, .. } => *columns,
        }
    }
}

/// Values of columns that follow each other.
#[derive(Clone, PartialEq, Debug)]
pub enum Tuple {
    /// `(x, y)`, or `x` alone.
    Terms(Vec<Term>),
    /// `?`: a tuple of the columns' types.
    Marker {
        /// The marker.
        marker: u16,
        /// How many columns.
        columns: usize,
    },
}

/// A bound of a token range.
#[derive(Clone, PartialEq, Debug)]
pub struct TokenBound {
    /// The value.
    pub term: Term,
    /// `<=` and `>=`.
    pub inclusive: bool,
}

/// A bound of a slice, on one clustering column or on several that follow each other.
#[derive(Clone, PartialEq, Debug)]
pub struct SliceBound {
    /// The values, at least one.
    pub values: Tuple,
    /// `<=` and `>=`.
    pub inclusive: bool,
}

/// `token(pk) > a AND token(pk) <= b`.
#[derive(Clone, PartialEq, Debug)]
pub struct TokenBounds {
    /// Lower bound.
    pub lower: Option<TokenBound>,
    /// Upper bound.
    pub upper: Option<TokenBound>,
}

/// Which partitions.
#[derive(Clone, PartialEq, Debug)]
pub enum PartitionRestriction {
    /// One choice per partition key column.
    Keys(Vec<Choice>),
    /// `token(pk) > a AND token(pk) <= b`; `token(pk) = a` is both inclusive bounds.
    Tokens {
        /// Lower bound.
        lower: Option<TokenBound>,
        /// Upper bound.
        upper: Option<TokenBound>,
    },
    /// All.
    Scan,
}

/// Which rows of a partition: choices for the first columns, then perhaps a slice of the next.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ClusteringRestriction {
    /// `=` and IN for the first clustering columns, in their order.
    pub choices: Vec<Choice>,
    /// Lower bound of the columns after them, in the order of their values (not the table's, which may descend).
    pub lower: Option<SliceBound>,
    /// Upper bound of the columns after them.
    pub upper: Option<SliceBound>,
    /// Whether the bounds were, at least in part, written as tuples: they then take no null.
    pub tuples: bool,
}

impl ClusteringRestriction {
    /// Whether every row is meant.
    pub fn is_empty(&self) -> bool {
        self.choices.is_empty() && !self.is_slice()
    }

    /// Whether there is a slice.
    pub fn is_slice(&self) -> bool {
        self.lower.is_some() || self.upper.is_some()
    }

    /// How many columns have a choice.
    pub fn chosen(&self) -> usize {
        self.choices.iter().map(Choice::columns).sum()
    }
}

/// How a condition compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named as in CQL")]
pub enum Comparison {
    Equal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// A condition that every row is asked for (ALLOW FILTERING). A column without a value meets none.
#[derive(Clone, PartialEq, Debug)]
pub enum Filter {
    /// `c = x`, `c < x`, ...
    Compare {
        /// The column.
        column: ColumnId,
        /// How.
        comparison: Comparison,
        /// With what.
        term: Term,
    },
    /// `c IN (x, y)` or `c IN ?`.
    In {
        /// The column.
        column: ColumnId,
        /// [`Choice::Many`] or [`Choice::Marker`].
        choice: Choice,
    },
    /// `c CONTAINS x`.
    Contains {
        /// The column.
        column: ColumnId,
        /// The element, or the value of a map.
        term: Term,
    },
    /// `c CONTAINS KEY x`.
    ContainsKey {
        /// The column.
        column: ColumnId,
        /// The key.
        term: Term,
    },
    /// `c[k] = v`.
    Entry {
        /// The column.
        column: ColumnId,
        /// The key.
        key: Term,
        /// The value.
        value: Term,
    },
    /// `(a, b) = ?`.
    Tuple {
        /// The columns.
        columns: Vec<ColumnId>,
        /// A tuple of their types.
        marker: u16,
    },
    /// What no row can be asked for: the error of running the statement.
    Refused(&'static str),
}

impl Filter {
    /// The columns that it looks at.
    pub fn columns(&self) -> &[ColumnId] {
        match self {
            Filter::Compare { column, .. }
            | Filter::In { column, .. }
            | Filter::Contains { column, .. }
            | Filter::ContainsKey { column, .. }
            | Filter::Entry { column, .. } => std::slice::from_ref(column),
            Filter::Tuple { columns, .. } => columns,
            Filter::Refused(_) => &[],
        }
    }
}

/// An index that a SELECT uses.
#[derive(Clone, PartialEq, Debug)]
pub struct IndexUse {
    /// Its name.
    pub name: Arc<str>,
    /// The column.
    pub column: ColumnId,
    /// What of the column's values.
    pub part: IndexedPart,
}

/// SELECT.
#[derive(Clone, PartialEq, Debug)]
pub struct Select {
    /// From where.
    pub table: Arc<Table>,
    /// What the owning cores give of each row, in order. Without a `projection` these are the result's columns.
    pub selection: Vec<Selector>,
    /// Whether all of `selection` is plain columns: rows can be encoded straight from cells.
    pub plain: bool,
    /// Whether the owning cores count (`count(*)`, `count(c)`) and give one row. What does not count is then the first
    /// row's value, or null without rows.
    pub aggregate: bool,
    /// What the coordinating core makes of `selection`, if that is not the result itself.
    pub projection: Option<Projection>,
    /// Which partitions.
    pub partitions: PartitionRestriction,
    /// With keys: only those whose token lies between these.
    pub key_tokens: Option<TokenBounds>,
    /// Which rows.
    pub clustering: ClusteringRestriction,
    /// What every row is asked for.
    pub filter: Vec<Filter>,
    /// The index that leads to the rows; what it is asked for is in `filter`.
    pub index: Option<IndexUse>,
    /// Whether a partition without rows, but with static content, counts as a row.
    pub static_rows: bool,
    /// DISTINCT: one row per partition, of its key and static columns.
    pub distinct: bool,
    /// ORDER BY against the table's order.
    pub reversed: bool,
    /// PER PARTITION LIMIT.
    pub per_partition_limit: Option<Term>,
    /// LIMIT.
    pub limit: Option<Term>,
    /// The columns of ORDER BY in their order.
    pub order: Vec<ColumnId>,
}

/// What an owning core gives of a row.
#[derive(Clone, PartialEq, Debug)]
pub enum Selector {
    /// A column.
    Column(ColumnId),
    /// `writetime(c)`: bigint; of a column of several cells a list of them, in the order of the elements of its value, null
    /// for fields that have none.
    WriteTime(ColumnId),
    /// `ttl(c)`: int, the seconds left; of several cells a list like that of write times, null for cells that do not expire.
    Ttl(ColumnId),
    /// `count(*)` or `count(1)`: bigint.
    CountRows,
    /// `count(c)`: rows in which the column is not null.
    Count(ColumnId),
    /// `token(pk...)`: bigint.
    Token,
}

impl Selector {
    /// The column that it is of.
    pub fn column(&self) -> Option<ColumnId> {
        match self {
            Selector::Column(column)
            | Selector::WriteTime(column)
            | Selector::Ttl(column)
            | Selector::Count(column) => Some(*column),
            Selector::CountRows | Selector::Token => None,
        }
    }
}

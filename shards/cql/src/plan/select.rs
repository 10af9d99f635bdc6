//! Plans of SELECT, and the restrictions of partitions and rows that UPDATE and DELETE share with it.

use super::{Plan, Projection, Term};
use model::{ColumnId, IndexedPart, Partitioner, Table};
use std::sync::Arc;

/// The values that a column, or several columns together, are restricted to.
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
        /// The number of columns.
        columns: usize,
        /// The tuples of their values, as written.
        tuples: Vec<Tuple>,
    },
    /// `(a, b) IN ?`: a list of tuples of the columns' types.
    TuplesMarker {
        /// The number of columns.
        columns: usize,
        /// The marker.
        marker: u16,
    },
}

impl Choice {
    /// The number of columns that this restricts.
    pub fn columns(&self) -> usize {
        match self {
            Choice::One(_) | Choice::Many(_) | Choice::Marker(_) => 1,
            Choice::Tuples { columns, .. } | Choice::TuplesMarker { columns, .. } => *columns,
        }
    }
}

/// The values of consecutive columns.
#[derive(Clone, PartialEq, Debug)]
pub enum Tuple {
    /// `(x, y)`, or `x` alone.
    Terms(Vec<Term>),
    /// `?`: a tuple of the columns' types.
    Marker {
        /// The marker.
        marker: u16,
        /// The number of columns.
        columns: usize,
    },
}

/// A bound of a token range.
#[derive(Clone, PartialEq, Debug)]
pub struct TokenBound {
    /// The term of the token.
    pub term: Term,
    /// Whether the bound itself is included (`<=` and `>=`).
    pub inclusive: bool,
}

/// A bound of a slice, on one clustering column or on several consecutive ones.
#[derive(Clone, PartialEq, Debug)]
pub struct SliceBound {
    /// The values of the columns, at least one.
    pub values: Tuple,
    /// Whether the bound itself is included (`<=` and `>=`).
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

/// The partitions that a statement reads or writes.
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
    /// All partitions.
    Scan,
}

/// The rows of a partition that a statement reads or writes: choices for the first clustering columns, then an optional
/// slice of the next ones.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ClusteringRestriction {
    /// `=` and IN for the first clustering columns, in their order.
    pub choices: Vec<Choice>,
    /// Lower bound of the columns after them, in the order of their values, not in the table's clustering order.
    pub lower: Option<SliceBound>,
    /// Upper bound of the columns after them.
    pub upper: Option<SliceBound>,
    /// Whether any of the bounds was written as a tuple. They then accept no null.
    pub tuples: bool,
}

impl ClusteringRestriction {
    /// Whether there is no restriction.
    pub fn is_empty(&self) -> bool {
        self.choices.is_empty() && !self.is_slice()
    }

    /// Whether there is a slice.
    pub fn is_slice(&self) -> bool {
        self.lower.is_some() || self.upper.is_some()
    }

    /// The number of columns that have a choice.
    pub fn chosen(&self) -> usize {
        self.choices.iter().map(Choice::columns).sum()
    }
}

/// The comparisons of filters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named as in CQL")]
pub enum Comparison {
    Equal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// A condition that is checked on every row (ALLOW FILTERING). A column without a value meets none.
#[derive(Clone, PartialEq, Debug)]
pub enum Filter {
    /// `c = x`, `c < x`, ...
    Compare {
        /// The column.
        column: ColumnId,
        /// The comparison.
        comparison: Comparison,
        /// The term to compare with.
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
        /// The element, or value of a map.
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
    /// A condition that cannot be checked, with the error of running the statement.
    Refused(&'static str),
}

impl Filter {
    /// The columns that it checks.
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

/// The index that a SELECT uses.
#[derive(Clone, PartialEq, Debug)]
pub struct IndexUse {
    /// Its name.
    pub name: Arc<str>,
    /// The column.
    pub column: ColumnId,
    /// The indexed part of the column's values.
    pub part: IndexedPart,
}

/// The plan of a SELECT.
#[derive(Clone, PartialEq, Debug)]
pub struct Select {
    /// The table.
    pub table: Arc<Table>,
    /// The values that the owning cores return per row, in order. Without a `projection` these are the result's
    /// columns.
    pub selection: Vec<Selector>,
    /// Whether all of `selection` are plain columns, so that rows can be encoded directly from cells.
    pub plain: bool,
    /// Whether the owning cores count (`count(*)`, `count(c)`) and return one row. Other values are then those of the
    /// first row, or null if there are no rows.
    pub aggregate: bool,
    /// What the coordinating core computes from `selection`, if that is not the result itself.
    pub projection: Option<Projection>,
    /// The partitions.
    pub partitions: PartitionRestriction,
    /// With keys: further restricts them to those whose token is within these bounds.
    pub key_tokens: Option<TokenBounds>,
    /// The rows of each partition.
    pub clustering: ClusteringRestriction,
    /// The conditions that are checked on every row.
    pub filter: Vec<Filter>,
    /// The index that finds the rows; its own condition is also in `filter`.
    pub index: Option<IndexUse>,
    /// Whether a partition without rows but with static values gives a row.
    pub static_rows: bool,
    /// DISTINCT: one row per partition, with its key and static columns.
    pub distinct: bool,
    /// Whether rows come in the reverse of the table's order.
    pub reversed: bool,
    /// The PER PARTITION LIMIT.
    pub per_partition_limit: Option<Term>,
    /// The LIMIT.
    pub limit: Option<Term>,
    /// The columns of ORDER BY, in their order.
    pub order: Vec<ColumnId>,
}

impl Select {
    /// Whether the clustering has one value, so that at most one row of each partition is read.
    pub fn names_one_row(&self) -> bool {
        let is_one = |choice: &Choice| matches!(choice, Choice::One(_));
        let clustering = &self.clustering;
        !clustering.is_slice()
            && clustering.chosen() == self.table.clustering_len
            && clustering.choices.iter().all(is_one)
    }
}

/// A plan for those who may not see what is masked.
#[derive(Clone, PartialEq, Debug)]
pub struct MaskedPlan {
    /// The plan, whose selection shows masked columns by their masks. Its markers and result are those of the plain
    /// one.
    pub plan: Plan,
    /// The table.
    pub table: Arc<Table>,
    /// The masked columns that WHERE restricts, in Cassandra's order. Their values can be found out by trying.
    pub restricted: Vec<String>,
    /// The masked columns whose values a transaction uses, which show in what it does.
    pub referenced: Vec<String>,
}

/// A value that an owning core returns per row.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Selector {
    /// A column.
    Column(ColumnId),
    /// `writetime(c)`: a bigint; for a column of several cells a list of them in the order of the elements, null for
    /// fields without one.
    WriteTime(ColumnId),
    /// `ttl(c)`: an int, the seconds left; for a column of several cells a list like that of write times, null for
    /// cells that do not expire.
    Ttl(ColumnId),
    /// `count(*)` or `count(1)`: a bigint.
    CountRows,
    /// `count(c)`: the number of rows in which the column is not null.
    Count(ColumnId),
    /// `token(pk...)`, of the partitioner's type of tokens.
    Token(Partitioner),
}

impl Selector {
    /// The column that the value is computed from.
    pub fn column(&self) -> Option<ColumnId> {
        match self {
            Selector::Column(column)
            | Selector::WriteTime(column)
            | Selector::Ttl(column)
            | Selector::Count(column) => Some(*column),
            Selector::CountRows | Selector::Token(_) => None,
        }
    }
}

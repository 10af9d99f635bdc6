//! Plans of SELECT, and the restrictions that UPDATE and DELETE share with it.

use super::Term;
use model::{ColumnId, CqlType, Table};
use std::sync::Arc;

/// The values that a column may have: `= x`, `IN (x, y)` or `IN ?`.
#[derive(Clone, PartialEq, Debug)]
pub enum Choice {
    /// `=`.
    One(Term),
    /// `IN (...)`, as written.
    Many(Vec<Term>),
    /// `IN ?`: a list of the column's type.
    Marker(u16),
}

/// A bound of a slice or token range.
#[derive(Clone, PartialEq, Debug)]
pub struct Limit {
    /// The value.
    pub term: Term,
    /// `<=` and `>=`.
    pub inclusive: bool,
}

/// Which partitions.
#[derive(Clone, PartialEq, Debug)]
pub enum PartitionRestriction {
    /// One choice per partition key column.
    Keys(Vec<Choice>),
    /// `token(pk) > a AND token(pk) <= b`; `token(pk) = a` is both inclusive bounds.
    Tokens {
        /// Lower bound.
        lower: Option<Limit>,
        /// Upper bound.
        upper: Option<Limit>,
    },
    /// All.
    Scan,
}

/// Which rows of a partition: choices for the first columns, then perhaps a slice of the next.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ClusteringRestriction {
    /// `=` and IN for the first clustering columns.
    pub choices: Vec<Choice>,
    /// Lower bound of the column after them.
    pub lower: Option<Limit>,
    /// Upper bound of the column after them.
    pub upper: Option<Limit>,
}

/// SELECT.
#[derive(Clone, PartialEq, Debug)]
pub struct Select {
    /// From where.
    pub table: Arc<Table>,
    /// What each result column is, in order.
    pub selection: Vec<Selector>,
    /// Whether all selectors are plain columns: rows can be encoded straight from cells.
    pub plain: bool,
    /// Whether the result is one aggregated row (`count(*)`). Selectors that do not count then give the first row's value,
    /// or null without rows.
    pub aggregate: bool,
    /// Which partitions.
    pub partitions: PartitionRestriction,
    /// Which rows.
    pub clustering: ClusteringRestriction,
    /// ORDER BY against the table's order.
    pub reversed: bool,
    /// LIMIT.
    pub limit: Option<Term>,
    /// ORDER BY was given.
    pub ordered: bool,
}

/// One result column.
#[derive(Clone, PartialEq, Debug)]
pub enum Selector {
    /// A column.
    Column(ColumnId),
    /// `writetime(c)`: bigint.
    WriteTime(ColumnId),
    /// `count(*)` or `count(1)`: bigint.
    CountRows,
    /// `count(c)`: rows in which the column is not null.
    Count(ColumnId),
    /// `token(pk...)`: bigint.
    Token,
    /// A term without columns: `now()`, `uuid()`, a typed literal.
    Term(Term, CqlType),
}

//! The IF clause of INSERT, UPDATE and DELETE as written.

use super::{Operator, Term};

/// The conditions of a modification.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Conditions {
    /// No IF.
    #[default]
    None,
    /// IF EXISTS.
    Exists,
    /// IF NOT EXISTS.
    NotExists,
    /// IF c = x AND ...: at least one, at most [`crate::RELATIONS_MAX`].
    Columns(Vec<Condition>),
}

/// One condition on a column.
#[derive(Clone, PartialEq, Debug)]
pub struct Condition {
    /// The column.
    pub name: String,
    /// The part of the column that is tested.
    pub part: ConditionPart,
    /// The test.
    pub test: ConditionTest,
}

/// The part of a column that a condition tests.
#[derive(Clone, PartialEq, Debug)]
pub enum ConditionPart {
    /// The whole column.
    Whole,
    /// `c[x]`.
    Element(Term),
    /// `c.f`.
    Field(String),
}

/// The test of a condition.
#[derive(Clone, PartialEq, Debug)]
pub enum ConditionTest {
    /// `= x`, `!= x`, `< x`, ...
    Compare(Operator, Term),
    /// `IN (x, y)`.
    In(Vec<Term>),
    /// `IN ?`.
    InMarker(u16),
    /// `CONTAINS x`.
    Contains(Term),
    /// `CONTAINS KEY x`.
    ContainsKey(Term),
}

//! IF of INSERT, UPDATE and DELETE as written.

use super::{Operator, Term};

/// What must hold for a modification to be made.
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
    /// What of it is looked at.
    pub part: ConditionPart,
    /// What it must be.
    pub test: ConditionTest,
}

/// What of a column a condition looks at.
#[derive(Clone, PartialEq, Debug)]
pub enum ConditionPart {
    /// All of it.
    Whole,
    /// `c[x]`.
    Element(Term),
    /// `c.f`.
    Field(String),
}

/// What a value must be.
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

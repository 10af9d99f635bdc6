//! Plans of IF clauses. [`crate::conditions`] evaluates them.

use super::Term;
use crate::ast::Operator;
use model::{ColumnId, Table};

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
    /// IF c = x AND ...: conditions on regular columns first, then those on static ones, each group as written.
    Columns(Vec<Condition>),
}

/// One condition on a static or regular column.
#[derive(Clone, PartialEq, Debug)]
pub struct Condition {
    /// The column.
    pub column: ColumnId,
    /// Whether it is static, so that its partition's static row is tested.
    pub is_static: bool,
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
    /// `c[k]` of a map or `c[i]` of a list.
    Element(Term),
    /// `c.f`, by the field's index.
    Field(u16),
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

impl Conditions {
    /// The conditions on columns.
    pub fn columns(&self) -> &[Condition] {
        match self {
            Conditions::Columns(conditions) => conditions,
            Conditions::None | Conditions::Exists | Conditions::NotExists => &[],
        }
    }

    /// Whether this is IF EXISTS or IF NOT EXISTS.
    pub fn test_existence(&self) -> bool {
        matches!(self, Conditions::Exists | Conditions::NotExists)
    }

    /// The columns of the conditions, each once, in the order in which results show them.
    pub fn result_columns(&self, table: &Table) -> Vec<ColumnId> {
        let mut shown = Vec::new();
        for condition in self.columns() {
            if !shown.contains(&condition.column) && table.column_by_id(condition.column).is_some() {
                shown.push(condition.column);
            }
        }
        shown
    }
}

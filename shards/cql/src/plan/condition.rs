//! Plans of IF. Whether a row meets them is told by [`crate::conditions`].

use super::Term;
use crate::ast::Operator;
use model::{ColumnId, Table};

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
    /// IF c = x AND ...: those on regular columns first, then those on static ones, each as written.
    Columns(Vec<Condition>),
}

/// One condition on a static or regular column.
#[derive(Clone, PartialEq, Debug)]
pub struct Condition {
    /// The column.
    pub column: ColumnId,
    /// Whether it is static: what its partition has, not its row.
    pub is_static: bool,
    /// What of the column is looked at.
    pub part: ConditionPart,
    /// What that must be.
    pub test: ConditionTest,
}

/// What of a column a condition looks at.
#[derive(Clone, PartialEq, Debug)]
pub enum ConditionPart {
    /// All of it.
    Whole,
    /// `c[k]` of a map or `c[i]` of a list.
    Element(Term),
    /// `c.f`: the field's number.
    Field(u16),
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

impl Conditions {
    /// The conditions on columns.
    pub fn columns(&self) -> &[Condition] {
        match self {
            Conditions::Columns(conditions) => conditions,
            Conditions::None | Conditions::Exists | Conditions::NotExists => &[],
        }
    }

    /// Whether they ask for a row as such.
    pub fn test_existence(&self) -> bool {
        matches!(self, Conditions::Exists | Conditions::NotExists)
    }

    /// The columns looked at, each once, in the order in which results show them.
    pub fn shown(&self, table: &Table) -> Vec<ColumnId> {
        let mut shown = Vec::new();
        for condition in self.columns() {
            if !shown.contains(&condition.column) && table.column_by_id(condition.column).is_some() {
                shown.push(condition.column);
            }
        }
        shown
    }
}

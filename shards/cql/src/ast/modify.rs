//! INSERT, UPDATE, DELETE and BATCH as written.

use super::{Conditions, Relation, TableName, Term};

/// INSERT, UPDATE, DELETE.
#[derive(Clone, PartialEq, Debug)]
pub struct Modify {
    /// Which.
    pub kind: ModifyBody,
    /// Where.
    pub table: TableName,
    /// USING.
    pub using: Using,
    /// IF.
    pub conditions: Conditions,
}

/// What differs between INSERT, UPDATE and DELETE.
#[derive(Clone, PartialEq, Debug)]
pub enum ModifyBody {
    /// INSERT INTO t (columns) VALUES (values).
    Insert {
        /// Columns as written.
        columns: Vec<String>,
        /// Values as written; perhaps not as many.
        values: Vec<Term>,
    },
    /// INSERT INTO t JSON '...' DEFAULT NULL.
    InsertJson {
        /// A string or a marker.
        json: Term,
        /// DEFAULT UNSET.
        default_unset: bool,
    },
    /// UPDATE t SET ... WHERE.
    Update {
        /// SET.
        assignments: Vec<(String, Assignment)>,
        /// WHERE.
        relations: Vec<Relation>,
    },
    /// DELETE columns FROM t WHERE.
    Delete {
        /// Columns, and whether an element or field of them was meant.
        columns: Vec<(String, DeletePart)>,
        /// WHERE.
        relations: Vec<Relation>,
    },
}

/// What DELETE removes of a column.
#[derive(Clone, PartialEq, Debug)]
pub enum DeletePart {
    /// All of it.
    Whole,
    /// `c[x]`.
    Element(Term),
    /// `c.f`.
    Field(String),
}

/// What SET does to a column.
#[derive(Clone, PartialEq, Debug)]
pub enum Assignment {
    /// `c = x`.
    Value(Term),
    /// `c = c + x` and `c += x`.
    Add(Term),
    /// `c = c - x` and `c -= x`.
    Subtract(Term),
    /// `c = x + c`.
    Prepend(Term),
    /// `c[k] = x`.
    Element(Term, Term),
    /// `c.f = x`.
    Field(String, Term),
}

impl Assignment {
    /// As error texts show it on column `name`.
    pub(crate) fn shown(&self, name: &str) -> String {
        match self {
            Assignment::Value(term) => format!("{name} = {term}"),
            Assignment::Add(term) => format!("{name} = {name} + {term}"),
            Assignment::Subtract(term) => format!("{name} = {name} - {term}"),
            // Cassandra shows the sum as a difference.
            Assignment::Prepend(term) => format!("{name} = {term} - {name}"),
            Assignment::Element(key, term) => format!("{name}[{key}] = {term}"),
            Assignment::Field(field, term) => format!("{name}.{field} = {term}"),
        }
    }

    /// Whether both may be made to one column by one statement.
    pub(crate) fn goes_with(&self, other: &Assignment) -> bool {
        match (self, other) {
            (Assignment::Value(_), _) | (_, Assignment::Value(_)) => false,
            (Assignment::Field(field, _), Assignment::Field(other, _)) => field != other,
            _ => true,
        }
    }
}

/// USING.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Using {
    /// TIMESTAMP.
    pub timestamp: Option<Term>,
    /// TTL.
    pub ttl: Option<Term>,
    /// TIMEOUT.
    pub timeout: Option<Term>,
}

/// BEGIN ... APPLY BATCH.
#[derive(Clone, PartialEq, Debug)]
pub struct Batch {
    /// How it was declared.
    pub kind: model::BatchKind,
    /// USING of the whole.
    pub using: Using,
    /// The statements.
    pub statements: Vec<Modify>,
}

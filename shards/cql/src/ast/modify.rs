//! INSERT, UPDATE, DELETE and BATCH as written.

use super::{Conditions, Relation, TableName, Term};

/// An INSERT, UPDATE or DELETE.
#[derive(Clone, PartialEq, Debug)]
pub struct Modify {
    /// The kind of modification, with its clauses.
    pub kind: ModifyBody,
    /// The table.
    pub table: TableName,
    /// USING.
    pub using: Using,
    /// IF.
    pub conditions: Conditions,
}

/// The clauses in which INSERT, UPDATE and DELETE differ.
#[derive(Clone, PartialEq, Debug)]
pub enum ModifyBody {
    /// INSERT INTO t (columns) VALUES (values).
    Insert {
        /// The columns as written.
        columns: Vec<String>,
        /// The values as written; their number is not checked.
        values: Vec<Term>,
    },
    /// INSERT INTO t JSON '...' DEFAULT NULL.
    InsertJson {
        /// The JSON text: a string or a marker.
        json: Term,
        /// Whether DEFAULT UNSET was given.
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
        /// The columns, and which part of each is deleted.
        columns: Vec<(String, DeletePart)>,
        /// WHERE.
        relations: Vec<Relation>,
    },
}

/// The part of a column that DELETE removes.
#[derive(Clone, PartialEq, Debug)]
pub enum DeletePart {
    /// The whole column.
    Whole,
    /// `c[x]`.
    Element(Term),
    /// `c.f`.
    Field(String),
}

/// What SET assigns to a column.
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
    /// The assignment to column `name` as error texts show it.
    pub(crate) fn text(&self, name: &str) -> String {
        match self {
            Assignment::Value(term) => format!("{name} = {term}"),
            Assignment::Add(term) => format!("{name} = {name} + {term}"),
            Assignment::Subtract(term) => format!("{name} = {name} - {term}"),
            // Cassandra shows this sum as a difference.
            Assignment::Prepend(term) => format!("{name} = {term} - {name}"),
            Assignment::Element(key, term) => format!("{name}[{key}] = {term}"),
            Assignment::Field(field, term) => format!("{name}.{field} = {term}"),
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

/// A batch: BEGIN ... APPLY BATCH.
#[derive(Clone, PartialEq, Debug)]
pub struct Batch {
    /// The kind of batch.
    pub kind: model::BatchKind,
    /// USING of the batch itself.
    pub using: Using,
    /// The statements.
    pub statements: Vec<Modify>,
}

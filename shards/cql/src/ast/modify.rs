//! INSERT, UPDATE, DELETE and BATCH as written.

use super::{Relation, TableName, Term};

/// INSERT, UPDATE, DELETE.
#[derive(Clone, PartialEq, Debug)]
pub struct Modify {
    /// Which.
    pub kind: ModifyBody,
    /// Where.
    pub table: TableName,
    /// USING.
    pub using: Using,
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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeletePart {
    /// All of it.
    Whole,
    /// `c[x]`.
    Element,
    /// `c.f`.
    Field,
}

/// The right side of a SET.
#[derive(Clone, PartialEq, Debug)]
pub enum Assignment {
    /// `c = x`.
    Value(Term),
    /// Something that scalar columns do not take: the operation and the kind of column that would, for the error text.
    Other {
        /// `v = v + 1`.
        operation: String,
        /// `non counter`.
        wrong_kind: &'static str,
    },
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
    pub kind: crate::plan::BatchKind,
    /// USING of the whole.
    pub using: Using,
    /// The statements.
    pub statements: Vec<Modify>,
}

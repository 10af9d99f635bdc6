//! Plans of transactions: reads of one partition, conditions on them, and changes that may use what was read.
//!
//! What is read becomes values: reference `n` is the bind marker `markers + n` of the changes and conditions, so that
//! these are evaluated like any other statement once the rows are known. The module `conditions` evaluates references
//! and conditions.
//!
//! Invariants: all reads and changes are of one table; a reference is to a LET assignment and to a column that it
//! selects; no read has filters, groups or an order.

use super::{ConditionPart, Modify, Select, Term};
use crate::ast::{Operator, Position};
use model::{ColumnId, CqlType, Table};
use std::sync::Arc;

/// Cassandra's refusal of comparisons with null, which neither hold nor fail.
pub(crate) const NULL_COMPARISON: &str =
    "Invalid comparison with null for operator; use IS NULL or IS NOT NULL instead";
/// Refuses a read of more than one row; its name and place follow.
pub const ONE_ROW: &str = "SELECT must specify either all primary key elements or all partition key elements and LIMIT \
    1. In both cases partition key elements must be always specified with equality operators;";

/// The plan of a transaction.
#[derive(Clone, PartialEq, Debug)]
pub struct Transaction {
    /// The table of all its statements.
    pub table: Arc<Table>,
    /// The number of bind markers of its text.
    pub markers: usize,
    /// The LET assignments.
    pub lets: Vec<Let>,
    /// The values of rows that conditions, changes and the answer use.
    pub references: Vec<Reference>,
    /// What it answers with.
    pub returning: Option<Returning>,
    /// The conditions, which must all hold for the changes to be made.
    pub conditions: Vec<TransactionCondition>,
    /// The changes.
    pub updates: Vec<Modify>,
}

/// A row that is read.
#[derive(Clone, PartialEq, Debug)]
pub struct Let {
    /// Its name.
    pub name: String,
    /// The read of at most one row.
    pub select: Select,
    /// Where the SELECT stands in the text.
    pub position: Position,
}

/// What a transaction answers with.
#[derive(Clone, PartialEq, Debug)]
#[expect(clippy::large_enum_variant, reason = "a plan has one, and is itself behind a pointer")]
pub enum Returning {
    /// The rows of a SELECT.
    Select(Select),
    /// One row of references, by their numbers.
    References(Vec<usize>),
}

/// A value of a row that is read.
#[derive(Clone, PartialEq, Debug)]
pub struct Reference {
    /// The number of the LET assignment.
    pub tuple: usize,
    /// The column.
    pub column: ColumnId,
    /// Which part of the column.
    pub part: ConditionPart,
    /// The type of the value.
    pub cql_type: CqlType,
}

/// A condition of a transaction.
#[derive(Clone, PartialEq, Debug)]
pub enum TransactionCondition {
    /// `row1 IS NULL`, `row1 IS NOT NULL`.
    Row {
        /// The number of the LET assignment.
        tuple: usize,
        /// Whether the row must exist.
        exists: bool,
    },
    /// `row1.c IS NULL`, `row1.c IS NOT NULL`.
    Value {
        /// The number of the reference.
        reference: usize,
        /// Whether it must have a value.
        exists: bool,
    },
    /// `row1.c = x`.
    Compare {
        /// The number of the reference on the left side.
        reference: usize,
        /// The comparison.
        operator: Operator,
        /// The right side.
        right: Term,
    },
}

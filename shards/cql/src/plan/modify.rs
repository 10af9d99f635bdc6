//! Plans of INSERT, UPDATE, DELETE and BATCH.

use super::{Choice, ClusteringRestriction, Term};
use model::{ColumnId, Table};
use std::sync::Arc;

/// What a modification does to rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ModifyKind {
    /// Writes cells and row liveness.
    Insert,
    /// Writes cells.
    Update,
    /// Deletes cells (with `columns`), rows, a range of rows or partitions.
    Delete,
}

/// INSERT, UPDATE, DELETE.
#[derive(Clone, PartialEq, Debug)]
pub struct Modify {
    /// Which.
    pub kind: ModifyKind,
    /// Where.
    pub table: Arc<Table>,
    /// One choice per partition key column.
    pub keys: Vec<Choice>,
    /// Which rows. INSERT, UPDATE and DELETE of columns: choices for all clustering columns.
    pub clustering: ClusteringRestriction,
    /// New values, for INSERT and UPDATE.
    pub assignments: Vec<(ColumnId, Term)>,
    /// DELETE's columns; empty: whole rows.
    pub columns: Vec<ColumnId>,
    /// USING TIMESTAMP.
    pub timestamp: Option<Term>,
}

/// How a batch was declared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BatchKind {
    /// Atomic over partitions.
    Logged,
    /// Atomic per partition.
    Unlogged,
    /// Of counters.
    Counter,
}

/// BEGIN ... APPLY BATCH.
#[derive(Clone, PartialEq, Debug)]
pub struct Batch {
    /// How.
    pub kind: BatchKind,
    /// The statements.
    pub statements: Vec<Modify>,
    /// USING TIMESTAMP of the whole.
    pub timestamp: Option<Term>,
}

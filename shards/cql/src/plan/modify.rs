//! Plans of INSERT, UPDATE, DELETE and BATCH.

use super::{Choice, ClusteringRestriction, Conditions, JsonInsert, Term};
use crate::functions::Function;
use model::{BatchKind, ColumnId, Table};
use std::sync::Arc;

/// The kinds of modifications.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ModifyKind {
    /// Writes cells and row liveness.
    Insert,
    /// Writes cells.
    Update,
    /// Deletes cells, rows, ranges of rows or whole partitions.
    Delete,
}

/// The plan of an INSERT, UPDATE or DELETE.
#[derive(Clone, PartialEq, Debug)]
pub struct Modify {
    /// The kind of modification.
    pub kind: ModifyKind,
    /// The table.
    pub table: Arc<Table>,
    /// One choice per partition key column.
    pub keys: Vec<Choice>,
    /// The rows. INSERT, UPDATE and DELETE of columns have choices for all clustering columns.
    pub clustering: ClusteringRestriction,
    /// The operations on regular columns. A DELETE without operations deletes whole rows.
    pub operations: Vec<Operation>,
    /// The operations on static columns.
    pub statics: Vec<Operation>,
    /// Whether rows are written or deleted, not only static columns.
    pub rows: bool,
    /// The timestamp of USING TIMESTAMP.
    pub timestamp: Option<Term>,
    /// The seconds of USING TTL.
    pub ttl: Option<Term>,
    /// For INSERT JSON of a marker: keys and operations then refer to additional markers, one per column of the table
    /// after the statement's own, whose values come from the text.
    pub json: Option<JsonInsert>,
    /// The conditions of IF.
    pub conditions: Conditions,
    /// Whether the table is virtual. Few virtual tables can be modified.
    pub is_virtual: bool,
}

/// An operation on one column.
#[derive(Clone, PartialEq, Debug)]
pub struct Operation {
    /// The column.
    pub column: ColumnId,
    /// The change of the column.
    pub change: ColumnChange,
    /// Its position among the operations as written.
    pub written: u16,
}

/// The change of a column's value. Counters have the last two and `Delete`; collections and user types that are not
/// frozen have the others; all other columns the first two.
#[derive(Clone, PartialEq, Debug)]
pub enum ColumnChange {
    /// A new value; null deletes.
    Set(Term),
    /// `DELETE c`.
    Delete,
    /// Adds elements to a set, entries to a map, or elements at the end of a list.
    Add(Term),
    /// Adds elements at the beginning of a list.
    Prepend(Term),
    /// Removes elements from a set, or the entries with the keys in a set from a map.
    Remove(Term),
    /// `c[k] = v` of a map.
    SetEntry {
        /// The key.
        key: Term,
        /// The value; null deletes.
        value: Term,
    },
    /// `DELETE c[k]` of a map or set.
    DeleteEntry(Term),
    /// `c.f = v`, by the field's index.
    SetField(u16, Term),
    /// `DELETE c.f`, by the field's index.
    DeleteField(u16),
    /// `c[i] = v` of a list, which must be read first.
    SetIndex {
        /// The index.
        index: Term,
        /// The value; null deletes.
        value: Term,
    },
    /// `DELETE c[i]` of a list, which must be read first.
    DeleteIndex(Term),
    /// `c = c - [..]` of a list, which must be read first.
    RemoveValues(Term),
    /// `c = c + x` of a number or text in a conditional statement, which knows the current value: null stays null.
    Increase {
        /// The function that adds two values of the column's type.
        sum: Function,
        /// The term that is added.
        by: Term,
    },
    /// `c = c + n` of a counter.
    Increment(Term),
    /// `c = c - n` of a counter.
    Decrement(Term),
}

impl Operation {
    /// Whether this is [`ColumnChange::Increase`].
    pub fn increases(&self) -> bool {
        matches!(self.change, ColumnChange::Increase { .. })
    }

    /// Whether the change depends on the current value.
    pub fn reads(&self) -> bool {
        matches!(
            self.change,
            ColumnChange::SetIndex { .. } | ColumnChange::DeleteIndex(_) | ColumnChange::RemoveValues(_)
        )
    }
}

impl Modify {
    /// Whether the statement has an IF.
    pub fn is_conditional(&self) -> bool {
        !matches!(self.conditions, Conditions::None)
    }

    /// Whether an operation depends on a current value.
    pub fn reads(&self) -> bool {
        self.operations.iter().chain(&self.statics).any(Operation::reads)
    }
}

/// The plan of a batch.
#[derive(Clone, PartialEq, Debug)]
pub struct Batch {
    /// The kind of batch.
    pub kind: BatchKind,
    /// The statements.
    pub statements: Vec<Modify>,
    /// Whether one of them has an IF.
    pub conditional: bool,
    /// The timestamp of the batch itself.
    pub timestamp: Option<Term>,
}

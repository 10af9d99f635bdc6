//! Plans of INSERT, UPDATE, DELETE and BATCH.

use super::{Choice, ClusteringRestriction, Conditions, JsonInsert, Term};
use crate::functions::Function;
use model::{BatchKind, ColumnId, Table};
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
    /// What is done to regular columns. A DELETE without operations deletes whole rows.
    pub operations: Vec<Operation>,
    /// What is done to static columns.
    pub statics: Vec<Operation>,
    /// Whether rows are written or deleted, not static columns alone.
    pub rows: bool,
    /// USING TIMESTAMP.
    pub timestamp: Option<Term>,
    /// USING TTL.
    pub ttl: Option<Term>,
    /// INSERT JSON of a marker: keys and operations name markers that follow the statement's own, one per column of the
    /// table, whose values come out of the text.
    pub json: Option<JsonInsert>,
    /// IF.
    pub conditions: Conditions,
    /// Whether the table has no storage: few of those take changes.
    pub is_virtual: bool,
}

/// What is done to one column.
#[derive(Clone, PartialEq, Debug)]
pub struct Operation {
    /// The column.
    pub column: ColumnId,
    /// What.
    pub change: ColumnChange,
    /// Its place among the operations as they were written.
    pub written: u16,
}

/// What is done to a column's value. Counters have the last two and `Delete`, collections and user types that are not
/// frozen the others, and all else the first two.
#[derive(Clone, PartialEq, Debug)]
pub enum ColumnChange {
    /// A new value; null deletes.
    Set(Term),
    /// `DELETE c`.
    Delete,
    /// Elements for a set, entries for a map, elements at the end of a list.
    Add(Term),
    /// Elements at the beginning of a list.
    Prepend(Term),
    /// Takes elements out of a set, or entries with these keys (a set) out of a map.
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
    /// `c.f = v`: the field's number.
    SetField(u16, Term),
    /// `DELETE c.f`.
    DeleteField(u16),
    /// `c[i] = v` of a list: reads first.
    SetIndex {
        /// The place.
        index: Term,
        /// The value; null deletes.
        value: Term,
    },
    /// `DELETE c[i]` of a list: reads first.
    DeleteIndex(Term),
    /// `c = c - [..]` of a list: reads first.
    RemoveValues(Term),
    /// `c = c + x` of a number or a text, in a conditional change, which knows what there is: null stays null.
    Increase {
        /// The sum of two values of the column's type.
        sum: Function,
        /// What is added.
        by: Term,
    },
    /// `c = c + n` of a counter.
    Increment(Term),
    /// `c = c - n` of a counter.
    Decrement(Term),
}

impl Operation {
    /// Whether it adds to a number or a text.
    pub fn increases(&self) -> bool {
        matches!(self.change, ColumnChange::Increase { .. })
    }

    /// Whether what it writes depends on what is there.
    pub fn reads(&self) -> bool {
        matches!(
            self.change,
            ColumnChange::SetIndex { .. } | ColumnChange::DeleteIndex(_) | ColumnChange::RemoveValues(_)
        )
    }
}

impl Modify {
    /// Whether it has an IF.
    pub fn is_conditional(&self) -> bool {
        !matches!(self.conditions, Conditions::None)
    }

    /// Whether an operation reads before it writes.
    pub fn reads(&self) -> bool {
        self.operations.iter().chain(&self.statics).any(Operation::reads)
    }
}

/// BEGIN ... APPLY BATCH.
#[derive(Clone, PartialEq, Debug)]
pub struct Batch {
    /// How.
    pub kind: BatchKind,
    /// The statements.
    pub statements: Vec<Modify>,
    /// Whether one of them has an IF.
    pub conditional: bool,
    /// USING TIMESTAMP of the whole.
    pub timestamp: Option<Term>,
}

//! What the core that owns a partition is asked to decide about it.

use crate::coordinator::Terms;
use crate::execute::modify::reading::OwnedBound;
use cql::plan::Modify;
use model::{ColumnId, Consistency, Table};
use std::sync::Arc;

/// A conditional change of one partition; without statements a read that must come after all decisions before it.
#[derive(Clone, Debug)]
pub struct Conditional {
    pub(crate) table: Arc<Table>,
    /// The serialised partition key.
    pub(crate) key: Vec<u8>,
    pub(crate) parts: Vec<Part>,
    /// The columns that are shown when it is not applied.
    pub(crate) shown: Arc<[ColumnId]>,
    /// Whether the table lives on shard 0.
    pub(crate) local: bool,
    /// SERIAL or LOCAL_SERIAL.
    pub(crate) serial: Consistency,
    /// Seconds since 1970.
    pub(crate) now_in_seconds: i64,
    pub(crate) terms: Terms,
}

/// One statement with its values.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) modify: Modify,
    pub(crate) bound: Vec<OwnedBound>,
}

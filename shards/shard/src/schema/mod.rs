//! The schema that a shard serves.

use crate::{Config, StartError};
use engine::Store;
use engine::store::Truncation;
use model::{Schema, TableId};
use std::sync::Arc;
use uuid::Uuid;

/// What shard 0 reads from the system tables before user tables are replayed.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    /// Everything that is defined, system keyspaces included.
    pub(crate) schema: Arc<Schema>,
    /// The node's host id; `None` at the first start.
    pub(crate) host_id: Option<Uuid>,
    /// Recorded truncations, of dropped tables too.
    pub(crate) truncations: Vec<(TableId, Truncation)>,
}

/// The system keyspaces with their tables: what a shard knows before anything is read.
pub(crate) fn system_schema() -> Schema {
    todo!()
}

/// Reads the schema from the replayed system tables of shard 0. Writes nothing.
pub(crate) async fn load(store: &Store) -> Result<Loaded, StartError> {
    let _ = store;
    todo!()
}

/// On shard 0, once the store takes writes: makes the node's identity at the first start, renews what every start renews
/// in `system.local` and the system schema tables, and returns the host id.
pub(crate) async fn settle(config: &Config, store: &Store, loaded: &Loaded) -> Result<Uuid, StartError> {
    let _ = (config, store, loaded);
    todo!()
}

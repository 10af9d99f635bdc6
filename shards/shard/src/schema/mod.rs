//! What is defined on this node, the node's identity, and how both are kept: as rows of the real system tables, stored
//! by the same engine as everything else.
//!
//! Start, on shard 0:
//! 1. The store knows the system tables ([`system_schema`]) and has replayed them.
//! 2. [`load`] reads schema, identity, truncation records and prepared statements.
//! 3. The other shards get the schema, every shard replays its tables and starts its store.
//! 4. [`settle`] writes what this start changes: `system.local`, the rows that describe the system tables if they
//!    differ from this program's definitions, and the ids of columns that had none stored.
//!
//! Changes are made in `definitions::define`.
//!
//! Invariants: the schema is immutable and shared by all shards; it always has the system tables as this version of the
//! program defines them.

pub(crate) mod cells;
pub(crate) mod local;
pub(crate) mod prepared;
pub(crate) mod rows;
pub(crate) mod system_tables;
mod unsupported;

use crate::config::Config;
use engine::Store;
use engine::store::Truncation;
use local::{Identity, Stored};
use model::{Keyspace, Partitioner, Schema, TableId};
use prepared::StoredStatement;
use rows::StoredSchema;
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// Why the system tables could not be read or written.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum Error {
    /// The store failed.
    Store(engine::Error),
    /// A row of a system table is not one that this program writes: the node must not start (exit 3).
    Malformed {
        /// The table, with its keyspace.
        table: String,
        /// The column.
        column: String,
    },
    /// The data was written by a node with another partitioner: the node must not start.
    OtherPartitioner {
        /// The class that `system.local` names.
        stored: String,
        /// That of the configuration.
        own: &'static str,
    },
    /// The schema uses a feature that this program does not serve: the node must not start on it.
    Unsupported {
        /// The feature and the name of what uses it.
        what: String,
    },
    /// The node has left its cluster for good: it must not start.
    Decommissioned,
}

impl From<engine::Error> for Error {
    fn from(error: engine::Error) -> Error {
        Error::Store(error)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Store(error) => error.fmt(f),
            Error::Malformed { table, column } => write!(f, "{table} has a row with a {column} that is no such thing"),
            Error::OtherPartitioner { stored, own } => write!(
                f,
                "the data directory was made with partitioner {stored}, which does not match system partitioner {own}"
            ),
            Error::Decommissioned => f.write_str(
                "This node was decommissioned and will not rejoin the ring unless all existing data is removed and the node \
                 is bootstrapped again",
            ),
            Error::Unsupported { what } => write!(
                f,
                "the schema has {what}, which is not supported yet: drop it in Cassandra before this data directory is used"
            ),
        }
    }
}

impl std::error::Error for Error {}

/// The system keyspaces with their tables: all that a shard knows before anything is read.
pub(crate) fn system_schema(partitioner: Partitioner) -> Schema {
    system_tables::schema(partitioner)
}

/// What the system tables held when the node started.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// System and user keyspaces; a random version if none was stored yet.
    pub(crate) schema: Arc<Schema>,
    /// Recorded truncations, including those of dropped tables.
    pub(crate) truncations: Vec<(TableId, Truncation)>,
    /// The node's identity at the last start; `None` at the first start.
    pub(crate) identity: Option<Identity>,
    /// The latest timestamp of any change so far, microseconds; 0 at the first start.
    pub(crate) last_timestamp: i64,
    /// All prepared statements.
    pub(crate) prepared: Vec<StoredStatement>,
    /// System keyspaces whose rows in `system_schema` are missing or were written by another version of this program.
    pub(crate) outdated: Vec<String>,
    /// Tables with columns whose ids are not stored.
    pub(crate) without_ids: Vec<TableId>,
}

/// Reads the system tables of shard 0. The store must have replayed them.
pub(crate) async fn load(store: &Store) -> Result<Loaded, Error> {
    let system = system_tables::schema(store.partitioner());
    let table = |keyspace, name| rows::system_table(&system, keyspace, name);
    let rows = rows::SchemaRows {
        keyspaces: cells::read_all(store, table("system_schema", "keyspaces")).await?,
        types: cells::read_all(store, table("system_schema", "types")).await?,
        tables: cells::read_all(store, table("system_schema", "tables")).await?,
        columns: cells::read_all(store, table("system_schema", "columns")).await?,
        dropped_columns: cells::read_all(store, table("system_schema", "dropped_columns")).await?,
        indexes: cells::read_all(store, table("system_schema", "indexes")).await?,
        column_ids: cells::read_all(store, table("system_schema", rows::column_ids::TABLE)).await?,
        masks: cells::read_all(store, table("system_schema", "column_masks")).await?,
        tablets: cells::read_all(store, table("system_schema", rows::tablets::TABLE)).await?,
        quotas: cells::read_all(store, table("system_schema", rows::quotas::TABLE)).await?,
    };
    unsupported::refuse_indexes(table("system_schema", "indexes"), &rows.indexes)?;
    for (name, what) in unsupported::TABLES {
        unsupported::refuse(
            table("system_schema", name),
            what,
            &cells::read_all(store, table("system_schema", name)).await?,
        )?;
    }
    let local = cells::read_partition(store, table("system", "local"), local::LOCAL_KEY.as_bytes()).await?;
    let statements = cells::read_all(store, table("system", "prepared_statements")).await?;

    let StoredSchema { keyspaces: found, without_ids } = rows::load(&system, &rows)?;
    let stored = Stored::load(&system, &local)?;
    if stored.has_left {
        return Err(Error::Decommissioned);
    }
    let prepared = prepared::load(&system, &statements)?;
    let (mut schema, outdated) = assemble(system, found);
    schema.version = stored.schema_version.unwrap_or_else(random_uuid);
    let Stored { identity, truncations, last_timestamp, .. } = stored;
    Ok(Loaded { schema: Arc::new(schema), truncations, identity, last_timestamp, prepared, outdated, without_ids })
}

/// The whole schema, and the names of the system keyspaces whose definition in `found` is missing or differs.
fn assemble(system: Schema, found: BTreeMap<String, Keyspace>) -> (Schema, Vec<String>) {
    let shown = |keyspace: &Keyspace| {
        let mut keyspace = keyspace.clone();
        keyspace.tables.retain(|_, table| !system_tables::is_hidden(table));
        keyspace
    };
    let is_outdated = |keyspace: &&Arc<Keyspace>| {
        let mut own = shown(keyspace);
        let Some(found) = found.get(&keyspace.name) else { return true };
        if !keyspace.is_local() {
            own.replication.clone_from(&found.replication);
            own.durable_writes = found.durable_writes;
        }
        *found != own
    };
    let stored = system.keyspaces.values().filter(|keyspace| !keyspace.is_virtual());
    let outdated = stored.filter(is_outdated).map(|keyspace| keyspace.name.clone()).collect();
    let mut schema = system;
    for (name, keyspace) in found {
        let keyspace = match schema.keyspace(&name) {
            None => keyspace,
            // The tables are defined by this program; the replication is the operator's to change.
            Some(own) if !own.is_local() => {
                let Keyspace { replication, durable_writes, .. } = keyspace;
                Keyspace { replication, durable_writes, ..Keyspace::clone(own) }
            }
            Some(_) => continue,
        };
        schema.put_keyspace(Arc::new(keyspace));
    }
    (schema, outdated)
}

/// Writes on shard 0 what a start changes, once the store takes writes, and returns the node's identity. All of it is
/// durable on return.
pub(crate) async fn settle(config: &Config, store: &Store, loaded: &Loaded) -> Result<Identity, Error> {
    let schema = &loaded.schema;
    let now = runtime::wall_micros();
    // Replacing a keyspace's rows deletes the old ones one microsecond before this.
    let timestamp = now.max(loaded.last_timestamp.saturating_add(2));
    let now_in_seconds = now.div_euclid(1_000_000);

    let identity = match &loaded.identity {
        Some(identity) => identity.clone(),
        None => Identity::new(
            config.partitioner,
            config.num_tokens,
            &config.initial_tokens,
            config.allocate_for_factor.is_some(),
            &mut runtime::rng::u64,
        ),
    };
    let identity = identity.restarted(now_in_seconds);
    for keyspace in loaded.outdated.iter().filter_map(|name| schema.keyspace(name)) {
        store.apply(rows::keyspace_replaced(schema, keyspace, timestamp, now_in_seconds), true).await?;
    }
    for table in loaded.without_ids.iter().filter_map(|id| schema.table_by_id(*id)) {
        store.apply(rows::column_ids_stored(schema, table, timestamp), true).await?;
    }
    store.apply(local::written_at_start(schema, config, &identity, timestamp), true).await?;
    // Forget truncations of tables that do not exist: their log records belong to no table, and CREATE TABLE WITH ID
    // records a truncation of its own.
    let of_nothing = |(table, _): &&(TableId, _)| schema.table_by_id(*table).is_none();
    let forgotten: Vec<TableId> = loaded.truncations.iter().filter(of_nothing).map(|(table, _)| *table).collect();
    if !forgotten.is_empty() {
        store.apply(local::truncations_forgotten(schema, &forgotten, timestamp, now_in_seconds), true).await?;
    }
    store.apply(local::schema_version_changed(schema, schema.version, timestamp), true).await?;
    store.sync().await?;
    Ok(identity)
}

/// A version 4 uuid.
pub(crate) fn random_uuid() -> Uuid {
    uuid::Builder::from_random_bytes(runtime::rng::bytes16()).into_uuid()
}

#[cfg(test)]
mod store_tests;
#[cfg(test)]
pub(crate) mod tests;

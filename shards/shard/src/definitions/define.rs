//! DDL and TRUNCATE, on shard 0, one at a time.
//!
//! CREATE, ALTER and DROP:
//! 1. Apply the statement to the current schema (`cql::define`), or refuse it.
//! 2. Write the new `schema_version`, then the rows of `system_schema` (one mutation); both are durable.
//! 3. Every shard switches to the new schema and confirms; events go out.
//! 4. DROP only: truncate the table's data on every shard, record the truncation, let the shards forget the table.
//!
//! With `auto_snapshot` a snapshot of what is dropped is complete before step 2, and brought up to date before step 4.
//!
//! A column that is added again has a new id, and cells that were written after the drop come back under it: before
//! step 2 every shard flushes the table, because SSTables know columns by their names, memtables by their ids.
//!
//! TRUNCATE: with `auto_snapshot` take a snapshot; truncate on every shard, record the truncation durably, release the
//! log segments that nothing else needs.
//!
//! Invariants: a crash between the steps leaves the change complete or undone (a new version without a change is
//! harmless); timestamps strictly increase, even across restarts; a change that has started runs to its end, whether or
//! not the client waits; a table made WITH ID never shows rows of an earlier table of that id; what is written after a
//! column was dropped is later than the drop, even after a restart.

use crate::messages::admin::TableVerb;
use crate::messages::schema::Defined;
use crate::messages::{Reply, Request};
use crate::operations::indexes;
use crate::operations::snapshots::{self, Taken};
use crate::ports::{ChangeKind, ChangeTarget, SchemaChange};
use crate::schema::cells::read_partition;
use crate::schema::local::{self, LOCAL_KEY, Stored};
use crate::schema::rows;
use crate::shard_state::Shard;
use cql::define::{Applied, Change, DefinitionContext};
use cql::plan::Define;
use engine::store::{LogPosition, Truncation};
use model::failure::Outcome;
use model::schema::SYSTEM_KEYSPACES;
use model::{ErrorCode, Failure, Mutation, Schema, TableId};
use runtime::Class;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

const MICROS_PER_MILLI: i64 = 1_000;

/// Runs one DDL statement. Returns when every shard serves the new schema.
pub(crate) async fn define(shard: &Shard, define: Define) -> Result<Defined, Failure> {
    let shard = shard.clone();
    runtime::spawn(async move { Definition::begin(&shard).await?.define(&define).await }).await
}

/// Removes all data of a table on every shard and records the truncation.
pub(crate) async fn truncate(shard: &Shard, table: TableId) -> Result<(), Failure> {
    let shard = shard.clone();
    runtime::spawn(async move { Definition::begin(&shard).await?.truncate(table).await }).await
}

/// A change of the schema under way. It holds the only turn to make one.
struct Definition<'s> {
    shard: &'s Shard,
    schema: Arc<Schema>,
    stored: Stored,
    now_micros: i64,
    _permit: runtime::gate::Permit,
}

impl Drop for Definition<'_> {
    fn drop(&mut self) {
        self.shard.definitions().end();
    }
}

impl<'s> Definition<'s> {
    async fn begin(shard: &'s Shard) -> Result<Definition<'s>, Failure> {
        let permit = shard.definitions().begin().await;
        let schema = shard.schema();
        let table = rows::system_table(&schema, "system", "local");
        let local = read_partition(shard.store(), table, LOCAL_KEY.as_bytes()).await;
        let stored = local.and_then(|rows| Stored::load(&schema, &rows));
        let stored = stored.map_err(|error| Failure::server(error.to_string()))?;
        Ok(Definition { shard, schema, stored, now_micros: runtime::wall_micros(), _permit: permit })
    }

    /// The timestamp of this change, above that of every earlier change; microseconds.
    fn timestamp(&self) -> i64 {
        self.now_micros.max(self.stored.last_timestamp.saturating_add(1))
    }

    fn now_in_seconds(&self) -> i64 {
        self.now_micros.div_euclid(1_000_000)
    }

    async fn define(&self, define: &Define) -> Result<Defined, Failure> {
        let new_id = TableId(crate::schema::random_uuid().into_bytes());
        let timestamp = self.timestamp();
        // Times of drops are stored in milliseconds: round up to a whole one, and let it pass before anything else is
        // written.
        let now_micros = timestamp.saturating_add(MICROS_PER_MILLI - 1).div_euclid(MICROS_PER_MILLI) * MICROS_PER_MILLI;
        let config = self.shard.config();
        let site = DefinitionContext {
            data_center: &config.data_center,
            now_micros,
            new_id,
            memtables: &config.memtables,
            default_compaction: config.default_compaction.as_deref(),
            drop_compact_storage: config.drop_compact_storage,
            guardrails: config.guardrails.as_deref(),
        };
        let Applied { change, warnings } = cql::define::apply(define, &self.schema, &site)?;
        let Some(change) = change else {
            return Ok(Defined { change: None, warnings });
        };
        let version = crate::schema::random_uuid();
        let after = Arc::new(schema_after(&self.schema, &change, version));
        let gone = dropped(&self.schema, &after, &change.keyspace);
        let indexed = indexes::missing(&after, &self.schema, &change.keyspace);
        let unindexed = indexes::missing(&self.schema, &after, &change.keyspace);
        for (table, index) in &indexed {
            self.shard.store().prepare_index(table, index).await.map_err(store_failure)?;
        }
        for table in with_columns_again(&self.schema, &after, &change.keyspace) {
            self.shard.on_every_shard(TableVerb::Flush(table)).await?;
        }
        if let (ChangeKind::Created, ChangeTarget::Table) = (change.kind, change.target)
            && let Some(table) = after.table(&change.keyspace, &change.name)
        {
            self.shard.store().create_directory(table).await.map_err(store_failure)?;
        }
        let kept = self.keep(snapshots::DROPPED, &gone).await?;

        if let Some(id) = change.given_id {
            self.forget_earlier(id, timestamp).await?;
        }
        self.apply(local::schema_version_changed(&self.schema, version, timestamp)).await?;
        let mutation = mutation_of(&self.schema, &change, timestamp, self.now_in_seconds());
        if let Err(failure) = self.apply(mutation).await {
            if failure.outcome == Outcome::NotApplied {
                snapshots::give_back(self.shard, kept).await;
                self.apply(local::schema_version_changed(&self.schema, self.schema.version, timestamp + 1)).await?;
            }
            return Err(failure);
        }
        self.sync().await?;

        let Change { kind, target, keyspace, name, .. } = change;
        let change = SchemaChange { change: kind, target, keyspace, name };
        if change.change == ChangeKind::Updated {
            // Stores must know a new column before any core writes it for a client.
            let replies = self.shard.call_all(|| Request::AdoptTables(after.clone())).await;
            replies.into_iter().try_for_each(Reply::done).map_err(Failure::unknown)?;
        }
        self.switch(&after, Some(&change), &[], now_micros).await?;
        if change.target == ChangeTarget::Table && change.change == ChangeKind::Updated {
            let left = now_micros - runtime::wall_micros();
            if (0..=MICROS_PER_MILLI).contains(&left) {
                runtime::sleep(Duration::from_micros(left as u64 + 1)).await;
            }
        }
        if !gone.is_empty() {
            // Add the writes that came while the schema was changing.
            if let Err(failure) = snapshots::take_up(self.shard, kept).await {
                tracing::warn!(%failure, "a snapshot of a dropped table may lack its last writes");
            }
            // The drop itself is done: a failure here only costs space until the next start.
            if let Err(failure) = self.cut(&gone, timestamp).await {
                tracing::warn!(%failure, "data of a dropped table stays in the log");
            }
            self.switch(&after, None, &gone, now_micros).await?;
            self.release(&gone).await;
        }
        indexes::remove(self.shard, &unindexed).await;
        for index in indexed {
            let built = runtime::spawn_in(Class::Background, indexes::build(self.shard.clone(), index));
            runtime::timeout(indexes::BUILD_WAIT, built).await;
        }
        Ok(Defined { change: Some(change), warnings })
    }

    async fn truncate(&self, table: TableId) -> Result<(), Failure> {
        let description = self.schema.table_by_id(table);
        let description = description.ok_or_else(|| Failure::invalid("table does not exist"))?;
        refuse_system(&description.keyspace, || format!("Cannot MODIFY <table {}>", description.full_name()))?;
        self.keep(snapshots::TRUNCATED, &[table]).await?;
        self.cut(&[table], self.timestamp()).await.map_err(Failure::unknown)?;
        self.release(&[table]).await;
        Ok(())
    }

    /// Takes a snapshot of each of these tables, unless snapshots are disabled for the node or the table.
    async fn keep(&self, prefix: &str, tables: &[TableId]) -> Result<Vec<Taken>, Failure> {
        let mut kept = Vec::new();
        for table in tables.iter().filter_map(|table| self.schema.table_by_id(*table)) {
            let allowed = self.shard.config().auto_snapshot && table.options.allow_auto_snapshot.unwrap_or(true);
            if allowed {
                kept.push(snapshots::take_automatically(self.shard, &self.schema, table, prefix).await?);
            }
        }
        Ok(kept)
    }

    /// Truncates tables on every shard and records the log positions from which their records count again.
    async fn cut(&self, tables: &[TableId], timestamp: i64) -> Result<(), Failure> {
        let mut records = Vec::new();
        for &table in tables {
            let replies = self.shard.call_all(|| Request::TruncateShard(table)).await;
            let positions: Result<Vec<LogPosition>, Failure> = replies.into_iter().map(Reply::truncated).collect();
            let truncation = Truncation {
                counter_floor: self.shard.store().counter_floor(),
                positions: positions?,
                at_millis: self.now_micros.div_euclid(1_000),
            };
            let noted = self.shard.store().note_truncation(table, truncation.at_millis).await;
            noted.map_err(|error| Failure::server(error.to_string()))?;
            records.push((table, truncation));
        }
        self.apply(local::truncated(&self.schema, &records, timestamp)).await?;
        self.sync().await
    }

    /// Called before a table is created WITH ID: makes the log ignore records of that id from before this process.
    /// Those of this process were cut off when the table was dropped.
    async fn forget_earlier(&self, table: TableId, timestamp: i64) -> Result<(), Failure> {
        let counter_floor = self.shard.store().counter_floor();
        let cut = |(id, truncation): &(TableId, Truncation)| *id == table && truncation.counter_floor >= counter_floor;
        if self.stored.truncations.iter().any(cut) {
            return Ok(());
        }
        let at_millis = self.now_micros.div_euclid(1_000);
        let truncation = Truncation { counter_floor, positions: Vec::new(), at_millis };
        self.apply(local::truncated(&self.schema, &[(table, truncation)], timestamp)).await
    }

    async fn switch(
        &self,
        schema: &Arc<Schema>,
        change: Option<&SchemaChange>,
        dropped: &[TableId],
        timestamp: i64,
    ) -> Result<(), Failure> {
        let request = || Request::SwitchSchema {
            schema: schema.clone(),
            change: change.cloned(),
            dropped: dropped.to_vec(),
            timestamp,
        };
        let replies = self.shard.call_all(request).await;
        replies.into_iter().try_for_each(Reply::done).map_err(Failure::unknown)
    }

    async fn apply(&self, mutation: Mutation) -> Result<(), Failure> {
        self.shard.store().apply(mutation, true).await.map_err(store_failure)
    }

    /// Makes durable what was applied, whatever the mode of the commit log.
    async fn sync(&self) -> Result<(), Failure> {
        self.shard.store().sync().await.map_err(|error| store_failure(error).unknown())
    }

    async fn release(&self, tables: &[TableId]) {
        for &table in tables {
            for reply in self.shard.call_all(|| Request::ReleaseLog(table)).await {
                if let Err(failure) = reply.done() {
                    tracing::warn!(%failure, %table, "log segments stay");
                }
            }
        }
    }
}

fn store_failure(error: engine::Error) -> Failure {
    let failure = Failure::server(error.to_string());
    if matches!(error, engine::Error::LogFailed(_)) { failure.unknown() } else { failure }
}

/// Refuses changes of system keyspaces, with Cassandra's failure for each.
fn refuse_system(keyspace: &str, no_permission: impl FnOnce() -> String) -> Result<(), Failure> {
    match keyspace {
        "system" | "system_schema" => {
            let text = format!("{keyspace} keyspace is not user-modifiable.");
            Err(Failure::new(ErrorCode::Unauthorized, text))
        }
        other if SYSTEM_KEYSPACES.contains(&other) => Err(Failure::new(ErrorCode::Unauthorized, no_permission())),
        _ => Ok(()),
    }
}

/// The schema after a change.
fn schema_after(before: &Schema, change: &Change, version: Uuid) -> Schema {
    let mut after = before.clone();
    after.version = version;
    match &change.after {
        Some(keyspace) => after.put_keyspace(Arc::new(keyspace.clone())),
        None => after.drop_keyspace(&change.keyspace),
    }
    after
}

/// The mutation of `system_schema` that stores a change.
fn mutation_of(before: &Schema, change: &Change, timestamp: i64, now_in_seconds: i64) -> Mutation {
    match (before.keyspace(&change.keyspace), &change.after) {
        (_, None) => rows::keyspace_dropped(before, &change.keyspace, timestamp, now_in_seconds),
        (None, Some(after)) => rows::keyspace_created(before, after, timestamp),
        (Some(old), Some(after)) => rows::keyspace_changed(before, old, after, timestamp, now_in_seconds),
    }
}

/// The tables of a keyspace that a change drops.
fn dropped(before: &Schema, after: &Schema, keyspace: &str) -> Vec<TableId> {
    let tables = before.keyspace(keyspace).into_iter().flat_map(|keyspace| keyspace.tables.values());
    tables.map(|table| table.id).filter(|id| after.table_by_id(*id).is_none()).collect()
}

/// The tables of a keyspace to which a change adds a dropped column again.
fn with_columns_again(before: &Schema, after: &Schema, keyspace: &str) -> Vec<TableId> {
    let tables = before.keyspace(keyspace).into_iter().flat_map(|keyspace| keyspace.tables.values());
    let changed = tables.filter(|table| {
        let Some(after) = after.table_by_id(table.id).filter(|after| !Arc::ptr_eq(after, table)) else { return false };
        let is_again = |name: &str| table.column(name).is_none() && after.column(name).is_some();
        after.dropped.iter().any(|dropped| is_again(&dropped.name))
    });
    changed.map(|table| table.id).collect()
}

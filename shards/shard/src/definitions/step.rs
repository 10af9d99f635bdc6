//! One change of the schema on this node, made on shard 0 once the cluster has agreed on it.
//!
//! 1. Prepare ([`Step::prepare`]): the store learns of new indexes, tables to which a dropped column comes back are
//!    flushed, new tables get their directories, and with `auto_snapshot` what is dropped is kept as a snapshot.
//! 2. Make ([`Step::make`]): the new `schema_version` and the rows of `system_schema` (one mutation) are stored; every
//!    shard switches to the new schema and confirms; events go out. DROP only: the table's data are cut off on every
//!    shard, the truncation is recorded, the shards forget the table.
//!
//! A column that is added again has a new id, and cells that were written after the drop come back under it: every
//! shard flushes the table before the change, because SSTables know columns by their names, memtables by their ids.
//!
//! Invariants: a crash during the change leaves it complete or not begun, and the log of the cluster makes it again at
//! the next start if it is not known to be complete; making a complete change again has no effect.

use super::truncate::Cut;
use super::{next_timestamp, stored, with_columns_again};
use crate::messages::admin::TableVerb;
use crate::messages::{Reply, Request};
use crate::operations::indexes::{self, NamedIndex};
use crate::operations::snapshots::{self, Taken};
use crate::ports::{ChangeKind, ChangeTarget, SchemaChange};
use crate::schema::{local, rows};
use crate::shard_state::Shard;
use cluster::metadata::{SchemaUpdate, UpdatedKind, UpdatedTarget};
use model::{Failure, Mutation, Schema, TableId};
use runtime::Class;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

const MICROS_PER_MILLI: i64 = 1_000;

/// A change of the schema, with the schemas before and after it.
pub(crate) struct Step {
    before: Arc<Schema>,
    after: Arc<Schema>,
    change: SchemaChange,
    rows: Mutation,
    given_id: Option<TableId>,
    /// Microseconds since 1970.
    timestamp: i64,
}

/// What was done ahead of a change.
#[derive(Default)]
pub(crate) struct Prepared {
    /// Snapshots of what the change drops.
    kept: Vec<Taken>,
}

/// The time of a change as it stands in the schema, microseconds: times of drops are stored in whole milliseconds, so
/// it is rounded up to one.
pub(super) fn time_of_change(timestamp: i64) -> i64 {
    timestamp.saturating_add(MICROS_PER_MILLI - 1).div_euclid(MICROS_PER_MILLI) * MICROS_PER_MILLI
}

impl Step {
    /// The step of a change that this node has worked out itself. `after` is the schema that it leads to.
    pub(super) fn own(before: Arc<Schema>, after: Arc<Schema>, rows: Mutation, update: &SchemaUpdate) -> Step {
        Step {
            before,
            after,
            change: announced(update),
            rows,
            given_id: update.given_id.map(TableId),
            timestamp: update.timestamp,
        }
    }

    /// The step of a change that the cluster has agreed on.
    ///
    /// # Errors
    /// If its rows are not ones that describe a schema.
    pub(crate) fn learned(shard: &Shard, update: &SchemaUpdate) -> Result<Step, Failure> {
        let before = shard.schema();
        let malformed = |what: &dyn std::fmt::Display| Failure::server(format!("a change of the schema: {what}"));
        let rows = Mutation::decode(before.partitioner, update.rows.clone());
        let rows = rows.map_err(|error| malformed(&format!("{error:?}")))?;
        let keyspace = rows::keyspace_after(&before, &update.keyspace, &rows).map_err(|error| malformed(&error))?;
        let mut after = Schema::clone(&before);
        after.version = update.after;
        match keyspace {
            Some(keyspace) => after.put_keyspace(Arc::new(keyspace)),
            None => after.drop_keyspace(&update.keyspace),
        }
        Ok(Step::own(before, Arc::new(after), rows, update))
    }

    /// Does what must be done before the change. A failure leaves nothing behind.
    pub(crate) async fn prepare(&self, shard: &Shard) -> Result<Prepared, Failure> {
        let (before, after, keyspace) = (&self.before, &self.after, &self.change.keyspace);
        for (table, index) in indexes::missing(after, before, keyspace) {
            shard.store().prepare_index(&table, &index).await.map_err(super::store_failure)?;
        }
        for table in with_columns_again(before, after, keyspace) {
            shard.on_every_shard(TableVerb::Flush(table)).await?;
        }
        if let (ChangeKind::Created, ChangeTarget::Table) = (self.change.change, self.change.target)
            && let Some(table) = after.table(keyspace, &self.change.name)
        {
            shard.store().create_directories(table).await.map_err(super::store_failure)?;
        }
        let kept = super::truncate::keep(shard, before, snapshots::DROPPED, &self.dropped()).await?;
        Ok(Prepared { kept })
    }

    /// Makes the change on this node. Returns when every shard serves the new schema.
    pub(crate) async fn make(&self, shard: &Shard, prepared: Prepared) -> Result<(), Failure> {
        // A start of this node may have written its row of `system.local` after the change was agreed on.
        let local_timestamp = next_timestamp(shard, &stored(shard).await?).max(self.timestamp);
        let cut = Cut::new(shard, self.before.clone(), local_timestamp);
        if let Some(id) = self.given_id {
            cut.forget_earlier(id).await?;
        }
        let version = local::schema_version_changed(&self.before, self.after.version, local_timestamp);
        super::apply(shard, version).await?;
        super::apply(shard, self.rows.clone()).await?;
        super::sync(shard).await?;

        if self.change.change == ChangeKind::Updated {
            // Stores must know a new column before any core writes it for a client.
            let replies = shard.call_all(|| Request::AdoptTables(self.after.clone())).await;
            replies.into_iter().try_for_each(Reply::done).map_err(Failure::unknown)?;
        }
        self.switch(shard, Some(&self.change), &[]).await?;
        if self.change.target == ChangeTarget::Table && self.change.change == ChangeKind::Updated {
            // What is written after a column was dropped is later than the drop, which stands in whole milliseconds.
            let left = time_of_change(self.timestamp) - runtime::wall_micros();
            if (0..=MICROS_PER_MILLI).contains(&left) {
                runtime::sleep(Duration::from_micros(left as u64 + 1)).await;
            }
        }
        let gone = self.dropped();
        if !gone.is_empty() {
            // Add the writes that came while the schema was changing.
            if let Err(failure) = snapshots::take_up(shard, prepared.kept).await {
                tracing::warn!(%failure, "a snapshot of a dropped table may lack its last writes");
            }
            // The drop itself is done: a failure here only costs space until the next start.
            if let Err(failure) = cut.cut(&gone).await {
                tracing::warn!(%failure, "data of a dropped table stays in the log");
            }
            self.switch(shard, None, &gone).await?;
            cut.release(&gone).await;
        }
        indexes::remove(shard, &self.indexes(&self.before, &self.after)).await;
        for index in self.indexes(&self.after, &self.before) {
            let built = runtime::spawn_in(Class::Background, indexes::build(shard.clone(), index));
            runtime::timeout(indexes::BUILD_WAIT, built).await;
        }
        Ok(())
    }

    /// The schemas before and after the change.
    pub(super) fn schemas(&self) -> (Arc<Schema>, Arc<Schema>) {
        (self.before.clone(), self.after.clone())
    }

    /// What the change announces to clients.
    pub(super) fn change(&self) -> &SchemaChange {
        &self.change
    }

    /// The indexes that `there` has and `other` has not.
    fn indexes(&self, there: &Schema, other: &Schema) -> Vec<NamedIndex> {
        indexes::missing(there, other, &self.change.keyspace)
    }

    /// The tables that the change drops.
    fn dropped(&self) -> Vec<TableId> {
        let keyspace = self.before.keyspace(&self.change.keyspace).into_iter();
        let ids = keyspace.flat_map(|keyspace| keyspace.tables.values()).map(|table| table.id);
        ids.filter(|id| self.after.table_by_id(*id).is_none()).collect()
    }

    async fn switch(&self, shard: &Shard, change: Option<&SchemaChange>, dropped: &[TableId]) -> Result<(), Failure> {
        let timestamp = time_of_change(self.timestamp);
        let clock_ahead = shard.clock().ahead_for(timestamp);
        let request = || Request::SwitchSchema {
            schema: self.after.clone(),
            change: change.cloned(),
            dropped: dropped.to_vec(),
            timestamp,
            clock_ahead,
        };
        let replies = shard.call_all(request).await;
        replies.into_iter().try_for_each(Reply::done).map_err(Failure::unknown)
    }
}

/// Gives the schema of this node the version that the cluster has for it.
pub(crate) async fn adopt_version(shard: &Shard, version: Uuid, timestamp: i64) -> Result<(), Failure> {
    let schema = shard.schema();
    if schema.version == version {
        return Ok(());
    }
    let local_timestamp = next_timestamp(shard, &stored(shard).await?).max(timestamp);
    super::apply(shard, local::schema_version_changed(&schema, version, local_timestamp)).await?;
    let mut after = Schema::clone(&schema);
    after.version = version;
    let after = Arc::new(after);
    let clock_ahead = shard.clock().ahead_for(timestamp);
    let request =
        || Request::SwitchSchema { schema: after.clone(), change: None, dropped: Vec::new(), timestamp, clock_ahead };
    let replies = shard.call_all(request).await;
    replies.into_iter().try_for_each(Reply::done)
}

impl Prepared {
    /// Removes what was prepared for a change that is not made.
    pub(super) async fn undo(self, shard: &Shard) {
        snapshots::give_back(shard, self.kept).await;
    }
}

/// What a change announces to clients.
fn announced(update: &SchemaUpdate) -> SchemaChange {
    SchemaChange {
        change: match update.kind {
            UpdatedKind::Created => ChangeKind::Created,
            UpdatedKind::Updated => ChangeKind::Updated,
            UpdatedKind::Dropped => ChangeKind::Dropped,
        },
        target: match update.target {
            UpdatedTarget::Keyspace => ChangeTarget::Keyspace,
            UpdatedTarget::Table => ChangeTarget::Table,
            UpdatedTarget::Type => ChangeTarget::Type,
        },
        keyspace: update.keyspace.clone(),
        name: update.name.clone(),
    }
}

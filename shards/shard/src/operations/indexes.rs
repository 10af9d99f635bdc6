//! Building the indexes of all cores, led by shard 0, and recording in `system."IndexInfo"` which are built.
//!
//! 1. A definition that creates an index first announces it to every core; then it is built. A start checks every
//!    index.
//! 2. Every core builds its part; one that has it already answers at once. A failure is retried as long as the index
//!    exists.
//! 3. When all cores are done, the index is recorded in `system."IndexInfo"`; dropping it removes the record.
//!
//! Invariants: a read through an index that a core has not built fails; writes go on during the build.

use crate::messages::admin::TableVerb;
use crate::schema::cells::RowWriter;
use crate::schema::rows::system_table;
use crate::shard_state::Shard;
use model::mutation::{Clustering, push_clustering};
use model::row::{Deletion, RowBuilder};
use model::{Failure, Keyspace, MutationBuilder, Schema, Table};
use runtime::Class;
use std::sync::Arc;
use std::time::Duration;

/// How long a definition waits for the index that it creates, so that the next read through it usually finds it built.
pub(crate) const BUILD_WAIT: Duration = Duration::from_secs(1);
/// Pause between two attempts to build an index.
const RETRY_WAIT: Duration = Duration::from_secs(1);

/// An index by name, with its table as it was when the name was taken.
pub(crate) type NamedIndex = (Arc<Table>, Arc<str>);

/// Builds every index that is not built. To be called on shard 0 at the end of a start.
pub(crate) fn start(shard: &Shard) {
    let shard = shard.clone();
    runtime::spawn_in(Class::Background, async move {
        let schema = shard.schema();
        let tables = schema.keyspaces.values().flat_map(|keyspace| keyspace.tables.values());
        let named = tables.flat_map(|table| table.indexes.iter().map(move |index| (table, &*index.name)));
        for (table, index) in named {
            build(shard.clone(), (table.clone(), index.into())).await;
        }
    });
}

/// Builds an index on every core, retrying until it succeeds or the index is dropped. To be called on shard 0.
pub(crate) async fn build(shard: Shard, (table, index): NamedIndex) {
    loop {
        let there = shard.schema().table_by_id(table.id).is_some_and(|table| has(table, &index));
        if !there || shard.store().is_closing() {
            return;
        }
        let verb = TableVerb::BuildIndex { table: table.id, index: index.clone() };
        match shard.on_every_shard(verb).await {
            Ok(_) => break,
            Err(failure) => tracing::warn!(%failure, %index, "an index is not built, to be tried again"),
        }
        runtime::sleep(RETRY_WAIT).await;
    }
    if let Err(failure) = note(&shard, &table.keyspace, &index, true).await {
        tracing::warn!(%failure, %index, "a built index is not in system.IndexInfo");
    }
}

/// Removes the files of dropped indexes. To be called on shard 0 when no core's schema has them any more.
pub(crate) async fn remove(shard: &Shard, gone: &[NamedIndex]) {
    for (table, index) in gone {
        let verb = TableVerb::RemoveIndex { table: table.clone(), index: index.clone() };
        let removed = shard.on_every_shard(verb).await;
        if let Err(error) = shard.store().prepare_index(table, index).await {
            // Cores that still read it remove the rest themselves, and the next start removes an empty directory.
            tracing::debug!(%error, %index, "the directory of a dropped index stays");
        }
        let noted = note(shard, &table.keyspace, index, false).await;
        if let Err(failure) = removed.map(drop).and(noted) {
            tracing::warn!(%failure, %index, "something of a dropped index stays");
        }
    }
}

/// The indexes of a keyspace that the schema `of` has and the schema `from` does not.
pub(crate) fn missing(of: &Schema, from: &Schema, keyspace: &str) -> Vec<NamedIndex> {
    let tables = of.keyspace(keyspace).into_iter().flat_map(|keyspace: &Arc<Keyspace>| keyspace.tables.values());
    let mut found = Vec::new();
    for table in tables {
        let other = from.table_by_id(table.id);
        let gone = table.indexes.iter().filter(|index| other.is_none_or(|other| !other.indexes.contains(index)));
        found.extend(gone.map(|index| (table.clone(), Arc::from(index.name.as_str()))));
    }
    found
}

fn has(table: &Table, index: &str) -> bool {
    table.indexes.iter().any(|found| found.name == index)
}

/// Adds an index to `system."IndexInfo"` when it is built, or removes it.
async fn note(shard: &Shard, keyspace: &str, index: &str, built: bool) -> Result<(), Failure> {
    let schema = shard.schema();
    let table = system_table(&schema, "system", "IndexInfo");
    let now = runtime::wall_micros();
    let timestamp = shard.clock().timestamp().max(now);
    let mut mutation = MutationBuilder::new(shard.partitioner(), keyspace.as_bytes());
    mutation.table(table.id);
    if built {
        RowWriter::new(table, &[index.as_bytes()], timestamp).finish(&mut mutation);
    } else {
        let deletion = Deletion { timestamp, local_deletion_time: now.div_euclid(1_000_000) };
        let mut clustering = Vec::new();
        push_clustering(&mut clustering, index.as_bytes());
        mutation.row(Clustering(&clustering), |out| {
            RowBuilder::new(out, None, deletion);
        });
    }
    let applied = shard.store().apply(mutation.finish(), true).await;
    applied.map_err(|error| Failure::server(error.to_string()))
}

//! The batch log: logged batches over several partitions happen whole, or not at all, whatever crashes.
//!
//! 1. All mutations of a batch go into one row of `system.batches`, on disk on this core before any of them is applied. The
//!    batch's id is one whose token this core owns, so that the row also finds its core when their number changes.
//! 2. The mutations are applied. The row is removed once they are as durable as the row was.
//! 3. If some could not be applied, they are tried again until they are. After a restart what is left in the table is
//!    applied with the timestamps that it had.
//!
//! A stored mutation is `[u32 number of column lists]`, each `[u32 length][list]`, then the mutation (little-endian): ids of
//! columns are given anew at every start, the lists say what they meant.
//!
//! Invariants: applying a batch again changes nothing; a batch that is in the table is applied sooner or later.

use super::Terms;
use super::write::{Routed, write};
use crate::schema::cells::{StoredRow, read_all};
use crate::schema::rows::system_table;
use crate::{Shard, schema};
use cql::plan::Context;
use engine::stored::{StoredMutation, decode, encode};
use model::failure::Detail;
use model::row::{Cell, CellContent, Deletion, Liveness, RowBuilder};
use model::{ColumnId, Consistency, DecoratedKey, ErrorCode, Failure, Mutation, MutationBuilder, Table};
use std::sync::Arc;
use std::time::Duration;

/// `system.batches.version`: the form of the stored mutations.
const VERSION: i32 = 1;
/// Between two tries to apply what could not be applied.
const RETRY: Duration = Duration::from_secs(10);
/// Ids that are tried to find one of this core: with 256 cores one in 100 million batches finds none, which then is
/// stored with the core of its last id.
const ID_TRIES_MAX: usize = 4096;

/// Applies the mutations of a batch, all or none.
pub(crate) async fn write_logged(shard: &Shard, mutations: Vec<Routed>, terms: &Terms) -> Result<(), Failure> {
    let table = system_table(&shard.schema_ref(), "system", "batches").clone();
    let id = own_id(shard);
    let timestamp = shard.clock().timestamp();
    let row = row(shard, &table, &id, &mutations, timestamp);
    match runtime::timeout(terms.timeout, shard.store().apply_durably(row, true)).await {
        Some(Ok(())) => {}
        Some(Err(error)) => return Err(crate::replica::failure(&shard.schema_ref(), Some(table.id), error)),
        None => return Err(timed_out(terms, "BATCH_LOG")),
    }
    let applied: Vec<Routed> = mutations.iter().map(Routed::clone).collect();
    match write(shard, applied, terms).await {
        Ok(()) => {
            finish(shard, table, id, timestamp);
            Ok(())
        }
        Err(failure) => {
            let (owner, consistency) = (shard.clone(), terms.consistency);
            runtime::spawn(async move {
                retry(&owner, &mutations, consistency).await;
                finish(&owner, table, id, timestamp);
            });
            // It is in the log: it will be applied, whatever the first try came to.
            tracing::warn!(%failure, "a logged batch is tried again");
            Err(timed_out(terms, "BATCH"))
        }
    }
}

fn timed_out(terms: &Terms, write_type: &'static str) -> Failure {
    let detail = Detail::WriteTimeout {
        consistency: terms.consistency,
        received: 0,
        block_for: terms.block_for as i32,
        write_type,
    };
    Failure::new(ErrorCode::WriteTimeout, "Operation timed out - received only 0 responses.").unknown().with(detail)
}

/// A batch id whose token this core owns.
fn own_id(shard: &Shard) -> [u8; 16] {
    let mut id = shard.evaluation().timeuuid();
    for _ in 1..ID_TRIES_MAX {
        if shard.route(false, DecoratedKey::new(&id).token) == shard.id() {
            break;
        }
        id = shard.evaluation().timeuuid();
    }
    id
}

fn column(table: &Table, name: &str) -> ColumnId {
    table.column(name).map_or(ColumnId(0), |column| column.id)
}

fn row(shard: &Shard, table: &Table, id: &[u8; 16], mutations: &[Routed], timestamp: i64) -> Mutation {
    let schema = shard.schema_ref();
    let mut context = shard.evaluation();
    let mut parts: Vec<([u8; 16], Vec<u8>)> = mutations
        .iter()
        .map(|routed| (context.timeuuid(), encode(&routed.mutation, |id| schema.table_by_id(id).cloned())))
        .collect();
    parts.sort_unstable_by_key(|(path, _)| *path);
    let mut mutation = MutationBuilder::new(id);
    mutation.table(table.id).row(Default::default(), |out| {
        let mut builder = RowBuilder::new(out, Some(Liveness { timestamp, expiry: None }), Deletion::LIVE);
        let version = VERSION.to_be_bytes();
        let mut cells: Vec<Cell<'_>> = parts
            .iter()
            .map(|(path, value)| Cell {
                column: column(table, "mutations"),
                timestamp,
                content: CellContent::Live(value),
                path: Some(path),
            })
            .collect();
        let content = CellContent::Live(&version);
        cells.push(Cell { column: column(table, "version"), timestamp, content, path: None });
        cells.sort_by_key(|cell| cell.column);
        cells.iter().for_each(|cell| builder.cell(cell));
    });
    mutation.finish()
}

/// Removes a batch whose mutations are applied, once they are durable.
fn finish(shard: &Shard, table: Arc<Table>, id: [u8; 16], timestamp: i64) {
    let shard = shard.clone();
    runtime::spawn(async move {
        // What is applied is on disk when the periodic sync after it has ended.
        if let engine::SyncMode::Periodic { period, .. } = shard.config().sync {
            runtime::sleep(2 * period).await;
        }
        let now_in_seconds = runtime::wall_micros().div_euclid(1_000_000);
        let mut mutation = MutationBuilder::new(&id);
        let deletion = Deletion { timestamp, local_deletion_time: now_in_seconds };
        mutation.table(table.id).delete_partition(deletion);
        if let Err(error) = shard.store().apply(mutation.finish(), true).await {
            // It will be applied once more at the next start, which changes nothing.
            tracing::warn!(%error, "a finished batch stays in the batch log");
        }
    });
}

/// Applies mutations until all are.
async fn retry(shard: &Shard, mutations: &[Routed], consistency: Consistency) {
    let terms = Terms { consistency, block_for: 1, timeout: shard.config().write_timeout };
    loop {
        runtime::sleep(RETRY).await;
        if write(shard, mutations.iter().map(Routed::clone).collect(), &terms).await.is_ok() {
            return;
        }
    }
}

/// Applies what an earlier run of the process left in the table.
pub(crate) async fn replay(shard: &Shard) -> Result<(), schema::Error> {
    let table = system_table(&shard.schema_ref(), "system", "batches").clone();
    let rows = read_all(shard.store(), &table).await?;
    for row in rows {
        let Ok(id) = <[u8; 16]>::try_from(row.key.as_slice()) else { continue };
        let mutations = stored(shard, &table, &row);
        let timestamp = row.cells.iter().map(|cell| cell.timestamp).max().unwrap_or_default();
        tracing::info!(mutations = mutations.len(), "a batch of an earlier run is applied");
        let (owner, table) = (shard.clone(), table.clone());
        let terms = Terms { consistency: Consistency::One, block_for: 1, timeout: shard.config().write_timeout };
        let applied = write(shard, mutations.iter().map(Routed::clone).collect(), &terms).await;
        runtime::spawn(async move {
            if applied.is_err() {
                retry(&owner, &mutations, Consistency::One).await;
            }
            finish(&owner, table, id, timestamp);
        });
    }
    Ok(())
}

/// The mutations of a stored batch with the column ids of now; what concerns tables that are gone is left out.
fn stored(shard: &Shard, table: &Table, row: &StoredRow) -> Vec<Routed> {
    let schema = shard.schema_ref();
    let list = column(table, "mutations");
    let mut found = Vec::new();
    for cell in row.cells.iter().filter(|cell| cell.column == list) {
        match decode(&cell.value, |id| schema.table_by_id(id).cloned()) {
            Some(StoredMutation { mutations }) => {
                found.extend(mutations.into_iter().map(|mutation| Routed { mutation, local: false }));
            }
            None => tracing::error!("a batch in the batch log is malformed and is left out"),
        }
    }
    found
}

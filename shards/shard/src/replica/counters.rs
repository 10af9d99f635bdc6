//! Changes of counters on the core that owns them.
//!
//! A mutation of a counter table arrives with amounts in the place of counters ([`model::counter::change`]).
//!
//! 1. Its partition is locked in every table that it changes.
//! 2. This node's shard of each counter that it changes is read.
//! 3. Amounts become shards of this node: the next clock and the whole count. The mutation is written like any other,
//!    here and then on the other replicas (`coordinator::counting`).
//! 4. The locks are released.
//!
//! Deletions are applied in the same way, so that none comes between the read and the write of a change.
//!
//! Source: Cassandra 5's `CounterMutation`.
//!
//! Invariants: two changes of a counter never start from the same count; the clock of a later change is larger, even
//! after a restart and if the outcome of an earlier change is unknown; amounts never reach the log.

use super::{failure, mutate, wait_for_table};
use crate::rows::commands::row_command;
use crate::shard_state::Shard;
use model::counter::{CounterContext, global};
use model::mutation::Operation;
use model::query::{LiveRow, RowSink, SinkState};
use model::row::{Cell, CellContent, RowBuilder, RowView};
use model::{ColumnId, DecoratedKey, Failure, Mutation, MutationBuilder, Table, TableId};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// This node's shard of a counter.
#[derive(Clone, Copy, Default)]
struct Own {
    clock: i64,
    count: i64,
}

/// A row of a table by its clustering, or the static row if there is none.
type CounterRow = (TableId, Option<Vec<u8>>);

/// This node's shards of the counters of some rows.
type Counts = BTreeMap<CounterRow, BTreeMap<ColumnId, Own>>;

/// Applies a mutation of a counter table that this core owns, as its only replica.
pub(crate) async fn apply(shard: &Shard, mutation: Mutation) -> Result<(), Failure> {
    count_and_write(shard, mutation, |written| mutate(shard, written, false)).await
}

/// Applies a mutation of a counter table that this core owns. Returns what it has written, for the other replicas.
pub(crate) async fn apply_as_leader(shard: &Shard, mutation: Mutation) -> Result<Mutation, Failure> {
    let write = async |written: Mutation| {
        mutate(shard, written.clone(), false).await?;
        Ok(written)
    };
    Box::pin(count_and_write(shard, mutation, write)).await
}

/// Writes, by `write`, a mutation with this node's shards in place of amounts.
async fn count_and_write<T>(
    shard: &Shard,
    mutation: Mutation,
    write: impl AsyncFnOnce(Mutation) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let key = DecoratedKey::new(shard.partitioner(), mutation.key());
    let mut tables: Vec<TableId> = mutation.updates().map(|update| update.table).collect();
    tables.sort_unstable();
    tables.dedup();
    for table in &tables {
        wait_for_table(shard, *table).await?;
    }
    let failed = |error| failure(&shard.schema(), tables.first().copied(), error);
    let _guards = shard.store().lock_all(tables.iter().map(|table| (*table, &key))).await.map_err(failed)?;
    let mut counts = read(shard, &key, &mutation).await?;
    write(count(shard, &mutation, &mut counts)).await
}

/// Whether a row changes a counter.
fn counts_in(row: RowView<'_>) -> bool {
    row.cells().any(|cell| matches!(cell.content, CellContent::Counter(_)))
}

/// Reads this node's shards of the counters in the rows that a mutation changes.
async fn read(shard: &Shard, key: &DecoratedKey, mutation: &Mutation) -> Result<Counts, Failure> {
    let mut counts = Counts::new();
    for update in mutation.updates() {
        for operation in update.operations() {
            let row = match operation {
                Operation::Row { clustering, row } if counts_in(row) => Some(clustering.0.to_vec()),
                Operation::StaticRow { row } if counts_in(row) => None,
                _ => continue,
            };
            let place = (update.table, row);
            if let Entry::Vacant(unread) = counts.entry(place) {
                let table = wait_for_table(shard, update.table).await?;
                let own = read_row(shard, &table, key, unread.key().1.as_deref()).await?;
                unread.insert(own);
            }
        }
    }
    Ok(counts)
}

/// Reads this node's shards of the counters of a row, or of the static row if `row` is none.
async fn read_row(
    shard: &Shard,
    table: &Table,
    key: &DecoratedKey,
    row: Option<&[u8]>,
) -> Result<BTreeMap<ColumnId, Own>, Failure> {
    // Counters do not expire, so the time does not matter.
    let command = row_command(table, key, row, 0);
    let mut found = Collected { node: shard.host_id().into_bytes(), is_static: row.is_none(), counts: BTreeMap::new() };
    let read = shard.store().read(&command, &mut found).await;
    read.map_err(|error| failure(&shard.schema(), Some(table.id), error))?;
    Ok(found.counts)
}

/// Collects a node's shards of the counters of a row.
struct Collected {
    node: [u8; 16],
    is_static: bool,
    counts: BTreeMap<ColumnId, Own>,
}

impl RowSink for Collected {
    fn row(&mut self, row: &LiveRow<'_>) -> SinkState {
        for cell in if self.is_static { row.static_cells } else { row.cells } {
            if let CellContent::Counter(context) = cell.content
                && let Some(shard) = CounterContext::trusted(context).shard(&self.node)
            {
                self.counts.insert(cell.column, Own { clock: shard.clock, count: shard.count });
            }
        }
        SinkState::Full
    }
}

/// The mutation with this node's shards in place of amounts.
fn count(shard: &Shard, mutation: &Mutation, counts: &mut Counts) -> Mutation {
    let (node, clock) = (shard.host_id().into_bytes(), shard.clock().timestamp());
    let mut builder = MutationBuilder::new(shard.partitioner(), mutation.key());
    for update in mutation.updates() {
        builder.table(update.table).delete_partition(update.partition_deletion);
        for operation in update.operations() {
            match operation {
                Operation::Row { clustering, row } => {
                    let own = counts.entry((update.table, Some(clustering.0.to_vec()))).or_default();
                    builder.row(clustering, |out| count_row(row, node, clock, own, out));
                }
                Operation::StaticRow { row } => {
                    let own = counts.entry((update.table, None)).or_default();
                    builder.static_row(|out| count_row(row, node, clock, own, out));
                }
                Operation::RangeDeletion { start, end, deletion } => {
                    builder.delete_range(start, end, deletion);
                }
            }
        }
    }
    // As long as the original mutation, because amounts and shards have the same length.
    builder.finish()
}

fn count_row(row: RowView<'_>, node: [u8; 16], now: i64, own: &mut BTreeMap<ColumnId, Own>, out: &mut Vec<u8>) {
    let mut builder = RowBuilder::new(out, row.liveness(), row.deletion());
    for cell in row.cells() {
        let CellContent::Counter(amount) = cell.content else {
            builder.cell(&cell);
            continue;
        };
        let own = own.entry(cell.column).or_default();
        own.clock = now.max(own.clock.saturating_add(1));
        own.count = own.count.wrapping_add(CounterContext::trusted(amount).total());
        let context = global(node, own.clock, own.count);
        builder.cell(&Cell { content: CellContent::Counter(&context), ..cell });
    }
}

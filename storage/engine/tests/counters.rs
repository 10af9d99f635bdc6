//! Counters written by several nodes or by old versions: in memtables, SSTables, the log and compactions.

use crate::support::*;
use engine::Store;
use model::Partitioner;
use model::counter::{CounterContext, change, global, merge};
use model::mutation::Clustering;
use model::query::{LiveRow, Partitions, RowSink, SinkState};
use model::row::{Cell, CellContent, Deletion, RowBuilder};
use model::{CqlType, Mutation, MutationBuilder, Table};
use std::sync::Arc;

/// Table 1 with two counter columns.
fn counters() -> Arc<Table> {
    let mut table = (*table(1)).clone();
    table.columns.iter_mut().skip(3).for_each(|column| column.cql_type = CqlType::Counter);
    table.options.compaction.insert("enabled".into(), "false".into());
    Arc::new(table)
}

/// A counter context with a global shard.
fn of(node: u8, clock: i64, count: i64) -> Vec<u8> {
    global([node; 16], clock, count).to_vec()
}

/// A counter context with a remote shard, which is not marked as local or global.
fn remote(node: u8, clock: i64, count: i64) -> Vec<u8> {
    let mut context = of(node, clock, count);
    context.drain(2..4);
    context[1] = 0;
    context
}

/// A counter context with a local shard at clock 1.
fn local(node: u8, count: i64) -> Vec<u8> {
    let mut context = change(count).to_vec();
    context[4..20].fill(node);
    context
}

fn write(content: CellContent<'_>, timestamp: i64) -> Mutation {
    let mut builder = MutationBuilder::new(Partitioner::Murmur3, b"p");
    builder.table(table(1).id).row(Clustering(&clustering(&[1, 1])), |out| {
        RowBuilder::new(out, None, Deletion::LIVE).cell(&Cell { column: A, timestamp, content, path: None });
    });
    builder.finish()
}

fn count(context: &[u8], timestamp: i64) -> Mutation {
    write(CellContent::Counter(context), timestamp)
}

fn delete_cell(timestamp: i64) -> Mutation {
    write(CellContent::Deleted { local_deletion_time: 1 }, timestamp)
}

fn delete_row(timestamp: i64) -> Mutation {
    let mut builder = MutationBuilder::new(Partitioner::Murmur3, b"p");
    builder.table(table(1).id).row(Clustering(&clustering(&[1, 1])), |out| {
        RowBuilder::new(out, None, deletion(timestamp));
    });
    builder.finish()
}

/// A sink that keeps the counter's context and timestamp, if it is live.
#[derive(Default)]
struct Found(Option<(Vec<u8>, i64)>);

impl RowSink for Found {
    fn row(&mut self, row: &LiveRow<'_>) -> SinkState {
        for cell in row.cells.iter().filter(|cell| cell.column == A) {
            let CellContent::Counter(context) = cell.content else { panic!("no counter") };
            self.0 = Some((context.to_vec(), cell.timestamp));
        }
        SinkState::Open
    }
}

async fn read(store: &Store) -> Option<(Vec<u8>, i64)> {
    let mut found = Found::default();
    let key = Partitions::Key(model::DecoratedKey::new(model::Partitioner::Murmur3, b"p"));
    store.read(&command(table(1).id, key), &mut found).await.expect("read");
    found.0
}

/// All orders of three things.
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// Writes `mutations` in every order, each to an SSTable of its own, and checks what is read before and after a
/// compaction and a restart.
fn of_three(mutations: impl Fn() -> [Mutation; 3] + Clone + 'static, expected: Option<(Vec<u8>, i64)>) {
    for order in ORDERS {
        let mut sim = calm(1);
        let (given, wanted) = (mutations.clone(), expected.clone());
        run(&mut sim, move || {
            let (given, wanted) = (given.clone(), wanted.clone());
            async move {
                let store = start(small(), &[counters()]).await;
                for at in order {
                    store.apply(given()[at].clone(), false).await.expect("apply");
                    store.flush(table(1).id).await.expect("flush");
                }
                assert_eq!(read(&store).await, wanted, "{order:?} in three SSTables");
                store.compact(table(1).id, EVERYTHING).await.expect("compact");
                assert_eq!(read(&store).await, wanted, "{order:?} compacted");
            }
        });
        sim.crash(NODE);
        let wanted = expected.clone();
        run(&mut sim, move || {
            let wanted = wanted.clone();
            async move {
                let store = start(small(), &[counters()]).await;
                assert_eq!(read(&store).await, wanted, "{order:?} after a crash");
            }
        });
    }
}

fn merged(contexts: &[Vec<u8>]) -> Vec<u8> {
    contexts.iter().fold(Vec::new(), |sum, context| {
        let mut out = Vec::new();
        merge(&sum, context, &mut out);
        out
    })
}

#[test]
fn shards_of_nodes_and_kinds_merge() {
    let shards = || [of(2, 5, 10), of(1, 9, 1), of(2, 6, 7)];
    let context = merged(&shards());
    assert_eq!(CounterContext::trusted(&context).total(), 8);
    of_three(move || [count(&shards()[0], 3), count(&shards()[1], 2), count(&shards()[2], 1)], Some((context, 3)));

    // A global shard wins over local shards, which add up; local shards win over remote ones.
    let shards = || [local(3, 4), of(3, 1, 100), local(3, 5)];
    let context = merged(&shards());
    assert_eq!(CounterContext::trusted(&context).total(), 100);
    of_three(move || [count(&shards()[0], 1), count(&shards()[1], 2), count(&shards()[2], 3)], Some((context, 3)));

    let shards = || [local(3, 4), remote(3, 9, 50), local(3, 5)];
    let context = merged(&shards());
    assert_eq!(CounterContext::trusted(&context).total(), 9);
    assert!(CounterContext::trusted(&context).has_legacy_shards());
    of_three(move || [count(&shards()[0], 1), count(&shards()[1], 2), count(&shards()[2], 3)], Some((context, 3)));
}

#[test]
fn a_deleted_counter_stays_deleted_whatever_the_timestamps() {
    of_three(|| [count(&of(1, 1, 1), 5), delete_cell(1), count(&of(1, 2, 2), 9)], None);
}

#[test]
fn a_deletion_of_the_row_takes_what_is_older_and_no_more() {
    let left = of(2, 1, 7);
    of_three(|| [count(&of(1, 1, 1), 5), delete_row(6), count(&of(2, 1, 7), 9)], Some((left.clone(), 9)));
    // The deletion of the row also covers the earlier deletion of the counter.
    of_three(|| [delete_cell(5), delete_row(6), count(&of(2, 1, 7), 9)], Some((left, 9)));
}

#[test]
fn memtables_and_the_log_merge_counters_too() {
    let mut sim = calm(2);
    let mutations = || [count(&of(1, 1, 1), 5), count(&of(2, 1, 7), 3), count(&of(1, 2, 4), 9), count(&local(3, 1), 1)];
    let expected = merged(&[of(1, 2, 4), of(2, 1, 7), local(3, 1)]);
    let wanted = expected.clone();
    run(&mut sim, move || {
        let wanted = wanted.clone();
        async move {
            let store = start(small(), &[counters()]).await;
            for mutation in mutations() {
                store.apply(mutation, false).await.expect("apply");
            }
            assert_eq!(read(&store).await, Some((wanted, 9)));
        }
    });
    sim.crash(NODE);
    run(&mut sim, move || {
        let wanted = expected.clone();
        async move {
            let store = start(small(), &[counters()]).await;
            assert_eq!(read(&store).await, Some((wanted, 9)));
            store.apply(delete_cell(0), false).await.expect("apply");
            assert_eq!(read(&store).await, None);
        }
    });
}

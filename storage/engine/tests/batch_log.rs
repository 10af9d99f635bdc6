//! The batch log: batches are durable before their writes and are found again after columns or the number of shards
//! have changed; removed batches free their memory.

use crate::support::before_ids::{column_list, with_lists};
use crate::support::*;
use engine::batch_log::BATCH_VERSION_WITH_LISTS;
use engine::store::Truncation;
use engine::{BatchId, Options, Store, SyncMode};
use model::Partitioner;
use model::mutation::Clustering;
use model::row::{CellContent, Deletion, RowBuilder};
use model::{Column, ColumnId, ColumnKind, CqlType, Home, Mutation, MutationBuilder, Table, TableId};
use runtime::sim::Sim;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const BATCHES: TableId = TableId([99; 16]);

/// `CREATE TABLE system.batches (id timeuuid PRIMARY KEY, mutations list<blob>, version int)`.
fn batches() -> Arc<Table> {
    let mut table = Table::clone(&table_of("system", 99, &[]));
    let column = |id: u16, name: &str, kind, cql_type| Column {
        id: ColumnId(id),
        name: name.into(),
        kind,
        position: 0,
        cql_type,
        descending: false,
    };
    let blobs = CqlType::List { element: Box::new(CqlType::Blob), frozen: false };
    table.columns = vec![
        column(0, "id", ColumnKind::PartitionKey, CqlType::Timeuuid),
        column(1, "mutations", ColumnKind::Regular, blobs),
        column(2, "version", ColumnKind::Regular, CqlType::Int),
    ];
    table.clustering_len = 0;
    Arc::new(table)
}

/// A mutation of tables 1 and 2.
fn mutation(key: &[u8], n: i32) -> Mutation {
    mutation_of(key, n, A, B)
}

/// [`mutation`] with these ids of the columns `a` and `b`.
fn mutation_of(key: &[u8], n: i32, a: ColumnId, b: ColumnId) -> Mutation {
    let mut builder = MutationBuilder::new(Partitioner::Murmur3, key);
    for number in [1, 2] {
        builder.table(table(number).id);
        builder.static_row(|out| {
            RowBuilder::new(out, None, Deletion::LIVE).cell(&value(b, 7, b"static b"));
        });
        builder.row(Clustering(&clustering(&[n, 0])), |out| {
            RowBuilder::new(out, live(7), Deletion::LIVE).cell(&value(a, 7, b"a"));
        });
    }
    builder.finish()
}

/// Table 1 or 2; column `a` is regular, column `b` static.
fn target(number: u8) -> Arc<Table> {
    let mut table = Table::clone(&table(number));
    table.columns[4].kind = ColumnKind::Static;
    table.columns.swap(3, 4);
    table.static_len = 1;
    Arc::new(table)
}

fn uuids(seed: u32) -> impl FnMut() -> [u8; 16] {
    let mut n = seed << 16;
    move || {
        n += 1;
        let mut uuid = *b"........\x80.......";
        uuid[..4].copy_from_slice(&n.to_be_bytes());
        uuid[6] = 0x10;
        uuid
    }
}

/// Runs `main` on every shard of a node until it has returned on all.
fn run_shards<F: Future<Output = ()> + 'static>(sim: &mut Sim, shards: u16, main: impl Fn(u16) -> F + 'static) {
    let done = Rc::new(Cell::new(0));
    let count = done.clone();
    let main = Rc::new(main);
    sim.start_node(NODE, shards.into(), move |shard| {
        let (count, main) = (count.clone(), main.clone());
        async move {
            main(shard.0).await;
            count.set(count.get() + 1);
        }
    });
    sim.run_until(Duration::from_secs(3600), || done.get() == shards);
    sim.crash(NODE);
}

async fn open(options: Options, tables: &[Arc<Table>]) -> Store {
    let store = Store::open(options).await.expect("open");
    for table in tables {
        store.add_table(table.clone(), Home::ByToken);
    }
    store.replay(&[]).await.expect("replay");
    store
}

#[test]
fn a_batch_is_found_after_a_crash_in_every_mode_until_it_is_removed() {
    for sync in [GROUP, SyncMode::Batch, SyncMode::Periodic { period: Duration::from_secs(10) }] {
        let mut sim = calm(1);
        let tables = || [batches(), target(1), target(2)];
        let mutations = || vec![mutation(b"p", 1), mutation(b"q", 2)];
        let id = run(&mut sim, move || async move {
            let store = start(options(1, sync), &tables()).await;
            let id = store.batch_id(50, uuids(1));
            store.put_batch(&batches(), id, &mutations()).await.expect("put");
            let gone = store.batch_id(51, uuids(2));
            store.put_batch(&batches(), gone, &mutations()).await.expect("put");
            store.remove_batch(&batches(), gone, 1).await.expect("remove");
            store.sync().await.expect("sync");
            let last = store.batch_id(52, uuids(3));
            store.put_batch(&batches(), last, &[]).await.expect("put");
            (id, last)
        });
        sim.crash(NODE);
        let found = run(&mut sim, move || async move {
            let store = start(options(1, sync), &tables()).await;
            let found = store.stored_batches(&batches(), &[]).await.expect("a list");
            store.remove_batch(&batches(), found[0].id, 1).await.expect("remove");
            let left = store.stored_batches(&batches(), &[]).await.expect("a list");
            assert_eq!(left, found[1..]);
            found
        });
        let mut found: Vec<(BatchId, Vec<Mutation>)> = found.into_iter().map(|b| (b.id, b.mutations)).collect();
        found.sort_by_key(|(id, _)| id.timestamp);
        assert_eq!(found, [(id.0, mutations()), (id.1, vec![])], "{sync:?}");
    }
}

#[test]
fn a_batch_forgets_tables_that_are_gone_or_truncated() {
    let mut sim = calm(2);
    run(&mut sim, || async {
        let store = start(options(1, GROUP), &[batches(), target(1), target(2)]).await;
        let id = store.batch_id(5_000_001, uuids(1));
        store.put_batch(&batches(), id, &[mutation(b"p", 1)]).await.expect("put");
        // As versions of the program wrote it that numbered columns at every start, with the static ones first.
        let columns = [(3, ColumnKind::Static, "b"), (4, ColumnKind::Regular, "a")];
        let lists = [1, 2].map(|number| column_list(table(number).id, &columns));
        let element = with_lists(&lists, &mutation_of(b"p", 1, ColumnId(4), ColumnId(3)));
        let mut old = MutationBuilder::new(Partitioner::Murmur3, &store.batch_id(5_000_001, uuids(2)).uuid);
        old.table(BATCHES).row(Clustering(&[]), |out| {
            let mut row = RowBuilder::new(out, live(5_000_001), Deletion::LIVE);
            let content = CellContent::Live(&element);
            row.cell(&model::row::Cell { column: ColumnId(1), timestamp: 7, content, path: Some(&[1; 16]) });
            row.cell(&value(ColumnId(2), 7, &BATCH_VERSION_WITH_LISTS.to_be_bytes()));
        });
        store.apply(old.finish(), true).await.expect("apply");
    });
    // Table 1 has got a column before its others, and table 2 is gone.
    let altered = || {
        let mut table = Table::clone(&target(1));
        let mut first = table.columns[3].clone();
        (first.id, first.name) = (ColumnId(5), "0".into());
        table.columns.insert(3, first);
        table.static_len = 2;
        Arc::new(table)
    };
    let truncated = |at_millis| vec![(TableId([1; 16]), Truncation { at_millis, ..Truncation::default() })];
    for (truncations, left) in [(vec![], true), (truncated(5000), true), (truncated(5001), false)] {
        let found = run(&mut sim, move || {
            let truncations = truncations.clone();
            async move {
                let store = start(options(1, GROUP), &[batches(), altered()]).await;
                store.stored_batches(&batches(), &truncations).await.expect("a list")
            }
        });
        let mut expected = MutationBuilder::new(Partitioner::Murmur3, b"p");
        expected.table(TableId([1; 16]));
        expected.static_row(|out| {
            RowBuilder::new(out, None, Deletion::LIVE).cell(&value(B, 7, b"static b"));
        });
        expected.row(Clustering(&clustering(&[1, 0])), |out| {
            RowBuilder::new(out, live(7), Deletion::LIVE).cell(&value(A, 7, b"a"));
        });
        let expected = if left { vec![expected.finish()] } else { vec![] };
        let found: Vec<Vec<Mutation>> = found.into_iter().map(|batch| batch.mutations).collect();
        assert_eq!(found, [expected.clone(), expected]);
    }
}

#[test]
fn each_batch_is_found_by_one_shard_whatever_their_number() {
    let mut sim = calm(3);
    let tables = || [batches(), target(1), target(2)];
    let put = Rc::new(RefCell::new(Vec::new()));
    let all = put.clone();
    run_shards(&mut sim, 3, move |shard| {
        let all = all.clone();
        async move {
            let store = open(options(3, GROUP), &tables()).await;
            store.start(10).await.expect("start");
            for n in 0..5 {
                let id = store.batch_id(50, uuids(u32::from(shard) * 8 + n));
                store.put_batch(&batches(), id, &[mutation(b"p", 1)]).await.expect("put");
                all.borrow_mut().push(id.uuid);
            }
        }
    });
    put.borrow_mut().sort_unstable();
    assert_eq!(put.borrow().len(), 15);
    for shards in [3, 1, 4, 2] {
        let found = Rc::new(RefCell::new(Vec::new()));
        let all = found.clone();
        run_shards(&mut sim, shards, move |_| {
            let all = all.clone();
            async move {
                let store = open(options(shards, GROUP), &tables()).await;
                let batches = store.stored_batches(&batches(), &[]).await.expect("a list");
                all.borrow_mut().extend(batches.into_iter().map(|batch| batch.id.uuid));
            }
        });
        found.borrow_mut().sort_unstable();
        assert_eq!(*found.borrow(), *put.borrow(), "{shards} shards");
    }
}

#[test]
fn removed_batches_free_their_memory_and_those_that_wait_stay() {
    let mut sim = calm(4);
    run(&mut sim, || async {
        let options = Options { segment_bytes: 1 << 20, ..options(1, GROUP) };
        let store = start(options, &[batches(), target(1), target(2)]).await;
        let large = {
            let mut builder = MutationBuilder::new(Partitioner::Murmur3, b"p");
            builder.table(table(1).id);
            builder.row(Clustering(&clustering(&[1, 0])), |out| {
                RowBuilder::new(out, live(7), Deletion::LIVE).cell(&value(A, 7, &[7; 40_000]));
            });
            builder.finish()
        };
        let mut waiting: Vec<BatchId> = Vec::new();
        for n in 0..400 {
            let id = store.batch_id(n.into(), uuids(n));
            store.put_batch(&batches(), id, std::slice::from_ref(&large)).await.expect("put");
            waiting.push(id);
            if waiting.len() > 3 {
                store.remove_batch(&batches(), waiting.remove(0), 1).await.expect("remove");
            }
            assert!(store.memory_of(BATCHES) < 4 << 20, "{} bytes after {n}", store.memory_of(BATCHES));
            if n % 50 == 0 {
                runtime::sleep(Duration::from_millis(5)).await;
            }
        }
        runtime::sleep(Duration::from_millis(50)).await;
        let mut left: Vec<_> =
            store.stored_batches(&batches(), &[]).await.expect("a list").into_iter().map(|b| b.id.timestamp).collect();
        left.sort_unstable();
        assert_eq!(left, waiting.iter().map(|id| id.timestamp).collect::<Vec<_>>());
    });
}

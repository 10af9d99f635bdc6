//! Flushes: rows stay, the log is released, and after a restart nothing is found twice or lost.

use crate::support::*;
use engine::store::Truncation;
use engine::{Error, Options, Store};
use model::Partitioner;
use model::mutation::Clustering;
use model::query::{Partitions, Position};
use model::row::{Deletion, RowBuilder};
use model::token::TokenRange;
use model::{DecoratedKey, Home, MutationBuilder, ShardMap, Table};
use runtime::sim::{DiskCall, Sim};
use std::cell::Cell;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The files of table 1 on the node's disk whose names end with `end`.
fn files_of_table(sim: &Sim, end: &str) -> Vec<PathBuf> {
    let directory = engine::directory_of(&PathBuf::from("/data"), &table(1));
    let paths = sim.files(NODE).into_iter().map(|(path, _)| path);
    paths.filter(|path| path.starts_with(&directory) && path.to_string_lossy().ends_with(end)).collect()
}

fn xs(rows: &[Row]) -> Vec<i32> {
    rows.iter().map(|row| row.1[0]).collect()
}

#[test]
fn s4_flushed_rows_are_read_from_their_sstable_and_not_replayed() {
    let mut sim = calm(1);
    run(&mut sim, || async {
        let store = start(small(), &[table(1)]).await;
        write_rows(&store, 0..20, 100).await;
        store.flush(table(1).id).await.expect("flush");
        assert_eq!(xs(&read_all(&store, table(1).id).await), (0..20).collect::<Vec<_>>());
        write_rows(&store, 10..30, 50).await;
        assert_eq!(xs(&read_all(&store, table(1).id).await), (0..30).collect::<Vec<_>>());
        store.flush(table(1).id).await.expect("flush");
        store.flush(table(1).id).await.expect("nothing to flush");
        write_rows(&store, 30..31, 50).await;
    });
    assert_eq!(files_of_table(&sim, "-Data.db").len(), 2);
    assert!(files_of_table(&sim, ".log").is_empty(), "no transaction is left");
    sim.crash(NODE);
    run(&mut sim, || async {
        let store = Store::open(small()).await.expect("open");
        store.add_table(table(1), Home::ByToken);
        store.clean().await.expect("clean");
        store.load(&[]).await.expect("load");
        let stats = store.replay(&[]).await.expect("replay");
        assert_eq!(stats.applied, 1, "{stats:?}");
        store.start(store.highest_counter()).await.expect("start");
        assert_eq!(xs(&read_all(&store, table(1).id).await), (0..31).collect::<Vec<_>>());
        store.flush_replayed().await.expect("flush");
        store.release_replayed().await.expect("release");
        let segments = runtime::file::list_dir(&PathBuf::from("/data/commitlog")).await.expect("list").len();
        assert!(segments <= 3, "{segments} segments are left");
    });
    sim.crash(NODE);
    run(&mut sim, || async {
        let store = start(small(), &[table(1)]).await;
        assert_eq!(xs(&read_all(&store, table(1).id).await), (0..31).collect::<Vec<_>>());
    });
}

#[test]
fn s4_flushes_free_segments_of_the_run() {
    let mut sim = calm(2);
    let most = run(&mut sim, || async {
        let store = start(small(), &[table(1)]).await;
        let mut most = 0;
        for round in 0..10 {
            write_rows(&store, round * 100..round * 100 + 100, 500).await;
            store.flush(table(1).id).await.expect("flush");
            most = most.max(runtime::file::list_dir(&PathBuf::from("/data/commitlog")).await.expect("list").len());
        }
        assert_eq!(read_all(&store, table(1).id).await.len(), 1000);
        most
    });
    assert!(most <= 8, "{most} segments");
}

/// Table 1 with a `memtable_flush_period_in_ms` of `millis`.
fn flushed_every(millis: i32) -> Arc<Table> {
    let mut described = Table::clone(&table(1));
    described.options.memtable_flush_period_in_ms = millis;
    Arc::new(described)
}

#[test]
fn a_memtable_is_flushed_once_it_is_as_old_as_its_table_allows() {
    let mut sim = calm(12);
    run(&mut sim, || async {
        let store = start(small(), &[flushed_every(60_000)]).await;
        let flushes = || store.flush_activity().1;
        runtime::sleep(Duration::from_secs(30)).await;
        write_rows(&store, 0..5, 10).await;
        runtime::sleep(Duration::from_secs(29)).await;
        assert_eq!(flushes(), 0, "it is not old enough");
        runtime::sleep(Duration::from_secs(2)).await;
        assert_eq!(flushes(), 1);
        runtime::sleep(Duration::from_secs(600)).await;
        assert_eq!(flushes(), 1, "there was nothing to flush");
        write_rows(&store, 5..6, 10).await;
        store.add_table(flushed_every(1_000), Home::ByToken);
        runtime::sleep(Duration::from_secs(2)).await;
        assert_eq!(flushes(), 2, "the shorter period holds at once");
        write_rows(&store, 6..7, 10).await;
        store.add_table(flushed_every(0), Home::ByToken);
        runtime::sleep(Duration::from_secs(600)).await;
        assert_eq!(flushes(), 2, "there is no period any more");
        assert_eq!(xs(&read_all(&store, table(1).id).await), (0..7).collect::<Vec<_>>());
    });
}

#[test]
fn s18_writes_beyond_the_memory_wait_for_flushes_and_all_are_there() {
    let mut sim = calm(3);
    run(&mut sim, || async {
        let options = Options { memtable_bytes_max: 2 << 20, segment_bytes: 256 << 10, ..small() };
        let store = start(options, &[table(1)]).await;
        for number in 0..2_000 {
            let mutation = insert(table(1).id, &[number as u8], number, 0, 1, &[7; 5_000]);
            store.apply(mutation, false).await.expect("room comes");
            let (used, budget) = store.memory();
            let most = budget + engine::memtable::arena::CHUNK_BYTES_MAX;
            assert!(used <= most, "{used} of {budget}");
        }
        assert_eq!(read_all(&store, table(1).id).await.len(), 2_000);
        store.close().await.expect("close");
    });
    assert!(files_of_table(&sim, "-Data.db").len() > 2);
}

#[test]
fn s18_the_length_of_the_log_makes_its_tables_flush() {
    let mut sim = calm(4);
    run(&mut sim, || async {
        let store = start(Options { log_bytes_max: 128 << 10, ..small() }, &[table(1), table(2)]).await;
        store.apply(insert(table(2).id, b"old", 1, 0, 1, b"x"), false).await.expect("apply");
        write_rows(&store, 0..1_000, 500).await;
        runtime::sleep(Duration::from_secs(1)).await;
        assert!(store.memory_of(table(2).id) == 0, "what pins the oldest segment was flushed");
        let segments = runtime::file::list_dir(&PathBuf::from("/data/commitlog")).await.expect("list").len();
        assert!(segments <= 9, "{segments} segments");
        assert_eq!(read_all(&store, table(1).id).await.len(), 1_000);
        assert_eq!(read_all(&store, table(2).id).await.len(), 1);
    });
}

#[test]
fn s18_a_disk_without_room_stops_writes_alone_until_there_is_some() {
    let mut sim = calm(5);
    let full = Rc::new(Cell::new(false));
    let is_full = full.clone();
    sim.set_disk_fault(NODE, move |call, path| {
        let refuses = is_full.get() && call == DiskCall::Open && path.starts_with("/data/data");
        refuses.then(|| io::Error::from(io::ErrorKind::StorageFull))
    });
    run(&mut sim, move || {
        let full = full.clone();
        async move {
            let options = Options { memtable_bytes_max: 1 << 20, segment_bytes: 256 << 10, ..small() };
            let store = start(options, &[table(1), table_of("system", 3, &["a", "b"])]).await;
            full.set(true);
            let mut written = 0;
            loop {
                match store.apply(insert(table(1).id, &[written as u8], written, 0, 1, &[0; 10_000]), false).await {
                    Ok(()) => written += 1,
                    Err(Error::MemtableFull) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            let (used, budget) = store.memory();
            assert!(used > budget / 2, "{used} of {budget}");
            let system = insert(table_of("system", 3, &[]).id, b"p", 0, 0, 1, &[0; 10_000]);
            store.apply(system, true).await.expect("system writes go on");
            assert_eq!(read_all(&store, table(1).id).await.len(), written as usize);
            full.set(false);
            runtime::sleep(Duration::from_secs(3)).await;
            for number in 0..300 {
                let mutation = insert(table(1).id, b"q", number, 0, 1, &[0; 10_000]);
                store.apply(mutation, false).await.expect("room again");
            }
            assert_eq!(read_all(&store, table(1).id).await.len(), written as usize + 300);
        }
    });
}

#[test]
fn s3_a_truncation_takes_sstables_with_it_and_a_start_after_a_crash_too() {
    for released in [true, false] {
        let mut sim = calm(6);
        let truncation = run(&mut sim, move || async move {
            let store = start(small(), &[table(1)]).await;
            write_rows(&store, 0..20, 100).await;
            store.flush(table(1).id).await.expect("flush");
            write_rows(&store, 20..30, 100).await;
            let position = store.truncate(table(1).id).await.expect("truncate");
            assert!(read_all(&store, table(1).id).await.is_empty());
            write_rows(&store, 90..91, 100).await;
            store.flush(table(1).id).await.expect("flush");
            if released {
                store.release(table(1).id).await.expect("release");
                runtime::sleep(Duration::from_secs(1)).await;
            }
            assert_eq!(xs(&read_all(&store, table(1).id).await), [90]);
            Truncation { counter_floor: store.counter_floor(), positions: vec![position], at_millis: 0 }
        });
        assert_eq!(files_of_table(&sim, "-Data.db").len(), if released { 1 } else { 2 });
        sim.crash(NODE);
        run(&mut sim, move || {
            let truncations = [(table(1).id, truncation.clone())];
            async move {
                let store = Store::open(small()).await.expect("open");
                store.add_table(table(1), Home::ByToken);
                store.clean().await.expect("clean");
                let directory = engine::directory_of(&PathBuf::from("/data"), &table(1));
                let files = || runtime::file::list_dir(&directory);
                let before = files().await.expect("list");
                store.load(&truncations).await.expect("load");
                store.replay(&truncations).await.expect("replay");
                assert_eq!(files().await.expect("list"), before, "other shards are looking at them");
                store.start(store.highest_counter()).await.expect("start");
                assert_eq!(xs(&read_all(&store, table(1).id).await), [90]);
                runtime::sleep(Duration::from_secs(1)).await;
            }
        });
        assert_eq!(files_of_table(&sim, "-Data.db").len(), 1);
    }
}

#[test]
fn s4_a_flush_that_fails_leaves_nothing_behind_and_is_tried_again() {
    let mut sim = calm(7);
    let fails = Rc::new(Cell::new(false));
    let failing = fails.clone();
    sim.set_disk_fault(NODE, move |call, path| {
        let refuses = failing.get() && call == DiskCall::Sync && path.starts_with("/data/data");
        refuses.then(|| io::Error::other("a disk that fails"))
    });
    run(&mut sim, move || {
        let fails = fails.clone();
        async move {
            let store = start(small(), &[table(1)]).await;
            write_rows(&store, 0..20, 100).await;
            fails.set(true);
            assert!(matches!(store.flush(table(1).id).await, Err(Error::Io(_))));
            write_rows(&store, 20..30, 100).await;
            assert!(matches!(store.flush(table(1).id).await, Err(Error::Io(_))));
            assert_eq!(xs(&read_all(&store, table(1).id).await), (0..30).collect::<Vec<_>>());
            fails.set(false);
            store.flush(table(1).id).await.expect("flush");
            assert_eq!(xs(&read_all(&store, table(1).id).await), (0..30).collect::<Vec<_>>());
        }
    });
    assert_eq!(files_of_table(&sim, "-Data.db").len(), 2);
    assert!(files_of_table(&sim, ".log").is_empty() && files_of_table(&sim, ".tmp").is_empty());
}

#[test]
fn s20_a_shard_that_resumes_in_a_partition_of_another_one_gives_only_its_own() {
    const KEYS: u8 = 16;
    let mut sim = calm(8);
    run(&mut sim, || async {
        let store = start(small(), &[table(1)]).await;
        for (key, x) in (0..KEYS).flat_map(|key| (0..3).map(move |x| (key, x))) {
            store.apply(insert(table(1).id, &[key], x, 0, 1, b"a"), false).await.expect("apply");
        }
        store.flush(table(1).id).await.expect("flush");
        store.close().await.expect("close");
    });
    let (own, all) = run(&mut sim, || async {
        let store = start(Options { shard_map: ShardMap::new(Partitioner::Murmur3, 2), ..small() }, &[table(1)]).await;
        let own = read_all(&store, table(1).id).await;
        for (key, x) in (0..KEYS).flat_map(|key| (0..3).map(move |x| (key, x))) {
            let (key, clustering, mut place) =
                (DecoratedKey::new(Partitioner::Murmur3, &[key]), clustering(&[x, 0]), Vec::new());
            model::comparable::clustering(&table(1), Clustering(&clustering).components(), &mut place);
            let mut rest = Rows::default();
            let mut command = command(table(1).id, Partitions::Range(TokenRange::FULL));
            command.resume = Some(Position { key: key.clone(), comparable: Some(place.into()) });
            store.read(&command, &mut rest).await.expect("read");
            let behind = |row: &&Row| (DecoratedKey::new(Partitioner::Murmur3, &row.0), row.1[0]) > (key.clone(), x);
            assert_eq!(rest.rows, own.iter().filter(behind).cloned().collect::<Vec<_>>());
        }
        (own.len(), usize::from(KEYS) * 3)
    });
    assert!(own > 0 && own < all, "{own} of {all} rows are the first shard's");
}

fn table_without_backups() -> Arc<Table> {
    let mut table = Table::clone(&table(2));
    table.options.incremental_backups = Some(false);
    Arc::new(table)
}

#[test]
fn flushed_sstables_are_linked_into_backups_unless_their_table_says_no() {
    let mut sim = calm(9);
    run(&mut sim, || async {
        let options = Options { incremental_backups: true, ..small() };
        let store = start(options, &[table(1), table_without_backups()]).await;
        write_rows(&store, 0..20, 100).await;
        store.flush(table(1).id).await.expect("flush");
        write_rows(&store, 20..30, 100).await;
        store.flush(table(1).id).await.expect("flush");
        store.apply(insert(table(2).id, b"k", 1, 1, 5, b"a"), true).await.expect("written");
        store.flush(table(2).id).await.expect("flush");
    });
    sim.crash(NODE);
    let names = |directory: PathBuf| {
        let paths = sim.files(NODE).into_iter().map(|(path, _)| path);
        let names =
            paths.filter(|path| path.parent() == Some(&*directory)).map(|path| path.file_name().map(Into::into));
        names.collect::<std::collections::BTreeSet<Option<std::ffi::OsString>>>()
    };
    let directory = engine::directory_of(&PathBuf::from("/data"), &table(1));
    let backups = names(directory.join("backups"));
    assert_eq!(backups, names(directory), "every component of both SSTables has a second name");
    assert!(backups.len() > 10, "{backups:?}");
    let directory = engine::directory_of(&PathBuf::from("/data"), &table(2));
    assert!(names(directory.join("backups")).is_empty() && !names(directory).is_empty());
    run(&mut sim, || async {
        let store = start(small(), &[table(1), table_without_backups()]).await;
        assert_eq!(xs(&read_all(&store, table(1).id).await), (0..30).collect::<Vec<_>>());
    });
}

#[test]
fn writes_of_a_table_without_durable_writes_outlive_a_stop_and_not_a_crash() {
    async fn unlogged() -> Store {
        let store = start(small(), &[table(1), table(2)]).await;
        store.set_durable_writes(table(1).id, false);
        store
    }
    let mut sim = calm(2);
    run(&mut sim, || async {
        let store = unlogged().await;
        write_rows(&store, 0..5, 10).await;
        assert_eq!(xs(&read_all(&store, table(1).id).await), [0, 1, 2, 3, 4]);
        store.close().await.expect("close");
    });
    run(&mut sim, || async {
        let store = unlogged().await;
        assert_eq!(xs(&read_all(&store, table(1).id).await), [0, 1, 2, 3, 4]);
        write_rows(&store, 5..10, 10).await;
        store.apply_durably(insert(table(1).id, b"p", 20, 0, 10, b"logged"), false).await.expect("apply");
        // A change of two tables is logged whole if one of them is.
        let mut both = MutationBuilder::new(Partitioner::Murmur3, b"p");
        for number in [1, 2] {
            both.table(table(number).id);
            both.row(Clustering(&clustering(&[30, 0])), |out| {
                RowBuilder::new(out, live(10), Deletion::LIVE);
            });
        }
        store.apply(both.finish(), false).await.expect("apply");
        store.sync().await.expect("sync");
    });
    sim.crash(NODE);
    run(&mut sim, || async {
        let store = unlogged().await;
        assert_eq!(xs(&read_all(&store, table(1).id).await), [0, 1, 2, 3, 4, 20, 30]);
        assert_eq!(xs(&read_all(&store, table(2).id).await), [30]);
    });
}

//! Foreign SSTables are split between shards: rows stay whatever happens on the way, and in the end each shard has
//! its own SSTables.

use crate::support::*;
use engine::store::{LogPosition, Truncation};
use engine::{Options, SstableOptions, Store, Version};
use model::Partitioner;
use model::{Home, ShardMap};
use runtime::sim::Sim;
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

const KEYS: u32 = 40;

fn options_of(shards: u16) -> Options {
    Options { segment_bytes: 32 << 10, ..options(shards, GROUP) }
}

fn key(number: u32) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

/// Opens a store of the current shard.
async fn open(options: Options, truncations: &[(model::TableId, Truncation)]) -> Store {
    let store = Store::open(options).await.expect("open");
    store.add_table(uncompacted(&table(1)), Home::ByToken);
    store.add_table(uncompacted(&table(2)), Home::ByToken);
    if runtime::current_shard().0 == 0 {
        store.clean().await.expect("clean");
    }
    store.load(truncations).await.expect("load");
    store.replay(truncations).await.expect("replay");
    store.start(store.highest_counter()).await.expect("start");
    store
}

/// Runs `main` on `shards` shards of the node until it has returned on all.
fn run_shards<F: Future<Output = ()> + 'static>(sim: &mut Sim, shards: u16, main: impl Fn(u16) -> F + 'static) {
    let left = Rc::new(Cell::new(shards));
    let (main, told) = (Rc::new(main), left.clone());
    sim.start_node(NODE, shards.into(), move |shard| {
        let (main, told) = (main.clone(), told.clone());
        async move {
            main(shard.0).await;
            told.set(told.get() - 1);
        }
    });
    sim.run_until(Duration::from_secs(3600), || left.get() == 0);
    sim.kill(NODE);
    assert_eq!(left.get(), 0, "not all shards returned");
}

/// A disk with SSTables of two shards, and log segments with no record that is still needed.
fn disk_of_two_shards(seed: u64, version: Version) -> Sim {
    let mut sim = calm(seed);
    run_shards(&mut sim, 2, move |shard| async move {
        let sstables = SstableOptions { version, ..SstableOptions::default() };
        let store = open(Options { sstables, ..options_of(2) }, &[]).await;
        let map = ShardMap::new(Partitioner::Murmur3, 2);
        for round in 0..2 {
            for number in (0..KEYS).filter(|number| map.owner(Partitioner::Murmur3.token(&key(*number))) == shard) {
                let value = format!("{number} {round}");
                for x in 0..4 {
                    let mutation = insert(table(1).id, &key(number), x, round, 1, value.as_bytes());
                    store.apply(mutation, false).await.expect("apply");
                }
            }
            store.flush(table(1).id).await.expect("flush");
        }
    });
    sim
}

fn files(sim: &Sim, end: &str) -> Vec<PathBuf> {
    let directory = engine::directory_of(&PathBuf::from("/data"), &table(1));
    let paths = sim.files(NODE).into_iter().map(|(path, _)| path);
    paths.filter(|path| path.starts_with(&directory) && path.to_string_lossy().ends_with(end)).collect()
}

/// Splits one foreign SSTable between some stores as the shards of a node do; the store `leader` leads the split.
async fn split_one(stores: &[Store], leader: usize, table: model::TableId, name: &engine::Descriptor) {
    let mut places = Vec::new();
    for store in stores {
        places.push(store.begin_part(table, name).await.expect("begin").expect("served"));
    }
    let parts = stores[leader].write_parts(table, name, &places).await.expect("written");
    let mut parts = parts.expect("served");
    for store in stores {
        store.open_part(table, name, parts.names()).await.expect("open");
    }
    parts.commit().await.expect("commit");
    for store in stores {
        store.adopt_part(table, name).await.expect("adopt");
    }
    parts.finish().await.expect("finish");
}

/// Splits all foreign SSTables.
async fn split_all(stores: &[Store]) {
    stores.iter().for_each(|store| store.begin_splitting(true));
    for (leader, store) in stores.iter().enumerate() {
        loop {
            let next = runtime::timeout(Duration::from_millis(1), store.next_foreign()).await;
            let Some(Some((table, name))) = next else { break };
            split_one(stores, leader, table, &name).await;
        }
    }
    assert!(stores.iter().all(|store| store.foreign_count() == 0));
}

fn expected() -> usize {
    KEYS as usize * 8
}

/// Crashes after a truncation was recorded and before its SSTables are removed, and just before it is recorded.
#[test]
fn a_truncation_cut_short_takes_foreign_sstables_too_or_nothing() {
    for recorded in [true, false] {
        let mut sim = disk_of_two_shards(1, Version::Da);
        let truncation = run(&mut sim, || async {
            let store = open(options_of(1), &[]).await;
            assert_eq!(store.foreign_count(), 4);
            let position = store.truncate(table(1).id).await.expect("truncate");
            store.note_truncation(table(1).id, 77).await.expect("noted");
            Truncation { counter_floor: store.counter_floor(), positions: vec![position], at_millis: 77 }
        });
        sim.crash(NODE);
        assert_eq!((files(&sim, "-Data.db").len(), files(&sim, "truncated-77").len()), (4, 1));
        let rows = run(&mut sim, move || {
            let truncations: Vec<_> = recorded.then(|| (table(1).id, truncation.clone())).into_iter().collect();
            async move {
                let store = open(options_of(1), &truncations).await;
                let rows = read_all(&store, table(1).id).await.len();
                runtime::sleep(Duration::from_secs(60)).await;
                rows
            }
        });
        let expected = if recorded { (0, 0) } else { (expected(), 4) };
        assert_eq!((rows, files(&sim, "-Data.db").len()), expected, "recorded: {recorded}");
        assert!(files(&sim, "truncated-77").is_empty());
    }
}

#[test]
fn a_split_that_failed_is_given_again_when_it_is_asked_for() {
    let mut sim = disk_of_two_shards(1, Version::Da);
    run(&mut sim, || async {
        let store = open(options_of(1), &[]).await;
        store.begin_splitting(true);
        let wait = Duration::from_millis(1);
        let mut left = Vec::new();
        while let Some(Some((table, name))) = runtime::timeout(wait, store.next_foreign()).await {
            store.leave_foreign(table, &name);
            left.push((table, name));
        }
        assert_eq!(left.len(), 4);
        let (table, name) = left[2].clone();
        let (waiting, again) = (store.clone(), (table, name.clone()));
        let next = runtime::spawn(async move { waiting.next_foreign().await });
        runtime::sleep(wait).await;
        store.retry_foreign(table, &name);
        assert_eq!(next.await, Some(again));
        // Retrying an SSTable that the table does not have gives nothing.
        store.leave_foreign(table, &name);
        let gone = engine::Descriptor::parse("da-77-bti-Data.db").expect("a name").0;
        store.retry_foreign(table, &gone);
        assert!(runtime::timeout(wait, store.next_foreign()).await.is_none());
        assert_eq!(read_all(&store, table).await.len(), expected());
    });
}

#[test]
fn s4_a_split_interrupted_at_any_step_loses_nothing() {
    let steps = {
        let mut sim = disk_of_two_shards(1, Version::Da);
        let before = sim.steps();
        run(&mut sim, || async {
            let store = open(options_of(1), &[]).await;
            assert_eq!(store.foreign_count(), 4);
            split_all(std::slice::from_ref(&store)).await;
            assert_eq!(read_all(&store, table(1).id).await.len(), expected());
        });
        assert_eq!((files(&sim, "-Data.db").len(), files(&sim, ".log").len()), (4, 0));
        sim.steps() - before
    };
    let stride = 1 + steps / 150;
    for stop in (0..steps).step_by(stride as usize) {
        let mut sim = disk_of_two_shards(1, Version::Da);
        sim.start_node(NODE, 1, move |_| async move {
            let store = open(options_of(1), &[]).await;
            split_all(std::slice::from_ref(&store)).await;
            runtime::sleep(Duration::from_secs(3600)).await;
        });
        for _ in 0..stop {
            sim.step();
        }
        match stop % 2 {
            0 => sim.crash(NODE),
            _ => sim.kill(NODE),
        }
        run(&mut sim, move || async move {
            let store = open(options_of(1), &[]).await;
            assert_eq!(read_all(&store, table(1).id).await.len(), expected(), "a stop at step {stop}");
            split_all(std::slice::from_ref(&store)).await;
            assert_eq!(read_all(&store, table(1).id).await.len(), expected(), "a stop at step {stop}, split again");
        });
        assert_eq!((files(&sim, "-Data.db").len(), files(&sim, ".log").len()), (4, 0), "a stop at step {stop}");
    }
}

#[test]
fn shards_of_another_count_take_their_parts_while_they_are_read() {
    for version in [Version::Nb, Version::Oa, Version::Da] {
        let mut sim = disk_of_two_shards(2, version);
        let stores: Rc<RefCell<Vec<Option<Store>>>> = Rc::new(RefCell::new(vec![None; 3]));
        let shared = stores.clone();
        run_shards(&mut sim, 3, move |shard| {
            let stores = shared.clone();
            async move {
                let store = open(options_of(3), &[]).await;
                assert_eq!(store.foreign_count(), 4);
                stores.borrow_mut()[usize::from(shard)] = Some(store);
                while stores.borrow().iter().any(Option::is_none) {
                    runtime::sleep(Duration::from_millis(1)).await;
                }
                if shard == 0 {
                    let stores: Vec<Store> = stores.borrow().iter().flatten().cloned().collect();
                    let count = async || {
                        let mut rows = Vec::new();
                        for store in &stores {
                            rows.extend(read_all(store, table(1).id).await);
                        }
                        rows.sort();
                        rows
                    };
                    let before = count().await;
                    assert_eq!(before.len(), expected());
                    split_all(&stores).await;
                    assert_eq!(count().await, before);
                }
            }
        });
        drop(stores.take());
        // Each foreign SSTable gives up to three parts, all in the version that is written.
        let parts = files(&sim, "-bti-Data.db").len();
        assert!((4..=12).contains(&parts), "{parts} parts");
        assert_eq!((files(&sim, "-Data.db").len(), files(&sim, ".log").len()), (parts, 0));
        run_shards(&mut sim, 3, |_| async {
            let store = open(options_of(3), &[]).await;
            assert_eq!(store.foreign_count(), 0);
        });
    }
}

#[test]
fn s3_a_part_is_truncated_by_what_comes_behind_it_and_by_nothing_before() {
    let mut sim = disk_of_two_shards(3, Version::Da);
    let positions: Rc<RefCell<Vec<(u64, LogPosition)>>> = Rc::default();
    let told = positions.clone();
    run(&mut sim, move || {
        let positions = told.clone();
        async move {
            let store = open(options_of(1), &[]).await;
            // The position of a truncation of an empty table tells how far the log has come.
            let before = store.truncate(table(2).id).await.expect("truncate");
            split_all(std::slice::from_ref(&store)).await;
            let after = store.truncate(table(2).id).await.expect("truncate");
            assert!(before < after, "{before:?} {after:?}");
            positions.borrow_mut().extend([(store.counter_floor(), before), (store.counter_floor(), after)]);
        }
    });
    let [before, after] = positions.borrow()[..] else { panic!("two positions") };
    for ((counter_floor, position), rows) in [(before, expected()), (after, 0)] {
        let truncation = Truncation { counter_floor, positions: vec![position], at_millis: 1 };
        let found = run(&mut sim, move || {
            let truncation = truncation.clone();
            async move {
                let store = open(options_of(1), &[(table(1).id, truncation)]).await;
                // Files are removed in the background.
                runtime::sleep(Duration::from_secs(1)).await;
                read_all(&store, table(1).id).await.len()
            }
        });
        assert_eq!(found, rows);
    }
    assert!(files(&sim, "-Data.db").is_empty());
}

//! Several data directories: every shard writes to its own, a start finds SSTables in all, and what spans several is
//! done as a whole wherever the power fails.

use crate::support::*;
use engine::import::{self, Import, ImportOptions};
use engine::snapshot::{self, Manifest};
use engine::store::Truncation;
use engine::verify::Depth;
use engine::{DataDirectories, Descriptor, Error, Options, Store, transaction};
use model::{Home, Partitioner, ShardMap, TableId};
use runtime::file::{create_dir_all, link, list_dir};
use runtime::sim::Sim;
use runtime::{HashSet, ShardId};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

const KEYS: u32 = 24;
const NAMES: [&str; 3] = ["/data", "/more", "/most"];

fn directories(count: usize) -> DataDirectories {
    DataDirectories::new(NAMES[..count].iter().map(PathBuf::from).collect()).expect("some")
}

/// The options of a node with so many shards and directories.
fn node(shards: u16, count: usize) -> Options {
    Options { directories: directories(count), segment_bytes: 32 << 10, ..options(shards, GROUP) }
}

fn key(number: u32) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

/// Opens a store of the current shard. Shards of a node open one after the other, the first one first.
async fn open(options: Options, truncations: &[(TableId, Truncation)]) -> Result<Store, Error> {
    let store = Store::open(options).await?;
    store.add_table(uncompacted(&table(1)), Home::ByToken);
    if runtime::current_shard() == ShardId(0) {
        store.clean().await?;
    }
    store.load(truncations).await?;
    store.replay(truncations).await?;
    store.start(store.highest_counter()).await?;
    Ok(store)
}

/// Runs `main` on shard 0 with the stores of all shards of a node.
fn run_node<F: Future<Output = ()> + 'static>(
    sim: &mut Sim,
    options: Options,
    main: impl Fn(Vec<Store>) -> F + 'static,
) {
    let shards = options.shard_map.shards;
    let done = Rc::new(RefCell::new(false));
    start_node(sim, options, main, done.clone());
    sim.run_until(Duration::from_secs(3600), || *done.borrow());
    sim.kill(NODE);
    assert!(*done.borrow(), "a node of {shards} shards did not end");
}

fn start_node<F: Future<Output = ()> + 'static>(
    sim: &mut Sim,
    options: Options,
    main: impl Fn(Vec<Store>) -> F + 'static,
    done: Rc<RefCell<bool>>,
) {
    let shards = options.shard_map.shards;
    let (stores, main) = (Rc::new(RefCell::new(Vec::new())), Rc::new(main));
    sim.start_node(NODE, shards.into(), move |shard| {
        let (stores, main, done, options) = (stores.clone(), main.clone(), done.clone(), options.clone());
        async move {
            while stores.borrow().len() != usize::from(shard.0) {
                runtime::sleep(Duration::from_micros(100)).await;
            }
            let store = open(options, &[]).await.expect("open");
            stores.borrow_mut().push(store);
            while stores.borrow().len() != usize::from(shards) {
                runtime::sleep(Duration::from_micros(100)).await;
            }
            if shard == ShardId(0) {
                let all = stores.borrow().clone();
                main(all).await;
                *done.borrow_mut() = true;
            }
        }
    });
}

/// Writes rows of the round to every partition, each to the store that owns it, and flushes all.
async fn write_round(stores: &[Store], round: i32) {
    let map = ShardMap::new(Partitioner::Murmur3, stores.len() as u16);
    for number in 0..KEYS {
        let owner = map.owner(Partitioner::Murmur3.token(&key(number)));
        let mutation = insert(table(1).id, &key(number), round, 0, 1, format!("{number} {round}").as_bytes());
        stores[usize::from(owner)].apply(mutation, false).await.expect("apply");
    }
    for store in stores {
        store.flush(table(1).id).await.expect("flush");
    }
}

/// How many rows the stores have together.
async fn count(stores: &[Store]) -> usize {
    let mut rows = 0;
    for store in stores {
        rows += read_all(store, table(1).id).await.len();
    }
    rows
}

async fn split_all(stores: &[Store]) {
    stores.iter().for_each(|store| store.begin_splitting(true));
    for leader in stores {
        while let Some(Some(next)) = runtime::timeout(Duration::from_millis(1), leader.next_foreign()).await {
            let (table, name) = next;
            let mut places = Vec::new();
            for store in stores {
                places.push(store.begin_part(table, &name).await.expect("begin").expect("served"));
            }
            let mut parts = leader.write_parts(table, &name, &places).await.expect("written").expect("served");
            for store in stores {
                store.open_part(table, &name, parts.names()).await.expect("open");
            }
            parts.commit().await.expect("commit");
            for store in stores {
                store.adopt_part(table, &name).await.expect("adopt");
            }
            parts.finish().await.expect("finish");
        }
    }
}

/// The files of the table in each data directory whose names end so.
fn files(sim: &Sim, end: &str) -> Vec<usize> {
    let paths: Vec<PathBuf> = sim.files(NODE).into_iter().map(|(path, _)| path).collect();
    let within = |directory: &str| {
        let own = engine::directory_of(Path::new(directory), &table(1));
        paths.iter().filter(|path| path.parent() == Some(&own) && path.to_string_lossy().ends_with(end)).count()
    };
    NAMES.map(within).to_vec()
}

#[test]
fn shards_write_to_their_directories_and_find_what_lies_in_others() {
    let mut sim = calm(1);
    run_node(&mut sim, node(1, 1), |stores| async move { write_round(&stores, 0).await });
    assert_eq!(files(&sim, "-Data.db"), [1, 0, 0]);
    // Two directories are added, and two shards, to which the SSTable is split.
    run_node(&mut sim, node(3, 3), |stores| async move {
        assert_eq!(count(&stores).await, KEYS as usize);
        split_all(&stores).await;
        write_round(&stores, 1).await;
        assert_eq!(count(&stores).await, 2 * KEYS as usize);
        let misplaced = |store: &Store| store.statistics(table(1).id, 0).expect("known").misplaced_sstables;
        assert_eq!(stores.iter().map(misplaced).collect::<Vec<_>>(), [0; 3]);
    });
    assert_eq!(files(&sim, "-Data.db"), [2, 2, 2]);
    // In another order of the directories, SSTables lie in the wrong one until their shard compacts them.
    run_node(&mut sim, Options { directories: swapped(), ..node(3, 3) }, |stores| async move {
        let misplaced = |store: &Store| store.statistics(table(1).id, 0).expect("known").misplaced_sstables;
        assert_eq!(stores.iter().map(misplaced).collect::<Vec<_>>(), [0, 2, 2]);
        for store in &stores {
            store.compact(table(1).id, engine::compaction::CompactionScope::Misplaced).await.expect("relocate");
        }
        assert_eq!(stores.iter().map(misplaced).collect::<Vec<_>>(), [0; 3]);
        assert_eq!(stores[0].statistics(table(1).id, 0).expect("known").sstables, 2, "others are left alone");
        for store in &stores {
            store.compact(table(1).id, EVERYTHING).await.expect("compact");
        }
        assert_eq!(stores.iter().map(misplaced).collect::<Vec<_>>(), [0; 3]);
        runtime::sleep(Duration::from_secs(1)).await;
        assert_eq!(count(&stores).await, 2 * KEYS as usize);
    });
    assert_eq!((files(&sim, "-Data.db"), files(&sim, ".log")), (vec![1; 3], vec![0; 3]));
    run_node(&mut sim, node(1, 3), |stores| async move { assert_eq!(count(&stores).await, 2 * KEYS as usize) });
}

/// The three directories with the last two in the other order.
fn swapped() -> DataDirectories {
    DataDirectories::new([NAMES[0], NAMES[2], NAMES[1]].map(PathBuf::from).to_vec()).expect("some")
}

#[test]
fn s4_splits_and_compactions_across_directories_lose_nothing_wherever_the_power_fails() {
    let work = |stores: Vec<Store>| async move {
        split_all(&stores).await;
        for store in &stores {
            store.compact(table(1).id, EVERYTHING).await.expect("compact");
        }
        runtime::sleep(Duration::from_secs(1)).await;
    };
    let disk = || {
        let mut sim = calm(2);
        run_node(&mut sim, node(3, 3), |stores| async move {
            write_round(&stores, 0).await;
            write_round(&stores, 1).await;
        });
        sim
    };
    let options = || Options { directories: swapped(), ..node(2, 3) };
    let steps = {
        let mut sim = disk();
        let before = sim.steps();
        run_node(&mut sim, options(), work);
        sim.steps() - before
    };
    let stride = (1 + steps / 40) as usize;
    for stop in (0..steps).step_by(stride) {
        let mut sim = disk();
        start_node(&mut sim, options(), work, Rc::default());
        for _ in 0..stop {
            sim.step();
        }
        sim.crash(NODE);
        run_node(&mut sim, options(), move |stores| async move {
            assert_eq!(count(&stores).await, 2 * KEYS as usize, "a stop at step {stop}");
            work(stores.clone()).await;
            assert_eq!(count(&stores).await, 2 * KEYS as usize, "a stop at step {stop}, then done again");
        });
        let (sstables, logs) = (files(&sim, "-Data.db"), files(&sim, ".log"));
        assert_eq!((sstables, logs), (vec![1, 0, 1], vec![0; 3]), "a stop at step {stop}");
    }
}

#[test]
fn a_truncation_takes_foreign_sstables_of_all_directories_or_none() {
    for recorded in [true, false] {
        let mut sim = calm(3);
        run_node(&mut sim, node(3, 3), |stores| async move { write_round(&stores, 0).await });
        let cut = Rc::new(RefCell::new(None));
        let shared = cut.clone();
        run_node(&mut sim, node(1, 3), move |stores| {
            let cut = shared.clone();
            async move {
                assert_eq!(stores[0].foreign_count(), 3);
                let position = stores[0].truncate(table(1).id).await.expect("truncate");
                stores[0].note_truncation(table(1).id, 7).await.expect("noted");
                let counter_floor = stores[0].counter_floor();
                *cut.borrow_mut() = Some(Truncation { counter_floor, positions: vec![position], at_millis: 7 });
            }
        });
        sim.crash(NODE);
        assert_eq!(files(&sim, "truncated-7"), [1; 3]);
        let truncation = cut.take().expect("truncated");
        let rows = run(&mut sim, move || {
            let truncations: Vec<_> = recorded.then(|| (table(1).id, truncation.clone())).into_iter().collect();
            async move {
                let store = open(node(1, 3), &truncations).await.expect("open");
                runtime::sleep(Duration::from_secs(60)).await;
                read_all(&store, table(1).id).await.len()
            }
        });
        let (expected, left) = if recorded { (0, 0) } else { (KEYS as usize, 1) };
        assert_eq!((rows, files(&sim, "-Data.db")), (expected, vec![left; 3]), "recorded: {recorded}");
        assert_eq!(files(&sim, "truncated-7"), [0; 3]);
    }
}

#[test]
fn a_snapshot_is_one_in_all_directories() {
    let mut sim = calm(4);
    run_node(&mut sim, node(3, 3), |stores| async move {
        write_round(&stores, 0).await;
        let mut manifest = Manifest { created_at: Some(5), ..Manifest::default() };
        for store in &stores {
            manifest.files.extend(store.link_snapshot(table(1).id, "s").await.expect("linked"));
        }
        let places = snapshot::directories(&directories(3), &table(1), "s");
        snapshot::write(&places[0], &manifest, None).await.expect("written");
        for place in &places {
            let data = list_dir(place).await.expect("listed").into_iter();
            assert_eq!(data.filter(|path| path.to_string_lossy().ends_with("-Data.db")).count(), 1, "{place:?}");
        }
        let listed = snapshot::list(&directories(3)).await.expect("listed");
        let [found] = &listed[..] else { panic!("one snapshot: {listed:?}") };
        assert_eq!((&found.directories, found.manifest.created_at, manifest.files.len()), (&places, Some(5), 3));
        snapshot::remove(&found.directories).await.expect("removed");
        assert!(!snapshot::exists(&places).await.expect("looked"));
        assert_eq!(count(&stores).await, KEYS as usize);
    });
}

#[test]
fn files_that_lie_in_any_directory_of_the_table_are_imported_where_they_are() {
    let mut sim = calm(5);
    run_node(&mut sim, Options { directories: "/elsewhere".into(), ..node(1, 1) }, |stores| async move {
        write_round(&stores, 0).await;
    });
    run_node(&mut sim, node(1, 3), |stores| async move {
        let own = engine::directories_of(&directories(3), &table(1));
        let from = engine::directory_of(Path::new("/elsewhere"), &table(1));
        create_dir_all(&own[1]).await.expect("directory");
        for path in list_dir(&from).await.expect("listed") {
            link(&path, &own[1].join(path.file_name().expect("a name"))).await.expect("linked");
        }
        for directory in &own {
            create_dir_all(directory).await.expect("directory");
        }
        let mut sources = import::list(&own).await.expect("listed");
        import::retain_new(&own, &mut sources, &HashSet::default(), true).await.expect("retained");
        assert_eq!(sources.len(), 1);
        let how = ImportOptions { depth: Depth::Extended, keep_level: false, keep_repaired: false, copy: false };
        let place = stores[0].log_place().await.expect("a place");
        let mut import = Import::place(&own, sources, &how, &[place]).await.expect("placed");
        stores[0].open_imported(table(1).id, &import.placed).await.expect("open");
        import.commit().await.expect("commit");
        stores[0].end_import(table(1).id, true);
        import.finish().await.expect("finished");
        assert_eq!(count(&stores).await, KEYS as usize);
    });
    assert_eq!((files(&sim, "-Data.db"), files(&sim, ".log")), (vec![0, 1, 0], vec![0; 3]));
    run_node(&mut sim, node(1, 3), |stores| async move { assert_eq!(count(&stores).await, KEYS as usize) });
}

#[test]
fn one_name_in_two_directories_stops_the_start() {
    let mut sim = calm(6);
    run_node(&mut sim, node(1, 2), |stores| async move { write_round(&stores, 0).await });
    let error = run(&mut sim, || async {
        let own = engine::directories_of(&directories(2), &table(1));
        create_dir_all(&own[1]).await.expect("directory");
        for path in list_dir(&own[0]).await.expect("listed") {
            link(&path, &own[1].join(path.file_name().expect("a name"))).await.expect("linked");
        }
        open(node(1, 2), &[]).await.err().expect("refused").to_string()
    });
    assert!(error.contains("/more/data/ks/") && error.contains("has the same name"), "{error}");
}

/// Cassandra writes a transaction's log into every directory that it names. A crash between the two writes of the last
/// record leaves it in one of them, which counts.
#[test]
fn logs_of_one_transaction_in_two_directories_are_one() {
    let mut sim = calm(7);
    run(&mut sim, || async {
        let own = ["/data/data/ks/t", "/more/data/ks/t"].map(PathBuf::from);
        let names =
            ["da-1-bti", "da-2-bti"].map(|name| Descriptor::parse(&format!("{name}-Data.db")).expect("a name").0);
        let id = uuid::Uuid::from_u128(9);
        let kind = transaction::TransactionKind::Compaction;
        for (directory, name) in own.iter().zip(&names) {
            create_dir_all(directory).await.expect("directory");
            let file = directory.join(format!("{name}-Data.db"));
            runtime::file::replace_small(&file, b"x").await.expect("written");
        }
        for (at, directory) in own.iter().enumerate() {
            let mut log = transaction::Transaction::new(directory, kind, id);
            log.add(&own[0], &names[0]).await.expect("added");
            log.remove(&own[1], &names[1], 5, 1);
            if at == 1 {
                log.commit(6).await.expect("committed");
            }
        }
        transaction::clean(&own).await.expect("clean");
        let left = [list_dir(&own[0]).await.expect("listed"), list_dir(&own[1]).await.expect("listed")];
        assert_eq!(left, [vec![own[0].join("da-1-bti-Data.db")], vec![]]);
    });
}

//! Imported SSTables: all of them join the table or none, whatever log positions they name, and they stay.

use crate::support::*;
use engine::import::{self, Import, ImportOptions, Source};
use engine::store::Truncation;
use engine::verify::{Check, Depth};
use engine::{Descriptor, Error, FaultKind, Options, Store};
use model::Partitioner;
use model::{Home, ShardMap, Table};
use runtime::HashSet;
use runtime::file::{create_dir_all, link, list_dir, read_small, replace_small};
use runtime::sim::{self, DiskCall, Sim, Stop};
use std::cell::{Cell, RefCell};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const INBOX: &str = "/inbox";

fn how() -> ImportOptions {
    ImportOptions { depth: Depth::Extended, keep_level: false, keep_repaired: false, copy: false }
}

fn own() -> PathBuf {
    engine::directory_of(Path::new("/data"), &table(1))
}

fn elsewhere() -> Options {
    Options { directories: "/elsewhere".into(), ..small() }
}

/// Puts an SSTable with these rows into the inbox, as another node would have written it.
async fn fill_inbox(rows: std::ops::Range<i32>) {
    let store = start(elsewhere(), &[uncompacted(&table(1))]).await;
    write_rows(&store, rows, 200).await;
    store.flush(table(1).id).await.expect("flush");
    create_dir_all(Path::new(INBOX)).await.expect("directory");
    for path in list_dir(&engine::directory_of(Path::new("/elsewhere"), &table(1))).await.expect("list") {
        link(&path, &Path::new(INBOX).join(path.file_name().expect("a name"))).await.expect("linked");
    }
    runtime::file::sync_dir(Path::new(INBOX)).await.expect("sync");
    store.close().await.expect("closed");
}

async fn found(store: &Store, directory: &Path, table: &Table) -> Vec<Source> {
    let directories = [directory.to_owned()];
    let mut sources = import::list(&directories).await.expect("list");
    let served: HashSet<Descriptor> = store.served(table.id).await.expect("served").into_iter().collect();
    import::retain_new(&directories, &mut sources, &served, directory == own()).await.expect("retained");
    sources
}

/// Runs all steps of an import on one shard.
async fn take_in(store: &Store, directory: &Path, table: &Arc<Table>, options: &ImportOptions) -> Result<usize, Error> {
    let sources = found(store, directory, table).await;
    let count = sources.len();
    for source in &sources {
        source.check(table, options.depth).await?;
    }
    let places = [store.log_place().await?];
    let mut import = Import::place(&[own()], sources, options, &places).await?;
    store.open_imported(table.id, &import.placed).await?;
    import.commit().await?;
    store.end_import(table.id, true);
    import.finish().await?;
    Ok(count)
}

async fn numbers(store: &Store) -> Vec<i32> {
    read_all(store, table(1).id).await.into_iter().map(|row| row.1[0]).collect()
}

async fn names(directory: &Path, end: &str) -> Vec<String> {
    let paths = list_dir(directory).await.unwrap_or_default();
    let names = paths.iter().map(|path| path.file_name().expect("a name").to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(end)).collect()
}

async fn reopened(truncations: &[(model::TableId, Truncation)]) -> Store {
    let store = Store::open(small()).await.expect("open");
    store.add_table(uncompacted(&table(1)), Home::ByToken);
    store.clean().await.expect("clean");
    store.load(truncations).await.expect("load");
    store.replay(truncations).await.expect("replay");
    store.start(store.highest_counter()).await.expect("start");
    store
}

/// The options of a check that reads every row.
fn extended(latest: bool) -> Check {
    Check { depth: Depth::Extended, latest, invokes_policy: false }
}

#[test]
fn imported_rows_are_there_and_stay_and_their_files_are_moved() {
    for copy in [false, true] {
        let mut sim = calm(1);
        run(&mut sim, move || async move {
            fill_inbox(10..20).await;
            let store = start(small(), &[uncompacted(&table(1))]).await;
            write_rows(&store, 0..5, 100).await;
            let options = ImportOptions { copy, ..how() };
            assert_eq!(take_in(&store, Path::new(INBOX), &uncompacted(&table(1)), &options).await.expect("in"), 1);
            assert_eq!(numbers(&store).await, (0..5).chain(10..20).collect::<Vec<_>>());
            assert_eq!(names(Path::new(INBOX), "-Data.db").await.len(), usize::from(copy));
            assert!(names(&own(), ".log").await.is_empty());
            // A second import finds nothing new.
            assert_eq!(found(&store, &own(), &table(1)).await, []);
            store.compact(table(1).id, EVERYTHING).await.expect("compact");
            assert_eq!(numbers(&store).await, (0..5).chain(10..20).collect::<Vec<_>>());
        });
        sim.crash(NODE);
        let rows = run(&mut sim, || async { numbers(&reopened(&[]).await).await });
        assert_eq!(rows, (0..5).chain(10..20).collect::<Vec<_>>(), "copy {copy}");
    }
}

/// Files on another disk cannot be linked, so they are copied, and the originals are removed unless they shall stay.
#[test]
fn files_of_another_disk_are_copied() {
    for copy in [false, true] {
        let mut sim = calm(1);
        let links = Rc::new(Cell::new(0));
        let counted = links.clone();
        sim.set_disk_fault(NODE, move |call, path| {
            let is_link = call == DiskCall::Link && path.starts_with(own());
            counted.set(counted.get() + u32::from(is_link));
            is_link.then(|| io::Error::from(io::ErrorKind::CrossesDevices))
        });
        run(&mut sim, move || async move {
            fill_inbox(10..20).await;
            let store = start(small(), &[uncompacted(&table(1))]).await;
            let options = ImportOptions { copy, ..how() };
            assert_eq!(take_in(&store, Path::new(INBOX), &uncompacted(&table(1)), &options).await.expect("in"), 1);
            assert_eq!(numbers(&store).await, (10..20).collect::<Vec<_>>());
            assert_eq!(names(Path::new(INBOX), "-Data.db").await.len(), usize::from(copy));
            let checked = store.verify(table(1).id, extended(false)).await.expect("read");
            assert_eq!(checked, None, "a copy is what was copied");
        });
        assert_eq!(links.get() > 0, !copy);
        sim.crash(NODE);
        let rows = run(&mut sim, || async { numbers(&reopened(&[]).await).await });
        assert_eq!(rows, (10..20).collect::<Vec<_>>(), "copy {copy}");
    }
}

/// If a link fails for any other reason, the import fails and leaves nothing.
#[test]
fn files_that_cannot_be_linked_stay_where_they_are() {
    let mut sim = calm(1);
    sim.set_disk_fault(NODE, |call, path| {
        (call == DiskCall::Link && path.starts_with(own())).then(|| io::ErrorKind::StorageFull.into())
    });
    run(&mut sim, || async {
        fill_inbox(10..20).await;
        let store = start(small(), &[uncompacted(&table(1))]).await;
        take_in(&store, Path::new(INBOX), &uncompacted(&table(1)), &how()).await.expect_err("no room");
        assert!(numbers(&store).await.is_empty());
        assert_eq!(names(Path::new(INBOX), "-Data.db").await.len(), 1);
        assert!(names(&own(), "-Data.db").await.is_empty());
    });
}

/// Log positions in an SSTable of another node are that node's: this node replays all of its own records.
#[test]
fn what_an_imported_sstable_says_of_a_log_is_forgotten() {
    let mut sim = calm(2);
    run(&mut sim, || async {
        fill_inbox(10..20).await;
        let store = start(small(), &[uncompacted(&table(1))]).await;
        write_rows(&store, 0..5, 200).await;
        take_in(&store, Path::new(INBOX), &uncompacted(&table(1)), &how()).await.expect("in");
        write_rows(&store, 5..9, 200).await;
    });
    sim.crash(NODE);
    let rows = run(&mut sim, || async { numbers(&reopened(&[]).await).await });
    assert_eq!(rows, (0..9).chain(10..20).collect::<Vec<_>>());
}

#[test]
fn what_was_truncated_comes_back_by_an_import_and_stays() {
    let mut sim = calm(3);
    let truncation = run(&mut sim, || async {
        let store = start(small(), &[uncompacted(&table(1))]).await;
        write_rows(&store, 0..5, 100).await;
        store.flush(table(1).id).await.expect("flush");
        store.link_snapshot(table(1).id, "s").await.expect("linked");
        let position = store.truncate(table(1).id).await.expect("truncate");
        let truncation = Truncation { counter_floor: store.counter_floor(), positions: vec![position], at_millis: 0 };
        store.release(table(1).id).await.expect("release");
        take_in(&store, &own().join("snapshots/s"), &uncompacted(&table(1)), &how()).await.expect("in");
        assert_eq!(numbers(&store).await, (0..5).collect::<Vec<_>>());
        truncation
    });
    sim.crash(NODE);
    let rows = run(&mut sim, move || {
        let truncations = [(table(1).id, truncation.clone())];
        async move { numbers(&reopened(&truncations).await).await }
    });
    assert_eq!(rows, (0..5).collect::<Vec<_>>());
}

/// After a crash that left the files of a truncated table, a start can tell what was imported before the truncation.
#[test]
fn an_import_is_truncated_by_what_comes_after_it() {
    let mut sim = calm(9);
    let truncation = run(&mut sim, || async {
        fill_inbox(10..20).await;
        let store = start(small(), &[uncompacted(&table(1))]).await;
        take_in(&store, Path::new(INBOX), &uncompacted(&table(1)), &how()).await.expect("in");
        assert_eq!(numbers(&store).await.len(), 10);
        let position = store.truncate(table(1).id).await.expect("truncate");
        // Nothing is released, so the files still exist when the power fails.
        Truncation { counter_floor: store.counter_floor(), positions: vec![position], at_millis: 0 }
    });
    sim.crash(NODE);
    let rows = run(&mut sim, move || {
        let truncations = [(table(1).id, truncation.clone())];
        async move { numbers(&reopened(&truncations).await).await }
    });
    assert_eq!(rows, []);
}

/// `refresh` imports files that lie in the table's own directory, except those that the table has already.
#[test]
fn files_in_the_tables_own_directory_are_found_once() {
    let mut sim = calm(4);
    run(&mut sim, || async {
        fill_inbox(10..20).await;
        let store = start(small(), &[uncompacted(&table(1))]).await;
        write_rows(&store, 0..5, 100).await;
        store.flush(table(1).id).await.expect("flush");
        for path in list_dir(Path::new(INBOX)).await.expect("list") {
            link(&path, &own().join(path.file_name().expect("a name"))).await.expect("linked");
        }
        assert_eq!(take_in(&store, &own(), &uncompacted(&table(1)), &how()).await.expect("in"), 1);
        assert_eq!(take_in(&store, &own(), &uncompacted(&table(1)), &how()).await.expect("in"), 0);
        assert_eq!(numbers(&store).await, (0..5).chain(10..20).collect::<Vec<_>>());
        assert_eq!(names(&own(), "-Data.db").await.len(), 2);
    });
}

#[test]
fn what_is_damaged_or_not_whole_is_refused_and_stays_where_it_is() {
    let mut sim = calm(5);
    run(&mut sim, || async {
        fill_inbox(10..20).await;
        let inbox = Path::new(INBOX);
        let store = start(small(), &[uncompacted(&table(1))]).await;
        let data = inbox.join(names(inbox, "-Data.db").await.remove(0));
        let good = read_small(&data, 1 << 20).await.expect("read");
        let mut bad = good.clone();
        let middle = bad.len() / 2;
        bad[middle] ^= 1;
        replace_small(&data, &bad).await.expect("written");
        for depth in [Depth::Checksums, Depth::Extended] {
            let options = ImportOptions { depth, ..how() };
            let refused = take_in(&store, inbox, &uncompacted(&table(1)), &options).await;
            assert!(matches!(refused, Err(Error::BadSstable { .. })), "{refused:?}");
        }
        replace_small(&data, &good).await.expect("written");
        let index = inbox.join(names(inbox, "-Partitions.db").await.remove(0));
        let kept = read_small(&index, 1 << 20).await.expect("read");
        runtime::file::remove(&index).await.expect("removed");
        assert!(take_in(&store, inbox, &uncompacted(&table(1)), &how()).await.is_err());
        assert!(numbers(&store).await.is_empty());
        assert!(names(&own(), "").await.is_empty());
        replace_small(&index, &kept).await.expect("written");
        take_in(&store, inbox, &uncompacted(&table(1)), &how()).await.expect("in");
        assert_eq!(numbers(&store).await, (10..20).collect::<Vec<_>>());
    });
}

#[test]
fn an_import_has_a_bound() {
    let mut sim = calm(6);
    run(&mut sim, || async {
        fill_inbox(0..1).await;
        let store = start(small(), &[uncompacted(&table(1))]).await;
        let one = found(&store, Path::new(INBOX), &table(1)).await;
        let many = vec![one[0].clone(); import::SSTABLES_MAX + 1];
        let refused = Import::place(&[own()], many, &how(), &[]).await;
        assert!(matches!(refused, Err(Error::Io(_))), "{refused:?}");
        // Three copies of one file are enough: importing as many as the limit allows would only be slow.
        let copy = ImportOptions { copy: true, ..how() };
        let import = Import::place(&[own()], vec![one[0].clone(); 3], &copy, &[]).await.expect("in");
        assert_eq!(import.placed.len(), 3);
        import.abort().await;
        assert!(names(&own(), ".db").await.is_empty());
    });
}

/// What several sources have of a table comes in one step, however many SSTables these are: between two steps a
/// tombstone could be purged before the row that it deletes has come.
#[test]
fn s9_more_than_a_thousand_sstables_appear_at_once() {
    const MANY: usize = 1_100;
    let mut sim = calm(8);
    run(&mut sim, || async {
        fill_inbox(0..1).await;
        let store = start(small(), &[uncompacted(&table(1))]).await;
        let one = found(&store, Path::new(INBOX), &table(1)).await;
        let copies = ImportOptions { copy: true, ..how() };
        let mut import = Import::place(&[own()], vec![one[0].clone(); MANY], &copies, &[]).await.expect("placed");
        store.open_imported(table(1).id, &import.placed).await.expect("open");
        assert_eq!(store.served(table(1).id).await.expect("served").len(), 0, "not before the commit");
        import.commit().await.expect("committed");
        store.end_import(table(1).id, true);
        assert_eq!(store.served(table(1).id).await.expect("served").len(), MANY);
        import.finish().await.expect("finished");
        assert_eq!(numbers(&store).await, [0]);
    });
}

#[test]
fn the_sstables_of_a_key_are_found() {
    let mut sim = calm(7);
    run(&mut sim, || async {
        let store = start(small(), &[uncompacted(&table(1))]).await;
        for key in [b"a", b"b"] {
            store.apply(insert(table(1).id, key, 1, 1, 1, b"x"), false).await.expect("apply");
            store.flush(table(1).id).await.expect("flush");
        }
        let of = async |key: &[u8]| {
            let key = model::DecoratedKey::new(model::Partitioner::Murmur3, key);
            store.sstables_with(table(1).id, &key).await.expect("found").len()
        };
        assert_eq!((of(b"a").await, of(b"b").await, of(b"c").await), (1, 1, 0));
        assert_eq!(store.verify(table(1).id, extended(true)).await.expect("verified"), None);
    });
}

/// How far a run came.
#[derive(Default)]
struct Known {
    placed: Cell<bool>,
    committed: Cell<bool>,
    done: Cell<bool>,
}

async fn work(known: Rc<Known>) {
    let store = start(small(), &[uncompacted(&table(1))]).await;
    write_rows(&store, 0..3, 100).await;
    let sources = found(&store, Path::new(INBOX), &table(1)).await;
    let places = [store.log_place().await.expect("a place")];
    let mut import = Import::place(&[own()], sources, &how(), &places).await.expect("placed");
    known.placed.set(true);
    store.open_imported(table(1).id, &import.placed).await.expect("open");
    import.commit().await.expect("commit");
    known.committed.set(true);
    store.end_import(table(1).id, true);
    import.finish().await.expect("finish");
    known.done.set(true);
}

#[test]
fn a_crash_at_any_step_leaves_an_import_done_or_to_be_done_again() {
    let (mut before, mut after) = (0, 0);
    let mut step = 1;
    loop {
        let calm = sim::Options { buggify: false, disk_error: 0.0, ..sim::Options::of_seed(step) };
        let mut sim = Sim::new(step, calm);
        run(&mut sim, || async { fill_inbox(10..20).await });
        let known = Rc::new(Known::default());
        let shared = known.clone();
        sim.start_node(NODE, 1, move |_| work(shared.clone()));
        for _ in 0..step {
            sim.step();
        }
        let done = known.done.get();
        sim.crash(NODE);
        let context = format!("crash at step {step}");
        let (rows, left, again) = run(&mut sim, || async {
            let store = reopened(&[]).await;
            let rows: Vec<i32> = numbers(&store).await.into_iter().filter(|number| *number >= 10).collect();
            let left = names(&own(), "").await.into_iter().filter(|name| !name.starts_with("da-")).collect::<Vec<_>>();
            // Asking again imports everything once more or finds that nothing is left to do.
            let whole = import::list(&[INBOX.into()]).await.expect("list");
            if rows.is_empty() {
                assert_eq!(whole.len(), 1, "the source is gone and nothing was imported");
                take_in(&store, Path::new(INBOX), &uncompacted(&table(1)), &how()).await.expect("in");
            }
            let again = numbers(&store).await;
            (rows, left, again)
        });
        assert!(rows.is_empty() || rows == (10..20).collect::<Vec<_>>(), "{context}: {rows:?}");
        assert!(!rows.is_empty() || !known.committed.get(), "{context}: the import is lost");
        assert!(rows.is_empty() || known.placed.get(), "{context}: more than was placed");
        assert!(left.is_empty(), "{context}: {left:?}");
        assert_eq!(again.iter().filter(|number| **number >= 10).count(), 10, "{context}");
        (before, after) = (before + u32::from(rows.is_empty()), after + u32::from(!rows.is_empty()));
        if done {
            break;
        }
        step += 2;
    }
    assert!(before > 10 && after > 3, "{before} {after}");
}

/// Two shards: both serve a foreign SSTable; an SSTable with an owner is served by that shard.
#[test]
fn every_shard_shows_its_part() {
    for foreign in [false, true] {
        let mut sim = calm(8);
        let shards = if foreign { 3 } else { 2 };
        write_elsewhere(&mut sim, shards);
        let placed: Rc<RefCell<Option<Import>>> = Rc::default();
        let (opened, ended, rows) =
            (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)), Rc::new(RefCell::new(Vec::new())));
        let done = Rc::new(Cell::new(0));
        let (counted, all) = (done.clone(), rows.clone());
        sim.start_node(NODE, 2, move |shard| {
            let (placed, opened, ended) = (placed.clone(), opened.clone(), ended.clone());
            let (counted, all) = (counted.clone(), all.clone());
            async move {
                let store = start(options(2, GROUP), &[uncompacted(&table(1))]).await;
                let wait = async |condition: &dyn Fn() -> bool| {
                    while !condition() {
                        runtime::sleep(Duration::from_millis(1)).await;
                    }
                };
                if shard.0 == 0 {
                    let sources = found(&store, Path::new(INBOX), &table(1)).await;
                    assert_eq!(sources.len(), shards as usize);
                    let places = [store.log_place().await.expect("a place"); 2];
                    let import = Import::place(&[own()], sources, &how(), &places).await;
                    let import = import.expect("placed");
                    *placed.borrow_mut() = Some(import);
                }
                wait(&|| placed.borrow().is_some()).await;
                let names = placed.borrow().as_ref().map(|import| import.placed.clone()).expect("placed");
                store.open_imported(table(1).id, &names).await.expect("open");
                opened.set(opened.get() + 1);
                wait(&|| opened.get() == 2).await;
                if shard.0 == 0 {
                    let mut import = placed.borrow_mut().take().expect("placed");
                    import.commit().await.expect("commit");
                    ended.set(true);
                }
                wait(&|| ended.get()).await;
                store.end_import(table(1).id, true);
                let map = ShardMap::new(Partitioner::Murmur3, 2);
                for row in read_all(&store, table(1).id).await {
                    assert_eq!(map.owner(Partitioner::Murmur3.token(&row.0)), shard.0);
                    all.borrow_mut().push(row.0);
                }
                counted.set(counted.get() + 1);
            }
        });
        assert_eq!(sim.run_until(Duration::from_secs(60), || done.get() == 2), Stop::Condition);
        let mut rows = rows.borrow().clone();
        rows.sort();
        assert_eq!(rows, (0..40u8).map(|key| vec![key]).collect::<Vec<_>>(), "foreign {foreign}");
    }
}

/// Writes forty partitions to the inbox, as a node with `shards` shards would.
fn write_elsewhere(sim: &mut Sim, shards: u16) {
    let done = Rc::new(Cell::new(0));
    let counted = done.clone();
    sim.start_node(NODE, usize::from(shards), move |shard| {
        let counted = counted.clone();
        async move {
            let options = Options { directories: "/elsewhere".into(), ..options(shards, GROUP) };
            let store = start(options, &[uncompacted(&table(1))]).await;
            let map = ShardMap::new(Partitioner::Murmur3, shards);
            for key in (0..40u8).filter(|key| map.owner(Partitioner::Murmur3.token(&[*key])) == shard.0) {
                store.apply(insert(table(1).id, &[key], 1, 1, 1, b"x"), false).await.expect("apply");
            }
            store.flush(table(1).id).await.expect("flush");
            counted.set(counted.get() + 1);
        }
    });
    assert_eq!(sim.run_until(Duration::from_secs(60), || done.get() == usize::from(shards)), Stop::Condition);
    sim.kill(NODE);
    run(sim, || async {
        create_dir_all(Path::new(INBOX)).await.expect("directory");
        for path in list_dir(&engine::directory_of(Path::new("/elsewhere"), &table(1))).await.expect("list") {
            link(&path, &Path::new(INBOX).join(path.file_name().expect("a name"))).await.expect("linked");
        }
    });
}

/// A fault that a check finds goes to the policy for failing disks only if the check is asked for that.
#[test]
fn a_check_invokes_the_policy_when_it_is_asked_to() {
    let mut sim = calm(1);
    run(&mut sim, || async {
        let store = start(small(), &[uncompacted(&table(1))]).await;
        write_rows(&store, 0..50, 200).await;
        store.flush(table(1).id).await.expect("flush");
    });
    let data =
        sim.files(NODE).into_iter().map(|(path, _)| path).find(|path| path.to_string_lossy().ends_with("-Data.db"));
    sim.mutate_file(NODE, &data.expect("an SSTable"), |bytes| bytes[100] ^= 1);
    run(&mut sim, || async {
        let store = start(small(), &[uncompacted(&table(1))]).await;
        let told = || runtime::timeout(Duration::from_secs(1), store.next_fault());
        assert!(store.verify(table(1).id, extended(false)).await.expect("checked").is_some());
        assert!(told().await.is_none());
        let check = Check { invokes_policy: true, ..extended(false) };
        assert!(store.verify(table(1).id, check).await.expect("checked").is_some());
        assert_eq!(told().await.map(|fault| fault.kind), Some(FaultKind::Sstable));
    });
}

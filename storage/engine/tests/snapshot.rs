//! Snapshots: their rows stay readable, whatever happens to the table and wherever the power fails.

use crate::support::*;
use engine::snapshot::{self, Manifest};
use engine::store::Truncation;
use engine::{Options, Store};
use model::Home;
use runtime::file::{create_dir_all, link, list_dir};
use runtime::sim::{self, Sim};
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

const TAG: &str = "s1";

fn directory() -> PathBuf {
    snapshot::directories(&"/data".into(), &table(1), TAG).remove(0)
}

/// Takes the snapshot as the crate `shard` does.
async fn take(store: &Store) {
    store.flush(table(1).id).await.expect("flush");
    let files = store.link_snapshot(table(1).id, TAG).await.expect("link");
    let manifest = Manifest { files: files.into_iter().collect(), created_at: Some(5), ..Manifest::default() };
    snapshot::write(&directory(), &manifest, Some("CREATE TABLE ...;\n")).await.expect("written");
}

/// The numbers of the rows that a node finds which has only the snapshot's files.
async fn restored() -> Vec<i32> {
    let options = Options { directories: "/restored".into(), ..small() };
    let target = engine::directory_of(options.directories.first(), &table(1));
    create_dir_all(&target).await.expect("directory");
    for path in list_dir(&directory()).await.expect("list") {
        let name = path.file_name().expect("a name").to_owned();
        let _ = link(&path, &target.join(name)).await;
    }
    let store = start(options, &[uncompacted(&table(1))]).await;
    numbers(&store).await
}

async fn numbers(store: &Store) -> Vec<i32> {
    read_all(store, table(1).id).await.into_iter().map(|row| row.1[0]).collect()
}

async fn cut(store: &Store) -> Truncation {
    let position = store.truncate(table(1).id).await.expect("truncate");
    Truncation { counter_floor: store.counter_floor(), positions: vec![position], at_millis: 0 }
}

#[test]
fn a_snapshot_outlives_compaction_truncation_and_restarts() {
    let mut sim = calm(3);
    let truncation = run(&mut sim, || async {
        let store = start(small(), &[uncompacted(&table(1))]).await;
        write_rows(&store, 0..5, 100).await;
        store.flush(table(1).id).await.expect("flush");
        write_rows(&store, 5..9, 100).await;
        take(&store).await;
        write_rows(&store, 9..12, 100).await;
        store.compact(table(1).id, EVERYTHING).await.expect("compact");
        let listed = snapshot::list(&"/data".into()).await.expect("list");
        assert_eq!(listed.len(), 1);
        let found = &listed[0];
        assert_eq!((found.tag.as_str(), found.keyspace.as_str(), found.table.as_str()), (TAG, "ks", "t1"));
        assert_eq!((found.manifest.created_at, found.manifest.expires_at), (Some(5), None));
        let truncation = cut(&store).await;
        store.release(table(1).id).await.expect("release");
        assert!(numbers(&store).await.is_empty());
        // Replaced files are removed once nothing reads them; then the snapshot's links are the only ones.
        runtime::sleep(Duration::from_secs(1)).await;
        let found = snapshot::list(&"/data".into()).await.expect("list").remove(0);
        assert_eq!(found.true_bytes, found.disk_bytes);
        let others = found.disk_bytes - found.sstable_bytes;
        assert!(others > 0 && found.sstable_bytes > others, "{found:?}");
        truncation
    });
    sim.crash(NODE);
    let (rows, kept) = run(&mut sim, move || {
        let truncation = truncation.clone();
        async move {
            let store = Store::open(small()).await.expect("open");
            store.add_table(uncompacted(&table(1)), Home::ByToken);
            store.clean().await.expect("clean");
            store.load(&[(table(1).id, truncation.clone())]).await.expect("load");
            store.replay(&[(table(1).id, truncation)]).await.expect("replay");
            (numbers(&store).await, restored().await)
        }
    });
    assert!(rows.is_empty(), "{rows:?}");
    assert_eq!(kept, (0..9).collect::<Vec<_>>());
}

#[test]
fn taking_up_a_snapshot_adds_what_came_since() {
    let mut sim = calm(4);
    let rows = run(&mut sim, || async {
        let store = start(small(), &[uncompacted(&table(1))]).await;
        write_rows(&store, 0..3, 100).await;
        take(&store).await;
        write_rows(&store, 3..6, 100).await;
        take(&store).await;
        assert_eq!(store.link_snapshot(table(1).id, TAG).await.expect("linked").len(), 2);
        restored().await
    });
    assert_eq!(rows, (0..6).collect::<Vec<_>>());
}

#[test]
fn a_snapshot_is_removed_as_a_whole_and_twice() {
    let mut sim = calm(5);
    run(&mut sim, || async {
        let store = start(small(), &[uncompacted(&table(1))]).await;
        assert!(snapshot::list(&"/data".into()).await.expect("list").is_empty());
        write_rows(&store, 0..3, 100).await;
        take(&store).await;
        assert!(snapshot::exists(&[directory()]).await.expect("exists"));
        // The directory in which Cassandra keeps an index of the table.
        create_dir_all(&directory().join(".ix")).await.expect("directory");
        runtime::file::replace_small(&directory().join(".ix/nb-1-big-Data.db"), b"x").await.expect("written");
        snapshot::remove(&[directory()]).await.expect("removed");
        snapshot::remove(&[directory()]).await.expect("removed");
        assert!(!snapshot::exists(&[directory()]).await.expect("exists"));
        assert!(snapshot::list(&"/data".into()).await.expect("list").is_empty());
        assert_eq!(numbers(&store).await, [0, 1, 2]);
    });
}

/// A table without data has a snapshot too.
#[test]
fn an_empty_table_has_an_empty_snapshot() {
    let mut sim = calm(6);
    run(&mut sim, || async {
        let store = start(small(), &[table(1)]).await;
        take(&store).await;
        let listed = snapshot::list(&"/data".into()).await.expect("list");
        assert_eq!((listed.len(), listed[0].sstable_bytes), (1, 0));
        assert!(restored().await.is_empty());
    });
}

/// How far a run came.
#[derive(Default)]
struct Known {
    written: Cell<i32>,
    taken: Cell<bool>,
    truncation: RefCell<Option<Truncation>>,
    done: Cell<bool>,
}

async fn work(known: Rc<Known>) {
    let store = start(small(), &[uncompacted(&table(1))]).await;
    for number in 0..6 {
        write_rows(&store, number..number + 1, 300).await;
        known.written.set(number + 1);
        if number == 2 {
            store.flush(table(1).id).await.expect("flush");
        }
    }
    take(&store).await;
    known.taken.set(true);
    store.compact(table(1).id, EVERYTHING).await.expect("compact");
    let truncation = cut(&store).await;
    *known.truncation.borrow_mut() = Some(truncation);
    store.release(table(1).id).await.expect("release");
    runtime::sleep(Duration::from_millis(300)).await;
    known.done.set(true);
}

#[test]
fn a_crash_at_any_step_leaves_the_whole_snapshot_or_none_that_says_so() {
    let mut step = 1;
    let (mut whole, mut cut_off) = (0, 0);
    loop {
        let mut sim = Sim::new(step, sim::Options { buggify: false, disk_error: 0.0, ..sim::Options::of_seed(step) });
        let known = Rc::new(Known::default());
        let shared = known.clone();
        sim.start_node(NODE, 1, move |_| work(shared.clone()));
        for _ in 0..step {
            sim.step();
        }
        let done = known.done.get();
        sim.crash(NODE);
        let truncation = known.truncation.borrow().clone();
        let truncated = truncation.is_some();
        let (rows, manifest, kept) = run(&mut sim, move || {
            let truncations: Vec<_> = truncation.clone().map(|cut| (table(1).id, cut)).into_iter().collect();
            async move {
                let store = Store::open(small()).await.expect("open");
                store.add_table(uncompacted(&table(1)), Home::ByToken);
                store.clean().await.expect("clean");
                store.load(&truncations).await.expect("load");
                store.replay(&truncations).await.expect("replay");
                let rows = numbers(&store).await;
                let listed = snapshot::list(&"/data".into()).await.expect("list");
                let manifest = listed.first().is_some_and(|found| found.manifest.created_at.is_some());
                let kept = if manifest { restored().await } else { Vec::new() };
                (rows, manifest, kept)
            }
        });
        let context = format!("crash at step {step}");
        if !truncated {
            assert!(rows.len() as i32 >= known.written.get(), "{context}: {rows:?}");
        } else {
            assert!(rows.is_empty(), "{context}: {rows:?}");
        }
        assert!(manifest || !known.taken.get(), "{context}: the snapshot is lost");
        if manifest {
            assert_eq!(kept, (0..6).collect::<Vec<_>>(), "{context}");
        }
        (whole, cut_off) = (whole + u32::from(manifest), cut_off + u32::from(!manifest));
        if done {
            break;
        }
        step += 3;
    }
    assert!(whole > 10 && cut_off > 10, "{whole} {cut_off}");
}

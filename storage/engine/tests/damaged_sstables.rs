//! Damaged SSTables: they are told, and one that is set aside is kept, wherever the power fails.

use crate::support::*;
use engine::verify::{Check, Depth};
use engine::{Error, Store, snapshot};
use runtime::sim::{self, Sim};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

const TAG: &str = "damaged-1";
/// By when the files of an SSTable that was set aside are removed, virtual time.
const REMOVAL_MAX: Duration = Duration::from_secs(10);
const CHECKSUMS: Check = Check { depth: Depth::Checksums, latest: false, invokes_policy: false };

/// Two SSTables, the first of which, with rows 0 to 49, is damaged; its Data.db.
fn damage(sim: &mut Sim) -> PathBuf {
    run(sim, || async {
        let store = start(small(), &[uncompacted(&table(1))]).await;
        write_rows(&store, 0..50, 100).await;
        store.flush(table(1).id).await.expect("flush");
    });
    let file = data_files(sim).remove(0);
    sim.mutate_file(NODE, &file, |bytes| bytes[100] ^= 1);
    run(sim, || async {
        let store = start(small(), &[uncompacted(&table(1))]).await;
        write_rows(&store, 50..80, 100).await;
        store.flush(table(1).id).await.expect("flush");
    });
    file
}

fn data_files(sim: &Sim) -> Vec<PathBuf> {
    let files = sim.files(NODE).into_iter().map(|(path, _)| path);
    files.filter(|path| path.to_string_lossy().ends_with("-Data.db")).collect()
}

fn kept_as(file: &Path) -> PathBuf {
    let directory = snapshot::directories(&"/data".into(), &table(1), TAG).remove(0);
    directory.join(file.file_name().expect("a name"))
}

async fn set_aside(store: &Store) -> Option<String> {
    let found = store.damaged_sstables();
    store.set_aside(table(1).id, found[0].name.clone(), TAG.into()).await.expect("set aside")
}

/// Waits until a file has left its directory.
async fn until_removed(file: &Path) {
    let directory = file.parent().expect("a directory");
    let deadline = runtime::now().after(REMOVAL_MAX);
    while runtime::file::list_dir(directory).await.expect("listed").iter().any(|other| other == file) {
        assert!(runtime::now() < deadline, "{} is still there", file.display());
        runtime::sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn a_damaged_sstable_is_told_once_its_damage_was_met_and_only_then_set_aside() {
    let mut sim = calm(1);
    let file = damage(&mut sim);
    let (expected, removed) = (file.clone(), file.clone());
    run(&mut sim, || async move {
        let store = start(small(), &[uncompacted(&table(1))]).await;
        assert_eq!(store.damaged_sstables(), Vec::new(), "nothing was read");
        let mut rows = Rows::default();
        let all = command(table(1).id, everything());
        assert!(matches!(store.read(&all, &mut rows).await, Err(Error::BadSstable { .. })));
        let found = store.damaged_sstables();
        assert_eq!(found.len(), 1);
        assert_eq!((&found[0].file, found[0].obstacle), (&expected, None));
        assert!(set_aside(&store).await.is_some());
        assert_eq!(read_all(&store, table(1).id).await.len(), 30, "the other SSTable");
        assert_eq!(store.damaged_sstables(), Vec::new());
        let again = store.set_aside(table(1).id, found[0].name.clone(), TAG.into()).await;
        assert_eq!(again.expect("nothing to do"), None);
        until_removed(&removed).await;
    });
    let files = data_files(&sim);
    assert!(files.contains(&kept_as(&file)) && !files.contains(&file), "{files:?}");
    // Nor does the log bring it back.
    let rows = run(&mut sim, || async {
        let store = start(small(), &[uncompacted(&table(1))]).await;
        read_all(&store, table(1).id).await.len()
    });
    assert_eq!(rows, 30);
}

fn everything() -> model::query::Partitions {
    model::query::Partitions::Range(model::token::TokenRange::FULL)
}

#[test]
fn a_crash_at_any_step_leaves_a_damaged_sstable_served_or_kept() {
    let (mut served, mut kept) = (0, 0);
    for step in 0.. {
        let options = sim::Options { buggify: false, disk_error: 0.0, ..sim::Options::of_seed(step) };
        let mut sim = Sim::new(step, options);
        let file = damage(&mut sim);
        let (met, done) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
        let context = (met.clone(), done.clone(), file.clone());
        sim.start_node(NODE, 1, move |_| {
            let (met, done, file) = context.clone();
            async move {
                let store = start(small(), &[uncompacted(&table(1))]).await;
                assert!(store.verify(table(1).id, CHECKSUMS).await.expect("checked").is_some());
                met.set(true);
                assert!(set_aside(&store).await.is_some());
                until_removed(&file).await;
                done.set(true);
            }
        });
        while !met.get() {
            sim.step();
        }
        for _ in 0..step * 2 {
            sim.step();
        }
        let is_done = done.get();
        sim.crash(NODE);
        let is_read = run(&mut sim, || async {
            let store = start(small(), &[uncompacted(&table(1))]).await;
            let mut rows = Rows::default();
            match store.read(&command(table(1).id, everything()), &mut rows).await {
                Ok(_) => Some(rows.rows.len()),
                Err(Error::BadSstable { .. }) => None,
                Err(error) => panic!("{error}"),
            }
        });
        let files = data_files(&sim);
        let context = format!("crash at step {step}: {files:?}");
        match is_read {
            None => assert!(files.contains(&file) && !is_done, "{context}"),
            Some(rows) => {
                assert_eq!(rows, 30, "{context}");
                assert!(files.contains(&kept_as(&file)) && !files.contains(&file), "{context}");
            }
        }
        (served, kept) = (served + u32::from(is_read.is_none()), kept + u32::from(is_read.is_some()));
        if is_done {
            break;
        }
    }
    assert!(served > 3 && kept > 1, "{served} {kept}");
}

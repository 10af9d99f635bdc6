//! SSTables that cannot be opened when the node starts: a file is damaged or missing.

use crate::support::*;
use engine::compaction::CompactionScope;
use engine::verify::{Check, Depth};
use engine::{Error, Options, SstableOptions, Store, snapshot};
use model::query::Partitions;
use model::token::TokenRange;
use model::{DecoratedKey, Home, MutationBuilder, Partitioner, Table, TableId};
use runtime::sim::Sim;
use sstable::Version;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const TAG: &str = "damaged-1";
const QUICK: Check = Check { depth: Depth::Quick, latest: false, invokes_policy: false };
/// By when the files of an SSTable that no table has any more are removed, virtual time.
const REMOVAL_MAX: Duration = Duration::from_secs(10);

/// Units of 100 ns from the beginning of the time of UUIDs to 1970.
const TICKS_TO_1970: u64 = 0x01b2_1dd2_1381_4000;

/// What is done to a file.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Harm {
    Flip,
    Cut,
    Missing,
}

fn options(version: Version) -> Options {
    Options { sstables: SstableOptions { version, ..SstableOptions::default() }, ..small() }
}

/// A table whose id says that it was made a second ago.
fn young() -> Arc<Table> {
    let seconds = runtime::wall_micros().div_euclid(1_000_000) as u64 - 1;
    let mut table = Table::clone(&uncompacted(&table(1)));
    let ticks = seconds * 10_000_000 + TICKS_TO_1970;
    let (low, middle, high) = (ticks as u32, (ticks >> 32) as u16, (ticks >> 48) as u16 | 1 << 12);
    table.id = TableId(*uuid::Uuid::from_fields(low, middle, high, &[0x80; 8]).as_bytes());
    Arc::new(table)
}

/// Starts a store of one shard with a table, whose rows other nodes have too or not.
async fn try_start(options: Options, table: &Arc<Table>, replicated: bool) -> Result<Store, Error> {
    let store = Store::open(options).await?;
    store.add_table(table.clone(), Home::ByToken);
    store.set_replicated(table.id, replicated);
    store.clean().await?;
    store.load(&[]).await?;
    store.replay(&[]).await?;
    store.start(store.highest_counter()).await?;
    Ok(store)
}

/// A node with two SSTables, of 50 rows and of 30; the files of the first, by the names of their components.
fn two_sstables(version: Version) -> (Sim, Vec<PathBuf>) {
    let mut sim = calm(1);
    run(&mut sim, move || async move {
        let store = try_start(options(version), &uncompacted(&table(1)), true).await.expect("started");
        write_rows(&store, 0..50, 100).await;
        store.flush(table(1).id).await.expect("flush");
    });
    let first = files(&sim);
    run(&mut sim, move || async move {
        let store = try_start(options(version), &uncompacted(&table(1)), true).await.expect("started");
        write_rows(&store, 50..80, 100).await;
        store.flush(table(1).id).await.expect("flush");
    });
    (sim, first)
}

/// The files of SSTables that the table has.
fn files(sim: &Sim) -> Vec<PathBuf> {
    let files = sim.files(NODE).into_iter().map(|(path, _)| path);
    files.filter(|path| is_of_sstable(path) && !path.to_string_lossy().contains("snapshots")).collect()
}

/// Waits until files have left their directories.
async fn until_removed(files: &[PathBuf]) {
    let deadline = runtime::now().after(REMOVAL_MAX);
    for file in files {
        let directory = file.parent().expect("a directory");
        while runtime::file::list_dir(directory).await.unwrap_or_default().contains(file) {
            assert!(runtime::now() < deadline, "{} is still there", file.display());
            runtime::sleep(Duration::from_millis(1)).await;
        }
    }
}

fn is_of_sstable(path: &std::path::Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    sstable::Descriptor::parse(name).is_some()
}

fn harm(sim: &mut Sim, file: &std::path::Path, harm: Harm) {
    match harm {
        Harm::Flip => assert!(sim.mutate_file(NODE, file, |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x20;
        })),
        Harm::Cut => assert!(sim.mutate_file(NODE, file, |bytes| bytes.truncate(bytes.len() / 2))),
        Harm::Missing => {
            let file = file.to_owned();
            run(sim, move || async move { runtime::file::remove(&file).await.expect("removed") });
        }
    }
}

/// Reads all rows.
async fn read(store: &Store, table: TableId, partitions: Partitions) -> Result<usize, Error> {
    let mut rows = Rows::default();
    store.read(&command(table, partitions), &mut rows).await?;
    Ok(rows.rows.len())
}

fn everything() -> Partitions {
    Partitions::Range(TokenRange::FULL)
}

#[test]
fn s5_a_start_goes_on_without_an_sstable_that_other_nodes_have() {
    let mut met = 0;
    for version in [Version::Da, Version::Oa] {
        let (_, components) = two_sstables(version);
        for component in components {
            for how in [Harm::Flip, Harm::Cut, Harm::Missing] {
                let (mut sim, first) = two_sstables(version);
                // The names differ between two runs of the node, but not what they end with.
                let end = component.to_string_lossy().rsplit('-').next().expect("a component").to_owned();
                let file = first.iter().find(|file| file.to_string_lossy().ends_with(&end)).expect("the same").clone();
                if sim.read_file(NODE, &file).is_none_or(|bytes| bytes.is_empty()) {
                    continue;
                }
                harm(&mut sim, &file, how);
                let refused = run(&mut sim, move || async move {
                    match try_start(options(version), &uncompacted(&table(1)), false).await {
                        Ok(_) => false,
                        Err(Error::BadSstable { .. }) => true,
                        Err(error) => panic!("{error}"),
                    }
                });
                let context = format!("{version:?} {end} {how:?}");
                if !refused {
                    // It is not read when an SSTable is opened, or it can do without.
                    let whole = ["Data.db", "Digest.crc32", "TOC.txt", "Rows.db", "Index.db"].contains(&&*end);
                    let bare = how == Harm::Missing && ["Filter.db", "Summary.db", "Helenus.db"].contains(&&*end);
                    assert!(whole || bare, "{context} is not noticed");
                    continue;
                }
                met += 1;
                // The other SSTable has 30 rows, and the log does not bring those of this one back, unless nobody knows
                // that they are in it.
                let is_known = !["Statistics.db", "Helenus.db"].contains(&&*end);
                let is_expected = move |rows: usize| rows == 30 || (!is_known && (30..80).contains(&rows));
                let kept = first.len() - usize::from(how == Harm::Missing);
                let gone = first.clone();
                run(&mut sim, move || async move {
                    let store = try_start(options(version), &uncompacted(&table(1)), true).await.expect("started");
                    let id = table(1).id;
                    assert!(matches!(read(&store, id, everything()).await, Err(Error::BadSstable { .. })), "{context}");
                    let invalid = store.verify(id, QUICK).await.expect("checked").expect("told");
                    let found = store.damaged_sstables();
                    assert_eq!(found.len(), 1, "{context}");
                    assert_eq!(found[0].file, invalid.file, "{context}");
                    assert_eq!(found[0].problem.as_ref(), Some(&invalid.text), "{context}");
                    assert_eq!(found[0].obstacle.is_some(), end == "Statistics.db", "{context}");
                    // What was written since can be read, unless it is in the range.
                    let elsewhere = (0..200u32).map(|i| DecoratedKey::new(Partitioner::Murmur3, &i.to_be_bytes()));
                    let outside = elsewhere.filter(|key| !found[0].range.contains(key.token, &key.key)).count();
                    assert_eq!(outside > 0, found[0].range != TokenRange::FULL, "{context}");
                    assert_eq!(store.served(id).await.expect("listed").len(), 2, "{context}: refresh takes neither");
                    let set = store.set_aside(id, found[0].name.clone(), TAG.into()).await.expect("set aside");
                    assert!(set.is_some(), "{context}");
                    assert_eq!(store.damaged_sstables(), Vec::new());
                    let rows = read(&store, id, everything()).await.expect("read");
                    assert!(is_expected(rows), "{context}: {rows} rows");
                    until_removed(&gone).await;
                });
                let target = snapshot::directories(&"/data".into(), &table(1), TAG).remove(0);
                let in_snapshot = sim.files(NODE).into_iter().filter(|(path, _)| path.starts_with(&target)).count();
                assert_eq!(in_snapshot, kept);
                assert!(first.iter().all(|file| !files(&sim).contains(file)));
                let rows = run(&mut sim, move || async move {
                    let store = try_start(options(version), &uncompacted(&table(1)), false).await.expect("started");
                    read(&store, table(1).id, everything()).await.expect("read")
                });
                assert!(is_expected(rows), "{rows} rows after a restart");
            }
        }
    }
    assert!(met > 20, "{met}");
}

#[test]
fn the_policies_die_and_stop_paranoid_refuse_to_start_without_it() {
    let (mut sim, first) = two_sstables(Version::Da);
    let file = first.iter().find(|file| file.to_string_lossy().ends_with("Statistics.db")).expect("one").clone();
    harm(&mut sim, &file, Harm::Flip);
    run(&mut sim, || async {
        let mut options = options(Version::Da);
        options.sstables.opens_without_damaged = false;
        let refused = try_start(options, &uncompacted(&table(1)), true).await;
        assert!(matches!(refused, Err(Error::BadSstable { .. })));
    });
}

#[test]
fn deletions_of_what_could_not_be_opened_are_kept() {
    let mut sim = calm(2);
    run(&mut sim, || async {
        let store = try_start(small(), &uncompacted(&table(1)), true).await.expect("started");
        write_rows(&store, 0..20, 100).await;
        store.flush(table(1).id).await.expect("flush");
    });
    let first = files(&sim);
    run(&mut sim, || async {
        let store = try_start(small(), &uncompacted(&table(1)), true).await.expect("started");
        let mut deleting = MutationBuilder::new(Partitioner::Murmur3, b"p");
        deleting.table(table(1).id);
        deleting.delete_partition(deletion(1_000_000));
        store.apply(deleting.finish(), false).await.expect("deleted");
        store.flush(table(1).id).await.expect("flush");
        assert_eq!(read(&store, table(1).id, everything()).await.expect("read"), 0);
    });
    let file = first.iter().find(|file| file.to_string_lossy().ends_with("Statistics.db")).expect("one").clone();
    harm(&mut sim, &file, Harm::Flip);
    run(&mut sim, || async {
        let store = try_start(small(), &uncompacted(&table(1)), true).await.expect("started");
        store.compact(table(1).id, CompactionScope::All { split: false }).await.expect("compacted");
    });
    harm(&mut sim, &file, Harm::Flip);
    let rows = run(&mut sim, || async {
        let store = try_start(small(), &uncompacted(&table(1)), false).await.expect("started");
        read(&store, table(1).id, everything()).await.expect("read")
    });
    assert_eq!(rows, 0, "deletions are long past, and purged if nothing is known to be below them");
}

#[test]
fn a_truncation_or_a_drop_takes_what_could_not_be_opened_along() {
    for drops in [false, true] {
        let (mut sim, first) = two_sstables(Version::Da);
        let file = first.iter().find(|file| file.to_string_lossy().ends_with("Partitions.db")).expect("one").clone();
        harm(&mut sim, &file, Harm::Cut);
        let gone = files(&sim);
        run(&mut sim, move || async move {
            let store = try_start(small(), &uncompacted(&table(1)), true).await.expect("started");
            assert_eq!(store.damaged_sstables().len(), 1);
            if drops {
                store.drop_table(table(1).id);
            } else {
                store.truncate(table(1).id).await.expect("truncated");
            }
            assert_eq!(store.damaged_sstables().len(), 0);
            store.release(table(1).id).await.expect("released");
            until_removed(&gone).await;
        });
        assert_eq!(files(&sim), Vec::<PathBuf>::new());
    }
}

#[test]
fn of_a_table_that_is_younger_than_its_deletions_last_all_can_be_replaced() {
    let mut sim = calm(3);
    let id = run(&mut sim, || async {
        let table = young();
        let store = try_start(small(), &table, true).await.expect("started");
        for x in 0..2 {
            store.apply(insert(table.id, b"p", x, 0, 1, b"v"), false).await.expect("written");
            store.flush(table.id).await.expect("flush");
        }
        table.id
    });
    let file = files(&sim).into_iter().find(|file| file.to_string_lossy().ends_with("Statistics.db")).expect("one");
    harm(&mut sim, &file, Harm::Missing);
    run(&mut sim, move || async move {
        let table = Arc::new(Table { id, ..Table::clone(&uncompacted(&table(1))) });
        let store = try_start(small(), &table, true).await.expect("started");
        let found = store.damaged_sstables();
        assert_eq!((found.len(), found[0].obstacle), (1, None), "no deletion can be forgotten elsewhere");
    });
}

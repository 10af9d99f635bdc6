//! Flushes and compactions write the version that is configured, and no SSTable if nothing is left to write.

use crate::support::*;
use engine::compaction::CompactionScope;
use engine::{FlushCompression, Options, SstableOptions, Version};
use model::Partitioner;
use model::mutation::Clustering;
use model::row::{Deletion, RowBuilder};
use model::schema::DroppedColumn;
use model::{ColumnId, ColumnKind, CqlType, Home, Mutation, MutationBuilder, Table};
use runtime::sim::Sim;
use std::path::PathBuf;
use std::sync::Arc;

fn names(sim: &Sim) -> Vec<String> {
    let directory = engine::directory_of(&PathBuf::from("/data"), &table(1));
    let paths = sim.files(NODE).into_iter().map(|(path, _)| path).filter(|path| path.starts_with(&directory));
    paths.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect()
}

#[test]
fn flushes_and_compactions_write_the_version_that_is_selected() {
    let cases = [(Version::Nb, "nb", "-big-"), (Version::Oa, "oa", "-big-"), (Version::Da, "da", "-bti-")];
    for (version, name, format) in cases {
        for flush_compression in [FlushCompression::None, FlushCompression::Fast, FlushCompression::Table] {
            let sstables =
                SstableOptions { version, flush_compression, row_index_bytes: Some(1024), ..SstableOptions::default() };
            let options = Options { sstables, cache_bytes_max: 0, ..small() };
            let mut sim = calm(1);
            let (first, again) = (options.clone(), options);
            run(&mut sim, move || {
                let options = first.clone();
                async move {
                    let table = uncompacted(&table(1));
                    let store = start(options, std::slice::from_ref(&table)).await;
                    for round in 0..3 {
                        write_rows(&store, round * 50..round * 50 + 100, 200).await;
                        store.flush(table.id).await.expect("flush");
                    }
                    assert_eq!(read_all(&store, table.id).await.len(), 200);
                }
            });
            let found = names(&sim);
            let right = |found: &String| found.starts_with(name) && found.contains(format);
            assert!(found.len() >= 24 && found.iter().all(right), "{found:?}");
            run(&mut sim, move || {
                let options = again.clone();
                async move {
                    let table = uncompacted(&table(1));
                    let store = start(options, std::slice::from_ref(&table)).await;
                    assert_eq!(read_all(&store, table.id).await.len(), 200);
                    store.compact(table.id, EVERYTHING).await.expect("compact");
                    assert_eq!(read_all(&store, table.id).await.len(), 200);
                    runtime::sleep(std::time::Duration::from_secs(1)).await;
                }
            });
            let found = names(&sim);
            assert_eq!(found.iter().filter(|found| found.ends_with("-Data.db")).count(), 1);
            assert!(found.iter().all(right), "{found:?}");
        }
    }
}

#[test]
fn an_upgrade_rewrites_sstables_of_another_version_one_by_one() {
    let options = |version| Options {
        sstables: SstableOptions { version, ..SstableOptions::default() },
        cache_bytes_max: 0,
        ..small()
    };
    let data = |sim: &Sim| -> Vec<String> {
        names(sim).into_iter().filter(|name| name.ends_with("-Data.db")).collect::<Vec<_>>()
    };
    let upgraded = |sim: &mut Sim, all: bool, made_until: i64| {
        run(sim, move || async move {
            let table = uncompacted(&table(1));
            let store = start(options(Version::Da), std::slice::from_ref(&table)).await;
            store.compact(table.id, CompactionScope::Upgrade { all, made_until }).await.expect("upgrade");
            assert_eq!(read_all(&store, table.id).await.len(), 200);
            runtime::sleep(std::time::Duration::from_secs(1)).await;
        });
        let mut found = data(sim);
        found.sort();
        found
    };
    let mut sim = calm(1);
    run(&mut sim, move || async move {
        let table = uncompacted(&table(1));
        let store = start(options(Version::Nb), std::slice::from_ref(&table)).await;
        for round in 0..3 {
            write_rows(&store, round * 50..round * 50 + 100, 200).await;
            store.flush(table.id).await.expect("flush");
        }
    });
    let mut before = data(&sim);
    before.sort();
    assert!(before.len() == 3 && before.iter().all(|name| name.starts_with("nb-")), "{before:?}");
    assert_eq!(upgraded(&mut sim, false, 0), before, "none was made that early");
    let after = upgraded(&mut sim, false, i64::MAX);
    assert!(after.len() == 3 && after.iter().all(|name| name.starts_with("da-")), "{after:?}");
    assert_eq!(upgraded(&mut sim, false, i64::MAX), after, "all have the version that is written");
    let again = upgraded(&mut sim, true, i64::MAX);
    assert!(again.len() == 3 && again.iter().all(|name| !after.contains(name)), "{again:?}");
}

/// The table of `support` without `b`, which was dropped, or with it added again.
fn altered(with_b: bool, dropped_at: i64) -> Arc<Table> {
    let mut table = Table::clone(&uncompacted(&table(1)));
    if !with_b {
        table.columns.retain(|column| column.name != "b");
    }
    let (id, name, kind, cql_type) = (ColumnId(4), "b".into(), ColumnKind::Regular, CqlType::Text);
    table.dropped = vec![DroppedColumn { id, name, kind, cql_type, dropped_at }];
    Arc::new(table)
}

/// An UPDATE that sets only `b`.
fn update_b(x: i32, timestamp: i64) -> Mutation {
    let mut builder = MutationBuilder::new(Partitioner::Murmur3, b"p");
    builder.table(table(1).id);
    builder.row(Clustering(&clustering(&[x, 0])), |out| {
        RowBuilder::new(out, None, Deletion::LIVE).cell(&value(B, timestamp, b"of b"));
    });
    builder.finish()
}

#[test]
fn what_is_left_of_dropped_columns_alone_becomes_no_sstable() {
    let mut sim = calm(2);
    run(&mut sim, || async {
        let store = start(small(), &[uncompacted(&table(1))]).await;
        let id = table(1).id;
        store.apply(update_b(1, 10), false).await.expect("apply");
        store.flush(id).await.expect("flush");
        store.apply(update_b(2, 11), false).await.expect("apply");
        store.add_table(altered(false, 100), Home::ByToken);
        store.flush(id).await.expect("nothing is left to flush");
        assert_eq!(store.statistics(id, 0).expect("known").sstables, 1);
        store.compact(id, EVERYTHING).await.expect("nothing is left to compact");
        assert_eq!(store.statistics(id, 0).expect("known").sstables, 0);
        runtime::sleep(std::time::Duration::from_secs(1)).await;
    });
    assert!(names(&sim).iter().all(|name| !name.ends_with("-Data.db") && !name.ends_with(".log")), "{:?}", names(&sim));
}

#[test]
fn open_sstables_follow_columns_that_are_dropped_and_added_again() {
    let mut sim = calm(3);
    run(&mut sim, || async {
        let id = table(1).id;
        let xs = async |store: &engine::Store| -> Vec<i32> {
            read_all(store, id).await.iter().map(|row| row.1[0]).collect()
        };
        let store = start(small(), &[uncompacted(&table(1))]).await;
        for (x, timestamp) in [(1, 10), (2, 200)] {
            store.apply(update_b(x, timestamp), false).await.expect("apply");
        }
        store.flush(id).await.expect("flush");
        assert_eq!(xs(&store).await, [1, 2]);
        store.add_table(altered(false, 100), Home::ByToken);
        assert!(xs(&store).await.is_empty());
        store.add_table(altered(true, 100), Home::ByToken);
        assert_eq!(xs(&store).await, [2]);
    });
    // The SSTable is opened while the column is dropped.
    run(&mut sim, || async {
        let store = start(small(), &[altered(false, 100)]).await;
        assert!(read_all(&store, table(1).id).await.is_empty());
        store.add_table(altered(true, 100), Home::ByToken);
        let rows = read_all(&store, table(1).id).await;
        assert_eq!(rows.iter().map(|row| row.1[0]).collect::<Vec<_>>(), [2]);
    });
}

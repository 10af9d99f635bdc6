//! Compactions: live data stays, what no reader can miss goes, and a start after a crash finds the inputs or the
//! outputs.

use crate::support::*;
use engine::Store;
use engine::compaction::{CompactionScope, TaskKind};
use model::Partitioner;
use model::mutation::Clustering;
use model::row::{Deletion, RowBuilder};
use model::schema::TableOptions;
use model::token::RingPosition;
use model::tombstone_gc::{GcMode, RepairedRanges, TombstoneGc};
use model::{DecoratedKey, Mutation, MutationBuilder, Table, TokenRange};
use runtime::sim::Sim;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Table 1 with a grace period of zero, so that tombstones may be purged at once.
fn graceless() -> Arc<Table> {
    let options = TableOptions { gc_grace_seconds: 0, ..TableOptions::default() };
    Arc::new(Table { options, ..(*table(1)).clone() })
}

fn data_files(sim: &Sim) -> usize {
    let directory = engine::directory_of(&PathBuf::from("/data"), &table(1));
    let files = sim.files(NODE).into_iter();
    files.filter(|(path, _)| path.starts_with(&directory) && path.to_string_lossy().ends_with("-Data.db")).count()
}

fn delete_row(x: i32, timestamp: i64) -> Mutation {
    delete_row_at(x, timestamp, 1)
}

fn delete_row_at(x: i32, timestamp: i64, local_deletion_time: i64) -> Mutation {
    let mut builder = MutationBuilder::new(Partitioner::Murmur3, b"p");
    builder.table(table(1).id);
    builder.row(Clustering(&clustering(&[x, 0])), |out| {
        RowBuilder::new(out, None, Deletion { timestamp, local_deletion_time });
    });
    builder.finish()
}

fn delete_partition(timestamp: i64) -> Mutation {
    let mut builder = MutationBuilder::new(Partitioner::Murmur3, b"p");
    builder.table(table(1).id);
    builder.delete_partition(deletion(timestamp));
    builder.finish()
}

async fn xs(store: &Store) -> Vec<i32> {
    read_all(store, table(1).id).await.iter().map(|row| row.1[0]).collect()
}

#[test]
fn s5_sstables_become_one_with_the_last_write_of_each_cell() {
    let mut sim = calm(1);
    run(&mut sim, || async {
        let store = start(small(), &[table(1)]).await;
        for round in 0..5i32 {
            for x in round * 10..round * 10 + 20 {
                let text = [b'a' + round as u8];
                store.apply(insert(table(1).id, b"p", x, 0, i64::from(round), &text), false).await.expect("apply");
            }
            store.flush(table(1).id).await.expect("flush");
        }
        let before = read_all(&store, table(1).id).await;
        store.compact(table(1).id, EVERYTHING).await.expect("compact");
        assert_eq!(read_all(&store, table(1).id).await, before);
        runtime::sleep(Duration::from_secs(1)).await;
    });
    assert_eq!(data_files(&sim), 1);
    sim.crash(NODE);
    run(&mut sim, || async {
        let store = start(small(), &[table(1)]).await;
        assert_eq!(xs(&store).await, (0..60).collect::<Vec<_>>());
    });
}

/// A table with leveled compaction and uncompressed SSTables of 1 MiB.
fn leveled() -> Arc<Table> {
    let mut leveled = (*uncompacted(&table(1))).clone();
    let text =
        |pairs: &[(&str, &str)]| pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    leveled.options.compaction =
        text(&[("class", "LeveledCompactionStrategy"), ("sstable_size_in_mb", "1"), ("enabled", "false")]);
    leveled.options.compression = text(&[("enabled", "false")]);
    Arc::new(leveled)
}

#[test]
fn a_major_compaction_lays_out_what_the_strategy_wants() {
    let mut sim = calm(9);
    run(&mut sim, || async {
        let store = start(options(1, GROUP), &[leveled()]).await;
        for part in 0..4u32 {
            for key in 0..800u32 {
                let key = (part * 400 + key).to_be_bytes();
                store
                    .apply(insert(table(1).id, &key, 0, 0, i64::from(part), &[part as u8; 1500]), false)
                    .await
                    .expect("apply");
            }
            store.flush(table(1).id).await.expect("flush");
        }
        let before = read_all(&store, table(1).id).await;
        store.compact(table(1).id, EVERYTHING).await.expect("compact");
        assert_eq!(read_all(&store, table(1).id).await, before);
        runtime::sleep(Duration::from_secs(1)).await;
    });
    // There are 2,000 rows of 1.5 KB.
    assert_eq!(data_files(&sim), 3);
}

#[test]
fn s5_tombstones_go_after_their_grace_and_not_while_older_data_may_be_elsewhere() {
    let mut sim = calm(2);
    run(&mut sim, || async {
        let store = start(small(), &[graceless()]).await;
        write_rows(&store, 0..3, 10).await;
        store.flush(table(1).id).await.expect("flush");
        store.apply(delete_row(1, 5), false).await.expect("apply");
        store.compact(table(1).id, EVERYTHING).await.expect("compact");
        assert_eq!(xs(&store).await, [0, 2]);
        store.apply(delete_partition(9), false).await.expect("apply");
        store.flush(table(1).id).await.expect("flush");
        // A write in memory that is older than the deletion keeps that from being purged.
        store.apply(insert(table(1).id, b"p", 7, 0, 8, b"late"), false).await.expect("apply");
        assert_eq!(xs(&store).await, [0i32; 0]);
        store.compact(table(1).id, EVERYTHING).await.expect("compact");
        assert_eq!(xs(&store).await, [0i32; 0]);
        runtime::sleep(Duration::from_secs(1)).await;
    });
    assert_eq!(data_files(&sim), 0, "nothing is left to write");
}

#[test]
fn s5_tombstones_of_a_table_that_purges_repaired_ones_alone_stay() {
    let mut sim = calm(3);
    run(&mut sim, || async {
        let mut described = Table::clone(&graceless());
        described.options.compaction.insert("only_purge_repaired_tombstones".into(), "true".into());
        let store = start(small(), &[Arc::new(described)]).await;
        write_rows(&store, 0..3, 10).await;
        store.apply(delete_partition(20), false).await.expect("apply");
        store.flush(table(1).id).await.expect("flush");
        store.compact(table(1).id, EVERYTHING).await.expect("compact");
        // It lies below the deletion, which would have been gone.
        store.apply(insert(table(1).id, b"p", 7, 0, 15, b"late"), false).await.expect("apply");
        assert_eq!(xs(&store).await, [0i32; 0]);
        runtime::sleep(Duration::from_secs(1)).await;
    });
    assert_eq!(data_files(&sim), 1);
}

#[test]
fn p7_deletions_stay_until_they_are_proven_to_be_repaired() {
    let mut sim = calm(3);
    run(&mut sim, || async {
        // By its grace alone they would go at once.
        let mut described = Table::clone(&graceless());
        described.options.tombstone_gc = TombstoneGc { mode: GcMode::Repair, delay_seconds: 10 };
        let store = start(small(), &[Arc::new(described)]).await;
        write_rows(&store, 0..3, 10).await;
        for x in 0..3 {
            store.apply(delete_row_at(x, 20, 1000), false).await.expect("apply");
        }
        let compacted = async || {
            store.compact(table(1).id, EVERYTHING).await.expect("compact");
            store.statistics(table(1).id, 0).expect("known").sstables
        };
        assert_eq!(compacted().await, 1, "nothing is repaired");
        let token = Partitioner::Murmur3.ring_token(b"p");
        let until = Some(RingPosition { token, is_after: true });
        let before = TokenRange { start: None, end: until.clone() };
        let behind = TokenRange { start: until, end: None };
        let mut repaired = RepairedRanges::none(Partitioner::Murmur3);
        repaired.add(&behind, 5000);
        store.set_repaired(table(1).id, Arc::new(repaired.clone()));
        assert_eq!(compacted().await, 1, "another range is repaired");
        repaired.add(&before, 1010);
        store.set_repaired(table(1).id, Arc::new(repaired.clone()));
        assert_eq!(compacted().await, 1, "the deletions may be younger than the repair");
        repaired.add(&before, 1011);
        store.set_repaired(table(1).id, Arc::new(repaired));
        assert_eq!(compacted().await, 0, "all replicas have them");
    });
}

#[test]
fn s5_what_was_purged_to_nothing_is_not_brought_back_by_a_segment_that_another_table_pins() {
    let mut sim = calm(3);
    run(&mut sim, || async {
        let store = start(small(), &[graceless(), table(2)]).await;
        write_rows(&store, 0..3, 10).await;
        // Another table's write keeps the segment with the rows, but not the one with their deletion.
        store.apply(insert(table(2).id, b"p", 0, 0, 1, b"x"), false).await.expect("apply");
        for number in 0..100 {
            store.apply(insert(table(1).id, b"p", 50 + number, 0, 1, &[7; 500]), false).await.expect("apply");
        }
        store.apply(delete_partition(9), false).await.expect("apply");
        for number in 0..100 {
            store.apply(insert(table(1).id, b"p", 50 + number, 0, 8, &[7; 500]), false).await.expect("apply");
        }
        store.compact(table(1).id, EVERYTHING).await.expect("compact");
        assert_eq!(xs(&store).await, [0i32; 0]);
        runtime::sleep(Duration::from_secs(1)).await;
    });
    assert_eq!(data_files(&sim), 0);
    for _ in 0..2 {
        sim.crash(NODE);
        run(&mut sim, || async {
            let store = start(small(), &[graceless(), table(2)]).await;
            assert_eq!(xs(&store).await, [0i32; 0]);
            assert_eq!(read_all(&store, table(2).id).await.len(), 1);
        });
    }
}

#[test]
fn s5_a_kept_tombstone_still_shadows_after_a_compaction() {
    let mut sim = calm(4);
    run(&mut sim, || async {
        let store = start(small(), &[table(1)]).await;
        write_rows(&store, 0..3, 10).await;
        store.apply(delete_row_at(1, 5, runtime::wall_micros() / 1_000_000), false).await.expect("apply");
        store.compact(table(1).id, EVERYTHING).await.expect("compact");
        store.apply(insert(table(1).id, b"p", 1, 0, 4, b"late"), false).await.expect("apply");
        assert_eq!(xs(&store).await, [0, 2]);
    });
}

#[test]
fn a_longer_backlog_gives_compactions_more_of_the_core() {
    let mut sim = calm(3);
    run(&mut sim, || async {
        let share = || runtime::shares_of(runtime::Class::Background);
        let tables: Vec<Arc<Table>> = (1..=6).map(table).collect();
        let store = start(small(), &tables).await;
        assert_eq!(share(), 100, "nothing to do");
        // Eight SSTables of similar size in each table, which the throughput limit keeps from being compacted for
        // now.
        store.set_compaction_throughput(1);
        for table in &tables {
            for round in 0..8 {
                store.apply(insert(table.id, b"p", round, 0, 1, &[b'x'; 100]), false).await.expect("apply");
                store.flush(table.id).await.expect("flush");
            }
        }
        let statistics = store.compaction_statistics();
        let pending: usize = statistics.pending.values().sum();
        assert!(pending >= tables.len() && statistics.running.len() == 1, "{statistics:?}");
        let running = &statistics.running[0];
        assert!(running.kind == TaskKind::Compaction && running.sstables >= 4, "{running:?}");
        assert!(running.read_bytes <= running.total_bytes && running.stored_bytes > 0, "{running:?}");
        assert_eq!(statistics.completed, 0);
        let backlog = share();
        assert!(backlog >= 500, "{backlog} of {pending} tasks");
        // With fewer tasks, compactions get less of the core.
        store.drop_table(tables[5].id);
        store.drop_table(tables[4].id);
        assert!(share() < backlog);
        store.set_compaction_throughput(0);
        while !store.compaction_statistics().pending.is_empty() || !store.compaction_statistics().running.is_empty() {
            runtime::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(share(), 100);
        assert_eq!(runtime::shares_of(runtime::Class::Foreground), 1000);
    });
}

/// Writes and flushes one SSTable for each key.
async fn of_keys(store: &Store, keys: &[&[u8]]) {
    for key in keys {
        store.apply(insert(table(1).id, key, 0, 0, 1, b"v"), false).await.expect("apply");
        store.flush(table(1).id).await.expect("flush");
    }
}

async fn holders(store: &Store, key: &[u8]) -> Vec<PathBuf> {
    let held = store.sstables_with(table(1).id, &DecoratedKey::new(Partitioner::Murmur3, key)).await.expect("found");
    held.into_iter().map(|(file, _)| file).collect()
}

#[test]
fn only_what_is_chosen_is_merged() {
    let mut sim = calm(5);
    run(&mut sim, || async {
        let store = start(small(), &[uncompacted(&table(1))]).await;
        let mut keys: Vec<[u8; 1]> = (0..6).map(|key| [key]).collect();
        keys.sort_by_key(|key| DecoratedKey::new(Partitioner::Murmur3, key).token);
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        of_keys(&store, &keys).await;
        let token = |at: usize| DecoratedKey::new(Partitioner::Murmur3, keys[at]).token;
        let before: Vec<_> = [0, 1, 2, 3].map(|at| keys[at]).to_vec();

        store.compact(table(1).id, CompactionScope::Tokens(token(1), token(2))).await.expect("compact");
        assert_eq!(holders(&store, keys[1]).await, holders(&store, keys[2]).await);
        assert_ne!(holders(&store, before[0]).await, holders(&store, before[1]).await);
        assert_ne!(holders(&store, before[3]).await, holders(&store, before[2]).await);

        store.compact(table(1).id, CompactionScope::Tokens(token(5), token(0))).await.expect("compact");
        assert_eq!(holders(&store, keys[5]).await, holders(&store, keys[0]).await, "around the ring's end");

        of_keys(&store, &keys[3..4]).await;
        let two = holders(&store, keys[3]).await;
        assert_eq!(two.len(), 2);
        store
            .compact(table(1).id, CompactionScope::Partition(DecoratedKey::new(Partitioner::Murmur3, keys[3])))
            .await
            .expect("compact");
        assert_eq!(holders(&store, keys[3]).await.len(), 1);
        assert_eq!(holders(&store, keys[4]).await.len(), 1);

        let named: Vec<_> = [3, 4].map(|at| keys[at]).to_vec();
        let mut descriptors = Vec::new();
        for key in &named {
            for file in holders(&store, key).await {
                let name = file.file_name().expect("a name").to_string_lossy().into_owned();
                descriptors.push(engine::Descriptor::parse(&name).expect("a descriptor").0);
            }
        }
        store.compact(table(1).id, CompactionScope::Named(descriptors)).await.expect("compact");
        assert_eq!(holders(&store, keys[3]).await, holders(&store, keys[4]).await);
        store.compact(table(1).id, CompactionScope::Named(Vec::new())).await.expect("nothing to do");
        assert_eq!(read_all(&store, table(1).id).await.len(), 6);
        runtime::sleep(Duration::from_secs(1)).await;
    });
    // The keys are merged in pairs: 1 and 2; 5 and 0; 3 and 4.
    assert_eq!(data_files(&sim), 3);
}

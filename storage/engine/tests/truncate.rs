//! Truncated and dropped tables: which data is removed, when their log segments are released, and that nothing
//! returns.

use crate::support::*;
use engine::store::Truncation;
use engine::{Options, Store, SyncMode};
use model::Partitioner;
use model::{Home, ShardMap};
use runtime::sim::{self, Sim};
use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

#[test]
fn s3_dropped_and_truncated_tables_free_their_segments_and_stay_gone() {
    let mut sim = calm(9);
    let kept = || table(1);
    let gone = || table(2);
    let (most, truncation) = run(&mut sim, move || async move {
        let store = start(small(), &[kept(), gone()]).await;
        write_rows(&store, 0..1, 10).await;
        let mut most = 0;
        let mut truncation = Truncation::default();
        for round in 0..12 {
            for number in 0..20 {
                let mutation = insert(gone().id, b"p", number, round, 1, &[7; 500]);
                store.apply(mutation, false).await.expect("apply");
            }
            let position = store.truncate(gone().id).await.expect("truncate");
            truncation = Truncation { counter_floor: store.counter_floor(), positions: vec![position], at_millis: 0 };
            store.release(gone().id).await.expect("release");
            let files = runtime::file::list_dir(&PathBuf::from("/data/commitlog")).await.expect("list").len();
            if round > 1 {
                most = files.max(most);
            }
        }
        assert!(read_all(&store, gone().id).await.is_empty());
        store.apply(insert(gone().id, b"p", 99, 99, 1, b"new"), false).await.expect("apply");
        (most, truncation)
    });
    assert!(most <= 11, "{most} files: segments are not used again");
    sim.crash(NODE);
    for _ in 0..2 {
        let truncation = truncation.clone();
        let (kept_rows, gone_rows) = run(&mut sim, move || {
            let truncation = truncation.clone();
            async move {
                let store = Store::open(small()).await.expect("open");
                store.add_table(kept(), Home::ByToken);
                store.add_table(gone(), Home::ByToken);
                store.replay(&[(gone().id, truncation)]).await.expect("replay");
                store.start(store.highest_counter()).await.expect("start");
                (read_all(&store, kept().id).await.len(), read_all(&store, gone().id).await)
            }
        });
        assert_eq!(kept_rows, 1);
        assert_eq!(gone_rows.iter().map(|row| row.1.clone()).collect::<Vec<_>>(), [[99, 99]]);
    }
    // Once the other table is dropped too, no old segment is left.
    let files = run(&mut sim, move || async move {
        let store = start(small(), &[]).await;
        store.release(kept().id).await.expect("release");
        runtime::file::list_dir(&PathBuf::from("/data/commitlog")).await.expect("list").len()
    });
    assert!(files <= 2, "{files} files");
}

#[test]
fn s3_segments_written_between_a_truncation_and_its_release_stay() {
    let mut sim = calm(15);
    let truncation = run(&mut sim, || async {
        let store = start(small(), &[table(1), table(2)]).await;
        write_rows(&store, 0..20, 500).await;
        let position = store.truncate(table(1).id).await.expect("truncate");
        write_rows(&store, 100..130, 500).await;
        store.release(table(1).id).await.expect("release");
        // Released segments are recycled.
        for number in 0..60 {
            store.apply(insert(table(2).id, b"p", number, 0, 1, &[9; 500]), false).await.expect("apply");
        }
        Truncation { counter_floor: store.counter_floor(), positions: vec![position], at_millis: 0 }
    });
    sim.crash(NODE);
    let rows = run(&mut sim, move || {
        let truncation = truncation.clone();
        async move {
            let store = Store::open(small()).await.expect("open");
            store.add_table(table(1), Home::ByToken);
            store.replay(&[(table(1).id, truncation)]).await.expect("replay");
            read_all(&store, table(1).id).await.into_iter().map(|row| row.1[0]).collect::<Vec<_>>()
        }
    });
    assert_eq!(rows, (100..130).collect::<Vec<_>>());
}

#[test]
fn s3_writes_around_a_truncation_fall_on_the_same_side_live_and_replayed() {
    for seed in 0..30 {
        let mut sim = Sim::new(seed, sim::Options::of_seed(seed));
        sim.set_options(sim::Options { disk_error: 0.0, ..sim::Options::of_seed(seed) });
        let sync = if seed % 3 == 0 { SyncMode::Periodic { period: Duration::from_millis(3) } } else { GROUP };
        let (live, truncation) = run(&mut sim, move || async move {
            let store = start(Options { sync, ..small() }, &[table(1)]).await;
            let mut tasks = Vec::new();
            for writer in 0..8 {
                let store = store.clone();
                tasks.push(runtime::spawn(async move {
                    for number in 0..8 {
                        let mutation = insert(table(1).id, b"p", writer, number, 1, &[3; 200]);
                        store.apply(mutation, false).await.expect("apply");
                        runtime::sleep(Duration::from_micros(runtime::rng::below(3000))).await;
                    }
                }));
            }
            runtime::sleep(Duration::from_micros(runtime::rng::below(9000))).await;
            let position = store.truncate(table(1).id).await.expect("truncate");
            for task in tasks {
                task.await;
            }
            store.sync().await.expect("sync");
            let truncation =
                Truncation { counter_floor: store.counter_floor(), positions: vec![position], at_millis: 0 };
            (read_all(&store, table(1).id).await, truncation)
        });
        sim.crash(NODE);
        let replayed = run(&mut sim, move || {
            let truncation = truncation.clone();
            async move {
                let store = Store::open(small()).await.expect("open");
                store.add_table(table(1), Home::ByToken);
                store.replay(&[(table(1).id, truncation)]).await.expect("replay");
                read_all(&store, table(1).id).await
            }
        });
        assert_eq!(replayed, live, "seed {seed}");
    }
}

/// Two shards: the first writes to table 2, which is dropped later; the second writes only after that.
#[test]
fn s3_segments_without_mutations_stay_with_their_shard_when_another_releases() {
    let mut sim = calm(21);
    let run_both = |sim: &mut Sim, drops: bool| {
        let left = Rc::new(Cell::new(2));
        let counter = left.clone();
        sim.start_node(NODE, 2, move |shard| {
            let left = counter.clone();
            async move {
                let store = Store::open(Options { segment_bytes: 32 << 10, ..options(2, GROUP) }).await.expect("open");
                store.add_table(table(1), Home::ByToken);
                if !drops {
                    store.add_table(table(2), Home::ByToken);
                }
                store.replay(&[]).await.expect("replay");
                // Let every shard list the files before one of them changes any.
                runtime::sleep(Duration::from_secs(1)).await;
                store.start(store.highest_counter()).await.expect("start");
                runtime::sleep(Duration::from_secs(1)).await;
                let written = if drops { table(1).id } else { table(2).id };
                let key = (0..u8::MAX).map(|byte| [byte]).find(|key| {
                    ShardMap::new(Partitioner::Murmur3, 2).owner(Partitioner::Murmur3.token(key)) == shard.0
                });
                let key = key.expect("a key of this shard");
                if shard.0 == 0 && drops {
                    store.release(table(2).id).await.expect("release");
                    let files = runtime::file::list_dir(&PathBuf::from("/data/commitlog")).await.expect("list").len();
                    assert!(files <= 4, "{files} files: nothing was deleted");
                }
                runtime::sleep(Duration::from_secs(1)).await;
                if drops || shard.0 == 0 {
                    for number in 0..200 {
                        store.apply(insert(written, &key, number, 0, 1, &[5; 500]), false).await.expect("apply");
                    }
                }
                left.set(left.get() - 1);
            }
        });
        sim.run_until(Duration::from_secs(3600), || left.get() == 0);
        assert_eq!(left.get(), 0, "a shard failed");
        sim.kill(NODE);
    };
    run_both(&mut sim, false);
    run_both(&mut sim, true);
}

//! Limits and failures: full and failing disks, full memtables, oversized mutations, writers that go away.

use crate::support::*;
use engine::{Error, Options, Store, SyncMode};
use model::Partitioner;
use model::query::Partitions;
use model::{DecoratedKey, Home, Table};
use runtime::sim::{self, DiskCall, Sim};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn s18_a_full_disk_refuses_writes_serves_reads_and_recovers() {
    for sync in [GROUP, SyncMode::Batch, SyncMode::Periodic { period: Duration::from_millis(5) }] {
        let mut sim = Sim::new(8, sim::Options { buggify: false, disk_bytes: 200 << 10, ..sim::Options::default() });
        let phase = Rc::new(Cell::new(0));
        let shared = phase.clone();
        sim.start_node(NODE, 1, move |_| {
            let phase = shared.clone();
            async move {
                let store = start(Options { sync, ..small() }, &[table(1)]).await;
                let mut acked = Vec::new();
                let mut number = 0;
                let mut refused = 0;
                while refused < 3 {
                    number += 1;
                    match store.apply(insert(table(1).id, b"p", number, 0, 1, &[0; 900]), false).await {
                        Ok(()) => acked.push(number),
                        Err(Error::LogFull(_)) => refused += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
                let rows = |store: Store| async move {
                    read_all(&store, table(1).id).await.into_iter().map(|row| row.1[0]).collect::<Vec<_>>()
                };
                assert_eq!(rows(store.clone()).await, acked, "refused writes are definite");
                phase.set(1);
                while phase.get() == 1 {
                    runtime::sleep(Duration::from_millis(1)).await;
                }
                runtime::sleep(Duration::from_millis(300)).await;
                for number in 1000..1010 {
                    store.apply(insert(table(1).id, b"p", number, 0, 1, b""), false).await.expect("room again");
                    acked.push(number);
                }
                assert_eq!(rows(store.clone()).await, acked);
                store.close().await.expect("close");
                phase.set(3);
            }
        });
        sim.run_until(Duration::from_secs(60), || phase.get() == 1);
        assert_eq!(phase.get(), 1, "{sync:?}");
        sim.set_options(sim::Options { buggify: false, ..sim::Options::default() });
        phase.set(2);
        sim.run_until(Duration::from_secs(60), || phase.get() == 3);
        assert_eq!(phase.get(), 3, "{sync:?}");
        sim.crash(NODE);
        let rows = run(&mut sim, || replayed_rows(small())).expect("replay");
        assert_eq!(rows.iter().filter(|row| **row >= 1000).count(), 10, "{sync:?}");
    }
}

#[test]
fn s18_no_space_at_every_kth_call_loses_nothing_acknowledged() {
    for k in 1..100 {
        let mut sim = calm(k);
        let left = Rc::new(Cell::new(k as i64));
        sim.set_disk_fault(NODE, move |call, _| {
            if !matches!(call, DiskCall::Write | DiskCall::Open | DiskCall::Rename | DiskCall::SyncDir) {
                return None;
            }
            left.set(left.get() - 1);
            (left.get() == 0).then(|| io::Error::from(io::ErrorKind::StorageFull))
        });
        let acked = run(&mut sim, move || async move {
            let store = Store::open(small()).await.ok()?;
            store.add_table(table(1), Home::ByToken);
            store.replay(&[]).await.ok()?;
            store.start(0).await.ok()?;
            let mut acked = Vec::new();
            for number in 0..40 {
                match store.apply(insert(table(1).id, b"p", number, 0, 1, &[1; 3000]), false).await {
                    Ok(()) => acked.push(number),
                    Err(Error::LogFull(_)) => runtime::sleep(Duration::from_millis(150)).await,
                    Err(error) => panic!("k {k}: {error}"),
                }
            }
            Some(acked)
        });
        sim.clear_disk_fault(NODE);
        let acked = acked.unwrap_or_else(|| {
            assert!(k < 16, "k {k}: the start failed");
            Vec::new()
        });
        assert!(k < 16 || acked.len() >= 39, "k {k}: {acked:?}");
        assert_eq!(run(&mut sim, || replayed_rows(small())).expect("replay"), acked, "k {k}");
    }
}

#[test]
fn s19_a_failed_durable_write_poisons_the_log() {
    for seed in 0..20 {
        let mut sim = calm(seed);
        let armed = Rc::new(Cell::new(false));
        let shared = armed.clone();
        let wanted = Rc::new(Cell::new(false));
        let arm = wanted.clone();
        let result = Rc::new(RefCell::new(None));
        let slot = result.clone();
        sim.start_node(NODE, 1, move |_| {
            let (armed, arm, slot) = (shared.clone(), arm.clone(), slot.clone());
            async move {
                // Large enough that no segment is prepared during the test.
                let store = start(Options { segment_bytes: 256 << 10, ..small() }, &[table(1)]).await;
                write_rows(&store, 0..5, 100).await;
                arm.set(true);
                while !armed.get() {
                    runtime::sleep(Duration::from_millis(1)).await;
                }
                let writes: Vec<_> = (5..9)
                    .map(|number| {
                        let store = store.clone();
                        runtime::spawn(
                            async move { store.apply(insert(table(1).id, b"p", number, 0, 1, b""), false).await },
                        )
                    })
                    .collect();
                for write in writes {
                    assert!(matches!(write.await, Err(Error::LogFailed(_))), "no write after the failure succeeds");
                }
                let later = store.apply(insert(table(1).id, b"p", 9, 0, 1, b""), false).await;
                assert!(matches!(later, Err(Error::LogFailed(_))));
                assert!(store.sync().await.is_err());
                assert!(store.truncate(table(1).id).await.is_err());
                assert_eq!(read_all(&store, table(1).id).await.len(), 5, "reads go on; the unknown is not shown");
                assert!(store.close().await.is_err());
                *slot.borrow_mut() = Some(());
            }
        });
        sim.run_until(Duration::from_secs(60), || wanted.get());
        if seed % 2 == 0 {
            sim.fail_next_sync(NODE);
        } else {
            let once = Cell::new(true);
            sim.set_disk_fault(NODE, move |call, _| {
                (call == DiskCall::WriteDurable && once.take()).then(|| io::Error::from_raw_os_error(5))
            });
        }
        armed.set(true);
        sim.run_until(Duration::from_secs(60), || result.borrow().is_some());
        assert!(result.borrow().is_some(), "seed {seed}");
        sim.clear_disk_fault(NODE);
        sim.crash(NODE);
        let rows = run(&mut sim, || replayed_rows(small())).expect("replay");
        assert!(rows.starts_with(&[0, 1, 2, 3, 4]), "{rows:?}");
    }
}

#[test]
fn a_mutation_of_half_a_segment_is_taken_and_one_byte_more_refused() {
    let mut sim = calm(11);
    run(&mut sim, || async {
        let store = start(small(), &[table(1)]).await;
        let overhead = insert(table(1).id, b"p", 0, 0, 1, b"").bytes().len();
        let most = (32 << 10) / 2 - overhead;
        for number in 0..5 {
            let mutation = insert(table(1).id, b"p", number, 0, 1, &vec![0; most]);
            store.apply(mutation, false).await.expect("at the limit");
        }
        let mutation = insert(table(1).id, b"p", 9, 0, 1, &vec![0; most + 1]);
        assert!(matches!(store.apply(mutation, false).await, Err(Error::MutationTooLarge { bytes: 16385 })));
    });
    assert_eq!(run(&mut sim, || replayed_rows(small())).expect("replay"), [0, 1, 2, 3, 4]);
}

#[test]
fn s18_replay_may_exceed_a_smaller_budget_and_a_flush_makes_room() {
    let mut sim = calm(12);
    run(&mut sim, || async {
        let store = start(small(), &[table(1)]).await;
        write_rows(&store, 0..100, 10_000).await;
    });
    run(&mut sim, || async {
        let store = start(Options { memtable_bytes_max: 100_000, ..small() }, &[table(1)]).await;
        assert_eq!(read_all(&store, table(1).id).await.len(), 100);
        store.apply(insert(table(1).id, b"p", 0, 0, 1, b""), false).await.expect("waits for the flush");
        assert_eq!(read_all(&store, table(1).id).await.len(), 100);
        let beyond = insert(table(1).id, b"p", 0, 0, 1, &[0; 16_000]);
        let store = start(Options { memtable_bytes_max: 10_000, ..small() }, &[table(1)]).await;
        assert!(matches!(store.apply(beyond, false).await, Err(Error::MemtableFull)), "it never fits");
    });
}

#[test]
fn a_write_whose_future_is_dropped_is_applied_when_it_is_durable() {
    let mut sim = Sim::new(
        13,
        sim::Options {
            buggify: false,
            disk_latency: (Duration::from_millis(5), Duration::from_millis(6)),
            ..sim::Options::default()
        },
    );
    run(&mut sim, || async {
        let store = start(small(), &[table(1)]).await;
        let write = store.apply(insert(table(1).id, b"p", 1, 0, 1, b"x"), false);
        assert!(runtime::timeout(Duration::from_millis(2), write).await.is_none());
        assert!(read_all(&store, table(1).id).await.is_empty());
        runtime::sleep(Duration::from_millis(20)).await;
        assert_eq!(read_all(&store, table(1).id).await.len(), 1);
        store.close().await.expect("nothing is left under way");
    });
}

#[test]
fn o1_a_periodic_log_makes_writers_wait_beyond_a_segment_of_unsynced_bytes() {
    let latency = Duration::from_millis(400);
    let mut sim =
        Sim::new(14, sim::Options { buggify: false, disk_latency: (latency, latency), ..sim::Options::default() });
    run(&mut sim, || async {
        let store =
            start(Options { sync: SyncMode::Periodic { period: Duration::from_secs(9) }, ..small() }, &[table(1)])
                .await;
        let acked = Rc::new(Cell::new(0));
        let tables: Arc<Table> = table(1);
        let mutation = insert(tables.id, b"p", 0, 0, 1, &[0; 1000]);
        let most = (32 << 10) / (mutation.bytes().len() + 5);
        for number in 0..100 {
            let (store, acked) = (store.clone(), acked.clone());
            runtime::spawn(async move {
                store.apply(insert(table(1).id, b"p", number, 0, 1, &[0; 1000]), false).await.expect("apply");
                acked.set(acked.get() + 1);
            });
        }
        runtime::sleep(Duration::from_millis(300)).await;
        assert_eq!(acked.get(), most, "as many as fit, and not one more");
        runtime::sleep(Duration::from_secs(60)).await;
        assert_eq!(acked.get(), 100);
        let command = command(table(1).id, Partitions::Key(DecoratedKey::new(Partitioner::Murmur3, b"p")));
        let mut rows = Rows::default();
        store.read(&command, &mut rows).await.expect("read");
        assert_eq!(rows.rows.len(), 100);
    });
}

//! Data that incremental repairs set apart: every row stays readable, sets are never merged, and a crash at any moment
//! leaves all rows and sets that can be settled.

use crate::support::*;
use engine::compaction::CompactionScope;
use engine::{Error, Options, RepairSet, Store};
use model::fragment::{Fragment, FragmentSink};
use model::query::{EveryRow, Partitions, ReadCommand};
use model::row::Deletion;
use model::token::{RingPosition, RingToken, TokenRange};
use model::{Partitioner, Table};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const KEYS: i32 = 40;
const SESSION: [u8; 16] = [7; 16];

fn lower_half() -> Arc<[TokenRange]> {
    let end = RingPosition { token: RingToken::Murmur3(0), is_after: true };
    Arc::from([TokenRange { start: None, end: Some(end) }])
}

/// The keys of the fragments of a set.
#[derive(Default)]
struct Keys(Vec<Vec<u8>>);

impl FragmentSink for Keys {
    fn fragment(&mut self, fragment: Fragment<'_>, _: Deletion) {
        if let Fragment::PartitionStart { key, .. } = fragment {
            self.0.push(key.to_vec());
        }
    }

    fn cut(&mut self, _: &[u8]) {}

    fn is_full(&self) -> bool {
        false
    }
}

async fn keys_of(store: &Store, set: RepairSet) -> Vec<Vec<u8>> {
    let mut keys = Keys::default();
    let command = ReadCommand::all(table(1).id, 1000, Partitions::Range(TokenRange::FULL));
    store.read_fragments_of(set, &command, &mut EveryRow, &mut keys).await.expect("read");
    keys.0.sort_unstable();
    keys.0.dedup();
    keys.0
}

fn is_lower(key: &[u8]) -> bool {
    Partitioner::Murmur3.token(key).0 <= 0
}

async fn fill(store: &Store, x: i32) {
    for key in 0..KEYS {
        let key = format!("k{key}");
        store.apply(insert(table(1).id, key.as_bytes(), x, 0, 10, b"v"), false).await.expect("applied");
    }
    store.flush(table(1).id).await.expect("flushed");
}

async fn filled(options: Options, table: Arc<Table>) -> Store {
    let store = start(options, &[table]).await;
    fill(&store, 0).await;
    fill(&store, 1).await;
    store
}

/// How many SSTables are in each set: repaired bytes, pending sessions.
fn sets(store: &Store) -> (u64, u64, u64) {
    let statistics = store.statistics(table(1).id, 0).expect("known");
    (statistics.sstables, statistics.repaired_bytes, statistics.pending_repair_sstables)
}

#[test]
fn what_is_set_apart_is_compared_alone_and_becomes_repaired() {
    run(&mut calm(1), || async {
        let store = filled(small(), uncompacted(&table(1))).await;
        let before = read_all(&store, table(1).id).await;
        store.set_apart(table(1).id, lower_half(), SESSION).await.expect("set apart");
        assert_eq!(sets(&store), (4, 0, 2), "each SSTable became two");
        assert_eq!(read_all(&store, table(1).id).await, before);
        let pending = keys_of(&store, RepairSet::Pending(SESSION)).await;
        assert!(!pending.is_empty() && pending.iter().all(|key| is_lower(key)));
        let rest = keys_of(&store, RepairSet::Unrepaired).await;
        assert!(!rest.is_empty() && rest.iter().all(|key| !is_lower(key)));
        assert_eq!(pending.len() + rest.len(), KEYS as usize);
        // Another session may not have the same data, the same one may ask again.
        let other = store.set_apart(table(1).id, lower_half(), [8; 16]).await;
        assert!(matches!(other, Err(Error::SetApart { session: SESSION })), "{other:?}");
        store.set_apart(table(1).id, lower_half(), SESSION).await.expect("again");
        // What comes later is not part of it.
        store.apply(insert(table(1).id, b"late", 0, 0, 10, b"v"), false).await.expect("applied");
        store.keep_pending(SESSION).await.expect("kept");
        store.settle_repair(SESSION, 1234).await.expect("settled");
        assert_eq!(store.pending_repairs().len(), 0);
        assert_eq!(keys_of(&store, RepairSet::Repaired).await, pending);
        // A session that covers SSTables as a whole gives them its mark without rewriting them.
        store.set_apart(table(1).id, Arc::from([TokenRange::FULL]), [9; 16]).await.expect("set apart");
        assert_eq!(keys_of(&store, RepairSet::Pending([9; 16])).await.len(), rest.len() + 1);
        assert!(keys_of(&store, RepairSet::Unrepaired).await.is_empty());
        store.settle_repair([9; 16], 0).await.expect("settled");
        assert_eq!(keys_of(&store, RepairSet::Unrepaired).await.len(), rest.len() + 1);
        assert_eq!(read_all(&store, table(1).id).await.len(), before.len() + 1);
    });
}

#[test]
fn sets_are_never_merged() {
    let mut sim = calm(2);
    run(&mut sim, || async {
        let store = filled(small(), table(1)).await;
        let before = read_all(&store, table(1).id).await;
        store.set_apart(table(1).id, lower_half(), SESSION).await.expect("set apart");
        store.compact(table(1).id, CompactionScope::All { split: false }).await.expect("compacted");
        assert_eq!(sets(&store), (3, 0, 2), "what is set apart stays as it is");
        store.settle_repair(SESSION, 1234).await.expect("settled");
        for round in 2..8 {
            fill(&store, round).await;
        }
        store.compact(table(1).id, CompactionScope::All { split: false }).await.expect("compacted");
        let (sstables, repaired, _) = sets(&store);
        assert_eq!(sstables, 2, "one of each set");
        assert!(repaired > 0);
        let repaired = keys_of(&store, RepairSet::Repaired).await;
        assert!(!repaired.is_empty() && repaired.iter().all(|key| is_lower(key)));
        assert_eq!(read_all(&store, table(1).id).await.len(), before.len() * 4);
    });
    sim.crash(NODE);
    run(&mut sim, || async {
        let store = start(small(), &[table(1)]).await;
        assert_eq!(keys_of(&store, RepairSet::Unrepaired).await.len(), KEYS as usize);
        assert!(keys_of(&store, RepairSet::Repaired).await.iter().all(|key| is_lower(key)));
    });
}

#[test]
fn rows_that_a_session_brings_are_its_own() {
    let mut sim = calm(3);
    run(&mut sim, || async {
        let store = filled(small(), uncompacted(&table(1))).await;
        store.set_apart(table(1).id, lower_half(), SESSION).await.expect("set apart");
        let before = read_all(&store, table(1).id).await.len();
        store.add_pending(SESSION, &insert(table(1).id, b"brought", 5, 0, 10, b"v")).await.expect("added");
        assert_eq!(read_all(&store, table(1).id).await.len(), before, "it is not readable yet");
        store.keep_pending(SESSION).await.expect("kept");
        assert_eq!(read_all(&store, table(1).id).await.len(), before + 1);
        assert!(keys_of(&store, RepairSet::Pending(SESSION)).await.contains(&b"brought".to_vec()));
        store.add_pending(SESSION, &insert(table(1).id, b"lost", 5, 0, 10, b"v")).await.expect("added");
        store.settle_repair(SESSION, 0).await.expect("settled");
        store.keep_pending(SESSION).await.expect("nothing is left");
        assert_eq!(read_all(&store, table(1).id).await.len(), before + 1);
        // What was brought before a truncation does not come back.
        store.add_pending([8; 16], &insert(table(1).id, b"brought", 6, 0, 10, b"v")).await.expect("added");
        store.keep_pending([8; 16]).await.expect("kept");
        store.truncate(table(1).id).await.expect("truncated");
        store.release(table(1).id).await.expect("released");
        assert!(read_all(&store, table(1).id).await.is_empty());
    });
}

#[test]
fn many_rows_of_a_session_are_written_before_they_fill_the_memory() {
    run(&mut calm(4), || async {
        let store = start(small(), &[uncompacted(&table(1))]).await;
        let value = vec![b'v'; 8 << 10];
        // 8 MiB of rows, and as much as the next row needs.
        for x in 0..1100 {
            store.add_pending(SESSION, &insert(table(1).id, b"p", x, 0, 10, &value)).await.expect("added");
        }
        assert_eq!(sets(&store).2, 1);
        store.keep_pending(SESSION).await.expect("kept");
        assert_eq!((sets(&store).2, read_all(&store, table(1).id).await.len()), (2, 1100));
    });
}

/// A crash at any moment of a session: all rows are there after it, and the session can be settled either way.
#[test]
fn s4_a_crash_at_any_step_leaves_all_rows_and_sets_that_can_be_settled() {
    let mut states: BTreeMap<bool, u32> = BTreeMap::new();
    for crash in 0..60u64 {
        let mut sim = calm(crash);
        let expected = run(&mut sim, || async {
            let store = filled(small(), uncompacted(&table(1))).await;
            let rows = read_all(&store, table(1).id).await;
            store.close().await.expect("closed");
            rows
        });
        let phase = Rc::new(Cell::new(0));
        let told = phase.clone();
        sim.start_node(NODE, 1, move |_| {
            let phase = told.clone();
            async move {
                let store = start(small(), &[uncompacted(&table(1))]).await;
                phase.set(1);
                store.set_apart(table(1).id, lower_half(), SESSION).await.expect("set apart");
                phase.set(2);
                store.set_apart(table(1).id, Arc::from([TokenRange::FULL]), SESSION).await.expect("set apart");
                phase.set(3);
                store.settle_repair(SESSION, 1234).await.expect("settled");
                phase.set(4);
                std::future::pending::<()>().await;
            }
        });
        // Each crash is a little later in its step than the one before.
        let (step, later) = (1 + crash % 3, crash / 3);
        sim.run_until(Duration::from_secs(60), || phase.get() >= step);
        sim.run_until(Duration::from_micros(300 * later), || phase.get() > step);
        sim.crash(NODE);
        let repaired_at = if crash % 2 == 0 { 1234 } else { 0 };
        let was_pending = run(&mut sim, move || async move {
            let store = start(small(), &[uncompacted(&table(1))]).await;
            assert_eq!(read_all(&store, table(1).id).await, expected, "crash {crash}");
            let was_pending = !store.pending_repairs().is_empty();
            store.settle_repair(SESSION, repaired_at).await.expect("settled");
            assert!(store.pending_repairs().is_empty());
            assert_eq!(read_all(&store, table(1).id).await, expected, "crash {crash}");
            was_pending
        });
        *states.entry(was_pending).or_default() += 1;
    }
    assert!(states.len() == 2, "crashes hit the session and missed it: {states:?}");
}

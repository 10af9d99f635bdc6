//! The log store on a node in the simulator.

use super::{RECORDS_BYTES_MAX, SNAPSHOT_PART_BYTES, TableLog, first_part};
use crate::config::Config;
use crate::ports::{NoPeers, Notifier, SchemaChange};
use crate::shard_state::Shard;
use consensus::{LogStore, Record};
use runtime::mesh::{Mesh, NodeId};
use runtime::sim::{Options, Sim};
use std::rc::Rc;
use std::time::Duration;

struct Nobody;

impl Notifier for Nobody {
    fn schema_changed(&self, _: &SchemaChange) {}
}

/// Runs `test` with the store of a node whose own group has stopped.
fn with_store<F: Future<Output = ()> + 'static>(test: impl FnOnce(TableLog) -> F + 'static) {
    let mut sim = Sim::new(1, Options::default());
    let mesh = Mesh::simulated(1, crate::MAILBOX_MESSAGES_MAX);
    sim.run_node(NodeId(1), Duration::from_secs(60), || async move {
        let config = Config {
            directories: "/data".into(),
            segment_bytes: 8 << 20,
            log_bytes: 1 << 30,
            memory_bytes: 64 << 20,
            ..Config::default()
        };
        let shard = Shard::start(config, mesh, Rc::new(Nobody), Rc::new(NoPeers)).await.expect("it starts");
        shard.metadata().group().expect("shard 0 has the group").stop().await;
        test(TableLog::new(shard.clone())).await;
        shard.stop().await.expect("it stops");
    });
}

#[test]
fn a_snapshot_may_be_longer_than_a_mutation() {
    with_store(|store| async move {
        for bytes in [20 << 20, 0, 3 * SNAPSHOT_PART_BYTES, SNAPSHOT_PART_BYTES + 1, 5] {
            let snapshot: Vec<u8> = (0..bytes).map(|n| (n / 1000) as u8).collect();
            store.save_snapshot(snapshot.clone()).await.expect("stored");
            assert!(store.load().await.expect("read").snapshot == Some(snapshot), "{bytes} bytes");
        }
    });
}

#[test]
fn records_are_added_and_removed_at_both_ends() {
    with_store(|store| async move {
        let before = store.load().await.expect("read").records;
        let next = before.last().map_or(0, |last| last.index + 1);
        let record = |index: u64| Record { index, bytes: index.to_be_bytes().to_vec() };
        store.append((next..next + 10).map(record).collect()).await.expect("stored");
        store.truncate(next + 7).await.expect("stored");
        store.append(vec![Record { index: next + 7, bytes: b"instead".to_vec() }]).await.expect("stored");
        store.purge(next + 5, b"mark".to_vec()).await.expect("stored");
        store.save_vote(b"vote".to_vec()).await.expect("stored");
        store.save_committed(b"decided".to_vec()).await.expect("stored");
        let stored = store.load().await.expect("read");
        let seven = Record { index: next + 7, bytes: b"instead".to_vec() };
        assert_eq!(stored.records, [record(next + 6), seven]);
        let marks = [stored.purged, stored.vote, stored.committed].map(Option::unwrap);
        assert_eq!(marks, [b"mark".to_vec(), b"vote".to_vec(), b"decided".to_vec()]);
    });
}

#[test]
fn records_may_be_longer_together_than_a_mutation() {
    with_store(|store| async move {
        let next = store.load().await.expect("read").records.last().map_or(0, |last| last.index + 1);
        let record = |index: u64| Record { index, bytes: vec![index as u8; 1 << 20] };
        let records: Vec<Record> = (next..next + 12).map(record).collect();
        store.append(records.clone()).await.expect("stored");
        let stored = store.load().await.expect("read").records;
        assert!(stored.ends_with(&records));
    });
}

#[test]
fn a_part_of_the_records_has_at_least_one() {
    let records = |bytes: &[usize]| -> Vec<Record> {
        bytes.iter().map(|bytes| Record { index: 0, bytes: vec![0; *bytes] }).collect()
    };
    let half = RECORDS_BYTES_MAX / 2;
    assert_eq!(first_part(&records(&[half, half, 1])), 2);
    assert_eq!(first_part(&records(&[half, half + 1])), 1);
    assert_eq!(first_part(&records(&[RECORDS_BYTES_MAX + 1, 1])), 1);
}

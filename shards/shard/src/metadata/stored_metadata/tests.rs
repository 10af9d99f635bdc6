//! The stored metadata on a node in the simulator, and how much an entry of the log writes.

use super::*;
use crate::config::Config;
use crate::metadata::rows::slot_written;
use crate::ports::{NoPeers, Notifier, SchemaChange};
use crate::schema::system_schema;
use crate::shard_state::Shard;
use cluster::metadata::MemberState;
use model::Partitioner;
use runtime::mesh::{Mesh, NodeId};
use runtime::sim::{Options, Sim};
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

struct Nobody;

impl Notifier for Nobody {
    fn schema_changed(&self, _: &SchemaChange) {}
}

/// Runs a node of `sim` until `test` has ended, and stops it.
fn run_node<F: Future<Output = ()> + 'static>(sim: &mut Sim, test: impl FnOnce(Shard) -> F + 'static) {
    let mesh = Mesh::simulated(1, crate::MAILBOX_MESSAGES_MAX);
    sim.run_node(NodeId(1), Duration::from_secs(60), || async move {
        let config = Config { directories: "/data".into(), memory_bytes: 64 << 20, ..Config::default() };
        let shard = Shard::start(config, mesh, Rc::new(Nobody), Rc::new(NoPeers)).await.expect("it starts");
        test(shard.clone()).await;
        shard.stop().await.expect("it stops");
    });
}

#[test]
fn metadata_of_one_value_are_replaced_by_rows_at_the_next_start() {
    let mut sim = Sim::new(1, Options::default());
    let kept = Rc::new(Cell::new(None));
    let out = kept.clone();
    run_node(&mut sim, move |shard| {
        let out = out.clone();
        async move {
            let metadata = shard.metadata().current();
            let (schema, timestamp) = (shard.schema(), shard.clock().timestamp());
            let found = read(shard.store(), &schema).await.expect("read").expect("there");
            assert!(found.in_rows && found.metadata == *metadata);
            // As earlier versions have it: one value, no rows.
            let no_members = Metadata { members: BTreeMap::new(), ..Metadata::clone(&metadata) };
            let no_rows = written(&schema, &metadata, &no_members, timestamp - 1);
            shard.store().apply(no_rows, true).await.expect("written");
            let value = slot_written(&schema, Slot::Metadata, metadata.encode(), timestamp);
            shard.store().apply(value, true).await.expect("written");
            let found = read(shard.store(), &schema).await.expect("read").expect("there");
            assert!(!found.in_rows && found.metadata == *metadata);
            out.set(Some(Metadata::clone(&metadata)));
        }
    });
    let before = kept.take().expect("the node told");
    assert_eq!(before.members.len(), 1);
    run_node(&mut sim, move |shard| {
        let before = before.clone();
        async move {
            assert_eq!(shard.metadata().current().members, before.members);
            let found = read(shard.store(), &shard.schema()).await.expect("read").expect("there");
            assert!(found.in_rows);
            assert_eq!(found.metadata, *shard.metadata().current());
        }
    });
}

fn member(n: u16) -> Arc<Member> {
    let [high, low] = n.to_be_bytes();
    Arc::new(Member {
        state: MemberState::Joining,
        address: SocketAddr::from(([127, 0, high, low], 7000)),
        native_address: SocketAddr::from(([127, 0, high, low], 9042)),
        data_center: "datacenter1".into(),
        rack: "rack1".into(),
        tokens: (0..16).map(|token| (i64::from(n) * 16 + token).to_string()).collect(),
        shards: 1,
        ignore_msb: 12,
        release_version: "5.0.9".into(),
        messages: (1, 1),
        features: 0,
    })
}

#[test]
fn an_entry_writes_the_members_that_it_changes() {
    let schema = system_schema(Partitioner::Murmur3);
    let members = |count: u16| (0..count).map(|n| (Uuid::from_u128(u128::from(n)), member(n))).collect();
    let written_of = |before: &Metadata, after: &Metadata| written(&schema, before, after, 5).bytes().len();
    let lengths = [3, 300].map(|count| {
        let before = Metadata { members: members(count), ..Metadata::default() };
        let mut after = before.clone();
        after.members.insert(Uuid::from_u128(1), member(4_000));
        let one = written_of(&before, &after);
        after.members.remove(&Uuid::from_u128(2));
        (written_of(&before, &before), one, written_of(&before, &after))
    });
    assert_eq!(lengths[0], lengths[1], "it does not matter how many there are");
    let (none, one, two) = lengths[0];
    assert!(none < 150 && one < none + 400 && two < one + 100, "{none} {one} {two}");
}

//! Conditional changes that wait for others of their partition.

use super::world::{World, plain};
use model::ErrorCode;
use model::failure::Detail;
use shard::SyncMode;
use std::time::Duration;

#[test]
fn who_waits_too_long_for_others_of_a_partition_is_told() {
    let mut world = World::with_config(1, |config| {
        // Every step of a round takes most of a second.
        config.sync = SyncMode::Group { window: Duration::from_secs(1) };
        config.cas_contention_timeout = Duration::from_millis(600);
        config.write_timeout = Duration::from_secs(20);
    });
    world.run_query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    world.run_query("CREATE TABLE k.t (k int PRIMARY KEY, v int)");
    let failure = world.on(0, |shard, session| async move {
        const CHANGE: &str = "INSERT INTO k.t (k, v) VALUES (1, 1) IF NOT EXISTS";
        let (other, shared) = (shard.clone(), session.clone());
        let first = runtime::spawn(async move { other.query(&shared, CHANGE, &plain()).await });
        // The simulator's clock moves on when nobody has anything to do: the first one has the lock then.
        runtime::sleep(Duration::from_millis(1)).await;
        let begun = runtime::now();
        let failure = shard.query(&session, CHANGE, &plain()).await.expect_err("it waits too long");
        assert!(runtime::now().since(begun) < Duration::from_millis(700), "it waits no longer than it may");
        first.await.expect("the first one is made");
        shard.query(&session, CHANGE, &plain()).await.expect("nobody is in the way");
        failure
    });
    assert_eq!(failure.code, ErrorCode::WriteTimeout);
    assert!(matches!(failure.detail, Detail::CasWriteTimeout { received: 0, block_for: 1, contentions: 0, .. }));
    assert_eq!(failure.text, "CAS operation timed out: received 0 of 1 required responses after 0 contention retries");
}

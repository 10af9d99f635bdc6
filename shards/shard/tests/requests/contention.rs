//! Conditional changes that compete with others for their partition.

use super::world::{NODE, Request, World, number, plain, rows_of};
use model::ErrorCode;
use model::failure::Detail;
use runtime::sim::DiskCall;
use shard::{Config, SyncMode};
use std::io::ErrorKind;
use std::time::Duration;

#[test]
fn who_waits_too_long_for_others_of_a_partition_is_told() {
    let mut world = World::with_config(1, |config| {
        // Every step of a round that waits for the log takes most of a second.
        config.sync = SyncMode::Group { window: Duration::from_secs(1) };
        config.cas_contention_timeout = Duration::from_millis(600);
        config.write_timeout = Duration::from_secs(20);
        config.client_timeout = Duration::from_secs(20);
    });
    world.run_query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    world.run_query("CREATE TABLE k.t (k int PRIMARY KEY, v int)");
    let failure = world.on(0, |shard, session| async move {
        const CHANGE: &str = "INSERT INTO k.t (k, v) VALUES (1, 1) IF NOT EXISTS";
        let (other, shared) = (shard.clone(), session.clone());
        let first = runtime::spawn(async move { other.query(&shared, CHANGE, &plain()).await });
        // The simulator's clock advances when no task can run: by then the first change has the lock.
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

#[test]
fn what_a_request_has_waited_before_it_began_is_taken_off_its_time() {
    fn configure(config: &mut Config) {
        // Every step of a round that waits for the log takes most of a second.
        config.sync = SyncMode::Group { window: Duration::from_secs(1) };
        config.cas_contention_timeout = Duration::from_secs(20);
        config.write_timeout = Duration::from_secs(60);
        config.client_timeout = Duration::from_secs(20);
    }
    fn configure_queue(config: &mut Config) {
        configure(config);
        config.client_timeout = Duration::from_secs(60);
        config.waiting_counts = true;
    }
    // Its client waits for 20 s in all, or its kind may take that with what it has waited.
    for configure in [configure as fn(&mut Config), configure_queue] {
        let mut world = World::with_config(1, configure);
        world.run_query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
        world.run_query("CREATE TABLE k.t (k int PRIMARY KEY, v int)");
        world.on(0, |shard, session| async move {
            const CHANGE: &str = "INSERT INTO k.t (k, v) VALUES (1, 1) IF NOT EXISTS";
            let (other, shared) = (shard.clone(), session.clone());
            let first = runtime::spawn(async move { other.query(&shared, CHANGE, &plain()).await });
            // The simulator's clock advances when no task can run: by then the first change has the lock.
            runtime::sleep(Duration::from_millis(1)).await;
            let begun = runtime::now();
            let waited = Duration::from_millis(19_400);
            let late = shard.after_waiting(waited, shard.query(&session, CHANGE, &plain())).await;
            assert_eq!(late.expect_err("it has 600 ms").code, ErrorCode::WriteTimeout);
            let lasted = runtime::now().since(begun);
            assert!(lasted >= Duration::from_millis(600) && lasted < Duration::from_millis(700), "{lasted:?}");
            first.await.expect("the first one is made");
            shard.query(&session, CHANGE, &plain()).await.expect("others have all of their time");
        });
    }
}

#[test]
fn what_the_log_may_not_have_is_settled_before_it_is_read() {
    let mut world = World::with_config(1, |config| {
        config.sync = SyncMode::Periodic { period: Duration::from_secs(10) };
        config.segment_bytes = 256 << 10;
    });
    world.run_query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    world.run_query("CREATE TABLE k.t (k int PRIMARY KEY, v int, filling text)");
    // The disk has no room for another segment.
    world.sim.set_disk_fault(NODE, |call, _| {
        matches!(call, DiskCall::Open | DiskCall::Write).then(|| ErrorKind::StorageFull.into())
    });
    let filling = "x".repeat(20_000);
    let key = (1..100).find(|key| {
        let change = format!("INSERT INTO k.t (k, v, filling) VALUES ({key}, 1, '{filling}') IF NOT EXISTS");
        match world.try_query(0, &change, Request::default()) {
            Ok(_) => false,
            Err(failure) => {
                assert_eq!(failure.code, ErrorCode::CasWriteUnknown, "{failure}");
                true
            }
        }
    });
    let key = key.expect("one change that does not fit");
    let second = format!("INSERT INTO k.t (k, v) VALUES ({key}, 2) IF NOT EXISTS");
    assert!(world.try_query(0, &second, Request::default()).is_err(), "the first may still come to nothing");
    world.sim.clear_disk_fault(NODE);
    // Retries every 10 ms of simulated time, for a second at most, until the log has found room.
    let answer = (0..100).find_map(|_| {
        world.on(0, |_, _| runtime::sleep(Duration::from_millis(10)));
        world.try_query(0, &second, Request::default()).ok()
    });
    let rows = rows_of(answer.expect("the log finds the room again within a second"));
    assert_eq!(number(&rows[0][0]), 0, "the first was in time");
    // An answer that was given stays true, although the log's periodic sync has not happened yet.
    world.crash();
    world.run(1);
    assert_eq!(world.ints(&format!("SELECT v FROM k.t WHERE k = {key}")), [[1]]);
}

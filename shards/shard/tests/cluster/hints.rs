//! What replicas have missed reaches them later without any read; and what is not kept, or not sent.

use super::replicas::stored;
use super::world::{Request, World, address};
use model::{Consistency, ErrorCode};
use shard::{Config, HintChange, Verb};
use std::path::Path;
use std::time::Duration;

const SCHEMA: [&str; 4] = [
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
    "CREATE TABLE k.t (a int PRIMARY KEY, b int) WITH id = 00000001-0000-1000-8000-000000000000",
    "CREATE TABLE k.brief (a int PRIMARY KEY, b int) WITH id = 00000002-0000-1000-8000-000000000000 AND \
     gc_grace_seconds = 2",
    "CREATE TABLE k.other (a int PRIMARY KEY, b int) WITH id = 00000003-0000-1000-8000-000000000000",
];

/// How often hints are written, and nodes looked at.
const PERIOD: Duration = Duration::from_millis(100);
/// Longer than hints wait to be written and delivered.
const DELIVERY: Duration = Duration::from_millis(400);

fn often(config: &mut Config) {
    config.hints.enabled = true;
    config.hints.flush_period = PERIOD;
}

fn three_nodes(tweak: fn(&mut Config)) -> World {
    let mut world = World::start(&[2, 1, 2], tweak);
    SCHEMA.iter().for_each(|text| world.everywhere(text));
    world
}

fn insert(table: &str, key: i32, level: Consistency) -> Request {
    Request { consistency: level, ..Request::new(&format!("INSERT INTO k.{table} (a, b) VALUES ({key}, 1)")) }
}

fn write(world: &mut World, node: usize, keys: std::ops::Range<i32>) {
    for key in keys {
        let core = key as usize % world.cores(node);
        world.query(node, core, &insert("t", key, Consistency::One)).expect("inserted");
    }
}

/// How many of these keys a node has.
fn rows(world: &mut World, node: usize, table: &str, keys: std::ops::Range<i32>) -> usize {
    keys.filter(|key| stored(world, node, table, *key).0 == 1).count()
}

/// Lets the last node be down, and known to be.
fn down(world: &mut World) {
    world.network.set_silent(address(2), true);
    world.announce(&[0, 1]);
}

/// Lets it be back, and known to be.
fn up(world: &mut World) {
    world.network.set_silent(address(2), false);
    world.announce(&[0, 1, 2]);
}

fn change(world: &mut World, change: &HintChange) {
    for node in 0..3 {
        let change = change.clone();
        world.on(node, 0, move |shard| async move { shard.change_hints(change).await }).expect("changed");
    }
}

/// The closed files of a node.
fn pending(world: &mut World, node: usize) -> u64 {
    let found = world.on(node, 0, |shard| async move { shard.pending_hints().await }).expect("hints");
    found.values().map(|of_node| of_node.files).sum()
}

/// The files of a node, open ones too.
fn files(world: &mut World, node: usize) -> usize {
    let listed = world.on(node, 0, |_| async { runtime::file::list_dir(Path::new("/data/hints")).await });
    listed.map_or(0, |files| files.len())
}

#[test]
fn a_node_gets_what_it_missed_while_it_was_down() {
    let mut world = three_nodes(often);
    down(&mut world);
    write(&mut world, 0, 0..20);
    write(&mut world, 1, 20..40);
    world.query(0, 0, &Request::new("DELETE FROM k.t WHERE a = 3")).expect("deleted");
    world.wait(DELIVERY);
    assert_eq!((files(&mut world, 0), files(&mut world, 1)), (2, 1), "a file of each core");
    assert_eq!(world.network.sent(Verb::Hint), 0);
    assert_eq!(pending(&mut world, 0), 0, "files that are written are not pending");
    up(&mut world);
    world.wait(DELIVERY);
    assert_eq!(rows(&mut world, 2, "t", 0..40), 39);
    assert_eq!(world.network.sent(Verb::Hint), 41, "each was sent once");
    assert_eq!((files(&mut world, 0), files(&mut world, 1)), (0, 0));
}

#[test]
fn a_node_gets_what_it_was_late_for() {
    let mut world = three_nodes(often);
    world.network.set_silent(address(2), true);
    write(&mut world, 0, 0..10);
    // Longer than a write waits for its replicas.
    world.wait(Duration::from_millis(2100));
    world.network.set_silent(address(2), false);
    world.wait(Duration::from_millis(2400));
    assert_eq!(rows(&mut world, 2, "t", 0..10), 10);
}

#[test]
fn hints_survive_a_crash_of_the_node_that_keeps_them() {
    for cores in [2, 1, 3] {
        let mut world = three_nodes(often);
        down(&mut world);
        write(&mut world, 0, 0..30);
        world.wait(DELIVERY);
        world.crash(0);
        world.restart_with(0, cores, often);
        assert_eq!(pending(&mut world, 0), 2);
        up(&mut world);
        world.wait(DELIVERY);
        assert_eq!(rows(&mut world, 2, "t", 0..30), 30, "{cores} cores");
        assert_eq!(files(&mut world, 0), 0);
    }
}

#[test]
fn a_stop_writes_what_is_in_memory() {
    let mut world = three_nodes(often);
    down(&mut world);
    write(&mut world, 0, 0..10);
    let stops: Vec<_> = (0..2).map(|core| world.begin(0, core, |shard| async move { shard.stop().await })).collect();
    world.wait(DELIVERY);
    assert!(stops.iter().all(|stop| *stop.borrow() == Some(Ok(()))), "stopped");
    world.crash(0);
    world.restart_with(0, 2, often);
    up(&mut world);
    world.wait(DELIVERY);
    assert_eq!(rows(&mut world, 2, "t", 0..10), 10);
}

#[test]
fn what_is_acknowledged_at_any_survives_a_crash_at_once() {
    let mut world = three_nodes(often);
    let one = "CREATE KEYSPACE one WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    world.everywhere(one);
    let table = "CREATE TABLE one.t (a int PRIMARY KEY, b int) WITH id = 00000009-0000-1000-8000-000000000000";
    world.everywhere(table);
    world.network.set_silent(address(1), true);
    world.network.set_silent(address(2), true);
    world.announce(&[0]);
    for key in 0..20 {
        let text = format!("INSERT INTO one.t (a, b) VALUES ({key}, 1)");
        let request = Request { consistency: Consistency::Any, ..Request::new(&text) };
        let before = world.sim.now();
        world.query(0, 0, &request).expect("kept");
        assert!(world.sim.now().since(before) < Duration::from_millis(500), "it is written at once");
    }
    world.crash(0);
    world.restart_with(0, 2, often);
    world.network.set_silent(address(1), false);
    world.network.set_silent(address(2), false);
    world.announce(&[0, 1, 2]);
    world.wait(DELIVERY);
    for key in 0..20 {
        let text = format!("SELECT b FROM one.t WHERE a = {key}");
        let answer = world.query(1, 0, &Request::new(&text)).expect("read");
        assert_eq!(super::world::rows_of(answer).0.len(), 1, "{key}");
    }
}

#[test]
fn any_is_not_acknowledged_by_what_is_not_kept() {
    let mut world = three_nodes(|_| {});
    world.everywhere("CREATE KEYSPACE one WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    world.everywhere("CREATE TABLE one.t (a int PRIMARY KEY) WITH id = 00000009-0000-1000-8000-000000000000");
    world.announce(&[0]);
    let mut refused = 0;
    for key in 0..20 {
        let text = format!("INSERT INTO one.t (a) VALUES ({key})");
        match world.query(0, 0, &Request { consistency: Consistency::Any, ..Request::new(&text) }) {
            Ok(_) => {}
            Err(failure) => {
                assert_eq!(failure.code, ErrorCode::WriteTimeout);
                refused += 1;
            }
        }
    }
    assert!(refused > 0 && refused < 20, "{refused} have their replica elsewhere");
}

#[test]
fn nothing_is_kept_when_it_is_disabled() {
    for disabled in [HintChange::Enabled(false), HintChange::Center { name: "datacenter1".into(), enabled: false }] {
        let mut world = three_nodes(often);
        change(&mut world, &disabled);
        down(&mut world);
        write(&mut world, 0, 0..5);
        change(&mut world, &HintChange::Center { name: "datacenter1".into(), enabled: true });
        change(&mut world, &HintChange::Enabled(true));
        write(&mut world, 0, 5..10);
        up(&mut world);
        world.wait(DELIVERY);
        let have = (rows(&mut world, 2, "t", 0..5), rows(&mut world, 2, "t", 5..10));
        assert_eq!(have, (0, 5), "{disabled:?}");
    }
}

#[test]
fn nothing_is_kept_for_a_node_that_has_been_down_for_too_long() {
    let mut world = three_nodes(|config| {
        often(config);
        config.hints.window = Duration::from_secs(2);
        config.hints.window_persistent = false;
    });
    down(&mut world);
    world.wait(Duration::from_millis(1500));
    write(&mut world, 0, 0..5);
    world.wait(Duration::from_millis(500));
    write(&mut world, 0, 5..10);
    up(&mut world);
    world.wait(DELIVERY);
    assert_eq!((rows(&mut world, 2, "t", 0..5), rows(&mut world, 2, "t", 5..10)), (5, 0));
}

#[test]
fn the_window_begins_with_the_oldest_hint() {
    // The node that keeps hints starts again, and does not know since when the other one is down.
    let tweak: fn(&mut Config) = |config| {
        often(config);
        config.hints.window = Duration::from_secs(2);
    };
    let mut world = three_nodes(tweak);
    down(&mut world);
    write(&mut world, 0, 0..5);
    world.wait(Duration::from_millis(1500));
    world.crash(0);
    world.restart_with(0, 2, tweak);
    world.announce(&[0, 1]);
    world.wait(Duration::from_millis(1000));
    write(&mut world, 0, 5..10);
    up(&mut world);
    world.wait(DELIVERY);
    assert_eq!((rows(&mut world, 2, "t", 0..5), rows(&mut world, 2, "t", 5..10)), (5, 0));
}

#[test]
fn hints_of_a_node_have_a_size() {
    let mut world = three_nodes(|config| {
        often(config);
        config.hints.host_bytes_max = 2 * 200;
    });
    down(&mut world);
    for key in 0..20 {
        world.query(0, 0, &insert("t", key, Consistency::One)).expect("inserted");
    }
    up(&mut world);
    world.wait(DELIVERY);
    let have = rows(&mut world, 2, "t", 0..20);
    assert!((2..10).contains(&have), "{have} hints of some 70 bytes fit into a core's half");
}

#[test]
fn a_hint_is_not_applied_once_tombstones_may_be_gone() {
    let mut world = three_nodes(often);
    down(&mut world);
    world.query(0, 0, &insert("brief", 1, Consistency::One)).expect("inserted");
    world.query(0, 0, &insert("t", 1, Consistency::One)).expect("inserted");
    world.wait(Duration::from_millis(1700));
    world.query(0, 0, &insert("brief", 2, Consistency::One)).expect("inserted");
    world.wait(Duration::from_millis(300));
    up(&mut world);
    world.wait(DELIVERY);
    assert_eq!((rows(&mut world, 2, "brief", 1..2), rows(&mut world, 2, "brief", 2..3)), (0, 1));
    assert_eq!(rows(&mut world, 2, "t", 1..2), 1);
}

#[test]
fn what_was_missed_before_a_truncation_stays_gone() {
    let mut world = three_nodes(often);
    down(&mut world);
    let batch = "BEGIN UNLOGGED BATCH INSERT INTO k.t (a, b) VALUES (1, 1); INSERT INTO k.other (a, b) VALUES (1, 1); \
                 APPLY BATCH";
    world.query(0, 0, &Request::new(batch)).expect("written");
    change(&mut world, &HintChange::Paused(true));
    up(&mut world);
    world.wait(DELIVERY);
    assert_eq!(rows(&mut world, 2, "other", 1..2), 0, "delivery is paused");
    world.query(1, 0, &Request::new("TRUNCATE k.t")).expect("truncated");
    world.query(1, 0, &insert("t", 2, Consistency::All)).expect("inserted");
    change(&mut world, &HintChange::Paused(false));
    world.wait(DELIVERY);
    let have = (rows(&mut world, 2, "t", 1..2), rows(&mut world, 2, "t", 2..3), rows(&mut world, 2, "other", 1..2));
    assert_eq!(have, (0, 1, 1), "the other table of the mutation has its row");
}

#[test]
fn what_a_dropped_table_missed_is_dropped() {
    let mut world = three_nodes(often);
    down(&mut world);
    world.query(0, 0, &insert("other", 1, Consistency::One)).expect("inserted");
    world.query(0, 0, &insert("t", 1, Consistency::One)).expect("inserted");
    world.everywhere("DROP TABLE k.other");
    up(&mut world);
    world.wait(DELIVERY);
    assert_eq!(rows(&mut world, 2, "t", 1..2), 1);
    assert_eq!(files(&mut world, 0), 0);
}

#[test]
fn delivery_goes_on_after_it_was_cut() {
    let mut world = three_nodes(|config| {
        often(config);
        config.write_timeout = Duration::from_millis(300);
    });
    down(&mut world);
    write(&mut world, 0, 0..100);
    world.network.set_silent(address(2), false);
    world.network.answers_lost.set(3);
    world.announce(&[0, 1, 2]);
    world.wait(5 * DELIVERY);
    assert_eq!(rows(&mut world, 2, "t", 0..100), 100);
    assert_eq!(files(&mut world, 0), 0);
}

#[test]
fn what_a_node_has_no_more_goes_to_those_that_have_it() {
    let mut world = World::start(&[1, 1, 1], often);
    world.everywhere("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    world.everywhere(SCHEMA[1]);
    // Everything belongs to node 2, and then to node 1.
    let before = world.members_at([i64::MIN + 1, i64::MIN + 2, i64::MAX]);
    let after = world.members_at([i64::MIN + 1, i64::MAX, 5 - i64::MAX]);
    world.switch(&[0, 1, 2], before);
    world.announce(&[0, 1]);
    for key in 0..10 {
        world.query(0, 0, &insert("t", key, Consistency::Any)).expect("kept");
    }
    world.switch(&[0, 1, 2], after);
    world.announce(&[0, 1, 2]);
    world.wait(DELIVERY);
    assert_eq!(rows(&mut world, 1, "t", 0..10), 10);
    assert_eq!(files(&mut world, 0), 0);
}

#[test]
fn hints_of_a_node_that_has_left_are_deleted() {
    let mut world = three_nodes(often);
    down(&mut world);
    write(&mut world, 0, 0..10);
    world.wait(DELIVERY);
    assert_eq!(files(&mut world, 0), 2);
    let mut members = world.members();
    members.retain(|member| member.address.ip() != address(2));
    world.switch(&[0, 1], members);
    world.wait(DELIVERY);
    assert_eq!(files(&mut world, 0), 0);
}

#[test]
fn an_operator_deletes_hints() {
    let mut world = three_nodes(often);
    down(&mut world);
    write(&mut world, 0, 0..10);
    world.wait(DELIVERY);
    write(&mut world, 0, 10..20);
    let members = world.members();
    let of = |node: usize| members.iter().find(|member| member.address.ip() == address(node)).expect("a node").host_id;
    let (other, missing) = (of(1), of(2));
    world.on(0, 0, move |shard| async move { shard.delete_hints(Some(other)).await }).expect("nothing to delete");
    assert_eq!(files(&mut world, 0), 2);
    world.on(0, 0, move |shard| async move { shard.delete_hints(Some(missing)).await }).expect("deleted");
    assert_eq!(files(&mut world, 0), 0);
    write(&mut world, 0, 20..30);
    up(&mut world);
    world.wait(DELIVERY);
    assert_eq!((rows(&mut world, 2, "t", 0..20), rows(&mut world, 2, "t", 20..30)), (0, 10));
}

#[test]
fn a_damaged_file_stops_nothing() {
    let mut world = three_nodes(often);
    down(&mut world);
    write(&mut world, 0, 0..10);
    world.wait(DELIVERY);
    world.crash(0);
    world.restart_with(0, 2, often);
    // The header of one file is lost; the other one can be read.
    world.on(0, 0, |_| async {
        let files = runtime::file::list_dir(Path::new("/data/hints")).await.expect("files");
        let options = runtime::file::OpenOptions { write: true, ..Default::default() };
        let file = runtime::File::open(&files[0], options).await.expect("a file");
        file.write_durable(runtime::AlignedBuf::zeroed(4096), 0).await.0.expect("damaged");
    });
    up(&mut world);
    world.wait(DELIVERY);
    assert_eq!(rows(&mut world, 2, "t", 0..10), 5);
    assert_eq!((files(&mut world, 0), pending(&mut world, 0)), (1, 0), "it is left for who can mend it");
}

/// The first node keeps hints for the last, and leaves. Returns how many rows the last one has then.
fn after_leaving(tweak: fn(&mut Config)) -> usize {
    let mut world = three_nodes(tweak);
    down(&mut world);
    write(&mut world, 0, 0..6);
    world.on(0, 0, |shard| async move { shard.hand_on_hints().await }).expect("handed on");
    assert_eq!(world.network.sent(Verb::Hint) > 0, files(&mut world, 1) > 0);
    world.crash(0);
    world.network.set_silent(address(2), false);
    world.announce(&[1, 2]);
    world.wait(2 * DELIVERY);
    rows(&mut world, 2, "t", 0..6)
}

#[test]
fn a_node_that_leaves_hands_on_its_hints_unless_told_not_to() {
    assert_eq!(after_leaving(often), 6);
    let kept = after_leaving(|config| {
        often(config);
        config.hints.transfer_on_decommission = false;
    });
    assert_eq!(kept, 0);
}

#[test]
fn a_file_of_hints_is_closed_when_it_has_its_size() {
    const SMALL: fn(&mut Config) = |config| {
        often(config);
        config.hints.file_bytes_max = 1;
    };
    for (tweak, closed) in [(SMALL, 4), (often, 0)] {
        let mut world = three_nodes(tweak);
        down(&mut world);
        for key in 0..4 {
            world.query(0, 0, &insert("t", key, Consistency::One)).expect("inserted");
            // Hints are written to the file once in a period.
            world.wait(2 * PERIOD);
        }
        assert_eq!(pending(&mut world, 0), closed);
        assert_eq!(files(&mut world, 0), closed.max(1) as usize);
        up(&mut world);
        world.wait(DELIVERY);
        assert_eq!((rows(&mut world, 2, "t", 0..4), files(&mut world, 0)), (4, 0));
    }
}

#[test]
fn hints_are_sent_no_faster_than_allowed() {
    let mut world = three_nodes(|config| {
        often(config);
        // Each of the two cores may send a fourth of it to each of the two other nodes.
        config.hints.throttle_bytes = 1600;
    });
    down(&mut world);
    for key in 0..40 {
        world.query(0, 0, &insert("t", key, Consistency::One)).expect("inserted");
    }
    up(&mut world);
    world.wait(Duration::from_secs(2));
    let early = rows(&mut world, 2, "t", 0..40);
    assert!((5..30).contains(&early), "{early} of some 70 bytes at 400 bytes a second");
    change(&mut world, &HintChange::Throttle(0));
    world.wait(DELIVERY);
    assert_eq!(rows(&mut world, 2, "t", 0..40), 40, "without a limit");
}

/// A write is planned again once its coordinator knows what a replica knows that has the data no more. If it does not
/// learn that in time, the mutation is kept, and goes to those that have the data then.
#[test]
fn what_moved_while_a_coordinator_did_not_know_gets_there_later() {
    let mut world = World::start(&[1, 1, 1], often);
    world.everywhere("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}");
    world.everywhere(SCHEMA[1]);
    // Everything belongs to nodes 2 and 0, and then to nodes 1 and 0.
    let before = world.members_at([i64::MIN + 1, i64::MIN + 2, i64::MAX]);
    let after = world.members_at([i64::MIN + 1, i64::MAX, 5 - i64::MAX]);
    world.switch(&[0, 1, 2], before);
    world.announce(&[0, 1, 2]);
    world.switch(&[1, 2], after.clone());
    let failure = world.query(0, 0, &insert("t", 7, Consistency::Quorum)).expect_err("node 2 has it no more");
    assert_eq!(failure.code, ErrorCode::WriteTimeout);
    // The same epoch.
    world.epoch -= 1;
    world.switch(&[0], after);
    world.wait(DELIVERY);
    assert_eq!([0, 1, 2].map(|node| rows(&mut world, node, "t", 7..8)), [1, 1, 0]);
}

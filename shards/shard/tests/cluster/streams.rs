//! Data that one node fetches from others.

use super::network::Fault;
use super::world::{Request, Row, World, address, rows_of};
use cluster::topology::features;
use model::{RingToken, TokenRange};
use runtime::NodeId;
use shard::{
    Config, StreamError, StreamOperation, StreamPart, StreamPlan, StreamProgress, StreamSummary, TableVerb, Throughput,
    ThroughputChange, Verb,
};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use uuid::Uuid;

const KEYSPACE: &str = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
const TABLE: &str = "CREATE TABLE k.t (a int, b int, s text static, c text, m map<int, text>, PRIMARY KEY (a, b)) \
                     WITH id = 00000001-0000-1000-8000-000000000000";
/// Long enough that files have several pieces.
const LONG: usize = 3_000;

/// Nodes of these numbers of cores, the first of which owns everything.
fn world(cores: &[usize], tweak: fn(&mut Config)) -> World {
    let mut world = World::start(cores, tweak);
    world.everywhere(KEYSPACE);
    world.everywhere(TABLE);
    give_all_to(&mut world, 0);
    world
}

/// Lets one node own everything.
fn give_all_to(world: &mut World, owner: usize) {
    let mut members = world.members();
    for member in &mut members {
        let is_owner = member.address.ip() == address(owner);
        member.tokens = if is_owner { vec![RingToken::Murmur3(0)] } else { Vec::new() };
    }
    let nodes: Vec<usize> = (0..members.len()).collect();
    world.switch(&nodes, members);
}

fn write(world: &mut World, text: &str) {
    world.query(0, 0, &Request::new(text)).unwrap_or_else(|failure| panic!("{text}: {failure}"));
}

fn flush(world: &mut World, node: usize) {
    world.on(node, 0, |shard| async move { shard.on_every_shard(TableVerb::FlushAll).await }).expect("flushed");
}

fn long(seed: i32) -> String {
    let mut state = seed as u32;
    let letters = (0..LONG).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'a' + (state >> 24) as u8 % 26)
    });
    letters.collect()
}

/// Rows of the keys `keys`, in two SSTables of each core and in memtables, with what deletes some of them.
fn fill(world: &mut World, keys: std::ops::Range<i32>) {
    for key in keys.clone() {
        for row in 0..3 {
            let text = long(key * 7 + row);
            write(world, &format!("INSERT INTO k.t (a, b, s, c) VALUES ({key}, {row}, 'static {key}', '{text}')"));
        }
    }
    flush(world, 0);
    for key in keys.clone().step_by(2) {
        write(world, &format!("DELETE FROM k.t WHERE a = {key} AND b > 1"));
        write(world, &format!("INSERT INTO k.t (a, b, m) VALUES ({key}, 9, {{1: 'x', {key}: 'y'}})"));
    }
    flush(world, 0);
    for key in keys.step_by(3) {
        write(world, &format!("DELETE FROM k.t WHERE a = {key} AND b = 0"));
        write(world, &format!("UPDATE k.t SET m[2] = 'late' WHERE a = {key} AND b = 9"));
    }
}

/// All rows as a node sees them, sorted.
fn all(world: &mut World, node: usize) -> Vec<Row> {
    let answer = world.query(node, 0, &Request::new("SELECT a, b, s, c, m, writetime(c) FROM k.t"));
    let mut rows = rows_of(answer.expect("read")).0;
    rows.sort();
    rows
}

fn host_id(world: &World, node: usize) -> Uuid {
    let members = world.members();
    members.iter().find(|member| member.address.ip() == address(node)).expect("a member").host_id
}

fn plan(world: &World, id: u128, ranges: &[TokenRange]) -> StreamPlan {
    let source = host_id(world, 0);
    let part = StreamPart { source, keyspace: "k".into(), tables: None, ranges: ranges.to_vec() };
    StreamPlan { id: Uuid::from_u128(id), operation: StreamOperation::Rebuild, parts: vec![part] }
}

type Fetched = Rc<RefCell<Option<Result<StreamSummary, StreamError>>>>;

/// Begins to fetch everything of the first node.
fn begin(world: &mut World, node: usize, plan: StreamPlan) -> Fetched {
    world.begin(node, 0, |shard| async move { shard.fetch(plan).await })
}

fn finish(world: &mut World, fetched: &Fetched) -> Result<StreamSummary, StreamError> {
    world.sim.run_until(Duration::from_secs(900), || fetched.borrow().is_some());
    fetched.borrow_mut().take().expect("the fetch ends")
}

fn fetch(world: &mut World, node: usize, plan: StreamPlan) -> Result<StreamSummary, StreamError> {
    let fetched = begin(world, node, plan);
    finish(world, &fetched)
}

fn range(after: i64, until: i64) -> TokenRange {
    TokenRange::between(RingToken::Murmur3(after), RingToken::Murmur3(until))
}

/// Files below the directory for streams, of a node.
fn staged(world: &World, node: usize) -> Vec<String> {
    let files = world.sim.files(NodeId(node as u32 + 1)).into_iter();
    let names = files.map(|(path, _)| path.display().to_string());
    names.filter(|name| name.contains("/streams/") && !name.contains("/done-")).collect()
}

#[test]
fn a_node_fetches_everything_that_another_one_has() {
    for cores in [[1, 1], [2, 2], [3, 2], [1, 3]] {
        for whole in [true, false] {
            let tweak: fn(&mut Config) = if whole { |_| {} } else { |config| config.streams.whole_sstables = false };
            let mut world = world(&cores, tweak);
            fill(&mut world, 0..40);
            let before = all(&mut world, 0);
            assert!(before.len() > 80, "{}", before.len());
            let plan = plan(&world, 1, &[TokenRange::FULL]);
            let summary = fetch(&mut world, 1, plan).expect("fetched");
            assert!(summary.files > 0 && summary.bytes > 100_000, "{summary:?}");
            give_all_to(&mut world, 1);
            assert_eq!(all(&mut world, 1), before, "{cores:?}, whole files: {whole}");
            assert_eq!((staged(&world, 0), staged(&world, 1)), (Vec::new(), Vec::new()));
            // What the sessions held is let go.
            world.wait(Duration::from_secs(30));
            world.crash(1);
            world.restart(1, &[0, 1]);
            give_all_to(&mut world, 1);
            assert_eq!(all(&mut world, 1), before, "after a restart");
        }
    }
}

#[test]
fn ranges_are_fetched_and_nothing_else() {
    let mut world = world(&[2, 2], |_| {});
    fill(&mut world, 0..60);
    let ranges = [range(i64::MIN, -1 << 62), range(-1 << 62, -1 << 61), range(1 << 61, 1 << 62)];
    let before = all(&mut world, 0);
    let plan = plan(&world, 1, &ranges);
    fetch(&mut world, 1, plan).expect("fetched");
    give_all_to(&mut world, 1);
    let token = |row: &Row| {
        let key = row[0].as_deref().expect("a key");
        model::DecoratedKey::new(model::Partitioner::Murmur3, key)
    };
    let is_in = |row: &&Row| ranges.iter().any(|range| range.contains(token(row).token, &token(row).key));
    let expected: Vec<Row> = before.iter().filter(is_in).cloned().collect();
    assert!(!expected.is_empty() && expected.len() < before.len());
    assert_eq!(all(&mut world, 1), expected);
}

#[test]
fn a_plan_that_is_run_again_fetches_only_what_is_missing() {
    let mut world = world(&[2, 2], |_| {});
    fill(&mut world, 0..20);
    let plan = plan(&world, 1, &[TokenRange::FULL]);
    let first = fetch(&mut world, 1, plan.clone()).expect("fetched");
    assert_eq!(fetch(&mut world, 1, plan.clone()), Ok(StreamSummary::default()), "nothing");
    world.on(1, 0, |shard| async move { shard.forget_fetched(Uuid::from_u128(1)).await }).expect("forgotten");
    assert_eq!(fetch(&mut world, 1, plan), Ok(first), "it is forgotten");
}

#[test]
fn indexes_have_what_was_fetched() {
    let mut world = world(&[2, 3], |_| {});
    world.everywhere("CREATE INDEX by_c ON k.t (c)");
    world.wait(Duration::from_secs(5));
    write(&mut world, "INSERT INTO k.t (a, b, c) VALUES (1, 1, 'here')");
    write(&mut world, "INSERT INTO k.t (a, b, c) VALUES (2, 1, 'there')");
    flush(&mut world, 0);
    write(&mut world, "INSERT INTO k.t (a, b, c) VALUES (3, 1, 'here')");
    let plan = plan(&world, 1, &[TokenRange::FULL]);
    fetch(&mut world, 1, plan).expect("fetched");
    give_all_to(&mut world, 1);
    let found = world.query(1, 0, &Request::new("SELECT a FROM k.t WHERE c = 'here'")).expect("read");
    assert_eq!(rows_of(found).0.len(), 2);
}

#[test]
fn s5_lost_answers_and_a_cut_link_cost_time_and_nothing_else() {
    let mut world = world(&[2, 2], |_| {});
    fill(&mut world, 0..40);
    let before = all(&mut world, 0);
    let plan = plan(&world, 1, &[TokenRange::FULL]);
    world.network.answers_lost.set(7);
    let fetched = begin(&mut world, 1, plan);
    let network = world.network.clone();
    world.sim.run_until(Duration::from_secs(60), || network.sent(Verb::StreamChunk) > 20);
    world.network.set_silent(address(0), true);
    world.wait(Duration::from_secs(5));
    world.network.set_silent(address(0), false);
    finish(&mut world, &fetched).expect("fetched");
    give_all_to(&mut world, 1);
    assert_eq!(all(&mut world, 1), before);
}

/// How many pieces are asked for when nothing goes wrong.
fn pieces_of_a_calm_fetch() -> u64 {
    let mut world = world(&[2, 2], |_| {});
    fill(&mut world, 0..60);
    all(&mut world, 0);
    let plan = plan(&world, 1, &[TokenRange::FULL]);
    fetch(&mut world, 1, plan).expect("fetched");
    world.network.sent(Verb::StreamChunk)
}

/// What has come completely does not come again, so that only what was under way on each core is asked for twice.
fn assert_kept(world: &World, pieces: u64) {
    let sent = world.network.sent(Verb::StreamChunk);
    assert!(sent < pieces + pieces / 2, "{sent} pieces were asked for, {pieces} in calm times");
}

#[test]
fn d8_a_sender_that_crashes_and_comes_back_is_asked_again() {
    let pieces = pieces_of_a_calm_fetch();
    let mut world = world(&[2, 2], |_| {});
    fill(&mut world, 0..60);
    let before = all(&mut world, 0);
    let plan = plan(&world, 1, &[TokenRange::FULL]);
    let fetched = begin(&mut world, 1, plan);
    let network = world.network.clone();
    world.sim.run_until(Duration::from_secs(60), || network.sent(Verb::StreamChunk) > 20);
    world.crash(0);
    world.restart(0, &[0, 1]);
    give_all_to(&mut world, 0);
    finish(&mut world, &fetched).expect("fetched");
    assert_kept(&world, pieces);
    give_all_to(&mut world, 1);
    assert_eq!(all(&mut world, 1), before);
}

#[test]
fn d8_a_sender_that_stays_away_ends_the_plan() {
    let mut world = world(&[1, 1], |_| {});
    fill(&mut world, 0..10);
    let plan = plan(&world, 1, &[TokenRange::FULL]);
    world.network.faults.borrow_mut().insert((address(0), Verb::StreamChunk), Fault::Lost);
    let fetched = fetch(&mut world, 1, plan.clone());
    assert!(matches!(fetched, Err(StreamError::Unreachable(..))), "{fetched:?}");
    world.network.faults.borrow_mut().clear();
    fetch(&mut world, 1, plan).expect("it may be run again");
}

/// It was started with another number of them, and the receiver has not heard of that yet.
#[test]
fn d8_a_sender_with_other_cores_than_the_plan_asks_ends_it() {
    for known in [1, 3] {
        let mut world = world(&[2, 1], |_| {});
        fill(&mut world, 0..10);
        let mut members = world.members();
        members.iter_mut().filter(|member| member.address.ip() == address(0)).for_each(|member| {
            member.shards.shards = known;
        });
        world.switch(&[0, 1], members);
        let plan = plan(&world, 1, &[TokenRange::FULL]);
        let fetched = fetch(&mut world, 1, plan);
        let text = format!("it has 2 cores, not {known}");
        assert!(matches!(&fetched, Err(StreamError::Unreachable(_, told)) if *told == text), "{fetched:?}");
    }
}

#[test]
fn d8_a_receiver_that_crashes_runs_the_plan_again() {
    for at in [2, 10, 25, 40] {
        let mut world = world(&[2, 2], |_| {});
        fill(&mut world, 0..60);
        let before = all(&mut world, 0);
        let plan = plan(&world, 1, &[TokenRange::FULL]);
        begin(&mut world, 1, plan.clone());
        let network = world.network.clone();
        world.sim.run_until(Duration::from_secs(60), || network.sent(Verb::StreamChunk) > at);
        world.crash(1);
        world.restart(1, &[0, 1]);
        give_all_to(&mut world, 0);
        fetch(&mut world, 1, plan).expect("fetched");
        give_all_to(&mut world, 1);
        assert_eq!(all(&mut world, 1), before, "{at}");
        assert_eq!(staged(&world, 1), Vec::<String>::new());
    }
}

#[test]
fn s9_a_table_that_is_truncated_meanwhile_stays_empty() {
    // On the sender alone, on the receiver alone, on both: as a TRUNCATE reaches one after the other.
    for order in [&[0][..], &[1], &[0, 1], &[1, 0]] {
        for at in [1, 15, 30] {
            let mut world = world(&[2, 2], |_| {});
            fill(&mut world, 0..60);
            let plan = plan(&world, 1, &[TokenRange::FULL]);
            let fetched = begin(&mut world, 1, plan);
            let network = world.network.clone();
            world.sim.run_until(Duration::from_secs(60), || network.sent(Verb::StreamChunk) > at);
            let truncations: Vec<_> = order
                .iter()
                .map(|node| {
                    world.begin(*node, 0, |shard| async move {
                        let table = shard.schema().table("k", "t").expect("a table").id;
                        let body = [&[1][..], &shard.topology().epoch().to_le_bytes(), &table.0].concat();
                        shard.serve_peer(Uuid::nil(), Verb::Truncate as u8, body).await
                    })
                })
                .collect();
            world.sim.run_until(Duration::from_secs(60), || truncations.iter().all(|done| done.borrow().is_some()));
            write(&mut world, "INSERT INTO k.t (a, b, c) VALUES (1, 1, 'after')");
            finish(&mut world, &fetched).expect("fetched");
            give_all_to(&mut world, 1);
            let rows = all(&mut world, 1);
            match order {
                // The sender's data were not truncated, and are its own to give.
                [1] => assert!(rows.len() > 100, "{order:?} at {at}"),
                _ => assert_eq!(rows.len(), 1, "{order:?} at {at}"),
            }
        }
    }
}

#[test]
fn a_table_that_is_dropped_meanwhile_is_left_out() {
    for at in [1, 30] {
        let mut world = world(&[2, 2], |_| {});
        world.everywhere("CREATE TABLE k.u (a int PRIMARY KEY) WITH id = 00000002-0000-1000-8000-000000000000");
        fill(&mut world, 0..60);
        write(&mut world, "INSERT INTO k.u (a) VALUES (5)");
        let plan = plan(&world, 1, &[TokenRange::FULL]);
        let fetched = begin(&mut world, 1, plan);
        let network = world.network.clone();
        world.sim.run_until(Duration::from_secs(60), || network.sent(Verb::StreamChunk) > at);
        world.everywhere("DROP TABLE k.t");
        finish(&mut world, &fetched).expect("fetched");
        give_all_to(&mut world, 1);
        let rows = world.query(1, 0, &Request::new("SELECT * FROM k.u")).expect("read");
        assert_eq!(rows_of(rows).0.len(), 1);
        assert_eq!(staged(&world, 1), Vec::<String>::new());
    }
}

/// A drop ends with a truncation, which other nodes may make much later; the table's part of the plan does not wait for
/// them.
#[test]
fn a_table_that_is_dropped_before_its_turn_is_not_waited_for() {
    // The first table takes until the limit is taken away.
    let mut world = world(&[1, 1], |config| config.streams.whole_throughput = 8_000);
    world.everywhere("CREATE TABLE k.u (a int PRIMARY KEY) WITH id = 00000002-0000-1000-8000-000000000000");
    fill(&mut world, 0..60);
    let plan = plan(&world, 1, &[TokenRange::FULL]);
    let fetched = begin(&mut world, 1, plan);
    let network = world.network.clone();
    world.sim.run_until(Duration::from_secs(60), || network.sent(Verb::StreamChunk) > 0);
    world.everywhere("DROP TABLE k.u");
    assert!(fetched.borrow().is_none(), "the turn of the second one has not come");
    let change = ThroughputChange { which: Throughput::Whole, bytes_per_second: 0 };
    world.on(0, 0, move |shard| async move { shard.set_stream_throughput(change).await });
    let began = world.sim.now();
    finish(&mut world, &fetched).expect("fetched");
    let took = world.sim.now().since(began);
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert_eq!(staged(&world, 1), Vec::<String>::new());
}

#[test]
fn s5_damage_on_the_senders_disk_is_found_and_nothing_of_it_is_taken() {
    let mut world = world(&[1, 1], |_| {});
    fill(&mut world, 0..30);
    flush(&mut world, 0);
    let files = world.sim.files(NodeId(1));
    let is_data = |path: &std::path::Path| {
        let name = path.display().to_string();
        name.contains("/k/t-") && name.ends_with("-Data.db")
    };
    let (path, _) = files.into_iter().find(|(path, _)| is_data(path)).expect("a file");
    assert!(world.sim.mutate_file(NodeId(1), &path, |bytes| bytes[5_000] ^= 1));
    let plan = plan(&world, 1, &[TokenRange::FULL]);
    let fetched = fetch(&mut world, 1, plan);
    assert!(matches!(&fetched, Err(StreamError::Unreachable(_, text)) if text.contains("Data.db")), "{fetched:?}");
    give_all_to(&mut world, 1);
    assert!(all(&mut world, 1).is_empty());
}

#[test]
fn a_disk_without_room_refuses_before_anything_is_sent() {
    let mut world = world(&[1, 1], |_| {});
    fill(&mut world, 0..60);
    let used = world.sim.disk_used(NodeId(2));
    world.sim.set_disk_size(NodeId(2), used + 100_000);
    let plan = plan(&world, 1, &[TokenRange::FULL]);
    let fetched = fetch(&mut world, 1, plan);
    assert!(matches!(fetched, Err(StreamError::DiskFull { .. })), "{fetched:?}");
    assert_eq!(world.network.sent(Verb::StreamBegin), 0);
}

/// More than are held open at a time.
#[test]
fn many_sstables_are_fetched() {
    let mut world = world(&[1, 1], |_| {});
    let off = world.on(0, 0, |shard| async move {
        let table = shard.schema().table("k", "t").expect("a table").id;
        shard.on_every_shard(TableVerb::SetAutoCompaction { table, on: false }).await
    });
    off.expect("switched off");
    for key in 0..40 {
        write(&mut world, &format!("INSERT INTO k.t (a, b, c) VALUES ({key}, 1, 'x')"));
        flush(&mut world, 0);
    }
    let before = all(&mut world, 0);
    let plan = plan(&world, 1, &[TokenRange::FULL]);
    let summary = fetch(&mut world, 1, plan).expect("fetched");
    assert!(summary.files > 40 * 5, "{summary:?}");
    give_all_to(&mut world, 1);
    assert_eq!(all(&mut world, 1), before);
}

#[test]
fn s18_a_sender_without_room_for_what_it_extracts_says_so() {
    let mut world = world(&[1, 1], |config| config.streams.whole_sstables = false);
    fill(&mut world, 0..60);
    flush(&mut world, 0);
    let used = world.sim.disk_used(NodeId(1));
    world.sim.set_disk_size(NodeId(1), used + 20_000);
    let plan = plan(&world, 1, &[TokenRange::FULL]);
    let fetched = fetch(&mut world, 1, plan.clone());
    let told = |text: &str| text.contains("Not enough space") && text.contains("are to be extracted");
    assert!(matches!(&fetched, Err(StreamError::Unreachable(_, text)) if told(text)), "{fetched:?}");
    world.sim.set_disk_size(NodeId(1), used + 100_000_000);
    fetch(&mut world, 1, plan).expect("there is room");
}

/// What a limit between data centres holds back takes nothing of the other limit, which streams within one have too.
#[test]
fn limits_between_data_centers_are_kept_besides_those_of_all_streams() {
    let mut world = world(&[1, 1], |config| config.streams.far_whole_throughput = 8_000);
    fill(&mut world, 0..40);
    let near = plan(&world, 1, &[TokenRange::FULL]);
    let (began, mut members) = (world.sim.now(), world.members());
    fetch(&mut world, 1, near).expect("within one");
    let took = world.sim.now().since(began);
    assert!(took < Duration::from_secs(10), "{took:?}");
    members[1].data_center = "dc2".into();
    world.switch(&[0, 1], members);
    let far = plan(&world, 2, &[TokenRange::FULL]);
    let fetched = begin(&mut world, 1, far);
    world.wait(Duration::from_secs(20));
    assert!(fetched.borrow().is_none(), "a limit of 8 kB per second");
    let change = ThroughputChange { which: Throughput::WholeBetweenCenters, bytes_per_second: 0 };
    world.on(0, 0, move |shard| async move { shard.set_stream_throughput(change).await });
    finish(&mut world, &fetched).expect("fetched");
}

#[test]
fn a_node_of_an_older_version_and_one_that_is_unknown_are_not_asked() {
    let mut world = world(&[1, 1], |_| {});
    let mut members = world.members();
    members.iter_mut().for_each(|member| member.features &= !features::STREAMS);
    world.switch(&[0, 1], members);
    let mut plan = plan(&world, 1, &[TokenRange::FULL]);
    let source = host_id(&world, 0);
    assert_eq!(fetch(&mut world, 1, plan.clone()), Err(StreamError::Unsupported(source)));
    plan.parts[0].source = Uuid::from_u128(5);
    assert_eq!(fetch(&mut world, 1, plan), Err(StreamError::UnknownSource(Uuid::from_u128(5))));
}

fn progress(world: &mut World, node: usize) -> Vec<StreamProgress> {
    world.on(node, 0, |shard| async move { shard.stream_progress().await }).expect("told")
}

#[test]
fn limits_hold_and_can_be_changed_meanwhile() {
    let mut world = world(&[2, 2], |config| config.streams.whole_throughput = 8_000);
    fill(&mut world, 0..40);
    let plan = plan(&world, 1, &[TokenRange::FULL]);
    let fetched = begin(&mut world, 1, plan);
    world.wait(Duration::from_secs(20));
    assert!(fetched.borrow().is_none(), "a limit of 8 kB per second");
    let sent: u64 = progress(&mut world, 0).iter().map(|stream| stream.bytes_done).sum();
    assert!(sent > 0 && sent < 8_000 * 20 + 2 * 12 * (256 << 10), "{sent}");
    assert_eq!(world.on(0, 0, |shard| async move { shard.stream_throughput(Throughput::Whole) }), 8_000);
    let change = ThroughputChange { which: Throughput::Whole, bytes_per_second: 0 };
    world.on(0, 0, move |shard| async move { shard.set_stream_throughput(change).await });
    finish(&mut world, &fetched).expect("fetched");
    assert_eq!(world.on(0, 0, |shard| async move { shard.stream_throughput(Throughput::Whole) }), 0);
}

#[test]
fn both_sides_tell_how_far_a_stream_is() {
    let mut world = world(&[2, 3], |_| {});
    fill(&mut world, 0..60);
    let plan = plan(&world, 1, &[TokenRange::FULL]);
    let id = plan.id;
    let fetched = begin(&mut world, 1, plan);
    let network = world.network.clone();
    world.sim.run_until(Duration::from_secs(60), || network.sent(Verb::StreamChunk) > 20);
    for (node, peer, is_incoming) in [(0, 1, false), (1, 0, true)] {
        let told = progress(&mut world, node);
        assert_eq!(told.len(), 1);
        let expected = (id, host_id(&world, peer), is_incoming, false);
        assert_eq!((told[0].plan, told[0].peer, told[0].is_incoming, told[0].is_done), expected);
        assert!(told[0].bytes_done <= told[0].bytes && told[0].files > 0, "{told:?}");
    }
    let summary = finish(&mut world, &fetched).expect("fetched");
    world.wait(Duration::from_secs(30));
    let told = [progress(&mut world, 0), progress(&mut world, 1)].concat();
    for stream in &told {
        assert!(stream.is_done && stream.failure.is_none() && stream.current.is_empty(), "{stream:?}");
        assert_eq!((stream.files_done, stream.bytes_done), (stream.files, summary.bytes), "{stream:?}");
    }
    let text = "SELECT operation, status, bytes_received, bytes_sent, follower FROM system_views.streaming";
    for (node, follower, received, sent) in [(0, 1, 0, summary.bytes), (1, 0, summary.bytes, 0)] {
        let rows = rows_of(world.query(node, 0, &Request::new(text)).expect("read")).0;
        let value = |bytes: &[u8]| Some(bytes.to_vec());
        let expected: Row = vec![
            value(b"Rebuild"),
            value(b"success"),
            value(&received.to_be_bytes()),
            value(&sent.to_be_bytes()),
            value(&[follower]),
        ];
        assert_eq!(rows, [expected]);
    }
}

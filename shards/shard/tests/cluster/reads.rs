//! Reads of three replicas that do not have the same.

use super::replicas::stored;
use super::world::{Request, Row, World, address, rows_of};
use model::arbitrary::{generator, pick};
use model::failure::{Detail, FailureReason};
use model::{Consistency, ErrorCode, Failure};
use shard::{Config, FilteringThresholds, Verb};
use std::collections::BTreeSet;
use std::time::Duration;

const TABLE: &str = "CREATE TABLE k.t (a int, b int, c int, s int static, m map<int, int>, PRIMARY KEY (a, b)) WITH id = \
                     00000001-0000-1000-8000-000000000000";
pub(super) const ALL: [usize; 3] = [0, 1, 2];

/// Nodes of several cores with a keyspace of as many replicas, and a table with `options`.
fn nodes(cores: &[usize], options: &str) -> World {
    configured(cores, options, |_| {})
}

/// The same, with other options of the nodes.
pub(super) fn configured(cores: &[usize], options: &str, configure: fn(&mut Config)) -> World {
    let mut world = World::start(cores, configure);
    let replicas = cores.len();
    world.everywhere(&format!(
        "CREATE KEYSPACE k WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}"
    ));
    world.everywhere(&format!("{TABLE}{options}"));
    world.everywhere("CREATE INDEX byc ON k.t (c)");
    world
}

fn three_nodes() -> World {
    nodes(&[2, 1, 2], "")
}

/// Tells a node that these ones are alive.
fn believe(world: &mut World, node: usize, alive: &[usize]) {
    let is_alive = |ip| alive.iter().any(|node| address(*node) == ip);
    let members = world.members();
    let live: BTreeSet<_> =
        members.iter().filter(|member| is_alive(member.address.ip())).map(|member| member.host_id).collect();
    world.on(node, 0, move |shard| async move { shard.switch_live_nodes(live).await }).expect("announced");
}

/// Writes on some of the replicas only: the first of them believes that the others are down.
pub(super) fn write_on(world: &mut World, some: &[usize], text: &str) {
    believe(world, some[0], some);
    let request = Request { consistency: Consistency::One, ..Request::new(text) };
    world.query(some[0], 0, &request).unwrap_or_else(|failure| panic!("{text}: {failure}"));
    world.wait(Duration::from_millis(5));
    believe(world, some[0], &ALL);
}

/// The rows that a node gives for a SELECT.
pub(super) fn read(world: &mut World, node: usize, text: &str, consistency: Consistency) -> Result<Vec<Row>, Failure> {
    let answer = world.query(node, 0, &Request { consistency, ..Request::new(text) })?;
    Ok(rows_of(answer).0)
}

/// All rows of a SELECT, read in pages.
fn pages(world: &mut World, node: usize, text: &str, consistency: Consistency, page_size: Option<i32>) -> Vec<Row> {
    let mut request = Request { consistency, page_size, ..Request::new(text) };
    let mut rows = Vec::new();
    loop {
        let answer = world.query(node, 0, &request).unwrap_or_else(|failure| panic!("{text}: {failure}"));
        let (page, state) = rows_of(answer);
        rows.extend(page);
        match state {
            None => return rows,
            state => request.paging_state = state,
        }
    }
}

fn int(row: &Row, column: usize) -> Option<i32> {
    row[column].as_deref().and_then(|bytes| bytes.try_into().ok()).map(i32::from_be_bytes)
}

#[test]
fn the_nearest_replica_answers_alone_at_one() {
    let mut world = three_nodes();
    world.query(0, 0, &Request::new("INSERT INTO k.t (a, b, c) VALUES (1, 1, 1)")).expect("inserted");
    world.wait(Duration::from_millis(20));
    for node in ALL {
        for level in [Consistency::One, Consistency::LocalOne] {
            assert_eq!(read(&mut world, node, "SELECT c FROM k.t WHERE a = 1", level).map(|rows| rows.len()), Ok(1));
            assert_eq!(read(&mut world, node, "SELECT c FROM k.t", level).map(|rows| rows.len()), Ok(1));
        }
    }
    for verb in [Verb::Read, Verb::ReadDigest, Verb::ReadFragments] {
        assert_eq!(world.network.sent(verb), 0, "every node has a replica");
    }
}

#[test]
fn equal_replicas_cost_a_digest_each() {
    let mut world = three_nodes();
    world.query(0, 0, &Request::new("INSERT INTO k.t (a, b, c) VALUES (1, 1, 1)")).expect("inserted");
    world.wait(Duration::from_millis(20));
    let text = "SELECT c FROM k.t WHERE a = 1 AND b = 1";
    for (level, digests) in [(Consistency::Quorum, 1), (Consistency::Two, 1), (Consistency::All, 2)] {
        let before = world.network.sent(Verb::ReadDigest);
        assert_eq!(read(&mut world, 0, text, level).map(|rows| rows.len()), Ok(1));
        assert_eq!(world.network.sent(Verb::ReadDigest) - before, digests, "{level:?}");
    }
    assert_eq!(world.network.sent(Verb::ReadFragments), 0);
    assert_eq!(world.network.sent(Verb::ReadRepair), 0);
}

#[test]
fn what_replicas_lack_is_read_and_repaired() {
    let mut world = three_nodes();
    write_on(&mut world, &[1], "INSERT INTO k.t (a, b, c) VALUES (1, 1, 10) USING TIMESTAMP 10");
    write_on(&mut world, &[2], "INSERT INTO k.t (a, b, c) VALUES (1, 2, 20) USING TIMESTAMP 10");
    write_on(&mut world, &[0], "DELETE FROM k.t USING TIMESTAMP 20 WHERE a = 1 AND b = 2");
    let text = "SELECT b, c FROM k.t WHERE a = 1";
    assert_eq!(read(&mut world, 0, text, Consistency::One), Ok(Vec::new()));
    let found = read(&mut world, 0, text, Consistency::All).expect("read");
    assert_eq!(found.iter().map(|row| (int(row, 0), int(row, 1))).collect::<Vec<_>>(), [(Some(1), Some(10))]);
    let all = ALL.map(|node| stored(&mut world, node, "t", 1));
    assert_eq!(all[0].0, 1);
    assert!(all[1] == all[0] && all[2] == all[0], "{all:?}");
    assert!(world.network.sent(Verb::ReadRepair) > 0);
    let repairs = world.network.sent(Verb::ReadRepair);
    for level in [Consistency::One, Consistency::Quorum, Consistency::All] {
        assert_eq!(read(&mut world, 0, text, level).expect("read"), found);
    }
    assert_eq!(world.network.sent(Verb::ReadRepair), repairs, "nothing is left to repair");
}

#[test]
fn scans_merge_and_repair() {
    let mut world = three_nodes();
    for a in 0..12 {
        let some = [(a % 3) as usize];
        write_on(&mut world, &some, &format!("INSERT INTO k.t (a, b, c) VALUES ({a}, 1, {a}) USING TIMESTAMP 10"));
    }
    for (level, page_size) in [(Consistency::All, Some(5)), (Consistency::One, None)] {
        let found: BTreeSet<Option<i32>> =
            pages(&mut world, 1, "SELECT a FROM k.t", level, page_size).iter().map(|row| int(row, 0)).collect();
        assert_eq!(found, (0..12).map(Some).collect(), "{level:?}");
    }
    assert_eq!(read(&mut world, 1, "SELECT count(*) FROM k.t", Consistency::Quorum).map(|rows| rows.len()), Ok(1));
}

#[test]
fn tables_without_read_repair_are_read_only() {
    let mut world = nodes(&[1, 1, 1], " AND read_repair = 'NONE'");
    write_on(&mut world, &[1], "INSERT INTO k.t (a, b, c) VALUES (1, 1, 10)");
    assert_eq!(read(&mut world, 0, "SELECT b FROM k.t WHERE a = 1", Consistency::All).map(|rows| rows.len()), Ok(1));
    assert_eq!(read(&mut world, 0, "SELECT b FROM k.t", Consistency::All).map(|rows| rows.len()), Ok(1));
    assert_eq!((stored(&mut world, 0, "t", 1).0, world.network.sent(Verb::ReadRepair)), (0, 0));
}

#[test]
fn limits_and_filters_hold_over_replicas_that_differ() {
    let mut world = three_nodes();
    for b in 0..8 {
        write_on(&mut world, &[1, 0], &format!("INSERT INTO k.t (a, b, c) VALUES (1, {b}, 5) USING TIMESTAMP 10"));
    }
    // The first two rows are deleted on one replica, and the third no longer matches there.
    write_on(&mut world, &[2], "DELETE FROM k.t USING TIMESTAMP 20 WHERE a = 1 AND b < 2");
    write_on(&mut world, &[2], "UPDATE k.t USING TIMESTAMP 20 SET c = 6 WHERE a = 1 AND b = 2");
    let mut found = |text| -> Vec<Option<i32>> {
        let rows = read(&mut world, 2, text, Consistency::Quorum).expect("read");
        rows.iter().map(|row| int(row, 0)).collect()
    };
    assert_eq!(found("SELECT b FROM k.t WHERE c = 5 AND a = 1 LIMIT 2"), [Some(3), Some(4)]);
    assert_eq!(found("SELECT b FROM k.t WHERE c = 5 LIMIT 2"), [Some(3), Some(4)]);
    assert_eq!(found("SELECT b FROM k.t WHERE a = 1 LIMIT 2"), [Some(2), Some(3)]);
    assert_eq!(found("SELECT b FROM k.t PER PARTITION LIMIT 1"), [Some(2)]);
}

#[test]
fn a_replica_that_fails_is_replaced() {
    let mut world = three_nodes();
    world.query(0, 0, &Request::new("INSERT INTO k.t (a, b, c) VALUES (1, 1, 1)")).expect("inserted");
    world.wait(Duration::from_millis(20));
    world.crash(1);
    // Nobody knows yet that the node is gone.
    for level in [Consistency::One, Consistency::Quorum] {
        for text in ["SELECT c FROM k.t WHERE a = 1", "SELECT c FROM k.t", "SELECT count(*) FROM k.t"] {
            for node in [0, 2] {
                assert_eq!(read(&mut world, node, text, level).map(|rows| rows.len()), Ok(1), "{text} {level:?}");
            }
        }
    }
    for text in ["SELECT c FROM k.t WHERE a = 1", "SELECT c FROM k.t"] {
        let told = read(&mut world, 0, text, Consistency::All).expect_err("one replica is gone");
        assert_eq!(told.code, ErrorCode::ReadFailure, "{told:?}");
        let expected = vec![(address(1), FailureReason::NodeDown)];
        assert!(matches!(told.detail, Detail::ReadFailure { failures, block_for: 3, .. } if failures == expected));
    }
    believe(&mut world, 0, &[0, 2]);
    let told = read(&mut world, 0, "SELECT c FROM k.t WHERE a = 1", Consistency::All).expect_err("it is known");
    let detail = Detail::Unavailable { consistency: Consistency::All, required: 3, alive: 2 };
    assert_eq!((told.code, told.detail), (ErrorCode::Unavailable, detail));
}

#[test]
fn silent_replicas_run_into_the_timeout() {
    let mut world = three_nodes();
    world.query(0, 0, &Request::new("INSERT INTO k.t (a, b, c) VALUES (1, 1, 1)")).expect("inserted");
    world.wait(Duration::from_millis(20));
    [1, 2].into_iter().for_each(|node| world.network.set_silent(address(node), true));
    for text in ["SELECT c FROM k.t WHERE a = 1", "SELECT c FROM k.t"] {
        let told = read(&mut world, 0, text, Consistency::Quorum).expect_err("too late");
        assert_eq!(
            (told.code, &*told.text),
            (ErrorCode::ReadTimeout, "Operation timed out - received only 1 responses.")
        );
        let consistency = Consistency::Quorum;
        assert_eq!(told.detail, Detail::ReadTimeout { consistency, received: 1, block_for: 2, data_present: true });
    }
}

#[test]
fn one_more_replica_is_asked_when_answers_are_late() {
    for (option, is_fast) in
        [("ALWAYS", true), ("20ms", true), ("MIN(99p,20ms)", true), ("99p", false), ("NEVER", false)]
    {
        let options = format!(" AND speculative_retry = '{option}'");
        let mut world = configured(&[1, 1, 1], &options, |config| config.dynamic_snitch = None);
        world.query(0, 0, &Request::new("INSERT INTO k.t (a, b, c) VALUES (1, 1, 1)")).expect("inserted");
        world.wait(Duration::from_millis(20));
        // One of the others is asked for a digest; which one, a read shows.
        let text = "SELECT c FROM k.t WHERE a = 1";
        let slow: Vec<usize> = [1, 2]
            .into_iter()
            .filter(|node| {
                world.network.slow.borrow_mut().insert(address(*node), Duration::from_millis(500));
                let began = world.sim.now();
                read(&mut world, 0, text, Consistency::Quorum).expect("read");
                world.network.slow.borrow_mut().clear();
                world.sim.now().since(began) >= Duration::from_millis(400)
            })
            .collect();
        assert_eq!(slow.len(), usize::from(!is_fast), "{option}");
    }
}

#[test]
fn a_replica_that_is_slow_is_asked_after_the_others() {
    let off: fn(&mut Config) = |config| config.dynamic_snitch = None;
    for (configure, slow_reads) in [((|_| {}) as fn(&mut Config), 1), (off, 6)] {
        let mut world = configured(&[1, 1, 1], " AND speculative_retry = 'NEVER'", configure);
        world.query(0, 0, &Request::new("INSERT INTO k.t (a, b, c) VALUES (1, 1, 1)")).expect("inserted");
        world.wait(Duration::from_millis(20));
        let is_slow = |world: &mut World| {
            let began = world.sim.now();
            read(world, 0, "SELECT c FROM k.t WHERE a = 1", Consistency::Quorum).expect("read");
            world.sim.now().since(began) >= Duration::from_millis(200)
        };
        let asked = |world: &World| (1..3).find(|node| world.network.slow.borrow().contains_key(&address(*node)));
        for node in [1, 2] {
            world.network.slow.borrow_mut().clear();
            world.network.slow.borrow_mut().insert(address(node), Duration::from_millis(300));
            if is_slow(&mut world) {
                break;
            }
        }
        assert!(asked(&world).is_some());
        let late = 1 + (0..5).filter(|_| is_slow(&mut world)).count();
        assert_eq!(late, slow_reads);
        // It is tried again after a while.
        world.network.slow.borrow_mut().clear();
        world.wait(Duration::from_secs(2));
        assert!((0..3).all(|_| !is_slow(&mut world)));
    }
}

#[test]
fn filtered_reads_of_replicas_that_differ_have_thresholds() {
    let mut world = configured(&[1, 1, 1], "", |config| {
        config.filtering = FilteringThresholds { warn: 4, fail: 8 };
        config.dynamic_snitch = None;
    });
    let told = |world: &mut World, text: &str| {
        let request = Request { consistency: Consistency::All, ..Request::new(text) };
        world.query(0, 0, &request).map(|answer| (answer.warnings.clone(), rows_of(answer).0.len()))
    };
    // Three replicas count each row three times.
    let query = "SELECT * FROM k.t WHERE a = 1 AND m CONTAINS 5 ALLOW FILTERING";
    let beyond = |rows: u64, option: &str, query: &str| {
        format!(
            "Replica filtering protection has cached over {rows} rows during query {query}. (See \
             'cached_replica_rows_{option}_threshold' in cassandra.yaml.)"
        )
    };
    for (rows, warned, failed) in [(1, false, false), (2, true, false), (3, false, true)] {
        let text = format!("INSERT INTO k.t (a, b, m) VALUES (1, {rows}, {{1: 5}})");
        write_on(&mut world, &[rows as usize % 3], &text);
        // A row that all have, so that no replica repairs before it is counted.
        write_on(&mut world, &[0], &format!("INSERT INTO k.t (a, b, m) VALUES (2, {rows}, {{1: 6}})"));
        let found = told(&mut world, query);
        match failed {
            true => {
                let failure = found.expect_err("too many rows");
                assert_eq!((failure.code, &*failure.text), (ErrorCode::Overloaded, &*beyond(8, "fail", query)));
            }
            false => {
                let warnings: Vec<String> = warned.then(|| beyond(4, "warn", query)).into_iter().collect();
                assert_eq!(found, Ok((warnings, rows as usize)));
            }
        }
    }
    // Partitions count for themselves, and rows that do not match do not count.
    for a in 10..16 {
        write_on(&mut world, &[a % 3], &format!("INSERT INTO k.t (a, b, m) VALUES ({a}, 1, {{1: 7}})"));
        write_on(&mut world, &[a % 3], &format!("INSERT INTO k.t (a, b, m) VALUES ({a}, 2, {{1: 8}})"));
    }
    assert_eq!(told(&mut world, "SELECT * FROM k.t WHERE m CONTAINS 7 ALLOW FILTERING"), Ok((Vec::new(), 6)));
}

/// A random write, with its timestamp.
fn statement(timestamp: u64, below: &mut impl FnMut(u64) -> u64) -> String {
    let (a, b, c) = (below(4), below(6), below(4));
    let using = format!("USING TIMESTAMP {timestamp}");
    match below(12) {
        0..4 => format!("INSERT INTO k.t (a, b, c) VALUES ({a}, {b}, {c}) {using}"),
        4 => format!("INSERT INTO k.t (a, s) VALUES ({a}, {c}) {using}"),
        5 => format!("UPDATE k.t {using} SET m[{c}] = {b} WHERE a = {a} AND b = {b}"),
        6 => format!("UPDATE k.t {using} SET m = {{{c}: {b}, 9: 9}} WHERE a = {a} AND b = {b}"),
        7 => format!("DELETE c FROM k.t {using} WHERE a = {a} AND b = {b}"),
        8 => format!("DELETE FROM k.t {using} WHERE a = {a} AND b = {b}"),
        9 => format!("DELETE FROM k.t {using} WHERE a = {a} AND b > {b} AND b < {}", b + 1 + c),
        10 => format!("DELETE m[{c}], s FROM k.t {using} WHERE a = {a} AND b = {b}"),
        _ if c == 0 => format!("DELETE FROM k.t {using} WHERE a = {a}"),
        _ => format!("UPDATE k.t {using} SET c = {c} WHERE a = {a} AND b = {b}"),
    }
}

const SELECTS: [&str; 20] = [
    "SELECT * FROM k.t",
    "SELECT * FROM k.t WHERE a = 1",
    "SELECT * FROM k.t WHERE a = 2 AND b = 3",
    "SELECT c FROM k.t WHERE a = 2 AND b = 1",
    "SELECT * FROM k.t WHERE a = 0 ORDER BY b DESC LIMIT 3",
    "SELECT * FROM k.t WHERE a = 3 AND b > 1 AND b <= 4",
    "SELECT b, c FROM k.t WHERE a IN (0, 2, 3) AND b IN (1, 3, 5)",
    "SELECT a, b, s FROM k.t WHERE a IN (3, 0, 1)",
    "SELECT b FROM k.t WHERE a IN (1, 3) ORDER BY b DESC",
    "SELECT DISTINCT a, s FROM k.t",
    "SELECT a, b FROM k.t PER PARTITION LIMIT 2",
    "SELECT a, b FROM k.t LIMIT 4",
    "SELECT count(*), max(c), min(b) FROM k.t",
    "SELECT count(*) FROM k.t WHERE a = 1",
    "SELECT a, count(*), sum(c) FROM k.t GROUP BY a",
    "SELECT * FROM k.t WHERE b = 2 ALLOW FILTERING",
    "SELECT a, b FROM k.t WHERE s = 1 AND c > 0 LIMIT 3 ALLOW FILTERING",
    "SELECT a, b FROM k.t WHERE m CONTAINS 3 ALLOW FILTERING",
    "SELECT a, b FROM k.t WHERE c = 2",
    "SELECT b, writetime(c), token(a) FROM k.t WHERE a = 1 AND c = 3",
];

fn random_reads(seed: u64) {
    let below = &mut generator(seed);
    let mut one = nodes(&[1], "");
    let mut three = three_nodes();
    for round in 0..12 {
        for n in 0..1 + below(8) {
            let text = statement(1 + 20 * round + n + below(15), below);
            one.query(0, 0, &Request::new(&text)).unwrap_or_else(|failure| panic!("{text}: {failure}"));
            let first = below(3) as usize;
            let mut some = vec![first];
            some.extend(ALL.into_iter().filter(|node| *node != first && below(3) == 0));
            write_on(&mut three, &some, &text);
        }
        for _ in 0..6 {
            let text = *pick(&SELECTS, below);
            let is_unpaged = text.contains("IN (1, 3) ORDER BY");
            let page_size = (!is_unpaged && below(2) == 0).then(|| 1 + below(5) as i32);
            let expected = pages(&mut one, 0, text, Consistency::All, page_size);
            let found = pages(&mut three, below(3) as usize, text, Consistency::All, page_size);
            assert_eq!(found, expected, "seed {seed}, round {round}: {text}, pages of {page_size:?}");
        }
    }
}

#[test]
fn reads_of_all_replicas_see_what_any_of_them_has() {
    (0..1).for_each(random_reads);
}

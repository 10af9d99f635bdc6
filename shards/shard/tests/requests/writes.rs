//! INSERT, UPDATE, DELETE and batches.

use super::world::{NODE, Request, Value, World, int, text, values};
use model::BatchKind;
use model::failure::{Detail, Outcome};
use model::{Consistency, ErrorCode};
use runtime::sim::{DiskCall, Options};
use std::time::Duration;

fn world(shards: usize) -> World {
    let mut world = World::start(shards);
    world.run_query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    world.run_query("CREATE TABLE k.t (a int, b int, c int, v int, w text, PRIMARY KEY (a, b, c))");
    world.run_query("CREATE TABLE k.s (p text PRIMARY KEY, v blob)");
    world
}

#[test]
fn cells_rows_ranges_and_partitions_are_written_and_deleted() {
    for shards in 1..=4 {
        let mut world = world(shards);
        for a in 0..4 {
            for b in 0..3 {
                for c in 0..3 {
                    world.run_query(&format!("INSERT INTO k.t (a, b, c, v) VALUES ({a}, {b}, {c}, {})", b * 10 + c));
                }
            }
        }
        world.run_query("DELETE v FROM k.t WHERE a = 0 AND b = 0 AND c = 0");
        world.run_query("DELETE FROM k.t WHERE a = 0 AND b = 0 AND c = 1");
        world.run_query("DELETE FROM k.t WHERE a = 0 AND b = 1 AND c > 0");
        world.run_query("DELETE FROM k.t WHERE a = 0 AND b = 2");
        assert_eq!(world.ints("SELECT b, c, v FROM k.t WHERE a = 0"), [[0, 0, -1], [0, 2, 2], [1, 0, 10]]);
        world.run_query("DELETE FROM k.t WHERE a = 1");
        assert_eq!(world.ints("SELECT b FROM k.t WHERE a = 1"), Vec::<Vec<i64>>::new());
        world.run_query("UPDATE k.t SET v = 7, w = 'x' WHERE a IN (1, 2) AND b = 5 AND c IN (1, 2)");
        assert_eq!(world.ints("SELECT c, v FROM k.t WHERE a = 1"), [[1, 7], [2, 7]]);
        assert_eq!(world.ints("SELECT c, v FROM k.t WHERE a = 2 AND b = 5"), [[1, 7], [2, 7]]);
        // A row that UPDATE made disappears with its last cell; one that INSERT made does not.
        world.run_query("UPDATE k.t SET v = null, w = null WHERE a = 1 AND b = 5 AND c = 1");
        assert_eq!(world.ints("SELECT c FROM k.t WHERE a = 1"), [[2]]);
    }
}

#[test]
fn timestamps_decide_and_the_statement_s_own_comes_first() {
    let mut world = world(2);
    let at = |timestamp| Request { timestamp: Some(timestamp), ..Request::default() };
    let insert = "INSERT INTO k.t (a, b, c, v) VALUES (1, 1, 1, 1)";
    world.try_query(0, insert, at(500)).expect("written");
    assert_eq!(world.ints("SELECT writetime(v) FROM k.t WHERE a = 1"), [[500]]);
    let using = "INSERT INTO k.t (a, b, c, v) VALUES (1, 1, 1, 2) USING TIMESTAMP 400";
    world.try_query(0, using, at(600)).expect("written");
    assert_eq!(world.ints("SELECT v, writetime(v) FROM k.t WHERE a = 1"), [[1, 500]]);
    world.run_query("UPDATE k.t SET v = 3 WHERE a = 1 AND b = 1 AND c = 1");
    let first = world.ints("SELECT v, writetime(v) FROM k.t WHERE a = 1");
    world.run_query("UPDATE k.t SET v = 4 WHERE a = 1 AND b = 1 AND c = 1");
    let second = world.ints("SELECT v, writetime(v) FROM k.t WHERE a = 1");
    assert!(first[0][1] < second[0][1] && (first[0][0], second[0][0]) == (3, 4), "{first:?} {second:?}");

    let failure = world.try_query(0, insert, at(i64::MIN)).expect_err("out of bound");
    assert_eq!(failure.code, ErrorCode::Protocol);
    assert!(failure.text.ends_with("(got -9223372036854775808)"), "{failure}");
}

#[test]
fn nulls_unset_and_key_limits_have_cassandra_s_texts() {
    let mut world = world(2);
    let insert = "INSERT INTO k.t (a, b, c, v) VALUES (?, ?, ?, ?)";
    let cases = [
        (vec![Value::Null, int(1), int(1), int(1)], "Invalid null value in condition for column a"),
        (vec![Value::Unset, int(1), int(1), int(1)], "Invalid unset value for column a"),
        (vec![int(1), Value::Null, int(1), int(1)], "Invalid null value in condition for column b"),
        (vec![int(1), Value::Unset, int(1), int(1)], "Invalid unset value for column b"),
        (vec![int(1), int(1), int(1), text("12345")], "Expected 4 or 0 byte int (5)"),
        (vec![int(1)], "Invalid amount of bind variables"),
    ];
    for (bound, expected) in cases {
        assert_eq!(world.refusal(insert, values(&bound)), expected);
    }
    let id = world.prepare(0, insert).expect("prepared");
    let failure = world.execute(0, id, values(&[int(1)])).expect_err("too few");
    assert_eq!(failure.text, "there were 4 markers(?) in CQL but 1 bound variables");

    let key = |len| values(&[text(&"x".repeat(len))]);
    let insert = "INSERT INTO k.s (p) VALUES (?)";
    assert_eq!(world.refusal(insert, key(0)), "Key may not be empty");
    assert_eq!(world.refusal(insert, key(65536)), "Key length of 65536 is longer than maximum of 65535");
    world.try_query(0, insert, key(65535)).expect("the longest key");
    assert_eq!(world.rows_on(1, "SELECT p FROM k.s")[0][0].as_ref().map(Vec::len), Some(65535));

    // Unset leaves the value as it is; null deletes it.
    let insert = "INSERT INTO k.t (a, b, c, v, w) VALUES (9, 9, 9, ?, ?)";
    world.try_query(0, insert, values(&[int(1), text("w")])).expect("written");
    world.try_query(0, insert, values(&[Value::Unset, Value::Null])).expect("written");
    let rows = world.rows_on(0, "SELECT v, w FROM k.t WHERE a = 9");
    assert_eq!(rows, [[Some(1i32.to_be_bytes().to_vec()), None]]);
}

#[test]
fn batches_group_by_partition_and_warn() {
    let mut world = world(3);
    let insert = |a: usize| format!("INSERT INTO k.t (a, b, c, v) VALUES ({a}, 1, 1, 1)");
    let inserts = |count: usize| (0..count).map(insert).collect::<Vec<_>>();
    assert_eq!(world.batch(0, BatchKind::Unlogged, &inserts(10)).expect("written").warnings, Vec::<String>::new());
    assert_eq!(
        world.batch(0, BatchKind::Unlogged, &inserts(11)).expect("written").warnings,
        ["Unlogged batch covering 11 partitions detected against table [k.t]. You should use a logged batch for \
          atomicity, or asynchronous writes for performance."]
    );
    assert_eq!(world.ints("SELECT count(*) FROM k.t"), [[11]]);

    let big = |len: usize, keys: usize| -> Vec<String> {
        (0..3).map(|i| format!("INSERT INTO k.s (p, v) VALUES ('{}', 0x{})", i % keys, "00".repeat(len))).collect()
    };
    let warned = world.batch(0, BatchKind::Unlogged, &big(2000, 3)).expect("written").warnings;
    assert!(warned.len() == 1 && warned[0].starts_with("Batch for [k.s] is of size 6"), "{warned:?}");
    assert_eq!(world.batch(0, BatchKind::Logged, &big(20_000, 1)).expect("written").warnings, Vec::<String>::new());
    let failure = world.batch(0, BatchKind::Unlogged, &big(20_000, 3)).expect_err("too large");
    assert_eq!((failure.code, &*failure.text), (ErrorCode::Invalid, "Batch too large"));

    world.batch(0, BatchKind::Logged, &inserts(2)).expect("several partitions go through the batch log");
    let failure = world.batch(0, BatchKind::Counter, &inserts(1)).expect_err("no counters");
    assert_eq!(failure.text, "Cannot include non-counter statement in a counter batch");
    let select = vec!["SELECT * FROM k.t".to_owned()];
    let failure = world.batch(0, BatchKind::Unlogged, &select).expect_err("no modification");
    assert_eq!(failure.text, "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.");

    world.run_query(
        "BEGIN BATCH USING TIMESTAMP 7 INSERT INTO k.t (a, b, c, v) VALUES (50, 1, 1, 1); \
         UPDATE k.t SET v = 2 WHERE a = 50 AND b = 1 AND c = 2; DELETE FROM k.t WHERE a = 50 AND b = 1 AND c = 1; \
         APPLY BATCH",
    );
    assert_eq!(world.ints("SELECT c, v, writetime(v) FROM k.t WHERE a = 50"), [[2, 2, 7]]);
}

#[test]
fn a_request_of_the_own_core_sends_no_message_and_another_one() {
    let mut world = world(2);
    let insert = "INSERT INTO k.s (p, v) VALUES (?, ?)";
    let select = "SELECT v FROM k.s WHERE p = ?";
    let (insert, select) = (world.prepare(0, insert).expect("prepared"), world.prepare(0, select).expect("prepared"));
    for i in 0..20 {
        let key = format!("key {i}");
        let owner = usize::from(
            model::ShardMap::new(model::Partitioner::Murmur3, 2)
                .owner(model::Partitioner::Murmur3.token(key.as_bytes())),
        );
        for core in 0..2 {
            let before = world.messages(core);
            world.execute(core, insert, values(&[text(&key), text("v")])).expect("written");
            let written = world.messages(core);
            world.execute(core, select, values(&[text(&key)])).expect("read");
            let each = u64::from(core != owner);
            assert_eq!((written - before, world.messages(core) - written), (each, each));
        }
    }
}

#[test]
fn s18_a_full_memtable_that_cannot_be_flushed_is_overloaded_and_nothing_is_written() {
    let mut world = World::with_memory(1, 4 << 20);
    world.sim.set_disk_fault(NODE, |call, path| {
        let refuses = call == DiskCall::Open && path.to_string_lossy().contains("/k/");
        refuses.then(|| std::io::Error::from(std::io::ErrorKind::StorageFull))
    });
    world.run_query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    world.run_query("CREATE TABLE k.s (p int PRIMARY KEY, v blob)");
    let insert = "INSERT INTO k.s (p, v) VALUES (?, ?)";
    let mut refused = None;
    for p in 0..200 {
        let request = values(&[int(p), Value::Bytes(vec![7; 20_000])]);
        if let Err(failure) = world.try_query(0, insert, request) {
            refused = Some((p, failure));
            break;
        }
    }
    let (p, failure) = refused.expect("the budget ends");
    assert_eq!((failure.code, failure.outcome), (ErrorCode::Overloaded, Outcome::NotApplied));
    assert_eq!(world.ints("SELECT count(*) FROM k.s"), [[i64::from(p)]]);
    assert_eq!(world.ints(&format!("SELECT p FROM k.s WHERE p = {p}")), Vec::<Vec<i64>>::new());
}

#[test]
fn levels_are_checked_against_the_replication_factor() {
    let mut world = World::start(2);
    let created =
        world.run_query("CREATE KEYSPACE r WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}");
    assert_eq!(created.warnings, ["Your replication factor 3 for keyspace r is higher than the number of nodes 1"]);
    world.run_query("CREATE TABLE r.t (p int PRIMARY KEY, v int)");
    let at = |consistency| Request { consistency: Some(consistency), ..Request::default() };
    for statement in ["SELECT * FROM r.t WHERE p = 1", "INSERT INTO r.t (p, v) VALUES (1, 1)"] {
        let failure = world.try_query(0, statement, at(Consistency::Quorum)).expect_err("one node");
        assert_eq!(failure.code, ErrorCode::Unavailable);
        assert_eq!(failure.text, "Cannot achieve consistency level QUORUM");
        let detail = Detail::Unavailable { consistency: Consistency::Quorum, required: 2, alive: 1 };
        assert_eq!(failure.detail, detail);
        world.try_query(0, statement, at(Consistency::One)).expect("one is enough");
    }
    let failure = world.try_query(0, "SELECT * FROM r.t", at(Consistency::Any)).expect_err("a read at ANY");
    assert_eq!(failure.text, "ANY ConsistencyLevel is only supported for writes");
    let insert = "INSERT INTO r.t (p, v) VALUES (1, 1)";
    let failure = world.try_query(0, insert, at(Consistency::Serial)).expect_err("a plain write at SERIAL");
    assert_eq!(failure.text, "You must use conditional updates for serializable writes");
}

#[test]
fn in_restrictions_name_so_many_combinations_and_no_more() {
    let mut world = world(1);
    let list = |count: i32| {
        let elements = (0..count).flat_map(|i| [4i32.to_be_bytes(), i.to_be_bytes()].concat());
        Value::Bytes(count.to_be_bytes().into_iter().chain(elements).collect())
    };
    let select = "SELECT v FROM k.t WHERE a = 1 AND b IN ? AND c IN ?";
    world.try_query(0, select, values(&[list(256), list(256)])).expect("65536 combinations");
    let text = world.refusal(select, values(&[list(257), list(256)]));
    assert_eq!(text, "The IN restrictions name more than 65536 combinations of values");
    let delete = "DELETE FROM k.t WHERE a = 1 AND b IN ? AND c IN ?";
    assert_eq!(world.refusal(delete, values(&[list(65537), list(1)])), text);
}

#[test]
fn the_longest_clustering_is_written_and_one_more_byte_is_not() {
    let mut world = world(2);
    world.run_query("CREATE TABLE k.c (p int, c text, d text, PRIMARY KEY (p, c, d))");
    let insert = "INSERT INTO k.c (p, c, d) VALUES (1, ?, ?)";
    let of = |c: usize, d: usize| values(&[text(&"c".repeat(c)), text(&"d".repeat(d))]);
    world.try_query(0, insert, of(65534, 1)).expect("the longest");
    assert_eq!(world.refusal(insert, of(65535, 1)), "Key length of 65536 is longer than maximum of 65535");
    let rows = world.rows_on(1, "SELECT c, d FROM k.c WHERE p = 1");
    assert_eq!(rows[0].iter().map(|cell| cell.as_ref().map(Vec::len)).collect::<Vec<_>>(), [Some(65534), Some(1)]);
    // A page that ends at this row can be resumed.
    world.try_query(0, insert, of(65533, 2)).expect("written");
    assert_eq!(world.pages("SELECT c FROM k.c WHERE p = 1", 1).concat().len(), 2);
}

#[test]
fn a_write_that_takes_too_long_is_unknown_and_comes_to_its_end() {
    let mut world = world(2);
    let slow = Options { disk_latency: (Duration::from_secs(5), Duration::from_secs(6)), ..Options::default() };
    world.sim.set_options(slow);
    for core in 0..2 {
        let insert = format!("INSERT INTO k.t (a, b, c, v) VALUES (1, {core}, 1, 1)");
        let failure = world.try_query(core, &insert, Request::default()).expect_err("too slow");
        assert_eq!((failure.code, failure.outcome), (ErrorCode::WriteTimeout, Outcome::Unknown));
        let detail =
            Detail::WriteTimeout { consistency: Consistency::One, received: 0, block_for: 1, write_type: "SIMPLE" };
        assert_eq!(failure.detail, detail);
    }
    world.sim.set_options(Options::default());
    world.on(0, |_, _| runtime::sleep(Duration::from_secs(30)));
    assert_eq!(world.ints("SELECT b FROM k.t WHERE a = 1"), [[0], [1]]);
    world.crash();
    world.run(1);
    assert_eq!(world.ints("SELECT b FROM k.t WHERE a = 1"), [[0], [1]]);
}

//! Tombstones, batches and guardrails exactly at their thresholds and one beyond, with Cassandra's texts.

use super::world::{NODE, Request, World};
use model::failure::{Detail, FailureReason};
use model::{Consistency, ErrorCode};
use shard::DiskThresholds;
use shard::guardrails::{Guardrails, Threshold, Values};
use shard::{BatchThresholds, Config, TableAnswer, TableVerb, TombstoneThresholds};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const KEYSPACE: &str = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

fn tombstones(shards: usize) -> World {
    let mut world = World::with_config(shards, |config| {
        config.tombstones = TombstoneThresholds { warn: 5, fail: 20 };
    });
    for statement in [KEYSPACE, "CREATE TABLE k.t (k int, c int, v int, s int static, PRIMARY KEY (k, c))"] {
        world.run_query(statement);
    }
    for (key, dead) in [(1, 5), (2, 6), (3, 20), (4, 21)] {
        for at in 0..dead {
            world.run_query(&format!("DELETE FROM k.t WHERE k = {key} AND c = {at}"));
        }
        for at in 100..103 {
            world.run_query(&format!("INSERT INTO k.t (k, c, v) VALUES ({key}, {at}, {at})"));
        }
    }
    world
}

fn read(live: u64, dead: u64, query: &str, token: i64) -> Vec<String> {
    vec![format!(
        "Read {live} live rows and {dead} tombstone cells for query {query} ALLOW FILTERING; token {token} (see \
         tombstone_warn_threshold)"
    )]
}

const TOKEN_OF_2: i64 = -3248873570005575792;
const TOKEN_OF_3: i64 = 9010454139840013625;

#[test]
fn reads_of_tombstones_warn_and_then_fail() {
    for shards in [1, 3] {
        let mut world = tombstones(shards);
        let warnings =
            |world: &mut World, query: &str| world.try_query(0, query, Request::default()).expect("read").warnings;
        assert_eq!(warnings(&mut world, "SELECT * FROM k.t WHERE k = 1"), Vec::<String>::new());
        for (query, expected) in [
            ("SELECT * FROM k.t WHERE k = 2", read(3, 6, "SELECT * FROM k.t WHERE k = 2", TOKEN_OF_2)),
            ("SELECT * FROM k.t WHERE k = 3", read(3, 20, "SELECT * FROM k.t WHERE k = 3", TOKEN_OF_3)),
            (
                "SELECT v FROM k.t WHERE k = 2 AND c > -1 AND c <= 200 ORDER BY c DESC LIMIT 7",
                read(3, 6, "SELECT v FROM k.t WHERE k = 2 AND c > -1 AND c <= 200 ORDER BY c DESC LIMIT 7", TOKEN_OF_2),
            ),
            (
                "SELECT * FROM k.t WHERE k = 2 AND c >= 0 AND v = 1 ALLOW FILTERING",
                read(3, 6, "SELECT * FROM k.t WHERE k = 2 AND c >= 0 AND v = 1", TOKEN_OF_2),
            ),
            ("SELECT count(*) FROM k.t WHERE k = 2", read(3, 6, "SELECT * FROM k.t WHERE k = 2", TOKEN_OF_2)),
            (
                "SELECT * FROM k.t WHERE k = 2 AND c IN (1, 2, 3, 4, 5, 0, 100)",
                read(1, 6, "SELECT * FROM k.t WHERE k = 2 AND c IN (0, 1, 2, 3, 4, 5, 100)", TOKEN_OF_2),
            ),
            (
                "SELECT DISTINCT k FROM k.t WHERE k = 2",
                read(1, 6, "SELECT * FROM k.t WHERE k = 2 PER PARTITION LIMIT 1", TOKEN_OF_2),
            ),
            ("SELECT * FROM k.t WHERE k IN (1, 2)", read(3, 6, "SELECT * FROM k.t WHERE k = 2", TOKEN_OF_2)),
        ] {
            assert_eq!(warnings(&mut world, query), expected, "{query}, {shards} cores");
        }
        for query in [
            "SELECT * FROM k.t WHERE k = 4",
            "SELECT * FROM k.t WHERE k IN (1, 4)",
            "SELECT * FROM k.t",
            "SELECT count(*) FROM k.t WHERE k = 4",
            "SELECT * FROM k.t WHERE k IN (4, 1) ORDER BY c",
        ] {
            let failure = world.try_query(0, query, Request::default()).expect_err(query);
            let text = "Operation failed - received 0 responses and 1 failures: READ_TOO_MANY_TOMBSTONES from \
                        /127.0.0.1:7000";
            assert_eq!((failure.code, &*failure.text), (ErrorCode::ReadFailure, text), "{query}");
            let Detail::ReadFailure { consistency, received, block_for, failures, data_present } = failure.detail
            else {
                panic!("{query}: {:?}", failure.detail)
            };
            assert_eq!((consistency, received, block_for, data_present), (Consistency::One, 0, 1, false));
            assert_eq!(failures[0].1, FailureReason::ReadTooManyTombstones);
        }
        // Deleting a partition leaves a single deletion, which does not count as a tombstone.
        world.run_query("DELETE FROM k.t WHERE k = 4");
        assert_eq!(warnings(&mut world, "SELECT * FROM k.t WHERE k = 4"), Vec::<String>::new());
    }
}

#[test]
fn batches_warn_and_fail_where_they_are_told_to() {
    let mut world = World::with_config(2, |config| {
        config.batches = BatchThresholds { bytes_warn: 1 << 10, bytes_max: 4 << 10, unlogged_partitions_warn: 3 };
    });
    world.run_query(KEYSPACE);
    world.run_query("CREATE TABLE k.t (k int PRIMARY KEY, v blob)");
    let batch = |kind: &str, count: usize, bytes: usize| {
        let insert = |at: usize| format!("INSERT INTO k.t (k, v) VALUES ({at}, 0x{});", "00".repeat(bytes));
        format!("BEGIN {kind} BATCH {} APPLY BATCH", (0..count).map(insert).collect::<String>())
    };
    let warnings = |world: &mut World, text: &str| {
        let answer = world.try_query(0, text, Request::default());
        answer.map(|answer| answer.warnings).map_err(|failure| failure.text.into_owned())
    };
    assert_eq!(warnings(&mut world, &batch("", 2, 100)), Ok(Vec::new()));
    let warned = warnings(&mut world, &batch("", 2, 600)).expect("written");
    assert!(warned.len() == 1 && warned[0].contains("exceeding specified threshold of 1024 by "), "{warned:?}");
    assert_eq!(warnings(&mut world, &batch("", 2, 2_100)), Err("Batch too large".to_owned()));
    assert_eq!(warnings(&mut world, &batch("UNLOGGED", 3, 10)), Ok(Vec::new()));
    let warned = warnings(&mut world, &batch("UNLOGGED", 4, 10)).expect("written");
    assert!(warned.len() == 1 && warned[0].starts_with("Unlogged batch covering 4 partitions"), "{warned:?}");
}

#[test]
fn a_full_disk_takes_no_more_writes() {
    let mut world = World::with_config(2, |config| {
        config.guardrails = Some(Arc::default());
        let percentage = Threshold { warn: Some(50), fail: Some(80) };
        config.disk = DiskThresholds { percentage, bytes_max: None };
    });
    world.run_query(KEYSPACE);
    world.run_query("CREATE TABLE k.t (k int PRIMARY KEY, v blob)");
    let insert = "INSERT INTO k.t (k, v) VALUES (1, 0x00)";
    let mut at = |percent: u64, statement: &str| {
        let memory = world.on(0, |shard, _| async move { shard.on_every_shard(TableVerb::Memory).await });
        let bytes = |answer| if let TableAnswer::Memory(bytes) = answer { bytes } else { 0 };
        let memory: u64 = memory.expect("told").into_iter().map(bytes).sum();
        let files = world.sim.files(NODE).into_iter().filter(|(path, _)| path.starts_with("/data/data"));
        let files: u64 = files.map(|(_, len)| len).sum();
        let free = (files + memory) * 100 / percent - files;
        world.sim.set_disk_size(NODE, world.sim.disk_used(NODE) + free);
        world.on(0, |_, _| runtime::sleep(Duration::from_secs(31)));
        outcome(&mut world, statement, Request::default())
    };
    let warned = || Ok(vec!["Replica disk usage exceeds warning threshold".to_owned()]);
    let refused = || Err("Write request failed because disk usage exceeds failure threshold".to_owned());
    assert_eq!(at(40, insert), Ok(Vec::new()));
    assert_eq!(at(60, insert), warned());
    assert_eq!(at(90, insert), refused());
    assert_eq!(at(90, "BEGIN BATCH DELETE FROM k.t WHERE k = 1; APPLY BATCH"), refused());
    assert_eq!(at(90, "UPDATE k.t SET v = 0x01 WHERE k = 1 IF EXISTS"), Ok(Vec::new()));
    assert_eq!(at(90, "SELECT * FROM k.t"), Ok(Vec::new()));
    assert_eq!(at(40, insert), Ok(Vec::new()), "there is room again");
}

fn guarded(config: &mut Config) {
    let threshold = |warn, fail| Threshold { warn: Some(warn), fail: Some(fail) };
    config.guardrails = Some(Arc::new(Guardrails {
        keyspaces: threshold(1, 2),
        tables: threshold(3, 5),
        columns_per_table: threshold(4, 5),
        fields_per_udt: threshold(1, 2),
        secondary_indexes_per_table: threshold(1, 2),
        vector_dimensions: threshold(2, 3),
        maximum_replication_factor: threshold(1, 2),
        table_properties: Values {
            warned: BTreeSet::from(["comment"]),
            ignored: BTreeSet::from(["gc_grace_seconds"]),
            disallowed: BTreeSet::from(["crc_check_chance"]),
        },
        page_size: threshold(20, 60),
        partition_keys_in_select: threshold(2, 3),
        in_select_cartesian_product: threshold(4, 5),
        read_consistency_levels: Values {
            warned: BTreeSet::from([Consistency::Quorum]),
            disallowed: BTreeSet::from([Consistency::All]),
            ..Values::default()
        },
        write_consistency_levels: Values {
            warned: BTreeSet::from([Consistency::Quorum]),
            disallowed: BTreeSet::from([Consistency::All]),
            ..Values::default()
        },
        collection_size: threshold(90, 130),
        items_per_collection: threshold(3, 4),
        column_value_size: threshold(5, 6),
        user_timestamps: false,
        ..Guardrails::default()
    }));
}

/// The warnings of a statement, or the text of its refusal, without `Guardrail x violated: `.
fn outcome(world: &mut World, text: &str, request: Request) -> Result<Vec<String>, String> {
    let short = |text: &str| text.split_once(" violated: ").map_or(text, |(_, rest)| rest).to_owned();
    match world.try_query(0, text, request) {
        Ok(answer) => Ok(answer.warnings.iter().map(|text| short(text)).collect()),
        Err(failure) => Err(short(&failure.text)),
    }
}

#[test]
fn guardrails_of_definitions() {
    let mut world = World::with_config(2, guarded);
    let fine = Ok(Vec::new());
    let warned = |text: &str| Ok(vec![text.to_owned()]);
    let refused = |text: &str| Err(text.to_owned());
    let replication = |factor: u32| format!("{{'class': 'NetworkTopologyStrategy', 'datacenter1': {factor}}}");
    for (statement, expected) in [
        (KEYSPACE.to_owned(), fine.clone()),
        (
            format!("CREATE KEYSPACE l WITH replication = {}", replication(1)),
            warned("Creating keyspace l, current number of keyspaces 2 exceeds warning threshold of 1."),
        ),
        (
            format!("CREATE KEYSPACE m WITH replication = {}", replication(1)),
            refused("Cannot have more than 2 keyspaces, aborting the creation of keyspace m"),
        ),
        (
            format!("ALTER KEYSPACE l WITH replication = {}", replication(3)),
            refused("The keyspace l has a replication factor of 3, above the failure threshold of 2."),
        ),
        ("CREATE TABLE k.a (k int PRIMARY KEY, a int, b int, c int)".into(), fine.clone()),
        (
            "ALTER TABLE k.a ADD d int".into(),
            warned("The table a has 5 columns, this exceeds the warning threshold of 4."),
        ),
        (
            "ALTER TABLE k.a ADD e int".into(),
            refused("Tables cannot have more than 5 columns, but 6 provided for table a"),
        ),
        ("CREATE INDEX i1 ON k.a (a)".into(), fine.clone()),
        (
            "CREATE INDEX i2 ON k.a (b)".into(),
            warned(
                "Creating secondary index i2 on table a, current number of indexes 2 exceeds warning threshold of 1.",
            ),
        ),
        (
            "CREATE INDEX i3 ON k.a (c)".into(),
            refused(
                "Tables cannot have more than 2 secondary indexes, aborting the creation of secondary index i3 on table a",
            ),
        ),
        ("CREATE TYPE k.t (a int)".into(), fine.clone()),
        (
            "ALTER TYPE k.t ADD b int".into(),
            warned("The user type t has 2 columns, this exceeds the warning threshold of 1."),
        ),
        (
            "ALTER TYPE k.t ADD c int".into(),
            refused("User types cannot have more than 2 columns, but 3 provided for user type t."),
        ),
        ("CREATE TABLE k.v (k int PRIMARY KEY, v vector<float, 2>)".into(), fine.clone()),
        (
            "ALTER TABLE k.v ADD w vector<float, 3>".into(),
            warned("Column w has a vector of 3 dimensions, this exceeds the warning threshold of 2."),
        ),
        (
            "ALTER TABLE k.v ADD x vector<float, 4>".into(),
            refused("Column x has a vector of 4 dimensions, this exceeds the failure threshold of 3."),
        ),
        (
            "CREATE TABLE k.p (k int PRIMARY KEY) WITH comment = 'x'".into(),
            warned("Provided values [comment] are not recommended for Table Properties (warned values are: [comment])"),
        ),
        (
            "ALTER TABLE k.p WITH gc_grace_seconds = 7".into(),
            warned(
                "Ignoring provided values [gc_grace_seconds] as they are not supported for Table Properties (ignored values \
                 are: [gc_grace_seconds])",
            ),
        ),
        (
            "ALTER TABLE k.p WITH crc_check_chance = 0.5".into(),
            refused(
                "Provided values [crc_check_chance] are not allowed for Table Properties (disallowed values are: \
                 [crc_check_chance])",
            ),
        ),
        (
            "CREATE TABLE k.q (k int PRIMARY KEY)".into(),
            warned("Creating table q, current number of tables 4 exceeds warning threshold of 3."),
        ),
        (
            "CREATE TABLE l.q (k int PRIMARY KEY)".into(),
            warned("Creating table q, current number of tables 5 exceeds warning threshold of 3."),
        ),
        (
            "CREATE TABLE k.r (k int PRIMARY KEY)".into(),
            refused("Cannot have more than 5 tables, aborting the creation of table r"),
        ),
    ] {
        assert_eq!(outcome(&mut world, &statement, Request::default()), expected, "{statement}");
    }
}

#[test]
fn use_can_be_switched_off() {
    let mut world = World::with_config(1, |config| config.use_statements = false);
    world.run_query(KEYSPACE);
    let text = "USE statements prohibited. (see use_statements_enabled in cassandra.yaml)";
    assert_eq!(world.refusal("USE k", Request::default()), text);
}

#[test]
fn guardrails_of_reads_and_writes() {
    let mut world = World::with_config(2, guarded);
    world.run_query(KEYSPACE);
    world.run_query("CREATE TABLE k.t (k int, c int, l list<int>, v text, PRIMARY KEY (k, c))");
    let page = |rows| Request { page_size: Some(rows), ..Request::default() };
    let at = |consistency| Request { consistency: Some(consistency), ..Request::default() };
    let plain = Request::default;
    let fine = Ok(Vec::new());
    let warned = |text: &str| Ok(vec![text.to_owned()]);
    let refused = |text: &str| Err(text.to_owned());
    let insert = |values: &str| format!("INSERT INTO k.t (k, c, {values})");
    for (statement, request, expected) in [
        ("SELECT * FROM k.t".to_owned(), page(20), fine.clone()),
        (
            "SELECT * FROM k.t".into(),
            page(21),
            warned("Query for table t with page size 21 exceeds warning threshold of 20."),
        ),
        (
            "SELECT * FROM system.local".into(),
            page(61),
            refused("Aborting query for table local, page size 61 exceeds fail threshold of 60."),
        ),
        ("SELECT * FROM k.t WHERE k IN (1, 2)".into(), plain(), fine.clone()),
        (
            "SELECT * FROM k.t WHERE k IN (1, 2, 3)".into(),
            plain(),
            warned(
                "Query with partition keys in IN clause on table t, with number of partition keys 3 exceeds warning \
                 threshold of 2.",
            ),
        ),
        (
            "SELECT * FROM k.t WHERE k IN (1, 2, 3, 4)".into(),
            plain(),
            refused(
                "Aborting query with partition keys in IN clause on table t, number of partition keys 4 exceeds fail \
                 threshold of 3.",
            ),
        ),
        ("DELETE FROM k.t WHERE k = 1 AND c IN (1, 2, 3, 4)".into(), plain(), fine.clone()),
        (
            "DELETE FROM k.t WHERE k = 1 AND c IN (1, 2, 3, 4, 5)".into(),
            plain(),
            warned(
                "The cartesian product of the IN restrictions on clustering key produces 5 values, this exceeds warning \
                 threshold of 4.",
            ),
        ),
        (
            "SELECT * FROM k.t WHERE k = 1 AND c IN (1, 2, 3, 4, 5, 6)".into(),
            plain(),
            refused(
                "Aborting query because the cartesian product of the IN restrictions on clustering key produces 6 values, \
                 this exceeds fail threshold of 5.",
            ),
        ),
        (
            "SELECT * FROM k.t".into(),
            at(Consistency::Quorum),
            warned(
                "Provided values [QUORUM] are not recommended for read consistency levels (warned values are: [QUORUM])",
            ),
        ),
        (
            "DELETE FROM k.t WHERE k = 1".into(),
            at(Consistency::All),
            refused(
                "Provided values [ALL] are not allowed for write consistency levels (disallowed values are: [ALL])",
            ),
        ),
        (format!("{} VALUES (1, 1, [1, 2])", insert("l")), plain(), fine.clone()),
        (
            format!("{} VALUES (1, 1, [1, 2, 3])", insert("l")),
            plain(),
            warned("Detected collection l of size 120, this exceeds the warning threshold of 90."),
        ),
        (
            "UPDATE k.t SET l = l + [1, 2, 3, 4, 5] WHERE k = 1 AND c = 1".into(),
            plain(),
            refused("Detected collection l with 5 items, this exceeds the failure threshold of 4."),
        ),
        (format!("{} VALUES (1, 1, '12345')", insert("v")), plain(), fine.clone()),
        (
            format!("{} VALUES (1, 1, '123456')", insert("v")),
            plain(),
            warned("Value of column 'v' has size 6, this exceeds the warning threshold of 5."),
        ),
        (
            format!("{} VALUES (1, 1, '1234567')", insert("v")),
            plain(),
            refused("Value of column 'v' has size 7, this exceeds the failure threshold of 6."),
        ),
        (
            format!("{} VALUES (1, 1, 'x') USING TIMESTAMP 5", insert("v")),
            plain(),
            refused("User provided timestamps (USING TIMESTAMP) is not allowed"),
        ),
    ] {
        assert_eq!(outcome(&mut world, &statement, request), expected, "{statement}");
    }
}

#[test]
fn sizes_of_partition_keys_and_of_rows() {
    let mut world = World::with_config(2, |config| {
        let threshold = |warn, fail| Threshold { warn: Some(warn), fail: Some(fail) };
        let guardrails =
            Guardrails { partition_key_size: threshold(4, 8), row_size: threshold(10, 20), ..Guardrails::default() };
        config.guardrails = Some(Arc::new(guardrails));
    });
    world.run_query(KEYSPACE);
    world.run_query("CREATE TABLE k.t (k text PRIMARY KEY, a text, b text, l list<text>)");
    let key = |bytes: usize| format!("INSERT INTO k.t (k, a) VALUES ('{}', 'x')", "k".repeat(bytes));
    let row =
        |a: usize, b: usize| format!("UPDATE k.t SET a = '{}', b = '{}' WHERE k = 'k'", "a".repeat(a), "b".repeat(b));
    let long = "exceeds the warning threshold of 4.";
    for (statement, expected) in [
        (key(4), Ok(Vec::new())),
        (key(5), Ok(vec![format!("Partition key of table t has size 5, this {long}")])),
        (key(8), Ok(vec![format!("Partition key of table t has size 8, this {long}")])),
        (key(9), Err("Partition key of table t has size 9, this exceeds the failure threshold of 8.".to_owned())),
        (row(5, 5), Ok(Vec::new())),
        (
            row(5, 6),
            Ok(vec![
                "Row of table t that is written has size 11, this exceeds the warning threshold of 10.".to_owned(),
            ]),
        ),
        (
            row(10, 11),
            Err("Row of table t that is written has size 21, this exceeds the failure threshold of 20.".to_owned()),
        ),
        (format!("BEGIN BATCH {}; {}; APPLY BATCH", row(5, 5), row(5, 5)), Ok(Vec::new())),
        (
            "UPDATE k.t SET l = ['0123456789', '0123456789', 'x'] WHERE k = 'k'".to_owned(),
            Err("Row of table t that is written has size 21, this exceeds the failure threshold of 20.".to_owned()),
        ),
        ("SELECT * FROM k.t WHERE k = 'a long key'".to_owned(), Ok(Vec::new())),
    ] {
        assert_eq!(outcome(&mut world, &statement, Request::default()), expected, "{statement}");
    }
}

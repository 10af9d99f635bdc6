//! Sequences of schema changes: the schema after each of them, and the limits of its size.

use cql::TYPE_PARTS_MAX;
use cql::define::{
    Applied, ChangeKind, ChangeTarget, DefinitionContext, INDEXES_MAX, KEYSPACES_MAX, TABLES_MAX, USER_TYPES_MAX,
};
use cql::plan::Plan;
use model::quota::{QUOTA_UNITS_MAX, Quota, STORED_QUOTAS_MAX};
use model::schema::KeyspaceTablets;
use model::tablets::TableTablets;
use model::types::{FIELDS_MAX, TYPE_DEPTH_MAX, UserType};
use model::write_sharding::SHARDS_MAX;
use model::{
    ColumnId, ColumnKind, ErrorCode, Failure, KeyGrowth, Keyspace, MemtableConfigurations, Schema, ShardedBy, Table,
    TableId, WriteSharding,
};
use std::collections::BTreeMap;
use std::sync::Arc;

#[path = "definitions/keyspaces.rs"]
mod keyspaces;

/// A schema to which statements are applied.
struct World {
    schema: Schema,
    next_id: u128,
    has_tablets: bool,
    has_write_sharding: bool,
    has_key_growth: bool,
    grown_keys: BTreeMap<TableId, u16>,
    has_quotas: bool,
    has_stored_quotas: bool,
}

impl World {
    /// A schema with an empty keyspace `k`.
    fn new() -> World {
        let mut world = World {
            schema: Schema::empty(model::Partitioner::Murmur3),
            next_id: 1,
            has_tablets: true,
            has_write_sharding: true,
            has_key_growth: true,
            grown_keys: Default::default(),
            has_quotas: true,
            has_stored_quotas: true,
        };
        world.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}");
        world
    }

    fn apply(&mut self, text: &str) -> Result<Applied, Failure> {
        let prepared = cql::prepare(&cql::parse(text)?, Some("k"), &self.schema)?;
        let Plan::Define(define) = prepared.plan else { panic!("{text} is no definition") };
        self.next_id += 1;
        let new_id = TableId(self.next_id.to_be_bytes());
        let site = DefinitionContext {
            data_center: "datacenter1",
            nodes: &std::collections::BTreeMap::from([("datacenter1".to_owned(), 1)]),
            now_micros: 5_000,
            new_id,
            memtables: &MemtableConfigurations::default(),
            default_compaction: None,
            drop_compact_storage: true,
            has_repair_proofs: true,
            has_tablets: self.has_tablets,
            has_write_sharding: self.has_write_sharding,
            has_sub_partition_growth: self.has_write_sharding,
            has_key_growth: self.has_key_growth,
            grown_keys: &self.grown_keys,
            has_quotas: self.has_quotas,
            has_stored_quotas: self.has_stored_quotas,
            masking: cql::define::Masking::On,
            guardrails: None,
        };
        let applied = cql::define::apply(&define, &self.schema, &site)?;
        if let Some(change) = &applied.change {
            match &change.after {
                Some(after) => self.schema.put_keyspace(Arc::new(after.clone())),
                None => self.schema.drop_keyspace(&change.keyspace),
            }
        }
        Ok(applied)
    }

    /// Runs a statement that must change the schema.
    fn run(&mut self, text: &str) {
        let applied = self.apply(text).unwrap_or_else(|failure| panic!("{text}: {failure}"));
        assert!(applied.change.is_some(), "{text} changes nothing");
    }

    fn failure(&mut self, text: &str) -> String {
        self.apply(text).expect_err(text).text.into_owned()
    }

    fn table(&self, name: &str) -> &Table {
        self.schema.table("k", name).expect("a table")
    }

    fn user_type(&self, name: &str) -> &Arc<UserType> {
        &self.schema.keyspace("k").expect("a keyspace").types[name]
    }
}

fn columns(table: &Table) -> Vec<(&str, u16)> {
    table.columns.iter().map(|column| (column.name.as_str(), column.id.0)).collect()
}

#[test]
fn options_without_effect_are_told() {
    let mut world = World::new();
    let mut warnings = |text: &str| world.apply(text).expect(text).warnings;
    let nothing: [&str; 0] = [];
    // As DESCRIBE prints them.
    assert_eq!(
        warnings("CREATE TABLE t (a int PRIMARY KEY) WITH speculative_retry = '99p' AND read_repair = 'BLOCKING'"),
        nothing
    );
    assert_eq!(
        warnings("CREATE TABLE u (a int PRIMARY KEY) WITH caching = {'keys': 'NONE'} AND crc_check_chance = 0.5"),
        ["The table options caching, crc_check_chance are kept and shown but have no effect"]
    );
    assert_eq!(warnings("ALTER TABLE u WITH comment = 'only what is set now'"), nothing);
    assert_eq!(
        warnings("ALTER TABLE u WITH min_index_interval = 64"),
        ["The table option min_index_interval is kept and shown but has no effect"]
    );
    assert_eq!(warnings("ALTER TABLE u WITH min_index_interval = 128"), nothing);
}

#[test]
fn the_number_of_sub_partitions_grows() {
    let mut world = World::new();
    let columns = "(a int, b int, c int, v int, PRIMARY KEY (a, b, c))";
    let by_b = |shards: u16| format!("write_sharding = {{'shards': {shards}, 'by': ['b']}}");
    world.run(&format!("CREATE TABLE t {columns} WITH {}", by_b(6)));
    world.run(&format!("CREATE TABLE plain {columns}"));
    let has = |world: &World| world.table("t").options.write_sharding.as_ref().map(|sharding| sharding.shards);
    let multiples = "shards must be a multiple of those that table k.t has: 12, 18 and so on up to 996";
    for (table, option, refused) in [
        ("t", by_b(5), "table k.t has 6 shards, and there cannot be less"),
        ("t", by_b(7), multiples),
        ("t", by_b(1_000), multiples),
        (
            "t",
            "write_sharding = {'shards': 12, 'by': ['c']}".to_owned(),
            "what chooses the sub-partition of a row stays as it \
          was when the table was created",
        ),
        (
            "t",
            "write_sharding = {'shards': 12, 'mode': 'random'}".to_owned(),
            "what chooses the sub-partition of a row stays \
          as it was when the table was created",
        ),
        ("plain", by_b(2), "table k.plain was created without it, and its rows are where they were written"),
        (
            "t",
            format!("{} AND gc_grace_seconds = 3599", by_b(12)),
            "rows of table k.t would be copied while deletions are forgotten; gc_grace_seconds must be at least 3600, and \
             tombstone_gc not immediate",
        ),
    ] {
        let found = world.failure(&format!("ALTER TABLE {table} WITH {option}"));
        assert_eq!(found, format!("write_sharding cannot be changed: {refused}"), "{option}");
    }
    assert_eq!(has(&world), Some(6));
    world.run(&format!("ALTER TABLE t WITH {} AND comment = 'the same'", by_b(6)));
    world.run(&format!("ALTER TABLE t WITH {} AND gc_grace_seconds = 3600", by_b(996)));
    assert_eq!(has(&world), Some(996));
    let most = "write_sharding cannot be changed: table k.t has 996 shards, and a multiple of that is above 1000";
    assert_eq!(world.failure(&format!("ALTER TABLE t WITH {}", by_b(998))), most);
    let counters = "(a int, b int, n counter, PRIMARY KEY (a, b))";
    world.run(&format!("CREATE TABLE n {counters} WITH {}", by_b(2)));
    assert_eq!(
        world.failure(&format!("ALTER TABLE n WITH {}", by_b(4))),
        "write_sharding cannot be changed: table k.n has counters, which cannot be copied while they are counted"
    );
}

#[test]
fn keys_grow_by_themselves_as_the_table_says() {
    let mut world = World::new();
    let columns = "(a int, b int, c int, v int, PRIMARY KEY (a, b, c))";
    let option = |world: &World, name: &str| world.table(name).options.write_sharding.as_deref().cloned();
    let by_b = |more: &str| format!("write_sharding = {{'shards': 'auto', 'by': ['b']{more}}}");
    let auto = |shards, size_max, throughput_max| {
        let growth = Some(KeyGrowth { size_max, throughput_max });
        Some(WriteSharding { shards, by: ShardedBy::Clustering(vec![0]), growth })
    };
    world.run(&format!("CREATE TABLE t {columns} WITH {}", by_b("")));
    assert_eq!(option(&world, "t"), auto(1, 128 << 20, 1_000));
    let random = "write_sharding = {'shards': 'AUTO', 'mode': 'random', 'sub_partition_size': '64KiB'}";
    world.run(&format!("CREATE TABLE r {columns} WITH {random}"));
    let growth = Some(KeyGrowth { size_max: 64 << 10, throughput_max: 0 });
    assert_eq!(option(&world, "r"), Some(WriteSharding { shards: 1, by: ShardedBy::Random, growth }));
    let more = ", 'initial_shards': 20, 'sub_partition_size': '30GiB', 'sub_partition_throughput': 1000000";
    world.run(&format!("CREATE TABLE u {columns} WITH {}", by_b(more)));
    assert_eq!(option(&world, "u"), auto(20, 30 << 30, 1_000_000));
    for (table, shown) in [
        ("t", "{'shards': 'auto', 'sub_partition_size': '128MiB', 'sub_partition_throughput': 1000, 'by': ['b']}"),
        ("r", "{'shards': 'auto', 'sub_partition_size': '64KiB', 'mode': 'random'}"),
        (
            "u",
            "{'shards': 'auto', 'initial_shards': 20, 'sub_partition_size': '30GiB', 'sub_partition_throughput': \
             1000000, 'by': ['b']}",
        ),
    ] {
        let known = option(&world, table).expect("an option");
        assert_eq!(known.to_cql(&["b", "c"]), shown);
        world.run(&format!("CREATE TABLE again {columns} WITH write_sharding = {shown}"));
        assert_eq!(option(&world, "again"), Some(known), "what is shown can be run");
        world.run("DROP TABLE again");
    }
    let size = |size: &str| {
        format!(
            "sub_partition_size of write_sharding must be a size from 64KiB to 30GiB, such as 128MiB, or 0 (got {size})"
        )
    };
    let busy = |got: &str| {
        format!(
            "sub_partition_throughput of write_sharding must be requests a second from 1 to 1000000, or 0 (got {got})"
        )
    };
    for (option, refused) in [
        (by_b(", 'sub_partition_size': '65535B'"), size("65535B")),
        (by_b(", 'sub_partition_size': '31GiB'"), size("31GiB")),
        (by_b(", 'sub_partition_size': 'large'"), size("large")),
        (by_b(", 'sub_partition_throughput': 1000001"), busy("1000001")),
        (by_b(", 'sub_partition_throughput': -1"), busy("-1")),
        (
            by_b(", 'initial_shards': 1001"),
            "initial_shards of write_sharding must be a number from 1 to 1000 (got 1001)".to_owned(),
        ),
        (
            "write_sharding = {'shards': 'many', 'by': ['b']}".to_owned(),
            "shards of write_sharding must be a number from 1 to 1000, or 'auto' (got many)".to_owned(),
        ),
        (
            "write_sharding = {'shards': 4, 'sub_partition_size': '1GiB', 'by': ['b']}".to_owned(),
            "sub_partition_size of write_sharding needs 'shards': 'auto'".to_owned(),
        ),
        (
            "write_sharding = {'shards': 'auto', 'mode': 'random', 'sub_partition_throughput': 5}".to_owned(),
            "sub_partition_throughput of write_sharding cannot be used with the mode random, whose rows are read from \
             all sub-partitions: more of them would not be less busy"
                .to_owned(),
        ),
        (
            format!("{} AND gc_grace_seconds = 3599", by_b("")),
            "write_sharding cannot be used: rows of table k.x would be copied while deletions are forgotten; \
             gc_grace_seconds must be at least 3600, and tombstone_gc not immediate"
                .to_owned(),
        ),
    ] {
        assert_eq!(world.failure(&format!("CREATE TABLE x {columns} WITH {option}")), refused, "{option}");
    }
    assert_eq!(
        world.failure(&format!("CREATE TABLE x (a int, b int, n counter, PRIMARY KEY (a, b)) WITH {}", by_b(""))),
        "write_sharding cannot be used: table k.x has counters, which cannot be copied while they are counted"
    );
    world.has_key_growth = false;
    let old = "Some nodes run a version in which write_sharding has no 'shards': 'auto'; update them first";
    assert_eq!(world.failure(&format!("CREATE TABLE x {columns} WITH {}", by_b(""))), old);
    assert_eq!(world.failure(&format!("ALTER TABLE t WITH {}", by_b(", 'sub_partition_size': 0"))), old);
}

#[test]
fn tables_begin_and_cease_to_grow_by_themselves() {
    let mut world = World::new();
    let columns = "(a int, b int, c int, v int, PRIMARY KEY (a, b, c))";
    let option = |world: &World| {
        let sharding = world.table("t").options.write_sharding.as_deref().cloned().expect("an option");
        (sharding.shards, sharding.growth)
    };
    let by_b = |shards: &str| format!("ALTER TABLE t WITH write_sharding = {{'shards': {shards}, 'by': ['b']}}");
    world.run(&format!("CREATE TABLE t {columns} WITH write_sharding = {{'shards': 6, 'by': ['b']}}"));
    world.run(&by_b("'auto'"));
    let default = Some(KeyGrowth { size_max: 128 << 20, throughput_max: 1_000 });
    assert_eq!(option(&world), (6, default));
    assert_eq!(
        world.failure(&by_b("'auto', 'initial_shards': 12")),
        "write_sharding cannot be changed: keys of table k.t begin with 6 shards, and initial_shards cannot be other than \
         that"
    );
    world.run(&by_b("'auto', 'initial_shards': 6, 'sub_partition_size': 0, 'sub_partition_throughput': 7"));
    assert_eq!(option(&world), (6, Some(KeyGrowth { size_max: 0, throughput_max: 7 })));
    assert_eq!(
        world.failure("ALTER TABLE t WITH gc_grace_seconds = 60"),
        "Keys of table k.t grow by themselves (write_sharding), and rows would be copied while deletions are forgotten; \
         gc_grace_seconds must be at least 3600, and tombstone_gc not immediate"
    );
    assert_eq!(
        world.failure(&by_b("3")),
        "write_sharding cannot be changed: table k.t has 6 shards, and there cannot be less"
    );
    let grown = "write_sharding cannot be changed: keys of table k.t have grown by themselves, up to 24 shards, and keep \
                 what they have; with 'sub_partition_size': 0 and 'sub_partition_throughput': 0 no more keys grow";
    world.grown_keys.insert(world.table("t").id, 24);
    for shards in ["6", "12", "24", "48"] {
        assert_eq!(world.failure(&by_b(shards)), grown);
    }
    world.run(&by_b("'auto', 'sub_partition_size': 0, 'sub_partition_throughput': 0"));
    world.grown_keys.clear();
    world.run(&by_b("12"));
    assert_eq!(option(&world), (12, None));
    world.run("ALTER TABLE t WITH gc_grace_seconds = 60");
    assert_eq!(
        world.failure(&by_b("'auto'")),
        "write_sharding cannot be changed: rows of table k.t would be copied while deletions are forgotten; \
         gc_grace_seconds must be at least 3600, and tombstone_gc not immediate"
    );
}

#[test]
fn keys_are_spread_as_the_table_says() {
    let mut world = World::new();
    let columns = "(a int, b text, c int, d decimal, v int, PRIMARY KEY (a, b, c, d))";
    let option = |world: &World, name: &str| world.table(name).options.write_sharding.as_deref().cloned();
    world.run(&format!("CREATE TABLE t {columns} WITH write_sharding = {{'shards': 200, 'by': ['c', 'b']}}"));
    let by_two = WriteSharding { shards: 200, by: ShardedBy::Clustering(vec![0, 1]), growth: None };
    let of_t = Some(by_two.clone());
    assert_eq!(option(&world, "t"), of_t);
    let calculated = "{'shards': '1', 'mode': 'Calculated', 'by': 'b'}";
    world.run(&format!("CREATE TABLE u {columns} WITH write_sharding = {calculated}"));
    assert_eq!(
        option(&world, "u"),
        Some(WriteSharding { shards: 1, by: ShardedBy::Clustering(vec![0]), growth: None })
    );
    world.run(&format!("CREATE TABLE r {columns} WITH write_sharding = {{'shards': {SHARDS_MAX}, 'mode': 'random'}}"));
    assert_eq!(option(&world, "r"), Some(WriteSharding { shards: SHARDS_MAX, by: ShardedBy::Random, growth: None }));

    world.run("ALTER TABLE t RENAME b TO bb");
    world.run("ALTER TABLE t WITH comment = 'other options'");
    world.run("ALTER TABLE t ADD w int");
    assert_eq!(option(&world, "t"), of_t);
    assert_eq!(by_two.to_cql(&["bb", "c"]), "{'shards': 200, 'by': ['bb', 'c']}");
    let static_column = "write_sharding cannot be used: column 's' is static";
    assert_eq!(world.failure("ALTER TABLE t ADD s int static"), static_column);
    world.run("ALTER TABLE t WITH write_sharding = {'shards': 600, 'by': ['c', 'bb']}");
    assert_eq!(option(&world, "t"), Some(WriteSharding { shards: 600, ..by_two }));
    assert_eq!(
        world.failure("ALTER TABLE t WITH write_sharding = true"),
        "Invalid value for property 'write_sharding'. It should be a map."
    );
    for (option, refused) in [
        ("{'by': ['b']}", "write_sharding needs the number of shards, or 'shards': 'auto'"),
        ("{'shards': 0, 'by': ['b']}", "shards of write_sharding must be a number from 1 to 1000, or 'auto' (got 0)"),
        (
            "{'shards': 1001, 'by': ['b']}",
            "shards of write_sharding must be a number from 1 to 1000, or 'auto' (got 1001)",
        ),
        ("{'shards': -1, 'by': ['b']}", "shards of write_sharding must be a number from 1 to 1000, or 'auto' (got -1)"),
        ("{'shards': 9}", "write_sharding needs clustering columns in by, such as 'by': ['c'], or 'mode': 'random'"),
        (
            "{'shards': 9, 'by': []}",
            "write_sharding needs clustering columns in by, such as 'by': ['c'], or 'mode': 'random'",
        ),
        (
            "{'shards': 9, 'mode': 'random', 'by': ['b']}",
            "write_sharding with the mode random cannot name columns in by",
        ),
        ("{'shards': 9, 'mode': 'other'}", "mode of write_sharding must be calculated or random (got other)"),
        ("{'shards': 9, 'per': 'b'}", "Unknown option 'per' of write_sharding"),
        ("{'shards': 9, 'by': ['v']}", "write_sharding cannot be used: 'v' in by is no clustering column of table x"),
        ("{'shards': 9, 'by': ['a']}", "write_sharding cannot be used: 'a' in by is no clustering column of table x"),
        ("{'shards': 9, 'by': ['b', 'b']}", "write_sharding cannot be used: by names 'b' twice"),
        (
            "{'shards': 9, 'by': ['d']}",
            "write_sharding cannot be used: column 'd' in by has the type decimal, whose equal values can have \
             different bytes",
        ),
    ] {
        let text = format!("CREATE TABLE x {columns} WITH write_sharding = {option}");
        assert_eq!(world.failure(&text), refused, "{option}");
    }
    let by_b = "write_sharding = {'shards': 9, 'by': ['b']}";
    for (columns, refused) in [
        ("(a int, b int, s int static, PRIMARY KEY (a, b))", static_column),
        ("(a int PRIMARY KEY, b int)", "write_sharding cannot be used: table x has no clustering columns"),
    ] {
        assert_eq!(world.failure(&format!("CREATE TABLE x {columns} WITH {by_b}")), refused);
    }
    assert_eq!(
        world.failure(
            "CREATE TABLE x (a int, b int, n counter, PRIMARY KEY (a, b)) WITH write_sharding = {'shards': 9, 'mode': \
             'random'}"
        ),
        "write_sharding cannot be used: counters are updated, which the mode random does not allow"
    );
    world.has_write_sharding = false;
    let text = format!("CREATE TABLE x {columns} WITH {by_b}");
    let grow = "ALTER TABLE u WITH write_sharding = {'shards': 2, 'by': ['bb']}";
    assert_eq!(
        world.failure(grow.replace("bb", "b").as_str()),
        "Some nodes run a version in which write_sharding does not change; update them first"
    );
    assert_eq!(world.failure(&text), "Some nodes run a version without write_sharding; update them first");
    world.has_write_sharding = true;
    world.schema.partitioner = model::Partitioner::Random;
    assert_eq!(world.failure(&text), "write_sharding cannot be used: the partitioner is RandomPartitioner");
}

#[test]
fn what_changes_is_told_and_what_does_not_is_not() {
    let mut world = World::new();
    let change = world.apply("CREATE TABLE t (a int PRIMARY KEY)").expect("applies").change.expect("a change");
    assert_eq!((change.kind, change.target), (ChangeKind::Created, ChangeTarget::Table));
    assert_eq!((change.keyspace.as_str(), change.name.as_str(), change.given_id), ("k", "t", None));
    for nothing in [
        "CREATE TABLE IF NOT EXISTS t (b int PRIMARY KEY)",
        "CREATE KEYSPACE IF NOT EXISTS k WITH replication = {'class': 'SimpleStrategy'}",
        "DROP TABLE IF EXISTS u",
        "DROP TYPE IF EXISTS u",
        "ALTER TABLE IF EXISTS u ADD c int",
        "ALTER TABLE t WITH comment = ''",
        "ALTER TABLE t ADD IF NOT EXISTS a int",
        "ALTER TABLE t DROP IF EXISTS c",
        "ALTER KEYSPACE k WITH durable_writes = true",
        "ALTER TYPE IF EXISTS u ADD c int",
    ] {
        assert_eq!(world.apply(nothing).expect(nothing).change, None, "{nothing}");
    }
    let change = world.apply("ALTER TABLE t ADD b int").expect("applies").change.expect("a change");
    assert_eq!((change.kind, change.target, change.name.as_str()), (ChangeKind::Updated, ChangeTarget::Table, "t"));
    let change = world.apply("DROP KEYSPACE k").expect("applies").change.expect("a change");
    assert_eq!((change.kind, change.target, change.name.as_str()), (ChangeKind::Dropped, ChangeTarget::Keyspace, ""));
    assert!(change.after.is_none() && world.schema.tables.is_empty());
}

#[test]
fn tables_say_how_many_tablets_they_want() {
    let mut world = World::new();
    world.run(
        "CREATE KEYSPACE t WITH replication = {'class': 'NetworkTopologyStrategy'} AND tablets = {'enabled': true}",
    );
    let option = |world: &World| world.schema.table("t", "t").expect("there").options.tablets;
    world.run("CREATE TABLE t.t (a int PRIMARY KEY) WITH tablets = {'min_tablet_count': 4, 'max_tablet_count': '16'}");
    assert_eq!(option(&world), TableTablets { min: Some(4), max: Some(16), expected_gb: None });
    world.run("ALTER TABLE t.t WITH tablets = {'expected_data_size_in_gb': 500}");
    let expected = TableTablets { expected_gb: Some(500), ..TableTablets::default() };
    assert_eq!(option(&world), expected);
    world.run("ALTER TABLE t.t WITH comment = 'x'");
    assert_eq!(option(&world), expected);
    world.run("ALTER TABLE t.t WITH tablets = {}");
    assert_eq!(option(&world), TableTablets::default());

    world.run("CREATE TABLE t (a int PRIMARY KEY)");
    let refused = "The table option tablets cannot be used: keyspace k has no tablets";
    for text in [
        "CREATE TABLE u (a int PRIMARY KEY) WITH tablets = {'min_tablet_count': 4}",
        "ALTER TABLE t WITH tablets = {'min_tablet_count': 4}",
    ] {
        let failure = world.apply(text).expect_err(text);
        assert_eq!((failure.code, &*failure.text), (ErrorCode::Config, refused));
    }
    assert_eq!(world.apply("ALTER TABLE t WITH tablets = {}").expect("nothing").change, None);
    assert_eq!(
        world.failure("ALTER TABLE t.t WITH tablets = {'max_tablet_count': 65537}"),
        "Invalid value '65537' for max_tablet_count: must be a number from 1 to 65536"
    );
    world.run("ALTER TABLE t.t WITH tablets = {'max_tablet_count': 65536}");
}

#[test]
fn an_id_can_be_given_once() {
    let mut world = World::new();
    let id = "123e4567-e89b-12d3-a456-426614174000";
    let create = |name: &str| format!("CREATE TABLE {name} (a int PRIMARY KEY) WITH ID = {id}");
    let applied = world.apply(&create("t")).expect("applies");
    assert_eq!(applied.change.and_then(|change| change.given_id).map(|id| id.to_string()).as_deref(), Some(id));
    assert!(world.failure(&create("u")).contains("in use by k.t"));
}

#[test]
fn a_column_keeps_its_id_and_no_other_ever_gets_it() {
    let mut world = World::new();
    world.run("CREATE TABLE t (p int, c int, b int, d int, s int static, PRIMARY KEY (p, c))");
    assert_eq!(columns(world.table("t")), [("p", 0), ("c", 1), ("s", 2), ("b", 3), ("d", 4)]);
    world.run("ALTER TABLE t ADD (a int, a2 int static)");
    assert_eq!(columns(world.table("t")), [("p", 0), ("c", 1), ("a2", 6), ("s", 2), ("a", 5), ("b", 3), ("d", 4)]);
    assert_eq!(world.table("t").static_len, 2);
    world.run("ALTER TABLE t DROP (b, s) USING TIMESTAMP 7");
    assert_eq!(columns(world.table("t")), [("p", 0), ("c", 1), ("a2", 6), ("a", 5), ("d", 4)]);
    let dropped: Vec<(&str, u16, ColumnKind, i64)> = world
        .table("t")
        .dropped
        .iter()
        .map(|dropped| (dropped.name.as_str(), dropped.id.0, dropped.kind, dropped.dropped_at))
        .collect();
    assert_eq!(dropped, [("b", 3, ColumnKind::Regular, 7), ("s", 2, ColumnKind::Static, 7)]);
    world.run("ALTER TABLE t ADD (e int, b int)");
    assert_eq!(columns(world.table("t")), [("p", 0), ("c", 1), ("a2", 6), ("a", 5), ("b", 8), ("d", 4), ("e", 7)]);
    assert_eq!(world.table("t").dropped[0].id, ColumnId(8));
    world.run("ALTER TABLE t DROP b");
    assert_eq!(world.table("t").dropped.len(), 2);
    assert_eq!((world.table("t").dropped[0].id, world.table("t").dropped[0].dropped_at), (ColumnId(8), 5_000));
    world.run("ALTER TABLE t ADD f int");
    assert_eq!(columns(world.table("t"))[6], ("f", 9));
    world.run("ALTER TABLE t RENAME p TO q AND c TO r");
    assert_eq!(columns(world.table("t"))[..2], [("q", 0), ("r", 1)]);
    assert!(world.failure("ALTER TABLE t RENAME q TO b").contains("dropped"));
    // A table that gets the id of a dropped one is another table.
    let id = world.table("t").id;
    world.run("DROP TABLE t");
    world.run(&format!("CREATE TABLE t (c int, a int PRIMARY KEY) WITH id = {id}"));
    assert_eq!(columns(world.table("t")), [("a", 0), ("c", 1)]);
}

#[test]
fn hidden_columns_have_ids_too() {
    let mut world = World::new();
    world.run("CREATE TABLE t (a int PRIMARY KEY, c int, b int) WITH COMPACT STORAGE");
    assert_eq!(columns(world.table("t")), [("a", 0), ("column1", 1), ("b", 2), ("c", 3), ("value", 4)]);
    world.run("CREATE TABLE dense (a int, b int, PRIMARY KEY (a, b)) WITH COMPACT STORAGE");
    assert_eq!(columns(world.table("dense")), [("a", 0), ("b", 1), ("value", 2)]);
    for table in ["t", "dense"] {
        let before = world.table(table).columns.clone();
        world.run(&format!("ALTER TABLE {table} DROP COMPACT STORAGE"));
        assert_eq!(world.table(table).columns, before);
    }
}

#[test]
fn an_altered_type_is_altered_in_all_that_holds_it() {
    let mut world = World::new();
    world.run("CREATE TYPE u (a int)");
    world.run("CREATE TYPE z (u frozen<u>)");
    world.run("CREATE TYPE b (l list<frozen<z>>, t tuple<int, frozen<u>>)");
    world.run("CREATE TABLE t (p int PRIMARY KEY, v u, m map<int, frozen<b>>, x int)");
    world.run("CREATE TABLE other (p int PRIMARY KEY, x int)");
    let other = world.schema.table("k", "other").expect("a table").clone();
    world.run("ALTER TYPE u ADD b text");
    world.run("ALTER TYPE u RENAME a TO a2");
    let fields: Vec<&str> = world.user_type("u").fields.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(fields, ["a2", "b"]);
    for holder in ["z", "b"] {
        let held = world.user_type(holder).field_types().flat_map(|field| field.references()).collect::<Vec<_>>();
        assert!(held.iter().all(|held| held.name != "u" || *held == world.user_type("u")), "{holder}");
        assert!(held.iter().any(|held| held.name == "u"));
    }
    for column in ["v", "m"] {
        let references = world.table("t").column(column).expect("a column").cql_type.references();
        let found = references.into_iter().find(|held| held.name == "u").expect("holds it");
        assert_eq!(found, world.user_type("u"), "{column}");
    }
    assert!(Arc::ptr_eq(&other, world.schema.table("k", "other").expect("a table")));
    let order: Vec<&str> = world
        .schema
        .keyspace("k")
        .expect("there")
        .types_by_dependency()
        .into_iter()
        .map(|held| held.name.as_str())
        .collect();
    assert_eq!(order, ["u", "z", "b"]);
    // A dropped column does not change with its type.
    world.run("ALTER TABLE t DROP m");
    assert_eq!(
        world.table("t").dropped[0].cql_type.to_string(),
        "map<int, frozen<tuple<frozen<list<frozen<tuple<frozen<tuple<int, text>>>>>>, frozen<tuple<int, frozen<tuple<int, \
         text>>>>>>>"
    );
}

#[test]
fn keyspaces_tables_and_types_have_a_limit() {
    let mut world = World::new();
    let sample = world.schema.keyspace("k").expect("there").clone();
    while world.schema.keyspaces.len() < KEYSPACES_MAX - 1 {
        let name = format!("k{}", world.schema.keyspaces.len());
        world.schema.put_keyspace(Arc::new(Keyspace { name, ..Keyspace::clone(&sample) }));
    }
    let create = |name: &str| format!("CREATE KEYSPACE {name} WITH replication = {{'class': 'SimpleStrategy'}}");
    world.run(&create("last"));
    assert_eq!(world.failure(&create("more")), "Cannot have more than 1000 keyspaces");

    world.run("CREATE TABLE t (a int PRIMARY KEY)");
    let table = Table::clone(world.table("t"));
    let mut many = Keyspace::clone(world.schema.keyspace("k").expect("there"));
    while many.tables.len() < TABLES_MAX - 1 {
        let name = format!("t{}", many.tables.len());
        let id = TableId((many.tables.len() as u128 + (1 << 100)).to_be_bytes());
        many.tables.insert(name.clone(), Arc::new(Table { name, id, ..table.clone() }));
    }
    while many.types.len() < USER_TYPES_MAX - 1 {
        let name = format!("u{}", many.types.len());
        let definition = UserType { keyspace: "k".into(), name: name.clone(), fields: Vec::new() };
        many.types.insert(name, Arc::new(definition));
    }
    world.schema.put_keyspace(Arc::new(many));
    world.run("CREATE TABLE last (a int PRIMARY KEY)");
    assert_eq!(world.failure("CREATE TABLE more (a int PRIMARY KEY)"), "Cannot have more than 10000 tables");
    world.run("CREATE TYPE last (a int)");
    assert_eq!(world.failure("CREATE TYPE more (a int)"), "Cannot have more than 10000 user types");
}

#[test]
fn indexes_have_a_limit_and_keep_to_their_order() {
    let mut world = World::new();
    world.run("CREATE TABLE t (a int PRIMARY KEY, b int, c int, m map<int, int>)");
    world.run("CREATE INDEX z ON t (b)");
    world.run("CREATE INDEX ON t (m)");
    world.run("CREATE INDEX ON t (keys(m))");
    let indexes = |world: &World| {
        world.table("t").indexes.iter().map(|index| format!("{} {}", index.name, index.target())).collect::<Vec<_>>()
    };
    assert_eq!(indexes(&world), ["t_m_idx values(m)", "t_m_idx_1 keys(m)", "z b"]);
    world.run("DROP INDEX t_m_idx");
    assert_eq!(indexes(&world), ["t_m_idx_1 keys(m)", "z b"]);
    let mut keyspace = Keyspace::clone(world.schema.keyspace("k").expect("there"));
    let mut table = Table::clone(world.table("t"));
    while table.indexes.len() < INDEXES_MAX - 1 {
        let mut index = table.indexes[0].clone();
        index.name = format!("i{}", table.indexes.len());
        table.indexes.push(index);
    }
    keyspace.tables.insert("t".into(), Arc::new(table));
    world.schema.put_keyspace(Arc::new(keyspace));
    world.run("CREATE INDEX last ON t (c)");
    assert_eq!(world.failure("CREATE INDEX more ON t (entries(m))"), "A table takes at most 1000 indexes");
}

#[test]
fn user_types_have_a_size() {
    let mut world = World::new();
    let with = |name: &str, count: usize, cql_type: &str| {
        let fields: Vec<String> = (0..count).map(|at| format!("f{at} {cql_type}")).collect();
        format!("CREATE TYPE {name} ({})", fields.join(", "))
    };
    world.run(&with("wide", FIELDS_MAX, "int"));
    assert!(world.failure(&with("wider", FIELDS_MAX + 1, "int")).contains("at most 32767 fields"));
    assert!(world.failure("ALTER TYPE wide ADD more int").contains("at most 32767 fields"));

    // The type itself and two types of 32767 fields each: 1 + 2 * 32768 is one too many.
    let error = "holds at most 65536 types";
    assert_eq!(TYPE_PARTS_MAX, 65_536);
    world.run("CREATE TYPE one (a frozen<wide>)");
    assert!(world.failure("CREATE TYPE two (a frozen<wide>, b frozen<wide>)").contains(error));
    assert!(world.failure("CREATE TABLE t (a int PRIMARY KEY, b tuple<frozen<wide>, frozen<wide>>)").contains(error));
    world.run("CREATE TABLE t (a int PRIMARY KEY, b frozen<wide>, c frozen<wide>)");

    world.run("CREATE TYPE d0 (a int)");
    for depth in 1..TYPE_DEPTH_MAX {
        world.run(&format!("CREATE TYPE d{depth} (a frozen<d{}>)", depth - 1));
    }
    assert!(world.failure(&format!("CREATE TYPE deep (a frozen<d{}>)", TYPE_DEPTH_MAX - 1)).contains("levels deep"));
    world.run("CREATE TYPE leaf (a int)");
    assert!(world.failure("ALTER TYPE d0 ADD b frozen<leaf>").contains("levels deep"));
    world.run("ALTER TYPE d0 ADD b int");
}

#[test]
fn a_column_that_was_dropped_comes_back_as_it_was() {
    let mut world = World::new();
    let cases = [
        ("int", "bigint", false),
        ("text", "blob", true),
        ("blob", "text", false),
        ("ascii", "text", true),
        ("bigint", "timestamp", true),
        ("timeuuid", "uuid", true),
        ("uuid", "timeuuid", false),
        ("int", "blob", false),
        ("tinyint", "blob", true),
        ("varint", "tinyint", false),
        ("list<int>", "list<int>", true),
        ("list<int>", "set<int>", false),
        ("list<int>", "frozen<list<int>>", false),
        ("list<bigint>", "list<timestamp>", true),
        ("list<int>", "list<blob>", false),
        ("set<text>", "set<blob>", true),
        ("frozen<set<timeuuid>>", "frozen<set<uuid>>", false),
        ("map<ascii, int>", "map<text, int>", true),
        ("tuple<int>", "tuple<int, text>", true),
        ("tuple<int, text>", "tuple<int>", false),
        ("tuple<int>", "tuple<varint>", true),
        ("tuple<text>", "blob", true),
        ("frozen<list<text>>", "blob", false),
        ("vector<float, 2>", "vector<float, 3>", false),
        ("vector<text, 2>", "blob", true),
        ("vector<float, 2>", "blob", false),
    ];
    for (at, (before, after, fits)) in cases.into_iter().enumerate() {
        world.run(&format!("CREATE TABLE t{at} (a int PRIMARY KEY, v {before})"));
        world.run(&format!("ALTER TABLE t{at} DROP v"));
        let added = world.apply(&format!("ALTER TABLE t{at} ADD v {after}"));
        assert_eq!(added.is_ok(), fits, "{before} -> {after}");
        if let Err(failure) = added {
            assert_eq!(failure.code, ErrorCode::Invalid);
            assert!(failure.text.contains("incompatible with previously dropped column 'v'"), "{failure}");
        }
    }
    assert_eq!(world.table("t1").column("v").map(|column| column.id), Some(ColumnId(2)));
    assert_eq!(world.table("t1").dropped.len(), 1);
    assert_eq!(world.table("t1").dropped[0].id, ColumnId(2));
}

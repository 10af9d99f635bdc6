//! DESCRIBE compared with the output of Cassandra 5.0.9.

use super::*;
use crate::config::sample as config;
use crate::schema::local::Identity;
use crate::schema::system_schema;
use cluster::topology::{NodeIndex, Topology};
use cql::plan::DescribeTarget as Target;
use model::schema::{KeyspaceTablets, Replication, TableOptions, VIRTUAL_KEYSPACES};
use model::{Column, ColumnId, ColumnKind, TableId, value};

fn run(schema: &Schema, target: Target, session: Option<&str>, internals: bool) -> Result<Described, Failure> {
    let identity = Identity {
        host_id: uuid::Uuid::nil(),
        tokens: vec![RingToken::Murmur3(-5), RingToken::Murmur3(10)],
        generation: 1,
    };
    let request = Describe { target, internals, session_keyspace: session.map(str::to_string) };
    let topology = Topology::new(vec![identity.node(&config(), 2)], NodeIndex(0), 0);
    let placement = Placement::new(topology.into(), schema);
    describe(schema, &config(), &placement, &request)
}

/// The cells of all rows as text.
fn texts(described: &Described) -> Vec<Vec<String>> {
    let cells = |row: &Vec<u8>| {
        let mut list = (described.columns.len() as i32).to_be_bytes().to_vec();
        list.extend_from_slice(row);
        let cells = value::elements(&list, false).map(|cell| String::from_utf8_lossy(cell).into_owned());
        cells.collect()
    };
    described.rows.iter().map(cells).collect()
}

fn rows(schema: &Schema, target: Target, session: Option<&str>) -> Vec<Vec<String>> {
    texts(&run(schema, target, session, false).expect("describes"))
}

fn failure(schema: &Schema, target: Target, session: Option<&str>) -> String {
    match run(schema, target, session, false) {
        Ok(_) => panic!("described"),
        Err(failure) => {
            assert_eq!(failure.code, model::ErrorCode::Invalid);
            failure.text.into_owned()
        }
    }
}

fn column(id: u16, name: &str, kind: ColumnKind, position: u16, cql_type: &str) -> Column {
    let cql_type = CqlType::parse(cql_type).expect("a type");
    Column { id: ColumnId(id), name: name.into(), kind, position, cql_type, descending: false }
}

/// The system keyspaces and `"Schema_L"` with two tables.
fn sample() -> Schema {
    use ColumnKind::{Clustering, PartitionKey, Regular};
    let mut options = TableOptions {
        additional_write_policy: "ALWAYS".into(),
        allow_auto_snapshot: Some(false),
        bloom_filter_fp_chance: 0.0001,
        comment: "it's".into(),
        compression: [("enabled".to_string(), "false".to_string())].into(),
        crc_check_chance: 0.5,
        gc_grace_seconds: 10,
        incremental_backups: Some(false),
        read_repair: "NONE".into(),
        speculative_retry: "10ms".into(),
        ..TableOptions::default()
    };
    options.caching = [("keys", "NONE"), ("rows_per_partition", "10")].map(|(k, v)| (k.into(), v.into())).into();
    let tab = Table {
        id: TableId([0x1a; 16]),
        keyspace: "Schema_L".into(),
        name: "Tab".into(),
        columns: vec![
            column(0, "Pk", PartitionKey, 0, "int"),
            column(1, "b", PartitionKey, 1, "text"),
            column(2, "Cc", Clustering, 0, "timeuuid"),
            column(3, "l2", Regular, 0, "double"),
            column(4, "select", Regular, 0, "int"),
        ],
        partition_key_len: 2,
        clustering_len: 1,
        static_len: 0,
        layout: model::schema::Layout::Plain,
        dropped: Vec::new(),
        indexes: Vec::new(),
        masks: Default::default(),
        options,
    };
    let zz = Table {
        id: TableId([0x1b; 16]),
        keyspace: "Schema_L".into(),
        name: "zz".into(),
        columns: vec![
            column(0, "a", PartitionKey, 0, "int"),
            column(1, "aa", Regular, 0, "set<text>"),
            column(2, "b", Regular, 0, "frozen<list<int>>"),
            column(3, "c", Regular, 0, "list<int>"),
            column(4, "d", Regular, 0, "tuple<int, text>"),
            column(5, "z", Regular, 0, "int"),
        ],
        partition_key_len: 1,
        clustering_len: 0,
        static_len: 0,
        layout: model::schema::Layout::Plain,
        dropped: Vec::new(),
        indexes: Vec::new(),
        masks: Default::default(),
        options: TableOptions::default(),
    };
    let replication = Replication {
        class: "org.apache.cassandra.locator.SimpleStrategy".into(),
        options: [("replication_factor".to_string(), "1".to_string())].into(),
    };
    let tables = [tab, zz].map(|table| (table.name.clone(), Arc::new(table))).into();
    let mut schema = system_schema(model::Partitioner::Murmur3);
    let keyspace = Keyspace {
        name: "Schema_L".into(),
        replication,
        durable_writes: true,
        tablets: None,
        quota: Default::default(),
        tables,
        types: Default::default(),
    };
    schema.put_keyspace(Arc::new(keyspace));
    schema
}

#[test]
fn system_keyspaces_are_described_as_cassandra_does() {
    let rows = rows(&system_schema(model::Partitioner::Murmur3), Target::Schema { full: true }, None);
    // Virtual tables of our own.
    let is_cassandras = |row: &&Vec<String>| {
        let ours = [
            "alerts",
            "damaged_sstables",
            "hot_partitions",
            "physical_partitions",
            "sub_partitions",
            "tablets",
            "throughput",
        ];
        !ours.contains(&row[2].as_str())
    };
    let ours: Vec<&str> = rows.iter().filter(is_cassandras).map(|row| row[3].as_str()).collect();
    let theirs: Vec<&str> = include_str!("system.cql").trim_end().split("\n\n").collect();
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours.len(), theirs.len());
    assert!(self::rows(&system_schema(model::Partitioner::Murmur3), Target::Schema { full: false }, None).is_empty());
}

/// As ScyllaDB shows them.
#[test]
fn keyspaces_show_their_tablets() {
    for (initial, shown) in [(0, "{'enabled': true}"), (16, "{'enabled': true, 'initial': 16}")] {
        let mut schema = sample();
        let mut keyspace = Keyspace::clone(schema.keyspace("Schema_L").expect("there"));
        keyspace.tablets = Some(KeyspaceTablets { initial, is_managed: false });
        schema.put_keyspace(Arc::new(keyspace));
        let found = rows(&schema, Target::Keyspace { name: Some("Schema_L".into()), only: true }, None);
        let expected = format!("}}  AND durable_writes = true AND tablets = {shown};");
        assert!(found[0][3].ends_with(&expected), "{}", found[0][3]);
    }
}

#[test]
fn keyspaces_show_their_quotas() {
    let mut schema = sample();
    let mut keyspace = Keyspace::clone(schema.keyspace("Schema_L").expect("there"));
    keyspace.quota.units_per_second = Some(500);
    schema.put_keyspace(Arc::new(keyspace));
    let found = rows(&schema, Target::Keyspace { name: Some("Schema_L".into()), only: true }, None);
    let expected = "}  AND durable_writes = true AND quota = {'units_per_second': '500'};";
    assert!(found[0][3].ends_with(expected), "{}", found[0][3]);
}

#[test]
fn managed_keyspaces_show_what_they_were_created_with() {
    let mut schema = sample();
    let mut keyspace = Keyspace::clone(schema.keyspace("Schema_L").expect("there"));
    keyspace.tablets = Some(KeyspaceTablets { initial: 0, is_managed: true });
    schema.put_keyspace(Arc::new(keyspace));
    let found = rows(&schema, Target::Keyspace { name: Some("Schema_L".into()), only: true }, None);
    assert!(found[0][3].contains("WITH replication = {'class': 'ManagedStrategy'"), "{}", found[0][3]);
}

#[test]
fn tables_show_keys_columns_and_options() {
    let schema = sample();
    let found = rows(&schema, Target::Keyspace { name: Some("Schema_L".into()), only: false }, None);
    let heads: Vec<[&str; 3]> = found.iter().map(|row| [&*row[0], &*row[1], &*row[2]]).collect();
    let keyspace = r#""Schema_L""#;
    assert_eq!(heads, [[keyspace, "keyspace", keyspace], [keyspace, "table", r#""Tab""#], [keyspace, "table", "zz"]]);
    assert_eq!(
        found[0][3],
        "CREATE KEYSPACE \"Schema_L\" WITH replication = {'class': 'SimpleStrategy', 'replication_factor': '1'}  AND \
         durable_writes = true;"
    );
    let tab = "CREATE TABLE \"Schema_L\".\"Tab\" (
    \"Pk\" int,
    b text,
    \"Cc\" timeuuid,
    l2 double,
    \"select\" int,
    PRIMARY KEY ((\"Pk\", b), \"Cc\")
) WITH CLUSTERING ORDER BY (\"Cc\" ASC)
    AND additional_write_policy = 'ALWAYS'
    AND allow_auto_snapshot = false
    AND bloom_filter_fp_chance = 1.0E-4
    AND caching = {'keys': 'NONE', 'rows_per_partition': '10'}
    AND cdc = false
    AND comment = 'it''s'
    AND compaction = {'class': 'org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy', \
               'max_threshold': '32', 'min_threshold': '4'}
    AND compression = {'enabled': 'false'}
    AND memtable = 'default'
    AND crc_check_chance = 0.5
    AND default_time_to_live = 0
    AND extensions = {}
    AND gc_grace_seconds = 10
    AND incremental_backups = false
    AND max_index_interval = 2048
    AND memtable_flush_period_in_ms = 0
    AND min_index_interval = 128
    AND read_repair = 'NONE'
    AND speculative_retry = '10ms';";
    assert_eq!(found[1][3], tab);
    let zz = "CREATE TABLE \"Schema_L\".zz (
    a int PRIMARY KEY,
    b frozen<list<int>>,
    d frozen<tuple<int, text>>,
    z int,
    aa set<text>,
    c list<int>
) WITH additional_write_policy = '99p'\n";
    assert!(found[2][3].starts_with(zz), "{}", found[2][3]);

    let target = || Target::Table { keyspace: Some("Schema_L".into()), name: "Tab".into() };
    let internals = texts(&run(&schema, target(), None, true).expect("describes"));
    let head =
        ") WITH ID = 1a1a1a1a-1a1a-1a1a-1a1a-1a1a1a1a1a1a\n    AND CLUSTERING ORDER BY (\"Cc\" ASC)\n    AND add";
    assert!(internals[0][3].contains(head), "{}", internals[0][3]);
    assert_eq!(rows(&schema, target(), None), found[1..2]);
    assert_eq!(rows(&schema, Target::Keyspace { name: None, only: true }, Some("Schema_L")), found[..1]);
    assert_eq!(rows(&schema, Target::Schema { full: false }, None), found);
}

#[test]
fn lists_name_what_there_is() {
    let schema = sample();
    let keyspaces: Vec<String> = rows(&schema, Target::Keyspaces, None).into_iter().map(|row| row[2].clone()).collect();
    let mut names =
        vec![r#""Schema_L""#, "system", "system_auth", "system_distributed", "system_schema", "system_traces"];
    names.extend(VIRTUAL_KEYSPACES);
    assert_eq!(keyspaces, names);
    let tables = rows(&schema, Target::Tables, None);
    assert_eq!(tables.len(), 48 + 53 + 2, "stored, virtual, and those of the sample");
    let before = tables.iter().position(|row| row[2] == "compaction_history").expect("a table");
    assert_eq!(tables[before + 1], ["system", "table", r#""IndexInfo""#]);
    assert_eq!(rows(&schema, Target::Tables, Some("Schema_L")).len(), 2);
    for target in [Target::Types, Target::Functions, Target::Aggregates] {
        assert!(rows(&schema, target.clone(), None).is_empty());
        assert_eq!(failure(&schema, target, Some("gone")), "'gone' not found in keyspaces");
    }
}

#[test]
fn a_name_alone_is_a_keyspace_a_table_or_an_index() {
    let schema = sample();
    let any = |keyspace: Option<&str>, name: &str| Target::Any {
        keyspace: keyspace.map(str::to_string),
        name: name.to_string(),
    };
    assert_eq!(rows(&schema, any(None, "Schema_L"), Some("system")).len(), 3);
    assert_eq!(rows(&schema, any(None, "zz"), Some("Schema_L")).len(), 1);
    let index = r#""PaxosUncommittedIndex""#;
    assert_eq!(rows(&schema, any(Some("system"), "PaxosUncommittedIndex"), None)[0][1..3], ["index", index]);
    let paxos = rows(&schema, Target::Table { keyspace: Some("system".into()), name: "paxos".into() }, None);
    assert_eq!(paxos.len(), 2);
    assert_eq!(failure(&schema, any(None, "nope"), None), "'nope' not found in keyspaces");
    assert_eq!(failure(&schema, any(None, "nope"), Some("Schema_L")), "'nope' not found in keyspace 'Schema_L'");
    let hidden = any(Some("system_schema"), "scylla_tables");
    assert_eq!(failure(&schema, hidden, None), "'scylla_tables' not found in keyspace 'system_schema'");
}

#[test]
fn what_is_not_there_has_cassandras_text() {
    let schema = sample();
    let ks = || Some("Schema_L".to_string());
    let name = || "t".to_string();
    let cases = [
        (Target::Table { keyspace: ks(), name: name() }, "Table 't' not found in keyspace 'Schema_L'"),
        (Target::Type { keyspace: ks(), name: name() }, "User defined type 't' not found in 'Schema_L'"),
        (Target::Function { keyspace: ks(), name: name() }, "User defined function 't' not found in 'Schema_L'"),
        (Target::Aggregate { keyspace: ks(), name: name() }, "User defined aggregate 't' not found in 'Schema_L'"),
        (Target::Index { keyspace: ks(), name: name() }, "Table for existing index 't' not found in 'Schema_L'"),
        (Target::MaterializedView { keyspace: ks(), name: name() }, "Materialized view 't' not found in 'Schema_L'"),
        (Target::Table { keyspace: Some("no".into()), name: name() }, "'no' not found in keyspaces"),
        (Target::Keyspace { name: Some("no".into()), only: false }, "'no' not found in keyspaces"),
        (Target::Keyspace { name: None, only: true }, "No keyspace specified and no current keyspace"),
        (Target::Table { keyspace: None, name: name() }, "No keyspace specified and no current keyspace"),
    ];
    for (target, text) in cases {
        assert_eq!(failure(&schema, target, None), text);
    }
}

#[test]
fn the_cluster_shows_its_ranges_when_a_user_keyspace_is_in_use() {
    let schema = sample();
    for session in [None, Some("system"), Some("system_auth")] {
        let rows = rows(&schema, Target::Cluster, session);
        assert_eq!(rows, [["Test Cluster", "Murmur3Partitioner", "DynamicEndpointSnitch"]]);
    }
    let described = run(&schema, Target::Cluster, Some("Schema_L"), false).expect("describes");
    let column = &described.columns[3];
    assert_eq!(
        (&*column.name, column.cql_type.to_string()),
        ("range_ownership", "map<text, frozen<list<text>>>".into())
    );
    let mut row = 4i32.to_be_bytes().to_vec();
    row.extend_from_slice(&described.rows[0]);
    let ownership = value::elements(&row, false).nth(3).expect("a fourth column");
    value::validate(&column.cql_type, ownership).expect("valid");
    let tokens: Vec<&[u8]> = value::elements(ownership, true).step_by(2).collect();
    assert_eq!(tokens, [b"-5", b"10"]);
    let owners = value::elements(ownership, true).nth(1).expect("owners");
    assert_eq!(value::elements(owners, false).collect::<Vec<_>>(), [b"/127.0.0.1:7000"]);
}

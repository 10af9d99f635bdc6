//! What DDL does to a schema, and Cassandra's words for what it does not.

use super::*;
use crate::schema::system_schema;
use model::schema::{Replication, TableOptions};
use model::{Column, ColumnId, ColumnKind, CqlType};

const NEW_ID: TableId = TableId([9; 16]);
const DC: &str = "datacenter1";

fn keyspace(name: &str, strategy: &str, options: &[(&str, &str)]) -> Keyspace {
    let class = format!("org.apache.cassandra.locator.{strategy}");
    let options = options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let replication = Replication { class, options };
    Keyspace {
        name: name.into(),
        replication,
        durable_writes: true,
        tables: Default::default(),
        types: Default::default(),
    }
}

fn table(keyspace: &str, name: &str) -> Table {
    let key = Column {
        id: ColumnId(0),
        name: "k".into(),
        kind: ColumnKind::PartitionKey,
        position: 0,
        cql_type: CqlType::Int,
        descending: false,
    };
    Table {
        id: TableId([0; 16]),
        keyspace: keyspace.into(),
        name: name.into(),
        columns: vec![key],
        partition_key_len: 1,
        clustering_len: 0,
        static_len: 0,
        dropped: Vec::new(),
        options: TableOptions::default(),
    }
}

fn create_keyspace(name: &str, if_not_exists: bool) -> Define {
    let keyspace = keyspace(name, "SimpleStrategy", &[("replication_factor", "1")]);
    Define::CreateKeyspace { keyspace, if_not_exists }
}

fn create_table(keyspace: &str, name: &str, id: Option<TableId>, if_not_exists: bool) -> Define {
    Define::CreateTable { table: table(keyspace, name), id, if_not_exists }
}

fn drop_keyspace(name: &str, if_exists: bool) -> Define {
    Define::DropKeyspace { name: name.into(), if_exists }
}

fn drop_table(keyspace: &str, name: &str, if_exists: bool) -> Define {
    Define::DropTable { keyspace: keyspace.into(), name: name.into(), if_exists }
}

fn effect(schema: &Schema, define: Define) -> Effect {
    check(schema, define, DC, NEW_ID).expect("no failure").expect("an effect")
}

/// The schema with `k.t` in it.
fn sample() -> Schema {
    let mut schema = system_schema();
    for define in [create_keyspace("k", false), create_table("k", "t", None, false)] {
        schema = effect(&schema, define).schema_after(&schema, Uuid::from_u128(1));
    }
    schema
}

#[test]
fn create_and_drop_change_the_schema_and_nothing_else() {
    let empty = system_schema();
    let schema = sample();
    assert_eq!(schema.version, Uuid::from_u128(1));
    assert_eq!(schema.table_by_id(NEW_ID).map(|table| table.full_name()).as_deref(), Some("k.t"));

    let dropped = effect(&schema, drop_table("k", "t", false));
    assert_eq!(dropped.dropped(), [NEW_ID]);
    let change = dropped.change();
    assert_eq!((change.change, change.target), (ChangeKind::Dropped, ChangeTarget::Table));
    assert_eq!((change.keyspace.as_str(), change.name.as_str()), ("k", "t"));
    let without_table = dropped.schema_after(&schema, Uuid::nil());
    assert!(without_table.table("k", "t").is_none() && without_table.table_by_id(NEW_ID).is_none());

    let dropped = effect(&schema, drop_keyspace("k", false));
    assert_eq!(dropped.dropped(), [NEW_ID]);
    let change = dropped.change();
    assert_eq!((change.target, change.keyspace.as_str(), change.name.as_str()), (ChangeTarget::Keyspace, "k", ""));
    assert_eq!(dropped.schema_after(&schema, empty.version), empty);
}

#[test]
fn what_is_there_or_not_is_said_in_cassandras_words() {
    let schema = sample();
    let unauthorized = ErrorCode::Unauthorized;
    let cases = [
        (create_keyspace("k", false), ErrorCode::AlreadyExists, "Cannot add existing keyspace \"k\""),
        (
            create_table("k", "t", None, false),
            ErrorCode::AlreadyExists,
            "Cannot add already existing table \"t\" to keyspace \"k\"",
        ),
        (
            create_keyspace("system_auth", false),
            ErrorCode::AlreadyExists,
            "Cannot add existing keyspace \"system_auth\"",
        ),
        (create_keyspace("system", true), ErrorCode::Invalid, "System keyspace 'system' is not user-modifiable"),
        (create_table("no", "t", None, true), ErrorCode::Invalid, "Keyspace 'no' doesn't exist"),
        (create_table("system", "t", None, false), unauthorized, "system keyspace is not user-modifiable."),
        (create_table("system_auth", "t", None, false), unauthorized, "Cannot CREATE <all tables in system_auth>"),
        (drop_keyspace("no", false), ErrorCode::Invalid, "Keyspace 'no' doesn't exist"),
        (drop_keyspace("system_schema", false), unauthorized, "system_schema keyspace is not user-modifiable."),
        (drop_keyspace("system_auth", true), unauthorized, "Cannot DROP <keyspace system_auth>"),
        (drop_table("k", "no", false), ErrorCode::Invalid, "Table 'k.no' doesn't exist"),
        (drop_table("no", "t", false), ErrorCode::Invalid, "Table 'no.t' doesn't exist"),
        (drop_table("system", "local", false), unauthorized, "system keyspace is not user-modifiable."),
        (drop_table("system_traces", "events", true), unauthorized, "Cannot DROP <table system_traces.events>"),
    ];
    for (define, code, text) in cases {
        let failure = check(&schema, define, DC, NEW_ID).expect_err(text);
        assert_eq!((failure.code, &*failure.text), (code, text));
    }
    let failure = check(&schema, create_table("k", "t", None, false), DC, NEW_ID).expect_err("exists");
    assert_eq!(failure.detail, Detail::AlreadyExists { keyspace: "k".into(), table: "t".into() });
    for define in [
        create_keyspace("k", true),
        create_table("k", "t", None, true),
        drop_keyspace("no", true),
        drop_table("k", "no", true),
        drop_table("no", "t", true),
    ] {
        assert_eq!(check(&schema, define, DC, NEW_ID), Ok(None));
    }
}

#[test]
fn an_id_can_be_given_once() {
    let schema = sample();
    let id = TableId([3; 16]);
    let given = effect(&schema, create_table("k", "u", Some(id), false));
    assert!(matches!(&given, Effect::CreateTable { table, with_id: true } if table.id == id));
    let taken = check(&schema, create_table("k", "u", Some(NEW_ID), false), DC, id).expect_err("taken");
    assert!(taken.text.contains("in use by k.t"), "{taken}");
}

#[test]
fn options_that_are_the_default_are_stored_as_null() {
    let schema = sample();
    let mut with_options = table("k", "u");
    with_options.options.cdc = Some(false);
    with_options.options.memtable = Some("default".into());
    let define = Define::CreateTable { table: with_options, id: Some(TableId([3; 16])), if_not_exists: false };
    let Effect::CreateTable { table, .. } = effect(&schema, define) else { panic!("a table") };
    assert_eq!((table.options.cdc, &table.options.memtable), (None, &None));
}

#[test]
fn network_topology_is_stored_per_data_centre() {
    let place = |options: &[(&str, &str)]| {
        let mut keyspace = keyspace("k", "NetworkTopologyStrategy", options);
        place_in_data_centers(&mut keyspace, DC).map(|()| keyspace.replication.options)
    };
    let of = |factor: &str| Ok([(DC.to_string(), factor.to_string())].into());
    assert_eq!(place(&[("replication_factor", "3")]), of("3"));
    assert_eq!(place(&[("replication_factor", "1"), (DC, "2")]), of("2"));
    assert_eq!(place(&[]), of("1"));
    for nothing in [&[(DC, "0")], &[("replication_factor", "0")]] {
        let text = "Configuration for at least one datacenter must be present";
        assert_eq!(place(nothing).map_err(|failure| failure.text), Err(text.into()));
    }
    let failure = place(&[("dc1", "2")]).expect_err("unknown");
    assert_eq!(failure.code, ErrorCode::Config);
    let text = "Unrecognized strategy option {dc1} passed to NetworkTopologyStrategy for keyspace k";
    assert_eq!(failure.text, text);
}

#[test]
fn more_replicas_than_nodes_gives_a_warning() {
    let warn = |strategy: &str, options: &[(&str, &str)]| {
        let keyspace = keyspace("k", strategy, options);
        warnings(&Define::CreateKeyspace { keyspace, if_not_exists: false }, DC)
    };
    assert!(warn("SimpleStrategy", &[("replication_factor", "1")]).is_empty());
    let simple = "Your replication factor 3 for keyspace k is higher than the number of nodes 1";
    assert_eq!(warn("SimpleStrategy", &[("replication_factor", "3")]), [simple]);
    let per_dc =
        "Your replication factor 2 for keyspace k is higher than the number of nodes 1 for datacenter datacenter1";
    assert_eq!(warn("NetworkTopologyStrategy", &[("replication_factor", "1"), (DC, "2")]), [per_dc]);
    assert_eq!(warn("NetworkTopologyStrategy", &[("replication_factor", "2")]), [per_dc]);
    assert!(warnings(&drop_keyspace("k", false), DC).is_empty());
}

#[test]
fn keyspaces_and_tables_have_a_limit() {
    let mut schema = sample();
    while schema.keyspaces.len() < KEYSPACES_MAX - 1 {
        let name = format!("k{}", schema.keyspaces.len());
        schema.put_keyspace(Arc::new(keyspace(&name, "SimpleStrategy", &[])));
    }
    let last = effect(&schema, create_keyspace("last", false));
    let schema_full = last.schema_after(&schema, Uuid::nil());
    assert_eq!(schema_full.keyspaces.len(), KEYSPACES_MAX);
    let failure = check(&schema_full, create_keyspace("more", false), DC, NEW_ID).expect_err("full");
    assert_eq!(failure.text, "Cannot have more than 1000 keyspaces");

    let mut many = Keyspace::clone(&schema.keyspaces["k"]);
    while schema.tables.len() + many.tables.len() < TABLES_MAX {
        let mut next = table("k", &format!("t{}", many.tables.len()));
        next.id = TableId(Uuid::from_u128(many.tables.len() as u128 + 1).into_bytes());
        many.tables.insert(next.name.clone(), Arc::new(next));
    }
    schema.put_keyspace(Arc::new(many));
    assert_eq!(schema.tables.len(), TABLES_MAX - 1);
    let last = effect(&schema, create_table("k", "last", Some(TableId([4; 16])), false));
    let schema = last.schema_after(&schema, Uuid::nil());
    let failure = check(&schema, create_table("k", "more", Some(TableId([5; 16])), false), DC, NEW_ID);
    assert_eq!(failure.expect_err("full").text, "Cannot have more than 10000 tables");
}

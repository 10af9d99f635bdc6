//! System tables as rows, without a store: the tests read mutations the way a store would return their rows.

use super::cells::{StoredCell, StoredRow};
use super::local::{Identity, Stored, TOKENS_MAX};
use super::prepared::StoredStatement;
use super::rows::SchemaRows;
use super::*;
use model::capacity::Capacity;
use model::mutation::Operation;
use model::quota::Quota;
use model::schema::{DroppedColumn, KeyspaceTablets, Replication, TableOptions};
use model::tablets::TableTablets;
use model::types::UserType;
use model::{Column, ColumnId, ColumnKind, ColumnMask, CqlType, Index, IndexedPart, Mutation, Table, text};
use model::{ShardedBy, WriteSharding};

/// The rows that a mutation writes into one table, without deletions.
fn rows_of(mutation: &Mutation, table: TableId) -> Vec<StoredRow> {
    let mut found = Vec::new();
    for update in mutation.updates().filter(|update| update.table == table) {
        for operation in update.operations() {
            let Operation::Row { clustering, row } = operation else { continue };
            let cells = row.cells().filter_map(|cell| {
                let value = cell.value_at(0)?.to_vec();
                let path = cell.path.map(<[u8]>::to_vec);
                Some(StoredCell { column: cell.column, timestamp: cell.timestamp, path, value })
            });
            let clustering = clustering.components().map(<[u8]>::to_vec).collect();
            found.push(StoredRow { key: mutation.key().to_vec(), clustering, cells: cells.collect() });
        }
    }
    found
}

/// The rows that mutations write into the tables that hold the schema.
fn schema_rows(system: &Schema, mutations: &[Mutation]) -> SchemaRows {
    let of = |name: &str| {
        let table = rows::system_table(system, "system_schema", name).id;
        mutations.iter().flat_map(|mutation| rows_of(mutation, table)).collect()
    };
    SchemaRows {
        keyspaces: of("keyspaces"),
        types: of("types"),
        tables: of("tables"),
        columns: of("columns"),
        dropped_columns: of("dropped_columns"),
        indexes: of("indexes"),
        column_ids: of(rows::column_ids::TABLE),
        masks: of("column_masks"),
        tablets: of(rows::tablets::TABLE),
        quotas: of(rows::quotas::TABLE),
    }
}

fn rows_of_keyspaces(system: &Schema, keyspaces: &[&Keyspace]) -> SchemaRows {
    let mutations: Vec<Mutation> =
        keyspaces.iter().map(|keyspace| rows::keyspace_created(system, keyspace, 7)).collect();
    schema_rows(system, &mutations)
}

fn column(id: u16, name: &str, kind: ColumnKind, position: u16, cql_type: &str) -> Column {
    let cql_type = CqlType::parse(cql_type).expect("a type");
    Column { id: ColumnId(id), name: name.into(), kind, position, cql_type, descending: false }
}

/// A keyspace with user types that hold each other and one table that has everything a table can have.
pub(crate) fn sample() -> Keyspace {
    use ColumnKind::{Clustering, PartitionKey, Regular, Static};
    let user_type = |name: &str, fields: Vec<(String, CqlType)>| {
        Arc::new(UserType { keyspace: "Schema_L".into(), name: name.into(), fields })
    };
    let inner = user_type("z Inner", vec![("a".into(), CqlType::Int), ("B".into(), CqlType::Text)]);
    let held = CqlType::User { definition: inner.clone(), frozen: true };
    let outer = user_type("outer", vec![("x".into(), CqlType::List { element: held.into(), frozen: false })]);
    let index = |name: &str, column: &str, part| Index { name: name.into(), column: column.into(), part };
    let dropped = |id, name: &str, kind, cql_type: &str, dropped_at| DroppedColumn {
        id: ColumnId(id),
        name: name.into(),
        kind,
        cql_type: CqlType::parse(cql_type).expect("a type"),
        dropped_at,
    };
    let mask = |id, function: &str, arguments: Vec<(&str, Option<&[u8]>)>| {
        let argument = |(cql_type, value): (&str, Option<&[u8]>)| {
            (CqlType::parse(cql_type).expect("a type"), value.map(<[u8]>::to_vec))
        };
        let arguments = arguments.into_iter().map(argument).collect();
        (ColumnId(id), Arc::new(ColumnMask { function: function.into(), arguments }))
    };
    let mut last = column(9, "u", Regular, 0, "int");
    last.cql_type = CqlType::User { definition: outer.clone(), frozen: true };
    let mut reversed = column(3, "a", Clustering, 1, "blob");
    reversed.descending = true;
    let table = Table {
        id: TableId([7; 16]),
        keyspace: "Schema_L".into(),
        name: "Tab".into(),
        columns: vec![
            column(0, "Pk", PartitionKey, 0, "int"),
            column(1, "b", PartitionKey, 1, "text"),
            column(2, "z", Clustering, 0, "timeuuid"),
            reversed,
            column(4, "s", Static, 0, "vector<float, 3>"),
            column(5, "aa", Regular, 0, "set<text>"),
            column(6, "d", Regular, 0, "frozen<tuple<int, text>>"),
            column(7, "l", Regular, 0, "frozen<list<int>>"),
            column(11, "t", Regular, 0, "text"),
            last,
        ],
        partition_key_len: 2,
        clustering_len: 2,
        static_len: 1,
        layout: model::schema::Layout::Plain,
        dropped: vec![
            dropped(12, "gone", Static, "frozen<tuple<int>>", 5_000),
            dropped(11, "t", Regular, "ascii", -3_000),
        ],
        indexes: vec![index("by_t", "t", IndexedPart::Simple), index("of aa", "aa", IndexedPart::Values)],
        masks: [
            mask(0, "mask_default", vec![]),
            mask(
                6,
                "mask_replace",
                vec![("frozen<tuple<int, text>>", Some(&[0, 0, 0, 4, 0, 0, 0, 9, 0, 0, 0, 1, b'x']))],
            ),
            mask(11, "mask_inner", vec![("int", None), ("int", Some(&[0, 0, 0, 2])), ("text", Some(b"it's"))]),
        ]
        .into(),
        options: TableOptions {
            allow_auto_snapshot: Some(false),
            incremental_backups: Some(true),
            memtable: Some("skiplist".into()),
            comment: "it's".into(),
            tablets: TableTablets { min: Some(4), expected_gb: Some(10), ..TableTablets::default() },
            bloom_filter_fp_chance: 0.1,
            capacity: Some(Arc::new(Capacity { writes_per_key: Some(5), ..Capacity::default() })),
            extensions: [("x".to_string(), vec![0xca, 0xfe])].into(),
            ..TableOptions::default()
        },
    };
    let replication = Replication {
        class: "org.apache.cassandra.locator.NetworkTopologyStrategy".into(),
        options: [("datacenter1".to_string(), "2".to_string())].into(),
    };
    let tables = [(table.name.clone(), Arc::new(table))].into();
    let types = [inner, outer].map(|definition| (definition.name.clone(), definition)).into();
    let tablets = Some(KeyspaceTablets { initial: 8, is_managed: false });
    let quota = Quota { units_per_second: Some(1_000), ..Quota::default() };
    Keyspace { name: "Schema_L".into(), replication, durable_writes: false, tablets, quota, tables, types }
}

#[test]
fn keyspaces_survive_their_rows() {
    let system = system_schema(model::Partitioner::Murmur3);
    let sample = sample();
    let mut keyspaces: Vec<&Keyspace> = system.keyspaces.values().map(|keyspace| &**keyspace).collect();
    keyspaces.push(&sample);
    let loaded = rows::load(&system, &rows_of_keyspaces(&system, &keyspaces)).expect("loads");
    let StoredSchema { keyspaces: found, without_ids } = loaded;
    assert_eq!((&found["Schema_L"], without_ids), (&sample, vec![]));
    // Before ids were stored.
    let mut rows = rows_of_keyspaces(&system, &keyspaces);
    rows.column_ids.clear();
    let mut numbered = rows::load(&system, &rows).expect("loads");
    assert_eq!(numbered.without_ids, [TableId([7; 16])]);
    let table = Arc::make_mut(numbered.keyspaces.get_mut("Schema_L").expect("there").tables.get_mut("Tab").expect("t"));
    assert!(table.columns.iter().enumerate().all(|(at, column)| column.id.0 as usize == at));
    rows.column_ids = schema_rows(&system, &[rows::column_ids_stored(&system, table, 8)]).column_ids;
    let taken_over = rows::load(&system, &rows).expect("loads");
    assert_eq!((taken_over.keyspaces, taken_over.without_ids), (numbered.keyspaces, vec![]));

    let (schema, outdated) = assemble(system.clone(), found.clone());
    assert!(outdated.is_empty(), "{outdated:?}");
    assert_eq!(schema.keyspaces.len(), 8);
    assert!(schema.table_by_id(TableId([7; 16])).is_some());

    let mut changed = found.clone();
    changed.remove("system_auth");
    changed.get_mut("system").expect("there").tables.remove("peers");
    let (schema, outdated) = assemble(system, changed);
    assert_eq!(outdated, ["system", "system_auth"]);
    assert!(schema.table("system", "peers").is_some());
}

/// The non-null columns of `row` as text.
fn shown(table: &Table, row: &StoredRow) -> String {
    let literal = |cell: &StoredCell| {
        let column = table.column_by_id(cell.column).expect("a column");
        format!("{}={}", column.name, text::to_literal(&column.cql_type, &cell.value))
    };
    row.cells.iter().map(literal).collect::<Vec<_>>().join(" ")
}

/// The values that `SELECT *` on Cassandra 5.0.9 shows for a table without options.
#[test]
fn rows_have_cassandras_values() {
    let system = system_schema(model::Partitioner::Murmur3);
    let mut keyspace = sample();
    let mut table = Table::clone(&keyspace.tables["Tab"]);
    table.options = TableOptions::default();
    keyspace.tables = [(table.name.clone(), Arc::new(table))].into();
    let rows = rows_of_keyspaces(&system, &[&keyspace]);

    let of = |name| rows::system_table(&system, "system_schema", name);
    assert_eq!(
        shown(of("keyspaces"), &rows.keyspaces[0]),
        "durable_writes=false replication={'class': 'org.apache.cassandra.locator.NetworkTopologyStrategy', \
         'datacenter1': '2'}"
    );
    assert_eq!(
        shown(of("tables"), &rows.tables[0]),
        "additional_write_policy='99p' bloom_filter_fp_chance=0.01 caching={'keys': 'ALL', 'rows_per_partition': \
         'NONE'} comment='' compaction={'class': 'org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy', \
         'max_threshold': '32', 'min_threshold': '4'} compression={'chunk_length_in_kb': '16', 'class': \
         'org.apache.cassandra.io.compress.LZ4Compressor'} crc_check_chance=1.0 dclocal_read_repair_chance=0.0 \
         default_time_to_live=0 extensions={} flags={'compound'} gc_grace_seconds=864000 \
         id=07070707-0707-0707-0707-070707070707 max_index_interval=2048 memtable_flush_period_in_ms=0 \
         min_index_interval=128 read_repair='BLOCKING' read_repair_chance=0.0 speculative_retry='99p'"
    );
    let columns: Vec<String> = rows.columns.iter().map(|row| shown(of("columns"), row)).collect();
    assert_eq!(
        columns,
        [
            "clustering_order='none' column_name_bytes=0x506b kind='partition_key' position=0 type='int'",
            "clustering_order='none' column_name_bytes=0x62 kind='partition_key' position=1 type='text'",
            "clustering_order='asc' column_name_bytes=0x7a kind='clustering' position=0 type='timeuuid'",
            "clustering_order='desc' column_name_bytes=0x61 kind='clustering' position=1 type='blob'",
            "clustering_order='none' column_name_bytes=0x73 kind='static' position=-1 type='vector<float, 3>'",
            "clustering_order='none' column_name_bytes=0x6161 kind='regular' position=-1 type='set<text>'",
            "clustering_order='none' column_name_bytes=0x64 kind='regular' position=-1 type='frozen<tuple<int, text>>'",
            "clustering_order='none' column_name_bytes=0x6c kind='regular' position=-1 type='frozen<list<int>>'",
            "clustering_order='none' column_name_bytes=0x74 kind='regular' position=-1 type='text'",
            "clustering_order='none' column_name_bytes=0x75 kind='regular' position=-1 type='frozen<outer>'",
        ]
    );
    let types: Vec<String> = rows.types.iter().map(|row| shown(of("types"), row)).collect();
    assert_eq!(
        types,
        [
            r#"field_names=['x'] field_types=['list<frozen<"z Inner">>']"#,
            "field_names=['a', 'B'] field_types=['int', 'text']",
        ]
    );
    let dropped: Vec<String> = rows.dropped_columns.iter().map(|row| shown(of("dropped_columns"), row)).collect();
    assert_eq!(
        dropped,
        [
            "dropped_time='1970-01-01T00:00:00.005Z' kind='static' type='frozen<tuple<int>>'",
            "dropped_time='1969-12-31T23:59:59.997Z' kind='regular' type='ascii'",
        ]
    );
    assert_eq!(rows.tables[0].clustering, [b"Tab"]);
    assert_eq!(rows.columns[0].clustering, [b"Tab".as_slice(), b"Pk"]);
}

#[test]
fn hidden_tables_have_no_rows() {
    let system = system_schema(model::Partitioner::Murmur3);
    let rows = rows_of_keyspaces(&system, &[&system.keyspaces["system_schema"]]);
    assert_eq!(rows.tables.len(), 11);
    assert!(!rows.columns.iter().any(|row| row.clustering[0] == b"scylla_tables"));
}

/// Loses, empties, cuts or corrupts every cell in turn: the result is an error or another schema, never a panic.
#[test]
fn damaged_rows_are_refused_or_read() {
    let system = system_schema(model::Partitioner::Murmur3);
    let whole = rows_of_keyspaces(&system, &[&sample()]);
    let mut refused = 0;
    let mut damage = |rows: &SchemaRows| refused += usize::from(rows::load(&system, rows).is_err());
    for which in 0..10 {
        fn pick(rows: &mut SchemaRows, which: usize) -> &mut Vec<StoredRow> {
            let SchemaRows { keyspaces, types, tables, columns, dropped_columns, indexes, .. } = rows;
            let SchemaRows { column_ids, masks, tablets, quotas, .. } = rows;
            let all = [keyspaces, types, tables, columns, dropped_columns, indexes, column_ids, masks, tablets, quotas];
            all.into_iter().nth(which).expect("ten")
        }
        let count = pick(&mut whole.clone(), which).len();
        for row in 0..count {
            let mut rows = whole.clone();
            pick(&mut rows, which).remove(row);
            damage(&rows);
            let mut rows = whole.clone();
            pick(&mut rows, which)[row].clustering.clear();
            damage(&rows);
            let cells = pick(&mut whole.clone(), which)[row].cells.len();
            for cell in 0..cells {
                let mut rows = whole.clone();
                pick(&mut rows, which)[row].cells.remove(cell);
                damage(&rows);
                for value in [&b""[..], &[0xff; 3], &[0; 4], &[0xff; 16], b"frozen<frozen<int>>"] {
                    let mut rows = whole.clone();
                    pick(&mut rows, which)[row].cells[cell].value = value.to_vec();
                    damage(&rows);
                }
            }
        }
    }
    assert!(refused > 100, "{refused}");
}

/// Applies the rows and deletions of a later mutation to those of an earlier one, row by row and cell by cell.
fn later(system: &Schema, before: SchemaRows, mutation: &Mutation) -> SchemaRows {
    let apply = |name: &str, rows: &[StoredRow]| {
        let table = rows::system_table(system, "system_schema", name).id;
        let mut found: Vec<StoredRow> = rows.to_vec();
        for update in mutation.updates().filter(|update| update.table == table) {
            if update.partition_deletion.deletes(0) {
                found.clear();
            }
            for operation in update.operations() {
                match operation {
                    Operation::RangeDeletion { start, .. } => {
                        let prefix: Vec<Vec<u8>> = start.prefix.components().map(<[u8]>::to_vec).collect();
                        found.retain(|row| !row.clustering.starts_with(&prefix));
                    }
                    Operation::Row { clustering, row } => {
                        let clustering: Vec<Vec<u8>> = clustering.components().map(<[u8]>::to_vec).collect();
                        let at = found.iter().position(|old| old.clustering == clustering);
                        let mut old = at.map(|at| found.remove(at)).unwrap_or_default();
                        if row.deletion().deletes(0) {
                            continue;
                        }
                        for cell in row.cells() {
                            old.cells.retain(|old| old.column != cell.column);
                            let Some(value) = cell.value_at(0) else { continue };
                            let (column, timestamp, value) = (cell.column, cell.timestamp, value.to_vec());
                            old.cells.push(StoredCell { column, timestamp, path: None, value });
                        }
                        found.push(StoredRow { key: mutation.key().to_vec(), clustering, cells: old.cells });
                    }
                    Operation::StaticRow { .. } => unreachable!("no table of the schema has static columns"),
                }
            }
        }
        found
    };
    SchemaRows {
        keyspaces: apply("keyspaces", &before.keyspaces),
        types: apply("types", &before.types),
        tables: apply("tables", &before.tables),
        columns: apply("columns", &before.columns),
        dropped_columns: apply("dropped_columns", &before.dropped_columns),
        indexes: apply("indexes", &before.indexes),
        column_ids: apply(rows::column_ids::TABLE, &before.column_ids),
        masks: apply("column_masks", &before.masks),
        tablets: apply(rows::tablets::TABLE, &before.tablets),
        quotas: apply(rows::quotas::TABLE, &before.quotas),
    }
}

#[test]
fn changes_write_what_the_next_start_reads() {
    let system = system_schema(model::Partitioner::Murmur3);
    let before = sample();
    type Edit = Box<dyn Fn(&mut Keyspace)>;
    let in_table = |edit: fn(&mut Table)| -> Edit {
        Box::new(move |keyspace| {
            let mut table = Table::clone(&keyspace.tables["Tab"]);
            edit(&mut table);
            keyspace.tables.insert(table.name.clone(), Arc::new(table));
        })
    };
    let edits: Vec<Edit> = vec![
        Box::new(|_| {}),
        Box::new(|keyspace| keyspace.durable_writes = true),
        Box::new(|keyspace| keyspace.tables.clear()),
        Box::new(|keyspace| keyspace.tablets = None),
        Box::new(|keyspace| keyspace.tablets = Some(KeyspaceTablets::default())),
        Box::new(|keyspace| keyspace.quota = Quota::default()),
        Box::new(|keyspace| keyspace.quota.units_per_second = Some(1)),
        Box::new(|keyspace| {
            let mut table = Table::clone(&keyspace.tables["Tab"]);
            (table.id, table.name) = (TableId([8; 16]), "Tab2".into());
            keyspace.tables.insert(table.name.clone(), Arc::new(table));
        }),
        Box::new(|keyspace| {
            let definition = UserType { keyspace: keyspace.name.clone(), name: "new".into(), fields: Vec::new() };
            keyspace.types.insert("new".into(), Arc::new(definition));
        }),
        in_table(|table| table.options.allow_auto_snapshot = None),
        in_table(|table| table.options.tablets = TableTablets::default()),
        in_table(|table| table.options.tablets.max = Some(8)),
        in_table(|table| {
            let sharding = WriteSharding { shards: 200, by: ShardedBy::Clustering(vec![0]), growth: None };
            table.options.write_sharding = Some(Arc::new(sharding));
        }),
        in_table(|table| (table.options.memtable, table.options.incremental_backups) = (None, None)),
        in_table(|table| table.columns[0].name = "renamed".into()),
        in_table(|table| {
            let gone = table.columns.remove(4);
            table.static_len = 0;
            let Column { id, name, kind, cql_type, .. } = gone;
            table.dropped.insert(1, DroppedColumn { id, name, kind, cql_type, dropped_at: 7_123 });
        }),
        in_table(|table| {
            let mut again = table.columns[4].clone();
            (again.id, again.name, table.dropped[0].id) = (ColumnId(13), "gone".into(), ColumnId(13));
            table.columns.insert(4, again);
            table.static_len = 2;
        }),
        in_table(|table| table.indexes.clear()),
        in_table(|table| table.indexes[0].column = "l".into()),
        in_table(|table| {
            let added = Index { name: "by_z".into(), column: "z".into(), part: IndexedPart::Simple };
            table.indexes.insert(1, added);
        }),
        in_table(|table| {
            let mut added = table.columns[8].clone();
            (added.id, added.name) = (ColumnId(13), "tt".into());
            table.columns.insert(9, added);
        }),
    ];
    for (at, edit) in edits.iter().enumerate() {
        let mut after = before.clone();
        edit(&mut after);
        let rows = rows_of_keyspaces(&system, &[&before]);
        let mutation = rows::keyspace_changed(&system, &before, &after, 9, 1);
        assert_eq!(mutation.updates().count() == 0, at == 0, "edit {at}");
        let found = rows::load(&system, &later(&system, rows, &mutation)).expect("loads");
        assert_eq!(found.keyspaces["Schema_L"], after, "edit {at}");
        assert_eq!(found.without_ids, [], "edit {at}");
    }
}

#[test]
fn dropping_deletes_what_creating_wrote() {
    let system = system_schema(model::Partitioner::Murmur3);
    let keyspace = sample();
    // Nodes that do not know tablets or quotas do not know their tables: only of keyspaces that have some are they
    // mentioned.
    let none = Quota::default();
    for (tablets, quota, tables) in
        [(keyspace.tablets, keyspace.quota, 14), (None, keyspace.quota, 13), (None, none, 12)]
    {
        let keyspace = Keyspace { tablets, quota, ..keyspace.clone() };
        let mut schema = system.clone();
        schema.put_keyspace(Arc::new(keyspace.clone()));
        let dropped = rows::keyspace_dropped(&schema, &keyspace.name, 9, 1);
        let deleted: Vec<TableId> =
            dropped.updates().filter(|u| u.partition_deletion.deletes(9)).map(|u| u.table).collect();
        let created = rows::keyspace_created(&system, &keyspace, 8);
        assert!(created.updates().all(|update| deleted.contains(&update.table)));
        assert_eq!(deleted.len(), tables);
    }

    let without = Keyspace { tables: BTreeMap::new(), ..keyspace.clone() };
    let dropped = rows::keyspace_changed(&system, &keyspace, &without, 9, 1);
    let tables = rows::system_table(&system, "system_schema", "tables").id;
    for update in dropped.updates() {
        for operation in update.operations() {
            match operation {
                Operation::Row { clustering, row } => {
                    assert_eq!((update.table, row.deletion().timestamp), (tables, 9));
                    assert_eq!(clustering.components().collect::<Vec<_>>(), [b"Tab"]);
                }
                Operation::StaticRow { .. } => panic!("system tables have no static columns"),
                Operation::RangeDeletion { start, end, deletion } => {
                    assert_eq!(start, end);
                    assert!(start.inclusive && deletion.timestamp == 9);
                }
            }
        }
    }
    assert_eq!(dropped.updates().count(), 7);
    assert!(dropped.updates().all(|update| update.operations().count() == 1));
}

fn identity(count: usize) -> Identity {
    let mut word = 0u64;
    Identity::new(model::Partitioner::Murmur3, count, &[], false, &mut || {
        word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
        word
    })
}

#[test]
fn an_identity_is_kept_and_its_generation_grows() {
    let system = system_schema(model::Partitioner::Murmur3);
    let config = crate::config::sample();
    let first = identity(16).restarted(1000);
    assert_eq!((first.tokens.len(), first.generation, first.host_id.get_version_num()), (16, 1000, 4));
    assert!(first.tokens.is_sorted_by(|a, b| a < b));

    let mutation = local::written_at_start(&system, &config, &first, 5);
    let table = rows::system_table(&system, "system", "local");
    let stored = Stored::load(&system, &rows_of(&mutation, table.id)).expect("loads");
    assert_eq!(stored.identity.as_ref(), Some(&first));
    assert_eq!((stored.schema_version, stored.last_timestamp), (None, 5));

    assert!(!stored.has_left);
    let left = local::decommissioned(&system, 6);
    assert!(Stored::load(&system, &rows_of(&left, table.id)).expect("loads").has_left);

    // A clock that went back does not take the generation back with it.
    for (now, generation) in [(2000, 2000), (10, 1001), (i64::MAX, i32::MAX)] {
        let next = first.restarted(now);
        assert_eq!((next.generation, &next.tokens, next.host_id), (generation, &first.tokens, first.host_id));
    }
    let row = rows_of(&mutation, table.id).remove(0);
    let written: Vec<&str> = table
        .regular()
        .iter()
        .filter(|column| row.cells.iter().any(|c| c.column == column.id))
        .map(|column| column.name.as_str())
        .collect();
    let missing: Vec<&str> =
        table.regular().iter().map(|column| column.name.as_str()).filter(|name| !written.contains(name)).collect();
    assert_eq!(missing, ["schema_version", "truncated_at"]);
}

#[test]
fn tokens_have_a_limit() {
    for (asked, given) in [(0, 1), (1, 1), (TOKENS_MAX, TOKENS_MAX), (TOKENS_MAX + 1, TOKENS_MAX)] {
        assert_eq!(identity(asked).tokens.len(), given);
    }
}

#[test]
fn local_rows_that_are_damaged_are_refused() {
    let system = system_schema(model::Partitioner::Murmur3);
    let table = rows::system_table(&system, "system", "local");
    assert_eq!(Stored::load(&system, &[]).expect("a first start"), Stored::default());
    let config = crate::config::sample();
    let mutation = local::written_at_start(&system, &config, &identity(2), 5);
    let row = rows_of(&mutation, table.id).remove(0);
    let host_id = table.column("host_id").expect("a column").id;
    let tokens = table.column("tokens").expect("a column").id;
    let damages: [&dyn Fn(&mut StoredCell); 3] = [
        &|cell| {
            if cell.column == host_id {
                cell.value.truncate(3);
            }
        },
        &|cell| {
            if cell.column == tokens {
                cell.path = Some(b"x".to_vec());
            }
        },
        &|cell| {
            if cell.column == tokens {
                cell.path = None;
            }
        },
    ];
    for damage in damages {
        let mut row = row.clone();
        row.cells.iter_mut().for_each(damage);
        assert!(matches!(Stored::load(&system, &[row]), Err(Error::Malformed { .. })));
    }
}

#[test]
fn data_of_another_partitioner_is_refused() {
    let [system, other] = [model::Partitioner::Random, model::Partitioner::Murmur3].map(system_schema);
    let table = rows::system_table(&system, "system", "local");
    let mutation = local::written_at_start(&system, &crate::config::sample(), &identity(2), 5);
    let error = Stored::load(&other, &rows_of(&mutation, table.id)).expect_err("refused");
    assert_eq!(
        error.to_string(),
        "the data directory was made with partitioner org.apache.cassandra.dht.RandomPartitioner, which does not match \
         system partitioner org.apache.cassandra.dht.Murmur3Partitioner"
    );
}

#[test]
fn prepared_statements_survive_their_rows() {
    let system = system_schema(model::Partitioner::Murmur3);
    let table = rows::system_table(&system, "system", "prepared_statements").id;
    let statements = [
        StoredStatement { id: [1; 16], keyspace: Some("k".into()), text: "SELECT v FROM t WHERE k = ?".into() },
        StoredStatement { id: [2; 16], keyspace: None, text: "SELECT * FROM k.t".into() },
    ];
    let rows: Vec<StoredRow> =
        statements.iter().flat_map(|statement| rows_of(&prepared::stored(&system, statement, 3), table)).collect();
    assert_eq!(prepared::load(&system, &rows).expect("loads"), statements);
    let mut short = rows[0].clone();
    short.key.truncate(15);
    assert!(prepared::load(&system, &[short]).is_err());
    let forgotten = prepared::forgotten(&system, &[1; 16], 4, 1);
    assert!(forgotten.updates().all(|update| update.partition_deletion.deletes(3)));
}

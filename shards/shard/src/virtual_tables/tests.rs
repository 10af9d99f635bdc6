//! Reading virtual rows: order, slices, limits, pages.

use super::*;
use crate::schema::system_schema;
use model::Partitioner;
use model::query::Position;
use model::token::TokenRange;
use model::{DecoratedKey, Schema};

/// Collects keys and clusterings; full after `most` rows.
struct Collector {
    rows: Vec<(String, Vec<Vec<u8>>, Position)>,
    most: usize,
}

impl RowSink for Collector {
    fn row(&mut self, row: &LiveRow<'_>) -> SinkState {
        let position =
            Position { key: DecoratedKey::new(Partitioner::Murmur3, row.key), comparable: Some(row.comparable.into()) };
        let key = String::from_utf8(row.key.to_vec()).expect("text");
        self.rows.push((key, row.clustering.components().map(<[u8]>::to_vec).collect(), position));
        if self.rows.len() == self.most { SinkState::Full } else { SinkState::Open }
    }
}

fn sample(schema: &Schema) -> VirtualRows<'_> {
    let table = schema.table("system_virtual_schema", "tables").expect("a table");
    let mut rows = VirtualRows { table, rows: Vec::new() };
    let text = |text: &str| Some(text.as_bytes().to_vec());
    for (keyspace, name) in [("b", "y"), ("a", "z"), ("b", "x"), ("b", "z"), ("c", "x")] {
        rows.push([("keyspace_name", text(keyspace)), ("table_name", text(name)), ("comment", text("c"))]);
    }
    rows
}

fn command(partitions: Partitions) -> ReadCommand {
    ReadCommand::all(model::TableId([0; 16]), 0, partitions)
}

fn given(command: &ReadCommand, most: usize) -> (Vec<String>, ReadEnd, Option<Position>) {
    let schema = system_schema(model::Partitioner::Murmur3);
    let mut sink = Collector { rows: Vec::new(), most };
    let end = sample(&schema).give(model::Partitioner::Murmur3, command, &mut sink);
    let last = sink.rows.last().map(|(_, _, position)| position.clone());
    let shown =
        sink.rows.iter().map(|(key, clustering, _)| format!("{key}{}", String::from_utf8_lossy(&clustering[0])));
    (shown.collect(), end, last)
}

#[test]
fn rows_come_by_key_and_clustering() {
    let all = command(Partitions::Range(TokenRange::FULL));
    assert_eq!(
        given(&all, 9),
        (["az", "bx", "by", "bz", "cx"].map(String::from).to_vec(), ReadEnd::Exhausted, given(&all, 9).2)
    );
    let reversed =
        ReadCommand { reversed: true, ..command(Partitions::Key(DecoratedKey::new(Partitioner::Murmur3, b"b"))) };
    assert_eq!(given(&reversed, 9).0, ["bz", "by", "bx"]);
    let limited = ReadCommand { per_partition_max: 1, rows_max: 2, ..all };
    let (rows, end, _) = given(&limited, 9);
    assert_eq!((rows, end), (vec!["az".to_string(), "bx".to_string()], ReadEnd::Stopped));
}

#[test]
fn pages_go_on_after_their_last_row() {
    for reversed in [false, true] {
        let mut next = ReadCommand { reversed, ..command(Partitions::Range(TokenRange::FULL)) };
        let whole = given(&next, 9).0;
        let mut seen = Vec::new();
        loop {
            let (rows, end, last) = given(&next, 1);
            seen.extend(rows);
            if end == ReadEnd::Exhausted {
                break;
            }
            next.resume = last;
        }
        assert_eq!(seen, whole);
    }
}

#[test]
fn virtual_tables_are_cassandras() {
    let schema = system_schema(model::Partitioner::Murmur3);
    let keyspaces = model::schema::VIRTUAL_KEYSPACES.map(|name| schema.keyspace(name).expect("there").tables.len());
    assert_eq!(keyspaces, [50, 3], "with seven of our own");
    let clients = schema.table("system_views", "clients").expect("there");
    assert_eq!(clients.id.to_string(), "89dc73d4-1447-3765-948b-500c7c35a35d");
    assert!(clients.is_virtual());
}

//! Encoding rows into blocks.

use super::*;
use crate::rows::block::{counted_nothing, merge_counted};
use cql::plan::Selector;
use model::mutation::{Clustering, push_clustering};
use model::query::ReadCommand;
use model::schema::{Column, TableOptions};
use model::{ColumnKind, TableId};

fn table() -> Table {
    let set = CqlType::Set { element: CqlType::Int.into(), frozen: false };
    let list = CqlType::List { element: CqlType::Text.into(), frozen: false };
    let map = CqlType::Map { key: CqlType::Int.into(), value: CqlType::Int.into(), frozen: false };
    let columns = [
        ("p", ColumnKind::PartitionKey, 0, CqlType::Text),
        ("q", ColumnKind::PartitionKey, 1, CqlType::Int),
        ("c", ColumnKind::Clustering, 0, CqlType::Int),
        ("i", ColumnKind::Regular, 0, CqlType::Int),
        ("l", ColumnKind::Regular, 0, list),
        ("m", ColumnKind::Regular, 0, map),
        ("s", ColumnKind::Regular, 0, set),
    ];
    let columns = columns.into_iter().enumerate().map(|(id, (name, kind, position, cql_type))| Column {
        id: ColumnId(id as u16),
        name: name.into(),
        kind,
        position,
        cql_type,
        descending: false,
    });
    Table {
        id: TableId([1; 16]),
        keyspace: "k".into(),
        name: "t".into(),
        columns: columns.collect(),
        partition_key_len: 2,
        clustering_len: 1,
        static_len: 0,
        layout: model::schema::Layout::Plain,
        dropped: Vec::new(),
        indexes: Vec::new(),
        masks: Default::default(),
        options: TableOptions::default(),
    }
}

fn request(selection: Vec<Selector>, rows_max: u64, bytes_max: usize) -> ReadRequest {
    let everything = Partitions::Range(model::token::TokenRange::FULL);
    let command = ReadCommand { rows_max, ..ReadCommand::all(TableId([1; 16]), 100, everything) };
    ReadRequest { command, selection: selection.into(), filter: None, index: None, bytes_max, places: true }
}

fn cell<'a>(column: u16, path: Option<&'a [u8]>, value: &'a [u8]) -> Cell<'a> {
    Cell { column: ColumnId(column), timestamp: 9, content: CellContent::Live(value), path }
}

/// Feeds `count` rows with the given cells and finishes.
fn block(selection: Vec<Selector>, rows_max: u64, bytes_max: usize, count: u8, cells: &[Cell<'_>]) -> (ReadReply, u8) {
    let (table, request) = (table(), request(selection, rows_max, bytes_max));
    let mut sink = RowBlockSink::new(Partitioner::Murmur3, &table, &request);
    let mut key = Vec::new();
    model::key::push_composite([&b"pk"[..], &[0, 0, 0, 5]].into_iter(), &mut key);
    let mut taken = 0;
    for n in 0..count {
        let mut clustering = Vec::new();
        push_clustering(&mut clustering, &[0, 0, 0, n]);
        let row = LiveRow {
            token: Token(77),
            key: &key,
            clustering: Clustering(&clustering),
            comparable: &[n],
            liveness: None,
            cells,
            static_cells: &[],
            static_only: false,
        };
        taken += 1;
        if sink.row(&row) == SinkState::Full {
            break;
        }
    }
    (sink.finish(ReadEnd::Exhausted), taken)
}

fn columns(ids: &[u16]) -> Vec<Selector> {
    ids.iter().map(|id| Selector::Column(ColumnId(*id))).collect()
}

#[test]
fn keys_cells_and_collections_are_encoded_in_any_order() {
    let (minus, one) = ((-1i32).to_be_bytes(), 1i32.to_be_bytes());
    // In the order of the paths as bytes: 1 before -1.
    let cells = [
        cell(3, None, b"IIII"),
        cell(4, Some(&[0; 16]), b"x"),
        cell(4, Some(&[0x7f; 16]), b"y"),
        cell(6, Some(&one), b""),
        cell(6, Some(&minus), b""),
    ];
    let (reply, _) = block(columns(&[0, 1, 2, 3, 4, 5, 6]), 10, 1000, 1, &cells);
    let list = [&[0, 0, 0, 2, 0, 0, 0, 1][..], b"x", &[0, 0, 0, 1], b"y"].concat();
    let set = [&[0, 0, 0, 2, 0, 0, 0, 4][..], &minus, &[0, 0, 0, 4], &one].concat();
    let expected: Vec<Option<&[u8]>> =
        vec![Some(b"pk"), Some(&[0, 0, 0, 5]), Some(&[0, 0, 0, 0]), Some(b"IIII"), Some(&list), None, Some(&set)];
    assert_eq!(cells_of(&reply.block.bytes).collect::<Vec<_>>(), expected);
    let (reply, _) = block(columns(&[6, 3, 0, 3]), 10, 1000, 1, &cells);
    let found: Vec<Option<&[u8]>> = cells_of(&reply.block.bytes).collect();
    assert_eq!(found, [Some(&set[..]), Some(b"IIII"), Some(b"pk"), Some(b"IIII")]);
}

#[test]
fn functions_of_a_row() {
    let cells = [cell(3, None, b"IIII")];
    let selection =
        vec![Selector::WriteTime(ColumnId(3)), Selector::Token(Partitioner::Murmur3), Selector::Ttl(ColumnId(3))];
    let (reply, _) = block(selection, 10, 1000, 1, &cells);
    let found: Vec<Option<&[u8]>> = cells_of(&reply.block.bytes).collect();
    assert_eq!(found, [Some(&9i64.to_be_bytes()[..]), Some(&77i64.to_be_bytes()), None]);
}

#[test]
fn a_block_is_full_by_rows_or_bytes_and_tells_every_place() {
    let cells = [cell(3, None, b"IIII")];
    let (reply, taken) = block(columns(&[3]), 3, 1000, 9, &cells);
    assert_eq!((taken, reply.block.rows, reply.end), (3, 3, ReadEnd::Stopped));
    assert_eq!(reply.last, Some(reply.places.resume(Partitioner::Murmur3, 2)));
    assert_eq!(reply.places.resume(Partitioner::Murmur3, 1).position.comparable.as_deref(), Some(&[1][..]));
    assert_eq!(reply.block.ends, [(Token(77), 8), (Token(77), 16), (Token(77), 24)]);
    // The row with which the block reaches `bytes_max` is the last one.
    for (bytes_max, rows) in [(8, 1), (9, 2), (16, 2), (17, 3)] {
        assert_eq!(block(columns(&[3]), 100, bytes_max, 9, &cells).0.block.rows, rows);
    }
    let (reply, _) = block(columns(&[3]), 100, 1000, 9, &cells);
    assert_eq!((reply.end, reply.last), (ReadEnd::Exhausted, None));
}

#[test]
fn counts_come_as_one_row_and_add_up() {
    let cells = [cell(3, None, b"IIII")];
    let selection = vec![
        Selector::CountRows,
        Selector::Count(ColumnId(5)),
        Selector::Count(ColumnId(3)),
        Selector::Column(ColumnId(2)),
    ];
    let (reply, _) = block(selection.clone(), 100, 1000, 9, &cells);
    let number = |n: u64| n.to_be_bytes().to_vec();
    let found: Vec<Vec<u8>> = cells_of(&reply.block.bytes).map(|cell| cell.unwrap_or_default().to_vec()).collect();
    assert_eq!(found, [number(9), number(0), number(9), vec![0, 0, 0, 0]]);
    let sum = merge_counted(&selection, &[reply.block.clone(), reply.block]);
    let found: Vec<Vec<u8>> = cells_of(&sum.bytes).map(|cell| cell.unwrap_or_default().to_vec()).collect();
    assert_eq!(found, [number(18), number(0), number(18), vec![0, 0, 0, 0]]);
    // A value of eight bytes is not taken for a count.
    let beside = vec![Selector::CountRows, Selector::Column(ColumnId(1))];
    let mut bytes = Vec::new();
    [number(3), number(u64::MAX)].iter().for_each(|cell| push_element(&mut bytes, Some(cell)));
    let part = RowBlock { rows: 1, bytes, ..RowBlock::default() };
    let sum = merge_counted(&beside, &[part.clone(), part]);
    let found: Vec<Vec<u8>> = cells_of(&sum.bytes).map(|cell| cell.unwrap_or_default().to_vec()).collect();
    assert_eq!(found, [number(6), number(u64::MAX)]);
    assert_eq!(merge_counted(&selection, &[]), RowBlock::default());
    assert_eq!(cells_of(&counted_nothing(&selection).bytes).last(), Some(None));
}

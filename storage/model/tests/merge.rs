//! Laws of merging rows, for random rows.

use model::arbitrary::{self, generator};
use model::counter::global;
use model::merge::{EqualKeys, filter_row, merge_rows, reconcile};
use model::row::{Cell, CellContent, Deletion, RowBuilder, RowView};
use model::{ColumnId, CqlType, Table};

fn row(table: &Table, below: &mut impl FnMut(u64) -> u64) -> Vec<u8> {
    let mut out = Vec::new();
    arbitrary::row(table, below, &mut out);
    out
}

fn merge(a: &[u8], b: &[u8], deletion: Deletion) -> Vec<u8> {
    let mut out = Vec::new();
    merge_rows(RowView::trusted(a), RowView::trusted(b), deletion, &mut out);
    assert!(RowView::parse(&out).is_ok(), "{out:02x?}");
    out
}

/// The row without what `deletion` shadows; the blob of an empty row if nothing remains.
fn filter(row: &[u8], deletion: Deletion) -> Vec<u8> {
    let mut out = vec![7];
    let remains = filter_row(RowView::trusted(row), deletion, &mut out);
    let blob = out.split_off(1);
    assert_eq!(out, [7]);
    assert_eq!(remains, !blob.is_empty());
    assert_eq!(remains, !RowView::trusted(&blob).is_empty());
    if remains { blob } else { vec![0] }
}

fn deletion(below: &mut impl FnMut(u64) -> u64) -> Deletion {
    if below(2) == 0 { Deletion::LIVE } else { arbitrary::deletion(below) }
}

#[test]
fn merge_is_commutative_associative_and_idempotent() {
    let mut below = generator(1);
    for _ in 0..6000 {
        let table = arbitrary::table("k", "t", &mut below);
        let [a, b, c] = [(); 3].map(|()| row(&table, &mut below));
        let live = Deletion::LIVE;
        let ab = merge(&a, &b, live);
        assert_eq!(ab, merge(&b, &a, live), "{a:02x?} {b:02x?}");
        assert_eq!(merge(&ab, &c, live), merge(&a, &merge(&b, &c, live), live), "{a:02x?} {b:02x?} {c:02x?}");
        assert_eq!(merge(&ab, &ab, live), ab);
        assert_eq!(merge(&ab, &b, live), ab);
        assert_eq!(merge(&a, &[0], live), filter(&a, live));
    }
}

#[test]
fn filters_are_deletions_applied_before_or_after() {
    let mut below = generator(2);
    for _ in 0..6000 {
        let table = arbitrary::table("k", "t", &mut below);
        let [a, b] = [(); 2].map(|()| row(&table, &mut below));
        let (d, e) = (deletion(&mut below), deletion(&mut below));
        assert_eq!(filter(&filter(&a, d), d), filter(&a, d));
        assert_eq!(filter(&filter(&a, d), e), filter(&a, d.max(e)));
        assert_eq!(filter(&merge(&a, &b, Deletion::LIVE), d), merge(&a, &b, d));
        assert_eq!(merge(&filter(&a, d), &filter(&b, d), d), merge(&a, &b, d));
        for cell in RowView::trusted(&filter(&a, d)).cells() {
            let later_column =
                matches!(cell.content, CellContent::ColumnDeletion { .. }) && cell.timestamp == d.timestamp;
            assert!(!d.deletes(cell.timestamp) || later_column);
        }
    }
}

#[test]
fn the_winner_is_cassandras() {
    let cell = |timestamp, content| Cell { column: ColumnId(0), timestamp, content, path: None };
    let expiring = |value, ttl, local_deletion_time| CellContent::Expiring { value, ttl, local_deletion_time };
    let deleted = |local_deletion_time| CellContent::Deleted { local_deletion_time };
    // Each beats all cells before it.
    let ladder = [
        cell(1, deleted(9)),
        cell(2, CellContent::Live(b"a")),
        cell(2, CellContent::Live(b"ab")),
        cell(2, CellContent::Live(b"b")),
        cell(2, expiring(b"a", 9, 5)),
        cell(2, expiring(b"a", 8, 5)),
        cell(2, expiring(b"b", 9, 5)),
        cell(2, expiring(b"a", 9, 6)),
        cell(2, deleted(1)),
        cell(2, deleted(2)),
        cell(3, CellContent::Live(b"")),
    ];
    for (i, a) in ladder.iter().enumerate() {
        for (j, b) in ladder.iter().enumerate() {
            assert_eq!(reconcile(*a, *b), ladder[i.max(j)], "{a:?} {b:?}");
        }
    }
}

/// A row with one counter.
fn counted(column: u16, timestamp: i64, content: CellContent<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let cell = Cell { column: ColumnId(column), timestamp, content, path: None };
    RowBuilder::new(&mut out, None, Deletion::LIVE).cell(&cell);
    out
}

#[test]
fn counters_merge_by_shard_whatever_their_timestamps() {
    let mut below = generator(4);
    for _ in 0..6000 {
        let [a, b, c] = [(); 3].map(|()| {
            let context = global([below(3) as u8; 16], below(3) as i64, below(3) as i64);
            counted(below(2) as u16, below(3) as i64, CellContent::Counter(&context))
        });
        let live = Deletion::LIVE;
        let ab = merge(&a, &b, live);
        assert_eq!(ab, merge(&b, &a, live), "{a:02x?} {b:02x?}");
        assert_eq!(merge(&ab, &c, live), merge(&a, &merge(&b, &c, live), live), "{a:02x?} {b:02x?} {c:02x?}");
        assert_eq!(merge(&ab, &ab, live), ab);
        let deleted = counted(0, 0, CellContent::Deleted { local_deletion_time: 9 });
        let left = merge(&ab, &deleted, live);
        assert_eq!(left, merge(&deleted, &ab, live));
        let first = RowView::trusted(&left).cells().next().expect("a cell");
        assert!(matches!(first.content, CellContent::Deleted { .. }), "{first:?}");
        // A counter that a deletion shadows is in no sum.
        let deletion = Deletion { timestamp: 1, local_deletion_time: 1 };
        let kept = merge(&filter(&a, deletion), &filter(&b, deletion), live);
        assert_eq!(merge(&a, &b, deletion), kept);
    }
}

#[test]
fn rows_with_broken_counters_are_not_rows() {
    let context = global([1; 16], 2, 3);
    let good = counted(1, 1, CellContent::Counter(&context));
    assert!(RowView::parse(&good).is_ok());
    let bad = counted(1, 1, CellContent::Counter(&context[..35]));
    assert!(RowView::parse(&bad).is_err());
}

/// A decimal from its digits and its scale.
fn decimal(digits: i8, scale: i32) -> Vec<u8> {
    [&scale.to_be_bytes()[..], &digits.to_be_bytes()].concat()
}

#[test]
fn one_cell_remains_of_keys_equal_by_type() {
    let mut below = generator(4);
    let mut table = arbitrary::table("k", "t", &mut below);
    let others = table.columns.iter_mut().filter(|column| column.cql_type.is_multicell());
    others.for_each(|column| column.cql_type = CqlType::Int);
    let decimals = CqlType::Set { element: Box::new(CqlType::Decimal), frozen: false };
    let column = table.columns.last_mut().unwrap();
    column.cql_type = decimals;
    let id = column.id;
    let keys = EqualKeys::of(&table);
    assert!(!keys.is_empty());
    let with = |cells: &[(Vec<u8>, i64)]| {
        let mut cells = cells.to_vec();
        cells.sort();
        let mut out = Vec::new();
        let mut row = RowBuilder::new(&mut out, None, Deletion::LIVE);
        for (path, timestamp) in &cells {
            let content = CellContent::Live(&[]);
            row.cell(&Cell { column: id, timestamp: *timestamp, content, path: Some(path) });
        }
        out
    };
    let (one, one_0, one_00, two) = (decimal(1, 0), decimal(10, 1), decimal(100, 2), decimal(2, 0));
    let unify = |row: &[u8]| {
        let mut room = Vec::new();
        keys.one_per_key(RowView::trusted(row), &mut room).blob().to_vec()
    };
    let all = with(&[(one.clone(), 5), (one_0.clone(), 7), (one_00.clone(), 6), (two.clone(), 1)]);
    assert_eq!(unify(&all), with(&[(one_0.clone(), 7), (two.clone(), 1)]));
    let tie = with(&[(one.clone(), 5), (one_0.clone(), 5)]);
    assert_eq!(unify(&tie), with(&[(one, 5)]), "the first by bytes, whatever the order of merging");
    let apart = with(&[(one_0, 5), (two, 5)]);
    assert_eq!(unify(&apart), apart);
    table.columns.last_mut().unwrap().cql_type = CqlType::Decimal;
    assert!(EqualKeys::of(&table).is_empty(), "a value, or a frozen collection, is no key of a cell");
}

//! Compares slices with the meaning of the bounds that they come from, row by row.

use super::*;
use model::schema::TableOptions;
use model::{ColumnId, ColumnKind, CqlType, TableId};

/// Values of each column: 0 to 3.
const VALUES: u8 = 4;
const COLUMNS: usize = 3;

fn table(descending: [bool; COLUMNS]) -> Table {
    let key = ("pk", ColumnKind::PartitionKey, 0, false);
    let clustering = (0..COLUMNS).map(|at| (["a", "b", "c"][at], ColumnKind::Clustering, at as u16, descending[at]));
    let columns = std::iter::once(key).chain(clustering).enumerate();
    Table {
        id: TableId([1; 16]),
        keyspace: "k".into(),
        name: "t".into(),
        columns: columns
            .map(|(id, (name, kind, position, descending))| Column {
                id: ColumnId(id as u16),
                name: name.into(),
                kind,
                position,
                cql_type: CqlType::Int,
                descending,
            })
            .collect(),
        partition_key_len: 1,
        clustering_len: COLUMNS,
        static_len: 0,
        layout: model::schema::Layout::Plain,
        dropped: Vec::new(),
        indexes: Vec::new(),
        masks: Default::default(),
        options: TableOptions::default(),
    }
}

fn bytes(values: &[u8]) -> Vec<Cow<'static, [u8]>> {
    values.iter().map(|&value| Cow::Owned(vec![0, 0, 0, value])).collect()
}

/// A bound as values and whether it is inclusive.
type Limit = Option<(Vec<u8>, bool)>;

fn meant(row: &[u8], lower: &Limit, upper: &Limit) -> bool {
    let above = lower.as_ref().is_none_or(|(values, inclusive)| {
        let order = row[..values.len()].cmp(values);
        order.is_gt() || *inclusive && order.is_eq()
    });
    let below = upper.as_ref().is_none_or(|(values, inclusive)| {
        let order = row[..values.len()].cmp(values);
        order.is_lt() || *inclusive && order.is_eq()
    });
    above && below
}

fn check(descending: [bool; COLUMNS], prefixes: &[Vec<u8>], lower: Limit, upper: Limit) {
    let table = table(descending);
    let width = prefixes.first().map_or(0, Vec::len);
    let flat = prefixes.iter().flat_map(|prefix| bytes(prefix)).collect();
    let edge =
        |limit: &Limit| limit.as_ref().map(|(values, inclusive)| Edge { values: bytes(values), inclusive: *inclusive });
    let bounds = Bounds {
        prefixes: Prefixes::new(width, prefixes.len(), flat),
        lower: edge(&lower),
        upper: edge(&upper),
        ends_at_null: false,
    };
    let slices = bounds.slices(&table);
    let case = format!("{descending:?} {prefixes:?} {lower:?} {upper:?} {slices:?}");
    // In order and with gaps between them, because adjacent slices are joined.
    assert!(slices.is_sorted_by(|a, b| a.end < b.start), "{case}");
    for n in 0..VALUES.pow(COLUMNS as u32) {
        let row = [n / VALUES / VALUES, n / VALUES % VALUES, n % VALUES];
        let mut comparable = Vec::new();
        comparable::clustering(&table, bytes(&row).iter().map(|value| &**value), &mut comparable);
        let inside = slices.iter().any(|slice| slice.contains(&comparable));
        let wanted = prefixes.iter().any(|prefix| row.starts_with(prefix)) && meant(&row[width..], &lower, &upper);
        assert_eq!(inside, wanted, "{row:?} {case}");
    }
}

/// Random bounds after random prefixes, with every mixture of directions.
#[test]
fn slices_hold_what_the_bounds_mean() {
    let mut state = 1u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    for round in 0..20_000 {
        let descending = [round & 1 == 1, round & 2 == 2, round & 4 == 4];
        let width = next(3) as usize;
        let count = if width == 0 { 1 } else { 1 + next(3) };
        let mut prefixes: Vec<Vec<u8>> =
            (0..count).map(|_| (0..width).map(|_| next(VALUES.into()) as u8).collect()).collect();
        prefixes.sort();
        prefixes.dedup();
        let mut limit = || {
            let len = next((COLUMNS - width + 1) as u64);
            let values: Vec<u8> = (0..len).map(|_| next(VALUES.into()) as u8).collect();
            (len > 0).then_some((values, next(2) == 0))
        };
        let (lower, upper) = (limit(), limit());
        check(descending, &prefixes, lower, upper);
    }
}

#[test]
fn one_direction_gives_one_slice_and_mixed_ones_several() {
    let slices = |descending| {
        let table = table(descending);
        let lower = Some(Edge { values: bytes(&[1, 1, 1]), inclusive: false });
        let bounds = Bounds { prefixes: Prefixes::new(0, 1, Vec::new()), lower, upper: None, ends_at_null: false };
        bounds.slices(&table).len()
    };
    assert_eq!(slices([false; COLUMNS]), 1);
    assert_eq!(slices([true; COLUMNS]), 1);
    assert_eq!(slices([false, true, false]), 3);
    assert_eq!(slices([false, false, true]), 2);
}

//! Tables whose columns are altered while they hold data, before and after a crash.

use crate::support::before_ids::{column_list, write_segment};
use crate::support::*;
use engine::Store;
use model::Partitioner;
use model::mutation::Clustering;
use model::row::{Deletion, RowBuilder};
use model::schema::DroppedColumn;
use model::{ColumnId, ColumnKind, CqlType, Home, Mutation, MutationBuilder, Table};
use std::path::Path;
use std::sync::Arc;

/// The table of `support` with these regular columns; `dropped` has the name, id and time of each dropped column.
fn altered(regular: &[(&str, u16)], dropped: &[(&str, u16, i64)]) -> Arc<Table> {
    let names: Vec<&str> = regular.iter().map(|(name, _)| *name).collect();
    let mut table = Table::clone(&table_of("ks", 1, &names));
    for (column, (_, id)) in table.columns[3..].iter_mut().zip(regular) {
        column.id = ColumnId(*id);
    }
    table.dropped = dropped
        .iter()
        .map(|(name, id, dropped_at)| DroppedColumn {
            id: ColumnId(*id),
            name: (*name).into(),
            kind: ColumnKind::Regular,
            cql_type: CqlType::Text,
            dropped_at: *dropped_at,
        })
        .collect();
    Arc::new(table)
}

/// An UPDATE: cells without liveness.
fn update(row: i32, cells: &[(u16, i64, &[u8])]) -> Mutation {
    let mut builder = MutationBuilder::new(Partitioner::Murmur3, b"p");
    builder.table(table(1).id);
    builder.row(Clustering(&clustering(&[row, 0])), |out| {
        let mut row = RowBuilder::new(out, None, Deletion::LIVE);
        cells.iter().for_each(|(id, timestamp, bytes)| row.cell(&value(ColumnId(*id), *timestamp, bytes)));
    });
    builder.finish()
}

/// The first clustering column of a row, and its cells as column and value.
type Shown = (i32, Vec<(u16, Vec<u8>)>);

fn shown(rows: &[Row]) -> Vec<Shown> {
    rows.iter().map(|(_, clustering, _, cells)| (clustering[0], cells.clone())).collect()
}

/// Lists a table's columns as a run of an earlier version numbered them, and writes a row with these cells.
fn listed(columns: &[(u16, ColumnKind, &str)], x: i32, cells: &[(u16, i64, &[u8])]) -> (Vec<u8>, Mutation) {
    (column_list(table(1).id, columns), update(x, cells))
}

#[test]
fn segments_from_before_ids_were_stored_are_read_by_the_names_of_columns() {
    use ColumnKind::{Clustering, PartitionKey, Regular, Static};
    let mut sim = calm(10);
    run(&mut sim, || async {
        let groups = [
            listed(&[(0, PartitionKey, "k"), (3, Regular, "a"), (4, Regular, "b")], 1, &[(3, 9, b"a1"), (4, 9, b"b1")]),
            // The next list is valid from its group on: another run's order, a renamed key, a column of another kind, a
            // column that nobody knows, and cells of a dropped column before and after the drop.
            listed(
                &[(1, Clustering, "old"), (3, Regular, "b"), (5, Static, "a"), (7, Regular, "gone"), (9, Regular, "x")],
                2,
                &[(3, 9, b"b2"), (5, 9, b"static"), (7, 100, b"too old"), (9, 9, b"unknown")],
            ),
            listed(&[(2, Regular, "gone")], 3, &[(2, 101, b"back")]),
            listed(&[(2, Regular, "unknown")], 4, &[(2, 101, b"unknown")]),
        ];
        write_segment(Path::new("/data/commitlog"), &groups).await;
    });
    let cell = |id: u16, bytes: &[u8]| (id, bytes.to_vec());
    let with_gone = altered(&[("a", 4), ("b", 3), ("gone", 8)], &[("gone", 8, 100)]);
    let without = altered(&[("a", 4), ("b", 3)], &[("gone", 6, 100)]);
    let first = [(1, vec![cell(3, b"b1"), cell(4, b"a1")]), (2, vec![cell(3, b"b2")])];
    for (table, third) in [(without, None), (with_gone, Some((3, vec![cell(8, b"back")])))] {
        let rows = run(&mut sim, move || {
            let table = table.clone();
            async move {
                let store = Store::open(small()).await.expect("open");
                store.add_table(table.clone(), Home::ByToken);
                store.replay(&[]).await.expect("replay");
                read_all(&store, table.id).await
            }
        });
        assert_eq!(shown(&rows), first.iter().cloned().chain(third).collect::<Vec<_>>());
    }
}

#[test]
fn a_column_that_is_added_again_has_what_was_written_after_the_drop_also_after_a_crash() {
    let again = || altered(&[("0", 5), ("a", 3), ("b", 6)], &[("b", 6, 100)]);
    let mut sim = calm(11);
    let before = run(&mut sim, move || async move {
        let id = table(1).id;
        let store = start(small(), &[altered(&[("a", 3), ("b", 4)], &[])]).await;
        for mutation in [update(1, &[(3, 10, b"a1"), (4, 10, b"b1")]), update(2, &[(4, 10, b"b2")])] {
            store.apply(mutation, false).await.expect("apply");
        }
        store.add_table(altered(&[("a", 3)], &[("b", 4, 100)]), Home::ByToken);
        assert_eq!(shown(&read_all(&store, id).await), [(1, vec![(3, b"a1".to_vec())])]);
        // A write that began before the drop, with a timestamp after it.
        store.apply(update(3, &[(4, 101, b"b3")]), false).await.expect("apply");
        assert_eq!(read_all(&store, id).await.len(), 1);
        store.flush(id).await.expect("flush");
        // One that ends too late to be flushed under its name, and is gone for good.
        store.apply(update(6, &[(4, 200, b"b6")]), false).await.expect("apply");
        store.add_table(again(), Home::ByToken);
        let writes = [
            update(1, &[(5, 20, b"01")]),
            update(4, &[(5, 20, b"04"), (6, 100, b"too old")]),
            update(5, &[(4, 300, b"gone too"), (6, 102, b"b5")]),
        ];
        for mutation in writes {
            store.apply(mutation, false).await.expect("apply");
        }
        store.sync().await.expect("sync");
        shown(&read_all(&store, id).await)
    });
    let cell = |id: u16, bytes: &[u8]| (id, bytes.to_vec());
    assert_eq!(
        before,
        [
            (1, vec![cell(3, b"a1"), cell(5, b"01")]),
            (3, vec![cell(6, b"b3")]),
            (4, vec![cell(5, b"04")]),
            (5, vec![cell(6, b"b5")])
        ]
    );
    for flushes in [false, true] {
        sim.crash(NODE);
        let after = run(&mut sim, move || async move {
            let store = start(small(), &[again()]).await;
            if flushes {
                store.flush(table(1).id).await.expect("flush");
            }
            shown(&read_all(&store, table(1).id).await)
        });
        assert_eq!(after, before);
    }
}

#[test]
fn a_column_that_stays_dropped_keeps_its_later_cells_for_the_day_it_is_added_again() {
    let mut sim = calm(12);
    run(&mut sim, || async {
        let store = start(small(), &[altered(&[("a", 3), ("b", 4)], &[])]).await;
        store.apply(update(1, &[(3, 10, b"a1"), (4, 500, b"b1")]), false).await.expect("apply");
    });
    for (again, expected) in [
        (altered(&[("a", 3)], &[("b", 4, 100)]), vec![(3, b"a1".to_vec())]),
        (altered(&[("a", 3)], &[("b", 4, 500)]), vec![(3, b"a1".to_vec())]),
        (altered(&[("b", 5)], &[("a", 3, 9), ("b", 5, 100)]), vec![(5, b"b1".to_vec())]),
    ] {
        let rows = run(&mut sim, move || {
            let again = again.clone();
            async move {
                let store = start(small(), std::slice::from_ref(&again)).await;
                let rows = read_all(&store, again.id).await;
                // As before a dropped column is added again.
                store.add_table(altered(&[("a", 3)], &[("b", 4, 100)]), Home::ByToken);
                store.flush(again.id).await.expect("flush");
                rows
            }
        });
        assert_eq!(shown(&rows), [(1, expected)]);
    }
}

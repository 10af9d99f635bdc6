//! Tables whose columns are altered while they hold data, before and after a crash.

mod support;

use engine::Store;
use model::mutation::Clustering;
use model::row::{Deletion, RowBuilder};
use model::schema::DroppedColumn;
use model::{ColumnId, ColumnKind, CqlType, Home, Mutation, MutationBuilder, Table};
use std::sync::Arc;
use support::*;

#[test]
fn columns_are_found_by_name_when_their_ids_have_moved() {
    let mut sim = calm(10);
    run(&mut sim, || async {
        let store = start(small(), &[table(1)]).await;
        let mut builder = MutationBuilder::new(b"p");
        builder.table(table(1).id);
        builder.row(Clustering(&clustering(&[1, 1])), |out| {
            let mut row = RowBuilder::new(out, live(1), Deletion::LIVE);
            row.cell(&value(A, 1, b"of a"));
            row.cell(&value(B, 1, b"of b"));
        });
        store.apply(builder.finish(), false).await.expect("apply");
    });
    for (columns, expected) in [
        (&["a", "aa", "b"][..], vec![(3, b"of a".to_vec()), (5, b"of b".to_vec())]),
        (&["b"][..], vec![(3, b"of b".to_vec())]),
        (&["c"][..], vec![]),
    ] {
        let rows = run(&mut sim, move || async move {
            let store = Store::open(small()).await.expect("open");
            store.add_table(table_of("ks", 1, columns), Home::ByToken);
            store.replay(&[]).await.expect("replay");
            read_all(&store, table(1).id).await
        });
        assert_eq!(rows, [(b"p".to_vec(), vec![1, 1], true, expected)]);
    }
}

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
    let mut builder = MutationBuilder::new(b"p");
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

#[test]
fn a_dropped_column_is_gone_and_empty_when_it_is_added_again_also_after_a_crash() {
    let mut sim = calm(11);
    let before = run(&mut sim, || async {
        let id = table(1).id;
        let store = start(small(), &[altered(&[("a", 3), ("b", 4)], &[])]).await;
        for mutation in [update(1, &[(3, 10, b"a1"), (4, 10, b"b1")]), update(2, &[(4, 10, b"b2")])] {
            store.apply(mutation, false).await.expect("apply");
        }
        store.add_table(altered(&[("a", 3)], &[("b", 4, 100)]), Home::ByToken);
        assert_eq!(shown(&read_all(&store, id).await), [(1, vec![(3, b"a1".to_vec())])]);
        // A write that began before the drop, with a timestamp after it.
        store.apply(update(3, &[(4, 101, b"b3")]), false).await.expect("apply");
        store.add_table(altered(&[("0", 5), ("a", 3), ("b", 4)], &[("b", 4, 100)]), Home::ByToken);
        let writes = [
            update(1, &[(5, 20, b"01")]),
            update(4, &[(4, 100, b"too old"), (5, 20, b"04")]),
            update(5, &[(4, 102, b"b5")]),
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
            (3, vec![cell(4, b"b3")]),
            (4, vec![cell(5, b"04")]),
            (5, vec![cell(4, b"b5")])
        ]
    );
    sim.crash(NODE);
    // The next start numbers the columns anew: `0`, `a`, `b`.
    let after = run(&mut sim, || async {
        let mut table = Table::clone(&altered(&[("0", 9), ("a", 9), ("b", 9)], &[("b", 9, 100)]));
        table.number_columns();
        table.dropped[0].id = table.column("b").expect("a column").id;
        let store = start(small(), &[Arc::new(table.clone())]).await;
        shown(&read_all(&store, table.id).await)
    });
    let renumbered = |(row, cells): (i32, Vec<(u16, Vec<u8>)>)| {
        let mut cells: Vec<_> =
            cells.into_iter().map(|(id, value)| (if id == 5 { 3 } else { id + 1 }, value)).collect();
        cells.sort();
        (row, cells)
    };
    assert_eq!(after, before.into_iter().map(renumbered).collect::<Vec<_>>());
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
        (altered(&[("b", 3)], &[("a", 4, 9), ("b", 3, 100)]), vec![(3, b"b1".to_vec())]),
    ] {
        let rows = run(&mut sim, move || {
            let again = again.clone();
            async move { read_all(&start(small(), std::slice::from_ref(&again)).await, again.id).await }
        });
        assert_eq!(shown(&rows), [(1, expected)]);
    }
}

#[test]
fn a_column_of_another_kind_is_another_column_and_a_renamed_key_is_the_same() {
    let mut sim = calm(13);
    run(&mut sim, || async {
        let store = start(small(), &[altered(&[("a", 3), ("b", 4)], &[])]).await;
        store.apply(update(1, &[(3, 10, b"a1"), (4, 10, b"b1")]), false).await.expect("apply");
        let mut renamed = Table::clone(&altered(&[("a", 3), ("b", 4)], &[]));
        renamed.columns[1].name = "renamed".into();
        store.add_table(Arc::new(renamed), Home::ByToken);
        store.apply(update(2, &[(3, 11, b"a2")]), false).await.expect("apply");
    });
    let rows = run(&mut sim, || async {
        let mut table = Table::clone(&altered(&[("a", 4), ("b", 3)], &[]));
        table.columns[1].name = "renamed".into();
        table.columns[3].kind = ColumnKind::Static;
        table.static_len = 1;
        read_all(&start(small(), &[Arc::new(table.clone())]).await, table.id).await
    });
    assert_eq!(shown(&rows), [(1, vec![(3, b"b1".to_vec())])]);
}

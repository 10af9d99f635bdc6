//! Columns by their ids in tables that were altered at random: found where they are, never numbered like another, and
//! hidden once they were dropped.

use model::arbitrary::{generator, table};
use model::schema::{DroppedColumn, Table};
use model::{Column, ColumnId, ColumnKind, CqlType};
use std::collections::{BTreeMap, BTreeSet};

/// Adds a regular column at its place, as ALTER TABLE does.
fn add(table: &mut Table, name: &str) -> ColumnId {
    let id = table.next_column_id().expect("an id");
    if let Some(dropped) = table.dropped.iter_mut().find(|dropped| dropped.name == name) {
        dropped.id = id;
    }
    let first = table.primary_key_len() + table.static_len;
    let at = first + table.regular().partition_point(|other| *other.name < *name);
    let (name, cql_type) = (name.to_owned(), CqlType::Int);
    table.columns.insert(at, Column { id, name, kind: ColumnKind::Regular, position: 0, cql_type, descending: false });
    id
}

fn drop(table: &mut Table, at: usize, dropped_at: i64) {
    let Column { id, name, kind, cql_type, .. } = table.columns.remove(at);
    table.dropped.retain(|dropped| dropped.name != name);
    table.dropped.push(DroppedColumn { id, name, kind, cql_type, dropped_at });
}

#[test]
fn ids_of_altered_tables() {
    for seed in 0..40 {
        let mut below = generator(seed);
        let mut table = table("ks", "t", &mut below);
        let mut given: BTreeSet<ColumnId> = table.columns.iter().map(|column| column.id).collect();
        // By name: when the column was dropped last.
        let mut dropped_at: BTreeMap<String, i64> = BTreeMap::new();
        for step in 0..60 {
            let regular = table.regular().len() as u64;
            if regular > 0 && below(2) == 0 {
                let at = table.columns.len() - 1 - below(regular) as usize;
                dropped_at.insert(table.columns[at].name.clone(), step);
                drop(&mut table, at, step);
            } else {
                let name = format!("{}{}", ["a", "m", "z"][below(3) as usize], below(12));
                if table.column(&name).is_none() {
                    assert!(given.insert(add(&mut table, &name)), "an id was given twice");
                }
            }
            for id in (0..given.len() as u16 + 2).map(ColumnId) {
                let at = table.columns.iter().position(|column| column.id == id);
                assert_eq!(table.index_of(id), at, "seed {seed}, step {step}");
                assert_eq!(table.column_by_id(id), at.map(|at| &table.columns[at]));
                for timestamp in [step - 9, step, step + 1] {
                    let hidden = match at.map(|at| &table.columns[at].name) {
                        Some(name) => dropped_at.get(name).is_some_and(|dropped_at| timestamp <= *dropped_at),
                        None => !table.dropped.is_empty(),
                    };
                    assert_eq!(table.is_dropped(id, timestamp), hidden, "seed {seed}, step {step}, {id:?}");
                }
            }
        }
    }
}

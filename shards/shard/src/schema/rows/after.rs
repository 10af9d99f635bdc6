//! A keyspace as a change of its rows leaves it, computed without a store: how a node that did not make a change itself
//! learns what it does.
//!
//! The rows of the keyspace as it is are written ([`keyspace_created`]), those of the change are laid over them, and
//! the result is read as at a start. Whatever is in a change is newer than what was there, so no timestamps are
//! compared. Most changes are about one table of a keyspace that may have thousands: if the rows of a change name their
//! tables, the others are left out of all this and stay as they are.

use super::load::{SchemaRows, load};
use super::{column_ids, masks, quotas, tablets};
use super::{keyspace_created, system_table};
use crate::schema::Error;
use crate::schema::cells::{StoredCell, StoredRow};
use model::mutation::{ClusteringBound, Operation, TableUpdate};
use model::row::{CellContent, RowView};
use model::{Keyspace, Mutation, Schema};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The keyspace after `change`, a mutation of `system_schema`; `None` if the change drops it. Tables that stay as they
/// are stay the same objects.
pub(crate) fn keyspace_after(schema: &Schema, name: &str, change: &Mutation) -> Result<Option<Keyspace>, Error> {
    let before = schema.keyspace(name);
    let named = named_tables(schema, change);
    let stays = |table: &str| named.as_ref().is_some_and(|named| !named.contains(table.as_bytes()));
    let mut rows = SchemaRows::default();
    if let Some(before) = before {
        let mut part = Keyspace::clone(before);
        part.tables.retain(|table, _| !stays(table));
        lay_over(schema, &mut rows, &keyspace_created(schema, &part, 0));
    }
    lay_over(schema, &mut rows, change);
    let Some(mut after) = load(schema, &rows)?.keyspaces.remove(name) else { return Ok(None) };
    if let Some(before) = before {
        if model::schema::SYSTEM_KEYSPACES.contains(&name) {
            // Their tables are defined by this program; the replication is the operator's to change.
            let Keyspace { replication, durable_writes, .. } = after;
            return Ok(Some(Keyspace { replication, durable_writes, ..Keyspace::clone(before) }));
        }
        for (name, table) in &mut after.tables {
            if let Some(same) = before.tables.get(name).filter(|same| ***same == **table) {
                *table = Arc::clone(same);
            }
        }
        let stay = before.tables.iter().filter(|(table, _)| stays(table));
        after.tables.extend(stay.map(|(name, table)| (name.clone(), Arc::clone(table))));
    }
    Ok(Some(after))
}

/// The names of the tables that a change is about; `None` if it may be about any: it changes types, or it deletes rows
/// of more than one table at once.
fn named_tables<'c>(schema: &Schema, change: &'c Mutation) -> Option<BTreeSet<&'c [u8]>> {
    let id = |name| system_table(schema, "system_schema", name).id;
    let (of_keyspaces, types) = ([id("keyspaces"), id(tablets::TABLE), id(quotas::TABLE)], id("types"));
    let mut named = BTreeSet::new();
    for update in change.updates() {
        if update.table == types || !update.partition_deletion.is_live() {
            return None;
        }
        // All other tables of the schema have the name of a table first in their clustering.
        let is_of_tables = !of_keyspaces.contains(&update.table);
        for operation in update.operations().filter(|_| is_of_tables) {
            match operation {
                Operation::Row { clustering, .. } => named.insert(clustering.components().next()?),
                Operation::RangeDeletion { start, end, .. } => {
                    let (first, last) = (start.prefix.components().next()?, end.prefix.components().next()?);
                    if first != last {
                        return None;
                    }
                    named.insert(first)
                }
                Operation::StaticRow { .. } => return None,
            };
        }
    }
    Some(named)
}

fn lay_over(schema: &Schema, rows: &mut SchemaRows, change: &Mutation) {
    let tables = [
        ("keyspaces", &mut rows.keyspaces),
        ("types", &mut rows.types),
        ("tables", &mut rows.tables),
        ("columns", &mut rows.columns),
        ("dropped_columns", &mut rows.dropped_columns),
        ("indexes", &mut rows.indexes),
        (column_ids::TABLE, &mut rows.column_ids),
        (masks::TABLE, &mut rows.masks),
        (tablets::TABLE, &mut rows.tablets),
        (quotas::TABLE, &mut rows.quotas),
    ];
    for (name, rows) in tables {
        let id = system_table(schema, "system_schema", name).id;
        for update in change.updates().filter(|update| update.table == id) {
            lay_over_table(rows, change.key(), &update);
        }
    }
}

/// `rows` stay in the order of their clustering's bytes.
fn lay_over_table(rows: &mut Vec<StoredRow>, key: &[u8], update: &TableUpdate<'_>) {
    if !update.partition_deletion.is_live() {
        rows.clear();
    }
    for operation in update.operations() {
        match operation {
            Operation::Row { clustering, row } => {
                let clustering: Vec<Vec<u8>> = clustering.components().map(<[u8]>::to_vec).collect();
                match rows.binary_search_by(|row| row.clustering.cmp(&clustering)) {
                    Ok(place) if !row.deletion().is_live() => drop(rows.remove(place)),
                    Ok(place) => lay_over_row(&mut rows[place], row),
                    Err(place) if row.liveness().is_some() => {
                        let mut added = StoredRow { key: key.to_vec(), clustering, cells: Vec::new() };
                        lay_over_row(&mut added, row);
                        rows.insert(place, added);
                    }
                    Err(_) => {}
                }
            }
            Operation::RangeDeletion { start, end, .. } => {
                rows.retain(|row| is_beyond(row, start, Ordering::Less) || is_beyond(row, end, Ordering::Greater));
            }
            // No table of the schema has static columns.
            Operation::StaticRow { .. } => {}
        }
    }
}

/// Whether a row lies on the outer side of a bound: before a start (`Less`), or after an end (`Greater`).
fn is_beyond(row: &StoredRow, bound: ClusteringBound<'_>, outside: Ordering) -> bool {
    let prefix: Vec<&[u8]> = bound.prefix.components().collect();
    let begin = row.clustering.iter().map(|component| &component[..]).take(prefix.len());
    match begin.cmp(prefix.iter().copied()) {
        Ordering::Equal => !bound.inclusive,
        side => side == outside,
    }
}

fn lay_over_row(row: &mut StoredRow, change: RowView<'_>) {
    for cell in change.cells() {
        row.cells.retain(|old| old.column != cell.column || old.path.as_deref() != cell.path);
        if let CellContent::Live(value) = cell.content {
            row.cells.push(StoredCell {
                column: cell.column,
                timestamp: cell.timestamp,
                path: cell.path.map(<[u8]>::to_vec),
                value: value.to_vec(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{keyspace_changed, keyspace_dropped, keyspace_replaced};
    use super::*;
    use crate::schema::system_schema;
    use crate::schema::tests::sample;
    use model::schema::KeyspaceTablets;
    use model::{Partitioner, Table};

    fn with(keyspace: &Keyspace) -> Schema {
        let mut schema = system_schema(Partitioner::Murmur3);
        schema.put_keyspace(Arc::new(keyspace.clone()));
        schema
    }

    /// What another node makes of the change from `before` to `after`.
    fn learned(before: &Keyspace, after: &Keyspace) -> Keyspace {
        let schema = with(before);
        let change = keyspace_changed(&schema, before, after, 100, 5);
        keyspace_after(&schema, &after.name, &change).expect("well-formed").expect("a keyspace")
    }

    #[test]
    fn a_change_is_learned_from_its_rows() {
        let full = sample();
        let mut bare = full.clone();
        bare.tables.clear();
        bare.types.clear();
        bare.tablets = None;
        assert_eq!(learned(&bare, &full), full, "types and tables appear");
        assert_eq!(learned(&full, &bare), bare, "and go");

        let mut altered = full.clone();
        let mut table = Table::clone(&full.tables["Tab"]);
        table.options.comment = "other".into();
        table.options.cdc = None;
        table.options.memtable = None;
        table.indexes.clear();
        altered.tables.insert("Tab".into(), Arc::new(table));
        altered.durable_writes = !full.durable_writes;
        altered.tablets = Some(KeyspaceTablets::default());
        assert_eq!(learned(&full, &altered), altered);
        assert_eq!(learned(&altered, &full), full);
    }

    #[test]
    fn a_keyspace_is_created_replaced_and_dropped() {
        let (full, system) = (sample(), system_schema(Partitioner::Murmur3));
        let created = keyspace_created(&system, &full, 7);
        assert_eq!(keyspace_after(&system, &full.name, &created).expect("well-formed"), Some(full.clone()));
        let schema = with(&full);
        let mut bare = full.clone();
        bare.tables.clear();
        let replaced = keyspace_replaced(&schema, &bare, 8, 5);
        assert_eq!(keyspace_after(&schema, &full.name, &replaced).expect("well-formed"), Some(bare));
        let dropped = keyspace_dropped(&schema, &full.name, 9, 5);
        assert_eq!(keyspace_after(&schema, &full.name, &dropped).expect("well-formed"), None);
    }

    #[test]
    fn a_change_of_tablets_is_of_no_table() {
        let full = sample();
        let without = Keyspace { tablets: None, ..full.clone() };
        let schema = with(&full);
        let change = keyspace_changed(&schema, &full, &without, 100, 5);
        assert_eq!(named_tables(&schema, &change), Some(BTreeSet::new()));
        assert_eq!(keyspace_after(&schema, &full.name, &change).expect("well-formed"), Some(without.clone()));
        let replaced = keyspace_replaced(&schema, &without, 8, 5);
        assert_eq!(keyspace_after(&schema, &full.name, &replaced).expect("well-formed"), Some(without));
    }

    /// A change of one table does not look at the rows of the others.
    #[test]
    fn one_table_of_several_changes() {
        let mut before = sample();
        for name in ["Ta", "Tab1", "z"] {
            let mut table = Table::clone(&before.tables["Tab"]);
            name.clone_into(&mut table.name);
            table.id = model::TableId([name.as_bytes()[name.len() - 1]; 16]);
            table.indexes.clear();
            before.tables.insert(name.into(), Arc::new(table));
        }
        let mut without = before.clone();
        without.tables.remove("Tab1");
        assert_eq!(learned(&before, &without), without);
        assert_eq!(learned(&without, &before), before);
        let mut altered = before.clone();
        Arc::make_mut(altered.tables.get_mut("Tab1").expect("there")).options.comment = "other".into();
        assert_eq!(learned(&before, &altered), altered);

        let schema = with(&before);
        let named = |after: &Keyspace| {
            let change = keyspace_changed(&schema, &before, after, 100, 5);
            let named = named_tables(&schema, &change)?;
            Some(named.into_iter().map(|name| String::from_utf8(name.to_vec()).expect("a name")).collect::<Vec<_>>())
        };
        assert_eq!(named(&without), Some(vec!["Tab1".to_string()]));
        assert_eq!(named(&altered), Some(vec!["Tab1".to_string()]));
        let mut other = before.clone();
        other.types.clear();
        assert_eq!(named(&other), None, "a type that tables may have");
        let dropped = keyspace_dropped(&schema, &before.name, 9, 5);
        assert!(named_tables(&schema, &dropped).is_none());
    }

    #[test]
    fn tables_that_stay_are_the_same_objects() {
        let full = sample();
        let mut after = full.clone();
        after.durable_writes = !full.durable_writes;
        let schema = with(&full);
        let change = keyspace_changed(&schema, &full, &after, 100, 5);
        let learned = keyspace_after(&schema, &full.name, &change).expect("well-formed").expect("a keyspace");
        assert!(Arc::ptr_eq(&learned.tables["Tab"], &schema.keyspace(&full.name).expect("there").tables["Tab"]));
    }

    #[test]
    fn of_a_system_keyspace_only_the_replication_changes() {
        let schema = system_schema(Partitioner::Murmur3);
        let before = schema.keyspace("system_auth").expect("there");
        let mut after = Keyspace::clone(before);
        after.replication.options.insert("replication_factor".into(), "3".into());
        let change = keyspace_changed(&schema, before, &after, 100, 5);
        assert_eq!(keyspace_after(&schema, "system_auth", &change).expect("well-formed"), Some(after));
    }
}

//! The ids of columns, as rows of `system_schema.helenus_column_ids`: one for each column that a table has, and one for
//! each that was dropped and not added again.
//!
//! The table is this program's own and hidden: drivers and tools read the other tables of `system_schema` whole and
//! must find Cassandra's columns there. Its partitions are keyspaces, like those of its neighbours, so that ids and
//! columns change in one mutation. System and virtual tables have no rows in it: their columns have the ids of their
//! order in the program.
//!
//! A table whose columns have no rows was defined by Cassandra, or by a version of this program that numbered columns
//! anew at every start: its columns get ids when the schema is loaded, in `SELECT *` order, and rows before the node
//! serves. Columns that Cassandra has added to a table that has rows are numbered after those of the rows.
//!
//! Invariants: no two columns of a table have one id; ids that are stored are never changed.

use model::{ColumnId, Table};
use std::collections::BTreeMap;

/// The table's name.
pub(crate) const TABLE: &str = "helenus_column_ids";

/// Ids by the names of a table's columns.
pub(super) type Ids = BTreeMap<String, ColumnId>;

/// Whether the ids of a table's columns are stored: those of a user table are.
pub(super) fn are_stored(table: &Table) -> bool {
    !table.is_system() && !table.is_virtual()
}

/// The ids of a table's columns, and of the dropped columns that do not exist.
pub(super) fn of(table: &Table) -> Ids {
    let dropped = table.dropped.iter().map(|dropped| (dropped.name.clone(), dropped.id));
    let columns = table.columns.iter().map(|column| (column.name.clone(), column.id));
    dropped.chain(columns).collect()
}

/// Gives the columns of `table` the ids that are stored, and new ones to those that have none. Returns whether all had
/// one; `None` if two have the same, or there are more columns than ids.
pub(super) fn assign(stored: &Ids, table: &mut Table) -> Option<bool> {
    let mut next = stored.values().map(|id| u32::from(id.0) + 1).max().unwrap_or(0);
    let mut ids = Ids::new();
    let mut complete = true;
    let columns = table.columns.iter().map(|column| &column.name);
    for name in columns.chain(table.dropped.iter().map(|dropped| &dropped.name)) {
        if ids.contains_key(name) {
            continue;
        }
        let id = match stored.get(name) {
            Some(id) => *id,
            None => {
                complete = false;
                next += 1;
                ColumnId(u16::try_from(next - 1).ok()?)
            }
        };
        ids.insert(name.clone(), id);
    }
    let mut found: Vec<ColumnId> = ids.values().copied().collect();
    found.sort_unstable();
    if found.windows(2).any(|pair| pair[0] == pair[1]) {
        return None;
    }
    table.columns.iter_mut().for_each(|column| column.id = ids[&column.name]);
    table.dropped.iter_mut().for_each(|dropped| dropped.id = ids[&dropped.name]);
    Some(complete)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::tests::sample;

    fn ids(table: &Table) -> Vec<(&str, u16)> {
        let columns = table.columns.iter().map(|column| (column.name.as_str(), column.id.0));
        columns.chain(table.dropped.iter().map(|dropped| (dropped.name.as_str(), dropped.id.0))).collect()
    }

    fn stored(ids: &[(&str, u16)]) -> Ids {
        ids.iter().map(|(name, id)| (name.to_string(), ColumnId(*id))).collect()
    }

    #[test]
    fn columns_without_ids_are_numbered_after_those_that_have_one() {
        let mut table = Table::clone(&sample().tables["Tab"]);
        // `t` was dropped and added again, `gone` only dropped.
        let fresh = [
            ("Pk", 0),
            ("b", 1),
            ("z", 2),
            ("a", 3),
            ("s", 4),
            ("aa", 5),
            ("d", 6),
            ("l", 7),
            ("t", 8),
            ("u", 9),
            ("gone", 10),
            ("t", 8),
        ];
        assert_eq!(assign(&Ids::new(), &mut table), Some(false));
        assert_eq!(ids(&table), fresh);
        // Stored ids stay, whatever the order of the columns, and also keep those that nothing is named by any more.
        let mut kept: Vec<(&str, u16)> = fresh[..11].iter().rev().map(|(name, id)| (*name, 100 - id)).collect();
        assert_eq!(assign(&stored(&kept), &mut table), Some(true));
        assert_eq!(of(&table), stored(&kept));
        kept.retain(|(name, _)| !["b", "gone"].contains(name));
        kept.push(("other", 200));
        assert_eq!(assign(&stored(&kept), &mut table), Some(false));
        assert_eq!((table.column("b").map(|column| column.id.0), table.dropped[0].id.0), (Some(201), 202));
        assert_eq!(table.column("Pk").map(|column| column.id.0), Some(100));
    }

    #[test]
    fn ids_that_cannot_be_are_refused() {
        let mut table = Table::clone(&sample().tables["Tab"]);
        let before = table.clone();
        assert_eq!(assign(&stored(&[("Pk", 3), ("gone", 3)]), &mut table), None);
        assert_eq!(assign(&stored(&[("Pk", u16::MAX)]), &mut table), None, "no id is left for the others");
        assert_eq!(table, before);
    }
}

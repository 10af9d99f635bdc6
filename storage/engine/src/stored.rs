//! Mutations that are kept in a table: a batch log, later hints.
//!
//! `[u32 number of column lists]`, each `[u32 length][list]`, then the encoded mutation, little-endian. The lists say what
//! the mutation's column ids meant when it was stored.
//!
//! Invariants: decoding takes any bytes; updates of tables that are gone, or were never known, are left out.

use crate::commitlog::record::{ColumnList, ListFormat};
use crate::renumber::Renumbering;
use model::{Mutation, MutationBuilder, Table, TableId};
use std::sync::Arc;

/// The bytes to store.
pub fn encode(mutation: &Mutation, table: impl Fn(TableId) -> Option<Arc<Table>>) -> Vec<u8> {
    let mut tables: Vec<TableId> = mutation.updates().map(|update| update.table).collect();
    tables.sort_unstable();
    tables.dedup();
    let lists: Vec<Vec<u8>> = tables
        .into_iter()
        .filter_map(table)
        .map(|table| {
            let mut list = Vec::new();
            ColumnList::of(&table).encode(&mut list);
            list
        })
        .collect();
    let mut out = (lists.len() as u32).to_le_bytes().to_vec();
    for list in &lists {
        out.extend_from_slice(&(list.len() as u32).to_le_bytes());
        out.extend_from_slice(list);
    }
    out.extend_from_slice(mutation.bytes());
    out
}

/// What was stored, with the column ids of now.
#[derive(Clone, PartialEq, Debug)]
pub struct StoredMutation {
    /// One per table whose columns have moved, and the rest as it was.
    pub mutations: Vec<Mutation>,
}

/// Reads what [`encode`] wrote; `None` if it is malformed.
pub fn decode(bytes: &[u8], table: impl Fn(TableId) -> Option<Arc<Table>>) -> Option<StoredMutation> {
    let (count, mut rest) = bytes.split_first_chunk()?;
    let mut lists = Vec::new();
    for _ in 0..u32::from_le_bytes(*count) {
        let (len, tail) = rest.split_first_chunk()?;
        let (list, tail) = tail.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        lists.push(ColumnList::decode(list, ListFormat::WithKinds)?);
        rest = tail;
    }
    let mutation = Mutation::decode(rest.to_vec()).ok()?;
    let mut mutations = Vec::new();
    for update in mutation.updates() {
        let Some(table) = table(update.table) else { continue };
        let moved = lists
            .iter()
            .find(|list| list.table == update.table)
            .and_then(|list| Renumbering::new(list, &table).update(mutation.key(), &update));
        mutations.push(moved.unwrap_or_else(|| {
            let mut same = MutationBuilder::new(mutation.key());
            same.update(&update);
            same.finish()
        }));
    }
    Some(StoredMutation { mutations })
}

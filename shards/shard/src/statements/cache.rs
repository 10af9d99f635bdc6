//! The cache of prepared statements, with SIEVE eviction: entries stay in order of arrival, and a hand moves from the
//! oldest to the newest and evicts the first entry that was not used since the hand last passed it.
//!
//! Invariants: the cache holds at most `bytes_max` bytes, except that the statement put last always stays.

use super::Statement;
use model::{IdMap, TableId};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The share of a shard's memory for prepared statements is one part in this many.
pub(crate) const PREPARED_SHARE: usize = 256;
/// Prepared statements by id, limited in bytes.
pub(crate) struct StatementCache {
    entries: IdMap<[u8; 16], Entry>,
    /// Ids by order of arrival.
    order: BTreeMap<u64, [u8; 16]>,
    next: u64,
    /// The hand: entries that arrived before it were passed in this round.
    hand: u64,
    bytes: usize,
    bytes_max: usize,
}

struct Entry {
    statement: Rc<Statement>,
    arrival: u64,
    used: Cell<bool>,
}

impl StatementCache {
    /// A cache of at most `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> StatementCache {
        StatementCache { entries: IdMap::default(), order: BTreeMap::new(), next: 0, hand: 0, bytes: 0, bytes_max }
    }

    /// The statement of an id; marks it as used.
    pub(crate) fn get(&self, id: &[u8; 16]) -> Option<Rc<Statement>> {
        let entry = self.entries.get(id)?;
        entry.used.set(true);
        Some(entry.statement.clone())
    }

    /// Adds or replaces a statement and returns the ids that were evicted for it.
    pub(crate) fn put(&mut self, id: [u8; 16], statement: Rc<Statement>) -> Vec<[u8; 16]> {
        self.remove(&id);
        self.bytes += statement.bytes();
        let mut evicted = Vec::new();
        while self.bytes > self.bytes_max && !self.entries.is_empty() {
            let Some(victim) = self.victim() else { break };
            self.remove(&victim);
            evicted.push(victim);
        }
        let arrival = self.next;
        self.next += 1;
        self.order.insert(arrival, id);
        self.entries.insert(id, Entry { statement, arrival, used: Cell::new(false) });
        evicted
    }

    fn victim(&mut self) -> Option<[u8; 16]> {
        loop {
            let found = self.order.range(self.hand..).next().or_else(|| self.order.iter().next());
            let (&arrival, &id) = found?;
            self.hand = arrival + 1;
            match self.entries.get(&id) {
                Some(entry) if entry.used.get() => entry.used.set(false),
                _ => return Some(id),
            }
        }
    }

    fn remove(&mut self, id: &[u8; 16]) {
        if let Some(entry) = self.entries.remove(id) {
            self.order.remove(&entry.arrival);
            self.bytes -= entry.statement.bytes();
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.entries.len()
    }

    /// Whether the cache is below its limit.
    pub(crate) fn has_room(&self) -> bool {
        self.bytes < self.bytes_max
    }

    /// Removes the statements that touch these tables.
    pub(crate) fn drop_tables(&mut self, tables: &[TableId]) {
        let gone: Vec<[u8; 16]> =
            self.entries.iter().filter(|(_, entry)| entry.statement.touches(tables)).map(|(id, _)| *id).collect();
        gone.iter().for_each(|id| self.remove(id));
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;

//! Slots in ring order in an ordered tree: the default, and the fastest where one writer has a memtable to itself.

use super::partitions::{Slot, Slots};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;

/// See the module.
#[derive(Default, Debug)]
pub struct TreeSlots(BTreeMap<u64, Slot>);

impl Slots for TreeSlots {
    const BYTES_EACH: usize = 48;

    fn get(&self, prefix: u64) -> Option<&Slot> {
        self.0.get(&prefix)
    }

    fn get_or_insert(&mut self, prefix: u64, make: impl FnOnce() -> Slot) -> (&mut Slot, bool) {
        match self.0.entry(prefix) {
            Entry::Vacant(vacant) => (vacant.insert(make()), true),
            Entry::Occupied(occupied) => (occupied.into_mut(), false),
        }
    }

    fn range(&self, from: Bound<u64>, until: u64) -> impl Iterator<Item = &Slot> {
        self.0.range((from, Bound::Included(until))).map(|(_, slot)| slot)
    }

    fn pop_first(&mut self) -> Option<Slot> {
        self.0.pop_first().map(|(_, slot)| slot)
    }
}

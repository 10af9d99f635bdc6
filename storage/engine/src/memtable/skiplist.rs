//! Partition slots in token order in a skip list, for tables whose memtable configuration asks for one.
//!
//! The list lends its values only for reading, but slots change. So it maps prefixes to indexes into a slab.
//!
//! Invariants: every value in the list is a valid index into the slab, and no two are equal.

use super::partitions::{Slot, Slots};
use crossbeam_skiplist::SkipMap;
use std::ops::Bound;

/// Slots by prefix in a skip list.
#[derive(Default)]
pub struct SkiplistSlots {
    places: SkipMap<u64, usize>,
    slab: Vec<Slot>,
}

impl Slots for SkiplistSlots {
    // A node with its tower, and a slab entry; the slab may be up to half empty.
    const BYTES_EACH: usize = 96;

    fn get(&self, prefix: u64) -> Option<&Slot> {
        self.slab.get(*self.places.get(&prefix)?.value())
    }

    fn get_or_insert(&mut self, prefix: u64, make: impl FnOnce() -> Slot) -> (&mut Slot, bool) {
        let found = self.places.get(&prefix).map(|entry| *entry.value());
        let place = found.unwrap_or_else(|| {
            self.slab.push(make());
            self.places.insert(prefix, self.slab.len() - 1);
            self.slab.len() - 1
        });
        (&mut self.slab[place], found.is_none())
    }

    fn range(&self, from: Bound<u64>, until: u64) -> impl Iterator<Item = &Slot> {
        self.places.range((from, Bound::Included(until))).filter_map(|entry| self.slab.get(*entry.value()))
    }

    fn pop(&mut self) -> Option<Slot> {
        // The slab does not shrink: nothing is inserted once a memtable is being dismantled.
        let place = *self.places.pop_front()?.value();
        self.slab.get_mut(place).map(std::mem::take)
    }
}

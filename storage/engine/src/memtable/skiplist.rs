//! Slots in ring order in a skip list, for tables that ask for one.
//!
//! The list maps prefixes to places in a slab: it lends its values for reading alone, while slots change.
//!
//! Invariants: every place in the list is one of the slab, and no two are the same.

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
    // A node with its tower, and a slot of a slab that is up to half empty.
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
        // The slab stays as long as it is: nothing is added to what is taken apart.
        let place = *self.places.pop_front()?.value();
        self.slab.get_mut(place).map(std::mem::take)
    }
}

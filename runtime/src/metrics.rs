//! Per-shard counters. Exporting them is the business of the layer that has a port.

use std::cell::Cell;

/// A count that only its shard changes.
#[derive(Default, Debug)]
pub struct Counter(Cell<u64>);

impl Counter {
    /// Adds one.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.set(self.0.get().wrapping_add(n));
    }

    /// The value.
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

//! Counters of one shard.
//!
//! Invariants: only the shard's own thread changes them, so that counting is a load and a store. Reading them all is in
//! [`crate::metrics`].

use crate::class::{CLASSES, Class};
use std::cell::Cell;

/// A counter that only its own shard changes.
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

    /// The current value.
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

/// The counters of a shard's runtime.
#[derive(Default)]
pub(crate) struct Counts {
    classes: [ClassCounts; CLASSES],
    pub(crate) disk: [DiskCounts; DISK_KINDS],
}

/// Counters of one class of tasks.
#[derive(Default)]
pub(crate) struct ClassCounts {
    pub(crate) nanos: Counter,
    pub(crate) polls: Counter,
    pub(crate) begun: Counter,
    pub(crate) completed: Counter,
    /// File operations that have not completed.
    pub(crate) disk: Cell<u64>,
}

#[derive(Default)]
pub(crate) struct DiskCounts {
    pub(crate) completed: Counter,
    pub(crate) bytes: Counter,
}

impl Counts {
    pub(crate) fn of(&self, class: Class) -> &ClassCounts {
        &self.classes[class as usize]
    }
}

/// A kind of file operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskKind {
    /// Reads.
    Read,
    /// Writes, durable or not.
    Write,
    /// Syncs.
    Sync,
}

pub(crate) const DISK_KINDS: usize = 3;

impl DiskKind {
    /// All kinds, in order.
    pub const ALL: [DiskKind; DISK_KINDS] = [DiskKind::Read, DiskKind::Write, DiskKind::Sync];
}

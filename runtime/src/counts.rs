//! Counters of one shard.
//!
//! Invariants: only the shard's own thread changes them, so that counting is a load and a store. Reading them all is in
//! [`crate::metrics`].

use crate::class::{CLASSES, Class};
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

/// What the runtime counts on a shard.
#[derive(Default)]
pub(crate) struct Counts {
    classes: [ClassCounts; CLASSES],
    pub(crate) disk: [DiskCounts; DISK_KINDS],
}

/// What the tasks of one class have done.
#[derive(Default)]
pub(crate) struct ClassCounts {
    pub(crate) nanos: Counter,
    pub(crate) polls: Counter,
    pub(crate) begun: Counter,
    pub(crate) completed: Counter,
    /// Operations on files asked for and not answered.
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

/// What is asked of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskKind {
    /// Reading bytes.
    Read,
    /// Writing bytes, durably or not.
    Write,
    /// Making writes durable.
    Sync,
}

pub(crate) const DISK_KINDS: usize = 3;

impl DiskKind {
    /// Every kind, in order.
    pub const ALL: [DiskKind; DISK_KINDS] = [DiskKind::Read, DiskKind::Write, DiskKind::Sync];
}

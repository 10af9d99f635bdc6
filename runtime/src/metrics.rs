//! Metrics of the current shard's tasks and file operations. Publishing them is left to the layers above.
//!
//! 1. The executor counts by class: tasks started and completed, polls, and the time of polls, which it measures anyway
//!    to share the core among the classes ([`crate::shares`]).
//! 2. [`crate::File`] counts operations by kind and class.
//!
//! In simulation polls take no time. The counters themselves are in `counts.rs`.

use crate::class::{CLASSES, Class};
use crate::context;
use crate::counts::DISK_KINDS;
pub use crate::counts::{Counter, DiskKind};
use std::time::Duration;

/// An operation on a file; it counts as under way until this is dropped.
pub(crate) struct DiskOperation {
    class: Class,
}

impl DiskOperation {
    /// Counts an operation for the class of the task that is being polled.
    pub(crate) fn begin() -> DiskOperation {
        context::with(|c| {
            let class = c.executor.last_polled().class();
            let under_way = &c.executor.counts.of(class).disk;
            under_way.set(under_way.get() + 1);
            DiskOperation { class }
        })
    }

    /// Counts the operation as completed, with the bytes that it read or wrote.
    pub(crate) fn completed(self, kind: DiskKind, bytes: usize) {
        context::with(|c| {
            let counts = &c.executor.counts.disk[kind as usize];
            counts.completed.increment();
            counts.bytes.add(bytes as u64);
        });
    }
}

impl Drop for DiskOperation {
    fn drop(&mut self) {
        // A node that has crashed has no metrics.
        context::try_with(|c| {
            let under_way = &c.executor.counts.of(self.class).disk;
            under_way.set(under_way.get().saturating_sub(1));
        });
    }
}

/// Work of the tasks of one class since the shard's start, and what waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassMetrics {
    /// The class.
    pub class: Class,
    /// The class's shares of the core's time.
    pub shares: u32,
    /// The time that its polls took.
    pub busy: Duration,
    /// The number of polls of its tasks.
    pub polls: u64,
    /// Tasks started.
    pub begun: u64,
    /// Tasks completed.
    pub completed: u64,
    /// Tasks that are ready to run.
    pub ready: u64,
    /// File operations that have not completed, including those that wait for admission.
    pub disk_under_way: u64,
    /// File operations that wait for admission; always 0 in simulation.
    pub disk_waiting: u64,
}

/// File operations of one kind that have completed since the shard's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskMetrics {
    /// The kind of operation.
    pub kind: DiskKind,
    /// The number of operations.
    pub completed: u64,
    /// Bytes read or written.
    pub bytes: u64,
}

/// Metrics of each class of the current shard, in the order of [`Class::ALL`].
pub fn classes() -> [ClassMetrics; CLASSES] {
    context::with(|c| {
        Class::ALL.map(|class| {
            let counts = c.executor.counts.of(class);
            ClassMetrics {
                class,
                shares: c.executor.shares.get(class),
                busy: Duration::from_nanos(counts.nanos.get()),
                polls: counts.polls.get(),
                begun: counts.begun.get(),
                completed: counts.completed.get(),
                ready: c.executor.ready_in(class) as u64,
                disk_under_way: counts.disk.get(),
                disk_waiting: if c.is_simulated() { 0 } else { c.system().admission.waiting(class) },
            }
        })
    })
}

/// Metrics of each kind of file operation of the current shard, in the order of [`DiskKind::ALL`].
pub fn disk() -> [DiskMetrics; DISK_KINDS] {
    context::with(|c| {
        DiskKind::ALL.map(|kind| {
            let counts = &c.executor.counts.disk[kind as usize];
            DiskMetrics { kind, completed: counts.completed.get(), bytes: counts.bytes.get() }
        })
    })
}

/// CPU time of the current shard's thread, see [`crate::machine::thread_cpu`]; `None` in simulation.
pub fn thread_cpu() -> Option<(Duration, Duration)> {
    if context::with(context::ShardContext::is_simulated) { None } else { crate::machine::thread_cpu() }
}

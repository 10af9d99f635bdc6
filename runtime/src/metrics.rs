//! Figures of one shard: counters for the layers above, and what the runtime itself counts. Exporting them is the
//! business of the layer that has a port.
//!
//! 1. The executor counts by class: tasks begun and ended, polls, and the time of polls, which it takes anyway to share
//!    the core among the classes ([`crate::shares`]).
//! 2. [`crate::File`] counts operations by kind and class.
//!
//! Invariants: only the shard's own thread changes its counts, so that counting is a load and a store. In simulation
//! polls take no time.

use crate::class::{CLASSES, Class};
use crate::context;
use crate::counts::DISK_KINDS;
pub use crate::counts::{Counter, DiskKind};
use std::time::Duration;

/// An operation on a file that its caller waits for; counted as under way until it is dropped.
pub(crate) struct DiskOperation {
    class: Class,
}

impl DiskOperation {
    /// Of the class of the task that is being polled.
    pub(crate) fn begin() -> DiskOperation {
        context::with(|c| {
            let class = c.executor.last_polled().class();
            let under_way = &c.executor.counts.of(class).disk;
            under_way.set(under_way.get() + 1);
            DiskOperation { class }
        })
    }

    /// It was answered, with this many bytes read or written.
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
        // Of a node that has crashed nobody asks.
        context::try_with(|c| {
            let under_way = &c.executor.counts.of(self.class).disk;
            under_way.set(under_way.get().saturating_sub(1));
        });
    }
}

/// What the tasks of one class have done on a shard since its start, and what they wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassFigures {
    /// The class.
    pub class: Class,
    /// Its shares of the core's time.
    pub shares: u32,
    /// What its polls took.
    pub busy: Duration,
    /// How often its tasks were polled.
    pub polls: u64,
    /// Tasks begun.
    pub begun: u64,
    /// Tasks ended.
    pub completed: u64,
    /// Tasks that wait for the core.
    pub ready: u64,
    /// Operations on files that were asked for and not answered, those in line too.
    pub disk_under_way: u64,
    /// Those of them that stand in line for their class; none do in simulation.
    pub disk_waiting: u64,
}

/// Operations on files of one kind that were answered on a shard since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskFigures {
    /// The kind.
    pub kind: DiskKind,
    /// How many.
    pub completed: u64,
    /// Bytes read or written.
    pub bytes: u64,
}

/// The current shard's classes of tasks.
pub fn classes() -> [ClassFigures; CLASSES] {
    context::with(|c| {
        Class::ALL.map(|class| {
            let counts = c.executor.counts.of(class);
            ClassFigures {
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

/// The current shard's operations on files.
pub fn disk() -> [DiskFigures; DISK_KINDS] {
    context::with(|c| {
        DiskKind::ALL.map(|kind| {
            let counts = &c.executor.counts.disk[kind as usize];
            DiskFigures { kind, completed: counts.completed.get(), bytes: counts.bytes.get() }
        })
    })
}

/// What the current shard's thread has had of the CPUs, as [`crate::machine::thread_cpu`] tells; `None` in simulation.
pub fn thread_cpu() -> Option<(Duration, Duration)> {
    if context::with(context::ShardContext::is_simulated) { None } else { crate::machine::thread_cpu() }
}

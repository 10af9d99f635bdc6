//! State that the threads of a run share. They read it while they start and once a window.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The state that the threads of a run share.
pub struct Shared {
    /// Whether the tables exist.
    pub(crate) ready: AtomicBool,
    /// Whether a thread gave up.
    pub(crate) failed: AtomicBool,
    /// Connections made before the start.
    pub(crate) connected: AtomicU64,
    /// When the load starts, in nanoseconds of the runtime's clock; 0 before it is fixed.
    pub(crate) start: AtomicU64,
    /// The first measured window.
    pub(crate) measure_from: AtomicU64,
    /// The first window that is not part of the run.
    pub(crate) end: AtomicU64,
    /// How many operations have ended, by thread.
    pub(crate) ended: Vec<AtomicU64>,
    /// How many operations have failed, by thread.
    pub(crate) failures: Vec<AtomicU64>,
}

impl Shared {
    /// The state of a run of `threads` threads.
    pub fn new(threads: usize) -> Shared {
        let counters = || (0..threads).map(|_| AtomicU64::new(0)).collect();
        Shared {
            ready: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            connected: AtomicU64::new(0),
            start: AtomicU64::new(0),
            measure_from: AtomicU64::new(u64::MAX),
            end: AtomicU64::new(u64::MAX),
            ended: counters(),
            failures: counters(),
        }
    }

    /// The sum over all threads.
    pub(crate) fn sum(counters: &[AtomicU64]) -> u64 {
        counters.iter().map(|counter| counter.load(Ordering::Relaxed)).sum()
    }

    /// Waits until `reached` returns true because of what other threads do. Fails if a thread gave up.
    pub(crate) async fn until(&self, mut reached: impl FnMut(&Shared) -> bool) -> Result<(), String> {
        while !reached(self) {
            if self.failed.load(Ordering::Acquire) {
                return Err("another thread gave up".into());
            }
            runtime::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }
}

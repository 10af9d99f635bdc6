//! State that the shards of a process share: sleep flags, doorbells, start and stop.
//!
//! 1. A shard that is about to sleep sets its flag, fences, and looks once more at everything that could have arrived.
//! 2. A thread that has something for a shard publishes it, fences, and wakes the shard only if the flag is set.
//!
//! Invariants: one of the two sees what the other did, so no wake-up is lost; a shard that is awake is never woken,
//! which would cost the sender an interrupt.

use super::helper_pool::JobQueue;
use super::thread::Options;
use crate::ids::ShardId;
use crate::instant::Instant;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Barrier, Condvar, Mutex};
use std::time::Duration;

/// Wakes one shard from its sleep.
pub(crate) trait Bell: Send + Sync + 'static {
    /// Wakes the shard. Any thread may call this.
    fn ring(&self);
}

pub(crate) struct Node<B> {
    peers: Vec<Peer<B>>,
    /// Shards whose main has not returned.
    running: AtomicUsize,
    pub(crate) start: Start,
    /// The barrier that every shard reaches after its last operation.
    pub(crate) stopped: Barrier,
    pub(crate) spin: Duration,
    pub(crate) helpers: JobQueue,
    pub(crate) calculators: JobQueue,
    /// Nanoseconds from the monotonic clock to the wall clock.
    wall_offset: i128,
}

/// One shard as the others see it, padded to cache lines of its own, so that setting one flag does not slow the others.
#[repr(align(128))]
struct Peer<B> {
    sleeping: AtomicBool,
    bell: B,
}

impl<B: Bell> Node<B> {
    /// Creates a node with one shard per bell.
    pub(crate) fn new(options: &Options, bells: Vec<B>, helpers: JobQueue, calculators: JobQueue) -> Node<B> {
        let shards = bells.len();
        Node {
            peers: bells.into_iter().map(|bell| Peer { sleeping: AtomicBool::new(false), bell }).collect(),
            running: AtomicUsize::new(shards),
            start: Start::default(),
            stopped: Barrier::new(shards),
            spin: options.spin,
            helpers,
            calculators,
            wall_offset: clock(libc::CLOCK_REALTIME) as i128 - clock(libc::CLOCK_MONOTONIC) as i128,
        }
    }

    pub(crate) fn shards(&self) -> usize {
        self.peers.len()
    }

    pub(crate) fn bell(&self, shard: ShardId) -> &B {
        &self.peers[shard.0 as usize].bell
    }

    /// Sets the sleep flag of `shard`, which then looks once more at everything that could have arrived.
    pub(crate) fn fall_asleep(&self, shard: ShardId) {
        self.peers[shard.0 as usize].sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    pub(crate) fn awake(&self, shard: ShardId) {
        self.peers[shard.0 as usize].sleeping.store(false, Ordering::Relaxed);
    }

    /// Whether the caller has to wake `shard`, after it has published something and fenced. True for one caller per
    /// sleep.
    pub(crate) fn must_wake(&self, shard: ShardId) -> bool {
        let sleeping = &self.peers[shard.0 as usize].sleeping;
        sleeping.load(Ordering::Relaxed) && sleeping.swap(false, Ordering::SeqCst)
    }

    /// Wakes `shard` if it sleeps. Any thread may call this.
    pub(crate) fn rouse(&self, shard: ShardId) {
        fence(Ordering::SeqCst);
        if self.must_wake(shard) {
            self.bell(shard).ring();
        }
    }

    /// Notes that the `main` of one more shard has returned; after the last one all shards are woken.
    pub(crate) fn main_returned(&self) {
        if self.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            (0..self.peers.len()).for_each(|shard| self.rouse(ShardId(shard as u16)));
        }
    }

    pub(crate) fn all_returned(&self) -> bool {
        self.running.load(Ordering::Acquire) == 0
    }

    pub(crate) fn wall_micros(&self) -> i64 {
        ((monotonic().0 as i128 + self.wall_offset) / 1000) as i64
    }
}

/// The monotonic clock of the system, the same on every thread.
pub(crate) fn monotonic() -> Instant {
    Instant(clock(libc::CLOCK_MONOTONIC))
}

#[expect(unsafe_code, reason = "std's Instant does not tell its nanoseconds")]
fn clock(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec; both clocks exist on every Linux.
    unsafe { libc::clock_gettime(id, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Lets the shards begin once all are ready, and none if one has failed.
#[derive(Default)]
pub(crate) struct Start {
    /// The number of ready shards, and whether one has failed.
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Start {
    pub(crate) fn fail(&self) {
        self.state.lock().expect("nothing panics here").1 = true;
        self.changed.notify_all();
    }

    /// Waits until all `shards` are ready; false if one has failed.
    pub(crate) fn ready(&self, shards: usize) -> bool {
        let mut state = self.state.lock().expect("nothing panics here");
        state.0 += 1;
        self.changed.notify_all();
        let state = self.changed.wait_while(state, |(ready, failed)| *ready < shards && !*failed);
        !state.expect("nothing panics here").1
    }
}

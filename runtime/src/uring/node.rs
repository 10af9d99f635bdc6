//! What the shards of a process share: sleep flags, ways to rouse each other, start and stop.
//!
//! A shard that falls asleep sets its flag, fences, and looks once more at everything that could have arrived; whoever
//! leaves something for it publishes, fences, and rouses it only if the flag is set. One of the two sees the other.

use super::Options;
use super::helper::JobQueue;
use crate::mesh::ShardId;
use crate::time::Instant;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering, fence};
use std::sync::{Barrier, Condvar, Mutex};
use std::time::Duration;

pub(super) struct Node {
    peers: Vec<Peer>,
    /// Shards whose main has not returned.
    running: AtomicUsize,
    pub(super) start: Start,
    /// Where every shard waits after its last operation.
    pub(super) stopped: Barrier,
    pub(super) spin: Duration,
    pub(super) helpers: JobQueue,
    /// Nanoseconds from the monotonic clock to the wall clock.
    wall_offset: i128,
}

/// One shard as the others see it. Padded, so that a shard that sets its flag disturbs no other.
#[repr(align(128))]
struct Peer {
    sleeping: AtomicBool,
    ring: AtomicI32,
    event: OwnedFd,
}

impl Node {
    #[expect(unsafe_code, reason = "eventfd has no safe wrapper")]
    pub(super) fn new(options: &Options, helpers: JobQueue) -> io::Result<Node> {
        let mut peers = Vec::with_capacity(options.shards);
        for _ in 0..options.shards {
            // SAFETY: the call takes numbers only; a descriptor it returns is new and ours.
            let event = unsafe {
                let raw = libc::eventfd(0, libc::EFD_CLOEXEC);
                if raw < 0 {
                    return Err(io::Error::last_os_error());
                }
                OwnedFd::from_raw_fd(raw)
            };
            peers.push(Peer { sleeping: AtomicBool::new(false), ring: AtomicI32::new(-1), event });
        }
        Ok(Node {
            peers,
            running: AtomicUsize::new(options.shards),
            start: Start::default(),
            stopped: Barrier::new(options.shards),
            spin: options.spin,
            helpers,
            wall_offset: clock(libc::CLOCK_REALTIME) as i128 - clock(libc::CLOCK_MONOTONIC) as i128,
        })
    }

    pub(super) fn shards(&self) -> usize {
        self.peers.len()
    }

    pub(super) fn set_ring(&self, shard: ShardId, ring: RawFd) {
        self.peers[shard.0 as usize].ring.store(ring, Ordering::Release);
    }

    /// The ring of `shard`: a target of `MSG_RING`.
    pub(super) fn ring(&self, shard: ShardId) -> RawFd {
        self.peers[shard.0 as usize].ring.load(Ordering::Acquire)
    }

    pub(super) fn event(&self, shard: ShardId) -> RawFd {
        self.peers[shard.0 as usize].event.as_raw_fd()
    }

    /// Announces that `shard` is about to sleep; afterwards it looks at everything once more.
    pub(super) fn fall_asleep(&self, shard: ShardId) {
        self.peers[shard.0 as usize].sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    pub(super) fn awake(&self, shard: ShardId) {
        self.peers[shard.0 as usize].sleeping.store(false, Ordering::Relaxed);
    }

    /// Whether the caller, who has published something and fenced, has to wake `shard`. True for one caller per sleep.
    pub(super) fn must_wake(&self, shard: ShardId) -> bool {
        let sleeping = &self.peers[shard.0 as usize].sleeping;
        sleeping.load(Ordering::Relaxed) && sleeping.swap(false, Ordering::SeqCst)
    }

    /// Wakes `shard` if it sleeps. Any thread.
    pub(super) fn rouse(&self, shard: ShardId) {
        fence(Ordering::SeqCst);
        if self.must_wake(shard) {
            self.write_event(shard);
        }
    }

    #[expect(unsafe_code, reason = "a write of one word")]
    pub(super) fn write_event(&self, shard: ShardId) {
        let one = 1u64;
        // SAFETY: eight bytes are readable behind the pointer. The write cannot block: the counter is far from full.
        unsafe { libc::write(self.event(shard), (&raw const one).cast(), 8) };
    }

    /// Called once per shard.
    pub(super) fn main_returned(&self) {
        if self.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            (0..self.peers.len()).for_each(|shard| self.rouse(ShardId(shard as u16)));
        }
    }

    pub(super) fn all_returned(&self) -> bool {
        self.running.load(Ordering::Acquire) == 0
    }

    pub(super) fn wall_micros(&self) -> i64 {
        ((monotonic().0 as i128 + self.wall_offset) / 1000) as i64
    }
}

/// The monotonic clock of the system, the same on every thread.
pub(super) fn monotonic() -> Instant {
    Instant(clock(libc::CLOCK_MONOTONIC))
}

#[expect(unsafe_code, reason = "std's Instant does not tell its nanoseconds")]
fn clock(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec; both clocks exist on every Linux.
    unsafe { libc::clock_gettime(id, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Lets every shard begin only when all are ready, and none if one failed.
#[derive(Default)]
pub(super) struct Start {
    /// Shards ready, and whether one failed.
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Start {
    pub(super) fn fail(&self) {
        self.state.lock().expect("nothing panics here").1 = true;
        self.changed.notify_all();
    }

    /// Waits until all `shards` are ready; false if one failed.
    pub(super) fn ready(&self, shards: usize) -> bool {
        let mut state = self.state.lock().expect("nothing panics here");
        state.0 += 1;
        self.changed.notify_all();
        let state = self.changed.wait_while(state, |(ready, failed)| *ready < shards && !*failed);
        !state.expect("nothing panics here").1
    }
}

//! One io_uring, used by the thread that created it: submitting, waiting, reaping.
//!
//! 1. `SINGLE_ISSUER | DEFER_TASKRUN | TASKRUN_FLAG`: completions are posted only when this thread enters the kernel,
//!    and the flag tells a spinning loop, in memory, that entering would post some.
//! 2. Entries that find the submission queue full even after a submit wait in a backlog and go first the next time.
//!
//! Invariants: entries reach the kernel in the order in which they were pushed; every entry gets there.

use io_uring::{IoUring, Submitter, squeue, types};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// Numbers of submission and completion entries to try, largest first, because locked memory may be short: a user has
/// 8 MiB by default, of which the largest size takes 136 KiB per shard.
const SIZES: [(u32, u32); 4] = [(1024, 4096), (256, 1024), (128, 512), (32, 128)];

pub(super) struct Ring {
    submitter: Submitter<'static>,
    ring: *mut IoUring,
    backlog: RefCell<VecDeque<squeue::Entry>>,
}

/// A completion queue entry.
#[derive(Clone, Copy)]
pub(super) struct Completion {
    pub(super) user_data: u64,
    /// A number of bytes, a descriptor or 0; an errno if negative.
    pub(super) result: i32,
    pub(super) flags: u32,
}

impl Ring {
    /// Creates a ring for the calling thread. If locked memory is short it logs a warning and makes the ring smaller.
    pub(super) fn new() -> io::Result<Ring> {
        let mut last = io::Error::from(io::ErrorKind::OutOfMemory);
        for (attempt, (submissions, completions)) in SIZES.into_iter().enumerate() {
            let built = IoUring::builder()
                .setup_cqsize(completions)
                .setup_single_issuer()
                .setup_defer_taskrun()
                .setup_taskrun_flag()
                .setup_submit_all()
                .build(submissions);
            match built {
                Ok(ring) => {
                    if attempt > 0 {
                        tracing::warn!(submissions, "locked memory is short (ulimit -l): a smaller ring is used");
                    }
                    return Ok(Ring::own(ring));
                }
                Err(e) if e.raw_os_error() == Some(libc::ENOMEM) => last = e,
                Err(e) => return Err(explain(e)),
            }
        }
        Err(explain(last))
    }

    #[expect(unsafe_code, reason = "the submitter that holds the registered descriptor borrows the ring")]
    fn own(ring: IoUring) -> Ring {
        let ring = Box::into_raw(Box::new(ring));
        // SAFETY: the pointer comes from a box that is freed only in `drop`, after which `submitter` is not used; the
        // submitter borrows shared, and so does every other use of the ring.
        let mut submitter = unsafe { &*ring }.submitter();
        if let Err(e) = submitter.register_ring_fd() {
            tracing::debug!("ring descriptor is not registered: {e}");
        }
        Ring { submitter, ring, backlog: RefCell::default() }
    }

    #[expect(unsafe_code, reason = "see own")]
    fn ring(&self) -> &IoUring {
        // SAFETY: valid until `drop`, only ever borrowed shared.
        unsafe { &*self.ring }
    }

    pub(super) fn fd(&self) -> RawFd {
        self.ring().as_raw_fd()
    }

    pub(super) fn submitter(&self) -> &Submitter<'static> {
        &self.submitter
    }

    /// Queues `entry` for the next submit.
    ///
    /// # Safety
    /// Whatever the entry points to stays valid and in place until its (last) completion is reaped.
    #[expect(unsafe_code, reason = "the kernel reads and writes the memory that the entry names")]
    pub(super) unsafe fn push(&self, entry: squeue::Entry) {
        if self.backlog.borrow().is_empty() {
            // SAFETY: validity of memory is the caller's promise, and this thread is the only one that uses the ring.
            if unsafe { self.ring().submission_shared().push(&entry) }.is_ok() {
                return;
            }
        }
        self.backlog.borrow_mut().push_back(entry);
        self.submit();
    }

    #[expect(unsafe_code, reason = "a shared view of the submission queue")]
    fn move_backlog(&self) {
        let mut backlog = self.backlog.borrow_mut();
        if backlog.is_empty() {
            return;
        }
        // SAFETY: this thread is the only one that uses the ring, and no other view is alive.
        let mut queue = unsafe { self.ring().submission_shared() };
        while let Some(entry) = backlog.front() {
            // SAFETY: promised by the caller of `push`.
            if unsafe { queue.push(entry) }.is_err() {
                break;
            }
            backlog.pop_front();
        }
    }

    #[expect(unsafe_code, reason = "a shared view of the submission queue")]
    fn unsubmitted(&self) -> usize {
        // SAFETY: this thread is the only one that uses the ring.
        unsafe { self.ring().submission_shared() }.len()
    }

    /// Submits all queued entries and lets the kernel post pending completions; no system call if there is neither.
    pub(super) fn submit(&self) {
        self.move_backlog();
        loop {
            if self.unsubmitted() == 0 && !self.must_enter() {
                return;
            }
            let entered = self.submitter.submit();
            self.move_backlog();
            match entered {
                Ok(_) if self.unsubmitted() == 0 => return,
                Ok(0) => return,
                Ok(_) => {}
                Err(e) => return report(e),
            }
        }
    }

    /// Submits like [`Ring::submit`], then sleeps until a completion arrives or `timeout` is over.
    pub(super) fn wait(&self, timeout: Option<Duration>) {
        self.move_backlog();
        let entered = match timeout {
            None => self.submitter.submit_and_wait(1),
            Some(timeout) => {
                let time = types::Timespec::new().sec(timeout.as_secs()).nsec(timeout.subsec_nanos());
                self.submitter.submit_with_args(1, &types::SubmitArgs::new().timespec(&time))
            }
        };
        if let Err(e) = entered {
            report(e);
        }
    }

    /// Whether the kernel has completions that it posts only when this thread enters it.
    #[expect(unsafe_code, reason = "a shared view of the submission queue")]
    fn must_enter(&self) -> bool {
        // SAFETY: this thread is the only one that uses the ring.
        let queue = unsafe { self.ring().submission_shared() };
        queue.taskrun() || queue.cq_overflow()
    }

    /// Whether a reap would find anything. Reads memory only.
    #[expect(unsafe_code, reason = "a shared view of the completion queue")]
    pub(super) fn has_events(&self) -> bool {
        // SAFETY: this thread is the only one that uses the ring, and no other view is alive.
        !unsafe { self.ring().completion_shared() }.is_empty() || self.must_enter()
    }

    /// Lets the kernel post pending completions and appends all completions to `into`.
    #[expect(unsafe_code, reason = "a shared view of the completion queue")]
    pub(super) fn reap(&self, into: &mut Vec<Completion>) {
        if self.must_enter() {
            self.submit();
        }
        // SAFETY: this thread is the only one that uses the ring, and no other view is alive.
        let queue = unsafe { self.ring().completion_shared() };
        into.extend(queue.map(|e| Completion { user_data: e.user_data(), result: e.result(), flags: e.flags() }));
    }
}

impl Drop for Ring {
    #[expect(unsafe_code, reason = "see own")]
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw` in `own`; the submitter has no code in its drop.
        drop(unsafe { Box::from_raw(self.ring) });
    }
}

/// Panics for an error of `io_uring_enter`, unless it is transient: a signal, a full completion queue, a timeout, short
/// memory.
fn report(e: io::Error) {
    match e.raw_os_error() {
        Some(libc::EINTR | libc::EBUSY | libc::ETIME | libc::EAGAIN) => {}
        _ => panic!("io_uring_enter: {e}"),
    }
}

/// Adds to an error of creating a ring what can be done about it.
fn explain(e: io::Error) -> io::Error {
    let why = match e.raw_os_error() {
        Some(libc::ENOSYS | libc::EPERM) => {
            "io_uring is not available (sysctl kernel.io_uring_disabled, or a container's seccomp profile)"
        }
        Some(libc::EINVAL) => "io_uring lacks DEFER_TASKRUN (Linux 6.1 or newer is needed)",
        Some(libc::ENOMEM) => "locked memory does not suffice for the smallest ring (ulimit -l)",
        _ => "io_uring cannot be set up",
    };
    io::Error::new(e.kind(), format!("{why}: {e}"))
}

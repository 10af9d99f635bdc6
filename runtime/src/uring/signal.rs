//! SIGTERM and SIGINT as a future: both are blocked on all threads and read from a descriptor in the ring.

use super::operations::Operation;
use super::reactor::Core;
use io_uring::{opcode, types};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::future::Future;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The signals that ask for an orderly stop.
#[expect(unsafe_code, reason = "signal sets have no safe wrapper")]
fn stop_signals() -> libc::sigset_t {
    // SAFETY: a set is initialised by sigemptyset before anything else reads it.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGTERM);
        libc::sigaddset(&mut set, libc::SIGINT);
        set
    }
}

/// Blocks the stop signals on this thread, and on those it starts, until dropped.
pub(super) struct Blocked {
    before: libc::sigset_t,
}

impl Blocked {
    #[expect(unsafe_code, reason = "signal masks have no safe wrapper")]
    pub(super) fn new() -> io::Result<Blocked> {
        let set = stop_signals();
        // SAFETY: both sets are valid; the second is written by the call.
        unsafe {
            let mut before = std::mem::zeroed();
            match libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut before) {
                0 => Ok(Blocked { before }),
                e => Err(io::Error::from_raw_os_error(e)),
            }
        }
    }
}

impl Drop for Blocked {
    #[expect(unsafe_code, reason = "signal masks have no safe wrapper")]
    fn drop(&mut self) {
        // SAFETY: the set was filled by the call that blocked.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

/// Whether a stop signal has come to this shard, and who waits for it.
#[derive(Default)]
pub(super) struct SignalState {
    received: Cell<bool>,
    armed: Cell<bool>,
    descriptor: RefCell<Option<OwnedFd>>,
    waiters: RefCell<Vec<Waker>>,
    /// Where the kernel writes a `signalfd_siginfo`.
    info: UnsafeCell<[u64; 16]>,
}

impl SignalState {
    #[expect(unsafe_code, reason = "signalfd has no safe wrapper")]
    fn arm(self: &Rc<SignalState>, core: &Core) -> io::Result<()> {
        let mut descriptor = self.descriptor.borrow_mut();
        let raw = match &*descriptor {
            Some(fd) => fd.as_raw_fd(),
            None => {
                let set = stop_signals();
                // SAFETY: the set is valid; a descriptor it returns is new and ours.
                let raw = unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC) };
                if raw < 0 {
                    return Err(io::Error::last_os_error());
                }
                // SAFETY: as above.
                *descriptor = Some(unsafe { OwnedFd::from_raw_fd(raw) });
                raw
            }
        };
        let entry = opcode::Read::new(types::Fd(raw), self.info.get().cast(), size_of_val(&self.info) as u32).build();
        // SAFETY: the operation shares the state, so buffer and descriptor live until its completion; the buffer is
        // touched by nobody else and has the size of a signalfd_siginfo.
        unsafe { core.start(Operation::Signal(self.clone()), entry) };
        self.armed.set(true);
        Ok(())
    }

    pub(super) fn arrived(self: &Rc<SignalState>, core: &Core, result: i32) {
        self.armed.set(false);
        if result <= 0 {
            // Cancelled by a stop, or interrupted: whoever waits arms it again.
            if !core.is_stopping() && !self.waiters.borrow().is_empty() {
                self.arm_or_log(core);
            }
            return;
        }
        self.received.set(true);
        let waiters = std::mem::take(&mut *self.waiters.borrow_mut());
        waiters.into_iter().for_each(Waker::wake);
    }

    fn arm_or_log(self: &Rc<SignalState>, core: &Core) {
        if let Err(e) = self.arm(core) {
            tracing::error!("stop signals cannot be received: {e}");
        }
    }
}

pub(crate) struct Terminated {
    state: Rc<SignalState>,
}

impl Terminated {
    pub(super) fn new(core: &Core, state: Rc<SignalState>) -> Terminated {
        if !state.received.get() && !state.armed.get() {
            state.arm_or_log(core);
        }
        Terminated { state }
    }
}

impl Future for Terminated {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.state.received.get() {
            return Poll::Ready(());
        }
        let mut waiters = self.state.waiters.borrow_mut();
        if !waiters.iter().any(|waker| waker.will_wake(cx.waker())) {
            waiters.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

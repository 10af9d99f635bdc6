//! SIGTERM and SIGINT as a future: both are read from a descriptor in the ring.

use super::operations::Operation;
use super::reactor::Core;
use crate::sync::Waiters;
use crate::system::signal;
use io_uring::{opcode, types};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::future::Future;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Whether a stop signal has come to this shard, and who waits for it.
#[derive(Default)]
pub(super) struct SignalState {
    received: Cell<bool>,
    armed: Cell<bool>,
    descriptor: RefCell<Option<OwnedFd>>,
    waiters: Waiters,
    /// Where the kernel writes a `signalfd_siginfo`.
    info: UnsafeCell<[u64; 16]>,
}

impl SignalState {
    #[expect(unsafe_code, reason = "see Core::start")]
    fn arm(self: &Rc<SignalState>, core: &Core) -> io::Result<()> {
        let mut descriptor = self.descriptor.borrow_mut();
        let raw = match &*descriptor {
            Some(fd) => fd.as_raw_fd(),
            None => descriptor.insert(signal::descriptor()?).as_raw_fd(),
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
            if !core.is_stopping() && !self.waiters.is_empty() {
                self.arm_or_log(core);
            }
            return;
        }
        self.received.set(true);
        let waiters = self.waiters.take();
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
        self.state.waiters.add(cx);
        Poll::Pending
    }
}

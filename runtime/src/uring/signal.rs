//! Receiving SIGTERM and SIGINT, by a read of their descriptor in the ring.

use super::operations::Operation;
use super::reactor::Core;
use crate::sync::Latch;
use crate::system::signal;
use io_uring::{opcode, types};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

/// The stop signal of a shard, and the read that waits for it.
#[derive(Default)]
pub(super) struct StopSignal {
    received: Latch,
    armed: Cell<bool>,
    descriptor: RefCell<Option<OwnedFd>>,
    /// Where the kernel writes a `signalfd_siginfo`.
    info: UnsafeCell<[u64; 16]>,
}

impl StopSignal {
    /// Starts to wait for a signal, and returns the latch that it sets.
    pub(super) fn listen(self: &Rc<StopSignal>, core: &Core) -> Latch {
        if !self.received.is_set() && !self.armed.get() {
            self.arm_or_log(core);
        }
        self.received.clone()
    }

    #[expect(unsafe_code, reason = "see Core::start")]
    fn arm(self: &Rc<StopSignal>, core: &Core) -> io::Result<()> {
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

    /// Takes the result of the read.
    pub(super) fn arrived(self: &Rc<StopSignal>, core: &Core, result: i32) {
        self.armed.set(false);
        if result > 0 {
            self.received.set();
        } else if !core.is_stopping() {
            // Interrupted.
            self.arm_or_log(core);
        }
    }

    fn arm_or_log(self: &Rc<StopSignal>, core: &Core) {
        if let Err(e) = self.arm(core) {
            tracing::error!("stop signals cannot be received: {e}");
        }
    }
}

//! Receiving SIGTERM and SIGINT, by reading their descriptor as if it were a file.

use super::core::Core;
use super::error;
use crate::sync::Latch;
use crate::system::signal;
use ::glommio::io::BufferedFile;
use std::cell::RefCell;
use std::io;
use std::os::fd::{FromRawFd, IntoRawFd};
use std::rc::Rc;

/// Bytes of a `signalfd_siginfo`.
const INFO_BYTES: usize = 128;

/// The stop signal of a shard, and the glommio task that waits for it.
#[derive(Default)]
pub(super) struct StopSignal {
    received: Latch,
    reading: RefCell<Option<::glommio::Task<()>>>,
}

impl StopSignal {
    /// Starts to wait for a signal, and returns the latch that it sets.
    pub(super) fn listen(&self, core: &Rc<Core>) -> Latch {
        if !core.stopping.get() && self.reading.borrow().is_none() {
            let reading = ::glommio::spawn_local(read(core.clone()));
            *self.reading.borrow_mut() = Some(reading);
        }
        self.received.clone()
    }

    /// Stops reading.
    pub(super) fn stop(&self) {
        let reading = self.reading.borrow_mut().take();
        drop(reading);
    }
}

/// Waits for a signal and sets the latch.
async fn read(core: Rc<Core>) {
    match read_one().await {
        Ok(()) => {
            core.signal.received.set();
            core.wake_driver();
        }
        Err(e) => tracing::error!("stop signals cannot be received: {e}"),
    }
}

#[expect(unsafe_code, reason = "glommio takes a descriptor by number")]
async fn read_one() -> io::Result<()> {
    let descriptor = signal::descriptor()?;
    // SAFETY: the descriptor is open and given away.
    let file = unsafe { BufferedFile::from_raw_fd(descriptor.into_raw_fd()) };
    loop {
        match file.read_at(0, INFO_BYTES).await.map_err(error) {
            Ok(read) if read.is_empty() => {}
            Ok(_) => return Ok(()),
            Err(e) if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
            Err(e) => return Err(e),
        }
    }
}

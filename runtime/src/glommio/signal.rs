//! SIGTERM and SIGINT as a future: both are read from a descriptor through the ring, as if it were a file.

use super::core::Core;
use super::error;
use crate::sync::Waiters;
use crate::system::signal;
use ::glommio::io::BufferedFile;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::os::fd::{FromRawFd, IntoRawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Bytes of a `signalfd_siginfo`.
const INFO_BYTES: usize = 128;

/// Whether a stop signal has come to this shard, and who waits for it.
#[derive(Default)]
pub(super) struct SignalState {
    received: Cell<bool>,
    reading: RefCell<Option<::glommio::Task<()>>>,
    waiters: Waiters,
}

impl SignalState {
    /// Stops reading.
    pub(super) fn stop(&self) {
        let reading = self.reading.borrow_mut().take();
        drop(reading);
    }
}

/// Reads until a signal has come.
async fn read(core: Rc<Core>) {
    match read_one().await {
        Ok(()) => {
            core.signal.received.set(true);
            let waiters = core.signal.waiters.take();
            core.wake(waiters);
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

pub(crate) struct Terminated {
    state: Rc<SignalState>,
}

impl Terminated {
    pub(super) fn new(core: &Rc<Core>) -> Terminated {
        let state = core.signal.clone();
        if !core.stopping.get() && state.reading.borrow().is_none() {
            let reading = ::glommio::spawn_local(read(core.clone()));
            *state.reading.borrow_mut() = Some(reading);
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

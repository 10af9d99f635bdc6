//! SIGTERM and SIGINT, which are blocked on all threads and received through a descriptor.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

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
pub(crate) struct Blocked {
    before: libc::sigset_t,
}

impl Blocked {
    #[expect(unsafe_code, reason = "signal masks have no safe wrapper")]
    pub(crate) fn new() -> io::Result<Blocked> {
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

/// Creates a descriptor from which a `signalfd_siginfo` of 128 bytes can be read per stop signal of this process.
#[expect(unsafe_code, reason = "signalfd has no safe wrapper")]
pub(crate) fn descriptor() -> io::Result<OwnedFd> {
    let set = stop_signals();
    // SAFETY: the set is valid; a descriptor the call returns is new and ours.
    unsafe {
        let raw = libc::signalfd(-1, &set, libc::SFD_CLOEXEC);
        if raw < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(raw)) }
    }
}

//! Wakes a sleeping shard: other shards send `MSG_RING` to its ring, threads without a ring write to its eventfd.

use crate::system::node::Bell;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

pub(super) struct Doorbell {
    ring: AtomicI32,
    event: OwnedFd,
}

impl Doorbell {
    #[expect(unsafe_code, reason = "eventfd has no safe wrapper")]
    pub(super) fn new() -> io::Result<Doorbell> {
        // SAFETY: the call takes numbers only; a descriptor it returns is new and ours.
        let event = unsafe {
            let raw = libc::eventfd(0, libc::EFD_CLOEXEC);
            if raw < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(raw)
        };
        Ok(Doorbell { ring: AtomicI32::new(-1), event })
    }

    pub(super) fn set_ring(&self, ring: RawFd) {
        self.ring.store(ring, Ordering::Release);
    }

    /// The shard's ring, the target of `MSG_RING`.
    pub(super) fn target(&self) -> RawFd {
        self.ring.load(Ordering::Acquire)
    }

    pub(super) fn event(&self) -> RawFd {
        self.event.as_raw_fd()
    }
}

impl Bell for Doorbell {
    #[expect(unsafe_code, reason = "a write of one word")]
    fn ring(&self) {
        let one = 1u64;
        // SAFETY: eight bytes are readable behind the pointer. The write cannot block: the counter is far from full.
        unsafe { libc::write(self.event(), (&raw const one).cast(), 8) };
    }
}

//! The provided-buffer ring of a shard: the kernel picks a buffer for each receive, a task borrows it and gives it
//! back.
//!
//! Invariants: a buffer is in the ring, in an unreaped completion, or lent to a task. At most [`LENT_MAX`] buffers are
//! lent; what arrives beyond that is copied, so that tasks that keep data do not stop other connections from receiving.
//! Once [`COPIED_BYTES_MAX`] are copied, buffers are scarce, and each connection receives one piece at a time.

use io_uring::types::BufRingEntry;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use super::ring::Ring;

/// Buffers per shard, a power of two.
const BUFFERS: u16 = 1024;
/// Bytes of a buffer.
const BUFFER_BYTES: usize = 4096;
/// The most buffers that are lent to tasks; the rest is always available to the kernel.
const LENT_MAX: usize = BUFFERS as usize * 3 / 4;
/// Copied bytes that wait for tasks, beyond which each connection receives one piece at a time.
const COPIED_BYTES_MAX: usize = 16 << 20;
/// The only buffer group of a ring.
pub(super) const GROUP: u16 = 0;

pub(super) struct ReceiveBuffers {
    entries: NonNull<BufRingEntry>,
    memory: NonNull<u8>,
    tail: Cell<u16>,
    lent: Cell<usize>,
    copied_bytes: Cell<usize>,
}

const ENTRIES_LAYOUT: Layout = match Layout::from_size_align(BUFFERS as usize * 16, 4096) {
    Ok(layout) => layout,
    Err(_) => panic!(),
};
const MEMORY_LAYOUT: Layout = match Layout::from_size_align(BUFFERS as usize * BUFFER_BYTES, 4096) {
    Ok(layout) => layout,
    Err(_) => panic!(),
};

impl ReceiveBuffers {
    /// Allocates the buffers and registers them with `ring`. They must outlive it: the caller keeps both together and
    /// drops the ring first.
    #[expect(unsafe_code, reason = "memory shared with the kernel")]
    pub(super) fn register(ring: &Ring) -> io::Result<ReceiveBuffers> {
        // SAFETY: both layouts have a size above zero.
        let (entries, memory) = unsafe { (alloc_zeroed(ENTRIES_LAYOUT), alloc_zeroed(MEMORY_LAYOUT)) };
        let Some(entries) = NonNull::new(entries.cast::<BufRingEntry>()) else { handle_alloc_error(ENTRIES_LAYOUT) };
        let Some(memory) = NonNull::new(memory) else { handle_alloc_error(MEMORY_LAYOUT) };
        let buffers =
            ReceiveBuffers { entries, memory, tail: Cell::new(0), lent: Cell::new(0), copied_bytes: Cell::new(0) };
        for id in 0..BUFFERS {
            buffers.put(id);
        }
        // SAFETY: the entries are aligned to a page, and live as long as the ring (see above).
        match unsafe { ring.submitter().register_buf_ring_with_flags(entries.as_ptr() as u64, BUFFERS, GROUP, 0) } {
            Ok(()) => Ok(buffers),
            Err(e) => Err(io::Error::new(e.kind(), format!("receive buffers cannot be registered (ulimit -l): {e}"))),
        }
    }

    /// Takes the `len` bytes received in buffer `id`: the buffer itself, or a copy if too many are lent.
    pub(super) fn take(&self, id: u16, len: usize) -> Received {
        assert!(id < BUFFERS && len <= BUFFER_BYTES, "the kernel names a buffer of this group");
        if self.lent.get() < LENT_MAX {
            self.lent.set(self.lent.get() + 1);
            return Received::Lent { id, len };
        }
        let copy = Received::Copied(self.bytes(id, len).into());
        self.copied_bytes.set(self.copied_bytes.get() + len);
        self.put(id);
        copy
    }

    /// The bytes of a received piece.
    pub(super) fn slice<'a>(&'a self, received: &'a Received) -> &'a [u8] {
        match received {
            Received::Lent { id, len } => self.bytes(*id, *len),
            Received::Copied(bytes) => bytes,
        }
    }

    /// Whether each connection may receive only one piece ahead of its task.
    pub(super) fn are_scarce(&self) -> bool {
        self.copied_bytes.get() > COPIED_BYTES_MAX
    }

    /// Copied bytes that have not been given back.
    #[cfg(test)]
    pub(super) fn copied_bytes(&self) -> usize {
        self.copied_bytes.get()
    }

    /// Takes a received piece back from its task.
    pub(super) fn give_back(&self, received: &mut Received) {
        match received {
            Received::Lent { id, .. } => {
                self.lent.set(self.lent.get() - 1);
                self.put(*id);
            }
            Received::Copied(bytes) => self.copied_bytes.set(self.copied_bytes.get() - bytes.len()),
        }
        *received = Received::Copied(Box::default());
    }

    #[expect(unsafe_code, reason = "memory shared with the kernel")]
    fn bytes(&self, id: u16, len: usize) -> &[u8] {
        // SAFETY: the buffer is inside the allocation, initialised, and out of the ring: the kernel does not write it
        // until `put`, which needs every borrow of a `Received` to be over.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(id as usize * BUFFER_BYTES), len) }
    }

    /// Puts a buffer into the ring, for the kernel to fill.
    #[expect(unsafe_code, reason = "memory shared with the kernel")]
    pub(super) fn put(&self, id: u16) {
        let tail = self.tail.get();
        // SAFETY: the slot is inside the allocation; the kernel reads it only after the tail below has passed it. The
        // tail is a field of the ring's first entry that `set_*` leave alone, aligned for an atomic.
        unsafe {
            let entry = &mut *self.entries.as_ptr().add((tail & (BUFFERS - 1)) as usize);
            entry.set_addr(self.memory.as_ptr().add(id as usize * BUFFER_BYTES) as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(id);
            let shared_tail = BufRingEntry::tail(self.entries.as_ptr()) as *const AtomicU16;
            (*shared_tail).store(tail.wrapping_add(1), Ordering::Release);
        }
        self.tail.set(tail.wrapping_add(1));
    }
}

impl Drop for ReceiveBuffers {
    #[expect(unsafe_code, reason = "memory shared with the kernel")]
    fn drop(&mut self) {
        // SAFETY: allocated in `register` with these layouts; the ring is gone.
        unsafe {
            dealloc(self.entries.as_ptr().cast(), ENTRIES_LAYOUT);
            dealloc(self.memory.as_ptr(), MEMORY_LAYOUT);
        }
    }
}

/// A received piece: in a buffer of the ring, or copied.
pub(super) enum Received {
    Lent { id: u16, len: usize },
    Copied(Box<[u8]>),
}

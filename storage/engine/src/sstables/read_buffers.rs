//! A pool of buffers for reads from disk, because a new buffer costs zeroing and page faults.

use runtime::AlignedBuf;
use std::cell::RefCell;

/// Buffers that are kept.
const BUFFERS_MAX: usize = 8;
/// The longest buffer that is kept, in bytes: 256 KiB of blocks with their checksums, and the rest of their pages.
pub(crate) const BUFFER_BYTES_MAX: usize = (256 + 16) << 10;

/// The pool of one shard.
#[derive(Default)]
pub(crate) struct ReadBuffers {
    free: RefCell<Vec<AlignedBuf>>,
}

impl ReadBuffers {
    /// A buffer of any length, if one is free.
    pub(crate) fn take(&self) -> Option<AlignedBuf> {
        self.free.borrow_mut().pop()
    }

    /// Keeps a buffer for the next read.
    pub(crate) fn give(&self, buffer: AlignedBuf) {
        let mut free = self.free.borrow_mut();
        if free.len() < BUFFERS_MAX && buffer.capacity() <= BUFFER_BYTES_MAX {
            free.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded() {
        let buffers = ReadBuffers::default();
        assert!(buffers.take().is_none());
        buffers.give(AlignedBuf::zeroed(BUFFER_BYTES_MAX + 1));
        assert!(buffers.take().is_none());
        (0..2 * BUFFERS_MAX).for_each(|_| buffers.give(AlignedBuf::zeroed(BUFFER_BYTES_MAX)));
        assert_eq!(std::iter::from_fn(|| buffers.take()).count(), BUFFERS_MAX);
    }
}

//! Aligned buffers for direct I/O.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Alignment of direct I/O: addresses, offsets and lengths are multiples of this many bytes.
pub const ALIGNMENT: usize = 4096;

/// An owned, zeroed, [`ALIGNMENT`]-aligned byte buffer of fixed capacity. Derefs to its first `len()` bytes.
pub struct AlignedBuf {
    pointer: NonNull<u8>,
    capacity: usize,
    len: usize,
}

#[expect(unsafe_code, reason = "aligned allocation")]
// SAFETY: the buffer owns its memory exclusively.
unsafe impl Send for AlignedBuf {}

#[expect(unsafe_code, reason = "aligned allocation")]
impl AlignedBuf {
    /// A zeroed buffer of `capacity` bytes, rounded up to a multiple of [`ALIGNMENT`]; `len()` is the capacity.
    pub fn zeroed(capacity: usize) -> AlignedBuf {
        let capacity = capacity.max(1).next_multiple_of(ALIGNMENT);
        let layout = Layout::from_size_align(capacity, ALIGNMENT).expect("capacity fits the address space");
        // SAFETY: the layout has a non-zero size.
        let pointer = unsafe { alloc_zeroed(layout) };
        let Some(pointer) = NonNull::new(pointer) else { handle_alloc_error(layout) };
        AlignedBuf { pointer, capacity, len: capacity }
    }

    /// The allocated bytes.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Sets the length of the slice that the buffer derefs to. Panics if it is above the capacity.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity);
        self.len = len;
    }
}

#[expect(unsafe_code, reason = "aligned allocation")]
impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `capacity` bytes are allocated and initialised, len <= capacity.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.len) }
    }
}

#[expect(unsafe_code, reason = "aligned allocation")]
impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.len) }
    }
}

#[expect(unsafe_code, reason = "aligned allocation")]
impl Drop for AlignedBuf {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this very layout.
        unsafe { dealloc(self.pointer.as_ptr(), Layout::from_size_align_unchecked(self.capacity, ALIGNMENT)) }
    }
}

impl AsRef<[u8]> for AlignedBuf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuf({} of {})", self.len, self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_zeroed() {
        for capacity in [0, 1, ALIGNMENT, ALIGNMENT + 1, 1 << 20] {
            let buffer = AlignedBuf::zeroed(capacity);
            assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
            assert_eq!(buffer.capacity(), capacity.max(1).next_multiple_of(ALIGNMENT));
            assert!(buffer.len() == buffer.capacity() && buffer.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn length_moves_within_the_capacity() {
        let mut buffer = AlignedBuf::zeroed(ALIGNMENT);
        buffer[ALIGNMENT - 1] = 7;
        buffer.set_len(10);
        assert_eq!(buffer.len(), 10);
        buffer.set_len(ALIGNMENT);
        assert_eq!(buffer[ALIGNMENT - 1], 7);
        let too_long = std::panic::catch_unwind(move || buffer.set_len(ALIGNMENT + 1));
        assert!(too_long.is_err());
    }
}

//! The allocator of a program that runs nodes: mimalloc.
//!
//! mimalloc aligns every block as any primitive type needs it, up to [`NATURAL_ALIGN`] bytes. What needs no more is
//! asked for without an alignment: for blocks above 1 KiB whose size is no power of two, as the futures of requests
//! are, mimalloc's functions with an alignment take 200 instructions more, because they make the block larger.
#![allow(unsafe_code, reason = "an allocator")]

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_zalloc, mi_zalloc_aligned,
};
use std::alloc::{GlobalAlloc, Layout};

/// The alignment, bytes, of all blocks that are at least as large as that; smaller ones are aligned to the largest
/// power of two that is not larger than they are. `MI_MAX_ALIGN_SIZE` in mimalloc's `types.h`.
const NATURAL_ALIGN: usize = 16;

/// mimalloc, for `#[global_allocator]`.
#[derive(Clone, Copy, Debug)]
pub struct Allocator;

/// Whether blocks of `size` bytes are aligned to `align` anyway.
#[inline]
fn is_natural(size: usize, align: usize) -> bool {
    align <= NATURAL_ALIGN && align <= size
}

// SAFETY: mimalloc's blocks have the size and alignment that were asked for, or the alignment is natural for their
// size; all of them are freed by `mi_free`.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: any size is allowed, and the alignment is a power of two.
        let block = unsafe { if is_natural(size, align) { mi_malloc(size) } else { mi_malloc_aligned(size, align) } };
        block.cast()
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: any size is allowed, and the alignment is a power of two.
        let block = unsafe { if is_natural(size, align) { mi_zalloc(size) } else { mi_zalloc_aligned(size, align) } };
        block.cast()
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller's block is mimalloc's.
        unsafe { mi_free(block.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's block is mimalloc's, and the alignment is a power of two.
        let block = unsafe {
            match is_natural(size, layout.align()) {
                true => mi_realloc(block.cast(), size),
                false => mi_realloc_aligned(block.cast(), size, layout.align()),
            }
        };
        block.cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_keep_their_bytes() {
        for align in [1, 2, 4, 8, 16, 32, 64, 4096] {
            for size in (1..=600).chain([1000, 1024, 1025, 2528, 4096, 5000, 70_000, 1 << 20]) {
                let layout = Layout::from_size_align(size, align).expect("a layout");
                // SAFETY: the blocks have the layouts with which they are used, and are freed once.
                unsafe {
                    let block = Allocator.alloc(layout);
                    assert!(block.addr().is_multiple_of(align), "{size} bytes aligned to {align}");
                    block.write(7);
                    block.add(size - 1).write(7);
                    let larger = Allocator.realloc(block, layout, size + 40);
                    assert!(larger.addr().is_multiple_of(align), "{size} bytes aligned to {align}, larger");
                    assert_eq!((larger.read(), larger.add(size - 1).read()), (7, 7));
                    let smaller = Allocator.realloc(larger, Layout::from_size_align(size + 40, align).expect("one"), 1);
                    assert!(smaller.addr().is_multiple_of(align), "{size} bytes aligned to {align}, smaller");
                    assert_eq!(smaller.read(), 7);
                    Allocator.dealloc(smaller, Layout::from_size_align(1, align).expect("one"));
                    let zeroed = Allocator.alloc_zeroed(layout);
                    assert!(zeroed.addr().is_multiple_of(align), "{size} bytes aligned to {align}, zeroed");
                    assert!((0..size).all(|at| zeroed.add(at).read() == 0));
                    Allocator.dealloc(zeroed, layout);
                }
            }
        }
    }
}

//! The node's allocator with a mark for each allocation: a function whose instructions callgrind shows.
#![allow(unsafe_code, reason = "an allocator")]

use mimalloc::MiMalloc;
use std::alloc::{GlobalAlloc, Layout};

/// See the module.
pub(crate) struct Counting;

/// Returns: one instruction.
#[inline(never)]
extern "C" fn counted_allocation() {
    std::hint::black_box(());
}

// SAFETY: every call goes to mimalloc as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        counted_allocation();
        // SAFETY: the caller's layout, passed on.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's block and layout, passed on.
        unsafe { MiMalloc.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        counted_allocation();
        // SAFETY: the caller's block, layout and length, passed on.
        unsafe { MiMalloc.realloc(block, layout, len) }
    }
}

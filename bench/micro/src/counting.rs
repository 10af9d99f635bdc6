//! The node's allocator with a call of an empty function for each allocation, so that callgrind can count allocations.
#![allow(unsafe_code, reason = "an allocator")]

use runtime::allocator::Allocator;
use std::alloc::{GlobalAlloc, Layout};

/// The allocator, with a call of [`counted_allocation`] for each allocation.
pub(crate) struct Counting;

/// Does nothing: its only instruction is the return that callgrind counts.
#[inline(never)]
extern "C" fn counted_allocation() {
    std::hint::black_box(());
}

// SAFETY: every call is passed on unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        counted_allocation();
        // SAFETY: the caller's layout, passed on.
        unsafe { Allocator.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's block and layout, passed on.
        unsafe { Allocator.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        counted_allocation();
        // SAFETY: the caller's block, layout and length, passed on.
        unsafe { Allocator.realloc(block, layout, len) }
    }
}

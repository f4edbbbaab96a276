//! Allocation counts per thread, so that tests that run in parallel do not count each other's.

#![expect(unsafe_code, reason = "a global allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator with a counter: for `#[global_allocator]`.
#[derive(Clone, Copy, Debug)]
pub struct Counting;

/// Allocations that this thread has made, with [`Counting`] as the allocator.
#[must_use]
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

fn count() {
    // A thread that is ending has no counter any more, and nothing to count for.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the contract; counting touches only
// a thread-local number that needs neither allocation nor destruction.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps `alloc`'s contract, which is the same here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps `dealloc`'s contract, and what `alloc` gave came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps `realloc`'s contract, and what `alloc` gave came from `System`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

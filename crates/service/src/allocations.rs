//! Counts of each thread's allocations, so that "no allocation on the event path" is a figure and not a claim.

#![expect(unsafe_code, reason = "a global allocator cannot be written without it")]

use core::cell::Cell;
use std::alloc::{GlobalAlloc, Layout, System};

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting. Install it with `#[global_allocator]` in a binary.
#[derive(Debug, Clone, Copy, Default)]
pub struct CountingAllocator;

/// Allocations and reallocations the calling thread has made. Always 0 where [`CountingAllocator`] is not installed.
#[must_use]
pub fn of_this_thread() -> u64 {
    COUNT.try_with(Cell::get).unwrap_or(0)
}

fn count_one() {
    // A thread that is ending has no counter any more; its last allocations belong to no event path.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is passed unchanged to the system's allocator, which keeps GlobalAlloc's contract; the counter is a
// constant-initialised thread-local without a destructor, so touching it neither allocates nor unwinds.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_one();
        // SAFETY: the caller keeps `alloc`'s contract, which is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_one();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count_one();
        // SAFETY: as above; the pointer came from this allocator, hence from the system's.
        unsafe { System.realloc(pointer, layout, new_size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

//! The library's threads as threads of Python's.
//!
//! Python keeps a state for each thread that runs its code: stacks, thread locals. It makes one when a thread that it has not started comes,
//! and takes it away when the thread leaves, which for each event costs several times what the rest does. Here a thread keeps its state from
//! its first event on until it ends.

#![expect(unsafe_code, reason = "what is safe takes a thread's state away whenever the thread leaves")]

use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::Cell;

thread_local! {
    static KEPT: Cell<Option<Kept>> = const { Cell::new(None) };
}

/// A thread has a state of Python's until this is dropped: at the end of the thread.
struct Kept;

impl Kept {
    /// Of a thread that has entered Python and will leave it.
    fn new(_: Python<'_>) -> Self {
        // SAFETY: the thread is attached, as the token shows. To Python it has entered twice now, and leaves once: it is not attached any
        // more then, and its state stays.
        unsafe { ffi::PyGILState_Ensure() };
        Self
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // An interpreter that has ended, or is about to, has taken the states of all threads away, or does.
        Python::try_attach(|_| {
            // SAFETY: it belongs to the call in `new`, on the same thread; as there, another is around it, whose end takes the state away.
            unsafe { ffi::PyGILState_Release(ffi::PyGILState_STATE::PyGILState_LOCKED) };
        });
    }
}

/// Does something on a thread of the library's with the interpreter; `None` when that has ended.
pub(crate) fn on_own_thread<R>(what: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    // SAFETY: it may be asked always, and by any thread.
    let is_known = !unsafe { ffi::PyGILState_GetThisThreadState() }.is_null();
    Python::try_attach(|py| {
        // A thread that Python knows has its state already: by this, or since it is Python's own.
        if !is_known {
            KEPT.set(Some(Kept::new(py)));
        }
        what(py)
    })
}

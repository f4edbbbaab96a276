//! A gate around callbacks: once it is closed, none runs any more.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// A gate; closing it is final.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    /// The threads that are inside.
    inside: Vec<ThreadId>,
}

/// A thread's passage through the gate, until it is dropped.
#[derive(Debug)]
pub(crate) struct Inside<'g>(&'g Gate);

impl Gate {
    /// Enters the gate, if it is open.
    pub(crate) fn enter(&self) -> Option<Inside<'_>> {
        let mut state = self.lock();
        if state.is_closed {
            return None;
        }
        state.inside.push(thread::current().id());
        Some(Inside(self))
    }

    /// Whether this thread is inside: a callback has called the library.
    pub(crate) fn is_this_inside(&self) -> bool {
        self.lock().inside.contains(&thread::current().id())
    }

    /// Closes the gate: no thread enters any more.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
    }

    /// Waits until no thread is inside.
    pub(crate) fn wait_until_empty(&self) {
        let mut state = self.lock();
        while !state.inside.is_empty() {
            state = self.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        let this = thread::current().id();
        if let Some(place) = state.inside.iter().position(|other| *other == this) {
            state.inside.swap_remove(place);
        }
        if state.is_closed {
            self.0.left.notify_all();
        }
    }
}

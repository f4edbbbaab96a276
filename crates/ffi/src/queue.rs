//! Events that wait for a program that asks for them.

use crate::event::QueuedEvent;
use crate::status::Failure;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Events that may wait here; beyond that, they wait at the service.
const WAITING_MAX: usize = 256;

#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<QueuedEvent>,
    is_closed: bool,
}

impl Queue {
    /// Adds an event when there is room. Says whether it is open.
    pub(crate) fn push(&self, event: QueuedEvent) -> bool {
        let mut state = self.lock();
        while state.waiting.len() >= WAITING_MAX && !state.is_closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_closed {
            return false;
        }
        state.waiting.push_back(event);
        self.changed.notify_all();
        true
    }

    /// Takes the next event, when one comes within that time; without a time, for as long as it takes.
    pub(crate) fn next(&self, within: Option<Duration>) -> Result<QueuedEvent, Failure> {
        let ends = within.and_then(|within| Instant::now().checked_add(within));
        let mut state = self.lock();
        loop {
            if let Some(event) = state.waiting.pop_front() {
                self.changed.notify_all();
                return Ok(event);
            }
            if state.is_closed {
                return Err(Failure::closed());
            }
            state = match ends {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(ends) => {
                    let left = ends.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(Failure::timeout());
                    }
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Ends all waits, and later ones. What is there can still be taken.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! The end of a process with live publishers or consumers.
//!
//! Publishers send their gathered events and wait for answers as when they are freed; unconfirmed events are then logged. Callbacks are not
//! called any more: what they use may be gone.

use std::ffi::c_int;
use std::sync::{Mutex, Once, PoisonError, Weak};

/// An object to notify when the process ends.
pub(crate) trait AtExit: Send + Sync {
    fn process_ends(&self);
}

static ALIVE: Mutex<Vec<Weak<dyn AtExit>>> = Mutex::new(Vec::new());

unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> c_int;
}

/// Has [`AtExit::process_ends`] called at the end of the process, if the object still exists.
pub(crate) fn tell_at_exit(who: Weak<dyn AtExit>) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the function never unwinds, and the library stays loaded.
        if unsafe { atexit(process_ends) } != 0 {
            log::warn!("events that are under way when the process ends will not be reported");
        }
    });
    let mut alive = ALIVE.lock().unwrap_or_else(PoisonError::into_inner);
    alive.retain(|other| other.strong_count() > 0);
    alive.push(who);
}

extern "C" fn process_ends() {
    // In a forked child another thread may have held the lock when it was made, and nothing here is the child's.
    let Ok(mut alive) = ALIVE.try_lock() else { return };
    let all = std::mem::take(&mut *alive);
    drop(alive);
    for who in all.iter().filter_map(Weak::upgrade) {
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| who.process_ends()));
        if told.is_err() {
            log::error!("a bug in the library, while the process ends");
        }
    }
}

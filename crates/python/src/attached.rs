//! Threads of the library that call into Python.
//!
//! Python keeps a state for each thread that runs its code: stacks, thread locals. For a foreign thread it makes the state on entry and
//! deletes it on exit, which costs several times more than the rest of an event's handling. Here a thread stores its state from its first
//! event until it ends.
//!
//! An ending interpreter unwinds every thread that requests its lock, which aborts the process if the thread has frames of Rust. So
//! [`Calls`] counts the calls into Python on these threads; at the end none begins and the current ones are waited for ([`Calls::close`]).
//! A thread that is unwound all the same stops for ever ([`call`]). Threads of the program's that wait in the library without the lock
//! ([`released`]) do not ask for it again then: they are daemon threads, since Python waits for all others before.

#![expect(unsafe_code, reason = "what is safe takes a thread's state away whenever the thread leaves")]

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

thread_local! {
    static THREAD_STATE: Cell<Option<ThreadState>> = const { Cell::new(None) };
    /// The address of the [`Calls`] of the subscription that this thread is calling for; 0 outside of calls.
    static INSIDE: Cell<usize> = const { Cell::new(0) };
}

/// The calls of all subscriptions of the process, and threads of the program that are about to reacquire the interpreter's lock.
pub(crate) static ALL: Calls = Calls::new();

/// The thread on which the interpreter ends.
static ENDS_ON: OnceLock<ThreadId> = OnceLock::new();

/// Polling interval of a thread that waits for the end of calls.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Counts the current calls from the library into Python. Lock-free: a forked child could find a lock taken for ever.
pub(crate) struct Calls {
    under_way: AtomicUsize,
    is_closed: AtomicBool,
}

impl Calls {
    /// An open counter without calls.
    pub(crate) const fn new() -> Self {
        Self { under_way: AtomicUsize::new(0), is_closed: AtomicBool::new(false) }
    }

    /// Begins a call; `None` once this is closed. Either this counts the call before [`close`](Self::close) looks, or it sees that it is
    /// closed: both sides write before they read, in one order for all.
    fn begin(&self) -> Option<Call<'_>> {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        let call = Call(self);
        if self.is_closed.load(Ordering::SeqCst) { None } else { Some(call) }
    }

    /// Prevents further calls.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// Waits until no call is running, for `limit` at most; returns whether none is. The caller must not have the interpreter's lock.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let begun = Instant::now();
        loop {
            if self.under_way.load(Ordering::SeqCst) == 0 {
                return true;
            }
            if begun.elapsed() >= limit {
                return false;
            }
            thread::park_timeout(LOOK_EVERY);
        }
    }

    /// Whether the caller is inside one of these calls, and so would wait for its own end.
    pub(crate) fn is_inside(&self) -> bool {
        INSIDE.get() == self.address()
    }

    /// Forgets the calls of threads that a forked child lacks.
    pub(crate) fn forget(&self) {
        self.under_way.store(0, Ordering::SeqCst);
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// Counts a program's thread that is about to acquire the interpreter's lock, until the result is dropped. Once the interpreter ends it
    /// returns only on the thread that ends it, and on threads within a call, which is counted and waited for.
    fn come_back(&self) -> Option<Call<'_>> {
        let call = self.begin();
        let goes_on = call.is_some() || INSIDE.get() != 0 || ENDS_ON.get() == Some(&thread::current().id());
        if !goes_on {
            stay();
        }
        call
    }
}

/// A running call.
struct Call<'a>(&'a Calls);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Stops a thread for ever when the ending interpreter unwinds it. Frames of Rust must not be unwound, and nothing waits for the thread any
/// more.
struct Stay;

impl Drop for Stay {
    fn drop(&mut self) {
        stay();
    }
}

/// Stops this thread for ever.
fn stay() -> ! {
    loop {
        thread::park();
    }
}

/// A function of `pyo3::ffi`, declared so that it may unwind, as it does in an ending interpreter (before Python 3.14).
mod unwinding {
    use pyo3::ffi::PyObject;

    #[expect(unsafe_code, reason = "declares what Python has")]
    unsafe extern "C-unwind" {
        pub(super) fn PyObject_CallObject(callable: *mut PyObject, arguments: *mut PyObject) -> *mut PyObject;
    }
}

/// Calls a program's function on a thread of the library.
pub(crate) fn call<'py>(function: &Bound<'py, PyAny>, arguments: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
    let stay = Stay;
    // SAFETY: both are objects that live, and the interpreter's lock is held, as their type shows.
    let returned = unsafe { unwinding::PyObject_CallObject(function.as_ptr(), arguments.as_ptr()) };
    core::mem::forget(stay);
    // SAFETY: the result is a reference of the caller's, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(function.py(), returned) }
}

/// The Python state of a thread, dropped at the end of the thread.
struct ThreadState;

impl ThreadState {
    /// The state of a thread that has entered Python and will leave it.
    fn new(_: Python<'_>) -> Self {
        // SAFETY: the thread is attached, as the token shows. To Python it has entered twice now, and leaves once: it is not attached any
        // more then, and its state stays.
        unsafe { ffi::PyGILState_Ensure() };
        Self
    }
}

impl Drop for ThreadState {
    fn drop(&mut self) {
        // An interpreter that has ended, or is about to, has taken the states of all threads away, or does.
        let Some(_call) = ALL.begin() else { return };
        Python::try_attach(|_| {
            // SAFETY: it belongs to the call in `new`, on the same thread; as there, it is within another, at the end of which the state is
            // taken away.
            unsafe { ffi::PyGILState_Release(ffi::PyGILState_STATE::PyGILState_LOCKED) };
        });
    }
}

/// Runs something that may block, without the interpreter's lock. If the interpreter ends meanwhile, the thread stops for ever.
pub(crate) fn released<T: Send>(py: Python<'_>, what: impl FnOnce() -> T + Send) -> T {
    let (done, _call) = py.detach(|| (what(), ALL.come_back()));
    done
}

/// Whether a thread that waits without the lock continues: not if a signal handler raised an exception, which is put into `raised`.
pub(crate) fn goes_on(raised: &mut Option<PyErr>) -> bool {
    // Signals are handled on the interpreter's main thread, which is none of the library's.
    if INSIDE.get() != 0 {
        return true;
    }
    let _call = ALL.come_back();
    *raised = Python::try_attach(|py| py.check_signals().err()).flatten();
    raised.is_none()
}

/// Prevents further calls, since the interpreter ends on this thread.
pub(crate) fn end() {
    // It ends once.
    let _ = ENDS_ON.set(thread::current().id());
    ALL.close();
}

/// Runs something for a subscription with the interpreter, on a thread of the library; `None` when either has ended.
pub(crate) fn on_own_thread<R>(calls: &Calls, what: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    let _all = ALL.begin()?;
    let _own = calls.begin()?;
    let outside = INSIDE.replace(calls.address());
    // SAFETY: it may be asked always, and by any thread.
    let is_known = !unsafe { ffi::PyGILState_GetThisThreadState() }.is_null();
    let done = Python::try_attach(|py| {
        // A thread that Python knows has its state already: by this, or since it is Python's own.
        if !is_known {
            THREAD_STATE.set(Some(ThreadState::new(py)));
        }
        what(py)
    });
    INSIDE.set(outside);
    done
}

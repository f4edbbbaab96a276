//! Return codes of functions, and the last error of each thread.

use campanile::ErrorCode;
use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The reason why a function failed.
#[derive(Debug)]
pub(crate) struct Failure {
    status: ErrorCode,
    message: String,
    was_not_carried_out: bool,
    /// Position of the error in a filter, in characters from 1 on; else 0.
    column: u32,
}

impl Failure {
    pub(crate) fn new(status: ErrorCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), was_not_carried_out: true, column: 0 }
    }

    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Argument, message)
    }

    pub(crate) fn closed() -> Self {
        Self::new(ErrorCode::Closed, "it is closed")
    }

    pub(crate) fn timeout() -> Self {
        Self::new(ErrorCode::Timeout, "nothing came in time")
    }

    pub(crate) fn forked() -> Self {
        campanile::Error::Forked.into()
    }
}

impl From<campanile::Error> for Failure {
    fn from(error: campanile::Error) -> Self {
        let (was_not_carried_out, column) = (error.was_not_carried_out(), error.column().unwrap_or(0));
        Self { was_not_carried_out, column, ..Self::new(error.code(), error.to_string()) }
    }
}

impl From<campanile::SettingsError> for Failure {
    fn from(error: campanile::SettingsError) -> Self {
        campanile::Error::from(error).into()
    }
}

struct Last {
    message: CString,
    was_not_carried_out: bool,
    column: u32,
}

thread_local! {
    static LAST: RefCell<Last> = RefCell::new(Last { message: CString::default(), was_not_carried_out: false, column: 0 });
}

/// Makes a text for C; zero octets are replaced.
pub(crate) fn c_string(text: &str) -> CString {
    CString::new(text).unwrap_or_else(|_| CString::new(text.replace('\0', "\u{FFFD}")).unwrap_or_default())
}

/// The message of a panic.
pub(crate) fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".to_owned())
}

/// Runs a function for a caller in C: errors and panics become an error code.
pub(crate) fn guarded(what: impl FnOnce() -> Result<(), Failure>) -> ErrorCode {
    let failure = match catch_unwind(AssertUnwindSafe(what)) {
        Ok(Ok(())) => return ErrorCode::Ok,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure {
            was_not_carried_out: false,
            ..Failure::new(ErrorCode::Bug, format!("a bug in the library: {}", words(panic.as_ref())))
        },
    };
    let Failure { status, message, was_not_carried_out, column } = failure;
    LAST.set(Last { message: c_string(&message), was_not_carried_out, column });
    status
}

/// The message of the last call by this thread that returned something else than `CAMPANILE_STATUS_OK`: a sentence in UTF-8. Valid until
/// this thread calls the library again.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_last_error() -> *const c_char {
    LAST.with_borrow(|last| last.message.as_ptr())
}

/// Whether the last failed call of this thread was certainly not carried out: its event can then be published again without arriving twice.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_last_was_not_carried_out() -> bool {
    LAST.with_borrow(|last| last.was_not_carried_out)
}

/// Position of the error in the filter that was refused last on this thread (`CAMPANILE_STATUS_FILTER`), in characters from 1 on; 0 for
/// other errors, and for a filter that is too large as a whole.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_last_column() -> u32 {
    LAST.with_borrow(|last| last.column)
}

/// The library's version: `0.1.0`.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

//! Logging: warnings to the standard error stream, or to a function of the program.

use crate::status::c_string;
use log::{LevelFilter, Log, Metadata, Record};
use std::ffi::{c_char, c_int, c_void};
use std::io::{self, Write};
use std::sync::{Once, PoisonError, RwLock};

/// Called with each log line: 1 is an error, 2 a warning, 3 information, 4 and 5 are for debugging the library. `text` is valid until the
/// function returns. Any thread may call it, several at once, and it must not call the library.
pub type OnLog = Option<unsafe extern "C" fn(context: *mut c_void, level: c_int, text: *const c_char)>;

struct Callback {
    function: unsafe extern "C" fn(*mut c_void, c_int, *const c_char),
    context: *mut c_void,
}

// SAFETY: the header asks for a function that any thread may call with this context.
unsafe impl Send for Callback {}
// SAFETY: as above.
unsafe impl Sync for Callback {}

struct Logger(RwLock<Option<Callback>>);

static LOGGER: Logger = Logger(RwLock::new(None));

/// Installs the logger.
pub(crate) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // A Rust program that has this library in it may have a logger of its own, which goes on.
        if log::set_logger(&LOGGER).is_ok() {
            log::set_max_level(LevelFilter::Warn);
        }
    });
}

/// Sets the function for log lines; a null pointer restores the standard error stream. `level` is the highest level logged: 0 for nothing,
/// 2 for errors and warnings, which is the default.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_log(level: c_int, function: OnLog, context: *mut c_void) {
    listen();
    *LOGGER.0.write().unwrap_or_else(PoisonError::into_inner) = function.map(|function| Callback { function, context });
    log::set_max_level(match level {
        ..=0 => LevelFilter::Off,
        1 => LevelFilter::Error,
        2 => LevelFilter::Warn,
        3 => LevelFilter::Info,
        4 => LevelFilter::Debug,
        _ => LevelFilter::Trace,
    });
}

impl Log for Logger {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let callback = self.0.read().unwrap_or_else(PoisonError::into_inner);
        match &*callback {
            Some(Callback { function, context }) => {
                let text = c_string(&record.args().to_string());
                // SAFETY: the header asks for a function that may be called so.
                unsafe { function(*context, record.level() as c_int, text.as_ptr()) };
            }
            // That it cannot be written has no place to be reported.
            None => drop(writeln!(io::stderr(), "campanile: {}", record.args())),
        }
    }

    fn flush(&self) {}
}

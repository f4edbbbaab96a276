//! Log lines caused by clients' requests: limited per request by its executor. Others are only counted.

use std::cell::Cell;

thread_local! {
    /// Lines that the current request may still cause; `None` without a request.
    static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    static LEFT_OUT: Cell<u32> = const { Cell::new(0) };
}

/// Logs a line, at a level of [`log::Level`], about a client's request.
macro_rules! log_line {
    ($level:ident, $($text:tt)+) => {
        if log::log_enabled!(target: "campanile::corba", log::Level::$level) && $crate::log_lines::may_be_logged() {
            log::log!(target: "campanile::corba", log::Level::$level, $($text)+);
        }
    };
}
pub(super) use log_line;

/// Log lines caused by a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogLines {
    /// Lines logged.
    pub logged: u32,
    /// Lines only counted.
    pub left_out: u32,
}

/// Executes a request with a limit of log lines, and returns the lines it caused.
pub fn with_lines<R>(most: u32, execute: impl FnOnce() -> R) -> (R, LogLines) {
    LEFT.set(Some(most));
    let result = execute();
    let left = LEFT.take().unwrap_or(0);
    (result, LogLines { logged: most.saturating_sub(left), left_out: LEFT_OUT.take() })
}

/// Whether one more line may be logged.
pub(super) fn may_be_logged() -> bool {
    match LEFT.get() {
        None => true,
        Some(0) => {
            LEFT_OUT.set(LEFT_OUT.get().saturating_add(1));
            false
        }
        Some(left) => {
            LEFT.set(Some(left - 1));
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_causes_no_more_lines_than_it_may() {
        let log = |lines: u32| (0..lines).filter(|_| may_be_logged()).count();
        assert_eq!(with_lines(2, || log(5)), (2, LogLines { logged: 2, left_out: 3 }));
        assert_eq!(with_lines(2, || log(1)), (1, LogLines { logged: 1, left_out: 0 }));
        assert_eq!(with_lines(0, || log(7)), (0, LogLines { logged: 0, left_out: 7 }));
        assert_eq!(log(3), 3, "what no client asked for");
    }
}

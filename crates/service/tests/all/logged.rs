//! What services log, for those tests that look for a line. All services of all tests log to the same place: each such test has clients
//! at addresses of its own, among 127.0.9.0/24, and looks for lines that name them.

use std::sync::{Mutex, Once, PoisonError};

use crate::peers::wait_until;

/// Only of these are lines kept.
const RECORDED_ADDRESSES: &str = "127.0.9.";

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Logger;

impl log::Log for Logger {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Info
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = record.args().to_string();
        if self.enabled(record.metadata()) && line.contains(RECORDED_ADDRESSES) {
            LINES.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    }

    fn flush(&self) {}
}

/// Lines are kept from now on. To be called before what they are about.
pub(crate) fn begin() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        log::set_logger(&Logger).expect("the only logger");
        log::set_max_level(log::LevelFilter::Info);
    });
}

/// The lines so far that have all of these texts in them.
pub(crate) fn lines(texts: &[&str]) -> Vec<String> {
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    lines.iter().filter(|line| texts.iter().all(|text| line.contains(text))).cloned().collect()
}

/// Waits for a line that has all of these texts in it.
#[track_caller]
pub(crate) fn await_line(texts: &[&str]) -> String {
    wait_until(format_args!("a log line with {texts:?}"), || !lines(texts).is_empty());
    lines(texts).swap_remove(0)
}

//! Log messages on standard error, one a line: time, level, message.

use crate::args::LogLevel;
use crate::moment;
use log::{LevelFilter, Log, Metadata, Record};
use std::io::Write;
use std::time::SystemTime;

struct Logger;

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let line = format!("{} {:<5} {}\n", moment::rfc3339(SystemTime::now()), record.level(), record.args());
            // A closed standard error must not stop the service.
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }

    fn flush(&self) {}
}

/// Logs messages of that level and more serious ones from now on.
pub(crate) fn install(level: LogLevel) {
    let filter = match level {
        LogLevel::Off => LevelFilter::Off,
        LogLevel::Error => LevelFilter::Error,
        LogLevel::Warn => LevelFilter::Warn,
        LogLevel::Info => LevelFilter::Info,
        LogLevel::Debug => LevelFilter::Debug,
        LogLevel::Trace => LevelFilter::Trace,
    };
    // Fails only if there is a logger already, and then that one stays.
    if log::set_logger(&Logger).is_ok() {
        log::set_max_level(filter);
    }
}

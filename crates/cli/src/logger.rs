//! Log messages on standard error, one per line: time, level, message; or a JSON object with the same.

use crate::{json, moment};
use log::{Level, LevelFilter, Log, Metadata, Record};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use service::{LogConfig, LogFormat, LogLevel};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

struct Logger;

/// Maximum wait of a line for the reader of standard error. After a line that waited in vain none waits until something is read: the
/// logging thread has others to serve.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Octets that a pipe takes at once if it has room (`PIPE_BUF`).
const AT_ONCE: usize = 4_096;
/// Lines left out since the last written one, for want of a reader. Locked while a line is written, so that lines do not mix.
static LEFT_OUT: Mutex<u64> = Mutex::new(0);

/// Whether lines are JSON.
static IS_JSON: AtomicBool = AtomicBool::new(false);

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let (level, target, message) = (record.level(), record.target(), record.args().to_string());
            console::note_line(level, target, &message);
            let mut lines = line_of(level, target, &message);
            let mut left_out = LEFT_OUT.lock().unwrap_or_else(PoisonError::into_inner);
            let is_read = *left_out == 0;
            if !is_read {
                let missing = format!("{left_out} lines are left out: the log was not read for a while");
                lines.insert_str(0, &line_of(Level::Warn, "campanile", &missing));
            }
            *left_out = if write(lines.as_bytes(), is_read) { 0 } else { *left_out + 1 };
        }
    }

    fn flush(&self) {}
}

/// Writes to standard error, which may be a pipe without a reader. Returns whether there was room. A closed standard error is no error.
fn write(bytes: &[u8], is_patient: bool) -> bool {
    let mut stderr = io::stderr().lock();
    bytes.chunks(AT_ONCE).all(|some| {
        let patience = if is_patient { PATIENCE } else { Timespec::default() };
        let has_room = retry_on_intr(|| poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], Some(&patience))) != Ok(0);
        if has_room {
            let _ = stderr.write_all(some);
        }
        has_room
    })
}

fn line_of(level: Level, target: &str, message: &str) -> String {
    let time = moment::rfc3339(SystemTime::now());
    if IS_JSON.load(Ordering::Relaxed) {
        as_json(&time, level, target, message)
    } else {
        format!("{time} {level:<5} {message}\n")
    }
}

fn as_json(time: &str, level: Level, target: &str, message: &str) -> String {
    let mut line = String::new();
    json::Object::new(&mut line)
        .member("time", time)
        .member("level", level.as_str())
        .member("target", target)
        .member("message", message)
        .end();
    line + "\n"
}

/// Installs the logger with these settings.
pub(crate) fn install(settings: LogConfig) {
    // Fails only if there is a logger already, and then it is this one.
    let _ = log::set_logger(&Logger);
    let filter = match settings.level {
        LogLevel::Off => LevelFilter::Off,
        LogLevel::Error => LevelFilter::Error,
        LogLevel::Warn => LevelFilter::Warn,
        LogLevel::Info => LevelFilter::Info,
        LogLevel::Debug => LevelFilter::Debug,
        LogLevel::Trace => LevelFilter::Trace,
    };
    IS_JSON.store(settings.format == LogFormat::Json, Ordering::Relaxed);
    log::set_max_level(filter);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_an_object_whatever_is_in_it() {
        let line = as_json("2026-01-01T00:00:00.000Z", Level::Warn, "campanile", "a \"b\"\nc");
        let told: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&told["level"], &told["message"]), (&"WARN".into(), &"a \"b\"\nc".into()));
        assert_eq!(line.matches('\n').count(), 1);
    }
}

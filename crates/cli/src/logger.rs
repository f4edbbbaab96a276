//! Log messages on standard error, one a line: time, level, message; or a JSON object that says the same.

use crate::{json, moment};
use log::{LevelFilter, Log, Metadata, Record};
use service::{LogConfig, LogFormat, LogLevel};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

struct Logger;

/// Whether lines are JSON.
static IS_JSON: AtomicBool = AtomicBool::new(false);

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let time = moment::rfc3339(SystemTime::now());
            let line = if IS_JSON.load(Ordering::Relaxed) {
                as_json(&time, record)
            } else {
                format!("{time} {:<5} {}\n", record.level(), record.args())
            };
            // A closed standard error must not stop the service.
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }

    fn flush(&self) {}
}

fn as_json(time: &str, record: &Record<'_>) -> String {
    let mut line = format!("{{\"time\":\"{time}\",\"level\":\"{}\",\"target\":", record.level());
    json::text(&mut line, record.target());
    line.push_str(",\"message\":");
    json::text(&mut line, &record.args().to_string());
    line.push_str("}\n");
    line
}

/// Logs as is said, from now on.
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
        let record =
            Record::builder().level(log::Level::Warn).target("campanile").args(format_args!("a \"b\"\nc")).build();
        let line = as_json("2026-01-01T00:00:00.000Z", &record);
        let told: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&told["level"], &told["message"]), (&"WARN".into(), &"a \"b\"\nc".into()));
        assert_eq!(line.matches('\n').count(), 1);
    }
}

//! How much is logged, and how. The service itself only logs; the program that it is part of decides what becomes of that.

use serde::{Deserialize, Serialize};

/// `[log]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// The least serious messages that are logged. Default `info`.
    pub level: LogLevel,
    /// How a message is written. Default `text`.
    pub format: LogFormat,
}

/// How serious a message is at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Nothing is logged.
    Off,
    /// What keeps the service from doing its work.
    Error,
    /// Conditions that need an operator's attention.
    Warn,
    /// What happens to clients.
    #[default]
    Info,
    /// What helps to find a mistake: clients that connect, subscribe and go, among others.
    Debug,
    /// Everything.
    Trace,
}

/// How messages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// A line: time, level, message.
    #[default]
    Text,
    /// A line that is a JSON object with time, level, target and message.
    Json,
}

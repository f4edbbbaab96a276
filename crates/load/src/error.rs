//! Errors of a benchmark.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a benchmark could not be completed.
#[derive(Debug)]
#[non_exhaustive]
pub enum BenchError {
    /// The operating system refused something.
    Io {
        /// The action.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A participating process did not start, or ended too early.
    Process {
        /// The process.
        name: String,
        /// The known circumstances of its end.
        reason: String,
    },
    /// The service's program does not exist.
    NoService {
        /// Its expected path.
        program: PathBuf,
    },
    /// A contender could not be set up to carry events.
    Setup {
        /// The action.
        doing: String,
        /// The contender's error.
        reason: String,
    },
    /// A contender sent bytes that violate the protocol.
    Protocol {
        /// The contender.
        contender: String,
        /// The violation.
        reason: String,
    },
    /// A benchmark did not show what it is meant to show.
    NotShown {
        /// The actual result.
        found: String,
    },
    /// An option's value is invalid.
    Option {
        /// The option, as written on the command line.
        name: &'static str,
        /// Its valid values.
        must_be: String,
    },
    /// An option names an unknown contender.
    NoContender {
        /// The option, as written on the command line.
        option: &'static str,
        /// The unknown name.
        key: String,
        /// The known names.
        keys: Vec<String>,
    },
}

impl BenchError {
    /// Wraps an operating system's error with the action that failed.
    pub fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }

    /// Wraps an error of rustix with the action that failed.
    pub fn errno(doing: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| Self::Io { doing, source: errno.into() }
    }
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { doing, source } => write!(f, "{doing}: {source}"),
            Self::Process { name, reason } => write!(f, "the process {name} {reason}"),
            Self::NoService { program } => write!(
                f,
                "there is no {}: the service that is measured is the program `campanile` in the same folder; `make lab` makes both",
                program.display()
            ),
            Self::Setup { doing, reason } => write!(f, "{doing}: {reason}"),
            Self::Protocol { contender, reason } => write!(f, "{contender} {reason}"),
            Self::NotShown { found } => f.write_str(found),
            Self::Option { name, must_be } => write!(f, "{name} must be {must_be}"),
            Self::NoContender { option, key, keys } => {
                write!(f, "{option}: there is no contender `{key}`; there are {}", keys.join(", "))
            }
        }
    }
}

impl std::error::Error for BenchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Process { .. }
            | Self::NoService { .. }
            | Self::Setup { .. }
            | Self::Protocol { .. }
            | Self::NotShown { .. }
            | Self::Option { .. }
            | Self::NoContender { .. } => None,
        }
    }
}

impl From<io::Error> for BenchError {
    fn from(source: io::Error) -> Self {
        Self::Io { doing: "writing the report", source }
    }
}

//! Why a benchmark could not be run to its end.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a benchmark could not be run to its end.
#[derive(Debug)]
#[non_exhaustive]
pub enum BenchError {
    /// The operating system refused something.
    Io {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// A process that takes part did not start, or ended before its turn was over.
    Process {
        /// Which one.
        name: String,
        /// What is known about its end.
        reason: String,
    },
    /// The program that serves is not where it is looked for.
    NoService {
        /// Where that is.
        program: PathBuf,
    },
    /// A contender could not be brought to carry events from supplier to consumer.
    Setup {
        /// What was asked of it.
        doing: String,
        /// What it answered.
        reason: String,
    },
    /// A contender sent bytes that do not belong into this exchange.
    Protocol {
        /// Which contender.
        contender: String,
        /// What was wrong.
        reason: String,
    },
    /// A benchmark that is to show something did not show it.
    NotShown {
        /// What was found instead.
        found: String,
    },
    /// An option's value makes no sense.
    Option {
        /// Which one, as written on the command line.
        name: &'static str,
        /// What it must be.
        must_be: String,
    },
    /// An option names a contender that there is not.
    NoContender {
        /// Which one, as written on the command line.
        option: &'static str,
        /// What it names.
        key: String,
        /// What it may name.
        keys: Vec<String>,
    },
}

impl BenchError {
    /// Wraps an operating system's error with what was being done.
    pub fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }

    /// The same for rustix's errors.
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

//! Unsuccessful ends of commands.

use crate::args::ServerOptions;
use client::InvokeError;
use std::fmt::Display;
use std::io;
use std::process::ExitCode;

/// Why a command has failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Print the message on standard error; status 1.
    Message(String),
    /// The command line is invalid; status 2.
    Usage(String),
    /// A service ended with undelivered events; status 3.
    Undelivered(String),
    /// Everything is printed already; status 1.
    Quiet,
    /// The reader of the output has closed it, which is no failure.
    OutputClosed,
}

impl Failure {
    /// Prints the message, if any. Returns the exit status.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Message(message) => {
                eprintln!("campanile: {message}");
                ExitCode::from(1)
            }
            Self::Usage(message) => {
                eprintln!("campanile: {message}");
                ExitCode::from(2)
            }
            Self::Undelivered(message) => {
                eprintln!("campanile: {message}");
                ExitCode::from(3)
            }
            Self::Quiet => ExitCode::from(1),
            Self::OutputClosed => ExitCode::SUCCESS,
        }
    }

    /// Failure of a request to a service.
    pub(crate) fn remote(error: &InvokeError, server: &ServerOptions) -> Self {
        match error {
            InvokeError::NotReachable { address, .. }
                if server.server == client::LOCAL_SERVICE && client::LOCAL_SERVICE.contains(address.as_str()) =>
            {
                Self::Message(format!(
                    "{error}; start a service with `campanile serve`, or name another one with --server HOST:PORT"
                ))
            }
            InvokeError::NotReachable { .. } => Self::Message(format!(
                "{error}; check --server, and that the service runs and advertises an address that can be reached \
                 from here"
            )),
            InvokeError::Lost { address, reason, .. } => Self::Message(format!(
                "the connection to {address} was lost: {reason}; see whether the service still runs there, and what its log \
                 says"
            )),
            InvokeError::BadReply { reason, .. } if reason.contains("instead of \"GIOP\"") => Self::Message(format!(
                "{error}; that is not a port for CORBA clients: `campanile serve` says which it is (2809 unless another one was asked \
                 for), and which are for HTTP, lines of JSON and Tempo"
            )),
            InvokeError::NoChannel { reason } => Self::Message(format!("{reason} (`campanile ls` lists them)")),
            InvokeError::BadAddress { .. } => Self::Usage(format!("--server: {error}")),
            _ => Self::Message(error.to_string()),
        }
    }

    pub(crate) fn message(text: impl Display) -> Self {
        Self::Message(text.to_string())
    }
}

/// Failure to write the output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::OutputClosed;
        }
        Self::Message(format!("cannot write the output: {error}"))
    }
}

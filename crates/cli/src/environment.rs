//! What the environment says: where things are, and where a supervisor such as systemd expects which notifications. Only this module
//! reads it, and once; all else is configuration.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process;
use std::time::Duration;

/// Folders for what outlives a process, and what a supervisor has passed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Environment {
    /// What systemd has made for the service (`StateDirectory=`; of several the first).
    pub(crate) state_directory: Option<PathBuf>,
    /// Where the user wants programs to have their state (XDG Base Directory Specification).
    pub(crate) state_home: Option<PathBuf>,
    /// The user's own.
    pub(crate) home: Option<PathBuf>,
    /// Names of the sockets that were passed, in their order, with colons between (`LISTEN_FDNAMES`).
    pub(crate) socket_names: Option<String>,
    /// Socket of a supervisor that wants notifications of how the service stands (`NOTIFY_SOCKET`).
    pub(crate) notify_socket: Option<OsString>,
    /// Within which time it wants to hear that the service goes on (`WATCHDOG_USEC`).
    pub(crate) watchdog: Option<Duration>,
    /// Whether the user wants no colour (`NO_COLOR`, <https://no-color.org>).
    pub(crate) has_no_color: bool,
    /// Whether the terminal only takes lines (`TERM=dumb`).
    pub(crate) is_dumb: bool,
}

impl Environment {
    /// That of this process.
    pub(crate) fn read() -> Self {
        let first = |list: OsString| env::split_paths(&list).next();
        Self {
            state_directory: absolute(env::var_os("STATE_DIRECTORY").and_then(first)),
            state_home: absolute(env::var_os("XDG_STATE_HOME").map(Into::into)),
            home: absolute(env::var_os("HOME").map(Into::into)),
            socket_names: text("LISTEN_FDNAMES"),
            notify_socket: env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()),
            watchdog: watchdog(text("WATCHDOG_USEC"), text("WATCHDOG_PID"), process::id()),
            has_no_color: env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()),
            is_dumb: env::var_os("TERM").is_some_and(|term| term == "dumb"),
        }
    }

    /// Whether a terminal is coloured.
    pub(crate) const fn allows_color(&self) -> bool {
        !self.has_no_color && !self.is_dumb
    }

    /// The folder in which the user's programs have their state.
    pub(crate) fn user_state(&self) -> Option<PathBuf> {
        self.state_home.clone().or_else(|| Some(self.home.as_ref()?.join(".local").join("state")))
    }
}

fn text(name: &str) -> Option<String> {
    env::var_os(name)?.into_string().ok()
}

/// What is for another process, or makes no sense, is no wish of a watchdog's.
fn watchdog(micros: Option<String>, pid: Option<String>, own: u32) -> Option<Duration> {
    let is_own = pid.is_none_or(|pid| pid.parse() == Ok(own));
    let micros = micros?.parse().ok().filter(|micros| *micros > 0 && is_own)?;
    Some(Duration::from_micros(micros))
}

/// Others are to be ignored, says the specification.
fn absolute(folder: Option<PathBuf>) -> Option<PathBuf> {
    folder.filter(|folder| folder.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_of_another_process_is_not_for_this_one() {
        let wish = |micros: &str, pid: Option<&str>| watchdog(Some(micros.to_owned()), pid.map(str::to_owned), 7);
        assert_eq!(wish("30000000", None), Some(Duration::from_secs(30)));
        assert_eq!(wish("30000000", Some("7")), Some(Duration::from_secs(30)));
        assert_eq!([wish("30000000", Some("8")), wish("0", None), wish("soon", None)], [None; 3]);
    }
}

//! Environment variables: folders, and the notifications that a supervisor such as systemd expects. Only this module reads them, and once;
//! all else is configuration.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process;
use std::time::Duration;

/// Folders for persistent files, and settings passed by a supervisor.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Environment {
    /// Folder made by systemd for the service (`StateDirectory=`); the first, if several.
    pub(crate) state_directory: Option<PathBuf>,
    /// Folder for programs' state, chosen by the user (XDG Base Directory Specification).
    pub(crate) state_home: Option<PathBuf>,
    /// Folder for sockets of the user's programs (XDG Base Directory Specification).
    pub(crate) runtime_directory: Option<PathBuf>,
    /// The user's home folder.
    pub(crate) home: Option<PathBuf>,
    /// Names of the passed sockets, in order, separated by colons (`LISTEN_FDNAMES`).
    pub(crate) socket_names: Option<String>,
    /// Socket of a supervisor, for notifications of the service's status (`NOTIFY_SOCKET`).
    pub(crate) notify_socket: Option<OsString>,
    /// Maximum interval of keep-alives to the supervisor (`WATCHDOG_USEC`).
    pub(crate) watchdog: Option<Duration>,
    /// Whether the user has disabled colour (`NO_COLOR`, <https://no-color.org>).
    pub(crate) has_no_color: bool,
    /// Whether the terminal is limited to lines (`TERM=dumb`).
    pub(crate) is_dumb: bool,
}

impl Environment {
    /// Reads the environment of this process.
    pub(crate) fn read() -> Self {
        let first = |list: OsString| env::split_paths(&list).next();
        Self {
            state_directory: absolute(env::var_os("STATE_DIRECTORY").and_then(first)),
            state_home: absolute(env::var_os("XDG_STATE_HOME").map(Into::into)),
            runtime_directory: absolute(env::var_os("XDG_RUNTIME_DIR").map(Into::into)),
            home: absolute(env::var_os("HOME").map(Into::into)),
            socket_names: text("LISTEN_FDNAMES"),
            notify_socket: env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()),
            watchdog: watchdog(text("WATCHDOG_USEC"), text("WATCHDOG_PID"), process::id()),
            has_no_color: env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()),
            is_dumb: env::var_os("TERM").is_some_and(|term| term == "dumb"),
        }
    }

    /// Whether output on a terminal may be coloured.
    pub(crate) const fn allows_color(&self) -> bool {
        !self.has_no_color && !self.is_dumb
    }

    /// Folder for the state of the user's programs.
    pub(crate) fn user_state(&self) -> Option<PathBuf> {
        self.state_home.clone().or_else(|| Some(self.home.as_ref()?.join(".local").join("state")))
    }
}

fn text(name: &str) -> Option<String> {
    env::var_os(name)?.into_string().ok()
}

/// Interval for the watchdog. A value that is invalid, or for another process, is ignored.
fn watchdog(micros: Option<String>, pid: Option<String>, own: u32) -> Option<Duration> {
    let is_own = pid.is_none_or(|pid| pid.parse() == Ok(own));
    let micros = micros?.parse().ok().filter(|micros| *micros > 0 && is_own)?;
    Some(Duration::from_micros(micros))
}

/// The folder, if its path is absolute. The specification demands that others be ignored.
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

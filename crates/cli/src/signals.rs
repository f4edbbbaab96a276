//! Ctrl-C, Ctrl-\, SIGTERM and SIGHUP as something to wait for.

use crate::terminal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// Why a command that waits goes on.
#[derive(Debug)]
pub(crate) enum Wake {
    /// Ctrl-C, Ctrl-\ or SIGTERM.
    Signal,
    /// SIGHUP: the terminal is gone, or an operator has heard that it makes services read their configuration.
    HangUp,
    /// The command itself has something to tell.
    Done,
    /// Writing the output failed.
    Output(io::Error),
}

/// Whether the process was started with a signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// The signals that end a command, but for those that its process was started with ignored.
fn that_end() -> Vec<i32> {
    let of_terminals = [SIGHUP, SIGQUIT].into_iter().filter(|signal| !is_ignored(*signal));
    [SIGINT, SIGTERM].into_iter().chain(of_terminals).collect()
}

/// Waits for signals and for what the command's own threads tell.
///
/// The first Ctrl-C or SIGTERM asks to end; a second one ends the process at once, but of a service what it is doing to end.
pub(crate) struct Waiter {
    sender: Sender<Wake>,
    receiver: Receiver<Wake>,
}

impl Waiter {
    /// Takes over SIGINT and SIGTERM, and the others that a terminal sends to have a command end: SIGHUP when it is closed, and SIGQUIT.
    /// Where these are ignored (`nohup`), they stay so.
    pub(crate) fn install() -> io::Result<Self> {
        Self::take_over(&that_end(), 1)
    }

    /// As [`install`](Self::install), and a second signal waits for what the demo has to put away; a third one ends the process.
    pub(crate) fn install_for_demo() -> io::Result<Self> {
        Self::take_over(&that_end(), 2)
    }

    /// Takes over SIGHUP, too, and tells a second SIGINT or SIGTERM as well. A third one ends the process.
    pub(crate) fn install_for_service() -> io::Result<Self> {
        Self::take_over(&[SIGINT, SIGTERM, SIGHUP], 2)
    }

    fn take_over(signals: &[i32], told_max: u32) -> io::Result<Self> {
        let mut signals = Signals::new(signals)?;
        let (sender, receiver) = channel();
        let told = sender.clone();
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let mut asked = 0;
            for signal in signals.forever() {
                let wake = if signal == SIGHUP { Wake::HangUp } else { Wake::Signal };
                asked += u32::from(signal != SIGHUP);
                if asked > told_max {
                    terminal::restore();
                    low_level::exit(128 + signal);
                }
                // The receiver may be gone if the command is ending.
                let _ = told.send(wake);
            }
        })?;
        Ok(Self { sender, receiver })
    }

    /// For threads that have something to tell.
    pub(crate) fn sender(&self) -> Sender<Wake> {
        self.sender.clone()
    }

    /// Waits for the next wake, or `None` after `timeout`; `None` as timeout waits for ever.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> Option<Wake> {
        match timeout {
            None => self.receiver.recv().ok(),
            Some(timeout) => self.receiver.recv_timeout(timeout).ok(),
        }
    }
}

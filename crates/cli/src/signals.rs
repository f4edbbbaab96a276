//! Signals to wait for: Ctrl-C, Ctrl-\, SIGTERM and SIGHUP.

use crate::terminal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// Why a waiting command continues.
#[derive(Debug)]
pub(crate) enum Wake {
    /// Ctrl-C, Ctrl-\ or SIGTERM.
    Signal,
    /// SIGHUP: the terminal is gone, or a service is to read its configuration again.
    HangUp,
    /// The service asks for its end.
    Request,
    /// A thread of the command has something to report.
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

/// Signals that end a command, except those that its process ignored from the start.
pub(crate) fn that_end() -> Vec<i32> {
    let of_terminals = [SIGHUP, SIGQUIT].into_iter().filter(|signal| !is_ignored(*signal));
    [SIGINT, SIGTERM].into_iter().chain(of_terminals).collect()
}

/// Waits for signals and for messages of the command's own threads.
///
/// The first Ctrl-C or SIGTERM asks to end; a second one ends the process at once, but a service only its draining.
pub(crate) struct Waiter {
    sender: Sender<Wake>,
    receiver: Receiver<Wake>,
}

impl Waiter {
    /// Takes over SIGINT and SIGTERM, and the others by which a terminal ends a command: SIGHUP when it is closed, and SIGQUIT. Those that
    /// are ignored (`nohup`) stay so.
    pub(crate) fn install() -> io::Result<Self> {
        Self::take_over(&that_end(), 1)
    }

    /// Takes over signals as [`install`](Self::install) does. A second signal waits for the demo to clean up; a third one ends the process.
    pub(crate) fn install_for_demo() -> io::Result<Self> {
        Self::take_over(&that_end(), 2)
    }

    /// Takes over SIGINT, SIGTERM and SIGHUP. A second SIGINT or SIGTERM is reported as well; a third one ends the process.
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

    /// Sender for threads of the command.
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

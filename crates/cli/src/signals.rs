//! Ctrl-C and SIGTERM as something to wait for.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// Why a command that waits goes on.
#[derive(Debug)]
pub(crate) enum Wake {
    /// The first Ctrl-C or SIGTERM.
    Signal,
    /// The command itself has something to tell.
    Done,
    /// Writing the output failed.
    Output(io::Error),
}

/// Waits for signals and for what the command's own threads tell.
///
/// The first signal asks to end; a second one ends the process at once.
pub(crate) struct Waiter {
    sender: Sender<Wake>,
    receiver: Receiver<Wake>,
}

impl Waiter {
    /// Takes over SIGINT and SIGTERM.
    pub(crate) fn install() -> io::Result<Self> {
        let (mut signalled, signaller) = UnixStream::pair()?;
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The order matters: the flag that makes the second signal final is raised after the first looked at it.
            flag::register_conditional_shutdown(signal, 128 + signal, asked.clone())?;
            flag::register(signal, asked.clone())?;
            low_level::pipe::register(signal, signaller.try_clone()?)?;
        }
        let (sender, receiver) = channel();
        let told = sender.clone();
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let mut byte = [0];
            while matches!(signalled.read(&mut byte), Ok(1)) {
                if told.send(Wake::Signal).is_err() {
                    return;
                }
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

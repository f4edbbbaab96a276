//! A server's process: started, read, and ended by the end of its standard input.

use rustix::io::retry_on_intr;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, pidfd_open, waitid,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// How long a program may take to describe its components, to be configured, to be started, or to end.
pub(crate) const STEP_LIMIT: Duration = Duration::from_secs(30);

/// How long a process may live after its standard output has ended, or after it was killed.
pub(crate) const END_LIMIT: Duration = Duration::from_secs(5);

/// The most octets of a line that a process says; the rest is the next line.
const LINE_BYTES_MAX: u64 = 16 * 1024;

/// The most letters of the last line on its standard error that are stored.
const LAST_LINE_MAX: usize = 1_024;

/// How long after the end of a process its standard error is read, where another process has that as well.
pub(crate) const READ_LIMIT: Duration = Duration::from_secs(1);

/// What becomes of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// All instances are configured and connected.
    Configured,
    /// All instances are active.
    Started,
    /// The standard output has ended.
    Closed,
    /// The process has ended.
    Exited,
}

/// What a process prints of its state.
const STATES: [(&str, Said); 2] = [("configured", Said::Configured), ("started", Said::Started)];

/// A process of a program that does what [`run_program`](crate::run_program) does. It leads a process group, which ends with it: a signal to
/// the group of this process, as from a terminal, is none to the servers.
pub(crate) struct Process {
    child: Child,
    /// How it has ended; its number may be another process's from then on.
    status: Option<ExitStatus>,
    /// The standard input: the process ends when this is closed.
    input: Option<ChildStdin>,
    /// The last line on its standard error, where that is a pipe.
    last_line: Arc<Mutex<String>>,
}

impl Process {
    /// Starts a process of a server of this name. `tell` is called on other threads. Where the command has a pipe for the standard error,
    /// what comes from there is logged.
    pub(crate) fn start(
        mut command: Command,
        server: &str,
        tell: impl Fn(Said) + Clone + Send + 'static,
    ) -> Result<Self, String> {
        let program = PathBuf::from(command.get_program());
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", program.display());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let child = command.spawn().map_err(|error| failed(&error))?;
        let mut process = Self { child, status: None, input: None, last_line: Arc::default() };
        process.watch(server, tell).map_err(|error| {
            process.kill();
            let _ = process.child.wait();
            failed(&error)
        })?;
        Ok(process)
    }

    fn watch(&mut self, server: &str, tell: impl Fn(Said) + Clone + Send + 'static) -> std::io::Result<()> {
        self.input = self.child.stdin.take();
        let exit = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty())?;
        if let Some(output) = self.child.stdout.take() {
            let (tell, server) = (tell.clone(), server.to_owned());
            Builder::new().name("output".to_owned()).spawn(move || read_states(output, &server, tell))?;
        }
        let (ended, relayed) = channel::<()>();
        if let Some(errors) = self.child.stderr.take() {
            let (last_line, server) = (self.last_line.clone(), server.to_owned());
            Builder::new().name("errors".to_owned()).spawn(move || {
                relay(errors, &server, &last_line);
                drop(ended);
            })?;
        }
        Builder::new().name("exit".to_owned()).spawn(move || {
            // The status is left for the owner of the process; it is gone where that was quicker.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let _ = retry_on_intr(|| waitid(WaitId::PidFd(exit.as_fd()), options));
            let _ = relayed.recv_timeout(READ_LIMIT);
            tell(Said::Exited);
        })?;
        Ok(())
    }

    /// Has the instances started.
    pub(crate) fn begin(&mut self) -> std::io::Result<()> {
        self.input.as_mut().map_or(Ok(()), |input| writeln!(input, "start").and_then(|()| input.flush()))
    }

    /// Has the instances passivated and the process end.
    pub(crate) fn close(&mut self) {
        self.input = None;
    }

    /// Kills the process, and all of its group.
    pub(crate) fn kill(&mut self) {
        if self.status().is_none() {
            kill_group(&self.child);
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The last line that it has printed on its standard error, if that is known.
    pub(crate) fn last_line(&self) -> Option<String> {
        let line = self.last_line.lock().unwrap_or_else(PoisonError::into_inner);
        (!line.is_empty()).then(|| line.clone())
    }

    /// How the process has ended, if it has.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        self.status = self.status.or_else(|| end_of(&mut self.child));
        self.status
    }

    /// How the process ends, if it does so soon.
    pub(crate) fn status_in_time(&mut self) -> Option<ExitStatus> {
        in_time(|| self.status())
    }
}

/// How a process ends, if it does so soon.
pub(crate) fn status_in_time(child: &mut Child) -> Option<ExitStatus> {
    in_time(|| end_of(child))
}

fn in_time(mut status: impl FnMut() -> Option<ExitStatus>) -> Option<ExitStatus> {
    let limit = Instant::now() + END_LIMIT;
    loop {
        match status() {
            None if Instant::now() < limit => std::thread::park_timeout(Duration::from_millis(10)),
            outcome => return outcome,
        }
    }
}

/// Kills a process that was not waited for, and the group that it leads.
pub(crate) fn kill_group(child: &Child) {
    // It may have ended, or have left its group.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = kill_process(Pid::from_child(child), Signal::KILL);
}

/// How a process that leads a group, and was not waited for, has ended, if it has. What it has left behind ends then as well.
fn end_of(child: &mut Child) -> Option<ExitStatus> {
    // As long as its status is not taken, its number is not given again.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    if waitid(WaitId::Pid(Pid::from_child(child)), options).is_ok_and(|status| status.is_some()) {
        kill_group(child);
    }
    child.try_wait().ok().flatten()
}

/// Gives on what a process says of its state, each once, and logs all else.
fn read_states(output: impl Read, server: &str, tell: impl Fn(Said)) {
    let mut output = BufReader::new(output);
    let mut missing = STATES.to_vec();
    let mut line = Vec::new();
    while (&mut output).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let text = clean(&line);
        if let Some(place) = missing.iter().position(|(state, _)| *state == text) {
            tell(missing.remove(place).1);
        } else {
            log::info!("{server}: {text}");
        }
        line.clear();
    }
    tell(Said::Closed);
}

/// A line without its end, and with escapes for what a terminal would obey.
fn clean(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let letters = text.trim_end_matches(['\n', '\r']).chars();
    let mut clean = String::new();
    for letter in letters {
        if letter.is_control() && letter != '\t' { clean.extend(letter.escape_default()) } else { clean.push(letter) }
    }
    clean
}

/// Logs what comes, and stores the last line. The log waits for no reader, so that the process does not either.
pub(crate) fn relay(errors: impl Read, server: &str, last_line: &Mutex<String>) {
    let mut errors = BufReader::new(errors);
    let mut line = Vec::new();
    while (&mut errors).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let text = clean(&line);
        log::info!("{server}: {text}");
        if !text.trim().is_empty() {
            *last_line.lock().unwrap_or_else(PoisonError::into_inner) =
                text.trim().chars().take(LAST_LINE_MAX).collect();
        }
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::{LAST_LINE_MAX, Said, read_states, relay};
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    #[test]
    fn the_last_line_of_errors_is_stored_with_escapes_for_what_a_terminal_would_obey() {
        let last = |errors: &[u8]| {
            let line = Mutex::default();
            relay(errors, "a", &line);
            line.into_inner().unwrap()
        };
        assert_eq!(last(b"one\n\x1b[31mno light\x07\r\n \n"), "\\u{1b}[31mno light\\u{7}");
        assert_eq!(last(b""), "");
        assert_eq!(last(&[b'x'; 3 * LAST_LINE_MAX]).len(), LAST_LINE_MAX);
    }

    #[test]
    fn states_are_read_beside_lines_that_are_no_text() {
        let (sender, said) = channel();
        let output = [b"\xff\xfe\nconfigured\r\nconfigured\n".as_slice(), &[b'x'; 40_000], b"\nstarted\n"].concat();
        read_states(&*output, "control", |said| sender.send(said).unwrap());
        let said: Vec<_> = said.try_iter().collect();
        assert_eq!(said, [Said::Configured, Said::Started, Said::Closed]);
    }
}

//! The programs of omniORB and JacORB in `interop/`, as suppliers and consumers that know nothing of restarts.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use load::leash;
use rustix::process::{Pid, Signal, kill_process};

use super::ledger::{Book, Numbered};
use crate::BenchError;

/// Events that a supplier is ordered to push at a time, and at how many a second.
const AT_ONCE: u32 = 50;
const RATE: u32 = 500;

/// What is said of a supplier that [`PeerSupplier::end`] had to end.
const NOT_BACK: &str =
    "had no answer long after the service was back, and was ended: look whether one lies unread in its socket";

/// How JacORB's supplier is set up, as docs/migration/jacorb.md has it: without that, one push in some hundred restarts never ends.
const JACORB_RECONNECTS: &str = "--orb jacorb.connection.client.disconnect_after_systemexception=off";

/// A program of one of the ORBs.
pub(super) struct Peer {
    name: &'static str,
    child: Child,
    input: Option<ChildStdin>,
}

type Said = Lines<BufReader<ChildStdout>>;

pub(super) fn program(interop: &Path, orb: &str) -> Option<PathBuf> {
    Some(interop.join(orb).join("peer")).filter(|program| program.is_file())
}

impl Peer {
    /// Starts a program, to be ended when this one is, and reads until it says that it is ready.
    fn start(name: &'static str, program: &Path, words: &str) -> Result<(Self, Said), BenchError> {
        let doing = "starting a program of another ORB";
        let leashed: Vec<OsString> = leash::words(Some(program.as_os_str()), None, None)?;
        let (this, arguments) =
            leashed.split_first().ok_or(BenchError::Process { name: name.into(), reason: "is nameless".into() })?;
        let mut child = Command::new(this)
            .args(arguments)
            .args(words.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(BenchError::io(doing))?;
        let input = child.stdin.take();
        let stdout = child.stdout.take();
        let peer = Self { name, child, input };
        let mut said = BufReader::new(stdout.ok_or_else(|| peer.failed("has no output"))?).lines();
        loop {
            match said.next() {
                Some(Ok(line)) if line == "ready" => return Ok((peer, said)),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(peer.failed("ended before it was ready")),
            }
        }
    }

    fn failed(&self, reason: &str) -> BenchError {
        BenchError::Process { name: self.name.to_owned(), reason: reason.to_owned() }
    }

    fn signal(&self, signal: Signal) -> Result<(), BenchError> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        pid.and_then(|pid| kill_process(pid, signal).ok()).ok_or_else(|| self.failed("cannot be told anything"))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // One that is stopped hears nothing else.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A consumer: what it prints is entered by a thread.
pub(super) struct PeerConsumer {
    peer: Peer,
    reader: Option<JoinHandle<()>>,
}

impl PeerConsumer {
    pub(super) fn start(
        name: &'static str,
        program: &Path,
        (service, channel): (&str, i32),
        book: &Arc<Mutex<Book>>,
    ) -> Result<Self, BenchError> {
        let words =
            format!("consumer --factory {service} --channel {channel} --form structured --scenario small --tell");
        let (peer, said) = Peer::start(name, program, &words)?;
        let book = Arc::clone(book);
        let reader = thread::spawn(move || {
            for line in said.map_while(Result::ok) {
                if let Some((event, is_marked)) = read(&line) {
                    book.lock().unwrap_or_else(PoisonError::into_inner).enter(event, is_marked);
                }
            }
        });
        Ok(Self { peer, reader: Some(reader) })
    }

    /// Stops it where it stands, or lets it go on.
    pub(super) fn stop(&self, is_stopped: bool) -> Result<(), BenchError> {
        self.peer.signal(if is_stopped { Signal::STOP } else { Signal::CONT })
    }
}

impl Drop for PeerConsumer {
    fn drop(&mut self) {
        let _ = self.peer.child.kill();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// What a consumer's line says: `got SOURCE NUMBER new|marked`.
fn read(line: &str) -> Option<(Numbered, bool)> {
    let mut words = line.strip_prefix("got ")?.split(' ');
    let event = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some((event, words.next()? == "marked"))
}

/// A supplier; it is ordered how many events to push.
pub(super) struct PeerSupplier {
    peer: Peer,
    said: Said,
    source: u32,
    next: u32,
}

impl PeerSupplier {
    pub(super) fn start(
        name: &'static str,
        program: &Path,
        (service, channel): (&str, i32),
        source: u32,
    ) -> Result<Self, BenchError> {
        let set_up = if name == "JacORB" { JACORB_RECONNECTS } else { "" };
        let words = format!(
            "supplier --factory {service} --channel {channel} --form structured --scenario small --source {source} \
             --keep-going --step --rate {RATE} {set_up}"
        );
        let (peer, said) = Peer::start(name, program, &words)?;
        Ok(Self { peer, said, source, next: 0 })
    }

    /// Ends its program, from another thread than the one in which it supplies.
    pub(super) fn end(&self) -> impl Fn() + use<> {
        let pid = i32::try_from(self.peer.child.id()).ok().and_then(Pid::from_raw);
        move || {
            let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
        }
    }

    /// Pushes until the service is to be killed, and enters what was acknowledged.
    pub(super) fn supply(
        &mut self,
        over: &AtomicBool,
        mut acknowledge: impl FnMut(Numbered),
    ) -> Result<(), BenchError> {
        while !over.load(Ordering::Relaxed) {
            let numbers = self.next..self.next + AT_ONCE;
            self.next = numbers.end;
            let input = self.peer.input.as_mut();
            let told =
                input.is_some_and(|input| writeln!(input, "push {AT_ONCE}").and_then(|()| input.flush()).is_ok());
            if !told {
                return Err(self.peer.failed("ended before its turn was over"));
            }
            let mut refused: Vec<u32> = Vec::new();
            loop {
                let Some(Ok(line)) = self.said.next() else {
                    let is_over = over.load(Ordering::Relaxed);
                    return Err(self.peer.failed(if is_over { NOT_BACK } else { "ended before its turn was over" }));
                };
                if line.starts_with("pushed ") {
                    break;
                }
                let number: Option<u32> =
                    line.strip_prefix("failed ").and_then(|rest| rest.split(' ').next()?.parse().ok());
                refused.extend(number);
            }
            let source = self.source;
            numbers.filter(|number: &u32| !refused.contains(number)).for_each(|number| acknowledge((source, number)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_consumers_say() {
        assert_eq!(read("got 7 12 new"), Some(((7, 12), false)));
        assert_eq!(read("got 7 12 marked"), Some(((7, 12), true)));
        assert_eq!(["got 7", "ok 3", ""].map(read), [None; 3]);
    }
}

//! Contenders as processes of their own: started, identified by their ready line, ended.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, waitid};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{BenchError, Output, clock, leash, system};

/// Time limit for a process to report that it is ready.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// Time limit for a process to end on request.
const END_WITHIN: Duration = Duration::from_secs(10);

/// Lines stored of a process's output, to explain an early end.
const LOG_LINES_MAX: usize = 64;

/// Stored lines shown in an error message.
const SHOWN_LINES: usize = 12;

/// Characters stored of a line; some answers are megabytes.
const LOG_CHARACTERS_MAX: usize = 500;

/// A running contender. Dropping it ends the process and waits for its end.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    child: Child,
    last_lines: Arc<Mutex<VecDeque<String>>>,
    /// Threads that read its output, and end with it.
    followers: Vec<JoinHandle<()>>,
}

impl Process {
    /// Starts this program again with `arguments`, leashed to the calling thread, and waits for its ready line: the one for which `ready`
    /// returns something, which is the result.
    ///
    /// The process gets a group of its own, so that Ctrl-C reaches the benchmark alone, which then ends it in order.
    pub fn start<R>(
        name: &'static str,
        arguments: &[OsString],
        ready: impl Fn(&str) -> Option<R>,
    ) -> Result<(Self, R), BenchError> {
        Self::start_confined(name, None, (None, None), arguments, ready)
    }

    /// Starts a process as [`Process::start`] does, of another program if one is named, on this core only and at this `SCHED_FIFO` priority
    /// if given.
    pub fn start_confined<R>(
        name: &'static str,
        program: Option<&OsStr>,
        (core, fifo): (Option<usize>, Option<u8>),
        arguments: &[OsString],
        ready: impl Fn(&str) -> Option<R>,
    ) -> Result<(Self, R), BenchError> {
        let words = [leash::words(program, core, fifo)?, arguments.to_vec()].concat();
        Self::spawn(name, command(words), ready)
    }

    /// Starts any command; see [`Process::start`].
    pub fn spawn<R>(
        name: &'static str,
        mut command: Command,
        ready: impl Fn(&str) -> Option<R>,
    ) -> Result<(Self, R), BenchError> {
        command.stdin(Stdio::null());
        let (process, said) = Self::begin(name, command)?;
        let answer = process.wait_for(&said, ready)?;
        Ok((process, answer))
    }

    /// Starts a command and follows its output.
    fn begin(name: &'static str, mut command: Command) -> Result<(Self, mpsc::Receiver<String>), BenchError> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(BenchError::io("starting a contender"))?;
        let last_lines = Arc::new(Mutex::new(VecDeque::new()));
        let (lines, said) = mpsc::channel();
        let mut followers = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            followers.push(follow(stdout, Arc::clone(&last_lines), lines.clone()));
        }
        if let Some(stderr) = child.stderr.take() {
            followers.push(follow(stderr, Arc::clone(&last_lines), lines));
        }
        Ok((Self { name, child, last_lines, followers }, said))
    }

    /// Waits for a line for which `ready` returns something.
    fn wait_for<R>(&self, said: &mpsc::Receiver<String>, ready: impl Fn(&str) -> Option<R>) -> Result<R, BenchError> {
        let until = clock::now().saturating_add(u64::try_from(READY_WITHIN.as_nanos()).unwrap_or(u64::MAX));
        loop {
            let left = Duration::from_nanos(until.saturating_sub(clock::now()));
            match said.recv_timeout(left) {
                Ok(line) => {
                    if let Some(answer) = ready(&line) {
                        return Ok(answer);
                    }
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    return Err(self.failed("did not say within 30 s what it was waited for"));
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(self.failed("ended before it was ready"));
                }
            }
        }
    }

    /// The process's id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Nanoseconds of processor time used.
    pub fn cpu(&self) -> Result<u64, BenchError> {
        self.check_alive()?;
        system::process_cpu(self.pid()).map_err(|_| self.failed("ended before its turn was over"))
    }

    /// Returns an error for a process that has ended: the kernel still reports its figures, which stand still.
    fn check_alive(&self) -> Result<(), BenchError> {
        let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) else { return Ok(()) };
        // It is left to be waited for: how it ended is asked again when this is dropped.
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(pid), ended) {
            Ok(None) => Ok(()),
            Ok(Some(_)) | Err(_) => Err(self.failed("ended before its turn was over")),
        }
    }

    /// Octets of resident memory.
    pub fn resident_bytes(&self) -> Result<u64, BenchError> {
        self.check_alive()?;
        system::resident_bytes(self.pid()).map_err(|_| self.failed("ended before its turn was over"))
    }

    /// Number of threads.
    pub fn threads(&self) -> Result<u64, BenchError> {
        self.check_alive()?;
        system::threads(self.pid()).map_err(|_| self.failed("ended before its turn was over"))
    }

    /// An error with the state of the process and the last lines of its output.
    pub fn failed(&self, what: &str) -> BenchError {
        let lines = self.last_lines.lock().unwrap_or_else(PoisonError::into_inner);
        // Answers to orders are no explanation, and may be long.
        let said: Vec<&String> = lines.iter().filter(|line| !line.starts_with(ANSWER)).collect();
        let mut reason = what.to_owned();
        if said.is_empty() {
            reason.push_str("; it did not say why");
        } else {
            reason.push_str("; the last it said was:");
            for line in said.iter().skip(said.len().saturating_sub(SHOWN_LINES)) {
                reason.push_str("\n  ");
                reason.push_str(line);
            }
        }
        BenchError::Process { name: self.name.to_owned(), reason }
    }

    /// Ends the process by a signal; returns the last lines of its output.
    pub fn end_with(mut self, signal: Signal) -> Vec<String> {
        self.end(signal);
        for follower in self.followers.drain(..) {
            // It only copies lines, and ends when the process has closed its end.
            let _ = follower.join();
        }
        self.last_lines.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Asks the process to end, and kills it after a time limit.
    fn end(&mut self, signal: Signal) {
        // Once it has been waited for, its number may be another process's.
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid
            && let Ok(handle) = pidfd_open(pid, PidfdFlags::empty())
            && kill_process(pid, signal).is_ok()
        {
            let mut ended = [PollFd::new(&handle, PollFlags::IN)];
            let within = u64::try_from(END_WITHIN.as_nanos()).unwrap_or(u64::MAX);
            if matches!(poll(&mut ended, Some(&clock::to_timespec(within))), Ok(0) | Err(_)) {
                // Too late to be told: this runs while the benchmark is over or has failed already.
                let _ = self.child.kill();
            }
        } else {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end(Signal::TERM);
    }
}

/// A contender controlled by lines on its input.
#[derive(Debug)]
pub struct Dialogue {
    process: Process,
    /// The input, closed first on drop, so that a program that ends with its input does so by itself.
    input: Option<ChildStdin>,
    said: mpsc::Receiver<String>,
}

impl Dialogue {
    /// Starts a command and waits for its ready line: the one for which `ready` returns something, which is the result.
    pub fn spawn<R>(
        name: &'static str,
        mut command: Command,
        ready: impl Fn(&str) -> Option<R>,
    ) -> Result<(Self, R), BenchError> {
        command.stdin(Stdio::piped());
        let (mut process, said) = Process::begin(name, command)?;
        let input = process.child.stdin.take();
        let answer = process.wait_for(&said, ready)?;
        Ok((Self { process, input, said }, answer))
    }

    /// The process's id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Ends the process by a signal; returns the last lines of its output.
    pub fn end_with(self, signal: Signal) -> Vec<String> {
        self.process.end_with(signal)
    }

    /// Closes its input.
    pub fn close_input(&mut self) {
        drop(self.input.take());
    }

    /// Waits for its own end, as after the end of its input; it must succeed.
    pub fn end(mut self) -> Result<(), BenchError> {
        self.close_input();
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput.into());
        // It is left to be waited for by who drops it.
        let ended = pid.and_then(|pid| Ok(waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?));
        let ended = ended.map_err(BenchError::io("waiting for the end of a process"))?;
        if ended.is_some_and(|ended| ended.exit_status() == Some(0)) {
            return Ok(());
        }
        for follower in self.process.followers.drain(..) {
            let _ = follower.join();
        }
        Err(self.process.failed("has failed"))
    }

    /// Waits for one more line for which `ready` returns something.
    pub fn wait_for<R>(&self, ready: impl Fn(&str) -> Option<R>) -> Result<R, BenchError> {
        self.process.wait_for(&self.said, ready)
    }

    /// Writes a line to its input.
    pub fn say(&mut self, line: &str) -> Result<(), BenchError> {
        let Some(input) = &mut self.input else {
            return Err(self.process.failed("takes no input"));
        };
        match writeln!(input, "{line}").and_then(|()| input.flush()) {
            Ok(()) => Ok(()),
            Err(_) => Err(self.process.failed("ended before its turn was over")),
        }
    }
}

/// Prefix of an answer's line in the output of our own processes; other lines are for people.
const ANSWER: &str = "answer: ";

/// A process of this program that takes orders and answers them in lines of JSON. Dropping it ends it.
#[derive(Debug)]
pub struct Subordinate {
    name: &'static str,
    dialogue: Dialogue,
}

impl Subordinate {
    /// Starts a hidden sub-command of this program, on this core only and at this `SCHED_FIFO` priority if given.
    pub fn start(
        name: &'static str,
        sub_command: &'static str,
        core: Option<usize>,
        fifo: Option<u8>,
    ) -> Result<Self, BenchError> {
        let mut words = leash::words(None, core, fifo)?;
        words.push(OsString::from(sub_command));
        Self::begin(name, command(words))
    }

    /// Starts another program that understands the same orders, or, if none is named, that sub-command of this one, confined to this core;
    /// another program confines itself.
    pub fn start_program(
        name: &'static str,
        sub_command: &'static str,
        program: Option<Vec<OsString>>,
        core: Option<usize>,
    ) -> Result<Self, BenchError> {
        match program {
            None => Self::start(name, sub_command, core, None),
            Some(words) => Self::begin(name, command(words)),
        }
    }

    fn begin(name: &'static str, process: Command) -> Result<Self, BenchError> {
        let (dialogue, ()) = Dialogue::spawn(name, process, |line| (line == format!("{ANSWER}started")).then_some(()))?;
        Ok(Self { name, dialogue })
    }

    /// Sends an order; its answer is [waited for](Self::answer) separately.
    pub fn order(&mut self, order: &impl Serialize) -> Result<(), BenchError> {
        let line = serde_json::to_string(order).map_err(json("giving a process its order"))?;
        self.dialogue.say(&line)
    }

    /// Waits for the answer to the last order.
    pub fn answer<A: DeserializeOwned>(&self) -> Result<A, BenchError> {
        let answer = self.dialogue.wait_for(|line| Some(serde_json::from_str(line.strip_prefix(ANSWER)?)))?;
        answer.map_err(json("reading the answer of a process"))
    }

    /// Sends an order and waits for the answer.
    pub fn ask<A: DeserializeOwned>(&mut self, order: &impl Serialize) -> Result<A, BenchError> {
        self.order(order)?;
        self.answer()
    }

    /// The process's id.
    pub fn pid(&self) -> u32 {
        self.dialogue.pid()
    }

    /// Kills the process.
    pub fn kill(&mut self) {
        self.dialogue.process.end(Signal::KILL);
    }

    /// The error of an answer that does not match the order.
    pub fn confused(&self, answer: &impl std::fmt::Debug) -> BenchError {
        let answer: String = format!("{answer:?}").chars().take(200).collect();
        BenchError::Process { name: self.name.to_owned(), reason: format!("answered what was not asked: {answer}") }
    }
}

/// Carries out orders, as such a process, until its input ends; each is answered.
pub fn take_orders<O: DeserializeOwned, A: Serialize>(
    out: &mut Output<'_>,
    mut carry_out: impl FnMut(O) -> Result<A, BenchError>,
) -> Result<(), BenchError> {
    clock::wake_on_time();
    say_started(out)?;
    for line in io::stdin().lock().lines() {
        let line = line.map_err(BenchError::io("reading an order"))?;
        let order = serde_json::from_str(&line).map_err(json("reading an order"))?;
        say_answer(out, &carry_out(order)?)?;
    }
    Ok(())
}

/// Reports, as such a process, that it has started.
pub fn say_started(out: &mut Output<'_>) -> Result<(), BenchError> {
    writeln!(out, "{ANSWER}started")?;
    Ok(out.flush()?)
}

/// Sends an answer, as such a process.
pub fn say_answer(out: &mut Output<'_>, answer: &impl Serialize) -> Result<(), BenchError> {
    let answer = serde_json::to_string(answer).map_err(json("answering an order"))?;
    writeln!(out, "{ANSWER}{answer}")?;
    Ok(out.flush()?)
}

/// Wraps an error of JSON with the action that failed.
pub fn json(doing: &'static str) -> impl FnOnce(serde_json::Error) -> BenchError {
    move |error| BenchError::Io { doing, source: error.into() }
}

/// Reads a process's output on a thread of its own, so that it never blocks on a reader; stores the last lines.
fn follow(
    stream: impl Read + Send + 'static,
    last_lines: Arc<Mutex<VecDeque<String>>>,
    lines: mpsc::Sender<String>,
) -> JoinHandle<()> {
    thread::spawn(move || {
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { break };
            let mut kept = last_lines.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() == LOG_LINES_MAX {
                kept.pop_front();
            }
            kept.push_back(line.chars().take(LOG_CHARACTERS_MAX).collect());
            drop(kept);
            // Nobody listens once the process is ready.
            let _ = lines.send(line);
        }
    })
}

/// A command from its words, the program first.
fn command(words: Vec<OsString>) -> Command {
    let mut words = words.into_iter();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    command
}

/// Command-line arguments from texts.
pub fn arguments<const N: usize>(texts: [&str; N]) -> Vec<OsString> {
    texts.into_iter().map(OsStr::new).map(OsStr::to_owned).collect()
}

/// Finds the address in the ready line of `campanile serve`: `campanile: ready at ADDRESS, found by …`.
///
/// Other lines do not count: the error of a port in use contains the address, too.
pub fn ready_address(line: &str) -> Option<SocketAddr> {
    let (address, _) = line.strip_prefix("campanile: ready at ")?.split_once(',')?;
    address.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn waits_for_the_ready_line_wherever_it_is_printed() {
        for stream in ["1", "2"] {
            let script = format!(
                "echo starting; echo 'campanile: ready at 127.0.0.1:4711, found by x' >&{stream}; exec cat /dev/zero"
            );
            let (process, address) = Process::spawn("sh", shell(&script), ready_address).unwrap();
            assert_eq!(address, "127.0.0.1:4711".parse().unwrap());
            assert!(process.resident_bytes().unwrap() > 0);
        }
    }

    #[test]
    fn tells_what_a_process_said_that_ended_too_early() {
        let error = Process::spawn("sh", shell("echo no such port >&2"), ready_address).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the process sh ended before it was ready; the last it said was:\n  no such port"
        );
    }

    #[test]
    fn answers_to_orders_are_not_reported_as_a_reason() {
        let fail = |script| Process::spawn("sh", shell(script), ready_address).unwrap_err().to_string();
        let silent = "the process sh ended before it was ready; it did not say why";
        assert_eq!(fail("exit 1"), silent);
        assert_eq!(fail("echo 'answer: started'"), silent);
        assert_eq!(
            fail("echo 'answer: started'; echo no such port"),
            "the process sh ended before it was ready; the last it said was:\n  no such port"
        );
    }

    #[test]
    fn gives_what_a_process_says_at_its_end() {
        // Not INT, which whoever starts the tests in the background has them ignore.
        let script = "trap 'kill $!; echo bye; exit' TERM; tail -f /dev/null >/dev/null 2>&1 & echo ready; wait";
        let mut command = Command::new("bash");
        command.args(["-c", script]);
        let (process, ()) = Process::spawn("bash", command, |line| (line == "ready").then_some(())).unwrap();
        assert_eq!(process.end_with(Signal::TERM), ["ready", "bye"]);
    }

    #[test]
    fn talks_with_a_process_line_by_line() {
        let (mut cat, ()) =
            Dialogue::spawn("sh", shell("echo ready; exec cat"), |line| (line == "ready").then_some(())).unwrap();
        for line in ["one", "two"] {
            cat.say(line).unwrap();
            assert_eq!(cat.wait_for(|line| Some(line.to_owned())).unwrap(), line);
        }
    }

    #[test]
    fn finds_the_address_in_the_ready_line_only() {
        let line = "campanile: ready at 127.0.0.1:39201, found by corbaloc::1.2@127.0.0.1:39201/NotificationService";
        assert_eq!(ready_address(line), Some("127.0.0.1:39201".parse().unwrap()));
        assert_eq!(ready_address("campanile: 127.0.0.1:2809 is in use: another service listens there"), None);
    }

    #[test]
    fn notices_that_a_process_has_ended() {
        let script = "echo 'campanile: ready at 127.0.0.1:1, found by x'";
        let (process, _) = Process::spawn("sh", shell(script), ready_address).unwrap();
        let pid = Pid::from_raw(i32::try_from(process.pid()).unwrap()).unwrap();
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        assert!(process.cpu().is_err());
        assert!(process.resident_bytes().is_err());
    }
}

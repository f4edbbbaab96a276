//! Running the `campanile` binary in tests.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};

pub(crate) use testing::TempPath;
use testing::{Killed, Leash, output_in_time, own_loopback};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_campanile");

/// A running `campanile serve` on a free port of loopback, killed when dropped.
pub(crate) struct Serve {
    child: Killed,
    stdout: BufReader<ChildStdout>,
    /// `127.0.0.1:PORT`
    pub(crate) address: String,
    /// The same of its protocol for Tempo, if it has one; with TLS, if it has no other.
    pub(crate) tempo: String,
    /// The same of its protocol for lines of JSON.
    pub(crate) json: String,
}

impl Serve {
    pub(crate) fn start() -> Self {
        Self::start_with(&["--listen", "127.0.0.1:0", "--log", "error"])
    }

    /// Waits until it says that it is ready.
    pub(crate) fn start_with(options: &[&str]) -> Self {
        Self::spawn(&mut serve(options))
    }

    /// As [`start_with`](Self::start_with), for a command that has more to it than options.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self::of(command.stdout(Stdio::piped()).spawn().unwrap())
    }

    /// The same, and what it says on standard error.
    pub(crate) fn start_heard(options: &[&str]) -> (Self, BufReader<ChildStderr>) {
        let mut child = serve(options).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        (Self::of(child), stderr)
    }

    fn of(child: Child) -> Self {
        let mut serve = Self::begun(child);
        serve.wait_until_ready();
        serve
    }

    fn begun(mut child: Child) -> Self {
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child: Killed(child), stdout, address: String::new(), tempo: String::new(), json: String::new() }
    }

    /// One that says something else before it is ready, and what that is.
    pub(crate) fn spawn_waiting(command: &mut Command) -> (Self, String) {
        let mut serve = Self::begun(command.stdout(Stdio::piped()).spawn().unwrap());
        let line = serve.line();
        (serve, line)
    }

    pub(crate) fn wait_until_ready(&mut self) {
        // It may say before that it has no real-time threads.
        let mut line = self.line();
        while line.starts_with("campanile: lanes.scheduling") {
            line = self.line();
        }
        let place = |of: &str| {
            let rest = line.split_once(of).map_or("", |(_, rest)| rest);
            rest.split([';', ' ', '\n']).next().unwrap_or_default().to_owned()
        };
        (self.tempo, self.json) = (place(" Tempo at "), place(" lines of JSON at "));
        self.address = line
            .strip_prefix("campanile: ready at ")
            .and_then(|rest| rest.split_once(','))
            .map(|(address, _)| address.to_owned())
            .unwrap_or_else(|| panic!("not a ready line: {line:?}"));
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let _leash = Leash::new(&self.child, "a service to be ready");
        self.stdout.read_line(&mut line).unwrap();
        line
    }

    /// Asks it to stop, and gives what it printed after the ready line and its exit code.
    pub(crate) fn stop(mut self, signal: &str) -> (String, Option<i32>) {
        send_signal(&self.child, signal);
        let _leash = Leash::new(&self.child, "a service to stop");
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        let status = self.child.wait().unwrap();
        (rest, status.code())
    }

    pub(crate) fn signal(&self, signal: &str) {
        send_signal(&self.child, signal);
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// A finished `campanile` command towards this service.
    pub(crate) fn run(&self, command: &str, options: &[&str]) -> Output {
        output_in_time(&mut self.command(command, options))
    }

    /// As [`run`](Self::run), for a command that has to succeed; gives what it printed.
    pub(crate) fn print(&self, command: &str, options: &[&str]) -> String {
        let output = self.run(command, options);
        assert!(output.status.success(), "{command} {options:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    pub(crate) fn command(&self, command: &str, options: &[&str]) -> Command {
        let mut built = Command::new(PROGRAM);
        built.args([command, "--server", &self.address]).args(options).stdin(Stdio::null());
        built
    }

    /// A `campanile sub` that has subscribed.
    pub(crate) fn subscribe(&self, options: &[&str]) -> Sub {
        self.begin("sub", options, "campanile: subscribed")
    }

    /// A `campanile record` that has subscribed: its connection outlives the service.
    pub(crate) fn record(&self, options: &[&str]) -> Sub {
        self.begin("record", options, "campanile: recording")
    }

    fn begin(&self, command: &str, options: &[&str], says: &str) -> Sub {
        let mut command = self.command(command, options);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        let leash = Leash::new(&child, format_args!("{options:?} to subscribe"));
        stderr.read_line(&mut line).unwrap();
        drop(leash);
        assert!(line.starts_with(says), "{line}");
        let stdout = child.stdout.take();
        Sub { child: Killed(child), stdout, stderr }
    }
}

/// Starts a service. True if it is ready, and then it is killed; otherwise how it ended by itself.
pub(crate) fn start_or_refusal(command: &mut Command) -> (Output, bool) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let leash = Leash::new(&child, "a service to be ready, or to end");
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let is_ready = line.starts_with("campanile: ready at ");
    if is_ready {
        let _ = child.kill();
    }
    let output = child.wait_with_output().unwrap();
    drop(leash);
    (output, is_ready)
}

/// `campanile serve`, which leaves nothing in a home directory.
pub(crate) fn serve(options: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("serve").args(options);
    if !options.contains(&"--data") {
        command.args(["--data", "none"]);
    }
    command
}

/// A running `campanile sub` or `record`, killed when dropped: it tries for ever to find a service that is gone.
pub(crate) struct Sub {
    child: Killed,
    stdout: Option<ChildStdout>,
    stderr: BufReader<ChildStderr>,
}

/// What a `campanile sub` printed, and how it ended.
pub(crate) struct Ended {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: Option<i32>,
}

impl Sub {
    /// Waits until it ends by itself.
    pub(crate) fn wait(mut self) -> Ended {
        let _leash = Leash::new(&self.child, "a subscriber to end");
        let mut stdout = String::new();
        if let Some(mut pipe) = self.stdout.take() {
            pipe.read_to_string(&mut stdout).unwrap();
        }
        let mut stderr = String::new();
        self.stderr.read_to_string(&mut stderr).unwrap();
        Ended { stdout, stderr, code: self.child.wait().unwrap().code() }
    }

    /// Asks it to stop.
    pub(crate) fn signal(&self, signal: &str) {
        send_signal(&self.child, signal);
    }

    /// Closes the reading end of its output.
    pub(crate) fn close_output(&mut self) {
        self.stdout = None;
    }

    /// Reads one line of its output.
    pub(crate) fn line(&mut self) -> String {
        let _leash = Leash::new(&self.child, "a subscriber to print a line");
        let mut line = Vec::new();
        let mut byte = [0];
        let pipe = self.stdout.as_mut().unwrap();
        while pipe.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        text(&line)
    }
}

pub(crate) fn send_signal(child: &Child, signal: &str) {
    let status = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// An address without a listener, and of no other test.
pub(crate) fn nobodys_address() -> String {
    format!("{}:2809", own_loopback())
}

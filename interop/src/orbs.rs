//! What the tests drive: programs of the two orbs, and the service they talk to.

use std::fmt::{self, Write as _};
use std::io::{BufRead, BufReader, Lines, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process};
use service::{Config, Counter, Limits, Service};
use testing::Leash;

/// Whose program it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Orb {
    /// C++; little-endian on x86.
    OmniOrb,
    /// Java; always big-endian.
    JacOrb,
}

impl Orb {
    /// Both.
    pub const ALL: [Self; 2] = [Self::OmniOrb, Self::JacOrb];

    /// Every ordered pair: supplier, consumer.
    pub const PAIRINGS: [(Self, Self); 4] = [
        (Self::OmniOrb, Self::OmniOrb),
        (Self::OmniOrb, Self::JacOrb),
        (Self::JacOrb, Self::OmniOrb),
        (Self::JacOrb, Self::JacOrb),
    ];

    fn program(self) -> PathBuf {
        let folder = match self {
            Self::OmniOrb => "omniorb",
            Self::JacOrb => "jacorb",
        };
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/interop").join(folder).join("peer")
    }
}

/// A running program of one of the orbs. Dropping it kills it.
pub struct Peer {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    /// What it prints to standard error, gathered so that a failing test can show it.
    errors: Option<JoinHandle<String>>,
    /// Every line it has printed so far.
    seen: Vec<String>,
}

/// How a program ended, and all that it printed.
pub struct Ended {
    name: String,
    status: ExitStatus,
    /// All that it printed.
    pub lines: Vec<String>,
    errors: String,
}

impl Peer {
    /// Starts a program with the words of its command line, split at spaces.
    pub fn start(orb: Orb, words: &str) -> Self {
        let program = orb.program();
        assert!(program.exists(), "{} is not built; run `make test` (or interop/install.sh)", program.display());
        let mut child = Command::new(&program)
            .args(words.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("standard output is piped")).lines();
        let errors = child.stderr.take().map(|stderr| std::thread::spawn(move || gather(stderr)));
        Self { name: format!("{orb:?} {words}"), child, input, output, errors, seen: Vec::new() }
    }

    /// Waits for a line that begins with `beginning` and gives what follows it.
    pub fn wait_for(&mut self, beginning: &str) -> String {
        let _leash = Leash::new(
            &self.child,
            format_args!("{:?} of {}, which said\n{}", beginning, self.name, self.seen.join("\n")),
        );
        for line in self.output.by_ref() {
            let line = line.expect("the programs print text");
            self.seen.push(line.clone());
            if let Some(rest) = line.strip_prefix(beginning) {
                return rest.trim().to_owned();
            }
        }
        let errors = self.errors.take().map(|reader| reader.join().unwrap_or_default()).unwrap_or_default();
        panic!("{} ended without saying {beginning:?}\n{}\n{errors}", self.name, self.seen.join("\n"));
    }

    /// Waits until it is connected.
    pub fn ready(mut self) -> Self {
        self.wait_for("ready");
        self
    }

    /// Sends it a line.
    pub fn tell(&mut self, line: &str) {
        let input = self.input.as_mut().expect("its input is open");
        writeln!(input, "{line}").unwrap_or_else(|error| panic!("{}: {error}", self.name));
    }

    /// Lines printed so far that begin with `beginning`.
    pub fn count(&self, beginning: &str) -> usize {
        self.seen.iter().filter(|line| line.starts_with(beginning)).count()
    }

    /// Waits for its end, without telling it to end.
    pub fn end(mut self) -> Ended {
        let leash = Leash::new(&self.child, format_args!("the end of {}", self.name));
        for line in self.output.by_ref() {
            self.seen.push(line.expect("the programs print text"));
        }
        let status = self.child.wait().expect("it is our child");
        drop(leash);
        let errors = self.errors.take().map(|reader| reader.join().unwrap_or_default()).unwrap_or_default();
        Ended { name: self.name.clone(), status, lines: std::mem::take(&mut self.seen), errors }
    }

    /// Ends its input, which tells it to stop, and waits for its end.
    pub fn quit(mut self) -> Ended {
        drop(self.input.take());
        self.end()
    }

    /// Kills it as the operating system does when memory runs out: no handler runs, nobody is told.
    pub fn kill(mut self) {
        self.child.kill().expect("it is our child");
        let _ = self.child.wait();
    }

    /// Stops it where it stands: its sockets stay open and nothing reads them.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().try_into().expect("process ids are positive")).expect("not zero");
        kill_process(pid, signal).expect("it is our child");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Panics unless it ended well; gives all that it printed.
    #[track_caller]
    pub fn well(self) -> Self {
        assert!(self.status.success(), "{self}");
        self
    }

    /// Numbers of the events that it found to be as they were made, in the order in which they came.
    pub fn numbers(&self) -> Vec<u32> {
        self.lines.iter().filter_map(|line| line.strip_prefix("ok ")?.split(' ').next()?.parse().ok()).collect()
    }

    /// Panics unless exactly the events from 0 up to `count` came, in order.
    #[track_caller]
    pub fn received_all(self, count: u32) -> Self {
        let ended = self.well();
        assert_eq!(ended.numbers(), (0..count).collect::<Vec<_>>(), "{ended}");
        ended
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The first lines say what went wrong; thousands of good events would only hide them.
        let telling = self.lines.iter().filter(|line| !line.starts_with("ok ")).take(40);
        let mut said = String::new();
        for line in telling {
            writeln!(said, "  {line}")?;
        }
        write!(f, "{} ended with {}:\n{said}{}", self.name, self.status, self.errors)
    }
}

fn gather(mut stderr: ChildStderr) -> String {
    let mut bytes = Vec::new();
    let _ = stderr.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A service on a free port of the loopback.
pub fn service() -> Service {
    // What may be asked for depends on the memory there is, and the answers are written down.
    let limits = Limits { memory_bytes: Some(4 << 30), ..Limits::default() };
    service_with(Config { limits, ..Config::default() })
}

/// The same with settings; the address counts only if it is another than the default one.
pub fn service_with(mut config: Config) -> Service {
    if config.listen == Config::default().listen {
        config.listen = "127.0.0.1:0".into();
    }
    Service::start(config).expect("a service starts on the loopback")
}

/// `--factory` with the URL under which the service's factory is found.
pub fn at(service: &Service) -> String {
    format!("--factory {}", service.corbaloc("NotificationService"))
}

/// Waits until a counter has at least a value. Each turn lets others run; nothing measures time.
pub fn wait_for_count(service: &Service, counter: Counter, value: u64) {
    testing::wait_until(format_args!("{counter:?} to be {value}"), || service.counters().read(counter) >= value);
}

/// A consumer on a new channel, connected, and the channel's id.
pub fn first_consumer(orb: Orb, service: &Service, words: &str) -> (Peer, String) {
    let mut consumer = Peer::start(orb, &format!("consumer {} --channel new {words}", at(service)));
    let channel = consumer.wait_for("channel ");
    (consumer.ready(), channel)
}

/// A further consumer on a channel, connected.
pub fn further_consumer(orb: Orb, service: &Service, channel: &str, words: &str) -> Peer {
    Peer::start(orb, &format!("consumer {} --channel {channel} {words}", at(service))).ready()
}

/// A supplier of a channel, connected.
pub fn supplier(orb: Orb, service: &Service, channel: &str, words: &str) -> Peer {
    Peer::start(orb, &format!("supplier {} --channel {channel} {words}", at(service))).ready()
}

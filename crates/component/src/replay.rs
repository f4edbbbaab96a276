//! A component of a plan alone, which gets what was recorded for its sinks, and of which what it sends is sent back.
//!
//! The server is the process of the plan's server, with the other instances, all connections and settings of ports left out: what is
//! recorded has passed filters and sets already. Its environment names the instance and a unix socket ([`SOCKET`]), by which it gets lines of
//! a recording, and answers lines of what the component's sources send, and one at the end.

use crate::declaration::PortKind;
use crate::error::Error;
use crate::launch::{PlanFile, Running, at};
use crate::plan::{Plan, Problem};
use crate::port::EventSet;
use crate::recording::{EventLine, Line, RecordedEvent, socket};
use crate::route::Origin;
use crate::server::Server;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// The variables of a server's environment with the socket and the instance.
const SOCKET: &str = "CAMPANILE_COMPONENT_REPLAY";
const INSTANCE: &str = "CAMPANILE_COMPONENT_REPLAY_INSTANCE";

/// How long one event may take: a component that is looked at in a debugger is not hurried.
const HANDLER_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Interval at which the command looks whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A line that the server answers.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Sent { source: String, priority: i16, cdr: String },
    End(Replayed),
}

/// What became of the events that a component was given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Replayed {
    /// Events that its handlers took.
    pub delivered: u64,
    /// Events of which they answered a failure, or panicked.
    pub failed: u64,
    /// Events that came while it was not active, since it had failed.
    pub inactive: u64,
    /// Events that it has no sink for, or that are no values of the type.
    pub unreadable: u64,
    /// What was wrong with the first of these.
    pub reason: Option<String>,
    /// Events that it sent and that could not be written.
    pub unwritten: u64,
}

/// An event that the component sent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SentEvent {
    /// The source, as `instance.port`.
    pub source: String,
    /// Its priority.
    pub priority: i16,
    /// The value in CDR, in this machine's byte order.
    pub value: Vec<u8>,
}

// ---- the server ----

/// What the environment requests of a server.
pub(crate) struct Request {
    socket: PathBuf,
    instance: String,
}

impl Request {
    pub(crate) fn of_environment() -> Option<Self> {
        let instance = std::env::var_os(INSTANCE)?.into_string().ok()?;
        Some(Self { socket: std::env::var_os(SOCKET)?.into(), instance })
    }

    /// Leaves out of a plan what is not the instance's.
    pub(crate) fn alone(&self, plan: &mut Plan) {
        plan.instances.retain(|name, _| *name == self.instance);
        plan.connections.clear();
        plan.ports.clear();
    }

    /// Has what the component sends written to the socket by its lane, which waits for that.
    pub(crate) fn connect(self, server: &mut Server) -> Result<Feed, String> {
        let failed = |error: io::Error| format!("{}: {error}", self.socket.display());
        let stream = UnixStream::connect(&self.socket).map_err(failed)?;
        let out = Arc::new(Mutex::new(stream.try_clone().map_err(failed)?));
        for source in server.sources() {
            server.write_source(&source, out.clone()).map_err(|error| error.to_string())?;
        }
        server.set_answer_within(HANDLER_LIMIT);
        Ok(Feed { instance: self.instance, stream, out })
    }
}

/// Events for the component of a server.
pub(crate) struct Feed {
    instance: String,
    stream: UnixStream,
    out: Arc<Mutex<UnixStream>>,
}

impl Feed {
    /// Has each event handled that comes, and passivates the instance behind the last.
    pub(crate) fn run(self, server: &mut Server) {
        let mut end = Replayed::default();
        for line in BufReader::new(&self.stream).lines().map_while(Result::ok) {
            let fed =
                Line::parse(&line).ok_or_else(|| "it is no line of a recording".to_owned()).and_then(
                    |line| match line {
                        Line::Event(event) => server.feed(event),
                        _ => Ok(()),
                    },
                );
            if let Err(reason) = fed {
                end.unreadable += 1;
                end.reason.get_or_insert(reason);
            }
        }
        if let Err(error) = server.passivate(&self.instance) {
            log::warn!("{error}");
        }
        for (sink, _) in server.sinks() {
            let counted = server.port(&sink).unwrap_or_default();
            end.delivered += counted.delivered;
            end.failed += counted.failed;
            end.inactive += counted.inactive;
        }
        for source in server.sources() {
            end.unwritten += server.port(&source).unwrap_or_default().failed;
        }
        // The command may have ended first.
        let _ = write(&self.out, &Answer::End(end));
    }
}

fn write(out: &Mutex<UnixStream>, answer: &Answer) -> io::Result<()> {
    let line = serde_json::to_string(answer)? + "\n";
    out.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes())
}

impl Server {
    /// Has a recorded event handled by its component, past the queue, the filter and the sets of its sink.
    fn feed(&self, event: EventLine) -> Result<(), String> {
        let EventLine { instance, port, source, priority, set, cdr, .. } = event;
        let value = json::read::octets_from_hex(&cdr)?;
        let set = set.map(|(number, index, size)| EventSet { number, index, size });
        if let Some(EventSet { number, index, size }) = set.filter(|set| set.number == 0 || set.index >= set.size) {
            return Err(format!("there is no event {index} of {size} in a set {number}"));
        }
        let lane = self.lane_of(&instance).map_err(|error: Error| error.to_string())?;
        self.on_lane(lane, move |lane| lane.feed((&instance, &port), &value, (source.into(), priority), set))
            .map_err(|error| error.to_string())?
    }

    /// Has what a source sends written as answers.
    fn write_source(&self, source: &str, out: Arc<Mutex<UnixStream>>) -> Result<(), Error> {
        let (name, _) = self.find(source, PortKind::Source)?;
        let lane = self.lane_of(&name.instance)?;
        let Some((port, counters)) = self.remote(&name) else { return Ok(()) };
        self.on_lane(lane, move |lane| {
            let answer = move |origin: &Origin<'_>, value: &[u8]| {
                let mut cdr = String::with_capacity(2 * value.len());
                json::write::hex(&mut cdr, value);
                let sent = Answer::Sent { source: origin.source.to_string(), priority: origin.priority, cdr };
                // The command may have ended first.
                let _ = write(&out, &sent);
            };
            lane.connect_end(name.as_pair(), &Arc::from("replay"), port.writing(Box::new(answer), counters));
        })
    }
}

// ---- the command ----

/// A component that is given recorded events. Its process ends when this is dropped.
pub struct Replay {
    running: Running,
    stream: UnixStream,
    end: Receiver<Replayed>,
}

impl PlanFile {
    /// Starts an instance of the plan alone, in a process of its server's program. What it sends is handed to a function, on another thread.
    ///
    /// # Errors
    /// There is no such instance, or its process fails.
    pub fn replay(&self, instance: &str, on_sent: impl FnMut(SentEvent) + Send + 'static) -> Result<Replay, Problem> {
        let place = format!("instances.{instance}");
        let Some(of) = self.plan().instances.get(instance) else {
            let known = self.plan().instances.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            return Err(Problem::new(place, format!("there is no such instance; there are: {known}")));
        };
        let failed = |error: io::Error| Problem::new(place.clone(), error.to_string());
        let (folder, listener) = socket().map_err(failed)?;
        let mut accepted = None;
        let set = |command: &mut Command| {
            command.env(SOCKET, folder.join("socket")).env(INSTANCE, instance);
        };
        // A program that knows nothing of replays would start all of the server.
        let started = self.run_servers(&[&of.server], &set, &mut || {
            accepted = accept(&listener).map_err(failed)?;
            let is_old = || at(&of.server, "its program is of a version that has no replay: build it anew");
            accepted.is_some().then_some(()).ok_or_else(is_old)
        });
        let _ = std::fs::remove_dir_all(&folder);
        let (running, Some(stream)) = (started?, accepted) else {
            return Err(Problem::new(place, "its process is not connected"));
        };
        let answers = stream.try_clone().map_err(failed)?;
        stream.set_write_timeout(Some(LOOK_EVERY)).map_err(failed)?;
        let (sender, end) = channel();
        let read = move || {
            if let Some(replayed) = read_answers(answers, on_sent) {
                // The command may be ending.
                let _ = sender.send(replayed);
            }
        };
        Builder::new().name("replay".to_owned()).spawn(read).map_err(failed)?;
        Ok(Replay { running, stream, end })
    }
}

/// The connection of a server that says that it is configured: it has made it by then.
fn accept(listener: &UnixListener) -> io::Result<Option<UnixStream>> {
    listener.set_nonblocking(true)?;
    match listener.accept() {
        Ok((stream, _)) => {
            stream.set_nonblocking(false)?;
            Ok(Some(stream))
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Hands over what a component sends, until the end.
fn read_answers(stream: UnixStream, mut on_sent: impl FnMut(SentEvent)) -> Option<Replayed> {
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        match serde_json::from_str(&line) {
            Ok(Answer::End(replayed)) => return Some(replayed),
            Ok(Answer::Sent { source, priority, cdr }) => {
                if let Ok(value) = json::read::octets_from_hex(&cdr) {
                    on_sent(SentEvent { source, priority, value });
                }
            }
            Err(error) => log::warn!("what the component's server answers is not understood: {error}"),
        }
    }
    None
}

impl Replay {
    /// Gives the component an event, which may wait for those before; false if `stops` said that it is to end.
    ///
    /// # Errors
    /// Its process has ended.
    pub fn feed(&mut self, event: &RecordedEvent, mut stops: impl FnMut() -> bool) -> Result<bool, Problem> {
        let mut rest = event.line.as_bytes();
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    if stops() {
                        return Ok(false);
                    }
                }
                Err(error) => return Err(self.ended(&error.to_string())),
            }
        }
        Ok(true)
    }

    /// Waits until the component has handled all; `None` if `stops` said that it is to end.
    ///
    /// # Errors
    /// Its process has ended first.
    pub fn finish(mut self, mut stops: impl FnMut() -> bool) -> Result<Option<Replayed>, Problem> {
        let _ = self.stream.shutdown(Shutdown::Write);
        loop {
            match self.end.recv_timeout(LOOK_EVERY) {
                Ok(replayed) => return Ok(Some(replayed)),
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended("it has closed its connection")),
                Err(RecvTimeoutError::Timeout) if stops() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// How the process has ended, which a connection that is lost tells of.
    fn ended(&mut self, reason: &str) -> Problem {
        let ended = self.running.ended(crate::process::END_LIMIT);
        ended.unwrap_or_else(|| Problem::new("the component's server", reason.to_owned()))
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        // Its server reads until then, and ends after that.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay").field("running", &self.running).finish_non_exhaustive()
    }
}

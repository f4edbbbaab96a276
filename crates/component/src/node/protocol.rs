//! What a node manager and its clients say: a request and an answer for each connection, each a JSON object on one line.

use crate::node::release::Difference;
use crate::plan::{PLAN_BYTES_MAX, Problem};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The most octets of a line: a plan, with what JSON adds to it.
const LINE_BYTES_MAX: usize = 2 * PLAN_BYTES_MAX;

/// How long a client may take to send its request, and to read the answer.
pub(crate) const CLIENT_LIMIT: Duration = Duration::from_secs(10);

/// A request to a node manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase", deny_unknown_fields)]
pub enum NodeRequest {
    /// Brings a plan up.
    Up {
        /// The plan.
        plan: String,
        /// The folder where its relative paths begin.
        folder: PathBuf,
    },
    /// Says what `up` would change.
    Diff {
        /// The plan.
        plan: String,
        /// The folder where its relative paths begin.
        folder: PathBuf,
    },
    /// Says what is up.
    Status {
        /// The plan. Default: all.
        name: Option<String>,
    },
    /// Ends a plan, and forgets it.
    Down {
        /// The plan.
        name: String,
    },
}

/// The answer of a node manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeAnswer {
    /// What a change has done.
    Changed(Changed),
    /// What `up` would change.
    Differences(Vec<Difference>),
    /// What is up.
    Status(NodeStatus),
    /// Why nothing was done.
    Refused(Vec<Problem>),
}

impl NodeAnswer {
    pub(crate) fn refused(place: &str, reason: impl Into<String>) -> Self {
        Self::Refused(vec![Problem::new(place, reason)])
    }
}

/// Servers by what a change of their plan has done to them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// Those that run on as before.
    pub unchanged: Vec<String>,
    /// Those whose process was replaced.
    pub replaced: Vec<String>,
    /// Those that are new.
    pub started: Vec<String>,
    /// Those that are no more.
    pub ended: Vec<String>,
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            ("started", &self.started),
            ("replaced", &self.replaced),
            ("ended", &self.ended),
            ("unchanged", &self.unchanged),
        ];
        let some: Vec<_> = all.iter().filter(|(_, servers)| !servers.is_empty()).collect();
        let texts: Vec<_> = some.iter().map(|(what, servers)| format!("{what} {}", servers.join(", "))).collect();
        f.write_str(if texts.is_empty() { "no servers" } else { "" })?;
        f.write_str(&texts.join("; "))
    }
}

/// What is up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// The plans, those that do not come up last.
    pub plans: Vec<PlanStatus>,
    /// Which plan is being changed, and by which client.
    pub changing: Option<String>,
    /// Connections refused since the start: of users that may not use the socket, or beyond the most at a time.
    pub clients_refused: u64,
    /// Connections closed since the start for lines that were too late, too long, cut off or not understood.
    pub clients_dropped: u64,
}

/// A plan that is up, or was when the node manager ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanStatus {
    /// The name.
    pub name: String,
    /// When it was brought up, or the node manager started, in milliseconds since 1970.
    pub since_ms: u64,
    /// The servers.
    pub servers: Vec<ServerStatus>,
    /// Why it did not come up with the node manager.
    pub refused: Option<String>,
}

/// A server of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// The name.
    pub name: String,
    /// Its process; none while it waits for being started again.
    pub pid: Option<u32>,
    /// `configuring`, `configured`, `starting`, `started`, `waiting`, `ending` or `ended`.
    pub state: String,
    /// Since when it is in that state, in milliseconds since 1970.
    pub since_ms: u64,
    /// How often it was started again since it came up.
    pub restarts: u64,
    /// Why it ended last by itself, or could not be started.
    pub reason: Option<String>,
    /// Its instances.
    pub instances: Vec<String>,
}

impl NodeRequest {
    /// Sends the request to a node manager, and waits for the answer: as long as the change takes.
    ///
    /// # Errors
    /// There is no node manager at that path, or it ends before it has answered.
    pub fn send(&self, socket: &Path) -> Result<NodeAnswer, String> {
        let failed = |error: io::Error| format!("the node manager at {}: {error}", socket.display());
        let mut stream = UnixStream::connect(socket).map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::PermissionDenied => "`users` of its node.toml names the users that may use it",
                _ => "start one with `campanile node`, or name its socket with --node",
            };
            format!("{}; {hint}", failed(error))
        })?;
        let line = serde_json::to_string(self).map_err(|error| error.to_string())?;
        // One that refuses the connection does not read the request, and answers all the same.
        let sent = stream.write_all(format!("{line}\n").as_bytes());
        let mut answer = String::new();
        let read = BufReader::new(stream).read_line(&mut answer);
        if answer.is_empty() {
            sent.and(read).map_err(failed)?;
            return Err(format!("the node manager at {} ended before it had answered", socket.display()));
        }
        serde_json::from_str(&answer).map_err(|error| format!("the node manager at {}: {error}", socket.display()))
    }
}

/// Reads the line of a client, which has so long for it.
pub(crate) fn read_line(mut stream: &UnixStream, limit: Instant) -> Result<Vec<u8>, String> {
    let (mut line, mut chunk) = (Vec::new(), vec![0; 64 * 1024]);
    loop {
        let left = limit.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let read = stream.set_read_timeout(Some(left)).and_then(|()| stream.read(&mut chunk));
        let read = read.map_err(|_| format!("no line came within {} s", CLIENT_LIMIT.as_secs()))?;
        let more = chunk.get(..read).unwrap_or_default();
        let end = more.iter().position(|octet| *octet == b'\n');
        line.extend_from_slice(more.get(..end.unwrap_or(read)).unwrap_or_default());
        if line.len() > LINE_BYTES_MAX {
            return Err(format!("a line has at most {LINE_BYTES_MAX} octets"));
        }
        match end {
            Some(_) => return Ok(line),
            None if read == 0 => return Err("the connection ended within a line".to_owned()),
            None if Instant::now() >= limit => return Err(format!("no line came within {} s", CLIENT_LIMIT.as_secs())),
            None => {}
        }
    }
}

/// Writes an answer. A client that does not read it in time does not get it.
pub(crate) fn write_line(mut stream: &UnixStream, answer: &NodeAnswer) -> Result<(), String> {
    let line = serde_json::to_string(answer).map_err(|error| error.to_string())? + "\n";
    let (mut rest, limit) = (line.as_bytes(), Instant::now() + CLIENT_LIMIT);
    while !rest.is_empty() {
        let left = limit.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        match stream.set_write_timeout(Some(left)).and_then(|()| stream.write(rest)) {
            Ok(written) if written > 0 && Instant::now() < limit => rest = rest.get(written..).unwrap_or_default(),
            _ => return Err(format!("the answer was not read within {} s", CLIENT_LIMIT.as_secs())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES_MAX, read_line};
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    #[test]
    fn lines_that_are_late_or_too_long_are_refused() {
        let (mut client, node) = UnixStream::pair().unwrap();
        client.write_all(b"{}\nmore").unwrap();
        let far = Instant::now() + Duration::from_secs(60);
        assert_eq!(read_line(&node, far).as_deref(), Ok(&b"{}"[..]));
        // Less than a line, and its time is over.
        client.write_all(b"more").unwrap();
        assert_eq!(read_line(&node, Instant::now()).unwrap_err(), "no line came within 10 s");
        std::thread::scope(|scope| {
            // It is not read to its end.
            scope.spawn(|| client.write_all(&vec![b' '; LINE_BYTES_MAX + 1]));
            assert!(read_line(&node, far).unwrap_err().contains("a line has at most"));
            drop(node);
        });
    }
}

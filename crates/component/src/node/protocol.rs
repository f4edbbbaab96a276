//! What a node manager and its clients say, and node managers to each other: a JSON object on one line, and another one as the answer. A
//! client has one request on a connection, and so has another node manager, but for the steps of a change.

use crate::node::release::{Assignment, Difference};
use crate::plan::{Descriptions, Problem};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

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
        /// Nodes of the plan that are gone for good, and are not called.
        #[serde(default)]
        without: Vec<String>,
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
    /// An answer to which some nodes of the plan have not contributed, and why.
    Partly(Box<NodeAnswer>, Vec<Problem>),
}

impl NodeAnswer {
    pub(crate) fn refused(place: &str, reason: impl Into<String>) -> Self {
        Self::Refused(vec![Problem::new(place, reason)])
    }

    /// The answer, where these problems are none of the whole.
    pub(crate) fn beside(self, problems: Vec<Problem>) -> Self {
        if problems.is_empty() { self } else { Self::Partly(Box::new(self), problems) }
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
    /// Connections refused since the start: of users that may not use the socket, or beyond the most at a time; and requests over GIOP with
    /// a certificate that may not deploy.
    pub clients_refused: u64,
    /// Connections closed since the start for lines, or messages of GIOP, that were too late, too long, cut off or not understood.
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
    /// Why it did not come up with the node manager, or what it waits for.
    pub refused: Option<String>,
}

/// A server of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// The name.
    pub name: String,
    /// Its node, where the plan has several.
    #[serde(default)]
    pub node: Option<String>,
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

/// What one node manager wants of another.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum PeerRequest<'p> {
    /// Prepares a part of a plan: the first step of a change, with nothing running touched.
    Prepare { transaction: String, assignment: Assignment, client: String, plan: Cow<'p, str> },
    /// Makes new servers beside the old ones.
    Configure,
    /// Ends the old servers.
    End,
    /// Starts the new servers: a yes is the vote.
    Start,
    /// The change is decided, and stays.
    Commit,
    /// The change is decided, and undone.
    Abort,
    /// What was decided?
    Decision { transaction: String },
    /// What has become of it at a node that takes part?
    Outcome { name: String, transaction: String, coordinator: String },
    /// What would a change do?
    Diff { assignment: Assignment, plan: Cow<'p, str> },
    /// What is up of a plan?
    Status { name: String },
    /// Ends a part of a plan, and forgets it.
    Down { name: String, coordinator: String, client: String },
}

/// What a node manager answers to another.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PeerAnswer {
    /// The request is waited for.
    Ready,
    /// The components of the servers of a part, and what differs from what is up.
    Prepared { components: BTreeMap<String, Descriptions>, differences: Vec<Difference> },
    /// What was decided of a change; `None` while that is open.
    Decided(Option<bool>),
    /// What clients are answered.
    Node(NodeAnswer),
}

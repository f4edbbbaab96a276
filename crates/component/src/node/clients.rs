//! Clients of a node manager, at the unix socket, and other node managers over TLS: threads that accept connections, and one for each
//! connection.

use crate::node::connection::{CLIENT_LIMIT, Connection, LINE_BYTES_MAX, understand};
use crate::node::coordinator::{Coordinator, STEPS_LIMIT};
use crate::node::manager::{Event, Order, Vote};
use crate::node::network::host;
use crate::node::protocol::{NodeAnswer, NodeRequest, PeerAnswer, PeerRequest};
use crate::node::release::{Assignment, Release};
use crate::node::settings::Policy;
use crate::plan::{Descriptions, Plan};
use accounts::CertifiedName;
use client::Orb;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{Shutdown, shutdown};
use std::collections::BTreeMap;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// The most connections at a time, at the unix socket and over TLS: many of these do not keep the users of this machine out.
const CLIENTS_MAX: usize = 16;
const NODES_MAX: usize = 128;

/// The most octets of a line that are stored of a node without the right to deploy: it may ask for decisions.
const DECISION_BYTES_MAX: usize = 256;

/// Pause before another node is queried again for its decision: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// The change that goes on, with the name that another node has for it: one at a time.
#[derive(Default)]
pub(crate) struct Changing(Mutex<Option<(String, String)>>);

/// A change that goes on, until this is dropped: by a panic as well.
pub(crate) struct Change<'c>(&'c Changing);

impl Changing {
    fn lock(&self) -> MutexGuard<'_, Option<(String, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a change, unless there is one.
    pub(crate) fn begin(&self, name: &str, client: &str, transaction: &str) -> Result<Change<'_>, NodeAnswer> {
        let mut changing = self.lock();
        if let Some((other, _)) = &*changing {
            return Err(NodeAnswer::refused(name, format!("busy: {other}; try again")));
        }
        *changing = Some((format!("{name} is being changed by {client}"), transaction.to_owned()));
        Ok(Change(self))
    }

    /// Which plan is being changed, and by which client.
    pub(crate) fn current(&self) -> Option<String> {
        self.lock().as_ref().map(|(text, _)| text.clone())
    }

    /// Whether this change goes on.
    pub(crate) fn is(&self, transaction: &str) -> bool {
        self.lock().as_ref().is_some_and(|(_, of)| of == transaction)
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

/// Where connections come from.
pub(crate) enum Listener {
    Unix(UnixListener),
    Tls(TcpListener),
}

enum Accepted {
    Unix(UnixStream),
    Tls(TcpStream),
}

impl Listener {
    fn accept(&self) -> io::Result<Accepted> {
        match self {
            Self::Unix(listener) => listener.accept().map(|(socket, _)| Accepted::Unix(socket)),
            Self::Tls(listener) => listener.accept().map(|(socket, _)| Accepted::Tls(socket)),
        }
    }

    const fn connections_max(&self) -> usize {
        match self {
            Self::Unix(_) => CLIENTS_MAX,
            Self::Tls(_) => NODES_MAX,
        }
    }

    /// Wakes the thread that accepts.
    pub(crate) fn close(&self) {
        let _ = match self {
            Self::Unix(listener) => shutdown(listener, Shutdown::Both),
            Self::Tls(listener) => shutdown(listener, Shutdown::Both),
        };
    }
}

/// What the threads of clients have in common.
pub(crate) struct Clients {
    policy: Arc<Policy>,
    manager: Sender<Event>,
    /// Where there are other nodes.
    nodes: Option<Coordinator>,
    changing: Changing,
    refused: AtomicU64,
    dropped: AtomicU64,
    pub(crate) is_stopping: AtomicBool,
    /// What serves launchers over GIOP.
    orb: Mutex<Option<Orb>>,
}

impl Clients {
    pub(crate) fn new(policy: Arc<Policy>, manager: Sender<Event>, nodes: Option<Coordinator>) -> Self {
        Self {
            policy,
            manager,
            nodes,
            changing: Changing::default(),
            refused: AtomicU64::default(),
            dropped: AtomicU64::default(),
            is_stopping: AtomicBool::default(),
            orb: Mutex::default(),
        }
    }

    /// Counts what an orb refuses as well, from now on.
    pub(crate) fn serve_by(&self, orb: Option<Orb>) {
        *self.orb.lock().unwrap_or_else(PoisonError::into_inner) = orb;
    }

    /// Accepts connections until it is to stop.
    pub(crate) fn accept(self: &Arc<Self>, listener: &Listener) {
        let mut is_failing = false;
        let connected = Arc::<AtomicUsize>::default();
        while !self.is_stopping.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok(accepted) => {
                    is_failing = false;
                    self.connect(accepted, listener.connections_max(), &connected);
                }
                Err(_) if self.is_stopping.load(Ordering::Relaxed) => {}
                Err(error) => {
                    if !is_failing {
                        log::warn!("no client can connect to the node manager: {error}");
                    }
                    is_failing = true;
                    // Descriptors may have run out: the others get time to close theirs.
                    std::thread::park_timeout(CLIENT_LIMIT / 100);
                }
            }
        }
    }

    fn connect(self: &Arc<Self>, accepted: Accepted, most: usize, connected: &Arc<AtomicUsize>) {
        if connected.fetch_add(1, Ordering::Relaxed) >= most {
            connected.fetch_sub(1, Ordering::Relaxed);
            let reason = format!("busy: there are {most} connections; try again");
            return match accepted {
                Accepted::Unix(socket) => self.refuse(&mut Connection::unix(socket), &reason),
                // A handshake would take the time of others.
                Accepted::Tls(_) => self.count_refused(&reason),
            };
        }
        let (this, of) = (self.clone(), connected.clone());
        let thread = Builder::new().name("client".to_owned()).spawn(move || {
            match accepted {
                Accepted::Unix(socket) => this.serve_client(socket),
                Accepted::Tls(socket) => this.serve_node(socket),
            }
            of.fetch_sub(1, Ordering::Relaxed);
        });
        if let Err(error) = thread {
            connected.fetch_sub(1, Ordering::Relaxed);
            self.count_refused(&error.to_string());
        }
    }

    fn count_refused(&self, reason: &str) {
        if self.refused.fetch_add(1, Ordering::Relaxed) == 0 {
            log::warn!("a client of the node manager is refused: {reason}; further ones are counted");
        }
    }

    fn count_dropped(&self, client: &str, reason: &str) {
        if self.dropped.fetch_add(1, Ordering::Relaxed) == 0 {
            log::warn!("a client of the node manager, {client}, is dropped: {reason}; further ones are counted");
        }
    }

    /// Refuses a connection. The answer fits into what a new connection takes at once.
    fn refuse(&self, connection: &mut Connection, reason: &str) {
        self.count_refused(reason);
        let _ = connection.send(&NodeAnswer::refused("node", reason));
    }

    fn serve_client(&self, socket: UnixStream) {
        let peer = socket_peercred(&socket);
        let mut connection = Connection::unix(socket);
        let Ok(peer) = peer else {
            return self.refuse(&mut connection, "the user of this connection is not known");
        };
        let (user, process) = (peer.uid.as_raw(), peer.pid.as_raw_nonzero());
        if !self.policy.peers.contains(&user) {
            let reason =
                format!("user {user} may not use this node manager: `users` of node.toml names those that may");
            return self.refuse(&mut connection, &reason);
        }
        let client = format!("user {user}, process {process}");
        let outcome = match connection.receive(CLIENT_LIMIT) {
            Ok(request) => connection.send(&self.answer(request, &client)),
            Err(reason) => {
                // It may be gone, or still send.
                let _ = connection.send(&NodeAnswer::refused("request", &*reason));
                Err(reason)
            }
        };
        if let Err(reason) = outcome {
            self.count_dropped(&client, &reason);
        }
    }

    /// Does what a client wants, and waits for the end of that.
    pub(crate) fn answer(&self, request: NodeRequest, client: &str) -> NodeAnswer {
        match request {
            NodeRequest::Status { name } => self.status(name),
            NodeRequest::Diff { plan: text, folder } => match (self.over_nodes(&text), &self.nodes) {
                (Ok(Some(plan)), Some(nodes)) => nodes.diff(&text, &plan),
                (Err(refused), _) => refused,
                _ => self.prepare(&text, &folder, Order::Diff),
            },
            NodeRequest::Up { plan: text, folder } => match (self.over_nodes(&text), &self.nodes) {
                (Ok(Some(plan)), Some(nodes)) => nodes.up(&text, &plan, client),
                (Err(refused), _) => refused,
                _ => {
                    let name = match Plan::parse(&text) {
                        Ok(plan) => plan.name,
                        Err(problem) => return NodeAnswer::Refused(vec![problem]),
                    };
                    self.change(&name, client, || self.prepare(&text, &folder, Order::Up))
                }
            },
            NodeRequest::Down { name, without } => match self.nodes.as_ref().filter(|nodes| nodes.has(&name)) {
                Some(nodes) => nodes.down(&name, &without, client),
                None if !without.is_empty() => {
                    NodeAnswer::refused(&name, "no plan of this name was brought up here over several nodes")
                }
                None => self.change(&name, client, || self.order(Order::Down(name.clone(), None))),
            },
        }
    }

    /// The plan, where it is over several nodes.
    fn over_nodes(&self, text: &str) -> Result<Option<Plan>, NodeAnswer> {
        let plan = Plan::parse(text).map_err(|problem| NodeAnswer::Refused(vec![problem]))?;
        let is_up = self.nodes.as_ref().is_some_and(|nodes| nodes.has(&plan.name));
        match (plan.nodes.is_empty(), &self.nodes) {
            (false, Some(_)) => Ok(Some(plan)),
            (false, None) => {
                let reason = "the plan is over several nodes, and node.toml has no [tls] with `listen`, by which they reach each other";
                Err(NodeAnswer::refused("nodes", reason))
            }
            (true, _) if is_up => {
                let reason =
                    "the plan of this name is up over several nodes, and this one is not: take that one down first";
                Err(NodeAnswer::refused(&plan.name, reason))
            }
            (true, _) => Ok(None),
        }
    }

    fn status(&self, name: Option<String>) -> NodeAnswer {
        let mut answer = self.order(Order::Status(name.clone()));
        if let Some(nodes) = &self.nodes {
            answer = nodes.status(name.as_deref(), answer);
        }
        let inner = match &mut answer {
            NodeAnswer::Partly(inner, _) => &mut **inner,
            other => other,
        };
        if let NodeAnswer::Status(status) = inner {
            let of_nodes = self.nodes.as_ref().and_then(Coordinator::changing);
            status.changing = of_nodes.or_else(|| self.changing.current());
            let orb = self.orb.lock().unwrap_or_else(PoisonError::into_inner);
            let served = orb.as_ref().map(Orb::served).unwrap_or_default();
            status.clients_refused = self.refused.load(Ordering::Relaxed) + served.connections_refused + served.refused;
            status.clients_dropped = self.dropped.load(Ordering::Relaxed) + served.connections_dropped;
        }
        answer
    }

    /// Carries out a change, unless there is one.
    fn change(&self, name: &str, client: &str, carry_out: impl FnOnce() -> NodeAnswer) -> NodeAnswer {
        match self.changing.begin(name, client, "") {
            Ok(_change) => carry_out(),
            Err(busy) => busy,
        }
    }

    fn prepare(&self, plan: &str, folder: &Path, order: fn(Arc<Release>) -> Order) -> NodeAnswer {
        match Release::prepare(plan, folder, &self.policy) {
            Ok(release) => self.order(order(Arc::new(release))),
            Err(problems) => NodeAnswer::Refused(problems),
        }
    }

    /// Has something done on the node manager's thread.
    fn order(&self, order: Order) -> NodeAnswer {
        let (sender, answer) = channel();
        let sent = self.manager.send(Event::Order(order, sender));
        sent.ok()
            .and_then(|()| answer.recv().ok())
            .unwrap_or_else(|| NodeAnswer::refused("node", "the node manager is being ended"))
    }

    fn serve_node(self: &Arc<Self>, socket: TcpStream) {
        let from = socket.peer_addr().map_or_else(|_| "an unknown address".to_owned(), |from| from.to_string());
        let Some(nodes) = &self.nodes else { return };
        match nodes.network.accept(socket) {
            Ok((mut connection, name)) => {
                if let Err(reason) = self.serve_peer(nodes, &mut connection, &name) {
                    self.count_dropped(&format!("{name} from {from}"), &reason);
                }
            }
            Err(reason) => self.count_dropped(&from, &reason),
        }
    }

    fn serve_peer(
        self: &Arc<Self>,
        nodes: &Coordinator,
        connection: &mut Connection,
        name: &CertifiedName,
    ) -> Result<(), String> {
        // Where the certificate is refused, the alert comes instead of this, before the peer has sent anything.
        connection.send(&PeerAnswer::Ready)?;
        let may_deploy = nodes.network.may_deploy(name);
        let line = connection.read_line(CLIENT_LIMIT, if may_deploy { LINE_BYTES_MAX } else { DECISION_BYTES_MAX })?;
        let request = understand(&line);
        drop(line);
        // Decisions are for all nodes: the transaction is a secret of those that voted.
        let is_open_to_all = matches!(request, Ok(PeerRequest::Decision { .. } | PeerRequest::Outcome { .. }));
        if !is_open_to_all && !may_deploy {
            let reason = format!(
                "{name} has not the right to deploy: tls.deploy of this node's node.toml names those that have"
            );
            self.count_refused(&reason);
            return connection.send(&PeerAnswer::Node(NodeAnswer::refused("node", reason)));
        }
        let request = request?;
        let coordinator = match &request {
            PeerRequest::Prepare { assignment, .. } | PeerRequest::Diff { assignment, .. } => {
                Some(&assignment.coordinator)
            }
            PeerRequest::Down { coordinator, .. } => Some(coordinator),
            _ => None,
        };
        if let Some(at) = coordinator.filter(|at| !connection.peer_is(host(at))) {
            let reason = format!(
                "{name} is found at {at}, and has no certificate for that host: set tls.address of its node.toml to a HOST:PORT with a \
                 host among the certificate's alternative names"
            );
            self.count_refused(&reason);
            return connection.send(&PeerAnswer::Node(NodeAnswer::refused("node", reason)));
        }
        let answer = match request {
            PeerRequest::Prepare { transaction, assignment, client, plan } => {
                let vote = Vote { transaction, coordinator: assignment.coordinator.clone() };
                return self.take_part(connection, vote, assignment, &plan, &client);
            }
            PeerRequest::Decision { transaction } => PeerAnswer::Decided(nodes.decision(&transaction)),
            PeerRequest::Outcome { name, transaction, coordinator } => {
                PeerAnswer::Decided(nodes.outcome(&name, &transaction, &coordinator))
            }
            PeerRequest::Diff { assignment, plan } => match Release::prepare_part(&plan, assignment, &self.policy) {
                Ok((release, components)) => match self.order(Order::Diff(Arc::new(release))) {
                    NodeAnswer::Differences(differences) => PeerAnswer::Prepared { components, differences },
                    other => PeerAnswer::Node(other),
                },
                Err(problems) => PeerAnswer::Node(NodeAnswer::Refused(problems)),
            },
            PeerRequest::Status { name } => PeerAnswer::Node(self.order(Order::Status(Some(name)))),
            PeerRequest::Down { name, coordinator, client } => {
                let order = || self.order(Order::Down(name.clone(), Some(coordinator)));
                PeerAnswer::Node(self.change(&name, &client, order))
            }
            PeerRequest::Configure
            | PeerRequest::End
            | PeerRequest::Start
            | PeerRequest::Commit
            | PeerRequest::Abort => PeerAnswer::Node(NodeAnswer::refused("request", "a change begins with prepare")),
        };
        connection.send(&answer)
    }

    /// Takes part in a change on which another node decides. Where the connection is lost, the change is undone, or the decision queried.
    fn take_part(
        self: &Arc<Self>,
        connection: &mut Connection,
        vote: Vote,
        assignment: Assignment,
        plan: &str,
        client: &str,
    ) -> Result<(), String> {
        let refused = |answer| PeerAnswer::Node(answer);
        let name = match Plan::parse(plan) {
            Ok(plan) => plan.name,
            Err(problem) => return connection.send(&refused(NodeAnswer::Refused(vec![problem]))),
        };
        let change = match self.changing.begin(&name, client, &vote.transaction) {
            Ok(change) => change,
            Err(busy) => return connection.send(&refused(busy)),
        };
        let assignment = Assignment { transaction: vote.transaction.clone(), ..assignment };
        let (release, components) = match Release::prepare_part(plan, assignment, &self.policy) {
            Ok(prepared) => prepared,
            Err(problems) => return connection.send(&refused(NodeAnswer::Refused(problems))),
        };
        let answer = self.order(Order::Prepare(Arc::new(release), vote.clone()));
        if matches!(answer, NodeAnswer::Refused(_)) {
            return connection.send(&refused(answer));
        }
        let mut has_voted = false;
        let outcome = self.take_steps(connection, &name, &vote, components, &mut has_voted);
        match outcome {
            Ok(()) => {}
            Err(_) if has_voted => {
                drop(change);
                self.await_decision(name, vote);
            }
            Err(_) => drop(self.order(Order::Decide(name, vote.transaction, false))),
        }
        outcome
    }

    /// Does the steps of a change until it is decided, or was undone.
    fn take_steps(
        &self,
        connection: &mut Connection,
        name: &str,
        vote: &Vote,
        components: BTreeMap<String, Descriptions>,
        has_voted: &mut bool,
    ) -> Result<(), String> {
        connection.send(&PeerAnswer::Prepared { components, differences: Vec::new() })?;
        loop {
            let request = connection.receive(STEPS_LIMIT)?;
            let decide = |is_commit| Order::Decide(name.to_owned(), vote.transaction.clone(), is_commit);
            let order = match request {
                PeerRequest::Configure => Order::Configure(name.to_owned()),
                PeerRequest::End => Order::End(name.to_owned()),
                PeerRequest::Start => Order::Start(name.to_owned()),
                PeerRequest::Commit => decide(true),
                PeerRequest::Abort => decide(false),
                _ => return Err("what came is no step of a change".to_owned()),
            };
            let mut answer = self.order(order);
            if matches!((&request, &answer), (PeerRequest::Start, NodeAnswer::Changed(_))) {
                // A node that is gone has not decided: nothing has to wait for it.
                if connection.is_closed() {
                    return Err("the connection was closed before the vote".to_owned());
                }
                answer = self.order(Order::Vote(name.to_owned()));
            }
            let is_refused = matches!(answer, NodeAnswer::Refused(_));
            *has_voted |= matches!(request, PeerRequest::Start) && !is_refused;
            let sent = connection.send(&PeerAnswer::Node(answer));
            match request {
                PeerRequest::Commit if is_refused => return Err("what was decided cannot be stored".to_owned()),
                // It is over, whether or not the answer was read.
                PeerRequest::Commit | PeerRequest::Abort => return Ok(()),
                _ if is_refused && *has_voted => return Err("a step came after the vote".to_owned()),
                // The step has undone all.
                _ if is_refused => return Ok(()),
                _ => sent?,
            }
        }
    }

    /// Queries another node until it has decided on a change, and carries that out.
    pub(crate) fn await_decision(self: &Arc<Self>, name: String, vote: Vote) {
        log::warn!("plan {name} {}", vote.waits());
        let (this, mut pause) = (self.clone(), PAUSES.0);
        let plan = name.clone();
        let ask = move || {
            while !this.is_stopping.load(Ordering::Relaxed) {
                if let Some(is_commit) = this.nodes.as_ref().and_then(|nodes| nodes.ask(&name, &vote))
                    && let Ok(_change) = this.changing.begin(&name, &vote.coordinator, &vote.transaction)
                {
                    let what = if is_commit { "stays" } else { "is undone" };
                    match this.order(Order::Decide(name.clone(), vote.transaction.clone(), is_commit)) {
                        NodeAnswer::Refused(problems) => {
                            let reasons: Vec<_> = problems.iter().map(ToString::to_string).collect();
                            log::error!("plan {name}: its change {what}: {}", reasons.join("; "));
                        }
                        _ => return log::info!("plan {name}: its change {what}"),
                    }
                }
                std::thread::park_timeout(pause);
                pause = (2 * pause).min(PAUSES.1);
            }
        };
        if let Err(error) = Builder::new().name("decision".to_owned()).spawn(ask) {
            log::error!("plan {plan} waits until the node manager is started again: {error}");
        }
    }
}

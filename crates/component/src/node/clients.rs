//! Clients of a node manager: a thread that accepts connections, and one for each.

use crate::node::manager::{Event, Order};
use crate::node::protocol::{CLIENT_LIMIT, NodeAnswer, NodeRequest, read_line, write_line};
use crate::node::release::Release;
use crate::node::settings::Policy;
use crate::plan::Plan;
use rustix::net::sockopt::socket_peercred;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Instant;

/// The most connections at a time.
const CLIENTS_MAX: usize = 16;

/// A change that goes on, until this is dropped: by a panic as well.
struct Change<'c>(&'c Clients);

impl Drop for Change<'_> {
    fn drop(&mut self) {
        *self.0.changing() = None;
    }
}

/// What the threads of clients have in common.
pub(crate) struct Clients {
    policy: Arc<Policy>,
    manager: Sender<Event>,
    /// What is being changed, and by which client: one change at a time.
    changing: Mutex<Option<String>>,
    connected: AtomicUsize,
    refused: AtomicU64,
    dropped: AtomicU64,
    pub(crate) is_stopping: AtomicBool,
}

impl Clients {
    pub(crate) fn new(policy: Arc<Policy>, manager: Sender<Event>) -> Self {
        Self {
            policy,
            manager,
            changing: Mutex::default(),
            connected: AtomicUsize::default(),
            refused: AtomicU64::default(),
            dropped: AtomicU64::default(),
            is_stopping: AtomicBool::default(),
        }
    }

    /// Accepts connections until it is to stop.
    pub(crate) fn accept(self: &Arc<Self>, listener: &UnixListener) {
        let mut is_failing = false;
        while !self.is_stopping.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((stream, _)) => {
                    is_failing = false;
                    self.connect(stream);
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

    fn connect(self: &Arc<Self>, stream: UnixStream) {
        if self.connected.fetch_add(1, Ordering::Relaxed) >= CLIENTS_MAX {
            self.connected.fetch_sub(1, Ordering::Relaxed);
            return self.refuse(&stream, &format!("busy: there are {CLIENTS_MAX} connections; try again"));
        }
        let this = self.clone();
        let thread = Builder::new().name("client".to_owned()).spawn(move || {
            this.serve(&stream);
            this.connected.fetch_sub(1, Ordering::Relaxed);
        });
        if thread.is_err() {
            self.connected.fetch_sub(1, Ordering::Relaxed);
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Refuses a connection. The answer fits into what a new connection takes at once.
    fn refuse(&self, stream: &UnixStream, reason: &str) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        let _ = write_line(stream, &NodeAnswer::refused("node", reason));
    }

    fn serve(&self, stream: &UnixStream) {
        let Ok(peer) = socket_peercred(stream) else {
            return self.refuse(stream, "the user of this connection is not known");
        };
        let (user, process) = (peer.uid.as_raw(), peer.pid.as_raw_nonzero());
        if !self.policy.peers.contains(&user) {
            return self.refuse(
                stream,
                &format!("user {user} may not use this node manager: `users` of node.toml names those that may"),
            );
        }
        let request = read_line(stream, Instant::now() + CLIENT_LIMIT).and_then(|line| {
            serde_json::from_slice(&line).map_err(|error| format!("the request is not understood: {error}"))
        });
        let outcome = match request {
            Ok(request) => write_line(stream, &self.answer(request, &format!("user {user}, process {process}"))),
            Err(reason) => {
                // It may be gone, or still send.
                let _ = write_line(stream, &NodeAnswer::refused("request", &*reason));
                Err(reason)
            }
        };
        if let Err(reason) = outcome
            && self.dropped.fetch_add(1, Ordering::Relaxed) == 0
        {
            log::warn!(
                "a client of the node manager, user {user}, process {process}, is dropped: {reason}; further ones are counted"
            );
        }
    }

    fn answer(&self, request: NodeRequest, client: &str) -> NodeAnswer {
        match request {
            NodeRequest::Status { name } => match self.order(Order::Status(name)) {
                NodeAnswer::Status(mut status) => {
                    status.changing.clone_from(&self.changing());
                    status.clients_refused = self.refused.load(Ordering::Relaxed);
                    status.clients_dropped = self.dropped.load(Ordering::Relaxed);
                    NodeAnswer::Status(status)
                }
                other => other,
            },
            NodeRequest::Diff { plan, folder } => self.prepare(&plan, &folder, Order::Diff),
            NodeRequest::Up { plan, folder } => {
                let name = match Plan::parse(&plan) {
                    Ok(plan) => plan.name,
                    Err(problem) => return NodeAnswer::Refused(vec![problem]),
                };
                self.change(&name, client, || self.prepare(&plan, &folder, Order::Up))
            }
            NodeRequest::Down { name } => self.change(&name, client, || self.order(Order::Down(name.clone()))),
        }
    }

    fn changing(&self) -> MutexGuard<'_, Option<String>> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out a change, unless there is one.
    fn change(&self, name: &str, client: &str, carry_out: impl FnOnce() -> NodeAnswer) -> NodeAnswer {
        {
            let mut changing = self.changing();
            if let Some(other) = &*changing {
                return NodeAnswer::refused(name, format!("busy: {other}; try again"));
            }
            *changing = Some(format!("{name} is being changed by {client}"));
        }
        let _end = Change(self);
        carry_out()
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
}

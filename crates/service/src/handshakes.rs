//! TLS handshakes, on a thread of their own: signing takes as long as hundreds of events, and peers may take any time.
//!
//! A lane hands a connection over here, and gets it back with its session when the handshake is over; the lane itself only opens and seals
//! records. The number of handshakes is limited, and each address has a quota (`accounts::Resource::Handshakes`); each has a time limit.
//! Addresses take turns, so that the handshakes of one delay another's by a few steps only. The thread has the nice value of
//! administration.

mod reports;

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use hashbrown::HashMap;
use tls::Trouble;

use crate::config::Ends;
use crate::counters::Block;
use crate::lane::budget::Budget;
use crate::lane::io::net::{Poll, Tcp, Waker};
use crate::lane::io::slots::{Slots, Token};
use crate::lane::io::socket::Socket;
use crate::lane::io::stream::{Broken, Secure, Stream};
use crate::lane::io::system::Interest;
use crate::lane::links::mailbox::{BufferedMailbox, Inbox, Mailbox, mailbox};
use crate::protocols::Tag;
use crate::time;
use accounts::{CertifiedName, Charge};

pub use reports::{HandshakeFailure, HandshakeReports};

/// Maximum handshakes under way, of all clients and of all peers that the service calls.
pub(crate) const HANDSHAKES_MAX: usize = 1024;
/// Interval in which a lane without room is tried again.
const ROOM: Duration = Duration::from_millis(2);

/// A connection that needs a handshake.
pub(crate) struct Unsecured {
    pub(crate) tcp: Tcp,
    pub(crate) address: SocketAddr,
    pub(crate) whose: Whose,
    /// The connection's place among the handshakes.
    pub(crate) charge: Charge,
}

/// The peer.
pub(crate) enum Whose {
    /// A client that has connected to a protocol, with its place among the connections.
    Client(Tag, Charge),
    /// A called peer: the protocol, the lane's connection, and the host that is called.
    Called(Tag, Token, String),
}

/// A connection with its handshake over; for a called peer also the reason if it failed.
pub(crate) struct Secured {
    pub(crate) stream: Result<Stream, String>,
    pub(crate) address: SocketAddr,
    pub(crate) whose: Whose,
    /// Name in the certificate that was shown.
    pub(crate) name: Option<Arc<CertifiedName>>,
}

/// A lane's end of its link with the thread.
pub(crate) struct Link {
    pub(crate) unsecured: Mailbox<Unsecured>,
    pub(crate) secured: Inbox<Secured>,
}

/// The thread's end of its link with a lane.
pub(crate) struct ThreadEnd {
    unsecured: Inbox<Unsecured>,
    secured: BufferedMailbox<Secured>,
}

/// Introduction of lanes to the thread.
pub(crate) struct Reception {
    pub(crate) waker: Arc<Waker>,
    pub(crate) introductions: Mailbox<ThreadEnd>,
}

/// Both ends of a lane's link.
pub(crate) fn link(waker: &Arc<Waker>, to: &Reception) -> (Link, ThreadEnd) {
    let (to_thread, unsecured) = mailbox(&to.waker, HANDSHAKES_MAX);
    let (to_lane, secured) = mailbox(waker, HANDSHAKES_MAX);
    (Link { unsecured: to_thread, secured }, ThreadEnd { unsecured, secured: BufferedMailbox::new(to_lane) })
}

/// A handshake under way.
struct Pending {
    lane: u64,
    secure: Secure,
    address: SocketAddr,
    whose: Whose,
    until: Instant,
    interest: Interest,
    /// Whether nothing has arrived yet.
    is_fresh: bool,
    /// Whether the first input was not TLS.
    is_plain: bool,
    _charge: Charge,
}

/// Thread that makes handshakes.
pub(crate) struct Handshakes {
    waker: Arc<Waker>,
    introductions: Inbox<ThreadEnd>,
    /// Lanes by numbers that are not reused.
    lanes: Vec<(u64, ThreadEnd)>,
    lanes_begun: u64,
    poll: Poll,
    pending: Slots<Pending>,
    under_way: usize,
    ends: Arc<ArcSwap<Ends>>,
    limit: Duration,
    reports: HandshakeReports,
}

/// Result of a step.
enum Step {
    Waits,
    Over,
    Failed(Broken),
}

impl Handshakes {
    /// Makes handshakes with the configuration in `ends` when each begins, each within `limit`.
    pub(crate) fn new(
        waker: Arc<Waker>,
        introductions: Inbox<ThreadEnd>,
        ends: Arc<ArcSwap<Ends>>,
        limit: Duration,
        counters: Arc<Block>,
    ) -> std::io::Result<Self> {
        let poll = Poll::new()?;
        poll.add(&waker, Socket::Waker, Interest::READ)?;
        Ok(Self {
            waker,
            introductions,
            lanes: Vec::new(),
            lanes_begun: 0,
            poll,
            pending: Slots::new(),
            under_way: 0,
            ends,
            limit,
            reports: HandshakeReports::new(counters),
        })
    }

    /// Runs until all lanes have ended.
    pub(crate) fn run(mut self) {
        loop {
            let is_behind =
                self.lanes.iter_mut().fold(false, |behind, (_, thread_end)| thread_end.secured.send_waiting() | behind);
            if let Err(error) = self.poll.wait(self.patience(is_behind)) {
                log::error!("TLS handshakes cannot be made any more: {error}");
                return;
            }
            if !self.serve_inboxes() {
                return;
            }
            self.serve_sockets();
            self.end_overdue();
        }
    }

    /// Maximum time to wait for sockets.
    fn patience(&self, is_behind: bool) -> Option<Duration> {
        let now = time::now();
        let next = self.pending.iter().map(|(_, pending)| pending.until.saturating_duration_since(now)).min();
        if is_behind { Some(next.map_or(ROOM, |next| next.min(ROOM))) } else { next }
    }

    /// Serves messages of lanes. False when all lanes have ended.
    fn serve_inboxes(&mut self) -> bool {
        self.waker.clear();
        self.introductions.look();
        while let Some(thread_end) = self.introductions.take() {
            self.lanes.push((self.lanes_begun, thread_end));
            self.lanes_begun += 1;
        }
        let mut come = Vec::new();
        for (lane, thread_end) in &mut self.lanes {
            thread_end.unsecured.look();
            come.extend(core::iter::from_fn(|| thread_end.unsecured.take()).map(|unsecured| (*lane, unsecured)));
        }
        for (lane, unsecured) in come {
            self.begin(lane, unsecured);
        }
        self.lanes.retain(|(_, thread_end)| !thread_end.unsecured.has_ended());
        !(self.lanes.is_empty() && self.introductions.has_ended())
    }

    /// Begins a handshake.
    fn begin(&mut self, lane: u64, unsecured: Unsecured) {
        let Unsecured { tcp, address, whose, charge } = unsecured;
        let ends = self.ends.load();
        let is_called = matches!(whose, Whose::Called(..));
        let session = match &whose {
            Whose::Client(..) => ends.server.as_ref().map(tls::ServerEnd::session),
            Whose::Called(_, _, host) => ends.client.as_ref().map(|client| client.session(host)),
        };
        let session = session.unwrap_or_else(|| {
            Err(Trouble::Protocol("tls.ca names no authority that is trusted for connections to clients".into()))
        });
        let begun = session.map_err(Broken::Tls).and_then(|session| {
            let mut secure = Secure::new(tcp, session);
            if is_called {
                secure.greet().map_err(Broken::Tls)?;
            }
            Ok(secure)
        });
        let secure = match begun {
            Ok(secure) => secure,
            Err(broken) => return self.fail(lane, address, whose, &broken.into(), false),
        };
        let interest = Interest { write: secure.is_full(), ..Interest::READ };
        let until = time::now() + self.limit;
        let pending =
            Pending { lane, secure, address, whose, until, interest, is_fresh: true, is_plain: false, _charge: charge };
        let token = self.pending.insert(pending);
        self.note_under_way(1);
        if let Some(pending) = self.pending.get(token)
            && let Err(error) = self.poll.add(pending.secure.tcp(), Socket::Incoming(Tag::Giop, token), interest)
        {
            self.end(token, &HandshakeFailure::Connection(error));
        } else if is_called {
            // The peer may answer so fast that the handshake is over now, and the poll would report nothing.
            self.go_on(token);
        }
    }

    /// Continues the ready handshakes, one step each, addresses with few of them first.
    fn serve_sockets(&mut self) {
        let mut of_address: HashMap<IpAddr, usize> = HashMap::new();
        let mut ready: Vec<(usize, Token)> = Vec::new();
        for index in 0..self.poll.len() {
            let Some(found) = self.poll.get(index) else { continue };
            let Socket::Incoming(_, token) = found.socket else { continue };
            let Some(pending) = self.pending.get(token) else { continue };
            let before = of_address.entry(pending.address.ip()).or_insert(0);
            ready.push((*before, token));
            *before += 1;
        }
        ready.sort_by_key(|(before, _)| *before);
        // The poll tells again of the others.
        for (_, token) in ready.into_iter().take(Budget::CONNECTIONS.events as usize) {
            self.go_on(token);
        }
    }

    fn go_on(&mut self, token: Token) {
        let Some(pending) = self.pending.get_mut(token) else { return };
        let Pending { secure, is_fresh, is_plain, .. } = pending;
        let mut first = |arrived: &[u8]| {
            if core::mem::replace(is_fresh, false) {
                *is_plain = tls::is_plain(arrived);
            }
        };
        let step = match secure.shake(&mut first) {
            Ok(true) => Step::Over,
            Ok(false) => Step::Waits,
            Err(broken) => Step::Failed(broken),
        };
        match step {
            Step::Waits => {
                let interest = Interest { write: pending.secure.is_full(), ..Interest::READ };
                if interest != core::mem::replace(&mut pending.interest, interest) {
                    let socket = Socket::Incoming(Tag::Giop, token);
                    if let Err(error) = self.poll.change(pending.secure.tcp(), socket, interest) {
                        self.end(token, &HandshakeFailure::Connection(error));
                    }
                }
            }
            Step::Over => self.finish(token),
            Step::Failed(broken) => self.end(token, &broken.into()),
        }
    }

    /// Returns a connection to its lane.
    fn finish(&mut self, token: Token) {
        let Some(pending) = self.take(token) else { return };
        let Pending { lane, secure, address, whose, .. } = pending;
        let session = secure.session();
        let name = self.reports.note_made(address, session.described(), session.peer_names());
        self.send(lane, Secured { stream: Ok(Stream::Secure(Box::new(secure))), address, whose, name });
    }

    /// Ends a handshake that has failed.
    fn end(&mut self, token: Token, failure: &HandshakeFailure) {
        let Some(pending) = self.take(token) else { return };
        let Pending { lane, address, whose, is_plain, .. } = pending;
        self.fail(lane, address, whose, failure, is_plain);
    }

    /// Reports that there is no TLS with a peer, and why.
    fn fail(&mut self, lane: u64, address: SocketAddr, whose: Whose, failure: &HandshakeFailure, is_plain: bool) {
        self.reports.count_failure(failure);
        match &whose {
            Whose::Client(protocol, _) if is_plain => self.reports.tell_plain(address, protocol),
            Whose::Client(protocol, _) => self.reports.tell_failure(address, protocol, failure),
            // A failed call is logged by its consumer's name.
            Whose::Called(..) => {
                self.send(lane, Secured { stream: Err(failure.to_string()), address, whose, name: None })
            }
        }
    }

    /// Ends overdue handshakes.
    fn end_overdue(&mut self) {
        let now = time::now();
        let late: Vec<Token> =
            self.pending.iter().filter(|(_, pending)| pending.until <= now).map(|(token, _)| token).collect();
        for token in late {
            self.end(token, &HandshakeFailure::Overdue);
        }
    }

    fn take(&mut self, token: Token) -> Option<Pending> {
        let pending = self.pending.remove(token)?;
        self.note_under_way(-1);
        // Should that fail, the descriptor's end would be reported for a token that belongs to no handshake.
        let _ = self.poll.remove(pending.secure.tcp());
        Some(pending)
    }

    fn note_under_way(&mut self, more: isize) {
        self.under_way = self.under_way.saturating_add_signed(more);
        self.reports.note_under_way(self.under_way);
    }

    fn send(&mut self, lane: u64, secured: Secured) {
        if let Some((_, thread_end)) = self.lanes.iter_mut().find(|(number, _)| *number == lane) {
            thread_end.secured.send(secured);
        }
    }
}

impl From<Broken> for HandshakeFailure {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Socket(error) => Self::Connection(error),
            Broken::Tls(trouble) => Self::Tls(trouble),
        }
    }
}

//! Accepts the clients of every protocol: a limited number in each round, each with a place that is charged to its address.

use core::fmt;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use crate::counters::Counter;
use crate::handshakes::{Secured, Unsecured, Whose};
use crate::lane::budget::Budget;
use crate::lane::context::Context;
use crate::lane::io::net::{self, Listener, Tcp};
use crate::lane::io::occupied::RESERVED;
use crate::lane::io::slots::Token;
use crate::lane::io::socket::{Layer, Socket};
use crate::lane::io::stream::Stream;
use crate::lane::io::system::Interest;
use crate::lane::run::Worker;
use crate::protocols::link::ZENOH_ADDRESS;
use crate::protocols::{Tag, WireProtocol, by_tag};
use accounts::{Account, Charge, Resource, Spent, SpentBy};
use engine::Time;

/// A listening socket of a protocol.
pub(crate) struct Entrance {
    pub(crate) listener: Option<Listener>,
    /// Whether connections are being refused, which has been logged.
    refusing: bool,
    /// Whether listening has stopped for want of descriptors.
    deaf: bool,
}

/// A client that has connected and may stay.
pub(crate) struct Arrival {
    pub(crate) stream: Stream,
    pub(crate) address: SocketAddr,
    /// The client's place among the connections, and its account.
    pub(crate) place: Charge,
    /// The client's address on this lane, for its quota.
    pub(crate) quota: Token,
    /// Whether the client may only look at events.
    pub(crate) looks_on: bool,
    /// Time of arrival.
    pub(crate) at: Time,
}

/// An operator over HTTP that has a connection for lines of JSON, through no port of that protocol.
#[derive(Debug)]
pub(crate) struct Visitor {
    pub(crate) tcp: TcpStream,
    /// Peer address of the HTTP connection.
    pub(crate) address: SocketAddr,
    /// Account with the identity shown over HTTP.
    pub(crate) account: Arc<Account>,
    /// Whether the operator may only look at events.
    pub(crate) looks_on: bool,
}

impl Entrance {
    /// An entrance, open if there is a listener.
    pub(crate) const fn new(listener: Option<Listener>) -> Self {
        Self { listener, refusing: false, deaf: false }
    }

    /// Closes the listener: the system refuses connections from now on.
    pub(crate) fn close(&mut self) {
        self.listener = None;
        self.deaf = false;
    }
}

/// The peer of a connection, for the log.
pub(crate) struct Named<'a>(pub(crate) SocketAddr, pub(crate) &'a Account);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(address, account) = self;
        match account.identity().certified() {
            Some(name) => write!(f, "{address} ({name})"),
            None => address.fmt(f),
        }
    }
}

impl Context {
    /// Notes that a client speaks TLS at a plain port. It is logged once for each address.
    #[cold]
    pub(crate) fn note_tls_at_plain_port(&mut self, protocol: Tag, address: SocketAddr) {
        self.counters.add(Counter::TlsAtPlainPort, 1);
        let ip = address.ip();
        if self.io.logged_once.is_first(ip) {
            self.log(log::Level::Warn, || {
                format!(
                    "closed the connection from {address} for {protocol}: it speaks TLS, and this port does not; have it use the port of [tls] \
                     (said once of {ip}; see tls_at_plain_port)"
                )
            });
        }
    }
}

impl Worker {
    /// Accepts waiting connections of a protocol, as many as the budget allows.
    #[cold]
    pub(crate) fn accept(&mut self, protocol: Tag, layer: Layer) {
        let mut began = self.core.cx.clock.time();
        let until = began + Budget::CONNECTIONS.time;
        for _ in 0..Budget::CONNECTIONS.events {
            let Some(listener) = &self.clients.entrance(protocol, layer).listener else { return };
            let (tcp, address) = match net::accept(listener) {
                Ok(Some(accepted)) => accepted,
                Ok(None) => return,
                Err(error) => {
                    self.core.cx.counters.add(Counter::ConnectionsRefused, 1);
                    self.note_refusal(protocol, layer, || format!("cannot accept a connection: {error}"));
                    // There may be a descriptor when it is tried again.
                    self.have_one_give_way(false);
                    return self.listen(protocol, layer, false);
                }
            };
            let place = match self.place_for(protocol, layer, address) {
                Ok(place) => place,
                Err(reason) => {
                    // The socket is new and has room for the answer; with TLS nothing can be sent before the handshake.
                    if let (Layer::Plain, Some(words)) = (layer, by_tag!(protocol, P => P::NO_PLACE(reason))) {
                        let _ = net::write(&tcp, &words);
                    }
                    continue;
                }
            };
            let quota = self.core.cx.io.quotas.arrive(place.account().ip());
            let is_in = match layer {
                Layer::Plain => {
                    let at = self.core.cx.clock.now;
                    let arrival = Arrival { stream: tcp.into(), address, place, quota, looks_on: false, at };
                    self.greet(protocol, arrival).is_some()
                }
                Layer::Tls => {
                    self.begin_handshake(protocol, tcp, address, place);
                    false
                }
            };
            if !is_in {
                self.core.cx.io.quotas.leave(quota);
                continue;
            }
            self.clients.entrance(protocol, layer).refusing = false;
            if self.core.cx.io.quotas.binds() {
                let now = self.core.cx.clock.time();
                self.core.cx.io.quotas.charge(quota, now.since(began));
                if now >= until {
                    return;
                }
                began = now;
            }
        }
    }

    /// Hands a connection to its protocol. Returns how many of the protocol's are open, if it was kept.
    fn greet(&mut self, protocol: Tag, arrival: Arrival) -> Option<usize> {
        let (address, account) = (arrival.address, Arc::clone(arrival.place.account()));
        let open = by_tag!(protocol, P => P::LET_IN(self, arrival))?;
        self.core.cx.log_debug(|| {
            format!("accepted a connection from {} for {protocol}; {open} open", Named(address, &account))
        });
        Some(open)
    }

    /// Starts the TLS handshake of a client's connection, which is closed if too many handshakes are under way.
    fn begin_handshake(&mut self, protocol: Tag, tcp: Tcp, address: SocketAddr, place: Charge) {
        let account = Arc::clone(place.account());
        let charge = match account.charge(Resource::Handshakes, 1) {
            Ok(charge) => charge,
            Err(spent) => {
                self.core.cx.counters.add(Counter::ConnectionsRefused, 1);
                self.core.cx.counters.add(Counter::of_refusal(spent), 1);
                let text = || format!("closed a connection from {address}: {spent}");
                return self.note_refusal(protocol, Layer::Tls, text);
            }
        };
        let whose = Whose::Client(protocol, place);
        let sent =
            self.core.cx.unsecured.as_mut().map(|mailbox| mailbox.send(Unsecured { tcp, address, whose, charge }));
        if !matches!(sent, Some(Ok(()))) {
            self.core.cx.counters.add(Counter::ConnectionsRefused, 1);
            self.note_refusal(protocol, Layer::Tls, || {
                format!("closed a connection from {address}: too many TLS handshakes wait")
            });
        }
    }

    /// Handles the end of a connection's TLS handshake.
    #[cold]
    pub(crate) fn handle_secured(&mut self, secured: Secured) {
        let Secured { stream, address, whose, name } = secured;
        match whose {
            Whose::Client(protocol, place) => {
                let is_open = match address == ZENOH_ADDRESS {
                    true => !self.core.cx.reporting.draining.has_begun(),
                    false => self.clients.entrance(protocol, Layer::Tls).listener.is_some(),
                };
                let Some(stream) = stream.ok().filter(|_| is_open) else { return };
                if let Some(name) = name {
                    place.account().identity().certify(name);
                    self.core.cx.name_by_configuration(place.account());
                }
                let quota = self.core.cx.io.quotas.arrive(place.account().ip());
                let at = self.core.cx.clock.now;
                if self.greet(protocol, Arrival { stream, address, place, quota, looks_on: false, at }).is_none() {
                    return self.core.cx.io.quotas.leave(quota);
                }
                self.clients.entrance(protocol, Layer::Tls).refusing = false;
            }
            Whose::Called(protocol, connection, _) => {
                by_tag!(protocol, P => P::SECURED(&mut self.core, connection, stream));
            }
        }
    }

    /// Lets in an operator that comes over HTTP, with its identity there. Its connection counts as one from its address.
    #[cold]
    pub(crate) fn let_in_visitor(&mut self, visitor: Visitor) {
        let Visitor { tcp, address, account, looks_on } = visitor;
        if self.core.cx.reporting.draining.has_begun() {
            return;
        }
        let Ok(place) = self.place_for(Tag::Json, Layer::Plain, address) else { return };
        let (shown, identity) = (account.identity(), place.account().identity());
        shown.certified().map(|name| identity.certify(Arc::clone(name)));
        shown.token().map(|name| identity.show_token(Arc::clone(name)));
        self.core.cx.name_by_configuration(place.account());
        let quota = self.core.cx.io.quotas.arrive(place.account().ip());
        let arrival = Arrival { stream: tcp.into(), address, place, quota, looks_on, at: self.core.cx.clock.now };
        if self.greet(Tag::Json, arrival).is_none() {
            self.core.cx.io.quotas.leave(quota);
        }
    }

    /// Admits a client that came through no port of this service, and of which the address stands for what it came through.
    #[cold]
    pub(crate) fn let_in_stream(&mut self, protocol: Tag, layer: Layer, (tcp, address): (TcpStream, SocketAddr)) {
        if self.core.cx.reporting.draining.has_begun() {
            return;
        }
        let Ok(place) = self.place_for(protocol, layer, address) else { return };
        // Its name in rules of access, beside that of a certificate.
        let _ = place.account().identity().note_protocol("zenoh");
        let quota = self.core.cx.io.quotas.arrive(place.account().ip());
        let is_in = match (layer, Stream::from(tcp)) {
            (Layer::Tls, Stream::Plain(tcp)) => {
                self.begin_handshake(protocol, tcp, address, place);
                false
            }
            (_, stream) => {
                let at = self.core.cx.clock.now;
                self.greet(protocol, Arrival { stream, address, place, quota, looks_on: false, at }).is_some()
            }
        };
        if !is_in {
            self.core.cx.io.quotas.leave(quota);
        }
    }

    /// Charges a place for a connection from `address`.
    ///
    /// # Errors
    /// The reason why there is none, for its client.
    fn place_for(&mut self, protocol: Tag, layer: Layer, address: SocketAddr) -> Result<Charge, &'static str> {
        let Some(account) = self.clients.open_account(address.ip(), &self.core.cx) else {
            return Err("no connections are taken here");
        };
        let mut granted = account.charge(Resource::Connections, 1);
        let is_full = |granted: &Result<Charge, Spent>| granted.as_ref().is_err_and(|spent| spent.by == SpentBy::All);
        if is_full(&granted) && self.have_one_give_way(false) {
            granted = account.charge(Resource::Connections, 1);
        }
        if is_full(&granted) && by_tag!(protocol, P => P::HAS_RESERVE) && self.is_place_reserved(&account) {
            account.note_reserved();
            self.core.cx.counters.add(Counter::ConnectionsLimit, 1);
            return Ok(account.charge_anyway(Resource::Connections, 1));
        }
        let spent = match granted {
            Ok(place) => return Ok(place),
            Err(spent) => spent,
        };
        self.core.cx.counters.add(Counter::ConnectionsRefused, 1);
        self.core.cx.counters.add(Counter::of_refusal(spent), 1);
        let open = account.used_by_address(Resource::Connections);
        let max = account.accounts().limit(Resource::Connections);
        self.note_refusal(protocol, layer, || match spent.by {
            SpentBy::All => format!("closed a connection from {address}: limits.connections_max = {max} are open"),
            SpentBy::Client => {
                format!("closed a connection from {address}: {open} from there are open, its quota of {max}")
            }
        });
        Err(match spent.by {
            SpentBy::All => "as many connections are open as may be (limits.connections_max)",
            SpentBy::Client => "as many connections from this address are open as may be (limits.client_share_percent)",
        })
    }

    /// Whether a place in the reserve beside the limit is free, or was freed by a connection there.
    fn is_place_reserved(&mut self, account: &Account) -> bool {
        let accounts = account.accounts();
        let reaches = accounts.limit(Resource::Connections).saturating_add(RESERVED);
        accounts.used(Resource::Connections) < reaches || self.have_one_give_way(true)
    }

    /// Closes the longest idle connection of those in the reserve, or of the others. False if none is idle.
    #[cold]
    fn have_one_give_way(&mut self, in_reserve: bool) -> bool {
        let now = self.core.cx.clock.now;
        let mut occupied = core::mem::take(&mut self.core.cx.io.occupied);
        let found = occupied.next(now, |protocol, token| self.idle_since(protocol, token, in_reserve));
        let is_news = found.is_some() && occupied.is_news(now);
        self.core.cx.io.occupied = occupied;
        let Some((protocol, token)) = found else { return false };
        self.core.cx.counters.add(Counter::ConnectionsGaveWay, 1);
        let named = self.have_give_way(protocol, token);
        if is_news {
            self.core.cx.log(log::Level::Warn, || {
                let named = named.unwrap_or_default();
                format!(
                    "closed the idle connection from {named} for {protocol}, since another needs its place: as many are open as may be \
                     (limits.connections_max, or the descriptors of the process); once in a minute, see connections_gave_way"
                )
            });
        }
        true
    }

    /// Logs the first refusal of an episode; later ones are only counted.
    fn note_refusal(&mut self, protocol: Tag, layer: Layer, text: impl FnOnce() -> String) {
        if !core::mem::replace(&mut self.clients.entrance(protocol, layer).refusing, true) {
            self.core.cx.log(log::Level::Warn, text);
        }
    }

    /// Starts or stops listening for connections.
    fn listen(&mut self, protocol: Tag, layer: Layer, listening: bool) {
        let interest = if listening { Interest::READ } else { Interest::NONE };
        let entrance = self.clients.entrance(protocol, layer);
        let Some(listener) = &entrance.listener else { return };
        if self.core.cx.io.poll.change(listener, Socket::Listener(protocol, layer), interest).is_ok() {
            entrance.deaf = !listening;
        }
        if entrance.deaf {
            self.core.cx.clock.plan_sweep();
        }
    }

    /// Listens again at the ports that stopped for want of descriptors.
    pub(crate) fn listen_again(&mut self) {
        for (protocol, layer) in Tag::ALL.into_iter().flat_map(|protocol| Layer::ALL.map(|layer| (protocol, layer))) {
            if self.clients.entrance(protocol, layer).deaf {
                self.listen(protocol, layer, true);
            }
        }
    }
}

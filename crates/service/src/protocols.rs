//! The wire protocols: a folder for each, and the interface that all of them have for a lane.
//!
//! A lane knows events, outboxes, timers, and sockets as streams of bytes; a protocol knows what the bytes mean. [`protocols!`] has the
//! list, and generates [`Tag`], the numbers in handles, forms, output forms and sockets, the structs with one field for each protocol, and
//! dispatchers: [`by_tag!`], a `match` on the tag, and [`of_each!`] and [`any_of!`], a statement for each. No function is called through a
//! pointer on an event's path, and a function that a protocol leaves out of [`WireProtocol`] costs no call.
//!
//! A protocol uses the lane as it needs: it hands events in with `Core::admit`, is notified by [`WireProtocol::answer`] when their
//! acknowledgement is due, and gets deliveries by [`WireProtocol::send`]. ARCHITECTURE.md describes how to add one.

mod admin_messages;
mod client_names;
pub(crate) mod dds;
pub(crate) mod forms;
pub(crate) mod giop;
pub(crate) mod json;
pub(crate) mod link;
pub(crate) mod local_proxies;
pub(crate) mod tempo;
mod timers;
#[cfg(test)]
pub(crate) mod toy;
#[cfg(test)]
pub(crate) mod ways;

use core::fmt;
use core::ops::Range;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use arc_swap::ArcSwap;
use engine::{ChannelId, Delivery, Event, Form, Lane, LaneId, OutboxId, OutputForm, Peer, ProxyKey, Snapshot, Time};

use crate::admin::values::{FederationMember, LinkStatus};
use crate::config::{Config, ConfigError};
use crate::lane::context::Context;
use crate::lane::intake::Refused;
use crate::lane::io::entrance::{Arrival, Entrance, Named};
use crate::lane::io::net::{self, Listener, Poll};
use crate::lane::io::quotas::{Rounds, Work};
use crate::lane::io::slots::Token;
use crate::lane::io::socket::{Layer, Socket};
use crate::lane::io::stream::Stream;
use crate::lane::io::system::{Interest, Ready};
use crate::lane::links::messages::ToAdministration;
use crate::lane::run::{Common, Core, LaneEnds, Worker};
use crate::published::Published;
use access::{OutgoingPolicy, Tokens};
use accounts::{Account, Addresses, Resource};
use corba::event::{self, FORM_STRUCTURED, Translated, Untranslatable};
use corba::{AdvertisedName, LocalChannels, LocalProxy, Subscribed};

use self::tempo::types::DeclaredTypes;

/// Answers of administration and their limits, properties, and lists, as the CORBA crate has them.
pub(crate) use corba::{
    ANSWER_BYTES_MAX, Access, Act, ActOutcome, Creations, Declared, DelayedReply, Denied, Forbidden, ListedChannel,
    RestoredClient, Settable, SupplierStatus, Unpublished, dead_letter_channels, log_lines::LogLines,
};

/// The published form of rules of access.
#[cfg(test)]
pub(crate) fn access_by(rules: Option<access::Rules>, accounts: &Arc<accounts::Accounts>) -> Option<Access> {
    let (config, memory) = (Config::default(), crate::memory::Memory::new(1 << 30));
    let place = crate::start::Place { host: "127.0.0.1", port: 2809, secure: None };
    let mut protocol = corba::Protocol::new(crate::start::protocol_settings(&config, memory, place, false));
    protocol.guard.set_access(&mut protocol.objects, rules, accounts);
    protocol.publish()?.access
}

pub(crate) use admin_messages::{Answered, Fault, LinkAct, LinkOrder, Request, ToProtocol, Wish};
/// Calls to clients that administration requests, and their results.
pub(crate) use giop::admin_messages::{Call, CallFailure, Reply};
/// Objects that clients of every protocol name. Today they are all CORBA's.
pub(crate) use giop::objects::{Objects, named_channels};
/// A push on its way to the lane that has its proxy, or back; and a connection on its way to another lane.
pub(crate) use giop::{callers::Incoming as Moving, foreign_pushes::ForeignPush as Foreign};

/// A protocol's interface for lanes, administration and the start of a service: implemented by the type that has its state on a lane.
///
/// Each function is a constant and called directly. A protocol may leave out those with a default here, which then cost no call.
pub(crate) trait WireProtocol: Sized {
    /// Name in logs.
    const NAME: &'static str;
    /// Whether a few connections beyond the limit are reserved, for the clients of administration.
    const HAS_RESERVE: bool = false;
    /// The lane that serves all its consumers, if translations for them are made only there. `None` if they are made where the event comes
    /// in, once for all lanes.
    const MADE_ON: Option<LaneId> = Some(LaneId::MAIN);

    /// Settings, the same for all lanes.
    type Settings: Clone + fmt::Debug;
    /// Sockets and threads of the main lane, beside listeners for connections.
    type Sockets: Default + fmt::Debug;
    /// Identifies the recipient of the answer when events were taken in or refused.
    type Claim: Copy + fmt::Debug;

    fn settings(given: &Given<'_>) -> Self::Settings;

    /// # Errors
    /// The poll does not take a socket, or the system refuses a waker.
    fn new(common: &Common, ends: &mut LaneEnds, sockets: Self::Sockets, poll: &Poll) -> io::Result<Self>;

    /// Returns the configured address for its connections, if any.
    const LISTEN_ADDRESS: fn(&Config, Layer) -> Result<Option<SocketAddr>, ConfigError> = |_, _| Ok(None);

    /// Returns the answer to a client for which there is no place, if the protocol has one.
    const NO_PLACE: fn(reason: &str) -> Option<Vec<u8>> = |_| None;
    /// Takes a connection that a client made. Returns the number of its open connections then; `None` if the poll does not take it.
    const LET_IN: fn(&mut Worker, Arrival) -> Option<usize> = |_, _| None;
    /// Returns the client of a connection. Those in the reserve count as idle even with a proxy.
    const CLIENT: fn(&Worker, Token, in_reserve: bool) -> Option<Client<'_>> = |_, _, _| None;
    /// Closes a connection that gives way to another.
    const CLOSE: fn(&mut Worker, Token) = |_, _| ();
    /// Serves a socket that is ready.
    const SERVE: fn(&mut Worker, Ready) = |_, _| ();
    /// Continues with a connection with unhandled messages, or one that is to be made.
    const RESUME: fn(&mut Worker, Socket) = |_, _| ();
    /// Writes output of a connection that a client made.
    const FLUSH: fn(&mut Worker, Token) = |_, _| ();
    /// Returns a connection's state in the rounds.
    const ROUNDS: fn(&mut Worker, Socket) -> Option<&mut Rounds> = |_, _| None;
    /// Whether clients' connections in `places` places from `from` on have unwritten output. `None` if there are no places from there on.
    const HAS_OUTPUT_AT: fn(&Worker, from: u32, places: u32) -> Option<bool> = |_, _, _| None;
    /// Handles the addresses of a host for one of its connections, or the reason why there are none.
    const RESOLVED: fn(&mut Core, Token, Result<Vec<SocketAddr>, String>) = |_, _, _| ();
    /// Handles the end of the TLS handshake of a connection that it made, or the reason why it failed.
    const SECURED: fn(&mut Core, Token, Result<Stream, String>) = |_, _, _| ();
    /// Closes all connections that clients made, since the lane ends.
    const CLOSE_ALL: Step = |_| ();

    /// Notes the current time.
    const NOTE_TIME: CoreStep = |_| ();
    /// Adapts to new routing that the lane has taken over.
    const HANDLE_NEW_ROUTING: fn(&mut Core, before: &Snapshot) = |_, _| ();
    /// Forgets numbers of event types, which are about to be reused.
    const FORGET_TYPES: CoreStep = |_| ();
    /// Begins a round with the rest of the last one.
    const BEGIN_ROUND: Step = |_| ();
    /// Notes that the lane looks: messages posted from now on wake it again.
    const LOOK: fn(&Core) = |_| ();
    /// Serves messages of its threads. True if there are more.
    const SERVE_RINGS: fn(&mut Worker) -> bool = |_| false;
    /// Does work that is due at a time of its own.
    const SERVE_DUE: CoreStep = |_| ();
    /// Continues work that waited for room, or was too much for one round.
    const GO_ON: Step = |_| ();
    /// Takes in more events of long sequences, and messages that waited for their turn.
    const TAKE_IN_MORE: Step = |_| ();
    /// Ends waits that are overdue.
    const SWEEP: Step = |_| ();
    /// Writes output of connections that the service made, and datagrams.
    const WRITE_EVENTS: CoreStep = |_| ();

    /// Whether there is such output.
    const IS_DUE: Check = |_| false;
    /// Whether there is work without a socket or a message announcing it.
    const GOES_ON: Check = |_| false;
    /// Whether a client can be answered that waited for something other than the intake.
    const HAS_TO_ANSWER: CoreCheck = |_| false;
    /// Whether anything has a time limit.
    const HAS_DEADLINES: Check = |_| false;
    /// Time of the next work that the lane does not know otherwise.
    const NEXT_DUE: fn(&Core) -> Option<Time> = |_| None;
    /// Whether anything is under way that is in no outbox, except unwritten output.
    const HAS_UNDER_WAY: CoreCheck = |_| false;
    /// Whether no connection is open and no work for others is left: for a lane that is to end.
    const IS_DONE: Check = |_| true;

    /// Sends events to their consumer, and empties their list.
    const SEND: fn(&mut Core, &Delivery, &mut Vec<Arc<Event>>);
    /// Hands events of the engine to the client that waits for its request.
    const HAND_OVER: fn(&mut Core, Delivery, Vec<Arc<Event>>) = |core, _, events| core.cx.recycle(events);
    /// Answers that events were taken in, or why not.
    const ANSWER: fn(&mut Worker, Self::Claim, Option<Refused>);
    /// Handles a proxy that administration has made or refused.
    const PROXY_REGISTERED: fn(&mut Core, Peer, Result<ProxyKey, String>, &Arc<Account>) = |_, _, _, _| ();
    /// Handles the list of channels that one of its clients requested, or the reason why there is none.
    const CHANNELS_LISTED: fn(&mut Core, Peer, Result<LocalChannels, String>) = |_, _, _| ();
    /// Handles the end of a proxy that was ended elsewhere.
    const PROXY_GONE: fn(&mut Core, Peer) = |_, _| ();

    /// Returns the status of flows over links in the places, for a survey. `None` if there are no places from there on.
    const LINKS_AT: LinksAt = |_, _, _, _| None;
    /// Pauses or resumes a link, or returns why not. `None` if it has no link of this name.
    const PAUSE_LINK: fn(&mut Worker, name: &str, paused: bool) -> Option<Result<(), String>> = |_, _, _| None;
    /// Services of the federation, this one first.
    const FEDERATION: fn(&Core) -> Vec<FederationMember> = |_| Vec::new();
    /// Adds or removes a link; `None` if it has none of that name to remove.
    const CHANGE_LINK: fn(&mut Worker, &LinkAct) -> Option<Result<(), String>> = |_, _| None;
    /// Handles the subscriptions of a channel that one of its clients watches.
    const SUBSCRIBED: fn(&mut Core, Peer, Subscribed) = |_, _, _| ();
    /// Handles that the proxy of one of its clients gets the events that it was limited to.
    const LIMITED: fn(&mut Core, ProxyKey) = |_, _| ();
    /// Handles the channel names that are sent to a linked service.
    const NAMES: fn(&mut Core, Peer, Vec<AdvertisedName>) = |_, _, _| ();

    /// Returns the tag for the bytes of an event in its form that may have been delivered before the process began.
    const AS_REPEATED: fn(tag: u64) -> u64 = event::as_repeated;
    /// Whether an event needs no translation for a consumer. By default consumers take structured events.
    const FITS: fn(Form, tag: u64, OutputForm) -> bool = |form, _, _| form == FORM_STRUCTURED;
    /// Translates an event of a CORBA form for consumers; `came` is its arrival. The output is unchanged if that fails.
    const PUT_INTO: PutInto = |_, _, (form, tag, bytes), (_, came), out| {
        event::translate(form, tag, bytes, (event::protocol_output_form(FORM_STRUCTURED), came), out).map_err(Some)
    };
}

/// Functions of a protocol, on a lane's thread or on the part of it that the event path needs.
pub(crate) type Step = fn(&mut Worker);
pub(crate) type CoreStep = fn(&mut Core);
pub(crate) type Check = fn(&Worker) -> bool;
pub(crate) type CoreCheck = fn(&Core) -> bool;
pub(crate) type LinksAt = fn(&Protocols, &Lane, Time, Range<u32>) -> Option<Vec<LinkStatus>>;
type PutInto = fn(
    &Protocols,
    ChannelId,
    (Form, u64, &[u8]),
    (OutputForm, u64),
    &mut Vec<u8>,
) -> Result<Translated, Option<Untranslatable>>;

/// The client of a connection.
pub(crate) struct Client<'a> {
    pub(crate) address: SocketAddr,
    pub(crate) account: &'a Account,
    /// Since when the connection is idle; `None` if it is in use.
    pub(crate) idle_since: Option<Time>,
}

/// Inputs for protocols' settings.
pub(crate) struct Given<'a> {
    pub(crate) config: &'a Config,
    /// Declared types of Tempo topics.
    pub(crate) types: Arc<DeclaredTypes>,
    /// Minimum octets charged for a request while administration has it: many small ones are not free.
    pub(crate) request_bytes_min: u64,
    /// Whether CORBA's listener outlives the service: [`Listeners::outlive`].
    pub(crate) address_outlives: bool,
    /// Addresses at which no client is called.
    pub(crate) policy: Arc<OutgoingPolicy>,
    /// The tokens that clients may show.
    pub(crate) tokens: Arc<ArcSwap<Tokens>>,
}

macro_rules! protocols {
    ($d:tt $($(#[$on:meta])* $Tag:ident $module:ident,)+) => {
        /// Identifies a protocol. Its number is stored on disk with events, in the upper octet of their form.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Tag {
            $($(#[$on])* $Tag,)+
        }

        impl Tag {
            /// All protocols, by number.
            pub(crate) const ALL: [Self; [$($(#[$on])* Self::$Tag),+].len()] = [$($(#[$on])* Self::$Tag),+];
        }

        /// A value for each protocol.
        #[derive(Debug, Default)]
        pub(crate) struct ByTag<T> {
            $($(#[$on])* $module: T,)+
        }

        impl<T> ByTag<T> {
            pub(crate) const fn of(&mut self, tag: Tag) -> &mut T {
                match tag {
                    $($(#[$on])* Tag::$Tag => &mut self.$module,)+
                }
            }

            fn map<U>(self, to: impl Fn(T) -> U) -> ByTag<U> {
                ByTag { $($(#[$on])* $module: to(self.$module),)+ }
            }
        }

        /// State of each protocol on a lane, without the connections that CORBA clients made.
        pub(crate) struct Protocols {
            $($(#[$on])* pub(crate) $module: $module::Protocol,)+
        }

        impl Protocols {
            /// # Errors
            /// The poll does not take a socket, or the system refuses a waker.
            pub(crate) fn new(common: &Common, ends: &mut LaneEnds, sockets: Sockets, poll: &Poll) -> io::Result<Self> {
                Ok(Self { $($(#[$on])* $module: WireProtocol::new(common, ends, sockets.$module, poll)?,)+ })
            }
        }

        /// Settings of each protocol, the same for all lanes.
        #[derive(Debug, Clone)]
        pub(crate) struct Settings {
            $($(#[$on])* pub(crate) $module: <$module::Protocol as WireProtocol>::Settings,)+
        }

        impl Settings {
            pub(crate) fn new(given: &Given<'_>) -> Self {
                Self { $($(#[$on])* $module: $module::Protocol::settings(given),)+ }
            }
        }

        /// Sockets and threads of each protocol on the main lane, beside listeners for connections.
        #[derive(Debug, Default)]
        pub(crate) struct Sockets {
            $($(#[$on])* pub(crate) $module: <$module::Protocol as WireProtocol>::Sockets,)+
        }

        /// Recipient of the answer when events were taken in or refused: a protocol's client, in that protocol's terms.
        #[derive(Debug, Clone, Copy)]
        pub(crate) enum Claim {
            $($(#[$on])* $Tag(<$module::Protocol as WireProtocol>::Claim),)+
        }

        impl Worker {
            /// Answers that events were taken in, or why not.
            pub(crate) fn answer(&mut self, claim: Claim, refused: Option<Refused>) {
                match claim {
                    $($(#[$on])* Claim::$Tag(claim) => $module::Protocol::ANSWER(self, claim, refused),)+
                }
            }
        }

        /// Evaluates an expression with the type of the protocol that a tag names.
        macro_rules! by_tag {
            ($d tag:expr, $d P:ident => $d body:expr) => {
                match $d tag {
                    $($(#[$on])* $crate::protocols::Tag::$Tag => {
                        type $d P = $crate::protocols::$module::Protocol;
                        $d body
                    })+
                }
            };
        }

        /// Evaluates an expression with the type of each protocol in turn.
        macro_rules! of_each {
            ($d P:ident => $d body:expr) => {
                $($(#[$on])* {
                    type $d P = $crate::protocols::$module::Protocol;
                    $d body;
                })+
            };
        }

        /// Whether an expression is true with the type of some protocol.
        macro_rules! any_of {
            ($d P:ident => $d body:expr) => {
                'any: {
                    $crate::protocols::of_each!($d P => if $d body { break 'any true });
                    false
                }
            };
        }
    };
}

protocols! {$
    Giop giop,
    Json json,
    Tempo tempo,
    Dds dds,
    Link link,
    #[cfg(test)]
    Toy toy,
}
#[expect(clippy::single_component_path_imports, reason = "macros that a macro makes have no other path")]
pub(crate) use {any_of, by_tag, of_each};

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(by_tag!(*self, P => P::NAME))
    }
}

impl Tag {
    pub(crate) const fn number(self) -> u64 {
        self as u64
    }

    /// The protocol with the number in the lowest octet.
    #[inline]
    pub(crate) fn numbered(number: u64) -> Self {
        let protocol = usize::try_from(number & 0xff).ok().and_then(|number| Self::ALL.get(number));
        protocol.copied().unwrap_or(Self::Giop)
    }

    /// Position of the protocol's number in handles of local proxies: below the bit common to them. Each protocol has 2^55 handles.
    const PEERS: u32 = 55;

    /// The first handle of the protocol for its clients' proxies in the objects of CORBA.
    pub(crate) const fn first_peer(self) -> Peer {
        Peer(LocalProxy::FIRST_PEER.0 | self.number() << Self::PEERS)
    }

    /// The protocol of the client with this handle.
    pub(crate) fn of_peer(peer: Peer) -> Self {
        Self::numbered(peer.0 >> Self::PEERS)
    }

    /// The protocol of a form. Each has 256 forms: the upper octet is its number.
    #[inline]
    pub(crate) fn of_form(form: Form) -> Self {
        Self::numbered(u64::from(form.0 >> 8))
    }

    /// The protocol of the consumer with this output form. The form is above eight bits of the protocol's own, which are above the engine's
    /// marks.
    #[inline]
    pub(crate) fn of_output_form(output_form: OutputForm) -> Self {
        Self::numbered(u64::from(output_form.0 >> 16))
    }
}

impl Protocols {
    /// The connections to clients.
    #[inline]
    pub(crate) const fn outgoing(&mut self) -> &mut giop::outgoing::Outgoings {
        &mut self.giop.outgoing
    }
}

impl Clients {
    /// The connections from clients that lanes pass to each other.
    #[inline]
    pub(crate) const fn callers(&mut self) -> &mut giop::callers::Clients {
        &mut self.giop
    }
}

/// The connections that clients made to a lane.
pub(crate) struct Clients {
    /// Addresses with connections, of all protocols; on the main lane only.
    pub(crate) addresses: Option<Addresses>,
    /// Entrances by protocol and layer; on the main lane only.
    entrances: ByTag<[Entrance; Layer::ALL.len()]>,
    /// CORBA's connections, which lanes pass to each other.
    pub(crate) giop: giop::callers::Clients,
}

/// A value for each protocol and layer that has it.
pub(crate) type Layered<T> = ByTag<[Option<T>; Layer::ALL.len()]>;

/// Listening sockets of the main lane.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    /// Listeners for connections, in the clear and with TLS.
    pub(crate) streams: Layered<Listener>,
    pub(crate) sockets: Sockets,
    /// Whether CORBA's listener stays open in another process when the service ends: clients that connect then wait for the next service.
    pub(crate) outlive: bool,
    /// The service's further addresses, at which no client is called.
    pub(crate) own: Vec<SocketAddr>,
}

/// Connections by the side that made them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    ByUs,
    ByClients(Tag),
}

impl Made {
    /// The next ones to look at, after these.
    pub(crate) fn next(self) -> Option<Self> {
        let next = match self {
            Self::ByUs => 0,
            Self::ByClients(tag) => tag as usize + 1,
        };
        Tag::ALL.get(next).copied().map(Self::ByClients)
    }
}

/// Address charged for work that no client requested.
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

impl Protocols {
    /// Takes over the parts of a publication for protocols, with the routing that the lane takes over next.
    pub(crate) fn handle_published(&mut self, published: &Published) {
        self.giop.outgoing.handle_published(published);
    }

    /// Notes that another lane may have room for waiting messages.
    pub(crate) fn note_room_elsewhere(&mut self) {
        self.giop.foreign.try_parked = true;
    }

    /// Status of the flows over links in some places, of all protocols. `None` if there are no places from the first on.
    pub(crate) fn links_at(&self, lane: &Lane, now: Time, places: &Range<u32>) -> Option<Vec<LinkStatus>> {
        let mut all: Option<Vec<LinkStatus>> = None;
        of_each!(P => if let Some(some) = P::LINKS_AT(self, lane, now, places.clone()) {
            all.get_or_insert_default().extend(some);
        });
        all
    }

    /// Whether an outbox has to wait, since remote filters are asked about its events.
    #[inline]
    pub(crate) fn waits_for_filters(&mut self, outbox: OutboxId) -> bool {
        self.giop.outgoing.filter_calls.wait_for(outbox)
    }
}

impl Clients {
    /// Starts without a connection.
    ///
    /// # Errors
    /// The poll does not take a socket.
    pub(crate) fn new(listeners: Option<Listeners>, common: &Common, poll: &Poll) -> io::Result<Self> {
        let addresses = listeners.as_ref().map(|_| Addresses::new(&common.accounts));
        let mut streams = listeners.map(|listeners| listeners.streams).unwrap_or_default();
        for protocol in Tag::ALL {
            for (listener, layer) in streams.of(protocol).iter().zip(Layer::ALL) {
                if let Some(listener) = listener {
                    net::prepare_listener(listener)?;
                    poll.add(listener, Socket::Listener(protocol, layer), Interest::READ)?;
                }
            }
        }
        let entrances = streams.map(|of_protocol| of_protocol.map(Entrance::new));
        Ok(Self { addresses, entrances, giop: giop::callers::Clients::new(common) })
    }

    /// An account for a new client, with the name that the configuration gives to its address; `None` on lanes without listeners.
    pub(crate) fn open_account(&mut self, from: IpAddr, cx: &Context) -> Option<Arc<Account>> {
        let account = self.addresses.as_mut()?.open(from);
        cx.name_by_configuration(&account);
        Some(account)
    }

    /// The entrance of a protocol and layer.
    pub(crate) const fn entrance(&mut self, protocol: Tag, layer: Layer) -> &mut Entrance {
        let [plain, tls] = self.entrances.of(protocol);
        match layer {
            Layer::Plain => plain,
            Layer::Tls => tls,
        }
    }

    /// Stops accepting connections.
    pub(crate) fn stop_listening(&mut self) {
        Tag::ALL.into_iter().for_each(|protocol| self.entrances.of(protocol).iter_mut().for_each(Entrance::close));
    }
}

impl Core {
    /// Sends events to their consumer, and empties their list.
    #[inline]
    pub(crate) fn send(&mut self, delivery: &Delivery, events: &mut Vec<Arc<Event>>) {
        by_tag!(Tag::of_output_form(delivery.output_form), P => P::SEND(self, delivery, events));
    }
}

impl Worker {
    /// Serves a socket that is ready.
    pub(crate) fn serve_socket(&mut self, ready: Ready) {
        match ready.socket {
            Socket::Waker => self.serve_inboxes(),
            Socket::Listener(protocol, layer) => self.accept(protocol, layer),
            Socket::Incoming(protocol, _)
            | Socket::Outgoing(protocol, _)
            | Socket::Datagrams(protocol)
            | Socket::Group(protocol) => by_tag!(protocol, P => P::SERVE(self, ready)),
        }
    }

    /// A connection's state in the rounds.
    pub(crate) fn rounds_of(&mut self, socket: Socket) -> Option<&mut Rounds> {
        let (Socket::Incoming(protocol, _) | Socket::Outgoing(protocol, _)) = socket else { return None };
        by_tag!(protocol, P => P::ROUNDS(self, socket))
    }

    /// Defers a ready socket until its address has its turn.
    pub(crate) fn serve_later(&mut self, ready: Ready) {
        if let Some(rounds) = self.rounds_of(ready.socket)
            && !core::mem::replace(&mut rounds.is_deferred, true)
        {
            let quota = rounds.quota;
            self.core.cx.io.quotas.defer(quota, Work::Ready(ready));
        }
    }

    /// Since when a client's connection is idle; `None` if it is in use or carries a proxy. The reserve has other connections than the
    /// places below the limit.
    pub(crate) fn idle_since(&self, protocol: Tag, token: Token, in_reserve: bool) -> Option<Time> {
        let Client { account, idle_since, .. } = by_tag!(protocol, P => P::CLIENT(self, token, in_reserve))?;
        let carries = !in_reserve && account.used(Resource::Proxies) > 0;
        idle_since.filter(|_| account.is_reserved() == in_reserve && !carries)
    }

    /// Closes a connection that gives way to another. Returns the name of its client.
    pub(crate) fn have_give_way(&mut self, protocol: Tag, token: Token) -> Option<String> {
        let Client { address, account, .. } = by_tag!(protocol, P => P::CLIENT(self, token, false))?;
        let named = Named(address, account).to_string();
        by_tag!(protocol, P => P::CLOSE(self, token));
        Some(named)
    }

    /// Whether connections in `places` places from `from` on have unwritten output. `None` if there are no places from there on.
    pub(crate) fn has_output_at(&self, made: Made, from: u32, places: u32) -> Option<bool> {
        match made {
            Made::ByUs => self.core.protocols.giop.outgoing.has_output_at(from, places),
            Made::ByClients(protocol) => by_tag!(protocol, P => P::HAS_OUTPUT_AT(self, from, places)),
        }
    }

    /// Writes output: first to consumers that the service connected to, then on clients' connections, in the order in which it became due.
    /// Connections of an address that has used up its budget, and was written to in this round, are skipped.
    pub(crate) fn write_due(&mut self) {
        if self.core.cx.io.quotas.due().is_empty() && !any_of!(P => P::IS_DUE(self)) {
            return;
        }
        // A client that has its reply is to find its event counted.
        self.core.cx.update_counters();
        of_each!(P => P::WRITE_EVENTS(&mut self.core));
        let binds = self.core.cx.io.quotas.binds();
        // Connections that become due meanwhile are left out, or there might be no end.
        for _ in 0..self.core.cx.io.quotas.due().len() {
            let Some(socket) = self.core.cx.io.quotas.due().pop_front() else { break };
            let (Socket::Incoming(protocol, token) | Socket::Outgoing(protocol, token)) = socket else { continue };
            if !binds {
                by_tag!(protocol, P => P::FLUSH(self, token));
                continue;
            }
            let Some(quota) = self.rounds_of(socket).map(|rounds| rounds.quota) else { continue };
            if !self.core.cx.io.quotas.may_write(quota) {
                self.core.cx.io.quotas.skip(socket);
                continue;
            }
            let began = self.core.cx.clock.time();
            by_tag!(protocol, P => P::FLUSH(self, token));
            self.core.cx.io.quotas.charge(quota, self.core.cx.clock.time().since(began));
        }
        self.core.cx.release_written();
    }

    /// Ends waits that are overdue.
    #[inline(never)]
    pub(crate) fn sweep(&mut self) {
        self.listen_again();
        of_each!(P => P::SWEEP(self));
    }

    /// Passes a message of administration to its protocol.
    pub(crate) fn handle_admin_message(&mut self, message: ToProtocol) {
        match message {
            ToProtocol::Giop(message) => self.clients.giop.pass_answer(message, &mut self.core),
            ToProtocol::LocalProxy(message) => self.handle_proxy_notice(message),
            ToProtocol::Link(order) => self.handle_link_order(&order),
        }
    }
}

impl Worker {
    /// Carries out an operator's order for a link, and reports the result.
    fn handle_link_order(&mut self, order: &LinkOrder) {
        let (mut done, mut members) = (None, Vec::new());
        match &order.act {
            LinkAct::ListFederation => {
                of_each!(P => members.extend(P::FEDERATION(&self.core)));
            }
            LinkAct::Pause { name, paused } => {
                of_each!(P => done = done.or_else(|| P::PAUSE_LINK(self, name, *paused)));
            }
            act => {
                of_each!(P => done = done.or_else(|| P::CHANGE_LINK(self, act)));
            }
        }
        self.core.cx.reporting.reports.send(ToAdministration::LinkOrdered { number: order.number, done, members });
    }
}

impl Listeners {
    /// Adds a listener for a protocol and layer.
    pub(crate) fn with(mut self, protocol: Tag, layer: Layer, listener: Option<Listener>) -> Self {
        let [plain, tls] = self.streams.of(protocol);
        *match layer {
            Layer::Plain => plain,
            Layer::Tls => tls,
        } = listener;
        self
    }

    /// Listeners with CORBA's only.
    #[cfg(test)]
    pub(crate) fn of_giop(giop: Listener) -> Self {
        Self::default().with(Tag::Giop, Layer::Plain, Some(giop))
    }
}

#[cfg(test)]
impl Claim {
    pub(crate) const fn for_test() -> Self {
        Self::Giop(giop::claims::Claim::Puller(Token::from_bits(0xffff_ffff)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corba::event::{FORM_ANY, FORM_STRUCTURED};

    #[test]
    fn forms_and_subscriptions_name_their_owner() {
        assert_eq!((Tag::of_form(FORM_ANY), Tag::of_form(FORM_STRUCTURED)), (Tag::Giop, Tag::Giop));
        for (protocol, number) in Tag::ALL.into_iter().zip(0_u16..) {
            assert_eq!((protocol.number(), Tag::numbered(number.into())), (number.into(), protocol));
            assert_eq!(Tag::of_form(Form(number << 8 | 0xff)), protocol);
            let output_form = OutputForm(u32::from(number) << 16 | 0xffff);
            assert_eq!(Tag::of_output_form(output_form), protocol);
            // Channels say of all their consumers how events are marked (`MarkRepeats`), whichever protocol they are at.
            assert_eq!(Tag::of_output_form(output_form.marking_repeats(true).marking_numbers(true)), protocol);
        }
    }
}

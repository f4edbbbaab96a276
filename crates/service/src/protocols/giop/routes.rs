//! Where consumers are, and what was pushed to each and is unanswered.

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use engine::{Event, OutboxId, OutputForm, Peer, ProxyKey, Time};
use giop::cdr::{CharSet, Encoding, Version};
use giop::codeset;
use giop::ior::{IiopProfile, Ior, ORB_TYPE_CAMPANILE};
use giop::message::{RequestHead, RequestTemplate, Response, ServiceContexts};
use giop::realtime;
use hashbrown::HashMap;

use crate::lane::io::slots::Token;
use crate::protocols::giop::admin_messages::OWN_VERSION;
use access::CalledFor;
use corba::PeerAddress;
use corba::event::{self, Untranslatable};

/// Times in a row that a request is sent on to where a `LOCATION_FORWARD` points before that is taken for a loop.
pub(crate) const FORWARDS_MAX: u8 = 8;

/// What a connection is shared by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Endpoint {
    pub(crate) host: String,
    /// 0 where it does not listen in the clear.
    pub(crate) port: u16,
    /// The port at which it speaks TLS, if its reference names one.
    pub(crate) tls_port: Option<u16>,
    pub(crate) version: Version,
    pub(crate) chars: CharSet,
    /// Where the client is for which the connection is made: others do not use it.
    pub(crate) called_for: CalledFor,
    /// Whether the peer's references say which code sets it knows; only then is it sent the one that is used.
    pub(crate) negotiates: bool,
}

/// Most addresses of one reference that are tried; further ones are passed over.
pub(crate) const ADDRESSES_MAX: usize = 8;
/// Shortest share of `ConnectTimeout` that one of several addresses gets.
const ADDRESS_TIME_MIN: Duration = Duration::from_millis(250);

/// What of a reference is needed to send to one of its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: u16,
    tls_port: Option<u16>,
    pub(crate) version: Version,
    pub(crate) key: Vec<u8>,
    negotiates: bool,
    pub(crate) chars: CharSet,
    /// Addresses of the reference, this one included.
    pub(crate) alternatives: u32,
}

impl Target {
    /// The first address of a reference.
    pub(crate) fn of(reference: &Ior) -> Option<Self> {
        Self::all(reference).0.into_iter().next()
    }

    /// Addresses of a reference in its order: of each IIOP profile its own and then its alternates, without repetitions; and
    /// how many beyond [`ADDRESSES_MAX`] were passed over.
    ///
    /// What is sent was made for the first profile's GIOP version and code set, so a further profile counts where the object
    /// takes both there, too.
    pub(crate) fn all(reference: &Ior) -> (Vec<Self>, usize) {
        let (mut all, mut left_out) = (Vec::<Self>::new(), 0);
        for profile in reference.iiop_profiles() {
            let mut target = Self::of_profile(profile);
            if let Some(first) = all.first() {
                if target.version < first.version || target.chars != first.chars {
                    continue;
                }
                target.version = first.version;
            }
            for (host, port) in profile.addresses() {
                let target = Self { host, port, ..target.clone() };
                if all.contains(&target) {
                    continue;
                }
                if all.len() < ADDRESSES_MAX { all.push(target) } else { left_out += 1 }
            }
        }
        let alternatives = u32::try_from(all.len()).unwrap_or(u32::MAX);
        all.iter_mut().for_each(|target| target.alternatives = alternatives);
        (all, left_out)
    }

    fn of_profile(profile: &IiopProfile) -> Self {
        let code_sets = profile.code_sets();
        Self {
            host: String::new(),
            port: 0,
            tls_port: profile.secure_transport().map(|secure| secure.port),
            version: profile.version.min(OWN_VERSION),
            key: profile.key.clone(),
            negotiates: code_sets.is_some(),
            chars: codeset::negotiate(code_sets.as_ref()).unwrap_or(CharSet::Latin1),
            alternatives: 1,
        }
    }

    /// How long connecting to this address may take, of what the reference may take as a whole.
    pub(crate) fn timeout_per_address(&self, timeout: Duration) -> Duration {
        (timeout / self.alternatives.max(1)).max(timeout.min(ADDRESS_TIME_MIN))
    }

    pub(crate) fn endpoint(&self, version: Version, chars: CharSet) -> Endpoint {
        let Self { host, port, tls_port, negotiates, .. } = self;
        Endpoint {
            host: host.clone(),
            port: *port,
            tls_port: *tls_port,
            version,
            chars,
            called_for: CalledFor::Foreign,
            negotiates: *negotiates,
        }
    }
}

/// The way to one consumer.
pub(crate) struct Route {
    pub(crate) outbox: OutboxId,
    pub(crate) key: ProxyKey,
    pub(crate) peer: Peer,
    pub(crate) address: Arc<PeerAddress>,
    /// Where its pushes go: what its own reference says, or where that forwarded to.
    pub(crate) target: Target,
    pub(crate) is_forwarded: bool,
    /// Since when its addresses are tried one after the other, until one answers or all have failed.
    pub(crate) tried_since: Option<Time>,
    /// Its own reference asks for a mark on each push before which nothing is unanswered ([`ServiceContexts::FLOW_START`]).
    ///
    /// [`ServiceContexts::FLOW_START`]: giop::message::ServiceContexts::FLOW_START
    pub(crate) in_order: bool,
    /// The priority at which it is pushed to, if its own reference asks for that.
    pub(crate) priority: Option<PushPriority>,
    /// Forwards in a row.
    forwards: u8,
    connections: [Option<Token>; CONNECTIONS],
    /// The heads of the pushes that were sent last, for others like them: of one that follows others, and of one that starts
    /// a flow.
    templates: [Option<(Head, RequestTemplate)>; 2],
    /// Pushes without a reply, in the order in which they were sent: those that the engine has in flight.
    pub(crate) unanswered: VecDeque<Sent>,
    /// The connection on which it waits for room.
    pub(crate) waits_for: Option<Token>,
    pub(crate) trouble: Trouble,
}

/// What is wrong with a consumer, or was.
#[derive(Default)]
pub(crate) struct Trouble {
    /// Why the connection was lost on which it waits for room, until the engine is notified.
    pub(crate) lost: Option<String>,
    /// Pushes were given up on that connection, and may lie in its output yet, up to there.
    pub(crate) given_up: Option<(Token, u64)>,
    /// Pushes fail, and why has been noted.
    pub(crate) is_failing: bool,
    /// Events at which the consumer failed, and how many times.
    faults: Vec<(u64, u8)>,
}

/// The Real-time CORBA priority that is sent with each push to a consumer with a reference that says `CLIENT_PROPAGATED`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PushPriority {
    /// What its proxy's pool declares, under `SERVER_DECLARED`: then that, whatever the events say.
    pub(crate) declared: Option<i16>,
    /// That of the lane, for events without one of their supplier's. The main lane has none.
    pub(crate) of_lane: Option<i16>,
}

impl PushPriority {
    /// The priority sent with a push of these events: of several, the highest that one of them has.
    pub(crate) fn of(self, events: &[Arc<Event>]) -> Option<i16> {
        let of_events = || events.iter().filter_map(|event| event.thread_priority).max();
        self.declared.or_else(of_events).or(self.of_lane)
    }
}

/// What the head of a push depends on, beside the consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) encoding: Encoding,
    /// Where the body is to begin, modulo 8.
    pub(crate) phase: usize,
    pub(crate) one_way: bool,
    /// The Real-time CORBA priority that is sent.
    pub(crate) priority: Option<i16>,
    /// Whether it tells which code sets are used, as the first request on a connection does.
    pub(crate) tell: bool,
    /// Whether it says that nothing before it is unanswered.
    pub(crate) starts_flow: bool,
}

impl Head {
    /// Puts its template there, unless it is there.
    fn put<'p>(
        &self,
        place: &'p mut Option<(Self, RequestTemplate)>,
        key: &[u8],
        operation: &str,
    ) -> &'p RequestTemplate {
        let (of, template) = place.get_or_insert_with(|| (*self, self.with_head(key, operation, RequestTemplate::new)));
        if of != self {
            *of = *self;
            self.with_head(key, operation, |head| template.set(head));
        }
        template
    }

    /// Tells `then` what the head says.
    fn with_head<R>(&self, key: &[u8], operation: &str, then: impl FnOnce(&RequestHead<'_>) -> R) -> R {
        let Self { encoding, phase, one_way, priority, tell, starts_flow } = *self;
        let priority = priority.map(|priority| realtime::priority_context(priority, encoding.endian));
        let code_sets = tell.then(|| codeset::context(encoding.chars, encoding.endian));
        // Those with something to tell come together.
        let priority = priority.as_ref().map(|data| (ServiceContexts::RT_CORBA_PRIORITY, data.as_slice()));
        let code_sets = code_sets.as_deref().map(|data| (ServiceContexts::CODE_SETS, data));
        let flow = starts_flow.then_some((ServiceContexts::FLOW_START, &[][..]));
        let mut contexts = [(0, &[][..]); 3];
        let written = contexts.iter_mut().zip([priority, code_sets, flow].into_iter().flatten());
        let count = written.map(|(place, context)| *place = context).count();
        then(&RequestHead {
            version: encoding.version,
            endian: encoding.endian,
            request_id: 0,
            response: if one_way { Response::None } else { Response::Expected },
            key,
            operation: operation.as_bytes(),
            contexts: contexts.get(..count).unwrap_or_default(),
            body_phase: Some(phase),
        })
    }
}

/// A push on its way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) serial: u32,
    pub(crate) connection: Token,
    pub(crate) request_id: u32,
    /// The event's number in the lane; of several the first one's.
    pub(crate) event: u64,
    /// Whether there are several.
    pub(crate) is_batch: bool,
}

/// How many times a push is tried that the consumer answers with `UNKNOWN`.
const FAULTY_TRIES: u8 = 3;
/// Events with tries that are counted at the same time for one consumer. Of more, the one noted first begins anew.
const FAULTS_MAX: usize = 16;

/// One per GIOP version and narrow code set.
const CONNECTIONS: usize = 6;

impl Route {
    /// The way to a consumer by its own reference. Nothing if that names no place that IIOP reaches.
    pub(crate) fn new(outbox: OutboxId, key: ProxyKey, peer: Peer, address: Arc<PeerAddress>) -> Option<Self> {
        Some(Self {
            outbox,
            key,
            peer,
            target: Target::of(&address.ior)?,
            in_order: address.ior.orb_type() == Some(ORB_TYPE_CAMPANILE),
            address,
            is_forwarded: false,
            tried_since: None,
            priority: None,
            forwards: 0,
            connections: [None; CONNECTIONS],
            templates: [None, None],
            unanswered: VecDeque::new(),
            waits_for: None,
            trouble: Trouble::default(),
        })
    }

    const fn slot(version: Version, chars: CharSet) -> usize {
        version as usize * 2 + matches!(chars, CharSet::Utf8) as usize
    }

    /// The connection for messages of one version and code set, if one was made. It may be lost by now.
    pub(crate) fn connection(&self, version: Version, chars: CharSet) -> Option<Token> {
        self.connections.get(Self::slot(version, chars)).copied().flatten()
    }

    pub(crate) fn set_connection(&mut self, version: Version, chars: CharSet, token: Token) {
        if let Some(place) = self.connections.get_mut(Self::slot(version, chars)) {
            *place = Some(token);
        }
    }

    pub(crate) fn connections(&self) -> impl Iterator<Item = Token> {
        self.connections.iter().flatten().copied()
    }

    /// Sends what follows to another place. False when it has been sent about too often.
    pub(crate) fn forward(&mut self, to: &Ior) -> bool {
        let Some(target) = Target::of(to) else { return false };
        if self.forwards >= FORWARDS_MAX {
            return false;
        }
        self.forwards += 1;
        self.aim(target, true);
        true
    }

    /// Sends what follows to where the consumer's own reference points, which knows whether it has moved again (CORBA
    /// 3.3 part 2, 9.4.3.2). True if it went elsewhere before.
    pub(crate) fn return_home(&mut self) -> bool {
        self.forwards = 0;
        let home = if self.is_forwarded { Target::of(&self.address.ior) } else { None };
        home.map(|target| self.aim(target, false)).is_some()
    }

    /// Sends what follows to a place.
    pub(crate) fn aim(&mut self, target: Target, is_forwarded: bool) {
        self.target = target;
        self.is_forwarded = is_forwarded;
        self.connections = [None; CONNECTIONS];
        self.templates = [None, None];
    }

    /// Appends the head of a push with a body of so many bytes, at least one, to follow.
    pub(crate) fn append_head(&mut self, head: &Head, buffer: &mut Vec<u8>, request_id: u32, length: usize) {
        self.template(head).append(buffer, request_id, length);
    }

    /// Appends a push of several events: what the consumer wants, and whether it may have processed them. Says how many are in it;
    /// `left_out` are the places of the others.
    ///
    /// # Errors
    /// None of the events can be put into what the consumer takes. Nothing was appended.
    pub(crate) fn append_batch(
        &mut self,
        head: &Head,
        buffer: &mut Vec<u8>,
        request_id: u32,
        events: &[Arc<Event>],
        format: (OutputForm, bool),
        left_out: &mut Vec<u32>,
    ) -> Result<u32, Untranslatable> {
        let open = self.template(head).begin(buffer, request_id);
        match event::write_batch(events, format, left_out, &mut open.body(buffer, head.encoding.chars)) {
            Ok(written) => {
                open.finish(buffer);
                Ok(written)
            }
            Err(error) => {
                buffer.truncate(open.start());
                Err(error)
            }
        }
    }

    /// The template of a head, made anew where the last one was another.
    fn template(&mut self, head: &Head) -> &RequestTemplate {
        let Self { target, address, templates: [following, starting], in_order, .. } = self;
        let (place, other) = if head.starts_flow { (starting, following) } else { (following, starting) };
        let template = head.put(place, &target.key, address.operation);
        if other.is_none() && *in_order && !head.one_way && !head.tell {
            // Both at once, since the other may be wanted long after, and nothing is to be allocated then.
            Head { starts_flow: !head.starts_flow, ..*head }.put(other, &target.key, address.operation);
        }
        template
    }

    /// Whether pushes that were given up still wait to be written to a connection of which so many bytes are gone.
    pub(crate) fn still_waits(&self, connection: Token, taken: u64) -> bool {
        self.trouble.given_up.is_some_and(|(on, end)| on == connection && taken < end)
    }

    /// A push of its has been taken, or been refused for its own sake.
    pub(crate) fn succeed(&mut self) {
        self.forwards = 0;
        self.tried_since = None;
        self.trouble.given_up = None;
        self.trouble.is_failing = false;
    }

    /// A consumer failed at a push in a way that may be its own mishap or the event's doing. Says whether it is to be tried
    /// again.
    pub(crate) fn note_fault(&mut self, event: u64) -> bool {
        let noted = self.trouble.faults.iter_mut().find(|(noted, _)| *noted == event);
        let Some((_, tries)) = noted else {
            if self.trouble.faults.len() >= FAULTS_MAX {
                self.trouble.faults.remove(0);
            }
            self.trouble.faults.push((event, 1));
            return true;
        };
        *tries += 1;
        *tries < FAULTY_TRIES
    }

    /// An event is done with, taken or not.
    pub(crate) fn forget_fault(&mut self, event: u64) {
        if !self.trouble.faults.is_empty() {
            self.trouble.faults.retain(|(noted, _)| *noted != event);
        }
    }

    /// Takes a push off those without a reply; says how many are before it, and which it is.
    pub(crate) fn take_unanswered(&mut self, serial: u32) -> Option<(usize, Sent)> {
        if self.unanswered.front().is_some_and(|sent| sent.serial == serial) {
            return Some((0, self.unanswered.pop_front()?));
        }
        let at = self.unanswered.iter().position(|sent| sent.serial == serial)?;
        Some((at, self.unanswered.remove(at)?))
    }
}

/// The ways to all consumers, by their outboxes' places.
#[derive(Default)]
pub(crate) struct Routes {
    places: Vec<Option<Route>>,
    /// Where the route to each consumer is.
    by_peer: HashMap<Peer, OutboxId>,
}

impl Routes {
    pub(crate) fn get_mut(&mut self, outbox: OutboxId) -> Option<&mut Route> {
        self.places.get_mut(outbox.slot() as usize)?.as_mut().filter(|route| route.outbox == outbox)
    }

    /// Adds a route; what was in its place comes back.
    pub(crate) fn insert(&mut self, route: Route) -> Option<Route> {
        let at = route.outbox.slot() as usize;
        if self.places.len() <= at {
            self.places.resize_with(at + 1, || None);
        }
        let peer = route.peer;
        self.by_peer.insert(peer, route.outbox);
        let replaced = self.places.get_mut(at)?.replace(route)?;
        if replaced.peer != peer {
            self.by_peer.remove(&replaced.peer);
        }
        Some(replaced)
    }

    /// Takes out the route to a consumer that is not there any more.
    pub(crate) fn take(&mut self, gone: Peer) -> Option<Route> {
        let outbox = self.by_peer.remove(&gone)?;
        self.places.get_mut(outbox.slot() as usize)?.take_if(|route| route.outbox == outbox)
    }

    /// How many places there are for routes.
    pub(crate) fn places(&self) -> usize {
        self.places.len()
    }

    /// Those in some of the places.
    pub(crate) fn range(&self, places: Range<usize>) -> impl Iterator<Item = &Route> {
        let end = places.end.min(self.places.len());
        self.places.get(places.start.min(end)..end).unwrap_or_default().iter().flatten()
    }
}

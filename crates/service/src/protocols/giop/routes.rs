//! Routes to consumers, and unanswered pushes on each.

use core::num::NonZeroU64;
use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use engine::{Correlated, Event, OutboxId, OutputForm, Peer, ProxyKey, Time};
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

/// Maximum forwards (`LOCATION_FORWARD`) in a row before they are taken for a loop.
pub(crate) const FORWARDS_MAX: u8 = 8;

/// Properties common to all users of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Endpoint {
    pub(crate) host: String,
    /// Port without TLS; 0 if there is none.
    pub(crate) port: u16,
    /// Port for TLS, if the reference names one.
    pub(crate) tls_port: Option<u16>,
    pub(crate) version: Version,
    pub(crate) chars: CharSet,
    /// The client for which the connection is made, by its address: others do not use it.
    pub(crate) called_for: CalledFor,
    /// Whether the peer's references list its code sets; only then are the chosen ones sent to it.
    pub(crate) negotiates: bool,
}

/// Maximum addresses of one reference that are tried; further ones are ignored.
pub(crate) const ADDRESSES_MAX: usize = 8;
/// Minimum part of `ConnectTimeout` for one of several addresses.
const ADDRESS_TIME_MIN: Duration = Duration::from_millis(250);

/// Data of a reference that is needed to send to one of its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: u16,
    tls_port: Option<u16>,
    pub(crate) version: Version,
    pub(crate) key: Vec<u8>,
    negotiates: bool,
    pub(crate) chars: CharSet,
    /// Number of addresses of the reference, this one included.
    pub(crate) alternatives: u32,
}

impl Target {
    /// The first address of a reference.
    pub(crate) fn of(reference: &Ior) -> Option<Self> {
        Self::all(reference).0.into_iter().next()
    }

    /// Addresses of a reference in its order, without repetitions: each IIOP profile's own, then its alternates; and the number ignored
    /// beyond [`ADDRESSES_MAX`].
    ///
    /// Messages are made for the first profile's GIOP version and code set, so a further profile counts only if it takes both.
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

    /// Time limit to connect to this address, within that for the whole reference.
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

/// The route to one consumer.
pub(crate) struct Route {
    pub(crate) outbox: OutboxId,
    pub(crate) key: ProxyKey,
    pub(crate) peer: Peer,
    pub(crate) address: Arc<PeerAddress>,
    /// Target of its pushes: from its own reference, or from a forward.
    pub(crate) target: Target,
    pub(crate) is_forwarded: bool,
    /// Since when its addresses are tried one after the other, until one answers or all have failed.
    pub(crate) tried_since: Option<Time>,
    /// Whether its reference asks for a mark on each push that follows no unanswered one ([`ServiceContexts::FLOW_START`]).
    ///
    /// [`ServiceContexts::FLOW_START`]: giop::message::ServiceContexts::FLOW_START
    pub(crate) in_order: bool,
    /// Priority of pushes to it, if its own reference asks for one.
    pub(crate) priority: Option<PushPriority>,
    /// Number of forwards in a row.
    forwards: u8,
    connections: [Option<Token>; CONNECTIONS],
    /// Templates of the heads sent last: for a push that follows others, and for one that starts a flow.
    templates: [Option<(Head, RequestTemplate)>; 2],
    /// Pushes without a reply, in the order of sending: those that the engine has in flight.
    pub(crate) unanswered: VecDeque<Sent>,
    /// The latest connection that the consumer had offered when the one in use was chosen.
    pub(crate) last_offered: Option<NonZeroU64>,
    /// The connection on which it waits for room.
    pub(crate) waits_for: Option<Token>,
    pub(crate) trouble: Trouble,
}

/// Current and earlier failures of a consumer.
#[derive(Default)]
pub(crate) struct Trouble {
    /// Why the connection on which it waited for room was lost, until the engine is notified.
    pub(crate) lost: Option<String>,
    /// Connection with pushes that were given up, and position in its output up to which they may still lie.
    pub(crate) given_up: Option<(Token, u64)>,
    /// Whether pushes fail, and the reason was noted.
    pub(crate) is_failing: bool,
    /// Events at which the consumer failed, and the number of failures.
    faults: Vec<(u64, u8)>,
}

/// The Real-time CORBA priority sent with each push to a consumer with a reference that says `CLIENT_PROPAGATED`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PushPriority {
    /// Priority that its proxy's pool declares under `SERVER_DECLARED`, which overrides the events'.
    pub(crate) declared: Option<i16>,
    /// The lane's priority, for events without their supplier's. The main lane has none.
    pub(crate) of_lane: Option<i16>,
}

impl PushPriority {
    /// The priority sent with a push of these events: the highest of any of them.
    pub(crate) fn of(self, events: &[Arc<Event>]) -> Option<i16> {
        let of_events = || events.iter().filter_map(|event| event.thread_priority).max();
        self.declared.or_else(of_events).or(self.of_lane)
    }
}

/// Contents of a push's head, apart from the consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) encoding: Encoding,
    /// Position of the body, modulo 8.
    pub(crate) phase: usize,
    pub(crate) one_way: bool,
    /// Real-time CORBA priority.
    pub(crate) priority: Option<i16>,
    /// Whether it carries the code sets, as the first request on a connection does.
    pub(crate) tell: bool,
    /// Whether it says that no earlier push is unanswered.
    pub(crate) starts_flow: bool,
}

impl Head {
    /// Fills a place with this head's template, unless it has that already.
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

    /// Calls `then` with the head's fields.
    fn with_head<R>(&self, key: &[u8], operation: &str, then: impl FnOnce(&RequestHead<'_>) -> R) -> R {
        let Self { encoding, phase, one_way, priority, tell, starts_flow } = *self;
        let priority = priority.map(|priority| realtime::priority_context(priority, encoding.endian));
        let code_sets = tell.then(|| codeset::context(encoding.chars, encoding.endian));
        // The contexts that are present are stored without gaps.
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

/// A push without a reply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) serial: u32,
    pub(crate) connection: Token,
    pub(crate) request_id: u32,
    /// The event's number in the lane; of several events, the first one's.
    pub(crate) event: u64,
    /// Whether there are several events.
    pub(crate) is_batch: bool,
}

/// Maximum attempts of a push that the consumer answers with `UNKNOWN`.
const FAULTY_TRIES: u8 = 3;
/// Maximum events of one consumer with counted attempts. Beyond it the oldest is forgotten, and its attempts begin anew.
const FAULTS_MAX: usize = 16;

/// Number of connections, one per GIOP version and narrow code set.
const CONNECTIONS: usize = 6;

impl Route {
    /// The route to a consumer by its own reference. `None` if that has no IIOP address.
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
            last_offered: None,
            waits_for: None,
            trouble: Trouble::default(),
        })
    }

    const fn slot(version: Version, chars: CharSet) -> usize {
        version as usize * 2 + matches!(chars, CharSet::Utf8) as usize
    }

    /// The connection for messages of one version and code set, if one was made. It may have been lost.
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

    /// Aims later pushes at another reference. False after too many forwards in a row.
    pub(crate) fn forward(&mut self, to: &Ior) -> bool {
        let Some(target) = Target::of(to) else { return false };
        if self.forwards >= FORWARDS_MAX {
            return false;
        }
        self.forwards += 1;
        self.aim(target, true);
        true
    }

    /// Aims later pushes at the consumer's own reference, which knows whether it has moved again (CORBA 3.3 part 2, 9.4.3.2). True if they
    /// were forwarded before.
    pub(crate) fn return_home(&mut self) -> bool {
        self.forwards = 0;
        let home = if self.is_forwarded { Target::of(&self.address.ior) } else { None };
        home.map(|target| self.aim(target, false)).is_some()
    }

    /// Aims later pushes at a target.
    pub(crate) fn aim(&mut self, target: Target, is_forwarded: bool) {
        self.target = target;
        self.is_forwarded = is_forwarded;
        self.connections = [None; CONNECTIONS];
        self.templates = [None, None];
    }

    /// Appends the head of a push that is followed by a body of `length` octets, at least one.
    pub(crate) fn append_head(&mut self, head: &Head, buffer: &mut Vec<u8>, request_id: u32, length: usize) {
        self.template(head).append(buffer, request_id, length);
    }

    /// Appends a push of several events, for a consumer's output form; they may be repeats. Returns the number of events in the sequence;
    /// `left_out` gets the places of the others. A consumer of single events gets one with its set and its place there, and no sequence.
    ///
    /// # Errors
    /// None of the events can be translated for the consumer. Nothing was appended.
    pub(crate) fn append_batch(
        &mut self,
        head: &Head,
        buffer: &mut Vec<u8>,
        request_id: u32,
        events: &[Arc<Event>],
        (output_form, repeated, correlated): (OutputForm, bool, Option<Correlated>),
        left_out: &mut Vec<u32>,
    ) -> Result<u32, Untranslatable> {
        let open = self.template(head).begin(buffer, request_id);
        let mut body = open.body(buffer, head.encoding.chars);
        let written = match (correlated, events) {
            (Some(correlated), [only]) if !event::takes_batches(output_form) => {
                event::write_correlated(only, output_form, correlated, &mut body).map(|()| 0)
            }
            _ => event::write_batch(events, (output_form, repeated), left_out, &mut body),
        };
        match written {
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

    /// The template of a head, made anew if the last one was different.
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

    /// Whether pushes that were given up still wait in a connection's output, of which `taken` octets are written.
    pub(crate) fn still_waits(&self, connection: Token, taken: u64) -> bool {
        self.trouble.given_up.is_some_and(|(on, end)| on == connection && taken < end)
    }

    /// Notes that a push was taken, or refused for its own sake.
    pub(crate) fn succeed(&mut self) {
        self.forwards = 0;
        self.tried_since = None;
        self.trouble.given_up = None;
        self.trouble.is_failing = false;
    }

    /// Notes that a consumer failed at a push, perhaps because of the event. True if it is to be tried again.
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

    /// Forgets the failures at an event that is complete, taken or not.
    pub(crate) fn forget_fault(&mut self, event: u64) {
        if !self.trouble.faults.is_empty() {
            self.trouble.faults.retain(|(noted, _)| *noted != event);
        }
    }

    /// Removes a push from those without a reply. Returns the number of pushes before it, and the push.
    pub(crate) fn take_unanswered(&mut self, serial: u32) -> Option<(usize, Sent)> {
        if self.unanswered.front().is_some_and(|sent| sent.serial == serial) {
            return Some((0, self.unanswered.pop_front()?));
        }
        let at = self.unanswered.iter().position(|sent| sent.serial == serial)?;
        Some((at, self.unanswered.remove(at)?))
    }
}

/// Routes to all consumers, by their outboxes' places.
#[derive(Default)]
pub(crate) struct Routes {
    places: Vec<Option<Route>>,
    /// Outbox of each consumer.
    by_peer: HashMap<Peer, OutboxId>,
}

impl Routes {
    pub(crate) fn get_mut(&mut self, outbox: OutboxId) -> Option<&mut Route> {
        self.places.get_mut(outbox.slot() as usize)?.as_mut().filter(|route| route.outbox == outbox)
    }

    /// Adds a route, and returns the one that it replaces.
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

    /// Removes the route to a consumer that is gone.
    pub(crate) fn take(&mut self, gone: Peer) -> Option<Route> {
        let outbox = self.by_peer.remove(&gone)?;
        self.places.get_mut(outbox.slot() as usize)?.take_if(|route| route.outbox == outbox)
    }

    /// Number of places for routes.
    pub(crate) fn places(&self) -> usize {
        self.places.len()
    }

    /// The routes in some of the places.
    pub(crate) fn range(&self, places: Range<usize>) -> impl Iterator<Item = &Route> {
        let end = places.end.min(self.places.len());
        self.places.get(places.start.min(end)..end).unwrap_or_default().iter().flatten()
    }
}

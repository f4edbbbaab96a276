//! DDS on the main lane: channels that the configuration joins to partitions of a domain (`[dds]`).
//!
//! Each join has a thread that reads and one that writes ([`crate::dds`]): they know Cyclone, types and topics, and may wait. The lane has
//! a ring to and from each, knows structured events, and never waits. For each direction a join has a proxy like any other client's,
//! requested from administration ([`local_proxies`](super::local_proxies)), so that the channel's filters, quality of service and limits
//! apply.
//!
//! - **From DDS**: the reading thread puts a sample into a structured event; the lane takes it in, and gives the buffer back. While the
//!   channel has no room, it takes no more from the ring: the thread leaves samples with Cyclone, which has their writers wait.
//!   Where rules of access let the bridge publish nothing, it is taken all the same, and dropped: its writers are not to wait for that.
//! - **To DDS**: an event is posted as it is, and comes back when it was written. While the ring is full, its outbox waits.
//!
//! Events from DDS are marked, so that writing threads leave them out.
#![cfg_attr(not(feature = "dds"), expect(dead_code, reason = "only the threads that talk to DDS use it all"))]

use std::io;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};

use corba::LocalProxy;
use corba::event::{self, FORM_STRUCTURED, UtcClock};
use engine::{ChannelId, Delivery, Event, OutboxId, Outcome, OutputForm, Peer, PendingEvent, ProxyKey};

use super::{Check, CoreCheck, Given, Step, Tag, WireProtocol};
use crate::admin::values::DdsJoinStatus;
use crate::counters::Counter;
use crate::lane::access::Permit;
use crate::lane::budget::Budget;
use crate::lane::context::Context;
use crate::lane::intake::{Refused, Submission};
use crate::lane::io::net::{Poll, Waker};
use crate::lane::links::mailbox::{Inbox, Mailbox, mailbox};
use crate::lane::run::{Common, Core, LaneEnds, Worker};
use crate::protocols;
use access::{Right, Scope};
use accounts::Account;

/// Output form of this protocol: a structured event.
pub(crate) const OUTPUT_FORM: OutputForm = OutputForm((Tag::Dds as u32) << 16);

/// Maximum number of joins.
pub(crate) const JOINS_MAX: usize = 32;
/// Maximum samples of a join that wait for the lane, and maximum events that wait for the writing thread or are with it.
const RING: usize = 256;
/// Maximum octets of a join's events that wait for the writing thread or are with it, unless it is a single event.
const OUT_BYTES_MAX: usize = 8 << 20;

/// Status of a join, which its reading thread writes and administration reads.
pub(crate) type Board = Arc<Mutex<DdsJoinStatus>>;

/// Setup of a join on the main lane.
#[derive(Debug)]
pub(crate) struct JoinSetup {
    pub(crate) channel: ChannelId,
    /// Name in logs.
    pub(crate) name: String,
    /// Filter of the channel's events that go to DDS; `None` if none do.
    pub(crate) to_dds: Option<String>,
    pub(crate) from_dds: bool,
    /// Introduction by which its threads get their ends of the rings.
    pub(crate) introduce: SyncSender<ThreadEnds>,
}

/// Ends of a join's rings for its threads.
#[derive(Default)]
pub(crate) struct ThreadEnds {
    pub(crate) reading: Option<ReadingEnds>,
    pub(crate) writing: Option<WritingEnds>,
}

/// Ends of the reading thread.
pub(crate) struct ReadingEnds {
    pub(crate) samples: Mailbox<FromDds>,
    /// Buffers that the lane has read.
    pub(crate) spares: Inbox<Vec<u8>>,
    pub(crate) waker: Arc<Waker>,
}

/// Ends of the writing thread.
pub(crate) struct WritingEnds {
    pub(crate) events: Inbox<ToDds>,
    pub(crate) done: Mailbox<Back>,
    pub(crate) waker: Arc<Waker>,
}

/// Message of the reading thread.
pub(crate) enum FromDds {
    /// A structured event, in [`ENCODING`].
    Sample(Vec<u8>),
    /// Add this number to a counter of the lane.
    Counted(Counter, u64),
}

/// Encoding of events from DDS.
pub(crate) const ENCODING: giop::cdr::Encoding = super::tempo::types::ENCODING;

/// Message to the writing thread.
pub(crate) struct ToDds {
    pub(crate) event: Arc<Event>,
    /// Index of the alternate that is the structured event, if the event did not arrive as one.
    pub(crate) alternate: Option<usize>,
}

/// Message of the writing thread.
pub(crate) enum Back {
    /// An event is done; add it to this counter.
    Done(Arc<Event>, Counter),
    /// Add this number to a counter of the lane.
    Counted(Counter, u64),
}

/// State of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proxy {
    /// The join needs no proxy.
    Never,
    /// The proxy is to be requested.
    Needed,
    /// The proxy was refused, or is gone: it is requested again after a while.
    Later,
    Requested(Peer),
    Open(Peer, ProxyKey),
}

impl Proxy {
    fn is_of(self, peer: Peer) -> bool {
        matches!(self, Self::Requested(known) | Self::Open(known, _) if known == peer)
    }

    const fn is_open(self) -> bool {
        matches!(self, Self::Open(..))
    }
}

struct Join {
    setup: JoinSetup,
    supplier: Proxy,
    consumer: Proxy,
    samples: Inbox<FromDds>,
    spares: Mailbox<Vec<u8>>,
    /// Samples without an acknowledgement.
    unanswered: u32,
    events: Mailbox<ToDds>,
    done: Inbox<Back>,
    /// Events that wait for the writing thread or are with it, and their octets.
    out: usize,
    out_bytes: usize,
    /// Outbox that waits for room in the ring.
    blocked: Option<OutboxId>,
    /// Whether a refusal was logged, of the supplier's proxy and of the consumer's.
    is_logged: [bool; 2],
}

/// State of this protocol on a lane.
pub(crate) struct Protocol {
    joins: Vec<Join>,
    next_peer: Peer,
    /// The service's own account.
    own: Arc<Account>,
    request_bytes_min: u64,
    /// Whether there may be work that no ring announces.
    goes_on: bool,
}

/// Recipient of a sample's acknowledgement: a join.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    join: usize,
}

impl WireProtocol for Protocol {
    const NAME: &'static str = "DDS";
    /// Minimum octets charged for a request while administration has it.
    type Settings = u64;
    type Sockets = Vec<JoinSetup>;
    type Claim = Claim;

    fn settings(given: &Given<'_>) -> u64 {
        given.request_bytes_min
    }

    /// Makes the rings of the joins, and hands their threads their ends.
    fn new(common: &Common, ends: &mut LaneEnds, setups: Vec<JoinSetup>, _poll: &Poll) -> io::Result<Self> {
        let own = common.accounts.account_of(super::NOBODY);
        // This is the bridge's name in rules of access. Another lane may have noted it.
        let _ = own.identity().note_protocol("dds");
        Ok(Self {
            goes_on: !setups.is_empty(),
            joins: setups.into_iter().map(|setup| Join::new(setup, &ends.waker)).collect::<io::Result<_>>()?,
            next_peer: Tag::Dds.first_peer(),
            own,
            request_bytes_min: common.protocols.dds,
        })
    }

    const LOOK: fn(&Core) = |core| {
        for join in &core.protocols.dds.joins {
            join.samples.look();
            join.done.look();
        }
    };
    const SERVE_RINGS: fn(&mut Worker) -> bool = |worker| worker.core.serve_dds_joins();
    const GOES_ON: Check = |worker| worker.core.protocols.dds.goes_on;
    const GO_ON: Step = |worker| {
        if worker.core.protocols.dds.goes_on {
            worker.core.protocols.dds.goes_on = worker.core.serve_dds_joins();
        }
    };
    /// Whether a proxy is to be requested again later.
    const HAS_DEADLINES: Check = |worker| {
        let mut joins = worker.core.protocols.dds.joins.iter();
        joins.any(|join| join.supplier == Proxy::Later || join.consumer == Proxy::Later)
    };
    /// Requests proxies again that were refused.
    const SWEEP: Step = |worker| {
        let Self { joins, goes_on, .. } = &mut worker.core.protocols.dds;
        for proxy in joins.iter_mut().flat_map(|join| [&mut join.supplier, &mut join.consumer]) {
            if *proxy == Proxy::Later {
                *proxy = Proxy::Needed;
                *goes_on = true;
            }
        }
    };
    /// Whether events wait for writing threads or are with them.
    const HAS_UNDER_WAY: CoreCheck = |core| core.protocols.dds.joins.iter().any(|join| join.out > 0);

    const SEND: fn(&mut Core, &Delivery, &mut Vec<Arc<Event>>) =
        |core, delivery, events| core.protocols.dds.send_dds(delivery, events, &mut core.cx);
    /// Acknowledges a sample that waited, taken in or not.
    const ANSWER: fn(&mut Worker, Claim, Option<Refused>) = |worker, claim, refused| {
        let Core { cx, protocols, .. } = &mut worker.core;
        cx.counters.add(if refused.is_none() { Counter::DdsIn } else { Counter::DdsRefused }, 1);
        if let Some(join) = protocols.dds.joins.get_mut(claim.join) {
            join.unanswered = join.unanswered.saturating_sub(1);
        }
        protocols.dds.goes_on = true;
    };
    const PROXY_REGISTERED: fn(&mut Core, Peer, Result<ProxyKey, String>, &Arc<Account>) = Core::dds_proxy_registered;
    /// Notes that a proxy is gone. It is requested again later.
    const PROXY_GONE: fn(&mut Core, Peer) = |core, peer| {
        for join in &mut core.protocols.dds.joins {
            for proxy in [&mut join.supplier, &mut join.consumer] {
                if proxy.is_of(peer) {
                    *proxy = Proxy::Later;
                    log::warn!("{}: its proxy is gone; it is asked for again in a while", join.setup.name);
                }
            }
        }
        core.cx.clock.plan_sweep();
    };
}

impl Protocol {
    fn new_peer(&mut self) -> Peer {
        let peer = self.next_peer;
        self.next_peer = Peer(peer.0 + 1);
        peer
    }

    /// Sends an event to its join, and empties the list.
    #[inline(never)]
    pub(crate) fn send_dds(&mut self, delivery: &Delivery, events: &mut Vec<Arc<Event>>, cx: &mut Context) {
        let outcome = self.try_send_dds(delivery, events, cx);
        cx.release_events(events);
        cx.lane.handle_outcome(delivery.outbox, delivery.serial, outcome, cx.clock.now);
    }

    fn try_send_dds(&mut self, delivery: &Delivery, events: &mut Vec<Arc<Event>>, cx: &mut Context) -> Outcome {
        let Some(peer) = delivery.peer else { return Outcome::Gone };
        let Some(join) = self.joins.iter_mut().find(|join| join.consumer.is_of(peer)) else {
            return Outcome::Gone;
        };
        if !join.has_room() {
            join.blocked = Some(delivery.outbox);
            return Outcome::NoRoom;
        }
        let Some(event) = events.pop() else { return Outcome::Untranslatable };
        let alternate = if event.form == FORM_STRUCTURED {
            None
        } else {
            let Some(index) = event.alternates.position(delivery.output_form) else {
                events.push(event);
                return Outcome::Untranslatable;
            };
            Some(index)
        };
        let bytes = event.bytes.len();
        if let Err(back) = join.events.send(ToDds { event, alternate }) {
            events.push(back.event);
            join.blocked = Some(delivery.outbox);
            return Outcome::NoRoom;
        }
        join.out += 1;
        join.out_bytes += bytes;
        cx.counters.add(Counter::PushesSent, 1);
        Outcome::Sent
    }

    fn ask_for_dds_proxy(&mut self, at: usize, right: Right, cx: &mut Context) -> Proxy {
        let peer = self.new_peer();
        let Some(join) = self.joins.get(at) else { return Proxy::Never };
        let part = if right == Right::Publish {
            corba::Part::Supplier
        } else {
            let constraint = join.setup.to_dds.clone().unwrap_or_default();
            corba::Part::Consumer {
                types: Vec::new(),
                constraint,
                output_form: OUTPUT_FORM,
                start: None,
                correlation: None,
                looks_on: false,
                durable: None,
                confirms: false,
                refuses: false,
                backlog_bytes_max: None,
            }
        };
        let local_proxy =
            LocalProxy { channel: join.setup.channel.into(), peer, name: join.setup.name.clone(), part, about: None };
        let own = Arc::clone(&self.own);
        let octets = self.request_bytes_min.max(1024);
        match cx.request_local_proxy(at as u64, local_proxy, (&own, octets)) {
            Ok(()) => Proxy::Requested(peer),
            Err(_) => Proxy::Later,
        }
    }

    /// Releases events that were written, and resumes outboxes that waited for room.
    fn take_back_from_dds(&mut self, at: usize, cx: &mut Context) {
        let Some(join) = self.joins.get_mut(at) else { return };
        while let Some(back) = join.done.take() {
            let (event, counts) = match back {
                Back::Done(event, counts) => (event, counts),
                Back::Counted(counter, count) => {
                    cx.counters.add(counter, count);
                    continue;
                }
            };
            join.out = join.out.saturating_sub(1);
            join.out_bytes = join.out_bytes.saturating_sub(event.bytes.len());
            cx.counters.add(counts, 1);
            cx.lane.release(event);
        }
        if join.has_room()
            && let Some(outbox) = join.blocked.take()
        {
            cx.lane.resume_outbox(outbox, cx.clock.now);
            cx.deliveries.undelivered = true;
        }
    }
}

impl Join {
    fn new(setup: JoinSetup, waker: &Arc<Waker>) -> io::Result<Self> {
        let (reader_waker, writer_waker) = (Arc::new(Waker::new()?), Arc::new(Waker::new()?));
        let (to_lane, samples) = mailbox(waker, RING);
        let (spares, spares_at_reader) = mailbox(&reader_waker, RING);
        let (events, events_at_writer) = mailbox(&writer_waker, RING);
        // Half of it is for events: there is always room for these.
        let (back, done) = mailbox(waker, 2 * RING);
        let ends = ThreadEnds {
            reading: Some(ReadingEnds { samples: to_lane, spares: spares_at_reader, waker: reader_waker }),
            writing: Some(WritingEnds { events: events_at_writer, done: back, waker: writer_waker }),
        };
        // Threads that are gone already have said why.
        let _gone = setup.introduce.send(ends);
        let needed = |is_needed| if is_needed { Proxy::Needed } else { Proxy::Never };
        let (supplier, consumer) = (needed(setup.from_dds), needed(setup.to_dds.is_some()));
        Ok(Self {
            setup,
            supplier,
            consumer,
            samples,
            spares,
            unanswered: 0,
            events,
            done,
            out: 0,
            out_bytes: 0,
            blocked: None,
            is_logged: [false; 2],
        })
    }

    /// The proxy that needs this right, and whether its refusal was logged.
    const fn proxy(&mut self, right: Right) -> (&mut Proxy, &mut bool) {
        let [supplier_logged, consumer_logged] = &mut self.is_logged;
        match right {
            Right::Publish => (&mut self.supplier, supplier_logged),
            Right::Subscribe | Right::Administer => (&mut self.consumer, consumer_logged),
        }
    }

    fn has_room(&self) -> bool {
        self.events.room() > 0 && (self.out_bytes < OUT_BYTES_MAX || self.out == 0)
    }
}

impl Core {
    /// Serves the rings, and work that waits. True if there is more.
    fn serve_dds_joins(&mut self) -> bool {
        self.protocols.dds.goes_on = false;
        let mut has_more = false;
        for at in 0..self.protocols.dds.joins.len() {
            self.ask_for_dds_proxies(at);
            self.protocols.dds.take_back_from_dds(at, &mut self.cx);
            has_more |= self.take_samples(at);
        }
        has_more
    }

    /// Requests the proxies that a join needs. A request that the rules deny is made once, to be counted and logged, and again when they
    /// allow it.
    fn ask_for_dds_proxies(&mut self, at: usize) {
        for right in [Right::Publish, Right::Subscribe] {
            let Some(join) = self.protocols.dds.joins.get_mut(at) else { return };
            let channel = join.setup.channel;
            let (proxy, is_logged) = join.proxy(right);
            if *proxy != Proxy::Needed {
                continue;
            }
            let is_denied = *is_logged && self.may_dds(right, channel).is_err();
            let requested =
                if is_denied { Proxy::Later } else { self.protocols.dds.ask_for_dds_proxy(at, right, &mut self.cx) };
            if let Some(join) = self.protocols.dds.joins.get_mut(at) {
                *join.proxy(right).0 = requested;
            }
        }
    }

    /// Takes in samples that a join has read. True if more could be taken in.
    fn take_samples(&mut self, at: usize) -> bool {
        for _ in 0..Budget::EVENTS.events {
            let Some(join) = self.protocols.dds.joins.get_mut(at) else { return false };
            let (supplier, channel) = (join.supplier, join.setup.channel);
            if join.unanswered >= Budget::EVENTS.events || self.cx.reporting.draining.has_begun() {
                return false;
            }
            let source = match supplier {
                Proxy::Open(_, source) => Some(source),
                // Samples that the rules deny are taken nevertheless: left in DDS, they would block their writers.
                Proxy::Requested(_) | Proxy::Later | Proxy::Needed
                    if self.may_dds(Right::Publish, channel).is_err() =>
                {
                    None
                }
                _ => return false,
            };
            let Some(join) = self.protocols.dds.joins.get_mut(at) else { return false };
            match join.samples.take() {
                None => return false,
                Some(FromDds::Counted(counter, count)) => self.cx.counters.add(counter, count),
                Some(FromDds::Sample(sample)) => {
                    self.take_in_dds(at, (channel, source), &sample);
                    // If there is no room, the reading thread makes new buffers.
                    if let Some(join) = self.protocols.dds.joins.get_mut(at) {
                        let _dropped = join.spares.send(sample);
                    }
                }
            }
        }
        true
    }

    /// Event types for which the bridge has a right in a channel, if any.
    fn may_dds(&mut self, right: Right, channel: ChannelId) -> Result<Permit, Arc<Scope>> {
        let own = Arc::clone(&self.protocols.dds.own);
        self.access.may(&own, right, channel)
    }

    fn take_in_dds(&mut self, at: usize, into: (ChannelId, Option<ProxyKey>), sample: &[u8]) {
        match self.admit_dds(Claim { join: at }, into, sample) {
            Ok(true) => self.cx.counters.add(Counter::DdsIn, 1),
            Ok(false) => {
                if let Some(join) = self.protocols.dds.joins.get_mut(at) {
                    join.unanswered += 1;
                }
            }
            Err(_) => self.cx.counters.add(Counter::DdsRefused, 1),
        }
    }

    /// Hands an event to the engine. False if its outcome comes later.
    fn admit_dds(
        &mut self,
        claim: Claim,
        (channel, source): (ChannelId, Option<ProxyKey>),
        encoded: &[u8],
    ) -> Result<bool, Refused> {
        let body = giop::cdr::Reader::new(encoded, ENCODING);
        let header =
            event::read_structured(body, &mut event::work_for(encoded.len())).map_err(|_| Refused::Unreadable)?;
        let permit = self.may_dds(Right::Publish, channel).map_err(|scope| {
            let (own, why) = (Arc::clone(&self.protocols.dds.own), scope.why(Some((header.domain, header.type_name))));
            self.access.deny(&own, Right::Publish, channel, (why, &"a sample of DDS (publish)"), &mut self.cx);
            Refused::NotPermitted
        })?;
        let source = source.ok_or(Refused::NotPermitted)?;
        let mut pending_event: PendingEvent = self.cx.lane.begin_event_for(encoded.len());
        self.cx.lane.classify(&mut pending_event, header.domain, header.type_name);
        let event: &mut Event = &mut pending_event;
        event.form = FORM_STRUCTURED;
        event.tag = event::tag_at(ENCODING, 0, header.is_loose);
        event.bytes.extend_from_slice(encoded);
        if header.says_quality() {
            header.apply(event, &UtcClock::new(self.cx.clock.now, self.cx.clock.since_1970));
        }
        self.protocols.translate(source, event, &mut self.cx);
        let mut submission = Submission::new(source, protocols::Claim::Dds(claim), None).permitted(permit);
        self.admit(&mut submission, pending_event);
        let finished = self.finish_submission(&submission);
        self.deliver();
        finished
    }

    /// Handles a proxy that administration has made or refused.
    pub(crate) fn dds_proxy_registered(&mut self, peer: Peer, proxy: Result<ProxyKey, String>, account: &Arc<Account>) {
        for join in &mut self.protocols.dds.joins {
            let name = join.setup.name.clone();
            for (right, what) in
                [(Right::Publish, "samples are not taken in"), (Right::Subscribe, "events do not go there")]
            {
                let (known, is_logged) = join.proxy(right);
                if !known.is_of(peer) {
                    continue;
                }
                match &proxy {
                    Ok(key) => {
                        *known = Proxy::Open(peer, *key);
                        *is_logged = false;
                    }
                    Err(reason) => {
                        *known = Proxy::Later;
                        if !core::mem::replace(is_logged, true) {
                            log::warn!("{name}: {what}: {reason}; it is tried again");
                        }
                    }
                }
                if known.is_open() {
                    self.protocols.dds.goes_on = true;
                } else {
                    self.cx.clock.plan_sweep();
                }
                return;
            }
        }
        if let Ok(key) = proxy {
            self.cx.remove_local_proxy(0, key, account);
        }
    }
}

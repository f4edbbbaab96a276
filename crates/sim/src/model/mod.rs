//! A channel and its outboxes, naively: lists that are searched, sums that are added up each time they are asked for,
//! and "has anything ended?" asked of everything after every operation. Nothing is remembered that can be found out.

mod world;

use engine::{
    Admission, ChannelId, DiscardPolicy, DiscardReason, DisconnectReason, FullOutbox, Notice, OutboxSettings,
    OutboxState, Outcome, Peer, ProxyKey, ProxyState, Refusal, Side, Ticket, Time, Want,
};

pub(crate) use world::World;

/// What an event costs beside its bytes, and what each of its consumers costs.
const EVENT_BYTES: u64 = 256;
const CONSUMER_BYTES: u64 = 16;
/// How many events of consumers that are gone are let go of in a turn.
const LEFTOVERS_PER_TURN: usize = 256;

pub(crate) struct Model {
    /// What administration has done, and what of it the lane has picked up.
    pub(crate) world: World,
    routed: World,
    pub(crate) now: Time,
    /// Every event that was ever handed in.
    events: Vec<Event>,
    admitted: u64,
    /// Those that there are, and those that were: an outbox's place here is its name.
    pub(crate) outboxes: Vec<Outbox>,
    holds: Vec<Hold>,
    tickets: Vec<Held>,
    tickets_issued: u64,
    /// Events of consumers that are gone, not yet let go of.
    leftovers: Vec<usize>,
    /// Events that the door has; one it has twice is there twice.
    door: Vec<usize>,
    pub(crate) released: Vec<Ticket>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) timed_out: Vec<(usize, u32)>,
    pub(crate) counts: Counts,
}

struct Event {
    channel: ChannelId,
    weight: u64,
    charge: u64,
    serial: u64,
}

pub(crate) struct Outbox {
    pub(crate) key: ProxyKey,
    pub(crate) peer: Peer,
    connection: u64,
    /// Routing does not name it any more.
    pub(crate) removed: bool,
    /// The lane gave it up.
    dead: bool,
    waiting: Vec<usize>,
    in_flight: Vec<Flight>,
    next_serial: u32,
    blocked: Option<(u32, Option<Time>)>,
    retry_at: Option<Time>,
    pub(crate) failures: u32,
    failing_since: Time,
    holding: bool,
    held_events: u64,
    full_at_bound: bool,
    full_as_laggard: bool,
    dropped_while_full: u64,
    pub(crate) delivered: u64,
    pub(crate) discards: [u64; 7],
    /// How many deliveries others got while it could have had one.
    passed_over: usize,
}

struct Flight {
    serial: u32,
    event: usize,
    deadline: Option<Time>,
}

/// A channel's suppliers are held for the sake of its limits.
struct Hold {
    channel: ChannelId,
    by: Option<usize>,
    memory: bool,
    queue: bool,
    held_events: u64,
}

struct Held {
    ticket: Ticket,
    channel: ChannelId,
    reasons: Vec<Reason>,
}

#[derive(Clone, Copy, PartialEq)]
enum Reason {
    Channel,
    Outbox(usize),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) snapshots: u64,
    pub(crate) accepted: u64,
    pub(crate) held: u64,
    pub(crate) refused: u64,
    pub(crate) unwanted: u64,
    pub(crate) queued: u64,
    pub(crate) deliveries: u64,
    pub(crate) delivered: u64,
    pub(crate) put_back: u64,
    pub(crate) failures: u64,
    pub(crate) timed_out: u64,
    pub(crate) disconnected: u64,
    pub(crate) stale: u64,
    pub(crate) unknown: u64,
    pub(crate) discards: [u64; 7],
}

/// A delivery as the model expects it.
#[derive(Debug, PartialEq)]
pub(crate) struct Expected {
    pub(crate) label: usize,
    pub(crate) event_serial: u64,
    pub(crate) peer: Peer,
    pub(crate) want: Want,
    pub(crate) serial: u32,
    pub(crate) one_way: bool,
    pub(crate) deadline: Option<Time>,
}

impl Model {
    pub(crate) fn new(now: Time) -> Self {
        Self {
            world: World::default(),
            routed: World::default(),
            now,
            events: vec![],
            admitted: 0,
            outboxes: vec![],
            holds: vec![],
            tickets: vec![],
            tickets_issued: 0,
            leftovers: vec![],
            door: vec![],
            released: vec![],
            notices: vec![],
            timed_out: vec![],
            counts: Counts::default(),
        }
    }

    // ---- operations ----

    /// The lane picks up what administration did.
    pub(crate) fn route(&mut self) {
        self.counts.snapshots += 1;
        let old = std::mem::replace(&mut self.routed, self.world.clone());
        for at in self.present() {
            let Outbox { key, connection, .. } = self.outboxes[at];
            if !self.routed.proxy(key).is_ok_and(|proxy| is_consumer(proxy) && proxy.connection == connection) {
                self.drop_all(at, DiscardReason::Removed);
                self.outboxes[at].removed = true;
            }
        }
        for channel in &old.channels {
            if self.routed.channel(channel.id).is_err() {
                self.end_hold(channel.id);
            }
        }
        let mut connected = vec![];
        for channel in &self.routed.channels {
            for proxy in channel.proxies.iter().filter(|proxy| is_consumer(proxy)) {
                let key = ProxyKey { channel: channel.id, proxy: proxy.id };
                connected.push((key, proxy.connection, proxy.peer.unwrap_or_default()));
            }
        }
        for (key, connection, peer) in connected {
            if !self.outboxes.iter().any(|outbox| !outbox.removed && outbox.key == key) {
                self.outboxes.push(Outbox::new(key, connection, peer));
            }
        }
        self.look_for_room();
    }

    /// The number the next event will have here.
    pub(crate) fn next_label(&self) -> usize {
        self.events.len()
    }

    pub(crate) fn publish(&mut self, source: ProxyKey, domain: &str, name: &str, content_bytes: u64) -> Admission {
        let weight = content_bytes + EVENT_BYTES;
        self.events.push(Event { channel: source.channel, weight, charge: 0, serial: 0 });
        let admission = self.admit(source, domain, name);
        self.counts.accepted += u64::from(admission.is_ok());
        self.counts.held += u64::from(matches!(admission, Ok(Admission::Held(_))));
        self.counts.refused += u64::from(admission.is_err());
        self.look_for_room();
        admission.unwrap_or_else(Admission::Refused)
    }

    /// The delivery that this consumer is due, if it is due one.
    pub(crate) fn deliver(&mut self, key: ProxyKey) -> Option<(usize, Expected)> {
        let at = self.present().into_iter().find(|at| self.outboxes[*at].key == key)?;
        if !self.can_deliver(at) {
            return None;
        }
        for other in self.present() {
            let waits = other != at && self.can_deliver(other);
            self.outboxes[other].passed_over = if waits { self.outboxes[other].passed_over + 1 } else { 0 };
        }
        let settings = self.settings(at);
        let deadline = self.limit_from_now(settings);
        let want = self.routed.proxy(key).map_or(Want(0), |proxy| proxy.want);
        let outbox = &mut self.outboxes[at];
        let event = outbox.waiting.remove(0);
        let serial = outbox.next_serial;
        outbox.next_serial += 1;
        outbox.in_flight.push(Flight { serial, event, deadline });
        self.door.push(event);
        self.counts.deliveries += 1;
        self.look_for_room();
        let event_serial = self.events[event].serial;
        let peer = self.outboxes[at].peer;
        Some((at, Expected { label: event, event_serial, peer, want, serial, one_way: settings.one_way, deadline }))
    }

    pub(crate) fn outcome(&mut self, at: usize, serial: u32, outcome: Outcome) {
        if self.outboxes[at].removed || self.outboxes[at].dead {
            self.counts.unknown += 1;
            return;
        }
        let Some(place) = self.outboxes[at].in_flight.iter().position(|flight| flight.serial == serial) else {
            self.counts.stale += 1;
            return;
        };
        let limit = self.limit_from_now(self.settings(at));
        let outbox = &mut self.outboxes[at];
        match outcome {
            Outcome::Delivered | Outcome::Sent => {
                outbox.in_flight.remove(place);
                outbox.delivered += 1;
                self.counts.delivered += 1;
                self.succeed(at);
            }
            Outcome::Rejected => {
                outbox.in_flight.remove(place);
                self.count_discards(at, DiscardReason::Rejected, 1);
                self.succeed(at);
            }
            Outcome::Untranslatable => {
                outbox.in_flight.remove(place);
                self.count_discards(at, DiscardReason::Untranslatable, 1);
            }
            Outcome::NoRoom => {
                outbox.blocked = Some((serial, limit));
                self.put_back(at, place);
            }
            Outcome::Unreachable | Outcome::TimedOut | Outcome::Refused => self.fail(at),
            Outcome::Gone => self.disconnect(at, DisconnectReason::Gone),
        }
        self.look_for_room();
    }

    pub(crate) fn resume(&mut self, at: usize) {
        if self.outboxes[at].removed || self.outboxes[at].dead {
            self.counts.unknown += 1;
        } else {
            self.outboxes[at].blocked = None;
        }
    }

    /// The door lets go of an event.
    pub(crate) fn release(&mut self, label: usize) {
        if let Some(place) = self.door.iter().position(|event| *event == label) {
            self.door.remove(place);
        }
        self.look_for_room();
    }

    pub(crate) fn timeout(&mut self) {
        let turn = self.leftovers.len().min(LEFTOVERS_PER_TURN);
        self.leftovers.drain(..turn);
        for at in self.present() {
            let now = self.now;
            let is_over = |deadline: Option<Time>| deadline.is_some_and(|deadline| deadline <= now);
            let outbox = &mut self.outboxes[at];
            let unanswered =
                outbox.in_flight.iter().find(|flight| is_over(flight.deadline)).map(|flight| flight.serial);
            let blocked = outbox.blocked.filter(|(_, deadline)| is_over(*deadline)).map(|(serial, _)| serial);
            if let Some(serial) = unanswered.or(blocked) {
                self.timed_out.push((at, serial));
                self.counts.timed_out += 1;
                self.fail(at);
            } else if is_over(outbox.retry_at) {
                outbox.retry_at = None;
            }
        }
        self.look_for_room();
    }

    // ---- questions ----

    /// When something is due next.
    pub(crate) fn next_due(&self) -> Option<Time> {
        if !self.leftovers.is_empty() {
            return Some(self.now);
        }
        let outboxes = self.present().into_iter().map(|at| &self.outboxes[at]);
        outboxes
            .flat_map(|outbox| {
                let answers = outbox.in_flight.iter().filter_map(|flight| flight.deadline);
                answers.chain(outbox.blocked.and_then(|blocked| blocked.1)).chain(outbox.retry_at)
            })
            .min()
    }

    /// A consumer that could get a delivery now.
    pub(crate) fn someone_waits(&self) -> Option<ProxyKey> {
        self.present().into_iter().find(|at| self.can_deliver(*at)).map(|at| self.outboxes[at].key)
    }

    /// A consumer that was passed over more often than there are others.
    pub(crate) fn someone_starves(&self) -> Option<ProxyKey> {
        let present = self.present();
        let limit = present.len();
        present.into_iter().find(|at| self.outboxes[*at].passed_over > limit).map(|at| self.outboxes[at].key)
    }

    pub(crate) fn present(&self) -> Vec<usize> {
        let mut present: Vec<usize> = (0..self.outboxes.len()).filter(|at| !self.outboxes[*at].removed).collect();
        present.sort_by_key(|at| self.outboxes[*at].key);
        present
    }

    pub(crate) fn channels(&self) -> Vec<ChannelId> {
        self.routed.channels.iter().map(|channel| channel.id).collect()
    }

    pub(crate) fn state(&self, at: usize) -> OutboxState {
        let outbox = &self.outboxes[at];
        let suspended = self.routed.proxy(outbox.key).is_ok_and(|proxy| proxy.state == ProxyState::Suspended);
        match outbox {
            _ if outbox.dead => OutboxState::Disconnected,
            _ if suspended => OutboxState::Suspended,
            _ if outbox.retry_at.is_some() => OutboxState::BackingOff,
            _ if outbox.blocked.is_some() => OutboxState::NoRoom,
            _ => OutboxState::Active,
        }
    }

    /// How many events an outbox has, how many of them unanswered, and what they weigh.
    pub(crate) fn backlog(&self, at: usize) -> (u64, u32, u64) {
        let outbox = &self.outboxes[at];
        let (events, in_flight) = (outbox.waiting.len() + outbox.in_flight.len(), outbox.in_flight.len());
        (events as u64, u32::try_from(in_flight).unwrap_or(u32::MAX), self.weight(at))
    }

    /// How many events a channel has, what they are charged, and how many replies are withheld.
    pub(crate) fn usage(&self, channel: ChannelId) -> (u64, u64, u64) {
        let mut held: Vec<usize> = self.leftovers.iter().chain(&self.door).copied().collect();
        for outbox in &self.outboxes {
            held.extend(outbox.waiting.iter().copied().chain(outbox.in_flight.iter().map(|flight| flight.event)));
        }
        held.retain(|event| self.events[*event].channel == channel);
        held.sort_unstable();
        held.dedup();
        let bytes = held.iter().map(|event| self.events[*event].charge).sum();
        let tickets = self.tickets.iter().filter(|held| held.channel == channel).count();
        (held.len() as u64, bytes, tickets as u64)
    }

    // ---- events in ----

    fn admit(&mut self, source: ProxyKey, domain: &str, name: &str) -> Result<Admission, Refusal> {
        let event = self.events.len() - 1;
        let channel = source.channel;
        let budget = self.routed.channel(channel)?.limits.memory_budget_bytes;
        let supplier = self.routed.proxy(source)?;
        if supplier.side != Side::Suppliers {
            return Err(Refusal::ProxyNotFound { proxy: source });
        }
        if supplier.state == ProxyState::Unconnected {
            return Err(Refusal::NotConnected { proxy: source });
        }
        let destinations = self.destinations(channel, domain, name);
        if destinations.is_empty() {
            self.counts.unwanted += 1;
            return Ok(Admission::Accepted { destinations: 0 });
        }
        let charge = |destinations: &[usize], weight: u64| weight + CONSUMER_BYTES * destinations.len() as u64;
        let weight = self.events[event].weight;
        let charged_bytes = charge(&destinations, weight);
        if charged_bytes > budget {
            return Err(Refusal::EventTooLarge { charged_bytes, budget_bytes: budget });
        }
        for at in destinations {
            let (settings, outbox) = (self.settings(at), &self.outboxes[at]);
            if let Some(max) = settings.max_events_per_consumer
                && settings.full_outbox == Some(FullOutbox::Reject)
                && self.is_full(at)
            {
                return Err(Refusal::OutboxFull { proxy: outbox.key, capacity_events: max.get() });
            }
        }
        let hold = self.make_room(channel, charged_bytes)?;
        let destinations = self.destinations(channel, domain, name);
        if destinations.is_empty() {
            self.counts.unwanted += 1;
            return Ok(Admission::Accepted { destinations: 0 });
        }
        self.events[event].charge = charge(&destinations, weight);
        self.events[event].serial = self.admitted;
        self.admitted += 1;

        let mut reasons = vec![];
        let mut doomed = vec![];
        let mut taken = 0;
        for at in destinations {
            if self.is_full(at) && !self.make_place(at, &mut doomed) {
                continue;
            }
            self.outboxes[at].waiting.push(event);
            taken += 1;
            if self.outboxes[at].holding {
                reasons.push(Reason::Outbox(at));
                self.outboxes[at].held_events += 1;
            }
        }
        self.counts.queued += u64::from(taken);
        for at in doomed {
            self.disconnect(at, DisconnectReason::OutboxFull);
        }
        self.look_for_room();
        if let Some(hold) = hold {
            self.begin_hold(hold);
        }
        if let Some(hold) = self.holds.iter_mut().find(|hold| hold.channel == channel) {
            reasons.push(Reason::Channel);
            hold.held_events += 1;
        }
        if reasons.is_empty() {
            return Ok(Admission::Accepted { destinations: taken });
        }
        let ticket = Ticket(self.tickets_issued);
        self.tickets_issued += 1;
        self.tickets.push(Held { ticket, channel, reasons });
        Ok(Admission::Held(ticket))
    }

    fn destinations(&self, channel: ChannelId, domain: &str, name: &str) -> Vec<usize> {
        let mut found = self.present();
        found.retain(|at| {
            let outbox = &self.outboxes[*at];
            outbox.key.channel == channel && !outbox.dead && self.routed.wants(outbox.key, domain, name)
        });
        found
    }

    fn is_full(&self, at: usize) -> bool {
        let max = self.settings(at).max_events_per_consumer;
        max.is_some_and(|max| self.outboxes[at].waiting.len() >= max.get() as usize)
    }

    /// Makes place in a full outbox; says whether the arriving event goes in.
    fn make_place(&mut self, at: usize, doomed: &mut Vec<usize>) -> bool {
        let settings = self.settings(at);
        let policy = settings.full_outbox.unwrap_or(FullOutbox::Discard);
        if policy == FullOutbox::Disconnect {
            doomed.push(at);
            return false;
        }
        if policy == FullOutbox::Hold && !self.outboxes[at].holding {
            self.outboxes[at].holding = true;
            let by = Some(self.outboxes[at].key);
            self.notices.push(Notice::SuppliersHeld { channel: self.outboxes[at].key.channel, by });
        }
        self.note_full(at, policy);
        self.outboxes[at].full_at_bound = true;
        if policy == FullOutbox::Hold {
            return true;
        }
        if settings.discard_policy == DiscardPolicy::Lifo {
            self.count_discards(at, DiscardReason::OutboxFull, 1);
            self.outboxes[at].dropped_while_full += 1;
            return false;
        }
        while self.is_full(at) {
            self.discard_one(at, DiscardReason::OutboxFull);
        }
        true
    }

    // ---- limits of a channel ----

    fn make_room(&mut self, channel: ChannelId, charge: u64) -> Result<Option<Hold>, Refusal> {
        let limits = self.routed.channel(channel)?.limits;
        let budget = limits.memory_budget_bytes;
        let max_queue = limits.max_queue_length.map(|max| u64::from(max.get()));
        let refusal = |queue: bool| match limits.max_queue_length {
            Some(max) if queue => Refusal::QueueFull { channel, capacity_events: max.get() },
            _ => Refusal::MemorySpent { channel, budget_bytes: budget },
        };
        if self.holds.iter().any(|hold| hold.channel == channel) {
            let (events, bytes, _) = self.usage(channel);
            let queue = max_queue.is_some_and(|max| events + 1 > 2 * max);
            return if queue || bytes + charge > 2 * budget { Err(refusal(queue)) } else { Ok(None) };
        }
        let mut passed = vec![];
        loop {
            let (events, bytes, _) = self.usage(channel);
            let memory = bytes + charge > budget;
            let queue = max_queue.is_some_and(|max| events + 1 > max);
            if !memory && !queue {
                return Ok(None);
            }
            if let Some(place) = self.leftovers.iter().position(|event| self.events[*event].channel == channel) {
                self.leftovers.remove(place);
                continue;
            }
            if queue && limits.reject_new_events {
                return Err(refusal(true));
            }
            let mut laggard: Option<usize> = None;
            for at in self.present() {
                let counts = self.outboxes[at].key.channel == channel && self.weight(at) > 0 && !passed.contains(&at);
                if counts && laggard.is_none_or(|largest| self.weight(at) > self.weight(largest)) {
                    laggard = Some(at);
                }
            }
            let hold = |by| Hold { channel, by, memory, queue, held_events: 0 };
            let Some(at) = laggard else { return Ok(memory.then(|| hold(None))) };
            let unset = if memory { FullOutbox::Hold } else { FullOutbox::Discard };
            match self.settings(at).full_outbox.unwrap_or(unset) {
                FullOutbox::Hold => return Ok(Some(hold(Some(at)))),
                FullOutbox::Reject => {
                    self.note_full(at, FullOutbox::Reject);
                    self.outboxes[at].full_as_laggard = true;
                    return Err(refusal(queue));
                }
                FullOutbox::Disconnect => {
                    let reason = if memory { DisconnectReason::MemorySpent } else { DisconnectReason::QueueFull };
                    self.disconnect(at, reason);
                }
                FullOutbox::Discard if self.outboxes[at].waiting.is_empty() => passed.push(at),
                FullOutbox::Discard => {
                    self.note_full(at, FullOutbox::Discard);
                    self.outboxes[at].full_as_laggard = true;
                    let reason = if memory { DiscardReason::MemorySpent } else { DiscardReason::QueueFull };
                    self.discard_one(at, reason);
                }
            }
        }
    }

    fn begin_hold(&mut self, hold: Hold) {
        let Ok(channel) = self.routed.channel(hold.channel) else { return };
        let limits = channel.limits;
        let (events, bytes, _) = self.usage(hold.channel);
        let memory = hold.memory && bytes > limits.memory_budget_bytes;
        let queue = hold.queue && limits.max_queue_length.is_some_and(|max| events > u64::from(max.get()));
        if !memory && !queue {
            return;
        }
        let by = hold.by.map(|at| self.outboxes[at].key);
        self.notices.push(Notice::SuppliersHeld { channel: hold.channel, by });
        if let Some(at) = hold.by {
            self.note_full(at, FullOutbox::Hold);
            self.outboxes[at].full_as_laggard = true;
        }
        self.holds.push(hold);
    }

    fn end_hold(&mut self, channel: ChannelId) {
        let Some(place) = self.holds.iter().position(|hold| hold.channel == channel) else { return };
        let Hold { by, held_events, .. } = self.holds.remove(place);
        let by = by.map(|at| self.outboxes[at].key);
        self.notices.push(Notice::SuppliersReleased { channel, by, held_events });
        self.end_reason(Some(channel), Reason::Channel);
    }

    fn end_outbox_hold(&mut self, at: usize) {
        if !self.outboxes[at].holding {
            return;
        }
        self.outboxes[at].holding = false;
        let held_events = std::mem::take(&mut self.outboxes[at].held_events);
        let key = self.outboxes[at].key;
        self.notices.push(Notice::SuppliersReleased { channel: key.channel, by: Some(key), held_events });
        self.end_reason(None, Reason::Outbox(at));
    }

    fn end_reason(&mut self, channel: Option<ChannelId>, reason: Reason) {
        for held in self.tickets.iter_mut().filter(|held| channel.is_none_or(|channel| held.channel == channel)) {
            held.reasons.retain(|other| *other != reason);
        }
        let done = self.tickets.iter().filter(|held| held.reasons.is_empty());
        self.released.extend(done.map(|held| held.ticket));
        self.tickets.retain(|held| !held.reasons.is_empty());
    }

    /// Asks of everything that is full or held whether it still is.
    fn look_for_room(&mut self) {
        for at in self.present() {
            let settings = self.settings(at);
            let waiting = self.outboxes[at].waiting.len();
            let has_room = settings.max_events_per_consumer.is_none_or(|max| {
                let eighth = max.get().div_ceil(8);
                waiting <= (max.get() - eighth) as usize
            });
            if has_room || settings.full_outbox != Some(FullOutbox::Hold) {
                self.end_outbox_hold(at);
            }
            if has_room && self.outboxes[at].full_at_bound {
                self.outboxes[at].full_at_bound = false;
                self.note_recovered(at);
            }
        }
        for channel in self.channels() {
            let Ok(limits) = self.routed.channel(channel).map(|channel| channel.limits) else { continue };
            let (events, bytes, _) = self.usage(channel);
            let budget = limits.memory_budget_bytes;
            let memory_has_room = bytes <= budget - budget / 8;
            let queue_has_room = limits.max_queue_length.is_none_or(|max| {
                let eighth = max.get().div_ceil(8);
                events <= u64::from(max.get() - eighth)
            });
            if let Some(hold) = self.holds.iter().find(|hold| hold.channel == channel) {
                let has_room = (memory_has_room || !hold.memory) && (queue_has_room || !hold.queue);
                let no_reason = hold.by.is_some_and(|at| {
                    let unset = if hold.memory { FullOutbox::Hold } else { FullOutbox::Discard };
                    self.settings(at).full_outbox.unwrap_or(unset) != FullOutbox::Hold
                });
                if has_room || no_reason {
                    self.end_hold(channel);
                }
            }
            if memory_has_room && queue_has_room {
                for at in self.present() {
                    if self.outboxes[at].key.channel == channel && self.outboxes[at].full_as_laggard {
                        self.outboxes[at].full_as_laggard = false;
                        self.note_recovered(at);
                    }
                }
            }
        }
    }

    fn note_full(&mut self, at: usize, policy: FullOutbox) {
        let (backlog_events, _, backlog_bytes) = self.backlog(at);
        let outbox = &mut self.outboxes[at];
        if !outbox.full_at_bound && !outbox.full_as_laggard {
            outbox.dropped_while_full = 0;
            self.notices.push(Notice::OutboxFull { key: outbox.key, policy, backlog_events, backlog_bytes });
        }
    }

    fn note_recovered(&mut self, at: usize) {
        let outbox = &mut self.outboxes[at];
        if !outbox.full_at_bound && !outbox.full_as_laggard {
            let dropped = outbox.dropped_while_full;
            self.notices.push(Notice::OutboxRecovered { key: outbox.key, dropped });
        }
    }

    // ---- outboxes ----

    fn can_deliver(&self, at: usize) -> bool {
        let outbox = &self.outboxes[at];
        let window = if outbox.failures > 0 { 1 } else { self.settings(at).push_window };
        let is_idle = self.state(at) == OutboxState::Active;
        is_idle && !outbox.waiting.is_empty() && outbox.in_flight.len() < usize::from(window)
    }

    fn settings(&self, at: usize) -> OutboxSettings {
        self.routed.effective(self.outboxes[at].key).unwrap_or_default()
    }

    fn limit_from_now(&self, settings: OutboxSettings) -> Option<Time> {
        (!settings.reply_timeout.is_zero()).then(|| self.now + settings.reply_timeout)
    }

    fn weight(&self, at: usize) -> u64 {
        let outbox = &self.outboxes[at];
        let all = outbox.waiting.iter().copied().chain(outbox.in_flight.iter().map(|flight| flight.event));
        all.map(|event| self.events[event].weight).sum()
    }

    fn put_back(&mut self, at: usize, from: usize) {
        let outbox = &mut self.outboxes[at];
        let back: Vec<usize> = outbox.in_flight.drain(from..).map(|flight| flight.event).collect();
        self.counts.put_back += back.len() as u64;
        outbox.waiting.splice(0..0, back);
    }

    fn succeed(&mut self, at: usize) {
        let outbox = &mut self.outboxes[at];
        if outbox.failures > 0 {
            let after = self.now.since(outbox.failing_since);
            self.notices.push(Notice::ConsumerRecovered { key: outbox.key, failures: outbox.failures, after });
            outbox.failures = 0;
        }
    }

    fn fail(&mut self, at: usize) {
        let settings = self.settings(at);
        self.put_back(at, 0);
        self.counts.failures += 1;
        let outbox = &mut self.outboxes[at];
        outbox.blocked = None;
        if outbox.failures == 0 {
            outbox.failing_since = self.now;
        }
        outbox.failures += 1;
        let (failures, failing_for) = (outbox.failures, self.now.since(outbox.failing_since));
        if !settings.give_up_after.is_zero() && failing_for >= settings.give_up_after {
            self.disconnect(at, DisconnectReason::GivenUp { failures, failing_for });
            return;
        }
        let mut retry_in = settings.backoff_min;
        for _ in 1..failures {
            retry_in = (retry_in * 2).min(settings.backoff_max.max(settings.backoff_min));
        }
        outbox.retry_at = Some(self.now + retry_in);
        if failures == 1 {
            self.notices.push(Notice::ConsumerFailing { key: outbox.key, failures, retry_in });
        }
    }

    fn disconnect(&mut self, at: usize, reason: DisconnectReason) {
        let discarded = self.drop_all(at, DiscardReason::Disconnected);
        let outbox = &mut self.outboxes[at];
        outbox.dead = true;
        outbox.blocked = None;
        outbox.retry_at = None;
        self.counts.disconnected += 1;
        self.notices.push(Notice::ConsumerDisconnected { key: outbox.key, peer: outbox.peer, reason, discarded });
    }

    /// Drops all an outbox has, and ends what it was the reason for. Says how many events.
    fn drop_all(&mut self, at: usize, reason: DiscardReason) -> u64 {
        let outbox = &mut self.outboxes[at];
        let mut events: Vec<usize> = outbox.in_flight.drain(..).map(|flight| flight.event).collect();
        events.append(&mut outbox.waiting);
        (outbox.full_at_bound, outbox.full_as_laggard) = (false, false);
        let (count, channel) = (events.len() as u64, outbox.key.channel);
        self.leftovers.extend(events);
        self.count_discards(at, reason, count);
        self.end_outbox_hold(at);
        if self.holds.iter().any(|hold| hold.channel == channel && hold.by == Some(at)) {
            self.end_hold(channel);
        }
        count
    }

    fn discard_one(&mut self, at: usize, reason: DiscardReason) {
        let policy = self.settings(at).discard_policy;
        let waiting = &mut self.outboxes[at].waiting;
        waiting.remove(if policy == DiscardPolicy::Lifo { waiting.len() - 1 } else { 0 });
        self.outboxes[at].dropped_while_full += 1;
        self.count_discards(at, reason, 1);
    }

    fn count_discards(&mut self, at: usize, reason: DiscardReason, count: u64) {
        self.outboxes[at].discards[reason as usize] += count;
        self.counts.discards[reason as usize] += count;
    }
}

impl Outbox {
    fn new(key: ProxyKey, connection: u64, peer: Peer) -> Self {
        Self {
            key,
            peer,
            connection,
            removed: false,
            dead: false,
            waiting: vec![],
            in_flight: vec![],
            next_serial: 0,
            blocked: None,
            retry_at: None,
            failures: 0,
            failing_since: Time(0),
            holding: false,
            held_events: 0,
            full_at_bound: false,
            full_as_laggard: false,
            dropped_while_full: 0,
            delivered: 0,
            discards: [0; 7],
            passed_over: 0,
        }
    }
}

fn is_consumer(proxy: &world::Proxy) -> bool {
    proxy.side == Side::Consumers && proxy.state != ProxyState::Unconnected && proxy.peer.is_some()
}

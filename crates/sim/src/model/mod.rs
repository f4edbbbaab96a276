//! A channel and its outboxes, naively: lists that are searched, sums that are computed at each use, and a check of
//! everything for expiry after every operation. Nothing is stored that can be computed.

mod admission;
mod aside;
mod completed;
mod filters;
mod holding;
mod outboxes;
mod waiting;
mod world;

use std::cmp::Ordering;
use std::time::Duration;

use engine::{
    Admission, ChannelId, DiscardReason, DisconnectReason, Notice, OrderPolicy, OutboxState, Outcome, OutputForm, Peer,
    ProxyKey, ProxyState, Refusal, RemoteFilterGroups, Side, Ticket, Time,
};

pub(crate) use completed::End;
pub(crate) use filters::{Condition, Constraint, Content, FIELD_NAMES};
pub(crate) use waiting::Header;
pub(crate) use world::{World, matches};

use waiting::Waiting;

/// Charge of an event beside its bytes.
const EVENT_BYTES: u64 = 320;
/// Orphaned events released per round.
const ORPHANED_PER_ROUND: usize = 256;

pub(crate) struct Model {
    /// Administration's changes, and those that the lane has picked up.
    pub(crate) world: World,
    routed: World,
    pub(crate) now: Time,
    /// Whether lifetimes only order events.
    keeps_expired: bool,
    /// Time of the last check for expiry and start times.
    timed_at: Time,
    /// Every event ever handed in.
    events: Vec<Event>,
    admitted: u64,
    /// All present and former outboxes; the index identifies an outbox.
    pub(crate) outboxes: Vec<Outbox>,
    holds: Vec<Hold>,
    /// Channels that have blocked suppliers and had no room since, with the time of the first.
    pressed: Vec<(ChannelId, Time)>,
    tickets: Vec<Withheld>,
    tickets_issued: u64,
    /// Orphaned events that are not yet released.
    orphaned_events: Vec<usize>,
    /// Outcomes of deliveries, by consumer and event.
    concluded: Vec<((ProxyKey, usize), Outcome)>,
    /// Events that the protocol has, once for each copy.
    handed_out: Vec<usize>,
    pub(crate) released: Vec<Ticket>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) timed_out: Vec<(usize, u32)>,
    pub(crate) counts: Counts,
    /// How often suppliers were blocked for a late event, and how often blocking for a full consumer ended by its time limit.
    pub(crate) late: u64,
    pub(crate) blocked: u64,
    /// How often a consumer stopped blocking suppliers and stayed connected.
    pub(crate) waited_out: u64,
}

struct Event {
    channel: ChannelId,
    weight: u64,
    charge: u64,
    serial: u64,
    header: Header,
    /// Whether the event or its supplier sets a priority.
    says_priority: bool,
    content: Content,
    /// Whether it was accepted, and its consumers then.
    taken: bool,
    consumers: Vec<ProxyKey>,
}

pub(crate) struct Outbox {
    pub(crate) key: ProxyKey,
    pub(crate) peer: Option<Peer>,
    connection: u64,
    /// Whether routing does not name it any more.
    pub(crate) removed: bool,
    /// Whether the lane disconnected it.
    dead: bool,
    pull: bool,
    batches: bool,
    /// Order policy at its consumer's last routing.
    order: OrderPolicy,
    waiting: Vec<Waiting>,
    in_flight: Vec<Flight>,
    /// Time of the last answer to a delivery.
    answered_at: Time,
    /// Since when it has taken nothing although it could have.
    silent_since: Time,
    /// How many events each waiting client takes at most.
    credits: Vec<u32>,
    next_serial: u32,
    /// Most events in a delivery after a rejected batch, and number of the events put back that are not complete.
    split: (u32, u64),
    /// Time of the last rejection.
    rejected_at: Option<Time>,
    blocked: Option<(u32, Option<Time>)>,
    retry_at: Option<Time>,
    /// Number of deliveries set aside, first of those in flight, and the latest time at which they are put back.
    aside: usize,
    aside_until: Time,
    blamed: Vec<Blamed>,
    undeliverable_at: Option<Time>,
    pub(crate) failures: u32,
    failing_since: Time,
    holding: bool,
    /// Whether suppliers are blocked because its next event is late.
    late: bool,
    holding_since: Time,
    blocked_events: u64,
    /// Number of earlier drops, set while it no longer blocks suppliers because it took nothing for too long.
    waited_out: Option<u64>,
    full_at_bound: bool,
    full_as_slow_consumer: bool,
    dropped_while_full: u64,
    pub(crate) delivered: u64,
    pub(crate) discards: [u64; 13],
    /// Number of deliveries of others while it could have had one: of those of its dispatch priority, and of lower ones.
    passed_over: [usize; 2],
}

/// An event with failed deliveries: their number, and the times of the first and the last.
#[derive(Clone, Copy)]
struct Blamed {
    event: usize,
    attempts: u32,
    since: Time,
    last: Time,
}

struct Flight {
    serial: u32,
    events: Vec<Waiting>,
    deadline: Option<Time>,
    pulled: bool,
    /// Of a waiting pull: how many events it takes at most.
    credit: Option<u32>,
}

/// Blocking of a channel's suppliers by its limits.
struct Hold {
    channel: ChannelId,
    by: Option<usize>,
    /// Since when this outbox has been the reason.
    since: Time,
    memory: bool,
    queue: bool,
    blocked_events: u64,
    /// When to look for a consumer that has taken nothing for too long.
    look_at: Option<Time>,
}

struct Withheld {
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
    pub(crate) withheld: u64,
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
    pub(crate) filtered: u64,
    pub(crate) filtered_in: u64,
    pub(crate) discards: [u64; 13],
}

/// A delivery as the model expects it.
#[derive(Debug, PartialEq)]
pub(crate) struct Expected {
    pub(crate) labels: Vec<usize>,
    pub(crate) event_serials: Vec<u64>,
    pub(crate) peer: Option<Peer>,
    pub(crate) output_form: OutputForm,
    pub(crate) serial: u32,
    pub(crate) one_way: bool,
    pub(crate) deadline: Option<Time>,
    pub(crate) pulled: bool,
    pub(crate) ask: Option<RemoteFilterGroups>,
    pub(crate) repeated: bool,
}

/// Expected admission of an event: the engine's result without the pending event.
#[derive(Debug, PartialEq)]
pub(crate) enum Said {
    Decided(Admission),
    AwaitingFilter(RemoteFilterGroups),
}

impl Model {
    pub(crate) fn new(now: Time, keeps_expired: bool) -> Self {
        Self {
            world: World::default(),
            routed: World::default(),
            now,
            keeps_expired,
            timed_at: now,
            events: vec![],
            admitted: 0,
            outboxes: vec![],
            holds: vec![],
            pressed: vec![],
            tickets: vec![],
            tickets_issued: 0,
            orphaned_events: vec![],
            concluded: vec![],
            handed_out: vec![],
            released: vec![],
            notices: vec![],
            timed_out: vec![],
            counts: Counts::default(),
            late: 0,
            blocked: 0,
            waited_out: 0,
        }
    }

    // ---- operations ----

    /// Makes the lane pick up administration's changes. Backlogs of consumers that are gone are orphaned in the order of `gone`.
    pub(crate) fn route(&mut self, gone: &[ProxyKey]) {
        self.counts.snapshots += 1;
        let suspended = |model: &Self| -> Vec<usize> {
            let present = model.present().into_iter();
            present.filter(|at| model.is_suspended(*at)).collect()
        };
        let were_suspended = suspended(self);
        let old = std::mem::replace(&mut self.routed, self.world.clone());
        for at in self.in_order_of(gone) {
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
                connected.push(Outbox::new(key, proxy));
            }
        }
        for new in connected {
            if !self.outboxes.iter().any(|outbox| !outbox.removed && outbox.key == new.key) {
                self.outboxes.push(new);
            }
        }
        for at in self.present() {
            self.outboxes[at].order = self.settings(at).order_policy;
            if !self.is_waited_out(at) {
                self.wait_for_again(at);
            }
            if were_suspended.contains(&at) && !self.is_suspended(at) {
                self.outboxes[at].silent_since = self.now;
            }
        }
        let channels = self.channels();
        self.pressed.retain(|(channel, _)| channels.contains(channel));
        self.look_for_room();
    }

    /// The number of the next event in this model.
    pub(crate) fn next_label(&self) -> usize {
        self.events.len()
    }

    /// Hands in an event. Consumers to be disconnected for it are in the order of `first`.
    pub(crate) fn publish(
        &mut self,
        source: ProxyKey,
        (content, content_bytes): (Content, u64),
        header: Header,
        first: &[ProxyKey],
    ) -> Said {
        let weight = content_bytes + EVENT_BYTES;
        // The supplier's settings apply where the header says nothing.
        let (priority, timeout) = self.routed.of_supplier(source);
        // A supplier's priority of 0 is as good as none.
        let says_priority = header.priority.is_some() || priority.is_some_and(|priority| priority != 0);
        let cut = self.routed.channel(source.channel).is_ok_and(|channel| channel.limits.filter_steps_max == 1);
        let content = Content { cut, ..content };
        let priority = header.priority.or(priority);
        let header = Header { priority, timeout: header.timeout.or(timeout), ..header };
        let channel = source.channel;
        let (taken, consumers) = (false, vec![]);
        self.events.push(Event {
            channel,
            weight,
            charge: 0,
            serial: 0,
            header,
            says_priority,
            content,
            taken,
            consumers,
        });
        self.hand_in(source, false, first)
    }

    /// Hands in again, approved, the event that awaited a filter.
    pub(crate) fn approve(&mut self, source: ProxyKey, first: &[ProxyKey]) -> Said {
        self.hand_in(source, true, first)
    }

    fn hand_in(&mut self, source: ProxyKey, approved: bool, first: &[ProxyKey]) -> Said {
        let admission = match self.admit(source, approved, first) {
            Ok(Said::AwaitingFilter(filter_groups)) => return Said::AwaitingFilter(filter_groups),
            Ok(Said::Decided(admission)) => Ok(admission),
            Err(refusal) => Err(refusal),
        };
        if let Some(event) = self.events.last_mut() {
            event.taken = admission.is_ok();
        }
        self.counts.accepted += u64::from(admission.is_ok());
        self.counts.withheld += u64::from(matches!(admission, Ok(Admission::Withheld(_))));
        self.counts.refused += u64::from(admission.is_err());
        self.look_for_room();
        Said::Decided(admission.unwrap_or_else(Admission::Refused))
    }

    /// The next delivery to this consumer, if it is due one.
    pub(crate) fn deliver(&mut self, key: ProxyKey) -> Option<(usize, Expected)> {
        let at = self.present().into_iter().find(|at| self.outboxes[*at].key == key)?;
        if !self.can_deliver(at) {
            return None;
        }
        for other in self.present() {
            let waits = other != at && self.can_deliver(other);
            let priority = |of| self.settings(of).dispatch_priority;
            let passed = match priority(at).cmp(&priority(other)) {
                Ordering::Less => [0, 1],
                Ordering::Equal => [1, 0],
                Ordering::Greater => [0, 0],
            };
            let outbox = &mut self.outboxes[other];
            let [by_equal, by_lower] = if waits { outbox.passed_over } else { [0, 0] };
            outbox.passed_over = if waits { [by_equal + passed[0], by_lower + passed[1]] } else { [0, 0] };
        }
        let most = self.most(at, self.settings(at));
        let credit = if self.outboxes[at].pull { Some(self.outboxes[at].credits.remove(0)) } else { None };
        Some((at, self.begin(at, most, credit.is_some(), credit)))
    }

    /// Delivery to a client that pulls, if any event waits.
    ///
    /// # Errors
    ///
    /// If no pull consumer is connected there.
    pub(crate) fn pull(&mut self, key: ProxyKey, most: u32) -> Result<Option<(usize, Expected)>, Refusal> {
        let at = self.puller(key)?;
        let settings = self.settings(at);
        let suspended = self.state(at) == OutboxState::Suspended;
        if suspended || self.line(at, OrderPolicy::Fifo).is_empty() {
            return Ok(None);
        }
        let most = self.pull_most(at, settings, most);
        Ok(Some((at, self.begin(at, most, true, None))))
    }

    /// Adds a waiting pull.
    ///
    /// # Errors
    ///
    /// If no pull consumer is connected there.
    pub(crate) fn await_events(&mut self, key: ProxyKey, most: u32) -> Result<(), Refusal> {
        let at = self.puller(key)?;
        self.outboxes[at].credits.push(most);
        Ok(())
    }

    /// Removes the latest waiting pull.
    pub(crate) fn cancel_wait(&mut self, key: ProxyKey) {
        if let Ok(at) = self.puller(key) {
            self.outboxes[at].credits.pop();
        }
    }

    fn puller(&self, key: ProxyKey) -> Result<usize, Refusal> {
        let is_it = |at: &usize| {
            let outbox = &self.outboxes[*at];
            outbox.key == key && outbox.pull && !outbox.dead
        };
        self.present().into_iter().find(is_it).ok_or(Refusal::NotConnected { proxy: key })
    }

    fn begin(&mut self, at: usize, most: u32, pulled: bool, credit: Option<u32>) -> Expected {
        let settings = self.settings(at);
        let output_form = self.routed.proxy(self.outboxes[at].key).map_or(OutputForm(0), |proxy| proxy.output_form);
        let output_form = output_form.marking_repeats(settings.mark_repeats);
        let mut events = self.line(at, settings.order_policy);
        // An event with remote filters to call is a batch of its own.
        let ask = events.first().and_then(|first| first.ask);
        let again = events.first().is_some_and(|first| first.again);
        let most = if again { most.min(self.outboxes[at].split.0) } else { most };
        let most = if ask.is_some() { 1 } else { most as usize };
        let plain = events.iter().take_while(|waiting| waiting.ask.is_none() && waiting.again == again).count();
        events.truncate(most.min(plain.max(1)));
        let asking = if ask.is_some() { settings.filter_timeout } else { Duration::ZERO };
        let deadline = self.limit_from_now(settings).filter(|_| !pulled).map(|limit| limit + asking);
        let labels: Vec<usize> = events.iter().map(|waiting| waiting.event).collect();
        let event_serials = labels.iter().map(|label| self.events[*label].serial).collect();
        let outbox = &mut self.outboxes[at];
        outbox.waiting.retain(|waiting| !labels.contains(&waiting.event));
        let (serial, peer) = (outbox.next_serial, outbox.peer);
        outbox.next_serial += 1;
        outbox.in_flight.push(Flight { serial, events, deadline, pulled, credit });
        self.handed_out.extend(&labels);
        self.counts.deliveries += 1;
        self.look_for_room();
        let one_way = settings.one_way && !pulled;
        Expected { labels, event_serials, peer, output_form, serial, one_way, deadline, pulled, ask, repeated: again }
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
        let (pulled, count) = {
            let flight = &self.outboxes[at].in_flight[place];
            (flight.pulled, flight.events.len() as u64)
        };
        match outcome {
            Outcome::NoRoom | Outcome::Unreachable | Outcome::ConnectionLost | Outcome::TimedOut | Outcome::Refused
                if pulled =>
            {
                let flight = self.outboxes[at].in_flight.remove(place);
                self.put_back(at, vec![flight]);
            }
            Outcome::NoRoom => {
                self.outboxes[at].blocked = Some((serial, limit));
                let flights = self.outboxes[at].in_flight.drain(place..).collect();
                self.put_back(at, flights);
            }
            Outcome::Unreachable => self.fail(at, None),
            Outcome::ConnectionLost | Outcome::TimedOut | Outcome::Refused => self.fail(at, Some(place)),
            Outcome::Gone => self.disconnect(at, DisconnectReason::Gone),
            Outcome::Rejected if count > 1 => self.split(at, place),
            Outcome::Delivered
            | Outcome::Sent
            | Outcome::Rejected
            | Outcome::Untranslatable
            | Outcome::Filtered
            | Outcome::FilterFailed => {
                let flight = self.outboxes[at].in_flight.remove(place);
                let key = self.outboxes[at].key;
                if outcome == Outcome::Rejected {
                    self.note_rejected(at, flight.events[0].event);
                }
                self.concluded.extend(flight.events.iter().map(|waiting| ((key, waiting.event), outcome)));
                let nothing = [Outcome::Untranslatable, Outcome::Filtered, Outcome::FilterFailed].contains(&outcome);
                if let Some(credit) = flight.credit.filter(|_| nothing) {
                    self.outboxes[at].credits.insert(0, credit);
                }
                if matches!(outcome, Outcome::Delivered | Outcome::Sent) {
                    self.forget_blame(at, flight.events[0].event);
                }
                let again = flight.events.iter().any(|waiting| waiting.again);
                self.conclude(at, (outcome, again), count);
            }
        }
        self.expire(at);
        self.look_for_room();
    }

    /// Concludes a delivery.
    fn conclude(&mut self, at: usize, (outcome, again): (Outcome, bool), count: u64) {
        self.note_split(at, again && matches!(outcome, Outcome::Delivered | Outcome::Sent), count);
        match outcome {
            Outcome::Rejected => {
                self.answered(at);
                self.count_discards(at, DiscardReason::Rejected, count);
                // A rejection proves nothing about events set aside.
                self.end_aside(at);
                self.succeed(at);
            }
            Outcome::Untranslatable => self.count_discards(at, DiscardReason::Untranslatable, count),
            Outcome::FilterFailed => self.count_discards(at, DiscardReason::FilterFailed, count),
            Outcome::Filtered => self.counts.filtered += count,
            _ => {
                self.answered(at);
                self.outboxes[at].delivered += count;
                self.counts.delivered += count;
                self.succeed(at);
            }
        }
    }

    fn note_split(&mut self, at: usize, is_taken: bool, count: u64) {
        let (most, left) = self.outboxes[at].split;
        self.outboxes[at].split = match left.saturating_sub(count) {
            0 => (u32::MAX, 0),
            left => (if is_taken { most.saturating_mul(2) } else { most }, left),
        };
    }

    pub(crate) fn resume(&mut self, at: usize) {
        if self.outboxes[at].removed || self.outboxes[at].dead {
            self.counts.unknown += 1;
        } else {
            self.outboxes[at].blocked = None;
        }
    }

    /// Releases an event of the protocol.
    pub(crate) fn release(&mut self, label: usize) {
        if let Some(place) = self.handed_out.iter().position(|event| *event == label) {
            self.handed_out.remove(place);
        }
        self.look_for_room();
    }

    /// Processes what is due. `first` are processed before the others.
    pub(crate) fn timeout(&mut self, first: &[ProxyKey]) {
        let count = self.orphaned_events.len().min(ORPHANED_PER_ROUND);
        self.orphaned_events.drain(..count);
        let present = self.in_order_of(first);
        let (before, now) = (self.timed_at, self.now);
        for at in present {
            let starts = |waiting: &Waiting| waiting.since > before && waiting.since <= now;
            let outbox = &self.outboxes[at];
            let could_take =
                !outbox.in_flight.is_empty() || outbox.waiting.iter().any(|waiting| waiting.since <= before);
            if !could_take && outbox.waiting.iter().any(starts) {
                self.outboxes[at].silent_since = now;
            }
            let is_over = |deadline: Option<Time>| deadline.is_some_and(|deadline| deadline <= now);
            let unanswered = self.answers_due(at).find(|(_, deadline)| is_over(Some(*deadline)));
            let unanswered = unanswered.map(|(serial, _)| serial);
            let outbox = &mut self.outboxes[at];
            let blocked = outbox.blocked.filter(|(_, deadline)| is_over(*deadline)).map(|(serial, _)| serial);
            if let Some(serial) = unanswered.or(blocked) {
                self.timed_out.push((at, serial));
                self.counts.timed_out += 1;
                let place = outbox.in_flight.iter().position(|flight| flight.serial == serial);
                self.fail(at, place);
            } else if is_over(outbox.retry_at) {
                outbox.retry_at = None;
            } else if is_over(self.aside_until(at)) {
                self.end_aside(at);
            }
            self.expire(at);
        }
        self.timed_at = now;
        self.look_for_room();
        self.end_long_holds();
        self.look_for_room();
    }

    /// Deadlines of unanswered deliveries, which also count from the last answer.
    fn answers_due(&self, at: usize) -> impl Iterator<Item = (u32, Time)> {
        let outbox = &self.outboxes[at];
        let from_last = outbox.answered_at + self.settings(at).reply_timeout;
        outbox.in_flight.iter().filter_map(move |flight| Some((flight.serial, flight.deadline?.max(from_last))))
    }

    // ---- questions ----

    /// When something is due next.
    pub(crate) fn next_due(&self) -> Option<Time> {
        if !self.orphaned_events.is_empty() {
            return Some(self.now);
        }
        self.present()
            .into_iter()
            .flat_map(|at| {
                let outbox = &self.outboxes[at];
                let answers = self.answers_due(at).map(|(_, deadline)| deadline);
                let room = outbox.blocked.and_then(|blocked| blocked.1);
                answers
                    .chain(room)
                    .chain(outbox.retry_at)
                    .chain(self.aside_until(at))
                    .chain(self.waiting_due(at))
                    .chain(self.hold_due(at))
                    .chain(self.late_due(at))
                    .collect::<Vec<_>>()
            })
            .min()
    }

    /// A consumer that could get a delivery now. Resets the counts of passed-over deliveries.
    pub(crate) fn someone_waits(&mut self) -> Option<ProxyKey> {
        self.outboxes.iter_mut().for_each(|outbox| outbox.passed_over = [0, 0]);
        self.present().into_iter().find(|at| self.can_deliver(*at)).map(|at| self.outboxes[at].key)
    }

    /// A consumer that was passed over more often than there are others, for those of its dispatch priority or for lower ones.
    pub(crate) fn someone_starves(&self) -> Option<ProxyKey> {
        let present = self.present();
        let limit = present.len();
        let starves = |at: &usize| {
            let [by_equal, by_lower] = self.outboxes[*at].passed_over;
            by_equal > limit || by_lower > limit
        };
        present.into_iter().find(starves).map(|at| self.outboxes[at].key)
    }

    pub(crate) fn present(&self) -> Vec<usize> {
        let mut present: Vec<usize> = (0..self.outboxes.len()).filter(|at| !self.outboxes[*at].removed).collect();
        present.sort_by_key(|at| self.outboxes[*at].key);
        present
    }

    /// All outboxes, those of `first` before the others, in that order.
    fn in_order_of(&self, first: &[ProxyKey]) -> Vec<usize> {
        let mut present = self.present();
        present.sort_by_key(|at| {
            let key = self.outboxes[*at].key;
            first.iter().position(|first| *first == key).unwrap_or(first.len())
        });
        present
    }

    pub(crate) fn channels(&self) -> Vec<ChannelId> {
        self.routed.channels.iter().map(|channel| channel.id).collect()
    }

    fn is_suspended(&self, at: usize) -> bool {
        self.routed.proxy(self.outboxes[at].key).is_ok_and(|proxy| proxy.state == ProxyState::Suspended)
    }

    pub(crate) fn state(&self, at: usize) -> OutboxState {
        let outbox = &self.outboxes[at];
        match outbox {
            _ if outbox.dead => OutboxState::Disconnected,
            _ if self.is_suspended(at) => OutboxState::Suspended,
            _ if outbox.retry_at.is_some() => OutboxState::BackingOff,
            _ if outbox.blocked.is_some() => OutboxState::NoRoom,
            _ => OutboxState::Active,
        }
    }

    /// Number of an outbox's events, of unanswered ones, and their weight.
    pub(crate) fn backlog(&self, at: usize) -> (u64, u32, u64) {
        let outbox = &self.outboxes[at];
        let in_flight: usize = outbox.in_flight.iter().map(|flight| flight.events.len()).sum();
        let events = outbox.waiting.len() + in_flight;
        (events as u64, u32::try_from(in_flight).unwrap_or(u32::MAX), self.weight(at))
    }

    /// Number of an outbox's events before their start time, and of waiting clients.
    pub(crate) fn waits(&self, at: usize) -> (u64, u32) {
        let credits = u32::try_from(self.outboxes[at].credits.len()).unwrap_or(u32::MAX);
        (self.delayed(at).len() as u64, credits)
    }

    /// Number of orphaned events not yet released.
    pub(crate) fn orphaned_events(&self) -> usize {
        self.orphaned_events.len()
    }

    /// Number of a channel's events, their charge, and number of withheld replies.
    pub(crate) fn usage(&self, channel: ChannelId) -> (u64, u64, u64) {
        let mut retained: Vec<usize> = self.orphaned_events.iter().chain(&self.handed_out).copied().collect();
        for outbox in &self.outboxes {
            let in_flight = outbox.in_flight.iter().flat_map(|flight| &flight.events);
            retained.extend(outbox.waiting.iter().chain(in_flight).map(|waiting| waiting.event));
        }
        retained.retain(|event| self.events[*event].channel == channel);
        retained.sort_unstable();
        retained.dedup();
        let bytes = retained.iter().map(|event| self.events[*event].charge).sum();
        let tickets = self.tickets.iter().filter(|withheld| withheld.channel == channel).count();
        (retained.len() as u64, bytes, tickets as u64)
    }
}

impl Outbox {
    fn new(key: ProxyKey, proxy: &world::Proxy) -> Self {
        Self {
            key,
            peer: proxy.peer,
            connection: proxy.connection,
            pull: proxy.kind.pull,
            batches: proxy.kind.batches,
            order: OrderPolicy::Fifo,
            credits: vec![],
            answered_at: Time(0),
            silent_since: Time(0),
            removed: false,
            dead: false,
            waiting: vec![],
            in_flight: vec![],
            next_serial: 0,
            split: (u32::MAX, 0),
            rejected_at: None,
            blocked: None,
            retry_at: None,
            aside: 0,
            aside_until: Time(0),
            blamed: vec![],
            undeliverable_at: None,
            failures: 0,
            failing_since: Time(0),
            holding: false,
            late: false,
            holding_since: Time(0),
            blocked_events: 0,
            waited_out: None,
            full_at_bound: false,
            full_as_slow_consumer: false,
            dropped_while_full: 0,
            delivered: 0,
            discards: [0; 13],
            passed_over: [0, 0],
        }
    }
}

fn is_consumer(proxy: &world::Proxy) -> bool {
    proxy.side == Side::Consumers && proxy.state != ProxyState::Unconnected && (proxy.peer.is_some() || proxy.kind.pull)
}

//! The topics of this end point, each in one role.

use core::time::Duration;

use turns::Share;

use super::TopicId;
use super::peers::Heard;
use super::queue::{Lane, Progress};
use super::reports::Delays;
use crate::Nanos;
use crate::wire::{NAME_MAX, Role};

/// Order of a topic's queued messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// By priority, larger first, then in order of publication.
    #[default]
    Priorities,
    /// In order of publication. Priorities are only sent along.
    Arrival,
}

/// Settings of a topic.
#[derive(Debug, Clone, Copy)]
pub struct TopicSettings<'n> {
    /// Its name: 1 to 255 octets without control characters, by convention `Domain/Name`.
    pub name: &'n str,
    /// The role of this end point.
    pub role: Role,
    /// Messages in 1,000 s, intended or wished for; 0: not announced. Topics take turns by their rates; one without a rate counts as one
    /// message a second.
    pub rate: u32,
    /// Microseconds within which a message should be forwarded; 0: none. Values above 1/rate have no effect.
    pub deadline_us: u32,
    /// Maximum octets of a message; 0: as large as there is room for.
    pub largest: u32,
    /// Order of queued messages.
    pub order: Order,
}

/// A message that is being sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sending {
    pub(super) message: u16,
    /// Virtual time by which it was to be begun.
    pub(super) deadline: u128,
    pub(super) number: u32,
    /// Index of the next subscriber; those before it are done for this round.
    pub(super) next_peer: usize,
    /// Whether one of the subscribers before it has no room.
    pub(super) is_one_waiting: bool,
    /// Progress of sending to the group.
    pub(super) group: Option<(Progress, usize)>,
    pub(super) is_group_served: bool,
}

/// The latest probes: echoes of older ones are not recognized.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Probes {
    number: u32,
    sent: [Option<(u32, Nanos)>; 4],
    /// Longest round trip of the last probe echoed, with its number.
    slowest: (u32, Nanos),
}

impl Probes {
    /// Begins a probe and returns its number.
    pub(super) fn begin(&mut self, now: Nanos) -> u32 {
        self.number = self.number.wrapping_add(1);
        self.sent.rotate_right(1);
        if let Some(first) = self.sent.first_mut() {
            *first = Some((self.number, now));
        }
        self.number
    }

    /// The round-trip time of an echoed probe, if it was ours.
    pub(super) fn echoed(&mut self, now: Nanos, number: u32, sent: Nanos) -> Option<Nanos> {
        self.sent.iter().flatten().find(|&&probe| probe == (number, sent))?;
        let delay = now.saturating_sub(sent);
        let (of, slowest) = self.slowest;
        // An older one does not take the place of a newer one.
        if of == number {
            self.slowest.1 = slowest.max(delay);
        } else if self.number.wrapping_sub(number) < self.number.wrapping_sub(of) {
            self.slowest = (number, delay);
        }
        Some(delay)
    }

    pub(super) const fn slowest(&self) -> Nanos {
        self.slowest.1
    }
}

/// Counts of a topic. A subscriber's counts are added when their publisher is gone.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TopicCounts {
    pub(super) sent: u64,
    pub(super) probes: u64,
    pub(super) refused: u64,
    pub(super) unheard: u64,
    pub(super) received: u64,
    pub(super) lost: u64,
    pub(super) late: u64,
    pub(super) repeated: u64,
}

impl TopicCounts {
    /// Adds the counts of a publisher.
    pub(super) fn add(&mut self, heard: &Heard) {
        let sequence = &heard.sequence;
        for (sum, of_it) in [
            (&mut self.received, heard.messages),
            (&mut self.lost, sequence.lost()),
            (&mut self.late, sequence.late()),
            (&mut self.repeated, sequence.repeated()),
        ] {
            *sum = sum.saturating_add(of_it);
        }
    }
}

#[derive(Debug)]
pub(super) struct Topic {
    name: [u8; NAME_MAX],
    name_octets: u8,
    pub(super) number: u32,
    pub(super) role: Role,
    pub(super) rate: u32,
    pub(super) deadline_us: u32,
    pub(super) largest: u32,
    pub(super) order: Order,
    pub(super) announce_at: Nanos,
    /// Whether an announcement or a goodbye is pending for the channel.
    pub(super) is_due_to_channel: bool,
    /// Whether the topic was removed; it stays until all peers have been notified.
    pub(super) is_leaving: bool,
    /// Number of peers.
    pub(super) counterparts: u32,
    pub(super) lane: Lane,
    pub(super) share: Share,
    pub(super) sending: Option<Sending>,
    /// Whether all subscribers that still lack the current or next message have no room.
    pub(super) is_blocked: bool,
    pub(super) next_number: u32,
    pub(super) probes: Probes,
    /// Whether a probe is queued; one at a time is enough.
    pub(super) is_probe_waiting: bool,
    pub(super) delays: Delays,
    pub(super) counts: TopicCounts,
}

impl Topic {
    pub(super) fn name(&self) -> &str {
        let octets = self.name.get(..usize::from(self.name_octets)).unwrap_or_default();
        core::str::from_utf8(octets).unwrap_or_default()
    }

    /// Whether a message is queued or being sent.
    pub(super) const fn is_busy(&self) -> bool {
        self.lane.messages() > 0 || self.sending.is_some()
    }

    /// Virtual time by which the topic is due.
    pub(super) fn deadline(&self) -> u128 {
        self.sending.map_or_else(|| self.share.deadline(), |sending| sending.deadline)
    }

    pub(super) fn weigh(&mut self) {
        let (rate, deadline) = weight(self.rate, self.deadline_us);
        self.share.set(rate, deadline);
    }
}

/// Share and deadline of a topic in virtual time, where a second is 1,000 s of the rates, so that no fraction of a rate is lost.
fn weight(rate: u32, deadline_us: u32) -> (u32, Option<Duration>) {
    let rate = if rate == 0 { 1_000 } else { rate };
    let deadline = Duration::from_nanos(u64::from(deadline_us));
    let is_of_use = deadline_us != 0 && u64::from(deadline_us).saturating_mul(u64::from(rate)) < 1_000_000_000;
    (rate, is_of_use.then_some(deadline))
}

#[derive(Debug)]
pub(super) struct Topics<const N: usize> {
    topics: [Option<Topic>; N],
    /// Slots from this index on were never used.
    untouched: usize,
    numbers: u32,
    /// Blocks reserved for each publishing topic, and shared blocks. Stored, since each message needs them.
    own: usize,
    common: usize,
    blocks: usize,
    /// Number of topics with something to send.
    pub(super) busy: usize,
    /// Whether something may be pending for the channel.
    pub(super) is_due_to_channel: bool,
}

impl<const N: usize> Topics<N> {
    /// An empty table, for so many blocks.
    pub(super) const fn new(blocks: usize) -> Self {
        Self {
            topics: [const { None }; N],
            untouched: 0,
            numbers: 0,
            own: blocks / 2,
            common: blocks - blocks / 2,
            blocks,
            busy: 0,
            is_due_to_channel: false,
        }
    }

    pub(super) fn add(&mut self, now: Nanos, settings: &TopicSettings<'_>, first_number: u32) -> Option<TopicId> {
        let at = self.topics.iter().position(Option::is_none)?;
        let place = self.topics.get_mut(at)?;
        let mut name = [0; NAME_MAX];
        name.get_mut(..settings.name.len())?.copy_from_slice(settings.name.as_bytes());
        let &TopicSettings { name: _, role, rate, deadline_us, largest, order } = settings;
        let (share, deadline) = weight(rate, deadline_us);
        // Numbers are not used again: what is under way under an old one is discarded.
        self.numbers = self.numbers.wrapping_add(1);
        let id = TopicId { at: u16::try_from(at).ok()?, number: self.numbers };
        *place = Some(Topic {
            name,
            name_octets: u8::try_from(settings.name.len()).ok()?,
            number: self.numbers,
            role,
            rate,
            deadline_us,
            largest,
            order,
            announce_at: now,
            is_due_to_channel: false,
            is_leaving: false,
            counterparts: 0,
            lane: Lane::new(),
            share: Share::new(share, deadline),
            sending: None,
            is_blocked: false,
            next_number: first_number,
            is_probe_waiting: false,
            probes: Probes::default(),
            delays: Delays::default(),
            counts: TopicCounts::default(),
        });
        self.untouched = self.untouched.max(at + 1);
        self.divide_up();
        Some(id)
    }

    pub(super) fn get(&self, at: usize) -> Option<&Topic> {
        self.topics.get(at)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut Topic> {
        self.topics.get_mut(at)?.as_mut()
    }

    pub(super) fn free(&mut self, at: usize) {
        if let Some(place) = self.topics.get_mut(at) {
            *place = None;
            self.divide_up();
        }
    }

    /// Index of a topic, if it still exists.
    pub(super) fn at(&self, id: TopicId) -> Option<usize> {
        let at = usize::from(id.at);
        self.get(at).filter(|topic| topic.number == id.number && !topic.is_leaving).map(|_| at)
    }

    pub(super) fn id(&self, at: usize) -> TopicId {
        TopicId { at: u16::try_from(at).unwrap_or(u16::MAX), number: self.get(at).map_or(0, |topic| topic.number) }
    }

    pub(super) fn find(&self, name: &str, role: Role) -> Option<usize> {
        self.position(|topic| !topic.is_leaving && topic.role == role && topic.name() == name)
    }

    pub(super) fn numbered(&self, number: u32, role: Role) -> Option<usize> {
        self.position(|topic| !topic.is_leaving && topic.role == role && topic.number == number)
    }

    pub(super) fn position(&self, is_it: impl Fn(&Topic) -> bool) -> Option<usize> {
        self.touched().iter().position(|topic| topic.as_ref().is_some_and(&is_it))
    }

    fn touched(&self) -> &[Option<Topic>] {
        self.topics.get(..self.untouched).unwrap_or_default()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Topic)> {
        self.touched().iter().enumerate().filter_map(|(at, topic)| Some((at, topic.as_ref()?)))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Topic> {
        self.topics.get_mut(..self.untouched).unwrap_or_default().iter_mut().flatten()
    }

    /// Reserves half of all blocks for the publishing topics in equal parts, so that a blocked topic leaves room for others; the other half
    /// is shared.
    fn divide_up(&mut self) {
        let publishers = self.iter().filter(|(_, topic)| topic.role == Role::Publisher).count().max(1);
        self.own = self.blocks / (2 * publishers);
        self.common = self.blocks - self.own * publishers;
    }

    /// Blocks that a topic can have if no other uses any.
    pub(super) const fn possible(&self) -> usize {
        self.own + self.common
    }

    /// Whether a topic may take so many more of all blocks.
    pub(super) fn may_take(&self, at: usize, needed: usize) -> bool {
        let &Self { own, common, .. } = self;
        let beyond = |(other, topic): (usize, &Topic)| {
            (topic.lane.blocks() + if other == at { needed } else { 0 }).saturating_sub(own)
        };
        let is_within = self.get(at).is_some_and(|topic| topic.lane.blocks() + needed <= own);
        is_within || self.iter().map(beyond).sum::<usize>() <= common
    }
}

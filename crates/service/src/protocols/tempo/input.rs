//! Messages that wait: each topic has an input of bounded size, and topics take turns by shares in virtual time (Bauer, Garcés-Erice,
//! Rooney: *Tempo*, IV.B). Within a topic the higher priority goes first (IV.C); at equal priority publishers take turns, so that a
//! publisher that floods the topic delays only its own messages.

use core::cmp::{Ordering, Reverse};
use core::time::Duration;
use std::collections::BinaryHeap;

use engine::{EVENT_OVERHEAD_BYTES, PendingEvent};
use tempo::Nanos;
use tempo::wire::Probe;
use turns::{Share, VirtualTime};

use super::form::Said;
use crate::lane::io::slots::Token;

/// An item that waits for its topic's turn.
pub(crate) struct Waiting {
    pub(crate) priority: i16,
    /// Round among those of its priority: the first item of each publisher is in the first round.
    round: u64,
    serial: u64,
    /// The publisher that sent it.
    pub(crate) part: Token,
    /// Octets charged to its topic's input.
    pub(crate) octets: usize,
    pub(crate) item: Item,
}

/// A message, or a probe queued like one.
pub(crate) enum Item {
    /// A message to be handed in, with the frame's fields.
    Message(PendingEvent, Said),
    /// A probe to be sent to the topic's subscribers, from the one at that place on.
    Probe(Probe, usize),
}

/// Maximum input of one topic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) messages: usize,
    pub(crate) octets: usize,
}

/// Waiting items of one publisher in a topic's input.
#[derive(Debug, Default)]
pub(crate) struct Queued {
    messages: usize,
    octets: usize,
    /// Items by priority; the round of a level is that of the last that came.
    levels: Levels,
}

/// Items by priority, without empty levels.
#[derive(Debug, Default)]
struct Levels(Vec<Level>);

#[derive(Debug)]
struct Level {
    priority: i16,
    messages: usize,
    round: u64,
}

/// One topic's input.
#[derive(Default)]
pub(crate) struct Input {
    /// Items that can be handed in when the topic has its turn.
    ready: BinaryHeap<Waiting>,
    /// Items that wait for their publisher's proxy.
    early: Vec<Waiting>,
    octets: usize,
    /// Items by priority; the round of a level is that of the last that was taken.
    levels: Levels,
    share: Option<Share>,
    /// When the share was computed.
    share_made: Nanos,
    /// Whether the topic is among those that take turns.
    is_scheduled: bool,
    /// Whether the item handed in last is pending: there is no room for it, or it waits for something else.
    pub(crate) is_pending: bool,
    /// Connections that are not read until there is room again.
    pub(crate) connections: Vec<Token>,
}

/// Order in which topics have their turns.
#[derive(Default)]
pub(crate) struct TopicScheduler {
    time: VirtualTime,
    /// Topics with ready items: the earliest deadline first.
    heap: BinaryHeap<Reverse<(u128, u64, Token)>>,
    serial: u64,
}

impl Waiting {
    fn rank(&self) -> (i16, Reverse<(u64, u64)>) {
        (self.priority, Reverse((self.round, self.serial)))
    }
}

impl Levels {
    fn of(&mut self, priority: i16) -> &mut Level {
        let at = self.0.binary_search_by_key(&priority, |level| level.priority).unwrap_or_else(|at| {
            self.0.insert(at, Level { priority, messages: 0, round: 0 });
            at
        });
        #[expect(clippy::indexing_slicing, reason = "found, or put there")]
        &mut self.0[at]
    }

    fn enter(&mut self, priority: i16) -> &mut Level {
        let level = self.of(priority);
        level.messages += 1;
        level
    }

    fn leave(&mut self, priority: i16) -> &mut Level {
        let level = self.of(priority);
        level.messages = level.messages.saturating_sub(1);
        level
    }

    /// Removes empty levels.
    fn tidy(&mut self) {
        self.0.retain(|level| level.messages > 0);
    }
}

impl Queued {
    /// Removes an item of that priority and size.
    pub(crate) fn give(&mut self, priority: i16, octets: usize) {
        self.messages = self.messages.saturating_sub(1);
        self.octets = self.octets.saturating_sub(octets);
        self.levels.leave(priority);
        self.levels.tidy();
    }
}

/// Octets that a message takes of its topic's input.
pub(crate) const fn octets_of(message: usize) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "a few hundred")]
    const OVERHEAD: usize = EVENT_OVERHEAD_BYTES as usize;
    message.saturating_add(OVERHEAD)
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl Input {
    fn len(&self) -> usize {
        self.ready.len() + self.early.len()
    }

    /// Whether items are waiting or pending.
    pub(crate) fn has_some(&self) -> bool {
        self.len() > 0 || self.is_pending
    }

    /// Whether there is room for `octets` more of a publisher with `own` waiting. As much as the publisher has waiting must stay free, so
    /// that a flooding one leaves room for others. A publisher without waiting items may always have one: halving the rest each time, a
    /// dozen publishers fill the input, and their number is bounded (`tempo.topics_max`).
    pub(crate) fn has_room(&self, own: &Queued, octets: usize, bounds: Bounds) -> bool {
        let has_room = |messages: usize, taken: usize| {
            self.len() + messages < bounds.messages && self.octets.saturating_add(taken + octets) <= bounds.octets
        };
        self.len() == 0 || own.messages == 0 || has_room(own.messages, own.octets)
    }

    /// Whether connections that waited for room may resume: three quarters are free.
    pub(crate) fn has_much_room(&self, bounds: Bounds) -> bool {
        self.len() <= bounds.messages / 4 && self.octets <= bounds.octets / 4
    }

    /// Removes an item from the counts.
    fn take_out(&mut self, waiting: &Waiting) {
        self.octets -= waiting.octets;
        self.levels.leave(waiting.priority).round = waiting.round;
        self.levels.tidy();
    }

    /// Whether an item can be handed in.
    pub(crate) fn is_ready(&self) -> bool {
        !self.is_pending && !self.ready.is_empty()
    }

    /// Makes the items that wait for the proxy of one publisher ready.
    pub(crate) fn let_in(&mut self, part: Token) {
        let ready = &mut self.ready;
        let early = self.early.extract_if(.., |waiting| waiting.part == part);
        ready.extend(early);
    }

    /// Removes the items that wait for the proxy of one publisher.
    pub(crate) fn discard_waiting(&mut self, part: Token) -> Vec<Waiting> {
        let away: Vec<Waiting> = self.early.extract_if(.., |waiting| waiting.part == part).collect();
        away.iter().for_each(|waiting| self.take_out(waiting));
        away
    }

    /// Whether the share was computed at least `age` ago.
    pub(crate) fn share_is_old(&self, now: Nanos, age: Nanos) -> bool {
        self.share.is_none() || now.saturating_sub(self.share_made) >= age
    }

    /// Sets the topic's share, and the deadline of a message, which is at most the interval of two messages; `rate` is in messages per
    /// 1,000 s.
    pub(crate) fn set_share(&mut self, share: u64, rate: u32, deadline_us: u32, now: Nanos) {
        self.share_made = now;
        let share = u32::try_from(share).unwrap_or(u32::MAX).clamp(1, 1_000_000);
        // The ratio of the deadline to the interval of two messages holds in virtual time as well.
        let parts = u64::from(deadline_us).saturating_mul(rate.into());
        let deadline = (1..1_000_000_000).contains(&parts).then(|| Duration::from_nanos(parts / u64::from(share)));
        match &mut self.share {
            Some(known) => known.set(share, deadline),
            None => self.share = Some(Share::new(share, deadline)),
        }
    }
}

impl TopicScheduler {
    /// Whether no topic waits for a turn.
    pub(crate) fn are_idle(&self) -> bool {
        self.heap.is_empty()
    }

    /// Adds an item to a topic's input, behind the same publisher's others; `early` if the publisher's proxy is not open yet.
    pub(crate) fn push(
        &mut self,
        topic: Token,
        (input, own): (&mut Input, &mut Queued),
        mut waiting: Waiting,
        early: bool,
    ) {
        waiting.serial = self.serial;
        self.serial += 1;
        input.octets += waiting.octets;
        own.messages += 1;
        own.octets += waiting.octets;
        let (taken, came) = (input.levels.enter(waiting.priority), own.levels.enter(waiting.priority));
        waiting.round = taken.round.max(came.round) + 1;
        came.round = waiting.round;
        if early {
            return input.early.push(waiting);
        }
        input.ready.push(waiting);
        self.place(topic, input);
    }

    /// Has a topic take turns if it has ready items.
    pub(crate) fn place(&mut self, topic: Token, input: &mut Input) {
        if input.is_scheduled || !input.is_ready() {
            return;
        }
        let Input { share, is_scheduled, .. } = input;
        let share = share.get_or_insert_with(|| Share::new(1, None));
        share.awake(&self.time);
        *is_scheduled = true;
        self.heap.push(Reverse((share.deadline(), self.serial, topic)));
        self.serial += 1;
    }

    /// The topic that has its turn, for [`TopicScheduler::take`].
    pub(crate) fn next(&mut self) -> Option<Token> {
        let topic = self.heap.pop().map(|Reverse((.., topic))| topic);
        if topic.is_none() {
            self.time.rest();
        }
        topic
    }

    /// The first item in the input of the topic that has its turn.
    pub(crate) fn take(&mut self, input: &mut Input) -> Option<Waiting> {
        input.is_scheduled = false;
        if input.is_pending {
            return None;
        }
        let first = input.ready.pop()?;
        input.take_out(&first);
        if let Some(share) = &mut input.share {
            self.time.serve(share);
        }
        Some(first)
    }
}

impl Waiting {
    /// An item of a publisher, of so many octets.
    pub(crate) const fn new(priority: i16, part: Token, octets: usize, item: Item) -> Self {
        Self { priority, round: 0, serial: 0, part, octets, item }
    }

    /// A probe, for subscribers from place `from` on.
    pub(crate) const fn probe(priority: i16, part: Token, probe: Probe, from: usize) -> Self {
        Self::new(priority, part, size_of::<Self>(), Item::Probe(probe, from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: Token = Token::FIRST;

    fn probe(number: u32) -> Item {
        Item::Probe(Probe { sent: 0, prober: 1, topic: 1, number, to: None, hops: 0, echoed_by: 0 }, 0)
    }

    fn topics(shares: &[(u64, u32, u32)]) -> (TopicScheduler, Vec<Input>) {
        let inputs = shares.iter().map(|(share, rate, deadline_us)| {
            let mut input = Input::default();
            input.set_share(*share, *rate, *deadline_us, 0);
            input
        });
        (TopicScheduler::default(), inputs.collect())
    }

    fn topic(at: usize) -> Token {
        Token::from_bits(at as u64)
    }

    fn push(scheduler: &mut TopicScheduler, inputs: &mut [Input], at: usize, priority: i16, number: u32) {
        push_of(scheduler, inputs, at, &mut Queued::default(), (priority, number));
    }

    fn push_of(
        scheduler: &mut TopicScheduler,
        inputs: &mut [Input],
        at: usize,
        own: &mut Queued,
        (priority, number): (i16, u32),
    ) {
        scheduler.push(topic(at), (&mut inputs[at], own), Waiting::new(priority, PART, 330, probe(number)), false);
    }

    fn serve(scheduler: &mut TopicScheduler, inputs: &mut [Input]) -> Option<(usize, u32)> {
        let at = scheduler.next()?.index();
        let waiting = scheduler.take(&mut inputs[at])?;
        scheduler.place(topic(at), &mut inputs[at]);
        let Item::Probe(probe, _) = waiting.item else { panic!("a probe") };
        Some((at, probe.number))
    }

    #[test]
    fn topics_are_served_by_their_shares_however_much_waits_for_one() {
        let (mut scheduler, mut inputs) = topics(&[(25_000, 0, 0), (75_000, 0, 0)]);
        for number in 0..1_000 {
            push(&mut scheduler, &mut inputs, 0, 0, number);
        }
        (0..60).for_each(|number| push(&mut scheduler, &mut inputs, 1, 0, number));
        let first: Vec<usize> = (0..80).map(|_| serve(&mut scheduler, &mut inputs).unwrap().0).collect();
        let of_second = first.iter().filter(|at| **at == 1).count();
        assert!((59..=60).contains(&of_second), "{first:?}");
        let rest = core::iter::from_fn(|| serve(&mut scheduler, &mut inputs)).count();
        assert_eq!((rest, scheduler.are_idle()), (980, true));
    }

    /// Figure 5 (b) of the paper: shares of 2 and 3, and a deadline that has the first one go first.
    #[test]
    fn a_deadline_changes_the_order_and_not_the_share() {
        // A tenth of the time from one message to the next.
        let (mut scheduler, mut inputs) = topics(&[(2, 1_000_000, 100), (3, 1_000_000, 0)]);
        for number in 0..6 {
            push(&mut scheduler, &mut inputs, 0, 0, number);
            push(&mut scheduler, &mut inputs, 1, 0, number);
        }
        let order: Vec<usize> = (0..7).map(|_| serve(&mut scheduler, &mut inputs).unwrap().0 + 1).collect();
        assert_eq!(order, [1, 2, 1, 2, 2, 1, 2]);
    }

    #[test]
    fn within_a_topic_the_higher_priority_goes_first_and_what_came_first_among_equals() {
        let (mut scheduler, mut inputs) = topics(&[(1, 0, 0)]);
        for (priority, number) in [(0, 1), (0, 2), (-5, 3), (9, 4), (9, 5)] {
            push(&mut scheduler, &mut inputs, 0, priority, number);
        }
        let order: Vec<u32> =
            core::iter::from_fn(|| serve(&mut scheduler, &mut inputs)).map(|(_, number)| number).collect();
        assert_eq!(order, [4, 5, 1, 2, 3]);
    }

    #[test]
    fn a_topic_with_something_pending_gives_its_turn_away_until_it_has_it() {
        let (mut scheduler, mut inputs) = topics(&[(1, 0, 0), (1, 0, 0)]);
        (0..2).for_each(|at| (0..2).for_each(|number| push(&mut scheduler, &mut inputs, at, 0, number)));
        let pending = serve(&mut scheduler, &mut inputs).unwrap().0;
        inputs[pending].is_pending = true;
        let mut served = Vec::new();
        while let Some(next) = scheduler.next() {
            if let Some(waiting) = scheduler.take(&mut inputs[next.index()]) {
                scheduler.place(next, &mut inputs[next.index()]);
                served.push((next.index(), waiting.priority));
            }
        }
        assert_eq!(served.len(), 2);
        assert!(inputs[pending].has_some() && served.iter().all(|(at, _)| *at != pending));
        inputs[pending].is_pending = false;
        scheduler.place(topic(pending), &mut inputs[pending]);
        assert!(serve(&mut scheduler, &mut inputs).is_some() && serve(&mut scheduler, &mut inputs).is_none());
    }

    #[test]
    fn what_came_before_its_publisher_was_known_waits_for_that_and_is_not_waited_for() {
        let (mut scheduler, mut inputs) = topics(&[(1, 0, 0)]);
        let unknown = Token::from_bits(9);
        let mut own = Queued::default();
        scheduler.push(topic(0), (&mut inputs[0], &mut own), Waiting::new(0, unknown, 330, probe(1)), true);
        push(&mut scheduler, &mut inputs, 0, 0, 2);
        assert_eq!(serve(&mut scheduler, &mut inputs), Some((0, 2)));
        inputs[0].let_in(unknown);
        scheduler.place(topic(0), &mut inputs[0]);
        assert_eq!(serve(&mut scheduler, &mut inputs), Some((0, 1)));
        scheduler.push(topic(0), (&mut inputs[0], &mut own), Waiting::new(0, unknown, 330, probe(3)), true);
        assert_eq!((inputs[0].discard_waiting(unknown).len(), inputs[0].has_some(), inputs[0].octets), (1, false, 0));
    }

    #[test]
    fn an_input_has_room_for_so_many_messages_and_octets_and_for_one_large_message_in_any_case() {
        let bounds = Bounds { messages: 3, octets: 1_000 };
        let (mut scheduler, mut inputs) = topics(&[(1, 0, 0)]);
        let mut own = Queued::default();
        assert!(inputs[0].has_room(&own, 5_000, bounds));
        push_of(&mut scheduler, &mut inputs, 0, &mut own, (0, 1));
        assert!(!inputs[0].has_room(&own, 5_000, bounds) && inputs[0].has_room(&own, 300, bounds));
        push_of(&mut scheduler, &mut inputs, 0, &mut own, (0, 1));
        assert!(!inputs[0].has_room(&own, 1, bounds) && !inputs[0].has_much_room(bounds));
        // Others have none of their own there.
        assert!(inputs[0].has_room(&Queued::default(), 5_000, bounds));
        push(&mut scheduler, &mut inputs, 0, 0, 2);
        assert!(inputs[0].has_room(&Queued::default(), 1, bounds));
        (0..3).for_each(|_| assert!(serve(&mut scheduler, &mut inputs).is_some()));
        assert!(inputs[0].has_much_room(bounds));
    }

    #[test]
    fn one_publisher_takes_no_more_of_an_input_than_it_leaves_free() {
        let bounds = Bounds { messages: 100, octets: 100_000 };
        let (mut scheduler, mut inputs) = topics(&[(1, 0, 0)]);
        let mut taken = [(); 3].map(|()| Queued::default());
        for (own, most) in taken.iter_mut().zip([50, 25, 13]) {
            while inputs[0].has_room(own, 330, bounds) {
                push_of(&mut scheduler, &mut inputs, 0, own, (0, 0));
            }
            assert_eq!(own.messages, most);
        }
        assert!(inputs[0].has_room(&Queued::default(), 330, bounds));
        assert!(!inputs[0].has_room(&taken[0], 330, bounds));
        let few = Bounds { messages: 100, octets: 2_000 };
        let (mut scheduler, mut inputs) = topics(&[(1, 0, 0)]);
        let mut own = Queued::default();
        while inputs[0].has_room(&own, 330, few) {
            push_of(&mut scheduler, &mut inputs, 0, &mut own, (0, 0));
        }
        assert_eq!(own.messages, 3);
    }

    #[test]
    fn publishers_of_a_topic_take_turns_however_much_waits_of_one() {
        let (mut scheduler, mut inputs) = topics(&[(1, 0, 0)]);
        let (mut flood, mut calm) = (Queued::default(), Queued::default());
        for number in 0..200 {
            // Its important ones do not have it overtake others among the less important.
            push_of(&mut scheduler, &mut inputs, 0, &mut flood, (i16::from(number % 7 == 0), number));
        }
        let mut waited = Vec::new();
        for number in 1_000..1_020 {
            push_of(&mut scheduler, &mut inputs, 0, &mut calm, (i16::from(number % 2 == 0), number));
            let served = core::iter::from_fn(|| serve(&mut scheduler, &mut inputs)).map(|(_, served)| served);
            let before: Vec<u32> = served.take_while(|served| *served != number).collect();
            calm.give(i16::from(number % 2 == 0), 330);
            waited.push(before.len());
            for again in before {
                flood.give(i16::from(again % 7 == 0), 330);
                push_of(&mut scheduler, &mut inputs, 0, &mut flood, (i16::from(again % 7 == 0), again));
            }
        }
        // All of its higher ones, of which there were 29, in the worst case, and one beside each turn.
        assert!(waited.iter().all(|before| *before <= 30), "{waited:?}");
        assert_eq!(core::iter::from_fn(|| serve(&mut scheduler, &mut inputs)).count(), 200);
    }

    #[test]
    fn messages_of_one_publisher_keep_their_order_among_those_of_one_priority() {
        let mut random = fastrand::Rng::with_seed(16);
        let (mut scheduler, mut inputs) = topics(&[(1, 0, 0)]);
        let mut owns = [(); 4].map(|()| Queued::default());
        let mut last: std::collections::BTreeMap<(u32, i16), u32> = std::collections::BTreeMap::new();
        let mut sent = [0_u32; 4];
        for _ in 0..5_000 {
            if random.u8(0..5) < 3 {
                let from = random.u32(0..4);
                let at = from as usize;
                let number = sent[at] << 4 | from << 2 | random.u32(0..3);
                sent[at] += 1;
                push_of(&mut scheduler, &mut inputs, 0, &mut owns[at], ((number & 3) as i16, number));
            } else if let Some((_, number)) = serve(&mut scheduler, &mut inputs) {
                let (at, priority) = (number >> 2 & 3, (number & 3) as i16);
                owns[at as usize].give(priority, 330);
                let before = last.insert((at, priority), number);
                assert!(before.is_none_or(|before| before < number), "{before:?} before {number}");
            }
        }
        while serve(&mut scheduler, &mut inputs).is_some() {}
        assert!(inputs[0].levels.0.is_empty() && inputs[0].octets == 0);
    }
}

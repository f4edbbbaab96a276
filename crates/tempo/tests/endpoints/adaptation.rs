//! Applications that adapt to what is reported to them (*Tempo*, figure 9), on links of limited rate.

use tempo::Nanos;
use tempo::adaptation::{LossFreeRate, Target, TightenDeadline, follow_deadline, follow_lowest};
use tempo::endpoint::{
    Channel, Endpoint, Message, Notice, Order, Place, Receive, Settings, To, TopicId, TopicSettings,
};
use tempo::wire::{Content, Role};

use crate::network::{End, MS, address};

/// What an end point tells its application.
#[derive(Default)]
struct Reported {
    periods: Vec<TopicId>,
    messages: u64,
}

impl Receive for Reported {
    fn message(&mut self, _message: Message<'_>) {
        self.messages += 1;
    }

    fn noticed(&mut self, notice: Notice) {
        if let Notice::Period { topic } = notice {
            self.periods.push(topic);
        }
    }
}

/// A publisher and a subscriber, and a link between them that carries so many octets in a millisecond one way.
struct Link {
    ends: [Box<End>; 2],
    reported: [Reported; 2],
    places: [Place; 2],
    now: Nanos,
    octets_per_ms: usize,
    /// Octets of the datagram that is under way.
    left: usize,
    /// What waits for the link. A datagram that does not fit into that is lost; a connection has no room then.
    buffer: Vec<u8>,
    buffer_max: usize,
    /// Where the datagrams in the buffer end.
    ends_at: std::collections::VecDeque<usize>,
    /// What of a frame has come to the other end.
    came: Vec<u8>,
}

impl Link {
    fn new(is_stream: bool, octets_per_ms: usize, buffer_max: usize) -> Self {
        let places = [0, 1].map(|at| if is_stream { Place::Stream(0) } else { Place::Datagram(address(at)) });
        let channels = [Channel::None, Channel::Peer(places[0])];
        let mut ends = [0, 1].map(|at| {
            let session = u32::try_from(at).unwrap() + 1;
            Box::new(End::from(Endpoint::new(Settings::new(session, (7, 8), channels[at]))))
        });
        if is_stream {
            ends.iter_mut().for_each(|end| end.stream_opened(0, 0));
        }
        Self {
            ends,
            reported: Default::default(),
            places,
            now: 0,
            octets_per_ms,
            left: 0,
            buffer: Vec::new(),
            buffer_max,
            ends_at: std::collections::VecDeque::new(),
            came: Vec::new(),
        }
    }

    fn topics(&mut self, name: &str, rate: u32) -> [TopicId; 2] {
        [Role::Publisher, Role::Subscriber].map(|role| {
            let settings = TopicSettings { name, role, rate, deadline_us: 0, largest: 0, order: Order::Priorities };
            let end = usize::from(role == Role::Subscriber);
            self.ends[end].add_topic(self.now, settings).unwrap()
        })
    }

    /// A millisecond passes; says which topics' periods are over at which end.
    fn pass(&mut self) -> Vec<(usize, TopicId)> {
        self.now += MS;
        for at in 0..2 {
            self.ends[at].handle_timeout(self.now, &mut self.reported[at]);
        }
        self.carry();
        for at in [1, 0] {
            self.send(at);
        }
        (0..2)
            .flat_map(|at| std::mem::take(&mut self.reported[at].periods).into_iter().map(move |topic| (at, topic)))
            .collect()
    }

    fn carry(&mut self) {
        let carried = self.buffer.len().min(self.octets_per_ms);
        if matches!(self.places[0], Place::Stream(_)) {
            self.came.extend(self.buffer.drain(..carried));
            let handled = self.ends[1].handle(self.now, self.places[0], &self.came, &mut self.reported[1]);
            self.came.drain(..handled.consumed);
            if self.buffer.len() < self.buffer_max / 2 {
                self.ends[0].set_ready(self.places[1], true);
            }
            return;
        }
        self.left += self.octets_per_ms;
        while let Some(octets) = self.ends_at.front().copied().filter(|&octets| octets <= self.left) {
            self.left -= octets;
            self.ends_at.pop_front();
            let datagram: Vec<u8> = self.buffer.drain(..octets).collect();
            self.ends[1].handle(self.now, self.places[0], &datagram, &mut self.reported[1]);
        }
        // Only a datagram that is under way has saved up something.
        if self.buffer.is_empty() {
            self.left = 0;
        }
    }

    fn send(&mut self, at: usize) {
        let mut out = [0; 600];
        while let Some(transmit) = self.ends[at].poll_transmit(self.now, &mut out) {
            assert_eq!(transmit.to, To::Place(self.places[1 - at]));
            let octets = &out[..transmit.octets];
            let is_stream = matches!(self.places[0], Place::Stream(_));
            if at == 1 {
                self.ends[0].handle(self.now, self.places[1], octets, &mut self.reported[0]);
            } else if is_stream || self.buffer.len() + octets.len() <= self.buffer_max {
                self.buffer.extend_from_slice(octets);
                self.ends_at.push_back(octets.len());
                if is_stream && self.buffer.len() >= self.buffer_max {
                    self.ends[0].set_ready(self.places[1], false);
                }
            }
        }
    }

    fn publish(&mut self, topic: TopicId, octets: usize) {
        // Refused if there is no room: a publisher that floods does not mind.
        let _ = self.ends[0].publish(self.now, topic, 0, Content::Octets, &vec![0; octets]);
    }
}

#[test]
fn a_rate_without_loss_is_found_and_kept_up() {
    // 400 octets in a millisecond are 1,000 messages of 400 octets in a second. 2,000 are intended.
    let mut link = Link::new(false, 400, 8_000);
    let [publication, subscription] = link.topics("A/B", 2_000_000);
    let mut wish = LossFreeRate::new(2_000_000);
    let (mut rate, mut owed) = (2_000_000, 0);
    let mut figures = Vec::new();
    for ms in 0..200_000_u64 {
        owed += rate;
        while owed >= 1_000_000 {
            owed -= 1_000_000;
            link.publish(publication, 400 - 32);
        }
        for (end, _) in link.pass() {
            if end == 0 {
                rate = follow_lowest(2_000_000, &link.ends[0].published(publication));
            } else {
                let report = link.ends[1].subscribed(subscription);
                let wished = wish.after_period(link.now, &report);
                link.ends[1].set_rate(subscription, wished);
            }
        }
        if ms % 10_000 == 9_999 {
            figures.push((rate, link.ends[1].subscribed(subscription).lost));
        }
    }
    let (found_at_first, lost_at_first) = figures[3];
    assert!(lost_at_first > 1_000, "it is too much at the beginning: {figures:?}");
    // The link carries 1,000,000 in 1,000 s.
    assert!((800_000..1_000_000).contains(&found_at_first), "{figures:?}");
    // From here on it is tried once in a minute whether there is more to have, and given up at once.
    let (_, lost) = figures[19];
    let received = link.ends[1].subscribed(subscription).received;
    assert!(figures[4..].iter().all(|&(rate, _)| (750_000..1_200_000).contains(&rate)), "{figures:?}");
    assert!(figures.windows(2).skip(3).filter(|two| two[0].1 == two[1].1).count() >= 10, "{figures:?}");
    assert!(lost - lost_at_first < received / 50, "{} lost of {received}: {figures:?}", lost - lost_at_first);
}

/// Tries to have what is on a topic of few messages arrive within a target, beside a flood on another; says how that ended, with which
/// deadline, and the delays at the beginning and the end.
fn tightened(target: Nanos) -> (Target, u32, Nanos, Nanos) {
    let mut link = Link::new(true, 100, 2_000);
    let [flood, _] = link.topics("A/flood", 300_000);
    let [alarm, alarms] = link.topics("A/alarm", 5_000);
    let mut deadline = TightenDeadline::new(target, 200_000);
    let (mut first, mut last, mut stands) = (0, 0, Target::Trying);
    let mut current = 0;
    for ms in 0..120_000_u64 {
        link.publish(flood, 300);
        if ms % 1_000 == 500 {
            link.publish(alarm, 50);
        }
        for (end, topic) in link.pass() {
            if (end, topic) == (0, alarm) {
                let report = link.ends[0].published(alarm);
                (current, stands) = deadline.after_period(&report);
                if first == 0 {
                    first = report.slowest_ns;
                }
                last = report.slowest_ns;
                link.ends[0].set_deadline(alarm, current);
            } else if (end, topic) == (1, alarms) {
                let followed = follow_deadline(&link.ends[1].subscribed(alarms));
                link.ends[1].set_deadline(alarms, followed);
            }
        }
    }
    let followed = link.ends[0].published(alarm).announced.deadline_us;
    assert_eq!(followed, current, "subscribers have the same deadline");
    (stands, current, first, last)
}

#[test]
fn a_deadline_is_tightened_until_the_target_is_met() {
    let (stands, deadline_us, first, last) = tightened(60 * MS);
    assert_eq!(stands, Target::Met);
    assert!(first > 100 * MS, "it took {first} ns at the beginning");
    assert!(last <= 60 * MS && deadline_us < 200_000, "{last} ns with {deadline_us} us");
}

#[test]
fn a_target_that_cannot_be_met_is_given_up() {
    // What the link itself has in its buffer takes longer.
    let (stands, deadline_us, _, last) = tightened(2 * MS);
    assert_eq!((stands, deadline_us), (Target::NotAchievable, 200_000));
    assert!(last > 2 * MS);
}

//! End points under whatever a seed has happen: each message in its order, none twice, each received or counted as lost.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use tempo::endpoint::{Channel, Notice, Place, SubscriberReport, TopicId};
use tempo::wire::Role;

use crate::network::{MS, Network, S, Weather, address};

/// The seeds that are run with all tests.
const USUAL: Range<u64> = 0..400;

/// Which seeds are run: those that the environment asks for, or some.
fn requested() -> Range<u64> {
    #[expect(clippy::disallowed_methods, reason = "it is no setting of the service")]
    let requested = std::env::var("SIMULATED_SEEDS").ok();
    let range = requested.as_deref().and_then(|requested| requested.split_once(".."));
    range.and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?)).unwrap_or(USUAL)
}

/// Says how to run a seed again if it fails.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self(seed) = *self;
            let next = seed + 1;
            eprintln!("SIMULATED_SEEDS={seed}..{next} cargo test -p campanile-tempo --test endpoints seeds::");
        }
    }
}

#[test]
fn seeds_of_networks_keep_every_promise() {
    let mut runs = [0; 3];
    for seed in requested() {
        let _named = Named(seed);
        let scenario = Scenario::new(seed);
        let kind = if scenario.is_exact() { 0 } else { 1 + usize::from(scenario.has_breaks) };
        runs[kind] += 1;
        scenario.run();
    }
    assert!(requested() != USUAL || runs.iter().all(|&runs| runs > 50), "{runs:?}");
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    OnePublisher,
    OneSubscriber,
    Group,
    Streams,
}

struct Scenario {
    network: Network,
    way: Way,
    /// Nodes and their topics.
    publishers: Vec<(usize, TopicId, &'static str)>,
    subscribers: Vec<(usize, TopicId, &'static str)>,
    /// Partitions, moves, restarts, connections that break.
    has_breaks: bool,
    has_fragments: bool,
    weather: Weather,
    count: u64,
    moves: usize,
    /// Messages accepted, by publisher.
    accepted: Vec<u64>,
}

const NAMES: [&str; 2] = ["Weather/Wind", "Weather/Rain"];

impl Scenario {
    fn new(seed: u64) -> Self {
        let mut network = Network::new(seed);
        let way = [Way::OnePublisher, Way::OneSubscriber, Way::Group, Way::Streams][network.random.usize(0..4)];
        let (mut publishers, mut subscribers) = (network.random.usize(1..=3), network.random.usize(1..=3));
        match way {
            Way::OnePublisher | Way::Streams => publishers = 1,
            Way::OneSubscriber => subscribers = 1,
            Way::Group => {}
        }
        let slowest = if network.random.bool() { MS } else { network.random.u64(MS..80 * MS) };
        let weather =
            Weather { lost: network.random.u32(0..300), repeated: network.random.u32(0..200), delay: MS..=slowest };
        let (has_breaks, has_fragments) = (network.random.u32(0..3) == 0, network.random.bool());
        let mut scenario = Self {
            network,
            way,
            publishers: Vec::new(),
            subscribers: Vec::new(),
            has_breaks,
            has_fragments,
            weather,
            count: 0,
            moves: 0,
            accepted: vec![0; publishers * NAMES.len()],
        };
        for at in 0..publishers + subscribers {
            scenario.add(at < publishers);
        }
        scenario
    }

    /// Whether the exact losses are known.
    fn is_exact(&self) -> bool {
        !self.has_breaks && !self.has_fragments
    }

    fn channel(&self, at: usize) -> Channel {
        match self.way {
            Way::Group => Channel::Group(self.network.group.0),
            Way::OnePublisher if at > 0 => Channel::Peer(Place::Datagram(address(0))),
            Way::OneSubscriber if self.publishers_are_before(at) => {
                Channel::Peer(Place::Datagram(address(self.accepted.len() / NAMES.len())))
            }
            Way::Streams if at > 0 => Channel::Peer(Place::Stream(0)),
            _ => Channel::None,
        }
    }

    fn publishers_are_before(&self, at: usize) -> bool {
        at < self.accepted.len() / NAMES.len()
    }

    fn add(&mut self, is_publisher: bool) {
        let channel = self.channel(self.network.nodes.len());
        let at = self.network.add(channel);
        for name in NAMES {
            let role = if is_publisher { Role::Publisher } else { Role::Subscriber };
            let topic = self.network.add_topic(at, name, role);
            if is_publisher { &mut self.publishers } else { &mut self.subscribers }.push((at, topic, name));
        }
        if self.way == Way::Streams && !is_publisher {
            self.connect(at);
        }
    }

    fn connect(&mut self, at: usize) {
        let window = self.network.random.usize(500..50_000);
        self.network.connect((at, 0), (0, u32::try_from(at).unwrap()), window);
    }

    fn run(mut self) {
        self.network.run(2 * S);
        (0..self.publishers.len()).for_each(|publisher| self.publish(publisher, 20));
        self.network.run_until_idle();
        let begin = self.figures();
        for node in &mut self.network.nodes {
            node.brought.clear();
            node.probes.clear();
        }
        self.network.weather = self.weather.clone();
        for _ in 0..400 {
            let nanos = self.network.random.u64(0..60 * MS);
            self.network.run(nanos);
            self.act();
        }
        self.network.weather = Weather::fair();
        for at in 0..self.network.nodes.len() {
            self.network.mend(at);
        }
        self.network.run(15 * S);
        let last = self.count;
        (0..self.publishers.len()).for_each(|publisher| self.publish(publisher, 20));
        self.network.run(S / 2);
        self.network.run_until_idle();
        self.everybody_has_what_was_published_last(last);
        self.each_message_came_once_and_in_its_order();
        self.numbers_agree(&begin);
        self.nothing_waits();
    }

    fn publish(&mut self, publisher: usize, octets: usize) {
        let (at, topic, _) = self.publishers[publisher];
        let mut message = self.count.to_le_bytes().to_vec();
        message.resize(octets.max(8), u8::try_from(self.count % 251).unwrap());
        let priority = self.network.random.i16(-2..=2);
        self.count += 1;
        if self.network.publish(at, topic, priority, &message).is_ok() {
            self.accepted[publisher] += 1;
        }
    }

    fn act(&mut self) {
        let publisher = self.network.random.usize(0..self.publishers.len());
        let what = self.network.random.u32(0..100);
        if what >= 4 || !self.has_breaks {
            let is_large = self.has_fragments && self.network.random.u32(0..8) == 0;
            let octets = self.network.random.usize(if is_large { 1_000..16_000 } else { 8..300 });
            if what == 99 {
                let (at, topic, _) = self.publishers[publisher];
                let rate = self.network.random.u32(..);
                self.network.nodes[at].end.set_rate(topic, rate);
            }
            return self.publish(publisher, octets);
        }
        let at = self.network.random.usize(0..self.network.nodes.len());
        if self.way == Way::Streams {
            if at > 0 {
                self.network.disconnect((at, 0));
                let nanos = self.network.random.u64(0..4 * S);
                self.network.run(nanos);
                self.connect(at);
            }
            return;
        }
        match what {
            0 => {
                self.network.nodes[at].is_cut_off = true;
                self.network.run(10 * S);
                self.network.mend(at);
            }
            // An end point that is the channel of another stays where it is.
            1 if !(0..self.network.nodes.len()).any(|other| self.channel(other) == Channel::Peer(self.place(at))) => {
                self.moves += 1;
                self.network.nodes[at].address = address(self.network.nodes.len() + self.moves);
            }
            2 if !self.publishers_are_before(at) => self.restart(at),
            _ => {}
        }
    }

    fn place(&self, at: usize) -> Place {
        Place::Datagram(self.network.nodes[at].address)
    }

    /// A subscriber's process ends and begins anew.
    fn restart(&mut self, at: usize) {
        self.network.restart(at, self.channel(at));
        self.network.nodes[at].log.got.clear();
        for subscriber in 0..self.subscribers.len() {
            let (node, _, name) = self.subscribers[subscriber];
            if node == at {
                self.subscribers[subscriber].1 = self.network.add_topic(at, name, Role::Subscriber);
            }
        }
    }

    // ---- what must be so ----

    /// Pairs of a subscriber and a publisher of the same topic.
    fn pairs(&self) -> Vec<(usize, usize)> {
        let all = |subscriber| (0..self.publishers.len()).map(move |publisher| (subscriber, publisher));
        let is_one =
            |&(subscriber, publisher): &(usize, usize)| self.subscribers[subscriber].2 == self.publishers[publisher].2;
        (0..self.subscribers.len()).flat_map(all).filter(is_one).collect()
    }

    /// What subscribers report, and how many numbers publishers have given.
    fn figures(&self) -> (Vec<SubscriberReport>, Vec<u64>) {
        let report = |&(at, topic, _): &(usize, TopicId, &str)| self.network.nodes[at].end.subscribed(topic);
        let numbers = |&(at, topic, _): &(usize, TopicId, &str)| {
            let report = self.network.nodes[at].end.published(topic);
            report.sent + report.probes
        };
        (self.subscribers.iter().map(report).collect(), self.publishers.iter().map(numbers).collect())
    }

    fn everybody_has_what_was_published_last(&self, last: u64) {
        for (subscriber, publisher) in self.pairs() {
            let count = last + u64::try_from(publisher).unwrap();
            let (at, ..) = self.subscribers[subscriber];
            let has_it = self.network.nodes[at].log.got.iter().any(|got| got.octets[..8] == count.to_le_bytes());
            let counters = self.network.nodes[at].end.counters();
            assert!(has_it, "{subscriber} has nothing of {publisher} after all was well: {counters:?} {:?}", self.way);
        }
    }

    fn each_message_came_once_and_in_its_order(&self) {
        for node in &self.network.nodes {
            let mut seen = BTreeSet::new();
            let mut last = BTreeMap::new();
            for got in &node.log.got {
                let count = u64::from_le_bytes(got.octets[..8].try_into().unwrap());
                let filler = u8::try_from(count % 251).unwrap();
                assert!(got.octets[8..].iter().all(|&octet| octet == filler), "message {count} is not what was sent");
                assert!(seen.insert(count), "message {count} came twice");
                if let Some(before) = last.insert((got.topic, got.publisher), got.sequence) {
                    let ahead = got.sequence.wrapping_sub(before);
                    assert!((1..1 << 31).contains(&ahead), "{} came after {before}", got.sequence);
                }
            }
        }
    }

    /// What was sent was received, or is counted as lost, or came late.
    fn numbers_agree(&self, (reports, numbers): &(Vec<SubscriberReport>, Vec<u64>)) {
        if self.has_breaks {
            return;
        }
        let (reports_now, numbers_now) = self.figures();
        for (subscriber, &(at, _, name)) in self.subscribers.iter().enumerate() {
            let node = &self.network.nodes[at];
            let (before, now) = (&reports[subscriber], &reports_now[subscriber]);
            let of = (0..self.publishers.len()).filter(|&publisher| self.publishers[publisher].2 == name);
            let sessions: Vec<_> = of
                .clone()
                .map(|publisher| {
                    let (at, topic, _) = self.publishers[publisher];
                    (self.network.nodes[at].end.session(), topic)
                })
                .collect();
            let sent: u64 = of.map(|publisher| numbers_now[publisher] - numbers[publisher]).sum();
            let lost = now.lost - before.lost;
            if node.log.notices.iter().any(|notice| matches!(notice, Notice::Gone { .. })) {
                // So many announcements were lost that it met a publisher anew, and what was lost in between is nowhere.
                assert!(lost <= sent && self.weather.lost > 0);
                continue;
            }
            if self.way == Way::Streams {
                assert_eq!((lost, now.late, now.repeated), (0, 0, 0));
                continue;
            }
            // Numbers of topics count up from 1 with those that are added: the first is 1.
            let number = u32::try_from(NAMES.iter().position(|other| *other == name).unwrap()).unwrap() + 1;
            let is_of = |&&(session, topic, _): &&(u32, u32, u32)| {
                topic == number && sessions.iter().any(|&(other, _)| other == session)
            };
            let brought = u64::try_from(node.brought.iter().filter(is_of).count()).unwrap();
            if self.is_exact() {
                assert_eq!(lost, sent - brought, "{sent} sent, {brought} brought");
                let probes = u64::try_from(node.probes.iter().filter(is_of).count()).unwrap();
                let late = now.late - before.late;
                let received = now.received - before.received;
                assert!(received + probes + lost >= sent - late && received + lost <= sent);
                if late == 0 {
                    assert_eq!(received + probes + lost, sent);
                }
            } else {
                assert!(lost >= sent - brought && lost <= sent, "{lost} lost of {sent}, {brought} brought");
            }
        }
    }

    fn nothing_waits(&self) {
        for (publisher, &(at, topic, _)) in self.publishers.iter().enumerate() {
            let report = self.network.nodes[at].end.published(topic);
            assert_eq!(report.waiting, 0);
            assert_eq!(report.sent + report.unheard, self.accepted[publisher]);
        }
    }
}

//! `tempo::endpoint` behind the commands of `c/test.c`, so that one may stand where the other does.

use std::fmt::Write;
use std::str::SplitWhitespace;

use tempo::endpoint::{
    Channel, Endpoint, Gone, Message, Notice, Order, Place as RustPlace, Receive, Settings, To, TopicId, TopicSettings,
};
use tempo::wire::{Content, Data, Frame, Header, Payload, Role};

use crate::driven::{Place, Said};
use crate::text;

type End = Endpoint<4, 8, 64, 4_096, 1>;

pub(crate) struct RustEnd {
    end: Box<End>,
    topics: Vec<(TopicId, Role)>,
    now: u64,
    /// Peers that were met, have moved, began again, said bye.
    peers: [u64; 4],
}

/// Writes messages down as `c/test.c` does, and counts what else happens.
struct Log<'l> {
    peers: &'l mut [u64; 4],
    said: &'l mut Said,
    topics: &'l [(TopicId, Role)],
}

impl Receive for Log<'_> {
    fn message(&mut self, message: Message<'_>) {
        let Message { topic, publisher, sequence, sent, priority, content, octets } = message;
        let topic = self.topics.iter().position(|&(id, _)| id == topic).unwrap();
        let header = Header { session: publisher, topic: 0, sequence, sent, priority, by_broker: false };
        let frame = Frame { header, payload: Payload::Data(Data { fragment: None, content, octets }) };
        self.said.messages.push(format!("topic={topic} {}", text::fields(&frame)));
    }

    fn noticed(&mut self, notice: Notice) {
        match notice {
            Notice::Found { .. } => self.peers[0] += 1,
            Notice::Moved { .. } => self.peers[1] += 1,
            Notice::Gone { why: Gone::Replaced, .. } => self.peers[2] += 1,
            Notice::Gone { why: Gone::Bye, .. } => self.peers[3] += 1,
            _ => {}
        }
    }
}

fn place(words: &mut SplitWhitespace<'_>) -> Option<RustPlace> {
    match Place::read(words.next().unwrap()) {
        Some(Place::At(address)) => Some(RustPlace::Datagram(address)),
        Some(Place::Stream(number)) => Some(RustPlace::Stream(number)),
        None => None,
    }
}

fn number<T: std::str::FromStr<Err: std::fmt::Debug>>(words: &mut SplitWhitespace<'_>) -> T {
    words.next().unwrap().parse().unwrap()
}

impl RustEnd {
    pub(crate) fn new() -> Self {
        Self {
            end: Box::new(End::new(Settings::new(1, (0, 0), Channel::None))),
            topics: Vec::new(),
            now: 0,
            peers: [0; 4],
        }
    }

    pub(crate) fn ask(&mut self, command: &str) -> Said {
        let mut said = Said::default();
        let mut words = command.split_whitespace();
        let words = &mut words;
        let what = words.next().unwrap();
        said.value = match what {
            "begin" => self.begin(words),
            "add" => self.add(words),
            "tick" => {
                self.now = number(words);
                let mut log = Log { said: &mut said, topics: &self.topics, peers: &mut self.peers };
                self.end.handle_timeout(self.now, &mut log);
                String::new()
            }
            "opened" => {
                self.end.stream_opened(self.now, number(words));
                String::new()
            }
            "handle" => self.handle(words, &mut said),
            "publish" => self.publish(words),
            "remove" => {
                let topic: usize = number(words);
                self.end.remove_topic(self.topics[topic].0);
                String::new()
            }
            "tell" => self.tell(&mut said),
            other => panic!("there is no command {other}"),
        };
        let mut buffer = [0; 1_472];
        while let Some(transmit) = self.end.poll_transmit(self.now, &mut buffer) {
            let to = match transmit.to {
                To::Group(address) | To::Place(RustPlace::Datagram(address)) => Place::At(address),
                To::Place(RustPlace::Stream(number)) => Place::Stream(number),
            };
            said.sent.push((to, buffer[..transmit.octets].to_vec()));
        }
        if what == "tick" {
            said.value = self.end.next_timeout().unwrap_or(u64::MAX).to_string();
        }
        said
    }

    fn begin(&mut self, words: &mut SplitWhitespace<'_>) -> String {
        let session = number(words);
        let secret = (number(words), number(words));
        let (kind, place) = (words.next().unwrap(), place(words));
        let channel = match (kind, place) {
            ("1", Some(place)) => Channel::Peer(place),
            ("2", Some(RustPlace::Datagram(group))) => Channel::Group(group),
            _ => Channel::None,
        };
        *self.end = End::new(Settings::new(session, secret, channel));
        self.topics.clear();
        String::new()
    }

    fn add(&mut self, words: &mut SplitWhitespace<'_>) -> String {
        let role = if words.next().unwrap() == "1" { Role::Publisher } else { Role::Subscriber };
        let (rate, deadline_us) = (number(words), number(words));
        let name = String::from_utf8(text::octets(words.next().unwrap())).unwrap();
        let settings = TopicSettings { name: &name, role, rate, deadline_us, largest: 0, order: Order::Arrival };
        let topic = self.end.add_topic(self.now, settings).unwrap();
        self.topics.push((topic, role));
        (self.topics.len() - 1).to_string()
    }

    fn handle(&mut self, words: &mut SplitWhitespace<'_>, said: &mut Said) -> String {
        self.now = number(words);
        let from = place(words).unwrap();
        let octets = text::octets(words.next().unwrap());
        let mut log = Log { said, topics: &self.topics, peers: &mut self.peers };
        let handled = self.end.handle(self.now, from, &octets, &mut log);
        handled.close.map_or(handled.consumed.to_string(), |_| "-1".to_owned())
    }

    /// How many subscribers there are, to which it goes.
    fn publish(&mut self, words: &mut SplitWhitespace<'_>) -> String {
        self.now = number(words);
        let topic: usize = number(words);
        let (topic, priority) = (self.topics[topic].0, number(words));
        let content = [Content::Octets, Content::Typed, Content::Structured][number::<usize>(words)];
        let octets = text::octets(words.next().unwrap());
        let fits = |octets: usize, most: u32| most == 0 || octets <= usize::try_from(most).unwrap();
        let subscribers = self.end.subscribers(topic).filter(|peer| fits(octets.len(), peer.announced.largest)).count();
        self.end.publish(self.now, topic, priority, content, &octets).unwrap();
        subscribers.to_string()
    }

    fn tell(&self, said: &mut Said) -> String {
        for (at, &(topic, role)) in self.topics.iter().enumerate() {
            let (published, subscribed) = (self.end.published(topic), self.end.subscribed(topic));
            let delay = published.delay.map_or((0, 0), |delay| (delay.echoes, delay.last_ns));
            said.reported.push(format!(
                "topic {at} sent={} unheard={} too_large={} echoes={} delay={}",
                published.sent,
                published.unheard,
                self.end.counters().too_large_for_peer,
                delay.0,
                delay.1
            ));
            let mut reported = String::new();
            let mut tell = |peer: tempo::endpoint::Peer| {
                let delay = peer.delay.map_or(0, |delay| delay.last_ns);
                // Those of the topic: these tests have one publisher each.
                let (late, repeated) = (subscribed.late, subscribed.repeated);
                let (session, rate, received, lost) = (peer.session, peer.announced.rate, peer.received, peer.lost);
                writeln!(
                    reported,
                    "peer {session} topic={at} rate={rate} received={received} lost={lost} late={late} repeated={repeated} delay={delay}"
                )
                .unwrap();
            };
            match role {
                Role::Publisher => self.end.subscribers(topic).for_each(&mut tell),
                Role::Subscriber => self.end.publishers(topic).for_each(&mut tell),
            }
            said.reported.extend(reported.lines().map(str::to_owned));
        }
        let counters = self.end.counters();
        let [met, moved, replaced, left] = self.peers;
        let fragments = counters.fragments_unfit + counters.fragments_late + counters.fragments_refused;
        format!(
            "unreadable={} unbound={} no_room={} fragments={fragments} not_moved={} met={met} moved={moved} \
             replaced={replaced} expired={} left={left}",
            counters.unreadable + counters.unknown_frames,
            counters.unbound + counters.elsewhere + counters.strangers,
            counters.peers_refused,
            counters.moves_refused,
            counters.peers_expired
        )
    }
}

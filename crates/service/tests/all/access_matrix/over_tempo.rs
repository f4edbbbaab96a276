//! Tempo: datagrams, and connections with TLS.

use std::collections::VecDeque;
use std::net::SocketAddr;

use giop::cdr::{CharSet, Encoding, Endian, Reader, Version};
use service::Counter;
use tempo::wire::{Frame, Header, Role};
use testing::rulebook::{OPERATOR, Principal, TYPES, rulebooks};

use super::{Client, Rig, Tried, numbered};
use crate::peers::wait_until;
use crate::tempo::peers::{Datagrams, EndPoint, Got, announcement};
use crate::tls::{self, Line};

/// An end point of a client's, and what has come to it.
struct Point {
    way: Way,
    session: u32,
    cookie: u64,
    came: VecDeque<(Header, Got)>,
}

enum Way {
    Datagrams(Datagrams),
    /// A connection with TLS, and what has come of a frame.
    Tls(Box<Line>, Vec<u8>),
}

impl EndPoint for Point {
    fn session(&self) -> u32 {
        self.session
    }

    fn send(&mut self, octets: &[u8]) {
        match &mut self.way {
            Way::Datagrams(datagrams) => datagrams.send(octets),
            Way::Tls(line, _) => line.send(octets),
        }
    }

    fn next(&mut self) -> (Header, Got) {
        wait_until("a frame", || {
            self.take();
            !self.came.is_empty()
        });
        self.came.pop_front().unwrap()
    }

    fn cookie(&mut self) -> &mut u64 {
        &mut self.cookie
    }
}

impl Point {
    fn of(rig: &Rig, client: &Client, session: u32) -> Self {
        let way = if client.who.certificate.is_none() {
            let at = SocketAddr::new(client.who.address.unwrap(), 0);
            Way::Datagrams(Datagrams::at(&rig.service, session, at))
        } else {
            let end = tls::end(&rig.authority, Some(&rig.certified));
            Way::Tls(Box::new(Line::connect(rig.service.tls_addresses()[2].unwrap(), &end).unwrap()), Vec::new())
        };
        Self { way, session, cookie: 0, came: VecDeque::new() }
    }

    /// Takes in what is there.
    fn take(&mut self) {
        match &mut self.way {
            Way::Datagrams(datagrams) => self.came.extend(datagrams.drain()),
            Way::Tls(line, bytes) => {
                bytes.extend(line.take_what_is_there());
                while let Ok((frame, count)) = Frame::read(bytes) {
                    self.came.push_back((frame.header, Got::from(&frame.payload)));
                    bytes.drain(..count);
                }
            }
        }
    }

    /// Announces a topic, and says whether the service takes it or counts that it does not, and a denial.
    fn is_taken(&mut self, rig: &Rig, role: Role, (number, topic): (u32, &str)) -> bool {
        let counts = || {
            (
                rig.count(Counter::TempoTopicsRefused),
                rig.count(Counter::DeniedPublish),
                rig.count(Counter::DeniedSubscribe),
            )
        };
        let before = counts();
        let said = announcement(role, topic);
        self.announce(number, said);
        let mut taken = None;
        wait_until(format_args!("{}: an answer to {role:?} {topic}", rig.title), || {
            self.take();
            while let Some((_, got)) = self.came.pop_front() {
                let Got::Announcement { given, name, .. } = got else { continue };
                if name == topic && *self.cookie() == given {
                    taken = Some(true);
                } else if name == topic {
                    // It has to prove that its address is its own first.
                    *self.cookie() = given;
                    self.announce(number, said);
                }
            }
            let now = counts();
            let is_denied = if role == Role::Publisher { now.1 > before.1 } else { now.2 > before.2 };
            if taken.is_none() && now.0 > before.0 && is_denied {
                taken = Some(false);
            }
            taken.is_some()
        });
        taken.unwrap()
    }
}

#[test]
fn what_each_client_may_by_tempo_is_what_the_rules_say() {
    let mut tried = Tried::default();
    for (title, book) in rulebooks() {
        let rig = Rig::start("tempo", title, book);
        publish_by_tempo(&rig, &mut tried);
        subscribe_by_tempo(&rig, &mut tried);
    }
    tried.is_telling();
}

fn topic(channel: u32, (domain, name): (&str, &str)) -> String {
    if domain.is_empty() { format!("@{channel}/{name}") } else { format!("@{channel}/{domain}/{name}") }
}

/// All topics, with numbers.
fn topics() -> impl Iterator<Item = (u32, u32, (&'static str, &'static str))> {
    let all = numbered().flat_map(|channel| TYPES.map(|of| (channel, of)));
    (1..).zip(all).map(|(number, (channel, of))| (number, channel, of))
}

fn publish_by_tempo(rig: &Rig, tried: &mut Tried) {
    let (before, mut refused) = ((rig.count(Counter::EventsIn), rig.count(Counter::TempoRefused)), 0);
    let mut cells = Vec::new();
    let operator = Client { title: "the operator".to_owned(), who: Principal::from(OPERATOR) };
    // What comes last in datagrams says that all datagrams before were read.
    let mut clients = rig.clients(false, true);
    clients.push(operator);
    for (client, session) in clients.iter().zip(100..) {
        let mut point = Point::of(rig, client, session);
        for (number, channel, of) in topics() {
            let mark = format!("{} by Tempo: {channel} {}/{}", client.title, of.0, of.1);
            let came = point.is_taken(rig, Role::Publisher, (number, &topic(channel, of)));
            tried.note(rig, &format!("{mark} is announced"), came, rig.lets_in(&client.who, "publish", channel));
            let said = rig.may(&client.who, "publish", channel, of);
            // Of a topic that is not taken nothing is.
            point.publish(number, 1, mark.as_bytes());
            refused += u64::from(came && !said);
            cells.push((mark, channel, said));
        }
        let came = cells.iter().filter(|(.., said)| *said).count() as u64;
        wait_until(format_args!("{}: {came} messages", rig.title), || rig.count(Counter::EventsIn) - before.0 >= came);
        let refusals = || rig.count(Counter::TempoRefused) - before.1;
        wait_until(format_args!("{}: {refused} refusals", rig.title), || refusals() >= refused);
    }
    rig.compare(tried, &cells);
}

fn subscribe_by_tempo(rig: &Rig, tried: &mut Tried) {
    let mut points = Vec::new();
    for (client, session) in rig.clients(false, true).into_iter().zip(1_000..) {
        let mut point = Point::of(rig, &client, session);
        for (number, channel, of) in topics() {
            let came = point.is_taken(rig, Role::Subscriber, (number, &topic(channel, of)));
            let cell = format!("{} announces {} to Tempo", client.title, topic(channel, of));
            tried.note(rig, &cell, came, rig.lets_in(&client.who, "subscribe", channel));
        }
        points.push((client, point));
        // The service announces each topic again from time to time: what a socket has no room for is lost, and so would be a message.
        points.iter_mut().for_each(|(_, point)| point.take());
    }
    rig.publish_twice();
    let channels: Vec<u32> = numbered().collect();
    for (client, point) in &mut points {
        let client = Client { who: client.who.clone(), title: format!("{} by Tempo", client.title) };
        let came = rig.received(&client, &channels, || name_in(&point.message().1));
        for channel in numbered() {
            let of_channel = came.iter().filter(|mark| mark.starts_with(&format!("1 {channel} "))).cloned().collect();
            rig.compare_received(tried, &client, channel, of_channel);
        }
        point.take();
        let others = point.came.iter().filter_map(|(_, got)| match got {
            Got::Data { octets, .. } => Some(name_in(octets)),
            _ => None,
        });
        assert!(others.clone().all(|mark| mark == "the end"), "{}: {:?}", rig.title, others.collect::<Vec<_>>());
    }
}

/// The name of a structured event in a message, behind the order of octets and the two names of its type.
fn name_in(octets: &[u8]) -> String {
    let mut reader =
        Reader::new(&octets[8..], Encoding { endian: Endian::Little, version: Version::V1_2, chars: CharSet::Utf8 });
    let mut string = || String::from_utf8(reader.string().unwrap().to_vec()).unwrap();
    let [_, _, name] = [(); 3].map(|()| string());
    name
}

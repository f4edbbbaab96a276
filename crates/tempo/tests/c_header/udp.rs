//! `c/example.c`, an end point in C with a socket, on loopback: with itself, with an end point in Rust, and with frames that a test
//! sends by hand.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use tempo::endpoint::{Channel, Endpoint, Message, Order, Place, Receive, Settings, To, TopicId, TopicSettings};
use tempo::wire::{Announcement, Content, Data, Frame, Header, Payload, Role};
use testing::{Killed, Leash, NextInTime, PATIENCE, lines_of, wait_until};

use crate::compiled::{example, program_of_the_specification};

const TOPIC: &str = "Weather/Wind";

struct Example {
    child: Killed,
    input: Option<ChildStdin>,
    printed: Receiver<String>,
    address: SocketAddr,
}

impl Example {
    fn start(role: &str, url: &str) -> Self {
        let mut command = Command::new(example());
        command.args([role, TOPIC, url]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, printed) = (child.stdin.take(), lines_of(child.stdout.take().unwrap()));
        let said = lines_of(child.stderr.take().unwrap()).next_in_time();
        let port = said.strip_prefix("port ").unwrap_or_else(|| panic!("{said}")).parse().unwrap();
        Self { child: Killed(child), input, printed, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)) }
    }

    fn write(&mut self, line: &str) {
        self.input.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn end(mut self) {
        drop(self.input.take());
        let leash = Leash::new(&self.child, "the end of a publisher after the end of its input");
        let status = self.child.wait().unwrap();
        drop(leash);
        assert!(status.success(), "{status}");
    }
}

/// A peer that knows frames, and does only what a test says.
struct Hand {
    socket: UdpSocket,
    octets: Vec<u8>,
}

impl Hand {
    fn new() -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket, octets: vec![0; 65_536] }
    }

    fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    fn send(&self, to: SocketAddr, sequence: u32, payload: Payload<'_>) {
        let header = Header { session: 0x7e57, topic: 70, sequence, sent: 5, priority: 0, by_broker: false };
        let frame = Frame { header, payload };
        let mut octets = vec![0; frame.octets()];
        frame.write(&mut octets).unwrap();
        self.socket.send_to(&octets, to).unwrap();
    }

    fn announce(&self, to: SocketAddr, role: Role, returned: u64) {
        let announcement = Announcement::new(role, TOPIC, 5_000);
        let announcement = Announcement { given: 0x0c00_c1e5, returned, largest: 60_000, ..announcement };
        self.send(to, 0, Payload::Announcement(announcement));
    }

    fn next(&mut self) -> (SocketAddr, Frame<'_>) {
        let (octets, from) = self.socket.recv_from(&mut self.octets).expect("something comes within a minute");
        let (frame, read) = Frame::read(&self.octets[..octets]).unwrap();
        assert_eq!(read, octets);
        (from, frame)
    }

    /// Meets a program as a counterpart of this role, and proves that it is where it is.
    fn meet(&mut self, role: Role) -> (SocketAddr, u32) {
        loop {
            let (from, frame) = self.next();
            let Payload::Announcement(said) = frame.payload else { panic!("{frame:?} came before there was a proof") };
            assert_eq!((said.name, said.role), (TOPIC, role.counterpart()));
            let (given, returned, number) = (said.given, said.returned, frame.header.topic);
            self.announce(from, role, given);
            if given != 0 && returned == 0x0c00_c1e5 {
                return (from, number);
            }
        }
    }
}

/// `tempo::endpoint` with a socket.
struct Peer {
    socket: UdpSocket,
    end: Box<Endpoint<4, 8, 64, 4_096, 1>>,
    topic: TopicId,
    began: Instant,
    came: Lines,
}

#[derive(Default)]
struct Lines(Vec<String>);

impl Receive for Lines {
    fn message(&mut self, message: Message<'_>) {
        self.0.push(String::from_utf8_lossy(message.octets).into_owned());
    }
}

impl Peer {
    fn new(role: Role, channel: Option<SocketAddr>) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let channel = channel.map_or(Channel::None, |address| Channel::Peer(Place::Datagram(address)));
        let port = u64::from(socket.local_addr().unwrap().port());
        let settings = Settings::new(u32::try_from(port).unwrap(), (port, !port), channel);
        let mut end = Box::new(Endpoint::new(settings));
        let topic = TopicSettings { name: TOPIC, role, rate: 0, deadline_us: 0, largest: 0, order: Order::Priorities };
        let topic = end.add_topic(0, topic).unwrap();
        Self { socket, end, topic, began: Instant::now(), came: Lines::default() }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap()
    }

    /// Goes on until something is so.
    fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let mut buffer = vec![0; 65_536];
        wait_until(what, || {
            let now = self.now();
            self.end.handle_timeout(now, &mut self.came);
            while let Some(transmit) = self.end.poll_transmit(now, &mut buffer[..1_472]) {
                let To::Place(Place::Datagram(to)) = transmit.to else { panic!("{transmit:?}") };
                self.socket.send_to(&buffer[..transmit.octets], to).unwrap();
            }
            if is_so(self) {
                return true;
            }
            let wait = self.end.next_timeout().unwrap_or(u64::MAX).saturating_sub(now).clamp(1_000, 100_000_000);
            self.socket.set_read_timeout(Some(Duration::from_nanos(wait))).unwrap();
            if let Ok((octets, from)) = self.socket.recv_from(&mut buffer) {
                let now = self.now();
                self.end.handle(now, Place::Datagram(from), &buffer[..octets], &mut self.came);
            }
            is_so(self)
        });
    }

    fn publish(&mut self, line: &str) {
        self.end.publish(self.now(), self.topic, 0, Content::Octets, line.as_bytes()).unwrap();
        self.until("a message to be sent", |peer| peer.end.published(peer.topic).waiting == 0);
    }
}

#[test]
fn lines_go_from_a_publisher_in_c_to_an_end_point_in_rust() {
    let mut peer = Peer::new(Role::Subscriber, None);
    let url = format!("udp://{}", peer.socket.local_addr().unwrap());
    for round in 1..=2 {
        // The second one begins anew: only a bye announced the first one's end.
        let mut publisher = Example::start("pub", &url);
        let long = "long ".repeat(700);
        for line in ["wind", "", &long] {
            publisher.write(line);
            let lines = peer.came.0.len() + 1;
            peer.until("a line", |peer| peer.came.0.len() == lines);
            assert_eq!(peer.came.0.last().unwrap(), line);
        }
        publisher.end();
        peer.until("the bye", |peer| peer.end.subscribed(peer.topic).publishers == 0);
        let report = peer.end.subscribed(peer.topic);
        assert_eq!((report.received, report.lost, report.repeated), (3 * round, 0, 0));
    }
    assert_eq!(peer.end.counters().peers_expired, 0);
}

#[test]
fn the_program_that_the_specification_shows_publishes() {
    let mut peer = Peer::new(Role::Subscriber, None);
    let program = program_of_the_specification(peer.socket.local_addr().unwrap().port());
    let mut child = Command::new(&program).spawn().unwrap();
    peer.until("what it publishes", |peer| peer.came.0.len() >= 3);
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::remove_file(program).unwrap();
    assert!(peer.came.0.iter().all(|line| line == "12 m/s"));
}

#[test]
fn lines_go_from_an_end_point_in_rust_to_a_subscriber_in_c_which_reports_and_echoes() {
    let subscriber = Example::start("sub", "udp://*:0");
    let mut peer = Peer::new(Role::Publisher, Some(subscriber.address));
    peer.until("the subscriber", |peer| peer.end.published(peer.topic).subscribers == 1);
    let long = "long ".repeat(800);
    for line in ["wind", "", &long] {
        peer.publish(line);
        assert_eq!(subscriber.printed.next_in_time(), line);
    }
    peer.until("a report and an echo", |peer| {
        let report = peer.end.published(peer.topic);
        report.received == 3 && report.delay.is_some()
    });
    assert_eq!(peer.end.published(peer.topic).lost, 0);
}

#[test]
fn lines_go_from_a_publisher_in_c_to_a_subscriber_in_c() {
    let subscriber = Example::start("sub", "udp://*:0");
    let mut publisher = Example::start("pub", &format!("udp://{}", subscriber.address));
    for line in ["first", "", "third"] {
        publisher.write(line);
        assert_eq!(subscriber.printed.next_in_time(), line);
    }
    publisher.end();
    // The next one is another session at another address.
    let mut publisher = Example::start("pub", &format!("udp://{}", subscriber.address));
    publisher.write("again");
    assert_eq!(subscriber.printed.next_in_time(), "again");
}

#[test]
fn a_publisher_in_c_sends_nothing_but_announcements_until_a_subscriber_proves_itself() {
    let mut hand = Hand::new();
    let mut publisher = Example::start("pub", &format!("udp://{}", hand.address()));
    publisher.write("wind");
    let mut answers = 0;
    while answers < 3 {
        let (from, frame) = hand.next();
        assert!(matches!(frame.payload, Payload::Announcement(_)), "{frame:?}");
        hand.announce(from, Role::Subscriber, 1);
        answers += 1;
    }
    hand.meet(Role::Subscriber);
    let (mut data, mut probes, mut bye) = (0, 0, 0);
    drop(publisher.input.take());
    while bye == 0 {
        let (from, frame) = hand.next();
        match frame.payload {
            Payload::Data(said) => {
                assert_eq!(said, Data { fragment: None, content: Content::Octets, octets: b"wind" });
                data += 1;
            }
            Payload::Probe(probe) => {
                assert_eq!((probe.prober, probe.topic), (frame.header.session, frame.header.topic));
                probes += 1;
                hand.send(from, 0, Payload::Echo(probe));
            }
            Payload::Bye(role) => {
                assert_eq!(role, Role::Publisher);
                bye += 1;
            }
            Payload::Announcement(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(data, 1);
    assert!(probes <= 10);
}

#[test]
fn a_subscriber_in_c_prints_what_rust_sends_echoes_probes_and_reports() {
    let subscriber = Example::start("sub", "udp://*:0");
    let mut hand = Hand::new();
    hand.announce(subscriber.address, Role::Publisher, 0);
    let (to, _) = hand.meet(Role::Publisher);
    assert_eq!(to, subscriber.address);
    let data = |octets| Payload::Data(Data { fragment: None, content: Content::Octets, octets });
    hand.send(to, u32::MAX, data(b"one"));
    hand.send(to, 3, data(b"two"));
    assert_eq!((subscriber.printed.next_in_time(), subscriber.printed.next_in_time()), ("one".into(), "two".into()));
    let probe = tempo::wire::Probe { sent: 77, prober: 0x7e57, topic: 70, number: 1, to: None, hops: 0, echoed_by: 0 };
    hand.send(to, 4, Payload::Probe(probe));
    let (mut echoes, mut reports) = (0, 0);
    while echoes == 0 || reports == 0 {
        let (_, frame) = hand.next();
        match frame.payload {
            Payload::Echo(echo) => {
                assert_eq!(echo, tempo::wire::Probe { echoed_by: frame.header.session, ..probe });
                echoes += 1;
            }
            Payload::Report(report) => {
                assert_eq!((frame.header.topic, report.received, report.end_points), (70, 2, 1));
                assert!(report.lost == 3 || report.lost == 0, "{report:?}");
                reports += u8::from(report.lost == 3);
            }
            _ => {}
        }
    }
}

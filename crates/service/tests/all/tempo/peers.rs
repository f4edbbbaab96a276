//! End points that are only sockets.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};

use service::Service;
use tempo::wire::{Announcement, Content, Data, Fragment, Frame, Header, NAME_MAX, Payload, Probe, Report, Role};
use testing::{PATIENCE, patient, unless_closed};

/// What is behind a header, apart from the buffer that it came in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Got {
    Announcement { given: u64, returned: u64, rate: u32, highest_rate: u32, end_points: u32, role: Role, name: String },
    Data { fragment: Option<Fragment>, content: Content, octets: Vec<u8> },
    Probe(Probe),
    Echo(Probe),
    Report(Report),
    Bye(Role),
    Name(String),
}

impl From<&Payload<'_>> for Got {
    fn from(payload: &Payload<'_>) -> Self {
        match payload {
            Payload::Announcement(said) => Self::Announcement {
                given: said.given,
                returned: said.returned,
                rate: said.rate,
                highest_rate: said.highest_rate,
                end_points: said.end_points,
                role: said.role,
                name: said.name.to_owned(),
            },
            Payload::Data(data) => {
                Self::Data { fragment: data.fragment, content: data.content, octets: data.octets.to_vec() }
            }
            Payload::Probe(probe) => Self::Probe(*probe),
            Payload::Echo(probe) => Self::Echo(*probe),
            Payload::Report(report) => Self::Report(*report),
            Payload::Bye(role) => Self::Bye(*role),
            Payload::Name(name) => Self::Name((*name).to_owned()),
        }
    }
}

/// A frame's octets.
pub(crate) fn frame(header: Header, payload: Payload<'_>) -> Vec<u8> {
    let frame = Frame { header, payload };
    let mut octets = vec![0; frame.octets()];
    frame.write(&mut octets).unwrap();
    octets
}

/// An announcement of a message a second.
pub(crate) fn announcement(role: Role, name: &str) -> Announcement<'_> {
    assert!(name.len() <= NAME_MAX);
    Announcement { given: 77, largest: 1 << 20, period_ms: 60_000, ..Announcement::new(role, name, 1_000) }
}

/// One end point's session, however it reaches the service.
pub(crate) trait EndPoint {
    fn session(&self) -> u32;
    fn send(&mut self, octets: &[u8]);
    /// The next frame.
    fn next(&mut self) -> (Header, Got);
    /// The cookie that the service gave last.
    fn cookie(&mut self) -> &mut u64;

    /// The header of a frame of its on a topic.
    fn header(&self, topic: u32, sequence: u32) -> Header {
        Header { session: self.session(), topic, sequence, sent: 0, priority: 0, by_broker: false }
    }

    fn announce(&mut self, topic: u32, said: Announcement<'_>) {
        let returned = *self.cookie();
        let octets = frame(self.header(topic, 0), Payload::Announcement(Announcement { returned, ..said }));
        self.send(&octets);
    }

    /// The next announcement of a topic. Its cookie is kept.
    fn announced(&mut self, topic: &str) -> (Header, Got) {
        loop {
            let (header, got) = self.next();
            if let Got::Announcement { given, name, .. } = &got {
                *self.cookie() = *given;
                if name == topic {
                    return (header, got);
                }
            }
        }
    }

    /// Announces a topic until the service has taken that, and says what it announces.
    fn meet(&mut self, topic: u32, role: Role, name: &str) -> (Header, Got) {
        self.meet_as(topic, announcement(role, name))
    }

    fn meet_as(&mut self, topic: u32, said: Announcement<'_>) -> (Header, Got) {
        let known = *self.cookie();
        self.announce(topic, said);
        let first = self.announced(said.name);
        if *self.cookie() == known {
            return first;
        }
        self.announce(topic, said);
        self.announced(said.name)
    }

    /// The next message.
    fn message(&mut self) -> (Header, Vec<u8>) {
        loop {
            match self.next() {
                (header, Got::Data { octets, fragment: None, .. }) => return (header, octets),
                (_, Got::Data { .. }) => panic!("a fragment"),
                _ => {}
            }
        }
    }

    /// The next frame of another kind than announcements, data and reports.
    fn answer(&mut self) -> (Header, Got) {
        loop {
            let (header, got) = self.next();
            if matches!(got, Got::Probe(_) | Got::Echo(_) | Got::Bye(_)) {
                return (header, got);
            }
        }
    }

    /// The next report.
    fn report(&mut self) -> (Header, Report) {
        loop {
            if let (header, Got::Report(report)) = self.next() {
                return (header, report);
            }
        }
    }

    /// Sends a part of a message of `total` octets on the first topic.
    fn publish_part(&mut self, sequence: u32, total: u32, at: u32, octets: &[u8]) {
        let data = Data { fragment: Some(Fragment { total, at }), content: Content::Octets, octets };
        let octets = frame(self.header(1, sequence), Payload::Data(data));
        self.send(&octets);
    }

    fn publish(&mut self, topic: u32, sequence: u32, octets: &[u8]) {
        let data = Payload::Data(Data { fragment: None, content: Content::Octets, octets });
        let octets = frame(self.header(topic, sequence), data);
        self.send(&octets);
    }
}

fn take(octets: &[u8], into: &mut VecDeque<(Header, Got)>) -> usize {
    let mut done = 0;
    while let Ok((frame, count)) = Frame::read(&octets[done..]) {
        into.push_back((frame.header, Got::from(&frame.payload)));
        done += count;
    }
    done
}

/// One over UDP.
pub(crate) struct Datagrams {
    pub(crate) socket: UdpSocket,
    session: u32,
    cookie: u64,
    came: VecDeque<(Header, Got)>,
}

impl Datagrams {
    pub(crate) fn new(service: &Service, session: u32) -> Self {
        Self::at(service, session, "127.0.0.1:0".parse().unwrap())
    }

    pub(crate) fn at(service: &Service, session: u32, address: SocketAddr) -> Self {
        let socket = UdpSocket::bind(address).unwrap();
        socket.connect(service.tempo_address().unwrap()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket, session, cookie: 0, came: VecDeque::new() }
    }

    pub(crate) fn subscribed(service: &Service, session: u32, name: &str) -> Self {
        let mut new = Self::new(service, session);
        new.meet(1, Role::Subscriber, name);
        new
    }

    pub(crate) fn publishing(service: &Service, session: u32, name: &str) -> Self {
        let mut new = Self::new(service, session);
        new.meet(1, Role::Publisher, name);
        new
    }

    /// What is there already.
    pub(crate) fn drain(&mut self) -> Vec<(Header, Got)> {
        self.socket.set_nonblocking(true).unwrap();
        let mut buffer = [0; 65_536];
        while let Ok(count) = self.socket.recv(&mut buffer) {
            take(&buffer[..count], &mut self.came);
        }
        self.socket.set_nonblocking(false).unwrap();
        self.came.drain(..).collect()
    }
}

impl EndPoint for Datagrams {
    fn session(&self) -> u32 {
        self.session
    }

    fn send(&mut self, octets: &[u8]) {
        self.socket.send(octets).unwrap();
    }

    fn next(&mut self) -> (Header, Got) {
        loop {
            if let Some(next) = self.came.pop_front() {
                return next;
            }
            let mut buffer = [0; 65_536];
            let count = self.socket.recv(&mut buffer).expect("a datagram");
            assert_eq!(take(&buffer[..count], &mut self.came), count);
        }
    }

    fn cookie(&mut self) -> &mut u64 {
        &mut self.cookie
    }
}

/// One over TCP.
pub(crate) struct Stream {
    pub(crate) stream: TcpStream,
    session: u32,
    cookie: u64,
    bytes: Vec<u8>,
    came: VecDeque<(Header, Got)>,
}

impl Stream {
    pub(crate) fn new(service: &Service, session: u32) -> Self {
        let stream = TcpStream::connect(service.tempo_address().unwrap()).unwrap();
        patient(&stream);
        stream.set_nodelay(true).unwrap();
        Self { stream, session, cookie: 0, bytes: Vec::new(), came: VecDeque::new() }
    }

    pub(crate) fn subscribed(service: &Service, session: u32, name: &str) -> Self {
        let mut new = Self::new(service, session);
        new.meet(1, Role::Subscriber, name);
        new
    }

    pub(crate) fn publishing(service: &Service, session: u32, name: &str) -> Self {
        let mut new = Self::new(service, session);
        new.meet(1, Role::Publisher, name);
        new
    }

    /// Whether the service has closed the connection; what comes before is passed over.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut buffer = [0; 4_096];
        loop {
            match unless_closed(self.stream.read(&mut buffer)) {
                None | Some(0) => return true,
                Some(_) => {}
            }
        }
    }
}

impl EndPoint for Stream {
    fn session(&self) -> u32 {
        self.session
    }

    fn send(&mut self, octets: &[u8]) {
        self.stream.write_all(octets).unwrap();
    }

    fn next(&mut self) -> (Header, Got) {
        loop {
            if let Some(next) = self.came.pop_front() {
                return next;
            }
            let mut buffer = [0; 65_536];
            let count = match self.stream.read(&mut buffer) {
                Ok(0) => panic!("the connection is closed"),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => panic!("{error}"),
            };
            self.bytes.extend_from_slice(&buffer[..count]);
            let done = take(&self.bytes, &mut self.came);
            self.bytes.drain(..done);
        }
    }

    fn cookie(&mut self) -> &mut u64 {
        &mut self.cookie
    }
}

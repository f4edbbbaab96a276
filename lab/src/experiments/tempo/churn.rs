//! `campanile-bench tempo-churn`: a thousand publishers appear at a broker, each with a session, a topic and a socket of its own, publish a
//! message, and vanish, one half with a word and the other without; and again, and again. Whether anything is left of them.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use client::tempo::Subscriber;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;
use serde_json::json;
use tempo::wire::{Announcement, Content, Data, Frame, Header, Payload, Role};

use super::ends::Transport;
use super::{Broker, after, take_seat, tempo_ends};
use crate::experiments::Bed;
use crate::report::{Aim, Reported};
use crate::{BenchError, Options, Output, clock, system};

/// Publishers that are there at once.
const PUBLISHERS: u32 = 1_000;
/// For how long an answer, or the end of sessions, is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// Octets by which resident memory may grow in the second half of the time. In the first 60 s the broker's heap finds its size.
const GROWTH_MAX: u64 = 1 << 20;

/// After each tenth of the time, when all publishers have vanished.
#[derive(Debug, Serialize)]
struct Row {
    seconds: f64,
    publishers: u64,
    received: u64,
    resident_bytes: u64,
    sessions: u64,
    topics: u64,
    descriptors: u64,
    sessions_at_once: u64,
}

pub(crate) fn measure(bed: &Bed, options: &Options, out: &mut Output<'_>) -> Reported {
    let (_, seconds) = bed.times(options, (0.0, 20.0), (0.0, 600.0));
    // Each of them has a socket. If the limit stays too low, the first one without a descriptor fails.
    let descriptors = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: descriptors.maximum, ..descriptors });
    let mut crowd = Crowd::gather(Broker::start(bed)?)?;
    take_seat(bed)?;
    let (began, mut rows) = (clock::now(), Vec::<Row>::new());
    while rows.len() < 10 {
        crowd.round()?;
        let passed = clock::seconds(clock::now() - began);
        if passed >= seconds * crate::latency::ratio(rows.len() as u64 + 1, 10) {
            let row = crowd.row(passed)?;
            out.progress(&format!("{} publishers, {} KiB", row.publishers, row.resident_bytes >> 10))?;
            rows.push(row);
        }
    }
    Ok((aims(&rows), json!({"rows": rows})))
}

/// The broker, a subscriber that stays, and publishers that do not.
struct Crowd {
    broker: Broker,
    _subscriber: Subscriber,
    received: Arc<AtomicU64>,
    publishers: u64,
    sessions_at_once: u64,
}

impl Crowd {
    fn gather(broker: Broker) -> Result<Self, BenchError> {
        let received = Arc::new(AtomicU64::new(0));
        let counting = Arc::clone(&received);
        let subscriber = tempo_ends::subscribe(Transport::Tcp, broker.address, "Churn/*", move |_| {
            counting.fetch_add(1, Ordering::Relaxed);
        })?;
        let crowd = Self { broker, _subscriber: subscriber, received, publishers: 0, sessions_at_once: u64::MAX };
        crowd.wait_for("tempo_sessions", 1)?;
        Ok(crowd)
    }

    /// A thousand appear, and vanish.
    fn round(&mut self) -> Result<(), BenchError> {
        let mut there = Vec::new();
        for number in 0..PUBLISHERS {
            self.publishers += 1;
            #[expect(clippy::cast_possible_truncation, reason = "thousands of millions do not pass in an hour")]
            let publisher = Publisher::appear(self.broker.address, self.publishers as u32, format!("Churn/{number}"))?;
            there.push(publisher);
        }
        self.sessions_at_once = self.sessions_at_once.min(self.broker.service.counter("tempo_sessions")?);
        for (number, publisher) in there.into_iter().enumerate() {
            publisher.vanish(number % 2 == 0)?;
        }
        self.wait_for("tempo_sessions", 1)?;
        let until = after(PATIENCE.as_secs_f64());
        while self.received.load(Ordering::Relaxed) < self.publishers && clock::now() < until {
            clock::sleep_until(clock::now() + clock::SECOND / 1_000)?;
        }
        Ok(())
    }

    /// Waits, but not for ever: a value that is not reached shows in the results.
    fn wait_for(&self, name: &str, value: u64) -> Result<(), BenchError> {
        let until = after(PATIENCE.as_secs_f64());
        while self.broker.service.counter(name)? != value && clock::now() < until {
            clock::sleep_until(clock::now() + clock::SECOND / 100)?;
        }
        Ok(())
    }

    fn row(&self, seconds: f64) -> Result<Row, BenchError> {
        let process = self.broker.service.process();
        let descriptors = system::descriptors(process.pid());
        Ok(Row {
            seconds,
            publishers: self.publishers,
            received: self.received.load(Ordering::Relaxed),
            resident_bytes: process.resident_bytes()?,
            sessions: self.broker.service.counter("tempo_sessions")?,
            topics: self.broker.service.counter("tempo_topics")?,
            descriptors: descriptors.map_err(BenchError::io("counting the broker's descriptors"))?,
            sessions_at_once: self.sessions_at_once,
        })
    }
}

/// An end point that is no more than a socket.
struct Publisher {
    socket: UdpSocket,
    session: u32,
    cookie: u64,
    name: String,
}

impl Publisher {
    /// Proves itself, and publishes a message.
    fn appear(broker: SocketAddr, session: u32, name: String) -> Result<Self, BenchError> {
        let doing = BenchError::io("opening a publisher's socket");
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(doing)?;
        let mut new = Self { socket, session, cookie: 0, name };
        let doing = "hearing a broker's answer";
        new.socket.connect(broker).map_err(BenchError::io(doing))?;
        new.socket.set_read_timeout(Some(PATIENCE)).map_err(BenchError::io(doing))?;
        new.announce(10_000)?;
        let mut answer = [0; 2_048];
        let octets = new.socket.recv(&mut answer).map_err(BenchError::io(doing))?;
        if let Some(Ok((Frame { payload: Payload::Announcement(said), .. }, _))) = answer.get(..octets).map(Frame::read)
        {
            new.cookie = said.given;
        }
        new.announce(10_000)?;
        new.send(Payload::Data(Data { fragment: None, content: Content::Octets, octets: b"here" }))?;
        Ok(new)
    }

    /// Says bye, or announces itself for the last time, and not for long.
    fn vanish(self, says_bye: bool) -> Result<(), BenchError> {
        if says_bye { self.send(Payload::Bye(Role::Publisher)) } else { self.announce(10) }
    }

    fn announce(&self, period_ms: u16) -> Result<(), BenchError> {
        let announcement = Announcement::new(Role::Publisher, &self.name, 1_000);
        let cookies = Announcement { given: 1, returned: self.cookie, ..announcement };
        self.send(Payload::Announcement(Announcement { largest: 1_440, period_ms, ..cookies }))
    }

    fn send(&self, payload: Payload<'_>) -> Result<(), BenchError> {
        let header = Header { session: self.session, topic: 1, sequence: 1, sent: 0, priority: 0, by_broker: false };
        let frame = Frame { header, payload };
        let mut octets = vec![0; frame.octets()];
        // It is as large as it says.
        let _ = frame.write(&mut octets);
        self.socket.send(&octets).map(drop).map_err(BenchError::io("sending a publisher's frame"))
    }
}

fn aims(rows: &[Row]) -> Vec<Aim> {
    let (Some(early), Some(last)) = (rows.get(4), rows.last()) else { return Vec::new() };
    let growth = last.resident_bytes.saturating_sub(early.resident_bytes);
    let of = |what: fn(&Row) -> u64| rows.iter().map(what).max().unwrap_or(0);
    let least = last.sessions_at_once.saturating_sub(1);
    vec![
        Aim::new(
            format!("in the second half of the time resident memory grows by at most {} KiB", GROWTH_MAX >> 10),
            format!("by {} KiB to {} KiB", growth >> 10, last.resident_bytes >> 10),
            growth <= GROWTH_MAX,
        ),
        Aim::new(
            "nothing is left of publishers that have vanished",
            format!(
                "{} sessions and {} topics at most: the subscriber's",
                of(|row| row.sessions),
                of(|row| row.topics)
            ),
            of(|row| row.sessions) == 1 && of(|row| row.topics) <= 1,
        ),
        Aim::new(
            "the broker's descriptors stay",
            format!("{} at first, {} at most", early.descriptors, of(|row| row.descriptors)),
            of(|row| row.descriptors) <= early.descriptors,
        ),
        Aim::new(
            format!("{PUBLISHERS} publishers are there at once, and each is heard"),
            format!("{least} at least; {} of {} messages", last.received, last.publishers),
            least == u64::from(PUBLISHERS) && last.received == last.publishers,
        ),
    ]
}

//! `campanile tempo topics`.

use super::meeting::{self, DEFAULT, failure, rate, time};
use crate::args::TempoTopicsOptions;
use crate::failure::Failure;
use crate::signals::{Waiter, Wake};
use crate::{json, show};
use client::tempo::wire::{Announcement, Frame, Header, Payload, Role};
use client::tempo::{Address, Error, Node};
use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum announcements remembered; further ones are left out, which is reported.
const SEEN_MAX: usize = 10_000;

/// Listens for a while, and prints publishers and subscribers.
pub(crate) fn run(options: &TempoTopicsOptions) -> Result<(), Failure> {
    let waiter = Waiter::install().map_err(Failure::message)?;
    let seen = Arc::new(Mutex::new(Seen::default()));
    let node = listen(options, Arc::clone(&seen))?;
    let began = Instant::now();
    let address = options.place().map_or_else(|| DEFAULT.to_owned(), Address::to_string);
    if io::stderr().is_terminal() {
        eprintln!("campanile: listening at {address} for {} s", options.seconds.as_secs_f64());
    }
    loop {
        let left = options.seconds.saturating_sub(began.elapsed());
        match waiter.wait(Some(left)) {
            Some(Wake::Signal | Wake::HangUp) => break,
            _ if left.is_zero() => break,
            _ => {}
        }
    }
    drop(node);
    let seen = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
    if seen.announced.is_empty() {
        return Err(Failure::Message(format!(
            "nothing was announced at {address} within {} s",
            options.seconds.as_secs_f64()
        )));
    }
    let mut out = String::new();
    match (options.json, io::stdout().is_terminal()) {
        (true, _) => seen.objects(&mut out),
        (false, true) => seen.table(&mut out, true),
        (false, false) => seen.table(&mut out, false),
    }
    io::stdout().write_all(out.as_bytes())?;
    if seen.left_out {
        eprintln!("campanile: there is more than the {} lines that are shown", show::count(SEEN_MAX));
    }
    Ok(())
}

/// An end point that sends nothing, and notes what it receives.
fn listen(options: &TempoTopicsOptions, seen: Arc<Mutex<Seen>>) -> Result<Node, Failure> {
    let open = |address: &str| {
        let seen = Arc::clone(&seen);
        let tap = move |from: SocketAddr, octets: &[u8]| {
            seen.lock().unwrap_or_else(PoisonError::into_inner).read(from, octets)
        };
        Node::builder(address).and_then(|builder| meeting::on_network(options.interface)(builder).tap(tap).open())
    };
    let address = match options.place() {
        None => DEFAULT.parse().map_err(Failure::message)?,
        Some(address) => address.clone(),
    };
    // Everybody hears everything in a group; elsewhere only the node that waits there does.
    let is_group =
        address.resolve().is_ok_and(|places| places.first().is_some_and(|place| client::tempo::is_group(*place)));
    let waiting = Address { waits: !is_group, ..address.clone() };
    open(&waiting.to_string()).map_err(|error| match &error {
        Error::Socket { error, .. } if error.kind() == io::ErrorKind::AddrInUse => Failure::Message(format!(
            "another end point waits at {address} already, and only that hears what is announced there; if it is \
             a broker, `campanile stats tempo` shows what it has"
        )),
        Error::Socket { error, .. } if error.kind() == io::ErrorKind::AddrNotAvailable => Failure::Message(format!(
            "{address} is on another machine, and only the end point that waits there hears what is announced; run this command there"
        )),
        _ => failure(&error),
    })
}

/// Announcements by topic, role, session and address.
#[derive(Default)]
struct Seen {
    announced: BTreeMap<(String, bool, u32), Line>,
    left_out: bool,
}

struct Line {
    from: SocketAddr,
    by_broker: bool,
    rate: u32,
    highest_rate: u32,
    deadline_us: u32,
    end_points: u32,
    largest: u32,
    period_ms: u16,
}

const HEADINGS: [&str; 7] = ["TOPIC", "ROLE", "RATE", "DEADLINE", "END POINTS", "ADDRESS", "SESSION"];

impl Seen {
    fn read(&mut self, from: SocketAddr, mut octets: &[u8]) {
        while let Ok((frame, count)) = Frame::read(octets) {
            let Frame { header, payload } = frame;
            if let Payload::Announcement(announcement) = payload {
                self.note(from, &header, &announcement);
            }
            octets = octets.get(count..).unwrap_or_default();
        }
    }

    fn note(&mut self, from: SocketAddr, header: &Header, announcement: &Announcement<'_>) {
        let &Announcement { rate, highest_rate, deadline_us, end_points, largest, period_ms, role, name, .. } =
            announcement;
        let key = (name.to_owned(), role == Role::Subscriber, header.session);
        if self.announced.len() >= SEEN_MAX && !self.announced.contains_key(&key) {
            self.left_out = true;
            return;
        }
        let by_broker = header.by_broker;
        let line = Line { from, by_broker, rate, highest_rate, deadline_us, end_points, largest, period_ms };
        self.announced.insert(key, line);
    }

    fn objects(&self, out: &mut String) {
        for ((topic, is_subscriber, session), line) in &self.announced {
            let Line { from, by_broker, rate, highest_rate, deadline_us, end_points, largest, period_ms } = line;
            json::Object::new(out)
                .member("topic", topic)
                .member("role", role(*is_subscriber))
                .written("rate", |out| out.push_str(&(f64::from(*rate) / 1e3).to_string()))
                .written("highest_rate", |out| out.push_str(&(f64::from(*highest_rate) / 1e3).to_string()))
                .member("deadline_us", deadline_us)
                .member("end_points", end_points)
                .member("largest", largest)
                .member("period_ms", period_ms)
                .member("address", from)
                .member("session", format!("{session:08x}"))
                .member("broker", by_broker)
                .end();
            out.push('\n');
        }
    }

    /// Writes a table: in columns for people, with tabs in a pipe.
    fn table(&self, out: &mut String, is_for_people: bool) {
        let mut rows = Vec::new();
        for ((topic, is_subscriber, session), line) in &self.announced {
            let is_told = line.rate != 0;
            let told_rate = match is_for_people {
                true => rate(is_told.then(|| f64::from(line.rate) / 1e3)),
                false => (f64::from(line.rate) / 1e3).to_string(),
            };
            let deadline = match (is_for_people, line.deadline_us) {
                (true, 0) => "-".to_owned(),
                (true, us) => time(Duration::from_micros(us.into())),
                (false, us) => us.to_string(),
            };
            let broker = if line.by_broker { " (broker)" } else { "" };
            let role = role(*is_subscriber).to_owned();
            let address = format!("{}{broker}", line.from);
            let row = [
                show::clean(topic),
                role,
                told_rate,
                deadline,
                line.end_points.to_string(),
                address,
                format!("{session:08x}"),
            ];
            rows.push(row);
        }
        if !is_for_people {
            rows.iter().for_each(|row| out.push_str(&(row.join("\t") + "\n")));
            return;
        }
        show::table(out, (&HEADINGS, true), &[0, 1, 2, 3, 4, 5, 6], &rows);
    }
}

const fn role(is_subscriber: bool) -> &'static str {
    if is_subscriber { "subscriber" } else { "publisher" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announced(session: u32, role: Role, name: &str, rate: u32) -> Vec<u8> {
        let header = Header { session, topic: 1, sequence: 0, sent: 0, priority: 0, by_broker: session == 9 };
        let announcement = Announcement::new(role, name, rate);
        let announcement = Announcement { deadline_us: rate / 100, largest: 64, ..announcement };
        let mut octets = vec![0; 512];
        let frame = Frame { header, payload: Payload::Announcement(announcement) };
        let count = frame.write(&mut octets).unwrap();
        octets.truncate(count);
        octets
    }

    #[test]
    fn each_announcer_is_a_line_and_the_last_word_counts() {
        let mut seen = Seen::default();
        let from = "10.0.0.1:7".parse().unwrap();
        let frames = [
            announced(9, Role::Subscriber, "B/C", 0),
            announced(7, Role::Publisher, "A/B", 1),
            announced(7, Role::Publisher, "A/B", 250_000),
        ];
        seen.read(from, &frames.concat());
        seen.read(from, b"no frame");
        let (mut people, mut pipe, mut objects) = (String::new(), String::new(), String::new());
        seen.table(&mut people, true);
        assert_eq!(
            people,
            "TOPIC  ROLE        RATE   DEADLINE  END POINTS  ADDRESS              SESSION\n\
             A/B    publisher   250/s  2.50 ms   1           10.0.0.1:7           00000007\n\
             B/C    subscriber  -      -         1           10.0.0.1:7 (broker)  00000009\n"
        );
        seen.table(&mut pipe, false);
        assert_eq!(pipe.lines().next().unwrap(), "A/B\tpublisher\t250\t2500\t1\t10.0.0.1:7\t00000007");
        seen.objects(&mut objects);
        assert_eq!(
            objects.lines().next().unwrap(),
            concat!(
                r#"{"topic":"A/B","role":"publisher","rate":250,"highest_rate":250,"deadline_us":2500,"end_points":1,"#,
                r#""largest":64,"period_ms":1000,"address":"10.0.0.1:7","session":"00000007","broker":false}"#
            )
        );
    }
}

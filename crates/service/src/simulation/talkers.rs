//! Simulated clients of JSON lines: each subscribes, publishes or does both on one connection, and leaves.

use core::time::Duration;
use std::net::IpAddr;

use fastrand::Rng;

use super::sockets::JSON;
use super::suppliers::Pushed;
use super::taken::Taken;
use super::wire::{Wire, net};

/// How a client reads, until it has to behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    Healthy,
    /// Reads a few octets now and then.
    Slow,
    /// Does not read.
    Dead,
    /// Resets its connection, and does not return.
    Vanishes,
}

const MANNERS: [Manner; 5] = [Manner::Healthy, Manner::Healthy, Manner::Slow, Manner::Dead, Manner::Vanishes];

/// Id of the request that subscribes; requests that publish have the numbers of their events.
const SUBSCRIPTION: u32 = 1_000_000;
/// Id of the request that unsubscribes.
const LEAVING: u32 = 1_000_001;

pub(super) struct Talker {
    number: usize,
    /// Number of the client in the names of its events.
    supplier: usize,
    pub(super) manner: Manner,
    /// The client's manner before it had to behave.
    pub(super) nature: Manner,
    wire: Option<Wire>,
    subscribes: bool,
    /// Number of events that it publishes.
    events: u32,
    next: u32,
    window: usize,
    bytes_max: usize,
    due: Duration,
    pause: Duration,
    reads_at: Duration,
    misbehaves_at: Duration,
    is_gone: bool,
    pub(super) taken: Taken,
    pub(super) pushed: Pushed,
    pub(super) lines: u64,
}

impl Talker {
    pub(super) fn new(number: usize, supplier: usize, rng: &mut Rng) -> Self {
        let manner = if number == 0 { Manner::Healthy } else { MANNERS[rng.usize(0..MANNERS.len())] };
        let part = rng.u8(0..3);
        Self {
            number,
            supplier,
            manner,
            nature: manner,
            wire: None,
            subscribes: part != 0,
            events: if part == 1 { 0 } else { rng.u32(1..40) },
            next: 0,
            window: rng.usize(1..8),
            bytes_max: if rng.u8(0..6) == 0 { 30_000 } else { 200 },
            due: Duration::from_micros(rng.u64(0..20_000)),
            pause: Duration::from_micros(rng.u64(1..2_000)),
            reads_at: Duration::ZERO,
            misbehaves_at: Duration::from_micros(rng.u64(0..40_000)),
            is_gone: false,
            taken: Taken::new(format!("JSON client {number} ({manner:?})"), rng),
            pushed: Pushed::default(),
            lines: 0,
        }
    }

    fn is_misbehaving(&self, now: Duration) -> bool {
        now >= self.misbehaves_at
    }

    fn reads(&self, now: Duration) -> bool {
        self.manner != Manner::Dead || !self.is_misbehaving(now)
    }

    /// Whether it may publish now: it is connected, subscribed if it has to be, and has room in its window.
    fn may_publish(&self) -> bool {
        let is_set_up = self.wire.is_some() && (!self.subscribes || self.taken.since.is_some());
        is_set_up && self.next < self.events && self.pushed.doubtful.len() < self.window
    }

    fn begins(&self) -> bool {
        self.wire.is_none() && !self.is_gone
    }

    /// Whether it still has work of its own.
    pub(super) fn is_at_work(&self) -> bool {
        let waits = self.next < self.events || !self.pushed.doubtful.is_empty();
        !self.is_gone && self.nature != Manner::Dead && waits
    }

    /// When it leaves without a message.
    fn vanishes(&self) -> Option<Duration> {
        (self.manner == Manner::Vanishes && self.wire.is_some()).then_some(self.misbehaves_at)
    }

    pub(super) fn is_ready(&self, now: Duration) -> bool {
        let is_due = self.due <= now && (self.begins() || self.may_publish());
        let comes = self.reads(now) && self.reads_at <= now && self.wire.as_ref().is_some_and(Wire::is_ready);
        // A client that does not read still ends the lines that it has begun.
        let writes = self.wire.as_ref().is_some_and(Wire::can_go_on_writing);
        is_due || comes || writes || self.vanishes().is_some_and(|at| at <= now)
    }

    pub(super) fn next_due(&self, now: Duration) -> Option<Duration> {
        let acts = (self.begins() || self.may_publish()).then_some(self.due);
        let reads = self.wire.as_ref().filter(|wire| self.reads(now) && wire.is_ready()).map(|_| self.reads_at);
        acts.into_iter().chain(reads).chain(self.vanishes()).min()
    }

    pub(super) fn step(&mut self, rng: &mut Rng) -> Result<(), String> {
        let now = net(|net| net.time());
        if self.begins() && self.due <= now {
            self.begin();
        }
        if self.vanishes().is_some_and(|at| at <= now) {
            self.is_gone = true;
            if let Some(mut wire) = self.wire.take() {
                wire.reset();
            }
            return Ok(());
        }
        let Some(wire) = &mut self.wire else { return Ok(()) };
        wire.flush();
        let slow = self.manner == Manner::Slow && now >= self.misbehaves_at;
        let reads = self.manner != Manner::Dead || now < self.misbehaves_at;
        if reads && self.reads_at <= now {
            if slow {
                self.reads_at = now + Duration::from_micros(rng.u64(100..10_000));
            }
            let lines = wire.read_lines(if slow { 2_000 } else { usize::MAX });
            if wire.is_gone {
                return Err(format!("{} has lost its connection", self.taken.name));
            }
            for line in lines {
                self.hear(&line).map_err(|wrong| format!("{}: {wrong}", self.taken.name))?;
            }
        }
        if self.may_publish() && self.due <= now {
            self.publish(now, rng);
        }
        Ok(())
    }

    fn begin(&mut self) {
        let ip = IpAddr::from([10, 0, 4, u8::try_from(self.number).unwrap()]);
        let wire = self.wire.insert(Wire::connect(ip, JSON));
        if self.subscribes {
            let only = self.taken.constraint().map_or_else(String::new, |text| format!(r#","where":"{text}""#));
            let line = format!(r#"{{"op":"subscribe","id":{SUBSCRIPTION},"types":["Test/*"]{only}}}"#);
            wire.write(|bytes| bytes.extend_from_slice(format!("{line}\n").as_bytes()));
        }
    }

    fn publish(&mut self, now: Duration, rng: &mut Rng) {
        let Some(wire) = &mut self.wire else { return };
        let (number, supplier) = (self.next, self.supplier);
        let body = "x".repeat(rng.usize(0..self.bytes_max));
        let line = format!(
            r#"{{"op":"publish","id":{number},"type":"Test/Numbered","name":"{supplier}:{number}","fields":{{"number":{number}}},"body":"{body}"}}"#
        );
        wire.write(|bytes| bytes.extend_from_slice(format!("{line}\n").as_bytes()));
        self.next += 1;
        self.pushed.doubtful.insert(number, now);
        self.due = now + Duration::from_nanos(rng.u64(0..=u64::try_from(2 * self.pause.as_nanos()).unwrap()));
    }

    fn hear(&mut self, line: &str) -> Result<(), String> {
        if line.starts_with(r#"{"event":"#) {
            self.lines += 1;
            let name = line.split_once(r#""name":""#).and_then(|(_, rest)| rest.split_once('"'));
            return self.taken.add_next(name.ok_or("an event without a name")?.0);
        }
        let done = line.strip_prefix(r#"{"ok":"#).and_then(|rest| rest.strip_suffix('}')?.parse().ok());
        match done.ok_or_else(|| format!("it gets {line}"))? {
            SUBSCRIPTION if self.taken.since.is_none() => self.taken.since = Some(net(|net| net.time())),
            SUBSCRIPTION => return Err("its subscription is answered twice".into()),
            LEAVING => self.close(),
            number if !self.pushed.doubtful.contains_key(&number) => {
                return Err(format!("event {number} is answered, for which no answer is due"));
            }
            number => self.pushed.note_answer(number, true)?,
        }
        Ok(())
    }

    /// Whether it must have received the published events.
    pub(super) fn is_there(&self) -> bool {
        self.subscribes && !self.is_gone
    }

    /// Makes it behave like a healthy client from now on.
    pub(super) fn behave(&mut self) {
        if self.nature != Manner::Vanishes {
            self.manner = Manner::Healthy;
            self.reads_at = Duration::ZERO;
        }
    }

    /// Ends its subscription, and then closes its connection: an end of the stream alone may be that of its requests.
    pub(super) fn leave(&mut self) {
        let Some(wire) = self.wire.as_mut().filter(|_| self.subscribes) else { return self.close() };
        let line = format!(r#"{{"op":"unsubscribe","id":{LEAVING},"subscription":{SUBSCRIPTION}}}"#);
        wire.write(|bytes| bytes.extend_from_slice(format!("{line}\n").as_bytes()));
    }

    fn close(&mut self) {
        self.is_gone = true;
        self.wire = None;
    }

    /// Whether its connection is closed.
    pub(super) const fn is_done(&self) -> bool {
        self.is_gone
    }
}

//! Simulated suppliers: each obtains a proxy, pushes its events, and leaves.

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::IpAddr;

use client::notify::{ClientType, Property, StructuredEvent, ThreadPool};
use fastrand::Rng;
use giop::cdr::{Endian, Writer};
use giop::ior::Ior;
use giop::message::ReplyStatus;
use giop::realtime::PriorityModel;
use giop::value::AnyValue;

use super::sockets::SERVICE;
use super::wire::{Answered, Asker, net};

/// Answer that a supplier waits for.
#[derive(Debug)]
pub(super) enum Awaited {
    Admin,
    Proxy,
    Connected,
    Pushed(Vec<u32>),
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Begin,
    SettingUp,
    Pushing,
    Leaving,
    Gone,
}

/// Fate of a supplier's events: those that the service has, with the time at which they were pushed, and those that it may have.
#[derive(Debug, Default)]
pub(super) struct Pushed {
    pub(super) accepted: BTreeMap<u32, Duration>,
    pub(super) doubtful: BTreeMap<u32, Duration>,
    pub(super) refused: u64,
    /// Whether they are sent in datagrams, which may be lost: losses have to be counted.
    pub(super) may_be_lost: bool,
}

impl Pushed {
    /// Notes the answer to an event.
    ///
    /// # Errors
    /// It was answered before.
    pub(super) fn note_answer(&mut self, number: u32, is_done: bool) -> Result<(), String> {
        match (is_done, self.doubtful.remove(&number)) {
            (true, Some(pushed)) => _ = self.accepted.insert(number, pushed),
            (false, _) => self.refused += 1,
            (true, None) => return Err(format!("event {number} is answered twice")),
        }
        Ok(())
    }
}

pub(super) struct Supplier {
    number: usize,
    asker: Option<Asker<Awaited>>,
    stage: Stage,
    proxy: Vec<u8>,
    pool: Option<i16>,
    is_one_way: bool,
    /// Events in one push of a sequence; 0 for single events.
    batch: u32,
    window: usize,
    /// Size of its largest events, in octets.
    bytes_max: usize,
    events: u32,
    next: u32,
    /// Number of events after which it leaves without a message.
    vanishes_at: u32,
    due: Duration,
    pause: Duration,
    pub(super) pushed: Pushed,
}

/// Writes the properties with which a proxy is made.
pub(super) fn write_qos(pool: Option<i16>, writer: &mut Writer<'_>) {
    writer.length(pool.iter().count());
    if let Some(priority) = pool {
        let Property { name, value, .. } = ThreadPool::new(PriorityModel::ServerDeclared, priority, 1).into();
        writer.string(&name);
        value.write(writer).unwrap();
    }
}

/// Key of the object with which an answer begins.
pub(super) fn key_of<T: core::fmt::Debug>(answered: &Answered<T>) -> Result<Vec<u8>, String> {
    let ior = answered.read(Ior::read).map_err(|error| format!("{:?}: no reference: {error:?}", answered.what))?;
    ior.iiop().map(|profile| profile.key.clone()).ok_or_else(|| format!("{:?}: a reference to nothing", answered.what))
}

impl Supplier {
    pub(super) fn new(number: usize, pool: Option<i16>, rng: &mut Rng) -> Self {
        let events = rng.u32(1..40);
        Self {
            number,
            asker: None,
            stage: Stage::Begin,
            proxy: Vec::new(),
            pool,
            is_one_way: rng.u8(0..4) == 0,
            batch: if rng.u8(0..4) == 0 { rng.u32(1..5) } else { 0 },
            window: rng.usize(1..8),
            bytes_max: if rng.u8(0..6) == 0 { 60_000 } else { 200 },
            events,
            next: 0,
            vanishes_at: if rng.u8(0..5) == 0 { rng.u32(0..events) } else { u32::MAX },
            due: Duration::from_micros(rng.u64(0..20_000)),
            pause: Duration::from_micros(rng.u64(1..2_000)),
            pushed: Pushed::default(),
        }
    }

    fn may_push(&self) -> bool {
        self.stage == Stage::Pushing && self.asker.as_ref().is_some_and(|asker| asker.waiting() < self.window)
    }

    pub(super) fn is_ready(&self, now: Duration) -> bool {
        let is_due = self.due <= now && (self.stage == Stage::Begin || self.may_push());
        is_due || self.asker.as_ref().is_some_and(|asker| asker.wire.is_ready())
    }

    pub(super) fn next_due(&self) -> Option<Duration> {
        (self.stage == Stage::Begin || self.may_push()).then_some(self.due)
    }

    /// Whether it has gone.
    pub(super) fn is_done(&self) -> bool {
        self.stage == Stage::Gone
    }

    fn ip(&self) -> IpAddr {
        IpAddr::from([10, 0, 2, u8::try_from(self.number).unwrap()])
    }

    pub(super) fn step(&mut self, rng: &mut Rng) -> Result<(), String> {
        let now = net(|net| net.time());
        if self.stage == Stage::Begin && self.due <= now {
            let endian = if rng.bool() { Endian::Big } else { Endian::Little };
            let mut asker = Asker::connect(self.ip(), SERVICE, endian);
            asker.ask(Some(Awaited::Admin), b"DefaultEventChannel", "_get_default_supplier_admin", |_| ());
            self.asker = Some(asker);
            self.stage = Stage::SettingUp;
            return Ok(());
        }
        let Some(asker) = &mut self.asker else { return Ok(()) };
        for answered in asker.answers()? {
            self.take(&answered)?;
        }
        if self.asker.as_ref().is_some_and(|asker| asker.wire.is_gone) && self.stage != Stage::Gone {
            return Err(format!("supplier {} has lost its connection while {:?}", self.number, self.stage));
        }
        if self.may_push() && self.due <= now {
            self.push(now, rng);
        }
        Ok(())
    }

    fn take(&mut self, answered: &Answered<Awaited>) -> Result<(), String> {
        let Some(asker) = &mut self.asker else { return Ok(()) };
        let is_done = answered.status == ReplyStatus::NoException;
        if !is_done && !matches!(answered.what, Awaited::Pushed(_)) {
            return Err(format!("supplier {}: {:?} ends with {:?}", self.number, answered.what, answered.status));
        }
        match &answered.what {
            Awaited::Admin => {
                let form = if self.batch > 0 { ClientType::Sequence } else { ClientType::Structured };
                asker.ask(
                    Some(Awaited::Proxy),
                    &key_of(answered)?,
                    "obtain_notification_push_consumer_with_qos",
                    |w| {
                        w.u32(form.to_cdr());
                        write_qos(self.pool, w);
                    },
                );
            }
            Awaited::Proxy => {
                self.proxy = key_of(answered)?;
                let kind = if self.batch > 0 { "sequence" } else { "structured" };
                let operation = format!("connect_{kind}_push_supplier");
                asker.ask(Some(Awaited::Connected), &self.proxy, &operation, |w| Ior::nil().write(w));
            }
            Awaited::Connected => self.stage = Stage::Pushing,
            Awaited::Pushed(numbers) => {
                for number in numbers {
                    self.pushed.note_answer(*number, is_done)?;
                }
            }
            Awaited::Gone => {
                self.stage = Stage::Gone;
                self.asker = None;
            }
        }
        Ok(())
    }

    fn event(&self, number: u32, rng: &mut Rng) -> StructuredEvent {
        let mut event = StructuredEvent::new("Test", "Numbered", &format!("{}:{number}", self.number));
        event.filterable_data.push(Property::new("number", number));
        event.remainder = AnyValue::from("x".repeat(rng.usize(0..self.bytes_max)).as_str());
        event
    }

    fn push(&mut self, now: Duration, rng: &mut Rng) {
        if self.next >= self.events {
            // Earlier pushes on this connection have arrived when this request is answered.
            let kind = if self.batch > 0 { "sequence" } else { "structured" };
            let operation = format!("disconnect_{kind}_push_consumer");
            let Some(asker) = self.asker.as_mut().filter(|asker| asker.waiting() == 0) else {
                self.due = now + self.pause;
                return;
            };
            self.stage = Stage::Leaving;
            return asker.ask(Some(Awaited::Gone), &self.proxy, &operation, |_| ());
        }
        if self.next >= self.vanishes_at {
            let Some(mut asker) = self.asker.take() else { return };
            asker.wire.reset();
            // One-way pushes may have been under way.
            if self.is_one_way {
                self.pushed.doubtful.append(&mut self.pushed.accepted);
            }
            self.stage = Stage::Gone;
            return;
        }
        let numbers: Vec<u32> = (self.next..self.events).take(self.batch.max(1) as usize).collect();
        self.next += u32::try_from(numbers.len()).unwrap();
        let events: Vec<StructuredEvent> = numbers.iter().map(|number| self.event(*number, rng)).collect();
        let known = if self.is_one_way { &mut self.pushed.accepted } else { &mut self.pushed.doubtful };
        known.extend(numbers.iter().map(|number| (*number, now)));
        let (is_sequence, proxy) = (self.batch > 0, &self.proxy);
        let Some(asker) = &mut self.asker else { return };
        let what = (!self.is_one_way).then_some(Awaited::Pushed(numbers));
        let operation = if is_sequence { "push_structured_events" } else { "push_structured_event" };
        asker.ask(what, proxy, operation, |w| {
            if is_sequence {
                w.length(events.len());
            }
            events.iter().for_each(|event| event.write(w).unwrap());
        });
        self.due = now + Duration::from_nanos(rng.u64(0..=u64::try_from(2 * self.pause.as_nanos()).unwrap()));
    }
}

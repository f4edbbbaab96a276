//! Clients of linked services: suppliers, which return after their service has ended, and consumers, which stay throughout.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

use client::notify::{ClientType, Property, StructuredEvent};
use fastrand::Rng;
use giop::cdr::{Endian, Version};
use giop::ior::{IiopProfile, Ior};
use giop::message::ReplyStatus;
use giop::value::AnyValue;

use super::site::{CHANNEL_NUMBER, Site};
use crate::simulation::network::Id;
use crate::simulation::obtaining::{self, Obtaining};
use crate::simulation::suppliers::key_of;
use crate::simulation::wire::{Answered, Asker, Received, Wire, net, reply};

/// A supplier and its number of the event.
pub(super) type Key = (usize, u32);

/// Time until a client returns.
const AGAIN_IN: Duration = Duration::from_millis(100);

/// A pushed event.
#[derive(Debug, Clone)]
pub(super) struct Pushed {
    pub(super) priority: i16,
    pub(super) is_persistent: bool,
    /// Whether no consumer has subscribed to its type.
    pub(super) is_unwanted: bool,
    /// Whether the supplier got the reply that the service has it.
    pub(super) is_accepted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    Channel,
    Admin,
    Proxy,
    Connected,
    Pushed(u32),
}

/// A supplier.
pub(super) struct Supplier {
    pub(super) number: usize,
    /// The supplier's service.
    pub(super) site: usize,
    asker: Option<Asker<Awaited>>,
    proxy: Option<Vec<u8>>,
    is_connected: bool,
    events: u32,
    window: usize,
    bytes_max: usize,
    pause: Duration,
    due: Duration,
    may_persist: bool,
    pub(super) pushed: Vec<Pushed>,
}

impl Supplier {
    pub(super) fn new(number: usize, site: usize, may_persist: bool, rng: &mut Rng) -> Self {
        Self {
            number,
            site,
            asker: None,
            proxy: None,
            is_connected: false,
            events: rng.u32(1..40),
            window: rng.usize(1..6),
            bytes_max: if rng.u8(0..4) == 0 { 12_000 } else { 300 },
            pause: Duration::from_micros(rng.u64(1..80_000)),
            due: net(|net| net.time()),
            may_persist,
            pushed: Vec::new(),
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.pushed.len() >= self.events as usize && self.asker.as_ref().is_none_or(|asker| asker.waiting() == 0)
    }

    fn may_push(&self) -> bool {
        let has_room = self.asker.as_ref().is_none_or(|asker| asker.waiting() < self.window);
        self.pushed.len() < self.events as usize && has_room && (self.asker.is_none() || self.is_connected)
    }

    pub(super) fn is_ready(&self, now: Duration) -> bool {
        (self.may_push() && self.due <= now) || self.asker.as_ref().is_some_and(|asker| asker.wire.is_ready())
    }

    pub(super) fn next_due(&self) -> Option<Duration> {
        self.may_push().then_some(self.due)
    }

    pub(super) fn step(&mut self, site: &Site, rng: &mut Rng) -> Result<(), String> {
        let now = net(|net| net.time());
        let answers = self.asker.as_mut().map_or_else(|| Ok(Vec::new()), Asker::answers)?;
        for answered in answers {
            self.take(&answered)?;
        }
        if self.asker.as_ref().is_some_and(|asker| asker.wire.is_gone) {
            self.hang_up(now);
        }
        if !self.may_push() || self.due > now {
            return Ok(());
        }
        if self.asker.is_none() {
            let ip = IpAddr::from([10, 0, 2, u8::try_from(self.number).unwrap()]);
            let mut asker = Asker::connect(ip, site.address(), Endian::Little);
            let factory = b"NotificationService";
            asker.ask(Some(Awaited::Channel), factory, "get_event_channel", |w| w.i32(CHANNEL_NUMBER));
            self.asker = Some(asker);
            return Ok(());
        }
        self.push(rng);
        self.due = now + Duration::from_nanos(rng.u64(0..=u64::try_from(2 * self.pause.as_nanos()).unwrap()));
        Ok(())
    }

    /// Handles the end of its connection. Whether the service has the unanswered events is unknown.
    pub(super) fn hang_up(&mut self, now: Duration) {
        (self.asker, self.proxy, self.is_connected, self.due) = (None, None, false, now + AGAIN_IN);
    }

    fn take(&mut self, answered: &Answered<Awaited>) -> Result<(), String> {
        let Some(asker) = &mut self.asker else { return Ok(()) };
        if answered.status != ReplyStatus::NoException {
            return Err(format!("supplier {}: {:?} ends with {:?}", self.number, answered.what, answered.status));
        }
        match answered.what {
            Awaited::Channel => {
                asker.ask(Some(Awaited::Admin), &key_of(answered)?, "_get_default_supplier_admin", |_| ());
            }
            Awaited::Admin => {
                let operation = "obtain_notification_push_consumer";
                let structured = ClientType::Structured.to_cdr();
                asker.ask(Some(Awaited::Proxy), &key_of(answered)?, operation, |w| w.u32(structured));
            }
            Awaited::Proxy => {
                let proxy = key_of(answered)?;
                asker.ask(Some(Awaited::Connected), &proxy, "connect_structured_push_supplier", |w| {
                    Ior::nil().write(w);
                });
                self.proxy = Some(proxy);
            }
            Awaited::Connected => self.is_connected = true,
            Awaited::Pushed(number) => {
                let pushed = &mut self.pushed[number as usize];
                if core::mem::replace(&mut pushed.is_accepted, true) {
                    return Err(format!("event {number} of supplier {} is answered twice", self.number));
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, rng: &mut Rng) {
        let (Some(asker), Some(proxy)) = (&mut self.asker, &self.proxy) else { return };
        let number = u32::try_from(self.pushed.len()).unwrap();
        let (is_persistent, is_unwanted) = (self.may_persist && rng.bool(), rng.u8(0..8) == 0);
        let priority = rng.i16(0..3);
        let name = if is_unwanted { "Other" } else { "Numbered" };
        let mut event = StructuredEvent::new("Test", name, &format!("{}:{number}", self.number));
        event.variable_header.push(Property::new("Priority", priority));
        event.variable_header.push(Property::new("EventReliability", i16::from(is_persistent)));
        event.filterable_data.push(Property::new("number", number));
        event.remainder = AnyValue::from("x".repeat(rng.usize(0..self.bytes_max)).as_str());
        self.pushed.push(Pushed { priority, is_persistent, is_unwanted, is_accepted: false });
        asker.ask(Some(Awaited::Pushed(number)), proxy, "push_structured_event", |w| event.write(w).unwrap());
    }
}

/// A connection that brings events.
struct Receiving {
    wire: Wire,
    /// Process of the service that made it.
    process: u32,
    to_answer: VecDeque<(Duration, u32)>,
}

/// A consumer.
pub(super) struct Consumer {
    number: usize,
    /// The consumer's service.
    pub(super) site: usize,
    asker: Option<Asker<obtaining::Awaited>>,
    obtaining: Obtaining,
    attempts: u32,
    due: Option<Duration>,
    listener: Id,
    receiving: Vec<Receiving>,
    /// Maximum time for an answer.
    answers_in: Duration,
    pub(super) is_connected: bool,
    /// Lowest number of the events in its subscription.
    pub(super) from_number: u32,
    /// Events that the consumer got, in the order in which they first came.
    pub(super) got: Vec<Key>,
    /// Processes from which each event came.
    pub(super) came: BTreeMap<Key, BTreeSet<u32>>,
}

impl Consumer {
    pub(super) fn new(number: usize, site: usize, rng: &mut Rng) -> Self {
        let from_number = if rng.u8(0..3) == 0 { rng.u32(0..20) } else { 0 };
        let listener = net(|net| net.listen(Self::address_of(number)));
        Self {
            number,
            site,
            asker: None,
            obtaining: Self::obtaining(from_number),
            attempts: 0,
            due: Some(Duration::ZERO),
            listener,
            receiving: Vec::new(),
            answers_in: Duration::from_micros([300, 300, 20_000][rng.usize(0..3)]),
            is_connected: false,
            from_number,
            got: Vec::new(),
            came: BTreeMap::new(),
        }
    }

    fn obtaining(from_number: u32) -> Obtaining {
        let mut obtaining = Obtaining::new(false, false, None, Some(format!("$number >= {from_number}")));
        obtaining.event_type = Some(("Test", "Numbered"));
        obtaining
    }

    fn address_of(number: usize) -> SocketAddr {
        SocketAddr::from(([10, 0, 1, u8::try_from(number).unwrap()], 4711))
    }

    /// Object key for each attempt to connect: one with a lost answer may have succeeded.
    fn key(&self) -> Vec<u8> {
        format!("consumer {}", self.attempts).into_bytes()
    }

    pub(super) fn subscribes_to(&self, number: u32, pushed: &Pushed) -> bool {
        !pushed.is_unwanted && number >= self.from_number
    }

    pub(super) fn is_ready(&self, now: Duration) -> bool {
        let is_receiving =
            |one: &Receiving| one.to_answer.front().is_some_and(|(due, _)| *due <= now) || one.wire.is_ready();
        self.due.is_some_and(|due| due <= now)
            || self.asker.as_ref().is_some_and(|asker| asker.wire.is_ready())
            || net(|net| net.has_callers(self.listener))
            || self.receiving.iter().any(is_receiving)
    }

    pub(super) fn next_due(&self) -> Option<Duration> {
        let answers = self.receiving.iter().filter_map(|one| one.to_answer.front()).map(|(due, _)| *due);
        answers.chain(self.due).min()
    }

    pub(super) fn step(&mut self, site: &Site, rng: &mut Rng) -> Result<(), String> {
        let now = net(|net| net.time());
        if self.due.take_if(|due| *due <= now).is_some() {
            self.begin(site);
        }
        let answers = self.asker.as_mut().map_or_else(|| Ok(Vec::new()), Asker::answers)?;
        for answered in answers {
            let Some(asker) = &mut self.asker else { break };
            if self.obtaining.go_on(&answered, asker)? {
                self.is_connected = true;
            }
        }
        if self.asker.as_ref().is_some_and(|asker| asker.wire.is_gone) {
            self.hang_up(site, now);
        }
        self.accept(site);
        for mut one in core::mem::take(&mut self.receiving) {
            self.receive(&mut one, now, rng)?;
            if !one.wire.is_gone {
                self.receiving.push(one);
            }
        }
        Ok(())
    }

    /// Handles the end of its connection for requests. A service with a store knows it again after a restart.
    pub(super) fn hang_up(&mut self, site: &Site, now: Duration) {
        self.asker = None;
        if !self.is_connected || !site.has_store() {
            (self.is_connected, self.due) = (false, Some(now + AGAIN_IN));
        }
    }

    fn begin(&mut self, site: &Site) {
        self.attempts += 1;
        let address = Self::address_of(self.number);
        let (host, port) = (address.ip().to_string(), address.port());
        let profile = IiopProfile { version: Version::V1_2, host, port, key: self.key(), components: vec![] };
        self.obtaining = Self::obtaining(self.from_number);
        self.obtaining.reference = Ior::new("IDL:omg.org/CosNotifyComm/StructuredPushConsumer:1.0", profile);
        let mut asker = Asker::connect(address.ip(), site.address(), Endian::Little);
        Obtaining::begin_in(CHANNEL_NUMBER, &mut asker);
        self.asker = Some(asker);
    }

    /// Accepts the connections that the service's process has made.
    pub(super) fn accept(&mut self, site: &Site) {
        while let Some((end, _)) = net(|net| net.accept(self.listener)) {
            let (wire, process) = (Wire::over(end), site.starts);
            self.receiving.push(Receiving { wire, process, to_answer: VecDeque::new() });
        }
    }

    fn receive(&mut self, one: &mut Receiving, now: Duration, rng: &mut Rng) -> Result<(), String> {
        one.wire.flush();
        for message in one.wire.read(usize::MAX)? {
            let Some(asked) = Received::parse(message)? else {
                one.wire.is_gone = true;
                break;
            };
            self.take_push(one.process, &asked)?;
            if asked.is_two_way {
                let last = one.to_answer.back().map_or(now, |(due, _)| *due);
                let takes = rng.u64(0..u64::try_from(self.answers_in.as_nanos()).unwrap());
                one.to_answer.push_back((last.max(now + Duration::from_nanos(takes)), asked.id));
            }
        }
        while let Some((_, id)) = one.to_answer.pop_front_if(|(due, _)| *due <= now) {
            one.wire.write(|bytes| reply(bytes, id, |_| ()));
        }
        Ok(())
    }

    fn take_push(&mut self, process: u32, asked: &Received) -> Result<(), String> {
        if asked.operation != "push_structured_event" || asked.key != self.key() {
            return Ok(());
        }
        let event = asked.read(StructuredEvent::read).map_err(|error| format!("{error:?}"))?;
        let name = event.event_name.split_once(':');
        let key = name.and_then(|(supplier, number)| Some((supplier.parse().ok()?, number.parse().ok()?)));
        let key: Key = key.ok_or_else(|| format!("an event is called {:?}", event.event_name))?;
        let processes = self.came.entry(key).or_default();
        if processes.is_empty() {
            self.got.push(key);
        }
        if !processes.insert(process) {
            return Err(format!("consumer {} gets event {key:?} twice from one process", self.number));
        }
        Ok(())
    }
}

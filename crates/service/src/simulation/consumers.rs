//! Simulated consumers: each obtains a proxy, takes events in its manner, and leaves.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

use client::notify::StructuredEvent;
use fastrand::Rng;
use giop::cdr::{Endian, Version};
use giop::ior::{IiopProfile, Ior};

use super::network::{Host, Id};
use super::obtaining::{Awaited, Obtaining};
use super::sockets::SERVICE;
use super::taken::Taken;
use super::wire::{Answered, Asker, Received, Wire, net, reply};

/// How a consumer takes its events, until it has to behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    Healthy,
    /// Reads a few octets now and then.
    Slow,
    /// Reads and does not answer.
    Mute,
    /// Does not read, and does not answer connection attempts.
    Dead,
    /// Resets its connections now and then.
    Resets,
    /// Refuses connections for a while.
    Refuses,
    /// Ends its process without a message, and never returns.
    Gone,
}

impl Manner {
    const ALL: [Self; 7] = [Self::Healthy, Self::Slow, Self::Mute, Self::Dead, Self::Resets, Self::Refuses, Self::Gone];
}

/// A connection that brings events.
struct Receiving {
    wire: Wire,
    /// Last event of each supplier on this connection.
    last: BTreeMap<usize, u32>,
    /// All events on this connection.
    came: BTreeSet<(usize, u32)>,
    to_answer: VecDeque<(Duration, u32)>,
    ids: BTreeSet<u32>,
    reads_at: Duration,
}

pub(super) struct Consumer {
    pub(super) number: usize,
    pub(super) manner: Manner,
    /// The consumer's manner before it had to behave.
    pub(super) nature: Manner,
    asker: Option<Asker<Awaited>>,
    obtaining: Obtaining,
    has_name: bool,
    listener: Option<Id>,
    receiving: Vec<Receiving>,
    due: Option<Duration>,
    misbehaves_at: Duration,
    pub(super) is_done: bool,
    pub(super) taken: Taken,
    pub(super) pushes: u64,
    pub(super) again: u64,
}

impl Consumer {
    pub(super) fn new(number: usize, pool: Option<i16>, rng: &mut Rng) -> Self {
        let manner = if number == 0 { Manner::Healthy } else { Manner::ALL[rng.usize(0..Manner::ALL.len())] };
        let due = Duration::from_micros(rng.u64(0..10_000));
        let taken = Taken::new(format!("consumer {number} ({manner:?})"), rng);
        let obtaining = Obtaining::new(false, rng.u8(0..3) == 0, pool, taken.constraint());
        Self {
            number,
            manner,
            nature: manner,
            asker: None,
            obtaining,
            has_name: rng.u8(0..3) == 0,
            listener: None,
            receiving: Vec::new(),
            due: Some(due),
            misbehaves_at: Duration::from_micros(rng.u64(0..40_000)),
            is_done: false,
            taken,
            pushes: 0,
            again: 0,
        }
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from(([10, 0, 1, u8::try_from(self.number).unwrap()], 4711))
    }

    /// Name of its host, which has to be looked up, or its address.
    fn host(&self) -> String {
        if self.has_name { format!("consumer-{}.example", self.number) } else { self.address().ip().to_string() }
    }

    /// Makes it behave like a healthy consumer from now on.
    pub(super) fn behave(&mut self) {
        if self.nature == Manner::Gone {
            return;
        }
        self.manner = Manner::Healthy;
        let address = self.address();
        match self.listener {
            Some(listener) => net(|net| net.set_host(address, Host::Listens(listener))),
            None if self.taken.since.is_some() => self.listener = Some(net(|net| net.listen(address))),
            None => {}
        }
    }

    /// Disconnects it from its proxy.
    pub(super) fn leave(&mut self) {
        if let Some(asker) = &mut self.asker {
            self.obtaining.leave(asker);
        }
    }

    /// Closes its connections and its listener.
    pub(super) fn close(&mut self) {
        self.receiving.clear();
        self.asker = None;
        if let Some(listener) = self.listener.take() {
            net(|net| net.close_listener(listener));
        }
    }

    fn is_misbehaving(&self, now: Duration) -> bool {
        now >= self.misbehaves_at
    }

    fn reads(&self, now: Duration) -> bool {
        self.manner != Manner::Dead || !self.is_misbehaving(now)
    }

    pub(super) fn is_ready(&self, now: Duration) -> bool {
        self.due.is_some_and(|due| due <= now)
            || self.asker.as_ref().is_some_and(|asker| asker.wire.is_ready())
            || (self.reads(now)
                && (self.listener.is_some_and(|listener| net(|net| net.has_callers(listener)))
                    || self.receiving.iter().any(|one| self.is_receiving(one, now))))
    }

    fn is_receiving(&self, one: &Receiving, now: Duration) -> bool {
        let answers = self.answers(now) && one.to_answer.front().is_some_and(|(due, _)| *due <= now);
        answers || (one.reads_at <= now && one.wire.is_ready())
    }

    fn answers(&self, now: Duration) -> bool {
        self.manner != Manner::Mute || !self.is_misbehaving(now)
    }

    pub(super) fn next_due(&self, now: Duration) -> Option<Duration> {
        let answers = self.receiving.iter().filter(|_| self.answers(now)).filter_map(|one| one.to_answer.front());
        let reads = self.receiving.iter().filter(|one| one.wire.is_ready()).map(|one| one.reads_at);
        let all = answers.map(|(due, _)| *due).chain(reads).filter(|_| self.reads(now));
        self.due.into_iter().chain(all).min()
    }

    pub(super) fn step(&mut self, rng: &mut Rng) -> Result<(), String> {
        let now = net(|net| net.time());
        if self.due.take_if(|due| *due <= now).is_some() {
            self.begin_or_misbehave(now, rng);
        }
        let answers = self.asker.as_mut().map_or_else(|| Ok(Vec::new()), Asker::answers)?;
        for answered in answers {
            self.take(&answered)?;
        }
        if self.asker.as_ref().is_some_and(|asker| asker.wire.is_gone) {
            return Err(format!("consumer {} has lost the connection on which it asks", self.number));
        }
        if !self.reads(now) {
            return Ok(());
        }
        while let Some((end, _)) = self.listener.and_then(|listener| net(|net| net.accept(listener))) {
            self.receiving.push(Receiving {
                wire: Wire::over(end),
                last: BTreeMap::new(),
                came: BTreeSet::new(),
                to_answer: VecDeque::new(),
                ids: BTreeSet::new(),
                reads_at: now,
            });
        }
        let mut receiving = core::mem::take(&mut self.receiving);
        for one in &mut receiving {
            self.receive(one, now, rng)?;
        }
        receiving.retain(|one| !one.wire.is_gone);
        self.receiving = receiving;
        Ok(())
    }

    fn begin_or_misbehave(&mut self, now: Duration, rng: &mut Rng) {
        if self.asker.is_none() && self.taken.since.is_none() {
            let ip = IpAddr::from([10, 0, 1, u8::try_from(self.number).unwrap()]);
            let mut asker = Asker::connect(ip, SERVICE, Endian::Little);
            self.obtaining.begin(&mut asker);
            self.asker = Some(asker);
            self.obtaining.reference = self.reference();
            let address = self.address();
            self.listener = Some(net(|net| net.listen(address)));
            self.due = (self.manner != Manner::Healthy).then_some(self.misbehaves_at.max(now));
            return;
        }
        let address = self.address();
        match self.manner {
            Manner::Dead => net(|net| net.set_host(address, Host::Silent)),
            Manner::Resets => {
                self.receiving.iter_mut().for_each(|one| one.wire.reset());
                self.receiving.clear();
                self.due = Some(now + Duration::from_micros(rng.u64(100..20_000)));
            }
            Manner::Refuses => {
                self.receiving.iter_mut().for_each(|one| one.wire.reset());
                self.receiving.clear();
                if let Some(listener) = self.listener.take() {
                    net(|net| net.close_listener(listener));
                }
            }
            Manner::Gone if self.taken.since.is_none() => self.due = Some(now + Duration::from_millis(1)),
            Manner::Gone => {
                self.receiving.iter_mut().for_each(|one| one.wire.reset());
                self.asker.iter_mut().for_each(|asker| asker.wire.reset());
                self.close();
            }
            Manner::Healthy | Manner::Slow | Manner::Mute => {}
        }
    }

    fn take(&mut self, answered: &Answered<Awaited>) -> Result<(), String> {
        let Some(asker) = &mut self.asker else { return Ok(()) };
        match answered.what {
            Awaited::Gone => self.is_done = true,
            _ => {
                if self.obtaining.go_on(answered, asker).map_err(|wrong| format!("{}: {wrong}", self.taken.name))? {
                    self.taken.since = Some(net(|net| net.time()));
                }
            }
        }
        Ok(())
    }

    /// Reference for its events.
    fn reference(&self) -> Ior {
        let (host, port, key) = (self.host(), 4711, b"consumer".to_vec());
        let profile = IiopProfile { version: Version::V1_2, host, port, key, components: vec![] };
        let interface = if self.obtaining.is_sequence { "SequencePushConsumer" } else { "StructuredPushConsumer" };
        Ior::new(format!("IDL:omg.org/CosNotifyComm/{interface}:1.0"), profile)
    }

    fn receive(&mut self, one: &mut Receiving, now: Duration, rng: &mut Rng) -> Result<(), String> {
        one.wire.flush();
        let slow = self.manner == Manner::Slow && self.is_misbehaving(now);
        if one.reads_at <= now {
            if slow {
                one.reads_at = now + Duration::from_micros(rng.u64(100..10_000));
            }
            for message in one.wire.read(if slow { 2_000 } else { usize::MAX })? {
                let Some(asked) = Received::parse(message)? else {
                    one.wire.is_gone = true;
                    break;
                };
                self.take_push(one, &asked, now, rng)?;
            }
        }
        while self.answers(now) && one.to_answer.front().is_some_and(|(due, _)| *due <= now) {
            let Some((_, id)) = one.to_answer.pop_front() else { break };
            one.ids.remove(&id);
            one.wire.write(|bytes| reply(bytes, id, |_| ()));
        }
        Ok(())
    }

    fn take_push(&mut self, one: &mut Receiving, asked: &Received, now: Duration, rng: &mut Rng) -> Result<(), String> {
        let read = |error| format!("consumer {}: {}: {error:?}", self.number, asked.operation);
        let events = match asked.operation.as_str() {
            "push_structured_event" => vec![asked.read(StructuredEvent::read).map_err(read)?],
            "push_structured_events" => asked
                .read(|reader| {
                    let count = reader.seq_len(24)?;
                    (0..count).map(|_| StructuredEvent::read(reader)).collect::<Result<Vec<_>, _>>()
                })
                .map_err(read)?,
            // Other requests to it, such as that it is disconnected or what is on offer.
            _ => Vec::new(),
        };
        self.pushes += u64::from(!events.is_empty());
        if asked.is_two_way {
            if !one.ids.insert(asked.id) {
                return Err(format!("consumer {}: request {} is asked twice", self.number, asked.id));
            }
            let last = one.to_answer.back().map_or(now, |(due, _)| *due);
            one.to_answer.push_back((last.max(now + Duration::from_micros(rng.u64(0..300))), asked.id));
        }
        for event in events {
            let (supplier, number) = self.taken.identify(&event.event_name)?;
            let before = one.last.insert(supplier, number);
            // Pushes that were not answered in time come again, with those behind them; no event comes late for the first time.
            if one.came.insert((supplier, number)) && before.is_some_and(|before| before >= number) {
                return Err(format!(
                    "consumer {} ({:?}) gets event {number} of supplier {supplier} behind {before:?}",
                    self.number, self.nature
                ));
            }
            if !self.taken.got.entry(supplier).or_default().insert(number) {
                self.again += 1;
                if self.nature == Manner::Healthy {
                    return Err(format!("consumer {} gets event {number} of supplier {supplier} twice", self.number));
                }
            }
        }
        Ok(())
    }
}

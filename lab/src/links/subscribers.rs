//! Subscribers that tell what they got, and the way of an event from suppliers to them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use client::notify::Property;
use load::Form;
use load::callers::Callers;
use load::campanile::{Channel, NAME, listen};
use serde_json::{Value, json};

use crate::durable::load::Flood;
use crate::durable::median;
use crate::latency::{Recorder, ratio};
use crate::loss::{Ledger, Losses};
use crate::process::{Process, arguments};
use crate::{BenchError, clock, relay};

/// The supplier whose events are not counted: it finds out whether events come at all.
const FIRST: u64 = 0;
/// The supplier whose latencies are taken.
pub(super) const PACED: u64 = 1;
/// Its events a second.
const RATE: u64 = 1_000;
/// Suppliers at full speed.
const SUPPLIERS: u64 = 64;
/// Time without an event after which none comes any more, and what may pass until the first.
const STALLED_AFTER: u64 = 10 * clock::SECOND;
const FIRST_WITHIN: u64 = 20 * clock::SECOND;

/// What a subscriber has got.
#[derive(Default)]
struct Got {
    has_any: bool,
    ledgers: BTreeMap<u64, Ledger>,
    latency: Recorder,
    /// When the first event came since `since`, and the first that was published since then.
    first: Option<u64>,
    first_new: Option<u64>,
    since: u64,
    last: u64,
}

impl Got {
    fn take(&mut self, payload: &[u8], now: u64) {
        let mut words = payload.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word));
        let (Some(sent), Some(supplier), Some(number)) = (words.next(), words.next(), words.next()) else { return };
        if supplier == FIRST {
            self.has_any = true;
            return;
        }
        // A number that cannot be one is missed in the end.
        let _ = self.ledgers.entry(supplier).or_default().enter(number);
        if supplier == PACED {
            self.latency.record(now.saturating_sub(sent));
        }
        self.first.get_or_insert(now);
        if sent >= self.since {
            self.first_new.get_or_insert(now);
        }
        self.last = now;
    }

    fn received(&self) -> u64 {
        self.ledgers.values().map(Ledger::received).sum()
    }
}

/// Subscribers, each with a thread and a listener of its own. They go on until the process ends, as their proxies do.
pub(super) struct Subscribers {
    got: Vec<Arc<Mutex<Got>>>,
    relays: Vec<Process>,
}

impl Subscribers {
    /// Connects so many to a channel, each behind a bare relay if that is said.
    pub(super) fn connect(channel: &Channel, count: u32, is_relayed: bool) -> Result<Self, BenchError> {
        let mut all = Self { got: Vec::new(), relays: Vec::new() };
        for number in 0..count {
            let mut callers = Callers::new(NAME, listen()?)?.answering_at_once();
            let mut address = callers.address()?;
            if is_relayed {
                let words = arguments([relay::COMMAND, "--consumer", &address.to_string()]);
                let ready = |line: &str| line.strip_prefix(relay::READY)?.parse().ok();
                let (process, at) = Process::start("the bare relay", &words, ready)?;
                all.relays.push(process);
                address = at;
            }
            // So that it is never the subscriber that is waited for.
            let qos = [Property::new("PushWindow", 256_u16)];
            channel.connect_consumer(address, format!("links-{number}").as_bytes(), Form::Structured, &qos)?;
            let got = Arc::<Mutex<Got>>::default();
            all.got.push(Arc::clone(&got));
            let mut take = move |payload: &[u8], now| {
                got.lock().unwrap_or_else(PoisonError::into_inner).take(payload, now);
                Ok(())
            };
            thread::spawn(move || while callers.wait(None, true, &mut take).is_ok() {});
        }
        Ok(all)
    }

    fn each<T>(&self, of: impl Fn(&mut Got) -> T) -> impl Iterator<Item = T> {
        self.got.iter().map(move |got| of(&mut got.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Waits until events come to all: from then on none is lost for want of interest.
    pub(super) fn join(&self, channel: &Channel) -> Result<(), BenchError> {
        let mut first = Flood::of(channel, FIRST..FIRST + 1, 32, 1, &[])?;
        let give_up = clock::now() + FIRST_WITHIN;
        while !self.each(|got| got.has_any).all(|has_any| has_any) {
            if clock::now() > give_up {
                let (doing, reason) = ("having events come to subscribers".into(), "none came within 20 s".into());
                return Err(BenchError::Setup { doing, reason });
            }
            first.run(clock::SECOND / 50, Some(100))?;
        }
        Ok(())
    }

    /// Waits until each has so many, or no more come.
    pub(super) fn await_all(&self, sent: u64) -> Result<u64, BenchError> {
        settle(|| self.each(|got| sent.saturating_sub(got.received())).sum())
    }

    /// Has the next event be the first one.
    pub(super) fn await_first(&self, since: u64) {
        self.each(|got| (got.since, got.first, got.first_new) = (since, None, None)).for_each(drop);
    }

    /// Milliseconds until that came, and until one came that was published afterwards: by then no others were left.
    pub(super) fn recovery_ms(&self) -> [Option<f64>; 2] {
        let ms = |since: u64, came: Option<u64>| Some(clock::seconds(came?.saturating_sub(since)) * 1e3);
        let mut each = self.each(|got| [ms(got.since, got.first), ms(got.since, got.first_new)]);
        each.next().unwrap_or_default()
    }

    /// Latencies since they were last taken.
    pub(super) fn take_latency(&self) -> Recorder {
        let mut all = Recorder::default();
        self.each(|got| std::mem::take(&mut got.latency)).for_each(|latency| all.merge(&latency));
        all
    }

    /// What became of so many events at all of them.
    pub(super) fn losses(&self, sent: u64) -> Losses {
        let mut all = Losses::default();
        for of_one in self.each(|got| got.ledgers.values().map(|ledger| ledger.balance(0)).collect::<Vec<_>>()) {
            let received = of_one.iter().map(|losses| losses.received).sum();
            all.add(Losses { sent, lost: sent.saturating_sub(received), ..Losses::default() });
            of_one.into_iter().for_each(|losses| all.add(losses));
        }
        all
    }
}

/// Waits until nothing is missing, or nothing more comes. Says how much is missing.
pub(super) fn settle(missing: impl Fn() -> u64) -> Result<u64, BenchError> {
    let (mut least, mut since) = (u64::MAX, clock::now());
    loop {
        let (now, left) = (clock::now(), missing());
        if left < least {
            (least, since) = (left, now);
        }
        if left == 0 || now - since > STALLED_AFTER {
            return Ok(left);
        }
        clock::sleep_until(now + clock::SECOND / 100)?;
    }
}

/// A channel's suppliers and subscribers, and what their turns came to.
pub(super) struct Way {
    name: &'static str,
    paced: Flood,
    flood: Flood,
    subscribers: Subscribers,
    pub(super) sent: u64,
    pub(super) p50_us: Vec<f64>,
    /// Events that each subscriber got in a second, and the near service's processor time for one.
    pub(super) per_second: Vec<f64>,
    pub(super) near_cpu_us: Vec<f64>,
}

impl Way {
    /// Suppliers of a channel, and subscribers of it or of the one that it is linked to: how many, and whether behind a relay.
    pub(super) fn open(
        name: &'static str,
        (from, to): (&Channel, &Channel),
        (count, is_relayed): (u32, bool),
        payload: u32,
    ) -> Result<Self, BenchError> {
        let subscribers = Subscribers::connect(to, count, is_relayed)?;
        subscribers.join(from)?;
        let paced = Flood::of(from, PACED..PACED + 1, payload as usize, 1, &[])?;
        let flood = Flood::of(from, PACED + 1..PACED + 1 + SUPPLIERS, payload as usize, 1, &[])?;
        let (p50_us, per_second, near_cpu_us) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { name, paced, flood, subscribers, sent: 0, p50_us, per_second, near_cpu_us })
    }

    pub(super) fn relays(&self) -> impl Iterator<Item = u32> {
        self.subscribers.relays.iter().map(Process::pid)
    }

    /// One supplier at an even pace.
    pub(super) fn paced_turn(&mut self, turn_ns: u64) -> Result<(), BenchError> {
        self.sent += self.paced.run(turn_ns, Some(RATE))?.count();
        self.subscribers.await_all(self.sent)?;
        self.p50_us.push(self.subscribers.take_latency().quantile_us(0.5));
        Ok(())
    }

    /// All suppliers at full speed, until all subscribers have all.
    pub(super) fn full_turn(&mut self, turn_ns: u64, near: &Process) -> Result<(), BenchError> {
        let (cpu, began) = (near.cpu()?, clock::now());
        let count = self.flood.run(turn_ns, None)?.count();
        self.sent += count;
        self.subscribers.await_all(self.sent)?;
        let last = self.subscribers.each(|got| got.last).max().unwrap_or(0);
        let took = last.saturating_sub(began).max(1);
        self.per_second.push(ratio(count, 1) / clock::seconds(took));
        self.near_cpu_us.push(ratio(near.cpu()?.saturating_sub(cpu), count.max(1)) / 1e3);
        Ok(())
    }

    pub(super) fn losses(&self) -> Losses {
        self.subscribers.losses(self.sent)
    }

    /// Its medians.
    pub(super) fn row(&self) -> Value {
        let Losses { lost, repeated, out_of_order, .. } = self.losses();
        let [p50_us, per_second, near_cpu_us] =
            [&self.p50_us, &self.per_second, &self.near_cpu_us].map(|figures| median(figures.iter().copied()));
        json!({"way": self.name, "p50_us": p50_us, "per_second": per_second, "near_cpu_us": near_cpu_us,
               "lost": lost, "twice": repeated, "disordered": out_of_order})
    }
}

//! Subscribers that tell what they got, here or in processes at other nodes, and the way of an event from suppliers to them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use client::notify::Property;
use load::Form;
use load::callers::Callers;
use load::campanile::{Channel, NAME, Service, setup};
use load::process::{Subordinate, take_orders};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::crash::settle;
use crate::durable::load::Flood;
use crate::durable::median;
use crate::latency::{Recorder, ratio};
use crate::loss::{Ledger, Losses};
use crate::process::Process;
use crate::{BenchError, Output, clock, relay};

/// The supplier whose events are not counted: it finds out whether events come at all.
const FIRST: u64 = 0;
/// The supplier whose latencies are taken.
pub(super) const PACED: u64 = 1;
/// Its events a second, where it is alone.
pub(super) const RATE: u64 = 1_000;
/// Suppliers at full speed.
const SUPPLIERS: u64 = 64;
/// What may pass until the first event.
const FIRST_WITHIN: u64 = 20 * clock::SECOND;
pub(crate) const COMMAND: &str = "links-subscribers";

/// What a subscriber has got.
#[derive(Default)]
struct Got {
    has_any: bool,
    ledgers: BTreeMap<u64, Ledger>,
    /// What a subscriber in another process has said of its ledgers.
    elsewhere: Losses,
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

    fn losses(&self) -> Losses {
        let mut all = self.elsewhere;
        self.ledgers.values().for_each(|ledger| all.add(ledger.balance(0)));
        all
    }
}

#[derive(Serialize, Deserialize)]
enum Order {
    /// Connect so many to a channel of the service there.
    Connect(String, i32, u32),
    /// The first event after this time is the next first one.
    AwaitFirst(u64),
    Tell,
}

/// What each of its subscribers has got; latencies since this was last told.
#[derive(Serialize, Deserialize)]
struct Told {
    has_any: bool,
    losses: Losses,
    latencies: Vec<(u64, u64)>,
    first: [Option<u64>; 2],
    last: u64,
}

/// Runs a process of subscribers until its input ends.
pub(crate) fn run_process(out: &mut Output<'_>) -> Result<(), BenchError> {
    let (mut subscribers, mut services) = (Subscribers::default(), Vec::new());
    take_orders(out, |order| {
        match order {
            Order::Connect(service, channel, count) => {
                let service = Service::find(&service)?;
                let channel = service.factory()?.get_event_channel(channel).map(Channel::of);
                let channel = channel.map_err(setup("finding a channel"))?;
                subscribers.add(&channel, count, false, &|| service.listener())?;
                services.push(service);
            }
            Order::AwaitFirst(since) => subscribers.await_first(since)?,
            Order::Tell => return Ok(json!(subscribers.each(Told::of).collect::<Vec<_>>())),
        }
        Ok(Value::Null)
    })
}

impl Told {
    fn of(got: &mut Got) -> Self {
        let latency = std::mem::take(&mut got.latency);
        let (latencies, first) = (latency.counts(), [got.first, got.first_new]);
        Self { has_any: got.has_any, losses: got.losses(), latencies, first, last: got.last }
    }

    fn enter(self, got: &mut Got) {
        (got.has_any, got.elsewhere, got.last) = (self.has_any, self.losses, self.last);
        [got.first, got.first_new] = self.first;
        self.latencies.into_iter().for_each(|(nanoseconds, count)| got.latency.record_many(nanoseconds, count));
    }
}

/// Subscribers, each with a thread and a listener of its own. They go on until the process ends, as their proxies do.
#[derive(Default)]
pub(super) struct Subscribers {
    got: Vec<Arc<Mutex<Got>>>,
    relays: Vec<Process>,
    /// Processes of those that are elsewhere; then none is here.
    elsewhere: RefCell<Vec<Subordinate>>,
}

impl Subscribers {
    /// Connects so many to a channel, each behind a bare relay if that is said.
    pub(super) fn connect(channel: &Channel, count: u32, is_relayed: bool) -> Result<Self, BenchError> {
        let mut all = Self::default();
        all.add(channel, count, is_relayed, &load::campanile::listen)?;
        Ok(all)
    }

    /// Connects so many to a channel of each of these services, in a process for each that is started by these words.
    pub(super) fn elsewhere(places: &[(Vec<OsString>, String)], channel: i32, count: u32) -> Result<Self, BenchError> {
        let mut all = Self::default();
        for (words, service) in places {
            let mut process = Subordinate::start_program("subscribers", COMMAND, Some(words.clone()), None)?;
            process.ask::<()>(&Order::Connect(service.clone(), channel, count))?;
            all.elsewhere.get_mut().push(process);
            all.got.extend((0..count).map(|_| Arc::default()));
        }
        Ok(all)
    }

    fn add(
        &mut self,
        channel: &Channel,
        count: u32,
        is_relayed: bool,
        listen: &dyn Fn() -> Result<TcpListener, BenchError>,
    ) -> Result<(), BenchError> {
        for number in 0..count {
            let mut callers = Callers::new(NAME, listen()?)?.answering_at_once();
            let mut address = callers.address()?;
            if is_relayed {
                let (process, at) = relay::start(address, (None, None))?;
                self.relays.push(process);
                address = at;
            }
            // So that it is never the subscriber that is waited for.
            let qos = [Property::new("PushWindow", 256_u16)];
            channel.connect_consumer(address, format!("links-{number}").as_bytes(), Form::Structured, &qos)?;
            let got = Arc::<Mutex<Got>>::default();
            self.got.push(Arc::clone(&got));
            let mut take = move |payload: &[u8], now| {
                got.lock().unwrap_or_else(PoisonError::into_inner).take(payload, now);
                Ok(())
            };
            thread::spawn(move || while callers.wait(None, true, &mut take).is_ok() {});
        }
        Ok(())
    }

    /// Has those that are elsewhere tell what they have.
    fn look(&self) -> Result<(), BenchError> {
        let mut elsewhere = self.elsewhere.borrow_mut();
        elsewhere.iter_mut().try_for_each(|process| process.order(&Order::Tell))?;
        let mut told = Vec::new();
        for process in elsewhere.iter() {
            told.extend(process.answer::<Vec<Told>>()?);
        }
        let mut told = told.into_iter();
        self.each(|got| told.next().into_iter().for_each(|told| told.enter(got))).for_each(drop);
        Ok(())
    }

    fn each<T>(&self, mut of: impl FnMut(&mut Got) -> T) -> impl Iterator<Item = T> {
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
            self.look()?;
        }
        Ok(())
    }

    /// Waits until each has so many, or no more come.
    pub(super) fn await_all(&self, sent: u64) -> Result<u64, BenchError> {
        settle(|| {
            self.look()?;
            Ok(self.each(|got| sent.saturating_sub(got.losses().received)).sum())
        })
    }

    /// Has the next event be the first one.
    pub(super) fn await_first(&self, since: u64) -> Result<(), BenchError> {
        self.each(|got| (got.since, got.first, got.first_new) = (since, None, None)).for_each(drop);
        self.elsewhere.borrow_mut().iter_mut().try_for_each(|process| process.ask(&Order::AwaitFirst(since)))
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
        for of_one in self.each(|got| got.losses()) {
            all.add(Losses { sent, lost: sent.saturating_sub(of_one.received), ..of_one });
        }
        all
    }
}

/// What turns found, a figure of each.
#[derive(Default)]
pub(super) struct Turns {
    pub(super) p50_us: Vec<f64>,
    pub(super) p99_us: Vec<f64>,
    /// Events that each subscriber got in a second, and processor time for one: the near service's, and that of all services of the way.
    pub(super) per_second: Vec<f64>,
    pub(super) near_cpu_us: Vec<f64>,
    pub(super) all_cpu_us: Vec<f64>,
}

impl Turns {
    /// Medians of a way.
    pub(super) fn row(&self, way: &str, Losses { lost, repeated, out_of_order, .. }: Losses) -> Value {
        let [p50_us, p99_us, per_second, near_cpu_us, all_cpu_us] =
            [&self.p50_us, &self.p99_us, &self.per_second, &self.near_cpu_us, &self.all_cpu_us]
                .map(|figures| median(figures.iter().copied()));
        json!({"way": way, "p50_us": p50_us, "p99_us": p99_us, "per_second": per_second, "near_cpu_us": near_cpu_us,
               "all_cpu_us": all_cpu_us, "lost": lost, "twice": repeated, "disordered": out_of_order})
    }

    /// The median of the turns' ratios of a figure to another way's.
    pub(super) fn ratio_to(&self, other: &Self, figure: fn(&Self) -> &Vec<f64>) -> f64 {
        median(figure(self).iter().zip(figure(other)).map(|(this, other)| this / other))
    }
}

/// A channel's suppliers and subscribers, and what their turns came to.
pub(super) struct Way {
    pub(super) name: &'static str,
    paced: Flood,
    flood: Flood,
    subscribers: Subscribers,
    pub(super) sent: u64,
    pub(super) turns: Turns,
}

impl Way {
    /// Suppliers of a channel, and subscribers of it or of the one that it is linked to: how many, and whether behind a relay.
    pub(super) fn open(
        name: &'static str,
        (from, to): (&Channel, &Channel),
        (count, is_relayed): (u32, bool),
        payload: u32,
    ) -> Result<Self, BenchError> {
        Self::to(name, from, Subscribers::connect(to, count, is_relayed)?, payload)
    }

    /// Suppliers of a channel, and these subscribers.
    pub(super) fn to(
        name: &'static str,
        from: &Channel,
        subscribers: Subscribers,
        payload: u32,
    ) -> Result<Self, BenchError> {
        subscribers.join(from)?;
        let paced = Flood::of(from, PACED..PACED + 1, payload as usize, 1, &[])?;
        let flood = Flood::of(from, PACED + 1..PACED + 1 + SUPPLIERS, payload as usize, 1, &[])?;
        Ok(Self { name, paced, flood, subscribers, sent: 0, turns: Turns::default() })
    }

    pub(super) fn relays(&self) -> impl Iterator<Item = u32> {
        self.subscribers.relays.iter().map(Process::pid)
    }

    /// One supplier at an even pace.
    pub(super) fn paced_turn(&mut self, turn_ns: u64, rate: u64) -> Result<(), BenchError> {
        self.sent += self.paced.run(turn_ns, Some(rate))?.count();
        self.subscribers.await_all(self.sent)?;
        let latency = self.subscribers.take_latency();
        self.turns.p50_us.push(latency.quantile_us(0.5));
        self.turns.p99_us.push(latency.quantile_us(0.99));
        Ok(())
    }

    /// All suppliers at full speed, with so many events at most, until all subscribers have all. The near service is the first one of the
    /// way. Says how many events there were.
    pub(super) fn full_turn(&mut self, most: u64, turn_ns: u64, services: &[&Process]) -> Result<u64, BenchError> {
        let cpu = || services.iter().map(|service| service.cpu()).collect::<Result<Vec<u64>, _>>();
        let (before, began) = (cpu()?, clock::now());
        let count = self.flood.run_at_most(most, turn_ns, None)?.count();
        self.sent += count;
        self.subscribers.await_all(self.sent)?;
        let last = self.subscribers.each(|got| got.last).max().unwrap_or(0);
        let took = last.saturating_sub(began).max(1);
        self.turns.per_second.push(ratio(count, 1) / clock::seconds(took));
        let used: Vec<u64> = cpu()?.iter().zip(before).map(|(now, before)| now.saturating_sub(before)).collect();
        self.turns.near_cpu_us.push(ratio(used.first().copied().unwrap_or(0), count.max(1)) / 1e3);
        self.turns.all_cpu_us.push(ratio(used.iter().sum(), count.max(1)) / 1e3);
        Ok(count)
    }

    pub(super) fn losses(&self) -> Losses {
        self.subscribers.losses(self.sent)
    }

    /// Its medians.
    pub(super) fn row(&self) -> Value {
        self.turns.row(self.name, self.losses())
    }
}

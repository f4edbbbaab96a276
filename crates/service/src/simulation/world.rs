//! One run: a service, its clients, the order of their steps, and the conditions that must hold.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use accounts::{Accounts, Resource};
use fastrand::Rng;

use super::consumers::{Consumer, Manner};
use super::end_points::{self, EndPoint};
use super::network::{self, Id, Net, Weather};
use super::pullers::Puller;
use super::suppliers::{Pushed, Supplier};
use super::talkers::{self, Talker};
use super::wire::net;
use super::{BROKEN, Break, DEVICE, LANES, RESOLVER, SPARED, STORE, run_lane, sockets};
use crate::admin::run::Administration;
use crate::config::{Config, Delivery, Lanes, Limits, Links, Scheduling, Tempo, TimeDriven};
use crate::counters::{Counter, Counters};
use crate::lane::io::net::{Datagrams, Listener};
use crate::lane::io::socket::Layer;
use crate::lane::links::mailbox::{Inbox, Mailbox};
use crate::lane::links::messages::{Lookup, Resolved, ToAdministration};
use crate::lane::run::Worker;
use crate::protocols::{Listeners, Tag};
use crate::resolver::{Asking, known_without_asking};
use crate::start::{Assembled, simulated};

/// Maximum steps of a run: one that takes more does not come to rest. (A seed with consumers that had much to read took more than 400,000.)
const STEPS_MAX: u64 = 1_000_000;
/// Time within which work must be due to be waited for, while clients are at work.
const SOON: Duration = Duration::from_millis(400);
/// Maximum time for which suppliers work: consumers that cannot be reached are tried again without end.
const WORK: Duration = Duration::from_secs(60);
/// Time after all clients have left: as long as the longest time limit.
const LATE: Duration = Duration::from_secs(150);

/// Result of a run.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) steps: u64,
    pub(super) lanes: u64,
    pub(super) accepted: u64,
    pub(super) refused: u64,
    pub(super) delivered: u64,
    pub(super) again: u64,
    pub(super) pulled: u64,
    pub(super) lines: u64,
    pub(super) messages: u64,
    /// Messages of end points lost on their way.
    pub(super) lost: u64,
    pub(super) resets: u64,
    /// Checksum over all steps: which part ran, and when.
    pub(super) trace: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Lane(usize),
    Administration,
    Resolver,
    Supplier(usize),
    Consumer(usize),
    Puller(usize),
    Talker(usize),
    EndPoint(usize),
}

struct World {
    rng: Rng,
    administration: Option<Administration>,
    orders: Mailbox<ToAdministration>,
    waker: Id,
    introductions: Inbox<Asking>,
    asking: Vec<Asking>,
    /// Names being looked up: when that is done, the lane, and the lookup.
    lookups: Vec<(Duration, usize, Lookup)>,
    suppliers: Vec<Supplier>,
    consumers: Vec<Consumer>,
    pullers: Vec<Puller>,
    talkers: Vec<Talker>,
    end_points: Vec<EndPoint>,
    accounts: Arc<Accounts>,
    counters: Counters,
    /// A part that does not run for a while, like a displaced thread.
    displaced: Option<(Who, u64)>,
    summary: Summary,
}

/// Removes the simulation from the thread when dropped.
pub(super) struct Over;

impl Drop for Over {
    fn drop(&mut self) {
        LANES.with_borrow_mut(Vec::clear);
        RESOLVER.set(None);
        STORE.set(None);
        DEVICE.set(None);
        BROKEN.set(None);
        network::set(None);
    }
}

/// Executes a run.
///
/// # Errors
/// The violated condition.
pub(super) fn run(seed: u64, broken: Option<Break>) -> Result<Summary, String> {
    let mut rng = Rng::with_seed(seed);
    let mut of_tempo = OfTempo::new(seed);
    let weather = of_tempo.weather(weather(&mut rng));
    network::set(Some(Net::new(rng.u64(..), weather)));
    let over = Over;
    // The service's own random numbers.
    fastrand::seed(seed);
    BROKEN.set(broken);
    SPARED.set(0);
    let mut world = World::new(rng, lanes(seed), &mut of_tempo)?;
    let ran = world.run();
    let summary = world.summary;
    drop(world);
    drop(over);
    ran.map(|()| summary)
}

pub(super) fn weather(rng: &mut Rng) -> Weather {
    if rng.u8(0..8) == 0 {
        return Weather::FAIR;
    }
    Weather {
        short_percent: rng.u8(0..80),
        latency: Duration::from_micros(rng.u64(1..500)),
        jitter: Duration::from_micros(rng.u64(0..2_000)),
        window_bytes: [600, 4_000, 70_000][rng.usize(0..3)],
        reading: Duration::from_nanos(rng.u64(20..5_000)),
        ..Weather::FAIR
    }
}

/// End points of Tempo, in one run of three. Their decisions have random numbers of their own: the seed's other decisions are the same
/// without them.
struct OfTempo {
    rng: Rng,
    /// Random numbers for full datagram sockets.
    room: Rng,
    end_points: usize,
}

impl OfTempo {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x7E4D_0001);
        let end_points = if seed % 3 == 1 { rng.usize(1..6) } else { 0 };
        Self { rng, room: Rng::with_seed(seed ^ 0x7E4D_0002), end_points }
    }

    /// Disturbances of datagrams. In half of the runs each arrives. The socket is full for long enough that events come meanwhile for
    /// sessions without other output.
    fn weather(&mut self, weather: Weather) -> Weather {
        let (full, full_for) = (self.room.u16(0..400), Duration::from_micros(self.room.u64(0..4_000)));
        let weather = Weather { full, full_for, ..weather };
        if self.rng.bool() {
            return weather;
        }
        let [lost, doubled, delayed] = [(); 3].map(|()| self.rng.u16(0..60));
        Weather { lost, doubled, delayed, ..weather }
    }

    /// Settings of Tempo; some have inputs that are soon full.
    fn config(&mut self) -> Tempo {
        let input_messages = [2, 8, 4_096][self.rng.usize(0..3)];
        Tempo { period_ms: end_points::PERIOD_MS, input_messages, ..Tempo::default() }
    }
}

/// Settings of lanes. In one run of four, the main lane runs by the clock, with the lanes of one pool.
fn lanes(seed: u64) -> Lanes {
    let whenever = Lanes { scheduling: Scheduling::Ordinary, ..Lanes::default() };
    if seed % 4 != 3 {
        return whenever;
    }
    // Numbers of its own: what else the seed decides is the same.
    let mut rng = Rng::with_seed(seed ^ 0x7E4D_0000);
    let period_us = rng.u32(100..5_000);
    let budget_us = rng.u32(10..=period_us / 2);
    let time_driven = vec![TimeDriven { priority: 20, period_us: rng.u32(100..2_000), budget_us: rng.u32(10..100) }];
    Lanes { main_period_us: period_us, main_budget_us: budget_us, time_driven, ..whenever }
}

fn config(lanes: Lanes, tempo: Tempo) -> Config {
    Config {
        lanes,
        tempo,
        limits: Limits { memory_bytes: Some(1 << 30), ..Limits::default() },
        delivery: Delivery { give_up_after_ms: 120_000, ..Delivery::default() },
        // Events are numbered then, as other services know them.
        links: Links { listen: Some("0".into()), ..Links::default() },
        ..Config::default()
    }
}

impl World {
    fn new(mut rng: Rng, lanes: Lanes, of_tempo: &mut OfTempo) -> Result<Self, String> {
        let listener = |address| Listener::simulated(address).ok_or("no simulation");
        let mut listeners = Listeners::of_giop(listener(sockets::SERVICE)?)
            .with(Tag::Json, Layer::Plain, Some(listener(sockets::JSON)?))
            .with(Tag::Tempo, Layer::Plain, Some(listener(sockets::TEMPO)?));
        listeners.sockets.tempo.datagrams = Datagrams::simulated(sockets::TEMPO);
        let assembled = simulated(&config(lanes, of_tempo.config()), listeners, sockets::SERVICE)
            .map_err(|error| error.to_string())?;
        let Assembled { administrator, administration, counters, .. } = assembled;
        let accounts = administrator.lane_registry.of_simulation();
        let waker = administrator.waker.simulated().ok_or("no simulation")?;
        let pools = rng.i16(0..4);
        let pool = |rng: &mut Rng| (pools > 0 && rng.bool()).then(|| 10 * rng.i16(1..=pools));
        let suppliers: Vec<Supplier> =
            (1..=rng.usize(1..5)).map(|number| Supplier::new(number, pool(&mut rng), &mut rng)).collect();
        let consumers = (0..rng.usize(1..6)).map(|number| Consumer::new(number, pool(&mut rng), &mut rng)).collect();
        let pullers = (0..rng.usize(0..4)).map(|number| Puller::new(number, &mut rng)).collect();
        let first = suppliers.len() + 1;
        let talkers: Vec<Talker> =
            (0..rng.usize(0..4)).map(|number| Talker::new(number, first + number, &mut rng)).collect();
        let first = first + talkers.len();
        let end_points = 0..of_tempo.end_points;
        let end_points = end_points.map(|number| EndPoint::new(number, first + number, &mut of_tempo.rng)).collect();
        Ok(Self {
            rng,
            administration: Some(administrator),
            orders: administration,
            waker,
            introductions: RESOLVER.take().ok_or("no resolver")?,
            asking: Vec::new(),
            lookups: Vec::new(),
            suppliers,
            consumers,
            pullers,
            talkers,
            end_points,
            accounts,
            counters,
            displaced: None,
            summary: Summary::default(),
        })
    }

    fn run(&mut self) -> Result<(), String> {
        let is_over = net(|net| net.time()) + WORK;
        self.until_rest(SOON, WORK)?;
        if !self.end_points.is_empty() {
            self.check_nobody_waits(is_over)?;
            // End points rest only between two announcements; what was lost is found out by these.
            self.until_rest(WORK, is_over.saturating_sub(net(|net| net.time())))?;
        }
        self.check_work()?;
        self.end_points.iter_mut().for_each(EndPoint::leave);
        self.consumers.iter_mut().for_each(Consumer::behave);
        self.talkers.iter_mut().for_each(Talker::behave);
        self.until_rest(Duration::from_secs(40), 4 * LATE)?;
        self.check_end()?;
        if let Some(stays) = self.end_points.iter().find(|end_point| !end_point.is_done()) {
            return Err(format!("{} cannot go", stays.taken.name));
        }
        self.summary.lanes = LANES.with_borrow(|lanes| lanes.len() as u64);
        self.consumers.iter_mut().for_each(Consumer::leave);
        self.pullers.iter_mut().for_each(Puller::leave);
        self.talkers.iter_mut().for_each(Talker::leave);
        self.until_rest(SOON, 4 * LATE)?;
        if let Some(stays) = self.pullers.iter().find(|puller| !puller.is_done) {
            return Err(format!("{} is not disconnected", stays.taken.name));
        }
        if let Some(stays) = self.consumers.iter().find(|consumer| !consumer.is_done && consumer.nature != Manner::Gone)
        {
            return Err(format!("consumer {} is not disconnected", stays.number));
        }
        if let Some(stays) = self.talkers.iter().find(|talker| !talker.is_done()) {
            return Err(format!("{} is not disconnected", stays.taken.name));
        }
        self.consumers.iter_mut().for_each(Consumer::close);
        self.until_rest(LATE, 4 * LATE)?;
        self.check_nobody_stays()?;
        self.check_nothing_is_leaked()?;
        self.stop()
    }

    /// Executes steps until no part has work, now or within `soon`, or for `at_most`.
    fn until_rest(&mut self, soon: Duration, at_most: Duration) -> Result<(), String> {
        let until = net(|net| net.time()) + at_most;
        loop {
            self.summary.steps += 1;
            if self.summary.steps > STEPS_MAX {
                return Err(format!("no rest: {:?} go on for ever", self.ready()));
            }
            let passes = Duration::from_nanos(self.rng.u64(0..20_000));
            net(|net| net.go_to(net.time() + passes));
            let ready = self.ready();
            let Some(who) = self.choose(&ready) else {
                let now = net(|net| net.time());
                match self.next_due() {
                    Some(due) if due <= now + soon && now < until => net(|net| net.go_to(due)),
                    _ => return Ok(()),
                }
                continue;
            };
            self.note(who);
            self.step(who)?;
        }
    }

    fn note(&mut self, who: Who) {
        let (kind, at) = match who {
            Who::Lane(at) => (1, at),
            Who::Administration => (2, 0),
            Who::Resolver => (3, 0),
            Who::Supplier(at) => (4, at),
            Who::Consumer(at) => (5, at),
            Who::Puller(at) => (6, at),
            Who::Talker(at) => (7, at),
            Who::EndPoint(at) => (8, at),
        };
        let now = u64::try_from(net(|net| net.time()).as_nanos()).unwrap();
        let trace = self.summary.trace.rotate_left(7) ^ now ^ (kind << 56) ^ (at as u64) << 48;
        self.summary.trace = trace.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    /// All parts with work.
    fn ready(&self) -> Vec<Who> {
        let now = net(|net| net.time());
        let lanes = LANES.with_borrow_mut(|lanes| {
            let works = |lane: &mut Worker| lane.until_due().is_some_and(|until| until.is_zero());
            let all = lanes.iter_mut().enumerate();
            let ready = all.filter_map(|(at, lane)| lane.as_mut().is_some_and(works).then_some(Who::Lane(at)));
            ready.collect::<Vec<_>>()
        });
        let is_awake = net(|net| net.waits_until(self.waker).is_none_or(|until| until <= now));
        let administration = (self.administration.is_some() && is_awake).then_some(Who::Administration);
        let asks = self.introductions.waiting() > 0
            || self.asking.iter().any(|lane| lane.lookups.waiting() > 0)
            || self.lookups.iter().any(|(due, ..)| *due <= now);
        let suppliers = (0..self.suppliers.len()).filter(|at| self.suppliers[*at].is_ready(now)).map(Who::Supplier);
        let consumers = (0..self.consumers.len()).filter(|at| self.consumers[*at].is_ready(now)).map(Who::Consumer);
        let pullers = (0..self.pullers.len()).filter(|at| self.pullers[*at].is_ready(now)).map(Who::Puller);
        let talkers = (0..self.talkers.len()).filter(|at| self.talkers[*at].is_ready(now)).map(Who::Talker);
        let end_points = (0..self.end_points.len()).filter(|at| self.end_points[*at].is_ready(now)).map(Who::EndPoint);
        let others = administration.into_iter().chain(asks.then_some(Who::Resolver));
        lanes
            .into_iter()
            .chain(others)
            .chain(suppliers)
            .chain(consumers)
            .chain(pullers)
            .chain(talkers)
            .chain(end_points)
            .collect()
    }

    fn choose(&mut self, ready: &[Who]) -> Option<Who> {
        if ready.is_empty() {
            return None;
        }
        let steps = self.summary.steps;
        self.displaced.take_if(|(_, until)| *until < steps);
        let who = ready[self.rng.usize(0..ready.len())];
        match self.displaced {
            Some((displaced, _)) if displaced == who && ready.len() > 1 => {
                let others: Vec<Who> = ready.iter().copied().filter(|other| *other != displaced).collect();
                return Some(others[self.rng.usize(0..others.len())]);
            }
            None if self.rng.u8(0..50) == 0 => self.displaced = Some((who, steps + self.rng.u64(1..100))),
            _ => {}
        }
        Some(who)
    }

    /// Time of the next work of any part.
    fn next_due(&self) -> Option<Duration> {
        let now = net(|net| net.time());
        let lanes: Vec<Duration> = LANES.with_borrow_mut(|lanes| {
            lanes.iter_mut().flatten().filter_map(Worker::until_due).map(|until| now + until).collect()
        });
        let administration = self.administration.as_ref().and_then(|_| net(|net| net.waits_until(self.waker)));
        let clients = self.suppliers.iter().filter_map(Supplier::next_due);
        let clients = clients.chain(self.consumers.iter().filter_map(|consumer| consumer.next_due(now)));
        let clients = clients.chain(self.pullers.iter().filter_map(Puller::next_due));
        let clients = clients.chain(self.talkers.iter().filter_map(|talker| talker.next_due(now)));
        let clients = clients.chain(self.end_points.iter().filter_map(EndPoint::next_due));
        let others = self.lookups.iter().map(|(due, ..)| *due).chain(net(|net| net.next_arrival()));
        lanes.into_iter().chain(administration).chain(clients).chain(others).min()
    }

    fn step(&mut self, who: Who) -> Result<(), String> {
        match who {
            Who::Lane(at) => {
                run_lane(at);
                self.check_nobody_is_forgotten()?;
            }
            Who::Administration => self.administer(),
            Who::Resolver => self.resolve(),
            Who::Supplier(at) => self.suppliers[at].step(&mut self.rng)?,
            Who::Consumer(at) => self.consumers[at].step(&mut self.rng)?,
            Who::Puller(at) => self.pullers[at].step(&mut self.rng)?,
            Who::Talker(at) => self.talkers[at].step(&mut self.rng)?,
            Who::EndPoint(at) => self.end_points[at].step(&mut self.rng)?,
        }
        Ok(())
    }

    fn administer(&mut self) {
        net(|net| net.wake(self.waker));
        if let Some(administration) = &mut self.administration
            && !administration.round()
        {
            let _ = self.administration.take().map(Administration::end);
        }
    }

    /// Looks up names, as the resolver does: some at once, some late.
    fn resolve(&mut self) {
        let now = net(|net| net.time());
        self.introductions.look();
        self.asking.extend(core::iter::from_fn(|| self.introductions.take()));
        for (at, lane) in self.asking.iter_mut().enumerate() {
            lane.lookups.look();
            for lookup in core::iter::from_fn(|| lane.lookups.take()) {
                let takes = Duration::from_micros(self.rng.u64(0..20_000));
                let takes = if known_without_asking(&lookup.host).is_some() { Duration::ZERO } else { takes };
                self.lookups.push((now + takes, at, lookup));
            }
        }
        let (done, waiting): (Vec<_>, Vec<_>) =
            core::mem::take(&mut self.lookups).into_iter().partition(|(due, ..)| *due <= now);
        self.lookups = waiting;
        for (_, at, lookup) in done {
            let named = lookup.host.strip_prefix("consumer-").and_then(|rest| rest.strip_suffix(".example"));
            let ip = match named.and_then(|number| number.parse().ok()) {
                Some(number) => Some(IpAddr::from([10, 0, 1, number])),
                None => lookup.host.parse().ok(),
            };
            let addresses = ip.map(|ip| vec![SocketAddr::new(ip, lookup.port)]).ok_or_else(|| "nobody".to_owned());
            let _ = self.asking[at].answers.send(Resolved { connection: lookup.connection, addresses });
        }
    }

    /// Checks that hold when all clients have done their work, before the misbehaving ones have to behave.
    fn check_work(&mut self) -> Result<(), String> {
        self.end_points.iter_mut().for_each(EndPoint::finish);
        self.summary.accepted = self.pushed().map(|pushed| pushed.accepted.len() as u64).sum();
        self.summary.refused = self.pushed().map(|pushed| pushed.refused).sum();
        if let Some(at) = self.suppliers.iter().position(|supplier| !supplier.is_done()) {
            return Err(format!("supplier {} is never done", at + 1));
        }
        if let Some(talker) = self.talkers.iter().find(|talker| talker.is_at_work()) {
            return Err(format!("{} is never done", talker.taken.name));
        }
        self.check_tempo()?;
        let healthy = self.consumers.iter().filter(|consumer| consumer.nature == Manner::Healthy);
        let pullers = self.pullers.iter().map(|puller| &puller.taken);
        let talkers = self.talkers.iter().filter(|talker| talker.nature == talkers::Manner::Healthy);
        let talkers = talkers.filter(|talker| talker.is_there()).map(|talker| &talker.taken);
        let mut all = healthy.map(|consumer| &consumer.taken).chain(pullers).chain(talkers);
        all.try_for_each(|taken| taken.check(self.pushed(), (Some(0), self.lost())))
    }

    /// Checks, after each step of a lane, that a subscriber that waits for room resumes when there is some. Once all are at rest something
    /// else may have resumed it.
    fn check_nobody_is_forgotten(&self) -> Result<(), String> {
        let forgets = |lane: &Worker| lane.core.protocols.tempo.has_forgotten_somebody_blocked();
        if !self.end_points.is_empty() && LANES.with_borrow(|lanes| lanes.iter().flatten().any(forgets)) {
            return Err("a subscriber of Tempo is not notified of room on the socket for datagrams".into());
        }
        Ok(())
    }

    /// Checks that no subscriber waits for room that exists, when all are at rest before the time is over.
    fn check_nobody_waits(&self, is_over: Duration) -> Result<(), String> {
        let waits = |lane: &Worker| lane.core.protocols.tempo.is_somebody_blocked();
        let is_rest = net(|net| net.time()) < is_over;
        if is_rest && LANES.with_borrow(|lanes| lanes.iter().flatten().any(waits)) {
            return Err("a subscriber of Tempo waits for room that there is".into());
        }
        Ok(())
    }

    /// Checks of end points, before they leave.
    fn check_tempo(&mut self) -> Result<(), String> {
        self.summary.messages = self.end_points.iter().map(|end_point| end_point.messages).sum();
        self.summary.lost = self.counters.read(Counter::TempoLost);
        let unreadable = [
            Counter::TempoUnreadable,
            Counter::TempoMalformed,
            Counter::TempoVersions,
            Counter::TempoUnknownKinds,
            Counter::TempoByBrokers,
        ];
        if let Some(counter) = unreadable.into_iter().find(|counter| self.counters.read(*counter) > 0) {
            return Err(format!("{} is {}", counter.name(), self.counters.read(counter)));
        }
        if let Some(wrong) = self.end_points.iter().find(|end_point| end_point.is_at_work()) {
            return Err(format!("{} is never done", wrong.taken.name));
        }
        if let Some(wrong) = self.end_points.iter().find(|end_point| end_point.was_ignored()) {
            return Err(format!("{} is never notified that the service is there", wrong.taken.name));
        }
        let mut there = self.end_points.iter().filter(|end_point| end_point.is_there());
        there.try_for_each(|end_point| end_point.taken.check(self.pushed(), (end_point.lost(), self.lost())))
    }

    /// Number of events in datagrams that the service has counted as lost. `None` if it may have taken a living end point for gone, and
    /// begun to count anew.
    fn lost(&self) -> Option<u64> {
        let gone = self.end_points.iter().map(EndPoint::silent_parts).sum::<u64>();
        let counters = [
            Counter::TempoLost,
            Counter::TempoInputFull,
            Counter::TempoRefused,
            Counter::TempoUnbound,
            Counter::TempoUnproven,
        ];
        let counted = counters.map(|counter| self.counters.read(counter)).iter().sum();
        (self.counters.read(Counter::TempoExpired) <= gone).then_some(counted)
    }

    /// Checks that hold after there was time for everything.
    fn check_end(&mut self) -> Result<(), String> {
        for consumer in &self.consumers {
            self.summary.delivered += consumer.pushes;
            self.summary.again += consumer.again;
        }
        self.summary.pulled = self.pullers.iter().map(|puller| puller.answers).sum();
        self.summary.lines = self.talkers.iter().map(|talker| talker.lines).sum();
        self.summary.resets = self.counters.read(Counter::ConnectsFailed);
        // No consumer is given up within the time for which a run lasts.
        let (healthy, others): (Vec<_>, Vec<_>) = self
            .consumers
            .iter()
            .filter(|consumer| consumer.nature != Manner::Gone)
            .partition(|consumer| consumer.nature == Manner::Healthy);
        // A consumer that resets its connections within milliseconds takes smaller events, but never one that needs longer to arrive.
        let undeliverable = self.counters.read(Counter::DroppedUndeliverable);
        let mut others = others.into_iter().map(|consumer| &consumer.taken);
        others.try_for_each(|taken| taken.check(self.pushed(), (Some(undeliverable), self.lost())))?;
        let pullers = self.pullers.iter().map(|puller| &puller.taken);
        let talkers = self.talkers.iter().filter(|talker| talker.is_there()).map(|talker| &talker.taken);
        let mut all = healthy.into_iter().map(|consumer| &consumer.taken).chain(pullers).chain(talkers);
        all.try_for_each(|taken| taken.check(self.pushed(), (Some(0), self.lost())))
    }

    /// Events pushed by every supplier, in the order of their numbers.
    fn pushed(&self) -> impl Iterator<Item = &Pushed> {
        let talkers = self.talkers.iter().map(|talker| &talker.pushed);
        let end_points = self.end_points.iter().map(|end_point| &end_point.pushed);
        self.suppliers.iter().map(|supplier| &supplier.pushed).chain(talkers).chain(end_points)
    }

    /// Checks that all consumers with ended processes were found.
    fn check_nobody_stays(&self) -> Result<(), String> {
        let gone = self.consumers.iter().filter(|consumer| consumer.nature == Manner::Gone).count() as u64;
        let found = [Counter::ConsumersGivenUp, Counter::ClientsReaped].map(|counter| self.counters.read(counter));
        match found.iter().sum::<u64>() {
            found if found == gone => Ok(()),
            found => Err(format!("of {gone} consumers that are gone {found} are found")),
        }
    }

    /// Checks that no account is charged for anything when all clients have left.
    fn check_nothing_is_leaked(&self) -> Result<(), String> {
        let transient = [
            Resource::Connections,
            Resource::Outgoing,
            Resource::IncompleteBytes,
            Resource::ReplyBytes,
            Resource::RequestBytes,
            Resource::Lookups,
            Resource::LookupThreads,
            Resource::Handshakes,
            Resource::Analyses,
            Resource::Announced,
            Resource::InputBytes,
        ];
        for resource in transient {
            let used = self.accounts.used(resource);
            if used > 0 {
                return Err(format!("{used} of {} are charged to no client that is there", resource.name()));
            }
        }
        for level in [Counter::TempoSessions, Counter::TempoAnnounced, Counter::TempoTopics] {
            if self.counters.read(level) > 0 {
                return Err(format!("{} is {} when all have gone", level.name(), self.counters.read(level)));
            }
        }
        let kept = |lane: &Worker| lane.core.cx.lane.channels().map(|channel| channel.memory_bytes).sum::<u64>();
        match LANES.with_borrow(|lanes| lanes.iter().flatten().map(kept).sum()) {
            0 => Ok(()),
            bytes => Err(format!("{bytes} octets of events are stored for no consumer")),
        }
    }

    /// Orders the service to stop, and checks that it does.
    fn stop(&mut self) -> Result<(), String> {
        let _ = self.orders.send(ToAdministration::Stop(None));
        self.until_rest(SOON, 4 * LATE)?;
        if self.administration.is_some() {
            return Err("administration does not stop".into());
        }
        if LANES.with_borrow(|lanes| lanes.iter().flatten().count()) > 0 {
            return Err("a lane does not stop".into());
        }
        match net(|net| net.open_ends()) {
            0 => Ok(()),
            ends => Err(format!("{ends} ends of connections are left open")),
        }
    }
}

//! The common part of the monitor and the pipeline benchmarks: many suppliers on a schedule, a few consumers, and the measurements of
//! events, service and consumers.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread::{self, Scope, ScopedJoinHandle};

use serde::Serialize;

use crate::campanile::{self, Campanile, Channel, Service};
use crate::latency::Recorder;
use crate::loss::Losses;
use crate::process::Process;
use crate::wire::PushMessage;
use crate::{BenchError, CarriageOptions, Form, Percentiles, clock, system};

mod catcher;
mod feeds;
mod intake;
mod puller;
mod table;

pub use table::{write as write_table, write_losses};

use catcher::Catcher;
use feeds::{Fed, Feed, Generator, Role};
use intake::Intake;
use puller::Puller;

/// Name of plain sockets in reports.
pub const SOCKETS: &str = "plain sockets";

/// Their description, for readers of a report.
pub const PLAIN_SOCKETS_ARE: &str = "every supplier has a TCP connection to every consumer and writes the same messages to it; no \
                                     process in the middle, no replies";

/// Duration of the warm-up, in nanoseconds.
pub const WARM_UP: u64 = clock::SECOND;

/// Duration of a run, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Lasting {
    /// Traffic before the measurement, to fill caches and buffers.
    pub warm_up: u64,
    /// Measured traffic.
    pub measured: u64,
    /// Maximum events of each supplier, however long it takes.
    pub events: u64,
}

impl Lasting {
    /// The usual warm-up, and then this measured time.
    pub fn measured(measured: u64) -> Self {
        Self { warm_up: WARM_UP, measured, events: u64::MAX }
    }

    /// The usual warm-up, and then the seconds of the option `--duration`.
    pub fn of_seconds(seconds: f64) -> Result<Self, BenchError> {
        if seconds > 0.0 && seconds <= 1e6 {
            Ok(Self::measured(clock::nanoseconds(seconds)))
        } else {
            Err(BenchError::Option { name: "--duration", must_be: "above 0 and at most 1000000 seconds".into() })
        }
    }

    /// So many events of each supplier, all of them measured, without a time limit.
    pub fn events(events: u64) -> Self {
        Self { warm_up: 0, measured: u64::MAX, events }
    }

    /// The usual warm-up, and then until the watcher stops the run.
    pub fn until_stopped() -> Self {
        Self::measured(u64::MAX)
    }
}

/// Time from the preparations to the first event.
const LEAD: u64 = clock::SECOND / 5;

/// Interval of checks whether the run has failed, in nanoseconds.
const LOOK_UP_EVERY: u64 = clock::SECOND / 5;

/// Time without an event after which waiting for everything is given up.
const STALLED_AFTER: u64 = 20 * clock::SECOND;

/// Suppliers with the same schedule, and the consumers of their events: one channel's traffic.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Traffic {
    /// `monitor` or `pipeline`.
    pub name: &'static str,
    /// Suppliers, each with its own connection.
    pub suppliers: u32,
    /// Octets of an event's payload.
    pub payload_bytes: u32,
    /// Events per second of each supplier.
    pub rate: f64,
    /// Milliseconds between the schedules of consecutive suppliers.
    pub stagger_ms: f64,
    /// Consumers, each of which receives every event.
    pub consumers: u32,
}

impl Traffic {
    fn payload(&self) -> usize {
        usize::try_from(self.payload_bytes).unwrap_or(usize::MAX)
    }

    /// Refuses invalid settings.
    pub fn check(&self) -> Result<(), BenchError> {
        if !(self.rate > 0.0 && self.rate <= 100_000.0) {
            return Err(BenchError::Option {
                name: "--rate",
                must_be: "above 0 and at most 100000 events per second".into(),
            });
        }
        if !(self.stagger_ms >= 0.0 && self.stagger_ms <= 60_000.0) {
            return Err(BenchError::Option { name: "--stagger-ms", must_be: "from 0 to 60000 milliseconds".into() });
        }
        Ok(())
    }
}

/// The carrier of the traffic.
pub enum Carrier<'a> {
    /// The service: every supplier pushes two-way to its proxy, every consumer gets two-way pushes, or pulls.
    Campanile(&'a Campanile, CarriageOptions),
    /// A service shared with other clients: on channels of its own, which are destroyed at the end.
    Running(&'a Service, CarriageOptions),
    /// No service: every supplier has a TCP connection to every consumer and writes the same messages, unanswered.
    Sockets,
}

impl Carrier<'_> {
    fn name(&self) -> &'static str {
        if self.service().is_some() { campanile::NAME } else { SOCKETS }
    }

    /// The service, and the form of the events.
    fn service(&self) -> Option<(&Service, CarriageOptions)> {
        let (service, carriage): (&Service, _) = match self {
            Self::Campanile(service, carriage) => (service, carriage),
            Self::Running(service, carriage) => (service, carriage),
            Self::Sockets => return None,
        };
        Some((service, *carriage))
    }

    fn carriage(&self) -> CarriageOptions {
        self.service().map(|(_, carriage)| carriage).unwrap_or_default()
    }

    /// Events that the service dropped or refused, by its counters' names, without zeros.
    fn drops(&self) -> Result<BTreeMap<String, u64>, BenchError> {
        // What others do with a service that was running before is counted, too.
        let Self::Campanile(service, _) = self else { return Ok(BTreeMap::new()) };
        let mut counters = service.counters()?;
        // The sum of those that say why.
        counters.remove("lane_dropped");
        counters
            .retain(|name, count| *count > 0 && (name.starts_with("lane_dropped_") || name == "lane_events_refused"));
        Ok(counters)
    }

    fn process(&self) -> Option<&Process> {
        match self {
            Self::Campanile(service, _) => Some(service.process()),
            Self::Running(..) | Self::Sockets => None,
        }
    }

    /// The channel for a traffic, of so many.
    fn channel(&self, service: &Service, traffics: usize) -> Result<Channel, BenchError> {
        match self {
            // The only traffic there is runs on the channel that everybody finds, so that it can be looked at.
            Self::Campanile(..) if traffics == 1 => service.default_channel(),
            _ => service.new_channel(),
        }
    }
}

/// The due times of events.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// Due time of the first event.
    pub start: u64,
    /// Events due from this time on are measured.
    measured_from: u64,
    /// End of the schedule.
    until: u64,
    /// Maximum events of each supplier.
    events: u64,
    /// Period and stagger of each traffic, in nanoseconds.
    steps: Vec<(u64, u64)>,
}

impl Schedule {
    /// The schedule of these traffics from `start` on.
    fn new(traffics: &[Traffic], start: u64, lasting: Lasting) -> Self {
        let measured_from = start.saturating_add(lasting.warm_up);
        let steps = traffics
            .iter()
            .map(|traffic| {
                (clock::nanoseconds(1.0 / traffic.rate).max(1), clock::nanoseconds(traffic.stagger_ms / 1e3))
            })
            .collect();
        let until = measured_from.saturating_add(lasting.measured);
        Self { start, measured_from, until, events: lasting.events, steps }
    }

    /// Due time of a supplier's first event.
    fn first_due(&self, traffic: usize, supplier: u32) -> u64 {
        let stagger = self.steps.get(traffic).map_or(0, |steps| steps.1);
        self.start.saturating_add(stagger.saturating_mul(u64::from(supplier)))
    }

    /// Due time of the event after the one at `due`.
    fn next_due(&self, traffic: usize, due: u64) -> u64 {
        due.saturating_add(self.steps.get(traffic).map_or(u64::MAX, |steps| steps.0))
    }
}

/// State shared by the threads of a run.
pub struct Shared {
    /// Whether suppliers and watchers have to stop: the run is over, or has failed.
    stop: AtomicBool,
    /// Whether sending is over, and `sent` is final. Stored with release, loaded with acquire by the consumers.
    sending_is_over: AtomicBool,
    /// Time at which sending was over.
    over_since: AtomicU64,
    /// Events sent so far, by traffic, independent of the number of consumers.
    pub sent: Vec<AtomicU64>,
    /// State of each consumer.
    pub catchers: Vec<CatcherShared>,
}

impl Shared {
    /// Tells suppliers and watchers to stop.
    fn stop(&self) {
        // Relaxed: nothing is handed over with it.
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether suppliers and watchers have to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Public state of a consumer.
#[derive(Default)]
pub struct CatcherShared {
    /// Events received so far, repeated ones included.
    pub received: AtomicU64,
    /// Events that are missing although later ones of the same supplier have arrived.
    pub missing: AtomicU64,
    /// Latencies of the measured events since they were last taken out.
    pub latency: Mutex<Latency>,
}

/// Latencies from two starting points.
#[derive(Default)]
pub struct Latency {
    /// From the supplier's stamp, taken right before the first write of the message, to the consumer's, taken right after
    /// the read that completed it.
    pub since_sent: Recorder,
    /// From the moment at which the event was due.
    pub since_due: Recorder,
}

impl Latency {
    /// Adds the latencies of another one.
    pub fn add(&mut self, other: &Self) {
        self.since_sent.merge(&other.since_sent);
        self.since_due.merge(&other.since_due);
    }

    /// Moves the latencies of another one into this.
    pub fn take_from(&mut self, other: &mut Self) {
        self.add(other);
        other.since_sent.clear();
        other.since_due.clear();
    }
}

/// Results of a traffic.
#[derive(Debug, Clone, Serialize)]
pub struct TrafficReport {
    /// The traffic.
    pub traffic: Traffic,
    /// Processor time of each consumer's thread in percent of one core, the mean over the consumers. A consumer only reads, checks and
    /// answers messages.
    pub consumer_cpu_percent: f64,
    /// Latency over all consumers; `null` without events.
    pub latency: Option<Percentiles>,
    /// Latency from the due time of each event: includes the delay by a previous push that had not returned.
    pub latency_from_schedule: Option<Percentiles>,
    /// Events that left late because the previous push had not returned.
    pub late_pushes: u64,
    /// Outcome of the events, those of the warm-up included.
    pub losses: Losses,
}

/// Results of a run.
#[derive(Debug, Clone, Serialize)]
pub struct RunReport {
    /// `Campanile` or `plain sockets`.
    pub contender: &'static str,
    /// The form of the events; over plain sockets that of the messages.
    pub form: Form,
    /// Whether the consumers pulled.
    pub pull: bool,
    /// Seconds after which an event expired (QoS `Timeout`); `null` for none.
    pub timeout: Option<f64>,
    /// Pushes that may be unanswered on a consumer of the service, if other than its default of 1.
    pub push_window: Option<u16>,
    /// Seconds over which processor time was taken.
    pub seconds: f64,
    /// Processor time of the service's process, user and system, in percent of one core; `null` where there is none.
    pub service_cpu_percent: Option<f64>,
    /// Memory the service had resident at the end, in octets; `null` where there is none.
    pub service_resident_bytes: Option<u64>,
    /// Events that the service dropped or refused, by counter, without zeros. An event dropped for several consumers counts for each.
    pub service_drops: BTreeMap<String, u64>,
    /// Processor time of the one thread that drives all suppliers, in percent of one core.
    pub suppliers_cpu_percent: f64,
    /// Results of each traffic.
    pub traffics: Vec<TrafficReport>,
}

/// A watcher's view of a current run.
pub struct View<'a> {
    /// State of the threads.
    pub shared: &'a Shared,
    /// The due times of events.
    pub schedule: &'a Schedule,
}

impl View<'_> {
    /// Whether every consumer has received a measured event.
    fn has_measured_for_all(&self) -> bool {
        let measured = |catcher: &CatcherShared| {
            catcher.latency.lock().unwrap_or_else(PoisonError::into_inner).since_sent.count() > 0
        };
        self.shared.catchers.iter().all(measured)
    }

    /// Takes out the latencies since sending recorded since the last call, and adds them to `to`.
    pub fn take_latencies(&self, to: Option<&mut Recorder>) {
        let mut taken = Latency::default();
        for catcher in &self.shared.catchers {
            taken.take_from(&mut catcher.latency.lock().unwrap_or_else(PoisonError::into_inner));
        }
        if let Some(recorder) = to {
            recorder.merge(&taken.since_sent);
        }
    }
}

/// Runs these traffics at the same time.
///
/// `watch` is called on the calling thread after the warm-up. The suppliers stop when it returns, or at the end of the measured time if
/// that comes first; events under way are then waited for.
pub fn run(
    carrier: &Carrier<'_>,
    traffics: &[Traffic],
    lasting: Lasting,
    watch: impl FnOnce(&View<'_>) -> Result<(), BenchError>,
) -> Result<RunReport, BenchError> {
    for traffic in traffics {
        traffic.check()?;
    }
    let channels = match carrier.service() {
        Some((service, _)) => {
            traffics.iter().map(|_| carrier.channel(service, traffics.len())).collect::<Result<Vec<_>, _>>()?
        }
        None => Vec::new(),
    };
    let found = run_on(&channels, carrier, traffics, lasting, watch);
    if let Carrier::Running(..) = carrier {
        // What went wrong before says more.
        let gone: Result<Vec<()>, BenchError> = channels.into_iter().map(Channel::destroy).collect();
        return found.and_then(|report| gone.map(|_| report));
    }
    found
}

/// Runs the traffics on these channels, one for each if a service carries them.
fn run_on(
    channels: &[Channel],
    carrier: &Carrier<'_>,
    traffics: &[Traffic],
    lasting: Lasting,
    watch: impl FnOnce(&View<'_>) -> Result<(), BenchError>,
) -> Result<RunReport, BenchError> {
    let (feeds, catchers) = wire_up(channels, carrier, traffics)?;
    let schedule = Schedule::new(traffics, clock::now() + LEAD, lasting);
    let generator = Generator::new(feeds, &schedule)?;
    let shared = Shared {
        stop: AtomicBool::new(false),
        sending_is_over: AtomicBool::new(false),
        over_since: AtomicU64::new(0),
        sent: traffics.iter().map(|_| AtomicU64::new(0)).collect(),
        catchers: catchers.iter().map(|_| CatcherShared::default()).collect(),
    };
    let (schedule, shared) = (&schedule, &shared);
    thread::scope(|scope| {
        let (mut catching, mut ids) = (Vec::new(), ThreadIds::default());
        for (catcher, own) in catchers.into_iter().zip(&shared.catchers) {
            let (thread, id) = spawn(scope, move || catcher.run(own, shared).inspect_err(|_| shared.stop()));
            catching.push(thread);
            ids.catchers.push(id);
        }
        let (feeding, id) = spawn(scope, move || generator.run(schedule, shared).inspect_err(|_| shared.stop()));
        ids.suppliers = id;
        let window = CpuWindow::take(carrier, &ids, schedule, || watch(&View { shared, schedule }));
        shared.stop();
        let fed = join(feeding);
        shared.over_since.store(clock::now(), Ordering::Relaxed);
        shared.sending_is_over.store(true, Ordering::Release);
        let caught: Result<Vec<Consumer>, BenchError> = catching.into_iter().map(join).collect();
        // When the service has ended, all the others fail too, and its last words say most; else a thread that has
        // failed is no longer there to be looked at, and what it says comes first.
        if let Err(error @ BenchError::Process { .. }) = window {
            return Err(error);
        }
        let (fed, caught) = (fed?, caught?);
        let window = window?;
        // While the consumers are still connected: what they leave behind is not lost.
        let drops = carrier.drops()?;
        Ok(RunReport { service_drops: drops, ..report(carrier, traffics, &window, &fed, &caught, shared) })
    })
}

/// Starts a thread; also returns its id, by which its processor time is read.
fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> (ScopedJoinHandle<'scope, T>, i32) {
    let (tell, told) = mpsc::channel();
    let thread = scope.spawn(move || {
        // The thread that started this one waits for it.
        let _ = tell.send(rustix::thread::gettid().as_raw_nonzero().get());
        work()
    });
    let id = told.recv().unwrap_or_default();
    (thread, id)
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[derive(Default)]
struct ThreadIds {
    suppliers: i32,
    catchers: Vec<i32>,
}

/// Processor times over the measured part of a run, in nanoseconds.
struct CpuWindow {
    lasted: u64,
    service: Option<u64>,
    resident: Option<u64>,
    suppliers: u64,
    catchers: Vec<u64>,
}

impl CpuWindow {
    /// Reads the clocks after the warm-up, runs `watch`, and reads them again.
    fn take(
        carrier: &Carrier<'_>,
        ids: &ThreadIds,
        schedule: &Schedule,
        watch: impl FnOnce() -> Result<(), BenchError>,
    ) -> Result<Self, BenchError> {
        let read = || -> Result<(Option<u64>, u64, Vec<u64>), BenchError> {
            let service = carrier.process().map(Process::cpu).transpose()?;
            let thread =
                |&id: &i32| system::thread_cpu(id).map_err(BenchError::io("reading the processor time of a thread"));
            Ok((service, thread(&ids.suppliers)?, ids.catchers.iter().map(thread).collect::<Result<_, _>>()?))
        };
        clock::sleep_until(schedule.measured_from)?;
        let (began, before) = (clock::now(), read()?);
        watch()?;
        let (ended, after) = (clock::now(), read()?);
        let since = |after: u64, before: u64| after.saturating_sub(before);
        Ok(Self {
            lasted: since(ended, began).max(1),
            service: after.0.zip(before.0).map(|(after, before)| since(after, before)),
            resident: carrier.process().map(Process::resident_bytes).transpose()?,
            suppliers: since(after.1, before.1),
            catchers: after.2.iter().zip(&before.2).map(|(&after, &before)| since(after, before)).collect(),
        })
    }

    fn percent(&self, nanoseconds: u64) -> f64 {
        100.0 * clock::seconds(nanoseconds) / clock::seconds(self.lasted)
    }
}

fn report(
    carrier: &Carrier<'_>,
    traffics: &[Traffic],
    window: &CpuWindow,
    fed: &[Fed],
    consumers: &[Consumer],
    shared: &Shared,
) -> RunReport {
    let reports = traffics.iter().enumerate().map(|(index, traffic)| {
        // Over plain sockets a supplier has one connection for each consumer, and sends as much on each.
        let copies = if matches!(carrier, Carrier::Sockets) { traffic.consumers } else { 1 };
        let copies = usize::try_from(copies).unwrap_or(1).max(1);
        let of_this: Vec<&Fed> = fed.iter().filter(|fed| fed.traffic == index).collect();
        let sent: Vec<u64> = of_this.iter().step_by(copies).map(|fed| fed.sent).collect();
        let (mut losses, mut all) = (Losses::default(), Latency::default());
        let mut cpu = Vec::new();
        for ((consumer, own), &time) in consumers.iter().zip(&shared.catchers).zip(&window.catchers) {
            let intake = consumer.intake();
            if intake.traffic == index {
                losses.add(intake.losses(&sent));
                let latency = own.latency.lock().unwrap_or_else(PoisonError::into_inner);
                all.add(&latency);
                cpu.push(window.percent(time));
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "there are at most 16 consumers")]
        let consumers = cpu.len().max(1) as f64;
        TrafficReport {
            traffic: traffic.clone(),
            consumer_cpu_percent: cpu.iter().sum::<f64>() / consumers,
            latency: all.since_sent.percentiles(),
            latency_from_schedule: all.since_due.percentiles(),
            late_pushes: of_this.iter().map(|fed| fed.late).sum(),
            losses,
        }
    });
    RunReport {
        contender: carrier.name(),
        form: carrier.carriage().form,
        pull: carrier.carriage().pull,
        timeout: carrier.carriage().timeout,
        push_window: carrier.carriage().delivery.push_window,
        seconds: clock::seconds(window.lasted),
        service_cpu_percent: window.service.map(|time| window.percent(time)),
        service_resident_bytes: window.resident,
        service_drops: BTreeMap::new(),
        suppliers_cpu_percent: window.percent(window.suppliers),
        traffics: reports.collect(),
    }
}

/// A consumer of either kind.
enum Consumer {
    PushedTo(Box<Catcher>),
    Pulling(Box<Puller>),
}

impl Consumer {
    /// Takes events until all sent have arrived, or none has for a while.
    fn run(self, own: &CatcherShared, shared: &Shared) -> Result<Self, BenchError> {
        match self {
            Self::PushedTo(catcher) => catcher.run(own, shared).map(|catcher| Self::PushedTo(Box::new(catcher))),
            Self::Pulling(puller) => puller.run(own, shared).map(Box::new).map(Self::Pulling),
        }
    }

    fn intake(&self) -> &Intake {
        match self {
            Self::PushedTo(catcher) => &catcher.intake,
            Self::Pulling(puller) => &puller.intake,
        }
    }
}

/// Makes all connections; with a service, to a channel for each traffic.
fn wire_up(
    channels: &[Channel],
    carrier: &Carrier<'_>,
    traffics: &[Traffic],
) -> Result<(Vec<Feed>, Vec<Consumer>), BenchError> {
    let (mut feeds, mut catchers) = (Vec::new(), Vec::new());
    for (index, traffic) in traffics.iter().enumerate() {
        match (carrier.service(), channels.get(index)) {
            (Some((service, carriage)), Some(channel)) => {
                let ends = through((service, channel), carriage, (index, traffic))?;
                feeds.extend(ends.0);
                catchers.extend(ends.1);
            }
            _ => {
                let ends = over_sockets((index, traffic))?;
                feeds.extend(ends.0);
                catchers.extend(ends.1);
            }
        }
    }
    Ok((feeds, catchers))
}

/// Connects a traffic through a service.
fn through(
    (service, channel): (&Service, &Channel),
    carriage: CarriageOptions,
    (index, traffic): (usize, &Traffic),
) -> Result<(Vec<Feed>, Vec<Consumer>), BenchError> {
    let (mut feeds, mut catchers) = (Vec::new(), Vec::new());
    for consumer in 0..traffic.consumers {
        let intake = Intake::new(campanile::NAME, carriage.form, index, traffic.suppliers);
        if carriage.pull {
            let proxy = channel.add_puller(carriage.form)?;
            let stream = proxy.connect()?;
            catchers.push(Consumer::Pulling(Box::new(Puller::new(intake, stream, proxy.key)?)));
            continue;
        }
        let listener = service.listener()?;
        let key = format!("bench-{}-{consumer}", traffic.name);
        channel.add_consumer(&listener, key.as_bytes(), carriage.form, carriage.delivery)?;
        catchers.push(Consumer::PushedTo(Box::new(Catcher::new(intake, listener, true)?)));
    }
    for supplier in 0..traffic.suppliers {
        let proxy = channel.add_supplier(carriage)?;
        let message = PushMessage::of(carriage.form, &proxy.key, traffic.payload());
        feeds.push(Feed::new(campanile::NAME, proxy.connect()?, message, Role::campanile(index, supplier))?);
    }
    Ok((feeds, catchers))
}

/// Connects a traffic over plain sockets.
fn over_sockets((index, traffic): (usize, &Traffic)) -> Result<(Vec<Feed>, Vec<Consumer>), BenchError> {
    let (mut feeds, mut catchers, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..traffic.consumers {
        let listener = campanile::listen()?;
        addresses.push(listener.local_addr().map_err(BenchError::io("reading a consumer's address"))?);
        let intake = Intake::new(SOCKETS, Form::Structured, index, traffic.suppliers);
        catchers.push(Consumer::PushedTo(Box::new(Catcher::new(intake, listener, false)?)));
    }
    for supplier in 0..traffic.suppliers {
        for (copy, address) in addresses.iter().enumerate() {
            let stream = TcpStream::connect(address).map_err(BenchError::io("connecting to a consumer"))?;
            let message = PushMessage::new(b"no object: a plain socket", traffic.payload());
            feeds.push(Feed::new(SOCKETS, stream, message, Role::socket(index, supplier, copy))?);
        }
    }
    Ok((feeds, catchers))
}

/// Watches until the measured time is over, or the run has failed. If not every consumer has received a measured event by then, on a busy
/// machine, it waits for that too, so that a short run measures something.
pub fn wait_out(view: &View<'_>) -> Result<(), BenchError> {
    let until = view.schedule.until;
    let give_up = until.saturating_add(STALLED_AFTER);
    while !view.shared.is_stopped() {
        let now = clock::now();
        if now >= give_up || now >= until && view.has_measured_for_all() {
            break;
        }
        let next = if now < until { until } else { u64::MAX };
        clock::sleep_until(next.min(now + LOOK_UP_EVERY))?;
    }
    Ok(())
}

/// Watches until every consumer has that many events, or none of them has received any for a while; `tell` gets the number of deliveries.
pub fn wait_for_all(
    view: &View<'_>,
    events: u64,
    mut tell: impl FnMut(u64) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let (mut before, mut since) = (0, clock::now());
    while !view.shared.is_stopped() {
        let received = || view.shared.catchers.iter().map(|catcher| catcher.received.load(Ordering::Relaxed));
        let (sum, least) = (received().sum::<u64>(), received().min().unwrap_or(0));
        tell(sum)?;
        let now = clock::now();
        if sum > before {
            (before, since) = (sum, now);
        }
        if least >= events || now.saturating_sub(since) > STALLED_AFTER {
            return Ok(());
        }
        clock::sleep_until(now + LOOK_UP_EVERY)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(name: &'static str, suppliers: u32, consumers: u32) -> Traffic {
        Traffic { name, suppliers, payload_bytes: 20_000, rate: 200.0, stagger_ms: 0.5, consumers }
    }

    #[test]
    fn staggers_suppliers_and_keeps_their_periods() {
        let lasting = Lasting { warm_up: 100, measured: 1000, events: u64::MAX };
        let schedule = Schedule::new(&[traffic("monitor", 3, 1)], 7000, lasting);
        assert_eq!(schedule.first_due(0, 0), 7000);
        assert_eq!(schedule.first_due(0, 2), 7000 + 1_000_000);
        assert_eq!(schedule.next_due(0, 7000), 7000 + 5_000_000);
        assert_eq!((schedule.measured_from, schedule.until), (7100, 8100));
    }

    #[test]
    fn refuses_rates_that_cannot_be_kept() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let traffic = Traffic { rate, ..traffic("monitor", 1, 1) };
            assert!(traffic.check().is_err(), "{rate}");
        }
    }

    #[test]
    fn suppliers_stop_at_the_number_of_events_asked_for() {
        let lasting = Lasting::events(70);
        let watch = |view: &View<'_>| wait_for_all(view, 3 * 70, |_| Ok(()));
        let report = run(&Carrier::Sockets, &[traffic("order", 3, 2)], lasting, watch).unwrap();
        let expected = Losses { sent: 2 * 3 * 70, received: 2 * 3 * 70, ..Losses::default() };
        assert_eq!(report.traffics[0].losses, expected);
    }

    #[test]
    fn every_consumer_gets_every_event_over_plain_sockets() {
        let traffics = [traffic("monitor", 3, 2), traffic("pipeline", 2, 1)];
        let lasting = Lasting { warm_up: 10_000_000, measured: 40_000_000, events: u64::MAX };
        let report = run(&Carrier::Sockets, &traffics, lasting, wait_out).unwrap();
        assert_eq!(report.service_cpu_percent, None);
        for (of_traffic, traffic) in report.traffics.iter().zip(&traffics) {
            let losses = of_traffic.losses;
            assert!(losses.sent > 0);
            assert_eq!(losses, Losses { sent: losses.sent, received: losses.sent, ..Losses::default() });
            assert_eq!(losses.sent % u64::from(traffic.consumers), 0);
            let measured = of_traffic.latency.unwrap().events;
            assert!(measured > 0 && measured <= losses.sent);
        }
    }
}

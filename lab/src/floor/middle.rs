//! A contender that stands between our own supplier and our own consumer: Campanile, or the bare relay.

use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::counting::Counting;
use super::ends::{self, Arrivals, Consumer, Pushes, Supplier};
use super::report::{Counted, Turn};
use super::{Load, divide_us};
use crate::campanile::{self, Campanile};
use crate::latency::ratio;
use crate::places::Places;
use crate::process::Process;
use crate::wire::PushMessage;
use crate::{BenchError, CarriageOptions, Form, Options, clock, relay};

/// Events that are sent before those that count, in every turn.
pub(super) const WARM_UP: u64 = 200;

/// How long the consumer may take over these, and over what is still on its way when the supplier is done.
const ARRIVE_WITHIN: Duration = Duration::from_secs(30);

/// The name of the relay in errors.
const RELAY: &str = "bare relay";

/// A process in the middle with both ends connected to it.
pub(super) struct Middle {
    process: Inner,
    supplier: Supplier,
    consumer: Consumer,
    places: Places,
    /// Octets of the consumer's last request and of its reply.
    pub(super) message_bytes: (usize, usize),
}

enum Inner {
    Campanile(Campanile),
    Relay(Process),
}

impl Middle {
    /// Starts a service and connects a supplier and a consumer on a channel of their own.
    ///
    /// Answers also the key of the proxy, so that the relay can be sent requests of the same size.
    pub(super) fn campanile(options: &Options, places: Places) -> Result<(Self, Vec<u8>), BenchError> {
        let service = Campanile::start()?;
        let channel = service.new_channel()?;
        let proxy = channel.add_supplier(CarriageOptions::default())?;
        let listener = campanile::listen()?;
        let delivery = options.carriage.delivery;
        channel.add_consumer(&listener, &campanile::key_as_long_as(&proxy.key), Form::Structured, delivery)?;
        let mut supplier = supplier(campanile::NAME, proxy.connect()?, &proxy.key, options)?;
        // The service may connect only when it has something to push.
        supplier.send_without_waiting()?;
        let consumer = Consumer::new(campanile::NAME, accept(&listener)?)?;
        let middle = Self { process: Inner::Campanile(service), supplier, consumer, places, message_bytes: (0, 0) };
        Ok((middle, proxy.key))
    }

    /// Starts a relay and connects both ends to it.
    pub(super) fn relay(options: &Options, places: Places, key: &[u8]) -> Result<Self, BenchError> {
        let listener = campanile::listen()?;
        let address = listener.local_addr().map_err(BenchError::io("reading the address of a consumer"))?;
        let (process, address) = relay::start(address, (None, None))?;
        let consumer = Consumer::new(RELAY, accept(&listener)?)?;
        let stream = TcpStream::connect(address).map_err(BenchError::io("connecting a supplier to the relay"))?;
        let mut supplier = supplier(RELAY, stream, key, options)?;
        supplier.send_without_waiting()?;
        Ok(Self { process: Inner::Relay(process), supplier, consumer, places, message_bytes: (0, 0) })
    }

    /// Octets of a request as the supplier sends it.
    pub(super) fn request_bytes(&self) -> usize {
        self.supplier.request_bytes()
    }

    pub(super) fn process(&self) -> &Process {
        self.process.process()
    }

    /// Moves all parties to these cores.
    pub(super) fn place(&mut self, places: Places) -> Result<(), BenchError> {
        self.places = places;
        places.middle.give(self.process().pid())
    }

    /// Carries one turn's events.
    pub(super) fn turn(&mut self, load: Load, options: &Options) -> Result<Turn, BenchError> {
        self.places.supplier.take()?;
        match load {
            Load::Paced | Load::Saturated => self.turn_of_two_threads(load, options),
            Load::Lockstep => self.turn_in_lockstep(options),
        }
    }

    fn turn_in_lockstep(&mut self, options: &Options) -> Result<Turn, BenchError> {
        let Self { process, supplier, consumer, message_bytes, .. } = self;
        let begin = || Meters::begin(process);
        let duration = clock::nanoseconds(options.lockstep_seconds);
        let (meters, pushes, arrivals) = ends::lockstep(supplier, consumer, WARM_UP, duration, begin)?;
        *message_bytes = arrivals.message_bytes;
        report(&meters.end(process, pushes)?, &arrivals)
    }

    fn turn_of_two_threads(&mut self, load: Load, options: &Options) -> Result<Turn, BenchError> {
        let Self { process, supplier, consumer, places, message_bytes } = self;
        let (tell, progress) = mpsc::channel();
        let (window, arrivals) = thread::scope(|scope| {
            let place = places.consumer;
            let consuming = scope.spawn(move || {
                place.take()?;
                consumer.turn(&tell)
            });
            let window = Window::run(process, supplier, &progress, load, options);
            if window.is_err() {
                // The consumer waits for events that will not come; its own error, if it has one, says more.
                supplier.close();
            }
            let arrivals = consuming.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (window, arrivals)
        });
        let (window, arrivals) = match (window, arrivals) {
            (Ok(window), Ok(arrivals)) => (window, arrivals),
            (Err(error), _) | (_, Err(error)) => return Err(error),
        };
        *message_bytes = arrivals.message_bytes;
        report(&window, &arrivals)
    }
}

/// What was measured on the supplier's side and in the middle, from the end of the warm-up to the last receipt.
struct Window {
    pushes: Pushes,
    /// Processor time of the process in the middle.
    cpu: u64,
    counted: Option<Counted>,
}

impl Window {
    fn run(
        process: &Inner,
        supplier: &mut Supplier,
        consumer: &mpsc::Receiver<()>,
        load: Load,
        options: &Options,
    ) -> Result<Self, BenchError> {
        supplier.warm_up(WARM_UP)?;
        arrived(consumer)?;
        let meters = Meters::begin(process)?;
        let pushes = if load == Load::Paced {
            supplier.paced(event_count(options.paced_seconds, options.rate), options.rate)?
        } else {
            supplier.back_to_back(clock::nanoseconds(options.saturated_seconds))?
        };
        arrived(consumer)?;
        meters.end(process, pushes)
    }
}

/// The process in the middle at the beginning of what is measured.
struct Meters {
    counting: Option<Counting>,
    cpu: u64,
}

impl Meters {
    /// Reads the counters first, so that the processor time this takes is not measured.
    fn begin(process: &Inner) -> Result<Self, BenchError> {
        let counting = process.counting()?;
        Ok(Self { counting, cpu: process.process().cpu()? })
    }

    /// What was used and counted since, and what the supplier did meanwhile.
    fn end(self, process: &Inner, pushes: Pushes) -> Result<Window, BenchError> {
        let cpu = process.process().cpu()?.saturating_sub(self.cpu);
        let counted = match (self.counting, process.counting()?) {
            (Some(before), Some(after)) => Some(before.until(&after)),
            _ => None,
        };
        Ok(Window { pushes, cpu, counted })
    }
}

/// Waits until the consumer has all events of a phase.
fn arrived(consumer: &mpsc::Receiver<()>) -> Result<(), BenchError> {
    consumer.recv_timeout(ARRIVE_WITHIN).map_err(|_| BenchError::Protocol {
        contender: "a contender".to_owned(),
        reason: "did not deliver the last event of a turn within 30 s".to_owned(),
    })
}

impl Inner {
    fn process(&self) -> &Process {
        match self {
            Self::Campanile(service) => service.process(),
            Self::Relay(process) => process,
        }
    }

    fn counting(&self) -> Result<Option<Counting>, BenchError> {
        match self {
            Self::Campanile(service) => Counting::take(service).map(Some),
            Self::Relay(_) => Ok(None),
        }
    }
}

/// Puts together what both ends saw.
fn report(window: &Window, arrivals: &Arrivals) -> Result<Turn, BenchError> {
    let Window { pushes, cpu, counted } = window;
    let nothing = || BenchError::Protocol {
        contender: "a contender".to_owned(),
        reason: "delivered no event of a turn".to_owned(),
    };
    let losses = arrivals.ledger.balance(pushes.sent);
    let lasted = arrivals.ended.saturating_sub(pushes.began).max(1);
    Ok(Turn {
        events_per_second: ratio(losses.received, 1) / clock::seconds(lasted),
        latency: arrivals.latency.percentiles().ok_or_else(nothing)?,
        latency_from_schedule: arrivals.since_due.percentiles(),
        round_trip: pushes.round_trip.percentiles().ok_or_else(nothing)?,
        late_pushes: Some(pushes.late),
        losses,
        cpu_us_per_event: Some(divide_us(*cpu, pushes.sent)),
        supplier_cpu_us_per_event: divide_us(pushes.cpu, pushes.sent),
        consumer_cpu_us_per_event: divide_us(arrivals.cpu, pushes.sent),
        counted: *counted,
    })
}

/// How many events a paced turn has; at least one.
pub(super) fn event_count(seconds: f64, rate: f64) -> u64 {
    let period = clock::nanoseconds(1.0 / rate).max(1);
    (clock::nanoseconds(seconds) / period).max(1)
}

fn supplier(contender: &'static str, stream: TcpStream, key: &[u8], options: &Options) -> Result<Supplier, BenchError> {
    let payload = usize::try_from(options.payload).unwrap_or(usize::MAX);
    Supplier::new(contender, stream, PushMessage::new(key, payload))
}

/// Waits for the middle's connection to the consumer.
fn accept(listener: &TcpListener) -> Result<TcpStream, BenchError> {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut waiting = [PollFd::new(listener, PollFlags::IN)];
    let within = clock::to_timespec(10 * clock::SECOND);
    match poll(&mut waiting, Some(&within)) {
        Ok(0) => Err(BenchError::Setup {
            doing: "waiting for a contender to connect to the consumer".to_owned(),
            reason: "it did not within 10 s".to_owned(),
        }),
        Ok(_) => {
            let (stream, _) = listener.accept().map_err(BenchError::io("accepting a contender"))?;
            Ok(stream)
        }
        Err(errno) => Err(BenchError::errno("waiting for a contender")(errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hop::tests::pair;

    #[test]
    fn every_event_of_a_turn_crosses_the_relay_once_with_its_size_unchanged() {
        let (near_supplier, far_supplier) = pair();
        let (near_consumer, far_consumer) = pair();
        let relaying = thread::spawn(move || relay::relay(far_supplier, far_consumer));
        let message = PushMessage::new(b"a key of 24 octets in all", 128);
        let mut supplier = Supplier::new(RELAY, near_supplier, message).unwrap();
        let mut consumer = Consumer::new(RELAY, near_consumer).unwrap();
        supplier.send_without_waiting().unwrap();
        for back_to_back in [false, true] {
            let (tell, progress) = mpsc::channel();
            thread::scope(|scope| {
                let consuming = scope.spawn(|| consumer.turn(&tell));
                supplier.warm_up(20).unwrap();
                progress.recv().unwrap();
                let pushes =
                    if back_to_back { supplier.back_to_back(1_000_000) } else { supplier.paced(50, 5000.0) }.unwrap();
                let arrivals = consuming.join().unwrap().unwrap();
                assert_eq!(arrivals.ledger.balance(pushes.sent).lost, 0);
                assert_eq!(arrivals.latency.count(), pushes.sent);
                assert_eq!(pushes.round_trip.count(), pushes.sent);
                assert_eq!(arrivals.message_bytes, (supplier.request_bytes(), 24));
                let turn = report(&Window { pushes, cpu: 1_000_000, counted: None }, &arrivals).unwrap();
                assert!(turn.events_per_second > 0.0 && turn.latency.min <= turn.latency.max);
            });
        }
        let (_, pushes, arrivals) = ends::lockstep(&mut supplier, &mut consumer, 5, 1_000_000, || Ok(())).unwrap();
        assert_eq!(arrivals.ledger.balance(pushes.sent).lost, 0);
        assert_eq!(arrivals.latency.count(), pushes.sent);
        supplier.close();
        relaying.join().unwrap().unwrap();
    }

    #[test]
    fn counts_events_of_a_paced_turn() {
        assert_eq!(event_count(10.0, 250.0), 2500);
        assert_eq!(event_count(0.001, 1.0), 1);
    }
}

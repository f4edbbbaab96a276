//! What a collocated event costs beside a direct dynamic call that does the same bookkeeping: one type look-up, one counter, one time stamp.
//! `cargo run --release -p campanile-component --example collocated` prints the ratios, one to one and one to fifty, measured in turns.

use campanile::Event;
use campanile_component::{Error, Failure, Ports, Server, ServerSettings, Sink, Source, component};
use std::any::Any;
use std::hint::black_box;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Instant;
use toml::toml;

/// Rounds of which the fastest counts, of each way.
const ROUNDS: u32 = 60;

#[derive(Event)]
struct Sample {
    number: u64,
    value: f64,
}

#[derive(Event, Clone)]
struct Go {
    events: u64,
}

/// Nanoseconds for an event: by the container, and by direct calls.
#[derive(Event, Clone)]
struct Measured {
    container: f64,
    direct: f64,
}

/// What a program without a container has for each consumer.
trait Consumer {
    fn push(&mut self, event: &dyn Any, sent: Instant);
}

struct Direct {
    sum: f64,
    latest: Option<Instant>,
    counter: AtomicU64,
}

impl Consumer for Direct {
    #[inline(never)]
    fn push(&mut self, event: &dyn Any, sent: Instant) {
        let Some(sample) = event.downcast_ref::<Sample>() else { return };
        self.counter.store(self.counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.latest = Some(sent);
        self.sum += sample.value;
    }
}

#[component]
struct Consuming {
    #[sink]
    sample: Sink<Sample>,
    #[state]
    sum: f64,
    #[state]
    latest: Option<Instant>,
}

impl Consuming {
    fn on_sample(&mut self, sample: &Sample, ports: &Ports) {
        self.latest = Some(ports.sent());
        self.sum += sample.value;
    }
}

#[component]
struct Meter {
    #[sink]
    go: Sink<Go>,
    #[source]
    sample: Source<Sample>,
    #[source]
    measured: Source<Measured>,
    consumers: usize,
}

impl Meter {
    fn on_go(&mut self, go: &Go, _: &Ports) -> Result<(), Failure> {
        let direct = |_| Box::new(Direct { sum: 0.0, latest: None, counter: AtomicU64::new(0) }) as Box<dyn Consumer>;
        let mut direct: Vec<_> = (0..self.consumers).map(direct).collect();
        let (mut by_container, mut by_call) = (f64::MAX, f64::MAX);
        for _ in 0..ROUNDS {
            let began = Instant::now();
            for number in 0..go.events {
                self.sample.send(black_box(&Sample { number, value: 0.5 }))?;
            }
            by_container = by_container.min(began.elapsed().as_secs_f64());
            let began = Instant::now();
            for number in 0..go.events {
                let sample = black_box(Sample { number, value: 0.5 });
                for consumer in &mut direct {
                    // Each direct call has a time stamp of its own.
                    consumer.push(&sample, Instant::now());
                }
            }
            by_call = by_call.min(began.elapsed().as_secs_f64());
            black_box(&mut direct);
        }
        #[expect(clippy::cast_precision_loss, reason = "numbers of events are small")]
        let each = 1e9 / go.events as f64;
        Ok(self.measured.send(&Measured { container: by_container * each, direct: by_call * each })?)
    }
}

fn measure(consumers: u32, events: u64) -> Result<Measured, Error> {
    let mut server = Server::new("bench", ServerSettings::default())?;
    server.configure::<Meter>("meter", toml! { consumers = consumers })?;
    for number in 0..consumers {
        let name = format!("consumer-{number}");
        server.configure::<Consuming>(&name, toml::Table::new())?;
        server.connect("meter.sample", &format!("{name}.sample"))?;
    }
    let (sender, measured) = channel();
    server.output("meter.measured", move |measured: &Measured| {
        let _ = sender.send(measured.clone());
    })?;
    let go = server.input::<Go>("meter.go")?;
    server.start()?;
    let _ = go.send(&Go { events });
    measured.recv().map_err(|_| Error::Busy { lane: "main".to_owned() })
}

fn main() -> Result<(), Error> {
    let one = measure(1, 100_000)?;
    let fifty = measure(50, 4_000)?;
    let mut out = std::io::stdout();
    for (name, measured) in [("one to one", &one), ("one to fifty", &fifty)] {
        let Measured { container, direct } = measured;
        let _ = writeln!(out, "{name:13} container {container:8.1} ns, direct calls {direct:8.1} ns");
    }
    let _ = writeln!(
        out,
        "{{\"ratios\":{{\"collocated_one\":{:.3},\"collocated_fifty\":{:.3}}}}}",
        one.container / one.direct,
        fifty.container / fifty.direct
    );
    Ok(())
}

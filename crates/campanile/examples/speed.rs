//! How fast structs travel, beside events that are written by hand with the client beneath; with the feature `dds` over both transports.
//!
//!     cargo run --release -p campanile --features dds --example speed
//!
//! A service runs in the same process. Each line of the result is one JSON object: events published and received in a second, gathered; and
//! the time from `publish` to the callback at 1,000 events a second, each answered.

#![expect(clippy::print_stdout, reason = "it shows what it measures")]

use campanile::{Consumer, Event, PublishOptions, Settings, Supplier, Transport};
use client::notify::StructuredEvent;
use client::{ConsumerOptions, PublisherOptions, SimpleConsumer, SimpleSupplier};
use service::{Config, Service};
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const GATHERED: u32 = 500_000;
const PACED: u32 = 3_000;
const PERIOD: Duration = Duration::from_millis(1);

#[derive(Event, Clone, Debug)]
struct Wind {
    sent_ns: u64,
    speed: f64,
    direction: f32,
    station: String,
}

fn wind(sent_ns: u64) -> Wind {
    Wind { sent_ns, speed: 11.5, direction: 270.0, station: "north".into() }
}

/// What arrives.
#[derive(Clone)]
struct Arrivals {
    begin: Instant,
    count: Arc<AtomicU64>,
    /// Where latencies go while they are wanted.
    latencies: Arc<Mutex<Option<Sender<u64>>>>,
}

impl Arrivals {
    fn new() -> Self {
        Self { begin: Instant::now(), count: Arc::default(), latencies: Arc::default() }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn arrived(&self, sent_ns: u64) {
        self.count.fetch_add(1, Ordering::Release);
        if sent_ns > 0
            && let Ok(latencies) = self.latencies.lock()
            && let Some(latencies) = latencies.as_ref()
        {
            let _ = latencies.send(self.now().saturating_sub(sent_ns));
        }
    }

    fn latencies(&self) -> Receiver<u64> {
        let (sender, receiver) = channel();
        if let Ok(mut latencies) = self.latencies.lock() {
            *latencies = Some(sender);
        }
        receiver
    }

    fn wait_for(&self, count: u64) {
        while self.count.load(Ordering::Acquire) < count {
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
}

/// Publishes gathered and paced, and tells of both.
fn measure(
    name: &str,
    arrivals: &Arrivals,
    gathered: impl FnOnce() -> Result<u64, Box<dyn Error>>,
    mut paced: impl FnMut(u64) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let before = arrivals.count.load(Ordering::Acquire);
    let begin = Instant::now();
    let confirmed = gathered()?;
    let published = begin.elapsed();
    arrivals.wait_for(before + u64::from(GATHERED));
    let received = begin.elapsed();
    let latencies = arrivals.latencies();
    let begin = Instant::now();
    for number in 1..=PACED {
        let due = PERIOD * number;
        while begin.elapsed() < due {
            std::thread::park_timeout(due.saturating_sub(begin.elapsed()));
        }
        paced(arrivals.now())?;
    }
    let mut all: Vec<u64> = latencies.iter().take(usize::try_from(PACED)?).collect();
    all.sort_unstable();
    let percentile = |part: usize| all.get((all.len() * part / 1000).min(all.len() - 1)).map_or(0, |ns| ns / 1000);
    let rate = |time: Duration| f64::from(GATHERED) / time.as_secs_f64();
    println!(
        "{{\"way\":\"{name}\",\"published_per_s\":{:.0},\"received_per_s\":{:.0},\"confirmed\":{confirmed},\"p50_us\":{},\"p99_us\":{}}}",
        rate(published),
        rate(received),
        percentile(500),
        percentile(990)
    );
    Ok(())
}

fn structs(name: &str, settings: &Settings) -> Result<(), Box<dyn Error>> {
    let arrivals = Arrivals::new();
    let theirs = arrivals.clone();
    let consumer = Consumer::new("Speed").settings(settings.clone());
    let _consumer = consumer.on(move |wind: Wind| theirs.arrived(wind.sent_ns))?.ready()?;
    let supplier = Supplier::with("Speed", settings)?;
    let gathered = || {
        let publisher = supplier.publisher(PublishOptions::default())?;
        for _ in 0..GATHERED {
            publisher.publish(&wind(0))?;
        }
        Ok(publisher.close().confirmed)
    };
    measure(name, &arrivals, gathered, |now| Ok(supplier.publish(&wind(now))?))
}

/// The same event by hand: without types to agree on, and read where it lies.
fn by_hand(service: &Service) -> Result<(), Box<dyn Error>> {
    let arrivals = Arrivals::new();
    let theirs = arrivals.clone();
    let address = service.corbaloc("NotificationService");
    let _consumer = SimpleConsumer::connect(&address, None, ConsumerOptions::default(), move |received| {
        let sent = received.event()?.field("sent_ns").cloned();
        theirs.arrived(if let Some(campanile::Value::ULongLong(sent)) = sent { sent } else { 0 });
        Ok(())
    })?;
    let supplier = SimpleSupplier::connect(&address, None)?;
    let event = |now: u64| {
        let mut event = StructuredEvent::new("", "Wind", "");
        event.filterable_data.push(client::notify::Property::new("sent_ns", now));
        event.filterable_data.push(client::notify::Property::new("speed", 11.5_f64));
        event.filterable_data.push(client::notify::Property::new("direction", 270.0_f32));
        event.filterable_data.push(client::notify::Property::new("station", "north"));
        event
    };
    let gathered = || {
        let options = PublisherOptions { gather_events_max: 64, ..PublisherOptions::default() };
        let mut publisher = supplier.publisher(options)?;
        for _ in 0..GATHERED {
            publisher.publish(&event(0))?;
        }
        Ok(publisher.close().confirmed)
    };
    measure("client", &arrivals, gathered, |now| Ok(supplier.publish(&event(now))?))
}

fn main() -> Result<(), Box<dyn Error>> {
    let service = Service::start(Config { listen: "127.0.0.1:0".into(), ..Config::default() })?;
    let settings = Settings { server: service.address().to_string(), ..Settings::default() };
    by_hand(&service)?;
    structs("structs", &settings)?;
    if cfg!(feature = "dds") {
        let mut settings = Settings { transport: Transport::Dds, ..settings };
        settings.dds.domain_default = 77;
        settings.dds.interface = Some("127.0.0.1".into());
        settings.dds.peers = vec!["127.0.0.1".into()];
        structs("structs over dds", &settings)?;
    }
    Ok(())
}

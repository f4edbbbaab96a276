//! `campanile-bench isolation`: what one publisher suffers when another one misbehaves (Bauer et al., section VI, figures 11 and
//! 12). Two publishers with a subscriber each publish 1,000 events a second each, on one channel as two topics of equal share; for ten
//! seconds one of them publishes as much as the service takes.
//!
//! The service is to be full then and no other process. So the flood comes and goes as sequences, which cost its publisher and its
//! subscriber a fraction of what they cost the service, which takes each event in and gives it out by itself. And the two
//! clients are kept apart as if each had a machine of its own: the well-behaved one's processes run at a real-time priority and are
//! not delayed by the other one's use of the core that they share. The service has a core to itself.

use serde_json::{Value, json};

use client::notify::{EventType, Property, Topic, Topics};

use super::ability::Seat;
use super::line::Line;
use super::party::{Piece, Sample, SupplierPath};
use super::samples::{Window, whole};
use super::{Bed, quotient};
use crate::campanile::{self, Campanile, Channel, Consumer, ProxyAddress};
use crate::latency::ratio;
use crate::report::{Aim, Reported};
use crate::spin::Awake;
use crate::{BenchError, CarriageOptions, Form, Options, Output, Percentiles, clock, wire};

/// Events a second of each publisher while both behave, and the share that each topic has.
const RATE: u32 = 1000;

/// Events in each sequence of the flood.
const BATCH: u32 = 64;

/// Sequences that the misbehaving publisher leaves unanswered. The well-behaved one waits for the answer to each event.
const FLOOD_UNANSWERED: u32 = 64;

/// The CORBA priority to which the well-behaved client's real-time priority corresponds.
const CLIENT_PRIORITY: i16 = 24_000;

/// What the well-behaved publisher's p99 is to be at most during the flood, in those before it.
const P99_AT_MOST: f64 = 1.5;

/// The charts have a value for so many nanoseconds.
const SLICE: u64 = clock::SECOND / 10;

crate::report::kinds! {
    /// How the service shares its lane out.
    pub(crate) enum Sharing {
        /// Each publisher's events are a topic of the channel (`Topics`), both of the same share.
        EqualShares = "equal shares",
        /// The channel has one topic: events are carried in the order in which they are read.
        None = "no shares",
    }
}

crate::report::kinds! {
    /// One of the two publishers.
    pub(crate) enum Publisher {
        /// 1,000 events a second throughout.
        WellBehaved = "well-behaved",
        /// Far more for a while.
        Misbehaving = "misbehaving",
    }
}

impl Publisher {
    /// Of the misbehaving publisher's events, one of each sequence is recorded; while it behaves, a sequence has one.
    const fn every(self) -> u32 {
        match self {
            Self::WellBehaved => 1,
            Self::Misbehaving => BATCH,
        }
    }
}

crate::report::kinds! {
    enum Time {
        Before = "before",
        During = "during",
        /// What then still waits of the flood is part of this.
        After = "after",
    }
}

/// When the parts of the experiment begin and end, on the monotonic clock.
#[derive(Debug, Clone, Copy)]
struct Schedule {
    start: u64,
    flood: Window,
    end: u64,
}

pub(crate) fn measure(bed: &Bed, options: &Options, out: &mut Output<'_>) -> Reported {
    let (around, flood) = bed.times(options, (1.5, 4.0), (5.0, 10.0));
    // What is before the flood is compared with what is in it, when no core dozes off.
    let awake = Awake::keep(&[bed.cores.ends, bed.cores.middle])?;
    let mut found = Found::default();
    for sharing in Sharing::ALL {
        out.progress(&format!("flood with {}", sharing.name()))?;
        let mut clients = Clients::start(bed, sharing)?;
        let start = Line::soon() + clock::SECOND / 50;
        let from = start + clock::nanoseconds(around);
        let window = Window { from, until: from + clock::nanoseconds(flood) };
        let schedule = Schedule { start, flood: window, end: window.until + clock::nanoseconds(around) };
        let (received, busy) = clients.flood(schedule)?;
        found.busy.push(json!({"sharing": sharing, "of_core": busy}));
        for (publisher, samples) in Publisher::ALL.into_iter().zip(&received) {
            found.enter(sharing, publisher, schedule, samples);
        }
    }
    let [p99_ratio, p99_ratio_without_shares] = Sharing::ALL.map(|sharing| found.p99_ratio(sharing));
    let aim = "equal shares: the well-behaved publisher's p99 during the flood is at most 1.5 × that before it";
    let contrast = Aim::new(
        "no shares: the contrast",
        super::at_most("", p99_ratio_without_shares, P99_AT_MOST).found,
        p99_ratio_without_shares.map(|ratio| ratio > P99_AT_MOST),
    );
    let report = json!({
        "cores_awake": awake.how(),
        "service_busy": found.busy,
        "flood_seconds": (around, around + flood),
        "rows": found.rows,
        "p99_ratio": p99_ratio,
        "p99_ratio_without_shares": p99_ratio_without_shares,
        "courses": found.courses,
    });
    Ok((vec![super::at_most(aim, p99_ratio, P99_AT_MOST), contrast], report))
}

#[derive(Default)]
struct Found {
    /// How full the service's core was.
    busy: Vec<Value>,
    /// The delays of each publisher's events in each part of the experiment.
    rows: Vec<Value>,
    /// The p99 of the well-behaved publisher's.
    p99s: Vec<(Sharing, Time, f64)>,
    /// The latencies of each publisher's events over time.
    courses: Vec<Value>,
}

impl Found {
    fn enter(&mut self, sharing: Sharing, publisher: Publisher, schedule: Schedule, samples: &[Sample]) {
        let Schedule { start, flood, end } = schedule;
        // The first and the last moments are not those of even traffic.
        let margin = clock::SECOND / 10;
        let parts = [
            (Time::Before, Window { from: start + margin, until: flood.from }),
            (Time::During, flood),
            (Time::After, Window { from: flood.until, until: end }),
        ];
        for (time, window) in parts {
            let delays = window.latencies_from_schedule(samples);
            let rate = whole(delays.len()) * f64::from(publisher.every()) / window.seconds();
            let latency = Percentiles::of(window.latencies(samples));
            if publisher == Publisher::WellBehaved {
                self.p99s.extend(latency.map(|latency| (sharing, time, latency.p99)));
            }
            self.rows.push(json!({
                "sharing": sharing, "publisher": publisher, "time": time, "rate": rate, "delay": Percentiles::of(delays),
                "latency": latency,
            }));
        }
        let slice = |index: u64| {
            let from = start + index * SLICE;
            let latency = Percentiles::of(Window { from, until: from + SLICE }.latencies(samples))?;
            let at = clock::seconds(index * SLICE);
            Some(json!({"at_seconds": at, "median_us": latency.median, "max_us": latency.max}))
        };
        let slices: Vec<Value> = (0..end.saturating_sub(start) / SLICE).filter_map(slice).collect();
        self.courses.push(json!({"sharing": sharing, "publisher": publisher, "slices": slices}));
    }

    /// During the flood, of that before.
    fn p99_ratio(&self, sharing: Sharing) -> Option<f64> {
        let p99 = |time| self.p99s.iter().find(|p99| (p99.0, p99.1) == (sharing, time)).map(|p99| p99.2);
        quotient(p99(Time::During), p99(Time::Before))
    }
}

/// A service with both publishers and their subscribers.
struct Clients {
    well_behaved: Line,
    misbehaving: Line,
    /// Ended last.
    service: Campanile,
}

impl Clients {
    fn start(bed: &Bed, sharing: Sharing) -> Result<Self, BenchError> {
        let service = Campanile::start_on(bed.cores.middle)?;
        let topics = Publisher::ALL.map(|publisher| Topic::new(wire::EVENT_DOMAIN, publisher.name(), RATE));
        let qos: Vec<Property> = match sharing {
            Sharing::EqualShares => vec![Topics(topics.into()).into()],
            Sharing::None => Vec::new(),
        };
        let channel = service.new_channel_with(&qos)?;
        let ends = Seat { core: bed.cores.ends, fifo: bed.real_time().fifo(CLIENT_PRIORITY) };
        let mut clients = Self {
            well_behaved: well_behaved(ends, &channel)?,
            misbehaving: misbehaving(Seat { fifo: None, ..ends }, &channel)?,
            service,
        };
        for line in [&mut clients.well_behaved, &mut clients.misbehaving] {
            line.run(clock::SECOND / u64::from(RATE), 0, clock::SECOND / 5)?;
        }
        Ok(clients)
    }

    /// Lets both publish; what came of each, and what part of its core the service used in the flood.
    fn flood(&mut self, schedule: Schedule) -> Result<([Vec<Sample>; 2], f64), BenchError> {
        let Schedule { start, flood, end } = schedule;
        let period = clock::SECOND / u64::from(RATE);
        // Half a period later, so that the two do not meet while both behave.
        let behaving = |from, until| Piece { from: from + period / 2, until, period, events: 1 };
        self.well_behaved.begin(vec![Piece { from: start, until: end, period, events: 1 }])?;
        self.misbehaving.begin(vec![
            behaving(start, flood.from),
            Piece { from: flood.from, until: flood.until, period: 0, events: BATCH },
            behaving(flood.until, end),
        ])?;
        clock::sleep_until(flood.from)?;
        let (cpu, from) = (self.service.process().cpu()?, clock::now());
        clock::sleep_until(flood.until)?;
        let busy = ratio(self.service.process().cpu()? - cpu, clock::now() - from);
        clock::sleep_until(end)?;
        Ok(([self.well_behaved.end()?.1, self.misbehaving.end()?.1], busy))
    }
}

/// One event after the other, each answered.
fn well_behaved(ends: Seat, channel: &Channel) -> Result<Line, BenchError> {
    let event_type = Publisher::WellBehaved.name();
    Line::start(ends, |consumer| {
        let proxy = channel.add_supplier(CarriageOptions::default())?;
        let subscription = EventType::new(wire::EVENT_DOMAIN, event_type);
        channel.add_consumer_of(&subscription, consumer, &campanile::key_as_long_as(&proxy.key), &[])?;
        Ok(path(proxy, Publisher::WellBehaved, 1))
    })
}

/// Sequences, and a subscriber that takes sequences.
fn misbehaving(ends: Seat, channel: &Channel) -> Result<Line, BenchError> {
    let form = Form::Sequence;
    let line = Line::start(ends, |consumer| {
        let proxy = channel.add_supplier(CarriageOptions { form, ..CarriageOptions::default() })?;
        channel.connect(&Consumer {
            address: consumer,
            key: &campanile::key_as_long_as(&proxy.key),
            form,
            qos: &[Property::new("MaximumBatchSize", i32::try_from(BATCH).unwrap_or(i32::MAX))],
            event_type: Some(&EventType::new(wire::EVENT_DOMAIN, Publisher::Misbehaving.name())),
            components: &[],
        })?;
        Ok(path(proxy, Publisher::Misbehaving, FLOOD_UNANSWERED))
    })?;
    Ok(line.recording_one_in(Publisher::Misbehaving.every()))
}

fn path(proxy: ProxyAddress, publisher: Publisher, unanswered_max: u32) -> SupplierPath {
    let sequences = publisher == Publisher::Misbehaving;
    SupplierPath { unanswered_max, sequences, ..SupplierPath::to(proxy, publisher.name()) }
}

//! Many consumers, each with a filter of its own: what an event costs the engine when one of them matches.

use corba::event::{self, CorbaForms, FORM_STRUCTURED};
use engine::{
    AdminId, Admission, ChannelLimits, FilterConstraint, FilterRef, FilterTarget, Hierarchy, HierarchyLimits, Lane,
    Outcome, OutputForm, Peer, ProxyKey, ProxyKind, SettingsPatch, Side, Time,
};
use filter::{Constraint, Limits};
use giop::cdr::{Encoding, Endian};
use serde::Serialize;
use std::sync::Arc;

use super::{Pace, timed};
use crate::BenchError;
use crate::durable::median;

/// Events between two readings of the clock.
const TURN: u32 = 2_000;

/// What an event costs beside so many filters.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ConsumersReport {
    pub(crate) consumers: u32,
    pub(crate) destinations: u32,
    pub(crate) event_ns: f64,
    pub(crate) spread_event_ns: f64,
    pub(crate) evaluations_per_event: f64,
}

/// An engine with its consumers.
struct Rig {
    consumers: u32,
    lane: Lane,
    source: ProxyKey,
    /// An event of each antenna.
    samples: Vec<Vec<u8>>,
    next: usize,
    now: u64,
}

pub(super) fn run(pace: Pace) -> Result<Vec<ConsumersReport>, BenchError> {
    let mut rigs = [1, 100, 10_000].map(Rig::new).into_iter().collect::<Result<Vec<Rig>, BenchError>>()?;
    let mut times = vec![(Vec::new(), Vec::new()); rigs.len()];
    for _ in 0..pace.rounds {
        for (rig, (same, spread)) in rigs.iter_mut().zip(&mut times) {
            same.push(rig.timed(pace, false)?);
            spread.push(rig.timed(pace, true)?);
        }
    }
    let medians = times.into_iter().map(|(same, spread)| (median(same.into_iter()), median(spread.into_iter())));
    rigs.iter_mut().zip(medians).map(|(rig, (same, spread))| rig.report(same, spread)).collect()
}

fn unexpected(what: impl core::fmt::Display) -> BenchError {
    BenchError::Setup { doing: "filtering".into(), reason: what.to_string() }
}

impl Rig {
    fn new(consumers: u32) -> Result<Self, BenchError> {
        let limits = HierarchyLimits { proxies_max: consumers + 1, ..HierarchyLimits::default() };
        let mut hierarchy = Hierarchy::new(limits);
        let channel =
            hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).map_err(unexpected)?;
        let kind = ProxyKind::default();
        let supplier = hierarchy
            .create_proxy(channel, Side::Suppliers, AdminId::DEFAULT, FORM_STRUCTURED, kind)
            .map_err(unexpected)?;
        let source = ProxyKey { channel, proxy: supplier };
        hierarchy.connect(source, None, OutputForm(0)).map_err(unexpected)?;
        for number in 0..consumers {
            let proxy = hierarchy
                .create_proxy(channel, Side::Consumers, AdminId::DEFAULT, FORM_STRUCTURED, kind)
                .map_err(unexpected)?;
            let key = ProxyKey { channel, proxy };
            hierarchy.connect(key, Some(Peer(u64::from(number))), OutputForm(0)).map_err(unexpected)?;
            // Of each ten consumers of an antenna, one is content with priority 1.
            let text = format!("$antenna == 'DV{:03}' and $priority > {}", number / 10, number % 10);
            let program = Constraint::parse(&text, &Limits::default()).map_err(unexpected)?;
            let constraint = FilterConstraint { types: Arc::new([]), program: Arc::new(program), value: 0 };
            let filter = hierarchy.create_filter(channel).map_err(unexpected)?;
            hierarchy.set_constraints(filter, vec![constraint], None).map_err(unexpected)?;
            hierarchy.add_filter(FilterTarget::Proxy(key), FilterRef::Local(filter)).map_err(unexpected)?;
        }
        let mut lane = Lane::new(Time(0));
        lane.handle_snapshot(hierarchy.snapshot(), Time(0));
        // A stride that visits the antennas in no order that a processor foresees.
        let antennas = consumers.div_ceil(10);
        let samples = (0..antennas).map(|n| super::language::sample_of(&format!("DV{:03}", n * 379 % antennas), 1));
        Ok(Self { consumers, lane, source, samples: samples.collect(), next: 0, now: 0 })
    }

    /// Nanoseconds for one event, of always the same antenna or of each in turn.
    fn timed(&mut self, pace: Pace, spread: bool) -> Result<f64, BenchError> {
        self.next = 0;
        timed(pace, TURN, || {
            self.event()?;
            self.next = if spread { (self.next + 1) % self.samples.len() } else { 0 };
            Ok(())
        })
    }

    /// One event in, through its filters, and out again.
    fn event(&mut self) -> Result<u32, BenchError> {
        self.now += 1_000;
        let now = Time(self.now);
        let bytes = self.samples.get(self.next).ok_or_else(|| unexpected("there is no sample"))?;
        let mut pending_event = self.lane.begin_event_for(bytes.len());
        self.lane.classify(&mut pending_event, b"Telescope", b"Status");
        pending_event.form = FORM_STRUCTURED;
        pending_event.tag = event::tag_of(Encoding::new(Endian::Little), 0);
        pending_event.bytes.extend_from_slice(bytes);
        let destinations = match self.lane.handle_event(self.source, pending_event, &CorbaForms { utc: 0 }, now) {
            Admission::Accepted { destinations } => destinations,
            other => return Err(unexpected(format!("the engine said {other:?}"))),
        };
        let mut events = Vec::new();
        while let Some(delivery) = self.lane.poll_delivery(now, &mut events) {
            self.lane.handle_outcome(delivery.outbox, delivery.serial, Outcome::Delivered, now);
            for event in events.drain(..) {
                self.lane.release(event);
            }
        }
        Ok(destinations)
    }

    fn report(&mut self, event_ns: f64, spread_event_ns: f64) -> Result<ConsumersReport, BenchError> {
        self.next = 0;
        let before = self.lane.counters().filters.evaluations;
        let destinations = self.event()?;
        let evaluations = self.lane.counters().filters.evaluations - before;
        if destinations != 1 {
            return Err(unexpected(format!("the event went to {destinations} consumers where 1 was to get it")));
        }
        #[expect(clippy::cast_precision_loss, reason = "a handful")]
        let evaluations_per_event = evaluations as f64;
        Ok(ConsumersReport {
            consumers: self.consumers,
            destinations,
            event_ns,
            spread_event_ns,
            evaluations_per_event,
        })
    }
}

//! The engine's event path by itself, to be counted and profiled: what one event costs in the ordinary cases.
//!
//! ```text
//! cargo build --release -p campanile-engine --example event_path
//! cargo build --release -p campanile-engine --example event_path
//! valgrind --tool=callgrind target/release/examples/event_path one 100000
//! ```
//!
//! The first argument is the case, the second how many deliveries it makes. The difference between two numbers of deliveries is free of
//! what setting up costs.

use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use campanile_engine as engine;
use engine::{
    AdminId, Admission, ChannelLimits, Delivery, Event, FilterConstraint, FilterRef, FilterTarget, Forms, Hierarchy,
    Lane, OrderPolicy, Outcome, OutputForm, Peer, ProxyKey, ProxyKind, Refusal, SettingsPatch, Side, Time,
};

/// One case: so many consumers, and so many events before any answer.
struct Case {
    name: &'static str,
    consumers: u32,
    burst: u32,
    window: u16,
    order: OrderPolicy,
    batch: u32,
    filters: bool,
}

const ONE: Case =
    Case { name: "one", consumers: 1, burst: 1, window: 1, order: OrderPolicy::Fifo, batch: 1, filters: false };

const CASES: [Case; 9] = [
    ONE,
    Case { name: "hundred", consumers: 100, ..ONE },
    Case { name: "thousand", consumers: 1_000, ..ONE },
    Case { name: "window", burst: 64, window: 64, ..ONE },
    Case { name: "backlog", burst: 64, ..ONE },
    Case { name: "batch", burst: 64, batch: 64, ..ONE },
    Case { name: "priority", burst: 64, order: OrderPolicy::Priority, ..ONE },
    Case { name: "filter", filters: true, ..ONE },
    Case { name: "window-hundred", consumers: 100, burst: 64, window: 64, ..ONE },
];

/// Events with the number in their first byte as every field.
struct FirstByte;

struct Number(i64);

impl Forms for FirstByte {
    type Fields<'e> = Number;

    fn fields<'e>(&'e self, event: &'e Event) -> Number {
        Number(event.bytes.first().copied().unwrap_or(0).into())
    }
}

impl filter::Fields for Number {
    fn field<'f>(&'f self, _: &filter::Path, steps: &mut filter::Steps) -> Option<filter::Value<'f>> {
        steps.take(1).then_some(filter::Value::Int(self.0))
    }

    fn contains(&self, _: &filter::Path, _: &filter::Value<'_>, _: &mut filter::Steps) -> Option<bool> {
        None
    }

    fn current_time(&self) -> u64 {
        0
    }
}

/// A lane with one supplier, and a protocol that answers everything after each burst.
struct Rig {
    lane: Lane,
    source: ProxyKey,
    now: Time,
    events: Vec<Arc<Event>>,
    unanswered: Vec<Delivery>,
    delivered: u64,
}

impl Rig {
    fn new(case: &Case) -> Result<Self, Refusal> {
        let mut hierarchy = Hierarchy::default();
        let patch = SettingsPatch {
            push_window: Some(case.window),
            order_policy: Some(case.order),
            batch_size_max: NonZeroU32::new(case.batch),
            ..SettingsPatch::default()
        };
        let channel = hierarchy.create_channel(patch, ChannelLimits::default())?;
        let mut connect = |side| {
            let kind = ProxyKind { batches: case.batch > 1 && side == Side::Consumers, ..ProxyKind::default() };
            let proxy = hierarchy.create_proxy(channel, side, AdminId::DEFAULT, engine::Form(1), kind)?;
            let key = ProxyKey { channel, proxy };
            hierarchy.connect(key, Some(Peer(1)), OutputForm(0))?;
            if case.filters && side == Side::Consumers {
                let filter = hierarchy.create_filter(channel)?;
                if let Ok(program) = filter::Constraint::parse("$n < 50", &filter::Limits::default()) {
                    let program = Arc::new(program);
                    let constraint = FilterConstraint { types: Arc::new([]), program, value: 0 };
                    hierarchy.set_constraints(filter, vec![constraint], None)?;
                }
                hierarchy.add_filter(FilterTarget::Proxy(key), FilterRef::Local(filter))?;
            }
            Ok::<ProxyKey, Refusal>(key)
        };
        let source = connect(Side::Suppliers)?;
        for _ in 0..case.consumers {
            connect(Side::Consumers)?;
        }
        let now = Time(0);
        let mut lane = Lane::new(now);
        lane.handle_snapshot(hierarchy.snapshot(), now);
        Ok(Self { lane, source, now, events: Vec::new(), unanswered: Vec::new(), delivered: 0 })
    }

    fn publish(&mut self) -> bool {
        let mut pending_event = self.lane.begin_event_for(128);
        pending_event.bytes.extend_from_slice(&[7; 128]);
        self.lane.classify(&mut pending_event, b"Telescope", b"Status");
        matches!(self.lane.handle_event(self.source, pending_event, &FirstByte, self.now), Admission::Accepted { .. })
    }

    /// What a protocol does after an event: it sends what can be sent, and looks for whatever else there may be.
    fn send(&mut self) {
        while let Some(delivery) = self.lane.poll_delivery(self.now, &mut self.events) {
            self.delivered += self.events.len() as u64;
            self.unanswered.push(delivery);
            for event in self.events.drain(..) {
                self.lane.release(event);
            }
        }
        while self.lane.poll_release().is_some() {}
        while self.lane.poll_notice().is_some() {}
        while self.lane.poll_timed_out().is_some() {}
    }

    /// Answers, until none is unanswered: all that are, then what they made room for is sent.
    fn answer(&mut self) {
        while !self.unanswered.is_empty() {
            for delivery in self.unanswered.drain(..) {
                self.lane.handle_outcome(delivery.outbox, delivery.serial, Outcome::Delivered, self.now);
            }
            self.send();
        }
    }

    fn run(&mut self, case: &Case, deliveries: u64) -> bool {
        while self.delivered < deliveries {
            for _ in 0..case.burst {
                self.now = Time(self.now.0 + 1_000);
                if !self.publish() {
                    return false;
                }
                self.send();
            }
            self.answer();
        }
        true
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let wanted = arguments.next().unwrap_or_default();
    let deliveries = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(100_000);
    for case in CASES.iter().filter(|case| wanted.is_empty() || case.name == wanted) {
        let Ok(mut rig) = Rig::new(case) else { return ExitCode::FAILURE };
        let begin = Instant::now();
        if !rig.run(case, deliveries) {
            return ExitCode::FAILURE;
        }
        let each = begin.elapsed().as_nanos() / u128::from(rig.delivered.max(1));
        eprintln!("{}: {} deliveries, {each} ns each", case.name, rig.delivered);
    }
    ExitCode::SUCCESS
}

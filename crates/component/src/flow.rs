//! What a plan makes happen on its lanes: which handlers call which others, and which put events into queues.

use crate::plan::{Descriptions, LanePlace, Plan, PortPlan};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A sink or a timer, with what its handler does.
pub(crate) struct Handler<'p> {
    /// `instance.port`.
    pub(crate) port: String,
    pub(crate) instance: &'p str,
    pub(crate) lane: LanePlace<'p>,
    pub(crate) settings: Option<&'p PortPlan>,
    /// The interval of a timer.
    pub(crate) interval_ns: Option<u64>,
    /// Sources of other servers that are connected with it.
    pub(crate) remote: Vec<&'p str>,
    /// Sinks that it calls, and sinks into whose queues it puts events, each with the number of events.
    calls: Vec<(usize, u64)>,
    queues: Vec<(usize, u64)>,
}

impl Handler<'_> {
    pub(crate) fn time_ns(&self) -> Option<u64> {
        self.settings?.time_ns
    }

    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        self.settings?.deadline_ns
    }

    /// The shortest time between two events from outside the server.
    pub(crate) fn period_ns(&self) -> Option<u64> {
        self.settings?.period_ns
    }

    /// The priority of the lane: 0 for an ordinary one.
    pub(crate) fn priority(&self) -> i32 {
        self.lane.priority.unwrap_or(0)
    }

    /// How many events it sends by a source of its instance.
    fn sends(&self, source: &str) -> u64 {
        let named = self.settings.and_then(|settings| settings.sends.as_ref());
        named.map_or(1, |named| named.iter().map(|name| u64::from(name == source)).sum())
    }
}

/// What a lane does from a handler's beginning to its end.
#[derive(Default)]
pub(crate) struct Run {
    /// The handler, and all that are called.
    pub(crate) handlers: BTreeSet<usize>,
    /// Their times together.
    pub(crate) time_ns: u64,
    /// Sinks into whose queues events are put, each with their number.
    pub(crate) triggers: BTreeMap<usize, u64>,
}

impl Run {
    fn trigger(&mut self, sink: usize, events: u64) {
        let sum = self.triggers.entry(sink).or_default();
        *sum = sum.saturating_add(events);
    }
}

/// The handlers of some servers.
pub(crate) struct Flow<'p> {
    pub(crate) handlers: Vec<Handler<'p>>,
    /// One for each handler.
    runs: Vec<Rc<Run>>,
}

impl<'p> Flow<'p> {
    /// The flow of a plan in which nothing is wrong.
    pub(crate) fn new(plan: &'p Plan, components: &BTreeMap<String, Descriptions>, servers: &BTreeSet<&str>) -> Self {
        let mut handlers: Vec<Handler<'p>> = Vec::new();
        let mut of_instance: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (name, instance) in plan.instances.iter().filter(|(_, it)| servers.contains(it.server.as_str())) {
            let Some(described) = components.get(&instance.server).and_then(|of| of.get(&instance.component)) else {
                continue;
            };
            let timers = described.timers_ns.iter().map(|(port, ns)| (port, Some(*ns)));
            for (port, interval_ns) in timers.chain(described.sinks.keys().map(|port| (port, None))) {
                let port = format!("{name}.{port}");
                let (Some(lane), settings) = (plan.lane_of(&port), plan.ports.get(&port)) else { continue };
                of_instance.entry(name).or_default().push(handlers.len());
                let (remote, calls, queues) = (Vec::new(), Vec::new(), Vec::new());
                handlers.push(Handler { port, instance: name, lane, settings, interval_ns, remote, calls, queues });
            }
        }
        let places: BTreeMap<_, _> = handlers.iter().enumerate().map(|(at, it)| (it.port.clone(), at)).collect();
        for (source, sinks) in &plan.connections {
            let Some((instance, port)) = source.split_once('.') else { continue };
            for sink in sinks {
                let Some(place) = places.get(sink).copied() else { continue };
                if plan.is_remote(source, sink) {
                    if let Some(handler) = handlers.get_mut(place) {
                        handler.remote.push(source);
                    }
                    continue;
                }
                let is_queued = plan.is_queued(source, sink);
                for from in of_instance.get(instance).into_iter().flatten() {
                    let Some(handler) = handlers.get_mut(*from) else { continue };
                    let events = handler.sends(port);
                    if events > 0 {
                        let to = if is_queued { &mut handler.queues } else { &mut handler.calls };
                        to.push((place, events));
                    }
                }
            }
        }
        let mut known = BTreeMap::new();
        let runs = (0..handlers.len()).map(|place| run_of(&handlers, place, &mut known)).collect();
        Self { handlers, runs }
    }

    pub(crate) fn handler(&self, place: usize) -> Option<&Handler<'p>> {
        self.handlers.get(place)
    }

    pub(crate) fn run(&self, place: usize) -> Rc<Run> {
        self.runs.get(place).cloned().unwrap_or_default()
    }

    /// The highest priority among handlers.
    pub(crate) fn priority_max<'h>(&self, handlers: impl IntoIterator<Item = &'h usize>) -> i32 {
        let of = handlers.into_iter().filter_map(|place| self.handler(*place)).map(Handler::priority);
        of.max().unwrap_or(0)
    }
}

/// The run of a handler. No handler calls itself, and a chain of calls has a limit: [`Plan::check`] has seen to that.
fn run_of(handlers: &[Handler<'_>], place: usize, runs: &mut BTreeMap<usize, Rc<Run>>) -> Rc<Run> {
    if let Some(run) = runs.get(&place) {
        return run.clone();
    }
    let mut run = Run { handlers: [place].into(), ..Run::default() };
    if let Some(handler) = handlers.get(place) {
        run.time_ns = handler.time_ns().unwrap_or(0);
        for (sink, events) in &handler.queues {
            run.trigger(*sink, *events);
        }
        for (sink, events) in &handler.calls {
            let called = run_of(handlers, *sink, runs);
            run.handlers.extend(&called.handlers);
            run.time_ns = run.time_ns.saturating_add(called.time_ns.saturating_mul(*events));
            for (of, each) in &called.triggers {
                run.trigger(*of, each.saturating_mul(*events));
            }
        }
    }
    let run = Rc::new(run);
    runs.insert(place, run.clone());
    run
}

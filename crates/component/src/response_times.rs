//! Whether the deadlines of a plan hold, computed before anything runs.
//!
//! An *activity* is what a lane does for a tick of a timer, or for the events of one queue: a handler, with all that it calls until it
//! returns. Events that it puts into queues trigger further activities; each tick leads to a chain of them, whose periods follow from the
//! timer. [`planning::respond`] has the analysis, and says what it assumes of processors and lanes. Beside that is assumed:
//!
//! - A handler takes `time` at most, and sends one event by each source, unless `sends` says otherwise. Filters let everything through.
//! - Nothing else runs at the priorities of the lanes; the operating system takes no time, nor do restarts and steps of life.
//!
//! Where the plan says too little for that there is a [`Gap`]. It matters to all that may wait for it, and to nothing else.

use crate::flow::{Flow, Handler};
use crate::plan::{Descriptions, Plan, Problem};
use crate::queue::{EVENTS_MAX, QueueSettings};
use planning::{AnalysisLimits, Response, Stage, StageFinding, format_time, respond};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Most activities that are analysed together.
const ACTIVITIES_MAX: usize = AnalysisLimits::COMMAND.activities_max;

/// Most ports that one line names; the others are counted.
const NAMED_MAX: usize = 3;

/// Processors of the servers of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Processors {
    /// All servers share one. This holds on more than one as well.
    #[default]
    One,
    /// Each server is pinned to one of its own.
    PerServer,
}

/// Whether a deadline holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Verdict {
    /// The handler ends by then.
    Holds,
    /// It may end later.
    Missed,
    /// An event on the way may be discarded, or a tick left out.
    Lost,
    /// The plan says too little.
    Unknown,
}

/// What is computed for a port with a handler. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PortTime {
    /// `instance.port`.
    pub port: String,
    /// Server.
    pub server: String,
    /// Lane: its container, and its priority.
    pub lane: String,
    /// Priority of the lane; `None` for ordinary priority.
    pub priority: Option<i32>,
    /// Periods of all that leads to it, the shortest first.
    pub periods_ns: Vec<u64>,
    /// Longest time until its handler has ended, counted as [`PortPlan::deadline_ns`](crate::PortPlan::deadline_ns) is; `None` if there is no
    /// bound, or none is known.
    pub response_ns: Option<u64>,
    /// Deadline.
    pub deadline_ns: Option<u64>,
    /// Whether it holds; `None` without a deadline.
    pub verdict: Option<Verdict>,
}

/// How much of a processor is used.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Processor {
    /// Server with a processor of its own; `None` for all.
    pub server: Option<String>,
    /// Sum of execution times over periods: 1 is a whole processor.
    pub utilisation: f64,
    /// Whether the plan says too little, so that it may be more.
    pub is_partial: bool,
}

/// Response times of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ResponseTimes {
    /// Ports with a handler that something leads to, or that has a time or a deadline: by server, the most urgent first.
    pub ports: Vec<PortTime>,
    /// Each processor.
    pub processors: Vec<Processor>,
    /// Deadlines that may not hold, and what is missing in the plan to judge the others.
    pub problems: Vec<Problem>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
}

impl Plan {
    /// Computes the response times of all handlers; `None` if no port has a `time` or a `deadline`.
    ///
    /// # Errors
    /// What [`check`](Self::check) finds.
    pub fn response_times(
        &self,
        components: &BTreeMap<String, Descriptions>,
        processors: Processors,
    ) -> Result<Option<ResponseTimes>, Vec<Problem>> {
        let problems = self.check(components);
        if !problems.is_empty() {
            return Err(problems);
        }
        let has_deadlines = self.ports.values().any(|port| port.deadline_ns.is_some());
        if !has_deadlines && self.ports.values().all(|port| port.time_ns.is_none()) {
            return Ok(None);
        }
        let servers = self.server_names();
        let groups: Vec<BTreeSet<&str>> = match processors {
            Processors::One => vec![servers.into_iter().collect()],
            Processors::PerServer => servers.into_iter().map(|server| [server].into()).collect(),
        };
        let mut times = ResponseTimes::default();
        for group in groups {
            let flow = Flow::new(self, components, &group);
            let server = (processors == Processors::PerServer).then(|| group.into_iter().collect());
            Analysis::new(flow, has_deadlines).report(server, &mut times);
        }
        times.ports.sort_by(|one, other| {
            let key = |port: &PortTime| (port.server.clone(), -port.priority.unwrap_or(0), port.port.clone());
            key(one).cmp(&key(other))
        });
        Ok(Some(times))
    }
}

/// What a lane does for an event, and where that comes from.
#[derive(Clone, Copy)]
struct Activity {
    /// The handler that begins.
    handler: usize,
    /// Events of one period.
    events: u64,
    after: Option<usize>,
    period_ns: u64,
}

/// What the plan does not say.
struct Gap {
    handler: usize,
    /// All work at this priority and below waits for it: none that it leads to is above.
    priority: i32,
    /// What is missing, and what to write.
    reason: String,
}

/// The results of a handler, over all activities in which it runs.
struct Row {
    periods_ns: BTreeSet<u64>,
    /// The activity with the longest response.
    longest: usize,
    priority_min: i32,
}

/// The activities that share a processor.
struct Analysis<'p> {
    flow: Flow<'p>,
    /// Handlers that have a deadline; if no port of the plan has one, those that have a time.
    judged: BTreeSet<usize>,
    /// Each behind the one by which it is triggered.
    activities: Vec<Activity>,
    /// Handlers that run at all.
    reached: BTreeSet<usize>,
    gaps: Vec<Gap>,
    /// Highest priority at which something waits for a gap.
    unknown_max: i32,
    /// One for each activity, unless the analysis refuses them.
    findings: Vec<StageFinding>,
    refusal: Option<String>,
    rows: BTreeMap<usize, Row>,
}

impl<'p> Analysis<'p> {
    fn new(flow: Flow<'p>, has_deadlines: bool) -> Self {
        let is_judged = |handler: &Handler<'_>| match has_deadlines {
            true => handler.deadline_ns().is_some(),
            false => handler.time_ns().is_some(),
        };
        let places = flow.handlers.iter().enumerate();
        let judged = places.filter(|(_, handler)| is_judged(handler)).map(|(place, _)| place).collect();
        let mut own = Self {
            flow,
            judged,
            activities: Vec::new(),
            reached: BTreeSet::new(),
            gaps: Vec::new(),
            unknown_max: i32::MIN,
            findings: Vec::new(),
            refusal: None,
            rows: BTreeMap::new(),
        };
        if own.find_activities() {
            own.find_gaps();
            own.find_sporadic();
        }
        own.analyse();
        own
    }

    fn port(&self, handler: usize) -> &str {
        self.flow.handler(handler).map_or("", |handler| &handler.port)
    }

    /// Follows the events of each timer, and those from outside the server; false if they lead to too many activities.
    fn find_activities(&mut self) -> bool {
        for place in 0..self.flow.handlers.len() {
            let Some(handler) = self.flow.handler(place) else { continue };
            let period_ns = handler.interval_ns.or(handler.period_ns());
            let remote = handler.remote.clone();
            if period_ns.is_none() && remote.is_empty() {
                continue;
            }
            let begin = self.activities.len();
            let (reached, is_circle) = self.follow(place, period_ns.unwrap_or(1));
            let priority = self.flow.priority_max(&reached);
            self.reached.extend(&reached);
            if self.activities.len() >= ACTIVITIES_MAX {
                let reason = format!(
                    "fewer than {ACTIVITIES_MAX} activities are analysed together, and more follow from the timers up to this one: write \
                     sends = [\"…\"] for handlers that do not send by every source of their instance"
                );
                self.gaps = vec![Gap { handler: place, priority: i32::MAX, reason }];
                self.activities.clear();
                return false;
            }
            if is_circle {
                let reason = "its events lead round by queues without end, as far as the plan says: write sends = [\"…\"] for the \
                              handlers on the way, with the sources by which each sends"
                    .to_owned();
                self.gaps.push(Gap { handler: place, priority, reason });
            }
            if period_ns.is_none() {
                self.activities.truncate(begin);
                let (servers, together) = match remote.len() {
                    1 => ("another server", ""),
                    _ => ("other servers", ", of all sources together"),
                };
                let remote = listed(remote.into_iter());
                let reason = format!(
                    "how often events come from {remote} in {servers} is not known here: write period = \"…\", the shortest \
                     time between two of them{together}"
                );
                self.gaps.push(Gap { handler: place, priority, reason });
            }
        }
        true
    }

    /// Adds the activities that a handler leads to. Gives the handlers that run in them, and whether they go round.
    fn follow(&mut self, origin: usize, period_ns: u64) -> (BTreeSet<usize>, bool) {
        let (mut reached, mut is_circle) = (BTreeSet::new(), false);
        let mut next = self.activities.len();
        self.activities.push(Activity { handler: origin, events: 1, after: None, period_ns });
        while let Some(activity) = self.activities.get(next).copied() {
            let run = self.flow.run(activity.handler);
            reached.extend(&run.handlers);
            for (sink, events) in &run.triggers {
                if self.way(next).any(|(_, before)| before.handler == *sink) {
                    is_circle = true;
                } else if self.activities.len() < ACTIVITIES_MAX {
                    let events = activity.events.saturating_mul(*events);
                    self.activities.push(Activity { handler: *sink, events, after: Some(next), period_ns });
                }
            }
            next += 1;
        }
        (reached, is_circle)
    }

    /// The activities that lead to one, itself first.
    fn way(&self, activity: usize) -> impl Iterator<Item = (usize, &Activity)> {
        let at = |place: usize| Some((place, self.activities.get(place)?));
        std::iter::successors(at(activity), move |(_, activity)| at(activity.after?))
    }

    /// Handlers that run because of one, itself among them.
    fn led_to(&self, origin: usize) -> BTreeSet<usize> {
        let (mut led, mut next) = (BTreeSet::from([origin]), vec![origin]);
        while let Some(place) = next.pop() {
            let run = self.flow.run(place);
            led.extend(&run.handlers);
            next.extend(run.triggers.keys().filter(|sink| led.insert(**sink)));
        }
        led
    }

    /// Notes which sinks get events of which the plan does not say how often, where those take time or lead to what is asked for.
    fn find_sporadic(&mut self) {
        let mut sinks: Vec<usize> = (0..self.flow.handlers.len()).filter(|it| !self.reached.contains(it)).collect();
        let mut fed = BTreeSet::new();
        for place in &sinks {
            let run = self.flow.run(*place);
            fed.extend(run.handlers.iter().chain(run.triggers.keys()).copied().filter(|it| it != place));
        }
        // First those that nothing leads to. Of those that lead to each other one is enough.
        sinks.sort_by_key(|place| fed.contains(place));
        let mut known = BTreeSet::new();
        for place in sinks {
            if known.contains(&place) {
                continue;
            }
            let led = self.led_to(place);
            let has_time = |at: &usize| self.flow.handler(*at).is_some_and(|handler| handler.time_ns().is_some());
            if led.iter().any(|at| self.reached.contains(at) || self.judged.contains(at) || has_time(at)) {
                let reason = "no timer of the plan leads to it: connect it, or write period = \"…\", the shortest time between two \
                              events from the program; if none come, sends = [] and no time"
                    .to_owned();
                self.gaps.push(Gap { handler: place, priority: self.flow.priority_max(&led), reason });
            }
            known.extend(led);
        }
    }

    /// Notes what is missing for handlers that run.
    fn find_gaps(&mut self) {
        let mut gaps = Vec::new();
        for place in self.reached.iter().copied() {
            let Some(handler) = self.flow.handler(place) else { continue };
            let mut gap = |priority: i32, reason: &str| {
                gaps.push(Gap { handler: place, priority, reason: reason.to_owned() });
            };
            if handler.time_ns().is_none() {
                gap(
                    handler.priority(),
                    "it has no time: write time = \"…\", the longest that its handler takes without those that it calls",
                );
            }
            if queue_of(handler).is_some_and(QueueSettings::is_sorted) {
                let here = self.activities.iter().filter(|activity| activity.handler == place);
                let senders = here.filter_map(|activity| Some(&self.activities.get(activity.after?)?.handler));
                gap(
                    handler.priority().max(self.flow.priority_max(senders)),
                    "its queue sorts events under a lock, for which lanes may wait: leave OrderPolicy and DiscardPolicy out",
                );
            }
        }
        self.gaps.extend(gaps);
    }

    fn analyse(&mut self) {
        let stages: Vec<Stage> = self.activities.iter().map(|activity| self.stage(activity)).collect();
        self.unknown_max = self.gaps.iter().map(|gap| gap.priority).max().unwrap_or(i32::MIN);
        match respond(&stages, &AnalysisLimits::COMMAND) {
            Ok(findings) => self.findings = findings,
            Err(error) => self.refusal = Some(error.to_string()),
        }
        for (place, (activity, finding)) in self.activities.iter().zip(&self.findings).enumerate() {
            for handler in &self.flow.run(activity.handler).handlers {
                let row = self.rows.entry(*handler).or_insert(Row {
                    periods_ns: BTreeSet::new(),
                    longest: place,
                    priority_min: finding.priority_min,
                });
                row.periods_ns.insert(activity.period_ns);
                row.priority_min = row.priority_min.min(finding.priority_min);
                if self.findings.get(row.longest).is_none_or(|longest| weight(longest) < weight(finding)) {
                    row.longest = place;
                }
            }
        }
    }

    fn stage(&self, activity: &Activity) -> Stage {
        Stage {
            period: activity.period_ns,
            execution_time: self.flow.run(activity.handler).time_ns.saturating_mul(activity.events),
            priority: self.flow.handler(activity.handler).map_or(0, Handler::priority),
            after: activity.after,
        }
    }

    /// The lowest priority that a handler depends on.
    fn priority_min(&self, handler: usize) -> i32 {
        let own = || self.flow.handler(handler).map_or(0, Handler::priority);
        self.rows.get(&handler).map_or_else(own, |row| row.priority_min)
    }

    /// Whether no gap matters to a handler that runs.
    fn is_known(&self, handler: usize) -> bool {
        self.rows.get(&handler).is_some_and(|row| row.priority_min > self.unknown_max)
    }

    fn names<'h>(&self, handlers: impl ExactSizeIterator<Item = &'h usize>) -> String {
        listed(handlers.map(|handler| self.port(*handler)))
    }

    fn report(&self, server: Option<String>, times: &mut ResponseTimes) {
        let mut judged: Vec<usize> = self.judged.iter().copied().collect();
        judged.sort_by_key(|handler| self.priority_min(*handler));
        for gap in &self.gaps {
            let waiting = judged.partition_point(|handler| self.priority_min(*handler) <= gap.priority);
            if waiting > 0 {
                let names = self.names(judged.iter().take(waiting));
                let reason = format!("{}; until then nothing is known of {names}", gap.reason);
                times.problems.push(Problem::new(self.place(gap.handler), reason));
            }
        }
        times.problems.extend(self.refusal.iter().map(|reason| Problem::new("plan", reason)));
        let losses = self.losses();
        let mut lost: BTreeMap<usize, Vec<usize>> = losses.keys().map(|handler| (*handler, Vec::new())).collect();
        for (place, handler) in self.flow.handlers.iter().enumerate() {
            if !self.reached.contains(&place) && !self.judged.contains(&place) && handler.time_ns().is_none() {
                continue;
            }
            let late = self.late(place, handler);
            let losing = self.lost_before(place, &losses);
            let verdict = handler.deadline_ns().map(|_| match (&late, losing) {
                (Some((verdict, _)), _) => *verdict,
                (None, Some(at)) => {
                    lost.entry(at).or_default().push(place);
                    Verdict::Lost
                }
                (None, None) => Verdict::Holds,
            });
            match late {
                Some((_, Some(reason))) if self.judged.contains(&place) => {
                    times.problems.push(Problem::new(self.place(place), reason));
                }
                Some((_, Some(reason))) => times.notes.push(format!("{}: {reason}", self.place(place))),
                _ => {}
            }
            times.ports.push(self.port_time(place, handler, verdict));
        }
        for (handler, (loss, advice)) in losses {
            match lost.get(&handler).filter(|deadlines| !deadlines.is_empty()) {
                Some(deadlines) => {
                    let reason =
                        format!("{loss}, and deadlines missed then: {}; {advice}", self.names(deadlines.iter()));
                    times.problems.push(Problem::new(self.place(handler), reason));
                }
                None => times.notes.push(format!("{}: {loss}; {advice}", self.place(handler))),
            }
        }
        let is_ordinary = |handler: &usize| self.rows.get(handler).is_some_and(|row| row.priority_min == 0);
        let ordinary: Vec<usize> = self.judged.iter().copied().filter(is_ordinary).collect();
        if !ordinary.is_empty() {
            times.notes.push(format!(
                "times that depend on lanes at ordinary priority hold as long as nothing else runs on the processor: {}",
                self.names(ordinary.iter())
            ));
        }
        let (utilisation, is_partial) = (self.utilisation(i32::MIN), !self.gaps.is_empty());
        times.processors.push(Processor { server, utilisation, is_partial });
    }

    fn place(&self, handler: usize) -> String {
        format!("ports.{:?}", self.port(handler))
    }

    fn port_time(&self, place: usize, handler: &Handler<'_>, verdict: Option<Verdict>) -> PortTime {
        let row = self.rows.get(&place);
        let longest = row.filter(|_| self.is_known(place)).and_then(|row| self.findings.get(row.longest));
        let response_ns = longest.and_then(|finding| match finding.response {
            Response::Worst(time) => Some(time),
            _ => None,
        });
        PortTime {
            port: handler.port.clone(),
            server: handler.lane.server.to_owned(),
            lane: handler.lane.to_string(),
            priority: handler.lane.priority,
            periods_ns: row.map(|row| row.periods_ns.iter().copied().collect()).unwrap_or_default(),
            response_ns,
            deadline_ns: handler.deadline_ns(),
            verdict,
        }
    }

    /// Why a deadline does not hold, but for losses, or why there is no bound. Where something is unknown its gap says that.
    fn late(&self, place: usize, handler: &Handler<'_>) -> Option<(Verdict, Option<String>)> {
        let deadline = handler.deadline_ns().unwrap_or(u64::MAX);
        let Some((row, finding)) = self.rows.get(&place).and_then(|row| Some((row, self.findings.get(row.longest)?)))
        else {
            return Some((Verdict::Unknown, None));
        };
        let busiest = || self.busiest(row.longest, finding);
        match finding.response {
            // More work does not make it less.
            Response::Unbounded => {
                let reason = format!(
                    "it falls behind without end: what runs at its priority and above takes {:.1} % of a processor; the largest part is {}",
                    self.utilisation(self.least_urgent(row.longest).map_or(0, Handler::priority)) * 100.0,
                    busiest()
                );
                Some((Verdict::Missed, Some(reason)))
            }
            _ if !self.is_known(place) => Some((Verdict::Unknown, None)),
            Response::Worst(time) if time <= deadline => None,
            Response::Worst(time) | Response::AtLeast(time) => {
                let reason = format!(
                    "up to {} pass until {} has ended, {} more than its deadline of {}; the largest part is {}",
                    format_time(time),
                    handler.port,
                    format_time(time.saturating_sub(deadline)),
                    format_time(deadline),
                    busiest()
                );
                Some((Verdict::Missed, Some(reason)))
            }
            Response::Unknown => {
                let why = finding.why.map(|why| format!("its response time is not known: {why}"));
                Some((Verdict::Unknown, why))
            }
        }
    }

    /// What takes most of a response, and what helps.
    fn busiest(&self, own: usize, finding: &StageFinding) -> String {
        let Some((most, runs)) = finding.busiest else { return String::new() };
        let Some(activity) = self.activities.get(most) else { return String::new() };
        let time = self.stage(activity).execution_time;
        let calls = if self.flow.run(activity.handler).handlers.len() > 1 { " with what it calls" } else { "" };
        let times = if runs > 1 { format!("{runs} times ") } else { String::new() };
        let lane = self.flow.handler(activity.handler).map(|handler| handler.lane.to_string()).unwrap_or_default();
        let name = self.port(activity.handler);
        // What comes before it on the way is not left behind by a higher priority.
        let least = self.least_urgent(own).filter(|_| self.way(own).all(|(place, _)| place != most));
        let advice = least
            .map(|least| format!(", or put {} on a lane of a higher priority", least.instance))
            .unwrap_or_default();
        format!("{name}{calls} on {lane} ({times}{}): have that take less time{advice}", format_time(time))
    }

    /// The handler of the lowest priority on the way to an activity.
    fn least_urgent(&self, activity: usize) -> Option<&Handler<'p>> {
        self.way(activity).filter_map(|(_, of)| self.flow.handler(of.handler)).min_by_key(|handler| handler.priority())
    }

    /// Utilisation by all that is known at a priority and above.
    #[expect(clippy::cast_precision_loss, reason = "shown to people, and compared with nothing that decides")]
    fn utilisation(&self, priority_min: i32) -> f64 {
        let stages = self.activities.iter().map(|activity| self.stage(activity));
        let here = stages.filter(|stage| stage.priority >= priority_min);
        here.fold(0.0, |sum, stage| sum + stage.execution_time as f64 / stage.period as f64)
    }

    /// Where events may be discarded, or ticks left out: each with how, and what to do.
    fn losses(&self) -> BTreeMap<usize, (String, String)> {
        let mut losses = BTreeMap::new();
        let mut waiting: BTreeMap<usize, u64> = BTreeMap::new();
        for (activity, finding) in self.activities.iter().zip(&self.findings) {
            let Some(handler) = self.flow.handler(activity.handler).filter(|_| self.is_known(activity.handler)) else {
                continue;
            };
            let Response::Worst(time) = finding.response else { continue };
            if handler.interval_ns.is_none() {
                let events = time.div_ceil(activity.period_ns).saturating_mul(activity.events);
                let sum = waiting.entry(activity.handler).or_default();
                *sum = sum.saturating_add(events);
            } else {
                let late = time.saturating_sub(self.stage(activity).execution_time);
                if late >= activity.period_ns {
                    let loss = format!(
                        "ticks may be left out: one may begin {}, an interval or more, late",
                        format_time(late)
                    );
                    let advice = format!(
                        "put {} on a lane of a higher priority, or give it a longer interval",
                        handler.instance
                    );
                    losses.insert(activity.handler, (loss, advice));
                }
            }
        }
        for (place, needed) in waiting {
            let settings = self.flow.handler(place).and_then(queue_of);
            let max = settings.map_or(QueueSettings::default().events_max, |queue| queue.events_max);
            if needed > u64::from(max) {
                let advice = match u32::try_from(needed) {
                    Ok(needed) if needed <= EVENTS_MAX => format!("give MaxEventsPerConsumer = {needed}"),
                    _ => "let fewer come".to_owned(),
                };
                losses.insert(place, (format!("its queue of {max} may be full: {needed} events may wait"), advice));
            }
        }
        losses
    }

    /// Where an event on the way to a handler may be lost.
    fn lost_before(&self, handler: usize, losses: &BTreeMap<usize, (String, String)>) -> Option<usize> {
        let of = |activity: &Activity| self.flow.run(activity.handler).handlers.contains(&handler);
        let mut activities = self.activities.iter().enumerate().filter(|(_, activity)| of(activity));
        activities.find_map(|(place, _)| {
            self.way(place).map(|(_, activity)| activity.handler).find(|handler| losses.contains_key(handler))
        })
    }
}

fn queue_of<'h>(handler: &'h Handler<'_>) -> Option<&'h QueueSettings> {
    handler.settings?.queue.as_ref()
}

/// Names, not more of them than one reads.
fn listed<'n>(mut names: impl ExactSizeIterator<Item = &'n str>) -> String {
    let mut text = names.by_ref().take(NAMED_MAX).collect::<Vec<_>>().join(", ");
    if names.len() > 0 {
        text += &format!(", {} more", names.len());
    }
    text
}

/// What makes one finding longer than another.
fn weight(finding: &StageFinding) -> (u8, u64) {
    match finding.response {
        Response::Worst(time) | Response::AtLeast(time) => (0, time),
        Response::Unknown => (1, 0),
        Response::Unbounded => (2, 0),
    }
}

//! The node manager's thread, which owns all plans and processes: supervision. Changes of plans are in `changes`.
//!
//! It waits for what processes say, for requests, and for the time at which something is due. A change of a plan waits here as well, so that
//! all other servers are supervised meanwhile.

use crate::node::changes::Pending;
use crate::node::protocol::{NodeAnswer, NodeStatus, PlanStatus, ServerStatus};
use crate::node::release::{Difference, Release};
use crate::node::settings::Policy;
use crate::node::store::Store;
use crate::plan::Problem;
use crate::process::{END_LIMIT, Process, STEP_LIMIT, Said};
use crate::settings::RestartPolicy;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Instances that a line of the log names.
const INSTANCES_NAMED: usize = 8;

/// What a client's thread wants.
pub(crate) enum Order {
    Status(Option<String>),
    Diff(Arc<Release>),
    Up(Arc<Release>),
    /// Ends a plan; of one over several nodes its part, for the node where it is brought up, if that wants it.
    Down(String, Option<String>),
    /// The steps of a change of a part of a plan, by its name.
    Prepare(Arc<Release>, Vote),
    Configure(String),
    End(String),
    Start(String),
    Vote(String),
    /// The end of a change, by its transaction: whether it stays.
    Decide(String, String, bool),
}

/// A change on which another node decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Vote {
    pub(crate) transaction: String,
    /// The address of that node.
    pub(crate) coordinator: String,
}

impl Vote {
    pub(crate) fn waits(&self) -> String {
        format!("waits for the decision of {}", self.coordinator)
    }
}

/// What the node manager's thread waits for.
pub(crate) enum Event {
    /// What the process of a server of this number, started as the run of this number, says.
    Said(u64, u64, Said),
    Order(Order, Sender<NodeAnswer>),
    Stop,
}

/// What a server is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Configuring,
    Configured,
    Starting,
    Started,
    /// It ended by itself, and is started again when that is due.
    Waiting,
    Ending,
    Ended,
}

impl State {
    const fn name(self) -> &'static str {
        match self {
            Self::Configuring => "configuring",
            Self::Configured => "configured",
            Self::Starting => "starting",
            Self::Started => "started",
            Self::Waiting => "waiting",
            Self::Ending => "ending",
            Self::Ended => "ended",
        }
    }
}

/// A server of a plan, over all its processes.
pub(crate) struct Supervised {
    plan: String,
    name: String,
    pub(crate) release: Arc<Release>,
    process: Option<Process>,
    /// The number of its process: what earlier ones say does not count any more.
    run: u64,
    pub(crate) state: State,
    since: SystemTime,
    began: Instant,
    /// When the step is overdue, or a restart due.
    due: Option<Instant>,
    is_killed: bool,
    /// Whether it is started again when it ends by itself; not while a change of its plan has it.
    pub(crate) is_supervised: bool,
    backoff: Backoff,
    restarts: u64,
    /// Why it ended last by itself, or was not started.
    pub(crate) reason: Option<String>,
}

impl Supervised {
    fn enter(&mut self, state: State, due: Option<Duration>) {
        self.state = state;
        self.since = SystemTime::now();
        self.due = due.map(|due| Instant::now() + due);
    }

    fn instances(&self) -> impl Iterator<Item = &str> {
        let all = self.release.plan.instances.iter();
        all.filter(|(_, instance)| instance.server == self.name).map(|(name, _)| name.as_str())
    }

    /// What a step leads to.
    const fn aim(&self) -> &'static str {
        if matches!(self.state, State::Configuring) { "configured" } else { "started" }
    }

    /// The server, for the log.
    fn label(&self) -> String {
        let mut names: Vec<&str> = self.instances().collect();
        let more = names.len().saturating_sub(INSTANCES_NAMED);
        names.truncate(INSTANCES_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("plan {}: server {} ({}{more})", self.plan, self.name, names.join(", "))
    }

    fn status(&self) -> ServerStatus {
        ServerStatus {
            name: self.name.clone(),
            node: self.release.assignment.as_ref().map(|of| of.node.clone()),
            pid: self.process.as_ref().map(Process::id),
            state: self.state.name().to_owned(),
            since_ms: milliseconds(self.since),
            restarts: self.restarts,
            reason: self.reason.clone(),
            instances: self.instances().map(str::to_owned).collect(),
        }
    }
}

fn milliseconds(moment: SystemTime) -> u64 {
    moment.duration_since(UNIX_EPOCH).ok().and_then(|time| u64::try_from(time.as_millis()).ok()).unwrap_or(0)
}

/// A plan that is up.
pub(crate) struct Deployed {
    pub(crate) release: Arc<Release>,
    /// The numbers of its servers, by name.
    pub(crate) servers: BTreeMap<String, u64>,
    pub(crate) since: SystemTime,
    /// Servers that were never configured since the node manager was started: until they are, or have failed to, the others wait.
    pub(crate) unready: BTreeSet<u64>,
}

/// The owner of all plans and processes.
pub(crate) struct Manager {
    pub(crate) policy: Arc<Policy>,
    pub(crate) store: Arc<Store>,
    pub(crate) plans: BTreeMap<String, Deployed>,
    /// Changes that go on, or wait for a decision, by plan.
    pub(crate) pending: BTreeMap<String, Pending>,
    /// Changes that the last node manager has voted for: their plans come up when the decision is known.
    pub(crate) voted: BTreeMap<String, Vote>,
    /// Plans that could not be read, and why.
    pub(crate) refused: BTreeMap<String, String>,
    pub(crate) servers: BTreeMap<u64, Supervised>,
    pub(crate) is_stopping: bool,
    restart: RestartPolicy,
    /// The number given last, to a server or a run.
    last: u64,
    events: Receiver<Event>,
    sender: Sender<Event>,
}

impl Manager {
    pub(crate) fn new(
        policy: Arc<Policy>,
        store: Arc<Store>,
        (sender, events): (Sender<Event>, Receiver<Event>),
    ) -> Self {
        Self {
            policy,
            store,
            plans: BTreeMap::new(),
            pending: BTreeMap::new(),
            voted: BTreeMap::new(),
            refused: BTreeMap::new(),
            servers: BTreeMap::new(),
            is_stopping: false,
            restart: RestartPolicy::default(),
            last: 0,
            events,
            sender,
        }
    }

    /// Runs until it is to stop; all servers are ended then.
    pub(crate) fn run(mut self) {
        while !self.is_stopping {
            if let Some((order, answer)) = self.next() {
                let outcome = match order {
                    Order::Up(release) => self.up(release),
                    Order::Down(name, coordinator) => self.down(&name, coordinator.as_deref()),
                    Order::Prepare(release, vote) => self.prepare_part(release, vote),
                    Order::Configure(name) => self.configure_part(&name),
                    Order::End(name) => self.end_part(&name),
                    Order::Start(name) => self.start_part(&name),
                    Order::Vote(name) => self.vote(&name),
                    Order::Decide(name, transaction, is_commit) => self.decide(&name, &transaction, is_commit),
                    other => self.look(other),
                };
                // The client may be gone.
                let _ = answer.send(outcome);
            }
        }
        let all: Vec<u64> = self.servers.keys().copied().collect();
        self.end(&all);
    }

    /// Waits for the next event, and handles it. Returns a client's request.
    fn next(&mut self) -> Option<(Order, Sender<NodeAnswer>)> {
        let due = self.servers.values().filter_map(|server| server.due).min();
        let event = match due {
            Some(due) => self.events.recv_timeout(due.saturating_duration_since(Instant::now())).ok(),
            None => self.events.recv().ok(),
        };
        let mut request = None;
        match event {
            Some(Event::Order(order, answer)) => request = Some((order, answer)),
            Some(Event::Said(id, run, said)) => self.on_said(id, run, said),
            Some(Event::Stop) => self.is_stopping = true,
            None => {}
        }
        self.on_due();
        request
    }

    /// Makes a server, which is not started yet.
    pub(crate) fn make(&mut self, release: &Arc<Release>, name: &str, is_supervised: bool) -> u64 {
        self.last += 1;
        let server = Supervised {
            plan: release.plan.name.clone(),
            name: name.to_owned(),
            release: release.clone(),
            process: None,
            run: 0,
            state: State::Ended,
            since: SystemTime::now(),
            began: Instant::now(),
            due: None,
            is_killed: false,
            is_supervised,
            backoff: Backoff::default(),
            restarts: 0,
            reason: None,
        };
        self.servers.insert(self.last, server);
        self.last
    }

    /// Starts the process of a server, by the plan in a file.
    pub(crate) fn spawn(&mut self, id: u64, file: &Path) {
        self.last += 1;
        let run = self.last;
        let Some(server) = self.servers.get_mut(&id) else { return };
        let events = self.sender.clone();
        // Events after the end of the node manager have no reader.
        let tell = move |said| drop(events.send(Event::Said(id, run, said)));
        let plan = &server.release.plan;
        let programs = self.policy.programs(plan);
        let checked = self.policy.check(plan, &server.name).map_err(|problem| problem.to_string());
        let label = format!("{}/{}", server.plan, server.name);
        let command = checked.and_then(|()| programs.server(&server.name, file));
        let process = command.and_then(|command| Process::start(command, &label, tell));
        (server.run, server.began, server.is_killed) = (run, Instant::now(), false);
        server.enter(State::Configuring, Some(STEP_LIMIT));
        match process {
            Ok(process) => server.process = Some(process),
            Err(reason) => self.on_end(id, reason),
        }
    }

    fn on_said(&mut self, id: u64, run: u64, said: Said) {
        let Some(server) = self.servers.get_mut(&id).filter(|server| server.run == run) else { return };
        match (said, server.state) {
            (Said::Configured, State::Configuring) => {
                server.enter(State::Configured, None);
                self.ready(id);
            }
            (Said::Started, State::Starting) => server.enter(State::Started, None),
            (Said::Exited, _) if server.process.is_some() => {
                let status = server.process.as_mut().and_then(Process::status);
                self.on_exit(id, status);
            }
            // A process without standard output still runs; one that says something twice or too early is not believed.
            _ => {}
        }
    }

    /// A server was configured, or has failed to: those of its plan that waited for it are started.
    fn ready(&mut self, id: u64) {
        let Some(plan) = self.servers.get(&id).and_then(|server| self.plans.get_mut(&server.plan)) else { return };
        plan.unready.remove(&id);
        if plan.unready.is_empty() {
            for id in plan.servers.values() {
                if let Some(server) = self.servers.get_mut(id).filter(|server| server.is_supervised) {
                    begin(server);
                }
            }
        }
    }

    /// Has servers that are configured started.
    pub(crate) fn begin(&mut self, ids: &[u64]) {
        for id in ids {
            self.servers.get_mut(id).map(begin);
        }
    }

    /// The process of a server has ended, or does not.
    fn on_exit(&mut self, id: u64, status: Option<ExitStatus>) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        let last_line = server.process.take().and_then(|process| process.last_line());
        let last_line = last_line.map_or_else(String::new, |line| format!("; its last line: {line}"));
        let ended = match status {
            _ if server.is_killed && server.state != State::Ending => {
                format!("it was not {} within {} s, and was killed", server.aim(), STEP_LIMIT.as_secs())
            }
            Some(status) if server.state == State::Started => format!("it ended with {status}"),
            Some(status) => format!("it ended with {status} before it was {}", server.aim()),
            None => "it has ended".to_owned(),
        };
        self.on_end(id, ended + &last_line);
    }

    /// A server has no process.
    fn on_end(&mut self, id: u64, reason: String) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        if server.state == State::Ending {
            return server.enter(State::Ended, None);
        }
        server.reason = Some(reason);
        if server.is_supervised {
            self.schedule(id);
        } else {
            server.enter(State::Ended, None);
        }
        self.ready(id);
    }

    /// Says when a server that has ended is started again.
    fn schedule(&mut self, id: u64) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        let (label, reason) = (server.label(), server.reason.clone().unwrap_or_default());
        let pause = server.backoff.failed(&self.restart, server.began.elapsed());
        server.enter(State::Waiting, Some(pause));
        match server.backoff.failures {
            1 => log::warn!("{label}: {reason}; it is started again after {} ms", pause.as_millis()),
            failures if failures == self.restart.restarts_max => log::error!(
                "{label} failed {failures} times in a row, and is started again every {} s: {reason}",
                pause.as_secs()
            ),
            _ => {}
        }
    }

    /// Has a server started again when it ends by itself from now on, or has.
    pub(crate) fn supervise(&mut self, id: u64) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        server.is_supervised = true;
        if server.process.is_none() {
            self.schedule(id);
        }
    }

    /// Ends what takes too long, and starts again what waited for that.
    fn on_due(&mut self) {
        let now = Instant::now();
        let due: Vec<u64> = self
            .servers
            .iter()
            .filter(|(_, server)| server.due.is_some_and(|due| due <= now))
            .map(|(id, _)| *id)
            .collect();
        for id in due {
            let Some(server) = self.servers.get_mut(&id) else { continue };
            match &mut server.process {
                None => {
                    server.restarts += 1;
                    let file = self.store.file(&server.plan);
                    self.spawn(id, &file);
                }
                Some(process) if !server.is_killed => {
                    process.kill();
                    server.is_killed = true;
                    server.due = Some(now + END_LIMIT);
                    if server.state == State::Ending {
                        log::warn!("{} did not end within {} s, and is killed", server.label(), STEP_LIMIT.as_secs());
                    }
                }
                Some(_) => self.on_exit(id, None),
            }
        }
    }

    /// What a server is doing that has not started: a change of its plan replaces it.
    pub(crate) fn not_started(&self, id: u64) -> Option<State> {
        let state = self.servers.get(&id).map_or(State::Ended, |server| server.state);
        Some(state).filter(|state| *state != State::Started)
    }

    /// Waits until servers are in a state.
    pub(crate) fn wait_for(&mut self, ids: &[u64], state: State) -> Result<(), Problem> {
        loop {
            let mut is_reached = true;
            for server in ids.iter().filter_map(|id| self.servers.get(id)) {
                if server.state == state {
                    continue;
                }
                is_reached = false;
                if server.process.is_none() {
                    let reason = server.reason.clone().unwrap_or_default();
                    return Err(Problem::new(format!("servers.{}", server.name), reason));
                }
            }
            if is_reached {
                return Ok(());
            }
            if self.is_stopping {
                return Err(Problem::new("node", "the node manager is being ended"));
            }
            self.pump();
        }
    }

    /// Ends servers: all at once, then each is waited for.
    pub(crate) fn end(&mut self, ids: &[u64]) {
        for id in ids {
            let Some(server) = self.servers.get_mut(id) else { continue };
            server.is_supervised = false;
            match &mut server.process {
                Some(process) => {
                    process.close();
                    server.enter(State::Ending, Some(STEP_LIMIT));
                }
                None => server.enter(State::Ended, None),
            }
        }
        while ids.iter().filter_map(|id| self.servers.get(id)).any(|server| server.state != State::Ended) {
            self.pump();
        }
    }

    /// Handles the next event while a change goes on.
    fn pump(&mut self) {
        if let Some((order, answer)) = self.next() {
            let _ = answer.send(self.look(order));
        }
    }

    /// Answers what changes nothing.
    fn look(&self, order: Order) -> NodeAnswer {
        match order {
            Order::Diff(release) => {
                let old = self.plans.get(&release.plan.name);
                let mut differences = release.differences(old.map(|old| &*old.release));
                let servers = old.into_iter().flat_map(|old| &old.servers);
                for (server, id) in servers.filter(|(server, _)| release.parts.contains_key(*server)) {
                    if let Some(state) = self.not_started(*id) {
                        let (old, new) = (state.name().to_owned(), State::Started.name().to_owned());
                        let (server, key) = (server.clone(), "state".to_owned());
                        differences.push(Difference { server, key, old: Some(old), new: Some(new) });
                    }
                }
                NodeAnswer::Differences(differences)
            }
            Order::Status(name) => self.status(name.as_deref()),
            _ => NodeAnswer::refused("node", "busy: a plan is being changed; try again"),
        }
    }

    fn status(&self, wanted: Option<&str>) -> NodeAnswer {
        let is_meant = |name: &String| wanted.is_none_or(|wanted| wanted == name);
        let waiting = |name: &String| self.pending.get(name).filter(|pending| pending.has_voted);
        let status = |name: &String, since_ms, servers: Vec<u64>, refused| PlanStatus {
            name: name.clone(),
            since_ms,
            servers: servers.iter().filter_map(|id| Some(self.servers.get(id)?.status())).collect(),
            refused,
        };
        let up = self.plans.iter().filter(|(name, _)| is_meant(name) && waiting(name).is_none());
        let up = up
            .map(|(name, plan)| status(name, milliseconds(plan.since), plan.servers.values().copied().collect(), None));
        let pending = self.pending.keys().filter(|name| is_meant(name)).filter_map(waiting).map(|pending| {
            status(&pending.release.plan.name, 0, pending.servers().collect(), pending.vote.as_ref().map(Vote::waits))
        });
        let refused = self.refused.iter().filter(|(name, _)| is_meant(name)).map(|(name, reason)| PlanStatus {
            name: name.clone(),
            since_ms: 0,
            servers: Vec::new(),
            refused: Some(reason.clone()),
        });
        let plans: Vec<PlanStatus> = up.chain(pending).chain(refused).collect();
        match wanted {
            Some(wanted) if plans.is_empty() => self.unknown(wanted),
            _ => NodeAnswer::Status(NodeStatus { plans, ..NodeStatus::default() }),
        }
    }

    /// Refuses a name.
    pub(crate) fn unknown(&self, name: &str) -> NodeAnswer {
        let known: Vec<_> = self.plans.keys().chain(self.refused.keys()).map(String::as_str).collect();
        let known =
            if known.is_empty() { "there is none".to_owned() } else { format!("there are: {}", known.join(", ")) };
        NodeAnswer::refused(name, format!("no such plan is up; {known}"))
    }
}

/// Has a server that is configured started.
fn begin(server: &mut Supervised) {
    if server.state == State::Configured
        && let Some(process) = &mut server.process
    {
        // One that has ended is found by that.
        let _ = process.begin();
        server.enter(State::Starting, Some(STEP_LIMIT));
    }
}

/// Failures of a server in a row.
#[derive(Default)]
struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The pause after a server has ended that ran for so long.
    fn failed(&mut self, policy: &RestartPolicy, ran: Duration) -> Duration {
        self.failures = if ran < policy.within { self.failures.saturating_add(1) } else { 1 };
        if self.failures < policy.restarts_max { policy.pause(self.failures) } else { policy.within }
    }
}

#[cfg(test)]
mod tests {
    use super::Backoff;
    use crate::RestartPolicy;
    use std::time::Duration;

    #[test]
    fn pauses_are_doubled_and_long_after_ten_failures_in_a_row() {
        let (mut backoff, policy) = (Backoff::default(), RestartPolicy::default());
        let mut after = |seconds| backoff.failed(&policy, Duration::from_secs(seconds)).as_millis();
        let pauses: Vec<_> = (0..12).map(|_| after(59)).collect();
        let expected = [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000, 60_000, 60_000, 60_000];
        assert_eq!(pauses, expected);
        assert_eq!([after(60), after(0)], [100, 200]);
    }
}

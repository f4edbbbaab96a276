//! The administration thread.
//!
//! It runs at a lower priority than any lane, owns all objects, executes requests in batches, publishes one new routing snapshot per batch,
//! and only then lets the replies go: a client that receives "connected" is connected.

mod answers;
mod permissions;
mod status;

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use engine::{DisconnectReason, LaneChange, LaneId, Notice, ProxyKey, Time};

use crate::admin::analyses::Analyses;
use crate::admin::audit::{Audit, outcome_of};
use crate::admin::client_lines::ClientLines;
use crate::admin::dead_letters::DeadLetterInquiry;
use crate::admin::drain::{Drain, Next, Undone};
use crate::admin::effects::Effect;
use crate::admin::fair_queue::{Client, FairQueue};
use crate::admin::inquiry::{HistoryInquiry, Inquiry};
use crate::admin::link_orders::LinkOrders;
use crate::admin::misses::Misses;
use crate::admin::notices::{describe_notice, describe_supplier};
use crate::admin::persistence::Persistence;
use crate::admin::program;
use crate::admin::publishing::Publishing;
use crate::admin::refusals::{Episodes, Refusals, of_refused};
use crate::admin::values::{Answer, Command, Declined, Query};
use crate::admin::waiting::{Instead, Sending, Waiting};
use crate::config::Config;
use crate::counters::{Block, Counter, Counters};
use crate::lane::io::net::Waker;
use crate::lane::links::lane_registry::LaneRegistry;
use crate::lane::links::mailbox::Inbox;
use crate::lane::links::messages::{LaneThread, SupplierNews, ToAdministration, ToLane};
use crate::lane::reports::Allowance;
use crate::protocols::dds::Board;
use crate::protocols::{
    ANSWER_BYTES_MAX, Act, ActOutcome, Answered, Creations, DelayedReply, Denied, Fault, Objects, Request,
    SupplierStatus, Unpublished, Wish,
};
use crate::shutdown_request::ShutdownRequest;
use crate::time;
use access::Right;
use accounts::{Principal, Refused};

/// Requests served before their effects are published, and the maximum time for them: answers are posted only then.
const BATCH: usize = 64;
const BATCH_FOR: Duration = Duration::from_millis(1);
/// Delay after which lines left out are summed up, if there is nothing else to do.
const SUMS_UP_IN: Duration = Duration::from_secs(1);
/// Messages taken before requests are served.
const MESSAGES_PER_ROUND: usize = 1_024;
/// Time for which requests are still served once the service is to stop.
const STOPPING_FOR: Duration = Duration::from_millis(100);
/// Maximum lines per second about disconnected consumers and clients that could not be notified.
const LINES: u32 = 100;

/// The administration thread.
pub(crate) struct Administration {
    /// Objects that clients can name, and the effects of changes to them.
    pub(crate) objects: Objects,
    pub(crate) publishing: Publishing,
    /// The lanes, and their messages.
    pub(crate) lane_registry: LaneRegistry,
    /// Queue of requests, and of work for clients that are gone.
    pub(crate) requests: FairQueue<ToAdministration>,
    pub(crate) analyses: Analyses,
    /// Messages of the service itself, and the waker for these and all others.
    pub(crate) orders: Inbox<ToAdministration>,
    pub(crate) waker: Arc<Waker>,
    pub(crate) counters: Arc<Block>,
    pub(crate) registry: Counters,
    pub(crate) answers: Withheld,
    pub(crate) misses: Misses,
    pub(crate) persistence: Persistence,
    pub(crate) inquiry: Inquiry,
    pub(crate) histories: HistoryInquiry,
    pub(crate) dead_letters: DeadLetterInquiry,
    /// Status boards of the joins to DDS.
    pub(crate) dds_joins: Vec<Board>,
    /// Lanes to end after the last publication is out.
    pub(crate) leaving: Vec<LaneId>,
    pub(crate) ending: Ending,
    /// Configuration at the start. Added links have to be valid beside it.
    pub(crate) config: Box<Config>,
    /// Start of the service.
    pub(crate) origin: Instant,
    pub(crate) log: Log,
}

/// Answers that wait.
#[derive(Default)]
pub(crate) struct Withheld {
    /// Answers that wait until the changes of this round are on disk.
    pub(crate) done: Vec<Sending>,
    /// Answers that wait until changes are published.
    pub(crate) unpublished: Vec<(Unpublished, Sending)>,
    /// Answers that wait until clients are notified.
    pub(crate) delayed_replies: BTreeMap<DelayedReply, Sending>,
    /// Orders that wait for the main lane.
    pub(crate) link_orders: LinkOrders,
}

/// End of the service, and whether it is to hurry.
#[derive(Default)]
pub(crate) struct Ending {
    pub(crate) drain: Option<Drain>,
    pub(crate) hurry: Arc<AtomicBool>,
    /// Notified when a client with that right has requested the end of the service.
    pub(crate) shutdown_request: Arc<ShutdownRequest>,
}

/// Limits of log lines.
pub(crate) struct Log {
    /// Administration's own lines.
    pub(crate) lines: Allowance,
    /// Lines that clients cause by requests.
    pub(crate) client_lines: ClientLines,
    /// Recent refusals for want of resources.
    pub(crate) refusals: Refusals,
    pub(crate) denials: Episodes<(Option<Right>, IpAddr)>,
    /// Addresses with very many requests for objects that do not exist.
    pub(crate) misses: Episodes<IpAddr>,
    pub(crate) log_lines: Allowance,
    pub(crate) audit: Audit,
}

impl Log {
    pub(crate) fn new() -> Self {
        Self {
            lines: Allowance::new("disconnected clients", LINES),
            client_lines: ClientLines::new(),
            refusals: Refusals::default(),
            denials: Episodes::default(),
            misses: Episodes::default(),
            log_lines: Allowance::new("clients that come and go", LINES),
            audit: Audit::new(),
        }
    }
}

/// Maximum names in one answer.
const NAMES_MAX: usize = 1_024;

/// Result of taking messages.
#[derive(PartialEq, Eq)]
enum Found {
    Nothing,
    Something,
    /// The service is to stop.
    Stop,
}

/// Answers of a batch, which wait until the changes before them are published.
type Answers = Vec<Sending>;

impl Administration {
    /// Runs until the service is to stop, and then ends the lanes.
    pub(crate) fn run(mut self) -> Undone {
        while self.round() {}
        self.end()
    }

    /// Waits for work, and does it. False if the service is to stop.
    pub(crate) fn round(&mut self) -> bool {
        let mut answers = Vec::new();
        self.objects.handle_time(self.now());
        self.carry_out_effects();
        self.sums_up();
        let stopping = self.go_on_draining() || self.receive(&mut answers);
        let mut served = Vec::new();
        if stopping {
            self.serve_last(&mut answers);
        } else {
            served = self.serve_requests(&mut answers);
        }
        let since = time::now();
        self.publish();
        self.keep();
        answers.into_iter().for_each(|answer| self.send(answer));
        core::mem::take(&mut self.answers.done).into_iter().for_each(|answer| self.send_when_stored(answer));
        self.answer_published();
        self.carry_out_effects();
        self.answer_stored();
        self.answer_misses();
        // The work that a batch causes is charged to its requests.
        self.requests.charge_all(&served, time::since(since));
        !stopping
    }

    /// Sends the withheld answers, and ends the lanes.
    pub(crate) fn end(mut self) -> Undone {
        let unpublished = core::mem::take(&mut self.answers.unpublished).into_iter().map(|(_, answer)| answer);
        let withheld = core::mem::take(&mut self.answers.delayed_replies).into_values();
        self.keep_all();
        unpublished.chain(withheld).for_each(|answer| self.send_when_stored(answer));
        self.answer_all_misses();
        let stored = self.persistence.write_last();
        stored.into_iter().for_each(|answer| self.send(answer));
        self.lane_registry.stop();
        self.persistence.end();
        self.tell_undone()
    }

    /// Asks the lanes what is left, if the service is draining and a look is due. True if it is to end now.
    fn go_on_draining(&mut self) -> bool {
        let Some(drain) = &mut self.ending.drain else { return false };
        match drain.next(time::now(), self.ending.hurry.load(Ordering::Relaxed)) {
            Next::End => true,
            Next::Wait(_) => false,
            Next::Ask => {
                let lanes: Vec<LaneThread> = self.lane_registry.threads().collect();
                drain.begin_look(lanes.clone());
                for lane in lanes {
                    self.lane_registry.send(lane, ToLane::Drain);
                }
                false
            }
        }
    }

    /// Counts and logs the events that were not delivered.
    fn tell_undone(&self) -> Undone {
        let Some(drain) = &self.ending.drain else { return Undone::default() };
        let (undone, lines) = drain.result(|key| self.name(key));
        self.counters.add(Counter::Undelivered, undone.events);
        for line in lines {
            log::warn!("{line}");
        }
        undone
    }

    /// Takes waiting messages. If there is nothing to do, waits for one or for the next timeout. True if the service is to stop.
    fn receive(&mut self, answers: &mut Answers) -> bool {
        // Messages posted after this wake the thread, if they are not found here already.
        self.orders.look();
        self.lane_registry.look();
        self.histories.look();
        let found = self.take_messages(MESSAGES_PER_ROUND, answers);
        if found != Found::Nothing || !self.requests.is_empty() || self.has_to_go_on() {
            return found == Found::Stop;
        }
        let timeouts = self.objects.poll_timeout().into_iter().chain(self.misses.next_due()).min();
        let timeouts = timeouts.map(|due| self.origin + Duration::from_nanos(due.0));
        let draining = self.ending.drain.as_ref().map(|drain| match drain.next(time::now(), false) {
            Next::Wait(due) => due,
            Next::Ask | Next::End => time::now(),
        });
        let summing_up = self.sums_up().then(|| time::now() + SUMS_UP_IN);
        let due = timeouts.into_iter().chain(draining).chain(summing_up).chain(self.persistence.next_due()).min();
        self.waker.wait(due.map(|due| due.saturating_duration_since(time::now())));
        self.take_messages(MESSAGES_PER_ROUND, answers) == Found::Stop
    }

    /// Whether work that is done in chunks has more to do.
    fn has_to_go_on(&self) -> bool {
        self.publishing.has_to_release() || self.persistence.has_to_gather()
    }

    /// Logs how many lines of clients were left out, when that is due. True if more is to be logged later.
    fn sums_up(&mut self) -> bool {
        let now = self.now();
        for sum in [self.log.lines.sum_up(now), self.log.client_lines.sum_up(now)].into_iter().flatten() {
            log::warn!("{sum}");
        }
        for sum in self.log.audit.sum_up(now) {
            log::info!(target: "audit", "{sum}");
        }
        self.log.lines.has_summary() || self.log.client_lines.has_summary() || self.log.audit.has_summary()
    }

    /// Takes up to `most` messages. Requests are queued; all other messages are served at once.
    fn take_messages(&mut self, most: usize, answers: &mut Answers) -> Found {
        let mut found = Found::Nothing;
        for _ in 0..most {
            let order = self.orders.take().map(|order| (LaneThread::MAIN, order));
            let Some((from, message)) = order.or_else(|| self.lane_registry.take()) else { break };
            found = Found::Something;
            match message {
                ToAdministration::Stop(None) => return Found::Stop,
                message => match Client::of(&message, |key| self.objects.charged_address(key)) {
                    Some(client) => self.line_up(client, message, answers),
                    None => self.serve(from, message, answers),
                },
            }
        }
        while let Some((waiting, status)) = self.histories.poll() {
            found = Found::Something;
            let answer = |waiting| self.answered(waiting, Ok(Answer::History(status)));
            answers.extend(waiting.into_iter().map(answer));
        }
        while let Some(answer) = self.poll_dead_letters() {
            found = Found::Something;
            answers.push(answer);
        }
        while let Some((request, answered)) = self.analyses.poll() {
            found = Found::Something;
            self.counters.add(Counter::AnalysesDone, 1);
            answers.push(self.concluded(request, answered, None));
        }
        found
    }

    /// Queues a message for its client's turn. Threads that wait over HTTP give up after a while, and their requests stay queued: of one
    /// address no more than there are such threads.
    fn line_up(&mut self, client: Client, message: ToAdministration, answers: &mut Answers) {
        if let ToAdministration::Notice(Notice::ConsumerDisconnected { key, .. }, _)
        | ToAdministration::Supplier { key, news: SupplierNews::Disconnected(_) } = &message
        {
            // Requests may have their turns before it.
            self.objects.note_given_up(*key);
        }
        if !client.is_over_http() || self.requests.waiting(client) < program::MESSAGES_MAX {
            return self.requests.push(client, message);
        }
        self.counters.add(Counter::AdministrationFull, 1);
        match message {
            ToAdministration::Query(_, to, _) | ToAdministration::Command(_, to, _) => {
                answers.push(Sending::ToProgram(to, Err(Declined::NoResources)));
            }
            ToAdministration::Visit(visit) => {
                answers.push(Sending::ToProgram(visit.to, Err(Declined::NoResources)));
            }
            // Messages that are only logged are dropped; the work for clients that are gone is queued, however much it is.
            ToAdministration::RefusedAct { .. } => {}
            message => self.requests.push(client, message),
        }
    }

    /// Serves some requests; their effects are then published together. Returns the address charged for each, and the time that it took. A
    /// request that may take long begins a batch of its own, so that answers to short ones do not wait for it.
    fn serve_requests(&mut self, answers: &mut Answers) -> Vec<(IpAddr, Duration)> {
        let (begun, mut served) = (time::now(), Vec::new());
        for _ in 0..BATCH {
            let Some((by, message)) = self.requests.pop() else { break };
            let since = time::now();
            match message {
                ToAdministration::Request(request) => self.serve_request(request, answers),
                message => self.serve(LaneThread::MAIN, message, answers),
            }
            let took = time::since(since);
            self.requests.note_served(by, took);
            served.push((by, took));
            if time::since(begun) + self.requests.next_may_take() >= BATCH_FOR {
                break;
            }
        }
        served
    }

    /// Serves the requests that came before the service was to stop, for a limited time; the rest are answered as not
    /// done.
    fn serve_last(&mut self, answers: &mut Answers) {
        self.take_messages(self.lane_registry.waiting(), answers);
        let until = time::now() + STOPPING_FOR;
        while let Some((_, message)) = self.requests.pop() {
            let in_time = time::now() < until;
            match message {
                ToAdministration::Request(request) if in_time => self.serve_request(request, answers),
                ToAdministration::Request(request) => {
                    answers.push(self.answered(Waiting::Client(request), Err(Declined::Stopping)));
                }
                ToAdministration::Surveyed(surveyed) if !in_time => {
                    answers.push(self.answered(surveyed.waiting, Err(Declined::Stopping)));
                }
                // Threads of the process find out for themselves that no answer comes any more.
                message if in_time => self.serve(LaneThread::MAIN, message, answers),
                _ => {}
            }
        }
        while let Some(request) = self.analyses.take_waiting() {
            answers.push(self.answered(Waiting::Client(request), Err(Declined::Stopping)));
        }
    }

    fn serve_request(&mut self, request: Request, answers: &mut Answers) {
        let wish = self.objects.wish(&request);
        if let Some(what) = wish.operation()
            && !self.objects.may_operate(request.account(), what)
        {
            if let Wish::Command(command) = &wish {
                let why = self.objects.take_why().unwrap_or_default();
                let what = self.describe_command(command);
                self.audit(&Principal::Client(Arc::clone(request.account())), &what, &ActOutcome::Denied(why));
            }
            self.note_denials();
            return answers.push(self.answered(Waiting::Client(request), Err(Declined::NotPermitted)));
        }
        match wish {
            Wish::Query(query) => self.answer_query(query, Waiting::Client(request), answers),
            Wish::Command(command) => self.obey(&command, Waiting::Client(request)),
            Wish::Analysis => {
                if let Err((request, spent)) = self.analyses.add(request) {
                    self.note_refused(&Refused::new(spent, request.account()));
                    answers.push(self.answered(Waiting::Client(request), Err(Declined::NoResources)));
                }
            }
            Wish::Own => {
                let before = self.objects.changes_noted();
                let answered = self.execute(&request);
                let made = self.objects.take_made();
                let Some((request, answered)) = self.defer_miss(request, answered) else { return };
                let changed = (self.objects.changes_noted() > before).then_some(made);
                let answer = self.concluded(request, answered, changed);
                self.send_when_notified(answer);
            }
        }
    }

    /// Executes a request on the objects.
    fn execute(&mut self, request: &Request) -> Answered {
        let (ip, now) = (request.account().ip(), self.now());
        let most = self.log.client_lines.left(ip, now);
        let (answered, log_lines) = self.objects.execute(request, most);
        self.log.client_lines.note(ip, now, log_lines);
        self.counters.add(Counter::LogLinesLeftOut, log_lines.left_out.into());
        self.counters.add(Counter::FilterCallsCut, self.objects.take_filter_cuts());
        self.counters.add(Counter::SubscriptionsWidened, self.objects.take_widened());
        while let Some(refused) = self.objects.poll_refused() {
            self.note_refused(&refused);
        }
        while let Some(Act { by, what, outcome }) = self.objects.poll_act() {
            self.audit(&Principal::Client(by), &what, &outcome);
        }
        self.note_denials();
        answered
    }

    // ---- queries and commands ----

    /// Answers a query, at once or when the lanes have reported.
    fn answer_query(&mut self, query: Query, waiting: Waiting, answers: &mut Answers) {
        if let Some(forbidden) = self.forbids_query(&query, &waiting.principal()) {
            return answers.push(self.answered(waiting, Ok(Answer::Denied(forbidden))));
        }
        let answer = match query {
            Query::Counters => Answer::Counters(self.registry.exported()),
            Query::Lanes => Answer::Lanes(self.registry.lanes()),
            Query::Suppliers { behind } => {
                self.objects.handle_time(self.now());
                let named = |supplier: SupplierStatus| {
                    let name = self.name_of("supplier", supplier.key);
                    (supplier, name)
                };
                Answer::Suppliers(self.objects.suppliers(behind).into_iter().map(named).collect())
            }
            Query::Restored { behind } => {
                self.objects.handle_time(self.now());
                Answer::Restored(self.objects.restored(behind))
            }
            Query::DdsJoins => {
                let status = |board: &Board| board.lock().unwrap_or_else(PoisonError::into_inner).clone();
                Answer::DdsJoins(self.dds_joins.iter().map(status).collect())
            }
            Query::Topology => {
                let answer = self.objects.topology().map(Answer::Topology).ok_or(Declined::TooLarge);
                return answers.push(self.answered(waiting, answer));
            }
            Query::History(channel) => {
                if let Some((waiting, answer)) = self.histories.add(channel, waiting) {
                    answers.push(self.answered(waiting, answer));
                }
                return;
            }
            Query::DeadLetters { behind } => return self.list_dead_letters(behind, waiting, answers),
            Query::Federation => return self.list_federation(waiting),
            Query::Names(keys) => {
                let names = keys.iter().take(NAMES_MAX).map(|key| (self.name(*key), self.objects.lasting_name(*key)));
                Answer::Names(names.collect())
            }
            Query::ChannelList { behind } => Answer::ChannelList(self.objects.listed_channels(behind)),
            Query::Timers { channel, behind } => Answer::Timers(self.timers(channel, behind)),
            Query::Channel { channel, behind } => {
                let is_there = self.objects.channel_name(channel).is_some();
                let answer = is_there.then(|| self.objects.channel_json(channel, behind));
                let answer =
                    if answer == Some(None) { Err(Declined::TooLarge) } else { Ok(Answer::Channel(answer.flatten())) };
                return answers.push(self.answered(waiting, answer));
            }
            Query::Consumers
            | Query::Drops
            | Query::Types
            | Query::Channels(_)
            | Query::Figures
            | Query::Links
            | Query::Progress => {
                self.inquiry.add(query, waiting);
                return self.survey();
            }
        };
        answers.push(self.answered(waiting, Ok(answer)));
    }

    /// Carries out a command, if its principal may.
    fn obey(&mut self, command: &Command, waiting: Waiting) {
        self.objects.handle_time(self.now());
        let by = waiting.principal();
        // A disconnected client has no name afterwards.
        let what = self.describe_command(command);
        if let Some(forbidden) = self.forbids_command(command, &by) {
            self.audit(&by, &what, &ActOutcome::Denied(forbidden.rule.clone()));
            let answer = self.answered(waiting, Ok(Answer::Denied(forbidden)));
            return self.answers.done.push(answer);
        }
        let answer = match command {
            Command::DeadLetters { act, channel, dead_letters } => {
                return self.act_on_dead_letters((*act, *channel), dead_letters, (waiting, what));
            }
            Command::PauseLink { name, paused } => return self.pause_link(name, *paused, (waiting, what)),
            Command::AddLink(entry) => return self.add_link(entry, (waiting, what)),
            Command::RemoveLink { name, drop_backlog } => {
                return self.remove_link(name, *drop_backlog, (waiting, what));
            }
            Command::Disconnect(key) => Answer::Disconnected(self.objects.dismiss(*key, &by).into()),
            Command::DisconnectIdle(idle) => {
                let count = self.objects.disconnect_idle(*idle);
                Answer::Disconnected(u32::try_from(count).unwrap_or(u32::MAX))
            }
            Command::ApplyTopology(text) => Answer::Applied(self.apply_topology(text)),
            Command::SetAccess(rules) => {
                self.objects.set_access(rules.clone());
                Answer::Applied(Ok(()))
            }
            Command::SetClientNames(names) => {
                self.objects.rename_clients(|account| names.of(account));
                Answer::Applied(Ok(()))
            }
            Command::DeclareChannel(channel) => Answer::Applied(self.objects.declare_channel(channel)),
            Command::Suspend { key, suspended } => Answer::Done(self.objects.set_suspended(*key, *suspended)),
            Command::SetQos { on, properties } => Answer::Done(self.objects.set_declared(*on, properties)),
        };
        self.audit(&by, &what, &outcome_of(&answer));
        let answer = self.answered(waiting, Ok(answer));
        self.send_when_notified(answer);
    }

    /// Makes an answer's message for its receiver.
    pub(super) fn answered(&self, waiting: Waiting, answer: Result<Answer, Declined>) -> Sending {
        let has_changed = answer.as_ref().is_ok_and(Answer::tells_of_a_change);
        match waiting {
            Waiting::Client(request) => {
                let answered = match &answer {
                    Ok(answer) => request.reply(answer),
                    Err(why) => request.decline(*why),
                };
                self.concluded(request, answered, has_changed.then(Creations::default))
            }
            Waiting::Program(to, _) => Sending::ToProgram(to, answer),
        }
    }

    /// The message to a lane with the reply to a request, which is a refusal if the reply exceeds the size that clients accept. `changed`
    /// is set if the request has changed something, and has the objects that it has made.
    pub(super) fn concluded(&self, request: Request, answered: Answered, changed: Option<Creations>) -> Sending {
        let Answered { mut bytes, fault } = answered;
        if let Some(fault) = fault {
            self.count_fault(fault);
        }
        if bytes.len() > ANSWER_BYTES_MAX {
            self.counters.add(Counter::AnswersTooLarge, 1);
            bytes = request.decline(Declined::TooLarge).bytes;
        }
        // The answer to a one-way request is not read.
        let changed = changed.filter(|_| fault.is_none() && !bytes.is_empty());
        let instead = changed.and_then(|made| {
            let why = if made.is_nothing() { Declined::NotStored } else { Declined::NotMade };
            Some(Instead { bytes: request.not_stored(why)?, made })
        });
        let (lane, message) = request.answered(bytes);
        Sending::ToClient(lane, message, instead)
    }

    /// Time since the start.
    pub(super) fn now(&self) -> Time {
        Time(u64::try_from(time::since(self.origin).as_nanos()).unwrap_or(u64::MAX))
    }

    /// Serves a message that is not a request.
    fn serve(&mut self, from: LaneThread, message: ToAdministration, answers: &mut Answers) {
        match message {
            ToAdministration::Survey { chunk, is_last } => {
                self.inquiry.take_in(from, chunk);
                if is_last {
                    self.surveyed(from, answers);
                }
            }
            ToAdministration::Surveyed(surveyed) => self.answer_one_surveyed(*surveyed, answers),
            ToAdministration::Query(query, to, by) => self.answer_query(query, Waiting::Program(to, by), answers),
            ToAdministration::Command(command, to, by) => self.obey(&command, Waiting::Program(to, by)),
            ToAdministration::Visit(visit) => self.receive_visit(*visit, answers),
            ToAdministration::RefusedAct { by, what, why } => {
                self.audit(&by, &what, &ActOutcome::Denied(why.to_owned()))
            }
            ToAdministration::Notice(notice, why) => self.note(&notice, why.as_deref()),
            ToAdministration::Supplier { key, news } => self.note_supplier(key, &news),
            ToAdministration::Returned { call, how } => self.objects.handle_returned(call, how),
            ToAdministration::Died(host, port) => self.objects.note_death(host, port),
            ToAdministration::Saturation(lane, finding) => {
                let (level, text) = finding.describe(&lane);
                log::log!(level, "{text}");
            }
            ToAdministration::Log(level, text) => log::log!(level, "{text}"),
            ToAdministration::Denied(denied) => self.say_denied(&denied),
            ToAdministration::Ended => {
                if let Some(lane) = self.lane_registry.ended(from) {
                    self.objects.lane_gone(lane);
                }
                self.surveyed(from, answers);
                if let Some(drain) = &mut self.ending.drain {
                    drain.reported(from, time::now());
                }
            }
            ToAdministration::Left { chunk, last } => self.note_left(from, chunk, last),
            ToAdministration::LinkOrdered { number, done, members } => self.link_ordered(number, done, members),
            ToAdministration::Stop(limit) => {
                self.ending.drain = limit.map(|limit| Drain::new(time::now(), limit));
            }
            ToAdministration::Request(_) => {}
        }
    }

    fn publish(&mut self) {
        self.publishing.release();
        self.change_lanes();
        if let Some(published) = self.objects.publish() {
            let concerned = self.publishing.publish(published);
            self.federate_channels();
            self.lane_registry.notify(|lane| concerned.contains(&lane));
        }
        self.count_federated_names();
        // The publication does not name these lanes any more.
        self.change_lanes();
        for lane in core::mem::take(&mut self.leaving) {
            self.lane_registry.retire(lane);
        }
    }

    /// Starts the lanes that the next publication will name, and retires those that end.
    fn change_lanes(&mut self) {
        while let Some(change) = self.objects.poll_lane() {
            match change {
                LaneChange::Started(info) => {
                    if let Err(error) = self.lane_registry.start(&info) {
                        self.counters.add(Counter::LanesRefused, 1);
                        log::error!("lane {} cannot be started: {error}; the main lane serves what is its", info.id.0);
                        self.objects.lane_unavailable(info.id);
                    }
                }
                LaneChange::Ended(lane) => self.leaving.push(lane),
            }
        }
    }

    /// Counts a refusal for want of resources, and logs the first of each episode.
    fn note_refused(&mut self, refused: &Refused) {
        self.counters.add(Counter::of_refusal(refused.spent), 1);
        let now = self.now();
        if self.log.refusals.is_news(of_refused(refused), now) {
            self.say(log::Level::Warn, &refused.to_string());
        }
    }

    /// Counts requests that clients may not make, and logs the first of each episode.
    fn note_denials(&mut self) {
        while let Some(denied) = self.objects.poll_denied() {
            self.counters.add(denied.right.map_or(Counter::OutgoingRefused, Counter::of_denied), 1);
            self.say_denied(&denied);
        }
    }

    /// Logs the denial of a right, once for each episode.
    fn say_denied(&mut self, denied: &Denied) {
        let now = self.now();
        if self.log.denials.is_news((denied.right, denied.ip), now) {
            self.say(log::Level::Warn, &denied.text);
        }
    }

    fn count_fault(&self, fault: Fault) {
        if fault == Fault::Located {
            return;
        }
        self.counters.add(Counter::RequestExceptions, 1);
        let counter = match fault {
            Fault::Object => Counter::WrongKeys,
            Fault::Operation => Counter::WrongOperations,
            Fault::Arguments => Counter::WrongBodies,
            Fault::Located | Fault::Other => return,
        };
        self.counters.add(counter, 1);
    }

    /// Logs a notice of the engine with the consumer's name, and acts on it.
    fn note(&mut self, notice: &Notice, why: Option<&str>) {
        let gone = match notice {
            Notice::DurableRemoved { key, .. } => self.objects.take_gone_durable(*key),
            _ => None,
        };
        let (level, text) = describe_notice(notice, why, |key| gone.clone().unwrap_or_else(|| self.name(key)));
        if let Notice::ConsumerDisconnected { key, reason, .. } = notice {
            self.say(level, &text);
            if *reason != DisconnectReason::Gone {
                self.counters.add(Counter::ConsumersGivenUp, 1);
            }
            if matches!(reason, DisconnectReason::BlockedSuppliers { .. } | DisconnectReason::HoldSpent { .. }) {
                self.counters.add(Counter::ConsumersHolding, 1);
            }
            self.objects.handle_disconnected(*key, *reason);
        } else {
            match notice {
                Notice::ConsumerFailing { key, .. } => self.objects.note_failing(*key, true),
                Notice::ConsumerRecovered { key, .. } => self.objects.note_failing(*key, false),
                Notice::WaitedOut { .. } => self.counters.add(Counter::ConsumersWaitedOut, 1),
                Notice::HoldSpent { .. } => self.counters.add(Counter::ConsumersHoldSpent, 1),
                _ => {}
            }
            // The lane has seen to it that they are not too many.
            log::log!(level, "{text}");
        }
    }

    /// Logs what happened to a supplier that is pulled from, and disconnects one that is gone or given up.
    fn note_supplier(&mut self, key: ProxyKey, news: &SupplierNews) {
        let (level, text) = describe_supplier(news, &self.name_of("supplier", key));
        if let SupplierNews::Disconnected(reason) = news {
            self.say(level, &text);
            if *reason != DisconnectReason::Gone {
                self.counters.add(Counter::SuppliersGivenUp, 1);
            }
            self.objects.handle_disconnected(key, *reason);
        } else {
            self.objects.note_failing(key, matches!(news, SupplierNews::Failing { .. }));
            // The lane has seen to it that they are not too many.
            log::log!(level, "{text}");
        }
    }

    /// Logs a line that clients can cause, unless there are too many of them.
    pub(super) fn say(&mut self, level: log::Level, text: &str) {
        let now = self.now();
        if let Some(sum) = self.log.lines.sum_up(now) {
            log::warn!("{sum}");
        }
        if self.log.lines.take(now, true) {
            log::log!(level, "{text}");
        } else {
            self.counters.add(Counter::LogLinesLeftOut, 1);
        }
    }

    /// Name of a consumer for operators.
    pub(super) fn name(&self, key: ProxyKey) -> String {
        self.name_of("consumer", key)
    }

    fn name_of(&self, what: &str, key: ProxyKey) -> String {
        self.objects.name(what, key)
    }

    fn carry_out_effects(&mut self) {
        while let Some(effect) = self.objects.poll_effect() {
            if let Some(line) = effect.line() {
                line.counter.into_iter().for_each(|counter| self.counters.add(counter, 1));
                self.say(line.level, &line.text);
            }
            match effect {
                Effect::Call(call, what) => _ = self.lane_registry.send(LaneThread::MAIN, ToLane::Call { call, what }),
                Effect::Tell(what) => _ = self.lane_registry.send(LaneThread::MAIN, ToLane::Protocol(what)),
                Effect::DebugLine(text) => self.log_debug(&text),
                Effect::End { .. } => self.ending.shutdown_request.tell(),
                Effect::WithoutStore { .. } => self.counters.add(Counter::PersistentWithoutStore, 1),
                Effect::Hidden(_) => self.counters.add(Counter::ClientsHidden, 1),
                _ => {}
            }
        }
        self.counters.set(Counter::ClientsUnreachable, self.objects.unreachable_clients() as u64);
        self.answer_withheld();
    }

    /// Logs a line for debugging, unless there are too many.
    fn log_debug(&mut self, text: &str) {
        let now = self.now();
        if let Some(sum) = self.log.log_lines.sum_up(now) {
            log::debug!("{sum}");
        }
        if self.log.log_lines.take(now, true) {
            log::debug!("{text}");
        } else {
            self.counters.add(Counter::LogLinesLeftOut, 1);
        }
    }
}

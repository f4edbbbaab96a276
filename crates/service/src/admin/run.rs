//! The administration thread.
//!
//! It runs at the lowest priority, owns all objects (through the CORBA door), executes requests in batches, publishes one
//! new routing snapshot per batch, and only then lets the replies go: a client that has been told "connected" is.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use arc_swap::ArcSwap;
use engine::{
    ChannelRoutes, DisconnectReason, LaneChange, LaneId, Notice, ProxyKey, Remains, Side, Snapshot, Time, Undelivered,
};
use giop::cdr::{Encoding, Writer};
use giop::exception::{Kind, SystemException};
use giop::ior::Ior;
use giop::message::{self, Header, LocateStatus, MessageKind, Request, Response};
use hashbrown::HashMap;

use crate::admin::analyses::{self, Analyses};
use crate::admin::answers::{Answered, answer_with, reply_head};
use crate::admin::client_lines::ClientLines;
use crate::admin::drain::{Drain, Next, Undone};
use crate::admin::notices::{describe_notice, describe_supplier};
use crate::admin::refusals::Refusals;
use crate::admin::turns::{Client, Turns};
use crate::announcement::Announcement;
use crate::counters::{Block, Counter, Counters};
use crate::doors::giop::mail::{self, CallFailure, OWN_ENDIAN, Reply};
use crate::lane::draining::LookedAt;
use crate::lane::io::system::Bell;
use crate::lane::links::mail::{LaneThread, SupplierNews, Survey, Surveys, ToAdministration, ToLane};
use crate::lane::links::post::Inbox;
use crate::lane::links::roster::Roster;
use crate::lane::reports::{Allowance, printable};
use crate::published::Published;
use crate::statistics;
use accounts::Account;
use accounts::Refused;
use corba::event::UtcClock;
use corba::remarks::with_lines;
use corba::{Call, ClientAnswer, Door, Effect, Exception, Farewell, OBJECT_NOT_EXIST, Question, Unpublished};

/// Requests served before their effects are published, and how long they may take: answers are posted only then.
const BATCH: usize = 64;
const BATCH_FOR: Duration = Duration::from_millis(5);
/// Lines that were left out are summed up so much later, where nothing else is to be done.
const SUMS_UP_IN: Duration = Duration::from_secs(1);
/// Letters taken before requests are served.
const LETTERS: usize = 1_024;
/// How long requests are served yet when the service is told to stop.
const STOPPING_FOR: Duration = Duration::from_millis(100);
/// What the others are told then: nothing was done, and there may be another service soon.
const SHUTTING_DOWN: SystemException = SystemException::new(Kind::Transient, 0);
/// Longest wait for a client to answer a call of ours, such as `disconnect_push_consumer`.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Lines in a second about consumers that were disconnected and clients that could not be told something.
pub(crate) const LINES: u32 = 100;
/// Octets of an answer, and so of what one connection is owed beside what it has left unread.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// An outside naming service that cannot be reached is tried again after this time.
const NAMING_RETRY: Duration = Duration::from_secs(5);

/// The administration thread.
pub(crate) struct Administration {
    pub(crate) door: Door,
    pub(crate) published: Arc<ArcSwap<Published>>,
    /// What was published before, until no lane uses it any more: at most what each lane was told last, and one more.
    pub(crate) retired: Vec<Arc<Published>>,
    /// What is left of that.
    pub(crate) remains: VecDeque<Remains>,
    /// The lanes, and their letters.
    pub(crate) roster: Roster,
    /// Requests that wait for their turns.
    pub(crate) requests: Turns<mail::Request>,
    pub(crate) analyses: Analyses,
    /// What the service itself wants, and the bell for that and all letters.
    pub(crate) orders: Inbox<ToAdministration>,
    pub(crate) bell: Arc<Bell>,
    pub(crate) counters: Arc<Block>,
    pub(crate) registry: Counters,
    pub(crate) outside_naming: Option<OutsideNaming>,
    pub(crate) calls: HashMap<u64, Purpose>,
    pub(crate) next_call: u64,
    /// Answers that wait until what was done is published.
    pub(crate) unpublished: Vec<(Unpublished, (LaneThread, ToLane))>,
    /// Answers that wait until clients have been told what was done.
    pub(crate) withheld: BTreeMap<Farewell, (LaneThread, ToLane)>,
    pub(crate) inquiry: Inquiry,
    /// Lanes that are to end when what was published last is out.
    pub(crate) ending: Vec<LaneId>,
    /// The service is about to end, and whether somebody is in a hurry for that.
    pub(crate) drain: Option<Drain>,
    pub(crate) hurry: Arc<AtomicBool>,
    /// When it was begun with, and what of its own lines may be logged since.
    pub(crate) origin: Instant,
    pub(crate) lines: Allowance,
    /// What clients may have logged by what they ask for.
    pub(crate) client_lines: ClientLines,
    /// Who was refused what lately because it would have been too much.
    pub(crate) refusals: Refusals,
    pub(crate) remarks: Allowance,
}

/// What lanes are asked about how they stand.
#[derive(Default)]
pub(crate) struct Inquiry {
    /// Requests that wait until the lanes have told how they stand, and those that came after they were asked. They are
    /// asked once for all of them, since their telling takes time from the events.
    surveying: Vec<mail::Request>,
    to_survey: Vec<mail::Request>,
    /// What the lanes have told so far, and those that have yet to.
    survey: Surveys,
    asked: Vec<LaneThread>,
}

/// An outside naming service in which the factory is to be bound.
pub(crate) struct OutsideNaming {
    pub(crate) url: String,
    pub(crate) context: Ior,
    /// When to try next; nothing while a try is under way or after it succeeded.
    pub(crate) due: Option<Instant>,
    /// To be made when the name is bound.
    pub(crate) announcement: Arc<Announcement>,
}

/// What a call of ours was for.
pub(crate) enum Purpose {
    /// Telling a client something; how it went is only logged.
    Telling { operation: &'static str, whom: String, farewell: Option<Farewell> },
    /// Asking a client something that the door wants to know.
    Asking(Question),
    /// Binding the factory in the outside naming service.
    Naming,
}

/// What was found when letters were taken.
#[derive(PartialEq, Eq)]
enum Found {
    Nothing,
    Something,
    /// Among others, that the service is to stop.
    Stop,
}

/// The answers to what a batch asked. They wait until what they speak of is published.
type Answers = Vec<(LaneThread, ToLane)>;

impl Administration {
    /// Runs until told to stop, and ends the lanes then.
    pub(crate) fn run(mut self) -> Undone {
        let mut answers = Vec::new();
        let mut stopping = false;
        while !stopping {
            self.door.handle_time(self.now());
            self.carry_out_effects();
            self.sums_up();
            stopping = self.go_on_draining() || self.receive(&mut answers);
            if stopping {
                self.serve_last(&mut answers);
            } else {
                self.serve_requests(&mut answers);
            }
            self.publish();
            for (lane, answer) in answers.drain(..) {
                self.roster.post(lane, answer);
            }
            self.answer_published();
            self.carry_out_effects();
        }
        let unpublished = core::mem::take(&mut self.unpublished).into_iter().map(|(_, answer)| answer);
        for (lane, answer) in unpublished.chain(core::mem::take(&mut self.withheld).into_values()) {
            self.roster.post(lane, answer);
        }
        self.roster.stop();
        self.tell_undone()
    }

    /// Asks the lanes what is left, if the service is about to end and it is time to. True if it is to end now.
    fn go_on_draining(&mut self) -> bool {
        let Some(drain) = &mut self.drain else { return false };
        match drain.next(Instant::now(), self.hurry.load(Ordering::Relaxed)) {
            Next::End => true,
            Next::Wait(_) => false,
            Next::Ask => {
                let lanes: Vec<LaneThread> = self.roster.threads().collect();
                drain.begin_look(lanes.clone());
                for lane in lanes {
                    self.roster.post(lane, ToLane::Drain);
                }
                false
            }
        }
    }

    /// Counts and logs what was not delivered.
    fn tell_undone(&self) -> Undone {
        let Some(drain) = &self.drain else { return Undone::default() };
        let (undone, lines) = drain.result(|key| self.name(key));
        self.counters.add(Counter::Undelivered, undone.events);
        for line in lines {
            log::warn!("{line}");
        }
        undone
    }

    /// Takes the letters that are there, and waits if there is nothing to do until one comes or the door is to be told the
    /// time. Also looks after the outside naming service while it has not taken the name. True if the service is to stop.
    fn receive(&mut self, answers: &mut Answers) -> bool {
        let naming = self.outside_naming.as_ref().and_then(|naming| naming.due);
        // Looked at first, because where there is always a letter no wait ever times out.
        if naming.is_some_and(|due| due <= Instant::now()) {
            self.bind_outside();
        }
        // What is posted after this rings, if it is not found here already.
        self.orders.look();
        self.roster.look();
        let found = self.take_letters(LETTERS, answers);
        if found != Found::Nothing || !self.requests.is_empty() || !self.remains.is_empty() {
            return found == Found::Stop;
        }
        let naming = self.outside_naming.as_ref().and_then(|naming| naming.due);
        let probing = self.door.poll_timeout().map(|due| self.origin + Duration::from_nanos(due.0));
        let draining = self.drain.as_ref().map(|drain| match drain.next(Instant::now(), false) {
            Next::Wait(due) => due,
            Next::Ask | Next::End => Instant::now(),
        });
        let summing_up = self.sums_up().then(|| Instant::now() + SUMS_UP_IN);
        let due = naming.into_iter().chain(probing).chain(draining).chain(summing_up).min();
        self.bell.wait(due.map(|due| due.saturating_duration_since(Instant::now())));
        self.take_letters(LETTERS, answers) == Found::Stop
    }

    /// Logs how many lines that clients caused were left out, when it is time. True if there is something to tell later.
    fn sums_up(&mut self) -> bool {
        let now = self.now();
        for sum in [self.lines.sum_up(now), self.client_lines.sum_up(now)].into_iter().flatten() {
            log::warn!("{sum}");
        }
        self.lines.owes() || self.client_lines.owes()
    }

    /// Takes so many letters at most. Requests get in line; what else there is is served at once.
    fn take_letters(&mut self, most: usize, answers: &mut Answers) -> Found {
        let mut found = Found::Nothing;
        for _ in 0..most {
            let order = self.orders.take().map(|order| (LaneThread::MAIN, order));
            let Some((from, letter)) = order.or_else(|| self.roster.take()) else { break };
            found = Found::Something;
            match letter {
                ToAdministration::Stop(None) => return Found::Stop,
                ToAdministration::Request(request) => self.requests.push(Client::of(&request), request),
                other => self.serve(from, other, answers),
            }
        }
        while let Some((request, answered)) = self.analyses.poll() {
            found = Found::Something;
            self.counters.add(Counter::AnalysesDone, 1);
            answers.push(self.concluded(request, answered));
        }
        found
    }

    /// Serves some requests, whose effects are then published together.
    fn serve_requests(&mut self, answers: &mut Answers) {
        let begun = Instant::now();
        for _ in 0..BATCH {
            let Some(request) = self.requests.pop() else { return };
            self.serve_request(request, answers);
            if begun.elapsed() >= BATCH_FOR {
                return;
            }
        }
    }

    /// Serves what was asked before the service was told to stop, unless that takes long: then whoever asked is told that it
    /// was not done.
    fn serve_last(&mut self, answers: &mut Answers) {
        self.take_letters(self.roster.waiting(), answers);
        let until = Instant::now() + STOPPING_FOR;
        while let Some(request) = self.requests.pop() {
            if Instant::now() < until {
                self.serve_request(request, answers);
            } else {
                self.refuse(request, SHUTTING_DOWN, answers);
            }
        }
        while let Some(request) = self.analyses.take_waiting() {
            self.refuse(request, SHUTTING_DOWN, answers);
        }
    }

    fn serve_request(&mut self, request: mail::Request, answers: &mut Answers) {
        match wish(&request) {
            Wish::Survey => {
                self.inquiry.to_survey.push(request);
                self.survey();
            }
            Wish::Analysis => match self.analyses.add(request) {
                Ok(()) => {}
                Err((request, spent)) => {
                    let refused = Refused::new(spent, request.charge.account());
                    self.note_refused(&refused);
                    self.refuse(request, SystemException::new(Kind::NoResources, 0), answers);
                }
            },
            Wish::Other => {
                let answered = self.answer(&request);
                let answer = self.concluded(request, answered);
                match (self.door.take_farewell(), self.door.take_unpublished()) {
                    (Some(farewell), _) => _ = self.withheld.insert(farewell, answer),
                    (None, Some(changed)) => self.unpublished.push((changed, answer)),
                    (None, None) => answers.push(answer),
                }
            }
        }
    }

    /// What a lane is told when a request is answered.
    fn concluded(&self, request: mail::Request, answered: Option<Answered>) -> (LaneThread, ToLane) {
        let Answered { bytes, exception } = answered.unwrap_or_default();
        if let Some(exception) = &exception {
            self.count_exception(exception);
        }
        let bytes = self.limited(&request, bytes);
        request.answered(bytes)
    }

    /// A request is answered with an exception, and nothing was done.
    fn refuse(&self, request: mail::Request, exception: SystemException, answers: &mut Answers) {
        let answered = answer_with(&request, |_, _, _| Err(Exception::System(exception)));
        answers.push(self.concluded(request, answered));
    }

    /// The time since it was begun with.
    fn now(&self) -> Time {
        Time(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Serves whatever is no request.
    fn serve(&mut self, from: LaneThread, letter: ToAdministration, answers: &mut Answers) {
        match letter {
            ToAdministration::Survey { piece, is_last } => {
                self.inquiry.survey.take_in(from, piece);
                if is_last {
                    self.surveyed(from, answers);
                }
            }
            ToAdministration::Notice(notice, why) => self.note(&notice, why.as_deref()),
            ToAdministration::Supplier { key, news } => self.note_supplier(key, &news),
            ToAdministration::Answered { call, result } => self.answered(call, result),
            ToAdministration::Log(level, text) => log::log!(level, "{text}"),
            ToAdministration::Ended => {
                if let Some(lane) = self.roster.ended(from) {
                    self.door.lane_gone(lane);
                }
                self.surveyed(from, answers);
                if let Some(drain) = &mut self.drain {
                    drain.told(from, Instant::now());
                }
            }
            ToAdministration::Left { piece, last } => self.note_left(from, piece, last),
            ToAdministration::Stop(limit) => {
                self.drain = limit.map(|limit| Drain::new(Instant::now(), limit));
            }
            ToAdministration::Request(_) => {}
        }
    }

    /// A lane tells what is left to deliver before the service ends.
    fn note_left(&mut self, from: LaneThread, piece: Vec<Undelivered>, last: Option<LookedAt>) {
        let Some(drain) = &mut self.drain else { return };
        let first = drain.take_in(from, piece, last, Instant::now());
        if let Some((events, consumers)) = first.filter(|(events, _)| *events > 0) {
            log::info!("stopping: takes no more events, and delivers {events} to {consumers} consumers first");
        }
    }

    /// Asks the lanes how they stand, unless they are being asked already.
    fn survey(&mut self) {
        if self.inquiry.surveying.is_empty() && !self.inquiry.to_survey.is_empty() {
            core::mem::swap(&mut self.inquiry.surveying, &mut self.inquiry.to_survey);
            let drops = self.inquiry.surveying.iter().any(|request| asks(request, statistics::GET_DROPS));
            self.inquiry.asked = self.roster.threads().collect();
            for at in 0..self.inquiry.asked.len() {
                let Some(lane) = self.inquiry.asked.get(at) else { break };
                self.roster.post(*lane, ToLane::Survey { drops });
            }
        }
    }

    /// A lane has told how it stands, or has ended. Answers everybody who asked when all have.
    fn surveyed(&mut self, from: LaneThread, answers: &mut Answers) {
        let before = self.inquiry.asked.len();
        self.inquiry.asked.retain(|lane| *lane != from);
        if before == 0 || !self.inquiry.asked.is_empty() {
            return;
        }
        let mut survey = core::mem::take(&mut self.inquiry.survey).together();
        survey.outboxes = statistics::told_of(survey.outboxes);
        for request in core::mem::take(&mut self.inquiry.surveying) {
            let bytes = self.describe(&survey, &request).unwrap_or_default();
            let bytes = self.limited(&request, bytes);
            answers.push(request.answered(bytes));
        }
        self.survey();
    }

    fn describe(&self, survey: &Survey, request: &mail::Request) -> Option<Vec<u8>> {
        let header = Header::parse(&request.message).ok()?;
        let parsed = Request::parse(&request.message, &header).ok()?;
        let mut bytes = Vec::new();
        let open = message::begin_reply(&mut bytes, &reply_head(&parsed, &header));
        let mut writer = open.body(&mut bytes, request.chars);
        if parsed.operation == statistics::GET_DROPS.as_bytes() {
            statistics::write_drops(survey, |key| self.name(key), &mut writer);
        } else {
            statistics::write_consumers(&survey.outboxes, self.now(), |key| self.name(key), &mut writer);
        }
        open.finish(&mut bytes);
        Some(bytes)
    }

    /// An answer, or an exception where it would be larger than clients accept a message to be.
    fn limited(&self, request: &mail::Request, bytes: Vec<u8>) -> Vec<u8> {
        if bytes.len() <= ANSWER_BYTES_MAX {
            return bytes;
        }
        self.counters.add(Counter::AnswersTooLarge, 1);
        let too_large = Exception::System(SystemException::new(Kind::ImpLimit, 0));
        answer_with(request, |_, _, _| Err(too_large)).unwrap_or_default().bytes
    }

    fn publish(&mut self) {
        self.free_retired();
        self.change_lanes();
        if let Some(published) = self.door.publish().map(Published::from) {
            let concerned = lanes_concerned(&self.published.load().routing, &published.routing);
            self.retired.push(self.published.swap(Arc::new(published)));
            self.roster.ring(|lane| concerned.contains(&lane));
        }
        // What is published does not name these any more.
        self.change_lanes();
        for lane in core::mem::take(&mut self.ending) {
            self.roster.retire(lane);
        }
    }

    /// Lets go of what was published before and no lane uses any more. What a lane lets go of last, it must free, and
    /// that may take longer than an event.
    fn free_retired(&mut self) {
        let is_free = |last: &mut Arc<Published>| Arc::strong_count(last) == 1 && Arc::strong_count(&last.routing) == 1;
        for free in self.retired.extract_if(.., is_free) {
            let routing = Arc::into_inner(free).and_then(|last| Arc::into_inner(last.routing));
            self.remains.extend(routing.map(Snapshot::into_remains));
        }
        if self.remains.front_mut().is_some_and(|first| !first.let_go()) {
            self.remains.pop_front();
        }
    }

    /// Starts the lanes that what is published next will name, and notes those that end.
    fn change_lanes(&mut self) {
        while let Some(change) = self.door.poll_lane() {
            match change {
                LaneChange::Started(info) => {
                    if let Err(error) = self.roster.start(&info) {
                        self.counters.add(Counter::LanesRefused, 1);
                        log::error!("lane {} cannot be started: {error}; the main lane serves what is its", info.id.0);
                        self.door.lane_unavailable(info.id);
                    }
                }
                LaneChange::Ended(lane) => self.ending.push(lane),
            }
        }
    }

    /// Executes one request or locate request.
    fn answer(&mut self, request: &mail::Request) -> Option<Answered> {
        let header = Header::parse(&request.message).ok()?;
        if header.kind == MessageKind::LocateRequest {
            let locate = message::LocateRequest::parse(&request.message, &header).ok()?;
            let here = locate.target.key().is_some_and(|key| key == statistics::KEY || self.door.locate(key));
            let status = if here { LocateStatus::ObjectHere } else { LocateStatus::UnknownObject };
            let mut bytes = Vec::new();
            message::locate_reply(&mut bytes, header.version, header.endian, locate.request_id, status);
            return Some(Answered { bytes, exception: None });
        }
        answer_with(request, |parsed, header, reply| self.execute(parsed, header, request, reply))
    }

    fn execute(
        &mut self,
        parsed: &Request<'_>,
        header: &Header,
        request: &mail::Request,
        reply: &mut Writer<'_>,
    ) -> Result<(), Exception> {
        let args = parsed.body(&request.message, header, request.chars);
        let missing = |kind| Exception::System(SystemException::new(kind, 0));
        let key = parsed.target.key().ok_or(Exception::System(OBJECT_NOT_EXIST))?;
        let operation = core::str::from_utf8(parsed.operation).map_err(|_| missing(Kind::BadOperation))?;
        let call = Call { key, operation, args, principal: request.charge.account() };
        if key == statistics::KEY {
            self.door.handle_time(self.now());
            let (door, registry) = (&mut self.door, &self.registry);
            statistics::handle(registry, door, &call, reply)
        } else {
            self.door.handle_utc(time_now());
            let (ip, now) = (request.charge.account().ip(), self.now());
            let most = self.client_lines.left(ip, now);
            let (outcome, remarks) = with_lines(most, || self.door.handle(&call, reply));
            self.client_lines.note(ip, now, remarks);
            self.counters.add(Counter::LogLinesLeftOut, remarks.left_out.into());
            self.counters.add(Counter::FilterCallsCut, self.door.take_filter_cuts());
            while let Some(refused) = self.door.poll_refused() {
                self.note_refused(&refused);
            }
            outcome
        }
    }

    /// Counts what a client was refused because it would have been too much, and logs the first of each episode.
    fn note_refused(&mut self, refused: &Refused) {
        self.counters.add(Counter::of_refusal(refused.spent), 1);
        let now = self.now();
        if self.refusals.is_news(refused, now) {
            self.say(log::Level::Warn, &refused.to_string());
        }
    }

    fn count_exception(&self, exception: &Exception) {
        self.counters.add(Counter::RequestExceptions, 1);
        let Exception::System(system) = exception else { return };
        let counter = match system.kind {
            Kind::ObjectNotExist => Counter::WrongKeys,
            Kind::BadOperation => Counter::WrongOperations,
            Kind::Marshal => Counter::WrongBodies,
            _ => return,
        };
        self.counters.add(counter, 1);
    }

    /// Logs what the engine wants known, with the consumer's name, and follows up what needs following up.
    fn note(&mut self, notice: &Notice, why: Option<&str>) {
        let (level, text) = describe_notice(notice, why, |key| self.name(key));
        if let Notice::ConsumerDisconnected { key, reason, .. } = notice {
            self.say(level, &text);
            if *reason != DisconnectReason::Gone {
                self.counters.add(Counter::ConsumersGivenUp, 1);
            }
            if matches!(reason, DisconnectReason::HeldSuppliers { .. }) {
                self.counters.add(Counter::ConsumersHolding, 1);
            }
            self.door.handle_disconnected(*key, *reason);
        } else {
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
            self.door.handle_disconnected(key, *reason);
        } else {
            // The lane has seen to it that they are not too many.
            log::log!(level, "{text}");
        }
    }

    /// Logs a line that clients can cause, unless there are too many of them.
    fn say(&mut self, level: log::Level, text: &str) {
        let now = self.now();
        if let Some(sum) = self.lines.sum_up(now) {
            log::warn!("{sum}");
        }
        if self.lines.take(now, true) {
            log::log!(level, "{text}");
        } else {
            self.counters.add(Counter::LogLinesLeftOut, 1);
        }
    }

    /// A consumer as an operator would call it.
    fn name(&self, key: ProxyKey) -> String {
        self.name_of("consumer", key)
    }

    fn name_of(&self, what: &str, key: ProxyKey) -> String {
        self.door.name(what, key)
    }

    fn carry_out_effects(&mut self) {
        while let Some(effect) = self.door.poll_effect() {
            match effect {
                Effect::Call { to, by, operation, body, farewell } => {
                    let whom = to.iiop().map_or_else(String::new, |p| format!("{}:{}", printable(&p.host), p.port));
                    self.call((to, by), operation, body, Purpose::Telling { operation, whom, farewell });
                }
                Effect::Ask { question, to, by, operation, body } => {
                    self.call((to, by), operation, body, Purpose::Asking(question));
                }
                Effect::Reaped { proxy, name, unreachable_for } => {
                    self.counters.add(Counter::ClientsReaped, 1);
                    let why = match unreachable_for {
                        Some(time) => format!("it could not be reached for {} ms", time.as_millis()),
                        None => "it does not exist any more".into(),
                    };
                    self.say(log::Level::Warn, &format!("disconnected {name} from {proxy}: {why}"));
                }
                Effect::LetGo { proxy, side, address, idle } => {
                    let (counter, what) = match side {
                        Side::Suppliers => (Counter::SuppliersIdle, "supplier"),
                        Side::Consumers => (Counter::ClientsReaped, "consumer"),
                    };
                    self.counters.add(counter, 1);
                    let whose = address.map_or_else(String::new, |address| format!(" of {address}"));
                    let idle = idle.as_millis();
                    self.say(log::Level::Warn, &format!("disconnected {what} {proxy}{whose}: idle for {idle} ms"));
                }
                Effect::Dismissed { name } => {
                    self.counters.add(Counter::ClientsDismissed, 1);
                    self.say(log::Level::Warn, &format!("disconnected {name}: an operator has let it go"));
                }
                Effect::Remark(text) => {
                    let now = self.now();
                    if let Some(sum) = self.remarks.sum_up(now) {
                        log::debug!("{sum}");
                    }
                    if self.remarks.take(now, true) {
                        log::debug!("{text}");
                    } else {
                        self.counters.add(Counter::LogLinesLeftOut, 1);
                    }
                }
                // The lane forgets whoever is not in the published peers any more.
                Effect::ReleasePeer(_) => {}
            }
        }
        self.answer_withheld();
    }

    /// Lets the answers go whose requests' changes are published. Those stay that wait for one that concerns very many.
    fn answer_published(&mut self) {
        let Self { unpublished, door, roster, .. } = self;
        for (_, (lane, answer)) in unpublished.extract_if(.., |(changed, _)| door.is_published(changed)) {
            roster.post(lane, answer);
        }
    }

    /// Lets the answers go that need not wait for clients any more.
    fn answer_withheld(&mut self) {
        while let Some((farewell, all_told)) = self.door.poll_farewell() {
            if !all_told {
                self.counters.add(Counter::DestroysNotWaitedFor, 1);
            }
            if let Some((lane, answer)) = self.withheld.remove(&farewell) {
                self.roster.post(lane, answer);
            }
        }
    }

    /// Has the main lane call an object, of which a client gave the reference if that is known.
    fn call(
        &mut self,
        (to, by): (Ior, Option<Arc<Account>>),
        operation: &'static str,
        body: Vec<u8>,
        purpose: Purpose,
    ) {
        let call = self.next_call;
        self.next_call += 1;
        self.calls.insert(call, purpose);
        let letter = ToLane::Call { call, to, by, operation, body, timeout: CALL_TIMEOUT };
        self.roster.post(LaneThread::MAIN, letter);
    }

    fn answered(&mut self, call: u64, result: Result<Reply, CallFailure>) {
        match (self.calls.remove(&call), result) {
            (None, _) => {}
            (Some(Purpose::Telling { operation, whom, farewell }), result) => {
                if let Some(farewell) = farewell {
                    self.door.handle_told(farewell);
                }
                match result {
                    Ok(reply) => log::debug!("told {whom} {operation}; {} bytes came back", reply.reader().remaining()),
                    Err(failure) => {
                        self.say(log::Level::Info, &format!("could not tell {whom} {operation}: {failure}"))
                    }
                }
            }
            (Some(Purpose::Asking(question)), result) => self.door.handle_answer(question, client_answer(&result)),
            (Some(Purpose::Naming), result) => self.outside_answered(result.map(drop)),
        }
    }

    /// Binds the factory in the outside naming service under the name by which clients look for it.
    fn bind_outside(&mut self) {
        let Some(naming) = &mut self.outside_naming else { return };
        naming.due = None;
        let context = naming.context.clone();
        let mut body = Vec::new();
        let mut writer = Writer::new(&mut body, Encoding::new(OWN_ENDIAN));
        writer.u32(1);
        writer.string("NotifyEventChannelFactory");
        writer.string("");
        self.door.factory_reference().write(&mut writer);
        self.call((context, None), "rebind", body, Purpose::Naming);
    }

    fn outside_answered(&mut self, result: Result<(), CallFailure>) {
        let Some(naming) = &mut self.outside_naming else { return };
        match result {
            Ok(()) => {
                log::info!("bound NotifyEventChannelFactory in {}", naming.url);
                if let Err(error) = naming.announcement.make(&self.door.factory_reference().to_string()) {
                    log::error!("cannot write the reference file: {error}");
                }
            }
            Err(failure) => {
                log::warn!(
                    "cannot bind NotifyEventChannelFactory in {} ({failure}); next try in {} s",
                    naming.url,
                    NAMING_RETRY.as_secs()
                );
                naming.due = Some(Instant::now() + NAMING_RETRY);
            }
        }
    }
}

/// The lanes that have something to do because of new routing: those of channels that have changed, and the main lane. The
/// others pick it up when they have something to do, and are not woken for it.
fn lanes_concerned(before: &Snapshot, now: &Snapshot) -> BTreeSet<LaneId> {
    let mut concerned = BTreeSet::from([LaneId::MAIN]);
    let find = |routing: &'_ Snapshot, channel: &Arc<ChannelRoutes>| {
        let at = routing.channels().binary_search_by_key(&channel.id(), |other| other.id()).ok();
        at.and_then(|at| routing.channels().get(at)).is_some_and(|other| Arc::ptr_eq(other, channel))
    };
    for (these, others) in [(before, now), (now, before)] {
        let changed = these.channels().iter().filter(|channel| !find(others, channel));
        concerned.extend(changed.flat_map(|channel| channel.lanes()));
    }
    concerned
}

/// What time it is in the world, as a `TimeBase::TimeT`.
fn time_now() -> u64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    UtcClock::new(Time(0), since_1970).utc
}

/// What the door needs to know of how a call of a client ended.
fn client_answer(result: &Result<Reply, CallFailure>) -> ClientAnswer {
    match result {
        Ok(reply) => ClientAnswer::Returned(reply.reader().bool().ok()),
        Err(CallFailure::Unreachable(_)) => ClientAnswer::Unreachable,
        Err(CallFailure::TimedOut) => ClientAnswer::TimedOut,
        Err(CallFailure::User(_)) => ClientAnswer::Raised,
        Err(CallFailure::System(exception)) => match exception.kind {
            Kind::NoImplement | Kind::BadOperation => ClientAnswer::NotImplemented,
            Kind::ObjectNotExist => ClientAnswer::Gone,
            _ => ClientAnswer::Raised,
        },
    }
}

/// Who is to serve a request.
enum Wish {
    /// The lanes have to be asked how they stand.
    Survey,
    /// The thread that analyses.
    Analysis,
    /// Administration itself.
    Other,
}

fn wish(request: &mail::Request) -> Wish {
    if asks(request, statistics::GET_CONSUMERS) || asks(request, statistics::GET_DROPS) {
        Wish::Survey
    } else if analyses::is_wanted(request) {
        Wish::Analysis
    } else {
        Wish::Other
    }
}

/// Whether a request is for this operation of the `Statistics` object.
fn asks(request: &mail::Request, operation: &str) -> bool {
    Header::parse(&request.message).is_ok_and(|header| {
        header.kind == MessageKind::Request
            && Request::parse(&request.message, &header).is_ok_and(|parsed| {
                parsed.target.key() == Some(statistics::KEY)
                    && parsed.operation == operation.as_bytes()
                    && parsed.response != Response::None
            })
    })
}

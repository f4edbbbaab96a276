//! Pull suppliers: proxies that pull events from clients' objects.
//!
//! Each supplier is called with `try_pull…`, which does not block it. While it has events it is called again as soon as an answer is taken
//! in, one request at a time, so that the fastest supplier gets no more than its turn; otherwise it rests for its `PullInterval`. A
//! suspended supplier is not called, nor one with events for which the channel has no room. One that fails is called again after a back-off
//! that doubles, and given up after its `GiveUpAfter`, like a consumer.

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::BinaryHeap;
use std::sync::Arc;

use engine::{
    ChannelId, ChannelRoutes, DisconnectReason, Form, LaneId, Peer, ProxyKey, ProxyState, Snapshot, SupplierRoute,
    SupplierSettings, Time,
};
use giop::exception::Kind;
use hashbrown::HashMap;

use crate::counters::Counter;
use crate::lane::access::Permit;
use crate::lane::budget::Budget;
use crate::lane::context::Context;
use crate::lane::intake::Submission;
use crate::lane::io::slots::{Slots, Token};
use crate::lane::links::messages::SupplierNews;
use crate::lane::run::Core;
use crate::protocols::giop::Protocol;
use crate::protocols::giop::admin_messages::{self, OWN_ENDIAN};
use crate::protocols::giop::calls::{Ask, Asker, UnderWay};
use crate::protocols::giop::claims::Claim;
use crate::protocols::giop::replies::{DISCONNECTED, Verdict};
use crate::protocols::giop::unused::Around;
use access::Right;
use corba::event::{self, FORM_STRUCTURED};

/// Maximum events requested at a time from a supplier of sequences.
const EVENTS_PER_POLL: i32 = 64;
/// Maximum capacity of an answer's buffer that is reused, in octets.
const ANSWER_BUFFER_BYTES: usize = 256 << 10;
/// First back-off after a failure, and the longest.
const BACKOFF: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// A proxy that pulls.
struct Puller {
    key: ProxyKey,
    peer: Peer,
    form: Form,
    batches: bool,
    settings: SupplierSettings,
    suspended: bool,
    state: State,
    failures: u32,
    failing_since: Time,
}

#[derive(Clone, Copy)]
enum State {
    /// Waiting for its next call.
    Resting,
    /// A call is under way, with its time limit.
    Polling(UnderWay, Option<Time>),
    /// There is no room for more of its events, or remote filters are asked about them.
    Blocked,
    /// The supplier was given up, or is not connected. Routing will forget it.
    Ended,
}

/// All proxies that pull.
#[derive(Default)]
pub(crate) struct Pullers {
    all: Slots<Puller>,
    /// Progress of the search for overdue calls.
    looked_at: Around,
    by_key: HashMap<ProxyKey, Token>,
    /// The routing from which they were last taken.
    snapshot: Arc<Snapshot>,
    /// Times of the next calls. Entries of suppliers that are gone or busy are skipped.
    due: BinaryHeap<Reverse<(Time, u64)>>,
}

impl Pullers {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Time of the next call.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.due.peek().map(|Reverse((time, _))| *time)
    }

    /// Maximum events requested from a supplier of sequences; `None` for a supplier of single events.
    pub(crate) fn events_requested(&self, token: Token) -> Option<u32> {
        self.all.get(token).filter(|puller| puller.batches).map(|_| EVENTS_PER_POLL.unsigned_abs())
    }

    fn rest(&mut self, token: Token, until: Time) {
        if let Some(puller) = self.all.get_mut(token) {
            puller.state = State::Resting;
            self.due.push(Reverse((until, token.to_bits())));
        }
    }
}

impl Core {
    /// Handles the end of a supplier's call: its answer, or its failure.
    pub(crate) fn conclude_poll(&mut self, token: Token, verdict: Verdict) {
        let Some(puller) = self.protocols.giop.pullers.all.get_mut(token) else { return };
        puller.state = State::Resting;
        let peer = puller.peer;
        match verdict {
            Verdict::Done => {
                // The supplier's own news report failures and recovery.
                let _ = self.protocols.giop.outgoing.note_heard(peer);
                let answer = core::mem::take(&mut self.protocols.giop.outgoing.scratch.answer);
                let taken = self.take_in_pulled(token, &answer);
                if answer.body.capacity() <= ANSWER_BUFFER_BYTES {
                    self.protocols.giop.outgoing.scratch.answer = answer;
                }
                match taken {
                    Ok(events) => self.protocols.giop.go_on_polling(token, events, &mut self.cx),
                    Err(why) => self.protocols.giop.fail_poll(token, &why, &mut self.cx),
                }
            }
            Verdict::Forward(to) if self.protocols.giop.outgoing.follow(peer, &to) => {
                self.protocols.giop.poll_supplier(token, &mut self.cx)
            }
            Verdict::Lost(_) if self.protocols.giop.outgoing.ask_elsewhere(peer, &mut self.cx) => {
                self.protocols.giop.poll_supplier(token, &mut self.cx)
            }
            Verdict::User(id) if id == DISCONNECTED => {
                self.protocols.giop.end_polling(token, DisconnectReason::Gone, &mut self.cx)
            }
            Verdict::System(exception)
                if exception.kind == Kind::ObjectNotExist && !self.protocols.giop.outgoing.return_home(peer) =>
            {
                self.protocols.giop.end_polling(token, DisconnectReason::Gone, &mut self.cx);
            }
            verdict => {
                self.protocols.giop.outgoing.return_home(peer);
                self.protocols.giop.fail_poll(token, &verdict.to_string(), &mut self.cx);
            }
        }
    }

    /// Event types that a pull supplier is limited to, by the rights of the account that connected it.
    fn permit_pulled(&mut self, token: Token, key: ProxyKey) -> Result<Permit, String> {
        if !self.access.is_on() {
            return Ok(None);
        }
        let peer = self.protocols.giop.pullers.all.get(token).map(|puller| puller.peer);
        let address = peer.and_then(|peer| self.protocols.giop.outgoing.peers.get(peer));
        let Some(account) = address.and_then(|address| address.by.clone()) else { return Ok(None) };
        self.access.may(&account, Right::Publish, key.channel).map_err(|scope| {
            let why = scope.why(None);
            let what = "events that are pulled (publish)";
            self.access.deny(&account, Right::Publish, key.channel, (why, &what), &mut self.cx);
            "its rules of access do not let its events in".to_owned()
        })
    }

    /// Takes in the events of an answer. Returns their number.
    ///
    /// # Errors
    /// The reason why the answer cannot be read.
    fn take_in_pulled(&mut self, token: Token, answer: &admin_messages::Reply) -> Result<usize, String> {
        let Some(puller) = self.protocols.giop.pullers.all.get(token) else { return Ok(0) };
        let (key, form, batches) = (puller.key, puller.form, puller.batches);
        let body = answer.reader();
        let mut work = event::work_for(answer.body.len());
        let unreadable = |error| format!("its reply cannot be read: {error}");
        let permit = self.permit_pulled(token, key)?;
        let mut submission =
            Submission::new(key, crate::protocols::Claim::Giop(Claim::Puller(token)), None).permitted(permit);
        let count;
        if batches {
            // More than the maximum that was asked for (Notification Service 1.1, 3.1.4.2) would be taken in at one go, too.
            let given = body.clone().u32().unwrap_or(0);
            if given > EVENTS_PER_POLL.unsigned_abs() {
                return Err(format!("its reply has {given} events, where {EVENTS_PER_POLL} were requested at most"));
            }
            let mut batch = core::mem::take(&mut self.protocols.giop.batch_in);
            let read = batch.read_pulled(true, &body, &mut work);
            count = batch.len();
            if read.is_ok() {
                self.take_in_batch(&mut submission, &batch, &body, 0..count);
            }
            self.protocols.giop.batch_in = batch;
            read.map_err(unreadable)?;
        } else {
            let pulled = event::read_pulled(form, true, &body, &mut work).map_err(unreadable)?;
            count = usize::from(pulled.is_some());
            if let Some((event, known)) = pulled {
                self.take_in_one(&mut submission, form, &event, known);
            }
        }
        self.cx.counters.add(Counter::EventsPolled, count as u64);
        match self.finish_submission(&submission) {
            Ok(true) => Ok(count),
            Ok(false) => {
                if let Some(puller) = self.protocols.giop.pullers.all.get_mut(token) {
                    puller.state = State::Blocked;
                }
                Ok(count)
            }
            // An event that is refused is lost, and counted: its supplier has given it away.
            Err(_) => Ok(0),
        }
    }
}

impl Protocol {
    /// Takes over pull suppliers from the routing, on the main lane only.
    pub(crate) fn place_pullers(&mut self, cx: &mut Context) {
        if cx.identity.id != LaneId::MAIN {
            return;
        }
        let snapshot = Arc::clone(cx.lane.snapshot());
        let before = core::mem::replace(&mut self.pullers.snapshot, Arc::clone(&snapshot));
        for channel in snapshot.channels() {
            match routes_of(&before, channel.id()) {
                Some(last) if Arc::ptr_eq(last, channel) => {}
                Some(last) => {
                    for (proxy, route) in channel.suppliers_changed_from(last) {
                        self.place_puller(ProxyKey { channel: channel.id(), proxy }, route, cx);
                    }
                }
                None => {
                    for (proxy, route) in channel.suppliers() {
                        self.place_puller(ProxyKey { channel: channel.id(), proxy }, Some(route), cx);
                    }
                }
            }
        }
        for channel in before.channels().iter().filter(|channel| routes_of(&snapshot, channel.id()).is_none()) {
            let of_it = self.pullers.by_key.keys().filter(|key| key.channel == channel.id());
            for key in of_it.copied().collect::<Vec<ProxyKey>>() {
                self.forget_puller(key);
            }
        }
    }

    /// Takes over the route of one supplier's proxy.
    fn place_puller(&mut self, key: ProxyKey, route: Option<&SupplierRoute>, cx: &mut Context) {
        let route = route.filter(|route| route.pull).and_then(|route| Some((route, route.peer?)));
        let Some((route, peer)) = route else { return self.forget_puller(key) };
        let suspended = route.state == ProxyState::Suspended;
        let known = self.pullers.by_key.get(&key).copied();
        let (all, now) = (&mut self.pullers.all, cx.clock.now);
        if let Some(token) = known
            && let Some(puller) = all.get_mut(token).filter(|puller| puller.peer == peer)
        {
            let resumes = puller.suspended && !suspended;
            puller.suspended = suspended;
            puller.settings = route.settings;
            if resumes && matches!(puller.state, State::Resting) {
                self.pullers.rest(token, now);
            }
            return;
        }
        self.forget_puller(key);
        let token = self.pullers.all.insert(Puller {
            key,
            peer,
            form: route.form,
            batches: route.batches,
            settings: route.settings,
            suspended,
            state: State::Resting,
            failures: 0,
            failing_since: now,
        });
        self.pullers.by_key.insert(key, token);
        self.pullers.rest(token, now);
    }

    /// Stops pulling from a supplier.
    fn forget_puller(&mut self, key: ProxyKey) {
        let Some(token) = self.pullers.by_key.remove(&key) else { return };
        let Some(puller) = self.pullers.all.remove(token) else { return };
        if let State::Polling(under_way, _) = puller.state {
            self.outgoing.stop_asking(under_way);
        }
    }

    /// Calls the suppliers that are due, the longest due first. A client may have a thousand that are due at once: those beyond the round's
    /// budget stay due.
    pub(crate) fn serve_pullers(&mut self, cx: &mut Context) {
        if cx.reporting.draining.has_begun() {
            return;
        }
        let budget = if cx.io.quotas.are_shared() { Budget::CONNECTIONS } else { Budget::MESSAGES };
        for _ in 0..budget.events {
            let Some(Reverse((_, bits))) =
                self.pullers.due.peek().copied().filter(|Reverse((time, _))| *time <= cx.clock.now)
            else {
                return;
            };
            self.pullers.due.pop();
            let token = Token::from_bits(bits);
            let rests = self.pullers.all.get(token).is_some_and(|puller| matches!(puller.state, State::Resting));
            if rests {
                self.poll_supplier(token, cx);
            }
        }
    }

    /// Ends overdue calls, of suppliers in the next places.
    pub(crate) fn end_late_polls(&mut self, cx: &mut Context) {
        let now = cx.clock.now;
        let is_late = |puller: &Puller| matches!(puller.state, State::Polling(_, Some(due)) if due <= now);
        let Pullers { all, looked_at, .. } = &mut self.pullers;
        let places = looked_at.next(all.places());
        let late = all.range_mut(places).filter(|(_, puller)| is_late(puller));
        let late: Vec<Token> = late.map(|(token, _)| token).collect();
        for token in late {
            if let Some(Puller { state: State::Polling(under_way, _), .. }) = self.pullers.all.get(token) {
                self.outgoing.stop_asking(*under_way);
                cx.counters.add(Counter::PollTimeouts, 1);
                self.fail_poll(token, "no reply in time", cx);
            }
        }
    }

    fn poll_supplier(&mut self, token: Token, cx: &mut Context) {
        let Some(puller) = self.pullers.all.get_mut(token) else { return };
        // Resuming it makes it due again.
        if puller.suspended {
            puller.state = State::Resting;
            return;
        }
        let (peer, batches, limit) = (puller.peer, puller.batches, puller.settings.reply_timeout);
        let operation = match (puller.form, batches) {
            (_, true) => "try_pull_structured_events",
            (FORM_STRUCTURED, false) => "try_pull_structured_event",
            _ => "try_pull",
        };
        let ask = Ask {
            operation,
            asker: Asker::Puller(token),
            endian: OWN_ENDIAN,
            connect_timeout: puller.settings.connect_timeout,
        };
        let begun = self.outgoing.ask(
            peer,
            &ask,
            |arguments| {
                if batches {
                    arguments.i32(EVENTS_PER_POLL);
                }
                Ok(())
            },
            cx,
        );
        cx.counters.add(Counter::Polls, 1);
        match begun {
            Ok(under_way) => {
                let due = (!limit.is_zero()).then(|| cx.clock.now + limit);
                if let Some(puller) = self.pullers.all.get_mut(token) {
                    puller.state = State::Polling(under_way, due);
                }
            }
            Err(why) => self.fail_poll(token, &why, cx),
        }
    }

    /// Continues after an answer with so many events.
    fn go_on_polling(&mut self, token: Token, events: usize, cx: &mut Context) {
        let Some(puller) = self.pullers.all.get_mut(token) else { return };
        let (key, interval) = (puller.key, puller.settings.pull_interval);
        if core::mem::take(&mut puller.failures) > 0 {
            self.tell_of_supplier(key, SupplierNews::Recovered, cx);
        }
        let blocked = self.pullers.all.get(token).is_some_and(|puller| matches!(puller.state, State::Blocked));
        match events {
            _ if blocked => {}
            0 => self.pullers.rest(token, cx.clock.now + interval),
            _ => self.poll_supplier(token, cx),
        }
    }

    /// Resumes a supplier, since there is room for its events again.
    pub(crate) fn resume_polling(&mut self, token: Token, cx: &mut Context) {
        if let Some(puller) = self.pullers.all.get_mut(token)
            && matches!(puller.state, State::Blocked)
        {
            puller.state = State::Resting;
            self.poll_supplier(token, cx);
        }
    }

    fn fail_poll(&mut self, token: Token, why: &str, cx: &mut Context) {
        cx.counters.add(Counter::PollsFailed, 1);
        let now = cx.clock.now;
        let Some(puller) = self.pullers.all.get_mut(token) else { return };
        if puller.failures == 0 {
            puller.failing_since = now;
        }
        puller.failures = puller.failures.saturating_add(1);
        let (key, failures, limit) = (puller.key, puller.failures, puller.settings.gives_up_after());
        let failing_for = now.since(puller.failing_since);
        if !limit.is_zero() && failing_for >= limit {
            return self.end_polling(token, DisconnectReason::GivenUp { failures, failing_for }, cx);
        }
        let doublings = (failures - 1).min(16);
        let retry_in = BACKOFF.saturating_mul(1 << doublings).min(BACKOFF_MAX);
        self.pullers.rest(token, now + retry_in);
        if failures == 1 {
            self.tell_of_supplier(key, SupplierNews::Failing { why: why.to_owned(), retry_in }, cx);
        }
    }

    fn end_polling(&mut self, token: Token, reason: DisconnectReason, cx: &mut Context) {
        let Some(puller) = self.pullers.all.get_mut(token) else { return };
        puller.state = State::Ended;
        let key = puller.key;
        self.tell_of_supplier(key, SupplierNews::Disconnected(reason), cx);
    }

    fn tell_of_supplier(&mut self, key: ProxyKey, news: SupplierNews, cx: &mut Context) {
        if !cx.reporting.reports.supplier(key, news, cx.clock.now) {
            cx.counters.add(Counter::LogLinesLeftOut, 1);
        }
    }
}

/// A channel's part of a snapshot.
fn routes_of(snapshot: &Snapshot, channel: ChannelId) -> Option<&Arc<ChannelRoutes>> {
    let at = snapshot.channels().binary_search_by_key(&channel, |routes| routes.id()).ok()?;
    snapshot.channels().get(at)
}

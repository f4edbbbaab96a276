//! The leader's threads: one that calls the follower and ships, one for other leaders that call, and one for the operator.
//!
//! The store's thread hands over each batch under a lock held for moments, and in synchronous mode waits until it is confirmed. No lane and
//! no best-effort event comes here.

use core::time::Duration;
use std::fmt::Write as _;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use super::follower::other_service;
use super::following::StandbyFollower;
use super::frame::{FIRST_BYTES_MAX, Frame, Hello, VERSION, write_batch};
use super::host::{Host, Over, Peer, lock};
use super::leader::{Greeted, Lag, Leader, Progress, Shipment, Unconfirmed};
use super::record_threads::write_status;
use super::right::{Action, Answer, Holder};
use super::stream::Stream;
use crate::counters::{Block, Counter};
use crate::lane::io::net::Waker;
use crate::shutdown_request::ShutdownRequest;
use crate::store::StoreError;
use crate::store::replication::{Part, Position, Replication, Snapshot, StandbyRecord};
use crate::time;

/// Maximum batches, and octets of them, sent before their answers are read.
const SENT_MAX: usize = 256;
const SENT_BYTES_MAX: usize = 4 << 20;
/// Octets of rows in a frame of a copy.
const ROWS_BYTES: usize = 1 << 20;
/// Maximum time for the answer to rows of a copy, and to its end: the follower verifies all of it then.
const ROWS_WITHIN: Duration = Duration::from_secs(60);
const COPY_ENDS_WITHIN: Duration = Duration::from_secs(3_600);
/// Interval between calls of a follower that is not there.
const CALLS_EVERY: Duration = Duration::from_millis(500);
/// Times `lost_after_ms` in which a follower that is lost again, and has nothing more, is not waited for again.
const TIMES_SUSPENDED: u32 = 3;
/// Interval between calls after a refusal, and after a copy that could not keep up.
const CALLS_EVERY_REFUSED: Duration = Duration::from_secs(5);
/// Maximum time for which the end of the service waits for the follower to have what was written last.
const ENDS_WITHIN: Duration = Duration::from_secs(2);
/// Maximum time that an operator waits for a change of roles.
const SWITCHES_WITHIN: Duration = Duration::from_secs(20);
/// Time after which a waiting store looks again, whatever happens.
const LOOKS_EVERY: Duration = Duration::from_secs(1);

/// Why a follower is given up whose copy or tail is of no use any more.
const OUTRUN: &str = "it lacks more than lag_max, or the disk here fails";

/// The answer to an operator who takes the leader for a follower.
const NOT_PROMOTED: &str = "error: this is the leader: `promote` is for its follower\n";
/// Why a follower is refused that the record cannot tell from this machine.
const SAME_MACHINE: &str = "it has this machine's host name and standby.listen, by which the record tells them apart: give one another host \
                            name, or listen at its own address";

/// The state that the threads share.
struct State {
    leader: Leader,
    /// The record of who leads, if there is to be one.
    holder: Option<Holder>,
    began_at: Position,
    snapshot: Option<Result<Snapshot, StoreError>>,
    /// When the follower answered last.
    heard: Instant,
    /// Whether it is on the disk that another leader has taken over.
    is_recorded: bool,
    /// Whether an operator waits for the end of a change of roles.
    is_awaited: bool,
    /// Why there is no follower in step; empty if there is one.
    trouble: String,
}

/// The leader's side of replication in a process.
pub(crate) struct Shipping {
    state: Mutex<State>,
    changed: Condvar,
    origin: Instant,
    store: OnceLock<Arc<Waker>>,
    superseded: OnceLock<Arc<ShutdownRequest>>,
    peer: Option<Peer>,
    is_synchronous: bool,
    over: Arc<Over>,
    /// The connection to the follower, from before its handshake on. Locked behind `state`.
    call: Mutex<Option<TcpStream>>,
    counters: OnceLock<Arc<Block>>,
    /// The follower's process that this one was until its promotion: it answers the former leader until this one does.
    predecessor: Mutex<Option<StandbyFollower>>,
}

/// Why a connection has ended.
enum Trouble {
    Io(io::Error),
    /// The peer refuses, and has seen this epoch.
    Refused(u64, String),
    Lost(&'static str),
    Over,
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Whether a lost follower is waited for: until it was silent for too long, and for one call in any case, as it may have been promoted.
/// `suspended`: when that was begun last, and what the follower had then. A connection that ends again before it has more is not waited for.
fn is_waited_for(suspended: &mut Option<(Instant, u64)>, state: &State, silent: Duration) -> bool {
    let has = state.leader.acknowledged();
    match (state.leader.progress(), *suspended) {
        (Progress::InStep, Some((at, had))) if had == has && time::since(at) < silent * TIMES_SUSPENDED => false,
        (Progress::InStep, _) => {
            *suspended = Some((time::now(), has));
            true
        }
        (Progress::Lost, _) => time::since(state.heard) < silent,
        _ => false,
    }
}

/// What is to be done on a connection.
enum Step {
    Ship(Vec<Shipment>),
    Copy(Snapshot),
    Tick,
    HandOver,
}

impl Shipping {
    pub(crate) fn new(
        leader: Leader,
        began_at: Position,
        (peer, is_synchronous): (Option<Peer>, bool),
        predecessor: Option<StandbyFollower>,
    ) -> Arc<Self> {
        let state = State {
            leader,
            holder: None,
            began_at,
            snapshot: None,
            heard: time::now(),
            is_recorded: false,
            is_awaited: false,
            trouble: String::new(),
        };
        Arc::new(Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            origin: time::now(),
            store: OnceLock::new(),
            superseded: OnceLock::new(),
            peer,
            is_synchronous,
            over: Arc::default(),
            call: Mutex::new(None),
            counters: OnceLock::new(),
            predecessor: Mutex::new(predecessor),
        })
    }

    /// Ends the follower's process that this one was.
    pub(super) fn end_predecessor(&self) {
        drop(lock(&self.predecessor).take());
    }

    /// Sets what is recorded of who leads.
    pub(super) fn set_holder(&self, holder: Holder) {
        lock(&self.state).holder = Some(holder);
    }

    /// Sets where figures are shown.
    pub(super) fn set_counters(&self, counters: Arc<Block>) {
        let _ = self.counters.set(counters);
    }

    pub(crate) const fn over(&self) -> &Arc<Over> {
        &self.over
    }

    pub(crate) const fn peer(&self) -> Option<&Peer> {
        self.peer.as_ref()
    }

    /// Sets the waker of the store's thread.
    pub(crate) fn set_store(&self, waker: Arc<Waker>) {
        let _ = self.store.set(waker);
    }

    /// Has the service end when another leader has taken over and that is on the disk.
    pub(crate) fn end_when_superseded(&self, request: Arc<ShutdownRequest>) {
        let _ = self.superseded.set(request);
        self.tell_superseded();
    }

    fn tell_superseded(&self) {
        let state = lock(&self.state);
        let is_over = state.is_recorded && !state.leader.is_demoted() && !state.is_awaited;
        drop(state);
        if let Some(request) = self.superseded.get().filter(|_| is_over) {
            request.tell();
        }
    }

    /// Whether another leader has taken over.
    pub(crate) fn is_superseded(&self) -> bool {
        lock(&self.state).leader.superseded().is_some()
    }

    /// Has the threads end. What a follower in step lacks is shipped first, for [`ENDS_WITHIN`] at most.
    pub(crate) fn wake(&self) {
        self.changed.notify_all();
        let is_shipping = |state: &mut State| {
            state.leader.progress() == Progress::InStep && state.leader.lag(Duration::ZERO).batches > 0
        };
        drop(self.changed.wait_timeout_while(lock(&self.state), ENDS_WITHIN, is_shipping));
        self.hang_up();
        self.changed.notify_all();
    }

    fn hang_up(&self) {
        if let Some(call) = &*lock(&self.call) {
            let _ = call.shutdown(Shutdown::Both);
        }
    }

    pub(super) fn now(&self) -> Duration {
        time::since(self.origin)
    }

    fn hello(&self) -> Hello {
        let State { leader, began_at, .. } = &*lock(&self.state);
        Hello {
            version: VERSION,
            service: leader.service(),
            epoch: leader.epoch(),
            position: leader.position(),
            began_at: *began_at,
        }
    }

    /// Asks the peer, before anything is served, whether there has been another leader. Returns the record of a follower if so, or why the
    /// peer refuses.
    pub(crate) fn consult(&self) -> (Option<StandbyRecord>, Option<String>) {
        let greeted = self.peer.as_ref().map(|peer| self.greet(&mut peer.connect(|_| Ok(()))?));
        lock(&self.state).leader.lose();
        // A peer that does not answer is called again by the thread.
        let refused = greeted.and_then(Result::err).and_then(|trouble| match trouble {
            Trouble::Refused(_, why) => Some(why),
            _ => None,
        });
        (self.record_due(), refused)
    }

    /// Exchanges the first frames.
    fn greet(&self, stream: &mut Stream) -> Result<Greeted, Trouble> {
        let silent = self.peer.as_ref().map_or(LOOKS_EVERY, |peer| peer.silent);
        stream.send_frame(&Frame::Hello(self.hello()))?;
        match stream.frame(FIRST_BYTES_MAX, silent)? {
            Frame::State(follower) => {
                let greeted = lock(&self.state).leader.greet(&follower);
                self.notify_store();
                match greeted {
                    Greeted::OtherService(other) => {
                        let service = lock(&self.state).leader.service();
                        Err(Trouble::Refused(0, other_service(other, service)))
                    }
                    Greeted::Superseded => Err(Trouble::Refused(follower.epoch, String::new())),
                    Greeted::SameMachine => Err(Trouble::Refused(0, SAME_MACHINE.to_owned())),
                    greeted => Ok(greeted),
                }
            }
            other => Err(self.unexpected(other)),
        }
    }

    /// What a frame that is no answer means.
    fn unexpected(&self, frame: Frame) -> Trouble {
        match frame {
            Frame::Refused { service, epoch, why } => {
                if lock(&self.state).leader.hear(service, epoch) {
                    self.notify_store();
                }
                Trouble::Refused(epoch, why.replace(char::is_control, " "))
            }
            other => {
                Trouble::Io(io::Error::new(io::ErrorKind::InvalidData, format!("it answers with {}", other.name())))
            }
        }
    }

    fn notify_store(&self) {
        self.changed.notify_all();
        if let Some(store) = self.store.get() {
            store.notify();
        }
    }

    // ---- the thread that ships ----

    /// Calls the follower and ships, until the end.
    pub(crate) fn run(&self) {
        let Some(peer) = &self.peer else { return };
        let (mut line, mut suspended) = (String::new(), None);
        while !self.over.is_over() {
            let ended = self.converse(peer, &mut line);
            let is_io = matches!(ended, Trouble::Io(_));
            let was = self.lose(|state| is_io && is_waited_for(&mut suspended, state, peer.silent));
            self.count(Counter::StandbyFollowersLost, u64::from(was == Progress::InStep));
            self.set_figures();
            if lock(&self.state).leader.progress() == Progress::Lost {
                if let (Progress::InStep, Trouble::Io(error)) = (was, &ended) {
                    log::warn!(
                        "standby: lost {} ({error}): it is called before this leader goes on alone",
                        peer.address
                    );
                }
                // At once, and then a few times.
                let again_in = if was == Progress::InStep { Duration::ZERO } else { CALLS_EVERY.min(peer.silent / 4) };
                self.over.wait(again_in);
                continue;
            }
            self.notify_store();
            self.tell_superseded();
            let (said, again_in) = match ended {
                Trouble::Over => return,
                Trouble::Refused(epoch, why) if self.is_superseded() => (
                    format!("another leader has taken over in epoch {epoch}: this one stops serving; {why}"),
                    CALLS_EVERY_REFUSED,
                ),
                Trouble::Refused(_, why) => (format!("{} refuses: {why}", peer.address), CALLS_EVERY_REFUSED),
                Trouble::Lost(why) => {
                    (format!("the follower {} is given up: {why}", peer.address), CALLS_EVERY_REFUSED)
                }
                Trouble::Io(error) => (format!("there is no follower at {}: {error}", peer.address), CALLS_EVERY),
            };
            self.say(&mut line, said);
            self.over.wait(again_in);
        }
        self.lose(|_| false);
        self.notify_store();
    }

    /// Gives the follower up, unless it is to be called before this leader goes on alone. Returns how it stood.
    fn lose(&self, is_waited_for: impl FnOnce(&State) -> bool) -> Progress {
        let mut state = lock(&self.state);
        let was = state.leader.progress();
        if is_waited_for(&state) {
            state.leader.suspend();
        } else {
            state.leader.lose();
        }
        state.snapshot = None;
        *lock(&self.call) = None;
        was
    }

    /// Logs a change, once.
    fn say(&self, line: &mut String, said: String) {
        if *line != said {
            let alone = match lock(&self.state).leader.may_write(self.now()) {
                Ok(()) => "it goes on alone, and what it takes now is not on the follower",
                Err(_) => "nothing persistent is acknowledged",
            };
            log::warn!("standby: {said}; {alone}");
            lock(&self.state).trouble.clone_from(&said);
            *line = said;
        }
    }

    fn converse(&self, peer: &Peer, line: &mut String) -> Trouble {
        let mut is_greeted = false;
        let mut run = || -> Result<(), Trouble> {
            let mut stream = peer.connect(|tcp| self.begin_call(tcp))?;
            if self.greet(&mut stream)? == Greeted::NeedsCopy {
                log::info!("standby: {} needs a copy, which begins", peer.address);
            }
            is_greeted = true;
            if lock(&self.state).leader.is_unrecorded() {
                log::warn!("standby: {} has no standby.record, and does not take over by itself", peer.address);
            }
            let (mut was, mut due) = (Progress::Alone, time::now());
            let lease = lock(&self.state).holder.as_ref().map(|holder| holder.terms().lease);
            // A follower that hears nothing for as long as a lease may take over.
            let ticks_every = lease.map_or(peer.silent, |lease| lease.min(peer.silent)) / 4;
            loop {
                match self.next_step(due)? {
                    Step::Ship(shipments) => self.ship(&mut stream, peer, &shipments)?,
                    Step::Copy(snapshot) => self.copy(&mut stream, snapshot)?,
                    Step::Tick => {
                        let contact_at = self.now();
                        stream.send_frame(&self.tick())?;
                        self.take_answer(&mut stream, peer.silent)?;
                        lock(&self.state).leader.note_answer(contact_at);
                        due = time::now() + ticks_every;
                    }
                    Step::HandOver => self.hand_over(&mut stream)?,
                }
                self.set_figures();
                let progress = lock(&self.state).leader.progress();
                if progress == Progress::InStep && was != progress {
                    log::info!("standby: {} is in step", peer.address);
                    line.clear();
                    lock(&self.state).trouble.clear();
                }
                if progress != was {
                    // The follower is to know at once.
                    (was, due) = (progress, time::now());
                }
            }
        };
        match run().err() {
            // The connection was ended here.
            Some(Trouble::Io(_)) if is_greeted && !lock(&self.state).leader.has_follower() => Trouble::Lost(OUTRUN),
            ended => ended.unwrap_or(Trouble::Over),
        }
    }

    /// Has other threads end this connection. It is refused if the threads are to end.
    fn begin_call(&self, tcp: &TcpStream) -> io::Result<()> {
        *lock(&self.call) = Some(tcp.try_clone()?);
        if self.over.is_over() { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
    }

    /// Waits for something to do.
    fn next_step(&self, tick_at: Instant) -> Result<Step, Trouble> {
        let mut state = lock(&self.state);
        loop {
            if !state.leader.has_follower() {
                return Err(Trouble::Lost(OUTRUN));
            }
            match state.snapshot.take() {
                Some(Ok(snapshot)) if state.leader.is_copying() => return Ok(Step::Copy(snapshot)),
                Some(Err(_)) => return Err(Trouble::Lost("the store cannot be read")),
                _ => {}
            }
            if state.leader.hands_over() {
                return Ok(Step::HandOver);
            }
            let left = tick_at.saturating_duration_since(time::now());
            if left.is_zero() && !state.leader.needs_snapshot() && !state.leader.is_copying() {
                return Ok(Step::Tick);
            }
            let (mut shipments, mut octets) = (Vec::new(), 0);
            while shipments.len() < SENT_MAX && octets < SENT_BYTES_MAX {
                let Some(shipment) = state.leader.poll_shipment() else { break };
                octets += shipment.operations.len();
                shipments.push(shipment);
            }
            if !shipments.is_empty() {
                return Ok(Step::Ship(shipments));
            }
            if self.over.is_over() {
                return Err(Trouble::Over);
            }
            let left = if left.is_zero() { LOOKS_EVERY } else { left };
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn ship(&self, stream: &mut Stream, peer: &Peer, shipments: &[Shipment]) -> Result<(), Trouble> {
        let mut octets = Vec::new();
        for Shipment { position, operations, .. } in shipments {
            write_batch(*position, operations, &mut octets);
        }
        stream.send(&octets)?;
        for _ in shipments {
            self.take_answer(stream, peer.silent)?;
        }
        self.count(Counter::StandbyBatches, shipments.len() as u64);
        Ok(())
    }

    /// Takes an acknowledgement of a follower that has no copy to make.
    fn take_answer(&self, stream: &mut Stream, within: Duration) -> Result<(), Trouble> {
        match stream.frame(FIRST_BYTES_MAX, within)? {
            Frame::Acknowledged(position) => {
                let mut state = lock(&self.state);
                state.heard = time::now();
                let is_known = state.leader.acknowledge(position);
                let hands_over = state.leader.hands_over_in().is_some();
                drop(state);
                if hands_over {
                    self.notify_store()
                } else {
                    self.changed.notify_all()
                }
                if is_known { Ok(()) } else { Err(Trouble::Lost("it has what it was not sent")) }
            }
            other => Err(self.unexpected(other)),
        }
    }

    fn copy(&self, stream: &mut Stream, mut snapshot: Snapshot) -> Result<(), Trouble> {
        let send = |stream: &mut Stream, frame: Frame| {
            stream.send_frame(&frame)?;
            match stream.frame(FIRST_BYTES_MAX, ROWS_WITHIN)? {
                Frame::Acknowledged(_) => Ok(()),
                other => Err(self.unexpected(other)),
            }
        };
        send(stream, Frame::BeginCopy)?;
        let position = snapshot.position;
        loop {
            let Ok(rows) = snapshot.read(ROWS_BYTES) else { return Err(Trouble::Lost("the store cannot be read")) };
            let Some(rows) = rows else { break };
            send(stream, Frame::Rows(rows))?;
        }
        // The store's file can be opened anew from now on.
        drop(snapshot);
        stream.send_frame(&Frame::EndCopy(position))?;
        self.take_answer(stream, COPY_ENDS_WITHIN)?;
        self.count(Counter::StandbyCopies, 1);
        Ok(())
    }

    /// Has the follower take over.
    fn hand_over(&self, stream: &mut Stream) -> Result<(), Trouble> {
        stream.send_frame(&Frame::TakeOver)?;
        match stream.frame(FIRST_BYTES_MAX, ROWS_WITHIN)? {
            Frame::Acknowledged(_) => {
                let mut state = lock(&self.state);
                let (service, epoch) = (state.leader.service(), state.leader.epoch().saturating_add(1));
                state.leader.hear(service, epoch);
                Err(Trouble::Refused(epoch, "it was handed over".to_owned()))
            }
            other => Err(self.unexpected(other)),
        }
    }

    fn tick(&self) -> Frame {
        let State { leader, .. } = &*lock(&self.state);
        Frame::Tick {
            position: leader.position(),
            lag_bytes: leader.lag(self.now()).bytes,
            is_in_step: leader.progress() == Progress::InStep,
        }
    }

    /// Adds to a counter. Called by the thread that ships alone.
    fn count(&self, counter: Counter, amount: u64) {
        if let Some(counters) = self.counters.get() {
            counters.add(counter, amount);
        }
    }

    /// Shows how the follower stands: also while the thread that ships waits for it.
    fn set_figures(&self) {
        let Some(counters) = self.counters.get() else { return };
        let state = lock(&self.state);
        let Lag { batches, bytes, ms } = state.leader.lag(self.now());
        counters.set(Counter::StandbyEpoch, state.leader.epoch());
        counters.set(Counter::StandbyInStep, u64::from(state.leader.progress() == Progress::InStep));
        counters.set(Counter::StandbyLagBatches, batches);
        counters.set(Counter::StandbyLagBytes, bytes);
        counters.set(Counter::StandbyLagTime, ms.saturating_mul(1_000_000));
        counters.set(Counter::StandbyOutrun, state.leader.outrun());
        let age = state.holder.as_ref().and_then(|holder| holder.age(self.now())).unwrap_or_default();
        counters.set(Counter::StandbyRecordAge, u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
    }

    // ---- the thread that keeps the record of who leads ----

    /// What is to be done with the record now. `None` if another machine leads.
    pub(super) fn poll_record(&self) -> Option<(Duration, Action)> {
        let now = self.now();
        let mut state = lock(&self.state);
        let State { leader, holder, .. } = &mut *state;
        let holder = holder.as_mut().filter(|_| leader.superseded().is_none())?;
        let action = holder.poll(now, leader.step(), leader.contact_at());
        // Before the follower is recorded as in step, this leader acknowledges nothing alone.
        leader.set_alone(holder.alone(now));
        drop(state);
        self.set_figures();
        Some((now, action))
    }

    /// Takes an answer to a request that was sent after that time. Returns why the record is not held, if so.
    pub(super) fn handle_record(&self, sent_at: Duration, answer: Answer) -> String {
        let now = self.now();
        let mut state = lock(&self.state);
        let State { leader, holder: Some(holder), .. } = &mut *state else { return String::new() };
        holder.handle(sent_at, now, answer);
        leader.set_alone(holder.alone(now));
        let (superseded, trouble) = (holder.superseded(), holder.trouble().to_owned());
        drop(state);
        match superseded {
            Some(epoch) => {
                self.change(|leader| leader.lose_right(epoch));
                self.notify_store();
            }
            None => self.changed.notify_all(),
        }
        trouble
    }

    /// Has the store's thread change the leader. The connection of a follower that was given up by that ends, whatever waits for it.
    fn change<R>(&self, change: impl FnOnce(&mut Leader) -> R) -> R {
        let mut state = lock(&self.state);
        let had_follower = state.leader.has_follower();
        let changed = change(&mut state.leader);
        if had_follower && !state.leader.has_follower() {
            self.hang_up();
        }
        drop(state);
        self.changed.notify_all();
        changed
    }

    pub(super) fn record_due(&self) -> Option<StandbyRecord> {
        let state = lock(&self.state);
        let superseded = state.leader.superseded().filter(|_| !state.is_recorded);
        let epoch = superseded.or_else(|| state.leader.hands_over_in())?;
        Some(StandbyRecord { part: Part::Follower, epoch, is_whole: true, has_led: true, began_at: state.began_at })
    }
}

/// The store's end.
pub(crate) struct Shipper(pub(crate) Arc<Shipping>);

impl Replication for Shipper {
    fn begin(&mut self, found: Position, operations: Vec<u8>) -> Position {
        let Self(shipping) = self;
        let now = shipping.now();
        shipping.change(|leader| leader.begin(found, operations, now))
    }

    fn end(&mut self, is_committed: bool) {
        self.0.change(|leader| leader.end(is_committed));
        self.0.set_figures();
    }

    fn may_write(&self) -> Result<(), StoreError> {
        lock(&self.0.state).leader.may_write(self.0.now()).map_err(explain)
    }

    fn confirm(&mut self) -> Result<(), StoreError> {
        let silent = self.0.peer.as_ref().map_or(LOOKS_EVERY, |peer| peer.silent);
        let until = time::now() + silent;
        let mut state = lock(&self.0.state);
        loop {
            if let Some(confirmed) = state.leader.confirmed(self.0.now()) {
                return confirmed.map_err(explain);
            }
            let left = until.saturating_duration_since(time::now());
            if left.is_zero() {
                // It may take an octet at a time. The thread that ships calls once more.
                self.0.hang_up();
            }
            let looks_in = if left.is_zero() { LOOKS_EVERY } else { left.min(LOOKS_EVERY) };
            let waited = self.0.changed.wait_timeout(state, looks_in);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
            self.0.set_figures();
            state = lock(&self.0.state);
        }
    }

    fn needs_snapshot(&self) -> bool {
        lock(&self.0.state).leader.needs_snapshot()
    }

    fn take_snapshot(&mut self, snapshot: Result<Snapshot, StoreError>) {
        let mut state = lock(&self.0.state);
        if !state.leader.needs_snapshot() {
            // The connection has ended in between.
            return;
        }
        match &snapshot {
            Ok(snapshot) => state.leader.note_snapshot(snapshot.position),
            Err(error) => {
                log::error!("standby: no copy can be made: {error}");
                state.leader.lose();
            }
        }
        state.snapshot = Some(snapshot);
        self.0.changed.notify_all();
    }

    fn record_due(&self) -> Option<StandbyRecord> {
        self.0.record_due()
    }

    fn note_recorded(&mut self) {
        let mut state = lock(&self.0.state);
        state.is_recorded = true;
        // If no other leader has taken over, the follower is to.
        state.leader.demote();
        drop(state);
        self.0.changed.notify_all();
        self.0.tell_superseded();
    }

    fn is_superseded(&self) -> bool {
        self.0.is_superseded()
    }
}

fn explain(why: Unconfirmed) -> StoreError {
    StoreError::Standby(match why {
        Unconfirmed::NoFollower => "no follower is in step, and standby.on_follower_lost is \"stop\"".to_owned(),
        Unconfirmed::Superseded(epoch) => format!("another leader has taken over in epoch {epoch}"),
        Unconfirmed::Closing => "the follower is about to take over".to_owned(),
        Unconfirmed::NotRecorded => "no follower is in step, and standby.record cannot say so".to_owned(),
    })
}

impl Host for Shipping {
    /// Another leader calls: one of the two epochs is over.
    fn take_call(&self, mut stream: Stream, hello: Hello) -> io::Result<()> {
        let (service, epoch, why) = self.change(|leader| (leader.service(), leader.epoch(), leader.refuse(&hello)));
        self.notify_store();
        stream.send_frame(&Frame::Refused { service, epoch, why: why.clone() })?;
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }

    fn answer(&self, line: &str) -> String {
        match line {
            "status" => self.status(),
            "switch" => self.switch(),
            "promote accept-loss" => self.begin_record(),
            _ => NOT_PROMOTED.to_owned(),
        }
    }

    fn answered(&self) {
        lock(&self.state).is_awaited = false;
        self.tell_superseded();
    }
}

impl Shipping {
    /// Has a record that is gone or old written anew.
    fn begin_record(&self) -> String {
        let mut state = lock(&self.state);
        let epoch = state.leader.epoch();
        match &mut state.holder {
            Some(holder) if !holder.trouble().is_empty() => {
                holder.begin();
                format!("epoch: {epoch}\n")
            }
            _ => NOT_PROMOTED.to_owned(),
        }
    }

    /// Hands over to the follower, and waits until that has taken over.
    fn switch(&self) -> String {
        let peer = self.peer.as_ref().map_or("none", |peer| &peer.address);
        let mut state = lock(&self.state);
        if let Err(progress) = state.leader.close() {
            return format!("error: {peer} is not in step ({}): it would lack something\n", progress.name());
        }
        state.is_awaited = true;
        drop(state);
        self.notify_store();
        let until = time::now() + SWITCHES_WITHIN;
        let mut state = lock(&self.state);
        loop {
            let left = until.saturating_duration_since(time::now());
            let is_over = left.is_zero() || self.over.is_over();
            match state.leader.superseded() {
                Some(_) if state.leader.is_demoted() && is_over => {
                    return format!(
                        "error: this machine serves no more, and {peer} does not answer: it is called until it takes over\n"
                    );
                }
                Some(epoch) if !state.leader.is_demoted() => return format!("epoch: {epoch}\nleader: {peer}\n"),
                None if is_over => {
                    state.leader.reopen();
                    return "error: the change of roles did not get on the disk in time: this one goes on as the leader\n".to_owned();
                }
                None if !state.leader.is_closing() => {
                    return format!("error: {peer} was lost: this one goes on as the leader\n");
                }
                _ => {}
            }
            state = self.changed.wait_timeout(state, left.min(LOOKS_EVERY)).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn status(&self) -> String {
        let state = lock(&self.state);
        let (Lag { batches, bytes, ms }, leader) = (state.leader.lag(self.now()), &state.leader);
        let peer = self.peer.as_ref().map_or("none", |peer| &peer.address);
        let mode = if self.is_synchronous { "synchronous" } else { "asynchronous" };
        let mut text = format!(
            "role: leader\nepoch: {}\nstate: {}\npeer: {peer}\nreplicate: {mode}\nbatch: {}\nlag_batches: {batches}\nlag_bytes: {bytes}\nlag_ms: {ms}\n",
            leader.epoch(),
            if leader.is_demoted() { "handing over" } else { leader.progress().name() },
            leader.position().number
        );
        if !state.trouble.is_empty() {
            let _ = writeln!(text, "trouble: {}", state.trouble);
        }
        if let Some(holder) = &state.holder {
            write_status(&mut text, holder.record(), holder.age(self.now()), holder.trouble());
        }
        text
    }
}

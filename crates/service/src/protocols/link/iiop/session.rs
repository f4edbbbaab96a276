//! A session with the lane: the other side of a link, for a far service that knows nothing of links.
//!
//! A thread reads the lane's frames. Another pushes the lane's events, one after the other, and acknowledges each that the far service has
//! taken. What comes from the far service is written by the thread that serves the call, and answered when the lane has acknowledged it.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use client::InvokeError;
use client::notify::{StructuredEvent, StructuredProxyPushConsumer};
use links::wire::{self, Direction, Frame, Hello, Open, Types};
use links::{Framer, Limits, Origin, Seen, VERSIONS, Verdict};

use super::Setup;
use super::events::{Incoming, outgoing};

/// Octets that are read at once.
const READ: usize = 64 << 10;
/// How long the lane may take to have a frame taken, or to close its end.
const LANE_WITHIN: Duration = Duration::from_secs(10);
/// An event that the far service does not take now is pushed again after so long at first, each time twice as long, and at most.
const REFUSED_FIRST: Duration = Duration::from_millis(100);
const REFUSED_MAX: Duration = Duration::from_secs(5);
/// An event for which the far service fails so often, in a way that says neither "now" nor "never", is dropped. It is pushed again after so
/// long at first, then twice as long.
const FAILURES_MAX: u32 = 3;
const FAILED_FIRST: Duration = Duration::from_secs(1);

/// Where a channel's events go at the far service.
#[derive(Clone)]
pub(super) struct Outlet {
    pub(super) proxy: Option<StructuredProxyPushConsumer>,
    /// What it has taken: the lane sends again what was not acknowledged when a session ended.
    pub(super) taken: Arc<Mutex<Seen>>,
    pub(super) receives: bool,
    /// Its proxy is gone, and is to be made anew.
    pub(super) is_gone: Arc<AtomicBool>,
    /// It refuses events, for now or for good, and that is logged, until it takes one.
    pub(super) is_refusing: Arc<AtomicBool>,
    pub(super) is_rejecting: Arc<AtomicBool>,
}

/// A session, as the thread of its link has it.
pub(super) struct Session {
    shared: Arc<Shared>,
    pusher: JoinHandle<()>,
}

/// What its threads share.
pub(super) struct Shared {
    setup: Arc<Setup>,
    state: Mutex<Lane>,
    changed: Condvar,
}

/// The lane's end.
struct Lane {
    tcp: TcpStream,
    /// What it takes, once it has said that.
    limits: Option<Limits>,
    /// The channel of each flow.
    out: HashMap<u32, usize>,
    into: HashMap<usize, IntoLane>,
    events: VecDeque<ToPush>,
    ended: Option<Ended>,
}

struct Ended {
    why: String,
    by_lane: bool,
}

/// A flow of the far service's events.
struct IntoLane {
    flow: u32,
    sequence: u64,
    acknowledged: u64,
    rejected: HashMap<u64, String>,
}

struct ToPush {
    flow: u32,
    place: usize,
    sequence: u64,
    origin: Origin,
    event: Result<StructuredEvent, String>,
}

/// What became of an event of the far service's.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Taken,
    /// It never will be, and why.
    Rejected(String),
    /// The session is over.
    Ended,
    /// The lane has not answered in time.
    Late,
}

impl Session {
    /// Begins one, with the lane's other end and the far service's ends of each channel.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub(super) fn begin(setup: &Arc<Setup>, tcp: TcpStream, outlets: Vec<Outlet>) -> io::Result<Self> {
        tcp.set_write_timeout(Some(LANE_WITHIN))?;
        let reading = tcp.try_clone()?;
        let (out, into, events) = (HashMap::new(), HashMap::new(), VecDeque::new());
        let state = Mutex::new(Lane { tcp, limits: None, out, into, events, ended: None });
        let shared = Arc::new(Shared { setup: Arc::clone(setup), state, changed: Condvar::new() });
        let (reader, pusher) = (Arc::clone(&shared), Arc::clone(&shared));
        let offered: Vec<(bool, bool)> = outlets.iter().map(|of| (of.proxy.is_some(), of.receives)).collect();
        let spawned = Builder::new().name("link-iiop-lane".to_owned()).spawn(move || reader.read(reading, &offered));
        let pusher = spawned
            .and_then(|_| Builder::new().name("link-iiop-push".to_owned()).spawn(move || pusher.push(&outlets)))
            .inspect_err(|error| shared.end(&error.to_string(), false))?;
        Ok(Self { shared, pusher })
    }

    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Ends it, and has the lane know why.
    pub(super) fn end(&self, why: &str) {
        self.shared.end(why, false);
    }

    /// Whether it is over, after so long at most.
    pub(super) fn has_ended_within(&self, limit: Duration) -> bool {
        let state = self.shared.changed.wait_timeout_while(self.shared.lane(), limit, |lane| lane.ended.is_none());
        state.unwrap_or_else(PoisonError::into_inner).0.ended.is_some()
    }

    /// Waits for the last push to be answered, so that none of the next session overtakes it, if `waits`.
    ///
    /// # Errors
    /// Says what the far service failed in.
    pub(super) fn outcome(self, waits: bool) -> Result<(), String> {
        if waits {
            // A thread that panicked has said so on standard error.
            let _panicked = self.pusher.join();
        }
        match &self.shared.lane().ended {
            Some(Ended { why, by_lane: false }) => Err(why.clone()),
            _ => Ok(()),
        }
    }
}

impl Lane {
    fn write(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame.write(&mut bytes);
        self.tcp.write_all(&bytes)
    }
}

impl Shared {
    fn lane(&self) -> MutexGuard<'_, Lane> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, why: &str, by_lane: bool) {
        let mut lane = self.lane();
        if lane.ended.is_none() {
            lane.ended = Some(Ended { why: why.to_owned(), by_lane });
            let goodbye = if by_lane { Ok(()) } else { lane.write(&Frame::Goodbye { reason: why }) };
            // Its end is closed already, then.
            let _closed = goodbye.and_then(|()| lane.tcp.shutdown(Shutdown::Write));
            lane.events.clear();
        }
        self.changed.notify_all();
    }

    /// Reads what the lane says until it closes its end. `offered`: which channels send, and which receive.
    fn read(&self, mut tcp: TcpStream, offered: &[(bool, bool)]) {
        let mut framer = Framer::new(self.setup.limits);
        let mut buffer = vec![0; READ];
        loop {
            let count = match tcp.read(&mut buffer) {
                Ok(0) | Err(_) => return self.end("the lane has closed it", true),
                Ok(count) => count,
            };
            let mut input = buffer.get(..count).unwrap_or_default();
            loop {
                let handled = match framer.next(input) {
                    Ok((Some(frame), taken)) => self.handle(&frame, offered).map(|()| taken),
                    Ok((None, _)) => break,
                    Err(violation) => Err(violation.to_string()),
                };
                match handled {
                    Ok(taken) => input = input.get(taken..).unwrap_or_default(),
                    Err(why) => {
                        self.end(&why, false);
                        break;
                    }
                }
            }
        }
    }

    /// # Errors
    /// The reason for which the session is to end.
    fn handle(&self, frame: &Frame<'_>, offered: &[(bool, bool)]) -> Result<(), String> {
        let mut lane = self.lane();
        let failed = |error: io::Error| error.to_string();
        match frame {
            Frame::Hello(hello) => {
                lane.limits = Some(hello.limits);
                let Setup { entry, service, incarnation, limits, .. } = &*self.setup;
                let (version_min, version_max) = VERSIONS;
                let (service, incarnation, limits) = (*service, *incarnation, *limits);
                let name = entry.to.get(..wire::NAME_BYTES_MAX).unwrap_or(&entry.to);
                let name = if name.len() > wire::NAME_BYTES_MAX { entry.name.as_str() } else { name };
                let hello =
                    Hello { version_min, version_max, service, incarnation, limits, name, has_store: false, token: "" };
                lane.write(&Frame::Hello(hello)).map_err(failed)?;
            }
            Frame::Open(open) => self.open(&mut lane, open, offered).map_err(failed)?,
            Frame::Event(event) => {
                let place = *lane.out.get(&event.flow).ok_or("an event of a flow that there is not")?;
                let (flow, sequence, origin) = (event.flow, event.sequence, event.origin);
                if lane.ended.is_none() {
                    lane.events.push_back(ToPush {
                        flow,
                        place,
                        sequence,
                        origin,
                        event: outgoing(event, self.setup.own),
                    });
                }
            }
            Frame::Ack { flow, up_to } => {
                if let Some(into) = lane.into.values_mut().find(|into| into.flow == *flow) {
                    into.acknowledged = into.acknowledged.max(*up_to);
                }
            }
            Frame::Reject { flow, sequence, text, .. } => {
                if let Some(into) = lane.into.values_mut().find(|into| into.flow == *flow) {
                    into.rejected.insert(*sequence, (*text).to_owned());
                }
            }
            Frame::Refused { flow, .. } => {
                lane.out.remove(flow);
                lane.into.retain(|_, into| into.flow != *flow);
            }
            Frame::Ping { number } => lane.write(&Frame::Pong { number: *number }).map_err(failed)?,
            Frame::Goodbye { reason } => {
                drop(lane);
                self.end(reason, true);
                return Ok(());
            }
            // What the lane's consumers subscribe, all of it comes.
            Frame::Interest { .. } | Frame::Pong { .. } | Frame::Opened { .. } => {}
            // The lane sends neither names nor datagrams on such a link.
            _ => {}
        }
        self.changed.notify_all();
        Ok(())
    }

    /// Opens a flow of a channel that the link has.
    fn open(&self, lane: &mut Lane, open: &Open<'_>, offered: &[(bool, bool)]) -> io::Result<()> {
        let Open { flow, direction, channel, .. } = open;
        let place = self.setup.entry.channels.iter().position(|of| of == channel);
        let place = place.and_then(|place| Some((place, offered.get(place)?)));
        match (place, direction) {
            (Some((place, (true, _))), Direction::Out) => {
                lane.out.insert(*flow, place);
            }
            (Some((place, (_, true))), Direction::In) => {
                let (sequence, acknowledged, rejected) = (0, 0, HashMap::new());
                lane.into.insert(place, IntoLane { flow: *flow, sequence, acknowledged, rejected });
            }
            _ => {
                let reason = "the link does not have it";
                return lane.write(&Frame::Refused { flow: *flow, reason });
            }
        }
        lane.write(&Frame::Opened { flow: *flow })?;
        if *direction == Direction::Out {
            // What its consumers subscribe is not asked for: other links of the lane have everything come.
            let everything = Frame::Interest { flow: *flow, everything: Some(0), types: Types::NONE };
            lane.write(&everything)?;
        }
        Ok(())
    }

    /// Hands an event of the far service's to the lane, and waits for what becomes of it.
    pub(super) fn take_in(&self, place: usize, event: &Incoming, deadline: Instant) -> Fate {
        let mut lane = self.lane();
        let mut written = None;
        loop {
            if lane.ended.is_some() {
                return Fate::Ended;
            }
            let limits = lane.limits;
            match (lane.into.get_mut(&place), written, limits) {
                (Some(into), None, Some(limits)) => {
                    let (flow, sequence) = (into.flow, into.sequence + 1);
                    let frame = event.frame(flow, sequence);
                    if !frame.fits(limits) {
                        return Fate::Rejected("it is longer than limits.message_bytes_max".to_owned());
                    }
                    into.sequence = sequence;
                    if let Err(error) = lane.write(&Frame::Event(frame)) {
                        drop(lane);
                        self.end(&error.to_string(), false);
                        return Fate::Ended;
                    }
                    written = Some((flow, sequence));
                }
                (Some(into), Some((flow, _)), _) if into.flow != flow => return Fate::Ended,
                (Some(into), Some((_, sequence)), _) if into.acknowledged >= sequence => {
                    return into.rejected.remove(&sequence).map_or(Fate::Taken, Fate::Rejected);
                }
                (None, Some(_), _) => return Fate::Ended,
                _ => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Fate::Late;
            }
            lane = self.changed.wait_timeout(lane, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Pushes the lane's events until the session is over.
    fn push(&self, outlets: &[Outlet]) {
        let mut drops = false;
        loop {
            let mut lane = self.lane();
            let next = loop {
                if lane.ended.is_some() {
                    return;
                }
                if let Some(next) = lane.events.pop_front() {
                    break next;
                }
                lane = self.changed.wait(lane).unwrap_or_else(PoisonError::into_inner);
            };
            drop(lane);
            let Some(outlet) = outlets.get(next.place) else { continue };
            let done = match &next.event {
                Ok(event) => self.push_one(event, next.origin, outlet, &mut drops),
                Err(why) => Ok(Some(why.clone())),
            };
            let mut lane = self.lane();
            let (flow, sequence) = (next.flow, next.sequence);
            let written = done.and_then(|rejected| {
                let reject = rejected.map(|why| {
                    if !outlet.is_rejecting.swap(true, Ordering::Relaxed) {
                        log::warn!(
                            "link {:?}: the notification service does not take an event of {:?}, and never will: {why}",
                            self.setup.entry.name,
                            self.setup.channel(next.place)
                        );
                    }
                    lane.write(&Frame::Reject { flow, sequence, reason: 0, text: &why })
                });
                let ack = |()| lane.write(&Frame::Ack { flow, up_to: sequence });
                reject.unwrap_or(Ok(())).and_then(ack).map_err(|error| error.to_string())
            });
            drop(lane);
            if let Err(why) = written {
                self.end(&why, false);
            }
        }
    }

    /// Pushes an event until it is taken. The reason for which it never will be, if there is one. `drops`: an event over which the service
    /// failed was dropped since it took one.
    ///
    /// # Errors
    /// Says why nothing is pushed any more.
    fn push_one(
        &self,
        event: &StructuredEvent,
        origin: Origin,
        outlet: &Outlet,
        drops: &mut bool,
    ) -> Result<Option<String>, String> {
        let Some(proxy) = &outlet.proxy else { return Ok(None) };
        let taken = || outlet.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken().check(origin) == Verdict::Repeat {
            return Ok(None);
        }
        let (mut again, mut failures) = (REFUSED_FIRST, 0);
        loop {
            let error = match proxy.push_structured_event(event) {
                Ok(()) => {
                    outlet.is_refusing.store(false, Ordering::Relaxed);
                    outlet.is_rejecting.store(false, Ordering::Relaxed);
                    *drops = false;
                    let mut taken = taken();
                    taken.begin(origin);
                    taken.commit(origin);
                    return Ok(None);
                }
                Err(error) => error,
            };
            if is_for_good(&error) {
                return Ok(Some(error.to_string()));
            }
            if error.is("Disconnected") || error.object_is_gone() {
                outlet.is_gone.store(true, Ordering::Release);
            }
            if is_failure(&error) {
                failures += 1;
                if failures >= FAILURES_MAX {
                    let why = format!("{error}, {failures} times");
                    // A service that fails over one event after the other has other trouble than these.
                    return if core::mem::replace(drops, true) { Err(why) } else { Ok(Some(why)) };
                }
                self.pause(FAILED_FIRST * failures)?;
                continue;
            }
            if !is_for_now(&error) {
                return Err(error.to_string());
            }
            if !outlet.is_refusing.swap(true, Ordering::Relaxed) {
                log::warn!(
                    "link {:?}: the notification service takes no event now, and gets it again until it does: {error}",
                    self.setup.entry.name
                );
            }
            self.pause(again)?;
            again = (again * 2).min(REFUSED_MAX);
        }
    }

    /// Waits before a push is tried again.
    ///
    /// # Errors
    /// The session has ended meanwhile.
    fn pause(&self, limit: Duration) -> Result<(), String> {
        let wait = self.changed.wait_timeout_while(self.lane(), limit, |lane| lane.ended.is_none());
        let has_ended = wait.unwrap_or_else(PoisonError::into_inner).0.ended.is_some();
        if has_ended { Err("the session is over".to_owned()) } else { Ok(()) }
    }
}

/// Whether the far service can never take the event.
fn is_for_good(error: &InvokeError) -> bool {
    const NAMES: [&str; 5] = ["BAD_PARAM", "BAD_QOS", "MARSHAL", "DATA_CONVERSION", "CODESET_INCOMPATIBLE"];
    // What is no reply says nothing of the event.
    let is_of_service = matches!(error, InvokeError::System { .. });
    matches!(error, InvokeError::BadArguments { .. }) || is_of_service && NAMES.iter().any(|name| error.is(name))
}

/// Whether it may take the event later, over the same proxy.
fn is_for_now(error: &InvokeError) -> bool {
    const NAMES: [&str; 5] = ["IMP_LIMIT", "NO_RESOURCES", "NO_MEMORY", "PERSIST_STORE", "TRANSIENT"];
    let is_of_service = matches!(error, InvokeError::System { .. });
    is_of_service && NAMES.iter().any(|name| error.is(name))
}

/// Whether it failed, over this event as far as can be seen.
fn is_failure(error: &InvokeError) -> bool {
    let is_of_service = matches!(error, InvokeError::System { .. });
    is_of_service && ["UNKNOWN", "INTERNAL"].iter().any(|name| error.is(name))
}

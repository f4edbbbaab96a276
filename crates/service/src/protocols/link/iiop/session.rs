//! A session with the lane, as the other side of a link, on behalf of a far service that does not know links.
//!
//! One thread reads the lane's frames. Another pushes the lane's events in order, and acknowledges each that the far service has taken. The
//! thread that serves a call of the far service writes the event to the lane, and replies once the lane has acknowledged it.

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

/// Maximum octets of one read.
const READ: usize = 64 << 10;
/// Maximum time for the lane to take a frame, or to close its end.
const LANE_WITHIN: Duration = Duration::from_secs(10);
/// First and longest interval between pushes of an event that the far service refuses for now; it doubles each time.
const REFUSED_FIRST: Duration = Duration::from_millis(100);
const REFUSED_MAX: Duration = Duration::from_secs(5);
/// Failures that are neither temporary nor permanent after which an event is dropped. The interval between pushes is `FAILED_FIRST`, then
/// twice as long.
const FAILURES_MAX: u32 = 3;
const FAILED_FIRST: Duration = Duration::from_secs(1);

/// The destination of a channel's events at the far service.
#[derive(Clone)]
pub(super) struct Outlet {
    pub(super) proxy: Option<StructuredProxyPushConsumer>,
    /// Origins that the far service has taken: the lane sends unacknowledged events again in the next session.
    pub(super) taken: Arc<Mutex<Seen>>,
    pub(super) receives: bool,
    /// Whether the proxy is gone, and is to be made anew.
    pub(super) is_gone: Arc<AtomicBool>,
    /// Whether the far service refuses events for now (`is_refusing`) or for good, each logged once until it takes one.
    pub(super) is_refusing: Arc<AtomicBool>,
    pub(super) is_rejecting: Arc<AtomicBool>,
}

/// The session's owner, in the thread of its link.
pub(super) struct Session {
    shared: Arc<Shared>,
    pusher: JoinHandle<()>,
}

/// The state that the session's threads share.
pub(super) struct Shared {
    setup: Arc<Setup>,
    state: Mutex<Lane>,
    changed: Condvar,
}

/// The connection to the lane, and its flows.
struct Lane {
    tcp: TcpStream,
    /// The limits in the lane's Hello, once received.
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

/// The outcome of an event of the far service.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Taken,
    /// The event will never be taken, for this reason.
    Rejected(String),
    /// The session has ended.
    Ended,
    /// The lane has not acknowledged the event in time.
    Late,
}

impl Session {
    /// Begins a session, with one end of the connection to the lane and the outlets of each channel.
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

    /// Ends the session, and sends the lane the reason.
    pub(super) fn end(&self, why: &str) {
        self.shared.end(why, false);
    }

    /// Waits for the end of the session, for a limited time. Returns whether it has ended.
    pub(super) fn has_ended_within(&self, limit: Duration) -> bool {
        let state = self.shared.changed.wait_timeout_while(self.shared.lane(), limit, |lane| lane.ended.is_none());
        state.unwrap_or_else(PoisonError::into_inner).0.ended.is_some()
    }

    /// Returns the session's outcome. `waits`: the last push is answered before, so that none of the next session overtakes it.
    ///
    /// # Errors
    /// The failure of the far service.
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
            // The lane may have closed its end already.
            let _closed = goodbye.and_then(|()| lane.tcp.shutdown(Shutdown::Write));
            lane.events.clear();
        }
        self.changed.notify_all();
    }

    /// Reads the lane's frames until it closes its end. `offered`: for each channel, whether it sends and receives.
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
            // All events of the far service are sent, whatever the lane's consumers subscribe to.
            Frame::Interest { .. } | Frame::Pong { .. } | Frame::Opened { .. } => {}
            // The lane sends neither names nor datagrams on such a link.
            _ => {}
        }
        self.changed.notify_all();
        Ok(())
    }

    /// Opens a flow, if the link has its channel and direction.
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
            // The far service's subscriptions are unknown: the lane sends all events.
            let everything = Frame::Interest { flow: *flow, everything: Some(0), types: Types::NONE };
            lane.write(&everything)?;
        }
        Ok(())
    }

    /// Hands an event of the far service to the lane, and waits for its outcome.
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

    /// Pushes the lane's events until the session ends.
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

    /// Pushes an event until it is taken, or returns the reason why it never will be. `drops`: whether an event was dropped after failures
    /// since the last one taken.
    ///
    /// # Errors
    /// The reason why nothing more is pushed.
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
                    // A service that fails for one event after the other has a problem of its own.
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

    /// Waits before the next attempt to push.
    ///
    /// # Errors
    /// The session has ended.
    fn pause(&self, limit: Duration) -> Result<(), String> {
        let wait = self.changed.wait_timeout_while(self.lane(), limit, |lane| lane.ended.is_none());
        let has_ended = wait.unwrap_or_else(PoisonError::into_inner).0.ended.is_some();
        if has_ended { Err("the session is over".to_owned()) } else { Ok(()) }
    }
}

/// Whether the far service can never take the event.
fn is_for_good(error: &InvokeError) -> bool {
    const NAMES: [&str; 5] = ["BAD_PARAM", "BAD_QOS", "MARSHAL", "DATA_CONVERSION", "CODESET_INCOMPATIBLE"];
    // Errors without a reply are independent of the event.
    let is_of_service = matches!(error, InvokeError::System { .. });
    matches!(error, InvokeError::BadArguments { .. }) || is_of_service && NAMES.iter().any(|name| error.is(name))
}

/// Whether the far service may take the event later, over the same proxy.
fn is_for_now(error: &InvokeError) -> bool {
    const NAMES: [&str; 5] = ["IMP_LIMIT", "NO_RESOURCES", "NO_MEMORY", "PERSIST_STORE", "TRANSIENT"];
    let is_of_service = matches!(error, InvokeError::System { .. });
    is_of_service && NAMES.iter().any(|name| error.is(name))
}

/// Whether the far service failed, apparently because of this event.
fn is_failure(error: &InvokeError) -> bool {
    let is_of_service = matches!(error, InvokeError::System { .. });
    is_of_service && ["UNKNOWN", "INTERNAL"].iter().any(|name| error.is(name))
}

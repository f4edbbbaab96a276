//! The session of a process: who is there, streams by their numbers, and what is done when Zenoh stands still.
//!
//! An end `N` of the realm `R` has the liveliness token `campanile/links/1/R/N/I`, where `I` is a number drawn when its session is opened,
//! and takes messages at the same key. So what is meant for an earlier process or session never comes to a later one.
//!
//! Zenoh's threads call [`Shared::heard`] and [`Shared::noticed`], which only look things up and queue. A thread of the session's own opens
//! it, opens it again while that fails, and closes it and opens it anew when ends that are there by their tokens answer nothing.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use zenoh::Wait;
use zenoh::liveliness::LivelinessToken;
use zenoh::qos::CongestionControl;
use zenoh::sample::SampleKind;

use crate::message::{Message, StreamId};
use crate::options::{Options, WINDOW_BYTES, is_name};
use crate::stream::{Carried, Stream, Wrong};

/// What keys of this layout begin with.
const PREFIX: &str = "campanile/links/1";
/// Streams that others have opened, and that are open at once.
const ACCEPTED_MAX: usize = 64;
/// Streams that this process has dialled, and that are open at once.
const DIALLED_MAX: usize = 64;
/// Streams that wait to be taken by the process.
const INCOMING_MAX: usize = 16;
/// Ends of the realm that are known.
const ENDS_MAX: usize = 1_024;
/// A dialled end is asked again after so long.
const OPENS_AGAIN: Duration = Duration::from_millis(500);
/// So many calls in a row that are not answered by an end which is there have the session opened anew.
const UNANSWERED_MAX: u32 = 3;
/// A client's session that carries nothing while ends that it dials are absent is opened anew after so long, each time twice as long, and at
/// most, until a message comes: a token may stay away although its end is there.
const ABSENT_FIRST: Duration = Duration::from_secs(60);
const ABSENT_MAX: Duration = Duration::from_secs(1_024);
/// Refused streams are logged once in so long.
const REFUSED_EACH: Duration = Duration::from_secs(60);
/// A session that could not be opened is tried again after so long at first, each time twice as long, and at most.
const AGAIN_FIRST: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(8);
/// A session that is dropped waits for so long for an attempt to open it, which Zenoh cannot cancel. Each end point may take 10 s.
const OPENING_ENDS_WITHIN: Duration = Duration::from_secs(2);

/// An open Zenoh session.
pub(crate) struct Network {
    zenoh: zenoh::Session,
    /// Its number among those of its end.
    instance: u64,
    /// What keys of the realm begin with.
    root: String,
    pub(crate) window: u64,
    token: OnceLock<LivelinessToken>,
}

impl Network {
    /// The key of an end's session.
    pub(crate) fn key_of(&self, name: &str, instance: u64) -> String {
        format!("{}/{name}/{instance:016x}", self.root)
    }

    /// Puts a message. Where there is no room for it, that is waited for, or else it is lost.
    ///
    /// # Errors
    /// What Zenoh says: the session is closed.
    pub(crate) fn put(&self, key: &str, octets: Vec<u8>, waits: bool) -> Result<(), String> {
        let congestion = if waits { CongestionControl::Block } else { CongestionControl::Drop };
        self.zenoh.put(key, octets).congestion_control(congestion).wait().map_err(|error| error.to_string())
    }
}

/// What a session's threads and streams have in common.
pub(crate) struct Shared {
    options: Options,
    state: Mutex<State>,
    changed: Condvar,
    incoming: SyncSender<Incoming>,
    counts: Counted,
}

#[derive(Default)]
struct State {
    network: Option<Arc<Network>>,
    /// Why it is not open.
    why: String,
    /// Sessions of each end, the one that came last at the end; and how many that is in all.
    ends: BTreeMap<String, Vec<u64>>,
    known: usize,
    streams: HashMap<StreamId, Arc<Stream>>,
    /// Calls in a row that were not answered.
    unanswered: u32,
    /// When a stream was dialled in vain since its end is absent, for the first time since anything came; and how often the session was
    /// opened anew for that.
    absent: Option<Instant>,
    absences: u32,
    /// When a refused stream was logged.
    refused: Option<Instant>,
    /// The session is being opened.
    is_opening: bool,
    /// Why the session is to be opened anew, if it is.
    stale: Option<Stale>,
    is_over: bool,
}

#[derive(Default)]
struct Counted {
    unknown: AtomicU64,
    malformed: AtomicU64,
    lost: AtomicU64,
    beyond: AtomicU64,
    refused: AtomicU64,
    reopened: AtomicU64,
}

/// Why a session is opened anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stale {
    /// Ends that are there by their tokens did not answer.
    Unanswered,
    /// No end that was dialled is there, and nothing came.
    Absent,
}

/// What a session has counted since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages of streams that there are not, or that came before: dropped.
    pub unknown: u64,
    /// Messages that are none: dropped.
    pub malformed: u64,
    /// Streams that ended since a message was lost.
    pub lost: u64,
    /// Streams that ended since their far side sent more than it was granted, or named a window that is not valid.
    pub beyond: u64,
    /// Streams that were not taken: none are, there were too many, or the other end has no name.
    pub refused: u64,
    /// Times that the session was closed and opened anew.
    pub reopened: u64,
}

/// A session could not be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenError(pub String);

impl core::fmt::Display for OpenError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for OpenError {}

/// A stream could not be had.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DialError {
    /// The session is not open, for this reason.
    NotOpen(String),
    /// No end of that name is there.
    Absent(String),
    /// The name is that of this end.
    Itself,
    /// So many streams are open as may be.
    TooMany,
    /// The far end did not answer in time.
    Unanswered,
    /// The far end refused it, or it ended at once.
    Refused(String),
}

impl core::fmt::Display for DialError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NotOpen(why) => write!(f, "the Zenoh session is not open: {why}"),
            Self::Absent(name) => write!(f, "no service is there that is called {name:?} in Zenoh"),
            Self::Itself => f.write_str("that is what this service is called itself"),
            Self::TooMany => write!(f, "{DIALLED_MAX} streams are open, as many as may be"),
            Self::Unanswered => f.write_str("the other service is there in Zenoh, and does not answer"),
            Self::Refused(why) => write!(f, "the other service does not take it: {}", why.escape_debug()),
        }
    }
}

impl core::error::Error for DialError {}

/// A stream that another end has opened, and that is to be taken: dropping it refuses it.
#[derive(Debug)]
pub struct Incoming {
    half: Half,
    is_secure: bool,
}

/// A stream that was dialled and is open. Dropping it ends it.
#[derive(Debug)]
pub struct Dialled {
    half: Half,
}

/// A stream that is not carried yet.
struct Half {
    shared: Arc<Shared>,
    stream: Arc<Stream>,
    is_carried: bool,
}

impl core::fmt::Debug for Half {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Half").field("far", &self.stream.far.0).finish_non_exhaustive()
    }
}

impl Half {
    const fn new(shared: Arc<Shared>, stream: Arc<Stream>) -> Self {
        Self { shared, stream, is_carried: false }
    }

    fn carry(mut self, tcp: TcpStream) -> io::Result<Carried> {
        let carried = Carried::begin(&self.shared, Arc::clone(&self.stream), tcp)?;
        self.is_carried = true;
        Ok(carried)
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        if !self.is_carried {
            self.shared.end_stream(&self.stream, "it was not taken", false);
        }
    }
}

impl Incoming {
    /// The name that the other end says it has.
    #[must_use]
    pub fn far(&self) -> &str {
        &self.half.stream.far.0
    }

    /// Whether TLS is spoken over it.
    #[must_use]
    pub const fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// Takes it: octets of the connection go to the other end, and those from there come over it.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn carry(self, tcp: TcpStream) -> io::Result<Carried> {
        let Self { half, .. } = self;
        let window = half.shared.options.window_bytes;
        half.stream.send(&Message::Accept { window }).map_err(io::Error::other)?;
        half.carry(tcp)
    }

    /// Refuses it for this reason.
    pub fn refuse(self, why: &str) {
        self.half.shared.refused(self.far(), why);
        self.half.shared.end_stream(&self.half.stream, why, false);
    }
}

impl Dialled {
    /// Has octets of the connection go to the other end, and those from there come over it.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn carry(self, tcp: TcpStream) -> io::Result<Carried> {
        self.half.carry(tcp)
    }
}

/// The part of a process in Zenoh. Dropping it ends its streams and closes the session. One that is being opened then, and still is after two
/// seconds, is closed by its thread as soon as it is open.
pub struct Session {
    shared: Arc<Shared>,
    opener: Option<JoinHandle<()>>,
}

impl core::fmt::Debug for Session {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Session").field("name", &self.shared.options.name).finish_non_exhaustive()
    }
}

impl Session {
    /// Opens a session, and gives what others open. One that listens is open when this returns; one that only connects may be open later,
    /// and is tried until it is.
    ///
    /// # Errors
    /// If what it is opened with is not valid, or it cannot listen.
    pub fn open(options: Options) -> Result<(Self, Receiver<Incoming>), OpenError> {
        options.config().map_err(OpenError)?;
        if !WINDOW_BYTES.contains(&options.window_bytes) {
            return Err(OpenError(format!("a window is {WINDOW_BYTES:?} octets, not {}", options.window_bytes)));
        }
        let listens = !options.listen.is_empty();
        let (incoming, taken) = sync_channel(INCOMING_MAX);
        let state = State { why: "it was not opened yet".to_owned(), ..State::default() };
        let shared = Arc::new(Shared {
            options,
            state: Mutex::new(state),
            changed: Condvar::new(),
            incoming,
            counts: Counted::default(),
        });
        let (first, opened) = sync_channel(1);
        let its = Arc::clone(&shared);
        let opener = Builder::new().name("zenoh-opens".to_owned()).spawn(move || its.keep_open(&first));
        let opener = opener.map_err(|error| OpenError(error.to_string()))?;
        let session = Self { shared, opener: Some(opener) };
        if listens {
            opened.recv().unwrap_or_else(|_| Err("its thread ended".to_owned())).map_err(OpenError)?;
        }
        Ok((session, taken))
    }

    /// Opens a stream to an end of the realm, and waits for that, for no longer than that. Octets are TLS records where `is_secure`: the
    /// other end is told.
    ///
    /// # Errors
    /// Says why there is no stream.
    pub fn dial(&self, to: &str, is_secure: bool, within: Duration) -> Result<Dialled, DialError> {
        self.shared
            .dial(to, is_secure, within)
            .map(|stream| Dialled { half: Half::new(Arc::clone(&self.shared), stream) })
    }

    /// Whether an end of that name is there.
    #[must_use]
    pub fn is_present(&self, name: &str) -> bool {
        self.shared.state().ends.contains_key(name)
    }

    /// Why the session is not open; nothing if it is.
    #[must_use]
    pub fn why_not_open(&self) -> Option<String> {
        let state = self.shared.state();
        state.network.is_none().then(|| state.why.clone())
    }

    /// Streams that are open, or being opened.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.shared.state().streams.len()
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let Counted { unknown, malformed, lost, beyond, refused, reopened } = &self.shared.counts;
        let [unknown, malformed, lost, beyond, refused, reopened] =
            [unknown, malformed, lost, beyond, refused, reopened].map(|count| count.load(Ordering::Relaxed));
        Counts { unknown, malformed, lost, beyond, refused, reopened }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.is_over = true;
        self.shared.changed.notify_all();
        let opens = |state: &mut State| state.is_opening;
        let waited = self.shared.changed.wait_timeout_while(state, OPENING_ENDS_WITHIN, opens);
        if waited.unwrap_or_else(PoisonError::into_inner).0.is_opening {
            return;
        }
        if let Some(opener) = self.opener.take() {
            // One that panicked has said so on standard error already.
            let _panicked = opener.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the session open until it is over.
    fn keep_open(self: &Arc<Self>, first: &SyncSender<Result<(), String>>) {
        let mut again = AGAIN_FIRST;
        loop {
            {
                let mut state = self.state();
                if state.is_over {
                    return;
                }
                state.is_opening = true;
            }
            let opened = self.open();
            let why = opened.as_ref().err().cloned().unwrap_or_default();
            let _taken_once = first.try_send(opened);
            let mut state = self.state();
            state.is_opening = false;
            self.changed.notify_all();
            if why.is_empty() {
                again = AGAIN_FIRST;
                state = self.await_end(state);
                let (network, streams) = (state.network.take(), core::mem::take(&mut state.streams));
                (state.why, state.known, state.unanswered) = ("it is opened anew".to_owned(), 0, 0);
                state.ends.clear();
                let (is_over, stale, absences) = (state.is_over, state.stale.take(), state.absences);
                drop(state);
                streams.values().for_each(|stream| stream.cut("the Zenoh session is closed"));
                if let Some(Err(error)) = network.map(|network| network.zenoh.close().wait()) {
                    log::debug!("a Zenoh session is closed: {error}");
                }
                if is_over {
                    return;
                }
                self.counts.reopened.fetch_add(1, Ordering::Relaxed);
                match stale {
                    Some(Stale::Absent) if absences > 1 => {}
                    Some(Stale::Absent) => {
                        let most = ABSENT_MAX.as_secs();
                        log::warn!(
                            "the Zenoh session is opened anew: no service that it dials is there; again each {most} s in the end"
                        );
                    }
                    Some(Stale::Unanswered) | None => {
                        log::warn!(
                            "the Zenoh session is opened anew: ends that are there by their tokens did not answer"
                        );
                    }
                }
                continue;
            }
            if state.why != why {
                log::warn!(
                    "the Zenoh session is not open: {why}; it is tried again, each {} s in the end",
                    AGAIN_MAX.as_secs()
                );
                state.why = why;
            }
            let waits = |state: &mut State| !state.is_over;
            let waited = self.changed.wait_timeout_while(state, again, waits);
            if waited.unwrap_or_else(PoisonError::into_inner).0.is_over {
                return;
            }
            again = (again * 2).min(AGAIN_MAX);
        }
    }

    /// Waits until the session is to be closed.
    fn await_end<'s>(&'s self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        let waits = |state: &mut State| !state.is_over && state.stale.is_none();
        self.changed.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the session once: what others send is taken before they can know of it.
    fn open(self: &Arc<Self>) -> Result<(), String> {
        let text = |error: zenoh::Error| error.to_string();
        let zenoh = zenoh::open(self.options.config()?).wait().map_err(text)?;
        let root = format!("{PREFIX}/{}", self.options.realm);
        let instance = u64::from_le_bytes(random()?);
        let window = self.options.window_bytes.into();
        let network = Arc::new(Network { zenoh, instance, root, window, token: OnceLock::new() });
        let own_key = network.key_of(&self.options.name, instance);
        self.state().network = Some(Arc::clone(&network));
        let listen = || {
            let its = Arc::downgrade(self);
            let heard = network.zenoh.declare_subscriber(own_key.as_str()).callback(move |sample| {
                if let Some(shared) = its.upgrade() {
                    shared.heard(instance, &sample.payload().to_bytes());
                }
            });
            heard.background().wait().map_err(text)?;
            let its = Arc::downgrade(self);
            let everyone = format!("{}/*/*", network.root);
            let noticed =
                network.zenoh.liveliness().declare_subscriber(everyone).history(true).callback(move |sample| {
                    if let Some(shared) = its.upgrade() {
                        shared.noticed(instance, sample.key_expr().as_str(), sample.kind() == SampleKind::Put);
                    }
                });
            noticed.background().wait().map_err(text)?;
            network.zenoh.liveliness().declare_token(own_key.as_str()).wait().map_err(text)
        };
        match listen() {
            Ok(token) => {
                let _first = network.token.set(token);
                log::info!(
                    "the Zenoh session is open: this service is {:?} in the realm {:?}",
                    self.options.name,
                    self.options.realm
                );
                Ok(())
            }
            Err(why) => {
                self.state().network = None;
                let _closed = network.zenoh.close().wait();
                Err(why)
            }
        }
    }

    /// An end has come or gone.
    fn noticed(&self, instance: u64, key: &str, is_there: bool) {
        let mut state = self.state();
        let Some(network) = state.network.as_ref().filter(|network| network.instance == instance) else { return };
        let path = key.strip_prefix(&network.root).and_then(|rest| rest.strip_prefix('/'));
        let Some((name, of)) = path.and_then(|path| path.split_once('/')) else { return };
        let Ok(of) = u64::from_str_radix(of, 16) else { return };
        if !is_name(name) || of == instance {
            return;
        }
        if is_there {
            if state.known < ENDS_MAX && !state.ends.get(name).is_some_and(|known| known.contains(&of)) {
                state.ends.entry(name.to_owned()).or_default().push(of);
                state.known += 1;
            }
            return;
        }
        let Some(known) = state.ends.get_mut(name) else { return };
        let before = known.len();
        known.retain(|other| *other != of);
        let (gone, is_last) = (before - known.len(), known.is_empty());
        state.known -= gone;
        if is_last {
            state.ends.remove(name);
        }
        let theirs = state.streams.values().filter(|stream| stream.far.0 == name && stream.far.1 == of);
        let theirs: Vec<_> = theirs.cloned().collect();
        for stream in &theirs {
            state.streams.remove(&stream.id);
        }
        drop(state);
        theirs.iter().for_each(|stream| {
            stream.end("the other service is gone from Zenoh");
        });
    }

    /// A message has come.
    fn heard(self: &Arc<Self>, instance: u64, octets: &[u8]) {
        let Some((id, message)) = Message::read(octets) else {
            self.counts.malformed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let mut state = self.state();
        let Some(network) = state.network.clone().filter(|network| network.instance == instance) else { return };
        let Some(stream) = state.streams.get(&id).cloned() else {
            let Message::Open { is_secure, window, instance, name } = message else {
                self.counts.unknown.fetch_add(1, Ordering::Relaxed);
                return;
            };
            let far = (name.to_owned(), instance);
            return match self.take(state, &network, (id, far, window, is_secure)) {
                Ok(()) => {}
                Err(why) => {
                    self.refused(name, why);
                    if is_name(name) {
                        let reason = Message::End { reason: why };
                        let _lost = network.put(&network.key_of(name, instance), reason.write(&id), false);
                    }
                }
            };
        };
        (state.unanswered, state.absent, state.absences) = (0, None, 0);
        if matches!(message, Message::End { .. }) {
            state.streams.remove(&id);
        }
        drop(state);
        match stream.handle(&message) {
            Ok(()) if matches!(message, Message::Open { .. }) && stream.is_carried() => {
                stream.send_at_once(&Message::Accept { window: self.options.window_bytes });
            }
            Ok(()) => {}
            Err(Wrong::Repeated) => {
                self.counts.unknown.fetch_add(1, Ordering::Relaxed);
            }
            Err(wrong) => {
                let count = if wrong == Wrong::Missing { &self.counts.lost } else { &self.counts.beyond };
                count.fetch_add(1, Ordering::Relaxed);
                self.forget(&stream);
                if stream.end(wrong.reason()) {
                    stream.send_at_once(&Message::End { reason: wrong.reason() });
                }
            }
        }
    }

    /// Takes a stream that another end wants.
    ///
    /// # Errors
    /// Why it is not taken, for that end.
    fn take(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        network: &Arc<Network>,
        (id, far, window, is_secure): (StreamId, (String, u64), u32, bool),
    ) -> Result<(), &'static str> {
        if !self.options.accepts {
            return Err("it takes no links over Zenoh");
        }
        if !is_name(&far.0) || far.1 == network.instance || window < *WINDOW_BYTES.start() {
            return Err("the name or the window is not valid");
        }
        if state.streams.values().filter(|stream| stream.is_accepted).count() >= ACCEPTED_MAX {
            return Err("as many links over Zenoh are open as may be");
        }
        let stream = Arc::new(Stream::new(Arc::clone(network), (id, true), far, window.into()));
        state.streams.insert(id, Arc::clone(&stream));
        drop(state);
        let incoming = Incoming { half: Half::new(Arc::clone(self), stream), is_secure };
        self.incoming.try_send(incoming).map_err(|refused| {
            let (TrySendError::Full(refused) | TrySendError::Disconnected(refused)) = refused;
            let why = "too many links over Zenoh wait to be taken";
            self.end_stream(&refused.half.stream, why, false);
            why
        })
    }

    /// See [`Session::dial`].
    fn dial(&self, to: &str, is_secure: bool, within: Duration) -> Result<Arc<Stream>, DialError> {
        if to == self.options.name {
            return Err(DialError::Itself);
        }
        let id = random().map_err(DialError::NotOpen)?;
        let mut state = self.state();
        let Some(network) = state.network.clone() else { return Err(DialError::NotOpen(state.why.clone())) };
        // Of two of one name, one may be a process that has ended and is not missed yet.
        let turn = state.unanswered as usize;
        let instance = state.ends.get(to).and_then(|known| known.iter().rev().cycle().nth(turn % known.len().max(1)));
        let Some(instance) = instance.copied() else {
            self.is_absent(&mut state);
            return Err(DialError::Absent(to.to_owned()));
        };
        if state.streams.values().filter(|stream| !stream.is_accepted).count() >= DIALLED_MAX {
            return Err(DialError::TooMany);
        }
        let stream = Stream::new(Arc::clone(&network), (id, false), (to.to_owned(), instance), network.window);
        let stream = Arc::new(stream);
        state.streams.insert(id, Arc::clone(&stream));
        drop(state);
        let (window, name) = (self.options.window_bytes, self.options.name.as_str());
        let open = Message::Open { is_secure, window, instance: network.instance, name };
        let until = Instant::now() + within;
        loop {
            let opened = stream.send(&open).and_then(|()| {
                let left = until.saturating_duration_since(Instant::now());
                stream.await_opened(left.min(OPENS_AGAIN))
            });
            match opened {
                Ok(true) => return Ok(stream),
                Ok(false) if Instant::now() < until => {}
                Ok(false) => break,
                Err(why) => {
                    self.forget(&stream);
                    return Err(DialError::Refused(why));
                }
            }
        }
        self.end_stream(&stream, "it was not answered in time", false);
        let mut state = self.state();
        state.unanswered += 1;
        if state.unanswered >= UNANSWERED_MAX && state.ends.contains_key(to) {
            state.stale = Some(Stale::Unanswered);
            self.changed.notify_all();
        }
        Err(DialError::Unanswered)
    }

    /// Notes that an end is absent which was dialled. A router is not opened anew for that: links of others may go through it.
    fn is_absent(&self, state: &mut State) {
        if !state.streams.is_empty() || !self.options.listen.is_empty() {
            return;
        }
        let since = *state.absent.get_or_insert_with(Instant::now);
        let patience = self.options.absent_for.unwrap_or(ABSENT_FIRST) * 2_u32.pow(state.absences.min(6));
        if since.elapsed() >= patience.min(ABSENT_MAX) {
            (state.absent, state.stale) = (None, Some(Stale::Absent));
            state.absences = state.absences.saturating_add(1);
            self.changed.notify_all();
        }
    }

    /// Counts a stream that is refused, and logs that once in a while.
    fn refused(&self, far: &str, why: &str) {
        self.counts.refused.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state();
        if state.refused.is_none_or(|at| at.elapsed() >= REFUSED_EACH) {
            state.refused = Some(Instant::now());
            drop(state);
            log::warn!("a link over Zenoh of {far:?} is refused: {why}; others within a minute are counted only");
        }
    }

    /// Takes a stream out of those that there are.
    fn forget(&self, stream: &Stream) {
        self.state().streams.remove(&stream.id);
    }

    /// Ends a stream and tells its far side, unless it has ended. Where there is no room for the message that is waited for, or else the
    /// far side finds out by itself.
    pub(crate) fn end_stream(&self, stream: &Stream, why: &str, waits: bool) {
        self.forget(stream);
        let end = Message::End { reason: why };
        if !stream.end(why) {
            return;
        }
        if waits {
            let _closed = stream.send(&end);
        } else {
            stream.send_at_once(&end);
        }
    }
}

/// Octets that cannot be foreseen.
fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut octets = [0; N];
    match rustix::rand::getrandom(&mut octets, rustix::rand::GetRandomFlags::empty()) {
        Ok(count) if count == N => Ok(octets),
        Ok(_) => Err("the system has no random numbers".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

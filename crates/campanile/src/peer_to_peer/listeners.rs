//! Receiving over DDS.
//!
//! A thread for each participant with readers waits for their values and handles them, for one consumer or for all consumers that share it.
//! A thread for each consumer's domain looks for new writers, and makes readers for subscribed types that no reader has yet.

use super::once::Once;
use super::participants::ParticipantHandle;
use super::qos;
use crate::declared::Declared;
use crate::error::{Error, Trouble};
use crate::form::EventQos;
use crate::raw::{Desk, Sieve, Teller};
use crate::settings::Settings;
use dds::{
    Difference, Endpoint, Guid, Incompatibilities, News, Participant, Policy, Qos, Reader, Role, Topic, WaitSet, Waker,
};
use std::cell::Cell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Maximum values taken at a time.
const TAKEN_MAX: usize = 64;
/// Time limit of a query for a remote type.
const TYPE_MAX: Duration = Duration::from_secs(1);
/// Interval of checks for lost events, and for writers that did not announce their types.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Initial interval of checks for writers that did not announce their types.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Maximum readers of one consumer, one for each type of each topic.
const READERS_MAX: usize = 4096;

/// A consumer's listeners. Dropping them ends the subscription.
pub(crate) struct Listeners {
    shared: Arc<Shared>,
}

struct Shared {
    settings: Settings,
    qos: Qos,
    tell: Teller,
    desk: Mutex<Counter>,
    has_ended: AtomicBool,
    /// Whether a callback has ended the subscription.
    is_enough: AtomicBool,
    /// Wakers of the discovery threads, woken at the end.
    wakers: Mutex<Vec<Waker>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The registry of this consumer's listeners, possibly shared with others.
    registry: Arc<Registry>,
    sources: Arc<Count>,
}

/// Listeners by participant.
type Registry = Mutex<HashMap<Guid, Arc<Listener>>>;

/// Listeners of consumers that share threads.
static OF_PROCESS: LazyLock<Arc<Registry>> = LazyLock::new(Arc::default);

thread_local! {
    /// Whether callbacks run on this thread. It waits for no other such thread, which may wait for it.
    static HAS_CALLBACKS: Cell<bool> = const { Cell::new(false) };
}

/// Number of existing sources.
#[derive(Default)]
struct Count {
    of: Mutex<usize>,
    fell: Condvar,
}

/// A counted source, until dropped.
struct Counted(Arc<Count>);

/// State of handling values, one at a time.
struct Counter {
    desk: Desk,
    sieve: Option<Sieve>,
}

/// A thread that waits for the readers of a participant.
struct Listener {
    waker: Waker,
    /// New readers that it does not wait for yet.
    fresh: Mutex<Vec<Source>>,
}

/// State of a listener's thread.
struct Listening {
    registry: Arc<Registry>,
    participant: Guid,
    /// The next token; none is used twice.
    next_token: u64,
    // In the order in which they are to go: with the last reader the participant goes, unless it is shared.
    listener: Arc<Listener>,
    set: WaitSet,
    sources: BTreeMap<u64, Source>,
    /// Sources of consumers that have ended.
    gone: Vec<Source>,
}

/// A reader, with the type of its values.
struct Source {
    // In the order in which they are to go.
    reader: Reader,
    declared: Declared,
    lost: u64,
    once: Once,
    /// The reader's consumer.
    of: Arc<Shared>,
    _handle: ParticipantHandle,
    /// Dropped last: a thread that waits for it waits for all fields above.
    _counted: Counted,
}

/// A domain with subscribed events.
struct Domain {
    id: u16,
    /// The event domain of the values read here.
    event_domain: String,
    /// Names of the subscribed types, and whether all others are subscribed to as well.
    names: BTreeSet<String>,
    takes_other_types: bool,
    /// Topics with a reader, by name.
    topics: BTreeMap<String, Vec<Topic>>,
    /// Endpoints that are processed.
    known: BTreeSet<Guid>,
    /// Endpoints that could not be processed, as reported.
    reported: BTreeSet<Guid>,
    /// Endpoints that did not announce their types, or that no reader of their topic knows yet, with the time of the first check.
    mute: BTreeMap<Guid, Instant>,
    readers: usize,
    handle: ParticipantHandle,
}

/// The endpoints known to a topic's participant.
struct Seen {
    known: BTreeSet<Guid>,
    /// Endpoints of the topic with another type.
    conflicts: BTreeSet<Guid>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Listeners {
    /// Subscribes; when it returns, the existing writers have been found.
    pub(crate) fn new(channel: &str, settings: &Settings, filter: Option<&str>, desk: Desk) -> Result<Self, Error> {
        let sieve = filter.map(|text| Sieve::new(text, settings.event_form)).transpose()?;
        let mut domains: BTreeMap<u16, Domain> = BTreeMap::new();
        let mut wanted = Vec::new();
        for declared in desk.declared() {
            let event_domain = declared.domain().unwrap_or(&settings.event_domain);
            let id = settings.dds.domain(event_domain);
            let domain = Domain::of(&mut domains, id, event_domain, settings)?;
            domain.names.insert(declared.name().to_owned());
            wanted.push((id, Declared::new(declared.type_code(), Some(event_domain), Some(declared.name()))?));
        }
        if desk.takes_other_types() {
            let id = settings.dds.domain(&settings.event_domain);
            Domain::of(&mut domains, id, &settings.event_domain, settings)?.takes_other_types = true;
        }
        let shared = Arc::new(Shared {
            settings: settings.clone(),
            qos: qos(channel, settings),
            tell: desk.teller().clone(),
            desk: Mutex::new(Counter { desk, sieve }),
            has_ended: AtomicBool::new(false),
            is_enough: AtomicBool::new(false),
            wakers: Mutex::default(),
            threads: Mutex::default(),
            registry: if settings.shared_thread { OF_PROCESS.clone() } else { Arc::default() },
            sources: Arc::default(),
        });
        // From here on, what was begun ends with it.
        let listeners = Self { shared };
        for (id, declared) in wanted {
            let Some(domain) = domains.get_mut(&id) else { continue };
            if !domain.has(&declared) {
                let (handle, topic) =
                    ParticipantHandle::with_topic(id, settings, declared.name(), declared.type_code())?;
                Shared::read(&listeners.shared, domain, handle, topic, declared)?;
            }
        }
        for domain in domains.into_values() {
            domain.handle.await_discovery(settings);
            Shared::look(&listeners.shared, domain)?;
        }
        Ok(listeners)
    }

    /// Whether a callback has ended the subscription.
    pub(crate) fn have_ended(&self) -> bool {
        self.shared.is_enough.load(Ordering::Acquire)
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::Release);
        lock(&self.shared.wakers).iter().for_each(Waker::wake);
        lock(&self.shared.registry).values().for_each(|listener| listener.waker.wake());
        if HAS_CALLBACKS.get() {
            // Dropped by a callback, of this consumer or of another: others may wait for it to return. All end by themselves.
            return;
        }
        for thread in core::mem::take(&mut *lock(&self.shared.threads)) {
            // Should it have panicked, there is nothing more to be said.
            let _ = thread.join();
        }
        self.shared.sources.wait_for_none();
    }
}

impl Count {
    fn wait_for_none(&self) {
        drop(self.fell.wait_while(lock(&self.of), |count| *count > 0).unwrap_or_else(PoisonError::into_inner));
    }
}

impl Counted {
    fn new(count: &Arc<Count>) -> Self {
        *lock(&count.of) += 1;
        Self(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        *lock(&self.0.of) -= 1;
        self.0.fell.notify_all();
    }
}

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listeners").finish_non_exhaustive()
    }
}

impl Domain {
    fn of<'d>(
        domains: &'d mut BTreeMap<u16, Self>,
        id: u16,
        event_domain: &str,
        settings: &Settings,
    ) -> Result<&'d mut Self, Error> {
        match domains.entry(id) {
            Entry::Occupied(there) => Ok(there.into_mut()),
            Entry::Vacant(place) => Ok(place.insert(Self {
                id,
                event_domain: event_domain.to_owned(),
                names: BTreeSet::new(),
                takes_other_types: false,
                topics: BTreeMap::new(),
                known: BTreeSet::new(),
                reported: BTreeSet::new(),
                mute: BTreeMap::new(),
                readers: 0,
                handle: ParticipantHandle::new(id, settings)?,
            })),
        }
    }

    /// Whether an endpoint is a writer of a subscribed type, in any partition.
    fn subscribes_to(&self, endpoint: &Endpoint) -> bool {
        endpoint.role == Role::Writer && (self.takes_other_types || self.names.contains(&endpoint.topic))
    }

    /// Whether a reader of that type exists.
    fn has(&self, declared: &Declared) -> bool {
        let topics = self.topics.get(declared.name()).map(Vec::as_slice).unwrap_or_default();
        topics.iter().any(|topic| topic.type_code() == &**declared.type_code())
    }

    /// Writers of subscribed types that match no reader.
    fn unmet(&mut self, partitions: &[String]) -> Result<Vec<Endpoint>, dds::Error> {
        let endpoints = self.handle.participant.endpoints()?;
        let there: BTreeSet<Guid> = endpoints.iter().map(|endpoint| endpoint.guid).collect();
        self.known.retain(|guid| there.contains(guid));
        self.reported.retain(|guid| there.contains(guid));
        self.mute.retain(|guid, _| there.contains(guid));
        let mut unmet: Vec<Endpoint> = endpoints
            .into_iter()
            .filter(|endpoint| self.subscribes_to(endpoint) && !self.known.contains(&endpoint.guid))
            .filter(|endpoint| endpoint.partitions == partitions)
            .collect();
        for (name, topics) in &self.topics {
            for topic in topics {
                if !unmet.iter().any(|endpoint| endpoint.topic == *name) {
                    break;
                }
                let seen = Seen::of(topic)?;
                unmet.retain(|endpoint| {
                    let is_met = endpoint.topic == *name && seen.meets(endpoint.guid) == Some(true);
                    if is_met {
                        self.known.insert(endpoint.guid);
                    }
                    !is_met
                });
            }
        }
        Ok(unmet)
    }
}

impl Seen {
    fn of(topic: &Topic) -> Result<Self, dds::Error> {
        let known = topic.knows()?;
        let conflicts = topic.conflicts(TYPE_MAX)?.iter().map(|conflict| conflict.endpoint.guid).collect();
        Ok(Self { known, conflicts })
    }

    /// Whether an endpoint of the topic has its type. `None` if not known yet: each topic may have a participant of its own, which finds an
    /// endpoint later than this one.
    fn meets(&self, endpoint: Guid) -> Option<bool> {
        self.known.contains(&endpoint).then(|| !self.conflicts.contains(&endpoint))
    }
}

impl Shared {
    /// Makes a reader and waits for its values.
    fn read(
        shared: &Arc<Self>,
        domain: &mut Domain,
        handle: ParticipantHandle,
        topic: Topic,
        declared: Declared,
    ) -> Result<(), Error> {
        let reader = topic.reader(&shared.qos)?;
        domain.topics.entry(declared.name().to_owned()).or_default().push(topic.clone());
        domain.readers += 1;
        let participant = handle.participant.clone();
        let (once, of, counted) = (Once::new(&shared.settings), shared.clone(), Counted::new(&shared.sources));
        let source = Source { reader, declared, lost: 0, once, of, _handle: handle, _counted: counted };
        let mut registry = lock(&shared.registry);
        if let Some(listener) = registry.get(&participant.guid()) {
            lock(&listener.fresh).push(source);
            listener.waker.wake();
            return Ok(());
        }
        let set = participant.wait_set()?;
        let listener = Arc::new(Listener { waker: set.waker(), fresh: Mutex::new(vec![source]) });
        registry.insert(participant.guid(), listener.clone());
        drop(registry);
        let listening = Listening {
            registry: shared.registry.clone(),
            participant: participant.guid(),
            next_token: 0,
            listener,
            set,
            sources: BTreeMap::new(),
            gone: Vec::new(),
        };
        // The thread is not joined: it may outlive this consumer, for others.
        begin("campanile-dds", move || listening.listen()).map(drop)
    }

    /// Starts to look for new writers.
    fn look(shared: &Arc<Self>, domain: Domain) -> Result<(), Error> {
        let mut set = domain.handle.participant.wait_set()?;
        set.attach_discovery()?;
        lock(&shared.wakers).push(set.waker());
        let theirs = shared.clone();
        let thread = begin("campanile-look", move || theirs.look_around(domain, &set))?;
        lock(&shared.threads).push(thread);
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire) || self.is_enough.load(Ordering::Acquire)
    }

    /// Body of a domain's discovery thread.
    fn look_around(self: &Arc<Self>, mut domain: Domain, set: &WaitSet) {
        let (mut tokens, mut news, mut is_due) = (Vec::new(), Vec::new(), true);
        let (mut incompatible, mut looked) = (Incompatibilities::new("dds."), Instant::now());
        while !self.has_ended() {
            for new in news.drain(..) {
                match new {
                    News::Found(endpoint) if domain.subscribes_to(&endpoint) => {
                        is_due = true;
                        self.compare(&domain, &mut incompatible, &endpoint);
                    }
                    News::Found(_) => {}
                    News::Gone(guid) => drop(incompatible.gone(&self.tell, guid)),
                }
            }
            // Endpoints of other topics are nothing to look for: there may be very many.
            is_due |= looked.elapsed() >= LOOK_EVERY;
            if is_due {
                looked = Instant::now();
            }
            let unmet = if is_due { domain.unmet(&self.qos.partitions) } else { Ok(Vec::new()) };
            match unmet {
                Ok(unmet) => unmet.iter().for_each(|endpoint| self.meet(&mut domain, endpoint)),
                Err(error) => log::warn!("DDS does not list its participants: {error}"),
            }
            let is_mute = domain.mute.values().any(|since| since.elapsed() < LOOK_EVERY);
            let pause = if is_mute { LOOK_AGAIN } else { LOOK_EVERY };
            match set.wait_for_news(Some(pause), &mut tokens, |new| news.push(new)) {
                // A pause that is over is a time to look, too.
                Ok(woken) => is_due = is_mute || !woken.by_discovery,
                Err(error) => return log::error!("DDS cannot be waited for: {error}"),
            }
        }
    }

    /// Reports policies by which a subscribed writer does not match the readers here, except for its type, for which a reader is made.
    fn compare(&self, domain: &Domain, incompatible: &mut Incompatibilities, endpoint: &Endpoint) {
        let mut found = Difference::all(&self.qos, endpoint).unwrap_or_default();
        // Who wants all types wants those of its channel.
        found.retain(|found| found.policy != Policy::Partition || domain.names.contains(&endpoint.topic));
        let described = (endpoint, || domain.handle.participant.describe(endpoint));
        incompatible.note(&self.tell, described, false, found, |found| self.tell.call(&found.into()));
    }

    /// Makes a reader for a writer of a type that no reader has.
    fn meet(self: &Arc<Self>, domain: &mut Domain, endpoint: &Endpoint) {
        // One before it may have had the same type.
        let topics = domain.topics.get(&endpoint.topic).map_or(&[][..], Vec::as_slice);
        let met: Vec<_> = topics.iter().filter_map(|topic| Some(Seen::of(topic).ok()?.meets(endpoint.guid))).collect();
        if met.contains(&Some(true)) {
            domain.known.insert(endpoint.guid);
            return;
        }
        if met.contains(&None) {
            domain.mute.entry(endpoint.guid).or_insert_with(Instant::now);
            return;
        }
        let made = self.reader_for(domain, endpoint);
        // A writer that does not say its type may be busy, or has come or gone just now, and is asked again before that is reported.
        let is_mute = matches!(made, Err(Error::Dds(_)));
        if !is_mute {
            domain.known.insert(endpoint.guid);
        }
        let since = is_mute.then(|| *domain.mute.entry(endpoint.guid).or_insert_with(Instant::now));
        if let Err(error) = made
            && since.is_none_or(|since| since.elapsed() >= LOOK_EVERY)
            && domain.reported.insert(endpoint.guid)
        {
            self.tell.tell(&Trouble::Unreadable { name: endpoint.topic.clone(), reason: error.to_string() });
        }
    }

    fn reader_for(self: &Arc<Self>, domain: &mut Domain, endpoint: &Endpoint) -> Result<(), Error> {
        if domain.readers >= READERS_MAX {
            return Err(Error::Dds(format!("there are {READERS_MAX} types already")));
        }
        let make = |participant: &Participant| participant.topic_like(endpoint, TYPE_MAX);
        let (handle, topic) = ParticipantHandle::with(domain.id, &self.settings, make)?;
        let declared = Declared::new(topic.type_code(), Some(&domain.event_domain), Some(&endpoint.topic))?;
        Self::read(self, domain, handle, topic, declared)
    }
}

/// Starts a thread that runs callbacks.
pub(super) fn begin(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    let run = || {
        HAS_CALLBACKS.set(true);
        run();
    };
    thread::Builder::new().name(name.to_owned()).spawn(run).map_err(Error::Thread)
}

impl Listening {
    /// Body of a listener's thread: runs until it has no consumer left.
    fn listen(mut self) {
        let (mut tokens, mut looked, mut is_due) = (Vec::new(), Instant::now(), true);
        loop {
            if is_due {
                self.take_in();
                self.detach_ended();
                if self.is_over() {
                    return;
                }
                self.gone.clear();
            }
            let woken = match self.set.wait(Some(LOOK_EVERY), &mut tokens) {
                Ok(woken) => woken,
                Err(error) => return log::error!("DDS cannot be waited for: {error}"),
            };
            is_due = woken.by_waker;
            for token in &tokens {
                if let Some(source) = self.sources.get_mut(token) {
                    source.take();
                    is_due |= source.of.has_ended();
                }
            }
            if looked.elapsed() >= LOOK_EVERY {
                (looked, is_due) = (Instant::now(), true);
                self.sources.values_mut().for_each(Source::tell_losses);
            }
        }
    }

    /// Attaches new sources.
    fn take_in(&mut self) {
        for source in lock(&self.listener.fresh).drain(..) {
            let token = self.next_token;
            self.next_token += 1;
            match self.set.attach(&source.reader, token) {
                Ok(()) => drop(self.sources.insert(token, source)),
                Err(error) => {
                    log::error!("{} cannot be waited for: {error}", source.declared.name());
                    self.gone.push(source);
                }
            }
        }
    }

    /// Detaches the sources of consumers that have ended.
    fn detach_ended(&mut self) {
        let ended = self.sources.iter().filter(|(_, source)| source.of.has_ended());
        for token in ended.map(|(token, _)| *token).collect::<Vec<u64>>() {
            self.set.detach(token);
            self.gone.extend(self.sources.remove(&token));
        }
        // One that has no room would have the others wait as they go.
        self.gone.iter().for_each(|source| source.reader.keep_nothing());
    }

    /// Whether no consumer is left. In that case it has been removed from the registry, where another might find it.
    fn is_over(&self) -> bool {
        let mut registry = lock(&self.registry);
        let is_over = self.sources.is_empty() && lock(&self.listener.fresh).is_empty();
        if is_over {
            registry.remove(&self.participant);
        }
        is_over
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // It is there, and has sources, only if it could not go on.
        let mut registry = lock(&self.registry);
        if registry.get(&self.participant).is_some_and(|listener| Arc::ptr_eq(listener, &self.listener)) {
            registry.remove(&self.participant);
        }
        drop(registry);
        let fresh = core::mem::take(&mut *lock(&self.listener.fresh));
        for source in core::mem::take(&mut self.sources).into_values().chain(fresh) {
            log::error!("events {} are received no more", source.declared.name());
            source.reader.keep_nothing();
            self.gone.push(source);
        }
    }
}

impl Source {
    /// Handles some of the reader's values in place.
    fn take(&mut self) {
        let Self { reader, declared, once, of, .. } = self;
        let mut counter = lock(&of.desk);
        let Counter { desk, sieve } = &mut *counter;
        let mut octets = Vec::new();
        let outcome = reader.take(TAKEN_MAX, |sample| {
            if of.has_ended() || once.is_again(&sample) {
                return;
            }
            let cdr = match declared.read_from_dds(sample.cdr, &mut octets) {
                Ok(cdr) => cdr,
                Err(error) => {
                    let name = declared.name().to_owned();
                    return of.tell.tell(&Trouble::Unreadable { name, reason: error.to_string() });
                }
            };
            if sieve.as_mut().is_none_or(|sieve| sieve.passes(declared, cdr, EventQos::default()))
                && desk.take_value(declared, cdr)
            {
                of.is_enough.store(true, Ordering::Release);
            }
        });
        if let Err(error) = outcome {
            log::error!("events {} cannot be taken: {error}", declared.name());
        }
    }

    fn tell_losses(&mut self) {
        let Ok(status) = self.reader.status() else { return };
        let lost = u64::from(status.lost_total) + u64::from(status.rejected_total);
        if lost > self.lost {
            let (name, events) = (self.declared.name().to_owned(), lost - self.lost);
            self.lost = lost;
            self.of.tell.tell(&Trouble::Lost { name, events });
        }
    }
}

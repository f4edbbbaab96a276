//! Receiving over DDS.
//!
//! A thread for each participant that has readers waits for their values and hands them over; one for each domain looks who has come, and
//! has readers made for types that are wanted and not those of a reader yet.

use super::once::Once;
use super::participants::Share;
use super::qos;
use super::sieve::Sieve;
use crate::declared::Declared;
use crate::error::{Error, Trouble};
use crate::raw::{Desk, Teller};
use crate::settings::Settings;
use dds::{Endpoint, Guid, Participant, Qos, Reader, Role, Topic, WaitSet, Waker};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Values taken at a time.
const TAKEN_MAX: usize = 64;
/// How long others may take to say what a type is.
const TYPE_MAX: Duration = Duration::from_secs(1);
/// Between two looks at what was lost, and at who could not be asked.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// And where somebody did not say what its type is, the first times.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Readers that one consumer may have: each type of each topic is one.
const READERS_MAX: usize = 4096;

/// What a consumer has. It ends when this is dropped.
pub(crate) struct Listeners {
    shared: Arc<Shared>,
}

struct Shared {
    settings: Settings,
    qos: Qos,
    tell: Teller,
    desk: Mutex<Counter>,
    has_ended: AtomicBool,
    /// A callback has had enough.
    is_enough: AtomicBool,
    /// Whoever is to be woken at the end.
    wakers: Mutex<Vec<Waker>>,
    /// By participant.
    listeners: Mutex<HashMap<Guid, Arc<Listener>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Where values are handed over, one at a time.
struct Counter {
    desk: Desk,
    sieve: Option<Sieve>,
}

/// A thread that waits for the readers of a participant.
struct Listener {
    waker: Waker,
    /// Readers that it does not wait for yet.
    fresh: Mutex<Vec<Source>>,
}

/// A reader, and what its values are.
struct Source {
    // In the order in which they are to go.
    reader: Reader,
    declared: Declared,
    lost: u64,
    once: Once,
    _share: Share,
}

/// A domain in which events are wanted.
struct Domain {
    id: u16,
    /// Event domain of what is read here.
    event_domain: String,
    /// Names of the types that are wanted; with others, too, if so.
    names: BTreeSet<String>,
    wants_others: bool,
    /// Topics that have a reader, by name.
    topics: BTreeMap<String, Vec<Topic>>,
    /// Endpoints that are dealt with.
    known: BTreeSet<Guid>,
    /// Those that could not be dealt with, as is told.
    told: BTreeSet<Guid>,
    /// Those that did not say what their types are, since when.
    mute: BTreeMap<Guid, Instant>,
    readers: usize,
    share: Share,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Listeners {
    /// Begins to receive; when it returns, those who are there have been found.
    pub(crate) fn new(channel: &str, settings: &Settings, filter: Option<&str>, desk: Desk) -> Result<Self, Error> {
        let sieve = filter.map(|text| Sieve::new(text, settings)).transpose()?;
        let mut domains: BTreeMap<u16, Domain> = BTreeMap::new();
        let mut wanted = Vec::new();
        for declared in desk.declared() {
            let event_domain = declared.domain().unwrap_or(&settings.event_domain);
            let id = settings.dds.domain(event_domain);
            let domain = Domain::of(&mut domains, id, event_domain, settings)?;
            domain.names.insert(declared.name().to_owned());
            wanted.push((id, Declared::new(declared.type_code(), Some(event_domain), Some(declared.name()))?));
        }
        if desk.wants_others() {
            let id = settings.dds.domain(&settings.event_domain);
            Domain::of(&mut domains, id, &settings.event_domain, settings)?.wants_others = true;
        }
        let shared = Arc::new(Shared {
            settings: settings.clone(),
            qos: qos(channel, settings),
            tell: desk.teller().clone(),
            desk: Mutex::new(Counter { desk, sieve }),
            has_ended: AtomicBool::new(false),
            is_enough: AtomicBool::new(false),
            wakers: Mutex::default(),
            listeners: Mutex::default(),
            threads: Mutex::default(),
        });
        // From here on, what was begun ends with it.
        let listeners = Self { shared };
        for (id, declared) in wanted {
            let Some(domain) = domains.get_mut(&id) else { continue };
            if !domain.has(&declared) {
                let (share, topic) = Share::with_topic(id, settings, declared.name(), declared.type_code())?;
                Shared::read(&listeners.shared, domain, share, topic, declared)?;
            }
        }
        for domain in domains.into_values() {
            domain.share.settle(settings);
            Shared::look(&listeners.shared, domain)?;
        }
        Ok(listeners)
    }

    /// Whether it is over, since a callback had enough.
    pub(crate) fn have_ended(&self) -> bool {
        self.shared.is_enough.load(Ordering::Acquire)
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::Release);
        lock(&self.shared.wakers).iter().for_each(Waker::wake);
        let threads = core::mem::take(&mut *lock(&self.shared.threads));
        let own = thread::current().id();
        if threads.iter().any(|thread| thread.thread().id() == own) {
            // Dropped by a callback: the others may wait for it to return. All end by themselves.
            return;
        }
        for thread in threads {
            // Should it have panicked, there is nothing more to be said.
            let _ = thread.join();
        }
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
                wants_others: false,
                topics: BTreeMap::new(),
                known: BTreeSet::new(),
                told: BTreeSet::new(),
                mute: BTreeMap::new(),
                readers: 0,
                share: Share::new(id, settings)?,
            })),
        }
    }

    /// Whether there is a reader of that type.
    fn has(&self, declared: &Declared) -> bool {
        let topics = self.topics.get(declared.name()).map(Vec::as_slice).unwrap_or_default();
        topics.iter().any(|topic| topic.type_code() == &**declared.type_code())
    }

    /// Writers that are wanted, and that no reader meets.
    fn unmet(&mut self, partitions: &[String]) -> Result<Vec<Endpoint>, dds::Error> {
        let endpoints = self.share.participant.endpoints()?;
        let there: BTreeSet<Guid> = endpoints.iter().map(|endpoint| endpoint.guid).collect();
        self.known.retain(|guid| there.contains(guid));
        self.told.retain(|guid| there.contains(guid));
        self.mute.retain(|guid, _| there.contains(guid));
        let mut unmet: Vec<Endpoint> = endpoints
            .into_iter()
            .filter(|endpoint| endpoint.role == Role::Writer && !self.known.contains(&endpoint.guid))
            .filter(|endpoint| self.wants_others || self.names.contains(&endpoint.topic))
            .filter(|endpoint| endpoint.partitions == partitions)
            .collect();
        for (name, topics) in &self.topics {
            for topic in topics {
                if !unmet.iter().any(|endpoint| endpoint.topic == *name) {
                    break;
                }
                let conflicts: BTreeSet<Guid> =
                    topic.conflicts(TYPE_MAX)?.iter().map(|conflict| conflict.endpoint.guid).collect();
                unmet.retain(|endpoint| {
                    let is_met = endpoint.topic == *name && !conflicts.contains(&endpoint.guid);
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

impl Shared {
    /// Has a reader made and waited for.
    fn read(
        shared: &Arc<Self>,
        domain: &mut Domain,
        share: Share,
        topic: Topic,
        declared: Declared,
    ) -> Result<(), Error> {
        let reader = topic.reader(&shared.qos)?;
        domain.topics.entry(declared.name().to_owned()).or_default().push(topic.clone());
        domain.readers += 1;
        let participant = share.participant.clone();
        let source = Source { reader, declared, lost: 0, once: Once::new(&shared.settings), _share: share };
        let mut listeners = lock(&shared.listeners);
        if let Some(listener) = listeners.get(&participant.guid()) {
            lock(&listener.fresh).push(source);
            listener.waker.wake();
            return Ok(());
        }
        let set = participant.wait_set()?;
        let listener = Arc::new(Listener { waker: set.waker(), fresh: Mutex::new(vec![source]) });
        lock(&shared.wakers).push(set.waker());
        listeners.insert(participant.guid(), listener.clone());
        drop(listeners);
        let theirs = shared.clone();
        shared.begin("campanile-dds", move || theirs.listen(&listener, set))
    }

    /// Begins to look who comes.
    fn look(shared: &Arc<Self>, domain: Domain) -> Result<(), Error> {
        let mut set = domain.share.participant.wait_set()?;
        set.attach_discovery()?;
        lock(&shared.wakers).push(set.waker());
        let theirs = shared.clone();
        shared.begin("campanile-look", move || theirs.look_around(domain, &set))
    }

    fn begin(&self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run).map_err(Error::Thread)?;
        lock(&self.threads).push(thread);
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire) || self.is_enough.load(Ordering::Acquire)
    }

    /// What a listener's thread does.
    fn listen(&self, listener: &Listener, mut set: WaitSet) {
        let (mut sources, mut tokens) = (Vec::<Source>::new(), Vec::new());
        while !self.has_ended() {
            for source in lock(&listener.fresh).drain(..) {
                let token = u64::try_from(sources.len()).unwrap_or(u64::MAX);
                match set.attach(&source.reader, token) {
                    Ok(()) => sources.push(source),
                    Err(error) => log::error!("{} cannot be waited for: {error}", source.declared.name()),
                }
            }
            if let Err(error) = set.wait(Some(LOOK_EVERY), &mut tokens) {
                log::error!("DDS cannot be waited for: {error}");
                break;
            }
            for token in &tokens {
                if let Some(source) = usize::try_from(*token).ok().and_then(|token| sources.get_mut(token)) {
                    self.take(source);
                }
            }
            if tokens.is_empty() {
                sources.iter_mut().for_each(|source| self.tell_losses(source));
            }
        }
        // One that has no room would have the others wait as they go.
        sources.iter().for_each(|source| source.reader.keep_nothing());
    }

    /// Hands over what a reader has, some of it, where it lies.
    fn take(&self, source: &mut Source) {
        let Source { reader, declared, once, .. } = source;
        let mut counter = lock(&self.desk);
        let Counter { desk, sieve } = &mut *counter;
        let mut octets = Vec::new();
        let outcome = reader.take(TAKEN_MAX, |sample| {
            if self.has_ended() || once.is_again(&sample) {
                return;
            }
            let cdr = match declared.read_from_dds(sample.cdr, &mut octets) {
                Ok(cdr) => cdr,
                Err(error) => {
                    let name = declared.name().to_owned();
                    return self.tell.tell(&Trouble::Unreadable { name, reason: error.to_string() });
                }
            };
            if sieve.as_mut().is_none_or(|sieve| sieve.passes(declared, cdr)) && desk.take_value(declared, cdr) {
                self.is_enough.store(true, Ordering::Release);
            }
        });
        if let Err(error) = outcome {
            log::error!("events {} cannot be taken: {error}", declared.name());
        }
    }

    fn tell_losses(&self, source: &mut Source) {
        let Ok(status) = source.reader.status() else { return };
        let lost = u64::from(status.lost_total) + u64::from(status.rejected_total);
        if lost > source.lost {
            let (name, events) = (source.declared.name().to_owned(), lost - source.lost);
            source.lost = lost;
            self.tell.tell(&Trouble::Lost { name, events });
        }
    }

    /// What a domain's looking thread does.
    fn look_around(self: &Arc<Self>, mut domain: Domain, set: &WaitSet) {
        let mut tokens = Vec::new();
        while !self.has_ended() {
            match domain.unmet(&self.qos.partitions) {
                Ok(unmet) => unmet.iter().for_each(|endpoint| self.meet(&mut domain, endpoint)),
                Err(error) => log::warn!("DDS does not say who is there: {error}"),
            }
            let is_mute = domain.mute.values().any(|since| since.elapsed() < LOOK_EVERY);
            let pause = if is_mute { LOOK_AGAIN } else { LOOK_EVERY };
            if let Err(error) = set.wait(Some(pause), &mut tokens) {
                log::error!("DDS cannot be waited for: {error}");
                return;
            }
        }
    }

    /// Has a reader made for a writer whose type none has.
    fn meet(self: &Arc<Self>, domain: &mut Domain, endpoint: &Endpoint) {
        let is_met = |topic: &Topic| {
            topic.conflicts(TYPE_MAX).is_ok_and(|all| all.iter().all(|found| found.endpoint.guid != endpoint.guid))
        };
        // One before it may have had the same type.
        if domain.topics.get(&endpoint.topic).is_some_and(|topics| topics.iter().any(is_met)) {
            domain.known.insert(endpoint.guid);
            return;
        }
        let made = self.reader_for(domain, endpoint);
        // Who does not say what its type is may be busy, or has come or gone just now, and is asked again before that is told.
        let is_mute = matches!(made, Err(Error::Dds(_)));
        if !is_mute {
            domain.known.insert(endpoint.guid);
        }
        let since = is_mute.then(|| *domain.mute.entry(endpoint.guid).or_insert_with(Instant::now));
        if let Err(error) = made
            && since.is_none_or(|since| since.elapsed() >= LOOK_EVERY)
            && domain.told.insert(endpoint.guid)
        {
            self.tell.tell(&Trouble::Unreadable { name: endpoint.topic.clone(), reason: error.to_string() });
        }
    }

    fn reader_for(self: &Arc<Self>, domain: &mut Domain, endpoint: &Endpoint) -> Result<(), Error> {
        if domain.readers >= READERS_MAX {
            return Err(Error::Dds(format!("there are {READERS_MAX} types already")));
        }
        let make = |participant: &Participant| participant.topic_like(endpoint, TYPE_MAX);
        let (share, topic) = Share::with(domain.id, &self.settings, make)?;
        let declared = Declared::new(topic.type_code(), Some(&domain.event_domain), Some(&endpoint.topic))?;
        Self::read(self, domain, share, topic, declared)
    }
}

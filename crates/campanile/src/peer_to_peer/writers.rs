//! Publishing over DDS.

use super::participants::ParticipantHandle;
use super::watching::Watching;
use super::{pause, qos, time};
use crate::declared::Declared;
use crate::error::Error;
use crate::raw::Teller;
use crate::settings::Settings;
use client::PublisherCounters;
use dds::{Qos, Role, SuspendedReaders, Topic, WriteError, Writer};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Longest wait for unconfirmed events when a supplier is dropped.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest time that the first event of a type waits for known readers that are not matched yet.
const MEETING_MAX: Duration = Duration::from_millis(500);

/// Time without room after which the blocking reader is searched. Unit: milliseconds.
const LOOKS_AFTER_MS: u32 = 1000;

/// A supplier's writers, one for each published type.
#[derive(Debug)]
pub(crate) struct Writers {
    settings: Settings,
    /// Quality of service; `waits_max` waits for room last `Qos::blocking_max` each.
    qos: Qos,
    waits_max: u32,
    pub(crate) tell: Teller,
    writers: RwLock<HashMap<usize, Arc<One>>>,
    /// The watches over readers in each domain. Locked while a writer is made, so that a type gets only one.
    making: Mutex<HashMap<u16, Watching>>,
    // With it, others are found before the first event is published.
    _domain: ParticipantHandle,
}

#[derive(Debug)]
struct One {
    // In the order in which they are to go.
    writer: Writer,
    /// Readers that no writer waits for.
    suspended_readers: Mutex<SuspendedReaders>,
    /// Stored, so that its address stays unique.
    declared: Declared,
    _handle: ParticipantHandle,
}

/// Counts of events published without waiting for each, by outcome.
#[derive(Debug, Default)]
pub(crate) struct WriterCounters {
    published: AtomicU64,
    confirmed: AtomicU64,
}

impl Writers {
    pub(crate) fn new(channel: &str, settings: &Settings) -> Result<Self, Error> {
        let waits_max = settings.dds.slowed_ms_max.div_ceil(LOOKS_AFTER_MS).max(1);
        let mut qos = qos(channel, settings);
        qos.blocking_max /= waits_max;
        Ok(Self {
            qos,
            waits_max,
            tell: Teller::new(format!("supplier of {channel}"), None),
            writers: RwLock::default(),
            making: Mutex::default(),
            _domain: ParticipantHandle::new(settings.dds.domain(&settings.event_domain), settings)?,
            settings: settings.clone(),
        })
    }

    /// Publishes a value. Waits for room if readers are behind.
    pub(crate) fn publish(&self, declared: &Declared, cdr: &[u8]) -> Result<(), Error> {
        let mut octets = Vec::new();
        let cdr = declared.written_for_dds(cdr, &mut octets)?;
        let one = self.writer(declared)?;
        for _ in 0..self.waits_max {
            // Skipped while another thread has it, which then looks.
            if let Ok(mut suspended_readers) = one.suspended_readers.try_lock() {
                suspended_readers.look(&self.tell, &one.writer);
            }
            match one.writer.write(cdr) {
                Ok(()) => return Ok(()),
                Err(WriteError::Slowed) => {
                    let mut suspended_readers = one.suspended_readers.lock().unwrap_or_else(PoisonError::into_inner);
                    suspended_readers.slowed(&self.tell, &one.writer);
                }
                Err(error) => return Err(Error::Dds(error.to_string())),
            }
        }
        Err(Error::Slowed { waited: self.qos.blocking_max * self.waits_max })
    }

    fn writer(&self, declared: &Declared) -> Result<Arc<One>, Error> {
        let find = || {
            let writers = self.writers.read().unwrap_or_else(PoisonError::into_inner);
            writers.get(&declared.key()).cloned()
        };
        if let Some(one) = find() {
            return Ok(one);
        }
        let mut watching = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(one) = find().or_else(|| self.equal(declared)) {
            return Ok(one);
        }
        let domain = self.settings.dds.domain(declared.domain().unwrap_or(&self.settings.event_domain));
        let (handle, topic) =
            ParticipantHandle::with_topic(domain, &self.settings, declared.name(), declared.type_code())?;
        let writer = topic.writer(&self.qos)?;
        let watches = match watching.entry(domain) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(place) => {
                place.insert(Watching::new(self.tell.clone(), handle.participant.clone(), self.qos.clone())?)
            }
        };
        watches.add(&topic);
        handle.await_discovery(&self.settings);
        self.meet(&writer, &topic);
        let suspended_readers = Mutex::new(SuspendedReaders::new(time(self.settings.dds.hold_timeout_ms)));
        let one = Arc::new(One { writer, suspended_readers, declared: declared.clone(), _handle: handle });
        self.writers.write().unwrap_or_else(PoisonError::into_inner).insert(declared.key(), one.clone());
        Ok(one)
    }

    /// The writer of an equal type that was declared separately.
    fn equal(&self, declared: &Declared) -> Option<Arc<One>> {
        let writers = self.writers.read().unwrap_or_else(PoisonError::into_inner);
        writers.values().find(|one| one.declared.is_equal(declared)).cloned()
    }

    /// Waits until known readers are matched, so that they get the first event.
    fn meet(&self, writer: &Writer, topic: &Topic) {
        let ends = Instant::now() + MEETING_MAX;
        let name = dds::type_name(topic.type_code().root().resolved(), dds::Naming::Idl);
        while Instant::now() < ends {
            let (Ok(endpoints), Ok(status)) = (topic.participant().endpoints(), writer.status()) else { return };
            let known = endpoints.iter().filter(|endpoint| {
                endpoint.role == Role::Reader
                    && endpoint.topic == topic.name()
                    && endpoint.type_name == name
                    && endpoint.partitions == self.qos.partitions
            });
            if usize::try_from(status.readers).is_ok_and(|met| met >= known.count()) {
                return;
            }
            pause(Duration::from_millis(5));
        }
    }

    /// Waits until existing readers have confirmed everything; returns whether they have.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let ends = Instant::now() + limit;
        let writers: Vec<_> = self.writers.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        writers.iter().all(|one| {
            let left = ends.saturating_duration_since(Instant::now());
            one.writer.wait_for_acknowledgments(left).unwrap_or(false)
        })
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        if !self.wait(CLOSE_TIMEOUT) {
            log::warn!("{}: readers have not confirmed all events within {CLOSE_TIMEOUT:?}", self.tell);
        }
    }
}

impl WriterCounters {
    pub(crate) fn publish(&self, writers: &Writers, declared: &Declared, cdr: &[u8]) -> Result<u64, Error> {
        writers.publish(declared, cdr)?;
        Ok(self.published.fetch_add(1, Ordering::AcqRel))
    }

    /// Counts including the events that readers have confirmed, after waiting for them.
    pub(crate) fn sync(&self, writers: &Writers, limit: Duration) -> PublisherCounters {
        let published = self.published.load(Ordering::Acquire);
        if writers.wait(limit) {
            self.confirmed.fetch_max(published, Ordering::AcqRel);
        }
        self.counters()
    }

    pub(crate) fn counters(&self) -> PublisherCounters {
        let published = self.published.load(Ordering::Acquire);
        PublisherCounters {
            published,
            confirmed: self.confirmed.load(Ordering::Acquire).min(published),
            ..PublisherCounters::default()
        }
    }
}

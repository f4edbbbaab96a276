//! The thread that reads a join's topics from DDS.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use ::dds::{Endpoint, Guid, Participant, Reader, Role, Topic, WaitSet, complaints};
use giop::cdr;
use giop::typecode::{TypeCode, TypeRef};

use super::events::Template;
use super::{LOOKS_AFTER, TOPICS_MAX, qos, type_of_topic};
use crate::config::DdsJoin;
use crate::counters::Counter;
use crate::protocols::dds::{ENCODING, FromDds, ReadingEnds};
use crate::time;

/// Octets of samples that wait for the lane, unless it is one alone.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// How long it is waited for the lane to take some.
const ROOM_AFTER: Duration = Duration::from_millis(20);
/// Minimum intervals between two looks at the discovered participants, and between two counts of losses.
const DISCOVERY_EVERY: Duration = Duration::from_millis(20);
const LOSSES_EVERY: Duration = Duration::from_secs(1);
/// Time for which the type of a topic is asked for; and pause after no participant answered, until it is asked for again.
const TYPE_REQUEST_TIMEOUT: Duration = Duration::from_millis(500);
const TYPE_RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Buffers and unanswering writers that are remembered.
const BUFFERS_MAX: usize = 64;
const DEAF_MAX: usize = 1024;

pub(super) struct Reading {
    participant: Participant,
    join: DdsJoin,
    sample_bytes_max: usize,
    set: WaitSet,
    topics: Vec<Known>,
    by_name: HashMap<String, usize>,
    /// Writers of topics for which no participant could state the type.
    untyped: HashSet<Guid>,
    looks_next: Instant,
    next_type_request: Instant,
    counts_next: Instant,
    /// The discovered participants are to be looked at.
    is_new: bool,
    complained: u64,
    buffers: Vec<Vec<u8>>,
    /// Octets with the lane.
    waiting_bytes: usize,
}

/// A topic that is read.
struct Known {
    reader: Reader,
    template: Template,
    lost: u32,
}

impl Drop for Reading {
    fn drop(&mut self) {
        // One that has no room would have the others wait as they go.
        self.topics.iter().for_each(|known| known.reader.keep_nothing());
    }
}

impl Reading {
    /// Reads the topics that have declared types.
    ///
    /// # Errors
    /// Says why that cannot be.
    pub(super) fn new(participant: Participant, join: DdsJoin, sample_bytes_max: usize) -> Result<Self, String> {
        let mut set = participant.wait_set().map_err(|error| error.to_string())?;
        set.attach_discovery().map_err(|error| error.to_string())?;
        let now = time::now();
        let mut reading = Self {
            participant,
            join,
            sample_bytes_max,
            set,
            topics: Vec::new(),
            by_name: HashMap::new(),
            untyped: HashSet::new(),
            looks_next: now,
            next_type_request: now,
            counts_next: now,
            is_new: true,
            complained: 0,
            buffers: Vec::new(),
            waiting_bytes: 0,
        };
        for declared in reading.join.types.clone() {
            let of = declared.read().map_err(|error| error.to_string())?;
            let of = declared.name.as_deref().map_or_else(|| Some(of.clone()), |name| called(&of, name));
            let of = of.ok_or_else(|| format!("the type of topic {:?} cannot have that name", declared.topic))?;
            // It is declared since others do not state it, or not so that Cyclone understands it, which would then match no writer.
            let topic =
                reading.participant.topic_unannounced(&declared.topic, &of).map_err(|error| error.to_string())?;
            if reading.join.comes_from_dds() {
                reading.open(&topic).map_err(|error| error.to_string())?;
            }
        }
        Ok(reading)
    }

    pub(super) fn run(mut self, mut ends: ReadingEnds) {
        let mut tokens = Vec::new();
        while !ends.samples.is_abandoned() {
            if !self.join.comes_from_dds() {
                ends.waker.wait(Some(LOOKS_AFTER));
                ends.waker.clear();
                continue;
            }
            self.take_back(&mut ends);
            if self.room(&ends) == 0 {
                self.wait_for_room(&mut ends);
                continue;
            }
            let woken = self.set.wait(Some(self.patience()), &mut tokens).unwrap_or_else(|error| {
                log::warn!("{}: {error}", self.join.described());
                ends.waker.wait(Some(LOOKS_AFTER));
                ::dds::Woken::default()
            });
            self.is_new |= woken.by_discovery;
            self.discover(&mut ends);
            for token in &tokens {
                self.take(usize::try_from(*token).unwrap_or(usize::MAX), &mut ends);
            }
            self.count_losses(&mut ends);
        }
    }

    /// How long it may wait for samples.
    fn patience(&self) -> Duration {
        if self.is_new { self.looks_next.saturating_duration_since(time::now()).min(LOOKS_AFTER) } else { LOOKS_AFTER }
    }

    /// Samples that the lane has room for. One place is kept for what is counted.
    fn room(&self, ends: &ReadingEnds) -> usize {
        if self.waiting_bytes >= WAITING_BYTES_MAX { 0 } else { ends.samples.room().saturating_sub(1) }
    }

    /// Takes buffers back that the lane has read.
    fn take_back(&mut self, ends: &mut ReadingEnds) {
        while let Some(mut buffer) = ends.spares.take() {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(buffer.len());
            if self.buffers.len() < BUFFERS_MAX {
                buffer.clear();
                self.buffers.push(buffer);
            }
        }
    }

    /// Leaves samples with Cyclone, which has writers wait, until the lane has taken some.
    fn wait_for_room(&mut self, ends: &mut ReadingEnds) {
        ends.waker.clear();
        ends.spares.look();
        self.take_back(ends);
        if self.room(ends) == 0 && !ends.samples.is_abandoned() {
            ends.waker.wait(Some(ROOM_AFTER));
        }
    }

    /// Takes what a topic has, as far as the lane has room.
    fn take(&mut self, at: usize, ends: &mut ReadingEnds) {
        let room = self.room(ends);
        let Self { topics, buffers, waiting_bytes, sample_bytes_max, .. } = self;
        let Some(Known { reader, template, .. }) = topics.get(at) else { return };
        let mut unreadable = 0;
        let taken = reader.take(room, |sample| {
            let mut buffer = buffers.pop().unwrap_or_default();
            let written = template.write(sample.cdr, &mut buffer);
            if written.is_err() || buffer.len() > *sample_bytes_max {
                unreadable += 1;
                buffer.clear();
                buffers.push(buffer);
                return;
            }
            *waiting_bytes += buffer.len();
            // There is room, for no more were taken.
            let _room = ends.samples.send_quietly(FromDds::Sample(buffer));
        });
        ends.samples.notify();
        if let Err(error) = taken {
            log::warn!("{}: {error}", self.join.described());
        }
        if unreadable > 0 {
            let _again = ends.samples.send(FromDds::Counted(Counter::DdsUnreadable, unreadable));
        }
    }

    /// Reads topics that have come.
    fn discover(&mut self, ends: &mut ReadingEnds) {
        let now = time::now();
        if !self.is_new || now < self.looks_next {
            return;
        }
        self.looks_next = now + DISCOVERY_EVERY;
        let Ok(endpoints) = self.participant.endpoints() else { return };
        self.is_new = false;
        for endpoint in endpoints {
            if !self.is_readable(&endpoint) {
                continue;
            }
            if endpoint.type_id.is_some() && now < self.next_type_request {
                self.is_new = true;
                continue;
            }
            if let Err(why) = self.meet(&endpoint) {
                self.next_type_request = time::now() + TYPE_RETRY_PAUSE;
                if self.untyped.len() >= DEAF_MAX {
                    self.untyped.clear();
                }
                self.untyped.insert(endpoint.guid);
                log::warn!("{}: topic {:?} is not read: {why}", self.join.described(), endpoint.topic);
                let _again = ends.samples.send(FromDds::Counted(Counter::DdsUntyped, 1));
            }
        }
    }

    fn is_readable(&self, endpoint: &Endpoint) -> bool {
        let partition = self.join.partition();
        let is_here = match endpoint.partitions.as_slice() {
            [] => partition.is_empty(),
            partitions => partitions.iter().any(|name| name == partition),
        };
        endpoint.role == Role::Writer
            && is_here
            && endpoint.participant != self.participant.guid()
            && !self.by_name.contains_key(&endpoint.topic)
            && !self.untyped.contains(&endpoint.guid)
            && type_of_topic(&self.join, &endpoint.topic).is_some()
    }

    /// Reads the topic of a writer that has come.
    fn meet(&mut self, endpoint: &Endpoint) -> Result<(), String> {
        if self.topics.len() >= TOPICS_MAX {
            return Err(format!("the join reads {TOPICS_MAX} topics already"));
        }
        let topic = self.participant.topic_like(endpoint, TYPE_REQUEST_TIMEOUT).map_err(|error| error.to_string())?;
        self.open(&topic).map_err(|error| error.to_string())
    }

    fn open(&mut self, topic: &Topic) -> Result<(), ::dds::Error> {
        let Some(type_name) = type_of_topic(&self.join, topic.name()) else { return Ok(()) };
        let domain = self.join.event_domain.as_deref().unwrap_or_default();
        let origin = format!("domain {}, partition {:?}", self.join.domain, self.join.partition());
        let template = Template::new((domain, type_name), topic.type_code(), self.join.value, &origin);
        let reader = topic.reader(&qos(&self.join))?;
        self.set.attach(&reader, self.topics.len() as u64)?;
        self.by_name.insert(topic.name().to_owned(), self.topics.len());
        self.topics.push(Known { reader, template, lost: 0 });
        Ok(())
    }

    /// Counts what readers have missed, and says what Cyclone complains of: a line a second at most.
    fn count_losses(&mut self, ends: &mut ReadingEnds) {
        let now = time::now();
        if now < self.counts_next {
            return;
        }
        self.counts_next = now + LOSSES_EVERY;
        let mut lost = 0;
        for known in &mut self.topics {
            let total = known.reader.status().map_or(known.lost, |status| status.lost_total);
            lost += u64::from(total.saturating_sub(known.lost));
            known.lost = total;
        }
        if lost > 0 {
            let _again = ends.samples.send(FromDds::Counted(Counter::DdsLost, lost));
        }
        let heard = complaints();
        if heard.count > self.complained {
            log::warn!("Cyclone DDS complains ({} times until now): {}", heard.count, heard.latest);
            self.complained = heard.count;
        }
    }
}

/// A struct as another name calls it.
fn called(of: &TypeCode, name: &str) -> Option<TypeCode> {
    let members = of.root().members().map(|member| Some((member.name(), owned(member.type_ref())?)));
    let members = members.collect::<Option<Vec<_>>>()?;
    let id = format!("IDL:{}:1.0", name.replace("::", "/"));
    Some(TypeCode::structure(&id, name.rsplit("::").next()?, &members))
}

fn owned(of: TypeRef<'_>) -> Option<TypeCode> {
    let mut bytes = Vec::new();
    of.write(&mut cdr::Writer::new(&mut bytes, ENCODING));
    TypeCode::read(&mut cdr::Reader::new(&bytes, ENCODING), &mut corba::event::work_for(bytes.len())).ok()
}

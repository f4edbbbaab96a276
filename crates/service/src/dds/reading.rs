//! The thread that reads a join's topics from DDS.

use std::collections::{BTreeMap, HashMap};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use ::dds::{
    Conflict, Difference, Endpoint, Guid, Incompatibilities, News, OWN_USER_DATA, Participant, Policy, Qos, Reader,
    Role, Topic, WaitSet, WrittenTopics, complaints,
};
use giop::cdr;
use giop::typecode::{TypeCode, TypeRef};

use super::events::Template;
use super::{LOOKS_AFTER, TOPICS_MAX, qos, type_of_topic};
use crate::admin::values::{DdsIncompatibility, DdsJoinStatus};
use crate::config::DdsJoin;
use crate::counters::Counter;
use crate::protocols::dds::{Board, ENCODING, FromDds, ReadingEnds};
use crate::time;

/// Maximum octets of samples that wait for the lane, unless there is only one.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// Interval in which room on the lane is checked.
const ROOM_AFTER: Duration = Duration::from_millis(20);
/// Minimum interval between two counts of losses.
const LOSSES_EVERY: Duration = Duration::from_secs(1);
/// Timeout of a request for a topic's type; and pause after a request that no participant answered.
const TYPE_REQUEST_TIMEOUT: Duration = Duration::from_millis(500);
const TYPE_RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Maximum requests for the type of an endpoint with a known topic.
const TYPE_REQUESTS_MAX: u32 = 4;
/// Maximum spare buffers, and maximum endpoints with types to be requested: further ones count as having none.
const BUFFERS_MAX: usize = 64;
const PENDING_MAX: usize = 8192;

/// Counters of endpoints: discovered, not matching, and with unread topics.
const COUNTED: [Counter; 3] = [Counter::DdsDiscovered, Counter::DdsIncompatible, Counter::DdsUntyped];

pub(super) struct Reading {
    participant: Participant,
    join: DdsJoin,
    qos: Qos,
    /// Partitions of other joins to the domain.
    other_partitions: Vec<[String; 1]>,
    sample_bytes_max: usize,
    set: WaitSet,
    topics: Vec<Known>,
    by_name: HashMap<String, usize>,
    /// Topics that the writing thread has.
    written: WrittenTopics,
    /// Endpoints with types to be requested, and the number of failed requests.
    pending: BTreeMap<Guid, (Endpoint, u32)>,
    incompatible: Incompatibilities,
    board: Board,
    /// Counts not yet passed to the lane, as in [`COUNTED`].
    uncounted: [u64; 3],
    next_type_request: Instant,
    counts_next: Instant,
    /// Whether it was logged that there are more topics than a join reads.
    is_full_logged: bool,
    complained: u64,
    buffers: Vec<Vec<u8>>,
    /// Octets of samples with the lane.
    waiting_bytes: usize,
}

/// A topic being read.
struct Known {
    reader: Reader,
    template: Template,
    lost: u32,
}

impl Drop for Reading {
    fn drop(&mut self) {
        // A reader without room would delay the closing of the others.
        self.topics.iter().for_each(|known| known.reader.keep_nothing());
    }
}

impl Reading {
    /// Starts reading the topics with declared types.
    ///
    /// # Errors
    /// The reason why that is impossible.
    pub(super) fn new(
        participant: Participant,
        join: DdsJoin,
        other_partitions: Vec<[String; 1]>,
        (written, board): (WrittenTopics, Board),
        sample_bytes_max: usize,
    ) -> Result<Self, String> {
        let mut set = participant.wait_set().map_err(|error| error.to_string())?;
        set.attach_discovery().map_err(|error| error.to_string())?;
        let now = time::now();
        let mut reading = Self {
            participant,
            qos: qos(&join),
            join,
            other_partitions,
            sample_bytes_max,
            set,
            topics: Vec::new(),
            by_name: HashMap::new(),
            written,
            pending: BTreeMap::new(),
            incompatible: Incompatibilities::new(""),
            board,
            uncounted: [0; 3],
            next_type_request: now,
            counts_next: now,
            is_full_logged: false,
            complained: 0,
            buffers: Vec::new(),
            waiting_bytes: 0,
        };
        for declared in reading.join.types.clone() {
            let of = declared.read().map_err(|error| error.to_string())?;
            let of = declared.name.as_deref().map_or_else(|| Some(of.clone()), |name| called(&of, name));
            let of = of.ok_or_else(|| format!("the type of topic {:?} cannot have that name", declared.topic))?;
            // The type is declared since other participants do not announce it, or not in a form that Cyclone understands; an announced
            // one would match no writer.
            let topic =
                reading.participant.topic_unannounced(&declared.topic, &of).map_err(|error| error.to_string())?;
            if reading.join.comes_from_dds() {
                reading.open(&topic).map_err(|error| error.to_string())?;
            }
        }
        Ok(reading)
    }

    pub(super) fn run(mut self, mut ends: ReadingEnds) {
        let (mut tokens, mut news) = (Vec::new(), Vec::new());
        self.publish_status();
        while !ends.samples.is_abandoned() {
            self.take_back(&mut ends);
            let has_room = self.room(&ends) > 0;
            if !has_room {
                self.wait_for_room(&mut ends);
            }
            let patience = if has_room { self.patience() } else { Duration::ZERO };
            if let Err(error) = self.set.wait_for_news(Some(patience), &mut tokens, |new| news.push(new)) {
                log::warn!("{}: {error}", self.join.described());
                ends.waker.wait(Some(LOOKS_AFTER));
            }
            self.discover(&mut news, &mut ends);
            for token in tokens.iter().filter(|_| has_room) {
                self.take(usize::try_from(*token).unwrap_or(usize::MAX), &mut ends);
            }
            self.count_losses(&mut ends);
        }
    }

    /// Maximum time to wait for samples.
    fn patience(&self) -> Duration {
        let until_request = || self.next_type_request.saturating_duration_since(time::now());
        if self.pending.is_empty() { LOOKS_AFTER } else { until_request().min(LOOKS_AFTER) }
    }

    /// Number of samples for which the lane has room. One place is left for counts.
    fn room(&self, ends: &ReadingEnds) -> usize {
        if self.waiting_bytes >= WAITING_BYTES_MAX { 0 } else { ends.samples.room().saturating_sub(1) }
    }

    /// Takes back buffers that the lane has read.
    fn take_back(&mut self, ends: &mut ReadingEnds) {
        while let Some(mut buffer) = ends.spares.take() {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(buffer.len());
            if self.buffers.len() < BUFFERS_MAX {
                buffer.clear();
                self.buffers.push(buffer);
            }
        }
    }

    /// Waits until the lane has taken samples. Meanwhile samples stay with Cyclone, which makes writers wait.
    fn wait_for_room(&mut self, ends: &mut ReadingEnds) {
        ends.waker.clear();
        ends.spares.look();
        self.take_back(ends);
        if self.room(ends) == 0 && !ends.samples.is_abandoned() {
            ends.waker.wait(Some(ROOM_AFTER));
        }
    }

    /// Takes samples of a topic, as far as the lane has room.
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

    /// Handles endpoints that have come, changed or gone, each once.
    fn discover(&mut self, news: &mut Vec<News>, ends: &mut ReadingEnds) {
        let mut is_changed = false;
        for new in news.drain(..) {
            match new {
                News::Found(endpoint) => is_changed |= self.look(*endpoint),
                News::Gone(guid) => {
                    self.pending.remove(&guid);
                    is_changed |= self.incompatible.gone(self.join.described(), guid);
                }
            }
        }
        let has_more_topics = self.written.take_changed();
        if has_more_topics && let Ok(endpoints) = self.participant.endpoints() {
            // Writers are looked at whatever is written here.
            for endpoint in endpoints.into_iter().filter(|endpoint| endpoint.role == Role::Reader) {
                if !self.pending.contains_key(&endpoint.guid) {
                    is_changed |= self.look(endpoint);
                }
            }
        }
        is_changed |= self.ask_for_types();
        if is_changed || has_more_topics {
            self.publish_status();
        }
        for (counter, count) in COUNTED.into_iter().zip(&mut self.uncounted) {
            if *count > 0 && ends.samples.send(FromDds::Counted(counter, *count)).is_ok() {
                *count = 0;
            }
        }
    }

    /// Compares an endpoint with the join's topics, and notes whether its type is to be requested. True if its mismatch has changed.
    fn look(&mut self, endpoint: Endpoint) -> bool {
        if endpoint.participant == self.participant.guid() {
            return false;
        }
        let [looked, ..] = &mut self.uncounted;
        *looked += 1;
        let is_known = self.is_known(&endpoint.topic);
        let is_wanted = match endpoint.role {
            Role::Writer => self.join.comes_from_dds() && type_of_topic(&self.join, &endpoint.topic).is_some(),
            // In the partition without a name there may be readers of everything.
            Role::Reader => self.join.goes_to_dds() && (is_known || !self.join.partition().is_empty()),
        };
        let found = if is_wanted { Difference::all(&self.qos, &endpoint) } else { None };
        let is_elsewhere = found.iter().flatten().any(|difference| difference.policy == Policy::Partition);
        // An endpoint in another partition is meant for the join only if the join has its topic, and no other join its partition.
        let is_others = || !is_known || self.other_partitions.iter().any(|partition| endpoint.is_in(partition));
        let is_here = found.is_some() && !is_elsewhere;
        let found = if is_elsewhere && is_others() { Vec::new() } else { found.unwrap_or_default() };
        let mut is_changed = self.note(&endpoint, false, found);
        let topic = self.topic_of(&endpoint);
        let is_new = endpoint.role == Role::Writer && topic.is_none();
        if is_here && topic.map_or(is_new, |topic| topic.needs_type(&endpoint)) {
            if self.pending.len() < PENDING_MAX {
                self.pending.insert(endpoint.guid, (endpoint, 0));
            } else {
                let [.., untyped] = &mut self.uncounted;
                *untyped += 1;
            }
        } else {
            self.pending.remove(&endpoint.guid);
            is_changed |= self.note(&endpoint, true, Vec::new());
        }
        is_changed
    }

    /// Whether the join has this topic, or will have it.
    fn is_known(&self, topic: &str) -> bool {
        self.by_name.contains_key(topic)
            || self.join.topics.values().any(|declared| declared == topic)
            || self.join.types.iter().any(|declared| declared.topic == topic)
            || !self.written.get(topic).is_empty()
    }

    /// The join's topic with which an endpoint's type is compared.
    fn topic_of(&self, endpoint: &Endpoint) -> Option<Topic> {
        match endpoint.role {
            Role::Writer => {
                self.topics.get(*self.by_name.get(&endpoint.topic)?).map(|known| known.reader.topic().clone())
            }
            // A consumer of the library makes readers of all types that come.
            Role::Reader if endpoint.user_data == OWN_USER_DATA => None,
            Role::Reader => self.written.get(&endpoint.topic).pop(),
        }
    }

    fn note(&mut self, endpoint: &Endpoint, of_type: bool, found: Vec<Difference>) -> bool {
        let Self { incompatible, participant, join, uncounted: [_, count, _], .. } = self;
        let before: u64 = incompatible.totals().values().sum();
        let described = (endpoint, || participant.describe(endpoint));
        let is_changed = incompatible.note(join.described(), described, of_type, found, |_| false);
        *count += incompatible.totals().values().sum::<u64>() - before;
        is_changed
    }

    /// Requests types: reads new topics, and compares the types of endpoints of known ones. True if the status may have changed.
    fn ask_for_types(&mut self) -> bool {
        let mut is_changed = false;
        if self.pending.is_empty() || time::now() < self.next_type_request {
            return false;
        }
        let mut all: Vec<(u32, Guid)> = self.pending.iter().map(|(guid, (_, tries))| (*tries, *guid)).collect();
        all.sort_unstable();
        for (_, guid) in all {
            let Some((endpoint, tries)) = self.pending.remove(&guid) else { continue };
            let Some(topic) = self.topic_of(&endpoint) else {
                self.meet_or_say(&endpoint);
                is_changed = true;
                continue;
            };
            let conflict = topic.conflict(&endpoint, TYPE_REQUEST_TIMEOUT);
            if conflict.as_ref().is_some_and(Conflict::is_unlearnt) && tries < TYPE_REQUESTS_MAX {
                self.next_type_request = time::now() + TYPE_RETRY_PAUSE;
                self.pending.insert(guid, (endpoint, tries + 1));
                // Samples wait meanwhile.
                break;
            }
            is_changed |= self.note(&endpoint, true, conflict.iter().map(Difference::of_types).collect());
        }
        is_changed
    }

    /// Publishes the join's status.
    fn publish_status(&self) {
        let found = self.incompatible.iter().map(|found| DdsIncompatibility {
            topic: found.topic.clone(),
            peer: found.peer.clone(),
            policy: found.difference.policy.name(),
            offered: found.difference.offered.clone(),
            requested: found.difference.requested.clone(),
            advice: found.advice.clone(),
        });
        let totals = self.incompatible.totals().iter();
        let totals = totals.map(|((topic, policy), count)| (topic.clone(), policy.name(), *count)).collect();
        let mut board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        *board = DdsJoinStatus {
            channel: board.channel,
            name: self.join.described(),
            topics_read: self.topics.len(),
            topics_written: self.written.count(),
            incompatible: found.collect(),
            beyond: self.incompatible.beyond(),
            totals,
        };
    }

    /// Reads the topic of a new writer, or logs why not.
    fn meet_or_say(&mut self, endpoint: &Endpoint) {
        if self.topics.len() >= TOPICS_MAX {
            if !core::mem::replace(&mut self.is_full_logged, true) {
                let topic = &endpoint.topic;
                log::warn!(
                    "{}: it reads {TOPICS_MAX} topics already: {topic:?} and others are not read",
                    self.join.described()
                );
            }
        } else if let Err(why) = self.meet(endpoint) {
            self.next_type_request = time::now() + TYPE_RETRY_PAUSE;
            let (name, topic) = (self.join.described(), &endpoint.topic);
            self.incompatible.say(log::Level::Warn, format_args!("{name}: topic {topic:?} is not read: {why}"));
        } else {
            return;
        }
        let [.., untyped] = &mut self.uncounted;
        *untyped += 1;
    }

    fn meet(&mut self, endpoint: &Endpoint) -> Result<(), String> {
        let topic = self.participant.topic_like(endpoint, TYPE_REQUEST_TIMEOUT).map_err(|error| error.to_string())?;
        self.open(&topic).map_err(|error| error.to_string())
    }

    fn open(&mut self, topic: &Topic) -> Result<(), ::dds::Error> {
        let Some(type_name) = type_of_topic(&self.join, topic.name()) else { return Ok(()) };
        let domain = self.join.event_domain.as_deref().unwrap_or_default();
        let origin = format!("domain {}, partition {:?}", self.join.domain, self.join.partition());
        let template = Template::new((domain, type_name), topic.type_code(), self.join.value, &origin);
        let reader = topic.reader(&self.qos)?;
        self.set.attach(&reader, self.topics.len() as u64)?;
        self.by_name.insert(topic.name().to_owned(), self.topics.len());
        self.topics.push(Known { reader, template, lost: 0 });
        Ok(())
    }

    /// Counts the samples that readers have missed, and logs complaints of Cyclone: one line a second at most.
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

/// The same struct type with another name.
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

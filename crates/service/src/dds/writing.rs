//! The thread that writes a join's events to DDS.

use std::collections::HashMap;
use std::time::Duration;

use ::dds::{Error, Participant, Role, SuspendedReaders, Topic, WriteError, Writer, WrittenTopics, agree};
use engine::Event;
use giop::typecode::TypeCode;

use super::events::{self, Found};
use super::{LOOKS_AFTER, TOPICS_MAX, qos, topic_of};
use crate::config::DdsJoin;
use crate::counters::Counter;
use crate::lane::links::mailbox::Mailbox;
use crate::protocols::dds::{Back, ToDds, WritingEnds};

/// Maximum types remembered: more than topics, since one type may be marshalled in several ways.
const KINDS_MAX: usize = 4 * TOPICS_MAX;
/// Timeout of a request for the type of a topic that another participant has.
const TYPE_REQUEST_TIMEOUT: Duration = Duration::from_millis(200);

pub(super) struct Writing {
    participant: Participant,
    join: DdsJoin,
    /// Treatment of events, by the names and the marshalled type of their struct.
    kinds: HashMap<Vec<u8>, Kind>,
    /// Writers, each with the readers that are no longer waited for.
    writers: Vec<(Writer, SuspendedReaders)>,
    written: WrittenTopics,
    hold_timeout: Option<Duration>,
    key: Vec<u8>,
    sample: Vec<u8>,
}

/// Treatment of events of a kind.
#[derive(Clone, Copy)]
enum Kind {
    /// Write them with that writer.
    Written(usize),
    /// Do not write them; count them.
    Left(Counter),
}

impl Writing {
    pub(super) fn new(
        participant: Participant,
        join: DdsJoin,
        written: WrittenTopics,
        hold_timeout: Option<Duration>,
    ) -> Self {
        let (kinds, writers) = (HashMap::new(), Vec::new());
        Self { participant, join, kinds, writers, written, hold_timeout, key: Vec::new(), sample: Vec::new() }
    }

    pub(super) fn run(mut self, ends: WritingEnds) {
        let WritingEnds { mut events, mut done, waker } = ends;
        loop {
            waker.clear();
            events.look();
            while let Some(ToDds { event, alternate }) = events.take() {
                let counts = self.write(&event, alternate, &mut done);
                // There is room: no more are under way than the ring has places for. Without the lane nothing counts what is left.
                if done.send(Back::Done(event, counts)).is_err() || done.is_abandoned() {
                    return;
                }
            }
            if events.has_ended() {
                return;
            }
            self.look_after_readers(&mut done);
            // The waker is called a moment before the ring is given up: so it is looked again.
            waker.wait(Some(LOOKS_AFTER));
        }
    }

    /// Checks whether suspended readers have recovered.
    fn look_after_readers(&mut self, done: &mut Mailbox<Back>) {
        for (writer, suspended) in self.writers.iter_mut().filter(|(_, suspended)| suspended.is_due()) {
            tell(done, Counter::DdsReadersBack, suspended.look(self.join.described(), writer));
        }
    }

    /// Writes an event. Returns the counter for it.
    fn write(&mut self, event: &Event, alternate: Option<usize>, done: &mut Mailbox<Back>) -> Counter {
        let (bytes, tag) = match alternate.and_then(|at| event.alternates.get(at)) {
            Some(alternate) => (alternate.bytes.as_slice(), alternate.tag),
            None => (event.bytes.as_slice(), event.tag),
        };
        let Ok(found) = events::find(bytes, tag, self.join.value) else { return Counter::DdsNoValue };
        if found.is_echo {
            return Counter::DdsEchoes;
        }
        if self.join.event_domain.as_ref().is_some_and(|domain| domain.as_bytes() != found.domain) {
            return Counter::DdsUnmapped;
        }
        let Some((octets, type_code, value)) = found.value() else { return Counter::DdsNoValue };
        self.key.clear();
        self.key.extend_from_slice(found.type_name);
        self.key.push(0);
        self.key.extend_from_slice(octets);
        let kind = match self.kinds.get(&self.key) {
            Some(kind) => *kind,
            None => {
                let kind = self.meet(&found, events::type_at(type_code.clone()));
                if self.kinds.len() < KINDS_MAX {
                    self.kinds.insert(self.key.clone(), kind);
                }
                kind
            }
        };
        let at = match kind {
            Kind::Left(counter) => return counter,
            Kind::Written(at) => at,
        };
        if events::write_sample(type_code, value, &mut self.sample).is_err() {
            return Counter::DdsNoValue;
        }
        self.write_sample(at, done)
    }

    /// Writes the sample with that writer. Returns the counter for its event.
    fn write_sample(&mut self, at: usize, done: &mut Mailbox<Back>) -> Counter {
        let Some((writer, suspended)) = self.writers.get_mut(at) else { return Counter::DdsFailed };
        if suspended.is_due() {
            tell(done, Counter::DdsReadersBack, suspended.look(self.join.described(), writer));
        }
        loop {
            match writer.write(&self.sample) {
                Ok(()) => return Counter::DdsOut,
                // No event is lost: the channel's events wait meanwhile, unless the lane has abandoned the thread.
                Err(WriteError::Slowed) if !done.is_abandoned() => {
                    tell(done, Counter::DdsWaited, 1);
                    let count = suspended.slowed(self.join.described(), writer);
                    tell(done, Counter::DdsReadersGivenUp, count);
                }
                Err(_) => return Counter::DdsFailed,
            }
        }
    }

    /// Decides the treatment of a new kind of events.
    fn meet(&mut self, found: &Found<'_>, of: Option<TypeCode>) -> Kind {
        let Some(of) = of else { return Kind::Left(Counter::DdsNoValue) };
        let name = if found.is_any() { of.root().resolved().name() } else { &String::from_utf8_lossy(found.type_name) };
        let topic = topic_of(&self.join, name);
        if let Some(at) = self.writers.iter().position(|(writer, _)| writer.topic().name() == topic) {
            let known = self.writers.get(at).map(|(writer, _)| writer.topic().type_code());
            if known.is_some_and(|known| agree(known.root(), of.root())) {
                return Kind::Written(at);
            }
            let known = known.map_or_else(String::new, ToString::to_string);
            log::warn!(
                "{}: topic {topic:?} has type {known}; events of type {of} do not go there",
                self.join.described()
            );
            return Kind::Left(Counter::DdsOtherType);
        }
        if self.writers.len() >= TOPICS_MAX {
            return Kind::Left(Counter::DdsTopicsSpent);
        }
        match self.topic(&topic, &of).and_then(|topic| topic.writer(&qos(&self.join))) {
            Ok(writer) => {
                self.written.add(writer.topic());
                self.writers.push((writer, SuspendedReaders::new(self.hold_timeout)));
                Kind::Written(self.writers.len() - 1)
            }
            Err(error) => {
                log::warn!("{}: events of type {name:?} do not go there: {error}", self.join.described());
                Kind::Left(match error {
                    Error::TopicType { .. } => Counter::DdsOtherType,
                    Error::Type { .. } | Error::Name { .. } => Counter::DdsNoValue,
                    _ => Counter::DdsFailed,
                })
            }
        }
    }

    /// Topic of a type, with the extensibility that other participants use, if the topic exists already.
    fn topic(&self, name: &str, of: &TypeCode) -> Result<Topic, Error> {
        let endpoints = self.participant.endpoints()?;
        let is_known = |endpoint: &&::dds::Endpoint| endpoint.topic == name && endpoint.type_id.is_some();
        // Readers first: it is written for them.
        let readers = endpoints.iter().filter(|endpoint| endpoint.role == Role::Reader);
        let writers = endpoints.iter().filter(|endpoint| endpoint.role == Role::Writer);
        if let Some(endpoint) = readers.chain(writers).find(is_known)
            && let Ok(theirs) = self.participant.type_of(endpoint, TYPE_REQUEST_TIMEOUT)
            && agree(theirs.root(), of.root())
            && let Ok(topic) = self.participant.topic_like(endpoint, TYPE_REQUEST_TIMEOUT)
        {
            return Ok(topic);
        }
        self.participant.topic(name, of)
    }
}

/// Passes a count to the lane, if there is more room than events need.
fn tell(done: &mut Mailbox<Back>, counter: Counter, count: u64) {
    if count > 0 && done.room() > done.capacity() / 2 {
        let _room = done.send(Back::Counted(counter, count));
    }
}

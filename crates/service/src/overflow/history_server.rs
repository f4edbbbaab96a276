//! The thread's part in channels' history: lanes' requests to store and to fetch it.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use corba::event::{CorbaForms, UtcClock};
use engine::{ChannelId, Event, FetchedHistory, HistoryLimits, ProxyKey, StartFrom};

use super::history::{Chunk, Histories, HistoryRequest};
use super::{FromOverflow, ReadRequest};
use crate::admin::values::HistoryStatus;
use crate::counters::{Block, Counter};
use crate::log::Desk;
use crate::protocols::tempo::types::DeclaredTypes;
use crate::protocols::{self, tempo};
use crate::time;

/// Interval between removals of events that are too old.
pub(super) const TRIM_EVERY: Duration = Duration::from_secs(1);
/// Maximum fetches served before other work of the thread.
const CHUNKS_AT_ONCE: usize = 16;
/// Maximum steps of finding a field.
const KEY_STEPS: u32 = 10_000;

/// Channels' history, and pending fetches from it.
pub(super) struct HistoryServer {
    histories: Histories,
    /// The lane that uses history: the main lane, from its first request.
    pub(super) thread: Option<u32>,
    requested: VecDeque<ReadRequest>,
    /// The consumer that currently has the history searched for the last event with each value of a field.
    looker: Option<ProxyKey>,
    trimmed_at: Instant,
    /// Whether the counters of events and octets are out of date.
    is_unreported: bool,
    /// The forms in which fields of events are read.
    forms: HistoryForms,
}

/// The forms in which fields of stored events are read, for each protocol.
struct HistoryForms {
    corba: CorbaForms,
    tempo: tempo::form::Forms,
}

impl HistoryServer {
    pub(super) fn new(histories: Histories, types: Arc<DeclaredTypes>) -> Self {
        let (thread, requested, looker) = (None, VecDeque::new(), None);
        let forms = HistoryForms { corba: CorbaForms::default(), tempo: tempo::form::Forms::new(types) };
        Self { histories, thread, requested, looker, trimmed_at: time::now(), is_unreported: true, forms }
    }

    // ---- what a lane wants ----

    pub(super) fn remember(&mut self, thread: u32, event: Arc<Event>, limits: HistoryLimits) {
        self.thread = Some(thread);
        self.histories.push(event, limits);
    }

    /// Handles a fetch, and answers it at once if nothing has to be read: before later events are written, since the lane has only those.
    pub(super) fn ask(
        &mut self,
        requested: ReadRequest,
        start: Option<StartFrom>,
        clock: &UtcClock,
    ) -> Option<FromOverflow> {
        self.thread = Some(requested.thread);
        let history = self.histories.get(requested.consumer.channel);
        let fetched = match (start, history) {
            (Some(StartFrom::Time(time)), _) if time > clock.utc => {
                FetchedHistory { ahead: Some((time, clock.lane_time(time))), ..FetchedHistory::default() }
            }
            (start, Some(history)) => {
                if let Some(start) = start {
                    history.begin(requested.consumer, start, clock.utc);
                }
                self.requested.push_back(requested);
                return None;
            }
            // Nothing was stored before.
            (start, None) => {
                let begins = if let Some(StartFrom::Number(number)) = start { number.max(1) } else { 1 };
                FetchedHistory { through: Some(0), begins: Some(begins), ..FetchedHistory::default() }
            }
        };
        Some(FromOverflow::FetchedHistory(requested.outbox, Chunk { fetched, ..Chunk::default() }))
    }

    pub(super) fn forget(&mut self, thread: u32, consumer: ProxyKey) {
        if self.thread == Some(thread)
            && let Some(history) = self.histories.get(consumer.channel)
        {
            history.forget(consumer);
            self.requested.retain(|requested| requested.consumer != consumer);
        }
    }

    /// Removes a channel's history, and returns the events yet to be written.
    pub(super) fn drop_channel(&mut self, channel: ChannelId) -> Vec<Arc<Event>> {
        self.is_unreported = true;
        self.histories.drop_channel(channel)
    }

    /// Status of a channel's history. `None` if the channel never stored any.
    pub(super) fn status(&mut self, channel: ChannelId, now: u64, desk: &mut Desk) -> Option<HistoryStatus> {
        Some(self.histories.get(channel)?.status(channel, now, desk))
    }

    // ---- what is done ----

    /// Whether events are yet to be written.
    pub(super) fn is_pending(&mut self) -> bool {
        self.histories.pending().next().is_some()
    }

    /// Writes pending events. Returns those written, and the last failure.
    pub(super) fn write(
        &mut self,
        clock: &UtcClock,
        counters: &Block,
        desk: &mut Desk,
    ) -> (Vec<Arc<Event>>, Option<io::Error>) {
        let (mut written, mut failure, mut begins) = (Vec::new(), None, false);
        let bytes_max = self.histories.bytes_max();
        for history in self.histories.pending() {
            let files = history.files();
            match history.write(bytes_max, clock, desk) {
                Ok(events) => written.extend(events),
                Err(error) => failure = Some(error),
            }
            begins |= history.files() != files;
        }
        if begins {
            // At each new segment, since too much may be written until the next interval.
            counters.add(Counter::HistoryCut, self.histories.trim(clock.utc));
        }
        self.is_unreported |= !written.is_empty();
        (written, failure)
    }

    /// Serves fetches. Returns the answers, whether more can be read now, and the last failure.
    pub(super) fn read(&mut self, clock: &UtcClock, desk: &mut Desk) -> (Vec<FromOverflow>, bool, Option<io::Error>) {
        let Self { histories, requested, looker, forms, .. } = self;
        // Only one consumer at a time has a whole history searched, which bounds the memory for what is found.
        let mut looks = |of: ProxyKey| histories.get(of.channel).is_some_and(|history| history.is_looking_for(of));
        *looker = looker.filter(|of| looks(*of));
        let (mut answers, mut failure) = (Vec::new(), None);
        for _ in 0..requested.len().min(CHUNKS_AT_ONCE) {
            let Some(mut asking) = requested.pop_front() else { break };
            let (outbox, consumer) = (asking.outbox, asking.consumer);
            if !asking.attempts.is_due() {
                requested.push_back(asking);
                continue;
            }
            let Some(history) = histories.get(consumer.channel) else {
                // The history was removed.
                let fetched = FetchedHistory { through: Some(0), begins: Some(1), ..FetchedHistory::default() };
                answers.push(FromOverflow::FetchedHistory(outbox, Chunk { fetched, ..Chunk::default() }));
                continue;
            };
            if history.is_looking_for(consumer) && *looker.get_or_insert(consumer) != consumer {
                requested.push_back(asking);
                continue;
            }
            let bytes = usize::try_from(asking.bytes).unwrap_or(usize::MAX);
            let key_of = |event: &Event, field: &str| value_of(forms, event, field);
            let gives_up = asking.attempts.gives_up();
            match history.read(consumer, HistoryRequest { bytes, gives_up, clock, key_of: &key_of }, desk) {
                Ok(Some(chunk)) => answers.push(FromOverflow::FetchedHistory(outbox, chunk)),
                Ok(None) => requested.push_back(asking),
                Err(error) => {
                    failure = Some(error);
                    asking.attempts.fail();
                    requested.push_back(asking);
                }
            }
        }
        (answers, requested.iter().any(|requested| requested.attempts.is_due()), failure)
    }

    /// Removes events beyond the limits and sets the counters, every [`TRIM_EVERY`].
    pub(super) fn trim(&mut self, clock: &UtcClock, counters: &Block) {
        if time::since(self.trimmed_at) < TRIM_EVERY {
            return;
        }
        self.trimmed_at = time::now();
        self.is_unreported = false;
        counters.add(Counter::HistoryCut, self.histories.trim(clock.utc));
        counters.set(Counter::HistoryEvents, self.histories.events());
        counters.set(Counter::HistoryBytes, self.histories.bytes());
    }

    /// Whether [`Self::trim`] is needed without new events as well.
    pub(super) fn needs_trimming(&self) -> bool {
        self.is_unreported || self.histories.has_ages()
    }

    /// Time until the next attempt of a failed fetch.
    pub(super) fn due_in(&self) -> Option<Duration> {
        self.requested.iter().filter_map(|requested| requested.attempts.due_in()).min()
    }

    pub(super) fn finish(&mut self, clock: &UtcClock, desk: &mut Desk) {
        if let Err(error) = self.histories.finish(clock, desk) {
            ::log::error!("history: the last of it is not written: {error}");
        }
    }
}

/// An event's field, encoded so that equal values are equal octets. `None` for values that cannot be compared.
fn value_of(forms: &HistoryForms, event: &Event, field: &str) -> Option<Vec<u8>> {
    use filter::{Fields, Path, Root, Steps, Value};
    let path = Path { root: Root::Name(field.into()), parts: Box::new([]) };
    let fields = protocols::forms::fields_of(event, &forms.corba, &forms.tempo);
    Some(match fields.field(&path, &mut Steps::new(KEY_STEPS))? {
        Value::Bool(value) => vec![0, value.into()],
        Value::Int(value) => [&[1], &i128::from(value).to_le_bytes()[..]].concat(),
        Value::UInt(value) => [&[1], &i128::from(value).to_le_bytes()[..]].concat(),
        Value::Float(value) => [&[2], &value.to_bits().to_le_bytes()[..]].concat(),
        Value::Char(value) => [&[3], value.to_string().as_bytes()].concat(),
        Value::Text(text) => [&[3], text.to_string().as_bytes()].concat(),
        Value::Enum { ordinal, .. } => [&[1], &i128::from(ordinal).to_le_bytes()[..]].concat(),
        Value::Composite => return None,
    })
}

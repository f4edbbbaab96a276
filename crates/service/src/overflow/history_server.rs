//! The thread's part of channels' history: what lanes want kept of it, and what comes back.

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

/// So often what is too old is removed.
pub(super) const TRIM_EVERY: Duration = Duration::from_secs(1);
/// Pieces that are read before something else is done.
const CHUNKS_AT_ONCE: usize = 16;
/// Steps that finding a field may take.
const KEY_STEPS: u32 = 10_000;

/// Channels' past, and what of it is to come back.
pub(super) struct HistoryServer {
    histories: Histories,
    /// The lane that has it kept: the main lane, once it has asked for something.
    pub(super) thread: Option<u32>,
    requested: VecDeque<ReadRequest>,
    /// The consumer for which it is looked for the last event of each.
    looker: Option<ProxyKey>,
    trimmed_at: Instant,
    /// What there is of it has changed since the last report.
    is_unreported: bool,
    /// How fields of events are read.
    forms: HistoryForms,
}

/// How fields of events of the history are read, whichever protocol they came by.
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

    /// What is answered without anything being read: before anything that is remembered later is written, since the lane has only that.
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
            // Nothing was ever kept until now.
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

    /// Gives back what was yet to be written.
    pub(super) fn drop_channel(&mut self, channel: ChannelId) -> Vec<Arc<Event>> {
        self.is_unreported = true;
        self.histories.drop_channel(channel)
    }

    /// Stored history of a channel; nothing if nothing ever was.
    pub(super) fn status(&mut self, channel: ChannelId, now: u64, desk: &mut Desk) -> Option<HistoryStatus> {
        Some(self.histories.get(channel)?.status(channel, now, desk))
    }

    // ---- what is done ----

    /// Whether something is yet to be written.
    pub(super) fn is_pending(&mut self) -> bool {
        self.histories.pending().next().is_some()
    }

    /// Writes some of it. Gives back the events that are written, and why others are not.
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
            // Not only now and then, or very much would come in between.
            counters.add(Counter::HistoryCut, self.histories.trim(clock.utc));
        }
        self.is_unreported |= !written.is_empty();
        (written, failure)
    }

    /// Reads some of what is to come back, with whether there is more that can be read now; and why something could not be.
    pub(super) fn read(&mut self, clock: &UtcClock, desk: &mut Desk) -> (Vec<FromOverflow>, bool, Option<io::Error>) {
        let Self { histories, requested, looker, forms, .. } = self;
        // Much is looked through for one consumer at a time, so that what is found takes memory only once.
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
                // It is not kept any more.
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

    /// Removes what is not to be kept any more, now and then.
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

    /// Whether that is to be done though nothing comes.
    pub(super) fn needs_trimming(&self) -> bool {
        self.is_unreported || self.histories.has_ages()
    }

    /// How long it is until something is tried again.
    pub(super) fn due_in(&self) -> Option<Duration> {
        self.requested.iter().filter_map(|requested| requested.attempts.due_in()).min()
    }

    pub(super) fn finish(&mut self, clock: &UtcClock, desk: &mut Desk) {
        if let Err(error) = self.histories.finish(clock, desk) {
            ::log::error!("history: the last of it is not written: {error}");
        }
    }
}

/// The value of a field of an event, in octets that are equal where values are; nothing if it has none that can be compared.
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

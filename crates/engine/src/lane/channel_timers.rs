//! Timers of channels: their due times on the main lane, and the events that end a silence on every lane.
//!
//! The main lane has one entry for each channel with timers in a heap by time, and finds the due one of the channel's timers (64 at most)
//! by looking at all. An interval keeps its phase: the next due time is a whole multiple of the interval behind the first, and multiples
//! that are past are passed over and counted, so that there is never a burst.
//!
//! A silence is measured from the last event that came on any lane: a lane with such an event stores its time with the timer, which is
//! atomic. A channel without a timer of silence pays one branch for each event, and a look at its supplier for one that waits. A silence that
//! is published is looked at again after each period: an event of that period has its own end later than that.
//!
//! A timer is no supplier that could be blocked or refused. Its event is admitted like a [dead letter](super::dead_letters), without a
//! proxy, and does not wait for its topic's turn. A consumer whose outbox would block or refuse its supplier does not get it; the others do.
//! At the channel's limits it begins back-pressure as a supplier's event does, without a ticket; while that lasts, timers' events are
//! dropped and counted.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use hashbrown::HashMap;

use super::suppliers::Supplier;
use super::types::Types;
use super::{Admission, Lane};
use crate::timers::{TIMER_DOMAIN, TIMER_TYPE};
use crate::{ChannelId, ChannelTimer, Event, Forms, LaneId, PendingEvent, Reliability, Time, TimerSchedule, TypeId};

/// Maximum event types of which a channel's silences remember what they end.
const TYPES_MAX: usize = 4_096;
/// Silence of drops after which the next one is reported again.
const REPORTED_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// A timer that is due: its event is to be made and handed in by [`Lane::handle_timer_event`].
#[derive(Clone, Debug)]
pub struct DueTimer {
    /// The channel.
    pub channel: ChannelId,
    /// The timer.
    pub timer: Arc<ChannelTimer>,
    /// Number of events that it has published, this one included.
    pub count: u64,
    /// Number of intervals that it has passed over so far.
    pub missed: u64,
    /// Number of intervals passed over since it was due last.
    pub passed_over: u64,
}

/// Outcome of a timer's event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerOutcome {
    /// The channel took it.
    Published,
    /// The channel blocks its suppliers, or would have refused the event: it is dropped.
    Dropped {
        /// Whether none was dropped in the channel for a minute.
        begins: bool,
    },
}

/// A channel's timers on the main lane.
#[derive(Debug, Default)]
pub(super) struct ChannelTimers {
    timers: Vec<(Arc<ChannelTimer>, Option<Time>)>,
    last_dropped: Option<Time>,
}

impl ChannelTimers {
    /// Takes over the channel's timers: new ones begin, and those that are there already keep their due times.
    fn follow(&mut self, timers: &[Arc<ChannelTimer>], now: Time) {
        let before = core::mem::take(&mut self.timers);
        let due_of = |timer: &Arc<ChannelTimer>| {
            let known = before.iter().find(|(known, _)| Arc::ptr_eq(known, timer));
            known.map_or_else(|| Some(timer.begin(now)), |(_, due)| *due)
        };
        self.timers = timers.iter().map(|timer| (Arc::clone(timer), due_of(timer))).collect();
    }

    /// When one of them is due next.
    fn next_due(&self) -> Option<Time> {
        self.timers.iter().filter_map(|(_, due)| *due).min()
    }

    /// The first of them that fires now, with the number of intervals that it has passed over.
    fn fire(&mut self, now: Time) -> Option<(Arc<ChannelTimer>, u64)> {
        self.timers.iter_mut().filter(|(_, due)| due.is_some_and(|due| due <= now)).find_map(|(timer, due)| {
            let passed_over = advance(timer, due, now)?;
            Some((Arc::clone(timer), passed_over))
        })
    }
}

/// Sets the next due time of a timer that is due. Returns the number of intervals passed over if it fires now.
fn advance(timer: &ChannelTimer, due: &mut Option<Time>, now: Time) -> Option<u64> {
    let at = (*due)?;
    let (next, fires) = match &timer.settings().schedule {
        TimerSchedule::Every(interval) => {
            let nanos = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1);
            let passed_over = now.0.saturating_sub(at.0) / nanos;
            let next = at.0.saturating_add(nanos.saturating_mul(passed_over.saturating_add(1)));
            (Some(Time(next)), Some(passed_over))
        }
        TimerSchedule::After(_) => (None, Some(0)),
        TimerSchedule::Silence { period, .. } => match timer.silence() {
            Some(heard) if heard + *period > now => (Some(heard + *period), None),
            Some(heard) => {
                timer.answer_silence(heard);
                (Some(now + *period), Some(0))
            }
            None => (Some(now + *period), None),
        },
    };
    *due = next;
    timer.note_next(next, fires.unwrap_or(0));
    fires
}

/// The timers of silence of a channel on a lane, and which of them each event type ends.
#[derive(Debug)]
pub(super) struct Silences {
    timers: Vec<Arc<ChannelTimer>>,
    /// By type, a bit for each of `timers`. Valid for one count of released types.
    ends: HashMap<TypeId, u64>,
    released: u64,
}

impl Silences {
    /// The timers of silence among these; `None` if there are none.
    fn of(timers: &[Arc<ChannelTimer>]) -> Option<Box<Self>> {
        let is_silence =
            |timer: &&Arc<ChannelTimer>| matches!(timer.settings().schedule, TimerSchedule::Silence { .. });
        let timers: Vec<_> = timers.iter().filter(is_silence).cloned().collect();
        (!timers.is_empty()).then(|| Box::new(Self { timers, ends: HashMap::new(), released: 0 }))
    }

    /// Notes an event, which ends silences.
    pub(super) fn note(&mut self, event: &Event, types: &Types, now: Time) {
        if self.released != types.released_count() {
            self.released = types.released_count();
            self.ends.clear();
        }
        let known = self.ends.get(&event.event_type).copied();
        let mut ended = known.unwrap_or_else(|| self.ended_by(event, types));
        while ended != 0 {
            if let Some(timer) = self.timers.get(ended.trailing_zeros() as usize) {
                timer.note_heard(now);
            }
            ended &= ended - 1;
        }
    }

    /// The silences that an event's type ends, as bits.
    #[cold]
    fn ended_by(&mut self, event: &Event, types: &Types) -> u64 {
        let (domain, name) = types.names(event.event_type).unwrap_or_else(|| event.names());
        let is_timers = (domain, name) == (TIMER_DOMAIN.as_bytes(), TIMER_TYPE.as_bytes());
        let counts = |timer: &ChannelTimer| match &timer.settings().schedule {
            TimerSchedule::Silence { types, .. } => types.is_empty() || types.iter().any(|of| of.matches(domain, name)),
            TimerSchedule::Every(_) | TimerSchedule::After(_) => false,
        };
        let bits = self.timers.iter().take(u64::BITS as usize).enumerate();
        let bits = bits.filter(|(_, timer)| !is_timers && counts(timer)).map(|(bit, _)| 1_u64 << bit);
        let ended = bits.fold(0, |all, bit| all | bit);
        if event.event_type != TypeId::OTHER {
            if self.ends.len() >= TYPES_MAX {
                self.ends.clear();
            }
            self.ends.insert(event.event_type, ended);
        }
        ended
    }
}

/// Takes over the timers of a channel's routing.
pub(super) fn follow(lane: &mut Lane, channel: u32) {
    let Some(state) = lane.channels.get_mut(channel) else { return };
    state.silences = Silences::of(&state.routes.timers);
    if lane.id != LaneId::MAIN {
        return;
    }
    if state.routes.timers.is_empty() {
        state.timers = None;
        return;
    }
    let timers = state.timers.get_or_insert_default();
    timers.follow(&state.routes.timers, lane.now);
    if let Some(due) = timers.next_due() {
        lane.agenda.channel_timers.set(channel, due);
    }
}

/// The next timer that is due, with its next time set. Looks at `looks` channels at most, and counts them off.
pub(super) fn poll(lane: &mut Lane, looks: &mut u32) -> Option<DueTimer> {
    if lane.agenda.timers_stopped {
        return None;
    }
    while *looks > 0 {
        let slot = lane.agenda.channel_timers.pop(lane.now)?;
        *looks -= 1;
        let Some(state) = lane.channels.get_mut(slot) else { continue };
        let Some(timers) = &mut state.timers else { continue };
        let fired = timers.fire(lane.now);
        if let Some(due) = timers.next_due() {
            lane.agenda.channel_timers.set(slot, due);
        }
        if let Some((timer, passed_over)) = fired {
            let progress = timer.progress();
            let (count, missed) = (progress.fired + 1, progress.missed);
            return Some(DueTimer { channel: state.id, timer, count, missed, passed_over });
        }
    }
    None
}

/// Admits the event of a timer that was due, unless the channel blocks suppliers, or would refuse the event.
pub(super) fn admit<F: Forms>(
    lane: &mut Lane,
    due: &DueTimer,
    mut pending_event: PendingEvent,
    forms: &F,
) -> TimerOutcome {
    pending_event.reliability = Some(Reliability::BestEffort);
    pending_event.priority = due.timer.settings().priority;
    let found = lane.places.slots.get(&due.channel).copied();
    let Some((slot, state)) = found.and_then(|slot| Some((slot, lane.channels.get(slot)?))) else {
        lane.abandon_event(pending_event);
        return TimerOutcome::Dropped { begins: false };
    };
    let supplier = Supplier::of(Lane::timer_source(due.channel), slot, state);
    lane.arrival.unattended = true;
    let admission = lane.admit(&supplier, pending_event, forms);
    lane.arrival.unattended = false;
    let is_published = matches!(admission, Admission::Accepted { .. });
    if let Admission::AwaitingFilter(pending_event, _) = admission {
        lane.abandon_event(pending_event);
    }
    due.timer.count(is_published);
    if is_published {
        return TimerOutcome::Published;
    }
    due.timer.retry_silence();
    let timers = lane.channels.get_mut(slot).and_then(|state| state.timers.as_mut());
    let last = timers.and_then(|timers| timers.last_dropped.replace(lane.now));
    TimerOutcome::Dropped { begins: last.is_none_or(|last| last + REPORTED_AGAIN_AFTER <= lane.now) }
}

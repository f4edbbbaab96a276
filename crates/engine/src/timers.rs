//! Timers of channels: events that the service itself publishes by the clock.
//!
//! Administration declares a channel's timers. The main lane fires them, and writes their progress beside their settings, where
//! administration reads it; neither waits for the other.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use crate::{EventType, Time};

/// Maximum timers of a channel.
pub const TIMERS_MAX: usize = 64;

/// Domain of the type of timers' events.
pub const TIMER_DOMAIN: &str = "Campanile";
/// Name of the type of timers' events.
pub const TIMER_TYPE: &str = "Timer";

/// When a timer fires. Its time begins when the main lane takes over its channel with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimerSchedule {
    /// At each whole multiple of the interval, which is longer than zero.
    Every(Duration),
    /// Once, after this time.
    After(Duration),
    /// When no event has come to the channel for the period, which is longer than zero; again only after one has come. Timers' own events
    /// do not count.
    Silence {
        /// The period.
        period: Duration,
        /// Event types that count; empty for all.
        types: Vec<EventType>,
    },
}

impl TimerSchedule {
    /// The schedule's name: its key in a configuration.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Every(_) => "every",
            Self::After(_) => "after",
            Self::Silence { .. } => "silence",
        }
    }

    /// The time in it.
    #[must_use]
    pub const fn time(&self) -> Duration {
        match self {
            Self::Every(time) | Self::After(time) | Self::Silence { period: time, .. } => *time,
        }
    }
}

/// Settings of a channel's timer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerSettings {
    /// The timer's name, unique in its channel: the event name of its events.
    pub name: String,
    /// When it fires.
    pub schedule: TimerSchedule,
    /// Priority of its events; `None` for the default.
    pub priority: Option<i16>,
}

/// Progress of a timer at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimerProgress {
    /// When it fires next, unless an event of a [`TimerSchedule::Silence`] comes before. `None` if it does not, or has not begun.
    pub next: Option<Time>,
    /// Number of events that it has published.
    pub fired: u64,
    /// Number of intervals that were passed over, because the lane was late.
    pub missed: u64,
    /// Number of events that were dropped, because the channel would have blocked or refused a supplier.
    pub dropped: u64,
}

/// A timer of a channel: its settings, and its progress.
#[derive(Debug)]
pub struct ChannelTimer {
    settings: TimerSettings,
    /// Lane time at which it fires next, or is looked at; [`UNSET`] if never.
    next: AtomicU64,
    /// Lane time of the last event that ended a silence, or of the beginning; [`UNSET`] before.
    heard: AtomicU64,
    /// The value of `heard` for which a silence was published.
    answered: AtomicU64,
    fired: AtomicU64,
    missed: AtomicU64,
    dropped: AtomicU64,
}

/// A time that is not set.
const UNSET: u64 = u64::MAX;

impl ChannelTimer {
    pub(crate) fn new(settings: TimerSettings) -> Self {
        let [fired, missed, dropped] = [0; 3].map(AtomicU64::new);
        let [next, heard, answered] = [UNSET; 3].map(AtomicU64::new);
        Self { settings, next, heard, answered, fired, missed, dropped }
    }

    /// The timers with these settings: those of `before` with equal settings go on, the others begin anew.
    pub(crate) fn following(before: &[Arc<Self>], settings: Vec<TimerSettings>) -> Arc<[Arc<Self>]> {
        let kept = |settings: &TimerSettings| before.iter().find(|timer| timer.settings == *settings).cloned();
        settings.into_iter().map(|settings| kept(&settings).unwrap_or_else(|| Arc::new(Self::new(settings)))).collect()
    }

    /// The timer's settings.
    #[must_use]
    pub fn settings(&self) -> &TimerSettings {
        &self.settings
    }

    /// The timer's progress.
    #[must_use]
    pub fn progress(&self) -> TimerProgress {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let next = match self.settings.schedule {
            TimerSchedule::Every(_) | TimerSchedule::After(_) => Some(Time(read(&self.next))),
            // One whose event was dropped is tried again when it is next looked at.
            TimerSchedule::Silence { period, .. } => {
                self.silence().map(|heard| (heard + period).max(Time(read(&self.next))))
            }
        };
        TimerProgress {
            next: next.filter(|next| next.0 != UNSET),
            fired: read(&self.fired),
            missed: read(&self.missed),
            dropped: read(&self.dropped),
        }
    }

    /// Notes an event that ends a silence. A lane's time is that of its round's beginning, so an earlier one may come later: it does not count.
    pub(crate) fn note_heard(&self, now: Time) {
        let (before, answered) = (self.heard.load(Ordering::Relaxed), self.answered.load(Ordering::Relaxed));
        // An event of the round in which its silence was published begins another one.
        let now = if now.0 == answered { now.0.saturating_add(1) } else { now.0 };
        if before == UNSET || before < now {
            self.heard.store(now, Ordering::Relaxed);
        }
    }

    /// Since when there is a silence that has not been published; `None` if there is none.
    pub(crate) fn silence(&self) -> Option<Time> {
        let heard = self.heard.load(Ordering::Relaxed);
        (heard != UNSET && heard != self.answered.load(Ordering::Relaxed)).then_some(Time(heard))
    }

    /// Begins the timer, and returns when it is first due.
    pub(crate) fn begin(&self, now: Time) -> Time {
        self.note_heard(now);
        let due = now + self.settings.schedule.time();
        self.next.store(due.0, Ordering::Relaxed);
        due
    }

    /// Ends the silence since `heard`, which is published now.
    pub(crate) fn answer_silence(&self, heard: Time) {
        self.answered.store(heard.0, Ordering::Relaxed);
    }

    /// Has a silence that was answered fire again a period later, since its event was dropped.
    pub(crate) fn retry_silence(&self) {
        self.answered.store(UNSET, Ordering::Relaxed);
    }

    /// Notes when the timer is due next, and the intervals passed over.
    pub(crate) fn note_next(&self, next: Option<Time>, missed: u64) {
        self.next.store(next.map_or(UNSET, |next| next.0), Ordering::Relaxed);
        add(&self.missed, missed);
    }

    /// Counts an event that was published, or dropped.
    pub(crate) fn count(&self, is_published: bool) {
        add(if is_published { &self.fired } else { &self.dropped }, 1);
    }
}

/// Adds to a counter that one lane writes.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn settings(name: &str, schedule: TimerSchedule) -> TimerSettings {
        TimerSettings { name: name.into(), schedule, priority: None }
    }

    #[test]
    fn a_timer_with_equal_settings_goes_on_and_another_begins_anew() {
        let every = |millis| TimerSchedule::Every(Duration::from_millis(millis));
        let first = ChannelTimer::following(&[], vec![settings("a", every(1)), settings("b", every(2))]);
        assert_eq!(first[0].progress(), TimerProgress::default(), "it has not begun");
        first.iter().for_each(|timer| timer.count(true));
        let second = ChannelTimer::following(&first, vec![settings("b", every(2)), settings("a", every(3))]);
        assert!(Arc::ptr_eq(&first[1], &second[0]));
        assert_eq!(second.iter().map(|timer| timer.progress().fired).collect::<Vec<_>>(), [1, 0]);
    }

    #[test]
    fn a_silence_is_pending_until_it_is_published_and_again_after_an_event() {
        let period = Duration::from_nanos(10);
        let timer = ChannelTimer::new(settings("quiet", TimerSchedule::Silence { period, types: vec![] }));
        assert_eq!(timer.silence(), None);
        assert_eq!(timer.begin(Time(5)), Time(15));
        assert_eq!((timer.silence(), timer.progress().next), (Some(Time(5)), Some(Time(15))));
        timer.answer_silence(Time(5));
        assert_eq!((timer.silence(), timer.progress().next), (None, None));
        timer.note_heard(Time(40));
        assert_eq!((timer.silence(), timer.progress().next), (Some(Time(40)), Some(Time(50))));
        timer.note_heard(Time(30));
        assert_eq!(timer.silence(), Some(Time(40)), "another lane's round began earlier");
        timer.answer_silence(Time(40));
        timer.note_heard(Time(40));
        assert_eq!(timer.silence(), Some(Time(41)), "an event came in the round in which it was published");
    }
}

//! Events of channels' timers: the engine says which timer is due, and the event is made and handed in here, in the lane's own round.

use corba::event::{FORM_STRUCTURED, TimerEvent, write_timer_event};
use engine::{DueTimer, Event, Lane, TIMER_DOMAIN, TIMER_TYPE, TimerOutcome};

use super::Protocols;
use crate::counters::Counter;
use crate::lane::budget::Budget;
use crate::lane::context::Context;

/// Maximum channels whose due timers are looked at in one round, once for each timer that fires, within the time of [`Budget::EVENTS`]; the
/// others follow in the next.
const LOOKS_PER_ROUND: u32 = 256;
/// Octets of a timer's event, with a long name.
const EVENT_BYTES: usize = 256;

impl Protocols {
    /// Publishes the events of the timers that are due.
    pub(crate) fn fire_timers(&mut self, cx: &mut Context) {
        let (mut looks, mut until) = (LOOKS_PER_ROUND, None);
        while let Some(due) = cx.lane.poll_timer(cx.clock.now, &mut looks) {
            self.fire_timer(&due, cx);
            let now = cx.clock.time();
            if now >= *until.get_or_insert(now + Budget::EVENTS.time) {
                return;
            }
        }
    }

    fn fire_timer(&mut self, due: &DueTimer, cx: &mut Context) {
        cx.counters.add(Counter::TimerIntervalsMissed, due.passed_over);
        let settings = due.timer.settings();
        let mut pending_event = cx.lane.begin_event_for(EVENT_BYTES);
        let event: &mut Event = &mut pending_event;
        let written = TimerEvent {
            name: &settings.name,
            kind: settings.schedule.kind(),
            count: due.count,
            missed: due.missed,
            priority: settings.priority,
        };
        event.tag = write_timer_event(&written, &mut event.bytes);
        event.form = FORM_STRUCTURED;
        let octets = event.bytes.len() as u64;
        cx.origins.assign(event);
        cx.lane.classify(&mut pending_event, TIMER_DOMAIN.as_bytes(), TIMER_TYPE.as_bytes());
        self.translate(Lane::timer_source(due.channel), &mut pending_event, cx);
        match cx.lane.handle_timer_event(due, pending_event, self, cx.clock.now) {
            TimerOutcome::Published => {
                cx.counters.add(Counter::TimerEvents, 1);
                cx.counters.add(Counter::EventBytesIn, octets);
            }
            TimerOutcome::Dropped { begins } => {
                cx.counters.add(Counter::TimerEventsDropped, 1);
                if begins {
                    announce_dropped(due, cx);
                }
            }
        }
    }
}

/// Logs that a channel takes no events of its timers: once, until it has taken all for a minute.
#[cold]
fn announce_dropped(due: &DueTimer, cx: &mut Context) {
    cx.log(log::Level::Warn, || {
        format!(
            "an event of timer {:?} of channel {} is dropped for all its consumers, since the channel has no room: its suppliers wait or \
             are refused; such events are counted (lane_timer_events_dropped), and logged again after a minute without",
            due.timer.settings().name, due.channel.0
        )
    });
}

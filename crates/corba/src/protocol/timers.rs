//! Timers of channels, as an operator declares and reads them. They are not part of the topology: the configuration declares them at each
//! start.

use super::{Objects, Protocol};
use engine::{ChannelId, ChannelTimer, Refusal, TimerSettings};
use std::sync::Arc;

/// Timers in one page.
const TIMERS_AT_ONCE: usize = 1_024;

/// A timer, as it stands in a list.
#[derive(Clone, Debug)]
pub struct ListedTimer {
    /// The timer's channel.
    pub channel: ChannelId,
    /// The timer's place among those of its channel, from 0.
    pub place: u32,
    /// The timer.
    pub timer: Arc<ChannelTimer>,
}

impl Objects {
    /// The timers of one channel or all by channel and place, from behind a given one: 1,024 at most.
    #[must_use]
    pub fn listed_timers(&self, of: Option<ChannelId>, behind: Option<(ChannelId, u32)>) -> Vec<ListedTimer> {
        let channels = self.hierarchy.channels().filter(|channel| {
            let is_asked = of.is_none_or(|of| channel.id() == of);
            is_asked && behind.is_none_or(|(behind, _)| channel.id() >= behind)
        });
        let timers = channels.flat_map(|channel| {
            let listed = move |(place, timer): (u32, &Arc<ChannelTimer>)| ListedTimer {
                channel: channel.id(),
                place,
                timer: Arc::clone(timer),
            };
            (0..).zip(channel.timers().iter()).map(listed)
        });
        let is_behind = |timer: &ListedTimer| behind.is_none_or(|behind| (timer.channel, timer.place) > behind);
        timers.filter(is_behind).take(TIMERS_AT_ONCE).collect()
    }
}

impl Protocol {
    /// Replaces a channel's timers. Those with the settings of an earlier one go on; the others begin anew.
    ///
    /// # Errors
    /// There is no such channel, or the timers are more than a channel may have.
    pub fn set_timers(&mut self, channel: ChannelId, timers: Vec<TimerSettings>) -> Result<(), Refusal> {
        self.objects.hierarchy.set_timers(channel, timers)
    }
}

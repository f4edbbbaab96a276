//! Timers of channels, as an operator declares and reads them. They are not part of the topology: the configuration declares them at each
//! start.

use super::{Objects, Protocol};
use engine::{ChannelId, ChannelTimer, Refusal, TimerSettings};

/// Timers in one page.
const TIMERS_AT_ONCE: usize = 1_024;

impl Objects {
    /// The timers of one channel or all, with their channel and their place in it from 0, from behind a given one: 1,024 at most.
    pub fn listed_timers(
        &self,
        of: Option<ChannelId>,
        behind: Option<(ChannelId, u32)>,
    ) -> impl Iterator<Item = ((ChannelId, u32), &ChannelTimer)> {
        let channels = self.hierarchy.channels().filter(move |channel| of.is_none_or(|of| channel.id() == of));
        let channels = channels.filter(move |channel| behind.is_none_or(|(behind, _)| channel.id() >= behind));
        let timers = channels.flat_map(|channel| {
            (0..).zip(channel.timers().iter()).map(|(place, timer)| ((channel.id(), place), &**timer))
        });
        timers.filter(move |(key, _)| behind.is_none_or(|behind| *key > behind)).take(TIMERS_AT_ONCE)
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

//! Status of channels' timers, as the main lane writes it beside their settings.

use engine::{ChannelId, ChannelTimer};

use crate::admin::run::Administration;
use crate::admin::values::TimerStatus;

impl Administration {
    /// Some timers of one channel or all, by channel and place.
    pub(crate) fn timers(&self, of: Option<ChannelId>, behind: Option<(ChannelId, u32)>) -> Vec<TimerStatus> {
        let now = self.now();
        let status = |((channel, place), timer): ((ChannelId, u32), &ChannelTimer)| {
            let (settings, progress) = (timer.settings(), timer.progress());
            TimerStatus {
                channel,
                place,
                name: settings.name.clone(),
                kind: settings.schedule.kind(),
                time: settings.schedule.time(),
                next: progress.next.map(|next| next.since(now)),
                fired: progress.fired,
                missed: progress.missed,
                dropped: progress.dropped,
            }
        };
        self.objects.listed_timers(of, behind).map(status).collect()
    }
}

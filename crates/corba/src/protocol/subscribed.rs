//! Sums of a channel's subscriptions, which links report to their far sides so that only those events are sent.
//!
//! A sum is the one that suppliers are notified of ([`changes`](super::changes)), without the consumers that are ends of the same link. It
//! may be wider than the subscriptions, and never narrower: everything, if the types are too many, or the channel has a history.
//!
//! A link watches a channel. A changed sum is reported after the batch of requests that changed it, at most once in [`REPORTED_EVERY`] for
//! each watch.

use super::{Effect, Objects, Protocol, changes};
use engine::{ChannelId, EventType, Peer, ProxyKey, Side, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Shortest time between two reports to a watch.
const REPORTED_EVERY: Duration = Duration::from_millis(100);

/// Maximum watches. One beyond gets a single report: everything.
const WATCHES_MAX: usize = 1_024;

/// The sum of the subscriptions of a channel's consumers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscribed {
    /// Every event.
    pub everything: bool,
    /// Otherwise events of these types, sorted, at most 4,096 of 256 KiB together. Empty: no events.
    pub types: Vec<EventType>,
}

impl Subscribed {
    /// Every event.
    #[must_use]
    pub const fn everything() -> Self {
        Self { everything: true, types: Vec::new() }
    }
}

/// Watched channels, by the handles of the clients that get the reports.
#[derive(Debug, Default)]
pub(super) struct Watches(BTreeMap<Peer, Watch>);

#[derive(Debug)]
struct Watch {
    channel: ChannelId,
    /// Consumers left out of the sum.
    except: Vec<ProxyKey>,
    /// The version of the channel's lists, and whether it has a history, at the last check.
    seen: Option<(u64, bool)>,
    /// The last report.
    last: Option<Subscribed>,
    not_before: Time,
}

impl Objects {
    /// The sum of the subscriptions of a channel's connected consumers, including absent durable ones, except those for which `except` is
    /// true. `None` if the channel does not exist.
    #[must_use]
    pub fn subscribed(&self, channel: ChannelId, except: &dyn Fn(ProxyKey) -> bool) -> Subscribed {
        if self.keeps_history(channel) {
            return Subscribed::everything();
        }
        let types = self.hierarchy.subscribed_types_but(channel, except).unwrap_or_default();
        let everything = types.iter().any(EventType::is_everything) || changes::is_much(&types);
        if everything { Subscribed::everything() } else { Subscribed { everything, types } }
    }

    fn keeps_history(&self, channel: ChannelId) -> bool {
        self.hierarchy.channel(channel).is_ok_and(|channel| channel.limits().history.keeps())
    }

    /// The state that determines a channel's sum; `None` if the channel is gone.
    fn state_of(&self, channel: ChannelId) -> Option<(u64, bool)> {
        let version = self.hierarchy.types_version(channel, Side::Consumers).ok()?;
        Some((version, self.keeps_history(channel)))
    }
}

impl Protocol {
    /// Reports to a client of another protocol the sum of a channel's subscriptions without these consumers', now and after each change, by
    /// [`Effect::Subscribed`]. The watch replaces the client's former one. It ends with the client's proxy or the channel.
    pub fn watch_subscribed(&mut self, peer: Peer, channel: ChannelId, except: Vec<ProxyKey>) {
        let Watches(watches) = &mut self.watches;
        if watches.len() >= WATCHES_MAX && !watches.contains_key(&peer) {
            self.objects.count_widened();
            return self.objects.effects.push_back(Effect::Subscribed(peer, Subscribed::everything()));
        }
        let now = self.objects.clock.time;
        watches.insert(peer, Watch { channel, except, seen: None, last: None, not_before: now });
    }

    /// Ends a client's watch.
    pub fn unwatch_subscribed(&mut self, peer: Peer) {
        self.watches.0.remove(&peer);
    }

    /// Reports the changed sums that are due.
    pub(super) fn report_subscribed(&mut self) {
        let Self { watches: Watches(watches), objects, .. } = self;
        let now = objects.clock.time;
        watches.retain(|peer, watch| {
            let Some(state) = objects.state_of(watch.channel) else {
                objects.effects.push_back(Effect::Subscribed(*peer, Subscribed::default()));
                return false;
            };
            if watch.seen != Some(state) && watch.not_before <= now {
                (watch.seen, watch.not_before) = (Some(state), now + REPORTED_EVERY);
                let subscribed = objects.subscribed(watch.channel, &|key| watch.except.contains(&key));
                if watch.last.as_ref() != Some(&subscribed) {
                    watch.last = Some(subscribed.clone());
                    objects.effects.push_back(Effect::Subscribed(*peer, subscribed));
                }
            }
            true
        });
    }

    /// When the next report is due.
    pub(super) fn next_subscribed(&self) -> Option<Time> {
        let has_changed = |watch: &&Watch| watch.seen != self.objects.state_of(watch.channel);
        self.watches.0.values().filter(has_changed).map(|watch| watch.not_before).min()
    }
}

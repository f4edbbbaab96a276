//! What the consumers of a channel want of another service: links tell it to their far sides, which send nothing else.
//!
//! It is the sum that suppliers are notified of ([`changes`](super::changes)), without the consumers that are ends of the same link. It may
//! say more than is wanted, and never less: everything, where the types are too many, or the channel keeps a history.
//!
//! A link has a channel watched. What changes is found out after each batch of requests that changed something, at most once in
//! [`WANTED_EVERY`] for each watch.

use super::{Effect, Objects, Protocol, changes};
use engine::{ChannelId, EventType, Peer, ProxyKey, Side, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Shortest time between two lists for a watch.
const WANTED_EVERY: Duration = Duration::from_millis(100);

/// Maximum watches. One beyond is told that everything is wanted, once.
const WATCHES_MAX: usize = 1_024;

/// What a channel's consumers want.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Every event.
    pub everything: bool,
    /// Otherwise events of these types, sorted, at most 4,096 of 256 KiB together. Nothing is wanted if there are none.
    pub types: Vec<EventType>,
}

impl Wanted {
    /// Every event.
    #[must_use]
    pub const fn everything() -> Self {
        Self { everything: true, types: Vec::new() }
    }
}

/// Watched channels, by the handles that are told.
#[derive(Debug, Default)]
pub(super) struct Watches(BTreeMap<Peer, Watch>);

#[derive(Debug)]
struct Watch {
    channel: ChannelId,
    /// Consumers that do not count.
    except: Vec<ProxyKey>,
    /// The state of the channel's lists, and whether it keeps a history, when they were last looked at.
    seen: Option<(u64, bool)>,
    /// What was told last.
    told: Option<Wanted>,
    not_before: Time,
}

impl Objects {
    /// What the connected consumers of a channel want, durable ones that are away included, and those for which `except` is true not. Nothing
    /// if there is no such channel.
    #[must_use]
    pub fn wanted(&self, channel: ChannelId, except: &dyn Fn(ProxyKey) -> bool) -> Wanted {
        if self.keeps_history(channel) {
            return Wanted::everything();
        }
        let types = self.hierarchy.subscribed_types_but(channel, except).unwrap_or_default();
        let everything = types.iter().any(EventType::is_everything) || changes::is_much(&types);
        if everything { Wanted::everything() } else { Wanted { everything, types } }
    }

    fn keeps_history(&self, channel: ChannelId) -> bool {
        self.hierarchy.channel(channel).is_ok_and(|channel| channel.limits().history.keeps())
    }

    /// What the wishes of a channel's consumers follow from; nothing if it is gone.
    fn wishes_of(&self, channel: ChannelId) -> Option<(u64, bool)> {
        let version = self.hierarchy.types_version(channel, Side::Consumers).ok()?;
        Some((version, self.keeps_history(channel)))
    }
}

impl Protocol {
    /// Tells a client of another protocol what the consumers of a channel want but these, now and whenever it has changed:
    /// [`Effect::Wanted`]. This takes the place of what that client watched before, and ends with the channel.
    pub fn watch_wanted(&mut self, peer: Peer, channel: ChannelId, except: Vec<ProxyKey>) {
        let Watches(watches) = &mut self.watches;
        if watches.len() >= WATCHES_MAX && !watches.contains_key(&peer) {
            self.objects.count_widened();
            return self.objects.effects.push_back(Effect::Wanted(peer, Wanted::everything()));
        }
        let now = self.objects.clock.time;
        watches.insert(peer, Watch { channel, except, seen: None, told: None, not_before: now });
    }

    /// A client wants to know no more what consumers want.
    pub fn unwatch_wanted(&mut self, peer: Peer) {
        self.watches.0.remove(&peer);
    }

    /// Tells what has changed of watched channels, and is to be told now.
    pub(super) fn tell_wanted(&mut self) {
        let Self { watches: Watches(watches), objects, .. } = self;
        let now = objects.clock.time;
        watches.retain(|peer, watch| {
            let Some(wishes) = objects.wishes_of(watch.channel) else {
                objects.effects.push_back(Effect::Wanted(*peer, Wanted::default()));
                return false;
            };
            if watch.seen != Some(wishes) && watch.not_before <= now {
                (watch.seen, watch.not_before) = (Some(wishes), now + WANTED_EVERY);
                let wanted = objects.wanted(watch.channel, &|key| watch.except.contains(&key));
                if watch.told.as_ref() != Some(&wanted) {
                    watch.told = Some(wanted.clone());
                    objects.effects.push_back(Effect::Wanted(*peer, wanted));
                }
            }
            true
        });
    }

    /// When there is more to tell.
    pub(super) fn next_wanted(&self) -> Option<Time> {
        let has_changed = |watch: &&Watch| watch.seen != self.objects.wishes_of(watch.channel);
        self.watches.0.values().filter(has_changed).map(|watch| watch.not_before).min()
    }
}

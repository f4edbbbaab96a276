//! Metrics series of consumers: one for each client's name and channel, continued when the client connects again.
//!
//! Consumers without a name have one each, by their proxies. The counts of a client that has disconnected are remembered, so that the
//! counters of its name do not fall when it connects again.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use engine::{ChannelId, Discards, Latency, OutboxStats, ProxyId, ProxyKey};

use crate::shared::Names;

/// Maximum number of connected consumers, and of disconnected names, with remembered counts. Counters of others restart.
const PRESENT_MAX: usize = 4_096;
const ENDED_MAX: usize = 1_024;

/// One series, and its labels.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Series {
    pub(crate) channel: ChannelId,
    /// The proxy; `None` for a name, which may have several.
    pub(crate) proxy: Option<ProxyId>,
    pub(crate) name: Arc<str>,
    /// The sum over all consumers of that name.
    pub(crate) stats: OutboxStats,
}

/// The counts remembered between snapshots.
#[derive(Debug, Default)]
pub(crate) struct Lives {
    present: HashMap<ProxyKey, (Arc<str>, Totals)>,
    ended: HashMap<(ChannelId, Arc<str>), Totals>,
}

/// Total counts of consumers.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    delivered: u64,
    delivered_bytes: u64,
    discards: Discards,
    latency: Latency,
}

impl Totals {
    const fn of(stats: &OutboxStats) -> Self {
        let OutboxStats { delivered, delivered_bytes, discards, latency, .. } = *stats;
        Self { delivered, delivered_bytes, discards, latency }
    }

    fn add(&mut self, other: &Self) {
        self.delivered += other.delivered;
        self.delivered_bytes += other.delivered_bytes;
        self.discards.join(&other.discards);
        self.latency.join(&other.latency);
    }

    fn add_to(&self, stats: &mut OutboxStats) {
        stats.delivered += self.delivered;
        stats.delivered_bytes += self.delivered_bytes;
        stats.discards.join(&self.discards);
        stats.latency.join(&self.latency);
    }
}

impl Lives {
    /// The series of the first `most` consumers; the slowest come first.
    pub(crate) fn series(&mut self, consumers: &[OutboxStats], names: &Names, most: usize) -> Vec<Series> {
        self.note_gone(consumers);
        let mut all: Vec<Series> = Vec::new();
        let mut places: HashMap<(ChannelId, Arc<str>), usize> = HashMap::new();
        for outbox in consumers.iter().take(most) {
            let channel = outbox.key.channel;
            let (text, name) = names.get(&outbox.key).map_or(("", None), |(text, name)| (text.as_str(), name.as_ref()));
            let Some(name) = name else {
                all.push(Series { channel, proxy: Some(outbox.key.proxy), name: text.into(), stats: *outbox });
                continue;
            };
            if self.present.len() < PRESENT_MAX || self.present.contains_key(&outbox.key) {
                self.present.insert(outbox.key, (Arc::clone(name), Totals::of(outbox)));
            }
            match places.entry((channel, Arc::clone(name))) {
                Entry::Occupied(place) => all.get_mut(*place.get()).into_iter().for_each(|one| one.stats.join(outbox)),
                Entry::Vacant(place) => {
                    let mut stats = *outbox;
                    self.ended.get(place.key()).into_iter().for_each(|ended| ended.add_to(&mut stats));
                    place.insert(all.len());
                    all.push(Series { channel, proxy: None, name: Arc::clone(name), stats });
                }
            }
        }
        all
    }

    /// Remembers the counts of consumers that have disconnected.
    fn note_gone(&mut self, consumers: &[OutboxStats]) {
        let there: HashSet<ProxyKey> = consumers.iter().map(|outbox| outbox.key).collect();
        let Self { present, ended } = self;
        present.retain(|key, (name, counted)| {
            let is_there = there.contains(key);
            let of = (key.channel, Arc::clone(name));
            if !is_there && (ended.len() < ENDED_MAX || ended.contains_key(&of)) {
                ended.entry(of).or_default().add(counted);
            }
            is_there
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{
        AdminId, ChannelLimits, Form, Hierarchy, Lane, OutputForm, Peer, ProxyKind, SettingsPatch, Side, Time,
    };

    fn outbox(channel: u32, proxy: u32, delivered: u64) -> OutboxStats {
        static IDLE: std::sync::LazyLock<OutboxStats> = std::sync::LazyLock::new(|| {
            let mut hierarchy = Hierarchy::default();
            let channel = hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap();
            let (side, kind) = (Side::Consumers, ProxyKind::default());
            let proxy = hierarchy.create_proxy(channel, side, AdminId::DEFAULT, Form(1), kind).unwrap();
            hierarchy.connect(ProxyKey { channel, proxy }, Some(Peer(1)), OutputForm(0)).unwrap();
            let mut lane = Lane::new(Time(0));
            lane.handle_snapshot(hierarchy.snapshot(), Time(0));
            lane.outboxes().next().unwrap()
        });
        let key = ProxyKey { channel: ChannelId(channel), proxy: ProxyId(proxy) };
        OutboxStats { key, delivered, backlog_events: 1, ..*IDLE }
    }

    fn names(of: &[(u32, u32, Option<&str>)]) -> Names {
        let name = |&(channel, proxy, name): &(u32, u32, Option<&str>)| {
            let key = ProxyKey { channel: ChannelId(channel), proxy: ProxyId(proxy) };
            (key, (format!("consumer proxy {proxy}"), name.map(Arc::from)))
        };
        of.iter().map(name).collect()
    }

    fn shown(series: &[Series]) -> Vec<(u32, Option<u32>, &str, u64)> {
        let mut shown = Vec::new();
        for Series { channel, proxy, name, stats } in series {
            shown.push((channel.0, proxy.map(|proxy| proxy.0), name.as_ref(), stats.delivered));
        }
        shown
    }

    /// Each life of a client made series of its own, for proxies that were never seen again.
    #[test]
    fn a_client_has_one_series_in_a_channel_however_often_it_connects() {
        let mut lives = Lives::default();
        let all = names(&[(0, 1, Some("archive")), (0, 2, Some("archive")), (0, 3, None), (1, 4, Some("archive"))]);
        let first = [outbox(0, 1, 100), outbox(0, 3, 7), outbox(1, 4, 1)];
        let series = lives.series(&first, &all, 10);
        let expected = [(0, None, "archive", 100), (0, Some(3), "consumer proxy 3", 7), (1, None, "archive", 1)];
        assert_eq!(shown(&series), expected);
        // Its next life begins while the former one is there yet, and goes on without it.
        let both = lives.series(&[outbox(0, 1, 110), outbox(0, 2, 5)], &all, 10);
        assert_eq!((shown(&both), both[0].stats.backlog_events), (vec![(0, None, "archive", 115)], 2));
        assert_eq!(shown(&lives.series(&[outbox(0, 2, 6)], &all, 10)), [(0, None, "archive", 116)]);
        // It is away, and comes again.
        assert_eq!(shown(&lives.series(&[], &all, 10)), []);
        assert_eq!(shown(&lives.series(&[outbox(0, 1, 1)], &all, 10)), [(0, None, "archive", 117)]);
    }

    #[test]
    fn one_that_is_only_not_among_the_slowest_has_not_gone_and_what_is_remembered_is_bounded() {
        let mut lives = Lives::default();
        let all = names(&[(0, 1, Some("a")), (0, 2, Some("b"))]);
        lives.series(&[outbox(0, 1, 5), outbox(0, 2, 1)], &all, 1);
        assert_eq!(shown(&lives.series(&[outbox(0, 2, 1), outbox(0, 1, 6)], &all, 1)), [(0, None, "b", 1)]);
        assert_eq!(shown(&lives.series(&[outbox(0, 1, 7), outbox(0, 2, 1)], &all, 1)), [(0, None, "a", 7)]);
        for proxy in 0..6_000 {
            let name = format!("client {proxy}");
            lives.series(&[outbox(0, proxy, 1)], &names(&[(0, proxy, Some(&name))]), 1);
        }
        assert!(lives.present.len() <= PRESENT_MAX && lives.ended.len() == ENDED_MAX);
    }
}

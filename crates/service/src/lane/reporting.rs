//! A lane's reports to administration.
//!
//! A survey reports the outboxes for `get_consumers` and `get_drops`: one chunk in each round, so that deliveries go on in between, however
//! many consumers there are.
//!
//! An outbox that exists throughout is reported once, in its state at that moment; one that is added or removed meanwhile may be missed.

use core::ops::Range;

use engine::{Lane, ProxyKey, TypeDrops, TypeTraffic};
use hashbrown::HashMap;

use crate::admin::values::{LinkStatus, TypeEvents};
use crate::lane::budget::Budget;
use crate::lane::context::Context;
use crate::lane::draining::Draining;
use crate::lane::links::mailbox::Mailbox;
use crate::lane::links::messages::{NamedDrops, Survey, SurveyParts, ToAdministration};
use crate::lane::reports::Reports;
use crate::lane::run::Core;

/// A lane's reports to administration, sent at once or when there is room.
pub(crate) struct Reporting {
    /// Mailbox for reports that may be left out if there is no room.
    pub(crate) administration: Mailbox<ToAdministration>,
    /// Reports that wait for room.
    pub(crate) reports: Reports,
    /// Survey under way, reported chunk by chunk.
    pub(crate) surveying: Option<Surveying>,
    /// Progress of draining, before the service ends.
    pub(crate) draining: Draining,
    /// Reasons why consumers have begun to fail, until the notices are sent.
    pub(crate) failures: HashMap<ProxyKey, String>,
}

impl Reporting {
    pub(crate) fn new(administration: Mailbox<ToAdministration>) -> Self {
        Self {
            administration,
            reports: Reports::new(),
            surveying: None,
            draining: Draining::default(),
            failures: HashMap::new(),
        }
    }

    /// Begins a survey of the requested parts. Even with none, the answer shows that the lane is running.
    pub(crate) fn begin_survey(&mut self, parts: SurveyParts, lane: &Lane) {
        self.surveying = Some(Surveying::new(parts, lane));
    }

    /// Whether a survey is under way, and there is room to report.
    pub(crate) fn has_to_survey(&self) -> bool {
        self.surveying.is_some() && !self.reports.has_backlog()
    }

    /// Reports one chunk, unless earlier reports still wait for room.
    fn go_on_surveying(&mut self, lane: &Lane, links: impl Fn(&Range<u32>) -> Option<Vec<LinkStatus>>) {
        if !self.has_to_survey() {
            return;
        }
        let Some(surveying) = &mut self.surveying else { return };
        let (chunk, is_last) = surveying.chunk(lane, links);
        if is_last {
            self.surveying = None;
        }
        self.reports.send(ToAdministration::Survey { chunk, is_last });
    }
}

impl Core {
    /// Reports one chunk of the survey under way, if there is one.
    pub(crate) fn go_on_surveying(&mut self) {
        let Self { cx: Context { reporting, lane, clock, .. }, protocols, .. } = self;
        reporting.go_on_surveying(lane, |places| protocols.links_at(lane, clock.now, places));
    }
}

/// Outboxes, and entries of drops, in one chunk.
const PLACES: u32 = Budget::REPORT.events;
/// Maximum event types that a lane reports, and flows over links.
const TYPES_MAX: usize = 4_096;
const LINKS_MAX: u32 = 4_096;

/// Progress of a survey.
pub(crate) struct Surveying {
    /// Place of the next outbox, if outboxes are to be reported.
    next: Option<u32>,
    /// Place of the next channel, if channels are to be reported.
    next_channel: Option<u32>,
    /// Place of the next flow over a link, if links are to be reported.
    next_link: Option<u32>,
    /// Place of the next event type, if types are to be reported, and how many more may be.
    next_type: Option<u32>,
    types_left: usize,
    /// Drops that have yet to be reported: 1,024 entries at most, so that they are copied at once.
    drops: Vec<TypeDrops>,
    /// Drops that `drops` has no entries for, reported with the last chunk.
    drops_beyond: u64,
}

impl Surveying {
    fn new(parts: SurveyParts, lane: &Lane) -> Self {
        let first = |part| parts.have(part).then_some(0);
        let all_drops = || (lane.type_drops().collect(), lane.type_drops_beyond());
        let (drops, drops_beyond) = parts.have(SurveyParts::DROPS).then(all_drops).unwrap_or_default();
        Self {
            next: first(SurveyParts::OUTBOXES),
            next_channel: first(SurveyParts::CHANNELS),
            next_link: first(SurveyParts::LINKS),
            next_type: first(SurveyParts::TYPES),
            types_left: TYPES_MAX,
            drops,
            drops_beyond,
        }
    }

    /// The next chunk, and whether it is the last.
    #[cold]
    fn chunk(&mut self, lane: &Lane, links: impl Fn(&Range<u32>) -> Option<Vec<LinkStatus>>) -> (Survey, bool) {
        let mut chunk = Survey::default();
        if let Some(next) = self.next
            && let Some(outboxes) = lane.outboxes_at(next, PLACES)
        {
            // In one piece: scraping asks this of lanes each second.
            chunk.outboxes.reserve_exact(PLACES as usize);
            chunk.outboxes.extend(outboxes);
            self.next = Some(next + PLACES);
            return (chunk, false);
        }
        if let Some(next) = self.next_channel
            && let Some(channels) = lane.channels_at(next, PLACES)
        {
            chunk.channels.reserve_exact(PLACES as usize);
            chunk.channels.extend(channels);
            self.next_channel = Some(next + PLACES);
            return (chunk, false);
        }
        if let Some(next) = self.next_link.filter(|next| *next < LINKS_MAX)
            && let Some(links) = links(&(next..next + PLACES))
        {
            chunk.links = links;
            self.next_link = Some(next + PLACES);
            return (chunk, false);
        }
        if let Some(next) = self.next_type.filter(|_| self.types_left > 0)
            && let Some(types) = lane.types_at(next, PLACES)
        {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let named =
                |of: TypeTraffic<'_>| TypeEvents { domain: text(of.domain), name: text(of.name), events: of.events };
            chunk.types.extend(types.take(self.types_left).map(named));
            self.types_left -= chunk.types.len();
            self.next_type = Some(next + PLACES);
            return (chunk, false);
        }
        let rest = self.drops.len().saturating_sub(PLACES as usize);
        chunk.drops = self.drops.drain(rest..).map(|drops| named(drops, lane)).collect();
        if rest == 0 {
            chunk.drops_beyond = self.drops_beyond;
        }
        (chunk, rest == 0)
    }
}

fn named(drops: TypeDrops, lane: &Lane) -> NamedDrops {
    let (domain, name) = lane.type_names(drops.event_type).unwrap_or((b"*", b"*"));
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    NamedDrops { drops, domain: text(domain), name: text(name) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{
        AdminId, ChannelLimits, Form, Hierarchy, NoFields, OutputForm, Peer, ProxyKey, ProxyKind, SettingsPatch, Side,
        Time,
    };

    #[test]
    fn each_consumer_is_reported_once_a_few_at_a_time_and_drops_after_them() {
        let mut hierarchy = Hierarchy::default();
        let channel = hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap();
        let connect = |hierarchy: &mut Hierarchy, side| {
            let proxy = hierarchy.create_proxy(channel, side, AdminId::DEFAULT, Form(1), ProxyKind::default()).unwrap();
            let key = ProxyKey { channel, proxy };
            hierarchy.connect(key, Some(Peer(1)), OutputForm(0)).unwrap();
            key
        };
        let source = connect(&mut hierarchy, Side::Suppliers);
        let consumers: Vec<ProxyKey> = (0..100).map(|_| connect(&mut hierarchy, Side::Consumers)).collect();
        let mut lane = Lane::new(Time(0));
        lane.handle_snapshot(hierarchy.snapshot(), Time(0));
        let mut pending_event = lane.begin_event();
        lane.classify(&mut pending_event, b"domain", b"name");
        lane.handle_event(source, pending_event, &NoFields, Time(0));
        // What waited for those that are connected is dropped as they go, so that there is something to tell.
        for gone in &consumers[..40] {
            hierarchy.destroy_proxy(*gone).unwrap();
        }
        lane.handle_snapshot(hierarchy.snapshot(), Time(0));
        while lane.next_timeout() == Some(Time(0)) {
            lane.handle_timeout(Time(0));
        }
        let of_types = Surveying::new(SurveyParts::TYPES, &lane).chunk(&lane, |_| None).0;
        assert_eq!((of_types.types.len(), of_types.outboxes.len(), of_types.channels.len()), (1, 0, 0));
        assert!(Surveying::new(SurveyParts::NONE, &lane).chunk(&lane, |_| None).1, "nothing but that it goes on");
        let parts = [SurveyParts::OUTBOXES, SurveyParts::CHANNELS, SurveyParts::TYPES, SurveyParts::DROPS];
        let mut surveying = Surveying::new(parts.into_iter().fold(SurveyParts::NONE, SurveyParts::and), &lane);
        (surveying.types_left, surveying.drops_beyond) = (1, 7);
        let mut reported = Survey::default();
        let mut chunks = 0;
        loop {
            let (chunk, is_last) = surveying.chunk(&lane, |_| None);
            chunks += 1;
            assert!(chunk.outboxes.len() <= 32 && chunk.drops.len() <= 32);
            reported.outboxes.extend(chunk.outboxes);
            reported.channels.extend(chunk.channels);
            reported.drops.extend(chunk.drops);
            reported.types.extend(chunk.types);
            reported.drops_beyond += chunk.drops_beyond;
            if is_last {
                break;
            }
        }
        let mut keys: Vec<ProxyKey> = reported.outboxes.iter().map(|stats| stats.key).collect();
        keys.sort_unstable();
        assert_eq!(keys, consumers[40..]);
        assert_eq!((reported.drops.len(), reported.drops_beyond, chunks, reported.channels.len()), (40, 7, 8, 1));
        let of_type = TypeEvents { domain: "domain".to_owned(), name: "name".to_owned(), events: 1 };
        assert_eq!(reported.types, [of_type]);
        assert!(reported.drops.iter().all(|named| (named.domain.as_str(), named.name.as_str()) == ("domain", "name")));
    }

    #[test]
    fn flows_over_links_are_reported_in_chunks_up_to_the_bound() {
        let lane = Lane::new(Time(0));
        let reported = |places: u32| {
            let mut surveying = Surveying::new(SurveyParts::LINKS, &lane);
            let at = |asked: &Range<u32>| {
                let there = asked.start..asked.end.min(places);
                (!there.is_empty()).then(|| there.map(|_| LinkStatus::default()).collect())
            };
            let mut reported = Vec::new();
            loop {
                let (chunk, is_last) = surveying.chunk(&lane, at);
                assert!(chunk.links.len() <= 32);
                reported.extend(chunk.links);
                if is_last {
                    return reported.len();
                }
            }
        };
        assert_eq!([0, 1, 32, 33, 70].map(reported), [0, 1, 32, 33, 70]);
        assert_eq!(reported(1_000_000), 4_096);
    }
}

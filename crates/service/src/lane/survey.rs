//! Telling administration how the outboxes stand, for `get_consumers` and `get_drops`: a piece in each round, so that
//! events go on between any two, however many consumers there are.
//!
//! An outbox that is there all the time is reported once, as it stands when its turn comes; of one that comes or goes
//! meanwhile it depends on when.

use engine::{Lane, TypeDrops};

use crate::lane::links::mail::{Asked, NamedDrops, Survey, ToAdministration};
use crate::lane::run::Core;

/// Places for outboxes, and entries of what was dropped, that are looked at in one round.
const PLACES_PER_ROUND: u32 = 32;
const DROPS_PER_ROUND: usize = 32;

/// How far the telling has come.
pub(crate) struct Surveying {
    /// The place of the next outbox, if they are to be reported.
    next: Option<u32>,
    /// The place of the next channel, if they are to be reported.
    next_channel: Option<u32>,
    /// What is left of what was dropped: 1,024 entries at most, so that they are copied in one go.
    drops: Vec<TypeDrops>,
    /// Reported with the last piece.
    drops_beyond: u64,
}

impl Core {
    /// Administration asks whether the lane goes on and, perhaps, how the outboxes stand, and what was dropped by event type.
    pub(crate) fn begin_survey(&mut self, asked: Asked) {
        let (drops, drops_beyond) = match asked {
            Asked::Drops => (self.lane.type_drops().collect(), self.lane.type_drops_beyond()),
            Asked::Progress | Asked::Outboxes | Asked::Channels => (Vec::new(), 0),
        };
        let next = (asked > Asked::Progress).then_some(0);
        let next_channel = (asked > Asked::Outboxes).then_some(0);
        self.office.surveying = Some(Surveying { next, next_channel, drops, drops_beyond });
    }

    /// Whether there is something to tell, and room for it.
    pub(crate) fn has_to_survey(&self) -> bool {
        self.office.surveying.is_some() && !self.office.reports.has_backlog()
    }

    /// Reports a piece, unless earlier reports still wait for room.
    pub(crate) fn go_on_surveying(&mut self) {
        if !self.has_to_survey() {
            return;
        }
        let Some(surveying) = &mut self.office.surveying else { return };
        let (piece, is_last) = surveying.piece(&self.lane);
        if is_last {
            self.office.surveying = None;
        }
        self.office.reports.post(ToAdministration::Survey { piece, is_last });
    }
}

impl Surveying {
    /// The next piece, and whether it is the last.
    #[cold]
    fn piece(&mut self, lane: &Lane) -> (Survey, bool) {
        let mut piece = Survey::default();
        if let Some(next) = self.next
            && let Some(outboxes) = lane.outboxes_at(next, PLACES_PER_ROUND)
        {
            // In one piece: scraping asks this of lanes each second.
            piece.outboxes.reserve_exact(PLACES_PER_ROUND as usize);
            piece.outboxes.extend(outboxes);
            self.next = Some(next + PLACES_PER_ROUND);
            return (piece, false);
        }
        if let Some(next) = self.next_channel
            && let Some(channels) = lane.channels_at(next, PLACES_PER_ROUND)
        {
            piece.channels.reserve_exact(PLACES_PER_ROUND as usize);
            piece.channels.extend(channels);
            self.next_channel = Some(next + PLACES_PER_ROUND);
            return (piece, false);
        }
        let rest = self.drops.len().saturating_sub(DROPS_PER_ROUND);
        piece.drops = self.drops.drain(rest..).map(|drops| named(drops, lane)).collect();
        if rest == 0 {
            piece.drops_beyond = self.drops_beyond;
        }
        (piece, rest == 0)
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
        AdminId, ChannelLimits, Form, Hierarchy, NoFields, Peer, ProxyKey, ProxyKind, SettingsPatch, Side, Time, Want,
    };

    #[test]
    fn each_consumer_is_told_of_once_a_few_at_a_time_and_what_was_dropped_after_them() {
        let mut hierarchy = Hierarchy::default();
        let channel = hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap();
        let connect = |hierarchy: &mut Hierarchy, side| {
            let proxy = hierarchy.create_proxy(channel, side, AdminId::DEFAULT, Form(1), ProxyKind::default()).unwrap();
            let key = ProxyKey { channel, proxy };
            hierarchy.connect(key, Some(Peer(1)), Want(0)).unwrap();
            key
        };
        let source = connect(&mut hierarchy, Side::Suppliers);
        let consumers: Vec<ProxyKey> = (0..100).map(|_| connect(&mut hierarchy, Side::Consumers)).collect();
        let mut lane = Lane::new(Time(0));
        lane.handle_snapshot(hierarchy.snapshot(), Time(0));
        let mut draft = lane.begin_event();
        lane.classify(&mut draft, b"domain", b"name");
        lane.handle_event(source, draft, &NoFields, Time(0));
        // What waited for those that are connected is dropped as they go, so that there is something to tell.
        for gone in &consumers[..40] {
            hierarchy.destroy_proxy(*gone).unwrap();
        }
        lane.handle_snapshot(hierarchy.snapshot(), Time(0));
        while lane.next_timeout() == Some(Time(0)) {
            lane.handle_timeout(Time(0));
        }
        let drops: Vec<TypeDrops> = lane.type_drops().collect();
        assert_eq!(drops.len(), 40);
        let mut surveying = Surveying { next: Some(0), next_channel: Some(0), drops, drops_beyond: 7 };
        let mut told = Survey::default();
        let mut pieces = 0;
        loop {
            let (piece, is_last) = surveying.piece(&lane);
            pieces += 1;
            assert!(piece.outboxes.len() <= 32 && piece.drops.len() <= 32);
            told.outboxes.extend(piece.outboxes);
            told.channels.extend(piece.channels);
            told.drops.extend(piece.drops);
            told.drops_beyond += piece.drops_beyond;
            if is_last {
                break;
            }
        }
        let mut keys: Vec<ProxyKey> = told.outboxes.iter().map(|stats| stats.key).collect();
        keys.sort_unstable();
        assert_eq!(keys, consumers[40..]);
        assert_eq!((told.drops.len(), told.drops_beyond, pieces, told.channels.len()), (40, 7, 7, 1));
        assert!(told.drops.iter().all(|named| (named.domain.as_str(), named.name.as_str()) == ("domain", "name")));
    }
}

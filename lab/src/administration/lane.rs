//! What a change of the routing costs a lane with very many consumers, in this process and on this thread.

use std::sync::Arc;

use engine::{
    AdminId, Admission, ChannelId, ChannelLimits, EventType, FilterConstraint, FilterId, FilterRef, FilterTarget, Form,
    Hierarchy, Lane, NoFields, Operator, OutputForm, Peer, ProxyKey, ProxyKind, SettingsPatch, Side,
    SubscriptionTarget, Time,
};
use serde::Serialize;

use crate::campanile::setup;
use crate::{BenchError, Spread, clock};

/// What one kind of change costs.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LaneReport {
    pub(crate) change: &'static str,
    pub(crate) publish_us: Spread,
    pub(crate) lane_us: Spread,
    pub(crate) event_us: Spread,
    pub(crate) members_visited: u64,
}

/// A channel with one consumer that gets what is sent, and very many others.
struct Scene {
    hierarchy: Hierarchy,
    lane: Lane,
    channel: ChannelId,
    source: ProxyKey,
    filter: FilterId,
    turn: u64,
    /// An admin with many consumers, where there is one at present.
    crowd: Option<AdminId>,
}

const DOING: &str = "administering an engine";
const NOW: Time = Time(0);

/// Measures each kind of change so many times.
pub(super) fn measure(consumers: u32, times: u32) -> Result<Vec<LaneReport>, BenchError> {
    let mut scene = Scene::new(consumers)?;
    let mut guest = None;
    let nothing = scene.repeat("nothing", times, |_| Ok(()))?;
    let comes_and_goes = scene.repeat("a consumer connects or goes", times, |scene| {
        if let Some(guest) = guest.take() {
            scene.hierarchy.destroy_proxy(guest).map_err(setup(DOING))?;
        } else {
            guest = Some(scene.connect(Side::Consumers, "other")?);
        }
        Ok(())
    })?;
    let constraint = scene.repeat("a constraint is replaced", times, Scene::replace_constraint)?;
    let suppliers =
        scene.repeat("a supplier connects", times, |scene| scene.connect(Side::Suppliers, "other").map(drop))?;
    let settings = scene.repeat("the channel's settings change", times, Scene::change_settings)?;
    let all =
        scene.repeat("an admin with all those consumers comes or goes", times, |scene| scene.come_or_go(consumers))?;
    Ok(vec![nothing, comes_and_goes, constraint, suppliers, settings, all])
}

impl Scene {
    fn new(consumers: u32) -> Result<Self, BenchError> {
        let mut hierarchy = Hierarchy::default();
        let channel =
            hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).map_err(setup(DOING))?;
        let filter = hierarchy.create_filter(channel).map_err(setup(DOING))?;
        let (lane, source) = (Lane::new(NOW), ProxyKey::default());
        let mut scene = Self { hierarchy, lane, channel, source, filter, turn: 0, crowd: None };
        scene.source = scene.connect(Side::Suppliers, "event")?;
        scene.connect(Side::Consumers, "event")?;
        let mut last = scene.source;
        for _ in 0..consumers {
            last = scene.connect(Side::Consumers, "other")?;
        }
        scene.hierarchy.add_filter(FilterTarget::Proxy(last), FilterRef::Local(filter)).map_err(setup(DOING))?;
        scene.replace_constraint()?;
        scene.lane.handle_snapshot(scene.hierarchy.snapshot(), NOW);
        Ok(scene)
    }

    fn connect(&mut self, side: Side, name: &str) -> Result<ProxyKey, BenchError> {
        self.connect_to(side, AdminId::DEFAULT, name)
    }

    fn connect_to(&mut self, side: Side, admin: AdminId, name: &str) -> Result<ProxyKey, BenchError> {
        let (channel, kind) = (self.channel, ProxyKind::default());
        let proxy = self.hierarchy.create_proxy(channel, side, admin, Form(1), kind).map_err(setup(DOING))?;
        let key = ProxyKey { channel, proxy };
        self.hierarchy.connect(key, Some(Peer(1)), OutputForm(0)).map_err(setup(DOING))?;
        let (wanted, all) = ([EventType::new("bench", name)], [EventType::everything()]);
        self.hierarchy.subscribe(SubscriptionTarget::Proxy(key), &wanted, &all).map_err(setup(DOING))?;
        Ok(key)
    }

    fn replace_constraint(&mut self) -> Result<(), BenchError> {
        self.turn += 1;
        let text = format!("$n == {}", self.turn);
        let program = filter::Constraint::parse(&text, &filter::Limits::default());
        let program = Arc::new(program.map_err(|_| "its own constraint is none").map_err(setup(DOING))?);
        let constraint = FilterConstraint { types: Arc::new([]), program, value: 0 };
        self.hierarchy.set_constraints(self.filter, vec![constraint], None).map_err(setup(DOING))
    }

    /// Changes what each consumer of the channel has from it.
    fn change_settings(&mut self) -> Result<(), BenchError> {
        self.turn += 1;
        let push_window = Some(if self.turn.is_multiple_of(2) { 2 } else { 3 });
        let patch = SettingsPatch { push_window, ..SettingsPatch::default() };
        self.hierarchy.set_channel_settings(self.channel, patch).map_err(setup(DOING))
    }

    /// Makes an admin with so many consumers, or destroys it.
    fn come_or_go(&mut self, consumers: u32) -> Result<(), BenchError> {
        if let Some(admin) = self.crowd.take() {
            self.hierarchy.destroy_admin(self.channel, Side::Consumers, admin).map_err(setup(DOING))?;
            // Administration does it in pieces; here, what all of it costs a lane is measured.
            while self.hierarchy.poll_removed().is_some() {}
            return Ok(());
        }
        let admin = self.hierarchy.create_admin(self.channel, Side::Consumers, Operator::And).map_err(setup(DOING))?;
        for _ in 0..consumers {
            self.connect_to(Side::Consumers, admin, "other")?;
        }
        self.crowd = Some(admin);
        Ok(())
    }

    fn repeat(
        &mut self,
        change: &'static str,
        times: u32,
        mut work: impl FnMut(&mut Self) -> Result<(), BenchError>,
    ) -> Result<LaneReport, BenchError> {
        self.send()?;
        let visited = self.lane.counters().routing.members_visited;
        let [mut publish, mut lane, mut event] = [(); 3].map(|()| Vec::new());
        for _ in 0..times {
            work(self)?;
            let began = clock::now();
            let snapshot = self.hierarchy.snapshot();
            let published = clock::now();
            // As administration does: the lane is not the last to let go of it.
            let last = Arc::clone(self.lane.snapshot());
            self.lane.handle_snapshot(snapshot, NOW);
            let placed = clock::now();
            self.send()?;
            let sent = clock::now();
            drop(last);
            for (figures, from, to) in
                [(&mut publish, began, published), (&mut lane, published, placed), (&mut event, placed, sent)]
            {
                figures.push(crate::latency::ratio(to - from, 1_000));
            }
        }
        let spread = |figures: Vec<f64>| Spread::of(figures).ok_or("nothing was measured").map_err(setup(DOING));
        Ok(LaneReport {
            change,
            publish_us: spread(publish)?,
            lane_us: spread(lane)?,
            event_us: spread(event)?,
            members_visited: self.lane.counters().routing.members_visited - visited,
        })
    }

    /// Sends an event to the one consumer that wants it, and has it delivered.
    fn send(&mut self) -> Result<(), BenchError> {
        let mut pending_event = self.lane.begin_event();
        self.lane.classify(&mut pending_event, b"bench", b"event");
        let admission = self.lane.handle_event(self.source, pending_event, &NoFields, NOW);
        if admission != (Admission::Accepted { destinations: 1 }) {
            return Err(setup(DOING)(format!("an event came to nothing: {admission:?}")));
        }
        let mut events = Vec::with_capacity(1);
        while let Some(delivery) = self.lane.poll_delivery(NOW, &mut events) {
            self.lane.handle_outcome(delivery.outbox, delivery.serial, engine::Outcome::Delivered, NOW);
            events.drain(..).for_each(|event| self.lane.release(event));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_looks_at_changed_consumers_only() {
        let reports = measure(300, 4).unwrap();
        let visited: Vec<(&str, u64)> = reports.iter().map(|report| (report.change, report.members_visited)).collect();
        let expected = [
            ("nothing", 0),
            ("a consumer connects or goes", 4),
            ("a constraint is replaced", 0),
            ("a supplier connects", 0),
            ("the channel's settings change", 4 * 301),
            ("an admin with all those consumers comes or goes", 4 * 300),
        ];
        assert_eq!(visited, expected);
    }
}

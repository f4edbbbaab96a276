//! The lane's behaviour, one sentence a test. (Every combination of settings under random operations is compared with a
//! naive model in the crate `sim`.)

use super::*;
use crate::*;
use alloc::format;
use alloc::vec;
use core::num::NonZeroU32;
use core::time::Duration;

mod answers;
mod bounds;
mod changes;
mod channel_timers;
mod completion;
mod correlation;
mod dead_letters;
mod drops;
mod durable;
mod filters;
mod handover;
mod history;
mod hold_budget;
mod holding;
mod overflow;
mod pacing;
mod routing;
mod topic_scheduler;
mod waiting;

/// What an event of `bytes` bytes to one consumer is charged.
fn charge(bytes: u64) -> u64 {
    bytes + EVENT_OVERHEAD_BYTES + HOLDER_OVERHEAD_BYTES
}

fn max_events(events: u32) -> SettingsPatch {
    SettingsPatch { max_events_per_consumer: Some(NonZeroU32::new(events)), ..SettingsPatch::default() }
}

fn full(policy: FullOutbox) -> SettingsPatch {
    SettingsPatch { full_outbox: Some(policy), ..SettingsPatch::default() }
}

/// Settings of a channel that grants its consumers to have suppliers wait for as long as they like.
fn granted() -> SettingsPatch {
    SettingsPatch { hold_granted: Some(true), ..SettingsPatch::default() }
}

fn budget(bytes: u64) -> ChannelLimits {
    ChannelLimits { memory_budget_bytes: bytes, ..ChannelLimits::default() }
}

/// One channel with one supplier, and a clock.
struct Rig {
    hierarchy: Hierarchy,
    lane: Lane,
    channel: ChannelId,
    source: ProxyKey,
    now: Time,
}

impl Rig {
    /// Types of which the lane tells how many events were dropped.
    const DROPS: usize = 1_024;

    fn new(patch: SettingsPatch, limits: ChannelLimits) -> Self {
        Self::under(HierarchyLimits::default(), patch, limits)
    }

    fn under(of_all: HierarchyLimits, patch: SettingsPatch, limits: ChannelLimits) -> Self {
        let mut hierarchy = Hierarchy::new(of_all);
        let channel = hierarchy.create_channel(patch, limits).unwrap();
        let proxy =
            hierarchy.create_proxy(channel, Side::Suppliers, AdminId::DEFAULT, Form(1), ProxyKind::default()).unwrap();
        let source = ProxyKey { channel, proxy };
        hierarchy.connect(source, None, OutputForm(0)).unwrap();
        let now = Time(1_000_000_000);
        let mut rig = Self { hierarchy, lane: Lane::new(now), channel, source, now };
        rig.route();
        rig
    }

    fn plain() -> Self {
        Self::new(SettingsPatch::default(), ChannelLimits::default())
    }

    fn consumer(&mut self, patch: SettingsPatch) -> ProxyKey {
        let proxy = self
            .hierarchy
            .create_proxy(self.channel, Side::Consumers, AdminId::DEFAULT, Form(1), ProxyKind::default())
            .unwrap();
        let key = ProxyKey { channel: self.channel, proxy };
        self.hierarchy.connect(key, Some(Peer(u64::from(proxy.0))), OutputForm(0)).unwrap();
        self.hierarchy.set_proxy_settings(key, patch).unwrap();
        self.route();
        key
    }

    /// A consumer whose connection is suspended.
    fn sleeper(&mut self, patch: SettingsPatch) -> ProxyKey {
        let key = self.consumer(patch);
        self.suspend(key);
        key
    }

    fn suspend(&mut self, key: ProxyKey) {
        self.hierarchy.suspend(key).unwrap();
        self.route();
    }

    fn resume(&mut self, key: ProxyKey) {
        self.hierarchy.resume(key).unwrap();
        self.route();
    }

    fn route(&mut self) {
        let snapshot = self.hierarchy.snapshot();
        self.lane.handle_snapshot(snapshot, self.now);
    }

    fn publish_bytes(&mut self, bytes: &[u8]) -> Admission {
        let mut pending_event = self.lane.begin_event();
        pending_event.bytes.extend_from_slice(bytes);
        self.lane.classify(&mut pending_event, b"domain", b"name");
        self.lane.handle_event(self.source, pending_event, &NoFields, self.now)
    }

    fn publish(&mut self, number: u8) -> Admission {
        self.publish_bytes(&[number])
    }

    fn publish_all(&mut self, numbers: impl IntoIterator<Item = u8>) {
        for number in numbers {
            self.publish(number);
        }
    }

    /// The next delivery's consumer and first byte; the delivery stays unanswered.
    fn poll(&mut self) -> Option<(ProxyKey, u8, OutboxId, u32)> {
        let mut events = Vec::new();
        let delivery = self.lane.poll_delivery(self.now, &mut events)?;
        let got = (delivery.key, events[0].bytes[0], delivery.outbox, delivery.serial);
        events.into_iter().for_each(|event| self.lane.release(event));
        Some(got)
    }

    /// Answers the next delivery; says its first byte.
    fn answer(&mut self, outcome: Outcome) -> Option<u8> {
        let (_, number, outbox, serial) = self.poll()?;
        self.lane.handle_outcome(outbox, serial, outcome, self.now);
        Some(number)
    }

    /// Delivers all there is; says the first bytes.
    fn drain(&mut self) -> Vec<u8> {
        core::iter::from_fn(|| self.answer(Outcome::Delivered)).collect()
    }

    fn advance(&mut self, time: Duration) {
        self.now = self.now + time;
        self.lane.handle_timeout(self.now);
    }

    fn notices(&mut self) -> Vec<Notice> {
        core::iter::from_fn(|| self.lane.poll_notice()).collect()
    }

    fn memory(&self) -> u64 {
        self.lane.channels().next().unwrap().memory_bytes
    }

    fn stats(&self, key: ProxyKey) -> OutboxStats {
        self.lane.outboxes().find(|stats| stats.key == key).unwrap()
    }
}

#[test]
fn a_lane_can_move_to_its_thread_and_a_snapshot_be_shared_between_threads() {
    fn moves<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    moves::<Lane>();
    moves::<Hierarchy>();
    is_shared::<Snapshot>();
    is_shared::<Event>();
}

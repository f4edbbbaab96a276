//! Random choices: mostly existing objects, and settings tight enough to matter.

use std::num::NonZeroU32;
use std::time::Duration;

use engine::{
    AdminId, ChannelId, ChannelLimits, DiscardPolicy, FullOutbox, OrderPolicy, ProxyId, ProxyKey, ProxyKind,
    ProxyState, Reliability, SettingsPatch, Side, Time,
};

use super::Run;
use crate::model::Header;

pub(crate) const ORDER_POLICIES: [OrderPolicy; 4] =
    [OrderPolicy::Any, OrderPolicy::Fifo, OrderPolicy::Priority, OrderPolicy::Deadline];
pub(crate) const DISCARD_POLICIES: [DiscardPolicy; 5] =
    [DiscardPolicy::Any, DiscardPolicy::Fifo, DiscardPolicy::Lifo, DiscardPolicy::Priority, DiscardPolicy::Deadline];
const FULL_OUTBOX: [FullOutbox; 4] =
    [FullOutbox::Hold, FullOutbox::Discard, FullOutbox::Reject, FullOutbox::Disconnect];
const RELIABILITIES: [Reliability; 2] = [Reliability::BestEffort, Reliability::Persistent];

const fn millis(time: u64) -> Duration {
    Duration::from_millis(time)
}

const fn count(number: u32) -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(number - 1)
}

macro_rules! draw {
    ($({
        $(#[$doc:meta])* $side:ident $field:ident: $type:tt stored $stored:tt property $property:tt
        $(drawn $number:literal $(by [$draw:expr])? $(among $values:expr)?)?
    })*) => {
        impl Run {
            /// A patch that sets little but the bounds of outboxes.
            fn drawn(&mut self) -> SettingsPatch {
                let mut patch = SettingsPatch::default();
                for setting in 0..[$($($number,)?)*].len() {
                    if self.random.u32(..4) > if setting < 2 { 1 } else { 0 } {
                        continue;
                    }
                    match setting {
                        $($($number => patch.$field = Some($(self.pick(&$values))? $(drawn_by(&mut self.random, $draw))?),)?)*
                        _ => {}
                    }
                }
                patch
            }
        }
    };
}

fn drawn_by<T>(random: &mut fastrand::Rng, draw: impl Fn(&mut fastrand::Rng) -> T) -> T {
    draw(random)
}

engine::properties!(draw);

impl Run {
    #[expect(clippy::indexing_slicing, reason = "the index is drawn below the length; nothing is drawn from nothing")]
    pub(super) fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.random.usize(..among.len())]
    }

    /// A channel; now and then one that does not exist.
    pub(super) fn channel(&mut self) -> ChannelId {
        let known: Vec<ChannelId> = self.model.world.channels.iter().map(|channel| channel.id).collect();
        if known.is_empty() || self.random.u32(..40) == 0 { ChannelId(1_000) } else { self.pick(&known) }
    }

    pub(super) fn admin(&mut self, channel: ChannelId, side: Side) -> AdminId {
        let Ok(channel) = self.model.world.channel(channel) else { return AdminId::DEFAULT };
        let known: Vec<AdminId> =
            channel.admins.iter().filter(|admin| admin.side == side).map(|admin| admin.id).collect();
        if known.is_empty() || self.random.u32(..40) == 0 { AdminId(1_000) } else { self.pick(&known) }
    }

    /// A proxy of that side; now and then one of the other, or one that does not exist.
    pub(super) fn key(&mut self, side: Side) -> ProxyKey {
        let channel = self.channel();
        let any_side = self.random.u32(..40) == 0;
        let proxies = self.model.world.channel(channel).map(|channel| channel.proxies.as_slice()).unwrap_or_default();
        let known = proxies.iter().filter(|proxy| proxy.side == side || any_side).map(|proxy| proxy.id);
        let known: Vec<ProxyId> = known.collect();
        let proxy = if known.is_empty() || self.random.u32(..60) == 0 { ProxyId(1_000) } else { self.pick(&known) };
        ProxyKey { channel, proxy }
    }

    /// Mostly a connected pull consumer.
    pub(super) fn puller(&mut self) -> ProxyKey {
        let mut connected = vec![];
        for channel in &self.model.world.channels {
            let proxies = channel.proxies.iter().filter(|proxy| proxy.side == Side::Consumers && proxy.kind.pull);
            let proxies = proxies.filter(|proxy| proxy.state != ProxyState::Unconnected);
            connected.extend(proxies.map(|proxy| ProxyKey { channel: channel.id, proxy: proxy.id }));
        }
        if connected.is_empty() || self.random.u32(..20) == 0 {
            self.key(Side::Consumers)
        } else {
            self.pick(&connected)
        }
    }

    /// Mostly a connected supplier.
    pub(super) fn source(&mut self) -> ProxyKey {
        let mut connected = vec![];
        for channel in &self.model.world.channels {
            let proxies = channel.proxies.iter().filter(|proxy| proxy.side == Side::Suppliers);
            let proxies = proxies.filter(|proxy| proxy.state != ProxyState::Unconnected);
            connected.extend(proxies.map(|proxy| ProxyKey { channel: channel.id, proxy: proxy.id }));
        }
        if connected.is_empty() || self.random.u32(..20) == 0 {
            self.key(Side::Suppliers)
        } else {
            self.pick(&connected)
        }
    }

    /// Kind of a new proxy.
    pub(super) fn kind(&mut self, side: Side) -> ProxyKind {
        let is_consumer = side == Side::Consumers;
        ProxyKind {
            pull: is_consumer && self.random.u32(..4) == 0,
            batches: self.random.u32(..3) == 0,
            ..ProxyKind::default()
        }
    }

    /// An event's header.
    pub(super) fn header(&mut self) -> Header {
        let mut moments: Vec<Option<Time>> = vec![None; 12];
        moments.extend([0, 10, 10, 50, 400].map(|wait| Some(self.now + millis(wait))));
        moments.push(Some(Time(self.now.0.saturating_sub(1))));
        let timeouts = [None, None, None, None, None, Some(0), Some(1), Some(20), Some(20), Some(300), Some(3_000)];
        Header {
            priority: if self.random.bool() { Some(self.random.i16(-2..3)) } else { None },
            timeout: self.pick(&timeouts).map(millis),
            start: self.pick(&moments),
            stop: self.pick(&moments),
        }
    }

    pub(super) fn limits(&mut self) -> ChannelLimits {
        let few = [None, None, None, None, NonZeroU32::new(2), NonZeroU32::new(4)];
        let queue = [None, None, None, None, None, None, NonZeroU32::new(1), NonZeroU32::new(4), NonZeroU32::new(16)];
        ChannelLimits {
            memory_budget_bytes: self.pick(&[800, 1_500, 3_000, 5_000, 10_000, 1 << 20, 1 << 20, 1 << 20]),
            max_consumers: self.pick(&few),
            max_suppliers: self.pick(&few),
            max_queue_length: self.pick(&queue),
            reject_new_events: self.random.u32(..4) == 0,
            filter_steps_max: if self.random.u32(..10) == 0 { 1 } else { 250_000 },
            ..ChannelLimits::default()
        }
    }

    pub(super) fn patch(&mut self) -> SettingsPatch {
        let mut patch = self.drawn();
        // One seed of four has consumers that block suppliers, and stay connected when that time is over.
        if matches!(self.seed / 20 % 8, 3 | 5) {
            patch.connection_reliability = Some(Reliability::Persistent);
            patch.full_outbox.get_or_insert(FullOutbox::Hold);
            patch.hold_timeout.get_or_insert(millis(50));
        }
        // Another quarter distinguishes events that a consumer never takes from a consumer that takes none, before that is disconnected.
        if matches!(self.seed / 20 % 8, 1 | 6) {
            patch.delivery_attempts = Some(1);
            patch.give_up_after = Some(millis(60));
            patch.connection_reliability = Some(Reliability::BestEffort);
        }
        // Of three seeds one has nothing granted. The engine's own tests cover how long a consumer may hold others: here that is either
        // granted, or without end.
        let granted = !self.seed.is_multiple_of(3);
        patch.hold_granted = Some(granted);
        if !granted {
            patch.hold_timeout = Some(Duration::ZERO);
        }
        patch
    }
}

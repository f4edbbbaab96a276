//! The real-time subset: the features that a channel with the `Profile` `RealTime` excludes, each with the reason.
//!
//! `docs/real-time.md` says the same for people. Rules about settings are here; those about objects (pull proxies, foreign filters, pools
//! of single proxies) are with the protocol, which knows the objects.

use super::property::PropertyValue;
use engine::{ChannelLimits, FullOutbox, OutboxSettings};
use std::time::Duration;

/// A channel's profile: the value of its property `Profile`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Profile {
    /// All features.
    #[default]
    Standard,
    /// Predictable features only; others are refused.
    RealTime,
}

impl Profile {
    /// The names, in the order of the values.
    pub(crate) const NAMES: &'static [&'static str] = &["Standard", "RealTime"];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Standard => "Standard",
            Self::RealTime => "RealTime",
        }
    }
}

/// The most steps that filtering one event may take: `FilterSteps`.
pub(crate) const FILTER_STEPS_MAX: u32 = 250_000;
/// The most events in one push: `MaximumBatchSize`.
pub(crate) const BATCH_SIZE_MAX: u32 = 64;

/// A setting outside the subset.
pub(crate) struct Outside {
    /// The property.
    pub(crate) property: &'static str,
    /// The range of its values within the subset.
    pub(crate) range: (PropertyValue, PropertyValue),
    /// The reason for the range.
    pub(crate) why: &'static str,
}

/// A consumer's settings outside the subset.
pub(crate) fn outside(settings: &OutboxSettings) -> Vec<Outside> {
    let mut outside = Vec::new();
    let mut note = |property, range, why| outside.push(Outside { property, range, why });
    if settings.max_events_per_consumer.is_none() {
        let range = (PropertyValue::Long(1), PropertyValue::Long(i32::MAX));
        note("MaxEventsPerConsumer", range, "an outbox without a bound grows until the memory budget stops others");
    }
    if settings.full_outbox == Some(FullOutbox::Hold) {
        let others = || PropertyValue::Text("Discard|Reject|Disconnect".to_owned());
        note("FullOutbox", (others(), others()), "with Hold one slow consumer stops every supplier");
    }
    if !settings.blocking.is_zero() {
        let range = (PropertyValue::ULongLong(0), PropertyValue::ULongLong(0));
        note("BlockingPolicy", range, "with it one slow consumer stops every supplier for a time");
    }
    if settings.batch_size_max.get() > BATCH_SIZE_MAX {
        let range = (PropertyValue::Long(1), PropertyValue::Long(BATCH_SIZE_MAX.cast_signed()));
        note("MaximumBatchSize", range, "while a long batch is written nothing else is");
    }
    if settings.pacing_interval > Duration::ZERO {
        let range = (PropertyValue::ULongLong(0), PropertyValue::ULongLong(0));
        note("PacingInterval", range, "an event waits for others, however urgent it is");
    }
    outside
}

/// A channel's limits outside the subset.
pub(crate) fn outside_limits(limits: &ChannelLimits) -> Option<Outside> {
    (limits.filter_steps_max > FILTER_STEPS_MAX).then(|| Outside {
        property: "FilterSteps",
        range: (PropertyValue::Long(1), PropertyValue::Long(FILTER_STEPS_MAX.cast_signed())),
        why: "the filters of one event would keep a lane busy for too long",
    })
}

//! Topics, which take turns inside a lane. A topic is a channel, or event types of a channel that have a share of their own.

use alloc::vec::Vec;
use core::time::Duration;

use crate::{EventType, Refusal};

/// A topic's claim on the lane that carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TopicSettings {
    /// Share: a rate, in messages a second, that is relative to the shares of the lane's other topics. A topic with
    /// twice the share gets twice the messages through where both have some waiting; an unused share goes to the
    /// others. 1..=1,000,000. Default 1,000.
    pub share: u32,
    /// Time within which each message ought to be served, more than 0 and at most 1/`share`. `None`, the default:
    /// 1/`share`. A shorter one has the topic's messages served earlier without giving it a larger share (Tempo, §IV.B).
    pub deadline: Option<Duration>,
    /// Worst-case time to serve one of the topic's messages, up to 1 s. Default 0. For
    /// [`Discipline::LeastLaxity`](crate::Discipline::LeastLaxity) and
    /// [`Discipline::MaximumUrgency`](crate::Discipline::MaximumUrgency).
    pub execution_time: Duration,
    /// Importance of keeping the topic's deadlines; a higher value is more critical. Default 0. For
    /// [`Discipline::MaximumUrgency`](crate::Discipline::MaximumUrgency).
    pub criticality: i16,
}

impl TopicSettings {
    /// The largest `share`.
    pub const SHARE_MAX: u32 = 1_000_000;
    /// The longest `execution_time`.
    pub const EXECUTION_TIME_MAX: Duration = Duration::from_secs(1);

    /// Checks every range stated on the fields.
    ///
    /// # Errors
    ///
    /// [`Refusal::BadSetting`].
    pub fn check(&self) -> Result<(), Refusal> {
        if !(1..=Self::SHARE_MAX).contains(&self.share) {
            return Err(Refusal::BadSetting { setting: "share", range: "1 to 1,000,000 messages a second" });
        }
        // The deadline times the share is at most a second, which is exact where 1/share is not.
        let is_in_range = |deadline: Duration| {
            !deadline.is_zero() && deadline.as_nanos().saturating_mul(u128::from(self.share)) <= 1_000_000_000
        };
        if self.deadline.is_some_and(|deadline| !is_in_range(deadline)) {
            return Err(Refusal::BadSetting { setting: "deadline", range: "more than 0 and at most 1/share" });
        }
        if self.execution_time > Self::EXECUTION_TIME_MAX {
            return Err(Refusal::BadSetting { setting: "execution_time", range: "0 to 1 s" });
        }
        Ok(())
    }
}

impl Default for TopicSettings {
    fn default() -> Self {
        Self { share: 1_000, deadline: None, execution_time: Duration::ZERO, criticality: 0 }
    }
}

/// The topics of one channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topics {
    /// Settings of the topic of all event types that are not listed. They are one topic, so that by default order
    /// within a channel is kept.
    pub rest: TopicSettings,
    /// Event types that are topics of their own; at most 256. An event belongs to the first that matches it. No order
    /// is kept between events of different topics of a channel. Default none.
    pub by_type: Vec<(EventType, TopicSettings)>,
}

impl Topics {
    /// The most entries in `by_type`.
    pub const TYPES_MAX: usize = 256;

    /// Checks every range stated on the fields and on [`TopicSettings`], and that no type is listed twice.
    ///
    /// # Errors
    ///
    /// [`Refusal::BadSetting`].
    pub fn check(&self) -> Result<(), Refusal> {
        if self.by_type.len() > Self::TYPES_MAX {
            return Err(Refusal::BadSetting { setting: "topics", range: "at most 256 event types" });
        }
        self.rest.check()?;
        for (at, (listed, settings)) in self.by_type.iter().enumerate() {
            settings.check()?;
            if self.by_type.iter().take(at).any(|(before, _)| before.same_as(listed)) {
                return Err(Refusal::BadSetting { setting: "topics", range: "each event type once" });
            }
        }
        Ok(())
    }

    /// Index in `by_type` of the first entry that matches this type; `None` if it is among the rest.
    #[must_use]
    pub fn find(&self, domain: &[u8], name: &[u8]) -> Option<usize> {
        self.by_type.iter().position(|(listed, _)| listed.matches(domain, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::vec;

    fn refused(settings: TopicSettings) -> &'static str {
        match settings.check() {
            Err(Refusal::BadSetting { setting, .. }) => setting,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn refuses_a_share_of_zero_and_one_beyond_the_largest() {
        for share in [0, 1_000_001] {
            assert_eq!(refused(TopicSettings { share, ..TopicSettings::default() }), "share");
        }
        assert_eq!(TopicSettings { share: 1_000_000, ..TopicSettings::default() }.check(), Ok(()));
    }

    #[test]
    fn refuses_a_deadline_of_nothing_or_beyond_the_reciprocal_of_the_share() {
        let with = |share, nanos| TopicSettings {
            share,
            deadline: Some(Duration::from_nanos(nanos)),
            ..TopicSettings::default()
        };
        for (share, nanos) in [(2, 0), (2, 500_000_001), (3, 333_333_334), (1_000_000, 1_001)] {
            assert_eq!(refused(with(share, nanos)), "deadline");
        }
        for (share, nanos) in [(2, 1), (2, 500_000_000), (3, 333_333_333), (1_000_000, 1_000)] {
            assert_eq!(with(share, nanos).check(), Ok(()));
        }
    }

    #[test]
    fn refuses_an_execution_time_beyond_a_second() {
        let execution_time = Duration::from_nanos(1_000_000_001);
        assert_eq!(refused(TopicSettings { execution_time, ..TopicSettings::default() }), "execution_time");
    }

    #[test]
    fn refuses_more_than_256_types_and_one_type_twice() {
        let types = |count: usize| Topics {
            by_type: (0..count).map(|at| (EventType::new("d", format!("{at}")), TopicSettings::default())).collect(),
            ..Topics::default()
        };
        assert_eq!(types(256).check(), Ok(()));
        assert!(matches!(types(257).check(), Err(Refusal::BadSetting { setting: "topics", .. })));
        let same = [EventType::new("*", "%ALL"), EventType::new("", "*")];
        let twice =
            Topics { by_type: same.map(|listed| (listed, TopicSettings::default())).to_vec(), ..Topics::default() };
        assert!(matches!(twice.check(), Err(Refusal::BadSetting { setting: "topics", .. })));
    }

    #[test]
    fn an_event_belongs_to_the_first_entry_that_matches_it() {
        let entry = |domain: &str, name: &str| (EventType::new(domain, name), TopicSettings::default());
        let topics = Topics { by_type: vec![entry("Plant", "Alarm"), entry("Plant", "*")], ..Topics::default() };
        assert_eq!(topics.find(b"Plant", b"Alarm"), Some(0));
        assert_eq!(topics.find(b"Plant", b"Reading"), Some(1));
        assert_eq!(topics.find(b"Office", b"Alarm"), None);
    }
}

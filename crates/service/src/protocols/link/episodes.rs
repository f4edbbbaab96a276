//! What is logged of a link that is connected and closed again and again for one reason: its first closing, and that it was connected.

use core::time::Duration;
use std::collections::BTreeMap;

use engine::Time;

use super::session::FarSide;

/// A connection that lasted for so long ends the episode, and so does a link that is not connected again for so long.
pub(super) const LASTED: Duration = Duration::from_secs(60);
/// Reasons of one link that are logged within [`LASTED`]: a far side may say another one each time.
const REASONS_MAX: u32 = 8;
/// Links of other services whose last closing is remembered. The oldest give way.
const REMEMBERED_MAX: usize = 1_024;

/// The last closing of a link.
#[derive(Debug, Default)]
pub(super) struct Episode {
    why: String,
    connected: Time,
    /// Since when it is closed, if it is.
    closed: Option<Time>,
    /// The last closing was not logged: it repeated the one before, or there were too many.
    is_repeat: bool,
    /// Reasons that were logged since then.
    reasons: (u32, Time),
}

impl Episode {
    /// Notes that the link is connected. Whether that is logged.
    pub(super) fn connected(&mut self, now: Time) -> bool {
        (self.connected, self.closed) = (now, None);
        !self.is_repeat
    }

    /// Notes that the link is closed. Whether that is logged.
    pub(super) fn closed(&mut self, why: &str, now: Time, lasted: Duration) -> bool {
        let is_same = self.closed.is_none() && self.why == why && now < self.connected + lasted;
        self.is_repeat = is_same || !self.takes_reason(now);
        self.closed = Some(now);
        why.clone_into(&mut self.why);
        !self.is_repeat
    }

    /// Whether another reason is logged.
    pub(super) fn takes_reason(&mut self, now: Time) -> bool {
        let (count, since) = self.reasons;
        let (count, since) = if since + LASTED <= now { (0, now) } else { (count, since) };
        self.reasons = (REASONS_MAX.min(count + 1), since);
        count < REASONS_MAX
    }

    /// Notes that another reason was logged since it was closed.
    pub(super) const fn end(&mut self) {
        self.is_repeat = false;
    }

    /// The reason of a closing that was not logged, if the link has not come back since.
    pub(super) fn overdue(&mut self, now: Time) -> Option<&str> {
        let is_overdue = self.is_repeat && self.closed.is_some_and(|at| at + LASTED <= now);
        self.is_repeat &= !is_overdue;
        is_overdue.then_some(&self.why)
    }
}

/// Those of links that other services make, by service and name.
#[derive(Debug, Default)]
pub(super) struct Episodes(BTreeMap<(u64, String), Episode>);

impl Episodes {
    pub(super) fn of(&mut self, far: &FarSide) -> &mut Episode {
        let key = (far.service, far.name.clone());
        if self.0.len() >= REMEMBERED_MAX && !self.0.contains_key(&key) {
            let oldest = self.0.iter().min_by_key(|(_, episode)| (episode.closed.is_none(), episode.connected));
            let oldest = oldest.map(|(key, _)| key.clone());
            oldest.map(|oldest| self.0.remove(&oldest));
        }
        self.0.entry(key).or_default()
    }

    /// Names of links, each with the reason of a closing that was not logged, that have not come back since.
    pub(super) fn overdue(&mut self, now: Time) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter_mut().filter_map(move |((_, name), episode)| Some((name.as_str(), episode.overdue(now)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Time {
        Time(seconds * 1_000_000_000)
    }

    #[test]
    fn a_far_side_that_has_another_reason_each_second_is_logged_eight_times_a_minute() {
        let mut episode = Episode::default();
        let logged = |episode: &mut Episode, seconds: core::ops::Range<u64>| {
            let is_logged = |second: &u64| {
                episode.connected(at(*second));
                episode.closed(&format!("reason {second}"), at(*second), LASTED)
            };
            seconds.filter(is_logged).collect::<Vec<_>>()
        };
        assert_eq!(logged(&mut episode, 100..160), (100..108).collect::<Vec<_>>());
        assert_eq!(logged(&mut episode, 160..200), (160..168).collect::<Vec<_>>());
        // What was not logged is, once the link stays away.
        assert_eq!(episode.overdue(at(259)), Some("reason 199"));
    }

    #[test]
    fn one_reason_is_logged_once_until_the_link_stays_or_another_comes() {
        let mut episode = Episode::default();
        assert!(episode.connected(at(0)) && episode.closed("mute", at(30), LASTED));
        assert!(episode.connected(at(31)), "that it is back is news");
        for second in (61..600).step_by(31) {
            assert!(!episode.closed("mute", at(second), LASTED) && !episode.connected(at(second + 1)));
        }
        assert!(episode.closed("cut", at(620), LASTED) && episode.connected(at(621)));
        assert!(episode.closed("cut", at(690), LASTED), "it had stayed");
    }

    #[test]
    fn a_link_that_does_not_come_back_is_logged_in_the_end() {
        let mut episode = Episode::default();
        for second in [0, 2, 4] {
            episode.connected(at(second));
            episode.closed("cut", at(second + 1), LASTED);
        }
        assert_eq!(episode.overdue(at(64)), None);
        assert_eq!(episode.overdue(at(65)), Some("cut"));
        assert_eq!(episode.overdue(at(66)), None);
        assert!(episode.connected(at(70)));
    }

    #[test]
    fn links_of_ever_other_names_have_the_oldest_forgotten() {
        let mut episodes = Episodes::default();
        let limits = links::Limits::default();
        for number in 0..2 * REMEMBERED_MAX as u64 {
            let far = FarSide { service: number, incarnation: 1, limits, has_store: false, name: String::new() };
            let episode = episodes.of(&far);
            episode.connected(at(number));
            episode.closed("", at(number), LASTED);
        }
        assert_eq!(episodes.0.len(), REMEMBERED_MAX);
        assert!(episodes.0.contains_key(&(2 * REMEMBERED_MAX as u64 - 1, String::new())));
    }
}

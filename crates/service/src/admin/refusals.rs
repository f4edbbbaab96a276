//! Episodes of refusals: one log line for each episode, instead of one for each request.

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::IpAddr;

use engine::Time;

use accounts::{Refused, Resource, SpentBy};

/// Time without a refusal of the same kind after which an episode is over.
const EPISODE_ENDS: Duration = Duration::from_secs(60);

/// Maximum episodes known at once. Beyond it all are forgotten, and logged again if they go on.
const EPISODES_MAX: usize = 256;

/// Current episodes, each with the time of its last refusal.
#[derive(Debug)]
pub(crate) struct Episodes<Of> {
    episodes: BTreeMap<Of, Time>,
}

impl<Of> Default for Episodes<Of> {
    fn default() -> Self {
        Self { episodes: BTreeMap::new() }
    }
}

/// Episodes in which an address was refused more of a resource.
pub(crate) type Refusals = Episodes<(Resource, SpentBy, IpAddr)>;

/// The episode of a refusal.
pub(crate) const fn of_refused(refused: &Refused) -> (Resource, SpentBy, IpAddr) {
    (refused.spent.resource, refused.spent.by, refused.ip)
}

impl<Of: Ord> Episodes<Of> {
    /// Notes a refusal. True if an episode begins with it.
    pub(crate) fn is_news(&mut self, of: Of, now: Time) -> bool {
        if self.episodes.len() >= EPISODES_MAX && !self.episodes.contains_key(&of) {
            self.episodes.clear();
        }
        let last = self.episodes.insert(of, now);
        last.is_none_or(|last| last + EPISODE_ENDS <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accounts::Spent;

    fn refused(last: u8, by: SpentBy) -> Refused {
        let spent = Spent { resource: Resource::RetainedBytes, by };
        Refused { spent, ip: IpAddr::from([192, 0, 2, last]), has: 30, used: 40, limit: 50 }
    }

    #[test]
    fn an_episode_is_reported_once_and_again_when_it_begins_anew() {
        let mut refusals = Refusals::default();
        let (one, other) = (refused(1, SpentBy::Client), refused(2, SpentBy::Client));
        let at = |seconds| Time(0) + Duration::from_secs(seconds);
        assert!(refusals.is_news(of_refused(&one), at(0)));
        assert!(!refusals.is_news(of_refused(&one), at(59)));
        assert!(refusals.is_news(of_refused(&other), at(59)));
        assert!(refusals.is_news(of_refused(&refused(1, SpentBy::All)), at(59)));
        assert!(!refusals.is_news(of_refused(&one), at(118)), "it went on all the time");
        assert!(refusals.is_news(of_refused(&one), at(178)));
    }

    #[test]
    fn what_is_remembered_of_episodes_is_bounded() {
        let mut refusals = Refusals::default();
        for last in 0..=255 {
            refusals.is_news(of_refused(&refused(last, SpentBy::Client)), Time(0));
            refusals.is_news(of_refused(&refused(last, SpentBy::All)), Time(0));
        }
        assert!(refusals.episodes.len() <= EPISODES_MAX);
    }

    #[test]
    fn a_line_says_which_client_has_how_much_of_what_and_what_to_do() {
        assert_eq!(
            refused(1, SpentBy::Client).to_string(),
            "refused 192.0.2.1 more retained octets: it has its quota, 30, and all clients together 40 of 50; end what is not \
             needed, or raise limits.memory_bytes or limits.client_share_percent"
        );
        assert_eq!(
            refused(1, SpentBy::All).to_string(),
            "refused 192.0.2.1 more retained octets: 40 of 50 are in use, 30 by this address; end what is not needed, or raise \
             limits.memory_bytes"
        );
    }
}

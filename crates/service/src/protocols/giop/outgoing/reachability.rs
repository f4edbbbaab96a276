//! Reachability of clients' addresses: which answered last and which failed, so that a reference with several is called at one that
//! answers.
//!
//! A lane stores this by host and port, for all references: a consumer, a pull supplier, a filter and a call of administration with the
//! same addresses share it.

use core::time::Duration;

use engine::Time;
use giop::ior::Ior;
use hashbrown::HashMap;

use crate::protocols::giop::routes::Target;

/// Time for which a failed address is tried after the others of its reference.
const FAILED_FOR: Duration = Duration::from_secs(60);
/// Maximum addresses stored. Beyond it all are forgotten, and each reference is tried in its own order again.
const ADDRESSES_MAX: usize = 4_096;

/// Result of the last attempt at an address.
#[derive(Debug, Clone, Copy)]
enum Outcome {
    Answered,
    Failed(Time),
}

/// Results by address.
#[derive(Debug, Default)]
pub(crate) struct Reachability {
    by_address: HashMap<(String, u16), Outcome>,
}

impl Reachability {
    /// Notes that an address answered.
    pub(crate) fn note_answered(&mut self, host: &str, port: u16) {
        self.note(host, port, Outcome::Answered);
    }

    /// Notes that an address could not be reached.
    pub(crate) fn note_failed(&mut self, host: &str, port: u16, now: Time) {
        self.note(host, port, Outcome::Failed(now));
    }

    fn note(&mut self, host: &str, port: u16, outcome: Outcome) {
        if self.by_address.len() >= ADDRESSES_MAX {
            self.by_address.clear();
        }
        self.by_address.insert((host.to_owned(), port), outcome);
    }

    /// Rank of an address in the order of attempts, least first: one that answered, then unknown ones, then failed ones from the longest
    /// ago.
    pub(crate) fn rank(&self, host: &str, port: u16, now: Time) -> (u8, Time) {
        match self.by_address.get(&(host.to_owned(), port)) {
            Some(Outcome::Answered) => (ANSWERED, Time(0)),
            Some(Outcome::Failed(at)) if now.since(*at) < FAILED_FOR => (FAILED, *at),
            Some(Outcome::Failed(_)) | None => (UNKNOWN, Time(0)),
        }
    }

    /// The address of a reference to try next, and the number of its addresses beyond the maximum, which are ignored.
    pub(crate) fn choose(&self, reference: &Ior, now: Time) -> Option<(Target, usize)> {
        let (all, left_out) = Target::all(reference);
        let target = all.into_iter().min_by_key(|target| self.rank(&target.host, target.port, now))?;
        Some((target, left_out))
    }

    /// Another address of a reference, if `target` has failed and the other has not failed since `since`, when the attempts began.
    pub(crate) fn other_than(&self, target: &Target, reference: &Ior, since: Time, now: Time) -> Option<Target> {
        let has_failed = |target: &Target| {
            let (rank, at) = self.rank(&target.host, target.port, now);
            rank == FAILED && at >= since
        };
        if target.alternatives < 2 || !has_failed(target) {
            return None;
        }
        self.choose(reference, now).map(|(other, _)| other).filter(|other| !has_failed(other))
    }
}

const ANSWERED: u8 = 0;
const UNKNOWN: u8 = 1;
const FAILED: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use giop::cdr::Version;
    use giop::codeset::CodeSetInfo;
    use giop::ior::{Component, IiopProfile, Profile};

    fn profile(version: Version, host: &str, alternates: &[&str]) -> Profile {
        let components = alternates.iter().map(|host| Component::alternate_address(host, 7)).collect();
        Profile::Iiop(IiopProfile { version, host: host.into(), port: 7, key: host.into(), components })
    }

    fn at(seconds: u64) -> Time {
        Time(0) + Duration::from_secs(seconds)
    }

    /// Of a reference with two profiles, alternate addresses or both, the first address alone was ever called.
    #[test]
    fn each_address_of_a_reference_is_tried_and_the_one_that_answered_is_remembered() {
        let first = profile(Version::V1_2, "a", &["b", "a"]);
        let reference = Ior { type_id: String::new(), profiles: vec![first, profile(Version::V1_2, "c", &[])] };
        let mut known = Reachability::default();
        let chosen = |known: &Reachability, now| known.choose(&reference, now).unwrap().0;
        let mut tried = Vec::new();
        for second in 1..=3 {
            let target = chosen(&known, at(second));
            known.note_failed(&target.host, target.port, at(second));
            // An alternate has its profile's key.
            tried.push((target.host.clone(), String::from_utf8(target.key.clone()).unwrap()));
            assert_eq!(known.other_than(&target, &reference, at(1), at(second)).is_some(), second < 3);
        }
        assert_eq!(tried, [("a", "a"), ("b", "a"), ("c", "c")].map(|(host, key)| (host.into(), key.into())));
        // All have failed: around again, the one that failed longest ago first.
        let first = chosen(&known, at(4));
        assert_eq!(first.host, "a");
        assert_eq!(known.other_than(&first, &reference, at(4), at(4)), None, "it was not tried yet");
        known.note_failed("a", 7, at(4));
        assert_eq!(known.other_than(&first, &reference, at(4), at(4)).unwrap().host, "b");
        known.note_answered("c", 7);
        assert_eq!(chosen(&known, at(5)).host, "c");
        // Failures are forgotten; what answered is still preferred.
        assert_eq!(chosen(&known, at(500)).host, "c");
        known.note_failed("c", 7, at(501));
        assert_eq!(chosen(&known, at(502)).host, "a", "in the reference's order");
    }

    #[test]
    fn a_profile_that_does_not_take_what_was_made_for_the_first_is_passed_over() {
        let mut utf8 = profile(Version::V1_2, "utf8", &[]);
        if let Profile::Iiop(profile) = &mut utf8 {
            let sets =
                CodeSetInfo { char_native: 0x0501_0001, char_conversions: Vec::new(), ..CodeSetInfo::campanile() };
            profile.components.push(sets.to_component());
        }
        let profiles = vec![
            profile(Version::V1_1, "a", &[]),
            profile(Version::V1_0, "old", &[]),
            profile(Version::V1_2, "b", &[]),
            utf8,
        ];
        let (all, left_out) = Target::all(&Ior { type_id: String::new(), profiles });
        let seen: Vec<_> = all.iter().map(|target| (target.host.as_str(), target.version)).collect();
        assert_eq!((seen, left_out), (vec![("a", Version::V1_1), ("b", Version::V1_1)], 0));
        assert_eq!(all[0].timeout_per_address(Duration::from_secs(5)), Duration::from_millis(2_500));
    }

    #[test]
    fn no_more_addresses_are_tried_or_remembered_than_is_said() {
        let hosts: Vec<String> = (0..20).map(|number| format!("h{number}")).collect();
        let alternates: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let reference = Ior { type_id: String::new(), profiles: vec![profile(Version::V1_2, "a", &alternates)] };
        let (all, left_out) = Target::all(&reference);
        assert_eq!((all.len(), left_out), (8, 13));
        assert_eq!(all[0].timeout_per_address(Duration::from_secs(1)), ADDRESS_TIME);
        let mut known = Reachability::default();
        (0..=u16::MAX).for_each(|port| known.note_failed("h", port, at(1)));
        assert!(known.by_address.len() <= ADDRESSES_MAX);
    }

    /// What is left to each address at least.
    const ADDRESS_TIME: Duration = Duration::from_millis(250);
}

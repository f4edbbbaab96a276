//! Combined verdict of a proxy's filters and its admin's on an event: it passes, is dropped, or remote filters are called.

use crate::{Operator, RemoteFilterGroups};

/// Verdict of a filter group, a consumer's own or its admin's, on events of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// None: it has no filters and its subscription was never changed, so that it does not count.
    Absent,
    No,
    Yes,
    /// Yes for an event that matches one of its filters.
    Matched,
    /// The verdict of its remote filters.
    Remote,
    /// Yes for an event that matches one of its local filters, and the verdict of its remote filters on any other.
    MatchedOrRemote,
}

impl Group {
    /// Combined verdict of two filters of a group.
    pub(super) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Yes, _) | (_, Self::Yes) => Self::Yes,
            (Self::Matched, _) | (_, Self::Matched) => Self::Matched,
            _ => Self::No,
        }
    }
}

/// Verdicts of a consumer's two groups on events of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stance {
    pub(super) proxy: Group,
    pub(super) admin: Group,
    pub(super) operator: Operator,
}

/// Condition for a consumer to get an event of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    Everything,
    /// A match of its own filters, alone or together with a match of the admin's.
    OwnMatch,
    /// A match of its admin's filters, whatever its own verdict.
    AdminMatch,
    /// A match of either.
    EitherMatch,
    /// An evaluation for each event: a remote filter may have to be called.
    ALook,
}

impl Stance {
    pub(super) const NEVER: Self = Self { proxy: Group::No, admin: Group::No, operator: Operator::And };

    /// Combined condition of the two groups (OMG Notification Service 1.1, `InterFilterGroupOperator`).
    pub(super) fn takes(self) -> Takes {
        use Group::{Absent, Matched, No, Yes};
        let of_one = |group, matched| match group {
            Absent | Yes => Takes::Everything,
            No => Takes::Nothing,
            Matched => matched,
            Group::Remote | Group::MatchedOrRemote => Takes::ALook,
        };
        match (self.operator, self.proxy, self.admin) {
            (_, Absent, admin) => of_one(admin, Takes::AdminMatch),
            (_, proxy, Absent) => of_one(proxy, Takes::OwnMatch),
            (Operator::And, No, _) | (Operator::And, _, No) => Takes::Nothing,
            (Operator::And, Yes, admin) => of_one(admin, Takes::AdminMatch),
            (Operator::Or, Yes, _) | (Operator::Or, _, Yes) => Takes::Everything,
            (Operator::Or, No, admin) => of_one(admin, Takes::AdminMatch),
            (Operator::And, proxy, Yes) | (Operator::Or, proxy, No) => of_one(proxy, Takes::OwnMatch),
            (Operator::And, Matched, Matched) => Takes::OwnMatch,
            (Operator::Or, Matched, Matched) => Takes::EitherMatch,
            _ => Takes::ALook,
        }
    }

    /// Whether the verdict depends on a match of the admin's filters.
    pub(super) fn depends_on_admin(self) -> bool {
        matches!(self.admin, Group::Matched | Group::MatchedOrRemote)
    }

    /// The verdict on an event, from whether it matched the proxy's and the admin's filters.
    pub(super) fn verdict(self, own_match: bool, admin_match: bool) -> Verdict {
        let of_group = |group, matched: bool| match group {
            Group::Absent => None,
            Group::No => Some(Answer::No),
            Group::Yes => Some(Answer::Yes),
            Group::Matched if !matched => Some(Answer::No),
            Group::Remote => Some(Answer::Ask),
            Group::MatchedOrRemote if !matched => Some(Answer::Ask),
            Group::Matched | Group::MatchedOrRemote => Some(Answer::Yes),
        };
        combine(of_group(self.proxy, own_match), of_group(self.admin, admin_match), self.operator)
    }
}

/// Answer of a group for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    No,
    Yes,
    /// Its remote filters decide.
    Ask,
}

/// Combined answer of both groups for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Dropped,
    Passed,
    Ask(RemoteFilterGroups),
}

/// Combines the two groups' answers; a group that does not count has none. (OMG Notification Service 1.1,
/// `InterFilterGroupOperator`.)
pub(super) fn combine(proxy: Option<Answer>, admin: Option<Answer>, operator: Operator) -> Verdict {
    let both = [proxy, admin];
    let says = |answer| both.contains(&Some(answer));
    let decided = match operator {
        Operator::And if says(Answer::No) => Some(false),
        Operator::And => (!says(Answer::Ask)).then_some(true),
        Operator::Or if says(Answer::Yes) || both == [None; 2] => Some(true),
        Operator::Or => (!says(Answer::Ask)).then_some(false),
    };
    match decided {
        Some(true) => Verdict::Passed,
        Some(false) => Verdict::Dropped,
        None => Verdict::Ask(RemoteFilterGroups {
            proxy: proxy == Some(Answer::Ask),
            admin: admin == Some(Answer::Ask),
            all: operator == Operator::And,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is taken without looking must be what looking says, for every pair of groups.
    #[test]
    fn what_a_stance_takes_agrees_with_its_verdict_on_every_event() {
        use Group::{Absent, Matched, MatchedOrRemote, No, Remote, Yes};
        let all = [Absent, No, Yes, Matched, Remote, MatchedOrRemote];
        for (proxy, admin) in all.iter().flat_map(|proxy| all.iter().map(move |admin| (*proxy, *admin))) {
            for operator in [Operator::And, Operator::Or] {
                let stance = Stance { proxy, admin, operator };
                for (own, of_admin) in [(false, false), (false, true), (true, false), (true, true)] {
                    let verdict = stance.verdict(own, of_admin);
                    let expected = match stance.takes() {
                        Takes::Nothing => Some(false),
                        Takes::Everything => Some(true),
                        // Looked at only if its own filters match.
                        Takes::OwnMatch if !own => Some(false),
                        // Passes whenever its admin's match.
                        Takes::AdminMatch => Some(of_admin),
                        Takes::EitherMatch => Some(own || of_admin),
                        Takes::OwnMatch | Takes::ALook => None,
                    };
                    let Some(expected) = expected else { continue };
                    let passed = verdict == Verdict::Passed;
                    assert_eq!(passed, expected, "{stance:?} own {own} admin {of_admin}: {verdict:?}");
                    assert!(!matches!(verdict, Verdict::Ask(_)), "{stance:?}");
                }
            }
        }
    }
}

//! Memory for incomplete messages of all connections.
//!
//! An incomplete message takes memory until the rest has arrived, and a client that stalls keeps it for `limits.message_completion_ms`:
//! thousands of clients could keep as many messages of the largest size. So the memory for what has arrived, and not for what is only
//! announced, is charged to the connection and its address before it is allocated (`limits.incomplete_bytes_max`). If that is refused, a
//! message may still be completed from the [`Reserve`], which all lanes share and which has two to four times the size of the largest
//! message. Each message gets at most half of what is left there, so that there is room for a largest one, and for small ones beside it. A
//! connection without room there is not read until there is some; meanwhile connections that use such memory and are too slow to complete
//! in time are closed, the slowest first.
//!
//! Messages up to [`UNCHARGED`] need no claim: the number of connections bounds them.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use engine::Time;

use crate::lane::io::slots::Token;
use accounts::{Account, Resource, Spent};

/// Octets of an incomplete message that are not charged.
const UNCHARGED: u64 = 16 << 10;
/// Time for which a message is observed before its pace is known.
const LOOKED_AT_FOR: Duration = Duration::from_secs(1);

/// Memory reserved for messages that find no room elsewhere, shared by all lanes.
#[derive(Debug)]
pub(crate) struct Reserve {
    octets: u64,
    taken: AtomicU64,
}

impl Reserve {
    /// A reserve of so many octets.
    pub(crate) const fn new(octets: u64) -> Self {
        Self { octets, taken: AtomicU64::new(0) }
    }

    /// Changes one message's part of the reserve, unless it would have more than half of what the others leave.
    fn change(&self, before: u64, requested: u64) -> bool {
        let change = |taken: u64| {
            let others = taken.saturating_sub(before);
            let is_fair = requested <= self.octets.saturating_sub(others) / 2;
            is_fair.then_some(others + requested)
        };
        // Relaxed: it is an amount, and nothing is published through it.
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change).is_ok()
    }

    fn give(&self, octets: u64) {
        self.taken.fetch_sub(octets, Ordering::Relaxed);
    }
}

/// Connections of a lane that wait for memory.
#[derive(Debug)]
pub(crate) struct Unfinished {
    reserve: Arc<Reserve>,
    waiting: VecDeque<Token>,
}

/// Memory that one connection has claimed.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Claim {
    charged: u64,
    /// Octets from the reserve.
    reserved: u64,
    /// Whether the connection is not read, since there is no room for its message.
    pub(crate) waits: bool,
    /// Octets for which it waits.
    requested: u64,
    mark: Option<Mark>,
}

/// An incomplete message: the time when it began, and the octets that have arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) since: u64,
    pub(crate) octets: usize,
}

/// Progress of a message at some time.
#[derive(Debug, Clone, Copy)]
struct Mark {
    message: Begun,
    at: Time,
}

/// Result of a claim.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Claimed {
    /// There is room.
    Granted,
    /// The connection was waiting already.
    Waits,
    /// There is no room: the connection waits from now on.
    Refused(Spent),
}

impl Unfinished {
    pub(crate) const fn new(reserve: Arc<Reserve>) -> Self {
        Self { reserve, waiting: VecDeque::new() }
    }

    /// Claims memory for `octets` of a connection's message, which will take up to `announced`.
    pub(crate) fn claim(
        &mut self,
        token: Token,
        claim: &mut Claim,
        account: &Account,
        octets: usize,
        announced: usize,
    ) -> Claimed {
        if claim.waits {
            return Claimed::Waits;
        }
        let Err(spent) = self.fit(claim, account, octets as u64, announced as u64) else { return Claimed::Granted };
        claim.waits = true;
        claim.requested = octets as u64;
        self.waiting.push_back(token);
        Claimed::Refused(spent)
    }

    /// Whether a connection waits.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Number of connections that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Removes the connection that has waited longest since its last attempt: to be given to [`Self::admit`], or it is forgotten.
    pub(crate) fn next_waiting(&mut self) -> Option<Token> {
        self.waiting.pop_front()
    }

    /// Whether there is room now for a waiting connection. If not, it waits again.
    pub(crate) fn admit(&mut self, token: Token, claim: &mut Claim, account: &Account, announced: usize) -> bool {
        let fits = self.fit(claim, account, claim.requested, announced as u64).is_ok();
        claim.waits = !fits;
        // The message could not progress meanwhile.
        claim.forget_pace();
        if !fits {
            self.waiting.push_back(token);
        }
        fits
    }

    /// Lowers a connection's claim to `octets`. If a message is `complete`, the next one has to find room of its own.
    pub(crate) fn lower(&mut self, claim: &mut Claim, account: &Account, octets: usize, complete: bool) {
        if claim.charged == 0 && claim.reserved == 0 {
            return;
        }
        let octets = charged_of(octets as u64);
        if complete || octets == 0 {
            self.reserve.give(core::mem::take(&mut claim.reserved));
        }
        if octets < claim.charged {
            account.give(Resource::IncompleteBytes, claim.charged - octets);
            claim.charged = octets;
        }
    }

    /// Releases the claim of a connection that ends or leaves the lane.
    pub(crate) fn release(&mut self, claim: &mut Claim, account: &Account) {
        self.lower(claim, account, 0, true);
        *claim = Claim::default();
    }

    fn fit(&mut self, claim: &mut Claim, account: &Account, octets: u64, announced: u64) -> Result<(), Spent> {
        let octets = charged_of(octets);
        if octets <= claim.charged + claim.reserved {
            return Ok(());
        }
        let more = octets - claim.charged;
        let Err(spent) = account.take(Resource::IncompleteBytes, more) else {
            claim.charged = octets;
            return Ok(());
        };
        let rest = announced.max(octets) - claim.charged;
        if !self.reserve.change(claim.reserved, rest) {
            return Err(spent);
        }
        claim.reserved = rest;
        Ok(())
    }
}

impl Claim {
    /// Whether the claim has memory that others could use.
    pub(crate) const fn has_some(&self) -> bool {
        self.charged > 0 || self.reserved > 0
    }

    /// Pace of the connection's oldest message in octets per second, if it was observed for long enough.
    pub(crate) fn pace(&mut self, message: Begun, now: Time) -> Option<u64> {
        let mark = self.mark.filter(|mark| mark.message.since == message.since);
        let Some(mark) = mark else {
            self.mark = Some(Mark { message, at: now });
            return None;
        };
        let looked_at = now.since(mark.at);
        if looked_at < LOOKED_AT_FOR {
            return None;
        }
        let progress = message.octets.saturating_sub(mark.message.octets) as u128;
        u64::try_from(progress * 1_000 / looked_at.as_millis()).ok()
    }

    /// Observes the pace anew.
    pub(crate) const fn forget_pace(&mut self) {
        self.mark = None;
    }
}

const fn charged_of(octets: u64) -> u64 {
    if octets <= UNCHARGED { 0 } else { octets }
}

/// Clock of the time in which a connection is read. Time limits of its messages use it: while the connection is not read, the rest of a
/// message cannot arrive.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct ReadingTime {
    stopped_for: Duration,
    stopped_at: Option<Time>,
}

impl ReadingTime {
    /// The time on this clock at `now`.
    pub(crate) fn at(&self, now: Time) -> Time {
        let until = self.stopped_at.unwrap_or(now);
        Time(until.0.saturating_sub(u64::try_from(self.stopped_for.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Whether the clock stands still.
    pub(crate) const fn is_stopped(&self) -> bool {
        self.stopped_at.is_some()
    }

    /// Starts or stops the clock.
    #[inline]
    pub(crate) fn note(&mut self, is_read: bool, now: Time) {
        if is_read {
            if let Some(since) = self.stopped_at.take() {
                self.stopped_for += now.since(since);
            }
        } else if self.stopped_at.is_none() {
            self.stopped_at = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accounts::{Accounts, Ceilings};

    const MIB: usize = 1 << 20;

    fn token(number: u64) -> Token {
        Token::from_bits(number)
    }

    /// With a reserve for two messages of 16 MiB, and small ones.
    fn unfinished() -> Unfinished {
        Unfinished::new(Arc::new(Reserve::new(64 << 20)))
    }

    /// A client, where all together may have so much.
    fn account(limit: usize) -> Arc<Account> {
        let ceilings = Ceilings::new(100).with(Resource::IncompleteBytes, limit as u64, 0);
        Accounts::new(ceilings).account_of([127, 0, 0, 1].into())
    }

    #[test]
    fn what_is_announced_costs_nothing_and_what_has_arrived_is_charged() {
        let (mut unfinished, account) = (unfinished(), account(64 * MIB));
        let mut claims = [Claim::default(); 100];
        for (number, claim) in (0..).zip(&mut claims) {
            assert_eq!(unfinished.claim(token(number), claim, &account, 12, 16 * MIB), Claimed::Granted);
        }
        assert_eq!(account.used(Resource::IncompleteBytes), 0);
        assert_eq!(unfinished.claim(token(0), &mut claims[0], &account, 3 * MIB, 16 * MIB), Claimed::Granted);
        assert_eq!(account.used(Resource::IncompleteBytes), 3 * MIB as u64);
        unfinished.lower(&mut claims[0], &account, 0, true);
        assert_eq!(account.used(Resource::IncompleteBytes), 0);
    }

    #[test]
    fn where_the_limit_is_reached_a_message_is_completed_from_the_reserve_and_small_ones_beside_it() {
        let (mut unfinished, account) = (unfinished(), account(10 * MIB));
        let mut claims = [Claim::default(); 4];
        let [stalled, large, other, small] = &mut claims;
        assert_eq!(unfinished.claim(token(0), stalled, &account, 10 * MIB, 16 * MIB), Claimed::Granted);
        assert_eq!(unfinished.claim(token(1), large, &account, MIB, 16 * MIB), Claimed::Granted);
        assert_eq!(unfinished.claim(token(1), large, &account, 16 * MIB, 16 * MIB), Claimed::Granted);
        let second = &mut Claim::default();
        assert_eq!(unfinished.claim(token(4), second, &account, 20 << 10, 24 * MIB), Claimed::Granted);
        assert!(matches!(unfinished.claim(token(2), other, &account, MIB, 16 * MIB), Claimed::Refused(_)));
        assert_eq!(unfinished.claim(token(2), other, &account, MIB, 16 * MIB), Claimed::Waits);
        assert_eq!(unfinished.claim(token(3), small, &account, 200 << 10, 200 << 10), Claimed::Granted);

        assert_eq!(unfinished.next_waiting(), Some(token(2)));
        assert!(!unfinished.admit(token(2), other, &account, 16 * MIB));
        unfinished.lower(large, &account, 0, true);
        assert_eq!(unfinished.next_waiting(), Some(token(2)));
        assert!(unfinished.admit(token(2), other, &account, 16 * MIB) && !other.waits && !unfinished.is_waiting());
        unfinished.release(second, &account);
        claims.iter_mut().for_each(|claim| unfinished.release(claim, &account));
        assert_eq!((unfinished.reserve.taken.load(Ordering::Relaxed), account.used(Resource::IncompleteBytes)), (0, 0));
    }

    /// Each lane had a reserve of its own, four times the largest message, beside the budget of the process.
    #[test]
    fn all_lanes_have_one_reserve_which_lets_one_of_the_largest_complete_however_small_it_is() {
        let (reserve, account) = (Arc::new(Reserve::new(32 << 20)), account(0));
        let mut lanes = [Unfinished::new(Arc::clone(&reserve)), Unfinished::new(reserve)];
        let mut claims = [Claim::default(); 2];
        assert_eq!(lanes[0].claim(token(0), &mut claims[0], &account, MIB, 16 * MIB), Claimed::Granted);
        assert!(matches!(lanes[1].claim(token(1), &mut claims[1], &account, MIB, 16 * MIB), Claimed::Refused(_)));
        let mut small = Claim::default();
        assert_eq!(lanes[1].claim(token(2), &mut small, &account, MIB, 2 * MIB), Claimed::Granted);
        lanes[0].release(&mut claims[0], &account);
        assert!(!lanes[1].admit(token(1), &mut claims[1], &account, 16 * MIB), "the small one has some yet");
        lanes[1].release(&mut small, &account);
        assert!(lanes[1].admit(token(1), &mut claims[1], &account, 16 * MIB));
    }

    #[test]
    fn how_fast_a_message_progresses_is_known_after_a_second_of_the_same_message() {
        let mut claim = Claim::default();
        let message = |began, octets| Begun { since: began, octets };
        let at = |millis: u64| Time(millis * 1_000_000);
        assert_eq!(claim.pace(message(5, 1_000), at(0)), None);
        assert_eq!(claim.pace(message(5, 2_000), at(999)), None);
        assert_eq!(claim.pace(message(5, 5_000), at(2_000)), Some(2_000));
        assert_eq!(claim.pace(message(6, 9_000), at(2_050)), None, "another message");
        assert_eq!(claim.pace(message(6, 9_000), at(3_050)), Some(0));
        claim.forget_pace();
        assert_eq!(claim.pace(message(6, 9_000), at(3_100)), None);
    }

    #[test]
    fn time_stands_still_while_a_connection_is_not_read() {
        let mut reading = ReadingTime::default();
        reading.note(false, Time(10));
        reading.note(false, Time(20));
        assert_eq!((reading.at(Time(30)), reading.is_stopped()), (Time(10), true));
        reading.note(true, Time(40));
        reading.note(true, Time(45));
        assert_eq!(reading.at(Time(50)), Time(20));
        reading.note(false, Time(60));
        reading.note(true, Time(70));
        assert_eq!(reading.at(Time(80)), Time(40));
    }
}

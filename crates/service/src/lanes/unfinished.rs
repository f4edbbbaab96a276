//! What messages that have begun and are not complete may take together.
//!
//! Each takes memory until the rest of it has come, and a client that stalls keeps it for `limits.message_completion_ms`:
//! thousands of them could keep as many messages of the largest size. So the memory that holds what has arrived, and never
//! what is only announced, is charged to the connection and its address, before it is reserved
//! (`limits.incomplete_bytes_max`). Where that is not granted, a message may still be completed from a reserve of the lane's,
//! four times as large as the largest message, of which each gets half of what is left at most: so there is room for two of
//! the largest, and for small ones beside them. A connection that finds no room there either is not read until there is
//! some; and whoever progresses least, of those that have something, is let go then.
//!
//! Small ones, up to [`UNCHARGED`], need no claim: they are bounded by the number of connections.

use core::time::Duration;
use std::collections::VecDeque;

use engine::Time;
use giop::framing::Incomplete;

use super::slots::Token;
use crate::accounts::{Account, Resource, Spent};

/// Octets of a connection that nobody is charged for.
const UNCHARGED: u64 = 16 << 10;
/// How long a message is looked at before it is said how fast it progresses.
const LOOKED_AT_FOR: Duration = Duration::from_secs(1);

/// The reserve of a lane, and who waits. See the module.
#[derive(Debug)]
pub(super) struct Unfinished {
    reserve: u64,
    reserved: u64,
    waiting: VecDeque<Token>,
}

/// What one connection has.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Claim {
    charged: u64,
    /// Of the reserve.
    reserved: u64,
    /// It is not read, since there is no room for what has begun on it.
    pub(super) waits: bool,
    /// What it waits for.
    wanted: u64,
    mark: Option<Mark>,
}

/// How far a message had come.
#[derive(Debug, Clone, Copy)]
struct Mark {
    message: Incomplete,
    at: Time,
}

/// What became of a claim.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Claimed {
    /// There is room.
    Granted,
    /// The connection waits.
    Waits,
    /// The connection waits from now on.
    Refused(Spent),
}

impl Unfinished {
    /// A reserve for messages of up to so many octets.
    pub(super) const fn new(message_bytes_max: usize) -> Self {
        Self { reserve: 4 * message_bytes_max as u64, reserved: 0, waiting: VecDeque::new() }
    }

    /// What has begun on a connection takes so many octets of memory, and will take up to `announced`.
    pub(super) fn claim(
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
        claim.wanted = octets as u64;
        self.waiting.push_back(token);
        Claimed::Refused(spent)
    }

    /// Whether somebody waits.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Who has waited, or was tried, longest ago: [`Self::admit`] it, or it is forgotten.
    pub(super) fn next_waiting(&mut self) -> Option<Token> {
        self.waiting.pop_front()
    }

    /// Whether there is room for one that waits, which goes on then. If not, it goes on waiting.
    pub(super) fn admit(&mut self, token: Token, claim: &mut Claim, account: &Account, announced: usize) -> bool {
        let fits = self.fit(claim, account, claim.wanted, announced as u64).is_ok();
        claim.waits = !fits;
        // It could not progress meanwhile.
        claim.forget_pace();
        if !fits {
            self.waiting.push_back(token);
        }
        fits
    }

    /// What is under way on a connection takes so many octets at most from now on. Where a message is `complete`, the next
    /// one has to find room of its own.
    pub(super) fn lower(&mut self, claim: &mut Claim, account: &Account, octets: usize, complete: bool) {
        if claim.charged == 0 && claim.reserved == 0 {
            return;
        }
        let octets = charged_of(octets as u64);
        if complete || octets == 0 {
            self.reserved -= core::mem::take(&mut claim.reserved);
        }
        if octets < claim.charged {
            account.give(Resource::IncompleteBytes, claim.charged - octets);
            claim.charged = octets;
        }
    }

    /// A connection ends or leaves the lane.
    pub(super) fn release(&mut self, claim: &mut Claim, account: &Account) {
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
        let left = self.reserve - self.reserved + claim.reserved;
        if rest > left / 2 {
            return Err(spent);
        }
        self.reserved = self.reserved - claim.reserved + rest;
        claim.reserved = rest;
        Ok(())
    }
}

impl Claim {
    /// Whether it has something that others could use.
    pub(super) const fn has_some(&self) -> bool {
        self.charged > 0 || self.reserved > 0
    }

    /// How many octets of its oldest message have come in a second, if that has been looked at for long enough.
    pub(super) fn pace(&mut self, message: Incomplete, now: Time) -> Option<u64> {
        let mark = self.mark.filter(|mark| mark.message.began == message.began);
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

    /// Has it looked at anew: it progresses.
    pub(super) const fn forget_pace(&mut self) {
        self.mark = None;
    }
}

const fn charged_of(octets: u64) -> u64 {
    if octets <= UNCHARGED { 0 } else { octets }
}

/// The time in which a connection is read. The time limit of its messages runs by it: while it is not read, since it is
/// owed something, what it owes cannot come.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct ReadingTime {
    stopped_for: Duration,
    stopped_at: Option<Time>,
}

impl ReadingTime {
    /// What time it is by it.
    pub(super) fn at(&self, now: Time) -> Time {
        let until = self.stopped_at.unwrap_or(now);
        Time(until.0.saturating_sub(u64::try_from(self.stopped_for.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Whether it stands still.
    pub(super) const fn is_stopped(&self) -> bool {
        self.stopped_at.is_some()
    }

    /// The connection is read from now on, or not.
    #[inline]
    pub(super) fn note(&mut self, is_read: bool, now: Time) {
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
    use std::sync::Arc;

    use super::*;
    use crate::accounts::{Accounts, Ceilings};

    const MIB: usize = 1 << 20;

    fn token(number: u64) -> Token {
        Token::from_bits(number)
    }

    /// A client, where all together may have so much.
    fn account(limit: usize) -> Arc<Account> {
        let ceilings = Ceilings::new(100).with(Resource::IncompleteBytes, limit as u64, 0);
        Accounts::new(ceilings).account_of([127, 0, 0, 1].into())
    }

    #[test]
    fn what_is_announced_costs_nothing_and_what_has_arrived_is_charged() {
        let (mut unfinished, account) = (Unfinished::new(16 * MIB), account(64 * MIB));
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
        let (mut unfinished, account) = (Unfinished::new(16 * MIB), account(10 * MIB));
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
        assert_eq!((unfinished.reserved, account.used(Resource::IncompleteBytes)), (0, 0));
    }

    #[test]
    fn how_fast_a_message_progresses_is_known_after_a_second_of_the_same_message() {
        let mut claim = Claim::default();
        let message = |began, octets| Incomplete { began, octets };
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

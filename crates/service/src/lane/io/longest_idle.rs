//! Connections ranked by the time for which they have been idle: the longest idle makes room for others.

use std::collections::BTreeSet;
use std::net::IpAddr;

use engine::Time;
use hashbrown::HashMap;

use crate::lane::io::slots::Token;

/// Connections of each address, and of all, in the order in which they were last found to be in use.
///
/// Using a connection does not change its rank, and so costs nothing: the search for the longest idle connection finds out, and ranks it
/// anew. A connection is never idle for longer than its rank says.
#[derive(Default)]
pub(crate) struct LongestIdle {
    of_all: BTreeSet<(Time, Token)>,
    of_each: BTreeSet<(IpAddr, Time, Token)>,
    /// Address and rank of each connection.
    ranks: HashMap<Token, (IpAddr, Time)>,
}

/// Maximum connections examined in one search. Any number of them may have been used since the last search.
const LOOKED_AT_MAX: usize = 256;

impl LongestIdle {
    /// Adds a connection.
    pub(crate) fn add(&mut self, token: Token, ip: IpAddr, now: Time) {
        self.of_all.insert((now, token));
        self.of_each.insert((ip, now, token));
        self.ranks.insert(token, (ip, now));
    }

    /// Removes a connection. Returns its address, if it was among them.
    pub(crate) fn remove(&mut self, token: Token) -> Option<IpAddr> {
        let (ip, rank) = self.ranks.remove(&token)?;
        self.of_all.remove(&(rank, token));
        self.of_each.remove(&(ip, rank, token));
        Some(ip)
    }

    /// The longest idle connection of an address, or of all; if very many were used since the last search, the longest idle of those
    /// examined. `idle_since` returns the time since which a connection is idle, or `None` if it is in use.
    pub(crate) fn next(
        &mut self,
        of: Option<IpAddr>,
        now: Time,
        mut idle_since: impl FnMut(Token) -> Option<Time>,
    ) -> Option<Token> {
        let mut longest: Option<(Time, Token)> = None;
        for _ in 0..LOOKED_AT_MAX {
            let Some((rank, token)) = self.first(of) else { break };
            let since = idle_since(token);
            if since.is_some_and(|since| since <= rank) {
                return Some(token);
            }
            // All others were in use just now, or were examined already.
            if rank >= now {
                break;
            }
            self.rank(token, since.unwrap_or(now));
            let found = since.map(|since| (since, token));
            longest = [longest, found].into_iter().flatten().min();
        }
        longest.map(|(_, token)| token)
    }

    fn first(&self, of: Option<IpAddr>) -> Option<(Time, Token)> {
        let Some(ip) = of else { return self.of_all.first().copied() };
        let from = (ip, Time(0), Token::FIRST);
        self.of_each.range(from..).next().filter(|(whose, ..)| *whose == ip).map(|(_, rank, token)| (*rank, *token))
    }

    fn rank(&mut self, token: Token, rank: Time) {
        if let Some((ip, _)) = self.ranks.get(&token).copied() {
            self.remove(token);
            self.add(token, ip, rank);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHERS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 1));
    const OWN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));

    fn token(number: u64) -> Token {
        Token::from_bits(number)
    }

    /// The longest idle one, and how many were looked at.
    fn next(
        idle: &mut LongestIdle,
        of: Option<IpAddr>,
        now: u64,
        since: impl Fn(u64) -> Option<u64>,
    ) -> (Option<u64>, usize) {
        let mut looked_at = 0;
        let found = idle.next(of, Time(now), |token| {
            looked_at += 1;
            since(token.to_bits()).map(Time)
        });
        (found.map(Token::to_bits), looked_at)
    }

    #[test]
    fn the_longest_idle_one_is_found_whatever_was_used_since() {
        let mut idle = LongestIdle::default();
        (0..4).for_each(|number| idle.add(token(number), OWN, Time(number)));
        // 0 is in use, 1 was used at 8, and 2 at 6.
        let since = |number| [None, Some(8), Some(6), Some(7)].get(usize::try_from(number).unwrap()).copied().flatten();
        assert_eq!(next(&mut idle, None, 10, since), (Some(2), 5));
        idle.remove(token(2));
        assert_eq!(next(&mut idle, Some(OWN), 11, since), (Some(3), 1), "they are in order now");
        idle.remove(token(3));
        assert_eq!(next(&mut idle, None, 12, since).0, Some(1));
        idle.remove(token(1));
        assert_eq!(next(&mut idle, None, 13, since).0, None);
        // It may be idle by now, since before it was last looked at.
        assert_eq!(next(&mut idle, None, 14, |_| Some(9)), (Some(0), 1));
        idle.remove(token(0));
        assert_eq!(next(&mut idle, None, 15, |_| Some(9)), (None, 0));
        assert!(idle.of_all.is_empty() && idle.of_each.is_empty() && idle.ranks.is_empty());
    }

    /// A client that had spent its share of connections had all connections to all clients, 65,536 of them, looked through and put in
    /// order for each that it wanted.
    #[test]
    fn an_address_with_a_few_has_only_those_looked_at() {
        let mut idle = LongestIdle::default();
        (0..10_000).for_each(|number| idle.add(token(number), OTHERS, Time(number)));
        (10_000..10_012).for_each(|number| idle.add(token(number), OWN, Time(number)));
        assert_eq!(next(&mut idle, Some(OWN), 20_000, |number| Some(number + 100)), (Some(10_000), 13));
        // In use, all of them: each is looked at once, and one of them again.
        assert_eq!(next(&mut idle, Some(OWN), 30_000, |_| None), (None, 13));
        assert_eq!(next(&mut idle, Some(OWN), 30_000, |_| None), (None, 1));
    }

    #[test]
    fn of_very_many_that_were_used_since_some_are_looked_at_in_one_go_and_the_others_in_the_next() {
        let mut idle = LongestIdle::default();
        (0..10_000).for_each(|number| idle.add(token(number), OWN, Time(0)));
        for go in 0..3 {
            let (found, looked_at) = next(&mut idle, Some(OWN), 20_000, |number| Some(10_000 - number));
            assert_eq!((found, looked_at), (Some((go + 1) * 256 - 1), 256));
        }
        assert_eq!(next(&mut idle, None, 20_000, |_| None), (None, 256));
    }
}

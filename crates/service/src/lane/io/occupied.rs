//! Choice of the connection that gives way when there is no place for another.
//!
//! Every address may have a few connections whatever its quota, so that a few hundred addresses can fill all places together. At the limit,
//! the address with most connections loses the one that has been idle for longest and carries no proxy. A connection's protocol says
//! whether it is idle.

use std::collections::BTreeMap;
use std::net::IpAddr;

use engine::Time;

use crate::lane::io::longest_idle::LongestIdle;
use crate::lane::io::slots::Token;
use crate::protocols::Tag;

/// Places beyond the limit, for protocols with a reserve (`WireProtocol::HAS_RESERVE`) when no connection gives way. No proxies are made
/// there, so that such a connection is idle as soon as its request is done.
pub(crate) const RESERVED: u64 = 8;
/// Maximum addresses searched for a connection that can give way, beginning with those that have most connections.
const ADDRESSES_TRIED_MAX: usize = 8;
/// Interval in which at most one line is logged about connections that give way.
const LOGGED_EVERY_NS: u64 = 60_000_000_000;

/// The connections of all protocols of a lane, by address.
#[derive(Default)]
pub(crate) struct Occupied {
    by_protocol: [LongestIdle; Tag::ALL.len()],
    counts: BTreeMap<IpAddr, u32>,
    logged: Option<Time>,
}

impl Occupied {
    /// Adds a connection.
    pub(crate) fn arrive(&mut self, protocol: Tag, token: Token, ip: IpAddr, now: Time) {
        if let Some(of_protocol) = self.by_protocol.get_mut(protocol as usize) {
            of_protocol.add(token, ip, now);
            *self.counts.entry(ip).or_default() += 1;
        }
    }

    /// Removes a connection that is gone or has moved to another lane.
    pub(crate) fn leave(&mut self, protocol: Tag, token: Token) {
        let Some(ip) = self.by_protocol.get_mut(protocol as usize).and_then(|of_protocol| of_protocol.remove(token))
        else {
            return;
        };
        if let Some(count) = self.counts.get_mut(&ip) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&ip);
            }
        }
    }

    /// The connection that gives way. `idle_since` returns the time since which a connection is idle, or `None` if it may not give way.
    pub(crate) fn next(
        &mut self,
        now: Time,
        mut idle_since: impl FnMut(Tag, Token) -> Option<Time>,
    ) -> Option<(Tag, Token)> {
        let mut tried: Vec<IpAddr> = Vec::with_capacity(ADDRESSES_TRIED_MAX);
        loop {
            // If the addresses with most connections use all of theirs, the connection idle for longest of all is taken.
            let of = if tried.len() < ADDRESSES_TRIED_MAX {
                let others = self.counts.iter().filter(|(ip, _)| !tried.contains(ip));
                Some(*others.max_by_key(|(_, count)| **count)?.0)
            } else {
                None
            };
            let of_protocol = |(protocol, of_protocol): (Tag, &mut LongestIdle)| {
                let token = of_protocol.next(of, now, |token| idle_since(protocol, token))?;
                Some((idle_since(protocol, token)?, protocol, token))
            };
            let found = Tag::ALL.into_iter().zip(&mut self.by_protocol).filter_map(of_protocol);
            if let Some((_, protocol, token)) = found.min_by_key(|(since, ..)| *since) {
                return Some((protocol, token));
            }
            tried.push(of?);
        }
    }

    /// Whether the next line about a connection that gives way is due: at most one in a minute.
    pub(crate) fn is_news(&mut self, now: Time) -> bool {
        let is_news = self.logged.is_none_or(|logged| logged.0 + LOGGED_EVERY_NS <= now.0);
        if is_news {
            self.logged = Some(now);
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, last])
    }

    #[test]
    fn the_longest_idle_one_of_the_address_that_has_most_gives_way() {
        let mut occupied = Occupied::default();
        let mut since = BTreeMap::new();
        for (number, (last, protocol)) in
            (0..).zip([(1, Tag::Dds), (2, Tag::Json), (2, Tag::Dds), (2, Tag::Tempo), (3, Tag::Dds), (3, Tag::Dds)])
        {
            let token = Token::from_bits(number);
            occupied.arrive(protocol, token, ip(last), Time(number));
            since.insert(number, Time(number));
        }
        let next = |occupied: &mut Occupied, since: &BTreeMap<u64, Time>| {
            occupied.next(Time(100), |_, token| since.get(&token.to_bits()).copied()).map(|(_, token)| token.to_bits())
        };
        assert_eq!(next(&mut occupied, &since), Some(1), "whichever protocol it came by");
        // It was used since; and then the others of its address are in use.
        since.insert(1, Time(50));
        assert_eq!(next(&mut occupied, &since), Some(2));
        (1..4).for_each(|number| _ = since.remove(&number));
        assert_eq!(next(&mut occupied, &since), Some(4), "of the address that has most of what is idle");
        occupied.leave(Tag::Dds, Token::from_bits(4));
        occupied.leave(Tag::Dds, Token::from_bits(5));
        assert_eq!(next(&mut occupied, &since), Some(0));
        for (protocol, number) in [(Tag::Dds, 0), (Tag::Json, 1), (Tag::Dds, 2), (Tag::Tempo, 3), (Tag::Tempo, 9)] {
            occupied.leave(protocol, Token::from_bits(number));
        }
        assert_eq!(next(&mut occupied, &since), None);
        assert!(occupied.counts.is_empty());
    }

    /// Eight addresses with most connections, all in use, kept it from being seen that others hold idle ones: newcomers were refused.
    #[test]
    fn where_the_addresses_that_have_most_use_all_of_theirs_an_idle_one_of_another_address_gives_way() {
        let mut occupied = Occupied::default();
        let used = |token: Token| token.to_bits() < 200;
        (0..200).for_each(|number| {
            let last = u8::try_from(number % 10).unwrap();
            occupied.arrive(Tag::Json, Token::from_bits(number), ip(last), Time(number));
        });
        (200..203).for_each(|number| occupied.arrive(Tag::Tempo, Token::from_bits(number), ip(100), Time(number)));
        let idle_since = |_: Tag, token: Token| (!used(token)).then(|| Time(token.to_bits()));
        for number in 200..203 {
            assert_eq!(occupied.next(Time(1_000), idle_since), Some((Tag::Tempo, Token::from_bits(number))));
            occupied.leave(Tag::Tempo, Token::from_bits(number));
        }
        assert_eq!(occupied.next(Time(1_000), idle_since), None);
    }
}

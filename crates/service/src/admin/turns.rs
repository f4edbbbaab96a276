//! Whose request is served next: the address whose requests have taken the least time, of an address each of its connections in turns,
//! and of a connection its requests in the order in which they came. So one client's requests, however many, hold another's up by one of
//! them, and however long they take, the other has as much of the time.
//!
//! Fair shares in virtual time (start-time fair queueing: Goyal, Vin and Cheng, 1996). How long a request takes is known when it is done.

use core::hash::Hash;
use core::time::Duration;
use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;

use hashbrown::HashMap;

use crate::doors::Request;

/// What a request is taken to take at least, in nanoseconds, and at most: a client that once had something long is not kept off for ever.
const LEAST_NS: u64 = 1_000;
const MOST_NS: u64 = 1_000_000_000;
/// Addresses of which nothing waits that are remembered, beside as many as wait.
const FORGETTING_AT: usize = 64;

/// A connection: its lane's thread, and its number there.
type Connection = (u32, u64);

/// Who asks.
#[derive(Clone, Copy)]
pub(super) struct Client {
    address: IpAddr,
    connection: Connection,
}

impl Client {
    /// Who has sent a request.
    pub(super) fn of(request: &Request) -> Self {
        Self { address: request.account().ip(), connection: request.connection() }
    }
}

/// Requests, or what is done because of them.
pub(crate) struct Turns<T> {
    addresses: HashMap<IpAddr, Queue<T>>,
    /// Addresses of which something waits: the one whose next request begins first in virtual time has the next turn; among equals the one
    /// that came first.
    order: BTreeSet<(u64, u64, IpAddr)>,
    /// The virtual time, in nanoseconds of service: where requests begin of an address that comes now. It goes on as much as each address
    /// that waits would have had by now, so that those who are there are not overtaken by all who come.
    now: u64,
    serial: u64,
}

/// What waits of one address.
struct Queue<T> {
    connections: Ring<Connection, VecDeque<T>>,
    /// Where in virtual time its next request begins: behind what its former ones have taken.
    next: u64,
    /// Its place in the order, if something waits.
    place: Option<(u64, u64)>,
}

/// Things that have their turns, each of which holds something.
struct Ring<K, V> {
    order: VecDeque<K>,
    of: HashMap<K, V>,
}

impl<K, V> Default for Ring<K, V> {
    fn default() -> Self {
        Self { order: VecDeque::new(), of: HashMap::new() }
    }
}

impl<K: Copy + Eq + Hash, V: Default> Ring<K, V> {
    /// What one of them holds; a new one is the last.
    fn at(&mut self, key: K) -> &mut V {
        self.of.entry(key).or_insert_with(|| {
            self.order.push_back(key);
            V::default()
        })
    }

    /// Has the first one have its turn. It is the last then, unless there is nothing left of it.
    fn turn<R>(&mut self, have: impl FnOnce(&mut V) -> (R, bool)) -> Option<R> {
        let key = self.order.pop_front()?;
        let (result, is_left) = have(self.of.get_mut(&key)?);
        if is_left {
            self.order.push_back(key);
        } else {
            self.of.remove(&key);
        }
        Some(result)
    }

    fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self { addresses: HashMap::new(), order: BTreeSet::new(), now: 0, serial: 0 }
    }
}

impl<T> Turns<T> {
    /// Adds something of a client's.
    pub(super) fn push(&mut self, client: Client, it: T) {
        let now = self.now;
        if self.addresses.len() >= 2 * self.order.len() + FORGETTING_AT {
            // Nothing of them waits, and what they have taken is behind all others.
            self.addresses.retain(|_, queue| queue.place.is_some() || queue.next > now);
        }
        let queue = self.addresses.entry(client.address).or_insert_with(|| Queue {
            connections: Ring::default(),
            next: now,
            place: None,
        });
        queue.connections.at(client.connection).push_back(it);
        queue.next = queue.next.max(now);
        self.place(client.address);
    }

    /// What comes next, and who is to be charged for it.
    pub(super) fn pop(&mut self) -> Option<T> {
        let (begins, _, address) = self.order.pop_first()?;
        self.now = self.now.max(begins);
        let queue = self.addresses.get_mut(&address)?;
        queue.place = None;
        queue.next = begins.saturating_add(LEAST_NS);
        let of_connection = |queue: &mut VecDeque<T>| (queue.pop_front(), !queue.is_empty());
        let next = queue.connections.turn(of_connection).flatten();
        self.place(address);
        next
    }

    /// What an address asked for has taken so long, beside what each request is taken to.
    pub(super) fn charge(&mut self, address: IpAddr, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).min(MOST_NS);
        let waiting = u64::try_from(self.order.len()).unwrap_or(u64::MAX).max(1);
        self.now = self.now.saturating_add((took + LEAST_NS) / waiting);
        let Some(queue) = self.addresses.get_mut(&address) else { return };
        queue.next = queue.next.saturating_add(took);
        if let Some((begins, serial)) = queue.place.take() {
            self.order.remove(&(begins, serial, address));
            self.place(address);
        }
    }

    /// Has an address wait for its turn, if something of it does.
    fn place(&mut self, address: IpAddr) {
        let Some(queue) = self.addresses.get_mut(&address) else { return };
        if queue.place.is_none() && !queue.connections.is_empty() {
            queue.place = Some((queue.next, self.serial));
            self.order.insert((queue.next, self.serial, address));
            self.serial += 1;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(last: u8, connection: u64) -> Client {
        Client { address: [127, 0, 0, last].into(), connection: (0, connection) }
    }

    #[test]
    fn one_clients_hundreds_hold_anothers_request_up_by_one() {
        // 256 analyses of one client, 0.2 s each, held another client's call for 54 s.
        let mut turns = Turns::default();
        for number in 0..300 {
            turns.push(client(1, number % 100), number);
        }
        turns.push(client(2, 1), 1_000);
        let served: Vec<u64> = core::iter::from_fn(|| turns.pop()).collect();
        assert_eq!(served[..3], [0, 1_000, 1]);
        assert_eq!(served.len(), 301);
        assert!(turns.is_empty());
    }

    /// Turns were by number: an address whose requests took 100 ms each had a hundred times the time of one whose took 1 ms.
    #[test]
    fn addresses_have_the_same_time_however_long_their_requests_take() {
        let mut turns = Turns::default();
        for number in 0..200 {
            turns.push(client(1, 1), 0);
            turns.push(client(2, number % 7), 1);
        }
        let (mut taken, mut served) = ([Duration::ZERO; 2], Vec::new());
        while served.iter().filter(|who| **who == 1).count() < 200 {
            let who: usize = turns.pop().unwrap();
            let took = Duration::from_millis(if who == 0 { 100 } else { 1 });
            turns.charge(client(u8::try_from(who).unwrap() + 1, 0).address, took);
            taken[who] += took;
            served.push(who);
        }
        assert!(taken[0] <= taken[1] + Duration::from_millis(100), "{taken:?}");
        // A third that comes now waits for neither, and has no claim to what it did not use.
        turns.push(client(3, 1), 2);
        turns.push(client(3, 1), 2);
        let mut before = 0;
        while turns.pop() == Some(0) {
            turns.charge(client(1, 1).address, Duration::from_millis(100));
            before += 1;
        }
        assert!(before <= 2, "{before}");
        turns.charge(client(3, 1).address, Duration::from_secs(9));
        for _ in 0..5 {
            assert_eq!(turns.pop(), Some(0));
            turns.charge(client(1, 1).address, Duration::from_millis(100));
        }
    }

    /// However many come that are new, whoever is there has its turn.
    #[test]
    fn an_address_that_waits_is_not_overtaken_by_all_that_come() {
        let mut turns = Turns::default();
        (0..2).for_each(|_| turns.push(client(1, 1), 0));
        let mut others = 0;
        for number in 1..=1_000_u32 {
            turns.push(Client { address: IpAddr::from(number.to_be_bytes()), connection: (0, 0) }, 1);
            let who = turns.pop().unwrap();
            let address = if who == 0 { client(1, 1).address } else { IpAddr::from(number.to_be_bytes()) };
            turns.charge(address, Duration::from_millis(1));
            if who == 0 && number > 1 {
                break;
            }
            others += 1;
        }
        assert!(others < 10, "{others}");
    }

    #[test]
    fn addresses_of_which_nothing_waits_are_forgotten() {
        let mut turns = Turns::default();
        for number in 0..10_000_u32 {
            let address = IpAddr::from(number.to_be_bytes());
            turns.push(Client { address, connection: (0, 0) }, number);
            assert_eq!(turns.pop(), Some(number));
            turns.charge(address, Duration::from_nanos(10));
        }
        assert!(turns.addresses.len() <= FORGETTING_AT + 1, "{}", turns.addresses.len());
    }

    #[test]
    fn of_one_address_each_connection_has_its_turn_and_keeps_its_order() {
        let mut turns = Turns::default();
        (0..5).for_each(|number| turns.push(client(1, 1), number));
        (10..12).for_each(|number| turns.push(client(1, 2), number));
        let served: Vec<u64> = core::iter::from_fn(|| turns.pop()).collect();
        assert_eq!(served, [0, 10, 1, 11, 2, 3, 4]);
    }
}

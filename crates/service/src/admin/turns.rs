//! Whose request is served next: each address has its turn, of an address each of its connections, and of a connection its
//! requests in the order in which they came. So one client's requests, however many, hold another's up by one of them.

use core::hash::Hash;
use std::collections::VecDeque;
use std::net::IpAddr;

use hashbrown::HashMap;

use crate::doors::Request;

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
    addresses: Ring<IpAddr, Ring<Connection, VecDeque<T>>>,
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
        Self { addresses: Ring::default() }
    }
}

impl<T> Turns<T> {
    /// Adds something of a client's.
    pub(super) fn push(&mut self, client: Client, it: T) {
        self.addresses.at(client.address).at(client.connection).push_back(it);
    }

    /// What comes next.
    pub(super) fn pop(&mut self) -> Option<T> {
        let of_connection = |queue: &mut VecDeque<T>| (queue.pop_front(), !queue.is_empty());
        let of_address = |connections: &mut Ring<Connection, VecDeque<T>>| {
            (connections.turn(of_connection).flatten(), !connections.is_empty())
        };
        self.addresses.turn(of_address).flatten()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.addresses.is_empty()
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
        assert!(turns.is_empty() && turns.addresses.of.is_empty());
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

//! Quotas of addresses in a round, and the queue of deferred work, so that a client with many connections does not delay the others.
//!
//! Work for a connection (to read its socket, to close it, to write its answers) is charged to its address by the time that it takes. An
//! address that has used up its quota of a round is deferred to the next, which begins at once. Deferred work waits in one queue for each
//! address, and the addresses take turns: so everything is served, and connections that become ready meanwhile are served between two
//! addresses. Output is written when the round ends, in the order in which it became due; output of an address without quota left is
//! skipped, and comes first in the next round. If all connections are from one address, nothing is measured or deferred.

use core::time::Duration;
use std::collections::VecDeque;
use std::net::IpAddr;

use hashbrown::HashMap;

use crate::lane::budget::{Budget, RoundUsage};
use crate::lane::io::slots::{Slots, Token};
use crate::lane::io::socket::Socket;
use crate::lane::io::system::{Interest, Ready};

/// Work to do for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// The connection's socket is ready.
    Ready(Ready),
    /// The connection continues without its socket: messages that were read have yet to be handled, or it is to connect.
    Resume(Socket),
}

/// An address that has connections on the lane.
struct Address {
    ip: IpAddr,
    connections: u32,
    deferred: VecDeque<Work>,
    /// Whether the address is queued for a turn.
    is_queued: bool,
    /// Time spent for the address, and the round in which it was.
    spent: Duration,
    round: u64,
    /// Last round in which output of the address was written.
    written: u64,
    /// Octets of events sent to the address, and the round in which they were.
    sent: usize,
    sent_in: u64,
}

/// Addresses of a lane's connections, with their quotas and their deferred work.
pub(crate) struct Quotas {
    budget: Budget,
    addresses: Slots<Address>,
    by_ip: HashMap<IpAddr, Token>,
    /// Addresses with deferred work.
    queued_addresses: VecDeque<Token>,
    /// Connections that clients made, with output due in this round.
    due: VecDeque<Socket>,
    /// Connections with output due in the next round: first those skipped because their addresses had no quota left, then those with output
    /// beyond their budgets.
    skipped: VecDeque<Socket>,
    rests: VecDeque<Socket>,
    round: u64,
    binds: bool,
    /// Whether quotas bind in every round, even with one address.
    always_binds: bool,
    /// Time left of the quota of the address being served.
    left: Duration,
}

/// Initial capacity of an address's queue, enough for an ordinary client's first requests.
const PLACES: usize = 8;

impl Quotas {
    /// Quotas in which an address has the same budget of a round as one connection.
    pub(crate) fn new(budget: Budget) -> Self {
        Self {
            budget,
            addresses: Slots::new(),
            by_ip: HashMap::new(),
            queued_addresses: VecDeque::with_capacity(64),
            due: VecDeque::with_capacity(64),
            skipped: VecDeque::new(),
            rests: VecDeque::new(),
            round: 0,
            binds: false,
            always_binds: false,
            left: budget.time,
        }
    }

    /// Makes quotas bind even with one address, so that a round is no longer than a quota.
    pub(crate) const fn always_bind(&mut self) {
        self.always_binds = true;
    }

    /// Adds a connection of an address.
    pub(crate) fn arrive(&mut self, ip: IpAddr) -> Token {
        let Self { addresses, by_ip, .. } = self;
        let new = || Address {
            ip,
            connections: 0,
            deferred: VecDeque::with_capacity(PLACES),
            is_queued: false,
            spent: Duration::ZERO,
            round: 0,
            written: 0,
            sent: 0,
            sent_in: 0,
        };
        let token = *by_ip.entry(ip).or_insert_with(|| addresses.insert(new()));
        if let Some(address) = addresses.get_mut(token) {
            address.connections += 1;
        }
        token
    }

    /// Removes a connection of an address.
    pub(crate) fn leave(&mut self, token: Token) {
        let Some(address) = self.addresses.get_mut(token) else { return };
        address.connections = address.connections.saturating_sub(1);
        if address.connections == 0 {
            self.by_ip.remove(&address.ip);
            self.addresses.remove(token);
        }
    }

    /// Begins a round; `is_single` if at most one socket is ready. True if quotas bind in this round.
    pub(crate) fn begin_round(&mut self, is_single: bool) -> bool {
        self.round += 1;
        self.left = self.budget.time;
        for left in [&mut self.skipped, &mut self.rests] {
            // The lists are usually empty, and appending an empty one costs a hundred instructions a round.
            if !left.is_empty() {
                self.due.append(left);
            }
        }
        self.binds = self.always_binds || (self.by_ip.len() > 1 && !(is_single && self.is_done()));
        self.binds
    }

    /// Makes quotas bind: there is more to do in this round than was known.
    pub(crate) fn bind(&mut self) {
        self.binds = self.always_binds || self.by_ip.len() > 1;
    }

    pub(crate) const fn round(&self) -> u64 {
        self.round
    }

    /// Whether there is more than one address.
    pub(crate) fn are_shared(&self) -> bool {
        self.by_ip.len() > 1
    }

    /// Whether quotas bind in this round.
    #[inline]
    pub(crate) const fn binds(&self) -> bool {
        self.binds
    }

    /// Budget of one connection, within the time left to its address.
    pub(crate) const fn budget(&self) -> Budget {
        Budget { time: self.left, ..self.budget }
    }

    /// Defers a ready socket until its address has its turn.
    pub(crate) fn serve_later(&mut self, rounds: &mut Rounds, ready: Ready) {
        if !core::mem::replace(&mut rounds.is_deferred, true) {
            self.defer(rounds.quota, Work::Ready(ready));
        }
    }

    /// Defers messages that were read but not handled until their address has its turn.
    pub(crate) fn resume_later(&mut self, rounds: &mut Rounds, socket: Socket) {
        if !core::mem::replace(&mut rounds.has_backlog, true) {
            self.defer(rounds.quota, Work::Resume(socket));
        }
    }

    /// Queues a connection's output to be written when the round ends.
    pub(crate) fn write_later(&mut self, rounds: &mut Rounds, socket: Socket) {
        if !core::mem::replace(&mut rounds.is_due, true) {
            self.due.push_back(socket);
        }
    }

    /// Queues a connection to be written to before the others when the round ends: it has events for a consumer.
    pub(crate) fn write_first(&mut self, socket: Socket) {
        self.due.push_front(socket);
    }

    /// Queues the rest of a connection's output to be written in the next round.
    pub(crate) fn write_on(&mut self, rounds: &mut Rounds, socket: Socket) {
        if !core::mem::replace(&mut rounds.is_due, true) {
            self.rests.push_back(socket);
        }
    }

    /// Queues a connection for the next round: its output may not be written in this one.
    pub(crate) fn skip(&mut self, socket: Socket) {
        self.skipped.push_back(socket);
    }

    /// Connections with output to write in this round.
    pub(crate) const fn due(&mut self) -> &mut VecDeque<Socket> {
        &mut self.due
    }

    /// Whether no work is deferred, and no output due.
    pub(crate) fn is_done(&self) -> bool {
        self.is_idle() && self.due.is_empty() && self.skipped.is_empty() && self.rests.is_empty()
    }

    /// Defers work behind the earlier work of the same address.
    pub(crate) fn defer(&mut self, token: Token, work: Work) {
        let Some(address) = self.addresses.get_mut(token) else { return };
        address.deferred.push_back(work);
        if !core::mem::replace(&mut address.is_queued, true) {
            self.queued_addresses.push_back(token);
        }
    }

    /// Whether no work is deferred.
    pub(crate) fn is_idle(&self) -> bool {
        self.queued_addresses.is_empty()
    }

    /// Number of addresses with deferred work.
    pub(crate) fn queued_addresses(&self) -> usize {
        self.queued_addresses.len()
    }

    /// The next address to have its turn, and the number of its deferred items.
    pub(crate) fn next_address(&mut self) -> Option<(Token, usize)> {
        loop {
            let token = self.queued_addresses.pop_front()?;
            // The address may have gone with its last connection.
            if let Some(address) = self.addresses.get_mut(token) {
                address.is_queued = false;
                let waiting = address.deferred.len();
                self.left = self.budget.time.saturating_sub(self.spent(token));
                return Some((token, waiting));
            }
        }
    }

    /// Removes the first deferred item of an address.
    pub(crate) fn take(&mut self, token: Token) -> Option<Work> {
        self.addresses.get_mut(token)?.deferred.pop_front()
    }

    /// Charges an address for the time of its work. True if its quota is used up.
    pub(crate) fn charge(&mut self, token: Token, time: Duration) -> bool {
        self.charge_aside(token, time);
        self.resume(token);
        self.left.is_zero()
    }

    /// Charges an address for work done while another address is being served.
    pub(crate) fn charge_aside(&mut self, token: Token, time: Duration) {
        let round = self.round;
        if let Some(address) = self.addresses.get_mut(token) {
            let before = if address.round == round { address.spent } else { Duration::ZERO };
            (address.round, address.spent) = (round, before + time);
        }
    }

    /// Begins work for an address out of turn, within what is left of its quota.
    pub(crate) fn resume(&mut self, token: Token) {
        self.left = self.budget.time.saturating_sub(self.spent(token));
    }

    /// Ends the turn of an address. True if it still has deferred work.
    pub(crate) fn end_service(&mut self, token: Token) -> bool {
        self.left = self.budget.time;
        let Some(address) = self.addresses.get_mut(token).filter(|address| !address.deferred.is_empty()) else {
            return false;
        };
        if !core::mem::replace(&mut address.is_queued, true) {
            self.queued_addresses.push_back(token);
        }
        true
    }

    /// Whether an address has used up its quota.
    pub(crate) fn is_spent(&self, token: Token) -> bool {
        let address = self.addresses.get(token).filter(|address| address.round == self.round);
        address.is_some_and(|address| address.spent >= self.budget.time)
    }

    /// Whether output may be written for an address. The first write in a round always may, or an address that sends much would never get
    /// its answers.
    pub(crate) fn may_write(&mut self, token: Token) -> bool {
        let is_spent = self.is_spent(token);
        let round = self.round;
        let Some(address) = self.addresses.get_mut(token) else { return true };
        core::mem::replace(&mut address.written, round) != round || !is_spent
    }

    /// Whether an address has been sent the maximum of octets of events for one round.
    pub(crate) fn has_been_sent_enough(&self, token: Token) -> bool {
        let is_spent = |address: &Address| address.sent_in == self.round && address.sent >= Budget::SENT.bytes;
        self.are_shared() && self.addresses.get(token).is_some_and(is_spent)
    }

    /// Counts octets of events sent to an address.
    pub(crate) fn note_sent(&mut self, token: Token, octets: usize) {
        if !self.are_shared() {
            return;
        }
        let round = self.round;
        if let Some(address) = self.addresses.get_mut(token) {
            let before = if address.sent_in == round { address.sent } else { 0 };
            (address.sent_in, address.sent) = (round, before.saturating_add(octets));
        }
    }

    fn spent(&self, token: Token) -> Duration {
        let address = self.addresses.get(token).filter(|address| address.round == self.round);
        address.map_or(Duration::ZERO, |address| address.spent)
    }
}

/// State of a connection in its lane's rounds: its address, its usage of the latest round, and what is still to come.
pub(crate) struct Rounds {
    /// The connection's address on this lane, for its quota.
    pub(crate) quota: Token,
    /// Whether the socket is ready and waits for its address's turn.
    pub(crate) is_deferred: bool,
    /// Whether the connection has used up its budget of a round, and complete messages may wait.
    pub(crate) has_backlog: bool,
    /// Usage in the latest round.
    pub(crate) usage: RoundUsage,
    /// Whether the connection is queued to be written to.
    pub(crate) is_due: bool,
    /// Interest last set in the poll.
    pub(crate) interest: Interest,
}

impl Rounds {
    /// State of a new connection, for which the poll is to report `interest`.
    pub(crate) fn new(quota: Token, interest: Interest) -> Self {
        Self { quota, is_deferred: false, has_backlog: false, usage: RoundUsage::default(), is_due: false, interest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUOTA: Duration = Duration::from_micros(250);

    fn quotas() -> Quotas {
        Quotas::new(Budget::of_connection(1024, QUOTA))
    }

    fn ip(last: u8) -> IpAddr {
        [127, 0, 0, last].into()
    }

    fn work(number: u64) -> Work {
        Work::Resume(Socket::of_datum(number))
    }

    /// Serves one round in which each thing takes so long. What was served, by the number of its address and of the thing.
    fn round(quotas: &mut Quotas, each: Duration) -> Vec<Work> {
        quotas.begin_round(false);
        let mut served = Vec::new();
        for _ in 0..quotas.queued_addresses() {
            let Some((token, waiting)) = quotas.next_address() else { break };
            for _ in 0..waiting {
                served.extend(quotas.take(token));
                if quotas.binds() && quotas.charge(token, each) {
                    break;
                }
            }
            quotas.end_service(token);
        }
        served
    }

    #[test]
    fn an_address_with_many_connections_gives_way_to_another_and_all_are_served_in_their_order() {
        let mut quotas = quotas();
        let (many, one) = (quotas.arrive(ip(2)), quotas.arrive(ip(1)));
        (0..7).for_each(|number| quotas.defer(many, work(number)));
        quotas.defer(one, work(100));
        let each = Duration::from_micros(100);
        assert_eq!(round(&mut quotas, each), [work(0), work(1), work(2), work(100)]);
        quotas.defer(one, work(101));
        quotas.defer(many, work(7));
        assert_eq!(round(&mut quotas, each), [work(3), work(4), work(5), work(101)]);
        assert_eq!(round(&mut quotas, each), [work(6), work(7)]);
        assert!(quotas.is_idle());
    }

    #[test]
    fn nothing_is_deferred_while_all_connections_are_from_one_address() {
        let mut quotas = quotas();
        let only = quotas.arrive(ip(1));
        assert_eq!(quotas.arrive(ip(1)), only);
        (0..100).for_each(|number| quotas.defer(only, work(number)));
        assert_eq!(round(&mut quotas, Duration::from_secs(1)).len(), 100);
        // The other comes, and goes.
        let other = quotas.arrive(ip(2));
        (0..3).for_each(|number| quotas.defer(only, work(number)));
        assert_eq!(round(&mut quotas, Duration::from_secs(1)).len(), 1);
        quotas.leave(other);
        assert_eq!(round(&mut quotas, Duration::from_secs(1)).len(), 2);
    }

    #[test]
    fn what_was_deferred_for_an_address_that_is_gone_is_forgotten() {
        let mut quotas = quotas();
        let (gone, stays) = (quotas.arrive(ip(2)), quotas.arrive(ip(1)));
        quotas.defer(gone, work(1));
        quotas.defer(stays, work(2));
        quotas.leave(gone);
        assert_eq!(round(&mut quotas, QUOTA), [work(2)]);
        quotas.leave(stays);
        assert!(quotas.by_ip.is_empty() && quotas.addresses.is_empty());
    }

    #[test]
    fn an_address_that_has_had_its_budget_is_written_to_once_in_each_round() {
        let mut quotas = quotas();
        let (busy, _other) = (quotas.arrive(ip(2)), quotas.arrive(ip(1)));
        quotas.begin_round(false);
        assert!(quotas.charge(busy, QUOTA));
        assert_eq!((quotas.may_write(busy), quotas.may_write(busy)), (true, false));
        quotas.begin_round(false);
        assert_eq!((quotas.may_write(busy), quotas.may_write(busy)), (true, true));
    }

    /// Of two connections of an address that has used up its quota, the one with much to be written would come first in every round.
    #[test]
    fn output_that_was_skipped_comes_before_the_rest_of_what_was_written() {
        let mut quotas = quotas();
        let address = quotas.arrive(ip(2));
        let mut rounds = [(); 3].map(|()| Rounds::new(address, Interest::READ));
        let sockets = [1, 2, 3].map(Socket::of_datum);
        for (rounds, socket) in rounds.iter_mut().zip(sockets) {
            quotas.write_later(rounds, socket);
            quotas.write_later(rounds, socket);
        }
        assert_eq!(quotas.due().drain(..).collect::<Vec<_>>(), sockets, "each once");
        rounds[0].is_due = false;
        quotas.write_on(&mut rounds[0], sockets[0]);
        quotas.skip(sockets[1]);
        quotas.skip(sockets[2]);
        assert!(quotas.due().is_empty() && !quotas.is_done());
        quotas.begin_round(false);
        assert_eq!(quotas.due().drain(..).collect::<Vec<_>>(), [sockets[1], sockets[2], sockets[0]]);
        assert!(quotas.is_done());
    }

    #[test]
    fn a_connection_has_what_is_left_to_its_address() {
        let mut quotas = quotas();
        let (one, _other) = (quotas.arrive(ip(2)), quotas.arrive(ip(1)));
        quotas.defer(one, work(1));
        quotas.begin_round(false);
        quotas.next_address();
        quotas.take(one);
        quotas.charge(one, QUOTA / 5);
        assert_eq!(quotas.budget().time, QUOTA / 5 * 4);
        quotas.end_service(one);
        assert_eq!(quotas.budget().time, QUOTA);
        assert!(!quotas.begin_round(true), "a lone thing is not measured");
    }

    /// One event of 60 KB for twenty consumers that do not read kept all other events waiting until all twenty had been written.
    #[test]
    fn an_address_is_sent_so_much_in_a_round_where_there_are_others() {
        let mut quotas = quotas();
        let busy = quotas.arrive(ip(2));
        quotas.begin_round(false);
        quotas.note_sent(busy, 2 * Budget::SENT.bytes);
        assert!(!quotas.has_been_sent_enough(busy), "no other client is there");
        let other = quotas.arrive(ip(1));
        quotas.note_sent(busy, Budget::SENT.bytes - 1);
        assert!(!quotas.has_been_sent_enough(busy));
        quotas.note_sent(busy, 1);
        assert_eq!([busy, other].map(|address| quotas.has_been_sent_enough(address)), [true, false]);
        quotas.begin_round(false);
        assert!(!quotas.has_been_sent_enough(busy));
    }

    /// A supplier that had its answer went on with what was left to the address which had been charged last: nothing, where that was a
    /// client with much to write.
    #[test]
    fn a_client_that_goes_on_has_what_is_left_to_its_own_address() {
        let mut quotas = quotas();
        let (one, other) = (quotas.arrive(ip(2)), quotas.arrive(ip(1)));
        quotas.begin_round(false);
        assert!(quotas.charge(one, QUOTA));
        quotas.resume(other);
        assert_eq!(quotas.budget().time, QUOTA);
        quotas.charge(other, QUOTA / 5);
        quotas.resume(one);
        assert_eq!(quotas.budget().time, Duration::ZERO);
    }
}

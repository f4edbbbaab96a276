//! Datagrams, which may be lost, doubled, or delayed behind later ones.

use core::time::Duration;
use std::collections::VecDeque;
use std::net::SocketAddr;

use crate::simulation::network::{Id, Net, Trouble, Weather};

/// A socket for datagrams.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) address: SocketAddr,
    /// Arrived datagrams, with their times of arrival.
    pub(super) arrived: VecDeque<(Duration, SocketAddr, Vec<u8>)>,
    /// Datagrams under way, with their times of arrival, in any order.
    pub(super) under_way: Vec<(Duration, SocketAddr, Vec<u8>)>,
    /// Lost datagrams, with the times when they would have arrived.
    pub(super) lost: Vec<(Duration, Vec<u8>)>,
    /// Time from which there is room for output.
    pub(super) full_until: Duration,
}

impl Bound {
    /// Whether there is no room for output.
    pub(super) fn is_full(&self, now: Duration) -> bool {
        self.full_until > now
    }
}

impl Net {
    /// Opens a socket for datagrams at an address.
    pub(crate) fn bind(&mut self, address: SocketAddr) -> Id {
        let id = self.id();
        let socket = Bound {
            address,
            arrived: VecDeque::new(),
            under_way: Vec::new(),
            lost: Vec::new(),
            full_until: Duration::ZERO,
        };
        self.bound.insert(id, socket);
        id
    }

    pub(crate) fn unbind(&mut self, socket: Id) {
        self.bound.remove(&socket);
    }

    /// Checks that a socket has room for output. Now and then it has none for a while.
    pub(crate) fn claim_datagram_room(&mut self, socket: Id) -> Result<(), Trouble> {
        if self.happens(self.weather.full) {
            let lasts = self.rng.u64(0..=u64::try_from(self.weather.full_for.as_nanos()).unwrap_or(0));
            let until = self.now + Duration::from_nanos(lasts);
            let bound = self.bound.get_mut(&socket).ok_or(Trouble::Reset)?;
            bound.full_until = bound.full_until.max(until);
            return Err(Trouble::WouldBlock);
        }
        let bound = self.bound.get(&socket).ok_or(Trouble::Reset)?;
        if bound.is_full(self.now) { Err(Trouble::WouldBlock) } else { Ok(()) }
    }

    /// Sends a datagram, which may be lost, doubled, or delayed behind later ones.
    pub(crate) fn send_datagram(&mut self, socket: Id, to: SocketAddr, datagram: &[u8]) {
        let Some(from) = self.bound.get(&socket).map(|socket| socket.address) else { return };
        let copies = 1 + u8::from(self.happens(self.weather.doubled));
        for _ in 0..copies {
            let jitter = self.rng.u64(0..=u64::try_from(self.weather.jitter.as_nanos()).unwrap_or(0) / 100);
            let late = if self.happens(self.weather.delayed) {
                self.rng.u64(0..u64::try_from(Weather::DELAYED_BY.as_nanos()).unwrap_or(1))
            } else {
                0
            };
            let due = self.now + self.weather.latency + Duration::from_nanos(jitter + late);
            let is_lost = copies == 1 && self.happens(self.weather.lost);
            let Some(receiver) = self.bound.values_mut().find(|receiver| receiver.address == to) else { continue };
            if is_lost {
                receiver.lost.push((due, datagram.to_vec()));
            } else {
                receiver.under_way.push((due, from, datagram.to_vec()));
            }
        }
    }

    /// Whether an event with this frequency, per 1,000, happens now.
    pub(super) fn happens(&mut self, of_1000: u16) -> bool {
        of_1000 > 0 && self.rng.u16(0..1_000) < of_1000
    }

    /// The next arrived datagram, its time of arrival, and its sender.
    pub(crate) fn receive_datagram(&mut self, socket: Id) -> Option<(Duration, SocketAddr, Vec<u8>)> {
        self.bound.get_mut(&socket)?.arrived.pop_front()
    }

    /// Whether a datagram has arrived.
    pub(crate) fn has_datagrams(&self, socket: Id) -> bool {
        self.bound.get(&socket).is_some_and(|socket| !socket.arrived.is_empty())
    }

    /// Datagrams lost on the way to a socket that would have arrived since then.
    pub(crate) fn lost_since(&self, socket: Id, since: Duration) -> impl Iterator<Item = &[u8]> {
        let lost = self.bound.get(&socket).into_iter().flat_map(|socket| &socket.lost);
        lost.filter(move |(due, _)| *due >= since).map(|(_, datagram)| datagram.as_slice())
    }
}

//! Datagrams, which may be lost, come twice, or come behind later ones.

use core::time::Duration;
use std::collections::VecDeque;
use std::net::SocketAddr;

use crate::simulation::network::{Id, Net, Trouble, Weather};

/// A socket for datagrams.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) address: SocketAddr,
    pub(super) arrived: VecDeque<(SocketAddr, Vec<u8>)>,
    /// With the time at which each arrives, in any order.
    pub(super) under_way: Vec<(Duration, SocketAddr, Vec<u8>)>,
    /// Those that were lost, and when they would have arrived.
    pub(super) lost: Vec<(Duration, Vec<u8>)>,
}

impl Net {
    /// Takes datagrams at an address.
    pub(crate) fn bind(&mut self, address: SocketAddr) -> Id {
        let id = self.id();
        let socket = Bound { address, arrived: VecDeque::new(), under_way: Vec::new(), lost: Vec::new() };
        self.bound.insert(id, socket);
        id
    }

    pub(crate) fn unbind(&mut self, socket: Id) {
        self.bound.remove(&socket);
    }

    /// Sends a datagram, which may be lost, come twice, or come behind later ones. Now and then there is no room for it.
    pub(crate) fn send_datagram(&mut self, socket: Id, to: SocketAddr, datagram: &[u8]) -> Result<(), Trouble> {
        let from = self.bound.get(&socket).ok_or(Trouble::Reset)?.address;
        if self.happens(u16::from(self.weather.short_percent)) {
            return Err(Trouble::WouldBlock);
        }
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
        Ok(())
    }

    /// Whether something happens that does so often, of 1,000.
    pub(super) fn happens(&mut self, of_1000: u16) -> bool {
        of_1000 > 0 && self.rng.u16(0..1_000) < of_1000
    }

    /// The next datagram that has arrived, and its sender.
    pub(crate) fn receive_datagram(&mut self, socket: Id) -> Option<(SocketAddr, Vec<u8>)> {
        self.bound.get_mut(&socket)?.arrived.pop_front()
    }

    /// Whether one has arrived.
    pub(crate) fn has_datagrams(&self, socket: Id) -> bool {
        self.bound.get(&socket).is_some_and(|socket| !socket.arrived.is_empty())
    }

    /// Those that were lost on the way to a socket, and would have arrived since then.
    pub(crate) fn lost_since(&self, socket: Id, since: Duration) -> impl Iterator<Item = &[u8]> {
        let lost = self.bound.get(&socket).into_iter().flat_map(|socket| &socket.lost);
        lost.filter(move |(due, _)| *due >= since).map(|(_, datagram)| datagram.as_slice())
    }
}

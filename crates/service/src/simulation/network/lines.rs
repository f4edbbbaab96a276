//! Disturbances of the lines between hosts: cuts, stalls, and loss of a host's power.

use core::time::Duration;
use std::net::IpAddr;

use super::{Id, Net, Packet};

impl Net {
    /// Ends of the connections between two hosts, or of all connections of one.
    fn ends_between(&self, one: IpAddr, other: Option<IpAddr>) -> Vec<Id> {
        let hosts = |id: &Id| {
            let end = self.ends.get(id)?;
            // The peer of the other end is this one's host.
            Some((self.ends.get(&end.other)?.peer.ip(), end.peer.ip()))
        };
        let is_one = |(here, there): (IpAddr, IpAddr)| match other {
            Some(other) => (here, there) == (one, other) || (here, there) == (other, one),
            None => here == one,
        };
        self.ends.keys().copied().filter(|id| hosts(id).is_some_and(is_one)).collect()
    }

    /// Resets all connections between two hosts. What is under way is lost.
    pub(crate) fn cut(&mut self, one: IpAddr, other: IpAddr) {
        for id in self.ends_between(one, Some(other)) {
            self.lose_what_is_under_way(id);
            self.send(id, Packet::Reset);
        }
    }

    /// Delays all arrivals on the connections between two hosts until a time.
    pub(crate) fn stall(&mut self, one: IpAddr, other: IpAddr, until: Duration) {
        let now = self.now;
        self.stalls.retain(|(.., until)| *until > now);
        self.stalls.push((one, other, until));
        for id in self.ends_between(one, Some(other)) {
            let Some(end) = self.ends.get_mut(&id) else { continue };
            end.under_way.iter_mut().for_each(|(due, _)| *due = until.max(*due));
        }
    }

    /// When the line to an end continues, if it is stalled.
    pub(super) fn stalled_until(&self, to: Id) -> Duration {
        if self.stalls.is_empty() {
            return Duration::ZERO;
        }
        let Some(end) = self.ends.get(&to) else { return Duration::ZERO };
        let Some(here) = self.ends.get(&end.other).map(|other| other.peer.ip()) else { return Duration::ZERO };
        let there = end.peer.ip();
        let is_its = |(one, other, _): &&(IpAddr, IpAddr, Duration)| {
            (*one, *other) == (here, there) || (*one, *other) == (there, here)
        };
        self.stalls.iter().filter(is_its).map(|(.., until)| *until).max().unwrap_or_default()
    }

    /// Removes a host that lost its power: peers notice only when they send something.
    pub(crate) fn vanish(&mut self, host: IpAddr) {
        for id in self.ends_between(host, None) {
            let other = self.ends.remove(&id).map(|end| end.other);
            other.into_iter().for_each(|other| self.lose_what_is_under_way(other));
        }
    }

    fn lose_what_is_under_way(&mut self, to: Id) {
        let Some(end) = self.ends.get_mut(&to) else { return };
        end.under_way.retain(|(_, packet)| matches!(packet, Packet::Connected));
        end.bytes_under_way = 0;
    }
}

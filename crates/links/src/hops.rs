//! The services that an event passed through, and the check against loops.

/// Maximum number of services that an event passes through, its origin excepted.
pub const HOPS_MAX: usize = 8;

/// The services that an event passed through, its origin excepted, in order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hops {
    services: [u64; HOPS_MAX],
    count: usize,
}

impl Hops {
    /// Creates hops from a list. `None` if it has more than [`HOPS_MAX`].
    #[must_use]
    pub fn new(services: &[u64]) -> Option<Self> {
        let mut hops = Self { services: [0; HOPS_MAX], count: services.len() };
        hops.services.get_mut(..services.len())?.copy_from_slice(services);
        Some(hops)
    }

    /// Appends a service. `None` if there are [`HOPS_MAX`] already.
    #[must_use]
    pub fn with(mut self, service: u64) -> Option<Self> {
        *self.services.get_mut(self.count)? = service;
        self.count += 1;
        Some(self)
    }

    /// The services, in order.
    #[must_use]
    pub fn as_slice(&self) -> &[u64] {
        self.services.get(..self.count).unwrap_or_default()
    }
}

impl PartialEq for Hops {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Hops {}

/// The verdict whether an event may be sent to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// The event is sent.
    Forward,
    /// The event originates from the peer or passed through it.
    Loop,
    /// The event has passed through [`HOPS_MAX`] services already.
    TooFar,
}

/// Whether the service `own` may send an event to the service `peer`. With [`Forwarding::Forward`], the event is sent with the hops that
/// [`onward`] returns.
///
/// A receiver calls it with itself as `peer`, and completes a looping event without effect.
#[must_use]
pub fn may_forward(origin_service: u64, hops: &[u64], own: u64, peer: u64) -> Forwarding {
    if peer == origin_service || hops.contains(&peer) {
        Forwarding::Loop
    } else if own != origin_service && hops.len() >= HOPS_MAX {
        Forwarding::TooFar
    } else {
        Forwarding::Forward
    }
}

/// The hops of an event when the service `own` sends it on. `None` if there would be more than [`HOPS_MAX`].
#[must_use]
pub fn onward(origin_service: u64, hops: &[u64], own: u64) -> Option<Hops> {
    let hops = Hops::new(hops)?;
    if own == origin_service { Some(hops) } else { hops.with(own) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_goes_neither_to_its_origin_nor_to_a_service_it_came_through() {
        assert_eq!(may_forward(1, &[], 1, 2), Forwarding::Forward);
        assert_eq!(may_forward(1, &[2], 3, 1), Forwarding::Loop);
        assert_eq!(may_forward(1, &[2], 3, 2), Forwarding::Loop);
        assert_eq!(may_forward(1, &[2], 3, 4), Forwarding::Forward);
    }

    #[test]
    fn an_event_comes_through_eight_services_and_no_more() {
        let mut hops = Hops::default();
        for own in 2..10 {
            assert_eq!(may_forward(1, hops.as_slice(), own, own + 1), Forwarding::Forward);
            hops = onward(1, hops.as_slice(), own).unwrap();
        }
        assert_eq!(hops.as_slice(), [2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(may_forward(1, hops.as_slice(), 10, 11), Forwarding::TooFar);
        assert_eq!(onward(1, hops.as_slice(), 10), None);
        assert_eq!(Hops::new(&[0; 9]), None);
    }

    #[test]
    fn the_origin_is_no_hop() {
        assert_eq!(onward(1, &[], 1), Some(Hops::default()));
    }
}

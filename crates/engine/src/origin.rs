//! Origins: identities of events on every lane, on disk and in other services.

use core::fmt;
use core::ops::Deref;

/// Identity of an event: the service that admitted it first, that service's process, and the event's number there.
///
/// The lane that admits an event first assigns it, and it stays unchanged from then on: on other lanes, on disk and in
/// other services. Only [`hops`](Self::hops) grows, with each further service that admits the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The service that admitted the event first. Never 0.
    pub service: u64,
    /// Incarnation of the process that admitted the event first: a random number.
    pub era: u64,
    /// The event's number in that process.
    pub number: u64,
    /// Services that the event came through after the first, in order.
    pub hops: Hops,
}

impl Origin {
    /// Most services that an event can come through after the first.
    pub const HOPS_MAX: usize = 8;
}

/// Services that an event came through: a slice of at most [`Origin::HOPS_MAX`].
#[derive(Clone, Copy, Default)]
pub struct Hops {
    all: [u64; Origin::HOPS_MAX],
    used: u8,
}

impl Hops {
    /// Makes a list of these services, cut at [`Origin::HOPS_MAX`].
    #[must_use]
    pub fn new(services: impl IntoIterator<Item = u64>) -> Self {
        let mut hops = Self::default();
        for (place, service) in hops.all.iter_mut().zip(services) {
            *place = service;
            hops.used += 1;
        }
        hops
    }
}

impl Deref for Hops {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        self.all.get(..usize::from(self.used)).unwrap_or_default()
    }
}

impl fmt::Debug for Hops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl PartialEq for Hops {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Hops {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_are_those_that_were_given_and_at_most_eight() {
        assert_eq!(*Hops::new([7, 8, 7]), [7, 8, 7]);
        assert!(Hops::default().is_empty());
        assert_eq!(*Hops::new(1..=9), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_ne!(Hops::new([7, 0]), Hops::new([7]));
    }
}

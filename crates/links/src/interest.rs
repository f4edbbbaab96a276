//! The event types that are subscribed to on one channel, here and beyond its links.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use crate::wire::{TYPES_BYTES_MAX, TYPES_MAX, TypeInterest};

/// Distance at which a subscription is dropped, so that a ring of links does not sustain a subscription without consumers.
pub const DISTANCE_MAX: u8 = 8;

/// The subscriptions of one channel: those of its own consumers, and those in the peers' [`wire::Frame::Interest`].
///
/// Each peer is sent the union of all subscriptions but its own ([`Self::publish_to`]), with the distance of the nearest consumer. The peer
/// adds one link. At [`DISTANCE_MAX`] a subscription is dropped: once the last consumer of a ring is gone, distances rise with each round
/// until then.
///
/// [`wire::Frame::Interest`]: crate::wire::Frame::Interest
#[derive(Debug, Default)]
pub struct Interest {
    own: Subscriptions,
    peers: BTreeMap<u64, Subscriptions>,
}

/// Domain and name of an event type.
type Names = (Box<[u8]>, Box<[u8]>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Subscriptions {
    everything: Option<u8>,
    types: BTreeMap<Names, u8>,
}

/// The subscriptions sent to one peer, ready for the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// The distance of the nearest subscription to all types, if there is one.
    pub everything: Option<u8>,
    /// The types with a nearer subscription, in order: domain, name, distance. At most [`TYPES_MAX`] and [`TYPES_BYTES_MAX`].
    pub types: BTreeMap<Names, u8>,
}

impl Published {
    /// Whether there is no subscription.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.everything.is_none() && self.types.is_empty()
    }

    /// The entries for [`Types::new`](crate::wire::Types::new).
    pub fn entries(&self) -> impl Iterator<Item = TypeInterest<'_>> {
        self.types.iter().map(|((domain, name), distance)| TypeInterest { domain, name, distance: *distance })
    }
}

impl Interest {
    /// Creates an interest without subscriptions.
    #[must_use]
    pub const fn new() -> Self {
        Self { own: Subscriptions::NONE, peers: BTreeMap::new() }
    }

    /// Replaces the subscriptions of the channel's own consumers. True if they changed.
    pub fn set_own<'a>(&mut self, everything: bool, types: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> bool {
        let types = types.into_iter().map(|(domain, name)| TypeInterest { domain, name, distance: 0 });
        let own = Subscriptions::new(everything.then_some(0), types, 0);
        let is_changed = own != self.own;
        self.own = own;
        is_changed
    }

    /// Replaces the subscriptions of a peer, with the distances in its frame. True if they changed. The caller bounds the number of peers.
    pub fn set_peer<'a>(
        &mut self,
        peer: u64,
        everything: Option<u8>,
        types: impl IntoIterator<Item = TypeInterest<'a>>,
    ) -> bool {
        let subscriptions = Subscriptions::new(everything, types, 1);
        let is_changed = self.peers.get(&peer) != Some(&subscriptions);
        self.peers.insert(peer, subscriptions);
        is_changed
    }

    /// Removes a peer and its subscriptions. True if there was one.
    pub fn remove_peer(&mut self, peer: u64) -> bool {
        self.peers.remove(&peer).is_some()
    }

    /// The subscriptions to send to a peer: all except its own. If they do not fit in a frame, a subscription to all types replaces them.
    #[must_use]
    pub fn publish_to(&self, peer: u64) -> Published {
        let others = self.peers.iter().filter(|(id, _)| **id != peer).map(|(_, subscriptions)| subscriptions);
        let sources = || core::iter::once(&self.own).chain(others.clone());
        let mut everything = sources().filter_map(|source| source.everything).min();
        let mut types = BTreeMap::<Names, u8>::new();
        let mut octets = 0;
        for ((domain, name), distance) in sources().flat_map(|source| &source.types) {
            if everything.is_some_and(|everything| everything <= *distance) {
                continue;
            }
            let known = types.entry((domain.clone(), name.clone())).or_insert_with(|| {
                octets += domain.len() + name.len();
                u8::MAX
            });
            *known = (*distance).min(*known);
            if types.len() > TYPES_MAX || octets > TYPES_BYTES_MAX {
                let nearest = sources().flat_map(|source| source.types.values()).min();
                everything = everything.into_iter().chain(nearest.copied()).min();
                types.clear();
                break;
            }
        }
        Published { everything, types }
    }
}

impl Subscriptions {
    const NONE: Self = Self { everything: None, types: BTreeMap::new() };

    /// Creates subscriptions with `further` added to each distance, without those that reach [`DISTANCE_MAX`].
    fn new<'a>(everything: Option<u8>, types: impl IntoIterator<Item = TypeInterest<'a>>, further: u8) -> Self {
        let raised = |distance: u8| distance.checked_add(further).filter(|distance| *distance < DISTANCE_MAX);
        let mut new = Self { everything: everything.and_then(raised), types: BTreeMap::new() };
        for TypeInterest { domain, name, distance } in types {
            if let Some(distance) = raised(distance) {
                let known = new.types.entry((domain.into(), name.into())).or_insert(distance);
                *known = distance.min(*known);
            }
        }
        new
    }
}

//! Addresses of called clients: a map with copies that share unchanged parts.

use std::sync::Arc;

use engine::Peer;
use hashbrown::HashMap;

use super::PeerAddress;

type Shard = Arc<HashMap<Peer, Arc<PeerAddress>>>;

/// Addresses by peer. A copy shares everything, and a later change copies only one shard.
#[derive(Clone, Debug, Default)]
pub struct Peers {
    /// Shards by the peer's number modulo their count, a power of two.
    shards: Vec<Shard>,
    len: usize,
}

/// Maximum average number of peers in a shard.
const PEERS_PER_SHARD: usize = 64;

impl Peers {
    /// The address of a client.
    #[must_use]
    pub fn get(&self, peer: Peer) -> Option<&Arc<PeerAddress>> {
        self.shards.get(self.shard_of(peer))?.get(&peer)
    }

    /// Number of peers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no peers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All peers, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (Peer, &Arc<PeerAddress>)> {
        self.shards.iter().flat_map(|shard| shard.iter().map(|(peer, address)| (*peer, address)))
    }

    /// Peers in `before` that are gone. Compares only shards that differ.
    #[must_use]
    pub fn gone_since(&self, before: &Self) -> Vec<Peer> {
        let same_number = before.shards.len() == self.shards.len();
        let is_other =
            |at: usize, shard: &Shard| !same_number || !self.shards.get(at).is_some_and(|now| Arc::ptr_eq(now, shard));
        let others = before.shards.iter().enumerate().filter(|(at, shard)| is_other(*at, shard));
        others.flat_map(|(_, shard)| shard.keys()).copied().filter(|peer| self.get(*peer).is_none()).collect()
    }

    pub(crate) fn insert(&mut self, peer: Peer, address: Arc<PeerAddress>) {
        if self.len >= self.shards.len() * PEERS_PER_SHARD {
            self.spread();
        }
        let at = self.shard_of(peer);
        if let Some(shard) = self.shards.get_mut(at) {
            self.len += usize::from(Arc::make_mut(shard).insert(peer, address).is_none());
        }
    }

    /// Returns whether the peer existed.
    pub(crate) fn remove(&mut self, peer: Peer) -> bool {
        let at = self.shard_of(peer);
        let Some(shard) = self.shards.get_mut(at).filter(|shard| shard.contains_key(&peer)) else { return false };
        Arc::make_mut(shard).remove(&peer);
        self.len -= 1;
        true
    }

    /// Makes twice as many pieces.
    fn spread(&mut self) {
        let mut shards = vec![HashMap::new(); (2 * self.shards.len()).max(1)];
        for (peer, address) in self.iter() {
            let at = shard_of(peer, shards.len());
            if let Some(shard) = shards.get_mut(at) {
                shard.insert(peer, Arc::clone(address));
            }
        }
        self.shards = shards.into_iter().map(Arc::new).collect();
    }

    fn shard_of(&self, peer: Peer) -> usize {
        shard_of(peer, self.shards.len())
    }
}

fn shard_of(peer: Peer, shards: usize) -> usize {
    usize::try_from(peer.0 & (shards as u64).wrapping_sub(1)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use giop::ior::Ior;

    fn address(number: u64) -> Arc<PeerAddress> {
        let (ior, name, offered) = (Ior::default(), number.to_string(), Arc::default());
        Arc::new(PeerAddress { ior, by: None, name, operation: "", offered })
    }

    #[test]
    fn a_change_leaves_what_was_published_as_it_was_and_shares_the_rest() {
        let mut peers = Peers::default();
        (0..1_000).for_each(|number| peers.insert(Peer(number), address(number)));
        let before = peers.clone();
        assert_eq!(peers.gone_since(&before), []);
        assert!(peers.remove(Peer(500)) && !peers.remove(Peer(5_000)));
        peers.insert(Peer(7), address(70));
        let name = |peers: &Peers, peer| peers.get(Peer(peer)).map(|address| address.name.clone());
        assert_eq!([7, 500].map(|peer| name(&peers, peer)), [Some("70".into()), None]);
        assert_eq!([7, 500].map(|peer| name(&before, peer)), [Some("7".into()), Some("500".into())]);
        assert_eq!((peers.len(), before.len(), peers.iter().count()), (999, 1_000, 999));
        let shared = peers.shards.iter().zip(&before.shards).filter(|(now, before)| Arc::ptr_eq(now, before));
        assert_eq!(shared.count(), peers.shards.len() - 2);
        assert_eq!((peers.gone_since(&before), before.gone_since(&peers)), (vec![Peer(500)], vec![]));
    }

    #[test]
    fn a_client_that_is_gone_is_found_when_there_are_more_chunks_than_before() {
        let mut peers = Peers::default();
        (0..64).for_each(|number| peers.insert(Peer(number), address(number)));
        let before = peers.clone();
        peers.remove(Peer(3));
        (64..200).for_each(|number| peers.insert(Peer(number), address(number)));
        assert!(peers.shards.len() > before.shards.len());
        assert_eq!(peers.gone_since(&before), [Peer(3)]);
        assert_eq!(Peers::default().gone_since(&before).len(), 64);
        assert!(Peers::default().is_empty());
    }
}

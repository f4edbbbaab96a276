//! What filters need of the protocol beside its objects: other servers' filters among the peers, calls to callbacks, the time.

use super::{CallPurpose, ClientCall, Effect, Objects, PeerAddress, Protocol, Thing, octets_of_reference, weights};
use crate::exceptions::Raised;
use engine::{ChannelId, FilterId, Peer};
use giop::ior::Ior;
use std::sync::Arc;

impl Objects {
    pub(crate) fn now(&self) -> u64 {
        self.clock.utc
    }

    pub(crate) fn note_cut(&mut self) {
        self.filters.cuts += 1;
    }

    /// Whether there is a filter, or mapping filter, with these numbers in its key.
    pub(super) fn has_filter(&self, channel: ChannelId, nonce: u128, filter: FilterId, maps: bool) -> bool {
        self.filters.channel(filter) == Some(channel)
            && self.filters.is_mapping(filter) == maps
            && self.keys.nonces.get(&channel).is_some_and(|nonces| nonces.objects.of_filter(channel, filter) == nonce)
    }

    /// An object of another server that the event path is to call.
    pub(crate) fn add_peer(&mut self, address: PeerAddress) -> Result<Peer, Raised> {
        let claim = self.ledger.charge_octets(weights::CALLBACK + octets_of_reference(&address.ior))?;
        let peer = self.next_peer();
        self.clients.called.insert(peer, Arc::new(address));
        self.clients.called_changed = true;
        self.adjust(Thing::Remote(peer), claim);
        Ok(peer)
    }

    pub(crate) fn peer(&self, peer: Peer) -> Option<&PeerAddress> {
        self.clients.called.get(peer).map(AsRef::as_ref)
    }

    /// Forgets a peer that is not going to be called any more.
    pub(crate) fn drop_peer(&mut self, peer: Peer) {
        self.ledger.remove(Thing::Remote(peer));
        if self.clients.called.remove(peer) {
            self.clients.called_changed = true;
            self.effects.push_back(Effect::ReleasePeer(peer));
        }
    }

    /// Notifies a filter's callback of other event types.
    pub(crate) fn tell_callback(&mut self, filter: FilterId, callback: u32, to: Ior, body: Vec<u8>) {
        let client_call = ClientCall(CallPurpose::FilterChange { filter, callback });
        self.effects.push_back(Effect::Ask { client_call, to, by: None, operation: "subscription_change", body });
    }
}

impl Protocol {
    /// Tells the time of the world, for the run-time variable `$curtime` and for limits that are points in time: in 100 ns since 15
    /// October 1582, UTC, as `TimeBase::TimeT`. Without it that is when it is.
    pub fn handle_utc(&mut self, now: u64) {
        self.objects.clock.utc = now;
    }

    /// How many evaluations that clients asked for were cut, because of their time or their steps, since this was last
    /// asked.
    pub fn take_filter_cuts(&mut self) -> u64 {
        core::mem::take(&mut self.objects.filters.cuts)
    }
}

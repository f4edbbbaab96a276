//! The random numbers in object keys: their source, and the one of each object.

use crate::table::AdminKey;
use engine::{AdminId, ChannelId, FilterId, ProxyId, ProxyKey, Side};
use hashbrown::HashMap;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::sync::Arc;
use topology as t;

/// Largest number in keys before they had 128 bits.
const FORMER_MAX: u128 = u32::MAX as u128;

/// Source of the random numbers in object keys.
#[derive(Clone, Copy, Debug)]
pub enum KeyNumbers {
    /// Unpredictable numbers of 128 bits from the operating system's generator.
    Drawn(fn() -> u128),
    /// Numbers determined by a seed, for tests.
    Seeded(u64),
}

/// Generator of the numbers of one protocol.
#[derive(Debug)]
pub(super) enum Drawing {
    Drawn(fn() -> u128),
    Seeded(fastrand::Rng),
}

impl From<KeyNumbers> for Drawing {
    fn from(source: KeyNumbers) -> Self {
        match source {
            KeyNumbers::Drawn(draw) => Self::Drawn(draw),
            KeyNumbers::Seeded(seed) => Self::Seeded(fastrand::Rng::with_seed(seed)),
        }
    }
}

impl Drawing {
    /// A number outside of the range that keys had before 128 bits.
    pub(super) fn next(&mut self) -> u128 {
        let drawn = match self {
            Self::Drawn(draw) => draw(),
            Self::Seeded(random) => random.u128(..),
        };
        // One of 2^96 would be taken for a former one.
        if drawn > FORMER_MAX { drawn } else { drawn | 1 << 127 }
    }
}

/// The keys of objects: their random numbers, and aliases of proxies.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) drawing: Drawing,
    pub(super) nonces: BTreeMap<ChannelId, Nonces>,
    /// Whether the numbers in channels' keys have changed since they were published.
    pub(super) has_changed: bool,
    pub(super) aliases: Aliases,
}

impl Keys {
    pub(super) fn new(source: KeyNumbers) -> Self {
        let (nonces, aliases) = (BTreeMap::new(), Aliases::default());
        Self { drawing: Drawing::from(source), nonces, has_changed: false, aliases }
    }
}

/// Aliases: keys of earlier proxies, and the proxies they lead to now.
#[derive(Debug, Default)]
pub(super) struct Aliases {
    /// The aliases, shared with the lanes.
    leads_to: Arc<HashMap<ProxyKey, ProxyKey>>,
    /// The oldest first.
    of: HashMap<ProxyKey, Vec<ProxyKey>>,
}

impl Aliases {
    pub(super) const fn published(&self) -> &Arc<HashMap<ProxyKey, ProxyKey>> {
        &self.leads_to
    }

    /// The proxy found by a key.
    pub(super) fn resolve(&self, key: ProxyKey) -> ProxyKey {
        self.leads_to.get(&key).copied().unwrap_or(key)
    }

    /// The aliases of a proxy: keys of other proxies that lead to it.
    pub(super) fn of(&self, key: ProxyKey) -> &[ProxyKey] {
        self.of.get(&key).map_or(&[], Vec::as_slice)
    }

    /// A proxy is found by another key, too.
    pub(super) fn add(&mut self, key: ProxyKey, alias: ProxyKey) {
        let all = self.of.entry(key).or_default();
        let leads_to = Arc::make_mut(&mut self.leads_to);
        if all.len() >= ALIASES_MAX {
            leads_to.remove(&all.remove(0));
        }
        all.push(alias);
        leads_to.insert(alias, key);
    }

    /// Forgets a proxy that is gone. Returns the keys that led to it.
    pub(super) fn forget(&mut self, key: ProxyKey) -> Vec<ProxyKey> {
        let Some(all) = self.of.remove(&key) else { return Vec::new() };
        let leads_to = Arc::make_mut(&mut self.leads_to);
        all.iter().for_each(|alias| _ = leads_to.remove(alias));
        all
    }
}

/// Maximum aliases of a proxy. Beyond that, the oldest leads nowhere.
const ALIASES_MAX: usize = 16;

/// The random numbers in a channel's keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nonces {
    /// The number in the channel's key and those of its default admins and its filter factory.
    pub(super) own: u128,
    /// Source of the numbers in the keys of its other admins, its proxies and its filters.
    pub(super) objects: ObjectNonces,
}

/// Source of the numbers in the keys of a channel's admins, proxies and filters. Each object has its own, and none reveals another's: a
/// keyed hash (SipHash-2-4, 128 bits) of the object's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ObjectNonces {
    secret: u128,
    /// Objects stored when keys had 32 bits, the same for all.
    former: Option<t::Former>,
}

impl ObjectNonces {
    /// The source for a new channel.
    pub(super) const fn new(secret: u128) -> Self {
        Self { secret, former: None }
    }

    /// The source for a restored channel. If it was stored before keys had 128 bits, existing objects have their old keys, and new ones get
    /// numbers from `secret`.
    pub(super) fn restored(channel: &t::Channel, next_filter: u32, secret: impl FnOnce() -> u128) -> Self {
        let t::Channel { objects_nonce, former, next_admin, next_proxy, .. } = channel;
        if *objects_nonce > FORMER_MAX {
            return Self { secret: *objects_nonce, former: *former };
        }
        let nonce = u32::try_from(*objects_nonce).unwrap_or_default();
        let former = t::Former { nonce, admins: *next_admin, proxies: *next_proxy, filters: next_filter };
        Self { secret: secret(), former: Some(former) }
    }

    /// The form in a store.
    pub(super) const fn stored(&self) -> (u128, Option<t::Former>) {
        (self.secret, self.former)
    }

    /// The number in the key of a proxy.
    pub(super) fn of_proxy(&self, ProxyKey { channel, proxy: ProxyId(proxy) }: ProxyKey) -> u128 {
        self.of(b'p', channel, proxy, |former| former.proxies)
    }

    /// The number in the key of an admin other than a default admin.
    fn of_admin(&self, AdminKey { channel, side, admin: AdminId(admin) }: AdminKey) -> u128 {
        let kind = if side == Side::Consumers { b'c' } else { b's' };
        self.of(kind, channel, admin, |former| former.admins)
    }

    /// The number in the key of a filter of either kind.
    pub(super) fn of_filter(&self, channel: ChannelId, FilterId(filter): FilterId) -> u128 {
        self.of(b'f', channel, filter, |former| former.filters)
    }

    fn of(&self, kind: u8, channel: ChannelId, number: u32, first_since: impl Fn(&t::Former) -> u32) -> u128 {
        if let Some(former) = self.former.as_ref().filter(|former| number < first_since(former)) {
            return former.nonce.into();
        }
        let mut hasher = SipHasher24::new_with_key(&self.secret.to_le_bytes());
        hasher.write(&[kind]);
        hasher.write(&channel.0.to_le_bytes());
        hasher.write(&number.to_le_bytes());
        let made = hasher.finish128().as_u128();
        if made > FORMER_MAX { made } else { made | 1 << 127 }
    }
}

impl Nonces {
    /// The number in the key of an admin.
    pub(super) fn of_admin(&self, admin: AdminKey) -> u128 {
        if admin.admin == AdminId::DEFAULT { self.own } else { self.objects.of_admin(admin) }
    }
}

/// The numbers in the keys of channels' proxies, for lookups by lanes. A copy shares everything.
#[derive(Clone, Debug, Default)]
pub struct ProxyNonces(Arc<HashMap<ChannelId, ObjectNonces>>);

impl ProxyNonces {
    pub(super) fn of<'a>(channels: impl Iterator<Item = (&'a ChannelId, &'a Nonces)>) -> Self {
        Self(Arc::new(channels.map(|(channel, nonces)| (*channel, nonces.objects)).collect()))
    }

    /// Whether a proxy's key has this number.
    #[must_use]
    pub fn is_of(&self, nonce: u128, proxy: ProxyKey) -> bool {
        self.0.get(&proxy.channel).is_some_and(|objects| objects.of_proxy(proxy) == nonce)
    }

    /// Whether a channel is known.
    #[must_use]
    pub fn has_channel(&self, channel: ChannelId) -> bool {
        self.0.contains_key(&channel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(channel: u32, proxy: u32) -> ProxyKey {
        ProxyKey { channel: ChannelId(channel), proxy: ProxyId(proxy) }
    }

    /// All objects of a channel had one number, and it had 32 bits: a client that knew its own key could write down its neighbours'.
    #[test]
    fn the_key_of_one_object_says_nothing_of_anothers() {
        let nonces = ObjectNonces::new(7 << 64);
        let admin = |side| AdminKey { channel: ChannelId(1), side, admin: AdminId(3) };
        let mut all = vec![nonces.of_proxy(proxy(2, 3)), nonces.of_filter(ChannelId(1), FilterId(3))];
        all.extend((0..1_000).map(|number| nonces.of_proxy(proxy(1, number))));
        all.extend([Side::Consumers, Side::Suppliers].map(|side| nonces.of_admin(admin(side))));
        assert!(all.iter().all(|nonce| *nonce > FORMER_MAX));
        // About half of 128 bits differ between any two.
        let mut seen = all.clone();
        seen.sort_unstable();
        for pair in all.windows(2) {
            assert!((24..=104).contains(&(pair[0] ^ pair[1]).count_ones()), "{:032x} {:032x}", pair[0], pair[1]);
        }
        seen.dedup();
        assert_eq!(seen.len(), all.len());
        assert!(all.iter().all(|nonce| *nonce != nonces.secret));
        assert_ne!(ObjectNonces::new(8 << 64).of_proxy(proxy(1, 0)), nonces.of_proxy(proxy(1, 0)));
    }

    #[test]
    fn a_drawn_number_is_never_taken_for_a_former_one() {
        assert_eq!(Drawing::from(KeyNumbers::Drawn(|| 77)).next(), 77 | 1 << 127);
        assert_eq!(Drawing::from(KeyNumbers::Drawn(|| u128::MAX)).next(), u128::MAX);
        let mut seeded = Drawing::from(KeyNumbers::Seeded(1));
        assert!((0..1_000).all(|_| seeded.next() > FORMER_MAX));
    }
}

//! Clients that were there before the process: which proxies have them, and when they were last heard of.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::time::Duration;

use engine::{ProxyKey, Time};

use crate::protocol::{Objects, Protocol};

/// A proxy restored together with its connected client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoredClient {
    /// The proxy.
    pub key: ProxyKey,
    /// How long ago its client was heard of: by an event that it supplied, a pull, or its answer to a probe. Nothing if not since the
    /// process began. What a consumer that is pushed to has taken is not counted here.
    pub heard: Option<Duration>,
}

/// The proxies.
#[derive(Debug, Default)]
pub(in crate::protocol) struct Former(BTreeSet<ProxyKey>);

impl Former {
    pub(super) fn note(&mut self, key: ProxyKey) {
        self.0.insert(key);
    }

    pub(in crate::protocol) fn contains(&self, key: ProxyKey) -> bool {
        self.0.contains(&key)
    }

    pub(in crate::protocol) fn forget(&mut self, key: ProxyKey) {
        self.0.remove(&key);
    }
}

impl Objects {
    /// Whether a proxy's client has used it since it was restored, by an event that it supplied, or a pull.
    pub(in crate::protocol) fn is_in_use(&self, key: ProxyKey) -> bool {
        self.called(key).is_some()
    }

    /// When it did, which was after the beginning of time.
    fn called(&self, key: ProxyKey) -> Option<Time> {
        let activity = self.hierarchy.proxy(key).ok()?.activity.as_ref()?;
        Some(activity.last()).filter(|last| *last > Time(0))
    }

    /// When a proxy's client was heard of since it was restored.
    fn heard(&self, key: ProxyKey) -> Option<Time> {
        let proxy = self.hierarchy.proxy(key).ok()?;
        let called = self.called(key);
        let answered = proxy.peer.and_then(|peer| self.clients.by_peer.get(&peer)?.health.heard());
        called.max(answered)
    }
}

impl Protocol {
    /// Proxies restored with their clients when the process began, by channel and proxy, behind one of them if that is said.
    pub fn restored_clients(&self, behind: Option<ProxyKey>) -> impl Iterator<Item = RestoredClient> {
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let status = |key: &ProxyKey| RestoredClient {
            key: *key,
            heard: self.objects.heard(*key).map(|then| self.objects.clock.time.since(then)),
        };
        self.lives.former.0.range((from, Bound::Unbounded)).map(status)
    }
}

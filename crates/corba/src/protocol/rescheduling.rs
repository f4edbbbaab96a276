//! How often clients are asked, and how long suppliers may be idle, can be said anew for 65,536 of them with one request: what that
//! means for each is worked out a piece at a time, between other clients' requests.

use super::Protocol;
use crate::table::{AdminKey, Level};
use engine::{AdminId, ChannelId, ProxyId, ProxyKey, Side};
use std::collections::{BTreeSet, VecDeque};

/// Proxies that are looked at before other requests are served.
const BATCH: usize = 256;

/// A channel, or one of its admins.
type Whose = (ChannelId, Option<(Side, AdminId)>);

/// Channels and admins with proxies that need new times.
#[derive(Debug, Default)]
pub(super) struct Rescheduling {
    /// Each with the proxy that was looked at last.
    waiting: VecDeque<(Whose, Option<ProxyId>)>,
    /// Those of them of which none was looked at.
    fresh: BTreeSet<Whose>,
}

impl Rescheduling {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl Protocol {
    /// How often a level's clients are asked has changed, or how long its suppliers may be idle.
    pub(super) fn reschedule(&mut self, level: Level) {
        let whose = match level {
            Level::Channel(channel) => (channel, None),
            Level::Admin(AdminKey { channel, side, admin }) => (channel, Some((side, admin))),
            Level::Proxy(key, _) => return self.reschedule_proxy(key),
        };
        // Where all are looked at already, those that were looked at are looked at once more.
        if self.rescheduling.fresh.insert(whose) {
            self.rescheduling.waiting.push_back((whose, None));
        }
        self.go_on_rescheduling();
    }

    /// Looks at a piece.
    pub(super) fn go_on_rescheduling(&mut self) {
        let Some((whose, behind)) = self.rescheduling.waiting.pop_front() else { return };
        if behind.is_none() {
            self.rescheduling.fresh.remove(&whose);
        }
        let (channel, admin) = whose;
        let batch = self.objects.hierarchy.some_proxies(channel, admin, behind, BATCH);
        let batch: Vec<ProxyId> = batch.into_iter().map(|proxy| proxy.id).collect();
        for proxy in &batch {
            self.reschedule_proxy(ProxyKey { channel, proxy: *proxy });
        }
        if batch.len() == BATCH {
            self.rescheduling.waiting.push_back((whose, batch.last().copied()));
        }
    }

    fn reschedule_proxy(&mut self, key: ProxyKey) {
        let Ok(proxy) = self.objects.hierarchy.proxy(key) else { return };
        let (peer, last) = (proxy.peer, proxy.activity.as_ref().map(engine::Activity::last));
        if let Some(peer) = peer {
            self.probes.schedule(&mut self.objects, peer);
        }
        if let Some(last) = last {
            self.idle.schedule_look(&mut self.objects, key, last);
        }
    }
}

//! Pools: threads assigned to channels, admins and proxies, and the lanes that these are.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Channel, Hierarchy, Proxy, ProxyState};
use crate::routing::LaneUse;
use crate::{
    LaneChange, LaneId, LaneInfo, Place, PoolId, PoolSpec, PriorityModel, ProxyId, ProxyKey, Refusal, SettingsPatch,
};

/// Beyond this many, the ways to share proxies out among a pool's threads are not each worked out.
const SHARINGS_MAX: usize = 1_024;

/// All pools.
#[derive(Debug)]
pub(super) struct Pools {
    pools: BTreeMap<PoolId, Pool>,
    next: u32,
    /// The lanes in use by id, the main lane not among them.
    lanes: BTreeMap<LaneId, LaneInfo>,
    /// Ending lanes with threads that are still there.
    ending: BTreeSet<LaneId>,
    changes: VecDeque<LaneChange>,
    /// Pools that came or that nothing refers to any more, since the last snapshot.
    has_changes: bool,
    main: Arc<[Place]>,
    main_only: Arc<[LaneUse]>,
    published: Arc<[LaneInfo]>,
}

#[derive(Debug)]
struct Pool {
    spec: PoolSpec,
    /// How many levels refer to it.
    users: u32,
    lanes: Vec<LaneId>,
    /// The places of a proxy, by how it is shared out.
    sharings: Vec<Arc<[Place]>>,
}

/// Where a proxy is served, and by which model.
pub(super) type Placement = (Arc<[Place]>, Option<(PriorityModel, i16)>);

impl Default for Pools {
    fn default() -> Self {
        Self {
            pools: BTreeMap::new(),
            next: 0,
            lanes: BTreeMap::new(),
            ending: BTreeSet::new(),
            changes: VecDeque::new(),
            has_changes: false,
            main: Arc::new([Place::MAIN]),
            main_only: Arc::new([LaneUse {
                lane: LaneId::MAIN,
                has_consumers: true,
                hold_events: None,
                full_outbox: None,
            }]),
            published: Arc::new([]),
        }
    }
}

impl Pools {
    fn create(&mut self, spec: PoolSpec, threads_max: u32) -> Result<PoolId, Refusal> {
        check(&spec)?;
        let threads: usize = spec.lanes.iter().map(|lane| usize::from(lane.threads)).sum();
        if self.lanes.len() + threads > threads_max as usize {
            return Err(Refusal::TooManyThreads { limit: threads_max });
        }
        let ids = self.free_lanes(threads).ok_or(Refusal::IdsExhausted)?;
        let id = PoolId(self.next);
        self.next = self.next.checked_add(1).ok_or(Refusal::IdsExhausted)?;
        let priorities = spec.lanes.iter().flat_map(|lane| (0..lane.threads).map(|_| lane.priority));
        for (lane, priority) in ids.iter().zip(priorities) {
            let (discipline, queue_events_max) = (spec.discipline, spec.queue_events_max);
            let info = LaneInfo { id: *lane, pool: id, priority, discipline, queue_events_max };
            self.lanes.insert(*lane, info);
            self.changes.push_back(LaneChange::Started(info));
        }
        let sharings = sharings(&spec, &ids);
        self.pools.insert(id, Pool { spec, users: 0, lanes: ids, sharings });
        self.has_changes = true;
        Ok(id)
    }

    /// The lowest lane ids that are not in use.
    fn free_lanes(&self, count: usize) -> Option<Vec<LaneId>> {
        let is_free = |lane: &LaneId| !self.lanes.contains_key(lane) && !self.ending.contains(lane);
        let free = (1..=u16::MAX).map(LaneId).filter(is_free);
        let ids: Vec<LaneId> = free.take(count).collect();
        (ids.len() == count).then_some(ids)
    }

    fn known(&self, pool: PoolId) -> Result<&Pool, Refusal> {
        self.pools.get(&pool).ok_or(Refusal::PoolNotFound { pool })
    }

    /// Whether there are none, so that everything is on the main lane.
    pub(super) fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    /// What a channel uses that is on the main lane alone.
    pub(super) fn main_only(&self) -> &Arc<[LaneUse]> {
        &self.main_only
    }

    /// Puts the main lane in the place of one that has no thread. Says whether there was such a lane.
    fn replace(&mut self, lane: LaneId) -> bool {
        let Some(pool) = self.lanes.remove(&lane).and_then(|info| self.pools.get_mut(&info.pool)) else { return false };
        pool.lanes.retain(|kept| *kept != lane);
        let replaced =
            |place: &Place| Place { lane: if place.lane == lane { LaneId::MAIN } else { place.lane }, ..*place };
        for places in &mut pool.sharings {
            *places = places.iter().map(replaced).collect();
        }
        self.has_changes = true;
        true
    }

    /// Checks that a level may refer to the pool it names.
    pub(super) fn check(&self, patch: &SettingsPatch) -> Result<(), Refusal> {
        patch.pool.map_or(Ok(()), |pool| self.known(pool).map(|_| ()))
    }

    /// Notes that a level refers to another pool than before.
    pub(super) fn note_change(&mut self, old: Option<PoolId>, new: Option<PoolId>) {
        if old == new {
            return;
        }
        if let Some(pool) = new.and_then(|pool| self.pools.get_mut(&pool)) {
            pool.users += 1;
        }
        if let Some(pool) = old.and_then(|pool| self.pools.get_mut(&pool)) {
            pool.users = pool.users.saturating_sub(1);
            self.has_changes |= pool.users == 0;
        }
    }

    /// Forgets the unused pools with lanes that were not reported.
    fn forget_untold(&mut self) {
        let Self { pools, lanes, changes, .. } = self;
        let is_start = |change: &LaneChange, lane| matches!(change, LaneChange::Started(info) if info.id == lane);
        pools.retain(|_, pool| {
            let is_untold = |lane: &LaneId| changes.iter().any(|change| is_start(change, *lane));
            if pool.users > 0 || !pool.lanes.iter().all(is_untold) {
                return true;
            }
            for lane in &pool.lanes {
                lanes.remove(lane);
                changes.retain(|change| !is_start(change, *lane));
            }
            false
        });
    }

    /// Ends the pools that nothing refers to, if nothing that was published before will be published once more. The lanes as they
    /// are then; the same ones as last time if none changed.
    pub(super) fn apply_changes(&mut self, may_end: bool) -> Arc<[LaneInfo]> {
        if core::mem::take(&mut self.has_changes) {
            self.has_changes = !may_end;
            let Self { pools, lanes, ending, changes, .. } = self;
            pools.retain(|_, pool| {
                let ends = pool.users == 0 && may_end;
                if ends {
                    for lane in &pool.lanes {
                        lanes.remove(lane);
                        ending.insert(*lane);
                        changes.push_back(LaneChange::Ended(*lane));
                    }
                }
                !ends
            });
            if !self.lanes.values().eq(self.published.iter()) {
                self.published = self.lanes.values().copied().collect();
            }
        }
        Arc::clone(&self.published)
    }

    /// Where a proxy is served.
    pub(super) fn placement(&self, channel: &Channel, proxy: &Proxy) -> Placement {
        let pool = pool_of(channel, proxy).and_then(|pool| self.pools.get(&pool));
        // Pulling is served on the main lane, as it is no part of what is promised in real time. So is the channel's history.
        let is_on_main_lane = proxy.kind.pull || proxy.kind.on_main_lane || proxy.start.is_some();
        let Some(pool) = pool.filter(|_| !is_on_main_lane) else {
            return (Arc::clone(&self.main), None);
        };
        let places = pool.sharings.get(bucket_of(proxy.id, pool.sharings.len())).unwrap_or(&self.main);
        (Arc::clone(places), Some((pool.spec.model, pool.spec.server_priority)))
    }
}

/// The pool that counts for a proxy: the nearest.
fn pool_of(channel: &Channel, proxy: &Proxy) -> Option<PoolId> {
    let of_admin = || channel.admin(proxy.side, proxy.admin).ok().and_then(|admin| admin.patch.pool);
    proxy.patch.pool.or_else(of_admin).or(channel.patch().pool)
}

/// One of so many, by a proxy's id: mixed, because ids of one side or of one client often are all odd or all even.
fn bucket_of(proxy: ProxyId, of: usize) -> usize {
    let mixed = u64::from(proxy.0).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    mixed as usize % of.max(1)
}

fn check(spec: &PoolSpec) -> Result<(), Refusal> {
    let bad = |setting, range| Err(Refusal::BadSetting { setting, range });
    if spec.lanes.is_empty() {
        return bad("lanes", "one lane at least");
    }
    if spec.lanes.iter().any(|lane| lane.threads == 0) {
        return bad("threads", "one thread at least in each lane");
    }
    if spec.server_priority < 0 || spec.lanes.iter().any(|lane| lane.priority < 0) {
        return bad("priority", "0 to 32767");
    }
    if !spec.lanes.is_sorted_by(|one, other| one.priority < other.priority) {
        return bad("lanes", "by strictly rising priority");
    }
    if spec.queue_events_max == 0 {
        return bad("queue_events_max", "more than 0 events");
    }
    Ok(())
}

/// The places that proxies have in a pool, one for each way in which they are shared out among its threads.
fn sharings(spec: &PoolSpec, ids: &[LaneId]) -> Vec<Arc<[Place]>> {
    let counts = || spec.lanes.iter().map(|lane| usize::from(lane.threads));
    let evenly = counts().fold(1, |all, threads| all / gcd(all, threads) * threads);
    let ways = if evenly <= SHARINGS_MAX { evenly } else { counts().max().unwrap_or(1) };
    let declared = spec.lanes.iter().rposition(|lane| lane.priority <= spec.server_priority).unwrap_or(0);
    (0..ways)
        .map(|way| {
            let mut first = 0;
            let mut places = Vec::with_capacity(spec.lanes.len());
            for (at, lane) in spec.lanes.iter().enumerate() {
                let threads = usize::from(lane.threads);
                let id = ids.get(first + way % threads).copied().unwrap_or(LaneId::MAIN);
                first += threads;
                let is_lowest = places.is_empty();
                let from_priority = if is_lowest { i16::MIN } else { lane.priority };
                if spec.model == PriorityModel::ClientPropagated || at == declared {
                    places.push(Place { from_priority, lane: id });
                }
            }
            places.into()
        })
        .collect()
}

fn gcd(one: usize, other: usize) -> usize {
    if other == 0 { one.max(1) } else { gcd(other, one % other) }
}

impl Hierarchy {
    /// Makes a pool of lanes. [`poll_lane`](Self::poll_lane) then names them. It is to be given to a channel, an admin
    /// or a proxy by [`SettingsPatch::pool`] before the next [`snapshot`](Self::snapshot), which ends every pool that
    /// nothing refers to.
    ///
    /// # Errors
    ///
    /// [`Refusal::BadSetting`] for a pool without lanes, a lane without threads, priorities out of range or not
    /// strictly rising, or an empty queue; [`Refusal::TooManyThreads`], [`Refusal::IdsExhausted`].
    pub fn create_pool(&mut self, spec: PoolSpec) -> Result<PoolId, Refusal> {
        self.pools.create(spec, self.limits.lane_threads_max)
    }

    /// A pool; `None` if there is none or it has ended.
    #[must_use]
    pub fn pool(&self, pool: PoolId) -> Option<&PoolSpec> {
        self.pools.pools.get(&pool).map(|pool| &pool.spec)
    }

    /// What a channel's steps for filtering one event may be set to.
    #[must_use]
    pub fn filter_steps_max(&self) -> u32 {
        self.limits.filter_steps_max
    }

    /// What the length of a channel's constraints may be set to.
    #[must_use]
    pub fn constraint_bytes_max(&self) -> u32 {
        self.limits.constraint_bytes_max
    }

    /// The most threads that all pools together may have.
    #[must_use]
    pub fn lane_threads_max(&self) -> u32 {
        self.limits.lane_threads_max
    }

    /// Removes the unused pools with lanes that [`poll_lane`](Self::poll_lane) has not reported, as if they had never been made. Others
    /// end with a [`snapshot`](Self::snapshot).
    pub fn forget_untold_pools(&mut self) {
        self.pools.forget_untold();
    }

    /// Has all pools together have so many threads at most from now on. What they have stays. Says how many it was until now.
    pub fn set_lane_threads_max(&mut self, most: u32) -> u32 {
        core::mem::replace(&mut self.limits.lane_threads_max, most)
    }

    /// How many more threads pools may have, before those that nothing refers to have ended.
    #[must_use]
    pub fn lane_threads_left(&self) -> u32 {
        let used = u32::try_from(self.pools.lanes.len()).unwrap_or(u32::MAX);
        self.limits.lane_threads_max.saturating_sub(used)
    }

    /// The next lane that has come with a [`create_pool`](Self::create_pool) or gone with a
    /// [`snapshot`](Self::snapshot), in the order in which they did.
    pub fn poll_lane(&mut self) -> Option<LaneChange> {
        self.pools.changes.pop_front()
    }

    /// The thread of a lane that was to end is gone: its number may be used again.
    pub fn lane_gone(&mut self, lane: LaneId) {
        self.pools.ending.remove(&lane);
    }

    /// There is no thread for a lane: the main lane takes its place, from the next [`snapshot`](Self::snapshot) on and for as long as its
    /// pool exists. To be called before that snapshot is made.
    pub fn lane_unavailable(&mut self, lane: LaneId) {
        if self.pools.replace(lane) {
            self.channels.values_mut().for_each(Channel::note_places_changed);
            self.changed.extend(self.channels.keys());
        }
    }

    /// Checks that a level may refer to the pool that its new patch names, rather than to `old`.
    pub(super) fn check_pool(
        &self,
        channel: &Channel,
        (old, patch): (Option<PoolId>, &SettingsPatch),
        is_beneath: impl Fn(&Proxy) -> bool,
    ) -> Result<(), Refusal> {
        if patch.pool == old {
            return Ok(());
        }
        self.pools.check(patch)?;
        let is_connected = |proxy: &&Proxy| proxy.state != ProxyState::Unconnected && is_beneath(proxy);
        match channel.proxies().find(is_connected) {
            Some(proxy) => Err(Refusal::PoolInUse { proxy: ProxyKey { channel: channel.id(), proxy: proxy.id } }),
            None => Ok(()),
        }
    }

    /// How the priority of a proxy's events chooses their lane, and the priority that its pool declares; `None` for one
    /// without a pool, one that is on the main lane whatever its pool, and one that does not exist.
    #[must_use]
    pub fn priority_model(&self, key: ProxyKey) -> Option<(PriorityModel, i16)> {
        let channel = self.channel(key.channel).ok()?;
        self.pools.placement(channel, channel.proxy(key.proxy).ok()?).1
    }
}

#[cfg(test)]
mod tests;

//! Pools: threads assigned to channels, admins and proxies, and the lanes they run.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Channel, Hierarchy, Proxy, ProxyState};
use crate::routing::LaneUse;
use crate::{
    LaneChange, LaneId, LaneInfo, Place, PoolId, PoolSpec, PriorityModel, ProxyId, ProxyKey, Refusal, SettingsPatch,
};

/// Most distributions of proxies over a pool's threads that are computed in advance.
const SHARINGS_MAX: usize = 1_024;

#[derive(Debug)]
pub(super) struct Pools {
    pools: BTreeMap<PoolId, Pool>,
    next: u32,
    /// Lanes in use by id, without the main lane.
    lanes: BTreeMap<LaneId, LaneInfo>,
    /// Ending lanes with threads that still run.
    ending: BTreeSet<LaneId>,
    changes: VecDeque<LaneChange>,
    /// Whether pools were created or lost their last user since the last snapshot.
    has_changes: bool,
    main: Arc<[Place]>,
    main_only: Arc<[LaneUse]>,
    published: Arc<[LaneInfo]>,
}

#[derive(Debug)]
struct Pool {
    spec: PoolSpec,
    /// Number of levels that use the pool.
    users: u32,
    lanes: Vec<LaneId>,
    /// Places of a proxy, for each distribution over the threads.
    sharings: Vec<Arc<[Place]>>,
}

/// Places of a proxy, and the priority model with the pool's priority.
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

    /// The lowest unused lane ids.
    fn free_lanes(&self, count: usize) -> Option<Vec<LaneId>> {
        let is_free = |lane: &LaneId| !self.lanes.contains_key(lane) && !self.ending.contains(lane);
        let free = (1..=u16::MAX).map(LaneId).filter(is_free);
        let ids: Vec<LaneId> = free.take(count).collect();
        (ids.len() == count).then_some(ids)
    }

    fn known(&self, pool: PoolId) -> Result<&Pool, Refusal> {
        self.pools.get(&pool).ok_or(Refusal::PoolNotFound { pool })
    }

    /// Whether there are no pools, so that everything is on the main lane.
    pub(super) fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    /// Lanes of a channel that uses the main lane alone.
    pub(super) fn main_only(&self) -> &Arc<[LaneUse]> {
        &self.main_only
    }

    /// Replaces a lane without a thread by the main lane. Returns whether the lane existed.
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

    /// Checks that the pool a level names exists.
    pub(super) fn check(&self, patch: &SettingsPatch) -> Result<(), Refusal> {
        patch.pool.map_or(Ok(()), |pool| self.known(pool).map(|_| ()))
    }

    /// Notes that a level changed from one pool to another.
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

    /// Removes the unused pools of which no lane was reported.
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

    /// Ends the pools without users if `may_end`: if no part published earlier will be published again. Returns the
    /// lanes then; the previous list if none changed.
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

    /// Where a proxy is served, and by which priority model.
    pub(super) fn placement(&self, channel: &Channel, proxy: &Proxy) -> Placement {
        let pool = pool_of(channel, proxy).and_then(|pool| self.pools.get(&pool));
        // Pulling is served on the main lane, as no real-time guarantee covers it. So is the channel's history.
        let is_on_main_lane = proxy.kind.pull || proxy.kind.on_main_lane || proxy.start.is_some();
        let Some(pool) = pool.filter(|_| !is_on_main_lane) else {
            return (Arc::clone(&self.main), None);
        };
        let places = pool.sharings.get(bucket_of(proxy.id, pool.sharings.len())).unwrap_or(&self.main);
        (Arc::clone(places), Some((pool.spec.model, pool.spec.server_priority)))
    }
}

/// The pool that applies to a proxy: that of the nearest level.
fn pool_of(channel: &Channel, proxy: &Proxy) -> Option<PoolId> {
    let of_admin = || channel.admin(proxy.side, proxy.admin).ok().and_then(|admin| admin.patch.pool);
    proxy.patch.pool.or_else(of_admin).or(channel.patch().pool)
}

/// A bucket for a proxy, from its id. The id is hashed, because ids of one side or of one client often are all odd or all even.
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

/// Places of proxies in a pool, for each distribution over its threads.
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
    /// Creates a pool of lanes, which [`poll_lane`](Self::poll_lane) then reports. Set it for a channel, an admin or a
    /// proxy by [`SettingsPatch::pool`] before the next [`snapshot`](Self::snapshot), which ends every pool without
    /// users.
    ///
    /// # Errors
    ///
    /// [`Refusal::BadSetting`] for a pool without lanes, a lane without threads, priorities out of range or not
    /// strictly rising, or an empty queue; [`Refusal::TooManyThreads`], [`Refusal::IdsExhausted`].
    pub fn create_pool(&mut self, spec: PoolSpec) -> Result<PoolId, Refusal> {
        self.pools.create(spec, self.limits.lane_threads_max)
    }

    /// A pool; `None` if it does not exist or has ended.
    #[must_use]
    pub fn pool(&self, pool: PoolId) -> Option<&PoolSpec> {
        self.pools.pools.get(&pool).map(|pool| &pool.spec)
    }

    /// Highest `filter_steps_max` of a channel.
    #[must_use]
    pub fn filter_steps_max(&self) -> u32 {
        self.limits.filter_steps_max
    }

    /// Highest `constraint_bytes_max` of a channel.
    #[must_use]
    pub fn constraint_bytes_max(&self) -> u32 {
        self.limits.constraint_bytes_max
    }

    /// Most threads of all pools together.
    #[must_use]
    pub fn lane_threads_max(&self) -> u32 {
        self.limits.lane_threads_max
    }

    /// Removes the unused pools of which [`poll_lane`](Self::poll_lane) has reported no lane. Other unused pools end
    /// with a [`snapshot`](Self::snapshot).
    pub fn forget_untold_pools(&mut self) {
        self.pools.forget_untold();
    }

    /// Sets the most threads of all pools together and returns the previous limit. Existing threads stay.
    pub fn set_lane_threads_max(&mut self, most: u32) -> u32 {
        core::mem::replace(&mut self.limits.lane_threads_max, most)
    }

    /// Threads that new pools may have, while unused pools that have not ended still count.
    #[must_use]
    pub fn lane_threads_left(&self) -> u32 {
        let used = u32::try_from(self.pools.lanes.len()).unwrap_or(u32::MAX);
        self.limits.lane_threads_max.saturating_sub(used)
    }

    /// The next lane that [`create_pool`](Self::create_pool) started or a [`snapshot`](Self::snapshot) ended, in that
    /// order.
    pub fn poll_lane(&mut self) -> Option<LaneChange> {
        self.pools.changes.pop_front()
    }

    /// Notes that the thread of an ended lane is gone: its number may be reused.
    pub fn lane_gone(&mut self, lane: LaneId) {
        self.pools.ending.remove(&lane);
    }

    /// Notes that no thread could be started for a lane: the main lane replaces it from the next
    /// [`snapshot`](Self::snapshot) on, while its pool exists. To be called before that snapshot is made.
    pub fn lane_unavailable(&mut self, lane: LaneId) {
        if self.pools.replace(lane) {
            self.channels.values_mut().for_each(Channel::note_places_changed);
            self.changed.extend(self.channels.keys());
        }
    }

    /// Checks that a level may change from the pool `old` to that of its new patch.
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

    /// How the priority of a proxy's events chooses their lane, and the priority that its pool declares; `None` if it
    /// has no pool, is on the main lane whatever its pool, or does not exist.
    #[must_use]
    pub fn priority_model(&self, key: ProxyKey) -> Option<(PriorityModel, i16)> {
        let channel = self.channel(key.channel).ok()?;
        self.pools.placement(channel, channel.proxy(key.proxy).ok()?).1
    }
}

#[cfg(test)]
mod tests;

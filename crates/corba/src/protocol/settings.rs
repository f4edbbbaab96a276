//! Settings and subscriptions by level: a level's own, and those in effect.

use super::clients::side_name;
use super::validation_errors::Validation;
use super::{Effect, Objects, Thing, octets_of_correlation, octets_of_types};
use crate::event::FORM_STRUCTURED;
use crate::exceptions::{Raised, UserException};
use crate::log_lines::log_line;
use crate::proxy_kind::ProxyKind;
use crate::qos::{
    Effective, ErrorCode, Pool, PoolKind, Profile, PropertyError, PropertyValue, RequestedProperties, Unknown, WHEN,
};
use crate::table::{AdminKey, Level};
use accounts::{Charge, Resource, Spent, SpentBy};
use engine::{
    ChannelId, EventType, FilterRef, FilterTarget, HierarchyPart, OutboxSettings, PoolId, Proxy, ProxyKey, Refusal,
    SettingsPatch, Side, SubscriptionTarget, SupplierSettings, Topics,
};
use filter::correlation::Correlation;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Properties that the engine does not store, or stores in another form.
#[derive(Debug, Default)]
pub(super) struct Properties {
    /// The property by which each pool was set.
    pool_kinds: BTreeMap<PoolId, PoolKind>,
    /// Unknown properties of objects that have any.
    pub(super) unknown: BTreeMap<Thing, Unknown>,
    /// Channels with the profile `RealTime`.
    pub(super) real_time: BTreeSet<ChannelId>,
    /// Whether it was logged that `Persistent` has no effect without a store.
    reported_without_store: bool,
}

impl Objects {
    /// A level's own properties, as the base for a change.
    pub(crate) fn requested(&self, level: Level) -> Result<RequestedProperties, Raised> {
        let channel = self.hierarchy.channel(level.channel())?;
        let patch = match level {
            Level::Channel(_) => *channel.patch(),
            Level::Admin(AdminKey { channel, side, admin }) => self.hierarchy.admin(channel, side, admin)?.patch,
            Level::Proxy(proxy, _) => *self.hierarchy.proxy(proxy)?.patch,
        };
        Ok(RequestedProperties {
            takes_unknown: self.compatibility().ignore_unknown_properties,
            takes_persistent: self.compatibility().persistent_without_store,
            unknown: self.unknown_at(level).clone(),
            most: self.most(),
            patch,
            limits: *channel.limits(),
            correlation: self.correlation(level)?,
            pool: patch.pool.and_then(|pool| self.pool(pool)),
            discipline: None,
            profile: self.profile(level.channel()),
            topics: channel.topics().as_ref().clone(),
        })
    }

    /// The properties in effect at a level: its own, inherited or default.
    pub(crate) fn effective(&self, level: Level) -> Result<Effective, Raised> {
        let channel = self.hierarchy.channel(level.channel())?;
        let admin = match level {
            Level::Channel(_) => None,
            Level::Admin(admin) => Some(admin),
            Level::Proxy(proxy, _) => Some(self.admin_of(proxy)?),
        };
        let pulls = matches!(level, Level::Proxy(proxy, _) if self.proxy_kind(proxy)?.pull);
        let mut patches = vec![*channel.patch()];
        if let Some(AdminKey { channel, side, admin }) = admin {
            patches.push(self.hierarchy.admin(channel, side, admin)?.patch);
        }
        if let Level::Proxy(proxy, _) = level {
            patches.push(*self.hierarchy.proxy(proxy)?.patch);
        }
        let settings = match level {
            // What is connected there has a say in it, too.
            Level::Proxy(proxy, _) => self.hierarchy.effective(proxy)?,
            _ => patches.iter().fold(OutboxSettings::default(), |settings, patch| patch.over(settings)),
        };
        Ok(Effective {
            settings,
            supplier: patches.iter().fold(SupplierSettings::default(), |settings, patch| patch.over_supplier(settings)),
            limits: *channel.limits(),
            correlation: self.correlation(level)?,
            pool: patches.iter().rev().find_map(|patch| patch.pool).filter(|_| !pulls).and_then(|pool| self.pool(pool)),
            profile: self.profile(channel.id()),
            topics: channel.topics().as_ref().clone(),
        })
    }

    /// The correlation of a consumer.
    fn correlation(&self, level: Level) -> Result<Option<Arc<Correlation>>, Raised> {
        let Level::Proxy(proxy, _) = level else { return Ok(None) };
        Ok(self.hierarchy.proxy(proxy)?.correlation.clone())
    }

    /// Number of lanes that a consumer has outboxes on.
    pub(crate) fn lanes_of(&self, proxy: ProxyKey) -> u32 {
        if self.hierarchy.proxy(proxy).is_ok_and(|proxy| proxy.kind.on_main_lane) {
            return 1;
        }
        let pool = self.effective(Level::Proxy(proxy, Side::Consumers)).ok().and_then(|effective| effective.pool);
        pool.map_or(1, |pool| pool.threads())
    }

    /// The reason why a level has no correlation; `None` if it can have one.
    pub(crate) fn is_without_sets(&self, level: Option<Level>) -> Result<Option<&'static str>, Raised> {
        let proxy = match level {
            Some(Level::Proxy(proxy, Side::Consumers)) if self.can_tell_sets(proxy)? => proxy,
            _ => return Ok(Some("it is for proxies of consumers that take sequences, or structured events over IIOP")),
        };
        let AdminKey { channel, side, admin } = self.admin_of(proxy)?;
        for target in [FilterTarget::Proxy(proxy), FilterTarget::Admin { channel, side, admin }] {
            if self.has_remote_filter(target)? {
                return Ok(Some("it or its admin has a filter that a client implements, which would tear sets apart"));
            }
        }
        Ok(None)
    }

    /// Whether an admin or a proxy has a filter that a client implements.
    pub(crate) fn has_remote_filter(&self, target: FilterTarget) -> Result<bool, Refusal> {
        Ok(self.hierarchy.filters(target)?.iter().any(|(_, filter)| matches!(filter, FilterRef::Remote(_))))
    }

    /// Whether a proxy's client is told which events are a set: by a sequence, or by the headers of structured events.
    fn can_tell_sets(&self, proxy: ProxyKey) -> Result<bool, Raised> {
        let is_structured = self.proxy_kind(proxy)?.form() == FORM_STRUCTURED;
        // Other protocols' clients get their events without such headers.
        Ok(is_structured && !self.hierarchy.proxy(proxy)?.kind.on_main_lane)
    }

    /// The unknown properties of a level.
    pub(crate) fn unknown_at(&self, level: Level) -> &Unknown {
        static NONE: Unknown = Unknown::none();
        self.properties.unknown.get(&level.into()).unwrap_or(&NONE)
    }

    /// Stores a level's properties that are unknown or without effect, and reports those that lack a store.
    pub(super) fn take_unknown(&mut self, level: Level, unknown: Unknown) {
        if unknown.lacking_store() > self.unknown_at(level).lacking_store() {
            let is_first = !core::mem::replace(&mut self.properties.reported_without_store, true);
            let by = self.ledger.principal().map(|who| who.ip());
            self.effects.push_back(Effect::WithoutStore { of: self.level_name(level), by, is_first });
        }
        self.set_unknown(level.into(), unknown);
    }

    /// A level's name in logs.
    fn level_name(&self, level: Level) -> String {
        match level {
            Level::Channel(channel) => {
                let name = self.names.channel_name(channel).map(|name| format!(" \"{}\"", name.escape_debug()));
                format!("channel {}{}", channel.0, name.unwrap_or_default())
            }
            Level::Admin(AdminKey { channel, side, admin }) => {
                format!("{} admin {} of channel {}", side_name(side), admin.0, channel.0)
            }
            Level::Proxy(proxy, side) => self.name(side_name(side), proxy),
        }
    }

    pub(super) fn set_unknown(&mut self, thing: Thing, unknown: Unknown) {
        if unknown.is_empty() {
            self.properties.unknown.remove(&thing);
        } else {
            self.properties.unknown.insert(thing, unknown);
        }
    }

    /// Validation errors for settings of a level, or of a channel to be made.
    pub(crate) fn validation_errors(
        &self,
        level: Option<Level>,
        requested: &RequestedProperties,
    ) -> Result<Vec<PropertyError>, Raised> {
        Validation { objects: self, level, requested }.errors()
    }

    /// Refuses a change with validation errors. A pool for which there are no threads counts as a reached limit.
    pub(crate) fn validate(&mut self, level: Option<Level>, requested: &RequestedProperties) -> Result<(), Raised> {
        let validation_errors = self.validation_errors(level, requested)?;
        if validation_errors.is_empty() {
            return Ok(());
        }
        let pool = requested.pool.as_ref().map(|pool| pool.kind.property());
        let lacks_threads = |property_error: &PropertyError| {
            Some(property_error.name()) == pool
                && matches!(property_error.code(), ErrorCode::UnsupportedValue | ErrorCode::UnavailableValue)
        };
        if validation_errors.iter().any(lacks_threads) {
            let _ = self.ledger.note_spent(Spent { resource: Resource::Threads, by: SpentBy::All });
        }
        Err(UserException::UnsupportedQoS(validation_errors).into())
    }

    /// Refuses a feature that a channel's profile excludes, with the reason in the log.
    fn refuse_in_real_time(&self, channel: ChannelId, what: &str, why: &str) -> bool {
        let is_refused = self.profile(channel) == Profile::RealTime;
        if is_refused {
            log_line!(Info, "refused {what} in channel {}, which has Profile RealTime: {why}", channel.0);
        }
        is_refused
    }

    /// Whether a channel may have a proxy of that kind.
    pub(super) fn admit_kind(&self, channel: ChannelId, kind: ProxyKind) -> Result<(), Raised> {
        let why = "when it is asked is for its client, or the next PullInterval, to say";
        if !kind.pull || !self.refuse_in_real_time(channel, "a proxy that pulls or is pulled from", why) {
            return Ok(());
        }
        // The Event Service's operations have no exception for it.
        if kind.is_plain() {
            return Err(Raised::limit());
        }
        let value = PropertyValue::Text(Profile::RealTime.name().to_owned());
        Err(UserException::AdminLimitExceeded { name: "Profile", value }.into())
    }

    /// Checks that an admin or a proxy may have filters implemented by clients.
    pub(crate) fn admit_remote_filter(&self, target: FilterTarget) -> Result<(), Raised> {
        let why = "an event would wait for a client's answer";
        if self.refuse_in_real_time(target.channel(), "a filter that a client implements", why) {
            return Err(Raised::limit());
        }
        let gets_sets = match target {
            FilterTarget::Proxy(key) => Some(key).filter(|key| self.has_correlation(*key)),
            FilterTarget::Admin { channel, side, admin } => {
                let proxies = self.hierarchy.proxies(channel, side, admin)?;
                let mut keys = proxies.map(|proxy| ProxyKey { channel, proxy: proxy.id });
                keys.find(|key| self.has_correlation(*key))
            }
        };
        let Some(proxy) = gets_sets else { return Ok(()) };
        log_line!(Info, "refused a filter that a client implements: {proxy} has {WHEN}, and it would tear sets apart");
        Err(Raised::limit())
    }

    fn has_correlation(&self, key: ProxyKey) -> bool {
        // Subscriptions of other protocols may be anybody's, and bar no filter: their events tell which are missing.
        self.hierarchy.proxy(key).is_ok_and(|proxy| proxy.correlation.is_some() && !proxy.kind.on_main_lane)
    }

    /// A pool in the form that clients read and set.
    fn pool(&self, id: PoolId) -> Option<Pool> {
        let kind = self.properties.pool_kinds.get(&id).copied().unwrap_or(PoolKind::Lanes);
        self.hierarchy.pool(id).map(|spec| Pool { kind, spec: spec.clone() })
    }

    /// A channel's profile.
    pub(crate) fn profile(&self, channel: ChannelId) -> Profile {
        if self.properties.real_time.contains(&channel) { Profile::RealTime } else { Profile::Standard }
    }

    pub(super) fn set_profile(&mut self, channel: ChannelId, profile: Profile) {
        match profile {
            Profile::Standard => self.properties.real_time.remove(&channel),
            Profile::RealTime => self.properties.real_time.insert(channel),
        };
    }

    /// Sets the topics of a channel's events.
    pub(super) fn set_topics(&mut self, channel: ChannelId, topics: Topics) -> Result<(), Raised> {
        if **self.hierarchy.channel(channel)?.topics() != topics {
            self.hierarchy.set_topics(channel, topics)?;
        }
        Ok(())
    }

    /// The settings for a level with the former pool `former`. The same pool, requested again, stays.
    ///
    /// Also returns the charge for a new pool's threads.
    pub(super) fn with_pool(
        &mut self,
        former: Option<PoolId>,
        requested: &RequestedProperties,
    ) -> Result<(SettingsPatch, Option<Charge>), Raised> {
        let (pool, threads) = match &requested.pool {
            None => (former, None),
            Some(pool) if former.and_then(|former| self.pool(former)).as_ref() == Some(pool) => (former, None),
            Some(pool @ Pool { kind, spec }) => {
                let threads = self.ledger.charge(Resource::Threads, pool.threads().into())?;
                let id = self.hierarchy.create_pool(spec.clone())?;
                let Self { properties: Properties { pool_kinds, .. }, hierarchy, .. } = self;
                pool_kinds.retain(|pool, _| hierarchy.pool(*pool).is_some());
                pool_kinds.insert(id, *kind);
                (Some(id), threads)
            }
        };
        Ok((SettingsPatch { pool, ..requested.patch }, threads))
    }

    /// Notes that the proxies of a level may have become persistent, or not.
    fn note_proxies_of(&mut self, level: Level) -> Result<(), Raised> {
        let channel = self.hierarchy.channel(level.channel())?;
        let proxies = channel.proxies().filter(|proxy| level.includes(proxy)).map(|proxy| proxy.id);
        for proxy in proxies.collect::<Vec<_>>() {
            self.hierarchy.note_changed_part(HierarchyPart::Proxy(ProxyKey { channel: level.channel(), proxy }));
        }
        Ok(())
    }

    pub(crate) fn subscribe(&mut self, level: Level, added: &[EventType], removed: &[EventType]) -> Result<(), Raised> {
        let target = match level {
            Level::Admin(AdminKey { channel, side, admin }) => SubscriptionTarget::Admin { channel, side, admin },
            Level::Proxy(proxy, _) => SubscriptionTarget::Proxy(proxy),
            Level::Channel(_) => return Err(Raised::internal()),
        };
        let octets = octets_of_types(added);
        let change = |protocol: &mut Self| Ok(protocol.hierarchy.subscribe(target, added, removed)?);
        // What suppliers offer no event is held against.
        let (Level::Admin(AdminKey { side: Side::Consumers, .. }) | Level::Proxy(_, Side::Consumers)) = level else {
            return self.change_thing(level.into(), octets, change);
        };
        let claim = self.ledger.claim_types(level.into(), added)?;
        self.change_thing(level.into(), octets, change)?;
        self.adjust_types(level.into(), claim);
        Ok(())
    }

    /// Applies the requested properties of a level. Returns whether the probe times of its clients change.
    pub(super) fn set(&mut self, level: Level, requested: RequestedProperties) -> Result<bool, Raised> {
        // Beyond the properties that every level has room for there are a channel's topics.
        let topics = requested.topics.by_type.iter().map(|(kind, _)| kind);
        let octets = if matches!(level, Level::Channel(_)) { octets_of_types(topics) } else { 0 };
        let lanes = match (level, &requested.pool) {
            (_, Some(pool)) => pool.threads(),
            (Level::Proxy(proxy, _), None) => self.lanes_of(proxy),
            _ => 1,
        };
        let correlation = requested.correlation.as_deref().map_or(0, |when| octets_of_correlation(when, lanes));
        let octets = octets + requested.unknown.octets() + correlation;
        self.change_thing(level.into(), octets, |objects| objects.set_settings(level, requested))
    }

    fn set_settings(&mut self, level: Level, requested: RequestedProperties) -> Result<bool, Raised> {
        let pace = |patch: SettingsPatch| {
            let expiry = (patch.connection_reliability, patch.connection_expiry);
            (patch.probe_interval, patch.give_up_after, patch.supplier_linger, expiry)
        };
        let former = self.requested(level)?.patch;
        if former.connection_reliability != requested.patch.connection_reliability {
            self.note_proxies_of(level)?;
        }
        let reschedules = pace(former) != pace(requested.patch);
        let (patch, threads) = self.with_pool(former.pool, &requested)?;
        match level {
            Level::Channel(channel) => {
                requested.limits.check()?;
                self.hierarchy.set_channel_settings(channel, patch)?;
                self.hierarchy.set_limits(channel, requested.limits)?;
                self.set_profile(channel, requested.profile);
                self.set_topics(channel, requested.topics)?;
            }
            Level::Admin(AdminKey { channel, side, admin }) => {
                self.hierarchy.set_admin_settings(channel, side, admin, patch)?;
            }
            Level::Proxy(proxy, _) => {
                self.hierarchy.set_proxy_settings(proxy, patch)?;
                if self.correlation(level)? != requested.correlation {
                    self.hierarchy.set_correlation(proxy, requested.correlation)?;
                }
            }
        }
        self.ledger.note_threads(level.into(), threads);
        self.take_unknown(level, requested.unknown);
        Ok(reschedules)
    }
}

impl Level {
    /// Whether a proxy of its channel is at this level or below it.
    pub(super) fn includes(self, proxy: &Proxy) -> bool {
        match self {
            Self::Channel(_) => true,
            Self::Admin(AdminKey { side, admin, .. }) => (proxy.side, proxy.admin) == (side, admin),
            Self::Proxy(key, _) => proxy.id == key.proxy,
        }
    }

    pub(crate) fn channel(self) -> ChannelId {
        match self {
            Self::Channel(channel)
            | Self::Admin(AdminKey { channel, .. })
            | Self::Proxy(ProxyKey { channel, .. }, _) => channel,
        }
    }
}

//! Restoration of a protocol: every object gets its former number, so that clients' references stay valid.

use super::convert::{
    event_types_from, events_from, limits_from, profile_from, reference_from, settings_from, topics_from, with_defaults,
};
use crate::exceptions::Raised;
use crate::protocol::clients::side_name;
use crate::protocol::{Named, Nonces, ObjectNonces, Objects, PeerAddress, Protocol, Thing, octets_of_correlation};
use crate::proxy_kind::ProxyKind;
use crate::qos::{RequestedProperties, Unknown, correlation};
use crate::references::log_name;
use crate::table::{AdminKey, Level};
use accounts::Account;
use core::fmt;
use engine::{
    AdminId, ChannelId, ChannelLimits, EventType, FilterId, FilterRef, FilterTarget, Mapping, Numbered, ProxyKey,
    Reliability, SettingsPatch, Side, SubscriptionTarget,
};
use giop::ior::Ior;
use std::sync::Arc;
use topology as t;
use topology::Topology;

/// Why a topology cannot be restored. Nothing was changed then.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotRestored {
    /// The protocol has been used: it has more than an empty default channel.
    InUse,
    /// An object cannot be made.
    Refused {
        /// The object.
        what: String,
        /// The reason.
        why: String,
    },
}

impl fmt::Display for NotRestored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse => {
                write!(f, "a topology is restored in a service that has just begun, and this one has been used")
            }
            Self::Refused { what, why } => write!(f, "{what} of the topology cannot be restored: {why}"),
        }
    }
}

impl core::error::Error for NotRestored {}

fn refused(what: impl fmt::Display) -> impl FnOnce(Raised) -> NotRestored {
    move |raised| {
        let why = match raised.is_persist_store() {
            true => {
                "its events are to outlive the process, and this service has no store: name a folder with --data".into()
            }
            false => raised.to_string(),
        };
        NotRestored::Refused { what: what.to_string(), why }
    }
}

/// Limits of a channel during restoration: its contents may exceed limits that were lowered since.
fn unlimited() -> ChannelLimits {
    ChannelLimits {
        max_consumers: None,
        max_suppliers: None,
        constraint_bytes_max: u32::MAX,
        constraint_nodes_max: u32::MAX,
        constraints_per_filter_max: u32::MAX,
        filters_per_object_max: u32::MAX,
        filters_max: u32::MAX,
        ..ChannelLimits::default()
    }
}

impl Objects {
    /// A proxy's stored properties, with its connection's former default: without an expiry of its own it never expires, even if new
    /// channels have another default.
    fn with_former_expiry(&self, channel: &t::Channel, proxy: &t::Proxy) -> t::Settings {
        let mut settings = proxy.settings.clone();
        let admin = channel.admins.iter().find(|admin| (admin.side, admin.id) == (proxy.side, proxy.admin));
        let levels = [Some(&channel.settings), admin.map(|admin| &admin.settings), Some(&settings)];
        let is_said = levels.into_iter().flatten().any(|settings| settings.connection_expiry_ns.is_some());
        if !is_said && proxy.client.is_some() && self.settings.delivery.connection_expiry.is_some() {
            settings.connection_expiry_ns = Some(0);
        }
        settings
    }

    /// Restores the subscriptions, offers and filters of a channel's admins and proxies.
    fn restore_selections(&mut self, channel: &t::Channel) -> Result<(), Raised> {
        let id = ChannelId(channel.id);
        for admin in &channel.admins {
            let (side, number) = (admin.side, AdminId(admin.id));
            let subscription = SubscriptionTarget::Admin { channel: id, side, admin: number };
            let target = FilterTarget::Admin { channel: id, side, admin: number };
            self.restore_selection(subscription, target, &admin.selection)?;
        }
        for proxy in &channel.proxies {
            let key = ProxyKey { channel: id, proxy: engine::ProxyId(proxy.id) };
            let (subscription, target) = (SubscriptionTarget::Proxy(key), FilterTarget::Proxy(key));
            self.restore_selection(subscription, target, &proxy.selection)?;
        }
        Ok(())
    }

    fn restore_selection(
        &mut self,
        subscription: SubscriptionTarget,
        target: FilterTarget,
        selection: &t::Selection,
    ) -> Result<(), Raised> {
        let t::Selection { types, attached, next_attached, priority_filter, lifetime_filter } = selection;
        if let Some(types) = types {
            let types = event_types_from(types);
            self.hierarchy.subscribe(subscription, &types, &[EventType::everything()])?;
        }
        for t::Attached { id, filter } in attached {
            self.hierarchy.skip_numbers(Numbered::Attached(target), *id)?;
            let given = match filter {
                t::FilterRef::Filter(filter) => {
                    self.hierarchy.add_filter(target, FilterRef::Local(FilterId(*filter))).map_err(Raised::from)
                }
                t::FilterRef::Reference(reference) => self.restore_remote_filter(target, reference),
            };
            match given {
                Ok(given) => same(given, *id)?,
                Err(raised) => log_lost(target, &format!("filter {id}"), &raised),
            }
        }
        self.hierarchy.skip_numbers(Numbered::Attached(target), *next_attached)?;
        let mappings = [(Mapping::Priority, priority_filter), (Mapping::Lifetime, lifetime_filter)];
        for (mapping, filter) in mappings.into_iter().filter_map(|(mapping, filter)| Some((mapping, (*filter)?))) {
            if let Err(raised) = self.restore_mapping(target, mapping, FilterId(filter)) {
                log_lost(target, &format!("mapping filter {filter}"), &raised);
            }
        }
        Ok(())
    }

    fn restore_mapping(&mut self, target: FilterTarget, mapping: Mapping, filter: FilterId) -> Result<(), Raised> {
        let filter = match mapping {
            Mapping::Priority => self.filters().mapping_of_priority(filter)?,
            Mapping::Lifetime => self.filters().mapping_of_lifetime(filter)?,
        };
        Ok(self.hierarchy.set_mapping(target, mapping, Some(filter))?)
    }

    fn restore_remote_filter(&mut self, target: FilterTarget, reference: &str) -> Result<u32, Raised> {
        let ior = reference_from(&self.references, reference)?;
        let name = ior.iiop().map(log_name).ok_or_else(Raised::bad_param)?;
        let offered = Arc::default();
        self.attach_remote_filter(target, PeerAddress { ior, by: None, name, operation: "match", offered })
    }

    /// Restores a channel's profile and limits, which may be below its contents.
    fn restore_promises(&mut self, channel: &t::Channel) -> Result<(), Raised> {
        let id = ChannelId(channel.id);
        self.hierarchy.set_limits(id, limits_from(&channel.limits, &self.settings.limits))?;
        self.set_profile(id, profile_from(channel.profile));
        self.set_topics(id, topics_from(&channel.topics))
    }
}

impl Protocol {
    /// Restores everything, in an unused protocol. Publish the result and carry out its effects, as after a request.
    ///
    /// # Errors
    ///
    /// [`NotRestored`].
    pub fn restore(&mut self, topology: &Topology) -> Result<(), NotRestored> {
        self.restore_and(topology, |_| {})
    }

    /// Restores the topology in the format of [`topology_json`](Objects::topology_json), as [`restore`](Self::restore) does.
    ///
    /// # Errors
    ///
    /// Why not, for people.
    pub fn apply_json(&mut self, text: &str) -> Result<(), String> {
        self.apply_json_and(text, |_| {})
    }

    /// Restores from JSON; `configure` is called when everything is restored, and no client is connected yet.
    ///
    /// # Errors
    ///
    /// The reason of the failure, for people.
    pub fn apply_json_and(&mut self, text: &str, configure: impl FnOnce(&mut Self)) -> Result<(), String> {
        let topology = Topology::from_json(text).map_err(|error| error.to_string())?;
        self.restore_and(&topology, configure).map_err(|error| error.to_string())
    }

    /// Restores a topology; `configure` is called when everything is restored, and no client is connected yet.
    pub(super) fn restore_and(
        &mut self,
        topology: &Topology,
        configure: impl FnOnce(&mut Self),
    ) -> Result<(), NotRestored> {
        let is_new = |channel: &engine::Channel| channel.id() == ChannelId(0) && channel.proxies().next().is_none();
        if self.objects.hierarchy.channels().count() > 1 || !self.objects.hierarchy.channels().all(is_new) {
            return Err(NotRestored::InUse);
        }
        // Tried elsewhere first, so that nothing is changed where not all of it can be made.
        Self::new(self.objects.settings.clone()).make(topology, |_| {})?;
        self.make(topology, configure)
    }

    /// Restores an image, as [`restore`](Self::restore) does, and charges an account for it. `configure` is called when everything is
    /// restored, and no client is connected yet. False if the image is empty, and nothing was made or configured.
    ///
    /// # Errors
    ///
    /// The reason of the failure, for people.
    pub fn restore_image(
        &mut self,
        image: &t::Image,
        account: &Arc<Account>,
        configure: impl FnOnce(&mut Self),
    ) -> Result<bool, String> {
        let found = Topology::of_image(image).map_err(|error| error.to_string())?;
        let Some(topology) = found.topology else { return Ok(false) };
        self.restore_and(&topology, configure).map_err(|error| error.to_string())?;
        self.objects.charge_all_to(account);
        Ok(true)
    }

    fn make(&mut self, topology: &Topology, configure: impl FnOnce(&mut Self)) -> Result<(), NotRestored> {
        // Threads that were granted stay granted, and so are those that are configured in the place of others: the code that starts the
        // lanes says which of them there are no threads for.
        let threads_max = self.objects.hierarchy.set_lane_threads_max(u32::MAX);
        self.is_restoring = true;
        let made = self.make_objects(topology).map(|()| configure(self));
        self.is_restoring = false;
        self.objects.hierarchy.set_lane_threads_max(threads_max);
        self.objects.hierarchy.forget_untold_pools();
        made?;
        self.make_connections(topology)
    }

    /// Restores everything but clients. The default channel exists in any case: its destruction by a client is not permanent.
    fn make_objects(&mut self, topology: &Topology) -> Result<(), NotRestored> {
        for channel in &topology.channels {
            self.restore_channel(channel, topology.next_filter)
                .map_err(refused(format_args!("channel {}", channel.id)))?;
        }
        let filters = topology.channels.iter();
        let filters = filters.flat_map(|channel| channel.filters.iter().map(|filter| (ChannelId(channel.id), filter)));
        self.objects.filters().restore(filters).map_err(refused("a filter"))?;
        for channel in &topology.channels {
            let what = |what: &str| refused(format!("{what} of channel {}", channel.id));
            self.objects.restore_selections(channel).map_err(what("a subscription or a filter's place"))?;
            self.objects.restore_promises(channel).map_err(what("the limits"))?;
        }
        let next = topology.next_registration;
        self.objects
            .reconnection()
            .restore(&topology.registrations, next)
            .map_err(refused("a reconnection callback"))?;
        self.objects
            .naming
            .restore(&topology.naming, &self.objects.references)
            .map_err(refused("the naming service"))?;
        self.objects.links.restore(&topology.links);
        let numbers = [(Numbered::Channels, topology.next_channel), (Numbered::Filters, topology.next_filter)];
        for (of, next) in numbers {
            self.objects.hierarchy.skip_numbers(of, next).map_err(|refusal| refused("a number")(refusal.into()))?;
        }
        Ok(())
    }

    /// Reconnects the clients that were connected, in channels that still exist.
    fn make_connections(&mut self, topology: &Topology) -> Result<(), NotRestored> {
        for channel in &topology.channels {
            let what = |what: &str| refused(format!("{what} of channel {}", channel.id));
            self.restore_clients(channel).map_err(what("a client"))?;
        }
        // Not before all are there: some may have been connected more than once.
        for client in self.objects.clients.by_peer.values() {
            self.lives.restored.note(client.proxy, client.side, &client.address.ior);
        }
        Ok(())
    }

    /// Makes a channel with its admins and proxies, without clients.
    fn restore_channel(&mut self, channel: &t::Channel, next_filter: u32) -> Result<(), Raised> {
        let id = ChannelId(channel.id);
        if self.objects.hierarchy.channel(id).is_err() {
            self.objects.hierarchy.skip_numbers(Numbered::Channels, channel.id)?;
            let made = self.objects.hierarchy.create_channel(SettingsPatch::default(), unlimited())?;
            same(made.0, channel.id)?;
        }
        if let Some(name) = &channel.name {
            self.objects.names.check_channel_name(name)?;
            self.objects.names.give_new(&mut self.objects.hierarchy, Named::Channel(id), name);
        }
        if channel.declared {
            self.objects.names.note_declared(id);
        }
        if let Some(former) = &channel.former_name {
            self.objects.names.note_former_name(id, former.as_str().into());
        }
        let objects = ObjectNonces::restored(channel, next_filter, || self.objects.keys.drawing.next());
        self.objects.keys.nonces.insert(id, Nonces { own: channel.nonce, objects });
        self.objects.keys.has_changed = true;
        self.objects.hierarchy.set_limits(id, unlimited())?;
        self.restore_settings(Level::Channel(id), &channel.settings)?;
        let mut admins: Vec<&t::Admin> = channel.admins.iter().collect();
        admins.sort_by_key(|admin| admin.id);
        for admin in admins {
            let key = AdminKey { channel: id, side: admin.side, admin: AdminId(admin.id) };
            if key.admin == AdminId::DEFAULT {
                self.objects.hierarchy.set_default_operator(id, key.side, admin.operator)?;
            } else {
                self.objects.hierarchy.skip_numbers(Numbered::Admins(id), admin.id)?;
                let made = self.objects.create_admin(id, key.side, admin.operator, admin.name.as_deref())?;
                same(made.admin.0, admin.id)?;
                self.objects.ledger.own_again(Thing::Admin(made), admin.owner.as_ref());
            }
            self.restore_settings(Level::Admin(key), &admin.settings)?;
        }
        for proxy in &channel.proxies {
            self.objects.hierarchy.skip_numbers(Numbered::Proxies(id), proxy.id)?;
            let admin = AdminKey { channel: id, side: proxy.side, admin: AdminId(proxy.admin) };
            let kind = ProxyKind { events: events_from(proxy.events), pull: proxy.pull };
            let is_local = proxy.durable.is_some();
            if is_local && (kind, proxy.side) != (ProxyKind::LOCAL, Side::Consumers) {
                return Err(Raised::bad_param());
            }
            let passing = if is_local { kind.passing_on_main_lane() } else { kind.passing() };
            let made = self.create_proxy_passing(admin, (kind, passing), proxy.name.as_deref())?;
            same(made.proxy.0, proxy.id)?;
            self.objects.ledger.own_again(Thing::Proxy(made), proxy.owner.as_ref());
            for alias in &proxy.aliases {
                self.objects.keys.aliases.add(made, ProxyKey { channel: id, proxy: engine::ProxyId(*alias) });
            }
            let settings = self.objects.with_former_expiry(channel, proxy);
            self.restore_settings(Level::Proxy(made, admin.side), &settings)?;
            if let Some(text) = &proxy.when {
                self.restore_correlation(made, text)?;
            }
        }
        self.objects.hierarchy.skip_numbers(Numbered::Admins(id), channel.next_admin)?;
        self.objects.hierarchy.skip_numbers(Numbered::Proxies(id), channel.next_proxy)?;
        Ok(())
    }

    fn restore_correlation(&mut self, key: ProxyKey, text: &str) -> Result<(), Raised> {
        let correlation = correlation(text).map_err(|_| Raised::bad_param())?;
        let lanes = self.objects.lanes_of(key);
        let octets = correlation.as_deref().map_or(0, |correlation| octets_of_correlation(correlation, lanes));
        let set = |protocol: &mut Objects| Ok(protocol.hierarchy.set_correlation(key, correlation)?);
        self.objects.change_thing(Thing::Proxy(key), octets, set)
    }

    fn restore_settings(&mut self, level: Level, settings: &t::Settings) -> Result<(), Raised> {
        let (mut patch, pool) = settings_from(settings);
        if matches!(level, Level::Channel(_)) {
            patch = with_defaults(patch, &self.objects.settings.delivery);
        }
        if !self.objects.settings.has_store {
            // Connections end with the process that said otherwise; of events more was promised.
            patch.connection_reliability = None;
            if patch.event_reliability == Some(Reliability::Persistent) {
                return Err(Raised::persist_store());
            }
        }
        let (requested, unknown) = (self.objects.requested(level)?, Unknown::restored(&settings.unknown));
        if (patch, pool.as_ref()) == (requested.patch, None) && unknown == requested.unknown {
            return Ok(());
        }
        self.set(level, RequestedProperties { patch, pool, unknown, ..requested })
    }

    /// Reconnects the clients of a channel, even if they exceed its current limits.
    fn restore_clients(&mut self, channel: &t::Channel) -> Result<(), Raised> {
        let id = ChannelId(channel.id);
        let limits = *self.objects.hierarchy.channel(id)?.limits();
        self.objects.hierarchy.set_limits(id, ChannelLimits { max_consumers: None, max_suppliers: None, ..limits })?;
        self.connect_clients(channel)?;
        Ok(self.objects.hierarchy.set_limits(id, limits)?)
    }

    fn connect_clients(&mut self, channel: &t::Channel) -> Result<(), Raised> {
        for proxy in &channel.proxies {
            let key = ProxyKey { channel: ChannelId(channel.id), proxy: engine::ProxyId(proxy.id) };
            if let Some(t::Client { reference, suspended, of }) = &proxy.client {
                let given = reference
                    .as_ref()
                    .map(|reference| reference_from(&self.objects.references, reference))
                    .transpose()?;
                if let Some(durable) = &proxy.durable {
                    self.restore_durable(key, durable)?;
                } else if let Err(raised) = self.connect_again(key, given.unwrap_or_else(Ior::nil)) {
                    // Such as one that is a proxy of this service, and was destroyed: it would have been found out with the next event.
                    log::warn!(target: "campanile::corba", "the client of {key} is not connected again: {raised}");
                    continue;
                }
                if of.is_some() {
                    self.objects.ledger.own_again(Thing::Proxy(key), of.as_ref());
                    self.guard.permit_connected(&mut self.objects, key);
                }
                if proxy.durable.is_none() {
                    self.lives.former.insert(key);
                }
                if *suspended {
                    self.objects.suspend(key)?;
                }
            }
            if proxy.silenced {
                self.objects.proxies.silenced.insert(key);
            }
        }
        Ok(())
    }
}

/// Logs the loss of a filter that is gone, with its channel for example, while its user's state was not stored yet.
fn log_lost(target: FilterTarget, what: &str, raised: &Raised) {
    let whose = match target {
        FilterTarget::Admin { channel, side, admin } => {
            format!("{} admin {} of channel {}", side_name(side), admin.0, channel.0)
        }
        FilterTarget::Proxy(key) => key.to_string(),
    };
    log::warn!(target: "campanile::corba", "{what} of {whose} is not there any more and does not count: {raised}");
}

/// Checks that an object was made with its former number.
fn same(made: u32, number: u32) -> Result<(), Raised> {
    if made == number { Ok(()) } else { Err(Raised::bad_param()) }
}

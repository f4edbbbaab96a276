//! Durable local consumers: proxies of other protocols' clients that outlive their connections, and the process.
//!
//! Each has a name in its channel, by which a returning client finds it. Without a client, events are queued as for a suspended consumer.
//! It is destroyed by an operator, with its channel, or when no link of the configuration has its name.

use super::clients::Tell;
use super::local_proxies::{LocalProxy, LocalProxyState, Part, RegisterError};
use super::{Objects, Protocol, Thing, octets_of_types, weights};
use crate::exceptions::Raised;
use accounts::{Account, Resource};
use engine::{ChannelId, EventType, FilterId, FilterRef, OutputForm, Peer, ProxyKey, Refusal, SubscriptionTarget};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use topology as t;

/// Maximum octets of a durable consumer's name.
pub const DURABLE_NAME_BYTES_MAX: usize = 255;

/// Maximum names of destroyed consumers, stored until lanes report their events.
const GONE_MAX: usize = 256;

/// Durable consumers by channel and name.
#[derive(Debug, Default)]
pub(super) struct Durables {
    by_name: BTreeMap<(ChannelId, Arc<str>), ProxyKey>,
    /// Names in logs of destroyed consumers.
    gone: BTreeMap<ProxyKey, String>,
}

impl Durables {
    pub(super) fn find(&self, channel: ChannelId, name: &str) -> Option<ProxyKey> {
        self.by_name.get(&(channel, Arc::from(name))).copied()
    }

    /// Removes a destroyed consumer with its name in logs.
    pub(super) fn remove(&mut self, name: &Arc<str>, key: ProxyKey, called: String) {
        self.by_name.remove(&(key.channel, Arc::clone(name)));
        self.gone.insert(key, called);
        if self.gone.len() > GONE_MAX {
            self.gone.pop_first();
        }
    }
}

impl Objects {
    /// Times that event types were too many, and everything was subscribed to instead, since the last call.
    pub fn take_widened(&mut self) -> u64 {
        core::mem::take(&mut self.proxies.widened)
    }

    pub(super) const fn count_widened(&mut self) {
        self.proxies.widened += 1;
    }

    /// The durable consumers of named channels: channel name, own name, and key.
    #[must_use]
    pub fn durable_names(&self) -> Vec<(String, String, ProxyKey)> {
        let named = self.proxies.durables.by_name.iter().filter_map(|((channel, name), key)| {
            Some((self.names.channel_name(*channel)?.to_owned(), name.to_string(), *key))
        });
        named.collect()
    }

    /// Takes a destroyed durable consumer's name in logs.
    pub fn take_gone_durable(&mut self, key: ProxyKey) -> Option<String> {
        self.proxies.durables.gone.remove(&key)
    }

    /// The stored properties of a durable consumer's proxy.
    pub(super) fn stored_durable(&self, key: ProxyKey, output_form: OutputForm) -> Option<t::Durable> {
        let name = self.proxies.local.get(&key)?.durable.as_ref()?;
        Some(t::Durable { name: name.to_string(), output_form: output_form.0 })
    }

    /// Stores the state of a local proxy, and its name if it is a durable consumer.
    pub(super) fn note_local_proxy(&mut self, key: ProxyKey, local_proxy: LocalProxyState) {
        if let Some(name) = &local_proxy.durable {
            self.proxies.durables.by_name.insert((key.channel, Arc::clone(name)), key);
        }
        self.proxies.local.insert(key, local_proxy);
    }

    /// Subscribes a local proxy to these types alone, to all if there are none. Nothing is changed on an error.
    pub(super) fn select_types(
        &mut self,
        key: ProxyKey,
        everything: bool,
        types: &[EventType],
    ) -> Result<(), RegisterError> {
        let all = [EventType::everything()];
        let everything = everything || types.iter().any(EventType::is_everything);
        let types = if everything { &all[..] } else { types };
        let thing = Thing::Proxy(key);
        let octets = octets_of_types(types) + weights::CLIENT;
        let claim = self.ledger.claim(thing, Resource::RetainedBytes, octets).map_err(|_| RegisterError::Spent)?;
        let places = self.ledger.claim_types(thing, types).map_err(|_| RegisterError::Spent)?;
        let target = SubscriptionTarget::Proxy(key);
        if everything {
            // In two steps, since with TAO's lists everything that is removed and added at once changes nothing.
            self.hierarchy.subscribe(target, &[], &all)?;
            self.hierarchy.subscribe(target, &all, &[])?;
        } else {
            self.hierarchy.subscribe(target, types, &all)?;
        }
        self.adjust_types(thing, places);
        self.adjust(thing, claim);
        Ok(())
    }

    /// Limits a local proxy to events that match a constraint; none if that is empty.
    pub(super) fn select_matches(&mut self, key: ProxyKey, constraint: &str) -> Result<(), RegisterError> {
        let former = self.proxies.local.get(&key).and_then(|local_proxy| local_proxy.filter);
        let constraint = constraint.trim();
        let is_same = |filter: FilterId| {
            let exported = self.filters.exported_one(&self.ledger, filter);
            exported.is_some_and(
                |(_, filter)| matches!(&filter.constraints[..], [one] if one.expression.trim() == constraint),
            )
        };
        if former.map_or(constraint.is_empty(), is_same) {
            return Ok(());
        }
        let filter = match constraint {
            "" => None,
            text => Some(self.filter_for(key, text.to_owned()).map_err(|_| RegisterError::TooManyConstraints)?),
        };
        if let Some(local_proxy) = self.proxies.local.get_mut(&key) {
            local_proxy.filter = filter;
        }
        former.into_iter().for_each(|former| self.destroy_filter_of_local_proxy(former));
        Ok(())
    }
}

impl Protocol {
    /// The durable consumer that a client requests by name, if it exists.
    pub(super) fn find_durable(&self, channel: ChannelId, part: &Part) -> Result<Option<ProxyKey>, RegisterError> {
        let Part::Consumer { durable: Some(name), .. } = part else { return Ok(None) };
        if name.is_empty() || name.len() > DURABLE_NAME_BYTES_MAX {
            return Err(RegisterError::DurableName);
        }
        Ok(self.objects.proxies.durables.find(channel, name))
    }

    /// Reconnects a client to its durable consumer. Its new selection may apply even if it is then refused.
    pub(super) fn rejoin(&mut self, key: ProxyKey, local_proxy: LocalProxy) -> Result<ProxyKey, RegisterError> {
        let LocalProxy { peer, name, part, .. } = local_proxy;
        let settings = part.settings();
        let Part::Consumer { types, constraint, output_form, .. } = part else { return Ok(key) };
        if self.objects.hierarchy.proxy(key)?.peer.is_some() {
            return Err(RegisterError::DurableConnected);
        }
        if self.lives.given_up.contains(&key) {
            return Err(Refusal::ProxyNotFound { proxy: key }.into());
        }
        self.objects.select_types(key, types.is_empty(), &types)?;
        self.objects.select_matches(key, &constraint)?;
        self.objects.hierarchy.set_proxy_settings(key, settings)?;
        self.objects.hierarchy.rejoin(key, peer, output_form)?;
        if let Some(principal) = self.objects.ledger.principal() {
            self.objects.ledger.entry(Thing::Proxy(key)).one = Some(principal.charge_anyway(Resource::Proxies, 1));
        }
        self.objects.ledger.note_owner(Thing::Proxy(key));
        self.guard.permit_connected(&mut self.objects, key);
        if let Some(local_proxy) = self.objects.proxies.local.get_mut(&key) {
            local_proxy.name = name;
        }
        self.objects.log_debug(|objects| format!("{} is connected again", objects.name("consumer", key)));
        Ok(key)
    }

    /// Handles the end of a connection of another protocol's client: its proxy is removed, unless it is a durable consumer, which stays
    /// without a client. Nothing happens if another client has taken it.
    pub fn disconnect_local_proxy(&mut self, key: ProxyKey, peer: Peer) {
        self.unwatch_subscribed(peer);
        let is_its = self.objects.hierarchy.proxy(key).is_ok_and(|proxy| proxy.peer == Some(peer));
        match self.objects.proxies.local.get(&key) {
            Some(LocalProxyState { durable: Some(_), .. }) if is_its => {
                if let Err(refusal) = self.objects.hierarchy.leave(key) {
                    log::debug!(target: "campanile::corba", "nothing to leave: {refusal}");
                }
                self.objects.log_debug(|objects| format!("the client of {} is gone", objects.name("consumer", key)));
            }
            Some(LocalProxyState { durable: None, .. }) if is_its => self.remove_local_proxy(key),
            _ => {}
        }
    }

    /// Subscribes a local proxy to these types alone, to all if there are none. If they are too many, or not granted, it gets all.
    pub fn subscribe_local_proxy(
        &mut self,
        key: ProxyKey,
        (everything, types): (bool, &[EventType]),
        principal: &Arc<Account>,
    ) {
        if !self.objects.proxies.local.contains_key(&key) {
            return;
        }
        self.objects.ledger.principal = Some(Arc::clone(principal));
        self.note_unpublished();
        let selected = self.objects.select_types(key, everything, types);
        self.objects.ledger.principal = None;
        if selected.is_err() {
            self.objects.count_widened();
            // Nothing is charged where no client asks.
            if let Err(refused) = self.objects.select_types(key, true, &[]) {
                log::debug!(target: "campanile::corba", "nothing to subscribe: {refused}");
            }
        }
        self.note_unpublished();
    }

    /// Destroys the durable consumers that are not listed, by their channels' names and their own. A lane reports the events of each.
    pub fn retain_durable(&mut self, names: &[(String, String)]) {
        let names: BTreeSet<(&str, &str)> =
            names.iter().map(|(channel, durable)| (channel.as_str(), durable.as_str())).collect();
        let stays = |channel: ChannelId, name: &str| {
            self.objects.names.channel_name(channel).is_some_and(|channel| names.contains(&(channel, name)))
        };
        let all = self.objects.proxies.durables.by_name.iter();
        let stale: Vec<ProxyKey> =
            all.filter(|((channel, name), _)| !stays(*channel, name)).map(|(_, key)| *key).collect();
        self.destroy_durables(stale);
    }

    /// Destroys the durable consumers of a name, in any channel. A lane reports the events of each.
    pub fn destroy_durable(&mut self, name: &str) {
        let all = self.objects.proxies.durables.by_name.iter();
        let its = all.filter(|((_, of), _)| &**of == name).map(|(_, key)| *key).collect();
        self.destroy_durables(its);
    }

    fn destroy_durables(&mut self, keys: Vec<ProxyKey>) {
        for key in keys {
            if let Ok(removed) = self.objects.hierarchy.destroy_proxy(key) {
                self.forget(&removed, Tell::Yes);
            }
        }
    }

    /// Restores a durable consumer from its stored form, without a client.
    pub(super) fn restore_durable(&mut self, key: ProxyKey, durable: &t::Durable) -> Result<(), Raised> {
        let t::Durable { name, output_form } = durable;
        let is_fit = (1..=DURABLE_NAME_BYTES_MAX).contains(&name.len());
        if !is_fit || self.objects.proxies.durables.find(key.channel, name).is_some() {
            return Err(Raised::bad_param());
        }
        self.objects.hierarchy.connect(key, None, OutputForm(*output_form))?;
        self.objects.hierarchy.make_durable(key)?;
        self.objects.hierarchy.note_start(key, Some(self.objects.clock.utc))?;
        let filters = self.objects.hierarchy.proxy(key)?.attached.filters();
        let local = |(_, filter): &(u32, FilterRef)| match filter {
            FilterRef::Local(filter) => Some(*filter),
            FilterRef::Remote(_) => None,
        };
        let filter = filters.iter().find_map(local);
        let durable = Some(Arc::from(name.as_str()));
        self.objects.note_local_proxy(key, LocalProxyState { name: name.clone(), filter, durable });
        self.guard.permit_connected(&mut self.objects, key);
        Ok(())
    }
}

//! The hierarchy, naively: lists that are searched.

use std::time::Duration;

use engine::{
    AdminId, ChannelId, ChannelLimits, EventType, FullOutbox, Operator, OrderPolicy, OutboxSettings, OutputForm, Peer,
    ProxyId, ProxyKey, ProxyKind, ProxyState, Refusal, SettingsPatch, Side,
};

use super::filters::{Attached, Filter};

#[derive(Clone, Default)]
pub(crate) struct World {
    pub(crate) channels: Vec<Channel>,
    next_channel: u32,
    next_connection: u64,
    pub(crate) filters: Vec<Filter>,
    pub(super) next_filter: u32,
}

#[derive(Clone)]
pub(crate) struct Channel {
    pub(crate) id: ChannelId,
    patch: SettingsPatch,
    pub(crate) limits: ChannelLimits,
    pub(crate) admins: Vec<Admin>,
    pub(crate) proxies: Vec<Proxy>,
    next_admin: u32,
    next_proxy: u32,
}

#[derive(Clone)]
pub(crate) struct Admin {
    pub(crate) id: AdminId,
    pub(crate) side: Side,
    pub(super) operator: Operator,
    patch: SettingsPatch,
    /// `None` until first changed.
    pub(super) types: Option<Vec<EventType>>,
    pub(super) attached: Attached,
}

#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) id: ProxyId,
    pub(crate) admin: AdminId,
    pub(crate) side: Side,
    pub(crate) kind: ProxyKind,
    pub(crate) peer: Option<Peer>,
    pub(crate) output_form: OutputForm,
    pub(crate) state: ProxyState,
    pub(crate) connection: u64,
    /// Whether the connected consumer keeps order.
    in_order: bool,
    patch: SettingsPatch,
    pub(super) types: Option<Vec<EventType>>,
    pub(super) attached: Attached,
}

impl Admin {
    fn new(id: AdminId, side: Side, operator: Operator) -> Self {
        Self { id, side, operator, patch: patch_of_nothing(), types: None, attached: Attached::default() }
    }
}

impl World {
    pub(crate) fn create_channel(&mut self, patch: SettingsPatch, limits: ChannelLimits) -> ChannelId {
        let id = ChannelId(self.next_channel);
        self.next_channel += 1;
        let admin = |side| Admin::new(AdminId(0), side, Operator::And);
        let admins = vec![admin(Side::Consumers), admin(Side::Suppliers)];
        self.channels.push(Channel { id, patch, limits, admins, proxies: vec![], next_admin: 1, next_proxy: 0 });
        id
    }

    pub(crate) fn destroy_channel(&mut self, channel: ChannelId) -> Result<Vec<ProxyKey>, Refusal> {
        let gone = self.channel(channel)?.proxies.iter().map(|proxy| ProxyKey { channel, proxy: proxy.id }).collect();
        self.channels.retain(|kept| kept.id != channel);
        let filters = self.filters.iter().filter(|filter| filter.home == channel).map(|filter| filter.id);
        for filter in filters.collect::<Vec<_>>() {
            self.destroy_filter(filter)?;
        }
        Ok(gone)
    }

    pub(crate) fn create_admin(
        &mut self,
        channel: ChannelId,
        side: Side,
        operator: Operator,
    ) -> Result<AdminId, Refusal> {
        let channel = self.channel_mut(channel)?;
        let id = AdminId(channel.next_admin);
        channel.next_admin += 1;
        channel.admins.push(Admin::new(id, side, operator));
        Ok(id)
    }

    pub(crate) fn destroy_admin(
        &mut self,
        channel: ChannelId,
        side: Side,
        admin: AdminId,
    ) -> Result<Vec<ProxyKey>, Refusal> {
        self.admin_mut(channel, side, admin)?;
        if admin == AdminId(0) {
            return Err(Refusal::DefaultAdmin { channel, side });
        }
        let owner = self.channel_mut(channel)?;
        let belongs = |proxy: &Proxy| proxy.side == side && proxy.admin == admin;
        let gone =
            owner.proxies.iter().filter(|proxy| belongs(proxy)).map(|proxy| ProxyKey { channel, proxy: proxy.id });
        let gone = gone.collect();
        owner.proxies.retain(|proxy| !belongs(proxy));
        owner.admins.retain(|kept| kept.side != side || kept.id != admin);
        Ok(gone)
    }

    pub(crate) fn create_proxy(
        &mut self,
        channel: ChannelId,
        side: Side,
        admin: AdminId,
        kind: ProxyKind,
    ) -> Result<ProxyId, Refusal> {
        self.admin_mut(channel, side, admin)?;
        self.check_connected(channel, side)?;
        let channel = self.channel_mut(channel)?;
        let id = ProxyId(channel.next_proxy);
        channel.next_proxy += 1;
        channel.proxies.push(Proxy {
            id,
            admin,
            side,
            kind,
            peer: None,
            output_form: OutputForm(0),
            state: ProxyState::Unconnected,
            connection: 0,
            in_order: false,
            patch: patch_of_nothing(),
            types: None,
            attached: Attached::default(),
        });
        Ok(id)
    }

    pub(crate) fn destroy_proxy(&mut self, key: ProxyKey) -> Result<(), Refusal> {
        self.proxy(key)?;
        self.channel_mut(key.channel)?.proxies.retain(|proxy| proxy.id != key.proxy);
        Ok(())
    }

    pub(crate) fn connect(
        &mut self,
        key: ProxyKey,
        peer: Option<Peer>,
        output_form: OutputForm,
    ) -> Result<(), Refusal> {
        let proxy = self.proxy(key)?;
        if proxy.state != ProxyState::Unconnected {
            return Err(Refusal::AlreadyConnected { proxy: key });
        }
        self.check_connected(key.channel, proxy.side)?;
        let connection = self.next_connection;
        self.next_connection += 1;
        let proxy = self.proxy_mut(key)?;
        (proxy.peer, proxy.output_form, proxy.connection, proxy.state) =
            (peer, output_form, connection, ProxyState::Active);
        Ok(())
    }

    pub(crate) fn note_in_order(&mut self, key: ProxyKey) -> Result<(), Refusal> {
        self.connected(key)?.in_order = true;
        Ok(())
    }

    pub(crate) fn disconnect(&mut self, key: ProxyKey) -> Result<Option<Peer>, Refusal> {
        let proxy = self.connected(key)?;
        proxy.in_order = false;
        proxy.state = ProxyState::Unconnected;
        Ok(proxy.peer.take())
    }

    pub(crate) fn suspend(&mut self, key: ProxyKey) -> Result<(), Refusal> {
        let proxy = self.connected(key)?;
        if proxy.state == ProxyState::Suspended {
            return Err(Refusal::AlreadyInactive { proxy: key });
        }
        proxy.state = ProxyState::Suspended;
        Ok(())
    }

    pub(crate) fn resume(&mut self, key: ProxyKey) -> Result<(), Refusal> {
        let proxy = self.connected(key)?;
        if proxy.state == ProxyState::Active {
            return Err(Refusal::AlreadyActive { proxy: key });
        }
        proxy.state = ProxyState::Active;
        Ok(())
    }

    pub(crate) fn set_channel_settings(&mut self, channel: ChannelId, patch: SettingsPatch) -> Result<(), Refusal> {
        self.channel_mut(channel)?.patch = patch;
        Ok(())
    }

    pub(crate) fn set_admin_settings(
        &mut self,
        channel: ChannelId,
        side: Side,
        admin: AdminId,
        patch: SettingsPatch,
    ) -> Result<(), Refusal> {
        self.admin_mut(channel, side, admin)?.patch = patch;
        Ok(())
    }

    pub(crate) fn set_proxy_settings(&mut self, key: ProxyKey, patch: SettingsPatch) -> Result<(), Refusal> {
        self.proxy_mut(key)?.patch = patch;
        Ok(())
    }

    pub(crate) fn set_limits(&mut self, channel: ChannelId, limits: ChannelLimits) -> Result<(), Refusal> {
        self.channel_mut(channel)?.limits = limits;
        Ok(())
    }

    pub(crate) fn subscribe_admin(
        &mut self,
        channel: ChannelId,
        side: Side,
        admin: AdminId,
        added: &[EventType],
        removed: &[EventType],
    ) -> Result<(), Refusal> {
        change(&mut self.admin_mut(channel, side, admin)?.types, added, removed);
        Ok(())
    }

    pub(crate) fn subscribe_proxy(
        &mut self,
        key: ProxyKey,
        added: &[EventType],
        removed: &[EventType],
    ) -> Result<(), Refusal> {
        change(&mut self.proxy_mut(key)?.types, added, removed);
        Ok(())
    }

    // ---- questions ----

    pub(crate) fn channel(&self, channel: ChannelId) -> Result<&Channel, Refusal> {
        self.channels.iter().find(|known| known.id == channel).ok_or(Refusal::ChannelNotFound { channel })
    }

    pub(crate) fn proxy(&self, key: ProxyKey) -> Result<&Proxy, Refusal> {
        let channel = self.channel(key.channel)?;
        channel.proxies.iter().find(|proxy| proxy.id == key.proxy).ok_or(Refusal::ProxyNotFound { proxy: key })
    }

    pub(crate) fn effective(&self, key: ProxyKey) -> Result<OutboxSettings, Refusal> {
        let channel = self.channel(key.channel)?;
        let proxy = self.proxy(key)?;
        let admin = self.admin_of(key)?;
        let levels = [proxy.patch, admin.patch, channel.patch];
        let said = nearest(&levels);
        let is_sorted = matches!(said.order_policy, Some(OrderPolicy::Priority | OrderPolicy::Deadline));
        let most = said.max_events_per_consumer.flatten().map_or(64, |max| max.get() / 16).clamp(1, 64);
        let window = if proxy.in_order && !is_sorted { u16::try_from(most).unwrap_or(64) } else { 1 };
        let above = nearest(&[patch_of_nothing(), admin.patch, channel.patch]);
        let hold_granted = above.hold_granted.unwrap_or(false);
        Ok(OutboxSettings {
            push_window: said.push_window.unwrap_or(window),
            hold_granted,
            own_bound: !hold_granted
                && (proxy.patch.full_outbox.is_some() || proxy.patch.max_events_per_consumer.is_some()),
            // Random scenarios set no budget: either holding is granted, or it may last for ever.
            hold_budget: Duration::ZERO,
            own_latency_bound: proxy.patch.latency_bound.is_some(),
            spent_disconnects: above.full_outbox == Some(FullOutbox::Disconnect),
            ..said.over(OutboxSettings::default())
        })
    }

    /// Priority and timeout of a supplier's events without their own.
    pub(crate) fn of_supplier(&self, key: ProxyKey) -> (Option<i16>, Option<Duration>) {
        let (Ok(channel), Ok(proxy), Ok(admin)) = (self.channel(key.channel), self.proxy(key), self.admin_of(key))
        else {
            return (None, None);
        };
        let said = nearest(&[proxy.patch, admin.patch, channel.patch]);
        (said.priority, said.timeout.flatten())
    }

    pub(super) fn admin_of(&self, key: ProxyKey) -> Result<&Admin, Refusal> {
        let (channel, proxy) = (self.channel(key.channel)?, self.proxy(key)?);
        let found = channel.admins.iter().find(|admin| admin.side == proxy.side && admin.id == proxy.admin);
        let (side, admin) = (proxy.side, proxy.admin);
        found.ok_or(Refusal::AdminNotFound { channel: key.channel, side, admin })
    }

    fn check_connected(&self, channel: ChannelId, side: Side) -> Result<(), Refusal> {
        let channel = self.channel(channel)?;
        let limit = match side {
            Side::Consumers => channel.limits.max_consumers,
            Side::Suppliers => channel.limits.max_suppliers,
        };
        let connected = |proxy: &&Proxy| proxy.side == side && proxy.state != ProxyState::Unconnected;
        let count = channel.proxies.iter().filter(connected).count();
        match limit {
            Some(limit) if count >= limit.get() as usize => Err(Refusal::AdminLimit { side, limit: limit.get() }),
            _ => Ok(()),
        }
    }

    fn connected(&mut self, key: ProxyKey) -> Result<&mut Proxy, Refusal> {
        let proxy = self.proxy_mut(key)?;
        if proxy.state == ProxyState::Unconnected { Err(Refusal::NotConnected { proxy: key }) } else { Ok(proxy) }
    }

    fn channel_mut(&mut self, channel: ChannelId) -> Result<&mut Channel, Refusal> {
        self.channels.iter_mut().find(|known| known.id == channel).ok_or(Refusal::ChannelNotFound { channel })
    }

    pub(super) fn admin_mut(&mut self, channel: ChannelId, side: Side, admin: AdminId) -> Result<&mut Admin, Refusal> {
        let mut admins = self.channel_mut(channel)?.admins.iter_mut();
        let found = admins.find(|known| known.side == side && known.id == admin);
        found.ok_or(Refusal::AdminNotFound { channel, side, admin })
    }

    pub(super) fn proxy_mut(&mut self, key: ProxyKey) -> Result<&mut Proxy, Refusal> {
        let mut proxies = self.channel_mut(key.channel)?.proxies.iter_mut();
        proxies.find(|proxy| proxy.id == key.proxy).ok_or(Refusal::ProxyNotFound { proxy: key })
    }
}

fn patch_of_nothing() -> SettingsPatch {
    SettingsPatch::default()
}

macro_rules! nearest {
    ($({ $(#[$doc:meta])* $side:ident $field:ident: $($row:tt)* })*) => {
        /// Value of each setting at the nearest level that sets it.
        fn nearest(levels: &[SettingsPatch; 3]) -> SettingsPatch {
            SettingsPatch {
                $($field: levels.iter().find_map(|patch| patch.$field),)*
                pool: None,
            }
        }
    };
}

engine::properties!(nearest);

/// An event type independent of its spelling: domain and name, each `None` if it matches anything.
fn normal(event_type: &EventType) -> (Option<&str>, Option<&str>) {
    let domain = Some(event_type.domain.as_str()).filter(|text| !["", "*"].contains(text));
    let name = Some(event_type.name.as_str()).filter(|text| !["", "*", "%ALL"].contains(text));
    (domain, name)
}

/// Changes a list of types. The initial implicit everything is replaced by the first types added; removing less than everything keeps it.
fn change(types: &mut Option<Vec<EventType>>, added: &[EventType], removed: &[EventType]) {
    let removes_all = removed.iter().any(|removed| normal(removed) == (None, None));
    let mut list = match types.take() {
        None if added.is_empty() && !removes_all => return,
        Some(list) if !removes_all => list,
        _ => vec![],
    };
    list.retain(|kept| !removed.iter().any(|removed| normal(removed) == normal(kept)));
    list.extend(added.iter().cloned());
    *types = Some(list);
}

pub(crate) fn matches(wanted: &EventType, domain: &str, name: &str) -> bool {
    let text_matches = |wanted: Option<&str>, text: &str| wanted.is_none_or(|wanted| star_matches(wanted, text));
    let (wanted_domain, wanted_name) = normal(wanted);
    text_matches(wanted_domain, domain) && text_matches(wanted_name, name)
}

/// Matches by trying each star with nothing, one character, two, and so on.
fn star_matches(wanted: &str, text: &str) -> bool {
    let Some((beginning, rest)) = wanted.split_once('*') else { return wanted == text };
    let Some(text) = text.strip_prefix(beginning) else { return false };
    (0..=text.len()).any(|at| text.get(at..).is_some_and(|text| star_matches(rest, text)))
}

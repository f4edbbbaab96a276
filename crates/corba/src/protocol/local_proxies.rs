//! Clients of other protocols: each has a proxy, beside those of CORBA's clients, and no object that could be called.
//!
//! Their proxies belong to the channels' default admins and are visible there to all clients that look at the hierarchy. They are charged,
//! limited and filtered like all others, and end with [`LocalProxyGone`](super::Effect::LocalProxyGone) where another client ends them. Their connections are the
//! main lane's, and so are their proxies, whatever pools of threads there are.

use super::clients::{Tell, side_name};
use super::{Objects, Protocol, Thing, octets_of_types, weights};
use crate::proxy_kind::{Events, ProxyKind};
use accounts::{Account, Resource};
use engine::{
    AdminId, ChannelId, DiscardPolicy, EventType, FilterId, FullOutbox, OutputForm, Peer, ProxyKey, Refusal,
    SettingsPatch, Side, StartFrom, SubscriptionTarget,
};
use filter::{Constraint, ConstraintError, Limits};
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

/// What a client of another protocol wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalProxy {
    /// The channel.
    pub channel: ChannelId,
    /// By which its protocol knows it: [`LocalProxy::FIRST_PEER`] or one behind it, and never one that was used before.
    pub peer: Peer,
    /// What the client is called in logs.
    pub name: String,
    /// What it takes part as.
    pub part: Part,
    /// The event type that it is about, where that is one: a denial names the rule that decides of it.
    pub about: Option<EventType>,
}

impl LocalProxy {
    /// The first of the handles that other protocols give; those below are CORBA clients'.
    pub const FIRST_PEER: Peer = Peer(1 << 63);
}

/// What a client of another protocol takes part as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// It pushes events.
    Supplier,
    /// It is sent events, and does not answer them.
    Consumer {
        /// Of which types; of all if there is none.
        types: Vec<EventType>,
        /// Which of them, in the filter language; all if it is empty.
        constraint: String,
        /// What its protocol needs them translated to.
        output_form: OutputForm,
        /// Where it begins in the channel's history. Its events say their numbers then.
        start: Option<StartFrom>,
        /// It only looks: it never blocks suppliers, and of what it has no room for it loses the oldest.
        looks_on: bool,
    },
}

/// Maximum events queued for a local proxy that only looks.
const EVENTS_OF_ONLOOKER_MAX: NonZeroU32 = NonZeroU32::new(256).expect("not 0");

/// Why a client of another protocol may not take part.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RegisterError {
    /// The engine refuses.
    Refused(Refusal),
    /// Its share of what the service has is used up, or there is none left.
    Spent,
    /// The constraint cannot be read.
    Constraint(ConstraintError),
    /// The channel has as many constraints as it may.
    TooManyConstraints,
    /// The channel stores no history in which it could begin.
    NoHistory,
    /// The rules do not allow it.
    Denied,
}

impl From<Refusal> for RegisterError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Denied => f.write_str("it is not permitted: the service's rules of access say so"),
            Self::Spent => f.write_str("there is no room for more of this client's; it may come again later"),
            Self::Constraint(error) => write!(f, "the constraint cannot be read: {error}"),
            Self::TooManyConstraints => {
                f.write_str("the constraints of this channel's consumers are as large as they may be")
            }
            Self::NoHistory => {
                f.write_str("the channel stores no history: set its HistoryEvents, HistoryAge or HistoryBytes")
            }
        }
    }
}

impl std::error::Error for RegisterError {}

/// A client of another protocol that takes part.
#[derive(Debug)]
pub(super) struct LocalProxyState {
    pub(super) name: String,
    pub(super) filter: Option<FilterId>,
}

impl Protocol {
    /// Lets a client of another protocol take part, on behalf of `principal`. The answer to it has to wait until that is
    /// published, as with [`Protocol::handle`].
    ///
    /// # Errors
    /// Says why it may not; then nothing was changed.
    pub fn register_local_proxy(
        &mut self,
        local_proxy: LocalProxy,
        principal: &Arc<Account>,
    ) -> Result<ProxyKey, RegisterError> {
        self.objects.ledger.principal = Some(Arc::clone(principal));
        self.note_unpublished();
        let registered = self.create_local_proxy(local_proxy);
        self.note_unpublished();
        self.objects.ledger.principal = None;
        registered
    }

    /// A client of another protocol goes.
    pub fn remove_local_proxy(&mut self, key: ProxyKey) {
        if self.objects.proxies.local.contains_key(&key)
            && let Ok(removed) = self.objects.hierarchy.destroy_proxy(key)
        {
            self.forget(&removed, Tell::No);
        }
    }

    fn create_local_proxy(&mut self, local_proxy: LocalProxy) -> Result<ProxyKey, RegisterError> {
        let LocalProxy { channel, peer, name, part, about } = local_proxy;
        let kind = ProxyKind { events: Events::Structured, pull: false };
        let passing = engine::ProxyKind { on_main_lane: true, ..kind.passing() };
        let (side, types) = match &part {
            Part::Supplier => (Side::Suppliers, &[][..]),
            Part::Consumer { types, constraint, start, .. } => {
                check_constraint(&self.objects, channel, constraint)?;
                let in_history = start.is_some_and(|start| start != StartFrom::New);
                if in_history && !self.objects.hierarchy.channel(channel)?.limits().history.keeps() {
                    return Err(RegisterError::NoHistory);
                }
                (Side::Consumers, &types[..])
            }
        };
        let what = match side {
            Side::Suppliers => "to supply events",
            Side::Consumers => "to be sent events",
        };
        self.guard
            .authorize_use(&self.objects, side, (channel, about.as_ref()), what)
            .map_err(|_| RegisterError::Denied)?;
        let one = self.objects.ledger.charge(Resource::Proxies, 1).map_err(|_| RegisterError::Spent)?;
        let octets = weights::PROXY + weights::CLIENT + octets_of_types(types);
        let claim = self.objects.ledger.charge_octets(octets).map_err(|_| RegisterError::Spent)?;
        let proxy = self.objects.hierarchy.create_proxy(channel, side, AdminId::DEFAULT, kind.form(), passing)?;
        let key = ProxyKey { channel, proxy };
        self.objects.proxies.kinds.insert(key, kind);
        self.objects.proxies.local.insert(key, LocalProxyState { name, filter: None });
        self.objects.ledger.entry(Thing::Proxy(key)).one = one;
        self.objects.ledger.note_owner(Thing::Proxy(key));
        let connected = self.connect_local_proxy(key, peer, part);
        if let Err(refused) = connected {
            self.remove_local_proxy(key);
            return Err(refused);
        }
        self.objects.adjust(Thing::Proxy(key), claim);
        if side == Side::Suppliers {
            self.idle.note_caller(&mut self.objects, key, side);
        }
        self.objects.log_debug(|objects| format!("{} is connected", objects.name(side_name(side), key)));
        Ok(key)
    }

    fn connect_local_proxy(&mut self, key: ProxyKey, peer: Peer, part: Part) -> Result<(), RegisterError> {
        let (output_form, side) = match part {
            Part::Supplier => (OutputForm::default(), Side::Suppliers),
            Part::Consumer { types, constraint, output_form, start, looks_on } => {
                if !types.is_empty() {
                    let claim =
                        self.objects.ledger.claim_types(Thing::Proxy(key), &types).map_err(|_| RegisterError::Spent)?;
                    self.objects.hierarchy.subscribe(SubscriptionTarget::Proxy(key), &types, &[])?;
                    self.objects.adjust_types(Thing::Proxy(key), claim);
                }
                if !constraint.trim().is_empty() {
                    let filter =
                        self.objects.filter_for(key, constraint).map_err(|_| RegisterError::TooManyConstraints)?;
                    if let Some(local_proxy) = self.objects.proxies.local.get_mut(&key) {
                        local_proxy.filter = Some(filter);
                    }
                }
                // It is known to have an event when its socket has it.
                let mut patch = SettingsPatch { one_way: Some(true), start_from: start, ..SettingsPatch::default() };
                if looks_on {
                    patch.max_events_per_consumer = Some(Some(EVENTS_OF_ONLOOKER_MAX));
                    patch.full_outbox = Some(FullOutbox::Discard);
                    patch.discard_policy = Some(DiscardPolicy::Fifo);
                }
                self.objects.hierarchy.set_proxy_settings(key, patch)?;
                (output_form, Side::Consumers)
            }
        };
        self.objects.hierarchy.connect(key, Some(peer), output_form)?;
        self.guard.permit_connected(&mut self.objects, key);
        if side == Side::Consumers {
            self.objects.hierarchy.note_start(key, None)?;
        }
        if let Some(activity) = &self.objects.hierarchy.proxy(key)?.activity {
            activity.note(self.objects.clock.time);
        }
        Ok(())
    }
}

/// Says what is wrong with a constraint, for which an exception would have no room.
fn check_constraint(objects: &Objects, channel: ChannelId, constraint: &str) -> Result<(), RegisterError> {
    let limits = objects.hierarchy.channel(channel)?.limits();
    let bytes_max = limits.constraint_bytes_max.min(objects.hierarchy.constraint_bytes_max());
    let nodes_max = limits.constraint_nodes_max;
    let language = Limits { bytes_max, nodes_max, ..Limits::default() };
    Constraint::parse(constraint, &language).map(drop).map_err(RegisterError::Constraint)
}

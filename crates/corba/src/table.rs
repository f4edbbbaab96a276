//! Interfaces as tables: operation name → handler.
//!
//! Every operation of every interface of a Notification Service's IDL modules is in one of these tables, so that the list of implemented
//! operations (`docs/conformance.md`) can be checked against the code.

use super::exceptions::Raised;
use super::protocol::Protocol;
use super::{
    channel_admin, event_service, filters, life_cycle, monitor, naming, notify_comm, notify_ext, object, qos,
    scheduling,
};
use engine::{AdminId, ChannelId, FilterId, ProxyKey, Side};
use giop::cdr::{Reader, Writer};

/// Executes one operation on one object: reads all arguments, then acts, then writes the results.
pub(super) type Handler = fn(Call<'_, '_>) -> Result<(), Raised>;

/// A request as its servant gets it.
pub(super) struct Call<'a, 'w> {
    pub(super) protocol: &'a mut Protocol,
    /// The object, which exists.
    pub(super) on: Target,
    pub(super) args: Reader<'a>,
    pub(super) reply: &'a mut Writer<'w>,
}

/// An object that exists, as its servants address it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Factory,
    Channel(ChannelId),
    Admin(AdminKey),
    Proxy(ProxyKey, Side),
    FilterFactory(ChannelId),
    Filter(FilterId),
    MappingFilter(FilterId),
    SchedulingService,
    GenericFactory,
    MonitorControl,
    NamingContext(u32),
    BindingIterator(u32),
}

/// An admin's full name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AdminKey {
    pub(super) channel: ChannelId,
    pub(super) side: Side,
    pub(super) admin: AdminId,
}

/// The three levels that have properties, filters and subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Channel(ChannelId),
    Admin(AdminKey),
    Proxy(ProxyKey, Side),
}

impl Target {
    pub(super) fn level(self) -> Result<Level, Raised> {
        match self {
            Self::Channel(channel) => Ok(Level::Channel(channel)),
            Self::Admin(admin) => Ok(Level::Admin(admin)),
            Self::Proxy(proxy, side) => Ok(Level::Proxy(proxy, side)),
            _ => Err(Raised::internal()),
        }
    }
}

/// Accessors for the part of a target that an operation needs.
macro_rules! parts {
    ($($name:ident: $pattern:pat => $part:ty;)*) => {
        impl Target {$(
            pub(super) fn $name(self) -> Result<$part, Raised> {
                match self {
                    $pattern => Ok($name),
                    _ => Err(Raised::internal()),
                }
            }
        )*}
    };
}

parts! {
    channel: Self::Channel(channel) => ChannelId;
    admin: Self::Admin(admin) => AdminKey;
    proxy: Self::Proxy(proxy, _) => ProxyKey;
    filter_factory: Self::FilterFactory(filter_factory) => ChannelId;
    filter: Self::Filter(filter) | Self::MappingFilter(filter) => FilterId;
    naming_context: Self::NamingContext(naming_context) => u32;
    binding_iterator: Self::BindingIterator(binding_iterator) => u32;
}

/// One operation of an interface. An attribute is an operation `_get_…` and, if writable, `_set_…`.
pub(super) struct Operation {
    pub(super) name: &'static str,
    pub(super) handler: Handler,
}

impl Operation {
    pub(super) const fn done(name: &'static str, handler: Handler) -> Self {
        Self { name, handler }
    }
}

/// One IDL interface with its own operations, without inherited ones.
pub(super) struct Interface {
    /// The scoped name in IDL.
    pub(super) name: &'static str,
    /// The repository id.
    pub(super) id: &'static str,
    pub(super) operations: &'static [Operation],
}

/// A kind of object: its interface, then all that this inherits, in any order.
pub(super) type Servant = &'static [&'static Interface];

/// The operation of that name, declared in any of the servant's interfaces.
pub(super) fn find(servant: Servant, operation: &str) -> Option<&'static Operation> {
    let interfaces = servant.iter().copied().chain([&object::OBJECT]);
    interfaces.flat_map(|interface| interface.operations).find(|candidate| candidate.name == operation)
}

/// The repository id of the interface that the servant is an instance of.
pub(super) fn type_id(servant: Servant) -> &'static str {
    servant.first().copied().unwrap_or(&object::OBJECT).id
}

/// Event channel factories.
pub(super) static FACTORY: Servant = &[
    &notify_ext::EVENT_CHANNEL_FACTORY,
    &notify_ext::EXT_EVENT_CHANNEL_FACTORY,
    &notify_ext::RECONNECTION_REGISTRY,
    &channel_admin::EVENT_CHANNEL_FACTORY,
];
/// Event channels.
pub(super) static CHANNEL: Servant = &[
    &notify_ext::EVENT_CHANNEL,
    &channel_admin::EVENT_CHANNEL,
    &qos::QOS_ADMIN,
    &qos::ADMIN_PROPERTIES_ADMIN,
    &event_service::EVENT_CHANNEL,
    &life_cycle::OMNI_EVENTS_CHANNEL,
];
/// The default channel: clients may take the object `EventService` for a channel or for omniEvents' factory.
pub(super) static DEFAULT_CHANNEL: Servant = &[
    &notify_ext::EVENT_CHANNEL,
    &channel_admin::EVENT_CHANNEL,
    &qos::QOS_ADMIN,
    &qos::ADMIN_PROPERTIES_ADMIN,
    &event_service::EVENT_CHANNEL,
    &life_cycle::OMNI_EVENTS_CHANNEL,
    &life_cycle::GENERIC_FACTORY,
    &life_cycle::OMNI_EVENTS_FACTORY,
    &life_cycle::FIRST_OMNI_EVENTS_FACTORY,
];
/// Consumer admins.
pub(super) static CONSUMER_ADMIN: Servant = &[
    &notify_ext::CONSUMER_ADMIN,
    &channel_admin::NOTIFY_EXT_CONSUMER_ADMIN,
    &channel_admin::CONSUMER_ADMIN,
    &qos::QOS_ADMIN,
    &notify_comm::NOTIFY_SUBSCRIBE,
    &filters::FILTER_ADMIN,
    &event_service::CONSUMER_ADMIN,
];
/// Supplier admins.
pub(super) static SUPPLIER_ADMIN: Servant = &[
    &notify_ext::SUPPLIER_ADMIN,
    &channel_admin::NOTIFY_EXT_SUPPLIER_ADMIN,
    &channel_admin::SUPPLIER_ADMIN,
    &qos::QOS_ADMIN,
    &notify_comm::NOTIFY_PUBLISH,
    &filters::FILTER_ADMIN,
    &event_service::SUPPLIER_ADMIN,
];
/// Proxies to which suppliers push structured events.
pub(super) static STRUCTURED_PROXY_PUSH_CONSUMER: Servant = &[
    &channel_admin::STRUCTURED_PROXY_PUSH_CONSUMER,
    &channel_admin::PROXY_CONSUMER,
    &qos::QOS_ADMIN,
    &filters::FILTER_ADMIN,
    &notify_comm::STRUCTURED_PUSH_CONSUMER,
    &notify_comm::NOTIFY_PUBLISH,
];
/// Proxies to which suppliers push Anys.
pub(super) static PROXY_PUSH_CONSUMER: Servant = &[
    &channel_admin::PROXY_PUSH_CONSUMER,
    &channel_admin::PROXY_CONSUMER,
    &qos::QOS_ADMIN,
    &filters::FILTER_ADMIN,
    &notify_comm::PUSH_CONSUMER,
    &notify_comm::NOTIFY_PUBLISH,
    &event_service::COMM_PUSH_CONSUMER,
];
/// Proxies that push structured events to consumers.
pub(super) static STRUCTURED_PROXY_PUSH_SUPPLIER: Servant = &[
    &channel_admin::STRUCTURED_PROXY_PUSH_SUPPLIER,
    &channel_admin::PROXY_SUPPLIER,
    &qos::QOS_ADMIN,
    &filters::FILTER_ADMIN,
    &notify_comm::STRUCTURED_PUSH_SUPPLIER,
    &notify_comm::NOTIFY_SUBSCRIBE,
];
/// Proxies that push Anys to consumers.
pub(super) static PROXY_PUSH_SUPPLIER: Servant = &[
    &channel_admin::PROXY_PUSH_SUPPLIER,
    &channel_admin::PROXY_SUPPLIER,
    &qos::QOS_ADMIN,
    &filters::FILTER_ADMIN,
    &notify_comm::PUSH_SUPPLIER,
    &notify_comm::NOTIFY_SUBSCRIBE,
    &event_service::COMM_PUSH_SUPPLIER,
];
/// Proxies to which suppliers push sequences of structured events.
pub(super) static SEQUENCE_PROXY_PUSH_CONSUMER: Servant = &[
    &channel_admin::SEQUENCE_PROXY_PUSH_CONSUMER,
    &channel_admin::PROXY_CONSUMER,
    &qos::QOS_ADMIN,
    &filters::FILTER_ADMIN,
    &notify_comm::SEQUENCE_PUSH_CONSUMER,
    &notify_comm::NOTIFY_PUBLISH,
];
/// Proxies that push sequences of structured events to consumers.
pub(super) static SEQUENCE_PROXY_PUSH_SUPPLIER: Servant = &[
    &channel_admin::SEQUENCE_PROXY_PUSH_SUPPLIER,
    &channel_admin::PROXY_SUPPLIER,
    &qos::QOS_ADMIN,
    &filters::FILTER_ADMIN,
    &notify_comm::SEQUENCE_PUSH_SUPPLIER,
    &notify_comm::NOTIFY_SUBSCRIBE,
];
/// Proxies that pull Anys from suppliers.
pub(super) static PROXY_PULL_CONSUMER: Servant = &[
    &channel_admin::PROXY_PULL_CONSUMER,
    &channel_admin::PROXY_CONSUMER,
    &qos::QOS_ADMIN,
    &filters::FILTER_ADMIN,
    &notify_comm::PULL_CONSUMER,
    &notify_comm::NOTIFY_PUBLISH,
    &event_service::COMM_PULL_CONSUMER,
];
/// Proxies that pull structured events from suppliers.
pub(super) static STRUCTURED_PROXY_PULL_CONSUMER: Servant = &[
    &channel_admin::STRUCTURED_PROXY_PULL_CONSUMER,
    &channel_admin::PROXY_CONSUMER,
    &qos::QOS_ADMIN,
    &filters::FILTER_ADMIN,
    &notify_comm::STRUCTURED_PULL_CONSUMER,
    &notify_comm::NOTIFY_PUBLISH,
];
/// Proxies that pull sequences of structured events from suppliers.
pub(super) static SEQUENCE_PROXY_PULL_CONSUMER: Servant = &[
    &channel_admin::SEQUENCE_PROXY_PULL_CONSUMER,
    &channel_admin::PROXY_CONSUMER,
    &qos::QOS_ADMIN,
    &filters::FILTER_ADMIN,
    &notify_comm::SEQUENCE_PULL_CONSUMER,
    &notify_comm::NOTIFY_PUBLISH,
];
/// Proxies from which consumers pull Anys.
pub(super) static PROXY_PULL_SUPPLIER: Servant = &[
    &channel_admin::PROXY_PULL_SUPPLIER,
    &channel_admin::PROXY_SUPPLIER,
    &qos::QOS_ADMIN,
    &filters::FILTER_ADMIN,
    &notify_comm::PULL_SUPPLIER,
    &notify_comm::NOTIFY_SUBSCRIBE,
    &event_service::COMM_PULL_SUPPLIER,
];
/// Proxies from which consumers pull structured events.
pub(super) static STRUCTURED_PROXY_PULL_SUPPLIER: Servant = &[
    &channel_admin::STRUCTURED_PROXY_PULL_SUPPLIER,
    &channel_admin::PROXY_SUPPLIER,
    &qos::QOS_ADMIN,
    &filters::FILTER_ADMIN,
    &notify_comm::STRUCTURED_PULL_SUPPLIER,
    &notify_comm::NOTIFY_SUBSCRIBE,
];
/// Proxies from which consumers pull sequences of structured events.
pub(super) static SEQUENCE_PROXY_PULL_SUPPLIER: Servant = &[
    &channel_admin::SEQUENCE_PROXY_PULL_SUPPLIER,
    &channel_admin::PROXY_SUPPLIER,
    &qos::QOS_ADMIN,
    &filters::FILTER_ADMIN,
    &notify_comm::SEQUENCE_PULL_SUPPLIER,
    &notify_comm::NOTIFY_SUBSCRIBE,
];
/// Proxies of the plain Event Service to which suppliers push Anys.
pub(super) static PLAIN_PROXY_PUSH_CONSUMER: Servant =
    &[&event_service::PROXY_PUSH_CONSUMER, &event_service::COMM_PUSH_CONSUMER];
/// Proxies of the plain Event Service that push Anys to consumers.
pub(super) static PLAIN_PROXY_PUSH_SUPPLIER: Servant =
    &[&event_service::PROXY_PUSH_SUPPLIER, &event_service::COMM_PUSH_SUPPLIER];
/// Proxies of the plain Event Service that pull Anys from suppliers.
pub(super) static PLAIN_PROXY_PULL_CONSUMER: Servant =
    &[&event_service::PROXY_PULL_CONSUMER, &event_service::COMM_PULL_CONSUMER];
/// Proxies of the plain Event Service from which consumers pull Anys.
pub(super) static PLAIN_PROXY_PULL_SUPPLIER: Servant =
    &[&event_service::PROXY_PULL_SUPPLIER, &event_service::COMM_PULL_SUPPLIER];
/// Factories of filters.
pub(super) static FILTER_FACTORY: Servant = &[&filters::EXT_FILTER_FACTORY, &filters::FILTER_FACTORY];
/// Filters that decide which events pass.
pub(super) static FILTER: Servant = &[&filters::FILTER, &filters::TIMEOUT_FILTER];
/// Filters that give events another priority or lifetime.
pub(super) static MAPPING_FILTER: Servant = &[&filters::MAPPING_FILTER];
/// The scheduling analysis.
pub(super) static SCHEDULING_SERVICE: Servant = &[&scheduling::SCHEDULING_SERVICE];
/// The factory of plain event channels by name.
pub(super) static GENERIC_FACTORY: Servant =
    &[&life_cycle::GENERIC_FACTORY, &life_cycle::OMNI_EVENTS_FACTORY, &life_cycle::FIRST_OMNI_EVENTS_FACTORY];
/// TAO's monitor and control object.
pub(super) static MONITOR_CONTROL: Servant = &[&monitor::MONITOR_CONTROL];
/// Naming contexts.
pub(super) static NAMING_CONTEXT: Servant = &[&naming::NAMING_CONTEXT_EXT, &naming::NAMING_CONTEXT];
/// Iterators over naming contexts.
pub(super) static BINDING_ITERATOR: Servant = &[&naming::BINDING_ITERATOR];

/// Clients' interfaces, each with all that it inherits. References often name exactly one of these as their type.
static CLIENTS: &[Servant] = &[
    &[&event_service::COMM_PUSH_CONSUMER],
    &[&event_service::COMM_PUSH_SUPPLIER],
    &[&event_service::COMM_PULL_SUPPLIER],
    &[&event_service::COMM_PULL_CONSUMER],
    &[&notify_comm::PUSH_CONSUMER, &notify_comm::NOTIFY_PUBLISH, &event_service::COMM_PUSH_CONSUMER],
    &[&notify_comm::PULL_CONSUMER, &notify_comm::NOTIFY_PUBLISH, &event_service::COMM_PULL_CONSUMER],
    &[&notify_comm::PULL_SUPPLIER, &notify_comm::NOTIFY_SUBSCRIBE, &event_service::COMM_PULL_SUPPLIER],
    &[&notify_comm::PUSH_SUPPLIER, &notify_comm::NOTIFY_SUBSCRIBE, &event_service::COMM_PUSH_SUPPLIER],
    &[&notify_comm::STRUCTURED_PUSH_CONSUMER, &notify_comm::NOTIFY_PUBLISH],
    &[&notify_comm::STRUCTURED_PULL_CONSUMER, &notify_comm::NOTIFY_PUBLISH],
    &[&notify_comm::STRUCTURED_PULL_SUPPLIER, &notify_comm::NOTIFY_SUBSCRIBE],
    &[&notify_comm::STRUCTURED_PUSH_SUPPLIER, &notify_comm::NOTIFY_SUBSCRIBE],
    &[&notify_comm::SEQUENCE_PUSH_CONSUMER, &notify_comm::NOTIFY_PUBLISH],
    &[&notify_comm::SEQUENCE_PULL_CONSUMER, &notify_comm::NOTIFY_PUBLISH],
    &[&notify_comm::SEQUENCE_PULL_SUPPLIER, &notify_comm::NOTIFY_SUBSCRIBE],
    &[&notify_comm::SEQUENCE_PUSH_SUPPLIER, &notify_comm::NOTIFY_SUBSCRIBE],
];

/// The kinds of this service's objects that may act as a client: those of another channel.
static PROXIES: &[Servant] = &[
    STRUCTURED_PROXY_PUSH_CONSUMER,
    PROXY_PUSH_CONSUMER,
    SEQUENCE_PROXY_PUSH_CONSUMER,
    STRUCTURED_PROXY_PUSH_SUPPLIER,
    PROXY_PUSH_SUPPLIER,
    SEQUENCE_PROXY_PUSH_SUPPLIER,
    STRUCTURED_PROXY_PULL_CONSUMER,
    PROXY_PULL_CONSUMER,
    SEQUENCE_PROXY_PULL_CONSUMER,
    STRUCTURED_PROXY_PULL_SUPPLIER,
    PROXY_PULL_SUPPLIER,
    SEQUENCE_PROXY_PULL_SUPPLIER,
    PLAIN_PROXY_PUSH_CONSUMER,
    PLAIN_PROXY_PUSH_SUPPLIER,
    PLAIN_PROXY_PULL_CONSUMER,
    PLAIN_PROXY_PULL_SUPPLIER,
];

/// Whether a client's reference of this type supports an interface. `None` for unknown types: programs may have derived their own.
pub(super) fn client_has(type_id: &str, interface: &Interface) -> Option<bool> {
    let mut known = CLIENTS.iter().chain(PROXIES).copied();
    let inherits = known.find(|kind| self::type_id(kind) == type_id)?;
    Some(inherits.iter().any(|inherited| inherited.id == interface.id))
}

//! `CosNotifyChannelAdmin`: the factory, channels, admins and proxies, but for properties ([`super::qos`]) and what they inherit.
//!
//! A proxy consumer is where a supplier connects and pushes to; a proxy supplier is where a consumer connects and gets
//! pushed to. Both end for good with `disconnect_…`, whichever side calls it.

use super::exceptions::{Raised, UserException};
use super::filters::{lifetime_filter, priority_filter, set_lifetime_filter, set_priority_filter};
use super::protocol::{InfoMode, Protocol};
use super::proxy_kind::{Events, ProxyKind};
use super::qos;
use super::qos::validate_event_qos;
use super::table::{AdminKey, Call, Interface, Level, Operation, Target};
use super::wire::{read_enum, read_id, read_reference, write_event_types, write_id, write_ids};
use engine::{AdminId, ChannelId, Operator, ProxyId, ProxyKey, Side};
use giop::cdr::{ReadError, Reader};

pub(super) static EVENT_CHANNEL_FACTORY: Interface = Interface {
    name: "CosNotifyChannelAdmin::EventChannelFactory",
    id: "IDL:omg.org/CosNotifyChannelAdmin/EventChannelFactory:1.0",
    operations: &[
        Operation::done("create_channel", create_channel),
        Operation::done("get_all_channels", get_all_channels),
        Operation::done("get_event_channel", get_event_channel),
    ],
};

fn create_channel(Call { protocol, mut args, reply, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let qos = qos::read_properties(&mut args)?;
    let admin = qos::read_properties(&mut args)?;
    args.finish("the arguments of create_channel")?;
    let requested = qos::initial(protocol, &qos, &admin)?;
    let channel = protocol.create_channel(requested, None)?;
    protocol.objects.reference(Target::Channel(channel))?.write(reply);
    write_id(channel.0, reply);
    Ok(())
}

fn get_all_channels(Call { protocol, args, reply, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of get_all_channels")?;
    write_ids(protocol.channels_known().map(|channel| channel.0), reply);
    Ok(())
}

fn get_event_channel(Call { protocol, mut args, reply, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let id = read_id(&mut args)?;
    args.finish("the arguments of get_event_channel")?;
    let channel = id
        .map(ChannelId)
        .filter(|id| protocol.objects.has_channel(*id) && protocol.guard.knows(&protocol.objects, *id))
        .ok_or(UserException::ChannelNotFound)?;
    protocol.objects.reference(Target::Channel(channel))?.write(reply);
    Ok(())
}

pub(super) static EVENT_CHANNEL: Interface = Interface {
    name: "CosNotifyChannelAdmin::EventChannel",
    id: "IDL:omg.org/CosNotifyChannelAdmin/EventChannel:1.0",
    operations: &[
        Operation::done("_get_MyFactory", my_factory),
        Operation::done("_get_default_consumer_admin", |call| default_admin(call, Side::Consumers)),
        Operation::done("_get_default_supplier_admin", |call| default_admin(call, Side::Suppliers)),
        Operation::done("_get_default_filter_factory", default_filter_factory),
        Operation::done("new_for_consumers", |call| new_admin(call, Side::Consumers)),
        Operation::done("new_for_suppliers", |call| new_admin(call, Side::Suppliers)),
        Operation::done("get_consumeradmin", |call| get_admin(call, Side::Consumers)),
        Operation::done("get_supplieradmin", |call| get_admin(call, Side::Suppliers)),
        Operation::done("get_all_consumeradmins", |call| get_all_admins(call, Side::Consumers)),
        Operation::done("get_all_supplieradmins", |call| get_all_admins(call, Side::Suppliers)),
    ],
};

fn my_factory(Call { protocol, args, reply, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of MyFactory")?;
    protocol.objects.reference(Target::Factory)?.write(reply);
    Ok(())
}

/// Returns a channel's default admin, also for the Event Service's `for_…`.
pub(super) fn default_admin(Call { protocol, on, args, reply }: Call<'_, '_>, side: Side) -> Result<(), Raised> {
    args.finish("the arguments of an operation that gives the default admin")?;
    let admin = AdminKey { channel: on.channel()?, side, admin: AdminId::DEFAULT };
    protocol.objects.reference(Target::Admin(admin))?.write(reply);
    Ok(())
}

fn default_filter_factory(Call { protocol, on, args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of default_filter_factory")?;
    protocol.objects.reference(Target::FilterFactory(on.channel()?))?.write(reply);
    Ok(())
}

pub(super) fn read_operator(args: &mut Reader<'_>) -> Result<Operator, ReadError> {
    Ok(match read_enum(args, "InterFilterGroupOperator", 1)? {
        0 => Operator::And,
        _ => Operator::Or,
    })
}

fn new_admin(Call { protocol, on, mut args, reply }: Call<'_, '_>, side: Side) -> Result<(), Raised> {
    let operator = read_operator(&mut args)?;
    args.finish("the arguments of an operation that makes an admin")?;
    let admin = protocol.objects.create_admin(on.channel()?, side, operator, None)?;
    protocol.objects.reference(Target::Admin(admin))?.write(reply);
    write_id(admin.admin.0, reply);
    Ok(())
}

fn get_admin(Call { protocol, on, mut args, reply }: Call<'_, '_>, side: Side) -> Result<(), Raised> {
    let id = read_id(&mut args)?;
    args.finish("the arguments of an operation that looks up an admin")?;
    let channel = on.channel()?;
    let admin = id.map(|id| AdminKey { channel, side, admin: AdminId(id) });
    let admin = admin.filter(|admin| protocol.objects.has_admin(*admin)).ok_or(UserException::AdminNotFound)?;
    protocol.objects.reference(Target::Admin(admin))?.write(reply);
    Ok(())
}

fn get_all_admins(Call { protocol, on, args, reply }: Call<'_, '_>, side: Side) -> Result<(), Raised> {
    args.finish("the arguments of an operation that lists admins")?;
    write_ids(protocol.objects.admins(on.channel()?, side)?.iter().map(|admin| admin.0), reply);
    Ok(())
}

pub(super) static CONSUMER_ADMIN: Interface = Interface {
    name: "CosNotifyChannelAdmin::ConsumerAdmin",
    id: "IDL:omg.org/CosNotifyChannelAdmin/ConsumerAdmin:1.0",
    operations: &[
        Operation::done("_get_MyID", my_id),
        Operation::done("_get_MyChannel", my_channel),
        Operation::done("_get_MyOperator", my_operator),
        Operation::done("_get_priority_filter", priority_filter),
        Operation::done("_set_priority_filter", set_priority_filter),
        Operation::done("_get_lifetime_filter", lifetime_filter),
        Operation::done("_set_lifetime_filter", set_lifetime_filter),
        Operation::done("_get_pull_suppliers", |call| list(call, true)),
        Operation::done("_get_push_suppliers", |call| list(call, false)),
        Operation::done("get_proxy_supplier", get_proxy),
        Operation::done("obtain_notification_pull_supplier", |call| obtain(call, true)),
        Operation::done("obtain_notification_push_supplier", |call| obtain(call, false)),
        Operation::done("destroy", destroy),
    ],
};

pub(super) static SUPPLIER_ADMIN: Interface = Interface {
    name: "CosNotifyChannelAdmin::SupplierAdmin",
    id: "IDL:omg.org/CosNotifyChannelAdmin/SupplierAdmin:1.0",
    operations: &[
        Operation::done("_get_MyID", my_id),
        Operation::done("_get_MyChannel", my_channel),
        Operation::done("_get_MyOperator", my_operator),
        Operation::done("_get_pull_consumers", |call| list(call, true)),
        Operation::done("_get_push_consumers", |call| list(call, false)),
        Operation::done("get_proxy_consumer", get_proxy),
        Operation::done("obtain_notification_pull_consumer", |call| obtain(call, true)),
        Operation::done("obtain_notification_push_consumer", |call| obtain(call, false)),
        Operation::done("destroy", destroy),
    ],
};

/// Operations of TAO's consumer admins beside the OMG's.
pub(super) static NOTIFY_EXT_CONSUMER_ADMIN: Interface = Interface {
    name: "NotifyExt::ConsumerAdmin",
    id: "IDL:NotifyExt/ConsumerAdmin:1.0",
    operations: &[Operation::done("obtain_notification_push_supplier_with_qos", obtain_with_qos)],
};

/// Operations of TAO's supplier admins beside the OMG's.
pub(super) static NOTIFY_EXT_SUPPLIER_ADMIN: Interface = Interface {
    name: "NotifyExt::SupplierAdmin",
    id: "IDL:NotifyExt/SupplierAdmin:1.0",
    operations: &[Operation::done("obtain_notification_push_consumer_with_qos", obtain_with_qos)],
};

fn my_id(Call { on, args, reply, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of MyID")?;
    write_id(on.admin()?.admin.0, reply);
    Ok(())
}

fn my_channel(Call { protocol, on, args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of MyChannel")?;
    protocol.objects.reference(Target::Channel(on.admin()?.channel))?.write(reply);
    Ok(())
}

fn my_operator(Call { protocol, on, args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of MyOperator")?;
    reply.u32(match protocol.objects.operator(on.admin()?)? {
        Operator::And => 0,
        Operator::Or => 1,
    });
    Ok(())
}

fn list(Call { protocol, on, args, reply }: Call<'_, '_>, pull: bool) -> Result<(), Raised> {
    args.finish("the arguments of an attribute that lists proxies")?;
    let proxies = protocol.objects.notification_proxies(on.admin()?, pull)?;
    write_ids(proxies.iter().map(|proxy| proxy.0), reply);
    Ok(())
}

fn get_proxy(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let id = read_id(&mut args)?;
    args.finish("the arguments of an operation that looks up a proxy")?;
    let admin = on.admin()?;
    let named = id.map(|id| protocol.objects.found_by(ProxyKey { channel: admin.channel, proxy: ProxyId(id) }).proxy);
    let proxy = named.filter(|proxy| protocol.objects.is_notification_proxy(admin, *proxy));
    let proxy = ProxyKey { channel: admin.channel, proxy: proxy.ok_or(UserException::ProxyNotFound)? };
    protocol.objects.reference(Target::Proxy(proxy, admin.side))?.write(reply);
    Ok(())
}

/// `obtain_notification_push_supplier_with_qos` and `…_consumer_with_qos`: makes a proxy with its properties, or none.
fn obtain_with_qos(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let events = read_client_type(&mut args)?;
    let qos = qos::read_properties(&mut args)?;
    args.finish("the arguments of an operation that gives a proxy with properties")?;
    let admin = on.admin()?;
    let proxy = protocol.create_proxy(admin, ProxyKind { events, pull: false }, None)?;
    if let Err(raised) = qos::apply(protocol, Level::Proxy(proxy, admin.side), &qos) {
        protocol.withdraw_proxy(proxy);
        return Err(raised);
    }
    protocol.objects.reference(Target::Proxy(proxy, admin.side))?.write(reply);
    write_id(proxy.proxy.0, reply);
    Ok(())
}

pub(super) fn read_client_type(args: &mut Reader<'_>) -> Result<Events, ReadError> {
    Ok(match read_enum(args, "ClientType", 2)? {
        0 => Events::Any,
        1 => Events::Structured,
        _ => Events::Sequence,
    })
}

fn obtain(Call { protocol, on, mut args, reply }: Call<'_, '_>, pull: bool) -> Result<(), Raised> {
    let events = read_client_type(&mut args)?;
    args.finish("the arguments of an operation that gives a proxy")?;
    let admin = on.admin()?;
    let proxy = protocol.create_proxy(admin, ProxyKind { events, pull }, None)?;
    protocol.objects.reference(Target::Proxy(proxy, admin.side))?.write(reply);
    write_id(proxy.proxy.0, reply);
    Ok(())
}

fn destroy(Call { protocol, on, args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of destroy")?;
    protocol.destroy_admin(on.admin()?)
}

pub(super) static PROXY_CONSUMER: Interface = Interface {
    name: "CosNotifyChannelAdmin::ProxyConsumer",
    id: "IDL:omg.org/CosNotifyChannelAdmin/ProxyConsumer:1.0",
    operations: &[
        Operation::done("_get_MyType", my_type),
        Operation::done("_get_MyAdmin", my_admin),
        Operation::done("obtain_subscription_types", obtain_types),
        Operation::done("validate_event_qos", validate_event_qos),
    ],
};

pub(super) static PROXY_SUPPLIER: Interface = Interface {
    name: "CosNotifyChannelAdmin::ProxySupplier",
    id: "IDL:omg.org/CosNotifyChannelAdmin/ProxySupplier:1.0",
    operations: &[
        Operation::done("_get_MyType", my_type),
        Operation::done("_get_MyAdmin", my_admin),
        Operation::done("_get_priority_filter", priority_filter),
        Operation::done("_set_priority_filter", set_priority_filter),
        Operation::done("_get_lifetime_filter", lifetime_filter),
        Operation::done("_set_lifetime_filter", set_lifetime_filter),
        Operation::done("obtain_offered_types", obtain_types),
        Operation::done("validate_event_qos", validate_event_qos),
    ],
};

pub(super) static PROXY_PUSH_CONSUMER: Interface = Interface {
    name: "CosNotifyChannelAdmin::ProxyPushConsumer",
    id: "IDL:omg.org/CosNotifyChannelAdmin/ProxyPushConsumer:1.0",
    operations: &[Operation::done("connect_any_push_supplier", connect)],
};

pub(super) static STRUCTURED_PROXY_PUSH_CONSUMER: Interface = Interface {
    name: "CosNotifyChannelAdmin::StructuredProxyPushConsumer",
    id: "IDL:omg.org/CosNotifyChannelAdmin/StructuredProxyPushConsumer:1.0",
    operations: &[Operation::done("connect_structured_push_supplier", connect)],
};

pub(super) static SEQUENCE_PROXY_PUSH_CONSUMER: Interface = Interface {
    name: "CosNotifyChannelAdmin::SequenceProxyPushConsumer",
    id: "IDL:omg.org/CosNotifyChannelAdmin/SequenceProxyPushConsumer:1.0",
    operations: &[Operation::done("connect_sequence_push_supplier", connect)],
};

pub(super) static PROXY_PULL_SUPPLIER: Interface = Interface {
    name: "CosNotifyChannelAdmin::ProxyPullSupplier",
    id: "IDL:omg.org/CosNotifyChannelAdmin/ProxyPullSupplier:1.0",
    operations: &[Operation::done("connect_any_pull_consumer", connect)],
};

pub(super) static STRUCTURED_PROXY_PULL_SUPPLIER: Interface = Interface {
    name: "CosNotifyChannelAdmin::StructuredProxyPullSupplier",
    id: "IDL:omg.org/CosNotifyChannelAdmin/StructuredProxyPullSupplier:1.0",
    operations: &[Operation::done("connect_structured_pull_consumer", connect)],
};

pub(super) static SEQUENCE_PROXY_PULL_SUPPLIER: Interface = Interface {
    name: "CosNotifyChannelAdmin::SequenceProxyPullSupplier",
    id: "IDL:omg.org/CosNotifyChannelAdmin/SequenceProxyPullSupplier:1.0",
    operations: &[Operation::done("connect_sequence_pull_consumer", connect)],
};

pub(super) static PROXY_PULL_CONSUMER: Interface = Interface {
    name: "CosNotifyChannelAdmin::ProxyPullConsumer",
    id: "IDL:omg.org/CosNotifyChannelAdmin/ProxyPullConsumer:1.0",
    operations: &[
        Operation::done("connect_any_pull_supplier", connect),
        Operation::done("suspend_connection", suspend_connection),
        Operation::done("resume_connection", resume_connection),
    ],
};

pub(super) static STRUCTURED_PROXY_PULL_CONSUMER: Interface = Interface {
    name: "CosNotifyChannelAdmin::StructuredProxyPullConsumer",
    id: "IDL:omg.org/CosNotifyChannelAdmin/StructuredProxyPullConsumer:1.0",
    operations: &[
        Operation::done("connect_structured_pull_supplier", connect),
        Operation::done("suspend_connection", suspend_connection),
        Operation::done("resume_connection", resume_connection),
    ],
};

pub(super) static SEQUENCE_PROXY_PULL_CONSUMER: Interface = Interface {
    name: "CosNotifyChannelAdmin::SequenceProxyPullConsumer",
    id: "IDL:omg.org/CosNotifyChannelAdmin/SequenceProxyPullConsumer:1.0",
    operations: &[
        Operation::done("connect_sequence_pull_supplier", connect),
        Operation::done("suspend_connection", suspend_connection),
        Operation::done("resume_connection", resume_connection),
    ],
};

pub(super) static PROXY_PUSH_SUPPLIER: Interface = Interface {
    name: "CosNotifyChannelAdmin::ProxyPushSupplier",
    id: "IDL:omg.org/CosNotifyChannelAdmin/ProxyPushSupplier:1.0",
    operations: &[
        Operation::done("connect_any_push_consumer", connect),
        Operation::done("suspend_connection", suspend_connection),
        Operation::done("resume_connection", resume_connection),
    ],
};

pub(super) static STRUCTURED_PROXY_PUSH_SUPPLIER: Interface = Interface {
    name: "CosNotifyChannelAdmin::StructuredProxyPushSupplier",
    id: "IDL:omg.org/CosNotifyChannelAdmin/StructuredProxyPushSupplier:1.0",
    operations: &[
        Operation::done("connect_structured_push_consumer", connect),
        Operation::done("suspend_connection", suspend_connection),
        Operation::done("resume_connection", resume_connection),
    ],
};

pub(super) static SEQUENCE_PROXY_PUSH_SUPPLIER: Interface = Interface {
    name: "CosNotifyChannelAdmin::SequenceProxyPushSupplier",
    id: "IDL:omg.org/CosNotifyChannelAdmin/SequenceProxyPushSupplier:1.0",
    operations: &[
        Operation::done("connect_sequence_push_consumer", connect),
        Operation::done("suspend_connection", suspend_connection),
        Operation::done("resume_connection", resume_connection),
    ],
};

/// Every proxy interface of the module, in the order of its IDL.
pub(super) const ALL: &[&Interface] = &[
    &PROXY_CONSUMER,
    &PROXY_SUPPLIER,
    &PROXY_PUSH_CONSUMER,
    &STRUCTURED_PROXY_PUSH_CONSUMER,
    &SEQUENCE_PROXY_PUSH_CONSUMER,
    &PROXY_PULL_SUPPLIER,
    &STRUCTURED_PROXY_PULL_SUPPLIER,
    &SEQUENCE_PROXY_PULL_SUPPLIER,
    &PROXY_PULL_CONSUMER,
    &STRUCTURED_PROXY_PULL_CONSUMER,
    &SEQUENCE_PROXY_PULL_CONSUMER,
    &PROXY_PUSH_SUPPLIER,
    &STRUCTURED_PROXY_PUSH_SUPPLIER,
    &SEQUENCE_PROXY_PUSH_SUPPLIER,
];

fn my_type(Call { protocol, on, args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of MyType")?;
    reply.u32(protocol.objects.proxy_kind(on.proxy()?)?.proxy_type());
    Ok(())
}

fn my_admin(Call { protocol, on, args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of MyAdmin")?;
    let admin = protocol.objects.admin_of(on.proxy()?)?;
    protocol.objects.reference(Target::Admin(admin))?.write(reply);
    Ok(())
}

/// `obtain_offered_types` and `obtain_subscription_types`: the sum of the channel's offers, or of its subscriptions.
fn obtain_types(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let mode = match read_enum(&mut args, "ObtainInfoMode", 3)? {
        0 => InfoMode { all_now: true, updates: false },
        1 => InfoMode { all_now: true, updates: true },
        2 => InfoMode { all_now: false, updates: false },
        _ => InfoMode { all_now: false, updates: true },
    };
    args.finish("the arguments of an operation that obtains event types")?;
    write_event_types(&protocol.changes.obtain_types(&mut protocol.objects, on.proxy()?, mode)?, reply);
    Ok(())
}

/// `connect_…`: connects a client. The reference may be nil if this service never calls the client: a push supplier, a pull consumer. Such
/// a client is not notified when the connection ends.
pub(super) fn connect(Call { protocol, on, mut args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let client = read_reference(&mut args)?;
    args.finish("the arguments of an operation that connects a client")?;
    protocol.connect(on.proxy()?, client)
}

fn suspend_connection(Call { protocol, on, args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of suspend_connection")?;
    protocol.objects.suspend(on.proxy()?)
}

fn resume_connection(Call { protocol, on, args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of resume_connection")?;
    protocol.objects.resume(on.proxy()?)
}

/// `disconnect_…` called by the client on its proxy.
pub(super) fn disconnect(Call { protocol, on, args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of an operation that disconnects")?;
    protocol.disconnected_by_client(on.proxy()?)
}

/// Answers a push that the event path did not take because it does not know the proxy as connected.
pub(super) fn push(Call { protocol, on, .. }: Call<'_, '_>) -> Result<(), Raised> {
    Err(unknown_to_the_event_path(protocol, on)?)
}

/// Answers `pull` and `try_pull`, of an Any or a structured event, on a proxy that the event path does not know as connected.
pub(super) fn pull(Call { protocol, on, args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of an operation that pulls an event")?;
    Err(unknown_to_the_event_path(protocol, on)?)
}

/// `pull_structured_events` and `try_pull_structured_events` on a proxy that the event path does not know.
pub(super) fn pull_events(Call { protocol, on, mut args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.i32()?;
    args.finish("the arguments of an operation that pulls events")?;
    Err(unknown_to_the_event_path(protocol, on)?)
}

/// The exception for a proxy unknown to the event path. If it was connected a moment ago, the client's next attempt will succeed.
fn unknown_to_the_event_path(protocol: &Protocol, on: Target) -> Result<Raised, Raised> {
    Ok(if protocol.objects.is_connected(on.proxy()?)? {
        Raised::transient()
    } else {
        UserException::Disconnected.into()
    })
}

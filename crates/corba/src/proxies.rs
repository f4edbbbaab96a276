//! The proxies of `CosNotifyChannelAdmin`, but for what they inherit.
//!
//! A proxy consumer is where a supplier connects and pushes to; a proxy supplier is where a consumer connects and gets
//! pushed to. Both end for good with `disconnect_…`, whichever side calls it.

use super::exceptions::{Raised, UserException};
use super::filters::{lifetime_filter, priority_filter, set_lifetime_filter, set_priority_filter};
use super::protocol::{InfoMode, Protocol};
use super::qos::validate_event_qos;
use super::table::{Call, Interface, Operation, Target};
use super::wire::{read_enum, read_reference, write_event_types};

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

/// `obtain_offered_types` and `obtain_subscription_types`: what the channel's suppliers offer together, or its consumers
/// want.
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

/// `connect_…`: a client announces itself. The reference may be nil where this service never has to call the client: a
/// supplier that pushes, a consumer that pulls. It is then not notified when the connection ends.
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

/// An event that the event path did not take because it does not know the proxy as connected.
pub(super) fn push(Call { protocol, on, .. }: Call<'_, '_>) -> Result<(), Raised> {
    Err(unknown_to_the_event_path(protocol, on)?)
}

/// `pull` and `try_pull`, of an Any or a structured event, of a proxy that the event path does not know as connected.
pub(super) fn pull(Call { protocol, on, args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of an operation that pulls an event")?;
    Err(unknown_to_the_event_path(protocol, on)?)
}

/// `pull_structured_events` and `try_pull_structured_events`, likewise.
pub(super) fn pull_events(Call { protocol, on, mut args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.i32()?;
    args.finish("the arguments of an operation that pulls events")?;
    Err(unknown_to_the_event_path(protocol, on)?)
}

/// Where the proxy was connected a moment ago, trying again finds it known.
fn unknown_to_the_event_path(protocol: &Protocol, on: Target) -> Result<Raised, Raised> {
    Ok(if protocol.objects.is_connected(on.proxy()?)? {
        Raised::transient()
    } else {
        UserException::Disconnected.into()
    })
}

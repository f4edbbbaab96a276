//! The plain Event Service: `CosEventComm` and `CosEventChannelAdmin`.
//!
//! A channel and its default admins also serve the Event Service; proxies obtained through the Event Service's own operations are Any
//! proxies with its interface alone. No operation returns their ids, so admins do not list them by id.

use super::channel_admin::default_admin;
use super::channel_admin::{connect, disconnect, pull, push};
use super::exceptions::Raised;
use super::proxy_kind::{Events, ProxyKind};
use super::table::{Call, Interface, Operation, Target};
use engine::Side;

pub(super) static COMM_PUSH_CONSUMER: Interface = Interface {
    name: "CosEventComm::PushConsumer",
    id: "IDL:omg.org/CosEventComm/PushConsumer:1.0",
    operations: &[Operation::done("push", push), Operation::done("disconnect_push_consumer", disconnect)],
};

pub(super) static COMM_PUSH_SUPPLIER: Interface = Interface {
    name: "CosEventComm::PushSupplier",
    id: "IDL:omg.org/CosEventComm/PushSupplier:1.0",
    operations: &[Operation::done("disconnect_push_supplier", disconnect)],
};

pub(super) static COMM_PULL_SUPPLIER: Interface = Interface {
    name: "CosEventComm::PullSupplier",
    id: "IDL:omg.org/CosEventComm/PullSupplier:1.0",
    operations: &[
        Operation::done("pull", pull),
        Operation::done("try_pull", pull),
        Operation::done("disconnect_pull_supplier", disconnect),
    ],
};

pub(super) static COMM_PULL_CONSUMER: Interface = Interface {
    name: "CosEventComm::PullConsumer",
    id: "IDL:omg.org/CosEventComm/PullConsumer:1.0",
    operations: &[Operation::done("disconnect_pull_consumer", disconnect)],
};

pub(super) static PROXY_PUSH_CONSUMER: Interface = Interface {
    name: "CosEventChannelAdmin::ProxyPushConsumer",
    id: "IDL:omg.org/CosEventChannelAdmin/ProxyPushConsumer:1.0",
    operations: &[Operation::done("connect_push_supplier", connect)],
};

pub(super) static PROXY_PULL_SUPPLIER: Interface = Interface {
    name: "CosEventChannelAdmin::ProxyPullSupplier",
    id: "IDL:omg.org/CosEventChannelAdmin/ProxyPullSupplier:1.0",
    operations: &[Operation::done("connect_pull_consumer", connect)],
};

pub(super) static PROXY_PULL_CONSUMER: Interface = Interface {
    name: "CosEventChannelAdmin::ProxyPullConsumer",
    id: "IDL:omg.org/CosEventChannelAdmin/ProxyPullConsumer:1.0",
    operations: &[Operation::done("connect_pull_supplier", connect)],
};

pub(super) static PROXY_PUSH_SUPPLIER: Interface = Interface {
    name: "CosEventChannelAdmin::ProxyPushSupplier",
    id: "IDL:omg.org/CosEventChannelAdmin/ProxyPushSupplier:1.0",
    operations: &[Operation::done("connect_push_consumer", connect)],
};

pub(super) static CONSUMER_ADMIN: Interface = Interface {
    name: "CosEventChannelAdmin::ConsumerAdmin",
    id: "IDL:omg.org/CosEventChannelAdmin/ConsumerAdmin:1.0",
    operations: &[
        Operation::done("obtain_push_supplier", |call| obtain(call, false)),
        Operation::done("obtain_pull_supplier", |call| obtain(call, true)),
    ],
};

pub(super) static SUPPLIER_ADMIN: Interface = Interface {
    name: "CosEventChannelAdmin::SupplierAdmin",
    id: "IDL:omg.org/CosEventChannelAdmin/SupplierAdmin:1.0",
    operations: &[
        Operation::done("obtain_push_consumer", |call| obtain(call, false)),
        Operation::done("obtain_pull_consumer", |call| obtain(call, true)),
    ],
};

pub(super) static EVENT_CHANNEL: Interface = Interface {
    name: "CosEventChannelAdmin::EventChannel",
    id: "IDL:omg.org/CosEventChannelAdmin/EventChannel:1.0",
    operations: &[
        Operation::done("for_consumers", |call| default_admin(call, Side::Consumers)),
        Operation::done("for_suppliers", |call| default_admin(call, Side::Suppliers)),
        Operation::done("destroy", destroy),
    ],
};

/// Every interface of `CosEventComm`, in the order of its IDL.
pub(super) const ALL_COMM: &[&Interface] =
    &[&COMM_PUSH_CONSUMER, &COMM_PUSH_SUPPLIER, &COMM_PULL_SUPPLIER, &COMM_PULL_CONSUMER];

/// Every interface of `CosEventChannelAdmin`, in the order of its IDL.
pub(super) const ALL_CHANNEL_ADMIN: &[&Interface] = &[
    &PROXY_PUSH_CONSUMER,
    &PROXY_PULL_SUPPLIER,
    &PROXY_PULL_CONSUMER,
    &PROXY_PUSH_SUPPLIER,
    &CONSUMER_ADMIN,
    &SUPPLIER_ADMIN,
    &EVENT_CHANNEL,
];

fn destroy(Call { protocol, on, args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of destroy")?;
    protocol.destroy_channel(on.channel()?)
}

fn obtain(Call { protocol, on, args, reply }: Call<'_, '_>, pull: bool) -> Result<(), Raised> {
    args.finish("the arguments of an operation that gives a proxy")?;
    let admin = on.admin()?;
    let proxy = protocol.create_proxy(admin, ProxyKind { events: Events::Plain, pull }, None)?;
    protocol.objects.reference(Target::Proxy(proxy, admin.side))?.write(reply);
    Ok(())
}

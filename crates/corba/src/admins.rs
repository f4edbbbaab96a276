//! `CosNotifyChannelAdmin::ConsumerAdmin` and `SupplierAdmin`, but for what they inherit.

use super::exceptions::{Raised, UserException};
use super::filters::{lifetime_filter, priority_filter, set_lifetime_filter, set_priority_filter};
use super::proxy_kind::{Events, ProxyKind};
use super::qos;
use super::table::{Call, Interface, Level, Operation, Target};
use super::wire::{read_enum, read_id, write_id, write_ids};
use engine::{Operator, ProxyId, ProxyKey};
use giop::cdr::{ReadError, Reader};

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

/// What TAO's consumer admins have beside the OMG's.
pub(super) static NOTIFY_EXT_CONSUMER_ADMIN: Interface = Interface {
    name: "NotifyExt::ConsumerAdmin",
    id: "IDL:NotifyExt/ConsumerAdmin:1.0",
    operations: &[Operation::done("obtain_notification_push_supplier_with_qos", obtain_with_qos)],
};

/// What TAO's supplier admins have beside the OMG's.
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

/// `obtain_notification_push_supplier_with_qos` and `…_consumer_with_qos`: a proxy that is there with its properties, or
/// not at all.
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

//! Extensions of TAO's factory, channels and admins: `NotifyExt` (reconnection registry, shutting down), and, with the repository prefix
//! `sandia.gov`, `NotifyMonitoringExt` (names for channels, admins and proxies). Clients of ALMA Common Software refuse a service without
//! them.

use super::channel_admin::read_client_type;
use super::channel_admin::read_operator;
use super::exceptions::{Raised, UserException};
use super::proxy_kind::ProxyKind;
use super::qos;
use super::table::{Call, Interface, Operation, Target};
use super::wire::{read_id, read_reference, write_id};
use engine::Side;

pub(super) static RECONNECTION_REGISTRY: Interface = Interface {
    name: "NotifyExt::ReconnectionRegistry",
    id: "IDL:NotifyExt/ReconnectionRegistry:1.0",
    operations: &[
        Operation::done("register_callback", register_callback),
        Operation::done("unregister_callback", unregister_callback),
        Operation::done("is_alive", is_alive),
    ],
};

pub(super) static EXT_EVENT_CHANNEL_FACTORY: Interface = Interface {
    name: "NotifyExt::EventChannelFactory",
    id: "IDL:NotifyExt/EventChannelFactory:1.0",
    operations: &[Operation::done("destroy", destroy), Operation::done("save_topology", save_topology)],
};

pub(super) static EVENT_CHANNEL_FACTORY: Interface = Interface {
    name: "NotifyMonitoringExt::EventChannelFactory",
    id: "IDL:sandia.gov/NotifyMonitoringExt/EventChannelFactory:1.0",
    operations: &[Operation::done("create_named_channel", create_named_channel)],
};

pub(super) static EVENT_CHANNEL: Interface = Interface {
    name: "NotifyMonitoringExt::EventChannel",
    id: "IDL:sandia.gov/NotifyMonitoringExt/EventChannel:1.0",
    operations: &[
        Operation::done("named_new_for_consumers", |call| named_new(call, Side::Consumers)),
        Operation::done("named_new_for_suppliers", |call| named_new(call, Side::Suppliers)),
    ],
};

pub(super) static CONSUMER_ADMIN: Interface = Interface {
    name: "NotifyMonitoringExt::ConsumerAdmin",
    id: "IDL:sandia.gov/NotifyMonitoringExt/ConsumerAdmin:1.0",
    operations: &[Operation::done("obtain_named_notification_push_supplier", obtain_named)],
};

pub(super) static SUPPLIER_ADMIN: Interface = Interface {
    name: "NotifyMonitoringExt::SupplierAdmin",
    id: "IDL:sandia.gov/NotifyMonitoringExt/SupplierAdmin:1.0",
    operations: &[Operation::done("obtain_named_notification_push_consumer", obtain_named)],
};

/// `NotifyMonitoringExt`, in the order of its IDL.
pub(super) const MONITORING: &[&Interface] =
    &[&SUPPLIER_ADMIN, &CONSUMER_ADMIN, &EVENT_CHANNEL, &EVENT_CHANNEL_FACTORY];

/// The factories of `NotifyExt`, in the order of its IDL.
pub(super) const FACTORIES: &[&Interface] = &[&RECONNECTION_REGISTRY, &EXT_EVENT_CHANNEL_FACTORY];

fn register_callback(Call { protocol, mut args, reply, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let callback = read_reference(&mut args)?;
    args.finish("the arguments of register_callback")?;
    write_id(protocol.objects.reconnection().register(callback)?, reply);
    Ok(())
}

fn unregister_callback(Call { protocol, mut args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let id = read_id(&mut args)?;
    args.finish("the arguments of unregister_callback")?;
    id.into_iter().for_each(|id| protocol.objects.reconnection().unregister(id));
    Ok(())
}

fn is_alive(Call { args, reply, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of is_alive")?;
    reply.bool(true);
    Ok(())
}

/// The factory is there as long as the service.
fn destroy(Call { args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of destroy")?;
    Err(Raised::no_permission())
}

/// Saves the topology: if there is a store, all earlier changes are stored by the time of the reply.
fn save_topology(Call { args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of save_topology")?;
    Ok(())
}

fn create_named_channel(Call { protocol, mut args, reply, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let qos = qos::read_properties(&mut args)?;
    let admin = qos::read_properties(&mut args)?;
    let name = args.text()?;
    args.finish("the arguments of create_named_channel")?;
    protocol.objects.names.check_channel_name(&name)?;
    if protocol.federated(&name).is_some() {
        // Clients of ALMA look the name up then, as after a race with another client.
        return Err(UserException::NameAlreadyUsed.into());
    }
    let requested = qos::initial(protocol, &qos, &admin)?;
    let channel = protocol.create_channel(requested, Some(&name))?;
    protocol.objects.reference(Target::Channel(channel))?.write(reply);
    write_id(channel.0, reply);
    Ok(())
}

fn named_new(Call { protocol, on, mut args, reply }: Call<'_, '_>, side: Side) -> Result<(), Raised> {
    let operator = read_operator(&mut args)?;
    let name = args.text()?;
    args.finish("the arguments of an operation that makes a named admin")?;
    let admin = protocol.objects.create_admin(on.channel()?, side, operator, Some(&name))?;
    protocol.objects.reference(Target::Admin(admin))?.write(reply);
    write_id(admin.admin.0, reply);
    Ok(())
}

fn obtain_named(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let events = read_client_type(&mut args)?;
    let name = args.text()?;
    args.finish("the arguments of an operation that gives a named proxy")?;
    let admin = on.admin()?;
    let proxy = protocol.create_proxy(admin, ProxyKind { events, pull: false }, Some(&name))?;
    protocol.objects.reference(Target::Proxy(proxy, admin.side))?.write(reply);
    write_id(proxy.proxy.0, reply);
    Ok(())
}

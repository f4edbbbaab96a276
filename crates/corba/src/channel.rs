//! `CosNotifyChannelAdmin::EventChannel`, but for the properties ([`super::qos`]) and what it inherits from the Event
//! Service ([`super::event_service`]).

use super::exceptions::{Raised, UserException};
use super::protocol::Protocol;
use super::table::{AdminKey, Interface, Operation, Target};
use super::wire::{read_enum, read_id, write_id, write_ids};
use engine::{AdminId, Operator, Side};
use giop::cdr::{ReadError, Reader, Writer};

pub(super) static EVENT_CHANNEL: Interface = Interface {
    name: "CosNotifyChannelAdmin::EventChannel",
    id: "IDL:omg.org/CosNotifyChannelAdmin/EventChannel:1.0",
    operations: &[
        Operation::done("_get_MyFactory", my_factory),
        Operation::done("_get_default_consumer_admin", default_consumer_admin),
        Operation::done("_get_default_supplier_admin", default_supplier_admin),
        Operation::done("_get_default_filter_factory", default_filter_factory),
        Operation::done("new_for_consumers", new_for_consumers),
        Operation::done("new_for_suppliers", new_for_suppliers),
        Operation::done("get_consumeradmin", get_consumeradmin),
        Operation::done("get_supplieradmin", get_supplieradmin),
        Operation::done("get_all_consumeradmins", get_all_consumeradmins),
        Operation::done("get_all_supplieradmins", get_all_supplieradmins),
    ],
};

fn my_factory(protocol: &mut Protocol, _: Target, args: Reader<'_>, reply: &mut Writer<'_>) -> Result<(), Raised> {
    args.finish("the arguments of MyFactory")?;
    protocol.objects.reference(Target::Factory)?.write(reply);
    Ok(())
}

fn default_consumer_admin(
    protocol: &mut Protocol,
    on: Target,
    args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<(), Raised> {
    default_admin(protocol, on, Side::Consumers, args, reply)
}

fn default_supplier_admin(
    protocol: &mut Protocol,
    on: Target,
    args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<(), Raised> {
    default_admin(protocol, on, Side::Suppliers, args, reply)
}

/// Answers with the admin that a channel has from the start; the Event Service's `for_…` mean it too.
pub(super) fn default_admin(
    protocol: &mut Protocol,
    on: Target,
    side: Side,
    args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<(), Raised> {
    args.finish("the arguments of an operation that gives the default admin")?;
    let admin = AdminKey { channel: on.channel()?, side, admin: AdminId::DEFAULT };
    protocol.objects.reference(Target::Admin(admin))?.write(reply);
    Ok(())
}

fn default_filter_factory(
    protocol: &mut Protocol,
    on: Target,
    args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<(), Raised> {
    args.finish("the arguments of default_filter_factory")?;
    protocol.objects.reference(Target::FilterFactory(on.channel()?))?.write(reply);
    Ok(())
}

fn new_for_consumers(
    protocol: &mut Protocol,
    on: Target,
    args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<(), Raised> {
    new_admin(protocol, on, Side::Consumers, args, reply)
}

fn new_for_suppliers(
    protocol: &mut Protocol,
    on: Target,
    args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<(), Raised> {
    new_admin(protocol, on, Side::Suppliers, args, reply)
}

pub(super) fn read_operator(args: &mut Reader<'_>) -> Result<Operator, ReadError> {
    Ok(match read_enum(args, "InterFilterGroupOperator", 1)? {
        0 => Operator::And,
        _ => Operator::Or,
    })
}

fn new_admin(
    protocol: &mut Protocol,
    on: Target,
    side: Side,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<(), Raised> {
    let operator = read_operator(&mut args)?;
    args.finish("the arguments of an operation that makes an admin")?;
    let admin = protocol.objects.create_admin(on.channel()?, side, operator, None)?;
    protocol.objects.reference(Target::Admin(admin))?.write(reply);
    write_id(admin.admin.0, reply);
    Ok(())
}

fn get_consumeradmin(
    protocol: &mut Protocol,
    on: Target,
    args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<(), Raised> {
    get_admin(protocol, on, Side::Consumers, args, reply)
}

fn get_supplieradmin(
    protocol: &mut Protocol,
    on: Target,
    args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<(), Raised> {
    get_admin(protocol, on, Side::Suppliers, args, reply)
}

fn get_admin(
    protocol: &mut Protocol,
    on: Target,
    side: Side,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<(), Raised> {
    let id = read_id(&mut args)?;
    args.finish("the arguments of an operation that looks up an admin")?;
    let channel = on.channel()?;
    let admin = id.map(|id| AdminKey { channel, side, admin: AdminId(id) });
    let admin = admin.filter(|admin| protocol.objects.has_admin(*admin)).ok_or(UserException::AdminNotFound)?;
    protocol.objects.reference(Target::Admin(admin))?.write(reply);
    Ok(())
}

fn get_all_consumeradmins(
    protocol: &mut Protocol,
    on: Target,
    args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<(), Raised> {
    get_all_admins(protocol, on, Side::Consumers, args, reply)
}

fn get_all_supplieradmins(
    protocol: &mut Protocol,
    on: Target,
    args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<(), Raised> {
    get_all_admins(protocol, on, Side::Suppliers, args, reply)
}

fn get_all_admins(
    protocol: &mut Protocol,
    on: Target,
    side: Side,
    args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<(), Raised> {
    args.finish("the arguments of an operation that lists admins")?;
    write_ids(protocol.objects.admins(on.channel()?, side)?.iter().map(|admin| admin.0), reply);
    Ok(())
}

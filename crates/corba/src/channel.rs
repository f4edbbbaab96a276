//! `CosNotifyChannelAdmin::EventChannel`, but for the properties ([`super::qos`]) and what it inherits from the Event
//! Service ([`super::event_service`]).

use super::exceptions::{Raised, UserException};
use super::table::{AdminKey, Call, Interface, Operation, Target};
use super::wire::{read_enum, read_id, write_id, write_ids};
use engine::{AdminId, Operator, Side};
use giop::cdr::{ReadError, Reader};

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

/// Answers with the admin that a channel has from the start; the Event Service's `for_…` mean it too.
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

//! `CosNotifyChannelAdmin::EventChannelFactory`.

use super::exceptions::{Raised, UserException};
use super::qos;
use super::table::{Call, Interface, Operation, Target};
use super::wire::{read_id, write_id, write_ids};
use engine::ChannelId;

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

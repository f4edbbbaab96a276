//! `CosLifeCycle::GenericFactory`: channels by name, as omniEvents makes them for clients of the plain Event Service (REDHAWK's among
//! them).

use super::exceptions::{Raised, UserException};
use super::naming::{NameComponent, read_name};
use super::protocol::Protocol;
use super::qos::{self, Given};
use super::table::{Call, Interface, Operation, Target};
use giop::cdr::Reader;
use giop::value::Value;

pub(super) static GENERIC_FACTORY: Interface = Interface {
    name: "CosLifeCycle::GenericFactory",
    id: "IDL:omg.org/CosLifeCycle/GenericFactory:1.0",
    operations: &[Operation::done("supports", supports), Operation::done("create_object", create_object)],
};

/// omniEvents' factory as its own IDL has it: a `GenericFactory`. Its clients narrow what they find to this.
pub(super) static OMNI_EVENTS_FACTORY: Interface = Interface {
    name: "omniEvents::EventChannelFactory",
    id: "IDL:omni/omniEvents/EventChannelFactory:1.0",
    operations: &[],
};

/// The interface of omniEvents' factory in its first releases.
pub(super) static FIRST_OMNI_EVENTS_FACTORY: Interface = Interface {
    name: "EventChannelAdmin::EventChannelFactory",
    id: "IDL:EventChannelAdmin/EventChannelFactory:1.0",
    operations: &[],
};

/// omniEvents' channel: the Event Service's.
pub(super) static OMNI_EVENTS_CHANNEL: Interface =
    Interface { name: "omniEvents::EventChannel", id: "IDL:omni/omniEvents/EventChannel:1.0", operations: &[] };

/// The criterion with a channel's name.
const INSTANCE_NAME: &str = "InsName";

/// omniEvents' numeric criteria. They are ignored, and refused with another type, as in omniEvents.
const NUMBERS: [&str; 5] =
    ["CyclePeriod_ns", "MaxNumProxies", "MaxQueueLength", "PullRetryPeriod", "PullRetryPeriod_ms"];

/// Whether a key asks for an event channel, the only kind made here, in omniEvents' one spelling.
fn is_channel(key: &[NameComponent]) -> bool {
    matches!(key, [component] if component.id == "EventChannel" && component.kind == "object interface")
}

/// Reads a key; one with more components than names have is refused.
fn read_key(protocol: &Protocol, args: &mut Reader<'_>) -> Result<Vec<NameComponent>, Raised> {
    read_name(protocol, args).map_err(|raised| match raised {
        Raised::User(_) => Raised::limit(),
        raised @ (Raised::System(_) | Raised::Forward(_)) => raised,
    })
}

fn supports(Call { protocol, mut args, reply, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let key = read_key(protocol, &mut args)?;
    args.finish("the arguments of supports")?;
    reply.bool(is_channel(&key));
    Ok(())
}

/// Makes the channel named by the criteria, or returns the existing one: it may be left from before a restart of its users.
fn create_object(Call { protocol, mut args, reply, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let key = read_key(protocol, &mut args)?;
    // A sequence of names and values, as properties are.
    let criteria = qos::read_properties(&mut args)?;
    args.finish("the arguments of create_object")?;
    if !is_channel(&key) {
        return Err(UserException::NoFactory(key).into());
    }
    for name in NUMBERS {
        let is_wrong = |given: &&Given<'_>| given.name() == name && !is_count(&given.decoded().value);
        if let Some(given) = criteria.iter().find(is_wrong) {
            return Err(invalid(name, given));
        }
    }
    let name = match criteria.iter().rfind(|given| given.name() == INSTANCE_NAME) {
        Some(given) => Some(instance_name(given)?),
        None => None,
    };
    let known = name.as_deref().and_then(|name| protocol.objects.names.channel_named(name));
    let channel = match known {
        Some(channel) => channel,
        None => {
            let requested = protocol.objects.initial_properties();
            protocol.create_channel(requested, name.as_deref())?
        }
    };
    match name {
        Some(name) => protocol.objects.reference_by_name(channel, &name)?.write(reply),
        None => protocol.objects.reference(Target::Channel(channel))?.write(reply),
    }
    Ok(())
}

fn instance_name(given: &Given<'_>) -> Result<String, Raised> {
    let name = given.text().unwrap_or_default();
    if name.is_empty() || name.len() > super::protocol::NAME_BYTES_MAX {
        return Err(invalid(INSTANCE_NAME, given));
    }
    Ok(name)
}

fn invalid(name: &'static str, given: &Given<'_>) -> Raised {
    UserException::InvalidCriteria(name, Box::new(given.decoded())).into()
}

/// Whether a value is a number in the range of `unsigned long`, whatever its type.
fn is_count(value: &Value) -> bool {
    qos::integer(value).is_some_and(|number| u32::try_from(number).is_ok())
}

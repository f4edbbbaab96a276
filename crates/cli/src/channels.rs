//! Channels by the names that people give them.
//!
//! A channel has a number in its factory, and may have a name, which the naming service resolves as
//! `{id "Weather@DEFAULTDOMAIN", kind "channels"}`, or other names that clients have bound there. Commands accept numbers and names.

use crate::args::{ChannelArg, EventTypeArg, ServerOptions};
use crate::failure::Failure;
use crate::ls;
use crate::statistics::{self, Statistics};
use campanile::Settings;
use client::naming::{NameComponent, NamingContext, names_of_channel};
use client::notify::EventChannel;
use client::{InvokeError, ObjectRef, Orb};
use corba::naming::WELL_KNOWN;
use corba::near;
use std::collections::HashMap;

/// Kind of channel names in the naming service.
const KIND: &str = "channels";
/// Maximum names of a naming service that are searched.
pub(crate) const NAMES_MAX: u32 = 4_096;

/// Number of the channel given on the command line, if one is. An unknown name is refused, with a similar one as a hint.
pub(crate) fn number(channel: Option<&ChannelArg>, server: &ServerOptions) -> Result<Option<i32>, Failure> {
    look_up(channel, server, |service, name| {
        let names =
            Names::read(service.orb(), service, &service.connect().map_err(|error| Failure::remote(&error, server))?);
        let near = near::hint(name, names.all());
        Err(Failure::Message(format!(
            "there is no channel {name:?} at {}{near} (`campanile channel ls` lists them)",
            server.server
        )))
    })
}

/// Refuses an event type without a domain that equals a channel's name, if no channel is given: the channel may be meant.
pub(crate) fn refuse_mistaken<'t>(
    channel: Option<&ChannelArg>,
    types: impl IntoIterator<Item = &'t EventTypeArg>,
    server: &ServerOptions,
) -> Result<(), Failure> {
    for EventTypeArg { name, .. } in types.into_iter().filter(|of| channel.is_none() && of.domain.is_none()) {
        let called_so = ChannelArg::Name(name.clone());
        if look_up(Some(&called_so), server, |_, _| Err(Failure::Quiet)).is_ok() {
            return Err(Failure::Usage(format!(
                "{name} is a channel: --channel {name} names it, and /{name} the event type without a domain"
            )));
        }
    }
    Ok(())
}

/// Channel of a command.
pub(crate) struct Place {
    /// Number; `None` if no channel was given.
    pub(crate) number: Option<i32>,
    /// The channel with its name, if it was made for this command.
    made: Option<(EventChannel, NameComponent)>,
}

impl From<Option<i32>> for Place {
    fn from(number: Option<i32>) -> Self {
        Self { number, made: None }
    }
}

impl Place {
    /// Whether the channel was made for this command.
    pub(crate) const fn is_new(&self) -> bool {
        self.made.is_some()
    }

    /// Destroys a channel that was made for a command that has failed, unless others use it by now.
    pub(crate) fn undo(self) {
        let Some((channel, name)) = self.made else { return };
        if matches!(is_used(&channel), Ok(false)) {
            // The command's own failure is the one to tell.
            let naming = NamingContext::beside(channel.object());
            let _ = naming.unbind(&[name]).and_then(|()| channel.destroy());
        }
    }
}

/// Whether a channel has any client's admin or proxy.
fn is_used(channel: &EventChannel) -> Result<bool, InvokeError> {
    let (consumers, suppliers) = (channel.default_consumer_admin()?, channel.default_supplier_admin()?);
    Ok(channel.get_all_consumeradmins()?.len() > 1
        || channel.get_all_supplieradmins()?.len() > 1
        || !consumers.push_suppliers()?.is_empty()
        || !consumers.pull_suppliers()?.is_empty()
        || !suppliers.push_consumers()?.is_empty()
        || !suppliers.pull_consumers()?.is_empty())
}

/// Number of the channel as [`number`] finds it. For an unknown name a channel is made.
pub(crate) fn number_or_new(channel: Option<&ChannelArg>, server: &ServerOptions) -> Result<Place, Failure> {
    let mut made = None;
    let number = look_up(channel, server, |service, name| {
        let settings = Settings { server: server.server.clone(), ..server.settings.clone() };
        let finder =
            campanile::raw::channel_finder(name, &settings).map_err(|error| Failure::Usage(error.to_string()))?;
        let channel = finder.find(service.orb()).map_err(|error| Failure::remote(&error, server))?;
        let id = format!("{name}@{}", settings.naming_domain);
        made = Some((channel.clone(), NameComponent { id, kind: KIND.to_owned() }));
        Ok(channel)
    })?;
    Ok(Place { number, made })
}

fn look_up(
    channel: Option<&ChannelArg>,
    server: &ServerOptions,
    otherwise: impl FnOnce(&ObjectRef, &str) -> Result<EventChannel, Failure>,
) -> Result<Option<i32>, Failure> {
    let name = match channel {
        None => return Ok(None),
        Some(ChannelArg::Number(number)) => return Ok(Some(*number)),
        Some(ChannelArg::Name(name)) => name,
    };
    let remote = |error: InvokeError| Failure::remote(&error, server);
    let orb = Orb::new(ls::orb_options(server));
    let service = orb.resolve_service(&server.server).map_err(remote)?;
    service.connect().map_err(remote)?;
    let naming = NamingContext::beside(&service);
    let bound = names_of_channel(name, &server.settings.naming_domain)
        .into_iter()
        .find_map(|candidate| EventChannel::narrow(naming.resolve(&candidate).ok()?).ok());
    let channel = bound.map_or_else(|| otherwise(&service, name), Ok)?;
    match statistics::number_of(&channel) {
        Some(number) => Ok(Some(number)),
        None => Err(Failure::Message(format!("the channel {name:?} is none of the service at {}", server.server))),
    }
}

/// Number of the channel as [`number`] finds it, in the type of the service's statistics.
pub(crate) fn unsigned(channel: Option<&ChannelArg>, server: &ServerOptions) -> Result<Option<u32>, Failure> {
    let Some(number) = number(channel, server)? else { return Ok(None) };
    u32::try_from(number).map(Some).map_err(|_| Failure::Usage(format!("there is no channel {number}")))
}

/// Names of channels: their own, by number, and those bound in the naming service, by object key. Other services have bound names only, or
/// none without a naming service.
pub(crate) struct Names {
    own: HashMap<u32, String>,
    bound: Vec<(Vec<u8>, String)>,
}

impl Names {
    /// Reads the names from the service at an address, and from its naming service.
    pub(crate) fn read(orb: &Orb, service: &ObjectRef, address: &str) -> Self {
        let statistics = Statistics::at(orb, address.to_owned());
        let own = statistics.and_then(|statistics| statistics.channel_names()).unwrap_or_default();
        Self { own, bound: Self::bound(service) }
    }

    fn bound(service: &ObjectRef) -> Vec<(Vec<u8>, String)> {
        let naming = NamingContext::beside(service);
        let Ok((bindings, _)) = naming.list(NAMES_MAX) else { return Vec::new() };
        let mut names = Vec::new();
        for binding in bindings.iter().filter(|binding| !binding.is_context) {
            let [component] = binding.name.as_slice() else { continue };
            // Under these, clients look for a channel, whichever that is: they tell nothing of this one.
            if WELL_KNOWN.iter().any(|(id, kind, _)| (*id, *kind) == (&component.id, &component.kind)) {
                continue;
            }
            if let Ok(object) = naming.resolve(&binding.name)
                && let Some(profile) = object.ior().iiop()
            {
                let name = match component.kind.as_str() {
                    KIND => component.id.split_once('@').map_or(component.id.as_str(), |(name, _)| name),
                    _ => component.id.as_str(),
                };
                names.push((profile.key.clone(), name.to_owned()));
            }
        }
        names
    }

    /// All names.
    pub(crate) fn all(&self) -> impl Iterator<Item = &str> {
        self.own.values().chain(self.bound.iter().map(|(_, name)| name)).map(String::as_str)
    }

    /// The name of a channel of that number, if it has one.
    pub(crate) fn of(&self, channel: &EventChannel, number: u32) -> Option<&str> {
        if let Some(name) = self.own.get(&number) {
            return Some(name);
        }
        let key = &channel.object().ior().iiop()?.key;
        self.bound.iter().find(|(other, _)| other == key).map(|(_, name)| name.as_str())
    }
}

//! Channels by name: found in the naming service, and made by the first program that needs them.
//!
//! As in ALMA Common Software a channel is bound as `{id "<channel>@<domain>", kind "channels"}`. If several programs start at once, the
//! one that succeeds with `create_named_channel` makes it. A factory without that operation makes a channel for each, and the first one
//! bound is used. Campanile's own naming service finds any channel by that name before it is bound; with another one, an existing channel
//! is found at the service by its name, `corbaloc::HOST:PORT/NAME`, and bound.

use crate::Error;
use crate::settings::Settings;
use client::naming::{NameComponent, NamingContext};
use client::notify::{EventChannel, EventChannelFactory};
use client::{ChannelFinder, InvokeError, ObjectRef, Orb, OrbOptions};
use giop::ior::Profile;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The kind of names of channels.
const KIND: &str = "channels";
/// Time that the maker of a channel has to bind it; after that, other programs find it at the service and bind it.
const BINDING_MAX: Duration = Duration::from_secs(1);
/// Interval of checks for a channel, or for a service.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Settings of the orbs of suppliers and consumers.
pub(crate) fn orb_options(settings: &Settings) -> OrbOptions {
    OrbOptions { name: settings.name.clone(), tls: settings.tls.of_orb(), ..OrbOptions::default() }
}

/// Refuses an invalid channel name.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let reason = if name.is_empty() {
        "it is empty"
    } else if name.chars().any(|c| c == '\0' || u32::from(c) > 0xFF) {
        // References by which services are found say nothing of code sets.
        "it has characters beyond ISO 8859-1, which naming services have in common"
    } else if name.len() > 255 {
        "it is longer than 255 octets"
    } else {
        return Ok(());
    };
    Err(Error::ChannelName { name: name.to_owned(), reason })
}

/// A finder that finds the channel, or makes it.
pub(crate) fn finder(channel: &str, settings: &Settings) -> ChannelFinder {
    let place = Place {
        channel: channel.to_owned(),
        id: format!("{channel}@{}", settings.naming_domain),
        server: settings.server.clone(),
        naming: settings.naming.clone(),
    };
    ChannelFinder::new(move |orb| place.find(orb))
}

/// Runs something that needs a service, repeatedly for as long as the settings wait for one.
pub(crate) fn patiently<T>(
    settings: &Settings,
    mut attempt: impl FnMut() -> Result<T, InvokeError>,
) -> Result<T, InvokeError> {
    let ends = Instant::now().checked_add(settings.wait_for_service);
    loop {
        match attempt() {
            Err(error) if error.is_connection_failure() && ends.is_none_or(|ends| Instant::now() < ends) => pause(),
            outcome => return outcome,
        }
    }
}

/// Waits for a moment, since nothing notifies of a new service or name.
fn pause() {
    let (lock, nobody) = (Mutex::new(()), Condvar::new());
    let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = nobody.wait_timeout(guard, LOOK_EVERY);
}

struct Place {
    channel: String,
    id: String,
    server: String,
    naming: Option<String>,
}

impl Place {
    fn find(&self, orb: &Orb) -> Result<EventChannel, InvokeError> {
        let naming = self.naming_context(orb)?;
        let name = [NameComponent { id: self.id.clone(), kind: KIND.to_owned() }];
        if let Some(channel) = bound(&naming, &name)? {
            return Ok(channel);
        }
        let factory = EventChannelFactory::unchecked(orb.resolve_service(&self.server)?);
        if factory.gives_names()? {
            self.make_named(&naming, &name, &factory)
        } else {
            let (channel, _) = factory.create_channel(&[], &[])?;
            first_come(&naming, &name, channel, Maker::This)
        }
    }

    fn make_named(
        &self,
        naming: &NamingContext,
        name: &[NameComponent],
        factory: &EventChannelFactory,
    ) -> Result<EventChannel, InvokeError> {
        match factory.create_named_channel(&[], &[], &self.channel) {
            Ok((channel, _)) => first_come(naming, name, channel, Maker::This),
            Err(error) if error.is("NameAlreadyUsed") => {
                // Another client is about to bind it, or the service had it: the configuration declares it, for example.
                let ends = Instant::now() + BINDING_MAX;
                while Instant::now() < ends {
                    if let Some(channel) = bound(naming, name)? {
                        return Ok(channel);
                    }
                    pause();
                }
                match self.named(factory.object().orb()) {
                    Ok(channel) => first_come(naming, name, channel, Maker::Another),
                    Err(error) if error.is_connection_failure() => Err(error),
                    Err(error) => {
                        let reason = format!(
                            "the service has a channel named {:?}, but the naming service has no {}.{KIND} (it was not bound there, or \
                             was bound in another naming domain), and the service does not give it by its name: {error}",
                            self.channel, self.id
                        );
                        Err(InvokeError::NoChannel { reason })
                    }
                }
            }
            Err(error) => Err(error),
        }
    }

    /// The service's channel of that name, which is its object key, by the service's own reference.
    fn named(&self, orb: &Orb) -> Result<EventChannel, InvokeError> {
        let channel = EventChannel::narrow(self.beside(orb, self.channel.as_bytes())?)?;
        channel.default_consumer_admin()?.my_channel()
    }

    /// The service's object with a given key.
    fn beside(&self, orb: &Orb, key: &[u8]) -> Result<ObjectRef, InvokeError> {
        let mut ior = orb.resolve_service(&self.server)?.ior().clone();
        ior.type_id.clear();
        for profile in &mut ior.profiles {
            if let Profile::Iiop(profile) = profile {
                profile.key = key.to_vec();
            }
        }
        Ok(orb.object(ior))
    }

    fn naming_context(&self, orb: &Orb) -> Result<NamingContext, InvokeError> {
        let object = match &self.naming {
            Some(naming) if naming.contains(':') && !naming.starts_with(|c: char| c.is_ascii_digit()) => {
                orb.resolve(naming)?
            }
            Some(naming) => orb.resolve_at(naming, "NameService")?,
            None => self.beside(orb, b"NameService")?,
        };
        Ok(NamingContext::unchecked(object))
    }
}

/// The channel of that name; `None` if the name does not exist, or its channel is gone. The name is left as it is: another client may be
/// about to bind a new channel to it.
fn bound(naming: &NamingContext, name: &[NameComponent]) -> Result<Option<EventChannel>, InvokeError> {
    let object = match naming.resolve(name) {
        Ok(object) => object,
        Err(error) if error.is("NotFound") => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok((!object.non_existent()?).then(|| EventChannel::unchecked(object)))
}

/// The maker of a channel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Maker {
    This,
    Another,
}

/// Binds a channel, or returns the one that another client has bound meanwhile. In that case a channel that this client made is destroyed,
/// since no other client has seen it, unless it is the same.
fn first_come(
    naming: &NamingContext,
    name: &[NameComponent],
    channel: EventChannel,
    maker: Maker,
) -> Result<EventChannel, InvokeError> {
    let key = |channel: &EventChannel| channel.object().ior().iiop().map(|profile| profile.key.clone());
    match naming.bind(name, channel.object()) {
        Ok(()) => Ok(channel),
        Err(error) if error.is("AlreadyBound") => match bound(naming, name)? {
            Some(theirs) => {
                if maker == Maker::This && key(&theirs) != key(&channel) {
                    let _ = channel.destroy();
                }
                Ok(theirs)
            }
            None => naming.rebind(name, channel.object()).map(|()| channel),
        },
        Err(error) => Err(error),
    }
}

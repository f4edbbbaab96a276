//! Channels by name: found in the naming service, and made by the first program that needs one.
//!
//! As in ALMA Common Software a channel is bound as `{id "<channel>@<domain>", kind "channels"}`. Of several programs that come at once,
//! the one makes it that succeeds with `create_named_channel`. A factory without that operation makes one for each, and the one counts
//! that is bound first. Campanile's own naming service finds a channel by that name before it is bound, whichever program made it; in
//! another one, a channel that the service has already is found there by its name, `corbaloc::HOST:PORT/NAME`, and bound.

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
/// How long the maker of a channel may take to bind it, until it is taken from the service and bound.
const BINDING_MAX: Duration = Duration::from_secs(1);
/// Between two looks whether it is there, or whether there is a service.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Settings of the orbs of suppliers and consumers.
pub(crate) fn orb_options(settings: &Settings) -> OrbOptions {
    OrbOptions { name: settings.name.clone(), tls: settings.tls.of_orb(), ..OrbOptions::default() }
}

/// Refuses what cannot be a channel's name.
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

/// Finds the channel, or makes it.
pub(crate) fn finder(channel: &str, settings: &Settings) -> ChannelFinder {
    let place = Place {
        channel: channel.to_owned(),
        id: format!("{channel}@{}", settings.naming_domain),
        server: settings.server.clone(),
        naming: settings.naming.clone(),
    };
    ChannelFinder::new(move |orb| place.find(orb))
}

/// Does what needs a service, again for as long as the settings wait for one.
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

/// Waits for a moment: nothing notifies when a service or a name is there.
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

    /// The service's channel of that name, which is its object key, by the reference that the service gives for it.
    fn named(&self, orb: &Orb) -> Result<EventChannel, InvokeError> {
        let channel = EventChannel::narrow(self.beside(orb, self.channel.as_bytes())?)?;
        channel.default_consumer_admin()?.my_channel()
    }

    /// The object of the service with a key of its own choice.
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

/// The channel of that name; none if there is no such name, or the channel is gone. Its name is left as it is: another client
/// may be about to give it to a new one.
fn bound(naming: &NamingContext, name: &[NameComponent]) -> Result<Option<EventChannel>, InvokeError> {
    let object = match naming.resolve(name) {
        Ok(object) => object,
        Err(error) if error.is("NotFound") => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok((!object.non_existent()?).then(|| EventChannel::unchecked(object)))
}

/// Which client has made a channel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Maker {
    This,
    Another,
}

/// Binds a channel, or takes the one that another client has bound meanwhile; then one that this client made is destroyed, since no other
/// has seen it, unless it is just that.
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

//! The transport of events: a notification service, or DDS.

use crate::channel::{finder, orb_options, patiently};
use crate::error::Error;
use crate::raw::{Desk, Way};
use crate::settings::{Settings, Transport};
use client::{SimpleSupplier, SupplierOptions};

/// A supplier's transport.
#[derive(Debug)]
pub(crate) enum Link {
    Notification(SimpleSupplier),
    #[cfg(feature = "dds")]
    Dds(Box<crate::peer_to_peer::Writers>),
}

impl Link {
    pub(crate) fn new(channel: &str, settings: &Settings) -> Result<Self, Error> {
        match settings.transport {
            Transport::Notification => {
                settings.tls.check()?;
                let options = || SupplierOptions { orb: orb_options(settings), ..SupplierOptions::default() };
                let supplier = patiently(settings, || {
                    SimpleSupplier::connect_by(&settings.server, finder(channel, settings), options())
                })?;
                Ok(Self::Notification(supplier))
            }
            #[cfg(feature = "dds")]
            Transport::Dds => Ok(Self::Dds(Box::new(crate::peer_to_peer::Writers::new(channel, settings)?))),
            #[cfg(not(feature = "dds"))]
            Transport::Dds => Err(Error::NoTransport { transport: "DDS" }),
        }
    }
}

/// Subscribes over DDS.
#[cfg(feature = "dds")]
pub(crate) fn receive(channel: &str, settings: &Settings, filter: Option<&str>, desk: Desk) -> Result<Way, Error> {
    let listeners = crate::peer_to_peer::Listeners::new(channel, settings, filter, desk)?;
    Ok(Way::Dds(crate::raw::Own::new(listeners)))
}

/// Reports that this build has no DDS.
#[cfg(not(feature = "dds"))]
pub(crate) fn receive(_: &str, _: &Settings, _: Option<&str>, _: Desk) -> Result<Way, Error> {
    Err(Error::NoTransport { transport: "DDS" })
}

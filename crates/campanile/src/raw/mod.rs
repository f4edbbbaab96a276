//! Events as octets with their type: used by the bindings of other languages, and by the typed interface of this crate.
//!
//! # What a value is
//!
//! A *type* is a [`TypeCode`](crate::TypeCode); of events it is a structure. A *value* is the octets of it in CDR, always:
//!
//! - in this processor's byte order ([`Endian::NATIVE`](giop::cdr::Endian::NATIVE));
//! - aligned as in GIOP 1.2, the first octet being at position 0 (a `double` lies at a multiple of 8 from there);
//! - with strings in UTF-8, their length, which counts the NUL, in front, and a NUL behind; no NUL within;
//! - with `wchar` and `wstring` as GIOP 1.2 has them (their length in octets in front, UTF-16 big-endian);
//! - without anything behind it, not even padding.
//!
//! That holds for what is handed over and for what is got, whatever travels. What is handed over is checked
//! ([`Error::Value`] names the member); what is got has been: lengths and bounds hold, booleans are 0 or 1, enums are labels of
//! the type, text is UTF-8 without NUL. So a binding may read it without a check of its own.
//!
//! # Publishing
//!
//! ```no_run
//! use campanile::raw::RawSupplier;
//! use campanile::{Declared, Kind, Settings, TypeCode};
//!
//! let wind = TypeCode::structure("IDL:Wind:1.0", "Wind", &[("speed", TypeCode::primitive(Kind::Double))]);
//! let wind = Declared::new(&wind, None, None)?;
//! let supplier = RawSupplier::new("Weather", &Settings::load()?)?;
//! supplier.publish(&wind, &11.5_f64.to_ne_bytes())?;
//! # Ok::<(), campanile::Error>(())
//! ```
//!
//! # Receiving
//!
//! ```no_run
//! use campanile::raw::RawConsumer;
//! use campanile::{Declared, Kind, Settings, TypeCode};
//!
//! # let wind = TypeCode::structure("IDL:Wind:1.0", "Wind", &[("speed", TypeCode::primitive(Kind::Double))]);
//! # let wind = Declared::new(&wind, None, None)?;
//! let consumer = RawConsumer::new("Weather")
//!     .settings(Settings::load()?)
//!     .filter("$speed > 10")
//!     .on(&wind, |event| {
//!         println!("{}: {:?}", event.name, event.cdr);
//!         Ok(())
//!     })
//!     .ready()?;
//! # drop(consumer);
//! # Ok::<(), campanile::Error>(())
//! ```
//!
//! Or one after the other, without callbacks: [`RawConsumer::events`].
//!
//! # Threads, processes, ends
//!
//! All here may be used from any thread, and from several at once. Callbacks run on a thread of the library's, one at a time for a
//! consumer, in the order of the channel; while one runs, the consumer's other events wait. A callback may publish, and may end its
//! own consumer, by answering `Err(CallbackError::Enough)` or by dropping it. With [`Settings::shared_thread`] they run on one thread for
//! all consumers that share it, one at a time. After a `fork`, suppliers answer [`Error::Forked`] in
//! the child, and consumers get nothing there; dropping either there touches nothing of the parent's.

mod consumer;
mod desk;
mod events;
mod pace;
mod publisher;
mod restart;
#[cfg(feature = "filters")]
mod sieve;
mod supplier;

pub use crate::declared::is_scalar;
pub use crate::form::EventQos;
pub use crate::queue::Queue;
pub use crate::typed::with_fields;
pub use consumer::{CallbackError, Header, RawConsumer, RawEvent, RawSubscription};
pub(crate) use consumer::{Handler, Handling, Way};
pub(crate) use desk::Desk;
#[cfg(feature = "dds")]
pub(crate) use desk::Teller;
pub use events::{OwnedEvent, RawEvents};
pub use publisher::{PublishOptions, RawPublisher};
#[cfg(feature = "dds")]
pub(crate) use sieve::Sieve;
#[cfg(feature = "filters")]
pub use sieve::{RawFields, RawFilter, unknown_name};
pub use supplier::RawSupplier;

use crate::error::Error;
use crate::settings::Settings;

/// A finder of the channel of that name, made if it does not exist, as for suppliers and consumers: for programs that use the crate
/// `client` beside this one.
///
/// # Errors
/// [`Error::ChannelName`] for an invalid name.
pub fn channel_finder(name: &str, settings: &Settings) -> Result<client::ChannelFinder, Error> {
    crate::channel::check_name(name)?;
    Ok(crate::channel::finder(name, settings))
}

/// An ORB with the name and TLS of these settings, as suppliers and consumers have theirs.
///
/// # Errors
/// The settings of TLS are wrong.
pub fn orb(settings: &Settings) -> Result<client::Orb, Error> {
    settings.tls.check()?;
    Ok(client::Orb::new(crate::channel::orb_options(settings)))
}

/// The channel of that name, made if it does not exist, with the patience of suppliers and consumers: for its properties, say.
///
/// # Errors
/// The name is invalid, or the service cannot be reached or refuses.
pub fn find_channel(name: &str, settings: &Settings, orb: &client::Orb) -> Result<client::notify::EventChannel, Error> {
    let finder = channel_finder(name, settings)?;
    Ok(crate::channel::patiently(settings, || finder.find(orb))?)
}

/// A value that belongs to the process that made it. After a `fork` the child cannot use it, and dropping it there does nothing: its
/// sockets are the parent's, and output of the child would be taken for the parent's.
#[derive(Debug)]
pub(crate) struct Own<T> {
    maker: u32,
    /// The value, until dropped.
    it: Option<T>,
}

impl<T> Own<T> {
    pub(crate) fn new(it: T) -> Self {
        Self { maker: std::process::id(), it: Some(it) }
    }

    /// The value, in the process that made it.
    ///
    /// # Errors
    /// [`Error::Forked`] in another.
    pub(crate) fn here(&self) -> Result<&T, Error> {
        self.it.as_ref().filter(|_| self.is_here()).ok_or(Error::Forked)
    }

    /// The value, mutable; `None` in another process.
    pub(crate) fn here_mut(&mut self) -> Option<&mut T> {
        if self.is_here() { self.it.as_mut() } else { None }
    }

    /// The value, for reading only.
    pub(crate) const fn anywhere(&self) -> Option<&T> {
        self.it.as_ref()
    }

    pub(crate) fn is_here(&self) -> bool {
        std::process::id() == self.maker
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        if !self.is_here() {
            core::mem::forget(self.it.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn what_another_process_made_is_refused_and_left_alone() {
        let it = Arc::new(());
        let own = Own::new(it.clone());
        assert!(own.here().is_ok());
        drop(own);
        assert_eq!(Arc::strong_count(&it), 1);
        let theirs = Own { maker: std::process::id() + 1, it: Some(it.clone()) };
        assert!(matches!(theirs.here(), Err(Error::Forked)));
        drop(theirs);
        assert_eq!(Arc::strong_count(&it), 2, "it is the other process's to drop");
    }
}

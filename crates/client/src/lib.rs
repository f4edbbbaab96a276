//! A Rust client of CORBA notification services: Campanile's own and any other that follows the OMG.
//!
//! Three layers, each usable alone:
//!
//! - [`SimpleSupplier`] and [`SimpleConsumer`]: connected with one call, for programs that send and receive events; and
//!   [`Publisher`] for those that send many.
//! - [`notify`], [`event_service`] and [`naming`]: typed stubs for the OMG's interfaces, for programs that build and walk
//!   the hierarchy of factory, channels, admins and proxies.
//! - [`scheduling`]: Campanile's scheduling analysis.
//! - [`Orb`], [`ObjectRef`] and [`Servant`]: any CORBA object, called by operation name with arguments written by hand.
//!
//! Calls block the calling thread. The library has no threads on the calling side; on the serving side one thread accepts connections, one
//! serves each, and one keeps up the consumers' subscriptions. On the path of an event, in either direction, nothing is allocated in the
//! steady state by the lowest layer: one `write` per push, one `read` per reply, and a servant reads its arguments from the message itself.
//! A [`Publisher`] needs one `write` for as many events as it gathers, and a connection to servants one `read` and one `write` for as many
//! requests as are there.
//!
//! Not here: the wire ([`giop`]), and services ([`service`](https://github.com/campanile/campanile)).

mod backoff;
mod connection;
mod conversation;
mod error;
pub mod event_service;
pub mod naming;
pub mod notify;
mod object;
mod orb;
mod publisher;
mod random;
pub mod scheduling;
mod servant;
mod server;
mod simple;
pub mod tempo;
pub mod time;
mod typed;
mod wire;

pub use backoff::Backoff;
pub use error::{FORWARDS_MAX, InvokeError, UserException};
pub use object::{Arguments, ObjectRef, ReplyBody};
pub use orb::{DEFAULT_PORT, Orb, OrbOptions, Served, default_name};
pub use publisher::{Answers, Fate, Loss, Publisher, PublisherCounters, PublisherOptions};
pub use servant::{Activation, Servant, ServantError};
pub use simple::{
    ChannelFinder, ConsumerOptions, EventNumber, Gap, Health, LOCAL_SERVICE, News, NewsReader, Received, ReceivedBody,
    SimpleConsumer, SimpleSupplier, SupplierOptions,
};
pub use typed::{Marshal, Unmarshal};
pub use wire::{OrbTls, ServantTls};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. What it guards is kept consistent at every step, so a thread that panicked while holding it did no
/// harm.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! A supplier and a consumer, each connected with one call.
//!
//! Reconnection is described on each type; in short: both reconnect by themselves, the supplier never sends an event twice, and both report
//! losses. Both disconnect from the service when dropped.

mod consumer;
mod place;
mod subscriber;
mod supplier;
mod watch;

pub use consumer::{
    ConsumerOptions, EventNumber, Gap, Health, News, NewsReader, Received, ReceivedBody, SimpleConsumer,
};
pub use place::ChannelFinder;
pub(crate) use supplier::Source;
pub use supplier::{SimpleSupplier, SupplierOptions};
pub(crate) use watch::{Waker, Watch};

use crate::{InvokeError, ObjectRef};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Address of the service without configuration: the one that `campanile serve` without arguments starts.
pub const LOCAL_SERVICE: &str = "corbaloc::127.0.0.1:2809/NotificationService";

/// Longest time spent on disconnecting when a consumer or supplier is dropped.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Reconnections before the current proxy: to a service that was restarted, or had disconnected the client.
#[derive(Debug, Default)]
struct Reconnections(AtomicU64);

impl Reconnections {
    /// Counts a proxy that was made anew. If its connection was lost as well, that is one reconnection.
    fn renewed(&self, gone: &ObjectRef) {
        self.0.fetch_add(gone.connections_replaced().max(1), Ordering::Relaxed);
    }

    /// All reconnections, including those after which the proxy still existed.
    fn all(&self, proxy: Option<&ObjectRef>) -> u64 {
        self.0.load(Ordering::Relaxed) + proxy.map_or(0, ObjectRef::connections_replaced)
    }
}

fn gone_is_fine(outcome: Result<(), InvokeError>) -> Result<(), InvokeError> {
    match outcome {
        Err(error) if error.object_is_gone() => Ok(()),
        outcome => outcome,
    }
}

/// The result of making a proxy with a name; `None` if the service does not support names or the name is taken, so that a proxy without one
/// is made.
fn named<T>(made: Result<T, InvokeError>) -> Option<Result<T, InvokeError>> {
    const REFUSALS: [&str; 4] = ["NameAlreadyUsed", "NameMapError", "BAD_OPERATION", "NO_IMPLEMENT"];
    let is_of_name = |error: &InvokeError| REFUSALS.iter().any(|refusal| error.is(refusal));
    (!made.as_ref().is_err_and(is_of_name)).then_some(made)
}

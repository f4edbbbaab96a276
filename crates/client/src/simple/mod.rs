//! A supplier and a consumer, each connected with one call.
//!
//! What happens when the connection breaks or the service restarts is said on each type; in short: both find their way back
//! by themselves, the supplier never sends an event twice, and both tell what was lost meanwhile. Both take leave of the
//! service when they are dropped.

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

/// Where a service is found with no configuration: the one that `campanile serve` without arguments starts.
pub const LOCAL_SERVICE: &str = "corbaloc::127.0.0.1:2809/NotificationService";

/// Longest time spent on taking leave of a service when a consumer or supplier is dropped.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// How often the way back to a service was found, before the present proxy: to one that was restarted, or had disconnected the client.
#[derive(Debug, Default)]
struct Reconnections(AtomicU64);

impl Reconnections {
    /// Counts a proxy that was made anew. One lost with its connection is one reconnection.
    fn renewed(&self, gone: &ObjectRef) {
        self.0.fetch_add(gone.connections_replaced().max(1), Ordering::Relaxed);
    }

    /// All, with those after which the proxy was still there.
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

/// A proxy with a name; `None` where the service knows no names or has given this one away, so that one without is to be asked for.
fn named<T>(made: Result<T, InvokeError>) -> Option<Result<T, InvokeError>> {
    const REFUSALS: [&str; 4] = ["NameAlreadyUsed", "NameMapError", "BAD_OPERATION", "NO_IMPLEMENT"];
    let is_of_name = |error: &InvokeError| REFUSALS.iter().any(|refusal| error.is(refusal));
    (!made.as_ref().is_err_and(is_of_name)).then_some(made)
}

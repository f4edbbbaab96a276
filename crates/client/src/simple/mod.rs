//! A supplier and a consumer, each connected with one call.
//!
//! What happens when the connection breaks or the service restarts is said on each type; in short: the supplier
//! finds its way back by itself but never sends an event twice, and the consumer does so when its
//! [`check`](SimpleConsumer::check) is called.

mod consumer;
mod supplier;

pub use consumer::{ConsumerOptions, Health, Received, ReceivedBody, SimpleConsumer};
pub use supplier::{SimpleSupplier, SupplierOptions};

use crate::InvokeError;
use std::time::Duration;

/// Where a service is found with no configuration: the one that `campanile serve` without arguments starts.
pub const LOCAL_SERVICE: &str = "corbaloc::127.0.0.1:2809/NotificationService";

/// Longest time spent on taking leave when a consumer or supplier is dropped.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(2);

fn gone_is_fine(outcome: Result<(), InvokeError>) -> Result<(), InvokeError> {
    match outcome {
        Err(error) if error.object_is_gone() => Ok(()),
        outcome => outcome,
    }
}

//! Publishers: publishing many events without waiting for each.

use crate::exit::{AtExit, tell_at_exit};
use crate::pointers::{borrow, give, octets, put, take};
use crate::status::{Failure, c_string, guarded};
use crate::supplier::Supplier;
use crate::types::Type;
use campanile::{ErrorCode, raw::RawPublisher};
use campanile::{Fate, Loss, PublishOptions};
use std::ffi::{CString, c_char};
use std::process;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

/// Publishes without waiting for each event: events are gathered for a moment and sent together, in order. Any number of threads may use
/// one at once. It may outlive its supplier.
pub struct Publisher {
    inner: Arc<Inner>,
}

struct Inner {
    maker: u32,
    /// The publisher; `None` once closed.
    publisher: RwLock<Option<RawPublisher>>,
}

/// Settings of a publisher. A field of 0 stands for its default.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PublisherOptions {
    /// Events that are gathered before they are sent together; 0 for 64.
    pub gather_events_max: u32,
    /// Longest time in microseconds that an event waits for others; 0 for 1000.
    pub gather_time_max_us: u32,
    /// Events on the way without an answer, at which publishing waits; 0 for 4096.
    pub unanswered_max: u32,
}

/// Events of a publisher, counted by outcome.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct PublisherCounters {
    /// Events that the publisher accepted, numbered from 0 on.
    pub published: u64,
    /// Published events that the service has confirmed.
    pub confirmed: u64,
    /// Events that the service refused.
    pub refused: u64,
    /// Events with an unknown outcome: the connection was lost before the service answered.
    pub unknown: u64,
    /// Events that the service certainly does not have.
    pub not_sent: u64,
    /// Times that the connection was made anew.
    pub reconnections: u64,
}

impl From<campanile::PublisherCounters> for PublisherCounters {
    fn from(tally: campanile::PublisherCounters) -> Self {
        let campanile::PublisherCounters { published, confirmed, refused, unknown, not_sent, reconnections, .. } =
            tally;
        Self { published, confirmed, refused, unknown, not_sent, reconnections }
    }
}

/// The outcome of events that did not arrive, or perhaps not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum FateCode {
    /// The service refused the events.
    Refused = 1,
    /// The connection was lost after the events were sent: if sent again, they may arrive twice.
    Unknown = 2,
    /// The connection was lost before the events were sent: they can be published again.
    NotSent = 3,
}

/// Events that did not arrive, or perhaps not.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LossReport {
    /// The number of the first lost event.
    pub first: u64,
    /// Count of lost events, numbered consecutively.
    pub count: u64,
    /// The outcome of these events.
    pub fate: FateCode,
    /// The reason. To be freed with `campanile_text_free`.
    pub reason: *mut c_char,
}

/// Makes a publisher of a supplier's. `options` may be a null pointer. `campanile_publisher_close` closes it and reports the outcome of the
/// events; `campanile_publisher_free` frees it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_publisher_new(
    supplier: *const Supplier,
    options: *const PublisherOptions,
    publisher: *mut *mut Publisher,
) -> ErrorCode {
    guarded(|| {
        // SAFETY: the header asks for it.
        let (supplier, options) = unsafe { (borrow(supplier, "supplier")?, options.as_ref()) };
        let raw = supplier.0.publisher(options.map_or_else(PublishOptions::default, publish_options))?;
        let inner = Arc::new(Inner { maker: process::id(), publisher: RwLock::new(Some(raw)) });
        let weak = Arc::downgrade(&inner);
        tell_at_exit(weak as Weak<dyn AtExit>);
        // SAFETY: the header asks for it.
        unsafe { give(publisher, Publisher { inner }) }
    })
}

fn publish_options(options: &PublisherOptions) -> PublishOptions {
    let PublisherOptions { gather_events_max, gather_time_max_us, unanswered_max } = *options;
    let mut publish_options = PublishOptions::default();
    if gather_events_max > 0 {
        publish_options.gather_events_max = gather_events_max;
    }
    if gather_time_max_us > 0 {
        publish_options.gather_time_max = Duration::from_micros(gather_time_max_us.into());
    }
    if unanswered_max > 0 {
        publish_options.unanswered_max = unanswered_max;
    }
    publish_options
}

impl Inner {
    fn with<T>(&self, what: impl FnOnce(&RawPublisher) -> Result<T, Failure>) -> Result<T, Failure> {
        if process::id() != self.maker {
            return Err(Failure::forked());
        }
        let publisher = self.publisher.read().unwrap_or_else(PoisonError::into_inner);
        what(publisher.as_ref().ok_or_else(Failure::closed)?)
    }

    /// Takes the publisher out, once no thread is publishing.
    fn take(&self) -> Option<RawPublisher> {
        self.publisher.write().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl AtExit for Inner {
    fn process_ends(&self) {
        // A thread that is still publishing is not waited for.
        if process::id() == self.maker
            && let Ok(mut publisher) = self.publisher.try_write()
        {
            drop(publisher.take());
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if process::id() != self.maker {
            // Its threads are the parent's.
            std::mem::forget(self.publisher.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

/// Publishes an event and writes its number, from 0 on; `number` may be a null pointer. Waits only while `unanswered_max` events are on the
/// way. The outcome is reported by `campanile_publisher_sync`, `campanile_publisher_tally` and `campanile_publisher_next_loss`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_publisher_publish(
    publisher: *const Publisher,
    r#type: *const Type,
    cdr: *const u8,
    cdr_size: usize,
    number: *mut u64,
) -> ErrorCode {
    guarded(|| {
        // SAFETY: the header asks for it.
        let (publisher, of, cdr) =
            unsafe { (borrow(publisher, "publisher")?, borrow(r#type, "type")?, octets(cdr, cdr_size, "cdr")?) };
        let given = publisher.inner.with(|publisher| Ok(publisher.publish(&of.declared, cdr)?))?;
        if !number.is_null() {
            // SAFETY: it is none, and the header asks for the rest.
            unsafe { number.write(given) };
        }
        Ok(())
    })
}

/// Sends the gathered events now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_publisher_flush(publisher: *const Publisher) -> ErrorCode {
    guarded(|| {
        // SAFETY: the header asks for it.
        let publisher = unsafe { borrow(publisher, "publisher") }?;
        publisher.inner.with(|publisher| {
            publisher.flush();
            Ok(())
        })
    })
}

/// Sends the gathered events and waits until the outcome of all events is known. `tally` may be a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_publisher_sync(
    publisher: *const Publisher,
    tally: *mut PublisherCounters,
) -> ErrorCode {
    guarded(|| {
        // SAFETY: the header asks for it.
        let publisher = unsafe { borrow(publisher, "publisher") }?;
        let told = publisher.inner.with(|publisher| Ok(publisher.sync()))?;
        // SAFETY: the header asks for it.
        unsafe { tell(tally, told) }
    })
}

/// Events counted by outcome, as far as it is known.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_publisher_tally(
    publisher: *const Publisher,
    tally: *mut PublisherCounters,
) -> ErrorCode {
    guarded(|| {
        // SAFETY: the header asks for it.
        let publisher = unsafe { borrow(publisher, "publisher") }?;
        let told = publisher.inner.with(|publisher| Ok(publisher.counters()))?;
        // SAFETY: the header asks for it.
        unsafe { put(tally, told.into()) }
    })
}

/// The next events that did not arrive, or perhaps not: `CAMPANILE_STATUS_OK` with `loss`, or `CAMPANILE_STATUS_TIMEOUT` when there are
/// none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_publisher_next_loss(
    publisher: *const Publisher,
    loss: *mut LossReport,
) -> ErrorCode {
    guarded(|| {
        // SAFETY: the header asks for it.
        let publisher = unsafe { borrow(publisher, "publisher") }?;
        let Some(Loss { events, fate, .. }) = publisher.inner.with(|publisher| Ok(publisher.next_loss()))? else {
            return Err(Failure::timeout());
        };
        let (fate, reason) = match fate {
            Fate::Refused(reason) => (FateCode::Refused, reason),
            Fate::NotSent(reason) => (FateCode::NotSent, reason),
            Fate::Unknown(reason) => (FateCode::Unknown, reason),
            // As cautious as can be.
            _ => (FateCode::Unknown, String::new()),
        };
        let reason: CString = c_string(&reason);
        let count = events.end.saturating_sub(events.start);
        // SAFETY: the header asks for it.
        unsafe { put(loss, LossReport { first: events.start, count, fate, reason: reason.into_raw() }) }
    })
}

/// Sends the gathered events, waits for answers until none has arrived for `limit_ms`, closes the publisher and writes the counts by
/// outcome: the events by which `confirmed` falls short of `published` did not arrive, or perhaps not. `tally` may be a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_publisher_close(
    publisher: *const Publisher,
    limit_ms: u32,
    tally: *mut PublisherCounters,
) -> ErrorCode {
    guarded(|| {
        // SAFETY: the header asks for it.
        let publisher = unsafe { borrow(publisher, "publisher") }?;
        if process::id() != publisher.inner.maker {
            return Err(Failure::forked());
        }
        let raw = publisher.inner.take().ok_or_else(Failure::closed)?;
        let told = raw.close_within(Duration::from_millis(limit_ms.into())).ok_or_else(Failure::forked)?;
        // SAFETY: the header asks for it.
        unsafe { tell(tally, told) }
    })
}

/// Frees a publisher. An open one first waits for answers until none has arrived for 2 seconds, and logs what is not confirmed then. The
/// same happens when the process ends. A null pointer is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_publisher_free(publisher: *mut Publisher) {
    let _ = guarded(|| {
        // SAFETY: the header asks for it.
        drop(unsafe { take(publisher) });
        Ok(())
    });
}

/// # Safety
/// The pointer is null, or a `campanile_tally` can be written there.
unsafe fn tell(tally: *mut PublisherCounters, told: campanile::PublisherCounters) -> Result<(), Failure> {
    if tally.is_null() {
        return Ok(());
    }
    // SAFETY: the caller promises it.
    unsafe { put(tally, told.into()) }
}

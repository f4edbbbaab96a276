//! Events, as C sees them.

use crate::pointers::{borrow, put};
use crate::status::{c_string, guarded};
use crate::types::json_of;
use campanile::{ErrorCode, raw::RawEvent};
use campanile::{EventNumber, TypeCode};
use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// UTF-8 text without a final NUL: `printf("%.*s", (int)text.size, text.data)`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Text {
    /// The first octet; never a null pointer.
    pub data: *const c_char,
    /// Number of octets.
    pub size: usize,
}

impl Text {
    const fn of(text: &str) -> Self {
        Self { data: text.as_ptr().cast(), size: text.len() }
    }
}

/// An event. Its pointers are valid until the callback returns, or, for an event from `campanile_consumer_next`, until it is freed.
#[derive(Debug)]
#[repr(C)]
pub struct Event {
    /// The domain of the event's type; empty for an event that arrived as an Any.
    pub domain: Text,
    /// The name of the event's type.
    pub name: Text,
    /// The name of the event itself; usually empty.
    pub event_name: Text,
    /// The value, of the declared type if one was declared. Not aligned: use `memcpy` to read numbers.
    pub cdr: *const u8,
    /// Octets of the value.
    pub cdr_size: usize,
    /// The context passed to `campanile_consumer_on` or `campanile_consumer_on_any`.
    pub context: *mut c_void,
    /// Private to the library.
    pub inner: *const c_void,
    /// The event's number, for a consumer with `campanile_consumer_start_from` at a channel with a history; else 0.
    pub number: u64,
    /// Time of arrival at the service, in nanoseconds since 1970; 0 if unknown.
    pub came_ns: u64,
}

impl Event {
    /// A view for C, valid as long as the event and its type.
    pub(crate) fn of(event: &RawEvent<'_>, context: *mut c_void) -> Self {
        let (number, came_ns) = numbers(event.number);
        Self {
            domain: Text::of(event.domain),
            name: Text::of(event.name),
            event_name: Text::of(event.event_name),
            cdr: event.cdr.as_ptr(),
            cdr_size: event.cdr.len(),
            context,
            inner: ptr::from_ref(event.type_code).cast(),
            number,
            came_ns,
        }
    }

    /// Type and value.
    ///
    /// # Safety
    /// The event is as the library made it, and still valid.
    unsafe fn parts(&self) -> (&TypeCode, &[u8]) {
        // SAFETY: the caller promises it.
        unsafe { (&*self.inner.cast::<Arc<TypeCode>>(), std::slice::from_raw_parts(self.cdr, self.cdr_size)) }
    }
}

/// An event's number, and its time of arrival in nanoseconds since 1970; 0 for what is unknown.
fn numbers(number: Option<EventNumber>) -> (u64, u64) {
    let Some(EventNumber { number, came }) = number else { return (0, 0) };
    let since = came.and_then(|came| came.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    (number, u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// An event that waits for `campanile_consumer_next`.
pub(crate) struct QueuedEvent {
    domain: String,
    name: String,
    event_name: String,
    cdr: Vec<u8>,
    type_code: Arc<TypeCode>,
    number: Option<EventNumber>,
    context: *mut c_void,
}

// SAFETY: the context is only handed back, never looked into.
unsafe impl Send for QueuedEvent {}

impl QueuedEvent {
    pub(crate) fn new(event: &RawEvent<'_>, context: *mut c_void) -> Self {
        Self {
            domain: event.domain.to_owned(),
            name: event.name.to_owned(),
            event_name: event.event_name.to_owned(),
            cdr: event.cdr.to_vec(),
            type_code: event.type_code.clone(),
            number: event.number,
            context,
        }
    }
}

/// The result of `campanile_consumer_next`: the event, followed by the data that it points to.
#[repr(C)]
pub(crate) struct Owned {
    event: Event,
    queued: Box<QueuedEvent>,
}

impl Owned {
    pub(crate) fn new(queued: QueuedEvent) -> Self {
        let queued = Box::new(queued);
        let (number, came_ns) = numbers(queued.number);
        let event = Event {
            domain: Text::of(&queued.domain),
            name: Text::of(&queued.name),
            event_name: Text::of(&queued.event_name),
            cdr: queued.cdr.as_ptr(),
            cdr_size: queued.cdr.len(),
            context: queued.context,
            inner: ptr::from_ref(&queued.type_code).cast(),
            number,
            came_ns,
        };
        Self { event, queued }
    }

    /// Converts it to a handle, which begins with the event.
    pub(crate) fn into_handle(self) -> *mut Event {
        Box::into_raw(Box::new(self)).cast()
    }
}

/// The event's value as JSON: `{"speed":11.5,"direction":270.0}`. To be freed with `campanile_text_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_event_json(event: *const Event, json: *mut *mut c_char) -> ErrorCode {
    guarded(|| {
        // SAFETY: the header asks for it.
        let (type_code, cdr) = unsafe { borrow(event, "event")?.parts() };
        let text = json_of(type_code, cdr)?;
        // SAFETY: the header asks for it.
        unsafe { put(json, text.into_raw()) }
    })
}

/// The event's type as IDL text. To be freed with `campanile_text_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_event_idl(event: *const Event, idl: *mut *mut c_char) -> ErrorCode {
    guarded(|| {
        // SAFETY: the header asks for it.
        let (type_code, _) = unsafe { borrow(event, "event")?.parts() };
        // SAFETY: the header asks for it.
        unsafe { put(idl, c_string(&idl::text(type_code)).into_raw()) }
    })
}

/// Frees an event from `campanile_consumer_next`; not one passed to a callback. A null pointer is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_event_free(event: *mut Event) {
    if !event.is_null() {
        // SAFETY: it is none, and the header asks for one that `into_handle` gave.
        let owned = unsafe { Box::from_raw(event.cast::<Owned>()) };
        drop(owned.queued);
    }
}

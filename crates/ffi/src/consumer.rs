//! Consumers: events by callbacks or on request.

use crate::event::{Event, Owned, QueuedEvent};
use crate::exit::{AtExit, tell_at_exit};
use crate::gate::Gate;
use crate::log::listen;
use crate::pointers::{borrow, give, put, take, text};
use crate::settings::SettingsHandle;
use crate::status::{Failure, guarded};
use crate::trouble::{OnTrouble, TroubleReport, report};
use crate::types::Type;
use campanile::raw::{Queue, RawConsumer, RawEvent, RawSubscription};
use campanile::{CallbackError, ErrorCode, Next};
use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};
use std::os::fd::AsRawFd;
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Maximum number of events that wait here; more wait at the service.
const WAITING_MAX: usize = 256;

/// Return value of a function for events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Answer {
    /// The event is handled.
    Done = 0,
    /// No more events, please: the subscription ends.
    Enough = 1,
    /// The event could not be handled; `campanile_callback_failed` gives the reason. It is reported as trouble, and the next event follows.
    Failed = 2,
}

/// Called for events; returns a `campanile_answer`, and any other number is a failure. It runs on a thread of the library, one at a time
/// for each consumer. It may publish. It must return: no exception may leave it, nor a `longjmp`.
pub type OnEvent = Option<unsafe extern "C" fn(context: *mut c_void, event: *const Event) -> i32>;

/// Called once, when the library no longer uses a context: while the consumer is closed or freed, on the thread that does so. A supplier's
/// may also be called after the supplier is freed, on the thread that ran its function, or with the last of its publishers.
pub type Release = Option<unsafe extern "C" fn(context: *mut c_void)>;

/// Receives events: created, configured, and started with `campanile_consumer_ready`. One thread at a time configures it; then any number
/// of threads may use it at once.
pub struct Consumer {
    maker: u32,
    shared: Arc<Shared>,
    state: Mutex<State>,
}

struct Shared {
    maker: u32,
    gate: Gate,
    queue: Queue<QueuedEvent>,
    /// The contexts of all its functions, until it is closed.
    contexts: Mutex<Vec<Context>>,
}

enum State {
    Building(Box<RawConsumer>),
    Ready(Arc<RawSubscription>),
    Ended,
}

/// A context, as passed to functions.
#[derive(Clone, Copy)]
struct Handed(*mut c_void);

// SAFETY: the header asks for contexts that any thread may hand over.
unsafe impl Send for Handed {}
// SAFETY: as above.
unsafe impl Sync for Handed {}

impl Handed {
    /// The pointer. A method, so that closures capture the whole struct and not the pointer alone.
    const fn get(self) -> *mut c_void {
        self.0
    }
}

/// The program's context, passed back with each event.
pub(crate) struct Context {
    pub(crate) pointer: *mut c_void,
    pub(crate) release: Release,
}

// SAFETY: the header asks for contexts that any thread may hand over.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the header asks for a function that may be called so, once.
            unsafe { release(self.pointer) };
        }
    }
}

thread_local! {
    /// The reason why the function that runs on this thread failed.
    static WHY: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Gives the reason, within a function for events that is about to return `CAMPANILE_ANSWER_FAILED`. A null pointer gives none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_callback_failed(reason: *const c_char) {
    let _ = guarded(|| {
        // SAFETY: the header asks for it.
        WHY.set(unsafe { text(reason, "reason") }?.to_owned());
        Ok(())
    });
}

impl AtExit for Shared {
    fn process_ends(&self) {
        if process::id() == self.maker {
            self.gate.close();
        }
    }
}

impl Consumer {
    fn check_process(&self) -> Result<(), Failure> {
        if process::id() == self.maker { Ok(()) } else { Err(Failure::forked()) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the configuration, before the consumer is ready.
    fn tell(&self, what: impl FnOnce(RawConsumer) -> RawConsumer) -> Result<(), Failure> {
        self.check_process()?;
        let mut state = self.lock();
        match std::mem::replace(&mut *state, State::Ended) {
            State::Building(raw) => *state = State::Building(Box::new(what(*raw))),
            State::Ready(ready) => {
                *state = State::Ready(ready);
                return Err(Failure::argument("the consumer is ready, and takes no more wishes"));
            }
            State::Ended => return Err(Failure::closed()),
        }
        Ok(())
    }

    fn subscription(&self) -> Result<Arc<RawSubscription>, Failure> {
        self.check_process()?;
        match &*self.lock() {
            State::Building(_) => Err(Failure::argument("the consumer is not ready yet")),
            State::Ready(subscription) => Ok(subscription.clone()),
            State::Ended => Err(Failure::closed()),
        }
    }

    fn has_ended(&self) -> bool {
        let is_forked = process::id() != self.maker;
        is_forked
            || match &*self.lock() {
                State::Building(_) => false,
                State::Ready(subscription) => subscription.has_ended(),
                State::Ended => true,
            }
    }

    /// Stores the context of an accepted function.
    fn keep(&self, context: Context) {
        self.shared.contexts.lock().unwrap_or_else(PoisonError::into_inner).push(context);
    }

    /// The closure that calls a function for events.
    fn handler(
        &self,
        function: OnEvent,
        context: Handed,
    ) -> impl FnMut(RawEvent<'_>) -> Result<(), CallbackError> + Send + 'static {
        let shared = self.shared.clone();
        move |event| {
            let context = context.get();
            let Some(_inside) = shared.gate.enter() else { return Err(CallbackError::Enough) };
            let Some(function) = function else {
                let is_open = shared.queue.put(QueuedEvent::new(&event, context));
                return if is_open { Ok(()) } else { Err(CallbackError::Enough) };
            };
            // SAFETY: the header asks for a function that may be called so.
            let answer = unsafe { function(context, &Event::of(&event, context)) };
            match answer {
                0 => Ok(()),
                1 => {
                    shared.queue.close();
                    Err(CallbackError::Enough)
                }
                number => {
                    let why = WHY.take();
                    let why = if why.is_empty() { format!("it answered {number}") } else { why };
                    Err(CallbackError::Failed(why))
                }
            }
        }
    }

    /// Closes the consumer, and waits for running callbacks.
    fn close(&self) -> Result<(), Failure> {
        self.check_process()?;
        if self.shared.gate.is_this_inside() {
            let message = "a consumer cannot be closed by its own callback, which it would wait for: answer CAMPANILE_ANSWER_ENOUGH";
            return Err(Failure::new(ErrorCode::FromCallback, message));
        }
        self.shared.gate.close();
        self.shared.queue.close();
        self.shared.gate.wait_until_empty();
        let ended = std::mem::replace(&mut *self.lock(), State::Ended);
        drop(ended);
        // No thread gets past the gate any more.
        let released = std::mem::take(&mut *self.shared.contexts.lock().unwrap_or_else(PoisonError::into_inner));
        drop(released);
        Ok(())
    }
}

/// Makes a consumer of a channel's events. `settings` may be a null pointer: those of `campanile_settings_load`. To be freed with
/// `campanile_consumer_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_consumer_new(
    channel: *const c_char,
    settings: *const SettingsHandle,
    consumer: *mut *mut Consumer,
) -> ErrorCode {
    listen();
    guarded(|| {
        // SAFETY: the header asks for it.
        let (channel, settings) = unsafe { (text(channel, "channel")?, settings.as_ref()) };
        let raw = RawConsumer::new(channel);
        let raw = match settings {
            Some(settings) => raw.settings(settings.0.clone()),
            None => raw,
        };
        let maker = process::id();
        let shared = Arc::new(Shared {
            maker,
            gate: Gate::default(),
            queue: Queue::new(WAITING_MAX),
            contexts: Mutex::default(),
        });
        let made = Consumer { maker, shared, state: Mutex::new(State::Building(Box::new(raw))) };
        // SAFETY: the header asks for it.
        unsafe { give(consumer, made) }
    })
}

/// Has `function` called for events of a type; may be called for several types. Events of the type's name are converted to the type:
/// members by name, unknown ones left out, numbers widened; a failed conversion is reported as trouble. With a null pointer as `function`,
/// events wait for `campanile_consumer_next`. `release` is called with `context` when the consumer is closed or freed, or at once if this
/// fails; it may be a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_consumer_on(
    consumer: *const Consumer,
    r#type: *const Type,
    function: OnEvent,
    context: *mut c_void,
    release: Release,
) -> ErrorCode {
    let context = Context { pointer: context, release };
    guarded(|| {
        // SAFETY: the header asks for it.
        let (consumer, of) = unsafe { (borrow(consumer, "consumer")?, borrow(r#type, "type")?) };
        let handler = consumer.handler(function, Handed(context.pointer));
        consumer.tell(|raw| raw.on(&of.declared, handler))?;
        consumer.keep(context);
        Ok(())
    })
}

/// Has `function` called as by `campanile_consumer_on`, for events of all types without a function of their own, in the type they arrive
/// with: `campanile_event_json` returns their values as dictionaries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_consumer_on_any(
    consumer: *const Consumer,
    function: OnEvent,
    context: *mut c_void,
    release: Release,
) -> ErrorCode {
    let context = Context { pointer: context, release };
    guarded(|| {
        // SAFETY: the header asks for it.
        let consumer = unsafe { borrow(consumer, "consumer") }?;
        let handler = consumer.handler(function, Handed(context.pointer));
        consumer.tell(|raw| raw.on_any(handler))?;
        consumer.keep(context);
        Ok(())
    })
}

/// Has `function` called for all trouble: gaps, types that do not fit, callbacks that fail or are slow. Without a function trouble is
/// logged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_consumer_on_trouble(
    consumer: *const Consumer,
    function: OnTrouble,
    context: *mut c_void,
    release: Release,
) -> ErrorCode {
    let context = Context { pointer: context, release };
    guarded(|| {
        // SAFETY: the header asks for it.
        let consumer = unsafe { borrow(consumer, "consumer") }?;
        let Some(function) = function else { return Err(Failure::argument("function is a null pointer")) };
        let shared = consumer.shared.clone();
        let handed = Handed(context.pointer);
        consumer.tell(|raw| {
            raw.on_trouble(move |trouble| {
                let context = handed.get();
                let Some(_inside) = shared.gate.enter() else { return };
                report(trouble, |report: &TroubleReport| {
                    // SAFETY: the header asks for a function that may be called so.
                    unsafe { function(context, report) };
                });
            })
        })?;
        consumer.keep(context);
        Ok(())
    })
}

/// Limits the subscription to events that match the filter, in the Extended Trader Constraint Language: `$speed > 10 and $station ==
/// 'north'`. The service applies it, so that other events do not travel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_consumer_filter(consumer: *const Consumer, constraint: *const c_char) -> ErrorCode {
    guarded(|| {
        // SAFETY: the header asks for it.
        let (consumer, constraint) = unsafe { (borrow(consumer, "consumer")?, text(constraint, "constraint")?) };
        consumer.tell(|raw| raw.filter(constraint))
    })
}

/// Begins in the channel's history, if it has one, and adds numbers to events: `first`, `number:5`, `after:5`, `last:100`, `since:10m`,
/// `unix:1764000000.5` (a time in seconds since 1970), `last-of-each-type`, `last-of-each:station` or `new`. A subscription that is made
/// anew continues behind the last received event. Not over DDS.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_consumer_start_from(consumer: *const Consumer, start: *const c_char) -> ErrorCode {
    guarded(|| {
        // SAFETY: the header asks for it.
        let (consumer, start) = unsafe { (borrow(consumer, "consumer")?, text(start, "start")?) };
        let start = start.parse()?;
        consumer.tell(|raw| raw.start_from(start))
    })
}

/// Sets the duration in milliseconds from which a callback is reported as slow. Default 1000.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_consumer_slow_after(consumer: *const Consumer, milliseconds: u32) -> ErrorCode {
    guarded(|| {
        // SAFETY: the header asks for it.
        let consumer = unsafe { borrow(consumer, "consumer") }?;
        consumer.tell(|raw| raw.slow_after(Duration::from_millis(milliseconds.into())))
    })
}

/// Subscribes to events published from now on. The channel is made if it does not exist. If this fails, the consumer is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_consumer_ready(consumer: *const Consumer) -> ErrorCode {
    guarded(|| {
        // SAFETY: the header asks for it.
        let consumer = unsafe { borrow(consumer, "consumer") }?;
        consumer.check_process()?;
        let mut state = consumer.lock();
        let raw = match std::mem::replace(&mut *state, State::Ended) {
            State::Building(raw) => raw,
            State::Ready(ready) => {
                *state = State::Ready(ready);
                return Err(Failure::argument("the consumer is ready already"));
            }
            State::Ended => return Err(Failure::closed()),
        };
        *state = State::Ready(Arc::new(raw.ready()?));
        drop(state);
        let weak = Arc::downgrade(&consumer.shared);
        tell_at_exit(weak as Weak<dyn AtExit>);
        Ok(())
    })
}

/// Takes the next event without a function, waiting up to `limit_ms`; a negative number waits for ever. Up to 256 events wait here; more
/// wait at the service. Returns `CAMPANILE_STATUS_TIMEOUT` when no event arrived, `CAMPANILE_STATUS_CLOSED` when none will. The event is to
/// be freed with `campanile_event_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_consumer_next(
    consumer: *const Consumer,
    limit_ms: i64,
    event: *mut *mut Event,
) -> ErrorCode {
    guarded(|| {
        // SAFETY: the header asks for it.
        let consumer = unsafe { borrow(consumer, "consumer") }?;
        consumer.check_process()?;
        if event.is_null() {
            return Err(Failure::argument("where the event is to be put is a null pointer"));
        }
        if matches!(&*consumer.lock(), State::Building(_)) {
            return Err(Failure::argument("the consumer is not ready yet"));
        }
        let queued = match consumer.shared.queue.next(u64::try_from(limit_ms).ok().map(Duration::from_millis)) {
            Next::Event(queued) => queued,
            Next::Late => return Err(Failure::timeout()),
            Next::Ended => return Err(Failure::closed()),
        };
        // SAFETY: the header asks for it.
        unsafe { put(event, Owned::new(queued).into_handle()) }
    })
}

/// A file descriptor that is readable while `campanile_consumer_next` has an event or knows that there will be none any more: for `poll`
/// and the like. It belongs to the consumer: wait for it, but never read or close it. Valid until the consumer is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_consumer_descriptor(consumer: *const Consumer, descriptor: *mut c_int) -> ErrorCode {
    guarded(|| {
        // SAFETY: the header asks for it.
        let consumer = unsafe { borrow(consumer, "consumer") }?;
        consumer.check_process()?;
        let made = consumer.shared.queue.descriptor();
        let made = made.map_err(|error| Failure::new(ErrorCode::Other, format!("no file descriptor: {error}")))?;
        // SAFETY: the header asks for it.
        unsafe { put(descriptor, made.as_raw_fd()) }
    })
}

/// Stops the events, without waiting, from any thread, callbacks included: `campanile_consumer_next` returns `CAMPANILE_STATUS_CLOSED` once
/// the waiting events are taken. The consumer must still be closed or freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_consumer_stop(consumer: *const Consumer) -> ErrorCode {
    guarded(|| {
        // SAFETY: the header asks for it.
        let consumer = unsafe { borrow(consumer, "consumer") }?;
        consumer.check_process()?;
        consumer.shared.queue.close();
        Ok(())
    })
}

/// Times that the subscription was restored, after the service was restarted or had disconnected it. 0 for a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_consumer_reconnections(consumer: *const Consumer) -> u64 {
    // SAFETY: the header asks for it.
    let subscription = unsafe { consumer.as_ref() }.and_then(|consumer| consumer.subscription().ok());
    subscription.map_or(0, |subscription| subscription.reconnections())
}

/// Asks the service now whether the subscription exists, and makes it anew if not, as happens every few seconds by itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_consumer_check(consumer: *const Consumer) -> ErrorCode {
    guarded(|| {
        // SAFETY: the header asks for it.
        let consumer = unsafe { borrow(consumer, "consumer") }?;
        Ok(consumer.subscription()?.check()?)
    })
}

/// Whether the consumer has ended: closed, or by a callback's answer. True for a null pointer and in a forked child.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_consumer_has_ended(consumer: *const Consumer) -> bool {
    // SAFETY: the header asks for it.
    unsafe { consumer.as_ref() }.is_none_or(Consumer::has_ended)
}

/// Ends the subscription. When it returns no callback runs any more, and all contexts are released; it waits for a running callback, and
/// wakes the threads in `campanile_consumer_next`. Within a callback of this consumer it returns `CAMPANILE_STATUS_FROM_CALLBACK`, and does
/// nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_consumer_close(consumer: *const Consumer) -> ErrorCode {
    guarded(|| {
        // SAFETY: the header asks for it.
        unsafe { borrow(consumer, "consumer") }?.close()
    })
}

/// Closes a consumer and frees it. Within a callback of this consumer it only logs that mistake. A null pointer is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_consumer_free(consumer: *mut Consumer) {
    let _ = guarded(|| {
        // SAFETY: the header asks for it.
        let Some(closing) = (unsafe { consumer.as_ref() }) else { return Ok(()) };
        if process::id() == closing.maker
            && let Err(error) = closing.close()
        {
            log::error!("a consumer is not freed: {error:?}");
            return Err(error);
        }
        // SAFETY: it is none, and the header asks for one that no other thread uses.
        drop(unsafe { take(consumer) });
        Ok(())
    });
}

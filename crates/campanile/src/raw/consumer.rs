//! Receiving octets.

use super::Own;
use crate::channel::{check_name, finder, orb_options, patiently};
use crate::declared::{Declared, NATIVE};
use crate::error::{Error, Mismatch, Trouble};
use crate::form::Found;
use crate::projection::Plan;
use crate::settings::{Settings, Transport};
use crate::types::{Types, Understood};
use client::notify::{CallbackConsumer, EventType};
use client::{ConsumerOptions, News, NewsReader, Received, ReceivedBody, ServantError, SimpleConsumer};
use giop::cdr::{Reader, Writer};
use giop::typecode::TypeCode;
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What an event says beside its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header<'a> {
    /// The domain of its type; empty for an event that came as an Any.
    pub domain: &'a str,
    /// The name of its type; of an event that came as an Any, its struct's.
    pub name: &'a str,
    /// The name of the event itself; mostly empty.
    pub event_name: &'a str,
}

/// An event: its value's octets, as [the module](crate::raw) describes them.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RawEvent<'a> {
    /// The domain of its type; empty for an event that came as an Any.
    pub domain: &'a str,
    /// The name of its type; of an event that came as an Any, its struct's.
    pub name: &'a str,
    /// The name of the event itself; mostly empty.
    pub event_name: &'a str,
    /// The type of the value: the declared one, or else the one that came. The same type is the same `Arc` again and again, mostly: what is
    /// made for it can be kept by its address as long as the `Arc` is kept.
    pub type_code: &'a Arc<TypeCode>,
    /// The value.
    pub cdr: &'a [u8],
}

/// What a callback may answer instead of nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallbackError {
    /// The event could not be handled, and why: told as [`Trouble::Callback`]; the next one comes.
    Failed(String),
    /// No more events are wanted: the subscription ends.
    Enough,
}

/// A callback for events as octets.
type OnRaw = Box<dyn FnMut(RawEvent<'_>) -> Result<(), CallbackError> + Send>;
/// A callback that reads a value of the declared type itself: the first argument is at one.
pub(crate) type OnReader = Box<dyn FnMut(&mut Reader<'_>, Header<'_>) -> Result<(), Handling> + Send>;
type OnTrouble = Arc<dyn Fn(&Trouble) + Send + Sync>;

/// Why a typed callback did not handle an event.
pub(crate) enum Handling {
    /// The octets are no value.
    Unreadable(String),
    Callback(CallbackError),
}

/// Who wants what.
pub(crate) enum Handler {
    Octets(OnRaw),
    Reader(OnReader),
}

/// Receives events: made with what is wanted, and begun with [`ready`](Self::ready). See [the module](crate::raw).
#[must_use = "it receives nothing until it is ready"]
pub struct RawConsumer {
    channel: String,
    settings: Option<Settings>,
    filter: Option<String>,
    declared: Vec<(Declared, Handler)>,
    others: Option<OnRaw>,
    on_trouble: Option<OnTrouble>,
    slow_after: Duration,
}

impl RawConsumer {
    /// A consumer of a channel's events, with the settings of the environment.
    pub fn new(channel: &str) -> Self {
        Self {
            channel: channel.to_owned(),
            settings: None,
            filter: None,
            declared: Vec::new(),
            others: None,
            on_trouble: None,
            slow_after: Duration::from_secs(1),
        }
    }

    /// With these settings.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = Some(settings);
        self
    }

    /// Only events for which this holds, in the Extended Trader Constraint Language: `$speed > 10 and $station == 'north'`. The service
    /// applies it, so that other events do not travel.
    pub fn filter(mut self, constraint: &str) -> Self {
        self.filter = Some(constraint.to_owned());
        self
    }

    /// Has `callback` called for events of a declared type, whose values are made of what comes under its name: members by name, numbers
    /// widened. Several may be declared; one name several times.
    pub fn on(
        self,
        declared: &Declared,
        callback: impl FnMut(RawEvent<'_>) -> Result<(), CallbackError> + Send + 'static,
    ) -> Self {
        self.handler(declared, Handler::Octets(Box::new(callback)))
    }

    pub(crate) fn handler(mut self, declared: &Declared, handler: Handler) -> Self {
        self.declared.push((declared.clone(), handler));
        self
    }

    /// Has `callback` called for events of which no type is declared, with the type that they come with.
    pub fn on_any(mut self, callback: impl FnMut(RawEvent<'_>) -> Result<(), CallbackError> + Send + 'static) -> Self {
        self.others = Some(Box::new(callback));
        self
    }

    /// Has `callback` called for all that is no event: gaps, types that do not fit, callbacks that fail or are slow. It may be called on
    /// several threads. Default: it is logged.
    pub fn on_trouble(mut self, callback: impl Fn(&Trouble) + Send + Sync + 'static) -> Self {
        self.on_trouble = Some(Arc::new(callback));
        self
    }

    /// How long a callback may take before that is told as [`Trouble::Slow`]. Default 1 s.
    pub fn slow_after(mut self, limit: Duration) -> Self {
        self.slow_after = limit;
        self
    }

    /// Subscribes: events that are published from now on come. The channel is made if there is none.
    ///
    /// # Errors
    /// The settings are wrong, the name is none, the filter is refused, or the service cannot be reached or refuses.
    pub fn ready(self) -> Result<RawSubscription, Error> {
        let Self { channel, settings, filter, declared, others, on_trouble, slow_after } = self;
        check_name(&channel)?;
        let settings = match settings {
            Some(settings) => settings,
            None => Settings::load()?,
        };
        if settings.transport == Transport::Dds {
            return Err(Error::NoTransport { transport: "DDS" });
        }
        let tell = Teller { channel: channel.clone(), on_trouble };
        let news = tell.clone();
        let options = ConsumerOptions {
            orb: orb_options(),
            constraint: filter,
            types: if others.is_some() { Vec::new() } else { wanted(&declared, &settings) },
            news: Some(NewsReader::new(move |told| news.tell_news(told))),
            ..ConsumerOptions::default()
        };
        let desk = Desk {
            declared,
            others,
            types: Types::default(),
            tell,
            slow_after,
            is_slow: false,
            value: Vec::new(),
            together: Vec::new(),
        };
        // Behind a lock because an attempt that fails must leave it for the next; it is never waited for.
        let desk = Arc::new(Mutex::new(desk));
        let consumer = patiently(&settings, || {
            let desk = desk.clone();
            SimpleConsumer::connect_by(
                &settings.server,
                finder(&channel, &settings),
                options.clone(),
                move |received| desk.lock().unwrap_or_else(PoisonError::into_inner).take(&received),
            )
        })?;
        Ok(RawSubscription { consumer: Own::new(consumer), channel })
    }
}

impl fmt::Debug for RawConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawConsumer").field("channel", &self.channel).finish_non_exhaustive()
    }
}

/// The types to subscribe to. Events in an Any are asked for, too: their structs have names.
fn wanted(declared: &[(Declared, Handler)], settings: &Settings) -> Vec<EventType> {
    let domain = |declared: &Declared| match declared.domain() {
        Some(domain) => domain.to_owned(),
        None if settings.event_domain.is_empty() => "*".to_owned(),
        None => settings.event_domain.clone(),
    };
    let mut types: Vec<EventType> =
        declared.iter().map(|(declared, _)| EventType::new(&domain(declared), declared.name())).collect();
    types.push(EventType::new("*", "%ANY"));
    types.dedup();
    types
}

/// A consumer that is subscribed. It ends when this is dropped.
#[derive(Debug)]
#[must_use = "the subscription ends when this is dropped"]
pub struct RawSubscription {
    consumer: Own<SimpleConsumer>,
    channel: String,
}

impl RawSubscription {
    /// The channel's name.
    #[must_use]
    pub fn channel(&self) -> &str {
        &self.channel
    }

    /// Whether it is over, since a callback had enough.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.consumer.here().is_ok_and(SimpleConsumer::has_ended)
    }

    /// Asks the service now whether the subscription is still there, and makes it anew if not, as is done every few seconds without.
    ///
    /// # Errors
    /// If the service cannot be reached.
    pub fn check(&self) -> Result<(), Error> {
        self.consumer.here()?.check()?;
        Ok(())
    }

    /// Ends it. A callback may still be running for a last event.
    pub fn close(self) {
        drop(self);
    }
}

/// Tells what is no event.
#[derive(Clone)]
struct Teller {
    channel: String,
    on_trouble: Option<OnTrouble>,
}

impl Teller {
    fn tell(&self, trouble: &Trouble) {
        match &self.on_trouble {
            Some(callback) => {
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| callback(trouble))) {
                    log::error!("consumer of {}: on_trouble panicked: {}", self.channel, words(panic.as_ref()));
                }
            }
            None => log::warn!("consumer of {}: {trouble}", self.channel),
        }
    }

    fn tell_news(&self, news: News) {
        let trouble = match news {
            News::Unreachable(reason) => Trouble::Unreachable(reason),
            News::Reachable => Trouble::Reachable,
            News::Gap(gap) => Trouble::Gap(gap),
            _ => return,
        };
        self.tell(&trouble);
    }
}

/// What a panic said.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".to_owned())
}

/// Takes events in and hands them to those who want them.
struct Desk {
    declared: Vec<(Declared, Handler)>,
    others: Option<OnRaw>,
    types: Types,
    tell: Teller,
    slow_after: Duration,
    /// The last callback was slow, and that is told.
    is_slow: bool,
    /// Where values are put that have to be made, and members that came apart.
    value: Vec<u8>,
    together: Vec<u8>,
}

/// Octets kept of the buffers for values.
const RETAINED_MAX: usize = 4 * 1024 * 1024;

impl Desk {
    fn take(&mut self, received: &Received<'_>) -> Result<(), ServantError> {
        let found = match received.body() {
            ReceivedBody::Structured(mut reader) => Found::in_structured(&mut reader),
            ReceivedBody::Any(mut reader) => Found::in_any(&mut reader),
        };
        let mut together = core::mem::take(&mut self.together);
        let outcome = match &found {
            Ok(found) => {
                let understood = self.types.understand(&found.payload, &found.name, &mut together);
                match understood {
                    Ok(understood) => self.hand_over(found, &understood),
                    Err(error) => self.unreadable(&found.name, error.kind.to_string()),
                }
            }
            Err(error) => self.unreadable("", error.kind.to_string()),
        };
        together.clear();
        together.shrink_to(RETAINED_MAX);
        self.together = together;
        self.value.shrink_to(RETAINED_MAX);
        outcome
    }

    fn unreadable(&self, name: &str, reason: String) -> Result<(), ServantError> {
        self.tell.tell(&Trouble::Unreadable { name: name.to_owned(), reason });
        Ok(())
    }

    fn hand_over(&mut self, found: &Found<'_>, understood: &Understood<'_>) -> Result<(), ServantError> {
        let came = self.types.type_code(understood.which);
        let is_named = !found.name.is_empty();
        let name = if is_named { found.name.as_ref() } else { came.root().resolved().name() };
        let header = Header { domain: &found.domain, name, event_name: &found.event_name };
        let (mut is_wanted, mut is_enough) = (false, false);
        for place in 0..self.declared.len() {
            let matches = self.declared.get(place).is_some_and(|(declared, _)| {
                let domain = declared.domain().is_none_or(|domain| !is_named || domain == header.domain);
                domain && declared.name() == name
            });
            if matches {
                is_wanted = true;
                is_enough |= self.give_declared(place, header, understood);
            }
        }
        if !is_wanted && self.others.is_some() {
            is_enough |= self.give_other(header, &came, understood);
        }
        if is_enough { Err(CallbackConsumer::disconnected()) } else { Ok(()) }
    }

    /// Whether the callback has had enough.
    fn give_declared(&mut self, place: usize, header: Header<'_>, understood: &Understood<'_>) -> bool {
        let Self { declared, types, tell, value, .. } = self;
        let Some((declared, handler)) = declared.get_mut(place) else { return false };
        let misfit = |came: &TypeCode, misfit: crate::projection::Misfit| {
            tell.tell(&Trouble::Mismatch(Arc::new(Mismatch {
                domain: header.domain.to_owned(),
                name: header.name.to_owned(),
                path: misfit.path,
                reason: misfit.reason,
                declared: format!("{:#}", declared.type_code()),
                came: format!("{came:#}"),
            })));
        };
        let Some(plan) = types.for_declared(understood.which, place, declared.type_code(), misfit) else {
            return false;
        };
        let mut reader = understood.reader.clone();
        let began;
        let outcome = match handler {
            Handler::Reader(callback) if plan.is_same() => {
                began = Instant::now();
                guarded(|| callback(&mut reader, header))
            }
            Handler::Reader(callback) => {
                value.clear();
                if let Err(fault) = plan.run(&mut reader, &mut Writer::new(value, NATIVE)) {
                    tell.tell(&Trouble::Unreadable { name: header.name.to_owned(), reason: fault.to_string() });
                    return false;
                }
                began = Instant::now();
                guarded(|| callback(&mut Reader::new(value, NATIVE), header))
            }
            Handler::Octets(callback) => match octets(plan, &mut reader, value) {
                Ok(cdr) => {
                    began = Instant::now();
                    call(callback, header, declared.type_code(), cdr)
                }
                Err(reason) => {
                    tell.tell(&Trouble::Unreadable { name: header.name.to_owned(), reason });
                    return false;
                }
            },
        };
        self.after(header.name, began, outcome)
    }

    fn give_other(&mut self, header: Header<'_>, came: &Arc<TypeCode>, understood: &Understood<'_>) -> bool {
        let Self { others: Some(callback), types, tell, value, .. } = self else { return false };
        let made = match types.itself(understood.which) {
            Some(Ok(plan)) => octets(plan, &mut understood.reader.clone(), value),
            Some(Err(misfit)) => Err(misfit.to_string()),
            None => return false,
        };
        match made {
            Ok(cdr) => {
                let began = Instant::now();
                let outcome = call(callback, header, came, cdr);
                self.after(header.name, began, outcome)
            }
            Err(reason) => {
                tell.tell(&Trouble::Unreadable { name: header.name.to_owned(), reason });
                false
            }
        }
    }

    /// What follows from what a callback said: whether it has had enough.
    fn after(&mut self, name: &str, began: Instant, outcome: Result<(), Handling>) -> bool {
        let took = began.elapsed();
        let was_slow = core::mem::replace(&mut self.is_slow, took >= self.slow_after);
        if self.is_slow && !was_slow {
            self.tell.tell(&Trouble::Slow { name: name.to_owned(), took });
        }
        let name = || name.to_owned();
        match outcome {
            Ok(()) => return false,
            Err(Handling::Callback(CallbackError::Enough)) => return true,
            Err(Handling::Callback(CallbackError::Failed(reason))) => {
                self.tell.tell(&Trouble::Callback { name: name(), reason });
            }
            Err(Handling::Unreadable(reason)) => self.tell.tell(&Trouble::Unreadable { name: name(), reason }),
        }
        false
    }
}

/// The octets of a value: as they lie if they are as they have to be, else made anew.
fn octets<'v>(plan: &Plan, reader: &mut Reader<'v>, value: &'v mut Vec<u8>) -> Result<&'v [u8], String> {
    if plan.lies_as_wanted(reader).map_err(|error| error.kind.to_string())? {
        let (begin, rest) = (reader.position(), reader.rest());
        plan.check(reader).map_err(|fault| fault.to_string())?;
        return Ok(rest.get(..reader.position() - begin).unwrap_or_default());
    }
    value.clear();
    plan.run(reader, &mut Writer::new(value, NATIVE)).map_err(|fault| fault.to_string())?;
    Ok(value)
}

fn call(callback: &mut OnRaw, header: Header<'_>, type_code: &Arc<TypeCode>, cdr: &[u8]) -> Result<(), Handling> {
    let Header { domain, name, event_name } = header;
    guarded(|| callback(RawEvent { domain, name, event_name, type_code, cdr }).map_err(Handling::Callback))
}

/// A panic of a callback is told as any other failure.
fn guarded(callback: impl FnOnce() -> Result<(), Handling>) -> Result<(), Handling> {
    catch_unwind(AssertUnwindSafe(callback))
        .unwrap_or_else(|panic| Err(Handling::Callback(CallbackError::Failed(words(panic.as_ref())))))
}

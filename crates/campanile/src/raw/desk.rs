//! The desk: receives events, and passes them to their callbacks.

use super::consumer::{CallbackError, Handler, Handling, Header, OnRaw, OnTrouble, RawEvent};
use crate::declared::{Declared, NATIVE};
use crate::error::{Mismatch, Trouble};
use crate::form::Found;
use crate::projection::Plan;
use crate::types::{Types, Understood};
use client::notify::CallbackConsumer;
use client::{EventNumber, News, Received, ReceivedBody, ServantError};
use giop::cdr::{Reader, Writer};
use giop::typecode::TypeCode;
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Reports trouble.
#[derive(Clone)]
pub(crate) struct Teller {
    /// The consumer's name in logs, such as `consumer of Weather`.
    whose: String,
    on_trouble: Arc<Mutex<Option<OnTrouble>>>,
}

impl fmt::Display for Teller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.whose)
    }
}

impl fmt::Debug for Teller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Teller {
    pub(crate) fn new(whose: String, on_trouble: Option<OnTrouble>) -> Self {
        Self { whose, on_trouble: Arc::new(Mutex::new(on_trouble)) }
    }

    #[cfg(feature = "dds")]
    pub(crate) fn on_trouble(&self, callback: OnTrouble) {
        // The one before it goes when the lock is free.
        let _before = self.on_trouble.lock().unwrap_or_else(PoisonError::into_inner).replace(callback);
    }

    #[cfg(feature = "dds")]
    pub(crate) fn has_callback(&self) -> bool {
        self.on_trouble.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    pub(crate) fn tell(&self, trouble: &Trouble) {
        if !self.call(trouble) {
            log::warn!("{self}: {trouble}");
        }
    }

    /// Calls the callback; returns whether there is one.
    pub(crate) fn call(&self, trouble: &Trouble) -> bool {
        let callback = self.on_trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(callback) = callback else { return false };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| callback(trouble))) {
            log::error!("{self}: on_trouble panicked: {}", words(panic.as_ref()));
        }
        true
    }

    pub(super) fn tell_news(&self, news: News) {
        let trouble = match news {
            News::Unreachable(reason) => Trouble::Unreachable(reason),
            News::Reachable => Trouble::Reachable,
            News::Gap(gap) => Trouble::Gap(gap),
            _ => return,
        };
        self.tell(&trouble);
    }
}

/// The message of a panic.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".to_owned())
}

/// Receives events and passes them to their callbacks.
pub(crate) struct Desk {
    pub(super) declared: Vec<(Declared, Handler)>,
    pub(super) others: Option<OnRaw>,
    pub(super) tell: Teller,
    pub(super) slow_after: Duration,
    types: Types,
    /// Whether the last callback was slow, which has been reported.
    is_slow: bool,
    /// Buffers for converted values, and for members sent separately.
    value: Vec<u8>,
    together: Vec<u8>,
}

/// Maximum octets retained of the buffers for values.
const RETAINED_MAX: usize = 4 * 1024 * 1024;

impl Desk {
    pub(super) fn new(
        declared: Vec<(Declared, Handler)>,
        others: Option<OnRaw>,
        tell: Teller,
        slow_after: Duration,
    ) -> Self {
        let (types, value, together) = (Types::default(), Vec::new(), Vec::new());
        Self { declared, others, tell, slow_after, types, is_slow: false, value, together }
    }

    /// The declared types.
    #[cfg(feature = "dds")]
    pub(crate) fn declared(&self) -> impl Iterator<Item = &Declared> {
        self.declared.iter().map(|(declared, _)| declared)
    }

    /// Whether events of undeclared types are subscribed to as well.
    #[cfg(feature = "dds")]
    pub(crate) const fn takes_other_types(&self) -> bool {
        self.others.is_some()
    }

    #[cfg(feature = "dds")]
    pub(crate) const fn teller(&self) -> &Teller {
        &self.tell
    }

    /// Handles a value received without an event around it. Returns whether a callback has ended the subscription.
    #[cfg(feature = "dds")]
    pub(crate) fn take_value(&mut self, of: &Declared, cdr: &[u8]) -> bool {
        let found = Found::of(of.domain().unwrap_or_default(), of.name());
        let which = self.types.of_declared(of);
        self.hand_over(&found, &Understood { which, reader: Reader::new(cdr, NATIVE) }, None)
    }

    pub(super) fn take(&mut self, received: &Received<'_>, is_numbered: bool) -> Result<(), ServantError> {
        let number = if is_numbered { received.number().ok().flatten() } else { None };
        let found = match received.body() {
            ReceivedBody::Structured(mut reader) => Found::in_structured(&mut reader),
            ReceivedBody::Any(mut reader) => Found::in_any(&mut reader),
        };
        let mut together = core::mem::take(&mut self.together);
        let outcome = match &found {
            Ok(found) => {
                let understood = self.types.understand(&found.payload, &found.name, &mut together);
                match understood {
                    Ok(understood) if self.hand_over(found, &understood, number) => {
                        Err(CallbackConsumer::disconnected())
                    }
                    Ok(_) => Ok(()),
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

    /// Calls the callback for an event. Returns whether the callback has ended the subscription.
    fn hand_over(&mut self, found: &Found<'_>, understood: &Understood<'_>, number: Option<EventNumber>) -> bool {
        let came = self.types.type_code(understood.which);
        let is_named = !found.name.is_empty();
        let name = if is_named { found.name.as_ref() } else { came.root().resolved().name() };
        let header = Header { domain: &found.domain, name, event_name: &found.event_name, number, qos: found.qos };
        let (mut is_wanted, mut is_enough) = (false, false);
        for place in 0..self.declared.len() {
            let matches = self.declared.get(place).is_some_and(|(declared, _)| {
                let domain = declared.domain().is_none_or(|domain| !is_named || domain == header.domain);
                domain && declared.name() == name
            });
            if matches {
                is_wanted = true;
                is_enough |= self.give_declared(place, header, (found, understood));
            }
        }
        if !is_wanted && self.others.is_some() {
            is_enough |= self.give_other(header, &came, understood);
        }
        is_enough
    }

    /// Calls the callback of a declared type. Returns whether the callback has ended the subscription.
    fn give_declared(
        &mut self,
        place: usize,
        header: Header<'_>,
        (found, understood): (&Found<'_>, &Understood<'_>),
    ) -> bool {
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
                supplier: found.supplier(),
            })));
        };
        let Some(plan) = types.for_declared(understood.which, place, declared, misfit) else {
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

    /// Handles a callback's result: returns whether the callback has ended the subscription.
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

/// The octets of a value: borrowed if they are in the native encoding, else converted.
fn octets<'v>(plan: &Plan, reader: &mut Reader<'v>, value: &'v mut Vec<u8>) -> Result<&'v [u8], String> {
    if plan.has_native_layout(reader).map_err(|error| error.kind.to_string())? {
        let (begin, rest) = (reader.position(), reader.rest());
        plan.check(reader).map_err(|fault| fault.to_string())?;
        return Ok(rest.get(..reader.position() - begin).unwrap_or_default());
    }
    value.clear();
    plan.run(reader, &mut Writer::new(value, NATIVE)).map_err(|fault| fault.to_string())?;
    Ok(value)
}

fn call(callback: &mut OnRaw, header: Header<'_>, type_code: &Arc<TypeCode>, cdr: &[u8]) -> Result<(), Handling> {
    let Header { domain, name, event_name, number, qos } = header;
    guarded(|| callback(RawEvent { domain, name, event_name, number, qos, type_code, cdr }).map_err(Handling::Callback))
}

/// Runs a callback; a panic counts as any other failure.
fn guarded(callback: impl FnOnce() -> Result<(), Handling>) -> Result<(), Handling> {
    catch_unwind(AssertUnwindSafe(callback))
        .unwrap_or_else(|panic| Err(Handling::Callback(CallbackError::Failed(words(panic.as_ref())))))
}

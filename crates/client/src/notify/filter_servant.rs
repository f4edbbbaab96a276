//! A filter that the program implements and a service calls.

use super::{ConstraintExp, StructuredEvent};
use crate::typed::work;
use crate::{Servant, ServantError, Unmarshal, lock};
use core::fmt;
use giop::cdr::{ReadError, Reader, Writer};
use giop::exception::Kind;
use giop::value::AnyValue;
use std::sync::Mutex;

const FILTER: &str = "IDL:omg.org/CosNotifyFilter/Filter:1.0";
const CALLBACK_NOT_FOUND: &str = "IDL:omg.org/CosNotifyFilter/CallbackNotFound:1.0";
const CONSTRAINT_NOT_FOUND: &str = "IDL:omg.org/CosNotifyFilter/ConstraintNotFound:1.0";

/// Maximum number of callbacks of a filter; further ones are answered with `IMP_LIMIT`.
const CALLBACKS_MAX: usize = 1024;

/// An event to match; each reader stands at the event's first octet and borrows the message.
#[derive(Clone, Debug)]
pub enum FilterCall<'a> {
    /// `match`: an `any`.
    Any(Reader<'a>),
    /// `match_structured`: a `CosNotification::StructuredEvent`.
    Structured(Reader<'a>),
    /// `match_typed`: a `CosNotification::PropertySeq`.
    Typed(Reader<'a>),
}

impl FilterCall<'_> {
    /// The event as a structured one: an Any is the remainder of an event of type `%ANY`, as the OMG's translation has
    /// it, and the properties of a typed event are the filterable data of one of type `%TYPED`.
    ///
    /// # Errors
    /// If the bytes are not an event.
    pub fn event(&self) -> Result<StructuredEvent, ReadError> {
        match self {
            Self::Structured(reader) => StructuredEvent::read(&mut reader.clone()),
            Self::Any(reader) => {
                let mut event = StructuredEvent::new("", "%ANY", "");
                event.remainder = AnyValue::read(&mut reader.clone(), &mut work())?;
                Ok(event)
            }
            Self::Typed(reader) => {
                let mut event = StructuredEvent::new("", "%TYPED", "");
                event.filterable_data = Unmarshal::read(&mut reader.clone())?;
                Ok(event)
            }
        }
    }
}

/// A `CosNotifyFilter::Filter` that decides by a closure, called on the thread of the service's connection, for
/// several events at a time if they come over several connections.
///
/// It has no constraints: operations that would change them are answered with `NO_IMPLEMENT`. A service treats an event as not matching if
/// the answer takes longer than the service's time limit.
pub struct FilterServant<F> {
    decide: F,
    callbacks: Mutex<Callbacks>,
}

#[derive(Debug, Default)]
struct Callbacks {
    next: i32,
    ids: Vec<i32>,
}

impl<F: Fn(FilterCall<'_>) -> Result<bool, ServantError> + Send + Sync + 'static> FilterServant<F> {
    /// A filter that passes events for which `decide` returns true. Its error is raised to the service.
    pub fn new(decide: F) -> Self {
        Self { decide, callbacks: Mutex::default() }
    }

    fn attach(&self) -> Result<i32, ServantError> {
        let mut callbacks = lock(&self.callbacks);
        if callbacks.ids.len() >= CALLBACKS_MAX {
            return Err(ServantError::system(Kind::ImpLimit));
        }
        let id = callbacks.next;
        callbacks.next = id.wrapping_add(1);
        callbacks.ids.push(id);
        Ok(id)
    }

    fn detach(&self, id: i32) -> Result<(), ServantError> {
        let mut callbacks = lock(&self.callbacks);
        let before = callbacks.ids.len();
        callbacks.ids.retain(|found| *found != id);
        if callbacks.ids.len() < before { Ok(()) } else { Err(ServantError::User(CALLBACK_NOT_FOUND)) }
    }
}

impl<F: Fn(FilterCall<'_>) -> Result<bool, ServantError> + Send + Sync + 'static> Servant for FilterServant<F> {
    fn type_id(&self) -> &str {
        FILTER
    }

    fn invoke(&self, operation: &str, args: &mut Reader<'_>, reply: &mut Writer<'_>) -> Result<(), ServantError> {
        match operation {
            "match" => reply.bool((self.decide)(FilterCall::Any(args.clone()))?),
            "match_structured" => reply.bool((self.decide)(FilterCall::Structured(args.clone()))?),
            "match_typed" => reply.bool((self.decide)(FilterCall::Typed(args.clone()))?),
            // A language of its own: no client can write constraints for it.
            "_get_constraint_grammar" => reply.string("PROGRAM"),
            "get_all_constraints" => reply.length(0),
            "get_constraints" => match Vec::<i32>::read(args)?.first() {
                Some(id) => {
                    let id = *id;
                    return Err(ServantError::user_with(CONSTRAINT_NOT_FOUND, move |members| members.i32(id)));
                }
                None => reply.length(0),
            },
            "attach_callback" => reply.i32(self.attach()?),
            "detach_callback" => self.detach(args.i32()?)?,
            "get_callbacks" => {
                let callbacks = lock(&self.callbacks);
                reply.length(callbacks.ids.len());
                callbacks.ids.iter().for_each(|id| reply.i32(*id));
            }
            "add_constraints" => {
                Vec::<ConstraintExp>::read(args)?;
                return Err(ServantError::system(Kind::NoImplement));
            }
            "modify_constraints" | "remove_all_constraints" | "destroy" => {
                return Err(ServantError::system(Kind::NoImplement));
            }
            _ => return Err(ServantError::bad_operation()),
        }
        Ok(())
    }
}

impl<F> fmt::Debug for FilterServant<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterServant").field("callbacks", &self.callbacks).finish_non_exhaustive()
    }
}

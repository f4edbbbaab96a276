//! Filters evaluated on a client's request: `match…`, of filters and mapping filters.
//!
//! The event is treated as in a channel: an Any has the type `%ANY` in no domain, a list of properties the type `%TYPED` in none, and a
//! structured event its own type. Constraints for other types are skipped.

use super::expression::MappedValue;
use super::store::{Filter, Filters, Installed};
use crate::event::{
    ANY_TYPE_NAME, TYPED_TYPE_NAME, fields_of_any, fields_of_properties, fields_of_structured, name_in_utf8,
    read_through, skip_properties, work_for,
};
use crate::exceptions::{Raised, UserException};
use crate::log_lines::log_line;
use crate::protocol::InContext;
use crate::table::{Call, Target};
use engine::EventType;
use filter::{FailureKind, Fields, Steps, Verdict};
use giop::cdr::{ReadError, ReadErrorKind, Reader, Writer};
use giop::recode::skip_any;
use std::sync::Arc;

/// Maximum duration of an evaluation step, to convert time to steps.
const STEP_NS: u64 = 16;
/// Octets of event types compared in the time of a step.
const OCTETS_IN_STEP: usize = 16;
/// 1 January 1970 in units of 100 ns since 15 October 1582, as `TimeBase::TimeT`.
const TIME_1970: u64 = 0x01B2_1DD2_1381_4000;

pub(super) fn match_any(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let event = args.clone();
    read_any_argument(&mut args)?;
    args.finish("the arguments of match")?;
    let steps = protocol.objects.filters().steps(on)?;
    answer(protocol.objects.filters().ask_of_any(on, event, steps)?, reply)
}

pub(super) fn match_structured(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let event = args.clone();
    let event_type = read_structured_argument(&mut args)?;
    args.finish("the arguments of match_structured")?;
    let steps = protocol.objects.filters().steps(on)?;
    answer(protocol.objects.filters().ask_of_structured(on, event_type, event, steps)?, reply)
}

pub(super) fn match_typed(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let event = args.clone();
    read_typed_argument(&mut args)?;
    args.finish("the arguments of match_typed")?;
    answer(protocol.objects.filters().ask_of_typed(on, event)?, reply)
}

/// `TimeoutFilter::match_with_timeout`.
pub(super) fn match_with_timeout(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let event = args.clone();
    read_any_argument(&mut args)?;
    let timeout = read_utc(&mut args)?;
    args.finish("the arguments of match_with_timeout")?;
    let steps = protocol.objects.filters().steps_until(on, timeout)?;
    answer(protocol.objects.filters().ask_of_any(on, event, steps)?, reply)
}

/// `TimeoutFilter::match_structured_with_timeout`.
pub(super) fn match_structured_with_timeout(
    Call { protocol, on, mut args, reply }: Call<'_, '_>,
) -> Result<(), Raised> {
    let event = args.clone();
    let event_type = read_structured_argument(&mut args)?;
    let timeout = read_utc(&mut args)?;
    args.finish("the arguments of match_structured_with_timeout")?;
    let steps = protocol.objects.filters().steps_until(on, timeout)?;
    answer(protocol.objects.filters().ask_of_structured(on, event_type, event, steps)?, reply)
}

pub(super) fn map_any(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let event = args.clone();
    read_any_argument(&mut args)?;
    args.finish("the arguments of match")?;
    let steps = protocol.objects.filters().steps(on)?;
    let matched = protocol.objects.filters().ask_of_any(on, event, steps)?;
    answer_value(matched, &protocol.objects.filters.mapping(on.filter()?)?.default, reply)
}

pub(super) fn map_structured(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let event = args.clone();
    let event_type = read_structured_argument(&mut args)?;
    args.finish("the arguments of match_structured")?;
    let steps = protocol.objects.filters().steps(on)?;
    let matched = protocol.objects.filters().ask_of_structured(on, event_type, event, steps)?;
    answer_value(matched, &protocol.objects.filters.mapping(on.filter()?)?.default, reply)
}

pub(super) fn map_typed(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let event = args.clone();
    read_typed_argument(&mut args)?;
    args.finish("the arguments of match_typed")?;
    let matched = protocol.objects.filters().ask_of_typed(on, event)?;
    answer_value(matched, &protocol.objects.filters.mapping(on.filter()?)?.default, reply)
}

fn answer(matched: Option<Arc<Installed>>, reply: &mut Writer<'_>) -> Result<(), Raised> {
    reply.bool(matched.is_some());
    Ok(())
}

fn answer_value(matched: Option<Arc<Installed>>, default: &MappedValue, reply: &mut Writer<'_>) -> Result<(), Raised> {
    reply.bool(matched.is_some());
    let value = matched.as_ref().and_then(|installed| installed.value.as_ref());
    Ok(value.unwrap_or(default).write(reply)?)
}

// ---- arguments ----

/// An event's type as it lies in the event.
#[derive(Clone, Copy)]
struct Type<'a> {
    domain: &'a [u8],
    name: &'a [u8],
}

fn read_any_argument(args: &mut Reader<'_>) -> Result<(), Raised> {
    let mut work = work_for(args.remaining());
    skip_any(args, &mut work).map_err(unreadable)
}

fn read_structured_argument<'a>(args: &mut Reader<'a>) -> Result<Type<'a>, Raised> {
    let mut work = work_for(args.remaining());
    let header = read_through(args, &mut work).map_err(unreadable)?;
    Ok(Type { domain: header.domain, name: header.type_name })
}

fn read_typed_argument(args: &mut Reader<'_>) -> Result<(), Raised> {
    let mut work = work_for(args.remaining());
    skip_properties(args, &mut work).map_err(unreadable)
}

/// The exception for data that cannot be read: data of an unsupported type counts as well formed.
fn unreadable(error: ReadError) -> Raised {
    match error.kind {
        ReadErrorKind::Unsupported { .. } => UserException::UnsupportedFilterableData.into(),
        _ => error.into(),
    }
}

/// Reads a `TimeBase::UtcT` and gives its time.
fn read_utc(args: &mut Reader<'_>) -> Result<u64, ReadError> {
    let time = args.u64()?;
    let _inaccuracy_low = args.u32()?;
    let _inaccuracy_high = args.u16()?;
    // Minutes from UTC to the sender's local time. The time itself is UTC.
    let _time_zone = args.i16()?;
    Ok(time)
}

// ---- evaluation ----

impl InContext<'_, Filters> {
    /// The step limit for evaluating one event.
    fn steps(&self, on: Target) -> Result<Steps, Raised> {
        Ok(Steps::new(self.limits(on.filter()?)?.filter_steps_max))
    }

    /// The step limit with a deadline. A time before 1970 is taken as a duration from now on.
    fn steps_until(&self, on: Target, timeout: u64) -> Result<Steps, Raised> {
        let left = if timeout < TIME_1970 { timeout } else { timeout.saturating_sub(self.clock.utc) };
        let affordable = left.saturating_mul(100) / STEP_NS;
        let Steps { left: granted, .. } = self.steps(on)?;
        Ok(Steps::new(granted.min(u32::try_from(affordable).unwrap_or(u32::MAX))))
    }

    fn ask_of_any(&mut self, on: Target, event: Reader<'_>, steps: Steps) -> Result<Option<Arc<Installed>>, Raised> {
        let fields = fields_of_any(event, self.clock.utc);
        self.ask(on, Type { domain: b"", name: ANY_TYPE_NAME }, &fields, steps)
    }

    fn ask_of_structured(
        &mut self,
        on: Target,
        event_type: Type<'_>,
        event: Reader<'_>,
        steps: Steps,
    ) -> Result<Option<Arc<Installed>>, Raised> {
        let (mut domain, mut name) = (String::new(), String::new());
        let chars = event.encoding().chars;
        let event_type = Type {
            domain: name_in_utf8(event_type.domain, chars, &mut domain),
            name: name_in_utf8(event_type.name, chars, &mut name),
        };
        let fields = fields_of_structured(event, self.clock.utc);
        self.ask(on, event_type, &fields, steps)
    }

    fn ask_of_typed(&mut self, on: Target, event: Reader<'_>) -> Result<Option<Arc<Installed>>, Raised> {
        let steps = self.steps(on)?;
        let fields = fields_of_properties(event, self.clock.utc);
        self.ask(on, Type { domain: b"", name: TYPED_TYPE_NAME }, &fields, steps)
    }

    /// The first of a filter's constraints that matches an event. `UnsupportedFilterableData` if none matches and one failed because of
    /// data of another type.
    fn ask(
        &mut self,
        on: Target,
        event_type: Type<'_>,
        fields: &impl Fields,
        mut steps: Steps,
    ) -> Result<Option<Arc<Installed>>, Raised> {
        let filter = self.own.get(on.filter()?)?;
        let (outcome, matched) = evaluate(filter, event_type, fields, &mut steps);
        match outcome {
            Outcome::Decided => Ok(matched),
            Outcome::WrongType => Err(UserException::UnsupportedFilterableData.into()),
            Outcome::Cut => {
                log_line!(Info, "an evaluation was cut when its time or its steps were over");
                self.own.cuts += 1;
                Ok(None)
            }
        }
    }
}

enum Outcome {
    Decided,
    WrongType,
    Cut,
}

fn evaluate(
    filter: &Filter,
    event_type: Type<'_>,
    fields: &impl Fields,
    steps: &mut Steps,
) -> (Outcome, Option<Arc<Installed>>) {
    let mut outcome = Outcome::Decided;
    for installed in filter.constraints.in_order() {
        match is_meant(&installed.types, event_type, steps) {
            None => return (Outcome::Cut, None),
            Some(false) => continue,
            Some(true) => {}
        }
        match installed.program.matches(fields, steps) {
            Verdict::Match => return (Outcome::Decided, Some(Arc::clone(installed))),
            Verdict::NoMatch => {}
            // Looking into a sequence also fails where there is nothing, and that is no match as everywhere.
            Verdict::Failed(failure) if failure.kind == FailureKind::WrongType => outcome = Outcome::WrongType,
            Verdict::Failed(_) => {}
            Verdict::Cut => return (Outcome::Cut, None),
        }
    }
    (outcome, None)
}

/// Whether a constraint with these types applies to an event type; `None` if the steps run out.
///
/// The types come from the filter's creator and the event's from the requesting client, both as long as a message may be: so comparing them
/// is charged as evaluation is.
fn is_meant(types: &[EventType], event_type: Type<'_>, steps: &mut Steps) -> Option<bool> {
    let Type { domain, name } = event_type;
    for kind in types {
        let octets = kind.domain.len() + kind.name.len() + domain.len() + name.len();
        if !steps.take(u32::try_from(1 + octets / OCTETS_IN_STEP).unwrap_or(u32::MAX)) {
            return None;
        }
        if kind.matches(domain, name) {
            return Some(true);
        }
    }
    Some(types.is_empty())
}

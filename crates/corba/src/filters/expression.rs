//! Reading and writing of clients' constraints and values.

use crate::exceptions::Raised;
use crate::log_lines::log_line;
use crate::wire::read_event_types;
use engine::EventType;
use giop::cdr::{Encoding, ReadError, Reader, Writer};
use giop::recode::copy_any;
use giop::typecode::{TypeCode, Work};
use giop::value::{AnyRef, Value};

/// Steps and depth that all the values of one call may take.
const VALUE_STEPS: u32 = 100_000;
const VALUE_DEPTH: u32 = 64;
/// Maximum size of a mapping filter's value, in octets with its type. Values that the service itself uses have 12 or 16.
const VALUE_BYTES_MAX: usize = 4_096;
/// Maximum octets of one constraint's event types. A list of everything that ALMA sends takes some thousand.
const TYPE_BYTES_MAX: usize = 64 << 10;

/// `CosNotifyFilter::ConstraintExp`: event types, and a constraint on them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expression {
    /// The event types; empty means any.
    pub(super) types: Vec<EventType>,
    /// The constraint as the client wrote it.
    pub(super) text: String,
}

impl Expression {
    fn read(args: &mut Reader<'_>) -> Result<Self, Raised> {
        let before = args.remaining();
        let types = read_event_types(args)?;
        if before - args.remaining() > TYPE_BYTES_MAX {
            log_line!(
                Info,
                "a constraint is refused: its event types take {} bytes; the limit is {TYPE_BYTES_MAX}",
                before - args.remaining()
            );
            return Err(Raised::limit());
        }
        Ok(Self { types, text: args.text()? })
    }

    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        write_types(&self.types, out);
        out.string(&self.text);
    }
}

/// Writes a `CosNotification::EventTypeSeq`.
fn write_types(types: &[EventType], out: &mut Writer<'_>) {
    out.length(types.len());
    for EventType { domain, name } in types {
        out.string(domain);
        out.string(name);
    }
}

/// A value of a mapping filter, kept as it arrived.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MappedValue {
    bytes: Vec<u8>,
    phase: usize,
    encoding: Encoding,
    type_code: TypeCode,
    number: Option<Number>,
}

/// An integer value, of any width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Number {
    value: i128,
    /// Whether its type is that of `TimeBase::TimeT`.
    is_time: bool,
}

impl MappedValue {
    pub(super) fn read(args: &mut Reader<'_>, work: &mut Work) -> Result<Self, Raised> {
        let any = AnyRef::read(args, work)?;
        if any.bytes().len() > VALUE_BYTES_MAX {
            log_line!(Info, "a value is refused: it takes {} bytes; the limit is {VALUE_BYTES_MAX}", any.bytes().len());
            return Err(Raised::limit());
        }
        let reader = any.reader();
        let type_code = TypeCode::read(&mut reader.clone(), work)?;
        let number = match any.decode(work)?.value {
            Value::Octet(value) => Some((value.into(), false)),
            Value::Short(value) => Some((value.into(), false)),
            Value::UShort(value) => Some((value.into(), false)),
            Value::Long(value) => Some((value.into(), false)),
            Value::ULong(value) => Some((value.into(), false)),
            Value::LongLong(value) => Some((value.into(), false)),
            Value::ULongLong(value) => Some((value.into(), true)),
            _ => None,
        };
        let number = number.map(|(value, is_time)| Number { value, is_time });
        let (phase, encoding) = (reader.phase(), reader.encoding());
        Ok(Self { bytes: any.bytes().to_vec(), phase, encoding, type_code, number })
    }

    /// The steps for the values of one call.
    pub(super) fn work() -> Work {
        Work::new(VALUE_STEPS, VALUE_DEPTH)
    }

    /// Size in octets, type included.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The type as the client sent it.
    pub(super) fn type_code(&self) -> &TypeCode {
        &self.type_code
    }

    /// Writes it as an `any`.
    pub(super) fn write(&self, out: &mut Writer<'_>) -> Result<(), ReadError> {
        copy_any(&mut Reader::with_phase(&self.bytes, self.phase, self.encoding), out, &mut Self::work())
    }

    /// Writes the value as an `any`, or one without a value if the writer's code set cannot express its text.
    pub(crate) fn write_or_null(&self, out: &mut Writer<'_>) {
        let before = out.position();
        if self.write(out).is_err() {
            out.truncate(before);
            out.u32(0);
        }
    }

    /// The value as a priority, if it is an integer in the range of `short`.
    pub(super) fn priority(&self) -> Option<i64> {
        i16::try_from(self.number?.value).ok().map(i64::from)
    }

    /// The value as a lifetime in nanoseconds, if it is a non-negative integer, in units of 100 ns. 0 stands for no end; lifetimes of more
    /// than 292 years are cut to that.
    pub(super) fn lifetime_ns(&self) -> Option<i64> {
        let value = self.number?.value;
        (value >= 0).then(|| i64::try_from(value * 100).unwrap_or(i64::MAX))
    }

    /// Rank of the value, larger is better: a higher priority, a longer lifetime. A `TimeT` of 0 is a lifetime without end. Values that are
    /// no integers are all equal.
    pub(super) fn rank(&self) -> i128 {
        match self.number {
            Some(Number { value: 0, is_time: true }) => i128::MAX,
            Some(Number { value, .. }) => value,
            None => 0,
        }
    }
}

/// One constraint from a client.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct New {
    pub(super) expression: Expression,
    /// The value of a mapping filter's constraint.
    pub(super) value: Option<MappedValue>,
}

/// Reads a `ConstraintExpSeq`.
pub(super) fn read_expressions(args: &mut Reader<'_>, max: u32) -> Result<Vec<New>, Raised> {
    let count = read_count(args, 9, max)?;
    (0..count).map(|_| Ok(New { expression: Expression::read(args)?, value: None })).collect()
}

/// Reads a `ConstraintInfoSeq`.
pub(super) fn read_infos(args: &mut Reader<'_>, max: u32) -> Result<Vec<(i32, New)>, Raised> {
    let count = read_count(args, 13, max)?;
    let infos = (0..count).map(|_| {
        let expression = Expression::read(args)?;
        Ok((args.i32()?, New { expression, value: None }))
    });
    infos.collect()
}

/// Reads a `MappingConstraintPairSeq`.
pub(super) fn read_pairs(args: &mut Reader<'_>, max: u32) -> Result<Vec<New>, Raised> {
    let count = read_count(args, 13, max)?;
    let mut work = MappedValue::work();
    let pairs = (0..count).map(|_| {
        let expression = Expression::read(args)?;
        Ok(New { expression, value: Some(MappedValue::read(args, &mut work)?) })
    });
    pairs.collect()
}

/// Reads a `MappingConstraintInfoSeq`.
pub(super) fn read_mapping_infos(args: &mut Reader<'_>, max: u32) -> Result<Vec<(i32, New)>, Raised> {
    let count = read_count(args, 17, max)?;
    let mut work = MappedValue::work();
    let infos = (0..count).map(|_| {
        let expression = Expression::read(args)?;
        let id = args.i32()?;
        Ok((id, New { expression, value: Some(MappedValue::read(args, &mut work)?) }))
    });
    infos.collect()
}

/// Reads a `ConstraintIDSeq`.
pub(super) fn read_ids(args: &mut Reader<'_>, max: u32) -> Result<Vec<i32>, Raised> {
    let count = read_count(args, 4, max)?;
    Ok((0..count).map(|_| args.i32()).collect::<Result<_, ReadError>>()?)
}

/// Maximum octets of a request with several constraints: they are compiled in one go, at up to 70 ns per octet. Larger lists need several
/// requests.
const REQUEST_BYTES_MAX: usize = 256 << 10;

/// Reads the number of constraints, and refuses more than a filter may have, or than are compiled in one go.
fn read_count(args: &mut Reader<'_>, bytes_each: usize, max: u32) -> Result<u32, Raised> {
    let count = args.seq_len(bytes_each)?;
    if count > max {
        log_line!(Info, "{count} constraints are refused; the limit is {max} in a filter");
        return Err(Raised::limit());
    }
    let octets = args.remaining();
    if count > 1 && octets > REQUEST_BYTES_MAX {
        log_line!(Info, "{octets} octets of constraints are refused; the limit is {REQUEST_BYTES_MAX} in a request");
        return Err(Raised::limit());
    }
    Ok(count)
}

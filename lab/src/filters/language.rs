//! One constraint at a time: the language beside the same condition written in Rust over the same bytes.

use core::hint::black_box;

use client::notify::{Property, StructuredEvent};
use corba::event;
use filter::{Constraint, Limits, Steps, Verdict};
use giop::cdr::{Encoding, Endian, ReadError, Reader, Writer};
use serde_json::{Value, json};

use super::{Pace, timed};
use crate::BenchError;
use crate::durable::median;

/// How many evaluations of one condition take place between two readings of the clock.
const TURN: u32 = 20_000;

/// A condition twice: as a constraint, and by hand.
struct Condition {
    name: &'static str,
    text: &'static str,
    floor: fn(Reader<'_>) -> Result<bool, ReadError>,
}

const CONDITIONS: [Condition; 3] = [
    Condition { name: "short", text: "$priority > 3", floor: short },
    Condition { name: "typical", text: "$antenna == 'DV017' and $value > 3 and $healthy", floor: typical },
    Condition {
        name: "long",
        text: "($antenna == 'DV001' or $antenna == 'DV005' or $antenna == 'DV017') and $band >= 3 and $band <= 7 and \
               $value * 2 + 1 > 8 and exist $operator and $elevation > 30 and ($azimuth < 90 or $azimuth > 270 or \
               $mode == 'calibration') and not ($count == 0) and $priority >= 2",
        floor: long,
    },
];

pub(super) fn run(pace: Pace) -> Result<Vec<Value>, BenchError> {
    CONDITIONS.iter().map(|condition| condition.run(pace)).collect()
}

impl Condition {
    /// What it costs in both forms.
    fn run(&self, pace: Pace) -> Result<Value, BenchError> {
        let bytes = sample();
        let constraint = Constraint::parse(self.text, &Limits::default())
            .map_err(|error| BenchError::Setup { doing: self.text.to_owned(), reason: error.to_string() })?;
        let asked = |bytes: &[u8]| {
            let fields = event::fields_of_structured(reader(bytes), 0);
            matches!(constraint.matches(&fields, &mut Steps::new(u32::MAX)), Verdict::Match)
        };
        let by_hand = |bytes: &[u8]| (self.floor)(reader(bytes)).unwrap_or(false);
        if !asked(&bytes) || !by_hand(&bytes) {
            return Err(BenchError::Setup { doing: self.text.to_owned(), reason: "the sample does not match".into() });
        }
        let (mut evaluations, mut floors, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..pace.rounds {
            // Taking turns, so that both see the same machine.
            let evaluation = timed(pace, TURN, || Ok(asked(black_box(&bytes))))?;
            let floor = timed(pace, TURN, || Ok(by_hand(black_box(&bytes))))?;
            evaluations.push(evaluation);
            floors.push(floor);
            ratios.push(evaluation / floor);
        }
        let evaluation_ns = median(evaluations.into_iter());
        Ok(json!({
            "name": self.name,
            "constraint": self.text,
            "evaluation_ns": evaluation_ns,
            "floor_ns": median(floors.into_iter()),
            "ratio": median(ratios.into_iter()),
            "evaluations_per_second": 1e9 / evaluation_ns,
            "evaluations_per_second_and_core": 1e9 / on_each_core(pace, &bytes, &asked)?,
        }))
    }
}

/// Nanoseconds of one evaluation with a thread on each core, the mean of the threads.
fn on_each_core(pace: Pace, bytes: &[u8], asked: &(impl Fn(&[u8]) -> bool + Sync)) -> Result<f64, BenchError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let each = std::thread::scope(|scope| {
        let call = || timed(pace, TURN, || Ok(asked(black_box(bytes))));
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(call)).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect::<Result<Vec<f64>, BenchError>>()
    })?;
    #[expect(clippy::cast_precision_loss, reason = "a number of cores")]
    let cores = each.len() as f64;
    Ok(each.iter().sum::<f64>() / cores)
}

fn reader(bytes: &[u8]) -> Reader<'_> {
    Reader::new(bytes, Encoding::new(Endian::Little))
}

// ---- the event ----

/// A structured event as a telescope's monitor sends it: two properties in its header, ten to filter by, a number as its
/// body.
pub(super) fn sample() -> Vec<u8> {
    sample_of("DV017", 5)
}

/// The same from an antenna, with a priority.
pub(super) fn sample_of(antenna: &str, priority: i16) -> Vec<u8> {
    let event = StructuredEvent {
        variable_header: vec![Property::new("Priority", priority), Property::new("Timeout", 36_000_000_000_u64)],
        filterable_data: vec![
            Property::new("antenna", antenna),
            Property::new("band", 6),
            Property::new("mode", "science"),
            Property::new("elevation", 48.25),
            Property::new("azimuth", 312.5),
            Property::new("temperature", -3.5),
            Property::new("value", 3.75),
            Property::new("healthy", true),
            Property::new("count", 17),
            Property::new("operator", "night shift"),
        ],
        remainder: 42.0.into(),
        ..StructuredEvent::new("Telescope", "Status", "noon")
    };
    let mut bytes = Vec::new();
    // Each value is of the type that follows from it; what were none would match nothing.
    let _ = event.write(&mut Writer::new(&mut bytes, Encoding::new(Endian::Little)));
    bytes
}

// CORBA::TCKind (CORBA 3.3 part 2, 9.3.5.1).
const SHORT: u32 = 2;
const LONG: u32 = 3;
const DOUBLE: u32 = 7;
const BOOLEAN: u32 = 8;
const STRING: u32 = 18;

// ---- the same conditions by hand ----

/// A value of the kinds that the sample has.
#[derive(Clone, Copy)]
enum Scalar<'e> {
    Integer(i64),
    Real(f64),
    Boolean(bool),
    Text(&'e [u8]),
}

impl Scalar<'_> {
    fn number(self) -> Option<f64> {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "the sample's integers are small")]
            Self::Integer(value) => Some(value as f64),
            Self::Real(value) => Some(value),
            Self::Boolean(_) | Self::Text(_) => None,
        }
    }
}

fn scalar<'e>(event: &mut Reader<'e>) -> Result<Scalar<'e>, ReadError> {
    Ok(match event.u32()? {
        SHORT => Scalar::Integer(event.i16()?.into()),
        LONG => Scalar::Integer(event.i32()?.into()),
        DOUBLE => Scalar::Real(event.f64()?),
        BOOLEAN => Scalar::Boolean(event.bool()?),
        STRING => {
            event.u32()?;
            Scalar::Text(event.string()?)
        }
        _ => Scalar::Integer(event.i64()?),
    })
}

/// Goes to the end of a list of properties and shows each.
fn each<'e>(event: &mut Reader<'e>, mut see: impl FnMut(&'e [u8], Scalar<'e>)) -> Result<(), ReadError> {
    for _ in 0..event.u32()? {
        let name = event.string()?;
        see(name, scalar(event)?);
    }
    Ok(())
}

fn skip_names(event: &mut Reader<'_>) -> Result<(), ReadError> {
    for _ in 0..3 {
        event.string()?;
    }
    Ok(())
}

fn short(mut event: Reader<'_>) -> Result<bool, ReadError> {
    skip_names(&mut event)?;
    for _ in 0..event.u32()? {
        let name = event.string()?;
        let value = scalar(&mut event)?;
        if name == b"Priority" {
            return Ok(value.number().is_some_and(|value| value > 3.0));
        }
    }
    Ok(false)
}

fn typical(mut event: Reader<'_>) -> Result<bool, ReadError> {
    skip_names(&mut event)?;
    each(&mut event, |_, _| {})?;
    let (mut antenna, mut value, mut healthy) = (false, false, false);
    for _ in 0..event.u32()? {
        match (event.string()?, scalar(&mut event)?) {
            (b"antenna", Scalar::Text(text)) => antenna = text == b"DV017",
            (b"value", found) => value = found.number().is_some_and(|value| value > 3.0),
            (b"healthy", Scalar::Boolean(found)) => healthy = found,
            _ => continue,
        }
        if antenna && value && healthy {
            return Ok(true);
        }
    }
    Ok(false)
}

fn long(mut event: Reader<'_>) -> Result<bool, ReadError> {
    skip_names(&mut event)?;
    let mut urgent = false;
    each(&mut event, |name, value| {
        if name == b"Priority" {
            urgent = value.number().is_some_and(|value| value >= 2.0);
        }
    })?;
    let (mut antenna, mut band, mut value, mut operator) = (false, false, false, false);
    let (mut elevation, mut azimuth, mut mode, mut count) = (false, false, false, false);
    each(&mut event, |name, found| match (name, found) {
        (b"antenna", Scalar::Text(text)) => antenna = matches!(text, b"DV001" | b"DV005" | b"DV017"),
        (b"band", found) => band = found.number().is_some_and(|band| (3.0..=7.0).contains(&band)),
        (b"value", found) => value = found.number().is_some_and(|value| value * 2.0 + 1.0 > 8.0),
        (b"operator", _) => operator = true,
        (b"elevation", found) => elevation = found.number().is_some_and(|elevation| elevation > 30.0),
        (b"azimuth", found) => azimuth = found.number().is_some_and(|azimuth| !(90.0..=270.0).contains(&azimuth)),
        (b"mode", Scalar::Text(text)) => mode = text == b"calibration",
        (b"count", found) => count = found.number().is_some_and(|count| count != 0.0),
        _ => {}
    })?;
    Ok(urgent && antenna && band && value && operator && elevation && (azimuth || mode) && count)
}

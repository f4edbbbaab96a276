//! An event's header: its type, its name and its quality of service.

use super::{ANY_TYPE_NAME, PROPERTY_BYTES_MIN, skip_properties};
use engine::{Event, Reliability, Time};
use giop::cdr::{ReadError, ReadErrorKind, Reader};
use giop::cursor::{Cursor, Scalar};
use giop::recode::skip_any;
use giop::typecode::Work;
use std::time::Duration;

/// The parts of a structured event that decide where and when it goes. Texts are in the code set of the event's encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header<'a> {
    /// Domain of the event's type.
    pub domain: &'a [u8],
    /// Name of the event's type.
    pub type_name: &'a [u8],
    /// Name of the event.
    pub event_name: &'a [u8],
    /// `Priority` (OMG Notification Service 1.1, 2.5.5.2).
    pub priority: Option<i16>,
    /// `Timeout`: time after arrival for which the event is valid. A `Timeout` of 0 means none.
    pub timeout: Option<Duration>,
    /// `StartTime`: earliest delivery. In 100 ns since 15 October 1582, UTC.
    pub start: Option<u64>,
    /// `StopTime`: latest delivery. In 100 ns since 15 October 1582, UTC.
    pub stop: Option<u64>,
    /// `EventReliability`: whether the event outlives the service's process.
    pub reliability: Option<Reliability>,
    /// Whether one of these five has an invalid value. It counts as absent.
    pub has_wrong_property: bool,
    /// Octets from the event's first to the end of its type's name. 0 for an Any.
    pub behind_type: usize,
    /// Whether the event has properties.
    pub has_properties: bool,
    /// Whether the event was read to its end and nothing in it is aligned to 8, see [`tag_at`](super::tag_at).
    pub is_loose: bool,
}

/// The header of an Any.
pub const ANY_HEADER: Header<'static> = Header {
    domain: b"",
    type_name: ANY_TYPE_NAME,
    event_name: b"",
    priority: None,
    timeout: None,
    start: None,
    stop: None,
    reliability: None,
    has_wrong_property: false,
    behind_type: 0,
    has_properties: false,
    is_loose: false,
};

impl Header<'_> {
    /// Whether it may have quality of service that affects delivery.
    #[must_use]
    pub const fn says_quality(&self) -> bool {
        self.has_properties
    }

    /// Sets priority, lifetime, times and reliability of the engine's event.
    pub fn apply(&self, event: &mut Event, clock: &UtcClock) {
        event.priority = self.priority;
        event.timeout = self.timeout;
        event.start = self.start.map(|utc| clock.lane_time(utc));
        event.stop = self.stop.map(|utc| clock.lane_time(utc));
        event.reliability = self.reliability;
    }

    /// Notes a property in the variable header; `value` is at its value. Of several with one name the first counts, as in filters.
    fn note(&mut self, name: &[u8], value: Reader<'_>, work: &mut Work) {
        let wrong = match name {
            b"Priority" if self.priority.is_none() => {
                self.priority = integer(value, work).and_then(|value| i16::try_from(value).ok());
                self.priority.is_none()
            }
            b"Timeout" if self.timeout.is_none() => {
                let ticks = ticks(value, work);
                self.timeout = ticks.filter(|ticks| *ticks > 0).map(duration);
                ticks.is_none()
            }
            b"StartTime" if self.start.is_none() => {
                self.start = moment(value, work);
                self.start.is_none()
            }
            b"StopTime" if self.stop.is_none() => {
                self.stop = moment(value, work);
                self.stop.is_none()
            }
            b"EventReliability" if self.reliability.is_none() => {
                self.reliability = match integer(value, work) {
                    Some(0) => Some(Reliability::BestEffort),
                    Some(1) => Some(Reliability::Persistent),
                    _ => None,
                };
                self.reliability.is_none()
            }
            _ => false,
        };
        self.has_wrong_property |= wrong;
    }
}

/// Reads an integer of any width: clients in languages with one type of integer send any fitting width.
fn integer(value: Reader<'_>, work: &mut Work) -> Option<i64> {
    match Cursor::any(value, work).ok()?.scalar(work) {
        Ok(Some(Scalar::Int(value))) => Some(value),
        _ => None,
    }
}

/// A `TimeBase::TimeT`, or any integer that could be one.
fn ticks(value: Reader<'_>, work: &mut Work) -> Option<u64> {
    ticks_at(&Cursor::any(value, work).ok()?, work)
}

fn ticks_at(at: &Cursor<'_>, work: &mut Work) -> Option<u64> {
    match at.scalar(work) {
        Ok(Some(Scalar::Int(value))) => u64::try_from(value).ok(),
        Ok(Some(Scalar::UInt(value))) => Some(value),
        _ => None,
    }
}

/// Reads the time of a `TimeBase::UtcT`, which is UTC whatever its displacement factor (Time Service 1.1, 1.3.2.4); or a bare `TimeT`.
fn moment(value: Reader<'_>, work: &mut Work) -> Option<u64> {
    let at = Cursor::any(value, work).ok()?;
    match at.member("time", work).ok()? {
        Some(time) => ticks_at(&time, work),
        None => ticks_at(&at, work),
    }
}

/// Converts units of 100 ns.
fn duration(ticks: u64) -> Duration {
    const TICKS_PER_SECOND: u64 = 10_000_000;
    let nanos = u32::try_from(ticks % TICKS_PER_SECOND * 100).unwrap_or(0);
    Duration::new(ticks / TICKS_PER_SECOND, nanos)
}

/// Reads a structured event to its end, within `work`, and returns its header.
///
/// # Errors
///
/// The body is not exactly one structured event (`MARSHAL`), or exceeds `work`.
pub fn read_structured<'a>(mut body: Reader<'a>, work: &mut Work) -> Result<Header<'a>, ReadError> {
    let mut header = read_through(&mut body, work)?;
    header.is_loose = !body.has_eights();
    body.finish("CosNotification::StructuredEvent")?;
    Ok(header)
}

/// Reads a structured event to its end as [`read_structured`] does, with its first `behind_type` octets already known: the names of its
/// type, which the returned header lacks.
///
/// # Errors
///
/// The same as of [`read_structured`].
pub fn read_behind_type<'a>(
    mut body: Reader<'a>,
    behind_type: usize,
    work: &mut Work,
) -> Result<Header<'a>, ReadError> {
    body.take(behind_type)?;
    let mut header = behind_type_name(&mut body, Header::default(), work)?;
    skip_properties(&mut body, work)?;
    skip_any(&mut body, work)?;
    header.is_loose = !body.has_eights();
    body.finish("CosNotification::StructuredEvent")?;
    Ok(header)
}

/// Reads the header of a structured event and nothing behind it.
///
/// # Errors
///
/// The body does not begin like a structured event, or its header exceeds `work`.
pub fn read_header<'a>(mut body: Reader<'a>, work: &mut Work) -> Result<Header<'a>, ReadError> {
    header(&mut body, work)
}

/// Moves `body` behind a structured event.
pub(crate) fn read_through<'a>(body: &mut Reader<'a>, work: &mut Work) -> Result<Header<'a>, ReadError> {
    let header = header(body, work)?;
    skip_properties(body, work)?;
    skip_any(body, work)?;
    Ok(header)
}

fn header<'a>(body: &mut Reader<'a>, work: &mut Work) -> Result<Header<'a>, ReadError> {
    let begin = body.position();
    let mut header = Header { domain: type_part(body)?, type_name: type_part(body)?, ..Header::default() };
    header.behind_type = body.position() - begin;
    behind_type_name(body, header, work)
}

/// Maximum octets of an event type's domain, and of its name. Each is compared with all subscriptions and constraints that clients have
/// made.
const TYPE_PART_BYTES_MAX: u32 = 4_096;

fn type_part<'a>(body: &mut Reader<'a>) -> Result<&'a [u8], ReadError> {
    let offset = body.position();
    let part = body.string()?;
    let (count, max) = (u32::try_from(part.len()).unwrap_or(u32::MAX), TYPE_PART_BYTES_MAX);
    if count > max {
        let what = "octets of an event type";
        return Err(ReadError { offset, kind: ReadErrorKind::TooMany { what, count, max } });
    }
    Ok(part)
}

/// Reads the part behind the names of the type.
fn behind_type_name<'a>(
    body: &mut Reader<'a>,
    mut header: Header<'a>,
    work: &mut Work,
) -> Result<Header<'a>, ReadError> {
    header.event_name = body.string()?;
    let properties = body.seq_len(PROPERTY_BYTES_MIN)?;
    header.has_properties = properties > 0;
    for _ in 0..properties {
        let name = body.string()?;
        let value = body.clone();
        skip_any(body, work)?;
        header.note(name, value, work);
    }
    Ok(header)
}

/// 1 January 1970 in units of 100 ns since 15 October 1582.
pub(crate) const UNIX_EPOCH: u64 = 0x01B2_1DD2_1381_4000;

/// The current time by two clocks: the lane's, which is monotonic, and wall-clock time, by which suppliers set `StartTime` and `StopTime`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UtcClock {
    /// A moment by the lane's clock.
    pub lane: Time,
    /// Wall-clock time as a `TimeBase::TimeT`: 100 ns since 15 October 1582, UTC.
    pub utc: u64,
}

impl UtcClock {
    /// The clocks' readings: `lane` by the lane's clock, `since_1970` by wall-clock time.
    #[must_use]
    pub fn new(lane: Time, since_1970: Duration) -> Self {
        let ticks = u64::try_from(since_1970.as_nanos() / 100).unwrap_or(u64::MAX);
        Self { lane, utc: UNIX_EPOCH.saturating_add(ticks) }
    }

    /// Converts wall-clock time to the lane's. Times before the lane's clock began become its beginning.
    #[must_use]
    pub fn lane_time(&self, utc: u64) -> Time {
        match utc.checked_sub(self.utc) {
            Some(ticks) => Time(self.lane.0.saturating_add(ticks.saturating_mul(100))),
            None => Time(self.lane.0.saturating_sub(self.utc.saturating_sub(utc).saturating_mul(100))),
        }
    }

    /// A moment of the lane's clock by the world's.
    #[must_use]
    pub fn utc_time(&self, lane: Time) -> u64 {
        match lane.0.checked_sub(self.lane.0) {
            Some(nanos) => self.utc.saturating_add(nanos / 100),
            None => self.utc.saturating_sub(self.lane.0.saturating_sub(lane.0) / 100),
        }
    }
}

//! What an event says of itself: its type, its name and its quality of service.

use super::skip_properties;
use engine::Time;
use giop::cdr::{ReadError, Reader};
use giop::recode::skip_any;
use giop::typecode::Work;
use std::time::Duration;

/// What of a structured event decides where and when it goes. Texts are in the code set of the event's encoding.
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
    /// `Timeout`: how long after its arrival the event is of use. A `Timeout` of 0 is none.
    pub timeout: Option<Duration>,
    /// `StartTime`: not to be delivered earlier. In 100 ns since 15 October 1582, UTC.
    pub start: Option<u64>,
    /// `StopTime`: not to be delivered later. In 100 ns since 15 October 1582, UTC.
    pub stop: Option<u64>,
    /// Whether one of these four is there with a value that cannot be meant. It counts as absent.
    pub has_wrong_property: bool,
}

/// Reads a structured event to its end, within `work`, and gives its header.
///
/// # Errors
///
/// The body is not one structured event and nothing more (`MARSHAL`), or is too intricate for `work`.
pub fn read_structured<'a>(mut body: Reader<'a>, work: &mut Work) -> Result<Header<'a>, ReadError> {
    let header = read_through(&mut body, work)?;
    body.finish("CosNotification::StructuredEvent")?;
    Ok(header)
}

/// Reads the header of a structured event and nothing behind it.
///
/// # Errors
///
/// The body does not begin like a structured event, or its header is too intricate for `work`.
pub fn read_header<'a>(mut body: Reader<'a>, work: &mut Work) -> Result<Header<'a>, ReadError> {
    header(&mut body, work)
}

/// Moves `body` behind a structured event.
pub(super) fn read_through<'a>(body: &mut Reader<'a>, work: &mut Work) -> Result<Header<'a>, ReadError> {
    let header = header(body, work)?;
    skip_properties(body, work)?;
    skip_any(body, work)?;
    Ok(header)
}

fn header<'a>(body: &mut Reader<'a>, work: &mut Work) -> Result<Header<'a>, ReadError> {
    let header =
        Header { domain: body.string()?, type_name: body.string()?, event_name: body.string()?, ..Header::default() };
    skip_properties(body, work)?;
    Ok(header)
}

/// What time it is on both of the clocks that matter: the lane's, which only goes forward, and the world's, by which
/// suppliers say `StartTime` and `StopTime`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UtcClock {
    /// A moment by the lane's clock.
    pub lane: Time,
    /// The same moment as a `TimeBase::TimeT`: 100 ns since 15 October 1582, UTC.
    pub utc: u64,
}

impl UtcClock {
    /// Where the clocks stand: `lane` by the lane's, `since_1970` after 1 January 1970 by the world's.
    #[must_use]
    pub fn new(lane: Time, since_1970: Duration) -> Self {
        /// From 15 October 1582 to 1 January 1970, in 100 ns.
        const UNIX_EPOCH: u64 = 0x01B2_1DD2_1381_4000;
        let ticks = u64::try_from(since_1970.as_nanos() / 100).unwrap_or(u64::MAX);
        Self { lane, utc: UNIX_EPOCH.saturating_add(ticks) }
    }

    /// A moment of the world's clock by the lane's. What is before the lane's clock began is its beginning.
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

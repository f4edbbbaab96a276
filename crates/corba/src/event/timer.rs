//! Events of timers, which the service itself publishes.

use super::tag_at;
use engine::{TIMER_DOMAIN, TIMER_TYPE};
use giop::cdr::{CharSet, Encoding, Endian, Version, Writer};
use giop::typecode::Kind;

/// The contents of a timer's event.
#[derive(Clone, Copy, Debug)]
pub struct TimerEvent<'t> {
    /// The timer's name: the event's name.
    pub name: &'t str,
    /// Kind of the timer.
    pub kind: &'t str,
    /// Number of events that the timer has published, this one included.
    pub count: u64,
    /// Number of intervals that the timer has passed over.
    pub missed: u64,
    /// Property `Priority` of the variable header.
    pub priority: Option<i16>,
}

/// Encoding of timers' events.
const ENCODING: Encoding = Encoding { endian: Endian::NATIVE, version: Version::V1_2, chars: CharSet::Utf8 };

/// Writes a timer's event as a structured event, with `kind`, `count` and `missed` as its filterable data. Returns its tag. `out` is empty.
pub fn write_timer_event(event: &TimerEvent<'_>, out: &mut Vec<u8>) -> u64 {
    let TimerEvent { name, kind, count, missed, priority } = *event;
    let mut writer = Writer::new(out, ENCODING);
    [TIMER_DOMAIN, TIMER_TYPE, name].into_iter().for_each(|text| writer.string(text));
    writer.length(priority.iter().count());
    if let Some(priority) = priority {
        writer.string("Priority");
        writer.u32(Kind::Short.number());
        writer.i16(priority);
    }
    writer.length(3);
    writer.string("kind");
    writer.u32(Kind::String.number());
    writer.u32(0);
    writer.string(kind);
    for (field, value) in [("count", count), ("missed", missed)] {
        writer.string(field);
        writer.u32(Kind::ULongLong.number());
        writer.u64(value);
    }
    writer.u32(Kind::Null.number());
    tag_at(ENCODING, 0, false)
}

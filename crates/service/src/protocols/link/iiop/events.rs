//! Conversion of events: between the frame of the link protocol and properties in the event's header.

use client::notify::{Property, StructuredEvent};
use corba::event;
use giop::cdr::Writer;
use giop::value::Value;
use links::hops::onward;
use links::{Hops, Origin, wire};

use crate::protocols::tempo::types::ENCODING;

/// The variable header's property that identifies an event: its origin, and the services that it passed through.
pub(super) const ORIGIN: &str = "CampanileOrigin";
/// Maximum octets of the property's text.
const ORIGIN_BYTES_MAX: usize = 256;

/// Formats an origin: `SERVICE.ERA.NUMBER`, and the services that the event passed through, in hexadecimal digits.
fn text_of(origin: Origin, hops: &[u64]) -> String {
    let Origin { service, era, number } = origin;
    let all = [service, era, number];
    let parts = all.iter().chain(hops).map(|part| format!("{part:x}"));
    parts.collect::<Vec<_>>().join(".")
}

/// Parses an origin's text, which another service may have written.
fn origin_of(text: &str) -> Option<(Origin, Hops)> {
    if text.len() > ORIGIN_BYTES_MAX {
        return None;
    }
    let parts = text.split('.').map(|part| u64::from_str_radix(part, 16).ok());
    let parts: Vec<u64> = parts.collect::<Option<_>>()?;
    let (&[service, era, number], hops) = parts.split_first_chunk()?;
    (service != 0 && number != 0).then_some((Origin { service, era, number }, Hops::new(hops)?))
}

/// The origin in an event's header.
fn said(header: &[Property]) -> Option<(Origin, Hops)> {
    match &header.iter().find(|property| property.name == ORIGIN)?.value.value {
        Value::String(text) => origin_of(text),
        _ => None,
    }
}

/// Converts an event of the lane for the far service. `own` is the sending service.
///
/// # Errors
/// The reason why the event cannot be sent.
pub(super) fn outgoing(sent: &wire::Event<'_>, own: u64) -> Result<StructuredEvent, String> {
    let mut event =
        StructuredEvent::read(&mut event::reader(sent.bytes, sent.tag)).map_err(|error| error.to_string())?;
    let header = &mut event.variable_header;
    let (mut origin, mut hops) = (sent.origin, sent.hops);
    if let Some((first, through)) = said(header).filter(|(first, _)| *first != sent.origin) {
        // The event was published here by a client, or by another service's link.
        if first.service == own || through.as_slice().contains(&own) {
            return Err(
                "it was sent by this service before: two links, or a gateway beside one, go in a circle".to_owned()
            );
        }
        hops = onward(first.service, through.as_slice(), own).ok_or("it has come through 8 services")?;
        origin = first;
    }
    header.retain(|property| property.name != ORIGIN);
    let has = |header: &[Property], name: &str| header.iter().any(|property| property.name == name);
    if let Some(priority) = sent.priority.filter(|priority| *priority != 0 && !has(header, "Priority")) {
        header.push(Property::new("Priority", priority));
    }
    if sent.is_persistent && !has(header, "EventReliability") {
        header.push(Property::new("EventReliability", 1_i16));
    }
    if let Some(timeout_ns) = sent.timeout_ns {
        // The lifetime is reduced by the event's age.
        let left = timeout_ns.saturating_sub(sent.age_ns) / 100;
        header.retain(|property| property.name != "Timeout");
        header.push(Property::new("Timeout", left.max(1)));
    }
    header.push(Property::new(ORIGIN, text_of(origin, hops.as_slice())));
    Ok(event)
}

/// An event of the far service, converted for the lane.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) origin: Origin,
    pub(super) hops: Hops,
    is_persistent: bool,
    timeout_ns: Option<u64>,
    bytes: Vec<u8>,
}

impl Incoming {
    /// Converts an event. `service` stands for the far service; `unknown` is the origin of an event without the property.
    ///
    /// # Errors
    /// The reason why the event cannot be taken. `None` if it has passed through the maximum of services.
    pub(super) fn new(mut event: StructuredEvent, service: u64, unknown: Origin) -> Result<Self, Option<String>> {
        let value = |name: &str| event.variable_header.iter().find(|of| of.name == name).map(|of| &of.value.value);
        let (origin, hops) = match said(&event.variable_header) {
            Some((origin, hops)) => (origin, onward(origin.service, hops.as_slice(), service).ok_or(None)?),
            None => (unknown, Hops::default()),
        };
        let is_persistent = matches!(value("EventReliability"), Some(Value::Short(1)));
        let timeout_ns = match value("Timeout") {
            // In 100 ns; 0 means no limit.
            Some(Value::ULongLong(timeout)) if *timeout > 0 => Some(timeout.saturating_mul(100)),
            _ => None,
        };
        // The property stays, so that events do not go in circles unknown to the links.
        event.variable_header.retain(|property| property.name != ORIGIN);
        event.variable_header.push(Property::new(ORIGIN, text_of(origin, hops.as_slice())));
        let mut bytes = Vec::new();
        event.write(&mut Writer::new(&mut bytes, ENCODING)).map_err(|error| Some(error.to_string()))?;
        Ok(Self { origin, hops, is_persistent, timeout_ns, bytes })
    }

    pub(super) fn frame(&self, flow: u32, sequence: u64) -> wire::Event<'_> {
        let Self { origin, hops, is_persistent, timeout_ns, bytes } = self;
        wire::Event {
            flow,
            sequence,
            origin: *origin,
            hops: *hops,
            is_persistent: *is_persistent,
            form: u32::from(event::FORM_STRUCTURED.0),
            tag: event::tag_at(ENCODING, 0, false),
            priority: None,
            thread_priority: None,
            timeout_ns: *timeout_ns,
            start: None,
            stop: None,
            age_ns: 0,
            domain: &[],
            name: &[],
            bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: u64 = 0xfa;
    const UNKNOWN: Origin = Origin { service: FAR, era: 5, number: 1 };

    #[test]
    fn an_origin_survives_the_header_and_a_text_that_is_none_is_not_taken_for_one() {
        let origin = Origin { service: u64::MAX, era: 0, number: 17 };
        for hops in [&[][..], &[1, 2], &[u64::MAX; 8]] {
            let (read, through) = origin_of(&text_of(origin, hops)).unwrap();
            assert_eq!((read, through.as_slice()), (origin, hops));
        }
        let long = text_of(origin, &[1; 9]);
        for wrong in ["", ".", "1.2", "0.1.1", "1.1.0", "1.2.x", "1.2.10000000000000000", &long, &"1.".repeat(500)] {
            assert_eq!(origin_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_went_out_comes_back_with_its_origin() {
        let event = StructuredEvent::new("Weather", "Wind", "mast");
        let own = Origin { service: 7, era: 8, number: 9 };
        let plain = Incoming::new(event.clone(), FAR, own).unwrap();
        assert_eq!((plain.origin, plain.hops.as_slice(), plain.is_persistent), (own, &[][..], false));
        let sent = wire::Event { is_persistent: true, priority: Some(3), timeout_ns: Some(900), ..plain.frame(1, 1) };
        let out = outgoing(&sent, own.service).unwrap();
        let names: Vec<&str> = out.variable_header.iter().map(|property| property.name.as_str()).collect();
        assert_eq!(names, ["Priority", "EventReliability", "Timeout", ORIGIN]);
        let back = Incoming::new(out, FAR, UNKNOWN).unwrap();
        assert_eq!((back.origin, back.hops.as_slice()), (own, &[FAR][..]));
        assert_eq!((back.is_persistent, back.timeout_ns), (true, Some(900)));
        let bare = StructuredEvent::read(&mut event::reader(&back.bytes, event::tag_at(ENCODING, 0, false))).unwrap();
        assert_eq!(bare.variable_header.len(), 4);
        assert_eq!(bare.filterable_data, event.filterable_data);
    }

    /// Two services that link to each other as to notification services sent each event round for ever.
    #[test]
    fn what_a_client_publishes_with_an_origin_keeps_it_and_ends_where_it_was() {
        let mut event = StructuredEvent::new("Weather", "Wind", "mast");
        let first = Origin { service: 7, era: 8, number: 9 };
        event.variable_header.push(Property::new(ORIGIN, text_of(first, &[4])));
        let mut bytes = Vec::new();
        event.write(&mut Writer::new(&mut bytes, ENCODING)).unwrap();
        let plain = Incoming::new(StructuredEvent::new("", "", ""), FAR, UNKNOWN).unwrap();
        let admitted = Origin { service: 2, era: 1, number: 1 };
        let sent = wire::Event { bytes: &bytes, origin: admitted, ..plain.frame(1, 1) };
        let out = outgoing(&sent, 2).unwrap();
        let (origin, hops) = said(&out.variable_header).unwrap();
        assert_eq!((origin, hops.as_slice()), (first, &[4, 2][..]));
        for own in [7, 4] {
            let sent = wire::Event { origin: Origin { service: own, ..admitted }, ..sent };
            assert!(outgoing(&sent, own).unwrap_err().contains("circle"));
        }
    }

    #[test]
    fn an_event_that_crossed_eight_services_goes_no_further() {
        let mut event = StructuredEvent::new("Weather", "Wind", "mast");
        let origin = Origin { service: 7, era: 8, number: 9 };
        event.variable_header.push(Property::new(ORIGIN, text_of(origin, &[1, 2, 3, 4, 5, 6, 7, 8])));
        assert!(matches!(Incoming::new(event, FAR, UNKNOWN), Err(None)));
    }
}

//! The observatory of the demo: four suppliers, a slow consumer, and one with a filter, on the default channel.
//!
//! Its events follow a fixed schedule, independent of other clients.

use client::notify::{EventType, Property, StructuredEvent, find_channel};
use client::{ConsumerOptions, InvokeError, Orb, OrbOptions, SimpleConsumer, SimpleSupplier, SupplierOptions};
use giop::value::{AnyValue, Value};
use std::f64::consts::TAU;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The names of the suppliers.
pub(super) const SUPPLIERS: [&str; 4] = ["mount", "weather", "dome", "camera"];
const MOUNT: usize = 0;
const WEATHER: usize = 1;
const DOME: usize = 2;
const CAMERA: usize = 3;
/// Constraint of the consumer `alarms`, for events of the types `*/Alarm`.
pub(super) const ALARMS: &str = "$severity >= 2";

/// Weather stations: the key of the events.
const STATIONS: [&str; 2] = ["north", "south"];
/// Interval of the schedule.
const TICK: Duration = Duration::from_millis(100);
/// Time that the consumer `archive` takes for an event: about twice the interval of events.
const ARCHIVE_TAKES: Duration = Duration::from_millis(250);
/// Maximum events that wait for it; beyond it the oldest are dropped.
const ARCHIVE_EVENTS_MAX: i32 = 500;
/// Events that the channel stores, for `campanile sub --last`.
const HISTORY_EVENTS: u64 = 10_000;

/// The running observatory. Dropping it ends it.
pub(super) struct Observatory {
    over: Arc<Over>,
    suppliers: Option<JoinHandle<()>>,
    _consumers: [SimpleConsumer; 2],
}

/// End of the observatory, as a condition to wait for.
#[derive(Default)]
struct Over {
    is_over: Mutex<bool>,
    changed: Condvar,
}

impl Over {
    /// Waits for the end, for `time` at most. Returns whether the end has come.
    fn within(&self, time: Duration) -> bool {
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        *self.changed.wait_timeout_while(is_over, time, |is_over| !*is_over).unwrap_or_else(PoisonError::into_inner).0
    }

    fn end(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }
}

impl Observatory {
    /// Connects all clients to the service at an address. `alarm` is called with the station and the text of each alarm.
    pub(super) fn open(address: &str, alarm: impl Fn(&str, &str) + Send + 'static) -> Result<Self, InvokeError> {
        let service = Orb::new(OrbOptions::default()).resolve_service(address)?;
        find_channel(&service, None)?.0.set_qos(&[Property::new("HistoryEvents", HISTORY_EVENTS)])?;
        let over = Arc::new(Over::default());
        let busy = Arc::clone(&over);
        let archive = ConsumerOptions {
            name: Some("archive".to_owned()),
            qos: vec![
                Property::new("FullOutbox", "Discard"),
                Property::new("MaxEventsPerConsumer", ARCHIVE_EVENTS_MAX),
                Property::new("DiscardPolicy", FIFO_ORDER),
            ],
            best_effort: true,
            ..ConsumerOptions::default()
        };
        let archive = SimpleConsumer::connect(address, None, archive, move |_| {
            busy.within(ARCHIVE_TAKES);
            Ok(())
        })?;
        let alarms = ConsumerOptions {
            name: Some("alarms".to_owned()),
            types: vec![EventType::new("*", "Alarm")],
            constraint: Some(ALARMS.to_owned()),
            best_effort: true,
            ..ConsumerOptions::default()
        };
        let alarms = SimpleConsumer::connect(address, None, alarms, move |received| {
            if let Ok(event) = received.event()
                && let Some(Value::String(text)) = event.field("text")
            {
                alarm(&event.event_name, text);
            }
            Ok(())
        })?;
        let connect = |name: &str| {
            let options = SupplierOptions { name: Some(name.to_owned()), ..SupplierOptions::default() };
            SimpleSupplier::connect_with(address, None, options)
        };
        let suppliers = SUPPLIERS.iter().map(|name| connect(name)).collect::<Result<Vec<_>, _>>()?;
        let until = Arc::clone(&over);
        let supply = move || {
            for tick in 0_u32.. {
                for (supplier, event) in events_of(tick) {
                    // A disconnected supplier connects anew; a refused event is not sent again.
                    let _ = suppliers.get(supplier).map(|supplier| supplier.publish(&event));
                }
                if until.within(TICK) {
                    return;
                }
            }
        };
        let suppliers = thread::Builder::new().name("observatory".to_owned()).spawn(supply);
        let suppliers = suppliers.map_err(|error| InvokeError::Listen { address: address.to_owned(), error })?;
        Ok(Self { over, suppliers: Some(suppliers), _consumers: [archive, alarms] })
    }
}

impl Drop for Observatory {
    fn drop(&mut self) {
        self.over.end();
        let _ = self.suppliers.take().map(JoinHandle::join);
    }
}

/// `CosNotification::FifoOrder`.
const FIFO_ORDER: i16 = 1;

/// The events of a tick, each with the number of its supplier.
fn events_of(tick: u32) -> Vec<(usize, StructuredEvent)> {
    let seconds = f64::from(tick) / 10.0;
    let azimuth = round(141.0 + seconds / 8.0 % 219.0);
    let wind = round(9.0 + 6.5 * (seconds / 30.0 * TAU).sin() + (seconds / 1.7).sin() / 2.0);
    let mut events = Vec::new();
    let mut add = |supplier, domain: &str, of: &str, name: &str, fields: &[(&str, AnyValue)]| {
        let mut event = StructuredEvent::new(domain, of, name);
        let fields = fields.iter().map(|(name, value)| Property { name: (*name).to_owned(), value: value.clone() });
        event.filterable_data.extend(fields);
        events.push((supplier, event));
    };
    if tick.is_multiple_of(2) {
        let elevation = round(54.0 + 8.0 * (seconds / 600.0 * TAU).sin());
        let fields = [("azimuth", azimuth.into()), ("elevation", elevation.into()), ("tracking", true.into())];
        add(MOUNT, "Telescope", "Pointing", "M31", &fields);
    }
    if tick.is_multiple_of(5) {
        let station = STATIONS.get(usize::from(tick % 10 == 5)).copied().unwrap_or_default();
        let celsius = round(11.5 - 2.0 * (seconds / 300.0 * TAU).sin() + f64::from(tick % 10) / 10.0);
        let fields = [("station", station.into()), ("celsius", celsius.into()), ("wind_speed", wind.into())];
        add(WEATHER, "Weather", "Conditions", station, &fields);
    }
    if tick % 10 == 3 {
        add(DOME, "Dome", "Position", "", &[("azimuth", azimuth.into()), ("shutter", "open".into())]);
    }
    if tick % 20 == 7 {
        let fields = [("frame", (tick / 20 + 1).into()), ("exposure_s", 2.0.into()), ("band", "R".into())];
        add(CAMERA, "Camera", "Exposure", "M31", &fields);
    }
    // A gust, twice a minute; and what the filter of `alarms` leaves out.
    if tick % 300 == 75 {
        let text = format!("wind {wind} m/s, the dome is turned away");
        let fields = [("severity", 3.into()), ("wind_speed", wind.into()), ("text", text.as_str().into())];
        add(WEATHER, "Weather", "Alarm", "north", &fields);
    }
    if tick % 300 == 150 {
        add(CAMERA, "Camera", "Alarm", "", &[("severity", 1.into()), ("text", "the disk is 80 % full".into())]);
    }
    events
}

/// Rounds to two digits, as instruments do.
fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_supplier_has_events_within_two_seconds_and_an_alarm_comes_within_ten() {
        let events: Vec<_> = (0..100).flat_map(events_of).collect();
        let of = |supplier| events.iter().filter(|(by, _)| *by == supplier).count();
        assert_eq!([MOUNT, WEATHER, DOME, CAMERA].map(of), [50, 21, 10, 5]);
        let alarm = events.iter().map(|(_, event)| event).find(|event| event.type_name == "Alarm").unwrap();
        assert!(matches!(alarm.field("wind_speed"), Some(Value::Double(wind)) if *wind > 14.0), "{alarm:?}");
        // Longer than `archive` takes for as many.
        assert!(ARCHIVE_TAKES * 86 > Duration::from_secs(20));
    }
}

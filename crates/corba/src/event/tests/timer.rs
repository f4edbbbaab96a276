//! Events of timers.

use crate::event::{TimerEvent, read_structured, reader, work_for, write_timer_event};
use client::notify::StructuredEvent;
use giop::value::Value;

#[test]
fn a_timers_event_is_read_as_the_structured_event_that_it_is() {
    for priority in [None, Some(-7)] {
        for name in ["t", "tick", "Überwachung"] {
            let timer = TimerEvent { name, kind: "every", count: u64::MAX, missed: 3, priority };
            let mut bytes = Vec::new();
            let tag = write_timer_event(&timer, &mut bytes);
            let event = StructuredEvent::read(&mut reader(&bytes, tag)).unwrap();
            assert_eq!((event.event_type().to_string(), event.event_name.as_str()), ("Campanile/Timer".into(), name));
            assert_eq!(event.field("kind"), Some(&Value::String("every".into())));
            assert_eq!(event.field("count"), Some(&Value::ULongLong(u64::MAX)));
            assert_eq!(event.field("missed"), Some(&Value::ULongLong(3)));
            let header = read_structured(reader(&bytes, tag), &mut work_for(bytes.len())).unwrap();
            assert_eq!((header.priority, header.event_name), (priority, name.as_bytes()));
            assert!(!header.has_wrong_property && !header.is_loose);
        }
    }
}

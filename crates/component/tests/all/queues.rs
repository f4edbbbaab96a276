//! Queues of sinks, filters, and circles that have a queue.

use crate::parts::{Frame, note, noted};
use campanile::Event;
use campanile_component::{
    Error, Failure, PortSettings, Ports, QueueSettings, SendError, SendOptions, Server, Sink, Source, Tick, Timer,
    component,
};
use std::time::Duration;
use toml::toml;

const TENTH: Duration = Duration::from_millis(100);

/// Sends at each tick so many frames, with priorities and timeouts that follow from their numbers.
#[component]
struct Burst {
    #[timer("100ms")]
    tick: Timer,
    #[source]
    frame: Source<Frame>,
    frames: Vec<u64>,
}

impl Burst {
    fn on_tick(&mut self, _: &Tick, _: &Ports) {
        for number in &self.frames {
            let priority = i16::try_from(number % 10).unwrap();
            let timeout = Some(TENTH * u32::try_from(20 - number % 10).unwrap());
            let sent =
                self.frame.send_with(&Frame { number: *number, brightness: 0.0 }, SendOptions { priority, timeout });
            if sent == Err(SendError::Full) {
                note(format!("full at {number}"));
            }
        }
    }
}

#[component]
struct Taker {
    #[sink]
    frame: Sink<Frame>,
}

impl Taker {
    fn on_frame(&mut self, frame: &Frame, _: &Ports) {
        note(frame.number.to_string());
    }
}

fn settings(text: &str) -> PortSettings {
    toml::from_str(text).unwrap()
}

/// What a sink takes of so many frames, sent at once.
fn taken(settings: PortSettings, frames: &[i64]) -> (Vec<String>, campanile_component::PortStatus) {
    let mut server = Server::manual("control");
    let frames = toml::Value::Array(frames.iter().map(|number| toml::Value::Integer(*number)).collect());
    let properties = [("frames".to_owned(), frames)].into_iter().collect();
    server.configure::<Burst>("burst", properties).unwrap();
    server.configure::<Taker>("taker", toml::Table::new()).unwrap();
    server.set_port("taker.frame", settings).unwrap();
    server.connect("burst.frame", "taker.frame").unwrap();
    server.start().unwrap();
    server.advance(TENTH);
    let status = server.port("taker.frame").unwrap();
    (noted(), status)
}

#[test]
fn a_queue_takes_orders_and_discards_as_its_policies_say() {
    for (queue, expected, discarded, rejected) in [
        ("MaxEventsPerConsumer = 8", "3 1 2 14 5", 0, 0),
        ("MaxEventsPerConsumer = 3", "2 14 5", 2, 0),
        ("MaxEventsPerConsumer = 3\nDiscardPolicy = 'Fifo'", "2 14 5", 2, 0),
        ("MaxEventsPerConsumer = 3\nDiscardPolicy = 'Lifo'", "3 1 2", 2, 0),
        ("MaxEventsPerConsumer = 3\nFullOutbox = 'Reject'", "full at 14 full at 5 3 1 2", 0, 2),
        ("MaxEventsPerConsumer = 8\nOrderPolicy = 'Priority'", "5 14 3 2 1", 0, 0),
        ("MaxEventsPerConsumer = 8\nOrderPolicy = 'Deadline'", "5 14 3 2 1", 0, 0),
        // The lane takes none before all five are sent.
        ("MaxEventsPerConsumer = 3\nDiscardPolicy = 'Priority'", "3 14 5", 2, 0),
        ("MaxEventsPerConsumer = 3\nDiscardPolicy = 'Deadline'", "3 1 2", 2, 0),
        ("MaxEventsPerConsumer = 3\nOrderPolicy = 'Priority'\nDiscardPolicy = 'Lifo'", "3 2 1", 2, 0),
        (
            "MaxEventsPerConsumer = 3\nOrderPolicy = 'Priority'\nFullOutbox = 'Reject'",
            "full at 14 full at 5 3 2 1",
            0,
            2,
        ),
    ] {
        let (lines, status) = taken(settings(&format!("[qos]\n{queue}")), &[3, 1, 2, 14, 5]);
        assert_eq!(lines.join(" "), expected, "{queue}");
        assert_eq!((status.discarded, status.rejected), (discarded, rejected), "{queue}");
    }
}

#[test]
fn what_expires_in_a_queue_is_discarded_and_counted() {
    let mut server = Server::manual("control");
    server.configure::<Burst>("burst", toml! { frames = [9, 1, 1] }).unwrap();
    server.configure::<Taker>("taker", toml::Table::new()).unwrap();
    server.set_port("taker.frame", settings("[qos]")).unwrap();
    server.connect("burst.frame", "taker.frame").unwrap();
    server.complete("burst").unwrap();
    server.activate("burst").unwrap();
    server.advance(TENTH);
    server.passivate("burst").unwrap();
    server.advance(TENTH * 15);
    assert_eq!(noted(), [""; 0], "events wait for an instance that is not active");
    server.complete("taker").unwrap();
    server.activate("taker").unwrap();
    server.advance(TENTH);
    assert_eq!(noted(), ["1", "1"]);
    assert_eq!(server.port("taker.frame").map(|port| (port.expired, port.delivered)), Some((1, 2)));
}

#[test]
fn settings_that_cannot_be_are_refused_with_what_to_do() {
    #[derive(Event)]
    struct Uncopied {
        x: f64,
    }

    #[component]
    struct Odd {
        #[sink]
        uncopied: Sink<Uncopied>,
    }

    impl Odd {
        fn on_uncopied(&mut self, _: &Uncopied, _: &Ports) {}
    }

    let mut server = Server::manual("control");
    server.configure::<Taker>("taker", toml::Table::new()).unwrap();
    server.configure::<Burst>("burst", toml! { frames = [] }).unwrap();
    server.configure::<Odd>("odd", toml::Table::new()).unwrap();
    for (port, text, expected) in [
        ("taker.frame", "[qos]\nMaxEventsPerConsumer = 0", "taker.frame: MaxEventsPerConsumer is 0: give 1 to 65536"),
        (
            "taker.frame",
            "[qos]\nMaxEventsPerConsumer = 1025\nOrderPolicy = 'Priority'",
            "taker.frame: MaxEventsPerConsumer is 1025: give 1 to 1024",
        ),
        (
            "taker.frame",
            "[qos]\nFullOutbox = 'Hold'",
            "taker.frame: FullOutbox is Hold, and no component waits: give Discard or Reject",
        ),
        ("taker.frame", "when = '$number >'", "taker.frame: "),
        ("taker.frame", "when = '$nummer > 1'", "no event has nummer; Frame has number, brightness"),
        ("odd.uncopied", "[qos]", "is not Clone and Send: derive Clone"),
        ("burst.frame", "", "burst.frame is a source, and here a sink is needed"),
    ] {
        let refusal = server.set_port(port, settings(text)).unwrap_err().to_string();
        assert!(refusal.contains(expected), "{refusal}");
    }
    let _input = server.input::<Frame>("taker.frame").unwrap();
    let refusal = server.set_port("taker.frame", settings("[qos]")).unwrap_err().to_string();
    assert!(refusal.contains("it has a queue already: give it one once"), "{refusal}");
    server.connect("burst.frame", "taker.frame").unwrap();
    assert!(matches!(server.set_port("taker.frame", settings("when = '$number > 1'")), Err(Error::Port { .. })));
}

#[test]
fn a_filter_lets_through_what_it_matches_of_the_struct_itself() {
    let mut port = settings("when = \"$number >= 2 and $type_name == 'Frame'\"");
    let (lines, status) = taken(port.clone(), &[1, 2, 3, 1]);
    assert_eq!((lines.join(" "), status.filtered, status.delivered), ("2 3".to_owned(), 2, 2));
    port.queue = Some(QueueSettings::default());
    let (lines, status) = taken(port, &[1, 2, 3, 1]);
    assert_eq!((lines.join(" "), status.filtered, status.delivered), ("2 3".to_owned(), 2, 2));
}

/// Sends a frame on, with the next number.
#[component]
struct Loop {
    #[sink]
    frame: Sink<Frame>,
    #[source]
    next: Source<Frame>,
}

impl Loop {
    fn on_frame(&mut self, frame: &Frame, _: &Ports) -> Result<(), Failure> {
        Ok(self.next.send(&Frame { number: frame.number + 1, ..frame.clone() })?)
    }
}

#[test]
fn a_circle_with_a_queue_goes_round_without_end_and_nothing_overflows() {
    let mut server = Server::manual("control");
    server.configure::<Burst>("burst", toml! { frames = [1] }).unwrap();
    for name in ["a", "b"] {
        server.configure::<Loop>(name, toml::Table::new()).unwrap();
    }
    server.set_port("a.frame", settings("[qos]\nMaxEventsPerConsumer = 4")).unwrap();
    server.connect("burst.frame", "a.frame").unwrap();
    server.connect("a.next", "b.frame").unwrap();
    server.connect("b.next", "a.frame").unwrap();
    server.start().unwrap();
    server.advance(TENTH);
    let rounds = server.port("b.frame").map_or(0, |port| port.delivered);
    assert!(rounds > 1_000, "{rounds}");
    server.advance(TENTH * 10);
    let status = server.port("a.frame").unwrap();
    assert!(status.discarded > 0 && status.reentrant == 0, "{status:?}");
    // To itself as well.
    server.configure::<Loop>("c", toml::Table::new()).unwrap();
    server.set_port("c.frame", settings("[qos]")).unwrap();
    server.connect("c.next", "c.frame").unwrap();
}

/// Sends four frames to itself at each frame whose number is 0.
#[component]
struct Echo {
    #[sink]
    frame: Sink<Frame>,
    #[source]
    again: Source<Frame>,
}

impl Echo {
    fn on_frame(&mut self, frame: &Frame, _: &Ports) {
        for number in (1..=4).filter(|_| frame.number == 0) {
            let answer = self.again.send(&Frame { number, brightness: 0.0 });
            note(format!("{number} {answer:?}"));
        }
    }
}

#[test]
fn a_sorted_queue_that_rejects_loses_nothing_that_it_has_accepted() {
    let mut server = Server::manual("control");
    server.configure::<Echo>("echo", toml::Table::new()).unwrap();
    let queue = "[qos]\nMaxEventsPerConsumer = 4\nOrderPolicy = 'Priority'\nFullOutbox = 'Reject'";
    server.set_port("echo.frame", settings(queue)).unwrap();
    server.connect("echo.again", "echo.frame").unwrap();
    let input = server.input::<Frame>("echo.frame").unwrap();
    server.start().unwrap();
    for number in [0, 5, 6, 7] {
        input.send(&Frame { number, brightness: 0.0 }).unwrap();
    }
    server.advance(TENTH);
    assert_eq!(noted(), ["1 Ok(())", "2 Err(Full)", "3 Err(Full)", "4 Err(Full)"], "one place was free");
    let status = server.port("echo.frame").unwrap();
    assert_eq!((status.delivered, status.rejected, status.discarded), (5, 3, 0));
}

#[test]
fn a_timeout_that_the_clock_does_not_have_never_comes() {
    #[component]
    struct Patient {
        #[timer("100ms")]
        tick: Timer,
        #[source]
        frame: Source<Frame>,
    }

    impl Patient {
        fn on_tick(&mut self, _: &Tick, _: &Ports) -> Result<(), SendError> {
            let options = SendOptions { timeout: Some(Duration::MAX), ..SendOptions::default() };
            self.frame.send_with(&Frame { number: 1, brightness: 0.0 }, options)
        }
    }

    let mut server = Server::manual("control");
    server.configure::<Patient>("patient", toml::Table::new()).unwrap();
    server.configure::<Taker>("taker", toml::Table::new()).unwrap();
    server.set_port("taker.frame", settings("[qos]")).unwrap();
    server.connect("patient.frame", "taker.frame").unwrap();
    server.start().unwrap();
    server.advance(TENTH);
    assert_eq!(noted(), ["1"]);
}

#[test]
fn a_program_puts_events_in_and_gets_them_out() {
    let mut server = Server::manual("control");
    server.configure::<Loop>("loop", toml::Table::new()).unwrap();
    let input = server.input::<Frame>("loop.frame").unwrap();
    let (sender, received) = std::sync::mpsc::channel();
    server.output("loop.next", move |frame: &Frame| sender.send(frame.number).unwrap()).unwrap();
    server.output("loop.next", |_: &Frame| panic!("the program panics")).unwrap();
    assert!(server.input::<crate::parts::Offset>("loop.frame").is_err());
    server.start().unwrap();
    std::thread::scope(|scope| {
        for number in [10, 20] {
            let input = input.clone();
            scope.spawn(move || input.send(&Frame { number, brightness: 0.0 }).unwrap());
        }
    });
    server.advance(TENTH);
    let mut numbers: Vec<_> = received.try_iter().collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [11, 21]);
    assert_eq!(server.port("loop.frame").map(|port| (port.delivered, port.failed)), Some((2, 0)));
}

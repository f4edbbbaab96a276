//! The scenarios of `scenarios.md` that are not shown elsewhere, over the transports that there are.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use campanile::raw::{RawConsumer, RawSupplier};
use campanile::{
    Consumer, Declared, Error, ErrorCode, Event, Kind, Next, PublishOptions, Settings, Supplier, Transport, Trouble,
    TypeCode,
};
use service::{Config, Service};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use testing::{NextInTime, PATIENCE};

#[derive(Event, Clone, Debug, PartialEq)]
struct Place {
    x: f64,
    note: Option<String>,
}

#[derive(Event, Clone, Debug, PartialEq)]
struct Wind {
    speed: f64,
    station: String,
    history: Vec<Place>,
    raw: Vec<u8>,
    least: i64,
    most: u64,
}

mod further {
    #[derive(campanile::Event, Clone, Debug, PartialEq)]
    pub(crate) struct Wind {
        pub(crate) speed: f64,
        pub(crate) humidity: i32,
    }
}

fn wind(speed: f64) -> Wind {
    Wind { speed, station: String::new(), history: Vec::new(), raw: Vec::new(), least: i64::MIN, most: u64::MAX }
}

/// What carries events in one run of a scenario.
struct Stage {
    settings: Settings,
    service: Option<Service>,
}

/// A service of its own, and a DDS domain of its own if there is DDS.
fn stages() -> Vec<Stage> {
    let listen = format!("{}:0", testing::own_loopback());
    let service = Service::start(Config { listen, ..Config::default() }).unwrap();
    let settings = Settings { server: service.address().to_string(), ..Settings::default() };
    let mut stages = vec![Stage { settings: settings.clone(), service: Some(service) }];
    if cfg!(feature = "dds") {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let mut settings = Settings { transport: Transport::Dds, ..settings };
        // Cyclone has domains 0 to 232; those of another run may be there, too.
        let own = u16::try_from(std::process::id() % 10).unwrap() * 20;
        settings.dds.domain_default = 20 + own + NEXT.fetch_add(1, Ordering::Relaxed) % 20;
        settings.dds.interface = Some("127.0.0.1".into());
        settings.dds.peers = vec!["127.0.0.1".into()];
        stages.push(Stage { settings, service: None });
    }
    stages
}

#[test]
fn slow_consumer() {
    for Stage { settings, service: _service } in stages() {
        let (tell, told) = channel();
        let (sender, slow) = channel();
        let (resume, resumed) = channel::<()>();
        let (begins, begun) = channel();
        let mut is_first = true;
        let consumer = Consumer::new("Slow").settings(settings.clone()).slow_after(Duration::from_millis(1));
        let consumer = consumer.on_trouble(move |trouble: &Trouble| drop(tell.send(trouble.clone())));
        let _slow = consumer
            .on(move |wind: Wind| {
                if core::mem::take(&mut is_first) {
                    begins.send(Instant::now()).unwrap();
                    let _ = resumed.recv();
                }
                sender.send(wind.speed).unwrap();
            })
            .unwrap()
            .ready()
            .unwrap();
        let mut quick = Consumer::new("Slow").settings(settings.clone()).events::<Wind>().unwrap();
        let supplier = Supplier::with("Slow", &settings).unwrap();
        for number in 0..300_u16 {
            supplier.publish(&wind(number.into())).unwrap();
        }
        for number in 0..300_u16 {
            assert_eq!(quick.next().unwrap(), wind(number.into()), "it waits for no other");
        }
        let begun: Instant = begun.next_in_time();
        testing::wait_until("more than it may take", || begun.elapsed() > Duration::from_millis(2));
        resume.send(()).unwrap();
        for number in 0..300_u16 {
            assert_eq!(slow.next_in_time().to_bits(), f64::from(number).to_bits());
        }
        assert!(matches!(told.next_in_time(), Trouble::Slow { .. }));
    }
}

#[test]
fn callback_publishes() {
    for Stage { settings, service: _service } in stages() {
        let onward = Arc::new(Supplier::with("Onward", &settings).unwrap());
        let mut there = Consumer::new("Onward").settings(settings.clone()).events::<Wind>().unwrap();
        let consumer = Consumer::new("Here").settings(settings.clone());
        let _consumer = consumer.on(move |wind: Wind| onward.publish(&wind).unwrap()).unwrap().ready().unwrap();
        Supplier::with("Here", &settings).unwrap().publish(&wind(1.0)).unwrap();
        assert_eq!(there.next().unwrap(), wind(1.0));
    }
}

#[test]
fn missing() {
    for Stage { settings, service: _service } in stages() {
        let (tell, told) = channel();
        let consumer = Consumer::new("Weather").settings(settings.clone());
        let consumer = consumer.on_trouble(move |trouble: &Trouble| drop(tell.send(trouble.clone())));
        let _consumer = consumer.on(|_: further::Wind| panic!("it is not all there")).unwrap().ready().unwrap();
        let supplier = Supplier::with("Weather", &settings).unwrap();
        testing::wait_until("the mismatch", || {
            supplier.publish(&wind(1.0)).unwrap();
            matches!(told.try_recv(), Ok(Trouble::Mismatch(mismatch)) if mismatch.path == "humidity")
        });
    }
}

#[test]
fn unicode_and_values() {
    for Stage { settings, service: _service } in stages() {
        let mut events = Consumer::new("Weather").settings(settings.clone()).events::<Wind>().unwrap();
        let supplier = Supplier::with("Weather", &settings).unwrap();
        for speed in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::MIN, f64::MIN_POSITIVE] {
            let event = Wind { station: "Überlingen 塔 🌬".into(), ..wind(speed) };
            supplier.publish(&event).unwrap();
            let came = events.next().unwrap();
            assert_eq!((came.speed.to_bits(), came.station), (event.speed.to_bits(), event.station));
            assert_eq!((came.least, came.most), (i64::MIN, u64::MAX));
        }
        let error = supplier.publish(&Wind { station: "a\0b".into(), ..wind(0.0) }).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Value);
        assert!(matches!(&error, Error::Value { path, .. } if path == "station"), "{error}");
    }
}

#[test]
fn nested_and_large() {
    for Stage { settings, service: _service } in stages() {
        let mut events = Consumer::new("Weather").settings(settings.clone()).events::<Wind>().unwrap();
        let supplier = Supplier::with("Weather", &settings).unwrap();
        let note = |number: u16| number.is_multiple_of(2).then(|| format!("крыша {number}"));
        let history = (0..1000_u16).map(|number| Place { x: number.into(), note: note(number) }).collect();
        let nested = Wind { history, ..wind(1.0) };
        supplier.publish(&nested).unwrap();
        assert_eq!(events.next().unwrap(), nested);
        let large = Wind { raw: (0..16_000_000_u32).map(|number| number.to_le_bytes()[0]).collect(), ..wind(2.0) };
        match supplier.publish(&large) {
            Ok(()) => assert!(events.next().unwrap() == large, "it is not what was sent"),
            Err(error) => assert_eq!(error.code(), ErrorCode::Refused, "{error}"),
        }
        supplier.publish(&wind(3.0)).unwrap();
        assert_eq!(events.next().unwrap(), wind(3.0));
    }
}

/// Over DDS a reader for an undeclared type is made when its writer is seen: late joiners' events are those that tell. There are fewer of
/// them, since each type has a writer and a reader there.
#[test]
fn thousand_types() {
    for Stage { mut settings, service: _service } in stages() {
        let is_dds = settings.transport == Transport::Dds;
        let count = if is_dds { 100_u32 } else { 1000 };
        settings.dds.late_joiners = 1;
        let types: Vec<Declared> = (0..count)
            .map(|number| {
                let name = format!("T{number}");
                let members = [("n", TypeCode::primitive(Kind::ULong))];
                let of = TypeCode::structure(&format!("IDL:{name}:1.0"), &name, &members);
                Declared::new(&of, None, None).unwrap()
            })
            .collect();
        let all = RawConsumer::new("Types").settings(settings.clone()).events(&[], true, 16).unwrap();
        let one = RawConsumer::new("Types").settings(settings.clone()).events(&types[7..8], false, 16).unwrap();
        let supplier = RawSupplier::new("Types", &settings).unwrap();
        let publisher = supplier.publisher(PublishOptions::default()).unwrap();
        for (of, number) in types.iter().zip(0_u32..) {
            publisher.publish(of, &number.to_ne_bytes()).unwrap();
        }
        let mut came = BTreeMap::new();
        while came.len() < types.len() {
            let Next::Event(event) = all.next_within(PATIENCE) else { panic!("{} of {count} came", came.len()) };
            assert!(is_dds || event.name == types[came.len()].name(), "{} is out of order", event.name);
            assert!(came.insert(event.name.clone(), event).is_none(), "one came twice");
        }
        for (of, number) in types.iter().zip(0_u32..) {
            let event = &came[of.name()];
            assert_eq!(event.cdr, number.to_ne_bytes());
            assert_eq!(event.type_code.to_string(), of.type_code().to_string());
        }
        let Next::Event(came) = one.next_within(PATIENCE) else { panic!("none of its type") };
        assert_eq!(came.cdr, 7_u32.to_ne_bytes());
        assert_eq!(publisher.close().confirmed, u64::from(count));
        assert_eq!(one.next_within(Duration::ZERO), Next::Late);
    }
}

#[test]
fn exit() {
    for Stage { settings, service } in stages() {
        let supplier = Supplier::with("Exit", &settings).unwrap();
        let publish = || {
            let publisher = supplier.publisher(PublishOptions::default()).unwrap();
            (0..1000_u16).for_each(|number| _ = publisher.publish(&wind(number.into())).unwrap());
            publisher
        };
        let counters = publish().close();
        assert_eq!((counters.published, counters.confirmed), (1000, 1000));
        let Some(service) = service else { continue };
        // And with a service that goes meanwhile: what is not known is reported.
        let publisher = publish();
        drop(service);
        let counters = publisher.close_within(PATIENCE).unwrap();
        assert_eq!(counters.published, 1000);
        assert_eq!(counters.outstanding(), 0, "{counters:?}");
    }
}

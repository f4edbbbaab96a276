//! The same programs over DDS.

#![cfg(feature = "dds")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use campanile::raw::{RawConsumer, RawSupplier};
use campanile::{
    Consumer, Declared, Dynamic, Event, Kind, Next, PublishOptions, Settings, Supplier, Transport, Trouble, TypeCode,
    Value,
};
use dds::{Options, Participant, Qos};
use giop::cdr::{CharSet, Encoding, Endian, Writer};
use std::cell::Cell;
use std::sync::mpsc::channel;
use std::time::Duration;
use testing::{NextInTime, PATIENCE, wait_until};

#[derive(Event, Clone, Debug, PartialEq)]
struct Wind {
    speed: f64,
    station: String,
    gusts: Vec<f32>,
}

mod narrow {
    #[derive(campanile::Event, Clone, Debug, PartialEq)]
    pub(crate) struct Wind {
        pub(crate) station: String,
    }
}

mod wrong {
    #[derive(campanile::Event, Clone, Debug, PartialEq)]
    pub(crate) struct Wind {
        pub(crate) speed: String,
    }
}

#[derive(Event, Clone, Debug, PartialEq)]
struct Rain {
    mm: u32,
}

/// A domain of each test's own, on this machine alone.
fn settings(test: u16) -> Settings {
    let mut settings = Settings { transport: Transport::Dds, ..Settings::default() };
    settings.dds.domain_default = 1 + test + u16::try_from(std::process::id() % 20).unwrap() * 10;
    settings.dds.interface = Some("127.0.0.1".into());
    settings.dds.peers = vec!["127.0.0.1".into()];
    settings
}

fn wind(speed: f64) -> Wind {
    Wind { speed, station: "Überlingen 塔".into(), gusts: vec![1.5, f32::INFINITY] }
}

#[test]
fn events_come_from_the_first_on_and_filters_and_dictionaries_are_as_with_a_service() {
    let settings = settings(0);
    let ((sender, winds), (other, others)) = (channel(), channel());
    let consumer = Consumer::new("Weather").settings(settings.clone()).filter("exist $mm or $speed > 10");
    let consumer = consumer.on(move |wind: Wind| drop(sender.send(wind))).unwrap();
    let _consumer = consumer.on_any(move |event: Dynamic| drop(other.send(event))).ready().unwrap();
    let elsewhere = Consumer::new("Elsewhere").settings(settings.clone()).events::<Wind>().unwrap();
    let supplier = Supplier::with("Weather", &settings).unwrap();
    for speed in [11.0, 9.0, 12.0] {
        supplier.publish(&wind(speed)).unwrap();
    }
    assert_eq!([winds.next_in_time(), winds.next_in_time()], [wind(11.0), wind(12.0)]);
    // Of an undeclared type, a reader is made when its writer is seen.
    wait_until("the rain as a dictionary", || {
        supplier.publish(&Rain { mm: 7 }).unwrap();
        others.try_recv().is_ok_and(|event: Dynamic| {
            assert_eq!((event.name.as_str(), event.get("mm")), ("Rain", Some(&Value::ULong(7))));
            true
        })
    });
    assert_eq!(elsewhere.next_within(Duration::ZERO), Next::Late, "another channel is another partition");
    let refused = Consumer::new("Weather").settings(settings).filter("$speed >").events::<Wind>().unwrap_err();
    assert!(matches!(refused, campanile::Error::Filter { .. }), "{refused}");
}

#[test]
fn another_type_of_the_topic_is_projected_or_reported() {
    let settings = settings(1);
    let (tell, told) = channel();
    let supplier = Supplier::with("Weather", &settings).unwrap();
    let (sender, winds) = channel();
    let consumer = Consumer::new("Weather").settings(settings.clone());
    let _narrow = consumer.on(move |wind: narrow::Wind| drop(sender.send(wind))).unwrap().ready().unwrap();
    let consumer = Consumer::new("Weather").settings(settings.clone());
    let consumer = consumer.on_trouble(move |trouble: &Trouble| drop(tell.send(trouble.clone())));
    let _wrong = consumer.on(|_: wrong::Wind| panic!("it cannot be taken for one")).unwrap().ready().unwrap();
    wait_until("a projected event", || {
        supplier.publish(&wind(1.0)).unwrap();
        winds.try_recv().is_ok_and(|wind| wind == narrow::Wind { station: "Überlingen 塔".into() })
    });
    wait_until("the mismatch", || {
        supplier.publish(&wind(1.0)).unwrap();
        told.try_recv().is_ok_and(|trouble| matches!(trouble, Trouble::Mismatch(mismatch) if mismatch.path == "speed"))
    });
}

#[test]
fn a_publisher_that_outruns_its_reader_waits_and_nothing_is_lost() {
    let settings = settings(2);
    let wind = Declared::new(Wind::event_type(), None, None).unwrap();
    let events =
        RawConsumer::new("Many").settings(settings.clone()).events(std::slice::from_ref(&wind), false, 4).unwrap();
    let supplier = Supplier::with("Many", &settings).unwrap();
    let event = |number: u16| Wind { speed: number.into(), station: "x".repeat(4000), gusts: Vec::new() };
    std::thread::scope(|scope| {
        let publishing = scope.spawn(|| {
            let publisher = supplier.publisher(PublishOptions::default()).unwrap();
            for number in 0..5000 {
                publisher.publish(&event(number)).unwrap();
            }
            publisher.close()
        });
        for number in 0..5000_u16 {
            let Next::Event(came) = events.next_within(PATIENCE) else { panic!("no event {number}") };
            let speed = f64::from_ne_bytes(came.cdr[..8].try_into().unwrap());
            assert!((speed - f64::from(number)).abs() < 0.5, "{speed} where {number} is due");
        }
        let counters = publishing.join().unwrap();
        assert_eq!((counters.published, counters.confirmed), (5000, 5000));
    });
    let raw = RawSupplier::new("Many", &settings).unwrap();
    let told = raw.publish(&wind, &[0; 3]).unwrap_err();
    assert!(matches!(told, campanile::Error::Value { .. }), "{told}");
}

/// Once a reader that was alive and took nothing held its publishers, and with them all other readers, for as long as it lived.
#[test]
fn a_reader_that_takes_nothing_is_given_up_and_comes_back_when_it_takes_again() {
    let mut settings = settings(4);
    settings.dds.writer_bytes_max = 16 << 10;
    settings.dds.slowed_ms_max = 100;
    settings.dds.hold_timeout_ms = 3000;
    // A program of its own, since readers of one program share its fate.
    let more = format!(
        "<CycloneDDS><Domain><Discovery><ExternalDomainId>{}</ExternalDomainId></Discovery></Domain></CycloneDDS>",
        settings.dds.domain_default
    );
    let program = Participant::new(210, &Options { more: Some(more), ..Options::loopback() }).unwrap();
    let qos = Qos { partitions: vec!["Stuck".into()], samples_max: 1, ..Qos::default() };
    let stuck = program.topic("Wind", Wind::event_type()).unwrap().reader(&qos).unwrap();
    let (sender, winds) = channel();
    let consumer = Consumer::new("Stuck").settings(settings.clone());
    let _good = consumer.on(move |wind: Wind| sender.send(wind.speed).unwrap()).unwrap().ready().unwrap();
    let supplier = Supplier::with("Stuck", &settings).unwrap();
    let published = Cell::new(0_u32);
    let publish = || {
        let event = Wind { speed: published.get().into(), station: "x".repeat(4000), gusts: Vec::new() };
        match supplier.publish(&event) {
            Ok(()) => published.set(published.get() + 1),
            Err(campanile::Error::Slowed { waited }) => {
                assert_eq!(waited, Duration::from_millis(100));
                return true;
            }
            Err(error) => panic!("{error}"),
        }
        false
    };
    wait_until("the publisher is notified that it is slowed", publish);
    let until = published.get() + 200;
    wait_until("it goes on without the one that takes nothing", || {
        publish();
        published.get() >= until
    });
    let (until, mut last) = (f64::from(published.get()), -1.0);
    wait_until("the one that takes again gets what is published from then on", || {
        publish();
        stuck.take(64, |sample| last = f64::from_ne_bytes(sample.cdr[..8].try_into().unwrap())).unwrap();
        last >= until
    });
    for number in 0..published.get() {
        assert_eq!(winds.next_in_time().to_bits(), f64::from(number).to_bits(), "the good one has all, in order");
    }
}

/// Each was silent once: `incompatible_total` of Cyclone's rose, and nothing looked at it.
#[test]
fn what_does_not_match_is_a_trouble_and_reliability_and_durability_are_settings() {
    let base = settings(5);
    let with = |change: fn(&mut campanile::settings::DdsSettings)| {
        let mut settings = base.clone();
        change(&mut settings.dds);
        settings
    };
    let best_effort = with(|dds| dds.reliable = false);
    let cases = [
        (best_effort.clone(), base.clone(), "reliability", "best effort", "reliable", "set dds.reliable = false here"),
        (
            base.clone(),
            with(|dds| dds.late_joiners = 1),
            "durability",
            "volatile",
            "transient local",
            "set dds.late_joiners = 0",
        ),
        (
            base.clone(),
            with(|dds| dds.deadline_ms = 500),
            "deadline",
            "for ever",
            "500ms",
            "set dds.deadline_ms = 0 here",
        ),
        (
            with(|dds| drop(dds.partitions.insert("Odd".into(), String::new()))),
            base.clone(),
            "partition",
            "none",
            "[\"Odd\"]",
            "set its partition, or dds.partitions here",
        ),
    ];
    for (of_supplier, of_consumer, expected, is_offered, is_requested, what_to_do) in cases {
        let (tell, told) = channel();
        let (sender, winds) = channel();
        let supplier = Supplier::with("Odd", &of_supplier).unwrap();
        supplier.publish(&wind(1.0)).unwrap();
        let consumer = Consumer::new("Odd").settings(of_consumer);
        let consumer = consumer.on_trouble(move |trouble: &Trouble| drop(tell.send(trouble.clone())));
        let _consumer = consumer.on(move |wind: Wind| drop(sender.send(wind))).unwrap().ready().unwrap();
        let trouble = told.next_in_time();
        assert_eq!(trouble.code(), campanile::TroubleCode::Incompatible);
        let Trouble::Incompatible { name, peer, policy, offered, requested, advice, .. } = &trouble else {
            panic!("{trouble}")
        };
        assert_eq!(
            (name.as_str(), *policy, offered.as_str(), requested.as_str()),
            ("Wind", expected, is_offered, is_requested)
        );
        assert!(peer.starts_with("writer ") && peer.contains("process"), "{peer}");
        assert!(advice.starts_with(what_to_do), "{advice}");
        // Once, whatever is published; and none of it comes.
        let _may_wait_for_nobody = supplier.publish(&wind(2.0));
        drop(supplier);
        assert!(told.try_recv().is_err() && winds.try_recv().is_err());
    }
    let (sender, winds) = channel();
    let consumer = Consumer::new("Odd").settings(best_effort.clone());
    let _consumer = consumer.on(move |wind: Wind| drop(sender.send(wind))).unwrap().ready().unwrap();
    let supplier = Supplier::with("Odd", &best_effort).unwrap();
    wait_until("with the same setting they meet", || {
        supplier.publish(&wind(3.0)).unwrap();
        winds.recv_timeout(Duration::from_millis(20)).is_ok_and(|came| came == wind(3.0))
    });
}

/// Regression: a supplier had no troubles, and only logged what readers ask for in vain.
#[test]
fn readers_that_get_nothing_are_troubles_of_suppliers() {
    let settings = settings(6);
    let (tell, told) = channel();
    let supplier = Supplier::with("Late", &settings).unwrap();
    supplier.on_trouble(move |trouble: &Trouble| drop(tell.send(trouble.clone())));
    supplier.publish(&wind(1.0)).unwrap();
    let mut of_program = Options::loopback();
    of_program.more = Some(format!(
        "<CycloneDDS><Domain><Discovery><ExternalDomainId>{}</ExternalDomainId></Discovery></Domain></CycloneDDS>",
        settings.dds.domain_default
    ));
    let program = Participant::new(211, &of_program).unwrap();
    let qos = Qos { partitions: vec!["Late".into()], late_joiners: 1, ..Qos::default() };
    let _late = program.topic("Wind", Wind::event_type()).unwrap().reader(&qos).unwrap();
    let other = TypeCode::structure("IDL:Other:1.0", "Other", &[("speed", TypeCode::primitive(Kind::Double))]);
    let apart = Participant::new(212, &Options { more: of_program.more, ..Options::loopback() }).unwrap();
    let qos = Qos { partitions: vec!["Late".into()], ..Qos::default() };
    let _other = apart.topic("Wind", &other).unwrap().reader(&qos).unwrap();
    let mut policies = [told.next_in_time(), told.next_in_time()].map(|trouble| {
        let Trouble::Incompatible { name, peer, is_reader: true, policy, .. } = &trouble else { panic!("{trouble}") };
        assert!(name == "Wind" && peer.starts_with("reader "), "{trouble}");
        let [text, advice] = match *policy {
            "durability" => [
                "(offered here: volatile; requested: transient local), so that it gets nothing",
                "set dds.late_joiners to 1",
            ],
            _ => ["by type (offered here: ", "give both the same type"],
        };
        let said = trouble.to_string();
        assert!(said.contains(text) && said.contains(advice), "{said}");
        *policy
    });
    policies.sort_unstable();
    assert_eq!(policies, ["durability", "type"]);
}

/// In DDS a wide character is a number and a wide string such numbers, with neither a mark nor a NUL.
#[test]
fn wide_text_travels_and_is_a_string_where_one_is_expected() {
    let settings = settings(3);
    let of = |name: TypeCode, sign: TypeCode| {
        let of = TypeCode::structure("IDL:Sign:1.0", "Sign", &[("name", name), ("sign", sign)]);
        Declared::new(&of, None, None).unwrap()
    };
    let wide = of(TypeCode::wstring(), TypeCode::primitive(Kind::Wchar));
    let narrow = of(TypeCode::string(), TypeCode::bounded_string(4));
    let subscribe = |of: &Declared, filter: Option<&str>| {
        let consumer = RawConsumer::new("Signs").settings(settings.clone());
        let consumer = filter.into_iter().fold(consumer, RawConsumer::filter);
        consumer.events(std::slice::from_ref(of), false, 4).unwrap()
    };
    let (same, other) = (subscribe(&wide, Some("$sign == '塔' or $name == ''")), subscribe(&narrow, None));
    let supplier = RawSupplier::new("Signs", &settings).unwrap();
    let written = |write: &dyn Fn(&mut Writer<'_>)| {
        let mut cdr = Vec::new();
        write(&mut Writer::new(&mut cdr, Encoding { chars: CharSet::Utf8, ..Encoding::new(Endian::NATIVE) }));
        cdr
    };
    let value = written(&|writer| {
        writer.wstring("Überlingen \u{feff}塔 🦀");
        writer.wchar('塔');
    });
    // Both are taken from: one that is full would keep the other of this program waiting, however late that is found.
    let (mut came, mut came_wide) = (None, None);
    wait_until("the sign as strings", || {
        supplier.publish(&wide, &value).unwrap();
        if let Next::Event(event) = same.next_within(Duration::ZERO) {
            came_wide.get_or_insert(event.cdr);
        }
        came = match other.next_within(Duration::from_millis(50)) {
            Next::Event(event) => Some(event.cdr),
            _ => None,
        };
        came.is_some()
    });
    let strings = written(&|writer| {
        writer.string("Überlingen \u{feff}塔 🦀");
        writer.string("塔");
    });
    assert_eq!(came.unwrap(), strings);
    let came_wide = came_wide.unwrap_or_else(|| {
        let Next::Event(event) = same.next_within(PATIENCE) else { panic!("no event") };
        event.cdr
    });
    assert_eq!(came_wide, value);
    let beyond = written(&|writer| {
        writer.wstring("");
        writer.wchar('🦀');
    });
    let refused = supplier.publish(&wide, &beyond).unwrap_err().to_string();
    assert!(refused.contains("sign") && refused.contains("U+FFFF"), "{refused}");
}

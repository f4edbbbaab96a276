//! Suppliers and consumers at a service of this process.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use campanile::raw::{RawConsumer, RawSupplier};
use campanile::{
    Consumer, Declared, Dynamic, Error, Event, EventForm, Kind, Next, PublishOptions, Settings, Supplier, Trouble,
    TypeCode, Value,
};
use service::{Config, Service, Tls};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use testing::certificates::Authority;
use testing::{EndInTime, NextInTime};

#[derive(Event, Clone, Copy, Debug, PartialEq)]
enum State {
    Ok,
    #[event(name = "BROKEN")]
    Broken,
}

#[derive(Event, Clone, Debug, PartialEq)]
struct Place {
    x: f64,
    y: f64,
    note: Option<String>,
}

#[derive(Event, Clone, Debug, PartialEq)]
#[event(module = "weather")]
struct Wind {
    speed: f64,
    direction: f32,
    station: String,
    state: State,
    place: Place,
    gusts: Vec<f32>,
    history: Vec<Place>,
    raw: Vec<u8>,
    axes: [i16; 3],
    sign: char,
    small: i8,
    calm: bool,
    at: SystemTime,
    lasted: Duration,
}

#[derive(Event, Debug, PartialEq)]
struct Rain {
    mm: u32,
}

/// The same name with less, and wider.
mod narrow {
    #[derive(campanile::Event, Clone, Debug, PartialEq)]
    pub(crate) struct Wind {
        pub(crate) station: String,
        pub(crate) direction: f64,
        pub(crate) unknown: Option<u32>,
    }
}

/// The same name with something else.
mod wrong {
    #[derive(campanile::Event, Clone, Debug, PartialEq)]
    pub(crate) struct Wind {
        pub(crate) speed: String,
    }
}

fn wind(speed: f64) -> Wind {
    let place = Place { x: 1.0, y: -2.5, note: Some("Dach; крыша; 屋根".into()) };
    Wind {
        speed,
        direction: 270.0,
        station: "Überlingen 塔".into(),
        state: State::Broken,
        history: vec![Place { note: None, ..place.clone() }, place.clone()],
        place,
        gusts: vec![1.5, 2.5, f32::INFINITY],
        raw: vec![1, 2, 3],
        axes: [-1, 0, 1],
        sign: '風',
        small: -5,
        calm: false,
        at: campanile::time::time_of(campanile::time::ticks_of(SystemTime::now())),
        lasted: Duration::from_micros(1_500_000),
    }
}

fn begin() -> (Service, Settings) {
    begin_at(&format!("{}:0", testing::own_loopback()))
}

fn begin_at(listen: &str) -> (Service, Settings) {
    let service = Service::start(Config { listen: listen.to_owned(), ..Config::default() }).unwrap();
    let settings = Settings { server: service.address().to_string(), ..Settings::default() };
    (service, settings)
}

fn sending<T: Send + 'static>(sender: Sender<T>) -> impl FnMut(T) + Send {
    move |event| drop(sender.send(event))
}

fn troubles() -> (impl Fn(&Trouble) + Send + Sync + 'static, Receiver<Trouble>) {
    let (sender, receiver) = channel();
    (move |trouble: &Trouble| drop(sender.send(trouble.clone())), receiver)
}

#[test]
fn a_struct_comes_back_as_it_was_in_either_form() {
    let (_service, settings) = begin();
    for event_form in [EventForm::Body, EventForm::Alma] {
        let settings = Settings { event_form, ..settings.clone() };
        let (sender, events) = channel();
        let consumer =
            Consumer::new("Weather").settings(settings.clone()).on(sending(sender)).unwrap().ready().unwrap();
        let supplier = Supplier::with("Weather", &settings).unwrap();
        for speed in [1.0, f64::MIN_POSITIVE, -0.0] {
            supplier.publish(&wind(speed)).unwrap();
            let came: Wind = events.next_in_time();
            assert_eq!((came.speed.to_bits(), &came.station), (speed.to_bits(), &"Überlingen 塔".to_owned()));
            assert_eq!(Wind { at: came.at, ..wind(speed) }, came);
        }
        consumer.close();
    }
}

#[test]
fn a_filter_asks_for_members_by_name_in_either_form() {
    let (_service, settings) = begin();
    for (event_form, filter) in [
        (EventForm::Body, "$speed > 10 and $station == 'a' and $.remainder_of_body.place.x == 1"),
        (EventForm::Alma, "$Wind.speed > 10 and $Wind.place.x == 1"),
    ] {
        let settings = Settings { event_form, ..settings.clone() };
        let consumer = Consumer::new("Filtered").settings(settings.clone()).filter(filter);
        let mut events = consumer.events::<Wind>().unwrap();
        let supplier = Supplier::with("Filtered", &settings).unwrap();
        for speed in [9.0, 11.0, 10.0, 12.0] {
            supplier.publish(&Wind { station: "a".into(), ..wind(speed) }).unwrap();
        }
        let came = [events.next(), events.next()].map(|event| event.unwrap().speed);
        assert_eq!(came, [11.0, 12.0]);
    }
    let refused = Consumer::new("Filtered").settings(settings).filter("$speed >").events::<Wind>().unwrap_err();
    assert!(refused.to_string().contains("$speed >"), "{refused}");
}

#[test]
fn several_types_go_to_their_callbacks_and_others_come_as_dictionaries() {
    let (_service, settings) = begin();
    let ((winds, windy), (rains, rainy), (others, other)) = (channel(), channel(), channel());
    let consumer = Consumer::new("Weather")
        .settings(settings.clone())
        .on(sending::<narrow::Wind>(winds))
        .unwrap()
        .on_any(sending::<Dynamic>(others));
    let _consumer = consumer.ready().unwrap();
    let _rain =
        Consumer::new("Weather").settings(settings.clone()).on(sending::<Rain>(rains)).unwrap().ready().unwrap();
    let supplier = Supplier::with("Weather", &settings).unwrap();
    supplier.publish(&wind(3.0)).unwrap();
    supplier.publish(&Rain { mm: 7 }).unwrap();
    let came = windy.next_in_time();
    assert_eq!(came, narrow::Wind { station: "Überlingen 塔".into(), direction: 270.0, unknown: None });
    assert_eq!(rainy.next_in_time(), Rain { mm: 7 });
    let came = other.next_in_time();
    assert_eq!((came.name.as_str(), came.get("mm")), ("Rain", Some(&Value::ULong(7))));
}

#[test]
fn another_type_under_the_same_name_is_reported_once_with_both() {
    let (_service, settings) = begin();
    let (tell, told) = troubles();
    let consumer = Consumer::new("Weather").settings(settings.clone()).on_trouble(tell);
    let _consumer = consumer.on(|_: wrong::Wind| panic!("it cannot be taken for one")).unwrap().ready().unwrap();
    let (sender, events) = channel();
    let _right =
        Consumer::new("Weather").settings(settings.clone()).on(sending::<Wind>(sender)).unwrap().ready().unwrap();
    let supplier = Supplier::with("Weather", &settings).unwrap();
    for _ in 0..3 {
        supplier.publish(&wind(1.0)).unwrap();
        events.next_in_time();
    }
    let Trouble::Mismatch(mismatch) = told.next_in_time() else { panic!() };
    assert_eq!(mismatch.path, "speed");
    assert_eq!(mismatch.reason, "a double cannot be taken for a string");
    let text = mismatch.to_string();
    assert!(text.contains("string speed") && text.contains("double speed"), "{text}");
    supplier.close();
    assert!(told.try_recv().is_err(), "once is enough");
}

#[test]
fn octets_are_checked_and_reported_with_the_members_path() {
    let (_service, settings) = begin();
    let of = TypeCode::structure(
        "IDL:T:1.0",
        "T",
        &[("flag", TypeCode::primitive(Kind::Boolean)), ("names", TypeCode::sequence(TypeCode::string()))],
    );
    let declared = Declared::new(&of, None, None).unwrap();
    let (sender, events) = channel();
    let _consumer = RawConsumer::new("Raw")
        .settings(settings.clone())
        .on(&declared, move |event| {
            sender.send((event.name.to_owned(), event.cdr.to_vec())).unwrap();
            Ok(())
        })
        .ready()
        .unwrap();
    let supplier = RawSupplier::new("Raw", &settings).unwrap();
    let value = |flag: u8, text: &[u8]| {
        let mut octets = vec![flag, 0, 0, 0];
        octets.extend(1_u32.to_ne_bytes());
        octets.extend(u32::try_from(text.len()).unwrap().to_ne_bytes());
        octets.extend(text);
        octets
    };
    supplier.publish(&declared, &value(1, "é\0".as_bytes())).unwrap();
    assert_eq!(events.next_in_time(), ("T".to_owned(), value(1, "é\0".as_bytes())));
    for (octets, told) in [
        (value(2, b"a\0"), "this is no T: flag: a boolean is 2"),
        (value(0, b"a"), "this is no T: names[0]: "),
        (value(0, b"\xFF\0"), "this is no T: names[0]: "),
        (value(0, b"a\0b"), "this is no T: names[0]: "),
        ([value(0, b"a\0"), vec![0]].concat(), "this is no T: 1 octets are left over behind it"),
        (vec![1], "this is no T: names: "),
    ] {
        let error = supplier.publish(&declared, &octets).unwrap_err();
        assert!(matches!(error, Error::Value { .. }));
        assert!(error.was_not_carried_out());
        assert!(error.to_string().starts_with(told), "{error}");
    }
    supplier.publish(&declared, &value(0, b"last\0")).unwrap();
    assert_eq!(events.next_in_time().1, value(0, b"last\0"), "what was refused has not travelled");
}

#[test]
fn many_events_arrive_in_order_and_are_all_confirmed() {
    let (_service, settings) = begin();
    let mut events = Consumer::new("Many").settings(settings.clone()).events::<narrow::Wind>().unwrap();
    let supplier = Supplier::with("Many", &settings).unwrap();
    let publisher = supplier.publisher(PublishOptions::default()).unwrap();
    let event = |number: u32| narrow::Wind { station: String::new(), direction: number.into(), unknown: Some(number) };
    for number in 0..10_000 {
        assert_eq!(publisher.publish(&event(number)).unwrap(), u64::from(number));
        if number == 0 {
            // The program does not flush: the library does.
            assert_eq!(events.next().unwrap(), event(0));
        }
    }
    for number in 1..10_000 {
        assert_eq!(events.next().unwrap(), event(number));
    }
    let counters = publisher.close();
    assert_eq!((counters.published, counters.confirmed), (10_000, 10_000));
}

#[test]
fn the_first_client_makes_the_channel_and_all_get_the_same() {
    let (_service, settings) = begin();
    let (sender, events) = channel();
    let at_once: Vec<_> = (0..8_u32)
        .map(|number| {
            let (settings, sender) = (settings.clone(), sender.clone());
            std::thread::spawn(move || {
                let consumer = Consumer::new("Race").settings(settings.clone());
                let consumer = consumer.on(sending::<narrow::Wind>(sender)).unwrap().ready().unwrap();
                (number, consumer, Supplier::with("Race", &settings).unwrap())
            })
        })
        .collect();
    let all: Vec<_> = at_once.into_iter().map(|thread| thread.join().unwrap()).collect();
    for (number, _, supplier) in &all {
        let event = narrow::Wind { station: number.to_string(), direction: 0.0, unknown: None };
        supplier.publish(&event).unwrap();
        for _ in &all {
            assert_eq!(events.next_in_time(), event);
        }
    }
}

#[test]
fn both_find_back_when_the_service_is_restarted_and_the_gap_is_reported() {
    let (service, settings) = begin();
    let listen = service.address().to_string();
    let (tell, told) = troubles();
    let (sender, events) = channel();
    let consumer = Consumer::new("Weather").settings(settings.clone()).on_trouble(tell);
    let consumer = consumer.on(sending::<narrow::Wind>(sender)).unwrap().ready().unwrap();
    let supplier = Supplier::with("Weather", &settings).unwrap();
    let hasty = Settings { wait_for_restart: Duration::ZERO, ..settings };
    let hasty = Supplier::with("Weather", &hasty).unwrap();
    let event = |name: &str| narrow::Wind { station: name.into(), direction: 1.0, unknown: None };
    for supplier in [&supplier, &hasty] {
        supplier.publish(&event("before")).unwrap();
        assert_eq!(events.next_in_time(), event("before"));
    }
    service.shutdown();
    let error = hasty.publish(&event("nowhere")).unwrap_err();
    assert_eq!(error.code(), campanile::ErrorCode::Unreachable, "{error}");
    assert!(error.was_not_carried_out(), "{error}");
    let service = std::thread::scope(|scope| {
        let waits = scope.spawn(|| supplier.publish(&event("meanwhile")));
        testing::wait_until("the supplier to wait", || supplier.waiting() == 1);
        let (service, _) = begin_at(&listen);
        waits.end_in_time().unwrap();
        service
    });
    testing::wait_until("the consumer to be there again", || consumer.check().is_ok());
    let gap = std::iter::repeat_with(|| told.next_in_time()).find(|trouble| matches!(trouble, Trouble::Gap(_)));
    assert!(gap.is_some());
    for supplier in [&supplier, &hasty] {
        supplier.publish(&event("after")).unwrap();
    }
    // The consumer may have been there again before the supplier, or behind it.
    let came = std::iter::repeat_with(|| events.next_in_time()).skip_while(|came| *came == event("meanwhile"));
    assert_eq!(came.take(2).collect::<Vec<_>>(), [event("after"), event("after")]);
    drop(service);
}

#[test]
fn a_callback_that_panics_is_reported_and_the_next_event_comes() {
    let (_service, settings) = begin();
    let (tell, told) = troubles();
    let (sender, events) = channel();
    let consumer = Consumer::new("Panics").settings(settings.clone()).on_trouble(tell).slow_after(Duration::ZERO);
    let consumer = consumer.on(move |wind: narrow::Wind| {
        assert_ne!(wind.station, "bad", "what a name");
        sender.send(wind.station).unwrap();
    });
    let _consumer = consumer.unwrap().ready().unwrap();
    let supplier = Supplier::with("Panics", &settings).unwrap();
    for station in ["bad", "good"] {
        supplier.publish(&narrow::Wind { station: station.into(), direction: 0.0, unknown: None }).unwrap();
    }
    assert_eq!(events.next_in_time(), "good");
    assert!(matches!(told.next_in_time(), Trouble::Slow { .. }));
    let Trouble::Callback { name, reason } = told.next_in_time() else { panic!() };
    assert!(name == "Wind" && reason.contains("what a name"), "{reason}");
}

#[test]
fn without_a_service_the_error_says_what_to_do_and_waiting_helps() {
    let listen = format!("{}:0", testing::own_loopback());
    let (service, settings) = begin_at(&listen);
    let address = service.address().to_string();
    service.shutdown();
    let error = Supplier::with("Weather", &settings).unwrap_err();
    assert_eq!(error.code(), campanile::ErrorCode::Unreachable);
    assert!(error.to_string().contains("campanile serve"), "{error}");
    let patient = Settings { wait_for_service: testing::PATIENCE, ..settings };
    let waiting = std::thread::spawn(move || Supplier::with("Weather", &patient).map(drop));
    let _service = begin_at(&address);
    waiting.join().unwrap().unwrap();
}

#[test]
fn names_that_cannot_be_channels_and_transports_that_are_not_there_are_refused() {
    let (_service, settings) = begin();
    for name in ["", "塔", "a\0b"] {
        assert!(matches!(Supplier::with(name, &settings), Err(Error::ChannelName { .. })), "{name:?}");
    }
    if cfg!(not(feature = "dds")) {
        let settings = Settings { transport: campanile::Transport::Dds, ..settings };
        let error = Supplier::with("Weather", &settings).unwrap_err();
        assert!(matches!(error, Error::NoTransport { .. }), "{error}");
        assert!(error.to_string().contains("feature `dds`"), "{error}");
    }
}

#[test]
fn events_come_one_after_the_other_until_one_side_closes() {
    let (_service, settings) = begin();
    let wind = Declared::new(narrow::Wind::event_type(), None, None).unwrap();
    let events = RawConsumer::new("Queue").settings(settings.clone()).events(&[wind], true, 2).unwrap();
    let supplier = Supplier::with("Queue", &settings).unwrap();
    let publisher = supplier.publisher(PublishOptions::default()).unwrap();
    for number in 0..100_u32 {
        publisher.publish(&narrow::Wind { station: number.to_string(), direction: 0.0, unknown: None }).unwrap();
        publisher.publish(&Rain { mm: number }).unwrap();
    }
    for number in 0..100_u32 {
        let Next::Event(wind) = events.next_within(testing::PATIENCE) else { panic!("no wind {number}") };
        assert_eq!((wind.name.as_str(), wind.declared), ("Wind", Some(0)));
        let Next::Event(rain) = events.next_within(testing::PATIENCE) else { panic!("no rain {number}") };
        assert_eq!((rain.name.as_str(), rain.declared, rain.cdr), ("Rain", None, number.to_ne_bytes().to_vec()));
        assert_eq!(*rain.type_code, *Rain::event_type());
    }
    assert_eq!(events.next_within(Duration::ZERO), Next::Late);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| events.wait());
        events.close();
        assert_eq!(waiting.join().unwrap(), Next::Ended);
    });
}

#[test]
fn a_consumer_that_is_dropped_by_its_own_callback_ends() {
    let (_service, settings) = begin();
    let own = Arc::new(Mutex::new(None));
    let (theirs, (sender, events)) = (own.clone(), channel());
    let consumer = Consumer::new("Drop").settings(settings.clone()).on(move |_: Rain| {
        drop(theirs.lock().unwrap().take());
        sender.send(()).unwrap();
    });
    // The lock is held until it is there.
    let mut place = own.lock().unwrap();
    *place = Some(consumer.unwrap().ready().unwrap());
    drop(place);
    let supplier = Supplier::with("Drop", &settings).unwrap();
    supplier.publish(&Rain { mm: 1 }).unwrap();
    events.next_in_time();
    supplier.publish(&Rain { mm: 2 }).unwrap();
    assert!(events.recv().is_err(), "the callback is gone with the consumer");
}

#[test]
fn over_tls_programs_are_known_by_their_certificates_and_nothing_goes_in_the_clear() {
    let authority = Authority::new("simple-tls");
    let of_service = authority.certify("service");
    let tls = Tls {
        listen: Some("127.0.0.1:0".into()),
        certificate: Some(of_service.certificate),
        key: Some(of_service.key),
        client_ca: Some(authority.file()),
        ca: Some(authority.file()),
        required: true,
        ..Tls::default()
    };
    let service = Service::start(Config { tls, ..Config::default() }).unwrap();
    let [address, ..] = service.tls_addresses();
    let mut settings = Settings { server: address.unwrap().to_string(), ..Settings::default() };
    assert!(Supplier::with("Weather", &settings).is_err(), "in the clear");
    settings.tls.ca = Some(authority.file());
    let nobody = Supplier::with("Weather", &settings);
    assert!(nobody.is_err(), "without a certificate");
    let me = authority.certify("me");
    (settings.tls.certificate, settings.tls.key) = (Some(me.certificate), Some(me.key));
    let mut events = Consumer::new("Weather").settings(settings.clone()).events::<Rain>().unwrap();
    let supplier = Supplier::with("Weather", &settings).unwrap();
    for mm in 0..100 {
        supplier.publish(&Rain { mm }).unwrap();
        assert_eq!(events.next(), Some(Rain { mm }));
    }
}

/// Once, while the answer to an event was waited for, whatever had been gathered since was sent with it.
#[test]
fn events_that_may_wait_long_are_not_sent_while_answers_are_taken_in() {
    let (_service, settings) = begin();
    let (sender, events) = channel();
    let consumer = Consumer::new("Patient").settings(settings.clone());
    let _consumer = consumer.on(move |rain: Rain| _ = sender.send(rain.mm)).unwrap().ready().unwrap();
    let supplier = Supplier::with("Patient", &settings).unwrap();
    let gather_time_max = Duration::from_secs(3600);
    let publisher = supplier.publisher(PublishOptions { gather_time_max, ..PublishOptions::default() }).unwrap();
    publisher.publish(&Rain { mm: 1 }).unwrap();
    publisher.flush();
    publisher.publish(&Rain { mm: 3 }).unwrap();
    testing::wait_until("the answer to the first to be taken in", || publisher.counters().confirmed == 1);
    // What was gathered is still here: another event overtakes it.
    supplier.publish(&Rain { mm: 2 }).unwrap();
    assert_eq!(publisher.close().confirmed, 2);
    assert_eq!([events.next_in_time(), events.next_in_time(), events.next_in_time()], [1, 2, 3]);
}

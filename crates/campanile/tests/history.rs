//! Consumers that begin in a channel's history, programs that go on where they were, and what filters and types say of mistakes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use campanile::{
    Consumer, Error, ErrorCode, Event, EventForm, Next, Settings, StartFrom, Supplier, Transport, Trouble, TroubleCode,
};
use futures_core::Stream;
use service::{Config, DeclaredChannel, DeclaredValue, Service, StoreConfig};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};
use std::time::{Duration, SystemTime};
use testing::{NextInTime, PATIENCE, TempPath, wait_until};

#[derive(Event, Clone, Debug, PartialEq)]
struct Wind {
    station: String,
    speed: f64,
}

/// The same name with more, some of it with values of its own.
mod grown {
    #[derive(campanile::Event, Clone, Debug, PartialEq)]
    pub(crate) struct Place {
        pub(crate) x: f64,
        #[event(default = -1.5)]
        pub(crate) y: f64,
    }

    #[derive(campanile::Event, Clone, Debug, PartialEq)]
    pub(crate) struct Wind {
        #[event(default = "unknown".to_owned())]
        pub(crate) by: String,
        pub(crate) speed: f64,
        #[event(default)]
        pub(crate) gusts: Vec<f32>,
        #[event(default = 7)]
        pub(crate) count: u16,
        #[event(default = Place { x: 1.0, y: 2.0 })]
        pub(crate) place: Place,
        pub(crate) station: String,
    }
}

/// The same name with something else.
mod wrong {
    #[derive(campanile::Event, Debug)]
    pub(crate) struct Wind {
        pub(crate) _gust: f64,
    }
}

fn wind(station: &str, speed: f64) -> Wind {
    Wind { station: station.into(), speed }
}

/// A service with a store, which has one channel with a history, and can be started again.
struct Stored {
    service: Option<Service>,
    settings: Settings,
    folder: TempPath,
}

impl Stored {
    fn begin(name: &str) -> Self {
        let mut stored = Self { service: None, settings: Settings::default(), folder: TempPath::new(name) };
        stored.start(&format!("{}:0", testing::own_loopback()));
        stored
    }

    fn start(&mut self, listen: &str) {
        let properties = [("HistoryEvents".to_owned(), DeclaredValue::Number(1_000))].into();
        let store = StoreConfig { directory: Some(self.folder.to_path_buf()), ..StoreConfig::default() };
        let channels =
            vec![DeclaredChannel { name: "Weather".into(), properties, lane: Vec::new(), timers: Vec::new() }];
        let service =
            Service::start(Config { listen: listen.to_owned(), channels, store, ..Config::default() }).unwrap();
        self.settings.server = service.address().to_string();
        self.service = Some(service);
    }

    fn restart(&mut self) {
        self.service.take().unwrap().shutdown();
        let listen = self.settings.server.clone();
        self.start(&listen);
    }

    fn consumer(&self) -> Consumer {
        Consumer::new("Weather").settings(self.settings.clone())
    }

    fn supplier(&self) -> Supplier {
        Supplier::with("Weather", &self.settings).unwrap()
    }
}

fn troubles() -> (impl Fn(&Trouble) + Send + Sync + 'static, Receiver<Trouble>) {
    let (sender, receiver) = channel();
    (move |trouble: &Trouble| drop(sender.send(trouble.clone())), receiver)
}

#[test]
fn a_consumer_begins_where_it_says_and_goes_on_where_it_was() {
    let stored = Stored::begin("start");
    let supplier = stored.supplier();
    let before = SystemTime::now() - Duration::from_secs(60);
    for speed in 1..=5 {
        supplier.publish(&wind(if speed < 4 { "north" } else { "south" }, f64::from(speed))).unwrap();
    }
    let got = |start: StartFrom, count: usize| {
        let events = stored.consumer().start_from(start).events_numbered::<Wind>().unwrap();
        let got = (0..count).map(|_| match events.next_within(PATIENCE) {
            Next::Event((wind, number)) => (wind.speed, number.unwrap()),
            other => panic!("{other:?}"),
        });
        got.collect::<Vec<_>>()
    };
    let all = got(StartFrom::First, 5);
    assert_eq!(all.iter().map(|(speed, _)| *speed).collect::<Vec<_>>(), [1.0, 2.0, 3.0, 4.0, 5.0]);
    assert!(all.windows(2).all(|pair| pair[0].1.number < pair[1].1.number), "{all:?}");
    assert!(all.iter().all(|(_, number)| number.came.is_some_and(|came| came > before)), "{all:?}");
    let third = all[2].1.number;
    for (start, speeds) in [
        (StartFrom::Number(third), &[3.0, 4.0, 5.0][..]),
        (StartFrom::After(third), &[4.0, 5.0]),
        (StartFrom::Last(2), &[4.0, 5.0]),
        (StartFrom::Since(Duration::from_secs(3600)), &[1.0, 2.0]),
        (StartFrom::Time(before), &[1.0, 2.0]),
        (StartFrom::LastOfEachType, &[5.0]),
        (StartFrom::LastOfEach("station".into()), &[3.0, 5.0]),
    ] {
        let came = got(start.clone(), speeds.len());
        assert_eq!(came.iter().map(|(speed, _)| *speed).collect::<Vec<_>>(), speeds, "{start}");
    }
    // Without it no event has a number.
    let (sender, numbers) = channel();
    let consumer = stored.consumer().on_numbered(move |_: Wind, number| _ = sender.send(number)).unwrap();
    let _consumer = consumer.ready().unwrap();
    supplier.publish(&wind("north", 6.0)).unwrap();
    assert_eq!(numbers.next_in_time(), None);
}

#[test]
fn a_restart_with_a_store_is_counted_and_costs_a_consumer_with_numbers_no_event() {
    let mut stored = Stored::begin("restart");
    let supplier = stored.supplier();
    let (tell, told) = troubles();
    let (sender, events) = channel();
    let consumer = stored.consumer().start_from(StartFrom::First).on_trouble(tell);
    let consumer = consumer.on(move |wind: Wind| _ = sender.send(wind.speed)).unwrap().ready().unwrap();
    supplier.publish(&wind("north", 1.0)).unwrap();
    assert_eq!(events.next_in_time(), 1.0);
    assert_eq!((supplier.reconnections(), consumer.reconnections()), (0, 0));
    for restarts in 1..=2_u32 {
        stored.restart();
        supplier.publish(&wind("north", 1.0 + f64::from(restarts))).unwrap();
        wait_until("the consumer to be there again", || consumer.check().is_ok());
        assert_eq!(events.next_in_time(), 1.0 + f64::from(restarts));
        let restarts = u64::from(restarts);
        assert_eq!((supplier.reconnections(), consumer.reconnections()), (restarts, restarts));
    }
    assert!(told.try_iter().all(|trouble| !matches!(trouble, Trouble::Gap(_))), "nothing is missing");
}

#[test]
fn a_filters_mistake_comes_with_reason_and_column_and_a_name_that_no_type_has_is_reported() {
    let stored = Stored::begin("filter");
    let filtered = |text: &str| stored.consumer().filter(text).on(|_: Wind| ()).unwrap();
    for (text, at) in [("$speed > ", Some(10)), ("$speed >> 3", Some(9)), ("$speed = 3", Some(8)), ("7", Some(1))] {
        let error = filtered(text).ready().unwrap_err();
        let Error::Filter { text: of, reason, column } = &error else { panic!("{error}") };
        assert_eq!((of.as_str(), *column, error.code()), (text, at, ErrorCode::Filter), "{error}");
        let said = error.to_string();
        let of_corba = ["CORBA", "IDL:", "raised", "Constraint", "omg"];
        assert!(!reason.is_empty() && of_corba.iter().all(|word| !said.contains(word)), "{said}");
    }
    let (tell, told) = troubles();
    let _consumer = filtered("$sped > 10 and $station == 'north'").on_trouble(tell).ready().unwrap();
    let trouble = told.next_in_time();
    assert_eq!(trouble.code(), TroubleCode::UnknownName);
    let said = "the filter asks for sped, which no declared type has: Wind has station, speed";
    assert_eq!(trouble.to_string(), said);
    assert!(told.try_recv().is_err());
}

#[test]
fn what_a_supplier_lacks_is_the_declared_types_own_and_a_mismatch_says_which_supplier() {
    let stored = Stored::begin("defaults");
    let (sender, events) = channel();
    let _grown = stored.consumer().on(move |wind: grown::Wind| drop(sender.send(wind))).unwrap().ready().unwrap();
    let (tell, told) = troubles();
    let _wrong = stored.consumer().on(|_: wrong::Wind| ()).unwrap().on_trouble(tell).ready().unwrap();
    for form in [EventForm::Body, EventForm::Alma] {
        let settings = Settings { event_form: form, ..stored.settings.clone() };
        Supplier::with("Weather", &settings).unwrap().publish(&wind("north", 3.0)).unwrap();
        let place = grown::Place { x: 1.0, y: 2.0 };
        let (by, station) = ("unknown".to_owned(), "north".to_owned());
        let expected = grown::Wind { by, speed: 3.0, gusts: Vec::new(), count: 7, place, station };
        assert_eq!(events.next_in_time(), expected);
    }
    let Trouble::Mismatch(mismatch) = told.next_in_time() else { panic!() };
    assert_eq!((mismatch.path.as_str(), mismatch.supplier.as_deref()), ("_gust", None));
}

#[test]
fn a_mismatch_says_which_supplier_where_the_event_does() {
    let stored = Stored::begin("supplier");
    let (tell, told) = troubles();
    let _wrong = stored.consumer().on(|_: wrong::Wind| ()).unwrap().on_trouble(tell).ready().unwrap();
    let settings = Settings { event_form: EventForm::Alma, ..stored.settings.clone() };
    Supplier::with("Weather", &settings).unwrap().publish(&wind("north", 3.0)).unwrap();
    let Trouble::Mismatch(mismatch) = told.next_in_time() else { panic!() };
    assert_eq!(mismatch.supplier.as_deref(), Some("Weather"));
    assert!(mismatch.to_string().starts_with("events Wind come with another type from Weather: _gust: missing"));
}

struct Unparks(Thread);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// What a runtime does, of one task.
fn next<T>(stream: &mut (impl Stream<Item = T> + Unpin)) -> Option<T> {
    let waker = Arc::new(Unparks(thread::current())).into();
    loop {
        match Pin::new(&mut *stream).poll_next(&mut Context::from_waker(&waker)) {
            Poll::Ready(next) => return next,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn events_are_a_stream_and_history_is_not_had_over_dds() {
    let stored = Stored::begin("stream");
    let mut stream = stored.consumer().events::<Wind>().unwrap().into_stream();
    let supplier = stored.supplier();
    thread::scope(|scope| {
        scope.spawn(|| (0..100).for_each(|speed| supplier.publish(&wind("north", f64::from(speed))).unwrap()));
        for speed in 0..100 {
            assert_eq!(next(&mut stream), Some(wind("north", f64::from(speed))));
        }
    });
    let settings = Settings { transport: Transport::Dds, ..stored.settings.clone() };
    let consumer = Consumer::new("Weather").settings(settings).start_from(StartFrom::First);
    let refused = consumer.on(|_: Wind| ()).unwrap().ready().unwrap_err();
    assert_eq!(refused.code(), ErrorCode::Settings);
    assert!(refused.to_string().contains("dds.late_joiners"), "{refused}");
}

//! One name is one channel: what programs of this library, the configuration and other protocols mean by it.
//!
//! A channel that the configuration declared was bound in the naming service's root and not where the library looks. Programs made a second
//! one of the same name; joins of DDS and `campanile sub --channel` used the declared one, and events were lost without a word.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use campanile::{Consumer, Dynamic, Event, Events, Next, Settings, Supplier, Value};
use client::naming::{NameComponent, NamingContext};
use client::notify::{EventChannel, EventChannelFactory};
use client::tempo::Publisher;
use client::{Orb, OrbOptions};
use service::{Config, DeclaredChannel, Json, Service, StoreConfig, Tempo};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;
use std::sync::mpsc::channel;
use testing::{NextInTime, PATIENCE, TempPath, patient, wait_until};

#[derive(Event, Clone, Debug, PartialEq)]
struct Wind {
    speed: f64,
}

fn begin(config: Config) -> (Service, Settings) {
    let service = Service::start(Config { listen: format!("{}:0", testing::own_loopback()), ..config }).unwrap();
    let settings = Settings { server: service.address().to_string(), ..Settings::default() };
    (service, settings)
}

fn declaring(name: &str) -> Config {
    let channel =
        DeclaredChannel { name: name.into(), properties: BTreeMap::new(), lane: Vec::new(), timers: Vec::new() };
    Config { channels: vec![channel], ..Config::default() }
}

fn naming(service: &Service) -> NamingContext {
    let orb = Orb::new(OrbOptions::default());
    NamingContext::unchecked(orb.resolve_at(&service.address().to_string(), "NameService").unwrap())
}

fn factory(service: &Service) -> EventChannelFactory {
    let orb = Orb::new(OrbOptions::default());
    EventChannelFactory::unchecked(orb.resolve_service(&service.address().to_string()).unwrap())
}

fn channels(service: &Service) -> Vec<i32> {
    factory(service).get_all_channels().unwrap()
}

fn winds(settings: &Settings) -> Events<Wind> {
    Consumer::new("Weather").settings(settings.clone()).events::<Wind>().unwrap()
}

fn of_events() -> [NameComponent; 1] {
    [NameComponent { id: "Weather@DEFAULTDOMAIN".into(), kind: "channels".into() }]
}

/// The number of the channel that has a name, by its admins.
fn number(service: &Service, channel: &EventChannel) -> i32 {
    let admins = |of: &EventChannel| of.default_consumer_admin().unwrap().object().ior().iiop().unwrap().key.clone();
    let wanted = admins(channel);
    let is_it = |id: &i32| admins(&factory(service).get_event_channel(*id).unwrap()) == wanted;
    channels(service).into_iter().find(is_it).unwrap()
}

#[test]
fn a_declared_channel_is_that_of_programs_and_of_clients_of_json_and_tempo() {
    let (json, tempo) =
        (Json { listen: Some("0".into()), ..Json::default() }, Tempo { listen: Some("0".into()), ..Tempo::default() });
    let (service, settings) = begin(Config { json, tempo, ..declaring("Weather") });
    let declared = EventChannel::unchecked(naming(&service).resolve(&[NameComponent::new("Weather")]).unwrap());
    let declared = number(&service, &declared);
    let winds = winds(&settings);
    let (sender, others) = channel();
    let consumer = Consumer::new("Weather").settings(settings.clone());
    let _consumer = consumer.on_any(move |event: Dynamic| drop(sender.send(event))).ready().unwrap();
    let supplier = Supplier::with("Weather", &settings).unwrap();
    assert_eq!(channels(&service), [0, declared], "no other one was made");

    let mut json = TcpStream::connect(service.json_address().unwrap()).unwrap();
    patient(&json);
    let lines = testing::lines_of(json.try_clone().unwrap());
    writeln!(json, r#"{{"op":"subscribe","id":1,"channel":{declared},"types":["*/Wind","*/Snow"]}}"#).unwrap();
    assert_eq!(lines.next_in_time(), r#"{"ok":1}"#);
    supplier.publish(&Wind { speed: 11.5 }).unwrap();
    let said = lines.next_in_time();
    assert!(said.contains("11.5"), "{said}");
    assert_eq!(winds.next_within(PATIENCE), Next::Event(Wind { speed: 11.5 }));
    assert_eq!(others.next_in_time().name, "Wind");
    writeln!(json, r#"{{"op":"publish","id":2,"channel":{declared},"type":"Weather/Rain","fields":{{"mm":7.5}}}}"#)
        .unwrap();
    assert_eq!(lines.next_in_time(), r#"{"ok":2}"#);
    let rain = others.next_in_time();
    assert_eq!((rain.name.as_str(), rain.get("mm")), ("Rain", Some(&Value::Double(7.5))));

    let address = format!("udp://{}/{declared}", service.tempo_address().unwrap());
    let publisher = Publisher::new("Weather/Snow", &address).unwrap();
    assert!(publisher.wait_for_subscribers(1, PATIENCE));
    wait_until("a message of Tempo in the channel", || {
        publisher.publish(b"much").unwrap();
        lines.try_recv().is_ok_and(|line| line.contains("Weather/Snow"))
    });
    assert_eq!(channels(&service), [0, declared]);
}

fn begin_with_store(folder: &TempPath, config: Config) -> (Service, Settings) {
    let store = StoreConfig { directory: Some(folder.to_path_buf()), ..StoreConfig::default() };
    begin(Config { store, ..config })
}

#[test]
fn a_channel_that_a_program_has_made_is_the_one_that_is_declared_at_the_next_start() {
    let folder = TempPath::new("later");
    let (service, settings) = begin_with_store(&folder, Config::default());
    drop(Supplier::with("Weather", &settings).unwrap());
    let made = EventChannel::unchecked(naming(&service).resolve(&of_events()).unwrap());
    let made = number(&service, &made);
    service.shutdown();
    let (service, settings) = begin_with_store(&folder, declaring("Weather"));
    let declared = EventChannel::unchecked(naming(&service).resolve(&[NameComponent::new("Weather")]).unwrap());
    assert_eq!(number(&service, &declared), made);
    let winds = winds(&settings);
    Supplier::with("Weather", &settings).unwrap().publish(&Wind { speed: 3.0 }).unwrap();
    assert_eq!(winds.next_within(PATIENCE), Next::Event(Wind { speed: 3.0 }));
    assert_eq!(channels(&service), [0, made]);
}

#[test]
fn of_two_channels_of_one_name_in_an_old_store_programs_find_the_declared_one() {
    let folder = TempPath::new("two");
    let (service, settings) = begin_with_store(&folder, Config::default());
    // What a release did that gave declared channels no name, and then a program.
    let (declared, first) = factory(&service).create_channel(&[], &[]).unwrap();
    naming(&service).bind(&[NameComponent::new("Weather")], declared.object()).unwrap();
    drop(Supplier::with("Weather", &settings).unwrap());
    let all = channels(&service);
    assert_eq!(all.len(), 3);
    service.shutdown();
    let (service, settings) = begin_with_store(&folder, declaring("Weather"));
    let winds = winds(&settings);
    Supplier::with("Weather", &settings).unwrap().publish(&Wind { speed: 3.0 }).unwrap();
    assert_eq!(winds.next_within(PATIENCE), Next::Event(Wind { speed: 3.0 }));
    assert_eq!(channels(&service), all, "both stay, and there is no third");
    let found = EventChannel::unchecked(naming(&service).resolve(&of_events()).unwrap());
    assert_eq!(number(&service, &found), first);
    let clients = factory(&service).get_event_channel(first).unwrap().default_consumer_admin().unwrap();
    assert_eq!(clients.push_suppliers().unwrap().len(), 1, "the consumer is there");
}

/// There nothing leads from the name to the channel until a program binds it.
#[test]
fn a_declared_channel_is_found_though_programs_look_into_another_naming_service() {
    let ((elsewhere, _), (service, settings)) = (begin(Config::default()), begin(declaring("Weather")));
    let settings = Settings { naming: Some(elsewhere.address().to_string()), ..settings };
    let winds = winds(&settings);
    Supplier::with("Weather", &settings).unwrap().publish(&Wind { speed: 3.0 }).unwrap();
    assert_eq!(winds.next_within(PATIENCE), Next::Event(Wind { speed: 3.0 }));
    assert_eq!(channels(&service), [0, 1]);
    let bound = naming(&elsewhere).resolve(&of_events()).unwrap();
    assert!(!bound.non_existent().unwrap());
    // One that was made anew under the name is found, though what is bound leads to the one that is gone.
    EventChannel::unchecked(bound).destroy().unwrap();
    drop(Supplier::with("Weather", &settings).unwrap());
    let bound = naming(&elsewhere).resolve(&of_events()).unwrap();
    assert!(!bound.non_existent().unwrap());
    assert_eq!(channels(&service).len(), 2);
}

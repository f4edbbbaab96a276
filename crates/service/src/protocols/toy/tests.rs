//! A service with a fifth protocol.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};

use accounts::Resource;

use super::{DURABLE, LISTEN};
use crate::admin::values::{Answer, Command, LinkState, Query};
use crate::config::{Config, Json, Lanes, Limits, Scheduling, StoreConfig};
use crate::{Counter, Service};
use corba::{Declared, Settable};
use engine::{ChannelId, OutboxState};
use testing::TempPath;

struct Lines(BufReader<TcpStream>);

impl Lines {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        testing::patient(&stream);
        Self(BufReader::new(stream))
    }

    fn say(&mut self, line: &str) {
        writeln!(self.0.get_mut(), "{line}").unwrap();
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

fn config() -> Config {
    Config {
        listen: "127.0.0.1:0".into(),
        json: Json { listen: Some("0".into()), ..Json::default() },
        lanes: Lanes { scheduling: Scheduling::Ordinary, ..Lanes::default() },
        limits: Limits { memory_bytes: Some(1 << 30), ..Limits::default() },
        ..Config::default()
    }
}

/// A socket's number had two bits for the protocol, so that a fifth one took hold of GIOP's connections; and some sixty functions named
/// each protocol by hand.
#[test]
fn a_fifth_protocols_events_reach_clients_of_json_in_the_same_lane_and_theirs_reach_its_own() {
    let toys = SocketAddr::from((testing::own_loopback(), 4_711));
    LISTEN.set(Some(toys));
    let service = Service::start(config()).unwrap();
    let mut json = Lines::connect(service.json_address().unwrap());
    json.say(r#"{"op":"subscribe","id":1}"#);
    assert_eq!(json.hear(), r#"{"ok":1}"#);

    let mut toy = Lines::connect(toys);
    toy.say("Rattle");
    let mut heard = [toy.hear(), toy.hear()];
    heard.sort();
    assert_eq!(heard, ["+", "Toy/Rattle"], "it is a consumer as well");
    let event = json.hear();
    assert!(event.contains(r#""type":"Toy/Rattle""#), "{event}");

    json.say(r#"{"op":"publish","id":2,"type":"Weather/Wind","fields":{"speed":7}}"#);
    assert_eq!(toy.hear(), "Weather/Wind");
    // Its proxies go with its connection.
    let proxies = || service.known.accounts.used(Resource::Proxies);
    assert_eq!(proxies(), 4);
    drop(toy);
    testing::wait_until("the proxies to go", || proxies() == 2);
}

/// What only the main lane has is asked of it, and ordered there.
#[test]
fn a_link_is_reported_once_and_is_paused_by_its_name() {
    let config = Config {
        listen: "127.0.0.1:0".into(),
        lanes: Lanes { scheduling: Scheduling::Ordinary, ..Lanes::default() },
        limits: Limits { memory_bytes: Some(1 << 30), ..Limits::default() },
        ..Config::default()
    };
    let service = Service::start(config).unwrap();
    let state = || {
        let Answer::Links(links) = service.ask(Query::Links).unwrap() else { panic!("links") };
        let Answer::Figures(figures) = service.ask(Query::Figures).unwrap() else { panic!("figures") };
        assert_eq!((links.len(), &figures.joined().links), (1, &links));
        links[0].state
    };
    let order = |name: &str, paused| match service.command(Command::PauseLink { name: name.into(), paused }) {
        Ok(Answer::Done(done)) => done,
        other => panic!("{other:?}"),
    };
    assert_eq!(state(), LinkState::Up);
    assert_eq!((order("toys", true), state()), (Ok(()), LinkState::Paused));
    assert_eq!(order("toys", true), Err("it is so already".to_owned()));
    assert_eq!((order("toys", false), state()), (Ok(()), LinkState::Up));
    assert_eq!(order("tows", true), Err("there is no link of this name".to_owned()));
}

/// A service with durable consumers, and a store in a folder.
struct Durable {
    service: Service,
    toys: SocketAddr,
    json: Lines,
    published: u64,
}

impl Durable {
    fn start(folder: &TempPath) -> Self {
        let toys = SocketAddr::from((testing::own_loopback(), 4_711));
        LISTEN.set(Some(toys));
        DURABLE.set(true);
        let store = StoreConfig { directory: Some(folder.to_path_buf()), ..StoreConfig::default() };
        let service = Service::start(Config { store, ..config() }).unwrap();
        let json = Lines::connect(service.json_address().unwrap());
        Self { service, toys, json, published: 0 }
    }

    /// Publishes an event, which is taken, and on disk if it is persistent.
    fn publish(&mut self, name: &str) {
        self.published += 1;
        let id = self.published;
        self.json.say(&format!(r#"{{"op":"publish","id":{id},"type":"Weather/{name}"}}"#));
        assert_eq!(self.json.hear(), format!(r#"{{"ok":{id}}}"#));
    }

    fn make_persistent(&self) {
        let properties = vec![("EventReliability".to_owned(), Declared::Number(1))];
        let answer = self.service.command(Command::SetQos { on: Settable::Channel(ChannelId(0)), properties });
        assert!(matches!(answer, Ok(Answer::Done(Ok(())))), "{answer:?}");
    }

    /// What consumers are doing.
    fn states(&self) -> Vec<OutboxState> {
        let Ok(Answer::Consumers(consumers)) = self.service.ask(Query::Consumers) else { panic!("no answer") };
        consumers.into_iter().map(|consumer| consumer.outbox.state).collect()
    }

    /// Waits until the consumer has no client.
    fn wait_until_away(&self) {
        testing::wait_until("the consumer to be without a client", || self.states() == [OutboxState::Suspended]);
    }
}

/// Events that came for a consumer without a client went with its connection, and with the process.
#[test]
fn a_durable_consumer_gets_what_came_while_it_was_away_and_over_a_restart_what_is_persistent() {
    let folder = TempPath::new("durable-toy");
    let mut before = Durable::start(&folder);
    before.make_persistent();
    let mut toy = Lines::connect(before.toys);
    toy.say("Rattle");
    let mut heard = [toy.hear(), toy.hear()];
    heard.sort();
    assert_eq!(heard, ["+", "Toy/Rattle"]);
    // Another that comes as the same consumer is turned away.
    assert_eq!(Lines::connect(before.toys).hear(), "");
    drop(toy);
    before.wait_until_away();
    before.publish("Wind");
    before.publish("Rain");
    let mut toy = Lines::connect(before.toys);
    assert_eq!([toy.hear(), toy.hear()], ["Weather/Wind", "Weather/Rain"]);
    drop(toy);
    before.wait_until_away();
    before.publish("Snow");
    before.service.shutdown();

    let mut after = Durable::start(&folder);
    after.wait_until_away();
    after.publish("Hail");
    let mut toy = Lines::connect(after.toys);
    assert_eq!([toy.hear(), toy.hear()], ["Weather/Snow", "Weather/Hail"]);
}

#[test]
fn a_durable_consumer_gets_what_its_far_side_wants_and_goes_when_an_operator_ends_it() {
    let folder = TempPath::new("subscribing-toy");
    let mut service = Durable::start(&folder);
    let mut toy = Lines::connect(service.toys);
    let hears = |toy: &mut Lines, service: &mut Durable, command: &str| {
        // What its own consumer wants does not count, so that this is answered once.
        for command in [command, "/unwanted", "/wanted"] {
            toy.say(command);
        }
        assert_eq!(toy.hear(), "wanted:");
        for name in ["Wind", "Rain"] {
            service.publish(name);
        }
        toy.say("End");
        let mut heard = Vec::new();
        while heard.last().is_none_or(|line| line != "+") {
            heard.push(toy.hear());
        }
        heard.retain(|line| line.starts_with("Weather"));
        heard
    };
    assert_eq!(hears(&mut toy, &mut service, "/none"), [""; 0]);
    assert_eq!(hears(&mut toy, &mut service, "/wind"), ["Weather/Wind"]);
    // Too many types are everything.
    assert_eq!(hears(&mut toy, &mut service, "/many"), ["Weather/Wind", "Weather/Rain"]);
    assert_eq!(service.service.counters().read(Counter::SubscriptionsWidened), 1);
    assert_eq!(hears(&mut toy, &mut service, "/none"), [""; 0]);
    // It is told what others want, when that changes.
    service.json.say(r#"{"op":"subscribe","id":77,"types":["Weather/Wind"]}"#);
    assert_eq!(service.json.hear(), r#"{"ok":77}"#);
    assert_eq!(toy.hear(), "wanted: Weather/Wind");
    service.json.say(r#"{"op":"unsubscribe","id":78,"subscription":77}"#);
    assert_eq!(service.json.hear(), r#"{"ok":78}"#);
    assert_eq!(toy.hear(), "wanted:");
    let Ok(Answer::Consumers(consumers)) = service.service.ask(Query::Consumers) else { panic!("no answer") };
    service.service.command(Command::Disconnect(consumers[0].outbox.key)).unwrap();
    assert_eq!(toy.hear(), "", "its connection ends");
    testing::wait_until("the consumer to go", || service.states().is_empty());
}

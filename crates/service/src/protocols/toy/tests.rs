//! A service with a fifth protocol.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};

use accounts::Resource;

use super::LISTEN;
use crate::Service;
use crate::admin::values::{Answer, Command, LinkState, Query};
use crate::config::{Config, Json, Lanes, Limits, Scheduling};

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

/// A socket's number had two bits for the protocol, so that a fifth one took hold of GIOP's connections; and some sixty functions named
/// each protocol by hand.
#[test]
fn a_fifth_protocols_events_reach_clients_of_json_in_the_same_lane_and_theirs_reach_its_own() {
    let toys = SocketAddr::from((testing::own_loopback(), 4_711));
    LISTEN.set(Some(toys));
    let config = Config {
        listen: "127.0.0.1:0".into(),
        json: Json { listen: Some("0".into()), ..Json::default() },
        lanes: Lanes { scheduling: Scheduling::Ordinary, ..Lanes::default() },
        limits: Limits { memory_bytes: Some(1 << 30), ..Limits::default() },
        ..Config::default()
    };
    let service = Service::start(config).unwrap();
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

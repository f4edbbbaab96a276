//! A service with a fifth protocol.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};

use accounts::Resource;

use super::LISTEN;
use crate::Service;
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

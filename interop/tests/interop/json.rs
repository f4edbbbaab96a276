//! Python programs that speak lines of JSON share channels with programs of the orbs.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use service::{Config, Json};
use testing::Leash;

use interop::{Orb, first_consumer, service_with, supplier};

/// Prints the number of each event that it wants, of so many.
const SUBSCRIBER: &str = r#"
import json, socket, sys
port, channel, count = map(int, sys.argv[1:])
service = socket.create_connection(("127.0.0.1", port)).makefile("rw")
wish = {"op": "subscribe", "id": 1, "channel": channel, "types": ["Campanile/*"], "where": "$number >= 100"}
service.write(json.dumps(wish) + "\n")
service.flush()
print(service.readline().strip(), flush=True)
for _ in range(count):
    event = json.loads(service.readline())["event"]
    print(event["type"], event["name"], event["fields"]["number"], flush=True)
"#;

/// Publishes one event and prints the answer.
const PUBLISHER: &str = r#"
import json, socket, sys
port, channel = map(int, sys.argv[1:])
service = socket.create_connection(("127.0.0.1", port)).makefile("rw")
event = {"op": "publish", "id": 7, "channel": channel, "type": "Campanile/small", "name": "event-0", "fields": {"number": 0}}
service.write(json.dumps(event) + "\n")
service.flush()
print(service.readline().strip())
"#;

#[test]
fn python_gets_what_the_orbs_suppliers_push_and_the_orbs_consumers_what_python_publishes() {
    for (of_supplier, of_consumer) in Orb::PAIRINGS {
        let json = Json { listen: Some("127.0.0.1:0".into()), ..Json::default() };
        let service = service_with(Config { json, ..Config::default() });
        let port = service.json_address().unwrap().port().to_string();
        let words = "--form structured --scenario small --every 1 --count 201";
        let (mut consumer, channel) = first_consumer(of_consumer, &service, words);
        let mut python = Command::new("python3");
        python.args(["-c", SUBSCRIBER, &port, &channel, "100"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut python = python.spawn().expect("python3");
        let leash = Leash::new(&python, "what a Python subscriber prints");
        let mut printed = BufReader::new(python.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(printed.next().unwrap(), r#"{"ok":1}"#);
        supplier(of_supplier, &service, &channel, "--form structured --scenario small --count 200").end().well();
        let all: Vec<String> = printed.collect();
        let wanted: Vec<String> = (100..200).map(|n| format!("Campanile/small event-{n} {n}")).collect();
        assert_eq!(all, wanted, "{of_supplier:?}");
        assert!(python.wait().unwrap().success());
        drop(leash);
        consumer.wait_for("ok 199");
        // It is the first event over again, as far as it goes: the orb reads it, and finds that it is not the one it waits for.
        let published = testing::output_in_time(Command::new("python3").args(["-c", PUBLISHER, &port, &channel]));
        assert_eq!(String::from_utf8_lossy(&published.stdout), "{\"ok\":7}\n");
        consumer.wait_for("bad 200");
    }
}

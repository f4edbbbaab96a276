//! Clients that do what those of ALMA Common Software do.

use service::Service;

use crate::restarts::begin;
use interop::{Orb, Peer};
use testing::TempPath;

const FACTORY: &str = "NotifyEventChannelFactory";

fn client(orb: Orb, service: &Service, name: &str) -> Peer {
    let words = format!(
        "alma --factory {} --monitor {} --initref NameService={} --channel-name CONTROL --name {name}",
        service.corbaloc(FACTORY),
        service.corbaloc("TAO_MonitorAndControl"),
        service.corbaloc("NameService"),
    );
    Peer::start(orb, &words)
}

/// What a client is told of a statistic, as one line.
fn statistic(client: &mut Peer, name: &str) -> String {
    client.tell(&format!("statistic {FACTORY}/{name}"));
    client.wait_for("statistic")
}

fn listed(client: &mut Peer, name: &str) -> Vec<String> {
    let mut all: Vec<String> = statistic(client, name).split_whitespace().map(str::to_owned).collect();
    all.sort_unstable();
    all
}

/// Waits for a line, which may have come already.
fn await_line(client: &mut Peer, line: &str) {
    if client.count(line) == 0 {
        client.wait_for(line);
    }
}

/// Each pushes so many events, and both have got the last of them.
fn exchange(clients: &mut [Peer; 2], first: u32, count: u32) {
    for (at, name) in ["one", "two"].into_iter().enumerate() {
        clients[at].tell(&format!("push {count}"));
        clients[at].wait_for(&format!("pushed {}", first + count));
        let last = format!("got {name} {}", first + count - 1);
        clients.iter_mut().for_each(|client| await_line(client, &last));
    }
}

#[test]
fn they_create_race_share_reconnect_and_read_statistics() {
    for (of_one, of_two) in Orb::PAIRINGS {
        let folder = TempPath::new(&format!("alma-{of_one:?}-{of_two:?}"));
        let mut service = begin(&folder, &format!("{}:0", testing::own_loopback()));
        let listen = service.address().to_string();
        let mut clients = [client(of_one, &service, "one"), client(of_two, &service, "two")];
        let came = clients.each_mut().map(|client| client.wait_for("channel "));
        let created = came.iter().filter(|came| *came == "created").count();
        assert_eq!(created, 1, "{came:?}: of two that come at once one makes the channel");
        // It is bound by now, so that the other finds it.
        for (client, came) in clients.iter_mut().zip(&came) {
            if came == "used" {
                client.tell("look");
            }
        }
        let mut proxies = clients.each_mut().map(|client| client.wait_for("proxy "));
        clients.iter_mut().for_each(|client| _ = client.wait_for("ready"));
        exchange(&mut clients, 0, 10);
        let names = |client: &mut Peer| listed(client, "CONTROL/ConsumerNames");
        let path = |name: &str| format!("{FACTORY}/CONTROL/{name}");
        let expected = ["dish", "dish-1", "dummyproxy-one", "dummyproxy-two"].map(path);
        for client in &mut clients {
            assert_eq!(names(client), expected);
            assert_eq!(listed(client, "CONTROL/SupplierNames"), ["one", "two"].map(path));
            assert_eq!(statistic(client, "CONTROL/ConsumerCount"), "4");
            assert_eq!(listed(client, "ActiveEventChannelNames"), [format!("{FACTORY}/CONTROL")]);
            assert_eq!(statistic(client, "CONTROL/QueueElementCount"), "0");
            // 13 of a channel.
            assert_eq!(statistic(client, "CONTROL/Consumers"), "InvalidName 13");
        }
        service.shutdown();
        service = begin(&folder, &listen);
        // Their callbacks are told; one of them then makes its proxy anew, as ALMA's do, and the other just goes on.
        clients.iter_mut().for_each(|client| assert_eq!(client.wait_for("reconnect"), ""));
        clients[0].tell("again");
        assert_eq!(clients[0].wait_for("proxy "), proxies[0], "under the name that it had");
        clients[0].wait_for("subscribed");
        assert_eq!(names(&mut clients[1]), expected, "its former proxy has given way");
        exchange(&mut clients, 10, 10);
        proxies.sort_unstable();
        assert_eq!(proxies, ["dish", "dish-1"]);
        for (client, name) in clients.into_iter().zip(["one", "two"]) {
            let ended = client.quit().well();
            for from in ["one", "two"] {
                let got: Vec<String> =
                    ended.lines.iter().filter(|line| line.starts_with(&format!("got {from} "))).cloned().collect();
                let all: Vec<String> = (0..20).map(|number| format!("got {from} {number}")).collect();
                assert_eq!(got, all, "{name} gets each event once and in order");
            }
        }
        service.shutdown();
    }
}

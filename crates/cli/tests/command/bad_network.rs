//! Tempo's programs over a network that loses, repeats, delays and reorders packets, and parts: three network namespaces, joined by `link`
//! or, where the kernel has netem, made bad by that.

#![expect(clippy::indexing_slicing, reason = "a test fails by panicking, in its helpers too")]

mod link;

use crate::json;
use crate::namespaces::within_namespaces;
use crate::support::PROGRAM;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;
use testing::{Killed, NextInTime as _, lines_of, output_in_time};

#[test]
fn messages_come_in_order_over_a_network_that_loses_repeats_and_reorders_and_come_again_when_it_was_parted() {
    within_namespaces(&["/dev/net/tun"], over_bad_networks);
}

/// A program in a network namespace of its own, and what it says on standard output and standard error.
struct Program {
    child: Killed,
    lines: Receiver<String>,
    reports: Receiver<String>,
    /// Whether the kernel makes its packets late, and so on.
    has_netem: bool,
}

impl Program {
    /// At 10.77.0.1, 10.77.0.2 and so on: each place is taken once.
    fn start(host: usize, arguments: &[&str]) -> Self {
        let device = format!("bad{}", host - 1);
        // It has its namespace before the device is moved there.
        let script = format!(
            "echo here; read go; ip link set lo up; ip address add 10.77.0.{host}/24 dev {device}; \
             ip link set {device} up; tc qdisc add dev {device} root {} 2>/dev/null && echo netem || echo none; exec \"$@\"",
            link::NETEM
        );
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", &script, "sh", PROGRAM]).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (lines, reports) = (lines_of(child.stdout.take().unwrap()), lines_of(child.stderr.take().unwrap()));
        let mut program = Self { child: Killed(child), lines, reports, has_netem: false };
        assert_eq!(program.lines.next_in_time(), "here");
        let there = program.child.id().to_string();
        let moved = output_in_time(Command::new("ip").args(["link", "set", &device, "netns", &there]));
        assert!(moved.status.success(), "{}", String::from_utf8_lossy(&moved.stderr));
        program.child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        program.has_netem = program.lines.next_in_time() == "netem";
        program
    }

    /// The next line of standard error that has this in it.
    fn report(&self, has: &str) -> String {
        next(&self.reports, has)
    }

    /// The number in the next message.
    fn number(&self) -> u64 {
        json(&self.lines.next_in_time())["text"].as_str().unwrap().parse().unwrap()
    }
}

/// The next line that has this in it.
pub(crate) fn next(lines: &Receiver<String>, has: &str) -> String {
    std::iter::repeat_with(|| lines.next_in_time()).find(|line| line.contains(has)).unwrap()
}

/// A subscriber at one place, and a publisher of numbers at another, both with the broker.
fn pair(transport: &str, period: &str, places: [usize; 2]) -> [Program; 2] {
    let (topic, at) = (format!("Bad/{transport}"), format!("{transport}://10.77.0.1:2811"));
    let usual = ["--period", period, "--report"];
    let subscriber = [&["tempo", "sub", &topic, "--from", &at, "--json"][..], &usual].concat();
    let publisher = ["tempo", "pub", &topic, "{n}", "--to", &at, "-n", "0", "--rate", "250", "--wait", "60"];
    [Program::start(places[0], &subscriber), Program::start(places[1], &[&publisher[..], &usual].concat())]
}

/// Over UDP messages are missing that are lost, or overtaken, and the others come in order, each once. A probe goes through the broker, and
/// its echo back past it: 20 ms or more, three times.
fn over_udp(said: &link::Said) {
    let [subscriber, publisher] = pair("udp", "0.1", [2, 3]);
    let (mut last, mut missing) = (subscriber.number(), 0);
    let mut take = |count: u32| {
        for _ in 0..count {
            let number = subscriber.number();
            assert!(number > last, "{number} comes behind {last}");
            missing += number - last - 1;
            last = number;
        }
        missing
    };
    let missing = take(500);
    let delay = publisher.report("; delay at most ");
    let delay = delay.split("delay at most ").nth(1).unwrap().split(',').next().unwrap();
    // Slower ones are possible, where the machine has other things to do.
    let is_due = delay.strip_suffix(" ms").is_none_or(|ms| ms.parse::<f64>().unwrap() >= 60.0);
    assert!(is_due && !delay.ends_with("µs"), "{delay}");
    assert!(missing > 0);
    // Some of them are missing only between the broker and the subscriber, which counts those.
    while subscriber.report(", lost ").contains(", lost 0,") {}

    said.is_parted.store(true, Relaxed);
    subscriber.report("campanile: 0 publishers");
    publisher.report("campanile: 0 subscribers");
    said.is_parted.store(false, Relaxed);
    publisher.report("campanile: 1 subscriber");
    take(500);
}

/// Over TCP nothing is missing. A period is longer than what TCP takes to say again what was lost twice.
fn over_tcp() {
    let [subscriber, _publisher] = pair("tcp", "1", [4, 5]);
    let first = subscriber.number();
    for number in first + 1..first + 500 {
        assert_eq!(subscriber.number(), number);
    }
}

/// Says what befell the packets.
fn over_bad_networks() -> String {
    let said = link::begin(5).unwrap();
    let broker = Program::start(1, &["serve", "--listen", "127.0.0.1:0", "--tempo-listen", "10.77.0.1:2811"]);
    said.is_plain.store(broker.has_netem, Relaxed);
    // It may say before that it has no real-time threads.
    next(&broker.lines, "campanile: ready at ");
    over_udp(&said);
    over_tcp();
    let did = [&said.lost, &said.sent_twice, &said.overtaken, &said.withheld].map(|count| count.load(Relaxed));
    assert!(broker.has_netem || did.iter().all(|&count| count > 0), "{did:?}");
    let by = if broker.has_netem { "netem" } else { "the test: the kernel has no netem" };
    format!(
        "packets are lost and late by {by}; lost, sent twice, overtaken, and kept while the network was parted: {did:?}"
    )
}

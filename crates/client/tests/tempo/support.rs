//! End points at addresses that no other test uses.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use campanile_client::OrbTls;
use campanile_client::tempo::{MESSAGE_MAX, Message, Node, NodeBuilder, Publisher, Subscriber};
use testing::certificates::{Authority, Certified};
use testing::{NextInTime, PATIENCE};

/// How soon end points announce themselves here: tests wait for it, and threads that are kept waiting for three of them are forgotten.
pub(crate) const PERIOD: Duration = Duration::from_millis(250);

/// What carries frames.
pub(crate) const TRANSPORTS: [&str; 3] = ["udp", "tcp", "tls"];

/// An end point that announces itself often.
pub(crate) fn open(address: &str) -> Node {
    open_as(address, |builder| builder)
}

/// One that others do not forget, however long its threads or callbacks are kept waiting.
pub(crate) fn open_calm(address: &str) -> Node {
    open_as(address, |builder| builder.period(Duration::from_secs(60)))
}

/// One for messages of up to 1 MiB.
pub(crate) fn open_large(address: &str) -> Node {
    open_as(address, |builder| builder.messages_up_to(MESSAGE_MAX))
}

fn open_as(address: &str, set: impl FnOnce(NodeBuilder) -> NodeBuilder) -> Node {
    let builder = set(Node::builder(address).unwrap().period(PERIOD));
    if !address.starts_with("tls:") {
        return builder.open().unwrap();
    }
    // All end points show the same certificate. Files are there as long as they are read.
    static PEMS: LazyLock<[Vec<u8>; 3]> = LazyLock::new(|| {
        let authority = Authority::new("tempo-all");
        let Certified { certificate, key, .. } = authority.certify("end point");
        [authority.file(), certificate, key].map(|file| std::fs::read(file).unwrap())
    });
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let file = |kind: &str| std::env::temp_dir().join(format!("tempo-{}-{number}-{kind}.pem", std::process::id()));
    let files = ["ca", "certificate", "key"].map(file);
    files.iter().zip(PEMS.iter()).for_each(|(file, pem)| std::fs::write(file, pem).unwrap());
    let [ca, certificate, key] = files.clone();
    // Tests have addresses of the loopback network that no certificate names.
    let tls = OrbTls { check_names: false, ..OrbTls::trusting(ca).with_identity(certificate, key) };
    let node = builder.tls(tls).open().unwrap();
    files.iter().for_each(|file| std::fs::remove_file(file).unwrap());
    node
}

/// One that waits at a free port.
pub(crate) fn wait_somewhere(transport: &str) -> Node {
    open(&format!("{transport}://@127.0.0.1:0"))
}

/// How others reach it.
pub(crate) fn address(transport: &str, node: &Node) -> String {
    format!("{transport}://{}", node.local_address().unwrap())
}

/// What a subscriber gets, as it comes.
pub(crate) struct Heard {
    pub(crate) subscriber: Subscriber,
    messages: Receiver<Vec<u8>>,
}

impl Heard {
    pub(crate) fn of(node: &Node, topic: &str) -> Self {
        let (sender, messages) = channel();
        // The test may have ended.
        let tell = move |message: &Message<'_>| _ = sender.send(message.octets.to_vec());
        Self { subscriber: node.subscriber(topic).on(tell).unwrap(), messages }
    }

    #[track_caller]
    pub(crate) fn next(&self) -> Vec<u8> {
        self.messages.next_in_time()
    }

    #[track_caller]
    pub(crate) fn texts(&self, count: usize) -> Vec<String> {
        (0..count).map(|_| String::from_utf8(self.next()).unwrap()).collect()
    }
}

/// Waits until there are so many subscribers.
#[track_caller]
pub(crate) fn meets(publisher: &Publisher, subscribers: u32) {
    assert!(publisher.wait_for_subscribers(subscribers, PATIENCE), "waited a minute for {subscribers} subscribers");
}

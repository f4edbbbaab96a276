//! End points at addresses that no other test uses.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use campanile_client::tempo::{MESSAGE_MAX, Message, Node, Publisher, Subscriber};
use testing::{NextInTime, PATIENCE};

/// How soon end points announce themselves here: tests wait for it.
pub(crate) const PERIOD: Duration = Duration::from_millis(50);

/// What carries frames.
pub(crate) const TRANSPORTS: [&str; 2] = ["udp", "tcp"];

/// An end point that announces itself often.
pub(crate) fn open(address: &str) -> Node {
    Node::builder(address).unwrap().period(PERIOD).open().unwrap()
}

/// One for messages of up to 1 MiB.
pub(crate) fn open_large(address: &str) -> Node {
    Node::builder(address).unwrap().period(PERIOD).messages_up_to(MESSAGE_MAX).open().unwrap()
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

/// Waits until somebody listens.
#[track_caller]
pub(crate) fn meets(publisher: &Publisher, subscribers: u32) {
    assert!(publisher.wait_for_subscribers(subscribers, PATIENCE), "waited a minute for {subscribers} subscribers");
}

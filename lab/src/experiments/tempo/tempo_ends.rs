//! The ends by Tempo: the client's publisher and subscriber, as any program has them.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use client::tempo::{Address, Node, Publisher, Subscriber};

use super::ends::{PAYLOAD, Transport};
use crate::BenchError;
use crate::campanile::setup;

const CONNECTING: &str = "connecting a publisher and subscribers by Tempo";
/// For how long publisher and subscriber may look for each other.
const FOUND_WITHIN: Duration = Duration::from_secs(20);
/// The rate that is announced, the same by all.
const ANNOUNCED: f64 = 1_000.0;

fn address(transport: Transport, place: SocketAddr, waits: bool) -> Address {
    let transport = match transport {
        Transport::Tcp => client::tempo::Transport::Tcp,
        Transport::Udp => client::tempo::Transport::Udp,
    };
    Address { transport, host: place.ip().to_string(), port: place.port(), waits, channel: None }
}

/// A subscriber at a broker, which has `taker` called with each message.
pub(super) fn subscribe(
    transport: Transport,
    broker: SocketAddr,
    topic: &str,
    mut taker: impl FnMut(&[u8]) + Send + 'static,
) -> Result<Subscriber, BenchError> {
    let node = Node::open(&address(transport, broker, false).to_string()).map_err(setup(CONNECTING))?;
    node.subscriber(topic).on(move |message| taker(message.octets)).map_err(setup(CONNECTING))
}

/// A publisher and its subscribers, each an end point of its own.
pub(super) struct Crowd {
    pub(super) publisher: Publisher,
    pub(super) subscribers: Vec<Subscriber>,
}

impl Crowd {
    /// Connects so many through the group or the broker there, or to the publisher; each has `taker` called with its messages.
    pub(super) fn connect(
        transport: Transport,
        through: Option<SocketAddr>,
        (topic, count): (&str, u32),
        taker: impl Fn(&[u8]) + Send + Sync + Clone + 'static,
    ) -> Result<Self, BenchError> {
        let topic = format!("Bench/{topic}-{}", transport.name());
        let open = |place, waits| {
            let builder = Node::builder(&address(transport, place, waits).to_string()).map_err(setup(CONNECTING))?;
            builder.interface(Ipv4Addr::LOCALHOST.into()).open().map_err(setup(CONNECTING))
        };
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let publishing = open(through.unwrap_or(here), through.is_none())?;
        let turns_to = through.or_else(|| publishing.local_address()).unwrap_or(here);
        let publisher = publishing.publisher(&topic).rate(ANNOUNCED).open().map_err(setup(CONNECTING))?;
        let mut subscribers = Vec::new();
        for _ in 0..count {
            let taker = taker.clone();
            let builder = open(turns_to, false)?.subscriber(&topic).rate(ANNOUNCED);
            subscribers.push(builder.on(move |message| taker(message.octets)).map_err(setup(CONNECTING))?);
        }
        let is_broker = through.is_some_and(|through| !client::tempo::is_group(through));
        let found = publisher.wait_for_subscribers(if is_broker { 1 } else { count }, FOUND_WITHIN)
            && subscribers.iter().all(|subscriber| subscriber.wait_for_publishers(1, FOUND_WITHIN));
        let unfound = || format!("they did not find each other on {topic} within {} s", FOUND_WITHIN.as_secs());
        if found { Ok(Self { publisher, subscribers }) } else { Err(setup(CONNECTING)(unfound())) }
    }
}

/// Publishes a message that is to be before others.
pub(super) fn publish_first(publisher: &Publisher, message: &[u8; PAYLOAD]) -> Result<(), BenchError> {
    publisher.publish_with(1, message).map_err(setup("publishing by Tempo"))
}

/// Publishes messages, gathered if there are several.
pub(super) fn publish(publisher: &Publisher, messages: &[[u8; PAYLOAD]]) -> Result<(), BenchError> {
    match messages {
        [message] => publisher.publish(message),
        messages => publisher.publish_all(messages),
    }
    .map_err(setup("publishing by Tempo"))
}

//! The ends by Tempo: the client's publisher and subscriber, as any program has them.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use client::tempo::{Address, Error, Node, Publisher, Subscriber};

use super::ends::{PAYLOAD, Transport};
use crate::BenchError;

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

/// Connects a publisher and a subscriber, which has `taker` called with each message; through the broker there if there is one.
pub(super) fn connect(
    transport: Transport,
    broker: Option<SocketAddr>,
    topic: &str,
    mut taker: impl FnMut(&[u8]) + Send + 'static,
) -> Result<(Publisher, Subscriber), BenchError> {
    // Without a broker the subscriber turns to the publisher, which waits for it.
    let waits_at = broker.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
    let publishing = Node::open(&address(transport, waits_at, broker.is_none()).to_string()).map_err(setup)?;
    let turns_to = match broker {
        Some(broker) => broker,
        None => publishing.local_address().ok_or_else(|| BenchError::Setup {
            doing: "waiting for a subscriber by Tempo".to_owned(),
            reason: "the publisher has no address".to_owned(),
        })?,
    };
    let publisher = publishing.publisher(topic).rate(ANNOUNCED).open().map_err(setup)?;
    let subscribing = Node::open(&address(transport, turns_to, false).to_string()).map_err(setup)?;
    let subscriber =
        subscribing.subscriber(topic).rate(ANNOUNCED).on(move |message| taker(message.octets)).map_err(setup)?;
    let found = publisher.wait_for_subscribers(1, FOUND_WITHIN) && subscriber.wait_for_publishers(1, FOUND_WITHIN);
    if found { Ok((publisher, subscriber)) } else { Err(unfound(topic)) }
}

/// A subscriber at a broker, which has `taker` called with each message.
pub(super) fn subscribe(
    transport: Transport,
    broker: SocketAddr,
    topic: &str,
    mut taker: impl FnMut(&[u8]) + Send + 'static,
) -> Result<Subscriber, BenchError> {
    let node = Node::open(&address(transport, broker, false).to_string()).map_err(setup)?;
    node.subscriber(topic).on(move |message| taker(message.octets)).map_err(setup)
}

/// A publisher and many subscribers, each an end point of its own.
pub(super) struct Crowd {
    pub(super) publisher: Publisher,
    #[expect(dead_code, reason = "kept receiving")]
    subscribers: Vec<Subscriber>,
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
            let builder = Node::builder(&address(transport, place, waits).to_string()).map_err(setup)?;
            builder.interface(Ipv4Addr::LOCALHOST.into()).open().map_err(setup)
        };
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let publishing = open(through.unwrap_or(here), through.is_none())?;
        let turns_to = through.or_else(|| publishing.local_address()).unwrap_or(here);
        let publisher = publishing.publisher(&topic).rate(ANNOUNCED).open().map_err(setup)?;
        let mut subscribers = Vec::new();
        for _ in 0..count {
            let taker = taker.clone();
            let builder = open(turns_to, false)?.subscriber(&topic).rate(ANNOUNCED);
            subscribers.push(builder.on(move |message| taker(message.octets)).map_err(setup)?);
        }
        let is_broker = through.is_some_and(|through| !client::tempo::is_group(through));
        let found = publisher.wait_for_subscribers(if is_broker { 1 } else { count }, FOUND_WITHIN)
            && subscribers.iter().all(|subscriber| subscriber.wait_for_publishers(1, FOUND_WITHIN));
        if found { Ok(Self { publisher, subscribers }) } else { Err(unfound(&topic)) }
    }
}

/// Publishes a message that is to be before others.
pub(super) fn publish_first(publisher: &Publisher, message: &[u8; PAYLOAD]) -> Result<(), BenchError> {
    publisher.publish_with(1, message).map_err(publishing)
}

/// Publishes messages, gathered if there are several.
pub(super) fn publish(publisher: &Publisher, messages: &[[u8; PAYLOAD]]) -> Result<(), BenchError> {
    match messages {
        [message] => publisher.publish(message),
        messages => publisher.publish_all(messages),
    }
    .map_err(publishing)
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` gives it")]
fn publishing(error: Error) -> BenchError {
    BenchError::Setup { doing: "publishing by Tempo".to_owned(), reason: error.to_string() }
}

fn setup(error: Error) -> BenchError {
    BenchError::Setup {
        doing: "connecting a publisher and a subscriber by Tempo".to_owned(),
        reason: error.to_string(),
    }
}

fn unfound(topic: &str) -> BenchError {
    BenchError::Setup {
        doing: "connecting a publisher and a subscriber by Tempo".to_owned(),
        reason: format!("they did not find each other on {topic} within {} s", FOUND_WITHIN.as_secs()),
    }
}

//! The ends by Tempo: the client's publisher and subscriber, as any program has them.

use std::net::SocketAddr;
use std::time::Duration;

use client::tempo::{Address, Error, Node, Publisher, Subscriber};

use super::ends::{PAYLOAD, Transport};
use crate::BenchError;

/// For how long publisher and subscriber may look for each other.
const FOUND_WITHIN: Duration = Duration::from_secs(20);
/// The rate that is announced, the same by all.
const ANNOUNCED: f64 = 1_000.0;

/// Connects a publisher and a subscriber, which has `taker` called with each message; through the broker there if there is one.
pub(super) fn connect(
    transport: Transport,
    broker: Option<SocketAddr>,
    topic: &str,
    mut taker: impl FnMut(&[u8]) + Send + 'static,
) -> Result<(Publisher, Subscriber), BenchError> {
    let address = |place: SocketAddr, waits| Address {
        transport: match transport {
            Transport::Tcp => client::tempo::Transport::Tcp,
            Transport::Udp => client::tempo::Transport::Udp,
        },
        host: place.ip().to_string(),
        port: place.port(),
        waits,
        channel: None,
    };
    // Without a broker the subscriber turns to the publisher, which waits for it.
    let waits_at = broker.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
    let publishing = Node::open(&address(waits_at, broker.is_none()).to_string()).map_err(setup)?;
    let turns_to = match broker {
        Some(broker) => broker,
        None => publishing.local_address().ok_or_else(|| BenchError::Setup {
            doing: "waiting for a subscriber by Tempo".to_owned(),
            reason: "the publisher has no address".to_owned(),
        })?,
    };
    let publisher = publishing.publisher(topic).rate(ANNOUNCED).open().map_err(setup)?;
    let subscribing = Node::open(&address(turns_to, false).to_string()).map_err(setup)?;
    let subscriber =
        subscribing.subscriber(topic).rate(ANNOUNCED).on(move |message| taker(message.octets)).map_err(setup)?;
    let found = publisher.wait_for_subscribers(1, FOUND_WITHIN) && subscriber.wait_for_publishers(1, FOUND_WITHIN);
    if found { Ok((publisher, subscriber)) } else { Err(unfound(topic)) }
}

/// Publishes messages, gathered if there are several.
pub(super) fn publish(publisher: &Publisher, messages: &[[u8; PAYLOAD]]) -> Result<(), BenchError> {
    match messages {
        [message] => publisher.publish(message),
        messages => publisher.publish_all(messages),
    }
    .map_err(|error| BenchError::Setup { doing: "publishing by Tempo".to_owned(), reason: error.to_string() })
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

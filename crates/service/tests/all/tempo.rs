//! The small protocol (docs/tempo.md): end points that are only sockets, and the service as their broker.

mod peers;

use core::time::Duration;
use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};

use client::notify::{Property, StructuredEvent};
use service::{Config, Counter, Limits, Service, Tempo};
use tempo::wire::{Content, Data, Frame, Header, Payload, Probe, Report, Role};

use self::peers::{Datagrams, EndPoint, Got, Stream, announcement, frame};
use crate::peers::{await_count, start_with, wait_until};

fn start() -> Service {
    start_as(|_| {})
}

fn start_as(change: impl FnOnce(&mut Config)) -> Service {
    let tempo = Tempo { listen: Some("0".into()), period_ms: 100, ..Tempo::default() };
    let mut config = Config { tempo, ..Config::default() };
    change(&mut config);
    start_with(config)
}

fn read(service: &Service, counter: Counter) -> u64 {
    service.counters().read(counter)
}

// ---- what it is for ----

#[test]
fn what_is_published_over_udp_reaches_subscribers_over_udp_and_over_tcp_and_the_other_way() {
    let service = start();
    let mut near = Datagrams::subscribed(&service, 21, "Weather/Wind");
    let mut far = Stream::subscribed(&service, 22, "Weather/Wind");
    let mut publishers: [Box<dyn EndPoint>; 2] = [
        Box::new(Datagrams::publishing(&service, 31, "Weather/Wind")),
        Box::new(Stream::publishing(&service, 32, "Weather/Wind")),
    ];
    for (number, publisher) in (1..).zip(&mut publishers) {
        let header = Header { sent: 1_000 + number, priority: 7, ..publisher.header(1, 5) };
        publisher.send(&frame(header, data(b"gust")));
        for subscriber in [&mut near as &mut dyn EndPoint, &mut far] {
            let (header, octets) = subscriber.message();
            assert_eq!(octets, b"gust");
            assert_eq!((header.sent, header.priority, header.by_broker), (1_000 + number, 7, true));
            assert_eq!(u64::from(header.sequence), number, "numbered for each subscriber");
        }
    }
}

fn data(octets: &[u8]) -> Payload<'_> {
    Payload::Data(Data { fragment: None, content: Content::Octets, octets })
}

//! What `c/test.c` prints of frames and addresses, as it ought to be.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use tempo::wire::{Announcement, Content, Data, Fragment, Frame, Header, Payload, Probe, Report, Role, Unreadable};

pub(crate) fn hex(octets: &[u8]) -> String {
    if octets.is_empty() {
        return "-".to_owned();
    }
    let mut text = String::with_capacity(2 * octets.len());
    for octet in octets {
        write!(text, "{octet:02x}").unwrap();
    }
    text
}

pub(crate) fn octets(hex: &str) -> Vec<u8> {
    if hex == "-" {
        return Vec::new();
    }
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// `family/port/octets`; without an address: `0/0/…`.
pub(crate) fn address(address: Option<SocketAddr>) -> String {
    let mut octets = [0; 16];
    let (family, port) = match address.map(|address| (address.ip(), address.port())) {
        None => (0, 0),
        Some((IpAddr::V4(ip), port)) => {
            octets[..4].copy_from_slice(&ip.octets());
            (4, port)
        }
        Some((IpAddr::V6(ip), port)) => {
            octets = ip.octets();
            (6, port)
        }
    };
    format!("{family}/{port}/{}", hex(&octets))
}

/// What `tempo_read` ought to say of octets, and `tempo_write` of the frame they begin with.
pub(crate) fn verdict(bytes: &[u8]) -> String {
    match Frame::read(bytes) {
        Ok((frame, octets)) => format!("good {octets}{}", written(&frame)),
        Err(Unreadable::Incomplete { missing }) => format!("incomplete {missing}"),
        Err(Unreadable::Magic(_)) => "magic".to_owned(),
        Err(Unreadable::Version(_)) => "version".to_owned(),
        Err(Unreadable::Length(_)) => "length".to_owned(),
        Err(Unreadable::Session) => "session".to_owned(),
        Err(Unreadable::Kind { octets, .. }) => format!("kind {octets}"),
        Err(Unreadable::Payload { octets }) => format!("payload {octets}"),
        Err(other) => panic!("{other} is new"),
    }
}

/// A frame's fields, and its octets.
pub(crate) fn written(frame: &Frame<'_>) -> String {
    let mut bytes = vec![0; frame.octets()];
    assert_eq!(frame.write(&mut bytes), Some(bytes.len()));
    format!(" {} {}", fields(frame), hex(&bytes))
}

pub(crate) fn fields(frame: &Frame<'_>) -> String {
    let Header { session, topic, sequence, sent, priority, by_broker } = frame.header;
    let (kind, payload) = match frame.payload {
        Payload::Announcement(announcement) => (1, announcement_fields(&announcement)),
        Payload::Data(data) => (2, data_fields(&data)),
        Payload::Probe(probe) => (3, probe_fields(&probe)),
        Payload::Echo(probe) => (4, probe_fields(&probe)),
        Payload::Report(Report { received, lost, rate, end_points }) => {
            (5, format!("received={received} lost={lost} rate={rate} end_points={end_points}"))
        }
        Payload::Bye(of) => (6, format!("role={}", role(of))),
        Payload::Name(name) => (7, format!("octets={}", hex(name.as_bytes()))),
    };
    let broker = u8::from(by_broker);
    format!(
        "kind={kind} broker={broker} session={session} topic={topic} sequence={sequence} sent={sent} priority={priority} {payload}"
    )
}

fn role(role: Role) -> u8 {
    match role {
        Role::Publisher => 1,
        Role::Subscriber => 2,
    }
}

fn announcement_fields(announcement: &Announcement<'_>) -> String {
    let &Announcement {
        given,
        returned,
        rate,
        highest_rate,
        deadline_us,
        end_points,
        largest,
        period_ms,
        role: of,
        name,
    } = announcement;
    format!(
        "given={given} returned={returned} rate={rate} highest={highest_rate} deadline={deadline_us} end_points={end_points} \
         largest={largest} period={period_ms} role={} octets={}",
        role(of),
        hex(name.as_bytes())
    )
}

fn data_fields(data: &Data<'_>) -> String {
    let &Data { fragment, content, octets } = data;
    let content = match content {
        Content::Octets => 0,
        Content::Typed => 1,
        Content::Structured => 2,
    };
    let fragment = match fragment {
        None => "fragment=0".to_owned(),
        Some(Fragment { total, at }) => format!("fragment=1 total={total} at={at}"),
    };
    format!("content={content} {fragment} octets={}", hex(octets))
}

fn probe_fields(probe: &Probe) -> String {
    let &Probe { sent, prober, topic, number, to, hops, echoed_by } = probe;
    let to = address(to);
    format!("sent={sent} prober={prober} topic={topic} number={number} to={to} hops={hops} echoed_by={echoed_by}")
}

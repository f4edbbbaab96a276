//! A channel's events as they come, for people who look: a consumer like any other, which takes what it has room for and never holds
//! suppliers.
//!
//! It is connected as clients are, to the service's own port: so its constraint is evaluated where everybody's is, it is seen in the
//! hierarchy, and it is gone when the browser is.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use client::notify::{Property, StructuredEvent};
use client::{ConsumerOptions, OrbOptions, Received, ServantError, SimpleConsumer};
use hyper::body::Bytes;
use json::write;
use serde_json::json;
use tokio::sync::mpsc;

/// Events that wait in the service for a browser; older ones are dropped.
const WAITING_MAX: i32 = 256;
/// Octets of an event that are shown; of a longer one, that it is longer.
const SHOWN_BYTES_MAX: usize = 16 << 10;
/// How long the service may take to make a consumer.
const WITHIN: Duration = Duration::from_secs(5);

/// What is looked at.
pub(crate) struct Wanted {
    pub(crate) service: SocketAddr,
    pub(crate) channel: i32,
    pub(crate) constraint: Option<String>,
}

/// Connects; it ends when what is returned is dropped. Events go to the stream as far as there is room, and how many did not with those that
/// do.
///
/// # Errors
/// Why the service does not let it connect.
pub(crate) fn begin(wanted: Wanted, to: mpsc::Sender<Bytes>) -> Result<SimpleConsumer, String> {
    let orb = OrbOptions { connect_timeout: WITHIN, reply_timeout: Some(WITHIN), ..OrbOptions::default() };
    let options = ConsumerOptions {
        orb,
        constraint: wanted.constraint,
        qos: vec![
            Property::new("MaxEventsPerConsumer", WAITING_MAX),
            Property::new("FullOutbox", "Discard"),
            Property::new("DiscardPolicy", 2_i16),
            Property::new("ConnectionReliability", 0_i16),
        ],
        check_every: None,
        ends_when_disconnected: true,
        ..ConsumerOptions::default()
    };
    let mut left_out = 0_u64;
    let take = move |received: Received<'_>| {
        match to.try_send(message(&received, left_out)) {
            Ok(()) => left_out = 0,
            Err(mpsc::error::TrySendError::Full(_)) => left_out += 1,
            // Nobody looks any more.
            Err(mpsc::error::TrySendError::Closed(_)) => {}
        }
        Ok::<(), ServantError>(())
    };
    let at = local(wanted.service);
    SimpleConsumer::connect(&format!("corbaloc::1.2@{at}/NotificationService"), Some(wanted.channel), options, take)
        .map_err(|error| error.to_string())
}

/// Where a service on this host is reached that listens there.
fn local(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

fn message(received: &Received<'_>, left_out: u64) -> Bytes {
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let mut text = format!("event: event\ndata: {{\"at_ms\":{at},\"left_out\":{left_out}");
    match received.event() {
        _ if received.bytes().len() > SHOWN_BYTES_MAX => text += &format!(",\"bytes\":{}", received.bytes().len()),
        Ok(event) => write_event(&mut text, &event),
        Err(error) => text += &format!(",\"error\":{}", json!(error.to_string())),
    }
    text.push_str("}\n\n");
    Bytes::from(text)
}

fn write_event(out: &mut String, event: &StructuredEvent) {
    let StructuredEvent { domain, type_name, event_name, variable_header, filterable_data, remainder } = event;
    for (key, member) in [(",\"domain\":", domain), (",\"type\":", type_name), (",\"name\":", event_name)] {
        out.push_str(key);
        write::text(out, member);
    }
    for (key, properties) in [(",\"header\":", variable_header), (",\"fields\":", filterable_data)] {
        out.push_str(key);
        let members = properties.iter().map(|property| (property.name.as_str(), &property.value.value));
        write::object(out, members, write::value);
    }
    out.push_str(",\"body\":");
    write::any(out, remainder);
}

//! Addresses at which commands find each other, and the peers found.

use crate::args::{MeetOptions, TlsOptions};
use crate::failure::Failure;
use crate::show;
pub(super) use crate::show::short_time as time;
use campanile::TlsSettings;
use client::tempo::{Address, Error, MESSAGE_MAX, Node, NodeBuilder};
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// Default address of commands.
pub(super) const DEFAULT: &str = "udp://127.0.0.1:2811";
/// Default address of a command that waits there.
const DEFAULT_WAITING: &str = "udp://@127.0.0.1:2811";
/// Time without a peer before that is reported.
pub(super) const MISSED_AFTER: Duration = Duration::from_secs(2);

/// An end point, and its address for people.
#[derive(Debug)]
pub(super) struct Meeting {
    pub(super) node: Node,
    pub(super) address: String,
    /// Whether this end point waits at the address.
    pub(super) waits: bool,
}

impl Meeting {
    /// Why there is no peer, if known, as the end of a sentence.
    pub(super) fn trouble(&self) -> String {
        self.node.trouble().map(|why| format!("; no connection to {}: {why}", self.address)).unwrap_or_default()
    }
}

/// Opens an end point at an address, by default at that of commands.
pub(super) fn meet(address: Option<&Address>, set: impl Fn(NodeBuilder) -> NodeBuilder) -> Result<Meeting, Failure> {
    let open =
        |address: &str| Node::builder(address).and_then(|builder| set(builder.messages_up_to(MESSAGE_MAX)).open());
    let Some(address) = address else {
        // The first command waits there.
        return match open(DEFAULT_WAITING) {
            Ok(node) => Ok(Meeting { node, address: DEFAULT.to_owned(), waits: true }),
            Err(Error::Socket { error, .. }) if error.kind() == io::ErrorKind::AddrInUse => {
                let node = open(DEFAULT).map_err(|error| failure(&error))?;
                Ok(Meeting { node, address: DEFAULT.to_owned(), waits: false })
            }
            Err(error) => Err(failure(&error)),
        };
    };
    let node = open(&address.to_string()).map_err(|error| failure(&error))?;
    // Port 0 is another one by now.
    let told = match node.local_address().filter(|_| address.waits) {
        Some(local) => Address { host: local.ip().to_string(), port: local.port(), ..address.clone() }.to_string(),
        None => address.to_string(),
    };
    Ok(Meeting { node, address: told, waits: address.waits })
}

/// Settings common to several commands.
pub(super) fn settings(options: &MeetOptions) -> impl Fn(NodeBuilder) -> NodeBuilder {
    let MeetOptions { bind, interface, ttl, datagram, period, client_name, tls } = options.clone();
    move |mut builder| {
        builder = with_tls(&tls)(on_network(interface)(builder).ttl(ttl).period(period));
        if let Some(bind) = bind {
            builder = builder.bind(bind);
        }
        if let Some(name) = &client_name {
            builder = builder.name(name);
        }
        if let Some(datagram) = datagram {
            builder = builder.datagram(datagram);
        }
        builder
    }
}

/// The setting common to all commands.
pub(super) fn on_network(interface: Option<IpAddr>) -> impl Fn(NodeBuilder) -> NodeBuilder {
    move |builder| match interface {
        Some(interface) => builder.interface(interface),
        None => builder,
    }
}

/// TLS settings, for an address with TLS.
pub(super) fn with_tls(options: &TlsOptions) -> impl Fn(NodeBuilder) -> NodeBuilder {
    let mut tls = TlsSettings::default();
    let TlsOptions { tls_ca, tls_certificate, tls_key } = options.clone();
    (tls.ca, tls.certificate, tls.key) = (tls_ca, tls_certificate, tls_key);
    move |builder| match tls.of_orb() {
        Some(tls) => builder.tls(tls),
        None => builder,
    }
}

/// Failure with an exit status by the fault: the user's, or another.
pub(super) fn failure(error: &Error) -> Failure {
    match error {
        Error::Address(_) | Error::Setting { .. } => Failure::Usage(error.to_string()),
        Error::TlsUnset => Failure::Usage("tls://… needs --tls-ca: the file of trusted authorities".to_owned()),
        Error::NoCertificate => Failure::Usage(format!("{error}: --tls-certificate and --tls-key")),
        Error::Host { .. } => Failure::Message(format!("{error}; check the host's name")),
        _ => Failure::message(error),
    }
}

/// An announced rate, or that there is none.
pub(super) fn rate(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), |rate| format!("{}/s", show::rate(rate)))
}

/// A count with its noun, in singular or plural.
pub(super) fn plural(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{} {one}s", show::count(count)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_unit() {
        for (nanos, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (12_345, "12.3 µs"),
            (123_456, "123 µs"),
            (1_234_567, "1.23 ms"),
            (9_999_999_999, "9.99 s"),
            (1_234_567_890_123, "1,234 s"),
        ] {
            assert_eq!(time(Duration::from_nanos(nanos)), text);
        }
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!(["subscriber", "message"].map(|one| plural(1, one)), ["1 subscriber", "1 message"]);
        assert_eq!(plural(1_000, "message"), "1,000 messages");
        assert_eq!(plural(0, "message"), "0 messages");
    }
}

//! Options of a process in a domain, as Cyclone's configuration.

use std::fmt::Write;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// Use of multicast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Multicast {
    /// As the network interface supports.
    #[default]
    Automatic,
    /// For discovery only; data goes to each reader's host.
    Discovery,
    /// Not at all: [`Options::peers`] lists the possible peers.
    Never,
}

/// Options of a process in a domain, shared by all its participants there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The network interface, by its name or its address. Default: Cyclone's choice.
    pub interface: Option<String>,
    /// Use of multicast. Default: as the interface supports.
    pub multicast: Multicast,
    /// Hosts that may have participants, by name or address. Needed without multicast: each is tried at the ports of the
    /// domain's first [`Options::peer_participants_max`] participants.
    pub peers: Vec<String>,
    /// Maximum participants of a host that are found by port. At most 119. Default: 32.
    pub peer_participants_max: u32,
    /// Samples that a writer stores for readers that are behind, before it blocks. Unit: octets. Default: 1 MiB.
    pub writer_bytes_max: u32,
    /// Size of the largest sample accepted. Unit: octets. Default: 64 MiB.
    pub sample_bytes_max: u32,
    /// Silence after which others consider this participant gone: they release what they stored for it, and their writers do not wait for
    /// it any more. It announces itself after four fifths of this time, or all but 2 s. Unit: milliseconds. Range: 200 to 3 600 000, an
    /// hour, which is Cyclone's maximum; with less than 200, a process that is not scheduled for a moment would be gone. Default: 10 000.
    /// Another value is [`Error::Option`](crate::Error::Option).
    pub lease_ms: u32,
    /// File for Cyclone's trace. Default: none.
    pub trace: Option<PathBuf>,
    /// Further configuration for Cyclone, as in `CYCLONEDDS_URI` (a file's URI or XML), which overrides the above.
    pub more: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            interface: None,
            multicast: Multicast::Automatic,
            peers: Vec::new(),
            peer_participants_max: 32,
            writer_bytes_max: 1 << 20,
            sample_bytes_max: 64 << 20,
            lease_ms: 10_000,
            trace: None,
            more: None,
        }
    }
}

impl Options {
    /// Range of [`Options::lease_ms`].
    pub const LEASE_MS: RangeInclusive<u32> = 200..=3_600_000;

    /// Options for this machine alone, without multicast.
    #[must_use]
    pub fn loopback() -> Self {
        Self {
            interface: Some("127.0.0.1".into()),
            multicast: Multicast::Never,
            peers: vec!["127.0.0.1".into()],
            ..Self::default()
        }
    }

    /// The options in Cyclone's format.
    #[must_use]
    pub fn configuration(&self) -> String {
        let mut xml = String::from("<CycloneDDS><Domain><General>");
        if let Some(interface) = &self.interface {
            let attribute = if interface.parse::<std::net::IpAddr>().is_ok() { "address" } else { "name" };
            let interface = escaped(interface);
            let _infallible = write!(xml, "<Interfaces><NetworkInterface {attribute}=\"{interface}\"/></Interfaces>");
        }
        match self.multicast {
            Multicast::Automatic => {}
            Multicast::Discovery => xml.push_str("<AllowMulticast>spdp</AllowMulticast>"),
            Multicast::Never => xml.push_str("<AllowMulticast>false</AllowMulticast>"),
        }
        xml.push_str("</General><Discovery>");
        if !self.peers.is_empty() {
            xml.push_str("<Peers>");
            for peer in &self.peers {
                let _infallible = write!(xml, "<Peer address=\"{}\"/>", escaped(peer));
            }
            xml.push_str("</Peers><ParticipantIndex>auto</ParticipantIndex>");
        }
        // A reader without room has the thread wait that receives samples. Were that the only one, no participant would be heard meanwhile:
        // after a lease all others were held to be gone, and what they wrote was lost.
        let index_max = self.peer_participants_max.clamp(1, 120) - 1;
        let _infallible = write!(
            xml,
            "<MaxAutoParticipantIndex>{index_max}</MaxAutoParticipantIndex><LeaseDuration>{} ms</LeaseDuration></Discovery>\
             <Internal><MultipleReceiveThreads>true</MultipleReceiveThreads><Watermarks><WhcHigh>{} B</WhcHigh><WhcHighInit>{} B</WhcHighInit></Watermarks><MaxSampleSize>{} B</MaxSampleSize></Internal>",
            self.lease_ms,
            self.writer_bytes_max.max(1024),
            self.writer_bytes_max.clamp(1024, 30 << 10),
            self.sample_bytes_max
        );
        if let Some(trace) = &self.trace {
            let file = escaped(&trace.to_string_lossy());
            let _infallible =
                write!(xml, "<Tracing><Verbosity>config</Verbosity><OutputFile>{file}</OutputFile></Tracing>");
        }
        xml.push_str("</Domain></CycloneDDS>");
        if let Some(more) = &self.more {
            xml.push(',');
            xml.push_str(more);
        }
        xml
    }
}

/// Escapes text for XML. `$` begins a variable in Cyclone's configuration unless `\` precedes it; the text is taken literally.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '$' => out.push_str("\\$"),
            '\\' => out.push_str("\\\\"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_does_not_break_out_of_its_place() {
        let options = Options { interface: Some("\"/><x a=\"".into()), ..Options::default() };
        assert!(options.configuration().contains("name=\"&quot;/&gt;&lt;x a=&quot;\""));
    }

    #[test]
    fn an_address_is_distinguished_from_a_name() {
        let of = |interface: &str| Options { interface: Some(interface.into()), ..Options::default() }.configuration();
        assert!(of("127.0.0.1").contains("address=\"127.0.0.1\""));
        assert!(of("eth0").contains("name=\"eth0\""));
    }
}

//! How a process takes part in a domain, as Cyclone's configuration.

use std::fmt::Write;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// Where there is multicast, and whether it is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Multicast {
    /// As the network interface says.
    #[default]
    Automatic,
    /// For finding each other only; data goes to each reader's host.
    Discovery,
    /// Not at all: [`Options::peers`] lists the possible peers.
    Never,
}

/// How a process takes part in a domain. All participants of a process in one domain share them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The network interface, by its name or its address. Default: the one that Cyclone likes best.
    pub interface: Option<String>,
    /// Default: as the interface says.
    pub multicast: Multicast,
    /// Hosts that may have participants, by name or address. Needed without multicast: each is tried at the ports of the
    /// domain's first [`Options::peer_participants_max`] participants.
    pub peers: Vec<String>,
    /// How many participants a host may have where they are found by port. At most 119. Default: 32.
    pub peer_participants_max: u32,
    /// What a writer keeps for readers that are behind before it blocks. Unit: octets. Default: 1 MiB.
    pub writer_bytes_max: u32,
    /// The largest sample that is taken. Unit: octets. Default: 64 MiB.
    pub sample_bytes_max: u32,
    /// After how long others hold this participant to be gone when it says nothing: they release what they kept for it, and their writers
    /// do not wait for it any more. It says that it is there whenever four fifths of this are over, or all but 2 s. Unit: milliseconds.
    /// Range: 200 to 3 600 000, an hour, which is the longest that Cyclone has; with less than 200, a process that is not scheduled for a
    /// moment would be gone. Default: 10 000. Another value is [`Error::Option`](crate::Error::Option).
    pub lease_ms: u32,
    /// Where Cyclone writes what it does. Default: nowhere.
    pub trace: Option<PathBuf>,
    /// More of Cyclone's own configuration, as `CYCLONEDDS_URI` has it (a file's URI or XML), which overrides the above.
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
    /// What [`Options::lease_ms`] may be.
    pub const LEASE_MS: RangeInclusive<u32> = 200..=3_600_000;

    /// On this machine alone, without multicast.
    #[must_use]
    pub fn loopback() -> Self {
        Self {
            interface: Some("127.0.0.1".into()),
            multicast: Multicast::Never,
            peers: vec!["127.0.0.1".into()],
            ..Self::default()
        }
    }

    /// As Cyclone reads it.
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

/// As XML has it. `$` begins a variable in Cyclone's configuration and `\` means that the next
/// character does not; what is given here means itself.
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

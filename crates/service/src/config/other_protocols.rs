//! `[json]`, `[http]`, `[tempo]`: ways in that need no CORBA.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Lines of JSON over TCP, a way in for scripts. It has no security: nothing is encrypted, and clients are not authenticated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Json {
    /// Address and port to listen on; a port alone means the loopback address. Default: none, and no such client is served.
    pub listen: Option<String>,
    /// Octets of a line, 1 KiB to 16 MiB. Default 256 KiB. A client that sends a longer one gets an error, and its connection is closed.
    pub line_bytes_max: u32,
}

/// Metrics, the API and the console, over HTTP. Nothing is encrypted at `listen`; `tls.http_listen` is. What changes something needs the token,
/// or a right by the rules of access.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// Address and port to listen on in the clear; a port alone means the loopback address. Default: none. Another address than a loopback
    /// one needs a token or rules of access, without which nothing is answered there.
    pub listen: Option<String>,
    /// File whose first line is the token: 16 to 256 visible characters of ASCII. Default: none, and nothing can be changed over HTTP.
    /// Where there are rules of access, these decide, and call it `token:http`.
    pub token_file: Option<PathBuf>,
    /// Names by which browsers and scrapers may call this host, beside those of the loopback address and the listening address: a request
    /// for another name is refused, since a page of another site may have a browser send it. Default: none.
    pub hosts: Vec<String>,
    /// Origins of the pages that may open WebSockets here, beside those of the host that is asked: `https://dashboard.example`, with its port
    /// if that is not the scheme's own. Default: none, and pages of other sites are refused.
    pub origins: Vec<String>,
    /// Consumers that the metrics tell of by name, 0 to 10,000. Default 100: those with the largest backlogs. The others are summed up.
    pub consumers_max: u32,
    /// Channels that the metrics tell of by number, 1 to 10,000. Default 1,000: those with the lowest. The others are summed up.
    pub channels_max: u32,
    /// Connections that may be open at once, 1 to 1,024. Default 64. More are closed at once. An address has a share of them
    /// (`limits.client_quota_percent`), but always 8.
    pub connections_max: u32,
    /// Milliseconds in which a request has to be complete, 100 to 600,000. Default 5,000. Else its connection is closed.
    pub request_within_ms: u32,
    /// Milliseconds in which an answer has to be read, 100 to 600,000. Default 10,000. Else its connection is closed.
    pub answer_within_ms: u32,
    /// WebSockets that may be open at once, 0 to 1,024. Default 16. They are among `connections_max`, and more are refused.
    pub websockets_max: u32,
    /// Milliseconds between two pings on a WebSocket from which nothing comes, 100 to 600,000. Default 20,000. After as long without an
    /// answer it is closed.
    pub websocket_ping_ms: u32,
}

/// Tempo, the small protocol for publishers and subscribers, over UDP and TCP. It has no security: nothing is encrypted, and clients are
/// not authenticated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tempo {
    /// Address and port to listen on, for datagrams and for connections; a port alone means the loopback address. Default: none, and no such
    /// client is served.
    pub listen: Option<String>,
    /// A multicast group or a broadcast address with its port, that the service listens to as well, on the network of `listen`: end points
    /// that announce themselves there find it. Default: none.
    pub group: Option<String>,
    /// Milliseconds between two announcements of the broker, 10 to 60,000. Default 1,000.
    pub period_ms: u16,
    /// Messages that may wait for the turn of one topic, 1 to 1,048,576. Default 2,048. Of one publisher no more wait than it leaves
    /// free. What comes beyond it in datagrams is lost, and counted; a connection is not read meanwhile.
    pub input_messages: u32,
    /// Octets of them, with 320 more for each, 1 KiB to 1 GiB. Default 2 MiB. One message may wait whatever its size.
    pub input_bytes: u32,
    /// Topics that end points announce, once for each that publishes or subscribes, of all clients, 64 to 16,777,216. Default 65,536. More
    /// are not taken, and get no answer.
    pub topics_max: u32,
    /// Types of topics' messages: 1,024 at most. Default: none; the service then treats messages as octets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<TempoType>,
}

/// The type of a topic's messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TempoType {
    /// The topic, 1 to 255 octets: the domain and the name of the event type, with a slash between them. No wildcards.
    pub topic: String,
    /// The number of the notification channel. Default 0.
    #[serde(default)]
    pub channel: u32,
    /// A `struct` in a small IDL, see docs/tempo.md; 65,536 octets at most.
    #[serde(rename = "type")]
    pub definition: String,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            listen: None,
            token_file: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            consumers_max: 100,
            channels_max: 1_000,
            connections_max: 64,
            request_within_ms: 5_000,
            answer_within_ms: 10_000,
            websockets_max: 16,
            websocket_ping_ms: 20_000,
        }
    }
}

impl Default for Json {
    fn default() -> Self {
        Self { listen: None, line_bytes_max: 256 << 10 }
    }
}

impl Default for Tempo {
    fn default() -> Self {
        Self {
            listen: None,
            group: None,
            period_ms: 1_000,
            input_messages: 2_048,
            input_bytes: 2 << 20,
            topics_max: 65_536,
            types: Vec::new(),
        }
    }
}

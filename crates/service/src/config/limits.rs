//! `[limits]`, `[delivery]`: what clients may have, and how long they are waited for.

use serde::{Deserialize, Serialize};

/// Bounds on what the network can make the service hold. Each is counted when it is hit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes of memory that the process may use for what clients make it keep, 64 MiB to 1 TiB. Default: none is named, and it is
    /// half of what the machine, or the control group of the process, has. Half of it is for events that wait, of all channels
    /// together, a quarter for what administration keeps, a quarter for connections.
    pub memory_bytes: Option<u64>,
    /// Connections accepted at the same time, 1 to 1,000,000. Default 4096. One more is closed at once.
    pub connections_max: u32,
    /// Connections to clients, open or being made, at the same time, 1 to 1,000,000, and no more than leaves the accepted ones
    /// their descriptors. Default 65,536. Beyond it the longest idle one is closed; without one a client counts as unreachable.
    pub outgoing_connections_max: u32,
    /// Proxies of all channels, 1 to 16,777,216. Default 262,144. One more is refused (`NO_RESOURCES`).
    pub proxies_max: u32,
    /// Event types that consumers and their admins name, of all channels, 1,024 to 16,777,216: one each, one more for every 64
    /// octets of its names, and 8 for every star where something is looked for between two. Default 524,288. More are refused (`NO_RESOURCES`).
    pub event_types_max: u32,
    /// What the clients of one address may have of each limit while no other client has anything of it, in percent, 1 to 100. Default 75.
    /// With 100 one address may have everything.
    #[serde(rename = "client_share_percent")]
    pub client_quota_percent: u8,
    /// Largest GIOP message in bytes, 1024 to 1 GiB. Default 16 MiB. A larger one ends its connection.
    pub message_bytes_max: u32,
    /// Messages in fragments being put together on one connection, 1 to 1024. Default 16.
    pub fragment_sets_max: u32,
    /// Milliseconds in which a message that has begun must be complete. Default 60,000. A slower one ends its connection.
    pub message_completion_ms: u32,
    /// Bytes of memory for what has arrived of messages that are not complete, of all clients, 1 MiB to 1 TiB; 16 KiB of each connection
    /// are not counted. Default 256 MiB. Beyond it messages are completed from a reserve, the others wait, and a connection that does not
    /// progress meanwhile is closed.
    pub incomplete_bytes_max: u64,
    /// Bytes that were written for clients, events, answers and calls, and that they have yet to read, 1 MiB to 1 TiB. Default 256 MiB.
    /// Beyond it a connection is written nothing more until it has read all; requests whose answers may be large wait, and a connection
    /// that reads nothing meanwhile for `message_completion_ms` is closed.
    pub unread_reply_bytes_max: u64,
    /// Messages of one connection that are handled before the others have their turn, 1 to 65,536. Default 1024.
    #[serde(rename = "share_messages")]
    pub round_messages: u32,
    /// Microseconds that one connection's messages may take before the others have their turn, 10 to 1,000,000; the message
    /// under way is finished. Where connections of several addresses are open, those of one address have so long together.
    /// Default 100.
    #[serde(rename = "share_us")]
    pub round_us: u32,
    /// Administrative requests waiting for the administration thread, 1 to 65,536. Default 4096. One more is answered
    /// `TRANSIENT`.
    pub administration_queue: u32,
    /// What a client may set a channel's `FilterSteps` to, 1 to 100,000,000. Default 1,000,000: a step takes 4 to 16 ns, so that one
    /// event's filters keep a lane for 16 ms at most.
    pub filter_steps_max: u32,
    /// What a client may set a channel's `MaxConstraintLength` to, in octets, 1 to 1,048,576. Default 65,536: one of 1 MiB is compiled for
    /// 0.1 to 0.6 s, while administration does nothing else.
    pub constraint_bytes_max: u32,
}

/// How events are pushed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Delivery {
    /// Pushes that may be unanswered on one consumer, 1 to 1024. Default: none is named, and it is 1, which keeps order
    /// whatever the consumer's threading, but 64 for consumers that are Campanile's own client, which keeps it always. QoS
    /// `PushWindow`.
    pub push_window: Option<u16>,
    /// Milliseconds to wait for a connection to a consumer. Default 5,000. QoS `ConnectTimeout`.
    pub connect_timeout_ms: u32,
    /// Milliseconds to wait for a consumer's reply to a push. Default 30,000. QoS `ReplyTimeout`.
    pub reply_timeout_ms: u32,
    /// Milliseconds of uninterrupted failure after which a consumer is disconnected. Default 60,000. QoS `GiveUpAfter`.
    pub give_up_after_ms: u32,
    /// Milliseconds after which a consumer that takes nothing, while suppliers wait for it, is disconnected; 0 never. Default: none
    /// is named, and it is the consumer's `ReplyTimeout`. QoS `HoldTimeout`.
    pub hold_timeout_ms: Option<u32>,
    /// Milliseconds after which a connected client is asked whether it still exists; 0 never. Default 60,000. QoS
    /// `ProbeInterval`.
    pub probe_interval_ms: u32,
    /// Milliseconds after which a supplier that cannot be asked, is not heard of and has closed its connection is
    /// disconnected; 0 never. Default 0. QoS `SupplierLinger`.
    pub supplier_linger_ms: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: None,
            connections_max: 4096,
            outgoing_connections_max: 65_536,
            proxies_max: 262_144,
            event_types_max: 524_288,
            client_quota_percent: 75,
            message_bytes_max: 16 << 20,
            fragment_sets_max: 16,
            message_completion_ms: 60_000,
            incomplete_bytes_max: 256 << 20,
            unread_reply_bytes_max: 256 << 20,
            round_messages: 1024,
            round_us: 100,
            administration_queue: 4096,
            filter_steps_max: 1_000_000,
            constraint_bytes_max: 65_536,
        }
    }
}

impl Default for Delivery {
    fn default() -> Self {
        Self {
            push_window: None,
            connect_timeout_ms: 5_000,
            reply_timeout_ms: 30_000,
            give_up_after_ms: 60_000,
            hold_timeout_ms: None,
            probe_interval_ms: 60_000,
            supplier_linger_ms: 0,
        }
    }
}

//! What clients may have of each thing, by the configuration, the memory and the descriptors of the process.

use std::os::fd::AsFd;

use engine::HierarchyLimits;

use crate::config::Config;
use crate::handshakes::HANDSHAKES_MAX;
use crate::lane::io::occupied::RESERVED;
use crate::memory::Memory;
use crate::resolver;
use accounts::{Ceilings, Resource};

/// What an address may have whatever its share: what a few ordinary clients need.
const CONNECTIONS_MIN: u64 = 16;
const INCOMPLETE_BYTES_MIN: u64 = 1 << 20;
const REPLY_BYTES_MIN: u64 = 1 << 20;
const REQUEST_BYTES_MIN: u64 = 256 << 10;
const CHANNELS_MIN: u64 = 4;
const RETAINED_BYTES_MIN: u64 = 1 << 20;
const PROXIES_MIN: u64 = 1_024;
const EVENT_TYPES_MIN: u64 = 1_024;
const THREADS_MIN: u64 = 8;
/// Host names that may be looked up for an address whatever its share.
const LOOKUPS_MIN: u64 = 4;
/// TLS handshakes that may be under way with an address whatever its share.
const HANDSHAKES_MIN: u64 = 16;
/// Topics that clients of Tempo may announce from an address whatever its share, and what may wait of their messages.
const ANNOUNCED_MIN: u64 = 64;
const INPUT_BYTES_MIN: u64 = 256 << 10;
/// Connections to HTTP of an address, whatever its share: a browser makes six.
const HTTP_CONNECTIONS_MIN: u64 = 8;
/// Analyses under way, of all.
const ANALYSES_MAX: u64 = 64;
/// Callbacks that an address may register whatever its share: those of a host's programs.
const REGISTRATIONS_MIN: u64 = 64;
/// Requests that administration has, of all.
const REQUEST_BYTES_MAX: u64 = 64 << 20;
/// Connections to HTTP beside its limit (`console::places`).
const HTTP_RESERVED: u64 = 4;
/// Descriptors that are neither clients' nor consumers': the poll, the waker, the standard streams, and files of the store and of backlogs.
const OWN_DESCRIPTORS: u64 = 32;

/// How many connections there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConnectionsMax {
    pub(super) from_clients: u64,
    pub(super) to_clients: u64,
    pub(super) http: u64,
}

/// The limit of each thing that clients can have.
pub(super) fn ceilings(config: &Config, memory: Memory, connections_max: ConnectionsMax) -> Ceilings {
    let (limits, connections) = (&config.limits, memory.of_connections());
    Ceilings::new(limits.client_quota_percent)
        .with(Resource::Connections, connections_max.from_clients, CONNECTIONS_MIN)
        .with(Resource::Outgoing, connections_max.to_clients, CONNECTIONS_MIN)
        .with(Resource::IncompleteBytes, incomplete_bytes_max(config, memory), INCOMPLETE_BYTES_MIN)
        .with(Resource::ReplyBytes, limits.unread_reply_bytes_max.min(connections / 4), REPLY_BYTES_MIN)
        .with(Resource::RequestBytes, REQUEST_BYTES_MAX.min(connections / 4), REQUEST_BYTES_MIN)
        .with(Resource::RetainedBytes, memory.of_administration(), RETAINED_BYTES_MIN)
        .with(Resource::Proxies, limits.proxies_max.into(), PROXIES_MIN)
        .with(Resource::EventTypes, limits.event_types_max.into(), EVENT_TYPES_MIN)
        .with(Resource::Threads, config.lanes.threads_max.into(), THREADS_MIN)
        .with(Resource::Channels, channels_max(), CHANNELS_MIN)
        .with(Resource::Lookups, resolver::QUEUE as u64, LOOKUPS_MIN)
        .with(Resource::LookupThreads, resolver::THREADS_MAX as u64, 1)
        .with(Resource::Handshakes, HANDSHAKES_MAX as u64, HANDSHAKES_MIN)
        .with(Resource::HttpConnections, connections_max.http, HTTP_CONNECTIONS_MIN)
        .with(Resource::Announced, config.tempo.topics_max.into(), ANNOUNCED_MIN)
        .with(Resource::InputBytes, connections / 8, INPUT_BYTES_MIN)
        .with(Resource::Analyses, ANALYSES_MAX, 1)
        // The protocol refuses the first that is too many; one that gives way goes when the other is granted.
        .with(Resource::Registrations, corba::CALLBACKS_MAX as u64 + 1, REGISTRATIONS_MIN)
}

/// What of the memory for connections lets a message be completed where the rest is spent: as much as four of the largest, but a quarter
/// at most; and always two of the largest, of which one gets half.
pub(super) fn reserve_bytes(config: &Config, memory: Memory) -> u64 {
    let message = u64::from(config.limits.message_bytes_max);
    (memory.of_connections() / 4).clamp(2 * message, 4 * message)
}

/// What messages that are not complete may take beside the reserve: with it half of what connections have, but always an eighth.
fn incomplete_bytes_max(config: &Config, memory: Memory) -> u64 {
    let connections = memory.of_connections();
    let part = (connections / 2).saturating_sub(reserve_bytes(config, memory)).max(connections / 8);
    config.limits.incomplete_bytes_max.min(part)
}

/// Maximum channels that clients make. The default one is no client's.
fn channels_max() -> u64 {
    u64::from(HierarchyLimits::default().channels_max) - 1
}

/// How many connections are accepted and made: with all descriptors taken by the ones, there would be none for the others.
pub(super) fn connections_that_fit(config: &Config, descriptors: u64) -> ConnectionsMax {
    let limits = &config.limits;
    let wanted = u64::from(limits.connections_max);
    let fit = descriptors.saturating_sub(descriptors / 4).saturating_sub(OWN_DESCRIPTORS).max(1);
    if fit < wanted {
        log::warn!(
            "limits.connections_max is {fit} and not {wanted}: the process may have {descriptors} descriptors, and a \
             quarter of them is reserved for connections to consumers"
        );
    }
    let from_clients = fit.min(wanted);
    let http = u64::from(config.http.connections_max).min((descriptors / 16).max(4));
    let serves_http = config.http.listen.is_some() || config.tls.http_listen.is_some();
    let of_http = if serves_http { http + HTTP_RESERVED } else { 0 };
    let others = OWN_DESCRIPTORS.saturating_add(from_clients).saturating_add(RESERVED).saturating_add(of_http);
    let to_clients = descriptors.saturating_sub(others).max(1).min(limits.outgoing_connections_max.into());
    ConnectionsMax { from_clients, to_clients, http }
}

/// Raises the soft limit of descriptors to the hard one, and answers what it is then. Each connection takes a descriptor; the soft limit is
/// often 1024, far below what the process is allowed.
pub fn raise_descriptor_limit() -> u64 {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let before = getrlimit(Resource::Nofile);
    let mut limit = before;
    limit.current = limit.maximum;
    let in_force = if setrlimit(Resource::Nofile, limit).is_ok() { limit.current } else { before.current };
    in_force.unwrap_or(u64::MAX)
}

/// Has the system make its table of the process's descriptors as large as it may come to be. It doubles that as descriptors are taken,
/// and has a thread that takes one meanwhile wait until no processor looks at the table before: the main lane, for 10 to 50 ms each time.
pub(super) fn make_room_for_descriptors(any: impl AsFd, max: ConnectionsMax) {
    let beside = OWN_DESCRIPTORS + RESERVED + HTTP_RESERVED;
    let last = beside.saturating_add(max.from_clients).saturating_add(max.to_clients).saturating_add(max.http);
    // The table stays so large when the highest descriptor is closed again. Where there is no room for it, it grows as it must.
    let _ = rustix::io::fcntl_dupfd_cloexec(any, i32::try_from(last).unwrap_or(i32::MAX) - 1);
}

#[cfg(test)]
mod tests {
    use std::io;

    use accounts::Accounts;

    use super::*;
    use crate::config::Limits;

    /// As connections came, the lane stood still for up to 50 ms when there were 64, 128, 256 and so on: a client that opened a thousand
    /// delayed all clients' events by that.
    #[test]
    fn the_table_of_descriptors_has_room_for_all_connections_from_the_start() {
        let max = ConnectionsMax { from_clients: 3_000, to_clients: 2_000, http: 64 };
        assert!(raise_descriptor_limit() > 5_108, "the test needs descriptors");
        make_room_for_descriptors(io::stdin(), max);
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let size: u64 = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap().trim().parse().unwrap();
        assert!(size >= 5_016, "{size}");
    }

    /// The reserve for large messages was 64 MiB of each lane beside the budget.
    #[test]
    fn what_connections_may_have_is_their_quarter_of_the_budget_unless_two_large_messages_are_more() {
        let octets = |memory_bytes: u64, message_bytes_max: u32| {
            let limits = Limits { message_bytes_max, ..Limits::default() };
            let (config, memory) = (Config { limits, ..Config::default() }, Memory::new(memory_bytes));
            let max = ConnectionsMax { from_clients: 1, to_clients: 1, http: 1 };
            let ceilings = Accounts::new(ceilings(&config, memory, max));
            let kinds = [Resource::IncompleteBytes, Resource::ReplyBytes, Resource::RequestBytes];
            let sum: u64 = kinds.iter().map(|kind| ceilings.limit(*kind)).sum();
            (sum + reserve_bytes(&config, memory), memory.of_connections())
        };
        for memory_bytes in [352_u64 << 20, 512 << 20, 1 << 30, 64 << 30] {
            let (sum, part) = octets(memory_bytes, 16 << 20);
            assert!(sum <= part, "{sum} of {part}");
        }
        assert_eq!(octets(64 << 20, 2 << 20), (16 << 20, 16 << 20));
        // What docs/operating-reference.md says of the smallest.
        assert_eq!(octets(64 << 20, 16 << 20), (42 << 20, 16 << 20));
    }

    #[test]
    fn neither_way_takes_the_descriptors_that_the_other_needs() {
        let mut config = Config::default();
        let that_fit = |config: &Config, descriptors| {
            let ConnectionsMax { from_clients, to_clients, http } = connections_that_fit(config, descriptors);
            (from_clients, to_clients, http)
        };
        config.http.listen = None;
        assert_eq!(that_fit(&config, u64::MAX), (4096, 65_536, 64));
        assert_eq!(that_fit(&config, 65_536), (4096, 61_400, 64));
        assert_eq!(that_fit(&config, 1024), (736, 248, 64));
        assert_eq!(that_fit(&config, 64), (16, 8, 4));
        assert_eq!(that_fit(&config, 8), (1, 1, 4));
        config.http.listen = Some("0".into());
        assert_eq!(that_fit(&config, 65_536), (4096, 61_332, 64));
        assert_eq!(that_fit(&config, 64), (16, 1, 4));
    }
}

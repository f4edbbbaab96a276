//! Refusals of the engine: a variant for each reason, with the values that explain it.

use core::error::Error;
use core::fmt;

use crate::{AdminId, ChannelId, FilterId, PoolId, ProxyKey, Side};

/// A refused command on the hierarchy, or a refused event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// No such channel, or it was destroyed.
    ChannelNotFound {
        /// The id in the request.
        channel: ChannelId,
    },
    /// No such admin on that side of the channel, or it was destroyed.
    AdminNotFound {
        /// The channel in the request.
        channel: ChannelId,
        /// The side in the request.
        side: Side,
        /// The id in the request.
        admin: AdminId,
    },
    /// No such proxy in the channel, or it was destroyed.
    ProxyNotFound {
        /// The proxy in the request.
        proxy: ProxyKey,
    },
    /// The proxy has a peer already.
    AlreadyConnected {
        /// The proxy.
        proxy: ProxyKey,
    },
    /// The proxy has no peer.
    NotConnected {
        /// The proxy.
        proxy: ProxyKey,
    },
    /// The connection is not suspended, so it cannot be resumed.
    AlreadyActive {
        /// The proxy.
        proxy: ProxyKey,
    },
    /// The connection is suspended already.
    AlreadyInactive {
        /// The proxy.
        proxy: ProxyKey,
    },
    /// The default admin of a side cannot be destroyed: it lives as long as its channel.
    DefaultAdmin {
        /// The channel.
        channel: ChannelId,
        /// The side of the default admin.
        side: Side,
    },
    /// The channel has as many connected consumers or suppliers as `MaxConsumers` or `MaxSuppliers` allows.
    AdminLimit {
        /// `Consumers` for `MaxConsumers`, `Suppliers` for `MaxSuppliers`.
        side: Side,
        /// The limit, in connected proxies.
        limit: u32,
    },
    /// The limit of channels is reached.
    TooManyChannels {
        /// The limit, in channels.
        limit: u32,
    },
    /// The limit of admins per channel, both sides together, is reached.
    TooManyAdmins {
        /// The limit, in admins.
        limit: u32,
    },
    /// The limit of proxies per channel is reached.
    TooManyProxies {
        /// The limit, in proxies.
        limit: u32,
    },
    /// A subscription would list more event types than the limit.
    TooManyEventTypes {
        /// The limit, in event types.
        limit: u32,
    },
    /// The limit of filters per channel is reached.
    TooManyFilters {
        /// The limit, in filters.
        limit: u32,
    },
    /// The limit of filters attached to one admin or proxy is reached.
    TooManyFiltersAttached {
        /// The limit, in filters.
        limit: u32,
    },
    /// A filter would have more constraints than the limit.
    TooManyConstraints {
        /// The limit, in constraints.
        limit: u32,
    },
    /// A constraint is longer than the limit.
    ConstraintTooLong {
        /// Length of the constraint, in bytes.
        bytes: u64,
        /// The limit, in bytes.
        limit: u32,
    },
    /// A constraint has more nodes than the limit.
    ConstraintTooComplex {
        /// Number of nodes of the constraint.
        nodes: u32,
        /// The limit, in nodes.
        limit: u32,
    },
    /// No such filter, or it was destroyed.
    NoSuchFilter {
        /// The filter in the request.
        filter: FilterId,
    },
    /// No filter is attached under this id.
    FilterNotFound {
        /// The id in the request, as the admin or proxy assigned it.
        id: u32,
    },
    /// Mapping filters are for consumers only, and this is on the suppliers' side.
    NoMapping,
    /// A consumer's outbox is full and its `FullOutbox` is `Reject`.
    OutboxFull {
        /// The consumer's proxy.
        proxy: ProxyKey,
        /// Capacity of the outbox, in events.
        capacity_events: u32,
    },
    /// The channel holds `MaxQueueLength` events and `RejectNewEvents` is set.
    QueueFull {
        /// The channel.
        channel: ChannelId,
        /// The limit, in events.
        capacity_events: u32,
    },
    /// The channel's memory budget is spent, and either the largest backlog's `FullOutbox` is `Reject`, or suppliers
    /// are blocked already and the blocked events fill the budget a second time.
    MemorySpent {
        /// The channel.
        channel: ChannelId,
        /// The budget, in bytes.
        budget_bytes: u64,
    },
    /// The event alone is larger than the channel's whole memory budget.
    EventTooLarge {
        /// Charge for the event, in bytes.
        charged_bytes: u64,
        /// The budget, in bytes.
        budget_bytes: u64,
    },
    /// The limit of waiting pulls of one consumer's proxy is reached.
    TooManyWaiting {
        /// The proxy.
        proxy: ProxyKey,
        /// The limit, in clients.
        limit: u32,
    },
    /// The limit of threads of all pools together would be exceeded.
    TooManyThreads {
        /// The limit, in threads.
        limit: u32,
    },
    /// No such pool, or it ended when its last user was removed.
    PoolNotFound {
        /// The pool in the request.
        pool: PoolId,
    },
    /// A pool is set or removed only while no client is connected beneath it: a consumer's events would change lanes.
    PoolInUse {
        /// The first of the connected proxies.
        proxy: ProxyKey,
    },
    /// A setting's value is outside its range.
    BadSetting {
        /// The setting, by its field's name.
        setting: &'static str,
        /// The accepted range.
        range: &'static str,
    },
    /// A counter of ids has reached its end; no further object can be created here.
    IdsExhausted,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ChannelNotFound { channel } => write!(f, "there is no channel {}", channel.0),
            Self::AdminNotFound { channel, side, admin } => {
                write!(f, "channel {} has no {} admin {}", channel.0, side_name(side), admin.0)
            }
            Self::ProxyNotFound { proxy } => write!(f, "there is no {proxy}"),
            Self::AlreadyConnected { proxy } => write!(f, "{proxy} is connected already"),
            Self::NotConnected { proxy } => write!(f, "{proxy} is not connected"),
            Self::AlreadyActive { proxy } => write!(f, "{proxy} is not suspended"),
            Self::AlreadyInactive { proxy } => write!(f, "{proxy} is suspended already"),
            Self::DefaultAdmin { channel, side } => {
                write!(f, "the default {} admin lives as long as channel {}", side_name(side), channel.0)
            }
            Self::AdminLimit { side, limit } => {
                write!(f, "{limit} {}s are connected, the most this channel takes", side_name(side))
            }
            Self::TooManyChannels { limit } => write!(f, "there are {limit} channels, the most allowed"),
            Self::TooManyAdmins { limit } => write!(f, "the channel has {limit} admins, the most allowed"),
            Self::TooManyProxies { limit } => write!(f, "the channel has {limit} proxies, the most allowed"),
            Self::TooManyEventTypes { limit } => write!(f, "a subscription lists at most {limit} event types"),
            Self::TooManyFilters { limit } => write!(f, "the channel has {limit} filters, the most allowed"),
            Self::TooManyFiltersAttached { limit } => write!(f, "{limit} filters are attached, the most allowed"),
            Self::TooManyConstraints { limit } => write!(f, "a filter has at most {limit} constraints"),
            Self::ConstraintTooLong { bytes, limit } => {
                write!(f, "a constraint is {bytes} bytes long, and at most {limit} are allowed")
            }
            Self::ConstraintTooComplex { nodes, limit } => {
                write!(f, "a constraint has {nodes} nodes, and at most {limit} are allowed")
            }
            Self::NoSuchFilter { filter } => write!(f, "there is no filter {}", filter.0),
            Self::FilterNotFound { id } => write!(f, "no filter is attached as number {id}"),
            Self::NoMapping => write!(f, "mapping filters are for consumers"),
            Self::OutboxFull { proxy, capacity_events } => {
                write!(f, "the outbox of {proxy} is full with {capacity_events} events")
            }
            Self::QueueFull { channel, capacity_events } => {
                write!(f, "channel {} is full with {capacity_events} events", channel.0)
            }
            Self::MemorySpent { channel, budget_bytes } => {
                write!(f, "channel {} has spent its memory budget of {budget_bytes} bytes", channel.0)
            }
            Self::EventTooLarge { charged_bytes, budget_bytes } => write!(
                f,
                "the event takes {charged_bytes} bytes, more than the channel's whole memory budget of {budget_bytes}"
            ),
            Self::TooManyWaiting { proxy, limit } => {
                write!(f, "{limit} clients wait for events of {proxy}, the most allowed")
            }
            Self::TooManyThreads { limit } => write!(f, "all pools together have at most {limit} threads"),
            Self::PoolNotFound { pool } => write!(f, "there is no pool {}", pool.0),
            Self::PoolInUse { proxy } => {
                write!(f, "threads are assigned only while no client is connected, and {proxy} is")
            }
            Self::BadSetting { setting, range } => write!(f, "{setting} must be {range}"),
            Self::IdsExhausted => write!(f, "all ids here have been used"),
        }
    }
}

impl Error for Refusal {}

fn side_name(side: Side) -> &'static str {
    match side {
        Side::Consumers => "consumer",
        Side::Suppliers => "supplier",
    }
}

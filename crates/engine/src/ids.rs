//! Ids of channels, admins, proxies, outboxes and event types, and handles that protocols assign.

use core::fmt;

/// A channel. The first is 0, the next 1, and so on; an id is never used twice in the life of a [`Hierarchy`](crate::Hierarchy).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(
    /// The number, as the OMG's `ChannelID` shows it.
    pub u32,
);

/// An admin, unique in its channel. On each [`Side`] the default admin has id 0 and exists as long as its channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AdminId(
    /// The number, as the OMG's `AdminID` shows it.
    pub u32,
);

impl AdminId {
    /// The default admin of each side.
    pub const DEFAULT: Self = Self(0);
}

/// A proxy, unique in its channel on either side and under any admin, and never used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProxyId(
    /// The number, as the OMG's `ProxyID` shows it.
    pub u32,
);

/// A proxy, by its channel and its id there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProxyKey {
    /// The channel it belongs to.
    pub channel: ChannelId,
    /// Its id in that channel.
    pub proxy: ProxyId,
}

impl fmt::Display for ProxyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "proxy {} of channel {}", self.proxy.0, self.channel.0)
    }
}

/// Address of clients, as its protocol numbers it. Consumers of one address are charged together for the time suppliers wait for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientAddress(
    /// The protocol's number.
    pub u64,
);

/// A protocol's handle for the client connected to a proxy. Opaque to the engine, which hands it back with each delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(
    /// The protocol's number.
    pub u64,
);

/// The form of an event's bytes (a protocol's own: a structured event, an Any, …). Opaque to the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Form(
    /// The protocol's number.
    pub u16,
);

/// Form that a consumer's protocol needs events translated to. Opaque to the engine but for the two highest bits,
/// which the engine sets; consumers with equal forms share one translation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutputForm(
    /// The protocol's number, below 2^30, and whether [repeats](Self::marks_repeats) and [numbers](Self::marks_numbers) are marked.
    pub u32,
);

impl OutputForm {
    const MARKS_REPEATS: u32 = 1 << 31;
    const MARKS_NUMBERS: u32 = 1 << 30;

    /// Whether events that the consumer may have received before are marked:
    /// [`OutboxSettings::mark_repeats`](crate::OutboxSettings::mark_repeats).
    #[inline]
    #[must_use]
    pub const fn marks_repeats(self) -> bool {
        self.0 & Self::MARKS_REPEATS != 0
    }

    /// Whether events include their [number](crate::Event::number), for a consumer that [chose its start](crate::StartFrom).
    #[inline]
    #[must_use]
    pub const fn marks_numbers(self) -> bool {
        self.0 & Self::MARKS_NUMBERS != 0
    }

    /// This form with or without event numbers.
    #[must_use]
    pub const fn marking_numbers(self, marks: bool) -> Self {
        Self(if marks { self.0 | Self::MARKS_NUMBERS } else { self.0 & !Self::MARKS_NUMBERS })
    }

    /// This form with or without the mark of repeats.
    #[must_use]
    pub const fn marking_repeats(self, marks: bool) -> Self {
        Self(if marks { self.0 | Self::MARKS_REPEATS } else { self.0 & !Self::MARKS_REPEATS })
    }
}

/// A filter, unique in a [`Hierarchy`](crate::Hierarchy) and never used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilterId(
    /// The number: filters count up from 0.
    pub u32,
);

/// How events travel through a proxy, beside their form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProxyKind {
    /// Whether events are pulled: by the consumer from the service, or by the service from the supplier. Default false.
    pub pull: bool,
    /// Whether a call has several events (the OMG's sequence proxies). Default false.
    pub batches: bool,
    /// Whether the client is reached from the main lane only, whichever pool applies to its proxy. Default false.
    pub on_main_lane: bool,
}

/// A lane: one thread of the program that runs the engine, with its own [`Lane`](crate::Lane). A number is reused once
/// its lane has [ended](crate::LaneChange::Ended) and its thread is [gone](crate::Hierarchy::lane_gone).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(
    /// The number, dense from 0.
    pub u16,
);

impl LaneId {
    /// The main lane, which always exists and serves every proxy without a pool.
    pub const MAIN: Self = Self(0);
}

impl fmt::Display for LaneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lane {}", self.0)
    }
}

/// A pool of lanes, unique in a [`Hierarchy`](crate::Hierarchy) and never used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(
    /// The number: pools count up from 0.
    pub u32,
);

/// Side of a channel: consumers' or suppliers'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Side {
    /// Consumers connect to this side (the OMG's consumer admins and proxy suppliers).
    Consumers,
    /// Suppliers connect to this side (the OMG's supplier admins and proxy consumers).
    Suppliers,
}

/// How the subscription and filters of an admin combine with those of each of its proxies (OMG Notification Service
/// 1.1, `InterFilterGroupOperator`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Operator {
    /// An event must match both. The default.
    #[default]
    And,
    /// An event must match either. A level without filters and with a subscription that was never changed does not
    /// count. With [`HierarchyLimits::or_passes_without_filters`](crate::HierarchyLimits::or_passes_without_filters)
    /// filters count only where both levels have some.
    Or,
}

/// An outbox on a lane: a slot and a generation. A slot is reused, an `OutboxId` is not, so that a stale one is
/// recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutboxId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl OutboxId {
    /// The slot, dense from 0: fit as an index into the caller's own table of outboxes.
    #[must_use]
    pub fn slot(self) -> u32 {
        self.slot
    }

    /// Generation: which of the slot's successive outboxes.
    #[must_use]
    pub fn generation(self) -> u32 {
        self.generation
    }
}

/// A supplier's withheld reply: returned with [`Admission::Withheld`](crate::Admission::Withheld) and again by
/// [`Lane::poll_release`](crate::Lane::poll_release) when the reply is due. A lane never uses one twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(
    /// The number: the lane's tickets count up from 0.
    pub u64,
);

/// An event type (domain and name) as a lane interned it. Meaningful on that lane only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(pub(crate) u32);

impl TypeId {
    /// Stands for types that could not be interned because the table is full: matched by name each time.
    pub const OTHER: Self = Self(0);

    /// The type's number on its lane.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}

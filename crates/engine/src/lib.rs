//! The engine: channels, admins, proxies, routing and outboxes. Events go in, deliveries come out.
//!
//! The engine is given the time and handed bytes. It has no socket, clock, thread or file, and is independent of protocols: to it an event
//! is opaque bytes with the name of their form, a type and a source.
//!
//! Two halves meet in one immutable value:
//!
//! - [`Hierarchy`], owned by administration: factory → channel → admin → proxy, with settings and subscriptions at each
//!   level. Every change results in a new [`Snapshot`].
//! - [`Lane`], the event path: it picks up a snapshot, routes each event to the outboxes with a subscription for it, and
//!   chooses the next delivery. One thread owns it; it takes no lock and, in the steady state, allocates nothing.
//!
//! # Example
//!
//! ```
//! # use campanile_engine as engine;
//! use engine::*;
//!
//! let mut hierarchy = Hierarchy::new(HierarchyLimits::default());
//! let channel = hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default())?;
//! let supplier = hierarchy.create_proxy(channel, Side::Suppliers, AdminId::DEFAULT, Form(1), ProxyKind::default())?;
//! let consumer = hierarchy.create_proxy(channel, Side::Consumers, AdminId::DEFAULT, Form(1), ProxyKind::default())?;
//! let source = ProxyKey { channel, proxy: supplier };
//! hierarchy.connect(source, None, OutputForm(0))?;
//! hierarchy.connect(ProxyKey { channel, proxy: consumer }, Some(Peer(7)), OutputForm(0))?;
//!
//! let now = Time(0);
//! let mut lane = Lane::new(now);
//! lane.handle_snapshot(hierarchy.snapshot(), now);
//!
//! let mut pending = lane.begin_event();
//! pending.bytes.extend_from_slice(b"hello");
//! lane.classify(&mut pending, b"Telescope", b"Status");
//! assert_eq!(lane.handle_event(source, pending, &NoFields, now), Admission::Accepted { destinations: 1 });
//!
//! let mut events = Vec::new();
//! let delivery = lane.poll_delivery(now, &mut events).expect("one consumer wants it");
//! assert_eq!((delivery.peer, &events[0].bytes[..]), (Some(Peer(7)), &b"hello"[..]));
//! lane.handle_outcome(delivery.outbox, delivery.serial, Outcome::Delivered, now);
//! events.drain(..).for_each(|event| lane.release(event));
//! # Ok::<(), Refusal>(())
//! ```
#![no_std]
extern crate alloc;

mod activity;
mod event;
mod forms;
mod hierarchy;
mod history;
mod ids;
mod lane;
mod lanes;
mod members;
mod origin;
mod owner;
mod properties;
mod refusal;
mod routing;
mod settings;
mod shared;
mod subscription;
mod table;
mod time;
mod timers;
mod topics;
pub mod wildcard;

pub use activity::{Activity, WaitingPull};
pub use event::{
    Alternate, Alternates, EVENT_OVERHEAD_BYTES, Event, EventPool, HOLDER_OVERHEAD_BYTES, NumberForm, NumberPlace,
    ORIGIN_OVERHEAD_BYTES, PendingEvent, SORTED_OVERHEAD_BYTES, WATCH_OVERHEAD_BYTES,
};
pub use forms::{Forms, NoFields};
pub use hierarchy::{
    Admin, Attached, Channel, FilterConstraint, FilterRef, FilterTarget, Hierarchy, HierarchyLimits, HierarchyPart,
    Mapping, Numbered, Proxy, ProxyState, Removal, Removed, SubscriptionTarget,
};
pub use history::{FieldName, HistoryLimits, StartFrom};
pub use ids::{
    AdminId, ChannelId, ClientAddress, FilterId, Form, LaneId, Operator, OutboxId, OutputForm, Peer, PoolId, ProxyId,
    ProxyKey, ProxyKind, Side, Ticket, TypeId,
};
pub use lane::{
    Admission, Away, BlockedBy, ChannelStats, Completion, Correlated, Counters, DeadLetter, Delivery, DeliveryCounters,
    DiscardReason, Discards, DisconnectReason, Disposition, DueTimer, FetchedHistory, FilterCounters, Handover,
    HandoverCounters, HistoryCounters, Holding, Lane, Latency, MemoryPool, Notice, OutboxState, OutboxStats, Outcome,
    Overflow, OverflowCounters, RoutingCounters, ScheduledEvent, TakenCounters, TimerOutcome, Traffic, TypeDrops,
    TypeTraffic, Undelivered, WaitsFor,
};
pub use lanes::{Discipline, LaneChange, LaneInfo, LaneSpec, Place, PoolSpec, PriorityModel};
pub use origin::{Hops, Origin};
pub use owner::Owner;
pub use refusal::Refusal;
pub use routing::{ChannelRoutes, ConsumerRoute, Remains, RemoteFilterGroups, Snapshot, SupplierRoute};
pub use settings::{
    AcknowledgeAfter, ChannelLimits, DiscardPolicy, FullOutbox, OrderPolicy, OutboxSettings, Reliability,
    SettingsPatch, SupplierSettings,
};
pub use subscription::{EventType, Interest, Permitted, Subscription};
pub use time::Time;
pub use timers::{ChannelTimer, TIMER_DOMAIN, TIMER_TYPE, TIMERS_MAX, TimerProgress, TimerSchedule, TimerSettings};
pub use topics::{TopicSettings, Topics};

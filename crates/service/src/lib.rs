//! The Campanile service: the only crate with sockets, clocks and threads.
//!
//! [`Service::start`] gives a running service; it is ready when the call returns. Its threads are few and do not grow with clients: lanes
//! (`lane`) carry the events, the main one and those of thread pools; one administration thread executes everything else at a lower
//! priority, a resolver looks up host names, since the system's own way blocks, and another thread starts lanes.
//!
//! ```no_run
//! let service = service::Service::start(service::Config { listen: "127.0.0.1:0".into(), ..Default::default() })?;
//! println!("{}", service.corbaloc("NotificationService"));
//! # Ok::<(), service::StartError>(())
//! ```

mod admin;
pub mod allocations;
mod announcement;
mod config;
mod counters;
#[cfg(feature = "dds")]
mod dds;
mod handshakes;
mod lane;
mod log;
mod memory;
mod overflow;
mod protocols;
mod published;
mod random;
mod resolver;
mod shutdown_request;
#[cfg(test)]
mod simulation;
mod standby;
mod start;
mod store;
mod time;
#[cfg(feature = "zenoh")]
mod zenoh;

pub use ::json::time::{rfc3339, since_1970};
pub use accounts::{CertifiedName, Principal};
pub use admin::drain::Undone;
pub use admin::operators::{Operators, VisitPurpose};
pub use admin::program::{Asker, Liveness, NotReloaded};
pub use admin::statistics::{behind_for, reason_name, state_name};
pub use admin::values::{
    Answer, ChannelStatus, Command, ConsumerStatus, DdsIncompatibility, DdsJoinStatus, DeadLetterAct, Declined,
    Dropped, FederationMember, Figures, HistoryEvent, HistoryStatus, LinkDirection, LinkOrigin, LinkState, LinkStatus,
    Query, TimerStatus, TypeEvents,
};
pub use config::{
    AccessRule, Carrier, Channel, ClientCertificates, ClientEntry, Compatibility, Config, ConfigError,
    ConnectionReliability, Dds, DdsDirection, DdsJoin, DdsMulticast, DdsPreset, DdsType, DdsValue, DeclaredChannel,
    DeclaredLane, DeclaredTimer, DeclaredValue, Delivery, Discipline, Federation, Giop, HTTP_TOKEN_NAME, Http,
    IdlError, Json, Lanes, Limits, LinkDatagrams, LinkDirections, LinkEntry, LinkNames, LinkZenoh, Links, LogConfig,
    LogFormat, LogLevel, Naming, NarrowCodeSet, OnFollowerLost, OutgoingConfig, PriorityMapping, Replicate, Scheduling,
    Standby, StandbyRecordConfig, StandbyRole, StoreConfig, Tempo, TempoType, TimeDriven, Tls, Undeclarable, Unfit,
    WhenFull,
};
pub use corba::NOT_PERMITTED;
pub use corba::{Declared, Forbidden, ListedChannel, RestoredClient, Settable, SupplierStatus, near};
pub use counters::{Counter, Counters, HttpCounters, LaneCounters};
pub use handshakes::{HandshakeFailure, HandshakeReports};
pub use lane::scheduling::run_at_fifo;
pub use overflow::history::stored::StoredHistory;
pub use standby::{STANDBY_SOCKET, StandbyFollower};
pub use start::{Service, Sockets, StartError, Stopper, TlsServer, raise_descriptor_limit};
pub use store::requests::DeadLetter;
pub use store::salvage::{Salvaged, SalvagedTable, salvage};
pub use store::stored::{OfflineStore, OfflineStoreError, StoredEvent};

//! Recent answers of administration, shared by all clients.
//!
//! The lanes are queried twice a second at most, however many clients there are. Administration only passes on their answers; merging and
//! sorting happens on a thread of HTTP.

use core::cell::{Cell, RefCell};
use core::cmp::Reverse;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use engine::{ChannelId, ChannelStats, Latency, OutboxState, OutboxStats, ProxyKey, Time};
use serde_json::Value;
use service::{
    Answer, Asker, Config, Counter, Counters, DdsJoinStatus, Declined, Figures, LaneCounters, LinkStatus,
    ListedChannel, Principal, Query, Service,
};
use tokio::sync::Mutex;

use crate::directory::{DeclaredType, Directory, declared_types};
use crate::figures::Figures as Hour;
use crate::journal::Drops;
use crate::metrics::is_behind;
use crate::series::{Lives, Series};

/// Time for which an answer is cached.
const FRESH_FOR: Duration = Duration::from_millis(500);
/// Time for which a failed write marks the store as failing.
const FAILS_FOR: Duration = Duration::from_secs(3);
/// Time limit for an answer of administration.
pub(crate) const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// Maximum number of consumers in one query for names.
pub(crate) const NAMED_AT_ONCE: usize = 1_024;
/// Maximum number of reported channels.
const CHANNELS_MAX: usize = 16_384;

/// Names of proxies: the one in logs, and the client's name, which stays when it connects again.
pub(crate) type Names = HashMap<ProxyKey, (String, Option<Arc<str>>)>;

/// The service's state at one moment.
pub(crate) struct Snapshot {
    pub(crate) taken: Instant,
    pub(crate) at: SystemTime,
    pub(crate) now: Time,
    pub(crate) counters: Vec<(&'static str, u64)>,
    pub(crate) lanes: Vec<Lane>,
    /// Consumers by backlog, the largest first.
    pub(crate) consumers: Vec<OutboxStats>,
    /// Names of the first consumers.
    pub(crate) names: Names,
    /// Metrics series of the first consumers.
    pub(crate) series: Vec<Series>,
    /// Channels by number.
    pub(crate) channels: Vec<Channel>,
    pub(crate) dds_joins: Vec<DdsJoinStatus>,
    /// Links by name, channel and direction.
    pub(crate) links: Vec<LinkStatus>,
}

/// A lane's counters.
pub(crate) struct Lane {
    pub(crate) id: u16,
    pub(crate) priority: Option<i16>,
    pub(crate) name: String,
    /// The counters that are not 0.
    pub(crate) counters: Vec<(&'static str, u64)>,
}

impl Snapshot {
    /// Latency of all channels' events.
    pub(crate) fn latency(&self) -> Latency {
        let mut all = Latency::default();
        self.channels.iter().for_each(|channel| all.join(&channel.stats.traffic.latency));
        all
    }
}

/// A channel, with the sums over its consumers' outboxes.
pub(crate) struct Channel {
    pub(crate) listed: ListedChannel,
    /// Counts; all 0 if no lane knows the channel yet.
    pub(crate) stats: ChannelStats,
    pub(crate) consumers: u64,
    pub(crate) backlog_events: u64,
    pub(crate) backlog_bytes: u64,
    pub(crate) behind: u64,
    pub(crate) oldest: Option<Time>,
}

/// Queries to administration on behalf of a principal.
#[derive(Clone)]
pub(crate) struct Queries {
    asker: Asker,
    named: usize,
    /// Number of consumers in metrics.
    described: usize,
    lives: Arc<std::sync::Mutex<Lives>>,
}

/// State shared by all requests.
pub(crate) struct Shared {
    queries: Queries,
    snapshot: Mutex<Option<Arc<Snapshot>>>,
    pub(crate) figures: RefCell<Hour>,
    pub(crate) drops: RefCell<Drops>,
    pub(crate) directory: Directory,
    pub(crate) declared: Vec<DeclaredType>,
    pub(crate) counters: Counters,
    pub(crate) liveness: service::Liveness,
    pub(crate) service: About,
    pub(crate) consumers_max: usize,
    pub(crate) channels_max: usize,
    /// Number of failed writes of the store, and until when they count.
    failures: Cell<(u64, Option<Instant>)>,
}

/// Constant properties of the service.
pub(crate) struct About {
    pub(crate) address: String,
    pub(crate) json_address: Option<String>,
    pub(crate) tempo_address: Option<String>,
    pub(crate) store: Option<String>,
    /// Joins to DDS as configured.
    pub(crate) dds_joins: Value,
    pub(crate) tempo_types: Value,
    pub(crate) reference: String,
    pub(crate) url: String,
    pub(crate) started: SystemTime,
}

impl Shared {
    pub(crate) fn new(config: &Config, service: &Service) -> Self {
        let consumers_max = config.http.consumers_max as usize;
        Self {
            queries: Queries {
                asker: service.asker(),
                named: consumers_max.clamp(64, NAMED_AT_ONCE * 10),
                described: consumers_max,
                lives: Arc::default(),
            },
            snapshot: Mutex::new(None),
            figures: RefCell::new(Hour::new()),
            drops: RefCell::default(),
            directory: Directory::default(),
            declared: declared_types(config),
            counters: service.counters().clone(),
            liveness: service.liveness(),
            service: About {
                address: service.address().to_string(),
                json_address: service.json_address().map(|address| address.to_string()),
                tempo_address: service.tempo_address().map(|address| address.to_string()),
                store: service.store_directory().map(|folder| folder.display().to_string()),
                dds_joins: serde_json::to_value(&config.dds.joins).unwrap_or_default(),
                tempo_types: serde_json::to_value(&config.tempo.types).unwrap_or_default(),
                reference: service.reference().to_owned(),
                url: service.corbaloc("NotificationService"),
                started: SystemTime::now(),
            },
            consumers_max,
            channels_max: config.http.channels_max as usize,
            failures: Cell::new((0, None)),
        }
    }

    /// Whether the store has failed to write since the last call, or shortly before: it retries each second.
    pub(crate) fn store_fails(&self) -> bool {
        let (before, until) = self.failures.get();
        let failures = self.counters.read(Counter::StoreFailures) + self.counters.read(Counter::OverflowFailures);
        let until = if failures > before { Some(Instant::now() + FAILS_FOR) } else { until };
        self.failures.set((failures, until));
        until.is_some_and(|until| Instant::now() < until)
    }

    /// The state of the service: half a second old at most, and shared by all clients. So no client's account pays for the query: otherwise
    /// the others would wait for the first one's turn.
    pub(crate) async fn snapshot(&self) -> Result<Arc<Snapshot>, Declined> {
        let mut snapshot = self.snapshot.lock().await;
        if let Some(known) = snapshot.as_ref().filter(|known| known.taken.elapsed() < FRESH_FOR) {
            return Ok(Arc::clone(known));
        }
        let found = self.look().await?;
        *snapshot = Some(Arc::clone(&found));
        Ok(found)
    }

    /// A snapshot for the server's own sampling. It is not cached, so that clients' answers are not older for it.
    pub(crate) async fn sample(&self) -> Result<Arc<Snapshot>, Declined> {
        let snapshot = self.snapshot.lock().await;
        match snapshot.as_ref().filter(|known| known.taken.elapsed() < FRESH_FOR) {
            Some(known) => Ok(Arc::clone(known)),
            None => self.look().await,
        }
    }

    async fn look(&self) -> Result<Arc<Snapshot>, Declined> {
        let queries = self.queries.clone();
        Ok(Arc::new(on_a_thread(move || queries.snapshot(&Principal::Service)).await?))
    }

    /// Queries administration.
    pub(crate) async fn ask(&self, by: Principal, query: Query) -> Result<Answer, Declined> {
        let queries = self.queries.clone();
        on_a_thread(move || queries.ask(&by, query)).await
    }

    /// Sends a command to administration.
    pub(crate) async fn command(&self, by: Principal, command: service::Command) -> Result<Answer, Declined> {
        let queries = self.queries.clone();
        on_a_thread(move || queries.asker.command(&by, command, Some(ANSWERS_WITHIN))).await
    }

    /// Queries several pages, on a thread that may block.
    pub(crate) async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Queries) -> Result<T, Declined> + Send + 'static,
    ) -> Result<T, Declined> {
        let queries = self.queries.clone();
        on_a_thread(move || work(&queries)).await
    }
}

/// Value of a counter in a list by name.
pub(crate) fn read(counters: &[(&'static str, u64)], counter: Counter) -> u64 {
    counters.iter().find(|(name, _)| *name == counter.name()).map_or(0, |(_, value)| *value)
}

/// Milliseconds of a duration.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since 1970.
pub(crate) fn unix_ms(at: SystemTime) -> u64 {
    millis(at.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Runs blocking work on a thread of its own.
pub(crate) async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Declined> + Send + 'static,
) -> Result<T, Declined> {
    // It fails only if the runtime ends, or it panics, which ends the process.
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(Declined::Stopping))
}

impl Queries {
    pub(crate) fn ask(&self, by: &Principal, query: Query) -> Result<Answer, Declined> {
        self.asker.ask(by, query, Some(ANSWERS_WITHIN))
    }

    fn snapshot(&self, by: &Principal) -> Result<Snapshot, Declined> {
        let Answer::Figures(figures) = self.ask(by, Query::Figures)? else { return Err(Declined::Stopping) };
        let listed = self.channels(by)?;
        let (Answer::Counters(counters), Answer::Lanes(lanes), Answer::DdsJoins(dds_joins)) =
            (self.ask(by, Query::Counters)?, self.ask(by, Query::Lanes)?, self.ask(by, Query::DdsJoins)?)
        else {
            return Err(Declined::Stopping);
        };
        let Figures { now, outboxes: mut consumers, channels, links, .. } = figures.joined();
        let channels = put_together(listed, &channels, &consumers, now);
        consumers.sort_unstable_by_key(slowness);
        let first = consumers.iter().take(self.named).map(|outbox| outbox.key).collect();
        let names = self.names(by, first)?;
        let series = {
            let mut lives = self.lives.lock().unwrap_or_else(PoisonError::into_inner);
            lives.series(&consumers, &names, self.described)
        };
        let (taken, at) = (Instant::now(), SystemTime::now());
        let lane =
            |of: &LaneCounters| Lane { id: of.id(), priority: of.priority(), name: of.name(), counters: of.exported() };
        let lanes = lanes.iter().map(lane).collect();
        Ok(Snapshot { taken, at, now, counters, lanes, consumers, names, series, channels, dds_joins, links })
    }

    /// The names of consumers.
    pub(crate) fn names(&self, by: &Principal, keys: Vec<ProxyKey>) -> Result<Names, Declined> {
        let mut all = HashMap::new();
        for some in keys.chunks(NAMED_AT_ONCE) {
            let Answer::Names(names) = self.ask(by, Query::Names(some.to_vec()))? else { break };
            all.extend(some.iter().copied().zip(names));
        }
        Ok(all)
    }

    fn channels(&self, by: &Principal) -> Result<Vec<ListedChannel>, Declined> {
        let mut all: Vec<ListedChannel> = Vec::new();
        while all.len() < CHANNELS_MAX {
            let behind = all.last().map(|channel| channel.id);
            let Answer::ChannelList(more) = self.ask(by, Query::ChannelList { behind })? else { break };
            if more.is_empty() {
                break;
            }
            all.extend(more);
        }
        Ok(all)
    }
}

/// Sort key: consumers that block suppliers first, then disconnected or failing ones, then by backlog.
fn slowness(outbox: &OutboxStats) -> impl Ord + use<> {
    let trouble = match outbox.state {
        _ if outbox.holds.is_some() => 0,
        OutboxState::BackingOff | OutboxState::Disconnected => 1,
        _ => 2,
    };
    (trouble, Reverse(outbox.backlog_events), Reverse(outbox.backlog_bytes), outbox.key)
}

fn put_together(
    listed: Vec<ListedChannel>,
    stats: &[ChannelStats],
    consumers: &[OutboxStats],
    now: Time,
) -> Vec<Channel> {
    let stats: HashMap<ChannelId, ChannelStats> = stats.iter().map(|stats| (stats.channel, *stats)).collect();
    let channel = |listed: ListedChannel| Channel {
        stats: stats.get(&listed.id).copied().unwrap_or_default(),
        listed,
        consumers: 0,
        backlog_events: 0,
        backlog_bytes: 0,
        behind: 0,
        oldest: None,
    };
    let mut channels: Vec<Channel> = listed.into_iter().map(channel).collect();
    for outbox in consumers {
        let Ok(at) = channels.binary_search_by_key(&outbox.key.channel, |channel| channel.listed.id) else { continue };
        let Some(channel) = channels.get_mut(at) else { continue };
        channel.consumers += 1;
        channel.backlog_events += outbox.backlog_events;
        channel.backlog_bytes += outbox.backlog_bytes;
        channel.behind += u64::from(is_behind(outbox, now));
        channel.oldest = channel.oldest.into_iter().chain(outbox.oldest).min();
    }
    channels
}

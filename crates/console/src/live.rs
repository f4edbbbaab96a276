//! State of the service for browsers without polling: once in each second, as server-sent events.

use core::time::Duration;
use std::rc::Rc;

use engine::{ChannelId, OutboxStats};
use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::HeaderValue;
use serde_json::{Value, json};
use service::{Counter, Principal, VisitPurpose};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use crate::api::{Arguments, allowed, channel_json, consumer_json, latency};
use crate::http::{self, Answer, Body, Live, Watcher};
use crate::metrics::{STATES, state_of};
use crate::routes::{Client, Failure, Routes};
use crate::shared::{ANSWERS_WITHIN, Channel, Snapshot, on_a_thread};
use crate::watching::Watching;

/// What the text is.
const KIND: &str = "text/event-stream";
/// Interval between two messages.
const EVERY: Duration = Duration::from_secs(1);
/// Streams that may be open at once.
const STREAMS_MAX: u32 = 32;
/// Messages that wait for a client to read. None is made while all are full: the next then shows the current state.
const WAITING_MAX: usize = 2;
/// Browsers that may watch events at once, and events that wait for each to read; what is beyond is left out, and counted in the next.
const WATCHERS_MAX: u32 = 4;
const EVENTS_WAITING_MAX: usize = 128;
/// Consumers of which each message tells: the slowest.
const CONSUMERS: usize = 20;
/// Channels of which each message tells.
const CHANNELS: usize = 40;

/// Which counters each message has.
const COUNTERS: [Counter; 13] = [
    Counter::EventsIn,
    Counter::EventBytesIn,
    Counter::Delivered,
    Counter::Dropped,
    Counter::EventsRefused,
    Counter::SuppliersBlocked,
    Counter::PushExceptions,
    Counter::PushTimeouts,
    Counter::ConsumersGivenUp,
    Counter::EventsStored,
    Counter::OverflowEvents,
    Counter::StoreFailures,
    Counter::StoreFull,
];

/// Tells how everything stands until the client has enough.
pub(crate) fn tell(routes: &Routes, client: Client) -> Result<Answer, Failure> {
    let (to, from) = stream(routes, WAITING_MAX)?;
    let shared = Rc::clone(&routes.shared);
    tokio::task::spawn_local(async move {
        let mut times = interval(EVERY);
        times.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            times.tick().await;
            let message = match shared.snapshot().await {
                Ok(snapshot) => message("standing", &snapshot_json(&snapshot)),
                Err(why) => message("declined", &json!({ "error": why.to_string() })),
            };
            // A client that does not read has its answer to read as any other: the connection ends.
            if to.send(message).await.is_err() {
                return;
            }
        }
    });
    Ok(answer(routes, from, client))
}

/// Tells of a channel's events as they come, until the client has enough.
pub(crate) async fn watch(routes: &Routes, client: Client, query: &str, by: Principal) -> Result<Answer, Failure> {
    let arguments = Arguments::read(query)?;
    let channel = arguments.channel(&routes.shared).await?.unwrap_or(ChannelId(0));
    let constraint = arguments.constraint()?;
    let slot = watcher(routes)?;
    let (to, from) = stream(routes, EVENTS_WAITING_MAX)?;
    let (operators, address) = (routes.operators.clone(), client.from);
    let visit = move || operators.visit(&by, address, VisitPurpose::Look(channel), ANSWERS_WITHIN);
    let (connection, told) = on_a_thread(visit).await?;
    allowed(told)?;
    let watching = Watching::begin(connection, channel, &constraint, None).await?;
    tokio::task::spawn_local(async move {
        watching.run(to, EVERY).await;
        drop(slot);
    });
    Ok(answer(routes, from, client))
}

/// Place of a client that looks at events, if there may be another.
pub(crate) fn watcher(routes: &Routes) -> Result<Watcher, Failure> {
    routes.open.take_watcher(WATCHERS_MAX).ok_or_else(|| {
        routes.http_counters.add(Counter::HttpStreamsRefused, 1);
        Failure::Busy(format!("{WATCHERS_MAX} watch events already, and no more can"))
    })
}

/// Both ends of a stream, if there may be another.
fn stream(routes: &Routes, waiting_max: usize) -> Result<(mpsc::Sender<Bytes>, mpsc::Receiver<Bytes>), Failure> {
    if routes.open.streams() >= STREAMS_MAX {
        routes.http_counters.add(Counter::HttpStreamsRefused, 1);
        return Err(Failure::Busy(format!("{STREAMS_MAX} live streams are open, and no more can be")));
    }
    Ok(mpsc::channel(waiting_max))
}

fn answer(routes: &Routes, from: mpsc::Receiver<Bytes>, client: Client) -> Answer {
    let live = Live::new(from, client.watch, Rc::clone(&routes.open));
    let mut answer = http::answer(StatusCode::OK, KIND, Body::Live(live));
    // A proxy would keep messages until it has enough of them.
    answer.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    answer
}

/// A message of a stream.
pub(crate) fn message(event: &str, data: &Value) -> Bytes {
    Bytes::from(format!("event: {event}\ndata: {data}\n\n"))
}

fn snapshot_json(snapshot: &Snapshot) -> Value {
    let counter = |counter: &Counter| {
        let value = snapshot.counters.iter().find(|(name, _)| *name == counter.name()).map_or(0, |(_, value)| *value);
        (counter.name().to_owned(), json!(value))
    };
    let lane = |lane: &crate::shared::Lane| {
        let of = |counter| lane.read(counter);
        json!({
            "id": lane.id, "name": lane.name, "priority": lane.priority,
            "rounds": of(Counter::Cycles), "longest_ns": of(Counter::CycleMax), "saturated": of(Counter::LaneSaturated),
            "allocations": of(Counter::Allocations), "system_calls": of(Counter::SystemCalls),
            "events_in": of(Counter::EventsIn), "delivered": of(Counter::Delivered), "dropped": of(Counter::Dropped),
        })
    };
    let slow = |outbox: &&OutboxStats| state_of(outbox, snapshot.now) != "keeping_up";
    let told = snapshot.consumers.iter().filter(slow).take(CONSUMERS);
    let states = STATES.map(|state| {
        (
            state.to_owned(),
            json!(snapshot.consumers.iter().filter(|outbox| state_of(outbox, snapshot.now) == state).count()),
        )
    });
    let mut busiest: Vec<&Channel> = snapshot.channels.iter().collect();
    busiest.sort_by_key(|channel| {
        let events_in = channel.stats.map_or(0, |stats| stats.traffic.events_in);
        (core::cmp::Reverse(channel.backlog_events), core::cmp::Reverse(events_in), channel.listed.id)
    });
    let mut all = engine::Latency::default();
    snapshot.channels.iter().filter_map(|channel| channel.stats).for_each(|stats| all.join(&stats.traffic.latency));
    json!({
        "at_ms": u64::try_from(snapshot.at.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(0),
        "counters": COUNTERS.iter().map(counter).collect::<serde_json::Map<_, _>>(),
        "lanes": snapshot.lanes.iter().map(lane).collect::<Value>(),
        "states": states.into_iter().collect::<serde_json::Map<_, _>>(),
        "consumers_total": snapshot.consumers.len(),
        "channels_total": snapshot.channels.len(),
        "backlog_events": snapshot.channels.iter().map(|channel| channel.backlog_events).sum::<u64>(),
        "backlog_bytes": snapshot.channels.iter().map(|channel| channel.backlog_bytes).sum::<u64>(),
        "latency": {
            "bounds_ns": engine::Latency::BOUNDS_NS,
            "cumulative": all.cumulative().map(|(_, so_far)| so_far).collect::<Vec<u64>>(),
            "all": latency(&all),
        },
        "slowest": told
            .map(|outbox| consumer_json(outbox, snapshot.names.get(&outbox.key), snapshot.now))
            .collect::<Value>(),
        "channels": busiest.iter().take(CHANNELS).map(|channel| channel_json(channel, snapshot.now)).collect::<Value>(),
    })
}

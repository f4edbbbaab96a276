//! State of the service for browsers without polling: server-sent events, one each second.

use core::cmp::Reverse;
use core::time::Duration;
use std::rc::Rc;

use engine::{ChannelId, Latency, OutboxStats};
use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::HeaderValue;
use serde_json::{Value, json};
use service::{Counter, Principal, VisitPurpose};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use crate::api::{Arguments, channel_json, consumer_json, latency};
use crate::figures::plotted;
use crate::http::{self, Answer, Body, Live, Watcher};
use crate::metrics::{by_state, is_behind};
use crate::routes::{Client, Failure, Routes};
use crate::shared::{Channel, Snapshot, read, unix_ms};
use crate::watching::Watching;

/// Content type of the stream.
const KIND: &str = "text/event-stream";
/// Interval between two messages.
const EVERY: Duration = Duration::from_secs(1);
/// Streams that may be open at once.
const STREAMS_MAX: u32 = 32;
/// Messages queued for a client. While all queues are full none is made; the next one shows the current state.
const WAITING_MAX: usize = 2;
/// Maximum number of browsers that watch events, and of events queued for each; the next message has the number left out.
const WATCHERS_MAX: u32 = 4;
const EVENTS_WAITING_MAX: usize = 128;
/// Number of consumers in each message: the slowest.
const CONSUMERS: usize = 20;
/// Number of channels in each message.
const CHANNELS: usize = 40;

/// The counters in each message.
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

/// Streams the state of the service until the client disconnects.
pub(crate) fn tell(routes: &Routes, client: Client) -> Result<Answer, Failure> {
    let (to, from) = stream(routes, WAITING_MAX)?;
    let shared = Rc::clone(&routes.shared);
    tokio::task::spawn_local(async move {
        let mut times = interval(EVERY);
        times.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut before = None;
        loop {
            times.tick().await;
            let message = match shared.snapshot().await {
                Ok(snapshot) => message("standing", &snapshot_json(&snapshot, &mut before)),
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

/// Streams a channel's events until the client disconnects.
pub(crate) async fn watch(routes: &Routes, client: Client, query: &str, by: Principal) -> Result<Answer, Failure> {
    let arguments = Arguments::read(query)?;
    let channel = arguments.channel(&routes.shared).await?.unwrap_or(ChannelId(0));
    let constraint = arguments.constraint()?;
    let slot = watcher(routes)?;
    let (to, from) = stream(routes, EVENTS_WAITING_MAX)?;
    let connection = routes.visit(by, client.from, VisitPurpose::Look(channel)).await?;
    let watching = Watching::begin(connection, channel, &constraint, None).await?;
    tokio::task::spawn_local(async move {
        watching.run(to, EVERY).await;
        drop(slot);
    });
    Ok(answer(routes, from, client))
}

/// Takes a place for a client that watches events, if one is free.
pub(crate) fn watcher(routes: &Routes) -> Result<Watcher, Failure> {
    routes.open.take_watcher(WATCHERS_MAX).ok_or_else(|| {
        routes.http_counters.add(Counter::HttpStreamsRefused, 1);
        Failure::Busy(format!("{WATCHERS_MAX} watch events already, and no more can"))
    })
}

/// Both ends of a stream, if a place is free.
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

/// A message's content; its latency covers the time since the message `before`.
fn snapshot_json(snapshot: &Snapshot, before: &mut Option<Latency>) -> Value {
    let counter = |counter: &Counter| (counter.name().to_owned(), json!(read(&snapshot.counters, *counter)));
    let lane = |lane: &crate::shared::Lane| {
        let of = |counter| read(&lane.counters, counter);
        json!({
            "id": lane.id, "name": lane.name, "priority": lane.priority,
            "rounds": of(Counter::Cycles), "longest_ns": of(Counter::CycleMax), "saturated": of(Counter::LaneSaturated),
            "allocations": of(Counter::Allocations), "system_calls": of(Counter::SystemCalls),
            "events_in": of(Counter::EventsIn), "delivered": of(Counter::Delivered), "dropped": of(Counter::Dropped),
        })
    };
    let slow = |outbox: &&OutboxStats| is_behind(outbox, snapshot.now);
    let told = snapshot.consumers.iter().filter(slow).take(CONSUMERS);
    let states = by_state(snapshot).map(|(state, count)| (state.to_owned(), json!(count)));
    let mut busiest: Vec<&Channel> = snapshot.channels.iter().collect();
    busiest.sort_by_key(|channel| {
        (Reverse(channel.backlog_events), Reverse(channel.stats.traffic.events_in), channel.listed.id)
    });
    let all = snapshot.latency();
    let lately = before.replace(all).map(|before| all.since(&before)).unwrap_or_default();
    json!({
        "at_ms": unix_ms(snapshot.at),
        "counters": COUNTERS.iter().map(counter).collect::<serde_json::Map<_, _>>(),
        "lanes": snapshot.lanes.iter().map(lane).collect::<Value>(),
        "states": states.into_iter().collect::<serde_json::Map<_, _>>(),
        "consumers_total": snapshot.consumers.len(),
        "channels_total": snapshot.channels.len(),
        "links_total": snapshot.links.len(),
        "links_in_trouble": snapshot.links.iter().filter(|link| link.is_in_trouble()).count(),
        "backlog_events": snapshot.channels.iter().map(|channel| channel.backlog_events).sum::<u64>(),
        "backlog_bytes": snapshot.channels.iter().map(|channel| channel.backlog_bytes).sum::<u64>(),
        "latency": latency(&all),
        "p50_below_ns": plotted(&lately, 50),
        "p99_below_ns": plotted(&lately, 99),
        "slowest": told
            .map(|outbox| consumer_json(outbox, snapshot.names.get(&outbox.key), snapshot.now))
            .collect::<Value>(),
        "channels": busiest.iter().take(CHANNELS).map(|channel| channel_json(channel, snapshot.now)).collect::<Value>(),
    })
}

//! `/api/v1/…`: what operators read, as JSON, and their commands.

use core::cmp::Reverse;
use core::time::Duration;
use std::sync::Arc;

use engine::{AdminId, ChannelId, DiscardReason, OutboxStats, ProxyId, ProxyKey, Side, Time};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use service::{
    Answer as AdminAnswer, Command, Counter, DdsJoinStatus, DeclaredValue, Declined, Principal, Query, Settable,
    SupplierStatus, reason_name,
};

use crate::access::{Access, Asking};
use crate::channels::ChannelRef;
use crate::directory::{self, SUPPLIERS_AT_ONCE, Sought};
use crate::http::{self, Answer};
use crate::journal::lines_json;
use crate::links::{self, links_json};
use crate::metrics::{is_behind, state_of};
use crate::routes::{Failure, Routes};
use crate::shared::{Channel, Shared, Snapshot, millis, unix_ms};
use crate::sources::Source;

/// Default and maximum number of entries in a page.
const PAGE: usize = 100;
const PAGE_MAX: usize = 1_000;
/// Time limit for administration and the lanes to answer a health check.
const GOES_ON_WITHIN: Duration = Duration::from_secs(5);

/// Checks whether the service runs; for readiness, also whether it can take new clients.
pub(crate) async fn health(shared: &Shared, is_readiness: bool) -> Result<(), String> {
    let liveness = shared.liveness.clone();
    let goes_on = crate::shared::on_a_thread(move || Ok(liveness.ask(GOES_ON_WITHIN))).await;
    if goes_on != Ok(true) {
        return Err("administration, or a lane, does not go on".to_owned());
    }
    if is_readiness && shared.store_fails() {
        return Err("the store cannot write".to_owned());
    }
    if is_readiness && shared.counters.read(Counter::StoreFull) > 0 {
        return Err("the store's disk is full: persistent events are refused".to_owned());
    }
    Ok(())
}

/// The arguments behind `?`.
pub(crate) struct Arguments<'a>(Vec<(&'a str, String)>);

impl<'a> Arguments<'a> {
    pub(crate) fn read(query: &'a str) -> Result<Self, Failure> {
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decoded(&value.replace('+', " "))
                .ok_or_else(|| Failure::Bad(format!("{name} is not UTF-8 in %-signs")))?;
            Ok((name, value))
        });
        Ok(Self(pairs.collect::<Result<_, Failure>>()?))
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn number<T: core::str::FromStr>(&self, name: &str) -> Result<Option<T>, Failure> {
        let read = |text: &str| text.parse().map_err(|_| Failure::Bad(format!("{name} is to be a number")));
        self.text(name).map(read).transpose()
    }

    /// The named channel.
    pub(crate) async fn channel(&self, shared: &Shared) -> Result<Option<ChannelId>, Failure> {
        match self.text("channel") {
            None => Ok(None),
            Some(text) => ChannelRef::from(text).find(shared).await.map(Some),
        }
    }

    /// The constraint that filters events; empty if there is none.
    pub(crate) fn constraint(&self) -> Result<String, Failure> {
        let text = self.text("constraint").unwrap_or_default().trim();
        if !text.is_empty()
            && let Err(error) = filter::Constraint::parse(text, &filter::Limits::default())
        {
            return Err(Failure::Bad(format!("not a constraint: {error}")));
        }
        Ok(text.to_owned())
    }

    /// The number of entries to skip, and to return.
    pub(crate) fn page(&self) -> Result<(usize, usize), Failure> {
        let offset = self.number("offset")?.unwrap_or(0);
        let limit = self.number("limit")?.unwrap_or(PAGE);
        Ok((offset, limit.min(PAGE_MAX)))
    }
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(core::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Answers a request that changes nothing.
pub(crate) async fn tell(
    routes: &Routes,
    path: &str,
    query: &str,
    asking: Asking,
    is_outside: bool,
) -> Result<Answer, Failure> {
    let shared = &routes.shared;
    let by = asking.by;
    let arguments = Arguments::read(query)?;
    let parts: Vec<&str> = path.split('/').collect();
    Ok(match parts.as_slice() {
        ["service"] => {
            let is_ruled = asking.has_right.is_some();
            http::json(&service(routes, &*shared.snapshot().await?, (is_ruled, is_outside)))
        }
        ["counters"] => http::json(&counters(&shared.snapshot().await?.counters)),
        ["figures"] => figures(shared, &arguments).await?,
        ["lanes"] => http::json(&lanes(&*shared.snapshot().await?)),
        ["dds"] => http::json(&json!({ "joins": dds_joins(&shared.snapshot().await?.dds_joins) })),
        ["links"] => http::json(&links_json(&shared.snapshot().await?.links)),
        ["federation"] => match allowed(shared.ask(by, Query::Federation).await?)? {
            AdminAnswer::Federation(services) => http::json(&json!({ "services": services })),
            _ => return Err(Failure::Declined(Declined::Stopping)),
        },
        ["channels"] => http::json(&channels(&*shared.snapshot().await?, &arguments)?),
        ["channels", id] => channel(shared, in_path(shared, id).await?, arguments.number("behind")?, by).await?,
        ["consumers"] => consumers(shared, arguments, by).await?,
        ["consumers", channel, proxy] => {
            let key = ProxyKey { channel: in_path(shared, channel).await?, proxy: ProxyId(parsed(proxy)?) };
            consumer(shared, key, by).await?
        }
        ["suppliers"] if arguments.text("limit").is_some() => {
            http::json(&directory::suppliers(shared, arguments).await?)
        }
        ["suppliers"] => suppliers(shared, &arguments, by).await?,
        ["suppliers", channel, proxy] => {
            let key = ProxyKey { channel: in_path(shared, channel).await?, proxy: ProxyId(parsed(proxy)?) };
            http::json(&directory::supplier(shared, key).await?)
        }
        ["types"] => http::json(&directory::types(shared, arguments).await?),
        ["search"] => http::json(&directory::search(shared, arguments).await?),
        ["log" | "protocols"] if !routes.operators.may_administer(&by) => {
            return Err(Failure::NeedsAdministrator);
        }
        ["log"] => http::json(&lines_json(arguments.number("behind")?.unwrap_or(0))),
        ["protocols"] => http::json(&protocols(shared, &*shared.snapshot().await?)),
        ["constraint"] => constraint(arguments.text("text").unwrap_or_default()),
        ["drops"] => drops(shared, by).await?,
        ["topology"] => match allowed(shared.ask(by, Query::Topology).await?)? {
            AdminAnswer::Topology(text) => http::whole(http::JSON, text),
            _ => return Err(Failure::NotFound),
        },
        _ => return Err(Failure::NotFound),
    })
}

/// The answer, unless the rules of access forbid it.
pub(crate) fn allowed(told: AdminAnswer) -> Result<AdminAnswer, Failure> {
    match told {
        AdminAnswer::Denied(why) => Err(Failure::Denied(why)),
        told => Ok(told),
    }
}

/// Checks a constraint; an error has its column, counted from 1.
fn constraint(text: &str) -> Answer {
    http::json(&match filter::Constraint::parse(text, &filter::Limits::default()) {
        Ok(constraint) => {
            let reads: Vec<String> = constraint.paths().iter().map(ToString::to_string).collect();
            json!({ "valid": true, "steps_worst": constraint.cost().worst, "always": constraint.always(), "reads": reads })
        }
        Err(error) => json!({ "valid": false, "column": error.column(), "reason": error.reason().to_string() }),
    })
}

fn parsed(text: &str) -> Result<u32, Failure> {
    // A sign, or a number that is not written as it is, is another path.
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_plain).ok_or(Failure::NotFound)
}

/// The channel that a part of a path names.
async fn in_path(shared: &Shared, text: &str) -> Result<ChannelId, Failure> {
    ChannelRef::from(decoded(text).ok_or(Failure::NotFound)?.as_str()).find(shared).await
}

fn service(routes: &Routes, snapshot: &Snapshot, (is_ruled, is_outside): (bool, bool)) -> Value {
    let about = &routes.shared.service;
    let behind = snapshot.consumers.iter().filter(|outbox| is_behind(outbox, snapshot.now)).count();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "address": about.address,
        "json_address": about.json_address,
        "tempo_address": about.tempo_address,
        "url": about.url,
        "reference": about.reference,
        "store": about.store,
        "started_ms": unix_ms(about.started),
        "at_ms": unix_ms(snapshot.at),
        "channels": snapshot.channels.len(),
        "consumers": snapshot.consumers.len(),
        "consumers_not_keeping_up": behind,
        "lanes": snapshot.lanes.len(),
        "can_change": is_ruled || routes.access.has_token(),
        "has_rules": is_ruled,
        "needs_token": is_outside,
    })
}

fn counters(counters: &[(&'static str, u64)]) -> Value {
    let all: Map<String, Value> = counters.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    Value::Object(all)
}

fn lanes(snapshot: &Snapshot) -> Value {
    let lane = |lane: &crate::shared::Lane| json!({ "id": lane.id, "name": lane.name, "priority": lane.priority, "counters": counters(&lane.counters) });
    snapshot.lanes.iter().map(lane).collect()
}

/// Status of joins to DDS, with remote endpoints that do not match.
fn dds_joins(joins: &[DdsJoinStatus]) -> Value {
    let join = |join: &DdsJoinStatus| {
        json!({
            "channel": join.channel.0,
            "name": join.name,
            "topics_read": join.topics_read,
            "topics_written": join.topics_written,
            "incompatible": join.incompatible,
            "incompatible_beyond": join.beyond,
        })
    };
    joins.iter().map(join).collect()
}

/// Figures of the last hour, for a consumer or supplier, a channel, an event type, or the service.
async fn figures(shared: &Shared, arguments: &Arguments<'_>) -> Result<Answer, Failure> {
    let proxy = arguments.number("proxy")?.map(ProxyId);
    let of = arguments.channel(shared).await?.map(|channel| (channel, proxy));
    let figures = shared.figures.borrow();
    let told = match (of, arguments.text("side"), arguments.text("type")) {
        (None, None, None) if proxy.is_some() => return Err(Failure::Bad("proxy needs channel".to_owned())),
        (None, None, Some(name)) => figures.source_json(&Source::Type(name.into())),
        (Some((channel, Some(proxy))), Some("suppliers"), None) => {
            figures.source_json(&Source::Supplier(ProxyKey { channel, proxy }))
        }
        (_, None | Some("consumers"), None) => figures.json(of),
        _ => return Err(Failure::Bad("of a channel, a proxy and its side, or a type".to_owned())),
    };
    let mut told = told.ok_or(Failure::NotFound)?;
    if let Some(since_ms) = arguments.number("since_ms")? {
        keep_later(&mut told, since_ms);
    }
    Ok(http::json(&told))
}

/// Removes the points up to a time.
fn keep_later(told: &mut Value, since_ms: u64) {
    let at = told["at_ms"].as_array().map_or(&[][..], Vec::as_slice);
    let earlier = at.partition_point(|at| at.as_u64() <= Some(since_ms));
    let lists = told.as_object_mut().into_iter().flat_map(|members| members.values_mut());
    lists.filter_map(Value::as_array_mut).for_each(|list| drop(list.drain(..earlier.min(list.len()))));
}

/// DDS and Tempo: configuration and status.
fn protocols(shared: &Shared, snapshot: &Snapshot) -> Value {
    let counted = |prefix: &str| {
        let some: Vec<_> = snapshot.counters.iter().filter(|(name, _)| name.starts_with(prefix)).copied().collect();
        counters(&some)
    };
    json!({
        "dds": { "joins": shared.service.dds_joins, "counters": counted("dds_") },
        "tempo": {
            "address": shared.service.tempo_address, "types": shared.service.tempo_types, "counters": counted("tempo_"),
        },
    })
}

/// A page of a list: the total number, and the entries of the page.
pub(crate) fn page<T>(all: &[T], (offset, limit): (usize, usize), told: impl Fn(&T) -> Value) -> Value {
    let entries: Vec<Value> = all.iter().skip(offset).take(limit).map(told).collect();
    json!({ "total": all.len(), "offset": offset, "entries": entries })
}

fn channels(snapshot: &Snapshot, arguments: &Arguments<'_>) -> Result<Value, Failure> {
    let sought = Sought::of(arguments);
    let is_sought = |channel: &&Channel| {
        let name = channel.listed.name.as_deref().unwrap_or_default();
        sought.as_ref().is_none_or(|sought| sought.is(name, &[channel.listed.id.0]))
    };
    let mut found: Vec<&Channel> = snapshot.channels.iter().filter(is_sought).collect();
    match arguments.text("sort") {
        None | Some("" | "number") => {}
        Some("backlog") => found.sort_by_key(|channel| Reverse(channel.backlog_events)),
        Some("events") => found.sort_by_key(|channel| Reverse(channel.stats.traffic.events_in)),
        Some("dropped") => found.sort_by_key(|channel| Reverse(channel.stats.traffic.discards.total())),
        Some("consumers") => found.sort_by_key(|channel| Reverse(channel.consumers)),
        Some(_) => return Err(Failure::Bad("sort is one of number, backlog, events, dropped, consumers".to_owned())),
    }
    Ok(page(&found, arguments.page()?, |channel| channel_json(channel, snapshot.now)))
}

/// Status of a channel.
pub(crate) fn channel_json(channel: &Channel, now: Time) -> Value {
    let traffic = channel.stats.traffic;
    json!({
        "id": channel.listed.id.0,
        "name": channel.listed.name,
        "admins": channel.listed.admins,
        "proxies": channel.listed.proxies,
        "consumers": channel.consumers,
        "consumers_behind": channel.behind,
        "events_in": traffic.events_in,
        "event_bytes_in": traffic.event_bytes_in,
        "events_refused": traffic.refused,
        "delivered": traffic.delivered,
        "delivered_bytes": traffic.delivered_bytes,
        "dropped": traffic.discards.total(),
        "dropped_by_reason": reasons(|reason| traffic.discards.of(reason)),
        "backlog_events": channel.backlog_events,
        "backlog_bytes": channel.backlog_bytes,
        "memory_bytes": channel.stats.memory_bytes,
        "held_suppliers": channel.stats.withheld,
        "oldest_ms": channel.oldest.map(|since| millis(now.since(since))),
        "latency": latency(&traffic.latency),
    })
}

fn reasons(of: impl Fn(DiscardReason) -> u64) -> Value {
    let reasons = DiscardReason::ALL.into_iter().map(|reason| (reason_name(reason).to_owned(), of(reason)));
    Value::Object(reasons.filter(|(_, events)| *events > 0).map(|(name, events)| (name, json!(events))).collect())
}

/// Number of latencies, their sum, and the bounds of the 50th and 99th percentiles.
pub(crate) fn latency(latency: &engine::Latency) -> Value {
    let [half, most] = [50, 99].map(|per_cent| latency.quantile(per_cent));
    json!({ "count": latency.count(), "sum_ns": latency.sum_ns(), "p50_below_ns": half, "p99_below_ns": most })
}

/// Configuration and status of a channel.
async fn channel(shared: &Shared, id: ChannelId, behind: Option<u32>, by: Principal) -> Result<Answer, Failure> {
    let snapshot = shared.snapshot().await?;
    let query = Query::Channel { channel: id, behind: behind.map(ProxyId) };
    let AdminAnswer::Channel(Some(text)) = allowed(shared.ask(by.clone(), query).await?)? else {
        return Err(Failure::NotFound);
    };
    let timers = timers(shared, id, by).await?;
    let configured: Value = serde_json::from_str(&text).unwrap_or_default();
    let found = snapshot.channels.iter().find(|channel| channel.listed.id == id);
    let stands = found.map(|channel| channel_json(channel, snapshot.now));
    Ok(http::json(&json!({ "configured": configured, "standing": stands, "timers": timers })))
}

/// Timers of a channel.
async fn timers(shared: &Shared, id: ChannelId, by: Principal) -> Result<Vec<Value>, Failure> {
    let query = Query::Timers { channel: Some(id), behind: None };
    let AdminAnswer::Timers(timers) = allowed(shared.ask(by, query).await?)? else {
        return Err(Failure::Declined(Declined::Stopping));
    };
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let timers = timers.into_iter().map(|timer| {
        json!({
            "name": timer.name,
            "kind": timer.kind,
            "time_ns": nanos(timer.time),
            "next_ns": timer.next.map(nanos),
            "fired": timer.fired,
            "missed": timer.missed,
            "dropped": timer.dropped,
        })
    });
    Ok(timers.collect())
}

/// Status of a consumer.
pub(crate) fn consumer_json(outbox: &OutboxStats, name: Option<&(String, Option<Arc<str>>)>, now: Time) -> Value {
    json!({
        "channel": outbox.key.channel.0,
        "proxy": outbox.key.proxy.0,
        "name": name.map(|(text, _)| text),
        "client_name": name.and_then(|(_, lasting)| lasting.as_deref()),
        "state": state_of(outbox, now),
        "doing": service::state_name(outbox.state),
        "backlog_events": outbox.backlog_events,
        "backlog_bytes": outbox.backlog_bytes,
        "overflow_events": outbox.elsewhere_events,
        "unanswered": outbox.in_flight,
        "delayed": outbox.delayed,
        "pulls_waiting": outbox.pulls_waiting,
        "awaiting_set": outbox.awaiting_set,
        "sets": outbox.sets,
        "oldest_ms": outbox.oldest.map(|since| millis(now.since(since))),
        "delivered": outbox.delivered,
        "delivered_bytes": outbox.delivered_bytes,
        "dropped": outbox.discards.total(),
        "dropped_by_reason": reasons(|reason| outbox.discards.of(reason)),
        "failures": outbox.failures,
        "given_up_in_ms": outbox.given_up_at.map(|at| millis(at.since(now))),
        "holds_suppliers_ms": outbox.holds.map(|holds| millis(now.since(holds.since))),
        "holds_for_ms": outbox.holds.and_then(|holds| holds.until).map(|until| millis(until.since(now))),
        "latency": latency(&outbox.latency),
    })
}

/// Consumers, the slowest first.
async fn consumers(shared: &Shared, arguments: Arguments<'_>, by: Principal) -> Result<Answer, Failure> {
    let snapshot = shared.snapshot().await?;
    let (channel, of_page) = (arguments.channel(shared).await?, arguments.page()?);
    let state = arguments.text("state").map(str::to_owned);
    let sought = Sought::of(&arguments);
    // Names are only asked for where something is sought in them.
    let called = if sought.is_some() { Some(shared.consumer_names().await?) } else { None };
    let name_of = |key: &ProxyKey| called.as_ref().and_then(|names| names.get(key)).map_or("", |(name, _)| name);
    let wanted = |outbox: &&OutboxStats| {
        let in_state = match state.as_deref() {
            None | Some("") => true,
            Some("slow") => is_behind(outbox, snapshot.now),
            Some(state) => state_of(outbox, snapshot.now) == state,
        };
        let is_sought = |sought: &Sought| sought.is_proxy(outbox.key, name_of(&outbox.key));
        in_state && channel.is_none_or(|channel| outbox.key.channel == channel) && sought.as_ref().is_none_or(is_sought)
    };
    let mut found: Vec<&OutboxStats> = snapshot.consumers.iter().filter(wanted).collect();
    match arguments.text("sort") {
        Some("delivered") => found.sort_by_key(|outbox| Reverse(outbox.delivered)),
        Some("dropped") => found.sort_by_key(|outbox| Reverse(outbox.discards.total())),
        Some("oldest") => found.sort_by_key(|outbox| (outbox.oldest.is_none(), outbox.oldest)),
        Some("number") => found.sort_by_key(|outbox| outbox.key),
        // They are so.
        None | Some("") => {}
        Some(_) => return Err(Failure::Bad("sort is one of delivered, dropped, oldest, number".to_owned())),
    }
    let now = snapshot.now;
    let names = {
        let keys: Vec<ProxyKey> = found.iter().skip(of_page.0).take(of_page.1).map(|outbox| outbox.key).collect();
        shared.with(move |queries| queries.names(&by, keys)).await?
    };
    Ok(http::json(&page(&found, of_page, |outbox| consumer_json(outbox, names.get(&outbox.key), now))))
}

async fn consumer(shared: &Shared, key: ProxyKey, by: Principal) -> Result<Answer, Failure> {
    let snapshot = shared.snapshot().await?;
    let found = snapshot.consumers.iter().find(|outbox| outbox.key == key).ok_or(Failure::NotFound)?;
    let names = shared.with(move |queries| queries.names(&by, vec![key])).await?;
    Ok(http::json(&consumer_json(found, names.get(&key), snapshot.now)))
}

pub(crate) fn supplier_json((status, name): &(SupplierStatus, String)) -> Value {
    json!({
        "channel": status.key.channel.0,
        "proxy": status.key.proxy.0,
        "name": name,
        "client_name": status.lasting_name.as_deref(),
        "client": status.address.map(|address| address.to_string()),
        "pulled": status.is_pulled,
        "has_reference": status.is_probed,
        "connection_open": status.is_open,
        "events": status.events,
        "idle_ms": millis(status.idle),
    })
}

/// Suppliers by channel and proxy: 1,024 behind a given one, with the last one's key in the answer if there may be more.
async fn suppliers(shared: &Shared, arguments: &Arguments<'_>, by: Principal) -> Result<Answer, Failure> {
    let behind = match (arguments.channel(shared).await?, arguments.number("proxy")?) {
        (Some(channel), Some(proxy)) => Some(ProxyKey { channel, proxy: ProxyId(proxy) }),
        _ => None,
    };
    let AdminAnswer::Suppliers(found) = shared.ask(by, Query::Suppliers { behind }).await? else {
        return Err(Failure::NotFound);
    };
    let last = found.last().filter(|_| found.len() == SUPPLIERS_AT_ONCE).map(|(last, _)| last.key);
    let next = last.map(|key| json!({ "channel": key.channel.0, "proxy": key.proxy.0 }));
    let entries: Vec<Value> = found.iter().map(supplier_json).collect();
    Ok(http::json(&json!({ "entries": entries, "next": next })))
}

async fn drops(shared: &Shared, by: Principal) -> Result<Answer, Failure> {
    let AdminAnswer::Drops { drops, beyond } = shared.ask(by, Query::Drops).await? else {
        return Err(Failure::NotFound);
    };
    let entries: Vec<Value> = drops
        .iter()
        .map(|drop| {
            json!({
                "channel": drop.key.channel.0,
                "proxy": drop.key.proxy.0,
                "name": drop.name,
                "domain": drop.domain,
                "type": drop.event_type,
                "reason": drop.reason,
                "events": drop.events,
            })
        })
        .collect();
    let lately = shared.drops.borrow().json();
    Ok(http::json(&json!({ "entries": entries, "others": beyond, "lately": lately })))
}

/// A channel, admin or proxy to configure, and its new properties.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetQos {
    channel: ChannelRef,
    admin: Option<u32>,
    /// The side of an admin: `consumers` or `suppliers`.
    side: Option<String>,
    proxy: Option<u32>,
    properties: std::collections::BTreeMap<String, DeclaredValue>,
}

/// A proxy's key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    channel: ChannelRef,
    proxy: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Idle {
    idle_ms: u64,
}

fn read<'b, T: Deserialize<'b>>(body: &'b [u8]) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(|error| Failure::Bad(error.to_string()))
}

/// Carries out a request that changes something.
pub(crate) async fn change(
    routes: &Routes,
    path: &str,
    body: &[u8],
    (asking, is_outside): (Asking, bool),
) -> Result<Answer, Failure> {
    let find = async |channel: ChannelRef| channel.find_for(&routes.shared, &asking, is_outside).await;
    let key = async || {
        let Which { channel, proxy } = read(body)?;
        Ok::<_, Failure>(ProxyKey { channel: find(channel).await?, proxy: ProxyId(proxy) })
    };
    let command = match path {
        "disconnect" => Command::Disconnect(key().await?),
        "disconnect-idle" => Command::DisconnectIdle(Duration::from_millis(read::<Idle>(body)?.idle_ms)),
        "suspend" => Command::Suspend { key: key().await?, suspended: true },
        "resume" => Command::Suspend { key: key().await?, suspended: false },
        "qos" => {
            let asked: SetQos = read(body)?;
            qos(find(asked.channel.clone()).await?, asked)?
        }
        "links" => links::addition(body)?,
        path if let Some((name, act)) = path.strip_prefix("links/").and_then(|rest| rest.rsplit_once('/')) => {
            // Which names there are is for those that may look.
            Access::check_reading(&asking, is_outside)?;
            links::order(decoded(name), act, body, &routes.shared.snapshot().await?.links)?
        }
        _ => return Err(Failure::NotFound),
    };
    match allowed(routes.shared.command(asking.by.clone(), command).await?)? {
        AdminAnswer::Disconnected(0) if path == "disconnect" => {
            Err(Failure::Refused("there is no such proxy".to_owned()))
        }
        AdminAnswer::Disconnected(count) => Ok(http::json(&json!({ "disconnected": count }))),
        AdminAnswer::Done(Ok(())) => Ok(http::json(&json!({ "done": true }))),
        AdminAnswer::LinkAdded(Ok(stored)) => Ok(http::json(&json!({ "stored": stored }))),
        AdminAnswer::Done(Err(why)) | AdminAnswer::LinkAdded(Err(why)) => Err(Failure::Refused(why)),
        _ => Err(Failure::Declined(Declined::Stopping)),
    }
}

fn qos(channel: ChannelId, asked: SetQos) -> Result<Command, Failure> {
    let SetQos { channel: _, admin, side, proxy, properties } = asked;
    let on = match (admin, proxy) {
        (None, None) => Settable::Channel(channel),
        (None, Some(proxy)) => Settable::Proxy(ProxyKey { channel, proxy: ProxyId(proxy) }),
        (Some(admin), None) => {
            let side = match side.as_deref() {
                Some("consumers") => Side::Consumers,
                Some("suppliers") => Side::Suppliers,
                _ => return Err(Failure::Bad("side is to be consumers or suppliers".to_owned())),
            };
            Settable::Admin { channel, side, admin: AdminId(admin) }
        }
        _ => return Err(Failure::Bad("either an admin or a proxy".to_owned())),
    };
    Ok(Command::SetQos { on, properties: properties.into_iter().map(|(name, value)| (name, value.into())).collect() })
}

//! The `Statistics` object: the service's counters, for whoever speaks CORBA.
//!
//! Found at `corbaloc::host:port/Statistics`. Its IDL is in `docs/idl/Campanile.idl`.

use core::cmp::Reverse;
use core::time::Duration;

use engine::{ChannelId, DiscardReason, Holding, OutboxState, OutboxStats, ProxyId, ProxyKey, Time, TypeDrops};
use giop::cdr::{ReadError, Reader, Writer};
use giop::exception::{Kind, SystemException};

use crate::counters::{Counter, Counters};
use crate::lane::links::mail::{NamedDrops, Survey};
use crate::lane::tally::DROPPED;
use corba::{AT_ONCE_MAX, Call, Door, Exception, SupplierStanding};

/// The object's key.
pub(crate) const KEY: &[u8] = b"Statistics";
/// Its repository id.
const ID: &str = "IDL:Campanile/Statistics:1.0";

/// The operations that cannot be answered before the lane has told how it stands.
pub(crate) const GET_CONSUMERS: &str = "get_consumers";
pub(crate) const GET_DROPS: &str = "get_drops";

/// Consumers that are told of with one call.
const CONSUMERS_MAX: usize = 8_192;

/// Puts together what the lanes say of one consumer: it may have an outbox on each.
fn join(mut outboxes: Vec<OutboxStats>) -> Vec<OutboxStats> {
    // Of several, the one that is worst off comes first, and says in which state it is.
    outboxes.sort_by_key(|outbox| (outbox.key, Reverse(outbox.backlog_bytes)));
    outboxes.dedup_by(|other, first| {
        let same = other.key == first.key;
        if same {
            first.backlog_events += other.backlog_events;
            first.backlog_bytes += other.backlog_bytes;
            first.in_flight += other.in_flight;
            first.delayed += other.delayed;
            first.pulls_waiting += other.pulls_waiting;
            first.delivered += other.delivered;
            first.discards.join(&other.discards);
            first.failures = first.failures.max(other.failures);
            first.holds = [first.holds, other.holds].into_iter().flatten().min_by_key(|holds| holds.since);
        }
        same
    });
    outboxes
}

/// The consumers that are told of: so many at most, those with the largest backlogs, and of these the largest first.
pub(crate) fn told_of(outboxes: Vec<OutboxStats>) -> Vec<OutboxStats> {
    let mut outboxes = join(outboxes);
    let by_backlog = |outbox: &OutboxStats| (Reverse(outbox.backlog_bytes), outbox.key);
    if outboxes.len() > CONSUMERS_MAX {
        // Before they are put in order, so that this takes time in proportion to their number only.
        outboxes.select_nth_unstable_by_key(CONSUMERS_MAX, by_backlog);
        outboxes.truncate(CONSUMERS_MAX);
    }
    outboxes.sort_unstable_by_key(by_backlog);
    outboxes
}

/// Writes the result of `get_consumers`.
pub(crate) fn write_consumers(
    outboxes: &[OutboxStats],
    now: Time,
    name: impl Fn(ProxyKey) -> String,
    reply: &mut Writer<'_>,
) {
    reply.u32(u32::try_from(outboxes.len()).unwrap_or(0));
    for outbox in outboxes {
        reply.u32(outbox.key.channel.0);
        reply.u32(outbox.key.proxy.0);
        reply.string(&name(outbox.key));
        reply.string(&standing(outbox.state, outbox.holds, now));
        reply.u64(outbox.backlog_events);
        reply.u64(outbox.backlog_bytes);
        reply.u64(outbox.delivered);
        reply.u64(outbox.discards.total());
        reply.u32(outbox.in_flight);
        reply.u32(outbox.failures);
        let reasons = DROPPED.iter().map(|(_, reason)| (reason_name(*reason), outbox.discards.of(*reason)));
        let reasons: Vec<_> = reasons.filter(|(_, count)| *count > 0).collect();
        reply.u32(u32::try_from(reasons.len()).unwrap_or(0));
        for (name, count) in reasons {
            reply.string(name);
            reply.u64(count);
        }
        reply.u64(outbox.delayed);
        reply.u32(outbox.pulls_waiting);
    }
}

/// Writes the result of `get_drops`: consumer by consumer, and what most was dropped of first.
pub(crate) fn write_drops(survey: &Survey, name: impl Fn(ProxyKey) -> String, reply: &mut Writer<'_>) {
    let mut drops: Vec<&NamedDrops> = survey.drops.iter().collect();
    drops.sort_by_key(|named| (named.drops.key, Reverse(named.drops.events), &named.domain, &named.name));
    reply.u32(u32::try_from(drops.len()).unwrap_or(0));
    for named in drops {
        let TypeDrops { key, reason, events, .. } = named.drops;
        reply.u32(key.channel.0);
        reply.u32(key.proxy.0);
        reply.string(&name(key));
        reply.string(&named.domain);
        reply.string(&named.name);
        reply.string(reason_name(reason));
        reply.u64(events);
    }
    reply.u64(survey.drops_beyond);
}

/// A reason's name: that of its counter without `lane_dropped_`.
fn reason_name(reason: DiscardReason) -> &'static str {
    let counter = DROPPED.iter().find(|(_, of)| *of == reason).map_or(Counter::Dropped, |(counter, _)| *counter);
    counter.name().strip_prefix("lane_dropped_").unwrap_or(counter.name())
}

/// What a consumer is doing and, if suppliers wait for it, since when and until when at most.
fn standing(state: OutboxState, holds: Option<Holding>, now: Time) -> String {
    let state = state_name(state);
    let Some(Holding { since, until }) = holds else { return state.to_owned() };
    let held = now.since(since).as_secs();
    let left = match until {
        Some(until) => format!("for {} s more at most", until.since(now).as_secs()),
        None => "and it is not disconnected for that".to_owned(),
    };
    format!("{state}, HOLDS SUPPLIERS for {held} s, {left}")
}

const fn state_name(state: OutboxState) -> &'static str {
    match state {
        OutboxState::Active => "active",
        OutboxState::Suspended => "suspended",
        OutboxState::NoRoom => "socket full",
        OutboxState::BackingOff => "failing",
        OutboxState::Disconnected => "disconnected",
    }
}

fn write_lanes(counters: &Counters, reply: &mut Writer<'_>) {
    let lanes = counters.lanes();
    reply.u32(u32::try_from(lanes.len()).unwrap_or(0));
    for lane in lanes {
        reply.u32(lane.id().into());
        reply.string(&lane.name());
        let counted = lane.snapshot();
        reply.u32(u32::try_from(counted.len()).unwrap_or(0));
        for (name, value) in counted {
            reply.string(name);
            reply.u64(value);
        }
    }
}

/// Writes how suppliers stand: the first, or those behind a proxy.
fn write_suppliers(door: &Door, behind: Option<ProxyKey>, reply: &mut Writer<'_>) {
    let suppliers: Vec<SupplierStanding> = door.suppliers(behind).take(AT_ONCE_MAX).collect();
    reply.length(suppliers.len());
    for SupplierStanding { key, address, is_pulled, is_probed, is_open, events, idle } in suppliers {
        reply.u32(key.channel.0);
        reply.u32(key.proxy.0);
        reply.string(&door.name("supplier", key));
        reply.string(&address.map_or_else(String::new, |address| address.to_string()));
        [is_pulled, is_probed, is_open].into_iter().for_each(|flag| reply.bool(flag));
        reply.u64(events);
        reply.u64(u64::try_from(idle.as_millis()).unwrap_or(u64::MAX));
    }
}

/// The arguments of an operation about suppliers: a proxy, or how long it is idle.
fn read_operands(operation: &str, mut args: Reader<'_>) -> Result<(ProxyKey, Duration), ReadError> {
    let (mut key, mut idle) = (ProxyKey { channel: ChannelId(0), proxy: ProxyId(0) }, Duration::ZERO);
    if operation == "disconnect_idle" {
        idle = Duration::from_millis(args.u64()?);
    } else {
        key = ProxyKey { channel: ChannelId(args.u32()?), proxy: ProxyId(args.u32()?) };
    }
    args.finish("the arguments")?;
    Ok((key, idle))
}

/// Answers a call on the object.
///
/// # Errors
/// `BAD_OPERATION` for what it does not have, `MARSHAL` for arguments that cannot be read.
pub(crate) fn handle(
    counters: &Counters,
    door: &mut Door,
    call: &Call<'_>,
    reply: &mut Writer<'_>,
) -> Result<(), Exception> {
    let raise = |kind| Exception::System(SystemException::new(kind, 0));
    let mut args = call.args.clone();
    let operands = |args: Reader<'_>| read_operands(call.operation, args).map_err(|_| raise(Kind::Marshal));
    match call.operation {
        "get_statistics" => {
            let statistics = counters.snapshot();
            reply.u32(u32::try_from(statistics.len()).unwrap_or(0));
            for (name, value) in statistics {
                reply.string(name);
                reply.u64(value);
            }
        }
        "get_lanes" => write_lanes(counters, reply),
        "get_suppliers" => write_suppliers(door, None, reply),
        "get_suppliers_behind" => write_suppliers(door, Some(operands(args)?.0), reply),
        "disconnect" => reply.bool(door.dismiss(operands(args)?.0)),
        "disconnect_idle" => reply.length(door.disconnect_idle(operands(args)?.1)),
        "_is_a" => {
            let id = args.text().map_err(|_| raise(Kind::Marshal))?;
            reply.bool(id == ID || id == "IDL:omg.org/CORBA/Object:1.0");
        }
        "_non_existent" | "_not_existent" => reply.bool(false),
        _ => return Err(raise(Kind::BadOperation)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use engine::{AdminId, ChannelLimits, Form, Hierarchy, Lane, Peer, ProxyKind, SettingsPatch, Side, Want};

    /// How the outbox of a consumer stands that has just connected.
    fn idle() -> OutboxStats {
        let mut hierarchy = Hierarchy::default();
        let channel = hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap();
        let (side, form, kind) = (Side::Consumers, Form(1), ProxyKind::default());
        let proxy = hierarchy.create_proxy(channel, side, AdminId::DEFAULT, form, kind).unwrap();
        hierarchy.connect(ProxyKey { channel, proxy }, Some(Peer(1)), Want(0)).unwrap();
        let mut lane = Lane::new(Time(0));
        lane.handle_snapshot(hierarchy.snapshot(), Time(0));
        lane.outboxes_at(0, 1).unwrap().next().unwrap()
    }

    /// A client can have many thousand consumers, and everybody who asked how consumers stand had all of them copied, put in
    /// order and written down in one go: administration did nothing else meanwhile.
    #[test]
    fn of_many_consumers_those_with_the_largest_backlogs_are_told_of() {
        let (idle, number_of) = (idle(), |number: usize| u32::try_from(number).unwrap());
        let consumer = |number: usize| OutboxStats {
            key: ProxyKey { proxy: ProxyId(number_of(number)), ..idle.key },
            // Neither rising nor falling; 7,919 is a prime.
            backlog_bytes: u64::from(number_of(number) * 7_919 % 10_007),
            ..idle
        };
        let told = told_of((0..10_007).map(consumer).collect());
        let backlogs: Vec<u64> = told.iter().map(|outbox| outbox.backlog_bytes).collect();
        let largest: Vec<u64> = (0..10_007).rev().take(CONSUMERS_MAX).collect();
        assert_eq!(backlogs, largest);
        assert_eq!(told_of((0..5).map(consumer).collect()).len(), 5);
    }

    #[test]
    fn who_holds_suppliers_is_told_with_since_when_and_until_when() {
        let since = Time(0) + Duration::from_secs(5);
        let now = since + Duration::from_secs(12);
        assert_eq!(standing(OutboxState::Active, None, now), "active");
        let holds = Holding { since, until: Some(since + Duration::from_secs(30)) };
        let text = "active, HOLDS SUPPLIERS for 12 s, for 18 s more at most";
        assert_eq!(standing(OutboxState::Active, Some(holds), now), text);
        let holds = Holding { since, until: None };
        let text = "suspended, HOLDS SUPPLIERS for 12 s, and it is not disconnected for that";
        assert_eq!(standing(OutboxState::Suspended, Some(holds), now), text);
    }
}

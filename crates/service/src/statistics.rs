//! The `Statistics` object: the service's counters, for whoever speaks CORBA.
//!
//! Found at `corbaloc::host:port/Statistics`. In IDL:
//!
//! ```idl
//! module Campanile {
//!   struct Statistic { string name; unsigned long long value; };
//!   typedef sequence<Statistic> StatisticSeq;
//!   struct ConsumerStatistic {
//!     unsigned long channel, proxy; string name, state;
//!     unsigned long long backlog_events, backlog_bytes, delivered, discarded; unsigned long in_flight, failures;
//!     StatisticSeq discarded_by_reason;  // named as the counters `lane_dropped_…`; those that are not 0
//!     unsigned long long delayed;        // of the backlog, wait for their StartTime
//!     unsigned long pulls_waiting;       // clients that wait in `pull`
//!   };
//!   typedef sequence<ConsumerStatistic> ConsumerStatisticSeq;
//!   struct DropStatistic {
//!     unsigned long channel, proxy; string name;  // the consumer, which may be gone
//!     string domain, type;                        // "*" and "*" for all types beyond the 65,536 that have a number
//!     string reason;                              // as in `discarded_by_reason`
//!     unsigned long long events;
//!   };
//!   typedef sequence<DropStatistic> DropStatisticSeq;
//!   struct LaneStatistic { unsigned long lane; string name; StatisticSeq counters; };  // those that are not 0
//!   typedef sequence<LaneStatistic> LaneStatisticSeq;
//!   interface Statistics {
//!     StatisticSeq get_statistics();
//!     ConsumerStatisticSeq get_consumers();  // the largest backlog first
//!     // What was dropped, by consumer, event type and reason: 1,024 entries at most; `others` counts what they leave out.
//!     DropStatisticSeq get_drops(out unsigned long long others);
//!     // What each lane counted by itself: `lane` (0) is the main one, `lane-3-p100` one of a pool, with its priority.
//!     LaneStatisticSeq get_lanes();
//!   };
//! };
//! ```

use core::cmp::Reverse;

use engine::{DiscardReason, OutboxState, OutboxStats, ProxyKey, TypeDrops};
use giop::cdr::Writer;
use giop::exception::{Kind, SystemException};

use crate::corba::{Call, Exception};
use crate::counters::{Counter, Counters};
use crate::lanes::mail::{NamedDrops, Survey};
use crate::lanes::tally::DROPPED;

/// The object's key.
pub(crate) const KEY: &[u8] = b"Statistics";
/// Its repository id.
const ID: &str = "IDL:Campanile/Statistics:1.0";

/// The operations that cannot be answered before the lane has told how it stands.
pub(crate) const GET_CONSUMERS: &str = "get_consumers";
pub(crate) const GET_DROPS: &str = "get_drops";

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
        }
        same
    });
    outboxes
}

/// Writes the result of `get_consumers`, the largest backlog first.
pub(crate) fn write_consumers(outboxes: Vec<OutboxStats>, name: impl Fn(ProxyKey) -> String, reply: &mut Writer<'_>) {
    let mut outboxes = join(outboxes);
    outboxes.sort_by_key(|outbox| (Reverse(outbox.backlog_bytes), outbox.key));
    reply.u32(u32::try_from(outboxes.len()).unwrap_or(0));
    for outbox in outboxes {
        reply.u32(outbox.key.channel.0);
        reply.u32(outbox.key.proxy.0);
        reply.string(&name(outbox.key));
        reply.string(state_name(outbox.state));
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

/// Answers a call on the object.
///
/// # Errors
/// `BAD_OPERATION` for what it does not have, `MARSHAL` for arguments that cannot be read.
pub(crate) fn handle(counters: &Counters, call: &Call<'_>, reply: &mut Writer<'_>) -> Result<(), Exception> {
    let raise = |kind| Exception::System(SystemException::new(kind, 0));
    let mut args = call.args.clone();
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
        "_is_a" => {
            let id = args.text().map_err(|_| raise(Kind::Marshal))?;
            reply.bool(id == ID || id == "IDL:omg.org/CORBA/Object:1.0");
        }
        "_non_existent" | "_not_existent" => reply.bool(false),
        _ => return Err(raise(Kind::BadOperation)),
    }
    Ok(())
}

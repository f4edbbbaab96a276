//! Log lines about consumers and suppliers that fail, block others, recover or leave: one line for each episode.

use engine::{BlockedBy, DisconnectReason, FullOutbox, Notice, ProxyKey};

use crate::lane::links::messages::SupplierNews;

/// One line per episode: the client, what happened, and what is being done about it.
pub(super) fn describe_notice(
    notice: &Notice,
    why: Option<&str>,
    name: impl Fn(ProxyKey) -> String,
) -> (log::Level, String) {
    if let Some(text) = good_news(notice, &name) {
        return (log::Level::Info, text);
    }
    if let Some(text) = lost_event(notice, why, &name) {
        return (log::Level::Warn, text);
    }
    let text = match *notice {
        Notice::ConsumerDisconnected { key, reason, discarded, .. } => {
            format!("disconnected {}: {}; {discarded} events were dropped with it", name(key), reason_text(reason))
        }
        Notice::DurableRemoved { key, discarded } => {
            format!("durable {} is destroyed; {discarded} events went with it", name(key))
        }
        Notice::OutboxFull { key, policy, not_granted, backlog_events, backlog_bytes } => {
            let done = match policy {
                _ if not_granted => {
                    "its events are discarded by its DiscardPolicy, since its own FullOutbox would cost others: HoldGranted on its channel \
                     or consumer admin would allow it"
                }
                FullOutbox::Hold => "its channel's suppliers wait until there is room",
                FullOutbox::Discard => "its events are discarded",
                FullOutbox::Reject => "its channel's suppliers are refused",
                FullOutbox::Disconnect => "it is disconnected",
            };
            format!("{} is full: {backlog_events} events, {backlog_bytes} bytes wait; {done}", name(key))
        }
        Notice::Overflows { key, backlog_events, backlog_bytes } => {
            let backlog = format!("{backlog_events} events, {backlog_bytes} bytes wait");
            format!("{} is behind: {backlog}; what comes for it from now on waits on disk", name(key))
        }
        Notice::LaneBehind { channel, lane, backlog_events, backlog_bytes } => format!(
            "channel {} has no room because {lane} is behind: {backlog_events} events ({backlog_bytes} bytes) wait for it; \
             the oldest are dropped",
            channel.0
        ),
        Notice::ConsumerFailing { key, retry_in, .. } => {
            let why = why.unwrap_or("it does not take events");
            format!("{} is failing: {why}; next try in {} ms", name(key), retry_in.as_millis())
        }
        Notice::SuppliersBlocked { channel, by, .. } => {
            let whose = match by {
                Some(BlockedBy::Consumer(key)) => name(key),
                Some(BlockedBy::Lane(lane)) => format!("what waits for {lane}"),
                None => "events that are on their way".to_owned(),
            };
            format!("suppliers of channel {} are blocked: there is no room because of {whose}", channel.0)
        }
        Notice::HoldGoesOn { key, blocked_for, suspended } => {
            let why = if suspended { "it is suspended" } else { "its events wait for their StartTime" };
            let (name, channel, millis) = (name(key), key.channel.0, blocked_for.as_millis());
            format!("suppliers of channel {channel} are blocked for {millis} ms now because of {name}: {why}")
        }
        Notice::WaitedOut { key, blocked_for } => {
            let (name, channel, millis) = (name(key), key.channel.0, blocked_for.as_millis());
            format!(
                "suppliers of channel {channel} wait no more for {name}: it took nothing for its HoldTimeout while they did, for {millis} \
                 ms; its connection is persistent, so it stays, and events that there is no room for are dropped for it"
            )
        }
        Notice::HoldSpent { key, blocked_for } => {
            let (name, channel, millis) = (name(key), key.channel.0, blocked_for.as_millis());
            format!(
                "suppliers of channel {channel} wait no more for {name}, nor for other consumers of its address: within ten minutes they have \
                 waited for them for its HoldTimeout, {millis} ms, or for all that they waited for twice as long, while other consumers \
                 could go on; events that there is no room for are dropped for them"
            )
        }
        ref other => format!("{other:?}"),
    };
    (log::Level::Warn, text)
}

/// Line about an event that a consumer does not take while it takes others; `why` is the event's type.
fn lost_event(notice: &Notice, why: Option<&str>, name: impl Fn(ProxyKey) -> String) -> Option<String> {
    let event_type = why.unwrap_or("of a type without a number");
    Some(match *notice {
        Notice::EventRejected { key, number, .. } => {
            format!("{} rejects event {number} ({event_type}), which is dropped for it; others may follow", name(key))
        }
        Notice::EventUndeliverable { key, number, .. } => {
            format!(
                "{} never takes event {number} ({event_type}): its DeliveryAttempts failed, and it takes a later one; it is dropped for \
                 it, and others may follow",
                name(key)
            )
        }
        _ => return None,
    })
}

/// Line about a consumer that is well, or well again.
fn good_news(notice: &Notice, name: impl Fn(ProxyKey) -> String) -> Option<String> {
    Some(match *notice {
        Notice::OutboxRecovered { key, dropped } => {
            format!("{} has room again; {dropped} events were dropped meanwhile", name(key))
        }
        Notice::WaitedForAgain { key, dropped } => {
            format!("{} is waited for again; {dropped} events were dropped for it meanwhile", name(key))
        }
        Notice::BeginsInHistory { key, first } => {
            format!("{} begins in its channel's history, with event {first}", name(key))
        }
        Notice::BeginsAhead { key, number: Some(number) } => {
            format!("{} begins with event {number}, which is yet to come: it gets nothing before", name(key))
        }
        Notice::BeginsAhead { key, number: None } => {
            format!("{} begins at a time that is yet to come: it gets nothing before", name(key))
        }
        Notice::CaughtUp { key, events } => {
            format!("{} had {events} events of the history, and gets what comes now", name(key))
        }
        Notice::OverflowOver { key } => {
            format!("{} has caught up: nothing waits for it on disk any more", name(key))
        }
        Notice::LaneCaughtUp { channel, lane, dropped } => {
            format!("channel {} has room again for {lane}; {dropped} events were dropped meanwhile", channel.0)
        }
        Notice::ConsumerRecovered { key, failures, after } => {
            let name = name(key);
            format!("{name} takes events again, after {failures} failures in {} ms", after.as_millis())
        }
        Notice::SuppliersReleased { channel, blocked_events, .. } => {
            let channel = channel.0;
            format!("suppliers of channel {channel} go on; {blocked_events} events came while they were blocked")
        }
        _ => return None,
    })
}

/// Line about a supplier that is pulled from.
pub(super) fn describe_supplier(news: &SupplierNews, name: &str) -> (log::Level, String) {
    match news {
        SupplierNews::Failing { why, retry_in } => {
            (log::Level::Warn, format!("{name} is failing: {why}; next try in {} ms", retry_in.as_millis()))
        }
        SupplierNews::Recovered => (log::Level::Info, format!("{name} gives events again")),
        SupplierNews::Disconnected(DisconnectReason::GivenUp { failures, failing_for }) => {
            let millis = failing_for.as_millis();
            (
                log::Level::Warn,
                format!("disconnected {name}: pulling from it failed {failures} times in a row, for {millis} ms"),
            )
        }
        SupplierNews::Disconnected(_) => {
            (log::Level::Warn, format!("disconnected {name}: it is gone, or said that it is not connected any more"))
        }
    }
}

/// Why a consumer was disconnected, for the log.
fn reason_text(reason: DisconnectReason) -> String {
    match reason {
        DisconnectReason::Gone => "it is gone, or said that it is not connected any more".into(),
        DisconnectReason::GivenUp { failures, failing_for } => {
            format!("{failures} pushes in a row failed, for {} ms", failing_for.as_millis())
        }
        DisconnectReason::BlockedSuppliers { blocked_for } => {
            format!(
                "it took nothing for its HoldTimeout while there was no room for what suppliers sent, for {} ms",
                blocked_for.as_millis()
            )
        }
        DisconnectReason::HoldSpent { blocked_for } => {
            format!(
                "within ten minutes suppliers waited for consumers of its address for its HoldTimeout, {} ms, while other consumers could go \
                 on, and its channel has such consumers disconnected",
                blocked_for.as_millis()
            )
        }
        DisconnectReason::OutboxFull => "its outbox is full and its FullOutbox is Disconnect".into(),
        DisconnectReason::QueueFull => {
            "the channel has MaxQueueLength events, its backlog is the largest and its FullOutbox is Disconnect".into()
        }
        DisconnectReason::MemorySpent => {
            "the channel's memory budget is spent, its backlog is the largest and its FullOutbox is Disconnect".into()
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use engine::{ChannelId, Peer, ProxyId, TypeId};

    use super::*;

    const KEY: ProxyKey = ProxyKey { channel: ChannelId(0), proxy: ProxyId(12) };

    /// Whether a line is of the form that an operator finds in the handbook, where an ellipsis stands for anything.
    fn is_of(form: &str, line: &str) -> bool {
        let mut rest = line;
        form.split('…').enumerate().all(|(index, part)| {
            let found = rest.find(part).filter(|at| index > 0 || *at == 0);
            found.and_then(|at| rest.get(at + part.len()..)).map(|behind| rest = behind).is_some()
        })
    }

    #[test]
    fn every_notice_reads_as_the_handbook_says() {
        let handbook = include_str!("../../../../docs/operating-reference.md");
        let (_, log_lines) = handbook.split_once("## Log lines").unwrap();
        let (log_lines, _) = log_lines.split_once("## ").unwrap();
        let forms = log_lines.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let forms: Vec<&str> = forms.collect();
        let second = Duration::from_secs(1);
        let mut notices = vec![
            Notice::OutboxRecovered { key: KEY, dropped: 1 },
            Notice::DurableRemoved { key: KEY, discarded: 9 },
            Notice::ConsumerFailing { key: KEY, failures: 1, retry_in: second },
            Notice::ConsumerRecovered { key: KEY, failures: 3, after: second },
            Notice::EventRejected { key: KEY, event_type: TypeId::OTHER, number: 7 },
            Notice::EventUndeliverable { key: KEY, event_type: TypeId::OTHER, number: 7 },
            Notice::SuppliersBlocked { channel: KEY.channel, by: Some(BlockedBy::Consumer(KEY)) },
            Notice::SuppliersBlocked { channel: KEY.channel, by: None },
            Notice::HoldGoesOn { key: KEY, blocked_for: second, suspended: true },
            Notice::WaitedOut { key: KEY, blocked_for: second },
            Notice::WaitedForAgain { key: KEY, dropped: 2 },
            Notice::SuppliersReleased { channel: KEY.channel, by: None, blocked_events: 2 },
        ];
        for policy in [FullOutbox::Hold, FullOutbox::Discard, FullOutbox::Reject, FullOutbox::Disconnect] {
            notices.push(Notice::OutboxFull {
                key: KEY,
                policy,
                not_granted: false,
                backlog_events: 1,
                backlog_bytes: 2,
            });
        }
        for reason in [
            DisconnectReason::Gone,
            DisconnectReason::GivenUp { failures: 3, failing_for: second },
            DisconnectReason::BlockedSuppliers { blocked_for: second },
            DisconnectReason::OutboxFull,
            DisconnectReason::QueueFull,
            DisconnectReason::MemorySpent,
        ] {
            notices.push(Notice::ConsumerDisconnected { key: KEY, peer: Some(Peer(0)), reason, discarded: 4 });
        }
        for notice in notices {
            let (_, line) = describe_notice(&notice, Some("no reply in time"), |_| "consumer proxy 12".into());
            assert!(forms.iter().any(|form| is_of(form, &line)), "{line}");
        }
        for news in [
            SupplierNews::Failing { why: "no reply in time".into(), retry_in: second },
            SupplierNews::Recovered,
            SupplierNews::Disconnected(DisconnectReason::Gone),
            SupplierNews::Disconnected(DisconnectReason::GivenUp { failures: 3, failing_for: second }),
        ] {
            let (_, line) = describe_supplier(&news, "supplier proxy 3");
            assert!(forms.iter().any(|form| is_of(form, &line)), "{line}");
        }
    }

    #[test]
    fn the_reason_for_a_failure_is_reported() {
        let notice = Notice::ConsumerFailing { key: KEY, failures: 1, retry_in: Duration::from_millis(50) };
        let (level, line) = describe_notice(&notice, Some("Connection refused"), |_| "consumer proxy 12".into());
        assert_eq!(line, "consumer proxy 12 is failing: Connection refused; next try in 50 ms");
        assert_eq!(level, log::Level::Warn);
    }
}

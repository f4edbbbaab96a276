//! Notices and log lines that a lane sends to administration. A lane does not log itself, since a log can block.
//!
//! A lane never waits for room in administration's mailbox: reports without room wait here. Events that clients can cause are counted, and
//! not logged line by line, when there are too many.

use core::time::Duration;
use std::collections::VecDeque;

use crate::lane::links::mailbox::Mailbox;
use crate::lane::links::messages::{SupplierNews, ToAdministration};
use crate::protocols::Denied;
use engine::{Notice, ProxyKey, Time};

/// Maximum lines per second about connections.
const CONNECTION_LINES: u32 = 10;
/// Maximum lines per second about consumers. A host that fails can take hundreds with it, and an operator has to find each.
const CONSUMER_LINES: u32 = 100;
/// Maximum lines per second, for debugging, about connections that come and go.
const DEBUG_LINES: u32 = 100;
/// Maximum lines per second about denials. Administration leaves out repeated ones of one client.
const DENIED_LINES: u32 = 50;
/// Maximum lines that wait while administration has no room.
const LINES_WAITING_MAX: usize = 1024;

/// Reports to administration that wait.
pub(crate) struct Reports {
    /// Reports in order. Those that must not be lost are bounded by their subjects: consumers, calls, surveys.
    waiting: VecDeque<ToAdministration>,
    connections: Allowance,
    consumers: Allowance,
    debug_lines: Allowance,
    denied: Allowance,
}

impl Reports {
    pub(crate) fn new() -> Self {
        Self {
            // A few reports can wait without an allocation between two events.
            waiting: VecDeque::with_capacity(16),
            connections: Allowance::new("connections", CONNECTION_LINES),
            consumers: Allowance::new("consumers", CONSUMER_LINES),
            debug_lines: Allowance::new("connections that come and go", DEBUG_LINES),
            denied: Allowance::new("what is not permitted", DENIED_LINES),
        }
    }

    /// Queues a report that must not be lost.
    pub(crate) fn send(&mut self, message: ToAdministration) {
        self.waiting.push_back(message);
    }

    /// Logs a line about a connection. False when it is only counted.
    pub(crate) fn log(&mut self, level: log::Level, text: impl FnOnce() -> String, now: Time) -> bool {
        let may = self.connections.take(now, self.waiting.len() < LINES_WAITING_MAX);
        if may {
            self.waiting.push_back(ToAdministration::Log(level, text()));
        }
        may
    }

    /// Logs a line for debugging. False when it is only counted.
    pub(crate) fn log_debug(&mut self, text: impl FnOnce() -> String, now: Time) -> bool {
        let may = self.debug_lines.take(now, self.waiting.len() < LINES_WAITING_MAX);
        if may {
            self.waiting.push_back(ToAdministration::Log(log::Level::Debug, text()));
        }
        may
    }

    /// Reports the denial of a right. False when it is only counted.
    pub(crate) fn denied(&mut self, denied: impl FnOnce() -> Denied, now: Time) -> bool {
        let may = self.denied.take(now, self.waiting.len() < LINES_WAITING_MAX);
        if may {
            self.waiting.push_back(ToAdministration::Denied(denied()));
        }
        may
    }

    /// Reports a notice of the engine. False when it is only counted.
    pub(crate) fn notice(&mut self, notice: Notice, why: Option<String>, now: Time) -> bool {
        // Administration acts on a disconnection; other notices are lines for the log.
        let may = matches!(notice, Notice::ConsumerDisconnected { .. })
            || self.consumers.take(now, self.waiting.len() < LINES_WAITING_MAX);
        if may {
            self.waiting.push_back(ToAdministration::Notice(notice, why));
        }
        may
    }

    /// Reports news about a supplier that is pulled from. False when it is only counted.
    pub(crate) fn supplier(&mut self, key: ProxyKey, news: SupplierNews, now: Time) -> bool {
        // Administration acts on a disconnection; other news are lines for the log.
        let may = matches!(news, SupplierNews::Disconnected(_))
            || self.consumers.take(now, self.waiting.len() < LINES_WAITING_MAX);
        if may {
            self.waiting.push_back(ToAdministration::Supplier { key, news });
        }
        may
    }

    /// Reports that a connection to clients at an address has ended as that of a process which dies. Left out while very many reports wait.
    pub(crate) fn died(&mut self, host: &str, port: u16) {
        if self.waiting.len() < LINES_WAITING_MAX {
            self.waiting.push_back(ToAdministration::Died(host.to_owned(), port));
        }
    }

    /// Hands reports over as far as there is room.
    pub(crate) fn hand_over(&mut self, administration: &mut Mailbox<ToAdministration>, now: Time) {
        for allowance in [&mut self.connections, &mut self.consumers, &mut self.debug_lines, &mut self.denied] {
            if let Some(text) = allowance.sum_up(now) {
                self.waiting.push_back(ToAdministration::Log(log::Level::Warn, text));
            }
        }
        while let Some(message) = self.waiting.pop_front() {
            if let Err(message) = administration.send(message) {
                self.waiting.push_front(message);
                return;
            }
        }
    }

    /// Whether reports wait for room.
    pub(crate) fn has_backlog(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether reports wait, or lines are to be summed up.
    pub(crate) fn is_waiting(&self) -> bool {
        let allowances = [&self.connections, &self.consumers, &self.debug_lines, &self.denied];
        !self.waiting.is_empty() || allowances.into_iter().any(Allowance::has_summary)
    }
}

/// A client's text made fit for a log: without control characters, and not too long.
pub(crate) fn printable(text: &str) -> String {
    const CHARS: usize = 100;
    let shown = text.chars().take(CHARS).flat_map(char::escape_debug);
    shown.chain(text.chars().nth(CHARS).map(|_| '…')).collect()
}

/// Limit of lines per second about one subject. Further lines are summed up.
pub(crate) struct Allowance {
    subject: &'static str,
    per_second: u32,
    second: Time,
    said: u32,
    left_out: u64,
    left_out_since: Option<Time>,
}

const SECOND: Duration = Duration::from_secs(1);

impl Allowance {
    pub(crate) const fn new(subject: &'static str, per_second: u32) -> Self {
        Self { subject, per_second, second: Time(0), said: 0, left_out: 0, left_out_since: None }
    }

    /// Whether a line may be logged now; `room` is false if there is no room for it.
    pub(crate) fn take(&mut self, now: Time, room: bool) -> bool {
        let may = room && self.left(now) > 0;
        self.note(now, u32::from(may), u32::from(!may));
        may
    }

    /// Number of lines that may still be logged in this second.
    pub(crate) fn left(&mut self, now: Time) -> u32 {
        if now.since(self.second) >= SECOND {
            self.second = now;
            self.said = 0;
        }
        self.per_second.saturating_sub(self.said)
    }

    /// Notes numbers of lines that were logged and left out.
    pub(crate) fn note(&mut self, now: Time, said: u32, left_out: u32) {
        self.said = self.said.saturating_add(said);
        if left_out > 0 {
            self.left_out += u64::from(left_out);
            self.left_out_since.get_or_insert(now);
        }
    }

    /// The summary of the lines left out, due a second after the first of them.
    pub(crate) fn sum_up(&mut self, now: Time) -> Option<String> {
        self.left_out_since.take_if(|since| now.since(*since) >= SECOND)?;
        let count = core::mem::take(&mut self.left_out);
        Some(format!("{count} more lines about {} were left out; the counters have them", self.subject))
    }

    /// Whether lines were left out since the last summary.
    pub(crate) fn has_summary(&self) -> bool {
        self.left_out_since.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{ChannelId, DisconnectReason, Peer, ProxyId};
    use std::sync::Arc;

    use crate::lane::io::net::Waker;
    use crate::lane::links::mailbox::{Inbox, mailbox};

    const KEY: ProxyKey = ProxyKey { channel: ChannelId(0), proxy: ProxyId(1) };

    fn pair(capacity: usize) -> (Mailbox<ToAdministration>, Inbox<ToAdministration>) {
        mailbox(&Arc::new(Waker::new().unwrap()), capacity)
    }

    fn all(inbox: &mut Inbox<ToAdministration>) -> Vec<ToAdministration> {
        core::iter::from_fn(|| inbox.take()).collect()
    }

    fn at(millis: u64) -> Time {
        Time(millis * 1_000_000)
    }

    fn failing() -> Notice {
        Notice::ConsumerFailing { key: KEY, failures: 1, retry_in: Duration::ZERO }
    }

    fn disconnected() -> Notice {
        Notice::ConsumerDisconnected { key: KEY, peer: Some(Peer(0)), reason: DisconnectReason::Gone, discarded: 0 }
    }

    #[test]
    fn a_flood_of_lines_becomes_a_few_and_their_number() {
        let (mut mailbox, mut inbox) = pair(10_000);
        let mut reports = Reports::new();
        let said = (0..5_000).filter(|_| reports.log(log::Level::Warn, || "bad".into(), at(10))).count();
        assert_eq!(said, 10);
        reports.hand_over(&mut mailbox, at(10));
        assert!(reports.is_waiting());
        assert_eq!(all(&mut inbox).len(), 10);
        reports.hand_over(&mut mailbox, at(1_009));
        assert_eq!(all(&mut inbox).len(), 0);
        reports.hand_over(&mut mailbox, at(1_010));
        let Some(ToAdministration::Log(_, text)) = inbox.take() else { panic!("a line") };
        assert_eq!(text, "4990 more lines about connections were left out; the counters have them");
        assert!(!reports.is_waiting());
        assert!(reports.log(log::Level::Warn, || "bad".into(), at(1_011)));
    }

    #[test]
    fn what_clients_chose_is_shown_short_and_printable() {
        assert_eq!(printable("a\n\u{1b}[2Jü"), "a\\n\\u{1b}[2Jü");
        assert_eq!(printable(&"x".repeat(100)), "x".repeat(100));
        assert_eq!(printable(&"x".repeat(1_000_000)), "x".repeat(100) + "…");
    }

    #[test]
    fn what_administration_acts_on_is_never_left_out() {
        let (mut mailbox, mut inbox) = pair(1);
        let mut reports = Reports::new();
        for _ in 0..5_000 {
            reports.notice(failing(), None, at(0));
            assert!(reports.notice(disconnected(), None, at(0)));
        }
        let mut acted_on = 0;
        while reports.is_waiting() {
            reports.hand_over(&mut mailbox, at(2_000));
            acted_on += all(&mut inbox)
                .into_iter()
                .filter(|message| matches!(message, ToAdministration::Notice(Notice::ConsumerDisconnected { .. }, _)))
                .count();
        }
        assert_eq!(acted_on, 5_000);
    }

    #[test]
    fn lines_that_find_no_room_are_left_out_in_the_end() {
        let (mut mailbox, _inbox) = pair(0);
        let mut reports = Reports::new();
        let mut said = 0;
        for second in 0..100 {
            for _ in 0..100 {
                said += usize::from(reports.notice(failing(), None, at(second * 1_000)));
            }
            reports.hand_over(&mut mailbox, at(second * 1_000));
        }
        assert!(said <= LINES_WAITING_MAX, "{said}");
    }
}

//! Recent incidents: dropped events with their times, and lines of the log.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use engine::ProxyKey;
use serde_json::{Value, json};
use service::Dropped;

use crate::shared::unix_ms;

/// Maximum number of stored episodes of drops.
const EPISODES_MAX: usize = 256;
/// Maximum milliseconds between drops of one episode, which are of one event type, consumer and reason.
const ONE_EPISODE_MS: u64 = 60_000;
/// Maximum number of stored log lines, and of audit lines; and of characters in each.
const LINES_MAX: usize = 256;
const LINE_CHARS: usize = 1_024;
const NAME_CHARS: usize = 256;

/// Consumer, event type and reason of drops.
type Of = (ProxyKey, String, String, &'static str);

struct Episode {
    of: Of,
    name: String,
    events: u64,
    /// Times of the first and last check with drops, in milliseconds since 1970.
    first_ms: u64,
    last_ms: u64,
}

/// Recent drops, in episodes. The current one is last.
#[derive(Default)]
pub(crate) struct Drops {
    /// Totals at the last check.
    counts: HashMap<Of, u64>,
    episodes: VecDeque<Episode>,
}

impl Drops {
    /// Notes the totals of dropped events.
    pub(crate) fn take(&mut self, at_ms: u64, drops: Vec<Dropped>) {
        let before = core::mem::take(&mut self.counts);
        for Dropped { key, name, domain, event_type, reason, events } in drops {
            let of = (key, cut(&domain, NAME_CHARS), cut(&event_type, NAME_CHARS), reason);
            let grown = events.saturating_sub(before.get(&of).copied().unwrap_or(0));
            if grown > 0 {
                self.note(at_ms, of.clone(), &name, grown);
            }
            *self.counts.entry(of).or_default() += events;
        }
    }

    fn note(&mut self, at_ms: u64, of: Of, name: &str, grown: u64) {
        let goes_on = |known: &Episode| known.of == of && at_ms.saturating_sub(known.last_ms) <= ONE_EPISODE_MS;
        let known = self.episodes.iter().rposition(goes_on).and_then(|at| self.episodes.remove(at));
        let name = cut(name, NAME_CHARS);
        let mut episode = known.unwrap_or(Episode { of, name, events: 0, first_ms: at_ms, last_ms: at_ms });
        episode.events += grown;
        episode.last_ms = at_ms;
        if self.episodes.len() >= EPISODES_MAX {
            self.episodes.pop_front();
        }
        self.episodes.push_back(episode);
    }

    /// The episodes, the latest first.
    pub(crate) fn json(&self) -> Value {
        let episode = |episode: &Episode| {
            let (key, domain, event_type, reason) = &episode.of;
            json!({
                "first_ms": episode.first_ms, "last_ms": episode.last_ms, "channel": key.channel.0, "proxy": key.proxy.0,
                "name": episode.name, "domain": domain, "type": event_type, "reason": reason, "events": episode.events,
            })
        };
        self.episodes.iter().rev().map(episode).collect()
    }
}

struct Line {
    number: u64,
    at_ms: u64,
    level: log::Level,
    kind: &'static str,
    text: String,
}

/// Log lines and audit lines, by increasing number.
struct Lines {
    next: u64,
    log: VecDeque<Line>,
    audit: VecDeque<Line>,
}

static LINES: Mutex<Lines> = Mutex::new(Lines { next: 1, log: VecDeque::new(), audit: VecDeque::new() });

/// Stores a log line for the console. The program's logger calls it for each line.
pub fn note_line(level: log::Level, target: &str, text: &str) {
    let is_audit = target == "audit";
    let text = cut(text, LINE_CHARS);
    let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    let number = lines.next;
    lines.next += 1;
    let kind = if is_audit { "audit" } else { "log" };
    let kept = if is_audit { &mut lines.audit } else { &mut lines.log };
    if kept.len() >= LINES_MAX {
        kept.pop_front();
    }
    kept.push_back(Line { number, at_ms: unix_ms(SystemTime::now()), level, kind, text });
}

/// The lines after that number, the latest first.
pub(crate) fn lines_json(behind: u64) -> Value {
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all: Vec<&Line> = lines.log.iter().chain(&lines.audit).filter(|line| line.number > behind).collect();
    all.sort_unstable_by_key(|line| core::cmp::Reverse(line.number));
    let line = |line: &&Line| {
        json!({
            "number": line.number, "at_ms": line.at_ms, "level": line.level.as_str().to_ascii_lowercase(), "kind": line.kind,
            "text": line.text,
        })
    };
    json!({ "entries": all.iter().map(line).collect::<Value>(), "kept_max": LINES_MAX })
}

fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{ChannelId, ProxyId};

    fn dropped(proxy: u32, events: u64) -> Dropped {
        Dropped {
            key: ProxyKey { channel: ChannelId(0), proxy: ProxyId(proxy) },
            name: "n".repeat(2_000),
            domain: "A".to_owned(),
            event_type: "B".to_owned(),
            reason: "outbox_full",
            events,
        }
    }

    #[test]
    fn drops_have_the_time_of_their_episodes() {
        let mut drops = Drops::default();
        drops.take(1_000, vec![dropped(1, 5), dropped(2, 1)]);
        drops.take(3_000, vec![dropped(1, 9), dropped(2, 1)]);
        // More than a minute later it is another episode.
        drops.take(100_000, vec![dropped(1, 10), dropped(2, 1)]);
        let told: Vec<_> = drops.json().as_array().unwrap().clone();
        let seen: Vec<_> =
            told.iter().map(|one| (&one["proxy"], &one["events"], &one["first_ms"], &one["last_ms"])).collect();
        let expected = [(1, 1, 100_000, 100_000), (1, 9, 1_000, 3_000), (2, 1, 1_000, 1_000)];
        let expected =
            expected.map(|(proxy, events, first, last)| [proxy, events, first, last].map(|number| json!(number)));
        assert_eq!(seen, expected.iter().map(|[one, two, three, four]| (one, two, three, four)).collect::<Vec<_>>());
        assert_eq!(told[0]["name"].as_str().unwrap().chars().count(), NAME_CHARS + 1);
    }

    #[test]
    fn no_more_episodes_are_kept_than_may_be() {
        let mut drops = Drops::default();
        (0..2_000).for_each(|time| drops.take(time * 100_000, vec![dropped(1, time + 1)]));
        assert_eq!((drops.episodes.len(), drops.counts.len()), (EPISODES_MAX, 1));
    }

    #[test]
    fn the_last_lines_are_kept_and_audit_lines_apart_from_others() {
        let note = |target: &str, text: &str| note_line(log::Level::Info, target, text);
        note("audit", &"long ".repeat(1_000));
        (0..1_000).for_each(|number| note("service::lane", &format!("line {number}")));
        let told = lines_json(0);
        let entries = told["entries"].as_array().unwrap();
        assert_eq!(entries.iter().filter(|line| line["kind"] == "log").count(), LINES_MAX);
        assert_eq!(entries[0]["text"], "line 999");
        let audit = entries.iter().find(|line| line["kind"] == "audit").unwrap();
        assert_eq!(audit["text"].as_str().unwrap().chars().count(), LINE_CHARS + 1);
        let last = entries[0]["number"].as_u64().unwrap();
        assert_eq!(lines_json(last - 1)["entries"].as_array().unwrap().len(), 1);
    }
}

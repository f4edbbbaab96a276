//! A page of a channel's stored events, for browsers, read by a temporary consumer with `StartFrom`.

use core::time::Duration;

use engine::ChannelId;
use serde_json::json;
use service::{Answer as AdminAnswer, HistoryEvent, HistoryStatus, Principal, Query, VisitPurpose};
use tokio::time::{Instant, timeout_at};

use crate::api::Arguments;
use crate::http::{self, Answer};
use crate::live::watcher;
use crate::routes::{Client, Failure, Routes};
use crate::watching::Watching;

/// Default and maximum number of events in a page.
const EVENTS: usize = 100;
const EVENTS_MAX: usize = 500;
/// Size at which a page ends, in octets.
const BYTES_MAX: usize = 4 << 20;
/// Time limit for a page, and for its next event: with a constraint nothing says that no more will match.
const WITHIN: Duration = Duration::from_secs(5);
const QUIET: Duration = Duration::from_millis(700);

/// Answers with a channel's events from a position in its history on, and the range that is still stored.
pub(crate) async fn tell(routes: &Routes, client: Client, query: &str, by: Principal) -> Result<Answer, Failure> {
    let arguments = Arguments::read(query)?;
    let channel = arguments.channel(&routes.shared).await?.unwrap_or(ChannelId(0));
    let limit = arguments.number("limit")?.unwrap_or(EVENTS).clamp(1, EVENTS_MAX);
    let constraint = arguments.constraint()?;
    let from = arguments.text("from").filter(|from| !from.is_empty()).unwrap_or("last:100").to_owned();
    let _watcher = watcher(routes)?;
    let connection = routes.visit(by.clone(), client.from, VisitPurpose::Look(channel)).await?;
    let AdminAnswer::History(stored) = routes.shared.ask(by, Query::History(channel)).await? else {
        return Err(Failure::NotFound);
    };
    let stored = stored.ok_or_else(|| Failure::Refused("this channel stores no history (HistoryEvents)".to_owned()))?;
    let mut watching = Watching::begin(connection, channel, &constraint, Some(&from)).await?;
    let (entries, last, ended) = read(&mut watching, limit, stored.last.map_or(0, |last| last.number)).await;
    let place = |HistoryEvent { number, came }| {
        let mut text = String::new();
        service::rfc3339(&mut text, service::since_1970(came));
        json!({ "number": number, "time": came.to_string(), "came": text })
    };
    let told = json!({
        "first": stored.first.map(place),
        "last": stored.last.map(place),
        "events": stored.events,
        "bytes": stored.bytes,
        "gone": is_gone(&stored, &from),
        "next": last.map(|last| format!("after:{last}")),
        "ended": ended,
    });
    let head = told.to_string();
    // Events stay as they came, in all digits.
    let text = format!("{},\"entries\":[{}]}}", head.strip_suffix('}').unwrap_or_default(), entries.join(","));
    Ok(http::whole(http::JSON, text))
}

/// Reads events up to the limit or the last stored one. Returns them, the last one's number, and whether they are all.
async fn read(watching: &mut Watching, limit: usize, end: u64) -> (Vec<String>, Option<u64>, bool) {
    let deadline = Instant::now() + WITHIN;
    let (mut entries, mut last, mut bytes) = (Vec::new(), None, 0);
    while entries.len() < limit && bytes < BYTES_MAX {
        if last.is_some_and(|last| last >= end) || end == 0 {
            return (entries, last, true);
        }
        let quiet = deadline.min(Instant::now() + QUIET);
        let Ok(Ok(Some(event))) = timeout_at(quiet, watching.next_event()).await else {
            return (entries, last, quiet < deadline);
        };
        let number = number_of(&event);
        bytes += event.len();
        entries.push(event);
        last = number.or(last);
    }
    (entries, last, last.is_some_and(|last| last >= end))
}

/// The number of an event, one of its first members.
fn number_of(event: &str) -> Option<u64> {
    let (_, rest) = event.split_once("\"number\":")?;
    let digits = rest.trim_start();
    digits.get(..digits.find(|c: char| !c.is_ascii_digit())?)?.parse().ok()
}

/// Whether a part of the requested range is no longer stored.
fn is_gone(stored: &HistoryStatus, from: &str) -> bool {
    let Some(first) = stored.first else { return false };
    let number = |text: &str| text.trim().parse::<u64>().ok();
    match from.split_once(':') {
        Some(("number", text)) => number(text).is_some_and(|asked| asked.max(1) < first.number),
        Some(("after", text)) => number(text).is_some_and(|asked| asked.saturating_add(1) < first.number),
        // The first that there ever was is the first that came from any moment on.
        Some(("time", text)) => first.number > 1 && number(text).is_some_and(|asked| asked < first.came),
        Some(("last", text)) => first.number > 1 && number(text).is_some_and(|asked| asked > stored.events),
        _ => from == "first" && first.number > 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_and_gone_is_known() {
        let at = |number, came| Some(HistoryEvent { number, came });
        let stored =
            HistoryStatus { channel: ChannelId(0), first: at(11, 500), last: at(20, 900), events: 10, bytes: 1 };
        for (from, is) in [
            ("number:11", false),
            ("number:10", true),
            ("after:10", false),
            ("after:9", true),
            ("time:500", false),
            ("time:499", true),
            ("last:10", false),
            ("last:11", true),
            ("first", true),
            ("number:x", false),
        ] {
            assert_eq!(is_gone(&stored, from), is, "{from}");
        }
        let all = HistoryStatus { first: at(1, 500), ..stored };
        for from in ["number:0", "number:1", "after:0", "time:0", "last:100", "first"] {
            assert!(!is_gone(&all, from), "{from}");
        }
    }

    #[test]
    fn a_number_is_read_with_the_spaces_before_it() {
        assert_eq!(number_of(r#"{"channel":0,"number":                  17,"time":1}"#), Some(17));
        assert_eq!(number_of(r#"{"channel":0}"#), None);
    }
}

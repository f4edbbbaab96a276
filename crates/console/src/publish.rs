//! `POST /api/v1/publish`: one event, in the form of lines of JSON.
//!
//! The event is published on a temporary connection for lines of JSON within the service: so the rules of access, the limits and the error
//! texts are those of that protocol, also for unknown or duplicate members. Only the channel is read here, for the answer and for the audit
//! line.

use core::fmt;
use std::net::SocketAddr;

use engine::ChannelId;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use service::VisitPurpose;

use crate::access::Asking;
use crate::channels::ChannelRef;
use crate::http::{self, Answer};
use crate::routes::{Failure, Routes};
use crate::shared::ANSWERS_WITHIN;
use crate::watching::{Unanswered, Watching};

/// The members that are read here.
#[derive(Deserialize)]
struct Event {
    channel: Option<ChannelRef>,
    #[serde(rename = "type")]
    _event_type: IgnoredAny,
}

/// The event's channel, and the line that publishes the event, with its members unchanged.
///
/// # Errors
/// The body is not a JSON object, or has no type.
fn read(body: &[u8]) -> Result<(Option<ChannelRef>, String), Failure> {
    let bad = |why: &dyn fmt::Display| Failure::Bad(why.to_string());
    let text = core::str::from_utf8(body).map_err(|error| bad(&error))?;
    let event: Event = serde_json::from_str(text).map_err(|error| bad(&error))?;
    let members = text.trim_ascii_start().strip_prefix('{').ok_or_else(|| bad(&"an event is a JSON object"))?;
    // A line break is white space, or refused within a string as this is.
    Ok((event.channel, format!("{{\"op\":\"publish\",\"id\":1,{}\n", members.replace('\n', "\r"))))
}

/// Publishes an event.
pub(crate) async fn publish(
    routes: &Routes,
    body: &[u8],
    asking: Asking,
    (from, is_outside): (SocketAddr, bool),
) -> Result<Answer, Failure> {
    let (channel, line) = read(body)?;
    let channel = match channel {
        None => ChannelId(0),
        Some(channel) => channel.find_for(&routes.shared, &asking, is_outside).await?,
    };
    let connection = routes.visit(asking.by, from, VisitPurpose::Publish(channel)).await?;
    match Watching::ask(connection, &line, ANSWERS_WITHIN).await {
        Ok(_) => Ok(http::json(&json!({ "published": 1, "channel": channel.0 }))),
        Err(Unanswered::Late) => {
            let why = "the channel has had no room for the event for 10 s: whether it is taken in yet is not known";
            Err(Failure::Busy(why.to_owned()))
        }
        Err(why) => Err(why.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_published_as_it_is_written() {
        let body =
            "\n{\"fields\": {\n\"n\":18446744073709551616.0}, \"type\":\"A/B\",\"number\":7,\"channel\":\"7\"}\n";
        let expected = "{\"op\":\"publish\",\"id\":1,\"fields\": {\r\"n\":18446744073709551616.0}, \"type\":\"A/B\",\"number\":7,\
            \"channel\":\"7\"}\r\n";
        let (channel, line) = read(body.as_bytes()).unwrap();
        assert_eq!((channel, line.as_str()), (Some(ChannelRef::Name("7".to_owned())), expected));
        assert_eq!(read(br#"{"type":1,"channel":null}"#).unwrap().0, None);
        for (body, why) in [
            (r#"{"fields":{}}"#, "missing field `type`"),
            (r#"{"type":"A/B","type":"A/C"}"#, "duplicate field `type`"),
            (r#"{"type":"A/B","channel":1,"ch\u0061nnel":2}"#, "duplicate field `channel`"),
            (r#"{"type":"A/B"} {}"#, "trailing characters"),
            ("[null,1]", "a JSON object"),
        ] {
            let Err(Failure::Bad(error)) = read(body.as_bytes()) else { panic!("{body}") };
            assert!(error.contains(why), "{body}: {error}");
        }
        assert!(matches!(read(b"{\"type\":\"\xff\"}"), Err(Failure::Bad(_))));
    }
}

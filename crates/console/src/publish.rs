//! `POST /api/v1/publish`: one event, in the form that lines of JSON have.
//!
//! It is published as by any client of lines of JSON, on a connection that is made for it within the service: so the rules of access, the
//! limits and the words of a refusal are those of that protocol. Of the body only the channel is read here, since it may be named.

use std::net::SocketAddr;

use engine::ChannelId;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use service::VisitPurpose;

use crate::access::Asking;
use crate::api::allowed;
use crate::channels::ChannelRef;
use crate::http::{self, Answer};
use crate::routes::{Failure, Routes};
use crate::shared::{ANSWERS_WITHIN, on_a_thread};
use crate::watching::{Unanswered, Watching};

/// An event. Its members pass through as they were written, but for the channel.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Event<'b> {
    #[serde(default)]
    channel: Option<ChannelRef>,
    #[serde(borrow, rename = "type")]
    event_type: &'b RawValue,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    domain: Option<&'b RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    name: Option<&'b RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    header: Option<&'b RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    fields: Option<&'b RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    body: Option<&'b RawValue>,
    // What a delivered event says beside: passed over.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    received: Option<&'b RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    number: Option<&'b RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    time: Option<&'b RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    came: Option<&'b RawValue>,
}

/// The line that publishes an event.
///
/// # Errors
/// When it cannot be written.
fn line(event: &Event<'_>) -> Result<String, Failure> {
    let members = serde_json::to_string(event).map_err(|error| Failure::Bad(error.to_string()))?;
    // A line break is white space, or refused within a string as this is.
    let members = members.strip_prefix('{').unwrap_or_default().replace('\n', "\r");
    Ok(format!("{{\"op\":\"publish\",\"id\":1,{members}\n"))
}

/// Publishes an event.
pub(crate) async fn publish(
    routes: &Routes,
    body: &[u8],
    asking: Asking,
    (from, is_outside): (SocketAddr, bool),
) -> Result<Answer, Failure> {
    let mut event: Event<'_> = serde_json::from_slice(body).map_err(|error| Failure::Bad(error.to_string()))?;
    let channel = match event.channel.take() {
        None => ChannelId(0),
        Some(channel) => channel.find_for(&routes.shared, &asking, is_outside).await?,
    };
    event.channel = Some(ChannelRef::Number(channel.0));
    let line = line(&event)?;
    let operators = routes.operators.clone();
    let purpose = VisitPurpose::Publish(channel);
    let (connection, told) = on_a_thread(move || operators.visit(&asking.by, from, purpose, ANSWERS_WITHIN)).await?;
    allowed(told)?;
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
        let written = |body: &str| line(&serde_json::from_str(body).unwrap()).ok().unwrap();
        assert_eq!(
            written(
                "{\"fields\": {\n\"n\":18446744073709551616.0}, \"type\":\"A/B\",\"number\":7,\"time\":\"x\",\"came\":\"y\"}"
            ),
            "{\"op\":\"publish\",\"id\":1,\"channel\":null,\"type\":\"A/B\",\"fields\":{\r\"n\":18446744073709551616.0},\
             \"number\":7,\"time\":\"x\",\"came\":\"y\"}\n"
        );
        for (body, why) in [
            (r#"{"fields":{}}"#, "missing field `type`"),
            (r#"{"type":"A/B","op":"hello"}"#, "unknown field `op`"),
            (r#"{"type":"A/B","type":"A/C"}"#, "duplicate field `type`"),
            (r#"{"type":"A/B"} {}"#, "trailing characters"),
            ("[]", "missing field"),
        ] {
            let error = serde_json::from_str::<Event<'_>>(body).err().unwrap().to_string();
            assert!(error.contains(why) || body == "[]", "{body}: {error}");
        }
    }
}

//! Events that are published over HTTP.

use serde_json::json;
use service::Counter;

use crate::access::{NEIGHBOUR, OPERATOR, OWN, READER, config, rule};
use crate::support::{NOBODY, TOKEN, start, start_by};

const PUBLISH: &str = "/api/v1/publish";

#[test]
fn an_event_is_published_by_number_and_by_name_as_it_was_shown() {
    let rig = start();
    let named = rig.named_channel("Weather");
    let mut watched = rig.watch_as(NOBODY, &format!("channel={named}")).unwrap();
    let answer = rig.post(PUBLISH, &json!({ "channel": named, "type": "Weather/Wind" }).to_string());
    assert_eq!((answer.status, answer.json()), (200, json!({ "published": 1, "channel": named })), "{answer:?}");
    let (_, first) = watched.next().unwrap();
    assert_eq!((&first["type"], &first["fields"]), (&json!("Weather/Wind"), &json!({})));
    // With a line break, a header, a body, and what delivered events say beside.
    let body = "{\"channel\":\"Weather\",\"type\":\"Wind\",\"name\":\"gust\",\"number\":7,\n\"header\":{\"Priority:short\":3},\
        \"fields\":{\"speed\":12.5,\"at\":[1,2]},\"body\":{\"x\":\"y\"}}";
    assert_eq!(rig.post(PUBLISH, body).status, 200);
    let (_, event) = watched.next().unwrap();
    assert_eq!(
        (&event["type"], &event["name"], &event["fields"]["speed"]),
        (&json!("Wind"), &json!("gust"), &json!(12.5))
    );
    assert_eq!((&event["fields"]["at"], &event["header"]["Priority"]), (&json!([1, 2]), &json!(3)), "{event}");
    assert_eq!(rig.count(Counter::HttpCommands), 2);
    // The connection is gone with the answer, and its supplier with it: what is left is the onlooker's.
    rig.await_count(Counter::JsonConnectionsOpen, 1);
}

#[test]
fn what_is_no_event_is_refused_with_its_path() {
    let rig = start();
    for (body, status, why) in [
        ("{", 400, "EOF"),
        (r#"{"fields":{}}"#, 400, "missing field `type`"),
        (r#"{"type":"A/B","op":"subscribe"}"#, 409, "`op` is given twice"),
        (r#"{"type":"A/B","name":"a","n\u0061me":"b"}"#, 409, "`name` is given twice"),
        (r#"{"type":"A/B","fileds":{}}"#, 409, "publish has no member `fileds`"),
        (r#"{"type":"A/B","channel":"Nowhere","create":true}"#, 404, "there is no channel \"Nowhere\""),
        (r#"{"type":"A/B","channel":-1}"#, 400, "a channel is its number"),
        (r#"{"type":"A/B","channel":"Nowhere"}"#, 404, "there is no channel \"Nowhere\""),
        (r#"{"type":"A/B","channel":77}"#, 409, "channel"),
        (r#"{"type":"A/B/C"}"#, 409, "no `/`"),
        (r#"{"type":5}"#, 409, "\"type\" is a string"),
        (r#"{"type":"A/B","fields":{"n":1,"n":2}}"#, 409, "fields.n"),
        (r#"{"type":"A/B","fields":{"n:float":1e300}}"#, 409, "n:float"),
        ("{\"type\":\"A/B\",\"name\":\"two\nlines\"}", 400, "control character"),
    ] {
        let answer = rig.post(PUBLISH, body);
        assert_eq!(answer.status, status, "{body}: {answer:?}");
        assert!(answer.json()["error"].as_str().unwrap().contains(why), "{body}: {answer:?}");
    }
    let fields = format!("Authorization: Bearer {TOKEN}\r\n");
    let body = r#"{"type":"A/B"}"#;
    assert_eq!(rig.post_with(PUBLISH, &fields, body).status, 400, "a form of another site's page can send that");
    let foreign = format!("{fields}Content-Type: application/json\r\nOrigin: http://evil.example\r\n");
    assert_eq!(rig.post_with(PUBLISH, &foreign, body).status, 403);
    assert_eq!(rig.post_as(NOBODY, PUBLISH, body).status, 401);
    assert_eq!(rig.get(PUBLISH).status, 404);
    assert_eq!(rig.count(Counter::EventsIn), 0);
    rig.await_count(Counter::JsonConnectionsOpen, 0);
}

#[test]
fn where_there_are_rules_they_decide_by_channel_and_type() {
    let mut rules = config();
    rules.access.insert(0, rule(&["token:reader"], &["publish"], &["Radar"], &["Secret/*"], false));
    let rig = start_by(rules);
    let publish =
        |who, channel: u32, of: &str| rig.post_as(who, PUBLISH, &json!({ "channel": channel, "type": of }).to_string());
    for (who, channel, of, status) in [
        (OPERATOR, 0, "Any/Thing", 200),
        (NOBODY, 1, "Any/Thing", 200),
        (NEIGHBOUR, 2, "Any/Thing", 403),
        (READER, 2, "Test/Numbered", 200),
        (READER, 2, "Secret/Plan", 403),
    ] {
        let answer = publish(who, channel, of);
        assert_eq!(answer.status, status, "{who:?} {channel} {of}: {answer:?}");
        assert_eq!(answer.json().get("rule").is_some(), status == 403, "{answer:?}");
    }
    assert_eq!(publish(OWN, 0, "Any/Thing").status, 200, "from 127.0.0.1 every client may, by whichever token");
    assert_eq!(rig.count(Counter::DeniedPublish), 2);
}

//! What programs and the console get, and do.

use client::notify::Property;
use serde_json::json;
use service::{Config, Counter, DeclaredChannel, DeclaredTimer, Query};
use testing::wait_until;

use crate::grammar;
use crate::support::{NOBODY, Rig, numbered, start, start_by};

/// What a path tells when it fits.
pub(crate) fn answer(
    rig: &Rig,
    path: &str,
    what: &str,
    fits: impl Fn(&serde_json::Value) -> bool,
) -> serde_json::Value {
    let mut last = serde_json::Value::Null;
    wait_until(what, || {
        last = rig.get_json(path);
        fits(&last)
    });
    last
}

#[test]
fn the_hierarchy_is_shown_with_connected_clients() {
    let rig = start();
    let channel = rig.new_channel();
    let (_proxy, _mute) = rig.mute_consumer(Some(channel), &[]);
    let _supplier = rig.supplier(Some(channel));
    let listed = answer(&rig, "/api/v1/channels", "two channels", |answer| {
        answer["total"] == 2 && answer["entries"][1]["consumers"] == 1
    });
    assert_eq!(listed["entries"][1]["id"], channel);
    let found = rig.get_json(&format!("/api/v1/channels/{channel}"));
    let proxies = found["configured"]["proxies"].as_array().unwrap();
    let sides: Vec<_> = proxies.iter().map(|proxy| proxy["side"].as_str().unwrap()).collect();
    assert_eq!(sides, ["Consumers", "Suppliers"]);
    assert_eq!(found["configured"]["admins"].as_array().unwrap().len(), 2);
    assert_eq!(found["standing"]["consumers"], 1);
    // Behind the last there is nothing more.
    let last = proxies[1]["id"].as_u64().unwrap();
    let rest = rig.get_json(&format!("/api/v1/channels/{channel}?behind={last}"));
    assert_eq!(rest["configured"]["proxies"].as_array().unwrap().len(), 0);
    let suppliers = rig.get_json("/api/v1/suppliers");
    assert_eq!((suppliers["entries"].as_array().unwrap().len(), &suppliers["next"]), (1, &serde_json::Value::Null));
    assert_eq!(rig.get("/api/v1/channels/77").status, 404);
    assert_eq!(rig.get_json("/api/v1/counters").as_object().unwrap().len(), Counter::exported().count());
    assert_eq!(rig.get_json("/api/v1/lanes")[0]["name"], "lane");
    assert_eq!(rig.get_json("/api/v1/service")["can_change"], true);
    let Ok(service::Answer::Topology(text)) = rig.service.ask(Query::Topology) else { panic!("no answer") };
    assert_eq!(rig.get("/api/v1/topology").body, text);
}

#[test]
fn a_channel_is_shown_with_its_timers_and_no_other_channels() {
    let tick = DeclaredTimer { name: "tick".into(), every: Some("43200min".into()), ..DeclaredTimer::default() };
    let channel =
        |name: &str, timers| DeclaredChannel { name: name.into(), properties: [].into(), lane: Vec::new(), timers };
    let rig = start_by(Config {
        channels: vec![channel("Plant", vec![tick]), channel("Radar", Vec::new())],
        ..Config::default()
    });
    let found =
        answer(&rig, "/api/v1/channels/1", "the timer to begin", |found| found["timers"][0]["next_ns"].is_u64());
    let timer = &found["timers"][0];
    let shown = (&timer["name"], &timer["kind"], &timer["time_ns"], &timer["fired"]);
    assert_eq!(shown, (&json!("tick"), &json!("every"), &json!(2_592_000_000_000_000_u64), &json!(0)));
    assert_eq!(rig.get_json("/api/v1/channels/2")["timers"], json!([]));
}

#[test]
fn an_hour_is_kept_of_service_channels_and_consumers_before_it_is_asked_for() {
    let rig = start();
    let channel = rig.new_channel();
    let (_proxy, _mute) = rig.mute_consumer(Some(channel), &[]);
    let listed = answer(&rig, &format!("/api/v1/consumers?channel={channel}"), "it", |answer| answer["total"] == 1);
    let (of_channel, of_consumer) =
        (format!("/api/v1/figures?channel={channel}"), format!("&proxy={}", listed["entries"][0]["proxy"]));
    wait_until("the channel to be noted", || rig.get(&of_channel).status == 200);
    let supplier = rig.supplier(Some(channel));
    (0..300).for_each(|number| supplier.publish(&numbered(number)).unwrap());
    let some = |values: &serde_json::Value| values.as_array().unwrap().iter().any(|value| value.as_f64() > Some(0.0));
    let told = answer(&rig, &of_channel, "its events", |told| some(&told["events_in"]));
    assert_eq!(told["at_ms"].as_array().unwrap().len(), told["backlog_events"].as_array().unwrap().len());
    let told = answer(&rig, &format!("{of_channel}{of_consumer}"), "its backlog", |told| some(&told["backlog_events"]));
    assert!(told.get("events_in").is_none() && told["kept"]["left_out"] == 0, "{told}");
    let told = answer(&rig, "/api/v1/figures", "the service's", |told| some(&told["events_in"]));
    assert!(told["kept"]["bytes"].as_u64() < told["kept"]["bytes_max"].as_u64());
    assert!(rig.count(Counter::HttpFiguresBytes) > 0 && rig.count(Counter::HttpFiguresLeftOut) == 0);
    // What there is not, or not any more.
    assert_eq!(rig.get("/api/v1/figures?channel=77").status, 404);
    assert_eq!(rig.get(&format!("{of_channel}&proxy=77")).status, 404);
    assert_eq!(rig.get("/api/v1/figures?proxy=1").status, 400);
    assert_eq!(rig.get("/api/v1/figures?channel=-1").status, 404, "that would be a name");
}

#[test]
fn consumers_are_listed_the_slowest_first_in_pages() {
    let rig = start();
    rig.idle_consumers(30);
    let (_proxy, _mute) = rig.mute_consumer(None, &[]);
    let supplier = rig.supplier(None);
    supplier.publish(&numbered(1)).unwrap();
    // Those that pull have one each, the mute one has one that is unanswered.
    let found = answer(&rig, "/api/v1/consumers?limit=7&offset=28", "31 consumers", |answer| answer["total"] == 31);
    assert_eq!(found["entries"].as_array().unwrap().len(), 3);
    let state =
        answer(&rig, "/api/v1/consumers?state=behind&offset=30", "all to be behind", |answer| answer["total"] == 31);
    let name = state["entries"][0]["name"].as_str().unwrap();
    assert!(name.starts_with("consumer proxy 30 of channel 0 (127.0.0.1:"), "{name}");
    assert_eq!(rig.get_json("/api/v1/consumers?state=slow&limit=1")["total"], 31);
    assert_eq!(rig.get_json("/api/v1/consumers?state=keeping_up")["total"], 0);
    assert_eq!(rig.get_json("/api/v1/consumers?channel=9")["total"], 0);
    assert_eq!(rig.get("/api/v1/consumers?limit=many").status, 400);
    assert_eq!(rig.get("/api/v1/consumers?sort=beauty").status, 400);
    let one = rig.get_json("/api/v1/consumers/0/30");
    assert_eq!((&one["proxy"], &one["unanswered"]), (&30.into(), &1.into()));
    assert_eq!(rig.get("/api/v1/consumers/0/999").status, 404);
}

#[test]
fn a_consumer_is_suspended_and_goes_on_and_is_disconnected() {
    let rig = start();
    let (_proxy, _mute) = rig.mute_consumer(None, &[]);
    answer(&rig, "/api/v1/consumers/0/0", "the consumer", |answer| answer["state"] == "keeping_up");
    let which = r#"{"channel":0,"proxy":0}"#;
    assert_eq!(rig.post("/api/v1/suspend", which).json()["done"], true);
    answer(&rig, "/api/v1/consumers/0/0", "it to be suspended", |answer| answer["state"] == "suspended");
    assert_eq!(rig.post("/api/v1/suspend", which).status, 409, "it is suspended already");
    assert_eq!(rig.post("/api/v1/resume", which).json()["done"], true);
    answer(&rig, "/api/v1/consumers/0/0", "it to go on", |answer| answer["state"] == "keeping_up");
    assert_eq!(rig.post("/api/v1/disconnect", which).json()["disconnected"], 1);
    wait_until("it to be gone", || rig.get("/api/v1/consumers/0/0").status == 404);
    assert_eq!(rig.post("/api/v1/disconnect", which).status, 409);
    assert_eq!(rig.count(Counter::ClientsDismissed), 1);
    assert_eq!(rig.count(Counter::HttpCommands), 3);
}

#[test]
fn links_are_listed_and_an_order_for_one_that_there_is_not_is_refused() {
    let rig = start();
    assert_eq!(rig.get_json("/api/v1/links"), serde_json::json!({ "links": [] }));
    for (path, why) in [
        ("links/lab/pause", r#"there is no link \"lab\""#),
        ("links/a%2Fb/resume", r#"there is no link \"a/b\""#),
        ("links/a%0Ab/resume", r#"there is no link \"a\\nb\""#),
        ("links/lab/destroy", "there is no such thing"),
        ("links/pause", "there is no such thing"),
    ] {
        let answer = rig.post(&format!("/api/v1/{path}"), "{}");
        assert!(answer.status == 404 && answer.body.contains(why), "{path}: {answer:?}");
    }
    assert_eq!(rig.count(Counter::HttpCommands), 0);
    // One that is not among them may have been added and not be made.
    let answer = rig.post("/api/v1/links/lab/remove", "{}");
    assert!(answer.status == 409 && answer.body.contains("there is no link of this name"), "{answer:?}");
    let other = grammar::value(&grammar::read(&rig.scrape().body), "campanile_other_links", &[]);
    assert_eq!(other, Some(0.0));
}

#[test]
fn quality_of_service_is_set_at_each_level_or_said_why_not() {
    let rig = start();
    let (proxy, _mute) = rig.mute_consumer(None, &[]);
    let set = |body: &str| rig.post("/api/v1/qos", body);
    assert_eq!(set(r#"{"channel":0,"proxy":0,"properties":{"MaxEventsPerConsumer":7}}"#).json()["done"], true);
    let proxy = client::notify::ProxySupplier::unchecked(proxy);
    let qos = proxy.get_qos().unwrap();
    assert!(qos.contains(&Property::new("MaxEventsPerConsumer", 7_i32)), "{qos:?}");
    assert_eq!(set(r#"{"channel":0,"properties":{"FullOutbox":"Discard"}}"#).json()["done"], true);
    assert_eq!(
        set(r#"{"channel":0,"admin":0,"side":"consumers","properties":{"GiveUpAfter":"5s"}}"#).json()["done"],
        true
    );
    for (body, status, why) in [
        (
            r#"{"channel":0,"proxy":0,"properties":{"MaxEventsPerConsumer":-7}}"#,
            409,
            "is no value of MaxEventsPerConsumer",
        ),
        (r#"{"channel":0,"proxy":0,"properties":{"Beauty":1}}"#, 409, "there is no property Beauty"),
        (
            r#"{"channel":0,"proxy":0,"properties":{"MaxConsumers":1}}"#,
            409,
            "MaxConsumers is no property of this object",
        ),
        (r#"{"channel":5,"properties":{"FullOutbox":"Discard"}}"#, 409, "channel"),
        (r#"{"channel":0,"proxy":0,"properties":{"MaxEventsPerConsumer":[1]}}"#, 400, "is to be a whole number"),
        (r#"{"channel":0,"admin":0,"properties":{"GiveUpAfter":"5s"}}"#, 400, "side is to be"),
        (r#"{"channel":0,"proxy":0,"beauty":1,"properties":{}}"#, 400, "unknown field"),
        ("{", 400, "EOF"),
    ] {
        let answer = set(body);
        assert_eq!(answer.status, status, "{body}: {answer:?}");
        assert!(answer.body.contains(why), "{body}: {answer:?}");
    }
}

#[test]
fn a_channel_is_named_where_a_number_is_taken_and_digits_in_quotes_are_a_name() {
    let rig = start();
    let (weather, one) = (rig.named_channel("Weather station/3"), rig.named_channel("1"));
    assert_eq!((weather, one), (1, 2));
    let (_proxy, _mute) = rig.mute_consumer(Some(one), &[]);
    for (path, id) in [("1", 1), ("Weather%20station%2F3", 1), ("%221%22", 2), ("2", 2)] {
        let found =
            answer(&rig, &format!("/api/v1/channels/{path}"), "the channel", |found| found["configured"]["id"] == id);
        assert_eq!(found["standing"]["id"], id, "{path}");
    }
    for (channel, total) in [("1", 0), ("Weather+station/3", 0), ("%221%22", 1), ("2", 1)] {
        answer(&rig, &format!("/api/v1/consumers?channel={channel}"), "its consumers", |found| found["total"] == total);
    }
    answer(&rig, "/api/v1/consumers/%221%22/0", "the consumer", |found| found["channel"] == one);
    assert_eq!(rig.get("/api/v1/suppliers?channel=%221%22&proxy=0").status, 200);
    for (path, why) in [
        ("channels/Weather%20staton%2F3", "; did you mean Weather station/3?"),
        ("channels/%223%22", r#"there is no channel \"3\""#),
        ("channels/007", r#"there is no channel \"007\""#),
        ("consumers?channel=Attic", r#"there is no channel \"Attic\""#),
        ("consumers?channel=", r#"there is no channel \"\""#),
        ("suppliers?channel=Attic&proxy=0", "there is no channel"),
        ("events?channel=Attic", "there is no channel"),
        ("channels/a%0Ab%1b", r#"\"a\\nb\\u{1b}\""#),
    ] {
        let found = rig.get(&format!("/api/v1/{path}"));
        assert!(found.status == 404 && found.body.contains(why), "{path}: {found:?}");
    }
    let long = rig.get(&format!("/api/v1/channels/{}", "x".repeat(2_000)));
    assert!(long.status == 404 && long.body.len() < 200, "{long:?}");
    for (body, status) in [
        (r#"{"channel":"Weather station/3","properties":{"FullOutbox":"Discard"}}"#, 200),
        (r#"{"channel":"1","proxy":0,"properties":{"MaxEventsPerConsumer":7}}"#, 200),
        (r#"{"channel":1,"proxy":0,"properties":{"MaxEventsPerConsumer":7}}"#, 409),
        (r#"{"channel":"Attic","properties":{"FullOutbox":"Discard"}}"#, 404),
        (r#"{"channel":[1],"properties":{}}"#, 400),
    ] {
        assert_eq!(rig.post("/api/v1/qos", body).status, status, "{body}");
    }
    assert_eq!(rig.post("/api/v1/suspend", r#"{"channel":"1","proxy":0}"#).json()["done"], true);
    let mut watched = rig.watch_as(NOBODY, "channel=Weather+station/3").unwrap();
    rig.supplier(Some(weather)).publish(&numbered(7)).unwrap();
    assert_eq!(watched.next().unwrap().1["channel"], weather);
}

#[test]
fn health_is_shown_to_every_client() {
    let rig = start();
    for path in ["/healthz", "/readyz"] {
        let answer = rig.get(path);
        assert_eq!((answer.status, answer.body.as_str()), (200, "ok\n"));
    }
    let address = rig.address();
    assert!(
        rig.send(&format!("HEAD /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")).body.is_empty()
    );
}

//! What the console remembers, lists and finds: suppliers, event types, drops, lines of the log, history.

use client::notify::Property;
use serde_json::json;
use service::{Config, Counter, StoreConfig};

use crate::api::answer;
use crate::support::{Rig, numbered, start, start_by};

fn publish(rig: &Rig, channel: i32, numbers: core::ops::Range<i32>) -> client::SimpleSupplier {
    let supplier = rig.supplier(Some(channel));
    numbers.for_each(|number| supplier.publish(&numbered(number)).unwrap());
    supplier
}

#[test]
fn suppliers_and_event_types_are_listed_and_found_and_have_their_hour() {
    let rig = start();
    let channel = rig.named_channel("Weather <b>");
    let _supplier = publish(&rig, channel, 0..20);
    let listed = answer(&rig, "/api/v1/suppliers?limit=10&sort=events", "its events", |listed| {
        listed["entries"][0]["events"] == 20
    });
    let (total, proxy) = (&listed["total"], listed["entries"][0]["proxy"].to_string());
    assert_eq!((total, &listed["entries"][0]["channel"]), (&json!(1), &json!(channel)));
    assert_eq!(rig.get_json(&format!("/api/v1/suppliers/{channel}/{proxy}"))["events"], 20);
    for path in [format!("suppliers/{channel}/77"), "suppliers/77/0".to_owned(), "suppliers/0/0".to_owned()] {
        assert_eq!(rig.get(&format!("/api/v1/{path}")).status, 404, "{path}");
    }
    assert_eq!(rig.get_json("/api/v1/suppliers?limit=10&find=nobody")["total"], 0);
    assert_eq!(rig.get("/api/v1/suppliers?limit=10&sort=beauty").status, 400);

    let types = answer(&rig, "/api/v1/types", "its type", |types| types["entries"][0]["events"] == 20);
    assert_eq!((&types["entries"][0]["type"], &types["total"]), (&json!("Test/Numbered"), &json!(1)));
    for (arguments, total) in [("find=UMBER", 1), ("find=Wind", 0), ("type=Test/Numbered", 1), ("type=Test/Number", 0)]
    {
        assert_eq!(rig.get_json(&format!("/api/v1/types?{arguments}"))["total"], total, "{arguments}");
    }
    let found = |find: &str| rig.get_json(&format!("/api/v1/search?find={find}"));
    assert_eq!(found("wEATHER")["channels"]["entries"][0]["name"], "Weather <b>");
    assert_eq!(found(&format!("{channel}/{proxy}"))["suppliers"]["total"], 1);
    assert_eq!(found("numbered")["types"]["total"], 1);
    assert_eq!(rig.get("/api/v1/search?find=+").status, 400);
    assert_eq!(rig.get_json("/api/v1/channels?find=weather")["total"], 1);
    answer(&rig, "/api/v1/channels?sort=events", "it to be first", |found| found["entries"][0]["id"] == channel);
    assert_eq!(rig.get("/api/v1/channels?sort=beauty").status, 400);

    // They are noted within the first seconds, and each half minute.
    let some = |told: &serde_json::Value| told["events"].as_array().is_some_and(|events| !events.is_empty());
    for of in ["type=Test/Numbered".to_owned(), format!("channel={channel}&proxy={proxy}&side=suppliers")] {
        let path = format!("/api/v1/figures?{of}");
        testing::wait_until("its first half minute", || rig.get(&path).status == 200 && some(&rig.get_json(&path)));
        let at = rig.get_json(&path)["at_ms"].as_array().unwrap().last().unwrap().to_string();
        assert!(!some(&rig.get_json(&format!("{path}&since_ms={at}"))), "nothing is later than the last");
    }
    assert_eq!(rig.get("/api/v1/figures?type=None").status, 404);
    assert_eq!(rig.get("/api/v1/figures?type=None&side=suppliers").status, 400);
}

#[test]
fn consumers_are_found_by_name_and_drops_have_their_time() {
    let rig = start();
    rig.idle_consumers(5);
    let (_proxy, _mute) = rig.mute_consumer_called(None, "Laggard", &[Property::new("MaxEventsPerConsumer", 1_i32)]);
    let found = answer(&rig, "/api/v1/consumers?find=laGGard", "it", |found| found["total"] == 1);
    let proxy = found["entries"][0]["proxy"].clone();
    assert_eq!(rig.get_json(&format!("/api/v1/consumers?find=0/{proxy}"))["total"], 1);
    assert_eq!(rig.get_json("/api/v1/consumers?find=nobody")["total"], 0);
    let _supplier = publish(&rig, 0, 0..10);
    let told = answer(&rig, "/api/v1/drops", "drops with their time", |told| told["lately"][0]["events"] == 8);
    let lately = &told["lately"][0];
    assert_eq!(
        (&lately["proxy"], &lately["type"], &lately["reason"]),
        (&proxy, &json!("Numbered"), &json!("outbox_full"))
    );
    assert!(
        lately["first_ms"].as_u64() <= lately["last_ms"].as_u64()
            && lately["last_ms"].as_u64() > Some(1_700_000_000_000)
    );
}

#[test]
fn history_is_read_from_a_number_a_time_or_the_end_and_what_is_gone_is_said() {
    let folder = testing::TempPath::new("http-history");
    let rig = start_by(Config {
        store: StoreConfig { directory: Some(folder.to_path_buf()), ..StoreConfig::default() },
        ..Config::default()
    });
    assert_eq!(rig.get("/api/v1/history?channel=0").status, 409, "nothing is stored of it");
    let set = rig.post("/api/v1/qos", r#"{"channel":0,"properties":{"HistoryEvents":10}}"#);
    assert_eq!(set.status, 200, "{set:?}");
    let _supplier = publish(&rig, 0, 1..21);
    let page = |arguments: &str| rig.get_json(&format!("/api/v1/history?channel=0&{arguments}"));
    answer(&rig, "/api/v1/history?channel=0", "all to be written", |told| told["last"]["number"] == 20);
    let numbers = |told: &serde_json::Value| -> Vec<u64> {
        told["entries"].as_array().unwrap().iter().map(|event| event["number"].as_u64().unwrap()).collect()
    };
    let told = page("from=last:3");
    assert_eq!((numbers(&told), &told["gone"], &told["ended"]), (vec![18, 19, 20], &json!(false), &json!(true)));
    assert_eq!(told["entries"][2]["fields"]["number"], 20);
    // A page, and the next.
    let told = page("from=number:12&limit=4");
    assert_eq!(
        (numbers(&told), &told["next"], &told["ended"]),
        (vec![12, 13, 14, 15], &json!("after:15"), &json!(false))
    );
    assert_eq!(numbers(&page("from=after:15")), [16, 17, 18, 19, 20]);
    // What was cut off.
    let told = page("from=number:2&limit=1");
    assert_eq!((numbers(&told), &told["gone"], &told["first"]["number"]), (vec![11], &json!(true), &json!(11)));
    let first = told["first"]["time"].as_str().unwrap().to_owned();
    assert_eq!(page(&format!("from=time:{first}&limit=1"))["gone"], false);
    assert_eq!(page("from=time:1&limit=1")["gone"], true);
    // With a condition; also one that nothing meets.
    assert_eq!(numbers(&page("from=first&constraint=$number%20%3E%2018")), [19, 20]);
    let told = page("from=first&constraint=$number%20%3E%2077");
    assert_eq!((numbers(&told), &told["ended"]), (vec![], &json!(true)));
    assert_eq!(rig.get("/api/v1/history?from=first&constraint=$number%20%3E%20%3E").status, 400);
    assert_eq!(rig.get("/api/v1/history?from=never").status, 409);
    // Each page's consumer is gone with it.
    rig.await_count(Counter::JsonConnectionsOpen, 0);
    drop((rig, folder));
}

#[test]
fn the_log_and_protocols_are_told() {
    let rig = start();
    console::note_line(&log::Record::builder().level(log::Level::Warn).args(format_args!("<b>one</b>")).build());
    let told = rig.get_json("/api/v1/log");
    let line = told["entries"].as_array().unwrap().iter().find(|line| line["text"] == "<b>one</b>").unwrap();
    assert_eq!((&line["level"], &line["kind"]), (&json!("warn"), &json!("log")));
    let behind = line["number"].as_u64().unwrap();
    let later = rig.get_json(&format!("/api/v1/log?behind={behind}"));
    assert!(later["entries"].as_array().unwrap().iter().all(|line| line["number"].as_u64() > Some(behind)));
    let told = rig.get_json("/api/v1/protocols");
    assert_eq!((&told["dds"]["joins"], &told["tempo"]["types"]), (&json!([]), &json!([])));
}

//! Channels by their names in lines of JSON: found, listed, refused and made.

use client::notify::EventChannelFactory;
use service::{Config, Counter, Json};

use crate::access::{ALL, OPERATOR, rule, start as start_by};
use crate::json::{Lines, PING, PONG, start_limited};
use crate::peers::{await_count, start_with, wait_until};
use crate::persistent::{Folder, factory};

fn subscribe(rest: &str) -> String {
    format!(r#"{{"op":"subscribe","id":1{rest}}}"#)
}

fn publish(channel: &str) -> String {
    format!(r#"{{"op":"publish","id":2,"channel":{channel},"type":"Wind","fields":{{"speed":3}}}}"#)
}

fn make(factory: &EventChannelFactory, name: &str) -> i32 {
    factory.create_named_channel(&[], &[], name).unwrap().1
}

/// Number, name, consumers, suppliers and events of each channel behind one, and behind which there are more.
fn page(lines: &mut Lines, behind: Option<u64>) -> (Vec<String>, Option<u64>) {
    let behind = behind.map_or_else(String::new, |behind| format!(r#","behind":{behind}"#));
    let answer = lines.ask(&format!(r#"{{"op":"channels","id":5{behind}}}"#));
    let rest = answer.strip_prefix(r#"{"ok":5,"channels":["#).unwrap_or_else(|| panic!("{answer}"));
    let (list, next) = rest.rsplit_once(r#"],"next":"#).unwrap();
    let entries = list.split_inclusive('}').map(|entry| entry.trim_start_matches(',').to_owned());
    (entries.collect(), next.trim_end_matches('}').parse().ok())
}

fn entry(number: u32, name: &str, [consumers, suppliers, events]: [u32; 3]) -> String {
    let name = if name.is_empty() { "null".to_owned() } else { format!("\"{name}\"") };
    format!(r#"{{"channel":{number},"name":{name},"consumers":{consumers},"suppliers":{suppliers},"events":{events}}}"#)
}

#[test]
fn a_channel_is_reached_by_its_name_as_by_its_number_and_a_name_of_digits_in_quotes() {
    let service = start_limited(service::Limits::default());
    let (weather, seven) = (make(&factory(&service), "Weather"), make(&factory(&service), "1"));
    assert_eq!((weather, seven), (1, 2));
    let mut publisher = Lines::connect(&service);
    for (named, numbered) in [("\"Weather\"", weather), ("\"1\"", seven)] {
        for channel in [named.to_owned(), numbered.to_string()] {
            let mut subscriber = Lines::connect(&service);
            assert_eq!(subscriber.ask(&subscribe(&format!(r#","channel":{channel},"types":["Wind"]"#))), r#"{"ok":1}"#);
            for channel in [named.to_owned(), numbered.to_string()] {
                assert_eq!(publisher.ask(&publish(&channel)), r#"{"ok":2}"#);
                let event = subscriber.line().unwrap();
                assert!(event.starts_with(&format!(r#"{{"event":{{"channel":{numbered},"type":"Wind","#)), "{event}");
            }
            assert_eq!(subscriber.ask(r#"{"op":"unsubscribe","id":3,"subscription":1}"#), r#"{"ok":3}"#);
        }
    }
    let mut onlooker = Lines::connect(&service);
    assert_eq!(onlooker.ask(&subscribe(r#","channel":"Weather""#)), r#"{"ok":1}"#);
    let mut other = Lines::connect(&service);
    // A publisher has a proxy for each way in which it names a channel.
    let expected = [entry(0, "", [0, 0, 0]), entry(1, "Weather", [1, 2, 4]), entry(2, "1", [0, 2, 4])];
    let mut last = Vec::new();
    let is_so = || {
        last = page(&mut other, None).0;
        last == expected
    };
    wait_until("all to be listed", is_so);
    assert_eq!(last, expected);
    assert_eq!(page(&mut other, Some(0)), (expected[1..].to_vec(), None));
    assert_eq!(page(&mut other, Some(7)), (Vec::new(), None));
}

#[test]
fn a_name_that_no_channel_has_is_refused_with_what_is_near_until_it_is_to_be_made() {
    let service = start_limited(service::Limits::default());
    make(&factory(&service), "Weather");
    let mut lines = Lines::connect(&service);
    for (channel, reason) in [
        (r#""Weathr""#, r#"there is no channel \"Weathr\"; did you mean \"Weather\"?""#),
        (r#""weather""#, r#"; did you mean \"Weather\"?""#),
        (r#""Office""#, r#"there is no channel \"Office\"""#),
        (r#""0""#, r#"there is no channel \"0\"""#),
        (r#""""#, r#"there is no channel \"\"""#),
        ("77", "there is no channel 77\""),
    ] {
        for line in [subscribe(&format!(r#","channel":{channel}"#)), publish(channel)] {
            let answer = lines.ask(&line);
            assert!(answer.starts_with("{\"error\":") && answer.contains(reason), "{answer}");
        }
    }
    assert_eq!(factory(&service).get_all_channels().unwrap().len(), 2, "nothing was made");
    assert_eq!(lines.ask(&subscribe(r#","channel":"Office","create":true"#)), r#"{"ok":1}"#);
    let mut other = Lines::connect(&service);
    assert_eq!(other.ask(&publish(r#""Office""#)), r#"{"ok":2}"#);
    assert!(lines.line().unwrap().starts_with(r#"{"event":{"channel":2,"#));
    assert_eq!(other.ask(&publish(r#""Office","create":true"#)), r#"{"ok":2}"#, "it is there");
    assert_eq!(factory(&service).get_all_channels().unwrap().len(), 3);
    // CORBA finds it by its name, too.
    assert!(factory(&service).create_named_channel(&[], &[], "Office").unwrap_err().is("NameAlreadyUsed"));
    // What cannot be had leaves no channel.
    let refused = other.ask(r#"{"op":"subscribe","id":8,"channel":"Attic","create":true,"where":"$x >"}"#);
    assert!(refused.contains("the constraint cannot be read"), "{refused}");
    assert_eq!(factory(&service).get_all_channels().unwrap().len(), 3);
}

#[test]
fn names_that_would_not_show_as_they_are_make_no_channel() {
    let service = start_limited(service::Limits::default());
    let (longest, long) = ("x".repeat(1_024), "x".repeat(10 << 10));
    for (name, made) in [
        ("", false),
        ("  ", false),
        ("a\nb", false),
        ("\u{1b}[2J", false),
        ("evil\u{202e}txt", false),
        (&long, false),
        (&longest, true),
        ("אבג", true),
        ("a\"b", true),
        ("4711", true),
    ] {
        let escaped: String = name.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        let mut lines = Lines::connect(&service);
        let answer = lines.ask(&publish(&format!(r#""{escaped}","create":true"#)));
        let expected = if made { r#"{"ok":2}"# } else { "cannot be made: " };
        assert!(answer.contains(expected), "{answer}");
        assert!(answer.len() < 1_000, "{answer}");
        assert_eq!(lines.ask(PING), PONG);
    }
    assert_eq!(factory(&service).get_all_channels().unwrap().len(), 5);
}

#[test]
fn a_client_is_told_of_the_channels_that_it_may_know_of_and_makes_one_where_it_may() {
    let who = ["127.0.9.51", "127.0.9.52"];
    let service = start_by(vec![
        rule(&[OPERATOR], &ALL, &["*"], &[], true),
        rule(&[who[0]], &["subscribe"], &["Weather"], &[], true),
        rule(&[who[0]], &["publish"], &["2"], &[], true),
        rule(&[who[1]], &ALL, &["Office*"], &[], true),
    ]);
    let mut lines = Lines::connect_from(&service, who[0]);
    assert_eq!(page(&mut lines, None).0, [entry(1, "Weather", [0, 0, 0]), entry(2, "Radar-1", [0, 0, 0])]);
    for (name, near) in [("Secret", ""), ("Secrte", ""), ("Radar-2", r#"; did you mean \"Radar-1\"?"#)] {
        let answer = lines.ask(&subscribe(&format!(r#","channel":"{name}""#)));
        let reason = format!(r#"{{"error":1,"reason":"there is no channel \"{name}\"{near}"}}"#);
        assert_eq!(answer, reason);
    }
    assert!(lines.ask(&publish(r#""Weather""#)).contains("not permitted"));
    let denied = service.counters().read(Counter::DeniedAdminister);
    assert!(lines.ask(&publish(r#""Office","create":true"#)).contains("not permitted"));
    await_count(&service, Counter::DeniedAdminister, denied + 1);
    let mut owner = Lines::connect_from(&service, who[1]);
    assert_eq!(owner.ask(&publish(r#""Office","create":true"#)), r#"{"ok":2}"#);
    assert!(owner.ask(&publish(r#""Attic","create":true"#)).contains("not permitted"));
    assert_eq!(page(&mut owner, None).0, [entry(5, "Office", [0, 1, 1])]);
    assert_eq!(page(&mut Lines::connect_from(&service, "127.0.9.53"), None), (Vec::new(), None));
    assert_eq!(page(&mut Lines::connect_from(&service, OPERATOR), None).0.len(), 6);
}

#[test]
fn a_list_of_many_channels_comes_in_pages() {
    let service = start_limited(service::Limits::default());
    let factory = factory(&service);
    (1..250).for_each(|number| _ = make(&factory, &format!("c{number}")));
    let mut lines = Lines::connect(&service);
    let (mut behind, mut all, mut pages) = (None, Vec::new(), Vec::new());
    loop {
        let (entries, next) = page(&mut lines, behind);
        pages.push(entries.len());
        all.extend(entries);
        behind = next;
        if behind.is_none() {
            break;
        }
    }
    assert_eq!(pages, [100, 100, 50]);
    assert_eq!(all.last(), Some(&entry(249, "c249", [0, 0, 0])));
}

#[test]
fn a_channel_that_json_has_made_is_there_after_a_restart() {
    let folder = Folder::new("json-made");
    let config = Config { json: Json { listen: Some("0".into()), ..Json::default() }, ..folder.config() };
    let service = start_with(config.clone());
    let mut lines = Lines::connect(&service);
    assert_eq!(lines.ask(&publish(r#""Office","create":true"#)), r#"{"ok":2}"#);
    drop(service);
    let service = start_with(config);
    let mut lines = Lines::connect(&service);
    assert_eq!(lines.ask(&publish(r#""Office""#)), r#"{"ok":2}"#);
}

//! How long the largest requests take that a client may send: for the table in docs/operating.md.

use super::dialogue::{Dialogue, Expect, STYLES, client, write_empty_event};
use super::proxies::new_channel;
use giop::cdr::Writer;
use giop::ior::Ior;
use std::time::Instant;

struct Scene {
    d: Dialogue,
    channel: Ior,
}

impl Scene {
    fn new() -> Self {
        let mut d = Dialogue::new(STYLES[5]);
        let channel = new_channel(&mut d);
        Self { d, channel }
    }

    /// The first and the best of three calls, with what came of the last, and how long it takes to publish what changed.
    fn time(&mut self, what: &str, object: &Ior, operation: &str, write: impl Fn(&mut Writer<'_>)) {
        let (mut times, mut said) = (Vec::new(), String::new());
        for _ in 0..3 {
            let begun = Instant::now();
            let outcome = self.d.quick(object, operation, &write);
            times.push(begun.elapsed());
            said = match outcome {
                Ok(body) => format!("{} octets", body.reader().remaining()),
                Err(thrown) => thrown.name().to_owned(),
            };
        }
        let begun = Instant::now();
        let published = self.d.door.publish();
        let publishing = begun.elapsed();
        drop(published);
        let (first, best) = (times[0], times.iter().min().unwrap());
        println!("{what}: {first:.2?}, {best:.2?}; {publishing:.2?} to publish; {said}");
    }

    fn filter(&mut self) -> Ior {
        let channel = self.channel.clone();
        let factory = self.d.object(&channel, "_get_default_filter_factory");
        let made = self.d.quick(&factory, "create_filter", |w| w.string("EXTENDED_TCL")).unwrap();
        made.read(|r| Ior::read(r).unwrap())
    }
}

fn constraints(count: usize, types: usize, text: &str) -> impl Fn(&mut Writer<'_>) {
    move |w| {
        w.length(count);
        for constraint in 0..count {
            w.length(types);
            for event_type in 0..types {
                w.string("*D*o*m*");
                w.string(&format!("*a*b*{constraint}*{event_type}"));
            }
            w.string(text);
        }
    }
}

#[test]
#[ignore = "measures, and asserts nothing: cargo test -p campanile-service --lib largest -- --ignored --nocapture"]
fn filters() {
    let mut scene = Scene::new();
    let long = format!("$a == 1{}", " or $a == 1".repeat(900));
    let longest = format!("$a == 1{}", " or $a == 1".repeat(1_300));
    for (what, count, types, text) in [
        ("1,024 constraints", 1_024, 0, "TRUE"),
        ("24 constraints of 10 KB", 24, 0, long.as_str()),
        ("18 constraints of 14 KB", 18, 0, longest.as_str()),
        ("18 constraints of 600 types", 18, 600, "FALSE"),
    ] {
        let filter = scene.filter();
        scene.time(&format!("add {what}"), &filter, "add_constraints", constraints(count, types, text));
        scene.time(&format!("get_all of {what}"), &filter, "get_all_constraints", |_| ());
        scene.time(&format!("match_structured of {what}"), &filter, "match_structured", write_empty_event);
        scene.time(&format!("match of a long type by {what}"), &filter, "match_structured", |w| {
            w.string(&"D".repeat(4_000));
            w.string(&"ab".repeat(2_000));
            w.string("");
            (0..3).for_each(|_| w.u32(0));
        });
        scene.time(&format!("remove_all of {what}"), &filter, "remove_all_constraints", |_| ());
        scene.d.quick(&filter, "destroy", |_| ()).unwrap();
    }
}

#[test]
#[ignore = "measures, and asserts nothing"]
fn proxies() {
    let mut scene = Scene::new();
    let channel = scene.channel.clone();
    let admin = scene.d.object(&channel, "for_consumers");
    let begun = Instant::now();
    for number in 0..65_536_u32 {
        let made = scene.d.quick(&admin, "obtain_notification_push_supplier", |w| w.u32(1));
        let Ok(made) = made else { break };
        let proxy = made.read(|r| {
            let proxy = Ior::read(r).unwrap();
            r.i32().unwrap();
            proxy
        });
        let reference = client(&format!("client {number}"));
        scene.d.quick(&proxy, "connect_structured_push_consumer", |w| reference.write(w)).unwrap();
    }
    println!("made in {:?}", begun.elapsed());
    let begun = Instant::now();
    scene.d.door.publish();
    println!("published in {:?}", begun.elapsed());
    scene.time("_get_push_suppliers of 65,536", &admin, "_get_push_suppliers", |_| ());
    for (name, value) in [("ProbeInterval", 300_000_000_u64), ("GiveUpAfter", 100_000_000), ("Timeout", 5)] {
        scene.time(&format!("set_qos {name} of a channel with 65,536"), &channel, "set_qos", |w| {
            w.u32(1);
            w.string(name);
            w.u32(24);
            w.u64(value);
        });
    }
    let types = |count: usize| {
        move |w: &mut Writer<'_>| {
            w.length(count);
            for number in 0..count {
                w.string("");
                w.string(&number.to_string());
            }
            w.u32(0);
        }
    };
    scene.time("subscription_change of 50,000 types, admin of 65,536", &admin, "subscription_change", types(50_000));
    scene.time("subscription_change of 700,000 types, admin of 65,536", &admin, "subscription_change", types(700_000));
    let begun = Instant::now();
    scene.d.quick(&channel, "destroy", |_| ()).map(drop).unwrap();
    let effects = scene.d.effects().len();
    println!("destroy the channel with 65,536: {:?}, {effects} effects", begun.elapsed());
    let begun = Instant::now();
    scene.d.door.publish();
    println!("published in {:?}", begun.elapsed());
    scene.d.quick(&channel, "destroy", |_| ()).raises("OBJECT_NOT_EXIST");
}

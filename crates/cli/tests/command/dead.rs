//! `campanile dead`: events that consumers never took were dropped, and what they said was lost. They are stored as dead letters.

#![expect(clippy::indexing_slicing, reason = "a test fails by panicking, in its helpers too")]

use crate::persistent::{event, persistent_channel, supplier};
use crate::restart::{Folder, own_address};
use crate::support::{Serve, text};
use client::notify::{
    CallbackConsumer, ClientType, Delivery, FilterGroupOperator, Property, StructuredEvent,
    StructuredProxyPushSupplier, find_channel,
};
use client::{Activation, Orb, OrbOptions, ServantError};
use giop::exception::Kind;
use giop::value::Value;
use serde_json::Value as Json;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use testing::{NextInTime, output_in_time, wait_until};

/// The number that a consumer never takes, until it is mended.
const BAD: i32 = 1;

/// A consumer that raises the same exception whenever the bad number comes.
struct Picky {
    taken: Receiver<i32>,
    is_mended: Arc<AtomicBool>,
    proxy: StructuredProxyPushSupplier,
    number: i32,
    _active: Activation,
}

impl Picky {
    fn connect(orb: &Orb, address: &str, id: i32) -> Self {
        let (sender, taken) = channel();
        let is_mended = Arc::new(AtomicBool::new(false));
        let mended = Arc::clone(&is_mended);
        let servant = CallbackConsumer::structured(move |delivery: Delivery<'_>| {
            if let Delivery::Structured(mut event) = delivery {
                let event = StructuredEvent::read(&mut event)?;
                let Some(Value::Long(number)) = event.field("number") else { panic!("{event:?}") };
                if *number == BAD && !mended.load(Ordering::SeqCst) {
                    return Err(ServantError::system(Kind::Transient));
                }
                let _ = sender.send(*number);
            }
            Ok(())
        });
        let active = orb.activate(Arc::new(servant)).unwrap();
        let (found, _) = find_channel(&orb.resolve_service(address).unwrap(), Some(id)).unwrap();
        let (admin, _) = found.new_for_consumers(FilterGroupOperator::And).unwrap();
        let (proxy, number) = admin.obtain_notification_push_supplier(ClientType::Structured).unwrap();
        let proxy = StructuredProxyPushSupplier::unchecked(proxy.object().clone());
        proxy.connect_structured_push_consumer(active.reference()).unwrap();
        Self { taken, is_mended, proxy, number, _active: active }
    }

    /// Waits until this has come, whatever came before.
    fn await_number(&self, wanted: i32) {
        while self.taken.next_in_time() != wanted {}
    }
}

fn dead(serve: &Serve, words: &[&str]) -> Output {
    let (command, options) = words.split_first().unwrap();
    output_in_time(serve.command("dead", &[]).arg(command).args(options))
}

fn done(serve: &Serve, words: &[&str]) -> String {
    let output = dead(serve, words);
    assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn listed(serve: &Serve) -> Vec<Json> {
    let told: Json = serde_json::from_str(&done(serve, &["ls", "--json"])).unwrap();
    told["dead_letters"].as_array().unwrap().clone()
}

fn await_dead_letters(serve: &Serve, count: u32) {
    let wanted = format!("dead_letters_stored {count}\n");
    wait_until("events to be dead letters", || serve.print("stats", &["dead_letters_stored"]) == wanted);
}

/// A consumer's bug lost an alarm that had been acknowledged; it was in no channel, and nothing could bring it back.
#[test]
fn what_a_consumer_never_took_is_shown_after_a_restart_and_replayed_when_it_is_mended() {
    let folder = Folder::new("dead");
    let serve = folder.serve(&own_address());
    let address = serve.address.clone();
    let id = persistent_channel(&address);
    let channel = id.to_string();
    let orb = Orb::new(OrbOptions::default());
    let picky = Picky::connect(&orb, &address, id);
    assert_eq!(done(&serve, &["ls"]), "");
    let from = supplier(&address, id).unwrap();
    (0..3).for_each(|number| from.push_structured_event(&event(0, number)).unwrap());
    picky.await_number(2);
    await_dead_letters(&serve, 1);
    // The service is killed.
    drop(serve);
    let serve = folder.serve(&address);
    await_dead_letters(&serve, 1);
    let letter = listed(&serve).pop().unwrap();
    let number = letter["number"].to_string();
    assert_eq!((&letter["channel"], &letter["proxy"]), (&id.into(), &picky.number.into()), "{letter}");
    assert_eq!(
        (&letter["domain"], &letter["type"], &letter["reason"]),
        (&"Test".into(), &"Numbered".into(), &"undeliverable".into())
    );
    let line = done(&serve, &["ls", "-c", &channel]);
    let begins = format!("channel {id} proxy {}  {number}  Test/Numbered  ", picky.number);
    assert!(line.starts_with(&begins) && line.lines().count() == 1, "{line}");
    assert_eq!(done(&serve, &["ls", "-c", "0"]), "");
    let checked = serve.run("check", &[]);
    assert!(text(&checked.stdout).contains("1 dead letters (campanile dead ls)"), "{}", text(&checked.stdout));
    // It has not been mended yet.
    assert_eq!(done(&serve, &["replay", &number]), "replayed 1 events\n");
    let from = supplier(&address, id).unwrap();
    from.push_structured_event(&event(0, 3)).unwrap();
    picky.await_number(3);
    await_dead_letters(&serve, 1);
    assert_ne!(listed(&serve)[0]["number"].to_string(), number, "it has a new one");
    picky.is_mended.store(true, Ordering::SeqCst);
    assert_eq!(
        done(&serve, &["replay", "-c", &channel, "--consumer", &picky.number.to_string()]),
        "replayed 1 events\n"
    );
    picky.await_number(BAD);
    assert!(listed(&serve).is_empty());
    wait_until("the disk to be empty", || serve.print("stats", &["events_stored"]) == "events_stored 0\n");
}

/// A consumer that was gone had no name any more, and the events that it never took belonged to no consumer.
#[test]
fn what_a_consumer_that_is_gone_never_took_goes_to_the_others_or_is_removed() {
    let folder = Folder::new("dead-gone");
    let serve = folder.serve(&own_address());
    let id = persistent_channel(&serve.address);
    let orb = Orb::new(OrbOptions::default());
    let (picky, other) = (Picky::connect(&orb, &serve.address, id), Picky::connect(&orb, &serve.address, id));
    other.is_mended.store(true, Ordering::SeqCst);
    let from = supplier(&serve.address, id).unwrap();
    [0, BAD, 2, BAD, 3].iter().for_each(|number| from.push_structured_event(&event(0, *number)).unwrap());
    [&picky, &other].iter().for_each(|consumer| consumer.await_number(3));
    await_dead_letters(&serve, 2);
    picky.proxy.disconnect_structured_push_supplier().unwrap();
    let letters = listed(&serve);
    assert_eq!(letters.len(), 2);
    assert!(letters.iter().all(|letter| letter["proxy"] == picky.number), "by the number that it had: {letters:?}");
    let numbers: Vec<String> = letters.iter().map(|letter| letter["number"].to_string()).collect();
    assert_eq!(done(&serve, &["replay", &numbers[0]]), "replayed 1 events\n");
    other.await_number(BAD);
    let unasked = dead(&serve, &["rm", "--all"]);
    assert_eq!(unasked.status.code(), Some(2), "{}", text(&unasked.stderr));
    let unknown = dead(&serve, &["rm", &numbers[0], "--yes"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(
        text(&unknown.stderr).contains(&format!("there is no dead letter {}", numbers[0])),
        "{}",
        text(&unknown.stderr)
    );
    let removed = done(&serve, &["rm", &numbers[1], "--yes", "--json"]);
    assert_eq!(removed, "{\"done\":1,\"missing\":0,\"unknown\":[]}\n");
    assert!(listed(&serve).is_empty());
    wait_until("the disk to be empty", || serve.print("stats", &["events_stored"]) == "events_stored 0\n");
}

/// A consumer that was mended had a full backlog by then, and what was to be delivered once more would have been dropped.
#[test]
fn what_is_replayed_to_a_consumer_at_its_limit_comes_behind_what_waits_and_is_not_lost_by_a_kill() {
    let folder = Folder::new("dead-full");
    let serve = folder.serve(&own_address());
    let address = serve.address.clone();
    let id = persistent_channel(&address);
    let orb = Orb::new(OrbOptions::default());
    let picky = Picky::connect(&orb, &address, id);
    let from = supplier(&address, id).unwrap();
    (0..3).for_each(|number| from.push_structured_event(&event(0, number)).unwrap());
    picky.await_number(2);
    await_dead_letters(&serve, 1);
    picky.is_mended.store(true, Ordering::SeqCst);
    picky.proxy.set_qos(&[Property::new("MaxEventsPerConsumer", 1)]).unwrap();
    picky.proxy.suspend_connection().unwrap();
    from.push_structured_event(&event(0, 3)).unwrap();
    assert_eq!(done(&serve, &["replay"]), "replayed 1 events\n");
    // Killed at once: the event is on disk for its consumer, or it is aside yet.
    drop(serve);
    let serve = folder.serve(&address);
    if listed(&serve).len() == 1 {
        assert_eq!(done(&serve, &["replay"]), "replayed 1 events\n");
    }
    wait_until("the service to be reached", || picky.proxy.get_qos().is_ok());
    picky.proxy.resume_connection().unwrap();
    assert_eq!([(); 2].map(|()| picky.taken.next_in_time()), [3, BAD]);
    assert!(listed(&serve).is_empty());
    wait_until("the disk to be empty", || serve.print("stats", &["events_stored"]) == "events_stored 0\n");
}

//! Events that a consumer never takes, whatever that looks like, between others that it takes.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use client::notify::{Property, StructuredEvent, find_channel};
use client::{ConsumerOptions, Orb, OrbOptions, SimpleConsumer};
use giop::cdr::{CharSet, Endian, Version};
use giop::exception::{Completed, Kind, SystemException};
use giop::message::{ReplyHead, ReplyStatus, begin_reply, close_connection};
use service::{Counter, Service};
use testing::NextInTime;

use crate::peers::{Bare, Link, await_count, numbered, start, subscribe_to, supply, wait_until};
use crate::persistent::{Folder, factory, number, persistent, supplier};

/// What a consumer does with an event that it never takes.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// It says that it cannot read the message, and closes, as omniORB does with one beyond its `giopMaxMsgSize`.
    MessageError,
    /// It closes the connection without a word, or in good order.
    Close,
    CloseInOrder,
    /// It raises an exception that says "not now", each time.
    Raise,
    /// It does not answer.
    Silence,
}

/// Does as this way says. Says whether the connection is of use yet.
fn fail(link: &mut Link, request_id: u32, way: Way) -> bool {
    match way {
        Way::MessageError => {
            let mut bytes = b"GIOP\x01\x02\x00\x06".to_vec();
            bytes.extend_from_slice(&[0; 4]);
            link.stream.write_all(&bytes).unwrap();
            false
        }
        Way::Close => false,
        Way::CloseInOrder => {
            let mut bytes = Vec::new();
            close_connection(&mut bytes, Version::V1_2);
            link.stream.write_all(&bytes).unwrap();
            false
        }
        Way::Raise => {
            let (version, endian, status) = (Version::V1_2, Endian::Big, ReplyStatus::SystemException);
            let mut bytes = Vec::new();
            let open = begin_reply(&mut bytes, &ReplyHead { version, endian, request_id, status, contexts: &[] });
            let exception = SystemException { kind: Kind::Transient, minor: 0, completed: Completed::No };
            exception.write(&mut open.body(&mut bytes, CharSet::Latin1));
            open.finish(&mut bytes);
            link.stream.write_all(&bytes).unwrap();
            true
        }
        Way::Silence => true,
    }
}

/// A consumer that takes all events but those that are bad, on a thread of its own.
struct Picky {
    taken: Receiver<i32>,
    tried: Arc<Mutex<Vec<i32>>>,
}

impl Picky {
    fn new(service: &Service, way: Way, is_bad: impl Fn(i32) -> bool + Send + 'static) -> Self {
        Self::on(service, None, way, is_bad)
    }

    fn on(service: &Service, id: Option<i32>, way: Way, is_bad: impl Fn(i32) -> bool + Send + 'static) -> Self {
        let bare = Bare::new();
        // Only where silence is the failure: a good one may be slow.
        let hasty = matches!(way, Way::Silence).then(|| Property::new("ReplyTimeout", 20_000_000_u64));
        subscribe_to(service, id, bare.reference(), hasty.as_slice());
        let (sender, taken) = channel();
        let tried = Arc::new(Mutex::new(Vec::new()));
        let counting = Arc::clone(&tried);
        std::thread::spawn(move || Self::serve(&bare, way, &is_bad, &sender, &counting));
        Self { taken, tried }
    }

    /// Until the test has seen enough.
    fn serve(bare: &Bare, way: Way, is_bad: &dyn Fn(i32) -> bool, taken: &Sender<i32>, tried: &Mutex<Vec<i32>>) {
        while let Ok((stream, _)) = bare.listener.accept() {
            let mut link = Link::over(stream);
            link.answer_probe();
            while let Some((request_id, event)) = link.next_push() {
                let number = number(&event);
                tried.lock().unwrap().push(number);
                if is_bad(number) {
                    if !fail(&mut link, request_id, way) {
                        break;
                    }
                    continue;
                }
                link.reply(request_id, ReplyStatus::NoException, None);
                if taken.send(number).is_err() {
                    return;
                }
            }
        }
    }
}

/// A 3 MB event between small ones to an omniORB consumer, which answers `MessageError`: nothing behind it arrived, and the consumer was
/// disconnected after 62 s although it answered probes. The same where it closes, or raises the same exception each time.
#[test]
fn an_event_that_a_consumer_never_takes_is_dropped_for_it_whatever_the_failure_looks_like() {
    let ways = [Way::MessageError, Way::Close, Way::CloseInOrder, Way::Raise, Way::Silence];
    std::thread::scope(|scope| {
        for way in ways {
            scope.spawn(move || {
                let service = start();
                let picky = Picky::new(&service, way, |number| number == 2);
                let supplier = supply(&service);
                (0..6).for_each(|number| supplier.publish(&numbered(number)).unwrap());
                let taken: Vec<i32> = (0..5).map(|_| picky.taken.next_in_time()).collect();
                assert_eq!(taken, [0, 1, 3, 4, 5], "{way:?}");
                wait_until("the last answer", || service.counters().read(Counter::Delivered) == 5);
                let counters = service.counters();
                let dropped = (counters.read(Counter::DroppedUndeliverable), counters.read(Counter::Dropped));
                assert_eq!(dropped, (1, 1), "{way:?}");
                assert_eq!(counters.read(Counter::ConsumersGivenUp), 0, "{way:?}");
                let tries = picky.tried.lock().unwrap().iter().filter(|number| **number == 2).count();
                assert!(tries >= 5, "{way:?}: {tries} tries");
            });
        }
    });
}

/// An operator saw by a counter that events were lost, and not which.
#[test]
fn an_undeliverable_event_goes_to_the_dead_letter_channel_with_reason_and_consumer() {
    let service = start();
    let orb = Orb::new(OrbOptions::default());
    let found = orb.resolve(&service.corbaloc("NotificationService")).unwrap();
    let (_, grave) = factory(&service).create_channel(&[], &[]).unwrap();
    // The default channel's.
    let id = 0;
    let (channel, _) = find_channel(&found, None).unwrap();
    let name = |to: i32| [Property::new("DeadLetterChannel", to)];
    // Neither itself nor one that is not there, nor in a circle.
    assert!(channel.set_admin(&name(id)).is_err() && channel.set_admin(&name(99)).is_err());
    channel.set_admin(&name(grave)).unwrap();
    let (buried, _) = find_channel(&found, Some(grave)).unwrap();
    assert!(buried.set_admin(&name(id)).is_err());
    let (sender, letters) = std::sync::mpsc::channel();
    let url = service.corbaloc("NotificationService");
    let _reader = SimpleConsumer::connect(&url, Some(grave), ConsumerOptions::default(), move |received| {
        let _ = sender.send(received.event().unwrap());
        Ok(())
    })
    .unwrap();
    let picky = Picky::new(&service, Way::MessageError, |number| number == 1);
    let supplier = supply(&service);
    (0..3).for_each(|number| supplier.publish(&numbered(number)).unwrap());
    assert_eq!([(); 2].map(|()| picky.taken.next_in_time()), [0, 2]);
    let letter: StructuredEvent = letters.next_in_time();
    assert_eq!((letter.type_name.as_str(), number(&letter)), ("Numbered", 1));
    let said = |name: &str| {
        let property = letter.variable_header.iter().find(|property| property.name == name);
        format!("{:?}", property.map(|property| &property.value))
    };
    assert!(said("DeadLetterReason").contains("undeliverable"), "{letter:?}");
    assert!(said("DeadLetterConsumer").contains(&format!("of channel {id}")), "{letter:?}");
    assert!(said("DeadLetterOf").contains(&id.to_string()), "{letter:?}");
    wait_until("the count", || service.counters().read(Counter::DeadLetters) == 1);
    // Of a channel that is gone none is sent to, and that is counted.
    buried.destroy().unwrap();
    (3..5).for_each(|number| supplier.publish(&numbered(if number == 3 { 1 } else { number })).unwrap());
    assert_eq!(picky.taken.next_in_time(), 4);
    wait_until("the loss", || service.counters().read(Counter::DeadLettersLost) == 1);
}

/// What proves that an event is at fault is a later one that is taken. A consumer with a database that is down takes none.
#[test]
fn a_consumer_that_takes_nothing_for_a_while_loses_nothing() {
    let service = start();
    // It is well again when the first comes back after the next was tried instead.
    let (was_next_tried, is_well) = (AtomicBool::new(false), AtomicBool::new(false));
    let picky = Picky::new(&service, Way::Raise, move |number| {
        let was_tried = was_next_tried.fetch_or(number == 1, Ordering::SeqCst);
        let is_well_now = number == 0 && was_tried;
        !(is_well.fetch_or(is_well_now, Ordering::SeqCst) || is_well_now)
    });
    let supplier = supply(&service);
    (0..6).for_each(|number| supplier.publish(&numbered(number)).unwrap());
    let taken: Vec<i32> = (0..6).map(|_| picky.taken.next_in_time()).collect();
    assert_eq!(taken, [0, 1, 2, 3, 4, 5]);
    assert_eq!(service.counters().read(Counter::Dropped), 0);
}

/// A persistent event that a consumer never took was dropped, acknowledged as it was, unless a channel for such events was named.
#[test]
fn a_persistent_event_that_goes_to_no_other_channel_is_a_dead_letter_until_its_channel_is_destroyed() {
    let folder = Folder::new("aside");
    let service = folder.start(&folder.config(), None);
    let factory = factory(&service);
    let (of_dead, grave) = factory.create_channel(&[], &[]).unwrap();
    let (made, id) = factory.create_channel(&[persistent()], &[]).unwrap();
    let picky = Picky::on(&service, Some(id), Way::Raise, |number| number == 1);
    let from = supplier(&service, id);
    let push = |number| from.push_structured_event(&numbered(number)).unwrap();
    (0..3).for_each(push);
    assert_eq!([(); 2].map(|()| picky.taken.next_in_time()), [0, 2]);
    await_count(&service, Counter::DeadLettersStored, 1);
    await_count(&service, Counter::EventsStored, 1);
    made.set_admin(&[Property::new("DeadLetterChannel", grave)]).unwrap();
    [1, 3].into_iter().for_each(push);
    assert_eq!(picky.taken.next_in_time(), 3);
    await_count(&service, Counter::DeadLetters, 1);
    // What was kept before stays, and the other is on disk no more.
    await_count(&service, Counter::EventsStored, 1);
    assert_eq!(service.counters().read(Counter::DeadLettersStored), 1);
    // Where it would go is gone.
    of_dead.destroy().unwrap();
    [1, 4].into_iter().for_each(push);
    assert_eq!(picky.taken.next_in_time(), 4);
    await_count(&service, Counter::DeadLettersStored, 2);
    made.destroy().unwrap();
    await_count(&service, Counter::DeadLettersDropped, 2);
    await_count(&service, Counter::DeadLettersStored, 0);
    await_count(&service, Counter::EventsStored, 0);
}

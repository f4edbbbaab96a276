//! Object keys and clients that guess them.

use std::io::Write;
use std::net::TcpStream;

use giop::cdr::{Endian, Version};
use giop::message::{self, LocateReply, LocateStatus, MessageKind, Reply, ReplyStatus};
use service::{Answer, Config, Counter, Query, Service};

use crate::limits::{connect_from, connect_from_address};
use crate::logged;
use crate::peers::{BareSupplier, await_count, numbered, read_message, request, start, wait_until};
use crate::persistent::Folder;

/// Such requests as an address may send before their answers wait.
const BUDGET: u32 = 5_000;

fn locate(key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    message::locate_request(&mut bytes, Version::V1_2, Endian::Little, 1, key);
    bytes
}

/// What a service says of a key.
fn located(stream: &mut TcpStream, key: &[u8]) -> LocateStatus {
    stream.write_all(&locate(key)).unwrap();
    next_status(stream).expect("a reply")
}

fn next_status(stream: &mut TcpStream) -> Option<LocateStatus> {
    let (header, bytes) = read_message(stream)?;
    assert_eq!(header.kind, MessageKind::LocateReply);
    Some(LocateReply::parse(&bytes, &header).unwrap().status)
}

fn guess(number: u32) -> Vec<u8> {
    format!("Proxy/00000000.{number:032x}.00000000").into_bytes()
}

/// Spends an address's budget, as a client does that tries one key after the other.
fn spend(service: &Service, stream: &mut TcpStream) {
    let tried = spend_what_is_left(service, stream);
    assert!(tried > BUDGET, "{tried}");
}

/// Tries keys until an answer waits, and tells how many.
fn spend_what_is_left(service: &Service, stream: &mut TcpStream) -> u32 {
    let before = service.counters().read(Counter::KeyMissesDelayed);
    let mut tried = 0;
    while service.counters().read(Counter::KeyMissesDelayed) == before {
        let guesses: Vec<u8> = (tried..tried + 50).flat_map(|number| locate(&guess(number))).collect();
        stream.write_all(&guesses).unwrap();
        (0..50).for_each(|_| assert_eq!(next_status(stream), Some(LocateStatus::UnknownObject)));
        tried += 50;
    }
    tried
}

/// `LocateRequest` answered strangers as quickly as they asked whether a key names something, and a key had 32 random bits.
#[test]
fn an_address_that_guesses_keys_waits_for_its_answers_and_another_works_on() {
    logged::begin();
    let service = start();
    let mut guesser = connect_from_address(&service, [127, 0, 9, 77]);
    spend(&service, &mut guesser);
    let delayed = service.counters().read(Counter::KeyMissesDelayed);
    // A program that comes back with the references of hundreds of proxies that are gone is answered as ever.
    let mut other = connect_from_address(&service, [127, 0, 9, 78]);
    for number in 0..500 {
        let missed = request(Version::V1_2, &guess(number), "push_structured_event", |_| {});
        other.write_all(&missed).unwrap();
        let (header, bytes) = read_message(&mut other).unwrap();
        assert_eq!(Reply::parse(&bytes, &header).unwrap().status, ReplyStatus::SystemException);
    }
    assert_eq!(service.counters().read(Counter::KeyMissesDelayed), delayed);
    // What the guesser asks for and finds is answered before what it guesses. It has got some of its budget back meanwhile.
    let mut both = guesser;
    spend_what_is_left(&service, &mut both);
    let guesses: Vec<u8> = (0..60).flat_map(|number| locate(&guess(number))).collect();
    both.write_all(&[guesses, request(Version::V1_2, b"NotificationService", "_non_existent", |_| {})].concat())
        .unwrap();
    let kinds: Vec<MessageKind> = (0..61).map(|_| read_message(&mut both).unwrap().0.kind).collect();
    let found_at = kinds.iter().position(|kind| *kind == MessageKind::Reply).unwrap();
    assert!(found_at < 60, "{kinds:?}");
    assert!(service.counters().read(Counter::KeyMissesDelayed) > delayed);
    assert_eq!(service.counters().read(Counter::KeyGuessersClosed), 0);
    let line = logged::await_line(&["127.0.9.77", "guess object keys"]);
    assert!(
        line.contains("5000 objects that do not exist within 100 s") && line.contains("50 go each second"),
        "{line}"
    );
    assert_eq!(logged::lines(&["127.0.9.77", "guess object keys"]).len(), 1, "once an episode");
    assert!(logged::lines(&["127.0.9.78"]).is_empty());
}

#[test]
fn a_connection_is_closed_when_too_many_answers_of_its_address_wait() {
    let service = start();
    let mut first = connect_from(&service, 50);
    spend(&service, &mut first);
    let guesses: Vec<u8> = (0..60).flat_map(|number| locate(&guess(number))).collect();
    let mut guessing: Vec<TcpStream> = (0..8).map(|_| connect_from(&service, 50)).collect();
    for stream in &mut guessing {
        // It may be closed before all is written.
        let _ = stream.write_all(&guesses);
    }
    wait_until("one to be closed", || service.counters().read(Counter::KeyGuessersClosed) > 0);
    let complete = guessing.iter_mut().map(|stream| (0..60).all(|_| next_status(stream).is_some()));
    let complete = complete.filter(|complete| *complete).count();
    assert!(complete < 8, "{complete} of 8 got all of their answers");
    // The address is served, as others are.
    for last in [50, 51] {
        assert_eq!(located(&mut connect_from(&service, last), b"NotificationService"), LocateStatus::ObjectHere);
    }
}

/// A client that knew its own key could write down those of all objects of the channel: they differed in a small number.
#[test]
fn a_key_says_nothing_of_those_beside_it() {
    let service = start();
    let keys: Vec<Vec<u8>> = (0..3).map(|_| BareSupplier::new(&service, None).key).collect();
    let mut stream = TcpStream::connect(service.address()).unwrap();
    for (one, other) in keys.iter().zip(&keys[1..]) {
        assert_eq!(located(&mut stream, one), LocateStatus::ObjectHere);
        let mut derived = one.clone();
        let number = derived.len() - 8..;
        derived[number.clone()].copy_from_slice(&other[number]);
        assert_eq!(located(&mut stream, &derived), LocateStatus::UnknownObject);
    }
}

/// Stores that were written when keys had 32 bits, and the references that clients have of what is in them.
#[test]
fn a_supplier_goes_on_under_the_key_that_a_store_has_kept_since_keys_had_32_bits() {
    let (before, after) = (Folder::new("keys-before"), Folder::new("keys-after"));
    let service = before.start(&before.config(), None);
    let key = BareSupplier::new(&service, None).key;
    let Ok(Answer::Topology(text)) = service.ask(Query::Topology) else { panic!("a topology") };
    service.shutdown();
    // As it was then: one number for all, which has 32 bits.
    let (head, rest) = text.split_once(r#""objects_nonce": ""#).unwrap();
    let (secret, rest) = rest.split_at(32);
    assert!(!String::from_utf8(key).unwrap().contains(secret), "what keys are made of is in none of them");
    let path = before.path().join("former.json");
    std::fs::write(&path, format!(r#"{head}"objects_nonce": {}{}"#, 0xdead_beef_u32, &rest[1..])).unwrap();
    let former = b"Proxy/00000000.deadbeef.00000000";
    let mut config = Config { topology: Some(path), ..after.config() };
    let mut last = None;
    for events in [1, 2] {
        let service = after.start(&config, last);
        let stream = TcpStream::connect(service.address()).unwrap();
        let mut supplier = BareSupplier { stream, key: former.to_vec() };
        for number in 0..events {
            supplier.push(&numbered(number));
            let (header, bytes) = read_message(&mut supplier.stream).unwrap();
            assert_eq!(Reply::parse(&bytes, &header).unwrap().status, ReplyStatus::NoException);
        }
        await_count(&service, Counter::EventsIn, events as u64);
        let new = BareSupplier::new(&service, None).key;
        assert_eq!(new.len(), former.len() + 24);
        assert_eq!(located(&mut supplier.stream, &new), LocateStatus::ObjectHere);
        assert_eq!(located(&mut supplier.stream, b"Proxy/00000000.deadbeef.00000001"), LocateStatus::UnknownObject);
        // The second time it is the store that says so.
        config.topology = None;
        last = Some(service);
    }
}

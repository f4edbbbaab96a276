//! Floods, stalls and deaths of clients: what they cost the service is bounded, counted, and charged to no other client.
//!
//! The tests have their process for themselves and run one after the other, since they measure its memory.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

#[path = "all/peers.rs"]
#[expect(dead_code, reason = "the other tests use the rest of it")]
mod peers;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use client::notify::{EventChannelFactory, Property, StructuredEvent};
use client::{ConsumerOptions, Orb, OrbOptions, SimpleConsumer};
use giop::cdr::CharSet;
use giop::message::{HEADER_LEN, Header, Request};
use service::{Counter, Limits, Service};

use peers::{
    Bare, BareSupplier, Link, REQUEST, assert_serves, numbered, read_message, read_to_end, start, start_limited,
    subscribe, subscribe_to, supply, wait_until,
};
use testing::NextInTime;

/// Held by the test that runs.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Octets of memory that this process, service and test, has resident.
fn resident() -> usize {
    let pages: usize = fs::read_to_string("/proc/self/statm").unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size()
}

fn read(service: &Service, counter: Counter) -> u64 {
    service.counters().read(counter)
}

/// An orderly consumer. Its events are looked at one by one.
struct Orderly {
    _consumer: SimpleConsumer,
    events: Receiver<StructuredEvent>,
}

impl Orderly {
    fn connect(service: &Service, channel_id: Option<i32>) -> Self {
        let (sender, events) = channel();
        let url = service.corbaloc("NotificationService");
        let consumer = SimpleConsumer::connect(&url, channel_id, ConsumerOptions::default(), move |received| {
            // The test may have seen enough.
            let _ = sender.send(received.event().unwrap());
            Ok(())
        });
        Self { _consumer: consumer.unwrap(), events }
    }

    fn next(&self) -> StructuredEvent {
        self.events.next_in_time()
    }
}

fn make_channel(service: &Service, qos: &[Property]) -> i32 {
    let factory = Orb::new(OrbOptions::default()).resolve(&service.corbaloc("NotificationService")).unwrap();
    EventChannelFactory::narrow(factory).unwrap().create_channel(qos, &[]).unwrap().1
}

// ---- half a request ----

/// An event with a body of about so many octets.
fn large(bytes: usize) -> StructuredEvent {
    let mut event = numbered(0);
    event.remainder = "x".repeat(bytes).as_str().into();
    event
}

/// Clients of which each has sent half a message, as far as the service takes it.
fn stall(service: &Service, count: usize, message: &[u8]) -> Vec<TcpStream> {
    let stalled = (0..count).map(|_| {
        let mut stream = TcpStream::connect(service.address()).unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut half = &message[..message.len() / 2];
        while let Ok(written @ 1..) = stream.write(half) {
            half = &half[written..];
        }
        stream.set_nonblocking(false).unwrap();
        stream
    });
    stalled.collect()
}

#[test]
fn suppliers_that_stall_in_the_midst_of_a_request_take_bounded_memory_and_are_ended() {
    const SUPPLIERS: usize = 200;
    const MESSAGE: usize = 1 << 20;
    const INCOMPLETE: usize = 8 << 20;
    let _alone = alone();
    const LARGEST: u32 = 2 << 20;
    let limits = Limits {
        message_completion_ms: 5_000,
        message_bytes_max: LARGEST,
        incomplete_bytes_max: INCOMPLETE as u64,
        // All are from one address, and come to the limit and not to a share of it.
        client_quota_percent: 100,
        ..Limits::default()
    };
    let service = start_limited(limits);
    let consumer = Orderly::connect(&service, None);
    let orderly = supply(&service);
    let message = BareSupplier::new(&service, None).push_message(&REQUEST, CharSet::Latin1, &large(MESSAGE));
    let before = resident();
    let stalled = stall(&service, SUPPLIERS, &message);
    // Others are served meanwhile, and until the last of them has been ended.
    let mut number = 0;
    let mut most = 0;
    let ended = || read(&service, Counter::IncompleteMessages) + read(&service, Counter::StalledMessagesEnded);
    while ended() < SUPPLIERS as u64 {
        orderly.publish(&numbered(number)).unwrap();
        assert_eq!(consumer.next(), numbered(number));
        number += 1;
        most = most.max(resident().saturating_sub(before));
    }
    assert!(number > 0);
    // They have sent up to 100 MB. Beside the budget and the reserve there is what was read of each before the rest was left
    // alone, and what the allocator keeps of what was given back.
    let bound = INCOMPLETE + 4 * LARGEST as usize + SUPPLIERS * (128 << 10) + (32 << 20);
    assert!(most <= bound, "{most} octets, where {bound} are enough");
    assert!(read(&service, Counter::MessagesWaited) > 0);
    assert!(read(&service, Counter::IncompleteBytesLimit) > 0);
    for mut stream in stalled {
        // A client that is closed on while it has sent more than was read finds the connection reset.
        assert!(read_to_end(&mut stream).len() <= 1);
    }
    assert_eq!(read(&service, Counter::EventsIn), u64::try_from(number).unwrap());
    assert_eq!(read(&service, Counter::Dropped), 0);
    assert_serves(&service);
}

#[test]
fn large_events_that_find_no_room_come_when_those_that_do_not_progress_have_been_given_up() {
    // Those that stalled kept the room for the minute that a message may take.
    const STALLED: usize = 20;
    let _alone = alone();
    let limits = Limits { message_bytes_max: 3 << 20, incomplete_bytes_max: 3 << 20, ..Limits::default() };
    let service = start_limited(limits);
    let consumer = Orderly::connect(&service, None);
    let suppliers = [supply(&service), supply(&service)];
    let message = BareSupplier::new(&service, None).push_message(&REQUEST, CharSet::Latin1, &large(2 << 20));
    let stalled = stall(&service, STALLED, &message);
    wait_until("some to fill what there is", || read(&service, Counter::MessagesWaited) > 0);
    wait_until("one address to have its quota", || read(&service, Counter::IncompleteBytesQuota) > 0);
    std::thread::scope(|scope| {
        for supplier in &suppliers {
            scope.spawn(|| supplier.publish(&large(2 << 20)).unwrap());
        }
        assert_eq!((consumer.next(), consumer.next()), (large(2 << 20), large(2 << 20)));
    });
    wait_until("the others to have gone", || read(&service, Counter::StalledMessagesEnded) > 0);
    assert_eq!((read(&service, Counter::IncompleteMessages), read(&service, Counter::EventsIn)), (0, 2));
    drop(stalled);
    assert_serves(&service);
}

// ---- byte by byte ----

/// Reads a message from a connection one octet at a time, with something else to be done before each.
fn read_byte_by_byte(link: &mut Link, mut before_each: impl FnMut()) -> (Header, Vec<u8>) {
    let mut bytes = Vec::new();
    let mut wanted = HEADER_LEN;
    while bytes.len() < wanted {
        before_each();
        let mut octet = [0];
        link.stream.read_exact(&mut octet).unwrap();
        bytes.push(octet[0]);
        if bytes.len() == HEADER_LEN {
            wanted = Header::parse(&bytes).unwrap().message_len();
        }
    }
    (Header::parse(&bytes).unwrap(), bytes)
}

#[test]
fn a_consumer_that_reads_one_byte_at_a_time_gets_all_its_events_and_delays_no_other() {
    const EVENTS: i32 = 300;
    let _alone = alone();
    let service = start();
    let slow = Bare::new();
    subscribe(&service, slow.reference(), &[Property::new("PushWindow", 1024_u16)]);
    let orderly = Orderly::connect(&service, None);
    let supplier = supply(&service);
    let event = |number: i32| {
        let mut event = numbered(number);
        // Together more than the sockets hold.
        event.remainder = "y".repeat(100_000).as_str().into();
        event
    };
    let mut number = 0;
    let mut publish = || {
        if number < EVENTS {
            supplier.publish(&event(number)).unwrap();
            assert_eq!(orderly.next(), event(number));
            number += 1;
        }
    };
    publish();
    let mut link = slow.accept();
    // For each octet that it takes the others get an event.
    let (header, bytes) = read_byte_by_byte(&mut link, &mut publish);
    assert_eq!(number, EVENTS, "all events have passed while it read its first");
    assert!(bytes.len() > 100_000);
    let pushed = Request::parse(&bytes, &header).unwrap();
    let first = StructuredEvent::read(&mut pushed.body(&bytes, &header, CharSet::Latin1)).unwrap();
    assert_eq!(first, event(0));
    link.reply(pushed.request_id, giop::message::ReplyStatus::NoException, None);
    for number in 1..EVENTS {
        assert_eq!(link.accept_push(), event(number));
    }
    wait_until("the last reply", || read(&service, Counter::Delivered) == 2 * u64::try_from(EVENTS).unwrap());
    assert_eq!(read(&service, Counter::Dropped), 0);
}

// ---- large events ----

#[test]
fn events_of_16_mb_to_100_slow_consumers_are_kept_once_and_bounded_by_the_channels_budget() {
    const CONSUMERS: usize = 100;
    const EVENTS: usize = 3;
    // The largest message that is taken is 16 MiB, with everything that is around the event.
    const EVENT: usize = (16 << 20) - 4096;
    const BUDGET: usize = 20 << 20;
    let _alone = alone();
    let service = start();
    let channel_id = make_channel(&service, &[Property::new("MemoryBudget", BUDGET as u64)]);
    let consumers: Vec<Bare> = (0..CONSUMERS).map(|_| Bare::new()).collect();
    for consumer in &consumers {
        subscribe_to(&service, Some(channel_id), consumer.reference(), &[]);
    }
    let mut supplier = BareSupplier::new(&service, Some(channel_id));
    let message = supplier.push_message(&REQUEST, CharSet::Latin1, &large(EVENT));
    let mut stream = supplier.stream.try_clone().unwrap();
    let before = resident();
    std::thread::scope(|scope| {
        scope.spawn(|| (0..EVENTS).for_each(|_| supplier.stream.write_all(&message).unwrap()));
        // One fits; the next is taken and its answer withheld; the third is not looked at.
        assert!(read_message(&mut stream).is_some());
        wait_until("the supplier to be blocked", || read(&service, Counter::SuppliersBlocked) == 1);
        wait_until("all to be pushed to", || read(&service, Counter::PushesSent) == CONSUMERS as u64);
        // A body for each of them would be 1.6 GB.
        let taken = resident().saturating_sub(before);
        // The budget, which the event that is held exceeds, and the buffer that the third is read into.
        let bound = BUDGET + 2 * (16 << 20) + (16 << 20);
        assert!(taken <= bound, "{taken} octets, where {bound} are enough");
        // All of them read, a piece at a time.
        let mut readers: Vec<_> = consumers.iter().map(|consumer| SlowReader::new(consumer.accept())).collect();
        let mut piece = vec![0; 256 << 10];
        while readers.iter().any(|reader| reader.complete < EVENTS) {
            readers.iter_mut().filter(|reader| reader.complete < EVENTS).for_each(|reader| reader.read(&mut piece));
        }
        assert!(read_message(&mut stream).is_some() && read_message(&mut stream).is_some());
    });
    wait_until("the last replies", || read(&service, Counter::Delivered) == (CONSUMERS * EVENTS) as u64);
    assert_eq!(read(&service, Counter::Dropped), 0);
    assert_eq!(read(&service, Counter::EventsRefused), 0);
}

/// Takes a piece of what comes at a time, and answers what is complete.
struct SlowReader {
    link: Link,
    head: Vec<u8>,
    /// Octets of the message that are still to come.
    missing: usize,
    complete: usize,
}

impl SlowReader {
    fn new(link: Link) -> Self {
        Self { link, head: Vec::new(), missing: 0, complete: 0 }
    }

    fn read(&mut self, piece: &mut [u8]) {
        if self.missing == 0 {
            self.head = vec![0; 64];
            self.link.stream.read_exact(&mut self.head).unwrap();
            self.missing = Header::parse(&self.head).unwrap().message_len() - self.head.len();
            return;
        }
        let room = piece.len().min(self.missing);
        let count = self.link.stream.read(&mut piece[..room]).unwrap();
        assert!(count > 0, "the connection was closed in the midst of an event");
        self.missing -= count;
        if self.missing == 0 {
            self.complete += 1;
            // The request id follows the header (CORBA 3.3 part 2, 9.4.2.1), in the order that its flags tell.
            let id = self.head[12..16].try_into().unwrap();
            let little = self.head[6] & 1 == 1;
            let id = if little { u32::from_le_bytes(id) } else { u32::from_be_bytes(id) };
            self.link.reply(id, giop::message::ReplyStatus::NoException, None);
        }
    }
}

// ---- death of a process that many proxies lead to ----

/// System calls of the lane that it took to lose the process behind so many proxies in the midst of a write, and to bring
/// it their events when it was there again.
fn calls_to_survive_the_death_behind(proxies: u64) -> u64 {
    let service = start();
    // It ends and comes back at the same port, which no other process is to be given meanwhile.
    let process = Bare::new();
    for _ in 0..proxies {
        subscribe(&service, process.reference(), &[Property::new("GiveUpAfter", 0_u64)]);
    }
    let orderly = Orderly::connect(&service, None);
    let supplier = supply(&service);
    let event = large(100_000);
    supplier.publish(&event).unwrap();
    assert_eq!(orderly.next(), event);
    let mut link = process.accept();
    wait_until("all to be pushed to", || read(&service, Counter::PushesSent) >= proxies);
    let before = read(&service, Counter::SystemCalls);
    let connects = read(&service, Counter::ConnectsBegun);
    // It has taken two events, and dies in the midst of the third, with all the others written or about to be.
    link.accept_push();
    link.accept_push();
    let mut part = [0; 50_000];
    link.stream.read_exact(&mut part).unwrap();
    wait_until("two to be answered", || read(&service, Counter::Delivered) >= 2);
    let location = process.location();
    drop((link, process));
    // For the others nothing changes.
    supplier.publish(&event).unwrap();
    assert_eq!(orderly.next(), event);
    wait_until("a vain try", || read(&service, Counter::ConnectsFailed) >= 1);
    // It is back, and gets what it has not answered, each proxy its events in their order.
    let listener = TcpListener::bind(location).unwrap();
    let mut link = Bare { listener }.accept();
    for _ in 0..2 * proxies - 2 {
        assert_eq!(link.accept_push(), event);
    }
    let expected = 2 * proxies + 2;
    wait_until("the last replies", || read(&service, Counter::Delivered) == expected);
    assert_eq!(read(&service, Counter::Dropped), 0);
    assert_eq!(read(&service, Counter::ConsumersGivenUp), 0);
    // One connection for all of them, each time.
    let tries = read(&service, Counter::ConnectsBegun) - connects;
    assert_eq!(tries, read(&service, Counter::ConnectsFailed) + 1);
    read(&service, Counter::SystemCalls) - before
}

#[test]
fn a_process_that_dies_in_mid_write_gets_the_events_of_all_its_proxies_when_it_is_back() {
    let _alone = alone();
    let (few, many) = (calls_to_survive_the_death_behind(25), calls_to_survive_the_death_behind(100));
    // Four times the proxies, four times the work: not sixteen times.
    assert!(many < 8 * few, "{few} system calls for 25 proxies, {many} for 100");
}

#[test]
fn a_process_that_hangs_with_many_proxies_behind_it_is_written_to_for_all_of_them_together() {
    const PROXIES: u64 = 300;
    let _alone = alone();
    let service = start();
    let process = Bare::new();
    for _ in 0..PROXIES {
        let qos = [Property::new("ReplyTimeout", 10_000_000_u64), Property::new("GiveUpAfter", 0_u64)];
        subscribe(&service, process.reference(), &qos);
    }
    let orderly = Orderly::connect(&service, None);
    let event = large(100_000);
    supply(&service).publish(&event).unwrap();
    assert_eq!(orderly.next(), event);
    let _hangs = process.accept();
    wait_until("all to be pushed to", || read(&service, Counter::PushesSent) >= PROXIES);
    wait_until("the socket to be full", || read(&service, Counter::Delivered) == 1);
    let before = read(&service, Counter::SystemCalls);
    // All of them wait for a second and time out together.
    wait_until("all to time out", || read(&service, Counter::PushTimeouts) >= PROXIES);
    let calls = read(&service, Counter::SystemCalls) - before;
    assert!(calls < PROXIES, "{calls} system calls for {PROXIES} proxies");
    assert_eq!(read(&service, Counter::Dropped), 0);
}

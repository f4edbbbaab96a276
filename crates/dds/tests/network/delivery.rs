//! What each reader gets, how much of it, and what happens when there is no room.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use dds::{Error, Options, Participant, Qos, Reader, ReliableReader, WriteError, Writer};
use testing::wait_until;

use crate::support::{blob, blob_type, matched, named, number_of, number_type, pair, side, taken, until_matched};

#[test]
fn values_arrive_in_order() {
    let (a, b) = pair(1);
    let name = named("order");
    let (from, to) = (a.topic(&name, &number_type()).unwrap(), b.topic(&name, &number_type()).unwrap());
    let (writer, reader) = matched(&from, &to, &Qos::default(), &Qos::default());
    for number in 0..1000u32 {
        writer.write(&number.to_ne_bytes()).unwrap();
    }
    let numbers: Vec<u32> = taken(&reader, 1000).iter().map(|cdr| number_of(cdr)).collect();
    assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
}

#[test]
fn late_joiners_get_the_latest_and_readers_that_are_there_all() {
    let (a, b) = pair(2);
    let name = named("late");
    let (from, to) = (a.topic(&name, &number_type()).unwrap(), b.topic(&name, &number_type()).unwrap());
    let qos = Qos { late_joiners: 3, ..Qos::default() };
    let (writer, live) = matched(&from, &to, &qos, &qos);
    for number in 0..500u32 {
        writer.write(&number.to_ne_bytes()).unwrap();
    }
    assert_eq!(taken(&live, 500).len(), 500);
    // What is not known yet to have arrived is kept for the reader that is there, and late ones get it, too.
    assert!(writer.wait_for_acknowledgments(testing::PATIENCE).unwrap());
    let late = to.reader(&qos).unwrap();
    let numbers: Vec<u32> = taken(&late, 3).iter().map(|cdr| number_of(cdr)).collect();
    assert_eq!(numbers, [497, 498, 499]);
    writer.write(&500u32.to_ne_bytes()).unwrap();
    assert_eq!(taken(&late, 1).iter().map(|cdr| number_of(cdr)).collect::<Vec<_>>(), [500]);
}

#[test]
fn a_writer_that_outruns_its_reader_is_slowed_and_nothing_is_lost() {
    let (a, b) = pair(3);
    let name = named("slow");
    let (from, to) = (a.topic(&name, &blob_type()).unwrap(), b.topic(&name, &blob_type()).unwrap());
    let writer_qos = Qos { blocking_max: Duration::from_millis(200), ..Qos::default() };
    let (writer, reader) = matched(&from, &to, &writer_qos, &Qos { samples_max: 16, ..Qos::default() });
    let mut written = 0;
    let slowed = loop {
        match writer.write(&blob(written, 8000)) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 20_000, "160 MB went somewhere");
    };
    assert_eq!(slowed, WriteError::Slowed);
    // One of the waiting writers: the reader's taking notifies it of room.
    let (done, is_done) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut tried = 0;
            while writer.write(&blob(written, 8000)) == Err(WriteError::Slowed) {
                tried += 1;
                assert!(tried < 300, "the writer is never notified of room");
            }
            done.send(()).unwrap();
        });
        let numbers: Vec<u32> =
            taken(&reader, usize::try_from(written).unwrap() + 1).iter().map(|cdr| number_of(cdr)).collect();
        assert_eq!(numbers, (0..=written).collect::<Vec<_>>());
        is_done.recv_timeout(crate::support::PATIENCE).unwrap();
    });
    assert_eq!(reader.status().unwrap().lost_total, 0);
}

/// A reader that has no room, and a writer that waits for it.
fn blocked_pair(test: u32, sides: &(Participant, Participant)) -> (Writer, Reader, u32) {
    let name = named(&format!("held_{test}"));
    let (from, to) = (sides.0.topic(&name, &blob_type()).unwrap(), sides.1.topic(&name, &blob_type()).unwrap());
    let qos = Qos { blocking_max: Duration::from_millis(100), ..Qos::default() };
    let (writer, reader) = matched(&from, &to, &qos, &Qos { samples_max: 1, ..Qos::default() });
    // From the second value on, values of a writer come to its readers together, and not to each while it still catches up.
    writer.write(&blob(0, 8000)).unwrap();
    assert_eq!(taken(&reader, 1), [blob(0, 8000)]);
    assert!(writer.wait_for_acknowledgments(testing::PATIENCE).unwrap());
    // The first times it may be that the reader's side has not said yet that it has something.
    let (mut written, mut slowed) = (1, 0);
    while slowed < 5 {
        match writer.write(&blob(written, 8000)) {
            Ok(()) => (written, slowed) = (written + 1, 0),
            Err(error) => {
                assert_eq!(error, WriteError::Slowed);
                slowed += 1;
            }
        }
    }
    (writer, reader, written)
}

/// Once the thread that had a sample for a reader without room never noticed that this was to go, and the reader waited for the thread,
/// until the writer's participant was held to be gone.
#[test]
fn a_reader_without_room_can_go_and_its_writer_goes_on() {
    let options = Options { lease_ms: 3_000_000, writer_bytes_max: 16 << 10, ..Options::loopback() };
    let sides = (side(11, 0, options.clone()), side(11, 1, options));
    let (writer, reader, written) = blocked_pair(11, &sides);
    let (gone, is_gone) = mpsc::channel();
    thread::spawn(move || {
        drop(reader);
        gone.send(()).unwrap();
    });
    // Neither its writer nor another endpoint is forgotten meanwhile: that takes a lease, of fifty minutes here.
    is_gone.recv_timeout(crate::support::PATIENCE).unwrap();
    wait_until("the writer goes on", || writer.write(&blob(written, 8000)).is_ok());
}

/// One that goes waits for others without room, unless they are about to go, too.
#[test]
fn readers_without_room_can_go_one_after_the_other() {
    let options = Options { lease_ms: 3_000_000, writer_bytes_max: 16 << 10, ..Options::loopback() };
    let sides = (side(13, 0, options.clone()), side(13, 1, options));
    let (_writer, reader, _) = blocked_pair(13, &sides);
    let empty = sides.1.topic(&named("empty"), &blob_type()).unwrap().reader(&Qos::default()).unwrap();
    let (gone, is_gone) = mpsc::channel();
    thread::spawn(move || {
        reader.keep_nothing();
        drop(empty);
        drop(reader);
        gone.send(()).unwrap();
    });
    is_gone.recv_timeout(crate::support::PATIENCE).unwrap();
}

/// Once a participant was not heard while a reader had no room: after their lease others were held to be gone, and what they had written
/// was lost.
#[test]
fn a_reader_without_room_for_longer_than_a_lease_loses_nothing() {
    let options = Options { lease_ms: 2_000, writer_bytes_max: 16 << 10, ..Options::loopback() };
    let sides = (side(12, 0, options.clone()), side(12, 1, options));
    let (writer, reader, written) = blocked_pair(12, &sides);
    // Each takes 100 ms.
    for _ in 0..30 {
        assert_eq!(writer.write(&blob(written, 8000)), Err(WriteError::Slowed));
    }
    let count = usize::try_from(written - 1).unwrap();
    let numbers: Vec<u32> = taken(&reader, count).iter().map(|cdr| number_of(cdr)).collect();
    assert_eq!(numbers, (1..written).collect::<Vec<_>>());
    let status = reader.status().unwrap();
    assert_eq!((status.writers, status.writers_total, status.lost_total), (1, 1, 0));
}

#[test]
fn partitions_are_apart() {
    let (a, b) = pair(4);
    let name = named("partition");
    let (from, to) = (a.topic(&name, &number_type()).unwrap(), b.topic(&name, &number_type()).unwrap());
    let within = |partition: &str| Qos { partitions: vec![partition.to_owned()], ..Qos::default() };
    let (north, northern) = matched(&from, &to, &within("north"), &within("north"));
    let (south, southern) = matched(&from, &to, &within("south"), &within("south"));
    let everywhere = to.reader(&within("*")).unwrap();
    wait_until("both writers are seen everywhere", || everywhere.status().unwrap().writers == 2);
    wait_until("both writers see it", || [&north, &south].iter().all(|w| w.status().unwrap().readers == 2));
    north.write(&1u32.to_ne_bytes()).unwrap();
    south.write(&2u32.to_ne_bytes()).unwrap();
    assert_eq!(taken(&everywhere, 2).len(), 2);
    assert_eq!(taken(&northern, 1), [1u32.to_ne_bytes()]);
    assert_eq!(taken(&southern, 1), [2u32.to_ne_bytes()]);
}

#[test]
fn own_values_are_left_out_where_that_is_wanted() {
    let (a, b) = pair(5);
    let name = named("own");
    let (from, to) = (a.topic(&name, &number_type()).unwrap(), b.topic(&name, &number_type()).unwrap());
    let own = to.writer(&Qos::default()).unwrap();
    let (other, reader) = matched(&from, &to, &Qos::default(), &Qos { ignore_own: true, ..Qos::default() });
    own.write(&1u32.to_ne_bytes()).unwrap();
    other.write(&2u32.to_ne_bytes()).unwrap();
    assert_eq!(taken(&reader, 1), [2u32.to_ne_bytes()]);
    assert_eq!(reader.status().unwrap().writers, 1);
}

#[test]
fn a_reader_that_asks_for_more_than_is_offered_is_notified() {
    let (a, b) = pair(6);
    let name = named("incompatible");
    let (from, to) = (a.topic(&name, &number_type()).unwrap(), b.topic(&name, &number_type()).unwrap());
    let writer = from.writer(&Qos { reliable: false, ..Qos::default() }).unwrap();
    let reader = to.reader(&Qos::default()).unwrap();
    wait_until("both are notified", || {
        writer.status().unwrap().incompatible_total == 1 && reader.status().unwrap().incompatible_total == 1
    });
}

#[test]
fn a_waiting_thread_is_woken() {
    let (a, _b) = pair(7);
    let set = a.wait_set().unwrap();
    let waker = set.waker();
    thread::scope(|scope| {
        scope.spawn(|| waker.wake());
        let mut tokens = Vec::new();
        assert!(set.wait(Some(crate::support::PATIENCE), &mut tokens).unwrap().by_waker);
        assert!(!set.wait(Some(Duration::ZERO), &mut tokens).unwrap().by_waker, "it is reported once");
    });
}

#[test]
fn all_readers_that_have_something_are_reported_at_once_and_those_detached_no_more() {
    let (a, b) = pair(30);
    let name = named("many");
    let (from, to) = (a.topic(&name, &number_type()).unwrap(), b.topic(&name, &number_type()).unwrap());
    let writer = from.writer(&Qos::default()).unwrap();
    let readers: Vec<_> = (0..70).map(|_| to.reader(&Qos::default()).unwrap()).collect();
    readers.iter().for_each(|reader| until_matched(&writer, reader));
    wait_until("the writer to know all", || writer.status().unwrap().readers == 70);
    let mut set = b.wait_set().unwrap();
    for (token, reader) in (0..).zip(&readers) {
        set.attach(reader, token).unwrap();
    }
    writer.write(&1u32.to_ne_bytes()).unwrap();
    let mut tokens = Vec::new();
    let mut is_reported = |set: &dds::WaitSet, due: &[u64]| {
        set.wait(Some(Duration::from_millis(50)), &mut tokens).unwrap();
        tokens.sort_unstable();
        tokens == due
    };
    let all: Vec<u64> = (0..70).collect();
    wait_until("a report of all", || is_reported(&set, &all));
    set.detach(3);
    set.waker().wake();
    let others: Vec<u64> = all.iter().copied().filter(|token| *token != 3).collect();
    assert!(is_reported(&set, &others), "all but that, and not the cause of the wakeup");
    // It stays a reader, and can be waited for again.
    set.attach(&readers[3], 70).unwrap();
    others.iter().for_each(|token| set.detach(*token));
    assert!(is_reported(&set, &[70]));
    set.detach(70);
    assert!(is_reported(&set, &[]));
}

#[test]
fn a_value_has_its_time_and_its_writer_user_data() {
    let (a, b) = pair(8);
    let name = named("who");
    let (from, to) = (a.topic(&name, &number_type()).unwrap(), b.topic(&name, &number_type()).unwrap());
    let qos = Qos { user_data: b"mine".to_vec(), ..Qos::default() };
    let (writer, reader) = matched(&from, &to, &qos, &Qos::default());
    writer.write_made_at(&1u32.to_ne_bytes(), 1_700_000_000_000_000_000).unwrap();
    let mut seen = Vec::new();
    wait_until("the value", || {
        reader.take(8, |sample| seen.push(sample.source_timestamp)).unwrap();
        !seen.is_empty()
    });
    // RTPS has fractions of 2^-32 of a second.
    assert!((seen[0] - 1_700_000_000_000_000_000).abs() < 2);
    let endpoints = b.endpoints().unwrap();
    let endpoint = endpoints.iter().find(|endpoint| endpoint.guid == writer.guid()).unwrap();
    assert_eq!((endpoint.participant, endpoint.user_data.as_slice()), (a.guid(), &b"mine"[..]));
}

#[test]
fn clients_that_come_and_go_are_noticed() {
    let (a, b) = pair(9);
    let name = named("coming");
    let (from, to) = (a.topic(&name, &number_type()).unwrap(), b.topic(&name, &number_type()).unwrap());
    let mut set = b.wait_set().unwrap();
    set.attach_discovery().unwrap();
    let mut tokens = Vec::new();
    let mut is_news = |patience| set.wait(Some(patience), &mut tokens).unwrap().by_discovery;
    wait_until("no more news", || !is_news(Duration::ZERO));
    let (writer, reader) = matched(&from, &to, &Qos::default(), &Qos::default());
    let is_there = |guid| b.endpoints().unwrap().iter().any(|endpoint| endpoint.guid == guid);
    until_matched(&writer, &reader);
    let guid = writer.guid();
    assert!(is_there(guid));
    // Also if another has asked meanwhile.
    assert!(is_news(crate::support::PATIENCE));
    wait_until("no more news", || !is_news(Duration::ZERO));
    drop(writer);
    wait_until("the writer is gone", || !is_there(guid));
    assert!(is_news(crate::support::PATIENCE));
    // What is known is reported no more: a waiting thread would not wait, but go in circles.
    wait_until("no more news", || !is_news(Duration::ZERO));
}

#[test]
fn a_network_that_is_not_there_is_reported() {
    let nowhere = Options { interface: Some("nowhere0".into()), ..Options::default() };
    let refused = Participant::new(230, &nowhere).unwrap_err().to_string();
    assert!(refused.contains("nowhere0"), "{refused}");
    assert_eq!(Participant::new(233, &Options::default()).unwrap_err(), Error::DomainId(233));
    for lease_ms in [0, 199, 3_600_001, u32::MAX] {
        let error = Participant::new(0, &Options { lease_ms, ..Options::loopback() }).unwrap_err();
        assert_eq!(error.to_string(), format!("lease_ms is {lease_ms}; it may be 200 to 3600000"));
    }
}

#[test]
fn participants_of_a_process_share_its_domain() {
    let (a, _b) = pair(10);
    let other = Participant::new(a.domain(), &Options::loopback()).unwrap_err();
    assert_eq!(other, Error::DomainOptions(a.domain()));
    let id = a.domain();
    drop(a);
    assert_eq!(Participant::new(id, &Options::loopback()).unwrap().domain(), id);
}

/// A third side, of which a reader is there beside the one without room.
fn beside(test: u32, options: Options, writer: &Writer) -> Reader {
    let third = side(test, 40, options);
    let reader = third.topic(writer.topic().name(), &blob_type()).unwrap().reader(&Qos::default()).unwrap();
    wait_until("all three know each other", || {
        writer.status().unwrap().readers == 2 && reader.status().unwrap().writers == 1
    });
    reader
}

fn behind_of(writer: &Writer) -> Vec<ReliableReader> {
    writer.reliable_readers().unwrap().into_iter().filter(ReliableReader::is_behind).collect()
}

#[test]
fn a_reader_without_room_is_named_given_up_and_matched_again() {
    let options = Options { lease_ms: 3_000_000, writer_bytes_max: 16 << 10, ..Options::loopback() };
    let sides = (side(14, 0, options.clone()), side(14, 1, options.clone()));
    let (writer, full, mut written) = blocked_pair(14, &sides);
    let other = beside(14, options, &writer);
    let behind = behind_of(&writer);
    let [named] = behind.as_slice() else { panic!("{behind:?}") };
    assert_eq!((named.guid, named.participant), (full.guid(), sides.1.guid()));
    assert_eq!(named.pid, std::process::id().to_string());
    assert!(named.address.starts_with("udp/127.0.0.1:") && !named.host.is_empty(), "{named}");
    assert_eq!(named.written, u64::from(written));
    // A reader that is not waited for does not hold the others.
    assert!(writer.unmatch(full.guid()).unwrap());
    assert_eq!((writer.status().unwrap().readers, behind_of(&writer)), (1, Vec::new()));
    let first = written;
    let mut numbers = Vec::new();
    wait_until("others have fifty times what the writer has room for", || {
        if written < first + 100 && writer.write(&blob(written, 8000)).is_ok() {
            written += 1;
        }
        other.take(64, |sample| numbers.push(number_of(sample.cdr))).unwrap();
        numbers.len() == 100
    });
    assert_eq!(numbers, (first..first + 100).collect::<Vec<_>>());
    // It has room again, and gets what is written from then on.
    assert!(writer.match_again(full.guid()).unwrap());
    let again = written;
    let mut numbers = Vec::new();
    wait_until("it has taken and confirmed what is new", || {
        if written < again + 10 && writer.write(&blob(written, 8000)).is_ok() {
            written += 1;
        }
        full.take(64, |sample| numbers.push(number_of(sample.cdr))).unwrap();
        other.take(64, |_| {}).unwrap();
        numbers.last() == Some(&(again + 9)) && behind_of(&writer).is_empty()
    });
    // What it was sent before it was suspended, and then the new ones.
    let new = numbers.iter().position(|number| *number >= again).unwrap();
    assert_eq!(numbers.split_off(new), (again..again + 10).collect::<Vec<_>>());
    assert_eq!(numbers, (1..).take(numbers.len()).collect::<Vec<_>>());
    assert!(numbers.len() <= usize::try_from(first).unwrap());
    let guid = full.guid();
    drop(full);
    wait_until("it is gone", || !writer.match_again(guid).unwrap());
}

//! Programs of CORBA and of DDS meet in channels that are joined to partitions.

mod access;
mod policies;
mod ros;

use std::cell::Cell;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use ::dds::{Options, Participant, Qos, Reader};
use client::notify::StructuredEvent;
use client::{ConsumerOptions, SimpleConsumer, SimpleSupplier};
use giop::cdr::Writer;
use giop::typecode::{Kind, TypeCode};
use giop::value::{AnyValue, Value};
use service::{Config, Counter, Dds, DdsDirection, DdsJoin, DdsMulticast, DdsPreset, DdsType, DdsValue, Service};
use testing::{Leash, NextInTime, wait_until};

use interop::service_with;

/// The domain of a test. Those of another run may be there, too: partitions have names of their own.
fn domain(test: u32) -> u32 {
    20 + (std::process::id() + test) % 60
}

fn partition(test: u32) -> String {
    format!("Weather_{}_{test}", std::process::id())
}

fn join(test: u32) -> DdsJoin {
    DdsJoin {
        channel: "0".into(),
        domain: domain(test),
        partition: Some(partition(test)),
        direction: DdsDirection::Both,
        preset: DdsPreset::Plain,
        event_domain: None,
        topics: std::collections::BTreeMap::new(),
        read: vec!["*".into()],
        types: Vec::new(),
        constraint: String::new(),
        value: DdsValue::Body,
        reliable: true,
        late_joiners: 0,
        deadline_ms: 0,
        lifespan_ms: 0,
        transport_priority: 0,
        samples_max: 4096,
    }
}

fn joined(join: DdsJoin) -> Service {
    service_with(config(join))
}

fn config(join: DdsJoin) -> Config {
    let dds = Dds {
        interface: Some("127.0.0.1".into()),
        multicast: DdsMulticast::Never,
        peers: vec!["127.0.0.1".into()],
        joins: vec![join],
        ..Dds::default()
    };
    Config { dds, ..Config::default() }
}

/// A program of DDS. To Cyclone its domain is another one of this process, so that it and the service meet over the network.
fn participant(test: u32) -> Participant {
    let (inside, outside) = (100 + test, domain(test));
    let more = format!(
        "<CycloneDDS><Domain><Discovery><ExternalDomainId>{outside}</ExternalDomainId></Discovery></Domain></CycloneDDS>"
    );
    Participant::new(inside, &Options { more: Some(more), ..Options::loopback() }).unwrap()
}

fn in_partition(test: u32) -> Qos {
    Qos { partitions: vec![partition(test)], ..Qos::default() }
}

fn wind() -> TypeCode {
    let members = [("station", TypeCode::string()), ("speed", TypeCode::primitive(Kind::Double))];
    TypeCode::structure("IDL:demo/Wind:1.0", "Wind", &members)
}

fn wind_event(type_name: &str, speed: f64) -> StructuredEvent {
    let fields = vec![("station".into(), Value::String("OSF".into())), ("speed".into(), Value::Double(speed))];
    let value = Value::Struct { type_name: "Wind".into(), fields };
    StructuredEvent { remainder: AnyValue { type_code: wind(), value }, ..StructuredEvent::new("ALMA", type_name, "") }
}

fn large_wind(octets: usize) -> AnyValue {
    let fields = vec![("station".into(), Value::String("x".repeat(octets))), ("speed".into(), Value::Double(0.0))];
    AnyValue { type_code: wind(), value: Value::Struct { type_name: "Wind".into(), fields } }
}

fn wind_sample(speed: f64) -> Vec<u8> {
    let mut sample = Vec::new();
    let mut w = Writer::new(&mut sample, ::dds::encoding());
    w.string("OSF");
    w.f64(speed);
    sample
}

fn supplier(service: &Service) -> SimpleSupplier {
    SimpleSupplier::connect(&service.address().to_string(), None).unwrap()
}

fn consumer(service: &Service) -> (SimpleConsumer, Receiver<StructuredEvent>) {
    let (tell, told) = channel();
    let address = service.address().to_string();
    let consumer = SimpleConsumer::connect(&address, None, ConsumerOptions::default(), move |received| {
        let _gone = tell.send(received.event().unwrap());
        Ok(())
    });
    (consumer.unwrap(), told)
}

fn count(service: &Service, counter: Counter) -> u64 {
    service.counters().read(counter)
}

/// All values that a reader gets until there are that many.
fn taken(reader: &Reader, count: usize) -> Vec<Vec<u8>> {
    let mut values = Vec::new();
    wait_until(format_args!("{count} samples"), || {
        reader.take(64, |sample| values.push(sample.cdr.to_vec())).unwrap();
        values.len() >= count
    });
    values
}

#[test]
fn events_become_samples_and_samples_events_and_neither_comes_back() {
    let service = joined(join(1));
    let program = participant(1);
    let topic = program.topic("Wind", &wind()).unwrap();
    let reader = topic.reader(&in_partition(1)).unwrap();
    let writer = program.topic("Gust", &wind()).unwrap().writer(&in_partition(1)).unwrap();
    let (_consumer, events) = consumer(&service);
    let supplier = supplier(&service);

    // The service's writer is there once there was an event.
    let mut first = Vec::new();
    wait_until("an event in DDS", || {
        supplier.publish(&wind_event("Wind", 1.0)).unwrap();
        reader.take(1, |sample| first.push(sample.cdr.to_vec())).unwrap();
        !first.is_empty()
    });
    assert_eq!(first, [wind_sample(1.0)]);
    wait_until("the service reads the topic", || writer.status().unwrap().readers == 1);
    writer.write(&wind_sample(12.5)).unwrap();
    let event = loop {
        let event = events.next_in_time();
        if event.type_name == "Gust" {
            break event;
        }
        assert_eq!((event.domain.as_str(), event.type_name.as_str()), ("ALMA", "Wind"));
    };
    let wanted = wind_event("Gust", 12.5);
    assert_eq!((event.domain.as_str(), event.remainder), ("", wanted.remainder));
    wait_until("it is not to go back", || count(&service, Counter::DdsEchoes) == 1);
    assert_eq!(count(&service, Counter::DdsIn), 1);
    assert!(program.endpoints().unwrap().iter().all(|endpoint| {
        endpoint.participant == program.guid() || (endpoint.topic != "Gust" || endpoint.role == ::dds::Role::Reader)
    }));
}

#[test]
fn two_services_that_join_the_same_partition_do_not_echo() {
    let (one, other) = (joined(join(2)), joined(join(2)));
    let program = participant(2);
    let reader = program.topic("Wind", &wind()).unwrap().reader(&in_partition(2)).unwrap();
    let (_of_one, at_one) = consumer(&one);
    let (_of_other, at_other) = consumer(&other);
    let supplier = supplier(&one);
    // Until all have found each other events are lost to those that came late.
    let mut published = 0.0;
    wait_until("the other service has one", || {
        published += 1.0;
        supplier.publish(&wind_event("Wind", published)).unwrap();
        at_other.recv_timeout(Duration::from_millis(20)).is_ok()
    });
    wait_until("the program of DDS is found", || reader.status().unwrap().writers == 1);
    let marked = wind_event("Last", -1.0);
    let last = program.topic("Last", &wind()).unwrap().reader(&in_partition(2)).unwrap();
    let (mut seen, mut speeds) = (Vec::new(), Vec::new());
    wait_until("the last one has arrived everywhere", || {
        supplier.publish(&marked).unwrap();
        last.take(64, |sample| seen.push(sample.cdr.to_vec())).unwrap();
        !seen.is_empty() && at_other.try_iter().any(|event| event.type_name == "Last")
    });
    wait_until("all that came there is known to be from DDS", || {
        count(&other, Counter::DdsEchoes) == count(&other, Counter::DdsIn)
    });
    // What the first one wrote came to the other one and to the program, once, and to nobody again.
    assert_eq!((count(&one, Counter::DdsIn), count(&other, Counter::DdsOut)), (0, 0));
    while reader.take(64, |sample| speeds.push(sample.cdr.to_vec())).unwrap() > 0 {}
    let before = speeds.len();
    speeds.dedup();
    assert_eq!(speeds.len(), before);
    let at_one: Vec<_> = at_one.try_iter().filter(|event| event.type_name == "Wind").collect();
    assert!(at_one.len() as f64 <= published);
}

#[test]
fn each_event_of_two_services_joined_to_one_partition_comes_once_to_the_consumers_of_both() {
    let services = [joined(join(13)), joined(join(13))];
    let consumers = services.each_ref().map(consumer);
    let suppliers = services.each_ref().map(supplier);
    let speed_of = |event: &StructuredEvent| match &event.remainder.value {
        Value::Struct { fields, .. } => match fields[1].1 {
            Value::Double(speed) => speed,
            _ => panic!("{event:?}"),
        },
        _ => panic!("{event:?}"),
    };
    // Until both have found each other events are lost to the one that came late. Where one is from is its sign.
    let (mut hellos, mut is_heard) = (0, [false; 2]);
    wait_until("each hears the other", || {
        hellos += 1;
        suppliers[0].publish(&wind_event("Wind", -1.0)).unwrap();
        suppliers[1].publish(&wind_event("Wind", -2.0)).unwrap();
        is_heard[0] |= consumers[0].1.try_iter().any(|event| speed_of(&event) == -2.0);
        is_heard[1] |= consumers[1].1.try_iter().any(|event| speed_of(&event) == -1.0);
        is_heard == [true; 2]
    });
    for number in 0..200 {
        suppliers[0].publish(&wind_event("Wind", number.into())).unwrap();
        suppliers[1].publish(&wind_event("Wind", (1000 + number).into())).unwrap();
    }
    let mut heard = [Vec::new(), Vec::new()];
    let mut hear = || {
        for (heard, (_, events)) in heard.iter_mut().zip(&consumers) {
            heard.extend(events.try_iter().map(|event| speed_of(&event)).filter(|speed| *speed >= 0.0));
        }
        heard.clone()
    };
    wait_until("both have all", || hear().iter().all(|heard| heard.len() >= 400));
    // What came from DDS has been looked at, and left out: so nothing is under way any more.
    wait_until("neither has anything left to write", || {
        services.iter().all(|service| {
            count(service, Counter::DdsOut) == hellos + 200
                && count(service, Counter::DdsEchoes) == count(service, Counter::DdsIn)
        })
    });
    for heard in hear() {
        let (of_one, of_other): (Vec<f64>, Vec<f64>) = heard.into_iter().partition(|speed| *speed < 1000.0);
        assert_eq!(of_one, (0..200).map(f64::from).collect::<Vec<_>>());
        assert_eq!(of_other, (1000..1200).map(f64::from).collect::<Vec<_>>());
    }
}

#[test]
fn programs_of_ros_meet_those_of_corba() {
    let declared = DdsType {
        topic: "rt/declared".into(),
        name: Some("std_msgs::msg::Float64".into()),
        definition: "struct Float64 { double data; };".into(),
    };
    let service = joined(DdsJoin { partition: None, preset: DdsPreset::Ros2, types: vec![declared], ..join(3) });
    let program = participant(3);
    let text = TypeCode::structure("IDL:std_msgs/msg/dds_/String_:1.0", "String_", &[("data", TypeCode::string())]);
    let writer = program.topic("rt/chatter", &text).unwrap().writer(&Qos::default()).unwrap();
    let (_consumer, events) = consumer(&service);
    wait_until("the service reads the topic", || writer.status().unwrap().readers == 1);
    let mut hello = Vec::new();
    Writer::new(&mut hello, ::dds::encoding()).string("hello");
    writer.write(&hello).unwrap();
    let event = events.next_in_time();
    assert_eq!((event.type_name.as_str(), event.remainder.type_code.id()), ("chatter", "IDL:std_msgs/msg/String:1.0"));
    let Value::Struct { fields, .. } = &event.remainder.value else { panic!("{event:?}") };
    assert_eq!(fields.as_slice(), [("data".into(), Value::String("hello".into()))]);
    // The other way, in a topic of which the service knows the type from its configuration.
    let number =
        TypeCode::structure("IDL:std_msgs/msg/Float64:1.0", "Float64", &[("data", TypeCode::primitive(Kind::Double))]);
    let mangled = TypeCode::structure(
        "IDL:std_msgs/msg/dds_/Float64_:1.0",
        "Float64_",
        &[("data", TypeCode::primitive(Kind::Double))],
    );
    let reader = program.topic("rt/declared", &mangled).unwrap().reader(&Qos::default()).unwrap();
    let value = Value::Struct { type_name: "Float64".into(), fields: vec![("data".into(), Value::Double(2.5))] };
    let event = StructuredEvent {
        remainder: AnyValue { type_code: number, value },
        ..StructuredEvent::new("", "declared", "")
    };
    let supplier = supplier(&service);
    wait_until("it arrives", || {
        supplier.publish(&event).unwrap();
        let mut is_there = false;
        reader.take(64, |sample| is_there |= sample.cdr == 2.5f64.to_ne_bytes()).unwrap();
        is_there
    });
}

#[test]
fn a_constraint_and_a_domain_choose_what_goes_to_dds() {
    let service = joined(DdsJoin {
        constraint: "$.remainder_of_body.speed > 10".into(),
        event_domain: Some("ALMA".into()),
        ..join(4)
    });
    let program = participant(4);
    let reader = program.topic("Wind", &wind()).unwrap().reader(&in_partition(4)).unwrap();
    let supplier = supplier(&service);
    let mut samples = Vec::new();
    wait_until("one arrives", || {
        supplier.publish(&wind_event("Wind", 5.0)).unwrap();
        supplier.publish(&StructuredEvent { domain: "APEX".into(), ..wind_event("Wind", 15.0) }).unwrap();
        supplier.publish(&wind_event("Wind", 20.0)).unwrap();
        reader.take(64, |sample| samples.push(sample.cdr.to_vec())).unwrap();
        !samples.is_empty()
    });
    samples.dedup();
    assert_eq!(samples, [wind_sample(20.0)]);
    assert!(count(&service, Counter::DdsUnmapped) > 0);
}

#[test]
fn a_flood_from_dds_is_taken_whole() {
    let service = joined(join(5));
    let program = participant(5);
    let writer = program.topic("Wind", &wind()).unwrap().writer(&in_partition(5)).unwrap();
    let (_consumer, events) = consumer(&service);
    wait_until("the service reads the topic", || writer.status().unwrap().readers == 1);
    for number in 0..20_000u32 {
        while let Err(error) = writer.write(&wind_sample(number.into())) {
            assert_eq!(error, ::dds::WriteError::Slowed);
        }
    }
    for number in 0..20_000u32 {
        assert_eq!(events.next_in_time().remainder, wind_event("Wind", number.into()).remainder);
    }
    assert_eq!((count(&service, Counter::DdsIn), count(&service, Counter::DdsLost)), (20_000, 0));
}

#[test]
fn a_flood_to_dds_waits_for_a_slow_reader_and_nothing_is_lost() {
    let mut config = config(join(6));
    config.dds.writer_bytes_max = 16 << 10;
    let service = service_with(config);
    let program = participant(6);
    let topic = program.topic("Wind", &wind()).unwrap();
    let reader = topic.reader(&Qos { samples_max: 8, ..in_partition(6) }).unwrap();
    let supplier = supplier(&service);
    // One event: more would fill the reader, which nobody reads yet, and keep the program's other one from going.
    supplier.publish(&wind_event("Wind", -1.0)).unwrap();
    wait_until("the service has a writer that is known", || reader.status().unwrap().writers == 1);
    // Large enough that the writer's room is spent before anybody reads.
    let large = StructuredEvent { remainder: large_wind(20_000), ..wind_event("Large", 0.0) };
    let behind = program.topic("Large", &wind()).unwrap().reader(&Qos { samples_max: 1, ..in_partition(6) }).unwrap();
    supplier.publish(&large).unwrap();
    wait_until("it has a writer for that, too", || behind.status().unwrap().writers == 1);
    // The writer may learn of the reader later than the reader of the writer: until then what it writes is for nobody. Each event waits
    // until the one before was written: so there are never more than the channel has room for, with which the supplier would wait, too.
    let mut published = 2;
    wait_until("the join has waited for a reader", || {
        if count(&service, Counter::DdsOut) == published {
            supplier.publish(&large).unwrap();
            published += 1;
        }
        count(&service, Counter::DdsWaited) > 0
    });
    drop(behind);
    for number in 0..500 {
        supplier.publish(&wind_event("Wind", number.into())).unwrap();
    }
    let is_of_flood = |sample: &Vec<u8>| *sample != wind_sample(-1.0);
    let mut speeds = Vec::new();
    while speeds.len() < 500 {
        speeds.extend(taken(&reader, 1).into_iter().filter(is_of_flood));
    }
    assert_eq!(speeds, (0..500).map(|number| wind_sample(number.into())).collect::<Vec<_>>());
}

/// A second program of DDS, as [`participant`].
fn another_participant(test: u32) -> Participant {
    let (inside, outside) = (160 + test, domain(test));
    let more = format!(
        "<CycloneDDS><Domain><Discovery><ExternalDomainId>{outside}</ExternalDomainId></Discovery></Domain></CycloneDDS>"
    );
    Participant::new(inside, &Options { more: Some(more), ..Options::loopback() }).unwrap()
}

/// Events of 20,000 octets, numbered by their speed.
fn large_event(number: u32) -> StructuredEvent {
    let fields =
        vec![("station".into(), Value::String("x".repeat(20_000))), ("speed".into(), Value::Double(number.into()))];
    let value = Value::Struct { type_name: "Wind".into(), fields };
    StructuredEvent { remainder: AnyValue { type_code: wind(), value }, ..wind_event("Wind", 0.0) }
}

fn numbers_taken(reader: &Reader, numbers: &mut Vec<f64>) {
    let number_of = |cdr: &[u8]| f64::from_ne_bytes(cdr[cdr.len() - 8..].try_into().unwrap());
    reader.take(64, |sample| numbers.push(number_of(sample.cdr))).unwrap();
}

/// Once a reader that was alive and took nothing held its join, all other readers of it, and then the channel's suppliers, as long as it lived.
#[test]
fn a_reader_that_takes_nothing_is_given_up_and_comes_back_when_it_takes_again() {
    let mut config = config(join(12));
    config.dds.writer_bytes_max = 16 << 10;
    config.dds.hold_timeout_ms = 3000;
    let service = service_with(config);
    let (program, stuck_program) = (participant(12), another_participant(12));
    let reader_in = |program: &Participant, samples_max| {
        program.topic("Wind", &wind()).unwrap().reader(&Qos { samples_max, ..in_partition(12) }).unwrap()
    };
    let good = reader_in(&program, 4096);
    // One in the same program as the stuck one is held by it: Cyclone waits where it receives. What comes of that is the same for both.
    let neighbour = reader_in(&stuck_program, 4096);
    // The last, so that it is the first to go: the others of its program could not while it is full.
    let stuck = reader_in(&stuck_program, 1);
    let supplier = supplier(&service);
    let (published, mut numbers) = (Cell::new(0), Vec::new());
    // Until the service's writer knows a reader, it writes nothing for it. Each event waits until the one before was written, so that the
    // supplier, which is this thread, never does.
    let publish = || {
        if count(&service, Counter::DdsOut) == u64::from(published.get()) {
            supplier.publish(&large_event(published.get())).unwrap();
            published.set(published.get() + 1);
        }
    };
    wait_until("the stuck reader and its neighbour are let go", || {
        publish();
        numbers_taken(&good, &mut numbers);
        count(&service, Counter::DdsReadersGivenUp) >= 2
    });
    let until = published.get() + 200;
    wait_until("suppliers and the good reader go on, and the others are tried in vain", || {
        publish();
        numbers_taken(&good, &mut numbers);
        count(&service, Counter::DdsReadersGivenUp) >= 4 && numbers.last() >= Some(&f64::from(until))
    });
    let until = published.get();
    assert_eq!(count(&service, Counter::DdsReadersBack), 0);
    // Both take again: they are tried, and get what is published from then on.
    let (mut of_stuck, mut of_neighbour) = (Vec::new(), Vec::new());
    wait_until("both are back", || {
        publish();
        numbers_taken(&good, &mut numbers);
        numbers_taken(&stuck, &mut of_stuck);
        numbers_taken(&neighbour, &mut of_neighbour);
        let has_new = |numbers: &[f64]| numbers.last().is_some_and(|last| *last >= f64::from(until));
        count(&service, Counter::DdsReadersBack) == 2 && has_new(&of_stuck) && has_new(&of_neighbour)
    });
    let first = numbers[0];
    let is_whole = numbers.iter().zip(0..).all(|(number, at)| *number == first + f64::from(at));
    assert!(is_whole, "the good one has all, in order: {numbers:?}");
}

#[test]
fn events_that_are_nothing_for_dds_are_left_out_and_counted() {
    let service = joined(join(9));
    let supplier = supplier(&service);
    supplier.publish(&StructuredEvent::new("ALMA", "Nothing", "")).unwrap();
    supplier.publish(&wind_event("Wind", 1.0)).unwrap();
    let members = [("text", TypeCode::string())];
    let type_code = TypeCode::structure("IDL:demo/Wind:1.0", "Wind", &members);
    let value = Value::Struct { type_name: "Wind".into(), fields: vec![("text".into(), Value::String("x".into()))] };
    let other =
        StructuredEvent { remainder: AnyValue { type_code, value }, ..StructuredEvent::new("ALMA", "Wind", "") };
    supplier.publish(&other).unwrap();
    for number in 0..300 {
        supplier.publish(&wind_event(&format!("Wind{number}"), 1.0)).unwrap();
    }
    wait_until("all have been looked at", || {
        count(&service, Counter::DdsNoValue) == 1
            && count(&service, Counter::DdsOtherType) == 1
            && count(&service, Counter::DdsOut) == 256
            && count(&service, Counter::DdsTopicsSpent) == 45
    });
}

/// Writes a mutable type, for which CORBA has nothing.
const MUTABLE: &str = r#"
import sys, time
from dataclasses import dataclass
from cyclonedds.core import Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.annotations import mutable
from cyclonedds.pub import DataWriter, Publisher
from cyclonedds.topic import Topic

@dataclass
@mutable
class Odd(IdlStruct, typename="demo.Odd"):
    number: int

participant = DomainParticipant(int(sys.argv[1]))
publisher = Publisher(participant, Qos(Policy.Partition(partitions=[sys.argv[2]])))
writer = DataWriter(publisher, Topic(participant, "Odd", Odd))
sys.stdin.read()
"#;

#[test]
fn topics_that_cannot_be_read_are_counted() {
    let service = joined(join(10));
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/interop/dds/bin/python3");
    let mut writes = Command::new(python);
    writes.args(["-c", MUTABLE, &domain(10).to_string(), &partition(10)]).env("CYCLONEDDS_URI", URI);
    let mut writes = writes.stdin(Stdio::piped()).spawn().unwrap();
    wait_until("the topic is found", || count(&service, Counter::DdsUntyped) == 1);
    drop(writes.stdin.take());
    writes.wait().unwrap();
}

/// On this machine alone, for programs that are told so by their environment.
const URI: &str = "<CycloneDDS><Domain><General><Interfaces><NetworkInterface address=\"127.0.0.1\"/></Interfaces>\
                   <AllowMulticast>false</AllowMulticast></General><Discovery><Peers><Peer address=\"127.0.0.1\"/></Peers>\
                   <ParticipantIndex>auto</ParticipantIndex></Discovery></Domain></CycloneDDS>";

#[test]
fn channels_that_are_not_there_and_domains_that_cannot_be_had_are_reported() {
    let dds = |interface: &str, channel: &str| Dds {
        interface: Some(interface.into()),
        joins: vec![DdsJoin { channel: channel.into(), domain: 90, ..join(7) }],
        ..Dds::default()
    };
    let refused = |dds| {
        let config = Config { listen: "127.0.0.1:0".into(), dds, ..Config::default() };
        Service::start(config).unwrap_err().to_string()
    };
    assert!(refused(dds("127.0.0.1", "Nowhere")).contains("there is no channel \"Nowhere\""));
    let why = refused(dds("nowhere0", "0"));
    assert!(why.contains("nowhere0"), "{why}");
}

#[test]
fn the_tools_of_cyclone_show_topic_and_fields() {
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/interop/dds/bin/cyclonedds");
    assert!(tool.exists(), "{} is not there; run `make test` (or interop/install.sh)", tool.display());
    // The tool looks into all partitions, for a second where it is not told another time.
    let service = joined(join(8));
    let supplier = supplier(&service);
    supplier.publish(&wind_event("Wind", 0.5)).unwrap();
    let domain = domain(8).to_string();
    let mut shown = Command::new(&tool);
    shown.args(["typeof", "Wind", "--id", &domain, "--runtime", "5s"]).env("CYCLONEDDS_URI", URI);
    let shown = testing::output_in_time(&mut shown);
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(text.contains("struct Wind") && text.contains("double speed"), "{text}");

    let mut reads = Command::new(&tool);
    reads
        .args(["subscribe", "Wind", "--id", &domain, "--qos", "scan-random", "--runtime", "5s"])
        .env("CYCLONEDDS_URI", URI);
    let mut reads = reads.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let leash = Leash::new(&reads, "what cyclonedds prints");
    let told = testing::lines_of(reads.stdout.take().unwrap());
    let mut is_shown = false;
    wait_until("the tool shows the event", || {
        supplier.publish(&wind_event("Wind", 7.25)).unwrap();
        while let Ok(line) = told.recv_timeout(Duration::from_millis(20)) {
            is_shown |= line.contains("speed=7.25");
        }
        is_shown
    });
    reads.kill().unwrap();
    reads.wait().unwrap();
    drop(leash);
}

//! Programs of Tempo share channels with programs of the orbs: the Rust client, and the one in C.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use client::tempo::{Content, Publisher, Subscriber};
use client::{ConsumerOptions, SimpleConsumer};
use service::{Config, Service, Tempo, TempoType};
use testing::Leash;

use interop::{Orb, first_consumer, service_with, supplier};

/// Long beyond need.
const PATIENCE: Duration = Duration::from_secs(60);

fn broker(types: Vec<TempoType>) -> Service {
    let tempo = Tempo { listen: Some("127.0.0.1:0".into()), types, ..Tempo::default() };
    service_with(Config { tempo, ..Config::default() })
}

fn address(service: &Service, transport: &str) -> String {
    format!("{transport}://{}", service.tempo_address().unwrap())
}

/// Each event is a message for the program, and the message an event again: an orb's consumer looks at every field of what an orb's
/// supplier sent.
#[test]
fn what_a_program_of_tempo_takes_from_one_channel_and_puts_into_another_is_what_the_orbs_sent() {
    for (of_supplier, of_consumer) in Orb::PAIRINGS {
        let service = broker(Vec::new());
        let here = address(&service, "tcp");
        let (mut consumer, channel) =
            first_consumer(of_consumer, &service, "--form structured --scenario small --every 1 --count 200");
        let publisher = Publisher::new("Campanile/small", &format!("{here}/{channel}")).unwrap();
        assert!(publisher.wait_for_subscribers(1, PATIENCE));
        let subscriber = Subscriber::new("Campanile/small", &here).unwrap();
        let subscriber = subscriber.on(move |message| {
            assert_eq!(message.content, Content::Structured);
            publisher.publish_as(message.content, message.priority, message.octets).unwrap();
        });
        assert!(subscriber.wait_for_publishers(1, PATIENCE));
        supplier(of_supplier, &service, "0", "--form structured --scenario small --count 200").end().well();
        consumer.wait_for("ok 199");
        consumer.end().well();
    }
}

/// The program in C, compiled.
fn program_in_c() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/tempo/c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tempo-example");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c99", "-O1", "-o"]).arg(&program).arg(source.join("example.c"));
    let compiled = compiler.status().expect("cc: apt-get install gcc");
    assert!(compiled.success());
    program
}

/// Octets as a `sequence<octet>` in a body, and a message of a declared type as fields: by CORBA's consumer, whichever orb's wire it is.
#[test]
fn corbas_consumers_get_what_programs_in_c_and_in_rust_publish_and_the_one_in_c_what_rust_does() {
    let wind = TempoType {
        topic: "Weather/Wind".into(),
        channel: 0,
        definition: "struct Wind { double speed; long direction; };".into(),
    };
    let service = broker(vec![wind]);
    let (tell, told) = mpsc::channel();
    let options = ConsumerOptions {
        constraint: Some("$type_name == 'Line' or $speed > 10".into()),
        ..ConsumerOptions::default()
    };
    let consumer = SimpleConsumer::connect(&service.corbaloc("NotificationService"), Some(0), options, move |event| {
        let _ = tell.send(event.event()?);
        Ok(())
    })
    .unwrap();

    let program = program_in_c();
    let mut in_c = Command::new(&program);
    in_c.args(["pub", "Text/Line", &address(&service, "udp"), "3"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut in_c = in_c.spawn().unwrap();
    let leash = Leash::new(&in_c, "the end of the publisher in C");
    let lines: Vec<_> = (0..3).map(|_| told.recv_timeout(PATIENCE).unwrap()).collect();
    assert!(in_c.wait().unwrap().success());
    drop(leash);
    for (line, number) in lines.iter().zip([3, 2, 1]) {
        assert_eq!((line.domain.as_str(), line.type_name.as_str()), ("Text", "Line"));
        let text = format!("{:?}", line.remainder);
        let octets: Vec<u8> = number.to_string().into_bytes();
        assert!(octets.iter().all(|octet| text.contains(&octet.to_string())), "{text}");
    }

    let wind = Publisher::new("Weather/Wind", &address(&service, "udp")).unwrap();
    assert!(wind.wait_for_subscribers(1, PATIENCE));
    for (speed, direction) in [(9.5_f64, 90_i32), (12.5, 270)] {
        let octets = [&speed.to_le_bytes()[..], &direction.to_le_bytes()].concat();
        wind.publish_as(Content::Typed, 0, &octets).unwrap();
    }
    let event = told.recv_timeout(PATIENCE).unwrap();
    let text = format!("{:?}", event.filterable_data);
    assert!(text.contains("speed") && text.contains("12.5") && text.contains("270"), "{text}");
    consumer.close().unwrap();

    let publisher = Publisher::new("Text/Line", &address(&service, "tcp")).unwrap();
    let mut in_c = Command::new(&program);
    in_c.args(["sub", "Text/Line", &address(&service, "udp"), "3"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let in_c = in_c.spawn().unwrap();
    let leash = Leash::new(&in_c, "what the subscriber in C prints");
    // It is connected when it is: until then, messages go to nobody.
    let mut in_c = in_c;
    testing::wait_until("the subscriber in C has had three lines", || {
        publisher.publish(b"a line").unwrap();
        in_c.try_wait().unwrap().is_some()
    });
    let printed = in_c.wait_with_output().unwrap();
    drop(leash);
    assert_eq!(String::from_utf8_lossy(&printed.stdout).lines().collect::<Vec<_>>(), ["a line"; 3]);
}

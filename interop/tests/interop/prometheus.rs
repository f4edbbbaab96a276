//! Prometheus's own tool looks at what scrapers get, and at the rules and the configuration in packaging/.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use client::notify::StructuredEvent;
use client::{ConsumerOptions, SimpleConsumer, SimpleSupplier};
use console::Console;
use service::{Config, Counter, DeclaredChannel, Http, Service};
use testing::{patient, wait_until};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Promtool with these arguments, which has nothing to say.
fn finds_nothing(arguments: &[&str], stdin: Stdio) {
    let tool = root().join("target/interop/promtool");
    assert!(tool.exists(), "{} is not there; run `make test` (or interop/install.sh)", tool.display());
    let mut command = Command::new(tool);
    command.args(arguments).current_dir(root().join("packaging/prometheus")).stdin(stdin);
    let said = testing::output_in_time(&mut command);
    let text = [said.stdout, said.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(said.status.success() && !text.contains("FAILED"), "{arguments:?}: {text}");
}

#[test]
fn promtool_has_nothing_to_say_against_metrics_rules_and_configuration() {
    let name = "Plant \"7\" \\ <b>".to_owned();
    let config = Config {
        listen: "127.0.0.1:0".into(),
        http: Http { listen: Some("0".into()), ..Http::default() },
        channels: vec![DeclaredChannel { name, properties: BTreeMap::new(), lane: Vec::new(), timers: Vec::new() }],
        ..Config::default()
    };
    let service = Service::start(config.clone()).unwrap();
    let console = Console::start(&config, &service).unwrap().unwrap();
    let url = service.corbaloc("NotificationService");
    let _consumer = SimpleConsumer::connect(&url, Some(1), ConsumerOptions::default(), |_| Ok(())).unwrap();
    let supplier = SimpleSupplier::connect(&url, Some(1)).unwrap();
    (0..100).for_each(|_| supplier.publish(&StructuredEvent::new("Test", "Event", "")).unwrap());
    wait_until("the events to be delivered", || service.counters().read(Counter::Delivered) == 100);

    // As promtool's own documentation has it: what curl prints, and no header that curl would not send.
    let mut stream = TcpStream::connect(console.address().unwrap()).unwrap();
    patient(&stream);
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nConnection: close\r\n\r\n").unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    let (head, text) = told.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200") && text.contains("campanile_channel_events_in_total{"), "{told}");
    let file = std::env::temp_dir().join(format!("campanile-promtool-{}", std::process::id()));
    std::fs::write(&file, text).unwrap();
    finds_nothing(&["check", "metrics"], std::fs::File::open(&file).unwrap().into());
    std::fs::remove_file(&file).unwrap();
    finds_nothing(&["check", "rules", "campanile.rules.yml"], Stdio::null());
    finds_nothing(&["check", "config", "prometheus.yml"], Stdio::null());
}

//! The ways in which CORBA clients look for a notification service.

use service::{Config, Service};

use crate::support::{Orb, Peer, service, service_with};

/// One event pushed by a supplier that finds the service in the given way, seen by a consumer that found it so too.
fn reach(orb: Orb, finding: &str) {
    let words = "--form any --scenario nested --count 1";
    let consumer = Peer::start(orb, &format!("consumer {words} {finding}")).ready();
    Peer::start(orb, &format!("supplier {words} {finding}")).end().well();
    consumer.end().received_all(1);
}

fn naming(service: &Service) -> String {
    format!("--initref NameService={}", service.corbaloc("NameService"))
}

#[test]
fn by_corbaloc_under_each_of_its_names() {
    let service = service();
    let address = service.address();
    for orb in Orb::ALL {
        for key in ["NotificationService", "NotifyEventChannelFactory"] {
            reach(orb, &format!("--factory {}", service.corbaloc(key)));
            reach(orb, &format!("--factory corbaloc:iiop:{address}/{key}"));
            reach(orb, &format!("--factory corbaloc:iiop:1.0@{address}/{key}"));
        }
    }
}

#[test]
fn by_stringified_reference() {
    let service = service();
    for orb in Orb::ALL {
        reach(orb, &format!("--factory {}", service.reference()));
    }
}

#[test]
fn by_the_file_that_the_service_writes() {
    let file = std::env::temp_dir().join(format!("campanile-interop-{}.ior", std::process::id()));
    let service = service_with(Config { ior_file: Some(file.clone()), ..Config::default() });
    let reference = std::fs::read_to_string(&file).expect("the file is there once the service is ready");
    std::fs::remove_file(&file).expect("it is our file");
    assert_eq!(reference.trim(), service.reference());
    for orb in Orb::ALL {
        reach(orb, &format!("--factory {}", reference.trim()));
    }
}

#[test]
fn by_the_initial_reference_notification_service() {
    let service = service();
    for orb in Orb::ALL {
        let location = service.corbaloc("NotificationService");
        reach(orb, &format!("--initial NotificationService --initref NotificationService={location}"));
        reach(orb, &format!("--initial NotificationService --initref NotificationService={}", service.reference()));
    }
}

#[test]
fn by_the_built_in_naming_service() {
    let service = service();
    for orb in Orb::ALL {
        for name in ["NotifyEventChannelFactory", "NotificationService", "ChannelFactory.ChannelFactory"] {
            reach(orb, &format!("--naming {name} {}", naming(&service)));
        }
        let url = format!("corbaname::{}#NotifyEventChannelFactory", service.address());
        reach(orb, &format!("--factory {url}"));
    }
}

#[test]
fn the_default_channel_as_a_plain_event_service() {
    let service = service();
    let words = "--form cosevent --scenario nested --count 1";
    for orb in Orb::ALL {
        for finding in [
            format!("--event-channel {}", service.corbaloc("DefaultEventChannel")),
            format!("--event-channel {}", service.corbaloc("EventService")),
            format!("--plain --initref EventService={}", service.corbaloc("EventService")),
        ] {
            let consumer = Peer::start(orb, &format!("consumer {words} {finding}")).ready();
            Peer::start(orb, &format!("supplier {words} {finding}")).end().well();
            consumer.end().received_all(1);
        }
    }
}

#[test]
fn a_key_that_names_nothing_answers_object_not_exist() {
    let service = service();
    for orb in Orb::ALL {
        let url = service.corbaloc("NoSuchObject");
        let ended = Peer::start(orb, &format!("call --witness {url} --only twice")).end();
        assert!(ended.lines.iter().any(|line| line.starts_with("twice ") && line.contains("OBJECT_NOT_EXIST")), "{ended}");
        let url = service.corbaloc("NameService");
        let ended = Peer::start(orb, &format!("call --witness {url} --only twice")).end();
        assert!(ended.lines.iter().any(|line| line.starts_with("twice ") && line.contains("BAD_OPERATION")), "{ended}");
    }
}

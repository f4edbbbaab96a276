//! The ways in which CORBA clients look for a notification service.

use client::naming::NamingContext;
use service::{Config, Naming, Service};
use testing::wait_until;

use interop::{Orb, Peer, service, service_with};

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
fn by_an_outside_naming_service() {
    let folder = std::env::temp_dir().join(format!("campanile-interop-names-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the folder for temporary files is ours to write");
    let mut names = Peer::start(Orb::JacOrb, &format!("name-server --dir {}", folder.display()));
    let outside = format!("IOR:{}", names.wait_for("SERVER IOR: IOR:"));
    let naming = Naming { outside: Some(outside.clone()) };
    let _service = service_with(Config { naming, ..Config::default() });
    // The name appears there when the outside service has taken it.
    let orb = client::Orb::new(client::OrbOptions::default());
    let root = NamingContext::unchecked(orb.resolve(&outside).expect("a reference"));
    wait_until("the factory to be bound", || root.resolve_text("NotifyEventChannelFactory").is_ok());
    for orb in Orb::ALL {
        reach(orb, &format!("--naming NotifyEventChannelFactory --initref NameService={outside}"));
    }
    names.kill();
    std::fs::remove_dir_all(&folder).expect("it is our folder");
}

#[test]
fn a_reference_from_before_a_restart_leads_to_the_same_factory_after_it() {
    // An address that no other test uses, so that its port is still free the second time.
    let first = service_with(Config { listen: "127.0.0.77:0".into(), ..Config::default() });
    let (reference, listen) = (first.reference().to_owned(), first.address().to_string());
    first.shutdown();
    let second = service_with(Config { listen, ..Config::default() });
    assert_eq!(second.reference(), reference);
    for orb in Orb::ALL {
        reach(orb, &format!("--factory {reference}"));
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
        assert!(
            ended.lines.iter().any(|line| line.starts_with("twice ") && line.contains("OBJECT_NOT_EXIST")),
            "{ended}"
        );
        let url = service.corbaloc("NameService");
        let ended = Peer::start(orb, &format!("call --witness {url} --only twice")).end();
        assert!(ended.lines.iter().any(|line| line.starts_with("twice ") && line.contains("BAD_OPERATION")), "{ended}");
    }
}

//! One name is one channel: at a start with what an earlier release has left, and when the configuration is read again.

use std::collections::BTreeMap;

use client::naming::{NameComponent, NamingContext};
use client::notify::EventChannel;
use client::{Orb, OrbOptions};
use service::{Answer, Command, Config, DeclaredChannel, DeclaredValue, Service};

use crate::logged;
use crate::persistent::{Folder, channel, factory};

fn declared(name: &str, properties: BTreeMap<String, DeclaredValue>) -> DeclaredChannel {
    DeclaredChannel { name: name.into(), properties, lane: Vec::new(), timers: Vec::new() }
}

fn naming(service: &Service) -> NamingContext {
    let orb = Orb::new(OrbOptions::default());
    NamingContext::unchecked(orb.resolve_at(&service.address().to_string(), "NameService").unwrap())
}

/// The admin that a channel has from the start, by which two references to it are the same.
fn admin(channel: &EventChannel) -> Vec<u8> {
    channel.default_consumer_admin().unwrap().object().ior().iiop().unwrap().key.clone()
}

fn of_events(name: &str) -> [NameComponent; 1] {
    [NameComponent { id: format!("{name}@DEFAULTDOMAIN"), kind: "channels".into() }]
}

fn found(service: &Service, name: &[NameComponent]) -> Vec<u8> {
    admin(&EventChannel::unchecked(naming(service).resolve(name).unwrap()))
}

/// Declared channels had no name but that in the naming service's root, so that a program could make a second one of the name.
#[test]
fn a_start_with_two_channels_of_a_declared_name_says_once_which_has_it_and_what_to_do() {
    logged::begin();
    let folder = Folder::new("two-of-a-name");
    let (config, name) = (folder.config(), "Two-127.0.9.77");
    let service = folder.start(&config, None);
    let (first, _) = factory(&service).create_channel(&[], &[]).unwrap();
    naming(&service).bind(&[NameComponent::new(name)], first.object()).unwrap();
    let (second, _) = factory(&service).create_named_channel(&[], &[], name).unwrap();
    naming(&service).bind(&of_events(name), second.object()).unwrap();
    let (first, second) = (admin(&first), admin(&second));
    let config = Config { channels: vec![declared(name, BTreeMap::new())], ..config };
    let mut service = service;
    for starts in 1..=2 {
        service = folder.start(&config, Some(service));
        for way in [&[NameComponent::new(name)], &of_events(name)] {
            assert_eq!(found(&service, way), first);
        }
        assert_eq!(admin(&channel(&service, 2)), second, "it stays");
        let lines = logged::lines(&[name, "alone"]);
        assert_eq!(lines.len(), starts, "{lines:?}");
        let line = lines.last().unwrap();
        for part in ["is channel 1's alone", "it led to channel 2 as well", "`campanile channel rm 2`"] {
            assert!(line.contains(part), "{line}");
        }
    }
    channel(&service, 2).destroy().unwrap();
    let service = folder.start(&config, Some(service));
    assert_eq!(found(&service, &of_events(name)), first);
    assert_eq!(logged::lines(&[name, "alone"]).len(), 2, "nothing is to be said any more");
}

#[test]
fn a_name_that_is_declared_while_the_service_runs_is_the_channel_that_has_it() {
    let service = crate::peers::start();
    let (made, id) = factory(&service).create_named_channel(&[], &[], "Weather").unwrap();
    let properties = BTreeMap::from([("MaxConsumers".to_owned(), DeclaredValue::Number(3))]);
    let declare = |name: &str| service.command(Command::DeclareChannel(declared(name, properties.clone())));
    assert!(matches!(declare("Weather"), Ok(Answer::Applied(Ok(())))));
    assert_eq!(found(&service, &[NameComponent::new("Weather")]), admin(&made));
    let limits = made.get_admin().unwrap();
    assert!(limits.iter().any(|property| property.name == "MaxConsumers"), "{limits:?}");
    // And one that is declared so is refused to all that come later.
    assert!(matches!(declare("Office"), Ok(Answer::Applied(Ok(())))));
    let refused = factory(&service).create_named_channel(&[], &[], "Office").unwrap_err();
    assert!(refused.is("NameAlreadyUsed"), "{refused}");
    assert_eq!(factory(&service).get_all_channels().unwrap(), [0, id, id + 1]);
    // It is gone: its name is free.
    EventChannel::unchecked(naming(&service).resolve(&of_events("Office")).unwrap()).destroy().unwrap();
    let (anew, _) = factory(&service).create_named_channel(&[], &[], "Office").unwrap();
    assert_eq!(found(&service, &[NameComponent::new("Office")]), admin(&anew));
}

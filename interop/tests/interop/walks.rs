//! Every operation of the interfaces, good and bad, as both orbs see it.

use interop::{Orb, Peer, at, service, service_with};
use service::{Compatibility, Config};

/// The lines are the same whoever asks, and they are the ones written down beside this file.
#[track_caller]
fn compare(orb: Orb, found: &[String], expected: &str) {
    let expected: Vec<&str> = expected.lines().filter(|line| !line.starts_with('#')).collect();
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected, "as {orb:?} sees it");
    }
    assert_eq!(found.len(), expected.len(), "as {orb:?} sees it");
}

#[test]
fn factory_channel_admins_and_proxies_answer_as_written_down() {
    for orb in Orb::ALL {
        let service = service();
        let mut ended = Peer::start(orb, &format!("walk {}", at(&service))).end().well();
        // Being told arrives when it arrives, beside the answers.
        ended.lines.retain(|line| !line.starts_with("told: "));
        compare(orb, &ended.lines, include_str!("walk.expected"));
    }
}

/// As TAO does it.
#[test]
fn an_unknown_property_is_given_back_where_it_is_taken() {
    let compatibility = Compatibility { ignore_unknown_properties: true, ..Compatibility::default() };
    for orb in Orb::ALL {
        let service = service_with(Config { compatibility: compatibility.clone(), ..Config::default() });
        let ended = Peer::start(orb, &format!("walk {}", at(&service))).end().well();
        let said = |what: &str| ended.lines.iter().find_map(|line| line.strip_prefix(what)).unwrap_or_default();
        assert_eq!(said("channel set_qos unknown: "), "ok", "as {orb:?} sees it");
        let told = said("channel get_qos after: ");
        assert!(told.split(' ').any(|property| property == "TheirOwn=long:7"), "as {orb:?} sees it: {told}");
        assert!(!said("channel get_qos: ").contains("TheirOwn"));
    }
}

#[test]
fn the_naming_service_answers_as_written_down() {
    for orb in Orb::ALL {
        let service = service();
        let words = format!(
            "naming --initref NameService={} --resolve NotifyEventChannelFactory --resolve NotificationService",
            service.corbaloc("NameService")
        );
        let ended = Peer::start(orb, &words).end().well();
        compare(orb, &ended.lines, include_str!("naming.expected"));
    }
}

#[test]
fn the_scheduling_analysis_answers_as_written_down() {
    let service = service();
    let words = format!("plan --object {}", service.corbaloc("SchedulingService"));
    let ended = Peer::start(Orb::OmniOrb, &words).end().well();
    compare(Orb::OmniOrb, &ended.lines, include_str!("plan.expected"));
}

/// The tours of filters and proxies are omniORB's alone: what JacORB maps differently is in the other tests.
#[track_caller]
fn tour(command: &str, expected: &str) {
    let service = service();
    let mut ended = Peer::start(Orb::OmniOrb, &format!("{command} {} --channel new", at(&service))).end().well();
    ended.lines.retain(|line| !line.starts_with("told: "));
    compare(Orb::OmniOrb, &ended.lines, expected);
}

#[test]
fn filters_answer_as_written_down() {
    tour("filters", include_str!("filters.expected"));
}

#[test]
fn all_twelve_proxies_answer_as_written_down() {
    tour("proxies", include_str!("proxies.expected"));
}

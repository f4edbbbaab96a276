//! Names of channels of linked services: clients are led to them, and what is this service's own always wins.

use super::dialogue::{Dialogue, Expect, STYLES, somebody};
use crate::exceptions::Exception;
use crate::keys::ObjectKey;
use crate::references::References;
use crate::{AdvertisedName, Effect, FarName, FarNames, LocalChannel, LocalProxy, NAMES_MAX, Part, RegisterError};
use access::{RuleText, Rules};
use accounts::{Account, Accounts, Ceilings, Resource};
use engine::{ChannelId, Peer, Time};
use giop::cdr::{CharSet, Encoding, Endian, Reader, Writer};
use giop::ior::Ior;
use std::sync::Arc;
use std::time::Duration;

const SUMMIT: u64 = 2;
const TOWN: u64 = 3;

const fn peer(number: u64) -> Peer {
    Peer(LocalProxy::FIRST_PEER.0 + number)
}

fn begin() -> Dialogue {
    Dialogue::new(STYLES[5])
}

/// A channel at a host.
fn at(host: &str) -> Ior {
    let key = ObjectKey::Channel { channel: ChannelId(5), nonce: 1 << 100 };
    References::new(host, 2809, CharSet::Latin1).ior("IDL:omg.org/CosNotifyChannelAdmin/EventChannel:1.0", &key)
}

fn far(service: u64, distance: u8, reference: &str, account: &Arc<Account>) -> Arc<FarName> {
    let charge = account.charge(Resource::RetainedBytes, 1_000).unwrap();
    Arc::new(FarName { distance, service, reference: reference.into(), charge })
}

/// A far side tells these names: name, service, distance, host.
fn tell(d: &mut Dialogue, from: (u64, u64), names: &[(&str, u64, u8, &str)]) {
    let names: Vec<_> = names.iter().map(|(name, of, far, host)| (*name, *of, *far, at(host).to_string())).collect();
    tell_text(d, from, &names);
}

fn tell_text(d: &mut Dialogue, (link, service): (u64, u64), names: &[(&str, u64, u8, String)]) {
    let names = names.iter().map(|(name, of, distance, text)| ((*name).into(), far(*of, *distance, text, somebody())));
    let names = FarNames { service, link: "link \"summit\"".to_owned(), is_here: false, names: names.collect() };
    d.protocol.set_far_names(peer(link), names, somebody());
    pass(d, 1);
}

/// Seconds pass.
fn pass(d: &mut Dialogue, seconds: u64) {
    let now = d.protocol.objects.clock.time + Duration::from_secs(seconds);
    d.protocol.handle_time(now);
    d.protocol.publish();
}

fn resolve(d: &mut Dialogue, id: &str, kind: &str) -> Result<Ior, String> {
    let root = d.bootstrap("NameService");
    let resolved = d.call(&root, "resolve", |w| {
        w.u32(1);
        w.string(id);
        w.string(kind);
    });
    resolved.map(|body| body.read(|r| Ior::read(r).unwrap())).map_err(|thrown| thrown.name().to_owned())
}

/// The identifiers in a listing of the root, `page` at a time, but for those that each service has.
fn listed(d: &mut Dialogue, page: u32) -> Vec<String> {
    let read = |r: &mut Reader<'_>| {
        let entry = |r: &mut Reader<'_>| {
            assert_eq!(r.u32().unwrap(), 1);
            let (id, _kind) = (r.text().unwrap(), r.text().unwrap());
            assert_eq!(r.u32().unwrap(), 0, "an object");
            id
        };
        (0..r.u32().unwrap()).map(|_| entry(r)).collect::<Vec<_>>()
    };
    let root = d.bootstrap("NameService");
    let body = d.quick(&root, "list", |w| w.u32(page)).unwrap();
    let (mut names, iterator) = body.read(|r| (read(r), Ior::read(r).unwrap()));
    while !iterator.is_nil() {
        let (has_more, more) =
            d.quick(&iterator, "next_n", |w| w.u32(page)).unwrap().read(|r| (r.bool().unwrap(), read(r)));
        names.extend(more);
        if !has_more {
            break;
        }
    }
    names.retain(|name| !name.ends_with("Service") && !name.ends_with("Factory") && !name.ends_with("EventChannel"));
    names
}

fn create_named(d: &mut Dialogue, name: &str) -> Result<Ior, String> {
    let factory = d.bootstrap("NotifyEventChannelFactory");
    let made = d.quick(&factory, "create_named_channel", |w| {
        w.u32(0);
        w.u32(0);
        w.string(name);
    });
    made.map(|body| Ior::read(&mut body.reader()).unwrap()).map_err(|thrown| thrown.name().to_owned())
}

#[test]
fn a_name_of_a_linked_service_is_resolved_and_listed_and_cannot_be_changed() {
    for style in STYLES {
        let mut d = Dialogue::new(style);
        assert_eq!(resolve(&mut d, "Weather", ""), Err("NotFound".to_owned()));
        tell(&mut d, (1, SUMMIT), &[("Weather", SUMMIT, 0, "summit.obs"), ("Alarms", SUMMIT, 0, "summit.obs")]);
        for (id, kind) in [("Weather", ""), ("Weather", "channels"), ("Weather@DOMAIN", "channels")] {
            assert_eq!(resolve(&mut d, id, kind), Ok(at("summit.obs")));
        }
        assert_eq!(resolve(&mut d, "Weather", "other"), Err("NotFound".to_owned()));
        for page in [1, 2, 3, 100] {
            assert_eq!(listed(&mut d, page), ["Alarms", "Weather"]);
        }
        let root = d.bootstrap("NameService");
        let name = |w: &mut Writer<'_>| {
            w.u32(1);
            w.string("Weather");
            w.string("");
        };
        d.call(&root, "unbind", name).map(drop).raises("NotFound");
        // What a client binds here is this service's own from then on.
        let own = at("client.obs");
        let bound = d.quick(&root, "bind", |w| {
            name(w);
            own.write(w);
        });
        bound.unwrap();
        assert_eq!(resolve(&mut d, "Weather", ""), Ok(own));
        assert_eq!(listed(&mut d, 1), ["Alarms", "Weather"]);
        d.quick(&root, "unbind", name).unwrap();
        assert_eq!(resolve(&mut d, "Weather", ""), Ok(at("summit.obs")));
    }
}

#[test]
fn a_channel_of_this_service_wins_and_a_client_of_alma_is_led_to_the_other_instead_of_making_a_second() {
    let mut d = begin();
    let own = create_named(&mut d, "Weather").unwrap();
    tell(&mut d, (1, SUMMIT), &[("Weather", SUMMIT, 0, "summit.obs"), ("Alarms", SUMMIT, 0, "summit.obs")]);
    assert_eq!(resolve(&mut d, "Weather@DOMAIN", "channels"), Ok(own));
    // By the name alone it was not found before, and is no other service's now.
    assert_eq!(resolve(&mut d, "Weather", ""), Err("NotFound".to_owned()));
    assert_eq!(listed(&mut d, 100), ["Alarms"]);
    // ALMA's clients resolve, create what they do not find, and resolve again where the name is used by then.
    assert_eq!(create_named(&mut d, "Alarms"), Err("NameAlreadyUsed".to_owned()));
    assert_eq!(resolve(&mut d, "Alarms@DOMAIN", "channels"), Ok(at("summit.obs")));
    // What an operator declares is this service's.
    d.protocol.declare_channel("Alarms", &[]).unwrap();
    assert_ne!(resolve(&mut d, "Alarms", ""), Ok(at("summit.obs")));
}

#[test]
fn a_request_for_a_name_as_object_key_is_forwarded_and_located() {
    let mut d = begin();
    create_named(&mut d, "Weather").unwrap();
    tell(&mut d, (1, SUMMIT), &[("Weather", SUMMIT, 0, "summit.obs"), ("Alarms", SUMMIT, 0, "summit.obs")]);
    let handle = |d: &mut Dialogue, key: &[u8]| {
        let (mut bytes, encoding) = (Vec::new(), Encoding::new(Endian::Little));
        let args = Reader::new(&[], encoding);
        let call = crate::ObjectRequest { key, operation: "get_qos", args, principal: somebody() };
        d.protocol.handle(&call, &mut Writer::new(&mut bytes, encoding))
    };
    assert_eq!(handle(&mut d, b"Alarms"), Err(Exception::Forward(Box::new(at("summit.obs")))));
    assert_eq!(handle(&mut d, b"Weather"), Ok(()));
    assert!(matches!(handle(&mut d, b"Alarm"), Err(Exception::System(_))));
    assert_eq!(d.protocol.locate_elsewhere(b"Alarms", somebody()), Some(at("summit.obs")));
    assert_eq!(d.protocol.locate_elsewhere(b"Weather", somebody()), None);
}

#[test]
fn a_client_of_another_protocol_is_told_where_the_channel_is_and_makes_its_own_if_it_says_so() {
    let mut d = begin();
    tell(&mut d, (1, SUMMIT), &[("Weather", SUMMIT, 0, "summit.obs")]);
    let mut supply = |create| {
        let channel = LocalChannel::Name { name: "Weather".to_owned(), create };
        let part = LocalProxy { channel, peer: peer(9), name: "json".to_owned(), part: Part::Supplier, about: None };
        d.protocol.register_local_proxy(part, somebody())
    };
    let refused = supply(false).unwrap_err();
    assert_eq!(refused, RegisterError::Elsewhere("Weather".to_owned(), "summit.obs:2809".to_owned()));
    assert_eq!(refused.to_string(), "channel \"Weather\" is at summit.obs:2809");
    supply(true).unwrap();
}

#[test]
fn of_two_services_with_one_name_the_nearest_is_led_to_then_the_lower() {
    let mut d = begin();
    tell(&mut d, (1, SUMMIT), &[("Weather", TOWN, 1, "town.obs"), ("Alarms", SUMMIT, 0, "summit.obs")]);
    tell(&mut d, (2, TOWN), &[("Weather", TOWN, 0, "direct.obs"), ("Alarms", TOWN, 0, "town.obs")]);
    assert_eq!(resolve(&mut d, "Weather", ""), Ok(at("direct.obs")));
    assert_eq!(resolve(&mut d, "Alarms", ""), Ok(at("summit.obs")));
    d.protocol.end_names(peer(2), Duration::ZERO);
    pass(&mut d, 1);
    assert_eq!(resolve(&mut d, "Weather", ""), Ok(at("town.obs")));
}

#[test]
fn names_are_forgotten_a_while_after_the_link_is_gone_unless_it_comes_again() {
    let mut d = begin();
    let names = [("Weather", SUMMIT, 0, "summit.obs")];
    tell(&mut d, (1, SUMMIT), &names);
    d.protocol.end_names(peer(1), Duration::from_secs(60));
    assert_eq!(d.protocol.poll_timeout(), Some(d.protocol.objects.clock.time + Duration::from_secs(60)));
    pass(&mut d, 59);
    assert_eq!(resolve(&mut d, "Weather", ""), Ok(at("summit.obs")));
    // Another connection of it, and then this one is gone as well.
    tell(&mut d, (2, SUMMIT), &names);
    pass(&mut d, 59);
    assert_eq!((resolve(&mut d, "Weather", ""), d.protocol.poll_timeout()), (Ok(at("summit.obs")), None));
    d.protocol.end_names(peer(2), Duration::from_secs(60));
    pass(&mut d, 60);
    assert_eq!(resolve(&mut d, "Weather", ""), Err("NotFound".to_owned()));
    assert_eq!((d.protocol.federation.names_count(), d.protocol.poll_timeout()), (0, None));
}

#[test]
fn what_a_hostile_peer_tells_is_rejected_counted_and_changes_nothing() {
    let mut d = begin();
    let good = at("summit.obs").to_string();
    let here = References::new("192.0.2.7", 2809, CharSet::Latin1).ior("", &ObjectKey::DEFAULT_CHANNEL).to_string();
    let [nowhere, loopback, named, any, odd] =
        ["", "127.0.0.1", "LOCALHOST", "0.0.0.0", "a b\n"].map(|host| at(host).to_string());
    let names = [
        ("Wea\nther", SUMMIT, 0, good.clone()),
        ("\u{202E}", SUMMIT, 0, good.clone()),
        ("cut", SUMMIT, 0, good[..good.len() - 10].to_owned()),
        ("nil", SUMMIT, 0, Ior::nil().to_string()),
        ("no reference", SUMMIT, 0, "x".repeat(2_048)),
        ("here", SUMMIT, 0, here),
        ("nowhere", SUMMIT, 0, nowhere),
        ("loopback", SUMMIT, 0, loopback.clone()),
        ("localhost", SUMMIT, 0, named),
        ("any", SUMMIT, 0, any),
        ("odd", SUMMIT, 0, odd),
        ("good", SUMMIT, 0, good),
    ];
    tell_text(&mut d, (1, SUMMIT), &names);
    assert_eq!((d.protocol.federation.take_rejected(), d.protocol.federation.names_count()), (11, 1));
    assert_eq!(listed(&mut d, 100), ["good"]);
    // Too far away is no offence, and of no use.
    tell(&mut d, (1, SUMMIT), &[("far", TOWN, 7, "town.obs"), ("near", TOWN, 6, "town.obs")]);
    assert_eq!((d.protocol.federation.take_rejected(), listed(&mut d, 100)), (0, vec!["near".to_owned()]));
    // On one machine the loopback address is the same for both.
    let names = vec![("loopback".into(), far(SUMMIT, 0, &loopback, somebody()))];
    let names = FarNames { service: SUMMIT, link: String::new(), is_here: true, names };
    d.protocol.set_far_names(peer(1), names, somebody());
    pass(&mut d, 1);
    assert_eq!(resolve(&mut d, "loopback", ""), Ok(at("127.0.0.1")));
}

/// A name in a report, its distance and its service.
type Reported = (String, u8, Option<u64>);

/// The names in the reports since the last.
fn reported(d: &mut Dialogue) -> Vec<(Peer, Vec<Reported>)> {
    d.protocol.publish();
    let names = |names: Vec<AdvertisedName>| {
        names.iter().map(|told| (told.name.to_string(), told.distance, told.service)).collect()
    };
    let effects = core::iter::from_fn(|| d.protocol.poll_effect());
    effects
        .filter_map(|effect| match effect {
            Effect::Names(peer, told) => Some((peer, names(told))),
            _ => None,
        })
        .collect()
}

fn own(name: &str) -> Reported {
    (name.to_owned(), 0, None)
}

#[test]
fn a_far_side_is_told_all_names_but_those_that_came_from_it_at_most_once_in_a_second() {
    let mut d = begin();
    create_named(&mut d, "Weather").unwrap();
    d.protocol.watch_names(peer(1), SUMMIT, somebody());
    assert_eq!(reported(&mut d), [(peer(1), vec![own("Weather")])]);
    create_named(&mut d, "Office").unwrap();
    assert_eq!((reported(&mut d), d.protocol.poll_timeout()), (vec![], Some(Time(1_000_000_000))));
    d.protocol.handle_time(Time(1_000_000_000));
    assert_eq!(reported(&mut d), [(peer(1), vec![own("Office"), own("Weather")])]);
    assert_eq!((reported(&mut d), d.protocol.poll_timeout()), (vec![], None));
    tell(&mut d, (1, SUMMIT), &[("Alarms", SUMMIT, 0, "summit.obs")]);
    tell(
        &mut d,
        (2, TOWN),
        &[("Dome", TOWN, 0, "town.obs"), ("Back", SUMMIT, 1, "s.obs"), ("Weather", TOWN, 0, "t.obs")],
    );
    pass(&mut d, 1);
    let dome = ("Dome".to_owned(), 1, Some(TOWN));
    assert_eq!(reported(&mut d), [(peer(1), vec![own("Office"), own("Weather"), dome.clone()])]);
    d.protocol.watch_names(peer(2), TOWN, somebody());
    let [alarms, back] = [("Alarms", 1), ("Back", 2)].map(|(name, far)| (name.to_owned(), far, Some(SUMMIT)));
    let told = reported(&mut d);
    // What came from the town is not told to it again, whichever service has it.
    assert_eq!(told, [(peer(2), vec![own("Office"), own("Weather"), alarms])]);
    assert!(!told[0].1.contains(&back));
}

#[test]
fn rules_of_access_say_which_names_a_far_side_is_told_and_which_are_taken_from_it() {
    let mut d = begin();
    for name in ["Weather", "Office"] {
        create_named(&mut d, name).unwrap();
    }
    let accounts = Accounts::new(Ceilings::new(100));
    let rule = |may: &str, on: &str, who: &str| RuleText {
        who: vec![who.into()],
        may: vec![may.into()],
        on: vec![on.into()],
        allow: true,
        ..RuleText::default()
    };
    let rules = [
        rule("subscribe", "Weather", "10.0.0.1"),
        rule("publish", "Alarms", "10.0.0.1"),
        rule("subscribe", "Alarms", "10.0.0.2"),
    ];
    let rules = Rules::parse(&rules).unwrap().unwrap();
    d.protocol.guard.set_access(&mut d.protocol.objects, Some(rules), &accounts);
    let [summit, client, stranger] = [1, 2, 3].map(|last| accounts.account_of([10, 0, 0, last].into()));
    d.protocol.watch_names(peer(1), SUMMIT, &summit);
    assert_eq!(reported(&mut d), [(peer(1), vec![own("Weather")])]);
    let names = ["Alarms", "Bank"].map(|name| (name.into(), far(SUMMIT, 0, &at("summit.obs").to_string(), &summit)));
    let names = FarNames { service: SUMMIT, link: String::new(), is_here: false, names: names.to_vec() };
    d.protocol.set_far_names(peer(1), names, &summit);
    pass(&mut d, 1);
    assert_eq!((d.protocol.federation.take_rejected(), d.protocol.federation.names_count()), (1, 1));
    pass(&mut d, 1);
    assert_eq!(d.protocol.federation.take_rejected(), 0, "once");
    assert_eq!(d.protocol.locate_elsewhere(b"Alarms", &client), Some(at("summit.obs")));
    assert_eq!(d.protocol.locate_elsewhere(b"Alarms", &stranger), None);
    // Rules that are read again count for what was told before.
    d.protocol.guard.set_access(&mut d.protocol.objects, None, &accounts);
    pass(&mut d, 1);
    assert_eq!(d.protocol.federation.names_count(), 2);
}

#[test]
fn of_more_names_than_a_link_has_the_own_are_told_and_of_more_links_than_are_told_the_last_is_not() {
    let mut d = begin();
    create_named(&mut d, "zzz").unwrap();
    let names: Vec<String> = (0..NAMES_MAX).map(|number| number.to_string()).collect();
    let text = at("summit.obs").to_string();
    let names = names.iter().map(|name| (name.as_str().into(), far(SUMMIT, 0, &text, somebody()))).collect();
    let names = FarNames { service: SUMMIT, link: String::new(), is_here: false, names };
    d.protocol.set_far_names(peer(1), names, somebody());
    d.protocol.watch_names(peer(2), TOWN, somebody());
    let reports = reported(&mut d);
    assert_eq!((reports[0].1.len(), &reports[0].1[0]), (NAMES_MAX, &own("zzz")));
    for number in 3..258 {
        d.protocol.watch_names(peer(number), number, somebody());
    }
    assert_eq!(d.protocol.federation.take_rejected(), 0);
    d.protocol.watch_names(peer(258), 258, somebody());
    assert_eq!(d.protocol.federation.take_rejected(), 1);
}

#[test]
fn all_links_together_have_a_bounded_number_of_names_and_links_that_are_gone_give_way() {
    const LINKS: u64 = 16;
    let mut d = begin();
    let text = at("summit.obs").to_string();
    let tell = |d: &mut Dialogue, link: u64| {
        let name = |number: usize| (format!("{link}-{number}").as_str().into(), far(link, 0, &text, somebody()));
        let names = (0..NAMES_MAX).map(name).collect();
        let names = FarNames { service: link, link: String::new(), is_here: false, names };
        d.protocol.set_far_names(peer(link), names, somebody());
    };
    (1..=LINKS).for_each(|link| tell(&mut d, link));
    pass(&mut d, 1);
    let all = d.protocol.federation.names_count();
    assert_eq!((d.protocol.federation.take_rejected(), all), (0, 16 * NAMES_MAX));
    tell(&mut d, LINKS + 1);
    assert_eq!(d.protocol.federation.take_rejected(), NAMES_MAX as u64);
    d.protocol.end_names(peer(3), Duration::from_secs(60));
    tell(&mut d, LINKS + 1);
    pass(&mut d, 1);
    assert_eq!((d.protocol.federation.take_rejected(), d.protocol.federation.names_count()), (0, all));
    assert_eq!(resolve(&mut d, "3-0", ""), Err("NotFound".to_owned()));
    assert_eq!(resolve(&mut d, &format!("{}-0", LINKS + 1), ""), Ok(at("summit.obs")));
}

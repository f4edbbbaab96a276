use std::net::UdpSocket;

use super::*;

const FROM: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 2_818);
const SECOND: u64 = 1_000_000_000;

fn settings(name: &str, key: Option<&[u8]>) -> Settings {
    Settings {
        name: name.to_owned(),
        service_name: "summit".to_owned(),
        group: FROM,
        socket: Datagrams::new(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap(),
        host: "10.0.0.7".to_owned(),
        ports: [2_816, 0],
        key: key.map(Key::new),
        tls: false,
        channels: vec!["Weather".to_owned(), "Site".to_owned()],
    }
}

fn discovery(own: u64, key: &[u8]) -> Discovery {
    Discovery::new(Arc::new(settings("observatory", Some(key))), (own, own + 100))
}

/// The datagrams of a service, at a second since 1970 and since the start.
fn announced(by: &mut Discovery, second: u64) -> Vec<Vec<u8>> {
    by.announcements((Time(second * SECOND), Duration::from_secs(second)))
}

const KEY: &[u8] = &[7; 32];

#[test]
fn the_service_with_the_lower_identity_links_the_channels_that_both_have() {
    let [mut low, mut high] = [discovery(1, KEY), discovery(2, KEY)];
    high.set_channels(&["Site".to_owned(), "Dome".to_owned()], Time(0));
    let (of_low, of_high) = (announced(&mut low, 1), announced(&mut high, 1));
    assert_eq!(low.hear(FROM, &of_high[0], Time(0)), Ok(Some(2)));
    assert_eq!(high.hear(FROM, &of_low[0], Time(0)), Ok(Some(1)));
    let (entry, is_cut) = low.link_for(2).unwrap();
    assert_eq!((&*entry.name, &*entry.to), ("observatory: 0000000000000002", "10.0.0.7:2816"));
    assert_eq!((entry.channels, is_cut), (vec!["Site".to_owned()], false));
    assert!(high.link_for(1).is_none(), "one link for a pair");
    // Its own announcement comes back to it.
    assert_eq!(low.hear(FROM, &of_low[0], Time(0)), Ok(None));
    high.set_channels(&["Dome".to_owned()], Time(0));
    assert_eq!(low.hear(FROM, &announced(&mut high, 2)[0], Time(0)), Ok(Some(2)));
    assert!(low.link_for(2).is_none(), "no channel is common");
}

#[test]
fn what_is_replayed_forged_foreign_or_a_copy_is_rejected_and_leads_to_no_link() {
    let [mut near, mut far] = [discovery(1, KEY), discovery(2, KEY)];
    let (first, second) = (announced(&mut far, 1), announced(&mut far, 2));
    assert_eq!(near.hear(FROM, &second[0], Time(0)), Ok(Some(2)));
    for replayed in [&first[0], &second[0]] {
        assert_eq!(near.hear(FROM, replayed, Time(0)), Err(Rejection::Replay));
    }
    let with_other_key = announced(&mut discovery(3, &[8; 32]), 1);
    assert_eq!(near.hear(FROM, &with_other_key[0], Time(0)), Err(Rejection::Code));
    let mut forged = announced(&mut discovery(4, KEY), 1).remove(0);
    forged[36] ^= 1;
    assert_eq!(near.hear(FROM, &forged, Time(0)), Err(Rejection::Code), "another port");
    let mut other = Discovery::new(Arc::new(settings("telescope", Some(KEY))), (5, 5));
    assert_eq!(near.hear(FROM, &announced(&mut other, 1)[0], Time(0)), Err(Rejection::Foreign));
    let mut open = Discovery::new(Arc::new(settings("observatory", None)), (6, 6));
    assert!(near.hear(FROM, &announced(&mut open, 1)[0], Time(0)).is_err(), "it has no code");
    let mut twin = Discovery::new(Arc::new(settings("observatory", Some(KEY))), (1, 9));
    assert_eq!(near.hear(FROM, &announced(&mut twin, 9)[0], Time(0)), Err(Rejection::Twin));
    for length in 0..second[0].len() {
        assert!(near.hear(FROM, &second[0][..length], Time(SECOND * length as u64)).is_err());
    }
    assert_eq!(near.found.keys().collect::<Vec<_>>(), [&2]);
    // A service that begins anew is known by its clock.
    let mut again = Discovery::new(Arc::new(settings("observatory", Some(KEY))), (2, 555));
    assert_eq!(near.hear(FROM, &announced(&mut again, 3)[0], Time(0)), Ok(Some(2)));
}

#[test]
fn services_channels_and_datagrams_are_bounded() {
    let mut near = discovery(1, KEY);
    for service in 2..2 + FOUND_MAX as u64 {
        assert_eq!(near.hear(FROM, &announced(&mut discovery(service, KEY), 1)[0], Time(0)), Ok(Some(service)));
    }
    let beyond = announced(&mut discovery(1_000, KEY), 1);
    assert_eq!(near.hear(FROM, &beyond[0], Time(0)), Err(Rejection::Services));
    let flood = (0..DATAGRAMS_MAX).map(|_| near.hear(FROM, b"?", Time(5 * SECOND))).collect::<BTreeSet<_>>();
    assert_eq!(flood.into_iter().collect::<Vec<_>>(), [Err(Rejection::Unreadable)]);
    assert_eq!(near.hear(FROM, b"?", Time(5 * SECOND)), Err(Rejection::Rate));
    assert_eq!(near.hear(FROM, b"?", Time(6 * SECOND)), Err(Rejection::Unreadable));
    // A rejection is logged once an episode.
    assert!(near.begins(Rejection::Rate, Time(0)) && !near.begins(Rejection::Rate, Time(59 * SECOND)));
    assert!(!near.begins(Rejection::Rate, Time(118 * SECOND)) && near.begins(Rejection::Rate, Time(178 * SECOND)));
}

#[test]
fn as_many_channels_as_a_service_may_have_are_heard_of_in_parts_and_a_link_has_its_bound() {
    let [mut near, mut far] = [discovery(1, KEY), discovery(2, KEY)];
    let names: Vec<String> = (0..2_000).map(|number| format!("{number:0>200}")).collect();
    near.set_channels(&names, Time(0));
    far.set_channels(&names, Time(0));
    for datagram in announced(&mut far, 1) {
        assert_eq!(near.hear(FROM, &datagram, Time(0)), Ok(Some(2)));
    }
    assert_eq!(near.found[&2].parts.iter().flatten().flatten().count(), CHANNELS_MAX);
    let (entry, is_cut) = near.link_for(2).unwrap();
    assert_eq!((entry.channels.len(), is_cut), (LINKED_MAX, true));
    // One that says more than it may.
    let datagrams = [0, 1].map(|part| {
        let head = Announcement { part, parts: 2, counter: 1 + u64::from(part), service: 3, ..head("observatory") };
        let names = if part == 0 { &names[..1_024] } else { &names[1_024..1_025] };
        let mut octets = Vec::new();
        head.write(&names.iter().map(String::as_str).collect::<Vec<_>>(), &mut octets);
        let code = Key::new(KEY).code(&octets);
        octets.extend(code);
        octets
    });
    assert_eq!(near.hear(FROM, &datagrams[0], Time(0)), Ok(Some(3)));
    assert_eq!(near.hear(FROM, &datagrams[1], Time(0)), Err(Rejection::Channels));
}

fn head(federation: &str) -> Announcement<'_> {
    Announcement {
        service: 1,
        incarnation: 1,
        counter: 1,
        part: 0,
        parts: 1,
        revision: 1,
        port: 2_816,
        tls_port: 0,
        federation,
        name: "",
        host: "",
        channels: Channels::default(),
    }
}

/// One such datagram, with the highest counter, once kept the service away until this process ended.
#[test]
fn what_anybody_may_have_made_keeps_no_service_away() {
    let of = |own| Discovery::new(Arc::new(settings("observatory", None)), (own, own + 100));
    let [mut near, mut far] = [of(1), of(2)];
    let mut forged = Vec::new();
    Announcement { service: 2, counter: u64::MAX, ..head("observatory") }.write(&[], &mut forged);
    assert_eq!(near.hear(FROM, &forged, Time(0)), Ok(Some(2)));
    assert_eq!(near.hear(FROM, &announced(&mut far, 1)[0], Time(0)), Ok(Some(2)));
    assert!(near.link_for(2).is_some());
    let mut escaped = Vec::new();
    Announcement { service: 2, host: "a\nERROR b", ..head("observatory") }.write(&[], &mut escaped);
    assert_eq!(near.hear(FROM, &escaped, Time(0)), Err(Rejection::Unreadable));
}

#[test]
fn news_are_announced_soon_but_not_at_any_rate() {
    let mut near = discovery(1, KEY);
    announced(&mut near, 10);
    let usual = near.next;
    assert!(
        usual >= Time(10 * SECOND) + ANNOUNCED_EVERY * 9 / 10 && usual <= Time(10 * SECOND) + ANNOUNCED_EVERY * 11 / 10
    );
    near.set_channels(&["Dome".to_owned()], Time(10 * SECOND));
    assert_eq!(near.next, Time(10 * SECOND) + ANNOUNCED_AGAIN);
}

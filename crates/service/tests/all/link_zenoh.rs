//! Links through Zenoh.

use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use service::{Answer, Carrier, Command, Config, Counter, LinkEntry, LinkState, LinkZenoh, Links, Service, Tls};
use testing::certificates::{Authority, CertificateSpec};

use crate::access::{ALL, rule};
use crate::json::Lines;
use crate::links::{PERSISTENT, Places, await_flows, await_subscribed, flows, numbers, publish, subscribed};
use crate::peers::{await_count, wait_until};
use crate::persistent::Folder;

const WEATHER: &str = "Weather";

/// Two sites: `hub` listens at its own address for Zenoh and takes links, `site` connects there, or through something between, and dials.
struct Sites {
    places: Places,
    /// Where the site connects.
    hub_at: String,
    folders: Option<[Folder; 2]>,
}

impl Sites {
    fn new(stored: Option<&str>) -> Self {
        let places = Places::new(2);
        let hub_at = format!("tcp/{}:7447", places.0[0]);
        let folders = stored.map(|name| [0, 1].map(|of| Folder::new(&format!("{name}-{of}"))));
        Self { places, hub_at, folders }
    }

    fn link(&self) -> LinkEntry {
        let (name, to) = ("lab".to_owned(), "hub".to_owned());
        LinkEntry { name, to, channels: vec![WEATHER.to_owned()], carrier: Carrier::Zenoh, ..LinkEntry::default() }
    }

    fn hub_config(&self) -> Config {
        let listen = vec![format!("tcp/{}:7447", self.places.0[0])];
        let zenoh = LinkZenoh { name: "hub".to_owned(), listen, accept: true, ..LinkZenoh::default() };
        self.config(0, Vec::new(), zenoh)
    }

    fn site_config(&self) -> Config {
        let connect = vec![self.hub_at.clone()];
        let zenoh = LinkZenoh { name: "site".to_owned(), connect, ..LinkZenoh::default() };
        self.config(1, vec![self.link()], zenoh)
    }

    fn config(&self, number: usize, link: Vec<LinkEntry>, zenoh: LinkZenoh) -> Config {
        let config = self.places.config(number, link, self.folders.as_ref().map(|folders| &folders[number]));
        let links = Links { listen: None, zenoh, ..config.links };
        Config { listen: format!("{}:2809", self.places.0[number]), links, ..config }
    }

    fn start(&self) -> [Service; 2] {
        [self.hub_config(), self.site_config()].map(|config| Service::start(config).unwrap())
    }
}

#[test]
fn events_cross_both_ways_in_order_and_once() {
    let sites = Sites::new(None);
    let [hub, site] = sites.start();
    let mut subscribers = [&hub, &site].map(subscribed);
    await_flows(&[&hub, &site], 2);
    for service in [&hub, &site] {
        await_subscribed(service, "everything");
    }
    for (service, first) in [(&hub, 0), (&site, 1_000)] {
        let mut from = Lines::connect(service);
        (first..first + 300).for_each(|number| publish(&mut from, number, ""));
        for lines in &mut subscribers {
            assert_eq!(numbers(lines, 300), (first..first + 300).collect::<Vec<_>>());
        }
    }
    for service in [&hub, &site] {
        assert!(flows(service).iter().all(|flow| flow.carrier == "zenoh"), "{:?}", flows(service));
        await_count(service, Counter::LinkEventsSent, 300);
        await_count(service, Counter::LinkLoops, 300);
    }
}

#[test]
fn persistent_events_cross_exactly_once_whichever_side_begins_again() {
    let sites = Sites::new(Some("links-zenoh"));
    let mut services = sites.start().map(Some);
    let mut sent = 0;
    for round in 0..4 {
        {
            let [Some(hub), Some(site)] = &services else { unreachable!() };
            let mut at_hub = subscribed(hub);
            await_flows(&[hub, site], 2);
            await_subscribed(site, "everything");
            let mut from = Lines::connect(site);
            let before = sent;
            for _ in 0..50 {
                publish(&mut from, sent, PERSISTENT);
                sent += 1;
            }
            assert_eq!(numbers(&mut at_hub, 50), (before..sent).collect::<Vec<_>>());
            // All is acknowledged, and nothing of it is stored any more.
            await_count(site, Counter::EventsStored, 0);
        }
        let which = round % 2;
        drop(services[which].take());
        if which == 0 {
            // It is published while the hub is gone, and waits.
            let Some(site) = &services[1] else { unreachable!() };
            let mut from = Lines::connect(site);
            for _ in 0..50 {
                publish(&mut from, sent, PERSISTENT);
                sent += 1;
            }
            let hub = Service::start(sites.hub_config()).unwrap();
            await_count(&hub, Counter::LinkEventsReceived, 50);
            await_count(site, Counter::EventsStored, 0);
            services[0] = Some(hub);
        } else {
            services[1] = Some(Service::start(sites.site_config()).unwrap());
        }
    }
}

/// Something between a site and its hub that stands still, or cuts the line, when it is told.
struct Relay {
    at: String,
    state: Arc<(Mutex<Line>, Condvar)>,
}

#[derive(Default)]
struct Line {
    stands: bool,
    open: Vec<TcpStream>,
}

impl Relay {
    fn to(far: String) -> Self {
        let listener = TcpListener::bind((testing::own_loopback(), 0)).unwrap();
        let at = format!("tcp/{}", listener.local_addr().unwrap());
        let state: Arc<(Mutex<Line>, Condvar)> = Arc::default();
        let its = Arc::clone(&state);
        // Its threads end with the process: nothing is left to them when the services have gone.
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(&far) else { continue };
                its.0.lock().unwrap().open.extend([near.try_clone().unwrap(), far.try_clone().unwrap()]);
                for (from, to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
                    let its = Arc::clone(&its);
                    thread::spawn(move || carry(&its, from, to));
                }
            }
        });
        Self { at, state }
    }

    /// Nothing goes on from now on, and nothing is read; or all goes on.
    fn stand_still(&self, stands: bool) {
        self.state.0.lock().unwrap().stands = stands;
        self.state.1.notify_all();
    }

    /// Cuts all connections.
    fn cut(&self) {
        for stream in self.state.0.lock().unwrap().open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn carry(state: &(Mutex<Line>, Condvar), mut from: TcpStream, mut to: TcpStream) {
    use std::io::{Read, Write};
    let mut octets = [0; 4_096];
    while let Ok(count @ 1..) = from.read(&mut octets) {
        let line = state.0.lock().unwrap();
        drop(state.1.wait_while(line, |line| line.stands).unwrap());
        if to.write_all(&octets[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// Has a line fail while events are published, and shows that each crosses once, and in order.
fn nothing_is_lost(name: &str, fails: impl Fn(&Relay), is_noticed: impl Fn(&Service) -> bool) {
    let mut sites = Sites::new(Some(name));
    let relay = Relay::to(format!("{}:7447", sites.places.0[0]));
    sites.hub_at.clone_from(&relay.at);
    let [hub, site] = sites.start();
    let mut at_hub = subscribed(&hub);
    await_flows(&[&hub, &site], 2);
    await_subscribed(&site, "everything");
    let mut from = Lines::connect(&site);
    (0..50).for_each(|number| publish(&mut from, number, PERSISTENT));
    fails(&relay);
    // As much as Zenoh, and all between, hold many times over: some is on its way when it fails, and the rest waits.
    let long = "x".repeat(60_000);
    for number in 50..250 {
        let fields = format!(r#""fields":{{"number":{number},"text":"{long}"}}"#);
        let line =
            format!(r#"{{"op":"publish","id":7,"channel":"Weather","type":"Weather/Wind"{PERSISTENT},{fields}}}"#);
        assert_eq!(from.ask(&line), r#"{"ok":7}"#);
    }
    wait_until("the failure to be noticed", || is_noticed(&site));
    relay.stand_still(false);
    assert_eq!(numbers(&mut at_hub, 250), (0..250).collect::<Vec<_>>());
    publish(&mut from, 250, PERSISTENT);
    assert_eq!(numbers(&mut at_hub, 1), [250], "nothing comes twice");
    await_count(&site, Counter::EventsStored, 0);
}

#[test]
fn nothing_persistent_is_lost_where_the_line_stands_still_until_the_link_is_given_up() {
    let is_down = |site: &Service| flows(site).iter().all(|flow| flow.state == LinkState::Down);
    nothing_is_lost("links-zenoh-still", |relay| relay.stand_still(true), is_down);
}

#[test]
fn nothing_persistent_is_lost_where_the_line_is_cut() {
    nothing_is_lost("links-zenoh-cut", Relay::cut, |site| site.counters().read(Counter::LinksLost) > 0);
}

#[test]
fn a_link_that_is_paused_collects_and_goes_on_when_it_is_resumed() {
    let sites = Sites::new(None);
    let [hub, site] = sites.start();
    let mut at_hub = subscribed(&hub);
    await_flows(&[&hub, &site], 2);
    await_subscribed(&site, "everything");
    let order = |paused| match site.command(Command::PauseLink { name: "lab".into(), paused }) {
        Ok(Answer::Done(done)) => done,
        other => panic!("{other:?}"),
    };
    assert_eq!(order(true), Ok(()));
    await_count(&hub, Counter::LinksUp, 0);
    let mut from = Lines::connect(&site);
    (0..20).for_each(|number| publish(&mut from, number, ""));
    assert!(flows(&site).iter().all(|flow| flow.state == LinkState::Paused));
    assert_eq!(order(false), Ok(()));
    assert_eq!(numbers(&mut at_hub, 20), (0..20).collect::<Vec<_>>());
}

#[test]
fn a_far_service_that_is_not_there_or_takes_no_links_is_said_and_there_is_no_own_port_needed() {
    let sites = Sites::new(None);
    let site = Service::start(sites.site_config()).unwrap();
    let says = |said: &str| {
        wait_until(said, || {
            flows(&site).iter().any(|flow| flow.state == LinkState::Down && flow.reason.contains(said))
        });
    };
    says("the Zenoh session is not open: ");
    let mut closed = sites.hub_config();
    closed.links.zenoh.accept = false;
    let hub = Service::start(closed).unwrap();
    says("it takes no links over Zenoh");
    let counters = hub.counters();
    assert_eq!(counters.read(Counter::LinksUp), 0);
    wait_until("what was refused is counted", || counters.read(Counter::LinkZenohRefused) > 0);
    let wrong = [Counter::LinkZenohDropped, Counter::LinkZenohBroken].map(|counter| counters.read(counter));
    assert_eq!(wrong, [0, 0]);
    drop(hub);
    // The session of the site finds the hub again, whichever way it was lost.
    let hub = Service::start(sites.hub_config()).unwrap();
    await_flows(&[&hub, &site], 2);
    // One that is called otherwise is not there.
    let other = LinkEntry { name: "other".into(), to: "elsewhere".into(), ..sites.link() };
    let added = site.command(Command::AddLink(Box::new(other)));
    assert!(matches!(added, Ok(Answer::LinkAdded(Ok(_)))), "{added:?}");
    says("no service is there that is called \"elsewhere\" in Zenoh");
}

#[test]
fn with_tls_the_certificates_of_both_services_count_whatever_is_between() {
    let authority = Authority::new("service-links-zenoh");
    let sites = Sites::new(None);
    let tls = |name: &str| {
        let certified = authority.certify_as(&CertificateSpec { name, hosts: &[name], ..CertificateSpec::default() });
        let (certificate, key) = (Some(certified.certificate), Some(certified.key));
        Tls { certificate, key, client_ca: Some(authority.file()), ca: Some(authority.file()), ..Tls::default() }
    };
    let rules = ["certificate:dns:site", "127.0.0.0/8"].map(|who| rule(&[who], &ALL, &["*"], &[], true));
    let hub = Config { tls: tls("hub"), access: rules.to_vec(), ..sites.hub_config() };
    let hub = Service::start(hub).unwrap();
    // In the clear it is whoever comes through Zenoh, which no rule speaks of.
    let plain = Service::start(sites.site_config()).unwrap();
    wait_until("the refusal", || flows(&plain).iter().any(|flow| flow.state == LinkState::Refused));
    drop(plain);
    let link = LinkEntry { tls: true, ..sites.link() };
    let site = Service::start(Config { tls: tls("site"), link: vec![link], ..sites.site_config() }).unwrap();
    await_flows(&[&hub, &site], 2);
    let mut at_hub = subscribed(&hub);
    await_subscribed(&site, "everything");
    publish(&mut Lines::connect(&site), 5, "");
    assert_eq!(numbers(&mut at_hub, 1), [5]);
}

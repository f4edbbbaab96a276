//! Streams between two sessions of this process, over TCP on the loopback network.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use testing::certificates::{Authority, CertificateSpec};
use testing::{EndInTime, NextInTime, own_loopback, patient, wait_until};
use zenoh_streams::{Carried, DialError, Incoming, Options, Session, TlsFiles};

/// Far beyond need: a dialled end answers at once.
const WITHIN: Duration = Duration::from_secs(60);

/// A session that is called so, in the realm of the test.
fn options(name: &str) -> Options {
    Options {
        realm: "tests".to_owned(),
        name: name.to_owned(),
        window_bytes: 16_384,
        accepts: true,
        ..Options::default()
    }
}

/// A session that listens at an address of its own, and one that connects to it.
fn two() -> [(Session, Receiver<Incoming>); 2] {
    two_with([16_384; 2])
}

/// The same with these windows.
fn two_with([hub, site]: [u32; 2]) -> [(Session, Receiver<Incoming>); 2] {
    let at = format!("tcp/{}:7447", own_loopback());
    let hub = Options { window_bytes: hub, listen: vec![at.clone()], ..options("hub") };
    let site = Options { window_bytes: site, connect: vec![at], ..options("site") };
    let [hub, site] = [hub, site].map(|options| Session::open(options).unwrap());
    wait_until("both ends to know each other", || hub.0.is_present("site") && site.0.is_present("hub"));
    [hub, site]
}

/// Both ends of a connection: the test's own, and the one that is carried.
fn pair() -> [TcpStream; 2] {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let own = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    patient(&own);
    [own, listener.accept().unwrap().0]
}

/// A stream from one session to another, with a connection at each end.
fn stream(from: &Session, to: (&str, &Receiver<Incoming>)) -> [(Carried, TcpStream); 2] {
    let ([near, near_carried], [far, far_carried]) = (pair(), pair());
    std::thread::scope(|scope| {
        let dialled = scope.spawn(|| from.dial(to.0, false, WITHIN).unwrap().carry(near_carried).unwrap());
        let taken = to.1.next_in_time().carry(far_carried).unwrap();
        [(dialled.end_in_time(), near), (taken, far)]
    })
}

/// Octets that are different everywhere.
fn octets(count: usize, seed: u32) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    core::iter::repeat_with(next).take(count).collect()
}

/// Opens a stream between ends with these windows, and has octets cross it.
fn cross_both_ways(windows: [u32; 2]) {
    let [(hub, _), (site, taken)] = two_with(windows);
    let [(carried, near), (_far_carried, far)] = stream(&hub, ("site", &taken));
    assert_eq!(carried.far(), "site");
    // Each way it is many windows, in pieces of all sizes, and both ways at once.
    std::thread::scope(|scope| {
        for (mut from, to, seed) in [(&near, &far, 1), (&far, &near, 2)] {
            let sent = octets(1 << 20, seed);
            let expected = sent.clone();
            scope.spawn(move || {
                for piece in sent.chunks(1 + 7_919 * seed as usize) {
                    from.write_all(piece).unwrap();
                }
            });
            scope.spawn(move || {
                let mut came = vec![0; expected.len()];
                { to }.read_exact(&mut came).unwrap();
                assert!(came == expected, "what came is not what was sent");
            });
        }
    });
    let counts = [hub.counts(), site.counts()];
    assert_eq!(counts, <[_; 2]>::default());
}

#[test]
fn octets_cross_both_ways_in_order_and_whole_however_many_there_are() {
    cross_both_ways([16_384; 2]);
}

/// A side reported what it had taken when that was a quarter of its own window. The other, with a smaller one, never sent as much.
#[test]
fn octets_cross_between_ends_of_unequal_windows() {
    cross_both_ways([16_384, 524_288]);
    cross_both_ways([524_288, 16_384]);
}

#[test]
fn a_side_that_ends_its_stream_or_drops_it_says_so_to_the_other() {
    let [(hub, _), (site, taken)] = two();
    let [(near_carried, _near), (far_carried, _far)] = stream(&hub, ("site", &taken));
    far_carried.end("too many wait");
    assert_eq!(near_carried.ended_within(WITHIN).as_deref(), Some("too many wait"));
    let [(near_carried, _near), (far_carried, _far)] = stream(&hub, ("site", &taken));
    drop(near_carried);
    assert_eq!(far_carried.ended_within(WITHIN).as_deref(), Some("it was given up"));
    wait_until("both to forget the streams", || hub.streams() + site.streams() == 0);
}

#[test]
fn what_one_side_wrote_last_comes_before_the_end() {
    let [(hub, _), (site, taken)] = two();
    let [(near_carried, mut near), (far_carried, mut far)] = stream(&hub, ("site", &taken));
    near.write_all(b"the last words").unwrap();
    drop(near);
    let mut came = Vec::new();
    far.read_to_end(&mut came).unwrap();
    assert_eq!(came, b"the last words");
    assert_eq!(near_carried.ended_within(WITHIN).as_deref(), Some("the connection was closed"));
    assert_eq!(far_carried.ended_within(WITHIN).as_deref(), Some("the connection was closed"));
    wait_until("both to forget the stream", || hub.streams() + site.streams() == 0);
}

#[test]
fn a_side_that_does_not_read_has_the_other_wait_and_loses_nothing() {
    let [(hub, _), (_site, taken)] = two();
    let [(_near_carried, mut near), (_far_carried, mut far)] = stream(&hub, ("site", &taken));
    // Far more than the system and the windows hold: the writer stands still until the other side reads.
    let sent = octets(32 << 20, 3);
    let expected = sent.clone();
    let writer = std::thread::spawn(move || {
        near.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
        let (mut done, mut stood) = (0, false);
        while !stood {
            match near.write(&sent[done..]) {
                Ok(count) => done += count,
                Err(_) => stood = true,
            }
            assert!(done < sent.len(), "it is not held up");
        }
        (near, sent, done)
    });
    let (near, sent, done) = writer.end_in_time();
    patient(&near);
    let mut near = near;
    let writer = std::thread::spawn(move || near.write_all(&sent[done..]).map(|()| near));
    let mut came = vec![0; expected.len()];
    far.read_exact(&mut came).unwrap();
    assert!(came == expected);
    writer.end_in_time().unwrap();
}

#[test]
fn an_end_that_is_not_there_is_said_and_one_that_goes_ends_its_streams() {
    let [(hub, _), (site, taken)] = two();
    assert_eq!(hub.dial("absent", false, WITHIN).unwrap_err(), DialError::Absent("absent".to_owned()));
    assert_eq!(hub.dial("hub", false, WITHIN).unwrap_err(), DialError::Itself);
    let [(carried, mut near), _far] = stream(&hub, ("site", &taken));
    drop(site);
    assert_eq!(near.read(&mut [0; 1]).unwrap_or(0), 0);
    let why = carried.ended_within(WITHIN).unwrap();
    assert!(["the other service is gone from Zenoh", "the connection was closed"].contains(&why.as_str()), "{why}");
    wait_until("its token to be gone", || !hub.is_present("site"));
    assert!(matches!(hub.dial("site", false, WITHIN), Err(DialError::Absent(_))));
}

#[test]
fn an_end_that_takes_no_streams_says_so_and_one_that_does_is_told_whether_there_is_tls() {
    let at = format!("tcp/{}:7447", own_loopback());
    let (hub, taken) = Session::open(Options { listen: vec![at.clone()], ..options("hub") }).unwrap();
    let closed = Options { connect: vec![at], accepts: false, ..options("site") };
    let (site, _none) = Session::open(closed).unwrap();
    wait_until("both ends to know each other", || hub.is_present("site") && site.is_present("hub"));
    let why = hub.dial("site", false, WITHIN).unwrap_err();
    assert_eq!(why, DialError::Refused("it takes no links over Zenoh".to_owned()));
    assert_eq!(site.counts().refused, 1);
    std::thread::scope(|scope| {
        let dialled = scope.spawn(|| site.dial("hub", true, WITHIN));
        let incoming = taken.next_in_time();
        assert_eq!((incoming.far(), incoming.is_secure()), ("site", true));
        incoming.refuse("not today");
        let why = dialled.end_in_time().unwrap_err();
        assert_eq!(why.to_string(), "the other service does not take it: not today");
    });
}

#[test]
fn an_end_that_is_there_and_answers_nothing_has_the_session_opened_anew() {
    let [(hub, _), (site, taken)] = two();
    // Whatever is dialled waits to be taken, and never is.
    for _ in 0..3 {
        assert_eq!(hub.dial("site", false, Duration::from_millis(1)).unwrap_err(), DialError::Unanswered);
    }
    wait_until("the session to be opened anew", || hub.counts().reopened == 1 && hub.is_present("site"));
    while let Ok(unanswered) = taken.try_recv() {
        drop(unanswered);
    }
    wait_until("the other end to know it again", || site.is_present("hub"));
    let [(_near_carried, mut near), (_far_carried, mut far)] = stream(&hub, ("site", &taken));
    near.write_all(b"x").unwrap();
    far.read_exact(&mut [0; 1]).unwrap();
}

/// A token may stay away although its end is there.
#[test]
fn a_client_that_carries_nothing_and_dials_ends_that_are_absent_has_its_session_opened_anew() {
    let at = format!("tcp/{}:7447", own_loopback());
    let (hub, taken) = Session::open(Options { listen: vec![at.clone()], ..options("hub") }).unwrap();
    let absent_for = Some(Duration::from_nanos(1));
    let (site, _) = Session::open(Options { connect: vec![at], absent_for, ..options("site") }).unwrap();
    wait_until("both ends to know each other", || hub.is_present("site") && site.is_present("hub"));
    // What is carried is not cut for the sake of what is absent; nor is what may go through a router.
    let [(carried, mut near), (_far_carried, mut far)] = stream(&site, ("hub", &taken));
    for session in [&site, &hub] {
        for _ in 0..10 {
            assert_eq!(session.dial("nowhere", false, WITHIN).unwrap_err(), DialError::Absent("nowhere".to_owned()));
        }
    }
    near.write_all(b"x").unwrap();
    far.read_exact(&mut [0; 1]).unwrap();
    drop(carried);
    wait_until("the stream to end", || site.streams() == 0);
    wait_until("the session to be opened anew", || {
        let _absent = site.dial("nowhere", false, WITHIN);
        site.counts().reopened == 1
    });
    wait_until("both ends to know each other", || hub.is_present("site") && site.is_present("hub"));
    assert_eq!(hub.counts().reopened, 0);
    drop(stream(&site, ("hub", &taken)));
}

#[test]
fn sites_reach_each_other_through_a_hub_over_tls_with_certificates_on_both_sides() {
    let authority = Authority::new("zenoh-streams");
    let ip = own_loopback().to_string();
    let at = format!("tls/{ip}:7447");
    let files = |name: &str| {
        let certified = authority.certify_as(&CertificateSpec { name, hosts: &[&ip], ..CertificateSpec::default() });
        let (certificate, key) = (certified.certificate, certified.key);
        Some(TlsFiles { ca: authority.file(), certificate, key, check_names: true })
    };
    let (_hub, _) = Session::open(Options { listen: vec![at.clone()], tls: files("hub"), ..options("hub") }).unwrap();
    let at_hub = |name: &str, tls| Session::open(Options { connect: vec![at.clone()], tls, ..options(name) }).unwrap();
    let ((one, _), (other, taken)) = (at_hub("one", files("one")), at_hub("other", files("other")));
    wait_until("the sites to know each other", || one.is_present("other") && other.is_present("one"));
    let [(_one_carried, mut near), (_other_carried, mut far)] = stream(&one, ("other", &taken));
    near.write_all(b"through the hub").unwrap();
    let mut came = [0; 15];
    far.read_exact(&mut came).unwrap();
    assert_eq!(&came, b"through the hub");
    // One whose certificate is another authority's is not let in.
    let strangers = Authority::new("zenoh-strangers");
    let certified = strangers.certify("stranger");
    let (certificate, key) = (certified.certificate, certified.key);
    let tls = Some(TlsFiles { ca: authority.file(), certificate, key, check_names: true });
    let (stranger, _) = at_hub("stranger", tls);
    wait_until("it to be refused", || {
        !stranger.is_present("hub") && stranger.why_not_open().is_none_or(|why| why.contains("Unable to connect"))
    });
    assert!(!one.is_present("stranger"));
}

#[test]
fn what_cannot_be_opened_is_said() {
    let taken = TcpListener::bind((own_loopback(), 0)).unwrap();
    let at = format!("tcp/{}", taken.local_addr().unwrap());
    let why = Session::open(Options { listen: vec![at], ..options("hub") }).unwrap_err();
    assert!(why.to_string().to_lowercase().contains("in use"), "{why}");
    let why = Session::open(Options { window_bytes: 1, listen: vec!["tcp/[::]:0".to_owned()], ..options("hub") });
    assert!(why.unwrap_err().to_string().contains("a window is"));
    // One that only connects is tried until it is open.
    let at = format!("tcp/{}:7447", own_loopback());
    let (site, _) = Session::open(Options { connect: vec![at.clone()], ..options("site") }).unwrap();
    wait_until("the reason", || site.why_not_open().is_some_and(|why| why.contains("Unable to connect")));
    let (hub, _) = Session::open(Options { listen: vec![at], ..options("hub") }).unwrap();
    wait_until("both ends to know each other", || hub.is_present("site") && site.is_present("hub"));
}

//! What anyone in Zenoh can send to an end, and what becomes of it.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking, in its helpers too")]

use std::io::Read;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use testing::{EndInTime, NextInTime, own_loopback, patient, wait_until};
use zenoh::Wait;
use zenoh::qos::CongestionControl;
use zenoh_streams::{DialError, Incoming, Options, Session};

const OPEN: u8 = 1;
const ACCEPT: u8 = 2;
const DATA: u8 = 3;
const CREDIT: u8 = 4;
const END: u8 = 5;
const WINDOW: u32 = 16_384;
/// The key of the attack.
const OWN: &str = "campanile/links/1/tests/stranger/0000000000000007";

/// An end that takes streams, and a Zenoh session beside it that is no end.
struct Attack {
    hub: Session,
    taken: Receiver<Incoming>,
    zenoh: zenoh::Session,
    /// Where the end takes messages, and what came to the key of the attack.
    key: String,
    answers: Receiver<Vec<u8>>,
}

impl Attack {
    fn new() -> Self {
        let at = format!("tcp/{}:7447", own_loopback());
        let (hub, taken) = Session::open(Options {
            realm: "tests".to_owned(),
            name: "hub".to_owned(),
            listen: vec![at.clone()],
            window_bytes: WINDOW,
            accepts: true,
            ..Options::default()
        })
        .unwrap();
        let mut config = zenoh::Config::default();
        for (key, value) in [
            ("mode", "\"client\""),
            ("connect/endpoints", &format!("[\"{at}\"]")),
            ("scouting/multicast/enabled", "false"),
            ("scouting/gossip/enabled", "false"),
        ] {
            config.insert_json5(key, value).unwrap();
        }
        let zenoh = zenoh::open(config).wait().unwrap();
        let (heard, answers) = channel();
        let subscriber = zenoh.declare_subscriber(OWN).callback(move |sample| {
            let _ = heard.send(sample.payload().to_bytes().into_owned());
        });
        subscriber.background().wait().unwrap();
        let (found, keys) = channel();
        let ends = zenoh.liveliness().declare_subscriber("campanile/links/1/tests/hub/*").history(true);
        let ends = ends.callback(move |sample| {
            let _ = found.send(sample.key_expr().as_str().to_owned());
        });
        ends.background().wait().unwrap();
        let key = keys.next_in_time();
        Self { hub, taken, zenoh, key, answers }
    }

    fn send(&self, octets: Vec<u8>) {
        self.zenoh.put(self.key.as_str(), octets).congestion_control(CongestionControl::Block).wait().unwrap();
    }

    fn open(&self, stream: u8, window: u32, name: &str) {
        let body = [&[1, 0][..], &window.to_le_bytes(), &7_u64.to_le_bytes(), name.as_bytes()].concat();
        self.send(message(OPEN, stream, &body));
    }

    fn data(&self, stream: u8, number: u64, octets: usize) {
        self.send(message(DATA, stream, &[&number.to_le_bytes()[..], &vec![b'x'; octets]].concat()));
    }

    /// The reason with which a stream of the attack was ended.
    fn ended(&self, stream: u8) -> String {
        loop {
            let answer = self.answers.next_in_time();
            if answer[0] == END && answer[1..17] == [stream; 16] {
                return String::from_utf8(answer[17..].to_vec()).unwrap();
            }
        }
    }
}

fn message(kind: u8, stream: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &[stream; 16], body].concat()
}

#[test]
fn what_is_of_no_stream_or_is_no_message_is_dropped_and_counted() {
    let attack = Attack::new();
    attack.send(Vec::new());
    attack.send(vec![0xff; 100_000]);
    attack.data(1, 0, 20_000);
    wait_until("three that are no messages", || attack.hub.counts().malformed == 3);
    attack.data(1, 0, 100);
    attack.send(message(CREDIT, 1, &u64::MAX.to_le_bytes()));
    attack.send(message(END, 1, b"over"));
    wait_until("three of a stream that there is not", || attack.hub.counts().unknown == 3);
    assert_eq!(attack.hub.streams(), 0);
}

#[test]
fn a_flood_a_gap_and_what_was_never_sent_end_the_stream_alone_and_take_no_memory() {
    let attack = Attack::new();
    let mut others = Vec::new();
    for (stream, is_attacked) in [(1, false), (2, true), (3, true), (4, true)] {
        attack.open(stream, WINDOW, "stranger");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let own = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        patient(&own);
        let carried = attack.taken.next_in_time().carry(listener.accept().unwrap().0).unwrap();
        assert_eq!(carried.far(), "stranger");
        others.push((stream, is_attacked, own, carried));
    }
    // More than a window, and more than all connections between hold.
    (0..4_000).for_each(|number| attack.data(2, number, 8_000));
    assert_eq!(attack.ended(2), "more was sent than was granted");
    attack.data(3, 1, 100);
    assert_eq!(attack.ended(3), "a message was lost on the way");
    attack.send(message(CREDIT, 4, &1_u64.to_le_bytes()));
    assert_eq!(attack.ended(4), "more was acknowledged than was sent");
    let counts = attack.hub.counts();
    assert_eq!((counts.beyond, counts.lost), (2, 1));
    // The other goes on, and takes nothing twice.
    attack.data(1, 0, 3);
    attack.data(1, 0, 3);
    attack.data(1, 1, 3);
    let (_, _, own, _carried) = &mut others[0];
    let mut came = [0; 6];
    own.read_exact(&mut came).unwrap();
    assert_eq!(&came, b"xxxxxx");
    attack.send(message(END, 1, b"enough"));
    assert_eq!(own.read(&mut came).unwrap_or(0), 0);
    assert_eq!(attack.hub.streams(), 0);
}

#[test]
fn streams_have_a_bound_and_those_of_no_valid_end_are_refused() {
    let attack = Attack::new();
    attack.open(201, WINDOW - 1, "stranger");
    assert_eq!(attack.ended(201), "the name or the window is not valid");
    attack.open(202, WINDOW, "a/**");
    wait_until("both to be refused", || attack.hub.counts().refused == 2);
    for stream in 1..=40 {
        attack.open(stream, WINDOW, "stranger");
    }
    // So many wait as may wait.
    wait_until("the others to be refused", || attack.hub.counts().refused == 2 + 40 - 16);
    assert_eq!(attack.hub.streams(), 16);
    drop(attack.taken.try_iter().collect::<Vec<_>>());
    assert_eq!(attack.hub.streams(), 0, "what is not taken is forgotten");
}

#[test]
fn a_window_in_which_no_message_fits_ends_the_stream_that_was_dialled() {
    let attack = Attack::new();
    let _token = attack.zenoh.liveliness().declare_token(OWN).wait().unwrap();
    wait_until("the end to know the stranger", || attack.hub.is_present("stranger"));
    std::thread::scope(|scope| {
        let dialled = scope.spawn(|| attack.hub.dial("stranger", false, Duration::from_secs(60)));
        let open = attack.answers.next_in_time();
        assert_eq!(open[0], OPEN);
        attack.send([&[ACCEPT][..], &open[1..17], &127_u32.to_le_bytes()].concat());
        let why = dialled.end_in_time().unwrap_err();
        assert_eq!(why, DialError::Refused("its window is not valid".to_owned()));
    });
    assert_eq!((attack.hub.counts().beyond, attack.hub.streams()), (1, 0));
}

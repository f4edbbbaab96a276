//! End points allocate nothing: not when they are made, not when peers come and go, not in between. Counted, not estimated.

use std::net::SocketAddr;

use tempo::endpoint::{
    Channel, Endpoint, Message, Order, Place, Receive, Settings, To, TopicId, TopicSettings, Transmit,
};
use tempo::wire::{Content, Role};
use testing::{Counting, allocations};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The one of which docs/tempo.md gives the size.
type Small = Endpoint<8, 16, 96, 4096, 2>;

/// The largest that a device of 64 KiB might have.
const SMALL_MAX: usize = 64 * 1024;

/// It can be where a device has its memory.
static STATIC: std::sync::Mutex<Small> = std::sync::Mutex::new(Endpoint::new(Settings::new(1, (2, 3), Channel::None)));

#[derive(Default)]
struct Counted {
    messages: u64,
    octets: usize,
}

impl Receive for Counted {
    fn message(&mut self, message: Message<'_>) {
        self.messages += 1;
        self.octets += message.octets.len();
    }
}

struct Pair {
    ends: [Small; 2],
    places: [Place; 2],
    counted: Counted,
    out: [u8; 1_472],
    now: u64,
    lost: u64,
}

impl Pair {
    /// Two end points on the stack: a publisher, and a subscriber with the publisher as its channel.
    fn new() -> Self {
        let places = ["10.0.0.1:1", "10.0.0.2:2"].map(|address| {
            let address: Result<SocketAddr, _> = address.parse();
            address.map_or(Place::Stream(0), Place::Datagram)
        });
        let [publisher, _] = places;
        let ends = [(1, Channel::None), (2, Channel::Peer(publisher))]
            .map(|(session, channel)| Endpoint::new(Settings::new(session, (u64::from(session), 5), channel)));
        Self { ends, places, counted: Counted::default(), out: [0; 1_472], now: 0, lost: 0 }
    }

    fn topic(&mut self, end: usize, role: Role) -> Option<TopicId> {
        let settings =
            TopicSettings { name: "A/B", role, rate: 1, deadline_us: 0, largest: 0, order: Order::default() };
        self.ends.get_mut(end)?.add_topic(self.now, settings).ok()
    }

    /// Time passes, and every fiftieth datagram is lost.
    fn pass(&mut self, nanos: u64) {
        self.now += nanos;
        for end in &mut self.ends {
            end.handle_timeout(self.now, &mut self.counted);
        }
        loop {
            let mut is_quiet = true;
            for at in 0..2 {
                let [one, other] = &mut self.ends;
                let (from, to) = if at == 0 { (one, other) } else { (other, one) };
                while let Some(Transmit { to: To::Place(_), octets }) = from.poll_transmit(self.now, &mut self.out) {
                    is_quiet = false;
                    self.lost += 1;
                    let Some(bytes) = self.out.get(..octets).filter(|_| !self.lost.is_multiple_of(50)) else {
                        continue;
                    };
                    let [one, other] = self.places;
                    to.handle(self.now, if at == 0 { one } else { other }, bytes, &mut self.counted);
                }
            }
            if is_quiet {
                return;
            }
        }
    }
}

#[test]
fn end_points_allocate_nothing_however_long_they_run() {
    let before = allocations();
    let mut pair = Pair::new();
    let subscription = pair.topic(1, Role::Subscriber);
    let mut publication = pair.topic(0, Role::Publisher);
    let message = [7; 4_000];
    let mut accepted = 0;
    for round in 0..20_000_usize {
        pair.pass(10_000_000);
        let octets = message.get(..[100, 4_000][round % 2]).unwrap_or_default();
        let (now, priority) = (pair.now, i16::from(round % 7 == 0));
        if let Some(topic) = publication
            && pair.ends[0].publish(now, topic, priority, Content::Octets, octets).is_ok()
        {
            accepted += 1;
        }
        if round % 5_000 == 4_999
            && let Some(topic) = publication
        {
            // The topic goes and comes back, and its subscriber finds it.
            pair.ends[0].remove_topic(topic);
            pair.pass(0);
            publication = pair.topic(0, Role::Publisher);
        }
    }
    let allocated = allocations() - before;
    assert_eq!(allocated, 0);
    let report = subscription.map(|topic| pair.ends[1].subscribed(topic)).unwrap_or_default();
    assert_eq!((accepted, report.received), (20_000, pair.counted.messages));
    assert!(report.lost > 100 && report.received > 15_000, "{report:?}");
}

#[test]
fn a_small_end_point_fits_into_a_small_device_and_the_page_says_how() {
    let size = size_of::<Small>();
    println!("size_of::<Endpoint<8, 16, 96, 4096, 2>>() is {size}");
    println!("a peer: {}", size_of::<Endpoint<8, 17, 96, 4096, 2>>() - size);
    println!("a topic: {}", size_of::<Endpoint<9, 16, 96, 4096, 2>>() - size);
    println!("a block: {}", (size_of::<Endpoint<8, 16, 196, 4096, 2>>() - size) / 100);
    println!("an unfinished message: {}", size_of::<Endpoint<8, 16, 96, 4096, 3>>() - size);
    println!("the rest: {}", size_of::<Endpoint<0, 0, 0, 0, 0>>());
    assert!(size <= SMALL_MAX, "{size}");
    assert_eq!(STATIC.lock().unwrap().session(), 1);
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tempo.md")).unwrap();
    let kib = size.div_ceil(1024);
    assert!(page.contains(&format!("is {kib} KiB")), "docs/tempo.md does not say that it is {kib} KiB ({size} octets)");
}

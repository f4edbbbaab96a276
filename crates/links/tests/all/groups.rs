//! A group on a simulated network: datagrams that are lost, doubled and overtaken, sites that are slow, mute, or connected anew. Each site
//! gets each event once and in order, and none waits for another.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use links::group::{Datagram, GroupReceiver, GroupSender, Key, Member, Taken, Way, stream_of};
use links::{Limits, Nanos, Origin, Receiver, Sender};

const MS: Nanos = 1_000_000;
const STREAM: u64 = 77;
/// Octets of an event that is too long for a datagram.
const LONG: usize = 2_000;
const DATAGRAM_BYTES_MAX: usize = 1_432;

#[derive(Clone, Debug)]
enum Said {
    Event { sequence: u64, event: u64 },
    Ack { up_to: u64 },
    Join { join: u32 },
    Listening { join: u32 },
    Start { join: u32, from: u64 },
    Leave,
    GroupEvent { frame: Vec<u8>, number: u64 },
    GroupAck { join: u32, up_to: u64 },
    Request { join: u32, ranges: Vec<(u64, u64)> },
}

#[derive(Debug)]
enum Happens {
    Admit,
    Datagram { site: usize, octets: Vec<u8> },
    ToSite { site: usize, session: u32, said: Said },
    FromSite { site: usize, session: u32, said: Said },
    Complete { site: usize, number: Number },
    Reconnect { site: usize },
    Tick,
}

#[derive(Clone, Copy, Debug)]
enum Number {
    Session(u32, u64),
    Group(u64),
}

/// What a network and the sites on it do.
#[derive(Clone, Copy, Debug, Default)]
struct Weather {
    lost_percent: u64,
    twice_percent: u64,
    late_percent: u64,
    long_percent: u64,
    reconnects: usize,
    /// The last site takes so long for an event.
    slow_for: Nanos,
    /// The last site gets no datagram.
    is_deaf: bool,
    /// The last site answers nothing from then on.
    mute_from: Option<Nanos>,
}

/// A flow, and the site that it is to.
struct Site {
    outbox: VecDeque<(u64, Nanos)>,
    sender: Sender<u64>,
    member: Member<u64>,
    /// When the last frame of the session arrives, in each direction.
    line: [Nanos; 2],
    session: u32,
    receiver: Receiver,
    group: Option<(u32, GroupReceiver)>,
    join: u32,
    seen: BTreeSet<u64>,
    under_way: BTreeMap<u64, Vec<Number>>,
    got: Vec<u64>,
    done: u64,
}

struct World {
    now: Nanos,
    random: fastrand::Rng,
    weather: Weather,
    events: u64,
    admitted: u64,
    queue: BinaryHeap<(Reverse<(Nanos, u64)>, usize)>,
    happens: Vec<Option<Happens>>,
    group: GroupSender,
    key: Key,
    sites: Vec<Site>,
    datagrams: u64,
    fallbacks: Vec<u64>,
    long: BTreeSet<u64>,
}

fn origin(event: u64) -> Origin {
    Origin { service: 1, era: 1, number: event }
}

impl World {
    fn new(seed: u64, sites: usize, events: u64, weather: Weather) -> Self {
        let limits = Limits::default();
        let site = || Site {
            outbox: VecDeque::new(),
            sender: Sender::new(limits),
            member: Member::new(),
            line: [0; 2],
            session: 0,
            receiver: Receiver::new(limits),
            group: None,
            join: 0,
            seen: BTreeSet::new(),
            under_way: BTreeMap::new(),
            got: Vec::new(),
            done: 0,
        };
        let mut world = Self {
            now: 0,
            random: fastrand::Rng::with_seed(seed),
            weather,
            events,
            admitted: 0,
            queue: BinaryHeap::new(),
            happens: Vec::new(),
            group: GroupSender::new(),
            key: Key::new(b"secret"),
            sites: (0..sites).map(|_| site()).collect(),
            datagrams: 0,
            fallbacks: vec![0; sites],
            long: BTreeSet::new(),
        };
        world.later(MS, Happens::Admit);
        world.later(MS, Happens::Tick);
        for _ in 0..weather.reconnects {
            let (site, after) = (world.random.usize(..sites), world.random.u64(..events * MS / 2));
            world.later(after, Happens::Reconnect { site });
        }
        world
    }

    fn later(&mut self, after: Nanos, what: Happens) {
        self.queue.push((Reverse((self.now + after, self.happens.len() as u64)), self.happens.len()));
        self.happens.push(Some(what));
    }

    fn happens(&mut self, percent: u64) -> bool {
        self.random.u64(..100) < percent
    }

    /// Says something over a session, which keeps the order.
    fn say(&mut self, site: usize, to_site: bool, said: Said) {
        if !to_site && site + 1 == self.sites.len() && self.weather.mute_from.is_some_and(|at| at <= self.now) {
            return;
        }
        let delay = self.random.u64(MS / 10..MS);
        let of = &mut self.sites[site];
        let line = &mut of.line[usize::from(to_site)];
        *line = (*line).max(self.now + delay);
        let (at, session) = (*line, of.session);
        let what =
            if to_site { Happens::ToSite { site, session, said } } else { Happens::FromSite { site, session, said } };
        self.later(at - self.now, what);
    }

    fn fall_back(&mut self, site: usize) {
        let (now, id) = (self.now, site as u64);
        let Site { member, sender, .. } = &mut self.sites[site];
        if !member.is_in_step() {
            return;
        }
        member.fall_back(now, &mut |octets, event| sender.push_unsent(octets, event));
        self.group.leave(id);
        self.fallbacks[site] += 1;
        self.say(site, true, Said::Leave);
        self.resend(site);
    }

    fn resend(&mut self, site: usize) {
        while let Some((sequence, event)) = self.sites[site].sender.resend(self.now).map(|(at, event)| (at, *event)) {
            self.say(site, true, Said::Event { sequence, event });
        }
    }

    /// Takes events out of the outboxes, one of each flow at a time.
    fn deliver(&mut self) {
        for site in 0..self.sites.len() {
            while self.deliver_one(site) {}
        }
    }

    fn deliver_one(&mut self, site: usize) -> bool {
        let (now, id) = (self.now, site as u64);
        let Site { outbox, sender, member, .. } = &mut self.sites[site];
        let Some(&(event, admitted)) = outbox.front() else { return false };
        let octets = if self.long.contains(&event) { LONG } else { 100 };
        let is_idle = sender.in_flight() == 0 && sender.unsent() == 0;
        let (number, is_new) = match member.way(&self.group, origin(event), admitted, (is_idle, now)) {
            Way::Wait => return false,
            Way::Session if !sender.has_room(octets) => return false,
            Way::Session => {
                let sequence = sender.push(octets, now, event);
                outbox.pop_front();
                self.say(site, true, Said::Event { sequence, event });
                return true;
            }
            Way::Numbered(number) => (number, false),
            Way::New => {
                if let Some(slow) = self.group.slow_consumer() {
                    self.fall_back(usize::try_from(slow).unwrap());
                    return true;
                }
                let write = |_, out: &mut Vec<u8>| {
                    out.resize(octets, 0);
                    out[..8].copy_from_slice(&event.to_le_bytes());
                };
                (self.group.number(origin(event), admitted, now, write), true)
            }
        };
        outbox.pop_front();
        if !member.is_in_step() {
            member.join(number, self.group.last());
            self.group.join(id, number, now);
            let join = member.join_number();
            self.say(site, true, Said::Start { join, from: number });
            for number in number..=self.group.last() - u64::from(is_new) {
                self.say_number(site, number);
            }
        }
        let known = self.sites[site].member.note(number, octets, event);
        assert!(known.is_none_or(|(_, is_rejected)| !is_rejected));
        if is_new {
            self.send(number);
        }
        true
    }

    fn say_number(&mut self, site: usize, number: u64) {
        if let Some(frame) = self.group.frame(number).map(<[u8]>::to_vec) {
            self.say(site, true, Said::GroupEvent { frame, number });
        }
    }

    fn send(&mut self, number: u64) {
        let frame = self.group.frame(number).unwrap().to_vec();
        if frame.len() > DATAGRAM_BYTES_MAX {
            let members: Vec<u64> = self.group.members().collect();
            return members.into_iter().for_each(|site| self.say_number(usize::try_from(site).unwrap(), number));
        }
        self.datagram(Datagram::Event { number, frame: &frame });
    }

    fn datagram(&mut self, datagram: Datagram<'_>) {
        let mut octets = Vec::new();
        datagram.write(STREAM, Some(&self.key), &mut octets);
        assert_eq!(stream_of(&octets), Some(STREAM));
        self.datagrams += 1;
        let weather = self.weather;
        for site in 0..self.sites.len() {
            let is_deaf = weather.is_deaf && site + 1 == self.sites.len();
            let copies = u64::from(!is_deaf && !self.happens(weather.lost_percent));
            let copies = copies + u64::from(!is_deaf && self.happens(weather.twice_percent));
            for _ in 0..copies {
                let most = if self.happens(weather.late_percent) { 20 * MS } else { MS / 5 };
                let after = self.random.u64(MS / 10..most);
                self.later(after, Happens::Datagram { site, octets: octets.clone() });
            }
        }
    }

    fn step(&mut self) {
        let (Reverse((at, _)), which) = self.queue.pop().unwrap();
        self.now = at;
        match self.happens[which].take().unwrap() {
            Happens::Admit => self.admit(),
            Happens::Datagram { site, octets } => self.hear(site, &octets),
            Happens::ToSite { site, session, said } if session == self.sites[site].session => {
                self.hear_said(site, said)
            }
            Happens::FromSite { site, session, said } if session == self.sites[site].session => self.answer(site, said),
            Happens::ToSite { .. } | Happens::FromSite { .. } => {}
            Happens::Complete { site, number } => self.complete(site, number),
            Happens::Reconnect { site } => self.reconnect(site),
            Happens::Tick => self.tick(),
        }
        self.deliver();
    }

    fn admit(&mut self) {
        for _ in 0..self.random.u64(1..20).min(self.events - self.admitted) {
            self.admitted += 1;
            if self.happens(self.weather.long_percent) {
                self.long.insert(self.admitted);
            }
            let event = (self.admitted, self.now);
            self.sites.iter_mut().for_each(|site| site.outbox.push_back(event));
        }
        if self.admitted < self.events {
            let after = self.random.u64(MS / 10..3 * MS);
            self.later(after, Happens::Admit);
        }
    }

    fn tick(&mut self) {
        if let Some(number) = self.group.take_announcement(self.now) {
            self.datagram(Datagram::Announcement { number });
        }
        while let Some(site) = self.group.stalled(self.now) {
            self.fall_back(usize::try_from(site).unwrap());
        }
        for site in 0..self.sites.len() {
            if let Some(join) = self.sites[site].member.ask(self.now) {
                self.say(site, true, Said::Join { join });
            }
            if self.sites[site].member.is_unanswered(self.now) {
                self.sites[site].member.fall_back(self.now, &mut |_, _| panic!("nothing is in flight"));
            }
            let mut ranges = Vec::new();
            if let Some((join, receiver)) = &mut self.sites[site].group
                && receiver.take_request(self.now, &mut ranges)
            {
                let join = *join;
                self.say(site, false, Said::Request { join, ranges });
            }
        }
        self.later(MS, Happens::Tick);
    }

    fn reconnect(&mut self, site: usize) {
        self.group.leave(site as u64);
        let of = &mut self.sites[site];
        let sender = &mut of.sender;
        of.member.disconnect(&mut |octets, event| sender.push_unsent(octets, event));
        sender.restart(|_| true, &mut |_| panic!("all are kept"));
        (of.session, of.group, of.receiver) = (of.session + 1, None, Receiver::new(Limits::default()));
        self.resend(site);
    }

    fn hear(&mut self, site: usize, octets: &[u8]) {
        match Datagram::read(octets, Some(&self.key)).unwrap() {
            Datagram::Event { number, frame } => self.take(site, number, frame, false),
            Datagram::Announcement { number } => {
                if let Some((_, receiver)) = &mut self.sites[site].group {
                    receiver.note_announced(number, self.now);
                }
            }
        }
    }

    fn take(&mut self, site: usize, number: u64, frame: &[u8], is_of_session: bool) {
        let Some((_, receiver)) = &mut self.sites[site].group else { return };
        if receiver.take(number, frame, is_of_session, self.now) == Taken::Now {
            self.take_in(site, Number::Group(number), event_of(frame));
            self.take_retained(site);
        }
    }

    fn take_retained(&mut self, site: usize) {
        while let Some((_, receiver)) = &mut self.sites[site].group
            && let Some((number, frame)) = receiver.pop()
        {
            self.take_in(site, Number::Group(number), event_of(&frame));
        }
    }

    fn take_in(&mut self, site: usize, number: Number, event: u64) {
        let slow_for = if site + 1 == self.sites.len() { self.weather.slow_for } else { 0 };
        let now = self.now;
        let of = &mut self.sites[site];
        if let Some(waiting) = of.under_way.get_mut(&event) {
            return waiting.push(number);
        }
        if of.seen.insert(event) {
            of.got.push(event);
            of.under_way.insert(event, vec![number]);
            of.done = of.done.max(now) + slow_for;
            let done = of.done - now;
            let after = done + self.random.u64(1..MS / 2);
            self.later(after, Happens::Complete { site, number: Number::Group(event) });
        } else {
            self.complete_number(site, number);
        }
    }

    /// The event of that number is on disk.
    fn complete(&mut self, site: usize, event: Number) {
        let Number::Group(event) = event else { return };
        let numbers = self.sites[site].under_way.remove(&event).unwrap();
        numbers.into_iter().for_each(|number| self.complete_number(site, number));
    }

    fn complete_number(&mut self, site: usize, number: Number) {
        let of = &mut self.sites[site];
        match number {
            Number::Session(session, sequence) if session == of.session => {
                of.receiver.complete(sequence);
                if let Some(up_to) = of.receiver.take_ack() {
                    self.say(site, false, Said::Ack { up_to });
                }
            }
            Number::Session(..) => {}
            Number::Group(number) => {
                let Some((join, receiver)) = &mut of.group else { return };
                receiver.complete(number);
                let join = *join;
                if let Some(up_to) = receiver.take_ack() {
                    self.say(site, false, Said::GroupAck { join, up_to });
                }
                self.take_retained(site);
            }
        }
    }

    fn hear_said(&mut self, site: usize, said: Said) {
        let of = &mut self.sites[site];
        match said {
            Said::Event { sequence, event } => {
                of.receiver.accept(sequence, 100).unwrap();
                let session = of.session;
                self.take_in(site, Number::Session(session, sequence), event);
            }
            Said::Join { join } => {
                (of.join, of.group) = (join, None);
                self.say(site, false, Said::Listening { join });
            }
            Said::Start { join, from } => {
                assert_eq!(join, of.join);
                of.group = Some((join, GroupReceiver::new(from)));
            }
            Said::Leave => of.group = None,
            Said::GroupEvent { frame, number } => self.take(site, number, &frame, true),
            said => panic!("{said:?}"),
        }
    }

    fn answer(&mut self, site: usize, said: Said) {
        let now = self.now;
        let of = &mut self.sites[site];
        match said {
            Said::Listening { join } => of.member.answered(join),
            Said::Ack { up_to } => {
                of.sender.acknowledge(up_to, now, &mut |_| ()).unwrap();
                self.resend(site);
            }
            Said::GroupAck { join, up_to } if join == of.member.join_number() => {
                self.group.acknowledge(site as u64, up_to, now).unwrap();
                of.member.acknowledge(up_to, &mut |_| ());
            }
            Said::Request { join, ranges } if join == of.member.join_number() && of.member.is_in_step() => {
                let numbers = ranges.into_iter().flat_map(|(first, last)| first..=last);
                numbers.for_each(|number| self.say_number(site, number));
            }
            Said::GroupAck { .. } | Said::Request { .. } => {}
            said => panic!("{said:?}"),
        }
    }

    /// Runs until some sites have everything.
    fn run(&mut self, sites: core::ops::Range<usize>) {
        let all = usize::try_from(self.events).unwrap();
        while sites.clone().any(|site| self.sites[site].got.len() < all) {
            assert!(self.now < 600_000 * MS, "{:?} at {:?}", self.weather, self.sites[0].got.len());
            self.step();
        }
    }

    fn check(&self, sites: core::ops::Range<usize>) {
        for site in sites {
            let of = &self.sites[site];
            assert!(of.got.iter().copied().eq(1..=self.events), "site {site}: {:?} {:?}", self.weather, of.got);
        }
    }

    /// What is in flight ends as well.
    fn drain(&mut self) {
        let is_idle = |site: &Site| site.sender.items().next().is_none() && site.member.in_flight() == 0;
        while !self.sites.iter().all(is_idle) {
            assert!(self.now < 600_000 * MS, "something stays in flight");
            self.step();
        }
    }
}

fn event_of(frame: &[u8]) -> u64 {
    u64::from_le_bytes(*frame.first_chunk().unwrap())
}

#[test]
fn on_a_good_network_an_event_is_one_datagram_for_all_sites() {
    let mut world = World::new(1, 20, 1_000, Weather::default());
    world.run(0..20);
    world.check(0..20);
    assert!(world.sites.iter().all(|site| site.member.is_in_step()), "{:?}", world.fallbacks);
    // The first ones cross before the sites listen; what remains is announcements.
    assert!((900..1_100).contains(&world.datagrams), "{}", world.datagrams);
    world.drain();
}

#[test]
fn whatever_a_network_does_each_site_gets_each_event_once_and_in_order() {
    for seed in 0..1_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let weather = Weather {
            lost_percent: random.u64(..=30),
            twice_percent: random.u64(..=20),
            late_percent: random.u64(..=20),
            long_percent: random.u64(..=10),
            reconnects: random.usize(..4),
            slow_for: if random.u8(..4) == 0 { random.u64(..5 * MS) } else { 0 },
            is_deaf: random.u8(..8) == 0,
            mute_from: None,
        };
        let sites = random.usize(1..5);
        let mut world = World::new(seed, sites, random.u64(20..300), weather);
        println!("seed {seed}: {sites} sites, {weather:?}");
        world.run(0..sites);
        world.drain();
        world.check(0..sites);
    }
}

#[test]
fn a_third_of_the_datagrams_lost_is_repaired_without_a_fall_back() {
    let weather = Weather { lost_percent: 30, ..Weather::default() };
    let mut world = World::new(3, 3, 5_000, weather);
    world.run(0..3);
    world.check(0..3);
    assert_eq!(world.fallbacks, [0; 3]);
}

#[test]
fn a_site_that_is_slow_or_gets_no_datagram_does_not_hold_the_others() {
    let plain = {
        let mut world = World::new(5, 3, 20_000, Weather::default());
        world.run(0..3);
        world.now
    };
    for weather in
        [Weather { slow_for: 20 * MS, ..Weather::default() }, Weather { is_deaf: true, ..Weather::default() }]
    {
        let mut world = World::new(5, 3, 20_000, weather);
        world.run(0..2);
        world.check(0..2);
        assert!(world.now < plain * 11 / 10, "{} ms, and {} without it", world.now / MS, plain / MS);
        assert_eq!(world.fallbacks[..2], [0, 0]);
    }
}

#[test]
fn a_site_that_is_mute_falls_back_and_what_it_had_is_sent_again_over_its_session() {
    let weather = Weather { mute_from: Some(500 * MS), ..Weather::default() };
    let mut world = World::new(7, 3, 20_000, weather);
    world.run(0..2);
    world.check(0..2);
    while world.fallbacks[2] == 0 {
        world.step();
    }
    assert!(!world.sites[2].member.is_in_step());
    world.weather.mute_from = None;
    world.reconnect(2);
    world.run(0..3);
    world.check(0..3);
    world.drain();
}

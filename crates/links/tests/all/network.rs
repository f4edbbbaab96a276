//! Two to five services in trees, rings and meshes, over lines that are cut at random octets, with processes that die at any time.
//!
//! An event is a supplier's number. What a supplier was promised is checked in the end: persistent events are everywhere, once and in order;
//! others at most once, and each that is missing was counted as lost.

mod checks;
mod service;

use std::collections::HashSet;

use links::wire::{Direction, Event, Frame, Hello, Open, Types};
use links::{Framer, Limits, VERSIONS, Verdict, hops};

use self::service::{End, Item, Key, Pending, Service, Ticket};

const LIMITS: Limits = Limits { frame_bytes_max: 1 << 20, window_bytes_max: 64 << 10, outstanding_max: 50 };
/// The flows of a session: from the dialling end, and to it.
const FLOWS: [u32; 2] = [1, 2];
const REJECTED: u8 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Tree,
    Ring,
    Mesh,
}

struct Link {
    /// The dialling end first.
    ends: [End; 2],
    is_up: bool,
    session: u64,
}

struct World {
    seed: u64,
    random: fastrand::Rng,
    shape: Shape,
    /// Whether services have stores. Without, no event is persistent, and a process that is started again is another service.
    has_stores: bool,
    services: Vec<Service>,
    links: Vec<Link>,
    now: u64,
    /// A number for whatever is to be told apart.
    next: u64,
    /// What suppliers were promised.
    promised: Vec<Item>,
    /// What was counted as lost on its way to some service.
    lost: HashSet<Key>,
    overtaken: u64,
}

#[test]
fn services_keep_their_promises_whatever_dies_and_is_cut() {
    #[expect(clippy::disallowed_methods, reason = "more seeds by hand")]
    let seeds = std::env::var("LINKS_SEEDS").map_or(1_000, |seeds| seeds.parse().unwrap());
    let (mut overtaken, mut lost) = (0, 0);
    for seed in 0..seeds {
        let mut world = World::new(seed);
        for _ in 0..600 {
            world.step();
        }
        world.come_to_rest();
        world.check();
        overtaken += world.overtaken;
        lost += world.lost.len();
    }
    assert!(overtaken > seeds && lost > 0, "nothing was overtaken or lost: {overtaken}, {lost}");
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let count = random.usize(2..=5);
        let shape = [Shape::Tree, Shape::Ring, Shape::Mesh][random.usize(..3)];
        let mut pairs: Vec<[usize; 2]> = match shape {
            Shape::Tree => (1..count).map(|at| [random.usize(..at), at]).collect(),
            Shape::Ring => (0..count).map(|at| [at, (at + 1) % count]).collect(),
            Shape::Mesh => (0..count).flat_map(|at| (0..at).map(move |other| [other, at])).collect(),
        };
        // Two links between the same pair.
        if shape == Shape::Mesh && random.bool() {
            pairs.push([1, 0]);
        }
        let services = (0..count).map(|at| Service::new(at as u64 + 1)).collect();
        let links = pairs.iter().map(|pair| Link { ends: pair.map(End::new), is_up: false, session: 0 }).collect();
        let (promised, lost) = (Vec::new(), HashSet::new());
        let (now, next, has_stores) = (0, 100, random.u8(..4) > 0);
        Self { seed, random, shape, has_stores, services, links, now, next, promised, lost, overtaken: 0 }
    }

    fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn step(&mut self) {
        self.now += self.random.u64(..5_000_000);
        let (service, link) = (self.random.usize(..self.services.len()), self.random.usize(..self.links.len()));
        let from = self.random.usize(..2);
        match self.random.u8(..100) {
            0 => self.crash(service),
            1..3 => self.cut(link),
            3..8 => self.connect(link),
            8..30 => self.publish(service),
            30..40 => self.synchronise(service),
            40..65 => self.pump(link, from),
            _ => {
                let octets = self.random.usize(1..20_000);
                self.carry(link, from, octets);
            }
        }
    }

    /// Does all that is to be done, without a fault, until nothing is.
    fn come_to_rest(&mut self) {
        loop {
            self.now += 1_000_000;
            let mut carried = 0;
            for link in 0..self.links.len() {
                self.connect(link);
                for from in 0..2 {
                    self.pump(link, from);
                    carried += self.carry(link, from, usize::MAX);
                }
            }
            let pending = self.services.iter().filter(|service| !service.pending.is_empty()).count();
            (0..self.services.len()).for_each(|service| self.synchronise(service));
            if carried + pending == 0 {
                return;
            }
        }
    }

    fn publish(&mut self, service: usize) {
        let supplier = service as u64 * 10 + self.random.u64(..2);
        let octets = [10, 100, 6_000, 20_000][self.random.usize(..4)];
        let is_persistent = self.has_stores && self.random.bool();
        let is_rejected = self.random.u8(..50) == 0;
        let key = (supplier, self.next());
        let priority = self.random.i16(0..3);
        let origin = self.services[service].number();
        let item = Item { key, origin, hops: Vec::new(), is_persistent, is_rejected, priority, octets };
        self.take_in(service, item, None);
    }

    /// Has a channel admit an event that it has not had: at once, or when it is on disk.
    fn take_in(&mut self, service: usize, item: Item, ticket: Option<Ticket>) {
        if item.is_persistent {
            self.services[service].seen.begin(item.origin);
            self.services[service].pending.push(Pending { item, tickets: ticket.into_iter().collect() });
        } else {
            self.admit(service, item);
            ticket.into_iter().for_each(|ticket| self.complete(ticket));
        }
    }

    fn synchronise(&mut self, service: usize) {
        for Pending { item, tickets } in std::mem::take(&mut self.services[service].pending) {
            self.services[service].disk.push(item.origin);
            self.admit(service, item);
            tickets.into_iter().for_each(|ticket| self.complete(ticket));
        }
        for end in self.ends_of(service) {
            for place in std::mem::take(&mut end.completed) {
                end.backlog.remove(&place);
            }
        }
    }

    fn admit(&mut self, service: usize, item: Item) {
        let at = &mut self.services[service];
        at.seen.commit(item.origin);
        at.delivered.push((item.clone(), at.incarnation));
        if item.hops.is_empty() && item.origin.service == at.id {
            self.promised.push(item.clone());
        }
        let (own, arrival) = (at.id, self.next());
        let ids: Vec<u64> = self.services.iter().map(|service| service.id).collect();
        for link in &mut self.links {
            let Some(from) = link.ends.iter().position(|end| end.service == service) else { continue };
            let peer = ids[link.ends[1 - from].service];
            if hops::may_forward(item.origin.service, &item.hops, own, peer) == hops::Forwarding::Forward {
                link.ends[from].enqueue(arrival, &item);
            }
        }
    }

    /// Completes an event if its session is still the same.
    fn complete(&mut self, ticket: Ticket) {
        let link = &mut self.links[ticket.link];
        if link.is_up && link.session == ticket.session {
            assert!(link.ends[ticket.end].receiver.complete(ticket.sequence), "seed {}", self.seed);
        }
    }

    fn connect(&mut self, link: usize) {
        if self.links[link].is_up {
            return;
        }
        let session = self.next();
        let Link { ends, is_up, session: current } = &mut self.links[link];
        (*is_up, *current) = (true, session);
        for end in ends {
            end.begin_session();
            let Service { id, incarnation, .. } = self.services[end.service];
            let (version_min, version_max) = VERSIONS;
            let (limits, name, token) = (LIMITS, "", "");
            let (service, has_store) = (id, self.has_stores);
            let hello = Hello { version_min, version_max, service, incarnation, limits, has_store, name, token };
            Frame::Hello(hello).write(&mut end.out);
        }
    }

    fn cut(&mut self, link: usize) {
        self.links[link].is_up = false;
        self.links[link].ends.iter_mut().for_each(|end| end.out.clear());
    }

    /// Ends a service's process as `kill -9` does, and starts it again with what is on its disk.
    fn crash(&mut self, service: usize) {
        for link in 0..self.links.len() {
            if self.links[link].ends.iter().any(|end| end.service == service) {
                self.cut(link);
            }
        }
        let (incarnation, id) = (self.next(), self.next());
        let compacts = self.random.bool();
        self.services[service].restart(incarnation, (!self.has_stores).then_some(id), compacts);
        let lost: Vec<Key> = self.ends_of(service).flat_map(End::restart).collect();
        self.lost.extend(lost);
    }

    /// Writes what there is to send and room for.
    fn pump(&mut self, link: usize, from: usize) {
        let Link { ends, is_up, .. } = &mut self.links[link];
        let end = &mut ends[from];
        let own = self.services[end.service].id;
        if !*is_up || !end.is_open {
            return;
        }
        while let Some((sequence, (_, item))) = end.sender.resend(self.now) {
            item.write(FLOWS[from], sequence, own, &mut end.out);
        }
        while let Some((place, item)) = end.outbox.pop_first() {
            let octets = item.frame_octets(own);
            if !end.sender.has_room(octets) {
                end.outbox.insert(place, item);
                break;
            }
            let (_, arrival) = place;
            self.overtaken += u64::from(end.outbox.keys().any(|(_, other)| *other < arrival));
            let sequence = end.sender.push(octets, self.now, (place, item.clone()));
            assert!(end.sender.in_flight_octets() <= LIMITS.window_bytes_max || end.sender.in_flight() == 1);
            item.write(FLOWS[from], sequence, own, &mut end.out);
        }
        end.receiver
            .take_ack()
            .into_iter()
            .for_each(|up_to| Frame::Ack { flow: FLOWS[1 - from], up_to }.write(&mut end.out));
    }

    /// Carries octets that one end wrote to the other. Returns how many.
    fn carry(&mut self, link: usize, from: usize, octets: usize) -> usize {
        let Link { ends, is_up, .. } = &mut self.links[link];
        if !*is_up {
            return 0;
        }
        let written = &mut ends[from].out;
        let bytes: Vec<u8> = written.drain(..octets.min(written.len())).collect();
        let mut framer = std::mem::replace(&mut ends[1 - from].framer, Framer::new(LIMITS));
        let mut input = &bytes[..];
        loop {
            let (frame, taken) =
                framer.next(input).unwrap_or_else(|violation| panic!("seed {}: {violation}", self.seed));
            input = &input[taken..];
            let Some(frame) = frame else { break };
            self.handle(link, 1 - from, frame);
        }
        self.links[link].ends[1 - from].framer = framer;
        bytes.len()
    }

    fn handle(&mut self, link: usize, to: usize, frame: Frame<'_>) {
        let (seed, now) = (self.seed, self.now);
        let session = self.links[link].session;
        let end = &mut self.links[link].ends[to];
        match frame {
            Frame::Hello(hello) => {
                let is_same = end.peer_incarnation.replace(hello.incarnation) == Some(hello.incarnation);
                let lost = &mut self.lost;
                let mut drop = |(_, item): (_, Item)| lost.extend([item.key]);
                end.sender.restart(|(_, item)| item.is_persistent || is_same, &mut drop);
                end.sender.set_limits(hello.limits);
                if to == 0 {
                    for (flow, direction) in FLOWS.into_iter().zip([Direction::Out, Direction::In]) {
                        let open = Open { flow, direction, channel: "Weather", types: Types::NONE, constraint: "" };
                        Frame::Open(open).write(&mut end.out);
                    }
                }
            }
            Frame::Open(Open { flow, direction, .. }) => {
                end.is_open |= direction == Direction::In;
                Frame::Opened { flow }.write(&mut end.out);
            }
            Frame::Opened { flow } => end.is_open |= flow == FLOWS[to],
            Frame::Ack { up_to, .. } => {
                let End { sender, completed, .. } = end;
                let acknowledged = sender.acknowledge(up_to, now, &mut |(place, _)| completed.push(place));
                acknowledged.unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
            }
            Frame::Reject { sequence, .. } => {
                let rejected =
                    end.sender.reject(sequence).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
                end.completed.extend(rejected.map(|(place, _)| place));
            }
            Frame::Event(event) => {
                self.handle_event(Ticket { link, end: to, session, sequence: event.sequence }, &event)
            }
            other => panic!("seed {seed}: {other:?}"),
        }
    }

    fn handle_event(&mut self, ticket: Ticket, event: &Event<'_>) {
        let end = &mut self.links[ticket.link].ends[ticket.end];
        let (service, accepted) = (end.service, end.receiver.accept(event.sequence, event.octets()));
        accepted.unwrap_or_else(|violation| panic!("seed {}: {violation}", self.seed));
        let item = Item::read(event);
        if item.is_rejected {
            let (flow, sequence) = (event.flow, event.sequence);
            Frame::Reject { flow, sequence, reason: REJECTED, text: "" }.write(&mut end.out);
            return self.complete(ticket);
        }
        let Service { id, seen, pending, .. } = &mut self.services[service];
        let is_loop = hops::may_forward(event.origin.service, event.hops.as_slice(), event.origin.service, *id)
            == hops::Forwarding::Loop;
        assert!(!is_loop || !self.has_stores, "seed {}: {event:?} came back", self.seed);
        match seen.check(event.origin) {
            Verdict::Fresh => self.take_in(service, item, Some(ticket)),
            // What a restored mark covers is stale; were it no repeat, it would be missing in the end.
            Verdict::Repeat | Verdict::Stale => self.complete(ticket),
            // It is completed with the copy that was first: otherwise a crash now would let later events overtake it.
            Verdict::InFlight => {
                let first = pending.iter_mut().find(|each| each.item.origin == event.origin);
                first.expect("it waits for the disk").tickets.push(ticket);
            }
        }
    }

    fn ends_of(&mut self, service: usize) -> impl Iterator<Item = &mut End> {
        self.links.iter_mut().flat_map(|link| &mut link.ends).filter(move |end| end.service == service)
    }
}

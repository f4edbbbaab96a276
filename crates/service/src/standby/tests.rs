//! Leaders and followers beside a naive record of what was acknowledged, with connections that break and overtake each other, commits that
//! fail and are there all the same, and processes that end at any step.

mod record;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use testing::{AcceptInTime as _, EndInTime as _, PATIENCE, TempPath, wait_until};

use self::record::Recorded;
use super::follower::{Follower, Replica};
use super::frame::{Frame, Hello, State, VERSION};
use super::host::{Host as _, Peer, lock, start};
use super::leader::{Greeted, Lag, Leader, LeaderSettings, Progress};
use super::shipping::{Shipper, Shipping};
use super::stream::Stream;
use crate::store::replication::{Part, Position, Replication as _};

/// A promise that is broken on purpose, which the seeds have to notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Break {
    Nothing,
    /// A follower confirms a batch that is in its memory only.
    UnwrittenBatch,
    /// A copy lacks its last row.
    PartialCopy,
    /// A follower does not look whether a batch follows on what its disk has.
    UncheckedPosition,
    /// A leader acknowledges alone before that is recorded.
    UnrecordedAlone,
    /// A leader records that its follower is in step before that has everything.
    InStepEarly,
    /// A follower takes over whatever the record says.
    UnreadRecord,
}

/// What a disk has: numbers of batches stand for their contents.
#[derive(Clone, Debug, Default)]
struct Contents {
    batches: BTreeSet<u64>,
    position: Position,
}

#[derive(Clone, Debug)]
struct Disk {
    stored: Contents,
    part: Part,
    epoch: u64,
    is_whole: bool,
    began_at: Position,
}

impl Disk {
    fn state(&self) -> State {
        let Self { stored, epoch, is_whole, .. } = self;
        State {
            service: if *is_whole { SERVICE } else { 0 },
            epoch: *epoch,
            is_whole: *is_whole,
            position: stored.position,
            machine: 0,
        }
    }
}

/// A follower's store. The disk outlives it.
struct NaiveReplica {
    disk: Arc<Mutex<Disk>>,
    /// The disk's state, as far as it is known.
    state: State,
    copy: Option<BTreeSet<u64>>,
    /// Decides what fails: without it, nothing does.
    random: Option<fastrand::Rng>,
    /// A write fails once in so many times.
    fails_in: u32,
    /// What is in memory and not on the disk, where the break is that.
    unwritten: Option<Contents>,
    of: Break,
}

fn number_of(operations: &[u8]) -> u64 {
    u64::from_le_bytes(operations.try_into().unwrap())
}

impl NaiveReplica {
    fn new(disk: &Arc<Mutex<Disk>>, of: Break, random: Option<fastrand::Rng>) -> Self {
        let state = lock(disk).state();
        Self { disk: Arc::clone(disk), state, copy: None, random, fails_in: 20, unwritten: None, of }
    }

    fn look(&mut self) {
        self.state = lock(&self.disk).state();
    }

    /// True once in so many times.
    fn is_one_in(&mut self, times: u32) -> bool {
        self.random.as_mut().is_some_and(|random| random.u32(..times) == 0)
    }

    /// Writes to the disk. What fails may be there all the same, and the disk cannot always be read then.
    fn write(&mut self, change: impl FnOnce(&mut Disk)) -> Result<(), String> {
        let fails = self.is_one_in(self.fails_in);
        if !fails || self.is_one_in(2) {
            change(&mut lock(&self.disk));
        }
        if !fails || self.is_one_in(2) {
            self.look();
        }
        if fails { Err("its disk fails".to_owned()) } else { Ok(()) }
    }
}

impl Replica for NaiveReplica {
    fn state(&self) -> State {
        let position = self.unwritten.as_ref().map_or(self.state.position, |unwritten| unwritten.position);
        State { position, ..self.state }
    }

    fn see(&mut self, epoch: u64) -> Result<(), String> {
        self.write(|disk| disk.epoch = epoch)
    }

    fn begin_copy(&mut self) -> Result<(), String> {
        self.copy = Some(BTreeSet::new());
        Ok(())
    }

    fn copy(&mut self, rows: &[u8]) -> Result<(), String> {
        self.copy.as_mut().unwrap().extend(rows.as_chunks().0.iter().map(|row| u64::from_le_bytes(*row)));
        Ok(())
    }

    fn end_copy(&mut self, hello: &Hello, at: Position) -> Result<(), String> {
        let mut batches = self.copy.take().unwrap();
        if self.of == Break::PartialCopy {
            batches.pop_last();
        }
        self.unwritten = None;
        self.write(|disk| {
            disk.stored = Contents { batches, position: at };
            (disk.is_whole, disk.began_at) = (true, hello.began_at);
        })
    }

    fn apply(&mut self, operations: &[u8], at: Position) -> Result<(), String> {
        let number = number_of(operations);
        if self.of == Break::UnwrittenBatch {
            let mut contents = self.unwritten.take().unwrap_or_else(|| lock(&self.disk).stored.clone());
            contents.batches.insert(number);
            contents.position = at;
            self.unwritten = Some(contents);
            return Ok(());
        }
        let is_there = lock(&self.disk).stored.position.is_same(self.state.position);
        if !is_there && self.of != Break::UncheckedPosition {
            self.look();
            return Err("the disk has another batch".to_owned());
        }
        self.write(|disk| {
            disk.stored.batches.insert(number);
            disk.stored.position = at;
        })
    }

    fn promote(&mut self, behind: u64) -> Result<u64, String> {
        self.look();
        if !self.state.is_whole {
            return Err("it has no copy".to_owned());
        }
        if lock(&self.disk).part == Part::Follower {
            self.write(|disk| {
                disk.epoch = disk.epoch.max(behind) + 1;
                (disk.part, disk.began_at) = (Part::Leader, disk.stored.position);
            })?;
        }
        Ok(lock(&self.disk).epoch)
    }

    fn may_lead(&mut self) -> bool {
        self.is_one_in(4) || lock(&self.disk).part == Part::Leader
    }
}

const SERVICE: u64 = 7;

/// A write of a leader.
#[derive(Clone, Copy, Debug)]
enum Writing {
    Nothing,
    Begun(u64, Position),
    Committed(u64),
}

enum Process {
    Leader { leader: Leader, writing: Writing },
    Follower(Follower<NaiveReplica>),
}

/// A connection from one node to the other. Several may be there at once, since the end of one is noticed late.
struct Connection {
    from: usize,
    /// The leader's epoch.
    epoch: u64,
    /// The session at the follower, once it was greeted.
    session: Option<u64>,
    /// Whether the leader still listens to it.
    is_current: bool,
    there: VecDeque<Frame>,
    /// When what is yet to be answered was sent, by the leader's clock.
    sent_at: VecDeque<Duration>,
    /// Answers to rows of a copy, which say what was there before.
    ignored: u32,
    back: VecDeque<Frame>,
    /// Whether the follower was told to take over.
    hands_over: bool,
    /// Rows yet to be sent, and the position behind them.
    copy: Option<(VecDeque<Vec<u8>>, Position)>,
}

struct World {
    disks: [Arc<Mutex<Disk>>; 2],
    nodes: [Process; 2],
    connections: Vec<Connection>,
    random: fastrand::Rng,
    settings: LeaderSettings,
    of: Break,
    next: u64,
    /// Acknowledged batches that a follower had to have.
    acknowledged: BTreeSet<u64>,
    /// The contents at each position that any disk ever had.
    known: BTreeMap<(u64, u128), BTreeSet<u64>>,
    /// The highest epoch under which each node has answered.
    served: [u64; 2],
    copies: u32,
    promotions: u32,
    switches: u32,
    resumed: u32,
    /// The record of who leads, where the settings name a machine.
    recorded: Recorded,
    /// Frames that a follower refused, as its disk failed or for another reason.
    refused: u32,
}

/// What went wrong.
type Wrong = String;

impl World {
    fn new(seed: u64, settings: LeaderSettings, of: Break) -> Self {
        let began_at = Position { epoch: 1, number: 0, chain: 99 };
        let disk = |part, position| {
            let is_whole = part == Part::Leader;
            let stored = Contents { batches: BTreeSet::new(), position };
            Arc::new(Mutex::new(Disk { stored, part, epoch: u64::from(is_whole), is_whole, began_at: position }))
        };
        let disks = [disk(Part::Leader, began_at), disk(Part::Follower, Position::default())];
        let mut random = fastrand::Rng::with_seed(seed);
        let nodes = [0, 1].map(|node| Self::start(&disks, node, settings, of, random.fork()));
        Self {
            disks,
            nodes,
            connections: Vec::new(),
            random,
            served: [0, 0],
            refused: 0,
            settings,
            of,
            next: 1,
            acknowledged: BTreeSet::new(),
            known: BTreeMap::from([((0, 99), BTreeSet::new()), ((0, 0), BTreeSet::new())]),
            copies: 0,
            promotions: 0,
            switches: 0,
            resumed: 0,
            recorded: Recorded::default(),
        }
    }

    /// A process begins with what is on the disk.
    fn start(
        disks: &[Arc<Mutex<Disk>>; 2],
        node: usize,
        settings: LeaderSettings,
        of: Break,
        random: fastrand::Rng,
    ) -> Process {
        let disk = &disks[node];
        let found = lock(disk).clone();
        let machine = if settings.machine == 0 { 0 } else { node as u64 + 1 };
        let settings = LeaderSettings { machine, ..settings };
        match found.part {
            Part::Leader => Process::Leader {
                leader: Leader::new(settings, SERVICE, found.epoch, found.stored.position),
                writing: Writing::Nothing,
            },
            Part::Follower => {
                let mut replica = NaiveReplica::new(disk, of, Some(random));
                if machine != 0 {
                    replica.fails_in = 400;
                }
                Process::Follower(Follower::new(replica, machine))
            }
        }
    }

    /// A process ends and begins again. A commit under way is on the disk, or not.
    fn restart(&mut self, node: usize) {
        if let Process::Leader { writing: Writing::Begun(number, at), .. } = &self.nodes[node]
            && self.random.bool()
        {
            let (number, at) = (*number, *at);
            self.store(node, number, at);
        }
        self.nodes[node] = Self::start(&self.disks, node, self.settings, self.of, self.random.fork());
        self.recorded.restart(node);
        for connection in &mut self.connections {
            if connection.from == node {
                (connection.is_current, connection.copy) = (false, None);
            } else {
                // What is on its way to the former process does not reach the next one.
                (connection.session, connection.copy) = (None, None);
                connection.there.clear();
                connection.there.push_back(Frame::BeginCopy);
            }
        }
    }

    fn store(&self, node: usize, number: u64, at: Position) {
        let mut disk = lock(&self.disks[node]);
        disk.stored.batches.insert(number);
        disk.stored.position = at;
    }

    /// A leader begins a write, commits it, or looks whether it is confirmed.
    fn write(&mut self, node: usize) -> Result<(), Wrong> {
        let found = lock(&self.disks[node]).stored.position;
        let now = self.recorded.clock(node);
        let Process::Leader { leader, writing } = &mut self.nodes[node] else { return Ok(()) };
        match *writing {
            Writing::Nothing if let Some(epoch) = leader.hands_over_in() => {
                let mut disk = lock(&self.disks[node]);
                (disk.part, disk.epoch) = (Part::Follower, epoch);
                drop(disk);
                leader.demote();
            }
            Writing::Nothing if leader.may_write(now).is_ok() => {
                let number = self.next;
                self.next += 1;
                let at = leader.begin(found, number.to_le_bytes().to_vec(), Duration::ZERO);
                *writing = Writing::Begun(number, at);
                let mut batches = lock(&self.disks[node]).stored.batches.clone();
                batches.insert(number);
                self.known.insert((at.number, at.chain), batches);
            }
            Writing::Nothing => {}
            Writing::Begun(number, at) => {
                let fails = self.random.u32(..if self.settings.machine == 0 { 10 } else { 300 }) == 0;
                leader.end(!fails);
                *writing = if fails { Writing::Nothing } else { Writing::Committed(number) };
                if !fails || self.random.bool() {
                    self.store(node, number, at);
                }
            }
            Writing::Committed(number) => {
                let Some(confirmed) = leader.confirmed(now) else { return Ok(()) };
                *writing = Writing::Nothing;
                let has_joined = leader.progress() == Progress::InStep && self.settings.is_synchronous;
                if self.settings.machine != 0 && confirmed.is_ok() && !has_joined {
                    self.recorded.check_alone(leader.epoch())?;
                    self.recorded.alone += 1;
                } else if confirmed.is_err() || !has_joined {
                    assert!(confirmed.is_err() || !self.settings.stops_alone, "acknowledged alone");
                    return Ok(());
                } else if !lock(&self.disks[1 - node]).stored.batches.contains(&number) {
                    return Err(format!("batch {number} is acknowledged, and not on the follower's disk"));
                }
                self.acknowledged.insert(number);
            }
        }
        Ok(())
    }

    /// A leader calls the other node.
    fn connect(&mut self, node: usize) {
        let began_at = lock(&self.disks[node]).began_at;
        let Process::Leader { leader, .. } = &mut self.nodes[node] else { return };
        let (epoch, position) = (leader.epoch(), leader.position());
        leader.lose();
        for connection in self.connections.iter_mut().filter(|connection| connection.from == node) {
            connection.is_current = false;
        }
        let hello = Hello { version: VERSION, service: SERVICE, epoch, position, began_at };
        let (there, back) = (VecDeque::from([Frame::Hello(hello)]), VecDeque::new());
        self.connections.push(Connection {
            from: node,
            epoch,
            session: None,
            is_current: true,
            there,
            sent_at: VecDeque::from([self.recorded.clock(node)]),
            ignored: 0,
            back,
            hands_over: false,
            copy: None,
        });
    }

    /// A leader sends what there is to send.
    fn send(&mut self, at: usize) {
        let Some(connection) = self.connections.get_mut(at).filter(|connection| connection.is_current) else { return };
        let (now, waiting) = (self.recorded.clock(connection.from), connection.there.len());
        let Process::Leader { leader, writing } = &mut self.nodes[connection.from] else { return };
        if leader.needs_snapshot() && !matches!(writing, Writing::Begun(..)) {
            let stored = lock(&self.disks[connection.from]).stored.clone();
            leader.note_snapshot(stored.position);
            connection.there.push_back(Frame::BeginCopy);
            connection.ignored += 1;
            let rows = stored.batches.iter().map(|number| number.to_le_bytes().to_vec()).collect();
            connection.copy = Some((rows, stored.position));
        } else if let Some((rows, position)) = &mut connection.copy {
            match rows.pop_front() {
                _ if !leader.is_copying() => connection.copy = None,
                Some(row) => {
                    connection.there.push_back(Frame::Rows(row));
                    connection.ignored += 1;
                }
                None => {
                    connection.there.push_back(Frame::EndCopy(*position));
                    connection.copy = None;
                }
            }
        } else if leader.hands_over() && !connection.hands_over {
            connection.there.push_back(Frame::TakeOver);
            connection.hands_over = true;
        } else if let Some(shipment) = leader.poll_shipment() {
            connection.there.push_back(Frame::Batch(shipment.position, shipment.operations.to_vec()));
        }
        if connection.there.len() > waiting {
            connection.sent_at.push_back(now);
        }
    }

    /// A frame reaches the node that was called.
    fn deliver(&mut self, at: usize) -> Result<(), Wrong> {
        let Some(connection) = self.connections.get_mut(at) else { return Ok(()) };
        let Some(frame) = connection.there.pop_front() else { return Ok(()) };
        let (is_copied, takes_over) = (matches!(frame, Frame::EndCopy(_)), frame == Frame::TakeOver);
        let node = 1 - connection.from;
        self.recorded.hear(node);
        let reply = match (&mut self.nodes[node], frame) {
            (Process::Follower(follower), Frame::Hello(hello)) => {
                let (session, reply) = follower.greet(hello);
                connection.session = Some(session);
                reply
            }
            (Process::Leader { leader, .. }, Frame::Hello(hello)) => {
                Frame::Refused { service: SERVICE, epoch: leader.epoch(), why: leader.refuse(&hello) }
            }
            (Process::Follower(follower), frame) => {
                let State { service, epoch, .. } = follower.state();
                let handled = follower.handle(connection.session.unwrap_or(0), &frame);
                self.copies += u32::from(is_copied && handled.is_ok());
                self.refused += u32::from(handled.is_err());
                handled.unwrap_or_else(|why| Frame::Refused { service, epoch, why })
            }
            (Process::Leader { leader, .. }, _) => {
                Frame::Refused { service: SERVICE, epoch: leader.epoch(), why: "it serves".to_owned() }
            }
        };
        let disk = lock(&self.disks[node]);
        let is_taken = matches!(reply, Frame::Acknowledged(_));
        if matches!(reply, Frame::Acknowledged(_) | Frame::State(_)) {
            if connection.epoch < self.served[node] {
                return Err(format!("epoch {} is served after {}", connection.epoch, self.served[node]));
            }
            self.served[node] = connection.epoch;
        }
        connection.back.push_back(reply);
        let Position { number, chain, .. } = disk.stored.position;
        if self.known.get(&(number, chain)) != Some(&disk.stored.batches) {
            return Err(format!("at batch {number} the follower has {:?}", disk.stored.batches));
        }
        if takes_over && is_taken {
            (self.served[node], self.switches) = (disk.epoch, self.switches + 1);
            drop(disk);
            self.restart(node);
            self.recorded.begin(node);
        }
        Ok(())
    }

    /// An answer reaches the leader.
    fn answer(&mut self, at: usize) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        let Some(frame) = connection.back.pop_front() else { return };
        let contact_at = connection.sent_at.pop_front();
        let Process::Leader { leader, .. } = &mut self.nodes[connection.from] else { return };
        if !connection.is_current {
            return;
        }
        let has_ended = match frame {
            Frame::State(state) => {
                let greeted = leader.greet(&state);
                self.resumed += u32::from(greeted == Greeted::Resumes);
                !matches!(greeted, Greeted::Resumes | Greeted::NeedsCopy)
            }
            Frame::Acknowledged(_) if connection.ignored > 0 => {
                connection.ignored -= 1;
                !leader.is_copying()
            }
            Frame::Acknowledged(_) if connection.hands_over => {
                leader.hear(SERVICE, leader.epoch() + 1);
                true
            }
            Frame::Acknowledged(position) => !leader.acknowledge(position),
            Frame::Refused { service, epoch, .. } => {
                leader.hear(service, epoch);
                true
            }
            other => panic!("{other:?}"),
        };
        if has_ended {
            leader.lose();
            connection.is_current = false;
        } else if let Some(contact_at) = contact_at {
            leader.note_answer(contact_at);
        }
    }

    /// An operator has the follower take over.
    fn promote(&mut self, node: usize) {
        let Process::Follower(follower) = &mut self.nodes[node] else { return };
        if let Ok(epoch) = follower.promote(0) {
            (self.served[node], self.promotions) = (epoch, self.promotions + 1);
            self.restart(node);
        }
    }

    /// An operator has the roles changed, or gives that up.
    fn switch(&mut self, node: usize) {
        if let Process::Leader { leader, .. } = &mut self.nodes[node]
            && leader.close().is_err()
        {
            leader.reopen();
        }
    }

    /// A leader that learned of a higher epoch becomes a follower.
    fn step_down(&mut self, node: usize) {
        let Process::Leader { leader, .. } = &self.nodes[node] else { return };
        let Some(epoch) = leader.superseded() else { return };
        {
            let mut disk = lock(&self.disks[node]);
            (disk.part, disk.epoch) = (Part::Follower, epoch);
            self.served[node] = epoch;
        }
        self.restart(node);
    }

    fn step(&mut self) -> Result<(), Wrong> {
        let node = self.random.usize(..2);
        let at = if self.connections.is_empty() { 0 } else { self.random.usize(..self.connections.len()) };
        let [is_here, is_there, is_sent] = self.is_going_on(node, at);
        // Where time passes, processes and connections live longer.
        let is_calm = self.settings.machine != 0 && self.random.u32(..8) > 0;
        match self.random.u32(..1_000) {
            976..988 if is_calm => {}
            0..350 if is_here => self.write(node)?,
            350..550 if is_sent => self.send(at),
            550..750 if is_there => self.deliver(at)?,
            750..950 if is_sent => self.answer(at),
            950..975 if is_here && is_there && !self.connections.iter().any(|of| of.from == node && of.is_current) => {
                self.connect(node)
            }
            975 if is_here && is_there => self.connect(node),
            976..981 if !self.connections.is_empty() => drop(self.connections.swap_remove(at)),
            981..984 => self.restart(node),
            984..986 if self.settings.machine == 0 => self.promote(node),
            986..988 => self.switch(node),
            988..1_000 if is_here => self.step_down(node),
            _ => {}
        }
        self.connections.retain(|of| of.is_current || !of.there.is_empty());
        // The leader notices the end of its connection.
        for node in 0..2 {
            if let Process::Leader { leader, .. } = &mut self.nodes[node]
                && !self.connections.iter().any(|of| of.from == node && of.is_current)
            {
                // It may give up calling at any time.
                if !is_calm && self.random.u32(..4) == 0 { leader.lose() } else { leader.suspend() }
            }
        }
        self.check()
    }

    /// What was acknowledged is on the disk of the leader of the highest epoch.
    fn check(&self) -> Result<(), Wrong> {
        let leaders = self.disks.iter().map(|disk| lock(disk)).filter(|disk| disk.part == Part::Leader);
        let Some(leader) = leaders.max_by_key(|disk| disk.epoch) else { return Ok(()) };
        match self.acknowledged.difference(&leader.stored.batches).next() {
            Some(missing) => Err(format!("batch {missing} is missing in epoch {}", leader.epoch)),
            None => Ok(()),
        }
    }
}

const STRICT: LeaderSettings = LeaderSettings { is_synchronous: true, stops_alone: true, lag_max: 1 << 20, machine: 0 };

/// Runs a seed. Returns the world, or what went wrong.
fn run(seed: u64, settings: LeaderSettings, of: Break) -> Result<World, Wrong> {
    let mut world = World::new(seed, settings, of);
    for step in 0..10_000 {
        world.step().map_err(|wrong| format!("seed {seed}, step {step}: {wrong}"))?;
    }
    Ok(world)
}

#[test]
fn what_was_acknowledged_is_on_every_later_leader_and_a_lower_epoch_acknowledges_nothing() {
    let (mut acknowledged, mut copies, mut promotions, mut resumed, mut refused, mut switches) = (0, 0, 0, 0, 0, 0);
    for seed in 0..60 {
        let world = run(seed, STRICT, Break::Nothing).unwrap();
        acknowledged += world.acknowledged.len();
        (copies, promotions, resumed) = (copies + world.copies, promotions + world.promotions, resumed + world.resumed);
        (refused, switches) = (refused + world.refused, switches + world.switches);
    }
    assert!(
        acknowledged > 1_500 && copies > 100 && promotions > 200 && resumed > 300 && refused > 100 && switches > 50,
        "{acknowledged} {copies} {promotions} {resumed} {refused} {switches}"
    );
}

#[test]
fn a_follower_has_at_each_position_what_the_leader_had_whatever_the_mode() {
    let mut copies = 0;
    for seed in 0..20 {
        for (is_synchronous, lag_max) in [(true, 1 << 20), (false, 1 << 20), (false, 64)] {
            let settings = LeaderSettings { is_synchronous, stops_alone: false, lag_max, machine: 0 };
            // What a leader acknowledges alone is not among what is looked for.
            let world = run(seed, settings, Break::Nothing).unwrap();
            copies += world.copies;
        }
    }
    assert!(copies > 50, "{copies}");
}

#[test]
fn seeds_notice_a_promise_that_is_broken() {
    for of in [Break::UnwrittenBatch, Break::PartialCopy, Break::UncheckedPosition] {
        assert!((0..200).any(|seed| run(seed, STRICT, of).is_err()), "{of:?}");
    }
}

#[test]
fn a_follower_that_lacks_more_than_may_wait_for_it_is_given_up_and_needs_a_copy() {
    let at = Position { epoch: 1, number: 0, chain: 5 };
    let settings = LeaderSettings { is_synchronous: false, stops_alone: false, lag_max: 100, machine: 0 };
    let mut leader = Leader::new(settings, SERVICE, 1, at);
    let follower = State { service: SERVICE, epoch: 1, is_whole: true, position: at, machine: 0 };
    assert_eq!(leader.greet(&follower), Greeted::Resumes);
    let mut found = at;
    for _ in 0..3 {
        found = leader.begin(found, vec![0; 40], Duration::ZERO);
        leader.end(true);
    }
    assert_eq!((leader.progress(), leader.outrun()), (Progress::Alone, 1));
    assert_eq!(
        leader.lag(Duration::from_millis(7)),
        Lag { batches: 3, bytes: 0, ms: 7 },
        "it lacks the first one as long"
    );
    assert_eq!(leader.confirmed(Duration::ZERO), Some(Ok(())), "it goes on");
    assert_eq!(leader.greet(&follower), Greeted::NeedsCopy);
    // The epochs of another service do not count.
    let stranger = State { service: SERVICE + 1, epoch: 9, ..follower };
    assert_eq!(leader.greet(&stranger), Greeted::OtherService(SERVICE + 1));
    assert!(!leader.hear(SERVICE + 1, 9) && leader.superseded().is_none());
    assert_eq!(leader.greet(&State { epoch: 2, ..follower }), Greeted::Superseded);
    assert!(leader.confirmed(Duration::ZERO).unwrap().is_err());
}

#[test]
fn a_leader_that_lost_its_follower_confirms_nothing_before_it_has_called_it() {
    let at = Position { epoch: 1, number: 0, chain: 5 };
    let mut leader = Leader::new(LeaderSettings { stops_alone: false, ..STRICT }, SERVICE, 1, at);
    let follower = State { service: SERVICE, epoch: 1, is_whole: true, position: at, machine: 0 };
    assert_eq!(leader.greet(&follower), Greeted::Resumes);
    let position = leader.begin(at, vec![0; 8], Duration::ZERO);
    assert!(leader.poll_shipment().is_some());
    leader.end(true);
    leader.suspend();
    assert_eq!((leader.progress(), leader.confirmed(Duration::ZERO)), (Progress::Lost, None));
    // It is there, and had taken the batch; or nothing is there; or another leader.
    assert_eq!(leader.greet(&State { position, ..follower }), Greeted::Resumes);
    assert_eq!(leader.confirmed(Duration::ZERO), Some(Ok(())));
    leader.suspend();
    leader.begin(position, vec![1; 8], Duration::ZERO);
    leader.end(true);
    assert_eq!(leader.confirmed(Duration::ZERO), None);
    leader.lose();
    assert_eq!(leader.confirmed(Duration::ZERO), Some(Ok(())), "it goes on alone");
    leader.suspend();
    assert_eq!(leader.progress(), Progress::Alone, "it was alone");
    assert_eq!(leader.greet(&State { epoch: 2, ..follower }), Greeted::Superseded);
    assert!(leader.confirmed(Duration::ZERO).unwrap().is_err());
}

#[test]
fn a_follower_that_reads_nothing_ends_neither_the_store_nor_the_service() {
    let [calls, listens] = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let (address, own) = (calls.local_addr().unwrap().to_string(), listens.local_addr().unwrap());
    let peer = Peer { address, ends: None, silent: Duration::from_secs(2) };
    let position = Position { epoch: 1, number: 0, chain: 5 };
    let leader = Leader::new(LeaderSettings { stops_alone: false, ..STRICT }, SERVICE, 1, position);
    let shipping = Shipping::new(leader, position, (Some(peer.clone()), true), None);
    let (folder, over) = (TempPath::folder("standby-mute"), Arc::clone(shipping.over()));
    let (wakes, ships) = (Arc::clone(&shipping), Arc::clone(&shipping));
    let mut threads = start(&shipping, (listens, &*folder), &peer, &over, move || wakes.wake()).unwrap();
    threads.add("standby-ship", move || ships.run()).unwrap();
    // It joins.
    let mut follower = Stream::accept(calls.accept_in_time(), None, PATIENCE).unwrap();
    let mut answer = |answer: Frame| {
        let frame = follower.frame(1_000, PATIENCE).unwrap();
        follower.send_frame(&answer).unwrap();
        frame
    };
    let state = State { service: SERVICE, epoch: 1, is_whole: true, position, machine: 0 };
    assert!(matches!(answer(Frame::State(state)), Frame::Hello(_)));
    assert!(matches!(answer(Frame::Acknowledged(position)), Frame::Tick { .. }));
    wait_until("it to be in step", || shipping.answer("status").contains("state: in step"));
    // More than the socket takes, and the next call has no answer at all.
    let mut shipper = Shipper(Arc::clone(&shipping));
    let write = move || {
        shipper.begin(position, vec![0; 16 << 20]);
        shipper.end(true);
        shipper.confirm().is_ok()
    };
    assert!(thread::spawn(write).end_in_time(), "it goes on alone");
    assert!(shipping.answer("status").contains("lag_batches: 1"), "{}", shipping.answer("status"));
    // Neither that nor a peer that calls and says nothing is waited for.
    let _mute = TcpStream::connect(own).unwrap();
    thread::spawn(move || drop(threads)).end_in_time();
}

#[test]
fn a_follower_refuses_a_lower_epoch_another_service_and_another_version() {
    let (part, position) = (Part::Follower, Position { epoch: 3, number: 9, chain: 1 });
    let stored = Contents { batches: BTreeSet::new(), position };
    let disk = Disk { stored, part, epoch: 3, is_whole: true, began_at: position };
    let disk = Arc::new(Mutex::new(disk));
    let mut follower = Follower::new(NaiveReplica::new(&disk, Break::Nothing, None), 0);
    let hello = Hello { version: VERSION, service: SERVICE, epoch: 3, position, began_at: position };
    let refused = |(_, answer): (u64, Frame), what: &str| {
        let Frame::Refused { service: SERVICE, epoch: 3, why } = answer else { panic!("{answer:?}") };
        assert!(why.contains(what), "{why}");
    };
    refused(follower.greet(Hello { epoch: 2, ..hello }), "epoch 2 is over");
    refused(follower.greet(Hello { service: 1, epoch: 9, ..hello }), "the data of service");
    refused(follower.greet(Hello { version: VERSION + 1, ..hello }), "version");
    assert_eq!(follower.refused, 1);
    let (first, _) = follower.greet(hello);
    let (second, answer) = follower.greet(Hello { epoch: 4, ..hello });
    assert!(matches!(answer, Frame::State(State { epoch: 4, .. })));
    let batch = Frame::Batch(position.behind(4, &[0; 8]), vec![0; 8]);
    assert!(follower.handle(first, &batch).is_err(), "its place was taken");
    assert_eq!(follower.handle(second, &batch), Ok(Frame::Acknowledged(position.behind(4, &[0; 8]))));
    assert!(follower.handle(second, &batch).unwrap_err().contains("does not follow"));
    assert!(!follower.is_in_step(), "the leader has not said so");
    let tick = |number| Frame::Tick {
        position: Position { number, ..position.behind(4, &[0; 8]) },
        lag_bytes: 0,
        is_in_step: true,
    };
    assert!(follower.handle(second, &tick(10)).is_ok() && follower.is_in_step());
    assert!(follower.handle(second, &tick(11)).is_ok() && !follower.is_in_step());
    assert_eq!((follower.promote(0), follower.handle(second, &batch).is_err()), (Ok(5), true));
    assert_eq!(lock(&disk).part, Part::Leader);
}

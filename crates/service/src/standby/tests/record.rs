//! The record of who leads beside leaders and followers: requests whose answers are lost or late, an etcd that is away or emptied, nodes that
//! pause, cuts between them, and clocks that run at two speeds.

use super::super::leader::Unconfirmed;
use super::super::record::{Machine, Record, RecordStore, Swapped, Versioned};
use super::super::right::{Action, Alone, Answer, FollowerStatus, Holder, Step, Terms, Watcher, perform};
use super::*;
use crate::simulation::tests::requested_seeds;

const TERMS: Terms = Terms { lease: Duration::from_millis(1_500), skew: Duration::from_millis(500) };

/// The record, as something with a majority has it.
#[derive(Default)]
struct Register {
    found: Option<Versioned>,
    writes: u64,
}

impl RecordStore for Register {
    fn read(&mut self) -> Result<Option<Versioned>, String> {
        Ok(self.found.clone())
    }

    fn swap(&mut self, expected: Option<&str>, record: &Record) -> Result<Swapped, String> {
        if self.found.as_ref().map(|found| &*found.version) != expected {
            return Ok(Swapped::Other(self.found.clone()));
        }
        self.writes += 1;
        let version = self.writes.to_string();
        self.found = Some(Versioned { record: record.clone(), version: version.clone() });
        Ok(Swapped::Done(version))
    }
}

/// What a node's process does with the record.
#[derive(Default)]
enum Side {
    #[default]
    New,
    Holds(Box<Holder>),
    Watches(Box<Watcher>),
}

/// A node's process.
#[derive(Default)]
struct Node {
    side: Side,
    /// Whether its epoch begins with this process.
    begins: bool,
    /// When a frame came last.
    heard: Option<Duration>,
    /// A request was sent at that time, and this is to come of it.
    awaits: Option<(Duration, Answer)>,
    /// It does nothing until then.
    paused_until: Duration,
}

/// Everything about the record, and the time.
#[derive(Default)]
pub(super) struct Recorded {
    now: Duration,
    register: Register,
    nodes: [Node; 2],
    /// Swaps that are done later.
    late: Vec<Action>,
    /// Neither node hears the other until then.
    cut_until: Duration,
    /// No node hears the register until then.
    away_until: Duration,
    /// Since when no disk is a leader's.
    headless_since: Option<Duration>,
    /// Batches acknowledged alone, and take-overs by the record.
    pub(super) alone: u32,
    taken_over: u32,
    emptied: u32,
    runs: u64,
}

impl Recorded {
    /// A node's clock: one runs a twentieth faster.
    pub(super) fn clock(&self, node: usize) -> Duration {
        self.now + self.now / 20 * u32::from(node == 1)
    }

    pub(super) fn restart(&mut self, node: usize) {
        let paused_until = self.nodes[node].paused_until;
        self.nodes[node] = Node { paused_until, ..Node::default() };
    }

    pub(super) fn begin(&mut self, node: usize) {
        self.nodes[node].begins = true;
    }

    pub(super) fn hear(&mut self, node: usize) {
        self.nodes[node].heard = Some(self.clock(node));
    }

    /// A leader of that epoch acknowledges alone.
    pub(super) fn check_alone(&self, epoch: u64) -> Result<(), Wrong> {
        match &self.register.found {
            Some(found) if found.record.epoch > epoch || found.record.in_step.is_some() => {
                Err(format!("acknowledged alone in epoch {epoch}, and recorded is {:?}", found.record))
            }
            _ => Ok(()),
        }
    }
}

impl World {
    /// Whether the node goes on, both do and hear each other, and the connection's ends are heard.
    pub(super) fn is_going_on(&self, node: usize, at: usize) -> [bool; 3] {
        let Recorded { now, nodes, cut_until, .. } = &self.recorded;
        let goes_on = |node: usize| nodes[node].paused_until <= *now;
        let from = self.connections.get(at).map_or(node, |connection| connection.from);
        let is_joined = cut_until <= now;
        [goes_on(node), is_joined && goes_on(1 - from), is_joined && goes_on(from)]
    }

    /// Time passes, and things happen to nodes, cables and the register.
    fn happen(&mut self) {
        let Recorded { now, nodes, register, late, cut_until, away_until, emptied, .. } = &mut self.recorded;
        let random = &mut self.random;
        *now += Duration::from_micros(random.u64(..10_000));
        let until = *now + Duration::from_millis(random.u64(..6_000));
        match random.u32(..10_000) {
            0..8 => nodes[0].paused_until = until,
            8..16 => nodes[1].paused_until = until,
            16..22 => *cut_until = until,
            22..26 => *away_until = until,
            26..28 => {
                // What was on its way to it is gone, too.
                late.clear();
                register.found = None;
                *emptied += 1;
            }
            28..100 if !late.is_empty() => {
                let action = late.swap_remove(random.usize(..late.len()));
                perform(register, action);
            }
            _ => {}
        }
    }

    /// Sends a request to the register. What comes of it is taken later.
    fn request(&mut self, node: usize, action: Action) {
        let sent_at = self.recorded.clock(node);
        let lost = || Answer::Failed("no answer".to_owned());
        let is_away = self.recorded.away_until > self.recorded.now;
        let answer = match self.random.u32(..100) {
            _ if is_away => lost(),
            0..4 => lost(),
            4..8 => {
                self.recorded.late.push(action);
                lost()
            }
            8..12 => {
                perform(&mut self.recorded.register, action);
                lost()
            }
            _ => perform(&mut self.recorded.register, action),
        };
        self.recorded.nodes[node].awaits = Some((sent_at, answer));
    }

    /// A node's process looks after the record.
    fn keep(&mut self, node: usize) {
        let now = self.recorded.clock(node);
        let state = &mut self.recorded.nodes[node];
        if matches!(state.side, Side::New) {
            self.recorded.runs += 1;
            let machine = Machine { name: format!("node {node}"), number: node as u64 + 1, run: self.recorded.runs };
            state.side = match &self.nodes[node] {
                Process::Leader { leader, .. } => {
                    let (epoch, begins) = (leader.epoch(), state.begins);
                    Side::Holds(Box::new(Holder::new(machine, TERMS, (SERVICE, epoch), begins)))
                }
                Process::Follower(_) => Side::Watches(Box::new(Watcher::new(machine, TERMS))),
            };
        }
        let answer = state.awaits.take();
        let action = match (&mut state.side, &mut self.nodes[node]) {
            (Side::Holds(holder), Process::Leader { leader, .. }) => {
                if let Some((sent_at, answer)) = answer {
                    holder.handle(sent_at, now, answer);
                }
                if let Some(epoch) = holder.superseded() {
                    return leader.lose_right(epoch);
                }
                let step = match leader.step() {
                    Step::Out if self.of == Break::InStepEarly && leader.progress() == Progress::InStep => {
                        Step::In(2 - node as u64)
                    }
                    step => step,
                };
                let action = holder.poll(now, step, leader.contact_at());
                let alone = holder.alone(now);
                leader.set_alone(if self.of == Break::UnrecordedAlone { Alone::Until(Duration::MAX) } else { alone });
                action
            }
            (Side::Watches(watcher), Process::Follower(follower)) => {
                if let Some((sent_at, mut answer)) = answer {
                    if let Answer::Found(Some(found)) = &mut answer
                        && self.of == Break::UnreadRecord
                    {
                        found.record.in_step = Some(node as u64 + 1);
                    }
                    watcher.handle(sent_at, now, answer);
                }
                if let Some(epoch) = watcher.won() {
                    return self.lead(node, epoch - 1);
                }
                let status =
                    FollowerStatus { state: follower.state(), is_copying: follower.is_copying(), heard: state.heard };
                watcher.poll(now, &status)
            }
            _ => panic!("a process has the other side's record"),
        };
        if !matches!(action, Action::Wait(_)) {
            self.request(node, action);
        }
    }

    /// A follower leads in the epoch behind that one, if its disk says so.
    fn lead(&mut self, node: usize, behind: u64) {
        let Process::Follower(follower) = &mut self.nodes[node] else { return };
        if let Ok(epoch) = follower.promote(behind) {
            self.served[node] = epoch;
            self.recorded.taken_over += 1;
            self.restart(node);
            self.recorded.begin(node);
        }
    }

    /// After a change of roles that both left as followers, an operator has the one take over that has everything.
    fn promote_last(&mut self) {
        let is_headless = self.disks.iter().all(|disk| lock(disk).part == Part::Follower);
        let since = *self.recorded.headless_since.get_or_insert(self.recorded.now);
        if !is_headless {
            self.recorded.headless_since = None;
        } else if self.recorded.now - since > Duration::from_secs(10) {
            let acknowledged = &self.acknowledged;
            let has_all = |disk: &Arc<Mutex<Disk>>| lock(disk).stored.batches.is_superset(acknowledged);
            let behind = self.recorded.register.found.as_ref().map_or(0, |found| found.record.epoch);
            let behind = self.disks.iter().map(|disk| lock(disk).epoch).max().unwrap_or(0).max(behind);
            if let Some(node) = self.disks.iter().position(has_all) {
                self.lead(node, behind);
            }
        }
    }
}

/// Runs a seed of two nodes with a record. Returns the world, or what went wrong.
fn run_recorded(seed: u64, stops_alone: bool, of: Break) -> Result<World, Wrong> {
    let settings = LeaderSettings { stops_alone, machine: 1, ..STRICT };
    let mut world = World::new(seed, settings, of);
    // The first leader's store is new.
    world.recorded.begin(0);
    for step in 0..30_000 {
        let wrong = |wrong: Wrong| format!("seed {seed}, step {step}: {wrong}");
        world.happen();
        let node = world.random.usize(..2);
        if world.random.u32(..5) > 0 {
            world.step().map_err(wrong)?;
        } else if world.recorded.nodes[node].paused_until <= world.recorded.now {
            world.keep(node);
            world.promote_last();
            world.check().map_err(wrong)?;
        }
    }
    Ok(world)
}

#[test]
fn no_acknowledged_batch_is_lost_and_none_is_acknowledged_alone_under_a_superseded_epoch() {
    let (mut acknowledged, mut alone, mut taken_over, mut emptied) = (0, 0, 0, 0);
    let seeds = requested_seeds(0..20);
    let is_usual = seeds == (0..20);
    for seed in seeds {
        for stops_alone in [false, true] {
            let World { acknowledged: of_world, recorded, .. } =
                run_recorded(seed, stops_alone, Break::Nothing).unwrap();
            acknowledged += of_world.len();
            (alone, taken_over) = (alone + recorded.alone, taken_over + recorded.taken_over);
            emptied += recorded.emptied;
        }
    }
    assert!(
        !is_usual || acknowledged > 5_000 && alone > 500 && taken_over > 60 && emptied > 100,
        "{acknowledged} {alone} {taken_over} {emptied}"
    );
}

#[test]
fn seeds_notice_a_promise_of_the_record_that_is_broken() {
    for of in [Break::UnrecordedAlone, Break::InStepEarly, Break::UnreadRecord] {
        assert!((0..200).any(|seed| run_recorded(seed, false, of).is_err()), "{of:?}");
    }
}

fn machine(number: u64) -> Machine {
    Machine { name: format!("machine {number}"), number, run: number + 10 }
}

fn record(epoch: u64, of: u64, counter: u64, in_step: Option<u64>) -> Versioned {
    let Machine { name: holder, number: machine, run } = machine(of);
    let record = Record { service: SERVICE, epoch, holder, machine, run, counter, in_step };
    Versioned { record, version: counter.to_string() }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn a_leader_goes_on_alone_only_while_a_valid_record_of_its_own_says_so() {
    let mut holder = Holder::new(machine(1), TERMS, (SERVICE, 3), false);
    assert_eq!(holder.poll(ms(0), Step::Out, None), Action::Read);
    holder.handle(ms(0), ms(10), Answer::Found(Some(record(3, 1, 7, Some(2)))));
    assert_eq!(holder.alone(ms(10)), Alone::Pending);
    let Action::Swap { expected, record: written } = holder.poll(ms(10), Step::Out, None) else { panic!() };
    assert_eq!((expected.as_deref(), written.counter, written.in_step), (Some("7"), 8, None));
    let version = "8".to_owned();
    holder.handle(ms(10), ms(400), Answer::Swapped(Versioned { record: written, version }));
    // From before the renewal was sent.
    assert_eq!(holder.alone(ms(400)), Alone::Until(ms(1_510)));
    assert_eq!(holder.poll(ms(400), Step::Out, None), Action::Wait(ms(510)));
    // The follower is in step: from when that is sent on, it is not alone.
    let Action::Swap { record: written, .. } = holder.poll(ms(420), Step::In(2), Some(ms(415))) else { panic!() };
    assert_eq!((written.counter, written.in_step), (9, Some(2)));
    assert_ne!(holder.alone(ms(420)), Alone::Until(ms(1_510)));
    // The answer is lost, and it was not written: that may still happen.
    holder.handle(ms(420), ms(1_000), Answer::Failed("no answer".to_owned()));
    assert_eq!((holder.alone(ms(1_000)), holder.trouble()), (Alone::No, "the record is out of reach: no answer"));
    holder.handle(ms(1_200), ms(1_210), Answer::Found(Some(record(3, 1, 8, None))));
    assert!(!matches!(holder.alone(ms(1_210)), Alone::Until(_)));
    // Another one leads.
    holder.handle(ms(1_300), ms(1_310), Answer::Found(Some(record(4, 2, 0, Some(2)))));
    assert_eq!((holder.superseded(), holder.alone(ms(1_310))), (Some(4), Alone::No));
}

#[test]
fn a_record_that_is_gone_or_went_back_is_written_anew_only_when_the_follower_has_answered_or_by_order() {
    for (found, what) in
        [(None, "is gone"), (Some(record(2, 2, 90, None)), "epoch 2"), (Some(record(3, 1, 4, None)), "counter 4")]
    {
        let mut holder = Holder::new(machine(1), TERMS, (SERVICE, 3), false);
        holder.handle(ms(0), ms(0), Answer::Swapped(record(3, 1, 7, None)));
        holder.handle(ms(600), ms(610), Answer::Found(found.clone()));
        assert!(holder.trouble().contains(what), "{}", holder.trouble());
        assert!(!matches!(holder.poll(ms(610), Step::Out, None), Action::Swap { .. }));
        // What the follower answers was asked before.
        assert!(!matches!(holder.poll(ms(611), Step::Out, Some(ms(609))), Action::Swap { .. }));
        let Action::Swap { expected, record: written } = holder.poll(ms(620), Step::Out, Some(ms(611))) else {
            panic!()
        };
        assert_eq!((expected, written.epoch), (found.map(|found| found.version), 3));
        assert!(written.counter > 7);
        holder.begin();
        assert!(matches!(holder.poll(ms(630), Step::Out, None), Action::Swap { .. }));
    }
    // That of another service is left alone; and two machines that lead in one epoch are one too many.
    let mut holder = Holder::new(machine(1), TERMS, (SERVICE, 3), true);
    let mut other = record(1, 2, 0, None);
    other.record.service = 99;
    holder.handle(ms(0), ms(0), Answer::Found(Some(other)));
    assert!(holder.trouble().contains("standby.record.key"));
    assert!(!matches!(holder.poll(ms(1), Step::Out, None), Action::Swap { .. }));
    holder.handle(ms(0), ms(0), Answer::Found(Some(record(3, 2, 0, None))));
    assert_eq!(holder.superseded(), Some(3));
}

#[test]
fn a_follower_takes_over_what_nobody_renews_if_it_has_everything() {
    let state = State { service: SERVICE, epoch: 3, is_whole: true, position: Position::default(), machine: 2 };
    let status = FollowerStatus { state, is_copying: false, heard: None };
    let after = |found: Option<Versioned>, status: &FollowerStatus| {
        let mut watcher = Watcher::new(machine(2), TERMS);
        assert_eq!(watcher.poll(ms(0), status), Action::Read);
        watcher.handle(ms(0), ms(5), Answer::Found(found.clone()));
        watcher.handle(ms(1_900), ms(1_910), Answer::Found(found.clone()));
        assert!(!matches!(watcher.poll(ms(2_500), status), Action::Swap { .. }), "the last read is too old");
        watcher.handle(ms(2_005), ms(2_600), Answer::Found(found));
        (watcher.poll(ms(2_600), status), watcher)
    };
    let (action, mut watcher) = after(Some(record(3, 1, 7, Some(2))), &status);
    let Action::Swap { expected, record: written } = action else { panic!() };
    assert_eq!((expected.as_deref(), written.epoch, written.machine, written.in_step), (Some("7"), 4, 2, Some(2)));
    assert!(watcher.is_renewed(ms(1_000)) && !watcher.is_renewed(ms(2_600)));
    // Its answer is lost, and it was done.
    watcher.handle(ms(2_600), ms(2_700), Answer::Failed("no answer".to_owned()));
    assert_eq!(watcher.won(), None);
    assert!(matches!(watcher.poll(ms(2_701), &status), Action::Wait(until) if until > ms(2_701)), "no haste");
    assert!(matches!(watcher.poll(ms(2_900), &status), Action::Swap { .. }));
    watcher.handle(ms(2_800), ms(2_810), Answer::Found(Some(record(4, 2, 0, Some(2)))));
    assert_eq!(watcher.won(), Some(4));
    // The process ended before that was on its disk.
    let mut of_former = record(4, 2, 0, Some(2));
    of_former.record.run = 99;
    assert!(matches!(after(Some(of_former), &status).0, Action::Swap { record, .. } if record.epoch == 5));
    let refused = |found: Option<Versioned>, status: &FollowerStatus, why: &str| {
        let (action, watcher) = after(found, status);
        assert!(!matches!(action, Action::Swap { .. }));
        assert!(watcher.trouble().contains(why), "{}", watcher.trouble());
    };
    refused(Some(record(3, 1, 7, None)), &status, "does not say that this follower has everything");
    refused(Some(record(3, 1, 7, Some(9))), &status, "--accept-loss");
    refused(Some(record(4, 1, 7, Some(2))), &status, "does not say");
    refused(Some(record(2, 1, 7, Some(2))), &status, "put back from a backup");
    refused(None, &status, "there is no record of a leader");
    let partly = FollowerStatus { state: State { is_whole: false, ..state }, ..status };
    refused(Some(record(3, 1, 7, Some(2))), &partly, "no whole copy");
    // It hears of the leader, which cannot write the record.
    let hears = FollowerStatus { heard: Some(ms(2_000)), ..status };
    assert!(!matches!(after(Some(record(3, 1, 7, Some(2))), &hears).0, Action::Swap { .. }));
}

#[test]
fn a_leader_waits_for_the_record_before_it_is_alone_and_follows_no_machine_of_its_own_name() {
    let at = Position { epoch: 1, number: 0, chain: 5 };
    let settings = LeaderSettings { stops_alone: false, machine: 1, ..STRICT };
    let mut leader = Leader::new(settings, SERVICE, 1, at);
    let found = leader.begin(at, vec![0; 8], ms(0));
    leader.end(true);
    assert_eq!((leader.confirmed(ms(0)), leader.step()), (None, Step::Out));
    leader.set_alone(Alone::Until(ms(500)));
    assert_eq!((leader.confirmed(ms(499)), leader.confirmed(ms(500))), (Some(Ok(())), None));
    leader.set_alone(Alone::No);
    assert_eq!(leader.confirmed(ms(499)), Some(Err(Unconfirmed::NotRecorded)));
    assert_eq!(leader.may_write(ms(499)), Err(Unconfirmed::NotRecorded));
    // A follower that lacks the batch joins, and is recorded as in step when it has it.
    let follower = State { service: SERVICE, epoch: 1, is_whole: true, position: at, machine: 2 };
    assert_eq!(leader.greet(&State { machine: 1, ..follower }), Greeted::SameMachine);
    assert_eq!(leader.greet(&follower), Greeted::Resumes);
    assert_eq!((leader.progress(), leader.step(), leader.confirmed(ms(0))), (Progress::InStep, Step::Out, None));
    assert!(leader.poll_shipment().is_some() && leader.acknowledge(found));
    assert_eq!((leader.step(), leader.confirmed(ms(0))), (Step::In(2), Some(Ok(()))));
    leader.suspend();
    assert_eq!((leader.step(), leader.confirmed(ms(0))), (Step::Unchanged, None));
    leader.lose();
    assert_eq!((leader.step(), leader.confirmed(ms(0))), (Step::Out, Some(Err(Unconfirmed::NotRecorded))));
    leader.lose_right(1);
    assert_eq!(leader.confirmed(ms(0)), Some(Err(Unconfirmed::Superseded(1))));
}

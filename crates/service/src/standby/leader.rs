//! The leader's side of replication, as a state machine without sockets, clocks and threads.
//!
//! The store's thread says what it commits ([`begin`](Leader::begin), [`end`](Leader::end)), and asks whether that may be acknowledged
//! ([`confirmed`](Leader::confirmed)). The connection's thread says what the follower answers, and sends what
//! [`poll_shipment`](Leader::poll_shipment) gives.
//!
//! Batches that the follower has yet to confirm are the *tail*. A follower whose position is in it goes on from there; any other one needs a
//! copy: a snapshot, and the tail behind it. In synchronous mode a batch is sent while it is being committed here, so that both disks work
//! at once, and is confirmed when the follower has committed it. If the commit fails here, the follower may have a batch that this store has
//! not: their chains differ then, and it needs a copy.

use core::cmp::Ordering;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use super::follower::other_service;
use super::frame::{Hello, State};
use super::right::{Alone, Step};
use crate::store::replication::Position;

/// Batches that a follower may lack when it joins: from then on it is waited for.
const JOINS_WITHIN: usize = 8;

/// How a leader ships.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaderSettings {
    /// Whether nothing is acknowledged before the follower has it.
    pub(crate) is_synchronous: bool,
    /// Whether nothing is acknowledged without a follower.
    pub(crate) stops_alone: bool,
    /// Maximum octets of the tail.
    pub(crate) lag_max: u64,
    /// The number of this machine, if there is a record of who leads; else 0.
    pub(crate) machine: u64,
}

/// A batch to ship.
#[derive(Debug, Clone)]
pub(crate) struct Shipment {
    /// The position behind it.
    pub(crate) position: Position,
    pub(crate) operations: Arc<Vec<u8>>,
    /// When it began, by the caller's clock.
    began: Duration,
}

/// The follower, as the leader knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Away,
    /// One that was waited for was lost, and is called before the leader goes on alone: it may have been promoted.
    Lost,
    /// It is connected, and a snapshot is due.
    NeedsSnapshot,
    Copying,
    /// `sent` batches of the tail are on their way. Whether it has `joined`: it lacked few batches at one time; and `had_all` at one time
    /// since: everything that was acknowledged.
    Following {
        sent: usize,
        joined: bool,
        had_all: bool,
    },
}

/// A planned change of roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Switch {
    Off,
    /// Nothing more is taken in, until the follower has everything.
    Closing,
    /// The disk says that this is a follower in the next epoch: the other machine is to take over in that.
    Demoted,
}

/// A batch whose commit has not succeeded yet.
#[derive(Debug, Clone, Copy)]
struct Open {
    position: Position,
    has_failed: bool,
}

/// Why nothing may be acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unconfirmed {
    /// There is no follower in step, and the settings say that nothing is acknowledged then.
    NoFollower,
    /// A follower has seen this higher epoch: another leader has taken over.
    Superseded(u64),
    /// The follower is about to take over.
    Closing,
    /// There is no follower in step, and the record of who leads does not say so.
    NotRecorded,
}

/// What follows from a follower's greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Greeted {
    /// It goes on from its position.
    Resumes,
    /// It needs a copy.
    NeedsCopy,
    /// It has seen a higher epoch.
    Superseded,
    /// It has the data of another service, with this number.
    OtherService(u64),
    /// The record of who leads cannot tell it from this machine.
    SameMachine,
}

/// What there is to be said of replication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    Alone,
    Lost,
    Copying,
    CatchingUp,
    InStep,
}

impl Progress {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Alone => "no follower",
            Self::Lost => "calling again",
            Self::Copying => "first copy",
            Self::CatchingUp => "catching up",
            Self::InStep => "in step",
        }
    }
}

/// What the follower lacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Lag {
    pub(crate) batches: u64,
    /// Octets of those in the tail: without one, 0.
    pub(crate) bytes: u64,
    /// Time since the first of them began.
    pub(crate) ms: u64,
}

/// The leader's side of replication.
#[derive(Debug)]
pub(crate) struct Leader {
    settings: LeaderSettings,
    service: u64,
    epoch: u64,
    /// The position behind the last batch known to be committed.
    position: Position,
    /// The tail, and the position before it.
    base: Position,
    tail: VecDeque<Shipment>,
    tail_bytes: u64,
    /// Whether the tail has all batches behind `base`.
    is_recording: bool,
    open: Option<Open>,
    stage: Stage,
    /// The follower's position, as far as it has confirmed it.
    acknowledged: Position,
    superseded: Option<u64>,
    switch: Switch,
    /// Followers dropped to a new copy, since the tail became too large.
    outrun: u64,
    /// Begin of the first batch that the follower lacks, if the tail has it no more.
    lacks_since: Option<Duration>,
    /// The follower's machine, as it said last; 0 if it knows no record.
    follower: u64,
    /// When the follower was asked last what it has answered, on this connection.
    contact_at: Option<Duration>,
    /// Whether the record of who leads lets this leader acknowledge alone. Without a record it may.
    alone: Option<Alone>,
}

impl Leader {
    pub(crate) const fn new(settings: LeaderSettings, service: u64, epoch: u64, position: Position) -> Self {
        Self {
            settings,
            service,
            epoch,
            position,
            base: position,
            tail: VecDeque::new(),
            tail_bytes: 0,
            is_recording: true,
            open: None,
            stage: Stage::Away,
            acknowledged: position,
            superseded: None,
            switch: Switch::Off,
            outrun: 0,
            lacks_since: None,
            follower: 0,
            contact_at: None,
            alone: if settings.machine == 0 { None } else { Some(Alone::Pending) },
        }
    }

    // ---- the store's thread ----

    /// A batch is about to be committed behind the `found` position. Returns the position behind it.
    pub(crate) fn begin(&mut self, found: Position, operations: Vec<u8>, now: Duration) -> Position {
        self.resolve(found);
        let position = found.behind(self.epoch, &operations);
        self.open = Some(Open { position, has_failed: false });
        if self.is_recording {
            self.tail_bytes += operations.len() as u64;
            self.tail.push_back(Shipment { position, operations: Arc::new(operations), began: now });
            if self.tail_bytes > self.settings.lag_max && self.tail.len() > 1 {
                self.outrun += u64::from(self.stage != Stage::Away);
                self.stop_recording();
            }
        }
        position
    }

    /// The commit has ended.
    pub(crate) fn end(&mut self, is_committed: bool) {
        // The database has to be opened anew after a failure, which it cannot be while a snapshot is read.
        if !is_committed && matches!(self.stage, Stage::Copying | Stage::NeedsSnapshot) {
            self.stage = Stage::Away;
        }
        let Some(open) = &mut self.open else { return };
        if is_committed {
            self.position = open.position;
            self.open = None;
            self.trim();
        } else {
            open.has_failed = true;
        }
    }

    /// Whether what was committed may be acknowledged. `None`: not yet.
    pub(crate) fn confirmed(&self, now: Duration) -> Option<Result<(), Unconfirmed>> {
        if let Some(epoch) = self.superseded {
            return Some(Err(Unconfirmed::Superseded(epoch)));
        }
        match self.stage {
            Stage::Lost => None,
            Stage::Following { joined: true, .. } if self.settings.is_synchronous => {
                (self.acknowledged.number >= self.position.number).then_some(Ok(()))
            }
            _ => self.may_acknowledge(now),
        }
    }

    /// Whether anything may be written that is to be acknowledged.
    pub(crate) fn may_write(&self, now: Duration) -> Result<(), Unconfirmed> {
        match self.switch {
            Switch::Closing => Err(Unconfirmed::Closing),
            _ if self.stage == Stage::Lost && self.superseded.is_none() && !self.settings.stops_alone => Ok(()),
            _ => self.may_acknowledge(now).unwrap_or(Ok(())),
        }
    }

    /// `None`: the record of who leads is about to say.
    fn may_acknowledge(&self, now: Duration) -> Option<Result<(), Unconfirmed>> {
        match (self.superseded, self.stage, self.alone) {
            (Some(epoch), ..) => Some(Err(Unconfirmed::Superseded(epoch))),
            (None, Stage::Following { joined: true, .. }, _) if self.settings.is_synchronous => Some(Ok(())),
            (None, _, _) if self.settings.stops_alone && self.progress() != Progress::InStep => {
                Some(Err(Unconfirmed::NoFollower))
            }
            (None, _, None) => Some(Ok(())),
            (None, _, Some(Alone::Until(until))) if now < until => Some(Ok(())),
            (None, _, Some(Alone::No)) => Some(Err(Unconfirmed::NotRecorded)),
            (None, _, Some(Alone::Until(_) | Alone::Pending)) => None,
        }
    }

    // ---- the record of who leads ----

    /// What the record is to say of the follower.
    pub(crate) const fn step(&self) -> Step {
        match self.stage {
            Stage::Following { had_all: true, .. } if self.follower != 0 => Step::In(self.follower),
            // It is called before anything is acknowledged alone.
            Stage::Lost => Step::Unchanged,
            // Nothing is acknowledged alone.
            Stage::Away if self.settings.stops_alone => Step::Unchanged,
            _ => Step::Out,
        }
    }

    /// The follower has answered what it was asked at that time.
    pub(crate) const fn note_answer(&mut self, contact_at: Duration) {
        self.contact_at = Some(contact_at);
    }

    /// When the connected follower was asked last what it has answered.
    pub(crate) fn contact_at(&self) -> Option<Duration> {
        self.contact_at.filter(|_| self.has_follower())
    }

    /// Whether there is a record, and a follower that knows none.
    pub(crate) fn is_unrecorded(&self) -> bool {
        self.settings.machine != 0 && self.has_follower() && self.follower == 0
    }

    /// Whether the record lets this leader acknowledge alone.
    pub(crate) const fn set_alone(&mut self, alone: Alone) {
        self.alone = Some(alone);
    }

    /// The record says that another machine leads, in this epoch or a higher one.
    pub(crate) fn lose_right(&mut self, epoch: u64) {
        self.supersede(epoch);
    }

    pub(crate) fn needs_snapshot(&self) -> bool {
        self.stage == Stage::NeedsSnapshot
    }

    /// A snapshot was taken at a position, between two batches.
    pub(crate) fn note_snapshot(&mut self, found: Position) {
        self.resolve(found);
        self.restart_tail(found);
        if self.stage == Stage::NeedsSnapshot {
            self.stage = Stage::Copying;
        }
    }

    /// Finds out what became of a batch whose commit failed.
    fn resolve(&mut self, found: Position) {
        match self.open.take() {
            // It is on the disk after all.
            Some(open) if found == open.position => self.position = found,
            Some(_) if found == self.position => {
                let gone = if self.is_recording { self.tail.pop_back() } else { None };
                self.tail_bytes -= gone.map_or(0, |gone| gone.operations.len() as u64);
                if matches!(self.stage, Stage::Following { sent, .. } if sent > self.tail.len()) {
                    self.lose();
                }
            }
            None if found == self.position => {}
            _ => {
                self.lose();
                self.restart_tail(found);
            }
        }
    }

    fn restart_tail(&mut self, at: Position) {
        self.drop_tail();
        self.is_recording = true;
        (self.base, self.position) = (at, at);
    }

    fn stop_recording(&mut self) {
        self.drop_tail();
        (self.is_recording, self.stage) = (false, Stage::Away);
    }

    fn drop_tail(&mut self) {
        self.lacks_since = self.lacks_since.or_else(|| self.tail.front().map(|first| first.began));
        self.tail.clear();
        self.tail_bytes = 0;
    }

    /// Removes what the follower has from the tail.
    fn trim(&mut self) {
        let Stage::Following { sent, .. } = &mut self.stage else { return };
        let open = self.open.map(|open| open.position);
        let is_had =
            |first: &mut Shipment| first.position.number <= self.acknowledged.number && open != Some(first.position);
        while let Some(first) = self.tail.pop_front_if(is_had) {
            self.tail_bytes -= first.operations.len() as u64;
            self.base = first.position;
            *sent = sent.saturating_sub(1);
        }
    }

    // ---- the connection's thread ----

    /// A follower has answered, on a new connection.
    pub(crate) fn greet(&mut self, follower: &State) -> Greeted {
        self.stage = Stage::Away;
        if follower.service != 0 && follower.service != self.service {
            return Greeted::OtherService(follower.service);
        }
        if self.hear(follower.service, follower.epoch) {
            return Greeted::Superseded;
        }
        if self.settings.machine != 0 && self.settings.machine == follower.machine {
            return Greeted::SameMachine;
        }
        (self.follower, self.contact_at) = (follower.machine, None);
        let open = self.open.map(|open| open.position);
        let is_its = |position: Position| follower.position.is_same(position) && open != Some(position);
        let behind = self.tail.iter().position(|shipment| is_its(shipment.position)).map(|at| at + 1);
        let behind = behind.or_else(|| is_its(self.base).then_some(0));
        match behind.filter(|_| follower.is_whole && self.is_recording) {
            Some(sent) => {
                (self.acknowledged, self.lacks_since) = (follower.position, None);
                self.stage = Stage::Following { sent, joined: false, had_all: false };
                self.trim();
                self.join();
                Greeted::Resumes
            }
            None => {
                self.stage = Stage::NeedsSnapshot;
                Greeted::NeedsCopy
            }
        }
    }

    /// The next batch to send.
    pub(crate) fn poll_shipment(&mut self) -> Option<Shipment> {
        let is_synchronous = self.settings.is_synchronous;
        let Stage::Following { sent, joined, .. } = &mut self.stage else { return None };
        let shipment = self.tail.get(*sent)?;
        // Ahead of its commit only to a follower that is waited for; and never after a failure.
        let is_due = match self.open {
            Some(open) if open.position == shipment.position => *joined && is_synchronous && !open.has_failed,
            _ => true,
        };
        is_due.then(|| {
            *sent += 1;
            shipment.clone()
        })
    }

    /// The follower has committed everything up to a position. False if that is none that it was sent.
    pub(crate) fn acknowledge(&mut self, position: Position) -> bool {
        match self.stage {
            Stage::Copying if position == self.base => {
                (self.acknowledged, self.lacks_since) = (position, None);
                self.stage = Stage::Following { sent: 0, joined: false, had_all: false };
            }
            Stage::Following { sent, .. } => {
                let mut sent = self.tail.iter().take(sent).map(|shipment| shipment.position);
                if !position.is_same(self.base) && !sent.any(|sent| sent == position) {
                    return false;
                }
                self.acknowledged = position;
                self.trim();
            }
            _ => return false,
        }
        self.join();
        true
    }

    fn join(&mut self) {
        if let Stage::Following { joined, had_all, .. } = &mut self.stage {
            *joined |= self.tail.len() <= JOINS_WITHIN;
            *had_all |= *joined && self.settings.is_synchronous && self.acknowledged.number >= self.position.number;
        }
    }

    /// There is no follower to wait for.
    pub(crate) const fn lose(&mut self) {
        self.stage = Stage::Away;
        self.reopen();
    }

    /// The connection has ended, or the follower is silent: one that was waited for is called before the leader goes on alone.
    pub(crate) const fn suspend(&mut self) {
        let is_waited_for = matches!(self.stage, Stage::Lost | Stage::Following { joined: true, .. });
        self.stage = if is_waited_for && self.settings.is_synchronous { Stage::Lost } else { Stage::Away };
        self.reopen();
    }

    /// Another leader calls: one of the two epochs is over. Returns why it is refused.
    pub(crate) fn refuse(&mut self, hello: &Hello) -> String {
        if hello.service != self.service {
            return other_service(self.service, hello.service);
        }
        match hello.epoch.cmp(&self.epoch) {
            Ordering::Greater => {
                self.supersede(hello.epoch);
                "this leader's epoch is over, and it becomes a follower".to_owned()
            }
            Ordering::Equal => format!(
                "both are leaders of epoch {}: stop one, and start it with role = \"follower\" and an empty folder",
                self.epoch
            ),
            Ordering::Less => format!("epoch {} is over: this is the leader of epoch {}", hello.epoch, self.epoch),
        }
    }

    /// A peer with the data of that service has seen that epoch. Returns whether another leader has taken over.
    pub(crate) fn hear(&mut self, service: u64, epoch: u64) -> bool {
        let is_superseded = service == self.service && epoch > self.epoch;
        if is_superseded {
            self.supersede(epoch);
        }
        is_superseded
    }

    /// Another leader has taken over.
    fn supersede(&mut self, epoch: u64) {
        self.lose();
        self.superseded = Some(self.superseded.unwrap_or_default().max(epoch));
        self.switch = Switch::Off;
    }

    // ---- a planned change of roles ----

    /// Takes nothing more in. An error says how the follower stands that is not in step.
    pub(crate) fn close(&mut self) -> Result<(), Progress> {
        match self.progress() {
            Progress::InStep if self.superseded.is_none() => self.switch = Switch::Closing,
            progress => return Err(progress),
        }
        Ok(())
    }

    /// Goes on as the leader, if nothing else is on the disk.
    pub(crate) const fn reopen(&mut self) {
        if matches!(self.switch, Switch::Closing) {
            self.switch = Switch::Off;
        }
    }

    /// The epoch in which the follower can take over, since it has everything: that is to be on the disk.
    pub(crate) fn hands_over_in(&self) -> Option<u64> {
        (self.is_closing() && self.has_follower_all()).then(|| self.epoch.saturating_add(1))
    }

    /// The disk says that this is a follower.
    pub(crate) const fn demote(&mut self) {
        if self.superseded.is_none() {
            self.superseded = Some(self.epoch.saturating_add(1));
            self.switch = Switch::Demoted;
        }
    }

    fn has_follower_all(&self) -> bool {
        let is_joined = self.progress() == Progress::InStep;
        is_joined && self.open.is_none() && self.acknowledged.number >= self.position.number
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.switch == Switch::Closing
    }

    /// Whether the follower has yet to take over.
    pub(crate) fn is_demoted(&self) -> bool {
        self.switch == Switch::Demoted
    }

    /// Whether the follower is to be told to take over.
    pub(crate) fn hands_over(&self) -> bool {
        self.is_demoted() && self.has_follower_all()
    }

    // ---- getters ----

    pub(crate) const fn service(&self) -> u64 {
        self.service
    }

    pub(crate) const fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) const fn position(&self) -> Position {
        self.position
    }

    /// The number of the last batch that the follower has confirmed.
    pub(crate) const fn acknowledged(&self) -> u64 {
        self.acknowledged.number
    }

    pub(crate) const fn superseded(&self) -> Option<u64> {
        self.superseded
    }

    pub(crate) const fn outrun(&self) -> u64 {
        self.outrun
    }

    /// Whether the copy that was begun is still of use.
    pub(crate) fn is_copying(&self) -> bool {
        self.stage == Stage::Copying
    }

    /// Whether a connection is of use.
    pub(crate) fn has_follower(&self) -> bool {
        !matches!(self.stage, Stage::Away | Stage::Lost)
    }

    pub(crate) const fn progress(&self) -> Progress {
        match self.stage {
            Stage::Away => Progress::Alone,
            Stage::Lost => Progress::Lost,
            Stage::NeedsSnapshot | Stage::Copying => Progress::Copying,
            Stage::Following { joined: false, .. } => Progress::CatchingUp,
            Stage::Following { joined: true, .. } => Progress::InStep,
        }
    }

    pub(crate) fn lag(&self, now: Duration) -> Lag {
        let since = self.lacks_since.or_else(|| self.tail.front().map(|first| first.began));
        let ms = since.map_or(0, |since| now.saturating_sub(since).as_millis());
        Lag {
            batches: self.position.number.saturating_sub(self.acknowledged.number),
            bytes: self.tail_bytes,
            ms: u64::try_from(ms).unwrap_or(u64::MAX),
        }
    }
}

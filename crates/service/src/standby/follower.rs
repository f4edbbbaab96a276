//! The follower's side of replication, as a state machine without sockets, clocks and threads.
//!
//! Each frame of a leader gets one answer. What is under a lower epoch than the follower has seen is refused: that an epoch was seen is on
//! its disk before anything of it is taken, and a promotion raises it before anything is served.

use super::frame::{Frame, Hello, State, VERSION};
use crate::store::replication::Position;

/// The follower's store.
pub(crate) trait Replica {
    /// Its contents, as far as they are known.
    fn state(&self) -> State;

    /// Stores that this epoch was seen.
    fn see(&mut self, epoch: u64) -> Result<(), String>;

    /// Begins a copy, and drops one that was not ended. What is there stays until the copy is whole.
    fn begin_copy(&mut self) -> Result<(), String>;

    /// Adds rows to the copy.
    fn copy(&mut self, rows: &[u8]) -> Result<(), String>;

    /// The copy is whole: it takes the place of what was there.
    fn end_copy(&mut self, hello: &Hello, at: Position) -> Result<(), String>;

    /// Commits a batch behind the state's position, which the disk has to have, too: a commit that failed may be there. It is on disk on
    /// return.
    fn apply(&mut self, operations: &[u8], at: Position) -> Result<(), String>;

    /// Becomes a leader's store, on disk, in the epoch behind the highest that it has seen and the one given. Returns the epoch.
    fn promote(&mut self, behind: u64) -> Result<u64, String>;

    /// Whether the disk may say that this is a leader's store: after a promotion that failed.
    fn may_lead(&mut self) -> bool;
}

/// The follower's side.
pub(crate) struct Follower<R> {
    replica: R,
    /// The number of this machine, if there is a record of who leads; else 0.
    machine: u64,
    /// The connection that counts: the last one that was not refused.
    session: u64,
    leader: Option<Hello>,
    is_copying: bool,
    /// Whether the leader says that this follower is in step.
    is_in_step: bool,
    /// The leader's position as it was said last, and the octets that were not confirmed then.
    pub(crate) leader_at: Position,
    pub(crate) lag_bytes: u64,
    is_promoted: bool,
    /// Connections refused for a lower epoch.
    pub(crate) refused: u64,
}

impl<R: Replica> Follower<R> {
    pub(crate) fn new(replica: R, machine: u64) -> Self {
        let leader_at = replica.state().position;
        Self {
            replica,
            machine,
            session: 0,
            leader: None,
            is_copying: false,
            is_in_step: false,
            leader_at,
            lag_bytes: 0,
            is_promoted: false,
            refused: 0,
        }
    }

    /// A leader's first frame on a connection. Returns the number of the session, and the answer; after an error the connection is closed.
    pub(crate) fn greet(&mut self, hello: Hello) -> (u64, Frame) {
        let state = self.replica.state();
        let refuse = |why: String| (0, Frame::Refused { service: state.service, epoch: state.epoch, why });
        if self.is_promoted {
            return refuse("it is about to serve".to_owned());
        }
        if hello.version != VERSION {
            return refuse(format!("it knows version {VERSION} of the protocol, and not {}", hello.version));
        }
        // Epochs of two services have nothing to do with each other.
        if state.service != 0 && state.service != hello.service {
            return refuse(other_service(state.service, hello.service));
        }
        if hello.epoch < state.epoch {
            self.refused += 1;
            return refuse(format!("epoch {} is over: there has been a leader of epoch {}", hello.epoch, state.epoch));
        }
        if hello.epoch > state.epoch
            && let Err(why) = self.replica.see(hello.epoch)
        {
            return refuse(why);
        }
        self.session += 1;
        (self.is_copying, self.is_in_step, self.leader_at) = (false, false, hello.position);
        self.leader = Some(hello);
        (self.session, Frame::State(State { machine: self.machine, ..self.replica.state() }))
    }

    /// A frame of a session. After an error the connection is closed.
    pub(crate) fn handle(&mut self, session: u64, frame: &Frame) -> Result<Frame, String> {
        let Some(hello) = self.leader.as_ref().filter(|_| session == self.session && !self.is_promoted) else {
            return Err("another connection has taken its place".to_owned());
        };
        match frame {
            Frame::BeginCopy => {
                self.replica.begin_copy()?;
                self.is_copying = true;
            }
            Frame::Rows(rows) if self.is_copying => self.replica.copy(rows)?,
            Frame::EndCopy(at) if self.is_copying => {
                self.replica.end_copy(hello, *at)?;
                self.is_copying = false;
            }
            Frame::Batch(at, operations) if !self.is_copying => {
                let state = self.replica.state();
                if !state.is_whole || state.position.behind(at.epoch, operations) != *at {
                    return Err(format!("batch {} does not follow on {}", at.number, state.position.number));
                }
                self.replica.apply(operations, *at)?;
                self.leader_at.number = self.leader_at.number.max(at.number);
            }
            Frame::Tick { position, lag_bytes, is_in_step } => {
                (self.leader_at, self.lag_bytes, self.is_in_step) = (*position, *lag_bytes, *is_in_step);
            }
            Frame::TakeOver if !self.is_copying => _ = self.promote(0)?,
            other => return Err(format!("{} is out of place", other.name())),
        }
        Ok(Frame::Acknowledged(self.replica.state().position))
    }

    /// A connection has ended.
    pub(crate) fn end(&mut self, session: u64) -> bool {
        let was_its = session == self.session && self.leader.is_some();
        if was_its {
            self.leader = None;
        }
        was_its
    }

    /// Raises the epoch, above the one given, too. From then on nothing is taken. It goes on as a follower after an error only if the
    /// promotion is not on the disk.
    pub(crate) fn promote(&mut self, behind: u64) -> Result<u64, String> {
        let promoted = self.replica.promote(behind);
        self.is_promoted = promoted.is_ok() || self.replica.may_lead();
        promoted
    }

    /// Whether the disk says, or may say, that this is a leader's store.
    pub(crate) const fn is_promoted(&self) -> bool {
        self.is_promoted
    }

    /// Whether a leader is connected.
    pub(crate) const fn has_leader(&self) -> bool {
        self.leader.is_some()
    }

    pub(crate) const fn is_copying(&self) -> bool {
        self.is_copying
    }

    /// Whether it has all that the leader waited for it to have, when that was heard of last.
    pub(crate) fn is_in_step(&self) -> bool {
        let state = self.replica.state();
        self.is_in_step && state.is_whole && !self.is_copying && state.position.number >= self.leader_at.number
    }

    pub(crate) fn state(&self) -> State {
        self.replica.state()
    }

    pub(crate) const fn replica(&mut self) -> &mut R {
        &mut self.replica
    }
}

/// Why a follower with the data of another service is refused.
pub(crate) fn other_service(of_follower: u64, of_leader: u64) -> String {
    format!(
        "the follower has the data of service {of_follower:016x}, and the leader those of {of_leader:016x}: give the follower an empty \
         folder (store.directory), or name the right peer"
    )
}

//! State shared by publishers' threads and the end point's own: the state machine, and pending output.

use std::sync::atomic::AtomicBool;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use tempo::Nanos;
use tempo::endpoint::{Place, Refused, To, TopicId, TopicSettings};
use tempo::wire::Content;

use super::core::Core;
use super::datagrams::Datagrams;
use super::error::Error;
use super::gather::Gather;
use super::handler::Handler;
use super::now;
use super::streams::Outputs;
use super::wake::Wake;
use crate::lock;

/// An end point, shared by all its threads.
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) datagrams: Option<Datagrams>,
    pub(super) wake: Wake,
    /// Notified when output has left, for publishers that wait for room.
    room: Condvar,
    /// Notified when a peer appears or goes.
    peers: Condvar,
    /// Whether the end point's thread has to end.
    pub(super) is_closing: AtomicBool,
}

/// The state under the lock.
pub(super) struct State {
    pub(super) core: Box<dyn Core>,
    pub(super) outputs: Outputs,
    pub(super) gather: Gather,
    pub(super) topics: Vec<(TopicId, Handler)>,
    /// Counts up when topics are added or removed.
    pub(super) topics_version: u64,
    /// When the end point's thread wakes up.
    pub(super) wakes_at: Nanos,
    /// The end point's thread, if it has one.
    pub(super) thread: Option<ThreadId>,
    waiting_for_room: usize,
    waiting_for_peers: usize,
}

impl Shared {
    pub(super) fn new(core: Box<dyn Core>, datagrams: Option<Datagrams>, stream_room: usize) -> std::io::Result<Self> {
        let state = State {
            core,
            outputs: Outputs::new(stream_room),
            gather: Gather::new(),
            topics: Vec::new(),
            topics_version: 0,
            wakes_at: 0,
            thread: None,
            waiting_for_room: 0,
            waiting_for_peers: 0,
        };
        Ok(Self {
            state: Mutex::new(state),
            datagrams,
            wake: Wake::new()?,
            room: Condvar::new(),
            peers: Condvar::new(),
            is_closing: AtomicBool::new(false),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Sends all output, and releases the lock. Wakes the end point's thread if it would sleep for too long.
    pub(super) fn send(&self, mut state: MutexGuard<'_, State>, now: Nanos) {
        let waits_otherwise = state.transmit(now, self.datagrams.as_ref());
        let is_earlier = state.core.next_timeout().is_some_and(|due| due < state.wakes_at);
        drop(state);
        if waits_otherwise || is_earlier {
            self.wake.wake();
        }
    }

    /// Sends as [`send`](Self::send) does, after only messages were handed over, which bring no earlier deadline.
    fn send_messages(&self, mut state: MutexGuard<'_, State>, now: Nanos) {
        let waits_otherwise = state.transmit(now, self.datagrams.as_ref());
        drop(state);
        if waits_otherwise {
            self.wake.wake();
        }
    }

    /// Changes a topic, and announces it at once to its peers.
    pub(super) fn command<T>(&self, command: impl FnOnce(&mut dyn Core) -> T) -> T {
        let mut state = self.state();
        let now = now();
        let outcome = command(&mut *state.core);
        self.send(state, now);
        outcome
    }

    pub(super) fn add_topic(&self, settings: TopicSettings<'_>, handler: Handler) -> Result<TopicId, Error> {
        let mut state = self.state();
        let now = now();
        let topic = state.core.add_topic(now, settings)?;
        state.topics.push((topic, handler));
        state.topics_version += 1;
        self.send(state, now);
        Ok(topic)
    }

    pub(super) fn remove_topic(&self, topic: TopicId) {
        let mut state = self.state();
        let now = now();
        state.core.remove_topic(topic);
        state.topics.retain(|(other, _)| *other != topic);
        state.topics_version += 1;
        self.send(state, now);
    }

    /// Publishes a message, and sends it on this thread if sockets take it. Waits for room for so long at most.
    pub(super) fn publish(
        &self,
        topic: TopicId,
        (priority, content): (i16, Content),
        octets: &[u8],
        patience: Duration,
    ) -> Result<(), Error> {
        let (state, now) = self.hand_over(self.state(), topic, (priority, content), octets, patience)?;
        self.send_messages(state, now);
        Ok(())
    }

    /// Publishes several messages, and sends them together.
    pub(super) fn publish_all<O: AsRef<[u8]>>(
        &self,
        topic: TopicId,
        (priority, content): (i16, Content),
        messages: &[O],
        patience: Duration,
    ) -> Result<(), Error> {
        let mut state = self.state();
        let mut now = now();
        for message in messages {
            (state, now) = self.hand_over(state, topic, (priority, content), message.as_ref(), patience)?;
        }
        self.send_messages(state, now);
        Ok(())
    }

    /// Passes a message to the state machine, making room where there is none.
    fn hand_over<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        topic: TopicId,
        (priority, content): (i16, Content),
        octets: &[u8],
        patience: Duration,
    ) -> Result<(MutexGuard<'s, State>, Nanos), Error> {
        let mut began = None;
        loop {
            let time = now();
            match state.core.publish(time, topic, priority, content, octets) {
                Ok(()) => return Ok((state, time)),
                Err(Refused::Full) => {}
                Err(refused) => return Err(refused.into()),
            }
            // What was gathered leaves; that may be all there is to do.
            let waits_otherwise = state.transmit(time, self.datagrams.as_ref());
            if state.core.publish(time, topic, priority, content, octets).is_ok() {
                return Ok((state, time));
            }
            if waits_otherwise {
                self.wake.wake();
            }
            let began = *began.get_or_insert_with(Instant::now);
            let left = patience.saturating_sub(began.elapsed());
            // No thread would make room while the one that does so waits for it.
            if left.is_zero() || state.thread.is_none_or(|thread| thread == thread::current().id()) {
                return Err(Error::Full { waited: began.elapsed().min(patience) });
            }
            state.waiting_for_room += 1;
            state = self.room.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            state.waiting_for_room -= 1;
        }
    }

    /// Waits for a condition that changes with peers. Returns false on timeout.
    pub(super) fn wait_for_peers(&self, timeout: Duration, mut holds: impl FnMut(&mut State) -> bool) -> bool {
        let began = Instant::now();
        let mut state = self.state();
        loop {
            if holds(&mut state) {
                return true;
            }
            let left = timeout.saturating_sub(began.elapsed());
            if left.is_zero() {
                return false;
            }
            state.waiting_for_peers += 1;
            state = self.peers.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            state.waiting_for_peers -= 1;
        }
    }

    /// Waits until all output has left this process. Returns false on timeout.
    pub(super) fn wait_until_sent(&self, timeout: Duration) -> bool {
        let began = Instant::now();
        let mut state = self.state();
        loop {
            state.transmit(now(), self.datagrams.as_ref());
            if state.has_left() {
                return true;
            }
            let left = timeout.saturating_sub(began.elapsed());
            if left.is_zero() || state.thread.is_none_or(|thread| thread == thread::current().id()) {
                return false;
            }
            state.waiting_for_room += 1;
            self.wake.wake();
            state = self.room.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            state.waiting_for_room -= 1;
        }
    }

    /// Notifies the waiting threads, after a pass.
    pub(super) fn tell(&self, state: &State, has_met: bool) {
        if state.waiting_for_room > 0 {
            self.room.notify_all();
        }
        if has_met && state.waiting_for_peers > 0 {
            self.peers.notify_all();
        }
    }
}

impl State {
    /// Sends output as far as sockets take it. Returns whether the set of sockets to wait for has changed.
    pub(super) fn transmit(&mut self, now: Nanos, datagrams: Option<&Datagrams>) -> bool {
        let was_blocked = self.gather.is_blocked();
        if !was_blocked {
            self.send_all(now, datagrams);
        }
        let outputs_changed = self.outputs.flush(now);
        outputs_changed || was_blocked != self.gather.is_blocked()
    }

    /// Resumes sending when the socket takes more.
    pub(super) fn unblock(&mut self, datagrams: &Datagrams) {
        self.gather.flush(datagrams);
    }

    fn send_all(&mut self, now: Nanos, datagrams: Option<&Datagrams>) {
        while let Some(transmit) = self.core.poll_transmit(now, self.gather.room()) {
            let is_last = !self.core.has_to_transmit();
            match (transmit.to, datagrams) {
                (To::Place(Place::Stream(number)), _) => {
                    let octets = self.gather.written(transmit.octets);
                    // What goes alone need not be gathered.
                    let rest = if is_last { self.outputs.write(number, octets) } else { octets };
                    if !rest.is_empty() && !self.outputs.put(number, rest, now) {
                        self.core.set_ready(Place::Stream(number), false);
                    }
                }
                (To::Place(Place::Datagram(to)) | To::Group(to), Some(datagrams)) => {
                    if !self.gather.push(to, transmit.octets, datagrams) {
                        return;
                    }
                }
                (To::Place(Place::Datagram(_)) | To::Group(_), None) => {}
            }
            if is_last {
                break;
            }
        }
        if let Some(datagrams) = datagrams {
            self.gather.flush(datagrams);
        }
    }

    /// Whether no output is pending.
    pub(super) fn has_left(&self) -> bool {
        !self.gather.is_blocked() && self.outputs.waiting() == 0
    }
}

//! A follower's process: it takes a leader's batches until it is promoted, and serves no client.

use core::fmt;
use core::time::Duration;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::folder::FolderReplica;
use super::follower::Follower;
use super::frame::{BYTES_MAX, Frame, Hello};
use super::host::{Host, Over, Peer, Threads, lock, start};
use super::record_threads::{Recorded, take_over, watch, write_status};
use super::right::{Action, Answer, FollowerStatus, Watcher};
use super::stream::Stream;
use super::{bind, peer_of};
use crate::config::Config;
use crate::shutdown_request::ShutdownRequest;
use crate::start::StartError;
use crate::time;

/// A leader's ticks come four times in the time after which it counts as lost; this many such times are waited for them.
const TIMES_SILENT: u32 = 3;

/// The follower of a pair: a process that serves no client, until it is promoted. Dropping it ends it, and closes the store.
pub struct StandbyFollower {
    following: Arc<Following>,
    address: SocketAddr,
    /// Ends before the store is closed.
    _threads: Threads,
}

impl fmt::Debug for StandbyFollower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StandbyFollower").field("address", &self.address).finish_non_exhaustive()
    }
}

impl StandbyFollower {
    /// Starts a follower with the store that the configuration names.
    ///
    /// # Errors
    /// When the configuration cannot be used, the store is not a follower's, or the port is taken.
    pub fn start(config: &Config) -> Result<Self, StartError> {
        config.check()?;
        let Some((directory, _)) = config.store.folder() else {
            return Err(StartError::Standby {
                why: "a follower needs a store: name its folder with --data".to_owned(),
            });
        };
        let failed = |why: String| StartError::Store { directory: directory.into(), why };
        let peer =
            peer_of(config)?.ok_or_else(|| failed("it is a follower's, and there is no [standby]".to_owned()))?;
        let listener = bind(config)?;
        let address = listener.local_addr()?;
        let replica = FolderReplica::open(directory).map_err(failed)?;
        let recorded = Recorded::of(config)?;
        let machine = recorded.as_ref().map_or(0, |recorded| recorded.machine.number);
        let watcher = |recorded: &Recorded| Mutex::new(Watcher::new(recorded.machine.clone(), recorded.terms));
        let silent = peer.silent;
        let over: Arc<Over> = Arc::default();
        let following = Arc::new(Following {
            follower: Mutex::new(Follower::new(replica, machine)),
            call: Mutex::new(None),
            contact: Mutex::new(Contact::default()),
            silent,
            peer: peer.clone(),
            promoted: ShutdownRequest::default(),
            is_promoted: AtomicBool::new(false),
            origin: time::now(),
            over: Arc::clone(&over),
            watcher: recorded.as_ref().map(watcher),
        });
        let mut threads = start(&following, (listener, directory), &peer, &over, || {})?;
        if let Some(Recorded { mut etcd, terms, .. }) = recorded {
            let following = Arc::clone(&following);
            threads.add("standby-record", move || watch(&following, &mut etcd, terms))?;
        }
        Ok(Self { following, address, _threads: threads })
    }

    /// The address at which leaders call.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Calls `tell`, on any thread, once it is promoted: [`Service::take_over`](crate::Service::take_over) is due.
    pub fn when_promoted(&self, tell: impl FnOnce() + Send + 'static) {
        self.following.promoted.on_request(tell);
    }

    /// Whether it was promoted.
    #[must_use]
    pub fn is_promoted(&self) -> bool {
        self.following.is_promoted.load(Ordering::Acquire)
    }

    /// Closes the store. Leaders that call are still refused, with the epoch of the promotion.
    pub(crate) fn close_store(&self) {
        lock(&self.following.follower).replica().close();
    }
}

/// When the leader was heard of last, when it said last where it stands, and how this follower stood then.
#[derive(Default)]
struct Contact {
    at: Option<Instant>,
    reported_at: Option<Instant>,
    was_in_step: bool,
}

pub(super) struct Following {
    follower: Mutex<Follower<FolderReplica>>,
    /// The connection that counts.
    call: Mutex<Option<TcpStream>>,
    contact: Mutex<Contact>,
    silent: Duration,
    peer: Peer,
    promoted: ShutdownRequest,
    is_promoted: AtomicBool,
    /// What the watcher's times count from.
    origin: Instant,
    over: Arc<Over>,
    /// The record of who leads, if there is to be one. Locked before all else.
    watcher: Option<Mutex<Watcher>>,
}

impl Following {
    fn hang_up(&self) {
        if let Some(call) = lock(&self.call).take() {
            let _ = call.shutdown(Shutdown::Both);
        }
    }

    /// Serves a session until its connection ends.
    fn serve(&self, stream: &mut Stream, session: u64) -> io::Result<()> {
        let mut was_in_step = false;
        loop {
            let frame = stream.frame(BYTES_MAX, self.silent * TIMES_SILENT)?;
            let mut follower = lock(&self.follower);
            let reply = follower.handle(session, &frame);
            let (state, is_in_step) = (follower.state(), follower.is_in_step());
            let takes_over = frame == Frame::TakeOver && follower.is_promoted();
            drop(follower);
            let mut contact = lock(&self.contact);
            (contact.at, contact.was_in_step) = (Some(time::now()), is_in_step);
            if matches!(frame, Frame::Tick { .. }) {
                contact.reported_at = contact.at;
            }
            drop(contact);
            let reply = reply.unwrap_or_else(|why| Frame::Refused { service: state.service, epoch: state.epoch, why });
            let sent = stream.send_frame(&reply);
            if takes_over {
                // It is on the disk, or may be there in spite of an error.
                take_over(self, state.epoch, "the leader hands over");
                return sent;
            }
            sent?;
            if let Frame::Refused { why, .. } = reply {
                return Err(io::Error::other(why));
            }
            if is_in_step && !was_in_step {
                log::info!("standby: in step with the leader, at batch {}", state.position.number);
                was_in_step = true;
            }
        }
    }

    // ---- the thread that watches the record of who leads ----

    pub(super) fn is_promoted(&self) -> bool {
        self.is_promoted.load(Ordering::Acquire)
    }

    /// What is to be done with the record now, if there is to be one.
    pub(super) fn poll_record(&self) -> Option<(Duration, Action)> {
        let mut watcher = lock(self.watcher.as_ref()?);
        let heard = lock(&self.contact).at.map(|at| at.saturating_duration_since(self.origin));
        let follower = lock(&self.follower);
        let status = FollowerStatus { state: follower.state(), is_copying: follower.is_copying(), heard };
        drop(follower);
        let now = time::since(self.origin);
        Some((now, watcher.poll(now, &status)))
    }

    /// Takes an answer to a request that was sent after that time. Returns the epoch in which this machine leads, if it does.
    pub(super) fn handle_record(&self, sent_at: Duration, answer: Answer) -> Option<u64> {
        let mut watcher = lock(self.watcher.as_ref()?);
        watcher.handle(sent_at, time::since(self.origin), answer);
        watcher.won()
    }

    /// Why this follower does not take over though no leader is there, or the record cannot be read.
    pub(super) fn record_trouble(&self) -> String {
        self.watcher.as_ref().map(|watcher| lock(watcher).trouble().to_owned()).unwrap_or_default()
    }

    pub(super) fn over(&self) -> &Over {
        &self.over
    }

    /// Takes over in that epoch, or the one that is on the disk by now.
    pub(super) fn lead(&self, epoch: u64, why: &str) -> Result<(), String> {
        let led = lock(&self.follower).promote(epoch.saturating_sub(1))?;
        log::warn!("standby: {why}: this is the leader of epoch {led}");
        self.is_promoted.store(true, Ordering::Release);
        self.promoted.tell();
        Ok(())
    }

    // ---- operators ----

    /// Answers an order to take over.
    fn promote(&self, allowed: Result<(), String>) -> String {
        if self.is_promoted() {
            return "error: it was promoted already\n".to_owned();
        }
        let mut recorded = 0;
        if let Some(watcher) = &self.watcher {
            let watcher = lock(watcher);
            if watcher.is_renewed(time::since(self.origin)) {
                let holder = watcher.record().map_or("the leader", |record| &record.holder);
                return format!("error: {holder} renews its record: stop it first\n");
            }
            recorded = watcher.record().map_or(0, |record| record.epoch);
        }
        let is_silent = lock(&self.contact).at.is_none_or(|at| time::since(at) >= self.silent);
        let mut follower = lock(&self.follower);
        if follower.has_leader() && !is_silent {
            return format!("error: the leader at {} answers: stop it first\n", self.peer.address);
        }
        let promoted = allowed.and_then(|()| follower.promote(recorded));
        drop(follower);
        match promoted {
            Err(why) => format!("error: {why}\n"),
            Ok(epoch) => {
                log::warn!("standby: promoted by an operator: this is the leader of epoch {epoch}");
                self.is_promoted.store(true, Ordering::Release);
                format!("epoch: {epoch}\n{}", self.may_be_lost())
            }
        }
    }

    /// What may be lost with the leader, as far as that is known here.
    fn may_be_lost(&self) -> String {
        let contact = lock(&self.contact);
        let follower = lock(&self.follower);
        let lacks = follower.leader_at.number.saturating_sub(follower.state().position.number);
        let Some(at) = contact.reported_at else {
            return "may_be_lost: unknown: the leader was not heard of since this process began\n".to_owned();
        };
        let ms = time::since(at).as_millis();
        format!("may_be_lost: {lacks} batches that the leader had {ms} ms ago, and what it took by itself since\n")
    }

    /// Whether an operator may promote who says that the leader's host is stopped.
    fn may_be_promoted(&self, host: &str) -> Result<(), String> {
        if host != self.peer.host() {
            return Err(format!("the leader is on {}, and not on {host}", self.peer.host()));
        }
        if lock(&self.contact).was_in_step {
            return Ok(());
        }
        Err("it is not known that this follower was in step with the leader: `--accept-loss` takes over all the same"
            .to_owned())
    }

    fn status(&self) -> String {
        let (state, (leader_at, lag_bytes, refused), is_copying, has_leader) = {
            let follower = lock(&self.follower);
            let figures = (follower.leader_at, follower.lag_bytes, follower.refused);
            (follower.state(), figures, follower.is_copying(), follower.has_leader())
        };
        let contact = lock(&self.contact);
        let name = match (has_leader, is_copying, contact.was_in_step) {
            _ if self.is_promoted() => "takes over",
            _ if !state.is_whole && !is_copying => "needs a copy",
            (_, true, _) => "first copy",
            (false, ..) => "no leader",
            (true, false, true) => "in step",
            (true, false, false) => "catching up",
        };
        let lag_batches = leader_at.number.saturating_sub(state.position.number);
        let silent_ms = contact.at.map_or_else(|| "unknown".to_owned(), |at| time::since(at).as_millis().to_string());
        drop(contact);
        let mut text = format!(
            "role: follower\nepoch: {}\nstate: {name}\npeer: {}\nbatch: {}\nlag_batches: {lag_batches}\nlag_bytes: {lag_bytes}\n\
             leader_silent_ms: {silent_ms}\nrefused: {refused}\n",
            state.epoch, self.peer.address, state.position.number
        );
        if let Some(watcher) = &self.watcher {
            let watcher = lock(watcher);
            write_status(&mut text, watcher.record(), watcher.age(time::since(self.origin)), watcher.trouble());
        }
        text
    }
}

impl Host for Following {
    fn take_call(&self, mut stream: Stream, hello: Hello) -> io::Result<()> {
        let (session, answer) = lock(&self.follower).greet(hello);
        if let Frame::Refused { why, .. } = &answer {
            stream.send_frame(&answer)?;
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why.clone()));
        }
        // It may have gone on alone since the last connection.
        let now = Some(time::now());
        *lock(&self.contact) = Contact { at: now, reported_at: now, was_in_step: false };
        // The former connection of the leader is of no use any more.
        self.hang_up();
        *lock(&self.call) = Some(stream.closer()?);
        let served = stream.send_frame(&answer).and_then(|()| self.serve(&mut stream, session));
        if lock(&self.follower).end(session) {
            *lock(&self.call) = None;
        }
        served
    }

    fn answer(&self, line: &str) -> String {
        match (line, line.strip_prefix("promote stopped ")) {
            ("status", _) => self.status(),
            ("promote accept-loss", _) => self.promote(Ok(())),
            ("switch", _) => "error: this is the follower: `switch` is for its leader\n".to_owned(),
            (_, Some(host)) => self.promote(self.may_be_promoted(host)),
            _ => format!("error: {line:?} is no order\n"),
        }
    }

    fn answered(&self) {
        if self.is_promoted() {
            self.promoted.tell();
        }
    }
}

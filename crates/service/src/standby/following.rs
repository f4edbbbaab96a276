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
        let silent = peer.silent;
        let over: Arc<Over> = Arc::default();
        let following = Arc::new(Following {
            follower: Mutex::new(Follower::new(replica)),
            call: Mutex::new(None),
            contact: Mutex::new(Contact::default()),
            silent,
            peer: peer.clone(),
            promoted: ShutdownRequest::default(),
            is_promoted: AtomicBool::new(false),
        });
        let threads = start(&following, (listener, directory), &peer, &over, || {})?;
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

struct Following {
    follower: Mutex<Follower<FolderReplica>>,
    /// The connection that counts.
    call: Mutex<Option<TcpStream>>,
    contact: Mutex<Contact>,
    silent: Duration,
    peer: Peer,
    promoted: ShutdownRequest,
    is_promoted: AtomicBool,
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
            drop(follower);
            let mut contact = lock(&self.contact);
            (contact.at, contact.was_in_step) = (Some(time::now()), is_in_step);
            if matches!(frame, Frame::Tick { .. }) {
                contact.reported_at = contact.at;
            }
            drop(contact);
            let takes_over = frame == Frame::TakeOver && reply.is_ok();
            let reply = reply.unwrap_or_else(|why| Frame::Refused { service: state.service, epoch: state.epoch, why });
            let sent = stream.send_frame(&reply);
            if takes_over {
                log::warn!("standby: the leader hands over: this is the leader of epoch {}", state.epoch);
                self.is_promoted.store(true, Ordering::Release);
                self.promoted.tell();
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

    /// Answers an order to take over.
    fn promote(&self, allowed: Result<(), String>) -> String {
        if self.is_promoted.load(Ordering::Acquire) {
            return "error: it was promoted already\n".to_owned();
        }
        let is_silent = lock(&self.contact).at.is_none_or(|at| time::since(at) >= self.silent);
        let mut follower = lock(&self.follower);
        if follower.has_leader() && !is_silent {
            return format!("error: the leader at {} answers: stop it first\n", self.peer.address);
        }
        let promoted = allowed.and_then(|()| follower.promote());
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
            _ if self.is_promoted.load(Ordering::Acquire) => "takes over",
            _ if !state.is_whole && !is_copying => "needs a copy",
            (_, true, _) => "first copy",
            (false, ..) => "no leader",
            (true, false, true) => "in step",
            (true, false, false) => "catching up",
        };
        let lag_batches = leader_at.number.saturating_sub(state.position.number);
        let silent_ms = contact.at.map_or_else(|| "unknown".to_owned(), |at| time::since(at).as_millis().to_string());
        format!(
            "role: follower\nepoch: {}\nstate: {name}\npeer: {}\nbatch: {}\nlag_batches: {lag_batches}\nlag_bytes: {lag_bytes}\n\
             leader_silent_ms: {silent_ms}\nrefused: {refused}\n",
            state.epoch, self.peer.address, state.position.number
        )
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
        if self.is_promoted.load(Ordering::Acquire) {
            self.promoted.tell();
        }
    }
}

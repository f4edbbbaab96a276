//! One stream of octets: numbered messages both ways, each direction with a window below what Zenoh queues.
//!
//! Zenoh promises less than a stream needs: where the far side of a transport does not read for five seconds, what was put is gone and
//! no error says so. So a message that is missing ends the stream, and whoever uses it opens another and repeats what was not
//! acknowledged to it there. A side sends no more than the other has granted; what comes beyond ends the stream, too, so that a flood
//! takes no memory.
//!
//! Two threads carry a stream: one reads the near connection and puts messages, the other writes what came. Zenoh's own threads only
//! queue ([`Stream::handle`]), and never wait.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::message::{DATA_BYTES_MAX, Message, StreamId, cost};
use crate::options::WINDOW_BYTES;
use crate::session::{Network, Shared};

/// The reason of a stream of which one side closed its connection.
pub const CLOSED: &str = "the connection was closed";

/// While a stream waits for the far side, it is looked this often whether the near connection is still there.
const LOOKS_UP: Duration = Duration::from_millis(100);

/// A stream as both its threads, and Zenoh's, have it.
pub(crate) struct Stream {
    pub(crate) id: StreamId,
    /// The end at the other side, and its process.
    pub(crate) far: (String, u64),
    /// Whether the other side opened it.
    pub(crate) is_accepted: bool,
    /// The session that it lives in.
    pub(crate) network: Arc<Network>,
    /// The key that the other side listens at.
    far_key: String,
    window: u64,
    halves: Mutex<Halves>,
    changed: Condvar,
}

/// What changes of a stream.
#[derive(Default)]
struct Halves {
    /// Both sides have it.
    is_open: bool,
    /// What may be in flight in each direction, the smaller one of both sides' windows; what may be sent in all, and what was.
    allowance: u64,
    granted: u64,
    sent: u64,
    /// Number of the next message that comes.
    next: u64,
    /// What came and is not written yet, and what it counts for.
    queue: VecDeque<Vec<u8>>,
    queued: u64,
    /// What was written in all, and what of that the far side knows of.
    taken: u64,
    reported: u64,
    /// Nothing is sent or taken in any more, for this reason.
    ended: Option<String>,
    /// The near connection.
    tcp: Option<TcpStream>,
    /// Threads that carry it.
    carriers: usize,
}

impl Stream {
    pub(crate) fn new(
        network: Arc<Network>,
        (id, is_accepted): (StreamId, bool),
        far: (String, u64),
        allowance: u64,
    ) -> Self {
        let far_key = network.key_of(&far.0, far.1);
        let window = network.window;
        let allowance = allowance.min(window);
        let halves = Halves { is_open: is_accepted, allowance, granted: allowance, ..Halves::default() };
        Self { id, far, is_accepted, network, far_key, window, halves: Mutex::new(halves), changed: Condvar::new() }
    }

    fn halves(&self) -> MutexGuard<'_, Halves> {
        self.halves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change, for no longer than that.
    fn wait<'a>(&'a self, halves: MutexGuard<'a, Halves>, limit: Duration) -> MutexGuard<'a, Halves> {
        self.changed.wait_timeout(halves, limit).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits until both sides have it or it has ended, for no longer than that. False if neither is so.
    ///
    /// # Errors
    /// The reason for which it has ended.
    pub(crate) fn await_opened(&self, limit: Duration) -> Result<bool, String> {
        let waits = |halves: &mut Halves| !halves.is_open && halves.ended.is_none();
        let halves = self.changed.wait_timeout_while(self.halves(), limit, waits);
        let (halves, _) = halves.unwrap_or_else(PoisonError::into_inner);
        match &halves.ended {
            Some(why) => Err(why.clone()),
            None => Ok(halves.is_open),
        }
    }

    /// Does what a message of the far side says. Zenoh's threads call it.
    ///
    /// # Errors
    /// What is wrong with it: the stream is over then.
    pub(crate) fn handle(&self, message: &Message<'_>) -> Result<(), Wrong> {
        let mut halves = self.halves();
        if halves.ended.is_some() {
            return Ok(());
        }
        let done = match *message {
            // It was not sure that the first one came.
            Message::Open { .. } => Ok(()),
            Message::Accept { window } => {
                if self.is_accepted || halves.is_open {
                    Ok(())
                } else if window < *WINDOW_BYTES.start() {
                    Err(Wrong::Window)
                } else {
                    let allowance = u64::from(window).min(self.window);
                    (halves.is_open, halves.allowance, halves.granted) = (true, allowance, allowance);
                    Ok(())
                }
            }
            Message::Data { number, .. } if number < halves.next => Err(Wrong::Repeated),
            Message::Data { number, .. } if number > halves.next => Err(Wrong::Missing),
            Message::Data { octets, .. } => {
                let counts = cost(octets.len());
                // What is queued and what was written but not reported yet: the far side has no more of the window than the rest.
                let outstanding = halves.queued + (halves.taken - halves.reported);
                if outstanding + counts > self.window {
                    Err(Wrong::Beyond)
                } else {
                    halves.next += 1;
                    halves.queued += counts;
                    halves.queue.push_back(octets.to_vec());
                    Ok(())
                }
            }
            Message::Credit { taken } if taken > halves.sent => Err(Wrong::Unsent),
            Message::Credit { taken } => {
                halves.granted = halves.granted.max(taken + halves.allowance);
                Ok(())
            }
            Message::End { reason } => {
                halves.ended = Some(reason.to_owned());
                Ok(())
            }
        };
        drop(halves);
        self.changed.notify_all();
        done
    }

    /// Ends it for this reason, if it has not ended, and closes the near connection. False if it had ended before.
    pub(crate) fn end(&self, why: &str) -> bool {
        let mut halves = self.halves();
        let is_news = halves.ended.is_none();
        if is_news {
            halves.ended = Some(why.to_owned());
        }
        // Where threads carry it, the one that writes closes it when all is written that came.
        if halves.carriers == 0
            && let Some(tcp) = halves.tcp.take()
        {
            let _gone = tcp.shutdown(Shutdown::Both);
        }
        drop(halves);
        self.changed.notify_all();
        is_news
    }

    /// Has the near connection closed at once: what came is not written to its end.
    pub(crate) fn cut(&self, why: &str) {
        self.end(why);
        if let Some(tcp) = &self.halves().tcp {
            let _gone = tcp.shutdown(Shutdown::Both);
        }
    }

    /// Whether threads carry it.
    pub(crate) fn is_carried(&self) -> bool {
        self.halves().tcp.is_some()
    }

    /// Puts a message on its way to the far side, which may wait for room in Zenoh's queue.
    pub(crate) fn send(&self, message: &Message<'_>) -> Result<(), String> {
        self.network.put(&self.far_key, message.write(&self.id), true)
    }

    /// The same without waiting: where there is no room it is lost.
    pub(crate) fn send_at_once(&self, message: &Message<'_>) {
        let _lost = self.network.put(&self.far_key, message.write(&self.id), false);
    }

    /// Reads the near connection to its end, and sends what came from there.
    fn carry_out(&self, mut tcp: &TcpStream) -> Result<(), String> {
        // Two messages at least fit into the window.
        let most = usize::try_from(self.halves().allowance / 2 - cost(0)).unwrap_or(DATA_BYTES_MAX);
        let mut buffer = vec![0; DATA_BYTES_MAX.min(most)];
        let mut number = 0;
        loop {
            let count = match tcp.read(&mut buffer) {
                Ok(0) => return Err(CLOSED.to_owned()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.to_string()),
            };
            let octets = buffer.get(..count).unwrap_or_default();
            let counts = cost(count);
            let mut halves = self.halves();
            while halves.sent + counts > halves.granted {
                if halves.ended.is_some() {
                    return Ok(());
                }
                halves = self.wait(halves, LOOKS_UP);
                if is_hung_up(tcp) {
                    return Err(CLOSED.to_owned());
                }
            }
            if halves.ended.is_some() {
                return Ok(());
            }
            halves.sent += counts;
            drop(halves);
            self.send(&Message::Data { number, octets })?;
            number += 1;
        }
    }

    /// Writes what the far side sends to the near connection, until the stream has ended and all is written.
    fn carry_in(&self, mut tcp: &TcpStream) -> Result<(), String> {
        loop {
            let mut halves = self.halves();
            let octets = loop {
                match halves.queue.pop_front() {
                    Some(octets) => break octets,
                    None if halves.ended.is_some() => return Ok(()),
                    None => halves = self.changed.wait(halves).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(halves);
            tcp.write_all(&octets).map_err(|error| error.to_string())?;
            let mut halves = self.halves();
            let counts = cost(octets.len());
            halves.queued -= counts;
            halves.taken += counts;
            // The far side has no more in flight than its own window, which may be the smaller one.
            if halves.ended.is_some() || halves.taken - halves.reported < halves.allowance / 4 {
                continue;
            }
            halves.reported = halves.taken;
            let taken = halves.taken;
            drop(halves);
            self.send(&Message::Credit { taken })?;
        }
    }
}

/// What is wrong with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// It came before. The stream goes on.
    Repeated,
    /// One before it did not come.
    Missing,
    /// More was sent than granted.
    Beyond,
    /// More is said to have been taken than was sent.
    Unsent,
    /// The window that it names is none.
    Window,
}

impl Wrong {
    /// The reason for which the stream ends.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::Repeated => "a message came twice",
            Self::Missing => "a message was lost on the way",
            Self::Beyond => "more was sent than was granted",
            Self::Unsent => "more was acknowledged than was sent",
            Self::Window => "its window is not valid",
        }
    }
}

/// Whether a connection was closed by its other side, whatever is still to be read of it.
fn is_hung_up(tcp: &TcpStream) -> bool {
    let mut polled = [PollFd::new(tcp, PollFlags::RDHUP)];
    let closed = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    let polls = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    polls.is_ok() && polled.first().is_some_and(|polled| polled.revents().intersects(closed))
}

/// A stream that threads carry: what one side writes to its connection, the other reads from its own.
///
/// Dropping it ends the stream, and says so to the other side.
pub struct Carried {
    shared: Arc<Shared>,
    stream: Arc<Stream>,
}

impl core::fmt::Debug for Carried {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Carried").field("far", &self.stream.far.0).finish_non_exhaustive()
    }
}

impl Carried {
    /// Starts the threads of a stream that both sides have.
    ///
    /// # Errors
    /// If the system refuses a thread or the connection cannot be used.
    pub(crate) fn begin(shared: &Arc<Shared>, stream: Arc<Stream>, tcp: TcpStream) -> io::Result<Self> {
        let carried = Self { shared: Arc::clone(shared), stream };
        let [outward, inward] = [tcp.try_clone()?, tcp.try_clone()?];
        {
            let mut halves = carried.stream.halves();
            (halves.tcp, halves.carriers) = (Some(tcp), 2);
        }
        let begin = |name: &str, tcp: TcpStream, carry: fn(&Stream, &TcpStream) -> Result<(), String>| {
            let (stream, shared) = (Arc::clone(&carried.stream), Arc::clone(shared));
            Builder::new().name(name.to_owned()).spawn(move || {
                if let Err(why) = carry(&stream, &tcp) {
                    shared.end_stream(&stream, &why, true);
                }
                // Both directions end together: the other thread finds the connection closed, or the stream ended.
                let _gone = tcp.shutdown(Shutdown::Both);
                stream.halves().carriers -= 1;
                stream.changed.notify_all();
            })
        };
        begin("zenoh-in", inward, Stream::carry_in)?;
        begin("zenoh-out", outward, Stream::carry_out)?;
        Ok(carried)
    }

    /// The name of the end at the other side.
    #[must_use]
    pub fn far(&self) -> &str {
        &self.stream.far.0
    }

    /// Waits until no thread carries it any more, for no longer than that. Gives the reason for which it has ended then.
    #[must_use]
    pub fn ended_within(&self, limit: Duration) -> Option<String> {
        let carried = |halves: &mut Halves| halves.carriers > 0;
        let halves = self.stream.changed.wait_timeout_while(self.stream.halves(), limit, carried);
        let (halves, _) = halves.unwrap_or_else(PoisonError::into_inner);
        if halves.carriers > 0 { None } else { halves.ended.clone() }
    }

    /// Ends it, and says so to the other side.
    pub fn end(&self, why: &str) {
        self.shared.end_stream(&self.stream, why, false);
        self.stream.cut(why);
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        self.end("it was given up");
    }
}

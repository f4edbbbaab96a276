//! Deadlines of a client's connection: since when a request or the reading of an answer is due.

use core::cell::Cell;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

/// The phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Idle since then.
    Idle(Instant),
    /// Receiving a request since then.
    Reading(Instant),
    /// Answering a request.
    Answering,
}

/// The limit that a connection has exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// A request was not complete in time.
    Request,
    /// An answer was not read in time.
    Answer,
    /// No request arrived in time.
    Idle,
}

/// Time limits of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) request: Duration,
    pub(crate) answer: Duration,
    pub(crate) idle: Duration,
}

/// A connection's state, shared by its stream and its limits' checks.
#[derive(Debug)]
pub(crate) struct Watch {
    phase: Cell<Phase>,
    /// Since when the client has not taken pending output.
    writing: Cell<Option<Instant>>,
    /// Number of live streams that it reads.
    streams: Cell<u32>,
    /// Whether the first octets look like TLS; `None` before any arrived.
    begins_tls: Cell<Option<bool>>,
    /// Whether it has to end because another connection needs its place.
    gave_way: Cell<bool>,
    ended: Notify,
}

impl Watch {
    /// A new connection, with a request due.
    pub(crate) fn new() -> Rc<Self> {
        let phase = Cell::new(Phase::Reading(Instant::now()));
        Rc::new(Self {
            phase,
            writing: Cell::new(None),
            streams: Cell::new(0),
            begins_tls: Cell::new(None),
            gave_way: Cell::new(false),
            ended: Notify::new(),
        })
    }

    /// Ends the handshake: a request is due from now on.
    pub(crate) fn begin_request(&self) {
        self.phase.set(Phase::Reading(Instant::now()));
    }

    /// Since when no answer is in progress; `None` if one is.
    pub(crate) const fn idle_since(&self) -> Option<Instant> {
        match self.phase.get() {
            Phase::Idle(since) | Phase::Reading(since) => Some(since),
            Phase::Answering => None,
        }
    }

    /// Ends the connection.
    pub(crate) fn give_way(&self) {
        self.gave_way.set(true);
        self.ended.notify_one();
    }

    /// Runs the work for the connection, unless it gives way first.
    pub(crate) async fn unless_it_gives_way(&self, served: impl Future<Output = ()>) {
        let (mut served, mut ended) = (core::pin::pin!(served), core::pin::pin!(self.ended.notified()));
        core::future::poll_fn(|cx| {
            let gives_way = ended.as_mut().poll(cx).is_ready() || self.gave_way.get();
            if gives_way { Poll::Ready(()) } else { served.as_mut().poll(cx) }
        })
        .await;
    }

    /// Notes that the head of a request was read.
    pub(crate) fn begin_answer(&self) {
        self.phase.set(Phase::Answering);
    }

    /// Notes that a live stream began or ended.
    pub(crate) fn count_stream(&self, is_new: bool) {
        let streams = self.streams.get();
        self.streams.set(if is_new { streams + 1 } else { streams.saturating_sub(1) });
        if !is_new {
            self.phase.set(Phase::Idle(Instant::now()));
        }
    }

    /// The limit that is exceeded, if any.
    pub(crate) fn overdue(&self, patience: Patience, now: Instant) -> Option<Overdue> {
        let exceeds = |since: Instant, limit| now.saturating_duration_since(since) >= limit;
        if self.writing.get().is_some_and(|since| exceeds(since, patience.answer)) {
            return Some(Overdue::Answer);
        }
        match self.phase.get() {
            Phase::Idle(since) if exceeds(since, patience.idle) => Some(Overdue::Idle),
            Phase::Reading(since) if exceeds(since, patience.request) => Some(Overdue::Request),
            _ => None,
        }
    }

    /// Whether the client speaks TLS on this stream, which does not.
    pub(crate) fn begins_tls(&self) -> bool {
        self.begins_tls.get() == Some(true)
    }

    fn note_read(&self, read: &[u8]) {
        if self.begins_tls.get().is_none() {
            self.begins_tls.set(Some(tls::is_hello(read)));
        }
        if let Phase::Idle(_) = self.phase.get() {
            self.phase.set(Phase::Reading(Instant::now()));
        }
    }

    fn note_writing(&self) {
        if self.writing.get().is_none() {
            self.writing.set(Some(Instant::now()));
        }
    }

    fn note_written(&self) {
        if self.writing.take().is_some() && self.phase.get() == Phase::Answering && self.streams.get() == 0 {
            self.phase.set(Phase::Idle(Instant::now()));
        }
    }
}

/// A connection's stream, plain or TLS.
pub(crate) struct Stream<S> {
    inner: S,
    watch: Rc<Watch>,
}

impl<S> Stream<S> {
    pub(crate) const fn new(inner: S, watch: Rc<Watch>) -> Self {
        Self { inner, watch }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, into))?;
        if let Some(read @ [_, ..]) = into.filled().get(before..) {
            self.watch.note_read(read);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.watch.note_writing();
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    /// Called when all output has been passed to the system.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
        self.watch.note_written();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_overdue_by_what_is_pending_on_it() {
        let second = Duration::from_secs(1);
        let patience = Patience { request: 5 * second, answer: 10 * second, idle: 60 * second };
        let watch = Watch::new();
        let start = Instant::now();
        assert_eq!(watch.overdue(patience, start), None);
        assert_eq!(watch.overdue(patience, start + 6 * second), Some(Overdue::Request));
        watch.begin_answer();
        assert_eq!(watch.overdue(patience, start + 600 * second), None, "administration is waited for elsewhere");
        watch.note_writing();
        assert_eq!(watch.overdue(patience, start + 9 * second), None);
        assert_eq!(watch.overdue(patience, start + 11 * second), Some(Overdue::Answer));
        watch.note_written();
        assert_eq!(watch.overdue(patience, start + 59 * second), None);
        assert_eq!(watch.overdue(patience, start + 61 * second), Some(Overdue::Idle));
        watch.note_read(b"GET");
        assert_eq!(watch.overdue(patience, start + 6 * second), Some(Overdue::Request));
        watch.begin_answer();
        watch.count_stream(true);
        watch.note_writing();
        watch.note_written();
        assert_eq!(watch.overdue(patience, start + 600 * second), None, "a stream may be silent");
        watch.count_stream(false);
        assert_eq!(watch.overdue(patience, start + 600 * second), Some(Overdue::Idle));
    }
}

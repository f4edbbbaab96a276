//! Answers and request bodies, in hyper's types.

use core::cell::Cell;
use core::convert::Infallible;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::rc::Rc;

use hyper::body::{Body as _, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::sync::mpsc;

use crate::stream::Watch;
use service::{Counter, HttpCounters};

/// Maximum octets read of a request's body.
const BODY_BYTES_MAX: usize = 64 << 10;

/// An answer's body: a whole text, or a live stream.
pub(crate) enum Body {
    Whole(Option<Bytes>),
    Live(Live),
}

/// A stream that ends with its sender or its client.
pub(crate) struct Live {
    from: mpsc::Receiver<Bytes>,
    watch: Rc<Watch>,
    open: Rc<Open>,
}

/// Counts of open live streams.
pub(crate) struct Open {
    streams: Cell<u32>,
    watchers: Cell<u32>,
    websockets: Cell<u32>,
    http_counters: HttpCounters,
}

/// The place of a client that watches events, freed on drop.
pub(crate) struct Watcher(Rc<Open>);

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.watchers.set(self.0.watchers.get().saturating_sub(1));
    }
}

/// The place of a WebSocket, which counts as an answer in progress on its connection.
pub(crate) struct WebSocketSlot {
    open: Rc<Open>,
    watch: Rc<Watch>,
}

impl Drop for WebSocketSlot {
    fn drop(&mut self) {
        self.watch.count_stream(false);
        self.open.set_websockets(self.open.websockets.get().saturating_sub(1));
    }
}

impl Open {
    pub(crate) fn new(http_counters: HttpCounters) -> Rc<Self> {
        Rc::new(Self { streams: Cell::new(0), watchers: Cell::new(0), websockets: Cell::new(0), http_counters })
    }

    /// Takes a place for a client that watches events, unless `most` are taken.
    pub(crate) fn take_watcher(self: &Rc<Self>, most: u32) -> Option<Watcher> {
        let watchers = self.watchers.get();
        (watchers < most).then(|| {
            self.watchers.set(watchers + 1);
            Watcher(Rc::clone(self))
        })
    }

    /// Takes a place for a WebSocket, unless `most` are taken.
    pub(crate) fn take_websocket(self: &Rc<Self>, most: u32, watch: &Rc<Watch>) -> Option<WebSocketSlot> {
        let websockets = self.websockets.get();
        (websockets < most).then(|| {
            watch.count_stream(true);
            self.set_websockets(websockets + 1);
            WebSocketSlot { open: Rc::clone(self), watch: Rc::clone(watch) }
        })
    }

    fn set_websockets(&self, websockets: u32) {
        self.websockets.set(websockets);
        self.http_counters.set(Counter::HttpWebSocketsOpen, websockets.into());
    }

    pub(crate) fn streams(&self) -> u32 {
        self.streams.get()
    }

    fn set(&self, streams: u32) {
        self.streams.set(streams);
        self.http_counters.set(Counter::HttpStreamsOpen, streams.into());
    }
}

impl Live {
    pub(crate) fn new(from: mpsc::Receiver<Bytes>, watch: Rc<Watch>, open: Rc<Open>) -> Self {
        watch.count_stream(true);
        open.set(open.streams() + 1);
        Self { from, watch, open }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.watch.count_stream(false);
        self.open.set(self.open.streams().saturating_sub(1));
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Live(live) => live.from.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Live(_) => SizeHint::default(),
        }
    }
}

pub(crate) type Answer = Response<Body>;

/// Headers for browsers in every answer: no content of other sites, no inline scripts, no frames, no caching.
const FOR_BROWSERS: [(&str, &str); 5] = [
    (
        "content-security-policy",
        "default-src 'self'; frame-ancestors 'none'; form-action 'none'; base-uri 'none'; object-src 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
];

pub(crate) fn answer(status: StatusCode, kind: &'static str, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    for (name, value) in FOR_BROWSERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

pub(crate) const JSON: &str = "application/json";
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

/// An answer with a whole text.
pub(crate) fn whole(kind: &'static str, text: impl Into<Bytes>) -> Answer {
    answer(StatusCode::OK, kind, Body::Whole(Some(text.into())))
}

/// An answer with a value as JSON.
pub(crate) fn json(value: &serde_json::Value) -> Answer {
    whole(JSON, value.to_string())
}

/// An answer to a refused request: `{"error": "…"}`.
pub(crate) fn refused(status: StatusCode, why: &str) -> Answer {
    let text = serde_json::json!({ "error": why }).to_string();
    answer(status, JSON, Body::Whole(Some(text.into())))
}

/// An answer that the rules of access forbid it, with the rule: `{"error": "…", "rule": "…"}`.
pub(crate) fn denied(why: &str, rule: &str) -> Answer {
    let text = serde_json::json!({ "error": why, "rule": rule }).to_string();
    answer(StatusCode::FORBIDDEN, JSON, Body::Whole(Some(text.into())))
}

/// Reads the body of a request, if it is not too large.
pub(crate) async fn read(mut body: Incoming) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        if let Some(data) = frame.ok()?.data_ref() {
            if all.len() + data.len() > BODY_BYTES_MAX {
                return None;
            }
            all.extend_from_slice(data);
        }
    }
    Some(all)
}

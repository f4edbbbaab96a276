//! Handlers of a topic: callbacks, queues, adaptation.

use std::fmt;
use std::sync::{Arc, Mutex};

use super::message::{Message, Queue};
use super::report::{PublisherReport, SubscriberReport};
use crate::lock;

/// Called with each message, on the end point's thread.
pub(super) type OnMessage = Box<dyn FnMut(&Message<'_>) + Send>;
/// Called with the report once per announcement period.
pub(super) type OnReport<R> = Box<dyn FnMut(&R) + Send>;

/// The handler of one topic.
#[derive(Clone, Debug)]
pub(super) enum Handler {
    /// A topic published here.
    Publisher(Arc<Publishing>),
    /// A topic subscribed to here.
    Subscriber(Arc<Subscribing>),
}

/// State of a publisher.
#[derive(Default)]
pub(super) struct Publishing {
    pub(super) on_report: Mutex<Vec<OnReport<PublisherReport>>>,
}

/// State of a subscriber.
pub(super) struct Subscribing {
    taker: Mutex<Option<OnMessage>>,
    pub(super) queue: Queue,
    pub(super) on_report: Mutex<Vec<OnReport<SubscriberReport>>>,
}

impl Subscribing {
    /// A subscription without a handler: messages wait in `queue`.
    pub(super) fn new(queue: Queue) -> Self {
        Self { taker: Mutex::new(None), queue, on_report: Mutex::default() }
    }

    /// Takes messages one after the other; the handler is looked up once for all.
    pub(super) fn take<'m>(&self, messages: impl Iterator<Item = Message<'m>>) {
        let mut taker = lock(&self.taker);
        for message in messages {
            match &mut *taker {
                Some(taker) => taker(&message),
                None => self.queue.push(&message),
            }
        }
    }

    /// Has messages taken by `taker` from now on, beginning with the queued ones.
    pub(super) fn set_taker(&self, mut next: OnMessage) {
        let mut taker = lock(&self.taker);
        while let Some(kept) = self.queue.next(std::time::Duration::ZERO) {
            next(&kept.message());
        }
        *taker = Some(next);
    }
}

impl fmt::Debug for Publishing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publishing").finish_non_exhaustive()
    }
}

impl fmt::Debug for Subscribing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscribing").field("queue", &self.queue).finish_non_exhaustive()
    }
}

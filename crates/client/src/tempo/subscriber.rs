//! Subscribing to a topic.

use std::sync::Arc;
use std::time::Duration;

use tempo::adaptation::{self, LossFreeRate};
use tempo::endpoint::{Order, TopicId, TopicSettings};
use tempo::wire::Role;

use super::error::Error;
use super::handler::{Handler, OnMessage, Subscribing};
use super::message::{Message, OwnedMessage, Queue};
use super::node::Node;
use super::report::{Peer, SubscriberReport, in_1000_s, microseconds};
use crate::lock;

/// Default maximum of queued messages; and of their octets.
const WAITING_MAX: usize = 10_000;
const WAITING_OCTETS_MAX: usize = 16 << 20;

/// Receives messages published on a topic: by a callback, or by taking the next one.
///
/// When dropped, it says goodbye to its publishers. A callback that is running then finishes.
///
/// ```no_run
/// use std::time::Duration;
/// use campanile_client::tempo::Subscriber;
///
/// let wind = Subscriber::new("Weather/Wind", "udp://@:2811")?;
/// while let Some(message) = wind.next(Duration::from_secs(60)) {
///     println!("{}", String::from_utf8_lossy(message.octets()));
/// }
/// # Ok::<(), campanile_client::tempo::Error>(())
/// ```
#[derive(Debug)]
pub struct Subscriber {
    node: Node,
    topic: TopicId,
    subscribing: Arc<Subscribing>,
}

/// Settings of a subscriber.
#[derive(Debug)]
pub struct SubscriberBuilder {
    node: Node,
    topic: String,
    rate: f64,
    deadline: Option<Duration>,
    largest: u32,
    waiting_max: usize,
    waiting_octets_max: usize,
}

impl SubscriberBuilder {
    pub(super) fn new(node: Node, topic: &str) -> Self {
        Self {
            node,
            topic: topic.to_owned(),
            rate: 0.0,
            deadline: None,
            largest: 0,
            waiting_max: WAITING_MAX,
            waiting_octets_max: WAITING_OCTETS_MAX,
        }
    }

    /// The rate wished for, in messages a second, announced to publishers, which decide what to do about it. Default: not announced.
    #[must_use]
    pub const fn rate(mut self, per_second: f64) -> Self {
        self.rate = per_second;
        self
    }

    /// The deadline wished for, announced to publishers. Default: none.
    #[must_use]
    pub const fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Octets of the largest message accepted. Default: as many as the end point [is made for](super::NodeBuilder::messages_up_to).
    #[must_use]
    pub const fn largest(mut self, octets: u32) -> Self {
        self.largest = octets;
        self
    }

    /// Maximum of messages, and of their octets, queued until [taken](Subscriber::next). Beyond that the oldest are discarded, and counted.
    /// Default 10,000, and 16 MiB.
    #[must_use]
    pub const fn waiting_max(mut self, messages: usize, octets: usize) -> Self {
        self.waiting_max = messages;
        self.waiting_octets_max = octets;
        self
    }

    /// Starts to announce the subscription. Messages are queued until taken.
    ///
    /// # Errors
    /// The end point has no room for another topic, subscribes to it already, or the name is invalid.
    pub fn open(self) -> Result<Subscriber, Error> {
        self.begin(None)
    }

    /// Starts to announce the subscription. `taker` is called with each message on the end point's thread, which does nothing else
    /// meanwhile. It may publish, also at the same end point. If it panics, that thread ends, and with it everything that the end point
    /// does by itself.
    ///
    /// # Errors
    /// The same as of [`open`](Self::open).
    pub fn on(self, taker: impl FnMut(&Message<'_>) + Send + 'static) -> Result<Subscriber, Error> {
        self.begin(Some(Box::new(taker)))
    }

    fn begin(self, taker: Option<OnMessage>) -> Result<Subscriber, Error> {
        let name = self.node.full_name(&self.topic);
        let settings = TopicSettings {
            name: &name,
            role: Role::Subscriber,
            rate: in_1000_s(self.rate),
            deadline_us: microseconds(self.deadline),
            largest: self.largest,
            order: Order::default(),
        };
        let subscribing = Subscribing::new(Queue::new(self.waiting_max, self.waiting_octets_max));
        if let Some(taker) = taker {
            subscribing.set_taker(taker);
        }
        let subscribing = Arc::new(subscribing);
        let topic = self.node.inner.shared.add_topic(settings, Handler::Subscriber(Arc::clone(&subscribing)))?;
        Ok(Subscriber { node: self.node, topic, subscribing })
    }
}

impl Subscriber {
    /// A subscriber with an end point of its own. Programs with several make them from one [`Node`].
    ///
    /// # Errors
    /// Those of [`Node::open`] and [`SubscriberBuilder::open`].
    pub fn new(topic: &str, address: &str) -> Result<Self, Error> {
        Node::open(address)?.subscriber(topic).open()
    }

    /// Has messages taken by `taker` from now on, beginning with the queued ones. See [`SubscriberBuilder::on`].
    #[must_use = "it ends when it is dropped"]
    pub fn on(self, taker: impl FnMut(&Message<'_>) + Send + 'static) -> Self {
        self.subscribing.set_taker(Box::new(taker));
        self
    }

    /// Takes the next message, waiting up to the timeout. Always `None` with a callback.
    #[must_use]
    pub fn next(&self, timeout: Duration) -> Option<OwnedMessage> {
        self.subscribing.queue.next(timeout)
    }

    /// Announces another rate, in messages a second; 0: none.
    pub fn rate(&self, per_second: f64) {
        self.node.inner.shared.command(|core| core.set_rate(self.topic, in_1000_s(per_second)));
    }

    /// Announces another deadline.
    pub fn deadline(&self, deadline: Option<Duration>) {
        self.node.inner.shared.command(|core| core.set_deadline(self.topic, microseconds(deadline)));
    }

    /// The current report.
    #[must_use]
    pub fn report(&self) -> SubscriberReport {
        SubscriberReport::of(&*self.node.inner.shared.state().core, self.topic, &self.subscribing.queue)
    }

    /// Publishers, as far as this end point knows: a broker is one.
    #[must_use]
    pub fn publishers(&self) -> Vec<Peer> {
        self.node.inner.shared.state().core.publishers(self.topic).iter().map(Peer::of).collect()
    }

    /// Sets a closure that gets the report once per announcement period, on the end point's thread.
    pub fn on_report(&self, told: impl FnMut(&SubscriberReport) + Send + 'static) {
        lock(&self.subscribing.on_report).push(Box::new(told));
    }

    /// Finds the rate at which nothing is lost, beginning with the highest useful one, in messages a second (*Tempo*, V and figure 9): once
    /// per period wishes for less after a loss, and for a little more without one. Publishers have [to
    /// follow](super::Publisher::follow_lowest_rate).
    pub fn find_loss_free_rate(&self, highest: f64) {
        let mut finding = LossFreeRate::new(in_1000_s(highest));
        let (shared, topic) = (Arc::downgrade(&self.node.inner.shared), self.topic);
        self.on_report(move |_| {
            let Some(shared) = shared.upgrade() else { return };
            shared.command(|core| {
                let wish = finding.after_period(super::now(), &core.subscribed(topic));
                core.set_rate(topic, wish);
            });
        });
    }

    /// Announces the shortest deadline of its publishers, updated each period.
    pub fn follow_deadline(&self) {
        let (shared, topic) = (Arc::downgrade(&self.node.inner.shared), self.topic);
        self.on_report(move |_| {
            let Some(shared) = shared.upgrade() else { return };
            shared.command(|core| {
                let deadline_us = adaptation::follow_deadline(&core.subscribed(topic));
                core.set_deadline(topic, deadline_us);
            });
        });
    }

    /// Waits until there are so many publishers, those behind a broker included. Returns false on timeout.
    #[must_use]
    pub fn wait_for_publishers(&self, count: u32, timeout: Duration) -> bool {
        let shared = &self.node.inner.shared;
        shared.wait_for_peers(timeout, |state| state.core.subscribed(self.topic).announced.end_points >= count)
    }

    /// The end point.
    #[must_use]
    pub const fn node(&self) -> &Node {
        &self.node
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.node.inner.shared.remove_topic(self.topic);
    }
}

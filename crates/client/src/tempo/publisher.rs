//! Publishing on a topic.

use std::sync::Arc;
use std::time::Duration;

use tempo::adaptation::{self, Target, TightenDeadline};
use tempo::endpoint::{Order, TopicId, TopicSettings};
use tempo::wire::{Content, Role};

use super::error::Error;
use super::handler::{Handler, Publishing};
use super::node::Node;
use super::report::{Peer, PublisherReport, in_1000_s, microseconds, rate};
use crate::lock;

/// Default wait for room.
const PATIENCE: Duration = Duration::from_secs(1);
/// Messages of [`Publisher::publish_all`] handed over before others have their turn.
const AT_ONCE: usize = 256;

/// Publishes on a topic. Messages are sent on the thread that publishes, as far as sockets take them; several threads may share one.
///
/// When dropped, it says goodbye to its subscribers.
///
/// ```no_run
/// use campanile_client::tempo::Publisher;
///
/// let wind = Publisher::new("Weather/Wind", "udp://127.0.0.1:2811")?;
/// wind.publish(b"11.5 m/s")?;
/// # Ok::<(), campanile_client::tempo::Error>(())
/// ```
#[derive(Debug)]
pub struct Publisher {
    node: Node,
    topic: TopicId,
    publishing: Arc<Publishing>,
    patience: Duration,
}

/// Settings of a publisher.
#[derive(Debug)]
pub struct PublisherBuilder {
    node: Node,
    topic: String,
    rate: f64,
    deadline: Option<Duration>,
    largest: u32,
    order: Order,
    patience: Duration,
}

impl PublisherBuilder {
    pub(super) fn new(node: Node, topic: &str) -> Self {
        Self {
            node,
            topic: topic.to_owned(),
            rate: 0.0,
            deadline: None,
            largest: 0,
            order: Order::Priorities,
            patience: PATIENCE,
        }
    }

    /// The intended rate in messages a second, which is announced: topics of one end point take turns by it, and so do those of a broker.
    /// It does not limit the publisher. Default: not announced, which counts as one message a second.
    #[must_use]
    pub const fn rate(mut self, per_second: f64) -> Self {
        self.rate = per_second;
        self
    }

    /// Announced deadline within which a message should be forwarded. Default: none.
    #[must_use]
    pub const fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Octets of the largest message. Default: as many as the end point [is made for](super::NodeBuilder::messages_up_to).
    #[must_use]
    pub const fn largest(mut self, octets: u32) -> Self {
        self.largest = octets;
        self
    }

    /// Order of queued messages. Default: by priority.
    #[must_use]
    pub const fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Time that publishing waits for room, as when a connection takes nothing. Zero never waits. Default 1 s.
    #[must_use]
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Starts to announce the topic.
    ///
    /// # Errors
    /// The end point has no room for another topic, publishes on it already, or the name is invalid.
    pub fn open(self) -> Result<Publisher, Error> {
        let name = self.node.full_name(&self.topic);
        let settings = TopicSettings {
            name: &name,
            role: Role::Publisher,
            rate: in_1000_s(self.rate),
            deadline_us: microseconds(self.deadline),
            largest: self.largest,
            order: self.order,
        };
        let publishing = Arc::new(Publishing::default());
        let topic = self.node.inner.shared.add_topic(settings, Handler::Publisher(Arc::clone(&publishing)))?;
        Ok(Publisher { node: self.node, topic, publishing, patience: self.patience })
    }
}

impl Publisher {
    /// A publisher with an end point of its own. Programs with several make them from one [`Node`].
    ///
    /// # Errors
    /// Those of [`Node::open`] and [`PublisherBuilder::open`].
    pub fn new(topic: &str, address: &str) -> Result<Self, Error> {
        Node::open(address)?.publisher(topic).open()
    }

    /// Publishes a message of priority 0.
    ///
    /// # Errors
    /// [`Error::Full`] if there was no room within the patience that was set: the message was not accepted. Also if it exceeds the maximum
    /// size. Without subscribers it is no error: [`report`](Self::report) counts the message.
    pub fn publish(&self, message: &[u8]) -> Result<(), Error> {
        self.publish_with(0, message)
    }

    /// Publishes a message with a priority: of queued messages the one with the larger priority goes first.
    ///
    /// # Errors
    /// The same as of [`publish`](Self::publish).
    pub fn publish_with(&self, priority: i16, message: &[u8]) -> Result<(), Error> {
        self.publish_as(Content::Octets, priority, message)
    }

    /// Publishes a message with the format of its octets.
    ///
    /// # Errors
    /// The same as of [`publish`](Self::publish).
    pub fn publish_as(&self, content: Content, priority: i16, message: &[u8]) -> Result<(), Error> {
        self.node.inner.shared.publish(self.topic, (priority, content), message, self.patience)
    }

    /// Publishes many messages of priority 0: each datagram has as many as fit, and each system call sends several datagrams.
    ///
    /// # Errors
    /// The same as of [`publish`](Self::publish). Messages before the failed one are published.
    pub fn publish_all<M: AsRef<[u8]>>(&self, messages: impl IntoIterator<Item = M>) -> Result<(), Error> {
        let mut messages = messages.into_iter();
        let mut some = Vec::with_capacity(AT_ONCE.min(messages.size_hint().0));
        loop {
            // Not under the lock: an iterator may do anything.
            some.extend(messages.by_ref().take(AT_ONCE));
            if some.is_empty() {
                return Ok(());
            }
            self.node.inner.shared.publish_all(self.topic, (0, Content::Octets), &some, self.patience)?;
            some.clear();
        }
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
    pub fn report(&self) -> PublisherReport {
        PublisherReport::of(&*self.node.inner.shared.state().core, self.topic)
    }

    /// Subscribers, as far as this end point knows: a broker is one.
    #[must_use]
    pub fn subscribers(&self) -> Vec<Peer> {
        self.node.inner.shared.state().core.subscribers(self.topic).iter().map(Peer::of).collect()
    }

    /// Sets a closure that gets the report once per announcement period, on the end point's thread.
    pub fn on_report(&self, told: impl FnMut(&PublisherReport) + Send + 'static) {
        lock(&self.publishing.on_report).push(Box::new(told));
    }

    /// Follows the slowest subscriber (*Tempo*, V and figure 9): once per period announces the lowest rate that a subscriber wishes for, at
    /// most the intended one, and calls the closure with it on the end point's thread. The program has to keep to that rate.
    pub fn follow_lowest_rate(&self, intended: f64, mut told: impl FnMut(f64) + Send + 'static) {
        let (shared, topic, intended) = (Arc::downgrade(&self.node.inner.shared), self.topic, in_1000_s(intended));
        self.on_report(move |_| {
            let Some(shared) = shared.upgrade() else { return };
            let followed = shared.command(|core| {
                let followed = adaptation::follow_lowest(intended, &core.published(topic));
                core.set_rate(topic, followed);
                followed
            });
            told(rate(followed).unwrap_or_default());
        });
    }

    /// Announces ever shorter deadlines, once per period, until messages reach the slowest subscriber within `target`, or it is clear that
    /// shorter deadlines do not help; `first` is the initial deadline (*Tempo*, V and figure 9). The closure is called with the announced
    /// deadline and the progress, on the end point's thread.
    pub fn tighten_deadline(
        &self,
        target: Duration,
        first: Duration,
        mut told: impl FnMut(Duration, Target) + Send + 'static,
    ) {
        let target = u64::try_from(target.as_nanos()).unwrap_or(u64::MAX);
        let mut tighten = TightenDeadline::new(target, microseconds(Some(first)));
        let (shared, topic) = (Arc::downgrade(&self.node.inner.shared), self.topic);
        self.on_report(move |_| {
            let Some(shared) = shared.upgrade() else { return };
            let (deadline_us, stands) = shared.command(|core| {
                let (deadline_us, stands) = tighten.after_period(&core.published(topic));
                core.set_deadline(topic, deadline_us);
                (deadline_us, stands)
            });
            told(Duration::from_micros(deadline_us.into()), stands);
        });
    }

    /// Waits until there are so many subscribers, those behind a broker included. Returns false on timeout.
    #[must_use]
    pub fn wait_for_subscribers(&self, count: u32, timeout: Duration) -> bool {
        let shared = &self.node.inner.shared;
        shared.wait_for_peers(timeout, |state| state.core.published(self.topic).announced.end_points >= count)
    }

    /// Waits until published messages have left this process. Returns false on timeout.
    #[must_use]
    pub fn flush(&self, timeout: Duration) -> bool {
        self.node.flush(timeout)
    }

    /// The end point.
    #[must_use]
    pub const fn node(&self) -> &Node {
        &self.node
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.node.inner.shared.remove_topic(self.topic);
    }
}

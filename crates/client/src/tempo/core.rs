//! The state machine in its sizes: what an end point needs of memory is in its type, and most need little.

use tempo::Nanos;
use tempo::endpoint::{
    Counters, Endpoint, Handled, Peer, Place, PublisherReport, Refused, Settings, SubscriberReport, TopicId,
    TopicSettings, Transmit,
};
use tempo::wire::Content;

use super::driver::Sink;

/// Topics of one end point, publishers' and subscribers' together.
pub const TOPICS_MAX: usize = 64;
/// Counterparts of one end point: sessions times topics.
pub const PEERS_MAX: usize = 256;
/// Octets of the largest message that an end point can be made for.
pub const MESSAGE_MAX: usize = 1 << 20;
/// Octets of the largest message that is taken where nothing is said.
pub(super) const MESSAGE_USUAL: usize = 64 << 10;
/// Messages of which some fragments have come and others have not, over all peers.
const UNFINISHED: usize = 4;

/// For messages of up to 64 KiB; 512 KiB of them may wait to be sent.
pub(super) type Usual = Endpoint<TOPICS_MAX, PEERS_MAX, 2_048, MESSAGE_USUAL, UNFINISHED>;
/// For messages of up to 1 MiB; 4 MiB of them may wait to be sent.
pub(super) type Large = Endpoint<TOPICS_MAX, PEERS_MAX, 16_384, MESSAGE_MAX, UNFINISHED>;

/// [`Endpoint`] of whatever size.
pub(super) trait Core: Send {
    fn session(&self) -> u32;
    fn add_topic(&mut self, now: Nanos, settings: TopicSettings<'_>) -> Result<TopicId, Refused>;
    fn remove_topic(&mut self, topic: TopicId);
    fn set_rate(&mut self, topic: TopicId, rate: u32);
    fn set_deadline(&mut self, topic: TopicId, deadline_us: u32);
    fn publish(
        &mut self,
        now: Nanos,
        topic: TopicId,
        priority: i16,
        content: Content,
        message: &[u8],
    ) -> Result<(), Refused>;
    fn handle(&mut self, now: Nanos, from: Place, bytes: &[u8], to: &mut Sink<'_>) -> Handled;
    fn handle_timeout(&mut self, now: Nanos, to: &mut Sink<'_>);
    fn next_timeout(&self) -> Option<Nanos>;
    fn has_to_transmit(&self) -> bool;
    fn poll_transmit(&mut self, now: Nanos, out: &mut [u8]) -> Option<Transmit>;
    fn set_ready(&mut self, place: Place, is_ready: bool);
    fn stream_opened(&mut self, now: Nanos, stream: u32);
    fn stream_closed(&mut self, stream: u32, to: &mut Sink<'_>);
    fn published(&self, topic: TopicId) -> PublisherReport;
    fn subscribed(&self, topic: TopicId) -> SubscriberReport;
    fn subscribers(&self, topic: TopicId) -> Vec<Peer>;
    fn publishers(&self, topic: TopicId) -> Vec<Peer>;
    fn counters(&self) -> &Counters;
}

impl<const BLOCKS: usize, const MESSAGE: usize> Core for Endpoint<TOPICS_MAX, PEERS_MAX, BLOCKS, MESSAGE, UNFINISHED> {
    fn session(&self) -> u32 {
        self.session()
    }

    fn add_topic(&mut self, now: Nanos, settings: TopicSettings<'_>) -> Result<TopicId, Refused> {
        self.add_topic(now, settings)
    }

    fn remove_topic(&mut self, topic: TopicId) {
        self.remove_topic(topic);
    }

    fn set_rate(&mut self, topic: TopicId, rate: u32) {
        self.set_rate(topic, rate);
    }

    fn set_deadline(&mut self, topic: TopicId, deadline_us: u32) {
        self.set_deadline(topic, deadline_us);
    }

    fn publish(
        &mut self,
        now: Nanos,
        topic: TopicId,
        priority: i16,
        content: Content,
        message: &[u8],
    ) -> Result<(), Refused> {
        self.publish(now, topic, priority, content, message)
    }

    fn handle(&mut self, now: Nanos, from: Place, bytes: &[u8], to: &mut Sink<'_>) -> Handled {
        self.handle(now, from, bytes, to)
    }

    fn handle_timeout(&mut self, now: Nanos, to: &mut Sink<'_>) {
        self.handle_timeout(now, to);
    }

    fn next_timeout(&self) -> Option<Nanos> {
        self.next_timeout()
    }

    fn has_to_transmit(&self) -> bool {
        self.has_to_transmit()
    }

    fn poll_transmit(&mut self, now: Nanos, out: &mut [u8]) -> Option<Transmit> {
        self.poll_transmit(now, out)
    }

    fn set_ready(&mut self, place: Place, is_ready: bool) {
        self.set_ready(place, is_ready);
    }

    fn stream_opened(&mut self, now: Nanos, stream: u32) {
        self.stream_opened(now, stream);
    }

    fn stream_closed(&mut self, stream: u32, to: &mut Sink<'_>) {
        self.stream_closed(stream, to);
    }

    fn published(&self, topic: TopicId) -> PublisherReport {
        self.published(topic)
    }

    fn subscribed(&self, topic: TopicId) -> SubscriberReport {
        self.subscribed(topic)
    }

    fn subscribers(&self, topic: TopicId) -> Vec<Peer> {
        self.subscribers(topic).collect()
    }

    fn publishers(&self, topic: TopicId) -> Vec<Peer> {
        self.publishers(topic).collect()
    }

    fn counters(&self) -> &Counters {
        self.counters()
    }
}

/// One that takes messages of up to so many octets, on the heap. Making it may need as much of the stack.
pub(super) fn new(settings: Settings, message_max: usize) -> Box<dyn Core> {
    if message_max <= MESSAGE_USUAL { Box::new(Usual::new(settings)) } else { Box::new(Large::new(settings)) }
}

//! Sizes of the state machine: an end point's type determines its memory, and most need little.

use tempo::Nanos;
use tempo::endpoint::{
    Counters, Endpoint, Handled, Peer, Place, PublisherReport, Refused, Settings, SubscriberReport, TopicId,
    TopicSettings, Transmit,
};
use tempo::wire::Content;

use super::driver::Sink;

/// Maximum topics of one end point, publishers' and subscribers' together.
pub const TOPICS_MAX: usize = 64;
/// Maximum counterparts of one end point: sessions times topics.
pub const PEERS_MAX: usize = 256;
/// Largest message size that an end point can support, in octets.
pub const MESSAGE_MAX: usize = 1 << 20;
/// Default size of the largest message accepted, in octets.
pub(super) const MESSAGE_USUAL: usize = 64 << 10;
/// Maximum number of incomplete messages, over all peers.
const UNFINISHED: usize = 4;

/// An end point for messages of up to 64 KiB, with room for 512 KiB of queued messages.
pub(super) type Usual = Endpoint<TOPICS_MAX, PEERS_MAX, 2_048, MESSAGE_USUAL, UNFINISHED>;
/// An end point for messages of up to 1 MiB, with room for 4 MiB of queued messages.
pub(super) type Large = Endpoint<TOPICS_MAX, PEERS_MAX, 16_384, MESSAGE_MAX, UNFINISHED>;

/// Declares [`Core`] and implements it by the inherent methods of an end point.
macro_rules! methods {
    ($(($($borrow:tt)+) $this:ident.$name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? $(=> $collect:ident)?;)+) => {
        /// An [`Endpoint`] of any size.
        pub(super) trait Core: Send {
            $(fn $name($($borrow)+ $this $(, $argument: $type)*) $(-> $result)?;)+
        }

        impl<const BLOCKS: usize, const MESSAGE: usize> Core
            for Endpoint<TOPICS_MAX, PEERS_MAX, BLOCKS, MESSAGE, UNFINISHED>
        {
            $(fn $name($($borrow)+ $this $(, $argument: $type)*) $(-> $result)? {
                $this.$name($($argument),*)$(.$collect())?
            })+
        }
    };
}

methods! {
    (&) self.session() -> u32;
    (&mut) self.add_topic(now: Nanos, settings: TopicSettings<'_>) -> Result<TopicId, Refused>;
    (&mut) self.remove_topic(topic: TopicId);
    (&mut) self.set_rate(topic: TopicId, rate: u32);
    (&mut) self.set_deadline(topic: TopicId, deadline_us: u32);
    (&mut) self.publish(now: Nanos, topic: TopicId, priority: i16, content: Content, message: &[u8]) -> Result<(), Refused>;
    (&mut) self.handle(now: Nanos, from: Place, bytes: &[u8], to: &mut Sink<'_>) -> Handled;
    (&mut) self.handle_timeout(now: Nanos, to: &mut Sink<'_>);
    (&) self.next_timeout() -> Option<Nanos>;
    (&) self.has_to_transmit() -> bool;
    (&mut) self.poll_transmit(now: Nanos, out: &mut [u8]) -> Option<Transmit>;
    (&mut) self.set_ready(place: Place, is_ready: bool);
    (&mut) self.stream_opened(now: Nanos, stream: u32);
    (&mut) self.stream_closed(stream: u32, to: &mut Sink<'_>);
    (&) self.published(topic: TopicId) -> PublisherReport;
    (&) self.subscribed(topic: TopicId) -> SubscriberReport;
    (&) self.subscribers(topic: TopicId) -> Vec<Peer> => collect;
    (&) self.publishers(topic: TopicId) -> Vec<Peer> => collect;
    (&) self.counters() -> &Counters;
}

/// An end point for messages of up to so many octets, on the heap. Making it may need as much stack.
pub(super) fn new(settings: Settings, message_max: usize) -> Box<dyn Core> {
    if message_max <= MESSAGE_USUAL { Box::new(Usual::new(settings)) } else { Box::new(Large::new(settings)) }
}

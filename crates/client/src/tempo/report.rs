//! Reports to publishers and subscribers about their topics.

use std::time::Duration;

use tempo::endpoint::{self, Place, TopicId};

use super::core::Core;
use super::message::Queue;

/// Round-trip time of probes, by this machine's clock alone: a message took less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// The last one.
    pub last: Duration,
    /// The longest.
    pub highest: Duration,
    /// The mean.
    pub mean: Duration,
    /// Number of probes echoed.
    pub echoes: u64,
}

/// A publisher's view of its topic. Counts begin with the publisher.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PublisherReport {
    /// Known subscribers, those behind a broker included.
    pub subscribers: u32,
    /// The lowest rate that a subscriber wishes for, in messages a second, if announced.
    pub lowest_rate: Option<f64>,
    /// The highest rate that a subscriber wishes for, in messages a second.
    pub highest_rate: Option<f64>,
    /// The shortest deadline that a subscriber announces.
    pub deadline: Option<Duration>,
    /// Delays, over all subscribers that echo.
    pub delay: Option<Delay>,
    /// Round trip of the last probe to the slowest subscriber.
    pub slowest: Option<Duration>,
    /// Messages sent; one that went to several subscribers counts once.
    pub sent: u64,
    /// Messages queued.
    pub waiting: u32,
    /// Messages received, the sum over the subscribers as they report.
    pub received: u64,
    /// Messages lost, the sum over the subscribers as they report.
    pub lost: u64,
    /// Messages without a subscriber.
    pub unheard: u64,
    /// Messages refused for want of room.
    pub refused: u64,
}

/// A subscriber's view of its topic. Counts begin with the subscriber.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SubscriberReport {
    /// Known publishers, those behind a broker included.
    pub publishers: u32,
    /// The sum of the publishers' rates, in messages a second, if announced.
    pub rate: Option<f64>,
    /// The highest rate of a single publisher.
    pub highest_rate: Option<f64>,
    /// The shortest deadline that a publisher announces.
    pub deadline: Option<Duration>,
    /// Messages received.
    pub received: u64,
    /// Messages and probes that were lost on the way.
    pub lost: u64,
    /// Messages and probes discarded because a later one had been handed on already.
    pub late: u64,
    /// Messages and probes that arrived more than once.
    pub repeated: u64,
    /// Messages discarded because they were not [taken](super::Subscriber::next) in time.
    pub discarded: u64,
}

/// The other end of a topic: an end point, or a broker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peer {
    /// Its session.
    pub session: u32,
    /// Its place.
    pub place: Place,
    /// Whether it is a broker.
    pub is_broker: bool,
    /// End points behind a broker; 1 for an end point.
    pub end_points: u32,
    /// Its announced rate, in messages a second.
    pub rate: Option<f64>,
    /// Its announced deadline.
    pub deadline: Option<Duration>,
    /// Octets of the largest message that it sends or accepts.
    pub largest: u32,
    /// Round-trip time of probes to a subscriber that echoes.
    pub delay: Option<Delay>,
    /// Messages received: from a publisher, or by a subscriber as reported.
    pub received: u64,
    /// Messages lost: of a publisher, or by a subscriber as reported.
    pub lost: u64,
}

impl PublisherReport {
    pub(super) fn of(core: &dyn Core, topic: TopicId) -> Self {
        let report = core.published(topic);
        let announced = &report.announced;
        Self {
            subscribers: announced.end_points,
            lowest_rate: rate(announced.lowest_rate),
            highest_rate: rate(announced.highest_rate),
            deadline: deadline(announced.deadline_us),
            delay: report.delay.as_ref().map(Delay::of),
            slowest: (report.slowest_ns != 0).then(|| Duration::from_nanos(report.slowest_ns)),
            sent: report.sent,
            waiting: report.waiting,
            received: report.received,
            lost: report.lost,
            unheard: report.unheard,
            refused: report.refused,
        }
    }
}

impl SubscriberReport {
    pub(super) fn of(core: &dyn Core, topic: TopicId, queue: &Queue) -> Self {
        let report = core.subscribed(topic);
        let announced = &report.announced;
        Self {
            publishers: announced.end_points,
            rate: rate(announced.rates),
            highest_rate: rate(announced.highest_rate),
            deadline: deadline(announced.deadline_us),
            received: report.received,
            lost: report.lost,
            late: report.late,
            repeated: report.repeated,
            discarded: queue.discarded(),
        }
    }
}

impl Peer {
    pub(super) fn of(peer: &endpoint::Peer) -> Self {
        let announced = &peer.announced;
        Self {
            session: peer.session,
            place: peer.place,
            is_broker: peer.is_broker,
            end_points: announced.end_points,
            rate: rate(announced.rate),
            deadline: deadline(announced.deadline_us),
            largest: announced.largest,
            delay: peer.delay.as_ref().map(Delay::of),
            received: peer.received,
            lost: peer.lost,
        }
    }
}

impl Delay {
    fn of(delay: &endpoint::Delay) -> Self {
        let &endpoint::Delay { last_ns, highest_ns, mean_ns, echoes } = delay;
        let [last, highest, mean] = [last_ns, highest_ns, mean_ns].map(Duration::from_nanos);
        Self { last, highest, mean, echoes }
    }
}

/// Converts a rate on the wire, in messages per 1,000 s, to messages a second.
pub(super) fn rate(in_1000_s: u32) -> Option<f64> {
    (in_1000_s != 0).then(|| f64::from(in_1000_s) / 1_000.0)
}

/// Converts messages a second to a rate on the wire. Values up to 0 are not announced; others are at least the lowest rate.
pub(super) fn in_1000_s(rate: f64) -> u32 {
    if rate.is_nan() || rate <= 0.0 {
        return 0;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in between")]
    let number = (rate * 1_000.0).round().clamp(1.0, f64::from(u32::MAX)) as u32;
    number
}

fn deadline(us: u32) -> Option<Duration> {
    (us != 0).then(|| Duration::from_micros(us.into()))
}

/// Converts a deadline to microseconds on the wire, at least the shortest.
pub(super) fn microseconds(deadline: Option<Duration>) -> u32 {
    deadline.map_or(0, |deadline| u32::try_from(deadline.as_micros()).unwrap_or(u32::MAX).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_deadlines_are_reported_in_units_for_people() {
        for (in_1000, of) in [(1, 0.001), (250_000, 250.0), (u32::MAX, 4_294_967.295)] {
            assert_eq!(rate(in_1000), Some(of));
            assert_eq!(in_1000_s(of), in_1000);
        }
        assert_eq!((rate(0), deadline(0), microseconds(None)), (None, None, 0));
        assert_eq!([0.0, -1.0, f64::NAN, 1e-9, 1e12].map(in_1000_s), [0, 0, 0, 1, u32::MAX]);
        assert_eq!(microseconds(Some(Duration::from_millis(2))), 2_000);
        assert_eq!(microseconds(Some(Duration::from_nanos(2))), 1);
        assert_eq!(microseconds(Some(Duration::MAX)), u32::MAX);
    }
}

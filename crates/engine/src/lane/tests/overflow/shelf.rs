//! What keeps events for a lane in these tests.

use super::*;

/// What keeps events for a lane: in memory, and in order.
#[derive(Default)]
pub(super) struct Shelf {
    pub(super) stored: VecDeque<Stored>,
    /// Where each consumer is: behind so many of all that were ever kept.
    pub(super) read: BTreeMap<ProxyId, u64>,
    pub(super) first: u64,
    /// What is asked for and has yet to be brought.
    pub(super) requests: VecDeque<(OutboxId, ProxyKey, u32)>,
    /// It tells nothing of room that came back.
    pub(super) frees_nothing: bool,
    /// Events that it has yet to release.
    pub(super) writing: VecDeque<Arc<Event>>,
}

pub(super) struct Stored {
    pub(super) source: ProxyKey,
    pub(super) event: Event,
    pub(super) bytes: u64,
}

impl Shelf {
    /// Takes in what the lane wants of it.
    pub(super) fn look(&mut self, lane: &mut Lane) {
        while let Some(errand) = lane.poll_overflow() {
            match errand {
                Overflow::Keep { event, .. } => {
                    let next = self.first + self.stored.len() as u64;
                    for away in event.away() {
                        self.read.entry(away.consumer).or_insert(next);
                    }
                    self.stored.push_back(Stored {
                        source: event.source,
                        bytes: event.stored_bytes(),
                        event: (*event).clone(),
                    });
                    self.writing.push_back(event);
                }
                Overflow::Fetch { outbox, consumer, bytes } => self.requests.push_back((outbox, consumer, bytes)),
                Overflow::Remember { .. } | Overflow::FetchHistory { .. } | Overflow::Drop { .. } => {
                    panic!("the channel stores no history")
                }
                Overflow::Forget { consumer } => {
                    self.read.remove(&consumer.proxy);
                }
            }
        }
    }

    /// Publishes numbered events, and releases each when it is kept.
    pub(super) fn publish_released(&mut self, rig: &mut Rig, events: u32) {
        for number in 0..events {
            rig.publish_number(number);
            self.look(&mut rig.lane);
            self.writing.drain(..).for_each(|event| rig.lane.note_stored(event));
        }
    }

    /// Releases an event, brings what was asked for first, and frees what no consumer has yet to read.
    pub(super) fn work(&mut self, lane: &mut Lane, now: Time) {
        if let Some(event) = self.writing.pop_front() {
            lane.note_stored(event);
        }
        if let Some((outbox, consumer, bytes)) = self.requests.pop_front() {
            let mut left = i64::from(bytes);
            while let Some(read) = self.read.get_mut(&consumer.proxy)
                && let Some(stored) = self.stored.get(usize::try_from(*read - self.first).unwrap())
            {
                *read += 1;
                let is_its = |away: &&Away| away.consumer == consumer.proxy;
                let Some(away) = stored.event.away().iter().find(is_its) else { continue };
                let mut pending_event = lane.begin_event();
                pending_event.bytes.extend_from_slice(&stored.event.bytes);
                let (domain, name) = stored.event.names();
                lane.classify(&mut pending_event, domain, name);
                (pending_event.watch, pending_event.watch_each) = (stored.event.watch, stored.event.watch_each);
                (pending_event.arrived, pending_event.timeout) = (stored.event.arrived, stored.event.timeout);
                pending_event.set_supplied(stored.event.supplied().0, stored.event.supplied().1);
                lane.return_event((outbox, away.ask), (stored.source, None), pending_event, &NoFields, now);
                left -= stored.event.bytes.len() as i64;
                if left <= 0 {
                    break;
                }
            }
            lane.end_return(outbox, 0, now);
        }
        self.look(lane);
        let least = self.read.values().copied().min().unwrap_or(u64::MAX);
        while self.first < least
            && !self.frees_nothing
            && let Some(stored) = self.stored.pop_front()
        {
            self.first += 1;
            lane.note_freed(stored.source.channel, 1, stored.bytes, now);
        }
    }

    pub(super) fn work_until_quiet(&mut self, rig: &mut Rig) {
        self.look(&mut rig.lane);
        while !(self.writing.is_empty() && self.requests.is_empty()) {
            self.work(&mut rig.lane, rig.now);
        }
    }
}

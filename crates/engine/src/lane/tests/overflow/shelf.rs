//! What keeps events for a lane in these tests.

use super::*;

/// What keeps events for a lane: in memory, and in order.
#[derive(Default)]
pub(super) struct Shelf {
    pub(super) kept: VecDeque<Kept>,
    /// Where each consumer is: behind so many of all that were ever kept.
    pub(super) read: BTreeMap<ProxyId, u64>,
    pub(super) first: u64,
    /// What is asked for and has yet to be brought.
    pub(super) asked: VecDeque<(OutboxId, ProxyKey, u32)>,
    /// It tells nothing of room that came back.
    pub(super) frees_nothing: bool,
    /// Events that it has yet to let go of.
    pub(super) writing: VecDeque<Arc<Event>>,
}

pub(super) struct Kept {
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
                    let next = self.first + self.kept.len() as u64;
                    for away in event.away() {
                        self.read.entry(away.consumer).or_insert(next);
                    }
                    self.kept.push_back(Kept {
                        source: event.source,
                        bytes: event.kept_bytes(),
                        event: (*event).clone(),
                    });
                    self.writing.push_back(event);
                }
                Overflow::Fetch { outbox, consumer, bytes } => self.asked.push_back((outbox, consumer, bytes)),
                Overflow::Remember { .. } | Overflow::Recall { .. } | Overflow::Drop { .. } => {
                    panic!("the channel keeps nothing of its past")
                }
                Overflow::Forget { consumer } => {
                    self.read.remove(&consumer.proxy);
                }
            }
        }
    }

    /// Lets go of an event, brings what was asked for first, and frees what no consumer has yet to read.
    pub(super) fn work(&mut self, lane: &mut Lane, now: Time) {
        if let Some(event) = self.writing.pop_front() {
            lane.release(event);
        }
        if let Some((outbox, consumer, bytes)) = self.asked.pop_front() {
            let mut left = i64::from(bytes);
            while let Some(read) = self.read.get_mut(&consumer.proxy)
                && let Some(kept) = self.kept.get(usize::try_from(*read - self.first).unwrap())
            {
                *read += 1;
                let is_its = |away: &&Away| away.consumer == consumer.proxy;
                let Some(away) = kept.event.away().iter().find(is_its) else { continue };
                let mut draft = lane.begin_event();
                draft.bytes.extend_from_slice(&kept.event.bytes);
                let (domain, name) = kept.event.names();
                lane.classify(&mut draft, domain, name);
                (draft.watch, draft.watch_each) = (kept.event.watch, kept.event.watch_each);
                (draft.arrived, draft.timeout) = (kept.event.arrived, kept.event.timeout);
                draft.set_supplied(kept.event.supplied().0, kept.event.supplied().1);
                lane.return_event((outbox, away.ask), (kept.source, None), draft, &NoFields, now);
                left -= kept.event.bytes.len() as i64;
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
            && let Some(kept) = self.kept.pop_front()
        {
            self.first += 1;
            lane.note_freed(kept.source.channel, 1, kept.bytes, now);
        }
    }

    pub(super) fn work_until_quiet(&mut self, rig: &mut Rig) {
        self.look(&mut rig.lane);
        while !(self.writing.is_empty() && self.asked.is_empty()) {
            self.work(&mut rig.lane, rig.now);
        }
    }
}

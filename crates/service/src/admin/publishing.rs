//! Publications to the lanes, and remains of earlier ones.
//!
//! A lane picks up a publication in its own time. The last user of one would have to free it, which may take longer than an event. So
//! administration keeps each publication until no lane uses it any more, and frees it itself, chunk by chunk.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use arc_swap::ArcSwap;
use engine::{ChannelRoutes, LaneId, Remains, Snapshot};

use crate::published::Published;

/// The current publication, and earlier ones.
pub(crate) struct Publishing {
    published: Arc<ArcSwap<Published>>,
    /// Earlier publications, until no lane uses them any more: at most the last one of each lane, and one more.
    retired: Vec<Arc<Published>>,
    /// Remains of earlier publications that have yet to be freed.
    remains: VecDeque<Remains>,
}

impl Publishing {
    /// Starts with the current publication.
    pub(crate) const fn new(published: Arc<ArcSwap<Published>>) -> Self {
        Self { published, retired: Vec::new(), remains: VecDeque::new() }
    }

    /// Publishes a new state. Returns the lanes that it concerns.
    pub(super) fn publish(&mut self, published: Published) -> BTreeSet<LaneId> {
        let concerned = lanes_concerned(&self.published.load().routing, &published.routing);
        self.retired.push(self.published.swap(Arc::new(published)));
        concerned
    }

    /// Frees a chunk of the publications that no lane uses any more.
    pub(super) fn release(&mut self) {
        let is_free = |last: &mut Arc<Published>| Arc::strong_count(last) == 1 && Arc::strong_count(&last.routing) == 1;
        for free in self.retired.extract_if(.., is_free) {
            let routing = Arc::into_inner(free).and_then(|last| Arc::into_inner(last.routing));
            self.remains.extend(routing.map(Snapshot::into_remains));
        }
        if self.remains.front_mut().is_some_and(|first| !first.release()) {
            self.remains.pop_front();
        }
    }

    /// Whether there is more to free.
    pub(super) fn has_to_release(&self) -> bool {
        !self.remains.is_empty()
    }
}

/// The lanes that new routing concerns: those of changed channels, and the main lane. The others pick it up with their next work, and are
/// not woken for it.
fn lanes_concerned(before: &Snapshot, now: &Snapshot) -> BTreeSet<LaneId> {
    let mut concerned = BTreeSet::from([LaneId::MAIN]);
    let find = |routing: &'_ Snapshot, channel: &Arc<ChannelRoutes>| {
        let at = routing.channels().binary_search_by_key(&channel.id(), |other| other.id()).ok();
        at.and_then(|at| routing.channels().get(at)).is_some_and(|other| Arc::ptr_eq(other, channel))
    };
    for (these, others) in [(before, now), (now, before)] {
        let changed = these.channels().iter().filter(|channel| !find(others, channel));
        concerned.extend(changed.flat_map(|channel| channel.lanes()));
    }
    concerned
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{ChannelLimits, Hierarchy, SettingsPatch};

    #[test]
    fn what_a_lane_uses_yet_stays_and_the_rest_is_released() {
        let mut hierarchy = Hierarchy::default();
        let first = Published::of(hierarchy.snapshot());
        let pointer = Arc::new(ArcSwap::from_pointee(first));
        let mut publishing = Publishing::new(Arc::clone(&pointer));
        let lane = pointer.load_full();
        hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap();
        assert_eq!(publishing.publish(Published::of(hierarchy.snapshot())), BTreeSet::from([LaneId::MAIN]));
        assert_eq!(pointer.load().routing.channels().len(), 1);
        publishing.release();
        assert_eq!((publishing.retired.len(), publishing.has_to_release()), (1, false));
        drop(lane);
        for _ in 0..1_000 {
            publishing.release();
        }
        assert_eq!((publishing.retired.len(), publishing.has_to_release()), (0, false));
    }
}

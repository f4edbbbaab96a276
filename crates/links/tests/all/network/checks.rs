//! What was promised, against what consumers had.

use std::collections::{HashMap, HashSet};

use super::service::{Item, Key};
use super::{Shape, World};

impl World {
    pub(super) fn check(&self) {
        for end in self.links.iter().flat_map(|link| &link.ends) {
            let left = (end.outbox.len(), end.sender.items().count(), end.backlog.len(), end.receiver.outstanding());
            assert_eq!(left, (0, 0, 0, 0), "seed {}: something is left", self.seed);
        }
        for service in 0..self.services.len() {
            self.check_number(service);
            self.check_order(service);
        }
    }

    /// Persistent events once; others at most once, and what is missing was counted.
    fn check_number(&self, service: usize) {
        let seed = self.seed;
        let mut times = HashMap::<Key, u64>::new();
        let mut in_process = HashSet::<(Key, u64)>::new();
        for (item, incarnation) in &self.services[service].delivered {
            *times.entry(item.key).or_default() += 1;
            assert!(in_process.insert((item.key, *incarnation)), "seed {seed}: {item:?} twice at {service}");
        }
        for item in &self.promised {
            let times = times.get(&item.key).copied().unwrap_or_default();
            let is_here = item.key.0 / 10 == service as u64;
            match (item.is_rejected && !is_here, item.is_persistent) {
                (true, _) => assert_eq!(times, 0, "seed {seed}: {item:?} was taken at {service}"),
                (false, true) => assert_eq!(times, 1, "seed {seed}: {item:?} at {service}"),
                (false, false) => {
                    assert!(times > 0 || self.lost.contains(&item.key), "seed {seed}: {item:?} lost in silence");
                    // Where there is another way, a copy of it may come to a process that was started since.
                    let is_only_way = self.shape == Shape::Tree && self.has_stores;
                    assert!(times <= 1 || !is_only_way, "seed {seed}: {item:?} {times} times at {service}");
                }
            }
        }
    }

    /// Persistent events of a supplier in its order, for each priority; others as well, where there is one way only.
    fn check_order(&self, service: usize) {
        let mut last = HashMap::<(u64, i16, bool), &Item>::new();
        for (item, _) in &self.services[service].delivered {
            if item.is_persistent || self.shape == Shape::Tree {
                let before = last.insert((item.key.0, item.priority, item.is_persistent), item);
                let is_later = before.is_none_or(|before| before.key.1 < item.key.1);
                assert!(is_later, "seed {}: {item:?} behind {before:?} at {service}", self.seed);
            }
        }
    }
}

//! Outboxes that can begin a delivery, by their consumers' [`dispatch_priority`](crate::OutboxSettings::dispatch_priority).

use alloc::collections::VecDeque;

use crate::OutboxSettings;

/// Deliveries in a row to consumers of one priority while others of lower ones could have some; then one of these has its turn.
const IN_A_ROW: u32 = 64;

/// Number of priorities.
const PRIORITIES: usize = OutboxSettings::DISPATCH_PRIORITY_MAX as usize + 1;

/// Slots of outboxes; each is listed at most once.
#[derive(Debug, Default)]
pub(super) struct Ready {
    queues: [VecDeque<u32>; PRIORITIES],
    /// A bit for each queue that is not empty.
    waiting: u8,
    /// Deliveries in a row while one of a lower priority waited.
    in_a_row: u32,
    /// The last of the lower ones that had its turn.
    last_lower: u32,
}

// A bit for each of them.
const _: () = assert!(PRIORITIES <= u8::BITS as usize);

impl Ready {
    /// Adds an outbox behind the others of its priority.
    #[inline]
    pub(super) fn push(&mut self, slot: u32, priority: u16) {
        let at = usize::from(priority).min(PRIORITIES - 1);
        if let Some(queue) = self.queues.get_mut(at) {
            queue.push_back(slot);
            self.waiting |= 1 << at;
        }
    }

    /// Takes off an outbox whose priority has changed.
    pub(super) fn remove(&mut self, slot: u32, priority: u16) {
        let at = usize::from(priority).min(PRIORITIES - 1);
        if let Some(queue) = self.queues.get_mut(at) {
            queue.retain(|other| *other != slot);
            self.waiting &= !(u8::from(queue.is_empty()) << at);
        }
    }

    /// The next outbox: of the highest priority, the one that has waited longest.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<u32> {
        let highest = u8::BITS.checked_sub(1 + self.waiting.leading_zeros())?;
        let lower = self.waiting & !(1 << highest);
        let next = if lower == 0 { highest } else { self.choose(highest, lower) };
        let queue = self.queues.get_mut(next as usize)?;
        let slot = queue.pop_front();
        if queue.is_empty() {
            self.waiting &= !(1 << next);
        }
        slot
    }

    /// The priority whose turn it is where `lower` ones than the highest wait, too.
    fn choose(&mut self, highest: u32, lower: u8) -> u32 {
        self.in_a_row += 1;
        if self.in_a_row <= IN_A_ROW {
            return highest;
        }
        self.in_a_row = 0;
        // The next one below the last that had its turn, or else the highest of them.
        let below = lower & ((1 << self.last_lower) - 1);
        let among = if below == 0 { lower } else { below };
        self.last_lower = u8::BITS - 1 - among.leading_zeros();
        self.last_lower
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consumers_of_one_priority_take_turns() {
        let mut ready = Ready::default();
        [3, 1, 2].into_iter().for_each(|slot| ready.push(slot, 0));
        let first = ready.pop();
        ready.push(3, 0);
        assert_eq!(
            [first, ready.pop(), ready.pop(), ready.pop(), ready.pop()],
            [Some(3), Some(1), Some(2), Some(3), None]
        );
    }

    #[test]
    fn the_highest_priority_goes_first_and_leaves_the_others_one_in_sixty_five_in_turn() {
        let mut ready = Ready::default();
        for priority in [7, 4, 1, 0] {
            ready.push(priority.into(), priority);
        }
        let mut served = [0_u32; 8];
        for _ in 0..65 * 9 {
            let slot = ready.pop().unwrap();
            served[slot as usize] += 1;
            ready.push(slot, u16::try_from(slot).unwrap());
        }
        assert_eq!(served, [3, 3, 0, 0, 3, 0, 0, 64 * 9]);
    }

    #[test]
    fn a_priority_out_of_range_is_the_highest() {
        let mut ready = Ready::default();
        ready.push(1, 6);
        ready.push(2, 200);
        assert_eq!([ready.pop(), ready.pop(), ready.pop()], [Some(2), Some(1), None]);
    }
}

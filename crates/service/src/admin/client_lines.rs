//! Limits of log lines that clients cause by requests to administration.

use std::net::IpAddr;

use engine::Time;
use hashbrown::HashMap;

use crate::lane::reports::Allowance;
use crate::protocols::LogLines;

/// Lines per second that clients may cause by requests: each address, and all together.
pub(crate) struct ClientLines {
    all: Allowance,
    /// Limits of addresses that have caused lines lately.
    addresses: HashMap<IpAddr, Allowance>,
}

/// Maximum lines per second by requests of one address. They are for debugging, where a few are read.
const ADDRESS_LINES: u32 = 10;
/// Maximum lines per second by requests of all clients.
const ALL_CLIENTS_LINES: u32 = 50;
/// Maximum addresses known at once. Beyond it all are forgotten.
const ADDRESSES_MAX: usize = 256;

impl ClientLines {
    pub(crate) fn new() -> Self {
        Self { all: Allowance::new("what clients ask for", ALL_CLIENTS_LINES), addresses: HashMap::new() }
    }

    /// Number of lines that a request of an address may cause now.
    pub(crate) fn left(&mut self, ip: IpAddr, now: Time) -> u32 {
        let of_address = self.addresses.get_mut(&ip).map_or(ADDRESS_LINES, |lines| lines.left(now));
        self.all.left(now).min(of_address)
    }

    /// Notes the lines that a request of an address has caused.
    pub(crate) fn note(&mut self, ip: IpAddr, now: Time, log_lines: LogLines) {
        let LogLines { logged, left_out } = log_lines;
        if log_lines == LogLines::default() {
            return;
        }
        self.all.note(now, logged, left_out);
        if self.addresses.len() >= ADDRESSES_MAX && !self.addresses.contains_key(&ip) {
            self.addresses.clear();
        }
        let of_address = self.addresses.entry(ip).or_insert_with(|| Allowance::new("", ADDRESS_LINES));
        // `left` begins a new second, if the last one is over.
        of_address.left(now);
        of_address.note(now, logged, 0);
    }

    /// The summary of the lines left out, due a second after the first of them.
    pub(crate) fn sum_up(&mut self, now: Time) -> Option<String> {
        self.all.sum_up(now)
    }

    /// Whether lines were left out since the last summary.
    pub(crate) fn has_summary(&self) -> bool {
        self.all.has_summary()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time(millis * 1_000_000)
    }

    #[test]
    fn one_clients_lines_become_a_few_and_leave_room_for_anothers() {
        // One client had administration log 17,600 lines a second.
        let mut lines = ClientLines::new();
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let ask = |lines: &mut ClientLines, ip, wanted: u32, millis| {
            let logged = lines.left(ip, at(millis)).min(wanted);
            lines.note(ip, at(millis), LogLines { logged, left_out: wanted - logged });
            logged
        };
        let logged: u32 = (0..17_600).map(|_| ask(&mut lines, one, 1, 10)).sum();
        assert_eq!((logged, ask(&mut lines, other, 3, 20)), (10, 3));
        assert_eq!((lines.sum_up(at(1_000)), lines.has_summary()), (None, true));
        let sum = "17590 more lines about what clients ask for were left out; the counters have them";
        assert_eq!((lines.sum_up(at(1_010)).as_deref(), lines.has_summary()), (Some(sum), false));
        assert_eq!(ask(&mut lines, one, 1, 1_011), 1);
        let all: u32 = (3..200).map(|last| ask(&mut lines, [10, 0, 0, last].into(), 10, 3_000)).sum();
        assert_eq!(all, ALL_CLIENTS_LINES);
        (0..1_000).for_each(|n: u32| {
            lines.note(IpAddr::from(n.to_be_bytes()), at(4_000), LogLines { logged: 1, left_out: 0 })
        });
        assert!(lines.addresses.len() <= ADDRESSES_MAX);
    }
}

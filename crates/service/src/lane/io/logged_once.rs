//! Addresses about which a line was logged, so that it is logged once.

use std::collections::VecDeque;
use std::net::IpAddr;

/// Maximum addresses remembered. Beyond it the oldest is forgotten, and may be logged again.
const ADDRESSES_MAX: usize = 256;

/// The latest addresses about which a line was logged.
#[derive(Debug, Default)]
pub(crate) struct LoggedOnce(VecDeque<IpAddr>);

impl LoggedOnce {
    /// Whether the line is new for this address. The address is remembered.
    pub(crate) fn is_first(&mut self, ip: IpAddr) -> bool {
        if self.0.contains(&ip) {
            return false;
        }
        if self.0.len() == ADDRESSES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(ip);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_said_once_of_each_address_and_what_is_remembered_is_bounded() {
        let mut logged_once = LoggedOnce::default();
        let ip = |number: usize| {
            IpAddr::from([10, 0, u8::try_from(number / 256).unwrap(), u8::try_from(number % 256).unwrap()])
        };
        assert!((0..1_000).all(|number| logged_once.is_first(ip(number)) && !logged_once.is_first(ip(number))));
        assert_eq!(logged_once.0.len(), ADDRESSES_MAX);
        assert!(logged_once.is_first(ip(0)));
    }
}

//! Addresses of this machine that no other test uses.

use std::net::Ipv4Addr;
use std::process;
use std::sync::atomic::{AtomicU8, Ordering};

/// A loopback address that no other test has, of this process or of another one that runs now.
///
/// For servers that end and start again at the same port. At 127.0.0.1 another test's server or connection may be given that port in
/// between; and a client that tries to connect meanwhile may be given it for its own end, and then is connected to itself.
#[must_use]
pub fn own_loopback() -> Ipv4Addr {
    static USED: AtomicU8 = AtomicU8::new(0);
    let [_, _, high, low] = process::id().to_be_bytes();
    // From 127.64.0.0 on: tests that stand for several machines take 127.0.0.2 and so on.
    Ipv4Addr::new(127, 64 + USED.fetch_add(1, Ordering::Relaxed) % 192, high, low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_another_one_and_can_be_listened_at() {
        let (one, other) = (own_loopback(), own_loopback());
        assert!(one.is_loopback() && one != other);
        std::net::TcpListener::bind((one, 0)).unwrap();
    }
}

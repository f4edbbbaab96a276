//! Addresses of this machine that no other test uses.

use std::net::{Ipv4Addr, UdpSocket};
use std::process;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

/// A loopback address that no other running test has, of this process or another.
///
/// For servers that end and start again at the same port. At 127.0.0.1 another test's server or connection may take that port in between;
/// and a client that connects meanwhile may get it for its own end, and is then connected to itself.
#[must_use]
pub fn own_loopback() -> Ipv4Addr {
    static USED: AtomicU8 = AtomicU8::new(0);
    let [_, _, high, low] = process::id().to_be_bytes();
    // From 127.64.0.0 on: tests that stand for several machines take 127.0.0.2 and so on.
    Ipv4Addr::new(127, 64 + USED.fetch_add(1, Ordering::Relaxed) % 192, high, low)
}

/// A UDP port of 127.0.0.1 that is free at the moment.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn free_udp_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port").port()
}

/// Whether this machine carries multicast on its loopback network. Tried with plain sockets at 239.255.77.`host`, which no other program
/// uses.
#[must_use]
pub fn carries_multicast(host: u8) -> bool {
    let group = Ipv4Addr::new(239, 255, 77, host);
    let try_it = || -> std::io::Result<()> {
        let receiver = UdpSocket::bind((group, 0))?;
        receiver.set_read_timeout(Some(Duration::from_secs(5)))?;
        receiver.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST)?;
        let sender = UdpSocket::bind("127.0.0.1:0")?;
        sender.send_to(b"?", (group, receiver.local_addr()?.port()))?;
        receiver.recv(&mut [0; 1]).map(drop)
    };
    try_it().is_ok()
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

//! Cookies prove that a peer receives at the address it sends from: it has to return the cookie that was sent there.
//!
//! A cookie is computed from the address, the session and a secret, without stored state: a returned cookie is checked by computing it
//! again.

use core::hash::Hasher;
use core::net::SocketAddr;

use siphasher::sip::SipHasher24;

/// Makes cookies that peers cannot forge.
#[derive(Debug, Clone, Copy)]
pub struct Cookies {
    secret: (u64, u64),
}

impl Cookies {
    /// Uses a secret, which the caller draws at random when the process begins.
    #[must_use]
    pub const fn new(secret: (u64, u64)) -> Self {
        Self { secret }
    }

    /// The cookie for a session at an address; never 0, which means none.
    #[must_use]
    pub fn cookie(&self, address: SocketAddr, session: u32) -> u64 {
        let mut hasher = SipHasher24::new_with_keys(self.secret.0, self.secret.1);
        match address {
            SocketAddr::V4(address) => hasher.write(&address.ip().octets()),
            SocketAddr::V6(address) => hasher.write(&address.ip().octets()),
        }
        hasher.write(&address.port().to_le_bytes());
        hasher.write(&session.to_le_bytes());
        hasher.finish().max(1)
    }

    /// Whether this cookie was given to that session at that address.
    #[must_use]
    pub fn is_ours(&self, cookie: u64, address: SocketAddr, session: u32) -> bool {
        cookie != 0 && cookie == self.cookie(address, session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_for_one_address_one_session_and_one_secret() {
        let cookies = Cookies::new((1, 2));
        let here: SocketAddr = "10.0.0.1:7".parse().unwrap();
        let cookie = cookies.cookie(here, 5);
        assert!(cookies.is_ours(cookie, here, 5));
        for other in ["10.0.0.2:7", "10.0.0.1:8", "[::1]:7"] {
            assert!(!cookies.is_ours(cookie, other.parse().unwrap(), 5), "{other}");
        }
        assert!(!cookies.is_ours(cookie, here, 6) && !cookies.is_ours(0, here, 5));
        assert!(!Cookies::new((1, 3)).is_ours(cookie, here, 5));
    }
}

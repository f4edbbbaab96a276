//! TLS without its sockets: certificates from files, handshakes, records.
//!
//! [`Files`] are read into an [`Identity`] and [`Trust`], of which [`ServerEnd`] and [`ClientEnd`] are made; from these comes a [`Session`]
//! for each connection. A session is handed what has arrived and says what is to be sent; the socket's owner sends it. It is rustls beneath
//! (TLS 1.2 and 1.3, *ring*), by its interface without buffers: nothing but the beginning of a record stays in a session that has nothing
//! under way.
//!
//! What is allocated for each record of up to 16 KiB is rustls's: one vector with its plaintext when it comes, one with its ciphertext when
//! it goes.

mod ends;
mod error;
mod name;
mod session;

#[cfg(test)]
mod tests;

pub use ends::{ClientEnd, Clients, Identity, ServerEnd, Trust};
pub use error::{LoadError, Trouble};
pub use name::CertificateNames;
pub use session::{Session, sealed_bytes_max};

/// Whether a connection begins as a client of TLS would begin it: with a handshake record that is a hello (RFC 8446, 5.1).
#[must_use]
pub fn is_hello(first: &[u8]) -> bool {
    matches!(first, [0x16, 0x03, ..])
}

/// Whether a connection begins as no client of TLS would begin it.
#[must_use]
pub fn is_plain(first: &[u8]) -> bool {
    !matches!(first, [] | [0x16] | [0x16, 0x03, ..])
}

//! TLS without its sockets: certificates from files, handshakes, records.
//!
//! [`Files`] are read into an [`Identity`] and [`Trust`], of which [`ServerEnd`] and [`ClientEnd`] are made; these make a [`Session`] for
//! each connection. A session takes received octets and returns octets to send; the socket's owner sends them. It uses rustls (TLS 1.2 and
//! 1.3, *ring*) by its interface without buffers: an idle session stores at most the beginning of a record. Callers that wait
//! have a [`Stream`].
//!
//! rustls allocates for each record of up to 16 KiB: a vector of plaintext when receiving, one of ciphertext when sending.

mod ends;
mod error;
mod name;
mod session;
mod stream;

#[cfg(test)]
mod tests;

pub use ends::{ClientEnd, Clients, Identity, ServerEnd, Trust};
pub use error::{LoadError, Trouble};
pub use name::CertificateNames;
pub use session::{Session, sealed_bytes_max};
pub use stream::Stream;

/// Whether a connection begins with a TLS handshake record that is a hello (RFC 8446, 5.1).
#[must_use]
pub fn is_hello(first: &[u8]) -> bool {
    matches!(first, [0x16, 0x03, ..])
}

/// Whether a connection's first octets cannot be TLS.
#[must_use]
pub fn is_plain(first: &[u8]) -> bool {
    !matches!(first, [] | [0x16] | [0x16, 0x03, ..])
}

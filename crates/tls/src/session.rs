//! One connection: the handshake, and records after it.

use core::fmt;
use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus};
use rustls::{ClientConfig, CommonState, ServerConfig};

use crate::error::Trouble;
use crate::name::CertificateNames;

/// Maximum plaintext octets of a record (RFC 8446, 5.1).
const RECORD_BYTES: usize = 16 << 10;
/// Maximum overhead of a record in octets: header, content type, nonce and tag, of which TLS 1.2 has more than TLS 1.3.
const RECORD_OVERHEAD: usize = 64;
/// Octets that may precede plaintext: the answer to a key update.
const ANSWER_BYTES: usize = 256;
/// Maximum capacity of an empty buffer for incomplete records; a larger one is freed.
const RETAINED_BYTES_MAX: usize = RECORD_BYTES + 2 * RECORD_OVERHEAD;

/// Maximum sealed size of that many plaintext octets.
#[must_use]
pub const fn sealed_bytes_max(plain: usize) -> usize {
    plain + (plain / RECORD_BYTES + 1) * RECORD_OVERHEAD + ANSWER_BYTES
}

/// One side's state of one connection.
pub struct Session {
    side: Side,
    /// The beginning of an incomplete record.
    retained: Vec<u8>,
    has_ended: bool,
    has_failed: bool,
}

enum Side {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("kept", &self.retained.len())
            .field("has_ended", &self.has_ended)
            .finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn of_server(config: Arc<ServerConfig>) -> Result<Self, Trouble> {
        UnbufferedServerConnection::new(config).map(|side| Self::new(Side::Server(side))).map_err(Trouble::from)
    }

    pub(crate) fn of_client(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, Trouble> {
        UnbufferedClientConnection::new(config, name).map(|side| Self::new(Side::Client(side))).map_err(Trouble::from)
    }

    const fn new(side: Side) -> Self {
        Self { side, retained: Vec::new(), has_ended: false, has_failed: false }
    }

    /// Processes received octets: passes the plaintext to `plain`, and appends octets to `out` that are sent at once. A client begins by
    /// calling it with no octets.
    ///
    /// # Errors
    /// What is wrong with the peer. `out` may have an alert for it, after which the caller closes the connection.
    pub fn take_in(
        &mut self,
        arrived: &mut [u8],
        mut plain: impl FnMut(&[u8]),
        out: &mut Vec<u8>,
    ) -> Result<(), Trouble> {
        if self.has_failed {
            return Err(Trouble::Protocol(NOT_READY.into()));
        }
        let Self { side, retained, has_ended, has_failed } = self;
        let has_retained = !retained.is_empty();
        if has_retained {
            retained.extend_from_slice(arrived);
        }
        let incoming = if has_retained { &mut retained[..] } else { &mut *arrived };
        let (done, result) = match side {
            Side::Server(side) => advance(side, incoming, has_ended, &mut plain, out),
            Side::Client(side) => advance(side, incoming, has_ended, &mut plain, out),
        };
        if has_retained {
            retained.drain(..done);
        } else {
            retained.extend_from_slice(arrived.get(done..).unwrap_or_default());
        }
        if retained.is_empty() && retained.capacity() > RETAINED_BYTES_MAX {
            *retained = Vec::new();
        }
        *has_failed |= result.is_err();
        result
    }

    /// Seals plaintext into `out`, which has room for [`sealed_bytes_max`] of it. Returns the sealed octets in `out`.
    ///
    /// # Errors
    /// Nothing can be sent yet, or any more.
    pub fn seal(&mut self, plain: &[u8], out: &mut [u8]) -> Result<usize, Trouble> {
        if self.has_failed {
            return Err(Trouble::Protocol(NOT_READY.into()));
        }
        let Self { side, retained, .. } = self;
        match side {
            Side::Server(side) => seal(side, retained, plain, out),
            Side::Client(side) => seal(side, retained, plain, out),
        }
    }

    /// Announces the end of output to the peer (`close_notify`), if possible.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        if self.has_failed || self.is_handshaking() {
            return;
        }
        let mut notice = [0; RECORD_OVERHEAD + ANSWER_BYTES];
        let Self { side, retained, .. } = self;
        let octets = match side {
            Side::Server(side) => seal_end(side, retained, &mut notice),
            Side::Client(side) => seal_end(side, retained, &mut notice),
        };
        out.extend_from_slice(notice.get(..octets).unwrap_or_default());
    }

    /// Whether the handshake is in progress. Octets that `take_in` appended when it completed the handshake still have to be sent.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.state().is_handshaking()
    }

    /// Whether the peer has announced the end of its output.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Octets of an incomplete record.
    #[must_use]
    pub const fn retained_bytes(&self) -> usize {
        self.retained.len()
    }

    /// The names in the peer's verified certificate, if it showed one.
    #[must_use]
    pub fn peer_names(&self) -> Option<CertificateNames> {
        CertificateNames::of(self.state().peer_certificates()?.first()?)
    }

    /// Version and cipher, for diagnosis.
    #[must_use]
    pub fn described(&self) -> String {
        let state = self.state();
        format!("{:?}, {:?}", state.protocol_version(), state.negotiated_cipher_suite().map(|suite| suite.suite()))
    }

    fn state(&self) -> &CommonState {
        match &self.side {
            Side::Server(side) => side,
            Side::Client(side) => side,
        }
    }
}

/// The part that rustls' client and server connections have in common.
trait Records {
    type Data;
    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
    fn wants_write(&self) -> bool;
}

impl Records for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn wants_write(&self) -> bool {
        CommonState::wants_write(self)
    }
}

impl Records for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn wants_write(&self) -> bool {
        CommonState::wants_write(self)
    }
}

/// Advances until more input is needed. Returns how many octets were consumed.
fn advance<R: Records>(
    side: &mut R,
    incoming: &mut [u8],
    has_ended: &mut bool,
    plain: &mut impl FnMut(&[u8]),
    out: &mut Vec<u8>,
) -> (usize, Result<(), Trouble>) {
    let mut done = 0;
    loop {
        let UnbufferedStatus { mut discard, state } = side.process(incoming.get_mut(done..).unwrap_or_default());
        let mut is_over = false;
        let mut trouble = None;
        match state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                while let Some(Ok(record)) = traffic.next_record() {
                    discard += record.discard;
                    plain(record.payload);
                }
            }
            Ok(ConnectionState::EncodeTlsData(data)) => encode(data, out),
            Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
            Ok(ConnectionState::PeerClosed) => *has_ended = true,
            Ok(ConnectionState::Closed) => {
                *has_ended = true;
                is_over = true;
            }
            Ok(ConnectionState::WriteTraffic(_) | ConnectionState::BlockedHandshake) => is_over = true,
            // Nothing is taken before a handshake is over, and nothing else is known.
            Ok(_) => trouble = Some(Trouble::Protocol("it sends data before the handshake is over".into())),
            Err(error) => trouble = Some(error.into()),
        }
        done += discard;
        if let Some(trouble) = trouble {
            write_alerts(side, incoming.get_mut(done..).unwrap_or_default(), out);
            return (done, Err(trouble));
        }
        if is_over {
            return (done, Ok(()));
        }
    }
}

/// Writes the alerts for the peer after a failure.
///
/// rustls knows by their positions which received octets belong to handshake messages, so it is passed the rest again; it ignores the rest
/// while output is pending.
fn write_alerts<R: Records>(side: &mut R, rest: &mut [u8], out: &mut Vec<u8>) {
    while side.wants_write() {
        match side.process(rest).state {
            Ok(ConnectionState::EncodeTlsData(data)) => encode(data, out),
            _ => return,
        }
    }
}

fn encode<Data>(mut data: EncodeTlsData<'_, Data>, out: &mut Vec<u8>) {
    let at = out.len();
    if let Err(EncodeError::InsufficientSize(needed)) = data.encode(&mut []) {
        out.resize(at + needed.required_size, 0);
        let octets = data.encode(out.get_mut(at..).unwrap_or_default()).unwrap_or(0);
        out.truncate(at + octets);
    }
}

/// Error text for a connection that cannot send.
const NOT_READY: &str = "nothing can be sent on it any more";

fn seal<R: Records>(side: &mut R, retained: &mut [u8], plain: &[u8], out: &mut [u8]) -> Result<usize, Trouble> {
    let mut at = 0;
    loop {
        let room = out.get_mut(at..).unwrap_or_default();
        // What is kept is no whole record, so nothing of it is done with.
        match side.process(retained).state.map_err(Trouble::from)? {
            ConnectionState::WriteTraffic(mut traffic) => {
                return match traffic.encrypt(plain, room) {
                    Ok(octets) => Ok(at + octets),
                    Err(EncryptError::InsufficientSize(needed)) => {
                        Err(Trouble::Protocol(format!("there is no room for {} octets", needed.required_size)))
                    }
                    Err(EncryptError::EncryptExhausted) => Err(Trouble::Protocol("its keys are used up".into())),
                };
            }
            ConnectionState::EncodeTlsData(mut data) => {
                at += data.encode(room).map_err(|error| Trouble::Protocol(error.to_string()))?;
            }
            ConnectionState::TransmitTlsData(data) => data.done(),
            ConnectionState::PeerClosed => {}
            _ => return Err(Trouble::Protocol(NOT_READY.into())),
        }
    }
}

fn seal_end<R: Records>(side: &mut R, retained: &mut [u8], out: &mut [u8]) -> usize {
    let mut at = 0;
    loop {
        let room = out.get_mut(at..).unwrap_or_default();
        match side.process(retained).state {
            Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                return at + traffic.queue_close_notify(room).unwrap_or(0);
            }
            Ok(ConnectionState::EncodeTlsData(mut data)) => match data.encode(room) {
                Ok(octets) => at += octets,
                Err(_) => return at,
            },
            Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
            Ok(ConnectionState::PeerClosed) => {}
            _ => return at,
        }
    }
}

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

/// Octets of plaintext in one record at most (RFC 8446, 5.1).
const RECORD_BYTES: usize = 16 << 10;
/// What a record has beside that at most: its header, the content type, nonce and tag of TLS 1.2, which has more of it than TLS 1.3.
const RECORD_OVERHEAD: usize = 64;
/// What may go before plaintext: an answer to a change of keys.
const ANSWER_BYTES: usize = 256;
/// A buffer for the beginning of a record that is larger is not kept when nothing is in it.
const RETAINED_BYTES_MAX: usize = RECORD_BYTES + 2 * RECORD_OVERHEAD;

/// How many octets so many are at most when they are sealed.
#[must_use]
pub const fn sealed_bytes_max(plain: usize) -> usize {
    plain + (plain / RECORD_BYTES + 1) * RECORD_OVERHEAD + ANSWER_BYTES
}

/// One side's state of one connection.
pub struct Session {
    side: Side,
    /// The beginning of a record of which the rest has not come.
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

    /// Takes in what has arrived: gives the plaintext to `plain`, and appends to `out` what is to be sent at once. With nothing, a client
    /// begins.
    ///
    /// # Errors
    /// What is wrong with the peer. `out` may have an alert for it, after which the connection is to be closed.
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

    /// Seals plaintext into `out`, which has room for [`sealed_bytes_max`] of it. Says how many octets of `out` those are.
    ///
    /// # Errors
    /// When nothing can be sent any more, or yet.
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

    /// Announces to the peer that nothing more comes (`close_notify`), if that can be sent.
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

    /// Whether the handshake is not over. What `take_in` appended when it ended it is still to be sent.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.state().is_handshaking()
    }

    /// Whether the peer has said that nothing more comes.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Octets that wait for the rest of their record.
    #[must_use]
    pub const fn retained_bytes(&self) -> usize {
        self.retained.len()
    }

    /// Whom the peer's certificate names, if it has shown one. It was verified.
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

/// What both sides of rustls have alike.
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

/// Goes on until more has to arrive. Says how many octets were done with.
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
/// rustls knows by their places which octets of what has come are parts of handshake messages, so it gets to see the rest again; it does
/// not look at it while there is something to be sent.
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

/// What cannot be sent, and why.
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

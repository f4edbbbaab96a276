//! Links carried by Zenoh (`carrier = "zenoh"`).
//!
//! Zenoh carries octets, as TCP does ([`zenoh_streams`](crate::zenoh)): a link's thread dials the far service by its name and hands the
//! lane one end of a connection within the process; streams dialled by other services arrive at [`ZenohEnds`]. Everything else is as over
//! TCP: TLS between both ends where the link has `tls`, subscriptions, numbers, acknowledgements, repeats. So nothing depends on Zenoh's
//! guarantees, and lost data is sent again when the stream is opened anew.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream};
#[cfg(feature = "zenoh")]
use std::sync::Arc;
use std::sync::mpsc::Receiver;
#[cfg(feature = "zenoh")]
use std::time::Duration;

use super::Protocol;
use super::gateway::Gateway;
use crate::counters::Counter;
use crate::lane::io::socket::Layer;

/// The substitute address of services behind Zenoh, from the discard-only prefix (RFC 6666). For access rules and quotas they are clients
/// at one address, unless they have certificates.
pub(crate) const ZENOH_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 1)), 0);

/// A link of another service that arrived through Zenoh.
#[derive(Debug)]
pub(crate) struct FromZenoh {
    /// The lane's end of the connection to the thread that carries it.
    pub(crate) tcp: TcpStream,
    /// The layer of the connection: plain or TLS.
    pub(crate) layer: Layer,
}

/// The main lane's access to Zenoh.
#[derive(Debug, Default)]
pub(crate) struct ZenohEnds {
    /// The session, to dial links and for its counts.
    #[cfg(feature = "zenoh")]
    pub(crate) session: Option<Arc<zenoh_streams::Session>>,
    /// Links dialled by other services, if that is permitted.
    pub(crate) taken: Option<Receiver<FromZenoh>>,
}

impl ZenohEnds {
    /// The next link that has arrived.
    pub(super) fn next(&self) -> Option<FromZenoh> {
        self.taken.as_ref()?.try_recv().ok()
    }

    /// Whether this service takes part in Zenoh.
    #[cfg(feature = "zenoh")]
    pub(super) const fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// It does not: there is no session.
    #[cfg(not(feature = "zenoh"))]
    pub(super) const fn has_session(&self) -> bool {
        false
    }

    /// The counts of the session.
    #[cfg(feature = "zenoh")]
    pub(super) fn counts(&self) -> Vec<(Counter, u64)> {
        let Some(session) = &self.session else { return Vec::new() };
        let zenoh_streams::Counts { unknown, malformed, lost, beyond, refused, reopened } = session.counts();
        vec![
            (Counter::LinkZenohDropped, unknown + malformed),
            (Counter::LinkZenohBroken, lost + beyond),
            (Counter::LinkZenohRefused, refused),
            (Counter::LinkZenohReopened, reopened),
        ]
    }

    /// An empty list: there is no session.
    #[cfg(not(feature = "zenoh"))]
    pub(super) const fn counts(&self) -> [(Counter, u64); 0] {
        []
    }
}

/// Creates both ends of a connection within the process, the thread's first. Its buffer towards the thread is small, so that events wait in
/// the outbox, where priorities count.
///
/// # Errors
/// If the system refuses it.
#[cfg(feature = "zenoh")]
pub(crate) fn narrow_pair() -> io::Result<(TcpStream, TcpStream)> {
    const RECEIVED_MAX: usize = 32 << 10;
    let (own, lanes) = super::gateway::pair()?;
    socket2::SockRef::from(&own).set_recv_buffer_size(RECEIVED_MAX)?;
    Ok((own, lanes))
}

/// Begins the thread of a link through Zenoh.
///
/// # Errors
/// If there is no Zenoh, or the system refuses the thread.
#[cfg(not(feature = "zenoh"))]
pub(super) fn begin(_: &Protocol, _: usize) -> io::Result<Gateway> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this program was built without Zenoh"))
}

/// Interval between attempts to reach a far service.
#[cfg(feature = "zenoh")]
const AGAIN: Duration = Duration::from_secs(1);
/// Interval at which a wait for a stream's end checks its orders.
#[cfg(feature = "zenoh")]
const LOOKS_UP: Duration = Duration::from_millis(100);

/// Begins the thread of a link through Zenoh.
///
/// # Errors
/// If there is no Zenoh, or the system refuses the thread.
#[cfg(feature = "zenoh")]
pub(super) fn begin(protocol: &Protocol, number: usize) -> io::Result<Gateway> {
    let (Some(session), Some(link)) = (&protocol.zenoh.session, protocol.links.get(number)) else {
        return Err(io::Error::new(io::ErrorKind::NotFound, "there is no Zenoh session ([links.zenoh])"));
    };
    let (session, to, is_secure) = (Arc::clone(session), link.entry.to.clone(), link.entry.tls);
    Gateway::begin("link-zenoh", move |control, report| {
        loop {
            let orders = *control.orders();
            if orders.is_over {
                return;
            }
            if orders.is_paused {
                control.wait(Duration::from_secs(60), |orders| !orders.is_paused || orders.is_over);
                continue;
            }
            if let Err(why) = serve((&session, &to, is_secure), control, report) {
                // A full channel has other reports of the same kind.
                let _full = report.try_send(super::gateway::Report::Down(why));
            }
            control.wait(AGAIN, |orders| orders.is_over);
        }
    })
}

/// Serves one stream to the far service, to its end.
///
/// # Errors
/// The reason why there is no stream, or why it has ended, unless the lane ended it.
#[cfg(feature = "zenoh")]
fn serve(
    (session, to, is_secure): (&zenoh_streams::Session, &str, bool),
    control: &super::gateway::Control,
    report: &std::sync::mpsc::SyncSender<super::gateway::Report>,
) -> Result<(), String> {
    let dialled = session.dial(to, is_secure, super::dialling::CONNECT_WITHIN).map_err(|error| error.to_string())?;
    let (own, lanes) = narrow_pair().map_err(|error| format!("no connection within the process: {error}"))?;
    let carried = dialled.carry(own).map_err(|error| error.to_string())?;
    if report.try_send(super::gateway::Report::Up(lanes)).is_err() {
        return Ok(());
    }
    loop {
        if let Some(why) = carried.ended_within(LOOKS_UP) {
            let is_closed = why == zenoh_streams::CLOSED;
            // The far side may have chosen the text.
            return if is_closed { Ok(()) } else { Err(why.escape_debug().to_string()) };
        }
        if control.orders().is_over {
            // The lane closes its end after its last output.
            let _ended = carried.ended_within(super::session::CLOSING);
            return Ok(());
        }
    }
}

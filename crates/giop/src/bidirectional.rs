//! The service context of bidirectional IIOP (CORBA 3.3 part 2, 9.8.1): addresses of a client's objects, which may be called over the
//! connection that carries the context.
//!
//! ```text
//! BI_DIR_IIOP: encapsulated sequence<ListenPoint { string host; ushort port }>
//! ```

use crate::cdr::{Endian, ReadError, ReadErrorKind, Reader};
use crate::codeset::encapsulate;
use alloc::string::String;
use alloc::vec::Vec;

/// Maximum addresses that are taken of one context: those of a host's interfaces, of which some ORBs list each.
pub const LISTEN_POINTS_MAX: u32 = 16;
/// Maximum octets of a host: those of a name in DNS.
pub const HOST_BYTES_MAX: u32 = 255;
/// Minimum octets of an address on the wire: a string's length and its zero, and the port.
const LISTEN_POINT_BYTES_MIN: usize = 7;

/// Advice for a client that cannot be called at its address.
pub const HOW_TO_OFFER: &str = "if a firewall or NAT is between, have it offer its own connection (omniORB: -ORBofferBiDirectionalGIOP 1 \
    and -ORBclientTransportRule \"* bidir,tcp\"; JacORB: BiDirConnectionInitializer; TAO: TAO_BiDirGIOP; each: a POA with \
    BidirectionalPolicy BOTH)";

/// An address at which a client says that its objects are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenPoint {
    /// Host as in the client's references.
    pub host: String,
    /// Port as in the client's references.
    pub port: u16,
}

impl ListenPoint {
    /// Whether a reference with this host and port is meant. Names of hosts have no case.
    #[must_use]
    pub fn is(&self, host: &str, port: u16) -> bool {
        self.port == port && self.host.eq_ignore_ascii_case(host)
    }
}

/// Data of the service context [`crate::message::ServiceContexts::BI_DIR_IIOP`].
#[must_use]
pub fn context<'p>(points: impl IntoIterator<Item = (&'p str, u16)>) -> Vec<u8> {
    let points: Vec<_> = points.into_iter().collect();
    encapsulate(Endian::Big, |w| {
        w.u32(u32::try_from(points.len()).unwrap_or(u32::MAX));
        for (host, port) in points {
            w.string_bytes(host.as_bytes());
            w.u16(port);
        }
    })
}

/// Reads the data of a context: the first [`LISTEN_POINTS_MAX`] addresses, and the number of further ones, which are not looked at.
///
/// # Errors
/// The data is no such list, or one with a host beyond [`HOST_BYTES_MAX`].
pub fn parse_context(data: &[u8]) -> Result<(Vec<ListenPoint>, u32), ReadError> {
    let mut r = Reader::over_encapsulation(data)?;
    let count = r.seq_len(LISTEN_POINT_BYTES_MIN)?;
    let taken = count.min(LISTEN_POINTS_MAX);
    let mut points = Vec::with_capacity(taken as usize);
    for _ in 0..taken {
        let host = r.text()?;
        let octets = u32::try_from(host.len()).unwrap_or(u32::MAX);
        if octets > HOST_BYTES_MAX {
            let (what, max) = ("octets of a host", HOST_BYTES_MAX);
            return Err(r.error(ReadErrorKind::TooMany { what, count: octets, max }));
        }
        points.push(ListenPoint { host, port: r.u16()? });
    }
    if taken == count {
        r.finish("BiDirIIOPServiceContext")?;
    }
    Ok((points, count - taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_it_was_written_and_at_no_other_length() {
        let data = context([("192.0.2.1", 9), ("client.example", 65_535)]);
        let (points, further) = parse_context(&data).unwrap();
        assert!(points[0].is("192.0.2.1", 9) && points[1].is("Client.Example", 65_535));
        assert!(!points[0].is("192.0.2.1", 10) && !points[0].is("192.0.2.10", 9));
        assert_eq!((points.len(), further), (2, 0));
        for length in 0..data.len() {
            assert!(parse_context(&data[..length]).is_err(), "{length}");
        }
        assert!(parse_context(&[&data[..], &[0]].concat()).is_err());
        assert_eq!(parse_context(&context([])), Ok((Vec::new(), 0)));
    }

    #[test]
    fn of_a_long_list_the_first_addresses_are_taken_and_the_others_counted() {
        for count in [16, 17, 1_000] {
            let data = context((1..=count).map(|port| ("h", port)));
            let (points, further) = parse_context(&data).unwrap();
            assert_eq!(points.iter().map(|point| point.port).collect::<Vec<_>>(), (1..=16).collect::<Vec<_>>());
            assert_eq!(further, u32::from(count) - 16);
        }
    }

    #[test]
    fn a_list_that_is_none_is_refused_before_it_takes_memory() {
        assert!(parse_context(&context([(&*"h".repeat(255), 1)])).is_ok());
        assert!(parse_context(&context([(&*"h".repeat(256), 1)])).is_err());
        // Two thousand million of them, of which none is there.
        assert!(parse_context(&[0, 0, 0, 0, 0x80, 0, 0, 0]).is_err());
    }
}

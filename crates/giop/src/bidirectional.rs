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

/// Maximum addresses of one context. A host with more interfaces than that is none.
pub const LISTEN_POINTS_MAX: u32 = 16;
/// Maximum octets of a host: those of a name in DNS.
pub const HOST_BYTES_MAX: u32 = 255;
/// Minimum octets of an address on the wire: a string's length and its zero, and the port.
const LISTEN_POINT_BYTES_MIN: usize = 7;

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

/// Reads the data of a context.
///
/// # Errors
/// The data is no such list, or one beyond [`LISTEN_POINTS_MAX`] or [`HOST_BYTES_MAX`].
pub fn parse_context(data: &[u8]) -> Result<Vec<ListenPoint>, ReadError> {
    let mut r = Reader::over_encapsulation(data)?;
    let count = r.seq_len(LISTEN_POINT_BYTES_MIN)?;
    if count > LISTEN_POINTS_MAX {
        return Err(r.error(ReadErrorKind::TooMany { what: "listen points", count, max: LISTEN_POINTS_MAX }));
    }
    let mut points = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let host = r.text()?;
        let octets = u32::try_from(host.len()).unwrap_or(u32::MAX);
        if octets > HOST_BYTES_MAX {
            let (what, max) = ("octets of a host", HOST_BYTES_MAX);
            return Err(r.error(ReadErrorKind::TooMany { what, count: octets, max }));
        }
        points.push(ListenPoint { host, port: r.u16()? });
    }
    r.finish("BiDirIIOPServiceContext")?;
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_it_was_written_and_at_no_other_length() {
        let data = context([("192.0.2.1", 9), ("client.example", 65_535)]);
        let points = parse_context(&data).unwrap();
        assert!(points[0].is("192.0.2.1", 9) && points[1].is("Client.Example", 65_535));
        assert!(!points[0].is("192.0.2.1", 10) && !points[0].is("192.0.2.10", 9));
        assert_eq!(points.len(), 2);
        for length in 0..data.len() {
            assert!(parse_context(&data[..length]).is_err(), "{length}");
        }
        assert!(parse_context(&[&data[..], &[0]].concat()).is_err());
        assert_eq!(parse_context(&context([])), Ok(Vec::new()));
    }

    #[test]
    fn a_list_beyond_its_bounds_is_refused_before_it_takes_memory() {
        let of = |count: usize| context(core::iter::repeat_n(("h", 1), count));
        assert_eq!(parse_context(&of(16)).map(|points| points.len()), Ok(16));
        for count in [17, 1_000] {
            let kind = parse_context(&of(count)).unwrap_err().kind;
            assert!(matches!(kind, ReadErrorKind::TooMany { what: "listen points", .. }), "{kind:?}");
        }
        assert!(parse_context(&context([(&*"h".repeat(255), 1)])).is_ok());
        assert!(parse_context(&context([(&*"h".repeat(256), 1)])).is_err());
        // Two thousand million of them, of which none is there.
        assert!(parse_context(&[0, 0, 0, 0, 0x80, 0, 0, 0]).is_err());
    }
}

//! Service contexts: what the ORBs tell each other beside the arguments (CORBA 3.3 part 2, 9.7).

use crate::cdr::{Encoding, Endian, ReadError, ReadErrorKind, Reader};

/// The service contexts of a request or reply, checked when the message was parsed and read when asked for.
#[derive(Clone, Debug)]
pub struct ServiceContexts<'a> {
    count: u32,
    /// A reader behind the count.
    list: Reader<'a>,
}

impl<'a> ServiceContexts<'a> {
    /// Code sets that the client chose for the connection; see [`crate::codeset::parse_context`].
    pub const CODE_SETS: u32 = 1;
    /// Bidirectional GIOP: the client lends its listening points.
    pub const BI_DIR_IIOP: u32 = 5;
    /// Text that describes a system exception (`ExceptionDetailMessage`).
    pub const EXCEPTION_DETAIL_MESSAGE: u32 = 14;
    /// Real-time CORBA priority of the invocation: an encapsulated `short` from 0 to 32767.
    pub const RT_CORBA_PRIORITY: u32 = 10;

    /// Campanile's own context, without data: when this request was sent, all earlier requests to the object had been answered. A servant
    /// that refuses a request also refuses the later ones, up to the next one with this context, so that repeated requests are carried out
    /// in order. The number is `CAMP`, not registered with the OMG.
    pub const FLOW_START: u32 = 0x4341_4D50;
    /// Campanile's own, on the first request of a connection: what the client is called; see [`crate::client_name`]. The number is `CAMN`.
    pub const CLIENT_NAME: u32 = 0x4341_4D4E;

    /// Maximum number of contexts of a message. A message with more is refused; real ones have fewer than ten.
    pub const COUNT_MAX: u32 = 256;

    /// No contexts.
    #[must_use]
    pub const fn none() -> Self {
        Self { count: 0, list: Reader::new(&[], Encoding::new(Endian::Big)) }
    }

    /// Reads the list to its end.
    #[inline]
    pub(crate) fn read(r: &mut Reader<'a>) -> Result<Self, ReadError> {
        let count = r.seq_len(8)?;
        if count > Self::COUNT_MAX {
            return Err(r.error(ReadErrorKind::TooMany { what: "service contexts", count, max: Self::COUNT_MAX }));
        }
        let list = r.clone();
        for _ in 0..count {
            r.u32()?;
            r.octets()?;
        }
        Ok(Self { count, list })
    }

    /// Id and data of each context, in the order in which they were sent. The data usually is an encapsulation; see
    /// [`Reader::over_encapsulation`].
    #[must_use]
    pub fn iter(&self) -> ServiceContextsIter<'a> {
        ServiceContextsIter { left: self.count, list: self.list.clone() }
    }

    /// Data of the first context with this id.
    #[inline]
    #[must_use]
    pub fn find(&self, id: u32) -> Option<&'a [u8]> {
        self.iter().find_map(|(found, data)| (found == id).then_some(data))
    }

    /// Number of contexts, at most [`ServiceContexts::COUNT_MAX`].
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl<'a> IntoIterator for &ServiceContexts<'a> {
    type Item = (u32, &'a [u8]);
    type IntoIter = ServiceContextsIter<'a>;

    fn into_iter(self) -> ServiceContextsIter<'a> {
        self.iter()
    }
}

/// Ids and data of service contexts; from [`ServiceContexts::iter`].
#[derive(Clone, Debug)]
pub struct ServiceContextsIter<'a> {
    left: u32,
    list: Reader<'a>,
}

impl<'a> Iterator for ServiceContextsIter<'a> {
    type Item = (u32, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some((self.list.u32().ok()?, self.list.octets().ok()?))
    }
}

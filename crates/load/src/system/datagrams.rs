//! Datagrams received and sent many per call (recvmmsg(2), sendmmsg(2)), as a specialized program would.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::ptr;

/// Maximum datagrams in a call.
pub const DATAGRAMS_MAX: usize = 64;

/// A buffer for datagrams with a common maximum size.
#[derive(Debug)]
pub struct Datagrams {
    bytes: Vec<u8>,
    /// Maximum octets of each datagram.
    octets: usize,
    /// Octets of each datagram.
    lengths: Vec<usize>,
}

impl Datagrams {
    /// A buffer for [`DATAGRAMS_MAX`] datagrams of so many octets.
    #[must_use]
    pub fn new(octets: usize) -> Self {
        Self { bytes: vec![0; DATAGRAMS_MAX * octets], octets, lengths: Vec::with_capacity(DATAGRAMS_MAX) }
    }

    /// Number of datagrams.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether the buffer is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// The datagrams.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks(self.octets).zip(&self.lengths).filter_map(|(bytes, length)| bytes.get(..*length))
    }

    /// Removes all datagrams.
    pub fn clear(&mut self) {
        self.lengths.clear();
    }

    /// Adds a datagram of so many octets, for the caller to fill in; `None` if there is no room.
    pub fn add(&mut self, octets: usize) -> Option<&mut [u8]> {
        let at = self.lengths.len();
        if octets > self.octets || at == DATAGRAMS_MAX {
            return None;
        }
        self.lengths.push(octets);
        self.bytes.get_mut(at * self.octets..)?.get_mut(..octets)
    }

    /// Waits for a datagram, and replaces the contents by it and others that are available.
    ///
    /// # Errors
    /// The system's error.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<()> {
        self.lengths.clear();
        let (mut pieces, mut headers) = (parts_of(&mut self.bytes, self.octets), empty());
        for (header, piece) in headers.iter_mut().zip(&mut pieces) {
            header.msg_hdr.msg_iov = ptr::from_mut(piece);
            header.msg_hdr.msg_iovlen = 1;
        }
        let (most, flags) = (libc::c_uint::try_from(headers.len()).unwrap_or(0), libc::MSG_WAITFORONE);
        // SAFETY: there are `most` headers, each with one piece, which is a part of `bytes` of its own; all live until the call returns.
        let count =
            unsafe { libc::recvmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), most, flags as _, ptr::null_mut()) };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        self.lengths.extend(headers.iter().take(count).map(|header| header.msg_len as usize));
        Ok(())
    }

    /// Sends the datagrams to the socket's peer, and removes them; returns how many the system accepted.
    ///
    /// # Errors
    /// The system's error.
    pub fn send(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        let (mut pieces, mut headers) = (parts_of(&mut self.bytes, self.octets), empty());
        for ((header, piece), length) in headers.iter_mut().zip(&mut pieces).zip(&self.lengths) {
            piece.iov_len = *length;
            header.msg_hdr.msg_iov = ptr::from_mut(piece);
            header.msg_hdr.msg_iovlen = 1;
        }
        let (most, mut sent) = (self.lengths.len(), 0);
        self.lengths.clear();
        while let Some(rest) = headers.get_mut(sent..most).filter(|rest| !rest.is_empty()) {
            let length = libc::c_uint::try_from(rest.len()).unwrap_or(0);
            // SAFETY: there are `length` headers, each with one piece, which is a part of `bytes`; all live until the call returns.
            let count = unsafe { libc::sendmmsg(socket.as_raw_fd(), rest.as_mut_ptr(), length, 0) };
            sent += usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        }
        Ok(sent)
    }
}

/// Empty headers without addresses. C libraries differ in their other fields.
fn empty() -> [libc::mmsghdr; DATAGRAMS_MAX] {
    // SAFETY: they are numbers and pointers, of which zeros are values: no octets anywhere.
    unsafe { std::mem::zeroed() }
}

fn parts_of(bytes: &mut [u8], octets: usize) -> [libc::iovec; DATAGRAMS_MAX] {
    let mut parts = bytes.chunks_exact_mut(octets);
    std::array::from_fn(|_| {
        let part = parts.next().unwrap_or_default();
        libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_arrive_as_they_were_sent() {
        let (here, there) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        here.connect(there.local_addr().unwrap()).unwrap();
        let mut out = Datagrams::new(100);
        for length in 0..40 {
            out.add(length).unwrap().fill(u8::try_from(length).unwrap());
        }
        assert!(out.add(101).is_none());
        assert_eq!(out.send(&here).unwrap(), 40);
        assert!(out.is_empty());
        let mut came = Vec::new();
        let mut input = Datagrams::new(100);
        while came.len() < 40 {
            input.receive(&there).unwrap();
            came.extend(input.iter().map(<[u8]>::to_vec));
        }
        let expected: Vec<Vec<u8>> = (0..40_u8).map(|length| vec![length; length.into()]).collect();
        assert_eq!(came, expected);
    }
}

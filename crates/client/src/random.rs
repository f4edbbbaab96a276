//! Unpredictable random numbers.

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use std::io;

/// Octets of the operating system's generator.
pub(crate) fn octets<const N: usize>() -> io::Result<[u8; N]> {
    let mut octets = [0; N];
    let mut filled = 0;
    while let Some(rest) = octets.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match getrandom(rest, GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(octets)
}

//! Records in a file, one behind the other: each has its length and a checksum before it. What is damaged is found, and never taken for
//! something else.

use std::io;

use super::uncached::{Desk, UncachedFile};

/// Before each record: its length and its checksum.
pub(super) const HEAD: usize = 8;
/// A length that no record has.
pub(super) const NO_RECORD: u32 = u32::MAX;
/// What is read at a time at least.
const READ_BYTES: usize = 64 << 10;

/// Appends a record of what `write` appends.
pub(super) fn append<T>(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let begins = out.len();
    out.extend([0; HEAD]);
    let written = write(out);
    if let Some((head, body)) = out.get_mut(begins..).and_then(|record| record.split_at_mut_checked(HEAD)) {
        let length = u32::try_from(body.len()).unwrap_or(NO_RECORD - 1);
        let (of_length, of_sum) = head.split_at_mut(4);
        of_length.copy_from_slice(&length.to_le_bytes());
        of_sum.copy_from_slice(&crc32fast::hash(body).to_le_bytes());
    }
    written
}

/// The first record of these octets, and what is behind it. Nothing if it is not all there, an error if it is damaged.
fn first(octets: &[u8]) -> Option<(io::Result<&[u8]>, &[u8])> {
    let (length, rest) = octets.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    let (body, behind) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    let is_whole = crc32fast::hash(body) == u32::from_le_bytes(*sum);
    Some((is_whole.then_some(body).ok_or_else(|| damaged("a record is damaged")), behind))
}

pub(super) fn damaged(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Whether what could not be read is damaged, or not there: anything else may be over before long.
pub(super) fn is_for_good(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof)
}

/// Where records are looked at in a file: from one on, and so many octets at most.
#[derive(Clone, Copy)]
pub(super) struct Stretch {
    pub(super) from: u64,
    pub(super) octets: u64,
}

/// Passes records, with their positions, to `take` as long as that returns true. Returns the position of the next one; or, with the error
/// that ended the walk, the position of that.
pub(super) fn walk(
    file: &UncachedFile,
    desk: &mut Desk,
    Stretch { from, octets }: Stretch,
    mut take: impl FnMut(u64, io::Result<&[u8]>) -> io::Result<bool>,
) -> Result<u64, (u64, io::Error)> {
    let (mut offset, mut length) = (from, READ_BYTES);
    while offset < file.bytes && offset - from < octets {
        let chunk = file.read(offset, length, desk).map_err(|error| (offset, error))?;
        let mut rest = chunk;
        while let Some((body, behind)) = first(rest) {
            let goes_on = take(offset, body).map_err(|error| (offset, error))?;
            offset += (rest.len() - behind.len()) as u64;
            rest = behind;
            if !goes_on {
                return Ok(offset);
            }
        }
        if rest.len() == chunk.len() {
            if chunk.len() as u64 >= file.bytes - offset {
                return Err((offset, damaged("a record does not end")));
            }
            // It is longer than what was read.
            length = chunk.len().saturating_mul(4);
        }
    }
    Ok(offset)
}

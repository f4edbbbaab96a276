//! Announcements: datagrams by which services of one federation find each other.
//!
//! Numbers are little-endian; a text is preceded by its length, one octet. The caller may append octets behind the last field, such as an
//! authentication code.
//!
//! ```text
//!  0  "CMPF"          8  service      u64    32  revision   u32
//!  4  version  u8    16  incarnation  u64    36  port       u16
//!  5  part     u8    24  counter      u64    38  tls_port   u16
//!  6  parts    u8                            40  federation, name, host   text
//!  7  0                                          count u16, and channels  text
//! ```

use alloc::vec::Vec;

use crate::group::CODE_BYTES;

/// Maximum octets of a datagram, with [a code](crate::group::Key::code) behind the fields.
pub const DATAGRAM_BYTES_MAX: usize = 1_400;
/// Maximum octets of a text.
pub const TEXT_BYTES_MAX: usize = 255;

const MAGIC: &[u8; 4] = b"CMPF";
const VERSION: u8 = 1;

/// An announcement. A service with more channels than fit in one datagram sends several parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement<'a> {
    /// The identity of the service, never 0.
    pub service: u64,
    /// The incarnation of the service's process.
    pub incarnation: u64,
    /// A counter that rises with each announcement of the service, across restarts as well: an announcement with a lower one is a replay.
    pub counter: u64,
    /// The index of this part of the list of channels, from 0.
    pub part: u8,
    /// Number of parts, at least 1.
    pub parts: u8,
    /// Changes whenever the list of channels changes.
    pub revision: u32,
    /// The port for links in the clear; 0 if there is none.
    pub port: u16,
    /// The port for links over TLS; 0 if there is none.
    pub tls_port: u16,
    /// The name of the federation.
    pub federation: &'a str,
    /// The service's name; may be empty.
    pub name: &'a str,
    /// The host for links. Empty: the source address of the announcement.
    pub host: &'a str,
    /// The names of the channels in this part.
    pub channels: Channels<'a>,
}

/// A list of channel names, read in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channels<'a> {
    count: u16,
    octets: &'a [u8],
}

impl<'a> Channels<'a> {
    /// The names in the order of the datagram.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut octets = self.octets;
        core::iter::from_fn(move || take_text(&mut octets))
    }
}

impl<'a> Announcement<'a> {
    /// Reads an announcement that fills all of `octets`. `None` if it is ill-formed or of another version.
    #[must_use]
    pub fn read(octets: &'a [u8]) -> Option<Self> {
        let mut rest = octets.strip_prefix(MAGIC)?;
        let rest = &mut rest;
        let [VERSION, part, parts, 0] = take(rest)? else { return None };
        let announcement = Self {
            part,
            parts,
            service: u64::from_le_bytes(take(rest)?),
            incarnation: u64::from_le_bytes(take(rest)?),
            counter: u64::from_le_bytes(take(rest)?),
            revision: u32::from_le_bytes(take(rest)?),
            port: u16::from_le_bytes(take(rest)?),
            tls_port: u16::from_le_bytes(take(rest)?),
            federation: take_text(rest)?,
            name: take_text(rest)?,
            host: take_text(rest)?,
            channels: Channels { count: u16::from_le_bytes(take(rest)?), octets: rest },
        };
        let channels = announcement.channels;
        for _ in 0..channels.count {
            take_text(rest)?;
        }
        let is_fit = rest.is_empty() && part < parts && announcement.service != 0;
        (is_fit && channels.iter().all(|name| !name.is_empty())).then_some(announcement)
    }

    /// Appends the announcement with `channels` instead of its own. Texts that are too long are cut.
    pub fn write(&self, channels: &[&str], out: &mut Vec<u8>) {
        let &Self {
            service,
            incarnation,
            counter,
            part,
            parts,
            revision,
            port,
            tls_port,
            federation,
            name,
            host,
            channels: _,
        } = self;
        out.extend(MAGIC);
        out.extend([VERSION, part, parts, 0]);
        [service, incarnation, counter].into_iter().for_each(|number| out.extend(number.to_le_bytes()));
        out.extend(revision.to_le_bytes());
        [port, tls_port].into_iter().for_each(|port| out.extend(port.to_le_bytes()));
        [federation, name, host].into_iter().for_each(|text| put_text(text, out));
        out.extend(u16::try_from(channels.len()).unwrap_or(u16::MAX).to_le_bytes());
        channels.iter().take(u16::MAX.into()).for_each(|name| put_text(name, out));
    }

    /// Number of the first channels that fit in one announcement: at least one, unless `channels` is empty.
    #[must_use]
    pub fn room_for(&self, channels: &[&str]) -> usize {
        let texts = [self.federation, self.name, self.host].into_iter().map(octets_of).sum::<usize>();
        let mut room = DATAGRAM_BYTES_MAX.saturating_sub(40 + 2 + CODE_BYTES + texts);
        let fits = |name: &&&str| {
            let octets = octets_of(name);
            room.checked_sub(octets).map(|left| room = left).is_some()
        };
        channels.iter().take_while(fits).count().max(channels.len().min(1))
    }
}

/// Encoded length of a text with its length octet.
fn octets_of(text: &str) -> usize {
    1 + text.len().min(TEXT_BYTES_MAX)
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    let cut = text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or_default();
    out.extend(u8::try_from(cut.len()));
    out.extend(cut.as_bytes());
}

fn take<const N: usize>(octets: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = octets.split_first_chunk()?;
    *octets = rest;
    Some(*array)
}

fn take_text<'a>(octets: &mut &'a [u8]) -> Option<&'a str> {
    let (length, rest) = octets.split_first()?;
    let (text, rest) = rest.split_at_checked((*length).into())?;
    *octets = rest;
    core::str::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use alloc::vec;

    fn announcement() -> Announcement<'static> {
        Announcement {
            service: 7,
            incarnation: 8,
            counter: 9,
            part: 1,
            parts: 3,
            revision: 10,
            port: 2_816,
            tls_port: 2_817,
            federation: "observatory",
            name: "summit",
            host: "",
            channels: Channels::default(),
        }
    }

    #[test]
    fn an_announcement_is_read_back_whole_and_not_at_any_other_length() {
        let (mut octets, names) = (Vec::new(), ["Weather", "Dömé"]);
        announcement().write(&names, &mut octets);
        assert_eq!(&octets[..8], b"CMPF\x01\x01\x03\0");
        let read = Announcement::read(&octets).unwrap();
        assert_eq!(Announcement { channels: Channels::default(), ..read }, announcement());
        assert_eq!(read.channels.iter().collect::<Vec<_>>(), names);
        assert!((0..octets.len()).all(|length| Announcement::read(&octets[..length]).is_none()));
        octets.push(0);
        assert!(Announcement::read(&octets).is_none(), "an octet too many");
    }

    #[test]
    fn what_makes_no_sense_is_no_announcement() {
        let written = |of: Announcement<'_>, names: &[&str]| {
            let mut octets = Vec::new();
            of.write(names, &mut octets);
            octets
        };
        let good = written(announcement(), &["Weather"]);
        assert!(Announcement::read(&good).is_some());
        for wrong in [
            written(Announcement { service: 0, ..announcement() }, &[]),
            written(Announcement { part: 3, ..announcement() }, &[]),
            written(Announcement { part: 0, parts: 0, ..announcement() }, &[]),
            written(announcement(), &[""]),
        ] {
            assert!(Announcement::read(&wrong).is_none(), "{wrong:?}");
        }
        let with = |at: usize, octet| {
            let mut octets = good.clone();
            octets[at] = octet;
            octets
        };
        let last = good.len() - 1;
        for wrong in [with(0, b'X'), with(4, 2), with(7, 1), with(40, 255), with(last, 0xff)] {
            assert!(Announcement::read(&wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn channels_are_announced_in_as_many_datagrams_as_they_need() {
        let names: Vec<String> = (0..1_024).map(|number| alloc::format!("{number:0>200}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (mut rest, mut seen, mut datagrams) = (&names[..], vec![], 0);
        while !rest.is_empty() {
            let (some, others) = rest.split_at(announcement().room_for(rest));
            let mut octets = Vec::new();
            announcement().write(some, &mut octets);
            assert!(octets.len() + CODE_BYTES <= DATAGRAM_BYTES_MAX);
            seen.extend(Announcement::read(&octets).unwrap().channels.iter().map(String::from));
            (rest, datagrams) = (others, datagrams + 1);
        }
        assert_eq!(seen, names);
        assert!(datagrams <= 255, "{datagrams}");
        assert_eq!(announcement().room_for(&[]), 0);
        // Texts that are too long are cut between characters.
        let long = "ö".repeat(200);
        let mut octets = Vec::new();
        announcement().write(&[&long], &mut octets);
        assert_eq!(Announcement::read(&octets).unwrap().channels.iter().next(), Some(&long[..254]));
    }
}

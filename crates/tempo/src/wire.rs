//! Frames: a header of 32 octets, then as many octets as its length says. All integers are little-endian.
//!
//! ```text
//!  0        1        2        3        4                 8                 12
//! +--------+--------+--------+--------+-----------------+-----------------+-----------------+
//! | magic  |version | kind   | flags  | session         | topic           | sequence        |
//! +--------+--------+--------+--------+-----------------+-----------------+-----------------+
//! | sent                              | priority | 0    | length          | 32: the payload
//! +-----------------------------------+----------+------+-----------------+
//!  16                                  24         26     28
//! ```
//!
//! [`Frame::read`] checks a frame once and borrows from it; [`Frame::write`] puts one into the caller's buffer.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The first octet of each frame.
pub const MAGIC: u8 = 0x54;
/// The protocol version spoken here.
pub const VERSION: u8 = 1;
/// Octets of a header.
pub const HEADER: usize = 32;
/// Maximum octets behind a header.
pub const PAYLOAD_MAX: usize = 65_475;
/// Octets of a datagram that is unlikely to be fragmented by the network.
pub const DATAGRAM: usize = 1_472;
/// Maximum octets of a topic's name.
pub const NAME_MAX: usize = 255;
/// Maximum octets of a message sent in fragments.
pub const MESSAGE_MAX: u32 = 16 << 20;
/// Default port.
pub const PORT: u16 = 2811;

const ANNOUNCEMENT: usize = 40;
const FRAGMENT: usize = 8;
const PROBE: usize = 48;
const REPORT: usize = 24;

const IS_FRAGMENT: u8 = 1;
const BY_BROKER: u8 = 1 << 1;
const CONTENT_SHIFT: u8 = 2;
const CONTENT_MASK: u8 = 3;

/// Shortest and longest announcement period, in milliseconds.
pub const PERIODS_MS: core::ops::RangeInclusive<u16> = 10..=60_000;

/// Why octets are not a frame. The position of the error follows from the frame's beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unreadable {
    /// The frame is incomplete.
    Incomplete {
        /// Octets needed before more can be said.
        missing: usize,
    },
    /// The first octet is not [`MAGIC`].
    Magic(u8),
    /// Another version of the protocol.
    Version(u8),
    /// Its length is larger than any frame's.
    Length(u32),
    /// The session is 0.
    Session,
    /// Unknown kind. Its length is known, so that the frames behind it can be read.
    Kind {
        /// The kind.
        kind: u8,
        /// Octets of the frame, header included.
        octets: usize,
    },
    /// The payload does not fit the kind. The frames behind it can be read.
    Payload {
        /// Octets of the frame, header included.
        octets: usize,
    },
}

impl Unreadable {
    /// Octets to skip to the next frame, if known.
    #[must_use]
    pub const fn octets(self) -> Option<usize> {
        match self {
            Self::Kind { octets, .. } | Self::Payload { octets } => Some(octets),
            _ => None,
        }
    }
}

impl core::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Incomplete { missing } => write!(f, "a frame is not whole: at least {missing} octets are missing"),
            Self::Magic(first) => write!(f, "a frame begins with 0x{MAGIC:02x}, and not with 0x{first:02x}"),
            Self::Version(version) => write!(f, "a frame has version {version}; version {VERSION} is spoken here"),
            Self::Length(length) => write!(f, "a frame claims {length} octets; {PAYLOAD_MAX} at most follow a header"),
            Self::Session => f.write_str("a frame has session 0"),
            Self::Kind { kind, .. } => write!(f, "a frame has kind {kind}, which is not known"),
            Self::Payload { .. } => f.write_str("what is behind a header is not what its kind has"),
        }
    }
}

impl core::error::Error for Unreadable {}

/// Fields common to all frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The sender's session; not 0.
    pub session: u32,
    /// The sender's number for the topic. Reports and echoes use it otherwise, as described there.
    pub topic: u32,
    /// Sequence number of the topic's data and probes; 0 in other frames.
    pub sequence: u32,
    /// The first sender's clock when the message was handed to it, in nanoseconds.
    pub sent: u64,
    /// Priority: of a topic's queued messages, the one with the larger number goes first.
    pub priority: i16,
    /// Sent by a broker.
    pub by_broker: bool,
}

/// An end point's role on a topic it announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Able to send.
    Publisher,
    /// Ready to receive.
    Subscriber,
}

impl Role {
    const fn number(self) -> u8 {
        match self {
            Self::Publisher => 1,
            Self::Subscriber => 2,
        }
    }

    const fn numbered(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Publisher),
            2 => Some(Self::Subscriber),
            _ => None,
        }
    }

    /// The other role.
    #[must_use]
    pub const fn counterpart(self) -> Self {
        match self {
            Self::Publisher => Self::Subscriber,
            Self::Subscriber => Self::Publisher,
        }
    }
}

/// Format of a message's octets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Content {
    /// The application's own format.
    #[default]
    Octets,
    /// CDR, little-endian, of the topic's declared type.
    Typed,
    /// A structured event of the OMG's Notification Service in CDR, behind eight octets with the byte order.
    Structured,
}

impl Content {
    const fn number(self) -> u8 {
        match self {
            Self::Octets => 0,
            Self::Typed => 1,
            Self::Structured => 2,
        }
    }

    const fn numbered(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Octets),
            1 => Some(Self::Typed),
            2 => Some(Self::Structured),
            _ => None,
        }
    }
}

/// An announcement's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announcement<'b> {
    /// A cookie for the receiver to return; 0 if there is none.
    pub given: u64,
    /// The cookie that the receiver gave last; 0 if there is none.
    pub returned: u64,
    /// Messages in 1,000 s: a publisher's intention (a broker: the sum), a subscriber's wish (a broker: the lowest). 0: not announced.
    pub rate: u32,
    /// The highest rate of a single publisher or subscriber, in messages in 1,000 s.
    pub highest_rate: u32,
    /// Microseconds within which a message should be forwarded; 0: none.
    pub deadline_us: u32,
    /// Number of end points that the announcement stands for.
    pub end_points: u32,
    /// Octets of the largest message that it sends or accepts.
    pub largest: u32,
    /// Milliseconds between two announcements; the reader limits it to [`PERIODS_MS`].
    pub period_ms: u16,
    /// Role on the topic.
    pub role: Role,
    /// The topic's name: 1 to [`NAME_MAX`] octets without control characters.
    pub name: &'b str,
}

/// Position of a fragment in its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// Octets of the whole message; 1 to [`MESSAGE_MAX`].
    pub total: u32,
    /// Offset of the fragment. The reader ensures that the fragment lies within the message.
    pub at: u32,
}

/// A data frame's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Data<'b> {
    /// Position of the fragment; `None` if the message is whole.
    pub fragment: Option<Fragment>,
    /// Format of the message's octets.
    pub content: Content,
    /// The octets of the message or fragment.
    pub octets: &'b [u8],
}

/// A probe, or the echo of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// The prober's clock when the probe was sent, in nanoseconds. Only the prober reads it.
    pub sent: u64,
    /// Session of the publisher that probes.
    pub prober: u32,
    /// The prober's number for the topic.
    pub topic: u32,
    /// Sequence number among the prober's probes.
    pub number: u32,
    /// Address for echoes, if known.
    pub to: Option<SocketAddr>,
    /// Number of brokers passed.
    pub hops: u8,
    /// Session of the subscriber that echoes it; 0 in a probe.
    pub echoed_by: u32,
}

/// A subscriber's reception figures, sent to its publisher. The header's topic is the publisher's number for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// Messages received since the subscriber met the publisher.
    pub received: u64,
    /// Messages lost.
    pub lost: u64,
    /// Messages in 1,000 s received since the previous report.
    pub rate: u32,
    /// Number of end points that the report stands for.
    pub end_points: u32,
}

/// The part of a frame behind the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload<'b> {
    /// Announces a topic and a role.
    Announcement(Announcement<'b>),
    /// A message, or a fragment of one.
    Data(Data<'b>),
    /// A probe, which takes the way of data and is echoed by each receiver.
    Probe(Probe),
    /// The echo of a probe.
    Echo(Probe),
    /// Reception figures of a topic.
    Report(Report),
    /// Gives up a role.
    Bye(Role),
    /// The end point's name: 1 to [`NAME_MAX`] octets without control characters.
    Name(&'b str),
}

/// A frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'b> {
    /// Its header.
    pub header: Header,
    /// Its payload.
    pub payload: Payload<'b>,
}

/// Octets of the first frame, header included, if known yet.
///
/// # Errors
/// The octets do not begin a frame, or are too few to tell ([`Unreadable::Incomplete`]).
pub fn frame_octets(bytes: &[u8]) -> Result<usize, Unreadable> {
    // As early as possible: a connection's first octet is enough.
    match *bytes {
        [first, ..] if first != MAGIC => return Err(Unreadable::Magic(first)),
        [_, version, ..] if version != VERSION => return Err(Unreadable::Version(version)),
        _ => {}
    }
    let Some(length) = u32_at(bytes, 28) else {
        return Err(Unreadable::Incomplete { missing: HEADER - bytes.len() });
    };
    match usize::try_from(length) {
        Ok(octets) if octets <= PAYLOAD_MAX => Ok(HEADER + octets),
        _ => Err(Unreadable::Length(length)),
    }
}

impl<'b> Frame<'b> {
    /// Reads the first frame, and returns its size in octets.
    ///
    /// # Errors
    /// Why it is not a frame; [`Unreadable::octets`] says how many octets can be skipped.
    pub fn read(bytes: &'b [u8]) -> Result<(Self, usize), Unreadable> {
        let octets = frame_octets(bytes)?;
        let Some(frame) = bytes.get(..octets) else {
            return Err(Unreadable::Incomplete { missing: octets - bytes.len() });
        };
        let (header, payload) = frame.split_at(HEADER);
        let [_, _, kind, flags, ..] = *header else { return Err(Unreadable::Payload { octets }) };
        let header = Header {
            session: u32_at(header, 4).unwrap_or_default(),
            topic: u32_at(header, 8).unwrap_or_default(),
            sequence: u32_at(header, 12).unwrap_or_default(),
            sent: u64_at(header, 16).unwrap_or_default(),
            priority: u16_at(header, 24).unwrap_or_default().cast_signed(),
            by_broker: flags & BY_BROKER != 0,
        };
        if header.session == 0 {
            return Err(Unreadable::Session);
        }
        let payload = match kind {
            1 => Announcement::read(payload).map(Payload::Announcement),
            2 => Data::read(payload, flags).map(Payload::Data),
            3 => Probe::read(payload).map(Payload::Probe),
            4 => Probe::read(payload).map(Payload::Echo),
            5 => Report::read(payload).map(Payload::Report),
            6 => match payload {
                [role] => Role::numbered(*role).map(Payload::Bye),
                _ => None,
            },
            7 => core::str::from_utf8(payload).ok().filter(|name| is_name(name)).map(Payload::Name),
            kind => return Err(Unreadable::Kind { kind, octets }),
        };
        let payload = payload.ok_or(Unreadable::Payload { octets })?;
        Ok((Self { header, payload }, octets))
    }

    /// Octets of the frame when written.
    #[must_use]
    pub const fn octets(&self) -> usize {
        HEADER
            + match &self.payload {
                Payload::Announcement(announcement) => ANNOUNCEMENT + announcement.name.len(),
                Payload::Data(data) => data.octets.len() + if data.fragment.is_some() { FRAGMENT } else { 0 },
                Payload::Probe(_) | Payload::Echo(_) => PROBE,
                Payload::Report(_) => REPORT,
                Payload::Bye(_) => 1,
                Payload::Name(name) => name.len(),
            }
    }

    /// Writes the frame at the beginning of `out`, and returns its size in octets. Writes nothing if there is no room, if the frame exceeds
    /// the maximum size, or if its name is not 1 to 255 octets long.
    #[must_use]
    pub fn write(&self, out: &mut [u8]) -> Option<usize> {
        let octets = self.octets();
        let length = octets - HEADER;
        if length > PAYLOAD_MAX {
            return None;
        }
        let (header, rest) = out.get_mut(..octets)?.split_at_mut_checked(HEADER)?;
        let (kind, flags) = match &self.payload {
            Payload::Announcement(announcement) => (1, announcement.write(rest)?),
            Payload::Data(data) => (2, data.write(rest)?),
            Payload::Probe(probe) => (3, probe.write(rest)?),
            Payload::Echo(probe) => (4, probe.write(rest)?),
            Payload::Report(report) => (5, report.write(rest)?),
            Payload::Bye(role) => {
                *rest.first_mut()? = role.number();
                (6, 0)
            }
            Payload::Name(name) => {
                let name = name.as_bytes();
                Writer(rest).put(Some(name).filter(|name| (1..=NAME_MAX).contains(&name.len()))?)?;
                (7, 0)
            }
        };
        let Header { session, topic, sequence, sent, priority, by_broker } = self.header;
        let mut to = Writer(header);
        to.put(&[MAGIC, VERSION, kind, flags | if by_broker { BY_BROKER } else { 0 }])?;
        to.put(&session.to_le_bytes())?;
        to.put(&topic.to_le_bytes())?;
        to.put(&sequence.to_le_bytes())?;
        to.put(&sent.to_le_bytes())?;
        to.put(&priority.to_le_bytes())?;
        to.put(&[0; 2])?;
        to.put(&u32::try_from(length).ok()?.to_le_bytes())?;
        Some(octets)
    }
}

/// Writes the head of a data frame, behind which the caller puts the octets, and returns the head's size. Writes nothing if there is no
/// room for both, or if they exceed a frame's maximum size.
#[must_use]
pub fn write_data_head(
    header: Header,
    fragment: Option<Fragment>,
    content: Content,
    octets: usize,
    out: &mut [u8],
) -> Option<usize> {
    let head = Frame { header, payload: Payload::Data(Data { fragment, content, octets: &[] }) }.write(out)?;
    let length = (head - HEADER).checked_add(octets).filter(|&length| length <= PAYLOAD_MAX)?;
    out.get(..head.checked_add(octets)?)?;
    let place = out.get_mut(28..HEADER)?;
    place.copy_from_slice(&u32::try_from(length).ok()?.to_le_bytes());
    Some(head)
}

impl<'b> Announcement<'b> {
    /// One end point's announcement at this rate, with a period of one second, and everything else at none.
    #[must_use]
    pub const fn new(role: Role, name: &'b str, rate: u32) -> Self {
        let (given, returned, deadline_us, end_points, largest, period_ms) = (0, 0, 0, 1, 0, 1_000);
        Self { given, returned, rate, highest_rate: rate, deadline_us, end_points, largest, period_ms, role, name }
    }

    fn read(payload: &'b [u8]) -> Option<Self> {
        let name = payload.get(ANNOUNCEMENT..)?;
        if usize::from(*payload.get(39)?) != name.len() {
            return None;
        }
        Some(Self {
            given: u64_at(payload, 0)?,
            returned: u64_at(payload, 8)?,
            rate: u32_at(payload, 16)?,
            highest_rate: u32_at(payload, 20)?,
            deadline_us: u32_at(payload, 24)?,
            end_points: u32_at(payload, 28)?,
            largest: u32_at(payload, 32)?,
            period_ms: u16_at(payload, 36)?.clamp(*PERIODS_MS.start(), *PERIODS_MS.end()),
            role: Role::numbered(*payload.get(38)?)?,
            name: core::str::from_utf8(name).ok().filter(|name| is_name(name))?,
        })
    }

    fn write(&self, out: &mut [u8]) -> Option<u8> {
        let Self { given, returned, rate, highest_rate, deadline_us, end_points, largest, period_ms, role, name } =
            *self;
        let name_octets = u8::try_from(name.len()).ok().filter(|octets| *octets > 0)?;
        let mut to = Writer(out);
        to.put(&given.to_le_bytes())?;
        to.put(&returned.to_le_bytes())?;
        for number in [rate, highest_rate, deadline_us, end_points, largest] {
            to.put(&number.to_le_bytes())?;
        }
        to.put(&period_ms.to_le_bytes())?;
        to.put(&[role.number(), name_octets])?;
        to.put(name.as_bytes())?;
        Some(0)
    }
}

/// Whether a topic or an end point can have this name: 1 to 255 octets, no control characters.
#[must_use]
pub fn is_name(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.len()) && !name.chars().any(char::is_control)
}

impl<'b> Data<'b> {
    fn read(payload: &'b [u8], flags: u8) -> Option<Self> {
        let content = Content::numbered(flags >> CONTENT_SHIFT & CONTENT_MASK)?;
        if flags & IS_FRAGMENT == 0 {
            return Some(Self { fragment: None, content, octets: payload });
        }
        let fragment = Fragment { total: u32_at(payload, 0)?, at: u32_at(payload, 4)? };
        let octets = payload.get(FRAGMENT..)?;
        let end = u32::try_from(octets.len()).ok().and_then(|octets| fragment.at.checked_add(octets))?;
        let is_within = !octets.is_empty() && end <= fragment.total && fragment.total <= MESSAGE_MAX;
        is_within.then_some(Self { fragment: Some(fragment), content, octets })
    }

    fn write(&self, out: &mut [u8]) -> Option<u8> {
        let Self { fragment, content, octets } = *self;
        let mut to = Writer(out);
        let mut flags = content.number() << CONTENT_SHIFT;
        if let Some(Fragment { total, at }) = fragment {
            to.put(&total.to_le_bytes())?;
            to.put(&at.to_le_bytes())?;
            flags |= IS_FRAGMENT;
        }
        to.put(octets)?;
        Some(flags)
    }
}

impl Probe {
    fn read(payload: &[u8]) -> Option<Self> {
        let octets: &[u8; PROBE] = payload.try_into().ok()?;
        let address: [u8; 16] = octets.get(24..40)?.try_into().ok()?;
        let port = u16_at(octets, 20)?;
        let to = match *octets.get(22)? {
            0 => None,
            4 => {
                let [a, b, c, d, ..] = address;
                Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), port))
            }
            6 => Some(SocketAddr::new(IpAddr::V6(Ipv6Addr::from(address)), port)),
            _ => return None,
        };
        Some(Self {
            sent: u64_at(octets, 0)?,
            prober: u32_at(octets, 8)?,
            topic: u32_at(octets, 12)?,
            number: u32_at(octets, 16)?,
            to,
            hops: *octets.get(23)?,
            echoed_by: u32_at(octets, 40)?,
        })
    }

    fn write(&self, out: &mut [u8]) -> Option<u8> {
        let Self { sent, prober, topic, number, to: address, hops, echoed_by } = *self;
        let mut to = Writer(out);
        to.put(&sent.to_le_bytes())?;
        for number in [prober, topic, number] {
            to.put(&number.to_le_bytes())?;
        }
        let mut octets = [0; 16];
        let (port, family) = match address {
            None => (0, 0),
            Some(SocketAddr::V4(address)) => {
                let (four, _) = octets.split_first_chunk_mut::<4>()?;
                *four = address.ip().octets();
                (address.port(), 4)
            }
            Some(SocketAddr::V6(address)) => {
                octets = address.ip().octets();
                (address.port(), 6)
            }
        };
        to.put(&port.to_le_bytes())?;
        to.put(&[family, hops])?;
        to.put(&octets)?;
        to.put(&echoed_by.to_le_bytes())?;
        to.put(&[0; 4])?;
        Some(0)
    }
}

impl Report {
    fn read(payload: &[u8]) -> Option<Self> {
        let octets: &[u8; REPORT] = payload.try_into().ok()?;
        Some(Self {
            received: u64_at(octets, 0)?,
            lost: u64_at(octets, 8)?,
            rate: u32_at(octets, 16)?,
            end_points: u32_at(octets, 20)?,
        })
    }

    fn write(&self, out: &mut [u8]) -> Option<u8> {
        let Self { received, lost, rate, end_points } = *self;
        let mut to = Writer(out);
        to.put(&received.to_le_bytes())?;
        to.put(&lost.to_le_bytes())?;
        to.put(&rate.to_le_bytes())?;
        to.put(&end_points.to_le_bytes())?;
        Some(0)
    }
}

// ---- octets ----

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array_at(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array_at(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array_at(bytes, at).map(u64::from_le_bytes)
}

/// The unwritten rest of a buffer.
struct Writer<'b>(&'b mut [u8]);

impl Writer<'_> {
    fn put(&mut self, octets: &[u8]) -> Option<()> {
        let (here, rest) = core::mem::take(&mut self.0).split_at_mut_checked(octets.len())?;
        here.copy_from_slice(octets);
        self.0 = rest;
        Some(())
    }
}

#[cfg(test)]
mod tests;

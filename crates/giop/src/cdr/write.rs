//! Writing CDR to the end of a buffer.

use super::{CharSet, Encoding, Endian, Version, WideChar, padding};
use alloc::vec::Vec;

/// Appends values to a caller's buffer.
///
/// The buffer keeps its capacity between uses, so nothing is allocated once it has grown to the largest message. Lengths are four octets on
/// the wire: more than 4 GiB get the largest length, which no reader accepts; messages are limited long before.
///
/// ```
/// use campanile_giop::cdr::{Encoding, Endian, Writer};
///
/// let mut buf = Vec::new();
/// let mut w = Writer::new(&mut buf, Encoding::new(Endian::Big));
/// w.u8(7);
/// w.string("hi");
/// assert_eq!(buf, [7, 0, 0, 0, 0, 0, 0, 3, b'h', b'i', 0]);
/// ```
#[derive(Debug)]
pub struct Writer<'b> {
    buf: &'b mut Vec<u8>,
    /// Length of `buf` when the writer was made.
    start: usize,
    /// Position of `buf[start]` in its message or encapsulation, modulo 8.
    phase: usize,
    encoding: Encoding,
    /// First character written that the encoding cannot express.
    lacking: Option<char>,
}

impl<'b> Writer<'b> {
    /// A writer that begins at position 0 for alignment.
    #[inline]
    #[must_use]
    pub const fn new(buf: &'b mut Vec<u8>, encoding: Encoding) -> Self {
        Self::with_phase(buf, 0, encoding)
    }

    /// A writer that begins at position `phase` of its message. Only `phase` modulo 8 matters.
    #[inline]
    #[must_use]
    pub const fn with_phase(buf: &'b mut Vec<u8>, phase: usize, encoding: Encoding) -> Self {
        let start = buf.len();
        Self { buf, start, phase: phase & 7, encoding, lacking: None }
    }

    // ---- values ----

    /// `octet`, or one octet of a `char`.
    #[inline]
    pub fn u8(&mut self, value: u8) {
        self.buf.push(value);
    }

    /// `boolean`.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.buf.push(u8::from(value));
    }

    /// `unsigned short`.
    #[inline]
    pub fn u16(&mut self, value: u16) {
        self.number(value.to_be_bytes(), value.to_le_bytes());
    }

    /// `short`.
    #[inline]
    pub fn i16(&mut self, value: i16) {
        self.number(value.to_be_bytes(), value.to_le_bytes());
    }

    /// `unsigned long`, and every enumerated type.
    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.number(value.to_be_bytes(), value.to_le_bytes());
    }

    /// `long`.
    #[inline]
    pub fn i32(&mut self, value: i32) {
        self.number(value.to_be_bytes(), value.to_le_bytes());
    }

    /// `unsigned long long`.
    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.number(value.to_be_bytes(), value.to_le_bytes());
    }

    /// `long long`.
    #[inline]
    pub fn i64(&mut self, value: i64) {
        self.number(value.to_be_bytes(), value.to_le_bytes());
    }

    /// `float`.
    #[inline]
    pub fn f32(&mut self, value: f32) {
        self.number(value.to_be_bytes(), value.to_le_bytes());
    }

    /// `double`.
    #[inline]
    pub fn f64(&mut self, value: f64) {
        self.number(value.to_be_bytes(), value.to_le_bytes());
    }

    /// `long double`: the 16 octets of an IEEE 754 quadruple, handed over most significant first.
    pub fn long_double(&mut self, mut value: [u8; 16]) {
        self.align(8);
        if self.encoding.endian == Endian::Little {
            value.reverse();
        }
        self.raw(&value);
    }

    /// Writes a `string` from octets in the encoding's code set; adds length and NUL.
    #[inline]
    pub fn string_bytes(&mut self, bytes: &[u8]) {
        self.length(bytes.len().saturating_add(1));
        self.raw(bytes);
        self.u8(0);
    }

    /// Writes a `string`, converted to the encoding's code set. A character that ISO 8859-1 lacks is left out and noted in
    /// [`Writer::lacking`].
    pub fn string(&mut self, text: &str) {
        if self.encoding.chars == CharSet::Utf8 || text.is_ascii() {
            return self.string_bytes(text.as_bytes());
        }
        let beyond = text.chars().find(|c| u8::try_from(*c).is_err());
        self.lacking = self.lacking.or(beyond);
        let octets = text.chars().filter_map(|c| u8::try_from(c).ok());
        self.length(octets.clone().count().saturating_add(1));
        self.buf.extend(octets);
        self.u8(0);
    }

    /// Writes a `wchar`. GIOP 1.1 and XCDR1 have room for one UTF-16 unit only; a character of two units is noted in [`Writer::lacking`].
    pub fn wchar(&mut self, c: char) {
        self.wide_char(c.into());
    }

    /// Writes a `wchar` from its units, as [`Writer::wchar`] does, including half a surrogate pair.
    pub fn wide_char(&mut self, c: WideChar) {
        match (self.encoding.version.has_wide_numbers(), c.second()) {
            (true, None) => self.u16(c.first()),
            (true, Some(_)) => {
                self.lacking = self.lacking.or(c.to_char());
                self.u16(c.first());
            }
            // CORBA 3.3 part 2, 9.3.1.6: octets without alignment, most significant first where no mark says otherwise.
            (false, None) => {
                self.u8(2);
                self.raw(&c.first().to_be_bytes());
            }
            (false, Some(second)) => {
                self.u8(4);
                self.raw(&c.first().to_be_bytes());
                self.raw(&second.to_be_bytes());
            }
        }
    }

    /// `wstring` from text.
    pub fn wstring(&mut self, text: &str) {
        self.wide(text.encode_utf16().count(), text.encode_utf16());
    }

    /// `wstring` from its UTF-16 units, without a terminating NUL.
    pub fn wide_units(&mut self, units: impl ExactSizeIterator<Item = u16>) {
        self.wide(units.len(), units);
    }

    /// `sequence<octet>`.
    #[inline]
    pub fn octets(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.raw(bytes);
    }

    /// A length or count, as in front of a sequence.
    #[inline]
    pub fn length(&mut self, length: usize) {
        self.u32(u32::try_from(length).unwrap_or(u32::MAX));
    }

    /// Octets as they are, without alignment or length.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.buf.extend_from_slice(bytes);
    }

    /// Pads with zeros to a multiple of `n`: 1, 2, 4 or 8.
    #[inline]
    pub fn align(&mut self, n: usize) {
        debug_assert!(matches!(n, 1 | 2 | 4 | 8), "CDR aligns to 1, 2, 4 or 8");
        let len = self.buf.len() + padding(self.phase(), n);
        self.buf.resize(len, 0);
    }

    /// Writes an encapsulation with the output of `contents`, in the same byte order, version and code set, but with its own alignment
    /// (CORBA 3.3 part 2, 9.3.3). It is written in place.
    pub fn encapsulation<T>(&mut self, contents: impl FnOnce(&mut Writer<'_>) -> T) -> T {
        self.u32(0);
        let begin = self.buf.len();
        let mut inner = Writer::new(self.buf, self.encoding);
        inner.u8(inner.encoding.endian.flag());
        let result = contents(&mut inner);
        let lacking = inner.lacking;
        self.lacking = self.lacking.or(lacking);
        let length = u32::try_from(self.buf.len().saturating_sub(begin)).unwrap_or(u32::MAX);
        self.patch_u32(begin.saturating_sub(4).saturating_sub(self.start), length);
        result
    }

    /// Overwrites the `unsigned long` at `position` (see [`Writer::position`]), for a count or length that is known only afterwards. Does
    /// nothing if no four octets were written there.
    pub fn patch_u32(&mut self, position: usize, value: u32) {
        let at = self.start.saturating_add(position);
        if let Some(place) = self.buf.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>()) {
            *place = match self.encoding.endian {
                Endian::Big => value.to_be_bytes(),
                Endian::Little => value.to_le_bytes(),
            };
        }
    }

    /// Removes everything written behind `position` (see [`Writer::position`]).
    pub fn truncate(&mut self, position: usize) {
        self.buf.truncate(self.start.saturating_add(position));
    }

    // ---- where the writer stands ----

    /// The encoding of the values.
    #[inline]
    #[must_use]
    pub const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// First character that the encoding could not express: beyond ISO 8859-1 in a `string` of that code set, beyond U+FFFF in a `wchar`
    /// before GIOP 1.2. The output is then wrong and must not be sent; [`Lacking`](super::Lacking) is the error.
    #[inline]
    #[must_use]
    pub const fn lacking(&self) -> Option<char> {
        self.lacking
    }

    /// Octets written so far.
    #[inline]
    #[must_use]
    pub const fn position(&self) -> usize {
        self.buf.len().saturating_sub(self.start)
    }

    /// Position of the next octet in its message or encapsulation, modulo 8.
    #[inline]
    #[must_use]
    pub const fn phase(&self) -> usize {
        (self.phase + self.position()) & 7
    }

    /// Everything written so far.
    #[must_use]
    pub fn written(&self) -> &[u8] {
        self.buf.get(self.start..).unwrap_or_default()
    }

    // ---- helpers ----

    /// Writes a number of `N` octets, aligned to `N`.
    #[inline]
    fn number<const N: usize>(&mut self, big: [u8; N], little: [u8; N]) {
        self.align(N);
        self.buf.extend_from_slice(match self.encoding.endian {
            Endian::Big => &big,
            Endian::Little => &little,
        });
    }

    /// A `wstring` of that many units.
    fn wide(&mut self, count: usize, units: impl Iterator<Item = u16>) {
        let version = self.encoding.version;
        let has_nul = version < Version::V1_2;
        let length_at = self.position() + padding(self.phase(), 4);
        self.u32(0);
        let mut written = count;
        for (index, unit) in units.take(count).enumerate() {
            if index == 0 && version != Version::Xcdr1 && matches!(unit, 0xFEFF | 0xFFFE) {
                // Text that begins with what a reader would take for a byte order mark gets one in front of it.
                self.wide_unit(0xFEFF);
                written += 1;
            }
            self.wide_unit(unit);
        }
        // CORBA 3.3 part 2, 9.3.2.7: before 1.2 characters and the NUL are counted, from 1.2 on octets without a NUL.
        if has_nul {
            self.u16(0);
        }
        let length = if has_nul { written.saturating_add(1) } else { written.saturating_mul(2) };
        self.patch_u32(length_at, u32::try_from(length).unwrap_or(u32::MAX));
    }

    #[inline]
    fn wide_unit(&mut self, unit: u16) {
        if self.encoding.version.has_wide_numbers() {
            self.u16(unit);
        } else {
            self.raw(&unit.to_be_bytes());
        }
    }
}

//! Reading CDR in place.

use super::{CharSet, Encoding, Endian, ReadError, ReadErrorKind, Version, WideChar, WideUnits, padding};
use alloc::string::String;

/// Walks over bytes, value by value, and borrows from them.
///
/// Every method either advances behind the value it returns or fails; after a failure the position is undefined, and the reader should not
/// be used further. Only [`Reader::text`] and [`Reader::wtext`] allocate.
///
/// ```
/// use campanile_giop::cdr::{Encoding, Endian, Reader};
///
/// let bytes = [7, 0, 0, 0, 0, 0, 0, 3, b'h', b'i', 0];
/// let mut r = Reader::new(&bytes, Encoding::new(Endian::Big));
/// assert_eq!(r.u8()?, 7);
/// assert_eq!(r.string()?, b"hi"); // skips the padding in front of the length
/// r.finish("the example")?;
/// # Ok::<(), campanile_giop::cdr::ReadError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    /// At most `bytes.len()`.
    at: usize,
    /// Position of `bytes[0]` in its message or encapsulation, modulo 8.
    phase: usize,
    /// Position of `bytes[0]` in the outermost bytes, for the offsets of errors.
    origin: usize,
    encoding: Encoding,
    /// Whether it has read a value aligned to 8.
    has_eights: bool,
}

impl<'a> Reader<'a> {
    /// A reader over bytes that begin at position 0 for alignment, as in an encapsulation or a GIOP 1.2 body.
    #[inline]
    #[must_use]
    pub const fn new(bytes: &'a [u8], encoding: Encoding) -> Self {
        Self { bytes, at: 0, phase: 0, origin: 0, encoding, has_eights: false }
    }

    /// A reader over bytes that begin at position `phase` of their message. Only `phase` modulo 8 matters.
    #[inline]
    #[must_use]
    pub const fn with_phase(bytes: &'a [u8], phase: usize, encoding: Encoding) -> Self {
        Self { bytes, at: 0, phase: phase & 7, origin: 0, encoding, has_eights: false }
    }

    /// The same reader with errors located at `origin` plus the position: for bytes that are part of something larger.
    #[inline]
    #[must_use]
    pub const fn with_origin(mut self, origin: usize) -> Self {
        self.origin = origin;
        self
    }

    /// The same reader with `char` and `string` in the code set `chars`.
    #[inline]
    #[must_use]
    pub const fn with_chars(mut self, chars: CharSet) -> Self {
        self.encoding.chars = chars;
        self
    }

    /// The same reader, as if no value aligned to 8 had been read.
    #[inline]
    #[must_use]
    pub const fn without_eights(mut self) -> Self {
        self.has_eights = false;
        self
    }

    // ---- values ----

    /// `octet`, or one octet of a `char`.
    ///
    /// # Errors
    /// The bytes end here.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, ReadError> {
        let Some(&value) = self.bytes.get(self.at) else {
            return Err(self.truncated(1));
        };
        self.at += 1;
        Ok(value)
    }

    /// `boolean`.
    ///
    /// # Errors
    /// The bytes end here, or the octet is neither 0 nor 1.
    #[inline]
    pub fn bool(&mut self) -> Result<bool, ReadError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(self.error_before(1, ReadErrorKind::BadBool { value })),
        }
    }

    /// `unsigned short`.
    ///
    /// # Errors
    /// The bytes end inside it.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, ReadError> {
        self.number(u16::from_be_bytes, u16::from_le_bytes)
    }

    /// `short`.
    ///
    /// # Errors
    /// The bytes end inside it.
    #[inline]
    pub fn i16(&mut self) -> Result<i16, ReadError> {
        self.number(i16::from_be_bytes, i16::from_le_bytes)
    }

    /// `unsigned long`, and every enumerated type.
    ///
    /// # Errors
    /// The bytes end inside it.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, ReadError> {
        self.number(u32::from_be_bytes, u32::from_le_bytes)
    }

    /// `long`.
    ///
    /// # Errors
    /// The bytes end inside it.
    #[inline]
    pub fn i32(&mut self) -> Result<i32, ReadError> {
        self.number(i32::from_be_bytes, i32::from_le_bytes)
    }

    /// `unsigned long long`.
    ///
    /// # Errors
    /// The bytes end inside it.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, ReadError> {
        self.number(u64::from_be_bytes, u64::from_le_bytes)
    }

    /// `long long`.
    ///
    /// # Errors
    /// The bytes end inside it.
    #[inline]
    pub fn i64(&mut self) -> Result<i64, ReadError> {
        self.number(i64::from_be_bytes, i64::from_le_bytes)
    }

    /// `float`.
    ///
    /// # Errors
    /// The bytes end inside it.
    #[inline]
    pub fn f32(&mut self) -> Result<f32, ReadError> {
        self.number(f32::from_be_bytes, f32::from_le_bytes)
    }

    /// `double`.
    ///
    /// # Errors
    /// The bytes end inside it.
    #[inline]
    pub fn f64(&mut self) -> Result<f64, ReadError> {
        self.number(f64::from_be_bytes, f64::from_le_bytes)
    }

    /// `long double`: the 16 octets of an IEEE 754 quadruple, most significant first whatever the byte order was.
    ///
    /// It is aligned to 8, not to 16 (CORBA 3.3 part 2, table 9.1).
    ///
    /// # Errors
    /// The bytes end inside it.
    pub fn long_double(&mut self) -> Result<[u8; 16], ReadError> {
        self.align(8)?;
        let mut value = *self.chunk::<16>()?;
        if self.encoding.endian == Endian::Little {
            value.reverse();
        }
        Ok(value)
    }

    /// `string` as sent, in the encoding's code set, without its NUL.
    ///
    /// A string always has a NUL and so a length of at least 1, but some ORBs send 0 for the empty one.
    ///
    /// # Errors
    /// The bytes end inside it, or it does not end with NUL.
    #[inline]
    pub fn string(&mut self) -> Result<&'a [u8], ReadError> {
        let length = self.u32()?;
        if length == 0 {
            return Ok(&[]);
        }
        match self.counted(length)?.split_last() {
            Some((0, text)) => Ok(text),
            _ => Err(self.error_before(1, ReadErrorKind::MissingNul)),
        }
    }

    /// `string` as text, from the encoding's code set.
    ///
    /// # Errors
    /// The same as of [`Reader::string`], and text that is not valid UTF-8 if that is the code set.
    pub fn text(&mut self) -> Result<String, ReadError> {
        let bytes = self.string()?;
        match self.encoding.chars {
            CharSet::Latin1 => Ok(bytes.iter().map(|&octet| char::from(octet)).collect()),
            CharSet::Utf8 => match core::str::from_utf8(bytes) {
                Ok(text) => Ok(text.into()),
                Err(_) => Err(self.error_before(bytes.len() + 1, ReadErrorKind::BadText { charset: "UTF-8" })),
            },
        }
    }

    /// Reads a `wchar`. GIOP 1.0, in which it must not occur, is treated like 1.1.
    ///
    /// # Errors
    /// The bytes end inside it, or it takes a number of octets in which UTF-16 does not come.
    pub fn wchar(&mut self) -> Result<WideChar, ReadError> {
        if self.encoding.version.has_wide_numbers() {
            return self.u16().map(WideChar::from_unit);
        }
        // CORBA 3.3 part 2, 9.3.1.6: an octet with the length, then that many octets, not aligned.
        let length = self.u8()?;
        let octets = self.take(usize::from(length))?;
        let value = match *octets {
            // Without room for a mark beside it, U+FEFF is the character of that number.
            [a, b] => Some(WideChar::from_unit(u16::from_be_bytes([a, b]))),
            [_, _, _, _] | [_, _, _, _, _, _] => {
                let mut units = WideUnits::with_mark(octets, Endian::Big);
                match (units.next(), units.next(), units.next()) {
                    (Some(unit), None, _) => Some(WideChar::from_unit(unit)),
                    (Some(high), Some(low), None) => WideChar::from_pair(high, low),
                    _ => None,
                }
            }
            _ => None,
        };
        let wrong = ReadErrorKind::BadWideLength { length: u32::from(length) };
        value.ok_or_else(|| self.error_before(octets.len(), wrong))
    }

    /// Reads a `wstring` as its UTF-16 units. GIOP 1.0, in which it must not occur, is treated like 1.1.
    ///
    /// # Errors
    /// The bytes end inside it; before GIOP 1.2, it does not end with NUL; in 1.2, it takes an odd number of octets.
    pub fn wstring(&mut self) -> Result<WideUnits<'a>, ReadError> {
        let length = self.u32()?;
        if self.encoding.version < Version::V1_2 {
            // CORBA 3.3 part 2, 9.3.2.7: before 1.2 the length counts characters and the terminating NUL.
            let octets = self.counted(length.checked_mul(2).ok_or_else(|| self.too_long(length))?)?;
            return match octets.split_last_chunk::<2>() {
                None => Ok(WideUnits::with_mark(octets, self.encoding.endian)),
                Some((text, [0, 0])) => Ok(WideUnits::with_mark(text, self.encoding.endian)),
                Some(_) => Err(self.error_before(2, ReadErrorKind::MissingNul)),
            };
        }
        let octets = self.counted(length)?;
        if length % 2 != 0 {
            return Err(self.error_before(octets.len(), ReadErrorKind::BadWideLength { length }));
        }
        if self.encoding.version == Version::Xcdr1 {
            return Ok(WideUnits::without_mark(octets, self.encoding.endian));
        }
        Ok(WideUnits::with_mark(octets, Endian::Big))
    }

    /// `wstring` as text.
    ///
    /// # Errors
    /// As [`Reader::wstring`], and units that do not make up text: half a surrogate pair.
    pub fn wtext(&mut self) -> Result<String, ReadError> {
        let units = self.wstring()?;
        let octets = units.len() * 2;
        char::decode_utf16(units)
            .collect::<Result<String, _>>()
            .map_err(|_| self.error_before(octets, ReadErrorKind::BadText { charset: "UTF-16" }))
    }

    /// `sequence<octet>`.
    ///
    /// # Errors
    /// The bytes end inside it.
    #[inline]
    pub fn octets(&mut self) -> Result<&'a [u8], ReadError> {
        let length = self.u32()?;
        self.counted(length)
    }

    /// The next `n` octets as they are, without alignment.
    ///
    /// # Errors
    /// There are fewer.
    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], ReadError> {
        let Some((taken, _)) = self.rest().split_at_checked(n) else {
            return Err(self.truncated(n));
        };
        self.at += n;
        Ok(taken)
    }

    /// Skips the padding in front of a value aligned to `n`: 1, 2, 4 or 8. Its content is undefined and ignored.
    ///
    /// # Errors
    /// The bytes end inside the padding.
    #[inline]
    pub fn align(&mut self, n: usize) -> Result<(), ReadError> {
        debug_assert!(matches!(n, 1 | 2 | 4 | 8), "CDR aligns to 1, 2, 4 or 8");
        self.has_eights |= n == 8;
        self.take(padding(self.phase + self.at, n)).map(|_| ())
    }

    /// The length of a sequence of elements that take at least `min_bytes_each` octets each.
    ///
    /// # Errors
    /// That many elements cannot fit into what remains, so that no caller reserves room for them; or the bytes end.
    #[inline]
    pub fn seq_len(&mut self, min_bytes_each: usize) -> Result<u32, ReadError> {
        let length = self.u32()?;
        let fits = usize::try_from(length)
            .ok()
            .and_then(|length| length.checked_mul(min_bytes_each))
            .is_some_and(|octets| octets <= self.remaining());
        if fits { Ok(length) } else { Err(self.too_long(length)) }
    }

    /// A reader over an encapsulation: a `sequence<octet>` with its own byte order in its first octet and its own
    /// alignment (CORBA 3.3 part 2, 9.3.3). Version and code set are inherited.
    ///
    /// # Errors
    /// The bytes end inside it, or the byte order is neither 0 nor 1.
    pub fn encapsulation(&mut self) -> Result<Reader<'a>, ReadError> {
        let bytes = self.octets()?;
        let origin = self.offset() - bytes.len();
        Self::new(bytes, self.encoding).with_origin(origin).opened()
    }

    /// A reader over an encapsulation: the data of a profile, component or service context.
    ///
    /// # Errors
    /// There are no bytes, or the byte order is neither 0 nor 1.
    pub fn over_encapsulation(bytes: &'a [u8]) -> Result<Self, ReadError> {
        Self::new(bytes, Encoding::new(Endian::Big)).opened()
    }

    /// Takes the byte order from the first octet.
    fn opened(mut self) -> Result<Self, ReadError> {
        self.encoding.endian = match self.u8()? {
            0 => Endian::Big,
            1 => Endian::Little,
            value => {
                let kind = ReadErrorKind::BadValue { what: "byte order", value: u32::from(value) };
                return Err(self.error_before(1, kind));
            }
        };
        Ok(self)
    }

    /// Checks that no bytes are left.
    ///
    /// # Errors
    /// Bytes are left; the error has `what`, the name of the type that left them.
    #[inline]
    pub fn finish(self, what: &'static str) -> Result<(), ReadError> {
        match self.remaining() {
            0 => Ok(()),
            count => Err(self.error(ReadErrorKind::TrailingBytes { what, count })),
        }
    }

    // ---- where the reader stands ----

    /// The encoding of the bytes.
    #[inline]
    #[must_use]
    pub const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Octets consumed so far.
    #[inline]
    #[must_use]
    pub const fn position(&self) -> usize {
        self.at
    }

    /// Position of the next octet in its message or encapsulation, modulo 8.
    #[inline]
    #[must_use]
    pub const fn phase(&self) -> usize {
        (self.phase + self.at) & 7
    }

    /// Whether a value read so far is aligned to 8. If not, the octets mean the same at any position that is equal modulo 4.
    ///
    /// The contents of encapsulations do not count, since positions begin anew there; neither do octets skipped with [`Reader::take`].
    #[inline]
    #[must_use]
    pub const fn has_eights(&self) -> bool {
        self.has_eights
    }

    /// Position of the next octet in the outermost bytes, for errors.
    #[inline]
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.origin + self.at
    }

    /// Octets left.
    #[inline]
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The octets left, without consuming them.
    #[inline]
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Whether no octet is left.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    /// An error of this kind at the reader's position.
    #[cold]
    #[must_use]
    pub const fn error(&self, kind: ReadErrorKind) -> ReadError {
        ReadError { offset: self.offset(), kind }
    }

    // ---- helpers ----

    /// An error about the last `octets` read.
    #[cold]
    const fn error_before(&self, octets: usize, kind: ReadErrorKind) -> ReadError {
        ReadError { offset: self.offset().saturating_sub(octets), kind }
    }

    #[cold]
    const fn truncated(&self, needed: usize) -> ReadError {
        self.error(ReadErrorKind::Truncated { needed, available: self.remaining() })
    }

    /// An error about the length just read.
    #[cold]
    const fn too_long(&self, length: u32) -> ReadError {
        self.error_before(4, ReadErrorKind::TooLong { length, available: self.remaining() })
    }

    /// Reads as many octets as the length just read says.
    #[inline]
    fn counted(&mut self, length: u32) -> Result<&'a [u8], ReadError> {
        match usize::try_from(length).ok().and_then(|n| self.rest().split_at_checked(n)) {
            Some((taken, _)) => {
                self.at += taken.len();
                Ok(taken)
            }
            None => Err(self.too_long(length)),
        }
    }

    #[inline]
    fn chunk<const N: usize>(&mut self) -> Result<&'a [u8; N], ReadError> {
        let Some(chunk) = self.rest().first_chunk::<N>() else {
            return Err(self.truncated(N));
        };
        self.at += N;
        Ok(chunk)
    }

    /// Reads a number of `N` octets, aligned to `N`.
    #[inline]
    fn number<const N: usize, T>(&mut self, big: fn([u8; N]) -> T, little: fn([u8; N]) -> T) -> Result<T, ReadError> {
        let skip = padding(self.phase + self.at, N);
        let Some(chunk) = self.bytes.get(self.at + skip..).and_then(|rest| rest.first_chunk::<N>()) else {
            return Err(self.truncated(skip + N));
        };
        self.at += skip + N;
        self.has_eights |= N == 8;
        Ok(match self.encoding.endian {
            Endian::Big => big(*chunk),
            Endian::Little => little(*chunk),
        })
    }
}

//! Output of a walk over values: nothing, or a copy.

use crate::cdr::{CharSet, Encoding, Lacking, ReadError, ReadErrorKind, Reader, Version, WideChar, Writer};
use crate::typecode::wire::{self, Findings, Node};
use crate::typecode::{Kind, Shape, TypeCode, Work, write_discriminator};

/// Takes pieces of values from a reader, each where the reader stands.
pub(super) trait Sink<'a> {
    /// Whether types within values are checked.
    const CHECKS_TYPES: bool = true;

    /// Whether the value in front of `reader`, if it consists of octets and numbers, has the same octets in the output.
    fn is_verbatim(&self, reader: &Reader<'a>) -> bool;

    /// Whether a `char` is the same octet in the output.
    fn keeps_chars(&self) -> bool;

    /// Copies octets unchanged.
    fn verbatim(&mut self, reader: &mut Reader<'a>, octets: usize) -> Result<(), ReadError>;

    /// Values independent of byte order and code set.
    fn octets(&mut self, reader: &mut Reader<'a>, count: usize) -> Result<(), ReadError>;

    fn chars(&mut self, reader: &mut Reader<'a>, count: usize) -> Result<(), ReadError>;

    /// Copies numbers of one size, at least one.
    fn numbers(&mut self, reader: &mut Reader<'a>, size: usize, align: usize, count: usize) -> Result<(), ReadError>;

    /// A number on which the walk depends.
    fn count(&mut self, reader: &mut Reader<'a>) -> Result<u32, ReadError>;

    fn discriminator(&mut self, reader: &mut Reader<'a>, kind: Kind) -> Result<u64, ReadError>;

    fn string(&mut self, reader: &mut Reader<'a>) -> Result<(), ReadError>;

    fn wchar(&mut self, reader: &mut Reader<'a>) -> Result<(), ReadError>;

    fn wstring(&mut self, reader: &mut Reader<'a>) -> Result<(), ReadError>;

    /// Copies a checked type, with `start` at its kind.
    fn type_code(
        &mut self,
        start: &Reader<'a>,
        node: &Node,
        findings: Findings,
        work: &mut Work,
    ) -> Result<(), ReadError>;
}

/// A sink that discards everything.
pub(super) struct Skip<const CHECKS_TYPES: bool>;

impl<'a, const CHECKS_TYPES: bool> Sink<'a> for Skip<CHECKS_TYPES> {
    const CHECKS_TYPES: bool = CHECKS_TYPES;

    #[inline]
    fn is_verbatim(&self, _: &Reader<'a>) -> bool {
        true
    }

    #[inline]
    fn keeps_chars(&self) -> bool {
        true
    }

    #[inline]
    fn verbatim(&mut self, reader: &mut Reader<'a>, octets: usize) -> Result<(), ReadError> {
        reader.take(octets).map(|_| ())
    }

    #[inline]
    fn octets(&mut self, reader: &mut Reader<'a>, count: usize) -> Result<(), ReadError> {
        reader.take(count).map(|_| ())
    }

    #[inline]
    fn chars(&mut self, reader: &mut Reader<'a>, count: usize) -> Result<(), ReadError> {
        reader.take(count).map(|_| ())
    }

    #[inline]
    fn numbers(&mut self, reader: &mut Reader<'a>, size: usize, align: usize, count: usize) -> Result<(), ReadError> {
        reader.align(align)?;
        reader.take(size.saturating_mul(count)).map(|_| ())
    }

    #[inline]
    fn count(&mut self, reader: &mut Reader<'a>) -> Result<u32, ReadError> {
        reader.u32()
    }

    #[inline]
    fn discriminator(&mut self, reader: &mut Reader<'a>, kind: Kind) -> Result<u64, ReadError> {
        wire::discriminator(reader, kind)
    }

    #[inline]
    fn string(&mut self, reader: &mut Reader<'a>) -> Result<(), ReadError> {
        reader.string().map(|_| ())
    }

    #[inline]
    fn wchar(&mut self, reader: &mut Reader<'a>) -> Result<(), ReadError> {
        reader.wchar().map(|_| ())
    }

    #[inline]
    fn wstring(&mut self, reader: &mut Reader<'a>) -> Result<(), ReadError> {
        reader.wstring().map(|_| ())
    }

    #[inline]
    fn type_code(&mut self, _: &Reader<'a>, _: &Node, _: Findings, _: &mut Work) -> Result<(), ReadError> {
        Ok(())
    }
}

/// Writes everything in the encoding and alignment of a writer.
pub(super) struct Copy<'w, 'b> {
    writer: &'w mut Writer<'b>,
    same_endian: bool,
    same_chars: bool,
    /// Whether wide characters lie alike.
    same_wide: bool,
}

impl<'w, 'b> Copy<'w, 'b> {
    pub(super) fn new(from: Encoding, writer: &'w mut Writer<'b>) -> Self {
        let to = writer.encoding();
        Self {
            same_endian: from.endian == to.endian,
            same_chars: from.chars == to.chars,
            same_wide: wire::same_wide_layout(from.version, to.version),
            writer,
        }
    }

    /// Writes text that was read, in the writer's code set.
    #[cold]
    fn converted(&mut self, text: &[u8], reader: &Reader<'_>) -> Result<(), ReadError> {
        match reader.encoding().chars {
            CharSet::Latin1 => {
                let beyond_ascii = text.iter().filter(|octet| !octet.is_ascii()).count();
                self.writer.length(text.len().saturating_add(beyond_ascii).saturating_add(1));
                for piece in text.chunk_by(|a, b| a.is_ascii() && b.is_ascii()) {
                    match *piece {
                        [octet] => self.writer.raw(char::from(octet).encode_utf8(&mut [0; 4]).as_bytes()),
                        _ => self.writer.raw(piece),
                    }
                }
                self.writer.u8(0);
                Ok(())
            }
            CharSet::Utf8 => match core::str::from_utf8(text) {
                Ok(text) => {
                    if let Some(character) = text.chars().find(|c| u8::try_from(*c).is_err()) {
                        return Err(reader.error(ReadErrorKind::Lacking(Lacking::in_encoding(character))));
                    }
                    self.writer.string(text);
                    Ok(())
                }
                Err(_) => Err(reader.error(ReadErrorKind::BadText { charset: "UTF-8" })),
            },
        }
    }
}

/// The octets from where `reader` stands that `read` takes.
#[inline]
fn taken<'a, T>(
    reader: &mut Reader<'a>,
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, ReadError>,
) -> Result<&'a [u8], ReadError> {
    let (rest, before) = (reader.rest(), reader.position());
    read(reader)?;
    Ok(rest.get(..reader.position() - before).unwrap_or_default())
}

impl<'a> Sink<'a> for Copy<'_, '_> {
    fn is_verbatim(&self, reader: &Reader<'a>) -> bool {
        self.same_endian && reader.phase() == self.writer.phase()
    }

    fn keeps_chars(&self) -> bool {
        self.same_chars
    }

    fn verbatim(&mut self, reader: &mut Reader<'a>, octets: usize) -> Result<(), ReadError> {
        self.writer.raw(reader.take(octets)?);
        Ok(())
    }

    fn octets(&mut self, reader: &mut Reader<'a>, count: usize) -> Result<(), ReadError> {
        self.writer.raw(reader.take(count)?);
        Ok(())
    }

    fn chars(&mut self, reader: &mut Reader<'a>, count: usize) -> Result<(), ReadError> {
        let octets = reader.take(count)?;
        if self.writer.encoding().chars == CharSet::Utf8
            && !self.same_chars
            && let Some(octet) = octets.iter().find(|octet| !octet.is_ascii())
        {
            let lacking = Lacking { character: char::from(*octet), what: "a char of UTF-8 is one octet and lacks" };
            return Err(reader.error(ReadErrorKind::Lacking(lacking)));
        }
        // An octet beyond ASCII that stands alone in UTF-8 has its number of ISO 8859-1, as it has where values are read.
        self.writer.raw(octets);
        Ok(())
    }

    fn numbers(&mut self, reader: &mut Reader<'a>, size: usize, align: usize, count: usize) -> Result<(), ReadError> {
        reader.align(align)?;
        let octets = reader.take(size.saturating_mul(count))?;
        self.writer.align(align);
        if self.same_endian {
            self.writer.raw(octets);
            return Ok(());
        }
        match size {
            2 => turned::<2>(octets, self.writer),
            4 => turned::<4>(octets, self.writer),
            8 => turned::<8>(octets, self.writer),
            _ => turned::<16>(octets, self.writer),
        }
        Ok(())
    }

    fn count(&mut self, reader: &mut Reader<'a>) -> Result<u32, ReadError> {
        let count = reader.u32()?;
        self.writer.u32(count);
        Ok(count)
    }

    fn discriminator(&mut self, reader: &mut Reader<'a>, kind: Kind) -> Result<u64, ReadError> {
        // A `char` stays the octet that it is, so that it goes on matching the labels in the type.
        let value = wire::discriminator(reader, kind)?;
        write_discriminator(self.writer, kind, value);
        Ok(value)
    }

    fn string(&mut self, reader: &mut Reader<'a>) -> Result<(), ReadError> {
        let text = reader.string()?;
        if self.same_chars || text.is_ascii() {
            self.writer.string_bytes(text);
            return Ok(());
        }
        self.converted(text, reader)
    }

    fn wchar(&mut self, reader: &mut Reader<'a>) -> Result<(), ReadError> {
        if self.same_wide && reader.encoding().version == Version::V1_2 {
            // Octets that tell their byte order themselves, if only by saying nothing.
            self.writer.raw(taken(reader, Reader::wchar)?);
            return Ok(());
        }
        let c: WideChar = reader.wchar()?;
        if let (Some(_), Some(character)) = (c.second(), c.to_char())
            && self.writer.encoding().version.has_wide_numbers()
        {
            let lacking = Lacking { character, what: "a wchar of one unit lacks" };
            return Err(reader.error(ReadErrorKind::Lacking(lacking)));
        }
        self.writer.wide_char(c);
        Ok(())
    }

    fn wstring(&mut self, reader: &mut Reader<'a>) -> Result<(), ReadError> {
        if self.same_wide && reader.encoding().version == Version::V1_2 {
            reader.clone().wstring()?;
            self.writer.octets(reader.octets()?);
            return Ok(());
        }
        let units = reader.wstring()?;
        self.writer.wide_units(units);
        Ok(())
    }

    fn type_code(
        &mut self,
        start: &Reader<'a>,
        node: &Node,
        findings: Findings,
        work: &mut Work,
    ) -> Result<(), ReadError> {
        if findings.wide_labels && !self.same_wide {
            TypeCode::read(&mut start.clone(), work)?.write(self.writer);
            return Ok(());
        }
        self.writer.align(4);
        self.writer.u32(node.kind.number());
        let mut params = start.clone();
        params.take(4)?;
        match node.kind.shape() {
            Shape::Empty => {}
            Shape::Simple if node.kind == Kind::Fixed => {
                self.writer.u16(params.u16()?);
                self.writer.i16(params.i16()?);
            }
            Shape::Simple => self.writer.u32(params.u32()?),
            // An encapsulation has its own byte order and alignment, and distances within a type stay what they are,
            // since the kind and length in front of it always take eight octets.
            Shape::Complex => self.writer.octets(params.octets()?),
        }
        Ok(())
    }
}

/// Writes numbers of `N` octets in the other byte order.
fn turned<const N: usize>(octets: &[u8], writer: &mut Writer<'_>) {
    /// A multiple of every size.
    const BLOCK: usize = 256;
    let mut block = [0; BLOCK];
    for piece in octets.chunks(BLOCK) {
        let Some(target) = block.get_mut(..piece.len()) else {
            continue;
        };
        let (targets, sources) = (target.as_chunks_mut::<N>().0, piece.as_chunks::<N>().0);
        for (target, source) in targets.iter_mut().zip(sources) {
            *target = *source;
            target.reverse();
        }
        writer.raw(target);
    }
}

//! Output of a conversion: a message, or nothing.

use super::Fault;
use giop::cdr::{CharSet, Endian, Reader, Version, WideChar, Writer};
use giop::ior::Ior;
use giop::recode;
use giop::typecode::Work;

pub(super) trait Sink {
    fn u8(&mut self, value: u8);
    fn u16(&mut self, value: u16);
    fn u32(&mut self, value: u32);
    fn u64(&mut self, value: u64);
    fn long_double(&mut self, value: [u8; 16]);
    /// Appends octets.
    fn octets(&mut self, bytes: &[u8]);
    /// Appends numbers of `size` octets, at least one, in the byte order `endian`.
    fn numbers(&mut self, bytes: &[u8], size: usize, endian: Endian);
    /// Appends a `char` in the reader's code set `from`.
    fn char(&mut self, octet: u8, from: CharSet) -> Result<(), Fault>;
    fn wide_char(&mut self, value: WideChar) -> Result<(), Fault>;
    fn text(&mut self, text: &str) -> Result<(), Fault>;
    fn wide_text(&mut self, text: &str);
    fn any(&mut self, reader: &mut Reader<'_>, work: &mut Work) -> Result<(), Fault>;
    fn type_code(&mut self, reader: &mut Reader<'_>, work: &mut Work) -> Result<(), Fault>;
    fn object(&mut self, reader: &mut Reader<'_>) -> Result<(), Fault>;
    /// Octets appended so far.
    fn length(&self) -> usize;
}

/// Discards all output.
pub(super) struct Checks;

/// Writes the output into a message.
pub(super) struct Writes<'w, 'b>(pub(super) &'w mut Writer<'b>);

impl Sink for Checks {
    fn u8(&mut self, _: u8) {}
    fn u16(&mut self, _: u16) {}
    fn u32(&mut self, _: u32) {}
    fn u64(&mut self, _: u64) {}
    fn long_double(&mut self, _: [u8; 16]) {}
    fn octets(&mut self, _: &[u8]) {}
    fn numbers(&mut self, _: &[u8], _: usize, _: Endian) {}
    fn char(&mut self, _: u8, _: CharSet) -> Result<(), Fault> {
        Ok(())
    }
    fn wide_char(&mut self, _: WideChar) -> Result<(), Fault> {
        Ok(())
    }
    fn text(&mut self, _: &str) -> Result<(), Fault> {
        Ok(())
    }
    fn wide_text(&mut self, _: &str) {}
    fn any(&mut self, reader: &mut Reader<'_>, work: &mut Work) -> Result<(), Fault> {
        Ok(recode::skip_any(reader, work)?)
    }
    fn type_code(&mut self, reader: &mut Reader<'_>, work: &mut Work) -> Result<(), Fault> {
        Ok(recode::skip_type_code(reader, work)?)
    }
    fn object(&mut self, reader: &mut Reader<'_>) -> Result<(), Fault> {
        Ok(Ior::skip(reader)?)
    }
    fn length(&self) -> usize {
        0
    }
}

impl Sink for Writes<'_, '_> {
    fn u8(&mut self, value: u8) {
        self.0.u8(value);
    }
    fn u16(&mut self, value: u16) {
        self.0.u16(value);
    }
    fn u32(&mut self, value: u32) {
        self.0.u32(value);
    }
    fn u64(&mut self, value: u64) {
        self.0.u64(value);
    }
    fn long_double(&mut self, value: [u8; 16]) {
        self.0.long_double(value);
    }
    fn octets(&mut self, bytes: &[u8]) {
        self.0.raw(bytes);
    }

    fn numbers(&mut self, bytes: &[u8], size: usize, endian: Endian) {
        self.0.align(size);
        if self.0.encoding().endian == endian {
            return self.0.raw(bytes);
        }
        for number in bytes.chunks_exact(size) {
            let mut swapped = [0; 8];
            if let Some(swapped) = swapped.get_mut(..size) {
                swapped.copy_from_slice(number);
                swapped.reverse();
                self.0.raw(swapped);
            }
        }
    }

    fn char(&mut self, octet: u8, from: CharSet) -> Result<(), Fault> {
        if !octet.is_ascii() && from != self.0.encoding().chars {
            return Err(Fault::new("a char beyond ASCII, which the other side's code set spells otherwise"));
        }
        self.0.u8(octet);
        Ok(())
    }

    fn wide_char(&mut self, value: WideChar) -> Result<(), Fault> {
        // DDS-XTypes 1.3, 7.2.2.2: a char16 is a character of its own.
        let has_room = || value.second().is_none() && value.to_char().is_some();
        if self.0.encoding().version == Version::Xcdr1 && !has_room() {
            return Err(Fault::new("a wchar beyond U+FFFF, or half of a character, which DDS has no room for"));
        }
        self.0.wide_char(value);
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), Fault> {
        if self.0.encoding().chars == CharSet::Latin1
            && let Some(beyond) = text.chars().find(|c| u32::from(*c) > 0xFF)
        {
            return Err(Fault::new(format!(
                "{beyond:?} is beyond ISO 8859-1, which is all that the service understands"
            )));
        }
        self.0.string(text);
        Ok(())
    }

    fn wide_text(&mut self, text: &str) {
        self.0.wstring(text);
    }
    fn any(&mut self, reader: &mut Reader<'_>, work: &mut Work) -> Result<(), Fault> {
        Ok(recode::copy_any(reader, self.0, work)?)
    }
    fn type_code(&mut self, reader: &mut Reader<'_>, work: &mut Work) -> Result<(), Fault> {
        Ok(recode::copy_type_code(reader, self.0, work)?)
    }
    fn object(&mut self, reader: &mut Reader<'_>) -> Result<(), Fault> {
        Ior::read(reader)?.write(self.0);
        Ok(())
    }
    fn length(&self) -> usize {
        self.0.position()
    }
}

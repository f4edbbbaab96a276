//! From the marshalled form to an owned type.

use super::wire::{self, Types};
use super::{Kind, MemberData, NodeData, Text, TypeCode, Work};
use crate::cdr::{CharSet, ReadError, ReadErrorKind, Reader};
use alloc::vec::Vec;

impl TypeCode {
    /// Reads a `TypeCode`.
    ///
    /// # Errors
    /// The bytes are no `TypeCode`, or `work` does not suffice.
    pub fn read(reader: &mut Reader<'_>, work: &mut Work) -> Result<Self, ReadError> {
        let mut code = Self::default();
        code.read_into(reader, work)?;
        Ok(code)
    }

    /// Reads a `TypeCode` in place of this one, whose storage is used again. After an error it is `tk_null` or as before.
    ///
    /// # Errors
    /// As [`TypeCode::read`].
    pub fn read_into(&mut self, reader: &mut Reader<'_>, work: &mut Work) -> Result<(), ReadError> {
        let types = Types::open(reader)?;
        self.clear();
        let mut build = Build { types, code: self, starts: Vec::new(), unplaced: Vec::new() };
        let result = build.type_code(reader, work, 0);
        if result.is_err() {
            self.clear();
            self.nodes.push(NodeData::new(Kind::Null));
        }
        result.map(|_| ())
    }

    fn clear(&mut self) {
        self.nodes.clear();
        self.members.clear();
        self.text.clear();
    }
}

struct Build<'c, 't> {
    types: Types<'t>,
    code: &'c mut TypeCode,
    /// Where each type began and which node it became, in order.
    starts: Vec<(usize, u32)>,
    /// Members of types that are still being read. They move to the arena when their type is complete, so that they
    /// lie together and that room is taken only for members that are really there.
    unplaced: Vec<MemberData>,
}

impl<'t> Build<'_, 't> {
    /// Reads one type and returns its index.
    fn type_code(&mut self, reader: &mut Reader<'t>, work: &mut Work, depth: u32) -> Result<u32, ReadError> {
        work.step(reader)?;
        let node = self.types.node(reader)?;
        if node.indirect {
            return match self.starts.binary_search_by_key(&node.start, |(start, _)| *start) {
                Ok(found) => Ok(self.starts.get(found).map_or(0, |(_, index)| *index)),
                Err(_) => {
                    let what = "an indirection that points into the middle of a type";
                    Err(reader.error(ReadErrorKind::Malformed { what }))
                }
            };
        }
        let index = count(self.code.nodes.len(), reader)?;
        self.code.nodes.push(NodeData::new(node.kind));
        self.starts.push((node.start, index));
        let mut data = NodeData::new(node.kind);
        let mut params = node.params;
        let depth = work.deeper(depth, &params)?;
        self.params(&mut data, &mut params, work, depth)?;
        if let Some(place) = self.code.node_mut(index) {
            *place = data;
        }
        Ok(index)
    }

    fn params(
        &mut self,
        data: &mut NodeData,
        reader: &mut Reader<'t>,
        work: &mut Work,
        depth: u32,
    ) -> Result<(), ReadError> {
        if data.kind.is_named() {
            data.id = self.text(reader)?;
            data.name = self.text(reader)?;
        }
        let first_unplaced = self.unplaced.len();
        match data.kind {
            Kind::String | Kind::Wstring => data.number = reader.u32()?,
            Kind::Fixed => {
                let (digits, scale) = wire::fixed_digits(reader)?;
                data.number = u32::from(digits) << 16 | u32::from(scale.cast_unsigned());
            }
            Kind::Sequence | Kind::Array => {
                data.content = self.type_code(reader, work, depth)?;
                data.number = reader.u32()?;
            }
            Kind::Alias | Kind::ValueBox => data.content = self.type_code(reader, work, depth)?,
            Kind::Struct | Kind::Exception => {
                for _ in 0..reader.u32()? {
                    let name = self.text(reader)?;
                    let content = self.type_code(reader, work, depth)?;
                    self.unplaced.push(MemberData { name, content, label: 0, visibility: 0 });
                }
            }
            Kind::Enum => {
                for _ in 0..reader.u32()? {
                    work.step(reader)?;
                    let name = self.text(reader)?;
                    self.unplaced.push(MemberData { name, content: 0, label: 0, visibility: 0 });
                }
            }
            Kind::Union => self.union_params(data, reader, work, depth)?,
            Kind::Value | Kind::Event => {
                data.number = u32::from(reader.u16()?);
                data.content = self.type_code(reader, work, depth)?;
                for _ in 0..reader.u32()? {
                    let name = self.text(reader)?;
                    let content = self.type_code(reader, work, depth)?;
                    let visibility = reader.u16()?;
                    self.unplaced.push(MemberData { name, content, label: 0, visibility });
                }
            }
            _ => {}
        }
        data.first = count(self.code.members.len(), reader)?;
        data.count = count(self.unplaced.len().saturating_sub(first_unplaced), reader)?;
        self.code.members.extend(self.unplaced.drain(first_unplaced..));
        Ok(())
    }

    fn union_params(
        &mut self,
        data: &mut NodeData,
        reader: &mut Reader<'t>,
        work: &mut Work,
        depth: u32,
    ) -> Result<(), ReadError> {
        let mut at_discriminator = reader.clone();
        data.content = self.type_code(reader, work, depth)?;
        let discriminator = self.types.discriminator(&mut at_discriminator, work)?;
        data.default = reader.i32()?;
        for index in 0..reader.u32()? {
            let label = wire::member_label(reader, discriminator, wire::is_default(index, data.default))?;
            let name = self.text(reader)?;
            let content = self.type_code(reader, work, depth)?;
            self.unplaced.push(MemberData { name, content, label, visibility: 0 });
        }
        Ok(())
    }

    /// Reads an id or name into the pool.
    fn text(&mut self, reader: &mut Reader<'t>) -> Result<Text, ReadError> {
        let bytes = reader.string()?;
        let pool = &mut self.code.text;
        let start = pool.len();
        match (core::str::from_utf8(bytes), reader.encoding().chars) {
            (Ok(text), CharSet::Utf8) => pool.push_str(text),
            (Ok(text), CharSet::Latin1) if text.is_ascii() => pool.push_str(text),
            (Err(_), CharSet::Utf8) => return Err(reader.error(ReadErrorKind::BadText { charset: "UTF-8" })),
            (_, CharSet::Latin1) => pool.extend(bytes.iter().map(|&octet| char::from(octet))),
        }
        let length = count(pool.len().saturating_sub(start), reader)?;
        Ok(Text { start: count(start, reader)?, length })
    }
}

/// A count as the arena keeps it.
fn count(count: usize, reader: &Reader<'_>) -> Result<u32, ReadError> {
    u32::try_from(count).map_err(|_| reader.error(ReadErrorKind::TooMuchWork))
}

//! Reading of the marshalled form into an owned type.

use super::wire::{self, Place, Types};
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

    /// Reads a `TypeCode` in place of this one and uses its storage again. After an error it is `tk_null` or as before.
    ///
    /// # Errors
    /// As [`TypeCode::read`].
    pub fn read_into(&mut self, reader: &mut Reader<'_>, work: &mut Work) -> Result<(), ReadError> {
        let (types, mut place) = Types::open(reader)?;
        self.clear();
        let mut build = Build { types, code: self, starts: Vec::new(), unplaced: Vec::new() };
        let result = build.type_code(&mut place, work, 0).and_then(|_| types.finish(reader, place));
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
    /// The start of each type and its node, in order.
    starts: Vec<(u32, u32)>,
    /// Members of types that are still being read. They move to the arena when their type is complete, so that they are contiguous and
    /// memory is used only for members that exist.
    unplaced: Vec<MemberData>,
}

impl Build<'_, '_> {
    /// Reads one type and returns its index.
    fn type_code(&mut self, place: &mut Place, work: &mut Work, depth: u32) -> Result<u32, ReadError> {
        work.step(self.types.offset(*place))?;
        let node = self.types.node(place)?;
        if node.indirect {
            return match self.starts.binary_search_by_key(&node.start, |(start, _)| *start) {
                Ok(found) => Ok(self.starts.get(found).map_or(0, |(_, index)| *index)),
                Err(_) => {
                    let what = "an indirection that points into the middle of a type";
                    Err(self.types.error(*place, ReadErrorKind::Malformed { what }))
                }
            };
        }
        let index = self.count(self.code.nodes.len(), *place)?;
        self.code.nodes.push(NodeData::new(node.kind));
        self.starts.push((node.start, index));
        let mut data = NodeData::new(node.kind);
        let mut params = node.params;
        let depth = work.deeper(depth, self.types.offset(params))?;
        self.params(&mut data, &mut params, work, depth)?;
        if let Some(place) = self.code.node_mut(index) {
            *place = data;
        }
        Ok(index)
    }

    fn params(&mut self, data: &mut NodeData, place: &mut Place, work: &mut Work, depth: u32) -> Result<(), ReadError> {
        let types = self.types;
        if data.kind.is_named() {
            data.id = self.text(place)?;
            data.name = self.text(place)?;
        }
        let first_unplaced = self.unplaced.len();
        match data.kind {
            Kind::String | Kind::Wstring => data.number = types.u32(place)?,
            Kind::Fixed => {
                let (digits, scale) = types.fixed(place)?;
                data.number = u32::from(digits) << 16 | u32::from(scale.cast_unsigned());
            }
            Kind::Sequence | Kind::Array => {
                data.content = self.type_code(place, work, depth)?;
                data.number = types.u32(place)?;
            }
            Kind::Alias | Kind::ValueBox => data.content = self.type_code(place, work, depth)?,
            Kind::Struct | Kind::Exception => {
                for _ in 0..types.u32(place)? {
                    let name = self.text(place)?;
                    let content = self.type_code(place, work, depth)?;
                    self.unplaced.push(MemberData { name, content, label: 0, visibility: 0 });
                }
            }
            Kind::Enum => {
                for _ in 0..types.u32(place)? {
                    work.step(types.offset(*place))?;
                    let name = self.text(place)?;
                    self.unplaced.push(MemberData { name, content: 0, label: 0, visibility: 0 });
                }
            }
            Kind::Union => self.union_params(data, place, work, depth)?,
            Kind::Value | Kind::Event => {
                data.number = u32::from(types.u16(place)?);
                data.content = self.type_code(place, work, depth)?;
                for _ in 0..types.u32(place)? {
                    let name = self.text(place)?;
                    let content = self.type_code(place, work, depth)?;
                    let visibility = types.u16(place)?;
                    self.unplaced.push(MemberData { name, content, label: 0, visibility });
                }
            }
            _ => {}
        }
        data.first = self.count(self.code.members.len(), *place)?;
        data.count = self.count(self.unplaced.len().saturating_sub(first_unplaced), *place)?;
        self.code.members.extend(self.unplaced.drain(first_unplaced..));
        Ok(())
    }

    fn union_params(
        &mut self,
        data: &mut NodeData,
        place: &mut Place,
        work: &mut Work,
        depth: u32,
    ) -> Result<(), ReadError> {
        let types = self.types;
        let mut at_discriminator = *place;
        data.content = self.type_code(place, work, depth)?;
        let discriminator = types.discriminator(&mut at_discriminator, work)?;
        data.default = types.i32(place)?;
        for index in 0..types.u32(place)? {
            let label = types.label(place, discriminator, wire::is_default(index, data.default))?;
            let name = self.text(place)?;
            let content = self.type_code(place, work, depth)?;
            self.unplaced.push(MemberData { name, content, label, visibility: 0 });
        }
        Ok(())
    }

    /// Reads an id or name into the pool.
    fn text(&mut self, place: &mut Place) -> Result<Text, ReadError> {
        let bytes = self.types.string(place)?;
        if bytes.contains(&0) {
            return Err(self.types.error(*place, ReadErrorKind::Malformed { what: "a name with NUL in it" }));
        }
        let pool = &mut self.code.text;
        let start = pool.len();
        match (core::str::from_utf8(bytes), self.types.chars()) {
            (Ok(text), CharSet::Utf8) => pool.push_str(text),
            (Ok(text), CharSet::Latin1) if text.is_ascii() => pool.push_str(text),
            (_, CharSet::Latin1) => pool.extend(bytes.iter().map(|&octet| char::from(octet))),
            (Err(_), CharSet::Utf8) => {
                return Err(self.types.error(*place, ReadErrorKind::BadText { charset: "UTF-8" }));
            }
        }
        let length = self.count(self.code.text.len().saturating_sub(start), *place)?;
        Ok(Text { start: self.count(start, *place)?, length })
    }

    /// A count as the arena keeps it.
    fn count(&self, count: usize, place: Place) -> Result<u32, ReadError> {
        u32::try_from(count).map_err(|_| self.types.error(place, ReadErrorKind::TooMuchWork))
    }
}

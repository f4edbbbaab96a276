//! Writing of an owned type in the marshalled form.

use super::wire::INDIRECTION;
use super::{Kind, NodeData, Shape, TypeCode, TypeRef};
use crate::cdr::{WideChar, Writer};
use alloc::vec::Vec;

impl TypeCode {
    /// Writes the `TypeCode`. A type that was read is written with the same octets, given the same encoding and a sender that follows the
    /// standard; a type that contains itself is written with an indirection.
    pub fn write(&self, writer: &mut Writer<'_>) {
        self.root().write(writer);
    }
}

impl TypeRef<'_> {
    /// Writes it as a `TypeCode` of its own, as [`TypeCode::write`] does. A type within another that contains itself should not be.
    pub fn write(self, writer: &mut Writer<'_>) {
        writer.align(4);
        // Most types are small, and nothing is allocated for them.
        let (mut few, mut many) = ([None; FEW_NODES], Vec::new());
        let nodes = self.types.nodes.len();
        let places = match few.get_mut(..nodes) {
            Some(few) => few,
            None => {
                many.resize(nodes, None);
                many.as_mut_slice()
            }
        };
        Write { code: self.types, places }.type_code(self.index, writer, 0);
    }
}

/// Maximum nodes of a type that is written without a heap allocation.
const FEW_NODES: usize = 8;

struct Write<'w> {
    code: &'w TypeCode,
    /// Position of each node, counted from position 0 of the outermost writer.
    places: &'w mut [Option<usize>],
}

impl Write<'_> {
    /// Writes the type with that index; `origin` is where the writer's position 0 lies for the outermost writer.
    fn type_code(&mut self, index: u32, writer: &mut Writer<'_>, origin: usize) {
        writer.align(4);
        let here = origin + writer.position();
        let place = usize::try_from(index).ok().and_then(|index| self.places.get_mut(index));
        match place {
            Some(Some(earlier)) => {
                // CORBA 3.3 part 2, 9.3.5.1, on indirection: counted from the distance's own place, which is behind the marker.
                let distance = (here + 4).saturating_sub(*earlier);
                writer.u32(INDIRECTION);
                writer.i32(i32::try_from(distance).unwrap_or(i32::MAX).saturating_neg());
                return;
            }
            Some(place) => *place = Some(here),
            None => {}
        }
        let code = self.code;
        let data = code.node(index);
        writer.u32(data.kind.number());
        match (data.kind.shape(), data.kind) {
            (Shape::Empty, _) => {}
            (Shape::Simple, Kind::Fixed) => {
                let fixed = TypeRef { types: code, index };
                writer.u16(fixed.digits());
                writer.i16(fixed.scale());
            }
            (Shape::Simple, _) => writer.u32(data.number),
            (Shape::Complex, _) => {
                let origin = here + 8;
                writer.encapsulation(|writer| self.params(index, data, writer, origin));
            }
        }
    }

    fn params(&mut self, index: u32, data: &NodeData, writer: &mut Writer<'_>, origin: usize) {
        let code = self.code;
        if data.kind.is_named() {
            writer.string(code.text(data.id));
            writer.string(code.text(data.name));
        }
        let members = TypeRef { types: code, index }.members();
        match data.kind {
            Kind::Sequence | Kind::Array => {
                self.type_code(data.content, writer, origin);
                writer.u32(data.number);
            }
            Kind::Alias | Kind::ValueBox => self.type_code(data.content, writer, origin),
            Kind::Struct | Kind::Exception => {
                writer.u32(data.count);
                for member in members {
                    writer.string(member.name());
                    self.type_code(member.data.content, writer, origin);
                }
            }
            Kind::Enum => {
                writer.u32(data.count);
                for member in members {
                    writer.string(member.name());
                }
            }
            Kind::Union => {
                let labels = TypeRef { types: code, index: data.content }.resolved().kind();
                self.type_code(data.content, writer, origin);
                writer.i32(data.default);
                writer.u32(data.count);
                for member in members {
                    write_discriminator(writer, labels, member.data.label);
                    writer.string(member.name());
                    self.type_code(member.data.content, writer, origin);
                }
            }
            Kind::Value | Kind::Event => {
                writer.u16(super::low_half(data.number));
                self.type_code(data.content, writer, origin);
                writer.u32(data.count);
                for member in members {
                    writer.string(member.name());
                    self.type_code(member.data.content, writer, origin);
                    writer.u16(member.data.visibility);
                }
            }
            _ => {}
        }
    }
}

/// Writes a discriminator or label, the reverse of [`super::wire::discriminator`].
pub(crate) fn write_discriminator(writer: &mut Writer<'_>, kind: Kind, bits: u64) {
    let [_, _, _, _, e, f, g, h] = bits.to_be_bytes();
    match kind {
        Kind::Boolean | Kind::Char | Kind::Octet => writer.u8(h),
        Kind::Short | Kind::UShort => writer.u16(u16::from_be_bytes([g, h])),
        Kind::Long | Kind::ULong | Kind::Enum => writer.u32(u32::from_be_bytes([e, f, g, h])),
        Kind::LongLong | Kind::ULongLong => writer.u64(bits),
        Kind::Wchar => {
            let (first, second) = (u16::from_be_bytes([g, h]), u16::from_be_bytes([e, f]));
            writer.wide_char(WideChar::from_pair(first, second).unwrap_or_else(|| WideChar::from_unit(first)));
        }
        _ => {}
    }
}

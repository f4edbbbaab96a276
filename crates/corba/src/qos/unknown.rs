//! Unknown properties, where the service is configured to accept them: stored with their object, returned, and without effect. TAO's
//! service does so, and its clients set properties of their own and read them.

use super::property::is_reliability;
use giop::cdr::{CharSet, Encoding, Endian, Reader, Writer};
use giop::typecode::Work;
use giop::value::AnyValue;
use topology as t;

/// Maximum number of an object's unknown properties, and octets of their names, types and values.
pub(super) const UNKNOWN_MAX: usize = 64;
pub(super) const UNKNOWN_OCTETS_MAX: usize = 8 << 10;
/// Encoding of their stored values.
const ENCODING: Encoding = Encoding { chars: CharSet::Utf8, ..Encoding::new(Endian::Big) };

/// The operations that set and read the properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    /// `set_qos` and `get_qos`.
    Qos,
    /// `set_admin` and `get_admin`.
    Admin,
}

/// An object's unknown properties, in the order in which they were first set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unknown(Vec<UnknownProperty>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct UnknownProperty {
    table: Table,
    name: String,
    /// Type and value.
    value: Vec<u8>,
}

impl Unknown {
    pub(crate) const fn none() -> Self {
        Self(Vec::new())
    }

    /// Sets a property, replacing one of the same name. Returns false, without a change, if there is no room.
    pub(super) fn set(&mut self, table: Table, name: &str, value: &AnyValue) -> bool {
        let mut octets = Vec::new();
        if value.write(&mut Writer::new(&mut octets, ENCODING)).is_err() {
            return false;
        }
        self.put(UnknownProperty { table, name: name.to_owned(), value: octets })
    }

    /// Removes a property that is known now, or has an effect.
    pub(super) fn remove(&mut self, table: Table, name: &str) {
        self.0.retain(|known| (known.table, known.name.as_str()) != (table, name));
    }

    /// Number of properties that are known, but need a store.
    pub(crate) fn lacking_store(&self) -> usize {
        self.0.iter().filter(|property| property.table == Table::Qos && is_reliability(&property.name)).count()
    }

    fn put(&mut self, property: UnknownProperty) -> bool {
        let at = self.0.iter().position(|known| known.table == property.table && known.name == property.name);
        let before = at.and_then(|at| self.0.get(at)).map_or(0, UnknownProperty::octets);
        let octets = self.0.iter().map(UnknownProperty::octets).sum::<usize>() - before + property.octets();
        if octets > UNKNOWN_OCTETS_MAX || (at.is_none() && self.0.len() >= UNKNOWN_MAX) {
            return false;
        }
        match at.and_then(|at| self.0.get_mut(at)) {
            Some(known) => *known = property,
            None => self.0.push(property),
        }
        true
    }

    /// Their memory in octets.
    pub(crate) fn octets(&self) -> u64 {
        self.0.iter().map(|property| (size_of::<UnknownProperty>() + property.octets()) as u64).sum()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their names and values; without those that the client's encoding cannot express, such as texts outside its code set.
    pub(super) fn reported(&self, table: Table, encoding: Encoding) -> Vec<(&str, AnyValue)> {
        let of_table = self.0.iter().filter(|property| property.table == table);
        let reported = of_table.filter_map(|UnknownProperty { name, value, .. }| {
            let value = AnyValue::read(&mut Reader::new(value, ENCODING), &mut Work::default()).ok()?;
            value.write(&mut Writer::new(&mut Vec::new(), encoding)).ok()?;
            Some((name.as_str(), value))
        });
        reported.collect()
    }

    /// The stored form.
    pub(crate) fn exported(&self) -> Vec<t::UnknownProperty> {
        let exported = self.0.iter().map(|UnknownProperty { table, name, value }| t::UnknownProperty {
            name: name.clone(),
            is_administrative: *table == Table::Admin,
            value: value.iter().map(|octet| format!("{octet:02x}")).collect(),
        });
        exported.collect()
    }

    /// Restores them from the stored form, without invalid ones.
    pub(crate) fn restored(stored: &[t::UnknownProperty]) -> Self {
        let mut unknown = Self::default();
        for t::UnknownProperty { name, is_administrative, value } in stored {
            let octets = value.as_bytes().as_chunks::<2>().0.iter();
            let octets = octets.map(|pair| u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok());
            let Some(value) = octets.collect::<Option<Vec<u8>>>() else { continue };
            let table = if *is_administrative { Table::Admin } else { Table::Qos };
            unknown.put(UnknownProperty { table, name: name.clone(), value });
        }
        unknown
    }
}

impl UnknownProperty {
    const fn octets(&self) -> usize {
        self.name.len() + self.value.len()
    }
}

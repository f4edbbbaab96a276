//! Cyclone's types, under construction.

use std::ffi::{CStr, c_int};
use std::ptr::NonNull;

use super::{
    Code, Entity, RawType, campanile_dds_type_add_case, campanile_dds_type_add_literal, campanile_dds_type_add_member,
    campanile_dds_type_alias, campanile_dds_type_array, campanile_dds_type_enumeration, campanile_dds_type_free,
    campanile_dds_type_primitive, campanile_dds_type_sequence, campanile_dds_type_string, campanile_dds_type_structure,
    campanile_dds_type_union, checked,
};

/// A type under construction, or ready.
pub(crate) struct Type(pub(super) NonNull<RawType>);

impl Type {
    fn of(pointer: *mut RawType, error: i32) -> Result<Self, Code> {
        let made = NonNull::new(pointer).map(Self).ok_or(Code(error))?;
        checked(error)?;
        Ok(made)
    }

    /// Passes the type to a function in C, which takes ownership whatever the result.
    fn consumed(self) -> *mut RawType {
        std::mem::ManuallyDrop::new(self).0.as_ptr()
    }

    pub(crate) fn primitive(kind: u32) -> Result<Self, Code> {
        // SAFETY: the kind is one of Cyclone's, or refused when it is used.
        let made = unsafe { campanile_dds_type_primitive(kind) };
        NonNull::new(made).map(Self).ok_or(Code::OUT_OF_RESOURCES)
    }

    pub(crate) fn string(participant: &Entity, wide: bool, bound: u32) -> Result<Self, Code> {
        let mut error = 0;
        // SAFETY: see the module.
        let made = unsafe { campanile_dds_type_string(participant.0, c_int::from(wide), bound, &raw mut error) };
        Self::of(made, error)
    }

    pub(crate) fn enumeration(participant: &Entity, name: &CStr) -> Result<Self, Code> {
        let mut error = 0;
        // SAFETY: see the module.
        let made = unsafe { campanile_dds_type_enumeration(participant.0, name.as_ptr(), &raw mut error) };
        Self::of(made, error)
    }

    pub(crate) fn add_literal(&mut self, name: &CStr, value: i32) -> Result<(), Code> {
        // SAFETY: the type is ours.
        checked(unsafe { campanile_dds_type_add_literal(self.0.as_ptr(), name.as_ptr(), value) }).map(drop)
    }

    pub(crate) fn alias(participant: &Entity, name: &CStr, original: Self) -> Result<Self, Code> {
        let mut error = 0;
        // SAFETY: the original is handed over.
        let made =
            unsafe { campanile_dds_type_alias(participant.0, name.as_ptr(), original.consumed(), &raw mut error) };
        Self::of(made, error)
    }

    pub(crate) fn sequence(participant: &Entity, name: &CStr, element: Self, bound: u32) -> Result<Self, Code> {
        let mut error = 0;
        let element = element.consumed();
        // SAFETY: the element is handed over.
        let made = unsafe { campanile_dds_type_sequence(participant.0, name.as_ptr(), element, bound, &raw mut error) };
        Self::of(made, error)
    }

    pub(crate) fn array(participant: &Entity, name: &CStr, element: Self, lengths: &[u32]) -> Result<Self, Code> {
        let mut error = 0;
        let element = element.consumed();
        let dimensions = u32::try_from(lengths.len()).unwrap_or(0);
        // SAFETY: the element is handed over; there are as many lengths as are said.
        let made = unsafe {
            campanile_dds_type_array(
                participant.0,
                name.as_ptr(),
                element,
                dimensions,
                lengths.as_ptr(),
                &raw mut error,
            )
        };
        Self::of(made, error)
    }

    pub(crate) fn structure(participant: &Entity, name: &CStr) -> Result<Self, Code> {
        let mut error = 0;
        // SAFETY: see the module.
        let made = unsafe { campanile_dds_type_structure(participant.0, name.as_ptr(), &raw mut error) };
        Self::of(made, error)
    }

    pub(crate) fn union(participant: &Entity, name: &CStr, discriminator: Self) -> Result<Self, Code> {
        let mut error = 0;
        let discriminator = discriminator.consumed();
        // SAFETY: the discriminator's type is handed over.
        let made = unsafe { campanile_dds_type_union(participant.0, name.as_ptr(), discriminator, &raw mut error) };
        Self::of(made, error)
    }

    pub(crate) fn add_member(&mut self, name: &CStr, member: Self) -> Result<(), Code> {
        // SAFETY: the type is ours; the member's is handed over.
        checked(unsafe { campanile_dds_type_add_member(self.0.as_ptr(), name.as_ptr(), member.consumed()) }).map(drop)
    }

    pub(crate) fn add_case(&mut self, name: &CStr, member: Self, labels: &[i32], is_default: bool) -> Result<(), Code> {
        let count = u32::try_from(labels.len()).unwrap_or(0);
        let is_default = c_int::from(is_default);
        let member = member.consumed();
        // SAFETY: the type is ours; the member's is handed over; there are as many labels as are said.
        let result = unsafe {
            campanile_dds_type_add_case(self.0.as_ptr(), name.as_ptr(), member, count, labels.as_ptr(), is_default)
        };
        checked(result).map(drop)
    }
}

impl Drop for Type {
    fn drop(&mut self) {
        // SAFETY: it is ours and was not handed over.
        unsafe { campanile_dds_type_free(self.0.as_ptr()) }
    }
}

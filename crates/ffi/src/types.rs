//! Event types, declared by their IDL text.

use crate::pointers::{borrow, borrow_mut, give, octets, optional_text, put, take, text};
use crate::status::{Failure, c_string, guarded};
use campanile::{Declared, Defaults, ErrorCode, TypeCode};
use giop::cdr::{CharSet, Encoding, Endian, Reader, Version};
use giop::typecode::Work;
use giop::value::Value;
use std::ffi::{CString, c_char};

/// Encoding of values that cross the interface: this processor's byte order, aligned as in GIOP 1.2 from position 0 on, in UTF-8.
pub(crate) const NATIVE: Encoding = Encoding { endian: Endian::NATIVE, version: Version::V1_2, chars: CharSet::Utf8 };

/// Limits for reading one value for JSON: as many steps as its octets can need, at this depth.
pub(crate) fn work() -> Work {
    Work::new(16 * 1024 * 1024, 128)
}

/// A type of events. Any number of threads, suppliers and consumers may use one at once; it may be freed while they still use it.
pub struct Type {
    pub(crate) declared: Declared,
    defaults: Defaults,
    name: CString,
    idl: CString,
}

/// Declares a type by its IDL text: `struct Wind { double speed; double direction; };`. `name` chooses the struct, as `Wind` or
/// `weather::Wind`; a null pointer stands for the last one. `domain` is the event domain; a null pointer stands for the one of the
/// settings. To be freed with `campanile_type_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_type_new(
    idl: *const c_char,
    name: *const c_char,
    domain: *const c_char,
    r#type: *mut *mut Type,
) -> ErrorCode {
    guarded(|| {
        // SAFETY: the header asks for it.
        let (idl, name, domain) =
            unsafe { (text(idl, "idl")?, optional_text(name, "name")?, optional_text(domain, "domain")?) };
        let made = declare(idl, name, domain)?;
        // SAFETY: the header asks for it.
        unsafe { give(r#type, made) }
    })
}

fn declare(text: &str, name: Option<&str>, domain: Option<&str>) -> Result<Type, Failure> {
    let wrong = |reason: String| Failure::new(ErrorCode::Type, reason);
    let all = idl::read(text).map_err(|error| wrong(format!("the IDL text has a mistake: {error}")))?;
    let found = match name {
        Some(name) => all.find(name).map_err(|error| wrong(error.to_string()))?,
        None => all.last().ok_or_else(|| wrong("the IDL text defines nothing".to_owned()))?,
    };
    let declared = Declared::new(found.code(), domain, None)?;
    let (name, idl) = (c_string(declared.name()), c_string(&idl::text(found.code())));
    Ok(Type { declared, defaults: Defaults::default(), name, idl })
}

/// Sets a member's default, used where a supplier's type lacks the member, for consumers that subscribe to the type from then on.
/// `structure` is the type itself or one that it contains, as `Wind` or `weather::Wind`; the octets are a value of the member's type alone.
/// While this is called, no other thread may use the type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_type_default(
    r#type: *mut Type,
    structure: *const c_char,
    member: *const c_char,
    cdr: *const u8,
    cdr_size: usize,
) -> ErrorCode {
    guarded(|| {
        // SAFETY: the header asks for it.
        let (of, structure, member, cdr) = unsafe {
            (
                borrow_mut(r#type, "type")?,
                text(structure, "structure")?,
                text(member, "member")?,
                octets(cdr, cdr_size, "cdr")?,
            )
        };
        let wrong = |reason: String| Failure::new(ErrorCode::Type, reason);
        let all = idl::read(&of.idl.to_string_lossy()).map_err(|error| wrong(error.to_string()))?;
        let found = all.find(structure).map_err(|error| wrong(error.to_string()))?.code().root().resolved();
        if !found.members().any(|known| known.name() == member) {
            return Err(wrong(format!("{structure} has no member {member}")));
        }
        of.defaults.set(found.id(), member, cdr);
        of.declared = of.declared.clone().with_defaults(of.defaults.clone());
        Ok(())
    })
}

/// The event type's name. Valid until the type is freed; a null pointer for a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_type_name(r#type: *const Type) -> *const c_char {
    // SAFETY: the header asks for it.
    unsafe { r#type.as_ref() }.map_or(std::ptr::null(), |of| of.name.as_ptr())
}

/// The type as IDL text, with all types that it contains. Valid until the type is freed; a null pointer for a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_type_idl(r#type: *const Type) -> *const c_char {
    // SAFETY: the header asks for it.
    unsafe { r#type.as_ref() }.map_or(std::ptr::null(), |of| of.idl.as_ptr())
}

/// Checks that the octets are one value of the type and no more: `CAMPANILE_STATUS_OK`, or `CAMPANILE_STATUS_VALUE` with why.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_type_check(r#type: *const Type, cdr: *const u8, cdr_size: usize) -> ErrorCode {
    guarded(|| {
        // SAFETY: the header asks for it.
        let (of, cdr) = unsafe { (borrow(r#type, "type")?, octets(cdr, cdr_size, "cdr")?) };
        Ok(of.declared.check(cdr)?)
    })
}

/// A value of the type as JSON. To be freed with `campanile_text_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_type_json(
    r#type: *const Type,
    cdr: *const u8,
    cdr_size: usize,
    json: *mut *mut c_char,
) -> ErrorCode {
    guarded(|| {
        // SAFETY: the header asks for it.
        let (of, cdr) = unsafe { (borrow(r#type, "type")?, octets(cdr, cdr_size, "cdr")?) };
        of.declared.check(cdr)?;
        let text = json_of(of.declared.type_code(), cdr)?;
        // SAFETY: the header asks for it.
        unsafe { put(json, text.into_raw()) }
    })
}

/// Frees a type. A null pointer is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_type_free(r#type: *mut Type) {
    // SAFETY: the header asks for it.
    drop(unsafe { take(r#type) });
}

/// Frees a text that the library returned. A null pointer is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_text_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: it is none, and the header asks for one that `CString::into_raw` gave.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// A value as JSON.
pub(crate) fn json_of(type_code: &TypeCode, cdr: &[u8]) -> Result<CString, Failure> {
    let value = Value::read(type_code, &mut Reader::new(cdr, NATIVE), &mut work())
        .map_err(|error| Failure::new(ErrorCode::Value, format!("the value cannot be read: {}", error.kind)))?;
    let mut text = String::new();
    json::write::value(&mut text, &value);
    Ok(c_string(&text))
}

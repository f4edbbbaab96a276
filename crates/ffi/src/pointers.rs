//! Conversions of pointers from and to C. A null pointer is an error; any other is assumed valid.

use crate::status::Failure;
use std::ffi::{CStr, c_char};

/// Reads UTF-8 text that ends with a NUL.
///
/// # Safety
/// The pointer is null, or that of such a text, which stays as it is for `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(Failure::argument(format!("{what} is a null pointer")));
    }
    // SAFETY: it is none, and the caller promises the rest.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|error| Failure::argument(format!("{what} is not UTF-8: {error}")))
}

/// Reads text as [`text`] does; a null pointer is `None`.
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn optional_text<'a>(pointer: *const c_char, what: &str) -> Result<Option<&'a str>, Failure> {
    // SAFETY: the caller promises it.
    if pointer.is_null() { Ok(None) } else { unsafe { text(pointer, what) }.map(Some) }
}

/// Borrows the value behind a handle.
///
/// # Safety
/// The pointer is null, or that of a `T`, which stays for `'a` and is not changed but through what may be shared.
pub(crate) unsafe fn borrow<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller promises it.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::argument(format!("{what} is a null pointer")))
}

/// Borrows the value behind a handle mutably.
///
/// # Safety
/// The pointer is null, or that of a `T`, which no other code uses for `'a`.
pub(crate) unsafe fn borrow_mut<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller promises it.
    unsafe { pointer.as_mut() }.ok_or_else(|| Failure::argument(format!("{what} is a null pointer")))
}

/// Borrows `size` octets.
///
/// # Safety
/// The pointer is null, or `size` octets are there, which stay as they are for `'a`.
pub(crate) unsafe fn octets<'a>(pointer: *const u8, size: usize, what: &str) -> Result<&'a [u8], Failure> {
    if size == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(Failure::argument(format!("{what} is a null pointer")));
    }
    if isize::try_from(size).is_err() {
        return Err(Failure::argument(format!("{what}: no value has {size} octets")));
    }
    // SAFETY: it is none, nor too long, and the caller promises the rest.
    Ok(unsafe { std::slice::from_raw_parts(pointer, size) })
}

/// Writes a value to the caller's pointer.
///
/// # Safety
/// The pointer is null, or a `T` can be written there.
pub(crate) unsafe fn put<T>(out: *mut T, value: T) -> Result<(), Failure> {
    if out.is_null() {
        return Err(Failure::argument("where the result is to be put is a null pointer"));
    }
    // SAFETY: it is none, and the caller promises the rest.
    unsafe { out.write(value) };
    Ok(())
}

/// Writes a handle of a value to the caller's pointer.
///
/// # Safety
/// As for [`put`].
pub(crate) unsafe fn give<T>(out: *mut *mut T, value: T) -> Result<(), Failure> {
    if out.is_null() {
        return Err(Failure::argument("where the handle is to be put is a null pointer"));
    }
    // SAFETY: it is none, and the caller promises the rest.
    unsafe { put(out, Box::into_raw(Box::new(value))) }
}

/// Takes ownership of a handle made by [`give`]; `None` for a null pointer.
///
/// # Safety
/// The pointer is null, or came from [`give`] and is not used any more.
pub(crate) unsafe fn take<T>(pointer: *mut T) -> Option<Box<T>> {
    // SAFETY: the caller promises it.
    if pointer.is_null() { None } else { Some(unsafe { Box::from_raw(pointer) }) }
}

//! Reports besides events.

use crate::status::c_string;
use campanile::{Trouble, TroubleCode};
use std::ffi::{CString, c_char, c_void};
use std::time::Duration;

/// A report to a consumer, or to a supplier, that is no event. All that it points to is good until the function returns, and no pointer is null.
#[derive(Debug)]
#[repr(C)]
pub struct TroubleReport {
    /// Which sort it is.
    pub code: TroubleCode,
    /// All of it, as a sentence.
    pub text: *const c_char,
    /// The event's type name, where it is about one; else empty.
    pub name: *const c_char,
    /// Of a mismatch: the member in which the types differ, such as `stations[].name`; else empty.
    /// Of what does not match over DDS: the policy.
    pub path: *const c_char,
    /// Why, where there is more to be said than the code.
    pub reason: *const c_char,
    /// Of a mismatch: the declared type, in IDL; else empty.
    pub declared: *const c_char,
    /// Of a mismatch: the type that came, in IDL; else empty.
    pub came: *const c_char,
    /// Of a gap: how long it was; of a slow callback: how long it took.
    pub milliseconds: u64,
    /// Of lost events: how many more than were reported before.
    pub events: u64,
    /// Of a mismatch: the supplier, where its events say so (those in ALMA's form); else empty.
    /// Of what does not match over DDS: the writer or reader.
    pub supplier: *const c_char,
}

/// Called with what is reported besides events. It may be called by several threads at once, and may publish.
pub type OnTrouble = Option<unsafe extern "C" fn(context: *mut c_void, trouble: *const TroubleReport)>;

/// Has a report of some trouble read.
pub(crate) fn report(trouble: &Trouble, read: impl FnOnce(&TroubleReport)) {
    let (mut name, mut path, mut reason, mut declared, mut came) = ("", "", "", "", "");
    let (mut length, mut events, mut supplier) = (Duration::ZERO, 0, "");
    match trouble {
        Trouble::Unreachable(why) => reason = why,
        Trouble::Gap(gap) => length = gap.until.duration_since(gap.since).unwrap_or_default(),
        Trouble::Mismatch(mismatch) => {
            (name, path, reason) = (&mismatch.name, &mismatch.path, &mismatch.reason);
            (declared, came) = (&mismatch.declared, &mismatch.came);
            supplier = mismatch.supplier.as_deref().unwrap_or_default();
        }
        Trouble::Unreadable { name: of, reason: why } | Trouble::Callback { name: of, reason: why } => {
            (name, reason) = (of, why);
        }
        Trouble::UnknownName { name: of, known } => (name, reason) = (of, known),
        Trouble::Incompatible { name: of, peer, policy, advice, .. } => {
            (name, path, reason, supplier) = (of, policy, advice, peer);
        }
        Trouble::Slow { name: of, took } => (name, length) = (of, *took),
        Trouble::Lost { name: of, events: lost } => (name, events) = (of, *lost),
        _ => {}
    }
    let (code, milliseconds) = (trouble.code(), u64::try_from(length.as_millis()).unwrap_or(u64::MAX));
    let all: [CString; 7] = [&trouble.to_string(), name, path, reason, declared, came, supplier].map(c_string);
    let [text, name, path, reason, declared, came, supplier] = all.each_ref().map(|text| text.as_ptr());
    read(&TroubleReport { code, text, name, path, reason, declared, came, milliseconds, events, supplier });
}

//! Trouble reports: what a callback learns besides events.

use crate::status::c_string;
use campanile::{Trouble, TroubleCode};
use std::ffi::{CString, c_char, c_void};
use std::time::Duration;

/// A report to a consumer or a supplier that is not an event. All pointers are valid until the function returns, and none is null.
#[derive(Debug)]
#[repr(C)]
pub struct TroubleReport {
    /// The kind of trouble.
    pub code: TroubleCode,
    /// The whole report, as a sentence.
    pub text: *const c_char,
    /// The event's type name, if the report is about an event; else empty.
    pub name: *const c_char,
    /// Of a mismatch: the member in which the types differ, such as `stations[].name`; else empty. Of endpoints that do not match over DDS:
    /// the policy.
    pub path: *const c_char,
    /// The reason, where there is more to say than the code does.
    pub reason: *const c_char,
    /// Of a mismatch: the declared type, in IDL; else empty.
    pub declared: *const c_char,
    /// Of a mismatch: the received type, in IDL; else empty.
    pub came: *const c_char,
    /// Of a gap: its length; of a slow callback: its duration.
    pub milliseconds: u64,
    /// Of lost events: the number lost since the last report.
    pub events: u64,
    /// Of a mismatch: the supplier, if its events name it (those in ALMA's form); else empty. Of endpoints that do not match over DDS: the
    /// writer or reader.
    pub supplier: *const c_char,
}

/// Called with each trouble report. Several threads may call it at once, and it may publish.
pub type OnTrouble = Option<unsafe extern "C" fn(context: *mut c_void, trouble: *const TroubleReport)>;

/// Passes a report of some trouble to `read`.
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

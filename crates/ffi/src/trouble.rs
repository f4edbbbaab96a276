//! Reports to a consumer besides events.

use crate::status::c_string;
use campanile::Trouble;
use std::ffi::{CString, c_char, c_void};

/// Which sort of trouble it is. Numbers stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum TroubleCode {
    /// The service cannot be reached; the consumer goes on trying.
    Unreachable = 1,
    /// The service answers again.
    Reachable = 2,
    /// The subscription was gone and is made anew: events between are missing.
    Gap = 3,
    /// Another type came than the one that is declared. Reported once for each; its events are not handed over.
    Mismatch = 4,
    /// An event was not handed over, since it is no value of its type, or none that the declared type has room for.
    Unreadable = 5,
    /// A callback failed. The event counts as handed over.
    Callback = 6,
    /// A callback took long. Meanwhile events wait.
    Slow = 7,
    /// Events did not come, over DDS.
    Lost = 8,
    /// Something of a later version of the library: the text says it.
    Other = 100,
}

/// A report to a consumer that is no event. All that it points to is good until the function returns, and no pointer is null.
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
}

/// Called with what is reported besides events. It may be called by several threads at once, and may publish.
pub type OnTrouble = Option<unsafe extern "C" fn(context: *mut c_void, trouble: *const TroubleReport)>;

/// Has a report of some trouble read.
pub(crate) fn report(trouble: &Trouble, read: impl FnOnce(&TroubleReport)) {
    let mut name = "";
    let (mut path, mut reason, mut declared, mut came, mut milliseconds) = ("", "", "", "", 0);
    let mut lost = 0;
    let code = match trouble {
        Trouble::Unreachable(why) => {
            reason = why;
            TroubleCode::Unreachable
        }
        Trouble::Reachable => TroubleCode::Reachable,
        Trouble::Gap(gap) => {
            let length = gap.until.duration_since(gap.since).unwrap_or_default();
            milliseconds = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
            TroubleCode::Gap
        }
        Trouble::Mismatch(mismatch) => {
            (name, path, reason) = (&mismatch.name, &mismatch.path, &mismatch.reason);
            (declared, came) = (&mismatch.declared, &mismatch.came);
            TroubleCode::Mismatch
        }
        Trouble::Unreadable { name: of, reason: why } => {
            (name, reason) = (of, why);
            TroubleCode::Unreadable
        }
        Trouble::Callback { name: of, reason: why } => {
            (name, reason) = (of, why);
            TroubleCode::Callback
        }
        Trouble::Slow { name: of, took } => {
            name = of;
            milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            TroubleCode::Slow
        }
        Trouble::Lost { name: of, events } => {
            (name, lost) = (of, *events);
            TroubleCode::Lost
        }
        _ => TroubleCode::Other,
    };
    let all: [CString; 6] = [&trouble.to_string(), name, path, reason, declared, came].map(c_string);
    let [text, name, path, reason, declared, came] = all.each_ref().map(|text| text.as_ptr());
    read(&TroubleReport { code, text, name, path, reason, declared, came, milliseconds, events: lost });
}

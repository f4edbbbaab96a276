//! What Cyclone complains about: packets that are none, a network that is not as configured.
//!
//! Any sender of packets can have it complain as often as it sends, so the latest is kept, and how many there were.

use std::sync::{Mutex, PoisonError};

/// How much of a complaint is kept. Unit: octets.
const TEXT_BYTES_MAX: usize = 400;

static COMPLAINTS: Mutex<Complaints> = Mutex::new(Complaints { count: 0, latest: String::new() });

/// What Cyclone has complained about since the process began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Complaints {
    /// How often.
    pub count: u64,
    /// About what, the last time.
    pub latest: String,
}

/// What Cyclone has complained about since the process began: it is written nowhere else.
#[must_use]
pub fn complaints() -> Complaints {
    COMPLAINTS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

pub(crate) fn hear(message: &[u8]) {
    let mut complaints = COMPLAINTS.lock().unwrap_or_else(PoisonError::into_inner);
    complaints.count += 1;
    let text = message.get(..TEXT_BYTES_MAX).unwrap_or(message);
    complaints.latest.clear();
    complaints.latest.push_str(String::from_utf8_lossy(text).trim());
}

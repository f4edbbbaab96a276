//! Cyclone's complaints: malformed packets, a network that differs from the configuration.
//!
//! Any sender of packets can cause them without limit, so only the latest is stored, with their number.

use std::sync::{Mutex, PoisonError};

/// Stored octets of a complaint, at most.
const TEXT_BYTES_MAX: usize = 400;

static COMPLAINTS: Mutex<Complaints> = Mutex::new(Complaints { count: 0, latest: String::new() });

/// Cyclone's complaints since the process began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Complaints {
    /// Number of complaints.
    pub count: u64,
    /// The latest complaint.
    pub latest: String,
}

/// Cyclone's complaints since the process began, which are written nowhere else.
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

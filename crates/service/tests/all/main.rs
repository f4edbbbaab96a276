//! Whole services in-process, with clients of our own and with peers that are only sockets.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod access;
mod access_matrix;
mod acknowledgements;
mod addresses;
mod administering;
mod audit;
mod channel_names;
mod client_names;
mod clients;
mod consumers;
mod correlation;
mod dead_letters;
mod delivery;
mod fairness;
mod filters;
mod guessing;
mod history;
mod hostile;
mod json;
mod json_channels;
mod json_pools;
mod kinds;
mod lanes;
mod limit_tables;
mod limits;
mod link_datagrams;
mod link_far_sides;
mod link_iiop;
mod link_iiop_failures;
mod link_names;
#[cfg(feature = "zenoh")]
mod link_zenoh;
mod links;
mod logged;
mod minor_codes;
mod monitor;
mod overflow;
mod pairings;
mod peers;
mod persistent;
mod planning;
mod priorities;
mod publishing;
mod pulling;
mod remote_filters;
mod returning;
mod sequences;
mod stopping;
mod telling;
mod tempo;
mod time_driven;
mod timers;
mod tls;
mod walls;

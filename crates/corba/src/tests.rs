//! The protocol as clients see it: whole GIOP messages in, whole GIOP messages out.

pub(super) mod dialogue;
mod durable;

mod changes;
mod channel_names;
mod charges;
mod conformance;
mod federation;
mod filters;
mod hostile;
mod idle;
mod local_proxies;
mod monitor;
mod notify_ext;
mod objects;
mod ownership;
mod probes;
mod proxies;
mod restart;
mod restored;
mod scheduling;
mod takeover;
mod teardown;
mod topology;

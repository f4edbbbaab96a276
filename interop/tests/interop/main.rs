//! Unmodified omniORB and JacORB programs as suppliers and consumers of a running service.
//!
//! Each test starts a service of its own inside the test's process, starts programs of both orbs against it, and waits
//! for the lines that they print. Every event is checked field by field by the program that receives it. Nothing
//! measures time; a program that has not said for a minute what is waited for is killed, and its test fails.

#[cfg(test)]
mod addresses;
#[cfg(test)]
mod alma;
#[cfg(test)]
mod bidirectional;
#[cfg(test)]
mod code_sets;
#[cfg(test)]
mod dds;
#[cfg(test)]
mod deployment;
#[cfg(test)]
mod discovery;
#[cfg(test)]
mod failures;
#[cfg(test)]
mod filters;
#[cfg(test)]
mod identity;
#[cfg(test)]
mod json;
#[cfg(test)]
mod links;
#[cfg(test)]
mod overload;
#[cfg(test)]
mod pairings;
#[cfg(test)]
mod priorities;
#[cfg(test)]
mod prometheus;
#[cfg(test)]
mod restarts;
#[cfg(test)]
mod returning;
#[cfg(test)]
mod simple;
#[cfg(test)]
mod slow_consumers;
#[cfg(test)]
mod tempo;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod twelve_proxies;
#[cfg(test)]
mod versions;
#[cfg(test)]
mod walks;

//! Participants that meet over the loopback interface.

#[cfg(test)]
mod compatibility;
#[cfg(test)]
mod delivery;
#[cfg(test)]
mod foreign;
#[cfg(test)]
mod support;
#[cfg(test)]
mod types;

//! `c/tempo_frames.h` and `c/tempo.h`, the protocol for devices in C, against `tempo::wire` and `tempo::endpoint`: frames octet for octet,
//! end points in simulated time, and over UDP.
//!
//! The C compiler is `cc`; the tests fail where there is none. What they run is checked by the compiler's sanitizers.

#[cfg(test)]
mod compiled;
#[cfg(test)]
mod driven;
#[cfg(test)]
mod rust_end;
#[cfg(test)]
mod text;
#[cfg(test)]
mod world;

#[cfg(test)]
mod by_hand;
#[cfg(test)]
mod end_point;
#[cfg(test)]
mod frames;
#[cfg(test)]
mod udp;

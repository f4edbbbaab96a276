//! `c/tempo.h`, the protocol for devices in C, against the frames of `tempo::wire` and, as an end point, by hand and over UDP.
//!
//! The C compiler is `cc`; the tests fail where there is none. What they run is checked by the compiler's sanitizers.

mod compiled;
mod driven;
mod end_point;
mod frames;
mod rust_end;
mod text;
mod udp;
mod world;

//! End points on a simulated network.

mod network;

mod ways;

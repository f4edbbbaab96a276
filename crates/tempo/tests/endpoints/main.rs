//! End points on a simulated network.

#[cfg(test)]
mod network;

#[cfg(test)]
mod ways;

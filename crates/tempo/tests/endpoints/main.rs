//! End points on a simulated network.

#[cfg(test)]
mod hand;
#[cfg(test)]
mod network;

#[cfg(test)]
mod adaptation;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod seeds;
#[cfg(test)]
mod turns;
#[cfg(test)]
mod ways;

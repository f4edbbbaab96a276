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
mod ordering;
#[cfg(test)]
mod seeds;
#[cfg(test)]
mod ways;

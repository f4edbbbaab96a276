//! Random numbers that no client can predict, for this whole crate. (`fastrand` is quick, but its numbers can be worked out from some of
//! them.)

use std::hash::{BuildHasher, RandomState};

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// 128 bits of the operating system's generator.
pub(crate) fn unforeseeable() -> u128 {
    let mut octets = [0; 16];
    let mut filled = 0;
    while let Some(rest) = octets.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match getrandom(rest, GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            // A kernel without that call, or a sandbox that forbids it: the standard library opens the generator's file then.
            Err(_) => return u128::from(of_hash_maps()) << 64 | u128::from(of_hash_maps()),
        }
    }
    u128::from_ne_bytes(octets)
}

/// A random identity of a service or a process, unique in practice. Never 0.
pub(crate) fn identity() -> u64 {
    // A seed of a simulation has the same services whenever it runs.
    #[cfg(test)]
    if crate::simulation::now().is_some() {
        return fastrand::u64(1..);
    }
    u64::try_from(unforeseeable() >> 64).map_or(1, |number| number.max(1))
}

/// A number of the generator that keys the standard library's hash maps.
fn of_hash_maps() -> u64 {
    RandomState::new().hash_one(0_u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_another() {
        let numbers: Vec<u128> = (0..100).map(|_| unforeseeable()).collect();
        for pair in numbers.windows(2) {
            assert!((pair[0] ^ pair[1]).count_ones() >= 24, "{pair:x?}");
        }
        assert_ne!(of_hash_maps(), of_hash_maps());
    }
}

//! What the test programs share: every encoding, and a way to run a seed again.

use campanile_giop::cdr::{CharSet, Encoding, Endian, Version};
use fastrand::Rng;

/// Every way in which a message can be encoded.
pub(crate) fn encodings() -> Vec<Encoding> {
    let mut all = Vec::new();
    for endian in [Endian::Big, Endian::Little] {
        for version in [Version::V1_0, Version::V1_1, Version::V1_2] {
            for chars in [CharSet::Latin1, CharSet::Utf8] {
                all.push(Encoding { endian, version, chars });
            }
        }
    }
    all
}

/// Runs `test` with each of `count` seeds. A failure says how to run only the seed that failed.
pub(crate) fn for_each_seed(count: u64, mut test: impl FnMut(&mut Rng)) {
    struct Rerun(u64);
    impl Drop for Rerun {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("run only this case with CAMPANILE_SEED={} in front of the same command", self.0);
            }
        }
    }
    // Read when the test is compiled; cargo compiles it again when the variable changes.
    let only = option_env!("CAMPANILE_SEED").map(|seed| seed.parse().expect("CAMPANILE_SEED is a number"));
    let seeds = only.map_or(0..count, |seed| seed..seed + 1);
    for seed in seeds {
        let rerun = Rerun(seed);
        test(&mut Rng::with_seed(seed));
        drop(rerun);
    }
}

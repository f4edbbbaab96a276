//! Runs by their seeds.

use super::Break;
use super::linked;
use super::world::{Summary, run};

/// Prints the log of a run, with the time of the simulation.
struct Printed;

impl log::Log for Printed {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        if let Some(now) = super::network::with(|net| net.time()) {
            eprintln!("{:?} {} {}", now, record.level(), record.args());
        }
    }

    fn flush(&self) {}
}

/// Names the seed of a run that panics, and what it is a run of.
struct Named(u64, &'static str);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this was seed {seed}; {}", again(self.0, self.1), seed = self.0);
        }
    }
}

fn again(seed: u64, of: &str) -> String {
    let tests = "cargo test -p campanile-service --lib simulation::tests::seeds_of";
    format!("SIMULATED_SEEDS={seed}..{} {tests}_{of}", seed + 1)
}

fn agree(seed: u64) -> Summary {
    let _named = Named(seed, "whole");
    run(seed, None).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}; {}", again(seed, "whole")))
}

/// The seeds that are run with all tests.
const USUAL: core::ops::Range<u64> = 0..40;
const USUAL_OF_LINKED: core::ops::Range<u64> = 0..24;

/// Which seeds are run: those that the environment asks for, or some. One alone prints its log.
pub(crate) fn requested_seeds(usual: core::ops::Range<u64>) -> core::ops::Range<u64> {
    #[expect(clippy::disallowed_methods, reason = "it is no setting of the service")]
    let requested_seeds = std::env::var("SIMULATED_SEEDS").ok();
    let range = requested_seeds.as_deref().and_then(|requested_seeds| requested_seeds.split_once(".."));
    let range = range.and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    let seeds = range.unwrap_or(usual);
    if seeds.end == seeds.start + 1 && log::set_logger(&Printed).is_ok() {
        // Lines for debugging go through administration: with them it is another run.
        log::set_max_level(log::LevelFilter::Info);
    }
    seeds
}

#[test]
fn seeds_of_whole_services_keep_every_promise() {
    let seeds = requested_seeds(USUAL);
    let is_usual = seeds == USUAL;
    let mut reached = Summary::default();
    for seed in seeds {
        let summary = agree(seed);
        reached.steps += summary.steps;
        reached.lanes += summary.lanes;
        reached.accepted += summary.accepted;
        reached.refused += summary.refused;
        reached.delivered += summary.delivered;
        reached.again += summary.again;
        reached.pulled += summary.pulled;
        reached.lines += summary.lines;
        reached.messages += summary.messages;
        reached.lost += summary.lost;
        reached.resets += summary.resets;
    }
    // Runs in which little happens would show little.
    let Summary { lanes, accepted, delivered, again, pulled, lines, messages, lost, resets, .. } = reached;
    let all = [lanes, accepted, delivered, again, pulled, lines, messages, lost, resets];
    assert!(!is_usual || all.iter().all(|count| *count > 10), "{reached:?}");
}

fn agree_linked(seed: u64) -> linked::Summary {
    let _named = Named(seed, "linked");
    linked::run(seed, None).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}; {}", again(seed, "linked")))
}

#[test]
fn seeds_of_linked_services_keep_every_promise() {
    let seeds = requested_seeds(USUAL_OF_LINKED);
    let is_usual = seeds == USUAL_OF_LINKED;
    let mut all = linked::Summary::default();
    for seed in seeds {
        let summary = agree_linked(seed);
        all.steps += summary.steps;
        all.accepted += summary.accepted;
        all.delivered += summary.delivered;
        all.again += summary.again;
        all.kills += summary.kills;
        all.cuts += summary.cuts;
        all.repeats += summary.repeats;
        all.loops += summary.loops;
        all.lost += summary.lost;
        all.missing += summary.missing;
    }
    let linked::Summary { accepted, delivered, again, kills, cuts, repeats, loops, lost, missing, .. } = all;
    let happened = [accepted, delivered, again, kills, cuts, repeats, loops, lost, missing];
    assert!(!is_usual || happened.iter().all(|count| *count > 0), "{all:?}");
}

/// A seed in which a line is cut while an event of it is being stored, and the same event and a later one arrive on another way.
#[test]
fn an_event_that_is_stored_while_its_line_is_cut_keeps_its_order() {
    agree_linked(757);
}

#[test]
fn a_seed_is_always_the_same_run() {
    for seed in 0..5 {
        assert_eq!(agree(seed), agree(seed));
    }
    assert_eq!(agree_linked(0), agree_linked(0));
}

#[test]
fn what_is_broken_on_purpose_is_noticed() {
    for broken in Break::ALL {
        // Whole, each of these runs keeps every promise, as the other test shows.
        let noticed = (0..100).find_map(|seed| run(seed, Some(broken)).err().map(|wrong| (seed, wrong)));
        let (seed, wrong) = noticed.unwrap_or_else(|| panic!("{broken:?} is not noticed"));
        assert_eq!(run(seed, None).err(), None, "seed {seed} whole; broken: {wrong}");
    }
}

#[test]
fn what_is_broken_on_purpose_between_linked_services_is_noticed() {
    for broken in Break::OF_LINKS {
        let noticed = (0..60).find_map(|seed| linked::run(seed, Some(broken)).err().map(|wrong| (seed, wrong)));
        let (seed, wrong) = noticed.unwrap_or_else(|| panic!("{broken:?} is not noticed"));
        assert_eq!(linked::run(seed, None).err(), None, "seed {seed} whole; broken: {wrong}");
    }
}

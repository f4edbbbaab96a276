//! Reruns one seed of the random test with every step shown: `cargo run -p campanile-sim --example rerun -- SEED`, or
//! `-- SEED lanes` or `-- SEED overflow` for one of those with several lanes, or with backlogs elsewhere.
#![expect(clippy::print_stdout, reason = "showing is what it is for")]

use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(seed) = std::env::args().nth(1).and_then(|seed| seed.parse().ok()) else {
        println!("usage: rerun SEED [OPERATIONS | lanes | overflow]");
        return ExitCode::from(2);
    };
    let second = std::env::args().nth(2);
    let mut trace = |step: &str| println!("{step}");
    let result = if second.as_deref() == Some("lanes") {
        campanile_sim::run_lanes(seed, 600, &mut trace).map(|summary| format!("{summary:?}"))
    } else if second.as_deref() == Some("overflow") {
        campanile_sim::run_overflow(seed, 1_500, &mut trace).map(|summary| format!("{summary:?}"))
    } else {
        let operations = second.and_then(|operations| operations.parse().ok()).unwrap_or(400);
        campanile_sim::run(seed, operations, &mut trace).map(|summary| format!("{summary:?}"))
    };
    match result {
        Ok(summary) => {
            println!("the engine and its model agree: {summary}");
            ExitCode::SUCCESS
        }
        Err(mismatch) => {
            println!("{mismatch}");
            ExitCode::FAILURE
        }
    }
}

//! Reruns one seed of the random test with every step shown: `cargo run -p campanile-sim --example rerun -- SEED`.
#![expect(clippy::print_stdout, reason = "showing is what it is for")]

use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(seed) = std::env::args().nth(1).and_then(|seed| seed.parse().ok()) else {
        println!("usage: rerun SEED [OPERATIONS]");
        return ExitCode::from(2);
    };
    let operations = std::env::args().nth(2).and_then(|operations| operations.parse().ok()).unwrap_or(400);
    match campanile_sim::run(seed, operations, &mut |step| println!("{step}")) {
        Ok(summary) => {
            println!("the engine and its model agree: {summary:?}");
            ExitCode::SUCCESS
        }
        Err(mismatch) => {
            println!("{mismatch}");
            ExitCode::FAILURE
        }
    }
}

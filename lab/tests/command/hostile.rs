//! All attacks of `campanile-bench hostile` at once, for a moment: a client from one address did everything that was ever found to
//! hang, starve or outgrow the service, and somebody else's events and questions were not to suffer. How fast it was meanwhile
//! depends on the machine and is not judged here.

use super::{campanile_bench, json, text};

/// Octets of memory that the service may have in all.
const MEMORY: u64 = 512 << 20;

#[test]
fn clients_that_mean_harm_or_die_cost_no_other_an_event() {
    let config = std::env::temp_dir().join(format!("campanile-hostile-{}.toml", std::process::id()));
    std::fs::write(&config, format!("[limits]\nmemory_bytes = {MEMORY}\n")).unwrap();
    let options = ["--together", "--seconds", "8", "--rest", "2", "--json", "--config", config.to_str().unwrap()];
    let output = campanile_bench(&[&["hostile"], &options[..]].concat());
    let _ = std::fs::remove_file(&config);
    // A verdict on figures may be what it ends with; whatever broke off has no report.
    let report = json(&text(&output.stdout));
    let row = &report["attacks"][0];
    assert_eq!(row["attack"], "together");
    let losses = &row["losses"];
    assert!(losses["sent"].as_u64().unwrap() > 0, "{row}");
    for none in ["lost", "repeated", "out_of_order"] {
        assert_eq!(losses[none], 0, "{none}: {row}");
    }
    assert!(row["tries"].as_u64().unwrap() > 100, "{row}");
    assert!(row["administration"]["events"].as_u64().unwrap() > 0, "{row}");
    assert!(row["resident_bytes_max"].as_u64().unwrap() < MEMORY, "{row}");
    // Threads do not depend on clients: ten with a store and HTTP, one for analyses, one for handshakes, and eight look-ups at most.
    assert!(row["threads_max"].as_u64().unwrap() <= 20, "{row}");
    assert!(report["cpu_percent_at_rest"].is_number(), "{report}");
}

/// What a publisher costs the others that keeps to what the service can take was told only of one that took all there is.
#[test]
fn a_flood_is_held_to_a_part_of_what_the_service_takes() {
    let options = ["--only", "flood", "--rounds", "2", "--seconds", "0.5", "--json"];
    let report = json(&text(&campanile_bench(&[&["hostile"], &options[..]].concat()).stdout));
    let row = &report["attacks"][0];
    let (rate, events) = (row["flood_rate"].as_f64().unwrap(), 64.0 * row["tries"].as_f64().unwrap());
    // Two turns of half a second at that rate, or somewhat less on a busy machine; a few requests come on top. Attackers get what nobody
    // else wants of the processors, so on a machine that is busy all the time the rate may be next to nothing.
    assert!(rate > 0.0 && events < 1.2 * rate + 10_000.0, "{row}");
    assert_eq!((&row["losses"]["lost"], &row["refusals"]), (&0.into(), &0.into()), "{row}");
    assert_eq!(row["p99_ratio_95"].as_array().map(Vec::len), Some(2), "{row}");
}

#[test]
fn an_attack_that_there_is_not_is_refused_with_those_that_there_are() {
    let output = campanile_bench(&["hostile", "--only", "everything"]);
    assert!(!output.status.success());
    let said = text(&output.stderr);
    assert!(said.contains("`everything`") && said.contains("pulls"), "{said}");
}

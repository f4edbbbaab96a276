//! `campanile-bench floor`: one supplier, one consumer, a small event, and what stands between them.
//!
//! Three contenders carry the same exchange, a two-way push of a structured event and its reply: Campanile; a bare
//! relay ([`crate::relay`]), which is what any process in the middle costs at least; and two omniORB programs that
//! push to each other directly. They alternate within each round, so that what else the machine does falls on all of
//! them. Each figure is taken twice: with the machine as it is, and with its cores kept awake.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::experiments::event_path;
use crate::latency::ratio;
use crate::places::Places;
use crate::report::{Aim, Reported, add};
use crate::spin::Spinners;
use crate::{BenchError, Options, Output, clock};

pub(crate) mod counting;
mod ends;
mod middle;
mod omniorb;
mod report;

pub(crate) use report::Counted;

use report::{Both, Figures, Ratios, Turn};

use middle::Middle;
use omniorb::OmniOrb;

crate::report::kinds! {
    /// What carries the events.
    #[derive(clap::ValueEnum)]
    #[value(rename_all = "lower")]
    enum Contender {
        /// The service.
        Campanile = "Campanile",
        /// A bare two-hop TCP relay.
        Relay = "bare relay",
        /// Two omniORB programs, directly.
        OmniOrb = "omniORB direct",
    }
}

crate::report::kinds! {
    /// Whether the cores are kept awake.
    enum Series {
        AsIs = "as_is",
        CoresAwake = "cores_awake",
    }
}

crate::report::kinds! {
    /// How the supplier pushes.
    enum Load {
        /// Events are due at fixed times.
        Paced = "paced",
        /// The next event leaves when the push before has returned.
        Saturated = "saturated",
        /// The next event leaves when the one before has been received and answered as well.
        Lockstep = "lockstep",
    }
}

pub(crate) fn run(options: &Options, out: &mut Output<'_>) -> Reported {
    Options::check("--rate", options.rate, 1e6)?;
    Options::check("--paced-seconds", options.paced_seconds, 3600.0)?;
    Options::check("--saturated-seconds", options.saturated_seconds, 3600.0)?;
    Options::check("--lockstep-seconds", options.lockstep_seconds, 3600.0)?;
    let (report, ratios) = measure(options, out)?;
    Ok((aims(options.quick, &ratios), report))
}

/// What paced events are to cost, in either series.
fn aims(quick: bool, all: &BTreeMap<String, Ratios>) -> Vec<Aim> {
    const MEDIAN_AT_MOST: f64 = 1.15;
    // A wait, a read and a write each for the event and for its reply; what the lane does once a second is not an event's.
    const SYSTEM_CALLS_AT_MOST: f64 = 6.05;
    const ALLOCATIONS_BELOW: f64 = 0.001;
    let mut aims = Vec::new();
    for series in Series::ALL {
        let Some(ratios) = all.get(&format!("{}.{}", series.name(), Load::Paced.name())) else { continue };
        let mut aim = |aim: String, found: Option<f64>, met: Option<bool>| {
            let found = found.map_or_else(|| "not measured".to_owned(), |found| format!("{found:.3}"));
            aims.push(Aim::new(format!("{}, paced: {aim}", series.name().replace('_', " ")), found, met));
        };
        let Ratios { latency_p50, allocations_per_event, syscalls_per_event, .. } = *ratios;
        // The median of a second's events is where the scheduler has put the parties.
        let judged = latency_p50.filter(|_| !quick);
        let met = judged.map(|ratio| ratio <= MEDIAN_AT_MOST);
        aim(format!("median latency at most {MEDIAN_AT_MOST} × the bare relay's"), latency_p50, met);
        let met = allocations_per_event.map(|count| count < ALLOCATIONS_BELOW);
        aim("0 allocations per event".to_owned(), allocations_per_event, met);
        let met = syscalls_per_event.map(|count| count <= SYSTEM_CALLS_AT_MOST);
        aim("6 system calls per event".to_owned(), syscalls_per_event, met);
    }
    aims
}

/// The contenders, running; `Err` says why one is not.
struct Contenders {
    campanile: Result<Middle, String>,
    relay: Result<Middle, String>,
    omniorb: Result<OmniOrb, String>,
}

impl Contenders {
    fn start(options: &Options) -> Result<Self, BenchError> {
        let only = options.only_of::<Contender>()?;
        let wanted = |who| only.is_empty() || only.contains(&who);
        let left_out = || "left out by --only".to_owned();
        let mut contenders = Self { campanile: Err(left_out()), relay: Err(left_out()), omniorb: Err(left_out()) };
        // Stands in for the service's key when there is no service with requests to be matched in size.
        let mut key = vec![b'k'; 40];
        let places = Places::anywhere()?;
        if wanted(Contender::Campanile) {
            let (campanile, its_key) = Middle::campanile(options, places)?;
            (contenders.campanile, key) = (Ok(campanile), its_key);
        }
        if wanted(Contender::Relay) {
            contenders.relay = Ok(Middle::relay(options, places, &key)?);
        }
        if wanted(Contender::OmniOrb) {
            contenders.omniorb = OmniOrb::start(options)?;
        }
        Ok(contenders)
    }

    /// Moves all parties to these cores.
    fn place(&mut self, places: Places) -> Result<(), BenchError> {
        for middle in [&mut self.campanile, &mut self.relay].into_iter().flatten() {
            middle.place(places)?;
        }
        self.omniorb.as_ref().map_or(Ok(()), |omniorb| omniorb.place(places))
    }

    /// One contender's turn; `None` when it is not there.
    fn turn(&mut self, who: Contender, load: Load, options: &Options) -> Result<Option<Turn>, BenchError> {
        match (who, &mut self.campanile, &mut self.relay, &mut self.omniorb) {
            (Contender::Campanile, Ok(middle), ..) | (Contender::Relay, _, Ok(middle), _) => {
                middle.turn(load, options).map(Some)
            }
            (Contender::OmniOrb, .., Ok(omniorb)) => omniorb.turn(load, options),
            _ => Ok(None),
        }
    }

    /// How the run was set up, and the sizes of the messages: of the service's, or else of the relay's.
    fn settings(&self, options: &Options) -> Value {
        let sizes = |middle: &Middle| (middle.request_bytes(), middle.message_bytes);
        let of_relay = || self.relay.as_ref().ok().map(|relay| (relay.request_bytes(), (0, relay.message_bytes.1)));
        let (request_bytes, (behind, reply_bytes)) =
            self.campanile.as_ref().ok().map(sizes).or_else(of_relay).unwrap_or_default();
        json!({
            "quick": options.quick, "pinned": !options.no_pin, "rounds": options.rounds, "rate": options.rate,
            "paced_seconds": options.paced_seconds, "saturated_seconds": options.saturated_seconds,
            "lockstep_seconds": options.lockstep_seconds, "payload_bytes": options.payload,
            "push_window": options.carriage.delivery.push_window, "request_bytes": request_bytes,
            "request_bytes_behind_campanile": behind, "reply_bytes": reply_bytes,
        })
    }
}

/// A second opinion on the number of system calls, from outside: those of all threads in 4 s of paced traffic, the warm-up's and those of
/// the requests by which the counters are read included. Tracing makes everything slow, so that only the counts are of use.
fn strace(campanile: &mut Middle, options: &Options) -> Result<Value, BenchError> {
    let options = Options { paced_seconds: 4.0, ..options.clone() };
    let pid = campanile.process().pid();
    let (turn, traced) = event_path::trace(pid, || campanile.turn(Load::Paced, &options))?;
    let mut calls = BTreeMap::<&str, u64>::new();
    traced.iter().for_each(|call| *calls.entry(&call.name).or_default() += 1);
    let events = turn.counted.map_or(turn.losses.sent, |counted| counted.events) + middle::WARM_UP;
    let per_event = ratio(calls.values().sum(), events.max(1));
    Ok(json!({"events": events, "calls": calls, "system_calls_per_event": per_event}))
}

fn measure(options: &Options, out: &mut Output<'_>) -> Result<(Value, BTreeMap<String, Ratios>), BenchError> {
    let began = clock::now();
    clock::wake_on_time();
    out.progress("starting the contenders")?;
    let mut contenders = Contenders::start(options)?;
    let anywhere = Places::anywhere()?;
    let cores = anywhere.middle.cores();
    let mut turns = Vec::new();
    for round in 1..=options.rounds {
        for series in Series::ALL {
            let awake = series == Series::CoresAwake;
            let spinners = awake.then(|| Spinners::start(&cores)).transpose()?;
            contenders.place(if awake && !options.no_pin { anywhere.pinned() } else { anywhere })?;
            for who in Contender::ALL {
                out.progress(&format!("round {round} of {}, {}: {}", options.rounds, series.name(), who.name()))?;
                for load in Load::ALL {
                    if let Some(turn) = contenders.turn(who, load, options)? {
                        turns.push((who, series, load, turn));
                    }
                }
            }
            drop(spinners);
        }
    }
    let strace = match &mut contenders.campanile {
        Ok(campanile) if options.strace => {
            out.progress("counting system calls from outside")?;
            Some(strace(campanile, options)?)
        }
        _ => None,
    };
    let settings = contenders.settings(options);
    let (mut report, ratios) = assemble(options, &turns, contenders.omniorb.err());
    add(
        &mut report,
        json!({"settings": settings, "strace": strace, "seconds": clock::seconds(clock::now() - began).round()}),
    );
    Ok((report, ratios))
}

/// Sorts the turns by contender, series and load, and takes the ratios.
fn assemble(
    options: &Options,
    turns: &[(Contender, Series, Load, Turn)],
    omniorb_note: Option<String>,
) -> (Value, BTreeMap<String, Ratios>) {
    let figures = |who: Contender, series: Series, load: Load| {
        let of_these = turns.iter().filter(|turn| (turn.0, turn.1, turn.2) == (who, series, load));
        Figures::of(of_these.map(|turn| turn.3.clone()).collect())
    };
    let both = |who: Contender| -> Both {
        let loads = |series| Load::ALL.map(|load| (load.name(), figures(who, series, load))).into();
        Series::ALL.map(|series| (series.name(), loads(series))).into()
    };
    let (campanile, relay) = (both(Contender::Campanile), both(Contender::Relay));
    let mut all = BTreeMap::new();
    for (series, loads) in &campanile {
        for (load, figures) in loads {
            let below = relay.get(series).and_then(|loads| loads.get(load)?.as_ref());
            all.insert(format!("{series}.{load}"), Ratios::of(figures.as_ref(), below));
        }
    }
    let ratios_are = format!(
        "Campanile / bare relay, cores awake{}, paced at {} events per second; each figure the median of {} rounds; \
         allocations and system calls of the same turns, counted by the service's lane",
        if options.no_pin { "" } else { " and parties pinned" },
        options.rate,
        options.rounds
    );
    let report = json!({
        "ratios": all.get(&format!("{}.{}", Series::CoresAwake.name(), Load::Paced.name())),
        "ratios_are": ratios_are,
        "all_ratios": all,
        "campanile": campanile,
        "relay": relay,
        "omniorb_direct": omniorb_note.is_none().then(|| both(Contender::OmniOrb)),
        "omniorb_note": omniorb_note,
    });
    (report, all)
}

/// Nanoseconds of processor time, in microseconds per event.
fn divide_us(nanoseconds: u64, events: u64) -> f64 {
    ratio(nanoseconds, events.max(1)) / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::tests::asked;
    use crate::{Losses, Percentiles};

    /// Options as the command line gives them.
    pub(super) fn options(arguments: &[&str]) -> Options {
        asked(&[&["floor"], arguments].concat()).unwrap()
    }

    /// A turn with all figures derived from one number.
    fn turn(microseconds: f64, counted: bool) -> Turn {
        let latency = Percentiles {
            events: 100,
            min: microseconds / 2.0,
            median: microseconds,
            p99: microseconds * 2.0,
            p999: microseconds * 3.0,
            max: microseconds * 4.0,
            ..Percentiles::default()
        };
        Turn {
            events_per_second: 250.0,
            latency,
            latency_from_schedule: Some(latency),
            round_trip: latency,
            late_pushes: Some(0),
            losses: Losses { sent: 100, received: 100, ..Losses::default() },
            cpu_us_per_event: Some(microseconds / 4.0),
            supplier_cpu_us_per_event: 1.0,
            consumer_cpu_us_per_event: 1.0,
            counted: counted.then_some(Counted {
                events: 100,
                allocations: 0,
                system_calls: 600,
                cycles: 200,
                allocations_of_a_reading: 1,
                system_calls_of_a_reading: 5,
                allocations_per_event: 0.0,
                system_calls_per_event: 6.0,
                cycles_per_event: 2.0,
            }),
        }
    }

    fn report(omniorb_note: Option<String>) -> (Value, BTreeMap<String, Ratios>) {
        let mut turns = Vec::new();
        for series in Series::ALL {
            for load in Load::ALL {
                // The rounds' medians are 60 and 40, whatever the order of the rounds.
                for (campanile, relay) in [(60.0, 10.0), (20.0, 40.0), (300.0, 50.0)] {
                    turns.push((Contender::Campanile, series, load, turn(campanile, true)));
                    turns.push((Contender::Relay, series, load, turn(relay, false)));
                    if omniorb_note.is_none() && load != Load::Lockstep {
                        turns.push((Contender::OmniOrb, series, load, turn(5.0, false)));
                    }
                }
            }
        }
        assemble(&options(&["--quick"]), &turns, omniorb_note)
    }

    #[test]
    fn ratios_are_those_of_the_medians_over_the_rounds() {
        let json = report(None).0;
        let number = |pointer: &str| json.pointer(pointer).and_then(Value::as_f64).unwrap();
        for (pointer, expected) in [
            ("/ratios/latency_p50", 1.5),
            ("/ratios/latency_p999", 1.5),
            ("/ratios/cpu_per_event", 1.5),
            ("/ratios/allocations_per_event", 0.0),
            ("/ratios/syscalls_per_event", 6.0),
            ("/all_ratios/as_is.saturated/latency_p50", 1.5),
            ("/campanile/cores_awake/paced/latency_p50_us/median", 60.0),
            ("/campanile/cores_awake/paced/latency_p50_us/min", 20.0),
            ("/campanile/cores_awake/paced/latency_p50_us/max", 300.0),
            ("/relay/as_is/lockstep/cpu_us_per_event/median", 10.0),
            ("/relay/as_is/paced/rounds/2/latency/p999_us", 150.0),
            ("/omniorb_direct/as_is/saturated/latency_p50_us/median", 5.0),
        ] {
            assert!((number(pointer) - expected).abs() < 1e-9, "{pointer} is {}", number(pointer));
        }
        assert!(json.pointer("/omniorb_note").unwrap().is_null());
        assert!(json.pointer("/relay/as_is/paced/allocations_per_event").unwrap().is_null());
    }

    #[test]
    fn a_quick_run_judges_what_is_counted_and_a_full_one_the_latency_too() {
        let ratios = report(None).1;
        for (quick, latency) in [(true, None), (false, Some(false))] {
            let met: Vec<Option<bool>> = aims(quick, &ratios).iter().map(|aim| aim.met).collect();
            assert_eq!(met, [latency, Some(true), Some(true)].repeat(2));
        }
    }

    #[test]
    fn says_why_omniorb_is_absent_instead_of_making_figures_up() {
        let (report, _) = report(Some("peer is not built".to_owned()));
        assert!(report["omniorb_direct"].is_null());
        assert_eq!(report["omniorb_note"], "peer is not built");
    }

    #[test]
    fn refuses_times_and_rates_that_make_no_sense() {
        for arguments in [["--rate", "0"], ["--rate", "nan"], ["--paced-seconds", "-1"], ["--lockstep-seconds", "0"]] {
            let options = options(&[&format!("{}={}", arguments[0], arguments[1])]);
            let refused = run(&options, &mut Output::new(&mut Vec::new(), false)).unwrap_err().to_string();
            assert!(refused.starts_with(arguments[0]), "{refused}");
        }
    }
}

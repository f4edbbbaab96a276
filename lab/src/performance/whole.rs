//! `campanile-bench performance`: everything, and where it is written to.

use serde::Serialize;
use serde_json::json;

use super::aims;
use super::contender::{self, Contender};
use super::experiments::Bench;
use super::race::Missing;
use crate::places::Places;
use crate::report::{Aim, Reported};
use crate::{BenchError, Options, Output, clock, memory};
use load::output::today;

/// A contender that took part.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct About {
    pub(crate) key: &'static str,
    pub(crate) name: &'static str,
    pub(crate) about: String,
    pub(crate) missing: Option<String>,
}

pub(crate) fn run(options: &Options, out: &mut Output<'_>) -> Reported {
    let began = clock::now();
    clock::wake_on_time();
    let everybody: Vec<&'static Contender> = contender::ALL.iter().collect();
    let only = contender::named(&everybody, "--only", &options.only)?;
    let contenders = if only.is_empty() { everybody } else { only };
    let mut bench = Bench {
        contenders: &contenders,
        quick: options.quick,
        rounds: options.rounds,
        cores: cores()?,
        missing: Missing::new(),
        cells: Vec::new(),
    };
    bench.measure(out)?;
    let ours = contenders.iter().any(|contender| contender.key == "campanile");
    let (memory, memory_missing) = if ours { measure_memory(options.quick, out) } else { (None, None) };
    let Bench { missing, cells, .. } = bench;
    let aims: Vec<Aim> = aims::Found(&cells).aims().into_iter().chain(aims::of_memory(memory.as_ref())).collect();
    let about: Vec<About> = contender::ALL.iter().map(|contender| about(contender, &missing, options)).collect();
    let report = json!({
        "date": today(),
        "quick": options.quick,
        "seconds": clock::seconds(clock::now() - began).round(),
        "contenders": about,
        "growth": aims::Found(&cells).growth(),
        "memory": memory,
        "memory_missing": memory_missing,
        "cells": cells,
    });
    Ok((aims, report))
}

/// What waiting consumers cost. Where that fails, as it does where too few descriptors are allowed, the rest is reported all the same.
fn measure_memory(quick: bool, out: &mut Output<'_>) -> (Option<memory::Found>, Option<String>) {
    let connections = if quick { memory::QUICK_CONNECTIONS } else { memory::CONNECTIONS };
    match memory::measure(connections, memory::PROXIES_EACH, out) {
        Ok(found) => (Some(found), None),
        Err(error) => (None, Some(error.to_string())),
    }
}

fn about(contender: &'static Contender, missing: &Missing, options: &Options) -> About {
    let key = contender.key;
    let left_out = !options.takes_part(key);
    let missing = missing.get(key).cloned().or_else(|| left_out.then(|| "left out by --only".to_owned()));
    About { key, name: contender.name, about: (contender.about)(), missing }
}

/// The first and the last core, if there are two.
pub(super) fn cores() -> Result<Option<(usize, usize)>, BenchError> {
    let cores = Places::anywhere()?.middle.cores();
    Ok(cores.first().copied().zip(cores.last().copied()).filter(|(first, last)| first != last))
}

//! `campanile doctor`: obstacles to real time on this machine, each with the command that removes it; or obstacles between here and an
//! object.

mod findings;
mod latency;
mod machine;
mod reference;
#[cfg(test)]
mod tests;

use self::findings::{Finding, State};
use self::latency::Latency;
use self::machine::Machine;
use crate::args::DoctorOptions;
use crate::color::{self, Tone};
use crate::failure::Failure;
use serde_json::{Value as Json, json};
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};

/// Examines the machine. Succeeds if nothing is in the way.
pub(crate) fn run(options: &DoctorOptions) -> Result<(), Failure> {
    if let Some(reference) = &options.reference {
        return reference::run(options, reference);
    }
    let machine = Machine::this();
    let mut findings = findings::all(&machine);
    let mut stdout = io::stdout();
    let live = !options.json && stdout.is_terminal();
    if live {
        stdout.write_all(describe(&findings).as_bytes())?;
    }
    let mut latency = None;
    if !options.no_latency {
        if live {
            writeln!(stdout, "measuring wake-up latency for {:?} …", options.seconds)?;
        }
        let measured = latency::measure(options.seconds)
            .map_err(|error| Failure::Message(format!("cannot measure wake-up latency: {error}; try --no-latency")))?;
        findings.push(findings::latency(&measured));
        latency = Some(measured);
    }
    let ready = findings.iter().all(|finding| finding.state != State::InTheWay);
    let said = if options.json {
        format!("{}\n", report(&findings, latency.as_ref(), ready))
    } else {
        let mut text = if live { String::new() } else { describe(&findings) };
        if let Some(latency) = &latency {
            if live {
                text.push_str(&describe(findings.get(findings.len().saturating_sub(1)..).unwrap_or_default()));
            }
            text.push('\n');
            text.push_str(&latency.describe());
        }
        text.push('\n');
        text.push_str(&verdict(&findings));
        text
    };
    stdout.write_all(said.as_bytes())?;
    if ready { Ok(()) } else { Err(Failure::Quiet) }
}

fn verdict(findings: &[Finding]) -> String {
    let count = |state| findings.iter().filter(|finding| finding.state == state).count();
    let (bad, notes) = (count(State::InTheWay), count(State::Note));
    match (bad, notes) {
        (0, 0) => "nothing stands in the way of real time\n".to_owned(),
        (0, _) => format!("nothing stands in the way of real time; {notes} to take note of\n"),
        (1, _) => format!("1 thing stands in the way of real time, {notes} to take note of\n"),
        _ => format!("{bad} things stand in the way of real time, {notes} to take note of\n"),
    }
}

/// One line for each good finding; reason and remedy for the others.
fn describe(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let (mark, tone) = match finding.state {
            State::Well => ("well ", Tone::Well),
            State::Note => ("note ", Tone::Slow),
            State::InTheWay => ("BAD  ", Tone::Lost),
        };
        let mark = color::paint(mark, Some(tone));
        let _ = writeln!(text, "{mark} {:<18} {}", finding.name, finding.found);
        if finding.state != State::Well {
            let _ = writeln!(text, "      {}", finding.why);
            if let Some(mend) = &finding.mend {
                let _ = writeln!(text, "      → {mend}");
            }
        }
    }
    text
}

fn report(findings: &[Finding], latency: Option<&Latency>, ready: bool) -> Json {
    json!({ "ready": ready, "findings": findings_json(findings), "latency": latency.map(Latency::report) })
}

fn findings_json(findings: &[Finding]) -> Vec<Json> {
    findings
        .iter()
        .map(|finding| {
            json!({
                "name": finding.name,
                "state": match finding.state {
                    State::Well => "well",
                    State::Note => "note",
                    State::InTheWay => "in the way",
                },
                "found": finding.found,
                "why": finding.why,
                "mend": finding.mend,
            })
        })
        .collect()
}

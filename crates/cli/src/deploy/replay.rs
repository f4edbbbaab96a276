//! `campanile deploy replay`: a component of a plan alone, given what was recorded for it.

use super::{failure, objects, say};
use crate::args::DeployReplayOptions;
use crate::failure::Failure;
use crate::record::events;
use crate::replay::Pace;
use crate::signals::{Waiter, Wake};
use crate::{json, logger};
use component::{PlanFile, RecordingReader, Replayed, SentEvent};
use giop::cdr::{CharSet, Encoding, Endian, Reader, Version};
use giop::typecode::{TypeCode, Work};
use giop::value::Value;
use service::LogConfig;
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::time::Duration;

/// Longest wait until the next look at the signals.
const LOOK: Duration = Duration::from_millis(50);

/// Encoding of values in recordings of this machine.
const NATIVE: Encoding = Encoding { endian: Endian::NATIVE, version: Version::V1_2, chars: CharSet::Utf8 };

/// Starts the component, gives it the events, and prints what it sends.
pub(crate) fn run(options: &DeployReplayOptions) -> Result<(), Failure> {
    let waiter = Waiter::install()?;
    logger::install(LogConfig::default());
    let instance = &options.into;
    let mut recording = RecordingReader::open(&options.file).map_err(Failure::Message)?;
    let plan = options.plan.clone().unwrap_or_else(|| recording.plan().to_owned());
    let file = PlanFile::read_with_objects(&plan, objects()?).map_err(|problems| say(&problems))?;
    let of = file.plan().instances.get(instance);
    let description = of.and_then(|of| file.components().get(&of.server)?.get(&of.component));
    let types = description.map(|of| types(&of.sources)).unwrap_or_default();
    let prefix = format!("{instance}.");
    let (sender, mut is_closed) = (waiter.sender(), false);
    let print = move |sent: SentEvent| {
        let port = sent.source.strip_prefix(&prefix).unwrap_or(&sent.source);
        if !is_closed && let Err(error) = io::stdout().write_all(line(&sent, types.get(port)).as_bytes()) {
            is_closed = true;
            // The command may be ending.
            let _ = sender.send(Wake::Output(error));
        }
    };
    let mut replay = file.replay(instance, print).map_err(|problem| failure(&problem))?;
    let (mut pace, mut given, mut wake) = (Pace::new(options.speed), 0, None);
    let mut stops = |wait| {
        wake = wake.take().or_else(|| waiter.wait(Some(wait)));
        wake.is_some()
    };
    let mut replayed = None;
    let mut is_over = false;
    while !is_over && let Some(event) = recording.next() {
        if event.instance != *instance {
            continue;
        }
        let sinks = description.filter(|_| given == 0).map(|of| &of.sinks);
        if let Some(reason) = sinks.and_then(|sinks| differs(&recording, instance, sinks)) {
            return Err(Failure::Message(reason));
        }
        is_over = stops(Duration::ZERO);
        while !is_over && let Some(wait) = pace.wait(event.came_ns) {
            is_over = stops(wait.min(LOOK));
        }
        is_over = is_over || !replay.feed(&event, || stops(Duration::ZERO)).map_err(|problem| failure(&problem))?;
        given += 1;
    }
    if !is_over {
        replayed = replay.finish(|| stops(Duration::ZERO)).map_err(|problem| failure(&problem))?;
    }
    // Of what was sent last, too.
    stops(Duration::ZERO);
    match (wake, replayed) {
        (Some(Wake::Output(error)), _) => Err(error.into()),
        (_, Some(replayed)) => report((options, given), &replayed, &recording),
        (_, None) => Err(Failure::Quiet),
    }
}

/// Says what became of the events.
fn report(
    (options, given): (&DeployReplayOptions, u64),
    replayed: &Replayed,
    recording: &RecordingReader,
) -> Result<(), Failure> {
    let instance = &options.into;
    eprintln!("campanile: {} given to {instance}, {} handled", events(given), replayed.delivered);
    if replayed.failed > 0 {
        eprintln!("campanile: its handlers failed at {}", events(replayed.failed));
    }
    let mut is_whole = given > 0;
    for (count, what) in [
        (replayed.inactive, "came while it was not active"),
        (replayed.unwritten, "that it sent could not be written"),
        (recording.dropped(), "had not been recorded, of all instances"),
    ] {
        if count > 0 {
            is_whole = false;
            eprintln!("campanile: {} {what}", events(count));
        }
    }
    if let Some(reason) = &replayed.reason {
        is_whole = false;
        eprintln!("campanile: {} could not be given; the first: {reason}", events(replayed.unreadable));
    }
    if let Some(damage) = recording.damage() {
        is_whole = false;
        eprintln!("campanile: {damage}: what is before that was given");
    }
    if given == 0 {
        eprintln!("campanile: {} has no event for {instance}", options.file.display());
    }
    if is_whole { Ok(()) } else { Err(Failure::Quiet) }
}

/// Types of sources, by their ports.
fn types(sources: &BTreeMap<String, String>) -> BTreeMap<String, TypeCode> {
    let code = |idl: &String| idl::read(idl).ok()?.last().map(|last| last.code().clone());
    sources.iter().filter_map(|(port, idl)| Some((port.clone(), code(idl)?))).collect()
}

/// A sink whose type is another one now than when it was recorded.
fn differs(recording: &RecordingReader, instance: &str, sinks: &BTreeMap<String, String>) -> Option<String> {
    sinks.iter().find_map(|(port, idl)| {
        let (now, then) = (line_of(idl), recording.sink_type(&format!("{instance}.{port}"))?);
        let differs = now != then;
        differs.then(|| format!("{instance}.{port} took {then} when it was recorded, and takes {now} now: record anew"))
    })
}

fn line_of(idl: &str) -> String {
    idl.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The line of an event that the component sent.
fn line(sent: &SentEvent, of: Option<&TypeCode>) -> String {
    let mut reader = Reader::new(&sent.value, NATIVE);
    let value = of.and_then(|of| Value::read(of, &mut reader, &mut Work::default()).ok());
    let mut text = String::new();
    let begun = json::Object::new(&mut text)
        .member("source", &sent.source)
        .optional("type", of.map(TypeCode::name))
        .member("priority", sent.priority);
    match value {
        Some(value) => begun.written("event", |out| json::value(out, &value)).end(),
        None => begun.hex("cdr", &sent.value).end(),
    }
    text.push('\n');
    text
}

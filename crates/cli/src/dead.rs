//! `campanile dead`: events that consumers never took, which the service stores as dead letters.

use crate::args::{DeadCommand, DeadOptions, DeadRmOptions, DeadSelection, ServerOptions};
use crate::channels;
use crate::failure::Failure;
use crate::moment;
use crate::show::{self, clean};
use crate::statistics::Statistics;
use crate::store::print_json;
use crate::terminal;
use client::{InvokeError, Unmarshal};
use giop::cdr::{ReadError, Reader};
use giop::typecode::Work;
use serde::Serialize;
use std::io::{self, Write as _};

/// Maximum dead letters in one request.
const NAMED_MAX: usize = 256;

/// Dead letter of a consumer.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DeadLetter {
    number: u64,
    pub(crate) channel: u32,
    proxy: u32,
    consumer: String,
    domain: String,
    r#type: String,
    reason: String,
    octets: u64,
    arrived: String,
    since: String,
}

/// Output of `ls --json`.
#[derive(Serialize)]
struct Listed<'l> {
    dead_letters: &'l [DeadLetter],
}

/// Output of `replay --json` and `rm --json`.
#[derive(Default, Serialize)]
struct Done {
    /// Number replayed or removed.
    done: u64,
    /// Number that did not exist any more.
    missing: u64,
    /// Numbers given that no dead letter has.
    unknown: Vec<u64>,
}

/// Act on dead letters.
#[derive(Clone, Copy)]
enum Act {
    Replay,
    Remove,
}

/// Runs one of the sub-commands.
pub(crate) fn run(command: &DeadCommand) -> Result<(), Failure> {
    match command {
        DeadCommand::Ls(options) => list(options),
        DeadCommand::Replay(DeadOptions { server, which, json }) => {
            let (statistics, meant, unknown) = find(server, which)?;
            act(Act::Replay, (&statistics, server), &meant, (unknown, *json))
        }
        DeadCommand::Rm(options) => remove(options),
    }
}

/// The selected dead letters, and the given numbers that no dead letter has.
fn find(server: &ServerOptions, which: &DeadSelection) -> Result<(Statistics, Vec<DeadLetter>, Vec<u64>), Failure> {
    let remote = |error: InvokeError| Failure::remote(&error, server);
    let statistics = Statistics::find(server).map_err(remote)?;
    let channel = channels::unsigned(which.channel.as_ref(), server)?;
    statistics.check_channel(server, channel).map_err(remote)?;
    let mut letters = statistics.dead_letters().map_err(|error| statistics.failure(&error, server))?;
    letters.retain(|letter| {
        channel.is_none_or(|channel| channel == letter.channel)
            && which.consumer.is_none_or(|proxy| proxy == letter.proxy)
            && (which.numbers.is_empty() || which.numbers.contains(&letter.number))
    });
    let is_unknown = |number: &u64| letters.iter().all(|letter| letter.number != *number);
    let unknown = which.numbers.iter().copied().filter(is_unknown).collect();
    Ok((statistics, letters, unknown))
}

fn list(options: &DeadOptions) -> Result<(), Failure> {
    let (_, letters, _) = find(&options.server, &options.which)?;
    if options.json {
        return print_json(&Listed { dead_letters: &letters });
    }
    let lines: String = letters.iter().map(line).collect();
    Ok(io::stdout().write_all(lines.as_bytes())?)
}

fn line(letter: &DeadLetter) -> String {
    let DeadLetter { number, channel, proxy, consumer, domain, r#type, reason, octets, since, .. } = letter;
    let (octets, consumer, name) = (show::bytes(*octets), clean(consumer), clean(&format!("{domain}/{type}")));
    format!("channel {channel} proxy {proxy}  {number}  {name}  {octets}  since {since}  {reason}  {consumer}\n")
}

fn remove(options: &DeadRmOptions) -> Result<(), Failure> {
    if !(options.yes || terminal::can_ask()) {
        return Err(Failure::Usage(
            "there is no terminal to ask on: look at what it concerns with `campanile dead ls`, and say --yes"
                .to_owned(),
        ));
    }
    let (statistics, meant, unknown) = find(&options.server, &options.which)?;
    if !options.yes && !meant.is_empty() {
        let lines: String = meant.iter().map(line).collect();
        io::stdout().write_all(lines.as_bytes())?;
        let what = if meant.len() == 1 { "this event".to_owned() } else { format!("these {} events", meant.len()) };
        if !terminal::is_confirmed(&format!("remove {what}?"))? {
            return Err(Failure::message("nothing was removed"));
        }
    }
    act(Act::Remove, (&statistics, &options.server), &meant, (unknown, options.json))
}

/// Executes the act, channel by channel and in batches, and prints how many were affected.
fn act(
    act: Act,
    (statistics, server): (&Statistics, &ServerOptions),
    meant: &[DeadLetter],
    (unknown, json): (Vec<u64>, bool),
) -> Result<(), Failure> {
    let mut all = Done { unknown, ..Done::default() };
    let mut sorted: Vec<&DeadLetter> = meant.iter().collect();
    sorted.sort_by_key(|letter| (letter.channel, letter.number, letter.proxy));
    for of_channel in sorted.chunk_by(|one, other| one.channel == other.channel) {
        let mut left = of_channel;
        while let Some(first) = left.first() {
            let named = left.get(..NAMED_MAX).unwrap_or(left);
            let done = statistics.act_on_dead_letters(act, first.channel, named);
            let (done, missing) = done.map_err(|error| statistics.failure(&error, server))?;
            all.done += u64::from(done);
            all.missing += u64::from(missing);
            let handled = usize::try_from(u64::from(done) + u64::from(missing)).unwrap_or(usize::MAX);
            if handled == 0 {
                return Err(Failure::message("the service did nothing with what it was to; see its log"));
            }
            left = left.get(handled..).unwrap_or(&[]);
        }
    }
    if json {
        print_json(&all)?;
    } else {
        let what = match act {
            Act::Replay => "replayed",
            Act::Remove => "removed",
        };
        writeln!(io::stdout(), "{what} {} events", show::count(all.done))?;
    }
    for number in &all.unknown {
        eprintln!("campanile: there is no dead letter {number}; `campanile dead ls` shows those that there are");
    }
    if all.unknown.is_empty() { Ok(()) } else { Err(Failure::Quiet) }
}

impl Statistics {
    /// All dead letters of the service, by number and consumer's proxy.
    pub(crate) fn dead_letters(&self) -> Result<Vec<DeadLetter>, InvokeError> {
        let mut all = Vec::new();
        let key = |letter: &DeadLetter| (letter.number, letter.proxy);
        self.read_parts("get_dead_letters", Some((0_u64, 0_u32)), key, &mut all)?;
        Ok(all)
    }

    /// Replays or removes dead letters of a channel. Returns how many of the first ones existed, and how many did not; the rest has to be
    /// named again.
    fn act_on_dead_letters(&self, act: Act, channel: u32, letters: &[&DeadLetter]) -> Result<(u32, u32), InvokeError> {
        let operation = match act {
            Act::Replay => "replay_dead_letters",
            Act::Remove => "remove_dead_letters",
        };
        let named: Vec<(u64, u32)> = letters.iter().map(|letter| (letter.number, letter.proxy)).collect();
        self.object.request(operation, &(channel, named))
    }
}

impl Unmarshal for DeadLetter {
    const BYTES_MIN: usize = 64;

    fn unmarshal(reader: &mut Reader<'_>, _work: &mut Work) -> Result<Self, ReadError> {
        let number = reader.u64()?;
        let (channel, proxy, consumer) = (reader.u32()?, reader.u32()?, reader.text()?);
        let (domain, r#type, reason) = (reader.text()?, reader.text()?, reader.text()?);
        let (octets, arrived, since) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let (arrived, since) = (moment::of_ticks(arrived), moment::of_ticks(since));
        Ok(Self { number, channel, proxy, consumer, domain, r#type, reason, octets, arrived, since })
    }
}

#[cfg(test)]
mod tests {
    use crate::args::Cli;
    use clap::Parser;

    #[test]
    fn what_is_removed_has_to_be_named() {
        for line in ["rm", "rm --yes", "rm --all 3", "rm --all -c 3", "ls x"] {
            let line = format!("campanile dead {line}");
            assert!(Cli::try_parse_from(line.split_whitespace()).is_err(), "{line}");
        }
        for line in ["rm 3", "rm --all", "rm -c 3 --consumer 12 --yes", "replay", "replay 3 4 --json", "ls -c dome"] {
            let line = format!("campanile dead {line}");
            assert!(Cli::try_parse_from(line.split_whitespace()).is_ok(), "{line}");
        }
    }
}

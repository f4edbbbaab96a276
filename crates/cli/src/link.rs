//! `campanile link`: links to other services, as Campanile's object `Statistics` reports them.

use crate::args::{LinkAddOptions, LinkCommand, LinkLsOptions, LinkOptions, LinkRmOptions, ServerOptions};
use crate::color::{self, Tone};
use crate::failure::Failure;
use crate::show::{self, clean};
use crate::statistics::{Statistics, idle};
use crate::store::print_json;
use client::InvokeError;
use corba::near;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::Duration;

client::idl_struct! {
    /// A channel's flow of events over a link, in one direction.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
    struct Link {
        name: String,
        channel: String,
        direction: String,
        peer: String,
        peer_name: String,
        peer_service: u64,
        state: String,
        reason: String,
        subscriptions: String,
        carrier: String,
        since_ms: u64,
        lag_events: u64,
        lag_octets: u64,
        lag_ms: u64,
        in_flight_events: u64,
        in_flight_octets: u64,
        window_octets: u64,
        round_trip_us: u64,
        sent: u64,
        acknowledged: u64,
        received: u64,
        repeats: u64,
        lost: u64,
        rejected: u64,
        loops: u64,
        forgotten: u64,
        dropped: u64,
        origin: String,
    }
}

/// Output of `ls --json`.
#[derive(Serialize)]
struct Listed<'l> {
    links: &'l [Link],
}

/// Runs one of the sub-commands.
pub(crate) fn run(command: &LinkCommand) -> Result<(), Failure> {
    match command {
        LinkCommand::Ls(options) => list(options),
        LinkCommand::Pause(LinkOptions { server, name }) => pause(server, name, true),
        LinkCommand::Resume(LinkOptions { server, name }) => pause(server, name, false),
        LinkCommand::Add(options) => add(options),
        LinkCommand::Rm(options) => remove(options),
    }
}

fn list(LinkLsOptions { server, json }: &LinkLsOptions) -> Result<(), Failure> {
    let statistics = Statistics::find(server).map_err(|error| Failure::remote(&error, server))?;
    let links = statistics.links().map_err(|error| statistics.failure(&error, server))?;
    if *json {
        return print_json(&Listed { links: &links });
    }
    Ok(io::stdout().write_all(text(&links).as_bytes())?)
}

fn pause(server: &ServerOptions, name: &str, paused: bool) -> Result<(), Failure> {
    let statistics = Statistics::find(server).map_err(|error| Failure::remote(&error, server))?;
    let failure = |error: InvokeError| statistics.failure(&error, server);
    find(&statistics, server, name)?;
    let why: String = statistics.object.request("pause_link", &(name, paused)).map_err(failure)?;
    if !why.is_empty() {
        return Err(Failure::Message(format!("link {name:?}: {}", clean(&why))));
    }
    Ok(writeln!(io::stdout(), "{} {}", if paused { "paused" } else { "resumed" }, clean(name))?)
}

/// Fails if there is no link of that name, with a similar one as a hint.
fn find(statistics: &Statistics, server: &ServerOptions, name: &str) -> Result<(), Failure> {
    let links = statistics.links().map_err(|error| statistics.failure(&error, server))?;
    if links.iter().any(|link| link.name == name) {
        return Ok(());
    }
    let near = near::hint(name, links.iter().map(|link| link.name.as_str()));
    let at = &server.server;
    Err(Failure::Message(format!("there is no link {name:?} at {at}{near} (`campanile link ls` lists them)")))
}

fn add(LinkAddOptions { server, link }: &LinkAddOptions) -> Result<(), Failure> {
    let text = toml::to_string(link).map_err(|error| Failure::Message(error.to_string()))?;
    let statistics = Statistics::find(server).map_err(|error| Failure::remote(&error, server))?;
    let added = statistics.object.request("add_link", &(text,));
    let (why, kept): (String, bool) = added.map_err(|error| statistics.failure(&error, server))?;
    if !why.is_empty() {
        return Err(Failure::Message(clean(&why)));
    }
    let until = if kept { "" } else { " until the service's process ends, since it has no store" };
    Ok(writeln!(io::stdout(), "added {}{until}", clean(&link.name))?)
}

fn remove(LinkRmOptions { server, name, drop_backlog }: &LinkRmOptions) -> Result<(), Failure> {
    let statistics = Statistics::find(server).map_err(|error| Failure::remote(&error, server))?;
    let removed = statistics.object.request("remove_link", &(name.as_str(), *drop_backlog));
    let why: String = removed.map_err(|error| statistics.failure(&error, server))?;
    if why.starts_with("there is no link") {
        find(&statistics, server, name)?;
    }
    if !why.is_empty() {
        return Err(Failure::Message(format!("link {name:?}: {}", clean(&why))));
    }
    Ok(writeln!(io::stdout(), "removed {}", clean(name))?)
}

const HEADINGS: [&str; 11] =
    ["NAME", "CHANNEL", "DIRECTION", "PEER", "STATE", "LAG", "OCTETS", "OLDEST", "IN FLIGHT", "WINDOW", "LOST"];
/// Columns with names, aligned left; the column of the state, and that of losses.
const NAMES: [usize; 5] = [0, 1, 2, 3, 4];
const STATE: usize = 4;
const LOST: usize = 10;

/// Text for people: a table, and below each link that is not up the reason.
fn text(links: &[Link]) -> String {
    if links.is_empty() {
        return "There are no links: a configuration has them as [[link]], and `campanile link add` adds one (docs/links.md).\n"
            .to_owned();
    }
    let rows: Vec<[String; 11]> = links.iter().map(Link::row).collect();
    let tone = |row: usize, column: usize| {
        let link = links.get(row)?;
        match column {
            STATE => Some(link.tone()),
            LOST if link.lost > 0 => Some(Tone::Lost),
            _ => None,
        }
    };
    let mut table = String::new();
    show::painted_table(&mut table, (&HEADINGS, true), &NAMES, &rows, tone);
    let mut text = String::new();
    for (nth, line) in table.lines().enumerate() {
        let _ = writeln!(text, "{line}");
        if let Some(link) = nth.checked_sub(1).and_then(|nth| links.get(nth))
            && let Some(why) = link.trouble()
        {
            let _ = writeln!(text, "  {}", color::paint(&why, Some(link.tone())));
        }
        let losses = nth.checked_sub(1).and_then(|nth| links.get(nth)).map(Link::losses).unwrap_or_default();
        if !losses.is_empty() {
            let _ = writeln!(text, "  {}", color::paint(&losses, Some(Tone::Lost)));
        }
    }
    text
}

impl Link {
    fn row(&self) -> [String; 11] {
        let Self { lag_events, lag_octets, lag_ms, in_flight_octets, window_octets, lost, .. } = self;
        let oldest = if *lag_events == 0 { "-".to_owned() } else { show::short_time(Duration::from_millis(*lag_ms)) };
        [
            clean(&self.name),
            clean(&self.channel),
            clean(&self.direction),
            clean(&self.peer),
            clean(&self.state),
            show::count(lag_events),
            show::bytes(*lag_octets),
            oldest,
            show::bytes(*in_flight_octets),
            show::bytes(*window_octets),
            show::count(lost),
        ]
    }

    fn tone(&self) -> Tone {
        match self.state.as_str() {
            "up" => Tone::Well,
            "down" | "refused" => Tone::Lost,
            _ => Tone::Slow,
        }
    }

    /// Losses without a column of their own.
    fn losses(&self) -> String {
        let forgotten = format!("{} events at least acknowledged and then forgotten", show::count(self.forgotten));
        let dropped = format!("{} events dropped, since there was no room for them", show::count(self.dropped));
        let some = [(self.forgotten, forgotten), (self.dropped, dropped)].into_iter().filter(|(count, _)| *count > 0);
        some.map(|(_, text)| text).collect::<Vec<_>>().join("; ")
    }

    /// Why it is not up, and for how long; `None` if it is.
    fn trouble(&self) -> Option<String> {
        let since = idle(Duration::from_millis(self.since_ms));
        match self.reason.as_str() {
            _ if self.state == "up" => None,
            "" => Some(format!("{} for {since}", clean(&self.state))),
            reason => Some(format!("{} for {since}: {}", clean(&self.state), clean(reason))),
        }
    }
}

impl Statistics {
    /// All links of the service, by name, channel and direction.
    fn links(&self) -> Result<Vec<Link>, InvokeError> {
        self.object.request("get_links", &())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser;
    use client::Unmarshal as _;
    use giop::cdr::{Encoding, Endian, Reader, Writer};
    use giop::typecode::Work;

    fn links() -> [Link; 2] {
        let up = Link {
            name: "lab".into(),
            channel: "Weather".into(),
            direction: "out".into(),
            peer: "lab.obs:2813".into(),
            state: "up".into(),
            since_ms: 7_000,
            lag_events: 1_204,
            lag_octets: 98_304,
            lag_ms: 1_250,
            in_flight_octets: 16_000,
            window_octets: 16_384,
            ..Link::default()
        };
        let down = Link {
            direction: "in".into(),
            state: "down".into(),
            reason: "connection refused\u{1b}".into(),
            since_ms: 75_000,
            lost: 3,
            forgotten: 2,
            dropped: 1,
            ..up.clone()
        };
        [up, Link { lag_events: 0, lag_octets: 0, lag_ms: 0, in_flight_octets: 0, ..down }]
    }

    #[test]
    fn a_link_that_is_down_has_the_reason_beneath() {
        let text = text(&links());
        assert_eq!(
            text,
            "NAME  CHANNEL  DIRECTION  PEER          STATE    LAG   OCTETS  OLDEST  IN FLIGHT   WINDOW  LOST\n\
             lab   Weather  out        lab.obs:2813  up     1,204  98.3 kB  1.25 s    16.0 kB  16.4 kB     0\n\
             lab   Weather  in         lab.obs:2813  down       0      0 B       -        0 B  16.4 kB     3\n  \
             down for 1 min: connection refused\\u{1b}\n  \
             2 events at least acknowledged and then forgotten; 1 events dropped, since there was no room for them\n"
        );
        assert_eq!(links().map(|link| link.tone()), [Tone::Well, Tone::Lost]);
        assert!(super::text(&[]).contains("[[link]]"));
    }

    #[test]
    fn a_link_is_read_as_the_idl_has_it() {
        let (mut bytes, encoding) = (Vec::new(), Encoding::new(Endian::NATIVE));
        let mut writer = Writer::new(&mut bytes, encoding);
        ["lab", "Weather", "out", "lab.obs:2813", "Lab"].into_iter().for_each(|text| writer.string(text));
        writer.u64(9);
        ["paused", "by an operator", "everything", "udp"].into_iter().for_each(|text| writer.string(text));
        (1..=17).for_each(|number| writer.u64(number));
        writer.string("added");
        let mut reader = Reader::new(&bytes, encoding);
        let link = Link::unmarshal(&mut reader, &mut Work::default()).unwrap();
        reader.finish("a link").unwrap();
        let Link { peer_service, since_ms, lag_events, window_octets, round_trip_us, sent, lost, loops, .. } = link;
        let numbers = [peer_service, since_ms, lag_events, window_octets, round_trip_us, sent, lost, loops];
        assert_eq!(numbers, [9, 1, 2, 7, 8, 9, 13, 15]);
        let texts = [&*link.peer_name, &*link.reason, &*link.subscriptions, &*link.carrier, &*link.origin];
        assert_eq!(texts, ["Lab", "by an operator", "everything", "udp", "added"]);
        assert!(
            (0..bytes.len()).all(|cut| {
                Link::unmarshal(&mut Reader::new(&bytes[..cut], encoding), &mut Work::default()).is_err()
            })
        );
    }

    #[test]
    fn one_link_is_paused_or_removed_by_its_name_and_one_is_added_with_its_channels() {
        let parses = |line: &str| Cli::try_parse_from(format!("campanile link {line}").split_whitespace()).is_ok();
        let good = [
            "ls",
            "ls --json",
            "pause lab",
            "resume lab -s host",
            "rm lab --drop-backlog",
            "add a --to b:1 --channel C",
        ];
        assert!(good.into_iter().all(parses));
        let wrong = ["pause", "resume", "pause a b", "ls lab", "rm", "add a --to b:1", "add a --channel C"];
        assert!(!wrong.into_iter().any(parses));
    }
}

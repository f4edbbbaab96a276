//! `campanile ls --federation`: the services that have found each other, as Campanile's object `Statistics` reports them.

use crate::args::ServerOptions;
use crate::color::{self, Tone};
use crate::failure::Failure;
use crate::show::{self, clean};
use crate::statistics::Statistics;
use crate::store::print_json;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{self, Write as _};

client::idl_struct! {
    /// A service of the federation.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
    struct Member {
        service: u64,
        name: String,
        is_self: bool,
        address: String,
        state: String,
        reason: String,
        heard_ms: u64,
        channels: Vec<String>,
        linked: Vec<String>,
    }
}

/// Output of `--json`.
#[derive(Serialize)]
struct Listed<'l> {
    services: &'l [Member],
}

pub(crate) fn run(server: &ServerOptions, json: bool) -> Result<(), Failure> {
    let statistics = Statistics::find(server).map_err(|error| Failure::remote(&error, server))?;
    let members: Result<Vec<Member>, _> = statistics.object.request("get_federation", &());
    let members = members.map_err(|error| statistics.failure(&error, server))?;
    if json {
        return print_json(&Listed { services: &members });
    }
    Ok(io::stdout().write_all(text(&members).as_bytes())?)
}

const HEADINGS: [&str; 5] = ["SERVICE", "NAME", "ADDRESS", "STATE", "LINKED"];
const STATE: usize = 3;

/// Text for people: a line for each service, with its channels below, and the reason if it is not linked.
fn text(members: &[Member]) -> String {
    if members.is_empty() {
        return "The service is of no federation: a configuration has that as [federation] (docs/links.md).\n"
            .to_owned();
    }
    let rows: Vec<[String; 5]> = members.iter().map(Member::row).collect();
    let tone = |row: usize, column: usize| {
        let member = members.get(row)?;
        (column == STATE && !member.is_self).then(|| member.tone())
    };
    let mut table = String::new();
    show::painted_table(&mut table, (&HEADINGS, true), &[0, 1, 2, 3], &rows, tone);
    let mut text = String::new();
    for (nth, line) in table.lines().enumerate() {
        let _ = writeln!(text, "{line}");
        let Some(member) = nth.checked_sub(1).and_then(|nth| members.get(nth)) else { continue };
        let channels: Vec<String> = member.channels.iter().map(|name| clean(name)).collect();
        let _ = writeln!(text, "  channels: {}", channels.join(", "));
        // For this service itself, the reason is the announcements that it rejects.
        if member.is_self && !member.reason.is_empty() || !member.is_self && member.state != "up" {
            let _ = writeln!(text, "  {}", color::paint(&clean(&member.reason), Some(member.tone())));
        }
    }
    text
}

impl Member {
    fn row(&self) -> [String; 5] {
        let (state, linked) = if self.is_self {
            ("this one".to_owned(), String::new())
        } else {
            (clean(&self.state), show::count(self.linked.len()))
        };
        [format!("{:016x}", self.service), clean(&self.name), clean(&self.address), state, linked]
    }

    fn tone(&self) -> Tone {
        match self.state.as_str() {
            "up" if self.is_self && !self.reason.is_empty() => Tone::Slow,
            "up" => Tone::Well,
            "down" | "refused" => Tone::Lost,
            _ => Tone::Slow,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_service_is_shown_with_its_channels_and_why_it_is_not_linked() {
        let own = Member {
            service: 7,
            name: "lab".into(),
            is_self: true,
            address: "lab.obs:2816".into(),
            state: "up".into(),
            channels: vec!["Dome".into(), "Weather".into()],
            ..Member::default()
        };
        let up = Member { service: 8, is_self: false, linked: vec!["Weather".into()], ..own.clone() };
        let down = Member {
            service: 0xff,
            state: "down".into(),
            reason: "refused\u{1b}".into(),
            linked: Vec::new(),
            ..up.clone()
        };
        assert_eq!(
            text(&[own, up, down]),
            "SERVICE           NAME  ADDRESS       STATE     LINKED\n\
             0000000000000007  lab   lab.obs:2816  this one\n  channels: Dome, Weather\n\
             0000000000000008  lab   lab.obs:2816  up             1\n  channels: Dome, Weather\n\
             00000000000000ff  lab   lab.obs:2816  down           0\n  channels: Dome, Weather\n  refused\\u{1b}\n"
        );
        assert!(text(&[]).contains("[federation]"));
    }
}

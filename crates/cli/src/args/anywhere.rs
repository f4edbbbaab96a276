//! Options that stand before a command, as `campanile --server HOST ls` has one: they are put behind it, where they are understood.

use clap::{Arg, ArgAction, Command};
use std::ffi::OsString;

/// Arguments with the options that stand before commands behind them. What cannot be understood so is left as it is, for the parser to tell.
pub(crate) fn arrange(program: &Command, arguments: Vec<OsString>) -> Vec<OsString> {
    let arguments = with_json(arguments);
    let Some((name, rest)) = arguments.split_first() else { return arguments };
    let of_all: Vec<&Arg> = program.get_arguments().filter(|arg| arg.is_global_set()).collect();
    match place(program, &of_all, rest, &[]) {
        Some(placed) => std::iter::once(name.clone()).chain(placed).collect(),
        None => arguments,
    }
}

/// `-o json`, as other tools have it, as `--json`. Behind `--` words are no options.
fn with_json(arguments: Vec<OsString>) -> Vec<OsString> {
    let mut all = Vec::with_capacity(arguments.len());
    let mut rest = arguments.into_iter().peekable();
    let mut are_options = true;
    while let Some(word) = rest.next() {
        are_options &= word != "--";
        let is_asked = are_options && (word == "-o" || word == "--output");
        if is_asked && rest.next_if(|value| value == "json").is_some() || are_options && word == "-ojson" {
            all.push("--json".into());
        } else {
            all.push(word);
        }
    }
    all
}

/// `carried`: options that stand before the command.
fn place(command: &Command, of_all: &[&Arg], rest: &[OsString], carried: &[OsString]) -> Option<Vec<OsString>> {
    if !command.has_subcommands() {
        return are_options_of(command, of_all, carried).then(|| [carried, rest].concat());
    }
    for (at, word) in rest.iter().enumerate() {
        if word == "--" {
            return None;
        }
        let (before, from) = rest.split_at(at);
        let Some(found) = word.to_str().and_then(|word| command.find_subcommand(word)) else { continue };
        let carried = [carried, before].concat();
        if let Some(placed) = place(found, of_all, from.get(1..).unwrap_or_default(), &carried) {
            return Some(std::iter::once(word.clone()).chain(placed).collect());
        }
    }
    None
}

/// Whether words are options that a command or all have, each with its value.
fn are_options_of(command: &Command, of_all: &[&Arg], words: &[OsString]) -> bool {
    let arguments = || command.get_arguments().chain(of_all.iter().copied());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(word) = word.to_str() else { return false };
        let (found, has_value) = match word.strip_prefix("--") {
            Some(long) => {
                let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
                (arguments().find(|arg| has_long(arg, name)), value.is_some())
            }
            None => {
                let Some(short) = word.strip_prefix('-').and_then(|word| word.chars().next()) else { return false };
                let is_longer = word.len() > 1 + short.len_utf8();
                (arguments().find(|arg| arg.get_short() == Some(short)), is_longer)
            }
        };
        let Some(found) = found else { return false };
        let takes_value = matches!(found.get_action(), ArgAction::Set | ArgAction::Append);
        if takes_value && !has_value && words.next().is_none() {
            return false;
        }
    }
    true
}

fn has_long(arg: &Arg, name: &str) -> bool {
    arg.get_long() == Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::CommandFactory;

    #[test]
    fn options_before_a_command_are_put_behind_it() {
        for (line, arranged) in [
            ("campanile --server h:1 ls", "campanile ls --server h:1"),
            ("campanile -s h:1 --timeout=3 channel create X", "campanile channel create -s h:1 --timeout=3 X"),
            ("campanile channel --server h:1 create X", "campanile channel create --server h:1 X"),
            ("campanile --json -s pub sub -n 1", "campanile sub --json -s pub -n 1"),
            ("campanile -s h:1 pub -- -x=1", "campanile pub -s h:1 -- -x=1"),
            ("campanile -o json ls", "campanile ls --json"),
            ("campanile --client-name x pub --name y a=1", "campanile pub --client-name x --name y a=1"),
            ("campanile --color never -s h:1 ls", "campanile ls --color never -s h:1"),
            ("campanile top -o json --output json -ojson", "campanile top --json --json --json"),
            ("campanile pub -o yaml -- -o json", "campanile pub -o yaml -- -o json"),
            // Nothing to do, or nothing that can be done.
            ("campanile ls --server h:1", "campanile ls --server h:1"),
            ("campanile --help ls", "campanile --help ls"),
            ("campanile --server ls", "campanile --server ls"),
            ("campanile --fly ls", "campanile --fly ls"),
            ("campanile -- ls", "campanile -- ls"),
            ("campanile", "campanile"),
            ("campanile pub sub=1", "campanile pub sub=1"),
        ] {
            let words = line.split(' ').map(OsString::from).collect();
            let placed: Vec<String> =
                arrange(&Cli::command(), words).into_iter().map(|word| word.into_string().unwrap()).collect();
            assert_eq!(placed.join(" "), arranged);
        }
    }
}

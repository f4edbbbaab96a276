//! Completion of names known only to a service or in the user's settings: channels, event types and contexts.
//!
//! The scripts of `campanile completions` first call [`COMMAND`] with the words of the command line up to the cursor, and complete the rest
//! themselves. It answers within [`PATIENCE`], or nothing. The parser does not know this command, as it would complete it.

use crate::args::{Cli, Command, SubOptions};
use crate::failure::Failure;
use crate::ls;
use crate::{channels, show, subscribe, types};
use campanile::settings::{Contexts, contexts_file};
use clap::{Arg, ArgAction, Parser as _};
use client::{Orb, SimpleConsumer};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum time for a completion at a terminal, and the part of it for listening to events, to learn their types.
const PATIENCE: Duration = Duration::from_millis(1_500);
const LISTENED: Duration = Duration::from_millis(300);
/// Maximum event types and channels offered.
const OFFERED_MAX: usize = 1_000;

/// Command that returns completions for the words behind it.
pub(crate) const COMMAND: &str = "__complete";

/// Kind of value at a place of a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Channel,
    EventType,
    Context,
}

/// Prints the possible completions of the last word, a line each.
pub(crate) fn run(words: &[OsString]) -> Result<(), Failure> {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let words = joined(&words);
    let program = crate::args::program();
    let Some((kind, begun)) = kind_at(&program, &words) else { return Ok(()) };
    let (tell, told) = mpsc::channel();
    let before = words.clone();
    // The thread ends with the process.
    let _asking = thread::Builder::new().name("completion".to_owned()).spawn(move || {
        let _ = tell.send(names(kind, &before).unwrap_or_default());
    })?;
    let found = told.recv_timeout(PATIENCE).unwrap_or_default();
    let fits = |name: &&String| name.starts_with(begun) && show::clean(name) == **name;
    let lines: String = found.iter().filter(fits).take(OFFERED_MAX).map(|name| format!("{name}\n")).collect();
    Ok(io::stdout().write_all(lines.as_bytes())?)
}

/// Joins words that a shell, such as bash, has split at `:` and `=`.
fn joined(words: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut is_open = false;
    for word in words {
        let is_joint = !word.is_empty() && word.chars().all(|letter| matches!(letter, ':' | '='));
        match all.last_mut() {
            Some(last) if is_joint || is_open => last.push_str(word),
            _ => all.push(word.clone()),
        }
        is_open = is_joint;
    }
    all
}

/// Kind of the last word, and the part of it that is typed.
fn kind_at<'w>(program: &clap::Command, words: &'w [String]) -> Option<(Kind, &'w str)> {
    let (last, before) = words.split_last()?;
    let (mut command, mut places, mut awaits, mut are_options) = (program, 0, None, true);
    for word in before {
        if awaits.take().is_some() {
            continue;
        }
        if are_options && word.starts_with('-') {
            are_options = word != "--";
            awaits = option_with_value([command, program], word);
        } else if let Some(found) = command.find_subcommand(word) {
            (command, places) = (found, 0);
        } else {
            places += 1;
        }
    }
    let last = last.trim_start_matches(['\'', '"']);
    if let Some(option) = awaits {
        return Some((kind_of(option)?, last));
    }
    if are_options && last.starts_with('-') {
        let (option, begun) = last.split_once('=')?;
        return Some((kind_of(option_with_value([command, program], option)?)?, begun));
    }
    let positionals: Vec<&Arg> = command.get_positionals().collect();
    let place = positionals.get(places).or_else(|| {
        // The last one may take several.
        positionals.last().filter(|arg| matches!(arg.get_action(), ArgAction::Append))
    })?;
    Some((kind_of(place)?, last))
}

/// The option that a word names in these commands, if the next word is its value.
fn option_with_value<'c>(of: [&'c clap::Command; 2], word: &str) -> Option<&'c Arg> {
    let mut options = of.into_iter().flat_map(clap::Command::get_arguments);
    let found = match word.strip_prefix("--") {
        Some(name) => options.find(|arg| arg.get_long() == Some(name)),
        None => options.find(|arg| arg.get_short().is_some_and(|short| word == format!("-{short}"))),
    };
    found.filter(|arg| matches!(arg.get_action(), ArgAction::Set | ArgAction::Append))
}

/// Kind of an argument's value, by its name in the help.
pub(crate) fn kind_of(arg: &Arg) -> Option<Kind> {
    let names = arg.get_value_names()?.iter().flat_map(|name| name.split('|'));
    names.into_iter().find_map(|name| match name {
        "CHANNEL" => Some(Kind::Channel),
        "DOMAIN/NAME" => Some(Kind::EventType),
        "CONTEXT" => Some(Kind::Context),
        _ => None,
    })
}

/// Names of a kind. `None` if no service answers, or the words before are invalid.
fn names(kind: Kind, words: &[String]) -> Option<BTreeSet<String>> {
    if kind == Kind::Context {
        return Some(Contexts::load(&contexts_file().ok()?).ok()?.contexts.into_keys().collect());
    }
    let options = options_of(words)?;
    match kind {
        Kind::Channel => {
            let service = Orb::new(ls::orb_options(&options.server)).resolve_service(&options.server.server).ok()?;
            let address = service.connect().ok()?;
            Some(channels::Names::read(service.orb(), &service, &address).all().map(str::to_owned).collect())
        }
        _ => event_types(options),
    }
}

/// Options for the service and the channel in the words before, as `sub` parses them.
fn options_of(words: &[String]) -> Option<SubOptions> {
    const TAKEN: [&str; 6] = ["--server", "--context", "--channel", "--tls-ca", "--tls-certificate", "--tls-key"];
    let mut line = ["campanile", "sub", "--timeout", "1", "--last-of-each-type"].map(str::to_owned).to_vec();
    let mut words = words.iter().take(words.len().saturating_sub(1));
    while let Some(word) = words.next() {
        let (option, value) =
            word.split_once('=').map_or((word.as_str(), None), |(option, value)| (option, Some(value)));
        if TAKEN.contains(&option) || matches!(option, "-s" | "-c") {
            // The value of the last option is what is to be completed.
            let Some(value) = value.or_else(|| words.next().map(String::as_str)) else { break };
            line.extend([option.to_owned(), value.to_owned()]);
        }
    }
    match Cli::try_parse_from(line).ok()?.command {
        Command::Sub(options) => Some(options),
        _ => None,
    }
}

/// Event types that are offered or subscribed to, those of the last stored events, and those of events that arrive meanwhile.
fn event_types(mut options: SubOptions) -> Option<BTreeSet<String>> {
    let channel = channels::number(options.selection.channel.as_ref(), &options.server).ok()?;
    let declared = types::declared(&options.server, channel).ok()?;
    let named = |domain: &str, name: &str| {
        let is_pattern = domain.contains('*') || name.contains('*');
        (!is_pattern).then(|| show::type_name(domain, name))
    };
    let mut found: BTreeSet<String> = declared.iter().filter_map(|of| named(&of.domain, &of.name)).collect();
    let listened = listen(&options, channel).or_else(|| {
        // The channel has no history.
        options.selection.history.last_of_each_type = false;
        listen(&options, channel)
    });
    if let Some((consumer, told)) = listened {
        let began = Instant::now();
        while let Ok((domain, name)) = told.recv_timeout(LISTENED.saturating_sub(began.elapsed())) {
            found.extend(named(&domain, &name));
        }
        let _ = consumer.close();
    }
    Some(found)
}

/// Subscribes to events, and sends their types to the receiver.
fn listen(options: &SubOptions, channel: Option<i32>) -> Option<(SimpleConsumer, Receiver<(String, String)>)> {
    let (tell, told) = mpsc::sync_channel(OFFERED_MAX);
    let settings = subscribe::consumer_options(&options.server, &options.selection);
    let consumer = SimpleConsumer::connect(&options.server.server, channel, settings, move |received| {
        let event = received.event()?;
        // A type that finds no receiver is not needed any more.
        let _ = tell.try_send((event.domain, event.type_name));
        Ok(())
    });
    consumer.ok().map(|consumer| (consumer, told))
}

/// Completion script of a shell, which calls [`COMMAND`] for names known to a service.
pub(crate) fn script(shell: clap_complete::Shell) -> Vec<u8> {
    // Into memory first: the generator panics if its output is closed.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut crate::args::program(), "campanile", &mut script);
    let text = String::from_utf8_lossy(&script);
    let text = match shell {
        clap_complete::Shell::Bash => text.replace("complete -F _campanile ", "complete -F _campanile_first ") + BASH,
        clap_complete::Shell::Zsh => text.replacen("\n_campanile() {", &format!("\n{ZSH}\n_campanile_static() {{"), 1),
        clap_complete::Shell::Fish => fish(&text),
        _ => return script,
    };
    text.into_bytes()
}

const BASH: &str = r#"
_campanile_first() {
    local name found=()
    while IFS= read -r name; do
        found+=("$(printf %q "$name")")
    done < <("$1" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if ((${#found[@]})); then
        COMPREPLY=("${found[@]}")
    else
        _campanile "$@"
    fi
}
"#;

const ZSH: &str = r#"_campanile() {
    local found="$("${words[1]}" __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)"
    if [[ -n $found ]]; then
        compset -P '--*='
        compadd -- "${(@f)found}"
    else
        _campanile_static "$@"
    fi
}
"#;

const FISH: &str = r#"function __campanile_values
    set -l words (commandline -opc)
    set -l begun (commandline -ct)
    command $words[1] __complete $words[2..] "$begun" 2>/dev/null
end
complete -c campanile -a "(__campanile_values)"
"#;

/// Adapts completions for fish, which needs only the part behind the option.
fn fish(text: &str) -> String {
    let mut longs = BTreeSet::new();
    let program = crate::args::program();
    let mut commands = vec![&program];
    while let Some(command) = commands.pop() {
        commands.extend(command.get_subcommands());
        longs.extend(command.get_arguments().filter(|arg| kind_of(arg).is_some()).filter_map(Arg::get_long));
    }
    let asks = |text: String, long: &&str| {
        text.replace(&format!(" -l {long} "), &format!(" -l {long} -f -a \"(__campanile_values)\" "))
    };
    FISH.to_owned() + &longs.iter().fold(text.to_owned(), asks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_completed_follows_from_the_words_before() {
        use Kind::{Channel, Context, EventType};
        for (line, expected) in [
            ("ls --channel We", Some((Channel, "We"))),
            ("ls -c ", Some((Channel, ""))),
            ("ls --channel=We", Some((Channel, "We"))),
            ("-s h:1 --context lab channel rm A We", Some((Channel, "We"))),
            ("channel set We", Some((Channel, "We"))),
            ("channel set Weather We", None),
            ("channel create We", None),
            ("info 'We", Some((Channel, "We"))),
            ("replay We", Some((Channel, "We"))),
            ("sub Wea", Some((EventType, "Wea"))),
            ("echo -n 3 A/B Wea", Some((EventType, "Wea"))),
            ("pub Wea", Some((EventType, "Wea"))),
            ("sub -t Wea", Some((EventType, "Wea"))),
            ("sub -n 3 --where sub", None),
            ("sub --where x -- Wea", Some((EventType, "Wea"))),
            ("context use la", Some((Context, "la"))),
            ("context rm la", Some((Context, "la"))),
            ("context add la", None),
            ("ls --context ", Some((Context, ""))),
            ("channel --color never rm We", Some((Channel, "We"))),
            ("ls --chan", None),
            ("chan", None),
            ("", None),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(kind_at(&crate::args::program(), &words), expected, "{line}");
        }
    }

    #[test]
    fn words_that_a_shell_broke_are_joined() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (broken, whole) in [
            ("-s 127.0.0.1 : 2809 ls -c We", "-s 127.0.0.1:2809 ls -c We"),
            ("ls -s corbaloc :: h : 1/K --channel = We", "ls -s corbaloc::h:1/K --channel=We"),
            ("ls --channel =", "ls --channel="),
            ("ls -c ", "ls -c "),
        ] {
            assert_eq!(joined(&words(broken)), words(whole));
        }
    }

    #[test]
    fn each_shell_asks_for_what_only_a_service_knows() {
        for shell in [clap_complete::Shell::Bash, clap_complete::Shell::Zsh, clap_complete::Shell::Fish] {
            let script = String::from_utf8(script(shell)).unwrap();
            assert!(script.contains(" __complete "), "{shell}: {script}");
        }
        let script = String::from_utf8(script(clap_complete::Shell::Zsh)).unwrap();
        assert_eq!(script.matches("\n_campanile() {").count(), 1);
        assert_eq!(script.matches("\n_campanile_static() {").count(), 1);
        assert!(fish(" -s c -l channel -d x").contains(" -l channel -f -a \"(__campanile_values)\" -d x"));
    }
}

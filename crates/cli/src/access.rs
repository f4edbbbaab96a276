//! `campanile access`: explains the access rules of a configuration.

use crate::args::{AccessCheckOptions, AccessCommand, AccessLsOptions, WhichRight};
use crate::failure::Failure;
use access::{Channel, Grant, Part, Right, RuleNumber, Rules, Who, Why};
use serde::Serialize;
use service::Config;
use std::io::{self, Write};
use std::path::Path;

/// Runs one of the sub-commands.
pub(crate) fn run(command: &AccessCommand) -> Result<(), Failure> {
    match command {
        AccessCommand::Check(options) => check(options),
        AccessCommand::Ls(options) => ls(options),
    }
}

fn rules_of(path: &Path) -> Result<(Config, Option<Rules>), Failure> {
    let config = Config::read(path).map_err(|error| Failure::Usage(error.to_string()))?;
    let rules = config.access_rules().map_err(|error| Failure::Usage(error.to_string()))?;
    Ok((config, rules))
}

fn print(text: &str) -> Result<(), Failure> {
    Ok(io::stdout().write_all(text.as_bytes())?)
}

fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(Failure::message)?;
    print(&(text + "\n"))
}

/// Output of `check --json`.
#[derive(Serialize)]
struct Checked {
    allowed: bool,
    /// Whether the right holds for some event types only, if none was given.
    some_event_types: bool,
    /// Number of the deciding rule; `None` if there are no rules, none applies, or several decide about different event types.
    rule: Option<u32>,
    /// Parts, if several rules decide: an event type belongs to the first part that has it.
    parts: Vec<CheckedPart>,
    text: String,
}

/// Event types decided by one rule.
#[derive(Serialize)]
struct CheckedPart {
    /// The event types; `None` for all that are in no earlier part.
    types: Option<Vec<String>>,
    allowed: bool,
    /// Number of the rule; `None` if no rule applies.
    rule: Option<u32>,
}

impl CheckedPart {
    fn of(part: Part<'_>) -> Self {
        let text = |of: &engine::EventType| format!("{}/{}", of.domain, of.name);
        let types = part.types.map(|types| types.iter().map(text).collect());
        Self { types, allowed: part.allowed, rule: number_of(part.rule) }
    }
}

fn check(options: &AccessCheckOptions) -> Result<(), Failure> {
    let (_, rules) = rules_of(&options.config)?;
    let mut certified = accounts::CertifiedName { subject: String::new(), sans: Vec::new() };
    let who = Who::parse(&options.who, &mut certified).map_err(|error| Failure::Usage(format!("WHO: {error}")))?;
    let right = match options.what {
        WhichRight::Publish => Right::Publish,
        WhichRight::Subscribe => Right::Subscribe,
        WhichRight::Administer => Right::Administer,
    };
    let channel = channel_of(options)?;
    let of = options.event_type.as_deref().map(|text| {
        let no_type = || Failure::Usage(format!("TYPE: \"{text}\" is no event type: it is DOMAIN/NAME"));
        text.split_once('/').ok_or_else(no_type)
    });
    let of = of.transpose()?;
    let checked = match &rules {
        None => Checked {
            allowed: true,
            some_event_types: false,
            rule: None,
            parts: Vec::new(),
            text: "allowed: there are no rules of access, and everything is".to_owned(),
        },
        Some(rules) => checked(rules, &rules.grant(&who, right, channel), of),
    };
    if options.json {
        print_json(&checked)?;
    } else {
        print(&format!("{who}, {right} on {channel}: {}\n", checked.text))?;
    }
    if checked.allowed { Ok(()) } else { Err(Failure::Quiet) }
}

fn channel_of(options: &AccessCheckOptions) -> Result<Channel<'_>, Failure> {
    let AccessCheckOptions { channel, name, .. } = options;
    let name = name.as_deref();
    if channel == "*" {
        return Ok(Channel { id: None, name });
    }
    if !channel.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(Channel { id: None, name: Some(channel) });
    }
    let id = channel.parse().map_err(|_| Failure::Usage(format!("CHANNEL: there is no channel {channel}")))?;
    Ok(Channel { id: Some(engine::ChannelId(id)), name })
}

fn checked(rules: &Rules, grant: &Grant, of: Option<(&str, &str)>) -> Checked {
    let of = of.map(|(domain, name)| (domain.as_bytes(), name.as_bytes()));
    let why = grant.scope().why(of);
    let verdict = |allowed| if allowed { "allowed" } else { "denied" };
    match why {
        Why::Rule(rule) => {
            let allowed = of.map_or(grant.is_any(), |(domain, name)| grant.decide(domain, name).allowed);
            let text = format!("{} by {}", verdict(allowed), described(rules, rule));
            Checked { allowed, some_event_types: false, rule: number_of(rule), parts: Vec::new(), text }
        }
        Why::Parts(scope) => {
            let reach = match grant {
                Grant::All(_) => "allowed for all event types",
                Grant::Some(_) => "allowed for some event types",
                Grant::Nothing(_) => "denied for all event types",
            };
            let parts: Vec<CheckedPart> = scope.parts().map(CheckedPart::of).collect();
            let line = |part: &CheckedPart| {
                let types = part.types.as_ref().map_or_else(|| "all others".to_owned(), |types| types.join(", "));
                let rule = described(rules, RuleNumber(part.rule.unwrap_or_default()));
                format!("\n  {types}: {} by {rule}", verdict(part.allowed))
            };
            let lines: String = parts.iter().map(line).collect();
            let text = format!("{reach}; in this order decide:{lines}");
            let some_event_types = matches!(grant, Grant::Some(_));
            Checked { allowed: grant.is_any(), some_event_types, rule: None, parts, text }
        }
    }
}

fn number_of(rule: RuleNumber) -> Option<u32> {
    (rule != RuleNumber::NONE).then_some(rule.0)
}

fn described(rules: &Rules, rule: RuleNumber) -> String {
    if rule == RuleNumber::NONE {
        return "no rule: what none speaks of is denied".to_owned();
    }
    format!("{}: {}", rules.title(rule), rules.text(rule))
}

/// Output of `ls --json`.
#[derive(Serialize)]
struct Listed {
    rules: Vec<String>,
    tokens: Vec<String>,
    #[serde(rename = "remarks")]
    warnings: Vec<String>,
}

fn ls(options: &AccessLsOptions) -> Result<(), Failure> {
    let (config, rules) = rules_of(&options.config)?;
    let text = |rules: &Rules| rules.numbers().map(|number| rules.text(number)).collect();
    let unreadable =
        config.read_tokens().err().map(|error| format!("{error}; `campanile serve` does not start without it"));
    let listed = Listed {
        rules: rules.as_ref().map(text).unwrap_or_default(),
        tokens: config.tokens.keys().cloned().collect(),
        warnings: config.access_warnings().into_iter().chain(unreadable).collect(),
    };
    if options.json {
        return print_json(&listed);
    }
    let mut shown = match &rules {
        None => "there are no rules of access: every client that reaches the service may do everything\n".to_owned(),
        Some(rules) => rules.numbers().map(|number| format!("{}\n", described(rules, number))).collect(),
    };
    if rules.is_some() {
        shown.push_str("what none speaks of is denied\n");
    }
    listed.warnings.iter().for_each(|warning| shown.push_str(&format!("warning: {warning}\n")));
    print(&shown)
}

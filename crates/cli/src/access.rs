//! `campanile access`: what the rules of a configuration say.

use crate::args::{AccessCheckOptions, AccessCommand, AccessLsOptions, WhichRight};
use crate::failure::Failure;
use access::{Channel, Decision, Grant, Right, RuleNumber, Rules, Who};
use serde::Serialize;
use service::Config;
use std::io::{self, Write};
use std::path::Path;

/// Asks, or shows.
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

/// What `check --json` says.
#[derive(Serialize)]
struct Checked {
    allowed: bool,
    /// For some event types only, where none was asked about.
    some_event_types: bool,
    /// The number of the rule that decides; none where there are no rules, or none speaks.
    rule: Option<u32>,
    text: String,
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
    let decision = match (of, grant) {
        (Some((domain, name)), _) => grant.decide(domain.as_bytes(), name.as_bytes()),
        (None, _) => Decision { allowed: grant.is_any(), rule: grant.rule() },
    };
    let verdict = if decision.allowed { "allowed" } else { "denied" };
    let some_event_types = of.is_none() && matches!(grant, Grant::Some(_));
    let text = match grant {
        Grant::Some(scope) if some_event_types => {
            let lines = scope.rules().iter().map(|rule| format!("\n  {}", described(rules, *rule)));
            format!("allowed for some event types; in this order decide:{}", lines.collect::<String>())
        }
        _ => format!("{verdict} by {}", described(rules, decision.rule)),
    };
    let rule = (decision.rule != RuleNumber::NONE && !some_event_types).then_some(decision.rule.0);
    Checked { allowed: decision.allowed, some_event_types, rule, text }
}

fn described(rules: &Rules, rule: RuleNumber) -> String {
    if rule == RuleNumber::NONE {
        return "no rule: what none speaks of is denied".to_owned();
    }
    format!("{}: {}", rules.title(rule), rules.text(rule))
}

/// What `ls --json` says.
#[derive(Serialize)]
struct Listed {
    rules: Vec<String>,
    tokens: Vec<String>,
    remarks: Vec<String>,
}

fn ls(options: &AccessLsOptions) -> Result<(), Failure> {
    let (config, rules) = rules_of(&options.config)?;
    let text = |rules: &Rules| rules.numbers().map(|number| rules.text(number)).collect();
    let listed = Listed {
        rules: rules.as_ref().map(text).unwrap_or_default(),
        tokens: config.tokens.keys().cloned().collect(),
        remarks: config.access_remarks(),
    };
    if options.json {
        return print_json(&listed);
    }
    let mut shown = match &rules {
        None => "there are no rules of access: whoever reaches the service may do everything\n".to_owned(),
        Some(rules) => rules.numbers().map(|number| format!("{}\n", described(rules, number))).collect(),
    };
    if rules.is_some() {
        shown.push_str("what none speaks of is denied\n");
    }
    listed.remarks.iter().for_each(|remark| shown.push_str(&format!("warning: {remark}\n")));
    print(&shown)
}

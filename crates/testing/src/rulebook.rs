//! An oracle for rules of access, which follows docs/security.md rule by rule, and rulebooks to test with.
//!
//! Independent of the code under test: a rule is as in the configuration file, a principal is what a client shows.

use core::net::IpAddr;

/// A rule as in the configuration. Empty lists are not written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are the keys of `[[access]]`")]
pub struct Rule {
    pub who: Vec<String>,
    pub may: Vec<String>,
    pub on: Vec<String>,
    pub types: Vec<String>,
    pub allow: bool,
}

/// A client, by everything that it shows on its protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Principal {
    /// The client's address.
    pub address: Option<IpAddr>,
    /// Its certificate's subject as RFC 4514 writes it, and its alternative names with their kinds.
    pub certificate: Option<(String, Vec<String>)>,
    /// The name of its token.
    pub token: Option<String>,
    /// The protocol, if the principal is the protocol itself.
    pub protocol: Option<String>,
}

/// A channel by number and name, where it has them. Rights on the whole service have neither.
pub type Channel<'a> = (Option<u32>, Option<&'a str>);

/// Rules in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rulebook(pub Vec<Rule>);

impl Rulebook {
    /// Whether a client may do something with events of a type, and the number of the deciding rule, from 1; 0 if no rule applies.
    ///
    /// # Panics
    /// A rule has an invalid event type.
    #[must_use]
    pub fn decide(&self, who: &Principal, right: &str, on: Channel<'_>, (domain, name): (&str, &str)) -> (bool, usize) {
        let is_of = |pattern: &String| {
            let (of_domain, of_name) = pattern.split_once('/').expect("a type is DOMAIN/NAME");
            matches(of_domain, domain) && matches(of_name, name)
        };
        for (rule, number) in self.0.iter().zip(1..) {
            if rule.speaks_of(who, right, on) && (rule.types.is_empty() || rule.types.iter().any(is_of)) {
                return (rule.allow, number);
            }
        }
        (false, 0)
    }

    /// The deciding rules, in order: each with the event types to which no earlier rule applies, the last for all others.
    #[must_use]
    pub fn parts(&self, who: &Principal, right: &str, on: Channel<'_>) -> Vec<(usize, bool)> {
        let mut parts = Vec::new();
        for (rule, number) in self.0.iter().zip(1..).filter(|(rule, _)| rule.speaks_of(who, right, on)) {
            parts.push((number, rule.allow));
            if rule.types.is_empty() {
                return parts;
            }
        }
        parts.push((0, false));
        parts
    }

    /// Whether a client may do something at all, even if only with events of some types.
    #[must_use]
    pub fn lets_in(&self, who: &Principal, right: &str, on: Channel<'_>) -> bool {
        self.parts(who, right, on).iter().any(|(_, allowed)| *allowed)
    }

    /// The rules in the format of the configuration file.
    #[must_use]
    pub fn text(&self) -> String {
        let rule = |Rule { who, may, on, types, allow }: &Rule| {
            let list =
                |key, list: &[String]| if list.is_empty() { String::new() } else { format!("{key} = {list:?}\n") };
            let lists = [list("who", who), list("may", may), list("on", on), list("types", types)].concat();
            format!("[[access]]\n{lists}allow = {allow}\n")
        };
        self.0.iter().map(rule).collect()
    }
}

impl Rule {
    /// Whether the rule applies to a client, a right and a channel, for some event types at least.
    fn speaks_of(&self, who: &Principal, right: &str, (number, name): Channel<'_>) -> bool {
        let is_it = |pattern: &String| {
            if pattern.bytes().all(|byte| byte.is_ascii_digit()) {
                return number.is_some_and(|number| number.to_string() == *pattern);
            }
            pattern == "*" || name.is_some_and(|name| matches(pattern, name))
        };
        self.may.iter().any(|may| may == right)
            && (self.on.is_empty() || self.on.iter().any(is_it))
            && self.who.iter().any(|pattern| who.is(pattern))
    }
}

impl Principal {
    /// A client from that address without credentials.
    ///
    /// # Panics
    /// `address` is not an address.
    #[must_use]
    pub fn from(address: &str) -> Self {
        Self { address: Some(address.parse().expect("an address")), ..Self::default() }
    }

    /// Whether an entry of `who` matches the client.
    fn is(&self, pattern: &str) -> bool {
        match pattern.split_once(':') {
            _ if pattern == "*" => true,
            _ if pattern == "anonymous" => {
                self.certificate.is_none() && self.token.is_none() && self.protocol.is_none()
            }
            Some(("certificate", pattern)) => {
                self.certificate.as_ref().is_some_and(|shown| is_certified(shown, pattern))
            }
            Some(("token", pattern)) => self.token.as_ref().is_some_and(|name| matches(pattern, name)),
            Some(("door", name)) => self.protocol.as_deref() == Some(name),
            _ => self.address.is_some_and(|address| is_in(address, pattern)),
        }
    }
}

/// Whether a certificate matches a pattern: an alternative name if the pattern begins with its kind, else the subject.
fn is_certified((subject, others): &(String, Vec<String>), pattern: &str) -> bool {
    let kinds = ["dns", "uri", "ip", "email"];
    let (kind, wanted) = pattern.split_once(':').unwrap_or(("", pattern));
    if kinds.contains(&kind.to_lowercase().as_str()) {
        let lower = |text: &str| if kind.to_lowercase() == "dns" { text.to_lowercase() } else { text.to_owned() };
        return others.iter().any(|name| {
            let (other, name) = name.split_once(':').unwrap_or(("", name));
            other.to_lowercase() == kind.to_lowercase() && matches(&lower(wanted), &lower(name))
        });
    }
    pattern == "*" || matches(&in_lines(pattern), &in_lines(subject))
}

/// A distinguished name with two lines for each attribute: type and value.
fn in_lines(name: &str) -> String {
    let (mut lines, mut rest, mut in_type) = (String::new(), name.chars(), true);
    while let Some(char) = rest.next() {
        match char {
            '\\' => lines.extend([char].into_iter().chain(rest.next())),
            ',' | '+' => {
                lines.extend(['\n', char, '\n']);
                in_type = true;
            }
            '=' if in_type => {
                lines.push_str("=\n");
                in_type = false;
            }
            other => lines.push(other),
        }
    }
    lines
}

/// Whether a text matches a pattern, in which stars stand for anything.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, behind)) => text
            .strip_prefix(before)
            .is_some_and(|rest| (0..=rest.len()).filter_map(|at| rest.get(at..)).any(|rest| matches(behind, rest))),
    }
}

/// Whether an address equals another, or is in a range, compared bit by bit.
fn is_in(address: IpAddr, range: &str) -> bool {
    let bits = |address: IpAddr| -> String {
        match address {
            IpAddr::V4(address) => address.octets().iter().map(|octet| format!("{octet:08b}")).collect(),
            IpAddr::V6(address) => address.octets().iter().map(|octet| format!("{octet:08b}")).collect(),
        }
    };
    let (base, prefix) = range.split_once('/').unwrap_or((range, "128"));
    let (base, address) = (bits(base.parse().expect("an address")), bits(address));
    let prefix = prefix.parse::<usize>().expect("a number of bits").min(base.len());
    base.len() == address.len() && base.get(..prefix) == address.get(..prefix)
}

// ---- what all protocols are tried with ----

/// The rights, by their names in rules.
pub const RIGHTS: [&str; 3] = ["publish", "subscribe", "administer"];

/// Channels by their numbers; the default one has no name.
pub const CHANNELS: [Option<&str>; 5] = [None, Some("Weather"), Some("Radar-1"), Some("Radar-2"), Some("Secret")];

/// The published event types, each with a different name.
pub const TYPES: [(&str, &str); 4] = [("Weather", "Wind"), ("Weather", "SecretPlan"), ("Sea", "Tide"), ("", "Salt")];

/// Address of the client that prepares the tests and sees the results: the first rule of all rulebooks admits it.
pub const OPERATOR: &str = "127.0.0.9";
/// Address of a client that rules name.
pub const NEIGHBOUR: &str = "127.0.0.2";
/// Address of a client that rules cover only by ranges.
pub const STRANGER: &str = "127.0.0.5";
/// The name of a token; its holder comes from 127.0.0.1. The token itself is [`SECRET`].
pub const TOKEN: &str = "sensor";
/// The token of the name [`TOKEN`].
pub const SECRET: &str = "the secret of the sensor";
/// The SHA-256 of [`SECRET`], as in the configuration.
pub const SECRET_SHA256: &str = "f69de43c2e7a53c2a1a6b44d9842ad12edccd94751b26f606ff95b6e88f65c54";
/// The common name in a certificate with the other name [`HOST`]; its holder comes from 127.0.0.1.
pub const CERTIFIED: &str = "plant 7";
/// The alternative name of [`CERTIFIED`].
pub const HOST: &str = "plant7.example";

/// The four clients with all their credentials. Credentials that a protocol cannot carry are left out there.
#[must_use]
pub fn clients() -> [(&'static str, Principal); 4] {
    let certificate = (format!("CN={CERTIFIED},O=Tests"), vec![format!("DNS:{HOST}"), "DNS:localhost".to_owned()]);
    [
        ("the neighbour", Principal::from(NEIGHBOUR)),
        ("the token's holder", Principal { token: Some(TOKEN.to_owned()), ..Principal::from("127.0.0.1") }),
        ("the certified one", Principal { certificate: Some(certificate), ..Principal::from("127.0.0.1") }),
        ("the stranger", Principal::from(STRANGER)),
    ]
}

/// The bridge to DDS.
#[must_use]
pub fn bridge() -> Principal {
    Principal { protocol: Some("dds".to_owned()), ..Principal::default() }
}

/// The rulebooks that each test runs: those of [`fixed`], and random ones, with names for failures.
pub fn rulebooks() -> impl Iterator<Item = (String, Rulebook)> {
    let drawn = (1..=5).map(|seed| (format!("the rules of seed {seed}"), drawn(seed)));
    [("the fixed rules".to_owned(), fixed())].into_iter().chain(drawn)
}

/// The rest of a configuration file, put behind a rulebook's text: the channels and the token.
#[must_use]
pub fn surroundings() -> String {
    let channels = CHANNELS.iter().flatten().map(|name| format!("[[channels]]\nname = {name:?}\n"));
    format!("{}[tokens]\n{TOKEN} = \"sha256:{SECRET_SHA256}\"\n", channels.collect::<String>())
}

fn rule(who: &[&str], may: &[&str], on: &[&str], types: &[&str], allow: bool) -> Rule {
    let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect();
    Rule { who: list(who), may: list(may), on: list(on), types: list(types), allow }
}

fn with_operator(rules: Vec<Rule>) -> Rulebook {
    Rulebook([vec![rule(&[OPERATOR], &RIGHTS, &[], &[], true)], rules].concat())
}

/// Rules of every kind, where the order matters.
#[must_use]
pub fn fixed() -> Rulebook {
    with_operator(vec![
        rule(&["*"], &["publish", "subscribe"], &["Secret"], &[], false),
        rule(&["*"], &["publish", "subscribe"], &["Radar-*"], &["*/Secret*"], false),
        rule(&["127.0.0.2/31", "door:dds"], &["publish"], &["Weather", "Radar-*"], &[], true),
        rule(&["token:sensor"], &["publish", "administer"], &["0", "3"], &[], true),
        rule(&["anonymous"], &["subscribe"], &["Weather"], &["Weather/*", "*/Salt"], true),
        rule(&["certificate:CN=plant*"], &["subscribe", "administer"], &["*ar-*"], &[], true),
        rule(&["certificate:DNS:*.example"], &["publish"], &["0"], &["Sea/Tide"], true),
        rule(&["127.0.0.4/30"], &["administer"], &["2"], &[], true),
        rule(&["door:dds", "token:*", "10.0.0.0/8"], &["subscribe"], &["Weather", "2"], &[], true),
    ])
}

const WHO: [&str; 13] = [
    "*",
    "anonymous",
    "127.0.0.2",
    "127.0.0.0/29",
    "127.0.0.4/30",
    "10.0.0.0/8",
    "certificate:CN=plant 7,O=Tests",
    "certificate:CN=plant*",
    "certificate:dns:*.example",
    "token:s*",
    "token:other",
    "door:dds",
    "door:dds",
];
const ON: [&str; 9] = ["*", "0", "1", "2", "4", "Weather", "Radar-*", "*a*", "Secret"];
const OF: [&str; 7] = ["Weather/*", "*/Secret*", "Sea/Tide", "*/Wind", "S*/T*", "*/Salt", "*/*a*"];

/// Random rules. A client with any right has it for one of [`TYPES`], so that the test sees an effect.
///
/// # Panics
/// No such rules are found.
#[must_use]
pub fn drawn(seed: u64) -> Rulebook {
    let mut random = fastrand::Rng::with_seed(seed);
    let shows = |book: &Rulebook| {
        let all = clients().map(|(_, who)| who).into_iter().chain([bridge()]).flat_map(|who| {
            let bare = Principal { certificate: None, token: None, ..who.clone() };
            [who, bare]
        });
        all.into_iter().all(|who| {
            (0..).zip(CHANNELS).all(|(number, name)| {
                let on = (Some(number), name);
                let some = |right| TYPES.iter().any(|of| book.decide(&who, right, on, *of).0);
                ["publish", "subscribe"].iter().all(|right| some(right) || !book.lets_in(&who, right, on))
            })
        })
    };
    let books = (0..1_000).map(|_| random_rules(&mut random));
    books.map(with_operator).find(shows).expect("rules with something to see")
}

fn random_rules(random: &mut fastrand::Rng) -> Vec<Rule> {
    let count = random.usize(5..10);
    let one = |_| {
        let mut some = |from: &[&str], counts: core::ops::Range<usize>| -> Vec<String> {
            let count = random.usize(counts);
            random.choose_multiple(from.iter(), count).into_iter().map(|item| (*item).to_owned()).collect()
        };
        let (who, on, types) = (some(&WHO, 1..4), some(&ON, 0..3), some(&OF, 0..3));
        let typed = !types.is_empty() && random.bool();
        let (rights, types) = if typed { (&RIGHTS[..2], types) } else { (&RIGHTS[..], Vec::new()) };
        let count = random.usize(1..=rights.len());
        let may = random.choose_multiple(rights.iter(), count).into_iter().map(|right| (*right).to_owned()).collect();
        Rule { who, may, on, types, allow: random.u8(0..3) > 0 }
    };
    (0..count).map(one).collect()
}

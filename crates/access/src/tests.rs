use super::*;
use accounts::{Accounts, Ceilings, CertifiedName};
use std::sync::Arc;
use testing::rulebook::{self, Principal, Rulebook};

fn rule(who: &[&str], may: &[&str], on: &[&str], types: &[&str], allow: bool) -> RuleText {
    let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect();
    RuleText { name: None, who: list(who), may: list(may), on: list(on), types: list(types), allow }
}

fn rules(texts: &[RuleText]) -> Rules {
    Rules::parse(texts).unwrap().unwrap()
}

fn from(address: &str) -> Who<'_> {
    Who { address: Some(address.parse().unwrap()), ..Who::default() }
}

const WEATHER: Channel<'_> = Channel { id: Some(ChannelId(7)), name: Some("Weather") };

#[test]
fn the_first_rule_that_speaks_decides_and_where_none_does_the_answer_is_no() {
    let rules = rules(&[
        rule(&["10.1.0.0/16"], &["publish"], &["*"], &[], false),
        rule(&["10.0.0.0/8"], &["publish", "subscribe"], &["Weather"], &[], true),
        rule(&["*"], &["subscribe"], &["7"], &[], true),
    ]);
    let decide = |address, right| rules.decide(&from(address), right, WEATHER, (b"", b""));
    let says = |allowed, rule| Decision { allowed, rule: RuleNumber(rule) };
    assert_eq!(decide("10.1.2.3", Right::Publish), says(false, 1));
    assert_eq!(decide("10.2.2.3", Right::Publish), says(true, 2));
    assert_eq!(decide("10.1.2.3", Right::Subscribe), says(true, 2));
    assert_eq!(decide("192.168.1.1", Right::Subscribe), says(true, 3));
    assert_eq!(decide("192.168.1.1", Right::Publish), says(false, 0));
    assert_eq!(decide("10.2.2.3", Right::Administer), says(false, 0));
    assert_eq!(Rules::parse(&[]), Ok(None), "no rules are no rules");
}

#[test]
fn what_depends_on_the_event_type_is_said_once_for_all_of_them() {
    let rules = rules(&[
        rule(&["*"], &["publish"], &["*"], &["Weather/Secret*"], false),
        rule(&["10.0.0.1"], &["publish"], &["*"], &[], true),
        rule(&["*"], &["publish"], &["*"], &["Weather/*"], true),
    ]);
    let Grant::Some(scope) = rules.grant(&from("10.0.0.1"), Right::Publish, WEATHER) else { panic!() };
    assert_eq!(scope.rules(), [RuleNumber(1), RuleNumber(2)]);
    assert!(!scope.decide(b"Weather", b"SecretWind").allowed && scope.decide(b"Other", b"Wind").allowed);
    let Grant::Some(scope) = rules.grant(&from("10.0.0.2"), Right::Publish, WEATHER) else { panic!() };
    assert_eq!(scope.decide(b"Weather", b"Wind"), Decision { allowed: true, rule: RuleNumber(3) });
    assert_eq!(scope.decide(b"Other", b"Wind"), Decision { allowed: false, rule: RuleNumber(0) });
    let Grant::Nothing(scope) = rules.grant(&from("10.0.0.2"), Right::Subscribe, WEATHER) else { panic!() };
    assert_eq!((scope.rules(), scope.why(None)), (&[RuleNumber::NONE][..], Why::Rule(RuleNumber::NONE)));
}

/// Of a client that may nothing, the first rule was named, whatever it spoke of: here one on secrets, while none allows the others.
#[test]
fn a_denial_names_the_rule_that_decides_of_the_event_type_and_else_all_of_them() {
    let rules = rules(&[
        RuleText { name: Some("no secrets".into()), ..rule(&["*"], &["publish"], &["*"], &["*/Secret*"], false) },
        rule(&["*"], &["publish"], &["7"], &["Sea/*"], false),
        rule(&["10.0.0.2"], &["publish"], &["*"], &[], false),
    ]);
    let grant = |who| rules.grant(&from(who), Right::Publish, WEATHER);
    let why = |grant: &Grant, of: Option<(&str, &str)>| {
        let of = of.map(|(domain, name)| (domain.as_bytes(), name.as_bytes()));
        rules.denial(grant.scope().why(of))
    };
    let first = "access rule 1 \"no secrets\" decides (* may not publish on *, event types */Secret*)";
    let second = "access rule 2 decides (* may not publish on 7, event types Sea/*)";
    let (one, other) = (grant("10.0.0.1"), grant("10.0.0.2"));
    assert!(!one.is_any() && !other.is_any());
    for grant in [&one, &other] {
        assert_eq!(why(grant, Some(("Sea", "Secret"))), first);
        assert_eq!(why(grant, Some(("Sea", "Salt"))), second);
    }
    assert_eq!(why(&one, Some(("Air", "Wind"))), "no access rule allows it");
    assert_eq!(why(&other, Some(("Air", "Wind"))), "access rule 3 decides (10.0.0.2 may not publish on *)");
    let third = "of all other event types access rule 3 decides (10.0.0.2 may not publish on *)";
    assert_eq!(why(&one, None), format!("{first}; {second}; no access rule allows any other event type"));
    assert_eq!(why(&other, None), format!("{first}; {second}; {third}"));
}

#[test]
fn a_denial_by_very_many_rules_names_some_of_them() {
    let of = |at: usize| rule(&["*"], &["publish"], &["*"], &[&format!("A/{at}")], false);
    for count in [8, 9, RULES_MAX] {
        let rules = rules(&(0..count).map(of).collect::<Vec<_>>());
        let text = rules.denial(rules.grant(&from("10.0.0.1"), Right::Publish, WEATHER).scope().why(None));
        assert_eq!(text.matches("decides (").count(), 8);
        assert!(text.ends_with("; no access rule allows any other event type"), "{text}");
        let left_out = format!("; {} more rules decide of other event types;", count - 8);
        assert_eq!(text.contains(&left_out), count > 8, "{text}");
    }
}

#[test]
fn a_client_is_known_by_its_whole_address_certificate_and_token() {
    let account = Accounts::new(Ceilings::new(75)).account_of("2001:db8::7".parse().unwrap());
    let matches = |pattern: &str| pattern.parse::<WhoPattern>().unwrap().matches(&Who::of(&account));
    assert!(matches("*") && matches("anonymous") && matches("2001:db8::7") && matches("2001:db8::/32"));
    assert!(!matches("2001:db8::8") && !matches("certificate:*") && !matches("token:*") && !matches("door:dds"));
    let name = CertifiedName { subject: "CN=console,O=Example".into(), sans: vec!["DNS:console.example".into()] };
    assert!(account.identity().certify(Arc::new(name)));
    for pattern in [
        "certificate:CN=console,O=Example",
        "certificate:CN=console,*",
        "certificate:dns:*.example",
        "certificate:DNS:*",
        "certificate:*",
    ] {
        assert!(matches(pattern), "{pattern}");
    }
    assert!(!matches("anonymous") && !matches("certificate:CN=console") && !matches("certificate:CN=consol,*"));
    assert!(account.identity().show_token("sensor".into()) && !account.identity().show_token("other".into()));
    assert!(matches("token:sensor") && matches("token:s*") && !matches("token:other"));
}

#[test]
fn no_client_writes_another_name_into_its_own() {
    for (subject, is_admin) in [
        ("CN=admin,O=x", true),
        ("O=x,CN=admin", true),
        ("O=x+CN=admin", true),
        ("O=x\\,CN=admin", false),
        ("O=x\\+CN=admin,CN=guest", false),
        ("O=x\\\\,CN=admin", true),
        ("O=CN=admin", false),
    ] {
        let name = CertifiedName { subject: subject.into(), sans: vec![] };
        let who = Who { certified: Some(&name), ..Who::default() };
        let matches = |pattern: &str| pattern.parse::<WhoPattern>().unwrap().matches(&who);
        let patterns = ["CN=admin,*", "*,CN=admin", "*+CN=admin"].map(|pattern| format!("certificate:{pattern}"));
        assert_eq!(patterns.iter().any(|pattern| matches(pattern)), is_admin, "{subject}");
    }
}

/// A rule for `certificate:CN=console,*` let in any client that had a certificate with the alternative name `URI:CN=console,O=x`: a pattern
/// was held against each name of whatever kind, with its kind and without. And a star reached over an escaped comma, so that the common
/// name `x,O=Example` passed for an organisation.
#[test]
fn a_name_of_one_kind_does_not_pass_for_one_of_another() {
    let matches = |pattern: &str, (subject, sans): (&str, &[&str])| {
        let name = CertifiedName { subject: subject.into(), sans: sans.iter().map(|san| (*san).to_owned()).collect() };
        let who = Who { certified: Some(&name), ..Who::default() };
        format!("certificate:{pattern}").parse::<WhoPattern>().unwrap().matches(&who)
    };
    // Each value as a name of each kind: only the pattern for that kind finds it, with a star and without.
    let value = "CN=console";
    let of_kind = [("dns", "DNS"), ("uri", "URI"), ("ip", "IP"), ("email", "email")];
    for (at, (_, prefix)) in of_kind.iter().enumerate() {
        let san = format!("{prefix}:{value},O=x");
        let certificate = ("", &[san.as_str()][..]);
        for (other, (kind, _)) in of_kind.iter().enumerate() {
            for pattern in [format!("{kind}:{value},O=x"), format!("{kind}:{value}*"), format!("{kind}:*")] {
                assert_eq!(matches(&pattern, certificate), at == other, "{pattern} {san}");
            }
        }
        for pattern in ["CN=console,*", "CN=console,O=x", "*CN=*", &format!("*{san}")] {
            let is_kind = pattern.contains(':') && pattern.starts_with(prefix);
            assert_eq!(matches(pattern, certificate), is_kind, "{pattern} {san}");
        }
    }
    assert!(!matches("dns:console", ("CN=dns:console", &[])) && !matches("dns:*", ("DNS=x,CN=DNS:x", &[])));
    assert!(!matches("*,O=Example", ("CN=x\\,O=Example", &[])) && matches("*,O=Example", ("CN=x,O=Example", &[])));
    assert!(!matches("*O=Example", ("CN=O=Example", &[])) && matches("*O=Example", ("O=Example", &[])));
    assert!(matches("CN=a\\,b,*", ("CN=a\\,b,O=x", &[])) && !matches("CN=a,*", ("CN=a\\,b,O=x", &[])));
    assert!(matches("dns:PLANT.example", ("", &["DNS:plant.Example"])), "a host name has no large letters");
    assert!(matches("*", ("", &[])), "whatever a certificate says, it is one");
    // What names neither an attribute nor a kind would be held against nothing: it is no pattern, so that no denial is lost in silence.
    for wrong in ["console", "plant *", "dns:", "host:a", "a\\=b", ""] {
        let error = format!("certificate:{wrong}").parse::<WhoPattern>().unwrap_err().to_string();
        assert!(error.contains("has attributes (\"CN=plant 7,*\"), or says its kind: \"dns:NAME\""), "{error}");
    }
}

#[test]
fn a_pattern_covers_another_of_its_kind_only() {
    let covers = |wide: &str, narrow: &str| {
        let [wide, narrow] = [wide, narrow].map(|text| format!("certificate:{text}").parse::<WhoPattern>().unwrap());
        wide.covers(&narrow)
    };
    assert!(covers("*", "dns:a") && covers("*", "CN=a") && covers("CN=*", "CN=a*") && covers("DNS:*.A", "dns:b.a"));
    assert!(
        !covers("dns:*", "*") && !covers("dns:*", "uri:a") && !covers("CN=*", "dns:CN=a") && !covers("uri:A", "uri:a")
    );
}

#[test]
fn an_operator_names_a_client_in_the_words_of_rules() {
    for (text, shown) in [
        ("10.0.0.1", "10.0.0.1"),
        ("10.0.0.1,token:t", "10.0.0.1, token:t"),
        ("token:t, certificate:CN=a,O=b", "certificate:CN=a,O=b, token:t"),
        ("certificate:console", "certificate:CN=console"),
        ("token:t,certificate:dns:a.example", "certificate:DNS:a.example, token:t"),
        ("door:dds", "door:dds"),
        ("anonymous", "anonymous"),
    ] {
        let mut name = CertifiedName { subject: String::new(), sans: vec![] };
        assert_eq!(Who::parse(text, &mut name).unwrap().to_string(), shown, "{text}");
    }
    let mut name = CertifiedName { subject: String::new(), sans: vec![] };
    assert_eq!(Who::parse("10.0.0.1,nobody", &mut name), Err(BadWho("nobody".into())));
}

#[test]
fn an_address_in_the_clothes_of_ipv6_is_the_ipv4_address_that_it_is() {
    for (range, address, is_in) in [
        ("10.0.0.0/8", "::ffff:10.1.2.3", true),
        ("::ffff:10.0.0.0/104", "10.1.2.3", true),
        ("::ffff:10.0.0.1", "10.0.0.1", true),
        ("::/0", "10.0.0.1", false),
        ("0.0.0.0/0", "::1", false),
        ("10.0.0.0/0", "255.255.255.255", true),
        ("fe80::/10", "fe80::1", true),
        ("fe80::/10", "febf::1", true),
        ("fe80::/10", "fec0::1", false),
        ("169.254.0.0/16", "169.255.0.0", false),
    ] {
        assert_eq!(range.parse::<AddressRange>().unwrap().has(address.parse().unwrap()), is_in, "{range} {address}");
    }
    for wrong in ["10.0.0.0/33", "10.0.0.0/-1", "10.0.0/8", "::/129", "::ffff:0:0/95", "host", "", "10.0.0.0/", "/8"] {
        assert_eq!(wrong.parse::<AddressRange>(), Err(()), "{wrong}");
    }
    for text in ["10.0.0.0/8", "10.0.0.1", "2001:db8::/32", "::1", "0.0.0.0/0"] {
        assert_eq!(text.parse::<AddressRange>().unwrap().to_string(), text);
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_the_number_of_its_rule() {
    let good = rule(&["*"], &["publish"], &[], &[], true);
    for (wrong, why) in [
        (rule(&["nobody"], &["publish"], &[], &[], true), "\"nobody\" names no client"),
        (rule(&["certificate:"], &["publish"], &[], &[], true), "names no client"),
        (rule(&[], &["publish"], &[], &[], true), "needs clients (`who`)"),
        (rule(&["*"], &[], &[], &[], true), "needs clients (`who`)"),
        (rule(&["*"], &["read"], &[], &[], true), "no right \"read\""),
        (rule(&["*"], &["publish"], &[""], &[], true), "no channel"),
        (rule(&["*"], &["publish"], &["4294967296"], &[], true), "no channel"),
        (rule(&["*"], &["publish"], &[], &["Wind"], true), "no event type"),
        // It was every domain.
        (rule(&["*"], &["publish"], &[], &["/*"], true), "write * for any domain"),
        (rule(&["*"], &["publish"], &[], &["Weather/"], true), "write * for any domain"),
        (rule(&["*"], &["administer"], &[], &["A/B"], true), "say nothing of the right to administer"),
        (rule(&["*"; LIST_MAX + 1], &["publish"], &[], &[], true), "256 entries"),
    ] {
        let bad = Rules::parse(&[good.clone(), wrong]).unwrap_err();
        assert_eq!(bad.rule, RuleNumber(2));
        assert!(bad.to_string().contains(why), "{bad}");
    }
    assert!(Rules::parse(&vec![good; RULES_MAX + 1]).is_err());
}

#[test]
fn rules_that_can_never_decide_are_reported_with_those_before_them() {
    let warnings = |texts: &[RuleText]| rules(texts).warnings();
    let allow = |who, on, types| rule(who, &["publish"], on, types, true);
    assert_eq!(warnings(&[allow(&["10.0.0.1"], &["*"], &[]), allow(&["10.0.0.0/8"], &["*"], &[])]), [""; 0]);
    let covered = warnings(&[allow(&["10.0.0.0/8"], &["*"], &[]), allow(&["10.0.0.1"], &["Weather"], &["A/B"])]);
    assert!(
        covered[0].contains("access rule 2 (10.0.0.1 may publish on Weather, event types A/B) never decides"),
        "{covered:?}"
    );
    assert!(covered[0].ends_with("access rule 1 speaks of all that it speaks of"), "{covered:?}");
    let denial = RuleText { name: Some("no wind".into()), allow: false, ..allow(&["10.0.0.1"], &["7"], &["W/*"]) };
    let contradicting = warnings(&[allow(&["*"], &["7"], &["W*/*"]), denial]);
    assert!(contradicting[0].contains("access rule 2 \"no wind\""), "{contradicting:?}");
    assert!(contradicting[0].contains("contradicts what comes first"), "{contradicting:?}");
    let by_two = warnings(&[
        allow(&["*"], &["a*"], &[]),
        allow(&["*"], &["b*"], &[]),
        allow(&["token:x"], &["abc", "bcd"], &[]),
    ]);
    assert!(by_two[0].contains("access rule 1 and access rule 2 speak"), "{by_two:?}");
    let many: Vec<String> = (0..200).map(|at| format!("10.0.0.{at}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let large = allow(&many, &many, &[]);
    assert_eq!(warnings(&[allow(&["10.0.0.0/8"], &["*"], &[]), large]).len(), 1, "one rule covers 40,000 combinations");
}

#[test]
fn a_token_is_found_by_what_it_is_and_only_whole() {
    let mut tokens = Tokens::default();
    tokens.add("first", b" 0123456789abcdef\n").unwrap();
    tokens.add_hash("second", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad").unwrap();
    let find = |token: &[u8]| tokens.find(token).map(AsRef::as_ref);
    assert_eq!((find(b"0123456789abcdef"), find(b"abc")), (Some("first"), Some("second")));
    assert_eq!((find(b"0123456789abcde"), find(b"0123456789abcdef "), find(b"")), (None, None, None));
    assert_eq!(Tokens::default().find(b"abc"), None);
    assert!(tokens.add("short", b"abc").is_err() && tokens.add("long", &[b'x'; 1_025]).is_err());
    for wrong in ["", "ba78", &"+1".repeat(32), &"zz".repeat(32), &"é".repeat(32)] {
        assert!(tokens.add_hash("wrong", wrong).is_err(), "{wrong}");
    }
}

// ---- what rules say, in the words of the documentation, tried one by one ----

/// The same rules for the judge, which knows nothing of this crate.
fn judge_of(texts: &[RuleText]) -> Rulebook {
    let rule = |RuleText { who, may, on, types, allow, .. }: &RuleText| rulebook::Rule {
        who: who.clone(),
        may: may.clone(),
        on: on.clone(),
        types: types.clone(),
        allow: *allow,
    };
    Rulebook(texts.iter().map(rule).collect())
}

fn principal_of(who: &Who<'_>) -> Principal {
    Principal {
        address: who.address,
        certificate: who.certified.map(|certified| (certified.subject.clone(), certified.sans.clone())),
        token: who.token.map(str::to_owned),
        protocol: who.protocol.map(str::to_owned),
    }
}

const WHO: [&str; 14] = [
    "*",
    "anonymous",
    "10.0.0.1",
    "10.0.0.0/8",
    "10.0.0.2/31",
    "::/0",
    "2001:db8::/33",
    "certificate:email:c",
    "certificate:CN=*",
    "certificate:dns:*.org",
    "token:a",
    "token:*",
    "door:dds",
    "0.0.0.0/0",
];
const ON: [&str; 8] = ["*", "0", "1", "2", "Weather", "W*", "*er", "Radar"];
const TYPES: [&str; 7] = ["A/x", "A/*", "*/x", "B*/*", "*/y*", "A/xy", "C/*z*"];

fn random_rules(random: &mut fastrand::Rng) -> Vec<RuleText> {
    let mut some = |from: &[&str], least: usize| -> Vec<String> {
        (0..random.usize(least..4)).map(|_| from[random.usize(0..from.len())].to_owned()).collect()
    };
    let mut all = Vec::new();
    for at in 0..9 {
        let (who, mut may, on, types) =
            (some(&WHO, 1), some(&["publish", "subscribe", "administer"], 1), some(&ON, 0), some(&TYPES, 0));
        if !types.is_empty() {
            may = vec![["publish", "subscribe"][at % 2].into()];
        }
        all.push(RuleText { name: None, who, may, on, types, allow: at % 3 != 1 });
    }
    all.truncate(random.usize(1..9));
    all
}

#[test]
fn random_rules_say_what_they_say_tried_one_by_one() {
    let certified = [
        CertifiedName { subject: "CN=console,O=Example".into(), sans: vec![] },
        CertifiedName { subject: "O=Example".into(), sans: vec!["DNS:a.example.org".into(), "email:c".into()] },
    ];
    let addresses = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "11.0.0.1", "::1", "2001:db8:8000::1", "2001:db8::1"];
    let (mut refused_by_type, mut refused_in_parts) = (0, 0);
    for seed in 0..3_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let texts = random_rules(&mut random);
        let rules = rules(&texts);
        let (silent, judge) = (rules.warnings(), judge_of(&texts));
        for _ in 0..40 {
            let who = Who {
                address: random.bool().then(|| addresses[random.usize(0..addresses.len())].parse().unwrap()),
                certified: if random.u8(0..3) == 0 { Some(&certified[random.usize(0..2)]) } else { None },
                token: if random.u8(0..3) == 0 { Some(["a", "b"][random.usize(0..2)]) } else { None },
                protocol: if random.u8(0..5) == 0 { Some("dds") } else { None },
                // A name decides nothing.
                name: random.bool().then_some("a"),
            };
            let right = Right::ALL[random.usize(0..3)];
            let name = [None, Some("Weather"), Some("Radar"), Some("Water")][random.usize(0..4)];
            let channel = Channel { id: [None, Some(ChannelId(0)), Some(ChannelId(1))][random.usize(0..3)], name };
            let of = (["A", "B", "BB", "C"][random.usize(0..4)], ["x", "y", "xy", "yzy", ""][random.usize(0..5)]);
            let (principal, on) = (principal_of(&who), (channel.id.map(|id| id.0), name));
            let (allowed, rule) = judge.decide(&principal, right.name(), on, of);
            let decision = rules.decide(&who, right, channel, (of.0.as_bytes(), of.1.as_bytes()));
            assert_eq!(decision.allowed, allowed, "seed {seed}: {who} {right} {channel} {of:?}: {texts:#?}");
            let grant = rules.grant(&who, right, channel);
            assert_eq!(decision.rule.0 as usize, rule, "seed {seed}: {who} {right} {channel} {of:?}: {texts:#?}");
            assert_eq!(grant.decide(of.0.as_bytes(), of.1.as_bytes()), decision);
            refused_by_type += usize::from(!allowed && matches!(grant, Grant::Some(_)));
            refused_in_parts += usize::from(!grant.is_any() && grant.scope().rules().len() > 1);
            let parts = judge.parts(&principal, right.name(), on);
            let told: Vec<_> = grant.scope().parts().map(|part| (part.rule.0 as usize, part.allowed)).collect();
            assert_eq!(told, parts, "seed {seed}: {who} {right} {channel}: {texts:#?}");
            match grant {
                Grant::All(_) => assert!(parts.iter().all(|(_, allowed)| *allowed), "seed {seed}"),
                Grant::Nothing(_) => assert!(!parts.iter().any(|(_, allowed)| *allowed), "seed {seed}"),
                Grant::Some(_) => {}
            }
            if allowed {
                assert!(grant.is_any() && rules.knows(&who, channel) && rules.knows_any(&who), "seed {seed}");
            }
            // A rule that is said never to decide does not.
            let title = format!("{} (", rules.title(RuleNumber(u32::try_from(rule).unwrap())));
            assert!(!silent.iter().any(|warning| warning.starts_with(&title)), "seed {seed}: {title}");
        }
    }
    assert!(refused_by_type > 100 && refused_in_parts > 100, "not all alike: {refused_by_type} {refused_in_parts}");
}

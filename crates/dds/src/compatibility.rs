//! Detection of writers and readers that do not match: by which policy, and what to do.
//!
//! DDS ignores mismatches silently, or counts them without a name. Here each discovered endpoint is compared with the local ones (by the
//! rules of DDS 1.4, 2.2.3, and of XTypes 1.3, 7.6.3), and differences are stored by topic, endpoint and policy.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::participant::{Conflict, Endpoint, Guid, Role, Topic};
use crate::qos::Qos;
use crate::raw::RawPolicies;

/// Maximum number of listed incompatibilities.
const OPEN_MAX: usize = 256;
/// Maximum number of further endpoints, stored only with the policies by which they do not match.
const UNLISTED_MAX: usize = 8192;
/// Maximum number of topics and policies counted by name.
const TOTALS_MAX: usize = 128;
/// Maximum number of lines logged in a second.
const LINES_MAX: u32 = 16;
/// Maximum number of characters shown of a type.
const TYPE_SHOWN: usize = 240;

/// A policy by which a writer and a reader of a topic may not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Policy {
    /// Reliable or best effort.
    Reliability,
    /// Samples for late joiners.
    Durability,
    /// Coherent sets of changes.
    Presentation,
    /// Longest time between two samples.
    Deadline,
    /// Acceptable delay of a sample.
    LatencyBudget,
    /// Whether several writers may write.
    Ownership,
    /// The way a writer shows that it is alive, and how often.
    Liveliness,
    /// The clock that orders samples.
    DestinationOrder,
    /// XCDR1 or XCDR2.
    DataRepresentation,
    /// Partitions: one endpoint has none and the other some.
    Partition,
    /// The topic's type.
    Type,
}

impl Policy {
    /// Its name in logs, metrics and troubles.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reliability => "reliability",
            Self::Durability => "durability",
            Self::Presentation => "presentation",
            Self::Deadline => "deadline",
            Self::LatencyBudget => "latency_budget",
            Self::Ownership => "ownership",
            Self::Liveliness => "liveliness",
            Self::DestinationOrder => "destination_order",
            Self::DataRepresentation => "data_representation",
            Self::Partition => "partition",
            Self::Type => "type",
        }
    }
}

/// A policy with the writer's offer and the reader's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The policy.
    pub policy: Policy,
    /// The writer's value.
    pub offered: String,
    /// The reader's value.
    pub requested: String,
}

impl Difference {
    /// All policies, the type excepted, by which a remote endpoint does not match a local writer or reader of that quality of service.
    /// `None` if they are in disjoint named partitions, which is intended; a difference if only one side is in the unnamed partition.
    #[must_use]
    pub fn all(ours: &Qos, theirs: &Endpoint) -> Option<Vec<Self>> {
        if !meet(&ours.partitions, &theirs.partitions) {
            let is_default = |partitions: &[String]| partitions.iter().all(String::is_empty);
            if is_default(&ours.partitions) == is_default(&theirs.partitions) {
                return None;
            }
            return Some(vec![Self::of(
                Policy::Partition,
                theirs.role,
                listed(&theirs.partitions),
                listed(&ours.partitions),
            )]);
        }
        let ours = ours.policies();
        Some(match theirs.role {
            Role::Writer => compared(&theirs.policies, &ours),
            Role::Reader => compared(&ours, &theirs.policies),
        })
    }

    /// The difference of two types.
    #[must_use]
    pub fn of_types(conflict: &Conflict) -> Self {
        let short =
            |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(TYPE_SHOWN).collect();
        Self::of(Policy::Type, conflict.endpoint.role, short(&conflict.theirs), short(&conflict.ours))
    }

    fn of(policy: Policy, their_role: Role, theirs: String, ours: String) -> Self {
        let (offered, requested) = if their_role == Role::Writer { (theirs, ours) } else { (ours, theirs) };
        Self { policy, offered, requested }
    }
}

/// The policies by which a writer does not match a reader.
fn compared(writer: &RawPolicies, reader: &RawPolicies) -> Vec<Difference> {
    let mut all = Vec::new();
    let mut add = |differs: bool, policy, [offered, requested]: [String; 2]| {
        if differs {
            all.push(Difference { policy, offered, requested });
        }
    };
    let both = |show: &dyn Fn(&RawPolicies) -> String| [show(writer), show(reader)];
    add(
        reader.reliability > writer.reliability,
        Policy::Reliability,
        both(&|of| word(&["best effort", "reliable"], of.reliability)),
    );
    let durabilities = ["volatile", "transient local", "transient", "persistent"];
    add(reader.durability > writer.durability, Policy::Durability, both(&|of| word(&durabilities, of.durability)));
    let parts = |of: i32| [of >> 2, of >> 1 & 1, of & 1];
    let is_less = parts(writer.presentation).iter().zip(parts(reader.presentation)).any(|(has, wants)| *has < wants);
    add(is_less, Policy::Presentation, both(&|of| presented(parts(of.presentation))));
    add(reader.deadline < writer.deadline, Policy::Deadline, both(&|of| duration(of.deadline)));
    add(reader.latency_budget < writer.latency_budget, Policy::LatencyBudget, both(&|of| duration(of.latency_budget)));
    add(
        reader.ownership != writer.ownership,
        Policy::Ownership,
        both(&|of| word(&["shared", "exclusive"], of.ownership)),
    );
    let kinds = ["automatic", "manual by participant", "manual by topic"];
    let lively = |of: &RawPolicies| format!("{} within {}", word(&kinds, of.liveliness), duration(of.lease));
    add(reader.liveliness > writer.liveliness || reader.lease < writer.lease, Policy::Liveliness, both(&lively));
    let orders = ["by reception", "by source"];
    let order = |of: &RawPolicies| word(&orders, of.destination_order);
    add(reader.destination_order > writer.destination_order, Policy::DestinationOrder, both(&order));
    let reads = u32::try_from(writer.representation).is_ok_and(|id| id < 31 && reader.representations >> id & 1 == 1);
    let wanted = (0..31).filter(|id| reader.representations >> id & 1 == 1).map(representation).collect::<Vec<_>>();
    add(!reads, Policy::DataRepresentation, [representation(writer.representation), wanted.join(" or ")]);
    all
}

fn word(words: &[&str], number: i32) -> String {
    let known = usize::try_from(number).ok().and_then(|number| words.get(number));
    known.map_or_else(|| number.to_string(), |word| (*word).to_owned())
}

fn representation(id: i32) -> String {
    word(&["XCDR1", "XML", "XCDR2"], id)
}

fn presented([scope, coherent, ordered]: [i32; 3]) -> String {
    let mut text = word(&["instance", "topic", "group"], scope);
    for (has, what) in [(coherent, ", coherent"), (ordered, ", ordered")] {
        text.push_str(if has == 1 { what } else { "" });
    }
    text
}

fn duration(nanoseconds: i64) -> String {
    match u64::try_from(nanoseconds) {
        Ok(nanoseconds) if nanoseconds < i64::MAX.unsigned_abs() => format!("{:?}", Duration::from_nanos(nanoseconds)),
        _ => "for ever".to_owned(),
    }
}

fn listed(partitions: &[String]) -> String {
    if partitions.iter().all(String::is_empty) { "none".to_owned() } else { format!("{partitions:?}") }
}

/// Whether two lists of partitions have one in common. Either may have patterns, which match names only.
fn meet(one: &[String], other: &[String]) -> bool {
    let default = [String::new()];
    let or_default = |all: &[String]| if all.is_empty() { default.to_vec() } else { all.to_vec() };
    let (one, other) = (or_default(one), or_default(other));
    let is_pattern = |name: &str| name.contains(['*', '?']);
    one.iter().any(|one| {
        other.iter().any(|other| match (is_pattern(one), is_pattern(other)) {
            (true, true) => false,
            (true, false) => matches(one.as_bytes(), other.as_bytes()),
            (false, true) => matches(other.as_bytes(), one.as_bytes()),
            (false, false) => one == other,
        })
    })
}

/// Whether a name matches a pattern. Takes time in proportion to the product of both lengths.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut in_name, mut last) = (0, 0, None);
    while let Some(octet) = name.get(in_name) {
        match pattern.get(at) {
            Some(b'*') => (last, at) = (Some((at + 1, in_name)), at + 1),
            Some(wanted) if *wanted == b'?' || wanted == octet => (at, in_name) = (at + 1, in_name + 1),
            _ => match last {
                Some((behind, from)) => (last, at, in_name) = (Some((behind, from + 1)), behind, from + 1),
                None => return false,
            },
        }
    }
    pattern.iter().skip(at).all(|octet| *octet == b'*')
}

impl Endpoint {
    /// Whether the endpoint is in one of these partitions.
    #[must_use]
    pub fn is_in(&self, partitions: &[String]) -> bool {
        meet(partitions, &self.partitions)
    }
}

/// A remote endpoint that does not match by one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incompatibility {
    /// The topic.
    pub topic: String,
    /// The endpoint and its program as far as known, for people.
    pub peer: String,
    /// The endpoint's role.
    pub role: Role,
    /// The policy, with the value of each side.
    pub difference: Difference,
    /// What to do about it.
    pub advice: String,
}

impl fmt::Display for Incompatibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, peer, role, difference: Difference { policy, offered, requested }, advice } = self;
        let (here, there, what) = match role {
            Role::Writer => ("", " here", "nothing of it is read"),
            Role::Reader => (" here", "", "it gets nothing"),
        };
        write!(
            f,
            "topic {topic:?}: {peer} does not match by {} (offered{here}: {offered}; requested{there}: {requested}), so that {what}: {advice}",
            policy.name()
        )
    }
}

/// Written topics, compared with remote readers on another thread.
#[derive(Clone, Debug, Default)]
pub struct WrittenTopics(Arc<(Mutex<TopicsByName>, AtomicBool)>);

type TopicsByName = BTreeMap<String, Vec<Topic>>;

impl WrittenTopics {
    fn all(&self) -> MutexGuard<'_, TopicsByName> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a topic. Topics of one name may have several types, each with a participant of its own.
    pub fn add(&self, topic: &Topic) {
        self.all().entry(topic.name().to_owned()).or_default().push(topic.clone());
        self.0.1.store(true, Ordering::Release);
    }

    /// The topics of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Vec<Topic> {
        self.all().get(name).cloned().unwrap_or_default()
    }

    /// Number of names.
    #[must_use]
    pub fn count(&self) -> usize {
        self.all().len()
    }

    /// Whether topics were added since the last call.
    #[must_use]
    pub fn take_changed(&self) -> bool {
        self.0.1.swap(false, Ordering::Acquire)
    }
}

/// Remote endpoints that do not match. At most 256 incompatibilities are listed, each reported or logged once. 8192 further endpoints are
/// [counted](Self::beyond), and one line says that there are some. Others are ignored.
#[derive(Debug)]
pub struct Incompatibilities {
    /// Prefix of the settings' names, such as `dds.`.
    settings: &'static str,
    open: BTreeMap<Guid, Vec<Incompatibility>>,
    open_count: usize,
    unlisted: BTreeMap<Guid, Vec<Policy>>,
    /// A line has said that some are not listed; reset when half of the listed ones are gone.
    is_full: bool,
    totals: BTreeMap<(String, Policy), u64>,
    beyond: u64,
    /// Beginning of the current second, lines logged in it, and lines left out.
    lines: (Instant, u32, u64),
}

impl Incompatibilities {
    /// An empty list; `settings` is the prefix of the settings' names, such as `dds.`.
    #[must_use]
    pub fn new(settings: &'static str) -> Self {
        let (open, unlisted, totals) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let lines = (Instant::now(), 0, 0);
        Self { settings, open, open_count: 0, unlisted, is_full: false, totals, beyond: 0, lines }
    }

    /// The listed incompatibilities, by endpoint.
    pub fn iter(&self) -> impl Iterator<Item = &Incompatibility> {
        self.open.values().flatten()
    }

    /// Total counts by topic and policy. Beyond 128 of these, the topic is `*`.
    #[must_use]
    pub const fn totals(&self) -> &BTreeMap<(String, Policy), u64> {
        &self.totals
    }

    /// Number of incompatibilities found while the list was full.
    #[must_use]
    pub const fn beyond(&self) -> u64 {
        self.beyond
    }

    /// Notes all differences of an endpoint, with its description: of its type if `of_type`, else of everything else. Reports new ones;
    /// logs, under the given name, those that are over and those that `report` did not pass on. Returns whether something is new.
    pub fn note(
        &mut self,
        whose: impl fmt::Display,
        (endpoint, describe): (&Endpoint, impl Fn() -> String),
        of_type: bool,
        found: Vec<Difference>,
        mut report: impl FnMut(&Incompatibility) -> bool,
    ) -> bool {
        let mut open = self.open.remove(&endpoint.guid).unwrap_or_default();
        let mut unlisted = self.unlisted.remove(&endpoint.guid).unwrap_or_default();
        self.open_count -= open.len();
        let is_other = |policy: Policy| (policy == Policy::Type) != of_type;
        let is_found = |policy: Policy| found.iter().any(|difference| difference.policy == policy);
        unlisted.retain(|policy| is_other(*policy) || is_found(*policy));
        let is_over =
            |known: &mut Incompatibility| !is_other(known.difference.policy) && !found.contains(&known.difference);
        let over: Vec<Incompatibility> = open.extract_if(.., is_over).collect();
        let mut is_new = !over.is_empty();
        for known in over {
            let policy = known.difference.policy;
            // With other values it begins anew.
            if !is_found(policy) {
                self.say(
                    log::Level::Info,
                    format_args!("{whose}: topic {:?}: {} matches by {} now", known.topic, known.peer, policy.name()),
                );
            }
        }
        for difference in found {
            let policy = difference.policy;
            let counted = unlisted.iter().position(|known| *known == policy);
            let has_room = self.open_count + open.len() < OPEN_MAX;
            if open.iter().any(|known| known.difference == difference)
                || !has_room && (counted.is_some() || self.unlisted.len() >= UNLISTED_MAX)
            {
                continue;
            }
            is_new = true;
            if counted.is_none() {
                self.add_to_totals(&endpoint.topic, policy);
            }
            if !has_room {
                self.beyond += 1;
                unlisted.push(policy);
                if !core::mem::replace(&mut self.is_full, true) {
                    log::warn!("{whose}: {OPEN_MAX} incompatibilities are listed: further ones are counted");
                }
                continue;
            }
            unlisted.retain(|known| *known != policy);
            let incompatibility = Incompatibility {
                topic: endpoint.topic.clone(),
                peer: describe(),
                role: endpoint.role,
                advice: advice(policy, endpoint.role, self.settings),
                difference,
            };
            if !report(&incompatibility) {
                self.say(log::Level::Warn, format_args!("{whose}: {incompatibility}"));
            }
            open.push(incompatibility);
        }
        self.open_count += open.len();
        if !open.is_empty() {
            self.open.insert(endpoint.guid, open);
        }
        if !unlisted.is_empty() {
            self.unlisted.insert(endpoint.guid, unlisted);
        }
        is_new
    }

    /// Removes an endpoint that is gone. Returns whether it was listed.
    pub fn gone(&mut self, whose: impl fmt::Display, guid: Guid) -> bool {
        self.unlisted.remove(&guid);
        let Some(open) = self.open.remove(&guid) else { return false };
        self.open_count -= open.len();
        self.is_full &= self.open_count > OPEN_MAX / 2;
        if let Some(known) = open.first() {
            self.say(
                log::Level::Info,
                format_args!("{whose}: topic {:?}: {}, which did not match, is gone", known.topic, known.peer),
            );
        }
        true
    }

    fn add_to_totals(&mut self, topic: &str, policy: Policy) {
        let mut key = (topic.to_owned(), policy);
        if self.totals.len() >= TOTALS_MAX && !self.totals.contains_key(&key) {
            key.0 = "*".to_owned();
        }
        *self.totals.entry(key).or_default() += 1;
    }

    /// Logs a line, unless 16 were logged in this second.
    pub fn say(&mut self, level: log::Level, line: fmt::Arguments<'_>) {
        let (since, count, left_out) = &mut self.lines;
        if since.elapsed() >= Duration::from_secs(1) {
            (*since, *count) = (Instant::now(), 0);
        }
        *count += 1;
        match (*count <= LINES_MAX, core::mem::take(left_out)) {
            (true, 0) => log::log!(level, "{line}"),
            (true, more) => log::log!(level, "{line} ({more} lines like this were left out)"),
            (false, more) => *left_out = more + 1,
        }
    }
}

fn advice(policy: Policy, theirs: Role, settings: &str) -> String {
    use {Policy as P, Role as R};
    match (policy, theirs) {
        (P::Reliability, R::Writer) => format!("set {settings}reliable = false here, or have it write reliably"),
        (P::Reliability, R::Reader) => format!("set {settings}reliable = true here, or have it read with best effort"),
        (P::Durability, R::Writer) => {
            format!("set {settings}late_joiners = 0 here, or have it write with transient-local durability")
        }
        (P::Durability, R::Reader) => format!(
            "set {settings}late_joiners to 1 or more here, which offers transient-local durability, or have it ask for volatile"
        ),
        (P::Deadline, R::Writer) => format!("set {settings}deadline_ms = 0 here, or have it offer what is requested"),
        (P::Deadline, R::Reader) => {
            format!("set {settings}deadline_ms here to what it asks for, or have it ask for none")
        }
        (P::DataRepresentation, R::Writer) => "have it write XCDR1 first (its policy DataRepresentation)".to_owned(),
        (P::DataRepresentation, R::Reader) => "have it read XCDR1, too (its policy DataRepresentation)".to_owned(),
        (P::Partition, _) => {
            let setting = if settings.is_empty() { "partition" } else { "partitions" };
            format!("set its partition, or {settings}{setting} here")
        }
        (P::Type, _) => "give both the same type, or one of them another topic".to_owned(),
        (_, R::Writer) => "no setting here changes that: have it offer what is requested".to_owned(),
        (_, R::Reader) => "no setting here changes that: have it ask for what is offered".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::RawFound;

    /// Regression: endpoints beyond the list were reported and counted anew whenever they were looked at.
    #[test]
    fn what_is_not_listed_is_counted_once() {
        const KNOWN_MAX: usize = OPEN_MAX + UNLISTED_MAX;
        let endpoint = |number: usize| {
            let key = u128::try_from(number).unwrap().to_be_bytes();
            let policies = Qos { reliable: false, ..Qos::default() }.policies();
            Endpoint::of(Role::Writer, RawFound { key, policies, topic: number.to_string(), ..RawFound::default() })
        };
        // Whether something is new, and whether it is reported.
        let look = |all: &mut Incompatibilities, number| {
            let (endpoint, mut is_reported) = (endpoint(number), false);
            let found = Difference::all(&Qos::default(), &endpoint).unwrap();
            let report = |_: &Incompatibility| !core::mem::replace(&mut is_reported, true);
            (all.note("test", (&endpoint, String::new), false, found, report), is_reported)
        };
        let mut all = Incompatibilities::new("");
        let counts = |all: &Incompatibilities| {
            let others = all.totals[&("*".to_owned(), Policy::Reliability)];
            (all.iter().count(), all.unlisted.len(), all.is_full, all.beyond(), others)
        };
        for round in 0..3 {
            for number in 0..KNOWN_MAX + 10 {
                let expected = (round == 0 && number < KNOWN_MAX, round == 0 && number < OPEN_MAX);
                assert_eq!(look(&mut all, number), expected, "endpoint {number}, round {round}");
            }
            assert_eq!(counts(&all), (256, 8192, true, 8192, 8448 - 128));
        }
        // The room of one that goes is another's, which is reported then, and was counted.
        assert!(all.gone("test", endpoint(0).guid));
        assert_eq!((look(&mut all, 256), look(&mut all, 257)), ((true, true), (false, false)));
        assert_eq!(counts(&all), (256, 8191, true, 8192, 8448 - 128));
        for number in 0..KNOWN_MAX {
            all.gone("test", endpoint(number).guid);
        }
        assert!(all.open.is_empty() && all.unlisted.is_empty() && all.open_count == 0 && !all.is_full);
    }

    /// Each policy: a reader that asks for more than the writer has, the other way round, and what both are called then.
    #[test]
    fn each_policy_is_compared_as_the_standard_has_it() {
        let plain = Qos { reliable: false, ..Qos::default() };
        let (writer, reader) = (plain.policies(), plain.policies());
        assert_eq!(compared(&writer, &reader), []);
        type Change = fn(&mut RawPolicies);
        let cases: [(Policy, Change, Change, &str, &str); 13] = [
            (Policy::Reliability, |_| (), |r| r.reliability = 1, "best effort", "reliable"),
            (Policy::Durability, |_| (), |r| r.durability = 1, "volatile", "transient local"),
            (Policy::Durability, |w| w.durability = 1, |r| r.durability = 3, "transient local", "persistent"),
            (Policy::Presentation, |_| (), |r| r.presentation = 4, "instance", "topic"),
            (
                Policy::Presentation,
                |w| w.presentation = 8,
                |r| r.presentation = 3,
                "group",
                "instance, coherent, ordered",
            ),
            (Policy::Deadline, |_| (), |r| r.deadline = 1_000_000, "for ever", "1ms"),
            (Policy::LatencyBudget, |w| w.latency_budget = 2_000_000, |_| (), "2ms", "0ns"),
            (Policy::Ownership, |w| w.ownership = 1, |_| (), "exclusive", "shared"),
            (
                Policy::Liveliness,
                |_| (),
                |r| r.liveliness = 2,
                "automatic within for ever",
                "manual by topic within for ever",
            ),
            (
                Policy::Liveliness,
                |_| (),
                |r| r.lease = 5_000_000_000,
                "automatic within for ever",
                "automatic within 5s",
            ),
            (Policy::DestinationOrder, |_| (), |r| r.destination_order = 1, "by reception", "by source"),
            (Policy::DataRepresentation, |w| w.representation = 2, |_| (), "XCDR2", "XCDR1"),
            (Policy::DataRepresentation, |_| (), |r| r.representations = 0b110, "XCDR1", "XML or XCDR2"),
        ];
        for (policy, change_writer, change_reader, offered, requested) in cases {
            let (mut writer, mut reader) = (writer, reader);
            change_writer(&mut writer);
            change_reader(&mut reader);
            let expected = Difference { policy, offered: offered.into(), requested: requested.into() };
            assert_eq!(compared(&writer, &reader), [expected]);
        }
        // More than is asked for is no difference, and all are found at once.
        let mut rich = writer;
        (rich.reliability, rich.durability, rich.deadline, rich.destination_order, rich.liveliness) = (1, 3, 1, 1, 2);
        assert_eq!(compared(&rich, &reader), []);
        let all = Qos { late_joiners: 1, deadline: Some(Duration::from_millis(1)), ..Qos::default() };
        let policies: Vec<_> = compared(&writer, &all.policies()).iter().map(|found| found.policy).collect();
        assert_eq!(policies, [Policy::Reliability, Policy::Durability, Policy::Deadline]);
    }

    #[test]
    fn partitions_meet_by_name_and_by_pattern() {
        let meets = |one: &[&str], other: &[&str]| {
            let [one, other] = [one, other].map(|all| all.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
            assert_eq!(meet(&one, &other), meet(&other, &one));
            meet(&one, &other)
        };
        assert!(meets(&[], &[""]) && meets(&[], &["*"]) && meets(&["a", "b"], &["b"]));
        assert!(meets(&["a*c?"], &["abbcd"]) && meets(&["**"], &["x"]) && meets(&["*ab*ab"], &["aabab"]));
        assert!(!meets(&[], &["a"]) && !meets(&["a*"], &["a*"]) && !meets(&["a?"], &["a"]) && !meets(&["A"], &["a"]));
    }
}

//! Sets of events in plans: `when` of a sink, where that names sources.

use super::{Checked, Plan};
use crate::sets::SetTerms;
use campanile::Declared;
use campanile::raw::{RawFilter, unknown_name};
use filter::Constraint;
use filter::correlation::{Correlation, CorrelationLimits};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// Whether `when` of a port is a correlation of sources, and no filter: it begins with the name of one, as `instance.port`.
pub(crate) fn is_correlation(when: &str) -> bool {
    let first = when.trim_start_matches(|letter: char| letter.is_whitespace() || letter == '(');
    if first.starts_with('\'') {
        return Constraint::parse(when, &filter::Limits::default()).is_err()
            && Correlation::parse(when, &CorrelationLimits::default()).is_ok();
    }
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '*' | '.');
    let name = first.split(|letter| !is_part(letter)).next().unwrap_or_default();
    name.contains('.') && !name.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.')
}

impl Plan {
    /// The ports of an instance that have sets, each with its text.
    fn sets_of<'p>(&'p self, instance: &str) -> impl Iterator<Item = (&'p str, &'p str)> {
        let prefix = format!("{instance}.");
        let from = self.ports.range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded));
        let ports = from.take_while(move |(port, _)| port.starts_with(&prefix));
        ports.filter_map(|(port, of)| Some((port.as_str(), of.when.as_deref().filter(|when| is_correlation(when))?)))
    }

    /// Whether the events of a connection come in sets.
    pub(crate) fn is_in_set(&self, source: &str, sink: &str) -> bool {
        let instance = sink.split_once('.').map_or(sink, |(instance, _)| instance);
        self.sets_of(instance)
            .any(|(_, text)| SetTerms::parse(text).is_ok_and(|terms| terms.places_of(source).next().is_some()))
    }

    /// All sinks that are connected, each with its sources.
    pub(crate) fn sources_by_sink(&self) -> SourcesBySink<'_> {
        let mut sources = SourcesBySink::new();
        for (source, sinks) in &self.connections {
            for sink in sinks {
                sources.entry(sink).or_default().insert(source);
            }
        }
        sources
    }
}

/// Sinks with the sources that are connected with each.
pub(crate) type SourcesBySink<'p> = BTreeMap<&'p str, BTreeSet<&'p str>>;

/// The sinks of a port's instance, with their sources.
fn of_instance<'s, 'p>(
    by_sink: &'s SourcesBySink<'p>,
    port: &str,
) -> impl Iterator<Item = (&'p str, &'s BTreeSet<&'p str>)> {
    let prefix = port.split_once('.').map_or_else(String::new, |(instance, _)| format!("{instance}."));
    let from = by_sink.range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded));
    from.take_while(move |(sink, _)| sink.starts_with(&prefix)).map(|(sink, sources)| (*sink, sources))
}

/// The sinks that have the sets of a port.
pub(crate) fn sinks_of_set<'p>(port: &str, terms: &SetTerms, by_sink: &SourcesBySink<'p>) -> Vec<&'p str> {
    let is_named = |source: &&str| terms.places_of(source).next().is_some();
    of_instance(by_sink, port).filter(|(_, sources)| sources.iter().any(is_named)).map(|(sink, _)| sink).collect()
}

impl Checked<'_> {
    /// What is wrong with `when` of ports.
    pub(super) fn check_whens(&mut self) {
        let plan = self.plan;
        let by_sink = plan.sources_by_sink();
        for (port, of) in &plan.ports {
            if let Some(when) = &of.when {
                self.check_when(port, when, &by_sink);
            }
        }
    }

    fn check_when(&mut self, port: &str, when: &str, by_sink: &SourcesBySink<'_>) {
        let place = format!("ports.{port:?}");
        if !is_correlation(when) {
            let refused = self.declared(port).and_then(|of| RawFilter::new(when, &of).err());
            if let Some(error) = refused {
                self.problem(place, error.to_string());
            }
            return;
        }
        let terms = match SetTerms::parse(when) {
            Ok(terms) => terms,
            Err(reason) => return self.problem(place, reason),
        };
        for reason in self.set_problems(port, &terms, by_sink) {
            self.problem(&place, reason);
        }
    }

    fn set_problems(&self, port: &str, terms: &SetTerms, by_sink: &SourcesBySink<'_>) -> Vec<String> {
        let (instance, _) = port.split_once('.').unwrap_or((port, ""));
        let sources: BTreeSet<&str> = of_instance(by_sink, port).flat_map(|(_, sources)| sources).copied().collect();
        let known = || sources.iter().copied().collect::<Vec<_>>().join(", ");
        let mut problems = Vec::new();
        for (place, term) in terms.correlation().terms().iter().enumerate() {
            let named: Vec<_> = sources.iter().filter(|source| terms.places_of(source).any(|it| it == place)).collect();
            let name = &term.name;
            if named.is_empty() {
                let known = if sources.is_empty() { "none".to_owned() } else { known() };
                problems.push(format!(
                    "when names {name}, from which no connection leads to {instance}; from these there are: {known}"
                ));
            }
            let paths = term.constraint.as_ref().map(Constraint::paths).unwrap_or_default();
            let of_all = terms.correlation().same();
            for source in named {
                let Some(declared) = self.declared(source) else { continue };
                let unknown = unknown_name(paths, &declared).or_else(|| unknown_name(of_all, &declared));
                problems.extend(unknown.map(|unknown| format!("when: of {source} {unknown}")));
            }
        }
        let is_named = |source: &&&str| terms.places_of(source).next().is_some();
        let sinks = sinks_of_set(port, terms, by_sink);
        for source in sources.iter().filter(is_named) {
            let both: Vec<_> =
                sinks.iter().filter(|sink| by_sink.get(**sink).is_some_and(|of| of.contains(source))).collect();
            if let [one, other, ..] = *both {
                problems.push(format!(
                    "{source} is connected with {one} and {other}, and a set has each of its events once: disconnect one"
                ));
            }
        }
        if !problems.is_empty() {
            return problems;
        }
        if !sinks.contains(&port) {
            problems.push(format!(
                "when names no source that is connected with {port}: give it to one of: {}",
                sinks.join(", ")
            ));
        }
        let others = self.plan.sets_of(instance).filter(|(other, _)| *other != port);
        let others: Vec<_> = others.filter_map(|(other, text)| Some((other, SetTerms::parse(text).ok()?))).collect();
        for sink in sinks {
            let of_sink = by_sink.get(sink).into_iter().flatten();
            for source in of_sink.filter(|source| terms.places_of(source).next().is_none()) {
                problems.push(format!(
                    "when does not name {source}, which is connected with {sink}, too: its events would all be dropped, so name \
                     it, or disconnect it"
                ));
            }
            for (other, _) in others.iter().filter(|(other, terms)| sinks_of_set(other, terms, by_sink).contains(&sink))
            {
                problems.push(format!("{sink} has the sets of {other} as well: say both in one, with `or`"));
            }
        }
        problems
    }

    /// The type of a port's events.
    fn declared(&self, port: &str) -> Option<Declared> {
        let (instance, name) = port.split_once('.')?;
        let of = self.describe(instance)?;
        let text = of.sources.get(name).or_else(|| of.sinks.get(name))?;
        Declared::new(::idl::read(text).ok()?.last()?.code(), None, None).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::is_correlation;

    #[test]
    fn what_begins_with_a_source_is_a_correlation_and_all_else_a_filter() {
        for when in [
            "camera.frame and mount.state within 50ms",
            "((camera.frame[$x > 1] or a.b))",
            "*.frame and c.d same antenna",
            "'2.frame' and c.d",
            "camera.",
        ] {
            assert!(is_correlation(when), "{when}");
        }
        for when in
            ["$x > 1", "($x > 1)", "exist $x.y", "1.5 < $x", ".5 < $x", "'a.b' == $x", "not $x", "TRUE", "", "'a.b"]
        {
            assert!(!is_correlation(when), "{when}");
        }
    }
}

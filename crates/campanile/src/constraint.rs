//! Errors and warnings about a filter's text.

use crate::declared::Declared;
use crate::error::{Error, Trouble};
use client::InvokeError;
use client::notify::{FilterRefusal, filter_refusal};
use filter::{Constraint, Limits, Part, Path, Root};

/// Names in filters for the standard parts of an event.
const OF_EVERY_EVENT: [&str; 9] = [
    "domain_name",
    "type_name",
    "event_name",
    "priority",
    "timeout",
    "header",
    "filterable_data",
    "remainder_of_body",
    "curtime",
];

/// Converts a service's refusal to an error about the filter's text; other errors are kept.
pub(crate) fn refused(error: InvokeError, text: Option<&str>) -> Error {
    match (filter_refusal(&error), text) {
        (Some(FilterRefusal::InvalidConstraint(_)), Some(text)) => parse(text).err().unwrap_or_else(|| Error::Filter {
            text: text.to_owned(),
            reason: "the service does not take it, since it is too long or has too many parts, say".to_owned(),
            column: None,
        }),
        _ => Error::Service(error),
    }
}

/// Parses a filter's text.
pub(crate) fn parse(text: &str) -> Result<Constraint, Error> {
    Constraint::parse(text, &Limits::default()).map_err(|error| Error::Filter {
        text: text.to_owned(),
        reason: error.reason().to_string(),
        column: u32::try_from(error.column()).ok(),
    })
}

/// Names in a filter that no declared type has.
pub(crate) fn unknown_names<'d>(text: &str, declared: impl Iterator<Item = &'d Declared> + Clone) -> Vec<Trouble> {
    let Ok(constraint) = parse(text) else { return Vec::new() };
    unknown_members(constraint.paths(), declared)
}

/// Names in paths that no declared type has.
pub(crate) fn unknown_members<'d>(
    paths: &[Path],
    declared: impl Iterator<Item = &'d Declared> + Clone,
) -> Vec<Trouble> {
    let mut unknown: Vec<&str> = paths.iter().filter_map(member).collect();
    unknown.retain(|name| !declared.clone().any(|of| of.name() == *name || of.has_member(name)));
    unknown.dedup();
    let members = declared.map(|of| format!("{} has {}", of.name(), of.members().collect::<Vec<_>>().join(", ")));
    let known = members.collect::<Vec<_>>().join("; ");
    unknown.into_iter().map(|name| Trouble::UnknownName { name: name.to_owned(), known: known.clone() }).collect()
}

/// The member of an event's struct at which a path begins, or the struct's own name.
fn member(path: &Path) -> Option<&str> {
    let (first, rest) = match &path.root {
        Root::Name(name) => (name.as_ref(), &path.parts[..]),
        Root::Event => match path.parts.split_first() {
            Some((Part::Member(name), rest)) => (name.as_ref(), rest),
            _ => return None,
        },
        Root::CurrentTime => return None,
    };
    match rest.first() {
        Some(Part::Member(name)) if first == "remainder_of_body" => Some(name.as_ref()),
        Some(Part::Named(name)) if first == "filterable_data" => Some(name.as_ref()),
        _ if matches!(path.root, Root::Event) || OF_EVERY_EVENT.contains(&first) => None,
        _ => Some(first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giop::typecode::{Kind, TypeCode};

    #[test]
    fn a_name_that_no_declared_type_has_is_found_wherever_a_filter_says_it() {
        let members = [("speed", TypeCode::primitive(Kind::Double)), ("station", TypeCode::string())];
        let wind = TypeCode::structure("IDL:Wind:1.0", "Wind", &members);
        let wind = Declared::new(&wind, None, None).unwrap();
        for (text, names) in [
            ("$speed > 10 and $station == 'north'", vec![]),
            ("$Wind.speed > 10 or $.remainder_of_body.speed > 1 or $.filterable_data(station) == 'x'", vec![]),
            (
                "$priority > 3 and $type_name == 'Wind' and $curtime.low > 1 and $.header.variable_header(x) == 1",
                vec![],
            ),
            ("$sped > 10 and $sped < 20", vec!["sped"]),
            ("$.remainder_of_body.sped > 1 or $.filterable_data(statoin) == 'x'", vec!["sped", "statoin"]),
            ("$speed >", vec![]),
        ] {
            let found = unknown_names(text, [&wind].into_iter());
            let found = found.iter().map(|trouble| match trouble {
                Trouble::UnknownName { name, known } if known == "Wind has speed, station" => name.as_str(),
                other => panic!("{other:?}"),
            });
            assert_eq!(found.collect::<Vec<_>>(), names, "{text}");
        }
        let Error::Filter { reason, column, .. } = parse("$speed > ").unwrap_err() else { panic!() };
        assert!(column == Some(10) || column == Some(9), "{column:?} {reason}");
    }
}

//! Filters that read structs in place: for events that reach a consumer within the process.

use super::Event;
use crate::constraint::{parse, unknown_names};
use crate::declared::Declared;
use crate::error::{Error, Trouble};
use crate::form::{EventQos, ticks_of_timeout};
use crate::time::ticks_of;
use filter::{Constraint, Fields, Part, Path, Root, Steps, Text, Value, Verdict};
use std::fmt;
use std::marker::PhantomData;
use std::time::SystemTime;

/// Steps that one event is worth: what a service grants, too.
const STEPS_MAX: u32 = 10_000;

/// A filter of the Extended Trader Constraint Language over structs of one type. It sees what a service would see of the event in the
/// form `body`: `$speed > 10`, `$.remainder_of_body.place.x > 1`, `$type_name == 'Wind'`. Nothing is written or allocated for it.
///
/// ```
/// use campanile::{Event, EventFilter};
///
/// #[derive(Event)]
/// struct Wind {
///     speed: f64,
///     gusts: Vec<f32>,
/// }
///
/// let filter = EventFilter::new("$speed > 10 and $.remainder_of_body.gusts._length == 2")?;
/// assert!(filter.matches(&Wind { speed: 11.5, gusts: vec![12.0, 14.5] }));
/// assert!(!filter.matches(&Wind { speed: 11.5, gusts: vec![] }));
/// assert!(EventFilter::<Wind>::new("$sped > 10").is_err());
/// # Ok::<(), campanile::Error>(())
/// ```
pub struct EventFilter<T> {
    constraint: Constraint,
    of: PhantomData<fn(&T)>,
}

impl<T: Event> EventFilter<T> {
    /// The filter that a text is.
    ///
    /// # Errors
    /// [`Error::Filter`] for a text that is none, or names what the type does not have; [`Error::Type`] for a type that is no event's.
    pub fn new(text: &str) -> Result<Self, Error> {
        let constraint = parse(text)?;
        let declared = Declared::new(T::event_type(), T::DOMAIN, Some(T::NAME))?;
        // Within a program there is but one type at a time, so that an unknown name is a slip.
        if let Some(Trouble::UnknownName { name, known }) = unknown_names(text, [&declared].into_iter()).pop() {
            let reason = format!("no event has {name}; {known}");
            return Err(Error::Filter { text: text.to_owned(), reason, column: None });
        }
        Ok(Self { constraint, of: PhantomData })
    }

    /// Whether an event gets through. One of which the filter makes no sense does not.
    #[must_use]
    pub fn matches(&self, event: &T) -> bool {
        self.matches_with(event, EventQos::default())
    }

    /// The same of an event that has a priority, which is `$priority` unless it is 0, or a timeout, `$timeout`.
    #[must_use]
    pub fn matches_with(&self, event: &T, qos: EventQos) -> bool {
        self.constraint.matches(&InPlace(event, qos), &mut Steps::new(STEPS_MAX)) == Verdict::Match
    }
}

impl<T> fmt::Debug for EventFilter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.constraint.fmt(f)
    }
}

/// Hands over what a filter sees of an event. Nothing is written or allocated for it.
pub fn with_fields<T: Event, R>(event: &T, qos: EventQos, look: impl FnOnce(&dyn Fields) -> R) -> R {
    look(&InPlace(event, qos))
}

/// A struct as a structured event of the form `body` would have it.
struct InPlace<'e, T>(&'e T, EventQos);

impl<T: Event> InPlace<'_, T> {
    /// A member that would be among the filterable data: one value, no structure or sequence.
    fn single(&self, name: &str, steps: &mut Steps) -> Option<Value<'_>> {
        self.0.filter_member(name, &[], steps).filter(|value| !matches!(value, Value::Composite))
    }

    fn header(name: &str) -> Option<Value<'static>> {
        let text = match name {
            "type_name" => T::NAME,
            "domain_name" => T::DOMAIN.unwrap_or_default(),
            "event_name" => "",
            _ => return None,
        };
        Some(Value::Text(Text::new(text)))
    }

    /// A property of the variable header, as it is written there.
    fn property(&self, name: &str) -> Option<Value<'static>> {
        let EventQos { priority, timeout } = self.1;
        match name {
            "Priority" | "priority" => (priority != 0).then_some(Value::Int(priority.max(-i16::MAX).into())),
            "Timeout" | "timeout" => timeout.map(|timeout| Value::UInt(ticks_of_timeout(timeout))),
            _ => None,
        }
    }

    /// What stands at the members of a structured event.
    fn body<'f>(&'f self, parts: &[Part], steps: &mut Steps) -> Option<Value<'f>> {
        let (Part::Member(first), rest) = parts.split_first()? else { return None };
        match (&**first, rest) {
            ("remainder_of_body", rest) => self.0.filter_at(rest, steps),
            ("filterable_data", [Part::Named(name)]) => self.single(name, steps),
            ("header", [Part::Member(fixed), Part::Member(name)])
                if **fixed == *"fixed_header" && **name == *"event_name" =>
            {
                Self::header(name)
            }
            ("header", [Part::Member(fixed), Part::Member(of), Part::Member(name)])
                if **fixed == *"fixed_header" && **of == *"event_type" && **name != *"event_name" =>
            {
                Self::header(name)
            }
            ("header", [Part::Member(variable), Part::Named(name)])
                if **variable == *"variable_header" && matches!(&**name, "Priority" | "Timeout") =>
            {
                self.property(name)
            }
            _ => None,
        }
    }
}

impl<T: Event> Fields for InPlace<'_, T> {
    fn field<'f>(&'f self, path: &Path, steps: &mut Steps) -> Option<Value<'f>> {
        if !steps.take(1) {
            return None;
        }
        match (&path.root, &*path.parts) {
            // Of the header, which has them as properties where they say something.
            (Root::Name(name), parts) if matches!(&**name, "priority" | "timeout") => {
                self.property(name).filter(|_| parts.is_empty())
            }
            (Root::Name(name), []) => Self::header(name).or_else(|| self.single(name, steps)),
            // Of a single value: its type, and the ordinal of an enumerator.
            (Root::Name(name), parts @ [Part::Ordinal(_) | Part::TypeId | Part::ReposId]) => {
                self.single(name, steps)?;
                self.0.filter_member(name, parts, steps)
            }
            (Root::Name(name), [Part::Named(member)]) if **name == *"filterable_data" => self.single(member, steps),
            (Root::Name(name), parts) if **name == *"remainder_of_body" => self.0.filter_at(parts, steps),
            (Root::Event, parts) => self.body(parts, steps),
            _ => None,
        }
    }

    fn contains(&self, path: &Path, needle: &Value<'_>, steps: &mut Steps) -> Option<bool> {
        if !steps.take(1) {
            return None;
        }
        let body = "remainder_of_body";
        match (&path.root, &*path.parts) {
            (Root::Event, [Part::Member(first), rest @ ..]) if **first == *body => {
                self.0.filter_contains(rest, needle, steps)
            }
            (Root::Name(name), rest) if **name == *body => self.0.filter_contains(rest, needle, steps),
            _ => None,
        }
    }

    fn current_time(&self) -> u64 {
        ticks_of(SystemTime::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declared::NATIVE;
    use crate::form::{Envelope, EventQos, write_event};
    use crate::raw::RawFilter;
    use crate::settings::EventForm;
    use giop::cdr::Writer;
    use std::time::Duration;

    #[derive(campanile::Event, Clone, Copy)]
    enum Severity {
        Info,
        Minor,
        Major,
    }

    #[derive(campanile::Event)]
    struct Place {
        x: f64,
        tags: Vec<String>,
    }

    #[derive(campanile::Event)]
    #[event(domain = "Dome", module = "observatory")]
    struct Reading {
        number: i32,
        large: u64,
        small: i8,
        octet: u8,
        on: bool,
        initial: char,
        text: String,
        severity: Severity,
        place: Place,
        places: Vec<Place>,
        levels: [f32; 3],
        maybe: Option<u16>,
        none: Option<u16>,
        boxed: Box<Place>,
        lasts: Duration,
        priority: i16,
    }

    fn reading() -> Reading {
        let place = |x| Place { x, tags: vec!["a".into(), "über".into()] };
        Reading {
            number: -3,
            large: u64::MAX,
            small: -7,
            octet: 200,
            on: true,
            initial: 'x',
            text: "north".into(),
            severity: Severity::Minor,
            place: place(1.5),
            places: vec![place(2.5), place(3.5)],
            levels: [0.5, 1.0, 2.0],
            maybe: Some(9),
            none: None,
            boxed: Box::new(place(4.5)),
            lasts: Duration::from_millis(2),
            priority: 5,
        }
    }

    #[test]
    fn a_filter_over_a_struct_answers_what_it_would_over_the_event_that_a_supplier_sends() {
        let reading = reading();
        let declared = Declared::new(Reading::event_type(), Reading::DOMAIN, Some(Reading::NAME)).unwrap();
        let (mut cdr, mut event) = (Vec::new(), Vec::new());
        crate::Field::write(&reading, &mut Writer::new(&mut cdr, NATIVE));
        let envelope = Envelope {
            domain: "Dome",
            form: EventForm::Body,
            supplier: "",
            ticks: 0,
            count: 0,
            qos: EventQos::default(),
        };
        write_event(&declared, &envelope, &cdr, &mut Writer::new(&mut event, NATIVE)).unwrap();
        let sent = corba::event::fields_of_structured(giop::cdr::Reader::new(&event, NATIVE), 0);
        let (mut matched, mut differing) = (0, Vec::new());
        for text in CONSTRAINTS {
            let constraint = parse(text).unwrap();
            let there = constraint.matches(&sent, &mut Steps::new(STEPS_MAX));
            let here = constraint.matches(&InPlace(&reading, EventQos::default()), &mut Steps::new(STEPS_MAX));
            if here != there {
                differing.push((text, here, there));
            }
            matched += usize::from(here == Verdict::Match);
        }
        assert_eq!(differing, []);
        assert_eq!(matched, MATCHING, "of {}", CONSTRAINTS.len());
    }

    /// Of the constraints, so many match; the others do not, or make no sense.
    const MATCHING: usize = 47;

    const CONSTRAINTS: [&str; 65] = [
        "$number == -3",
        "$number > 0",
        "$large == 18446744073709551615",
        "$small == -7",
        "$octet + 1 == 201",
        "$on",
        "not $on",
        "$initial == 'x'",
        "$initial < 'y'",
        "$text == 'north'",
        "'ort' ~ $text",
        "$severity == Minor",
        "$severity <= Minor",
        "$severity > Info",
        "$severity == Major",
        "$severity >= 1",
        "$severity == 'Minor'",
        "exist $severity._type_id",
        "exist $number._type_id",
        "exist $place._type_id",
        "exist $text._repos_id",
        "$text._type_id == 'string' and $on._type_id == 'boolean' and $octet._type_id == 'octet'",
        "$small._type_id == 'short' and $initial._type_id == 'string' and $number._type_id == 'long'",
        "$lasts._type_id == 'Duration'",
        "exist $.remainder_of_body.number._type_id",
        "exist $.remainder_of_body.places._type_id",
        "$.remainder_of_body.severity._type_id == 'Severity'",
        "$.remainder_of_body.severity == Minor",
        "$.remainder_of_body.severity < Major",
        "exist $place",
        "exist $place.x",
        "exist $.remainder_of_body.place",
        "$.remainder_of_body.place.x == 1.5",
        "$.remainder_of_body.place.0 == 1.5",
        "$.remainder_of_body.8.x == 1.5",
        "$.remainder_of_body.place.y == 1.5",
        "$.remainder_of_body._type_id == 'Reading'",
        "$.remainder_of_body._repos_id == 'IDL:observatory/Reading:1.0'",
        "$.remainder_of_body.place._repos_id == 'IDL:Place:1.0'",
        "$.remainder_of_body.places._length == 2",
        "$.remainder_of_body.places[1].x == 3.5",
        "$.remainder_of_body.places[2].x == 3.5",
        "'a' in $.remainder_of_body.places[0].tags",
        "'über' in $.remainder_of_body.place.tags",
        "'b' in $.remainder_of_body.place.tags",
        "1 in $.remainder_of_body.levels",
        "3 in $.remainder_of_body.levels",
        "'x' in $.remainder_of_body.levels",
        "1 in $.remainder_of_body.places",
        "1 in $.remainder_of_body.number",
        "$.remainder_of_body.levels[2] == 2",
        "$.remainder_of_body.levels._length == 3",
        "$.remainder_of_body.maybe[0] == 9",
        "$.remainder_of_body.maybe._length == 1",
        "$.remainder_of_body.none._length == 0",
        "exist $.remainder_of_body.none[0]",
        "$.remainder_of_body.boxed.x == 4.5",
        "$lasts == 20000",
        "$type_name == 'Reading' and $domain_name == 'Dome' and $event_name == ''",
        "$.header.fixed_header.event_type.type_name == 'Reading'",
        "$.header.fixed_header.event_name == ''",
        "$.filterable_data(number) == -3",
        "$.filterable_data(place) == -3",
        "$.filterable_data(priority) == 5",
        "$missing == 1",
    ];

    #[test]
    fn the_priority_and_the_timeout_of_an_event_are_what_a_service_sees() {
        let declared = Declared::new(Place::event_type(), Place::DOMAIN, Some(Place::NAME)).unwrap();
        let place = Place { x: 1.0, tags: Vec::new() };
        let mut cdr = Vec::new();
        crate::Field::write(&place, &mut Writer::new(&mut cdr, NATIVE));
        let texts = ["$priority > 3", "$priority == 0", "exist $priority", "$timeout == 200000", "exist $timeout"];
        let timeout = Some(Duration::from_millis(20));
        let with = |priority, timeout| EventQos { priority, timeout };
        for (qos, expected) in [
            (EventQos::default(), [false; 5]),
            (with(4, None), [true, false, true, false, false]),
            (with(-4, timeout), [false, false, true, true, true]),
        ] {
            let here = texts.map(|text| EventFilter::<Place>::new(text).unwrap().matches_with(&place, qos));
            let raw = texts.map(|text| RawFilter::new(text, &declared).unwrap().matches_with(&cdr, qos));
            assert_eq!((here, raw), (expected, expected), "{qos:?}");
        }
    }

    #[test]
    fn what_no_member_has_is_refused_when_the_filter_is_made() {
        let error = EventFilter::<Place>::new("$x > 1 and $z > 1").unwrap_err();
        assert!(error.to_string().contains("no event has z; Place has x, tags"), "{error}");
        let error = EventFilter::<Place>::new("$x >").unwrap_err();
        assert!(matches!(error, Error::Filter { column: Some(_), .. }), "{error}");
    }
}

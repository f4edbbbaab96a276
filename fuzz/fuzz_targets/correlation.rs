//! A correlation's text: it is understood, or refused with a place and a reason. What is understood gets events, none of which is lost.
#![no_main]

use filter::correlation::{Correlation, CorrelationLimits, Key, Matcher, Offered, Terms};
use filter::{Fields, Path, Steps, Value};
use libfuzzer_sys::fuzz_target;

/// An event that has one value in every field.
struct Everywhere(u8);

impl Fields for Everywhere {
    fn field<'f>(&'f self, _: &Path, steps: &mut Steps) -> Option<Value<'f>> {
        steps.take(1).then_some(Value::UInt(u64::from(self.0)))
    }

    fn contains(&self, _: &Path, _: &Value<'_>, _: &mut Steps) -> Option<bool> {
        None
    }

    fn current_time(&self) -> u64 {
        0
    }
}

fuzz_target!(|data: &[u8]| {
    let [first, length, rest @ ..] = data else { return };
    let Some((text, stream)) = rest.split_at_checked(usize::from(*length)) else { return };
    let Ok(text) = core::str::from_utf8(text) else { return };
    // Now and then with bounds that are soon reached.
    let limits = match first % 4 {
        0 => CorrelationLimits {
            bytes_max: 64,
            terms_max: 3,
            alternatives_max: 2,
            depth_max: 2,
            fields_max: 1,
            keep_max: 4,
        },
        _ => CorrelationLimits::default(),
    };
    match Correlation::parse(text, &limits) {
        Ok(correlation) => {
            assert_eq!(correlation.text(), text);
            assert!(text.len() <= limits.bytes_max as usize && correlation.terms().len() <= limits.terms_max as usize);
            assert!((1..=limits.alternatives_max as usize).contains(&correlation.alternatives().len()));
            let within = |terms: &Terms| terms.places().all(|place| place < correlation.terms().len());
            assert!(correlation.alternatives().iter().all(|terms| !terms.is_empty() && within(terms)));
            // The same text, written once more from its parts, is the same correlation.
            let fields: Vec<String> = correlation.same().iter().map(ToString::to_string).collect();
            for field in &fields {
                let again = Correlation::parse(&format!("A same {field}"), &CorrelationLimits::default());
                let again = again.unwrap_or_else(|error| panic!("{field}: {error}"));
                assert_eq!(again.same().first().map(ToString::to_string).as_ref(), Some(field));
            }
            correlate(&correlation, stream);
        }
        Err(error) => {
            assert!(error.column() >= 1 && error.column() <= text.chars().count() + 1, "{error}");
            let _ = (error.to_string(), error.caret().to_string());
        }
    }
});

/// Three octets for each event: the terms that it matches, its value, and how many milliseconds have passed.
fn correlate(correlation: &Correlation, stream: &[u8]) {
    let mut matcher = Matcher::new(correlation);
    let (mut now_ns, mut inside) = (0, 0);
    for (number, event) in stream.chunks_exact(3).enumerate() {
        let &[matched, value, passed] = event else { return };
        now_ns += u64::from(passed) * 1_000_000;
        let places = (0..8).filter(|place| matched >> place & 1 == 1);
        let terms = Terms::of(places.chain((matched == 0).then_some(usize::from(value % 16))));
        let key: Option<Key> = correlation.key(&Everywhere(value), &mut Steps::new(100));
        inside += 1;
        match matcher.offer(terms, key.as_ref(), now_ns, number, &mut Steps::new(u32::from(value) * 8)) {
            Offered::Complete(set) => {
                assert!(set.events.is_sorted() && set.events.last() == Some(&number));
                inside -= set.events.len();
            }
            Offered::Waits | Offered::Cut => {}
            Offered::Unmatched(_) | Offered::WithoutKey(_) => inside -= 1,
        }
        while matcher.poll_dropped().is_some() {
            inside -= 1;
        }
        assert_eq!(matcher.waiting(), inside);
        assert!(matcher.waiting() <= correlation.keep() as usize && matcher.keys() <= matcher.waiting());
    }
}

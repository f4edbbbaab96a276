//! A constraint's text: whatever it is, it is understood or refused with a place and a reason.
#![no_main]

use filter::{Constraint, Fields, Limits, Path, Steps, Value, Verdict};
use libfuzzer_sys::fuzz_target;

/// An event that has nothing.
struct Nothing;

impl Fields for Nothing {
    fn field<'f>(&'f self, _: &Path, _: &mut Steps) -> Option<Value<'f>> {
        None
    }

    fn contains(&self, _: &Path, _: &Value<'_>, _: &mut Steps) -> Option<bool> {
        None
    }

    fn current_time(&self) -> u64 {
        0
    }
}

fuzz_target!(|data: &[u8]| {
    let [first, text @ ..] = data else { return };
    let Ok(text) = core::str::from_utf8(text) else { return };
    // Now and then with bounds that are soon reached.
    let limits = match first % 4 {
        0 => Limits { bytes_max: 64, nodes_max: 8, depth_max: 4 },
        _ => Limits::default(),
    };
    match Constraint::parse(text, &limits) {
        Ok(constraint) => {
            assert_eq!(constraint.text(), text);
            assert!(constraint.nodes() <= limits.nodes_max && text.len() <= limits.bytes_max as usize);
            assert!(constraint.cost().best <= constraint.cost().worst);
            let _ = constraint.explain().to_string();
            let _ = constraint.conjuncts().count();
            for path in constraint.paths() {
                // A path is written as it can be read. `default $x` asks for `$x.()`, which is one part longer.
                let asked = format!("exist {path}");
                let limits = Limits { bytes_max: u32::MAX, depth_max: limits.depth_max + 1, ..limits };
                Constraint::parse(&asked, &limits).unwrap_or_else(|error| panic!("{asked}: {error}"));
            }
            let verdict = constraint.matches(&Nothing, &mut Steps::new(100_000));
            if let Some(always) = constraint.always() {
                assert_eq!(matches!(verdict, Verdict::Match), always, "{text}");
            }
        }
        Err(error) => {
            assert!(error.column() >= 1 && error.column() <= text.chars().count() + 1, "{error}");
            let _ = (error.to_string(), error.caret().to_string());
        }
    }
});

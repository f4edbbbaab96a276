//! A constraint and an event's bytes, neither to be trusted: the same verdict alone and in a bank, never a match that a
//! larger budget would take back, and never more steps than there are.
#![no_main]

mod common;

use filter::{Bank, Constraint, Limits, Scratch, Steps, Verdict};
use giop::cdr::Reader;
use libfuzzer_sys::fuzz_target;
use corba::event;
use std::sync::Arc;

const STEPS: u32 = 20_000;

fuzz_target!(|data: &[u8]| {
    let [form, encoding, length, rest @ ..] = data else { return };
    let Some((text, bytes)) = rest.split_at_checked(usize::from(*length)) else { return };
    let Ok(text) = core::str::from_utf8(text) else { return };
    let Ok(constraint) = Constraint::parse(text, &Limits::default()) else { return };
    let (encoding, phase) = common::chosen(*encoding);
    let source = Reader::with_phase(bytes, phase, encoding);
    let fields = match form % 3 {
        0 => event::fields_of_structured(source, 0),
        1 => event::fields_of_any(source, 0),
        _ => event::fields_of_properties(source, 0),
    };
    let mut steps = Steps::new(STEPS);
    let verdict = constraint.matches(&fields, &mut steps);
    let used = STEPS - steps.left;
    let matches = matches!(verdict, Verdict::Match);

    for budget in [0, 1, used / 2, used.saturating_sub(1), used] {
        let short = constraint.matches(&fields, &mut Steps::new(budget));
        assert!(matches || !matches!(short, Verdict::Match), "a match with {budget} of {used} steps: {text}");
    }
    // Among others that ask for the same and for more.
    let others = [text.to_owned(), format!("({text}) and TRUE"), "$missing == 1".into(), format!("not ({text})")];
    let others = others.iter().filter_map(|text| Constraint::parse(text, &Limits::default()).ok());
    let bank = Bank::new(std::iter::once(constraint).chain(others).map(Arc::new).collect());
    let mut scratch = Scratch::new();
    let evaluated = bank.evaluate(&fields, &mut scratch, &mut Steps::new(STEPS * 8));
    if !evaluated.cut && !matches!(verdict, Verdict::Cut) {
        assert_eq!(evaluated.matched.contains(&0), matches, "{text}");
    }
});

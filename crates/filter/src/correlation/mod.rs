//! Correlation: sets of events of several types that belong together.
//!
//! A [`Correlation`] is made once of its text, `Position and Weather within 50ms same antenna`. It says which of its [terms](Term) an
//! event matches ([`Correlation::terms_of`]) and which [key](Key) the event has ([`Correlation::key`]). A [`Matcher`] is one consumer's
//! state: it is handed events as they come, keeps those that wait for others, and returns each complete set.
//!
//! The language and what it means are specified, with examples that are run as tests, in `spec/8-correlation.md`. What is decided there and
//! nowhere else:
//!
//! - A set has one event for each term of one alternative: `A or (B and C)` has the alternatives `A`, and `B` with `C`. An event is in one
//!   set at most.
//! - The events of a set have the same values at the paths after `same`, and lie no further apart than `within`.
//! - A set is complete as soon as it can be, so that the event that came last belongs to it. If that event completes several alternatives,
//!   the first one in the text counts; and of the events that wait, the oldest ones that fit.

mod error;
mod key;
mod language;
mod matcher;

pub use error::{CorrelationError, CorrelationReason};
pub use key::Key;
pub use matcher::{CompleteSet, CorrelationCounters, Dropped, Matcher, Offered};

use crate::constraint::{Constraint, Steps, Verdict};
use crate::path::Path;
use crate::value::Fields;
use alloc::boxed::Box;
use core::fmt;

/// Limits of a correlation that is to be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorrelationLimits {
    /// Longest text, in bytes. Default 4,096.
    pub bytes_max: u32,
    /// Most terms, 1 to 16. Default 16.
    pub terms_max: u32,
    /// Most alternatives once `or` is multiplied out: `(A or B) and (C or D)` has four. Default 64.
    pub alternatives_max: u32,
    /// The deepest nesting of parentheses. Default 16.
    pub depth_max: u32,
    /// Most fields after `same`. Default 4.
    pub fields_max: u32,
    /// Most events that a text may have wait (`keep`). Default 1,024.
    pub keep_max: u32,
}

impl CorrelationLimits {
    /// Terms that a set of terms has bits for.
    const TERMS: u32 = 16;
}

impl Default for CorrelationLimits {
    fn default() -> Self {
        Self {
            bytes_max: 4_096,
            terms_max: Self::TERMS,
            alternatives_max: 64,
            depth_max: 16,
            fields_max: 4,
            keep_max: 1_024,
        }
    }
}

/// Events that wait where the text has no `keep`, or as many as the limit allows if that is less.
const KEEP_DEFAULT: u32 = 256;

/// A checked correlation. Immutable; share it by `Arc`. Its `Debug` form is its text.
pub struct Correlation {
    text: Box<str>,
    terms: Box<[Term]>,
    /// Sets of terms, in the order of the text, each once.
    alternatives: Box<[Terms]>,
    within_ns: Option<u64>,
    same: Box<[Path]>,
    keep: u32,
}

/// One of a correlation's event types, with the constraint in brackets after it, if there is one.
#[derive(Debug)]
pub struct Term {
    /// Pattern of the domain; `*` stands for any characters, as in subscriptions.
    pub domain: Box<str>,
    /// Pattern of the type's name.
    pub name: Box<str>,
    /// Constraint that an event must match, too.
    pub constraint: Option<Constraint>,
}

/// A set of a correlation's terms: those that an event matches, or those of an alternative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Terms(u16);

/// What a correlation found out about an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TermsFound {
    /// Terms that the event matches.
    pub terms: Terms,
    /// Number of constraints evaluated.
    pub evaluations: u32,
    /// Number of constraints that failed, which counts as no match.
    pub failures: u32,
    /// Whether the steps were spent, so that the rest of the terms counts as no match.
    pub cut: bool,
}

impl Terms {
    /// No term.
    pub const NONE: Self = Self(0);

    /// The set of the terms with these places in the text, from 0; places from 16 on are ignored.
    #[must_use]
    pub fn of(places: impl IntoIterator<Item = usize>) -> Self {
        let bit = |place: usize| u32::try_from(place).ok().and_then(|place| 1_u16.checked_shl(place)).unwrap_or(0);
        Self(places.into_iter().fold(0, |bits, place| bits | bit(place)))
    }

    /// The terms' places in the text, rising.
    pub fn places(self) -> impl Iterator<Item = usize> {
        let mut bits = self.0;
        core::iter::from_fn(move || {
            let place = bits.trailing_zeros() as usize;
            bits &= bits.wrapping_sub(1);
            (place < 16).then_some(place)
        })
    }

    /// Number of terms.
    #[must_use]
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is no term.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl Correlation {
    /// Parses a text.
    ///
    /// # Errors
    ///
    /// The fault in the text, and its place.
    pub fn parse(text: &str, limits: &CorrelationLimits) -> Result<Self, CorrelationError> {
        language::parse(text, limits)
    }

    /// The source text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The terms, in the order of the text.
    #[must_use]
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// The alternatives, any of which is a complete set, in the order of the text.
    #[must_use]
    pub fn alternatives(&self) -> &[Terms] {
        &self.alternatives
    }

    /// The longest time from the first event of a set to its last, in nanoseconds; `None` if events wait until others displace them.
    #[must_use]
    pub fn within_ns(&self) -> Option<u64> {
        self.within_ns
    }

    /// The paths after `same`, which must have equal values in the events of a set.
    #[must_use]
    pub fn same(&self) -> &[Path] {
        &self.same
    }

    /// Most events that wait for others.
    #[must_use]
    pub fn keep(&self) -> u32 {
        self.keep
    }

    /// The terms that an event matches. `is_of` says whether the event is of a term's type.
    pub fn terms_of<F: Fields + ?Sized>(
        &self,
        mut is_of: impl FnMut(usize, &Term) -> bool,
        fields: &F,
        steps: &mut Steps,
    ) -> TermsFound {
        let mut found = TermsFound::default();
        for (place, term) in self.terms.iter().enumerate() {
            if !is_of(place, term) {
                continue;
            }
            if let Some(constraint) = &term.constraint {
                found.evaluations += 1;
                match constraint.matches(fields, steps) {
                    Verdict::Match => {}
                    Verdict::NoMatch => continue,
                    Verdict::Failed(_) => {
                        found.failures += 1;
                        continue;
                    }
                    Verdict::Cut => {
                        found.cut = true;
                        break;
                    }
                }
            }
            found.terms = found.terms.or(Terms::of([place]));
        }
        found
    }

    /// The key of an event. `None` if it has no value at one of the paths after `same`, or one without a [key](Key), or if the steps are
    /// spent.
    pub fn key<F: Fields + ?Sized>(&self, fields: &F, steps: &mut Steps) -> Option<Key> {
        let mut key = Key::EMPTY;
        for path in &self.same {
            key.push(&fields.field(path, steps)?)?;
        }
        Some(key)
    }
}

impl fmt::Debug for Correlation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Correlation").field(&self.text).finish()
    }
}

/// Equal if the texts and the numbers of events kept are.
impl PartialEq for Correlation {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.keep == other.keep
    }
}

impl Eq for Correlation {}

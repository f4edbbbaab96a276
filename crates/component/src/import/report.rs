//! What is said of descriptors: what is refused, and what a plan says otherwise or goes without.

use super::xml::Element;
use crate::plan::Problem;
use std::fmt::Display;

/// The most that is said of each; the rest is counted.
const SAID_MAX: usize = 1_000;

#[derive(Default)]
pub(super) struct Report {
    pub(super) refused: Vec<Problem>,
    pub(super) notes: Vec<Problem>,
}

impl Report {
    pub(super) fn refuse(&mut self, at: &Element, reason: impl AsRef<str>) {
        say(&mut self.refused, at, reason.as_ref());
    }

    /// Says what is otherwise in the plan.
    pub(super) fn note(&mut self, at: &Element, reason: impl AsRef<str>) {
        say(&mut self.notes, at, reason.as_ref());
    }

    /// Says what the plan goes without.
    pub(super) fn leave_out(&mut self, at: &Element, reason: impl Display) {
        self.note(at, format!("left out: {reason}"));
    }

    /// Refuses all children of these names.
    pub(super) fn refuse_all(&mut self, of: &Element, names: &[&str], reason: &str) {
        for refused in names.iter().flat_map(|name| of.all(name)) {
            self.refuse(refused, reason);
        }
    }

    /// Refuses children with other names than these, and second ones of those that are there once.
    pub(super) fn know(&mut self, element: &Element, once: &[&str], many: &[&str]) {
        let mut seen = Vec::new();
        for child in &element.children {
            let name = child.name.as_str();
            if once.contains(&name) {
                if seen.contains(&name) {
                    self.refuse(child, format!("{} has one already: remove one of them", element.name));
                }
                seen.push(name);
            } else if !many.contains(&name) {
                self.refuse(child, format!("it is not understood in {}: remove it", element.name));
            }
        }
    }
}

fn say(all: &mut Vec<Problem>, at: &Element, reason: &str) {
    if all.len() < SAID_MAX {
        all.push(problem(&at.place(), reason));
    } else if all.len() == SAID_MAX {
        all.push(problem("and more", &format!("only {SAID_MAX} are shown")));
    }
}

/// A problem in words of a file.
pub(super) fn problem(place: &str, reason: &str) -> Problem {
    Problem::new(one_line(place), one_line(reason))
}

/// A text on one line, without what a terminal would obey.
pub(super) fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

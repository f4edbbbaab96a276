//! Evaluation of filters: an event's consumers, its admission by the filters on its supplier's side, and the values of
//! mapping filters.
//!
//! Constraints are evaluated in banks. Each that matches leads to the filters that have it, these to the groups they
//! are attached to, and the groups to consumers: constraints that do not match cost nothing here. Visited entries are
//! marked with the event's number, so that nothing has to be reset between events.

use alloc::vec::Vec;

use filter::{Steps, Verdict as Matching};

use super::channel::ChannelState;
use super::destinations::Known;
use super::queue::Ask;
use super::verdict::{Answer, Verdict, combine};
use crate::ChannelRoutes;
use crate::table::{FilterTable, SupplierGroup, SupplierGroups, Target};

/// A consumer chosen for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    /// Slot of the consumer's outbox.
    pub(super) slot: u32,
    /// Place among the channel's consumers.
    pub(super) member: u32,
    /// Remote filters to call first.
    pub(super) ask: Ask,
}

/// Working space of a lane to filter one event at a time. It grows when routing changes.
#[derive(Debug, Default)]
pub(super) struct Filters {
    bank: filter::Scratch,
    /// The event's number, so that marks of earlier ones are ignored. 0 is never used.
    epoch: u64,
    /// Marks with `epoch`: evaluated groups of constraints, matching filters, visited members, and members and admins
    /// with matching filters.
    groups: Vec<u64>,
    filters: Vec<u64>,
    touched: Vec<u64>,
    members: Vec<u64>,
    admins: Vec<u64>,
    /// Result of a constraint for the event of the mark.
    texts: Vec<(u64, bool)>,
    /// Value of a mapping filter for the event of the mark.
    mapped: Vec<(u64, Option<i64>)>,
    /// Members that need a verdict, and admins with matching filters.
    candidates: Vec<u32>,
    matched_admins: Vec<u32>,
    /// The event's consumers, by rising place.
    pub(super) chosen: Vec<Chosen>,
    pub(super) effort: Effort,
}

/// Effort of filtering an event.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Effort {
    pub(super) evaluations: u32,
    pub(super) failures: u32,
    pub(super) cut: bool,
}

impl Filters {
    /// Allocates room for a channel's filters and consumers, so that its events need not.
    pub(super) fn fit(&mut self, routes: &ChannelRoutes) {
        let (table, consumers) = (&routes.filtering.table, routes.consumers.places());
        self.chosen.clear();
        self.chosen.reserve(consumers);
        if table.is_empty() && !routes.traits.any_remote_filters {
            return;
        }
        grow(&mut self.groups, table.groups as usize);
        grow(&mut self.filters, table.programs.len());
        grow(&mut self.texts, table.texts.len());
        grow(&mut self.mapped, table.programs.len());
        grow(&mut self.members, consumers);
        grow(&mut self.touched, consumers);
        let admins = routes.filtering.admins.len();
        grow(&mut self.admins, admins);
        self.candidates.clear();
        self.candidates.reserve(consumers);
        self.matched_admins.reserve(admins);
    }

    /// Starts with the next event.
    pub(super) fn begin(&mut self) {
        self.epoch += 1;
        self.effort = Effort::default();
    }

    // ---- one constraint at a time ----

    /// Result of a constraint for the event, evaluated once.
    fn text<F: filter::Fields>(&mut self, table: &FilterTable, text: u32, fields: &F, steps: &mut Steps) -> bool {
        let Some(found) = table.text(text) else { return false };
        if let Some(always) = found.program.always() {
            return always;
        }
        match self.texts.get(text as usize) {
            Some((epoch, says)) if *epoch == self.epoch => return *says,
            // Its bank was evaluated, and it did not match.
            _ if found.group.is_some_and(|group| is_marked(&self.groups, group, self.epoch)) => return false,
            _ => {}
        }
        self.effort.evaluations += 1;
        let says = match found.program.matches(fields, steps) {
            Matching::Match => true,
            Matching::NoMatch => false,
            Matching::Failed(_) => {
                self.effort.failures += 1;
                false
            }
            Matching::Cut => {
                self.effort.cut = true;
                false
            }
        };
        let epoch = self.epoch;
        if let Some(place) = self.texts.get_mut(text as usize) {
            *place = (epoch, says);
        }
        says
    }

    /// The value of the first of a filter's constraints that matches the event.
    fn first_match<F: filter::Fields>(
        &mut self,
        (state, known): (&ChannelState, &Known),
        slot: u32,
        fields: &F,
        steps: &mut Steps,
    ) -> Option<i64> {
        let table = &state.routes.filtering.table;
        let program = table.program(slot)?;
        let mut rows = program.rows.iter().filter(|row| state.destinations.is_in(known, row.list));
        rows.find(|row| self.text(table, row.text, fields, steps)).map(|row| row.value)
    }

    // ---- the supplier's side ----

    /// Verdict of the filters on the supplier's side.
    pub(super) fn screen<F: filter::Fields>(
        &mut self,
        of: (&ChannelState, &Known),
        groups: &SupplierGroups,
        fields: &F,
        steps: &mut Steps,
    ) -> Verdict {
        let proxy = self.ask_group(of, &groups.proxy, fields, steps);
        let admin = match (proxy, groups.operator) {
            (Some(Answer::No), crate::Operator::And) | (Some(Answer::Yes), crate::Operator::Or) => None,
            _ => self.ask_group(of, &groups.admin, fields, steps),
        };
        combine(proxy, admin, groups.operator)
    }

    fn ask_group<F: filter::Fields>(
        &mut self,
        of: (&ChannelState, &Known),
        group: &SupplierGroup,
        fields: &F,
        steps: &mut Steps,
    ) -> Option<Answer> {
        if group.is_empty() {
            return None;
        }
        let matches = group.local.iter().any(|slot| self.first_match(of, *slot, fields, steps).is_some());
        Some(match (matches, group.remote) {
            (true, _) => Answer::Yes,
            (false, true) => Answer::Ask,
            (false, false) => Answer::No,
        })
    }

    // ---- the consumers' side ----

    /// Chooses the consumers that take every event of the type.
    #[inline]
    pub(super) fn choose_all(&mut self, state: &ChannelState, known: &Known) {
        self.chosen.clear();
        let always = state.destinations.always(known).iter();
        self.chosen.extend(always.map(|member| Chosen {
            slot: state.slot_of(*member),
            member: *member,
            ask: Ask::NONE,
        }));
    }

    /// Evaluates filters for the consumers that depend on them, and chooses those and the consumers that take the
    /// event anyway. `is_alive` returns whether an outbox gets events.
    pub(super) fn choose<F: filter::Fields>(
        &mut self,
        (state, known): (&ChannelState, &Known),
        is_alive: impl Fn(u32) -> bool,
        fields: &F,
        steps: &mut Steps,
    ) {
        self.candidates.clear();
        for section in state.destinations.sections(known) {
            self.ask_section(state, known, *section, fields, steps);
        }
        let mut admins = core::mem::take(&mut self.matched_admins);
        for admin in admins.drain(..) {
            for member in state.destinations.decided_by_admin(known, admin) {
                self.touch(member);
            }
        }
        self.matched_admins = admins;
        for member in state.destinations.looks(known) {
            self.touch(*member);
        }
        self.candidates.sort_unstable();

        self.chosen.clear();
        let consumers = &state.routes.consumers;
        let mut always = state.destinations.always(known).iter().copied().peekable();
        let chosen = |member, ask| Chosen { slot: state.slot_of(member), member, ask };
        for member in self.candidates.iter().copied() {
            let Some(stance) = state.destinations.stance(known, member) else { continue };
            let own_match = is_marked(&self.members, member, self.epoch);
            let admin_match = stance.depends_on_admin()
                && consumers
                    .get(member)
                    .and_then(|consumer| consumer.filtered_admin)
                    .is_some_and(|admin| is_marked(&self.admins, admin, self.epoch));
            let ask = match stance.verdict(own_match, admin_match) {
                Verdict::Dropped => continue,
                Verdict::Passed => Ask::NONE,
                Verdict::Ask(filter_groups) => Ask::of(filter_groups),
            };
            while let Some(member) = always.next_if(|before| *before < member) {
                self.chosen.push(chosen(member, Ask::NONE));
            }
            // A consumer that gets every event may also have a match of its own filters.
            if always.peek() != Some(&member) && is_alive(state.slot_of(member)) {
                self.chosen.push(chosen(member, ask));
            }
        }
        self.chosen.extend(always.map(|member| chosen(member, Ask::NONE)));
    }

    fn ask_section<F: filter::Fields>(
        &mut self,
        state: &ChannelState,
        known: &Known,
        section: u32,
        fields: &F,
        steps: &mut Steps,
    ) {
        let filtering = &state.routes.filtering;
        let Some(found) = filtering.table.sections.get(section as usize) else { return };
        let mut bank = core::mem::take(&mut self.bank);
        let evaluated = found.bank.evaluate(fields, &mut bank, steps);
        self.effort.evaluations += evaluated.evaluations;
        self.effort.failures += evaluated.failures;
        self.effort.cut |= evaluated.cut;
        // All sections of a group are evaluated before anything else, since they are for the same types.
        mark(&mut self.groups, found.group, self.epoch);
        let only_list = found.lists.len() == 1;
        for at in evaluated.matched {
            if let Some(text) = found.texts.get(*at as usize)
                && let Some(place) = self.texts.get_mut(*text as usize)
            {
                *place = (self.epoch, true);
            }
            for one in found.uses(*at) {
                if (only_list || state.destinations.is_in(known, one.list))
                    && mark(&mut self.filters, one.filter, self.epoch)
                {
                    for target in filtering.targets(one.filter) {
                        self.match_group(*target);
                    }
                }
            }
        }
        self.bank = bank;
    }

    /// Notes that the event matches a filter of a group.
    fn match_group(&mut self, target: Target) {
        match target {
            Target::Member(member) => {
                if mark(&mut self.members, member, self.epoch) {
                    self.touch(member);
                }
            }
            Target::Admin(admin) => {
                if mark(&mut self.admins, admin, self.epoch) {
                    self.matched_admins.push(admin);
                }
            }
        }
    }

    fn touch(&mut self, member: u32) {
        if mark(&mut self.touched, member, self.epoch) {
            self.candidates.push(member);
        }
    }

    // ---- mapping ----

    /// Value of a mapping filter for the event. OMG Notification Service 1.1, 2.3.1 and 3.2.2.10: the best value of
    /// the constraints that match; if none does and the event has no value itself, the filter's default value.
    pub(super) fn map<F: filter::Fields>(
        &mut self,
        (state, known): (&ChannelState, &Known),
        slot: u32,
        says_itself: bool,
        fields: &F,
        steps: &mut Steps,
    ) -> Option<i64> {
        let at = slot as usize;
        let matched = match self.mapped.get(at) {
            Some((epoch, value)) if *epoch == self.epoch => *value,
            _ => {
                let value = self.first_match((state, known), slot, fields, steps);
                let epoch = self.epoch;
                if let Some(place) = self.mapped.get_mut(at) {
                    *place = (epoch, value);
                }
                value
            }
        };
        matched.or_else(|| default_value(&state.routes.filtering.table, slot, says_itself))
    }

    /// Value of a mapping filter for an event that [`map`](Self::map) has evaluated before.
    pub(super) fn mapped(&self, table: &FilterTable, slot: u32, says_itself: bool) -> Option<i64> {
        let mapped = self.mapped.get(slot as usize).filter(|(epoch, _)| *epoch == self.epoch);
        mapped.and_then(|(_, value)| *value).or_else(|| default_value(table, slot, says_itself))
    }
}

fn default_value(table: &FilterTable, slot: u32, says_itself: bool) -> Option<i64> {
    if says_itself { None } else { table.program(slot)?.default_value }
}

/// Marks an entry with an event's number. Returns whether it was unmarked.
fn mark(marks: &mut [u64], at: u32, epoch: u64) -> bool {
    marks.get_mut(at as usize).is_some_and(|mark| core::mem::replace(mark, epoch) != epoch)
}

fn is_marked(marks: &[u64], at: u32, epoch: u64) -> bool {
    marks.get(at as usize) == Some(&epoch)
}

fn grow<T: Clone + Default>(list: &mut Vec<T>, len: usize) {
    if list.len() < len {
        list.resize(len, T::default());
    }
}

//! The filters' part of a topology.

use super::callbacks::Callbacks;
use super::expression::{Expression, MappedValue, New};
use super::store::{Constraints, Filter, Filters, Installed, Mapping, Role};
use crate::exceptions::Raised;
use crate::protocol::convert::{event_types_from, event_types_to};
use crate::protocol::{InContext, Ledger, Thing};
use engine::{ChannelId, FilterId, Numbered};
use giop::cdr::{CharSet, Encoding, Endian, Reader, Writer};
use giop::ior::Ior;
use std::collections::BTreeMap;
use topology as t;

/// Encoding of stored values.
fn encoding() -> Encoding {
    Encoding { chars: CharSet::Utf8, ..Encoding::new(Endian::Little) }
}

fn value_to(held: &MappedValue) -> t::Value {
    let mut octets = Vec::new();
    held.write_or_null(&mut Writer::new(&mut octets, encoding()));
    t::Value::of(&octets)
}

fn value_from(value: &t::Value) -> Result<MappedValue, Raised> {
    let octets = value.octets().ok_or_else(Raised::bad_param)?;
    MappedValue::read(&mut Reader::new(&octets, encoding()), &mut MappedValue::work())
}

fn constraint_to(installed: &Installed) -> t::Constraint {
    let Installed { id, types, program, value } = installed;
    t::Constraint {
        id: *id,
        types: event_types_to(types),
        expression: program.text().into(),
        value: value.as_ref().map(value_to),
    }
}

impl Filters {
    /// Number of filters and constraints.
    pub(crate) fn constraints_count(&self) -> usize {
        self.objects.values().map(|filter| 1 + filter.constraints.len()).sum()
    }

    /// Numbers of all filters.
    pub(crate) fn numbers(&self) -> Vec<FilterId> {
        self.objects.keys().copied().collect()
    }

    /// The clients' filter for an engine's filter, which may be its half for lifetimes.
    pub(crate) fn whole_of(&self, filter: FilterId) -> FilterId {
        self.lifetimes.get(&filter).copied().unwrap_or(filter)
    }
}

impl Filter {
    fn exported(&self, ledger: &Ledger, id: FilterId) -> t::Filter {
        let Self { channel: _, grammar, constraints, role } = self;
        t::Filter {
            id: id.0,
            grammar: grammar.clone(),
            role: match role {
                Role::Decides(callbacks) => callbacks.exported(),
                Role::Maps(Mapping { default, for_priority, for_lifetime }) => t::Role::Maps {
                    default: value_to(default),
                    for_priority: *for_priority,
                    for_lifetime: for_lifetime.map(|other| other.0),
                },
            },
            next_constraint: constraints.next_id(),
            constraints: constraints.iter().map(|installed| constraint_to(installed)).collect(),
            owner: ledger.stored_owner(Thing::Filter(id)),
        }
    }
}

impl Filters {
    /// The filters of each channel.
    pub(crate) fn exported(&self, ledger: &Ledger) -> BTreeMap<ChannelId, Vec<t::Filter>> {
        let mut by_channel: BTreeMap<ChannelId, Vec<t::Filter>> = BTreeMap::new();
        for (id, filter) in &self.objects {
            by_channel.entry(filter.channel).or_default().push(filter.exported(ledger, *id));
        }
        by_channel
    }

    /// The filters of one channel.
    pub(crate) fn exported_of(&self, ledger: &Ledger, channel: ChannelId) -> Vec<t::Filter> {
        let filters = self.objects.iter().filter(|(_, filter)| filter.channel == channel);
        filters.map(|(id, filter)| filter.exported(ledger, *id)).collect()
    }

    /// A filter that clients know, and its channel.
    pub(crate) fn exported_one(&self, ledger: &Ledger, id: FilterId) -> Option<(ChannelId, t::Filter)> {
        let filter = self.objects.get(&id)?;
        Some((filter.channel, filter.exported(ledger, id)))
    }
}

impl InContext<'_, Filters> {
    /// Restores the filters, by rising number.
    pub(crate) fn restore<'f>(
        &mut self,
        filters: impl Iterator<Item = (ChannelId, &'f t::Filter)>,
    ) -> Result<(), Raised> {
        let mut halves = BTreeMap::new();
        let mut all = BTreeMap::new();
        for (channel, filter) in filters {
            all.insert(filter.id, (channel, filter));
            if let t::Role::Maps { for_lifetime: Some(other), .. } = filter.role {
                halves.insert(other, FilterId(filter.id));
            }
        }
        let numbers: Vec<u32> = all.keys().chain(halves.keys()).copied().collect();
        let mut numbers = numbers;
        numbers.sort_unstable();
        for number in numbers {
            self.hierarchy.skip_numbers(Numbered::Filters, number)?;
            if let Some((channel, filter)) = all.get(&number) {
                self.restore_filter(*channel, filter)?;
            } else if let Some(whole) = halves.get(&number) {
                self.mapping_of_lifetime(*whole)?;
            }
        }
        Ok(())
    }

    fn restore_filter(&mut self, channel: ChannelId, filter: &t::Filter) -> Result<(), Raised> {
        let t::Filter { id, grammar, role, next_constraint, constraints, owner } = filter;
        if !filter::is_grammar(grammar) {
            return Err(Raised::bad_param());
        }
        let role_made = match role {
            t::Role::Decides { .. } => Role::Decides(Callbacks::default()),
            t::Role::Maps { default, .. } => {
                Role::Maps(Mapping { default: value_from(default)?, for_priority: false, for_lifetime: None })
            }
        };
        let made = self.create(channel, grammar.clone(), role_made)?;
        if made.0 != *id {
            return Err(Raised::bad_param());
        }
        self.ledger.own_again(Thing::Filter(made), owner.as_ref());
        let mut new = Vec::new();
        for t::Constraint { id, types, expression, value } in constraints {
            let expression = Expression { types: event_types_from(types), text: expression.clone() };
            new.push((*id, New { expression, value: value.as_ref().map(value_from).transpose()? }));
        }
        self.restore_constraints(made, new, *next_constraint)?;
        match role {
            t::Role::Decides { next_callback, callbacks } => {
                let callbacks: Option<Vec<(u32, Ior)>> =
                    callbacks.iter().map(|callback| Some((callback.id, callback.reference.parse().ok()?))).collect();
                self.restore_callbacks(made, callbacks.ok_or_else(Raised::bad_param)?, *next_callback)
            }
            t::Role::Maps { for_priority: true, .. } => self.mapping_of_priority(made).map(drop),
            t::Role::Maps { .. } => Ok(()),
        }
    }

    fn restore_constraints(&mut self, id: FilterId, new: Vec<(i32, New)>, next: i32) -> Result<(), Raised> {
        let limits = self.limits(id)?;
        let filter = self.own.get(id)?;
        let mut constraints = Constraints::default();
        for (number, new) in new {
            constraints.put_checked(number, new, &filter.role, &limits)?;
        }
        constraints.skip_to(next);
        self.replace_constraints(id, constraints)
    }
}

/// A callback's reference, as stored.
pub(super) fn callback_to(id: u32, reference: &Ior) -> t::Callback {
    t::Callback { id, reference: reference.to_string(), unreachable_s: 0 }
}

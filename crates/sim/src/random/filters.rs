//! Filters, created, changed, attached and destroyed at random, and the engine's reader of fields.

use std::sync::Arc;

use engine::{Event, EventType, FilterConstraint, FilterId, FilterRef, FilterTarget, Forms, Mapping, Peer, Side};
use filter::{Fields, Path, Root, Steps, Value};

use super::{PATTERNS, Run, same};
use crate::model::{Condition, Constraint, FIELD_NAMES};

/// Offset of an event's fields, after its label.
pub(super) const FIELDS_AT: usize = 8;
/// Steps for one field, so that with one step alone no field is known.
const STEPS_PER_FIELD: u32 = 2;

/// Reader of fields from the bytes after an event's label.
pub(crate) struct Bytes;

pub(crate) struct Read<'e>(&'e [u8]);

impl Forms for Bytes {
    type Fields<'e> = Read<'e>;

    fn fields<'e>(&'e self, event: &'e Event) -> Read<'e> {
        Read(event.bytes.get(FIELDS_AT..).unwrap_or_default())
    }
}

impl Fields for Read<'_> {
    fn field<'f>(&'f self, path: &Path, steps: &mut Steps) -> Option<Value<'f>> {
        if !steps.take(STEPS_PER_FIELD) {
            return None;
        }
        let Root::Name(name) = &path.root else { return None };
        let at = FIELD_NAMES.iter().position(|known| **known == **name)?;
        self.0.get(at).map(|byte| Value::Int(i64::from(*byte)))
    }

    fn contains(&self, _: &Path, _: &Value<'_>, _: &mut Steps) -> Option<bool> {
        None
    }

    fn current_time(&self) -> u64 {
        0
    }
}

impl Run {
    pub(super) fn change_filters(&mut self) -> Result<String, String> {
        let filter = self.filter();
        match self.random.u32(..20) {
            0..3 => self.create_filter(),
            3..7 => self.set_constraints(filter),
            7..12 => self.add_filter(filter),
            12..15 => self.remove_filter(),
            15 => {
                let target = self.target();
                let engine = self.hierarchy.remove_all_filters(target);
                same("remove all filters", &engine, &self.model.world.remove_all_filters(target))?;
                Ok(format!("remove all filters of {target:?}: {engine:?}"))
            }
            16 => {
                let engine = self.hierarchy.destroy_filter(filter);
                same("destroy filter", &engine, &self.model.world.destroy_filter(filter))?;
                Ok(format!("destroy {filter:?}: {engine:?}"))
            }
            _ => self.set_mapping(filter),
        }
    }

    pub(super) fn create_filter(&mut self) -> Result<String, String> {
        let channel = self.channel();
        let engine = self.hierarchy.create_filter(channel);
        same("create filter", &engine, &self.model.world.create_filter(channel))?;
        match engine {
            Ok(filter) => self.set_constraints(filter),
            Err(refusal) => Ok(format!("create a filter in {channel:?}: {refusal:?}")),
        }
    }

    fn set_constraints(&mut self, filter: FilterId) -> Result<String, String> {
        let model: Vec<Constraint> = (0..self.random.u32(..4)).map(|_| self.constraint()).collect();
        let default_value = self.random.bool().then(|| self.value());
        let compiled = model.iter().map(|constraint| {
            let program = filter::Constraint::parse(&constraint.text(), &filter::Limits::default());
            let program = Arc::new(program.map_err(|error| error.to_string())?);
            Ok::<_, String>(FilterConstraint {
                types: constraint.types.as_slice().into(),
                program,
                value: constraint.value,
            })
        });
        let compiled = compiled.collect::<Result<Vec<_>, _>>()?;
        let said = format!("{filter:?} is {model:?}, else {default_value:?}");
        let engine = self.hierarchy.set_constraints(filter, compiled, default_value);
        same("set constraints", &engine, &self.model.world.set_constraints(filter, model, default_value))?;
        Ok(format!("{said}: {engine:?}"))
    }

    fn add_filter(&mut self, filter: FilterId) -> Result<String, String> {
        let target = self.target();
        self.next_peer += 1;
        let filter =
            if self.random.u32(..4) == 0 { FilterRef::Remote(Peer(self.next_peer)) } else { FilterRef::Local(filter) };
        let engine = self.hierarchy.add_filter(target, filter);
        same("add filter", &engine, &self.model.world.add_filter(target, filter))?;
        Ok(format!("add {filter:?} to {target:?}: {engine:?}"))
    }

    fn remove_filter(&mut self) -> Result<String, String> {
        let target = self.target();
        let known = self.model.world.attached(target).map(|attached| attached.filters.clone()).unwrap_or_default();
        let ids: Vec<u32> = known.iter().map(|(id, _)| *id).collect();
        let id = if ids.is_empty() || self.random.u32(..10) == 0 { 1_000 } else { self.pick(&ids) };
        let engine = self.hierarchy.remove_filter(target, id);
        same("remove filter", &engine, &self.model.world.remove_filter(target, id))?;
        let left = self.hierarchy.filters(target).map(<[_]>::to_vec);
        same("filters", &left, &self.model.world.attached(target).map(|attached| attached.filters.clone()))?;
        Ok(format!("remove filter {id} of {target:?}: {engine:?}"))
    }

    fn set_mapping(&mut self, filter: FilterId) -> Result<String, String> {
        let target = self.target();
        let mapping = self.pick(&[Mapping::Priority, Mapping::Lifetime]);
        let filter = (self.random.u32(..4) > 0).then_some(filter);
        let engine = self.hierarchy.set_mapping(target, mapping, filter);
        same("set mapping", &engine, &self.model.world.set_mapping(target, mapping, filter))?;
        Ok(format!("{mapping:?} of {target:?} by {filter:?}: {engine:?}"))
    }

    /// A filter; now and then one that does not exist.
    fn filter(&mut self) -> FilterId {
        let known: Vec<FilterId> = self.model.world.filters.iter().map(|filter| filter.id).collect();
        if known.is_empty() || self.random.u32(..40) == 0 { FilterId(1_000_000) } else { self.pick(&known) }
    }

    fn target(&mut self) -> FilterTarget {
        let side = if self.random.u32(..5) > 0 { Side::Consumers } else { Side::Suppliers };
        if self.random.u32(..3) > 0 {
            return FilterTarget::Proxy(self.key(side));
        }
        let channel = self.channel();
        FilterTarget::Admin { channel, side, admin: self.admin(channel, side) }
    }

    fn constraint(&mut self) -> Constraint {
        let types = (0..self.random.usize(..3)).filter_map(|_| PATTERNS.get(self.random.usize(..PATTERNS.len())));
        let types: Vec<EventType> = types.map(|(domain, name)| EventType::new(*domain, *name)).collect();
        let conditions = (0..self.random.u32(..3)).map(|_| Condition {
            field: self.random.usize(..FIELD_NAMES.len()),
            // Few, so that filters have equal constraints.
            comparison: self.pick(&["==", ">=", ">=", "<"]),
            number: self.random.u8(1..3),
        });
        let conditions = conditions.collect();
        Constraint { types, conditions, value: self.value() }
    }

    /// A value of a mapping filter: a priority, or a lifetime of up to a second.
    fn value(&mut self) -> i64 {
        self.pick(&[-3, -1, 0, 1, 2, 5, 20_000_000, 300_000_000, 1_000_000_000])
    }
}

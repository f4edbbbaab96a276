//! The filters: their constraints, and the update of the engine after a change.

use super::callbacks::Callbacks;
use super::expression::{Expression, MappedValue, New};
use crate::exceptions::{Raised, UserException};
use crate::log_lines::log_line;
use crate::protocol::{InContext, Thing, weights};
use accounts::Resource;
use engine::{
    ChannelId, ChannelLimits, EventType, FilterConstraint, FilterId, FilterTarget, HierarchyPart, Peer, Refusal,
};
use filter::{Constraint, Limits};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Filters and mapping filters of all channels, and the users of foreign filters.
#[derive(Debug, Default)]
pub(crate) struct Filters {
    pub(super) objects: BTreeMap<FilterId, Filter>,
    /// The engine's filters for lifetimes, each with the mapping filter that it belongs to.
    pub(super) lifetimes: BTreeMap<FilterId, FilterId>,
    /// Octets of the constraints and values of each channel's filters.
    bytes: BTreeMap<ChannelId, usize>,
    /// Filter evaluations that were cut off since this was last read.
    pub(crate) cuts: u64,
    /// Foreign filters, by the admin or proxy that uses them.
    pub(super) remote: BTreeMap<FilterTarget, Vec<Peer>>,
}

impl Filters {
    /// An admin or proxy in a channel that uses foreign filters.
    pub(crate) fn with_remote(&self, channel: ChannelId) -> Option<FilterTarget> {
        let mut remote = self.remote.iter().filter(|(target, peers)| target.channel() == channel && !peers.is_empty());
        remote.next().map(|(target, _)| *target)
    }

    /// Notes that a filter's size in a channel changes from `before` to `now` octets; refuses to exceed the limit.
    fn weigh(&mut self, channel: ChannelId, before: usize, now: usize) -> Result<(), Raised> {
        let bytes = self.bytes.entry(channel).or_default();
        let after = bytes.saturating_sub(before) + now;
        if now > before && after > CHANNEL_BYTES_MAX {
            log_line!(
                Info,
                "constraints are refused: those of channel {} would take {after} bytes; the limit is {CHANNEL_BYTES_MAX}",
                channel.0
            );
            return Err(Raised::limit());
        }
        *bytes = after;
        Ok(())
    }

    /// Approximate size of a filter in memory, in octets.
    pub(crate) fn weight(&self, id: FilterId) -> Option<u64> {
        self.objects.get(&id).map(Filter::weight)
    }

    /// The channel to which a filter's factory belongs.
    pub(crate) fn channel(&self, id: FilterId) -> Option<ChannelId> {
        self.objects.get(&id).map(|filter| filter.channel)
    }

    pub(crate) fn is_mapping(&self, id: FilterId) -> bool {
        self.objects.get(&id).is_some_and(|filter| matches!(filter.role, Role::Maps(_)))
    }

    /// Looks up a filter; the object was found when the request began.
    pub(super) fn get(&self, id: FilterId) -> Result<&Filter, Raised> {
        self.objects.get(&id).ok_or_else(Raised::object_not_exist)
    }

    pub(super) fn get_mut(&mut self, id: FilterId) -> Result<&mut Filter, Raised> {
        self.objects.get_mut(&id).ok_or_else(Raised::object_not_exist)
    }

    pub(super) fn mapping(&self, id: FilterId) -> Result<&Mapping, Raised> {
        match &self.get(id)?.role {
            Role::Maps(mapping) => Ok(mapping),
            Role::Decides(_) => Err(Raised::internal()),
        }
    }

    /// Some of a filter's constraints, in the requested order.
    pub(super) fn some_constraints(&self, id: FilterId, ids: &[i32]) -> Result<Vec<Arc<Installed>>, Raised> {
        let filter = self.get(id)?;
        ids.iter().map(|id| filter.constraints.get(*id).cloned()).collect()
    }

    /// All of a filter's constraints, the oldest first.
    pub(super) fn all_constraints(&self, id: FilterId) -> Result<Vec<Arc<Installed>>, Raised> {
        Ok(self.get(id)?.constraints.iter().cloned().collect())
    }

    /// The channel is gone; its filters go one by one.
    pub(crate) fn forget_channel(&mut self, channel: ChannelId) {
        self.bytes.remove(&channel);
    }
}

/// Maximum octets of the constraints, with their event types and values, of all filters of a channel. Their compiled form takes several
/// times as much.
const CHANNEL_BYTES_MAX: usize = 64 << 20;

/// A filter or mapping filter.
#[derive(Debug)]
pub(super) struct Filter {
    pub(super) channel: ChannelId,
    /// The grammar's name as its creator wrote it.
    pub(super) grammar: String,
    pub(super) constraints: Constraints,
    pub(super) role: Role,
}

/// The kind of a filter.
#[derive(Debug)]
pub(super) enum Role {
    /// Decides which events pass.
    Decides(Callbacks),
    /// Gives events another priority or lifetime.
    Maps(Mapping),
}

/// Properties of a mapping filter beside its constraints.
#[derive(Debug)]
pub(super) struct Mapping {
    pub(super) default: MappedValue,
    /// Whether it has ever been used for priorities.
    pub(super) for_priority: bool,
    /// The engine's filter with its values as lifetimes, if it has ever been used for them.
    pub(super) for_lifetime: Option<FilterId>,
}

/// A valid constraint.
#[derive(Debug)]
pub(super) struct Installed {
    pub(super) id: i32,
    pub(super) types: Arc<[EventType]>,
    pub(super) program: Arc<Constraint>,
    /// The value of a mapping filter's constraint.
    pub(super) value: Option<MappedValue>,
}

impl Installed {
    /// Approximate size on the wire, in octets.
    fn bytes(&self) -> usize {
        const EACH: usize = 16;
        let types: usize = self.types.iter().map(|kind| EACH + kind.domain.len() + kind.name.len()).sum();
        EACH + types + self.program.text().len() + self.value.as_ref().map_or(0, MappedValue::len)
    }

    /// The constraint as it was sent.
    pub(super) fn expression(&self) -> Expression {
        Expression { types: self.types.to_vec(), text: self.program.text().into() }
    }
}

impl Filter {
    fn weight(&self) -> u64 {
        let callbacks = match &self.role {
            Role::Decides(callbacks) => callbacks.octets(),
            Role::Maps(_) => 0,
        };
        weights::FILTER + self.grammar.len() as u64 + callbacks + weights::CONSTRAINT_OCTET * self.bytes() as u64
    }

    fn bytes(&self) -> usize {
        let default = match &self.role {
            Role::Maps(mapping) => mapping.default.len(),
            Role::Decides(_) => 0,
        };
        default + self.constraints.bytes
    }
}

/// A filter's constraints by id. Cheap to copy: a change is made to a copy and takes effect completely or not at all.
#[derive(Clone, Debug)]
pub(super) struct Constraints {
    by_id: BTreeMap<i32, Arc<Installed>>,
    next: i32,
    /// Octets of all constraints.
    bytes: usize,
}

impl Default for Constraints {
    fn default() -> Self {
        Self { by_id: BTreeMap::new(), next: 1, bytes: 0 }
    }
}

impl Constraints {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Installed>> {
        self.by_id.values()
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn get(&self, id: i32) -> Result<&Arc<Installed>, Raised> {
        self.by_id.get(&id).ok_or_else(|| UserException::ConstraintNotFound(id).into())
    }

    /// The constraints in order of evaluation: the best value first (OMG Notification Service 1.1, 3.2.2.10), then the older.
    pub(super) fn in_order(&self) -> Vec<&Arc<Installed>> {
        let mut ordered: Vec<_> = self.by_id.values().collect();
        ordered.sort_by_key(|installed| core::cmp::Reverse(installed.value.as_ref().map_or(0, MappedValue::rank)));
        ordered
    }

    /// The next constraint's number.
    pub(super) fn next_id(&self) -> i32 {
        self.next
    }

    /// Raises the next constraint's number to at least this one.
    pub(super) fn skip_to(&mut self, next: i32) {
        self.next = self.next.max(next);
    }

    /// Replaces a constraint, if the new one is valid.
    pub(super) fn put_checked(&mut self, id: i32, new: New, role: &Role, limits: &ChannelLimits) -> Result<(), Raised> {
        self.put(id, check(new, role, limits)?);
        self.skip_to(id.checked_add(1).ok_or(Refusal::IdsExhausted)?);
        Ok(())
    }

    fn add(&mut self, checked: Checked) -> Result<Arc<Installed>, Raised> {
        let id = self.next;
        self.next = id.checked_add(1).ok_or(Refusal::IdsExhausted)?;
        Ok(self.put(id, checked))
    }

    fn put(&mut self, id: i32, checked: Checked) -> Arc<Installed> {
        let Checked { types, program, value } = checked;
        let installed = Arc::new(Installed { id, types, program, value });
        self.bytes += installed.bytes();
        if let Some(replaced) = self.by_id.insert(id, Arc::clone(&installed)) {
            self.bytes -= replaced.bytes();
        }
        installed
    }

    fn remove(&mut self, id: i32) -> Result<(), Raised> {
        let gone = self.by_id.remove(&id).ok_or(UserException::ConstraintNotFound(id))?;
        self.bytes -= gone.bytes();
        Ok(())
    }
}

/// A valid constraint that has no id yet.
struct Checked {
    types: Arc<[EventType]>,
    program: Arc<Constraint>,
    value: Option<MappedValue>,
}

impl InContext<'_, Filters> {
    /// Makes a filter of either kind.
    pub(super) fn create(&mut self, channel: ChannelId, grammar: String, role: Role) -> Result<FilterId, Raised> {
        let filter = Filter { channel, grammar, constraints: Constraints::default(), role };
        let claim = self.ledger.charge_octets(filter.weight())?;
        let id = self.hierarchy.create_filter(channel)?;
        if let Err(refused) = self.own.weigh(channel, 0, filter.bytes()) {
            self.hierarchy.destroy_filter(id)?;
            return Err(refused);
        }
        self.own.objects.insert(id, filter);
        self.ledger.adjust(Thing::Filter(id), self.own.weight(id), claim);
        self.ledger.note_owner(Thing::Filter(id));
        self.made.note(Thing::Filter(id));
        Ok(id)
    }

    /// Destroys a filter of either kind, and detaches it from all objects.
    pub(crate) fn destroy(&mut self, id: FilterId) -> Result<(), Raised> {
        let filter = self.own.objects.remove(&id).ok_or_else(Raised::object_not_exist)?;
        self.ledger.remove(Thing::Filter(id));
        self.own.weigh(filter.channel, filter.bytes(), 0)?;
        self.hierarchy.destroy_filter(id)?;
        if let Role::Maps(Mapping { for_lifetime: Some(other), .. }) = filter.role {
            self.own.lifetimes.remove(&other);
            self.hierarchy.destroy_filter(other)?;
        }
        Ok(())
    }

    /// Removes a filter from the engine, after its channel is gone.
    pub(crate) fn forget(&mut self, id: FilterId) {
        self.own.objects.remove(&id);
        self.own.lifetimes.remove(&id);
        self.ledger.remove(Thing::Filter(id));
    }

    /// Changes a filter in a way that may add so many octets. On a refusal nothing is changed.
    pub(super) fn change<R>(
        &mut self,
        id: FilterId,
        octets_more: u64,
        change: impl FnOnce(&mut Self) -> Result<R, Raised>,
    ) -> Result<R, Raised> {
        let claim = self.ledger.claim(Thing::Filter(id), Resource::RetainedBytes, octets_more)?;
        let result = change(self)?;
        self.ledger.adjust(Thing::Filter(id), self.own.weight(id), claim);
        Ok(result)
    }

    /// The limits that a filter's constraints have to keep.
    pub(super) fn limits(&self, id: FilterId) -> Result<ChannelLimits, Raised> {
        Ok(*self.hierarchy.channel(self.own.get(id)?.channel)?.limits())
    }

    /// The limits for new constraints: no longer than the service accepts, whatever was granted to the channel before a restart.
    fn limits_of_new(&self, id: FilterId) -> Result<ChannelLimits, Raised> {
        let limits = self.limits(id)?;
        let constraint_bytes_max = limits.constraint_bytes_max.min(self.hierarchy.constraint_bytes_max());
        Ok(ChannelLimits { constraint_bytes_max, ..limits })
    }

    /// Adds constraints, all or none.
    pub(super) fn add_constraints(&mut self, id: FilterId, new: Vec<New>) -> Result<Vec<Arc<Installed>>, Raised> {
        let limits = self.limits_of_new(id)?;
        let filter = self.own.get(id)?;
        let limit = limits.constraints_per_filter_max;
        if filter.constraints.len() + new.len() > limit as usize {
            return Err(Refusal::TooManyConstraints { limit }.into());
        }
        let mut constraints = filter.constraints.clone();
        let added = new.into_iter().map(|new| constraints.add(check(new, &filter.role, &limits)?));
        let added = added.collect::<Result<_, Raised>>()?;
        self.replace_constraints(id, constraints)?;
        Ok(added)
    }

    /// Removes constraints, then changes the expression or value of others; all or nothing.
    pub(super) fn modify_constraints(
        &mut self,
        id: FilterId,
        deleted: &[i32],
        modified: Vec<(i32, New)>,
    ) -> Result<(), Raised> {
        let limits = self.limits_of_new(id)?;
        let filter = self.own.get(id)?;
        let mut constraints = filter.constraints.clone();
        for gone in deleted {
            constraints.remove(*gone)?;
        }
        for (of, _) in &modified {
            constraints.get(*of)?;
        }
        for (of, new) in modified {
            constraints.put(of, check(new, &filter.role, &limits)?);
        }
        self.replace_constraints(id, constraints)
    }

    pub(super) fn remove_all_constraints(&mut self, id: FilterId) -> Result<(), Raised> {
        let mut constraints = self.own.get(id)?.constraints.clone();
        constraints.by_id.clear();
        constraints.bytes = 0;
        self.replace_constraints(id, constraints)
    }

    /// Applies a filter's constraints, and notifies its callbacks if its event types change.
    pub(super) fn replace_constraints(&mut self, id: FilterId, constraints: Constraints) -> Result<(), Raised> {
        let (channel, before) = (self.own.get(id)?.channel, self.own.get(id)?.constraints.bytes);
        let now = constraints.bytes;
        self.own.weigh(channel, before, now)?;
        let octets = weights::CONSTRAINT_OCTET * now.saturating_sub(before) as u64;
        if let Err(refused) = self.change(id, octets, |filters| filters.install(id, constraints)) {
            // Nothing was changed, so it is as it was.
            self.own.weigh(channel, now, before)?;
            return Err(refused);
        }
        self.tell_callbacks(id);
        Ok(())
    }

    /// Passes a filter's constraints to the engine, and stores them if it accepts them.
    fn install(&mut self, id: FilterId, constraints: Constraints) -> Result<(), Raised> {
        let filter = self.own.get_mut(id)?;
        match &filter.role {
            Role::Decides(_) => {
                let program = constraints.iter().map(|installed| engine_constraint(installed, 0)).collect();
                self.hierarchy.set_constraints(id, program, None)?;
            }
            Role::Maps(mapping) => {
                // Both have the same constraints and thus keep, or not, to the same limits.
                if mapping.for_priority {
                    let (program, default) = program(&constraints, mapping, MappedValue::priority)?;
                    self.hierarchy.set_constraints(id, program, Some(default))?;
                }
                if let Some(other) = mapping.for_lifetime {
                    let (program, default) = program(&constraints, mapping, MappedValue::lifetime_ns)?;
                    self.hierarchy.set_constraints(other, program, Some(default))?;
                }
            }
        }
        filter.constraints = constraints;
        // The engine notes no change of a mapping filter that is not used yet, since it has none.
        self.hierarchy.note_changed_part(HierarchyPart::Filter(id));
        Ok(())
    }

    /// Prepares a mapping filter for priorities, and returns the engine's id.
    pub(crate) fn mapping_of_priority(&mut self, id: FilterId) -> Result<FilterId, Raised> {
        let filter = self.own.get_mut(id)?;
        let Role::Maps(mapping) = &mut filter.role else { return Err(Raised::internal()) };
        if !mapping.for_priority {
            let (program, default) = program(&filter.constraints, mapping, MappedValue::priority)?;
            self.hierarchy.set_constraints(id, program, Some(default))?;
            mapping.for_priority = true;
        }
        Ok(id)
    }

    /// Prepares a mapping filter for lifetimes, and returns the engine's id.
    pub(crate) fn mapping_of_lifetime(&mut self, id: FilterId) -> Result<FilterId, Raised> {
        let filter = self.own.get_mut(id)?;
        let Role::Maps(mapping) = &mut filter.role else { return Err(Raised::internal()) };
        if let Some(other) = mapping.for_lifetime {
            return Ok(other);
        }
        let (program, default) = program(&filter.constraints, mapping, MappedValue::lifetime_ns)?;
        let other = self.hierarchy.create_filter(filter.channel)?;
        if let Err(refusal) = self.hierarchy.set_constraints(other, program, Some(default)) {
            self.hierarchy.destroy_filter(other)?;
            return Err(refusal.into());
        }
        mapping.for_lifetime = Some(other);
        self.own.lifetimes.insert(other, id);
        Ok(other)
    }
}

/// Constraints and default of a mapping filter, for the engine; `BAD_PARAM` if one of its values does not fit its use.
fn program(
    constraints: &Constraints,
    mapping: &Mapping,
    number: fn(&MappedValue) -> Option<i64>,
) -> Result<(Vec<FilterConstraint>, i64), Raised> {
    let value = |installed: &Arc<Installed>| {
        let number = installed.value.as_ref().and_then(number).ok_or_else(Raised::bad_param)?;
        Ok(engine_constraint(installed, number))
    };
    let program = constraints.in_order().into_iter().map(value).collect::<Result<_, Raised>>()?;
    Ok((program, number(&mapping.default).ok_or_else(Raised::bad_param)?))
}

fn engine_constraint(installed: &Installed, value: i64) -> FilterConstraint {
    FilterConstraint { types: Arc::clone(&installed.types), program: Arc::clone(&installed.program), value }
}

/// Checks and compiles a constraint. Errors are logged, since the exception has no room for them.
fn check(new: New, role: &Role, limits: &ChannelLimits) -> Result<Checked, Raised> {
    let New { expression, value } = new;
    let language =
        Limits { bytes_max: limits.constraint_bytes_max, nodes_max: limits.constraint_nodes_max, ..Limits::default() };
    let program = match Constraint::parse(&expression.text, &language) {
        Ok(program) => Arc::new(program),
        Err(error) => {
            log_line!(Info, "the constraint {} is refused: {error}", shown(&expression.text));
            return Err(UserException::InvalidConstraint(expression).into());
        }
    };
    if let Some(value) = &value
        && !is_acceptable(value, role)
    {
        log_line!(
            Info,
            "a value of the constraint {} is refused: it is not of its filter's type or range",
            shown(&expression.text)
        );
        return Err(UserException::InvalidValue { constraint: expression, value: Box::new(value.clone()) }.into());
    }
    Ok(Checked { types: expression.types.into(), program, value })
}

/// Whether a mapping filter accepts a value: the value has the default's type, and is a priority or lifetime if the filter is used so.
fn is_acceptable(value: &MappedValue, role: &Role) -> bool {
    let Role::Maps(mapping) = role else { return false };
    value.type_code().equivalent(mapping.default.type_code())
        && (!mapping.for_priority || value.priority().is_some())
        && (mapping.for_lifetime.is_none() || value.lifetime_ns().is_some())
}

/// The beginning of a constraint, printable, for a log line.
fn shown(text: &str) -> String {
    const CHARS: usize = 200;
    let beginning: String = text.chars().take(CHARS).collect();
    let more = if beginning.len() < text.len() { "…" } else { "" };
    format!("{beginning:?}{more}")
}

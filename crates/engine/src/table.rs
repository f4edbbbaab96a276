//! A channel's filters as the event path uses them: built by administration when filters change, immutable from then
//! on.
//!
//! Each distinct constraint is stored once, and so is each distinct list of event types. Constraints that select consumers are in banks,
//! one section for each combination of event type lists, so that an event meets only those of its type. Suppliers' filters and mapping
//! filters concern few events each and are evaluated one by one.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use filter::{Bank, Constraint};

use crate::EventType;
use crate::shared::SharedSlots;

/// All filters in use in a channel: those attached to its admins and to its suppliers and connected consumers.
///
/// They are stored in slots, some of which may be empty.
#[derive(Debug, Default)]
pub(crate) struct FilterTable {
    pub(crate) programs: SharedSlots<Arc<Program>>,
    /// Each distinct list of event types; an empty list stands for any type.
    pub(crate) lists: SharedSlots<Arc<[EventType]>>,
    pub(crate) texts: SharedSlots<Text>,
    /// Number of slots for groups of constraints. Those of a group have the same event types, and are in one section
    /// or several.
    pub(crate) groups: u32,
    pub(crate) sections: Vec<Arc<Section>>,
}

#[derive(Debug, Default)]
pub(crate) struct Program {
    /// Rows, the best value first.
    pub(crate) rows: Box<[Row]>,
    pub(crate) default_value: Option<i64>,
}

/// One of a filter's constraints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) list: u32,
    pub(crate) text: u32,
    pub(crate) value: i64,
}

/// A distinct constraint.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) program: Arc<Constraint>,
    /// The group of banks with this constraint.
    pub(crate) group: Option<u32>,
}

/// Slot number of a removed constraint that is still in its bank.
pub(crate) const NO_TEXT: u32 = u32::MAX;

/// Constraints that are evaluated together because they have the same event types.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) group: u32,
    /// Lists of event types; an event meets the section if its type is in one of them.
    pub(crate) lists: Box<[u32]>,
    pub(crate) bank: Arc<Bank>,
    /// Slots of the bank's constraints; [`NO_TEXT`] for removed ones.
    pub(crate) texts: Box<[u32]>,
    /// Starts of each constraint's uses: `uses[starts[n]..starts[n + 1]]` are those of constraint `n`.
    pub(crate) starts: Box<[u32]>,
    pub(crate) uses: Box<[Use]>,
}

/// A use of a constraint: the filter that has it, and the event types it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) list: u32,
    pub(crate) filter: u32,
}

impl FilterTable {
    /// A filter by its slot.
    pub(crate) fn program(&self, slot: u32) -> Option<&Program> {
        self.programs.get(slot).map(Arc::as_ref)
    }

    /// A constraint by its slot.
    pub(crate) fn text(&self, slot: u32) -> Option<&Text> {
        self.texts.get(slot)
    }

    /// Whether no filters are in use.
    pub(crate) fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }
}

impl Section {
    /// Uses of the constraint at index `at`.
    pub(crate) fn uses(&self, at: u32) -> &[Use] {
        let at = at as usize;
        let (Some(start), Some(end)) = (self.starts.get(at), self.starts.get(at + 1)) else { return &[] };
        self.uses.get(*start as usize..*end as usize).unwrap_or_default()
    }
}

/// Attachments of a channel's filters on the consumers' side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filtering {
    pub(crate) table: Arc<FilterTable>,
    /// Targets of each filter, by its slot.
    pub(crate) targets: SharedSlots<Arc<[Target]>>,
    /// Slots of the filters of each consumer admin, by the admin's place among those with filters.
    pub(crate) admins: SharedSlots<Arc<[u32]>>,
    /// Whether a consumer or a consumer admin has a mapping filter.
    pub(crate) any_mapping: bool,
}

/// A filter group that a filter belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// The group of a consumer, by its place among the channel's consumers.
    Member(u32),
    /// The group of a consumer admin, by its place among those with filters.
    Admin(u32),
}

impl Filtering {
    /// Targets of the filter in `slot`.
    pub(crate) fn targets(&self, slot: u32) -> &[Target] {
        self.targets.get(slot).map_or(&[], Arc::as_ref)
    }
}

/// The filters of a supplier: its own group and its admin's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SupplierGroups {
    pub(crate) operator: crate::Operator,
    pub(crate) proxy: SupplierGroup,
    pub(crate) admin: SupplierGroup,
}

/// One group of filters on the suppliers' side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SupplierGroup {
    /// Slots of the local filters.
    pub(crate) local: Box<[u32]>,
    /// Whether the group has remote filters.
    pub(crate) remote: bool,
}

impl SupplierGroup {
    /// Whether the group has no filters, and so is ignored.
    pub(crate) fn is_empty(&self) -> bool {
        self.local.is_empty() && !self.remote
    }
}

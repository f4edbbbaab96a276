//! A channel's filters as the event path uses them: built by administration when filters change, immutable from then on.
//!
//! Each distinct constraint is in it once, and so is each distinct list of event types. Constraints that decide where
//! events go are in banks, one section for each combination of event type lists, so that an event meets only those of
//! its type. Suppliers' filters and mapping filters concern few events each and are asked one by one.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use filter::{Bank, Constraint};

use crate::EventType;
use crate::shared::SharedSlots;

/// All filters that count in a channel: those attached to its admins and to its suppliers and connected consumers.
///
/// All of them are in slots, some of which may be empty.
#[derive(Debug, Default)]
pub(crate) struct FilterTable {
    pub(crate) programs: SharedSlots<Arc<Program>>,
    /// Each distinct list of event types; an empty list stands for any type.
    pub(crate) lists: SharedSlots<Arc<[EventType]>>,
    /// Each distinct constraint.
    pub(crate) texts: SharedSlots<Text>,
    /// How many slots for groups of constraints there are. Those of a group are for the same event types, in one section
    /// or several.
    pub(crate) groups: u32,
    pub(crate) sections: Vec<Arc<Section>>,
}

/// One filter.
#[derive(Debug, Default)]
pub(crate) struct Program {
    /// Best value first.
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
    /// The group with the banks that it is in.
    pub(crate) group: Option<u32>,
}

/// The place of a constraint that no filter has any more, while its bank still has it.
pub(crate) const NO_TEXT: u32 = u32::MAX;

/// Constraints that are asked together because they are for the same event types.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) group: u32,
    /// An event meets the section if its type is in one of these lists.
    pub(crate) lists: Box<[u32]>,
    pub(crate) bank: Arc<Bank>,
    /// The slots of the bank's constraints; [`NO_TEXT`] for those that no filter has any more.
    pub(crate) texts: Box<[u32]>,
    /// Where their uses begin: `uses[starts[n]..starts[n + 1]]` are those of constraint `n`.
    pub(crate) starts: Box<[u32]>,
    pub(crate) uses: Box<[Use]>,
}

/// A filter that has a constraint, and for which event types.
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

    /// Whether no filters count.
    pub(crate) fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }
}

impl Section {
    /// The uses of constraint `at`.
    pub(crate) fn uses(&self, at: u32) -> &[Use] {
        let at = at as usize;
        let (Some(start), Some(end)) = (self.starts.get(at), self.starts.get(at + 1)) else { return &[] };
        self.uses.get(*start as usize..*end as usize).unwrap_or_default()
    }
}

/// Where the filters of a channel count, on the consumers' side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filtering {
    pub(crate) table: Arc<FilterTable>,
    /// Where each filter is attached.
    pub(crate) targets: SharedSlots<Arc<[Target]>>,
    /// The slots of each consumers' admin's filters, by its place among those that have filters.
    pub(crate) admins: SharedSlots<Arc<[u32]>>,
    /// Whether a consumer or a consumers' admin has a mapping filter.
    pub(crate) any_mapping: bool,
}

/// A group that a filter belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// A consumer's own, by its place among the channel's consumers.
    Member(u32),
    /// A consumers' admin's, by its place among those that have filters.
    Admin(u32),
}

impl Filtering {
    /// Where a filter is attached.
    pub(crate) fn targets(&self, slot: u32) -> &[Target] {
        self.targets.get(slot).map_or(&[], Arc::as_ref)
    }
}

/// The filters on a supplier's side: its own group and its admin's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SupplierGroups {
    pub(crate) operator: crate::Operator,
    pub(crate) proxy: SupplierGroup,
    pub(crate) admin: SupplierGroup,
}

/// One group of filters on the suppliers' side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SupplierGroup {
    /// Slots of the filters made here.
    pub(crate) local: Box<[u32]>,
    /// Whether there are filters that clients implement.
    pub(crate) remote: bool,
}

impl SupplierGroup {
    /// Whether it has no filters, so that it does not count.
    pub(crate) fn is_empty(&self) -> bool {
        self.local.is_empty() && !self.remote
    }
}

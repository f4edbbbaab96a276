//! Filters of clients that have no objects: each has one constraint and belongs to one proxy.

use super::callbacks::Callbacks;
use super::expression::{Expression, New};
use super::store::Role;
use crate::exceptions::Raised;
use crate::protocol::Objects;
use engine::{FilterId, FilterRef, FilterTarget, ProxyKey};

impl Objects {
    /// Has events for a proxy pass a constraint.
    pub(crate) fn filter_for(&mut self, key: ProxyKey, constraint: String) -> Result<FilterId, Raised> {
        let filter = self.create_filter(key.channel, GRAMMAR.to_owned(), Role::Decides(Callbacks::default()))?;
        let new = New { expression: Expression { types: Vec::new(), text: constraint }, value: None };
        let added = self.add_constraints(filter, vec![new]);
        let placed = added.and_then(|_| self.give_place(FilterTarget::Proxy(key), FilterRef::Local(filter)));
        if let Err(raised) = placed {
            self.destroy_filter_of_local_proxy(filter);
            return Err(raised);
        }
        Ok(filter)
    }

    /// The proxy is gone that it belonged to.
    pub(crate) fn destroy_filter_of_local_proxy(&mut self, filter: FilterId) {
        let is_there = self.filters.channel(filter).is_some_and(|channel| self.has_channel(channel));
        if !is_there || self.destroy_filter(filter).is_err() {
            // It goes with its channel.
            self.forget_filter(filter);
        }
    }
}

/// The filter language's name in CORBA.
const GRAMMAR: &str = "EXTENDED_TCL";

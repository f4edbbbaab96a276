//! The kinds of proxies, with the interface, form of events, and operations of clients of each.

use super::event::{FORM_ANY, FORM_STRUCTURED};
use super::table::{self, Interface, Servant};
use super::{event_service, notify_comm};
use engine::{Form, Side};

/// The events of a proxy, and their interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Events {
    /// The Notification Service's, for Anys.
    Any,
    /// The Notification Service's, for structured events.
    Structured,
    /// The Notification Service's, for sequences of structured events.
    Sequence,
    /// The Event Service's, for Anys.
    Plain,
}

/// A kind of proxy; with its side there are the twelve of the Notification Service and the four of the Event Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProxyKind {
    pub(super) events: Events,
    /// Whether events are pulled rather than pushed: from the supplier by this service, or from this service by the
    /// consumer.
    pub(super) pull: bool,
}

impl ProxyKind {
    /// The kind of other protocols' clients.
    pub(super) const LOCAL: Self = Self { events: Events::Structured, pull: false };

    /// The form of its events; a sequence consists of structured ones.
    pub(super) const fn form(self) -> Form {
        match self.events {
            Events::Any | Events::Plain => FORM_ANY,
            Events::Structured | Events::Sequence => FORM_STRUCTURED,
        }
    }

    /// Whether several events travel in one call.
    pub(super) const fn batches(self) -> bool {
        matches!(self.events, Events::Sequence)
    }

    /// The kind in the engine's terms.
    pub(super) const fn passing(self) -> engine::ProxyKind {
        engine::ProxyKind { pull: self.pull, batches: self.batches(), on_main_lane: false }
    }

    /// The kind in the engine's terms, for clients on the main lane alone.
    pub(super) const fn passing_on_main_lane(self) -> engine::ProxyKind {
        engine::ProxyKind { on_main_lane: true, ..self.passing() }
    }

    /// Whether it belongs to the Event Service, without ids, types, filters and properties.
    pub(super) const fn is_plain(self) -> bool {
        matches!(self.events, Events::Plain)
    }

    /// `CosNotifyChannelAdmin::ProxyType`.
    pub(super) const fn proxy_type(self) -> u32 {
        let push = match self.events {
            Events::Any | Events::Plain => 0,
            Events::Structured => 2,
            Events::Sequence => 4,
        };
        push + self.pull as u32
    }

    /// Operation that this service calls on the client to transfer events; `None` where the client calls.
    pub(super) const fn event_operation(self, side: Side) -> Option<&'static str> {
        Some(match (side, self.pull, self.events) {
            (Side::Consumers, false, Events::Any | Events::Plain) => "push",
            (Side::Consumers, false, Events::Structured) => "push_structured_event",
            (Side::Consumers, false, Events::Sequence) => "push_structured_events",
            (Side::Suppliers, true, Events::Any | Events::Plain) => "try_pull",
            (Side::Suppliers, true, Events::Structured) => "try_pull_structured_event",
            (Side::Suppliers, true, Events::Sequence) => "try_pull_structured_events",
            (Side::Consumers, true, _) | (Side::Suppliers, false, _) => return None,
        })
    }

    /// Operation that notifies a client of this kind of proxy of the end of its connection.
    pub(super) const fn disconnect_operation(self, side: Side) -> &'static str {
        match (side, self.pull, self.events) {
            (Side::Consumers, false, Events::Any | Events::Plain) => "disconnect_push_consumer",
            (Side::Consumers, false, Events::Structured) => "disconnect_structured_push_consumer",
            (Side::Consumers, false, Events::Sequence) => "disconnect_sequence_push_consumer",
            (Side::Consumers, true, Events::Any | Events::Plain) => "disconnect_pull_consumer",
            (Side::Consumers, true, Events::Structured) => "disconnect_structured_pull_consumer",
            (Side::Consumers, true, Events::Sequence) => "disconnect_sequence_pull_consumer",
            (Side::Suppliers, false, Events::Any | Events::Plain) => "disconnect_push_supplier",
            (Side::Suppliers, false, Events::Structured) => "disconnect_structured_push_supplier",
            (Side::Suppliers, false, Events::Sequence) => "disconnect_sequence_push_supplier",
            (Side::Suppliers, true, Events::Any | Events::Plain) => "disconnect_pull_supplier",
            (Side::Suppliers, true, Events::Structured) => "disconnect_structured_pull_supplier",
            (Side::Suppliers, true, Events::Sequence) => "disconnect_sequence_pull_supplier",
        }
    }

    /// The interface of its clients. The Any proxies accept clients of the Event Service, too.
    pub(super) fn client_interface(self, side: Side) -> &'static Interface {
        match (side, self.pull, self.events) {
            (Side::Consumers, false, Events::Any | Events::Plain) => &event_service::COMM_PUSH_CONSUMER,
            (Side::Consumers, false, Events::Structured) => &notify_comm::STRUCTURED_PUSH_CONSUMER,
            (Side::Consumers, false, Events::Sequence) => &notify_comm::SEQUENCE_PUSH_CONSUMER,
            (Side::Consumers, true, Events::Any | Events::Plain) => &event_service::COMM_PULL_CONSUMER,
            (Side::Consumers, true, Events::Structured) => &notify_comm::STRUCTURED_PULL_CONSUMER,
            (Side::Consumers, true, Events::Sequence) => &notify_comm::SEQUENCE_PULL_CONSUMER,
            (Side::Suppliers, false, Events::Any | Events::Plain) => &event_service::COMM_PUSH_SUPPLIER,
            (Side::Suppliers, false, Events::Structured) => &notify_comm::STRUCTURED_PUSH_SUPPLIER,
            (Side::Suppliers, false, Events::Sequence) => &notify_comm::SEQUENCE_PUSH_SUPPLIER,
            (Side::Suppliers, true, Events::Any | Events::Plain) => &event_service::COMM_PULL_SUPPLIER,
            (Side::Suppliers, true, Events::Structured) => &notify_comm::STRUCTURED_PULL_SUPPLIER,
            (Side::Suppliers, true, Events::Sequence) => &notify_comm::SEQUENCE_PULL_SUPPLIER,
        }
    }

    /// The proxy's own interfaces.
    pub(super) fn servant(self, side: Side) -> Servant {
        match (side, self.pull, self.events) {
            (Side::Consumers, false, Events::Any) => table::PROXY_PUSH_SUPPLIER,
            (Side::Consumers, false, Events::Structured) => table::STRUCTURED_PROXY_PUSH_SUPPLIER,
            (Side::Consumers, false, Events::Sequence) => table::SEQUENCE_PROXY_PUSH_SUPPLIER,
            (Side::Consumers, false, Events::Plain) => table::PLAIN_PROXY_PUSH_SUPPLIER,
            (Side::Consumers, true, Events::Any) => table::PROXY_PULL_SUPPLIER,
            (Side::Consumers, true, Events::Structured) => table::STRUCTURED_PROXY_PULL_SUPPLIER,
            (Side::Consumers, true, Events::Sequence) => table::SEQUENCE_PROXY_PULL_SUPPLIER,
            (Side::Consumers, true, Events::Plain) => table::PLAIN_PROXY_PULL_SUPPLIER,
            (Side::Suppliers, false, Events::Any) => table::PROXY_PUSH_CONSUMER,
            (Side::Suppliers, false, Events::Structured) => table::STRUCTURED_PROXY_PUSH_CONSUMER,
            (Side::Suppliers, false, Events::Sequence) => table::SEQUENCE_PROXY_PUSH_CONSUMER,
            (Side::Suppliers, false, Events::Plain) => table::PLAIN_PROXY_PUSH_CONSUMER,
            (Side::Suppliers, true, Events::Any) => table::PROXY_PULL_CONSUMER,
            (Side::Suppliers, true, Events::Structured) => table::STRUCTURED_PROXY_PULL_CONSUMER,
            (Side::Suppliers, true, Events::Sequence) => table::SEQUENCE_PROXY_PULL_CONSUMER,
            (Side::Suppliers, true, Events::Plain) => table::PLAIN_PROXY_PULL_CONSUMER,
        }
    }
}

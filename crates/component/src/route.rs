//! The container's table: which sinks a source calls.
//!
//! An end of a connection is a handler of the same lane, or a queue. A [`Route`] belongs to an instance, not to its component, so that connections outlive a restart. It is touched by one lane only; sending
//! takes no lock and allocates nothing.

use crate::counters::PortCounters;
use crate::error::SendError;
use crate::instance::InstanceState;
use crate::port::{EventSet, SendOptions};
use crate::queue::{QueueEnd, QueueOf};
use campanile::raw::EventQos;
use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// Where an event comes from.
#[derive(Debug)]
pub(crate) struct Origin<'c> {
    pub(crate) source: &'c Arc<str>,
    pub(crate) sent: Instant,
    pub(crate) priority: i16,
    pub(crate) expires: Option<Instant>,
    /// The set that the event came in, at a sink that has sets.
    pub(crate) set: Option<EventSet>,
}

impl Origin<'_> {
    /// What the event was sent with.
    pub(crate) fn qos(&self) -> EventQos {
        let timeout = self.expires.map(|expires| expires.saturating_duration_since(self.sent));
        EventQos { priority: self.priority, timeout }
    }
}

/// The end of a connection.
pub(crate) trait Deliver<T> {
    /// Has the event handled.
    fn deliver(&self, event: &T, origin: &Origin<'_>) -> Result<(), SendError>;
}

struct Connection<T> {
    /// The sink, as `instance.port`.
    sink: Arc<str>,
    end: Rc<dyn Deliver<T>>,
}

/// The connections of one source.
pub(crate) struct Route<T> {
    owner: Rc<InstanceState>,
    /// The source, as `instance.port`.
    name: Arc<str>,
    connections: RefCell<Vec<Connection<T>>>,
    counters: Arc<PortCounters>,
}

/// The end of a connection before its type is looked up: a `Rc<dyn Deliver<T>>`.
pub(crate) type AnyEnd = Box<dyn Any>;

/// A queue before its type is looked up: an `Arc<dyn QueueOf<T>>`, which may go to another thread.
pub(crate) type AnyQueue = Box<dyn Any + Send>;

/// A route of any type.
pub(crate) trait AnyRoute {
    /// Adds a connection; false if the end is of another type.
    fn connect(&self, sink: &Arc<str>, end: AnyEnd) -> bool;

    /// Adds a connection with a queue; false if that is of another type.
    fn connect_queue(&self, sink: &Arc<str>, queue: AnyQueue) -> bool;

    /// Removes the connections with sinks for which this holds.
    fn disconnect(&self, is_sink: &dyn Fn(&str) -> bool);

    /// The route, for the lookup of its type.
    fn into_any(self: Rc<Self>) -> Rc<dyn Any>;
}

impl<T: 'static> Route<T> {
    pub(crate) fn new(owner: Rc<InstanceState>, port: &str, counters: Arc<PortCounters>) -> Self {
        let name = format!("{}.{port}", owner.name).into();
        Self { owner, name, connections: RefCell::default(), counters }
    }

    /// Counts an event that the source cannot send, and answers whether it is the first.
    pub(crate) fn count_failure(&self) -> bool {
        self.counters.failed.count_shared();
        self.counters.failed.get() == 1
    }

    #[inline]
    pub(crate) fn send(&self, event: &T, options: SendOptions) -> Result<(), SendError> {
        if !self.owner.may_send.get() {
            self.counters.refused.count();
            return Err(SendError::Inactive);
        }
        self.send_always(event, self.owner.context.clock.now(), options)
    }

    /// Sends whatever the state of the instance.
    #[inline]
    pub(crate) fn send_always(&self, event: &T, sent: Instant, options: SendOptions) -> Result<(), SendError> {
        self.counters.sent.count();
        let origin = Origin {
            source: &self.name,
            sent,
            priority: options.priority,
            // A time that the clock does not have never comes.
            expires: options.timeout.and_then(|timeout| sent.checked_add(timeout)),
            set: None,
        };
        let busy = &*self.owner.context.busy;
        let (sender, mut outcome) = (busy.instance(), Ok(()));
        for connection in self.connections.borrow().iter() {
            if let Err(error) = connection.end.deliver(event, &origin) {
                outcome = Err(error);
            }
        }
        busy.enter(sender);
        outcome
    }
}

impl<T: 'static> AnyRoute for Route<T> {
    fn connect(&self, sink: &Arc<str>, end: AnyEnd) -> bool {
        let Ok(end) = end.downcast::<Rc<dyn Deliver<T>>>() else { return false };
        self.connections.borrow_mut().push(Connection { sink: sink.clone(), end: *end });
        true
    }

    fn connect_queue(&self, sink: &Arc<str>, queue: AnyQueue) -> bool {
        let Ok(queue) = queue.downcast::<Arc<dyn QueueOf<T>>>() else { return false };
        let end: Rc<dyn Deliver<T>> = Rc::new(QueueEnd(*queue));
        self.connect(sink, Box::new(end))
    }

    fn disconnect(&self, is_sink: &dyn Fn(&str) -> bool) {
        self.connections.borrow_mut().retain(|connection| !is_sink(&connection.sink));
    }

    fn into_any(self: Rc<Self>) -> Rc<dyn Any> {
        self
    }
}

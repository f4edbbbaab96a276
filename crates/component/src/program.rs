//! The program's own ends of connections: what it puts into a server, and gets out of it.

use crate::declaration::PortKind;
use crate::error::{Error, SendError};
use crate::queue::QueueOf;
use crate::route::{Deliver, Origin};
use crate::server::Server;
use campanile::Event;
use std::any::TypeId;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// Sends events to a sink from any thread of the program, by the sink's queue.
pub struct Input<T> {
    queue: Arc<dyn QueueOf<T>>,
    source: Arc<str>,
}

impl<T> Clone for Input<T> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), source: self.source.clone() }
    }
}

impl<T> fmt::Debug for Input<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Input")
    }
}

impl<T> Input<T> {
    pub(crate) fn new(queue: Arc<dyn QueueOf<T>>) -> Self {
        Self { queue, source: "program".into() }
    }

    /// Puts a copy of an event into the queue. Waits for nothing.
    ///
    /// # Errors
    /// [`SendError::Full`]: the queue is full, and set to refuse events then.
    pub fn send(&self, event: &T) -> Result<(), SendError> {
        let origin = Origin { source: &self.source, sent: Instant::now(), priority: 0, expires: None, set: None };
        self.queue.put(event, &origin)
    }
}

/// A function of the program at a source.
struct Tap<F>(F);

impl<T, F: Fn(&T)> Deliver<T> for Tap<F> {
    fn deliver(&self, event: &T, origin: &Origin<'_>) -> Result<(), SendError> {
        // A panic of the program's function is not one of the component that sends.
        if catch_unwind(AssertUnwindSafe(|| (self.0)(event))).is_err() {
            log::warn!("a function of the program panicked at an event of {}", origin.source);
        }
        Ok(())
    }
}

impl Server {
    /// An input to a sink, as `instance.port`. The sink has a queue from then on: that of its settings, or one of 64 events.
    ///
    /// # Errors
    /// There is no such sink, it is of another type, or its events cannot be copied.
    pub fn input<T: Event>(&mut self, sink: &str) -> Result<Input<T>, Error> {
        let (name, lane) = self.find_typed::<T>(sink, PortKind::Sink)?;
        let settings = self.port_settings(&name).queue.unwrap_or_default();
        let queue = self.on_lane(lane, move |lane| lane.queue(name.as_pair(), &settings))?;
        let queue = queue.map_err(|reason| Error::Port { port: sink.to_owned(), reason })?;
        let other = |_| Error::Port { port: sink.to_owned(), reason: "it is of another type".to_owned() };
        queue.downcast::<Arc<dyn QueueOf<T>>>().map(|queue| Input::new(*queue)).map_err(other)
    }

    /// Has a function called for each event of a source, as `instance.port`, on the lane of its instance, which waits for it.
    ///
    /// # Errors
    /// There is no such source, or it is of another type.
    pub fn output<T: Event>(&mut self, source: &str, call: impl Fn(&T) + Send + 'static) -> Result<(), Error> {
        let (name, lane) = self.find_typed::<T>(source, PortKind::Source)?;
        self.on_lane(lane, move |lane| {
            let end: Rc<dyn Deliver<T>> = Rc::new(Tap(call));
            lane.connect_end(name.as_pair(), &Arc::from("program"), Box::new(end))
        })?;
        Ok(())
    }

    fn find_typed<T: Event>(&self, port: &str, kind: PortKind) -> Result<(crate::graph::PortName, usize), Error> {
        let (name, declared) = self.find(port, kind)?;
        if declared.event.is_none_or(|event| event.id() != TypeId::of::<T>()) {
            let known = declared.event.map(|event| event.type_code().to_string()).unwrap_or_default();
            let reason = format!("it is of the type {known}, and the program's end of {}", T::event_type());
            return Err(Error::Port { port: port.to_owned(), reason });
        }
        let lane = self.lane_of(&name.instance)?;
        Ok((name, lane))
    }
}

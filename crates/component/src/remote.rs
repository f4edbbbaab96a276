//! Ends of connections to other processes, by a channel of a notification service.
//!
//! A source puts its events into a queue, from which a thread publishes them, so that its lane waits for no service. A sink has what its
//! subscription gets in its queue.

use crate::counters::PortCounters;
use crate::declaration::PortKind;
use crate::edge::NATIVE;
use crate::error::Error;
use crate::program::Input;
use crate::queue::{QueueOf, QueueSettings, Queueing};
use crate::route::AnyQueue;
use crate::server::Server;
use crate::threads::Waker;
use campanile::raw::{PublishOptions, RawPublisher, RawSupplier};
use campanile::{Consumer, Declared, Event, Settings};
use giop::cdr::Writer;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Events that wait for being published: as many as a subscription's queue has at most by default.
const PUBLISHED_MAX: u32 = 1_024;

/// What ends with its instance: a subscription, or a thread that publishes.
pub(crate) type RemoteEnd = Box<dyn Any>;

/// A port whose events can travel.
pub(crate) trait RemotePort: Send + Sync {
    /// Has the events of a channel put into a queue of this type.
    fn subscribe(&self, queue: AnyQueue, channel: &str, settings: &Settings) -> Result<RemoteEnd, String>;

    /// Has what is put into a new queue published in a channel.
    fn publish(
        &self,
        channel: &str,
        settings: &Settings,
        counters: Arc<PortCounters>,
    ) -> Result<(AnyQueue, RemoteEnd), String>;
}

/// A port of a type.
pub(crate) struct Remote<T>(pub(crate) Option<Queueing<T>>);

impl<T: Event> RemotePort for Remote<T> {
    fn subscribe(&self, queue: AnyQueue, channel: &str, settings: &Settings) -> Result<RemoteEnd, String> {
        let queue = queue.downcast::<Arc<dyn QueueOf<T>>>().map_err(|_| "it is of another type".to_owned())?;
        let input = Input::new(*queue);
        let consumer = Consumer::new(channel).settings(settings.clone()).on(move |event: T| {
            // A full queue has counted it.
            let _ = input.send(&event);
        });
        let subscription = consumer.and_then(Consumer::ready).map_err(|error| error.to_string())?;
        Ok(Box::new(subscription))
    }

    fn publish(
        &self,
        channel: &str,
        settings: &Settings,
        counters: Arc<PortCounters>,
    ) -> Result<(AnyQueue, RemoteEnd), String> {
        let queueing = self.0.ok_or_else(|| format!("{} is not Clone and Send: derive Clone", T::NAME))?;
        let declared = Declared::new(T::event_type(), T::DOMAIN, Some(T::NAME)).map_err(|error| error.to_string())?;
        let write = |event: &T, to: &mut Vec<u8>| event.write(&mut Writer::new(to, NATIVE));
        publish(queueing, declared, write, channel, settings, counters)
    }
}

/// Has what is put into a new queue published in a channel, as values that `write` writes.
pub(crate) fn publish<T: 'static>(
    queueing: Queueing<T>,
    declared: Declared,
    write: fn(&T, &mut Vec<u8>),
    channel: &str,
    settings: &Settings,
    counters: Arc<PortCounters>,
) -> Result<(AnyQueue, RemoteEnd), String> {
    let supplier = RawSupplier::new(channel, settings).map_err(|error| error.to_string())?;
    let publisher = supplier.publisher(PublishOptions::default()).map_err(|error| error.to_string())?;
    let (waker, stop) = (Arc::<Waker>::default(), Arc::<AtomicBool>::default());
    let queue = QueueSettings { events_max: PUBLISHED_MAX, ..QueueSettings::default() };
    let queue = (queueing.make)(&queue, waker.clone(), counters.clone());
    let (of, channel) = (queue.clone(), channel.to_owned());
    let name = format!("publish {channel}");
    let publishing = Publishing { queue: of, declared, write, supplier, publisher, counters, channel };
    let (woken, stopped) = (waker.clone(), stop.clone());
    let thread = std::thread::Builder::new()
        .name(name)
        .spawn(move || publishing.run(&woken, &stopped))
        .map_err(|error| error.to_string())?;
    Ok((Box::new(queue), Box::new(PublisherEnd { waker, stop, thread: Some(thread) })))
}

struct Publishing<T> {
    queue: Arc<dyn QueueOf<T>>,
    declared: Declared,
    write: fn(&T, &mut Vec<u8>),
    /// Kept for as long as its publisher.
    supplier: RawSupplier,
    publisher: RawPublisher,
    counters: Arc<PortCounters>,
    channel: String,
}

impl<T: 'static> Publishing<T> {
    /// Publishes what is put in, until it is stopped and has no more.
    fn run(self, waker: &Waker, stop: &AtomicBool) {
        waker.attach();
        let Self { queue, declared, write, supplier: _supplier, publisher, counters, channel } = self;
        let (mut is_failing, mut value) = (false, Vec::new());
        loop {
            while let Some(queued) = queue.take() {
                value.clear();
                write(queued.event(), &mut value);
                let outcome = publisher.publish(&declared, &value);
                if let Err(error) = &outcome {
                    counters.failed.count_shared();
                    if !is_failing {
                        log::warn!("an event of {channel} was not published: {error}; further ones are counted");
                    }
                }
                is_failing = outcome.is_err();
            }
            publisher.flush();
            if stop.load(Ordering::Acquire) {
                let _ = publisher.close();
                return;
            }
            waker.sleep(|| !queue.is_empty() || stop.load(Ordering::Acquire), None);
        }
    }
}

/// The thread that publishes the events of a source. It ends when this is dropped.
struct PublisherEnd {
    waker: Arc<Waker>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for PublisherEnd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Server {
    /// Has the events of a channel of a notification service come to a sink, as `instance.port`, by its queue.
    ///
    /// # Errors
    /// There is no such sink, its events cannot be copied, or the service cannot be reached or refuses.
    pub fn subscribe(&mut self, sink: &str, channel: &str, settings: &Settings) -> Result<(), Error> {
        let problem = |reason| Error::Port { port: sink.to_owned(), reason };
        let (name, _) = self.find(sink, PortKind::Sink)?;
        let (lane, queue) = (self.lane_of(&name.instance)?, self.queue_settings(&name));
        let (port, _) = self.remote(&name).ok_or_else(|| problem("its events cannot travel".to_owned()))?;
        let owner = name.instance.clone();
        let queue = self.on_lane(lane, move |lane| lane.queue(name.as_pair(), &queue))?.map_err(problem)?;
        let end = port.subscribe(queue, channel, settings).map_err(problem)?;
        self.remote_ends.push((owner, end));
        Ok(())
    }

    /// Has the events of a source, as `instance.port`, published in a channel of a notification service. The lane of the source does not
    /// wait for that: of more than 1,024 events that wait the oldest go, and are counted as discarded; those that the service does not take
    /// count as failed.
    ///
    /// # Errors
    /// There is no such source, its events cannot be copied, or the service cannot be reached or refuses.
    pub fn publish(&mut self, source: &str, channel: &str, settings: &Settings) -> Result<(), Error> {
        let problem = |reason| Error::Port { port: source.to_owned(), reason };
        let (name, _) = self.find(source, PortKind::Source)?;
        let lane = self.lane_of(&name.instance)?;
        let (port, counters) = self.remote(&name).ok_or_else(|| problem("its events cannot travel".to_owned()))?;
        let (queue, end) = port.publish(channel, settings, counters).map_err(problem)?;
        let (owner, channel) = (name.instance.clone(), Arc::from(channel));
        self.on_lane(lane, move |lane| lane.connect_queue(name.as_pair(), &channel, queue))?;
        self.remote_ends.push((owner, end));
        Ok(())
    }
}

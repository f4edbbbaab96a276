//! Tempo: a topic for each source, through a broker or to a group, as the address says.

use super::qos::{BEST_EFFORT, PRIORITY};
use super::{Kind, Lost, Publisher, Service, SourceQos, Take, domain_problem};
use campanile::Declared;
use campanile::raw::EventQos;
use client::tempo::{self, Address, AddressError, Content, Node, Order, Subscriber};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Octets of an end point's name: of a longer one the beginning is sent.
const NAME_MAX: usize = 64;

pub(super) static KIND: Kind = Kind {
    name: "tempo",
    is_built: cfg!(target_endian = "little"),
    has_links: false,
    problem: |container| {
        let said = "a broker's udp://HOST:PORT or tcp://HOST:PORT, or a group's, as udp://239.1.2.3:2811";
        let at = match &container.at {
            None => return Some(format!("tempo needs an address: give `at`, {said}")),
            Some(at) => at.parse::<Address>(),
        };
        match at {
            Err(AddressError::Host(at)) => Some(format!("at is {at:?}, which has no host: give {said}")),
            Err(error) => Some(error.to_string()),
            Ok(address) if address.waits => {
                Some(format!("at is {address}, where only one server can wait: give {said}"))
            }
            Ok(_) => domain_problem(container),
        }
    },
    set: |qos, property, value| match property {
        "EventReliability" | "ConnectionReliability" if value == BEST_EFFORT => Ok(()),
        "EventReliability" | "ConnectionReliability" => Err("nothing outlives a process, as with BestEffort"),
        "Priority" => {
            qos.priority = i16::try_from(value).unwrap_or_default();
            Ok(())
        }
        "OrderPolicy" if value <= PRIORITY => {
            qos.order = if value == PRIORITY { Order::Priorities } else { Order::Arrival };
            Ok(())
        }
        "OrderPolicy" => Err("a topic has Priority or Fifo; the sinks' `qos` can have this"),
        "Timeout" => Err("an event with a timeout by `send_with` is dropped if it expires before it is sent"),
        _ => Err("an end point bounds what waits; the sinks' `qos` can have MaxEventsPerConsumer and DiscardPolicy"),
    },
    always: &[],
    open: |container, settings| {
        let mut builder =
            Node::builder(container.at.as_deref().unwrap_or_default()).map_err(|error| error.to_string())?;
        if let Some(name) = &settings.name {
            builder = builder.name(&name[..name.floor_char_boundary(NAME_MAX)]);
        }
        if let Some(tls) = settings.tls.of_orb() {
            builder = builder.tls(tls);
        }
        let node = builder.open().map_err(|error| error.to_string())?;
        Ok(Box::new(Tempo { node, topics: Mutex::default() }))
    },
};

/// An end point.
struct Tempo {
    node: Node,
    /// An end point subscribes to a topic once.
    topics: Mutex<BTreeMap<String, Weak<Topic>>>,
}

/// A topic that sinks share.
struct Topic {
    takers: Arc<Mutex<Takers>>,
    _subscriber: Subscriber,
}

/// Each with its number.
type Takers = BTreeMap<u64, Take>;

/// A sink's part of a topic, until it is dropped.
struct Subscription {
    topic: Arc<Topic>,
    number: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What an end point says, for people.
fn refusal(error: &tempo::Error) -> String {
    format!("{error} (with placed = \"component\" each instance has an end point of its own)")
}

impl Service for Tempo {
    fn publisher(&self, channel: &str, _: &Declared, qos: &SourceQos) -> Result<Box<dyn Publisher>, String> {
        let publisher = self.node.publisher(channel).order(qos.order).open().map_err(|error| refusal(&error))?;
        Ok(Box::new(TempoPublisher { publisher, priority: qos.priority, left: 0, counted: 0 }))
    }

    fn subscribe(&self, channel: &str, of: &Declared, _: Option<&str>, take: Take) -> Result<Box<dyn Any>, String> {
        let take = checked(of, take);
        let mut topics = lock(&self.topics);
        let topic = match topics.get(channel).and_then(Weak::upgrade) {
            Some(topic) => topic,
            None => {
                let takers = Arc::<Mutex<Takers>>::default();
                let all = takers.clone();
                let subscriber = self.node.subscriber(channel).on(move |message| {
                    let qos = EventQos { priority: message.priority, timeout: None };
                    let is_value = message.content != Content::Structured;
                    for take in lock(&all).values_mut() {
                        let not_one = || Lost::one("it is a structured event".to_owned());
                        take(is_value.then_some((message.octets, qos)).ok_or_else(not_one));
                    }
                });
                let subscriber = subscriber.map_err(|error| refusal(&error))?;
                let (all, mut counted) = (takers.clone(), 0);
                subscriber.on_report(move |report| {
                    let lost = report.lost + report.late;
                    let events = lost.saturating_sub(std::mem::replace(&mut counted, lost));
                    for take in lock(&all).values_mut().filter(|_| events > 0) {
                        take(Err(Lost { events, reason: "they were lost on the way, or came too late".to_owned() }));
                    }
                });
                let topic = Arc::new(Topic { takers, _subscriber: subscriber });
                topics.insert(channel.to_owned(), Arc::downgrade(&topic));
                topic
            }
        };
        let number = {
            let mut takers = lock(&topic.takers);
            let number = takers.last_key_value().map_or(0, |(last, _)| last + 1);
            takers.insert(number, take);
            number
        };
        Ok(Box::new(Subscription { topic, number }))
    }
}

/// Checks that what comes is a value of the type: any end point may publish on a topic.
fn checked(of: &Declared, mut take: Take) -> Take {
    let declared = of.clone();
    Box::new(move |came: Result<(&[u8], EventQos), Lost>| {
        take(came.and_then(|(value, qos)| {
            let checked = declared.check_strictly(value);
            checked.map(|()| (value, qos)).map_err(|error| Lost::one(error.to_string()))
        }));
    })
}

impl Drop for Subscription {
    fn drop(&mut self) {
        lock(&self.topic.takers).remove(&self.number);
    }
}

struct TempoPublisher {
    publisher: tempo::Publisher,
    priority: i16,
    /// Messages that had not left when it was closed.
    left: u64,
    /// Lost messages that `lost` has answered.
    counted: u64,
}

impl Publisher for TempoPublisher {
    fn publish(&mut self, value: &[u8], qos: EventQos) -> Result<(), String> {
        let priority = if qos.priority == 0 { self.priority } else { qos.priority };
        self.publisher.publish_with(priority, value).map_err(|error| error.to_string())
    }

    fn lost(&mut self) -> Option<Lost> {
        let lost = self.publisher.report().unheard + self.left;
        let events = lost.saturating_sub(std::mem::replace(&mut self.counted, lost));
        if events == 0 {
            return None;
        }
        let trouble = self.publisher.node().trouble();
        Some(Lost { events, reason: trouble.unwrap_or_else(|| "no broker and no sink has answered".to_owned()) })
    }

    fn close(&mut self, within: Duration) {
        if !self.publisher.flush(within) {
            self.left = self.publisher.report().waiting.into();
        }
    }
}

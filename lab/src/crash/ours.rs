//! Suppliers and consumers of this repository's own client.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use client::notify::{
    CallbackConsumer, ClientType, Delivery, EventChannel, Property, StructuredEvent, StructuredProxyPushConsumer,
    StructuredProxyPushSupplier, find_channel,
};
use client::{Activation, Orb, OrbOptions};
use giop::typecode::{Kind, TypeCode};
use giop::value::{AnyValue, Value};
use load::campanile::setup;

use super::ledger::{Book, Numbered};
use crate::BenchError;

const PAYLOAD: usize = 128;

/// Whether consumers go on, and the threads that wait for that.
type Gate = Arc<(Mutex<bool>, Condvar)>;

/// The channel with this id, over a connection of its own.
fn channel(service: &str, id: i32) -> Result<EventChannel, BenchError> {
    let doing = "finding the channel";
    let orb = Orb::new(OrbOptions::default());
    let factory = orb.resolve(service).map_err(setup(doing))?;
    find_channel(&factory, Some(id)).map(|(channel, _)| channel).map_err(setup(doing))
}

pub(crate) struct Consumer {
    is_stopped: Gate,
    _active: Activation,
}

impl Consumer {
    pub(crate) fn start((service, id): (&str, i32), book: &Arc<Mutex<Book>>) -> Result<Self, BenchError> {
        let doing = "connecting a consumer";
        let is_stopped = Gate::default();
        let (gate, book) = (Arc::clone(&is_stopped), Arc::clone(book));
        let servant = CallbackConsumer::structured(move |delivery: Delivery<'_>| {
            if let Delivery::Structured(mut event) = delivery {
                let event = StructuredEvent::read(&mut event)?;
                let (lock, told) = &*gate;
                let stopped = lock.lock().unwrap_or_else(PoisonError::into_inner);
                drop(told.wait_while(stopped, |stopped| *stopped));
                if let Some(numbered) = numbered(&event) {
                    let is_marked = event.variable_header.contains(&Property::new("PossiblyRepeated", true));
                    book.lock().unwrap_or_else(PoisonError::into_inner).enter(numbered, is_marked);
                }
            }
            Ok(())
        });
        let orb = Orb::new(OrbOptions::default());
        let active = orb.activate(Arc::new(servant)).map_err(setup(doing))?;
        let admin = channel(service, id)?.default_consumer_admin().map_err(setup(doing))?;
        let (proxy, _) = admin.obtain_notification_push_supplier(ClientType::Structured).map_err(setup(doing))?;
        let proxy = StructuredProxyPushSupplier::unchecked(proxy.object().clone());
        proxy.connect_structured_push_consumer(active.reference()).map_err(setup(doing))?;
        Ok(Self { is_stopped, _active: active })
    }

    /// Has it answer nothing, or go on.
    pub(crate) fn stop(&self, is_stopped: bool) {
        *self.is_stopped.0.lock().unwrap_or_else(PoisonError::into_inner) = is_stopped;
        self.is_stopped.1.notify_all();
    }
}

/// A supplier, and the number that it gives its next event.
pub(crate) struct Supplier {
    proxy: StructuredProxyPushConsumer,
    source: u32,
    next: u32,
}

impl Supplier {
    pub(crate) fn start((service, id): (&str, i32), source: u32) -> Result<Self, BenchError> {
        let doing = "connecting a supplier";
        let admin = channel(service, id)?.default_supplier_admin().map_err(setup(doing))?;
        let (proxy, _) = admin.obtain_notification_push_consumer(ClientType::Structured).map_err(setup(doing))?;
        let proxy = StructuredProxyPushConsumer::unchecked(proxy.object().clone());
        proxy.connect_structured_push_supplier(None).map_err(setup(doing))?;
        Ok(Self { proxy, source, next: 0 })
    }

    /// Pushes until the service is to be killed, and enters what was acknowledged.
    pub(crate) fn supply(&mut self, over: &AtomicBool, mut acknowledge: impl FnMut(Numbered)) {
        while !over.load(Ordering::Relaxed) {
            let numbered = (self.source, self.next);
            self.next += 1;
            if self.proxy.push_structured_event(&event(numbered)).is_ok() {
                acknowledge(numbered);
            }
        }
    }
}

/// An event as the programs of the other ORBs know it: its body is a `CampanileTest::Small` of `interop/idl`.
fn event((source, number): Numbered) -> StructuredEvent {
    let id = |name: &str| format!("IDL:campanile.org/CampanileTest/{name}:1.0");
    let octets = TypeCode::alias(&id("OctetSeq"), "OctetSeq", TypeCode::sequence(TypeCode::primitive(Kind::Octet)));
    let number_type = || TypeCode::primitive(Kind::ULong);
    let members = [("source", number_type()), ("number", number_type()), ("payload", octets)];
    let fields = vec![
        ("source".to_owned(), Value::ULong(source)),
        ("number".to_owned(), Value::ULong(number)),
        ("payload".to_owned(), Value::Octets(vec![0x5a; PAYLOAD])),
    ];
    let value = Value::Struct { type_name: "Small".into(), fields };
    let mut event = StructuredEvent::new("Bench", "Small", "");
    event.remainder = AnyValue::new(TypeCode::structure(&id("Small"), "Small", &members), value);
    event
}

/// Which event it is, of any maker.
fn numbered(event: &StructuredEvent) -> Option<Numbered> {
    let Value::Struct { fields, .. } = &event.remainder.value else { return None };
    let member = |name: &str| match fields.iter().find(|(member, _)| member == name) {
        Some((_, Value::ULong(number))) => Some(*number),
        _ => None,
    };
    Some((member("source")?, member("number")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_says_which_it_is() {
        assert_eq!(numbered(&event((3, 70_000))), Some((3, 70_000)));
        assert_eq!(numbered(&StructuredEvent::new("Bench", "Small", "")), None);
    }
}

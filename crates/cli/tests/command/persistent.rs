//! Events that outlive a service that is killed: `EventReliability` `Persistent`.

use crate::restart::{Folder, own_address};
use crate::support::Serve;
use client::notify::{
    CallbackConsumer, ClientType, Delivery, FilterGroupOperator, Property, StructuredEvent,
    StructuredProxyPushConsumer, StructuredProxyPushSupplier, find_channel,
};
use client::{Activation, InvokeError, Orb, OrbOptions};
use giop::value::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use testing::{EndInTime, NextInTime, wait_until};

/// What a consumer has got, and whether it takes more.
#[derive(Default)]
struct Got {
    /// The greatest number that came of each supplier, and all of them.
    last: BTreeMap<i32, i32>,
    all: BTreeSet<(i32, i32)>,
    repeated: u64,
    disordered: Vec<(i32, i32)>,
}

#[derive(Clone, Default)]
pub(crate) struct Taker {
    got: Arc<Mutex<Got>>,
    is_stopped: Arc<(Mutex<bool>, Condvar)>,
}

impl Taker {
    fn take(&self, event: &StructuredEvent) {
        let (lock, told) = &*self.is_stopped;
        let mut stopped = lock.lock().unwrap();
        while *stopped {
            stopped = told.wait(stopped).unwrap();
        }
        drop(stopped);
        let number = |name: &str| match event.field(name) {
            Some(Value::Long(number)) => *number,
            other => panic!("{other:?}"),
        };
        let what = (number("supplier"), number("number"));
        let mut got = self.got.lock().unwrap_or_else(PoisonError::into_inner);
        if !got.all.insert(what) {
            got.repeated += 1;
            return;
        }
        let last = got.last.entry(what.0).or_insert(-1);
        if *last > what.1 {
            got.disordered.push(what);
        } else {
            *last = what.1;
        }
    }

    pub(crate) fn stop(&self, stopped: bool) {
        *self.is_stopped.0.lock().unwrap() = stopped;
        self.is_stopped.1.notify_all();
    }

    pub(crate) fn missing(&self, acknowledged: &BTreeSet<(i32, i32)>) -> Vec<(i32, i32)> {
        acknowledged.difference(&self.got.lock().unwrap().all).copied().collect()
    }

    /// What came behind what its supplier had sent later.
    pub(crate) fn disordered(&self) -> Vec<(i32, i32)> {
        self.got.lock().unwrap().disordered.clone()
    }

    /// Connects it to a channel.
    pub(crate) fn connect(&self, orb: &Orb, address: &str, id: i32) -> Activation {
        let this = self.clone();
        let servant = CallbackConsumer::structured(move |delivery: Delivery<'_>| {
            if let Delivery::Structured(mut event) = delivery {
                this.take(&StructuredEvent::read(&mut event)?);
            }
            Ok(())
        });
        let active = orb.activate(Arc::new(servant)).unwrap();
        let factory = orb.resolve_service(address).unwrap();
        let (found, _) = find_channel(&factory, Some(id)).unwrap();
        let (admin, _) = found.new_for_consumers(FilterGroupOperator::And).unwrap();
        let (proxy, _) = admin.obtain_notification_push_supplier(ClientType::Structured).unwrap();
        let proxy = StructuredProxyPushSupplier::unchecked(proxy.object().clone());
        proxy.connect_structured_push_consumer(active.reference()).unwrap();
        active
    }
}

/// A supplier's proxy of a channel.
pub(crate) fn supplier(address: &str, id: i32) -> Result<StructuredProxyPushConsumer, InvokeError> {
    let orb = Orb::new(OrbOptions::default());
    let (found, _) = find_channel(&orb.resolve_service(address)?, Some(id))?;
    let (proxy, _) = found.default_supplier_admin()?.obtain_notification_push_consumer(ClientType::Structured)?;
    let proxy = StructuredProxyPushConsumer::unchecked(proxy.object().clone());
    proxy.connect_structured_push_supplier(None)?;
    Ok(proxy)
}

pub(crate) fn event(supplier: i32, number: i32) -> StructuredEvent {
    let mut event = StructuredEvent::new("Test", "Numbered", "");
    event.filterable_data = vec![Property::new("supplier", supplier), Property::new("number", number)];
    event.remainder = "x".repeat(100).as_str().into();
    event
}

/// Pushes numbers until the service is gone, and tells which were taken.
pub(crate) fn supply(address: &str, id: i32, name: i32, from: i32, told: &Sender<(i32, i32)>) {
    let Ok(proxy) = supplier(address, id) else { return };
    for number in from.. {
        if proxy.push_structured_event(&event(name, number)).is_err() {
            return;
        }
        told.send((name, number)).unwrap();
    }
}

pub(crate) fn persistent_channel(address: &str) -> i32 {
    let orb = Orb::new(OrbOptions::default());
    let factory = orb.resolve_service(address).unwrap();
    let (default, _) = find_channel(&factory, None).unwrap();
    let qos = [Property::new("EventReliability", 1_i16), Property::new("ConnectionReliability", 1_i16)];
    default.my_factory().unwrap().create_channel(&qos, &[]).unwrap().1
}

/// A supplier that had its answer believed that the alarm was safe, and it was in the memory of a process that was killed.
#[test]
fn whatever_was_accepted_reaches_every_consumer_whenever_the_service_is_killed() {
    let folder = Folder::new("persistent");
    let mut address = own_address();
    let serve = folder.serve(&address);
    address.clone_from(&serve.address);
    let id = persistent_channel(&address);
    let orb = Orb::new(OrbOptions::default());
    let takers = [(); 3].map(|()| Taker::default());
    let _active: Vec<Activation> = takers.iter().map(|taker| taker.connect(&orb, &address, id)).collect();
    let mut random = fastrand::Rng::with_seed(2);
    let mut acknowledged: BTreeSet<(i32, i32)> = BTreeSet::new();
    let mut serve: Option<Serve> = Some(serve);
    for round in 0..8 {
        let running = serve.take().unwrap_or_else(|| folder.serve(&address));
        takers[0].stop(round % 2 == 0);
        let (told, made) = channel::<(i32, i32)>();
        let suppliers: Vec<_> = (0..3)
            .map(|supplier| {
                let (address, told) = (address.clone(), told.clone());
                thread::spawn(move || supply(&address, id, supplier, round * 1_000_000, &told))
            })
            .collect();
        drop(told);
        for _ in 0..random.u32(1..600) {
            acknowledged.insert(made.next_in_time());
        }
        drop(running);
        suppliers.into_iter().for_each(|supplier| supplier.end_in_time());
        acknowledged.extend(made.try_iter());
    }
    takers[0].stop(false);
    let serve = folder.serve(&address);
    for taker in &takers {
        wait_until("all that was accepted", || taker.missing(&acknowledged).is_empty());
        assert!(taker.got.lock().unwrap().disordered.is_empty(), "{:?}", taker.got.lock().unwrap().disordered);
    }
    assert!(acknowledged.len() > 300, "{}", acknowledged.len());
    // When all have confirmed all, nothing is kept any more.
    wait_until("the disk to be empty", || serve.print("stats", &["events_stored"]) == "events_stored 0\n");
    drop(serve);
}

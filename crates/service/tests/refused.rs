//! A lane for which the system refuses what it needs. Alone in its process, since it takes all descriptors that there are.

use std::fs::File;
use std::sync::mpsc::channel;

use client::notify::{EventChannelFactory, StructuredEvent, ThreadPool};
use client::{ConsumerOptions, Orb, OrbOptions, SimpleConsumer, SimpleSupplier};
use giop::realtime::PriorityModel;
use service::{Config, Counter, Service};
use testing::NextInTime;

#[test]
fn a_lane_that_cannot_be_started_is_served_by_the_main_lane() {
    let service = Service::start(Config { listen: "127.0.0.1:0".into(), ..Config::default() }).unwrap();
    let url = service.corbaloc("NotificationService");
    let factory = Orb::new(OrbOptions::default()).resolve(&url).unwrap();
    let (events, id) = EventChannelFactory::narrow(factory).unwrap().create_channel(&[], &[]).unwrap();
    // Over the connection that is used when there are no descriptors for another.
    events.default_consumer_admin().unwrap();
    let taken: Vec<File> = core::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    events.set_qos(&[ThreadPool::new(PriorityModel::ServerDeclared, 10, 2).into()]).unwrap();
    drop(taken);
    assert_eq!(service.counters().read(Counter::LanesRefused), 2);

    let (sender, received) = channel();
    let consumer = SimpleConsumer::connect(&url, Some(id), ConsumerOptions::default(), move |_| {
        // The test may have seen enough.
        let _ = sender.send(());
        Ok(())
    });
    let _consumer = consumer.unwrap();
    let supplier = SimpleSupplier::connect(&url, Some(id)).unwrap();
    (0..10).for_each(|_| supplier.publish(&StructuredEvent::new("Test", "Refused", "")).unwrap());
    (0..10).for_each(|_| received.next_in_time());
    assert_eq!(service.counters().read(Counter::HandedOver), 0);
    assert_eq!(service.counters().lanes().len(), 1);
}

//! A link to JacORB's notification service, which knows nothing of links.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

use client::notify::{
    CallbackConsumer, ClientType, Delivery, EventChannel, EventChannelFactory, Property, StructuredEvent,
    StructuredProxyPushConsumer, StructuredProxyPushSupplier, find_channel,
};
use client::{Activation, Orb, OrbOptions, ServantError};
use service::{Answer, Carrier, Command as Order, Config, Counter, LinkEntry, LinkState, LinkStatus, Query, Service};
use testing::{Killed, TempPath, wait_until};

/// JacORB's service with one channel. Its references are others each time that it is started; the file has that of its factory.
fn start_jacorb(file: &TempPath) -> Killed {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/interop/jacorb/notification");
    assert!(library.exists(), "{} is not there; run `make test` (or interop/install.sh)", library.display());
    let mut java = Command::new("java");
    java.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-DOAIAddr=127.0.0.1"]);
    // By default it changes the order of a supplier's events: by two threads, and a queue by priority that does not keep that of equal ones.
    java.args(["-Djacorb.notification.filter.thread_pool_size=1", "-Djacorb.notification.order_policy=FifoOrder"]);
    java.arg("-cp").arg(library.join("*"));
    java.args(["org.jacorb.notification.ConsoleMain", "-channels", "1", "-writeIOR", file.path()]);
    java.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Killed(java.spawn().expect("java starts"))
}

/// A supplier and a consumer of a channel.
struct Client {
    supplier: StructuredProxyPushConsumer,
    events: Receiver<StructuredEvent>,
    _consumer: Activation,
}

impl Client {
    fn of(channel: &EventChannel) -> Self {
        let supplier = channel.default_supplier_admin().expect("an admin");
        let (supplier, _) = supplier.obtain_notification_push_consumer(ClientType::Structured).expect("a proxy");
        let supplier = StructuredProxyPushConsumer::unchecked(supplier.object().clone());
        supplier.connect_structured_push_supplier(None).expect("it is connected");
        let consumer = channel.default_consumer_admin().expect("an admin");
        let (consumer, _) = consumer.obtain_notification_push_supplier(ClientType::Structured).expect("a proxy");
        let (sender, events) = mpsc::channel();
        let servant = CallbackConsumer::structured(move |delivery: Delivery<'_>| -> Result<(), ServantError> {
            if let Delivery::Structured(mut args) = delivery {
                let mut event = StructuredEvent::read(&mut args)?;
                event.variable_header.retain(|property| property.name != "CampanileOrigin");
                // The test may be over.
                let _over = sender.send(event);
            }
            Ok(())
        });
        let active = channel.object().orb().activate(Arc::new(servant)).expect("a socket");
        let proxy = StructuredProxyPushSupplier::unchecked(consumer.object().clone());
        proxy.connect_structured_push_consumer(active.reference()).expect("it is connected");
        Self { supplier, events, _consumer: active }
    }

    fn publish(&self, numbers: core::ops::Range<i32>) {
        numbers.for_each(|number| self.supplier.push_structured_event(&event(number)).expect("it is taken"));
    }

    /// Each field is as it was.
    #[track_caller]
    fn expect(&self, numbers: core::ops::Range<i32>) {
        for number in numbers {
            let mut got = None;
            wait_until(format_args!("the event {number}"), || {
                got = got.take().or_else(|| self.events.try_recv().ok());
                got.is_some()
            });
            assert_eq!(got, Some(event(number)));
        }
    }
}

fn event(number: i32) -> StructuredEvent {
    let mut event = StructuredEvent::new("Weather", "Wind", &format!("mast-{number}"));
    event.variable_header.push(Property::new("Priority", 3_i16));
    event.filterable_data.push(Property::new("number", number));
    event.filterable_data.push(Property::new("speed", f64::from(number) / 3.0));
    event.filterable_data.push(Property::new("site", "Cerro Paranal"));
    event.filterable_data.push(Property::new("gusts", number % 2 == 0));
    event.remainder = format!("what else there is of {number}").as_str().into();
    event
}

fn flows(near: &Service) -> Vec<LinkStatus> {
    let Ok(Answer::Links(links)) = near.ask(Query::Links) else { panic!("no answer") };
    links
}

fn await_links(near: &Service, state: LinkState) {
    wait_until(format_args!("both flows to be {state:?}"), || {
        let flows = flows(near);
        flows.len() == 2 && flows.iter().all(|flow| flow.state == state)
    });
}

fn pause(near: &Service, paused: bool) {
    let done = near.command(Order::PauseLink { name: "old".into(), paused });
    assert!(matches!(done, Ok(Answer::Done(Ok(())))), "{done:?}");
}

/// The channel of the service whose reference is in the file, once it is there.
fn far_channel(file: &TempPath) -> EventChannel {
    let orb = Orb::new(OrbOptions::default());
    let mut found = None;
    wait_until("JacORB's channel", || {
        let factory = orb.resolve(&format!("file:{}", file.path())).ok();
        found = factory.and_then(|factory| find_channel(&factory, Some(0)).ok());
        found.is_some()
    });
    found.expect("it was waited for").0
}

#[test]
fn events_cross_to_jacorbs_service_and_from_it_and_go_on_when_it_was_killed() {
    let file = TempPath::new("jacorb.ior");
    let jacorb = start_jacorb(&file);
    let link = LinkEntry {
        name: "old".into(),
        to: format!("file:{}", file.path()),
        channels: vec!["Weather".into()],
        far_channels: vec!["0".into()],
        carrier: Carrier::Iiop,
        ..LinkEntry::default()
    };
    let near = Service::start(Config { listen: "127.0.0.1:0".into(), link: vec![link], ..Config::default() });
    let near = near.expect("a service starts on the loopback");
    let there = Client::of(&far_channel(&file));
    await_links(&near, LinkState::Up);
    let factory = Orb::new(OrbOptions::default()).resolve(&near.corbaloc("NotificationService")).expect("a factory");
    let factory = EventChannelFactory::unchecked(factory);
    let id = factory.get_all_channels().expect("channels").into_iter().max().expect("that of the link");
    let here = Client::of(&factory.get_event_channel(id).expect("a channel"));
    here.publish(0..12);
    there.expect(0..12);
    here.expect(0..12);
    there.publish(100..112);
    here.expect(100..112);
    there.expect(100..112);

    drop((jacorb, std::fs::remove_file(&file)));
    await_links(&near, LinkState::Down);
    assert!(near.counters().read(Counter::LinksLost) > 0);
    assert!(flows(&near).iter().all(|flow| !flow.reason.is_empty()), "{:?}", flows(&near));
    // What is published before the new process has a consumer finds none there.
    pause(&near, true);
    here.publish(12..24);
    let _jacorb = start_jacorb(&file);
    let there = Client::of(&far_channel(&file));
    pause(&near, false);
    there.expect(12..24);
    here.expect(12..24);
    await_links(&near, LinkState::Up);
    there.publish(112..124);
    here.expect(112..124);
    let out = flows(&near).into_iter().map(|flow| flow.lost + flow.rejected + flow.dropped).sum::<u64>();
    assert_eq!(out, 0, "{:?}", flows(&near));
}

//! Filters where they count: between suppliers and consumers of a running service.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use client::notify::{
    ClientType, ConstraintExp, ConstraintInfo, ConsumerAdmin, EventChannel, EventType, Filter, FilterCall,
    FilterGroupOperator, FilterServant, MappingConstraintPair, Property, ProxySupplier, StructuredEvent,
    StructuredProxyPullSupplier, StructuredProxyPushConsumer, SupplierCallbacks, SupplierServant,
};
use client::{Activation, Orb, OrbOptions, ServantError};
use giop::value::AnyValue;
use service::Service;
use testing::{EndInTime, NextInTime};

use crate::peers::{numbered, start};
use crate::persistent::factory;

/// A channel of its own and an ORB to speak to it.
struct Channel {
    service: Service,
    orb: Orb,
    channel: EventChannel,
}

impl Channel {
    fn new() -> Self {
        let service = start();
        let (channel, _) = factory(&service).create_channel(&[], &[]).unwrap();
        Self { service, orb: Orb::new(OrbOptions::default()), channel }
    }

    fn filter(&self, constraints: &[ConstraintExp]) -> Filter {
        let filter = self.channel.default_filter_factory().unwrap().unwrap().create_filter("EXTENDED_TCL").unwrap();
        filter.add_constraints(constraints).unwrap();
        filter
    }

    fn matching(&self, constraint: &str) -> Filter {
        self.filter(&[ConstraintExp::new(constraint)])
    }

    fn consumers(&self, operator: FilterGroupOperator) -> ConsumerAdmin {
        self.channel.new_for_consumers(operator).unwrap().0
    }

    fn consumer(&self) -> Consumer {
        Consumer::of(&self.channel.default_consumer_admin().unwrap())
    }

    fn supplier(&self) -> StructuredProxyPushConsumer {
        let admin = self.channel.default_supplier_admin().unwrap();
        let (proxy, _) = admin.obtain_notification_push_consumer(ClientType::Structured).unwrap();
        let proxy = StructuredProxyPushConsumer::unchecked(proxy.object().clone());
        proxy.connect_structured_push_supplier(None).unwrap();
        proxy
    }

    /// A filter of the program's own: each event that it is asked about is reported, and answered as said.
    fn remote(&self, answers: Receiver<bool>) -> (Filter, Activation, Receiver<i32>) {
        let (asked, questions) = channel();
        let (asked, answers) = (Mutex::<Sender<i32>>::new(asked), Mutex::new(answers));
        let servant = FilterServant::new(move |call: FilterCall<'_>| {
            let event = call.event().map_err(|_| ServantError::bad_operation())?;
            asked.lock().unwrap().send(number(&event)).unwrap();
            Ok(answers.lock().unwrap().recv().unwrap_or(false))
        });
        let activation = self.orb.activate(Arc::new(servant)).unwrap();
        (Filter::unchecked(activation.reference().clone()), activation, questions)
    }
}

/// A consumer that pulls, so that what it gets is there when it asks.
struct Consumer {
    proxy: ProxySupplier,
    events: StructuredProxyPullSupplier,
}

impl Consumer {
    fn of(admin: &ConsumerAdmin) -> Self {
        Self::with(admin, &[])
    }

    fn with(admin: &ConsumerAdmin, qos: &[Property]) -> Self {
        let (proxy, _) = admin.obtain_notification_pull_supplier(ClientType::Structured).unwrap();
        proxy.set_qos(qos).unwrap();
        let events = StructuredProxyPullSupplier::unchecked(proxy.object().clone());
        events.connect_structured_pull_consumer(None).unwrap();
        Self { proxy, events }
    }

    /// The numbers of all the events that it has now.
    fn take(&self) -> Vec<i32> {
        std::iter::from_fn(|| self.events.try_pull_structured_event().unwrap()).map(|event| number(&event)).collect()
    }
}

fn number(event: &StructuredEvent) -> i32 {
    match event.filterable_data[0].value.value {
        giop::value::Value::Long(number) => number,
        ref other => panic!("{other:?}"),
    }
}

fn push(supplier: &StructuredProxyPushConsumer, numbers: impl IntoIterator<Item = i32>) {
    for number in numbers {
        supplier.push_structured_event(&numbered(number)).unwrap();
    }
}

#[test]
fn a_consumer_gets_what_any_constraint_of_any_of_its_filters_matches() {
    let c = Channel::new();
    let (filtered, free) = (c.consumer(), c.consumer());
    let two = [ConstraintExp::new("$number == 1"), ConstraintExp::new("$number == 2 and TRUE")];
    filtered.proxy.add_filter(&c.filter(&two)).unwrap();
    filtered.proxy.add_filter(&c.matching("$number > 8")).unwrap();
    push(&c.supplier(), 0..10);
    assert_eq!(filtered.take(), [1, 2, 9]);
    assert_eq!(free.take(), Vec::from_iter(0..10));
}

#[test]
fn a_change_of_a_filter_counts_from_the_next_event_on() {
    let c = Channel::new();
    let (consumer, supplier) = (c.consumer(), c.supplier());
    let filter = c.matching("$number == 1");
    let id = consumer.proxy.add_filter(&filter).unwrap();
    push(&supplier, 0..3);
    let [info] = &filter.get_all_constraints().unwrap()[..] else { panic!() };
    let changed = ConstraintInfo { constraint_expression: ConstraintExp::new("$number == 11"), ..info.clone() };
    filter.modify_constraints(&[], &[changed]).unwrap();
    push(&supplier, 10..13);
    filter.remove_all_constraints().unwrap();
    push(&supplier, 20..23);
    consumer.proxy.remove_filter(id).unwrap();
    push(&supplier, 30..33);
    assert_eq!(consumer.take(), [1, 11, 30, 31, 32]);
    consumer.proxy.add_filter(&filter).unwrap();
    push(&supplier, 40..43);
    filter.destroy().unwrap();
    push(&supplier, 50..53);
    assert_eq!(consumer.take(), [50, 51, 52]);
}

#[test]
fn event_types_of_a_constraint_are_looked_at_first() {
    let c = Channel::new();
    let consumer = c.consumer();
    let tests = ConstraintExp::new("$number < 2").for_types(&[EventType::new("Test", "Num*")]);
    let others = ConstraintExp::new("TRUE").for_types(&[EventType::new("Test", "Other"), EventType::new("x", "*")]);
    consumer.proxy.add_filter(&c.filter(&[tests, others])).unwrap();
    let supplier = c.supplier();
    push(&supplier, 0..4);
    let mut event = numbered(7);
    event.type_name = "Other".into();
    supplier.push_structured_event(&event).unwrap();
    assert_eq!(consumer.take(), [0, 1, 7]);
}

#[test]
fn the_filters_of_admin_and_proxy_are_joined_as_the_admin_says() {
    let c = Channel::new();
    for (operator, expected) in
        [(FilterGroupOperator::And, vec![4, 5]), (FilterGroupOperator::Or, Vec::from_iter(0..10))]
    {
        let admin = c.consumers(operator);
        admin.add_filter(&c.matching("$number < 6")).unwrap();
        let consumer = Consumer::of(&admin);
        consumer.proxy.add_filter(&c.matching("$number > 3")).unwrap();
        push(&c.supplier(), 0..10);
        assert_eq!(consumer.take(), expected, "{operator:?}");
    }
}

#[test]
fn what_a_suppliers_filter_does_not_let_pass_reaches_no_consumer() {
    let c = Channel::new();
    let (consumer, filtered, free) = (c.consumer(), c.supplier(), c.supplier());
    filtered.add_filter(&c.matching("$number == 2")).unwrap();
    push(&filtered, 0..4);
    push(&free, 10..12);
    assert_eq!(consumer.take(), [2, 10, 11]);
}

#[test]
fn a_priority_filter_changes_the_order_for_its_consumer_only() {
    let c = Channel::new();
    let factory = c.channel.default_filter_factory().unwrap().unwrap();
    let mapping = factory.create_mapping_filter("EXTENDED_TCL", &AnyValue::from(0_i16)).unwrap();
    let pair = |constraint: &str, priority: i16| MappingConstraintPair {
        constraint_expression: ConstraintExp::new(constraint),
        result_to_set: AnyValue::from(priority),
    };
    mapping.add_mapping_constraints(&[pair("$number == 3", 5), pair("$number >= 3", 9), pair("TRUE", -1)]).unwrap();
    let by_priority = [Property::new("OrderPolicy", 2_i16)];
    let admin = c.channel.default_consumer_admin().unwrap();
    let (mapped, plain) = (Consumer::with(&admin, &by_priority), Consumer::with(&admin, &by_priority));
    mapped.proxy.set_priority_filter(Some(&mapping)).unwrap();
    push(&c.supplier(), 0..5);
    assert_eq!(mapped.take(), [3, 4, 0, 1, 2]);
    assert_eq!(plain.take(), [0, 1, 2, 3, 4]);
}

#[test]
fn a_filter_that_the_program_implements_is_asked_and_only_its_own_consumer_waits() {
    let c = Channel::new();
    let (answer, answers) = channel();
    let (remote, _activation, questions) = c.remote(answers);
    let patient = [Property::new("FilterTimeout", 36_000_000_000_u64)];
    let asking = Consumer::with(&c.channel.default_consumer_admin().unwrap(), &patient);
    let other = c.consumer();
    asking.proxy.add_filter(&remote).unwrap();
    push(&c.supplier(), 0..3);
    std::thread::scope(|scope| {
        let waiting = asking.events.object().with_reply_timeout(None).with_private_connection();
        let waiting = StructuredProxyPullSupplier::unchecked(waiting);
        let got = scope.spawn(move || [(); 2].map(|()| number(&waiting.pull_structured_event().unwrap())));
        assert_eq!(questions.next_in_time(), 0);
        // It has not answered yet.
        assert_eq!(other.take(), [0, 1, 2]);
        for yes in [false, true, true] {
            answer.send(yes).unwrap();
        }
        assert_eq!(got.end_in_time(), [1, 2]);
    });
    drop(c.service);
}

#[test]
fn a_callback_is_notified_of_the_event_types_that_a_filter_is_for() {
    struct Recorder(Mutex<Sender<[Vec<String>; 2]>>);

    impl SupplierCallbacks for Recorder {
        fn subscription_change(&self, added: &[EventType], removed: &[EventType]) {
            let told = [added, removed].map(|types| types.iter().map(ToString::to_string).collect());
            self.0.lock().unwrap().send(told).unwrap();
        }
    }

    let c = Channel::new();
    let (told, changes) = channel();
    let servant = SupplierServant::subscriptions(Recorder(Mutex::new(told)));
    let activation = c.orb.activate(Arc::new(servant)).unwrap();
    let filter = c.filter(&[]);
    filter.attach_callback(activation.reference()).unwrap();
    let kind = EventType::new("ALMA", "Temperature");
    let one = ConstraintExp::new("TRUE").for_types(std::slice::from_ref(&kind));
    filter.add_constraints(&[one]).unwrap();
    assert_eq!(changes.next_in_time(), [vec![kind.to_string()], vec![]]);
    filter.remove_all_constraints().unwrap();
    assert_eq!(changes.next_in_time(), [vec![], vec![kind.to_string()]]);
}

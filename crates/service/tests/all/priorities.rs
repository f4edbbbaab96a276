//! Real-time CORBA priorities through a whole service: from the supplier's request to the consumer's.

use std::io::Write;
use std::sync::mpsc::{Receiver, channel};

use client::notify::{ClientType, EventChannel, StructuredEvent, ThreadPool, ThreadPoolLanes, find_channel};
use client::{ConsumerOptions, Orb, OrbOptions, SimpleConsumer, SimpleSupplier, SupplierOptions};
use giop::cdr::{CharSet, Endian};
use giop::exception::{Kind, OMG_MINOR, SystemException};
use giop::message::{Reply, ReplyStatus, RequestHead, Response, ServiceContexts};
use giop::realtime::{self, PriorityModel, PriorityModelPolicy};
use service::{Counter, Service};
use testing::NextInTime;

use crate::peers::{BareSupplier, REQUEST, numbered, read_message, start, wait_until};

/// A consumer that gives the priorities it gets to a queue, with a reference that names this model.
struct PriorityRecorder {
    _consumer: SimpleConsumer,
    priorities: Receiver<Option<i16>>,
}

fn consume(service: &Service, model: Option<PriorityModel>) -> PriorityRecorder {
    let (sender, priorities) = channel();
    let priority_model = model.map(|model| PriorityModelPolicy { model, server_priority: 3 });
    let options = ConsumerOptions { priority_model, ..ConsumerOptions::default() };
    let url = service.corbaloc("NotificationService");
    let consumer = SimpleConsumer::connect(&url, None, options, move |received| {
        // The test may have seen enough.
        let _ = sender.send(received.priority());
        Ok(())
    });
    PriorityRecorder { _consumer: consumer.unwrap(), priorities }
}

impl BareSupplier {
    /// Pushes with this as the context `RTCorbaPriority`. What the reply tells, or with what exception it was refused.
    fn push_with_priority(
        &mut self,
        event: &StructuredEvent,
        context: Option<&[u8]>,
    ) -> Result<Option<i16>, SystemException> {
        let context = context.map(|data| (ServiceContexts::RT_CORBA_PRIORITY, data));
        let head = RequestHead { contexts: context.as_slice(), ..REQUEST };
        let message = self.push_message(&head, CharSet::Latin1, event);
        self.stream.write_all(&message).unwrap();
        let (header, bytes) = read_message(&mut self.stream).expect("an answer");
        let reply = Reply::parse(&bytes, &header).unwrap();
        let echo = reply.contexts.find(ServiceContexts::RT_CORBA_PRIORITY);
        match reply.status {
            ReplyStatus::NoException => Ok(echo.map(|data| realtime::parse_priority_context(data).unwrap())),
            _ => Err(SystemException::read(&mut reply.body(&bytes, &header, CharSet::Latin1)).unwrap()),
        }
    }
}

#[test]
fn priority_goes_with_the_event_and_comes_back_with_the_reply() {
    let service = start();
    let asking = consume(&service, Some(PriorityModel::ClientPropagated));
    let declaring = consume(&service, Some(PriorityModel::ServerDeclared));
    let unaware = consume(&service, None);
    let mut supplier = BareSupplier::new(&service, None);
    for (number, priority) in [0, 1, 300, i16::MAX].into_iter().enumerate() {
        for endian in [Endian::Big, Endian::Little] {
            let context = realtime::priority_context(priority, endian);
            let event = numbered(i32::try_from(number).unwrap());
            assert_eq!(supplier.push_with_priority(&event, Some(&context)), Ok(Some(priority)));
            assert_eq!(asking.priorities.next_in_time(), Some(priority));
            assert_eq!(declaring.priorities.next_in_time(), None);
            assert_eq!(unaware.priorities.next_in_time(), None);
        }
    }
    assert_eq!(supplier.push_with_priority(&numbered(9), None), Ok(None));
    // This one's was not sent, and the main lane has none of its own.
    assert_eq!(asking.priorities.next_in_time(), None);
}

#[test]
fn priority_that_is_none_is_refused_and_counted_and_the_event_goes_nowhere() {
    let service = start();
    let asking = consume(&service, Some(PriorityModel::ClientPropagated));
    let mut supplier = BareSupplier::new(&service, None);
    let whole = realtime::priority_context(5, Endian::Big);
    for length in 0..whole.len() {
        let refused = supplier.push_with_priority(&numbered(1), Some(&whole[..length])).unwrap_err();
        assert_eq!((refused.kind, refused.minor), (Kind::Marshal, 0), "cut to {length}");
    }
    for priority in [-1, i16::MIN] {
        let context = realtime::priority_context(priority, Endian::Little);
        let refused = supplier.push_with_priority(&numbered(1), Some(&context)).unwrap_err();
        assert_eq!((refused.kind, refused.minor), (Kind::DataConversion, OMG_MINOR | 2), "{priority}");
    }
    assert_eq!(supplier.push_with_priority(&numbered(1), Some(&whole)), Ok(Some(5)));
    assert_eq!(asking.priorities.next_in_time(), Some(5));
    assert_eq!(service.counters().read(Counter::WrongPriorities), 6);
    wait_until("the event", || service.counters().read(Counter::EventsIn) == 1);
}

#[test]
fn one_way_push_with_a_wrong_priority_is_counted_and_answered_by_nothing() {
    let service = start();
    let mut supplier = BareSupplier::new(&service, None);
    let context: &[(u32, &[u8])] = &[(ServiceContexts::RT_CORBA_PRIORITY, &[0, 0, 0x80, 0])];
    let head = RequestHead { contexts: context, response: Response::None, ..REQUEST };
    let message = supplier.push_message(&head, CharSet::Latin1, &numbered(1));
    supplier.stream.write_all(&message).unwrap();
    wait_until("the push", || service.counters().read(Counter::WrongPriorities) == 1);
    assert_eq!(supplier.push_with_priority(&numbered(2), None), Ok(None));
    wait_until("the event", || service.counters().read(Counter::EventsIn) == 1);
}

/// The default channel.
fn channel_of(service: &Service) -> EventChannel {
    let found = Orb::new(OrbOptions::default()).resolve(&service.corbaloc("NotificationService")).unwrap();
    find_channel(&found, None).unwrap().0
}

fn supply(service: &Service, priority: Option<i16>) -> SimpleSupplier {
    let options = SupplierOptions { priority, ..SupplierOptions::default() };
    SimpleSupplier::connect_with(&service.corbaloc("NotificationService"), None, options).unwrap()
}

const PROPAGATED: PriorityModel = PriorityModel::ClientPropagated;
const DECLARED: PriorityModel = PriorityModel::ServerDeclared;

#[test]
fn consumer_on_a_lane_gets_the_suppliers_priority_or_else_the_lanes() {
    let service = start();
    let lanes = ThreadPoolLanes::new(PROPAGATED, 7, &[(10, 1), (100, 1)]);
    channel_of(&service).set_qos(&[lanes.into()]).unwrap();
    let consumer = consume(&service, Some(PROPAGATED));
    for (told, heard) in [(Some(5), 5), (Some(50), 50), (Some(100), 100), (Some(i16::MAX), i16::MAX), (None, 10)] {
        let supplier = supply(&service, told);
        assert_eq!(supplier.proxy().priority(), told);
        supplier.publish(&numbered(1)).unwrap();
        assert_eq!(consumer.priorities.next_in_time(), Some(heard), "{told:?}");
    }
    // The event's own priority chooses the lane where no other is sent, and the lane's is sent on then.
    let mut event = numbered(2);
    event.variable_header.push(client::notify::Property::new("Priority", 120_i16));
    supply(&service, None).publish(&event).unwrap();
    assert_eq!(consumer.priorities.next_in_time(), Some(100));
}

#[test]
fn declared_priority_is_what_consumers_get_wherever_the_event_comes_from() {
    let service = start();
    let channel = channel_of(&service);
    channel.set_qos(&[ThreadPoolLanes::new(PROPAGATED, 0, &[(1, 1), (2, 1)]).into()]).unwrap();
    channel.default_consumer_admin().unwrap().set_qos(&[ThreadPool::new(DECLARED, 300, 1).into()]).unwrap();
    let consumer = consume(&service, Some(PROPAGATED));
    for told in [None, Some(1), Some(2000)] {
        let supplier = supply(&service, told);
        assert_eq!(supplier.proxy().ior().priority_model().unwrap().model, PROPAGATED);
        supplier.publish(&numbered(1)).unwrap();
        assert_eq!(consumer.priorities.next_in_time(), Some(300), "{told:?}");
    }
}

#[test]
fn what_a_supplier_tells_a_declared_proxy_is_not_even_looked_at() {
    let service = start();
    let channel = channel_of(&service);
    let pool = ThreadPool::new(DECLARED, 300, 1);
    channel.default_supplier_admin().unwrap().set_qos(&[pool.into()]).unwrap();
    let consumer = consume(&service, Some(PROPAGATED));
    let mut supplier = BareSupplier::new(&service, None);
    for context in [&realtime::priority_context(9, Endian::Big)[..], &[0, 0, 0xff, 0xff], &[]] {
        assert_eq!(supplier.push_with_priority(&numbered(1), Some(context)), Ok(None));
        assert_eq!(consumer.priorities.next_in_time(), None, "the consumer's side has no pool and no priority");
    }
    assert_eq!(service.counters().read(Counter::WrongPriorities), 0);
}

#[test]
fn wrong_priority_is_refused_on_whichever_lane_it_arrives() {
    let service = start();
    let lanes = ThreadPoolLanes::new(PROPAGATED, 0, &[(0, 1), (100, 1)]);
    channel_of(&service).set_qos(&[lanes.into()]).unwrap();
    let mut supplier = BareSupplier::new(&service, None);
    let wrong = realtime::priority_context(-1, Endian::Big);
    let right = realtime::priority_context(200, Endian::Big);
    for _ in 0..3 {
        assert_eq!(supplier.push_with_priority(&numbered(1), Some(&wrong)).unwrap_err().kind, Kind::DataConversion);
        assert_eq!(supplier.push_with_priority(&numbered(1), Some(&right)), Ok(Some(200)));
    }
    wait_until("the counts", || service.counters().read(Counter::EventsIn) == 3);
    assert_eq!(service.counters().read(Counter::WrongPriorities), 3);
}

#[test]
fn proxies_are_obtained_with_their_pools_and_say_so() {
    let service = start();
    let channel = channel_of(&service);
    let pool = [ThreadPool::new(PROPAGATED, 50, 1).into()];
    let (suppliers, consumers) = (channel.default_supplier_admin().unwrap(), channel.default_consumer_admin().unwrap());
    let (proxy, id) = suppliers.obtain_notification_push_consumer_with_qos(ClientType::Structured, &pool).unwrap();
    let policy = PriorityModelPolicy { model: PROPAGATED, server_priority: 50 };
    assert_eq!(proxy.object().ior().priority_model(), Some(policy));
    assert_eq!(suppliers.push_consumers().unwrap(), [id]);
    let (proxy, id) = consumers.obtain_notification_push_supplier_with_qos(ClientType::Any, &pool).unwrap();
    assert_eq!(proxy.object().ior().priority_model(), Some(policy));
    assert_eq!(consumers.push_suppliers().unwrap(), [id]);
    let none = [ThreadPool::new(PROPAGATED, 50, 0).into()];
    let refused = consumers.obtain_notification_push_supplier_with_qos(ClientType::Any, &none).unwrap_err();
    assert!(refused.is("UnsupportedQoS"), "{refused}");
    assert_eq!(consumers.push_suppliers().unwrap(), [id]);
}

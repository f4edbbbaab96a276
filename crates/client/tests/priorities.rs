//! Real-time CORBA priorities between the orb's two ends, over real sockets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use campanile_client::notify::{ClientType, Delivery, PrioritizedConsumer};
use campanile_client::{Activation, ObjectRef, Orb, OrbOptions, Servant};
use giop::cdr::{CharSet, Endian, Version};
use giop::framing::{Inbound, Limits};
use giop::message::{self, Reply, RequestHead, Response, ServiceContexts};
use giop::realtime::{self, PriorityModel, PriorityModelPolicy};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, mpsc};
use testing::{NextInTime, patient};

type Priorities = mpsc::Receiver<Option<i16>>;

/// A consumer that tells at what priorities it is called, with a reference that names a model.
fn consumer(model: Option<PriorityModel>) -> (Activation, ObjectRef, Priorities) {
    let (sender, told) = mpsc::channel();
    let servant: Arc<dyn Servant> = Arc::new(PrioritizedConsumer::new(ClientType::Any, move |delivery, priority| {
        if let Delivery::Any(_) = delivery {
            sender.send(priority).unwrap();
        }
        Ok(())
    }));
    let policy = model.map(|model| PriorityModelPolicy { model, server_priority: 5 });
    let activation = Orb::new(OrbOptions::default()).activate_at(servant, policy).unwrap();
    let object = Orb::new(OrbOptions::default()).resolve(&activation.reference().ior().to_string()).unwrap();
    (activation, object, told)
}

fn push(object: &ObjectRef) {
    object.invoke("push", |w| w.u32(0)).unwrap();
}

#[test]
fn client_propagates_its_priority_with_each_request() {
    let (_activation, object, told) = consumer(Some(PriorityModel::ClientPropagated));
    // The first request on a connection has the code sets beside it.
    for priority in [300, 0, i16::MAX, 7] {
        let object = object.with_priority(priority);
        assert_eq!(object.priority(), Some(priority));
        push(&object);
        push(&object.with_private_connection());
        push(&object.with_reply_timeout(None));
        for _ in 0..3 {
            assert_eq!(told.next_in_time(), Some(priority));
        }
    }
    push(&object);
    assert_eq!(told.next_in_time(), None);
}

#[test]
fn priority_is_sent_only_to_objects_that_ask_for_it() {
    for model in [None, Some(PriorityModel::ServerDeclared)] {
        let (_activation, object, told) = consumer(model);
        let object = object.with_priority(300);
        assert_eq!(object.priority(), None);
        push(&object);
        assert_eq!(told.next_in_time(), None);
    }
}

#[test]
fn priority_below_zero_is_sent_as_zero() {
    let (_activation, object, told) = consumer(Some(PriorityModel::ClientPropagated));
    push(&object.with_priority(-5));
    assert_eq!(told.next_in_time(), Some(0));
}

#[test]
fn reply_tells_the_priority_of_its_request() {
    let (_activation, object, told) = consumer(Some(PriorityModel::ClientPropagated));
    let profile = object.ior().iiop().unwrap();
    let mut stream = TcpStream::connect((profile.host.as_str(), profile.port)).unwrap();
    patient(&stream);
    let mut inbound = Inbound::new(Limits::default());
    let told_priority = realtime::priority_context(1234, Endian::Big);
    let bad = [0, 0, 0xff, 0xff];
    let data: [Option<&[u8]>; 4] = [None, Some(&told_priority), Some(&bad), Some(&[])];
    for data in data {
        let context = data.map(|data| (ServiceContexts::RT_CORBA_PRIORITY, data));
        let head = RequestHead {
            version: Version::V1_2,
            endian: Endian::Big,
            request_id: 9,
            response: Response::Expected,
            key: &profile.key,
            operation: b"push",
            contexts: context.as_slice(),
            body_phase: None,
        };
        let mut bytes = Vec::new();
        let open = message::begin_request(&mut bytes, &head);
        open.body(&mut bytes, CharSet::Latin1).u32(0);
        open.finish(&mut bytes);
        stream.write_all(&bytes).unwrap();
        let echo = loop {
            if let Some(message) = inbound.poll_message().unwrap() {
                let reply = Reply::parse(message.bytes, &message.header).unwrap();
                let echo = reply.contexts.find(ServiceContexts::RT_CORBA_PRIORITY);
                break echo.map(|data| realtime::parse_priority_context(data).unwrap());
            }
            let count = stream.read(inbound.space()).unwrap();
            assert!(count > 0, "the connection was closed");
            inbound.filled(count);
        };
        let expected = data.and_then(|data| realtime::parse_priority_context(data).ok());
        assert_eq!(echo, expected, "{data:?}");
        assert_eq!(told.next_in_time(), expected, "{data:?}");
    }
}

//! A consumer's end of a connection: what is answered when, and in what order events are handled.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use campanile_client::notify::{CallbackConsumer, ConsumerAdmin, Delivery, EventChannel, StructuredProxyPushSupplier};
use campanile_client::{
    Activation, ChannelFinder, ConsumerOptions, Health, InvokeError, Orb, OrbOptions, Servant, ServantError, Served,
    SimpleConsumer,
};
use giop::cdr::{CharSet, Endian, Reader, Version, Writer};
use giop::exception::{Kind, SystemException};
use giop::framing::{Inbound, Limits};
use giop::ior::{Ior, ORB_TYPE_CAMPANILE};
use giop::message::{self, Reply, ReplyStatus, RequestHead, Response, ServiceContexts};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testing::{NextInTime, patient, wait_until};

/// A service that is only a socket.
struct Pusher {
    stream: TcpStream,
    inbound: Inbound,
    key: Vec<u8>,
    output: Vec<u8>,
}

/// A push: the request's id, which is the event, too.
#[derive(Clone, Copy)]
struct Push {
    id: u32,
    response: Response,
    starts_flow: bool,
}

impl Push {
    fn new(id: u32) -> Self {
        Self { id, response: Response::Expected, starts_flow: false }
    }
}

impl Pusher {
    fn connect(activation: &Activation) -> Self {
        let profile = activation.reference().ior().iiop().unwrap();
        let stream = TcpStream::connect((profile.host.as_str(), profile.port)).unwrap();
        patient(&stream);
        Self { stream, inbound: Inbound::new(Limits::default()), key: profile.key.clone(), output: Vec::new() }
    }

    /// All with one `write`.
    fn push(&mut self, pushes: impl IntoIterator<Item = Push>) {
        for Push { id, response, starts_flow } in pushes {
            let start = [(ServiceContexts::FLOW_START, &[][..])];
            let head = RequestHead {
                version: Version::V1_2,
                endian: Endian::Little,
                request_id: id,
                response,
                key: &self.key,
                operation: b"push_structured_event",
                contexts: if starts_flow { &start } else { &[] },
                body_phase: None,
            };
            let open = message::begin_request(&mut self.output, &head);
            open.body(&mut self.output, CharSet::Latin1).u32(id);
            open.finish(&mut self.output);
        }
        self.stream.write_all(&self.output).unwrap();
        self.output.clear();
    }

    /// The next reply: to which request, and the system exception it is.
    fn reply(&mut self) -> (u32, Option<Kind>) {
        loop {
            if let Some(message) = self.inbound.poll_message().unwrap() {
                let reply = Reply::parse(message.bytes, &message.header).unwrap();
                let mut body = reply.body(message.bytes, &message.header, CharSet::Latin1);
                let raised =
                    (reply.status != ReplyStatus::NoException).then(|| SystemException::read(&mut body).unwrap().kind);
                return (reply.request_id, raised);
            }
            let count = self.stream.read(self.inbound.space()).unwrap();
            assert_ne!(count, 0, "the consumer closed the connection");
            self.inbound.filled(count);
        }
    }
}

/// A consumer that gives its events to a queue after `handle` has seen them.
fn consumer(
    early: bool,
    mut handle: impl FnMut(u32) -> Result<(), ServantError> + Send + 'static,
) -> (Activation, Receiver<u32>) {
    let (sender, events) = channel();
    let servant = CallbackConsumer::structured(move |delivery: Delivery<'_>| {
        let Delivery::Structured(mut event) = delivery else { return Ok(()) };
        let event = event.u32()?;
        let outcome = handle(event);
        sender.send(event).unwrap();
        outcome
    });
    let servant = Arc::new(servant.answering_early(early));
    (Orb::new(OrbOptions::default()).activate(servant).unwrap(), events)
}

/// What the orb was asked, once it has counted so many requests.
fn served(activation: &Activation, requests: u64) -> Served {
    wait_until("requests to be notified", || activation.orb().served().requests >= requests);
    activation.orb().served()
}

#[test]
fn its_reference_says_that_it_keeps_order() {
    let (activation, _events) = consumer(false, |_| Ok(()));
    assert_eq!(activation.reference().ior().orb_type(), Some(ORB_TYPE_CAMPANILE));
}

#[test]
fn an_event_is_answered_when_it_has_been_handled() {
    let handled = Arc::new(Mutex::new(0));
    let counting = handled.clone();
    let (activation, _events) = consumer(false, move |event| {
        *counting.lock().unwrap() = event;
        Ok(())
    });
    let mut pusher = Pusher::connect(&activation);
    pusher.push((1..=100).map(Push::new));
    for id in 1..=100 {
        assert_eq!(pusher.reply(), (id, None));
        assert!(*handled.lock().unwrap() >= id);
    }
}

#[test]
fn events_answered_early_are_answered_before_any_of_them_is_handled() {
    let (open, gate) = channel::<()>();
    let (activation, events) = consumer(true, move |_| gate.recv().map_err(|_| ServantError::system(Kind::Unknown)));
    let mut pusher = Pusher::connect(&activation);
    // The first may be read alone; the others come while it is being handled.
    pusher.push([Push::new(0)]);
    assert_eq!(pusher.reply(), (0, None));
    pusher.push((1..=50).map(Push::new));
    open.send(()).unwrap();
    for id in 1..=50 {
        assert_eq!(pusher.reply(), (id, None));
    }
    assert!(events.try_iter().count() <= 1, "the gate has let one through");
    (0..50).for_each(|_| open.send(()).unwrap());
    let counts = served(&activation, 51);
    assert_eq!((counts.requests, counts.answered_early, counts.one_ways), (51, 51, 0));
}

#[test]
fn one_way_events_are_counted_and_keep_their_order() {
    let (activation, events) = consumer(false, |_| Ok(()));
    let mut pusher = Pusher::connect(&activation);
    pusher.push((0..1000).map(|id| Push { response: Response::None, ..Push::new(id) }));
    pusher.push([Push::new(1000)]);
    assert_eq!(pusher.reply(), (1000, None));
    assert_eq!(events.try_iter().collect::<Vec<_>>(), (0..=1000).collect::<Vec<_>>());
    let counts = served(&activation, 1001);
    assert_eq!((counts.requests, counts.one_ways, counts.refused), (1001, 1000, 0));
}

#[test]
fn what_was_sent_behind_a_refused_push_is_refused_until_that_comes_again() {
    let mut refusals = 0;
    let (activation, events) = consumer(false, move |event| {
        refusals += u32::from(event == 1);
        if event == 1 && refusals == 1 { Err(ServantError::system(Kind::Transient)) } else { Ok(()) }
    });
    let mut pusher = Pusher::connect(&activation);
    let first = Push { starts_flow: true, ..Push::new(0) };
    pusher.push([first, Push::new(1), Push::new(2), Push::new(3)]);
    let replies = [(0, None), (1, Some(Kind::Transient)), (2, Some(Kind::Transient)), (3, Some(Kind::Transient))];
    assert_eq!([0; 4].map(|_| pusher.reply()), replies);
    pusher.push([Push { starts_flow: true, ..Push::new(1) }, Push::new(2), Push::new(3)]);
    assert_eq!([0; 3].map(|_| pusher.reply()), [(1, None), (2, None), (3, None)]);
    assert_eq!(events.try_iter().collect::<Vec<_>>(), [0, 1, 1, 2, 3]);
    assert_eq!(served(&activation, 7).refused, 2);
}

#[test]
fn an_event_that_makes_no_sense_stops_nothing() {
    let refuse = |event| if event == 1 { Err(ServantError::system(Kind::Marshal)) } else { Ok(()) };
    let (activation, _events) = consumer(false, refuse);
    let mut pusher = Pusher::connect(&activation);
    pusher.push([Push { starts_flow: true, ..Push::new(0) }, Push::new(1), Push::new(2)]);
    assert_eq!([0; 3].map(|_| pusher.reply()), [(0, None), (1, Some(Kind::Marshal)), (2, None)]);
}

#[test]
fn a_caller_that_does_not_say_where_it_begins_anew_is_refused_nothing() {
    let refuse = |event| if event == 1 { Err(ServantError::system(Kind::Transient)) } else { Ok(()) };
    let (activation, _events) = consumer(false, refuse);
    let mut pusher = Pusher::connect(&activation);
    pusher.push((0..4).map(Push::new));
    let replies = [(0, None), (1, Some(Kind::Transient)), (2, None), (3, None)];
    assert_eq!([0; 4].map(|_| pusher.reply()), replies);
}

// ---- subscriptions ----

/// An object of a service, made by hand.
struct HandMade<F>(&'static str, F);

impl<F> Servant for HandMade<F>
where
    F: Fn(&str, &mut Reader<'_>, &mut Writer<'_>) -> Result<(), ServantError> + Send + Sync + 'static,
{
    fn type_id(&self) -> &str {
        self.0
    }

    fn invoke(&self, operation: &str, args: &mut Reader<'_>, reply: &mut Writer<'_>) -> Result<(), ServantError> {
        (self.1)(operation, args, reply)
    }
}

/// A channel of one proxy at a time, and the consumers that were connected.
struct Channel {
    channel: Activation,
    proxy: Arc<Mutex<Option<Activation>>>,
    consumers: Receiver<Ior>,
    _admin: Activation,
}

impl Channel {
    fn new() -> Self {
        Self::with(|_| ())
    }

    /// A channel that calls `connects` with each consumer before it answers its connection.
    fn with(connects: impl Fn(&Ior) + Send + Sync + 'static) -> Self {
        let connects = Arc::new(connects);
        let orb = Orb::new(OrbOptions::default());
        let (sender, consumers) = channel();
        let proxy = Arc::new(Mutex::new(None));
        let (place, of_proxies) = (proxy.clone(), orb.clone());
        let admin = HandMade(
            ConsumerAdmin::REPOSITORY_ID,
            move |operation: &str, _: &mut Reader<'_>, reply: &mut Writer<'_>| {
                if operation != "obtain_notification_push_supplier" {
                    return Err(ServantError::bad_operation());
                }
                let (sender, connects) = (sender.clone(), connects.clone());
                let made = HandMade(
                    StructuredProxyPushSupplier::REPOSITORY_ID,
                    move |operation: &str, args: &mut Reader<'_>, _: &mut Writer<'_>| {
                        match operation {
                            "connect_structured_push_consumer" => {
                                let consumer = Ior::read(args)?;
                                connects(&consumer);
                                sender.send(consumer).unwrap();
                            }
                            "disconnect_structured_push_supplier" => {}
                            _ => return Err(ServantError::bad_operation()),
                        }
                        Ok(())
                    },
                );
                let made = of_proxies.activate(Arc::new(made)).unwrap();
                made.reference().ior().write(reply);
                reply.i32(0);
                *place.lock().unwrap() = Some(made);
                Ok(())
            },
        );
        let admin = orb.activate(Arc::new(admin)).unwrap();
        let of_admin = admin.reference().ior().clone();
        let channel = HandMade(
            EventChannel::REPOSITORY_ID,
            move |operation: &str, _: &mut Reader<'_>, reply: &mut Writer<'_>| {
                if operation != "_get_default_consumer_admin" {
                    return Err(ServantError::bad_operation());
                }
                of_admin.write(reply);
                Ok(())
            },
        );
        Self { channel: orb.activate(Arc::new(channel)).unwrap(), proxy, consumers, _admin: admin }
    }
}

/// A service gave up a consumer that it could not reach, and notified it so when it could again. By then the consumer had found
/// its subscription gone and made it anew: with `ends_when_disconnected` the new one ended, though it had not been
/// disconnected.
#[test]
fn a_deregistration_that_comes_late_does_not_end_the_subscription_that_was_made_anew() {
    let service = Channel::new();
    let options = ConsumerOptions { ends_when_disconnected: true, check_every: None, ..ConsumerOptions::default() };
    let address = service.channel.reference().ior().to_string();
    let consumer = SimpleConsumer::connect(&address, None, options, |_| Ok(())).unwrap();
    let farewell = |to: Ior| {
        let consumer = Orb::new(OrbOptions::default()).object(to);
        consumer.invoke("disconnect_structured_push_consumer", |_| ()).map(|_| ())
    };
    let first = service.consumers.next_in_time();
    drop(service.proxy.lock().unwrap().take());
    assert_eq!(consumer.check().unwrap(), Health::Reconnected);
    let second = service.consumers.next_in_time();
    // Whether there is still an object to notify is the consumer's affair.
    let _ = farewell(first);
    assert_eq!((consumer.has_ended(), consumer.check().unwrap()), (false, Health::Connected));
    // That of its own subscription does end it.
    farewell(second).unwrap();
    assert_eq!((consumer.has_ended(), consumer.check().unwrap()), (true, Health::Ended));
}

/// The watch made the subscriptions of other consumers anew that were just being closed: a consumer got an event after its close.
#[test]
fn a_consumer_that_is_closed_while_its_subscription_is_made_anew_gets_no_event() {
    let closing: Arc<Mutex<Option<SimpleConsumer>>> = Arc::default();
    let (to_close, (answers, answer)) = (closing.clone(), channel());
    let service = Channel::with(move |consumer| {
        let Some(closed) = to_close.lock().unwrap().take() else { return };
        drop(closed);
        let consumer = Orb::new(OrbOptions::default()).object(consumer.clone());
        answers.send(consumer.invoke("push_structured_event", |_| ()).map(drop)).unwrap();
    });
    let (sender, events) = channel();
    let options = ConsumerOptions { check_every: Some(Duration::from_millis(1)), ..ConsumerOptions::default() };
    let address = service.channel.reference().ior().to_string();
    let consumer = SimpleConsumer::connect(&address, None, options, move |_| {
        sender.send(()).unwrap();
        Ok(())
    });
    *closing.lock().unwrap() = Some(consumer.unwrap());
    drop(service.proxy.lock().unwrap().take());
    let error = answer.next_in_time().unwrap_err();
    let is_gone = matches!(&error, InvokeError::System { exception, .. } if exception.kind == Kind::ObjectNotExist);
    assert!(is_gone, "{error}");
    assert!(events.try_recv().is_err());
}

/// One that is closed while the channel is looked for is not connected again.
#[test]
fn a_consumer_that_is_closed_while_its_channel_is_looked_for_is_not_connected_again() {
    let service = Channel::new();
    let closing: Arc<Mutex<Option<SimpleConsumer>>> = Arc::default();
    let (to_close, (closes, closed), channel_ior) =
        (closing.clone(), channel(), service.channel.reference().ior().clone());
    let finder = ChannelFinder::new(move |orb| {
        if let Some(consumer) = to_close.lock().unwrap().take() {
            drop(consumer);
            closes.send(()).unwrap();
        }
        Ok(EventChannel::unchecked(orb.object(channel_ior.clone())))
    });
    let options = ConsumerOptions { check_every: Some(Duration::from_millis(1)), ..ConsumerOptions::default() };
    let consumer = SimpleConsumer::connect_by("", finder, options, |_| Ok(())).unwrap();
    let _first = service.consumers.next_in_time();
    *closing.lock().unwrap() = Some(consumer);
    drop(service.proxy.lock().unwrap().take());
    closed.next_in_time();
    // Once the check has ended, nothing holds the finder.
    assert_eq!(closed.next_or_end(), None);
    assert!(service.consumers.try_recv().is_err());
}

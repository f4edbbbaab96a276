//! The limits of docs/operating-reference.md: each is reached by a client here or in another test, and counted.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};

use client::notify::{
    ClientType, ConstraintExp, EventChannel, EventType, FilterFactory, Property, ProxyPullConsumer,
    SequenceProxyPushSupplier, StructuredProxyPushConsumer, StructuredProxyPushSupplier, ThreadPool,
};
use client::{InvokeError, Orb, OrbOptions};
use giop::cdr::{CharSet, Version};
use giop::exception::{Kind, SystemException, parse_detail_context};
use giop::ior::Ior;
use giop::message::{MessageKind, Reply, ReplyStatus, Request, RequestHead, ServiceContexts};
use giop::realtime::PriorityModel;
use rustix::net::{AddressFamily, SocketType};
use service::{Config, Counter, Lanes, Limits, Service};

use crate::json::{Lines, PING, PONG};
use crate::kinds::new_channel;
use crate::peers::{
    Bare, BareSupplier, REQUEST, await_count, numbered, read, read_message, read_to_end, request, request_with, start,
    start_limited, start_with, subscribe_to, wait_until,
};
use crate::persistent::factory;

/// A channel of these qualities and limits, and its number.
fn channel_with(service: &Service, qos: &[Property], admin: &[Property]) -> (EventChannel, i32) {
    factory(service).create_channel(qos, admin).unwrap()
}

fn filters_of(channel: &EventChannel) -> FilterFactory {
    channel.default_filter_factory().unwrap().unwrap()
}

fn kind(error: &InvokeError) -> Option<Kind> {
    if let InvokeError::System { exception, .. } = error { Some(exception.kind) } else { None }
}

// ---- connections ----

/// Opens connections until the service closes one at once.
fn connect_until_refused(service: &Service) -> Vec<TcpStream> {
    let mut open = Vec::new();
    loop {
        let mut stream = TcpStream::connect(service.address()).unwrap();
        let located = request(Version::V1_2, b"NotificationService", "_non_existent", |_| ());
        if stream.write_all(&located).is_err() || read_message(&mut stream).is_none() {
            return open;
        }
        open.push(stream);
    }
}

#[test]
fn connections_of_one_address_reach_their_quota_and_without_quotas_the_limit() {
    let service = start_limited(Limits { connections_max: 40, ..Limits::default() });
    assert_eq!(connect_until_refused(&service).len(), 30);
    assert_eq!(read(&service, Counter::ConnectionsRefused), 1);
    assert!(read(&service, Counter::ConnectionsQuota) >= 1);
    assert_eq!(read(&service, Counter::ConnectionsLimit), 0);

    let limits = Limits { connections_max: 40, client_quota_percent: 100, ..Limits::default() };
    let service = crate::json::start_limited(limits);
    let mut using: Vec<Lines> = (0..40).map(|_| Lines::subscribed(&service, "")).collect();
    assert!(Lines::connect(&service).line().is_some_and(|line| line.contains("limits.connections_max")));
    assert_eq!((read(&service, Counter::ConnectionsLimit), read(&service, Counter::ConnectionsRefused)), (1, 1));
    assert_eq!(read(&service, Counter::ConnectionsQuota), 0);
    // For CORBA's clients there are places beside those: of administration, from which no proxies are made.
    let orbs: Vec<Orb> = (0..20).map(|_| Orb::new(OrbOptions::default())).collect();
    for orb in &orbs {
        let channel = orb.resolve(&service.corbaloc("DefaultEventChannel")).unwrap();
        let channel = EventChannel::narrow(channel).unwrap();
        channel.set_qos(&[Property::new("MaxEventsPerConsumer", 1_000)]).unwrap();
        let admin = channel.default_consumer_admin().unwrap();
        let refused = admin.obtain_notification_pull_supplier(ClientType::Structured).map(drop).unwrap_err();
        assert_eq!(kind(&refused), Some(Kind::NoResources));
    }
    assert!(read(&service, Counter::ConnectionsGaveWay) >= 12, "they give way to each other");
    assert!(using.iter_mut().all(|line| line.ask(PING) == PONG), "and no other client to them");
}

/// Every address may have 16 connections whatever its share, so that a few hundred addresses had all 4,096 and no other any.
#[test]
fn addresses_that_hold_all_connections_and_ask_nothing_give_way_to_one_that_comes() {
    let service = start_limited(Limits { connections_max: 64, ..Limits::default() });
    let held: Vec<Vec<TcpStream>> = (2..8)
        .map(|last| {
            (0..16)
                .map(|_| {
                    let (accepted, refused) =
                        (read(&service, Counter::ConnectionsAccepted), Counter::ConnectionsRefused);
                    let before = accepted + read(&service, refused);
                    let stream = connect_from(&service, last);
                    let now = || read(&service, Counter::ConnectionsAccepted) + read(&service, refused);
                    wait_until("it to be looked at", || now() > before);
                    stream
                })
                .collect()
        })
        .collect();
    assert_eq!(read(&service, Counter::ConnectionsOpen), 64);
    let gave_way = read(&service, Counter::ConnectionsGaveWay);
    assert!(gave_way > 0, "they have displaced each other");
    let one = request(Version::V1_2, b"NotificationService", "_non_existent", |_| ());
    let mut others: Vec<TcpStream> = (100..110).map(|last| connect_from(&service, last)).collect();
    for other in &mut others {
        other.write_all(&one).unwrap();
        assert!(read_message(other).is_some());
    }
    assert_eq!(read(&service, Counter::ConnectionsGaveWay), gave_way + 10);
    drop(held);
}

/// Five addresses took all of 4,096 places, since every address is granted some whatever the others have.
#[test]
fn of_five_addresses_that_hold_all_connections_the_one_with_most_loses_those_that_are_idle_for_longest_and_no_proxy_s()
{
    let service = start_limited(Limits { connections_max: 300, ..Limits::default() });
    let message = BareSupplier::new(&service, None).push_message(&REQUEST, CharSet::Latin1, &numbered(1));
    await_count(&service, Counter::ConnectionsOpen, 0);
    let mut pushing = connect_from(&service, 2);
    let mut push = || {
        pushing.write_all(&message).unwrap();
        read_message(&mut pushing).is_some()
    };
    assert!(push());
    let refused_or_displaced =
        || read(&service, Counter::ConnectionsRefused) + read(&service, Counter::ConnectionsGaveWay);
    let mut held: Vec<Vec<TcpStream>> = Vec::new();
    for last in 2..7 {
        let before = refused_or_displaced();
        let mut of_address = Vec::new();
        while refused_or_displaced() == before {
            let looked_at =
                || read(&service, Counter::ConnectionsAccepted) + read(&service, Counter::ConnectionsRefused);
            let had = looked_at();
            of_address.push(connect_from(&service, last));
            wait_until("it to be looked at", || looked_at() > had);
        }
        held.push(of_address);
    }
    assert_eq!(read(&service, Counter::ConnectionsOpen), 300);
    let most = &mut held[0];
    assert!(most.len() > 200, "{} of 300", most.len());
    let one = request(Version::V1_2, b"NotificationService", "_non_existent", |_| ());
    let mut sixth = connect_from(&service, 7);
    sixth.write_all(&one).unwrap();
    assert!(read_message(&mut sixth).is_some());
    let gave_way = usize::try_from(read(&service, Counter::ConnectionsGaveWay)).unwrap();
    for (at, stream) in most.iter_mut().take(gave_way + 3).enumerate() {
        // To one that is closed it may be that nothing can be written.
        let _ = stream.write_all(&one);
        let is_answered = read_message(stream).is_some_and(|(header, _)| header.kind == MessageKind::Reply);
        assert_eq!(is_answered, at >= gave_way, "{at} of {gave_way} that gave way");
    }
    assert!(push(), "that which carries a proxy stays");
}

/// A connection from an address of this host.
pub(crate) fn connect_from(service: &Service, last: u8) -> TcpStream {
    connect_from_address(service, [127, 0, 0, last])
}

pub(crate) fn connect_from_address(service: &Service, address: [u8; 4]) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from((address, 0))).unwrap();
    rustix::net::connect(&socket, &service.address()).unwrap();
    TcpStream::from(socket)
}

// ---- a lane's rounds and buffers ----

#[test]
fn a_connection_with_more_messages_than_its_budget_of_a_round_gives_way_to_the_others() {
    let service = start_limited(Limits { round_messages: 2, ..Limits::default() });
    let mut stream = TcpStream::connect(service.address()).unwrap();
    let one = request(Version::V1_2, b"NotificationService", "_non_existent", |_| ());
    stream.write_all(&one.repeat(10)).unwrap();
    for _ in 0..10 {
        assert!(read_message(&mut stream).is_some());
    }
    assert!(read(&service, Counter::RoundBudgetsSpent) >= 1);
}

#[test]
fn an_address_whose_connections_have_more_to_do_than_its_budget_of_a_round_gives_way_to_others() {
    let service = start_limited(Limits { round_us: 10, ..Limits::default() });
    let mut other = connect_from(&service, 1);
    let mut many: Vec<TcpStream> = (0..8).map(|_| connect_from(&service, 2)).collect();
    let one = request(Version::V1_2, b"NotificationService", "_non_existent", |_| ());
    wait_until("a slice is spent", || {
        many.iter_mut().for_each(|stream| stream.write_all(&one.repeat(10)).unwrap());
        many.iter_mut().for_each(|stream| (0..10).for_each(|_| assert!(read_message(stream).is_some())));
        other.write_all(&one).unwrap();
        assert!(read_message(&mut other).is_some());
        read(&service, Counter::AddressBudgetsSpent) > 0
    });
}

#[test]
fn halves_of_messages_that_find_no_buffer_of_the_lane_are_copied_into_their_own() {
    const CONNECTIONS: usize = 24;
    let service = start();
    let consumer = Bare::new();
    subscribe_to(&service, None, consumer.reference(), &[]);
    let mut suppliers: Vec<_> = (0..CONNECTIONS).map(|_| BareSupplier::new(&service, None)).collect();
    let mut event = numbered(1);
    event.remainder = "x".repeat(20_000).as_str().into();
    let messages: Vec<_> =
        suppliers.iter().map(|supplier| supplier.push_message(&REQUEST, CharSet::Latin1, &event)).collect();
    for (supplier, message) in suppliers.iter_mut().zip(&messages) {
        supplier.stream.write_all(&message[..10_000]).unwrap();
    }
    wait_until("halves to be copied", || read(&service, Counter::RestsCopied) >= 1);
    // All of them arrive all the same.
    for (supplier, message) in suppliers.iter_mut().zip(&messages) {
        supplier.stream.write_all(&message[10_000..]).unwrap();
    }
    for supplier in &mut suppliers {
        assert!(read_message(&mut supplier.stream).is_some());
    }
    await_count(&service, Counter::EventsIn, CONNECTIONS as u64);
}

// ---- answers of administration ----

/// So many constraints of the greatest length.
fn long_constraints(count: usize) -> Vec<ConstraintExp> {
    (0..count).map(|number| ConstraintExp::new(&format!("$a == '{number:016376}'"))).collect()
}

/// A filter with as much text as fits into an answer.
fn with_much_text(channel: &EventChannel) -> client::notify::Filter {
    let filter = filters_of(channel).create_filter("EXTENDED_TCL").unwrap();
    // A request has 256 KiB of them at most.
    for piece in long_constraints(1_000).chunks(15) {
        filter.add_constraints(piece).unwrap();
    }
    filter
}

#[test]
fn an_answer_that_would_be_larger_than_any_message_is_a_limit_that_is_reported() {
    let service = start_limited(Limits { message_bytes_max: 4 << 20, ..Limits::default() });
    let channel = new_channel(&service);
    let filter = with_much_text(&channel);
    assert_eq!(filter.get_all_constraints().unwrap().len(), 1_000);
    // With 24 more of 16 KiB it would be more than 16 MiB.
    (0..2).for_each(|_| _ = filter.add_constraints(&long_constraints(12)).unwrap());
    assert_eq!(kind(&filter.get_all_constraints().unwrap_err()), Some(Kind::ImpLimit));
    assert_eq!(read(&service, Counter::AnswersTooLarge), 1);
}

#[test]
fn answers_that_clients_do_not_read_reach_their_quota_and_without_quotas_the_limit() {
    // A client that is alone reaches the share before the limit.
    let cases = [(75, 64 << 20, Counter::ReplyBytesQuota), (100, 4 << 20, Counter::ReplyBytesLimit)];
    for (client_quota_percent, unread_reply_bytes_max, reached) in cases {
        let service = start_limited(Limits { unread_reply_bytes_max, client_quota_percent, ..Limits::default() });
        let filter = with_much_text(&new_channel(&service));
        let key = &filter.object().ior().iiop().unwrap().key;
        // Each asks for sixteen million octets, of which the sockets hold a part, and reads none.
        let mut clients = Vec::new();
        while read(&service, reached) == 0 {
            let mut stream = TcpStream::connect(service.address()).unwrap();
            stream.write_all(&request(Version::V1_2, key, "get_all_constraints", |_| ())).unwrap();
            stream.set_nonblocking(true).unwrap();
            let is_answered = || stream.peek(&mut [0]).is_ok();
            wait_until("an answer to begin, or to be held back", || is_answered() || read(&service, reached) > 0);
            stream.set_nonblocking(false).unwrap();
            clients.push(stream);
        }
        assert!(clients.len() > 1);
        for stream in &mut clients {
            assert!(read_message(stream).is_some(), "a client that reads is answered");
        }
    }
}

// ---- connections to clients ----

#[test]
fn connections_to_clients_that_never_answer_reach_the_limit_where_there_are_no_quotas() {
    let limits = Limits { outgoing_connections_max: 4, client_quota_percent: 100, ..Limits::default() };
    let service = start_limited(limits);
    let consumers: Vec<Bare> = (0..6).map(|_| Bare::new()).collect();
    for consumer in &consumers {
        subscribe_to(&service, None, consumer.reference(), &[]);
    }
    let mut supplier = BareSupplier::new(&service, None);
    supplier.push(&numbered(1));
    assert!(read_message(&mut supplier.stream).is_some());
    wait_until("one too many to be refused", || read(&service, Counter::OutgoingLimit) >= 1);
    assert_eq!(read(&service, Counter::OutgoingQuota), 0);
    // Those that are there get theirs; none of them is idle, so that none had to give way.
    let connected = read(&service, Counter::ConnectsBegun) - read(&service, Counter::ConnectsFailed);
    assert!(connected <= 4, "{connected} connections, where 4 may be");
    assert_eq!(read(&service, Counter::OutgoingIdleClosed), 0);
}

// ---- messages ----

/// Its client was told that a message was malformed, or only saw that the connection was closed.
#[test]
fn a_request_that_is_too_large_is_imp_limit_with_the_limit_in_words_before_the_connection_is_closed() {
    let service = start_limited(Limits { message_bytes_max: 64 << 10, ..Limits::default() });
    for version in [Version::V1_0, Version::V1_1, Version::V1_2] {
        let mut large = request(version, b"NotificationService", "_is_a", |w| w.string(&"x".repeat(65 << 10)));
        let mut stream = TcpStream::connect(service.address()).unwrap();
        // As far as it says which request it is: more may meet a socket that is closed already.
        large.truncate(1_000);
        stream.write_all(&large).unwrap();
        let (header, bytes) = read_message(&mut stream).unwrap();
        let reply = Reply::parse(&bytes, &header).unwrap();
        assert_eq!((reply.request_id, reply.status), (REQUEST.request_id, ReplyStatus::SystemException));
        let raised = SystemException::read(&mut reply.body(&bytes, &header, CharSet::Latin1)).unwrap();
        assert_eq!(raised, SystemException::new(Kind::ImpLimit, 0));
        let why =
            parse_detail_context(reply.contexts.find(ServiceContexts::EXCEPTION_DETAIL_MESSAGE).unwrap()).unwrap();
        assert!(
            why.starts_with("the request has 66") && why.ends_with("message_bytes_max of the service is 65536"),
            "{why}"
        );
        assert_eq!(read_to_end(&mut stream), [MessageKind::MessageError]);
    }
    // One that nobody waits for, and one that does not say yet what it is.
    let mut one_way = request(Version::V1_2, b"NotificationService", "_is_a", |w| w.string(&"x".repeat(65 << 10)));
    one_way[16] = 0; // response_flags: none expected
    for length in [1_000, 12] {
        let mut stream = TcpStream::connect(service.address()).unwrap();
        stream.write_all(&one_way[..length]).unwrap();
        assert_eq!(read_to_end(&mut stream), [MessageKind::MessageError]);
    }
    await_count(&service, Counter::ProtocolErrors, 5);
}

// ---- pull suppliers ----

#[test]
fn a_pull_supplier_that_raises_an_exception_is_asked_again_and_counted() {
    let service = start();
    let channel = new_channel(&service);
    let admin = channel.default_supplier_admin().unwrap();
    let (proxy, _) = admin.obtain_notification_pull_consumer(ClientType::Any).unwrap();
    let supplier = Bare::new();
    let ior = Ior { type_id: "IDL:omg.org/CosEventComm/PullSupplier:1.0".into(), ..supplier.reference() };
    let there = proxy.object().orb().object(ior);
    ProxyPullConsumer::unchecked(proxy.object().clone()).connect_any_pull_supplier(&there).unwrap();
    let mut link = supplier.accept();
    for asked in 1..=2 {
        let (header, bytes) = link.message().unwrap();
        let request_id = Request::parse(&bytes, &header).unwrap().request_id;
        // A reply that has no exception's body, as from a server that is about to end.
        link.reply(request_id, ReplyStatus::SystemException, None);
        wait_until("the failure to be counted", || read(&service, Counter::PollsFailed) >= asked);
    }
}

// ---- filters ----

#[test]
fn events_that_wait_for_a_mute_filter_are_bounded() {
    let service = start();
    let (channel, id) = channel_with(&service, &[Property::new("FilterTimeout", 600_000_000_u64)], &[]);
    let mute = Bare::new();
    let ior = Ior { type_id: "IDL:omg.org/CosNotifyFilter/Filter:1.0".into(), ..mute.reference() };
    let filter = client::notify::Filter::unchecked(channel.object().orb().object(ior));
    let supplier = BareSupplier::new(&service, Some(id));
    let admin = channel.default_supplier_admin().unwrap();
    let proxy = admin.get_proxy_consumer(admin.push_consumers().unwrap()[0]).unwrap();
    proxy.add_filter(&filter).unwrap();
    let message = supplier.push_message(&REQUEST, CharSet::Latin1, &numbered(1));
    // 64 may be unanswered on a connection, and 1,024 at the proxy.
    let suppliers: Vec<TcpStream> = (0..17)
        .map(|_| {
            let mut stream = TcpStream::connect(service.address()).unwrap();
            stream.write_all(&message.repeat(64)).unwrap();
            stream
        })
        .collect();
    wait_until("one too many to be refused", || read(&service, Counter::AwaitingFilterRefused) >= 1);
    drop(suppliers);
}

/// A client could have constraints of 1 MiB in a channel of its own, each of which kept administration, and all that asked it, for up to
/// 0.6 s.
#[test]
fn a_client_gets_no_longer_constraints_than_the_configuration_grants() {
    let service = start();
    let (channel, _) = channel_with(&service, &[], &[Property::new("MaxConstraintLength", 65_536_i32)]);
    let factory = factory(&service);
    for length in [65_537_i32, 1 << 20] {
        let set = channel.set_admin(&[Property::new("MaxConstraintLength", length)]).unwrap_err().to_string();
        assert!(set.contains("UnsupportedAdmin"), "{set}");
        assert!(factory.create_channel(&[], &[Property::new("MaxConstraintLength", length)]).is_err());
    }
    let filter = filters_of(&channel).create_filter("EXTENDED_TCL").unwrap();
    let long = format!("$number == {}1", " ".repeat(65_536));
    assert!(filter.add_constraints(&[ConstraintExp::new(&long)]).is_err());
    filter.add_constraints(&[ConstraintExp::new(&format!("$number == {}1", " ".repeat(60_000)))]).unwrap();
}

#[test]
fn a_match_that_a_client_asks_for_is_cut_where_an_events_would_be() {
    let service = start();
    let (channel, _) = channel_with(&service, &[], &[Property::new("FilterSteps", 1_i32)]);
    let filter = filters_of(&channel).create_filter("EXTENDED_TCL").unwrap();
    filter.add_constraints(&[ConstraintExp::new("$number == 1 or $number == 2 or $number == 3")]).unwrap();
    assert!(!filter.match_structured(&numbered(3)).unwrap());
    assert!(read(&service, Counter::FilterCallsCut) >= 1);
    // Nor does an event get further.
    let consumer = Bare::new();
    let id = service_channel(&channel);
    let proxy = subscribe_to(&service, Some(id), consumer.reference(), &[]);
    client::notify::ProxySupplier::unchecked(proxy).add_filter(&filter).unwrap();
    let mut supplier = BareSupplier::new(&service, Some(id));
    supplier.push(&numbered(3));
    assert!(read_message(&mut supplier.stream).is_some());
    wait_until("it to be counted", || read(&service, Counter::FilterCuts) >= 1);
}

/// The number of a channel, which its factory gave it.
fn service_channel(channel: &EventChannel) -> i32 {
    let ids = channel.my_factory().unwrap().get_all_channels().unwrap();
    ids.into_iter().max().unwrap()
}

// ---- queues ----

#[test]
fn a_channel_with_a_full_queue_drops_and_counts() {
    let service = start();
    let (_, id) = channel_with(&service, &[], &[Property::new("MaxQueueLength", 3_i32)]);
    let mute = Bare::new();
    subscribe_to(&service, Some(id), mute.reference(), &[]);
    let mut supplier = BareSupplier::new(&service, Some(id));
    for number in 0..10 {
        supplier.push(&numbered(number));
        assert!(read_message(&mut supplier.stream).is_some());
    }
    wait_until("drops to be counted", || read(&service, Counter::DroppedQueueFull) >= 6);
}

/// A consumer stopped, and held all suppliers of its channel for 86 s: omniORB's and our own gave up meanwhile.
#[test]
fn a_consumer_that_holds_suppliers_for_its_hold_timeout_is_disconnected_and_they_go_on() {
    let service = start();
    let (_, id) = channel_with(&service, &[Property::new("MemoryBudget", 100_000_u64)], &[]);
    let (mute, orderly) = (Bare::new(), Bare::new());
    // Of the mute one only: beside other work the other one, too, may not get to answer in a tenth of a second.
    let hasty = Property::new("HoldTimeout", 1_000_000_u64);
    subscribe_to(&service, Some(id), mute.reference(), &[hasty]);
    subscribe_to(&service, Some(id), orderly.reference(), &[]);
    let mut supplier = BareSupplier::new(&service, Some(id));
    let mut event = numbered(1);
    event.remainder = "x".repeat(10_000).as_str().into();
    std::thread::scope(|scope| {
        // It answers all it gets; the other one takes its first and says nothing.
        let taking = scope.spawn(|| {
            let mut link = orderly.accept();
            (0..40).for_each(|_| assert_eq!(link.accept_push(), event));
        });
        for _ in 0..40 {
            supplier.push(&event);
            assert!(read_message(&mut supplier.stream).is_some());
        }
        assert!(mute.accept().message().is_some());
        taking.join().unwrap();
    });
    // Administration counts it, which runs when it may.
    wait_until("it to be counted", || read(&service, Counter::ConsumersHolding) == 1);
    assert!(read(&service, Counter::SuppliersBlocked) >= 1);
}

#[test]
fn a_property_of_the_wrong_type_is_counted_as_an_exception_of_administration() {
    let service = start();
    let channel = new_channel(&service);
    let before = read(&service, Counter::RequestExceptions);
    assert!(channel.set_admin(&[Property::new("MaxQueueLength", "three")]).is_err());
    assert_eq!(read(&service, Counter::RequestExceptions), before + 1);
}

/// One address could fill the registry for all, with callbacks of programs that are gone.
#[test]
fn reconnection_callbacks_beyond_a_quota_are_refused_and_counted_and_one_that_cannot_be_reached_gives_way() {
    let service = start_limited(Limits { client_quota_percent: 1, ..Limits::default() });
    let orb = Orb::new(OrbOptions::default());
    let factory = orb.resolve(&service.corbaloc("NotificationService")).unwrap();
    let register = |number: u32| {
        // No listener is there.
        let callback = orb.resolve(&format!("corbaloc::127.0.0.1:1/Callback{number}")).unwrap();
        factory.invoke("register_callback", |w| callback.ior().write(w)).map(drop)
    };
    let granted = (0..).find_map(|number| Some((number, register(number).err()?)));
    let (granted, refused) = granted.unwrap();
    assert_eq!((granted, kind(&refused)), (64, Some(Kind::NoResources)));
    assert!(read(&service, Counter::RegistrationsQuota) >= 1);
    wait_until("one to be found out of reach and to give way", || register(granted).is_ok());
}

// ---- what is written and not read ----

/// A service of which one client floods a channel with events of 60 KB until its suppliers are blocked, or 64 MB have come.
fn flood_until_blocked(service: &Service, channel_id: i32, events_max: u64) -> u64 {
    let mut supplier = BareSupplier::new(service, Some(channel_id));
    let mut event = numbered(1);
    event.remainder = "x".repeat(60_000).as_str().into();
    let message = supplier.push_message(&REQUEST, CharSet::Latin1, &event);
    for number in 1..=events_max {
        supplier.stream.write_all(&message).unwrap();
        let is_held = || read(service, Counter::SuppliersBlocked) > 0;
        supplier.stream.set_nonblocking(true).unwrap();
        let is_answered = || supplier.stream.peek(&mut [0]).is_ok();
        wait_until("an answer, or the supplier to be blocked", || is_answered() || is_held());
        supplier.stream.set_nonblocking(false).unwrap();
        if is_held() {
            return number;
        }
        assert!(read_message(&mut supplier.stream).is_some());
    }
    events_max
}

/// Connects a consumer of sequences that may have 1,024 of them unanswered.
fn connect_sequence_consumer(channel: &EventChannel, consumer: &Bare) {
    let proxy = crate::kinds::Consumer::obtain(channel, ClientType::Sequence, crate::kinds::Model::Push);
    let window = [Property::new("PushWindow", 1_024_u16)];
    client::notify::ProxySupplier::unchecked(proxy.clone()).set_qos(&window).unwrap();
    let reference = Ior { type_id: String::new(), ..consumer.reference() };
    let reference = proxy.orb().object(reference);
    SequenceProxyPushSupplier::unchecked(proxy).connect_sequence_push_consumer(&reference).unwrap();
}

/// 20 consumers of sequences that do not read took 5.4 GB under a budget of 256 MB: what is written for them was copied, and counted
/// nowhere.
#[test]
fn sequences_that_are_not_read_wait_where_the_budget_counts_them() {
    let service = start();
    let (channel, id) = channel_with(&service, &[Property::new("MemoryBudget", 8_u64 << 20)], &[]);
    let consumer = Bare::new();
    connect_sequence_consumer(&channel, &consumer);
    // The budget, a mebibyte and a sequence on the connection, and what the sockets hold of their own: at most 10 MB.
    let taken = flood_until_blocked(&service, id, 1_000);
    assert!(taken < 400, "{taken} events of 60 KB were taken in");
    assert_eq!(read(&service, Counter::Dropped), 0);
}

/// What a consumer does not read was bounded on each connection only: a thousand of one address were a gigabyte that no budget had.
#[test]
fn what_consumers_do_not_read_has_a_limit_together_and_nothing_is_lost_at_it() {
    let limits = Limits { unread_reply_bytes_max: 1 << 20, client_quota_percent: 100, ..Limits::default() };
    let service = start_limited(limits);
    let (channel, id) = channel_with(&service, &[Property::new("MemoryBudget", 256_u64 << 20)], &[]);
    let consumers = [Bare::new(), Bare::new()];
    for consumer in &consumers {
        connect_sequence_consumer(&channel, consumer);
    }
    let mut supplier = BareSupplier::new(&service, Some(id));
    let mut event = numbered(1);
    event.remainder = "x".repeat(60_000).as_str().into();
    let message = supplier.push_message(&REQUEST, CharSet::Latin1, &event);
    let mut published = 0;
    while read(&service, Counter::UnreadWaited) == 0 {
        supplier.stream.write_all(&message).unwrap();
        assert!(read_message(&mut supplier.stream).is_some());
        published += 1;
    }
    assert!(read(&service, Counter::ReplyBytesLimit) > 0);
    // Those that wait in the outboxes come as soon as the consumers read.
    let readers = consumers.map(|consumer| {
        std::thread::spawn(move || {
            let mut link = consumer.accept();
            let mut events = 0;
            while events < published {
                let (header, bytes) = link.message().unwrap();
                let request = Request::parse(&bytes, &header).unwrap();
                events += request.body(&bytes, &header, CharSet::Latin1).u32().unwrap();
                link.reply(request.request_id, ReplyStatus::NoException, None);
            }
            events
        })
    });
    for reader in readers {
        assert_eq!(reader.join().unwrap(), published);
    }
    assert_eq!(read(&service, Counter::Dropped), 0);
}

/// 200 pulls on one connection that was not read took 3 GB.
#[test]
fn pulls_whose_answers_are_not_read_are_answered_when_those_before_them_are() {
    let service = start();
    let (channel, id) = channel_with(&service, &[Property::new("MemoryBudget", 8_u64 << 20)], &[]);
    let proxy = crate::kinds::Consumer::obtain(&channel, ClientType::Sequence, crate::kinds::Model::Pull);
    crate::kinds::connect_pulling(&proxy, ClientType::Sequence);
    let key = proxy.ior().iiop().unwrap().key.clone();
    let mut unread = TcpStream::connect(service.address()).unwrap();
    for request_id in 0..200 {
        let head = RequestHead { request_id, key: &key, operation: b"pull_structured_events", ..REQUEST };
        unread.write_all(&request_with(&head, CharSet::Latin1, |w| w.i32(4_096))).unwrap();
    }
    wait_until("all to wait", || read(&service, Counter::Pulls) == 200);
    let taken = flood_until_blocked(&service, id, 1_000);
    assert!(taken < 400, "{taken} events of 60 KB were taken in");
    assert!(read(&service, Counter::PullsSetAside) > 0);
    // As it reads, the others are answered, and nothing is lost.
    testing::patient(&unread);
    let mut events = 0;
    while events < taken {
        let (header, bytes) = read_message(&mut unread).unwrap();
        let reply = Reply::parse(&bytes, &header).unwrap();
        events += u64::from(reply.body(&bytes, &header, CharSet::Latin1).u32().unwrap());
    }
    assert_eq!(events, taken);
}

// ---- what administration keeps ----

#[test]
fn names_with_large_references_end_at_the_quota_of_their_client_while_others_bind_theirs() {
    // Where there are no shares, at the limit.
    let cases = [(75, Counter::RetainedBytesQuota), (100, Counter::RetainedBytesLimit)];
    for (client_quota_percent, reached) in cases {
        names_with_large_references_end_at(client_quota_percent, reached);
    }
}

fn names_with_large_references_end_at(client_quota_percent: u8, reached: Counter) {
    let limits = Limits { memory_bytes: Some(64 << 20), client_quota_percent, ..Limits::default() };
    let service = start_limited(limits);
    let naming = Orb::new(OrbOptions::default()).resolve(&service.corbaloc("NameService")).unwrap();
    let context = client::naming::NamingContext::unchecked(naming.clone());
    let mut far = Bare::new().reference();
    if let giop::ior::Profile::Iiop(profile) = &mut far.profiles[0] {
        profile.key = vec![b'x'; 60_000];
    }
    let far = naming.orb().object(far);
    let bind = |number: usize| context.bind(&[client::naming::NameComponent::new(&format!("{number}"))], &far);
    // A quarter of the budget is for administration, three quarters of that for an address that is alone.
    let refusal = (0..400).find_map(|number| bind(number).err()).unwrap();
    assert_eq!(kind(&refusal), Some(Kind::NoResources));
    let counted = [Counter::RetainedBytesQuota, Counter::RetainedBytesLimit];
    assert_eq!(counted.map(|counter| read(&service, counter) >= 1), counted.map(|counter| counter == reached));
    // What was bound is there, and there is room again when some of it is gone.
    let name = [client::naming::NameComponent::new("0")];
    assert!(context.resolve(&name).is_ok());
    context.unbind(&name).unwrap();
    bind(1_000).unwrap();
}

/// The default channel took one of the places, but on no account: the last that a client might have was refused by a limit that no counter
/// knew of.
#[test]
fn channels_and_threads_of_pools_that_are_too_many_are_refused_and_counted() {
    let limits = Limits { memory_bytes: Some(1 << 30), client_quota_percent: 100, ..Limits::default() };
    let service = start_limited(limits);
    let factory = factory(&service);
    let refusal = (0..5_000).find_map(|_| factory.create_channel(&[], &[]).err()).unwrap();
    assert_eq!(kind(&refusal), Some(Kind::NoResources));
    assert_eq!(factory.get_all_channels().unwrap().len(), 4_096);
    assert_eq!((read(&service, Counter::ChannelsLimit), read(&service, Counter::ChannelsQuota)), (1, 0));

    let lanes = Lanes { threads_max: 16, ..Lanes::default() };
    let service = start_with(Config { lanes: lanes.clone(), ..Config::default() });
    let channel = new_channel(&service);
    let pool = |threads| ThreadPool::new(PriorityModel::ServerDeclared, 10, threads).into();
    // One address has twelve of them.
    let refusal = channel.set_qos(&[pool(13)]).unwrap_err();
    assert_eq!(kind(&refusal), Some(Kind::NoResources));
    assert_eq!((read(&service, Counter::ThreadsQuota), read(&service, Counter::ThreadsLimit)), (1, 0));
    channel.set_qos(&[pool(2)]).unwrap();

    let limits = Limits { client_quota_percent: 100, ..Limits::default() };
    let service = start_with(Config { lanes, limits, ..Config::default() });
    let channel = new_channel(&service);
    // The exception says which number there may be, as of other properties.
    assert!(matches!(channel.set_qos(&[pool(17)]), Err(InvokeError::User(_))));
    assert!(matches!(channel.validate_qos(&[pool(17)]), Err(InvokeError::User(_))));
    assert_eq!((read(&service, Counter::ThreadsQuota), read(&service, Counter::ThreadsLimit)), (0, 1));
    channel.set_qos(&[pool(2)]).unwrap();
}

/// That proxies reach their limit was seen where they are made only, and not that it is counted where an operator looks.
#[test]
fn proxies_of_one_address_reach_their_quota_and_without_quotas_the_limit() {
    // A connection has three quarters at most of what its address may have.
    let cases = [(75, 1_024..=1_125, Counter::ProxiesQuota), (100, 1_500..=1_500, Counter::ProxiesLimit)];
    for (client_quota_percent, bounds, reached) in cases {
        let service = start_limited(Limits { proxies_max: 1_500, client_quota_percent, ..Limits::default() });
        let admin = new_channel(&service).default_supplier_admin().unwrap();
        let obtain = || admin.obtain_notification_push_consumer(ClientType::Structured);
        let made = (0..2_000).take_while(|_| obtain().is_ok()).count();
        assert!(bounds.contains(&made), "{made} of {bounds:?}");
        assert_eq!(kind(&obtain().unwrap_err()), Some(Kind::NoResources));
        let counted = [Counter::ProxiesQuota, Counter::ProxiesLimit];
        assert_eq!(counted.map(|counter| read(&service, counter) >= 1), counted.map(|counter| counter == reached));
    }
}

/// An event of a type that its lane did not know was held in one go against all event types that the channel's consumers named, as
/// many as there was memory for: 30 million on a machine of 24 GB.
#[test]
fn event_types_that_consumers_name_reach_their_quota_and_without_quotas_the_limit() {
    let cases = [(4_000, 75, Counter::EventTypesQuota), (3_000, 100, Counter::EventTypesLimit)];
    for (event_types_max, client_quota_percent, reached) in cases {
        let service = start_limited(Limits { event_types_max, client_quota_percent, ..Limits::default() });
        let channel = new_channel(&service);
        let types: Vec<EventType> = (0..1_024).map(|number| EventType::new("Limits", &format!("{number}*"))).collect();
        let admin = channel.default_consumer_admin().unwrap();
        let obtain = |_| {
            let (proxy, _) = admin.obtain_notification_push_supplier(ClientType::Structured).unwrap();
            StructuredProxyPushSupplier::narrow(proxy.object().clone()).unwrap()
        };
        let proxies: Vec<_> = (0..3).map(obtain).collect();
        let [first, second, third] = &proxies[..] else { unreachable!("three were made") };
        let everything = [EventType::new("*", "*")];
        first.subscription_change(&types, &everything).unwrap();
        second.subscription_change(&types, &everything).unwrap();
        let refusal = third.subscription_change(&types, &everything).unwrap_err();
        assert_eq!(kind(&refusal), Some(Kind::NoResources));
        let counted = [Counter::EventTypesQuota, Counter::EventTypesLimit].map(|counter| read(&service, counter));
        assert_eq!(
            counted.map(|times| times > 0),
            [reached == Counter::EventTypesQuota, reached == Counter::EventTypesLimit]
        );
        // What suppliers offer is not what is looked through.
        let supplier = channel.default_supplier_admin().unwrap();
        let (supplier, _) = supplier.obtain_notification_push_consumer(ClientType::Structured).unwrap();
        let supplier = StructuredProxyPushConsumer::narrow(supplier.object().clone()).unwrap();
        supplier.offer_change(&types, &everything).unwrap();
        // Names are counted by their length too, and what is given up by one is there for another.
        first.subscription_change(&[], &types).unwrap();
        let long = EventType::new("Limits", &"n".repeat(1_000 * 64));
        third.subscription_change(std::slice::from_ref(&long), &everything).unwrap();
        let longer = EventType::new("Limits", &"m".repeat(1_000 * 64));
        assert_eq!(kind(&third.subscription_change(&[longer], &[]).unwrap_err()), Some(Kind::NoResources));
        second.disconnect_structured_push_supplier().unwrap();
        third.subscription_change(&types, &[long]).unwrap();
    }
}

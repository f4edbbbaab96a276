//! Administration serves its clients in turns, and what takes long is done beside it.

use std::io::Write;
use std::net::TcpStream;

use giop::cdr::{CharSet, Version, Writer};
use giop::exception::{Kind, SystemException};
use giop::message::{Reply, ReplyStatus};
use service::{Answer, Command, Counter, Limits, Query, Service};

use crate::peers::{Bare, assert_serves, read_message, request, start, start_limited, subscribe, supply, wait_until};

/// An analysis that takes as long as one may: all of the processor is used, and something blocks, so that the busy period
/// never ends and is looked at until the steps are spent.
fn analysis() -> Vec<u8> {
    let activity = |w: &mut Writer<'_>, name: &str, times: [u64; 5]| {
        w.string(name);
        w.i32(0);
        w.string("D");
        w.string("T");
        times.into_iter().for_each(|time| w.u64(time));
        w.i16(0);
    };
    request(Version::V1_2, b"SchedulingService", "analyse", |w| {
        w.u32(2);
        activity(w, "a", [4, 2, 0, 0, 0]);
        activity(w, "b", [8, 4, 100_000_000_000_000, 0, 1]);
        w.u32(1); // rate monotonic
        w.u16(1);
    })
}

/// Connections on which so many analyses each were asked for.
fn ask_for_analyses(service: &Service, connections: usize, each: usize) -> Vec<TcpStream> {
    let begin = |_| {
        let mut stream = TcpStream::connect(service.address()).unwrap();
        stream.write_all(&analysis().repeat(each)).unwrap();
        stream
    };
    (0..connections).map(begin).collect()
}

#[test]
fn hundreds_of_analyses_hold_no_client_up_and_neither_do_they_the_end_of_the_service() {
    // An analysis takes 0.2 s; 256 of one client held another's call for 54 s, and with 320 of them SIGTERM was obeyed after 95 s.
    let service = start();
    let analysts = ask_for_analyses(&service, 20, 16);
    wait_until("all 320 to be with administration", || service.counters().read(Counter::Requests) == 320);
    let asked = service.counters().read(Counter::AnalysesDone);
    for _ in 0..20 {
        assert_serves(&service);
    }
    let meanwhile = service.counters().read(Counter::AnalysesDone) - asked;
    assert!(meanwhile < 20, "{meanwhile} analyses were done while 20 calls were answered");
    service.shutdown();
    drop(analysts);
}

#[test]
fn a_client_has_its_quota_of_the_analyses_that_wait_and_gets_a_refusal_for_more() {
    for (client_quota_percent, counter) in [(75, Counter::AnalysesQuota), (100, Counter::AnalysesLimit)] {
        let service = start_limited(Limits { client_quota_percent, ..Limits::default() });
        let mut analysts = ask_for_analyses(&service, 2, 64);
        wait_until("more than there is for it", || service.counters().read(counter) > 0);
        let (header, bytes) = read_message(&mut analysts[1]).expect("a reply");
        let reply = Reply::parse(&bytes, &header).unwrap();
        assert_eq!(reply.status, ReplyStatus::SystemException);
        let exception = SystemException::read(&mut reply.body(&bytes, &header, CharSet::Latin1)).unwrap();
        assert_eq!(exception.kind, Kind::NoResources);
    }
}

#[test]
fn a_client_has_its_quota_of_the_requests_that_wait_for_administration() {
    for (client_quota_percent, counter) in [(75, Counter::RequestBytesQuota), (100, Counter::RequestBytesLimit)] {
        // Each request counts for half of what there is.
        let service = start_limited(Limits { client_quota_percent, administration_queue: 2, ..Limits::default() });
        let _analysts = ask_for_analyses(&service, 4, 1);
        wait_until("more than there is for it", || service.counters().read(counter) > 0);
        assert!(service.counters().read(Counter::AdministrationFull) > 0);
    }
}

#[test]
fn the_program_that_a_service_is_part_of_asks_and_commands_what_clients_do_over_the_object_statistics() {
    let service = start();
    let bare = Bare::new();
    let _proxy = subscribe(&service, bare.reference(), &[]);
    let _supplier = supply(&service);
    let Ok(Answer::Consumers(consumers)) = service.ask(Query::Consumers) else { panic!("consumers") };
    let [consumer] = &consumers[..] else { panic!("one: {consumers:?}") };
    assert_eq!((consumer.state.as_str(), consumer.outbox.backlog_events), ("active", 0));
    assert!(consumer.name.contains("consumer proxy"), "{}", consumer.name);
    let Ok(Answer::Drops { drops, beyond: 0 }) = service.ask(Query::Drops) else { panic!("drops") };
    assert!(drops.is_empty(), "{drops:?}");
    let Ok(Answer::Lanes(lanes)) = service.ask(Query::Lanes) else { panic!("lanes") };
    assert_eq!(lanes.iter().map(service::LaneCounters::name).collect::<Vec<_>>(), ["lane"]);
    let Ok(Answer::Counters(counters)) = service.ask(Query::Counters) else { panic!("counters") };
    assert!(counters.iter().any(|(name, value)| *name == "connections_accepted" && *value > 0), "{counters:?}");
    let suppliers = |behind| match service.ask(Query::Suppliers { behind }) {
        Ok(Answer::Suppliers(suppliers)) => suppliers,
        other => panic!("suppliers, and not {other:?}"),
    };
    let [(supplier, name)] = &suppliers(None)[..] else { panic!("one supplier") };
    assert!(name.contains("supplier proxy") && supplier.is_open, "{name}, {supplier:?}");
    assert!(suppliers(Some(supplier.key)).is_empty());
    let disconnected = |key| match service.command(Command::Disconnect(key)) {
        Ok(Answer::Disconnected(count)) => count,
        other => panic!("a number, and not {other:?}"),
    };
    assert_eq!([disconnected(supplier.key), disconnected(supplier.key)], [1, 0]);
    assert!(suppliers(None).is_empty(), "what was commanded is done when the command is answered");
    assert_eq!(service.counters().read(Counter::ClientsDismissed), 1);
}

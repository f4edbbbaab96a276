//! TAO's monitor and control object of a whole service.

use std::sync::mpsc::channel;

use client::notify::Property;
use client::{ObjectRef, Orb, OrbOptions};
use giop::cdr::{ReadError, Reader};
use service::{Answer, Compatibility, Config, Counter, Query, Service};

use crate::peers::{Bare, numbered, start, start_with, subscribe, supply, wait_until};

fn monitor(service: &Service) -> ObjectRef {
    Orb::new(OrbOptions::default()).resolve(&service.corbaloc("TAO_MonitorAndControl")).unwrap()
}

fn skip_name_and_kind(reader: &mut Reader<'_>, kind: u32) -> Result<(), ReadError> {
    reader.text()?;
    assert_eq!(reader.u32()?, kind);
    Ok(())
}

/// The last value of a statistic that is a number.
fn number(monitor: &ObjectRef, name: &str) -> f64 {
    let told = monitor.invoke("get_statistic", |w| w.string(name)).unwrap();
    let told = told.read("get_statistic", |r| -> Result<f64, ReadError> {
        skip_name_and_kind(r, 0)?;
        for _ in 0..r.seq_len(16)? {
            r.u64()?;
            r.f64()?;
        }
        r.u32()?;
        let values = [r.f64()?, r.f64()?, r.f64()?, r.f64()?, r.f64()?];
        Ok(values[4])
    });
    told.unwrap()
}

fn names(monitor: &ObjectRef, name: &str) -> Vec<String> {
    let told = monitor.invoke("get_statistic", |w| w.string(name)).unwrap();
    let told = told.read("get_statistic", |r| -> Result<Vec<String>, ReadError> {
        skip_name_and_kind(r, 1)?;
        (0..r.seq_len(4)?).map(|_| r.text()).collect::<Result<_, _>>()
    });
    told.unwrap()
}

#[test]
fn the_monitor_object_tells_what_the_lanes_know() {
    let service = start();
    let bare = Bare::new();
    let _proxy = subscribe(&service, bare.reference(), &[Property::new("MaxEventsPerConsumer", 3)]);
    let supplier = supply(&service);
    let monitor = monitor(&service);
    let of = |rest: &str| format!("NotifyEventChannelFactory/0/{rest}");
    for (statistic, value) in
        [("QueueElementCount", 0.0), ("QueueSize", 0.0), ("OldestEvent", 0.0), ("QueueOverflows", 0.0)]
    {
        assert_eq!(number(&monitor, &of(statistic)), value, "{statistic}");
    }
    assert!(names(&monitor, &of("SlowestConsumers")).is_empty());
    // One that is unanswered, three that wait, two that have no place.
    let before = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let mut link = None;
    for number in 0..6 {
        supplier.publish(&numbered(number)).unwrap();
        link.get_or_insert_with(|| {
            let mut link = bare.accept();
            link.push();
            link
        });
    }
    wait_until("two to be dropped", || service.counters().read(Counter::DroppedOutboxFull) == 2);
    assert_eq!((number(&monitor, &of("QueueElementCount")), number(&monitor, &of("QueueOverflows"))), (4.0, 2.0));
    let Ok(Answer::Channels(standings)) =
        service.ask(Query::Channels(vec![engine::ChannelId(0), engine::ChannelId(9)]))
    else {
        panic!("channels")
    };
    let [standing] = &standings[..] else { panic!("there is one channel: {standings:?}") };
    assert_eq!((standing.backlog_events, standing.overflows, &standing.name), (4, 2, &None));
    assert!(standing.backlog_bytes > 0);
    #[expect(clippy::cast_precision_loss, reason = "it is small")]
    let octets = standing.backlog_bytes as f64;
    assert_eq!(number(&monitor, &of("QueueSize")), octets);
    assert!(number(&monitor, &of("OldestEvent")) >= before - 1.0);
    let slowest = names(&monitor, &of("SlowestConsumers"));
    assert_eq!(slowest, names(&monitor, &of("ConsumerNames")));
    assert_eq!((slowest.len(), standing.slowest.len()), (1, 1));
}

#[test]
fn a_client_ends_the_service_where_it_may() {
    let told = |service: &Service| {
        let (sender, told) = channel();
        service.on_shutdown_request(move || sender.send(()).unwrap());
        told
    };
    let refusing = start();
    let told_not = told(&refusing);
    let error = monitor(&refusing).invoke("shutdown", |_| ()).unwrap_err();
    assert!(error.is("NO_PERMISSION"), "{error}");
    assert!(told_not.try_recv().is_err());
    let compatibility = Compatibility { monitor_control: true, ..Compatibility::default() };
    let service = start_with(Config { compatibility, ..Config::default() });
    let told = told(&service);
    monitor(&service).invoke("shutdown", |_| ()).unwrap();
    wait_until("the service to be asked to stop", || told.try_recv().is_ok());
}

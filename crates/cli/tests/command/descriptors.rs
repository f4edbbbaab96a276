//! A service that may have few descriptors.

use crate::support::{PROGRAM, Serve};
use client::notify::{CallbackConsumer, ClientType, Delivery, StructuredProxyPushSupplier, find_channel};
use client::{Activation, Orb, OrbOptions};
use rustix::net::{AddressFamily, SocketType};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::channel;
use testing::NextInTime;

/// With `ulimit -n 64`, connections to consumers took all descriptors, and no new client was served any more.
#[test]
fn connections_to_very_many_consumers_leave_room_for_a_new_client_and_its_events() {
    const CONSUMERS: usize = 70;
    let limited = "ulimit -n 64; exec \"$0\" serve --listen 127.0.0.1:0 --log error";
    let serve = Serve::spawn(Command::new("sh").args(["-c", limited, PROGRAM]));
    let orb = Orb::new(OrbOptions::default());
    let (events, _) = find_channel(&orb.resolve_service(&serve.address).unwrap(), None).unwrap();
    let admin = events.default_consumer_admin().unwrap();
    let (sender, received) = channel();
    // Each listens at a port of its own, and so the service needs a connection for each.
    let _consumers: Vec<Activation> = (0..CONSUMERS)
        .map(|number| {
            let sender = sender.clone();
            let consumer = CallbackConsumer::structured(move |delivery| {
                if let Delivery::Structured(_) = delivery {
                    sender.send(number).unwrap();
                }
                Ok(())
            });
            let activation = Orb::new(OrbOptions::default()).activate(Arc::new(consumer)).unwrap();
            let (proxy, _) = admin.obtain_notification_push_supplier(ClientType::Structured).unwrap();
            StructuredProxyPushSupplier::unchecked(proxy.object().clone())
                .connect_structured_push_consumer(activation.reference())
                .unwrap();
            activation
        })
        .collect();
    let all_have_one = || {
        let mut served: Vec<usize> = (0..CONSUMERS).map(|_| received.next_in_time()).collect();
        served.sort_unstable();
        assert_eq!(served, (0..CONSUMERS).collect::<Vec<_>>());
    };
    serve.print("pub", &["x=1"]);
    all_have_one();
    let sub = serve.subscribe(&["--field", "x", "-n", "1"]);
    serve.print("pub", &["x=2"]);
    let ended = sub.wait();
    assert_eq!((ended.stdout.as_str(), ended.code), ("2\n", Some(0)), "{}", ended.stderr);
    all_have_one();
    let counted = serve.print("stats", &["--nonzero", "outgoing_idle_closed"]);
    assert!(counted.starts_with("outgoing_idle_closed "), "{counted}");
}

/// With `ulimit -n 64` an idle connection or two from each of some addresses held all descriptors that the service had for clients.
#[test]
fn three_hundred_idle_connections_leave_room_for_others_where_there_are_few_descriptors() {
    let limited = "ulimit -n 64; exec \"$0\" serve --listen 127.0.0.1:0 --http 127.0.0.1:0 --log error";
    let serve = Serve::spawn(Command::new("sh").args(["-c", limited, PROGRAM]));
    let address: SocketAddr = serve.address.parse().unwrap();
    let sub = serve.subscribe(&["--field", "x", "-n", "2"]);
    let connect_from = |last: u8| {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 9, last], 0))).unwrap();
        rustix::net::connect(&socket, &address).unwrap();
        TcpStream::from(socket)
    };
    let idle: Vec<TcpStream> = (0..300_u32).map(|number| connect_from(u8::try_from(number % 100).unwrap())).collect();
    // A client with a proxy has kept its place, and others find one.
    for x in ["x=1", "x=2"] {
        serve.print("pub", &[x]);
    }
    let ended = sub.wait();
    assert_eq!((ended.stdout.as_str(), ended.code), ("1\n2\n", Some(0)), "{}", ended.stderr);
    let counted = serve.print("stats", &["--nonzero", "connections_gave_way"]);
    assert!(counted.starts_with("connections_gave_way "), "{counted}");
    drop(idle);
}

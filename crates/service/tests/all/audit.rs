//! Lines about administrative acts, and about what is denied: which client did what, what came of it, and by which rule.

use client::InvokeError;
use client::notify::{
    ClientType, EventChannel, EventChannelFactory, StructuredProxyPushConsumer, StructuredProxyPushSupplier,
};
use service::{Answer, Command, Counter, Declared, Query, Service, Settable};

use crate::access::{ALL, channel_of, event, orb, orb_of_operator, permitted, proxy_for, rule, start, url};
use crate::json::Lines;
use crate::logged::{await_line, begin, lines};
use crate::peers::{Bare, await_count, wait_until};
use crate::tempo::peers::{Datagrams, EndPoint, announcement};
use engine::ChannelId;
use tempo::wire::Role;

const CHIEF: &str = "127.0.9.1";
const WORKER: &str = "127.0.9.2";
const FLOODING: &str = "127.0.9.3";

fn factory(service: &Service, who: &str) -> EventChannelFactory {
    EventChannelFactory::unchecked(orb(who).resolve(&url(service)).unwrap())
}

fn as_seen_by(who: &str, channel: &EventChannel) -> EventChannel {
    EventChannel::unchecked(orb(who).object(channel.object().ior().clone()))
}

/// A connected consumer's proxy.
fn consumer_of(service: &Service, who: &str, bare: &Bare) -> StructuredProxyPushSupplier {
    let orb = orb(who);
    let admin = channel_of(service, &orb, 0).default_consumer_admin().unwrap();
    let (proxy, _) = admin.obtain_notification_push_supplier(ClientType::Structured).unwrap();
    let proxy = StructuredProxyPushSupplier::unchecked(proxy.object().clone());
    proxy.connect_structured_push_consumer(&orb.object(bare.reference())).unwrap();
    proxy
}

/// What CORBA clients do: lines came only after success.
#[test]
fn each_act_by_corba_has_a_line_with_client_act_and_outcome() {
    begin();
    let named =
        service::AccessRule { name: Some("workers".into()), ..rule(&[WORKER], &["administer"], &["*"], &[], false) };
    let service = start(vec![
        rule(&[CHIEF, crate::access::OPERATOR], &ALL, &["*"], &[], true),
        rule(&[WORKER], &["publish", "subscribe"], &["*"], &[], true),
        named,
    ]);
    let (channel, _) = factory(&service, CHIEF).create_channel(&[], &[]).unwrap();
    await_line(&["audit: 127.0.9.1: create_channel on the service: done, channel 5"]);
    assert!(!permitted(factory(&service, WORKER).create_channel(&[], &[])));
    let rule = "denied, access rule 3 \"workers\" decides (127.0.9.2 may not administer on *)";
    await_line(&["audit: 127.0.9.2: create_channel on the service: ", rule]);
    assert!(permitted(as_seen_by(CHIEF, &channel).set_qos(&[])));
    await_line(&["audit: 127.0.9.1: set_qos on channel 5: done"]);
    assert!(!permitted(as_seen_by(WORKER, &channel).set_qos(&[])));
    await_line(&["audit: 127.0.9.2: set_qos on channel 5: ", rule]);
    let unknown = client::notify::Property::new("NoSuchProperty", giop::value::AnyValue::default());
    let refused = as_seen_by(CHIEF, &channel).set_qos(&[unknown]);
    assert!(matches!(refused, Err(InvokeError::User { .. })), "{refused:?}");
    await_line(&["audit: 127.0.9.1: set_qos on channel 5: NoSuchProperty=null: failed, "]);
    let longer = client::notify::Property::new("MaxEventsPerConsumer", 1_000_i32);
    assert!(permitted(as_seen_by(CHIEF, &channel).set_qos(&[longer])));
    await_line(&["audit: 127.0.9.1: set_qos on channel 5: MaxEventsPerConsumer=1000: done"]);
    // An act on another client's connection is one; on one's own, and a look, are none.
    let bare = Bare::new();
    let (first, second) = (consumer_of(&service, WORKER, &bare), consumer_of(&service, WORKER, &bare));
    let strange = StructuredProxyPushSupplier::unchecked(orb(CHIEF).object(first.object().ior().clone()));
    strange.suspend_connection().unwrap();
    await_line(&["audit: 127.0.9.1: suspend_connection on consumer proxy ", "of channel 0 (", ": done"]);
    second.get_qos().unwrap();
    second.disconnect_structured_push_supplier().unwrap();
    strange.disconnect_structured_push_supplier().unwrap();
    await_line(&[
        "audit: 127.0.9.1: disconnect_structured_push_supplier on consumer proxy ",
        "of channel 0 (",
        ": done",
    ]);
    let names = orb(WORKER).resolve(&service.corbaloc("NameService")).unwrap();
    let name = |w: &mut giop::cdr::Writer<'_>| {
        w.u32(1);
        w.string("Weather");
        w.string("");
    };
    assert!(!permitted(names.invoke("unbind", name).map(drop)));
    await_line(&["audit: 127.0.9.2: unbind on the naming service: ", rule]);
    as_seen_by(CHIEF, &channel).destroy().unwrap();
    await_line(&["audit: 127.0.9.1: destroy on channel 5: done"]);
    assert_eq!(lines(&["127.0.9.2: ", "audit", "disconnect"]), [""; 0]);
    assert_eq!(lines(&["audit", "get_qos"]), [""; 0]);
}

#[test]
fn what_operators_do_over_http_and_by_statistics_has_the_same_lines() {
    begin();
    let (chief, worker) = ("127.0.9.4", "127.0.9.5");
    let service = start(vec![
        rule(&[chief, crate::access::OPERATOR], &ALL, &["*"], &[], true),
        rule(&[worker], &["publish", "subscribe"], &["*"], &[], true),
    ]);
    let bare = Bare::new();
    let (_kept, _other) = (consumer_of(&service, worker, &bare), consumer_of(&service, worker, &bare));
    let Answer::Consumers(consumers) = service.ask(Query::Consumers).unwrap() else { panic!() };
    let key = consumers[0].outbox.key;
    let by = service.operators().principal(chief.parse().unwrap(), Some("ops".into()), None);
    let who = "audit: 127.0.9.4 over HTTP, with the token \"ops\": ";
    let command = |command| service.asker().command(&by, command, None).unwrap();
    let told = format!("proxy {} of channel 0 (", key.proxy.0);
    for suspended in [true, false] {
        assert!(matches!(command(Command::Suspend { key, suspended }), Answer::Done(Ok(()))));
    }
    await_line(&[who, "suspend on consumer ", &told, ": done"]);
    await_line(&[who, "resume on consumer ", &told, ": done"]);
    let other = service.operators().principal(worker.parse().unwrap(), None, None);
    let refused = service.asker().command(&other, Command::Disconnect(key), None).unwrap();
    assert!(matches!(refused, Answer::Denied(_)));
    await_line(&["audit: 127.0.9.5 over HTTP: disconnect on consumer ", &told, ": denied, no rule"]);
    let properties = vec![("MaxQueueLength".to_owned(), Declared::Text("many".to_owned()))];
    let on = Settable::Channel(ChannelId(0));
    assert!(matches!(command(Command::SetQos { on, properties }), Answer::Done(Err(_))));
    await_line(&[who, "set_qos on channel 0: MaxQueueLength=", ": failed, "]);
    let pause = |name: &str| Command::PauseLink { name: name.to_owned(), paused: true };
    assert!(matches!(command(pause("la\"b")), Answer::Done(Err(_))));
    await_line(&[who, "pause on link \"la\\\"b\": failed, there is no link of this name"]);
    let refused = service.asker().command(&other, pause("lab"), None).unwrap();
    assert!(matches!(refused, Answer::Denied(_)));
    await_line(&["audit: 127.0.9.5 over HTTP: pause on link \"lab\": denied, no rule"]);
    assert!(matches!(command(Command::Disconnect(key)), Answer::Disconnected(1)));
    await_line(&[who, "disconnect on consumer ", &told, ": done, 1 disconnected"]);
    assert!(matches!(command(Command::Disconnect(key)), Answer::Disconnected(0)));
    await_line(&[who, "disconnect on consumer ", ": failed, there is no client to disconnect"]);
    // The same asked for by CORBA, of the object by which operators do that.
    let object = orb(chief).resolve(&service.corbaloc("Statistics")).unwrap();
    let pause = object.invoke("pause_link", |w| {
        w.string("lab");
        w.bool(true);
    });
    assert_eq!(pause.unwrap().read("pause_link", |r| r.text()).unwrap(), "there is no link of this name");
    await_line(&["audit: 127.0.9.4: pause on link \"lab\": failed, there is no link of this name"]);
    let statistics = |who: &str| {
        let object = orb(who).resolve(&service.corbaloc("Statistics")).unwrap();
        permitted(object.invoke("disconnect_idle", |w| w.u64(60_000)).map(drop))
    };
    assert!(!statistics(worker));
    await_line(&["audit: 127.0.9.5: disconnect suppliers idle for ", "denied, no access rule allows it"]);
}

/// A client could use up the lines that there are, and act unseen then.
#[test]
fn a_client_that_is_refused_very_often_leaves_others_their_lines_and_is_logged() {
    begin();
    let service = start(vec![rule(&[crate::access::OPERATOR], &ALL, &["*"], &[], true)]);
    let channel = as_seen_by(FLOODING, &channel_of(&service, &orb_of_operator(), 0));
    let mut asked = 0;
    wait_until("lines to be left out", || {
        for _ in 0..50 {
            assert!(!permitted(channel.set_qos(&[])));
        }
        asked += 50;
        service.counters().read(Counter::AuditLeftOut) > 0
    });
    let told = await_line(&["audit: 127.0.9.3: ", "acts", "left out"]);
    assert!(told.starts_with("audit: 127.0.9.3: "), "{told}");
    let of_acts = lines(&["audit: 127.0.9.3: set_qos on channel 0: denied"]).len() as u64;
    assert_eq!(of_acts + service.counters().read(Counter::AuditLeftOut), asked);
}

/// Of what is pushed the rule is named that decides of its type: it was the first that speaks of any.
#[test]
fn a_push_that_is_denied_by_several_rules_is_reported_with_the_one_that_decides_of_its_type() {
    begin();
    let denied = [("*/Secret*", "127.0.9.0/24"), ("Sea/*", "127.0.9.0/24"), ("Fire/*", "127.0.9.0/24")];
    let mut rules: Vec<_> = denied.iter().map(|(of, who)| rule(&[who], &["publish"], &["*"], &[of], false)).collect();
    rules.push(rule(&[crate::access::OPERATOR], &ALL, &["*"], &[], true));
    let service = start(rules);
    let proxy = proxy_for(&channel_of(&service, &orb_of_operator(), 0)).unwrap();
    let secret = "access rule 1 decides (127.0.9.0/24 may not publish on *, event types */Secret*)";
    let sea = "access rule 2 decides (127.0.9.0/24 may not publish on *, event types Sea/*)";
    let push = |who: &str, domain: &str, name: &str| {
        let proxy = StructuredProxyPushConsumer::unchecked(orb(who).object(proxy.object().ior().clone()));
        assert!(!permitted(proxy.push_structured_event(&event(domain, name))));
    };
    let denied = |who: &str, what: &str| format!("denied {who}: {what} (publish) on channel 0: ");
    for (who, domain, name, why) in [
        ("127.0.9.10", "Sea", "Salt", sea),
        ("127.0.9.11", "Sea", "Secret", secret),
        ("127.0.9.12", "Air", "Wind", "no access rule allows it"),
    ] {
        push(who, domain, name);
        let line = await_line(&[&denied(who, "a push")]);
        assert_eq!(line, denied(who, "a push") + why);
    }
    await_count(&service, Counter::DeniedPublish, 3);
    // Lines of JSON and topics of Tempo have a type before they have a proxy. All rules that speak of the client were named.
    let answer = Lines::connect_from(&service, "127.0.9.14").ask(r#"{"op":"publish","id":1,"type":"Sea/Salt"}"#);
    assert!(answer.contains("not permitted"), "{answer}");
    let mut datagrams = Datagrams::at(&service, 7, "127.0.9.15:0".parse().unwrap());
    for _ in 0..2 {
        datagrams.announce(1, announcement(Role::Publisher, "Sea/Salt"));
        if *datagrams.cookie() == 0 {
            datagrams.announced("Sea/Salt");
        }
    }
    for who in ["127.0.9.14", "127.0.9.15"] {
        assert_eq!(await_line(&[&denied(who, "to supply events")]), denied(who, "to supply events") + sea);
    }
    // A client that asks for a proxy has said no type yet.
    let admin = channel_of(&service, &orb_of_operator(), 0).default_supplier_admin().unwrap();
    let admin = client::notify::SupplierAdmin::unchecked(orb("127.0.9.13").object(admin.object().ior().clone()));
    assert!(!permitted(admin.obtain_notification_push_consumer(ClientType::Structured)));
    let line = await_line(&["denied 127.0.9.13: obtain_notification_push_consumer (publish)"]);
    assert!(line.contains(&format!("{secret}; {sea}; ")), "{line}");
    assert!(line.ends_with("; no access rule allows any other event type"), "{line}");
}

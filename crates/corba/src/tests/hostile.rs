//! Arguments and keys that no sane client sends.

use super::dialogue::{Dialogue, STYLES, client, somebody};
use super::proxies::every_proxy;
use crate::conformance;
use crate::{ClientAnswer, Effect, ObjectRequest};
use engine::Time;
use giop::cdr::{CharSet, Encoding, Reader};
use giop::ior::Ior;
use std::time::Duration;

/// One object of each kind.
fn zoo(d: &mut Dialogue) -> Vec<Vec<u8>> {
    let factory = d.bootstrap("NotificationService");
    let made = d.call(&factory, "create_channel", |w| {
        w.u32(0);
        w.u32(0);
    });
    let channel = Ior::read(&mut made.unwrap().reader()).unwrap();
    let consumers = d.object(&channel, "for_consumers");
    let suppliers = d.object(&channel, "for_suppliers");
    let naming = d.bootstrap("NameService");
    let iterator = d.call(&naming, "list", |w| w.u32(0)).unwrap().read(|r| {
        assert_eq!(r.u32().unwrap(), 0);
        Ior::read(r).unwrap()
    });
    let mut objects = every_proxy(d, &channel);
    objects.extend([factory, channel, consumers.clone(), suppliers.clone(), naming, iterator]);
    objects.push(d.object(&consumers, "obtain_push_supplier"));
    objects.push(d.object(&consumers, "obtain_pull_supplier"));
    objects.push(d.object(&suppliers, "obtain_push_consumer"));
    objects.push(d.object(&suppliers, "obtain_pull_consumer"));
    objects.into_iter().map(|object| object.iiop().unwrap().key.clone()).collect()
}

#[test]
fn random_arguments_never_harm_anything() {
    let operations: Vec<&str> = conformance::operations().map(|row| row.operation).collect();
    for style in STYLES {
        let seed = 0x0ddba11;
        let mut random = fastrand::Rng::with_seed(seed);
        for round in 0..30 {
            let mut d = Dialogue::new(style);
            let keys = zoo(&mut d);
            for step in 0..600 {
                let key = &keys[random.usize(0..keys.len())];
                let operation = operations[random.usize(0..operations.len())];
                let length = random.usize(0..80);
                let sparse = random.bool();
                // Mostly zeros and small numbers get further than noise.
                let octet = |random: &mut fastrand::Rng| if sparse && random.u8(..) < 220 { 0 } else { random.u8(..) };
                let bytes: Vec<u8> = (0..length).map(|_| octet(&mut random)).collect();
                let chars = if random.bool() { CharSet::Latin1 } else { CharSet::Utf8 };
                let encoding = Encoding { endian: style.endian, version: style.version, chars };
                let args = Reader::with_phase(&bytes, random.usize(0..8), encoding);
                let reply = d.answer(&ObjectRequest { key, operation, args, principal: somebody() });
                assert!(reply.len() >= 12, "seed {seed:#x}, {style:?}, round {round}, step {step}");
            }
            d.effects();
            d.protocol.publish();
        }
    }
}

#[test]
fn random_and_mutated_keys_reach_nothing() {
    let mut d = Dialogue::new(STYLES[5]);
    let keys = zoo(&mut d);
    let seed = 0xfee1_600d;
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..20_000 {
        let mut key = keys[random.usize(0..keys.len())].clone();
        let at = random.usize(0..key.len());
        key[at] = key[at].wrapping_add(random.u8(1..));
        // Another object's number beside its own nonce reached that object, while all objects of a channel had the same nonce.
        let reaches = !keys.contains(&key) && d.protocol.objects.locate(&key);
        assert!(!reaches, "seed {seed:#x}, round {round}: {}", key.escape_ascii());
    }
}

#[test]
fn counts_that_promise_too_much_are_refused_at_once() {
    let mut d = Dialogue::new(STYLES[5]);
    let factory = d.bootstrap("NotificationService");
    let naming = d.bootstrap("NameService");
    for (object, operation) in [
        (&factory, "create_channel"),
        (&naming, "resolve"),
        (&naming, "bind"),
        (&naming, "to_string"),
        (&naming, "to_name"),
    ] {
        for count in [u32::MAX, 0x8000_0000, 0x0100_0000] {
            let thrown = d.call(object, operation, |w| w.u32(count)).unwrap_err();
            assert_eq!(thrown.name(), "MARSHAL", "{operation} with {count}");
        }
    }
}

#[test]
fn a_great_many_event_types_or_properties_are_refused() {
    let mut d = Dialogue::new(STYLES[5]);
    let channel = d.bootstrap("DefaultEventChannel");
    let admin = d.object(&channel, "for_consumers");
    let encoding = Encoding::new(d.style.endian);
    for (object, operation) in [(&admin, "subscription_change"), (&channel, "set_qos")] {
        let mut args = Vec::new();
        let mut writer = giop::cdr::Writer::new(&mut args, encoding);
        writer.u32(100_000);
        for _ in 0..100_000 {
            writer.string("");
            writer.u32(0);
        }
        let key = &object.iiop().unwrap().key;
        let call = ObjectRequest { key, operation, args: Reader::new(&args, encoding), principal: somebody() };
        let refused = d.protocol.handle(&call, &mut giop::cdr::Writer::new(&mut Vec::new(), encoding)).unwrap_err();
        let crate::Exception::System(refused) = refused else { panic!("{refused:?}") };
        assert_eq!(refused.kind, giop::exception::Kind::ImpLimit, "{operation}");
    }
}

#[test]
fn destroying_one_thing_while_another_is_used_ends_in_exceptions_only() {
    let seed = 0xdead_5eed;
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..40 {
        let mut d = Dialogue::new(STYLES[random.usize(0..STYLES.len())]);
        let factory = d.bootstrap("NotificationService");
        let mut objects = vec![d.bootstrap("DefaultEventChannel"), factory];
        let mut now = Time(0);
        for _ in 0..150 {
            let object = objects[random.usize(0..objects.len())].clone();
            let operation = OPERATIONS[random.usize(0..OPERATIONS.len())];
            let takes_object = operation.starts_with("connect_");
            let takes_number = operation.starts_with("new_")
                || operation.starts_with("obtain_notification")
                || operation.ends_with("_types");
            let form = random.u32(0..3);
            let made = d.call(&object, operation, |w| match operation {
                _ if takes_object => client("c").write(w),
                _ if takes_number => w.u32(form),
                "create_channel" => w.u64(0),
                _ => {}
            });
            if let Ok(body) = made
                && let Ok(made) = Ior::read(&mut body.reader())
            {
                objects.push(made);
            }
            if random.bool() {
                now = now + Duration::from_secs(random.u64(0..30));
                d.protocol.handle_time(now);
            }
            if random.u8(..) < 30 {
                answer_some(&mut d, &mut random);
                check_published(&mut d, seed);
            }
        }
    }
}

const OPERATIONS: &[&str] = &[
    "for_consumers",
    "for_suppliers",
    "new_for_consumers",
    "new_for_suppliers",
    "create_channel",
    "destroy",
    "obtain_notification_push_supplier",
    "obtain_notification_push_consumer",
    "obtain_push_supplier",
    "obtain_push_consumer",
    "connect_structured_push_consumer",
    "connect_any_push_consumer",
    "connect_structured_push_supplier",
    "connect_push_supplier",
    "connect_push_consumer",
    "disconnect_push_supplier",
    "disconnect_structured_push_consumer",
    "suspend_connection",
    "resume_connection",
    "_get_MyAdmin",
    "obtain_notification_pull_supplier",
    "obtain_notification_pull_consumer",
    "obtain_pull_supplier",
    "connect_sequence_push_consumer",
    "connect_structured_pull_supplier",
    "connect_any_pull_consumer",
    "disconnect_sequence_push_supplier",
    "obtain_offered_types",
];

/// Most clients answer, each as it likes.
fn answer_some(d: &mut Dialogue, random: &mut fastrand::Rng) {
    let answers = [
        ClientAnswer::Returned(Some(false)),
        ClientAnswer::NotImplemented,
        ClientAnswer::Gone,
        ClientAnswer::Unreachable,
        ClientAnswer::TimedOut,
    ];
    for effect in d.effects() {
        if let Effect::Ask { client_call, .. } = effect
            && random.u8(..) < 200
        {
            d.protocol.handle_answer(client_call, answers[random.usize(0..answers.len())]);
        }
    }
}

/// Whatever is published names only consumers of which the address is published too, if they are to be called.
fn check_published(d: &mut Dialogue, seed: u64) {
    let Some(published) = d.protocol.publish() else { return };
    for channel in published.routing.channels() {
        for consumer in channel.consumers() {
            let is_known = consumer.peer.is_some_and(|peer| published.directory.peers.get(peer).is_some());
            assert!(consumer.pull || is_known, "seed {seed:#x}");
            assert!(published.directory.nonces.has_channel(consumer.key.channel), "seed {seed:#x}");
        }
    }
}

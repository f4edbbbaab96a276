//! `When`, the correlation of a consumer, as a property.

use super::*;
use crate::tests::dialogue::client;
use crate::tests::dialogue::key_of;

/// A proxy of the consumer admin that pushes sequences.
fn of_sequences(scene: &mut Scene) -> Ior {
    let consumers = scene.consumers.clone();
    scene.d.made(&consumers, "obtain_notification_push_supplier", 2).0
}

#[test]
fn a_consumer_of_sequences_has_a_correlation_and_an_empty_text_ends_it() {
    let mut scene = Scene::new();
    let proxy = of_sequences(&mut scene);
    let crate::keys::ObjectKey::Proxy { channel, proxy: id, .. } = key_of(&proxy) else { panic!() };
    let texts = |scene: &Scene| {
        let hierarchy = scene.d.protocol.objects.hierarchy();
        let correlation = &hierarchy.proxy(ProxyKey { channel, proxy: id }).unwrap().correlation;
        correlation.as_ref().map(|correlation| correlation.text().to_owned())
    };
    assert!(!scene.qos(&proxy).contains_key("When"));
    scene.set(&proxy, &[("When", "A and B within 50ms same antenna".into()), ("PushWindow", 4_u16.into())]);
    assert_eq!(scene.qos(&proxy)["When"], text("A and B within 50ms same antenna"));
    assert_eq!(texts(&scene).as_deref(), Some("A and B within 50ms same antenna"));
    scene.set(&proxy, &[("PushWindow", 5_u16.into())]);
    assert!(texts(&scene).is_some(), "it stays");
    scene.set(&proxy, &[("When", "".into())]);
    assert_eq!((texts(&scene), scene.qos(&proxy).contains_key("When")), (None, false));
}

#[test]
fn a_correlation_that_is_none_or_for_another_object_is_refused() {
    let mut scene = Scene::new();
    let proxy = of_sequences(&mut scene);
    let code = |errors: Vec<(u32, String, Value, Value)>| errors.into_iter().map(|error| error.0).collect::<Vec<_>>();
    let range = text(crate::qos::property::WHEN_RANGE);
    let errors = scene.errors(&proxy, &[("When", "A and not B".into())]);
    assert_eq!(errors, [(BAD_VALUE, "When".to_owned(), range.clone(), range)]);
    assert_eq!(code(scene.errors(&proxy, &[("When", 7_i32.into())])), [BAD_TYPE]);
    let [channel, consumers, supplier] = [&scene.channel, &scene.consumers, &scene.from_supplier].map(Clone::clone);
    let of_anys = scene.d.made(&consumers, "obtain_notification_push_supplier", 0).0;
    for object in [channel, consumers, of_anys, supplier] {
        assert_eq!(code(scene.errors(&object, &[("When", "A and B".into())])), [UNAVAILABLE_PROPERTY]);
    }
}

fn validated(scene: &mut Scene, object: &Ior) -> Vec<String> {
    let body = scene.d.call(object, "validate_qos", |w| write(&[], w)).unwrap();
    body.read(|r| (0..r.u32().unwrap()).map(|_| (r.text().unwrap(), read_value(r), read_value(r)).0).collect())
}

/// A client that walked through all twelve kinds of proxies was told of a property that most of them refuse.
#[test]
fn only_what_may_have_a_correlation_says_that_it_may() {
    let mut scene = Scene::new();
    let sequences = of_sequences(&mut scene);
    let (consumers, suppliers) = (scene.consumers.clone(), scene.suppliers.clone());
    let [pulled, single] = [2, 1].map(|kind| scene.d.made(&consumers, "obtain_notification_pull_supplier", kind).0);
    for object in [sequences, pulled, single, scene.to_consumer.clone()] {
        assert!(validated(&mut scene, &object).contains(&"When".to_owned()));
    }
    let mut others = vec![scene.channel.clone(), consumers.clone(), suppliers.clone()];
    for operation in ["obtain_notification_push_supplier", "obtain_notification_pull_supplier"] {
        others.push(scene.d.made(&consumers, operation, 0).0);
    }
    for kind in [0, 1, 2] {
        others.push(scene.d.made(&suppliers, "obtain_notification_push_consumer", kind).0);
        others.push(scene.d.made(&suppliers, "obtain_notification_pull_consumer", kind).0);
    }
    for object in others {
        let listed = validated(&mut scene, &object);
        assert!(listed.len() > 1 && !listed.contains(&"When".to_owned()), "{listed:?}");
    }
}

#[test]
fn a_filter_that_a_client_implements_and_a_correlation_refuse_each_other() {
    let mut scene = Scene::new();
    let (proxy, admin) = (of_sequences(&mut scene), scene.consumers.clone());
    let when = [("When", AnyValue::from("A and B"))];
    let add = |scene: &mut Scene, object: &Ior| scene.d.call(object, "add_filter", |w| client("filter").write(w));
    for object in [&proxy, &admin] {
        add(&mut scene, object).unwrap();
        let errors = scene.errors(&proxy, &when);
        assert_eq!((errors.len(), errors[0].0), (1, UNAVAILABLE_PROPERTY));
        scene.d.get(object, "remove_all_filters");
    }
    scene.set(&proxy, &when);
    for object in [&proxy, &admin] {
        add(&mut scene, object).raises("IMP_LIMIT");
    }
    let single = scene.to_consumer.clone();
    add(&mut scene, &single).unwrap();
    scene.set(&proxy, &[("When", "".into())]);
    for object in [&proxy, &admin] {
        add(&mut scene, object).unwrap();
    }
}

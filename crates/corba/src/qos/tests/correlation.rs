//! `When`, the correlation of a consumer, as a property.

use super::*;

/// A proxy of the consumer admin that pushes sequences.
fn of_sequences(scene: &mut Scene) -> Ior {
    let consumers = scene.consumers.clone();
    scene.d.made(&consumers, "obtain_notification_push_supplier", 2).0
}

#[test]
fn a_consumer_of_sequences_has_a_correlation_and_an_empty_text_ends_it() {
    let mut scene = Scene::new();
    let proxy = of_sequences(&mut scene);
    let crate::keys::ObjectKey::Proxy { channel, proxy: id, .. } = crate::tests::dialogue::key_of(&proxy) else {
        panic!()
    };
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
    let [channel, consumers, single, supplier] =
        [&scene.channel, &scene.consumers, &scene.to_consumer, &scene.from_supplier].map(Clone::clone);
    for object in [channel, consumers, single, supplier] {
        assert_eq!(code(scene.errors(&object, &[("When", "A and B".into())])), [UNAVAILABLE_PROPERTY]);
    }
}

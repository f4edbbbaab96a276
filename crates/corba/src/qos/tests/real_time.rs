//! `Profile` = `RealTime`: what it refuses, and that it is refused where there is such a thing already.

use super::*;
use crate::tests::dialogue::client;
use client::notify::ThreadPool;
use giop::realtime::PriorityModel;

const UNAVAILABLE_VALUE: u32 = 3;

/// What a channel has to say before it can be real-time.
fn real_time() -> Vec<(&'static str, AnyValue)> {
    vec![("Profile", "RealTime".into()), ("MaxEventsPerConsumer", 100_i32.into())]
}

fn pool() -> (&'static str, AnyValue) {
    ("ThreadPool", ThreadPool::new(PriorityModel::ServerDeclared, 1, 1).into())
}

impl Scene {
    fn make_real_time(&mut self) {
        let channel = self.channel.clone();
        self.set(&channel, &real_time());
    }

    fn profile(&mut self) -> Value {
        let channel = self.channel.clone();
        self.qos(&channel)["Profile"].clone()
    }

    /// That the channel cannot be real-time as it is, and that it can after `mend`.
    #[track_caller]
    fn stands_in_the_way(&mut self, what: &str, mend: impl FnOnce(&mut Self)) {
        let channel = self.channel.clone();
        let standard = text("Standard");
        let expected = (UNAVAILABLE_VALUE, "Profile".to_owned(), standard.clone(), standard.clone());
        assert_eq!(self.errors(&channel, &real_time()), [expected], "{what}");
        assert_eq!(self.profile(), standard, "{what}");
        mend(self);
        self.make_real_time();
        assert_eq!(self.profile(), text("RealTime"), "{what}");
    }
}

#[test]
fn settings_that_are_not_predictable_are_named_with_what_would_be() {
    let mut scene = Scene::new();
    let channel = scene.channel.clone();
    let bad = [
        ("Profile", "RealTime".into()),
        ("FullOutbox", "Hold".into()),
        ("BlockingPolicy", 1_u64.into()),
        ("MaximumBatchSize", 65_i32.into()),
        ("PacingInterval", 1_u64.into()),
        ("FilterSteps", 250_001_i32.into()),
    ];
    let named: Vec<_> = scene.errors(&channel, &bad);
    let others = text("Discard|Reject|Disconnect");
    let expected = [
        ("MaxEventsPerConsumer", Value::Long(1), Value::Long(i32::MAX)),
        ("FullOutbox", others.clone(), others),
        ("BlockingPolicy", Value::ULongLong(0), Value::ULongLong(0)),
        ("MaximumBatchSize", Value::Long(1), Value::Long(64)),
        ("PacingInterval", Value::ULongLong(0), Value::ULongLong(0)),
        ("FilterSteps", Value::Long(1), Value::Long(250_000)),
    ];
    assert_eq!(named, expected.map(|(name, low, high)| (UNAVAILABLE_VALUE, name.to_owned(), low, high)));
    assert_eq!(scene.profile(), text("Standard"));
    assert_eq!(scene.settings(), OutboxSettings::default());
}

#[test]
fn each_level_of_a_real_time_channel_keeps_to_the_subset() {
    let mut scene = Scene::new();
    scene.make_real_time();
    let levels = [scene.channel.clone(), scene.consumers.clone(), scene.to_consumer.clone()];
    for object in levels {
        for (name, value) in [
            ("MaxEventsPerConsumer", 0_i32.into()),
            ("FullOutbox", "Hold".into()),
            ("BlockingPolicy", 10_u64.into()),
            ("MaximumBatchSize", 1_000_i32.into()),
            ("PacingInterval", 10_u64.into()),
        ] {
            let errors = scene.errors(&object, &[(name, value)]);
            assert_eq!(
                errors.iter().map(|(code, name, ..)| (*code, name.as_str())).collect::<Vec<_>>(),
                [(UNAVAILABLE_VALUE, name)]
            );
        }
        scene.set(&object, &[("MaxEventsPerConsumer", 7_i32.into()), ("FullOutbox", "Discard".into())]);
        scene.set(&object, &[("MaximumBatchSize", 64_i32.into())]);
    }
    let channel = scene.channel.clone();
    let steps = [("FilterSteps", 1_000_000_i32.into())];
    scene.d.call(&channel, "set_admin", |w| write(&steps, w)).raises("UnsupportedAdmin");
    // Back in the standard profile all may be set again.
    scene.set(&channel, &[("Profile", "Standard".into()), ("MaxEventsPerConsumer", 0_i32.into())]);
    scene.d.call(&channel, "set_admin", |w| write(&steps, w)).unwrap();
}

#[test]
fn suppliers_levels_are_not_asked_for_what_has_no_effect_there() {
    let mut scene = Scene::new();
    scene.make_real_time();
    for object in [scene.suppliers.clone(), scene.from_supplier.clone()] {
        scene.set(&object, &[("PacingInterval", 10_u64.into()), ("Priority", 5_i16.into())]);
    }
}

#[test]
fn proxies_that_pull_are_not_made() {
    let mut scene = Scene::new();
    let admins = [(scene.consumers.clone(), "supplier"), (scene.suppliers.clone(), "consumer")];
    scene.make_real_time();
    for (admin, kind) in admins {
        let ids = format!("_get_pull_{kind}s");
        for form in 0..3 {
            let refused = scene.d.call(&admin, &format!("obtain_notification_pull_{kind}"), |w| w.u32(form));
            let limit = refused.raises("AdminLimitExceeded").read(|r| (r.text().unwrap(), read_value(r)));
            assert_eq!(limit, ("Profile".to_owned(), text("RealTime")));
        }
        scene.d.call(&admin, &format!("obtain_pull_{kind}"), |_| {}).raises("IMP_LIMIT");
        assert_eq!(scene.d.ids(&admin, &ids), [0; 0]);
        scene.d.made(&admin, &format!("obtain_notification_push_{kind}"), 1);
    }
}

#[test]
fn proxies_that_pull_stand_in_the_way() {
    for side in ["supplier", "consumer"] {
        let mut scene = Scene::new();
        let admin = if side == "supplier" { scene.consumers.clone() } else { scene.suppliers.clone() };
        let pulls = scene.d.made(&admin, &format!("obtain_notification_pull_{side}"), 1).0;
        scene.stands_in_the_way(side, |scene| {
            scene.d.get(&pulls, &format!("disconnect_structured_pull_{side}"));
        });
    }
}

#[test]
fn filters_that_clients_implement_are_not_taken_and_stand_in_the_way() {
    let mut scene = Scene::new();
    let filter = client("filter");
    let add = |scene: &mut Scene, object: &Ior| scene.d.call(object, "add_filter", |w| filter.write(w));
    let (admin, proxy) = (scene.suppliers.clone(), scene.to_consumer.clone());
    for object in [&admin, &proxy] {
        add(&mut scene, object).unwrap();
    }
    scene.d.get(&admin, "remove_all_filters");
    scene.stands_in_the_way("the filter", |scene| {
        scene.d.get(&proxy, "remove_all_filters");
    });
    for object in [&admin, &proxy] {
        add(&mut scene, object).raises("IMP_LIMIT");
    }
}

#[test]
fn pools_of_single_proxies_are_refused_and_stand_in_the_way() {
    let mut scene = Scene::new();
    let (admin, proxy) = (scene.consumers.clone(), scene.to_consumer.clone());
    scene.set(&proxy, &[pool()]);
    scene.stands_in_the_way("the pool", |scene| {
        scene.d.get(&proxy, "disconnect_structured_push_supplier");
    });
    let other = scene.from_supplier.clone();
    let errors = scene.errors(&other, &[pool()]);
    assert_eq!(errors, [(UNAVAILABLE_PROPERTY, "ThreadPool".to_owned(), Value::Null, Value::Null)]);
    scene.set(&admin, &[pool()]);
}

#[test]
fn settings_of_admins_and_proxies_stand_in_the_way() {
    let mut scene = Scene::new();
    let (admin, proxy) = (scene.consumers.clone(), scene.to_consumer.clone());
    for object in [admin, proxy] {
        scene.set(&object, &[("PacingInterval", 10_u64.into())]);
        scene.stands_in_the_way("the pacing", |scene| scene.set(&object, &[("PacingInterval", 0_u64.into())]));
        let channel = scene.channel.clone();
        scene.set(&channel, &[("Profile", "Standard".into())]);
    }
}

#[test]
fn channel_is_made_real_time_or_not_at_all() {
    let mut scene = Scene::new();
    let factory = scene.d.bootstrap("NotificationService");
    let create = |scene: &mut Scene, qos: &[(&str, AnyValue)]| {
        scene.d.call(&factory, "create_channel", |w| {
            write(qos, w);
            write(&[], w);
        })
    };
    let refused = create(&mut scene, &real_time()[..1]).raises("UnsupportedQoS");
    assert_eq!(refused.read(read_errors)[0].1, "MaxEventsPerConsumer");
    let channel = create(&mut scene, &real_time()).unwrap().read(|r| (Ior::read(r).unwrap(), r.i32().unwrap())).0;
    assert_eq!(scene.qos(&channel)["Profile"], text("RealTime"));
    let consumers = scene.d.object(&channel, "for_consumers");
    scene.d.call(&consumers, "obtain_notification_pull_supplier", |w| w.u32(1)).raises("AdminLimitExceeded");
    // Others are what they were.
    assert_eq!(scene.profile(), text("Standard"));
}

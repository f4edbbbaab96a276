//! What a channel's events may claim of their lanes, as properties; and by which discipline a pool's lanes choose.

use super::*;
use client::notify::{ThreadPool, Topic, Topics};
use engine::{Discipline, EventType, TopicSettings};
use giop::realtime::PriorityModel;

const UNAVAILABLE_VALUE: u32 = 3;

fn topics_of(scene: &mut Scene) -> engine::Topics {
    let hierarchy = scene.d.protocol.objects.hierarchy();
    let channel = hierarchy.channels().next().unwrap();
    channel.topics().as_ref().clone()
}

fn topics(topics: &[Topic]) -> (&'static str, AnyValue) {
    ("Topics", Topics(topics.to_vec()).into())
}

fn alarm() -> Topic {
    Topic {
        deadline: Some(Duration::from_millis(5)),
        execution_time: Duration::from_micros(70),
        criticality: -3,
        ..Topic::new("Plant", "Alarm", 200)
    }
}

#[test]
fn a_channel_begins_with_a_share_of_1000_and_no_topics_of_types() {
    let mut scene = Scene::new();
    let channel = scene.channel.clone();
    let qos = scene.qos(&channel);
    assert_eq!((&qos["Share"], &qos["Deadline"]), (&Value::ULong(1_000), &Value::ULongLong(0)));
    assert_eq!(Topics::of(&qos["Topics"]), Some(Topics::default()));
    assert_eq!(qos.get("Discipline"), None);
    assert_eq!(topics_of(&mut scene), engine::Topics::default());
}

#[test]
fn shares_deadlines_and_topics_of_types_reach_the_engine_and_are_reported_back() {
    let mut scene = Scene::new();
    let channel = scene.channel.clone();
    // Integers of a neighbouring width are accepted as everywhere.
    scene.set(&channel, &[("Deadline", 200_000_u32.into()), ("Share", 50_i16.into()), topics(&[alarm()])]);
    let by_type = TopicSettings {
        share: 200,
        deadline: Some(Duration::from_millis(5)),
        execution_time: Duration::from_micros(70),
        criticality: -3,
    };
    let rest = TopicSettings { share: 50, deadline: Some(Duration::from_millis(20)), ..TopicSettings::default() };
    let by_type = vec![(EventType::new("Plant", "Alarm"), by_type)];
    assert_eq!(topics_of(&mut scene), engine::Topics { rest, by_type });
    let qos = scene.qos(&channel);
    assert_eq!((&qos["Share"], &qos["Deadline"]), (&Value::ULong(50), &Value::ULongLong(200_000)));
    assert_eq!(Topics::of(&qos["Topics"]), Some(Topics(vec![alarm()])));
    // What is returned can be set again, and an empty list takes the topics away.
    scene.set(&channel, &[("Deadline", 0_u64.into()), topics(&[])]);
    let rest = TopicSettings { share: 50, ..TopicSettings::default() };
    assert_eq!(topics_of(&mut scene), engine::Topics { rest, by_type: Vec::new() });
}

#[test]
fn a_new_channel_can_be_given_its_topics() {
    let mut scene = Scene::new();
    let factory = scene.d.bootstrap("NotificationService");
    let made = scene.d.call(&factory, "create_channel", |w| {
        write(&[("Share", 7_u32.into()), topics(&[alarm()])], w);
        write(&[], w);
    });
    let channel = made.unwrap().read(|r| (Ior::read(r).unwrap(), r.i32().unwrap())).0;
    let qos = scene.qos(&channel);
    assert_eq!(qos["Share"], Value::ULong(7));
    assert_eq!(Topics::of(&qos["Topics"]), Some(Topics(vec![alarm()])));
}

#[test]
fn shares_out_of_range_and_things_that_are_no_topics_are_refused() {
    let mut scene = Scene::new();
    let channel = scene.channel.clone();
    for share in [0_u32, 1_000_001] {
        let errors = scene.errors(&channel, &[("Share", share.into())]);
        assert_eq!(errors, [(BAD_VALUE, "Share".into(), Value::ULong(1), Value::ULong(1_000_000))]);
    }
    let code = |scene: &mut Scene, property: (&str, AnyValue)| scene.errors(&channel, &[property])[0].0;
    let with = |change: fn(&mut Topic)| {
        let mut topic = alarm();
        change(&mut topic);
        topics(&[topic])
    };
    assert_eq!(code(&mut scene, ("Topics", 5_u32.into())), BAD_TYPE);
    assert_eq!(code(&mut scene, ("Topics", ThreadPool::new(PriorityModel::ServerDeclared, 0, 1).into())), BAD_TYPE);
    assert_eq!(code(&mut scene, with(|topic| topic.share = 0)), BAD_VALUE);
    assert_eq!(code(&mut scene, with(|topic| topic.share = 201)), BAD_VALUE);
    assert_eq!(code(&mut scene, with(|topic| topic.execution_time = Duration::from_millis(1_001))), BAD_VALUE);
    assert_eq!(code(&mut scene, topics(&[alarm(), alarm()])), BAD_VALUE);
    let many: Vec<Topic> = (0..257).map(|number| Topic::new("Plant", &number.to_string(), 1)).collect();
    assert_eq!(code(&mut scene, topics(&many)), UNSUPPORTED_VALUE);
    scene.set(&channel, &[topics(&many[..256])]);
}

#[test]
fn a_deadline_beyond_the_reciprocal_of_the_share_is_refused_with_what_it_may_be() {
    let mut scene = Scene::new();
    let channel = scene.channel.clone();
    let refused = [(UNAVAILABLE_VALUE, "Deadline".into(), Value::ULongLong(0), Value::ULongLong(100_000))];
    assert_eq!(scene.errors(&channel, &[("Share", 100_u32.into()), ("Deadline", 100_001_u64.into())]), refused);
    scene.set(&channel, &[("Share", 50_u32.into()), ("Deadline", 200_000_u64.into())]);
    assert_eq!(scene.errors(&channel, &[("Share", 100_u32.into())]), refused);
    let (code, ..) = scene.errors(&channel, &[("Deadline", 10_000_001_u64.into())]).remove(0);
    assert_eq!(code, BAD_VALUE);
}

#[test]
fn shares_are_a_property_of_channels_only() {
    let mut scene = Scene::new();
    for object in [scene.consumers.clone(), scene.suppliers.clone(), scene.to_consumer.clone()] {
        for property in [("Share", 5_u32.into()), ("Deadline", 5_u64.into()), topics(&[])] {
            assert_eq!(scene.errors(&object, &[property])[0].0, UNAVAILABLE_PROPERTY);
        }
    }
}

#[test]
fn a_discipline_is_that_of_the_pool_set_beside_it() {
    let mut scene = Scene::new();
    let (channel, admin) = (scene.channel.clone(), scene.consumers.clone());
    let pool = || ("ThreadPool", ThreadPool::new(PriorityModel::ServerDeclared, 5, 1).into());
    let discipline = |name: &str| ("Discipline", AnyValue::from(name));
    let errors = scene.errors(&channel, &[discipline("LeastLaxity")]);
    assert_eq!(errors, [(UNAVAILABLE_PROPERTY, "Discipline".into(), Value::Null, Value::Null)]);
    assert_eq!(scene.errors(&channel, &[pool(), discipline("FirstCome")])[0].0, BAD_VALUE);
    // In whichever order.
    scene.set(&channel, &[discipline("LeastLaxity"), pool()]);
    let reported = |name: &str| Some(Value::String(name.into()));
    assert_eq!(scene.qos(&channel).get("Discipline").cloned(), reported("LeastLaxity"));
    assert_eq!(scene.qos(&admin).get("Discipline").cloned(), reported("LeastLaxity"));
    let published = scene.d.protocol.publish().unwrap();
    assert_eq!(published.routing.lanes()[0].discipline, Discipline::LeastLaxity);
    // The same pool, set again, says nothing of it.
    scene.set(&channel, &[pool()]);
    assert_eq!(scene.qos(&channel).get("Discipline").cloned(), reported("LeastLaxity"));
    scene.set(&channel, &[discipline("MaximumUrgency")]);
    let published = scene.d.protocol.publish().unwrap();
    assert_eq!(published.routing.lanes()[0].discipline, Discipline::MaximumUrgency);
    // What an admin inherits is not its to change.
    assert_eq!(scene.errors(&admin, &[discipline("Shares")])[0].0, UNAVAILABLE_PROPERTY);
}

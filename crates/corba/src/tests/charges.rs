//! What clients make the protocol keep: charged to them, bounded, and given back.

use super::dialogue::{Body, Dialogue, Expect, STYLES, Thrown, client, write_types};

use crate::{ClientAnswer, Effect};
use accounts::{Account, Accounts, Ceilings, Refused, Resource, Spent, SpentBy};
use client::notify::ThreadPool;
use giop::cdr::Writer;
use giop::ior::Ior;
use giop::realtime::PriorityModel;
use giop::value::AnyValue;
use std::net::IpAddr;
use std::sync::Arc;

const MIB: u64 = 1 << 20;

/// A protocol with so many octets for its administration, of which one address may have three quarters.
struct Scene {
    d: Dialogue,
    accounts: Arc<Accounts>,
}

impl Scene {
    fn new(octets: u64) -> Self {
        Self::with(Ceilings::new(75).with(Resource::RetainedBytes, octets, 0))
    }

    fn with(ceilings: Ceilings) -> Self {
        let mut scene = Self { d: Dialogue::new(STYLES[5]), accounts: Accounts::new(ceilings) };
        scene.d.principal = scene.from(1);
        scene
    }

    /// A client at an address.
    fn from(&self, last: u8) -> Arc<Account> {
        self.accounts.account_of(IpAddr::from([192, 0, 2, last]))
    }

    fn retained(&self) -> u64 {
        self.accounts.used(Resource::RetainedBytes)
    }

    fn refused(&mut self) -> Vec<Refused> {
        std::iter::from_fn(|| self.d.protocol.objects.poll_refused()).collect()
    }

    fn channel(&mut self) -> Ior {
        let factory = self.d.bootstrap("NotificationService");
        self.try_channel(&factory).unwrap()
    }

    fn try_channel(&mut self, factory: &Ior) -> Result<Ior, Thrown> {
        let made = self.d.call(factory, "create_channel", |w| {
            w.u32(0);
            w.u32(0);
        });
        Ok(made?.read(|r| (Ior::read(r).unwrap(), r.i32().unwrap())).0)
    }

    fn proxy(&mut self, channel: &Ior) -> Result<Ior, Thrown> {
        let admin = self.d.object(channel, "_get_default_consumer_admin");
        let made = self.d.call(&admin, "obtain_notification_push_supplier", |w| w.u32(1));
        Ok(made?.read(|r| (Ior::read(r).unwrap(), r.i32().unwrap())).0)
    }

    fn bind(&mut self, name: &str, object: &Ior) -> Result<Body, Thrown> {
        let naming = self.d.bootstrap("NameService");
        self.d.quick(&naming, "bind", |w| {
            write_name(name, w);
            object.write(w);
        })
    }

    fn filter(&mut self, channel: &Ior) -> Ior {
        self.d.filter_of(channel)
    }
}

fn write_name(name: &str, w: &mut Writer<'_>) {
    w.length(1);
    w.string(name);
    w.string("");
}

/// A pool of so many threads, as a property.
pub(super) fn write_pool(threads: u32, w: &mut Writer<'_>) {
    w.u32(1);
    w.string("ThreadPool");
    AnyValue::from(ThreadPool::new(PriorityModel::ClientPropagated, 0, threads)).write(w).unwrap();
}

/// A client's object with a key of so many octets.
fn large(octets: usize) -> Ior {
    client(&"k".repeat(octets))
}

fn write_long_types(first: usize, count: usize, w: &mut Writer<'_>) {
    let names: Vec<String> = (first..first + count).map(|n| format!("{n:0>1000}")).collect();
    let types: Vec<(&str, &str)> = names.iter().map(|name| ("domain", name.as_str())).collect();
    write_types(&types, w);
}

/// 65,529 names bound to references of 60 KB took 3.8 GB, and nothing refused them.
#[test]
fn names_with_large_references_end_at_the_quota_of_their_client() {
    let mut scene = Scene::new(MIB);
    let before = scene.retained();
    let mut bound = 0;
    let thrown = loop {
        match scene.bind(&format!("n{bound}"), &large(60_000)) {
            Ok(_) => bound += 1,
            Err(thrown) => break thrown,
        }
    };
    assert_eq!((thrown.name(), bound), ("NO_RESOURCES", 11), "69 % of a MiB");
    let refused = scene.refused();
    assert_eq!((refused[0].spent.by, refused[0].ip), (SpentBy::Client, IpAddr::from([192, 0, 2, 1])));
    // Another address has a share of what is left.
    scene.d.principal = scene.from(2);
    scene.bind("other", &large(60_000)).unwrap();
    // Unbinding a name gives back what its maker was charged; one that is bound anew is charged by what it is now.
    let naming = scene.d.bootstrap("NameService");
    for number in 0..bound {
        let name = format!("n{number}");
        scene.d.quick(&naming, "unbind", |w| write_name(&name, w)).unwrap();
    }
    let (one, rebound) = (scene.retained(), large(10));
    scene
        .d
        .quick(&naming, "rebind", |w| {
            write_name("other", w);
            rebound.write(w);
        })
        .unwrap();
    assert!(scene.retained() < one / 10);
    scene.d.quick(&naming, "unbind", |w| write_name("other", w)).unwrap();
    assert_eq!(scene.retained(), before);
}

/// 2,000 proxies with 1,000 long event types each took 1.9 GB.
#[test]
fn long_lists_of_event_types_end_at_the_quota_of_their_client() {
    let mut scene = Scene::new(16 * MIB);
    let channel = scene.channel();
    let mut listed = 0;
    let (thrown, last) = loop {
        let proxy = scene.proxy(&channel).unwrap();
        let change = scene.d.quick(&proxy, "subscription_change", |w| {
            write_long_types(0, 1_000, w);
            w.u32(0);
        });
        match change {
            Ok(_) => listed += 1,
            Err(thrown) => break (thrown, proxy),
        }
    };
    assert_eq!((thrown.name(), listed), ("NO_RESOURCES", 10));
    // Nothing was changed by what was refused, and a short list has room.
    let small = scene.d.quick(&last, "subscription_change", |w| {
        write_long_types(0, 3, w);
        w.u32(0);
    });
    small.unwrap();
    assert_eq!(scene.refused().len(), 1);
}

/// Constraints took 1.4 GB: the limit of 64 MiB is one for each channel, and what is made of them takes more.
#[test]
fn constraints_end_at_the_quota_of_their_client() {
    let mut scene = Scene::new(4 * MIB);
    let channel = scene.channel();
    let before = scene.retained();
    let filter = scene.filter(&channel);
    let text = format!("$x == '{}'", "c".repeat(10_000));
    let mut installed = 0;
    let thrown = loop {
        let added = scene.d.quick(&filter, "add_constraints", |w| {
            w.u32(1);
            w.u32(0);
            w.string(&text);
        });
        match added {
            Ok(_) => installed += 1,
            Err(thrown) => break thrown,
        }
    };
    assert_eq!(thrown.name(), "NO_RESOURCES");
    assert!((5..100).contains(&installed), "{installed}");
    scene.d.get(&filter, "remove_all_constraints");
    assert!(scene.retained() < before + 10_000);
    scene.d.get(&filter, "destroy");
    assert_eq!(scene.retained(), before);
}

#[test]
fn proxies_and_channels_end_at_the_quota_of_their_client() {
    let ceilings = Ceilings::new(75).with(Resource::Proxies, 16, 0).with(Resource::Channels, 8, 0);
    let mut scene = Scene::with(ceilings);
    let channel = scene.channel();
    for _ in 0..11 {
        scene.proxy(&channel).unwrap();
    }
    assert_eq!(scene.proxy(&channel).unwrap_err().name(), "NO_RESOURCES");
    let factory = scene.d.bootstrap("NotificationService");
    for _ in 1..5 {
        scene.try_channel(&factory).unwrap();
    }
    assert_eq!(scene.try_channel(&factory).unwrap_err().name(), "NO_RESOURCES");
    let spent: Vec<Spent> = scene.refused().iter().map(|refused| refused.spent).collect();
    assert_eq!(spent, [Resource::Channels, Resource::Proxies].map(|resource| Spent { resource, by: SpentBy::Client }));
    // Others have a part, and what goes with its channel is given back.
    scene.d.principal = scene.from(2);
    scene.proxy(&channel).unwrap();
    scene.d.get(&channel, "destroy");
    assert_eq!(scene.accounts.used(Resource::Proxies), 0);
    assert_eq!(scene.accounts.used(Resource::Channels), 4);
}

/// Where all clients come from one address there may be no shares: then the limit itself refuses, and the refusal says so.
#[test]
fn without_quotas_channels_proxies_threads_and_memory_end_at_their_limits() {
    let ceilings = Ceilings::new(100).with(Resource::Proxies, 3, 0).with(Resource::Channels, 2, 0);
    let mut scene = Scene::with(ceilings.with(Resource::Threads, 4, 0).with(Resource::RetainedBytes, MIB, 0));
    let (channel, factory) = (scene.channel(), scene.d.bootstrap("NotificationService"));
    scene.try_channel(&factory).unwrap();
    let refused = |scene: &mut Scene, what: Result<Ior, Thrown>, resource| {
        assert_eq!(what.unwrap_err().name(), "NO_RESOURCES", "{resource:?}");
        let spent: Vec<Spent> = scene.refused().iter().map(|refused| refused.spent).collect();
        assert_eq!(spent, [Spent { resource, by: SpentBy::All }]);
    };
    let more = scene.try_channel(&factory);
    refused(&mut scene, more, Resource::Channels);
    (0..3).for_each(|_| _ = scene.proxy(&channel).unwrap());
    let more = scene.proxy(&channel);
    refused(&mut scene, more, Resource::Proxies);
    let more = scene.d.quick(&channel, "set_qos", |w| write_pool(5, w)).map(|_| factory.clone());
    refused(&mut scene, more, Resource::Threads);
    let more = scene.d.quick(&channel, "set_qos", |w| write_pool(4, w));
    more.unwrap();
    let naming = scene.d.bootstrap("NameService");
    let refusal = (0..40).find_map(|number| {
        let bound = scene.d.quick(&naming, "bind", |w| {
            write_name(&number.to_string(), w);
            large(60_000).write(w);
        });
        bound.err()
    });
    let more = refusal.map_or(Ok(factory), Err);
    refused(&mut scene, more, Resource::RetainedBytes);
}

/// Everything that can be kept, made and then released by destroying the channel, each thing, or its name.
#[test]
fn what_was_charged_is_given_back_when_everything_is_gone() {
    let mut scene = Scene::new(64 * MIB);
    let nothing = scene.retained();
    let channel = scene.channel();
    let admin = scene.d.made(&channel, "new_for_consumers", 0).0;
    for object in [admin.clone(), scene.d.object(&channel, "_get_default_consumer_admin")] {
        let change = |w: &mut Writer<'_>| {
            write_types(&[("a", "b"), ("c", "d")], w);
            w.u32(0);
        };
        scene.d.call(&object, "subscription_change", change).unwrap();
    }
    let proxies = [scene.proxy(&channel).unwrap(), scene.proxy(&channel).unwrap()];
    for proxy in &proxies {
        scene.d.give(proxy, "connect_structured_push_consumer", &client("c")).unwrap();
    }
    let filter = scene.filter(&channel);
    for object in [&admin, &proxies[0]] {
        scene.d.give(object, "add_filter", &filter).unwrap();
        scene.d.give(object, "add_filter", &client("remote")).unwrap();
    }
    let callback = scene.d.give(&filter, "attach_callback", &client("callback")).unwrap().read(|r| r.u32().unwrap());
    let all = scene.retained();
    // One by one, then all that is left with the channel.
    scene.d.call(&filter, "detach_callback", |w| w.u32(callback)).unwrap();
    scene.d.get(&proxies[0], "remove_all_filters");
    scene.d.get(&proxies[0], "disconnect_structured_push_supplier");
    scene.d.get(&admin, "destroy");
    assert!(scene.retained() < all);
    scene.d.get(&channel, "destroy");
    assert_eq!(scene.retained(), nothing);
    let naming = scene.d.bootstrap("NameService");
    let context = scene.d.call(&naming, "bind_new_context", |w| write_name("context", w)).unwrap();
    let context = context.read(|r| Ior::read(r).unwrap());
    assert!(scene.retained() > nothing);
    scene.d.get(&context, "destroy");
    scene.d.call(&naming, "unbind", |w| write_name("context", w)).unwrap();
    assert_eq!(scene.retained(), nothing);
    for resource in [Resource::Proxies, Resource::Channels] {
        assert_eq!(scene.accounts.used(resource), 0, "{}", resource.name());
    }
}

/// A consumer has as many matchers as lanes, and each has room for as many events as its text says.
#[test]
fn a_correlation_is_charged_for_the_events_that_may_wait_on_each_lane() {
    let mut scene = Scene::new(64 * MIB);
    let channel = scene.channel();
    let admin = scene.d.object(&channel, "_get_default_consumer_admin");
    let made = |scene: &mut Scene| scene.d.made(&admin, "obtain_notification_push_supplier", 2).0;
    let when = |text: &str, w: &mut Writer<'_>| {
        w.u32(1);
        w.string("When");
        AnyValue::from(text).write(w).unwrap();
    };
    let one = made(&mut scene);
    let before = scene.retained();
    scene.d.call(&one, "set_qos", |w| when("A and B keep 1000", w)).unwrap();
    let of_one = scene.retained() - before;
    assert!((300_000..310_000).contains(&of_one), "{of_one}");
    let four = made(&mut scene);
    let before = scene.retained();
    scene.d.call(&four, "set_qos", |w| when("A and B keep 1000", w)).unwrap();
    scene.d.quick(&four, "set_qos", |w| write_pool(4, w)).unwrap();
    let of_four = scene.retained() - before;
    assert_eq!(of_four, of_one + 3 * 300_000);
    // One that has the pool of its admin is charged for it when it is connected.
    let third = made(&mut scene);
    let before = scene.retained();
    scene.d.call(&third, "set_qos", |w| when("A and B keep 1000", w)).unwrap();
    scene.d.quick(&admin, "set_qos", |w| write_pool(2, w)).unwrap();
    scene.d.give(&third, "connect_sequence_push_consumer", &client("c")).unwrap();
    assert!(scene.retained() - before >= 600_000);
    // A longer text is larger when it is compiled; and none takes nothing.
    let long = format!("A[$x == '{}'] and B keep 1", "x".repeat(4_000));
    scene.d.call(&one, "set_qos", |w| when(&long, w)).unwrap();
    scene.d.call(&one, "set_qos", |w| when("", w)).unwrap();
    scene.d.call(&four, "set_qos", |w| when("", w)).unwrap();
    let without = scene.retained();
    scene.d.call(&one, "set_qos", |w| when(&long, w)).unwrap();
    assert!((64_000..66_000).contains(&(scene.retained() - without)));
}

/// A thing is charged to the client that makes it larger, from then on: no client can fill another one's share.
#[test]
fn a_thing_is_charged_to_the_client_that_made_it_heavier_last() {
    let mut scene = Scene::new(16 * MIB);
    let channel = scene.channel();
    let proxy = scene.proxy(&channel).unwrap();
    let (first, second) = (scene.d.principal.clone(), scene.from(2));
    let before = first.used(Resource::RetainedBytes);
    scene.d.principal = Arc::clone(&second);
    let change = |w: &mut Writer<'_>| {
        write_types(&[("a", "b"), ("c", "d")], w);
        w.u32(0);
    };
    scene.d.call(&proxy, "subscription_change", change).unwrap();
    assert!(first.used(Resource::RetainedBytes) < before);
    assert!(second.used(Resource::RetainedBytes) > 0);
    // Making it lighter does not change its owner.
    scene.d.principal = Arc::clone(&first);
    let change = |w: &mut Writer<'_>| {
        w.u32(0);
        write_types(&[("a", "b"), ("c", "d")], w);
    };
    let of_second = second.used(Resource::RetainedBytes);
    scene.d.call(&proxy, "subscription_change", change).unwrap();
    assert!((1..of_second).contains(&second.used(Resource::RetainedBytes)));
}

/// A pool's threads are a share of all pools' threads, and given back with what had it.
#[test]
fn threads_of_pools_are_charged_to_the_client_that_set_the_pool() {
    let mut scene = Scene::with(Ceilings::new(75).with(Resource::Threads, 8, 0));
    let channel = scene.channel();
    assert_eq!(scene.accounts.used(Resource::Threads), 0);
    scene.d.quick(&channel, "set_qos", |w| write_pool(3, w)).unwrap();
    assert_eq!(scene.accounts.used(Resource::Threads), 3);
    let other = scene.channel();
    scene.d.quick(&other, "set_qos", |w| write_pool(4, w)).raises("NO_RESOURCES");
    scene.d.get(&channel, "destroy");
    assert_eq!(scene.accounts.used(Resource::Threads), 0);
    scene.d.quick(&other, "set_qos", |w| write_pool(4, w)).unwrap();
}

/// One address could fill the registry for all.
#[test]
fn reconnection_callbacks_of_one_address_have_a_quota_and_those_that_cannot_be_reached_give_way_there() {
    let mut scene = Scene::with(Ceilings::new(75).with(Resource::Registrations, 40, 1));
    let factory = scene.d.bootstrap("NotifyEventChannelFactory");
    let register = |scene: &mut Scene, who: &str| {
        let made = scene.d.call(&factory, "register_callback", |w| client(who).write(w));
        made.map(|made| made.read(|r| r.i32().unwrap()))
    };
    let granted = (0..40).find(|number| register(&mut scene, &number.to_string()).is_err()).unwrap();
    let granted = u64::try_from(granted).unwrap();
    assert!((20..=30).contains(&granted), "{granted} of 40, of which an address may have three quarters");
    let spent = Spent { resource: Resource::Registrations, by: SpentBy::Client };
    assert_eq!(scene.refused().iter().map(|refused| refused.spent).collect::<Vec<_>>(), [spent]);
    // Others have room, and theirs are not asked whether they exist.
    let (first, other) = (Arc::clone(&scene.d.principal), scene.from(2));
    scene.d.principal = other;
    register(&mut scene, "other").unwrap();
    scene.d.principal = first;
    let asked: Vec<_> = std::iter::from_fn(|| scene.d.protocol.poll_effect())
        .filter_map(|effect| match effect {
            Effect::Ask { client_call, operation: "_non_existent", .. } => Some(client_call),
            _ => None,
        })
        .collect();
    assert_eq!(asked.len() as u64, granted);
    let mut answers = [ClientAnswer::Gone, ClientAnswer::Unreachable].into_iter();
    for client_call in asked {
        scene.d.protocol.handle_answer(client_call, answers.next().unwrap_or(ClientAnswer::Returned(Some(false))));
    }
    // In the place of the one that is gone, and of the one that cannot be reached.
    register(&mut scene, "in its place").unwrap();
    let last = register(&mut scene, "in the other's").unwrap();
    register(&mut scene, "one more").raises("NO_RESOURCES");
    let used = |scene: &Scene| scene.accounts.used(Resource::Registrations);
    let before = used(&scene);
    scene.d.call(&factory, "unregister_callback", |w| w.i32(last)).unwrap();
    assert_eq!(used(&scene), before - 1);
}

/// Consumers that never read, connected without end, blocked suppliers for a budget each.
#[test]
fn what_suppliers_wait_for_a_consumer_is_charged_to_the_address_it_was_connected_from() {
    let mut scene = Scene::new(MIB);
    let channel = scene.channel();
    for last in [1, 1, 2] {
        scene.d.principal = scene.from(last);
        let proxy = scene.proxy(&channel).unwrap();
        scene.d.give(&proxy, "connect_structured_push_consumer", &large(10)).unwrap();
    }
    let addresses = |scene: &Scene| {
        let channels = scene.d.protocol.objects.hierarchy().channels();
        channels.flat_map(|channel| channel.proxies().map(|proxy| proxy.client_address)).collect::<Vec<_>>()
    };
    let [Some(first), Some(second), Some(other)] = addresses(&scene)[..] else { panic!("{:?}", addresses(&scene)) };
    assert!(first == second && first != other);
    let routing = scene.d.protocol.publish().unwrap().routing;
    let routed =
        routing.channels().iter().flat_map(|channel| channel.consumers().map(|consumer| consumer.client_address));
    assert_eq!(routed.collect::<Vec<_>>(), [Some(first), Some(second), Some(other)]);
}

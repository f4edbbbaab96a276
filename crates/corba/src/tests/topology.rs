//! What is exported, restored in another protocol and exported again is the same, and clients' references lead where they led.

use super::dialogue::{Body, Dialogue, STYLES, Thrown, client, settings, somebody_else, write_types};
use super::proxies::new_channel;
use crate::{Declared, Effect, NotRestored, ProtocolSettings};
use accounts::{Accounts, Ceilings, Resource};
use client::notify::{ThreadPool, ThreadPoolLanes, Topic, Topics};
use core::time::Duration;
use engine::{Lane, LaneChange, NoFields, Reliability, SettingsPatch, Time};
use giop::cdr::Writer;
use giop::ior::Ior;
use giop::realtime::PriorityModel;
use giop::value::AnyValue;
use std::collections::BTreeMap;
use std::sync::Arc;
use topology::{Image, PoolProperty, Settings, Topology};

/// Clients that send random requests.
struct World {
    d: Dialogue,
    random: fastrand::Rng,
    channels: Vec<Ior>,
    /// Consumers' and suppliers'.
    admins: [Vec<Ior>; 2],
    /// Those that push and those that pull, of consumers and suppliers.
    proxies: Vec<(Ior, usize, bool, u32)>,
    filters: Vec<Ior>,
    mappings: Vec<Ior>,
    contexts: Vec<Ior>,
    made: u32,
    /// What has changed is put into it as it comes.
    image: Image,
    has_passing_clients: bool,
}

/// Of a service that has a store.
pub(super) fn with_store(nonce_seed: u64) -> ProtocolSettings {
    let delivery = SettingsPatch { connection_reliability: Some(Reliability::Persistent), ..SettingsPatch::default() };
    ProtocolSettings { has_store: true, delivery, ..settings(nonce_seed) }
}

impl World {
    /// Whether its clients have connections that do not outlive the process.
    fn has_passing_clients(seed: u64) -> bool {
        seed % 2 == 1
    }

    fn new(seed: u64) -> Self {
        let mut d = Dialogue::with(STYLES[5], with_store(0));
        d.principal = somebody_else();
        let channels = vec![d.bootstrap("DefaultEventChannel"), new_channel(&mut d)];
        let contexts = vec![d.bootstrap("NameService")];
        let random = fastrand::Rng::with_seed(seed);
        let mut world = Self {
            d,
            random,
            channels,
            admins: [Vec::new(), Vec::new()],
            proxies: Vec::new(),
            filters: Vec::new(),
            mappings: Vec::new(),
            contexts,
            made: 0,
            image: Image::new(),
            has_passing_clients: Self::has_passing_clients(seed),
        };
        world.image = world.d.protocol.objects.image();
        world.d.protocol.objects.note_changed_parts();
        world.new_admins();
        world.known_admins();
        world
    }

    /// Whatever comes of it: some of what they ask for is refused.
    fn ask(&mut self, object: &Ior, operation: &str, arguments: impl FnOnce(&mut Writer<'_>)) -> Result<Body, Thrown> {
        self.d.quick(object, operation, arguments)
    }

    fn ask_for(&mut self, object: &Ior, operation: &str, arguments: impl FnOnce(&mut Writer<'_>)) -> Option<Ior> {
        Ior::read(&mut self.ask(object, operation, arguments).ok()?.reader()).ok()
    }

    fn one(&mut self, of: &[Ior]) -> Option<Ior> {
        self.random.choice(of).cloned()
    }

    fn new_admins(&mut self) {
        let channels = self.channels.clone();
        let Some(channel) = self.one(&channels) else { return };
        let operator = self.random.u32(..2);
        let name = self.random.u32(..50).to_string();
        for (side, operation) in ["new_for_consumers", "new_for_suppliers"].iter().enumerate() {
            let made = self.ask_for(&channel, operation, |w| w.u32(operator));
            self.admins[side].extend(made);
            let made = self.ask_for(&channel, &format!("named_{operation}"), |w| {
                w.u32(operator);
                w.string(&name);
            });
            self.admins[side].extend(made);
        }
        if self.random.u32(..4) > 0 {
            return;
        }
        let factory = self.d.bootstrap("NotificationService");
        let made = self.ask_for(&factory, "create_named_channel", |w| {
            w.u64(0);
            w.string(&name);
        });
        self.channels.extend(made);
    }

    fn register(&mut self) {
        let factory = self.d.bootstrap("NotificationService");
        let callback = client(&self.random.u32(..40).to_string());
        let _ = self.ask(&factory, "register_callback", |w| callback.write(w));
        if self.random.u32(..3) == 0 {
            let id = self.random.i32(..60);
            let _ = self.ask(&factory, "unregister_callback", |w| w.i32(id));
        }
    }

    fn known_admins(&mut self) {
        let channels = self.channels.clone();
        let Some(channel) = self.one(&channels) else { return };
        let made = self.ask_for(&channel, "for_consumers", |_| {});
        self.admins[0].extend(made);
        let made = self.ask_for(&channel, "for_suppliers", |_| {});
        self.admins[1].extend(made);
    }

    fn new_proxy(&mut self) {
        let side = self.random.usize(..2);
        let Some(admin) = self.one(&self.admins[side].clone()) else { return };
        let (pull, form) = (self.random.bool(), self.random.u32(..3));
        let way = if pull { "pull" } else { "push" };
        let what = ["supplier", "consumer"][side];
        let name = self.random.u32(..3).eq(&0).then(|| self.random.u32(..30).to_string()).filter(|_| !pull);
        let named = if name.is_some() { "named_" } else { "" };
        let obtain = format!("obtain_{named}notification_{way}_{what}");
        let proxy = self.ask_for(&admin, &obtain, |w| {
            w.u32(form);
            name.iter().for_each(|name| w.string(name));
        });
        let Some(proxy) = proxy else { return };
        self.proxies.push((proxy, side, pull, form));
    }

    fn connect(&mut self) {
        let Some((proxy, side, pull, form)) = self.random.choice(&self.proxies).cloned() else { return };
        self.made += 1;
        let word = ["any", "structured", "sequence"][form as usize];
        let way = if pull { "pull" } else { "push" };
        let who = ["consumer", "supplier"][side];
        let is_called = (side == 0) != pull;
        let reference =
            if !is_called && self.random.bool() { Ior::nil() } else { client(&format!("client {}", self.made)) };
        let _ = self.ask(&proxy, &format!("connect_{word}_{way}_{who}"), |w| reference.write(w));
        if self.random.u32(..4) == 0 {
            let _ = self.ask(&proxy, "suspend_connection", |_| {});
        }
    }

    /// An admin or a proxy.
    fn object(&mut self) -> Option<Ior> {
        match self.random.u32(..3) {
            0 => self.one(&self.admins[0].clone()),
            1 => self.one(&self.admins[1].clone()),
            _ => self.random.choice(&self.proxies).map(|(proxy, ..)| proxy.clone()),
        }
    }

    fn set(&mut self) {
        let object = if self.random.u32(..3) == 0 { self.one(&self.channels.clone()) } else { self.object() };
        let Some(object) = object else { return };
        let number = self.random.u32(1..1_000);
        let longs = ["MaxEventsPerConsumer", "MaximumBatchSize", "PushWindow", "MaxQueueLength", "MaxConsumers"];
        let shorts = ["Priority", "OrderPolicy", "DiscardPolicy", "EventReliability", "ConnectionReliability"];
        let shorts = if self.has_passing_clients { &shorts[..] } else { &shorts[..4] };
        let times = ["Timeout", "PacingInterval", "ProbeInterval", "GiveUpAfter", "SupplierLinger", "ReplyTimeout"];
        let (long, short, time) = (
            *self.random.choice(&longs).unwrap(),
            *self.random.choice(shorts).unwrap(),
            *self.random.choice(&times).unwrap(),
        );
        let which = self.random.u32(..3);
        let small = self.random.i16(0..if self.has_passing_clients { 2 } else { 4 });
        let _ = self.ask(&object, "set_qos", |w| {
            w.u32(1);
            match which {
                0 => {
                    w.string(long);
                    w.u32(3);
                    w.u32(number);
                }
                1 => {
                    w.string(short);
                    w.u32(2);
                    w.i16(small);
                }
                _ => {
                    w.string(time);
                    w.u32(24);
                    w.u64(u64::from(number) * 10_000_000);
                }
            }
        });
    }

    /// What events may claim of their lanes, and threads for a channel, an admin or a proxy. They are refused while a client is
    /// connected there.
    fn set_lanes(&mut self) {
        let channels = self.channels.clone();
        // A share times a deadline is a second at most.
        let number = self.random.u32(1..900);
        if let Some(channel) = self.one(&channels) {
            let topic = |at: u32| Topic {
                deadline: at.is_multiple_of(2).then(|| Duration::from_micros(u64::from(number))),
                execution_time: Duration::from_micros(at.into()),
                criticality: 3 - i16::try_from(at).unwrap_or(0),
                ..Topic::new("d", &format!("T{at}"), number + at)
            };
            let topics: Vec<Topic> = (0..self.random.u32(..4)).map(topic).collect();
            let property = match self.random.u32(..3) {
                0 => ("Share", AnyValue::from(number)),
                1 => ("Deadline", AnyValue::from(u64::from(number) * 10)),
                _ => ("Topics", Topics(topics).into()),
            };
            self.set_value(&channel, &[property]);
        }
        let object = if self.random.u32(..3) == 0 { self.one(&channels) } else { self.object() };
        let Some(object) = object else { return };
        let model = [PriorityModel::ClientPropagated, PriorityModel::ServerDeclared][self.random.usize(..2)];
        let (priority, threads) = (self.random.i16(0..50), self.random.u32(1..3));
        let pool = if self.random.bool() {
            let max_buffered_requests = self.random.u32(..100);
            ("ThreadPool", ThreadPool { max_buffered_requests, ..ThreadPool::new(model, priority, threads) }.into())
        } else {
            let lanes = [(priority, 1), (priority + 10, threads)];
            ("ThreadPoolLanes", ThreadPoolLanes::new(model, priority, &lanes).into())
        };
        let discipline = *self.random.choice(&["Shares", "EarliestDeadline", "LeastLaxity", "MaximumUrgency"]).unwrap();
        self.set_value(&object, &[pool]);
        self.set_value(&object, &[("Discipline", discipline.into())]);
        // Lanes that are used no more end, and their numbers are used again.
        if self.d.protocol.publish().is_some() {
            while let Some(change) = self.d.protocol.poll_lane() {
                if let LaneChange::Ended(lane) = change {
                    self.d.protocol.lane_gone(lane);
                }
            }
        }
    }

    fn set_value(&mut self, object: &Ior, properties: &[(&str, AnyValue)]) {
        let _ = self.ask(object, "set_qos", |w| {
            w.length(properties.len());
            for (name, value) in properties {
                w.string(name);
                value.write(w).unwrap();
            }
        });
    }

    fn subscribe(&mut self) {
        let Some(object) = self.object() else { return };
        let names = ["A", "B", "C*", "%ALL", "*"];
        let (one, other) = (*self.random.choice(&names).unwrap(), *self.random.choice(&names).unwrap());
        for operation in ["subscription_change", "offer_change"] {
            let _ = self.ask(&object, operation, |w| {
                write_types(&[("d", one)], w);
                write_types(&[("d", other)], w);
            });
        }
        if self.random.u32(..4) == 0 {
            let mode = self.random.u32(..4);
            for operation in ["obtain_offered_types", "obtain_subscription_types"] {
                let _ = self.ask(&object, operation, |w| w.u32(mode));
            }
        }
    }

    fn new_filter(&mut self) {
        let Some(channel) = self.one(&self.channels.clone()) else { return };
        let Some(factory) = self.ask_for(&channel, "_get_default_filter_factory", |_| {}) else { return };
        if self.random.bool() {
            let made = self.ask_for(&factory, "create_filter", |w| w.string("EXTENDED_TCL"));
            self.filters.extend(made);
        } else {
            let number = self.random.i16(0..100);
            let made = self.ask_for(&factory, "create_mapping_filter", |w| {
                w.string("ETCL");
                w.u32(2);
                w.i16(number);
            });
            self.mappings.extend(made);
        }
    }

    fn constrain(&mut self) {
        let number = self.random.i16(0..100);
        let text = format!("$value > {number}");
        if let Some(filter) = self.one(&self.filters.clone()) {
            let _ = self.ask(&filter, "add_constraints", |w| {
                w.u32(1);
                write_types(&[("d", "A")], w);
                w.string(&text);
            });
            if self.random.u32(..5) == 0 {
                let _ = self.ask(&filter, "remove_all_constraints", |_| {});
            }
            if self.random.u32(..3) == 0 {
                let callback = client(&format!("callback {number}"));
                let _ = self.ask(&filter, "attach_callback", |w| callback.write(w));
            }
        }
        if let Some(filter) = self.one(&self.mappings.clone()) {
            let _ = self.ask(&filter, "add_mapping_constraints", |w| {
                w.u32(1);
                write_types(&[], w);
                w.string(&text);
                w.u32(2);
                w.i16(number);
            });
        }
    }

    fn attach(&mut self) {
        let Some(object) = self.object() else { return };
        if let Some(filter) = self.one(&self.filters.clone()) {
            let elsewhere = client("a filter of another server");
            let filter = if self.random.u32(..4) == 0 { elsewhere } else { filter };
            let _ = self.ask(&object, "add_filter", |w| filter.write(w));
            if self.random.u32(..3) == 0 {
                let id = self.random.i32(0..3);
                let _ = self.ask(&object, "remove_filter", |w| w.i32(id));
            }
        }
        if let Some(filter) = self.one(&self.mappings.clone()) {
            let operation = *self.random.choice(&["_set_priority_filter", "_set_lifetime_filter"]).unwrap();
            let _ = self.ask(&object, operation, |w| filter.write(w));
        }
    }

    fn name(&mut self) {
        let Some(context) = self.one(&self.contexts.clone()) else { return };
        let (name, object) = (self.random.u32(..20).to_string(), client("named"));
        let bound = |w: &mut Writer<'_>| {
            w.u32(1);
            w.string(&name);
            w.string("kind");
        };
        match self.random.u32(..5) {
            0 => {
                let made = self.ask_for(&context, "bind_new_context", bound);
                self.contexts.extend(made);
            }
            1 => {
                let made = self.ask_for(&context, "new_context", |_| {});
                self.contexts.extend(made);
            }
            2 => _ = self.ask(&context, "unbind", bound),
            _ => {
                let _ = self.ask(&context, "rebind", |w| {
                    bound(w);
                    object.write(w);
                });
            }
        }
    }

    fn destroy(&mut self) {
        let gone = match self.random.u32(..8) {
            0 => {
                self.channels.extend(Some(new_channel(&mut self.d)));
                // The default channel comes back with a restart.
                self.one(&self.channels.clone()[1..])
            }
            1 | 2 => self.one(&self.admins[0].clone()),
            3 => self.one(&self.filters.clone()),
            _ => {
                let Some((proxy, side, pull, form)) = self.random.choice(&self.proxies).cloned() else { return };
                let word = ["", "structured_", "sequence_"][form as usize];
                let way = if pull { "pull" } else { "push" };
                let what = ["supplier", "consumer"][side];
                let _ = self.ask(&proxy, &format!("disconnect_{word}{way}_{what}"), |_| {});
                return;
            }
        };
        if let Some(gone) = gone {
            let _ = self.ask(&gone, "destroy", |_| {});
        }
    }

    fn step(&mut self) {
        match self.random.u32(..23) {
            20..=22 => self.set_lanes(),
            0 => {
                self.new_admins();
                self.known_admins();
                self.register();
            }
            1..=4 => self.new_proxy(),
            5..=7 => self.connect(),
            8..=10 => self.set(),
            11 | 12 => self.subscribe(),
            13 => self.new_filter(),
            14 | 15 => self.constrain(),
            16 | 17 => self.attach(),
            18 => self.name(),
            _ => self.destroy(),
        }
        self.d.effects();
        self.keep();
    }

    /// Keeps what has changed.
    fn keep(&mut self) {
        while let Some((key, value)) = self.d.protocol.objects.poll_changed_part() {
            match value {
                Some(value) => self.image.insert(key, value),
                None => self.image.remove(&key),
            };
        }
    }

    /// Every reference that a client was ever given.
    fn references(&self) -> Vec<Ior> {
        let [consumers, suppliers] = &self.admins;
        let lists = [&self.channels, consumers, suppliers, &self.filters, &self.mappings, &self.contexts];
        let proxies = self.proxies.iter().map(|(proxy, ..)| proxy.clone());
        lists.into_iter().flatten().cloned().chain(proxies).collect()
    }
}

/// What was kept as an image.
fn topology_of(image: &Image) -> Topology {
    Topology::of_image(image).unwrap().topology.unwrap()
}

/// What a client finds out about an object: its interface, and what it says of itself.
fn face(d: &mut Dialogue, object: &Ior) -> Vec<Option<String>> {
    let operations =
        ["_non_existent", "_repository_id", "get_qos", "get_all_filters", "get_all_constraints", "_get_MyID"];
    let mut said = |operation: &str| d.quick(object, operation, |_| {}).ok().map(|body| format!("{body:?}"));
    operations.iter().map(|operation| said(operation)).collect()
}

/// Counts what is in a topology, so that a test can tell that it was about something.
fn count(topology: &Topology, seen: &mut BTreeMap<&str, usize>) {
    let mut add = |what, count: usize| *seen.entry(what).or_default() += count;
    let pooled =
        |settings: &Settings, property| usize::from(settings.pool.as_ref().is_some_and(|p| p.property == property));
    for channel in &topology.channels {
        let (admins, proxies) = (&channel.admins, &channel.proxies);
        let selections = || {
            let of_proxies = proxies.iter().map(|proxy| &proxy.selection);
            admins.iter().map(|admin| &admin.selection).chain(of_proxies)
        };
        add("proxies", proxies.len());
        add("connected", proxies.iter().filter(|proxy| proxy.client.is_some()).count());
        add("filters", channel.filters.len());
        add("attached", selections().map(|selection| selection.attached.len()).sum());
        add("priority filters", selections().filter(|selection| selection.priority_filter.is_some()).count());
        add("lifetime filters", selections().filter(|selection| selection.lifetime_filter.is_some()).count());
        add("topics", channel.topics.by_type.len());
        add("named channels", usize::from(channel.name.is_some()));
        add("named admins", admins.iter().filter(|admin| admin.name.is_some()).count());
        add("named proxies", proxies.iter().filter(|proxy| proxy.name.is_some()).count());
        add("shares", usize::from(channel.topics.rest.share != 1_000));
        add("deadlines", usize::from(channel.topics.rest.deadline_ns.is_some()));
        for (what, property) in [("pools", PoolProperty::ThreadPool), ("lanes", PoolProperty::ThreadPoolLanes)] {
            let of_admins = admins.iter().map(|admin| pooled(&admin.settings, property)).sum::<usize>();
            let of_proxies = proxies.iter().map(|proxy| pooled(&proxy.settings, property)).sum::<usize>();
            add(what, pooled(&channel.settings, property) + of_admins + of_proxies);
        }
        let of_channel = channel.settings.pool.as_ref();
        add("disciplines", usize::from(of_channel.is_some_and(|pool| pool.discipline != engine::Discipline::Shares)));
        add("pools of channels", usize::from(of_channel.is_some()));
    }
    add("contexts", topology.naming.contexts.len());
    add("names", topology.naming.contexts.iter().map(|context| context.bindings.len()).sum());
}

#[test]
fn what_was_there_is_there_again_under_the_same_references() {
    let (mut seen, mut passing, mut registrations) = (BTreeMap::new(), 0, 0);
    for seed in 0..60 {
        println!("seed {seed}");
        let mut world = World::new(seed);
        for step in 0..300 {
            world.step();
            if step % 20 == 0 {
                let (found, stored) = (topology_of(&world.image), topology_of(&world.d.protocol.objects.image()));
                assert_eq!(topology::differences(&stored, &found), Vec::<String>::new());
            }
        }
        let exported = world.d.protocol.objects.topology();
        let stored = topology_of(&world.image);
        assert_eq!(stored, topology_of(&world.d.protocol.objects.image()), "what was kept, change by change");
        let proxies =
            |topology: &Topology| topology.channels.iter().map(|channel| channel.proxies.len()).sum::<usize>();
        match World::has_passing_clients(seed) {
            true => passing += proxies(&exported) - proxies(&stored),
            false => assert_eq!(stored, exported),
        }
        let text = exported.to_json();
        let read = Topology::from_json(&text).unwrap();
        assert_eq!(read, exported);
        count(&exported, &mut seen);
        registrations += exported.registrations.len();
        // Another service, with other random numbers.
        let mut after = Dialogue::with(STYLES[5], with_store(1_000 + seed));
        after.protocol.guard.set_access(&mut after.protocol.objects, None, &Accounts::new(Ceilings::new(100)));
        after.protocol.restore(&read).unwrap();
        let again = after.protocol.objects.topology();
        assert_eq!(topology::differences(&exported, &again), Vec::<String>::new());
        assert_eq!(again.to_json(), text);
        for reference in world.references() {
            let (before, now) = (face(&mut world.d, &reference), face(&mut after, &reference));
            assert_eq!(before, now, "{:?}", String::from_utf8_lossy(&reference.iiop().unwrap().key));
        }
        // What is kept is charged, as it was to its makers.
        let mut charged = Dialogue::with(STYLES[5], with_store(2_000 + seed));
        let account = somebody_else();
        charged.protocol.restore_image(&world.image, &account, |_| {}).unwrap();
        let makers = Arc::clone(&world.d.principal);
        if !World::has_passing_clients(seed) {
            for resource in [Resource::Channels, Resource::Proxies, Resource::EventTypes, Resource::Threads] {
                assert_eq!(account.used(resource), makers.used(resource), "{resource:?}");
            }
            // But for what is there from the start, the default admins of each channel, and references of other servers' filters.
            let default_admins = 2 * (1 << 10) * exported.channels.len() as u64;
            let [octets, of_makers] = [&account, &makers].map(|account| account.used(Resource::RetainedBytes));
            assert!(octets.abs_diff(of_makers) < (32 << 10) + default_admins, "{octets}, {of_makers}");
        }
        // What is made next has the number that it would have had, and not another one's.
        for d in [&mut world.d, &mut after] {
            d.effects();
            new_channel(d);
        }
        let ids = |topology: Topology| topology.channels.iter().map(|channel| channel.id).collect::<Vec<_>>();
        assert_eq!(ids(world.d.protocol.objects.topology()), ids(after.protocol.objects.topology()));
        assert_eq!(after.protocol.restore(&read), Err(NotRestored::InUse));
    }
    assert!(registrations > 60, "{registrations}");
    assert!(passing > 50, "{passing} proxies do not outlive the process");
    assert_eq!(seen.len(), 18, "{seen:?}");
    assert!(seen.values().all(|count| *count >= 50), "{seen:?}");
}

/// Programs that connect anew when their service has been restarted, as ALMA's do, would get each event twice.
#[test]
fn a_client_that_connects_anew_after_a_restart_is_not_there_twice() {
    let mut d = Dialogue::new(STYLES[5]);
    let channel = d.bootstrap("DefaultEventChannel");
    let connect = |d: &mut Dialogue, who: &str| {
        let admin = d.quick(&channel, "_get_default_consumer_admin", |_| {}).unwrap();
        let admin = Ior::read(&mut admin.reader()).unwrap();
        let made = d.quick(&admin, "obtain_notification_push_supplier", |w| w.u32(1)).unwrap();
        let proxy = Ior::read(&mut made.reader()).unwrap();
        d.quick(&proxy, "connect_structured_push_consumer", |w| client(who).write(w)).unwrap();
    };
    let connected = |d: &Dialogue| -> Vec<u32> {
        d.protocol.objects.topology().channels[0]
            .proxies
            .iter()
            .filter(|proxy| proxy.client.is_some())
            .map(|p| p.id)
            .collect()
    };
    for who in ["one", "other", "one"] {
        connect(&mut d, who);
    }
    // While the service is up, it may be connected as often as it likes.
    assert_eq!(connected(&d), [0, 1, 2]);
    d.effects();
    let mut after = Dialogue::with(STYLES[5], settings(7));
    after.protocol.restore(&d.protocol.objects.topology()).unwrap();
    assert_eq!(connected(&after), [0, 1, 2]);
    after.effects();
    connect(&mut after, "other");
    assert_eq!(connected(&after), [0, 2, 3]);
    let is_notification =
        |effect: &Effect| matches!(effect, Effect::Call { operation, .. } if operation.contains("disconnect"));
    assert!(!after.effects().iter().any(is_notification), "it is not notified of a disconnection");
    connect(&mut after, "another client");
    connect(&mut after, "other");
    assert_eq!(connected(&after), [0, 2, 3, 4, 5]);
    // One that was connected twice connects twice.
    connect(&mut after, "one");
    assert_eq!(connected(&after), [0, 3, 4, 5, 6]);
    connect(&mut after, "one");
    assert_eq!(connected(&after), [3, 4, 5, 6, 7]);
    connect(&mut after, "one");
    assert_eq!(connected(&after), [3, 4, 5, 6, 7, 8]);
}

/// A consumer that subscribed once more, weeks after a restart, lost its first subscription without notice.
#[test]
fn a_client_that_connects_once_more_long_after_a_restart_keeps_what_it_has() {
    for (hours, left) in [(0, 1), (2, 2)] {
        let mut d = Dialogue::new(STYLES[5]);
        let channel = d.bootstrap("DefaultEventChannel");
        let admin = d.object(&channel, "for_consumers");
        let connect = |d: &mut Dialogue| {
            let proxy = d.made(&admin, "obtain_notification_push_supplier", 1).0;
            d.quick(&proxy, "connect_structured_push_consumer", |w| client("one").write(w)).unwrap();
        };
        connect(&mut d);
        let mut after = Dialogue::with(STYLES[5], settings(7));
        after.protocol.restore(&d.protocol.objects.topology()).unwrap();
        after.protocol.handle_time(Time::default() + Duration::from_secs(hours * 3_600));
        connect(&mut after);
        assert_eq!(after.protocol.objects.topology().channels[0].proxies.len(), left);
    }
}

/// A supplier that goes on by its proxy has not connected anew to another one.
#[test]
fn a_supplier_that_uses_its_proxy_after_a_restart_keeps_it() {
    let mut d = Dialogue::new(STYLES[5]);
    let channel = d.bootstrap("DefaultEventChannel");
    let admin = d.object(&channel, "for_suppliers");
    let connect = |d: &mut Dialogue| {
        let proxy = d.made(&admin, "obtain_notification_push_consumer", 1).0;
        d.quick(&proxy, "connect_structured_push_supplier", |w| client("one").write(w)).unwrap();
        proxy
    };
    let first = connect(&mut d);
    let mut after = Dialogue::with(STYLES[5], settings(7));
    after.protocol.restore(&d.protocol.objects.topology()).unwrap();
    let (mut lane, now) = (Lane::new(Time(0)), Time(5_000_000_000));
    lane.handle_snapshot(after.protocol.publish().unwrap().routing, now);
    let pending_event = lane.begin_event();
    lane.handle_event(super::idle::proxy_key(&first), pending_event, &NoFields, now);
    after.protocol.handle_time(now);
    connect(&mut after);
    assert_eq!(after.protocol.objects.topology().channels[0].proxies.len(), 2);
}

/// One channel supplied another one that had lost its proxy when the service was killed: it would never have started again.
#[test]
fn a_client_that_cannot_be_connected_again_keeps_nothing_else_away() {
    let mut d = Dialogue::new(STYLES[5]);
    let (from, to) = (d.bootstrap("DefaultEventChannel"), new_channel(&mut d));
    let proxy_of = |d: &mut Dialogue, channel: &Ior, admin: &str, obtain: &str| {
        let admin = d.quick(channel, admin, |_| {}).unwrap();
        let admin = Ior::read(&mut admin.reader()).unwrap();
        let made = d.quick(&admin, obtain, |w| w.u32(1)).unwrap();
        Ior::read(&mut made.reader()).unwrap()
    };
    let supplier = proxy_of(&mut d, &from, "_get_default_consumer_admin", "obtain_notification_push_supplier");
    let consumer = proxy_of(&mut d, &to, "_get_default_supplier_admin", "obtain_notification_push_consumer");
    d.quick(&supplier, "connect_structured_push_consumer", |w| consumer.write(w)).unwrap();
    let linked = d.protocol.objects.topology();
    d.quick(&consumer, "disconnect_structured_push_consumer", |_| {}).unwrap();
    for (topology, is_connected) in [(linked, true), (d.protocol.objects.topology(), false)] {
        let mut after = Dialogue::with(STYLES[5], settings(3));
        after.protocol.restore(&topology).unwrap();
        assert_eq!(after.protocol.objects.topology().channels[0].proxies[0].client.is_some(), is_connected);
    }
}

#[test]
fn declared_channels_are_made_once_and_found_by_their_names() {
    let mut d = Dialogue::new(STYLES[5]);
    let text = |text: &str| Declared::Text(text.to_owned());
    let mut properties = vec![
        ("FullOutbox".to_owned(), text("Discard")),
        ("Timeout".to_owned(), text("2 s")),
        ("MaxConsumers".to_owned(), Declared::Number(3)),
        ("RejectNewEvents".to_owned(), Declared::Flag(true)),
        ("DiscardPolicy".to_owned(), text("LifoOrder")),
        ("OrderPolicy".to_owned(), Declared::Number(2)),
    ];
    let made = d.protocol.declare_channel("Plant", &properties).unwrap();
    let of = |d: &Dialogue| {
        let topology = d.protocol.objects.topology();
        topology.channels.into_iter().find(|channel| channel.id == made.0).unwrap()
    };
    let channel = of(&d);
    assert_eq!(channel.settings.full_outbox, Some(engine::FullOutbox::Discard));
    assert_eq!((channel.settings.timeout_ns, channel.limits.max_consumers), (Some(2_000_000_000), Some(3)));
    assert!(channel.limits.reject_new_events);
    assert_eq!(channel.settings.discard_policy, Some(engine::DiscardPolicy::Lifo));
    assert_eq!(channel.settings.order_policy, Some(engine::OrderPolicy::Priority));
    let naming = d.bootstrap("NameService");
    let found = d.call(&naming, "resolve", |w| {
        w.u32(1);
        w.string("Plant");
        w.string("");
    });
    let found = found.unwrap().read(|r| Ior::read(r).unwrap());
    d.call(&found, "get_qos", |_| {}).unwrap();
    // A service that begins with what there was does not make another one, and sets it to what is declared now.
    let mut after = Dialogue::with(STYLES[5], settings(9));
    after.protocol.restore(&d.protocol.objects.topology()).unwrap();
    properties[2].1 = Declared::Number(4);
    assert_eq!(after.protocol.declare_channel("Plant", &properties), Ok(made));
    assert_eq!((of(&after).limits.max_consumers, after.protocol.objects.topology().channels.len()), (Some(4), 2));
    for (name, value, why) in [
        ("FullOutbox", text("Never"), "one of Hold, Discard, Reject, Disconnect"),
        ("MaxConsumers", Declared::Number(-1), "from 0 to"),
        ("EventReliability", text("Persistent"), "needs a store"),
        ("EventReliability", text("Durable"), "BestEffort (0), Persistent (1)"),
        ("OrderPolicy", text("Priority"), "one of AnyOrder (0), FifoOrder (1), PriorityOrder (2), DeadlineOrder (3)"),
        ("Colour", text("red"), "no property Colour"),
        ("StartTime", Declared::Number(1), "no property of channels"),
        ("ThreadPoolLanes", Declared::Lanes(vec![(10, 1), (10, 1)]), "different priorities"),
        ("ThreadPoolLanes", Declared::Lanes(vec![(10, 0)]), "1 static thread"),
        ("ThreadPoolLanes", Declared::Lanes(vec![(-1, 1)]), "from 0 to 32767"),
        ("ThreadPoolLanes", Declared::Lanes(vec![(10, 65)]), "other properties"),
    ] {
        let refused = d.protocol.declare_channel("Other", &[(name.to_owned(), value)]).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
    assert!(d.protocol.declare_channel("NotificationService", &[]).is_err(), "that name is the factory's");
    let mut stored = Dialogue::with(STYLES[5], with_store(3));
    let reliability = [("EventReliability".to_owned(), text("Persistent"))];
    stored.protocol.declare_channel("Plant", &reliability).unwrap();
    let topology = stored.protocol.objects.topology();
    let plant = topology.channels.iter().find(|channel| channel.settings.event_reliability.is_some());
    assert_eq!(plant.unwrap().settings.event_reliability, Some(Reliability::Persistent));
}

//! What is exported, restored in another door and exported again is the same, and clients' references lead where they led.

use super::dialogue::{Body, Dialogue, STYLES, Thrown, client, settings, somebody_else, write_types};
use super::proxies::new_channel;
use crate::{Declared, Effect, NotRestored};
use accounts::Resource;
use giop::cdr::Writer;
use giop::ior::Ior;
use std::sync::Arc;
use topology::{Image, Topology};

/// Clients who do whatever comes to mind.
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
}

impl World {
    fn new(seed: u64) -> Self {
        let mut d = Dialogue::new(STYLES[5]);
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
        };
        world.image = world.d.door.topology().image();
        world.d.door.note_changed_parts();
        world.new_admins();
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
        for (side, operation) in ["new_for_consumers", "new_for_suppliers"].iter().enumerate() {
            let made = self.ask_for(&channel, operation, |w| w.u32(operator));
            self.admins[side].extend(made);
        }
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
        let obtain = format!("obtain_notification_{way}_{what}");
        let Some(proxy) = self.ask_for(&admin, &obtain, |w| w.u32(form)) else { return };
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
        let shorts = ["Priority", "OrderPolicy", "DiscardPolicy"];
        let times = ["Timeout", "PacingInterval", "ProbeInterval", "GiveUpAfter", "SupplierLinger", "ReplyTimeout"];
        let (long, short, time) = (
            *self.random.choice(&longs).unwrap(),
            *self.random.choice(&shorts).unwrap(),
            *self.random.choice(&times).unwrap(),
        );
        let which = self.random.u32(..3);
        let small = self.random.i16(0..4);
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
                self.one(&self.channels.clone())
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
        match self.random.u32(..20) {
            0 => self.new_admins(),
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
        while let Some((key, value)) = self.d.door.poll_changed_part() {
            match value {
                Some(value) => self.image.insert(key, value),
                None => self.image.remove(&key),
            };
        }
    }

    /// Every reference that somebody was ever given.
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

#[test]
fn what_was_there_is_there_again_under_the_same_references() {
    let mut seen = [0; 5];
    for seed in 0..60 {
        println!("seed {seed}");
        let mut world = World::new(seed);
        for step in 0..300 {
            world.step();
            if step % 20 == 0 {
                let found = topology_of(&world.image);
                assert_eq!(topology::differences(&world.d.door.topology(), &found), Vec::<String>::new());
            }
        }
        let exported = world.d.door.topology();
        assert_eq!(topology_of(&world.image), exported, "what was kept, change by change");
        let text = exported.to_json();
        let read = Topology::from_json(&text).unwrap();
        assert_eq!(read, exported);
        for channel in &exported.channels {
            let attached = channel.proxies.iter().map(|proxy| proxy.selection.attached.len()).sum::<usize>();
            let connected = channel.proxies.iter().filter(|proxy| proxy.client.is_some()).count();
            let lifetimes = channel.admins.iter().filter(|admin| admin.selection.lifetime_filter.is_some()).count();
            let of = [channel.proxies.len(), connected, channel.filters.len(), attached, lifetimes];
            seen.iter_mut().zip(of).for_each(|(all, some)| *all += some);
        }
        // Another service, with other random numbers.
        let mut after = Dialogue::with(STYLES[5], settings(1_000 + seed));
        after.door.restore(&read).unwrap();
        let again = after.door.topology();
        assert_eq!(topology::differences(&exported, &again), Vec::<String>::new());
        assert_eq!(again.to_json(), text);
        for reference in world.references() {
            let (before, now) = (face(&mut world.d, &reference), face(&mut after, &reference));
            assert_eq!(before, now, "{:?}", String::from_utf8_lossy(&reference.iiop().unwrap().key));
        }
        // What is kept is charged, as it was to those who made it.
        let mut charged = Dialogue::with(STYLES[5], settings(2_000 + seed));
        let account = somebody_else();
        charged.door.restore_image(&world.image, &account).unwrap();
        let makers = Arc::clone(&world.d.principal);
        for resource in [Resource::Channels, Resource::Proxies, Resource::EventTypes] {
            assert_eq!(account.used(resource), makers.used(resource), "{resource:?}");
        }
        // But for what is there from the start, and references of other servers' filters.
        let [octets, of_makers] = [&account, &makers].map(|account| account.used(Resource::KeptBytes));
        assert!(octets.abs_diff(of_makers) < 32 << 10, "{octets}, {of_makers}");
        // What is made next has the number that it would have had, and nobody else's.
        for d in [&mut world.d, &mut after] {
            d.effects();
            new_channel(d);
        }
        let ids = |topology: Topology| topology.channels.iter().map(|channel| channel.id).collect::<Vec<_>>();
        assert_eq!(ids(world.d.door.topology()), ids(after.door.topology()));
        assert_eq!(after.door.restore(&read), Err(NotRestored::InUse));
    }
    assert!(seen.iter().all(|count| *count >= 60), "proxies, connected, filters, attached, lifetimes: {seen:?}");
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
        d.door.topology().channels[0].proxies.iter().filter(|proxy| proxy.client.is_some()).map(|p| p.id).collect()
    };
    for who in ["one", "other", "one"] {
        connect(&mut d, who);
    }
    // While the service is up, it may be connected as often as it likes.
    assert_eq!(connected(&d), [0, 1, 2]);
    d.effects();
    let mut after = Dialogue::with(STYLES[5], settings(7));
    after.door.restore(&d.door.topology()).unwrap();
    assert_eq!(connected(&after), [0, 1, 2]);
    after.effects();
    connect(&mut after, "other");
    assert_eq!(connected(&after), [0, 2, 3]);
    let is_told =
        |effect: &Effect| matches!(effect, Effect::Call { operation, .. } if operation.contains("disconnect"));
    assert!(!after.effects().iter().any(is_told), "it is not told that it is disconnected");
    connect(&mut after, "somebody else");
    connect(&mut after, "other");
    assert_eq!(connected(&after), [0, 2, 3, 4, 5]);
}

/// One channel supplied another one, whose proxy was gone when the service was killed: it would never have started again.
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
    let linked = d.door.topology();
    d.quick(&consumer, "disconnect_structured_push_consumer", |_| {}).unwrap();
    for (topology, is_connected) in [(linked, true), (d.door.topology(), false)] {
        let mut after = Dialogue::with(STYLES[5], settings(3));
        after.door.restore(&topology).unwrap();
        assert_eq!(after.door.topology().channels[0].proxies[0].client.is_some(), is_connected);
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
    ];
    let made = d.door.declare_channel("Plant", &properties).unwrap();
    let of = |d: &Dialogue| {
        let topology = d.door.topology();
        topology.channels.into_iter().find(|channel| channel.id == made.0).unwrap()
    };
    let channel = of(&d);
    assert_eq!(channel.settings.full_outbox, Some(topology::FullOutbox::Discard));
    assert_eq!((channel.settings.timeout_ns, channel.limits.max_consumers), (Some(2_000_000_000), Some(3)));
    assert!(channel.limits.reject_new_events);
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
    after.door.restore(&d.door.topology()).unwrap();
    properties[2].1 = Declared::Number(4);
    assert_eq!(after.door.declare_channel("Plant", &properties), Ok(made));
    assert_eq!((of(&after).limits.max_consumers, after.door.topology().channels.len()), (Some(4), 2));
    for (name, value, why) in [
        ("FullOutbox", text("Never"), "one of Hold, Discard, Reject, Disconnect"),
        ("MaxConsumers", Declared::Number(-1), "from 0 to"),
        ("Colour", text("red"), "no property Colour"),
        ("StartTime", Declared::Number(1), "no property of channels"),
        ("ThreadPoolLanes", Declared::Lanes(vec![(10, 1), (10, 1)]), "different priorities"),
        ("ThreadPoolLanes", Declared::Lanes(vec![(10, 0)]), "1 static thread"),
        ("ThreadPoolLanes", Declared::Lanes(vec![(-1, 1)]), "from 0 to 32767"),
        ("ThreadPoolLanes", Declared::Lanes(vec![(10, 65)]), "other properties"),
    ] {
        let refused = d.door.declare_channel("Other", &[(name.to_owned(), value)]).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
    assert!(d.door.declare_channel("NotificationService", &[]).is_err(), "that name is the factory's");
}

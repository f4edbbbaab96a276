//! What a service begins with that has a store: that, what is configured, and what every service has.

use super::dialogue::{Dialogue, STYLES, Thrown, client, somebody_else};
use super::proxies::new_channel;
use super::topology::with_store;
use crate::keys::ObjectKey;
use crate::{Declared, Protocol, ProtocolSettings};
use accounts::{Accounts, Ceilings, Resource};
use client::notify::ThreadPool;
use engine::{ChannelId, ChannelLimits, HierarchyLimits, LaneChange, SettingsPatch};
use giop::cdr::Writer;
use giop::ior::Ior;
use giop::realtime::PriorityModel;
use giop::value::AnyValue;
use std::net::IpAddr;
use std::time::Duration;
use topology::Topology;

fn proxy_of(d: &mut Dialogue, channel: &Ior, admin: &str, obtain: &str) -> Ior {
    let admin = d.quick(channel, admin, |_| {}).unwrap();
    let admin = Ior::read(&mut admin.reader()).unwrap();
    let made = d.quick(&admin, obtain, |w| w.u32(1)).unwrap();
    Ior::read(&mut made.reader()).unwrap()
}

/// A service that begins anew with what another one has, and with what is configured.
fn restarted(d: &mut Dialogue, settings: ProtocolSettings, configure: impl FnOnce(&mut Protocol)) -> Dialogue {
    d.effects();
    let mut after = Dialogue::with(STYLES[5], settings);
    assert_eq!(after.protocol.restore_image(&d.protocol.objects.image(), &somebody_else(), configure), Ok(true));
    after
}

fn resolve(d: &mut Dialogue, name: &str) -> Result<Ior, Thrown> {
    let naming = d.bootstrap("NameService");
    let found = d.quick(&naming, "resolve_str", |w| w.string(name))?;
    Ok(found.read(|r| Ior::read(r).unwrap()))
}

/// Keys had 32 random bits, which were the same for all objects of a channel. Clients that have such references, and stores that have such
/// numbers, go on as they did; what is made from then on has keys like all others.
#[test]
fn references_that_were_kept_when_keys_had_32_bits_lead_where_they_led() {
    let mut d = Dialogue::with(STYLES[5], with_store(1));
    let (default, made) = (d.bootstrap("DefaultEventChannel"), new_channel(&mut d));
    for channel in [&default, &made] {
        proxy_of(&mut d, channel, "_get_default_consumer_admin", "obtain_notification_push_supplier");
        d.quick(channel, "new_for_suppliers", |w| w.u32(0)).unwrap();
        let factory = d.quick(channel, "_get_default_filter_factory", |_| {}).unwrap().read(|r| Ior::read(r).unwrap());
        d.quick(&factory, "create_filter", |w| w.string("EXTENDED_TCL")).unwrap();
    }
    let naming = d.bootstrap("NameService");
    d.quick(&naming, "bind_new_context", |w| {
        w.u32(1);
        w.string("context");
        w.string("");
    })
    .unwrap();
    // As such a store has it: numbers, and nothing of former ones.
    let mut topology = d.protocol.objects.topology();
    for channel in &mut topology.channels {
        (channel.nonce, channel.objects_nonce) = if channel.id == 0 { (0, 0xaa) } else { (0xbb, 0xbb) };
    }
    topology.naming.nonce = 0xcc;
    let image = topology.image();
    let text = |image: &topology::Image| {
        image.values().map(|value| String::from_utf8(value.clone()).unwrap()).collect::<String>()
    };
    for stored in [r#""nonce":0,"objects_nonce":170,"#, r#""nonce":187,"objects_nonce":187,"#, r#""naming_nonce":204"#]
    {
        assert!(text(&image).contains(stored), "{stored}");
    }
    assert!(!text(&image).contains("former"));
    let former = [
        "Proxy/00000000.000000aa.00000000",
        "SupplierAdmin/00000000.000000aa.00000001",
        "Filter/00000000.000000aa.00000000",
        "Channel/00000001.000000bb",
        "ConsumerAdmin/00000001.000000bb.00000000",
        "FilterFactory/00000001.000000bb",
        "Proxy/00000001.000000bb.00000000",
        "SupplierAdmin/00000001.000000bb.00000001",
        "Filter/00000001.000000bb.00000001",
        "NamingContext/00000001.000000cc",
    ];
    let (mut image, mut later) = (image, Vec::<Vec<u8>>::new());
    for start in 2..5 {
        let mut after = Dialogue::with(STYLES[5], with_store(start));
        assert_eq!(after.protocol.restore_image(&image, &somebody_else(), |_| {}), Ok(true));
        for key in former {
            assert!(after.protocol.objects.locate(key.as_bytes()), "{key} after start {start}");
        }
        assert!(later.iter().all(|key| after.protocol.objects.locate(key)), "start {start}");
        let published = after.protocol.publish().unwrap();
        let of_lanes = |key: &[u8]| published.directory.proxy(&ObjectKey::parse(key).unwrap());
        assert!(of_lanes(former[0].as_bytes()).is_some() && of_lanes(former[6].as_bytes()).is_some());
        // The next of each kind does not follow from those.
        for channel in ["DefaultEventChannel", "Channel/00000001.000000bb"].map(|key| after.bootstrap(key)) {
            let obtain = "obtain_notification_push_supplier";
            let proxy = proxy_of(&mut after, &channel, "_get_default_consumer_admin", obtain);
            later.push(proxy.iiop().unwrap().key.clone());
        }
        let guessed = later.iter().map(|key| {
            let ObjectKey::Proxy { channel, nonce, proxy } = ObjectKey::parse(key).unwrap() else { panic!("a proxy") };
            assert!(nonce > u32::MAX.into());
            let nonce = if channel.0 == 0 { 0xaa } else { 0xbb };
            ObjectKey::Proxy { channel, nonce, proxy }
        });
        let is_unknown = |key: &[u8]| !after.protocol.objects.locate(key) && of_lanes(key).is_none();
        assert!(guessed.clone().all(|key| is_unknown(&key.to_bytes())));
        image = after.protocol.objects.image();
        assert!(text(&image).contains("former"));
    }
    assert_eq!(later.len(), 6);
}

/// A client that might know of a channel was given the number that was in the keys of all its objects.
#[test]
fn what_is_shown_of_a_channel_has_no_number_from_which_keys_follow() {
    let mut d = Dialogue::with(STYLES[5], with_store(1));
    new_channel(&mut d);
    for channel in d.protocol.objects.topology().channels {
        let reported = d.protocol.objects.channel_json(ChannelId(channel.id), None).unwrap();
        let secrets = [channel.nonce, channel.objects_nonce].map(|nonce| format!("{nonce:032x}"));
        assert!(secrets.iter().all(|secret| !reported.contains(secret)), "{reported}");
        assert!(reported.contains(r#""objects_nonce":0,"#), "{reported}");
    }
}

/// A client that destroyed a declared channel, or gave its name to something else, kept the service from ever starting again.
#[test]
fn a_declared_channel_is_there_again_whatever_clients_did_to_it() {
    let one = |w: &mut Writer<'_>| {
        w.u32(1);
        w.string("Plant");
        w.string("");
    };
    for harm in 0..4 {
        let mut d = Dialogue::with(STYLES[5], with_store(1));
        let declared = d.protocol.declare_channel("Plant", &[]).unwrap();
        let (plant, naming) = (resolve(&mut d, "Plant").unwrap(), d.bootstrap("NameService"));
        match harm {
            0 => _ = d.quick(&plant, "destroy", |_| {}).unwrap(),
            1 => {
                let rebind = |w: &mut Writer<'_>| {
                    one(w);
                    client("another object").write(w);
                };
                d.quick(&naming, "rebind", rebind).unwrap();
            }
            2 => _ = d.quick(&naming, "unbind", one).unwrap(),
            _ => {
                d.quick(&naming, "unbind", one).unwrap();
                d.quick(&naming, "bind_new_context", one).unwrap();
            }
        }
        let mut after = restarted(&mut d, with_store(2), |protocol| {
            // It has its name, whatever became of those in the naming service.
            assert_eq!(protocol.declare_channel("Plant", &[]) == Ok(declared), harm != 0);
        });
        let plant = resolve(&mut after, "Plant").unwrap();
        after.call(&plant, "get_qos", |_| {}).unwrap();
        let channels = |d: &Dialogue| d.protocol.objects.topology().channels.len();
        let before = channels(&after);
        let again =
            restarted(&mut after, with_store(3), |protocol| _ = protocol.declare_channel("Plant", &[]).unwrap());
        assert_eq!(channels(&again), before, "it is found by then");
    }
}

/// One call of one client was enough to have it away for good.
#[test]
fn what_every_service_has_is_there_again_after_a_restart() {
    let mut d = Dialogue::with(STYLES[5], with_store(1));
    let naming = d.bootstrap("NameService");
    let elsewhere = client("the factory of another service");
    for (name, is_stored) in
        [("NotifyEventChannelFactory", false), ("EventChannelFactory", false), ("NotificationService", true)]
    {
        let bound = |w: &mut Writer<'_>| {
            w.u32(1);
            w.string(name);
            w.string("");
        };
        d.quick(&naming, "unbind", bound).unwrap();
        if is_stored {
            d.quick(&naming, "bind", |w| {
                bound(w);
                elsewhere.write(w);
            })
            .unwrap();
        }
    }
    let events = resolve(&mut d, "EventService").unwrap();
    d.quick(&events, "destroy", |_| {}).unwrap();
    let mut after = restarted(&mut d, with_store(2), |protocol| protocol.objects.bind_own_names());
    for name in ["EventService", "NotifyEventChannelFactory", "EventChannelFactory", "ChannelFactory.ChannelFactory"] {
        let found = resolve(&mut after, name).unwrap();
        assert!(!after.get(&found, "_non_existent").read(|r| r.bool().unwrap()), "{name}");
    }
    assert_eq!(resolve(&mut after, "NotificationService").unwrap(), elsewhere, "what a client says counts");
    let events = resolve(&mut after, "EventService").unwrap();
    let admin = after.object(&events, "for_consumers");
    after.object(&admin, "obtain_push_supplier");
}

/// A service that ended while a channel was taken apart did not start any more, since what had a filter of that channel was not restored.
#[test]
fn what_has_a_filter_that_is_gone_is_restored_without_it() {
    let mut d = Dialogue::with(STYLES[5], with_store(1));
    let (one, other) = (new_channel(&mut d), new_channel(&mut d));
    let proxy = proxy_of(&mut d, &other, "_get_default_consumer_admin", "obtain_notification_push_supplier");
    let factory = d.quick(&one, "_get_default_filter_factory", |_| {}).unwrap().read(|r| Ior::read(r).unwrap());
    let filter = d.quick(&factory, "create_filter", |w| w.string("EXTENDED_TCL")).unwrap();
    let filter = filter.read(|r| Ior::read(r).unwrap());
    d.quick(&proxy, "add_filter", |w| filter.write(w)).unwrap();
    let mapping = d.quick(&factory, "create_mapping_filter", |w| {
        w.string("ETCL");
        w.u32(2);
        w.i16(1);
    });
    let mapping = mapping.unwrap().read(|r| Ior::read(r).unwrap());
    for place in ["_set_priority_filter", "_set_lifetime_filter"] {
        let _ = d.quick(&proxy, place, |w| mapping.write(w));
    }
    d.quick(&proxy, "connect_structured_push_consumer", |w| client("consumer").write(w)).unwrap();
    let mut topology = d.protocol.objects.topology();
    let selection = |topology: &Topology| topology.channels.last().unwrap().proxies[0].selection.clone();
    assert_eq!(selection(&topology).attached.len(), 1);
    assert!(selection(&topology).priority_filter.is_some());
    // The part of the channel itself is the first that is written when it is destroyed.
    let gone = topology.channels[1].id;
    topology.channels.retain(|channel| channel.id != gone);
    let mut after = Dialogue::with(STYLES[5], with_store(2));
    after.protocol.restore(&topology).unwrap();
    let after = after.protocol.objects.topology();
    let left = selection(&after);
    assert_eq!((left.attached.len(), left.priority_filter, left.lifetime_filter), (0, None, None));
    assert!(after.channels.last().unwrap().proxies[0].client.is_some());
}

/// A service with a lowered `lanes.threads_max` refused to start with what it had kept.
#[test]
fn threads_that_were_granted_stay_when_there_may_be_fewer() {
    let mut d = Dialogue::with(STYLES[5], with_store(1));
    let channel = new_channel(&mut d);
    let pool = ThreadPool::new(PriorityModel::ServerDeclared, 3, 4);
    d.quick(&channel, "set_qos", |w| {
        w.u32(1);
        w.string("ThreadPool");
        AnyValue::from(pool).write(w).unwrap();
    })
    .unwrap();
    let few = HierarchyLimits { lane_threads_max: 2, ..HierarchyLimits::default() };
    let after = restarted(&mut d, ProtocolSettings { hierarchy: few, ..with_store(2) }, |_| {});
    assert_eq!(after.protocol.objects.topology(), d.protocol.objects.topology());
    assert_eq!(
        (after.protocol.objects.hierarchy().lane_threads_left(), after.protocol.objects.hierarchy().lane_threads_max()),
        (0, 2)
    );
}

/// A channel that was granted constraints of 1 MiB before a restart could be given more of them although the service grants 64 KiB by now,
/// each of which keeps all clients of administration waiting.
#[test]
fn constraints_that_were_granted_stay_and_those_that_come_are_no_longer_than_the_service_takes() {
    let mut d = Dialogue::with(STYLES[5], with_store(1));
    let channel = new_channel(&mut d);
    let set = |w: &mut Writer<'_>| {
        w.u32(1);
        w.string("MaxConstraintLength");
        AnyValue::from(1_i32 << 20).write(w).unwrap();
    };
    d.quick(&channel, "set_admin", set).unwrap();
    let factory = d.quick(&channel, "_get_default_filter_factory", |_| {}).unwrap().read(|r| Ior::read(r).unwrap());
    let filter = d.quick(&factory, "create_filter", |w| w.string("EXTENDED_TCL")).unwrap();
    let filter = filter.read(|r| Ior::read(r).unwrap());
    let add = |d: &mut Dialogue, octets: usize| {
        d.quick(&filter, "add_constraints", |w| {
            w.u32(1);
            w.u32(0);
            w.string(&format!("$n =={}1", " ".repeat(octets - 6)));
        })
    };
    add(&mut d, 100_000).unwrap();
    let short = HierarchyLimits { constraint_bytes_max: 65_536, ..HierarchyLimits::default() };
    let mut after = restarted(&mut d, ProtocolSettings { hierarchy: short, ..with_store(2) }, |_| {});
    let length = |d: &Dialogue| d.protocol.objects.topology().channels[1].filters[0].constraints[0].expression.len();
    assert_eq!((length(&d), length(&after)), (100_000, 100_000));
    assert!(add(&mut after, 65_537).is_err());
    add(&mut after, 65_536).unwrap();
    assert!(after.quick(&channel, "set_admin", set).is_err());
}

/// Once a client had a connection that outlives the process, the threads of a declared channel could not be declared otherwise.
#[test]
fn a_declared_channel_gets_other_threads_at_a_start_though_it_has_persistent_clients() {
    let lanes = |threads| vec![("ThreadPoolLanes".to_owned(), Declared::Lanes(vec![(10, threads)]))];
    let mut d = Dialogue::with(STYLES[5], with_store(1));
    let made = d.protocol.declare_channel("Plant", &lanes(1)).unwrap();
    let plant = resolve(&mut d, "Plant").unwrap();
    for who in ["one", "other"] {
        let proxy = proxy_of(&mut d, &plant, "_get_default_consumer_admin", "obtain_notification_push_supplier");
        d.quick(&proxy, "connect_structured_push_consumer", |w| client(who).write(w)).unwrap();
    }
    assert!(d.protocol.declare_channel("Plant", &lanes(2)).is_err(), "not while it is connected");
    let properties = [lanes(2), vec![("MaxConsumers".to_owned(), Declared::Number(1))]].concat();
    let few = HierarchyLimits { lane_threads_max: 2, ..HierarchyLimits::default() };
    let mut after = restarted(&mut d, ProtocolSettings { hierarchy: few, ..with_store(2) }, |protocol| {
        assert_eq!(protocol.declare_channel("Plant", &properties), Ok(made));
    });
    let topology = after.protocol.objects.topology();
    let channel = topology.channels.iter().find(|channel| channel.id == made.0).unwrap();
    assert_eq!(channel.settings.pool.as_ref().unwrap().lanes[0].threads, 2);
    assert_eq!(channel.limits.max_consumers, Some(1));
    assert!(channel.proxies.iter().all(|proxy| proxy.client.is_some()), "both stay, beyond the limit");
    // The one lane that there was before is not started.
    after.protocol.publish().unwrap();
    let mut reported = Vec::new();
    while let Some(change) = after.protocol.poll_lane() {
        reported.push(matches!(change, LaneChange::Started(info) if info.priority == 10));
    }
    assert_eq!(reported, [true, true]);
}

/// What did not fit into a share was not charged at all, and granted once more.
#[test]
fn what_is_restored_is_charged_beyond_the_quota_of_its_client() {
    let mut d = Dialogue::with(STYLES[5], with_store(1));
    for _ in 0..5 {
        new_channel(&mut d);
    }
    let ceilings = Ceilings::new(50).with(Resource::Channels, 3, 1);
    let account = Accounts::new(ceilings).account_of(IpAddr::from([0, 0, 0, 0]));
    let mut after = Dialogue::with(STYLES[5], with_store(2));
    assert_eq!(after.protocol.restore_image(&d.protocol.objects.image(), &account, |_| {}), Ok(true));
    assert_eq!(account.used(Resource::Channels), 5);
}

/// `[delivery]` and `[channel]` had no effect on channels that had been there before: on the default channel never, once there was a store.
#[test]
fn what_a_channel_does_not_say_itself_is_what_is_configured_now() {
    let with = |seconds: u64, megabytes: u64| {
        let settings = with_store(1);
        let times = Some(Duration::from_secs(seconds));
        let delivery = SettingsPatch { give_up_after: times, probe_interval: times, ..settings.delivery };
        let (memory_budget_bytes, overflow_budget_bytes) = (megabytes << 20, megabytes << 24);
        ProtocolSettings {
            delivery,
            limits: ChannelLimits { memory_budget_bytes, overflow_budget_bytes, ..settings.limits },
            ..settings
        }
    };
    let mut d = Dialogue::with(STYLES[5], with(10, 1));
    let default = d.bootstrap("DefaultEventChannel");
    d.set_qos(&default, "GiveUpAfter", 70_000_000);
    d.set_qos(&default, "MemoryBudget", 5 << 20);
    new_channel(&mut d);
    let after = restarted(&mut d, with(20, 2), |_| {});
    let channels: Vec<_> = after.protocol.objects.hierarchy().channels().collect();
    let seconds = |at: usize| {
        let patch = channels[at].patch();
        [patch.give_up_after, patch.probe_interval].map(|time| time.unwrap().as_secs())
    };
    assert_eq!([seconds(0), seconds(1)], [[7, 20], [20, 20]]);
    let megabytes = |at: usize| {
        let limits = channels[at].limits();
        (limits.memory_budget_bytes >> 20, limits.overflow_budget_bytes >> 24)
    };
    assert_eq!([megabytes(0), megabytes(1)], [(5, 2), (2, 2)]);
}

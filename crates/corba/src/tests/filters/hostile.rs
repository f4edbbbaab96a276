//! Filters in the hands of clients that get it wrong, change the same one at once, or take away what others use.

use super::*;

#[test]
fn hostile_changes_of_filters_are_refused_and_change_nothing() {
    let mut d = Dialogue::new(STYLES[5]);
    let factory = factory(&mut d);
    let filter = made_filter(&mut d, &factory);
    add(&mut d, &filter, &[(&[], "TRUE")]).unwrap();
    let mut refused = |operation: &str, arguments: &dyn Fn(&mut Writer<'_>)| {
        answered(&mut d, &filter, operation, arguments).expect_err(operation);
    };
    let megabyte = "(".repeat(1 << 20);
    let constraint = |text: &str, w: &mut Writer<'_>| write_expressions(&[(&[], text)], w);
    refused("add_constraints", &|w| constraint(&megabyte, w));
    refused("add_constraints", &|w| constraint(&"not ".repeat(250_000), w));
    refused("add_constraints", &|w| constraint(&format!("exist ${}", ".a".repeat(100_000)), w));
    refused("add_constraints", &|w| write_expressions(&[(&[][..], "TRUE"); 5_000], w));
    refused("add_constraints", &|w| write_expressions(&[(&[("a", "b"); 5_000][..], "TRUE")], w));
    let name = "n".repeat(70_000);
    refused("add_constraints", &|w| write_expressions(&[(&[("", &name)], "TRUE")], w));
    refused("get_constraints", &|w| write_ids(&[1; 5_000], w));
    refused("modify_constraints", &|w| {
        write_ids(&[1], w);
        w.u32(1);
        constraint(&megabyte, w);
        w.i32(1);
    });
    for count in [u32::MAX, 0x8000_0000, 0x0100_0000] {
        for operation in ["add_constraints", "modify_constraints", "get_constraints", "match_typed"] {
            refused(operation, &|w| w.u32(count));
        }
    }
    assert_eq!(all(&mut d, &filter), [(1, "TRUE".into())]);
}

#[test]
fn the_constraints_of_a_channel_take_so_much_together_and_no_more() {
    let mut d = Dialogue::new(STYLES[5]);
    let factory = factory(&mut d);
    let text = format!("TRUE{}", " ".repeat(16_000));
    let many: Vec<Expression<'_>> = vec![(&[], &text); 16];
    let write = |w: &mut Writer<'_>| write_expressions(&many, w);
    let mut filters = Vec::new();
    loop {
        let filter = made_filter(&mut d, &factory);
        match answered(&mut d, &filter, "add_constraints", write) {
            Ok(()) => filters.push(filter),
            Err(Exception::System(refused)) => {
                assert_eq!(refused.kind, Kind::ImpLimit);
                break;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!((250..=262).contains(&filters.len()), "{} of 256 KB each", filters.len());
    let last = made_filter(&mut d, &factory);
    // What is destroyed or taken away, and what is refused for another reason, does not count.
    let mut fits = |filter: &Ior| answered(&mut d, filter, "add_constraints", write).is_ok();
    assert!(!fits(&last) && !fits(&filters[0]));
    d.get(&filters[0], "destroy");
    answered(&mut d, &last, "add_constraints", write).unwrap();
    d.get(&last, "remove_all_constraints");
    answered(&mut d, &last, "add_constraints", write).unwrap();
    assert_eq!(refused(&mut d, &filters[1], "add_constraints", write), Kind::ImpLimit);
}

#[test]
fn two_clients_that_change_one_filter_never_see_half_of_a_change() {
    let seed = 0x0f11_7e25;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut d = Dialogue::new(STYLES[5]);
    let factory = factory(&mut d);
    let filter = made_filter(&mut d, &factory);
    // Each change leaves exactly two constraints, which say the same.
    add(&mut d, &filter, &[(&[], "TRUE"), (&[], "TRUE")]).unwrap();
    for round in 0..200 {
        let now = all(&mut d, &filter);
        assert_eq!((now.len(), &now[0].1), (2, &now[1].1), "seed {seed:#x}, round {round}");
        let ids = [now[0].0, now[1].0];
        let text = ["TRUE", "FALSE", ""][round % 3];
        match random.u8(0..4) {
            0 => {
                modify(&mut d, &filter, &[], &[((&[], text), ids[0]), ((&[], text), ids[1])]).unwrap();
            }
            1 => {
                modify(&mut d, &filter, &[ids[0]], &[((&[], text), ids[0])]).raises("ConstraintNotFound");
            }
            2 => {
                modify(&mut d, &filter, &[], &[((&[], text), ids[0]), ((&[("", "*x")], "("), ids[1])])
                    .raises("InvalidConstraint");
            }
            _ => {
                let [first, second] = ids;
                modify(&mut d, &filter, &[first, second], &[]).unwrap();
                add(&mut d, &filter, &[(&[], text), (&[], text)]).unwrap();
            }
        }
    }
}

#[test]
fn a_filter_of_another_channels_factory_goes_with_that_channel() {
    let mut d = Dialogue::new(STYLES[5]);
    let (home, other) = (new_channel(&mut d).0, new_channel(&mut d).0);
    let factory = d.object(&home, "_get_default_filter_factory");
    let filter = made_filter(&mut d, &factory);
    let mapping = made_mapping(&mut d, &factory, |w| write_short(1, w));
    let admin = d.object(&other, "for_consumers");
    d.give(&admin, "add_filter", &filter).unwrap();
    d.give(&admin, "_set_lifetime_filter", &mapping).unwrap();
    d.get(&home, "destroy");
    assert!(d.ids(&admin, "get_all_filters").is_empty());
    assert!(d.object(&admin, "_get_lifetime_filter").is_nil());
}

#[test]
fn making_attaching_and_destroying_in_any_order_leaves_nothing_behind() {
    let seed = 0xf11e_5eed;
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..30 {
        let mut d = Dialogue::new(STYLES[random.usize(0..STYLES.len())]);
        let (mut channels, mut filters, mut holders) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..120 {
            match random.u8(0..10) {
                0 => channels.push(new_channel(&mut d).0),
                1 | 2 if !channels.is_empty() => {
                    let channel = &channels[random.usize(0..channels.len())];
                    if let Ok(factory) = d.call(channel, "_get_default_filter_factory", |_| {}) {
                        let factory = factory.read(|r| Ior::read(r).unwrap());
                        let decides = random.bool();
                        filters.push(if decides {
                            made_filter(&mut d, &factory)
                        } else {
                            made_mapping(&mut d, &factory, |w| write_short(1, w))
                        });
                    }
                }
                3 if !channels.is_empty() => {
                    let channel = &channels[random.usize(0..channels.len())];
                    if let Ok(made) = d.call(channel, "new_for_consumers", |w| w.u32(0)) {
                        let admin = made.read(|r| (Ior::read(r).unwrap(), r.i32().unwrap())).0;
                        holders.push(d.made(&admin, "obtain_notification_push_supplier", 1).0);
                        holders.push(admin);
                    }
                }
                4..=7 if !holders.is_empty() => {
                    let holder = &holders[random.usize(0..holders.len())];
                    let ours = (!filters.is_empty() && random.bool()).then(|| &filters[random.usize(0..filters.len())]);
                    let filter = ours.cloned().unwrap_or_else(|| client("theirs"));
                    let operations = ["add_filter", "add_filter", "_set_priority_filter", "_set_lifetime_filter"];
                    let _ = d.give(holder, operations[random.usize(0..4)], &filter);
                }
                8 => {
                    let all = [&filters, &holders, &channels][random.usize(0..3)];
                    if !all.is_empty() && random.u8(0..3) == 0 {
                        let gone = all[random.usize(0..all.len())].clone();
                        let proxy = gone.type_id.contains("Proxy");
                        let _ = d.call(
                            &gone,
                            if proxy { "disconnect_structured_push_supplier" } else { "destroy" },
                            |_| {},
                        );
                    }
                }
                _ if !holders.is_empty() => {
                    let holder = &holders[random.usize(0..holders.len())];
                    let id = random.i32(0..4);
                    let _ = d.call(holder, "remove_filter", |w| w.i32(id));
                }
                _ => {}
            }
            d.protocol.publish();
        }
        let remote = check_holders(&mut d, &holders);
        let gone = d.effects().iter().filter(|effect| matches!(effect, Effect::ReleasePeer(_))).count();
        new_channel(&mut d);
        let known = d.protocol.publish().unwrap().directory.peers.len();
        assert_eq!(known, remote, "seed {seed:#x}, {gone} gone");
    }
}

/// Checks that every filter that someone has is there; counts those of other servers.
fn check_holders(d: &mut Dialogue, holders: &[Ior]) -> usize {
    let mut remote = 0;
    for holder in holders {
        let Ok(ids) = d.call(holder, "get_all_filters", |_| {}) else { continue };
        let ids: Vec<i32> = ids.read(|r| (0..r.u32().unwrap()).map(|_| r.i32().unwrap()).collect());
        for id in ids {
            let filter = d.look_up(holder, "get_filter", id).unwrap();
            remote += usize::from(filter == client("theirs"));
            if filter != client("theirs") {
                d.get(&filter, "get_all_constraints");
            }
        }
        for attribute in ["_get_priority_filter", "_get_lifetime_filter"] {
            let filter = d.object(holder, attribute);
            if !filter.is_nil() {
                d.get(&filter, "_get_default_value");
            }
        }
    }
    remote
}

#[test]
fn bodies_with_any_octet_changed_end_in_a_result_or_an_exception() {
    let seed = 0xb0d1_e5ed;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut d = Dialogue::new(STYLES[5]);
    let factory = factory(&mut d);
    let filter = made_filter(&mut d, &factory);
    let mapping = made_mapping(&mut d, &factory, |w| write_short(1, w));
    type Arguments = fn(&mut Writer<'_>);
    let expressions: Arguments = |w| write_expressions(&[(&[("ALMA", "x")], "$a.b[1] == 2 and exist $c")], w);
    let infos: Arguments = |w| {
        write_ids(&[1], w);
        w.u32(1);
        write_expression((&[], "$.filterable_data(x) + 1 > 2"), w);
        w.i32(2);
    };
    let pairs: Arguments = |w| {
        w.u32(1);
        write_expression((&[], "'a' ~ $b"), w);
        write_short(1, w);
    };
    let event: Arguments = |w| write_reading("a", |w| write_double(1.0, w), w);
    let properties: Arguments = |w| {
        w.u32(1);
        w.string("a");
        write_text("x", w);
    };
    let cases: [(&Ior, &str, Arguments); 8] = [
        (&filter, "add_constraints", expressions),
        (&filter, "modify_constraints", infos),
        (&mapping, "add_mapping_constraints", pairs),
        (&filter, "match_structured", event),
        (&mapping, "match_structured", event),
        (&filter, "match_typed", properties),
        (&mapping, "match_typed", properties),
        (&filter, "attach_callback", |w| client("callback").write(w)),
    ];
    let encoding = Encoding::new(Endian::Little);
    for _ in 0..20_000 {
        let (object, operation, arguments) = cases[random.usize(0..cases.len())];
        let mut args = Vec::new();
        arguments(&mut Writer::new(&mut args, encoding));
        for _ in 0..random.usize(1..4) {
            let at = random.usize(0..args.len());
            args[at] = if random.bool() { random.u8(..) } else { args[at] ^ 1 << random.u8(0..8) };
        }
        let call = ObjectRequest {
            key: &object.iiop().unwrap().key,
            operation,
            args: Reader::new(&args, encoding),
            principal: somebody(),
        };
        if let Err(Exception::System(refused)) = d.protocol.handle(&call, &mut Writer::new(&mut Vec::new(), encoding)) {
            assert_ne!(refused.kind, Kind::Internal, "seed {seed:#x}: {operation} of {args:?}");
            assert_ne!(refused.kind, Kind::Unknown, "seed {seed:#x}: {operation} of {args:?}");
        }
    }
}

//! Which operation needs what, by the table of docs/security.md: each operation of each object, as each kind of client.
//!
//! A principal with the right to subscribe could derive the key of a sibling's proxy from its own, pull the sibling's events or connect the
//! proxy before the sibling did: connecting and pulling needed the right to the side and nothing else.

use super::dialogue::{Dialogue, STYLES, client, key_of, servant_of, settings};
use crate::table::{Servant, Target};
use access::{RuleText, Rules};
use accounts::{Account, Accounts, Ceilings, CertifiedName};
use giop::ior::Ior;
use giop::value::AnyValue;
use std::collections::BTreeSet;
use std::sync::Arc;

const DOCUMENT: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/security.md"));

/// A row of the document's table: object, operations, what they need.
struct Row {
    object: &'static str,
    operations: Vec<&'static str>,
    is_rest: bool,
    needs: &'static str,
}

fn table() -> Vec<Row> {
    let (_, section) = DOCUMENT.split_once("### Which operation needs what").unwrap();
    let rows = section.lines().skip_while(|line| !line.starts_with("| object |")).skip(2);
    let read = |line: &'static str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, object, operations, needs, _] = cells[..] else { panic!("{line}") };
        let (is_rest, named) = (operations.starts_with("all others"), operations.split('`').skip(1).step_by(2));
        Row { object, operations: named.collect(), is_rest, needs: needs.split(';').next().unwrap() }
    };
    rows.take_while(|line| line.starts_with('|')).map(read).collect()
}

/// What the document says that an operation needs.
fn documented(rows: &[Row], object: &str, operation: &str) -> &'static str {
    let has = |row: &&Row| {
        let named = row.operations.iter().any(|name| match name.strip_suffix('*') {
            Some(beginning) => operation.starts_with(beginning),
            None => *name == operation,
        });
        (row.object == object || row.object == "every object") && (row.is_rest || named)
    };
    rows.iter().find(has).unwrap_or_else(|| panic!("docs/security.md has no row for {operation} of a {object}")).needs
}

/// A client, and what the rules and the document make of it.
struct Asker {
    title: &'static str,
    account: Arc<Account>,
    publishes: bool,
    subscribes: bool,
    administers: bool,
    is_owner: bool,
}

fn rules() -> Rules {
    let rule = |who: &[&str], may: &[&str]| RuleText {
        who: who.iter().map(|who| (*who).to_owned()).collect(),
        may: may.iter().map(|may| (*may).to_owned()).collect(),
        allow: true,
        ..RuleText::default()
    };
    let both = ["publish", "subscribe"];
    Rules::parse(&[
        rule(&["token:chief"], &["administer"]),
        rule(&["token:*", "certificate:*"], &both),
        // Two entries of one rule: the operator keeps them apart, so they are two.
        rule(&["10.0.0.0/24", "10.0.1.0/24"], &both),
        rule(&["10.0.2.0/24"], &["publish"]),
        rule(&["10.0.3.0/24"], &["subscribe"]),
    ])
    .unwrap()
    .unwrap()
}

/// What a client shows beside its address.
#[derive(Clone, Copy)]
enum Shown {
    Nothing,
    Token(&'static str),
    Certificate(&'static str),
}

fn account(accounts: &Arc<Accounts>, address: &str, shown: Shown) -> Arc<Account> {
    let account = accounts.account_of(address.parse().unwrap());
    match shown {
        Shown::Nothing => {}
        Shown::Token(name) => assert!(account.identity().show_token(name.into())),
        Shown::Certificate(subject) => {
            let name = CertifiedName { subject: subject.into(), sans: Vec::new() };
            assert!(account.identity().certify(Arc::new(name)));
        }
    }
    account
}

const OWNERS: [Shown; 3] = [Shown::Nothing, Shown::Token("sensor"), Shown::Certificate("CN=plant 7,O=x")];

/// All clients that ask, where the owner comes from 10.0.0.1 and shows this.
fn askers(accounts: &Arc<Accounts>, owner: Shown) -> Vec<Asker> {
    let is_bare = matches!(owner, Shown::Nothing);
    let elsewhere = if is_bare { "10.0.0.9" } else { "10.0.4.1" };
    let asker = |title, address, shown, rights: &str, is_owner| Asker {
        title,
        account: account(accounts, address, shown),
        publishes: rights.contains('p'),
        subscribes: rights.contains('s'),
        administers: rights.contains('a'),
        is_owner,
    };
    vec![
        asker("the owner on another connection", "10.0.0.1", owner, "ps", true),
        asker("the owner from another address", elsewhere, owner, "ps", true),
        asker(
            "a client that comes from the owner's address and shows nothing",
            "10.0.0.1",
            Shown::Nothing,
            "ps",
            is_bare,
        ),
        asker("a client that shows another token there", "10.0.0.1", Shown::Token("other"), "ps", false),
        asker(
            "a client that shows another certificate there",
            "10.0.0.1",
            Shown::Certificate("CN=plant 8,O=x"),
            "ps",
            false,
        ),
        asker("a sibling that another entry admits", "10.0.1.1", Shown::Nothing, "ps", false),
        asker("a publisher", "10.0.2.1", Shown::Nothing, "p", false),
        asker("a subscriber", "10.0.3.1", Shown::Nothing, "s", false),
        asker("a stranger", "10.0.4.1", Shown::Nothing, "", false),
        asker("an administrator", "10.0.4.1", Shown::Token("chief"), "psa", false),
    ]
}

/// Whether a client may, by the words of the document.
fn may(asker: &Asker, needs: &str, target: Target) -> bool {
    use engine::Side;
    let Asker { publishes, subscribes, administers, is_owner, .. } = *asker;
    let of_side = match target {
        Target::Admin(admin) if admin.side == Side::Consumers => subscribes,
        Target::Proxy(_, Side::Consumers) => subscribes,
        Target::Admin(_) | Target::Proxy(..) => publishes,
        _ => publishes || subscribes,
    };
    match needs {
        "nothing" => true,
        "any right anywhere" | "any right" => publishes || subscribes || administers,
        "`publish`" => publishes,
        "`subscribe`" => subscribes,
        "the side's right" => of_side,
        "owner" => administers || of_side && is_owner,
        "`administer`" => administers,
        other => panic!("docs/security.md: what is {other}?"),
    }
}

struct Scene {
    d: Dialogue,
    accounts: Arc<Accounts>,
    objects: Vec<(&'static str, Ior)>,
}

impl Scene {
    /// A protocol with rules, and one of each object, made by the owner.
    fn new(owner: Shown) -> Self {
        let mut d = Dialogue::with(STYLES[5], settings(7));
        let accounts = Accounts::new(Ceilings::new(100));
        d.protocol.guard.set_access(&mut d.protocol.objects, Some(rules()), &accounts);
        d.principal = account(&accounts, "10.0.0.1", owner);
        let factory = d.bootstrap("NotificationService");
        let channel = d.bootstrap("DefaultEventChannel");
        let naming = d.bootstrap("NameService");
        let listed = d.quick(&naming, "list", |w| w.u32(0)).unwrap();
        let list = listed.read(|r| {
            assert_eq!(r.u32().unwrap(), 0);
            Ior::read(r).unwrap()
        });
        let filters = d.object(&channel, "_get_default_filter_factory");
        let made = d.quick(&filters, "create_filter", |w| w.string("EXTENDED_TCL")).unwrap();
        let filter = made.read(|r| Ior::read(r).unwrap());
        let mut objects = vec![
            ("factory", factory),
            ("generic factory", d.bootstrap("EventChannelFactory")),
            ("scheduling service", d.bootstrap("SchedulingService")),
            ("monitor and control", d.bootstrap("TAO_MonitorAndControl")),
            ("naming service", naming),
            ("list of names", list),
            ("filter factory", filters),
            ("filter", filter),
        ];
        for (make, ways) in [
            ("new_for_consumers", ["push_supplier", "pull_supplier"]),
            ("new_for_suppliers", ["push_consumer", "pull_consumer"]),
        ] {
            let admin = d.made(&channel, make, 0).0;
            for way in ways {
                objects.push(("proxy", d.object(&admin, &format!("obtain_{way}"))));
                for form in 0..3 {
                    objects.push(("proxy", d.made(&admin, &format!("obtain_notification_{way}"), form).0));
                }
            }
            objects.push(("admin", admin));
        }
        objects.push(("channel", channel));
        Self { d, accounts, objects }
    }

    /// Whether the rules let a client have an operation carried out, whatever comes of it.
    fn lets(&mut self, who: &Arc<Account>, object: &Ior, operation: &str) -> bool {
        self.d.principal = Arc::clone(who);
        self.d.protocol.guard.take_why();
        let answer = self.d.quick(object, operation, |_| {});
        let is_denied = self.d.protocol.guard.take_why().is_some();
        assert!(!is_denied || answer.unwrap_err().name() == "NO_PERMISSION", "{operation}");
        !is_denied
    }
}

fn operations_of(servant: Servant) -> BTreeSet<&'static str> {
    let all = servant.iter().copied().chain([&crate::object::OBJECT]);
    all.flat_map(|interface| interface.operations).map(|operation| operation.name).collect()
}

#[test]
fn each_operation_needs_what_the_document_says() {
    let rows = table();
    assert!(rows.len() > 20);
    let (mut allowed, mut denied, mut seen) = (0, 0, BTreeSet::new());
    for owner in OWNERS {
        let mut scene = Scene::new(owner);
        for at in 0..scene.objects.len() {
            let (object, reference) = scene.objects[at].clone();
            let key = reference.iiop().unwrap().key.clone();
            seen.insert(object);
            for operation in operations_of(servant_of(&scene.d.protocol, &key).unwrap()) {
                let needs = documented(&rows, object, operation);
                for asker in askers(&scene.accounts, owner) {
                    // The ones before may have ended it.
                    if scene
                        .d
                        .protocol
                        .objects
                        .target(&key)
                        .is_none_or(|target| scene.d.protocol.objects.servant(target).is_err())
                    {
                        scene = Scene::new(owner);
                        let again = &scene.objects[at].1;
                        assert_eq!(again.iiop().unwrap().key, key, "the same keys by the same seed");
                    }
                    let target = scene.d.protocol.objects.target(&key).unwrap();
                    let said = may(&asker, needs, target);
                    // Another one's accounts are as good: what counts is what they show.
                    let came = scene.lets(&asker.account, &reference, operation);
                    assert_eq!(came, said, "{} asks a {object} for {operation}, which needs {needs}", asker.title);
                    *(if said { &mut allowed } else { &mut denied }) += 1;
                }
            }
        }
    }
    assert!(allowed > 2_000 && denied > 2_000, "{allowed} allowed, {denied} denied");
    let named: BTreeSet<_> = rows.iter().map(|row| row.object).filter(|object| *object != "every object").collect();
    assert_eq!(seen, named, "the document has objects that were not tried, or lacks some");
}

#[test]
fn a_sibling_neither_connects_a_fresh_proxy_nor_takes_the_place_of_a_former_one() {
    for owner in OWNERS {
        let mut scene = Scene::new(owner);
        let others = askers(&scene.accounts, owner);
        let fresh: Vec<Ior> =
            scene.objects.iter().filter(|(object, _)| *object == "proxy").map(|(_, ior)| ior.clone()).collect();
        let by = |title: &str| Arc::clone(&others.iter().find(|asker| asker.title.contains(title)).unwrap().account);
        let proxy = &fresh[2];
        let connect = |scene: &mut Scene, who: &Arc<Account>, proxy: &Ior| {
            scene.d.principal = Arc::clone(who);
            scene.d.quick(proxy, "connect_structured_push_consumer", |w| client("consumer").write(w)).map(drop)
        };
        for title in ["a sibling", "another token", "another certificate", "a subscriber"] {
            assert_eq!(connect(&mut scene, &by(title), proxy).unwrap_err().name(), "NO_PERMISSION", "{title}");
        }
        connect(&mut scene, &by("the owner from another address"), proxy).unwrap();
        // An administrator may; what it has connected is its own then.
        let (proxy, chief) = (&fresh[6], by("an administrator"));
        scene.d.principal = Arc::clone(&chief);
        scene.d.quick(proxy, "connect_structured_pull_consumer", |w| Ior::nil().write(w)).unwrap();
        let key = key_of(proxy);
        assert!(scene.lets(&chief, proxy, "suspend_connection"), "{key:?}");
        assert!(!scene.lets(&by("the owner from another address"), proxy, "try_pull_structured_event"));
    }
}

#[test]
fn owners_are_kept_with_what_they_own_also_where_there_were_no_rules() {
    for (owner, had_rules) in OWNERS.into_iter().flat_map(|owner| [(owner, true), (owner, false)]) {
        let mut scene = Scene::new(owner);
        if !had_rules {
            let mut d = Dialogue::with(STYLES[5], settings(7));
            d.protocol.guard.set_access(&mut d.protocol.objects, None, &scene.accounts);
            d.principal = account(&scene.accounts, "10.0.0.1", owner);
            let admin = d.made(&d.bootstrap("DefaultEventChannel"), "new_for_consumers", 0).0;
            let proxy = d.made(&admin, "obtain_notification_pull_supplier", 1).0;
            scene = Scene { d, objects: vec![("admin", admin), ("proxy", proxy)], ..scene };
        }
        let topology = scene.d.protocol.objects.topology();
        let mut after = Dialogue::with(STYLES[5], settings(8));
        after.protocol.guard.set_access(&mut after.protocol.objects, Some(rules()), &scene.accounts);
        after.protocol.restore(&topology).unwrap();
        let objects = scene.objects.clone();
        let mut scene = Scene { d: after, ..scene };
        let mut owned = 0;
        for (object, reference) in objects.iter().filter(|(object, _)| ["admin", "proxy", "filter"].contains(object)) {
            let has = operations_of(servant_of(&scene.d.protocol, &reference.iiop().unwrap().key).unwrap());
            let operation = match *object {
                "admin" | "proxy" if has.contains("set_qos") => "set_qos",
                "filter" => "add_constraints",
                _ => continue,
            };
            for asker in askers(&scene.accounts, owner)
                .iter()
                .filter(|asker| !asker.administers && asker.subscribes && asker.publishes)
            {
                let came = scene.lets(&asker.account, reference, operation);
                assert_eq!(came, asker.is_owner, "{} of a {object}, rules: {had_rules}", asker.title);
                owned += usize::from(came);
            }
        }
        assert!(owned > 3);
    }
}

/// With the right to subscribe a client could make an admin and grant its consumers there what only the channel's administrators are to
/// grant: to have suppliers wait for as long as they like.
#[test]
fn an_admins_owner_grants_its_consumers_nothing_that_others_pay_for() {
    let accounts = Accounts::new(Ceilings::new(100));
    let subscriber = account(&accounts, "10.0.3.1", Shown::Nothing);
    let chief = account(&accounts, "10.0.4.1", Shown::Token("chief"));
    let mut d = Dialogue::with(STYLES[5], settings(7));
    d.protocol.guard.set_access(&mut d.protocol.objects, Some(rules()), &accounts);
    d.principal = Arc::clone(&subscriber);
    let channel = d.bootstrap("DefaultEventChannel");
    let admin = d.made(&channel, "new_for_consumers", 0).0;
    let text = |name: &str| AnyValue::from(name);
    let minutes = |count: u64| AnyValue::from(count * 600_000_000);
    let mut ask = |by: &Arc<Account>, operation: &str, property: &str, value: AnyValue| {
        d.principal = Arc::clone(by);
        let asked = d.quick(&admin, operation, |w| {
            w.u32(1);
            w.string(property);
            value.write(w).unwrap();
        });
        (
            asked.map(drop).map_err(|thrown| thrown.name().to_owned()),
            d.protocol.guard.poll_denied().map(|denied| denied.right),
        )
    };
    let denied = (Err("NO_PERMISSION".to_owned()), Some(Some(access::Right::Administer)));
    for (property, value) in [
        ("HoldGranted", true.into()),
        ("HoldTimeout", minutes(0)),
        ("HoldTimeout", minutes(10)),
        ("FullOutbox", text("Reject")),
    ] {
        for operation in ["set_qos", "validate_qos"] {
            assert_eq!(ask(&subscriber, operation, property, value.clone()), denied, "{property}");
        }
    }
    for (property, value) in [
        ("HoldGranted", false.into()),
        ("HoldTimeout", 10_000_000_u64.into()),
        ("FullOutbox", text("Hold")),
        ("FullOutbox", text("Discard")),
    ] {
        assert_eq!(ask(&subscriber, "set_qos", property, value), (Ok(()), None), "{property}");
    }
    assert_eq!(ask(&chief, "set_qos", "HoldGranted", true.into()), (Ok(()), None));
    // What is so is so whatever else its owner sets.
    assert_eq!(ask(&subscriber, "set_qos", "HoldGranted", true.into()), (Ok(()), None));
    assert_eq!(ask(&subscriber, "set_qos", "MaxEventsPerConsumer", 7_i32.into()), (Ok(()), None));
    assert_eq!(ask(&subscriber, "set_qos", "HoldGranted", false.into()), (Ok(()), None));
    assert_eq!(ask(&subscriber, "set_qos", "HoldGranted", true.into()), denied);
}

/// A client that administered a channel of its own could name any other for its dead letters, and so have events put there without a right
/// on it: the service puts them in itself, and checks no right to publish.
#[test]
fn a_channel_gets_dead_letters_only_where_its_administrators_say_so() {
    let accounts = Accounts::new(Ceilings::new(100));
    let gardener = account(&accounts, "10.0.4.1", Shown::Token("gardener"));
    let chief = account(&accounts, "10.0.4.1", Shown::Token("chief"));
    let rule = |who: &str, on: &[&str]| RuleText {
        who: vec![who.to_owned()],
        may: ["publish", "subscribe", "administer"].map(str::to_owned).to_vec(),
        on: on.iter().map(|on| (*on).to_owned()).collect(),
        allow: true,
        ..RuleText::default()
    };
    let rules = Rules::parse(&[rule("token:chief", &["*"]), rule("token:gardener", &["garden*"])]).unwrap();
    let mut d = Dialogue::with(STYLES[5], settings(7));
    d.protocol.guard.set_access(&mut d.protocol.objects, rules, &accounts);
    let factory = d.bootstrap("NotificationService");
    let property = |to: i32, w: &mut giop::cdr::Writer<'_>| {
        w.u32(1);
        w.string("DeadLetterChannel");
        AnyValue::from(to).write(w).unwrap();
    };
    let create = |d: &mut Dialogue, by: &Arc<Account>, name: &str, to: Option<i32>| {
        d.principal = Arc::clone(by);
        let made = d.quick(&factory, "create_named_channel", |w| {
            w.u32(0);
            match to {
                Some(to) => property(to, w),
                None => w.u32(0),
            }
            w.string(name);
        });
        made.map(|made| made.read(|r| (Ior::read(r).unwrap(), r.i32().unwrap())))
            .map_err(|thrown| thrown.name().to_owned())
    };
    let set = |d: &mut Dialogue, by: &Arc<Account>, channel: &Ior, operation: &str, to: i32| {
        d.principal = Arc::clone(by);
        let set = d.quick(channel, operation, |w| property(to, w));
        set.map(drop).map_err(|thrown| thrown.name().to_owned())
    };
    let (garden, _) = create(&mut d, &gardener, "garden", None).unwrap();
    let (_, grave) = create(&mut d, &gardener, "garden grave", None).unwrap();
    let (_, others) = create(&mut d, &chief, "vault", None).unwrap();
    let denied = || Err("NO_PERMISSION".to_owned());
    // The answer does not say whether there is such a channel.
    for to in [others, 0, 99] {
        for operation in ["set_admin", "set_qos", "validate_qos"] {
            assert_eq!(set(&mut d, &gardener, &garden, operation, to), denied(), "{operation} {to}");
        }
        assert_eq!(create(&mut d, &gardener, "garden gate", Some(to)).map(drop), denied());
    }
    assert_eq!(set(&mut d, &gardener, &garden, "set_admin", grave), Ok(()));
    assert_eq!(set(&mut d, &chief, &garden, "set_admin", others), Ok(()));
    // What is so is so whatever else is set.
    assert_eq!(set(&mut d, &gardener, &garden, "set_admin", others), Ok(()));
    assert_eq!(set(&mut d, &gardener, &garden, "set_admin", -1), Ok(()));
    assert_eq!(set(&mut d, &gardener, &garden, "set_admin", others), denied());
}

//! Offers and subscriptions: which clients are notified, of what, and when.

use super::dialogue::{
    Dialogue, Expect, PUSH_CONSUMER, PUSH_SUPPLIER, STYLES, client, settings, somebody, write_types,
};
use super::proxies::{every_proxy, new_channel};
use crate::{ClientAnswer, ClientCall, Effect, ProtocolSettings};
use engine::HierarchyLimits;
use giop::cdr::{Encoding, Endian, Reader};
use giop::ior::Ior;

const ALL_NOW_UPDATES_OFF: u32 = 0;
const ALL_NOW_UPDATES_ON: u32 = 1;
const NONE_NOW_UPDATES_OFF: u32 = 2;
const NONE_NOW_UPDATES_ON: u32 = 3;

type Types = Vec<(String, String)>;

fn read_types(r: &mut Reader<'_>) -> Types {
    (0..r.u32().unwrap()).map(|_| (r.text().unwrap(), r.text().unwrap())).collect()
}

fn types(types: &[(&str, &str)]) -> Types {
    types.iter().map(|(domain, name)| ((*domain).to_owned(), (*name).to_owned())).collect()
}

/// A call of a client that waits for an answer.
#[derive(Debug)]
struct Notified {
    client_call: ClientCall,
    whom: String,
    operation: &'static str,
    added: Types,
    removed: Types,
}

struct Scene {
    d: Dialogue,
    channel: Ior,
    consumers: Ior,
    suppliers: Ior,
}

impl Scene {
    fn new() -> Self {
        Self::with(Dialogue::new(STYLES[5]))
    }

    /// One that changes and tells lists of event types as TAO does.
    fn as_tao() -> Self {
        let hierarchy = HierarchyLimits { tao_event_types: true, ..HierarchyLimits::default() };
        Self::with(Dialogue::with(STYLES[5], ProtocolSettings { hierarchy, ..settings(1) }))
    }

    fn with(mut d: Dialogue) -> Self {
        let channel = new_channel(&mut d);
        let consumers = d.made(&channel, "new_for_consumers", 0).0;
        let suppliers = d.made(&channel, "new_for_suppliers", 0).0;
        Self { d, channel, consumers, suppliers }
    }

    fn consumer(&mut self, name: &str) -> Ior {
        self.d.connected(&self.consumers, PUSH_CONSUMER, &client(name))
    }

    fn supplier(&mut self, name: &str) -> Ior {
        self.d.connected(&self.suppliers, PUSH_SUPPLIER, &client(name))
    }

    fn change(&mut self, object: &Ior, operation: &str, added: &[(&str, &str)], removed: &[(&str, &str)]) {
        let write = |w: &mut giop::cdr::Writer<'_>| {
            write_types(added, w);
            write_types(removed, w);
        };
        self.d.call(object, operation, write).unwrap();
    }

    /// Says that a proxy or admin is for these types only.
    fn only(&mut self, object: &Ior, operation: &str, requested: &[(&str, &str)]) {
        self.change(object, operation, requested, &[("*", "*")]);
    }

    /// Ends the batch, and gives what clients are notified of after it.
    fn notified(&mut self) -> Vec<Notified> {
        self.d.protocol.publish();
        let effects = self.d.effects().into_iter().filter_map(|effect| match effect {
            Effect::Ask { client_call, to, operation, body, .. } if operation != "_non_existent" => {
                let whom = String::from_utf8(to.iiop().unwrap().key.clone()).unwrap();
                let mut r = Reader::new(&body, Encoding::new(Endian::NATIVE));
                let (added, removed) = (read_types(&mut r), read_types(&mut r));
                r.finish("a change").unwrap();
                Some(Notified { client_call, whom, operation, added, removed })
            }
            _ => None,
        });
        effects.collect()
    }

    /// The same, with each client answering at once; without the questions.
    fn heard(&mut self) -> Vec<(String, &'static str, Types, Types)> {
        let notified = self.notified();
        for notified in &notified {
            self.d.protocol.handle_answer(notified.client_call, ClientAnswer::Returned(None));
        }
        notified
            .into_iter()
            .map(|notified| (notified.whom, notified.operation, notified.added, notified.removed))
            .collect()
    }

    fn obtain(&mut self, proxy: &Ior, operation: &str, mode: u32) -> Types {
        self.d.call(proxy, operation, |w| w.u32(mode)).unwrap().read(read_types)
    }
}

/// Every proxy answers in every mode, connected or not.
pub(super) fn obtaining(d: &mut Dialogue) {
    let channel = new_channel(d);
    let consumers = d.object(&channel, "for_consumers");
    let suppliers = d.object(&channel, "for_suppliers");
    for (admin, obtain, connect, change) in [
        (&consumers, "obtain_notification_pull_supplier", "connect_any_pull_consumer", "subscription_change"),
        (&suppliers, "obtain_notification_push_consumer", "connect_any_push_supplier", "offer_change"),
    ] {
        let proxy = d.made(admin, obtain, 0).0;
        d.give(&proxy, connect, &Ior::nil()).unwrap();
        let write = |w: &mut giop::cdr::Writer<'_>| {
            write_types(&[("Telecom", "Alarm"), ("A", "b*")], w);
            write_types(&[("", "%ALL")], w);
        };
        d.call(&proxy, change, write).unwrap();
    }
    for proxy in every_proxy(d, &channel) {
        let consumes = proxy.type_id.ends_with("Supplier:1.0");
        let operation = if consumes { "obtain_offered_types" } else { "obtain_subscription_types" };
        for mode in [ALL_NOW_UPDATES_OFF, ALL_NOW_UPDATES_ON, NONE_NOW_UPDATES_OFF, NONE_NOW_UPDATES_ON] {
            let obtained = d.call(&proxy, operation, |w| w.u32(mode)).unwrap().read(read_types);
            let all = types(&[("A", "b*"), ("Telecom", "Alarm")]);
            assert_eq!(obtained, if mode < NONE_NOW_UPDATES_OFF { all } else { vec![] });
        }
        d.call(&proxy, operation, |w| w.u32(4)).raises("MARSHAL");
    }
}

#[test]
fn a_side_learns_what_the_other_offers_and_subscribes_and_that_it_is_gone() {
    let mut scene = Scene::new();
    let supplier = scene.supplier("supplier");
    let consumer = scene.consumer("consumer");
    let all = || types(&[("*", "*")]);
    // The consumer did not say what it wants, so it wants everything, as the supplier takes for granted; and the supplier
    // did not say what it offers.
    assert_eq!(scene.heard(), []);
    let requested = types(&[("ALMA", "Temperature"), ("ALMA", "Wind")]);
    scene.only(&consumer, "subscription_change", &[("ALMA", "Temperature"), ("ALMA", "Wind")]);
    assert_eq!(scene.heard(), [("supplier".to_owned(), "subscription_change", requested.clone(), vec![])]);
    // From here on it knows what is wanted.
    let other = scene.consumer("other");
    assert_eq!(scene.heard(), [("supplier".to_owned(), "subscription_change", all(), requested.clone())]);
    scene.d.get(&other, "disconnect_structured_push_supplier");
    assert_eq!(scene.heard(), [("supplier".to_owned(), "subscription_change", requested.clone(), all())]);
    scene.only(&supplier, "offer_change", &[("ALMA", "Wind")]);
    scene.change(&supplier, "offer_change", &[("ALMA", "Rain")], &[("ALMA", "Wind")]);
    let offered = types(&[("ALMA", "Rain")]);
    assert_eq!(scene.heard(), [("consumer".to_owned(), "offer_change", offered, vec![])], "once for a batch");
    scene.d.get(&consumer, "disconnect_structured_push_supplier");
    assert_eq!(scene.heard(), [("supplier".to_owned(), "subscription_change", vec![], requested)]);
    assert_eq!(scene.heard(), []);
}

#[test]
fn only_what_all_clients_of_a_side_say_together_counts() {
    let mut scene = Scene::new();
    let supplier = scene.supplier("supplier");
    let (one, other) = (scene.consumer("one"), scene.consumer("other"));
    scene.only(&one, "subscription_change", &[("A", "x"), ("A", "y")]);
    scene.only(&other, "subscription_change", &[("A", "y"), ("B", "z")]);
    let notified = scene.heard();
    assert_eq!(
        notified[0],
        ("supplier".into(), "subscription_change", types(&[("A", "x"), ("A", "y"), ("B", "z")]), vec![])
    );
    // What another consumer still wants is still wanted.
    scene.change(&other, "subscription_change", &[], &[("A", "y"), ("B", "z")]);
    assert_eq!(scene.heard(), [("supplier".into(), "subscription_change", vec![], types(&[("B", "z")]))]);
    // A suspended consumer wants its events later.
    scene.d.get(&one, "suspend_connection");
    assert_eq!(scene.heard(), []);
    assert_eq!(
        scene.obtain(&supplier, "obtain_subscription_types", ALL_NOW_UPDATES_ON),
        types(&[("A", "x"), ("A", "y")])
    );
    // A consumer that wants everything makes the others' wishes immaterial.
    scene.consumer("greedy");
    let notified = scene.heard();
    assert_eq!(
        notified,
        [("supplier".into(), "subscription_change", types(&[("*", "*")]), types(&[("A", "x"), ("A", "y")]))]
    );
}

#[test]
fn an_admin_speaks_for_its_proxies() {
    let mut scene = Scene::new();
    let supplier = scene.supplier("supplier");
    let consumer = scene.consumer("consumer");
    let admin = scene.consumers.clone();
    scene.only(&admin, "subscription_change", &[("A", "t*"), ("B", "*")]);
    let all = |scene: &mut Scene| scene.obtain(&supplier, "obtain_subscription_types", ALL_NOW_UPDATES_ON);
    assert_eq!(all(&mut scene), types(&[("A", "t*"), ("B", "*")]));
    // Both have to want an event (AND): what is left is what they have in common.
    scene.only(&consumer, "subscription_change", &[("*", "temperature"), ("C", "*")]);
    assert_eq!(all(&mut scene), types(&[("A", "temperature"), ("B", "temperature")]));
    // With OR either list will do.
    let channel = scene.channel.clone();
    scene.consumers = scene.d.made(&channel, "new_for_consumers", 1).0;
    let either = scene.consumer("either");
    let admin = scene.consumers.clone();
    scene.only(&admin, "subscription_change", &[("D", "d")]);
    scene.only(&either, "subscription_change", &[("E", "e")]);
    let expected = [("A", "temperature"), ("B", "temperature"), ("D", "d"), ("E", "e")];
    assert_eq!(all(&mut scene), types(&expected));
    // A supplier that says nothing offers what its admin says.
    let suppliers = scene.suppliers.clone();
    scene.only(&suppliers, "offer_change", &[("A", "a")]);
    assert_eq!(scene.obtain(&consumer, "obtain_offered_types", ALL_NOW_UPDATES_ON), types(&[("A", "a")]));
    scene.only(&supplier, "offer_change", &[("B", "b")]);
    assert_eq!(scene.obtain(&consumer, "obtain_offered_types", ALL_NOW_UPDATES_ON), types(&[("B", "b")]));
}

/// ALMA's consumers make a proxy and only ever add: TAO and omniNotify take them to want what they added, and notify suppliers of that.
/// Here they went on getting the whole channel, and no supplier was notified. The other way round a supplier that added an offer announced
/// everything, so that no later offer was news.
#[test]
fn what_a_fresh_proxy_or_admin_adds_is_what_it_subscribes_or_offers_and_the_others_are_notified() {
    let mut scene = Scene::new();
    let supplier = scene.supplier("supplier");
    let admin = scene.consumers.clone();
    let proxy = scene.d.made(&admin, "obtain_notification_push_supplier", 1).0;
    scene.change(&proxy, "subscription_change", &[("d", "A")], &[]);
    scene.d.give(&proxy, "connect_structured_push_consumer", &client("consumer")).unwrap();
    assert_eq!(scene.heard(), [("supplier".into(), "subscription_change", types(&[("d", "A")]), vec![])]);
    let offered = |scene: &mut Scene, added: &[(&str, &str)]| {
        scene.change(&supplier, "offer_change", added, &[]);
        assert_eq!(scene.heard(), [("consumer".into(), "offer_change", types(added), vec![])]);
    };
    offered(&mut scene, &[("d", "A")]);
    offered(&mut scene, &[("d", "B")]);

    // The same on the admins, before their proxies are made.
    let mut scene = Scene::new();
    let (consumers, suppliers) = (scene.consumers.clone(), scene.suppliers.clone());
    scene.change(&consumers, "subscription_change", &[("d", "A")], &[]);
    scene.change(&suppliers, "offer_change", &[("d", "*B")], &[]);
    let consumer = scene.consumer("consumer");
    let supplier = scene.supplier("supplier");
    let all = |scene: &mut Scene, object, operation| scene.obtain(object, operation, ALL_NOW_UPDATES_ON);
    assert_eq!(all(&mut scene, &supplier, "obtain_subscription_types"), types(&[("d", "A")]));
    assert_eq!(all(&mut scene, &consumer, "obtain_offered_types"), types(&[("d", "*B")]));
    // Everything that is named is everything.
    scene.change(&consumers, "subscription_change", &[("*", "*")], &[("d", "A")]);
    scene.change(&consumers, "subscription_change", &[("d", "C")], &[]);
    assert_eq!(all(&mut scene, &supplier, "obtain_subscription_types"), types(&[("*", "*")]));
}

/// A client that asks what there is before it connects was not notified of what changed in between: it had asked, so it was
/// not asked to ask again, and what it knows began anew when it connected.
#[test]
fn what_changes_between_asking_and_connecting_is_reported() {
    for (mode, now) in [(ALL_NOW_UPDATES_ON, vec![("d", "A")]), (NONE_NOW_UPDATES_ON, vec![])] {
        let mut scene = Scene::new();
        let supplier = scene.supplier("supplier");
        scene.change(&supplier, "offer_change", &[("d", "A")], &[]);
        let admin = scene.consumers.clone();
        let proxy = scene.d.made(&admin, "obtain_notification_push_supplier", 1).0;
        assert_eq!(scene.obtain(&proxy, "obtain_offered_types", mode), types(&now));
        scene.change(&supplier, "offer_change", &[("d", "B")], &[("d", "A")]);
        scene.d.give(&proxy, "connect_structured_push_consumer", &client("consumer")).unwrap();
        let notified: Vec<_> = scene.heard().into_iter().filter(|notified| notified.0 == "consumer").collect();
        let expected = ("consumer".into(), "offer_change", types(&[("d", "B")]), types(&[("d", "A")]));
        assert_eq!(notified, [expected], "{mode}");
    }
}

/// JacORB's own clients for its tests (`StructuredEventChannelTest`) connect both sides, switch updates on without asking what there is,
/// and then have one side add a type: they expect that the other is notified of exactly that type. A supplier was also notified that
/// everything is wanted, because the consumer that had just connected had not said anything yet.
#[test]
fn clients_that_connect_first_and_then_ask_are_notified_of_what_is_named_and_of_nothing_else() {
    for mode in [ALL_NOW_UPDATES_OFF, ALL_NOW_UPDATES_ON, NONE_NOW_UPDATES_OFF, NONE_NOW_UPDATES_ON] {
        let mut scene = Scene::new();
        let supplier = scene.supplier("supplier");
        let consumer = scene.consumer("consumer");
        assert_eq!(scene.heard(), []);
        let (all_now, updates) = (mode < NONE_NOW_UPDATES_OFF, mode % 2 == 1);
        let everything = if all_now { types(&[("*", "*")]) } else { vec![] };
        assert_eq!(scene.obtain(&supplier, "obtain_subscription_types", mode), everything);
        assert_eq!(scene.obtain(&consumer, "obtain_offered_types", mode), []);
        scene.change(&consumer, "subscription_change", &[("domain1", "type1")], &[]);
        scene.change(&supplier, "offer_change", &[("domain1", "type1")], &[]);
        let named = || types(&[("domain1", "type1")]);
        let expected = [
            ("consumer".to_owned(), "offer_change", named(), vec![]),
            // A supplier that asked knows that everything was wanted.
            ("supplier".to_owned(), "subscription_change", named(), everything),
        ];
        let mut heard = scene.heard();
        heard.sort();
        assert_eq!(heard, if updates { expected.to_vec() } else { vec![] }, "{mode}");
        // Both get what there is now when they ask for it, and are not notified of it again.
        assert_eq!(scene.obtain(&supplier, "obtain_subscription_types", ALL_NOW_UPDATES_ON), named());
        assert_eq!(scene.obtain(&consumer, "obtain_offered_types", ALL_NOW_UPDATES_ON), named());
        assert_eq!(scene.heard(), []);
    }
}

/// The same, asking first: the notification after connecting has the difference to what was known then.
#[test]
fn clients_that_ask_before_they_connect_are_notified_of_what_is_named_and_of_nothing_else() {
    for (mode, everything) in [(ALL_NOW_UPDATES_ON, types(&[("*", "*")])), (NONE_NOW_UPDATES_ON, vec![])] {
        let mut scene = Scene::new();
        let consumer = scene.consumer("consumer");
        let admin = scene.suppliers.clone();
        let proxy = scene.d.made(&admin, "obtain_notification_push_consumer", 1).0;
        assert_eq!(scene.obtain(&proxy, "obtain_subscription_types", mode), everything);
        scene.d.give(&proxy, "connect_structured_push_supplier", &client("supplier")).unwrap();
        assert_eq!(scene.heard(), []);
        scene.change(&consumer, "subscription_change", &[("d", "A")], &[]);
        let expected = ("supplier".to_owned(), "subscription_change", types(&[("d", "A")]), everything);
        assert_eq!(scene.heard(), [expected], "{mode}");
    }
}

/// A supplier that connects while something is wanted is not notified of that, and learns nevertheless when everything is.
#[test]
fn a_supplier_that_may_know_subscriptions_is_notified_that_everything_is_subscribed() {
    let mut scene = Scene::new();
    let consumer = scene.consumer("consumer");
    scene.change(&consumer, "subscription_change", &[("d", "A")], &[]);
    assert_eq!(scene.heard(), []);
    scene.supplier("supplier");
    assert_eq!(scene.heard(), []);
    scene.consumer("greedy");
    let notified = ("supplier".to_owned(), "subscription_change", types(&[("*", "*")]), types(&[("d", "A")]));
    assert_eq!(scene.heard(), [notified]);
}

#[test]
fn the_four_modes_decide_what_is_notified_now_and_later() {
    let mut scene = Scene::new();
    let consumer = scene.consumer("consumer");
    let supplier = scene.supplier("supplier");
    scene.only(&supplier, "offer_change", &[("A", "a")]);
    let offered = |scene: &mut Scene, mode| scene.obtain(&consumer, "obtain_offered_types", mode);
    let notified = |scene: &mut Scene| -> Vec<_> {
        scene
            .heard()
            .into_iter()
            .filter(|notified| notified.0 == "consumer")
            .map(|notified| (notified.2, notified.3))
            .collect()
    };
    assert_eq!(offered(&mut scene, ALL_NOW_UPDATES_OFF), types(&[("A", "a")]));
    scene.change(&supplier, "offer_change", &[("B", "b")], &[]);
    assert_eq!(notified(&mut scene), []);
    assert_eq!(offered(&mut scene, NONE_NOW_UPDATES_OFF), []);
    // Updates begin from what is offered now.
    assert_eq!(offered(&mut scene, NONE_NOW_UPDATES_ON), []);
    assert_eq!(notified(&mut scene), []);
    scene.change(&supplier, "offer_change", &[("C", "c")], &[("A", "a")]);
    assert_eq!(notified(&mut scene), [(types(&[("C", "c")]), types(&[("A", "a")]))]);
    // What is obtained is known, even if it changed in this very batch.
    scene.change(&supplier, "offer_change", &[("D", "d")], &[]);
    assert_eq!(offered(&mut scene, ALL_NOW_UPDATES_ON), types(&[("B", "b"), ("C", "c"), ("D", "d")]));
    assert_eq!(notified(&mut scene), []);
}

#[test]
fn a_client_that_takes_no_changes_is_left_in_peace() {
    let mut scene = Scene::new();
    let supplier = scene.supplier("supplier");
    scene.consumer("deaf");
    let admin = scene.consumers.clone();
    // The Event Service knows nothing of this, whether the proxy or the client is of it.
    let plain = scene.d.object(&admin, "obtain_push_supplier");
    scene.d.give(&plain, "connect_push_consumer", &client("plain")).unwrap();
    let any = scene.d.made(&admin, "obtain_notification_push_supplier", 0).0;
    let old = Ior { type_id: "IDL:omg.org/CosEventComm/PushConsumer:1.0".into(), ..client("old") };
    scene.d.give(&any, "connect_any_push_consumer", &old).unwrap();
    scene.only(&supplier, "offer_change", &[("B", "b")]);
    let notified: Vec<Notified> =
        scene.notified().into_iter().filter(|notified| notified.operation == "offer_change").collect();
    assert_eq!(notified.iter().map(|notified| notified.whom.as_str()).collect::<Vec<_>>(), ["deaf"]);
    scene.d.protocol.handle_answer(notified[0].client_call, ClientAnswer::NotImplemented);
    scene.only(&supplier, "offer_change", &[("A", "a")]);
    assert_eq!(scene.heard(), []);
}

#[test]
fn a_slow_client_has_one_call_and_gets_the_rest_together() {
    let mut scene = Scene::new();
    let consumer = scene.consumer("slow");
    let supplier = scene.supplier("supplier");
    scene.only(&supplier, "offer_change", &[("A", "a")]);
    let mut first = scene.notified();
    let call = first.pop().unwrap();
    assert_eq!((call.whom.as_str(), call.added), ("slow", types(&[("A", "a")])));
    for name in ["b", "c", "d"] {
        scene.change(&supplier, "offer_change", &[("A", name)], &[]);
        assert!(scene.notified().is_empty(), "one call at a time");
    }
    scene.d.protocol.handle_answer(call.client_call, ClientAnswer::Returned(None));
    let rest = scene.heard();
    assert_eq!(rest, [("slow".into(), "offer_change", types(&[("A", "b"), ("A", "c"), ("A", "d")]), vec![])]);
    // For a client that could not be reached the next change includes what it missed.
    scene.change(&supplier, "offer_change", &[("A", "e")], &[]);
    let call = scene.notified().pop().unwrap();
    scene.d.protocol.handle_answer(call.client_call, ClientAnswer::Unreachable);
    assert!(scene.notified().is_empty(), "not again and again");
    scene.change(&supplier, "offer_change", &[], &[("A", "a")]);
    assert_eq!(scene.heard(), [("slow".into(), "offer_change", types(&[("A", "e")]), types(&[("A", "a")]))]);
    // An exception means that the call arrived.
    scene.change(&supplier, "offer_change", &[("A", "f")], &[]);
    let call = scene.notified().pop().unwrap();
    scene.d.protocol.handle_answer(call.client_call, ClientAnswer::Raised);
    assert!(scene.notified().is_empty());
    // One that is gone is found out by this, too.
    scene.change(&supplier, "offer_change", &[("A", "g")], &[]);
    let call = scene.notified().pop().unwrap();
    scene.d.protocol.handle_answer(call.client_call, ClientAnswer::Gone);
    scene.d.call(&consumer, "_non_existent", |_| {}).raises("OBJECT_NOT_EXIST");
}

#[test]
fn a_great_many_clients_are_notified_a_part_at_a_time() {
    let mut scene = Scene::new();
    for number in 0..600 {
        scene.consumer(&format!("consumer {number}"));
    }
    let supplier = scene.supplier("supplier");
    scene.only(&supplier, "offer_change", &[("A", "a")]);
    let mut notified = scene.notified();
    let mut names: Vec<String> = Vec::new();
    let mut rounds = 0;
    while !notified.is_empty() {
        assert!(notified.len() <= 256);
        for call in notified {
            names.push(call.whom);
            scene.d.protocol.handle_answer(call.client_call, ClientAnswer::TimedOut);
        }
        notified = scene.notified();
        rounds += 1;
    }
    names.sort();
    names.dedup();
    assert_eq!((names.len(), rounds), (600, 3));
}

/// With TAO's updates most clients have nothing to hear of a change that they have made themselves: all of them were looked at in one go,
/// without a call to wait for.
#[test]
fn a_great_many_clients_that_hear_nothing_are_looked_at_a_part_at_a_time() {
    let mut scene = Scene::as_tao();
    let suppliers: Vec<Ior> = (0..600).map(|number| scene.supplier(&format!("supplier {number}"))).collect();
    for supplier in &suppliers {
        scene.change(supplier, "offer_change", &[("d", "A")], &[]);
    }
    while !scene.heard().is_empty() {}
    let consumer = scene.consumer("consumer");
    scene.heard();
    assert!(!scene.d.protocol.changes.has_more_to_tell());
    scene.change(&consumer, "subscription_change", &[("d", "A")], &[]);
    let mut rounds = 0;
    loop {
        assert_eq!(scene.heard(), []);
        rounds += 1;
        if !scene.d.protocol.changes.has_more_to_tell() {
            break;
        }
        assert_eq!(scene.d.protocol.poll_timeout(), Some(engine::Time::default()), "it goes on at once");
    }
    assert_eq!(rounds, 3);
}

#[test]
fn too_many_types_are_reported_as_everything() {
    let mut scene = Scene::new();
    let consumer = scene.consumer("consumer");
    for supplier in 0..5 {
        let supplier = scene.supplier(&format!("supplier {supplier}"));
        let names: Vec<String> =
            (0..1000).map(|number| format!("{}{number}", supplier.iiop().unwrap().key.len())).collect();
        let domain = String::from_utf8(supplier.iiop().unwrap().key.clone()).unwrap();
        let offered: Vec<(&str, &str)> = names.iter().map(|name| (domain.as_str(), name.as_str())).collect();
        offer_many(&mut scene, &supplier, &offered);
    }
    assert_eq!(scene.obtain(&consumer, "obtain_offered_types", ALL_NOW_UPDATES_ON), types(&[("*", "*")]));
}

/// Offers more than is cut at every length.
fn offer_many(scene: &mut Scene, supplier: &Ior, offered: &[(&str, &str)]) {
    let mut args = Vec::new();
    let mut w = giop::cdr::Writer::new(&mut args, Encoding::new(Endian::NATIVE));
    write_types(offered, &mut w);
    write_types(&[("*", "*")], &mut w);
    let args = Reader::new(&args, Encoding::new(Endian::NATIVE));
    let key = &supplier.iiop().unwrap().key;
    let call = crate::ObjectRequest { key, operation: "offer_change", args, principal: somebody() };
    let mut reply = Vec::new();
    scene.d.protocol.handle(&call, &mut giop::cdr::Writer::new(&mut reply, Encoding::new(Endian::NATIVE))).unwrap();
}

/// Of 4,096 types of a thousand octets each, every client with a call unanswered has a list of four megabytes.
#[test]
fn types_of_very_long_names_are_reported_as_everything() {
    for (octets, is_everything) in [(1_000, true), (800, false)] {
        let mut scene = Scene::new();
        let consumer = scene.consumer("consumer");
        let supplier = scene.supplier("supplier");
        let names: Vec<String> = (0..300).map(|number| format!("{number:0octets$}")).collect();
        let offered: Vec<(&str, &str)> = names.iter().map(|name| ("d", name.as_str())).collect();
        offer_many(&mut scene, &supplier, &offered);
        let obtained = scene.obtain(&consumer, "obtain_offered_types", ALL_NOW_UPDATES_ON);
        assert_eq!(obtained, if is_everything { types(&[("*", "*")]) } else { types(&offered) });
    }
}

#[test]
fn what_is_destroyed_while_it_is_being_notified_is_forgotten() {
    let mut scene = Scene::new();
    scene.consumer("consumer");
    let supplier = scene.supplier("supplier");
    scene.only(&supplier, "offer_change", &[("A", "a")]);
    let notified = scene.notified();
    assert_eq!(notified.len(), 1);
    let channel = scene.channel.clone();
    scene.d.get(&channel, "destroy");
    for call in notified {
        scene.d.protocol.handle_answer(call.client_call, ClientAnswer::Returned(None));
    }
    assert!(scene.notified().is_empty());
}

/// TAO's own test of updates (`tests/Notify/Basic/Updates.cpp`), in both directions: a consumer that has types adds `*`, and its suppliers
/// learn that the types went, and nothing of `*`. They were sent `*`, which TAO never sends, and a type behind it was no news.
#[test]
fn as_tao_has_it_types_that_were_named_are_reported_and_everything_never_is() {
    let mut scene = Scene::as_tao();
    let consumer = scene.consumer("consumer");
    let supplier = scene.supplier("supplier");
    assert_eq!(scene.heard(), []);
    let colours = |names: &[&'static str]| names.iter().map(|name| (*name, *name)).collect::<Vec<_>>();
    for (whom, speaker, hearer, change, obtain) in [
        ("supplier", &consumer, &supplier, "subscription_change", "obtain_subscription_types"),
        ("consumer", &supplier, &consumer, "offer_change", "obtain_offered_types"),
    ] {
        let mut notified = |added: &[&'static str], removed: &[&'static str]| {
            scene.change(speaker, change, &colours(added), &colours(removed));
            let heard = scene.heard();
            let known = scene.obtain(hearer, obtain, ALL_NOW_UPDATES_ON);
            (heard, known.into_iter().map(|(_, name)| name).collect::<Vec<_>>())
        };
        let news = |added: &[&'static str], removed: &[&'static str]| {
            vec![(whom.to_owned(), change, types(&colours(added)), types(&colours(removed)))]
        };
        let (heard, known) = notified(&["RED", "GREEN", "BLUE"], &["ORANGE", "PINK"]);
        assert_eq!((heard, known.len()), (news(&["BLUE", "GREEN", "RED"], &[]), 3));
        let (heard, known) = notified(&["PURPLE", "GREEN", "BLUE"], &[]);
        assert_eq!((heard, known.len()), (news(&["PURPLE"], &[]), 4));
        let all = ["BLUE", "GREEN", "PURPLE", "RED"];
        assert_eq!(notified(&["*"], &[]), (news(&[], &all), vec![]));
        // Once more it is no news, and a type behind it is.
        assert_eq!(notified(&["*"], &[]), (vec![], vec![]));
        assert_eq!(notified(&["RED"], &[]), (news(&["RED"], &[]), vec!["RED".to_owned()]));
        // Where it is added and removed nothing happens; removed, it takes all.
        assert_eq!(notified(&["*"], &["*"]).0, []);
        assert_eq!(notified(&["BLUE"], &["*"]).0, news(&["BLUE"], &["RED"]));
        assert_eq!(notified(&["*"], &[]).0, news(&[], &["BLUE"]));
    }
}

/// With TAO a client that connects is notified of what there is, unless it has switched updates off; here it was notified
/// of what came later.
#[test]
fn as_tao_has_it_a_client_that_connects_gets_what_is_named() {
    for (mode, is_notified) in [
        (None, true),
        (Some(ALL_NOW_UPDATES_ON), true),
        (Some(NONE_NOW_UPDATES_ON), true),
        (Some(ALL_NOW_UPDATES_OFF), false),
        (Some(NONE_NOW_UPDATES_OFF), false),
    ] {
        let mut scene = Scene::as_tao();
        let (consumer, _greedy) = (scene.consumer("consumer"), scene.consumer("greedy"));
        scene.change(&consumer, "subscription_change", &[("d", "A"), ("d", "%ALL")], &[]);
        assert_eq!(scene.heard(), []);
        let admin = scene.suppliers.clone();
        let proxy = scene.d.made(&admin, "obtain_notification_push_consumer", 1).0;
        mode.into_iter().for_each(|mode| _ = scene.obtain(&proxy, "obtain_subscription_types", mode));
        scene.d.give(&proxy, "connect_structured_push_supplier", &client("supplier")).unwrap();
        // As it was spelt, and what is within another as well.
        let news = ("supplier".to_owned(), "subscription_change", types(&[("d", "%ALL"), ("d", "A")]), vec![]);
        assert_eq!(scene.heard(), if is_notified { vec![news] } else { vec![] }, "{mode:?}");
        scene.d.get(&consumer, "disconnect_structured_push_supplier");
        let gone = ("supplier".to_owned(), "subscription_change", vec![], types(&[("d", "%ALL"), ("d", "A")]));
        assert_eq!(scene.heard(), if is_notified { vec![gone] } else { vec![] }, "{mode:?}");
    }
}

/// TAO's `Peer` leaves out what it takes its client to know or not to care about: of types that came those which it has named itself, of
/// types that went all others.
#[test]
fn as_tao_has_it_a_client_that_has_named_types_gets_what_these_leave() {
    let mut scene = Scene::as_tao();
    let consumer = scene.consumer("consumer");
    let supplier = scene.supplier("supplier");
    scene.change(&supplier, "offer_change", &[("d", "A"), ("d", "B")], &[]);
    assert_eq!(scene.heard().len(), 1);
    let mut notified = |added: &[(&str, &str)], removed: &[(&str, &str)]| {
        scene.change(&consumer, "subscription_change", added, removed);
        scene.heard().into_iter().map(|notified| (notified.2, notified.3)).collect::<Vec<_>>()
    };
    assert_eq!(notified(&[("d", "A")], &[]), [], "it offers that");
    assert_eq!(notified(&[("d", "C")], &[]), [(types(&[("d", "C")]), vec![])]);
    assert_eq!(notified(&[], &[("d", "C")]), [], "it does not offer that");
    assert_eq!(notified(&[], &[("d", "A")]), [(vec![], types(&[("d", "A")]))]);
    assert_eq!(notified(&[("d", "B"), ("d", "D")], &[]), [(types(&[("d", "D")]), vec![])]);
    assert_eq!(notified(&[("*", "*")], &[]), [(vec![], types(&[("d", "B")]))]);
}

/// A proxy of TAO's has its admin's types and its own, and no filter changes what its client is notified of.
#[test]
fn as_tao_has_it_a_proxy_adds_its_types_to_its_admins() {
    let mut scene = Scene::as_tao();
    let supplier = scene.supplier("supplier");
    let admin = scene.consumers.clone();
    scene.change(&admin, "subscription_change", &[("d", "A")], &[]);
    let consumer = scene.consumer("consumer");
    assert_eq!(scene.heard(), [("supplier".into(), "subscription_change", types(&[("d", "A")]), vec![])]);
    scene.change(&consumer, "subscription_change", &[("d", "B")], &[]);
    assert_eq!(scene.heard(), [("supplier".into(), "subscription_change", types(&[("d", "B")]), vec![])]);
    scene.change(&admin, "subscription_change", &[], &[("d", "A")]);
    assert_eq!(scene.heard(), [("supplier".into(), "subscription_change", vec![], types(&[("d", "A")]))]);
    let obtained = scene.obtain(&supplier, "obtain_subscription_types", ALL_NOW_UPDATES_ON);
    assert_eq!(obtained, types(&[("d", "B")]));
}

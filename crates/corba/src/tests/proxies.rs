//! The sixteen kinds of proxies and their clients: which may connect, what each is called with, and which may not.

use super::dialogue::{Dialogue, Expect, STYLES, client, write_empty_event};
use giop::cdr::Writer;
use giop::ior::{IiopProfile, Ior, Profile};
use giop::value::AnyValue;

/// One kind of proxy, by the words of its operations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sort {
    /// Role of the client: `consumer` or `supplier`.
    pub(crate) client: &'static str,
    /// `push` or `pull`.
    direction: &'static str,
    /// `any`, `structured`, `sequence`; empty for the Event Service.
    word: &'static str,
}

impl Sort {
    fn proxy(self) -> &'static str {
        if self.client == "consumer" { "supplier" } else { "consumer" }
    }

    pub(crate) fn obtain(self, d: &mut Dialogue, channel: &Ior) -> Ior {
        let Self { client, direction, .. } = self;
        let admin = d.object(channel, &format!("for_{client}s"));
        let proxy = self.proxy();
        match ["any", "structured", "sequence"].iter().position(|word| *word == self.word) {
            Some(number) => {
                let obtain = format!("obtain_notification_{direction}_{proxy}");
                d.made(&admin, &obtain, u32::try_from(number).unwrap()).0
            }
            None => d.object(&admin, &format!("obtain_{direction}_{proxy}")),
        }
    }

    pub(crate) fn connect(self) -> String {
        let Self { client, direction, word } = self;
        if word.is_empty() {
            format!("connect_{direction}_{client}")
        } else {
            format!("connect_{word}_{direction}_{client}")
        }
    }

    pub(crate) fn disconnect(self, whom: &str) -> String {
        match self.word {
            "" | "any" => format!("disconnect_{}_{whom}", self.direction),
            word => format!("disconnect_{word}_{}_{whom}", self.direction),
        }
    }

    /// Whether this service calls the client to have events travel.
    pub(crate) fn is_called(self) -> bool {
        (self.client == "consumer") == (self.direction == "push")
    }

    /// What a client calls on the proxy to have events travel.
    fn event_calls(self) -> Vec<&'static str> {
        match (self.client, self.direction, self.word) {
            ("supplier", "push", "" | "any") => vec!["push"],
            ("supplier", "push", "structured") => vec!["push_structured_event"],
            ("supplier", "push", _) => vec!["push_structured_events"],
            ("consumer", "pull", "" | "any") => vec!["pull", "try_pull"],
            ("consumer", "pull", "structured") => vec!["pull_structured_event", "try_pull_structured_event"],
            ("consumer", "pull", _) => vec!["pull_structured_events", "try_pull_structured_events"],
            _ => vec![],
        }
    }

    /// What this service calls on the client to have events travel.
    fn operation(self) -> &'static str {
        match (self.client, self.direction, self.word) {
            ("consumer", "push", "" | "any") => "push",
            ("consumer", "push", "structured") => "push_structured_event",
            ("consumer", "push", _) => "push_structured_events",
            ("supplier", "pull", "" | "any") => "try_pull",
            ("supplier", "pull", "structured") => "try_pull_structured_event",
            ("supplier", "pull", _) => "try_pull_structured_events",
            _ => "",
        }
    }

    /// The repository id of the interface that its clients have.
    fn client_type(self) -> String {
        let capital = |word: &str| {
            let (first, rest) = word.split_at(1);
            format!("{}{rest}", first.to_uppercase())
        };
        let tail = format!("{}{}", capital(self.direction), capital(self.client));
        match self.word {
            "" => format!("IDL:omg.org/CosEventComm/{tail}:1.0"),
            "any" => format!("IDL:omg.org/CosNotifyComm/{tail}:1.0"),
            word => format!("IDL:omg.org/CosNotifyComm/{}{tail}:1.0", capital(word)),
        }
    }
}

/// Every kind, the Event Service's last in each direction.
pub(crate) fn sorts() -> Vec<Sort> {
    let mut sorts = Vec::new();
    for client in ["consumer", "supplier"] {
        for direction in ["push", "pull"] {
            for word in ["any", "structured", "sequence", ""] {
                sorts.push(Sort { client, direction, word });
            }
        }
    }
    sorts
}

/// One proxy of each of the twelve kinds of the Notification Service.
pub(crate) fn every_proxy(d: &mut Dialogue, channel: &Ior) -> Vec<Ior> {
    let of_notification = sorts().into_iter().filter(|sort| !sort.word.is_empty());
    of_notification.map(|sort| sort.obtain(d, channel)).collect()
}

pub(crate) fn new_channel(d: &mut Dialogue) -> Ior {
    let factory = d.bootstrap("NotificationService");
    let made = d.call(&factory, "create_channel", |w| w.u64(0)).unwrap();
    Ior::read(&mut made.reader()).unwrap()
}

fn write_event_call(operation: &str, w: &mut Writer<'_>) {
    match operation {
        "push" => w.u32(0),
        "push_structured_event" => write_empty_event(w),
        "push_structured_events" => w.u32(0),
        _ if operation.ends_with("events") => w.i32(10),
        _ => {}
    }
}

/// The life of every kind of connection.
pub(super) fn connections(d: &mut Dialogue) {
    let channel = new_channel(d);
    for sort in sorts() {
        for reference in [Ior::nil(), client("client")] {
            let proxy = sort.obtain(d, &channel);
            let calls = sort.event_calls();
            for call in &calls {
                d.call(&proxy, call, |w| write_event_call(call, w)).raises("Disconnected");
            }
            if reference.is_nil() && sort.is_called() {
                d.give(&proxy, &sort.connect(), &reference).raises("BAD_PARAM");
                d.give(&proxy, &sort.connect(), &client("client")).unwrap();
            } else {
                d.give(&proxy, &sort.connect(), &reference).unwrap();
            }
            d.give(&proxy, &sort.connect(), &client("another")).raises("AlreadyConnected");
            // The event path takes events of connected clients; what it leaves to the protocol came a moment too early.
            for call in &calls {
                d.call(&proxy, call, |w| write_event_call(call, w)).raises("TRANSIENT");
            }
            if sort.is_called() {
                let published = d.protocol.publish().unwrap();
                assert_eq!(published.directory.peers.len(), 1);
                let (_, address) = published.directory.peers.iter().next().unwrap();
                assert_eq!((&address.ior, address.operation), (&client("client"), sort.operation()));
                assert_eq!(address.name, "client.example:4711 client");
            }
            suspensions(d, sort, &proxy, &channel);
            d.get(&proxy, &sort.disconnect(sort.proxy()));
            for gone in calls.iter().copied().chain(["_non_existent"]) {
                d.call(&proxy, gone, |w| write_event_call(gone, w)).raises("OBJECT_NOT_EXIST");
            }
            d.call(&proxy, &sort.disconnect(sort.proxy()), |_| {}).raises("OBJECT_NOT_EXIST");
            assert_eq!(d.notified(), [], "a client that disconnects knows it");
            // A client that was never published and is gone again is nothing new.
            let published = d.protocol.publish();
            assert!(published.map_or(!sort.is_called(), |published| published.directory.peers.is_empty()), "{sort:?}");
        }
    }
}

/// Only proxies that call their clients can be suspended, and only those of the Notification Service.
fn suspensions(d: &mut Dialogue, sort: Sort, connected: &Ior, channel: &Ior) {
    if !sort.is_called() || sort.word.is_empty() {
        for operation in ["suspend_connection", "resume_connection"] {
            d.call(connected, operation, |_| {}).raises("BAD_OPERATION");
        }
        return;
    }
    d.call(connected, "resume_connection", |_| {}).raises("ConnectionAlreadyActive");
    d.get(connected, "suspend_connection");
    d.call(connected, "suspend_connection", |_| {}).raises("ConnectionAlreadyInactive");
    d.get(connected, "resume_connection");
    let idle = sort.obtain(d, channel);
    for operation in ["suspend_connection", "resume_connection"] {
        d.call(&idle, operation, |_| {}).raises("NotConnected");
    }
}

fn typed(type_id: &str) -> Ior {
    Ior { type_id: type_id.into(), ..client("typed") }
}

/// References that say, or show, that they are of something else.
pub(super) fn wrong_references(d: &mut Dialogue) {
    let channel = new_channel(d);
    let own = [channel.clone(), d.bootstrap("NotificationService"), d.object(&channel, "for_consumers")].map(|own| {
        // As they are given out: with the host and port of this service.
        let mut reference = d.protocol.objects.factory_reference();
        if let Some(Profile::Iiop(profile)) = reference.profiles.first_mut() {
            profile.key.clone_from(&own.iiop().unwrap().key);
        }
        reference
    });
    let mut unknown = own[0].clone();
    if let Some(Profile::Iiop(profile)) = unknown.profiles.first_mut() {
        profile.key = b"nobody".to_vec();
    }
    for sort in sorts() {
        let proxy = sort.obtain(d, &channel);
        for reference in own.iter().chain([&unknown]) {
            let reference = Ior { type_id: sort.client_type(), ..reference.clone() };
            d.give(&proxy, &sort.connect(), &reference).raises("BAD_PARAM");
        }
        let unreachable = Ior { type_id: String::new(), profiles: vec![Profile::Other { tag: 4711, data: vec![1] }] };
        if sort.is_called() {
            d.give(&proxy, &sort.connect(), &unreachable).raises("BAD_PARAM");
            for other in sorts() {
                let is_right = other.client_type() == sort.client_type()
                    || (sort.word == "any" && other.word.is_empty() || sort.word.is_empty() && other.word == "any")
                        && (sort.client, sort.direction) == (other.client, other.direction);
                if !is_right {
                    d.give(&proxy, &sort.connect(), &typed(&other.client_type())).raises("TypeError");
                }
            }
        }
        for right in [sort.client_type(), "IDL:someone/DerivedOne:1.0".into()] {
            let proxy = sort.obtain(d, &channel);
            d.give(&proxy, &sort.connect(), &typed(&right)).unwrap();
        }
        if !sort.is_called() {
            // It is never called, so that it does not matter that it cannot be.
            d.give(&proxy, &sort.connect(), &unreachable).unwrap();
        }
    }
}

/// Two proxies that fit each other: one that calls, and one that is called.
fn pairs() -> Vec<(Sort, Sort)> {
    let mut pairs = Vec::new();
    for word in ["any", "structured", "sequence", ""] {
        let pushing = Sort { client: "consumer", direction: "push", word };
        let pushed = Sort { client: "supplier", direction: "push", word };
        let pulling = Sort { client: "supplier", direction: "pull", word };
        let pulled = Sort { client: "consumer", direction: "pull", word };
        pairs.push((pushing, pushed));
        pairs.push((pulling, pulled));
    }
    pairs
}

#[test]
fn one_channel_can_supply_another_by_every_pair_of_proxies_that_fit() {
    for (calling, called) in pairs() {
        let mut d = Dialogue::new(STYLES[5]);
        let (first, second) = (new_channel(&mut d), new_channel(&mut d));
        let (from, to) = if calling.direction == "push" { (&first, &second) } else { (&second, &first) };
        let caller = calling.obtain(&mut d, from);
        let callee = called.obtain(&mut d, to);
        d.give(&caller, &calling.connect(), &callee).unwrap();
        d.give(&callee, &called.connect(), &caller).unwrap();
        // Nothing may come back from the second channel, neither directly nor through a third.
        let third = new_channel(&mut d);
        let on = Sort { client: "consumer", direction: "push", word: "structured" };
        let into = Sort { client: "supplier", direction: "push", word: "structured" };
        let (out, into_third) = (on.obtain(&mut d, &second), into.obtain(&mut d, &third));
        d.give(&out, &on.connect(), &into_third).unwrap();
        for (whence, whither) in [(&second, &first), (&third, &first), (&third, &second), (&first, &first)] {
            let (out, back) = (on.obtain(&mut d, whence), into.obtain(&mut d, whither));
            d.give(&out, &on.connect(), &back).raises("BAD_PARAM");
            d.give(&back, &into.connect(), &out).raises("BAD_PARAM");
        }
        // Once the second channel is gone, nothing can.
        d.get(&second, "destroy");
        let (out, back) = (on.obtain(&mut d, &third), into.obtain(&mut d, &first));
        d.give(&out, &on.connect(), &back).unwrap();
    }
}

/// A dead letter of the first channel went to the second, which supplied the first: it failed there again, and so on without end.
#[test]
fn dead_letters_do_not_come_back_through_channels_that_supply_each_other() {
    let mut d = Dialogue::new(STYLES[5]);
    let [first, second, third] = [(); 3].map(|()| new_channel(&mut d));
    let on = Sort { client: "consumer", direction: "push", word: "structured" };
    let into = Sort { client: "supplier", direction: "push", word: "structured" };
    let link = |d: &mut Dialogue, from: &Ior, to: &Ior| {
        let (out, back) = (on.obtain(d, from), into.obtain(d, to));
        d.give(&out, &on.connect(), &back)
    };
    let bury = |d: &mut Dialogue, channel: &Ior, to: i32| {
        d.quick(channel, "set_admin", |w| {
            w.u32(1);
            w.string("DeadLetterChannel");
            AnyValue::from(to).write(w).unwrap();
        })
    };
    link(&mut d, &second, &third).unwrap();
    bury(&mut d, &first, 2).unwrap();
    // Directly, through a third, and the other way round.
    link(&mut d, &second, &first).raises("BAD_PARAM");
    link(&mut d, &third, &first).raises("BAD_PARAM");
    bury(&mut d, &third, 2).raises("UnsupportedAdmin");
    link(&mut d, &first, &third).unwrap();
    bury(&mut d, &first, -1).unwrap();
    bury(&mut d, &third, 1).raises("UnsupportedAdmin");
    bury(&mut d, &first, 2).unwrap();
}

#[test]
fn a_proxy_of_another_kind_is_no_client() {
    let mut d = Dialogue::new(STYLES[5]);
    let (first, second) = (new_channel(&mut d), new_channel(&mut d));
    let pushing = Sort { client: "consumer", direction: "push", word: "structured" };
    for other in sorts() {
        if other.client == "supplier" && other.direction == "push" && other.word == "structured" {
            continue;
        }
        let caller = pushing.obtain(&mut d, &first);
        let wrong = other.obtain(&mut d, &second);
        d.give(&caller, &pushing.connect(), &wrong).raises("TypeError");
        // Whatever its reference says it is.
        let lying = Ior { type_id: String::new(), ..wrong };
        d.give(&caller, &pushing.connect(), &lying).raises("BAD_PARAM");
    }
}

#[test]
fn a_proxy_of_ours_is_known_under_any_name_of_this_host() {
    let mut d = Dialogue::new(STYLES[5]);
    let channel = new_channel(&mut d);
    let pushing = Sort { client: "consumer", direction: "push", word: "any" };
    let pushed = Sort { client: "supplier", direction: "push", word: "any" };
    let (caller, mut callee) = (pushing.obtain(&mut d, &channel), pushed.obtain(&mut d, &channel));
    if let Some(Profile::Iiop(IiopProfile { host, port, .. })) = callee.profiles.first_mut() {
        (*host, *port) = ("localhost".into(), 99);
    }
    d.give(&caller, &pushing.connect(), &callee).raises("BAD_PARAM");
}

#[test]
fn destroying_tells_every_kind_of_client_by_its_own_operation() {
    let mut d = Dialogue::new(STYLES[5]);
    let channel = new_channel(&mut d);
    let mut expected = Vec::new();
    for sort in sorts() {
        let proxy = sort.obtain(&mut d, &channel);
        let name = format!("{} {} {}", sort.word, sort.direction, sort.client);
        d.give(&proxy, &sort.connect(), &client(&name)).unwrap();
        expected.push((name, sort.disconnect(sort.client)));
        // There is no client to notify.
        let idle = sort.obtain(&mut d, &channel);
        if !sort.is_called() {
            d.give(&idle, &sort.connect(), &Ior::nil()).unwrap();
        }
    }
    d.get(&channel, "destroy");
    let notified: Vec<(String, String)> =
        d.notified().into_iter().map(|(name, operation)| (name, operation.to_owned())).collect();
    assert_eq!(notified, expected);
    assert!(d.protocol.publish().unwrap().directory.peers.is_empty());
}

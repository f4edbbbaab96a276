//! Filters at work, one sentence a test.

use super::*;

/// Events of text such as `n=1;state=up`: each name is a field, a number or a text.
struct Notes;

struct Note<'e>(&'e [u8]);

impl Forms for Notes {
    type Fields<'e> = Note<'e>;

    fn fields<'e>(&'e self, event: &'e Event) -> Note<'e> {
        Note(&event.bytes)
    }
}

impl filter::Fields for Note<'_> {
    fn field<'f>(&'f self, path: &filter::Path, steps: &mut filter::Steps) -> Option<filter::Value<'f>> {
        let filter::Root::Name(name) = &path.root else { return None };
        if !steps.take(1) {
            return None;
        }
        let text = core::str::from_utf8(self.0).ok()?;
        let value = text.split(';').find_map(|field| field.strip_prefix(&**name)?.strip_prefix('='))?;
        Some(match value.parse() {
            Ok(number) => filter::Value::Int(number),
            Err(_) => filter::Value::Text(filter::Text::new(value)),
        })
    }

    fn contains(&self, _: &filter::Path, _: &filter::Value<'_>, _: &mut filter::Steps) -> Option<bool> {
        None
    }

    fn current_time(&self) -> u64 {
        0
    }
}

fn constraint(types: &[(&str, &str)], text: &str, value: i64) -> FilterConstraint {
    let types: Vec<EventType> = types.iter().map(|(domain, name)| EventType::new(*domain, *name)).collect();
    let program = filter::Constraint::parse(text, &filter::Limits::default()).unwrap();
    FilterConstraint { types: types.into(), program: Arc::new(program), value }
}

impl Rig {
    /// A filter of these constraints, for events of any type.
    fn filter(&mut self, texts: &[&str]) -> FilterId {
        let constraints = texts.iter().map(|text| constraint(&[], text, 0)).collect();
        self.filter_of(constraints, None)
    }

    fn filter_of(&mut self, constraints: Vec<FilterConstraint>, default_value: Option<i64>) -> FilterId {
        let filter = self.hierarchy.create_filter(self.channel).unwrap();
        self.hierarchy.set_constraints(filter, constraints, default_value).unwrap();
        filter
    }

    fn attach(&mut self, target: FilterTarget, filter: FilterId) {
        self.hierarchy.add_filter(target, FilterRef::Local(filter)).unwrap();
        self.route();
    }

    /// A connected consumer with a proxy that has a filter of each of these.
    fn filtered(&mut self, filters: &[&[&str]]) -> ProxyKey {
        let key = self.consumer(SettingsPatch::default());
        for texts in filters {
            let filter = self.filter(texts);
            self.attach(FilterTarget::Proxy(key), filter);
        }
        key
    }

    /// An admin and one consumer of it.
    fn admin(&mut self, operator: Operator) -> (FilterTarget, ProxyKey) {
        let (channel, side) = (self.channel, Side::Consumers);
        let admin = self.hierarchy.create_admin(channel, side, operator).unwrap();
        let kind = ProxyKind::default();
        let proxy = self.hierarchy.create_proxy(channel, side, admin, Form(1), kind).unwrap();
        let key = ProxyKey { channel, proxy };
        self.hierarchy.connect(key, Some(Peer(u64::from(proxy.0))), OutputForm(0)).unwrap();
        (FilterTarget::Admin { channel, side, admin }, key)
    }

    fn pending_event(&mut self, text: &str) -> PendingEvent {
        self.pending_event_of("name", text)
    }

    fn pending_event_of(&mut self, name: &str, text: &str) -> PendingEvent {
        let mut pending_event = self.lane.begin_event();
        pending_event.bytes.extend_from_slice(text.as_bytes());
        self.lane.classify(&mut pending_event, b"domain", name.as_bytes());
        pending_event
    }

    fn hand_in(&mut self, pending_event: PendingEvent) -> Admission {
        self.lane.handle_event(self.source, pending_event, &Notes, self.now)
    }

    /// Hands an event in; returns the consumers that get it, in the order of delivery.
    fn tell(&mut self, text: &str) -> Vec<ProxyKey> {
        let pending_event = self.pending_event(text);
        self.admit_pending_event(pending_event)
    }

    fn tell_of(&mut self, name: &str, text: &str) -> Vec<ProxyKey> {
        let pending_event = self.pending_event_of(name, text);
        self.admit_pending_event(pending_event)
    }

    fn admit_pending_event(&mut self, pending_event: PendingEvent) -> Vec<ProxyKey> {
        let admission = self.hand_in(pending_event);
        let mut got = Vec::new();
        while let Some((key, _, outbox, serial)) = self.poll() {
            got.push(key);
            self.lane.handle_outcome(outbox, serial, Outcome::Delivered, self.now);
        }
        let destinations = u32::try_from(got.len()).unwrap();
        assert_eq!(admission, Admission::Accepted { destinations });
        got
    }

    fn proxy_of_supplier(&self) -> FilterTarget {
        FilterTarget::Proxy(self.source)
    }

    fn admin_of_suppliers(&self) -> FilterTarget {
        FilterTarget::Admin { channel: self.channel, side: Side::Suppliers, admin: AdminId::DEFAULT }
    }
}

// ---- groups ----

#[test]
fn an_event_goes_to_those_whose_filters_it_matches() {
    let mut rig = Rig::plain();
    let one = rig.filtered(&[&["$n == 1"]]);
    let any = rig.consumer(SettingsPatch::default());
    let either = rig.filtered(&[&["$n == 1", "$n == 2"]]);
    let one_of_two = rig.filtered(&[&["$n == 3"], &["$n == 1"]]);
    assert_eq!(rig.tell("n=1"), [one, any, either, one_of_two], "in the consumers' order");
    assert_eq!(rig.tell("n=2"), [any, either]);
    assert_eq!(rig.tell("n=3"), [any, one_of_two]);
    assert_eq!(rig.tell("n=4"), [any]);
}

#[test]
fn an_event_that_passes_no_filter_is_unwanted_and_takes_no_memory() {
    let mut rig = Rig::plain();
    rig.filtered(&[&["$n == 1"]]);
    assert_eq!(rig.tell("n=2"), []);
    assert_eq!((rig.memory(), rig.lane.counters().taken.unwanted), (0, 1));
}

#[test]
fn a_filter_without_constraints_lets_nothing_pass() {
    let mut rig = Rig::plain();
    rig.filtered(&[&[]]);
    assert_eq!(rig.tell("n=1"), []);
    let beside_another = rig.filtered(&[&[], &["$n == 1"]]);
    assert_eq!(rig.tell("n=1"), [beside_another]);
}

#[test]
fn a_missing_field_or_a_wrong_type_does_not_match_and_is_counted() {
    let mut rig = Rig::plain();
    rig.filtered(&[&["$nothing > 1"]]);
    rig.filtered(&[&["$n + 1 == 2"]]);
    let other = rig.filtered(&[&["$n == 'one'"]]);
    assert_eq!(rig.tell("n=one"), [other]);
    assert_eq!(rig.lane.counters().filters.failures, 2);
}

#[test]
fn filters_of_an_admin_and_a_proxy_must_both_match_or_either() {
    for (operator, wanted) in [(Operator::And, [true, false, false, false]), (Operator::Or, [true, true, true, false])]
    {
        let mut rig = Rig::plain();
        let (admin, key) = rig.admin(operator);
        let (own, of_admin) = (rig.filter(&["$own == 1"]), rig.filter(&["$admin == 1"]));
        rig.attach(FilterTarget::Proxy(key), own);
        rig.attach(admin, of_admin);
        let told = ["own=1;admin=1", "own=1;admin=0", "own=0;admin=1", "own=0;admin=0"].map(|text| rig.tell(text));
        assert_eq!(told.map(|got| got == [key]), wanted, "{operator:?}");
    }
}

#[test]
fn subscriptions_of_an_admin_and_a_proxy_must_both_let_an_event_pass_or_either() {
    // Subscribed by the proxy, by its admin; passes under AND, under OR.
    let both = [(true, true, [true, true]), (true, false, [false, true]), (false, true, [false, true])];
    let none = [(false, false, [false, false])];
    for (own, of_admin, wanted) in both.into_iter().chain(none) {
        let passes = [Operator::And, Operator::Or].map(|operator| {
            let mut rig = Rig::plain();
            let (admin, key) = rig.admin(operator);
            let FilterTarget::Admin { channel, side, admin } = admin else { panic!("an admin") };
            let of_admin_target = SubscriptionTarget::Admin { channel, side, admin };
            for (target, wants) in [(SubscriptionTarget::Proxy(key), own), (of_admin_target, of_admin)] {
                let types = [EventType::new("domain", if wants { "na*" } else { "other" })];
                rig.hierarchy.subscribe(target, &types, &[EventType::everything()]).unwrap();
            }
            rig.route();
            rig.tell("n=1") == [key]
        });
        assert_eq!(passes, wanted, "proxy {own}, admin {of_admin}");
    }
}

#[test]
fn a_group_without_filters_and_with_no_subscription_of_its_own_does_not_count() {
    for operator in [Operator::And, Operator::Or] {
        let mut rig = Rig::plain();
        let (admin, key) = rig.admin(operator);
        let filter = rig.filter(&["$n == 1"]);
        rig.attach(admin, filter);
        assert_eq!((rig.tell("n=1"), rig.tell("n=2")), (vec![key], vec![]), "{operator:?}");
        let mut rig = Rig::plain();
        let (_, key) = rig.admin(operator);
        let filter = rig.filter(&["$n == 1"]);
        rig.attach(FilterTarget::Proxy(key), filter);
        assert_eq!((rig.tell("n=1"), rig.tell("n=2")), (vec![key], vec![]), "{operator:?}");
    }
}

#[test]
fn an_admins_filter_decides_for_all_its_proxies() {
    let mut rig = Rig::plain();
    let (admin, first) = rig.admin(Operator::And);
    let FilterTarget::Admin { channel, side, admin: id } = admin else { panic!("an admin") };
    let proxy = rig.hierarchy.create_proxy(channel, side, id, Form(1), ProxyKind::default()).unwrap();
    let second = ProxyKey { channel, proxy };
    rig.hierarchy.connect(second, Some(Peer(9)), OutputForm(0)).unwrap();
    let (all, own) = (rig.filter(&["$n >= 1"]), rig.filter(&["$n == 2"]));
    rig.attach(admin, all);
    rig.attach(FilterTarget::Proxy(second), own);
    assert_eq!((rig.tell("n=1"), rig.tell("n=2")), (vec![first], vec![first, second]));
    assert_eq!(rig.tell("n=0"), []);
}

#[test]
fn a_groups_subscription_and_filters_must_both_let_an_event_pass() {
    let mut rig = Rig::plain();
    let key = rig.filtered(&[&["$n == 1"]]);
    let wanted = [EventType::new("domain", "status")];
    rig.hierarchy.subscribe(SubscriptionTarget::Proxy(key), &wanted, &[EventType::everything()]).unwrap();
    rig.route();
    assert_eq!(rig.tell_of("status", "n=1"), [key]);
    assert_eq!(rig.tell_of("status", "n=2"), []);
    assert_eq!(rig.tell_of("alarm", "n=1"), []);
}

#[test]
fn a_constraint_is_for_its_event_types_only() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    let constraints = vec![
        constraint(&[("domain", "st*"), ("other", "x")], "$n == 1", 0),
        constraint(&[("*", "alarm")], "$n == 2", 0),
        constraint(&[("", "%ALL")], "$n == 3", 0),
        constraint(&[], "$n == 4", 0),
        constraint(&[("domain", "all")], "TRUE", 0),
        constraint(&[("domain", "none")], "", 0),
        constraint(&[("domain", "none")], "FALSE", 0),
    ];
    let filter = rig.filter_of(constraints, None);
    rig.attach(FilterTarget::Proxy(key), filter);
    let mut passes = |name: &str, n: u32| rig.tell_of(name, &format!("n={n}")) == [key];
    assert_eq!([1, 2, 3, 4, 5].map(|n| passes("status", n)), [true, false, true, true, false]);
    assert_eq!([1, 2, 3, 4, 5].map(|n| passes("alarm", n)), [false, true, true, true, false]);
    assert_eq!([1, 2, 3, 4, 5].map(|n| passes("all", n)), [true; 5]);
    assert_eq!([1, 2, 3, 4, 5].map(|n| passes("none", n)), [true; 5], "an empty constraint is a true one");
}

#[test]
fn an_equal_constraint_for_other_event_types_lets_nothing_pass() {
    let mut rig = Rig::plain();
    let keys = [("status", 1), ("alarm", 1), ("alarm", 2)].map(|(name, n)| {
        let key = rig.consumer(SettingsPatch::default());
        let filter = rig.filter_of(vec![constraint(&[("domain", name)], &format!("$n == {n}"), 0)], None);
        rig.attach(FilterTarget::Proxy(key), filter);
        key
    });
    assert_eq!((rig.tell_of("status", "n=1"), rig.tell_of("alarm", "n=1")), (vec![keys[0]], vec![keys[1]]));
    assert_eq!((rig.tell_of("status", "n=2"), rig.tell_of("alarm", "n=2")), (vec![], vec![keys[2]]));
    assert_eq!(rig.lane.counters().filters.evaluations, 6, "one for the first type, two for the second");
}

#[test]
fn types_beyond_the_table_are_filtered_too() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    let filter = rig.filter_of(vec![constraint(&[("domain", "late*")], "$n == 1", 0)], None);
    rig.attach(FilterTarget::Proxy(key), filter);
    for number in 0..65_536 {
        rig.lane.intern(b"d", format!("{number}").as_bytes());
    }
    assert_eq!(rig.tell_of("later", "n=1"), [key]);
    assert_eq!(rig.tell_of("later", "n=2"), []);
    assert_eq!(rig.tell_of("early", "n=1"), []);
}

#[test]
fn a_filter_shared_by_several_changes_for_all_at_once() {
    let mut rig = Rig::plain();
    let filter = rig.filter(&["$n == 1"]);
    let (admin, by_admin) = rig.admin(Operator::And);
    let own = rig.consumer(SettingsPatch::default());
    rig.attach(admin, filter);
    rig.attach(FilterTarget::Proxy(own), filter);
    rig.attach(FilterTarget::Proxy(own), filter);
    assert_eq!(rig.tell("n=1"), [by_admin, own]);
    rig.hierarchy.set_constraints(filter, vec![constraint(&[], "$n == 2", 0)], None).unwrap();
    rig.route();
    assert_eq!((rig.tell("n=1"), rig.tell("n=2")), (vec![], vec![by_admin, own]));
    rig.hierarchy.destroy_filter(filter).unwrap();
    rig.route();
    assert_eq!(rig.tell("n=3"), [by_admin, own], "without filters everything passes");
}

#[test]
fn a_consumer_that_the_lane_gave_up_is_not_chosen() {
    let mut rig = Rig::plain();
    let gone = rig.filtered(&[&["$n == 1"]]);
    let other = rig.filtered(&[&["$n == 1"]]);
    let pending_event = rig.pending_event("n=1");
    rig.hand_in(pending_event);
    let (key, _, outbox, serial) = rig.poll().unwrap();
    assert_eq!(key, gone);
    rig.lane.handle_outcome(outbox, serial, Outcome::Gone, rig.now);
    assert_eq!(rig.answer(Outcome::Delivered), Some(b'n'));
    assert_eq!(rig.tell("n=1"), [other]);
}

#[test]
fn a_consumer_disconnected_to_make_room_is_not_chosen() {
    let mut rig = Rig::new(full(FullOutbox::Disconnect), budget(2 * charge(3)));
    let (lazy, quick) = (rig.filtered(&[&["$n <= 2"]]), rig.filtered(&[&["$n == 3"]]));
    for text in ["n=1", "n=2"] {
        let pending_event = rig.pending_event(text);
        assert_eq!(rig.hand_in(pending_event), Admission::Accepted { destinations: 1 });
    }
    assert_eq!(rig.tell("n=3"), [quick]);
    assert_eq!(rig.stats(lazy).state, OutboxState::Disconnected);
    assert_eq!(rig.tell("n=1"), []);
}

// ---- what it costs ----

#[test]
fn a_constraint_is_asked_once_however_many_have_it() {
    let mut rig = Rig::plain();
    let same: Vec<ProxyKey> = (0..10).map(|_| rig.filtered(&[&["$n == 1"], &["$n == 1", "TRUE == FALSE"]])).collect();
    let filter = rig.filter(&["$n == 1"]);
    rig.attach(rig.proxy_of_supplier(), filter);
    rig.attach(rig.admin_of_suppliers(), filter);
    assert_eq!(rig.tell("n=1"), same);
    let evaluations = rig.lane.counters().filters.evaluations;
    assert!(evaluations <= 2, "once on each side of the channel, not {evaluations} times");
}

#[test]
fn constraints_of_other_event_types_are_never_looked_at() {
    let mut rig = Rig::plain();
    for name in ["a", "b", "c"] {
        let key = rig.consumer(SettingsPatch::default());
        let filter = rig.filter_of(vec![constraint(&[("domain", name)], &format!("$n ~ '{name}'"), 0)], None);
        rig.attach(FilterTarget::Proxy(key), filter);
    }
    rig.tell_of("b", "n=x");
    assert_eq!(rig.lane.counters().filters.evaluations, 1);
    rig.tell_of("d", "n=x");
    assert_eq!(rig.lane.counters().filters.evaluations, 1);
}

#[test]
fn what_is_always_true_is_never_asked() {
    let mut rig = Rig::plain();
    let key = rig.filtered(&[&["TRUE", "$n == 1"]]);
    assert_eq!(rig.tell("n=2"), [key]);
    assert_eq!(rig.lane.counters().filters.evaluations, 0);
}

#[test]
fn filtering_is_cut_when_the_events_steps_are_spent() {
    let limits = ChannelLimits { filter_steps_max: 1, ..ChannelLimits::default() };
    let mut rig = Rig::new(SettingsPatch::default(), limits);
    let unfiltered = rig.consumer(SettingsPatch::default());
    rig.filtered(&[&["$n * 2 + $n * 3 == 5"]]);
    assert_eq!(rig.tell("n=1"), [unfiltered]);
    assert_eq!(rig.lane.counters().filters.cuts, 1);
    let more = ChannelLimits { filter_steps_max: 1_000, ..limits };
    rig.hierarchy.set_limits(rig.channel, more).unwrap();
    rig.route();
    assert_eq!(rig.tell("n=1").len(), 2);
    assert_eq!(rig.lane.counters().filters.cuts, 1);
}

#[test]
fn filtering_takes_no_more_than_the_time_an_event_has_left() {
    let mut rig = Rig::plain();
    rig.filtered(&[&["$n * 2 + $n * 3 == 5"]]);
    let mut tell = |timeout: Option<Duration>| {
        let mut pending_event = rig.pending_event("n=1");
        pending_event.timeout = timeout;
        rig.admit_pending_event(pending_event).len()
    };
    assert_eq!([None, Some(Duration::from_secs(1)), Some(Duration::from_nanos(16))].map(&mut tell), [1, 1, 0]);
    assert_eq!(rig.lane.counters().filters.cuts, 1);
    let short = SettingsPatch { timeout: Some(Some(Duration::from_nanos(20))), ..SettingsPatch::default() };
    rig.hierarchy.set_proxy_settings(rig.source, short).unwrap();
    rig.route();
    assert_eq!(rig.tell("n=1"), [], "nor than its supplier gives it");
}

// ---- the supplier's side ----

#[test]
fn an_event_that_does_not_pass_its_suppliers_filters_is_taken_and_goes_nowhere() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    let filter = rig.filter(&["$n == 1"]);
    rig.attach(rig.proxy_of_supplier(), filter);
    assert_eq!((rig.tell("n=1"), rig.tell("n=2")), (vec![key], vec![]));
    let counters = rig.lane.counters();
    assert_eq!((counters.taken.accepted, counters.taken.filtered, counters.taken.unwanted), (2, 1, 0));
    let other =
        rig.hierarchy.create_proxy(rig.channel, Side::Suppliers, AdminId::DEFAULT, Form(1), ProxyKind::default());
    let other = ProxyKey { channel: rig.channel, proxy: other.unwrap() };
    rig.hierarchy.connect(other, None, OutputForm(0)).unwrap();
    rig.route();
    rig.source = other;
    assert_eq!(rig.tell("n=2"), [key], "another supplier's filters are another's");
}

#[test]
fn a_suppliers_filters_and_its_admins_must_both_match_or_either() {
    for (operator, wanted) in [(Operator::And, [true, false, false, false]), (Operator::Or, [true, true, true, false])]
    {
        let mut rig = Rig::plain();
        rig.consumer(SettingsPatch::default());
        let (channel, side) = (rig.channel, Side::Suppliers);
        let admin = rig.hierarchy.create_admin(channel, side, operator).unwrap();
        let proxy = rig.hierarchy.create_proxy(channel, side, admin, Form(1), ProxyKind::default()).unwrap();
        rig.source = ProxyKey { channel, proxy };
        rig.hierarchy.connect(rig.source, None, OutputForm(0)).unwrap();
        let (own, of_admin) = (rig.filter(&["$own == 1"]), rig.filter(&["$admin == 1"]));
        rig.attach(rig.proxy_of_supplier(), own);
        rig.attach(FilterTarget::Admin { channel, side, admin }, of_admin);
        let told = ["own=1;admin=1", "own=1;admin=0", "own=0;admin=1", "own=0;admin=0"].map(|text| rig.tell(text));
        assert_eq!(told.map(|got| got.len() == 1), wanted, "{operator:?}");
    }
}

#[test]
fn what_a_supplier_offers_does_not_restrict_it() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    let offered = [EventType::new("domain", "other")];
    let target = SubscriptionTarget::Proxy(rig.source);
    rig.hierarchy.subscribe(target, &offered, &[EventType::everything()]).unwrap();
    rig.route();
    assert_eq!(rig.tell("n=1"), [key]);
}

#[test]
fn an_event_awaits_a_clients_filter_and_is_handed_in_again() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    rig.hierarchy.add_filter(rig.proxy_of_supplier(), FilterRef::Remote(Peer(7))).unwrap();
    let filter = rig.filter(&["$n == 1"]);
    rig.attach(rig.proxy_of_supplier(), filter);
    assert_eq!(rig.tell("n=1"), [key], "a filter of ours says yes, so no remote filter is called");
    let pending_event = rig.pending_event("n=2");
    let Admission::AwaitingFilter(mut pending_event, filter_groups) = rig.hand_in(pending_event) else {
        panic!("it is unknown yet")
    };
    assert_eq!(filter_groups, RemoteFilterGroups { proxy: true, admin: false, all: true });
    assert_eq!(rig.lane.counters().taken.accepted, 1);
    pending_event.approved = true;
    assert_eq!(rig.admit_pending_event(pending_event), [key]);
    let mut fresh = rig.lane.begin_event();
    assert!(!fresh.approved, "the next event is not approved because one before it was");
    fresh.bytes.clear();
    rig.lane.abandon_event(fresh);
    let route = rig.hierarchy.snapshot();
    assert_eq!(*route.supplier(rig.source).unwrap().remote_filters[0], [Peer(7)]);
}

// ---- clients' filters on the consumers' side ----

#[test]
fn a_delivery_says_which_clients_filters_are_to_be_asked() {
    type Case = (Operator, &'static str, Option<Option<(bool, bool, bool)>>);
    let cases: [Case; 8] = [
        (Operator::And, "own=1;admin=1", Some(None)),
        (Operator::And, "own=1;admin=0", Some(Some((false, true, true)))),
        (Operator::And, "own=0;admin=1", Some(Some((true, false, true)))),
        (Operator::And, "own=0;admin=0", Some(Some((true, true, true)))),
        (Operator::Or, "own=1;admin=1", Some(None)),
        (Operator::Or, "own=1;admin=0", Some(None)),
        (Operator::Or, "own=0;admin=1", Some(None)),
        (Operator::Or, "own=0;admin=0", Some(Some((true, true, false)))),
    ];
    for (operator, text, expected) in cases {
        let mut rig = Rig::plain();
        let (admin, key) = rig.admin(operator);
        let (own, of_admin) = (rig.filter(&["$own == 1"]), rig.filter(&["$admin == 1"]));
        rig.attach(FilterTarget::Proxy(key), own);
        rig.attach(admin, of_admin);
        for (target, peer) in [(FilterTarget::Proxy(key), 70), (admin, 80)] {
            rig.hierarchy.add_filter(target, FilterRef::Remote(Peer(peer))).unwrap();
        }
        rig.route();
        let pending_event = rig.pending_event(text);
        rig.hand_in(pending_event);
        let asked = rig.lane.poll_delivery(rig.now, &mut Vec::new()).map(|delivery| delivery.ask);
        let expected = expected.map(|ask| ask.map(|(proxy, admin, all)| RemoteFilterGroups { proxy, admin, all }));
        assert_eq!(asked, expected, "{operator:?} {text}");
    }
}

#[test]
fn a_clients_filter_is_not_asked_about_what_cannot_pass() {
    let mut rig = Rig::plain();
    let (admin, key) = rig.admin(Operator::And);
    let filter = rig.filter(&["$n == 1"]);
    rig.attach(admin, filter);
    rig.hierarchy.add_filter(FilterTarget::Proxy(key), FilterRef::Remote(Peer(7))).unwrap();
    rig.route();
    assert_eq!(rig.tell("n=2"), []);
    let wanted = [EventType::new("domain", "status")];
    rig.hierarchy.subscribe(SubscriptionTarget::Proxy(key), &wanted, &[EventType::everything()]).unwrap();
    rig.route();
    assert_eq!(rig.tell_of("alarm", "n=1"), []);
    assert_eq!(rig.tell_of("status", "n=1"), [key]);
}

// ---- mapping filters ----

/// Hands in an event with each of these, and says in which order a consumer gets them: highest priority first.
fn by_priority(rig: &mut Rig, texts: &[&str]) -> Vec<u8> {
    let key = rig.stats_key();
    rig.suspend(key);
    for text in texts {
        let mut pending_event = rig.pending_event(text);
        pending_event.priority = text.strip_suffix('!').map(|_| 5);
        assert_eq!(rig.hand_in(pending_event), Admission::Accepted { destinations: 1 });
    }
    rig.resume(key);
    rig.drain()
}

impl Rig {
    /// The only consumer there is.
    fn stats_key(&self) -> ProxyKey {
        self.lane.outboxes().next().unwrap().key
    }

    fn map(&mut self, target: FilterTarget, mapping: Mapping, filter: FilterId) {
        self.hierarchy.set_mapping(target, mapping, Some(filter)).unwrap();
        self.route();
    }
}

fn priority_order() -> SettingsPatch {
    SettingsPatch { order_policy: Some(OrderPolicy::Priority), ..SettingsPatch::default() }
}

#[test]
fn a_mapping_filter_gives_an_event_the_best_priority_of_those_it_matches() {
    let mut rig = Rig::plain();
    let key = rig.consumer(priority_order());
    let constraints =
        vec![constraint(&[], "$n > 0", 1), constraint(&[], "$n > 1", 9), constraint(&[("d", "x")], "TRUE", 30_000)];
    let filter = rig.filter_of(constraints, Some(3));
    rig.map(FilterTarget::Proxy(key), Mapping::Priority, filter);
    // 9 for b, 5 of its own for d, 3 by default for c, 1 for a.
    assert_eq!(by_priority(&mut rig, &["a=;n=1", "b=;n=2", "c=;n=0", "d=;n=0!"]), *b"bdca");
}

#[test]
fn a_proxys_mapping_filter_counts_before_its_admins() {
    let mut rig = Rig::plain();
    let key = rig.consumer(priority_order());
    let admin = FilterTarget::Admin { channel: rig.channel, side: Side::Consumers, admin: AdminId::DEFAULT };
    let low = rig.filter_of(vec![constraint(&[], "$b == 1", 0), constraint(&[], "$a == 1", 7)], None);
    let high = rig.filter_of(vec![constraint(&[], "$b == 1", 7), constraint(&[], "$a == 1", 0)], None);
    rig.map(admin, Mapping::Priority, low);
    assert_eq!(by_priority(&mut rig, &["b=1", "a=1"]), *b"ab");
    rig.map(FilterTarget::Proxy(key), Mapping::Priority, high);
    assert_eq!(by_priority(&mut rig, &["a=1", "b=1"]), *b"ba");
    rig.hierarchy.set_mapping(FilterTarget::Proxy(key), Mapping::Priority, None).unwrap();
    assert_eq!(by_priority(&mut rig, &["b=1", "a=1"]), *b"ab");
}

#[test]
fn a_mapping_filter_gives_an_event_its_lifetime_for_one_consumer() {
    let mut rig = Rig::plain();
    let (mapped, other) = (rig.consumer(SettingsPatch::default()), rig.consumer(SettingsPatch::default()));
    let second = 1_000_000_000;
    let constraints = vec![constraint(&[], "$n == 1", second), constraint(&[], "$n == 2", 0)];
    let filter = rig.filter_of(constraints, Some(3 * second));
    rig.map(FilterTarget::Proxy(mapped), Mapping::Lifetime, filter);
    for key in [mapped, other] {
        rig.hierarchy.suspend(key).unwrap();
    }
    rig.route();
    for (text, timeout) in [("n=1", Some(60)), ("n=2", Some(60)), ("n=3", Some(60)), ("n=4", None)] {
        let mut pending_event = rig.pending_event(text);
        pending_event.timeout = timeout.map(Duration::from_secs);
        rig.hand_in(pending_event);
    }
    let backlogs = |rig: &Rig| [mapped, other].map(|key| rig.stats(key).backlog_events);
    assert_eq!(backlogs(&rig), [4, 4]);
    rig.advance(Duration::from_secs(1));
    assert_eq!(backlogs(&rig), [3, 4], "the one that is mapped to a second");
    rig.advance(Duration::from_secs(2));
    assert_eq!(backlogs(&rig), [2, 4], "the one that says nothing itself");
    rig.advance(Duration::from_secs(57));
    assert_eq!(backlogs(&rig), [1, 1], "those that say so themselves; what is mapped to 0 never expires");
    assert_eq!(rig.stats(mapped).discards.of(DiscardReason::Expired), 3);
}

#[test]
fn a_mapping_filter_shared_by_many_is_asked_once() {
    let mut rig = Rig::plain();
    let filter = rig.filter_of(vec![constraint(&[], "$n == 1", 5), constraint(&[], "$n == 2", 4)], Some(1));
    for _ in 0..10 {
        let key = rig.consumer(SettingsPatch::default());
        rig.map(FilterTarget::Proxy(key), Mapping::Priority, filter);
    }
    assert_eq!(rig.tell("n=3").len(), 10);
    assert_eq!(rig.lane.counters().filters.evaluations, 2);
}

/// With TAO an admin that combines by OR and has no filters lets everything pass: a filter of its proxy keeps nothing away. Here the
/// proxy's filter decided, and a program in the place of TAO's server got less than it was used to.
#[test]
fn under_or_filters_keep_away_only_what_those_of_both_do_where_that_is_asked_for() {
    for passes in [false, true] {
        let limits = HierarchyLimits { or_passes_without_filters: passes, ..HierarchyLimits::default() };
        let mut rig = Rig::under(limits, SettingsPatch::default(), ChannelLimits::default());
        let (admin, key) = rig.admin(Operator::Or);
        let own = rig.filter(&["$n == 1"]);
        rig.attach(FilterTarget::Proxy(key), own);
        let expected = |passes: bool| if passes { vec![key] } else { vec![] };
        assert_eq!((rig.tell("n=1"), rig.tell("n=2")), (vec![key], expected(passes)));
        // Types are no filters: what is not subscribed to does not come.
        let target = SubscriptionTarget::Proxy(key);
        let elsewhere = [EventType::new("domain", "elsewhere")];
        rig.hierarchy.subscribe(target, &elsewhere, &[EventType::everything()]).unwrap();
        rig.route();
        assert_eq!((rig.tell("n=2"), rig.tell_of("elsewhere", "n=2")), (vec![], expected(passes)));
        rig.hierarchy.subscribe(target, &[EventType::everything()], &elsewhere).unwrap();
        rig.route();
        // Both have filters: either is enough.
        let of_admin = rig.filter(&["$n == 3"]);
        let id = rig.hierarchy.add_filter(admin, FilterRef::Local(of_admin)).unwrap();
        rig.route();
        assert_eq!((rig.tell("n=1"), rig.tell("n=2"), rig.tell("n=3")), (vec![key], vec![], vec![key]));
        rig.hierarchy.remove_filter(admin, id).unwrap();
        rig.route();
        assert_eq!(rig.tell("n=2"), expected(passes));
        // Only the admin has some: the proxy lets everything pass.
        let (admin, other) = rig.admin(Operator::Or);
        rig.attach(admin, of_admin);
        let gets = |who: Vec<ProxyKey>| who.contains(&other);
        assert_eq!((gets(rig.tell("n=2")), gets(rig.tell("n=3"))), (passes, true));
    }
}

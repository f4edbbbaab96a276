//! One name is one channel, whichever client makes it first and by whichever way it is asked for.
//!
//! A channel that the configuration declared had a name in the naming service's root and none that `create_named_channel` or a
//! `corbaloc` knew of: a client made a second channel of that name, programs of one kind published into the one, those of another kind
//! listened to the other, and events were lost without a word.

use super::dialogue::{Dialogue, Expect, STYLES, Thrown, client, key_of, somebody_else};
use super::topology::with_store;
use crate::keys::ObjectKey;
use crate::{Declared, Protocol};
use access::{RuleText, Rules};
use accounts::{Accounts, Ceilings};
use engine::ChannelId;
use giop::cdr::Writer;
use giop::ior::Ior;
use topology::Channel;

const OF_EVENTS: (&str, &str) = ("Weather@DEFAULTDOMAIN", "channels");

fn begin() -> Dialogue {
    Dialogue::with(STYLES[5], with_store(1))
}

/// A service that begins anew with what another one has, and a configuration that declares these channels.
fn restarted(d: &mut Dialogue, declared: &[&str]) -> Dialogue {
    d.effects();
    let mut after = Dialogue::with(STYLES[5], with_store(7));
    let declare =
        |protocol: &mut Protocol| declared.iter().for_each(|name| _ = protocol.declare_channel(name, &[]).unwrap());
    assert_eq!(after.protocol.restore_image(&d.protocol.objects.image(), &somebody_else(), declare), Ok(true));
    after
}

fn create_named(d: &mut Dialogue, name: &str) -> Result<(Ior, ChannelId), Thrown> {
    let factory = d.bootstrap("NotificationService");
    let made = d.quick(&factory, "create_named_channel", |w| {
        w.u64(0);
        w.string(name);
    })?;
    Ok(made.read(|r| (Ior::read(r).unwrap(), ChannelId(r.u32().unwrap()))))
}

fn create(d: &mut Dialogue) -> (Ior, ChannelId) {
    let factory = d.bootstrap("NotificationService");
    let made = d.quick(&factory, "create_channel", |w| w.u64(0)).unwrap();
    made.read(|r| (Ior::read(r).unwrap(), ChannelId(r.u32().unwrap())))
}

/// As a client of omniEvents' does.
fn create_object(d: &mut Dialogue, name: &str) -> Ior {
    let factory = d.bootstrap("EventChannelFactory");
    let made = d.quick(&factory, "create_object", |w| {
        w.u32(1);
        w.string("EventChannel");
        w.string("object interface");
        w.u32(1);
        w.string("InsName");
        w.u32(18);
        w.u32(0);
        w.string(name);
    });
    made.unwrap().read(|r| Ior::read(r).unwrap())
}

fn component((id, kind): (&str, &str), w: &mut Writer<'_>) {
    w.u32(1);
    w.string(id);
    w.string(kind);
}

fn bind(d: &mut Dialogue, how: &str, name: (&str, &str), object: &Ior) {
    let naming = d.bootstrap("NameService");
    d.quick(&naming, how, |w| {
        component(name, w);
        object.write(w);
    })
    .unwrap();
}

fn resolve(d: &mut Dialogue, name: (&str, &str)) -> Result<Ior, Thrown> {
    let naming = d.bootstrap("NameService");
    let found = d.quick(&naming, "resolve", |w| component(name, w))?;
    Ok(found.read(|r| Ior::read(r).unwrap()))
}

/// The number of a channel, which is there.
#[track_caller]
fn number(d: &mut Dialogue, channel: &Ior) -> ChannelId {
    let admin = d.object(channel, "_get_default_consumer_admin");
    match key_of(&admin) {
        ObjectKey::Admin { channel, .. } => channel,
        other => panic!("{other:?}"),
    }
}

fn exported(d: &Dialogue, id: ChannelId) -> Channel {
    d.protocol.objects.topology().channels.into_iter().find(|channel| channel.id == id.0).unwrap()
}

/// Whichever way leads to the channel `Weather`, it leads to this one, and no other is made.
#[track_caller]
fn assert_is_weather(d: &mut Dialogue, channel: ChannelId) {
    for name in [OF_EVENTS, ("Weather@ALMA", "channels"), ("Weather", "channels")] {
        let found = resolve(d, name).unwrap();
        assert_eq!(number(d, &found), channel, "{name:?}");
    }
    let text = d.bootstrap("NameService");
    let found = d.quick(&text, "resolve_str", |w| w.string("Weather@DEFAULTDOMAIN.channels")).unwrap();
    let found = found.read(|r| Ior::read(r).unwrap());
    assert_eq!(number(d, &found), channel);
    let by_key = d.bootstrap("Weather");
    assert_eq!(number(d, &by_key), channel, "by corbaloc");
    let made = create_object(d, "Weather");
    assert_eq!(number(d, &made), channel, "as omniEvents has it");
    assert_eq!(d.protocol.objects.channel_called("Weather"), Some(channel), "as a join of DDS and statistics ask");
    assert_eq!(d.protocol.objects.channel_called(&channel.0.to_string()), Some(channel));
    let outside = d.protocol.objects.reference_of_channel("Weather").unwrap();
    assert_eq!(number(d, &outside), channel, "what is bound in an outside naming service");
    create_named(d, "Weather").map(drop).raises("NameAlreadyUsed");
    let of_that_name = |channel: &&Channel| channel.name.as_deref() == Some("Weather");
    assert_eq!(d.protocol.objects.topology().channels.iter().filter(of_that_name).count(), 1);
}

#[test]
fn a_declared_channel_is_found_by_its_name_and_a_second_one_is_refused() {
    let mut d = begin();
    let declared = d.protocol.declare_channel("Weather", &[]).unwrap();
    assert_is_weather(&mut d, declared);
    let in_root = resolve(&mut d, ("Weather", "")).unwrap();
    assert_eq!(number(&mut d, &in_root), declared);
    assert_eq!(d.protocol.objects.names.channel_name(declared), Some("Weather"));
    let mut after = restarted(&mut d, &["Weather"]);
    assert_is_weather(&mut after, declared);
    let refused = after.protocol.declare_channel("", &[]).unwrap_err();
    assert!(refused.contains("1 to 1024 octets"), "{refused}");
    assert!(after.protocol.declare_channel(&"x".repeat(1025), &[]).is_err());
}

#[test]
fn a_channel_that_a_client_has_made_is_the_one_that_is_declared_under_its_name_later() {
    for is_restarted in [false, true] {
        let mut d = begin();
        let (reference, made) = create_named(&mut d, "Weather").unwrap();
        bind(&mut d, "bind", OF_EVENTS, &reference);
        let properties = [("MaxConsumers".to_owned(), Declared::Number(3))];
        let mut after = if is_restarted { restarted(&mut d, &["Weather"]) } else { d };
        // As when the configuration is read again.
        assert_eq!(after.protocol.declare_channel("Weather", &properties), Ok(made));
        assert_is_weather(&mut after, made);
        let in_root = resolve(&mut after, ("Weather", "")).unwrap();
        assert_eq!(number(&mut after, &in_root), made);
        assert_eq!(exported(&after, made).limits.max_consumers, Some(3));
        assert_eq!(after.protocol.objects.topology().channels.len(), 2, "beside the default channel");
    }
}

/// What an OMG client makes has no name; one that it has bound as a channel of events is what the name means to its programs.
#[test]
fn a_channel_without_a_name_that_is_bound_under_one_gets_it_when_it_is_declared() {
    for place in [("Weather", ""), OF_EVENTS, ("Weather", "channels")] {
        let mut d = begin();
        let (reference, made) = create(&mut d);
        bind(&mut d, "bind", place, &reference);
        assert_eq!(
            (d.protocol.objects.names.channel_name(made), d.protocol.objects.channel_called("Weather")),
            (None, None),
            "{place:?}"
        );
        let mut after = restarted(&mut d, &["Weather"]);
        assert_is_weather(&mut after, made);
    }
}

/// A store of a release that gave declared channels no name: a client has made a second one.
fn old_store_with_two() -> (Dialogue, ChannelId, ChannelId, Ior) {
    let mut d = begin();
    let (reference, declared) = create(&mut d);
    bind(&mut d, "bind", ("Weather", ""), &reference);
    let (reference, second) = create_named(&mut d, "Weather").unwrap();
    bind(&mut d, "bind", OF_EVENTS, &reference);
    bind(&mut d, "bind", ("Weather@ALMA", "channels"), &reference);
    let admin = d.object(&reference, "_get_default_consumer_admin");
    let proxy = d.quick(&admin, "obtain_notification_push_supplier", |w| w.u32(1)).unwrap();
    let (proxy, _) = proxy.read(|r| (Ior::read(r).unwrap(), r.u32().unwrap()));
    d.quick(&proxy, "connect_structured_push_consumer", |w| client("its consumer").write(w)).unwrap();
    (d, declared, second, reference)
}

#[test]
fn of_two_channels_of_one_name_in_an_old_store_the_declared_one_has_it_and_the_other_stays() {
    let (mut d, declared, second, reference) = old_store_with_two();
    let mut after = restarted(&mut d, &["Weather"]);
    for _ in 0..2 {
        assert_is_weather(&mut after, declared);
        let other = exported(&after, second);
        assert_eq!((other.name.as_deref(), other.former_name.as_deref()), (None, Some("Weather")));
        assert!(other.proxies[0].client.is_some(), "its clients stay, and what waits for them");
        assert_eq!(number(&mut after, &reference), second, "and their references lead there");
        after = restarted(&mut after, &["Weather"]);
    }
    // Without the declaration it is the same: the name was given.
    let mut undeclared = restarted(&mut after, &[]);
    assert_is_weather(&mut undeclared, declared);
    after.quick(&reference, "destroy", |_| {}).unwrap();
    let mut after = restarted(&mut after, &["Weather"]);
    assert_is_weather(&mut after, declared);
    assert_eq!(after.protocol.objects.topology().channels.len(), 2);
}

/// Or its clients would lose what waits for them, since no rule named their channel any more.
#[test]
fn rules_of_access_hold_for_a_channel_that_lost_its_name_as_before() {
    let (mut d, _, _, second) = old_store_with_two();
    let mut after = restarted(&mut d, &["Weather"]);
    let declared = resolve(&mut after, ("Weather", "")).unwrap();
    be_subscriber_to_weather(&mut after);
    for (channel, is_allowed) in [(declared, true), (second, true), (after.bootstrap("DefaultEventChannel"), false)] {
        assert_eq!(after.quick(&channel, "new_for_consumers", |w| w.u32(0)).is_ok(), is_allowed);
    }
}

/// A client that may subscribe to channels of that name, and nothing else.
fn be_subscriber_to_weather(d: &mut Dialogue) {
    let accounts = Accounts::new(Ceilings::new(100));
    let rule = RuleText {
        who: vec!["*".into()],
        may: vec!["subscribe".into()],
        on: vec!["Weather".into()],
        allow: true,
        ..RuleText::default()
    };
    d.protocol.guard.set_access(&mut d.protocol.objects, Some(Rules::parse(&[rule]).unwrap().unwrap()), &accounts);
    d.principal = accounts.account_of("10.0.0.1".parse().unwrap());
}

#[test]
fn a_client_that_may_not_know_of_a_channel_is_not_given_it_by_its_name() {
    let mut d = begin();
    d.protocol.declare_channel("Weather", &[]).unwrap();
    d.protocol.declare_channel("Office", &[]).unwrap();
    be_subscriber_to_weather(&mut d);
    resolve(&mut d, OF_EVENTS).unwrap();
    resolve(&mut d, ("Office@DEFAULTDOMAIN", "channels")).map(drop).raises("NotFound");
}

#[test]
fn a_name_is_free_everywhere_when_its_channel_is_gone() {
    let mut d = begin();
    let declared = d.protocol.declare_channel("Weather", &[]).unwrap();
    let reference = resolve(&mut d, ("Weather", "")).unwrap();
    bind(&mut d, "bind", OF_EVENTS, &reference);
    d.quick(&reference, "destroy", |_| {}).unwrap();
    assert_eq!(d.protocol.objects.channel_called("Weather"), None);
    assert_eq!(d.protocol.objects.reference_of_channel("Weather"), None);
    resolve(&mut d, ("Weather", "channels")).map(drop).raises("NotFound");
    let (_, made) = create_named(&mut d, "Weather").unwrap();
    assert_ne!(made, declared);
    // What is bound leads to the former channel, which is gone, and so to the one that has the name now.
    let in_root = resolve(&mut d, ("Weather", "")).unwrap();
    assert_eq!(number(&mut d, &in_root), made);
    assert_is_weather(&mut d, made);
    let mut after = restarted(&mut d, &["Weather"]);
    assert_is_weather(&mut after, made);
}

/// Names that clients bind to something else mean that, until the name is declared.
#[test]
fn what_clients_bind_counts_until_the_configuration_says_otherwise() {
    let mut d = begin();
    let declared = d.protocol.declare_channel("Weather", &[]).unwrap();
    let elsewhere = client("a channel of another service");
    bind(&mut d, "bind", ("Weather@OTHER", "channels"), &elsewhere);
    assert_eq!(resolve(&mut d, ("Weather@OTHER", "channels")).unwrap(), elsewhere);
    let (own, other) = create(&mut d);
    bind(&mut d, "rebind", ("Weather", ""), &own);
    bind(&mut d, "bind", OF_EVENTS, &own);
    let found = resolve(&mut d, OF_EVENTS).unwrap();
    assert_eq!(number(&mut d, &found), other);
    // A declared channel is not taken for another one, neither when the configuration is read again nor at a start.
    for is_restarted in [false, true] {
        let mut after = if is_restarted { restarted(&mut d, &["Weather"]) } else { restarted(&mut d, &[]) };
        assert_eq!(after.protocol.declare_channel("Weather", &[]), Ok(declared));
        assert_is_weather(&mut after, declared);
        let in_root = resolve(&mut after, ("Weather", "")).unwrap();
        assert_eq!(number(&mut after, &in_root), declared);
        assert_eq!(
            resolve(&mut after, ("Weather@OTHER", "channels")).unwrap(),
            elsewhere,
            "that is not this service's"
        );
        assert_eq!(exported(&after, other).name, None);
    }
}

/// Names that look alike are kept apart, and other kinds of names are not looked at.
#[test]
fn only_names_of_channels_stand_for_channels() {
    let mut d = begin();
    let declared = d.protocol.declare_channel("a@b", &[]).unwrap();
    d.protocol.declare_channel("a", &[]).unwrap();
    let found = resolve(&mut d, ("a@b@DEFAULTDOMAIN", "channels")).unwrap();
    assert_eq!(number(&mut d, &found), declared);
    for name in [("a@b", "other"), ("c", "channels"), ("c@a", "channels"), ("a@b@c@DEFAULTDOMAIN", "channels")] {
        resolve(&mut d, name).map(drop).raises("NotFound");
    }
    create_named(&mut d, "c").unwrap();
    resolve(&mut d, ("c", "")).map(drop).raises("NotFound");
    // Nor in other contexts than the root.
    let naming = d.bootstrap("NameService");
    let made = d.quick(&naming, "bind_new_context", |w| component(("within", ""), w)).unwrap();
    let within = made.read(|r| Ior::read(r).unwrap());
    d.quick(&within, "resolve", |w| component(("a@DEFAULTDOMAIN", "channels"), w)).map(drop).raises("NotFound");
}

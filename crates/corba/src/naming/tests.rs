//! The naming service as clients see it.

use super::{NameComponent, NamingLimits};
use crate::tests::dialogue::{Body, Dialogue, Expect, STYLES, Thrown, client, settings};
use giop::cdr::{Reader, Writer};
use giop::ior::Ior;

/// A name from its written form, which has to be one.
fn name(text: &str) -> Vec<NameComponent> {
    super::name::from_text(text).unwrap()
}

fn write(text: &str, w: &mut Writer<'_>) {
    super::write_name(&name(text), w);
}

fn read_name(r: &mut Reader<'_>) -> String {
    let components = (0..r.u32().unwrap()).map(|_| NameComponent { id: r.text().unwrap(), kind: r.text().unwrap() });
    super::name::to_text(&components.collect::<Vec<_>>())
}

fn bind(d: &mut Dialogue, context: &Ior, operation: &str, text: &str, object: &Ior) -> Result<Body, Thrown> {
    d.call(context, operation, |w| {
        write(text, w);
        object.write(w);
    })
}

fn resolve(d: &mut Dialogue, context: &Ior, text: &str) -> Result<Ior, Thrown> {
    Ok(d.call(context, "resolve", |w| write(text, w))?.read(|r| Ior::read(r).unwrap()))
}

/// The reason and the rest of a `NotFound`.
fn not_found<T: std::fmt::Debug>(result: Result<T, Thrown>) -> (u32, String) {
    let thrown = result.unwrap_err();
    assert_eq!(thrown.name(), "NotFound");
    thrown.members.read(|r| (r.u32().unwrap(), read_name(r)))
}

fn listed(r: &mut Reader<'_>) -> Vec<(String, u32)> {
    (0..r.u32().unwrap()).map(|_| (read_name(r), r.u32().unwrap())).collect()
}

fn list(d: &mut Dialogue, context: &Ior, how_many: u32) -> (Vec<(String, u32)>, Ior) {
    let body = d.call(context, "list", |w| w.u32(how_many)).unwrap();
    body.read(|r| (listed(r), Ior::read(r).unwrap()))
}

const MISSING_NODE: u32 = 0;
const NOT_CONTEXT: u32 = 1;
const NOT_OBJECT: u32 = 2;

/// Goes through every operation of `NamingContext` and `BindingIterator`, with every exception of theirs.
pub(crate) fn every_operation(d: &mut Dialogue) {
    let root = d.bootstrap("NameService");
    let (x, y) = (client("x"), client("y"));
    bind(d, &root, "bind", "a.kind", &x).unwrap();
    bind(d, &root, "bind", "a.kind", &y).raises("AlreadyBound");
    assert_eq!(resolve(d, &root, "a.kind").unwrap(), x);
    assert_eq!(not_found(resolve(d, &root, "a")), (MISSING_NODE, "a".into()));
    bind(d, &root, "rebind", "a.kind", &y).unwrap();
    bind(d, &root, "rebind", "b", &x).unwrap();
    assert_eq!(resolve(d, &root, "a.kind").unwrap(), y);

    contexts(d, &root);
    exceptions(d, &root);
    iterators(d, &root);
}

fn contexts(d: &mut Dialogue, root: &Ior) {
    let x = client("x");
    let sub = d.call(root, "bind_new_context", |w| write("sub", w)).unwrap().read(|r| Ior::read(r).unwrap());
    assert_eq!(sub.type_id, "IDL:omg.org/CosNaming/NamingContextExt:1.0");
    d.call(root, "bind_new_context", |w| write("sub", w)).raises("AlreadyBound");
    bind(d, &sub, "bind", "leaf", &x).unwrap();
    assert_eq!(resolve(d, root, "sub/leaf").unwrap(), x);
    bind(d, root, "bind", "sub/other", &x).unwrap();
    assert_eq!(resolve(d, &sub, "other").unwrap(), x);
    assert_eq!(resolve(d, root, "sub").unwrap(), sub);

    let free = d.object(root, "new_context");
    bind(d, root, "bind_context", "sub/free", &free).unwrap();
    bind(d, root, "bind_context", "sub/free", &free).raises("AlreadyBound");
    bind(d, root, "rebind_context", "sub/free", &free).unwrap();
    bind(d, root, "bind", "sub/free/deep", &x).unwrap();
    assert_eq!(resolve(d, &free, "deep").unwrap(), x);
    bind(d, root, "bind_context", "sub/nil", &Ior::nil()).raises("BAD_PARAM");
    bind(d, root, "rebind_context", "sub/nil", &Ior::nil()).raises("BAD_PARAM");

    d.call(&free, "destroy", |_| {}).raises("NotEmpty");
    d.call(&free, "unbind", |w| write("deep", w)).unwrap();
    d.get(&free, "destroy");
    d.call(&free, "new_context", |_| {}).raises("OBJECT_NOT_EXIST");
    // The binding is still there and leads nowhere; the client finds out when it goes there.
    let members = d.call(root, "resolve", |w| write("sub/free/deep", w)).raises("CannotProceed");
    members.read(|r| assert_eq!((Ior::read(r).unwrap(), read_name(r)), (free.clone(), "deep".into())));
    d.call(root, "unbind", |w| write("sub/free", w)).unwrap();
    d.call(root, "unbind", |w| write("sub/other", w)).unwrap();
    d.call(root, "unbind", |w| write("sub/leaf", w)).unwrap();
    d.get(&sub, "destroy");
    d.call(root, "unbind", |w| write("sub", w)).unwrap();
}

fn exceptions(d: &mut Dialogue, root: &Ior) {
    let x = client("x");
    let foreign = client("a naming service elsewhere");
    bind(d, root, "bind_context", "elsewhere", &foreign).unwrap();
    for operation in ["bind", "rebind", "bind_context", "rebind_context"] {
        let members = bind(d, root, operation, "elsewhere/p/q", &x).raises("CannotProceed");
        members.read(|r| assert_eq!((Ior::read(r).unwrap(), read_name(r)), (foreign.clone(), "p/q".into())));
        assert_eq!(not_found(bind(d, root, operation, "no/such/thing", &x)), (MISSING_NODE, "no/such/thing".into()));
        assert_eq!(not_found(bind(d, root, operation, "b/such/thing", &x)), (NOT_CONTEXT, "b/such/thing".into()));
        d.call(root, operation, |w| {
            w.u32(0);
            x.write(w);
        })
        .raises("InvalidName");
    }
    for operation in ["resolve", "unbind", "bind_new_context"] {
        d.call(root, operation, |w| write("elsewhere/p", w)).raises("CannotProceed");
        assert_eq!(not_found(d.call(root, operation, |w| write("no/thing", w))), (MISSING_NODE, "no/thing".into()));
        assert_eq!(not_found(d.call(root, operation, |w| write("b/thing", w))), (NOT_CONTEXT, "b/thing".into()));
        d.call(root, operation, |w| w.u32(0)).raises("InvalidName");
    }
    assert_eq!(not_found(d.call(root, "unbind", |w| write("nothing", w))), (MISSING_NODE, "nothing".into()));
    assert_eq!(not_found(bind(d, root, "rebind", "elsewhere", &x)), (NOT_OBJECT, "elsewhere".into()));
    assert_eq!(not_found(bind(d, root, "rebind_context", "b", &foreign)), (NOT_CONTEXT, "b".into()));
    d.call(root, "unbind", |w| write("elsewhere", w)).unwrap();
    d.call(root, "destroy", |_| {}).raises("NotEmpty");
    let (bound, _) = list(d, root, 1000);
    for (name, _) in bound {
        d.call(root, "unbind", |w| write(&name, w)).unwrap();
    }
    d.call(root, "destroy", |_| {}).raises("NO_PERMISSION");
}

fn iterators(d: &mut Dialogue, root: &Ior) {
    let context = d.object(root, "new_context");
    assert_eq!(list(d, &context, 10), (vec![], Ior::nil()));
    for text in ["c", "a", "e", "b", "d"] {
        bind(d, &context, "bind", text, &client(text)).unwrap();
    }
    bind(d, &context, "bind_context", "f", root).unwrap();
    let entry = |text: &str| (text.to_owned(), u32::from(text == "f"));
    let all: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(entry).to_vec();
    assert_eq!(list(d, &context, 6), (all.clone(), Ior::nil()));
    assert_eq!(list(d, &context, u32::MAX), (all.clone(), Ior::nil()));

    let (first, iterator) = list(d, &context, 2);
    assert_eq!(first, all[..2]);
    let next = |d: &mut Dialogue| {
        let body = d.get(&iterator, "next_one");
        body.read(|r| r.bool().unwrap().then(|| (read_name(r), r.u32().unwrap())).ok_or_else(|| read_binding(r)))
    };
    assert_eq!(next(d).unwrap(), all[2]);
    d.call(&iterator, "next_n", |w| w.u32(0)).raises("BAD_PARAM");
    let some = |d: &mut Dialogue, how_many: u32| {
        let body = d.call(&iterator, "next_n", |w| w.u32(how_many)).unwrap();
        body.read(|r| (r.bool().unwrap(), listed(r)))
    };
    assert_eq!(some(d, 2), (true, all[3..5].to_vec()));
    assert_eq!(some(d, 9), (true, all[5..].to_vec()));
    assert_eq!(some(d, 9), (false, vec![]));
    assert_eq!(next(d).unwrap_err(), (String::new(), 0));
    d.get(&iterator, "destroy");
    d.call(&iterator, "next_one", |_| {}).raises("OBJECT_NOT_EXIST");
}

fn read_binding(r: &mut Reader<'_>) -> (String, u32) {
    (read_name(r), r.u32().unwrap())
}

/// Goes through every operation that `NamingContextExt` adds.
pub(crate) fn every_ext_operation(d: &mut Dialogue) {
    let root = d.bootstrap("NameService");
    let text = r"a\.b/c.kind/.";
    let written = d.call(&root, "to_string", |w| write(text, w)).unwrap().read(|r| r.text().unwrap());
    assert_eq!(written, text);
    let read = d.call(&root, "to_name", |w| w.string(text)).unwrap().read(read_name);
    assert_eq!(read, text);
    d.call(&root, "to_string", |w| w.u32(0)).raises("InvalidName");
    for wrong in ["", "a//b", "a.", r"\x"] {
        d.call(&root, "to_name", |w| w.string(wrong)).raises("InvalidName");
        d.call(&root, "resolve_str", |w| w.string(wrong)).raises("InvalidName");
    }

    let url = |d: &mut Dialogue, address: &str, text: &str| {
        let body = d.call(&root, "to_url", |w| {
            w.string(address);
            w.string(text);
        })?;
        Ok::<_, Thrown>(body.read(|r| r.text().unwrap()))
    };
    assert_eq!(url(d, ":myhost.555xyz.com:9999", "a/b c").unwrap(), "corbaname::myhost.555xyz.com:9999#a/b%20c");
    assert_eq!(url(d, "rir:", "a").unwrap(), "corbaname:rir:#a");
    assert_eq!(url(d, ":host", "").unwrap(), "corbaname::host#");
    for wrong in ["", "host", ":host:99999", "http://x", ":host#x"] {
        assert_eq!(url(d, wrong, "a").unwrap_err().name(), "InvalidAddress", "{wrong}");
    }
    assert_eq!(url(d, ":host", "a..b").unwrap_err().name(), "InvalidName");

    let factory = d.call(&root, "resolve_str", |w| w.string("NotifyEventChannelFactory")).unwrap();
    assert_eq!(factory.read(|r| Ior::read(r).unwrap()), d.protocol.objects.factory_reference());
    assert_eq!(not_found(d.call(&root, "resolve_str", |w| w.string("no/such"))), (MISSING_NODE, "no/such".into()));
}

#[test]
fn the_ways_in_are_bound_from_the_start() {
    let mut d = Dialogue::new(STYLES[4]);
    let root = d.bootstrap("NameService");
    let (bound, iterator) = list(&mut d, &root, 100);
    assert!(iterator.is_nil());
    assert_eq!(bound.len(), super::WELL_KNOWN.len());
    for (id, kind, key) in super::WELL_KNOWN {
        let text = super::name::to_text(&[NameComponent::with_kind(id, kind)]);
        let found = resolve(&mut d, &root, &text).unwrap();
        assert_eq!(found.iiop().unwrap().key, key.to_bytes());
        assert_eq!(d.get(&found, "_repository_id").read(|r| r.text().unwrap()), found.type_id);
    }
    // They are bindings as any others.
    d.call(&root, "unbind", |w| write("NotificationService", w)).unwrap();
    assert_eq!(not_found(resolve(&mut d, &root, "NotificationService")).0, MISSING_NODE);
}

fn limited(limits: NamingLimits) -> Dialogue {
    Dialogue::with(STYLES[5], crate::ProtocolSettings { naming: limits, ..settings(1) })
}

#[test]
fn limits_are_reported_and_nothing_is_half_done() {
    let known = super::WELL_KNOWN.len();
    let mut d = limited(NamingLimits { contexts_max: 2, bindings_max: known + 2, ..NamingLimits::default() });
    let root = d.bootstrap("NameService");
    let sub = d.call(&root, "bind_new_context", |w| write("sub", w)).unwrap().read(|r| Ior::read(r).unwrap());
    d.call(&root, "new_context", |_| {}).raises("IMP_LIMIT");
    d.call(&root, "bind_new_context", |w| write("more", w)).raises("IMP_LIMIT");
    bind(&mut d, &sub, "bind", "one", &client("x")).unwrap();
    bind(&mut d, &sub, "bind", "two", &client("x")).raises("IMP_LIMIT");
    bind(&mut d, &sub, "rebind", "two", &client("x")).raises("IMP_LIMIT");
    bind(&mut d, &sub, "rebind", "one", &client("y")).unwrap();
    d.call(&sub, "unbind", |w| write("one", w)).unwrap();
    bind(&mut d, &root, "bind", "two", &client("x")).unwrap();
    // A failed `bind_new_context` does not use a context up.
    d.get(&sub, "destroy");
    for _ in 0..3 {
        d.call(&root, "bind_new_context", |w| write("two", w)).raises("AlreadyBound");
    }
    d.object(&root, "new_context");
}

#[test]
fn long_names_are_invalid_names() {
    let mut d = limited(NamingLimits { components_max: 2, component_bytes_max: 8, ..NamingLimits::default() });
    let root = d.bootstrap("NameService");
    assert_eq!(not_found(resolve(&mut d, &root, "12345678/b")).0, MISSING_NODE);
    for long in ["a/b/c", "123456789", "1234.56789", "ééééé"] {
        d.call(&root, "resolve_str", |w| w.string(long)).raises("InvalidName");
        d.call(&root, "to_name", |w| w.string(long)).raises("InvalidName");
    }
    d.call(&root, "resolve", |w| write("123456789", w)).raises("InvalidName");
}

#[test]
fn the_oldest_iterator_makes_room_for_one_too_many() {
    let mut d = limited(NamingLimits { iterators_max: 2, ..NamingLimits::default() });
    let root = d.bootstrap("NameService");
    let iterators: Vec<Ior> = (0..3).map(|_| list(&mut d, &root, 0).1).collect();
    d.call(&iterators[0], "next_one", |_| {}).raises("OBJECT_NOT_EXIST");
    d.get(&iterators[1], "next_one");
    d.get(&iterators[2], "next_one");
}

#[test]
fn a_long_listing_comes_in_chunks() {
    let mut d = limited(NamingLimits { listing_max: 3, ..NamingLimits::default() });
    let root = d.bootstrap("NameService");
    let (mut bound, iterator) = list(&mut d, &root, u32::MAX);
    assert_eq!(bound.len(), 3);
    loop {
        let body = d.call(&iterator, "next_n", |w| w.u32(u32::MAX)).unwrap();
        let (any, some) = body.read(|r| (r.bool().unwrap(), listed(r)));
        assert_eq!(any, !some.is_empty());
        bound.extend(some);
        if !any {
            break;
        }
    }
    assert_eq!(bound.len(), super::WELL_KNOWN.len());
    assert!(bound.is_sorted());
}

#[test]
fn an_iterator_lives_with_what_happens_behind_it() {
    let mut d = Dialogue::new(STYLES[5]);
    let root = d.bootstrap("NameService");
    let context = d.object(&root, "new_context");
    for text in ["a", "b", "c"] {
        bind(&mut d, &context, "bind", text, &client(text)).unwrap();
    }
    let (_, iterator) = list(&mut d, &context, 1);
    for text in ["a", "b", "c"] {
        d.call(&context, "unbind", |w| write(text, w)).unwrap();
    }
    bind(&mut d, &context, "bind", "bb", &client("bb")).unwrap();
    let body = d.get(&iterator, "next_one");
    body.read(|r| assert_eq!((r.bool().unwrap(), read_name(r), r.u32().unwrap()), (true, "bb".into(), 0)));
    d.call(&context, "unbind", |w| write("bb", w)).unwrap();
    d.get(&context, "destroy");
    assert!(!d.get(&iterator, "next_one").read(|r| (r.bool().unwrap(), read_binding(r)).0));
}

#[test]
fn contexts_bound_in_a_circle_are_walked_as_far_as_the_name_goes() {
    let mut d = Dialogue::new(STYLES[5]);
    let root = d.bootstrap("NameService");
    let own = resolve(&mut d, &root, "NotificationService").unwrap();
    let profile = own.iiop().unwrap();
    let root_reference = Ior::new("", giop::ior::IiopProfile { key: b"NameService".to_vec(), ..profile.clone() });
    bind(&mut d, &root, "bind_context", "again", &root_reference).unwrap();
    let around = "again/".repeat(60) + "NotificationService";
    assert_eq!(resolve(&mut d, &root, &around).unwrap(), own);
}

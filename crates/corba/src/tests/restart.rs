//! What a reference is worth after a restart.

use super::dialogue::{Dialogue, Expect, STYLES, key_of, settings};
use crate::Protocol;
use crate::naming::WELL_KNOWN;
use giop::ior::Ior;

fn dialogue(nonce_seed: u64) -> Dialogue {
    Dialogue::with(STYLES[5], settings(nonce_seed))
}

/// References to what every service has.
fn lasting(d: &mut Dialogue) -> Vec<Ior> {
    let naming = d.bootstrap("NameService");
    let factory = d.bootstrap("NotificationService");
    let channel = d.look_up(&factory, "get_event_channel", 0).unwrap();
    let mut references = vec![d.protocol.objects.factory_reference(), channel.clone()];
    references.push(d.object(&channel, "for_consumers"));
    references.push(d.object(&channel, "for_suppliers"));
    for (id, kind, _) in WELL_KNOWN {
        let found = d.call(&naming, "resolve", |w| {
            w.u32(1);
            w.string(id);
            w.string(kind);
        });
        references.push(found.unwrap().read(|r| Ior::read(r).unwrap()));
    }
    references
}

/// References to what a client made.
fn passing(d: &mut Dialogue) -> Vec<Ior> {
    let factory = d.bootstrap("NotificationService");
    let naming = d.bootstrap("NameService");
    let default = d.bootstrap("DefaultEventChannel");
    let made = d.call(&factory, "create_channel", |w| w.u64(0)).unwrap();
    let channel = made.read(|r| {
        let channel = Ior::read(r).unwrap();
        assert_eq!(r.i32().unwrap(), 1);
        channel
    });
    let mut references = vec![channel.clone(), d.object(&channel, "for_suppliers")];
    for channel in [&default, &channel] {
        let consumers = d.object(channel, "for_consumers");
        references.push(d.made(channel, "new_for_consumers", 0).0);
        references.push(d.made(&consumers, "obtain_notification_push_supplier", 1).0);
        references.push(d.object(&consumers, "obtain_push_supplier"));
    }
    references.push(d.object(&naming, "new_context"));
    let listed = d.call(&naming, "list", |w| w.u32(0)).unwrap();
    references.push(listed.read(|r| {
        r.u32().unwrap();
        Ior::read(r).unwrap()
    }));
    references
}

#[test]
fn the_same_object_has_the_same_reference_after_a_restart() {
    let (mut before, mut after) = (dialogue(1), dialogue(2));
    let references = lasting(&mut before);
    assert_eq!(references, lasting(&mut after));
    for reference in &references {
        assert!(!after.get(reference, "_non_existent").read(|r| r.bool().unwrap()));
    }
    assert_eq!(references[0].to_string(), Protocol::new(settings(3)).objects.factory_reference().to_string());
}

#[test]
fn a_reference_to_what_is_gone_never_reaches_what_took_its_number() {
    let (mut before, mut after) = (dialogue(1), dialogue(2));
    let (stale, fresh) = (passing(&mut before), passing(&mut after));
    for (stale, fresh) in stale.iter().zip(&fresh) {
        assert_eq!(stale.type_id, fresh.type_id);
        assert_ne!(key_of(stale), key_of(fresh));
        assert!(!before.get(stale, "_non_existent").read(|r| r.bool().unwrap()));
        after.call(stale, "_non_existent", |_| {}).raises("OBJECT_NOT_EXIST");
        assert!(!after.protocol.objects.locate(&stale.iiop().unwrap().key));
    }
}

#[test]
fn two_protocols_built_the_same_give_the_same_references_throughout() {
    let (mut one, mut other) = (dialogue(7), dialogue(7));
    assert_eq!(passing(&mut one), passing(&mut other));
}

#[test]
fn the_event_path_knows_stale_keys_too() {
    let (mut before, mut after) = (dialogue(1), dialogue(2));
    let (stale, fresh) = (passing(&mut before), passing(&mut after));
    let published = after.protocol.publish().unwrap();
    for (stale, fresh) in stale.iter().zip(&fresh).filter(|(stale, _)| stale.type_id.contains("ProxyPush")) {
        assert!(published.directory.proxy(&key_of(fresh)).is_some());
        assert_eq!(published.directory.proxy(&key_of(stale)), None);
    }
    assert_eq!(published.directory.proxy(&key_of(&before.protocol.objects.factory_reference())), None);
}

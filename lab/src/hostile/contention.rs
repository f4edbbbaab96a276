//! Attacks on what clients share: the pace of a channel, the places of connections, others' keys, and administration's time.

use std::io::{Error, Result, Write};

use client::notify::{ConstraintExp, Property};
use giop::cdr::{Endian, Version};
use giop::ior::Ior;
use giop::message::locate_request;
use tempo::wire::{Announcement, Frame, Header, Payload, Role};

use super::attacks::{PUSHED, Scene, serve};
use super::foe::{Object, listen, one_of_many, open, read_message, reference};
use crate::clock;
use crate::wire;

/// Channels on which a consumer is connected that holds them.
const HELD_MAX: usize = 8;
/// How long such a consumer takes for an event.
const TAKES: u64 = 4 * clock::SECOND;
/// Addresses that take places, and connections that each wants of CORBA's and of HTTP's.
const ADDRESSES: u8 = 8;
const WANTED: [u32; 2] = [600, 24];
/// Subscriptions of a connection.
const SUBSCRIPTIONS: u32 = 250;

/// A consumer on each of the first channels that there are, also on others', which is full with one event and has its suppliers wait.
pub(super) fn holder(scene: &mut Scene) -> Result<()> {
    let mut foe = scene.connect()?;
    let factory = Object::named("NotificationService");
    let ids: Vec<i32> = foe.call(&factory, "get_all_channels", &())?.read()?;
    let listener = listen(scene.from)?;
    let port = listener.local_addr()?.port();
    let mut proxies = Vec::new();
    for id in ids.into_iter().take(HELD_MAX) {
        // Others' channels come and go.
        let Ok(channel) = foe.call(&factory, "get_event_channel", &id) else { continue };
        let proxy = foe.new_proxy(&channel.object()?, PUSHED)?;
        for property in [Property::new("MaxEventsPerConsumer", 1_i32), Property::new("FullOutbox", "Hold")] {
            foe.call(&proxy, "set_qos", &[property][..])?;
        }
        foe.connect_client(&proxy, PUSHED, Some(&reference(scene.from, port, &id.to_be_bytes())))?;
        proxies.push(proxy);
        scene.tries += 1;
    }
    let taken = serve(scene, &listener, true, |scene, header, request, reply| {
        if request.operation.starts_with(b"push") {
            scene.rest(TAKES)?;
        }
        wire::write_answer(reply, header, request);
        Ok(())
    });
    for proxy in &proxies {
        foe.call(proxy, "disconnect_structured_push_supplier", &()).ok();
    }
    taken
}

/// From each of several addresses as many connections as it gets, all of which have said something once.
pub(super) fn places(scene: &mut Scene) -> Result<()> {
    let mut held = Vec::new();
    let doors = [Some(scene.target.service), scene.target.http];
    for (door, wanted) in doors.into_iter().zip(WANTED).filter_map(|(door, wanted)| Some((door?, wanted))) {
        for address in 1..=ADDRESSES {
            let taken = scene.repeat(wanted, |_| {
                held.push(open(one_of_many(address), door)?);
                Ok(())
            });
            if taken.is_err() {
                scene.refusals += 1;
            }
        }
    }
    scene.rest(clock::SECOND / 4)
}

/// Keys of the form that keys had, and of the one that they have, each located and then called.
pub(super) fn keys(scene: &mut Scene) -> Result<()> {
    let mut foe = scene.connect()?;
    let proxy = foe.new_proxy(&Object::named("DefaultEventChannel"), PUSHED)?;
    let mut state = clock::now() | 1;
    scene.repeat(200, |number| {
        // As its own, but for the octets that are drawn.
        let mut key = proxy.key.clone();
        for octet in key.iter_mut().rev().take(if number % 2 == 0 { 4 } else { 16 }) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *octet = state.to_be_bytes()[0];
        }
        let mut asked = Vec::new();
        locate_request(&mut asked, Version::V1_2, Endian::NATIVE, number, &key);
        foe.stream.write_all(&asked)?;
        read_message(&mut foe.stream)?;
        foe.send(&Object { key }, "try_pull_structured_event", &())?;
        read_message(&mut foe.stream).map(drop)
    })
}

/// Subscriptions with a condition each, which end with their connection.
pub(super) fn json(scene: &mut Scene) -> Result<()> {
    let Some(door) = scene.target.json else { return Err(Error::other("it has no lines of JSON")) };
    let mut stream = open(scene.from, door)?;
    let mut lines = String::new();
    for number in 0..SUBSCRIPTIONS {
        let (of, value) = (scene.tries % 97, u64::from(number) + scene.tries);
        let types = format!("[\"Hostile/T{of}\"]");
        let line = format!("{{\"op\":\"subscribe\",\"id\":{number},\"types\":{types},\"where\":\"$v > {value}\"}}\n");
        lines.push_str(&line);
    }
    scene.tries += u64::from(SUBSCRIPTIONS);
    stream.write_all(lines.as_bytes())?;
    scene.rest(clock::SECOND / 10)
}

/// Topics that are subscribed to, each by a name of its own, and end with their connection.
pub(super) fn tempo(scene: &mut Scene) -> Result<()> {
    let Some(door) = scene.target.tempo else { return Err(Error::other("it has no Tempo")) };
    let mut stream = open(scene.from, door)?;
    let session = u32::try_from(clock::now() & 0x7FFF_FFFF).unwrap_or_default() | 1;
    let mut frames = Vec::new();
    for topic in 1..=SUBSCRIPTIONS {
        let name = format!("Hostile/{session}-{topic}");
        let announcement = Announcement { largest: 1_000, ..Announcement::new(Role::Subscriber, &name, 1_000) };
        let header = Header { session, topic, sequence: 0, sent: 0, priority: 0, by_broker: false };
        let frame = Frame { header, payload: Payload::Announcement(announcement) };
        let mut octets = vec![0; frame.octets()];
        frame.write(&mut octets).ok_or_else(|| Error::other("a frame that is none"))?;
        frames.extend(octets);
    }
    scene.tries += u64::from(SUBSCRIPTIONS);
    stream.write_all(&frames)?;
    scene.rest(clock::SECOND / 10)
}

/// Constraints as long as the service grants, of the kind that takes it longest: conditions on many fields, all of which must hold.
pub(super) fn longest(scene: &mut Scene) -> Result<()> {
    scene.on_channel(|scene, foe, channel| {
        let mut may = |name, most: i32| foe.call(channel, "set_admin", &[Property::new(name, most)][..]).map(|_| most);
        may("MaxConstraintNodes", 1 << 20)?;
        let length = [1 << 20, 1 << 16, 1 << 14].into_iter().find_map(|most| may("MaxConstraintLength", most).ok());
        let length = usize::try_from(length.unwrap_or(1 << 14)).unwrap_or_default();
        let filters = foe.object(channel, "_get_default_filter_factory")?;
        scene.repeat(20, |number| {
            let made = foe.call(&filters, "create_filter", "EXTENDED_TCL")?;
            let (filter, reference) = (made.object()?, made.read::<Ior>()?);
            let mut text = format!("$n == {number}");
            for field in 0.. {
                let condition = format!(" and $a{field}");
                if text.len() + condition.len() > length {
                    break;
                }
                text.push_str(&condition);
            }
            foe.call(&filter, "add_constraints", &vec![ConstraintExp::new(&text)])?;
            // Attached, it is looked up with all others.
            let proxy = foe.new_proxy(channel, PUSHED)?;
            foe.call(&proxy, "add_filter", &reference).map(drop)
        })
    })
}

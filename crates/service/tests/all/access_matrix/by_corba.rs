//! CORBA, in the clear and over TLS.

use client::notify::{ClientType, ConsumerAdmin, EventChannel, Property, StructuredProxyPushConsumer, SupplierAdmin};
use client::{Orb, OrbOptions, OrbTls};
use testing::rulebook::{OPERATOR, TYPES, rulebooks};

use super::{Client, Pulled, Rig, Tried, event, from, numbered};
use crate::access::permitted;

impl Rig {
    /// How a client connects by CORBA.
    fn orb(&self, client: &Client) -> OrbOptions {
        let identity = OrbTls::trusting(self.authority.file());
        let identity = identity.with_identity(&self.certified.certificate, &self.certified.key);
        let tls = client.who.certificate.as_ref().map(|_| identity);
        OrbOptions { tls, ..from(&client.who.address.unwrap().to_string()) }
    }
}

#[test]
fn what_each_client_may_by_corba_is_what_the_rules_say() {
    let mut tried = Tried::default();
    for (title, book) in rulebooks() {
        let rig = Rig::start("corba", title, book);
        publish_by_corba(&rig, &mut tried);
        subscribe_by_corba(&rig, &mut tried);
        administer_by_corba(&rig, &mut tried);
    }
    tried.is_telling();
}

fn publish_by_corba(rig: &Rig, tried: &mut Tried) {
    let mut cells = Vec::new();
    for client in rig.clients(false, true) {
        let orb = Orb::new(rig.orb(&client));
        for (channel, operators) in numbered().zip(&rig.channels) {
            // The admin's reference is the operator's: a client without any right in the channel does not get there by itself.
            let admin = operators.default_supplier_admin().unwrap();
            let proxy_of = |orb: &Orb| {
                let admin = SupplierAdmin::unchecked(orb.object(admin.object().ior().clone()));
                let proxy = admin.obtain_notification_push_consumer(ClientType::Structured)?.0;
                let proxy = StructuredProxyPushConsumer::unchecked(proxy.object().clone());
                proxy.connect_structured_push_supplier(None).map(|()| proxy)
            };
            let own = proxy_of(&orb);
            let cell = format!("{} connects to {channel} by CORBA", client.title);
            let is_let_in = rig.lets_in(&client.who, "publish", channel);
            let proxy = match own {
                Ok(own) => own,
                Err(error) => {
                    assert!(!permitted::<()>(Err(error)));
                    // Nor may it push into another's proxy.
                    let others = proxy_of(&Orb::new(from(OPERATOR))).unwrap();
                    tried.note(rig, &cell, false, is_let_in);
                    StructuredProxyPushConsumer::unchecked(orb.object(others.object().ior().clone()))
                }
            };
            for of in TYPES {
                let mark = format!("{} by CORBA: {channel} {}/{}", client.title, of.0, of.1);
                let said = rig.may(&client.who, "publish", channel, of);
                let came = permitted(proxy.push_structured_event(&event(of, &mark)));
                tried.note(rig, &format!("the answer to {mark}"), came, said);
                cells.push((mark, channel, said));
            }
        }
    }
    rig.compare(tried, &cells);
}

fn subscribe_by_corba(rig: &Rig, tried: &mut Tried) {
    let mut all = Vec::new();
    for client in rig.clients(false, true) {
        let orb = Orb::new(rig.orb(&client));
        for (channel, operators) in numbered().zip(&rig.channels) {
            let admin = operators.default_consumer_admin().unwrap();
            let pulled = Pulled::from(&ConsumerAdmin::unchecked(orb.object(admin.object().ior().clone())));
            let pulled = pulled.map_err(|error| assert!(!permitted::<()>(Err(error)))).ok();
            let client = Client { who: client.who.clone(), title: format!("{} by CORBA", client.title) };
            let cell = format!("{} connects a consumer to {channel}", client.title);
            tried.note(rig, &cell, pulled.is_some(), rig.lets_in(&client.who, "subscribe", channel));
            all.push((client, channel, pulled));
        }
    }
    rig.publish_twice();
    for (client, channel, pulled) in &all {
        let came = pulled.as_ref().map(|pulled| rig.received(client, &[*channel], || pulled.next()));
        rig.compare_received(tried, client, *channel, came.unwrap_or_default());
    }
}

fn administer_by_corba(rig: &Rig, tried: &mut Tried) {
    const NAME: &str = "MaxEventsPerConsumer";
    let mut value = 100_000;
    for client in rig.clients(false, true) {
        let orb = Orb::new(rig.orb(&client));
        for (channel, operators) in numbered().zip(&rig.channels) {
            value += 1;
            let own = EventChannel::unchecked(orb.object(operators.object().ior().clone()));
            let answer = permitted(own.set_qos(&[Property::new(NAME, value)]));
            let set = operators.get_qos().unwrap().contains(&Property::new(NAME, value));
            let said = rig.lets_in(&client.who, "administer", channel);
            for came in [answer, set] {
                tried.note(rig, &format!("{} administers {channel} by CORBA", client.title), came, said);
            }
        }
    }
}

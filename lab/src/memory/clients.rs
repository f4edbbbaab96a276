//! Clients with consumers that mostly wait: for each a connection to the service, and a listener for its proxies' events.

use client::notify::{ClientType, ConsumerAdmin, StructuredProxyPushSupplier};
use client::{Orb, OrbOptions};
use load::callers::Callers;

use crate::campanile::{Channel, NAME, consumer_reference, listen, setup};
use crate::{BenchError, Form, clock};

/// No client waits longer than this for its events.
const PATIENCE: u64 = 60 * clock::SECOND;

/// Clients, all alike.
pub(super) struct Clients(Vec<Client>);

struct Client {
    admin: ConsumerAdmin,
    callers: Callers,
    proxies: Vec<StructuredProxyPushSupplier>,
    connected: usize,
}

impl Clients {
    /// Connects so many to the channel; each has asked the service something and been answered.
    pub(super) fn open(channel: &Channel, count: u32) -> Result<Self, BenchError> {
        let one = |_| {
            let admin = channel.seen_by(&Orb::new(OrbOptions::default())).consumer_admin()?;
            let callers = Callers::new(NAME, listen()?)?;
            Ok(Client { admin, callers, proxies: Vec::new(), connected: 0 })
        };
        (0..count).map(one).collect::<Result<_, _>>().map(Self)
    }

    /// Makes so many more proxies for each.
    pub(super) fn make_proxies(&mut self, each: u32) -> Result<(), BenchError> {
        for client in &mut self.0 {
            for _ in 0..each {
                let made = client.admin.obtain_notification_push_supplier(ClientType::Structured);
                let (proxy, _) = made.map_err(setup("making consumers' proxies"))?;
                client.proxies.push(StructuredProxyPushSupplier::unchecked(proxy.object().clone()));
            }
        }
        Ok(())
    }

    pub(super) fn connect_proxies(&mut self) -> Result<(), BenchError> {
        for client in &mut self.0 {
            for (number, proxy) in client.proxies.iter().enumerate().skip(client.connected) {
                let key = format!("bench-consumer-{number:05}");
                let consumer = consumer_reference(
                    Form::Structured.consumer_type(),
                    client.callers.address()?,
                    key.as_bytes(),
                    &[],
                );
                let consumer = proxy.object().orb().object(consumer);
                proxy.connect_structured_push_consumer(&consumer).map_err(setup("connecting consumers"))?;
            }
            client.connected = client.proxies.len();
        }
        Ok(())
    }

    /// Takes one event for each connected proxy, and answers it.
    pub(super) fn take_events(&mut self) -> Result<(), BenchError> {
        let until = clock::now() + PATIENCE;
        for Client { callers, connected, .. } in &mut self.0 {
            let mut taken = 0;
            while taken < *connected {
                let left = until.checked_sub(clock::now()).ok_or("one did not come within a minute");
                callers.wait(Some(left.map_err(setup("taking events"))?), true, |_, _| {
                    taken += 1;
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    /// Destroys all proxies and closes all connections.
    pub(super) fn destroy(self) -> Result<(), BenchError> {
        let mut proxies = self.0.iter().flat_map(|client| &client.proxies);
        proxies
            .try_for_each(StructuredProxyPushSupplier::disconnect_structured_push_supplier)
            .map_err(setup("destroying consumers' proxies"))
    }
}

//! Campanile as a contender: a service in a process of its own, and channels in it with suppliers and consumers.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use client::notify::{
    ClientType, EventChannel, EventChannelFactory, Property, StructuredProxyPushConsumer, StructuredProxyPushSupplier,
};
use client::{Orb, OrbOptions};
use giop::cdr::Version;
use giop::ior::{CodeSetInfo, IiopProfile, Ior};

use crate::process::{Process, arguments, ready_address};
use crate::{BenchError, DeliveryOptions};

/// The name under which reports show it.
pub(crate) const NAME: &str = "Campanile";

/// What a consumer's reference says it is.
const CONSUMER_TYPE: &str = "IDL:omg.org/CosNotifyComm/StructuredPushConsumer:1.0";

/// A running service.
pub(crate) struct Campanile {
    process: Process,
    address: SocketAddr,
    orb: Orb,
}

/// Where a supplier pushes to.
#[derive(Debug, Clone)]
pub(crate) struct ProxyAddress {
    address: SocketAddr,
    /// The object key of the proxy.
    pub(crate) key: Vec<u8>,
}

impl ProxyAddress {
    /// Opens a connection of the supplier's own.
    pub(crate) fn connect(&self) -> Result<TcpStream, BenchError> {
        TcpStream::connect(self.address).map_err(BenchError::io("connecting a supplier to Campanile"))
    }
}

impl Campanile {
    /// Starts a service on a free port of loopback.
    pub(crate) fn start() -> Result<Self, BenchError> {
        Self::start_with(&arguments(["serve", "--listen", "127.0.0.1:0"]))
    }

    /// Starts a service as `campanile serve` without arguments does: found by everybody without configuration.
    pub(crate) fn start_at_default_address() -> Result<Self, BenchError> {
        Self::start_with(&arguments(["serve"]))
    }

    fn start_with(serve: &[std::ffi::OsString]) -> Result<Self, BenchError> {
        let (process, address) = Process::start("campanile serve", serve, ready_address)?;
        Ok(Self { process, address, orb: Orb::new(OrbOptions::default()) })
    }

    /// The service's process.
    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes a channel with nobody on it.
    pub(crate) fn new_channel(&self) -> Result<Channel, BenchError> {
        let doing = "making a channel in Campanile";
        let factory = self.orb.resolve(&self.corbaloc("NotificationService")).map_err(setup(doing))?;
        let factory = EventChannelFactory::unchecked(factory);
        let (channel, _) = factory.create_channel(&[], &[]).map_err(setup(doing))?;
        Ok(Channel { channel })
    }

    /// The channel that everybody finds without configuration.
    pub(crate) fn default_channel(&self) -> Result<Channel, BenchError> {
        let doing = "finding Campanile's default channel";
        let channel = self.orb.resolve(&self.corbaloc("DefaultEventChannel")).map_err(setup(doing))?;
        Ok(Channel { channel: EventChannel::unchecked(channel) })
    }

    /// The service's own counters, by name.
    pub(crate) fn counters(&self) -> Result<BTreeMap<String, u64>, BenchError> {
        let doing = "reading Campanile's counters";
        let statistics = self.orb.resolve(&self.corbaloc("Statistics")).map_err(setup(doing))?;
        let body = statistics.invoke("get_statistics", |_| ()).map_err(setup(doing))?;
        let mut reader = body.reader();
        let mut counters = BTreeMap::new();
        let mut read = || {
            for _ in 0..reader.seq_len(12)? {
                let name = reader.text()?;
                counters.insert(name, reader.u64()?);
            }
            Ok::<_, giop::cdr::ReadError>(())
        };
        read().map_err(setup(doing))?;
        Ok(counters)
    }

    fn corbaloc(&self, key: &str) -> String {
        format!("corbaloc::1.2@{}/{key}", self.address)
    }
}

/// A channel of the service.
pub(crate) struct Channel {
    channel: EventChannel,
}

impl Channel {
    /// Makes a proxy for one more supplier and connects it.
    pub(crate) fn add_supplier(&self) -> Result<ProxyAddress, BenchError> {
        let doing = "connecting a supplier to Campanile";
        let admin = self.channel.default_supplier_admin().map_err(setup(doing))?;
        let (proxy, _) = admin.obtain_notification_push_consumer(ClientType::Structured).map_err(setup(doing))?;
        let proxy = StructuredProxyPushConsumer::unchecked(proxy.object().clone());
        proxy.connect_structured_push_supplier(None).map_err(setup(doing))?;
        let profile = proxy.object().ior().iiop().ok_or_else(|| setup(doing)("the proxy has no IIOP profile"))?;
        let ip: std::net::IpAddr = profile.host.parse().map_err(setup(doing))?;
        Ok(ProxyAddress { address: SocketAddr::new(ip, profile.port), key: profile.key.clone() })
    }

    /// Makes a proxy for one more consumer, which waits on `listener` and goes by `key`, and connects it.
    ///
    /// The service connects to the listener when it likes to: at once, or for the first event.
    pub(crate) fn add_consumer(
        &self,
        listener: &TcpListener,
        key: &[u8],
        delivery: DeliveryOptions,
    ) -> Result<(), BenchError> {
        let doing = "connecting a consumer to Campanile";
        let address = listener.local_addr().map_err(BenchError::io("reading the address of a consumer"))?;
        let profile = IiopProfile {
            version: Version::V1_2,
            host: address.ip().to_string(),
            port: address.port(),
            key: key.to_vec(),
            components: vec![CodeSetInfo::campanile().to_component()],
        };
        let consumer = self.channel.object().orb().object(Ior::new(CONSUMER_TYPE, profile));
        let admin = self.channel.default_consumer_admin().map_err(setup(doing))?;
        let (proxy, _) = admin.obtain_notification_push_supplier(ClientType::Structured).map_err(setup(doing))?;
        let proxy = StructuredProxyPushSupplier::unchecked(proxy.object().clone());
        if let Some(window) = delivery.push_window {
            proxy.set_qos(&[Property::new("PushWindow", window)]).map_err(setup(doing))?;
        }
        proxy.connect_structured_push_consumer(&consumer).map_err(setup(doing))
    }
}

/// A listener for one consumer, on loopback.
pub(crate) fn listen() -> Result<TcpListener, BenchError> {
    TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).map_err(BenchError::io("listening for a consumer"))
}

/// A consumer's object key that is as long as the proxy's, so that a request has the same size before and behind the
/// service, as it has before and behind a relay.
pub(crate) fn key_as_long_as(proxy_key: &[u8]) -> Vec<u8> {
    b"bench-consumer-".iter().copied().cycle().take(proxy_key.len().max(1)).collect()
}

fn setup<E: Display>(doing: &'static str) -> impl FnOnce(E) -> BenchError {
    move |error| BenchError::Setup { doing: doing.to_owned(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_keys_of_the_wanted_length() {
        for length in [1, 15, 40] {
            assert_eq!(key_as_long_as(&vec![7; length]).len(), length);
        }
    }
}

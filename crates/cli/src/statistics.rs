//! Client of the object `Statistics`, which Campanile offers beside the OMG's objects.

use crate::args::ServerOptions;
use crate::color;
use crate::failure::Failure;
use crate::info::status::{ConsumerStatus, Restored, given_name};
use crate::json;
use crate::ls::orb_options;
use crate::show::clean;
use client::notify::{EventChannel, find_channel};
use client::{InvokeError, Marshal, ObjectRef, Orb, Unmarshal};
use giop::cdr::{ReadError, Reader};
use giop::typecode::Work;
use serde::Serialize;
use std::collections::HashMap;
use std::time::Duration;

/// Maximum channels searched for the one of a reference.
const CHANNELS_MAX: usize = 256;

/// The object, and its address.
pub(crate) struct Statistics {
    pub(crate) object: ObjectRef,
    pub(crate) address: String,
}

/// The client connected to a proxy.
#[derive(Clone, Debug)]
pub(crate) enum Connected {
    Nobody,
    Consumer(ConsumerStatus),
    Supplier(Supplier),
}

/// The clients of all proxies, by the numbers of channel and proxy.
pub(crate) struct Clients(HashMap<(u32, u32), Connected>);

/// One `SupplierStatistic`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Supplier {
    #[serde(skip)]
    pub(crate) channel: u32,
    #[serde(skip)]
    pub(crate) proxy: u32,
    /// Name that its client gave the proxy, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// Address from which it connected; empty if unknown.
    #[serde(rename = "supplier")]
    pub(crate) client: String,
    pub(crate) events: u64,
    #[serde(rename = "idle_ms", serialize_with = "json::millis")]
    pub(crate) idle: Duration,
    #[serde(rename = "connection_open")]
    pub(crate) is_open: bool,
    #[serde(rename = "has_reference")]
    pub(crate) is_probed: bool,
    /// Reconnection when the service began, if there was one.
    pub(crate) restored: Option<Restored>,
}

impl Statistics {
    /// Finds the object of a service.
    pub(crate) fn find(server: &ServerOptions) -> Result<Self, InvokeError> {
        let orb = Orb::new(orb_options(server));
        let address = orb.resolve_service(&server.server)?.connect()?;
        Self::at(&orb, address)
    }

    pub(crate) fn at(orb: &Orb, address: String) -> Result<Self, InvokeError> {
        Ok(Self { object: orb.resolve_at(&address, "Statistics")?, address })
    }

    /// Checks that the service has this channel, for requests about one channel.
    ///
    /// # Errors
    /// [`InvokeError::NoChannel`] if it has none.
    pub(crate) fn check_channel(&self, server: &ServerOptions, channel: Option<u32>) -> Result<(), InvokeError> {
        let Some(channel) = channel else { return Ok(()) };
        let service = self.object.orb().resolve_service(&server.server)?;
        // Numbers beyond are no channel's; the service says so.
        let id = i32::try_from(channel).unwrap_or(i32::MAX);
        find_channel(&service, Some(id)).map(|_| ())
    }

    /// Counters of the service, in its order.
    pub(crate) fn counters(&self) -> Result<Vec<(String, u64)>, InvokeError> {
        self.object.request("get_statistics", &())
    }

    /// Configured objects, as JSON.
    pub(crate) fn topology(&self) -> Result<String, InvokeError> {
        let octets: Vec<u8> = self.object.request("get_topology", &())?;
        Ok(String::from_utf8_lossy(&octets).into_owned())
    }

    /// Has the service apply a topology. Returns why it does not, or nothing.
    pub(crate) fn apply(&self, topology: &str) -> Result<String, InvokeError> {
        self.object.request("apply_topology", &topology.as_bytes())
    }

    /// Reads all parts of an answer: from the start, and then behind the key of the last item.
    pub(crate) fn read_parts<T: Unmarshal, K: Copy + PartialOrd + Marshal>(
        &self,
        operation: &str,
        mut behind: Option<K>,
        key: impl Fn(&T) -> K,
        all: &mut Vec<T>,
    ) -> Result<(), InvokeError> {
        loop {
            let more: Vec<T> = match &behind {
                None => self.object.request(operation, &()),
                Some(behind) => self.object.request(&format!("{operation}_behind"), behind),
            }?;
            let last = more.last().map(&key).filter(|last| behind.is_none_or(|behind| *last > behind));
            all.extend(more);
            if last.is_none() {
                return Ok(());
            }
            behind = last;
        }
    }

    /// Names of channels by number. An earlier version reports none.
    pub(crate) fn channel_names(&self) -> Result<HashMap<u32, String>, InvokeError> {
        let mut names: Vec<(u32, String)> = Vec::new();
        self.read_parts("get_channels", None, |(channel, _)| *channel, &mut names)?;
        Ok(names.into_iter().filter(|(_, name)| !name.is_empty()).collect())
    }

    /// The consumers of all channels, the largest backlog first.
    pub(crate) fn consumers(&self) -> Result<Vec<ConsumerStatus>, InvokeError> {
        self.object.request("get_consumers", &())
    }

    /// All connected suppliers, by channel and proxy.
    pub(crate) fn suppliers(&self) -> Result<Vec<Supplier>, InvokeError> {
        let mut suppliers: Vec<Supplier> = Vec::new();
        self.read_parts("get_suppliers", None, |supplier| (supplier.channel, supplier.proxy), &mut suppliers)?;
        let restored = self.restored();
        suppliers.iter_mut().for_each(|found| found.restored = restored.get(&(found.channel, found.proxy)).copied());
        Ok(suppliers)
    }

    /// Clients of all channels that were reconnected when the service began. A service without this operation reports none.
    pub(crate) fn restored(&self) -> HashMap<(u32, u32), Restored> {
        let mut all: Vec<((u32, u32), Restored)> = Vec::new();
        let _ = self.read_parts("get_restored", None, |(key, _)| *key, &mut all);
        all.into_iter().collect()
    }

    /// Disconnects the client of a proxy. False if there is no such proxy.
    pub(crate) fn disconnect(&self, channel: u32, proxy: u32) -> Result<bool, InvokeError> {
        self.object.request("disconnect", &(channel, proxy))
    }

    /// Failure of a request. Another service has no such object, and an earlier Campanile not all of its operations.
    pub(crate) fn failure(&self, error: &InvokeError, server: &ServerOptions) -> Failure {
        if !error.object_is_gone() && !error.is("BAD_OPERATION") {
            return Failure::remote(error, server);
        }
        Failure::message(format!(
            "the service at {} does not show this: it is not Campanile, or an earlier version of it; `campanile ls` shows its \
             objects",
            self.address
        ))
    }
}

impl Clients {
    /// Clients that the service at an address reports; `None` if it is not Campanile and reports none.
    pub(crate) fn read(orb: &Orb, address: &str) -> Option<Self> {
        let statistics = Statistics::at(orb, address.to_owned()).ok()?;
        let restored = statistics.restored();
        let mut consumers = statistics.consumers().ok()?;
        consumers
            .iter_mut()
            .for_each(|found| found.state.restored = restored.get(&(found.channel, found.proxy)).copied());
        // An earlier version tells of consumers only.
        let suppliers = statistics.suppliers().unwrap_or_default().into_iter();
        let consumers = consumers.into_iter().map(|found| ((found.channel, found.proxy), Connected::Consumer(found)));
        let suppliers = suppliers.map(|found| ((found.channel, found.proxy), Connected::Supplier(found)));
        Some(Self(consumers.chain(suppliers).collect()))
    }

    /// Numbers of consumers and suppliers of a channel.
    pub(crate) fn count(&self, channel: u32) -> (usize, usize) {
        let of_channel = || self.0.iter().filter(|((of, _), _)| *of == channel).map(|(_, client)| client);
        (
            of_channel().filter(|client| matches!(client, Connected::Consumer(_))).count(),
            of_channel().filter(|client| matches!(client, Connected::Supplier(_))).count(),
        )
    }

    pub(crate) fn at(&self, channel: u32, proxy: i32) -> Connected {
        let found = u32::try_from(proxy).ok().and_then(|proxy| self.0.get(&(channel, proxy)));
        found.cloned().unwrap_or(Connected::Nobody)
    }
}

impl Connected {
    /// Address and state as text for people.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Nobody => "not connected".to_owned(),
            Self::Consumer(status) => {
                let client = status.label().map_or_else(String::new, |label| format!("{label}  "));
                format!("{client}{}", color::paint(&status.describe(), Some(status.tone())))
            }
            Self::Supplier(supplier) => clean(&supplier.describe()),
        }
    }
}

impl Unmarshal for Supplier {
    const BYTES_MIN: usize = 44;

    fn unmarshal(reader: &mut Reader<'_>, _work: &mut Work) -> Result<Self, ReadError> {
        let (channel, proxy, called, client) = (reader.u32()?, reader.u32()?, reader.text()?, reader.text()?);
        let name = given_name(&called).map(str::to_owned);
        let (_is_pulled, is_probed, is_open) = (reader.bool()?, reader.bool()?, reader.bool()?);
        let (events, idle) = (reader.u64()?, Duration::from_millis(reader.u64()?));
        Ok(Self { channel, proxy, name, client, is_probed, is_open, events, idle, restored: None })
    }
}

impl Supplier {
    /// Description, with the time of silence if it cannot be probed.
    pub(crate) fn describe(&self) -> String {
        let client = if self.client.is_empty() { "(unknown address)" } else { self.client.as_str() };
        let events = if self.events == 1 { "event" } else { "events" };
        let name = self.name.as_ref().map_or_else(String::new, |name| format!("{name}  "));
        let mut text = format!("{name}{client}  {} {events}, idle for {}", self.events, idle(self.idle));
        if !self.is_open {
            text.push_str(", its connection is closed");
        }
        if !self.is_probed {
            text.push_str(", no reference");
        }
        if let Some(restored) = self.restored {
            restored.describe(false, &mut text);
        }
        text
    }
}

/// Elapsed time as text, in two units at most.
pub(crate) fn idle(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// Number of a channel in the statistics. A channel without a given number is searched among its factory's; if it is none of them, it is
/// the default one under another name.
pub(crate) fn number(channel: &EventChannel, id: Option<i32>) -> u32 {
    id.or_else(|| number_of(channel)).and_then(|id| u32::try_from(id).ok()).unwrap_or(0)
}

/// Number of a channel in its factory.
pub(crate) fn number_of(channel: &EventChannel) -> Option<i32> {
    let factory = channel.my_factory().ok()?;
    let ids = factory.get_all_channels().ok()?;
    let key = |channel: &EventChannel| channel.object().ior().iiop().map(|profile| profile.key.clone());
    let wanted = key(channel)?;
    let mut ids = ids.into_iter().take(CHANNELS_MAX);
    ids.find(|id| factory.get_event_channel(*id).is_ok_and(|other| key(&other).as_ref() == Some(&wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Supplier {
        /// One of which nothing was heard for a week.
        pub(crate) fn gone() -> Self {
            Self {
                channel: 3,
                proxy: 1,
                name: None,
                client: "10.0.0.7".into(),
                is_probed: false,
                is_open: false,
                events: 3,
                idle: Duration::from_secs(604_800),
                restored: None,
            }
        }
    }

    #[test]
    fn idle_times_are_short() {
        let shown = [0, 59, 60, 3_599, 3_600, 86_399, 86_400, 900_000].map(|s| idle(Duration::from_secs(s)));
        assert_eq!(shown, ["0 s", "59 s", "1 min", "59 min", "1 h 0 min", "23 h 59 min", "1 d 0 h", "10 d 10 h"]);
    }

    #[test]
    fn suppliers_are_described_with_what_an_operator_has_to_know() {
        let supplier = Supplier::gone();
        assert_eq!(supplier.describe(), "10.0.0.7  3 events, idle for 7 d 0 h, its connection is closed, no reference");
        let name = Some("mount".to_owned());
        let alive = Supplier { name, is_probed: true, is_open: true, ..supplier };
        assert_eq!(alive.describe(), "mount  10.0.0.7  3 events, idle for 7 d 0 h");
    }
}

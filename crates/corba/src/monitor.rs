//! `CosNotification::NotificationServiceMonitorControl` (repository prefix `sandia.gov`): TAO's monitor and control object, as ALMA's
//! clients read it.
//!
//! A statistic is named `FACTORY/STATISTIC` or `FACTORY/CHANNEL/STATISTIC`, where a channel is called by its name or its number. Figures of
//! lanes are passed in ([`ChannelFigures`]) before the execution of a request that needs them ([`Monitor::channels_queried`] names the
//! channels); the protocol has all others itself.

use super::exceptions::{Raised, UserException};
use super::keys::ObjectKey;
use super::protocol::{Objects, Protocol};
use super::table::{AdminKey, Call, Interface, Operation};
use crate::event::UNIX_EPOCH;
use crate::log_lines::log_line;
use engine::{ChannelId, ProxyKey, Side};
use giop::cdr::{Reader, Writer};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub(super) static MONITOR_CONTROL: Interface = Interface {
    name: "CosNotification::NotificationServiceMonitorControl",
    id: "IDL:sandia.gov/CosNotification/NotificationServiceMonitorControl:1.0",
    operations: &[
        Operation::done("get_statistic_names", get_statistic_names),
        Operation::done(GET_STATISTIC, get_statistic),
        Operation::done(GET_STATISTICS, get_statistics),
        Operation::done(GET_AND_CLEAR, get_and_clear_statistics),
        Operation::done("clear_statistics", clear_statistics),
        Operation::done("shutdown_event_channel", shutdown_event_channel),
        Operation::done("remove_consumer", remove_consumer),
        Operation::done("remove_supplier", remove_supplier),
        Operation::done("remove_consumeradmin", remove_consumeradmin),
        Operation::done("remove_supplieradmin", remove_supplieradmin),
        Operation::done("shutdown", shutdown),
    ],
};

const GET_STATISTIC: &str = "get_statistic";
const GET_STATISTICS: &str = "get_statistics";
const GET_AND_CLEAR: &str = "get_and_clear_statistics";

/// Maximum number of statistics in one request.
const NAMES_MAX: u32 = 1_024;
/// Maximum names in one list: clients of a channel, and statistics listed with `InvalidName`.
const LIST_MAX: usize = 8_192;
const VALID_MAX: usize = 1_024;
/// Maximum octets of one answer, and so of pending output for a connection beside its unread part: larger answers are neither made nor
/// sent.
pub const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Maximum octets of the names of all statistics; others are left out.
const NAMES_BYTES_MAX: usize = 8 << 20;

/// A channel's figures on the lanes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelFigures {
    /// Events queued or unanswered, counted for each consumer.
    pub backlog_events: u64,
    /// Size of the backlog, in octets.
    pub backlog_bytes: u64,
    /// Age of the oldest event in the backlog; `None` without one.
    pub oldest: Option<Duration>,
    /// The consumers with the largest backlogs, the largest first.
    pub slowest: Vec<ProxyKey>,
    /// Events that its consumers have lost at a limit.
    pub overflows: u64,
}

/// Statistics of the factory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum OfFactory {
    ActiveCount,
    InactiveCount,
    ActiveNames,
    InactiveNames,
}

/// Statistics of each channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum OfChannel {
    Consumers,
    Suppliers,
    ConsumerNames,
    SupplierNames,
    ConsumerAdmins,
    SupplierAdmins,
    ConsumerAdminNames,
    SupplierAdminNames,
    QueueSize,
    QueueElementCount,
    OldestEvent,
    SlowestConsumers,
    QueueOverflows,
}

const FACTORY: &[(&str, OfFactory)] = &[
    ("ActiveEventChannelCount", OfFactory::ActiveCount),
    ("InactiveEventChannelCount", OfFactory::InactiveCount),
    ("ActiveEventChannelNames", OfFactory::ActiveNames),
    ("InactiveEventChannelNames", OfFactory::InactiveNames),
];

const CHANNEL: &[(&str, OfChannel)] = &[
    ("ConsumerCount", OfChannel::Consumers),
    ("SupplierCount", OfChannel::Suppliers),
    ("ConsumerNames", OfChannel::ConsumerNames),
    ("SupplierNames", OfChannel::SupplierNames),
    ("ConsumerAdminCount", OfChannel::ConsumerAdmins),
    ("SupplierAdminCount", OfChannel::SupplierAdmins),
    ("ConsumerAdminNames", OfChannel::ConsumerAdminNames),
    ("SupplierAdminNames", OfChannel::SupplierAdminNames),
    ("QueueSize", OfChannel::QueueSize),
    ("QueueElementCount", OfChannel::QueueElementCount),
    ("OldestEvent", OfChannel::OldestEvent),
    ("SlowestConsumers", OfChannel::SlowestConsumers),
    ("QueueOverflows", OfChannel::QueueOverflows),
];

/// The only statistic without a factory in its name.
const FACTORY_NAMES: &str = "FactoryNames";

/// A statistic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Statistic {
    Factories,
    Factory(OfFactory),
    Channel(ChannelId, OfChannel),
}

impl Statistic {
    /// The channel to query lanes about for this statistic.
    fn channel_to_query(self) -> Option<ChannelId> {
        match self {
            Self::Channel(channel, of) if of >= OfChannel::QueueSize => Some(channel),
            _ => None,
        }
    }
}

/// A statistic's value.
enum Value {
    Numeric(f64),
    Text(Vec<String>),
}

/// The values of a number at each query.
#[derive(Clone, Copy, Debug, Default)]
struct Samples {
    count: u32,
    sum: f64,
    sum_of_squares: f64,
    minimum: f64,
    maximum: f64,
}

impl Samples {
    fn add(&mut self, value: f64) {
        let is_first = self.count == 0;
        self.count = self.count.saturating_add(1);
        self.sum += value;
        self.sum_of_squares += value * value;
        self.minimum = if is_first { value } else { self.minimum.min(value) };
        self.maximum = if is_first { value } else { self.maximum.max(value) };
    }
}

/// State of the monitor: a few numbers for each numeric statistic. Those of a channel are dropped with it.
#[derive(Debug, Default)]
pub struct Monitor {
    samples: BTreeMap<Statistic, Samples>,
    figures: BTreeMap<ChannelId, ChannelFigures>,
}

impl Monitor {
    /// A channel is gone.
    pub(super) fn forget_channel(&mut self, channel: ChannelId) {
        self.samples.retain(|statistic, _| !matches!(statistic, Statistic::Channel(of, _) if *of == channel));
    }

    /// Channels with figures that the lanes have to report before a request is executed. `None` if it needs no such figures, or names
    /// something unknown.
    #[must_use]
    pub fn channels_queried(
        objects: &Objects,
        key: &[u8],
        operation: &str,
        args: Reader<'_>,
    ) -> Option<Vec<ChannelId>> {
        if ObjectKey::parse(key) != Some(ObjectKey::MonitorControl) {
            return None;
        }
        let mut args = args;
        let names = match operation {
            GET_STATISTIC => vec![args.text().ok()?],
            GET_STATISTICS | GET_AND_CLEAR => read_names(&mut args).ok()?,
            _ => return None,
        };
        let found: Option<Vec<Statistic>> = names.iter().map(|name| statistic(objects, name)).collect();
        let channels: BTreeSet<ChannelId> = found?.into_iter().filter_map(Statistic::channel_to_query).collect();
        (!channels.is_empty()).then(|| channels.into_iter().collect())
    }

    /// Stores the figures that lanes have reported, for the next request.
    pub fn handle_figures(&mut self, figures: impl IntoIterator<Item = (ChannelId, ChannelFigures)>) {
        self.figures = figures.into_iter().collect();
    }

    fn value(&self, objects: &Objects, statistic: Statistic) -> Result<Value, Raised> {
        Ok(match statistic {
            Statistic::Factories => Value::Text(vec![objects.factory_name().to_owned()]),
            Statistic::Factory(of) => {
                let is_active = matches!(of, OfFactory::ActiveCount | OfFactory::ActiveNames);
                let channels = objects.hierarchy().channels();
                let chosen = channels.filter(|channel| channel.proxies().next().is_some() == is_active);
                match of {
                    OfFactory::ActiveCount | OfFactory::InactiveCount => numeric(chosen.count()),
                    OfFactory::ActiveNames | OfFactory::InactiveNames => {
                        Value::Text(chosen.map(|channel| channel_path(objects, channel.id())).collect())
                    }
                }
            }
            Statistic::Channel(channel, of) => self.value_of_channel(objects, channel, of)?,
        })
    }

    fn value_of_channel(&self, objects: &Objects, channel: ChannelId, of: OfChannel) -> Result<Value, Raised> {
        let none = ChannelFigures::default();
        let figures = self.figures.get(&channel).unwrap_or(&none);
        let proxies = |side| {
            let channel = objects.hierarchy().channel(channel);
            channel.map(|channel| channel.proxies().filter(move |proxy| proxy.side == side))
        };
        let proxy_names = |side| -> Result<Value, Raised> {
            let keys = proxies(side)?.map(|proxy| ProxyKey { channel, proxy: proxy.id });
            Ok(Value::Text(keys.take(LIST_MAX).map(|key| proxy_path(objects, key, side)).collect()))
        };
        // TAO counts those that clients have made.
        let admins = |side| -> Result<Vec<engine::AdminId>, Raised> {
            let all = objects.admins(channel, side)?.into_iter();
            Ok(all.filter(|admin| *admin != engine::AdminId::DEFAULT).collect())
        };
        let admin_names = |side| -> Result<Value, Raised> {
            let path = channel_path(objects, channel);
            let called = |admin: engine::AdminId| {
                let named = objects.names.admin_name(channel, side, admin).map(str::to_owned);
                format!("{path}/{}", named.unwrap_or_else(|| admin.0.to_string()))
            };
            Ok(Value::Text(admins(side)?.into_iter().take(LIST_MAX).map(called).collect()))
        };
        Ok(match of {
            OfChannel::Consumers => numeric(proxies(Side::Consumers)?.count()),
            OfChannel::Suppliers => numeric(proxies(Side::Suppliers)?.count()),
            OfChannel::ConsumerNames => proxy_names(Side::Consumers)?,
            OfChannel::SupplierNames => proxy_names(Side::Suppliers)?,
            OfChannel::ConsumerAdmins => numeric(admins(Side::Consumers)?.len()),
            OfChannel::SupplierAdmins => numeric(admins(Side::Suppliers)?.len()),
            OfChannel::ConsumerAdminNames => admin_names(Side::Consumers)?,
            OfChannel::SupplierAdminNames => admin_names(Side::Suppliers)?,
            OfChannel::QueueSize => number(figures.backlog_bytes),
            OfChannel::QueueElementCount => number(figures.backlog_events),
            OfChannel::QueueOverflows => number(figures.overflows),
            OfChannel::OldestEvent => {
                let since_1970 = Duration::from_nanos(objects.now().saturating_sub(UNIX_EPOCH).saturating_mul(100));
                Value::Numeric(figures.oldest.map_or(0.0, |age| since_1970.saturating_sub(age).as_secs_f64()))
            }
            OfChannel::SlowestConsumers => {
                let called = |key: &ProxyKey| proxy_path(objects, *key, Side::Consumers);
                Value::Text(figures.slowest.iter().map(called).collect())
            }
        })
    }

    /// Writes a statistic, and stores the value if it is a number.
    fn tell(
        &mut self,
        objects: &Objects,
        name: &str,
        statistic: Statistic,
        reply: &mut Writer<'_>,
    ) -> Result<(), Raised> {
        let value = self.value(objects, statistic)?;
        reply.string(name);
        match value {
            Value::Numeric(value) => {
                let samples = self.samples.entry(statistic).or_default();
                samples.add(value);
                let Samples { count, sum, sum_of_squares, minimum, maximum } = *samples;
                reply.u32(0);
                reply.length(1);
                reply.u64(objects.now());
                reply.f64(value);
                reply.u32(count);
                let average = sum / f64::from(count);
                [average, sum_of_squares, minimum, maximum, value].iter().for_each(|number| reply.f64(*number));
            }
            Value::Text(names) => {
                reply.u32(1);
                write_names(&names, reply);
            }
        }
        Ok(())
    }
}

fn numeric(count: usize) -> Value {
    number(count as u64)
}

/// A count as the floating point number sent: exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "what is beyond is rounded")]
fn number(count: u64) -> Value {
    Value::Numeric(count as f64)
}

fn read_names(args: &mut Reader<'_>) -> Result<Vec<String>, Raised> {
    let count = args.seq_len(4)?;
    if count > NAMES_MAX {
        return Err(Raised::limit());
    }
    Ok((0..count).map(|_| args.text()).collect::<Result<_, _>>()?)
}

/// Writes a `Monitor::NameList`.
pub(super) fn write_names(names: &[String], out: &mut Writer<'_>) {
    out.length(names.len());
    names.iter().for_each(|name| out.string(name));
}

fn get_statistic_names(Call { protocol, args, reply, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of get_statistic_names")?;
    write_names(&statistic_names(&protocol.objects), reply);
    Ok(())
}

fn get_statistic(Call { protocol, mut args, reply, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let name = args.text()?;
    args.finish("the arguments of get_statistic")?;
    let statistic = statistic(&protocol.objects, &name).ok_or_else(|| no_statistic(&protocol.objects, &name))?;
    let told = protocol.monitor.tell(&protocol.objects, &name, statistic, reply);
    protocol.monitor.figures.clear();
    told
}

fn get_statistics(Call { protocol, args, reply, .. }: Call<'_, '_>) -> Result<(), Raised> {
    tell_all(protocol, args, reply).map(drop)
}

fn tell_all(protocol: &mut Protocol, mut args: Reader<'_>, reply: &mut Writer<'_>) -> Result<Vec<Statistic>, Raised> {
    let names = read_names(&mut args)?;
    args.finish("the arguments of an operation that gives statistics")?;
    let statistics = all_statistics(&protocol.objects, &names)?;
    reply.length(names.len());
    for (name, statistic) in names.iter().zip(&statistics) {
        protocol.monitor.tell(&protocol.objects, name, *statistic, reply)?;
        // A channel's consumers can be listed in megabytes, and anew each time that they are asked for.
        if reply.position() > ANSWER_BYTES_MAX {
            log_line!(Info, "statistics are not sent: the answer would have more than {ANSWER_BYTES_MAX} bytes");
            protocol.monitor.figures.clear();
            return Err(Raised::limit());
        }
    }
    protocol.monitor.figures.clear();
    Ok(statistics)
}

fn get_and_clear_statistics(Call { protocol, args, reply, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let told = tell_all(protocol, args, reply)?;
    protocol.monitor.samples.retain(|statistic, _| !told.contains(statistic));
    Ok(())
}

fn clear_statistics(Call { protocol, mut args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let names = read_names(&mut args)?;
    args.finish("the arguments of clear_statistics")?;
    let cleared = all_statistics(&protocol.objects, &names)?;
    protocol.monitor.samples.retain(|statistic, _| !cleared.contains(statistic));
    Ok(())
}

// ---- control ----

/// Reads the name of a control operation, and refuses it unless control is granted.
fn controlled(protocol: &Protocol, mut args: Reader<'_>) -> Result<String, Raised> {
    let name = args.text()?;
    args.finish("the arguments of an operation that takes a name")?;
    if protocol.objects.compatibility().monitor_control { Ok(name) } else { Err(Raised::no_permission()) }
}

/// The exception for an unknown statistic, with its name, as in TAO.
fn nobody(name: &str) -> Raised {
    UserException::InvalidStatistic(vec![name.to_owned()]).into()
}

/// Parses `FACTORY/CHANNEL`, and returns the channel and the rest.
fn path<'n>(protocol: &Protocol, name: &'n str) -> Option<(ChannelId, &'n str)> {
    let rest = name.strip_prefix(protocol.objects.factory_name())?.strip_prefix('/')?;
    let (channel, rest) = rest.rsplit_once('/')?;
    Some((protocol.objects.channel_called(channel)?, rest))
}

fn shutdown_event_channel(Call { protocol, args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let name = controlled(protocol, args)?;
    let called = name.strip_prefix(protocol.objects.factory_name()).and_then(|rest| rest.strip_prefix('/'));
    let channel = called.and_then(|called| protocol.objects.channel_called(called)).ok_or_else(|| nobody(&name))?;
    protocol.destroy_channel(channel)
}

fn remove_consumer(Call { protocol, args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    remove_proxy(protocol, Side::Consumers, args)
}

fn remove_supplier(Call { protocol, args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    remove_proxy(protocol, Side::Suppliers, args)
}

fn remove_proxy(protocol: &mut Protocol, side: Side, args: Reader<'_>) -> Result<(), Raised> {
    let name = controlled(protocol, args)?;
    let found = path(protocol, &name).and_then(|(channel, called)| {
        let numbered = || called.parse().ok().map(engine::ProxyId);
        let proxy = protocol.objects.names.proxy_named(channel, side, called).or_else(numbered)?;
        let key = ProxyKey { channel, proxy };
        protocol.objects.hierarchy().proxy(key).is_ok_and(|proxy| proxy.side == side).then_some(key)
    });
    let key = found.ok_or_else(|| nobody(&name))?;
    if protocol.dismiss_for_client(key) { Ok(()) } else { Err(nobody(&name)) }
}

fn remove_consumeradmin(Call { protocol, args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    remove_admin(protocol, Side::Consumers, args)
}

fn remove_supplieradmin(Call { protocol, args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    remove_admin(protocol, Side::Suppliers, args)
}

fn remove_admin(protocol: &mut Protocol, side: Side, args: Reader<'_>) -> Result<(), Raised> {
    let name = controlled(protocol, args)?;
    let found = path(protocol, &name).and_then(|(channel, called)| {
        let numbered = || called.parse().ok().map(engine::AdminId);
        let admin = protocol.objects.names.admin_named(channel, side, called).or_else(numbered)?;
        let key = AdminKey { channel, side, admin };
        protocol.objects.has_admin(key).then_some(key)
    });
    protocol.destroy_admin(found.ok_or_else(|| nobody(&name))?)
}

fn shutdown(Call { protocol, args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of shutdown")?;
    if !protocol.objects.compatibility().monitor_control {
        return Err(Raised::no_permission());
    }
    protocol.objects.ask_for_the_end();
    Ok(())
}

fn statistic(objects: &Objects, name: &str) -> Option<Statistic> {
    if name == FACTORY_NAMES {
        return Some(Statistic::Factories);
    }
    let rest = name.strip_prefix(objects.factory_name())?.strip_prefix('/')?;
    if let Some((_, of)) = FACTORY.iter().find(|(known, _)| *known == rest) {
        return Some(Statistic::Factory(*of));
    }
    let (channel, rest) = rest.rsplit_once('/')?;
    let (_, of) = CHANNEL.iter().find(|(known, _)| *known == rest)?;
    Some(Statistic::Channel(objects.channel_called(channel)?, *of))
}

/// `FACTORY/CHANNEL`.
fn channel_path(objects: &Objects, channel: ChannelId) -> String {
    let named = objects.names.channel_name(channel).map(str::to_owned);
    format!("{}/{}", objects.factory_name(), named.unwrap_or_else(|| channel.0.to_string()))
}

/// `FACTORY/CHANNEL/PROXY`.
fn proxy_path(objects: &Objects, key: ProxyKey, side: Side) -> String {
    let named = objects.names.proxy_name(key, side).map(str::to_owned);
    format!("{}/{}", channel_path(objects, key.channel), named.unwrap_or_else(|| key.proxy.0.to_string()))
}

/// Names of statistics in order, up to a number of octets.
fn statistic_names(objects: &Objects) -> Vec<String> {
    let factory = objects.factory_name();
    let mut names = vec![FACTORY_NAMES.to_owned()];
    names.extend(FACTORY.iter().map(|(name, _)| format!("{factory}/{name}")));
    let mut octets = 0;
    for channel in objects.channels() {
        let of_channel = names_of_channel(objects, channel);
        octets += of_channel.iter().map(String::len).sum::<usize>();
        if octets > NAMES_BYTES_MAX {
            break;
        }
        names.extend(of_channel);
    }
    names
}

fn names_of_channel(objects: &Objects, channel: ChannelId) -> Vec<String> {
    let path = channel_path(objects, channel);
    CHANNEL.iter().map(|(name, _)| format!("{path}/{name}")).collect()
}

/// The exception for an unknown statistic, with the known ones, of its channel if the name has one.
fn no_statistic(objects: &Objects, name: &str) -> Raised {
    let rest = name.strip_prefix(objects.factory_name()).and_then(|rest| rest.strip_prefix('/'));
    let channel = rest.and_then(|rest| objects.channel_called(rest.rsplit_once('/')?.0));
    let mut valid = channel.map_or_else(|| statistic_names(objects), |channel| names_of_channel(objects, channel));
    valid.truncate(VALID_MAX);
    UserException::InvalidStatistic(valid).into()
}

/// Statistics by their names, if all exist.
fn all_statistics(objects: &Objects, names: &[String]) -> Result<Vec<Statistic>, Raised> {
    names.iter().map(|name| statistic(objects, name).ok_or_else(|| no_statistic(objects, name))).collect()
}

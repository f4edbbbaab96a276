//! `campanile info`: one channel with everything in it: settings, filters, slow consumers, dropped events.
//!
//! It uses the OMG's interfaces, and works with any service; what a service does not offer is left out. The status of consumers comes from
//! Campanile's object `Statistics`, if there is one at the channel's address.

pub(crate) mod dds;
mod history;
mod people;
pub(crate) mod status;
pub(crate) mod timers;

use crate::args::InfoOptions;
use crate::channels::{self, Names};
use crate::failure::Failure;
use crate::json;
use crate::ls::{each, orb_options};
use crate::statistics::{self, Statistics, Supplier};
use crate::store::print_json;
use client::notify::{
    ConstraintExp, ConstraintInfo, ConsumerAdmin, EventType, Filter, FilterGroupOperator, MappingConstraintInfo,
    MappingFilter, ObtainInfoMode, Property, ProxyConsumer, ProxySupplier, ProxyType, SupplierAdmin, find_channel,
};
use client::{InvokeError, Orb};
use dds::Join;
use giop::value::AnyValue;
use history::History;
use serde::Serialize;
use status::ConsumerStatus;
use std::io::{self, Write as _};
use std::time::Duration;
use timers::Timer;

/// Maximum wait for the constraints of a filter: it may belong to a client that is gone.
const FILTER_TIMEOUT_MAX: Duration = Duration::from_secs(2);

/// Information about a channel.
#[derive(Serialize)]
struct Info {
    address: String,
    /// Number; `None` if the address named the channel itself, which does not know it.
    id: Option<i32>,
    /// Name, if it has one.
    name: Option<String>,
    #[serde(rename = "interface")]
    type_id: String,
    reference: String,
    #[serde(serialize_with = "json::qos")]
    qos: Vec<Property>,
    #[serde(rename = "admin", serialize_with = "json::qos")]
    admin_properties: Vec<Property>,
    /// Offered event types; `None` if the service does not report them, or has no proxy to query.
    offered: Option<Vec<String>>,
    subscribed: Option<Vec<String>>,
    /// Stored history.
    history: Option<History>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dds_joins: Vec<Join>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    timers: Vec<Timer>,
    consumer_admins: Vec<Admin>,
    supplier_admins: Vec<Admin>,
    /// Whether the service reported the status of its consumers.
    #[serde(skip)]
    has_statuses: bool,
}

#[derive(Serialize)]
struct Admin {
    id: i32,
    #[serde(serialize_with = "json::display")]
    operator: FilterGroupOperator,
    /// Properties that differ from the channel's.
    #[serde(serialize_with = "json::qos")]
    qos: Vec<Property>,
    #[serde(flatten)]
    filtering: Filtering,
    proxies: Vec<Proxy>,
}

#[derive(Serialize)]
struct Proxy {
    id: i32,
    #[serde(rename = "type", serialize_with = "json::display")]
    kind: ProxyType,
    /// Properties that differ from the admin's.
    #[serde(serialize_with = "json::qos")]
    qos: Vec<Property>,
    #[serde(flatten)]
    filtering: Filtering,
    /// Status of its consumer.
    #[serde(flatten)]
    status: Option<ConsumerStatus>,
    #[serde(flatten)]
    supplier: Option<Supplier>,
}

/// The filters of an admin or proxy.
#[derive(Default, Serialize)]
struct Filtering {
    filters: Vec<FilterInfo>,
    #[serde(rename = "priority_filter", skip_serializing_if = "Option::is_none")]
    priority: Option<Contents>,
    #[serde(rename = "lifetime_filter", skip_serializing_if = "Option::is_none")]
    lifetime: Option<Contents>,
}

#[derive(Serialize)]
struct FilterInfo {
    id: i32,
    #[serde(flatten)]
    contents: Contents,
}

/// Contents of a filter or a mapping filter, or why they are unavailable.
#[derive(Serialize)]
#[serde(untagged)]
enum Contents {
    Unreadable {
        error: String,
    },
    Filter {
        grammar: String,
        constraints: Vec<Constraint>,
    },
    Mapping {
        #[serde(serialize_with = "json::plain")]
        default: Option<AnyValue>,
        constraints: Vec<Constraint>,
    },
}

#[derive(Serialize)]
struct Constraint {
    id: i32,
    constraint: String,
    types: Vec<String>,
    /// Value that a mapping filter gives to events.
    #[serde(serialize_with = "json::plain", skip_serializing_if = "Option::is_none")]
    value: Option<AnyValue>,
}

impl Constraint {
    fn new(id: i32, expression: ConstraintExp, value: Option<AnyValue>) -> Self {
        Self { id, constraint: expression.constraint_expr, types: names(&expression.event_types), value }
    }
}

fn names(types: &[EventType]) -> Vec<String> {
    types.iter().map(ToString::to_string).collect()
}

/// Prints the information about a channel.
pub(crate) fn run(options: &InfoOptions) -> Result<(), Failure> {
    let named = options.channel.as_ref().or(options.named_channel.as_ref());
    let channel = channels::number(named, &options.server)?;
    let info = Walk::run(options, channel).map_err(|error| Failure::remote(&error, &options.server))?;
    if options.json {
        return print_json(&info);
    }
    let mut text = String::new();
    people::write(&mut text, &info);
    let mut stdout = io::stdout();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

/// A walk through one channel.
struct Walk {
    statuses: Option<Vec<ConsumerStatus>>,
    suppliers: Vec<Supplier>,
    filter_timeout: Duration,
    offered: Option<Vec<EventType>>,
    subscribed: Option<Vec<EventType>>,
}

impl Walk {
    fn run(options: &InfoOptions, channel: Option<i32>) -> Result<Info, InvokeError> {
        let orb = Orb::new(orb_options(&options.server));
        let object = orb.resolve_service(&options.server.server)?;
        let address = object.connect()?;
        let (channel, id) = find_channel(&object, channel)?;
        let number = statistics::number(&channel, id);
        let statistics = Statistics::at(&orb, address.clone())?;
        // `None` if the service is not Campanile and does not report them.
        let statuses = status::read(&statistics, number).ok();
        let mut suppliers = statistics.suppliers().unwrap_or_default();
        suppliers.retain(|supplier| supplier.channel == number);
        let filter_timeout = options.server.timeout.min(FILTER_TIMEOUT_MAX);
        let mut walk = Self { statuses, suppliers, filter_timeout, offered: None, subscribed: None };
        let qos = if_offered(channel.get_qos())?.unwrap_or_default();
        let consumer_admins = each(channel.get_all_consumeradmins()?, |id| {
            channel.get_consumeradmin(id).and_then(|admin| walk.consumer_admin(id, &admin, &qos))
        })?;
        let supplier_admins = each(channel.get_all_supplieradmins()?, |id| {
            channel.get_supplieradmin(id).and_then(|admin| walk.supplier_admin(id, &admin, &qos))
        })?;
        Ok(Info {
            id,
            name: Names::read(&orb, &object, &address).of(&channel, number).map(str::to_owned),
            type_id: channel.object().type_id().to_owned(),
            reference: channel.object().ior().to_string(),
            admin_properties: if_offered(channel.get_admin())?.unwrap_or_default(),
            history: History::read(&statistics, number),
            dds_joins: Join::read(&statistics).into_iter().filter(|join| join.channel == number).collect(),
            timers: Timer::of_channel(&statistics, number),
            address,
            qos,
            consumer_admins,
            supplier_admins,
            offered: walk.offered.as_deref().map(names),
            subscribed: walk.subscribed.as_deref().map(names),
            has_statuses: walk.statuses.is_some(),
        })
    }

    fn consumer_admin(&mut self, id: i32, admin: &ConsumerAdmin, above: &[Property]) -> Result<Admin, InvokeError> {
        let qos = if_offered(admin.get_qos())?.unwrap_or_default();
        let mut ids = admin.push_suppliers()?;
        ids.extend(if_offered(admin.pull_suppliers())?.unwrap_or_default());
        let proxies =
            each(ids, |id| admin.get_proxy_supplier(id).and_then(|proxy| self.proxy_supplier(id, &proxy, &qos)))?;
        let filtering = Filtering {
            filters: self.filters(admin.get_all_filters(), |id| admin.get_filter(id))?,
            priority: self.mapping(admin.priority_filter())?,
            lifetime: self.mapping(admin.lifetime_filter())?,
        };
        let qos = differing(qos, above);
        Ok(Admin { id, operator: admin.my_operator()?, qos, filtering, proxies })
    }

    fn supplier_admin(&mut self, id: i32, admin: &SupplierAdmin, above: &[Property]) -> Result<Admin, InvokeError> {
        let qos = if_offered(admin.get_qos())?.unwrap_or_default();
        let mut ids = admin.push_consumers()?;
        ids.extend(if_offered(admin.pull_consumers())?.unwrap_or_default());
        let proxies =
            each(ids, |id| admin.get_proxy_consumer(id).and_then(|proxy| self.proxy_consumer(id, &proxy, &qos)))?;
        let filters = self.filters(admin.get_all_filters(), |id| admin.get_filter(id))?;
        let filtering = Filtering { filters, ..Filtering::default() };
        let qos = differing(qos, above);
        Ok(Admin { id, operator: admin.my_operator()?, qos, filtering, proxies })
    }

    fn proxy_supplier(&mut self, id: i32, proxy: &ProxySupplier, above: &[Property]) -> Result<Proxy, InvokeError> {
        if self.offered.is_none() {
            self.offered = if_offered(proxy.obtain_offered_types(ObtainInfoMode::AllNowUpdatesOff))?;
        }
        let filtering = Filtering {
            filters: self.filters(proxy.get_all_filters(), |id| proxy.get_filter(id))?,
            priority: self.mapping(proxy.priority_filter())?,
            lifetime: self.mapping(proxy.lifetime_filter())?,
        };
        let qos = differing(if_offered(proxy.get_qos())?.unwrap_or_default(), above);
        let status = self.statuses.as_ref().and_then(|all| all.iter().find(|status| status.is_of(id)).cloned());
        Ok(Proxy { id, kind: proxy.my_type()?, qos, filtering, status, supplier: None })
    }

    fn proxy_consumer(&mut self, id: i32, proxy: &ProxyConsumer, above: &[Property]) -> Result<Proxy, InvokeError> {
        if self.subscribed.is_none() {
            self.subscribed = if_offered(proxy.obtain_subscription_types(ObtainInfoMode::AllNowUpdatesOff))?;
        }
        let filters = self.filters(proxy.get_all_filters(), |id| proxy.get_filter(id))?;
        let filtering = Filtering { filters, ..Filtering::default() };
        let qos = differing(if_offered(proxy.get_qos())?.unwrap_or_default(), above);
        let supplier = self.suppliers.iter().find(|supplier| u32::try_from(id) == Ok(supplier.proxy)).cloned();
        Ok(Proxy { id, kind: proxy.my_type()?, qos, filtering, status: None, supplier })
    }

    fn filters(
        &self,
        ids: Result<Vec<i32>, InvokeError>,
        get: impl Fn(i32) -> Result<Filter, InvokeError>,
    ) -> Result<Vec<FilterInfo>, InvokeError> {
        each(if_offered(ids)?.unwrap_or_default(), |id| {
            let filter = get(id)?;
            let filter = Filter::unchecked(filter.object().with_reply_timeout(Some(self.filter_timeout)));
            let read = filter.constraint_grammar().and_then(|grammar| Ok((grammar, filter.get_all_constraints()?)));
            let contents = read.map(|(grammar, all)| {
                let constraint =
                    |info: ConstraintInfo| Constraint::new(info.constraint_id, info.constraint_expression, None);
                Contents::Filter { grammar, constraints: all.into_iter().map(constraint).collect() }
            });
            let contents = contents.unwrap_or_else(|error| Contents::Unreadable { error: error.to_string() });
            Ok(FilterInfo { id, contents })
        })
    }

    fn mapping(&self, filter: Result<Option<MappingFilter>, InvokeError>) -> Result<Option<Contents>, InvokeError> {
        let Some(filter) = if_offered(filter)?.flatten() else { return Ok(None) };
        let filter = MappingFilter::unchecked(filter.object().with_reply_timeout(Some(self.filter_timeout)));
        let read = filter.default_value().and_then(|value| Ok((value, filter.get_all_mapping_constraints()?)));
        let contents = read.map(|(default, all)| {
            let constraint = |info: MappingConstraintInfo| {
                Constraint::new(info.constraint_id, info.constraint_expression, Some(info.value))
            };
            Contents::Mapping { default: Some(default), constraints: all.into_iter().map(constraint).collect() }
        });
        Ok(Some(contents.unwrap_or_else(|error| Contents::Unreadable { error: error.to_string() })))
    }
}

/// The answer, or `None` if the service does not have the operation.
fn if_offered<T>(answer: Result<T, InvokeError>) -> Result<Option<T>, InvokeError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is("NO_IMPLEMENT") || error.is("BAD_OPERATION") => Ok(None),
        Err(error) => Err(error),
    }
}

/// The properties that differ from those one level above.
fn differing(mut properties: Vec<Property>, above: &[Property]) -> Vec<Property> {
    properties.retain(|property| !above.contains(property));
    properties
}

#[cfg(test)]
mod tests {
    use super::status::{ConsumerState, Drops};
    use super::*;

    fn status() -> ConsumerStatus {
        let drops = |name: &str, reason: &str, events| Drops {
            event_type: EventType::new("Telescope", name),
            reason: reason.into(),
            events,
        };
        ConsumerStatus {
            channel: 3,
            proxy: 2,
            name: "consumer proxy 2 of channel 3 (127.0.0.1:4711)".into(),
            state: ConsumerState { doing: "keeping up".into(), ..ConsumerState::default() },
            backlog_events: 12,
            backlog_bytes: 3400,
            delivered: 1234,
            dropped: 3,
            in_flight: 1,
            failures: 0,
            reasons: vec![("outbox_full".into(), 2), ("expired".into(), 1)],
            delayed: 5,
            pulls_waiting: 1,
            drops: vec![drops("Temperature", "outbox_full", 2), drops("Pressure", "expired", 1)],
        }
    }

    fn supplier() -> Proxy {
        let (filtering, supplier) = (Filtering::default(), Some(Supplier::gone()));
        Proxy { id: 1, kind: ProxyType::PullAny, qos: Vec::new(), filtering, status: None, supplier }
    }

    /// A channel with something of everything.
    pub(super) fn info() -> Info {
        let hot = ConstraintExp::new("$celsius > 30").for_types(&[EventType::new("Telescope", "*")]);
        let constraints = vec![Constraint::new(7, hot, None), Constraint::new(8, ConstraintExp::new(""), None)];
        let mapping = Constraint::new(1, ConstraintExp::new("$site == 'north'"), Some(9_i16.into()));
        let consumer = Proxy {
            id: 2,
            kind: ProxyType::PushStructured,
            qos: vec![Property::new("Priority", 4_i16)],
            filtering: Filtering {
                filters: vec![FilterInfo { id: 1, contents: Contents::Unreadable { error: "gone".into() } }],
                priority: Some(Contents::Mapping { default: Some(0_i16.into()), constraints: vec![mapping] }),
                lifetime: None,
            },
            status: Some(status()),
            supplier: None,
        };
        let filter = FilterInfo { id: 1, contents: Contents::Filter { grammar: "EXTENDED_TCL".into(), constraints } };
        let filtering = Filtering { filters: vec![filter], ..Filtering::default() };
        let admin =
            |operator, filtering, proxy| Admin { id: 0, operator, qos: Vec::new(), filtering, proxies: vec![proxy] };
        Info {
            address: "127.0.0.1:2809".into(),
            id: Some(3),
            name: Some("Weather".into()),
            type_id: "IDL:C:1.0".into(),
            reference: "IOR:00".into(),
            qos: vec![Property::new("Priority", 0_i16), Property::new("OrderPolicy", 1_i16)],
            admin_properties: vec![Property::new("MaxConsumers", 5_i32)],
            offered: Some(vec!["Telescope/Temperature".into()]),
            subscribed: Some(Vec::new()),
            consumer_admins: vec![admin(FilterGroupOperator::And, filtering, consumer)],
            supplier_admins: vec![admin(FilterGroupOperator::Or, Filtering::default(), supplier())],
            history: Some(History::of(41, 50)),
            dds_joins: Vec::new(),
            timers: Vec::new(),
            has_statuses: true,
        }
    }

    #[test]
    fn what_is_the_same_above_is_left_out() {
        let above = [Property::new("a", 1), Property::new("b", 2)];
        let own = vec![Property::new("a", 1), Property::new("b", 3), Property::new("c", 4)];
        assert_eq!(differing(own, &above), [Property::new("b", 3), Property::new("c", 4)]);
    }

    #[test]
    fn json_has_everything() {
        let parsed = serde_json::to_value(info()).unwrap();
        assert_eq!(parsed["id"], 3);
        assert_eq!(parsed["admin"]["MaxConsumers"], 5);
        assert_eq!(parsed["offered"][0], "Telescope/Temperature");
        assert_eq!(parsed["history"]["first"]["number"], 41);
        let admin = &parsed["consumer_admins"][0];
        assert_eq!(admin["filters"][0]["constraints"][0]["constraint"], "$celsius > 30");
        assert_eq!(admin["filters"][0]["constraints"][0]["types"][0], "Telescope/*");
        let proxy = &admin["proxies"][0];
        assert_eq!(proxy["dropped_by_reason"]["outbox_full"], 2);
        let drops = &proxy["dropped_by_type"][1];
        assert_eq!(drops["type"], "Telescope/Pressure");
        assert_eq!((&drops["reason"], &drops["events"]), (&"expired".into(), &1.into()));
        assert_eq!(proxy["filters"][0]["error"], "gone");
        assert_eq!(proxy["priority_filter"]["constraints"][0]["value"], 9);
        assert_eq!(parsed["supplier_admins"][0]["operator"], "OR_OP");
        let supplier = &parsed["supplier_admins"][0]["proxies"][0];
        assert_eq!((&supplier["supplier"], &supplier["idle_ms"]), (&"10.0.0.7".into(), &604_800_000.into()));
    }
}

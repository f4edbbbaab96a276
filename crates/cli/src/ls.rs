//! `campanile ls`: the hierarchy of a service, by CORBA, so that it works with any service. Only Campanile's object `Statistics` has the
//! client of each proxy.

use crate::args::{LsOptions, ServerOptions};
use crate::channels::{self, Names};
use crate::failure::Failure;
use crate::federation;
use crate::info::status::{ConsumerState, given_name};
use crate::show::clean;
use crate::statistics::{self, Clients, Connected, Supplier};
use crate::store::print_json;
use crate::{json, show};
use client::notify::{
    ConsumerAdmin, EventChannel, EventChannelFactory, FilterGroupOperator, Property, ProxyType, SupplierAdmin,
    find_channel,
};
use client::{InvokeError, ObjectRef, Orb, OrbOptions};
use serde::{Serialize, Serializer};
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};

/// Result of `ls`.
#[derive(Serialize)]
struct Service {
    address: String,
    #[serde(rename = "type")]
    type_id: String,
    channels: Vec<Channel>,
}

#[derive(Serialize)]
struct Channel {
    /// Number; `None` if the address named the channel itself, which does not know it.
    id: Option<i32>,
    /// Name, if it has one.
    name: Option<String>,
    #[serde(flatten)]
    details: Option<Details>,
    /// Administrative properties; `None` without `--long`.
    #[serde(rename = "admin", serialize_with = "json::optional_qos", skip_serializing_if = "Option::is_none")]
    admin_properties: Option<Vec<Property>>,
    consumer_admins: Vec<Admin>,
    supplier_admins: Vec<Admin>,
}

#[derive(Serialize)]
struct Admin {
    id: i32,
    #[serde(serialize_with = "json::display")]
    operator: FilterGroupOperator,
    #[serde(flatten)]
    details: Option<Details>,
    proxies: Vec<Proxy>,
}

#[derive(Serialize)]
struct Proxy {
    id: i32,
    #[serde(rename = "type", serialize_with = "json::display")]
    kind: ProxyType,
    /// Client; `None` if the service does not report it.
    #[serde(flatten, serialize_with = "client")]
    client: Option<Connected>,
    #[serde(flatten)]
    details: Option<Details>,
}

/// Details for `--long`.
#[derive(Serialize)]
struct Details {
    #[serde(rename = "interface")]
    type_id: String,
    reference: String,
    #[serde(serialize_with = "json::qos")]
    qos: Vec<Property>,
}

/// Serializes the client of a proxy as members beside the proxy's.
fn client<S: Serializer>(client: &Option<Connected>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Consumer<'c> {
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<&'c str>,
        consumer: &'c str,
        #[serde(flatten)]
        state: &'c ConsumerState,
    }

    #[derive(Serialize)]
    struct Members<'c> {
        connected: bool,
        #[serde(flatten)]
        consumer: Option<Consumer<'c>>,
        #[serde(flatten)]
        supplier: Option<&'c Supplier>,
    }

    let (consumer, supplier) = match client {
        None => return None::<Members<'_>>.serialize(serializer),
        Some(Connected::Nobody) => (None, None),
        Some(Connected::Consumer(status)) => {
            let (name, consumer) = (given_name(&status.name), status.client().unwrap_or_default());
            (Some(Consumer { name, consumer, state: &status.state }), None)
        }
        Some(Connected::Supplier(supplier)) => (None, Some(supplier)),
    };
    Some(Members { connected: consumer.is_some() || supplier.is_some(), consumer, supplier }).serialize(serializer)
}

/// Prints the hierarchy.
pub(crate) fn run(options: &LsOptions) -> Result<(), Failure> {
    if options.federation {
        return federation::run(&options.server, options.json);
    }
    let channel = channels::number(options.channel.as_ref(), &options.server)?;
    let service = walk(options, channel).map_err(|error| Failure::remote(&error, &options.server))?;
    if options.json {
        return print_json(&service);
    }
    let mut text = String::new();
    if options.tree || io::stdout().is_terminal() {
        write_tree(&mut text, &service);
    } else {
        write_lines(&mut text, &service);
    }
    let mut stdout = io::stdout();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

pub(crate) fn orb_options(server: &ServerOptions) -> OrbOptions {
    OrbOptions {
        name: server.settings.name.clone(),
        connect_timeout: server.timeout.min(OrbOptions::default().connect_timeout),
        reply_timeout: Some(server.timeout),
        tls: server.settings.tls.of_orb(),
        ..OrbOptions::default()
    }
}

fn walk(options: &LsOptions, channel: Option<i32>) -> Result<Service, InvokeError> {
    let orb = Orb::new(orb_options(&options.server));
    let object = orb.resolve_service(&options.server.server)?;
    let address = object.connect()?;
    let is_factory = object.is_a(EventChannelFactory::REPOSITORY_ID)?;
    // Behind the first question: a service that answers nothing is not waited for twice.
    let (clients, names) = (Clients::read(&orb, &address), Names::read(&orb, &object, &address));
    let walk = Walk { clients, names, long: options.long };
    let channels = if channel.is_some() || !is_factory {
        let (channel, id) = find_channel(&object, channel)?;
        vec![walk.channel(id, &channel)?]
    } else {
        let factory = EventChannelFactory::unchecked(object.clone());
        each(factory.get_all_channels()?, |id| {
            factory.get_event_channel(id).and_then(|channel| walk.channel(Some(id), &channel))
        })?
    };
    let type_id = if object.type_id().is_empty() && is_factory {
        EventChannelFactory::REPOSITORY_ID.to_owned()
    } else {
        object.type_id().to_owned()
    };
    Ok(Service { address, type_id, channels })
}

/// A walk through the hierarchy.
struct Walk {
    clients: Option<Clients>,
    names: Names,
    long: bool,
}

impl Walk {
    fn channel(&self, id: Option<i32>, channel: &EventChannel) -> Result<Channel, InvokeError> {
        let number = if self.clients.is_some() { statistics::number(channel, id) } else { 0 };
        let consumer_admins = each(channel.get_all_consumeradmins()?, |id| {
            channel.get_consumeradmin(id).and_then(|admin| self.consumer_admin(number, id, &admin))
        })?;
        let supplier_admins = each(channel.get_all_supplieradmins()?, |id| {
            channel.get_supplieradmin(id).and_then(|admin| self.supplier_admin(number, id, &admin))
        })?;
        let details = self.details(channel.object(), || channel.get_qos());
        let admin_properties = self.long.then(|| channel.get_admin().unwrap_or_default());
        let name = self.names.of(channel, number).map(str::to_owned);
        Ok(Channel { id, name, details, admin_properties, consumer_admins, supplier_admins })
    }

    fn consumer_admin(&self, channel: u32, id: i32, admin: &ConsumerAdmin) -> Result<Admin, InvokeError> {
        let mut ids = admin.push_suppliers()?;
        // Services that only push need not offer this.
        ids.extend(admin.pull_suppliers().unwrap_or_default());
        let proxies = each(ids, |id| {
            let proxy = admin.get_proxy_supplier(id)?;
            let details = self.details(proxy.object(), || proxy.get_qos());
            Ok(Proxy { id, kind: proxy.my_type()?, client: self.client(channel, id), details })
        })?;
        let details = self.details(admin.object(), || admin.get_qos());
        Ok(Admin { id, operator: admin.my_operator()?, details, proxies })
    }

    fn supplier_admin(&self, channel: u32, id: i32, admin: &SupplierAdmin) -> Result<Admin, InvokeError> {
        let mut ids = admin.push_consumers()?;
        ids.extend(admin.pull_consumers().unwrap_or_default());
        let proxies = each(ids, |id| {
            let proxy = admin.get_proxy_consumer(id)?;
            let details = self.details(proxy.object(), || proxy.get_qos());
            Ok(Proxy { id, kind: proxy.my_type()?, client: self.client(channel, id), details })
        })?;
        let details = self.details(admin.object(), || admin.get_qos());
        Ok(Admin { id, operator: admin.my_operator()?, details, proxies })
    }

    fn client(&self, channel: u32, proxy: i32) -> Option<Connected> {
        self.clients.as_ref().map(|clients| clients.at(channel, proxy))
    }

    /// Details for `--long`. A service that does not report its quality of service is shown without.
    fn details(&self, object: &ObjectRef, qos: impl FnOnce() -> Result<Vec<Property>, InvokeError>) -> Option<Details> {
        self.long.then(|| Details {
            type_id: object.type_id().to_owned(),
            reference: object.ior().to_string(),
            qos: qos().unwrap_or_default(),
        })
    }
}

/// Calls `find` for each id, in order. Objects may go during the walk: those that are gone are left out.
pub(crate) fn each<T>(
    mut ids: Vec<i32>,
    find: impl FnMut(i32) -> Result<T, InvokeError>,
) -> Result<Vec<T>, InvokeError> {
    ids.sort_unstable();
    let is_gone = |error: &InvokeError| {
        error.object_is_gone()
            || ["ChannelNotFound", "AdminNotFound", "ProxyNotFound"].iter().any(|name| error.is(name))
    };
    let found = ids.into_iter().map(find);
    found.filter(|found| !found.as_ref().is_err_and(is_gone)).collect()
}

/// One line of the tree, beside its depth.
struct Line {
    depth: usize,
    text: String,
}

/// Writes a tree, for a terminal.
fn write_tree(out: &mut String, service: &Service) {
    let mut lines = Vec::new();
    for channel in &service.channels {
        let mut text = channel.id.map_or_else(|| "channel".to_owned(), |id| format!("channel {id}"));
        if let Some(name) = &channel.name {
            let _ = write!(text, "  {}", clean(name));
        }
        lines.push(Line { depth: 0, text });
        push_details(&mut lines, 1, channel.details.as_ref(), channel.admin_properties.as_deref().unwrap_or_default());
        for (side, admins) in [("consumer", &channel.consumer_admins), ("supplier", &channel.supplier_admins)] {
            for admin in admins {
                let text = format!("{side} admin {}  {}", admin.id, admin.operator);
                lines.push(Line { depth: 1, text });
                push_details(&mut lines, 2, admin.details.as_ref(), &[]);
                for proxy in &admin.proxies {
                    let client = proxy.client.as_ref().map_or_else(String::new, |c| format!("  {}", c.describe()));
                    lines.push(Line { depth: 2, text: format!("proxy {}  {}{client}", proxy.id, proxy.kind) });
                    push_details(&mut lines, 3, proxy.details.as_ref(), &[]);
                }
            }
        }
    }
    let _ = writeln!(out, "{} at {}", clean(&service.type_id), clean(&service.address));
    for (index, line) in lines.iter().enumerate() {
        let later = lines.get(index + 1..).unwrap_or_default();
        for depth in 0..=line.depth {
            // A branch goes on if a line at its depth comes before one further out.
            let goes_on = later.iter().find(|l| l.depth <= depth).is_some_and(|l| l.depth == depth);
            out.push_str(match (depth == line.depth, goes_on) {
                (true, true) => "├─ ",
                (true, false) => "└─ ",
                (false, true) => "│  ",
                (false, false) => "   ",
            });
        }
        out.push_str(&line.text);
        out.push('\n');
    }
    if service.channels.is_empty() {
        out.push_str("no channels\n");
    }
}

fn push_details(lines: &mut Vec<Line>, depth: usize, details: Option<&Details>, admin: &[Property]) {
    let Some(details) = details else { return };
    if !details.type_id.is_empty() {
        lines.push(Line { depth, text: format!("type {}", clean(&details.type_id)) });
    }
    for (what, properties) in [("QoS", details.qos.as_slice()), ("admin", admin)] {
        if !properties.is_empty() {
            lines.push(Line { depth, text: format!("{what} {}", property_list(properties)) });
        }
    }
}

fn property_list(properties: &[Property]) -> String {
    let mut text = String::new();
    for (index, property) in properties.iter().enumerate() {
        let _ = write!(text, "{}{}=", if index > 0 { ", " } else { "" }, clean(&property.name));
        show::property_value(&mut text, property);
    }
    text
}

/// Writes one object a line, with its whole path, for a pipe.
fn write_lines(out: &mut String, service: &Service) {
    let mut object = |path: &str, client: Option<&Connected>, details: Option<&Details>, admin: &[Property]| {
        out.push_str(path);
        if let Some(client) = client {
            let _ = write!(out, "\t{}", client.describe());
        }
        if let Some(details) = details {
            let _ = write!(out, "\t{}\t{}", clean(&details.type_id), property_list(&details.qos));
            if !admin.is_empty() {
                let _ = write!(out, "\t{}", property_list(admin));
            }
        }
        out.push('\n');
    };
    for channel in &service.channels {
        let path = channel.id.map_or_else(|| "channel".to_owned(), |id| format!("channel {id}"));
        let name = channel.name.as_ref().map_or_else(String::new, |name| format!("\t{}", clean(name)));
        object(
            &format!("{path}{name}"),
            None,
            channel.details.as_ref(),
            channel.admin_properties.as_deref().unwrap_or_default(),
        );
        for (side, admins) in [("consumer", &channel.consumer_admins), ("supplier", &channel.supplier_admins)] {
            for admin in admins {
                let path = format!("{path} {side}-admin {}", admin.id);
                object(&format!("{path} {}", admin.operator), None, admin.details.as_ref(), &[]);
                for proxy in &admin.proxies {
                    let path = format!("{path} proxy {} {}", proxy.id, proxy.kind);
                    object(&path, proxy.client.as_ref(), proxy.details.as_ref(), &[]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::status::ConsumerStatus;

    fn service() -> Service {
        let status = ConsumerStatus {
            name: "consumer proxy 1 of channel 0 (10.0.0.7:4711 a)".into(),
            state: ConsumerState { doing: "keeping up".into(), ..ConsumerState::default() },
            ..ConsumerStatus::default()
        };
        let called = ConsumerStatus { name: format!("\"archive\": {}", status.name), ..status.clone() };
        let supplier = Supplier { name: Some("mount".into()), ..Supplier::gone() };
        let client = move |id| match id {
            1 => Connected::Consumer(status.clone()),
            3 => Connected::Consumer(called.clone()),
            4 => Connected::Supplier(supplier.clone()),
            _ => Connected::Nobody,
        };
        let proxy = |id| Proxy { id, kind: ProxyType::PushStructured, client: Some(client(id)), details: None };
        let admin = |id, proxies| Admin { id, operator: FilterGroupOperator::And, details: None, proxies };
        let channel = |id, details| Channel {
            id: Some(id),
            name: (id == 3).then(|| "Weather".to_owned()),
            details,
            admin_properties: None,
            consumer_admins: vec![admin(0, vec![proxy(1), proxy(if id == 3 { 3 } else { 2 })])],
            supplier_admins: vec![admin(0, if id == 3 { vec![proxy(4)] } else { Vec::new() })],
        };
        let details = Details {
            type_id: "IDL:T:1.0".into(),
            reference: "IOR:00".into(),
            qos: vec![Property::new("PushWindow", 1_u16)],
        };
        Service {
            address: "127.0.0.1:2809".into(),
            type_id: "IDL:F:1.0".into(),
            channels: vec![channel(0, None), channel(3, Some(details))],
        }
    }

    #[test]
    fn terminal_gets_a_tree() {
        let mut out = String::new();
        write_tree(&mut out, &service());
        let expected = "\
IDL:F:1.0 at 127.0.0.1:2809
├─ channel 0
│  ├─ consumer admin 0  AND_OP
│  │  ├─ proxy 1  PUSH_STRUCTURED  10.0.0.7:4711 a  keeping up
│  │  └─ proxy 2  PUSH_STRUCTURED  not connected
│  └─ supplier admin 0  AND_OP
└─ channel 3  Weather
   ├─ type IDL:T:1.0
   ├─ QoS PushWindow=1
   ├─ consumer admin 0  AND_OP
   │  ├─ proxy 1  PUSH_STRUCTURED  10.0.0.7:4711 a  keeping up
   │  └─ proxy 3  PUSH_STRUCTURED  archive  10.0.0.7:4711 a  keeping up
   └─ supplier admin 0  AND_OP
      └─ proxy 4  PUSH_STRUCTURED  mount  10.0.0.7  3 events, idle for 7 d 0 h, its connection is closed, no reference
";
        assert_eq!(out, expected);
    }

    #[test]
    fn pipe_gets_a_line_for_each_object() {
        let mut out = String::new();
        write_lines(&mut out, &service());
        let lines: Vec<_> = out.lines().collect();
        assert_eq!(lines[2], "channel 0 consumer-admin 0 proxy 1 PUSH_STRUCTURED\t10.0.0.7:4711 a  keeping up");
        assert_eq!(lines[5], "channel 3\tWeather\tIDL:T:1.0\tPushWindow=1");
        assert_eq!(lines.len(), 11);
    }

    #[test]
    fn json_has_everything() {
        let parsed = serde_json::to_value(service()).unwrap();
        assert_eq!(parsed["channels"][1]["id"], 3);
        assert_eq!(
            (&parsed["channels"][0]["name"], &parsed["channels"][1]["name"]),
            (&serde_json::Value::Null, &"Weather".into())
        );
        assert_eq!(parsed["channels"][1]["qos"]["PushWindow"], 1);
        let proxies = &parsed["channels"][0]["consumer_admins"][0]["proxies"];
        assert_eq!((&proxies[1]["type"], &proxies[1]["connected"]), (&"PUSH_STRUCTURED".into(), &false.into()));
        assert_eq!((&proxies[0]["consumer"], &proxies[0]["state"]), (&"10.0.0.7:4711 a".into(), &"keeping_up".into()));
        let proxies = &parsed["channels"][1]["consumer_admins"][0]["proxies"];
        assert_eq!((&proxies[1]["name"], proxies[0].get("name")), (&"archive".into(), None));
    }
}

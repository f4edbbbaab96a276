//! `campanile channel`: channels made, set and destroyed. Works with any OMG notification service.

use crate::args::{ChannelArg, ChannelCommand, ChannelLsOptions, CreateOptions, RmOptions, ServerOptions, SetOptions};
use crate::channels::{self, Names};
use crate::failure::Failure;
use crate::info::timers::Timer;
use crate::ls::orb_options;
use crate::statistics::{Clients, Statistics};
use crate::store::print_json;
use crate::{show, terminal};
use client::naming::NamingContext;
use client::notify::{EventChannel, EventChannelFactory, Property, find_channel, property_errors};
use client::{InvokeError, ObjectRef, Orb};
use corba::{near, parse_time};
use giop::value::{AnyValue, Value};
use serde::Serialize;
use std::io::{self, Write as _};

/// Runs one of the sub-commands.
pub(crate) fn run(command: &ChannelCommand) -> Result<(), Failure> {
    match command {
        ChannelCommand::Ls(options) => list(options),
        ChannelCommand::Create(options) => create(options),
        ChannelCommand::Set(options) => set(options),
        ChannelCommand::Rm(options) => remove(options),
    }
}

/// A channel, as `ls` shows it.
#[derive(Serialize)]
struct Listed {
    /// Number; `None` for a channel of another service.
    id: Option<i32>,
    /// Name, if it has one.
    name: Option<String>,
    /// Number of connected clients; `None` if the service does not report it.
    consumers: Option<usize>,
    suppliers: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    timers: Vec<Timer>,
    /// Host and port of the other service, if the name leads to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
}

fn list(options: &ChannelLsOptions) -> Result<(), Failure> {
    let remote = |error: InvokeError| Failure::remote(&error, &options.server);
    let service = service(&options.server).map_err(remote)?;
    let address = service.connect().map_err(remote)?;
    let (default, _) = find_channel(&service, None).map_err(remote)?;
    let factory = default.my_factory().map_err(remote)?;
    let (names, clients) = (Names::read(service.orb(), &service, &address), Clients::read(service.orb(), &address));
    let statistics = Statistics::at(service.orb(), address).ok();
    let timers = statistics.map_or_else(Vec::new, |statistics| Timer::read(&statistics));
    let mut listed = Vec::new();
    for id in factory.get_all_channels().map_err(remote)? {
        // A channel that was destroyed meanwhile is left out.
        let Ok(channel) = factory.get_event_channel(id) else { continue };
        let number = u32::try_from(id).unwrap_or_default();
        let (consumers, suppliers) = clients.as_ref().map(|clients| clients.count(number)).unzip();
        let name = names.of(&channel, number).map(str::to_owned);
        let timers = timers.iter().filter(|timer| timer.channel == number).cloned().collect();
        listed.push(Listed { id: Some(id), name, consumers, suppliers, timers, at: None });
    }
    listed.extend(elsewhere(&service, &default));
    if options.json {
        return print_json(&listed);
    }
    let number = |count: Option<usize>| count.map_or_else(|| "-".to_owned(), show::count);
    let rows = listed.iter().map(|channel| {
        let mut name = channel.name.as_deref().map(show::clean).unwrap_or_default();
        if let Some(at) = &channel.at {
            name = format!("{name} at {}", show::clean(at));
        }
        [
            channel.id.map_or_else(|| "-".to_owned(), |id| id.to_string()),
            number(channel.consumers),
            number(channel.suppliers),
            if channel.timers.is_empty() { String::new() } else { show::count(channel.timers.len()) },
            name,
        ]
    });
    let mut text = String::new();
    let rows: Vec<_> = rows.collect();
    // Without a timer there is no column for them.
    match listed.iter().any(|channel| !channel.timers.is_empty()) {
        true => show::table(&mut text, (&["CHANNEL", "CONSUMERS", "SUPPLIERS", "TIMERS", "NAME"], true), &[4], &rows),
        false => {
            let rows: Vec<_> =
                rows.into_iter().map(|[id, consumers, suppliers, _, name]| [id, consumers, suppliers, name]).collect();
            show::table(&mut text, (&["CHANNEL", "CONSUMERS", "SUPPLIERS", "NAME"], true), &[3], &rows);
        }
    }
    Ok(io::stdout().write_all(text.as_bytes())?)
}

/// Names in the service's own naming service that lead to channels of other services. Empty if it has no naming service.
fn elsewhere(service: &ObjectRef, default: &EventChannel) -> Vec<Listed> {
    let Some(here) = default.object().ior().iiop().map(|here| (here.host.clone(), here.port)) else {
        return Vec::new();
    };
    let root = NamingContext::beside(service);
    let Ok((bindings, _)) = root.list(channels::NAMES_MAX) else { return Vec::new() };
    let names = bindings.into_iter().filter(|binding| !binding.is_context);
    let found = names.filter_map(|binding| {
        let name = binding.name.first().filter(|name| name.kind.is_empty())?;
        let reference = root.resolve(&binding.name).ok()?;
        let profile = reference.ior().iiop().filter(|profile| (&*profile.host, profile.port) != (&*here.0, here.1))?;
        let is_channel = reference.ior().type_id.ends_with("/EventChannel:1.0");
        let at = format!("{}:{}", bracketed(&profile.host), profile.port);
        is_channel.then(|| Listed {
            id: None,
            name: Some(name.id.clone()),
            consumers: None,
            suppliers: None,
            timers: Vec::new(),
            at: Some(at),
        })
    });
    found.collect()
}

/// A host as written before a port.
fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

fn create(options: &CreateOptions) -> Result<(), Failure> {
    let (name, properties) = match options.properties.split_first() {
        Some((name, properties)) if !name.contains('=') => (Some(name), properties),
        _ => (None, options.properties.as_slice()),
    };
    let given = given(properties)?;
    let remote = |error: InvokeError| Failure::remote(&error, &options.server);
    let service = service(&options.server).map_err(remote)?;
    let Some(name) = name else { return create_without_name(&service, &given, &options.server) };
    let argument: ChannelArg = name.parse().map_err(|why: &str| Failure::Usage(why.to_owned()))?;
    if let ChannelArg::Number(number) = argument {
        return Err(Failure::Usage(format!("{number} is no name: the service numbers channels itself")));
    }
    let place = channels::number_or_new(Some(&argument), &options.server)?;
    let Some(number) = place.number.filter(|_| place.is_new()) else {
        let number = place.number.unwrap_or_default();
        return Err(Failure::Message(format!(
            "there is a channel {name:?} already, number {number}; `campanile channel set` sets it"
        )));
    };
    let (channel, _) = find_channel(&service, Some(number)).map_err(remote)?;
    set_all(&channel, &given, &options.server).inspect_err(|_| place.undo())?;
    Ok(writeln!(io::stdout(), "{number}")?)
}

fn create_without_name(service: &ObjectRef, given: &[(&str, &str)], server: &ServerOptions) -> Result<(), Failure> {
    let remote = |error: InvokeError| Failure::remote(&error, server);
    let factory = if service.is_a(EventChannelFactory::REPOSITORY_ID).map_err(remote)? {
        EventChannelFactory::unchecked(service.clone())
    } else {
        EventChannel::narrow(service.clone()).and_then(|channel| channel.my_factory()).map_err(remote)?
    };
    let (channel, id) = factory.create_channel(&[], &[]).map_err(remote)?;
    // The types of properties are those of the values that the new channel has.
    if let Err(failure) = set_all(&channel, given, server) {
        channel.destroy().map_err(remote)?;
        return Err(failure);
    }
    Ok(writeln!(io::stdout(), "{id}")?)
}

fn set_all(channel: &EventChannel, given: &[(&str, &str)], server: &ServerOptions) -> Result<(), Failure> {
    if given.is_empty() {
        return Ok(());
    }
    let remote = |error: InvokeError| Failure::remote(&error, server);
    let mut known = channel.get_qos().map_err(remote)?;
    known.extend(channel.get_admin().map_err(remote)?);
    channel.set_qos(&of_types(&known, given)?).map_err(|error| {
        let refused = property_errors(&error).unwrap_or_default();
        let names = || known.iter().map(|property| property.name.as_str());
        let unknown = refused.iter().find(|refused| names().all(|name| name != refused.name));
        match unknown.and_then(|unknown| near::nearest(&unknown.name, names()).map(|near| (&unknown.name, near))) {
            Some((name, near)) => {
                Failure::Message(format!("there is no property {name}; did you mean {near}? Nothing was set"))
            }
            None => remote(error),
        }
    })
}

fn set(options: &SetOptions) -> Result<(), Failure> {
    let given = given(&options.properties)?;
    let remote = |error: InvokeError| Failure::remote(&error, &options.server);
    let number = channels::number(Some(&options.channel), &options.server)?;
    let (channel, _) = service(&options.server).and_then(|service| find_channel(&service, number)).map_err(remote)?;
    set_all(&channel, &given, &options.server)
}

fn remove(options: &RmOptions) -> Result<(), Failure> {
    let remote = |error: InvokeError| Failure::remote(&error, &options.server);
    let service = service(&options.server).map_err(remote)?;
    let find = |named| {
        let number = channels::number(Some(named), &options.server)?;
        Ok((named, number, find_channel(&service, number).map_err(remote)?.0))
    };
    // All channels are looked up before the question, and before the first is destroyed.
    let found: Vec<_> = options.channels.iter().map(find).collect::<Result<_, Failure>>()?;
    if !options.yes && !terminal::can_ask() {
        return Err(Failure::Usage("there is no terminal to ask on: say --yes".to_owned()));
    }
    for (named, number, channel) in found {
        let which = match named {
            ChannelArg::Number(number) => number.to_string(),
            ChannelArg::Name(name) => format!("{} ({})", number.unwrap_or_default(), show::clean(name)),
        };
        if !options.yes && !terminal::is_confirmed(&format!("destroy channel {which} with all that is in it?"))? {
            return Err(Failure::Message(format!("channel {which} was not destroyed")));
        }
        channel.destroy().map_err(remote)?;
        writeln!(io::stdout(), "destroyed channel {which}")?;
    }
    Ok(())
}

fn service(server: &ServerOptions) -> Result<ObjectRef, InvokeError> {
    Orb::new(orb_options(server)).resolve_service(&server.server)
}

/// Splits each `PROPERTY=VALUE`.
fn given(properties: &[String]) -> Result<Vec<(&str, &str)>, Failure> {
    let parted = properties.iter().map(|text| {
        text.split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| Failure::Usage(format!("{text} is not PROPERTY=VALUE, such as FullOutbox=Discard")))
    });
    parted.collect()
}

/// Properties with values of the types that a channel uses.
fn of_types(known: &[Property], given: &[(&str, &str)]) -> Result<Vec<Property>, Failure> {
    given
        .iter()
        .map(|(name, text)| {
            let of_type = known.iter().find(|known| known.name == *name).map(|known| &known.value.value);
            let value = value(of_type, text)
                .ok_or_else(|| Failure::Usage(format!("{text} is no value of {name}{}", example(of_type))))?;
            Ok(Property::new(name, value))
        })
        .collect()
}

fn example(of_type: Option<&Value>) -> &'static str {
    match of_type {
        Some(Value::Bool(_)) => ": true or false",
        Some(Value::ULongLong(_)) => ": a number, or a time with its unit, such as 5s",
        Some(Value::Short(_) | Value::Long(_) | Value::ULong(_) | Value::UShort(_)) => ": a whole number",
        _ => "",
    }
}

/// Parses a property's value as `of_type`. The type of an unknown property is guessed from the text.
fn value(of_type: Option<&Value>, text: &str) -> Option<AnyValue> {
    Some(match of_type {
        Some(Value::Bool(_)) => AnyValue::from(text.parse::<bool>().ok()?),
        Some(Value::Short(_)) => AnyValue::from(text.parse::<i16>().ok()?),
        Some(Value::Long(_)) => AnyValue::from(text.parse::<i32>().ok()?),
        Some(Value::ULong(_)) => AnyValue::from(text.parse::<u32>().ok()?),
        Some(Value::ULongLong(_)) => AnyValue::from(text.parse::<u64>().ok().or_else(|| parse_time(text))?),
        Some(Value::String(_)) => AnyValue::from(text),
        Some(_) => return None,
        None => match (text.parse::<bool>(), text.parse::<i32>(), parse_time(text)) {
            (Ok(flag), ..) => AnyValue::from(flag),
            (_, Ok(number), _) => AnyValue::from(number),
            (.., Some(time)) => AnyValue::from(time),
            _ => AnyValue::from(text),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_of_the_type_that_the_property_has() {
        let of = |of_type: Value, text: &str| value(Some(&of_type), text).map(|any| any.value);
        assert_eq!(of(Value::Short(0), "3"), Some(Value::Short(3)));
        assert_eq!(of(Value::Long(0), "-3"), Some(Value::Long(-3)));
        assert_eq!(of(Value::ULongLong(0), "2s"), Some(Value::ULongLong(20_000_000)));
        assert_eq!(of(Value::ULongLong(0), "7"), Some(Value::ULongLong(7)));
        assert_eq!(of(Value::Bool(false), "true"), Some(Value::Bool(true)));
        assert_eq!(of(Value::String(String::new()), "Hold"), Some(Value::String("Hold".into())));
        for (of_type, text) in [(Value::Short(0), "70000"), (Value::Bool(false), "1"), (Value::ULongLong(0), "2 S")] {
            assert_eq!(of(of_type, text), None, "{text}");
        }
    }

    #[test]
    fn what_is_no_assignment_is_refused() {
        assert!(given(&["FullOutbox".to_owned()]).is_err() && given(&["=3".to_owned()]).is_err());
        assert_eq!(given(&["A=b=c".to_owned()]).unwrap(), [("A", "b=c")]);
    }
}

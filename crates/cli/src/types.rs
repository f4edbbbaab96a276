//! `campanile types`: event types of a channel, and the contents of their events.

use crate::args::{ServerOptions, TypesOptions};
use crate::failure::Failure;
use crate::signals::{Waiter, Wake};
use crate::{channels, json, ls, show, subscribe};
use client::notify::{
    ClientType, EventChannel, EventType, ObtainInfoMode, ProxyConsumer, StructuredEvent, StructuredProxyPushConsumer,
    StructuredProxyPushSupplier, find_channel,
};
use client::{InvokeError, Orb, SimpleConsumer};
use giop::typecode::{Kind, TypeCode};
use giop::value::AnyValue;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum event types listed; the others are counted together.
const TYPES_MAX: usize = 4_096;
/// Maximum different fields of a type, and different types in its events.
const FIELDS_MAX: usize = 256;
const CARRIED_MAX: usize = 8;
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Observations of an event type.
#[derive(Clone, Debug, Default)]
struct Seen {
    is_offered: bool,
    is_subscribed: bool,
    events: u64,
    octets: u64,
    /// Fields with the names of their types.
    fields: BTreeMap<String, String>,
    /// Types of bodies, and of fields with named types.
    carried: Vec<TypeCode>,
}

impl Seen {
    fn count(&mut self, event: &StructuredEvent, octets: usize) {
        self.events += 1;
        self.octets += octets as u64;
        for field in &event.filterable_data {
            if self.fields.len() < FIELDS_MAX || self.fields.contains_key(&field.name) {
                let shown = field.value.type_code.root().to_string();
                let known = self.fields.entry(field.name.clone()).or_default();
                if *known != shown {
                    *known = if known.is_empty() { shown } else { "of several types".to_owned() };
                }
            }
            self.carry(&field.value);
        }
        self.carry(&event.remainder);
    }

    fn carry(&mut self, value: &AnyValue) {
        let code = &value.type_code;
        let has_name = matches!(code.kind(), Kind::Struct | Kind::Union | Kind::Enum | Kind::Alias | Kind::Exception);
        if has_name && self.carried.len() < CARRIED_MAX && !self.carried.contains(code) {
            self.carried.push(code.clone());
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Types {
    seen: BTreeMap<(String, String), Seen>,
    /// Number of events of unlisted types.
    others: u64,
}

impl Types {
    fn of(&mut self, domain: &str, name: &str) -> Option<&mut Seen> {
        let key = (domain.to_owned(), name.to_owned());
        if self.seen.len() >= TYPES_MAX && !self.seen.contains_key(&key) {
            self.others += 1;
            return None;
        }
        Some(self.seen.entry(key).or_default())
    }

    fn declare(&mut self, types: &[EventType], mark: fn(&mut Seen)) {
        for EventType { domain, name, .. } in types {
            if let Some(seen) = self.of(domain, name) {
                mark(seen);
            }
        }
    }
}

/// Observes events for the requested time, and prints the result.
pub(crate) fn run(options: &TypesOptions) -> Result<(), Failure> {
    let waiter = Waiter::install().map_err(Failure::message)?;
    let mut types = Types::default();
    let channel = channels::number(options.selection.channel.as_ref(), &options.server)?;
    // Before there is a subscription of this command's own.
    let subscribed = subscribed(&options.server, channel).map_err(|error| Failure::remote(&error, &options.server))?;
    types.declare(&subscribed, |seen| seen.is_subscribed = true);
    let types = Arc::new(Mutex::new(types));
    let counted = Arc::clone(&types);
    let selection = &options.selection;
    let settings = subscribe::consumer_options(&options.server, selection);
    let consumer = SimpleConsumer::connect(&options.server.server, channel, settings, move |received| {
        if let Ok(event) = received.event() {
            let mut types = counted.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(seen) = types.of(&event.domain, &event.type_name) {
                seen.count(&event, received.bytes().len());
            }
        }
        Ok(())
    })
    .map_err(|error| subscribe::refused(&error, (selection.constraint.as_deref(), channel), &options.server))?;
    let proxy = consumer.proxy().map(StructuredProxyPushSupplier::unchecked);
    let offered = proxy.map(|proxy| proxy.obtain_offered_types(ObtainInfoMode::AllNowUpdatesOff)).transpose();
    let offered = offered.map_err(|error| Failure::remote(&error, &options.server))?.unwrap_or_default();
    types.lock().unwrap_or_else(PoisonError::into_inner).declare(&offered, |seen| seen.is_offered = true);
    eprintln!("campanile: looking at events for {:?}; Ctrl-C ends", options.seconds);
    let began = Instant::now();
    while began.elapsed() < options.seconds && !consumer.has_ended() {
        let left = options.seconds.saturating_sub(began.elapsed()).min(LOOK_EVERY);
        if let Some(Wake::Signal | Wake::HangUp) = waiter.wait(Some(left)) {
            break;
        }
    }
    let took = began.elapsed();
    drop(consumer.close());
    let types = types.lock().unwrap_or_else(PoisonError::into_inner);
    let mut stdout = io::stdout();
    let text = match options.json {
        true => as_json(&types, took),
        false if options.idl || stdout.is_terminal() => for_people(&types, took),
        false => lines(&types),
    };
    stdout.write_all(text.as_bytes())?;
    if types.seen.is_empty() {
        Err(Failure::message("no event type is offered, subscribed to, or came"))
    } else {
        Ok(())
    }
}

/// Event types that consumers have subscribed to, or that suppliers offer.
pub(crate) fn declared(server: &ServerOptions, channel: Option<i32>) -> Result<Vec<EventType>, InvokeError> {
    let mut types = subscribed(server, channel)?;
    let channel = channel_of(server, channel)?;
    let (proxy, _) = channel.default_consumer_admin()?.obtain_notification_push_supplier(ClientType::Structured)?;
    let proxy = StructuredProxyPushSupplier::unchecked(proxy.object().clone());
    let offered = proxy.obtain_offered_types(ObtainInfoMode::AllNowUpdatesOff);
    let _ = proxy.disconnect_structured_push_supplier();
    types.extend(offered?);
    Ok(types)
}

fn channel_of(server: &ServerOptions, channel: Option<i32>) -> Result<EventChannel, InvokeError> {
    let service = Orb::new(ls::orb_options(server)).resolve_service(&server.server)?;
    Ok(find_channel(&service, channel)?.0)
}

/// Event types that consumers have subscribed to, as suppliers see them.
fn subscribed(server: &ServerOptions, channel: Option<i32>) -> Result<Vec<EventType>, InvokeError> {
    let channel = channel_of(server, channel)?;
    let (proxy, _) = channel.default_supplier_admin()?.obtain_notification_push_consumer(ClientType::Structured)?;
    let proxy = StructuredProxyPushConsumer::unchecked(ProxyConsumer::object(&proxy).clone());
    let types = proxy.obtain_subscription_types(ObtainInfoMode::AllNowUpdatesOff);
    // A proxy without a client is of no use.
    let _ = proxy.disconnect_structured_push_consumer();
    types
}

fn lines(types: &Types) -> String {
    let mut text = String::new();
    for ((domain, name), seen) in &types.seen {
        let offered = if seen.is_offered { "offered" } else { "" };
        let subscribed = if seen.is_subscribed { "subscribed" } else { "" };
        let _ =
            writeln!(text, "{}/{}\t{}\t{offered}\t{subscribed}", show::clean(domain), show::clean(name), seen.events);
    }
    text
}

/// Text as IDL, with the rest in comments, so that it can be stored in a file.
fn for_people(types: &Types, took: Duration) -> String {
    let mut text = String::new();
    for ((domain, name), seen) in &types.seen {
        let mut said = Vec::new();
        if seen.events > 0 {
            #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
            let rate = seen.events as f64 / took.as_secs_f64();
            let events = crate::record::events(seen.events);
            said.push(format!("{events} ({}/s, {})", show::rate(rate), show::bytes(seen.octets)));
        }
        if seen.is_offered {
            said.push("offered".to_owned());
        }
        if seen.is_subscribed {
            said.push("subscribed to".to_owned());
        }
        let _ = writeln!(text, "// {}/{}: {}", show::clean(domain), show::clean(name), said.join(", "));
        for (field, of) in &seen.fields {
            let _ = writeln!(text, "//     {} {}", show::clean(of), show::clean(field));
        }
    }
    if types.others > 0 {
        let _ = writeln!(text, "// and {} of other types", crate::record::events(types.others));
    }
    text + &definitions(types.seen.values().flat_map(|seen| &seen.carried))
}

/// Definitions of types, each once. A different definition of the same name becomes a comment.
fn definitions<'t>(codes: impl Iterator<Item = &'t TypeCode>) -> String {
    let codes: Vec<&TypeCode> = codes.collect();
    let mut text = idl::texts(codes.iter().copied());
    let read = idl::read(&text).unwrap_or_default();
    let mut told: Vec<&TypeCode> = Vec::new();
    for code in codes {
        let is_there = read.find(code.id()).is_ok_and(|found| found.code() == code);
        if !is_there && !told.contains(&code) && !code.id().is_empty() {
            told.push(code);
            text.push_str("// also, or in other words than IDL has:\n");
            idl::text(code).lines().for_each(|line| _ = writeln!(text, "// {line}"));
        }
    }
    text
}

fn as_json(types: &Types, took: Duration) -> String {
    let mut text = String::new();
    let seen: Vec<_> = types.seen.iter().collect();
    let of_type = |out: &mut String, ((domain, name), seen): &(&(String, String), &Seen)| {
        let Seen { is_offered, is_subscribed, events, octets, fields, carried } = seen;
        json::Object::new(out)
            .member("type", show::type_name(domain, name))
            .member("events", events)
            .member("octets", octets)
            .member("offered", is_offered)
            .member("subscribed", is_subscribed)
            .member("fields", fields)
            .member("idl", carried.iter().map(idl::text).collect::<Vec<_>>())
            .end();
    };
    json::Object::new(&mut text)
        .member("seconds", json::Fixed::<3>(took.as_secs_f64()))
        .written("types", |out| json::list(out, &seen, of_type))
        .member("events_of_others", types.others)
        .end();
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_one_name_that_differ_are_both_reported() {
        let of = |text: &str| idl::read(text).unwrap().last().unwrap().code().clone();
        let (one, same, other) =
            (of("struct A { long x; };"), of("struct A { long x; };"), of("struct A { short x; };"));
        assert_eq!(definitions([&one, &same].into_iter()), "struct A {\n    long x;\n};\n");
        let told = definitions([&one, &other].into_iter());
        assert!(told.starts_with("struct A {\n    long x;\n};\n// also, "), "{told}");
        assert!(told.ends_with("// struct A {\n//     short x;\n// };\n"), "{told}");
        assert_eq!(idl::read(&told).unwrap().iter().count(), 1);
    }

    #[test]
    fn what_a_sender_calls_a_type_cannot_end_the_comment() {
        let mut types = Types::default();
        let mut event = StructuredEvent::new("a\nb", "c", "");
        event.filterable_data.push(client::notify::Property::new("x\ny", 1));
        types.of("a\nb", "c").unwrap().count(&event, 7);
        let told = for_people(&types, Duration::from_secs(1));
        assert!(told.lines().all(|line| line.starts_with("//")), "{told}");
        assert!(lines(&types).lines().count() == 1 && as_json(&types, Duration::ZERO).lines().count() == 1);
    }
}

//! `pub` and `sub` over DDS: structs on a named channel, as in the library `campanile`.

use crate::args::{ChannelArg, PubOptions, SubOptions};
use crate::failure::Failure;
use crate::outgoing::{Maker, Outgoing};
use crate::publish::{Lines, Next, Pace, Sent};
use crate::signals::{Waiter, Wake};
use crate::{json, moment, show};
use campanile::raw::{CallbackError, RawConsumer, RawEvent, RawSupplier};
use campanile::{Declared, Dynamic, Error};
use client::notify::StructuredEvent;
use giop::cdr::{CharSet, Encoding, Endian, Version, Writer};
use giop::value::AnyValue;
use std::io::{self, Write as _};
use std::time::{Duration, Instant, SystemTime};

/// Encoding of values, as the library expects.
const NATIVE: Encoding = Encoding { endian: Endian::NATIVE, version: Version::V1_2, chars: CharSet::Utf8 };

/// Interval in which the end of the subscription is checked.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The name of the channel.
fn name_of(channel: Option<&ChannelArg>) -> Result<&str, Failure> {
    match channel {
        Some(ChannelArg::Name(name)) => Ok(name),
        _ => Err(Failure::Usage("over DDS a channel has a name, which --channel NAME says".to_owned())),
    }
}

fn failure(error: Error) -> Failure {
    match error {
        Error::NoTransport { .. } => Failure::Usage(format!(
            "{error}; build it with cargo build -p campanile-cli --features dds, which takes a C compiler"
        )),
        error => Failure::message(error),
    }
}

// ---- publishing ----

/// Publishes structs.
pub(crate) fn publish(options: &PubOptions) -> Result<(), Failure> {
    let said = [
        (!options.header.is_empty(), "--header"),
        (!options.name.is_empty(), "--name"),
        (options.body.is_some(), "--body"),
        (options.size.is_some(), "--size"),
        (options.lines, "--lines"),
        (options.any, "--any"),
    ];
    if let Some((_, option)) = said.iter().find(|(is_said, _)| *is_said) {
        return Err(Failure::Usage(format!("over DDS events are structs of the fields; {option} has no place there")));
    }
    let name = name_of(options.channel.as_ref())?;
    let maker = Maker::new(options)?;
    if !options.json {
        struct_of(&maker, maker.build(1, None)?)?;
    }
    let mut lines =
        options.json.then(|| Lines::open(options.fields.first().map_or("-", String::as_str))).transpose()?;
    let waiter = Waiter::install().map_err(Failure::message)?;
    let supplier = RawSupplier::new(name, &options.server.settings).map_err(failure)?;
    let (began, mut pace, mut sent) = (Instant::now(), Pace::new(options.rate), Sent::default());
    let mut known = None;
    let outcome = loop {
        if lines.is_none() && options.count > 0 && pace.events == options.count {
            break Ok(());
        }
        if let Some(Wake::Signal) = waiter.wait(Some(pace.wait())) {
            break if options.count > 0 { Err(Failure::Quiet) } else { Ok(()) };
        }
        let made = match &mut lines {
            None => maker.build(pace.events + 1, None).map(Some),
            Some(lines) => lines.next_event(&maker, &waiter, None).map(|next| match next {
                Next::Event(event) => Some(*event),
                Next::End | Next::Stopped => None,
            }),
        };
        let published = made.and_then(|made| match made {
            Some(made) => send(&maker, made, &supplier, &mut known).map(|name| sent.count(name)).map(|()| true),
            None => Ok(false),
        });
        match published {
            Ok(true) => pace.events += 1,
            Ok(false) => break Ok(()),
            Err(failure) => {
                let place = lines.as_ref().map(Lines::place);
                break Err(match (failure, place) {
                    (Failure::Message(said), Some(place)) if !said.starts_with(&place) => {
                        Failure::Message(format!("{place}: {said}"))
                    }
                    (failure, _) => failure,
                });
            }
        }
    };
    // Waits until the consumers that are there have all.
    supplier.close();
    eprintln!("{} on channel {}", sent.summary(began.elapsed()), show::clean(name));
    outcome
}

/// A struct with the domain and name of its event type.
struct Typed {
    domain: String,
    name: String,
    whole: AnyValue,
}

/// The struct of an event.
fn struct_of(maker: &Maker<'_>, made: Outgoing) -> Result<Typed, Failure> {
    let [domain, name] = maker.event_type().map(str::to_owned);
    match made {
        Outgoing::Any(whole) => Ok(Typed { domain, name, whole }),
        Outgoing::Structured(event) => {
            if event.filterable_data.is_empty() {
                return Err(Failure::Usage("an event is a struct of at least one field, KEY=VALUE".to_owned()));
            }
            let members = event.filterable_data.into_iter().map(|field| (field.name, field.value)).collect();
            Ok(Typed { domain: event.domain, name: event.type_name, whole: crate::fields::structure(members) })
        }
    }
}

/// Publishes an event. Returns the name of its type.
fn send(
    maker: &Maker<'_>,
    made: Outgoing,
    supplier: &RawSupplier,
    known: &mut Option<Declared>,
) -> Result<String, Failure> {
    let Typed { domain, name, whole } = struct_of(maker, made)?;
    let AnyValue { type_code, value } = whole;
    let is_same =
        |known: &Declared| **known.type_code() == type_code && known.name() == name && known.domain() == Some(&domain);
    let declared = match known.take().filter(is_same) {
        Some(declared) => declared,
        None => Declared::new(&type_code, Some(&domain), Some(&name)).map_err(failure)?,
    };
    let mut cdr = Vec::new();
    value.write(&type_code, &mut Writer::new(&mut cdr, NATIVE)).map_err(Failure::message)?;
    supplier.publish(&declared, &cdr).map_err(failure)?;
    *known = Some(declared);
    Ok(format!("{domain}/{name}"))
}

// ---- receiving ----

/// Prints events until there were enough, time is up or a signal asks to stop.
pub(crate) fn subscribe(options: &SubOptions) -> Result<(), Failure> {
    let selection = &options.selection;
    let said = [
        (!selection.types.is_empty(), "--type"),
        (selection.history.start_from().is_some(), "the history"),
        (options.any, "--any"),
        (options.field.is_some(), "--field"),
        (options.listen.is_some() || options.advertise.is_some(), "--listen or --advertise"),
    ];
    if let Some((_, option)) = said.iter().find(|(is_said, _)| *is_said) {
        return Err(Failure::Usage(format!("over DDS {option} cannot be had; --where can")));
    }
    let name = name_of(selection.channel.as_ref())?;
    let waiter = Waiter::install().map_err(Failure::message)?;
    let wake = waiter.sender();
    let (mut printed, limit, quiet, json) = (0, options.until.count, options.quiet, options.json);
    let mut consumer = RawConsumer::new(name).settings(options.server.settings.clone());
    if let Some(constraint) = &selection.constraint {
        consumer = consumer.filter(constraint);
    }
    let subscription = consumer
        .on_trouble(|trouble| eprintln!("campanile: {trouble}"))
        .on_any(move |event| {
            if limit.is_some_and(|limit| printed >= limit) {
                return Err(CallbackError::Enough);
            }
            printed += 1;
            let text = if quiet { String::new() } else { shown(&event, json) };
            let mut out = io::stdout();
            if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
                // The receiver may be gone if the command is ending.
                let _ = wake.send(Wake::Output(error));
                return Err(CallbackError::Enough);
            }
            if limit == Some(printed) {
                let _ = wake.send(Wake::Done);
                return Err(CallbackError::Enough);
            }
            Ok(())
        })
        .ready()
        .map_err(failure)?;
    eprintln!("campanile: subscribed; Ctrl-C ends");
    let began = Instant::now();
    let is_enough = loop {
        let left = options.until.wait.map_or(LOOK_EVERY, |wait| wait.saturating_sub(began.elapsed()));
        match waiter.wait(Some(left.min(LOOK_EVERY))) {
            Some(Wake::Done) => break true,
            Some(Wake::Output(error)) => return Err(error.into()),
            Some(Wake::Signal | Wake::Request | Wake::HangUp) => break false,
            None if options.until.wait.is_some_and(|wait| began.elapsed() >= wait) => break false,
            None => {}
        }
    };
    subscription.close();
    if options.until.count.is_some() && !is_enough { Err(Failure::Quiet) } else { Ok(()) }
}

/// An event as `sub` shows it, with the struct as its body.
fn shown(event: &RawEvent<'_>, is_json: bool) -> String {
    let (now, mut out) = (SystemTime::now(), String::new());
    let time = if is_json { moment::rfc3339(now) } else { moment::time_of_day(now) };
    match Dynamic::read(event) {
        Ok(Dynamic { domain, name, type_code, value, .. }) => {
            let mut whole = StructuredEvent::new(&domain, &name, event.event_name);
            whole.remainder = AnyValue::new((*type_code).clone(), value);
            match is_json {
                true => json::event(&mut out, &time, &whole),
                false => show::event(&mut out, &time, &whole),
            }
        }
        Err(error) if is_json => {
            json::Object::new(&mut out).member("received", time).member("error", error.to_string()).end();
        }
        Err(error) => out.push_str(&format!("{time}  event that cannot be read: {error}\n")),
    }
    if is_json {
        out.push('\n');
    }
    out
}

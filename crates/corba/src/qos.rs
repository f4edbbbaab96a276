//! Quality of service and administrative properties: `CosNotification::QoSAdmin` and `AdminPropertiesAdmin`.
//!
//! A client's properties are checked as a whole before any change: one exception lists every bad property, with its code and the accepted
//! range, and nothing is changed unless all are valid. The engine implements a property's effect; this module maps its name and its range
//! on the wire to the engine's settings ([`tables`]).
//!
//! A channel's administrative properties are accepted in `set_qos` and the initial QoS too, because existing clients send them there.

mod declared;
mod pools;
mod property;
mod real_time;
mod start_from;
mod tables;
mod topics;
mod unknown;

#[cfg(test)]
mod tests;

pub use self::declared::{Declared, dead_letter_channels, parse_time};
pub(super) use self::declared::{declare, declare_at};
pub(super) use self::pools::{Pool, PoolKind};
pub use self::property::correlation;
pub(super) use self::property::{
    ACKNOWLEDGE_AFTER, CONNECTION_RELIABILITY, DEAD_LETTER_CHANNEL, EVENT_RELIABILITY, Effective, ErrorCode,
    HOLD_GRANTED, Most, PropertyValue, RequestedProperties, START_FROM, WHEN,
};
use self::property::{Place, Property};
pub(super) use self::property::{integer, write_null};
pub(super) use self::real_time::{Outside, Profile, outside, outside_limits};
pub use self::start_from::{START_FROM_RANGE, parse as start_from};
pub(super) use self::start_from::{parse as parse_start, reported as reported_start};
use self::tables::{ADMIN, QOS};
pub(super) use self::topics::validation_errors as topic_errors;
use self::unknown::Table;
pub(super) use self::unknown::Unknown;
use super::exceptions::{Raised, UserException};
use super::protocol::Protocol;
use super::table::{Call, Interface, Level, Operation};
use giop::cdr::{Reader, Writer};
use giop::typecode::{Kind, Work};
use giop::value::{AnyRef, AnyValue};

/// Maximum number of properties in one call; more are a mistake of the client.
const PROPERTIES_MAX: u32 = 1024;
/// Limits of steps and depth for all the values of one call.
const VALUE_STEPS: u32 = 100_000;
const VALUE_DEPTH: u32 = 64;

pub(super) static QOS_ADMIN: Interface = Interface {
    name: "CosNotification::QoSAdmin",
    id: "IDL:omg.org/CosNotification/QoSAdmin:1.0",
    operations: &[
        Operation::done("get_qos", get_qos),
        Operation::done("set_qos", set_qos),
        Operation::done("validate_qos", validate_qos),
    ],
};

pub(super) static ADMIN_PROPERTIES_ADMIN: Interface = Interface {
    name: "CosNotification::AdminPropertiesAdmin",
    id: "IDL:omg.org/CosNotification/AdminPropertiesAdmin:1.0",
    operations: &[Operation::done("get_admin", get_admin), Operation::done("set_admin", set_admin)],
};

/// Every interface of `CosNotification`, in the order of its IDL.
pub(super) const ALL: &[&Interface] = &[&QOS_ADMIN, &ADMIN_PROPERTIES_ADMIN];

/// A property from a client.
pub(super) struct Given<'a> {
    name: String,
    value: AnyRef<'a>,
}

impl Given<'_> {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The value, if it is a text.
    pub(super) fn text(&self) -> Option<String> {
        self.value.text()
    }

    /// The value with its type; null if its kind is not supported.
    pub(super) fn decoded(&self) -> AnyValue {
        self.value.decode(&mut Work::new(VALUE_STEPS, VALUE_DEPTH)).unwrap_or_default()
    }

    fn is_nothing(&self) -> bool {
        self.name.is_empty() && self.value.kind() == Kind::Null
    }
}

/// The error of one property: `CosNotification::PropertyError`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PropertyError {
    code: ErrorCode,
    name: String,
    /// The accepted range, if there is one.
    range: Option<(PropertyValue, PropertyValue)>,
}

impl PropertyError {
    pub(super) fn code(&self) -> ErrorCode {
        self.code
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn new(code: ErrorCode, name: &str, range: Option<(PropertyValue, PropertyValue)>) -> Self {
        Self { code, name: name.to_owned(), range }
    }
}

/// Writes a `CosNotification::PropertyErrorSeq`.
pub(super) fn write_property_errors(errors: &[PropertyError], out: &mut Writer<'_>) {
    out.length(errors.len());
    for PropertyError { code, name, range } in errors {
        out.u32(*code as u32);
        out.string(name);
        match range {
            Some((low, high)) => {
                low.write_any(out);
                high.write_any(out);
            }
            None => {
                write_null(out);
                write_null(out);
            }
        }
    }
}

/// Reads a `CosNotification::PropertySeq`. Entries without name and value are left out: C++ programs set a sequence's length before they
/// fill it, and TAO's service accepts unfilled entries.
pub(super) fn read_properties<'a>(args: &mut Reader<'a>) -> Result<Vec<Given<'a>>, Raised> {
    // A property takes at least the length of its name and the kind of its value.
    let count = args.seq_len(8)?;
    if count > PROPERTIES_MAX {
        return Err(Raised::limit());
    }
    let mut work = Work::new(VALUE_STEPS, VALUE_DEPTH);
    let given = (0..count).map(|_| Ok(Given { name: args.text()?, value: AnyRef::read(args, &mut work)? }));
    given.filter(|given| !given.as_ref().is_ok_and(Given::is_nothing)).collect()
}

/// The first few properties in the arguments, in words, for the log.
pub(super) fn reported(args: &mut Reader<'_>) -> Option<String> {
    const REPORTED_MAX: usize = 8;
    let given = read_properties(args).ok()?;
    let mut work = Work::new(VALUE_STEPS, VALUE_DEPTH);
    let reported = given.iter().take(REPORTED_MAX).map(|Given { name, value }| {
        let value = value.decode(&mut work).map_or_else(|_| "?".to_owned(), |value| value.to_string());
        format!("{}={value}", name.escape_debug())
    });
    let reported = reported.collect::<Vec<_>>().join(", ");
    let more = if given.len() > REPORTED_MAX { ", …" } else { "" };
    (!given.is_empty()).then(|| format!("{reported}{more}"))
}

/// The settings and limits of a new channel.
pub(super) fn initial(
    protocol: &mut Protocol,
    qos: &[Given<'_>],
    admin: &[Given<'_>],
) -> Result<RequestedProperties, Raised> {
    let requested =
        add_qos(qos, Place::Channel, protocol.objects.initial_properties()).map_err(UserException::UnsupportedQoS)?;
    let requested = add(admin, Place::Channel, ADMIN, requested).map_err(UserException::UnsupportedAdmin)?;
    protocol.guard.authorize_settings(&protocol.objects, None, &requested)?;
    let is_admin = |error: &PropertyError| admin.iter().any(|given| given.name == error.name);
    match protocol.objects.validate(None, &requested) {
        Err(Raised::User(UserException::UnsupportedQoS(errors))) if errors.iter().all(is_admin) => {
            Err(UserException::UnsupportedAdmin(errors).into())
        }
        checked => checked.map(|()| requested),
    }
}

/// Sets properties, all or none.
pub(super) fn apply(protocol: &mut Protocol, level: Level, given: &[Given<'_>]) -> Result<(), Raised> {
    let requested =
        add_qos(given, place(level), protocol.objects.requested(level)?).map_err(UserException::UnsupportedQoS)?;
    protocol.guard.authorize_settings(&protocol.objects, Some(level), &requested)?;
    protocol.objects.validate(Some(level), &requested)?;
    protocol.set(level, requested)
}

fn none_or_errors(validation_errors: Vec<PropertyError>) -> Result<(), Vec<PropertyError>> {
    if validation_errors.is_empty() { Ok(()) } else { Err(validation_errors) }
}

/// `ProxyConsumer::validate_event_qos` and `ProxySupplier::validate_event_qos`.
pub(super) fn validate_event_qos(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let required = read_properties(&mut args)?;
    args.finish("the arguments of validate_event_qos")?;
    let level = on.level()?;
    let (requested, effective) = (protocol.objects.requested(level)?, protocol.objects.effective(level)?);
    let here = |property: &Property| property.is_available(Place::Event) && is_heeded(property, &effective);
    let find = |name: &str| QOS.iter().find(|property| property.name == name);
    add_from((&required, Table::Qos), here, requested, find).map_err(UserException::UnsupportedQoS)?;
    write_available(&required, here, protocol.objects.most(), reply);
    Ok(())
}

/// Whether an event's own property has any effect, given the properties in effect: `StartTime` and `StopTime` have one only if declared as
/// supported.
fn is_heeded(property: &Property, effective: &Effective) -> bool {
    match property.name {
        "StartTime" => effective.settings.start_time_supported,
        "StopTime" => effective.settings.stop_time_supported,
        _ => true,
    }
}

fn get_qos(Call { protocol, on, args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of get_qos")?;
    write_values(protocol, (&QOS, Table::Qos), on.level()?, reply)?;
    Ok(())
}

fn set_qos(Call { protocol, on, mut args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let given = read_properties(&mut args)?;
    args.finish("the arguments of set_qos")?;
    apply(protocol, on.level()?, &given)
}

fn validate_qos(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let required = read_properties(&mut args)?;
    args.finish("the arguments of validate_qos")?;
    let level = on.level()?;
    let requested = protocol.objects.requested(level)?;
    let place = place(level);
    let requested = add_qos(&required, place, requested).map_err(UserException::UnsupportedQoS)?;
    protocol.guard.authorize_settings(&protocol.objects, Some(level), &requested)?;
    none_or_errors(protocol.objects.validation_errors(Some(level), &requested)?)
        .map_err(UserException::UnsupportedQoS)?;
    let gets_sets = protocol.objects.is_without_sets(Some(level))?.is_none();
    let here = |property: &Property| property.is_available(place) && (gets_sets || property.name != WHEN);
    write_available(&required, here, requested.most, reply);
    Ok(())
}

fn get_admin(Call { protocol, on, args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of get_admin")?;
    write_values(protocol, (ADMIN, Table::Admin), on.level()?, reply)?;
    Ok(())
}

fn set_admin(Call { protocol, on, mut args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let given = read_properties(&mut args)?;
    args.finish("the arguments of set_admin")?;
    let level = on.level()?;
    let requested = protocol.objects.requested(level)?;
    let requested = add(&given, place(level), ADMIN, requested).map_err(UserException::UnsupportedAdmin)?;
    protocol.guard.authorize_settings(&protocol.objects, Some(level), &requested)?;
    none_or_errors(protocol.objects.validation_errors(Some(level), &requested)?)
        .map_err(UserException::UnsupportedAdmin)?;
    protocol.set(level, requested)
}

fn place(level: Level) -> Place {
    match level {
        Level::Channel(_) => Place::Channel,
        Level::Admin(admin) => side_place(admin.side),
        Level::Proxy(_, side) => side_place(side),
    }
}

fn side_place(side: engine::Side) -> Place {
    match side {
        engine::Side::Consumers => Place::Consumers,
        engine::Side::Suppliers => Place::Suppliers,
    }
}

/// Adds QoS properties to those requested.
fn add_qos(
    given: &[Given<'_>],
    place: Place,
    requested: RequestedProperties,
) -> Result<RequestedProperties, Vec<PropertyError>> {
    let here = |property: &Property| property.is_available(place);
    add_from((given, Table::Qos), here, requested, |name| {
        let qos = QOS.iter().find(|property| property.name == name);
        qos.or_else(|| ADMIN.iter().find(|property| property.name == name && here(property)))
    })
}

/// Adds properties of one table to those requested.
fn add(
    given: &[Given<'_>],
    place: Place,
    table: &'static [Property],
    requested: RequestedProperties,
) -> Result<RequestedProperties, Vec<PropertyError>> {
    let here = |property: &Property| property.is_available(place);
    add_from((given, Table::Admin), here, requested, |name| table.iter().find(|property| property.name == name))
}

/// Adds all the properties to those requested, or returns the error of each invalid one. Of two with one name the later counts. `here` says
/// which properties the object has.
fn add_from(
    (given, of): (&[Given<'_>], Table),
    here: impl Fn(&Property) -> bool,
    mut requested: RequestedProperties,
    find: impl Fn(&str) -> Option<&'static Property>,
) -> Result<RequestedProperties, Vec<PropertyError>> {
    let mut errors = Vec::new();
    for Given { name, value } in given {
        let (code, range) = match find(name) {
            None => {
                let decoded = value.decode(&mut Work::new(VALUE_STEPS, VALUE_DEPTH));
                if requested.takes_unknown && decoded.is_ok_and(|value| requested.unknown.set(of, name, &value)) {
                    continue;
                }
                (ErrorCode::BadProperty, None)
            }
            Some(property) if !here(property) => (ErrorCode::UnavailableProperty, None),
            Some(property) => {
                // A value too intricate to be decoded is of no type that a property has.
                let decoded = value.decode(&mut Work::new(VALUE_STEPS, VALUE_DEPTH)).map_err(|_| ErrorCode::BadType);
                let set =
                    decoded.as_ref().map_err(|code| *code).and_then(|any| property.set(&mut requested, &any.value));
                match (set, decoded) {
                    (Ok(()), _) => {
                        requested.unknown.remove(of, name);
                        continue;
                    }
                    (Err(ErrorCode::UnsupportedValue), Ok(any))
                        if requested.takes_persistent
                            && property.lacks_store(&any.value, requested.most)
                            && requested.unknown.set(of, name, &any) =>
                    {
                        continue;
                    }
                    (Err(code), _) => (code, Some(property.range(requested.most))),
                }
            }
        };
        errors.push(PropertyError { code, name: name.clone(), range });
    }
    if let (Some(discipline), Some(pool)) = (requested.discipline, &mut requested.pool) {
        pool.spec.discipline = discipline;
    }
    let has = |kind: PoolKind| given.iter().any(|given| given.name == kind.property());
    if has(PoolKind::Pool) && has(PoolKind::Lanes) && errors.is_empty() {
        // One object has one pool.
        errors.push(PropertyError::new(ErrorCode::UnavailableProperty, PoolKind::Pool.property(), None));
        errors.push(PropertyError::new(ErrorCode::UnavailableProperty, PoolKind::Lanes.property(), None));
    }
    if errors.is_empty() { Ok(requested) } else { Err(errors) }
}

/// Writes the values in effect of all the properties of an object, as a `CosNotification::PropertySeq`; followed by its unknown properties,
/// where those are accepted.
fn write_values(
    protocol: &Protocol,
    (table, of): (&[Property], Table),
    level: Level,
    out: &mut Writer<'_>,
) -> Result<(), Raised> {
    let (place, effective) = (place(level), protocol.objects.effective(level)?);
    let here = table.iter().filter(|property| property.is_available(place));
    let values: Vec<_> = here.filter_map(|property| Some((property.name, property.get(&effective)?))).collect();
    let compatibility = protocol.objects.compatibility();
    let unknown = match compatibility.ignore_unknown_properties || compatibility.persistent_without_store {
        true => protocol.objects.unknown_at(level).reported(of, out.encoding()),
        false => Vec::new(),
    };
    // What was given and has no effect is returned as it was given.
    let values: Vec<_> =
        values.into_iter().filter(|(known, _)| unknown.iter().all(|(name, _)| name != known)).collect();
    out.length(values.len() + unknown.len());
    for (name, value) in values {
        out.string(name);
        value.write_any(out);
    }
    for (name, value) in unknown {
        out.string(name);
        // It was tried.
        let _ = value.write(out);
    }
    Ok(())
}

/// Writes the properties beside the named ones, with their ranges, as a `CosNotification::NamedPropertyRangeSeq`.
fn write_available(named: &[Given<'_>], here: impl Fn(&Property) -> bool, most: Most, out: &mut Writer<'_>) {
    let is_named = |property: &Property| named.iter().any(|given| given.name == property.name);
    let others: Vec<_> = QOS.iter().filter(|property| here(property) && !is_named(property)).collect();
    out.length(others.len());
    for property in others {
        out.string(property.name);
        let (low, high) = property.range(most);
        low.write_any(out);
        high.write_any(out);
    }
}

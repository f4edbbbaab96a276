//! Thread pools as properties: `ThreadPool` and `ThreadPoolLanes`, with the value types of TAO's module `NotifyExt`.
//!
//! A value is read by the names of its members, ignoring others, and stored as the engine's [`PoolSpec`]. The returned value is the one in
//! effect, so that the same value, set again, is the same pool.
//!
//! Members of Real-time CORBA without use for a lane are accepted and ignored: a lane waits only for its poll, so a further thread
//! (`dynamic_threads`) or one of a lower lane (`allow_borrowing`) would have nothing to take over from it; its stack is as large as it
//! needs (`stacksize`); and its waiting events are bounded by `max_buffered_requests` in number and by the channel's `MemoryBudget` in size
//! (`max_request_buffer_size`).

use super::property::{ErrorCode, PropertyValue};
use engine::{Discipline, LaneSpec, PoolSpec, PriorityModel};
use giop::typecode::{Kind, TypeCode};
use giop::value::{AnyValue, Value};

/// Maximum events in a lane's hand-over queue, which is allocated for as many. A value that allows more, or none given, counts as this.
pub(super) const QUEUE_EVENTS_MAX: u32 = 1_024;

/// The property by which a pool was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolKind {
    /// `ThreadPool`: threads of one priority.
    Pool,
    /// `ThreadPoolLanes`: threads of several.
    Lanes,
}

impl PoolKind {
    /// The property's name.
    pub(crate) const fn property(self) -> &'static str {
        match self {
            Self::Pool => "ThreadPool",
            Self::Lanes => "ThreadPoolLanes",
        }
    }

    /// The name of its value's type.
    pub(super) const fn type_name(self) -> &'static str {
        match self {
            Self::Pool => "ThreadPoolParams",
            Self::Lanes => "ThreadPoolLanesParams",
        }
    }
}

/// A pool as a client sets and reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pool {
    pub(crate) kind: PoolKind,
    pub(crate) spec: PoolSpec,
}

impl Pool {
    /// Reads a value.
    pub(super) fn accept(kind: PoolKind, value: &Value) -> Result<Self, ErrorCode> {
        let members = Members::of(value)?;
        let model = members.model(0)?;
        let server_priority = members.priority("server_priority", 1)?;
        let lanes = match kind {
            PoolKind::Pool => {
                let default_priority = members.priority("default_priority", 5)?;
                // Without lanes Real-time CORBA runs the threads at the default priority and each request at its own;
                // here a thread has one priority for good, the declared one if there is one.
                let priority = if model == PriorityModel::ServerDeclared { server_priority } else { default_priority };
                vec![LaneSpec { priority, threads: members.threads(3)? }]
            }
            PoolKind::Lanes => members.lanes(3)?,
        };
        let (allowed, buffered) = match kind {
            PoolKind::Pool => (6, 7),
            PoolKind::Lanes => (5, 6),
        };
        let queue_events_max = members.buffered(allowed, buffered)?;
        let discipline = Discipline::default();
        Ok(Self { kind, spec: PoolSpec { model, server_priority, lanes, discipline, queue_events_max } })
    }

    /// The smallest and largest pool with so many threads, as the available range.
    pub(crate) fn range(kind: PoolKind, threads: u32) -> (PropertyValue, PropertyValue) {
        let with = |model, priority, threads, queue_events_max| {
            let lanes = vec![LaneSpec { priority, threads }];
            let spec = PoolSpec {
                model,
                server_priority: priority,
                lanes,
                discipline: Discipline::default(),
                queue_events_max,
            };
            Self { kind, spec }.reported()
        };
        let threads = u16::try_from(threads).unwrap_or(u16::MAX);
        let low = with(PriorityModel::ClientPropagated, 0, 1, 1);
        (low, with(PriorityModel::ServerDeclared, i16::MAX, threads, QUEUE_EVENTS_MAX))
    }

    /// Number of the pool's threads.
    pub(crate) fn threads(&self) -> u32 {
        self.spec.lanes.iter().map(|lane| u32::from(lane.threads)).sum()
    }

    /// The property's value.
    pub(super) fn reported(&self) -> PropertyValue {
        let PoolSpec { model, server_priority, lanes, discipline: _, queue_events_max } = &self.spec;
        let mut members = vec![
            ("priority_model", model_type(), model_value(*model)),
            ("server_priority", priority_type(), Value::Short(*server_priority)),
            ("stacksize", number_type(), Value::ULong(0)),
        ];
        match self.kind {
            PoolKind::Pool => {
                let priority = lanes.first().map_or(0, |lane| lane.priority);
                members.push(("static_threads", number_type(), Value::ULong(self.threads())));
                members.push(("dynamic_threads", number_type(), Value::ULong(0)));
                members.push(("default_priority", priority_type(), Value::Short(priority)));
            }
            PoolKind::Lanes => {
                let lanes = lanes.iter().map(|lane| lane_value(*model, *server_priority, *lane).1).collect();
                members.push(("lanes", lanes_type(), Value::Sequence(lanes)));
                members.push(("allow_borrowing", flag_type(), Value::Bool(false)));
            }
        }
        members.push(("allow_request_buffering", flag_type(), Value::Bool(true)));
        members.push(("max_buffered_requests", number_type(), Value::ULong(*queue_events_max)));
        members.push(("max_request_buffer_size", number_type(), Value::ULong(0)));
        let (kind, value) = structure(self.kind.type_name(), members);
        PropertyValue::Structure(Box::new(AnyValue::new(kind, value)))
    }
}

/// A structure's members: by name, or by position if its type has no names (ORBs may leave them out).
struct Members<'v>(&'v [(String, Value)]);

impl<'v> Members<'v> {
    fn of(value: &'v Value) -> Result<Self, ErrorCode> {
        match value {
            Value::Struct { fields, .. } => Ok(Self(fields)),
            _ => Err(ErrorCode::BadType),
        }
    }

    fn find(&self, name: &str, place: usize) -> Option<&'v Value> {
        if self.0.iter().all(|(name, _)| name.is_empty()) {
            return self.0.get(place).map(|(_, value)| value);
        }
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| value)
    }

    fn number(&self, name: &str, place: usize) -> Result<i64, ErrorCode> {
        self.find(name, place).and_then(super::property::integer).ok_or(ErrorCode::BadType)
    }

    fn model(&self, place: usize) -> Result<PriorityModel, ErrorCode> {
        match self.find("priority_model", place).ok_or(ErrorCode::BadType)? {
            Value::Enum { index: 0, .. } => Ok(PriorityModel::ClientPropagated),
            Value::Enum { index: 1, .. } => Ok(PriorityModel::ServerDeclared),
            Value::Enum { .. } => Err(ErrorCode::BadValue),
            _ => Err(ErrorCode::BadType),
        }
    }

    fn priority(&self, name: &str, place: usize) -> Result<i16, ErrorCode> {
        let priority = self.number(name, place)?;
        i16::try_from(priority).ok().filter(|priority| *priority >= 0).ok_or(ErrorCode::BadValue)
    }

    fn threads(&self, place: usize) -> Result<u16, ErrorCode> {
        match self.number("static_threads", place)? {
            ..=0 => Err(ErrorCode::BadValue),
            threads => u16::try_from(threads).map_err(|_| ErrorCode::UnsupportedValue),
        }
    }

    fn lanes(&self, place: usize) -> Result<Vec<LaneSpec>, ErrorCode> {
        let Some(Value::Sequence(lanes)) = self.find("lanes", place) else { return Err(ErrorCode::BadType) };
        if lanes.len() > usize::from(u16::MAX) {
            return Err(ErrorCode::UnsupportedValue);
        }
        let lane = |value| {
            let members = Members::of(value)?;
            // Each lane has a model and a declared priority, too; those of the pool count.
            Ok(LaneSpec { priority: members.priority("lane_priority", 2)?, threads: members.threads(3)? })
        };
        let mut lanes = lanes.iter().map(lane).collect::<Result<Vec<_>, _>>()?;
        lanes.sort_by_key(|lane| lane.priority);
        let has_duplicates = !lanes.is_sorted_by(|one, other| one.priority < other.priority);
        if lanes.is_empty() || has_duplicates { Err(ErrorCode::BadValue) } else { Ok(lanes) }
    }

    /// The maximum number of waiting events, if given.
    fn buffered(&self, allowed: usize, most: usize) -> Result<u32, ErrorCode> {
        let is_allowed = match self.find("allow_request_buffering", allowed) {
            Some(Value::Bool(is_allowed)) => *is_allowed,
            None => false,
            Some(_) => return Err(ErrorCode::BadType),
        };
        let most = match self.find("max_buffered_requests", most) {
            Some(_) => self.number("max_buffered_requests", most)?,
            None => 0,
        };
        match u32::try_from(most) {
            Ok(most) if is_allowed && most > 0 => Ok(most.min(QUEUE_EVENTS_MAX)),
            _ => Ok(QUEUE_EVENTS_MAX),
        }
    }
}

type Member = (&'static str, TypeCode, Value);

fn structure(name: &str, members: Vec<Member>) -> (TypeCode, Value) {
    let types: Vec<(&str, TypeCode)> = members.iter().map(|(name, kind, _)| (*name, kind.clone())).collect();
    let fields = members.into_iter().map(|(name, _, value)| (name.to_owned(), value)).collect();
    let kind = TypeCode::structure(&format!("IDL:NotifyExt/{name}:1.0"), name, &types);
    (kind, Value::Struct { type_name: name.to_owned(), fields })
}

fn lane_value(model: PriorityModel, server_priority: i16, lane: LaneSpec) -> (TypeCode, Value) {
    let members = vec![
        ("priority_model", model_type(), model_value(model)),
        ("server_priority", priority_type(), Value::Short(server_priority)),
        ("lane_priority", priority_type(), Value::Short(lane.priority)),
        ("static_threads", number_type(), Value::ULong(lane.threads.into())),
        ("dynamic_threads", number_type(), Value::ULong(0)),
    ];
    structure("ThreadPoolLane", members)
}

/// A `ThreadPoolLanes` with these priorities and static threads, under `CLIENT_PROPAGATED`, as from a client.
pub(super) fn lanes_value(lanes: &[(i64, i64)]) -> Value {
    let structure = |fields: Vec<(&str, Value)>| Value::Struct {
        type_name: String::new(),
        fields: fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
    };
    let lane = |(priority, threads): &(i64, i64)| {
        structure(vec![("lane_priority", Value::LongLong(*priority)), ("static_threads", Value::LongLong(*threads))])
    };
    structure(vec![
        ("priority_model", model_value(PriorityModel::ClientPropagated)),
        ("server_priority", Value::Short(0)),
        ("lanes", Value::Sequence(lanes.iter().map(lane).collect())),
    ])
}

fn lanes_type() -> TypeCode {
    let lane = lane_value(PriorityModel::ClientPropagated, 0, LaneSpec { priority: 0, threads: 1 }).0;
    TypeCode::alias("IDL:NotifyExt/ThreadPoolLanes_List:1.0", "ThreadPoolLanes_List", TypeCode::sequence(lane))
}

fn model_value(model: PriorityModel) -> Value {
    let (label, index) = match model {
        PriorityModel::ClientPropagated => ("CLIENT_PROPAGATED", 0),
        PriorityModel::ServerDeclared => ("SERVER_DECLARED", 1),
    };
    Value::Enum { type_name: "PriorityModel".to_owned(), label: label.to_owned(), index }
}

fn model_type() -> TypeCode {
    let labels = ["CLIENT_PROPAGATED", "SERVER_DECLARED"];
    TypeCode::enumeration("IDL:NotifyExt/PriorityModel:1.0", "PriorityModel", &labels)
}

fn priority_type() -> TypeCode {
    TypeCode::alias("IDL:NotifyExt/Priority:1.0", "Priority", TypeCode::primitive(Kind::Short))
}

fn number_type() -> TypeCode {
    TypeCode::primitive(Kind::ULong)
}

fn flag_type() -> TypeCode {
    TypeCode::primitive(Kind::Boolean)
}

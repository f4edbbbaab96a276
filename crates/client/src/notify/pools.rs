//! Thread pools as quality of service, in the types of TAO's module `NotifyExt`, which other services support, too.
//!
//! ```no_run
//! use campanile_client::notify::{EventChannel, ThreadPoolLanes};
//! use giop::realtime::PriorityModel;
//!
//! # fn example(channel: EventChannel) -> Result<(), campanile_client::InvokeError> {
//! let lanes = ThreadPoolLanes::new(PriorityModel::ClientPropagated, 0, &[(0, 1), (10_000, 1), (20_000, 1)]);
//! channel.set_qos(&[lanes.into()])?;
//! # Ok(())
//! # }
//! ```

use super::Property;
use giop::realtime::PriorityModel;
use giop::typecode::{Kind, TypeCode};
use giop::value::{AnyValue, Value};

/// `NotifyExt::ThreadPoolParams`, the value of the property `ThreadPool`: so many threads of one priority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadPool {
    /// The source of an event's priority.
    pub priority_model: PriorityModel,
    /// The priority under [`PriorityModel::ServerDeclared`], from 0 to 32767.
    pub server_priority: i16,
    /// Octets of each thread's stack; 0 leaves it to the service.
    pub stacksize: u32,
    /// Threads made with the pool.
    pub static_threads: u32,
    /// Threads made when the static ones are busy.
    pub dynamic_threads: u32,
    /// The threads' own priority, from 0 to 32767.
    pub default_priority: i16,
    /// Whether requests may wait when all threads are busy.
    pub allow_request_buffering: bool,
    /// Maximum number of waiting requests; 0 leaves it to the service.
    pub max_buffered_requests: u32,
    /// Maximum octets of waiting requests together; 0 leaves it to the service.
    pub max_request_buffer_size: u32,
}

/// `NotifyExt::ThreadPoolLanesParams`, the value of the property `ThreadPoolLanes`: threads of several priorities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadPoolLanes {
    /// The source of an event's priority, which selects the lane.
    pub priority_model: PriorityModel,
    /// The priority under [`PriorityModel::ServerDeclared`], from 0 to 32767.
    pub server_priority: i16,
    /// Octets of each thread's stack; 0 leaves it to the service.
    pub stacksize: u32,
    /// The lanes.
    pub lanes: Vec<ThreadPoolLane>,
    /// Whether a lane with all threads busy may borrow those of a lane with a lower priority.
    pub allow_borrowing: bool,
    /// Whether requests may wait when all threads are busy.
    pub allow_request_buffering: bool,
    /// Maximum number of waiting requests; 0 leaves it to the service.
    pub max_buffered_requests: u32,
    /// Maximum octets of waiting requests together; 0 leaves it to the service.
    pub max_request_buffer_size: u32,
}

/// `NotifyExt::ThreadPoolLane`: the threads of one priority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadPoolLane {
    /// The model, as in [`ThreadPoolLanes`], which takes precedence.
    pub priority_model: PriorityModel,
    /// The priority, as in [`ThreadPoolLanes`], which takes precedence.
    pub server_priority: i16,
    /// The threads' priority, from 0 to 32767; different for each lane of a pool.
    pub lane_priority: i16,
    /// Threads made with the pool.
    pub static_threads: u32,
    /// Threads made when the static ones are busy.
    pub dynamic_threads: u32,
}

impl ThreadPool {
    /// A pool of static threads with the priority `server_priority`, and everything else off.
    #[must_use]
    pub const fn new(priority_model: PriorityModel, server_priority: i16, static_threads: u32) -> Self {
        Self {
            priority_model,
            server_priority,
            stacksize: 0,
            static_threads,
            dynamic_threads: 0,
            default_priority: server_priority,
            allow_request_buffering: true,
            max_buffered_requests: 0,
            max_request_buffer_size: 0,
        }
    }
}

impl ThreadPoolLanes {
    /// Lanes by priority and number of threads, and everything else off.
    #[must_use]
    pub fn new(priority_model: PriorityModel, server_priority: i16, lanes: &[(i16, u32)]) -> Self {
        let lane = |&(lane_priority, static_threads): &(i16, u32)| ThreadPoolLane {
            priority_model,
            server_priority,
            lane_priority,
            static_threads,
            dynamic_threads: 0,
        };
        Self {
            priority_model,
            server_priority,
            stacksize: 0,
            lanes: lanes.iter().map(lane).collect(),
            allow_borrowing: false,
            allow_request_buffering: true,
            max_buffered_requests: 0,
            max_request_buffer_size: 0,
        }
    }
}

/// Struct fields as members of a struct of `NotifyExt`, in the order of its IDL.
macro_rules! notify_ext {
    ($($of:ident as $name:literal { $($field:ident),+ })+) => {$(
        impl From<$of> for AnyValue {
            fn from(of: $of) -> Self {
                let $of { $($field),+ } = of;
                structure($name, vec![$((stringify!($field), $field.into_member())),+])
            }
        }
    )+};
}

notify_ext! {
    ThreadPool as "ThreadPoolParams" {
        priority_model, server_priority, stacksize, static_threads, dynamic_threads, default_priority,
        allow_request_buffering, max_buffered_requests, max_request_buffer_size
    }
    ThreadPoolLanes as "ThreadPoolLanesParams" {
        priority_model, server_priority, stacksize, lanes, allow_borrowing,
        allow_request_buffering, max_buffered_requests, max_request_buffer_size
    }
    ThreadPoolLane as "ThreadPoolLane" { priority_model, server_priority, lane_priority, static_threads, dynamic_threads }
}

impl From<ThreadPool> for Property {
    fn from(pool: ThreadPool) -> Self {
        Self::new("ThreadPool", pool)
    }
}

impl From<ThreadPoolLanes> for Property {
    fn from(pool: ThreadPoolLanes) -> Self {
        Self::new("ThreadPoolLanes", pool)
    }
}

/// A field of a struct of `NotifyExt`, with its type there.
trait Member {
    fn into_member(self) -> AnyValue;
}

impl Member for u32 {
    fn into_member(self) -> AnyValue {
        self.into()
    }
}

impl Member for bool {
    fn into_member(self) -> AnyValue {
        self.into()
    }
}

impl Member for i16 {
    fn into_member(self) -> AnyValue {
        let code = TypeCode::alias("IDL:NotifyExt/Priority:1.0", "Priority", TypeCode::primitive(Kind::Short));
        AnyValue::new(code, Value::Short(self))
    }
}

impl Member for PriorityModel {
    fn into_member(self) -> AnyValue {
        let (id, name) = ("IDL:NotifyExt/PriorityModel:1.0", "PriorityModel");
        let value = Value::Enum { type_name: name.to_owned(), label: self.label().to_owned(), index: self.number() };
        AnyValue::new(TypeCode::enumeration(id, name, &Self::ALL.map(Self::label)), value)
    }
}

impl Member for Vec<ThreadPoolLane> {
    fn into_member(self) -> AnyValue {
        let (priority_model, server_priority) = (PriorityModel::ClientPropagated, 0);
        let none =
            ThreadPoolLane { priority_model, server_priority, lane_priority: 0, static_threads: 0, dynamic_threads: 0 };
        let (id, name) = ("IDL:NotifyExt/ThreadPoolLanes_List:1.0", "ThreadPoolLanes_List");
        let code = TypeCode::alias(id, name, TypeCode::sequence(AnyValue::from(none).type_code));
        AnyValue::new(code, Value::Sequence(self.into_iter().map(|lane| AnyValue::from(lane).value).collect()))
    }
}

fn structure(name: &str, members: Vec<(&str, AnyValue)>) -> AnyValue {
    let types: Vec<_> = members.iter().map(|(name, member)| (*name, member.type_code.clone())).collect();
    let type_code = TypeCode::structure(&format!("IDL:NotifyExt/{name}:1.0"), name, &types);
    let fields = members.into_iter().map(|(name, member)| (name.to_owned(), member.value)).collect();
    AnyValue::new(type_code, Value::Struct { type_name: name.to_owned(), fields })
}

#[cfg(test)]
mod tests {
    use super::*;
    use giop::cdr::{Encoding, Endian, Reader, Writer};
    use giop::typecode::Work;

    fn there_and_back(value: &AnyValue) {
        for endian in [Endian::Big, Endian::Little] {
            let mut bytes = Vec::new();
            value.write(&mut Writer::new(&mut bytes, Encoding::new(endian))).unwrap();
            let read = AnyValue::read(&mut Reader::new(&bytes, Encoding::new(endian)), &mut Work::default()).unwrap();
            assert!(read.type_code.equal(&value.type_code));
            assert_eq!(read.value, value.value);
        }
    }

    #[test]
    fn pools_are_values_of_the_types_that_they_say() {
        there_and_back(&ThreadPool::new(PriorityModel::ServerDeclared, 500, 2).into());
        there_and_back(&ThreadPoolLanes::new(PriorityModel::ClientPropagated, 1, &[]).into());
        there_and_back(&ThreadPoolLanes::new(PriorityModel::ClientPropagated, 1, &[(0, 1), (32_767, 3)]).into());
    }

    #[test]
    fn types_are_named_as_in_the_idl() {
        let property: Property = ThreadPoolLanes::new(PriorityModel::ClientPropagated, 0, &[(5, 1)]).into();
        assert_eq!(property.name, "ThreadPoolLanes");
        assert_eq!(property.value.type_code.id(), "IDL:NotifyExt/ThreadPoolLanesParams:1.0");
        assert_eq!(
            property.value.type_code.to_string(),
            "struct ThreadPoolLanesParams { PriorityModel priority_model; Priority server_priority; unsigned long stacksize; ThreadPoolLanes_List lanes; boolean allow_borrowing; \
             boolean allow_request_buffering; unsigned long max_buffered_requests; \
             unsigned long max_request_buffer_size; }"
        );
        let property: Property = ThreadPool::new(PriorityModel::ServerDeclared, 0, 1).into();
        assert_eq!(property.name, "ThreadPool");
        assert_eq!(property.value.type_code.id(), "IDL:NotifyExt/ThreadPoolParams:1.0");
    }
}

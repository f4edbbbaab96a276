//! Campanile's scheduling analysis as an object: declared activities in, priorities and a feasibility answer out.
//!
//! ```no_run
//! use campanile_client::scheduling::{Activity, Policy, SchedulingService};
//! use campanile_client::{Orb, OrbOptions};
//! use std::time::Duration;
//!
//! let orb = Orb::new(OrbOptions::default());
//! let service = SchedulingService::narrow(orb.resolve("corbaloc::127.0.0.1:2809/SchedulingService")?)?;
//! let trigger = Activity::new("trigger", Duration::from_millis(10), Duration::from_micros(200));
//! let analysis = service.analyse(&[trigger], Policy::Automatic, 1)?;
//! println!("{}", analysis.explanation);
//! # Ok::<(), campanile_client::InvokeError>(())
//! ```

use crate::notify::EventType;
use crate::time::duration_of;
use crate::typed::{idl_enum, operations, stubs};
use crate::{Marshal, Unmarshal, UserException};
use giop::cdr::{ReadError, ReadErrorKind, Reader, Writer};
use giop::typecode::Work;
use giop::value::WriteError;
use std::time::Duration;

stubs! {
    /// `Campanile::SchedulingService`.
    SchedulingService = "IDL:Campanile/SchedulingService:1.0";
}

idl_enum! {
    /// `Campanile::SchedulingPolicy`.
    Policy {
        /// Deadline monotonic if a deadline is shorter than its period, else rate monotonic.
        Automatic = "AUTOMATIC",
        /// The shortest period has the highest priority.
        RateMonotonic = "RATE_MONOTONIC",
        /// The shortest deadline has the highest priority.
        DeadlineMonotonic = "DEADLINE_MONOTONIC",
        /// The earliest deadline at any moment, within one lane.
        EarliestDeadline = "EARLIEST_DEADLINE",
        /// The least time left to lose at any moment, within one lane.
        LeastLaxity = "LEAST_LAXITY",
        /// The most critical, and among those the least laxity, within one lane.
        MaximumUrgency = "MAXIMUM_URGENCY",
    }
}

/// `Campanile::Activity`: a stream of events of one type on one channel. Times are sent in units of 100 ns, rounded up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    /// The activity's name, unique within an analysis.
    pub name: String,
    /// The number of its channel.
    pub channel: i32,
    /// The type of its events.
    pub event_type: EventType,
    /// Time from one event to the next, or the minimum of it.
    pub period: Duration,
    /// Longest time that an event occupies its lane.
    pub execution_time: Duration,
    /// Deadline relative to the due time; zero for the period.
    pub deadline: Duration,
    /// Maximum delay of an event's arrival.
    pub jitter: Duration,
    /// Longest time that less urgent work may delay an event.
    pub blocking: Duration,
    /// Importance; larger is more critical.
    pub criticality: i16,
}

impl Activity {
    /// An activity of the default channel with nothing but a name, a period and an execution time.
    #[must_use]
    pub fn new(name: &str, period: Duration, execution_time: Duration) -> Self {
        Self {
            name: name.to_owned(),
            channel: 0,
            event_type: EventType::new("", name),
            period,
            execution_time,
            deadline: Duration::ZERO,
            jitter: Duration::ZERO,
            blocking: Duration::ZERO,
            criticality: 0,
        }
    }
}

impl Marshal for Activity {
    fn marshal(&self, out: &mut Writer<'_>) -> Result<(), WriteError> {
        let Self { name, channel, event_type, period, execution_time, deadline, jitter, blocking, criticality } = self;
        (name, channel, event_type).marshal(out)?;
        for time in [period, execution_time, deadline, jitter, blocking] {
            out.u64(u64::try_from(time.as_nanos().div_ceil(100)).unwrap_or(u64::MAX));
        }
        criticality.marshal(out)
    }
}

idl_enum! {
    /// `Campanile::Verdict`.
    Feasibility {
        /// Every deadline is met.
        Feasible = "FEASIBLE",
        /// A deadline may be missed.
        Infeasible = "INFEASIBLE",
        /// The analysis cannot say.
        Inconclusive = "UNDECIDED",
    }
}

/// The longest response time, from when an event is due until it is done: `Campanile::ResponseKind` with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// No event takes longer.
    Worst(Duration),
    /// One takes at least that long.
    AtLeast(Duration),
    /// The response time grows without limit.
    Unbounded,
    /// The response time was not computed.
    Unknown,
}

/// `Campanile::Assignment`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The activity's name.
    pub name: String,
    /// The Real-time CORBA priority of its lane.
    pub priority: i16,
    /// The processor of the analysis, counted from 0.
    pub cpu: u16,
    /// The longest response time of its events.
    pub response: Response,
    /// Amount by which it misses its deadline; zero if it does not, or if unknown.
    pub late_by: Duration,
}

/// `Campanile::Analysis`.
#[derive(Clone, Debug, PartialEq)]
pub struct Analysis {
    /// The policy that was applied; never [`Policy::Automatic`].
    pub policy: Policy,
    /// The answer.
    pub feasibility: Feasibility,
    /// The activities that miss their deadlines with the amounts, or why the analysis cannot say.
    pub explanation: String,
    /// Utilisation of the busiest processor.
    pub utilisation: f64,
    /// Bound of Liu and Layland for the number of activities on that processor.
    pub liu_layland_bound: f64,
    /// Product of its activities' utilisations + 1.
    pub hyperbolic_product: f64,
    /// Assignments, the most urgent first.
    pub assignments: Vec<Assignment>,
    /// The plan, in the format of `campanile plan --out`.
    pub lanes: String,
}

impl Unmarshal for Analysis {
    const BYTES_MIN: usize = 48;

    fn unmarshal(reader: &mut Reader<'_>, work: &mut Work) -> Result<Self, ReadError> {
        Ok(Self {
            policy: Policy::unmarshal(reader, work)?,
            feasibility: Feasibility::unmarshal(reader, work)?,
            explanation: reader.text()?,
            utilisation: reader.f64()?,
            liu_layland_bound: reader.f64()?,
            hyperbolic_product: reader.f64()?,
            assignments: Vec::unmarshal(reader, work)?,
            lanes: reader.text()?,
        })
    }
}

operations! { SchedulingService: {
    /// Analyses activities on so many processors (1 to 64).
    fn analyse(activities: &[Activity], policy: Policy, cpus: u16) -> [Analysis]
        raises "`Campanile/InvalidActivity` ([`invalid_activity`]) or `Campanile/InvalidRequest` for what makes no sense; otherwise \
                what the call met.";
} }

/// The index of the activity in an `InvalidActivity`, and the problem. `None` for other exceptions.
#[must_use]
pub fn invalid_activity(exception: &UserException) -> Option<(u32, String)> {
    if exception.id == "IDL:Campanile/InvalidActivity:1.0" { exception.read_members() } else { None }
}

impl Unmarshal for Assignment {
    const BYTES_MIN: usize = 32;

    fn unmarshal(reader: &mut Reader<'_>, _work: &mut Work) -> Result<Self, ReadError> {
        let (name, priority, cpu) = (reader.text()?, reader.i16()?, reader.u16()?);
        let kind = reader.u32()?;
        let (response, late_by) = (duration_of(reader.u64()?), duration_of(reader.u64()?));
        let response = match kind {
            0 => Response::Worst(response),
            1 => Response::AtLeast(response),
            2 => Response::Unbounded,
            3 => Response::Unknown,
            value => return Err(reader.error(ReadErrorKind::BadValue { what: "ResponseKind", value })),
        };
        Ok(Self { name, priority, cpu, response, late_by })
    }
}

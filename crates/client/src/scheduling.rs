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

use crate::notify::{EventType, read_sequence, stub};
use crate::{InvokeError, UserException};
use giop::cdr::{ReadError, ReadErrorKind, Reader, Writer};
use std::time::Duration;

stub! {
    /// `Campanile::SchedulingService`.
    SchedulingService, "IDL:Campanile/SchedulingService:1.0"
}

/// `Campanile::SchedulingPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Deadline monotonic if a deadline is shorter than its period, else rate monotonic.
    Automatic,
    /// The shortest period has the highest priority.
    RateMonotonic,
    /// The shortest deadline has the highest priority.
    DeadlineMonotonic,
    /// The earliest deadline at any moment, within one lane.
    EarliestDeadline,
    /// The least time left to lose at any moment, within one lane.
    LeastLaxity,
    /// The most critical, and among those the least laxity, within one lane.
    MaximumUrgency,
}

/// `Campanile::Activity`: a stream of events of one type on one channel. Times are sent in units of 100 ns, rounded up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    /// What it is called; unique among those that are analysed together.
    pub name: String,
    /// The number of its channel.
    pub channel: i32,
    /// The type of its events.
    pub event_type: EventType,
    /// From one event to the next, or the minimum interval between two.
    pub period: Duration,
    /// The longest that an event occupies its lane.
    pub execution_time: Duration,
    /// By when an event has to be done; zero for the period.
    pub deadline: Duration,
    /// How much later than due an event may come.
    pub jitter: Duration,
    /// The longest that something less urgent may hold it up.
    pub blocking: Duration,
    /// How much it matters; larger is more.
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

    fn write(&self, out: &mut Writer<'_>) {
        let Self { name, channel, event_type, period, execution_time, deadline, jitter, blocking, criticality } = self;
        out.string(name);
        out.i32(*channel);
        out.string(&event_type.domain);
        out.string(&event_type.name);
        for time in [period, execution_time, deadline, jitter, blocking] {
            out.u64(u64::try_from(time.as_nanos().div_ceil(100)).unwrap_or(u64::MAX));
        }
        out.i16(*criticality);
    }
}

/// `Campanile::Verdict`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feasibility {
    /// Every deadline is met.
    Feasible,
    /// One may be missed.
    Infeasible,
    /// The analysis cannot say.
    Inconclusive,
}

/// The longest time from when an event is due until it is done: `Campanile::ResponseKind` with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// No event takes longer.
    Worst(Duration),
    /// One takes at least that long.
    AtLeast(Duration),
    /// It grows without end.
    Unbounded,
    /// It was not computed.
    Unknown,
}

/// `Campanile::Assignment`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The activity's name.
    pub name: String,
    /// The Real-time CORBA priority of its lane.
    pub priority: i16,
    /// The processor it was analysed on, counted from 0.
    pub cpu: u16,
    /// How long its events may take.
    pub response: Response,
    /// By how much it misses its deadline; zero if it does not, or that is not known.
    pub late_by: Duration,
}

/// `Campanile::Analysis`.
#[derive(Clone, Debug, PartialEq)]
pub struct Analysis {
    /// The policy that was applied; never [`Policy::Automatic`].
    pub policy: Policy,
    /// The answer.
    pub feasibility: Feasibility,
    /// Which activity misses and by how much, or why that cannot be said.
    pub explanation: String,
    /// Of the processor with the most to do.
    pub utilisation: f64,
    /// For as many activities as are on it.
    pub liu_layland_bound: f64,
    /// Of its activities' utilisations + 1.
    pub hyperbolic_product: f64,
    /// The most urgent first.
    pub assignments: Vec<Assignment>,
    /// The plan as `campanile plan --out` writes it.
    pub lanes: String,
}

impl SchedulingService {
    /// Analyses activities on so many processors (1 to 64).
    ///
    /// # Errors
    /// `Campanile/InvalidActivity` ([`invalid_activity`]) or `Campanile/InvalidRequest` for what makes no sense; otherwise
    /// what the call met.
    pub fn analyse(&self, activities: &[Activity], policy: Policy, cpus: u16) -> Result<Analysis, InvokeError> {
        let arguments = |out: &mut Writer<'_>| {
            out.length(activities.len());
            for activity in activities {
                activity.write(out);
            }
            out.u32(policy as u32);
            out.u16(cpus);
        };
        self.object().invoke("analyse", arguments)?.read("analyse", read_analysis)
    }
}

/// The place of the activity that an `InvalidActivity` is about, and what is wrong with it. `None` for other exceptions.
#[must_use]
pub fn invalid_activity(exception: &UserException) -> Option<(u32, String)> {
    if exception.id != "IDL:Campanile/InvalidActivity:1.0" {
        return None;
    }
    let mut members = exception.members().ok()?;
    Some((members.u32().ok()?, members.text().ok()?))
}

fn read_analysis(reader: &mut Reader<'_>) -> Result<Analysis, ReadError> {
    Ok(Analysis {
        policy: read_policy(reader)?,
        feasibility: match reader.u32()? {
            0 => Feasibility::Feasible,
            1 => Feasibility::Infeasible,
            2 => Feasibility::Inconclusive,
            value => return Err(reader.error(ReadErrorKind::BadValue { what: "Feasibility", value })),
        },
        explanation: reader.text()?,
        utilisation: reader.f64()?,
        liu_layland_bound: reader.f64()?,
        hyperbolic_product: reader.f64()?,
        assignments: read_sequence(reader, 32, read_assignment)?,
        lanes: reader.text()?,
    })
}

fn read_policy(reader: &mut Reader<'_>) -> Result<Policy, ReadError> {
    Ok(match reader.u32()? {
        0 => Policy::Automatic,
        1 => Policy::RateMonotonic,
        2 => Policy::DeadlineMonotonic,
        3 => Policy::EarliestDeadline,
        4 => Policy::LeastLaxity,
        5 => Policy::MaximumUrgency,
        value => return Err(reader.error(ReadErrorKind::BadValue { what: "SchedulingPolicy", value })),
    })
}

fn read_assignment(reader: &mut Reader<'_>) -> Result<Assignment, ReadError> {
    let (name, priority, cpu) = (reader.text()?, reader.i16()?, reader.u16()?);
    let kind = reader.u32()?;
    let (response, late_by) = (read_time(reader)?, read_time(reader)?);
    let response = match kind {
        0 => Response::Worst(response),
        1 => Response::AtLeast(response),
        2 => Response::Unbounded,
        3 => Response::Unknown,
        value => return Err(reader.error(ReadErrorKind::BadValue { what: "ResponseKind", value })),
    };
    Ok(Assignment { name, priority, cpu, response, late_by })
}

fn read_time(reader: &mut Reader<'_>) -> Result<Duration, ReadError> {
    let units = reader.u64()?;
    let nanoseconds = u32::try_from(units % 10_000_000 * 100).unwrap_or(0);
    Ok(Duration::new(units / 10_000_000, nanoseconds))
}

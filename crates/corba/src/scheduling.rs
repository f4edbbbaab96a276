//! `Campanile::SchedulingService`: the scheduling analysis as an object.

use super::exceptions::{Exception, Raised, UserException};
use super::keys::ObjectKey;
use super::table::{Interface, Operation};
use super::wire::{read_enum, read_id};
use crate::log_lines::log_line;
use giop::cdr::{ReadError, Reader, Writer};
use planning::{
    Activity, Analysis, AnalysisLimits, Finding, Outcome, Plan, PlanError, Policy, Request, Response, analyse,
};

pub(super) static SCHEDULING_SERVICE: Interface = Interface {
    name: "Campanile::SchedulingService",
    id: "IDL:Campanile/SchedulingService:1.0",
    operations: &[Operation::done(ANALYSE, |call| analyse_activities(call.args, call.reply))],
};

/// The operation.
pub const ANALYSE: &str = "analyse";
const LIMITS: AnalysisLimits = AnalysisLimits::SERVICE;

/// Octets of the shortest `Activity`: three empty strings, a channel, five times and a criticality.
const ACTIVITY_BYTES_MIN: usize = 72;
/// Nanoseconds in a `TimeBase::TimeT`.
const TIME_UNIT: u64 = 100;
/// The policies as `SchedulingPolicy` numbers them; 0 is `AUTOMATIC`.
const POLICIES: [Option<Policy>; 6] = [
    None,
    Some(Policy::RateMonotonic),
    Some(Policy::DeadlineMonotonic),
    Some(Policy::EarliestDeadline),
    Some(Policy::LeastLaxity),
    Some(Policy::MaximumUrgency),
];

/// Whether an object key is that of the scheduling service.
#[must_use]
pub fn is_scheduling_service(key: &[u8]) -> bool {
    ObjectKey::parse(key) == Some(ObjectKey::SchedulingService)
}

/// Executes [`ANALYSE`] without the protocol, on any thread, since it can take a second.
///
/// # Errors
/// The exception to send instead.
pub fn analyse_apart(args: Reader<'_>, reply: &mut Writer<'_>) -> Result<(), Exception> {
    let (encoding, phase) = (reply.encoding(), reply.phase());
    analyse_activities(args, reply).map_err(|raised| raised.into_exception(encoding, phase))
}

fn analyse_activities(mut args: Reader<'_>, reply: &mut Writer<'_>) -> Result<(), Raised> {
    let count = args.seq_len(ACTIVITY_BYTES_MIN)?;
    if usize::try_from(count).is_ok_and(|count| count > LIMITS.activities_max) {
        log_line!(Info, "{count} activities are too many to be analysed: at most {}", LIMITS.activities_max);
        return Err(Raised::limit());
    }
    let read = (0..count).map(|_| read_activity(&mut args)).collect::<Result<Vec<_>, ReadError>>()?;
    let policy = POLICIES.get(read_enum(&mut args, "SchedulingPolicy", 5)? as usize).copied().flatten();
    let cpus = args.u16()?;
    args.finish("the arguments of analyse")?;
    let mut activities = Vec::with_capacity(read.len());
    for (index, (channel, activity)) in read.into_iter().enumerate() {
        let why = || "its channel is negative; the numbers of channels begin at 0".to_owned();
        let channel = channel.ok_or_else(|| refused(PlanError::Activity { index, why: why() }))?;
        activities.push(Activity { channel, ..activity });
    }
    let request = Request { policy, cpus, ..Request::default() };
    let analysis = analyse(&activities, &request, &LIMITS).map_err(refused)?;
    write_analysis(&activities, &analysis, reply);
    Ok(())
}

fn refused(error: PlanError) -> Raised {
    match error {
        PlanError::Activity { index, why } => {
            UserException::InvalidActivity { index: u32::try_from(index).unwrap_or(u32::MAX), why }.into()
        }
        PlanError::Request(why) => UserException::InvalidRequest { why }.into(),
    }
}

/// Reads an activity and its channel, unless no channel has that number.
fn read_activity(args: &mut Reader<'_>) -> Result<(Option<u32>, Activity), ReadError> {
    let name = args.text()?;
    let channel = read_id(args)?;
    let (domain, type_name) = (args.text()?, args.text()?);
    let mut time = || Ok::<u64, ReadError>(args.u64()?.saturating_mul(TIME_UNIT));
    let (period, execution_time, deadline) = (time()?, time()?, time()?);
    let (jitter, blocking) = (time()?, time()?);
    let deadline = if deadline == 0 { period } else { deadline };
    let criticality = args.i16()?;
    let activity = Activity {
        name,
        channel: 0,
        domain,
        type_name,
        period,
        execution_time,
        deadline,
        jitter,
        blocking,
        criticality,
    };
    Ok((channel, activity))
}

fn write_analysis(activities: &[Activity], analysis: &Analysis, reply: &mut Writer<'_>) {
    let policy = POLICIES.iter().position(|policy| *policy == Some(analysis.policy));
    reply.u32(policy.and_then(|place| u32::try_from(place).ok()).unwrap_or(0));
    reply.u32(match analysis.outcome {
        Outcome::Feasible => 0,
        Outcome::Infeasible => 1,
        Outcome::Inconclusive(_) => 2,
    });
    reply.string(&analysis.explain(activities));
    reply.f64(analysis.utilisation.iter().copied().fold(0.0, f64::max));
    reply.f64(analysis.liu_layland_bound);
    reply.f64(analysis.hyperbolic_product);
    let order = analysis.by_urgency();
    reply.length(order.len());
    for index in order {
        if let (Some(activity), Some(finding)) = (activities.get(index), analysis.findings.get(index)) {
            write_assignment(&activity.name, finding, reply);
        }
    }
    reply.string(&Plan::new(activities, analysis).to_toml());
}

fn write_assignment(name: &str, finding: &Finding, reply: &mut Writer<'_>) {
    reply.string(name);
    reply.i16(finding.priority);
    reply.u16(finding.cpu);
    let (kind, response) = match finding.response {
        Response::Worst(time) => (0, time),
        Response::AtLeast(time) => (1, time),
        Response::Unbounded => (2, 0),
        Response::Unknown => (3, 0),
    };
    reply.u32(kind);
    // All times came in this unit, so that what they add up to is whole in it.
    reply.u64(response / TIME_UNIT);
    reply.u64(finding.late_by.unwrap_or(0) / TIME_UNIT);
}

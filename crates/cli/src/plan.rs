//! `campanile plan`: assigns declared activities to lanes, and shows whether they meet their deadlines.

mod tempo;

use crate::args::{PlanCommand, PlanOptions, PlanPolicy, PlanRequest};
use crate::failure::Failure;
use crate::show;
use planning::{
    Activity, Analysis, AnalysisLimits, Finding, Outcome, Plan, PlanningFile, Policy, Response, analyse, format_time,
};
use serde_json::{Value as Json, json};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

/// Analyses a file.
pub(crate) fn run(request: &PlanRequest) -> Result<(), Failure> {
    match request {
        PlanRequest { command: Some(PlanCommand::Tempo(options)), .. } => tempo::run(options),
        PlanRequest { options: Some(options), .. } => plan_activities(options),
        // The command line is refused without a file.
        PlanRequest { .. } => Err(Failure::Usage("name the file of activities".to_owned())),
    }
}

/// Analyses a file of activities; succeeds if every deadline is shown to be met.
fn plan_activities(options: &PlanOptions) -> Result<(), Failure> {
    let file = &options.file;
    let text = read(file)?;
    let wrong = |error| Failure::Usage(format!("{}: {error}", file.display()));
    let set = PlanningFile::parse(&text).map_err(wrong)?;
    let mut request = set.request;
    if let Some(policy) = options.policy {
        request.policy = named(policy);
    }
    request.cpus = options.cpus.unwrap_or(request.cpus);
    let analysis =
        analyse(&set.activities, &request, &AnalysisLimits::COMMAND).map_err(|error| wrong(set.locate(&error)))?;
    let plan = Plan::new(&set.activities, &analysis);
    if let Some(out) = &options.out {
        write_plan(&plan, out)?;
    }
    let said = if options.json {
        format!("{}\n", report(&set.activities, &analysis, &plan))
    } else {
        describe(&set.activities, &analysis, &plan)
    };
    io::stdout().write_all(said.as_bytes())?;
    if analysis.outcome == Outcome::Feasible { Ok(()) } else { Err(Failure::Quiet) }
}

fn read(file: &Path) -> Result<String, Failure> {
    fs::read_to_string(file).map_err(|error| Failure::Usage(format!("cannot read {}: {error}", file.display())))
}

/// The policy of that name; `None` to choose the one that fits.
const fn named(policy: PlanPolicy) -> Option<Policy> {
    match policy {
        PlanPolicy::Auto => None,
        PlanPolicy::Rm => Some(Policy::RateMonotonic),
        PlanPolicy::Dm => Some(Policy::DeadlineMonotonic),
        PlanPolicy::Edf => Some(Policy::EarliestDeadline),
        PlanPolicy::Llf => Some(Policy::LeastLaxity),
        PlanPolicy::Muf => Some(Policy::MaximumUrgency),
    }
}

fn write_plan(plan: &Plan, out: &Path) -> Result<(), Failure> {
    fs::write(out, plan.to_toml())
        .map_err(|error| Failure::Message(format!("cannot write {}: {error}; choose another --out", out.display())))
}

/// JSON object, with times in nanoseconds.
fn report(activities: &[Activity], analysis: &Analysis, plan: &Plan) -> Json {
    let described = |index: &usize| {
        let (activity, finding) = (activities.get(*index)?, analysis.findings.get(*index)?);
        let (kind, response) = response_parts(finding.response);
        Some(json!({
            "name": activity.name,
            "channel": activity.channel,
            "type": event_type(activity),
            "priority": finding.priority,
            "lane": finding.lane,
            "cpu": finding.cpu,
            "period_ns": activity.period,
            "execution_time_ns": activity.execution_time,
            "deadline_ns": activity.deadline,
            "jitter_ns": activity.jitter,
            "blocking_ns": activity.blocking,
            "criticality": activity.criticality,
            "response": kind,
            "response_ns": response,
            "late_by_ns": finding.late_by,
        }))
    };
    let overload = analysis.overload.map(|overload| {
        json!({
            "interval_ns": overload.interval,
            "demand_ns": overload.demand,
            "activity": activities.get(overload.activity).map(|activity| &activity.name),
        })
    });
    json!({
        "policy": analysis.policy.short_name(),
        "feasible": match analysis.outcome {
            Outcome::Feasible => Json::Bool(true),
            Outcome::Infeasible => Json::Bool(false),
            Outcome::Inconclusive(_) => Json::Null,
        },
        "explanation": analysis.explain(activities),
        "utilisation": analysis.utilisation,
        "liu_layland_bound": analysis.liu_layland_bound,
        "hyperbolic_product": analysis.hyperbolic_product,
        "overload": overload,
        "activities": analysis.by_urgency().iter().filter_map(described).collect::<Vec<_>>(),
        "notes": plan.notes,
    })
}

fn response_parts(response: Response) -> (&'static str, Option<u64>) {
    match response {
        Response::Worst(time) => ("worst", Some(time)),
        Response::AtLeast(time) => ("at least", Some(time)),
        Response::Unbounded => ("unbounded", None),
        Response::Unknown => ("unknown", None),
    }
}

fn event_type(activity: &Activity) -> Option<String> {
    (!activity.type_name.is_empty()).then(|| format!("{}/{}", activity.domain, activity.type_name))
}

const HEADINGS: [&str; 10] =
    ["activity", "channel", "type", "priority", "period", "execution", "deadline", "response", "slack", ""];

/// Text with a table and a few sentences.
fn describe(activities: &[Activity], analysis: &Analysis, plan: &Plan) -> String {
    let several = analysis.utilisation.len() > 1;
    let rows: Vec<[String; 10]> = analysis
        .by_urgency()
        .iter()
        .filter_map(|index| Some(row(activities.get(*index)?, analysis.findings.get(*index)?, several)))
        .collect();
    let mut text = String::new();
    show::table(&mut text, (&HEADINGS, false), &[0, 2, 9], &rows);
    let _ = writeln!(text);
    let _ = writeln!(text, "{}: {}", analysis.policy, analysis.explain(activities));
    for (cpu, utilisation) in analysis.utilisation.iter().enumerate() {
        let of = if several { format!(" of cpu {cpu}") } else { String::new() };
        let _ = writeln!(text, "utilisation{of}: {:.1} %", utilisation * 100.0);
    }
    if !analysis.policy.is_dynamic() {
        let _ = writeln!(
            text,
            "bounds that suffice without jitter, blocking or other deadlines: Liu and Layland {:.1} %; hyperbolic {:.3} of 2",
            analysis.liu_layland_bound * 100.0,
            analysis.hyperbolic_product
        );
    }
    for note in &plan.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn row(activity: &Activity, finding: &Finding, several_cpus: bool) -> [String; 10] {
    let (response, slack) = match finding.response {
        Response::Worst(time) => {
            let slack = activity.deadline.checked_sub(time);
            (
                format_time(time),
                slack.map_or_else(|| format!("-{}", format_time(time - activity.deadline)), format_time),
            )
        }
        Response::AtLeast(time) => (format!("≥ {}", format_time(time)), String::new()),
        Response::Unbounded => ("without end".to_owned(), String::new()),
        Response::Unknown => (String::new(), String::new()),
    };
    let misses = finding.late_by.is_some() || finding.response == Response::Unbounded;
    let mut remark = if misses { "MISSES".to_owned() } else { String::new() };
    if several_cpus {
        let _ = write!(remark, "{}cpu {}", if misses { ", " } else { "" }, finding.cpu);
    }
    [
        show::clean(&activity.name),
        activity.channel.to_string(),
        event_type(activity).map(|text| show::clean(&text)).unwrap_or_default(),
        finding.priority.to_string(),
        format_time(activity.period),
        format_time(activity.execution_time),
        format_time(activity.deadline),
        response,
        slack,
        remark,
    ]
}

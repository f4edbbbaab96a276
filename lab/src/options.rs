//! What can be asked of the scenarios: one set of options, of which each scenario takes those that its row names, with its own defaults.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;

use clap::builder::ArgPredicate;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Args, Command, FromArgMatches, Subcommand, ValueEnum};
use load::{CarriageOptions, ReportOptions};

use crate::experiments::alma::Transport;
use crate::experiments::{Bed, on_bed};
use crate::links::Carrier;
use crate::report::{self, Reported};
use crate::{BenchError, Hidden, Output, scenarios};

/// One experiment: a sub-command.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// What it shows.
    pub(crate) about: &'static str,
    /// The options that it takes, beside those on how to report and, on a bed, [`OF_BEDS`]: `name`, `name=DEFAULT`, or `name=DEFAULT/DEFAULT WITH --quick`.
    pub(crate) takes: &'static str,
    /// How it is run.
    pub(crate) how: How,
}

/// How a scenario is run, to find something that is then reported.
#[derive(Debug)]
pub(crate) enum How {
    /// By itself.
    Alone(fn(&Options, &mut Output<'_>) -> Reported),
    /// On a bed: with real-time priorities and, with `--one-cpu`, on one core, where that is granted.
    OnBed(fn(&Bed, &Options, &mut Output<'_>) -> Reported),
    /// It runs others.
    All(fn(&Options, &mut Output<'_>) -> Result<(), BenchError>),
}

/// The options of what is run on a bed.
const OF_BEDS: &str = "quick one_cpu lift_throttling seconds loads";

/// The options of all scenarios.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// Fewer and shorter rounds, or less of everything: a check, and no measurement
    #[arg(long)]
    pub(crate) quick: bool,
    /// Rounds; in each, every contender has its turn, or something crashes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rounds: u32,
    /// Seconds for which events count, a turn lasts or a consumer sleeps [default: the experiment's]
    #[arg(long, alias = "duration", value_name = "SECONDS")]
    pub(crate) seconds: Option<f64>,
    /// Events a second; of `tls` and `saturate` 0: as many as get through
    #[arg(long, value_name = "HZ", default_value_t = 0.0)]
    pub(crate) rate: f64,
    /// Events of each supplier, contender or history
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) events: u64,
    /// Payload of an event in bytes
    #[arg(long, alias = "bytes", value_name = "BYTES", default_value_t = 128, value_parser = clap::value_parser!(u32).range(32..=8_388_608))]
    pub(crate) payload: u32,
    /// Suppliers, each with its own connection
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) suppliers: u32,
    /// Consumers, each given every event
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) consumers: u32,
    /// Processes that these consumers are in
    #[arg(long, value_name = "P", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) processes: u32,
    /// Loads to try instead of the experiment's, in units; of `alma` numbers of subscribers, of `components` and `placements` of sinks
    #[arg(long, value_name = "LOAD", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(..=10_000))]
    pub(crate) loads: Vec<u32>,
    /// Mbit/s of the line between nodes, one after the other; 0: no limit
    #[arg(long, value_name = "MBIT", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(..=10_000))]
    pub(crate) line_mbit: Vec<u32>,
    /// Seconds for which the line is down
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub(crate) down_for: f64,
    /// Only these contenders, attacks or parts; `help` lists them [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Only these transports in rows and floods [default: all]
    #[arg(long, value_name = "TRANSPORT", value_delimiter = ',')]
    pub(crate) transports: Vec<Transport>,
    /// Only links of these carriers [default: all that this program was built with]
    #[arg(long, value_name = "CARRIER", value_delimiter = ',')]
    pub(crate) carriers: Vec<Carrier>,
    /// Have these contenders carry as many events at the same time, each with processes of its own [default: none]
    #[arg(long, value_name = "CONTENDER", value_delimiter = ',')]
    pub(crate) beside: Vec<String>,
    /// Everything at the same time: all rates, each with processes of its own; all attacks, while administration of a second service
    /// without attackers is asked as well
    #[arg(long)]
    pub(crate) together: bool,
    /// Confine suppliers, consumers and services to one core, as the papers' testbed was
    #[arg(long)]
    pub(crate) one_cpu: bool,
    /// Have the kernel not throttle real-time threads until this is over (sysctl `kernel.sched_rt_runtime_us` = -1;
    /// needs root, and is put back even when this is killed)
    #[arg(long)]
    pub(crate) lift_throttling: bool,
    /// How events travel
    #[command(flatten)]
    pub(crate) carriage: CarriageOptions,
    /// Milliseconds from one supplier's turn to the next one's; 0 lets all push at the same moment
    #[arg(long, value_name = "MS", default_value_t = 0.0)]
    pub(crate) stagger_ms: f64,
    /// Leave out the same traffic over plain sockets
    #[arg(long)]
    pub(crate) no_sockets: bool,
    /// Seconds of paced traffic in a turn
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub(crate) paced_seconds: f64,
    /// Seconds of back-to-back traffic in a turn
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub(crate) saturated_seconds: f64,
    /// Seconds of traffic with one event under way in a turn
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub(crate) lockstep_seconds: f64,
    /// Leave it to the scheduler where the parties run while the cores are kept awake
    #[arg(long)]
    pub(crate) no_pin: bool,
    /// Also count the service's system calls with strace, in a short separate turn at the end
    #[arg(long)]
    pub(crate) strace: bool,
    /// Where interop/install.sh left the omniORB programs
    #[arg(long, value_name = "DIR", default_value = "target/interop/omniorb")]
    pub(crate) omniorb_dir: PathBuf,
    /// Where the programs of the other ORBs are
    #[arg(long, value_name = "DIR", default_value = "target/interop")]
    pub(crate) interop: PathBuf,
    /// Nodes of a plan, each with a node manager
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..=64))]
    pub(crate) nodes: u8,
    /// Instances of a plan, on all nodes together
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) instances: u32,
    /// Changes of a plan in which a node is killed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) tries: u32,
    /// Decides at what moments a service or a node is killed, and which process is stopped; another one each time if it is not given
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    /// Where the store's folder is made: on the disk that is to be measured
    #[arg(long, value_name = "DIR")]
    pub(crate) on: Option<PathBuf>,
    /// How many seconds everybody keeps up first, to compare with
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) awake: u64,
    /// Meanwhile another process writes as many octets a second to the same disk: what is compared then is where the writing comes from
    #[arg(long)]
    pub(crate) writer: bool,
    /// The channel's `OverflowBudget`
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) budget_gib: u64,
    /// Minutes at each rate
    #[arg(long, value_name = "MINUTES", default_value_t = 1.0)]
    pub(crate) minutes: f64,
    /// Events a second, one rate after the other unless --together is given
    #[arg(long, value_name = "HZ", value_delimiter = ',')]
    pub(crate) rates: Vec<f64>,
    /// Which contender carries the events: `campanile`, a floor (`relay`, `writev`), or a peer
    #[arg(long, value_name = "NAME", default_value = "campanile")]
    pub(crate) contender: String,
    /// Pushes of the supplier that may be unanswered; 1 is a plain two-way push
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) window: u32,
    /// The supplier asks for no replies
    #[arg(long, conflicts_with = "window")]
    pub(crate) one_way: bool,
    /// The supplier pushes sequences of so many events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) sequence: Option<u32>,
    /// Single events are Anys and not structured, where the contender has both
    #[arg(long)]
    pub(crate) any: bool,
    /// How consumers get their events
    #[arg(long, value_name = "KIND", value_enum, default_value_t = ConsumerKind::TwoWay)]
    pub(crate) consumer: ConsumerKind,
    /// Events of a sequence to a consumer (QoS `MaximumBatchSize`)
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) batch: u32,
    /// Events that may wait for a consumer until the supplier has to (QoS `MaxEventsPerConsumer`, `FullOutbox` = `Hold`);
    /// 0 for the service's defaults
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(..=1_000_000_000))]
    pub(crate) queue: u32,
    /// Keep the service on this core [default: any]
    #[arg(long, value_name = "CORE")]
    pub(crate) service_core: Option<u16>,
    /// Keep supplier and consumers on this core [default: any]
    #[arg(long, value_name = "CORE")]
    pub(crate) ends_core: Option<u16>,
    /// Consumers' proxies that are made and connected, and that all further work finds there
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=90_000))]
    pub(crate) proxies: u32,
    /// Clients, each with a connection of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4000))]
    pub(crate) connections: u32,
    /// Consumers' proxies of each client
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(crate) proxies_each: u32,
    /// Seconds after the attacks at which the service must be at rest
    #[arg(long, value_name = "SECONDS", requires = "together", default_value_t = 0.0)]
    pub(crate) rest: f64,
    /// Attackers run at ordinary priority instead of only on idle processors: all services here then compete with them for processors
    #[arg(long)]
    pub(crate) ordinary: bool,
    /// Configuration of the services that are attacked (see `campanile serve --config`)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The program that serves, if not the `campanile` beside this one: of another version, to compare with
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) service: Option<PathBuf>,
    /// The library that the program loads, built with DDS [default: library/libcampanile_ffi.so beside this program's folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) library: Option<PathBuf>,
    /// Have the compiler's sanitizer look at the program, as it does at a library that is built so
    #[arg(long, value_name = "address")]
    pub(crate) sanitize: Option<String>,
    /// Also store the report in this folder, under date, commit and name, in the place of an older one of this name
    #[arg(long, value_name = "DIR")]
    pub(crate) results: Option<PathBuf>,
    /// How to report
    #[command(flatten)]
    pub(crate) report: ReportOptions,
}

/// How consumers of `saturate` get their events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ConsumerKind {
    /// Each push is answered
    #[default]
    TwoWay,
    /// No push is answered (QoS `PushOneWay`)
    OneWay,
    /// Sequences, each answered
    Sequence,
}

impl Options {
    /// What `--only` names, as one of the values that there are.
    pub(crate) fn only_of<T: ValueEnum>(&self) -> Result<Vec<T>, BenchError> {
        let named = |key: &String| {
            T::from_str(key, false).map_err(|_| {
                let keys = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
                let keys = keys.map(|value| value.get_name().to_owned()).collect();
                BenchError::NoContender { option: "--only", key: key.clone(), keys }
            })
        };
        self.only.iter().map(named).collect()
    }

    /// Whether `--only` names a part, or nothing.
    pub(crate) fn takes_part(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// Refuses a number that is not above 0 and at most this.
    pub(crate) fn check(name: &'static str, value: f64, most: f64) -> Result<(), BenchError> {
        let fits = value > 0.0 && value <= most;
        fits.then_some(()).ok_or_else(|| BenchError::Option { name, must_be: format!("above 0 and at most {most}") })
    }
}

impl Scenario {
    /// Runs it and reports what it found; with `--only help` lists what that may name.
    pub(crate) fn run(&self, options: &Options, out: &mut Output<'_>) -> Result<(), BenchError> {
        let done = match self.how {
            How::Alone(run) => report::run(self.name, options, out, |out| run(options, out)),
            How::OnBed(measure) => report::run(self.name, options, out, |out| on_bed(measure, options, out)),
            How::All(run) => run(options, out),
        };
        match done {
            Err(BenchError::NoContender { key, keys, .. }) if key == "help" => {
                Ok(writeln!(out, "{}", keys.join("\n"))?)
            }
            done => done,
        }
    }

    /// Whether it takes an option; `Some` has the defaults.
    fn takes(&self, option: &str) -> Option<(&'static str, &'static str)> {
        const ALWAYS: [&str; 3] = ["results", "json", "json_file"];
        let of_beds = if matches!(self.how, How::OnBed(_)) { OF_BEDS } else { "" };
        let of_row = self.takes.split_whitespace().chain(of_beds.split_whitespace()).find_map(|word| {
            let (name, defaults) = word.split_once('=').unwrap_or((word, ""));
            (name == option).then(|| defaults.split_once('/').unwrap_or((defaults, "")))
        });
        of_row.or_else(|| ALWAYS.contains(&option).then_some(("", "")))
    }

    /// The sub-command: what the scenario does not take is not shown.
    fn command(&self) -> Command {
        Options::augment_args(Command::new(self.name).about(self.about)).mut_args(|arg| {
            let Some((usual, quick)) = self.takes(arg.get_id().as_str()) else { return arg.hide(true) };
            let arg = if usual.is_empty() { arg } else { arg.default_values(usual.split(',')) };
            if quick.is_empty() {
                arg
            } else {
                arg.default_value_if("quick", ArgPredicate::Equals("true".into()), quick)
            }
        })
    }
}

/// What the command line asks for.
#[derive(Debug)]
pub(crate) enum Asked {
    Scenario(&'static Scenario, Box<Options>),
    /// A process of a scenario.
    Hidden(Hidden),
}

/// Reads a command line; an error of usage says what there is instead.
pub(crate) fn parse(line: Command, words: impl IntoIterator<Item = OsString>) -> Result<Asked, clap::Error> {
    let line = line.subcommand_required(true).subcommands(scenarios::ALL.iter().map(Scenario::command));
    let mut line = Hidden::augment_subcommands(line);
    let matches = line.try_get_matches_from_mut(words)?;
    let Some((scenario, of_it)) = matches
        .subcommand()
        .and_then(|(name, of_it)| Some((scenarios::ALL.iter().find(|scenario| scenario.name == name)?, of_it)))
    else {
        return Hidden::from_arg_matches(&matches).map(Asked::Hidden);
    };
    let is_given = |id: &&clap::Id| of_it.value_source(id.as_str()) == Some(ValueSource::CommandLine);
    let groups: Vec<String> = line.get_groups().map(|group| group.get_id().to_string()).collect();
    let foreign = of_it.ids().filter(is_given).find(|id| {
        let is_option = Options::augment_args(Command::new("")).get_arguments().any(|arg| arg.get_id() == *id);
        is_option && !groups.contains(&id.to_string()) && scenario.takes(id.as_str()).is_none()
    });
    if let Some(id) = foreign {
        let text = format!("`{}` takes no option --{}\n", scenario.name, id.as_str().replace('_', "-"));
        return Err(clap::Error::raw(ErrorKind::UnknownArgument, text));
    }
    Ok(Asked::Scenario(scenario, Box::new(Options::from_arg_matches(of_it)?)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// What a line asks of a scenario.
    pub(crate) fn asked(words: &[&str]) -> Result<Options, String> {
        let words = std::iter::once(&"bench").chain(words).map(OsString::from);
        match parse(Command::new("bench"), words).map_err(|error| error.to_string())? {
            Asked::Scenario(_, options) => Ok(*options),
            Asked::Hidden(hidden) => Err(format!("{hidden:?}")),
        }
    }

    #[test]
    fn every_option_that_a_row_names_is_there_and_takes_its_defaults() {
        for scenario in scenarios::ALL {
            for words in [vec![scenario.name], vec![scenario.name, "--quick"]] {
                if words.len() == 1 || scenario.takes("quick").is_some() {
                    asked(&words).unwrap();
                }
            }
            let options = Options::augment_args(Command::new(""));
            let known: Vec<&str> = options.get_arguments().map(|arg| arg.get_id().as_str()).collect();
            let named = scenario.takes.split_whitespace().map(|word| word.split('=').next().unwrap_or(word));
            let unknown: Vec<&str> = named.filter(|name| !known.contains(name)).collect();
            assert!(unknown.is_empty(), "{}: {unknown:?}", scenario.name);
        }
    }

    #[test]
    fn defaults_are_the_scenario_s_own_and_others_with_quick() {
        assert_eq!((asked(&["floor"]).unwrap().rounds, asked(&["floor", "--quick"]).unwrap().rounds), (5, 3));
        assert_eq!(asked(&["floor", "--quick", "--rounds", "7"]).unwrap().rounds, 7);
        assert_eq!(asked(&["endurance"]).unwrap().rates, [250.0, 1000.0]);
    }

    /// It was an error, though lab/README.md said to ask so.
    #[test]
    fn only_help_lists_what_there_is() {
        let hostile = scenarios::ALL.iter().find(|scenario| scenario.name == "hostile").unwrap();
        let mut listed = Vec::new();
        hostile.run(&asked(&["hostile", "--only", "help"]).unwrap(), &mut Output::new(&mut listed, false)).unwrap();
        assert!(String::from_utf8(listed).unwrap().lines().any(|line| line.starts_with("flood  ") && line.len() > 30));
    }

    #[test]
    fn an_option_of_another_scenario_is_refused() {
        let refused = asked(&["order", "--attack", "x"]).unwrap_err();
        assert!(refused.contains("--attack"), "{refused}");
        let refused = asked(&["order", "--minutes", "3"]).unwrap_err();
        assert!(refused.contains("`order` takes no option --minutes"), "{refused}");
    }
}

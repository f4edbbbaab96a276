//! What a person can ask of each benchmark, as plain structs that `clap` fills.

use std::path::PathBuf;

use load::{CarriageOptions, DeliveryOptions, LeashedOptions, ReportOptions};

/// `campanile-bench …`: one variant for each benchmark.
#[derive(Debug, Clone, clap::Subcommand)]
#[non_exhaustive]
pub(crate) enum Command {
    /// Run a correlator pipeline: 16 suppliers of 13 KB at 2 Hz, alone and beside the monitor system
    #[command(after_help = PIPELINE_EXAMPLES)]
    Pipeline(PipelineOptions),
    /// Show that order is kept and nothing lost: 8 suppliers × 100,000 events into 8 consumers, at full speed
    #[command(after_help = ORDER_EXAMPLES)]
    Order(OrderOptions),
    /// Compare with the floor: a bare TCP relay, and two omniORB programs without a service
    #[command(after_help = FLOOR_EXAMPLES)]
    Floor(FloorOptions),
    /// What filters cost: the language beside Rust, and 1, 100 and 10,000 consumers with a filter each
    #[command(after_help = FILTERS_EXAMPLES)]
    Filters(FiltersOptions),
    /// What administration takes from the events: proxies, walks, constraints, statistics, channels meanwhile
    #[command(after_help = ADMINISTRATION_EXAMPLES)]
    Administration(AdministrationOptions),
    /// What the service keeps in memory for consumers that wait: 10,000 proxies from 1,000 connections, and its threads
    #[command(after_help = MEMORY_EXAMPLES)]
    Memory(MemoryOptions),
    /// What clients that mean harm, or die, cost everybody else: one attack after the other, or all at once
    #[command(after_help = HOSTILE_EXAMPLES)]
    Hostile(HostileOptions),
    /// Show that nothing acknowledged is lost: a service with a store is killed under load, round after round
    #[command(after_help = crate::crash::EXAMPLES)]
    Crash(crate::crash::CrashOptions),
    /// What it costs that events outlive the service: beside the store's engine alone, and for a channel that is best-effort
    #[command(after_help = crate::durable::EXAMPLES)]
    Durable(crate::durable::DurableOptions),
    /// A consumer that comes late to a channel that keeps its past
    #[command(after_help = crate::history::EXAMPLES)]
    History(crate::history::HistoryOptions),
    /// What TLS costs an event, beside a bare relay
    #[command(after_help = crate::tls::EXAMPLES)]
    Tls(crate::tls::TlsOptions),
    /// What an event takes by lines of JSON, beside CORBA's door
    #[command(after_help = crate::performance::json::EXAMPLES)]
    Json(crate::performance::json::JsonOptions),
    /// A consumer that sleeps while events go on coming, and gets them all when it wakes
    #[command(after_help = crate::overflow::EXAMPLES)]
    Overflow(crate::overflow::OverflowOptions),
    /// Three paths of 100 events/s under rising load: which of them keep up (Gore et al., figures 9 and 10)
    #[command(after_help = PATHS_LOAD_EXAMPLES)]
    PathsLoad(ExperimentOptions),
    /// How latencies are spread where the low path has failed (Gore et al., figures 11 and 12)
    #[command(after_help = PATHS_LATENCY_EXAMPLES)]
    PathsLatency(ExperimentOptions),
    /// How even the high path's latency stays under load and beside 20 saturating low paths (Gore et al., figure 13)
    #[command(after_help = PATHS_JITTER_EXAMPLES)]
    PathsJitter(ExperimentOptions),
    /// The high path beside 1 to 100 low paths (Gore et al., figure 14)
    #[command(after_help = PATHS_NUMBER_EXAMPLES)]
    PathsNumber(ExperimentOptions),
    /// What priorities cost, and a service beside 2 and 3 hops without one (Gore et al., figure 15)
    #[command(after_help = OVERHEAD_EXAMPLES)]
    Overhead(ExperimentOptions),
    /// What a publisher suffers from another one's flood (Bauer et al., Tempo, figures 11 and 12)
    #[command(after_help = ISOLATION_EXAMPLES)]
    Isolation(ExperimentOptions),
    /// Tempo at 250 and 4,000 messages/s: peer to peer, through a broker, beside the CORBA door and bare sockets (Bauer et al., tables I to III)
    #[command(after_help = TEMPO_LATENCY_EXAMPLES)]
    TempoLatency(ExperimentOptions),
    /// Tempo through a broker as the rate is raised until it is not reached (Bauer et al., figure 10)
    #[command(after_help = TEMPO_RATES_EXAMPLES)]
    TempoRates(ExperimentOptions),
    /// As many messages as Tempo carries over TCP and UDP, beside bare sockets
    #[command(after_help = TEMPO_SATURATION_EXAMPLES)]
    TempoSaturation(ExperimentOptions),
    /// What a publisher suffers from another one's flood through the same Tempo broker (Bauer et al., figures 11 and 12)
    #[command(after_help = TEMPO_ISOLATION_EXAMPLES)]
    TempoIsolation(ExperimentOptions),
    /// One Tempo publisher and a hundred subscribers: to each, to a multicast group, through a broker
    #[command(after_help = TEMPO_FAN_OUT_EXAMPLES)]
    TempoFanOut(ExperimentOptions),
    /// A thousand Tempo publishers appear at a broker and vanish, again and again: what is left of them
    #[command(after_help = TEMPO_CHURN_EXAMPLES)]
    TempoChurn(ExperimentOptions),
    /// 8 KB at 10 Hz to 1 to 100 subscribers, through the simple API on a notification service and on DDS, beside Cyclone DDS alone
    #[command(after_help = ALMA_EXAMPLES)]
    Alma(crate::experiments::alma::AlmaOptions),
    /// The simple API in Rust, C, C++, Java and Python: gathered events a second, and how long one takes
    #[command(after_help = LANGUAGES_EXAMPLES)]
    Languages(ExperimentOptions),
    /// A program in C on both transports; its consumers and suppliers come and go for half an hour: what is left of them
    #[command(after_help = SOAK_EXAMPLES)]
    Soak(crate::experiments::soak::SoakOptions),
    /// What the analysis says of a Tempo broker that runs by the clock, beside what is measured (Bauer et al., section IV.E)
    #[command(after_help = TEMPO_PREDICTED_EXAMPLES)]
    TempoPredicted(ExperimentOptions),
    /// What the service does for one event, seen from outside: system calls in order, context switches, allocations
    #[command(after_help = EVENT_PATH_EXAMPLES)]
    EventPath(ExperimentOptions),
    /// Latency, throughput and fan-out beside floors and peers, with a page of tables and charts
    #[command(after_help = PERFORMANCE_EXAMPLES)]
    Performance(PerformanceOptions),
    /// One consumer for half an hour at 250/s and at 1,000/s: every event over 1 ms written down, and looked into
    #[command(after_help = ENDURANCE_EXAMPLES)]
    Endurance(EnduranceOptions),
    /// As many events as get through the service in one configuration, and what each costs
    #[command(after_help = SATURATE_EXAMPLES)]
    Saturate(SaturateOptions),
    /// All six experiments of the papers, with their charts and a page of Markdown
    #[command(after_help = EXPERIMENTS_EXAMPLES)]
    Experiments(ExperimentsOptions),
    /// The bare relay of `bench floor`, in a process of its own so that its processor time is its own
    #[command(hide = true, name = "relay-process")]
    RelayProcess(RelayOptions),
    /// The floor of `tls`, in a process of its own
    #[command(hide = true, name = "tls-relay-process")]
    TlsRelayProcess(crate::tls::TlsRelayOptions),
    /// The floor of a fan-out, in a process of its own
    #[command(hide = true, name = "fan-out-process")]
    FanOutProcess(FanOutOptions),
    /// The publisher or the consumers of a measurement of performance, in a process of their own
    #[command(hide = true, name = "end-process")]
    EndProcess,
    /// The suppliers or the consumers of an experiment, in a process of their own
    #[command(hide = true, name = "party-process")]
    PartyProcess,
    /// The subscribers of an experiment with the simple API, in a process of their own
    #[command(hide = true, name = "alma-process")]
    AlmaProcess,
    /// A supplier or a consumer of the experiment with languages, in a process of its own
    #[command(hide = true, name = "languages-process")]
    LanguagesProcess(crate::experiments::languages::LanguagesProcessOptions),
    /// The floor of a Tempo broker, in a process of its own
    #[command(hide = true, name = "tempo-relay-process")]
    TempoRelayProcess(crate::experiments::tempo::relay::TempoRelayOptions),
    /// Lift the throttling of real-time threads until the input ends
    #[command(hide = true, name = "unthrottled-process")]
    UnthrottledProcess,
    /// Start another command of this program that ends when its parent does
    #[command(hide = true, name = "leashed-process")]
    LeashedProcess(LeashedOptions),
}

const ALMA_EXAMPLES: &str = "\
Examples:
  campanile-bench alma                            three quarters of an hour
  campanile-bench alma --quick --only rows --transports notification,relay --loads 100
  campanile-bench alma --quick --json | jq '.rows[] | {transport, subscribers, mean_us, sd_us, p99_us}'";

const SOAK_EXAMPLES: &str = "\
Examples:
  make soak                                       half an hour, under the address sanitizer
  make library LIBRARY_FEATURES=dds && campanile-bench soak --seconds 60";

const LANGUAGES_EXAMPLES: &str = "\
Examples:
  make library                                    what C, C++ and Java load; see lab/README.md for Python
  campanile-bench languages --quick --json | jq '.rows[] | {language, what, value, ratio}'";

const TEMPO_LATENCY_EXAMPLES: &str = "\
Examples:
  campanile-bench tempo-latency                   half an hour
  campanile-bench tempo-latency --quick --json | jq '.rows[] | {mode, transport, rate, p50_us, below_500us}'";

const TEMPO_RATES_EXAMPLES: &str = "\
Examples:
  campanile-bench tempo-rates                     three minutes
  campanile-bench tempo-rates --quick --svg-dir charts";

const TEMPO_SATURATION_EXAMPLES: &str = "\
Examples:
  campanile-bench tempo-saturation                three minutes
  campanile-bench tempo-saturation --quick --json | jq .ratios";

const TEMPO_ISOLATION_EXAMPLES: &str = "\
Examples:
  campanile-bench tempo-isolation                 five minutes
  campanile-bench tempo-isolation --quick --json | jq '{p99_before_us, p99_beside_us, p99_during_us, ratio}'";

const TEMPO_FAN_OUT_EXAMPLES: &str = "\
Examples:
  campanile-bench tempo-fan-out                   a minute and a half
  campanile-bench tempo-fan-out --quick --json | jq '.rows[] | {mode, transport, last_p99_us}'";

const TEMPO_CHURN_EXAMPLES: &str = "\
Examples:
  campanile-bench tempo-churn                     ten minutes
  campanile-bench tempo-churn --seconds 20 --json | jq '.rows[] | {seconds, publishers, resident_bytes, sessions, topics, descriptors}'";

const TEMPO_PREDICTED_EXAMPLES: &str = "\
Examples:
  campanile-bench tempo-predicted                 two minutes
  campanile-bench tempo-predicted --quick --json | jq '.rows[] | {what, predicted, measured}'";

const PIPELINE_EXAMPLES: &str = "\
Examples:
  campanile-bench pipeline                        alone, then beside the monitor system
  campanile-bench pipeline --duration 60 --json-file pipeline.json";

const ORDER_EXAMPLES: &str = "\
Examples:
  campanile-bench order                           a minute or more
  campanile-bench order --quick                   some seconds
  campanile-bench order --form sequence --pull --json | jq .complete_and_in_order

Exit status 0 if every consumer got every supplier's events, each once and in
the order in which they were pushed; 1 if not.";

const FLOOR_EXAMPLES: &str = "\
Examples:
  campanile-bench floor                           about seven minutes
  campanile-bench floor --quick                   within 40 seconds
  campanile-bench floor --quick --json | jq .ratios";

const FILTERS_EXAMPLES: &str = "\
Examples:
  campanile-bench filters                         about 40 seconds
  campanile-bench filters --quick --json | jq .cost_at_10000_over_100";

const ADMINISTRATION_EXAMPLES: &str = "\
Examples:
  campanile-bench administration                  about seven minutes
  campanile-bench administration --quick          within 50 seconds
  campanile-bench administration --quick --json | jq '.rows[] | {work, quiet, elsewhere, here}'";

const MEMORY_EXAMPLES: &str = "\
Examples:
  campanile-bench memory                          10,000 proxies from 1,000 connections, in half a minute
  campanile-bench memory --quick                  2,000 from 200
  campanile-bench memory --json | jq '{idle_proxy_bytes, idle_connection_bytes, threads}'

Needs three descriptors for each connection: where the limit is too low, it
says which.";

const HOSTILE_EXAMPLES: &str = "\
Examples:
  campanile-bench hostile                         each attack beside the same one on another service: about ten minutes
  campanile-bench hostile --quick                 within two minutes
  campanile-bench hostile --only pulls,large --rounds 10
  campanile-bench hostile --together --seconds 600
  campanile-bench hostile --only flood --rounds 20    beside a publisher of 0.8 of what the service takes
  campanile-bench hostile --json | jq '.attacks[] | {attack, p99_ratio, lost}'

Exit status 0 if no event was lost and each p99 is at most twice that beside the
same attack on another service, 1.5 times beside a flood (with --together: if administration answered
within a second, half of the time within 20 ms, and the service rests a minute
after); 1 if not.";

const PATHS_LOAD_EXAMPLES: &str = "\
Examples:
  campanile-bench paths-load --one-cpu            about three minutes
  campanile-bench paths-load --one-cpu --quick --json | jq '.rows[] | select(.high_fits)'
  campanile-bench paths-load --one-cpu --svg-dir charts

The real-time side needs the privilege for real-time priorities (root will do);
without it, it runs at ordinary priority and says so.";

const PATHS_LATENCY_EXAMPLES: &str = "\
Examples:
  campanile-bench paths-latency --one-cpu
  campanile-bench paths-latency --one-cpu --quick --json | jq .rows
  campanile-bench paths-latency --one-cpu --svg-dir charts";

const PATHS_JITTER_EXAMPLES: &str = "\
Examples:
  campanile-bench paths-jitter --one-cpu
  campanile-bench paths-jitter --one-cpu --quick --json | jq .rows
  campanile-bench paths-jitter --one-cpu --svg-dir charts";

const PATHS_NUMBER_EXAMPLES: &str = "\
Examples:
  campanile-bench paths-number --one-cpu
  campanile-bench paths-number --one-cpu --quick --json | jq .rows
  campanile-bench paths-number --one-cpu --svg-dir charts";

const OVERHEAD_EXAMPLES: &str = "\
Examples:
  campanile-bench overhead
  campanile-bench overhead --quick --json | jq .aims";

const ISOLATION_EXAMPLES: &str = "\
Examples:
  campanile-bench isolation
  campanile-bench isolation --quick --json | jq .aims";

const EVENT_PATH_EXAMPLES: &str = "\
Examples:
  campanile-bench event-path                      some seconds; needs strace
  campanile-bench event-path --json | jq .aims";

const PERFORMANCE_EXAMPLES: &str = "\
Examples:
  campanile-bench performance --quick                          a check, in about four minutes
  campanile-bench performance --rounds 1                       every row, in about 28 minutes
  campanile-bench performance --results lab/results --page docs/performance
  campanile-bench performance --stored                         the charts again, of the stored report
  campanile-bench performance --only campanile,relay,writev --json | jq .aims

Contenders: campanile, relay (a bare TCP relay), relay-again (the same once
more: what the harness cannot tell apart), writev (the floor of a fan-out), and
the peers that are installed (lab/peers/install.sh): jacorb, omnievents,
omniorb, nats, cyclonedds. All of it takes about an hour.";

const ENDURANCE_EXAMPLES: &str = "\
Examples:
  campanile-bench endurance                                    an hour
  campanile-bench endurance --minutes 1 --rates 1000
  campanile-bench endurance --together                         both rates in half an hour
  campanile-bench endurance --rates 250 --beside relay         the bare relay at the same time
  campanile-bench endurance --page docs/performance --results lab/results

The kernel's trace of its scheduler explains late events where it may be read
(tracefs, root). Beside Campanile: relay, relay-again, writev, jacorb,
omnievents, nats.";

const SATURATE_EXAMPLES: &str = "\
Examples:
  campanile-bench saturate                                      two-way, one event at a time
  campanile-bench saturate --window 256 --push-window 256       as many as 256 unanswered
  campanile-bench saturate --one-way --consumer one-way --payload 64
  campanile-bench saturate --sequence 64 --window 8 --consumer sequence --push-window 8
  campanile-bench saturate --consumers 100 --processes 10 --payload 8192 --rate 10   when the first and the last have it
  campanile-bench saturate --consumers 100 --processes 10 --json | jq .cpu_us_per_delivery";

const EXPERIMENTS_EXAMPLES: &str = "\
Examples:
  campanile-bench experiments --into docs/experiments --results lab/results
  campanile-bench experiments --into docs/experiments --stored     charts and page again, of the stored reports
  campanile-bench experiments --quick --into /var/tmp/experiments

Takes less than 15 minutes, with --quick five. Charts go into the folder, the
page beside it: docs/experiments.md.
Exit status: 0 every aim that could be judged was met; 1 one was missed, which
is said; 2 wrong usage. The same holds of each experiment by itself.";

/// Options of the floor of a fan-out.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct FanOutOptions {
    /// A process of consumers: ADDRESS:PORT, and xCOPIES behind it if each event goes there more than once
    #[arg(long, value_name = "CONSUMER")]
    pub(crate) consumer: Vec<String>,
}

/// How consumers of `campanile-bench saturate` get their events.
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

/// Options of `campanile-bench performance`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PerformanceOptions {
    /// Finish in about four minutes: fewer payloads, rates and consumers, shorter turns
    #[arg(long)]
    pub(crate) quick: bool,
    /// Rounds of most scenarios; latency by which contenders are judged has ten short ones for each, two at the same time and what is
    /// compared with the `writev` floor three, the rest of the fan-out one less. With 1, all of it takes about 28 minutes [default: 3,
    /// with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: Option<u32>,
    /// Run only these contenders [default: all that are installed]
    #[arg(long, value_name = "CONTENDER", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Also write the JSON object into this folder, under date and commit
    #[arg(long, value_name = "DIR")]
    pub(crate) results: Option<PathBuf>,
    /// Write a page of tables (tables.md) and the charts into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) page: Option<PathBuf>,
    /// Measure nothing: draw the charts of the latest report in the folder of --results [default: lab/results] into that of --page
    /// [default: docs/performance]
    #[arg(long, conflicts_with_all = ["quick", "rounds", "only", "json", "json_file"])]
    pub(crate) stored: bool,
    /// How to report
    #[command(flatten)]
    pub(crate) report: ReportOptions,
}

/// Options of `campanile-bench endurance`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct EnduranceOptions {
    /// Minutes at each rate
    #[arg(long, value_name = "MINUTES", default_value_t = 30.0)]
    pub(crate) minutes: f64,
    /// Events per second, one rate after the other unless --together is given
    #[arg(long, value_name = "HZ", value_delimiter = ',', default_values_t = [250.0, 1000.0])]
    pub(crate) rates: Vec<f64>,
    /// Payload of an event in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 128, value_parser = clap::value_parser!(u32).range(32..=8_388_608))]
    pub(crate) payload: u32,
    /// All rates at the same time, each with a service, a publisher and a consumer of its own
    #[arg(long)]
    pub(crate) together: bool,
    /// Have these contenders carry as many events at the same time, each with processes of its own [default: none]
    #[arg(long, value_name = "CONTENDER", value_delimiter = ',')]
    pub(crate) beside: Vec<String>,
    /// Also write the JSON object into this folder, under date and commit
    #[arg(long, value_name = "DIR")]
    pub(crate) results: Option<PathBuf>,
    /// Write a page of tables (endurance.md) into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) page: Option<PathBuf>,
    /// How to report
    #[command(flatten)]
    pub(crate) report: ReportOptions,
}

/// Options of `campanile-bench saturate`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SaturateOptions {
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
    /// Payload of an event in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u32).range(32..=8_388_608))]
    pub(crate) payload: u32,
    /// Consumers, each given every event
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) consumers: u32,
    /// Processes that these consumers are in
    #[arg(long, value_name = "P", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) processes: u32,
    /// Seconds for which figures are taken, after half a second of the same traffic
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pub(crate) seconds: f64,
    /// Events each second, and how long each takes to the first consumer and to the last [default: as many as get through]
    #[arg(long, value_name = "PER SECOND")]
    pub(crate) rate: Option<f64>,
    /// Keep the service on this core [default: any]
    #[arg(long, value_name = "CORE")]
    pub(crate) service_core: Option<u16>,
    /// Keep supplier and consumers on this core [default: any]
    #[arg(long, value_name = "CORE")]
    pub(crate) ends_core: Option<u16>,
    /// How the service is asked to deliver
    #[command(flatten)]
    pub(crate) delivery: DeliveryOptions,
    /// How to report
    #[command(flatten)]
    pub(crate) report: ReportOptions,
}

/// Options of `campanile-bench order`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct OrderOptions {
    /// Suppliers, each with its own connection
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) suppliers: u32,
    /// Consumers, each given every event
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) consumers: u32,
    /// Events of each supplier [default: 100000, with --quick 5000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) events: Option<u64>,
    /// Payload of an event in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 128, value_parser = clap::value_parser!(u32).range(64..=1_048_576))]
    pub(crate) bytes: u32,
    /// Finish within seconds: fewer events
    #[arg(long)]
    pub(crate) quick: bool,
    /// How events travel
    #[command(flatten)]
    pub(crate) carriage: CarriageOptions,
    /// How to report
    #[command(flatten)]
    pub(crate) report: ReportOptions,
}

/// Options of `campanile-bench pipeline`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PipelineOptions {
    /// Suppliers, each with its own connection
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) suppliers: u32,
    /// Payload of an event in bytes (13 KB is 13 312)
    #[arg(long, value_name = "BYTES", default_value_t = 13 * 1024, value_parser = clap::value_parser!(u32).range(64..=8_388_608))]
    pub(crate) bytes: u32,
    /// Events per second of each supplier
    #[arg(long, value_name = "HZ", default_value_t = 2.0)]
    pub(crate) rate: f64,
    /// Milliseconds from one supplier's turn to the next one's; 0 lets all push at the same moment
    #[arg(long, value_name = "MS", default_value_t = 5.0)]
    pub(crate) stagger_ms: f64,
    /// Consumers of the pipeline's channel, each given every event
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub(crate) consumers: u32,
    /// Seconds of traffic for each row of the table
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub(crate) duration: f64,
    /// Leave out the same traffic over plain sockets
    #[arg(long)]
    pub(crate) no_sockets: bool,
    /// How events travel
    #[command(flatten)]
    pub(crate) carriage: CarriageOptions,
    /// How to report
    #[command(flatten)]
    pub(crate) report: ReportOptions,
}

/// The contenders that carry the events of `campanile-bench floor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "lower")]
pub(crate) enum Contender {
    /// The service.
    Campanile,
    /// A bare two-hop TCP relay.
    Relay,
    /// Two omniORB programs, directly.
    OmniOrb,
}

/// Options of `campanile-bench floor`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct FloorOptions {
    /// Finish within 40 seconds: fewer and shorter rounds
    #[arg(long)]
    pub(crate) quick: bool,
    /// Rounds; in each, every contender has its turn [default: 5, with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: Option<u32>,
    /// Seconds of paced traffic in a turn [default: 10, with --quick 1.2]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) paced_seconds: Option<f64>,
    /// Seconds of back-to-back traffic in a turn [default: 2, with --quick 0.3]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) saturated_seconds: Option<f64>,
    /// Seconds of traffic with one event under way in a turn [default: 2, with --quick 0.3]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) lockstep_seconds: Option<f64>,
    /// Events per second of the paced traffic
    #[arg(long, value_name = "HZ", default_value_t = 250.0)]
    pub(crate) rate: f64,
    /// Payload of an event in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 128, value_parser = clap::value_parser!(u32).range(64..=1_048_576))]
    pub(crate) bytes: u32,
    /// Leave it to the scheduler where the parties run while the cores are kept awake; otherwise the process in the
    /// middle gets one core and the ends another, the same for every contender
    #[arg(long)]
    pub(crate) no_pin: bool,
    /// Also count the service's system calls with strace, in a short separate turn at the end
    #[arg(long)]
    pub(crate) strace: bool,
    /// Run only these contenders; ratios need both Campanile and the relay [default: all]
    #[arg(long, value_name = "CONTENDER", value_enum, value_delimiter = ',')]
    pub(crate) only: Vec<Contender>,
    /// Where interop/install.sh left the omniORB programs
    #[arg(long, value_name = "DIR", default_value = "target/interop/omniorb")]
    pub(crate) omniorb_dir: PathBuf,
    /// How the service is asked to deliver
    #[command(flatten)]
    pub(crate) delivery: DeliveryOptions,
    /// How to report
    #[command(flatten)]
    pub(crate) report: ReportOptions,
}

/// Options of the papers' experiments with paths.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ExperimentOptions {
    /// Finish within 50 seconds: fewer and shorter runs
    #[arg(long)]
    pub(crate) quick: bool,
    /// Confine suppliers, consumers and services to one core, as the papers' testbed was
    #[arg(long)]
    pub(crate) one_cpu: bool,
    /// Have the kernel not throttle real-time threads until this is over (sysctl `kernel.sched_rt_runtime_us` = -1;
    /// needs root, and is put back even when this is killed)
    #[arg(long)]
    pub(crate) lift_throttling: bool,
    /// Seconds for which the events of a run count [default: the experiment's]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) seconds: Option<f64>,
    /// Loads to try instead of the experiment's, in units
    #[arg(long, value_name = "LOAD", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(..=10_000))]
    pub(crate) loads: Vec<u32>,
    /// Write the charts into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) svg_dir: Option<PathBuf>,
    /// How to report
    #[command(flatten)]
    pub(crate) report: ReportOptions,
}

/// Options of `campanile-bench experiments`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ExperimentsOptions {
    /// The folder for the charts; the page is written beside it, under its name with `.md`
    #[arg(long, value_name = "DIR")]
    pub(crate) into: PathBuf,
    /// Also write each experiment's JSON object into this folder, under date, commit and name
    #[arg(long, value_name = "DIR")]
    pub(crate) results: Option<PathBuf>,
    /// Measure nothing: draw the charts and write the page of the latest reports in the folder of --results [default: lab/results]
    #[arg(long, conflicts_with_all = ["quick", "lift_throttling", "seconds"])]
    pub(crate) stored: bool,
    /// Fewer and shorter runs
    #[arg(long)]
    pub(crate) quick: bool,
    /// Have the kernel not throttle real-time threads until this is over (sysctl `kernel.sched_rt_runtime_us` = -1;
    /// needs root, and is put back even when this is killed). Without it, only the last experiment, which repeats
    /// figure 13, does so, and is left out where the kernel refuses
    #[arg(long)]
    pub(crate) lift_throttling: bool,
    /// Seconds for which the events of a run count [default: each experiment's]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) seconds: Option<f64>,
}

/// Options of `campanile-bench filters`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct FiltersOptions {
    /// Finish within a few seconds: fewer and shorter rounds
    #[arg(long)]
    pub(crate) quick: bool,
    /// How to report
    #[command(flatten)]
    pub(crate) report: ReportOptions,
}

/// Options of `campanile-bench administration`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct AdministrationOptions {
    /// Consumers' proxies that are made and connected, and that all further work finds there
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=90_000))]
    pub(crate) proxies: u32,
    /// Events per second from the one supplier to the one consumer
    #[arg(long, value_name = "HZ", default_value_t = 1000.0)]
    pub(crate) rate: f64,
    /// Finish within 50 seconds: one round of shorter phases
    #[arg(long)]
    pub(crate) quick: bool,
    /// How to report
    #[command(flatten)]
    pub(crate) report: ReportOptions,
}

/// Options of `campanile-bench hostile`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct HostileOptions {
    /// Fewer and shorter rounds
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these attacks, by name; `--only help` lists them [default: all]
    #[arg(long, value_name = "ATTACK", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Rounds of each attack; in each, it has its turn at either service [default: 5, with --quick 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: Option<u32>,
    /// Seconds of an attack in a turn [default: 2, with --quick 1]; with --together of all attacks [default: 600, with --quick 10]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) seconds: Option<f64>,
    /// All attacks at once; administration of a second service, without attackers, is asked as well
    #[arg(long, conflicts_with = "rounds")]
    pub(crate) together: bool,
    /// Attackers run at ordinary priority instead of only on idle processors: all services here then compete with them for processors
    #[arg(long)]
    pub(crate) ordinary: bool,
    /// Seconds after the attacks at which the service must be at rest, with --together [default: 60, with --quick 2]
    #[arg(long, value_name = "SECONDS", requires = "together")]
    pub(crate) rest: Option<f64>,
    /// Events per second from the one supplier to the one consumer that are to suffer nothing
    #[arg(long, value_name = "HZ", default_value_t = 500.0)]
    pub(crate) rate: f64,
    /// Configuration of the services that are attacked (see `campanile serve --config`)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The program that serves, if not the `campanile` beside this one: of another version, to compare with
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) service: Option<PathBuf>,
    /// How to report
    #[command(flatten)]
    pub(crate) report: ReportOptions,
}

/// Options of `campanile-bench memory`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct MemoryOptions {
    /// Clients, each with a connection of its own [default: 1000, with --quick 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4000))]
    pub(crate) connections: Option<u32>,
    /// Consumers' proxies of each client
    #[arg(long, value_name = "N", default_value_t = crate::memory::PROXIES_EACH, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(crate) proxies_each: u32,
    /// Finish within some seconds
    #[arg(long)]
    pub(crate) quick: bool,
    /// How to report
    #[command(flatten)]
    pub(crate) report: ReportOptions,
}

/// Options of the hidden relay process.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct RelayOptions {
    /// Where the consumer listens
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) consumer: std::net::SocketAddr,
}

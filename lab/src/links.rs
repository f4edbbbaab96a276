//! `campanile-bench links`: a channel at two services, beside a channel of one.
//!
//! Suppliers are at the near service, which makes a link to the far one: of each [`Carrier`], straight or over a [`Line`] that can be cut. What
//! is shown is how fast a linked channel is beside a channel of the near service alone and beside a bare relay more; that a line which is
//! down, and a service that is killed, lose and repeat nothing that is persistent, and have no supplier wait; and that an important event
//! does not wait behind a flood on a narrow line.

pub(crate) mod bare;
pub(crate) mod federation;
mod line;
mod nats;
pub(crate) mod nodes;
pub(crate) mod subscribers;

use std::net::SocketAddr;
use std::path::Path;
use std::thread;

use clap::ValueEnum;
use client::notify::Property;
use load::campanile::{Channel, setup};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use self::line::{Flow, Line};
use self::nats::Nats;
use self::subscribers::{PACED, RATE, Subscribers, Way};
use crate::crash::Parties;
use crate::crash::ledger::Book;
use crate::durable::load::{Flood, Paced};
use crate::durable::median;
use crate::latency::{Recorder, ratio};
use crate::loss::Losses;
use crate::persistent::{Folder, Serving, Setting, own_address};
use crate::places::Places;
use crate::report::{Aim, Reported, add};
use crate::spin::Awake;
use crate::{BenchError, Options, Output, clock};

/// What carries the link: to the port of the far service's, or through Zenoh, of which each service has a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Carrier {
    Tcp,
    Zenoh,
}

/// The linked channels, by their numbers.
const ONE: i32 = 1;
const TWENTY: i32 = 2;
const KEPT: i32 = 3;
const NARROW: i32 = 4;
const KILLED: i32 = 5;
const LONG: i32 = 6;
const CHANNELS: &str = "[[channels]]\nname = \"One\"\n[[channels]]\nname = \"Twenty\"\n\
    [[channels]]\nname = \"Kept\"\n[channels.properties]\nEventReliability = 1\nMemoryBudget = 16777216\n\
    [[channels]]\nname = \"Narrow\"\n[channels.properties]\nOrderPolicy = 2\n\
    [[channels]]\nname = \"Killed\"\n[channels.properties]\nEventReliability = 1\nMarkRepeats = true\n\
    [[channels]]\nname = \"Long\"\n";

const LINK: &str = "[[link]]\nname = \"line\"\ndirection = \"out\"\n\
    channels = [\"One\", \"Twenty\", \"Kept\", \"Narrow\", \"Killed\", \"Long\"]\n";

/// Rounds in which the ways of an event have their turns, with `--quick` and without.
const ROUNDS: (usize, usize) = (4, 8);
/// Events a second while the line is cut, on the narrow line of the flood and of the important ones, and octets of each of the flood.
const CUT_RATE: u64 = 500;
const NARROW_RATES: (u64, u64) = (2_000, 50);
const NARROW_BYTES: usize = 1_000;
/// What the narrow line passes in a second.
const LINE_BYTES: u64 = 200_000;
/// A long line: octets a second, nanoseconds from end to end, events a second that are more than it takes, and octets of each.
const LONG_LINE: (u64, u64) = (12_500_000, clock::SECOND / 20);
const LONG_LOAD: (u64, usize) = (1_800, 8_000);
/// For how long a line flaps, each second (with `--quick`, as long as other cuts), and a turn of the channel beside one that is down.
const FLAPS_NS: u64 = 60 * clock::SECOND;
const BESIDE_S: (u64, u64) = (5, 1);
/// Suppliers while services are killed, and as many consumers, and for how many milliseconds there is load.
const KILL_PARTIES: u32 = 4;
const KILL_LOAD_MS: std::ops::Range<u64> = 50..800;

/// The aims (`lab/README.md`).
const OF_RELAY_MAX: f64 = 1.25;
const OF_OWN_MIN: f64 = 0.8;
const NEAR_CPU_MIN: f64 = 3.0;
const WIRE_MESSAGES_MAX: f64 = 1.01;
/// Over TCP, and through Zenoh.
const RECOVERY_MS_MAX: (f64, f64) = (2_000.0, 5_000.0);
const IMPORTANT_MS_MAX: f64 = 50.0;
const FILLED_MIN: f64 = 0.8;
const BESIDE_P99_MAX: f64 = 1.2;
const MEMORY_MAX: f64 = 1.1;

/// One of the two services; none while it is killed.
struct Side {
    setting: Setting,
    serving: Option<Serving>,
}

impl Side {
    fn start(folder: &Folder, config: &str) -> Result<Self, BenchError> {
        let mut setting = Setting::new(folder, config)?;
        let (serving, _) = setting.start()?;
        Ok(Self { setting, serving: Some(serving) })
    }

    fn serving(&self) -> Result<&Serving, BenchError> {
        let gone = || BenchError::Process { name: "campanile serve".into(), reason: "was not started again".into() };
        self.serving.as_ref().ok_or_else(gone)
    }

    fn channel(&self, number: i32) -> Result<Channel, BenchError> {
        let channel = self.serving()?.service.factory()?.get_event_channel(number);
        channel.map(Channel::of).map_err(setup("finding a linked channel"))
    }

    fn reference(&self) -> String {
        format!("corbaloc::1.2@{}/NotificationService", self.setting.listen)
    }

    fn kill_and_start(&mut self) -> Result<(), BenchError> {
        if let Some(serving) = self.serving.take() {
            serving.kill();
        }
        self.serving = Some(self.setting.start()?.0);
        Ok(())
    }
}

/// Two services of which the near one has a link to the far one.
struct Pair {
    carrier: Carrier,
    near: Side,
    far: Side,
    line: Line,
    _folders: [Folder; 2],
}

impl Pair {
    /// One whose link is straight, or else over the line.
    fn start(carrier: Carrier, is_straight: bool, on: Option<&Path>) -> Result<Self, BenchError> {
        let folders = [Folder::new("links-near", on)?, Folder::new("links-far", on)?];
        let [near, far] = &folders;
        let port = SocketAddr::from((own_address(), 2816));
        let line = Line::to(port)?;
        let to = if is_straight { port } else { line.address };
        let (of_far, of_near, link) = match carrier {
            Carrier::Tcp => (format!("[links]\nlisten = \"{port}\"\n"), String::new(), format!("to = \"{to}\"\n")),
            Carrier::Zenoh => (
                format!("[links.zenoh]\nname = \"far\"\nlisten = [\"tcp/{port}\"]\naccept = true\n"),
                format!("[links.zenoh]\nname = \"near\"\nconnect = [\"tcp/{to}\"]\n"),
                "to = \"far\"\ncarrier = \"zenoh\"\n".to_owned(),
            ),
        };
        let far = Side::start(far, &format!("{CHANNELS}{of_far}"))?;
        let near = Side::start(near, &format!("{CHANNELS}{of_near}{LINK}{link}"))?;
        Ok(Self { carrier, near, far, line, _folders: folders })
    }

    fn near_counter(&self, name: &str) -> Result<u64, BenchError> {
        self.near.serving()?.service.counter(name)
    }
}

/// What all parts found together.
#[derive(Default)]
struct Found {
    aims: Vec<Aim>,
    lost: u64,
    twice: u64,
    disordered: u64,
}

impl Found {
    /// Judges a figure; where there is none, nothing came, and the aim is missed.
    fn aim(&mut self, aim: impl Into<String>, figure: Option<f64>, is_met: impl FnOnce(f64) -> bool) {
        let found = figure.map_or_else(|| "nothing came".to_owned(), |figure| format!("{figure:.3}"));
        self.aims.push(Aim::new(aim, found, figure.is_some_and(is_met)));
    }

    fn add(&mut self, Losses { lost, repeated, out_of_order, .. }: Losses) {
        self.lost += lost;
        self.twice += repeated;
        self.disordered += out_of_order;
    }

    /// Takes over what one carrier was found to do.
    fn take(&mut self, carrier: &str, of_one: Self) {
        self.aims.extend(of_one.aims.into_iter().map(|aim| Aim { aim: format!("{carrier}: {}", aim.aim), ..aim }));
        self.lost += of_one.lost;
        self.twice += of_one.twice;
        self.disordered += of_one.disordered;
    }
}

/// A part, and whether the link is straight meanwhile.
type Part = (fn(&mut Pair, &Options, &mut Found) -> Result<Value, BenchError>, bool);
const PARTS: [(&str, Part); 6] = [
    ("speed", (speed, true)),
    ("narrow", (narrow, false)),
    ("long", (long, false)),
    ("cuts", (cuts, false)),
    ("down", (down, false)),
    ("kills", (kills, false)),
];

/// Runs the parts that are asked for, each by its name, and adds to the report what they found.
fn run_parts<P: Copy>(
    parts: &[(&str, P)],
    (options, out): (&Options, &mut Output<'_>),
    report: &mut Value,
    mut run: impl FnMut(P, &mut Output<'_>, &mut Found) -> Result<Value, BenchError>,
) -> Result<Vec<Aim>, BenchError> {
    if let Some(key) = options.only.iter().find(|key| parts.iter().all(|(name, _)| name != key)) {
        let keys = parts.iter().map(|(name, _)| (*name).to_owned()).collect();
        return Err(BenchError::NoContender { option: "--only", key: key.clone(), keys });
    }
    let mut found = Found::default();
    for (name, part) in parts {
        if options.takes_part(name) {
            out.progress(name)?;
            add(report, run(*part, out, &mut found)?);
        }
    }
    let Found { mut aims, lost, twice, disordered } = found;
    let losses = format!("{lost} lost, {twice} twice, {disordered} out of order");
    aims.insert(0, Aim::new("every event once and in order", losses, lost + twice + disordered == 0));
    add(report, json!({"lost": lost, "twice": twice, "disordered": disordered}));
    Ok(aims)
}

pub(crate) fn run(options: &Options, out: &mut Output<'_>) -> Reported {
    let built = if cfg!(feature = "zenoh") { Carrier::value_variants() } else { &[Carrier::Tcp] };
    let carriers = if options.carriers.is_empty() { built } else { &options.carriers };
    let mut report = json!({"tcp": null, "zenoh": null, "zenoh_bare": null, "nats": null, "nats_bare": null, "nats_jetstream": null, "payload": options.payload});
    let mut aims = Vec::new();
    for &carrier in carriers {
        // A part that was not asked for has nothing.
        let mut of_one = json!({"wire_messages_per_event": null, "p50_ratio_to_direct": null, "p50_ratio_to_relay": null,
            "throughput_ratio_to_own": null, "near_cpu_ratio_of_direct": null, "subscribers": null, "narrow": null, "long": null,
            "down": null, "cut_seconds": null, "cuts": null, "recovery_ms": null, "kills": null});
        let name = if carrier == Carrier::Tcp { "tcp" } else { "zenoh" };
        let found = run_parts(&PARTS, (options, out), &mut of_one, |(part, is_straight), _, found| {
            part(&mut Pair::start(carrier, is_straight, options.on.as_deref())?, options, found)
        })?;
        aims.extend(found.into_iter().map(|aim| Aim { aim: format!("{name}: {}", aim.aim), ..aim }));
        add(&mut report, json!({name: of_one}));
    }
    #[cfg(feature = "zenoh")]
    if carriers.contains(&Carrier::Zenoh) && options.takes_part("cuts") {
        out.progress("cuts, Zenoh alone")?;
        add(&mut report, json!({"zenoh_bare": bare::zenoh::cuts(options)?}));
    }
    if options.takes_part("cuts")
        && let Some(version) = Nats::version()
    {
        out.progress("cuts, NATS alone")?;
        let (core, jetstream) = (bare::nats::cuts(options, false)?, bare::nats::cuts(options, true)?);
        add(&mut report, json!({"nats": version, "nats_bare": core, "nats_jetstream": jetstream}));
    }
    Ok((aims, report))
}

fn speed(pair: &mut Pair, options: &Options, found: &mut Found) -> Result<Value, BenchError> {
    let one = speed_of(pair, (ONE, 1), options, found)?;
    let twenty = speed_of(pair, (TWENTY, 20), options, found)?;
    let mut figures = one.clone();
    if let Value::Object(figures) = &mut figures {
        figures.retain(|name, _| name.contains("_per_") || name.contains("_ratio_"));
    }
    add(&mut figures, json!({"subscribers": [one, twenty]}));
    Ok(figures)
}

/// How fast events come to so many subscribers: of the near service, over the straight link, and one behind a bare relay.
fn speed_of(
    pair: &Pair,
    (linked, count): (i32, u32),
    options: &Options,
    found: &mut Found,
) -> Result<Value, BenchError> {
    let near = pair.near.serving()?;
    let (own, relayed) = (near.service.new_channel()?, near.service.new_channel()?);
    let (linked, far_end) = (pair.near.channel(linked)?, pair.far.channel(linked)?);
    let open = |name, from, to, is_relayed| Way::open(name, (from, to), (count, is_relayed), options.payload);
    let mut ways = vec![open("direct", &own, &own, false)?, open("linked", &linked, &far_end, false)?];
    if count == 1 {
        ways.push(open("relayed", &relayed, &relayed, true)?);
    }
    let sent_before = pair.near_counter("links_events_sent")?;
    take_turns(pair, &mut ways, options.quick)?;
    ways.iter().for_each(|way| found.add(way.losses()));
    let events = ways.get(1).map_or(0, |way| way.sent);
    let wire_messages = ratio(pair.near_counter("links_events_sent")? - sent_before, events.max(1));
    let of =
        |above: usize, below: usize, figure| Some(ways.get(above)?.turns.ratio_to(&ways.get(below)?.turns, figure));
    let (of_relay, of_own) = (of(1, 2, |turns| &turns.p50_us), of(1, 0, |turns| &turns.per_second));
    let near_cpu = of(0, 1, |turns| &turns.near_cpu_us);
    let aim = format!("messages on the line for an event to {count}: at most {WIRE_MESSAGES_MAX}");
    found.aim(aim, Some(wire_messages), |found| found <= WIRE_MESSAGES_MAX);
    if pair.carrier == Carrier::Zenoh {
        // What Zenoh costs is reported, and not judged.
    } else if count == 1 {
        let aim = format!("p50 over a link: at most {OF_RELAY_MAX} × that of a bare relay more");
        found.aim(aim, of_relay, |found| found <= OF_RELAY_MAX);
        let aim = format!("throughput of a linked channel: at least {OF_OWN_MIN} × a channel's own");
        found.aim(aim, of_own, |found| found >= OF_OWN_MIN);
    } else {
        let aim = format!(
            "near service's processor time for {count} of its own subscribers: at least {NEAR_CPU_MIN} × linked"
        );
        found.aim(aim, near_cpu, |found| found >= NEAR_CPU_MIN);
    }
    Ok(json!({
        "count": count,
        "wire_messages_per_event": wire_messages,
        "p50_ratio_to_direct": of(1, 0, |turns| &turns.p50_us),
        "p50_ratio_to_relay": of_relay,
        "throughput_ratio_to_own": of_own,
        "near_cpu_ratio_of_direct": near_cpu,
        "ways": ways.iter().map(Way::row).collect::<Vec<_>>(),
    }))
}

/// Has all ways carry events in turn: at an even pace, while the services and the relay have one core and the ends another, so that every hop
/// costs the same wake-ups; and at full speed wherever the scheduler has them run.
fn take_turns(pair: &Pair, ways: &mut [Way], is_quick: bool) -> Result<(), BenchError> {
    let (near, far) = (&pair.near.serving()?.process, &pair.far.serving()?.process);
    let anywhere = Places::anywhere()?;
    let _awake = Awake::keep(&anywhere.middle.cores().into_iter().map(Some).collect::<Vec<_>>())?;
    let (rounds, turn) = if is_quick { (ROUNDS.0, clock::SECOND / 4) } else { (ROUNDS.1, clock::SECOND) };
    let middle: Vec<u32> = [near.pid(), far.pid()].into_iter().chain(ways.iter().flat_map(Way::relays)).collect();
    middle.iter().try_for_each(|pid| anywhere.pinned().middle.give(*pid))?;
    anywhere.pinned().supplier.give(std::process::id())?;
    for _ in 0..rounds {
        ways.iter_mut().try_for_each(|way| way.paced_turn(turn, RATE))?;
    }
    middle.iter().chain([&std::process::id()]).try_for_each(|pid| anywhere.middle.give(*pid))?;
    for _ in 0..rounds {
        ways.iter_mut().try_for_each(|way| way.full_turn(u64::MAX, turn, &[near, far]).map(drop))?;
    }
    Ok(())
}

/// Important events beside a flood that the line cannot pass.
fn narrow(pair: &mut Pair, options: &Options, found: &mut Found) -> Result<Value, BenchError> {
    let (near, subscribers) = (pair.near.channel(NARROW)?, Subscribers::connect(&pair.far.channel(NARROW)?, 1, false)?);
    subscribers.join(&near)?;
    let mut flood = Flood::of(&near, PACED + 1..PACED + 9, NARROW_BYTES, 1, &[])?;
    let mut important =
        Flood::of(&near, PACED..PACED + 1, options.payload as usize, 1, &[Property::new("Priority", 10_i16)])?;
    let turn = if options.quick { 3 } else { 10 } * clock::SECOND;
    pair.line.set(Flow::Shaped(LINE_BYTES, 0));
    let sent = thread::scope(|scope| {
        let flooding = scope.spawn(|| flood.run(turn, Some(NARROW_RATES.0)));
        let important = important.run(turn, Some(NARROW_RATES.1))?.count();
        Ok::<_, BenchError>(important + joined(flooding)??.count())
    })?;
    let latency = subscribers.take_latency();
    pair.line.set(Flow::Everything);
    subscribers.await_all(sent)?;
    found.add(subscribers.losses(sent));
    let [p50_ms, p99_ms] = [0.5, 0.99].map(|part| (latency.count() > 0).then(|| latency.quantile_us(part) / 1e3));
    // Through Zenoh a window of 64 KiB is before it.
    if pair.carrier == Carrier::Tcp {
        let aim =
            format!("ms of an important event (p50) beside a flood on a line of 200 KB/s: at most {IMPORTANT_MS_MAX}");
        found.aim(aim, p50_ms, |found| found <= IMPORTANT_MS_MAX);
    }
    let narrow = json!({"important_p50_ms": p50_ms, "important_p99_ms": p99_ms, "important_events": latency.count()});
    Ok(json!({"narrow": narrow}))
}

/// As much as a long line takes, and more.
fn long(pair: &mut Pair, options: &Options, found: &mut Found) -> Result<Value, BenchError> {
    // Through Zenoh the configured window says how much it takes.
    if pair.carrier == Carrier::Zenoh {
        return Ok(json!({}));
    }
    let (near, subscribers) = (pair.near.channel(LONG)?, Subscribers::connect(&pair.far.channel(LONG)?, 1, false)?);
    // The link is made anew: one that has measured a shorter line believes that for 10 s.
    pair.line.set(Flow::Closed);
    clock::sleep_until(clock::now() + clock::SECOND / 2)?;
    pair.line.set(Flow::Shaped(LONG_LINE.0, LONG_LINE.1));
    subscribers.join(&near)?;
    let mut flood = Flood::of(&near, 1..65, LONG_LOAD.1, 1, &[])?;
    let turn = if options.quick { 3 } else { 10 } * clock::SECOND;
    let (sent, filled) = thread::scope(|scope| {
        let flooding = scope.spawn(|| flood.run(2 * turn, Some(LONG_LOAD.0)));
        // The window has grown by then.
        clock::sleep_until(clock::now() + turn)?;
        let (passed, began) = (pair.line.passed(), clock::now());
        clock::sleep_until(began + turn * 9 / 10)?;
        let per_second = ratio(pair.line.passed() - passed, 1) / clock::seconds(clock::now() - began);
        Ok::<_, BenchError>((joined(flooding)??.count(), per_second / ratio(LONG_LINE.0, 1)))
    })?;
    subscribers.await_all(sent)?;
    pair.line.set(Flow::Everything);
    found.add(subscribers.losses(sent));
    let aim =
        format!("part of a line of 100 Mbit/s and 100 ms there and back that one link fills: at least {FILLED_MIN}");
    found.aim(aim, Some(filled), |found| found >= FILLED_MIN);
    Ok(json!({"long": {"filled": filled, "events": sent}}))
}

/// How the line is cut: by what it passes then, or by stopping the process at an end of it; and whether again and again.
struct Cut {
    name: &'static str,
    means: Means,
    flaps: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Means {
    Near,
    Far,
    Line(Flow),
}

const CUTS: [Cut; 5] = [
    Cut { name: "near side stopped", means: Means::Near, flaps: false },
    Cut { name: "far side stopped", means: Means::Far, flaps: false },
    Cut { name: "line stalled", means: Means::Line(Flow::Stalled), flaps: false },
    Cut { name: "line closed", means: Means::Line(Flow::Closed), flaps: false },
    Cut { name: "line flapping", means: Means::Line(Flow::Closed), flaps: true },
];

/// Sets what a line passes.
type SetLine<'l> = dyn Fn(Flow) -> Result<(), BenchError> + 'l;

impl Cut {
    /// For how many nanoseconds.
    fn lasts(&self, options: &Options) -> Result<u64, BenchError> {
        let seconds = options.seconds.unwrap_or_default();
        Options::check("--seconds", seconds, 3_600.0)?;
        Ok(if self.flaps && !options.quick { FLAPS_NS } else { clock::nanoseconds(seconds) })
    }

    /// Cuts a line between two processes, after half a second, for so long, and says right before it is mended.
    fn make(
        &self,
        lasts_ns: u64,
        (line, near, far): (&SetLine<'_>, u32, u32),
        mends: impl FnOnce() -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        let stop = |pid: u32, is_cut: bool| {
            let signal = if is_cut { Signal::STOP } else { Signal::CONT };
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            pid.map_or(Ok(()), |pid| kill_process(pid, signal)).map_err(BenchError::errno("stopping a process"))
        };
        let set = |is_cut: bool| match self.means {
            Means::Near => stop(near, is_cut),
            Means::Far => stop(far, is_cut),
            Means::Line(flow) => line(if is_cut { flow } else { Flow::Everything }),
        };
        clock::sleep_until(clock::now() + clock::SECOND / 2)?;
        let (mended, mut is_cut) = (clock::now() + lasts_ns, true);
        set(true)?;
        while self.flaps && clock::now() + clock::SECOND < mended {
            clock::sleep_until(clock::now() + clock::SECOND)?;
            is_cut = !is_cut;
            set(is_cut)?;
        }
        clock::sleep_until(mended)?;
        mends()?;
        set(false)
    }
}

fn cuts(pair: &mut Pair, options: &Options, found: &mut Found) -> Result<Value, BenchError> {
    let (near, subscribers) = (pair.near.channel(KEPT)?, Subscribers::connect(&pair.far.channel(KEPT)?, 1, false)?);
    subscribers.join(&near)?;
    let set_line = |flow| {
        pair.line.set(flow);
        Ok(())
    };
    let most = if pair.carrier == Carrier::Tcp { RECOVERY_MS_MAX.0 } else { RECOVERY_MS_MAX.1 };
    let linked = Linked { near: pair.near.serving()?, far: pair.far.serving()?, line: &set_line };
    let mut found_here = linked.cut(CUTS.iter(), (&near, &subscribers), Some(most), options, found)?;
    add(&mut found_here, json!({"cut_seconds": options.seconds}));
    Ok(found_here)
}

/// Two services, and the line of a link between them.
struct Linked<'l> {
    near: &'l Serving,
    far: &'l Serving,
    line: &'l SetLine<'l>,
}

impl Linked<'_> {
    /// Cuts the line while a channel has events, which come to subscribers at the far service. Events are to flow again after so many ms at
    /// most.
    fn cut<'c>(
        &self,
        cuts: impl Iterator<Item = &'c Cut>,
        (channel, subscribers): (&Channel, &Subscribers),
        most_ms: Option<f64>,
        options: &Options,
        found: &mut Found,
    ) -> Result<Value, BenchError> {
        let mut flood = Flood::of(channel, 1..9, options.payload as usize, 1, &[])?;
        let (mut sent, mut slowest, mut rows) = (0, Some(0.0_f64), Vec::new());
        let [near, far] = [self.near.process.pid(), self.far.process.pid()];
        let suppliers_blocked = || self.near.service.counter("lane_suppliers_blocked");
        for cut in cuts {
            let (name, cut_ns, blocked) = (cut.name, cut.lasts(options)?, suppliers_blocked()?);
            let pushes = thread::scope(|scope| {
                let pushing = scope.spawn(|| flood.run(cut_ns + 2 * clock::SECOND, Some(CUT_RATE)));
                cut.make(cut_ns, (self.line, near, far), || subscribers.await_first(clock::now()))?;
                joined(pushing)?
            })?;
            sent += pushes.count();
            subscribers.await_all(sent)?;
            let blocked = suppliers_blocked()? - blocked;
            let [recovery_ms, caught_up_ms] = subscribers.recovery_ms();
            slowest = slowest.zip(recovery_ms).map(|(slowest, recovery_ms)| slowest.max(recovery_ms));
            let longest_ms = pushes.quantile_us(1.0) / 1e3;
            let aim =
                format!("ms of the longest push, {name}: no supplier is blocked, and none waits for half of the cut");
            // A service that is stopped answers no supplier meanwhile.
            let answers = |found: f64| cut.means == Means::Near || found < clock::seconds(cut_ns) * 500.0;
            found.aim(aim, Some(longest_ms), |found| blocked == 0 && answers(found));
            rows.push(json!({"cut": name, "recovery_ms": recovery_ms, "caught_up_ms": caught_up_ms,
                             "longest_push_ms": longest_ms, "blocked": blocked, "events": pushes.count()}));
        }
        found.add(subscribers.losses(sent));
        if let Some(most) = most_ms {
            found.aim(format!("ms until events flow again: at most {most}"), slowest, |found| found <= most);
        }
        Ok(json!({"recovery_ms": slowest, "cuts": rows}))
    }
}

/// What a channel of the near service alone suffers beside a link that is down for long: a median p99 before, meanwhile and after.
fn down(pair: &mut Pair, options: &Options, found: &mut Found) -> Result<Value, BenchError> {
    let (near, subscribers) = (pair.near.channel(KEPT)?, Subscribers::connect(&pair.far.channel(KEPT)?, 1, false)?);
    subscribers.join(&near)?;
    let mut flood = Flood::of(&near, 1..9, options.payload as usize, 1, &[])?;
    let serving = pair.near.serving()?;
    let mut beside = Paced::connect(&serving.service.new_channel()?)?;
    Options::check("--down-for", options.down_for, 86_400.0)?;
    let down_ns = clock::nanoseconds(options.down_for);
    let turn = if options.quick { BESIDE_S.1 } else { BESIDE_S.0 } * clock::SECOND;
    // Turns with the line up, down and up again: each its p99, and the service's memory at its end.
    let phases = [(down_ns / 5, false), (down_ns, true), (down_ns / 5, false)];
    let total: u64 = phases.iter().map(|(time, _)| time).sum();
    let (sent, turns) = thread::scope(|scope| {
        let flooding = scope.spawn(|| flood.run(total, Some(CUT_RATE)));
        let mut turns = Vec::new();
        for (time, is_down) in phases {
            pair.line.set(if is_down { Flow::Closed } else { Flow::Everything });
            for _ in 0..(time / turn).max(1) {
                let mut latency = Recorder::default();
                beside.run(turn, RATE, &mut latency)?;
                turns.push((is_down, latency.quantile_us(0.99), serving.process.resident_bytes()?));
            }
        }
        Ok::<_, BenchError>((joined(flooding)??.count(), turns))
    })?;
    subscribers.await_all(sent)?;
    found.add(subscribers.losses(sent));
    let p99_us = |wanted| median(turns.iter().filter(|(is_down, ..)| *is_down == wanted).map(|(_, p99_us, _)| *p99_us));
    let (up_us, down_us) = (p99_us(false), p99_us(true));
    let memory: Vec<u64> = turns.iter().filter(|(is_down, ..)| *is_down).map(|(.., bytes)| *bytes).collect();
    let (early, late) = (memory.get(memory.len() / 4).copied(), memory.last().copied());
    let grown = early.zip(late).map(|(early, late)| ratio(late, early));
    let aim =
        format!("p99 of a channel beside a link that is down: at most {BESIDE_P99_MAX} × that beside one that is up");
    found.aim(aim, Some(down_us / up_us), |found| found <= BESIDE_P99_MAX);
    let aim = format!("memory at the end of that over that after a quarter: at most {MEMORY_MAX}");
    found.aim(aim, grown, |found| found <= MEMORY_MAX);
    Ok(json!({"down": {"seconds": clock::seconds(down_ns), "up_p99_us": up_us, "down_p99_us": down_us,
                       "resident_bytes": [early, late], "events": sent}}))
}

/// Kills now the near, now the far service under load, and starts it again.
fn kills(pair: &mut Pair, options: &Options, found: &mut Found) -> Result<Value, BenchError> {
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    let mut random = fastrand::Rng::with_seed(seed);
    let (near, far) = (pair.near.reference(), pair.far.reference());
    let mut parties = Parties::connect(&options.interop, KILL_PARTIES, (&near, KILLED), (&far, KILLED))?;
    parties.begin((&near, KILLED))?;
    for round in 0..options.rounds {
        let load_ns = random.u64(KILL_LOAD_MS) * 1_000_000 + random.u64(..1_000_000);
        let is_near = round % 2 == 0;
        // Of the far one's death and return suppliers notice nothing, and go on.
        let side = if is_near { &mut pair.near } else { &mut pair.far };
        parties.load(load_ns, || (), is_near, || side.kill_and_start())?;
    }
    let lost = parties.await_all()?;
    let (twice, disordered) = (parties.over_books(Book::bare_repeats), parties.over_books(Book::disordered));
    found.add(Losses { lost, repeated: twice, out_of_order: disordered, ..Losses::default() });
    let aim = format!("{} × kill -9: nothing acknowledged is lost or comes twice", options.rounds);
    let acknowledged = parties.acknowledged.len();
    let said = format!("{lost} lost, {twice} twice, of {acknowledged}");
    found.aims.push(Aim::new(aim, said, acknowledged > 0 && lost + twice == 0));
    let marked = parties.over_books(|book| book.repeats().0) - twice;
    Ok(json!({"kills": {"rounds": options.rounds, "seed": seed, "orbs": parties.orbs, "acknowledged": acknowledged,
                        "lost": lost, "twice": twice, "disordered": disordered, "marked_repeats": marked}}))
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> Result<T, BenchError> {
    thread.join().map_err(|_| BenchError::Process { name: "the suppliers".into(), reason: "panicked".into() })
}

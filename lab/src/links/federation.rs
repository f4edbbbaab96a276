//! `campanile-bench federation`: one channel at services on nodes of their own.
//!
//! Figures 17 and 18 of Deng et al.: a publisher is at this node, and its subscribers are in one process of another node, or each at a node of
//! its own; they are subscribers of the publisher's service (`direct`), or of services of their nodes that are linked to it. And ten services
//! in a mesh, of which one leaves and comes back.

use std::ffi::OsString;
use std::process::Command;

use load::campanile::Channel;
use load::process::{Process, json as of_json};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::nats::{Nats, NatsWay};
use super::nodes::{HERE, Node, on_the_wire, own_network};
use super::subscribers::{self, Subscribers, Way};
use super::{Found, Side};
use crate::durable::load::Flood;
use crate::durable::median;
use crate::latency::ratio;
use crate::persistent::{Folder, Setting};
use crate::report::{Aim, Reported, add};
use crate::{BenchError, Options, Output, clock};

/// How linked channels are carried: a name, and what the links' configuration says of it.
const CARRIERS: [(&str, &str); 1] = [("tcp", "")];
/// Events a second of the supplier whose latencies are taken, so that twenty subscribers on these cores keep up.
const RATE: u64 = 200;
/// Services of the mesh, to which others each of them dials, its channels, and the events of each supplier before, while and after one is
/// away.
const SERVICES: u8 = 10;
const DIALLED: [u8; 2] = [1, 3];
const MESH: [&str; 3] = ["A", "B", "C"];
const MESH_RATE: u64 = 50;
/// How long links may take to be as they are to be.
const LINKED_WITHIN: u64 = 60 * clock::SECOND;

/// The aims (`lab/README.md`).
const OF_DIRECT_MIN: f64 = 3.0;
const WIRE_MESSAGES_MAX: f64 = 1.01;

/// A way, its services, and what was counted of it: events, octets, packets, messages of links.
type Counted<'s> = (Way, Vec<&'s Process>, [u64; 4]);
type Part = fn(&Options, &mut Output<'_>, &mut Found) -> Result<Value, BenchError>;
const PARTS: [(&str, Part); 2] = [("figures", figures), ("mesh", mesh)];

pub(crate) fn run(options: &Options, out: &mut Output<'_>) -> Reported {
    let names = PARTS.map(|(name, _)| name);
    if let Some(key) = options.only.iter().find(|key| !names.contains(&key.as_str())) {
        let keys = names.map(str::to_owned).into();
        return Err(BenchError::NoContender { option: "--only", key: key.clone(), keys });
    }
    own_network()?;
    let (began, mut found) = (clock::now(), Found::default());
    // Of a development build only ratios mean anything.
    let build = if cfg!(debug_assertions) { "development" } else { "release" };
    let mut report = json!({"quick": options.quick, "build": build, "payload": options.payload, "core": null, "rows": [], "nats": null, "mesh": null});
    for (name, part) in PARTS {
        if options.only.is_empty() || options.only.iter().any(|only| only == name) {
            let figures = part(options, out, &mut found)?;
            add(&mut report, figures);
        }
    }
    let Found { mut aims, lost, twice, disordered } = found;
    let losses = format!("{lost} lost, {twice} twice, {disordered} out of order");
    aims.insert(0, Aim::new("every event once and in order", losses, lost + twice + disordered == 0));
    add(
        &mut report,
        json!({"lost": lost, "twice": twice, "disordered": disordered,
                            "seconds": clock::seconds(clock::now() - began)}),
    );
    Ok((aims, report))
}

/// A service at a node of its own, and where it keeps things.
pub(super) struct Site {
    side: Side,
    pub(super) node: Node,
    _folder: Folder,
}

impl Site {
    /// The one with this number; the configuration is made of its address.
    fn start(number: u8, options: &Options, config: impl FnOnce(&Node) -> String) -> Result<Self, BenchError> {
        let (node, folder) =
            (Node::start(number)?, Folder::new(&format!("federation-{number}"), options.on.as_deref())?);
        let mut setting = Setting::new(&folder, &config(&node))?;
        (setting.listen, setting.within) = (format!("{}:0", node.address), node.words().into());
        let serving = Some(setting.start()?.0);
        Ok(Self { side: Side { setting, serving }, node, _folder: folder })
    }

    /// What begins a process of subscribers at its node, and the service that they turn to.
    fn place(&self, service: &Side) -> Result<(Vec<OsString>, String), BenchError> {
        Ok((self.words(subscribers::COMMAND)?, service.setting.listen.clone()))
    }

    /// The words of a hidden command of this program that runs at its node.
    pub(super) fn words(&self, command: &str) -> Result<Vec<OsString>, BenchError> {
        let this = std::env::current_exe().map_err(BenchError::io("finding the path of this program"))?;
        Ok(self.node.words().into_iter().chain([this.into(), command.into()]).collect())
    }

    /// What `campanile link ls` says of its links.
    fn links(&self) -> Result<Vec<Value>, BenchError> {
        let this = std::env::current_exe().map_err(BenchError::io("finding the path of this program"))?;
        let mut command = Command::new(this.with_file_name("campanile"));
        command.args(["link", "ls", "--json", "--server", &self.side.setting.listen]);
        let said = command.output().map_err(BenchError::io("asking for links"))?;
        let said: Value = serde_json::from_slice(&said.stdout).map_err(of_json("asking for links"))?;
        Ok(said.get("links").and_then(Value::as_array).cloned().unwrap_or_default())
    }
}

fn channels<'n>(names: impl IntoIterator<Item = &'n String>, properties: &str) -> String {
    names.into_iter().map(|name| format!("[[channels]]\nname = \"{name}\"\n{properties}")).collect()
}

/// One point of a figure: where the subscribers are, and how many.
#[derive(Clone, Copy)]
struct Point {
    figure: u32,
    count: u32,
}

impl Point {
    fn all(options: &Options) -> Vec<Self> {
        [17, 18].into_iter().flat_map(|figure| options.loads.iter().map(move |&count| Self { figure, count })).collect()
    }

    fn channel(self, way: &str) -> String {
        format!("{way} {} {}", self.figure, self.count)
    }
}

/// The paper's two figures: throughput with more and more subscribers.
fn figures(options: &Options, out: &mut Output<'_>, found: &mut Found) -> Result<Value, BenchError> {
    let points = Point::all(options);
    let ways: Vec<&'static str> = std::iter::once("direct").chain(CARRIERS.map(|(name, _)| name)).collect();
    let names: Vec<String> = points.iter().flat_map(|point| ways.iter().map(|way| point.channel(way))).collect();
    let folder = Folder::new("federation", options.on.as_deref())?;
    let here = format!("{}[links]\nlisten = \"{HERE}:2816\"\n", channels(&names, ""));
    let mut setting = Setting::new(&folder, &here)?;
    setting.listen = format!("{HERE}:0");
    let serving = Some(setting.start()?.0);
    let near = Side { setting, serving };
    let most = points.iter().map(|point| point.count).max().unwrap_or(0);
    let mut sites = Vec::new();
    for number in 0..u8::try_from(most).unwrap_or(u8::MAX) {
        out.progress(&format!("service {number} of {most}"))?;
        sites.push(Site::start(number, options, |_| {
            let link = |(carrier, more): &(&str, &str)| {
                let of_it: Vec<&String> = names.iter().filter(|name| name.starts_with(carrier)).collect();
                format!("[[link]]\nname = \"{carrier}\"\nto = \"{HERE}:2816\"\nchannels = {of_it:?}\ndirection = \"in\"\n{more}")
            };
            channels(&names, "") + &CARRIERS.iter().map(link).collect::<String>()
        })?);
    }
    let (mut rows, version) = (Vec::new(), Nats::version());
    let nats = version.as_ref().map(|_| Nats::start(&sites)).transpose()?;
    for point in points {
        out.progress(&format!("figure {}: {} subscribers", point.figure, point.count))?;
        rows.extend(figure_point(&near, (&sites, nats.as_ref()), (point, &ways, &names), options, found)?);
    }
    Ok(json!({"rows": rows, "nats": version}))
}

/// Has the ways take turns.
fn figure_point(
    near: &Side,
    (sites, nats): (&[Site], Option<&Nats>),
    (point, names, channels): (Point, &[&'static str], &[String]),
    options: &Options,
    found: &mut Found,
) -> Result<Vec<Value>, BenchError> {
    let (used, each) = if point.figure == 17 { (1, point.count) } else { (point.count as usize, 1) };
    let used = sites.get(..used).unwrap_or_default();
    let process = &near.serving()?.process;
    let mut ways: Vec<Counted<'_>> = Vec::new();
    for &name in names {
        // Channels are numbered in their order, after the default one.
        let number = channels.iter().position(|channel| *channel == point.channel(name)).unwrap_or(0) + 1;
        let number = i32::try_from(number).unwrap_or(0);
        let is_direct = name == "direct";
        let places = used.iter().map(|site| site.place(if is_direct { near } else { &site.side }));
        let subscribers = Subscribers::elsewhere(&places.collect::<Result<Vec<_>, _>>()?, number, each)?;
        let mut services = vec![process];
        for site in used.iter().filter(|_| !is_direct) {
            services.push(&site.side.serving()?.process);
        }
        ways.push((Way::to(name, &near.channel(number)?, subscribers, options.payload)?, services, [0; 4]));
    }
    let beside = nats.into_iter().flat_map(|nats| [true, false].map(|is_direct| (nats, is_direct)));
    let beside = beside.map(|(nats, is_direct)| NatsWay::open(nats, used, each, is_direct, options.payload));
    let mut beside = beside.collect::<Result<Vec<_>, _>>()?;
    let turn = if options.quick { clock::SECOND / 4 } else { clock::SECOND };
    for _ in 0..options.rounds {
        beside.iter_mut().try_for_each(|way| way.turn(turn, RATE))?;
        ways.iter_mut().try_for_each(|(way, ..)| way.paced_turn(turn, RATE))?;
        for (way, services, counted) in &mut ways {
            let count = || Ok::<_, BenchError>((on_the_wire()?, near.serving()?.service.counter("links_events_sent")?));
            let ([octets, packets], messages) = count()?;
            let events = way.full_turn(turn, services)?;
            let ([octets_now, packets_now], messages_now) = count()?;
            let more = [events, octets_now - octets, packets_now - packets, messages_now - messages];
            counted.iter_mut().zip(more).for_each(|(counted, more)| *counted += more);
        }
    }
    let rows: Vec<Value> = ways.iter().map(|way| row(point, way, ways.first())).collect();
    ways.iter().for_each(|(way, ..)| found.add(way.losses()));
    rows.iter().filter(|row| row["way"] != "direct").for_each(|row| judge(point, row, found));
    let beside = beside.iter().zip(beside.first().into_iter().cycle());
    let of_nats = beside.map(|(way, direct)| way.row((point.figure, point.count), direct));
    Ok(rows.into_iter().chain(of_nats).collect())
}

fn judge(Point { figure, count }: Point, row: &Value, found: &mut Found) {
    let aim = |aim: String| {
        format!("figure {figure}, {}, {count} subscribers: {aim}", row["way"].as_str().unwrap_or_default())
    };
    // In figure 18 each node needs a message either way.
    if figure == 17 {
        let messages = row["messages_per_event"].as_f64();
        found.aim(aim(format!("messages for an event at most {WIRE_MESSAGES_MAX}")), messages, |found| {
            found <= WIRE_MESSAGES_MAX
        });
    }
    if figure == 17 && count >= 20 {
        let throughput = row["throughput_ratio_to_direct"].as_f64();
        found.aim(aim(format!("throughput at least {OF_DIRECT_MIN} × direct")), throughput, |found| {
            found >= OF_DIRECT_MIN
        });
    }
}

fn row(point: Point, (way, _, counted): &Counted<'_>, direct: Option<&Counted<'_>>) -> Value {
    let [events, octets, packets, messages] = *counted;
    let per_event = |count: u64| ratio(count, events.max(1));
    let of = |figure: fn(&Way) -> &Vec<f64>| {
        let (direct, ..) = direct?;
        Some(median(figure(way).iter().zip(figure(direct)).map(|(way, direct)| way / direct)))
    };
    let mut row = json!({"figure": point.figure, "subscribers": point.count, "octets_per_event": per_event(octets),
        "packets_per_event": per_event(packets), "messages_per_event": per_event(messages),
        "throughput_ratio_to_direct": of(|way| &way.per_second), "near_cpu_ratio_to_direct": of(|way| &way.near_cpu_us),
        "p50_ratio_to_direct": of(|way| &way.p50_us)});
    add(&mut row, way.row());
    row
}

/// Ten services that link three channels: everyone's events everywhere, once, though one leaves and comes back.
fn mesh(options: &Options, out: &mut Output<'_>, found: &mut Found) -> Result<Value, BenchError> {
    let names = MESH.map(str::to_owned);
    let mut sites = Vec::new();
    // Numbers go on behind those of the figures, whose nodes may not be gone yet.
    let address = |number: u8| std::net::Ipv4Addr::new(10, 77, 0, 102 + number);
    for number in 0..SERVICES {
        out.progress(&format!("service {number} of {SERVICES}"))?;
        sites.push(Site::start(100 + number, options, |node| {
            let link = |step: &u8| {
                let to = address((number + step) % SERVICES);
                format!("[[link]]\nname = \"over-{step}\"\nto = \"{to}:2816\"\nchannels = {names:?}\n")
            };
            let listen = format!("[links]\nlisten = \"{}:2816\"\n", node.address);
            let persistent = "[channels.properties]\nEventReliability = 1\n";
            channels(&names, persistent) + &listen + &DIALLED.iter().map(link).collect::<String>()
        })?);
    }
    let places = sites.iter().map(|site| site.place(&site.side)).collect::<Result<Vec<_>, _>>()?;
    let subscribers = (1..).take(MESH.len()).map(|channel| Subscribers::elsewhere(&places, channel, 1));
    let subscribers = subscribers.collect::<Result<Vec<_>, _>>()?;
    let awaited = |sent: &[u64]| {
        subscribers.iter().zip(sent).try_for_each(|(of_channel, sent)| of_channel.await_all(*sent).map(drop))
    };
    // Each pair of links has three channels, and two directions of each.
    let of_one = DIALLED.len() * 2 * MESH.len() * 2;
    let all = usize::from(SERVICES) * of_one;
    out.progress("waiting for links")?;
    let linked = await_links(&sites, all, 0)?;
    let mut suppliers = Suppliers::connect(&sites, options)?;
    let mut sent = MESH.map(|_| 0);
    suppliers.push(options, true, &mut sent)?;
    awaited(&sent)?;
    out.progress("one service leaves")?;
    if let Some(serving) = sites.last_mut().and_then(|last| last.side.serving.take()) {
        serving.process.end_with(Signal::TERM);
    }
    // Its own are gone with it. Its neighbours show what they have for it.
    let away = await_links(&sites, all - 2 * of_one, of_one / 2)?;
    suppliers.push(options, false, &mut sent)?;
    out.progress("it comes back")?;
    if let Some(last) = sites.last_mut() {
        last.side.serving = Some(last.side.setting.start()?.0);
        suppliers.reconnect(last, options)?;
    }
    let back = await_links(&sites, all, 0)?;
    suppliers.push(options, true, &mut sent)?;
    awaited(&sent)?;
    subscribers.iter().zip(&sent).for_each(|(of_channel, sent)| found.add(of_channel.losses(*sent)));
    let states = [("all are there", linked), ("one is away", away), ("it is back", back)];
    let [linked, away, back] = states.map(|(when, (is_so, up, down))| {
        let aim = format!("`campanile link ls` of all while {when}: flows up, and not");
        found.aims.push(Aim::new(aim, format!("{up} and {down}"), is_so));
        json!([up, down])
    });
    let mesh = json!({"services": SERVICES, "channels": MESH.len(), "events": sent.iter().sum::<u64>(), "flows": linked,
                      "flows_while_one_is_away": away, "flows_afterwards": back});
    Ok(json!({"mesh": mesh}))
}

/// Waits until so many flows are up, with subscriptions from over there, and at least so many are not, or none. Says whether it came to that,
/// and how many there are.
fn await_links(sites: &[Site], up: usize, down_min: usize) -> Result<(bool, usize, usize), BenchError> {
    let give_up = clock::now() + LINKED_WITHIN;
    loop {
        let mut all = Vec::new();
        for site in sites.iter().filter(|site| site.side.serving.is_some()) {
            all.extend(site.links()?);
        }
        let has_interest = |flow: &Value| flow["direction"] == "in" || flow["subscriptions"] != "";
        let count = all.iter().filter(|flow| flow["state"] == "up" && has_interest(flow)).count();
        let down = all.len() - count;
        let is_so = count == up && down >= down_min && (down == 0) == (down_min == 0);
        if is_so || clock::now() > give_up {
            return Ok((is_so, count, down));
        }
        clock::sleep_until(clock::now() + clock::SECOND / 4)?;
    }
}

/// A supplier of each channel at each service; numbers tell them apart.
struct Suppliers(Vec<Vec<Flood>>);

impl Suppliers {
    fn connect(sites: &[Site], options: &Options) -> Result<Self, BenchError> {
        let of_site = |(site, number)| Self::of(site, number, options);
        Ok(Self(sites.iter().zip(1..).map(of_site).collect::<Result<_, _>>()?))
    }

    fn of(site: &Site, number: u64, options: &Options) -> Result<Vec<Flood>, BenchError> {
        let channels: Vec<Channel> =
            (1..).take(MESH.len()).map(|id| site.side.channel(id)).collect::<Result<_, _>>()?;
        channels
            .iter()
            .map(|channel| Flood::of(channel, number..number + 1, options.payload as usize, 1, &[]))
            .collect()
    }

    /// The last one's service is another process, and it has a number of its own.
    fn reconnect(&mut self, last: &Site, options: &Options) -> Result<(), BenchError> {
        let number = self.0.len() as u64 + 1;
        self.0.pop();
        self.0.push(Self::of(last, number, options)?);
        Ok(())
    }

    /// Has all push for a time, or all but the last. Adds how many events each channel got.
    fn push(&mut self, options: &Options, with_last: bool, sent: &mut [u64]) -> Result<(), BenchError> {
        let turn = if options.quick { clock::SECOND / 4 } else { clock::SECOND };
        let all = self.0.len() - usize::from(!with_last);
        for of_site in self.0.iter_mut().take(all) {
            for (flood, sent) in of_site.iter_mut().zip(&mut *sent) {
                *sent += flood.run(turn, Some(MESH_RATE))?.count();
            }
        }
        Ok(())
    }
}

//! `campanile-bench federation`: one channel at services on nodes of their own.
//!
//! Figures 17 and 18 of Deng et al.: a publisher is at this node, and its subscribers are in one process of another node, or each at a node of
//! its own; they are subscribers of the publisher's service (`direct`), or of services of their nodes that are linked to it. The line of the
//! publisher's node has no limit, or one. And ten services that find each other, of which one leaves and comes back.

mod cuts;

use std::ffi::OsString;
use std::process::Command;

use load::campanile::Channel;
use load::process::json as of_json;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::nats::{Nats, NatsWay};
use super::nodes::{HERE, Node, limit_line, on_the_wire, own_network};
use super::subscribers::{self, Subscribers, Turns, Way};
use super::{Found, Side, run_parts};
use crate::durable::load::Flood;

use crate::latency::ratio;
use crate::persistent::{Folder, Setting};
use crate::report::{Aim, Reported, add};
use crate::{BenchError, Options, Output, clock};

/// How events come to subscribers: a name, which is that of their channel, and what the links' configuration says of it.
const WAYS: &[(&str, &str)] = &[
    (DIRECT, ""),
    ("tcp", ""),
    ("udp", "carrier = \"udp\"\n"),
    ("multicast", "carrier = \"multicast\"\ngroup = \"239.192.7.1:2817\"\n"),
    ("iiop", "carrier = \"iiop\"\n"),
    #[cfg(feature = "zenoh")]
    (ZENOH, "carrier = \"zenoh\"\n"),
];
const DIRECT: &str = "direct";
/// Services of other nodes have sessions that connect to this node's, and are called as their nodes are addressed.
const ZENOH: &str = "zenoh";
const ZENOH_PORT: u16 = 7447;
/// Where services take links.
const PORT: u16 = 2816;
/// Events a second of the supplier whose latencies are taken, so that twenty subscribers on these cores keep up.
const RATE: u64 = 200;
/// Seconds that the direct way takes for the events of a turn where the line has a limit, and octets of one beside its payload, roughly.
const DIRECT_S: u64 = 2;
const OVERHEAD_BYTES: u64 = 140;
/// Services of the mesh, its channels, and the events a second of each supplier before, while and after one is away.
const SERVICES: u8 = 10;
const MESH: [&str; 3] = ["A", "B", "C"];
const MESH_RATE: u64 = 50;
/// How long links may take to be as they are to be.
const LINKED_WITHIN: u64 = 60 * clock::SECOND;

/// The aims (`lab/README.md`). Datagrams are announced as well.
const OF_DIRECT_MIN: f64 = 3.0;
const WIRE_MESSAGES_MAX: f64 = 1.01;
const WIRE_DATAGRAMS_MAX: f64 = 1.1;

type Part = fn(&Options, &mut Output<'_>, &mut Found) -> Result<Value, BenchError>;
const PARTS: [(&str, Part); 3] = [("figures", figures), ("cuts", cuts::cuts), ("mesh", mesh)];

pub(crate) fn run(options: &Options, out: &mut Output<'_>) -> Reported {
    own_network()?;
    let began = clock::now();
    // Of a development build only ratios mean anything.
    let build = if cfg!(debug_assertions) { "development" } else { "release" };
    let mut report = json!({"quick": options.quick, "build": build, "payload": options.payload, "core": null, "rows": [], "nats": null, "cuts": null, "cut_seconds": null, "mesh": null});
    let aims = run_parts(&PARTS, (options, out), &mut report, |part, out, found| part(options, out, found))?;
    add(&mut report, json!({"seconds": clock::seconds(clock::now() - began)}));
    Ok((aims, report))
}

/// A service at a node, and where it keeps things.
pub(super) struct Site<'n> {
    side: Side,
    pub(super) node: &'n Node,
    _folder: Folder,
}

impl<'n> Site<'n> {
    /// One of this name, with this configuration and a key that all have.
    fn start(node: &'n Node, name: &str, options: &Options, config: &str) -> Result<Self, BenchError> {
        let folder = Folder::new(&format!("federation-{name}-{}", node.address), options.on.as_deref())?;
        let key = folder.file("key");
        std::fs::write(&key, [b'k'; 32]).map_err(BenchError::io("writing a key"))?;
        let mut setting = Setting::new(&folder, &config.replace("KEY", &key.to_string_lossy()))?;
        (setting.listen, setting.within) = (format!("{}:0", node.address), node.words());
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

    fn counter(&self, name: &str) -> Result<u64, BenchError> {
        self.side.serving()?.service.counter(name)
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

fn channels<'n>(names: impl IntoIterator<Item = &'n str>, properties: &str) -> String {
    names.into_iter().map(|name| format!("[[channels]]\nname = \"{name}\"\n{properties}")).collect()
}

/// The link to a site over one of [`WAYS`].
fn link_to(site: &Site<'_>, number: usize, (name, carrier): (&str, &str)) -> String {
    let to = if name == "iiop" {
        format!("corbaloc:iiop:{}/NotifyEventChannelFactory", site.side.setting.listen)
    } else if name == ZENOH {
        site.node.address.to_string()
    } else {
        format!("{}:{PORT}", site.node.address)
    };
    format!("[[link]]\nname = \"{number}\"\nto = \"{to}\"\nchannels = [\"{name}\"]\ndirection = \"out\"\n{carrier}")
}

/// The session of this node's service with such links.
fn near_session(name: &str) -> String {
    let session = format!("[links.zenoh]\nname = \"near\"\nlisten = [\"tcp/{HERE}:{ZENOH_PORT}\"]\n");
    if name == ZENOH { session } else { String::new() }
}

/// Where the service of another node takes links.
fn far_listens(node: &Node) -> String {
    let at = node.address;
    let listen = format!("[links]\nlisten = \"{at}:{PORT}\"\n[links.datagrams]\nkey_file = \"KEY\"\n");
    let zenoh = format!("[links.zenoh]\nname = \"{at}\"\nconnect = [\"tcp/{HERE}:{ZENOH_PORT}\"]\naccept = true\n");
    if cfg!(feature = "zenoh") { listen + &zenoh } else { listen }
}

/// One point of a figure: Mbit/s of the line or 0, where the subscribers are, and how many.
#[derive(Clone, Copy)]
pub(super) struct Point {
    mbit: u32,
    figure: u32,
    count: u32,
}

impl Point {
    /// Events of a turn at full speed: of all ways as many as the direct one takes some time for, if the line has a limit.
    fn events(self, options: &Options) -> u64 {
        let one = u64::from(self.count) * (u64::from(options.payload) + OVERHEAD_BYTES);
        if self.mbit == 0 { u64::MAX } else { DIRECT_S * self.bytes_per_s() / one }
    }

    fn bytes_per_s(self) -> u64 {
        u64::from(self.mbit) * 125_000
    }
}

/// A way, its service at this node, and what was counted of it: events, octets, packets, messages of links, links that fell back.
struct Contender<'n> {
    way: Way,
    near: Site<'n>,
    counted: [u64; 5],
}

impl<'n> Contender<'n> {
    /// Begins a service at this node with links to those at others, and subscribers at these, each so many.
    fn start(
        here: &'n Node,
        sites: &[Site<'_>],
        (point, each): (Point, u32),
        ((name, carrier), number): (&(&'static str, &str), i32),
        options: &Options,
    ) -> Result<Self, BenchError> {
        let is_direct = *name == DIRECT;
        let links = sites.iter().zip(0..).filter(|_| !is_direct);
        let links: String = links.map(|(site, number)| link_to(site, number, (name, carrier))).collect();
        let mut datagrams = "[links.datagrams]\nkey_file = \"KEY\"\n".to_owned();
        if point.mbit > 0 {
            // Together they leave a quarter of the line to all else. Each link of "udp" is a group of its own.
            let groups = if *name == "udp" { sites.len() as u64 } else { 1 };
            datagrams += &format!("bytes_per_s = {}\n", point.bytes_per_s() * 3 / 4 / groups);
        }
        let near = channels([*name], "") + &datagrams + &near_session(name) + &links;
        let near = Site::start(here, name, options, &near)?;
        let places = sites.iter().map(|site| site.place(if is_direct { &near.side } else { &site.side }));
        let places = places.collect::<Result<Vec<_>, _>>()?;
        // Channels are numbered in their order, after the default one.
        let subscribers = Subscribers::elsewhere(&places, if is_direct { 1 } else { number }, each)?;
        let way = Way::to(name, &near.side.channel(1)?, subscribers, options.payload)?;
        Ok(Self { way, near, counted: [0; 5] })
    }

    /// Datagrams of links; links that fell back; and of each other service, events that came there, and datagrams.
    fn messages(&self, sites: &[Site<'_>]) -> Result<Vec<u64>, BenchError> {
        let mut all = vec![self.near.counter("links_datagrams_sent")?, self.near.counter("links_fall_backs")?];
        for site in sites {
            let counters = site.side.serving()?.service.counters()?;
            let of = |name: &str| counters.get(name).copied().unwrap_or(0);
            all.extend([of("links_events_received").max(of("lane_events_in")), of("links_datagrams_received")]);
        }
        Ok(all)
    }

    fn full_turn(&mut self, sites: &[Site<'_>], most: u64, turn_ns: u64) -> Result<(), BenchError> {
        let linked = sites.iter().filter(|_| self.way.name != DIRECT);
        let all = std::iter::once(&self.near).chain(linked).map(|site| Ok(&site.side.serving()?.process));
        let all = all.collect::<Result<Vec<_>, BenchError>>()?;
        let (messages, [octets, packets]) = (self.messages(sites)?, on_the_wire()?);
        let events = self.way.full_turn(most, turn_ns, &all)?;
        let [octets_now, packets_now] = on_the_wire()?;
        let more: Vec<u64> = self.messages(sites)?.iter().zip(messages).map(|(now, before)| now - before).collect();
        let (of_near, of_others) = more.split_at_checked(2).unwrap_or_default();
        let (datagrams, fall_backs) = (of_near.first().unwrap_or(&0), of_near.last().unwrap_or(&0));
        let otherwise: u64 = of_others.as_chunks().0.iter().map(|[events, came]| events.saturating_sub(*came)).sum();
        let more = [events, octets_now - octets, packets_now - packets, datagrams + otherwise, *fall_backs];
        self.counted.iter_mut().zip(more).for_each(|(counted, more)| *counted += more);
        Ok(())
    }
}

/// The paper's two figures: throughput with more and more subscribers.
fn figures(options: &Options, out: &mut Output<'_>, found: &mut Found) -> Result<Value, BenchError> {
    let most = options.loads.iter().max().map_or(0, |most| u8::try_from(*most).unwrap_or(u8::MAX));
    let nodes = (0..most).map(Node::start).collect::<Result<Vec<_>, _>>()?;
    let (mut rows, here, nats) = (Vec::new(), Node::here(), Nats::version());
    for &mbit in &options.line_mbit {
        limit_line(mbit)?;
        for (figure, &count) in
            [17, 18].into_iter().flat_map(|figure| options.loads.iter().map(move |load| (figure, load)))
        {
            out.progress(&format!("{mbit} Mbit/s, figure {figure}: {count} subscribers"))?;
            let point = Point { mbit, figure, count };
            // Its hub takes whatever comes, as long as it has memory: it is not limited by a line.
            rows.extend(figure_point((&here, &nodes), point, nats.is_some() && mbit == 0, options, found)?);
        }
    }
    limit_line(0)?;
    Ok(json!({"rows": rows, "nats": nats}))
}

/// Has the ways take turns.
fn figure_point<'n>(
    (here, nodes): (&'n Node, &'n [Node]),
    point: Point,
    with_nats: bool,
    options: &Options,
    found: &mut Found,
) -> Result<Vec<Value>, BenchError> {
    let (used, each) = if point.figure == 17 { (1, point.count) } else { (point.count as usize, 1) };
    let names = WAYS.iter().map(|(name, _)| *name);
    let start = |node: &'n Node| Site::start(node, "far", options, &(channels(names.clone(), "") + &far_listens(node)));
    let sites = nodes.iter().take(used).map(start).collect::<Result<Vec<_>, _>>()?;
    let ways = WAYS.iter().zip(1..).map(|way| Contender::start(here, &sites, (point, each), way, options));
    let mut ways = ways.collect::<Result<Vec<_>, _>>()?;
    let nats = with_nats.then(|| Nats::start(&sites)).transpose()?;
    let beside = nats.iter().flat_map(|nats| [true, false].map(|is_direct| (nats, is_direct)));
    let beside = beside.map(|(nats, is_direct)| NatsWay::open(nats, &sites, each, is_direct, options.payload));
    let mut beside = beside.collect::<Result<Vec<_>, _>>()?;
    let turn = if options.quick { clock::SECOND / 4 } else { clock::SECOND };
    for _ in 0..options.rounds {
        beside.iter_mut().try_for_each(|way| way.turn(turn, RATE))?;
        ways.iter_mut().try_for_each(|one| one.way.paced_turn(turn, RATE))?;
        ways.iter_mut().try_for_each(|one| one.full_turn(&sites, point.events(options), turn))?;
    }
    let rows: Vec<Value> = ways
        .iter()
        .zip(ways.first().into_iter().cycle())
        .map(|(one, direct)| {
            let ([all @ .., messages, falls], turns) = (one.counted, &one.way.turns);
            row(point, (one.way.row(), turns, &direct.way.turns), all, Some([messages, falls]))
        })
        .collect();
    ways.iter().for_each(|one| found.add(one.way.losses()));
    rows.iter().for_each(|row| judge(point, row, found));
    let beside = beside.iter().zip(beside.first().into_iter().cycle());
    let of_nats = beside.map(|(way, direct)| way.row(point, direct));
    Ok(rows.into_iter().chain(of_nats).collect())
}

fn judge(Point { mbit, figure, count }: Point, row: &Value, found: &mut Found) {
    let way = row["way"].as_str().unwrap_or_default();
    let line = if mbit == 0 { String::new() } else { format!("{mbit} Mbit/s, ") };
    let aim = |aim: String| format!("figure {figure}, {line}{way}, {count} subscribers: {aim}");
    // In figure 18 each node needs a message of its own, but by multicast.
    if (figure == 17 && way != DIRECT) || way == "multicast" {
        let most = if ["udp", "multicast"].contains(&way) { WIRE_DATAGRAMS_MAX } else { WIRE_MESSAGES_MAX };
        let messages = row["messages_per_event"].as_f64();
        found.aim(aim(format!("messages for an event at most {most}")), messages, |found| found <= most);
    }
    if figure == 17 && count >= 20 && way == "tcp" {
        let throughput = row["throughput_ratio_to_direct"].as_f64();
        found.aim(aim(format!("throughput at least {OF_DIRECT_MIN} × direct")), throughput, |found| {
            found >= OF_DIRECT_MIN
        });
    }
}

/// A row of a point; of all events octets and packets on the wire and, where that is known, messages of links and their falls back.
pub(super) fn row(
    point: Point,
    (mut row, turns, direct): (Value, &Turns, &Turns),
    [events, octets, packets]: [u64; 3],
    links: Option<[u64; 2]>,
) -> Value {
    let per_event = |count: u64| ratio(count, events.max(1));
    add(
        &mut row,
        json!({"line_mbit": point.mbit, "figure": point.figure, "subscribers": point.count,
        "octets_per_event": per_event(octets), "packets_per_event": per_event(packets),
        "messages_per_event": links.map(|[messages, _]| per_event(messages)), "fall_backs": links.map(|[_, falls]| falls),
        "throughput_ratio_to_direct": turns.ratio_to(direct, |turns| &turns.per_second),
        "near_cpu_ratio_to_direct": turns.ratio_to(direct, |turns| &turns.near_cpu_us),
        "p50_ratio_to_direct": turns.ratio_to(direct, |turns| &turns.p50_us)}),
    );
    row
}

/// Ten services that find each other, and link three channels: all events everywhere, once, though one leaves and comes back.
fn mesh(options: &Options, out: &mut Output<'_>, found: &mut Found) -> Result<Value, BenchError> {
    let nodes = (100..100 + SERVICES).map(Node::start).collect::<Result<Vec<_>, _>>()?;
    let mut sites = Vec::new();
    for node in &nodes {
        out.progress(&format!("service {} of {SERVICES}", sites.len()))?;
        let address = node.address;
        let found = format!(
            "[links]\nlisten = \"{address}:{PORT}\"\n[federation]\nname = \"mesh\"\ninterface = \"{address}\"\nkey_file = \"KEY\"\n"
        );
        let persistent = "[channels.properties]\nEventReliability = 1\n";
        sites.push(Site::start(node, "mesh", options, &(channels(MESH, persistent) + &found))?);
    }
    let places = sites.iter().map(|site| site.place(&site.side)).collect::<Result<Vec<_>, _>>()?;
    let subscribers = (1..).take(MESH.len()).map(|channel| Subscribers::elsewhere(&places, channel, 1));
    let subscribers = subscribers.collect::<Result<Vec<_>, _>>()?;
    let awaited = |sent: &[u64]| {
        subscribers.iter().zip(sent).try_for_each(|(of_channel, sent)| of_channel.await_all(*sent).map(drop))
    };
    // Each has a link with each other one, of three channels, and two directions of each.
    let of_one = usize::from(SERVICES - 1) * MESH.len() * 2;
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
fn await_links(sites: &[Site<'_>], up: usize, down_min: usize) -> Result<(bool, usize, usize), BenchError> {
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
    fn connect(sites: &[Site<'_>], options: &Options) -> Result<Self, BenchError> {
        let of_site = |(site, number)| Self::of(site, number, options);
        Ok(Self(sites.iter().zip(1..).map(of_site).collect::<Result<_, _>>()?))
    }

    fn of(site: &Site<'_>, number: u64, options: &Options) -> Result<Vec<Flood>, BenchError> {
        let channels: Vec<Channel> =
            (1..).take(MESH.len()).map(|id| site.side.channel(id)).collect::<Result<_, _>>()?;
        channels
            .iter()
            .map(|channel| Flood::of(channel, number..number + 1, options.payload as usize, 1, &[]))
            .collect()
    }

    /// The last one's service is another process, and it has a number of its own.
    fn reconnect(&mut self, last: &Site<'_>, options: &Options) -> Result<(), BenchError> {
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

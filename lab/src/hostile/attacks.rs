//! What a client may try. Each attack is one wave: it does its harm, notices what is refused, and leaves as it came.

use std::io::{Error, ErrorKind, Result, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::thread;

use client::Marshal;
use client::naming::NameComponent;
use client::notify::{ConstraintExp, EventType, Property};
use giop::cdr::{CharSet, Endian, Version};
use giop::message::{Header, LocateRequest, ReplyHead, ReplyStatus, Request, begin_reply, cancel_request};
use load::callers::Callers;

use super::contention;
use super::foe::{Foe, Kind, Object, address_of, bad, listen, read_message, reference};
use crate::clock;
use crate::latency::ratio;
use crate::wire::{self, PushMessage, Shape};
use crate::{BenchError, Form};

#[derive(Debug, Clone, Copy)]
pub(super) struct Attack {
    /// By which it is chosen.
    pub(super) name: &'static str,
    /// What a client does.
    pub(super) story: &'static str,
    wave: fn(&mut Scene) -> Result<()>,
}

/// Which service is attacked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) service: SocketAddr,
    /// Where it serves HTTP, lines of JSON and Tempo, if it does.
    pub(super) http: Option<SocketAddr>,
    pub(super) json: Option<SocketAddr>,
    pub(super) tempo: Option<SocketAddr>,
}

/// Where an attack takes place, and what came of it so far.
pub(super) struct Scene {
    pub(super) target: Target,
    /// The attack's own address.
    pub(super) from: IpAddr,
    until: u64,
    /// Sequences a second that [`FLOOD`] is to publish; as many as are taken, if none are said.
    pace: Option<f64>,
    /// Events that came back.
    pub(super) received: u64,
    /// Requests and connections that went out.
    pub(super) tries: u64,
    /// Waves that the service ended: by an exception, by closing, or by not reading any more.
    pub(super) refusals: u64,
}

/// The one that keeps to a part of what the service would take.
pub(super) const FLOOD: &str = "flood";
/// Events in each of its sequences.
pub(super) const FLOOD_BATCH: u16 = 64;

/// The one that is none: a monitoring system that reads the metrics.
pub(super) const SCRAPES: &str = "scrapes";

const fn attack(name: &'static str, story: &'static str, wave: fn(&mut Scene) -> Result<()>) -> Attack {
    Attack { name, story, wave }
}

/// All of them, in the order in which they are made.
pub(super) const ALL: &[Attack] = &[
    attack("unreachable", "clients that can never be reached, and are probed", unreachable),
    attack("pulls", "connections with 256 waiting pulls each, which close", pulls),
    attack("unread", "requests with large answers that nobody reads", unread),
    attack("readers", "consumers of sequences that do not read, under a flood", readers),
    attack("answers", "pulls whose answers nobody reads, under a flood", answers),
    attack("names", "consumers at host names that take long to look up", names),
    attack("analyses", "scheduling analyses that take as long as they may", analyses),
    attack("large", "messages of 16 MiB that are announced and do not come", large),
    attack("fragments", "messages in fragments that never end, with cancels between", fragments),
    attack("bindings", "names bound to references of 60 KB", bindings),
    attack("types", "proxies with a thousand long event types each", types),
    attack("constraints", "filters with long constraints", constraints),
    attack("channels", "channels, as many as there may be", channels),
    attack("connections", "connections that say nothing", connections),
    attack("listeners", "consumers that each need a connection of their own", listeners),
    attack("forwards", "consumers that forward their events to the service itself", forwards),
    attack("suppliers", "a pull supplier that answers with a hundred thousand events", suppliers),
    attack("mistakes", "calls that are logged", mistakes),
    attack("garbage", "bytes that are no message", garbage),
    attack("deaths", "suppliers and consumers that die in the midst of an event", deaths),
    attack("holder", "consumers on others' channels, an event in 4 s", contention::holder),
    attack("places", "eight addresses that take all places of CORBA and HTTP", contention::places),
    attack("keys", "keys that are guessed, located and called", contention::keys),
    attack("json", "subscriptions over lines of JSON, and connections that end", contention::json),
    attack("tempo", "topics subscribed to over Tempo, and connections that end", contention::tempo),
    attack("longest", "constraints as long as a channel may have", contention::longest),
    attack(FLOOD, "a publisher of 0.8 of what the service takes, and its consumer", publish_at_pace),
    attack(SCRAPES, "metrics of ten thousand consumers, each by name, asked for each second", super::scrapes::scrape),
];

impl Attack {
    /// Runs waves until then, at that pace if it has one. What came of them.
    pub(super) fn run(&self, target: Target, until: u64, pace: Option<f64>) -> core::result::Result<Scene, BenchError> {
        let place = ALL.iter().position(|attack| attack.name == self.name).unwrap_or_default();
        let mut scene = Scene { target, from: address_of(place), until, pace, received: 0, tries: 0, refusals: 0 };
        while clock::now() < until {
            if (self.wave)(&mut scene).is_err() {
                scene.refusals += 1;
                // A client that is refused at once would only measure how fast it can be.
                clock::sleep_until((clock::now() + clock::SECOND / 1_000).min(until))?;
            }
        }
        Ok(scene)
    }
}

impl Scene {
    pub(super) fn connect(&mut self) -> Result<Foe> {
        self.tries += 1;
        Foe::connect(self.from, self.target.service)
    }

    pub(super) fn goes_on(&self) -> bool {
        clock::now() < self.until
    }

    /// Does something so many times, or until the time is over.
    pub(super) fn repeat(&mut self, count: u32, mut action: impl FnMut(u32) -> Result<()>) -> Result<()> {
        for number in 0..count {
            if !self.goes_on() {
                break;
            }
            self.tries += 1;
            action(number)?;
        }
        Ok(())
    }

    /// Has so many connections do something, and keeps them.
    fn hold(&mut self, count: u32, mut action: impl FnMut(&mut Foe) -> Result<()>) -> Result<Vec<Foe>> {
        let (from, service, mut held) = (self.from, self.target.service, Vec::new());
        self.repeat(count, |_| {
            let mut foe = Foe::connect(from, service)?;
            action(&mut foe)?;
            held.push(foe);
            Ok(())
        })?;
        Ok(held)
    }

    /// Does something with a channel of its own, which it destroys then.
    pub(super) fn on_channel(&mut self, action: impl FnOnce(&mut Self, &mut Foe, &Object) -> Result<()>) -> Result<()> {
        let mut foe = self.connect()?;
        let channel = foe.new_channel()?;
        let done = action(self, &mut foe, &channel);
        foe.call(&channel, "destroy", &())?;
        done
    }

    /// Has things be as they are until the end, or for this long.
    pub(super) fn rest(&self, nanoseconds: u64) -> Result<()> {
        let until = clock::now().saturating_add(nanoseconds).min(self.until);
        clock::sleep_until(until).map_err(Error::other)
    }
}

pub(super) const PUSHED: Kind = Kind("structured", "push", "consumer");
const PUSHED_SEQUENCES: Kind = Kind("sequence", "push", "consumer");
const PULLING: Kind = Kind("structured", "pull", "consumer");
const PUSHING: Kind = Kind("structured", "push", "supplier");

/// Push suppliers and pull consumers that gave a reference without any listener.
fn unreachable(scene: &mut Scene) -> Result<()> {
    let from = scene.from;
    let mut foe = scene.connect()?;
    let channel = Object::named("DefaultEventChannel");
    scene.repeat(50, |number| {
        let nobody = reference(from, 1, &number.to_be_bytes());
        let proxy = foe.new_proxy(&channel, PULLING)?;
        let qos = [Property::new("ProbeInterval", 0_u64), Property::new("GiveUpAfter", 10_000_000_u64)];
        foe.call(&proxy, "set_qos", &qos[..]).ok();
        foe.connect_client(&proxy, PULLING, Some(&nobody))
    })?;
    scene.rest(clock::SECOND / 2)
}

fn pulls(scene: &mut Scene) -> Result<()> {
    let mut foe = scene.connect()?;
    let proxy = foe.new_proxy(&Object::named("DefaultEventChannel"), PULLING)?;
    let (never, all) = (EventType::new("Hostile", "Never"), EventType::any());
    foe.call(&proxy, "subscription_change", &(vec![never], vec![all]))?;
    foe.connect_client(&proxy, PULLING, None)?;
    let _held = scene.hold(200, |foe| {
        let mut waiting = Vec::new();
        for _ in 0..256 {
            waiting.extend(foe.request(&proxy, "pull_structured_event", &())?);
        }
        foe.stream.write_all(&waiting)
    })?;
    Ok(())
}

fn unread(scene: &mut Scene) -> Result<()> {
    let statistics = Object::named("Statistics");
    let _held = scene.hold(16, |foe| {
        for _ in 0..64 {
            foe.send(&statistics, "get_consumers", &())?;
            foe.send(&statistics, "get_statistics", &())?;
        }
        Ok(())
    })?;
    scene.rest(clock::SECOND / 2)
}

/// Publishes into a channel until the time is over or the service does not take any more.
fn flood(scene: &mut Scene, channel: &Object, payload_bytes: usize) -> Result<()> {
    let mut foe = scene.connect()?;
    let proxy = foe.new_client(channel, PUSHING, None)?;
    let message = PushMessage::build(&Shape {
        response: giop::message::Response::None,
        ..Shape::new(Form::Structured, &proxy.key, payload_bytes)
    });
    scene.repeat(2_000, |_| foe.stream.write_all(message.bytes()))
}

/// Publishes sequences into a channel of its own, and takes them again: at a pace, if there is one.
fn publish_at_pace(scene: &mut Scene) -> Result<()> {
    scene.on_channel(|scene, foe, channel| {
        let mut callers = Callers::new("the service", listen(scene.from)?).map_err(Error::other)?;
        let consumer = reference(scene.from, callers.address().map_err(Error::other)?.port(), b"neighbour");
        let proxy = foe.new_proxy(channel, PUSHED_SEQUENCES)?;
        let batch = Property::new("MaximumBatchSize", i32::from(FLOOD_BATCH));
        foe.call(&proxy, "set_qos", &[batch, Property::new("PushWindow", 64_u16)][..])?;
        foe.connect_client(&proxy, PUSHED_SEQUENCES, Some(&consumer))?;
        let supplier = foe.new_client(channel, Kind("sequence", "push", "supplier"), None)?;
        let sequence = PushMessage::build(&Shape {
            response: giop::message::Response::None,
            events: FLOOD_BATCH.into(),
            ..Shape::new(Form::Sequence, &supplier.key, 64)
        });
        let until = scene.until;
        thread::scope(|scope| {
            let taking = scope.spawn(|| -> core::result::Result<u64, BenchError> {
                let mut received = 0;
                while clock::now() < until {
                    callers.wait(Some(clock::SECOND / 100), true, |_, _| {
                        received += 1;
                        Ok(())
                    })?;
                }
                Ok(received)
            });
            let published = publish(scene, foe, sequence.bytes());
            let received = taking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            scene.received += received.map_err(Error::other)?;
            published
        })
    })
}

/// Sends the same message until the time is over, a few at a time.
fn publish(scene: &mut Scene, foe: &mut Foe, message: &[u8]) -> Result<()> {
    const AT_ONCE: u32 = 16;
    let began = clock::now();
    let sent_before = scene.tries;
    let burst = message.repeat(AT_ONCE as usize);
    while scene.goes_on() {
        if let Some(pace) = scene.pace {
            let due = began + clock::nanoseconds(ratio(scene.tries - sent_before, 1) / pace);
            clock::sleep_until(due.min(scene.until)).map_err(Error::other)?;
        }
        scene.tries += u64::from(AT_ONCE);
        // Where it takes long to be taken, that is the service's pace.
        let mut rest = burst.as_slice();
        while !rest.is_empty() && scene.goes_on() {
            match foe.stream.write(rest) {
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        if !rest.is_empty() {
            // Half a message is on its way: nothing more can be said on this connection.
            *foe = scene.connect()?;
        }
    }
    Ok(())
}

fn readers(scene: &mut Scene) -> Result<()> {
    scene.on_channel(|scene, foe, channel| {
        let (from, listener) = (scene.from, listen(scene.from)?);
        let there = listener.local_addr()?.port();
        scene.repeat(20, |number| {
            let proxy = foe.new_proxy(channel, PUSHED_SEQUENCES)?;
            foe.call(&proxy, "set_qos", &[Property::new("PushWindow", 1024_u16)][..])?;
            foe.connect_client(&proxy, PUSHED_SEQUENCES, Some(&reference(from, there, &number.to_be_bytes())))
        })?;
        flood(scene, channel, 60_000)
    })
}

fn answers(scene: &mut Scene) -> Result<()> {
    scene.on_channel(|scene, foe, channel| {
        let mut unread = scene.connect()?;
        scene.repeat(20, |_| {
            let proxy = foe.new_client(channel, Kind("sequence", "pull", "consumer"), None)?;
            (0..10).try_for_each(|_| unread.send(&proxy, "pull_structured_events", &4096_u32))
        })?;
        flood(scene, channel, 60_000)
    })
}

fn names(scene: &mut Scene) -> Result<()> {
    scene.on_channel(|scene, foe, channel| {
        let tag = clock::now();
        scene.repeat(40, |number| {
            let consumer = reference(format!("host-{tag}-{number}.hostile.invalid"), 1, b"nobody");
            foe.new_client(channel, PUSHED, Some(&consumer)).map(drop)
        })?;
        scene.rest(clock::SECOND / 4)
    })
}

fn analyses(scene: &mut Scene) -> Result<()> {
    let service = Object::named("SchedulingService");
    // All of the processor is used, and something blocks: the busy period never ends, and is looked at until the steps are
    // spent.
    let operation = |name, times: [u64; 5]| {
        let [period, time, blocked, offset, deadline] = times;
        (name, 0_i32, ("D", "T", ((period, time, blocked), (offset, deadline), 0_i16)))
    };
    let operations = [operation("a", [4, 2, 0, 0, 0]), operation("b", [8, 4, 100_000_000_000_000, 0, 1])];
    let (rate_monotonic, processors) = (1_u32, 1_u16);
    let mut foe = scene.connect()?;
    scene.repeat(64, |_| foe.send(&service, "analyse", &(operations.as_slice(), rate_monotonic, processors)))?;
    read_message(&mut foe.stream).map(drop)
}

fn large(scene: &mut Scene) -> Result<()> {
    // A request of 16 MiB, little-endian, of which there is nothing but the header.
    let _held = scene.hold(16, |foe| foe.stream.write_all(b"GIOP\x01\x02\x01\x00\x00\x00\xff\x00"))?;
    scene.rest(clock::SECOND / 2)
}

fn fragments(scene: &mut Scene) -> Result<()> {
    let mut held = scene.hold(8, |foe| {
        for _ in 0..8 {
            // Its first fragment: the flag that more follow is bit 1 (CORBA 3.3 part 2, 9.4.1).
            let mut first = foe.request(&Object::named("Statistics"), "get_statistics", &vec![0_u8; 60_000])?;
            if let Some(flags) = first.get_mut(6) {
                *flags |= 2;
            }
            foe.stream.write_all(&first)?;
        }
        Ok(())
    })?;
    let mut cancel = Vec::new();
    cancel_request(&mut cancel, Version::V1_2, Endian::NATIVE, 77);
    for _ in 0..10 {
        scene.rest(clock::SECOND / 20)?;
        held.iter_mut().try_for_each(|foe| foe.stream.write_all(&cancel))?;
    }
    Ok(())
}

fn bindings(scene: &mut Scene) -> Result<()> {
    let mut foe = scene.connect()?;
    let naming = Object::named("NameService");
    let far = reference(scene.from, 1, &vec![b'x'; 60_000]);
    let tag = clock::now();
    scene.repeat(1_000, |number| {
        let name = vec![NameComponent::new(&format!("hostile-{tag}-{number}"))];
        foe.call(&naming, "bind", &(name, &far)).map(drop)
    })
}

fn types(scene: &mut Scene) -> Result<()> {
    scene.on_channel(|scene, foe, channel| {
        let (tag, long) = (clock::now(), "d".repeat(200));
        scene.repeat(50, |number| {
            let proxy = foe.new_proxy(channel, PUSHED)?;
            let named = |place| EventType::new(&format!("{tag}-{number}-{place}-{long}"), "t");
            let types: Vec<EventType> = (0..1_000).map(named).collect();
            foe.call(&proxy, "subscription_change", &(types, Vec::<EventType>::new())).map(drop)
        })
    })
}

fn constraints(scene: &mut Scene) -> Result<()> {
    scene.on_channel(|scene, foe, channel| {
        let factory = foe.object(channel, "_get_default_filter_factory")?;
        scene.repeat(57, |number| {
            let filter = foe.call(&factory, "create_filter", "EXTENDED_TCL")?.object()?;
            let terms: Vec<String> = (0..400).map(|term| format!("$a{term} == {number}")).collect();
            let one = |place| ConstraintExp::new(&format!("$n == {place} or {}", terms.join(" or ")));
            foe.call(&filter, "add_constraints", &(0..35).map(one).collect::<Vec<_>>()).map(drop)
        })
    })
}

fn channels(scene: &mut Scene) -> Result<()> {
    let mut foe = scene.connect()?;
    let mut made = Vec::new();
    let done = scene.repeat(200, |_| {
        made.push(foe.new_channel()?);
        Ok(())
    });
    for channel in &made {
        foe.call(channel, "destroy", &())?;
    }
    done
}

fn connections(scene: &mut Scene) -> Result<()> {
    let _held = scene.hold(2_000, |_| Ok(()))?;
    scene.rest(clock::SECOND / 4)
}

fn listeners(scene: &mut Scene) -> Result<()> {
    scene.on_channel(|scene, foe, channel| {
        let (from, mut all) = (scene.from, Vec::new());
        scene.repeat(200, |_| {
            let listener = listen(from)?;
            let consumer = reference(from, listener.local_addr()?.port(), b"one of many");
            all.push(listener);
            foe.new_client(channel, PUSHED, Some(&consumer)).map(drop)
        })?;
        flood(scene, channel, 100)
    })
}

/// A consumer that answers each push with `LOCATION_FORWARD` to a proxy of the same channel, so that its events go round.
fn forwards(scene: &mut Scene) -> Result<()> {
    scene.on_channel(|scene, foe, channel| {
        let (listener, service) = (listen(scene.from)?, scene.target.service);
        let target = foe.new_client(channel, PUSHING, None)?;
        let back = reference(service.ip(), service.port(), &target.key);
        let consumer = reference(scene.from, listener.local_addr()?.port(), b"round and round");
        foe.new_client(channel, PUSHED, Some(&consumer))?;
        foe.stream.write_all(PushMessage::new(&target.key, 100).bytes())?;
        serve(scene, &listener, false, |_, header, request, reply| {
            write_reply(reply, (header, request), ReplyStatus::LocationForward, &back)
        })
    })
}

/// The next connection that the service opens to here.
fn accept(scene: &Scene, listener: &TcpListener) -> Result<TcpStream> {
    loop {
        match listener.accept() {
            Ok((mut stream, _)) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(std::time::Duration::from_millis(500)))?;
                stream.set_write_timeout(Some(std::time::Duration::from_millis(100)))?;
                // The service asks first whether GIOP is spoken there.
                let (header, bytes) = read_message(&mut stream)?;
                if let Ok(locate) = LocateRequest::parse(&bytes, &header) {
                    wire::answer_locate(&mut stream, &header, locate.request_id)?;
                }
                return Ok(stream);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock && scene.goes_on() => {
                scene.rest(clock::SECOND / 1_000)?
            }
            Err(error) => return Err(error),
        }
    }
}

/// Answers what the service asks over a connection that it opens to here, until the time is over, or it asks nothing for long if that is
/// not awaited.
pub(super) fn serve(
    scene: &mut Scene,
    listener: &TcpListener,
    is_patient: bool,
    reply: impl Fn(&Scene, &Header, &Request<'_>, &mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    let mut called = accept(scene, listener)?;
    while scene.goes_on() {
        let (header, bytes) = match read_message(&mut called) {
            Err(error) if is_patient && matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            message => message?,
        };
        let Ok(request) = Request::parse(&bytes, &header) else { continue };
        let mut answer = Vec::new();
        reply(scene, &header, &request, &mut answer)?;
        called.write_all(&answer)?;
        scene.tries += 1;
    }
    Ok(())
}

fn write_reply(
    reply: &mut Vec<u8>,
    (header, request): (&Header, &Request<'_>),
    status: ReplyStatus,
    body: &impl Marshal,
) -> Result<()> {
    let (version, request_id) = (header.version, request.request_id);
    let open = begin_reply(reply, &ReplyHead { version, endian: Endian::NATIVE, request_id, status, contexts: &[] });
    body.marshal(&mut open.body(reply, CharSet::Latin1)).map_err(bad)?;
    open.finish(reply);
    Ok(())
}

fn suppliers(scene: &mut Scene) -> Result<()> {
    scene.on_channel(|scene, foe, channel| {
        let listener = listen(scene.from)?;
        let supplier = reference(scene.from, listener.local_addr()?.port(), b"generous");
        foe.new_client(channel, Kind("sequence", "pull", "supplier"), Some(&supplier))?;
        // No names, no properties, no data, an Any of nothing.
        let events = vec![(("", "", ""), (0_u32, 0_u32, 0_u32)); 100_000];
        serve(scene, &listener, false, |_, header, request, reply| {
            let to = (header, request);
            match request.operation {
                b"try_pull_structured_events" => write_reply(reply, to, ReplyStatus::NoException, &(&events, true)),
                b"pull_structured_events" => write_reply(reply, to, ReplyStatus::NoException, &events),
                _ => {
                    wire::write_answer(reply, header, request);
                    Ok(())
                }
            }
        })
    })
}

fn mistakes(scene: &mut Scene) -> Result<()> {
    scene.on_channel(|scene, foe, channel| {
        let factory = foe.object(channel, "_get_default_filter_factory")?;
        let filter = foe.call(&factory, "create_filter", "EXTENDED_TCL")?.object()?;
        let wrong = vec![ConstraintExp::new("$a == == 'a'")];
        scene.repeat(500, |_| match foe.call(&filter, "add_constraints", &wrong) {
            // An exception is what is wanted; a connection that is closed is not.
            Err(error) if error.kind() != ErrorKind::Other => Err(error),
            _ => Ok(()),
        })
    })
}

fn garbage(scene: &mut Scene) -> Result<()> {
    let (from, service) = (scene.from, scene.target.service);
    let mut state = clock::now() | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    scene.repeat(100, |number| {
        let mut foe = Foe::connect(from, service)?;
        let mut bytes = if number % 2 == 0 { Vec::new() } else { b"GIOP\x01\x02\x01\x00\x00\x04\x00\x00".to_vec() };
        (0..128).for_each(|_| bytes.extend(next()));
        foe.stream.write_all(&bytes)
    })
}

fn deaths(scene: &mut Scene) -> Result<()> {
    let mut foe = scene.connect()?;
    let channel = Object::named("DefaultEventChannel");
    let listener = listen(scene.from)?;
    let consumer = reference(scene.from, listener.local_addr()?.port(), b"mortal");
    foe.new_client(&channel, PUSHED, Some(&consumer))?;
    let proxy = foe.new_client(&channel, PUSHING, None)?;
    let push = PushMessage::new(&proxy.key, 20_000);
    foe.stream.write_all(push.bytes())?;
    let mut called = accept(scene, &listener)?;
    scene.tries += 2;
    // It takes part of what it is given, and sends part of what it would say.
    let mut part = [0; 5_000];
    std::io::Read::read_exact(&mut called, &mut part)?;
    foe.stream.write_all(push.bytes().get(..10_000).unwrap_or_default())?;
    drop((called, foe, listener));
    scene.rest(clock::SECOND / 50)
}

//! `campanile tempo probe`.

use super::meeting::{self, MISSED_AFTER, failure, meet, time};
use crate::args::TempoProbeOptions;
use crate::failure::Failure;
use crate::json;
use crate::signals::{Waiter, Wake};
use client::tempo::wire::{Frame, Payload};
use client::tempo::{Node, now};
use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

/// Maximum echoes waiting to be printed; further ones are left out.
const ECHOES_MAX: usize = 1_024;
/// Interval in which echoes are checked.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The echo of a probe.
#[derive(Clone, Copy)]
struct Echo {
    prober: u32,
    number: u32,
    by: u32,
    from: SocketAddr,
    took: Duration,
}

/// Sends probes until enough echoes came, time is up or a signal asks to stop.
pub(crate) fn run(options: &TempoProbeOptions) -> Result<(), Failure> {
    let waiter = Waiter::install().map_err(Failure::message)?;
    let (sender, echoes) = sync_channel(ECHOES_MAX);
    // Shared, since an address that is taken is tried in another way.
    let tap = move |from: SocketAddr, mut octets: &[u8]| {
        let now = now();
        while let Ok((frame, count)) = Frame::read(octets) {
            if let Payload::Echo(probe) = frame.payload {
                let took = Duration::from_nanos(now.saturating_sub(probe.sent));
                let echo = Echo { prober: probe.prober, number: probe.number, by: probe.echoed_by, from, took };
                // A flood of echoes is not printed in full.
                let _ = sender.try_send(echo);
            }
            octets = octets.get(count..).unwrap_or_default();
        }
    };
    let meeting = meet(options.to.as_ref(), |builder| {
        let builder = meeting::with_tls(&options.tls)(meeting::on_network(options.interface)(builder));
        builder.period(options.interval).tap(tap.clone())
    })?;
    let publisher = meeting.node.publisher(&options.topic).open().map_err(|error| failure(&error))?;
    eprintln!("campanile: probing {} at {}; Ctrl-C ends", options.topic, meeting.address);
    let began = Instant::now();
    let mut probing = Probing { options, node: &meeting.node, echo_times: BTreeMap::new(), echoes: 0 };
    let mut is_missed = false;
    loop {
        probing.print(&echoes)?;
        if options.count.is_some_and(|count| probing.echoes >= count)
            || options.wait.is_some_and(|wait| began.elapsed() >= wait)
        {
            break;
        }
        if let Some(Wake::Signal | Wake::HangUp) = waiter.wait(Some(LOOK_EVERY)) {
            break;
        }
        if !is_missed && publisher.subscribers().is_empty() && began.elapsed() > MISSED_AFTER {
            is_missed = true;
            let trouble = meeting.trouble();
            eprintln!("campanile: no subscriber of {} has been heard; still probing{trouble}", options.topic);
        }
    }
    drop(publisher);
    probing.summary()
}

struct Probing<'p> {
    options: &'p TempoProbeOptions,
    node: &'p Node,
    echo_times: BTreeMap<u32, EchoTimes>,
    echoes: u64,
}

#[derive(Clone, Copy)]
struct EchoTimes {
    from: SocketAddr,
    least: Duration,
    most: Duration,
    sum: Duration,
    count: u32,
}

impl Probing<'_> {
    fn print(&mut self, echoes: &Receiver<Echo>) -> Result<(), Failure> {
        let is_terminal = io::stdout().is_terminal();
        loop {
            let echo = match echoes.try_recv() {
                // The echo is another prober's, of the same group.
                Ok(echo) if echo.prober != self.node.session() => continue,
                Ok(echo) => echo,
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return Ok(()),
            };
            if self.options.count.is_some_and(|count| self.echoes >= count) {
                return Ok(());
            }
            self.echoes += 1;
            let Echo { number, by, from, took, .. } = echo;
            let times = self.echo_times.entry(by).or_insert(EchoTimes {
                from,
                least: took,
                most: took,
                sum: Duration::ZERO,
                count: 0,
            });
            times.least = times.least.min(took);
            times.most = times.most.max(took);
            times.sum += took;
            times.count += 1;
            let us = took.as_nanos() / 1_000;
            let line = match (self.options.json, is_terminal) {
                (true, _) => {
                    let mut line = String::new();
                    let object = json::Object::new(&mut line).member("subscriber", format!("{by:08x}"));
                    object.member("address", from).member("number", number).member("delay_us", us).end();
                    line + "\n"
                }
                (false, true) => format!("subscriber {by:08x} at {from}: probe {number}, {}\n", time(took)),
                (false, false) => format!("{by:08x}\t{from}\t{number}\t{us}\n"),
            };
            io::stdout().write_all(line.as_bytes())?;
        }
    }

    fn summary(&self) -> Result<(), Failure> {
        for (subscriber, times) in &self.echo_times {
            let EchoTimes { from, least, most, sum, count } = times;
            let mean = sum.checked_div(*count).unwrap_or_default();
            eprintln!(
                "campanile: {subscriber:08x} at {from}: echoes {count}, least {}, mean {}, most {}",
                time(*least),
                time(mean),
                time(*most)
            );
        }
        if self.echoes == 0 {
            return Err(Failure::Message(format!(
                "no probe came back: {} has no subscriber there, or none that echoes",
                self.options.topic
            )));
        }
        Ok(())
    }
}

//! Zenoh alone, through the same cuts as a link: a publisher in this process, a subscriber in another one, and a [`Line`] between.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use load::campanile::setup;
use load::process::{Subordinate, json as of_json, say_answer, say_started};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use zenoh::qos::CongestionControl;
use zenoh::{Config, Session, Wait};

use super::line::Line;
use super::{CUT_RATE, CUTS, Means, joined};
use crate::loss::{Ledger, Losses};
use crate::persistent::own_address;
use crate::{BenchError, Options, Output, clock};

/// The name of the hidden sub-command.
pub(crate) const COMMAND: &str = "links-zenoh";
const KEY: &str = "bench/links";
/// The number of a message that is no event, and shows that events flow again.
const MARK: u64 = u64::MAX;
/// How long that may take.
const FLOWS_WITHIN: u64 = 20 * clock::SECOND;

/// An order to the subscriber.
#[derive(Serialize, Deserialize)]
enum Order {
    Listen(SocketAddr),
    /// Say which mark came last, and what became of so many events.
    Tell(u64),
}

/// Runs the subscriber until its input ends.
pub(crate) fn run_process(out: &mut Output<'_>) -> Result<(), BenchError> {
    say_started(out)?;
    let (got, mut sessions) = (Arc::<Mutex<(u64, Ledger)>>::default(), Vec::new());
    for line in io::stdin().lines() {
        let line = line.map_err(BenchError::io("reading an order"))?;
        match serde_json::from_str(&line).map_err(of_json("reading an order"))? {
            Order::Listen(at) => {
                let (session, got) = (session("router", "listen", at)?, Arc::clone(&got));
                let take = move |payload: &[u8]| {
                    let mut words = payload.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word));
                    let mut got = got.lock().unwrap_or_else(PoisonError::into_inner);
                    match (words.next(), words.next()) {
                        (Some(MARK), Some(round)) => got.0 = round,
                        // A number that cannot be one is missed in the end.
                        (Some(number), _) => {
                            let _ = got.1.enter(number);
                        }
                        (None, _) => {}
                    }
                };
                let subscriber = session.declare_subscriber(KEY);
                let subscriber = subscriber.callback(move |sample| take(&sample.payload().to_bytes()));
                subscriber.background().wait().map_err(setup("subscribing in Zenoh"))?;
                sessions.push(session);
                say_answer(out, &())?;
            }
            Order::Tell(sent) => {
                let (mark, ledger) = &*got.lock().unwrap_or_else(PoisonError::into_inner);
                say_answer(out, &(mark, ledger.balance(sent)))?;
            }
        }
    }
    Ok(())
}

/// A session with one end point, and all else as it is by default, but that others are not looked for.
fn session(mode: &str, does: &str, at: SocketAddr) -> Result<Session, BenchError> {
    let mut config = Config::default();
    let (scouts, ends) =
        (["multicast", "gossip"].map(|how| format!("scouting/{how}/enabled")), format!("{does}/endpoints"));
    let [multicast, gossip] = scouts.each_ref().map(|key| (key.as_str(), "false".to_owned()));
    for (key, value) in [("mode", format!("{mode:?}")), multicast, gossip, (&*ends, format!("[\"tcp/{at}\"]"))] {
        config.insert_json5(key, &value).map_err(setup("configuring Zenoh"))?;
    }
    zenoh::open(config).wait().map_err(setup("opening a session of Zenoh"))
}

/// What is put, and how often it was.
struct Publisher {
    session: Session,
    payload: Vec<u8>,
    sent: u64,
}

impl Publisher {
    /// Puts what has these words at its beginning.
    fn put(&self, words: [u64; 2]) -> Result<(), BenchError> {
        let words = words.map(u64::to_ne_bytes);
        let rest = self.payload.get(words.as_flattened().len()..).unwrap_or_default();
        let put = self.session.put(KEY, [words.as_flattened(), rest].concat());
        put.congestion_control(CongestionControl::Block).wait().map_err(setup("publishing in Zenoh"))
    }

    /// Puts events when they are due; what is late leaves at once.
    fn run(&mut self, turn_ns: u64) -> Result<(), BenchError> {
        let (mut due, until) = (clock::now(), clock::now() + turn_ns);
        while due < until && clock::now() < until {
            clock::sleep_until(due)?;
            self.put([self.sent, 0])?;
            self.sent += 1;
            due += clock::SECOND / CUT_RATE;
        }
        Ok(())
    }

    /// Events that were lost. What was put before a mark that has come does not come any more.
    fn lost(&self, subscriber: &mut Subordinate, round: u64) -> Result<u64, BenchError> {
        let give_up = clock::now() + FLOWS_WITHIN;
        loop {
            self.put([MARK, round])?;
            clock::sleep_until(clock::now() + clock::SECOND / 50)?;
            let (mark, losses): (u64, Losses) = subscriber.ask(&Order::Tell(self.sent))?;
            if mark == round || clock::now() > give_up {
                return Ok(losses.lost);
            }
        }
    }
}

/// Cuts the line in each way, and counts what was lost meanwhile.
pub(super) fn cuts(options: &Options) -> Result<Value, BenchError> {
    let at = SocketAddr::from((own_address(), 2817));
    let mut subscriber = Subordinate::start("a subscriber in Zenoh", COMMAND, None, None)?;
    subscriber.ask::<()>(&Order::Listen(at))?;
    let line = Line::to(at)?;
    let session = session("client", "connect", line.address)?;
    let mut publisher = Publisher { session, payload: vec![0; options.payload as usize], sent: 0 };
    let (mut lost, mut rows) = (publisher.lost(&mut subscriber, 1)?, Vec::new());
    // This process is not stopped.
    for (cut, round) in CUTS.iter().filter(|cut| cut.means != Means::Near).zip(2..) {
        let (lasts_ns, sent, pid) = (cut.lasts(options)?, publisher.sent, subscriber.pid());
        thread::scope(|scope| {
            let publishing = scope.spawn(|| publisher.run(lasts_ns + 2 * clock::SECOND));
            cut.make(lasts_ns, (&line, pid, pid), || ())?;
            joined(publishing)?
        })?;
        let before = std::mem::replace(&mut lost, publisher.lost(&mut subscriber, round)?);
        rows.push(json!({"cut": cut.name, "events": publisher.sent - sent, "lost": lost.saturating_sub(before)}));
    }
    Ok(json!({"sent": publisher.sent, "lost": lost, "cuts": rows}))
}

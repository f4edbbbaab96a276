//! Zenoh: a publisher in this process, a subscriber in another one.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use load::campanile::setup;
use load::process::{Subordinate, take_orders};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use zenoh::qos::CongestionControl;
use zenoh::{Config, Session, Wait};

use super::{Carrier, Got};
use crate::links::line::Line;
use crate::loss::Losses;
use crate::persistent::own_address;
use crate::{BenchError, Options, Output};

pub(crate) const COMMAND: &str = "links-zenoh";
const KEY: &str = "bench/links";

/// An order to the subscriber.
#[derive(Serialize, Deserialize)]
enum Order {
    Listen(SocketAddr),
    /// Say which mark came last, and what became of so many events.
    Tell(u64),
}

/// Runs the subscriber until its input ends.
pub(crate) fn run_process(out: &mut Output<'_>) -> Result<(), BenchError> {
    let (got, mut sessions) = (Arc::<Mutex<Got>>::default(), Vec::new());
    take_orders(out, |order| match order {
        Order::Listen(at) => {
            let (session, got) = (session("router", "listen", at)?, Arc::clone(&got));
            let take = move |payload: &[u8]| got.lock().unwrap_or_else(PoisonError::into_inner).enter(payload);
            let subscriber = session.declare_subscriber(KEY);
            let subscriber = subscriber.callback(move |sample| take(&sample.payload().to_bytes()));
            subscriber.background().wait().map_err(setup("subscribing in Zenoh"))?;
            sessions.push(session);
            Ok(Value::Null)
        }
        Order::Tell(sent) => {
            let got = got.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(json!((got.round, got.ledger.balance(sent))))
        }
    })
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

struct Zenoh {
    session: Session,
    subscriber: Subordinate,
}

impl Carrier for Zenoh {
    fn put(&mut self, payload: &[u8]) -> Result<(), BenchError> {
        let put = self.session.put(KEY, payload).congestion_control(CongestionControl::Block);
        put.wait().map_err(setup("publishing in Zenoh"))
    }

    fn came(&mut self, sent: u64) -> Result<(u64, Losses), BenchError> {
        self.subscriber.ask(&Order::Tell(sent))
    }

    fn far(&self) -> u32 {
        self.subscriber.pid()
    }
}

/// What is lost while the line is cut in each way.
pub(in crate::links) fn cuts(options: &Options) -> Result<Value, BenchError> {
    let at = SocketAddr::from((own_address(), 2817));
    let mut subscriber = Subordinate::start("a subscriber in Zenoh", COMMAND, None, None)?;
    subscriber.ask::<()>(&Order::Listen(at))?;
    let line = Line::to(at)?;
    let session = session("client", "connect", line.address)?;
    super::cuts(options, &line, &mut Zenoh { session, subscriber })
}

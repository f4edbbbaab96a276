//! Carriers alone, without links of ours, through the same cuts: what they lose.

pub(super) mod nats;
#[cfg(feature = "zenoh")]
pub(crate) mod zenoh;

use std::thread;

use serde_json::{Value, json};

use super::line::Line;
use super::{CUT_RATE, CUTS, Means, joined};
use crate::loss::{Ledger, Losses};
use crate::{BenchError, Options, clock};

/// The number of a message that is no event, and shows that events flow again.
const MARK: u64 = u64::MAX;
/// How long that may take.
const FLOWS_WITHIN: u64 = 20 * clock::SECOND;

/// A publisher before the line and a subscriber behind it.
trait Carrier: Send {
    /// Publishes a message of this process.
    fn put(&mut self, payload: &[u8]) -> Result<(), BenchError>;
    /// The round of the last mark that came, and what became of so many events.
    fn came(&mut self, sent: u64) -> Result<(u64, Losses), BenchError>;
    /// The process that is stopped at the far end.
    fn far(&self) -> u32;
}

/// What the subscriber got.
#[derive(Default)]
struct Got {
    round: u64,
    ledger: Ledger,
}

impl Got {
    fn enter(&mut self, payload: &[u8]) {
        let mut words = payload.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word));
        match (words.next(), words.next()) {
            (Some(MARK), Some(round)) => self.round = round,
            // A number that cannot be one is missed in the end.
            (Some(number), _) => {
                let _ = self.ledger.enter(number);
            }
            (None, _) => {}
        }
    }
}

/// What is published, and how much it was.
struct Publisher<'c> {
    carrier: &'c mut dyn Carrier,
    payload: Vec<u8>,
    sent: u64,
}

impl Publisher<'_> {
    /// Publishes what has these words at its beginning.
    fn put(&mut self, words: [u64; 2]) -> Result<(), BenchError> {
        self.payload.iter_mut().zip(words.map(u64::to_ne_bytes).as_flattened()).for_each(|(to, from)| *to = *from);
        self.carrier.put(&self.payload)
    }

    /// Publishes events when they are due; what is late leaves at once.
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

    /// Events that were lost. What was published before a mark that has come does not come any more.
    fn lost(&mut self, round: u64) -> Result<u64, BenchError> {
        let give_up = clock::now() + FLOWS_WITHIN;
        loop {
            self.put([MARK, round])?;
            clock::sleep_until(clock::now() + clock::SECOND / 50)?;
            let (last, losses) = self.carrier.came(self.sent)?;
            if last == round || clock::now() > give_up {
                return Ok(losses.lost);
            }
        }
    }
}

/// Cuts the line in each way, and counts what was lost meanwhile.
fn cuts(options: &Options, line: &Line, carrier: &mut dyn Carrier) -> Result<Value, BenchError> {
    let far = carrier.far();
    let set_line = |flow| {
        line.set(flow);
        Ok(())
    };
    let payload = vec![0; (options.payload as usize).max(size_of::<[u64; 2]>())];
    let mut publisher = Publisher { carrier, payload, sent: 0 };
    let (mut lost, mut rows) = (publisher.lost(1)?, Vec::new());
    // The near side is not stopped.
    for (cut, round) in CUTS.iter().filter(|cut| cut.means != Means::Near).zip(2..) {
        let (lasts_ns, sent) = (cut.lasts(options)?, publisher.sent);
        thread::scope(|scope| {
            let publishing = scope.spawn(|| publisher.run(lasts_ns + 2 * clock::SECOND));
            cut.make(lasts_ns, (&set_line, far, far), || Ok(()))?;
            joined(publishing)?
        })?;
        let before = std::mem::replace(&mut lost, publisher.lost(round)?);
        rows.push(json!({"cut": cut.name, "events": publisher.sent - sent, "lost": lost.saturating_sub(before)}));
    }
    Ok(json!({"sent": publisher.sent, "lost": lost, "cuts": rows}))
}

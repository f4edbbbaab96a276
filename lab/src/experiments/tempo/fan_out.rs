//! `campanile-bench tempo-fan-out`: one publisher and a hundred subscribers, each an end point of its own: by datagrams to each, to a
//! multicast group, and through a broker over UDP and TCP. How long a message takes to a subscriber, and to the last of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::ends::Transport;
use super::tempo_ends::{self, Crowd};
use super::{Broker, after, take_seat};
use crate::experiments::Bed;
use crate::latency::Recorder;
use crate::report::{Aim, Reported};
use crate::{BenchError, Options, Output, clock};

const SUBSCRIBERS: u32 = 100;
const RATE: f64 = 100.0;

/// When each message came to its subscribers.
#[derive(Debug)]
pub(super) struct Arrivals {
    sent: Vec<AtomicU64>,
    last: Vec<AtomicU64>,
    came: AtomicU64,
    latency: std::sync::Mutex<Recorder>,
}

impl Arrivals {
    fn of(messages: usize) -> Arc<Self> {
        let zeros = || (0..messages).map(|_| AtomicU64::new(0)).collect();
        let latency = std::sync::Mutex::new(Recorder::default());
        Arc::new(Self { sent: zeros(), last: zeros(), came: AtomicU64::new(0), latency })
    }

    /// Takes a message that reached one of the subscribers.
    pub(super) fn take(&self, payload: &[u8]) {
        let now = clock::now();
        let Some((sent, rest)) = payload.split_first_chunk::<8>() else { return };
        let Some(number) = rest.first_chunk::<8>() else { return };
        let (sent, number) = (u64::from_le_bytes(*sent), u64::from_le_bytes(*number));
        let Some((first, last)) = usize::try_from(number).ok().and_then(|at| self.sent.get(at).zip(self.last.get(at)))
        else {
            return;
        };
        // The numbers are looked at when all is over.
        first.store(sent, Ordering::Relaxed);
        last.fetch_max(now, Ordering::Relaxed);
        self.came.fetch_add(1, Ordering::Relaxed);
        let mut latency = self.latency.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        latency.record(now.saturating_sub(sent));
    }
}

pub(crate) fn measure(bed: &Bed, options: &Options, out: &mut Output<'_>) -> Reported {
    let (_, seconds) = bed.times(options, (0.0, 2.0), (0.0, 20.0));
    let broker = Broker::start(bed)?;
    take_seat(bed)?;
    let (mut aims, mut rows) = (Vec::new(), Vec::new());
    let group = SocketAddr::from(([239, 255, 28, 11], super::free_address()?.port()));
    for (mode, transport, through) in [
        ("peer", Transport::Udp, None),
        ("multicast", Transport::Udp, Some(group)),
        ("broker", Transport::Udp, Some(broker.address)),
        ("broker", Transport::Tcp, Some(broker.address)),
    ] {
        out.progress(&format!("{mode} over {}", transport.name()))?;
        let ((messages, lost), row) = row(bed, (mode, transport, through), seconds)?;
        aims.push(Aim::new(
            format!("{mode} over {}: a hundred subscribers miss nothing", transport.name()),
            format!("{lost} deliveries missing of {messages} messages to each"),
            lost == 0,
        ));
        rows.push(row);
    }
    Ok((aims, json!({"rows": rows})))
}

/// Messages, how many deliveries are missing, and all figures.
fn row(
    bed: &Bed,
    (mode, transport, through): (&'static str, Transport, Option<SocketAddr>),
    seconds: f64,
) -> Result<((usize, u64), Value), BenchError> {
    take_seat(bed)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some thousands at most")]
    let messages = (RATE * seconds) as usize;
    let arrivals = Arrivals::of(messages);
    let taking = Arc::clone(&arrivals);
    let Crowd { publisher, subscribers: _subscribers } =
        Crowd::connect(transport, through, (mode, SUBSCRIBERS), move |message| taking.take(message))?;
    let mut due = clock::now() + clock::nanoseconds(1.0 / RATE);
    for number in 0..messages as u64 {
        clock::sleep_until(due)?;
        let mut payload = [0; super::ends::PAYLOAD];
        for (to, from) in payload.iter_mut().zip(clock::now().to_le_bytes().iter().chain(&number.to_le_bytes())) {
            *to = *from;
        }
        tempo_ends::publish(&publisher, &[payload])?;
        due += clock::nanoseconds(1.0 / RATE);
    }
    let expected = messages as u64 * u64::from(SUBSCRIBERS);
    let until = after(5.0);
    while arrivals.came.load(Ordering::Relaxed) < expected && clock::now() < until {
        clock::sleep_until(clock::now() + clock::SECOND / 100)?;
    }
    let mut last = Recorder::default();
    for (sent, came) in arrivals.sent.iter().zip(&arrivals.last) {
        let (sent, came) = (sent.load(Ordering::Relaxed), came.load(Ordering::Relaxed));
        if sent > 0 {
            last.record(came.saturating_sub(sent));
        }
    }
    let all = arrivals.latency.lock().unwrap_or_else(std::sync::PoisonError::into_inner).percentiles();
    let (all, last) = (all.unwrap_or_default(), last.percentiles().unwrap_or_default());
    let lost = expected.saturating_sub(arrivals.came.load(Ordering::Relaxed));
    let row = json!({
        "mode": mode, "transport": transport.name(), "subscribers": SUBSCRIBERS, "messages": messages, "lost": lost,
        "p50_us": all.median, "p99_us": all.p99, "last_p50_us": last.median, "last_p99_us": last.p99,
    });
    Ok(((messages, lost), row))
}

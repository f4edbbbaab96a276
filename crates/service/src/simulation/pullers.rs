//! Simulated consumers that pull: each obtains a proxy, asks for events now and then or waits for them, and leaves.

use core::time::Duration;
use std::net::IpAddr;

use client::notify::StructuredEvent;
use fastrand::Rng;
use giop::cdr::{Endian, ReadError, Reader};
use giop::message::ReplyStatus;

use super::obtaining::{Awaited, Obtaining};
use super::sockets::SERVICE;
use super::taken::Taken;
use super::wire::{Answered, Asker, net};

pub(super) struct Puller {
    number: usize,
    asker: Option<Asker<Awaited>>,
    obtaining: Obtaining,
    /// Maximum unanswered requests.
    window: usize,
    due: Duration,
    pause: Duration,
    /// Whether its last request found no event: it waits for the next.
    found_nothing: bool,
    /// Number of connections that it will still reset.
    resets: u32,
    is_leaving: bool,
    pub(super) is_done: bool,
    pub(super) taken: Taken,
    pub(super) answers: u64,
}

/// Maximum events in a request for several.
const BATCH_MAX: u32 = 5;

impl Puller {
    pub(super) fn new(number: usize, rng: &mut Rng) -> Self {
        let mut taken = Taken::new(format!("pull consumer {number}"), rng);
        let window = if rng.bool() { 1 } else { rng.usize(2..4) };
        taken.is_in_order = window == 1;
        Self {
            number,
            asker: None,
            obtaining: Obtaining::new(true, rng.u8(0..3) == 0, None, taken.constraint()),
            window,
            due: Duration::from_micros(rng.u64(0..10_000)),
            pause: Duration::from_micros(rng.u64(1..4_000)),
            found_nothing: false,
            resets: if rng.u8(0..3) == 0 { rng.u32(1..4) } else { 0 },
            is_leaving: false,
            is_done: false,
            taken,
            answers: 0,
        }
    }

    fn begins(&self) -> bool {
        self.asker.is_none() && !self.is_done
    }

    fn may_ask(&self) -> bool {
        let has_room = self.asker.as_ref().is_some_and(|asker| asker.waiting() < self.window);
        self.taken.since.is_some() && !self.is_leaving && has_room
    }

    pub(super) fn is_ready(&self, now: Duration) -> bool {
        let is_due = self.due <= now && (self.begins() || self.may_ask());
        is_due || self.asker.as_ref().is_some_and(|asker| asker.wire.is_ready())
    }

    pub(super) fn next_due(&self) -> Option<Duration> {
        (self.begins() || self.may_ask()).then_some(self.due)
    }

    pub(super) fn step(&mut self, rng: &mut Rng) -> Result<(), String> {
        let now = net(|net| net.time());
        if self.begins() && self.due <= now {
            let ip = IpAddr::from([10, 0, 3, u8::try_from(self.number).unwrap()]);
            let mut asker = Asker::connect(ip, SERVICE, if rng.bool() { Endian::Big } else { Endian::Little });
            if self.taken.since.is_none() {
                self.obtaining.begin(&mut asker);
            }
            self.asker = Some(asker);
        }
        let answers = self.asker.as_mut().map_or_else(|| Ok(Vec::new()), Asker::answers)?;
        for answered in answers {
            self.take(&answered).map_err(|wrong| format!("{}: {wrong}", self.taken.name))?;
        }
        if self.asker.as_ref().is_some_and(|asker| asker.wire.is_gone) && !self.is_done {
            return Err(format!("{} has lost its connection", self.taken.name));
        }
        if self.may_ask() && self.due <= now {
            self.ask_or_reset(now, rng);
        }
        Ok(())
    }

    fn take(&mut self, answered: &Answered<Awaited>) -> Result<(), String> {
        let Some(asker) = &mut self.asker else { return Ok(()) };
        match answered.what {
            Awaited::Gone => {
                self.is_done = true;
                self.asker = None;
            }
            // A pending pull is answered with an exception when its proxy is gone.
            Awaited::Events(..) if self.is_leaving && answered.status == ReplyStatus::UserException => {}
            Awaited::Events(most, waits) if answered.status == ReplyStatus::NoException => {
                self.answers += 1;
                let (events, has_some) = answered.read(|reader| self.read_events(reader, waits))?;
                if events.len() > most as usize || (waits && events.is_empty()) {
                    return Err(format!("{} events come where {most} at most were asked for", events.len()));
                }
                self.found_nothing = !has_some;
                for event in events.iter().filter(|_| has_some) {
                    self.taken.add_next(&event.event_name)?;
                }
            }
            _ => {
                if self.obtaining.go_on(answered, asker)? {
                    self.taken.since = Some(net(|net| net.time()));
                }
            }
        }
        Ok(())
    }

    /// Events of an answer, and whether there are any, as the answer to a pull that does not wait says.
    fn read_events(&self, reader: &mut Reader<'_>, waits: bool) -> Result<(Vec<StructuredEvent>, bool), String> {
        let read = |reader: &mut Reader<'_>| -> Result<_, ReadError> {
            let events = if self.obtaining.is_sequence {
                let count = reader.seq_len(24)?;
                (0..count).map(|_| StructuredEvent::read(reader)).collect::<Result<Vec<_>, _>>()?
            } else {
                vec![StructuredEvent::read(reader)?]
            };
            let has_some = waits || reader.bool()?;
            Ok((events, has_some))
        };
        read(reader).map_err(|error| format!("an answer that cannot be read: {error:?}"))
    }

    fn ask_or_reset(&mut self, now: Duration, rng: &mut Rng) {
        self.due = now + Duration::from_nanos(rng.u64(0..=u64::try_from(2 * self.pause.as_nanos()).unwrap()));
        if self.resets > 0 && rng.u8(0..12) == 0 {
            self.resets -= 1;
            let Some(mut asker) = self.asker.take() else { return };
            // Answers that the socket had taken are lost with it.
            self.taken.excused += asker.waiting() * BATCH_MAX as usize;
            asker.wire.reset();
            return;
        }
        let Some(asker) = &mut self.asker else { return };
        let waits = self.found_nothing || rng.u8(0..3) == 0;
        let most = if self.obtaining.is_sequence { rng.u32(1..=BATCH_MAX) } else { 1 };
        let (tried, several) = (if waits { "" } else { "try_" }, if self.obtaining.is_sequence { "s" } else { "" });
        let operation = format!("{tried}pull_structured_event{several}");
        asker.ask(Some(Awaited::Events(most, waits)), &self.obtaining.proxy, &operation, |w| {
            if several == "s" {
                w.u32(most);
            }
        });
    }

    /// Disconnects it from its proxy.
    pub(super) fn leave(&mut self) {
        self.is_leaving = true;
        if let Some(asker) = &mut self.asker {
            self.obtaining.leave(asker);
        }
    }
}

//! Round trips and throughput between two processes on this machine, for comparison with Cyclone's C interface
//! (`examples/bare.c`), which is the same program without this crate.
//!
//! ```sh
//! latency answer &
//! latency ask 250 2000 128     # round trips: so many a second, so many, octets
//! latency count &
//! latency flood 100000 128     # how many, octets
//! ```

use std::time::{Duration, Instant};

use dds::{Options, Participant, Qos, Reader, WaitSet, WriteError, Writer};
use giop::typecode::{Kind, TypeCode};

type Failure = Box<dyn std::error::Error>;

const DOMAIN: u32 = 71;

fn blob() -> TypeCode {
    let members = [
        ("number", TypeCode::primitive(Kind::ULong)),
        ("octets", TypeCode::sequence(TypeCode::primitive(Kind::Octet))),
    ];
    TypeCode::structure("IDL:bench/Blob:1.0", "Blob", &members)
}

struct End {
    participant: Participant,
    writer: Writer,
    reader: Reader,
    set: WaitSet,
}

impl End {
    fn new(writes: &str, reads: &str) -> Result<Self, Failure> {
        let participant = Participant::new(DOMAIN, &Options::loopback())?;
        let qos = Qos { blocking_max: Duration::from_secs(10), ..Qos::default() };
        let writer = participant.topic(writes, &blob())?.writer(&qos)?;
        let reader = participant.topic(reads, &blob())?.reader(&qos)?;
        let mut set = participant.wait_set()?;
        set.attach(&reader, 0)?;
        Ok(Self { participant, writer, reader, set })
    }

    fn until_met(&self) -> Result<(), Failure> {
        let mut discovery = self.participant.wait_set()?;
        discovery.attach_discovery()?;
        while self.writer.status()?.readers == 0 || self.reader.status()?.writers == 0 {
            discovery.wait(Some(Duration::from_millis(10)), &mut Vec::new())?;
            self.participant.endpoints()?;
        }
        Ok(())
    }

    /// Waits for something and shows it.
    fn next(&self, mut visit: impl FnMut(&[u8])) -> Result<usize, Failure> {
        self.set.wait(Some(Duration::from_secs(10)), &mut Vec::new())?;
        Ok(self.reader.take(64, |sample| visit(sample.cdr))?)
    }
}

fn value(number: u32, size: u32) -> Vec<u8> {
    let mut value = Vec::new();
    let mut w = giop::cdr::Writer::new(&mut value, dds::encoding());
    w.u32(number);
    w.u32(size);
    (0..size).for_each(|_| w.u8(1));
    value
}

fn number_of(cdr: &[u8]) -> u32 {
    cdr.first_chunk().map_or(0, |octets| u32::from_ne_bytes(*octets))
}

fn report(mut times: Vec<f64>) {
    times.sort_by(f64::total_cmp);
    let at = |part: usize| times.get(times.len() * part / 1000).copied().unwrap_or_default();
    eprintln!("ours: one way p50 {:.1} us, p99 {:.1} us", at(500) / 2.0, at(990) / 2.0);
}

fn answer() -> Result<(), Failure> {
    let end = End::new("Answer", "Ask")?;
    end.until_met()?;
    let mut last = 0;
    while last != u32::MAX {
        let mut failed = Ok(());
        let answer = |cdr: &[u8]| {
            last = number_of(cdr);
            if let Err(error) = end.writer.write(cdr) {
                failed = Err(error);
            }
        };
        if end.next(answer)? == 0 {
            break;
        }
        failed?;
    }
    Ok(())
}

fn ask(rate: u32, count: u32, size: u32) -> Result<(), Failure> {
    let end = End::new("Ask", "Answer")?;
    end.until_met()?;
    let (began, mut times) = (Instant::now(), Vec::new());
    for round in 0..count {
        let due = began + Duration::from_secs(1) / rate.max(1) * round;
        while Instant::now() < due {
            std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
        }
        let sent = Instant::now();
        end.writer.write(&value(round, size))?;
        let mut is_back = false;
        while !is_back {
            end.next(|cdr| is_back |= number_of(cdr) == round)?;
        }
        times.push(sent.elapsed().as_secs_f64() * 1e6);
    }
    end.writer.write(&value(u32::MAX, 0))?;
    end.next(|_| ())?;
    report(times);
    Ok(())
}

fn count() -> Result<(), Failure> {
    let end = End::new("Answer", "Ask")?;
    end.until_met()?;
    let (mut count, mut began, mut last) = (0u32, None, 0);
    while last != u32::MAX {
        end.next(|cdr| {
            last = number_of(cdr);
            began.get_or_insert_with(Instant::now);
            count += 1;
        })?;
    }
    let seconds = began.map_or(1.0, |began| began.elapsed().as_secs_f64());
    eprintln!("ours: {:.0} a second, {count} of them", f64::from(count) / seconds);
    end.writer.write(&value(0, 0))?;
    end.writer.wait_for_acknowledgments(Duration::from_secs(5))?;
    Ok(())
}

fn flood(count: u32, size: u32) -> Result<(), Failure> {
    let end = End::new("Ask", "Answer")?;
    end.until_met()?;
    let mut value = value(0, size);
    for round in (0..count).chain([u32::MAX]) {
        if let Some(number) = value.first_chunk_mut() {
            *number = round.to_ne_bytes();
        }
        while end.writer.write(&value) == Err(WriteError::Slowed) {}
    }
    end.next(|_| ())?;
    Ok(())
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).map_or(Ok(0), |word| word.parse::<u32>());
    match words.first().map(String::as_str) {
        Some("answer") => answer(),
        Some("ask") => ask(number(1)?, number(2)?, number(3)?),
        Some("count") => count(),
        Some("flood") => flood(number(1)?, number(2)?),
        _ => Err("answer | ask RATE COUNT OCTETS | count | flood COUNT OCTETS".into()),
    }
}

//! Components that several tests use.

use campanile::Event;
use campanile_component::{Failure, NeighbourChange, Neighbours, Ports, Sink, Source, Tick, Timer, component};
use std::sync::{Arc, Mutex};

#[derive(Event, Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    pub(crate) number: u64,
    pub(crate) brightness: f64,
}

#[derive(Event, Clone, Debug, PartialEq)]
pub(crate) struct Offset {
    pub(crate) number: u64,
    pub(crate) x: f64,
}

/// Sends a frame each 100 ms.
#[component]
pub(crate) struct Camera {
    #[timer("100ms")]
    shutter: Timer,
    #[source]
    frame: Source<Frame>,
    #[state]
    taken: u64,
}

impl Camera {
    fn on_shutter(&mut self, _: &Tick, _: &Ports) -> Result<(), Failure> {
        self.taken += 1;
        Ok(self.frame.send(&Frame { number: self.taken, brightness: 2.0 })?)
    }
}

/// Makes an offset of each frame.
#[component]
pub(crate) struct Guider {
    #[sink]
    frame: Sink<Frame>,
    #[source]
    offset: Source<Offset>,
    gain: f64,
}

impl Guider {
    fn on_frame(&mut self, frame: &Frame, _: &Ports) -> Result<(), Failure> {
        Ok(self.offset.send(&Offset { number: frame.number, x: self.gain * frame.brightness })?)
    }
}

thread_local! {
    /// What components on this thread have noted: tests run on threads of their own.
    static NOTED: Mutex<Vec<String>> = const { Mutex::new(Vec::new()) };
}

/// Notes a line.
pub(crate) fn note(line: String) {
    NOTED.with(|noted| noted.lock().unwrap().push(line));
}

/// The lines that were noted since the last call.
pub(crate) fn noted() -> Vec<String> {
    NOTED.with(|noted| std::mem::take(&mut *noted.lock().unwrap()))
}

/// Notes what comes, and what happens to its neighbours.
#[component]
pub(crate) struct Recorder {
    #[sink]
    frame: Sink<Frame>,
    #[sink]
    offset: Sink<Offset>,
    #[neighbours]
    peers: Neighbours,
}

impl Recorder {
    fn on_frame(&mut self, frame: &Frame, ports: &Ports) {
        note(format!("{}.{} < {}: {}", ports.instance(), ports.port(), ports.source(), frame.number));
    }

    fn on_offset(&mut self, offset: &Offset, ports: &Ports) {
        note(format!("{}.{} < {}: {} {}", ports.instance(), ports.port(), ports.source(), offset.number, offset.x));
    }

    fn on_peers(&mut self, change: &NeighbourChange, _: &Ports) {
        note(format!("{} {} {}", change.instance, change.change, change.reason).trim_end().to_owned());
    }
}

/// The changes that a server has reported, as `instance change`.
pub(crate) type Reported = Arc<Mutex<Vec<String>>>;

//! Components in Rust that a plan names in a shared object, `libdome.so#Camera`: `cargo build -p campanile-component --example dome`.

use campanile::Event;
use campanile_component::{
    Failure, Lifecycle, NeighbourChange, Neighbours, Ports, SendOptions, Sink, Source, Tick, Timer, component,
};
use std::cell::Cell;
use std::io::Write as _;
use std::time::Duration;

#[derive(Event, Clone)]
#[event(module = "observatory")]
struct Frame {
    number: u64,
    brightness: f64,
    filters: Vec<String>,
}

#[derive(Event, Clone)]
#[event(module = "observatory")]
struct Offset {
    number: u64,
    x: f64,
}

thread_local! {
    /// Where the last frame was when it was sent.
    static SENT_AT: Cell<usize> = const { Cell::new(0) };
}

/// Sends a frame each 10 ms.
#[component]
struct Camera {
    #[timer("10ms")]
    shutter: Timer,
    #[source]
    frame: Source<Frame>,
    #[property(default = 0.5)]
    brightness: f64,
    #[state]
    taken: u64,
}

impl Camera {
    fn on_shutter(&mut self, _: &Tick, _: &Ports) -> Result<(), Failure> {
        self.taken += 1;
        let frame = Frame { number: self.taken, brightness: self.brightness, filters: vec!["red".to_owned()] };
        SENT_AT.set(std::ptr::from_ref(&frame).addr());
        let options = SendOptions { priority: 7, timeout: Some(Duration::from_secs(60)) };
        Ok(self.frame.send_with(&frame, options)?)
    }
}

/// Writes what comes to a file, and panics where it is asked to.
#[component(lifecycle)]
struct Recorder {
    #[sink]
    frame: Sink<Frame>,
    #[sink]
    offset: Sink<Offset>,
    #[neighbours]
    peers: Neighbours,
    log: String,
    #[property(default)]
    panics_at: Option<u64>,
}

impl Lifecycle for Recorder {
    fn on_activated(&mut self, ports: &Ports) -> Result<(), Failure> {
        self.note(&format!("{} is active", ports.instance()))
    }
}

impl Recorder {
    fn note(&self, line: &str) -> Result<(), Failure> {
        let mut file = std::fs::File::options().create(true).append(true).open(&self.log)?;
        Ok(writeln!(file, "{line}")?)
    }

    fn on_frame(&mut self, frame: &Frame, ports: &Ports) -> Result<(), Failure> {
        assert!(self.panics_at != Some(frame.number), "frame {} is too much", frame.number);
        let is_in_place = SENT_AT.get() == std::ptr::from_ref(frame).addr();
        let (place, source) = (if is_in_place { "in place" } else { "copied" }, ports.source());
        let Frame { number, brightness, filters } = frame;
        let set = of_set(ports);
        self.note(&format!("{source} {number} {brightness} {} {} {place}{set}", filters.join(" "), ports.priority()))
    }

    fn on_offset(&mut self, offset: &Offset, ports: &Ports) -> Result<(), Failure> {
        self.note(&format!("{} {} {}{}", ports.source(), offset.number, offset.x, of_set(ports)))
    }

    fn on_peers(&mut self, change: &NeighbourChange, _: &Ports) -> Result<(), Failure> {
        self.note(&format!("{} {}: {}", change.instance, change.change, change.reason))
    }
}

fn of_set(ports: &Ports) -> String {
    ports.set().map_or_else(String::new, |set| format!(", set {} {}/{}", set.number, set.index, set.size))
}

campanile_component::export!(Camera, Recorder);

//! A program whose components plans can name: `campanile deploy run crates/component/examples/observatory.toml`, after
//! `cargo build -p campanile-component`.

use campanile::Event;
use campanile_component::{
    Failure, Ports, Registry, ServerSettings, Sink, Source, Tick, Timer, component, run_program,
};
use std::fs::File;
use std::io::Write as _;
use std::process::ExitCode;

#[derive(Event, Clone)]
struct Frame {
    number: u64,
    brightness: f64,
}

#[derive(Event, Clone)]
struct Offset {
    number: u64,
    x: f64,
}

#[component]
struct Camera {
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
        Ok(self.frame.send(&Frame { number: self.taken, brightness: 0.5 })?)
    }
}

#[component]
struct Guider {
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

/// Writes where it has moved to a file.
#[component]
struct Mount {
    #[sink]
    offset: Sink<Offset>,
    log: String,
    #[state]
    at: f64,
}

impl Mount {
    fn on_offset(&mut self, offset: &Offset, _: &Ports) -> Result<(), Failure> {
        self.at += offset.x;
        std::fs::write(&self.log, format!("{} {}\n", offset.number, self.at))?;
        Ok(())
    }
}

/// Writes the sets of frames and offsets that it gets to a file, a line for each event.
#[component]
struct Pairs {
    #[sink]
    frame: Sink<Frame>,
    #[sink]
    offset: Sink<Offset>,
    log: String,
}

impl Pairs {
    fn on_frame(&mut self, frame: &Frame, ports: &Ports) -> Result<(), Failure> {
        self.note("frame", frame.number, ports)
    }

    fn on_offset(&mut self, offset: &Offset, ports: &Ports) -> Result<(), Failure> {
        self.note("offset", offset.number, ports)
    }

    fn note(&self, what: &str, number: u64, ports: &Ports) -> Result<(), Failure> {
        let set = ports.set().ok_or_else(|| Failure::new("the plan gives it no sets"))?;
        let mut file = File::options().create(true).append(true).open(&self.log)?;
        Ok(file.write_all(format!("{what} {number} {} {}\n", set.number, set.index).as_bytes())?)
    }
}

fn main() -> ExitCode {
    let registry = Registry::new().with::<Camera>().with::<Guider>().with::<Mount>().with::<Pairs>();
    run_program(&registry, ServerSettings::default())
}

//! A program whose components plans can name: `campanile deploy run crates/component/examples/observatory.toml`, after
//! `cargo build -p campanile-component`.

use campanile::Event;
use campanile_component::{
    Failure, Ports, Registry, ServerSettings, Sink, Source, Tick, Timer, component, run_program,
};
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

fn main() -> ExitCode {
    let registry = Registry::new().with::<Camera>().with::<Guider>().with::<Mount>();
    run_program(&registry, ServerSettings::default())
}

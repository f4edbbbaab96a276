//! A pipeline of three: a camera, a guider and a mount, for a second. `cargo run -p campanile-component --example pipeline`

use campanile::Event;
use campanile_component::{Error, Failure, Ports, Server, ServerSettings, Sink, Source, Tick, Timer, component};
use std::io::Write;
use std::sync::mpsc::channel;
use toml::toml;

#[derive(Event)]
struct Frame {
    number: u64,
    brightness: f64,
}

#[derive(Event)]
struct Offset {
    x: f64,
}

#[derive(Event, Clone)]
struct Moved {
    to: f64,
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
        log::debug!("frame {}", frame.number);
        Ok(self.offset.send(&Offset { x: self.gain * frame.brightness })?)
    }
}

#[component]
struct Mount {
    #[sink]
    offset: Sink<Offset>,
    #[source]
    moved: Source<Moved>,
    #[state]
    at: f64,
}

impl Mount {
    fn on_offset(&mut self, offset: &Offset, _: &Ports) -> Result<(), Failure> {
        self.at += offset.x;
        Ok(self.moved.send(&Moved { to: self.at })?)
    }
}

fn main() -> Result<(), Error> {
    let mut server = Server::new("control", ServerSettings::default())?;
    server.configure::<Camera>("camera", toml::Table::new())?;
    server.configure::<Guider>("guider", toml! { gain = 0.3 })?;
    server.configure::<Mount>("mount", toml::Table::new())?;
    server.connect("camera.frame", "guider.frame")?;
    server.connect("guider.offset", "mount.offset")?;
    let (sender, moves) = channel();
    server.output("mount.moved", move |moved: &Moved| {
        // The program may be at its end.
        let _ = sender.send(moved.clone());
    })?;
    server.start()?;
    for moved in moves.iter().take(10) {
        let _ = writeln!(std::io::stdout(), "the mount is at {:.2}", moved.to);
    }
    Ok(())
}

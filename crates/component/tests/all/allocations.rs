//! Events between components of one lane allocate nothing.

use crate::parts::{Frame, Guider, Offset};
use campanile_component::{Failure, Ports, Server, Sink, Source, Tick, Timer, component};
use std::cell::Cell;
use std::time::Duration;
use testing::{Counting, allocations};
use toml::toml;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static ALLOCATED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Sends a thousand frames at each tick, and notes the allocations that this took.
#[component]
struct Burst {
    #[timer("1s")]
    tick: Timer,
    #[source]
    frame: Source<Frame>,
}

impl Burst {
    fn on_tick(&mut self, _: &Tick, _: &Ports) -> Result<(), Failure> {
        let before = allocations();
        for number in 0..1_000 {
            self.frame.send(&Frame { number, brightness: 1.0 })?;
        }
        ALLOCATED.set(Some(allocations() - before));
        Ok(())
    }
}

#[component]
struct Sum {
    #[sink]
    offset: Sink<Offset>,
    #[sink]
    frame: Sink<Frame>,
    #[state]
    sum: f64,
}

impl Sum {
    fn on_offset(&mut self, offset: &Offset, _: &Ports) {
        self.sum += offset.x;
    }

    fn on_frame(&mut self, frame: &Frame, _: &Ports) {
        self.sum += frame.brightness;
    }
}

#[test]
fn collocated_events_and_ticks_allocate_nothing() {
    let mut server = Server::manual("control");
    server.configure::<Burst>("burst", toml::Table::new()).unwrap();
    server.configure::<Guider>("guider", toml! { gain = 1 }).unwrap();
    server.connect("burst.frame", "guider.frame").unwrap();
    for name in ["sum-1", "sum-2", "sum-3"] {
        server.configure::<Sum>(name, toml::Table::new()).unwrap();
        server.connect("guider.offset", &format!("{name}.offset")).unwrap();
        server.connect("burst.frame", &format!("{name}.frame")).unwrap();
    }
    server.start().unwrap();
    server.advance(Duration::from_secs(1));
    assert_eq!(ALLOCATED.get(), Some(0));
    let before = allocations();
    server.advance(Duration::from_secs(10));
    assert_eq!(allocations() - before, 0, "nor does a timer");
    assert_eq!(server.port("sum-3.offset").map(|port| port.delivered), Some(11_000));
}

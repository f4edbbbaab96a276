//! Publishes a value ten times a second on this machine, for DDS's own tools to look at:
//!
//! ```sh
//! cargo run -p campanile-dds --example wind
//! pip install cyclonedds
//! export CYCLONEDDS_URI='<CycloneDDS><Domain><General><Interfaces><NetworkInterface address="127.0.0.1"/></Interfaces>
//!     <AllowMulticast>false</AllowMulticast></General><Discovery><Peers><Peer address="127.0.0.1"/></Peers>
//!     <ParticipantIndex>auto</ParticipantIndex></Discovery></Domain></CycloneDDS>'
//! cyclonedds ls
//! cyclonedds subscribe Wind
//! ```

use std::time::Duration;

use dds::{Options, Participant, Qos};
use giop::cdr::Writer;
use giop::typecode::{Kind, TypeCode};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let domain = std::env::args().nth(1).map_or(Ok(0), |number| number.parse())?;
    let gust = TypeCode::structure(
        "IDL:demo/Gust:1.0",
        "Gust",
        &[("speed", TypeCode::primitive(Kind::Double)), ("second", TypeCode::primitive(Kind::Octet))],
    );
    let wind = TypeCode::structure(
        "IDL:demo/Wind:1.0",
        "Wind",
        &[
            ("station", TypeCode::string()),
            ("speed", TypeCode::primitive(Kind::Double)),
            (
                "direction",
                TypeCode::enumeration("IDL:demo/Direction:1.0", "Direction", &["north", "east", "south", "west"]),
            ),
            ("gusts", TypeCode::sequence(gust)),
        ],
    );
    let participant = Participant::new(domain, &Options::loopback())?;
    let writer = participant.topic("Wind", &wind)?.writer(&Qos::default())?;
    let mut set = participant.wait_set()?;
    set.attach_discovery()?;
    for round in 0u32.. {
        let mut value = Vec::new();
        let mut w = Writer::new(&mut value, dds::encoding());
        w.string("OSF");
        w.f64(f64::from(round % 100) / 10.0);
        w.u32(round % 4);
        w.u32(1);
        w.f64(12.5);
        w.u8(30);
        writer.write(&value)?;
        set.wait(Some(Duration::from_millis(100)), &mut Vec::new())?;
        participant.endpoints()?;
    }
    Ok(())
}

//! A storm of connections: what so many clients at once are answered, and what becomes of the one too many.
//!
//! Both ends of so many connections do not fit into the descriptors of one process: the service is another one.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::support::{Serve, TempPath, text};

/// GIOP 1.2, big-endian: whether the service has a factory of channels (CORBA 3.3 part 2, 9.4.5), which administration
/// answers.
const LOCATE_REQUEST: &[u8] = b"GIOP\x01\x02\x00\x03\0\0\0\x1f\0\0\0\x01\0\0\0\0\0\0\0\x13NotificationService";
/// The answer: `OBJECT_HERE`.
const LOCATE_REPLY: &[u8; 20] = b"GIOP\x01\x02\x00\x04\0\0\0\x08\0\0\0\x01\0\0\0\x01";

/// Connections that the service takes beyond those of the storm.
const OWN: u64 = 16;

/// As many descriptors as the system allows this process. Says how many.
fn raise_descriptor_limit() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    limit.maximum.unwrap_or(u64::MAX)
}

/// Reads an answer. False if the service has closed the connection instead.
fn is_answered(stream: &mut TcpStream) -> bool {
    let mut reply = [0; LOCATE_REPLY.len()];
    testing::patient(stream);
    let is_open = testing::unless_closed(stream.read_exact(&mut reply)).is_some();
    // A connection that is closed with input unread is reset.
    assert!(!is_open || &reply == LOCATE_REPLY, "{reply:?}");
    is_open
}

/// Asks, and waits for the answer, so that the service has looked at its sockets before the next is opened. False if the
/// service has closed the connection instead.
fn is_served(stream: &mut TcpStream) -> bool {
    // It may be closed already.
    stream.write_all(LOCATE_REQUEST).is_ok() && is_answered(stream)
}

#[test]
fn a_storm_of_connections_is_served_and_the_one_too_many_has_the_place_of_an_idle_one() {
    // 10,000, unless the descriptors do not suffice: the service keeps a quarter of them for connections to consumers.
    let count = (raise_descriptor_limit() / 4 * 3 - 32).min(10_000);
    let limits = format!(
        "[limits]\nconnections_max = {}\nclient_share_percent = 100\nadministration_queue = 65536\n",
        count + OWN
    );
    let config = TempPath::file("storm.toml", &limits);
    let serve = Serve::start_with(&["--listen", "127.0.0.1:0", "--log", "error", "--config", config.path()]);
    let connect = || TcpStream::connect(&serve.address).unwrap();
    let sub = serve.subscribe(&["--quiet", "-n", "1000"]);
    // Events pass while they come.
    let publishing = serve.command("pub", &["--count", "1000"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut streams: Vec<TcpStream> = (0..count).map(|_| connect()).collect();
    // All at once, and only then the answers.
    streams.iter_mut().for_each(|stream| stream.write_all(LOCATE_REQUEST).unwrap());
    assert!(streams.iter_mut().all(is_answered));
    let leash = testing::Leash::new(&publishing, "a publisher to end");
    let published = publishing.wait_with_output().unwrap();
    drop(leash);
    assert!(published.status.success(), "{}", text(&published.stderr));
    assert_eq!(sub.wait().code, Some(0));
    // Those two are gone, so all places that are left are to be had.
    let mut more: Vec<TcpStream> = (0..OWN).map(|_| connect()).collect();
    assert!(more.iter_mut().all(is_served));
    // One too many has the place of one that was idle for longest.
    let mut beyond = connect();
    assert!(is_served(&mut beyond));
    assert!(more.iter_mut().all(is_served));
    assert_eq!(streams.iter_mut().filter_map(|stream| (!is_served(stream)).then_some(())).count(), 1);
    let (printed, code) = serve.stop("TERM");
    assert_eq!(code, Some(0), "{printed}");
    // The subscriber had them all; it may have ended before its last answers left.
    assert!(!printed.contains("\nconnections_refused "), "{printed}");
    for counted in ["connections_gave_way 1", "lane_events_in 1000", "lane_pushes_sent 1000"] {
        assert!(printed.contains(&format!("\n{counted}\n")), "{counted}: {printed}");
    }
}

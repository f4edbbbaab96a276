//! Connections for lines of JSON on which nothing happens, to a service in a process of its own.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use testing::patient;

use crate::support::Serve;

/// Connections that are opened.
const CONNECTIONS: usize = 1_000;
/// What each may take of the service's memory while nothing is under way on it, in octets.
const IDLE_BYTES_MAX: usize = 2_048;

/// Octets that a process has resident.
fn resident_bytes(process: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() * 1024
}

/// A connection on which a long line came in two pieces, and was answered: what was kept of it is not to stay.
fn answered_connection(address: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(address).unwrap();
    patient(&stream);
    let line = format!("{{\"op\":\"ping\",{}\"id\":1}}\n", " ".repeat(100_000));
    let (one, other) = line.split_at(50_000);
    stream.write_all(one.as_bytes()).unwrap();
    stream.write_all(other.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let mut answer = String::new();
    reader.read_line(&mut answer).unwrap();
    assert_eq!(answer, "{\"ok\":1}\n");
    reader
}

#[test]
fn a_thousand_connections_that_are_idle_take_two_kilobytes_each_at_most() {
    let serve = Serve::start_with(&["--listen", "127.0.0.1:0", "--json-listen", "127.0.0.1:0", "--log", "error"]);
    // What the first ones take is there once, for all.
    let first: Vec<_> = (0..16).map(|_| answered_connection(&serve.json)).collect();
    let before = resident_bytes(serve.id());
    let idle: Vec<_> = (0..CONNECTIONS).map(|_| answered_connection(&serve.json)).collect();
    let counted = serve.print("stats", &["--nonzero", "json_connections_open"]);
    assert_eq!(counted.split_whitespace().last(), Some(&*(first.len() + idle.len()).to_string()), "{counted}");
    let each = resident_bytes(serve.id()).saturating_sub(before) / CONNECTIONS;
    assert!(each <= IDLE_BYTES_MAX, "{each} octets for a connection");
}

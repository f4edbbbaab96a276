//! The least that a process between supplier and subscribers costs: what it reads from one socket it writes to all others.
//!
//! Messages are 8 octets with the time of sending and the event's own behind it. The first octet of a connection says which end it is.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;

use super::{Arrivals, OCTETS, setup};
use crate::BenchError;

const SUPPLIER: u8 = b'S';
const SUBSCRIBER: u8 = b's';
const MESSAGE: usize = 8 + OCTETS;

/// Listens, and relays until the process ends; where it listens.
pub(super) fn begin() -> Result<String, BenchError> {
    let failed = BenchError::io("relaying");
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    let address = listener.local_addr().map_err(BenchError::io("relaying"))?.to_string();
    std::thread::spawn(move || {
        let mut subscribers = Vec::new();
        while let Ok((mut stream, _)) = listener.accept() {
            let mut who = [0];
            if stream.set_nodelay(true).and_then(|()| stream.read_exact(&mut who)).is_err() {
                continue;
            }
            // It is the last to come.
            if who == [SUPPLIER] {
                relay(stream, &mut subscribers);
                return;
            }
            // The echo says that it is registered.
            if stream.write_all(&who).is_ok() {
                subscribers.push(stream);
            }
        }
    });
    Ok(address)
}

fn relay(mut from: TcpStream, to: &mut Vec<TcpStream>) {
    let mut message = [0; MESSAGE];
    while from.read_exact(&mut message).is_ok() {
        to.retain_mut(|stream| stream.write_all(&message).is_ok());
    }
}

fn connect(server: &str, who: u8) -> Result<TcpStream, BenchError> {
    let mut stream = TcpStream::connect(server).map_err(setup("connecting to the relay"))?;
    stream.set_nodelay(true).and_then(|()| stream.write_all(&[who])).map_err(setup("connecting to the relay"))?;
    Ok(stream)
}

/// The writer.
pub(super) struct Source {
    stream: TcpStream,
    message: Box<[u8; MESSAGE]>,
}

impl Source {
    pub(super) fn connect(server: &str) -> Result<Self, BenchError> {
        Ok(Self { stream: connect(server, SUPPLIER)?, message: Box::new([1; MESSAGE]) })
    }

    pub(super) fn publish(&mut self, sent_ns: u64) -> Result<(), BenchError> {
        if let Some(first) = self.message.first_chunk_mut() {
            *first = sent_ns.to_ne_bytes();
        }
        self.stream.write_all(&*self.message).map_err(setup("writing"))
    }
}

/// A connection, and the thread that reads it.
pub(super) struct Sink {
    stream: TcpStream,
    thread: Option<JoinHandle<()>>,
}

impl Sink {
    pub(super) fn connect(server: &str, arrivals: &Arc<Arrivals>) -> Result<Self, BenchError> {
        let mut stream = connect(server, SUBSCRIBER)?;
        stream.read_exact(&mut [0]).map_err(setup("connecting to the relay"))?;
        let (mut reading, arrivals) = (stream.try_clone().map_err(setup("connecting"))?, Arc::clone(arrivals));
        let thread = std::thread::spawn(move || {
            let mut message = [0; MESSAGE];
            while reading.read_exact(&mut message).is_ok() {
                arrivals.take(message.first_chunk().map_or(0, |first| u64::from_ne_bytes(*first)));
            }
        });
        Ok(Self { stream, thread: Some(thread) })
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

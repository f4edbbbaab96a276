//! An end point in C as a program of its own, which a test tells the time and hands datagrams.

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use testing::Leash;

use crate::compiled::test_program;
use crate::text;

/// What it did.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) sent: Vec<(Place, Vec<u8>)>,
    /// Messages it was handed, as text: topic, and the frame's fields.
    pub(crate) messages: Vec<String>,
    /// What it reported of topics and peers.
    pub(crate) reported: Vec<String>,
    pub(crate) value: String,
}

/// A datagram's address, or a stream's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Place {
    At(SocketAddr),
    Stream(u32),
}

impl Place {
    pub(crate) fn text(self) -> String {
        match self {
            Self::At(address) => text::address(Some(address)),
            Self::Stream(number) => format!("255/0/{}", text::hex(&number.to_ne_bytes())),
        }
    }

    /// Nothing if it is nowhere.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let mut next = || parts.next().unwrap();
        let (family, port) = (next(), next().parse().unwrap());
        let octets = text::octets(next());
        let four = <[u8; 4]>::try_from(&octets[..4]).unwrap();
        match family {
            "0" => None,
            "4" => Some(Self::At(SocketAddr::new(IpAddr::from(four), port))),
            "6" => Some(Self::At(SocketAddr::new(IpAddr::from(<[u8; 16]>::try_from(&octets[..16]).unwrap()), port))),
            "255" => Some(Self::Stream(u32::from_ne_bytes(four))),
            _ => panic!("{text} is no place"),
        }
    }
}

pub(crate) struct Driven {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Driven {
    pub(crate) fn start() -> Self {
        let mut command = Command::new(test_program());
        let mut child = command.arg("endpoint").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, to, from }
    }

    pub(crate) fn ask(&mut self, command: &str) -> Said {
        let _leash = Leash::new(&self.child, command.chars().take(100).collect::<String>());
        let to = self.to.as_mut().unwrap();
        to.write_all(format!("{command}\n").as_bytes()).unwrap();
        let mut said = Said::default();
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "the program has ended at: {command}");
            let (what, rest) = line.trim_end().split_once(' ').unwrap_or((line.trim_end(), ""));
            match what {
                "=" => break rest.clone_into(&mut said.value),
                "send" => {
                    let (to, octets) = rest.split_once(' ').unwrap();
                    said.sent.push((Place::read(to).expect("it sends to somewhere"), text::octets(octets)));
                }
                "message" => said.messages.push(rest.to_owned()),
                _ => said.reported.push(line.trim_end().to_owned()),
            }
        }
        said
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        drop(self.to.take());
        let leash = Leash::new(&self.child, "its end");
        let status = self.child.wait().unwrap();
        drop(leash);
        if !std::thread::panicking() {
            assert!(status.success(), "the program in C has ended with {status}");
        }
    }
}

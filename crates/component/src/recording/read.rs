//! Recordings, line by line: what is damaged ends them, and is said.

use super::file::LINE_BYTES_MAX;
use super::{ENDIAN, EventLine, Line};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

/// An event of a recording.
#[derive(Clone, Debug)]
pub struct RecordedEvent {
    /// Nanoseconds since 1970 at which it came.
    pub came_ns: u64,
    /// The instance whose component it was handed to.
    pub instance: String,
    /// Its line, with the end.
    pub(crate) line: String,
}

/// A recording that is read.
#[derive(Debug)]
pub struct RecordingReader {
    reader: BufReader<File>,
    path: PathBuf,
    plan: PathBuf,
    lines: u64,
    /// Types of sinks in IDL, as far as it was read.
    sinks: BTreeMap<String, String>,
    dropped: u64,
    damage: Option<String>,
}

impl RecordingReader {
    /// Opens the recording in a file.
    ///
    /// # Errors
    /// The file cannot be read, is no recording of a plan, or was made on a machine of another byte order.
    pub fn open(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let file = File::open(path).map_err(|error| format!("{shown} cannot be read: {error}"))?;
        let mut recording = Self {
            reader: BufReader::new(file),
            path: path.to_owned(),
            plan: PathBuf::new(),
            lines: 0,
            sinks: BTreeMap::new(),
            dropped: 0,
            damage: None,
        };
        match recording.line() {
            Some((Line::Head { recording: 1, plan, endian }, _)) if endian == ENDIAN => recording.plan = plan.into(),
            Some((Line::Head { recording: 1, endian, .. }, _)) => {
                return Err(format!(
                    "{shown} was recorded on a machine with {endian} endian numbers, and this one has {ENDIAN}"
                ));
            }
            Some((Line::Head { recording: version, .. }, _)) => {
                return Err(format!(
                    "{shown} has version {version} of recordings, and this program 1: take one of that version"
                ));
            }
            _ => {
                return Err(format!("{shown} is no recording of a plan, as campanile deploy run --record makes one"));
            }
        }
        Ok(recording)
    }

    /// The file of the plan that was recorded.
    #[must_use]
    pub fn plan(&self) -> &Path {
        &self.plan
    }

    /// The type of a sink in IDL, on one line, if that was read.
    #[must_use]
    pub fn sink_type(&self, sink: &str) -> Option<&str> {
        self.sinks.get(sink).map(String::as_str)
    }

    /// Events that came and were not recorded, as far as it was read.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// What is wrong with the rest of the file, behind the last event.
    #[must_use]
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    fn line(&mut self) -> Option<(Line, String)> {
        let mut octets = Vec::new();
        let read = (&mut self.reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut octets);
        self.lines += 1;
        let parsed = read.and_then(|_| {
            let is_cut = !octets.is_empty() && !octets.ends_with(b"\n");
            let parsed = (!octets.is_empty()).then(|| serde_json::from_slice::<Line>(&octets)).transpose();
            // A line that is cut short may be one by chance.
            if is_cut {
                Err(io::Error::other("it is cut short"))
            } else {
                parsed.map_err(|_| io::Error::other("it is no line of a recording"))
            }
        });
        match parsed {
            Ok(line) => Some((line?, String::from_utf8(octets).ok()?)),
            Err(error) => {
                let (path, line) = (self.path.display(), self.lines);
                self.damage = Some(format!("{path} is damaged from line {line} on: {error}"));
                None
            }
        }
    }
}

impl Iterator for RecordingReader {
    type Item = RecordedEvent;

    fn next(&mut self) -> Option<RecordedEvent> {
        if self.damage.is_some() {
            return None;
        }
        loop {
            match self.line()? {
                (Line::Event(EventLine { came_ns, instance, .. }), line) => {
                    return Some(RecordedEvent { came_ns, instance, line });
                }
                (Line::Sink { sink, idl }, _) => drop(self.sinks.insert(sink, idl)),
                (Line::Dropped { dropped }, _) => self.dropped += dropped,
                (Line::Head { .. }, _) => {
                    self.damage =
                        Some(format!("{} has a second beginning in line {}", self.path.display(), self.lines));
                    return None;
                }
            }
        }
    }
}

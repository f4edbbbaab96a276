//! Recordings, line by line: what is damaged ends them, and is said.

use super::file::LINE_BYTES_MAX;
use super::{DroppedLine, ENDIAN, EventLine, HeadLine, Line, SinkLine};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
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
            Some((Line::Head(HeadLine { recording: 1, plan, endian }), _)) if endian == ENDIAN => {
                recording.plan = plan.into();
            }
            Some((Line::Head(HeadLine { recording: 1, endian, .. }), _)) => {
                return Err(format!(
                    "{shown} was recorded on a machine with {endian} endian numbers, and this one has {ENDIAN}"
                ));
            }
            Some((Line::Head(HeadLine { recording: version, .. }), _)) => {
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
        let (length, is_cut) = (octets.len() as u64, !octets.ends_with(b"\n"));
        let parsed = match read {
            Ok(0) => return None,
            Ok(_) if is_cut && length == LINE_BYTES_MAX => {
                Err(format!("it is longer than {} MiB", LINE_BYTES_MAX / 1024 / 1024))
            }
            // A line that is cut short may be one by chance.
            Ok(_) if is_cut => Err("it is cut short".to_owned()),
            Ok(_) => String::from_utf8(octets)
                .ok()
                .and_then(|text| Some((Line::parse(&text)?, text)))
                .ok_or_else(|| "it is no line of a recording".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        parsed
            .map_err(|reason| {
                let (path, line) = (self.path.display(), self.lines);
                self.damage = Some(format!("{path} is damaged from line {line} on: {reason}"));
            })
            .ok()
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
                (Line::Sink(SinkLine { sink, idl }), _) => drop(self.sinks.insert(sink, idl)),
                (Line::Dropped(DroppedLine { dropped }), _) => self.dropped = self.dropped.saturating_add(dropped),
                // The file has none.
                (Line::Server(_), _) => {}
                (Line::Head(_), _) => {
                    self.damage =
                        Some(format!("{} has a second beginning in line {}", self.path.display(), self.lines));
                    return None;
                }
            }
        }
    }
}

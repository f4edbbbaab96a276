//! The file of a recording, which the command that runs the plan writes: lines of all servers, up to a size.

use super::{ENDIAN, Line, SOCKET, written};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// The most octets of a line: an event of 16 MiB has twice as many digits.
pub(super) const LINE_BYTES_MAX: u64 = 40 * 1024 * 1024;

/// What became of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recorded {
    /// Events in the file.
    pub events: u64,
    /// Events that came and are not in the file.
    pub dropped: u64,
    /// Why it ended before the plan did.
    pub ended: Option<String>,
}

/// A recording that goes on. What the servers of a plan send to it is written until the size is reached or the disk is full; from then on
/// events are counted.
pub struct Recording {
    folder: PathBuf,
    output: Arc<Mutex<Output>>,
    stop: Arc<AtomicBool>,
    /// Takes the servers' connections, and answers the threads that read them.
    listener: Option<JoinHandle<Vec<JoinHandle<()>>>>,
}

struct Output {
    file: File,
    path: PathBuf,
    bytes: u64,
    bytes_max: u64,
    recorded: Recorded,
}

impl Recording {
    /// Makes a file, which is not there yet, for a recording of the plan in another. It has so many octets at most.
    ///
    /// # Errors
    /// The file is there already or cannot be made, or there is no place for the socket by which the servers send events.
    pub fn create(path: &Path, bytes_max: u64, plan: &Path) -> Result<Self, String> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                format!("{} is there already: remove it, or choose another file", path.display())
            }
            _ => format!("{} cannot be written: {error}", path.display()),
        };
        let file = OpenOptions::new().append(true).create_new(true).open(path).map_err(failed)?;
        let mut output = Output { file, path: path.to_owned(), bytes: 0, bytes_max, recorded: Recorded::default() };
        let plan = std::path::absolute(plan).map_err(failed)?.to_string_lossy().into_owned();
        output.write(written(&Line::Head { recording: 1, plan, endian: ENDIAN.to_owned() }).as_bytes());
        if let Some(reason) = output.recorded.ended {
            return Err(reason);
        }
        let output = Arc::new(Mutex::new(output));
        let (folder, listener) =
            socket().map_err(|error| format!("there is no socket for the recording: {error}; say another TMPDIR"))?;
        let stop = Arc::<AtomicBool>::default();
        let (stops, lines) = (stop.clone(), output.clone());
        let listen = move || {
            let mut readers = Vec::new();
            for stream in listener.incoming() {
                if stops.load(Ordering::Acquire) {
                    break;
                }
                let lines = lines.clone();
                let reader = stream
                    .and_then(|stream| Builder::new().name("recording".to_owned()).spawn(move || read(stream, &lines)));
                match reader {
                    Ok(reader) => readers.push(reader),
                    Err(error) => {
                        log::warn!("a server is not recorded, nor are those that start after it: {error}");
                        break;
                    }
                }
            }
            readers
        };
        let listener = Builder::new().name("recording".to_owned()).spawn(listen).map_err(failed)?;
        Ok(Self { folder, output, stop, listener: Some(listener) })
    }

    /// Has a server that this starts send its events here.
    pub(crate) fn give_to(&self, command: &mut Command) {
        command.env(SOCKET, self.folder.join("socket"));
    }

    /// What is in the file so far.
    #[must_use]
    pub fn recorded(&self) -> Recorded {
        lock(&self.output).recorded.clone()
    }

    /// Ends the recording, when all servers have ended.
    #[must_use]
    pub fn finish(mut self) -> Recorded {
        self.end();
        self.recorded()
    }

    fn end(&mut self) {
        let Some(listener) = self.listener.take() else { return };
        self.stop.store(true, Ordering::Release);
        // It waits for a connection: this is the last.
        let _ = UnixStream::connect(self.folder.join("socket"));
        for reader in listener.join().unwrap_or_default() {
            let _ = reader.join();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.end();
    }
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// A socket in a folder of its own, to which no other user comes.
pub(crate) fn socket() -> io::Result<(PathBuf, UnixListener)> {
    let base = std::env::temp_dir();
    let mut number = 0_u32;
    let folder = loop {
        let folder = base.join(format!("campanile-{}-{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => break folder,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1_000 => number += 1,
            Err(error) => return Err(error),
        }
    };
    let listener = UnixListener::bind(folder.join("socket"));
    if listener.is_err() {
        let _ = std::fs::remove_dir(&folder);
    }
    Ok((folder, listener?))
}

fn lock(output: &Mutex<Output>) -> MutexGuard<'_, Output> {
    output.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes the lines of a server.
fn read(stream: UnixStream, output: &Mutex<Output>) {
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    // What ends without an end is the rest of an event, of a server that ended in it.
    while (&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let mut output = lock(output);
        if line.ends_with(b"\n") {
            output.take(&line);
        } else {
            output.recorded.dropped += 1;
        }
        line.clear();
    }
}

impl Output {
    /// Writes a line of a server.
    fn take(&mut self, line: &[u8]) {
        let is_event = line.starts_with(b"{\"came\":");
        if !is_event && let Ok(Line::Dropped { dropped }) = serde_json::from_slice(line) {
            self.recorded.dropped += dropped;
        }
        if self.write(line) {
            self.recorded.events += u64::from(is_event);
        } else {
            self.recorded.dropped += u64::from(is_event);
        }
    }

    /// Writes a line, whole or not at all, and answers whether it did.
    fn write(&mut self, line: &[u8]) -> bool {
        if self.recorded.ended.is_some() {
            return false;
        }
        let path = self.path.display();
        let after = self.bytes.saturating_add(line.len() as u64);
        let reason = if after > self.bytes_max {
            format!("{path} has {} octets, and may have {}", self.bytes, self.bytes_max)
        } else if let Err(error) = self.file.write_all(line) {
            // What is there of the line would be damage.
            let _ = self.file.set_len(self.bytes);
            format!("{path} cannot be written: {error}")
        } else {
            self.bytes = after;
            return true;
        };
        log::warn!("the recording has ended, and the plan runs on: {reason}");
        self.recorded.ended = Some(reason);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::{Output, Recorded};
    use std::fs::OpenOptions;

    #[test]
    fn a_full_disk_ends_the_recording_once_and_what_comes_then_is_counted() {
        let file = OpenOptions::new().append(true).open("/dev/full").unwrap();
        let mut output =
            Output { file, path: "/dev/full".into(), bytes: 0, bytes_max: u64::MAX, recorded: Recorded::default() };
        output.take(b"{\"came\":1}\n");
        output.take(b"{\"dropped\":5}\n");
        output.take(b"{\"came\":2}\n");
        let Recorded { events, dropped, ended } = output.recorded;
        assert_eq!((events, dropped), (0, 7));
        assert!(ended.is_some_and(|why| why.starts_with("/dev/full cannot be written: No space left on device")));
    }
}

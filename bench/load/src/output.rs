//! Where a report goes, and whether a person is watching.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::{BenchError, Machine, ReportOptions};

/// Where a report goes.
pub struct Output<'a> {
    writer: &'a mut dyn Write,
    terminal: bool,
}

impl<'a> Output<'a> {
    /// Writes to `writer`; `terminal` says whether a person watches it, which turns on progress, aligned tables with
    /// units, and the live table of the demonstration. A pipe gets tab-separated tables with plain numbers.
    pub fn new(writer: &'a mut dyn Write, terminal: bool) -> Self {
        Self { writer, terminal }
    }

    /// Whether a person watches.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Says what is going on, in one line that the next one replaces; nothing in a pipe.
    ///
    /// # Errors
    ///
    /// When the writer fails.
    pub fn progress(&mut self, text: &str) -> io::Result<()> {
        if self.terminal {
            write!(self.writer, "\r\x1b[2K{text}")?;
            self.writer.flush()?;
        }
        Ok(())
    }

    /// Removes the progress line.
    ///
    /// # Errors
    ///
    /// When the writer fails.
    pub fn end_progress(&mut self) -> io::Result<()> {
        self.progress("")
    }
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Writes a report as one JSON object to wherever the options want it: to `out`, to a file, to both or nowhere.
pub fn write_json(report: &impl Serialize, options: &ReportOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    if !options.json && options.json_file.is_none() {
        return Ok(());
    }
    let mut text = serde_json::to_string_pretty(report)
        .map_err(|error| BenchError::Io { doing: "writing the report as JSON", source: error.into() })?;
    text.push('\n');
    if let Some(path) = &options.json_file {
        fs::write(path, &text).map_err(BenchError::io("writing the file of --json-file"))?;
    }
    if options.json {
        out.write_all(text.as_bytes())?;
    }
    Ok(())
}

/// Writes a report into a folder, under the day and the commit of its run and this name; the file's path.
pub fn write_result(
    report: &impl Serialize,
    folder: &Path,
    name: &str,
    date: &str,
    machine: &Machine,
) -> Result<PathBuf, BenchError> {
    fs::create_dir_all(folder).map_err(BenchError::io("making the folder of --results"))?;
    let path = folder.join(format!("{date}-{}-{name}.json", machine.commit.unwrap_or("unknown")));
    let text = serde_json::to_string(report).map_err(crate::process::json("writing the report"))?;
    fs::write(&path, text + "\n").map_err(BenchError::io("writing the report"))?;
    Ok(path)
}

//! Where a report goes, and whether a person is watching.

use std::io::{self, Write};

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

//! Tables: aligned for a person, tab-separated in a pipe.

use std::io::{self, Write};

use crate::Output;

/// A table's cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// A text, aligned left.
    Text(String),
    /// A number, aligned right: four significant digits for a person, three decimals in a pipe.
    Number(f64),
    /// A whole number, aligned right.
    Count(u64),
    /// A missing figure.
    Absent,
}

macro_rules! cell_of {
    ($($from:ty => $cell:expr;)+) => {$(
        impl From<$from> for Cell {
            fn from(value: $from) -> Self {
                $cell(value.into())
            }
        }
    )+};
}

cell_of! {
    &str => Self::Text;
    String => Self::Text;
    f64 => Self::Number;
    u64 => Self::Count;
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(cell: Option<T>) -> Self {
        cell.map_or(Self::Absent, T::into)
    }
}

impl Cell {
    fn render(&self, terminal: bool) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) if terminal => significant(*number),
            Self::Number(number) => format!("{number:.3}"),
            Self::Count(count) => count.to_string(),
            Self::Absent if terminal => "–".to_owned(),
            Self::Absent => String::new(),
        }
    }
}

/// A table with a heading line; units stand in the headings.
#[derive(Debug, Clone)]
pub struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    pub fn new<H: Into<String>>(headings: impl IntoIterator<Item = H>) -> Self {
        Self { headings: headings.into_iter().map(H::into).collect(), rows: Vec::new() }
    }

    /// Adds a row at the bottom.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    fn rendered(&self, terminal: bool) -> Vec<Vec<String>> {
        self.rows.iter().map(|row| row.iter().map(|cell| cell.render(terminal)).collect()).collect()
    }

    /// Writes the table in the format for `out`.
    pub fn write(&self, out: &mut Output<'_>) -> io::Result<()> {
        let terminal = out.is_terminal();
        if !terminal {
            return std::iter::once(&self.headings)
                .chain(&self.rendered(false))
                .try_for_each(|line| writeln!(out, "{}", line.join("\t")));
        }
        let rendered = self.rendered(terminal);
        let width = |column: usize| {
            let lines = std::iter::once(&self.headings).chain(&rendered);
            lines.filter_map(|line| line.get(column)).map(|text| text.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.headings.len()).map(width).collect();
        let texts: Vec<bool> = (0..self.headings.len()).map(|column| self.is_text(column)).collect();
        for line in std::iter::once(&self.headings).chain(&rendered) {
            let mut aligned = String::new();
            for ((text, &width), &is_text) in line.iter().zip(&widths).zip(&texts) {
                let space = " ".repeat(width.saturating_sub(text.chars().count()));
                let (before, after) = if is_text { ("", space.as_str()) } else { (space.as_str(), "") };
                aligned.push_str(before);
                aligned.push_str(text);
                aligned.push_str(after);
                aligned.push_str("  ");
            }
            writeln!(out, "{}", aligned.trim_end())?;
        }
        Ok(())
    }

    /// Whether a column contains texts, which are aligned left.
    fn is_text(&self, column: usize) -> bool {
        self.rows.iter().filter_map(|row| row.get(column)).any(|cell| matches!(cell, Cell::Text(_)))
    }
}

/// A count with its noun: `1 consumer`, `2 consumers`.
pub fn counted(count: u32, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

/// A number with at most four significant digits, never in powers of ten.
fn significant(number: f64) -> String {
    let decimals = match number.abs() {
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        _ => 3,
    };
    format!("{number:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["contender", "median µs", "lost"]);
        table.row(["Campanile".into(), 31.2549.into(), 0_u64.into()]);
        table.row(["omniORB".into(), Cell::Absent, 12_u64.into()]);
        table
    }

    fn written(terminal: bool) -> String {
        let mut bytes = Vec::new();
        table().write(&mut Output::new(&mut bytes, terminal)).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn aligns_columns_for_a_person() {
        let lines = ["contender  median µs  lost", "Campanile      31.25     0", "omniORB            –    12", ""];
        assert_eq!(written(true), lines.join("\n"));
    }

    #[test]
    fn separates_plain_numbers_by_tabs_in_a_pipe() {
        let lines = ["contender\tmedian µs\tlost", "Campanile\t31.255\t0", "omniORB\t\t12", ""];
        assert_eq!(written(false), lines.join("\n"));
    }

    #[test]
    fn keeps_four_significant_digits() {
        for (number, text) in
            [(0.0, "0.000"), (0.12345, "0.123"), (12.345, "12.35"), (999.96, "1000.0"), (12345.6, "12346")]
        {
            assert_eq!(significant(number), text);
        }
    }
}

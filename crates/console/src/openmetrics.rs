//! Text in the format of OpenMetrics 1.0: families with their kind, unit and help, samples with labels, an end. Also in the former format
//! of Prometheus, for scrapers that know no other: a counter's family name includes `_total`, and there are no units and no end.

use core::fmt::{Display, Write as _};

/// The kind of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
    Info,
    StateSet,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
            Self::StateSet => "stateset",
        }
    }
}

/// A text under construction.
#[derive(Debug, Default)]
pub(crate) struct Text {
    text: String,
    family: String,
    is_former: bool,
}

/// Labels by name.
pub(crate) type Labels<'l> = &'l [(&'l str, &'l str)];

impl Text {
    /// An empty text, in the former format or that of OpenMetrics.
    pub(crate) fn new(is_former: bool) -> Self {
        Self { is_former, ..Self::default() }
    }

    /// Begins a family. Its name ends with its unit, if it has one.
    pub(crate) fn family(&mut self, name: &str, kind: Kind, unit: &str, help: &str) {
        self.family.clear();
        self.family.push_str(name);
        let (suffix, kind) = match kind {
            Kind::Counter if self.is_former => ("_total", kind),
            Kind::Info if self.is_former => ("_info", Kind::Gauge),
            Kind::StateSet if self.is_former => ("", Kind::Gauge),
            _ => ("", kind),
        };
        let _ = writeln!(self.text, "# TYPE {name}{suffix} {}", kind.name());
        if !unit.is_empty() && !self.is_former {
            let _ = writeln!(self.text, "# UNIT {name} {unit}");
        }
        let _ = write!(self.text, "# HELP {name}{suffix} ");
        // In the former format quotes are not escaped here.
        let help = if self.is_former { help.replace('"', "'") } else { help.to_owned() };
        escape(&mut self.text, &help);
        self.text.push('\n');
    }

    /// Writes a sample of the current family; a counter's `suffix` is `_total`, an info's `_info`.
    pub(crate) fn sample(&mut self, suffix: &str, labels: Labels<'_>, value: impl Display) {
        self.text.push_str(&self.family);
        self.text.push_str(suffix);
        for (at, (name, value)) in labels.iter().enumerate() {
            self.text.push_str(if at == 0 { "{" } else { "," });
            self.text.push_str(name);
            self.text.push_str("=\"");
            escape(&mut self.text, value);
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    /// The whole text.
    pub(crate) fn end(mut self) -> String {
        if !self.is_former {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

/// Nanoseconds as seconds, exactly.
pub(crate) struct Seconds(pub(crate) u64);

impl Display for Seconds {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (whole, rest) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        let rest = format!("{rest:09}");
        let rest = rest.trim_end_matches('0');
        write!(f, "{whole}.{}", if rest.is_empty() { "0" } else { rest })
    }
}

fn escape(text: &mut String, of: &str) {
    for c in of.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            // Names are clients' own, and this is read in terminals: other control characters are escaped, as in log lines.
            c if c.is_control() => text.extend(['\\'].into_iter().chain(c.escape_default())),
            c => text.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_as_the_standard_has_it() {
        let mut text = Text::default();
        text.family("campanile_events_in", Kind::Counter, "", "Events that \"came\".");
        text.sample("_total", &[], 7);
        text.family("campanile_age_seconds", Kind::Gauge, "seconds", "Age.");
        text.sample("", &[("consumer", "a \"b\"\n\\c <script>"), ("channel", "0")], Seconds(1_500_000_000));
        let expected = "# TYPE campanile_events_in counter\n# HELP campanile_events_in Events that \\\"came\\\".\n\
            campanile_events_in_total 7\n# TYPE campanile_age_seconds gauge\n# UNIT campanile_age_seconds seconds\n\
            # HELP campanile_age_seconds Age.\n\
            campanile_age_seconds{consumer=\"a \\\"b\\\"\\n\\\\c <script>\",channel=\"0\"} 1.5\n# EOF\n";
        assert_eq!(text.end(), expected);
        let mut text = Text::new(true);
        text.family("campanile_events_in", Kind::Counter, "", "Events.");
        text.sample("_total", &[], 7);
        let expected = "# TYPE campanile_events_in_total counter\n# HELP campanile_events_in_total Events.\n\
            campanile_events_in_total 7\n";
        assert_eq!(text.end(), expected);
    }

    /// A name that its client gave carried ESC, CR and BEL into the terminal of an operator that looked at the metrics.
    #[test]
    fn a_label_has_no_control_characters() {
        let mut text = Text::new(true);
        text.family("campanile_age_seconds", Kind::Gauge, "seconds", "Age.");
        let all: String = (0..=0x9f).filter_map(char::from_u32).collect();
        text.sample("", &[("consumer", &all), ("name", "\u{1b}[31m\r\u{7}\tä")], 7);
        let text = text.end();
        let sample = text.lines().find(|line| line.contains("consumer")).unwrap();
        assert!(!sample.chars().any(char::is_control), "{sample:?}");
        assert!(sample.ends_with("name=\"\\\\u{1b}[31m\\\\r\\\\u{7}\\\\tä\"} 7"), "{sample}");
    }

    #[test]
    fn seconds_are_exact() {
        let shown = [0, 1, 50_000, 1_000_000_000, 17_000_000_001].map(|nanos| Seconds(nanos).to_string());
        assert_eq!(shown, ["0.0", "0.000000001", "0.00005", "1.0", "17.000000001"]);
    }
}

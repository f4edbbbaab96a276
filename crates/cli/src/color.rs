//! Colours on a terminal, each with one meaning: green for healthy, yellow for slow or worth a look, red for lost or dead. The text says
//! the same without colour.

use crate::environment::Environment;
use clap::ValueEnum;
use std::io::{self, IsTerminal as _};
use std::sync::OnceLock;

/// When to colour output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorArg {
    /// On a terminal, unless $NO_COLOR is set or $TERM is dumb
    #[default]
    Auto,
    /// In a pipe, too, but for JSON
    Always,
    /// Nowhere
    Never,
}

/// Condition of what is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Well,
    Slow,
    Lost,
}

/// Whether standard output is coloured. Before [`choose`] it is unset, and output is plain.
static IS_ON: OnceLock<bool> = OnceLock::new();

/// Decides about colour for the whole process.
pub(crate) fn choose(when: ColorArg) {
    let _ = IS_ON.set(match when {
        ColorArg::Auto => io::stdout().is_terminal() && Environment::read().allows_color(),
        ColorArg::Always => true,
        ColorArg::Never => false,
    });
}

/// Text in the colour of a tone, if output is coloured.
pub(crate) fn paint(text: &str, tone: Option<Tone>) -> String {
    match tone {
        Some(tone) if IS_ON.get() == Some(&true) && !text.is_empty() => painted(text, tone),
        _ => text.to_owned(),
    }
}

fn painted(text: &str, tone: Tone) -> String {
    let code = match tone {
        Tone::Well => 32,
        Tone::Slow => 33,
        Tone::Lost => 31,
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// Values as bars of eight heights, the largest value at full height.
pub(crate) fn bars(values: impl Iterator<Item = f64> + Clone) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.clone().fold(0.0, f64::max);
    let bar = |value: f64| {
        let share = if most > 0.0 { value / most } else { 0.0 };
        // A value above zero is above the lowest bar.
        let height = BARS.iter().enumerate().skip(1).filter(|(nth, _)| share * 7.0 > as_f64(*nth) - 1.0).count();
        BARS.get(height).copied().unwrap_or('█')
    };
    values.map(bar).collect()
}

#[expect(clippy::cast_precision_loss, reason = "one of eight")]
const fn as_f64(nth: usize) -> f64 {
    nth as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_high_as_the_largest_value_lets_them() {
        assert_eq!(bars([0.0, 1.0, 3.5, 7.0].into_iter()), "▁▂▅█");
        assert_eq!(bars([0.0, 0.001, 1_000.0].into_iter()), "▁▂█");
        assert_eq!(bars([0.0, 0.0].into_iter()), "▁▁");
        assert_eq!(bars(std::iter::empty()), "");
    }

    #[test]
    fn each_tone_has_its_colour_and_nothing_is_painted_unasked() {
        assert_eq!(
            [Tone::Well, Tone::Slow, Tone::Lost].map(|tone| painted("x", tone)),
            ["\x1b[32mx\x1b[0m", "\x1b[33mx\x1b[0m", "\x1b[31mx\x1b[0m"]
        );
        assert_eq!(paint("x", Some(Tone::Lost)), "x");
    }
}

//! Axes: where a value lies between an axis's ends, and which values are written beside it.

/// What is known of an axis before its values are.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    /// What it measures, with the unit.
    pub(crate) label: String,
    kind: Kind,
    labels: Labels,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    FromZero,
    Logarithmic,
}

/// How values are written beside an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Labels {
    /// As numbers.
    Numbers,
    /// The values are microseconds: as durations, such as `10 ms`.
    Microseconds,
}

impl Axis {
    /// An even axis that begins at 0.
    pub(crate) fn from_zero(label: &str) -> Self {
        Self { label: label.to_owned(), kind: Kind::FromZero, labels: Labels::Numbers }
    }

    /// An axis on which equal distances are equal factors, from one power of ten to another.
    pub(crate) fn logarithmic(label: &str, labels: Labels) -> Self {
        Self { label: label.to_owned(), kind: Kind::Logarithmic, labels }
    }

    /// The axis for these values.
    pub(super) fn fit(&self, values: impl Iterator<Item = f64>) -> Scale {
        let positive = values.filter(|value| value.is_finite() && *value > 0.0);
        let ends = positive.fold(None, |ends: Option<(f64, f64)>, value| {
            Some(ends.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
        });
        match (self.kind, ends) {
            (Kind::FromZero, None) => Scale { low: 0.0, high: 1.0, step: 0.2, logarithmic: false, labels: self.labels },
            (Kind::FromZero, Some((_, high))) => {
                let step = step(high);
                let high = (high / step - 1e-9).ceil() * step;
                Scale { low: 0.0, high, step, logarithmic: false, labels: self.labels }
            }
            (Kind::Logarithmic, ends) => {
                let (low, high) = ends.unwrap_or((1.0, 10.0));
                let low = low.log10().floor();
                let high = (high.log10() - 1e-9).ceil().max(low + 1.0);
                Scale { low, high, step: 1.0, logarithmic: true, labels: self.labels }
            }
        }
    }
}

/// An axis for certain values. Of a logarithmic one, all numbers here are logarithms.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    step: f64,
    logarithmic: bool,
    labels: Labels,
}

impl Scale {
    /// Where a value lies, from 0 at the axis's beginning to 1 at its end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let value = if self.logarithmic { value.max(f64::MIN_POSITIVE).log10() } else { value };
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// The values that are written beside the axis, with what is written.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let mut ticks = Vec::new();
        let mut count = 0.0;
        loop {
            let at = self.low + count * self.step;
            if at > self.high + self.step * 1e-6 {
                return ticks;
            }
            let value = if self.logarithmic { 10_f64.powf(at) } else { at };
            ticks.push((value, self.written(value)));
            count += 1.0;
        }
    }

    fn written(&self, value: f64) -> String {
        match self.labels {
            Labels::Numbers if self.step < 1.0 => trimmed(&format!("{value:.6}")),
            Labels::Numbers => thousands(value),
            Labels::Microseconds => duration(value),
        }
    }
}

/// A step of 1, 2 or 5 times a power of ten, of which four to ten make up `high`.
fn step(high: f64) -> f64 {
    let power = 10_f64.powf(high.log10().floor());
    let factor = match high / power {
        part if part <= 1.2 => 0.2,
        part if part <= 2.0 => 0.5,
        part if part <= 5.0 => 1.0,
        _ => 2.0,
    };
    factor * power
}

/// Microseconds as a person says them.
fn duration(microseconds: f64) -> String {
    match microseconds {
        us if us >= 1e6 => format!("{} s", trimmed(&format!("{:.3}", us / 1e6))),
        us if us >= 1e3 => format!("{} ms", trimmed(&format!("{:.3}", us / 1e3))),
        us => format!("{} µs", trimmed(&format!("{us:.3}"))),
    }
}

/// A number with its thousands apart, and two decimals where it is small and not whole.
pub(super) fn thousands(number: f64) -> String {
    if number.abs() < 100.0 {
        return trimmed(&format!("{number:.2}"));
    }
    let digits = format!("{number:.0}");
    let mut apart = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            apart.push(' ');
        }
        apart.push(digit);
    }
    apart
}

/// A decimal fraction without the zeros at its end.
fn trimmed(number: &str) -> String {
    number.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(scale: &Scale) -> Vec<String> {
        scale.ticks().into_iter().map(|tick| tick.1).collect()
    }

    #[test]
    fn an_even_axis_has_round_ticks_from_zero_past_its_highest_value() {
        let scale = Axis::from_zero("").fit([3.0, 60.0].into_iter());
        assert_eq!(written(&scale), ["0", "20", "40", "60"]);
        assert!((scale.place(30.0) - 0.5).abs() < 1e-9);
        let scale = Axis::from_zero("").fit([100.4].into_iter());
        assert_eq!(written(&scale), ["0", "20", "40", "60", "80", "100", "120"]);
        let scale = Axis::from_zero("").fit([0.07].into_iter());
        assert_eq!(written(&scale), ["0", "0.02", "0.04", "0.06", "0.08"]);
        assert_eq!(written(&Axis::from_zero("").fit(std::iter::empty())).len(), 6);
    }

    #[test]
    fn a_logarithmic_axis_has_a_tick_for_each_power_of_ten() {
        let scale = Axis::logarithmic("", Labels::Microseconds).fit([30.0, 20_000.0].into_iter());
        assert_eq!(written(&scale), ["10 µs", "100 µs", "1 ms", "10 ms", "100 ms"]);
        assert!((scale.place(1000.0) - 0.5).abs() < 1e-9);
        assert!(scale.place(0.0).abs() < 1e-9, "what a logarithm does not have is at the beginning");
        let scale = Axis::logarithmic("", Labels::Microseconds).fit([1e6].into_iter());
        assert_eq!(written(&scale), ["1 s", "10 s"]);
    }

    #[test]
    fn thousands_stand_apart() {
        for (number, text) in
            [(0.0, "0"), (7.5, "7.5"), (99.0, "99"), (1234.0, "1 234"), (1_234_567.0, "1 234 567"), (100.0, "100")]
        {
            assert_eq!(thousands(number), text);
        }
    }
}

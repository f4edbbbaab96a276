//! Utilisation, and the tests that are based on it alone.

use super::Activity;

/// Utilisation, the sum of execution times over periods, in units of 2⁻⁶⁴, rounded down, and at most 2⁶⁴ − 1 whole
/// ones. It is 1 or more only if the exact sum is, so a set with more than 1 is certainly overloaded.
pub(super) fn utilisation_floor<'a>(activities: impl Iterator<Item = &'a Activity>) -> u128 {
    activities
        .map(|activity| (u128::from(activity.execution_time) << 64) / u128::from(activity.period))
        .fold(0, u128::saturating_add)
}

/// Utilisation of a whole processor, in the units of [`utilisation_floor`].
pub(super) const WHOLE: u128 = 1 << 64;

/// Utilisation as a float, for display.
pub(super) fn utilisation<'a>(activities: impl Iterator<Item = &'a Activity>) -> f64 {
    activities.map(own_utilisation).sum()
}

/// Liu and Layland's bound for `count` activities, 0.69 to 1.
pub(super) fn liu_layland(count: usize) -> f64 {
    let count = f64::from(u32::try_from(count.max(1)).unwrap_or(u32::MAX));
    count * ((1.0 / count).exp2() - 1.0)
}

/// The product of utilisations + 1.
pub(super) fn hyperbolic<'a>(activities: impl Iterator<Item = &'a Activity>) -> f64 {
    activities.map(|activity| own_utilisation(activity) + 1.0).product()
}

#[expect(clippy::cast_precision_loss, reason = "shown to people, and compared with nothing that decides")]
fn own_utilisation(activity: &Activity) -> f64 {
    activity.execution_time as f64 / activity.period as f64
}

//! Events as structs.

mod consumer;
pub(crate) mod field;
mod filters;
mod supplier;

pub use crate::queue::{EventStream, Events};
pub use consumer::{Consumer, Subscription};
pub use field::Field;
pub use filters::{EventFilter, with_fields};
pub use supplier::{Publisher, Supplier};

use giop::typecode::TypeCode;

/// A struct that is an event, by `#[derive(Event)]`.
///
/// ```
/// use campanile::Event;
///
/// #[derive(Event, Debug, PartialEq)]
/// struct Wind {
///     speed: f64,
///     direction: f64,
///     station: String,
///     gusts: Vec<f32>,
/// }
///
/// assert_eq!(Wind::NAME, "Wind");
/// assert_eq!(
///     Wind::event_type().to_string(),
///     "struct Wind { double speed; double direction; string station; sequence<float> gusts; }"
/// );
/// ```
///
/// What members can be: see [`Field`]. Structs and enums within events have the derive, too. Attributes of the struct or enum:
///
/// - `#[event(name = "wind_v2")]`: the type's name; default the Rust name.
/// - `#[event(domain = "ALMA")]`: the domain of its events; default what the settings say.
/// - `#[event(module = "weather")]`: the module in which an IDL would have it, as `weather` or `obs::weather`: it is in the repository id,
///   `IDL:obs/weather/Wind:1.0`.
/// - `#[event(id = "IDL:alma/acs/Wind:1.0")]`: the repository id itself.
///
/// And of a member or an enum's label: `#[event(name = "speed_m_s")]`; of a member also `#[event(default)]` or
/// `#[event(default = 3.5)]`: what a consumer gets where the supplier's type has no such member.
pub trait Event: Field + 'static {
    /// The domain of its events; `None` for the one that the settings say.
    const DOMAIN: Option<&'static str>;
    /// The name of its events' type.
    const NAME: &'static str;

    /// The type.
    fn event_type() -> &'static TypeCode;
}

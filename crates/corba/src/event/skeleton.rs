//! The common part of events that differ only in the value of their body.
//!
//! A supplier's events usually begin with the same octets, from their type's names to the type of their body. Those octets are read once;
//! for an event with the same beginning only the value is checked.

use super::{FORM_STRUCTURED, Header, Known, skip_properties};
use engine::{Form, Reliability};
use giop::cdr::{ReadError, Reader};
use giop::recode::{Shape, any_shape, skip_value_of_checked};
use giop::typecode::Work;
use std::time::Duration;

/// The known beginning of an event: see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skeleton {
    /// Number of common octets: up to the value.
    pub length: usize,
    /// Position of the value's type.
    type_at: usize,
    shape: Shape,
    /// Whether something is aligned to 8: in front of the value, or, if that is constant, in the value too.
    has_eights: bool,
    priority: Option<i16>,
    timeout: Option<Duration>,
    reliability: Option<Reliability>,
}

impl Skeleton {
    /// The skeleton of an event that was read to its end, with its `header`. `None` for an event with a start or stop time, which depends
    /// on the clock, or with invalid quality of service, which is counted each time.
    ///
    /// # Errors
    ///
    /// The event was not read to its end, or exceeds `work`.
    pub fn of(form: Form, event: &Reader<'_>, header: &Header<'_>, work: &mut Work) -> Result<Option<Self>, ReadError> {
        if header.start.is_some() || header.stop.is_some() || header.has_wrong_property {
            return Ok(None);
        }
        let mut rest = event.clone();
        if form == FORM_STRUCTURED {
            for _ in 0..3 {
                rest.string()?;
            }
            skip_properties(&mut rest, work)?;
            skip_properties(&mut rest, work)?;
        }
        let type_at = rest.position() - event.position();
        let eights_before = rest.has_eights();
        let (type_length, shape) = any_shape(&mut rest, work)?;
        let has_eights = if shape == Shape::Varying { eights_before } else { rest.has_eights() };
        let Header { priority, timeout, reliability, .. } = *header;
        Ok(Some(Self { length: type_at + type_length, type_at, shape, has_eights, priority, timeout, reliability }))
    }

    /// The known properties of an event with the same beginning. `None` if the rest is not as required.
    #[inline]
    #[must_use]
    pub fn known(&self, event: &Reader<'_>, work: &mut Work) -> Option<Known> {
        let mut value = event.clone().without_eights();
        value.take(self.length).ok()?;
        match self.shape {
            Shape::Octets => value.octets().map(|_| ()).ok()?,
            Shape::Text => value.string().map(|_| ()).ok()?,
            Shape::Fixed(octets) => value.take(octets).map(|_| ()).ok()?,
            Shape::Varying => {
                let mut type_code = event.clone();
                type_code.take(self.type_at).ok()?;
                skip_value_of_checked(type_code, &mut value, work).ok()?;
            }
        }
        let length = value.position() - event.position();
        Some(Known { length, is_plain: !self.says_quality(), is_loose: !self.has_eights && !value.has_eights() })
    }

    const fn says_quality(&self) -> bool {
        self.priority.is_some() || self.timeout.is_some() || self.reliability.is_some()
    }

    /// The quality of service of its header.
    #[inline]
    #[must_use]
    pub fn header(&self) -> Header<'static> {
        let Self { priority, timeout, reliability, .. } = *self;
        Header { priority, timeout, reliability, has_properties: self.says_quality(), ..Header::default() }
    }
}

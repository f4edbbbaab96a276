//! Limits of the work on bytes from strangers.

use crate::cdr::{ReadError, ReadErrorKind};

/// Bounds a walk over types and values, in steps and in depth.
///
/// A few octets of type can describe values without end: an array of four thousand million empty structures, a type with members that
/// double at every level, a structure that contains itself. So each type, member, element and label that is read costs one step, whatever
/// its size; a contiguous copy or skip costs one step as a whole. When the steps are spent the walk ends with
/// [`ReadErrorKind::TooMuchWork`]; beyond the depth it ends with [`ReadErrorKind::TooDeep`].
///
/// One `Work` can serve several walks, which then share its steps: all the values of one message, say.
#[derive(Clone, Debug)]
pub struct Work {
    steps: u32,
    depth: u32,
}

impl Default for Work {
    /// 1,048,576 steps (some milliseconds at worst) and a depth of 128.
    fn default() -> Self {
        Self::new(1 << 20, 128)
    }
}

impl Work {
    /// Grants `steps` steps at a depth of at most `depth` types or values within each other.
    ///
    /// A walk recurses, and a level takes up to a few hundred octets of stack, more without optimisation.
    #[must_use]
    pub const fn new(steps: u32, depth: u32) -> Self {
        Self { steps, depth }
    }

    /// Steps left.
    #[must_use]
    pub const fn steps_left(&self) -> u32 {
        self.steps
    }

    /// Spends steps on work done elsewhere. Returns whether there were as many; if not, none are left.
    #[must_use]
    pub fn spend(&mut self, steps: u32) -> bool {
        let suffices = self.steps >= steps;
        self.steps = self.steps.saturating_sub(steps);
        suffices
    }

    /// Spends one step for the item at `offset`.
    #[inline]
    pub(crate) fn step(&mut self, offset: usize) -> Result<(), ReadError> {
        match self.steps.checked_sub(1) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => Err(ReadError { offset, kind: ReadErrorKind::TooMuchWork }),
        }
    }

    /// Spends several steps at once.
    pub(crate) fn steps(&mut self, steps: usize, offset: usize) -> Result<(), ReadError> {
        match u32::try_from(steps).ok().and_then(|steps| self.steps.checked_sub(steps)) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => Err(ReadError { offset, kind: ReadErrorKind::TooMuchWork }),
        }
    }

    /// One level below `depth`.
    #[inline]
    pub(crate) fn deeper(&self, depth: u32, offset: usize) -> Result<u32, ReadError> {
        if depth < self.depth { Ok(depth + 1) } else { Err(ReadError { offset, kind: ReadErrorKind::TooDeep }) }
    }
}

//! Values copied from one encoding to another.

//! Values that carry their type.

//! The messages of GIOP.

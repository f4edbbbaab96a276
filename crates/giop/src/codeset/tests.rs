//! Tests of code sets.

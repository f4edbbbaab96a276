//! Tests of URLs.

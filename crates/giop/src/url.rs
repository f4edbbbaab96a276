//! Object references as URLs.
